//! Networks of remote drivers: plugins that make the interfaces, and plugins that give out the addresses.
//!
//! A plugin is called by the program that starts, connects or removes; what a container left that ended while no program
//! was there, the next one takes back from the plugins ([`Networks::settle`]).

use super::Networks;
use super::endpoint::{EndpointDoc, Joining, read, row};
use super::links::find_link;
use super::loans::Loan;
use super::netlink::link::{self, Address, Script};
use super::spec::{Network, as_500};
use super::subnet::Subnet;
use crate::error::{Error, ErrorKind, Result};
use crate::model::{Bindings, EndpointSettings, IpamPool, StringMap};
use crate::plugin::{Plugin, Plugins};
use crate::store::Flush;
use crate::store::networks::{self as table, EndpointRow};
use coracle_monitor::wire::{PATCH_INDEX, PATCH_NETNS};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// An endpoint as a remote driver made it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct RemoteEnd {
    /// The interface that it made, on the host.
    pub source: String,
    pub routes: Vec<(IpAddr, u8, Option<IpAddr>)>,
    /// Ports were told to it.
    pub ports: bool,
}

/// An address that an address plugin gave.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Lease {
    pub pool: String,
    /// With its prefix length.
    pub address: String,
}

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

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct Capabilities {
    scope: String,
}

const GATEWAY: &str = "com.docker.network.gateway";

impl Networks {
    fn driver(&self, network: &Network) -> Result<Plugin> {
        self.plugins.find(network.spec.driver.name(), "NetworkDriver")
    }

    fn ipam(&self, network: &Network) -> Result<Option<Plugin>> {
        match network.spec.ipam.driver.as_str() {
            "" | "default" | "null" => Ok(None),
            name => self.plugins.find(name, "IpamDriver").map(Some),
        }
    }

    /// Asks the plugins of a network that is about to be made: is the driver there, which pools does it get.
    pub(super) fn ask_remote(&self, network: &mut Network, loan: &mut Loan) -> Result<()> {
        if network.is_remote() {
            let answer: Capabilities = self.driver(network)?.call("NetworkDriver.GetCapabilities", &Value::Null)?;
            network.spec.scope = if answer.scope == "global" { answer.scope } else { String::new() };
        }
        if network.spec.ipam.driver == "null" && !network.is_remote() {
            return Err(as_500("ipv4 pool is empty"));
        }
        let Some(ipam) = self.ipam(network)? else { return Ok(()) };
        let taken = self.take_pools(&ipam, network, loan);
        if taken.is_err() {
            self.give_back_pools(network);
        }
        taken
    }

