//! Networks as clients see them.

use super::address::Pool;
use super::endpoint::doc::EndpointDoc;
use super::endpoint::store::{EndpointStore, read};
use super::register::Register;
use super::spec::{Network, PREDEFINED};
use crate::error::{Error, Result};
use crate::model::{
    EndpointSettings, IpamStatus, ListNetworks, NetworkDetail, NetworkMember, NetworkStatus, SubnetStatus,
};
use crate::order::Order as _;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

/// Shows networks.
pub(crate) struct Listing {
    pub(super) register: Arc<Register>,
    pub(super) endpoint_store: Arc<EndpointStore>,
}

impl Listing {
    /// Everything about one network.
    pub(crate) fn inspect(&self, reference: &str) -> Result<NetworkDetail> {
        let network = self.register.find(reference)?;
        let (containers, held) = self.members(&network)?;
        let status = NetworkStatus { ipam: IpamStatus { subnets: use_of_subnets(&network, &held)? } };
        Ok(NetworkDetail { status: Some(status), ..detail(network, containers) })
    }

    /// The running containers of a network, and the addresses that they hold.
    fn members(&self, network: &Network) -> Result<(BTreeMap<String, NetworkMember>, Vec<IpAddr>)> {
        let (mut containers, mut held) = (BTreeMap::new(), Vec::new());
        for row in self.endpoint_store.of_network(network)? {
            if row.left_ns == 0 && self.register.is_live(row.slot)? {
                let doc = read(&row)?;
                held.extend([doc.v4, doc.v6].into_iter().flatten());
                containers.insert(row.container_id.clone(), member(&doc));
            }
        }
        Ok((containers, held))
    }

    /// Lists networks. Errors: a filter is unknown, or has a value that it does not allow.
    pub(crate) fn list(&self, query: &ListNetworks) -> Result<Vec<NetworkDetail>> {
        check(query)?;
        let mut found = Vec::new();
        for network in self.register.all()? {
            if fits(&network, query) {
                let (containers, _) = self.members(&network)?;
                found.push(detail(network, containers));
            }
        }
        found.order_by(|a, b| a.name.cmp(&b.name).then_with(|| a.id.cmp(&b.id)));
        match query.filters.get("dangling") {
            None => Ok(found),
            Some(values) => {
                let wanted = values.iter().any(|value| matches!(value.as_str(), "true" | "1"));
                let predefined = |n: &NetworkDetail| PREDEFINED.iter().any(|(name, _)| *name == n.name);
                found.retain(|n| (n.containers.is_empty() && !predefined(n)) == wanted);
                Ok(found)
            }
        }
    }
}

/// The use of each subnet of a network whose containers hold these addresses. Another program counts those of a driver.
fn use_of_subnets(network: &Network, held: &[IpAddr]) -> Result<BTreeMap<String, SubnetStatus>> {
    if network.has_foreign_addresses() {
        return Ok(BTreeMap::new());
    }
    let pools = Pool::of(network)?;
    Ok(pools.iter().map(|pool| (pool.subnet.to_string(), pool.use_with(held))).collect())
}

fn check(query: &ListNetworks) -> Result<()> {
    const KNOWN: [&str; 7] = ["dangling", "driver", "id", "label", "name", "scope", "type"];
    if let Some(unknown) = query.filters.keys().find(|key| !KNOWN.contains(&key.as_str())) {
        return Err(Error::invalid(format!("Invalid filter '{unknown}'")));
    }
    let values = |key: &str| query.filters.get(key).into_iter().flatten();
    if let Some(bad) = values("type").find(|kind| !matches!(kind.as_str(), "custom" | "builtin")) {
        return Err(Error::internal_as_dockerd("network", format!("Invalid filter: 'type'='{bad}'")));
    }
    if let Some(bad) = values("dangling").find(|value| !matches!(value.as_str(), "true" | "1" | "false" | "0")) {
        return Err(Error::invalid(format!("Invalid filter 'dangling={bad}'")));
    }
    Ok(())
}

