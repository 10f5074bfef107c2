//! Remote drivers: plugins that make the interfaces of networks.
//!
//! The program that starts, connects or removes a container calls the plugin. The resources of a container that ended while
//! no program was there are given back by the next one ([`RemoteDrivers::release`]).

use super::endpoint::doc::{EndpointDoc, RemoteEnd, parse_mac};
use super::endpoint::joined::Joining;
use super::endpoint::options::EndpointOptions;
use super::endpoint::store::{EndpointStore, read, row};
use super::leases::{Leases, is_silent};
use super::links::find_link;
use super::pending_leases::PendingLeases;
use super::ports::parse as parse_port;
use super::register::Register;
use super::spec::{AddressDriver, Network};
use super::subnet::Subnet;
use crate::error::{Error, ErrorKind, Result};
use crate::model::Bindings;
use crate::plugin::{Plugin, Plugins};
use crate::store::Flush;
use crate::store::networks::{self as table, EndpointRow};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct Interface {
    address: String,
    #[serde(rename = "AddressIPv6")]
    address_ipv6: String,
    mac_address: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct Created {
    interface: Option<Interface>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct InterfaceName {
    src_name: String,
    dst_prefix: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct Route {
    destination: String,
    route_type: i64,
    next_hop: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct JoinAnswer {
    interface_name: InterfaceName,
    gateway: String,
    #[serde(rename = "GatewayIPv6")]
    gateway_ipv6: String,
    static_routes: Option<Vec<Route>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct Capabilities {
    scope: String,
}

/// The networks and endpoints of drivers that are plugins.
pub(crate) struct RemoteDrivers {
    pub(super) register: Arc<Register>,
    pub(super) endpoint_store: Arc<EndpointStore>,
    pub(super) leases: Arc<Leases>,
    pub(super) plugins: Arc<Plugins>,
    /// The root's run directory.
    pub(super) run: PathBuf,
}

impl RemoteDrivers {
    fn plugin(&self, network: &Network) -> Result<Plugin> {
        self.plugins.find(network.spec.driver.name(), "NetworkDriver")
    }

    /// Checks that a plugin is there.
    pub(super) fn check(&self, name: &str) -> Result<()> {
        self.plugins.find(name, "NetworkDriver").map(drop)
    }

    /// Asks the plugins of a network that is about to be made for its scope and its pools.
    pub(super) fn ask(&self, network: &mut Network, pending: &mut PendingLeases) -> Result<()> {
        if network.is_remote() {
            let answer: Capabilities = self.plugin(network)?.call("NetworkDriver.GetCapabilities", &Value::Null)?;
            network.spec.scope = if answer.scope == "global" { answer.scope } else { String::new() };
        }
        if network.address_driver() == AddressDriver::Null && !network.is_remote() {
            return Err(Error::internal_as_dockerd("network", "ipv4 pool is empty"));
        }
        let Some(ipam) = self.leases.plugin(network)? else { return Ok(()) };
        let taken = self.leases.take_pools(&ipam, network, pending);
        if taken.is_err() {
            self.leases.give_back_pools(network);
        }
        taken
    }

    /// Notifies the driver of a new network.
    pub(super) fn make(&self, network: &Network) -> Result<()> {
        let mut data: BTreeMap<bool, Vec<Value>> = BTreeMap::new();
        for pool in &network.spec.ipam.config {
            let subnet = Subnet::parse(&pool.subnet)?;
            let gateway = match pool.gateway.as_str() {
                "" => String::new(),
                gateway => format!("{gateway}/{}", subnet.prefix()),
            };
            data.entry(subnet.is_v6()).or_default().push(json!({
                "AddressSpace": "LocalDefault", "Pool": pool.subnet, "Gateway": gateway,
                "AuxAddresses": pool.auxiliary_addresses,
            }));
        }
        if network.address_driver() == AddressDriver::Null {
            data.entry(false).or_default().push(json!({ "AddressSpace": "null", "Pool": "0.0.0.0/0", "Gateway": "" }));
        }
        let body = json!({
            "NetworkID": network.id,
            "Options": {
                "com.docker.network.generic": network.spec.options,
                "com.docker.network.enable_ipv6": network.spec.enable_ipv6,
                "com.docker.network.internal": network.spec.internal,
            },
            "IPv4Data": data.remove(&false).unwrap_or_default(),
            "IPv6Data": data.remove(&true).unwrap_or_default(),
        });
        self.plugin(network)?.call::<Value>("NetworkDriver.CreateNetwork", &body).map(drop)
    }

    /// Notifies the driver that a network is gone, and gives its pools back.
    pub(super) fn unmake(&self, network: &Network) {
        if network.is_remote() {
            // Best effort, as in dockerd: a driver that is gone, or was notified already, must not keep the network.
            if let Ok(driver) = self.plugin(network) {
                let _ = driver.call::<Value>("NetworkDriver.DeleteNetwork", &json!({ "NetworkID": network.id }));
            }
        }
        self.leases.give_back_pools(network);
    }

    /// Has the driver make the interface of an endpoint, and notes its answer in the document. On error the caller must
    /// detach the endpoint. The answer is the beginning of the interface's name in the container, if the driver names one;
    /// the interface gets its number later.
    pub(super) fn join(
        &self,
        container: &Joining<'_>,
        network: &Network,
        doc: &mut EndpointDoc,
    ) -> Result<Option<String>> {
        let driver = self.plugin(network)?;
        create_end(&driver, container, network, doc)?;
        let key = self.run.join("c").join(container.id).join("netns");
        let body = json!({ "NetworkID": network.id, "EndpointID": doc.id, "SandboxKey": key, "Options": {} });
        let joined: JoinAnswer = driver.call("NetworkDriver.Join", &body)?;
        (doc.v4_gateway, doc.v6_gateway) = (gateway(&joined.gateway)?, gateway(&joined.gateway_ipv6)?);
        let routes = routes(joined.static_routes.unwrap_or_default())?;
        let source = joined.interface_name.src_name;
        if !source.is_empty() && find_link(&source)?.is_none() {
            let driver = &network.spec.driver;
            return Err(Error::internal_as_dockerd(
                "network",
                format!("NetworkDriver.Join: the interface {source} of driver {driver} is not there"),
            ));
        }
        doc.remote = Some(RemoteEnd { source, routes, ports: publish_end(&driver, container, network, doc)? });
        Ok(Some(joined.interface_name.dst_prefix)
            .filter(|text| !text.is_empty() && text.len() < 12 && text.bytes().all(|b| b.is_ascii_alphanumeric())))
    }

    /// Gives back to plugins the resources of a container that does not run. The caller holds the container. Best effort: a
    /// plugin that is not there has no resources any more.
    pub(crate) fn release(&self, container: &str) -> Result<()> {
        for stored in self.register.db.read(|tx| table::of_container(tx, container))? {
            if !self.release_one(&self.plugins, &stored)? {
                let text = "a plugin does not answer: what the container had of it is not given back";
                return Err(Error::internal_as_dockerd("network", text));
            }
        }
        Ok(())
    }

    /// Gives back the resources of one endpoint; answers whether it is done. It is not if a plugin is there and does not
    /// answer.
    fn release_one(&self, plugins: &Plugins, stored: &EndpointRow) -> Result<bool> {
        let doc = read(stored)?;
        if doc.remote.is_none() && doc.leases.is_empty() {
            return Ok(true);
        }
        if let Ok(network) = self.register.find(&stored.network_id)
            && !self.detach_with(plugins, &network, &doc)
        {
            return Ok(false);
        }
        self.register.db.write(Flush::Lazy, |tx| {
            // The calls took time: the row is changed only if it still is the same endpoint.
            let now = table::of_container(tx, &stored.container_id)?;
            for again in now.into_iter().filter(|again| again.network_id == stored.network_id) {
                let mut changed = read(&again)?;
                if changed.id == doc.id {
                    (changed.remote, changed.leases) = (None, Vec::new());
                    let released = row(&again.network_id, &again.container_id, again.slot, &changed)?;
                    table::put_endpoint(tx, &EndpointRow { left_ns: again.left_ns, ..released })?;
                }
            }
            Ok(())
        })?;
        Ok(true)
    }

    /// Gives back the resources of a container if no program holds the container and it does not run.
    pub(crate) fn release_idle(&self, slot: u32, container: &str) -> Result<()> {
        let Some(_busy) = self.register.states.locks.try_busy(slot)? else { return Ok(()) };
        if self.register.states.now(slot, container)?.is_live() { Ok(()) } else { self.release(container) }
    }

    /// Gives back the resources of all containers that do not run. A network whose plugin does not answer soon is left to a
    /// later call: an open of the root must not wait long for a plugin.
    pub(super) fn release_all(&self) -> Result<()> {
        self.leases.release_pending()?;
        let plugins = self.plugins.hurried();
        let mut silent: Vec<String> = Vec::new();
        for stored in self.endpoint_store.rows()? {
            let of_plugins = stored.doc.contains("\"remote\":{") || stored.doc.contains("\"leases\":[{");
            if !of_plugins || silent.contains(&stored.network_id) {
                continue;
            }
            if stored.left_ns != 0 {
                // The row's container is removed: another container may have the slot.
                if !self.release_one(&plugins, &stored)? {
                    silent.push(stored.network_id);
                }
                continue;
            }
            if self.register.is_live(stored.slot)? {
                continue;
            }
            if let Ok(network) = self.register.find(&stored.network_id)
                && network.is_remote()
                && plugins.find(network.spec.driver.name(), "NetworkDriver").is_err()
            {
                silent.push(stored.network_id);
                continue;
            }
            let states = &self.register.states;
            let Some(_busy) = states.locks.try_busy(stored.slot)? else { continue };
            if !states.now(stored.slot, &stored.container_id)?.is_live() && !self.release_one(&plugins, &stored)? {
                silent.push(stored.network_id);
            }
        }
        Ok(())
    }

    /// Has the plugins remove an endpoint, and gives its addresses back. Best effort: a plugin that is not there has no
    /// endpoint any more.
    pub(crate) fn detach(&self, network: &Network, doc: &EndpointDoc) {
        self.detach_with(&self.plugins, network, doc);
    }

    /// As [`RemoteDrivers::detach`]; answers whether the plugins answered, or are not there.
    fn detach_with(&self, plugins: &Plugins, network: &Network, doc: &EndpointDoc) -> bool {
        if let Some(end) = &doc.remote {
            let driver = match plugins.find(network.spec.driver.name(), "NetworkDriver") {
                Ok(driver) => Some(driver),
                Err(error) if is_silent(&error) => return false,
                Err(_) => None,
            };
            let body = json!({ "NetworkID": network.id, "EndpointID": doc.id });
            let revoke = end.ports.then_some("RevokeExternalConnectivity");
            for method in revoke.into_iter().chain(["Leave", "DeleteEndpoint"]) {
                let method = format!("NetworkDriver.{method}");
                let called = driver.as_ref().map_or(Ok(Value::Null), |driver| driver.call::<Value>(&method, &body));
                if called.is_err_and(|error| is_silent(&error)) {
                    return false;
                }
            }
        }
        self.leases.give_back_with(plugins, network, &doc.leases)
    }
}

/// Gives interfaces the names that their drivers ask for, and numbers each kind by itself.
pub(super) fn number_interfaces(docs: &mut [EndpointDoc], prefixes: &[Option<String>]) -> Result<()> {
    let named = |doc: &EndpointDoc| Ok(EndpointOptions::parse(&doc.options)?.interface);
    let named = docs.iter().map(named).collect::<Result<Vec<Option<String>>>>()?;
    let is_taken = |name: &str| named.iter().flatten().any(|taken| taken == name);
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for ((doc, prefix), own) in docs.iter_mut().zip(prefixes).zip(&named) {
        let prefix = prefix.as_deref().unwrap_or("eth");
        let number = counts.entry(prefix).or_default();
        while own.is_none() && is_taken(&format!("{prefix}{number}")) {
            *number += 1;
        }
        doc.interface = own.clone().unwrap_or_else(|| format!("{prefix}{number}"));
        *number += usize::from(own.is_none());
    }
    Ok(())
}

/// Has the driver make an endpoint. The driver may choose the addresses that are not decided yet, and no others.
fn create_end(driver: &Plugin, container: &Joining<'_>, network: &Network, doc: &mut EndpointDoc) -> Result<()> {
    let cidr = |ip: Option<IpAddr>, prefix: u8| ip.map_or(String::new(), |ip| format!("{ip}/{prefix}"));
    let mut options = json!({
        "com.docker.network.endpoint.exposedports": exposed(container),
        "com.docker.network.portmap": portmap(container),
    });
    for (key, value) in &doc.options {
        options[key] = json!(value);
    }
    let body = json!({
        "NetworkID": network.id, "EndpointID": doc.id,
        "Interface": {
            "Address": cidr(doc.v4, doc.v4_prefix), "AddressIPv6": cidr(doc.v6, doc.v6_prefix),
            "MacAddress": doc.mac,
        },
        "Options": options,
    });
    let created: Created = driver.call("NetworkDriver.CreateEndpoint", &body)?;
    let interface = created.interface.unwrap_or_default();
    let answered = |text: &str, what: &str| -> Result<Option<(IpAddr, u8)>> {
        if text.is_empty() {
            return Ok(None);
        }
        let (subnet, ip) = Subnet::parse_with_address(text)?;
        let open = if ip.is_ipv4() { doc.v4.is_none() } else { doc.v6.is_none() };
        match open {
            true => Ok(Some((ip, subnet.prefix()))),
            false => Err(Error::internal_as_dockerd(
                "network",
                format!("NetworkDriver.CreateEndpoint: the driver changed the {what} to {text}"),
            )),
        }
    };
    let (v4, v6) = (answered(&interface.address, "address")?, answered(&interface.address_ipv6, "IPv6 address")?);
    if let Some((ip, prefix)) = v4 {
        (doc.v4, doc.v4_prefix) = (Some(ip), prefix);
    }
    if let Some((ip, prefix)) = v6 {
        (doc.v6, doc.v6_prefix) = (Some(ip), prefix);
    }
    if doc.mac.is_empty() && !interface.mac_address.is_empty() {
        parse_mac(&interface.mac_address)?;
        doc.mac = interface.mac_address;
    }
    Ok(())
}

/// Has the driver publish the container's ports; answers whether it does that.
fn publish_end(driver: &Plugin, container: &Joining<'_>, network: &Network, doc: &EndpointDoc) -> Result<bool> {
    if container.bindings.is_empty() && !container.publish_all {
        return Ok(false);
    }
    let body = json!({
        "NetworkID": network.id, "EndpointID": doc.id,
        "Options": {
            "com.docker.network.portmap": portmap(container),
            "com.docker.network.endpoint.exposedports": exposed(container),
        },
    });
    match driver.call::<Value>("NetworkDriver.ProgramExternalConnectivity", &body) {
        Ok(_) => Ok(true),
        // This call is an addition to the protocol: drivers need not know it.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn exposed(container: &Joining<'_>) -> Vec<Value> {
    container.exposed.iter().filter_map(|port| transport_port(&port)).collect()
}

fn gateway(text: &str) -> Result<Option<IpAddr>> {
    let bad = |_| Error::internal_as_dockerd("network", format!("NetworkDriver.Join: {text:?} is not a gateway"));
    if text.is_empty() { Ok(None) } else { text.parse().map(Some).map_err(bad) }
}

/// Destination, its prefix, and the gateway where the route has one.
fn routes(answered: Vec<Route>) -> Result<Vec<(IpAddr, u8, Option<IpAddr>)>> {
    answered
        .into_iter()
        .map(|route| {
            let via = if route.route_type == 0 { gateway(&route.next_hop)? } else { None };
            let to = Subnet::parse(&route.destination)?;
            Ok((to.base(), to.prefix(), via))
        })
        .collect()
}

fn transport_port(text: &str) -> Option<Value> {
    let (port, protocol) = parse_port(text).ok()?;
    Some(json!({ "Proto": protocol.number(), "Port": port }))
}

fn portmap(container: &Joining<'_>) -> Vec<Value> {
    let mut all = Vec::new();
    for (text, hosts) in container.bindings.iter() {
        let Ok((port, protocol)) = parse_port(&text) else { continue };
        for (ip, host_port) in hosts.into_iter().flat_map(Bindings::iter) {
            let (first, last) = host_port.split_once('-').unwrap_or((&host_port, &host_port));
            all.push(json!({
                "Proto": protocol.number(), "IP": "", "Port": port, "HostIP": &*ip,
                "HostPort": first.parse::<u16>().unwrap_or(0), "HostPortEnd": last.parse::<u16>().unwrap_or(0),
            }));
        }
    }
    all
}