    fn take_pools(&self, ipam: &Plugin, network: &mut Network, loan: &mut Loan) -> Result<()> {
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
            loan.note(&ipam.name, &got.pool_id, "")?;
            let subnet = Subnet::parse(&got.pool)?;
            let told = got.data.as_ref().and_then(|data| data.get(GATEWAY)).cloned().unwrap_or_default();
            let gateway = if pool.gateway.is_empty() && !told.is_empty() {
                told
            } else {
                let kind = json!({ "RequestAddressType": GATEWAY });
                let given = request_address(ipam, &got.pool_id, &pool.gateway, kind)?;
                loan.note(&ipam.name, &got.pool_id, &given)?;
                given
            };
            for address in pool.auxiliary_addresses.values() {
                let given = request_address(ipam, &got.pool_id, address, Value::Null)?;
                loan.note(&ipam.name, &got.pool_id, &given)?;
            }
            let bare = gateway.split('/').next().unwrap_or_default().to_owned();
            network.spec.ipam.config.push(IpamPool { subnet: subnet.to_string(), gateway: bare, ..pool });
        }
        Ok(())
    }

    /// Tells the driver of a new network.
    pub(super) fn make_remote(&self, network: &Network) -> Result<()> {
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
        if network.spec.ipam.driver == "null" {
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
        self.driver(network)?.call::<Value>("NetworkDriver.CreateNetwork", &body).map(drop)
    }

    /// Tells the driver that a network is gone, and gives its pools back.
    pub(super) fn unmake_remote(&self, network: &Network) {
        if network.is_remote() {
            // Best effort, as in the field: a driver that is gone, or was told already, must not keep the network.
            if let Ok(driver) = self.driver(network) {
                let _ = driver.call::<Value>("NetworkDriver.DeleteNetwork", &json!({ "NetworkID": network.id }));
            }
        }
        self.give_back_pools(network);
    }

    /// Best effort: a plugin that is gone has no pools any more.
    pub(super) fn give_back_pools(&self, network: &Network) {
        if network.spec.pools.is_empty() {
            return;
        }
        let Ok(Some(ipam)) = self.ipam(network) else { return };
        for (at, pool) in network.spec.pools.iter().enumerate() {
            // A pool that was given, but not noted with its addresses yet, has none.
            let config = network.spec.ipam.config.get(at).filter(|config| !config.subnet.is_empty());
            let auxiliary = config.into_iter().flat_map(|config| config.auxiliary_addresses.values());
            let gateway = config.map(|config| &config.gateway).filter(|gateway| !gateway.is_empty());
            for address in gateway.into_iter().chain(auxiliary) {
                let _ = ipam.call::<Value>("IpamDriver.ReleaseAddress", &json!({ "PoolID": pool, "Address": address }));
            }
            let _ = ipam.call::<Value>("IpamDriver.ReleasePool", &json!({ "PoolID": pool }));
        }
    }

    /// Addresses of a network whose own are a plugin's.
    pub(super) fn lease(
        &self,
        network: &Network,
        asked: &EndpointSettings,
        mac: &str,
        loan: &mut Loan,
    ) -> Result<Vec<Lease>> {
        let Some(ipam) = self.ipam(network)? else { return Ok(Vec::new()) };
        let wanted = asked.ipam_config.clone().unwrap_or_default();
        let mut leases = Vec::new();
        let mut seen = [false; 2];
        for (pool, id) in network.spec.ipam.config.iter().zip(&network.spec.pools) {
            let subnet = Subnet::parse(&pool.subnet)?;
            let v6 = subnet.is_v6();
            let address = if v6 { &wanted.ipv6_address } else { &wanted.ipv4_address };
            // The first pool of the family, or the one that the address asked for lies in.
            let other = address.parse::<IpAddr>().is_ok_and(|ip| !subnet.contains(ip));
            if other || std::mem::replace(&mut seen[usize::from(v6)], true) {
                continue;
            }
            let options = json!({ "com.docker.network.endpoint.macaddress": mac });
            let got = request_address(&ipam, id, address, options).and_then(|address| {
                leases.push(Lease { pool: id.clone(), address: address.clone() });
                loan.note(&ipam.name, id, &address)
            });
            if let Err(error) = got {
                self.give_back(network, &leases);
                return Err(error);
            }
        }
        Ok(leases)
    }

    /// Best effort, as above.
    pub(super) fn give_back(&self, network: &Network, leases: &[Lease]) {
        self.give_back_with(&self.plugins, network, leases);
    }

    /// Whether the plugin answered, or is not there.
    fn give_back_with(&self, plugins: &Plugins, network: &Network, leases: &[Lease]) -> bool {
        if leases.is_empty() || matches!(network.spec.ipam.driver.as_str(), "" | "default" | "null") {
            return true;
        }
        let ipam = match plugins.find(&network.spec.ipam.driver, "IpamDriver") {
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

    /// Has the driver make the interface of an endpoint, and notes what it said. Who calls it parts again where it fails.
    /// The answer is what the interface's name begins with in the container, if the driver says so; it has its number then.
    pub(super) fn join_remote(
        &self,
        who: &Joining<'_>,
        network: &Network,
        doc: &mut EndpointDoc,
    ) -> Result<Option<String>> {
        self.make_end(&self.driver(network)?, who, network, doc)
    }

    fn make_end(
        &self,
        driver: &Plugin,
        who: &Joining<'_>,
        network: &Network,
        doc: &mut EndpointDoc,
    ) -> Result<Option<String>> {
        create_end(driver, who, network, doc)?;
        let key = self.run.join("c").join(who.container).join("netns");
        let body = json!({ "NetworkID": network.id, "EndpointID": doc.id, "SandboxKey": key, "Options": {} });
        let joined: JoinAnswer = driver.call("NetworkDriver.Join", &body)?;
        (doc.v4_gateway, doc.v6_gateway) = (gateway(&joined.gateway)?, gateway(&joined.gateway_ipv6)?);
        let routes = routes(joined.static_routes.unwrap_or_default())?;
        let source = joined.interface_name.src_name;
        if !source.is_empty() && find_link(&source)?.is_none() {
            let driver = &network.spec.driver;
            return Err(as_500(format!("NetworkDriver.Join: the interface {source} of driver {driver} is not there")));
        }
        doc.remote = Some(RemoteEnd { source, routes, ports: publish_end(driver, who, network, doc)? });
        Ok(Some(joined.interface_name.dst_prefix)
            .filter(|text| !text.is_empty() && text.len() < 12 && text.bytes().all(|b| b.is_ascii_alphanumeric())))
    }

    /// Takes back from plugins what a container that does not run has of them. Best effort: one that is not there has
    /// nothing any more. The caller holds the container.
    pub(crate) fn settle(&self, container: &str) -> Result<()> {
        for stored in self.register.db.read(|tx| table::of_container(tx, container))? {
            if !self.settle_one(&self.plugins, &stored)? {
                let text = "a plugin does not answer: what the container had of it is not given back";
                return Err(as_500(text));
            }
        }
        Ok(())
    }

    /// Whether it is done: not where a plugin is there and does not answer.
    fn settle_one(&self, plugins: &Plugins, stored: &EndpointRow) -> Result<bool> {
        let doc = read(stored)?;
        if doc.remote.is_none() && doc.leases.is_empty() {
            return Ok(true);
        }
        if let Ok(network) = self.register.find(&stored.network_id)
            && !self.part_with(plugins, &network, &doc)
        {
            return Ok(false);
        }
        self.register.db.write(Flush::Lazy, |tx| {
            // The calls took their time: only what they were about is cleared.
            let now = table::of_container(tx, &stored.container_id)?;
            for again in now.into_iter().filter(|again| again.network_id == stored.network_id) {
                let mut changed = read(&again)?;
                if changed.id == doc.id {
                    (changed.remote, changed.leases) = (None, Vec::new());
                    let settled = row(&again.network_id, &again.container_id, again.slot, &changed)?;
                    table::put_endpoint(tx, &EndpointRow { left_ns: again.left_ns, ..settled })?;
                }
            }
            Ok(())
        })?;
        Ok(true)
    }

    /// Releases the container's endpoints if no program holds the container and it does not run.
    pub(crate) fn settle_idle(&self, slot: u32, container: &str) -> Result<()> {
        let Some(_busy) = self.register.states.locks.try_busy(slot)? else { return Ok(()) };
        if self.register.states.now(slot, container)?.is_live() { Ok(()) } else { self.settle(container) }
    }

    /// Releases the endpoints of all containers that do not run. A network whose plugin is not reached soon is left for another time: nobody who
    /// opens the root waits long for a plugin.
    pub(super) fn settle_all(&self) -> Result<()> {
        self.settle_loans()?;
        let plugins = self.plugins.hurried();
        let mut silent: Vec<String> = Vec::new();
        for stored in self.register.db.read(table::all_endpoints)? {
            let of_plugins = stored.doc.contains("\"remote\":{") || stored.doc.contains("\"leases\":[{");
            if !of_plugins || silent.contains(&stored.network_id) {
                continue;
            }
            if stored.left_ns != 0 {
                // Its container is gone: the slot may be another's.
                if !self.settle_one(&plugins, &stored)? {
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
            let Some(_busy) = self.register.states.locks.try_busy(stored.slot)? else { continue };
            if !self.register.states.now(stored.slot, &stored.container_id)?.is_live()
                && !self.settle_one(&plugins, &stored)?
            {
                silent.push(stored.network_id);
            }
        }
        Ok(())
    }

    pub(crate) fn part_remote(&self, network: &Network, doc: &EndpointDoc) {
        self.part_with(&self.plugins, network, doc);
    }

    /// Whether the plugins answered, or are not there.
    fn part_with(&self, plugins: &Plugins, network: &Network, doc: &EndpointDoc) -> bool {
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
        self.give_back_with(plugins, network, &doc.leases)
    }
}

/// A plugin that is there and does not answer.
fn is_silent(error: &Error) -> bool {
    error.kind() == ErrorKind::Timeout
}

/// Gives interfaces the names that their drivers want, each kind counted by itself.
pub(super) fn number_interfaces(docs: &mut [EndpointDoc], prefixes: &[Option<String>]) {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (doc, prefix) in docs.iter_mut().zip(prefixes) {
        let prefix = prefix.as_deref().unwrap_or("eth");
        let number = counts.entry(prefix).or_default();
        doc.interface = format!("{prefix}{number}");
        *number += 1;
    }
}

fn request_address(ipam: &Plugin, pool: &str, address: &str, options: Value) -> Result<String> {
    let body = json!({ "PoolID": pool, "Address": address, "Options": options });
    let got: AddressAnswer = ipam.call("IpamDriver.RequestAddress", &body)?;
    Subnet::parse_with_address(&got.address)?;
    Ok(got.address)
}

/// Has the driver make an endpoint. The driver may say the addresses that nobody decided yet, and no others.
fn create_end(driver: &Plugin, who: &Joining<'_>, network: &Network, doc: &mut EndpointDoc) -> Result<()> {
    let cidr = |ip: Option<IpAddr>, prefix: u8| ip.map_or(String::new(), |ip| format!("{ip}/{prefix}"));
    let body = json!({
        "NetworkID": network.id, "EndpointID": doc.id,
        "Interface": {
            "Address": cidr(doc.v4, doc.v4_prefix), "AddressIPv6": cidr(doc.v6, doc.v6_prefix),
            "MacAddress": doc.mac,
        },
        "Options": {
            "com.docker.network.endpoint.exposedports": exposed(who),
            "com.docker.network.portmap": portmap(who),
        },
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
            false => Err(as_500(format!("NetworkDriver.CreateEndpoint: the driver changed the {what} to {text}"))),
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
        super::endpoint::parse_mac(&interface.mac_address)?;
        doc.mac = interface.mac_address;
    }
    Ok(())
}

/// Has the driver publish the container's ports; answers whether it does that.
fn publish_end(driver: &Plugin, who: &Joining<'_>, network: &Network, doc: &EndpointDoc) -> Result<bool> {
    if who.bindings.is_empty() && !who.publish_all {
        return Ok(false);
    }
    let body = json!({
        "NetworkID": network.id, "EndpointID": doc.id,
        "Options": {
            "com.docker.network.portmap": portmap(who),
            "com.docker.network.endpoint.exposedports": exposed(who),
        },
    });
    match driver.call::<Value>("NetworkDriver.ProgramExternalConnectivity", &body) {
        Ok(_) => Ok(true),
        // It is an addition to the protocol: drivers need not know it.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn exposed(who: &Joining<'_>) -> Vec<Value> {
    who.exposed.iter().filter_map(|port| transport_port(&port)).collect()
}

fn gateway(text: &str) -> Result<Option<IpAddr>> {
    let bad = |_| as_500(format!("NetworkDriver.Join: {text:?} is no gateway"));
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
    let (port, protocol) = super::parse_port(text).ok()?;
    Some(json!({ "Proto": protocol.number(), "Port": port }))
}

fn portmap(who: &Joining<'_>) -> Vec<Value> {
    let mut all = Vec::new();
    for (text, hosts) in who.bindings.iter() {
        let Ok((port, protocol)) = super::parse_port(&text) else { continue };
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

/// The messages that bring a driver's interface into the container.
///
/// An interface that is not on the host (it is in the container already, or was never made) is not moved: nothing else may
/// be taken for it.
pub(super) fn scripts(doc: &EndpointDoc, end: &RemoteEnd, leads: bool) -> Result<(Script, Script)> {
    let (mut host, mut inside) = (Script::default(), Script::default());
    if end.source.is_empty() {
        return Ok((host, inside));
    }
    if let Some(found) = find_link(&end.source)? {
        link::move_link(&mut host, found.index, &doc.interface, PATCH_NETNS);
    }
    if !doc.mac.is_empty() {
        link::set_mac_inside(&mut inside, super::endpoint::parse_mac(&doc.mac)?, PATCH_INDEX);
    }
    link::bring_up(&mut inside, doc.v6.is_some(), PATCH_INDEX);
    for (ip, prefix, gateway) in [(doc.v4, doc.v4_prefix, doc.v4_gateway), (doc.v6, doc.v6_prefix, doc.v6_gateway)] {
        let Some(ip) = ip else { continue };
        link::address_inside(&mut inside, Address { ip, prefix }, PATCH_INDEX);
        if let (true, Some(gateway)) = (leads, gateway) {
            link::default_route_inside(&mut inside, link::Through::Gateway(gateway), PATCH_INDEX);
        }
    }
    for (ip, prefix, via) in &end.routes {
        link::route_inside(&mut inside, Address { ip: *ip, prefix: *prefix }, *via, PATCH_INDEX);
    }
    Ok((host, inside))
}

/// The addresses of leases, by family.
pub(super) fn leased(leases: &[Lease], v6: bool) -> Result<Option<(IpAddr, u8)>> {
    for lease in leases {
        let (subnet, ip) = Subnet::parse_with_address(&lease.address)?;
        if subnet.is_v6() == v6 {
            return Ok(Some((ip, subnet.prefix())));
        }
    }
    Ok(None)
}