fn fits(network: &Network, query: &ListNetworks) -> bool {
    let any = |key: &str, fit: &dyn Fn(&str) -> bool| {
        query.filters.get(key).is_none_or(|values| values.is_empty() || values.iter().any(|value| fit(value)))
    };
    let pattern = |text: &str, value: &str| {
        text == value || regex_lite::Regex::new(value).is_ok_and(|pattern| pattern.is_match(text))
    };
    let label = |wanted: &str| {
        let (key, value) = wanted.split_once('=').map_or((wanted, None), |(key, value)| (key, Some(value)));
        network.spec.labels.get(key).is_some_and(|has| value.is_none_or(|value| value == has))
    };
    let labels = query.filters.get("label").is_none_or(|all| all.iter().all(|wanted| label(wanted)));
    any("name", &|value| pattern(&network.name, value))
        && any("id", &|value| pattern(&network.id, value))
        && any("driver", &|value| network.spec.driver.name() == value)
        && any("scope", &|value| value == if network.spec.scope.is_empty() { "local" } else { &network.spec.scope })
        && any("type", &|value| (value == "builtin") == network.is_predefined())
        && labels
}

fn detail(network: Network, containers: BTreeMap<String, NetworkMember>) -> NetworkDetail {
    let is_default = network.is_default();
    let mut spec = network.spec;
    if is_default && !spec.bridge.is_empty() {
        spec.options.insert("com.docker.network.bridge.name".into(), spec.bridge.clone());
    }
    NetworkDetail {
        name: network.name,
        id: network.id,
        created: crate::time::rfc3339_nano(network.created_ns),
        scope: if spec.scope.is_empty() { "local".into() } else { spec.scope },
        driver: spec.driver.into(),
        enable_ipv4: true,
        enable_ipv6: spec.enable_ipv6,
        ipam: spec.ipam,
        internal: spec.internal,
        attachable: spec.attachable,
        containers,
        options: spec.options,
        labels: spec.labels,
        ..NetworkDetail::default()
    }
}

fn member(doc: &EndpointDoc) -> NetworkMember {
    let cidr = |ip: Option<IpAddr>, prefix: u8| ip.map_or(String::new(), |ip| format!("{ip}/{prefix}"));
    NetworkMember {
        name: doc.name.clone(),
        endpoint_id: doc.id.clone(),
        mac_address: doc.mac.clone(),
        ipv4_address: cidr(doc.v4, doc.v4_prefix),
        ipv6_address: cidr(doc.v6, doc.v6_prefix),
    }
}

impl EndpointDoc {
    /// The settings that inspect of a running container shows; `asked` are those of its request.
    pub(crate) fn settings(&self, network: &str, asked: &EndpointSettings) -> EndpointSettings {
        let text = |ip: Option<IpAddr>| ip.map_or(String::new(), |ip| ip.to_string());
        EndpointSettings {
            ipam_config: asked.ipam_config.clone(),
            links: asked.links.clone(),
            aliases: if self.aliases.is_empty() { asked.aliases.clone() } else { Some(self.aliases.clone()) },
            network_id: network.to_owned(),
            endpoint_id: self.id.clone(),
            gateway: text(self.v4_gateway),
            ip_address: text(self.v4),
            ip_prefix_len: i64::from(self.v4_prefix),
            ipv6_gateway: text(self.v6_gateway),
            global_ipv6_address: text(self.v6),
            global_ipv6_prefix_len: i64::from(self.v6_prefix),
            mac_address: self.mac.clone(),
            driver_opts: asked.driver_opts.clone(),
            gw_priority: asked.gw_priority,
            // Only neighbours on networks of one's own ask for names.
            dns_names: (!self.hostname.is_empty()).then(|| self.dns_names()),
        }
    }
}
