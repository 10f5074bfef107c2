//! Pools and addresses of address plugins: taken, and given back.

use super::endpoint::doc::Lease;
use super::endpoint::store::{EndpointStore, read};
use super::pending_leases::{PendingLease, PendingLeases, of_killed};
use super::register::Register;
use super::spec::{AddressDriver, Network};
use super::subnet::Subnet;
use crate::error::{Error, ErrorKind, Result};
use crate::model::{EndpointSettings, IpamPool, StringMap};
use crate::plugin::{Plugin, Plugins};
use serde::Deserialize;
use serde_json::{Value, json};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct PoolAnswer {
    #[serde(rename = "PoolID")]
    pool_id: String,
    pool: String,
    data: Option<StringMap>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct AddressAnswer {
    address: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct Spaces {
    local_default_address_space: String,
}

const GATEWAY: &str = "com.docker.network.gateway";

/// The pools and addresses of networks whose addresses come from a plugin.
pub(crate) struct Leases {
    pub(super) register: Arc<Register>,
    pub(super) endpoint_store: Arc<EndpointStore>,
    pub(super) plugins: Arc<Plugins>,
    /// The root's run directory.
    pub(super) run: PathBuf,
}

impl Leases {
    /// The address plugin of a network; `None`: the network has none.
    pub(super) fn plugin(&self, network: &Network) -> Result<Option<Plugin>> {
        match network.address_driver() {
            AddressDriver::Engine | AddressDriver::Null => Ok(None),
            AddressDriver::Plugin(name) => self.plugins.find(name, "IpamDriver").map(Some),
        }
    }

    /// Begins an operation that may take addresses.
    pub(super) fn pending(&self) -> PendingLeases {
        PendingLeases::new(&self.run)
    }

    /// Takes the pools of a new network, with their gateways, from its plugin.
    pub(super) fn take_pools(&self, ipam: &Plugin, network: &mut Network, pending: &mut PendingLeases) -> Result<()> {
        let spaces: Spaces = ipam.call("IpamDriver.GetDefaultAddressSpaces", &Value::Null)?;
        let mut asked = std::mem::take(&mut network.spec.ipam.config);
        let is_v6 = |pool: &IpamPool| Subnet::parse(&pool.subnet).is_ok_and(|subnet| subnet.is_v6());
        if asked.iter().all(is_v6) {
            asked.insert(0, IpamPool::default());
        }
        for pool in asked {
            let v6 = is_v6(&pool);
            let body = json!({
                "AddressSpace": spaces.local_default_address_space, "Pool": pool.subnet, "SubPool": pool.ip_range,
                "Options": network.spec.ipam.options, "V6": v6,
            });
            let got: PoolAnswer = ipam.call("IpamDriver.RequestPool", &body)?;
            network.spec.pools.push(got.pool_id.clone());
            pending.note(&ipam.name, &got.pool_id, "")?;
            let subnet = Subnet::parse(&got.pool)?;
            let granted = got.data.as_ref().and_then(|data| data.get(GATEWAY)).cloned().unwrap_or_default();
            let gateway = if pool.gateway.is_empty() && !granted.is_empty() {
                granted
            } else {
                let kind = json!({ "RequestAddressType": GATEWAY });
                let given = request_address(ipam, &got.pool_id, &pool.gateway, kind)?;
                pending.note(&ipam.name, &got.pool_id, &given)?;
                given
            };
            for address in pool.auxiliary_addresses.values() {
                let given = request_address(ipam, &got.pool_id, address, Value::Null)?;
                pending.note(&ipam.name, &got.pool_id, &given)?;
            }
            let bare = gateway.split('/').next().unwrap_or_default().to_owned();
            network.spec.ipam.config.push(IpamPool { subnet: subnet.to_string(), gateway: bare, ..pool });
        }
        Ok(())
    }

    /// Gives the pools of a network back. Best effort: a plugin that is gone has no pools any more.
    pub(super) fn give_back_pools(&self, network: &Network) {
        if network.spec.pools.is_empty() {
            return;
        }
        let Ok(Some(ipam)) = self.plugin(network) else { return };
        for (at, pool) in network.spec.pools.iter().enumerate() {
            // A pool that the plugin gave, but whose addresses are not noted yet, has none.
            let config = network.spec.ipam.config.get(at).filter(|config| !config.subnet.is_empty());
            let auxiliary = config.into_iter().flat_map(|config| config.auxiliary_addresses.values());
            let gateway = config.map(|config| &config.gateway).filter(|gateway| !gateway.is_empty());
            for address in gateway.into_iter().chain(auxiliary) {
                let _ = ipam.call::<Value>("IpamDriver.ReleaseAddress", &json!({ "PoolID": pool, "Address": address }));
            }
            let _ = ipam.call::<Value>("IpamDriver.ReleasePool", &json!({ "PoolID": pool }));
        }
    }

    /// Takes the addresses of an endpoint from the network's plugin; none where the network has no plugin.
    pub(super) fn take(
        &self,
        network: &Network,
        asked: &EndpointSettings,
        mac: &str,
        pending: &mut PendingLeases,
    ) -> Result<Vec<Lease>> {
        let Some(ipam) = self.plugin(network)? else { return Ok(Vec::new()) };
        let wanted = asked.ipam_config.clone().unwrap_or_default();
        let mut leases = Vec::new();
        let mut seen = [false; 2];
        for (pool, id) in network.spec.ipam.config.iter().zip(&network.spec.pools) {
            let subnet = Subnet::parse(&pool.subnet)?;
            let v6 = subnet.is_v6();
            let address = if v6 { &wanted.ipv6_address } else { &wanted.ipv4_address };
            // The first pool of the family, or the pool of the requested address.
            let other = address.parse::<IpAddr>().is_ok_and(|ip| !subnet.contains(ip));
            if other || std::mem::replace(&mut seen[usize::from(v6)], true) {
                continue;
            }
            let options = json!({ "com.docker.network.endpoint.macaddress": mac });
            let got = request_address(&ipam, id, address, options).and_then(|address| {
                leases.push(Lease { pool: id.clone(), address: address.clone() });
                pending.note(&ipam.name, id, &address)
            });
            if let Err(error) = got {
                self.give_back(network, &leases);
                return Err(error);
            }
        }
        Ok(leases)
    }

    /// Gives addresses back. Best effort: a plugin that is gone has no addresses any more.
    pub(super) fn give_back(&self, network: &Network, leases: &[Lease]) {
        self.give_back_with(&self.plugins, network, leases);
    }

    /// Gives addresses back; answers whether the plugin answered, or is not there.
    pub(super) fn give_back_with(&self, plugins: &Plugins, network: &Network, leases: &[Lease]) -> bool {
        let (AddressDriver::Plugin(name), false) = (network.address_driver(), leases.is_empty()) else { return true };
        let ipam = match plugins.find(name, "IpamDriver") {
            Ok(ipam) => ipam,
            Err(error) => return !is_silent(&error),
        };
        for lease in leases {
            let address = lease.address.split('/').next().unwrap_or_default();
            let body = json!({ "PoolID": lease.pool, "Address": address });
            if ipam.call::<Value>("IpamDriver.ReleaseAddress", &body).is_err_and(|error| is_silent(&error)) {
                return false;
            }
        }
        true
    }

    /// Gives back the addresses that plugins gave to programs that were killed. If a plugin is not there, a later call does
    /// it.
    pub(super) fn release_pending(&self) -> Result<()> {
        of_killed(&self.run, |leases| self.release_one(leases))
    }

    /// Gives back the leases that no row has; answers whether it is done.
    fn release_one(&self, pending: &[PendingLease]) -> Result<bool> {
        let networks = self.register.all()?;
        let mut leases = Vec::new();
        for row in self.endpoint_store.rows()? {
            leases.extend(read(&row)?.leases);
        }
        for one in pending.iter().rev() {
            let written = |network: &&Network| {
                network.address_driver() == AddressDriver::Plugin(&one.plugin) && network.spec.pools.contains(&one.pool)
            };
            let network = networks.iter().find(written);
            let bare = one.address.split('/').next().unwrap_or_default();
            let of_network = network.is_some_and(|network| {
                let mut pools = network.spec.ipam.config.iter();
                pools.any(|pool| pool.gateway == bare || pool.auxiliary_addresses.values().any(|ip| ip == bare))
            });
            let leased = leases.iter().any(|lease| lease.pool == one.pool && lease.address == one.address);
            if if bare.is_empty() { network.is_some() } else { of_network || leased } {
                continue;
            }
            let Ok(ipam) = self.plugins.hurried().find(&one.plugin, "IpamDriver") else { return Ok(false) };
            // Best effort, as each time that an address is given back.
            let _ = match bare {
                "" => ipam.call::<Value>("IpamDriver.ReleasePool", &json!({ "PoolID": one.pool })),
                _ => ipam.call::<Value>("IpamDriver.ReleaseAddress", &json!({ "PoolID": one.pool, "Address": bare })),
            };
        }
        Ok(true)
    }
}

/// Whether an error says that a plugin is there and does not answer.
pub(super) fn is_silent(error: &Error) -> bool {
    error.kind() == ErrorKind::Timeout
}

fn request_address(ipam: &Plugin, pool: &str, address: &str, options: Value) -> Result<String> {
    let body = json!({ "PoolID": pool, "Address": address, "Options": options });
    let got: AddressAnswer = ipam.call("IpamDriver.RequestAddress", &body)?;
    Subnet::parse_with_address(&got.address)?;
    Ok(got.address)
}
