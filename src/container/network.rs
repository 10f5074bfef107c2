//! The networks of a container: the requested ones, those of its start, and those that inspect shows.

use super::spec::{self, NetworkMode, Spec, asked_for};
use super::{Finder, HostFiles, Monitors, Planner, Register, Snapshot};
use crate::error::{Error, ErrorKind, Result};
use crate::kernel::process;
use crate::launch::monitor::Streams;
use crate::launch::plan::{self, NET_HOST, NET_INSIDE, NetRequest};
use crate::model::{ConnectNetwork, DisconnectNetwork, EndpointSettings, NetworkSettings, PortMap, PortSet};
use crate::network::{
    self, EndpointDoc, EndpointOptions, EndpointRequest, EndpointStore, JoinedEndpoints, Joining, Network, Networks,
    PortReservation, Published, Script, check_settings, key,
};
use crate::op::Op;
use crate::order::Order as _;
use coracle_monitor::call::Call;
use rusqlite::Transaction;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::File;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::Arc;

/// Where a container's network namespace comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode<'a> {
    /// A namespace of the container's own, with the loopback interface alone.
    None,
    Host,
    /// Another container's.
    Container(&'a str),
    /// A namespace of the container's own, with an interface for each network.
    Networks,
}

/// The mode that a spec asks for.
pub(super) fn mode(spec: &Spec) -> Mode<'_> {
    match &spec.host_config.modes().network {
        NetworkMode::Container(other) => Mode::Container(other),
        NetworkMode::Host => Mode::Host,
        NetworkMode::None => Mode::None,
        _ if spec.config.network_disabled => Mode::None,
        NetworkMode::Default | NetworkMode::Bridge | NetworkMode::Network(_) => Mode::Networks,
    }
}

/// The facts of networks that inspect and list need, read once for many containers.
pub(super) struct View {
    networks: Vec<Network>,
    endpoints: BTreeMap<String, BTreeMap<String, EndpointDoc>>,
}

impl View {
    /// The facts for all containers.
    pub(super) fn of_all(tx: &Transaction<'_>) -> Result<View> {
        Ok(View { networks: network::Register::all_in(tx)?, endpoints: EndpointStore::all_in(tx)? })
    }

    /// The facts for one container: of the networks that its spec names.
    pub(super) fn of_one(tx: &Transaction<'_>, found: &Snapshot) -> Result<View> {
        let own = match mode(&found.spec) {
            Mode::None => Some("none"),
            Mode::Host => Some("host"),
            Mode::Container(_) | Mode::Networks => None,
        };
        let names: Vec<&str> = found.spec.networks.keys().map(String::as_str).chain(own).collect();
        let is_named = |id: &str, name: &str| names.iter().any(|one| *one == name || may_mean(one, id));
        let networks = network::Register::some_in(tx, is_named)?;
        let id = &found.row.id;
        Ok(View { networks, endpoints: BTreeMap::from([(id.clone(), EndpointStore::of_container_in(tx, id)?)]) })
    }

    /// How many ports are published.
    pub(super) fn ports(&self) -> usize {
        self.endpoints.values().flat_map(BTreeMap::values).map(|doc| doc.ports.len()).sum()
    }

    fn network(&self, reference: &str) -> Option<&Network> {
        let exact = self.networks.iter().find(|network| network.id == reference || network.name == reference);
        exact.or_else(|| self.networks.iter().find(|network| may_mean(reference, &network.id)))
    }
}

/// Whether a text is an id of a network, or the beginning of one.
fn may_mean(reference: &str, id: &str) -> bool {
    reference == id || reference.len() >= 12 && id.starts_with(reference)
}

/// The networks that a container requests: the default one first, then the one of its mode, the others by name.
pub(super) fn endpoint_requests(spec: &Spec) -> Vec<EndpointRequest> {
    let mut requests: Vec<EndpointRequest> = spec
        .networks
        .iter()
        .map(|(network, settings)| EndpointRequest { network: network.clone(), settings: settings.clone() })
        .collect();
    let first = spec.host_config.modes().network.network();
    requests.order_by_key(|want| (want.network != "bridge", Some(want.network.as_str()) != first));
    requests
}

/// `NetworkSettings` of inspect.
pub(super) fn network_settings(found: &Snapshot, view: &View) -> NetworkSettings {
    let live = found.now.is_live();
    let networks = networks(found, view);
    let bridge = networks.get("bridge").cloned().unwrap_or_default();
    let sandbox = sandbox(found, view);
    NetworkSettings {
        sandbox_key: if live && !sandbox.is_empty() {
            format!("/proc/{}/ns/net", found.now.state.pid)
        } else {
            String::new()
        },
        sandbox_id: sandbox,
        ports: port_map(found, view),
        endpoint_id: bridge.endpoint_id,
        gateway: bridge.gateway,
        global_ipv6_address: bridge.global_ipv6_address,
        global_ipv6_prefix_len: bridge.global_ipv6_prefix_len,
        ip_address: bridge.ip_address,
        ip_prefix_len: bridge.ip_prefix_len,
        ipv6_gateway: bridge.ipv6_gateway,
        mac_address: bridge.mac_address,
        networks,
        ..NetworkSettings::default()
    }
}

/// `Networks` of list and inspect.
pub(super) fn networks(found: &Snapshot, view: &View) -> BTreeMap<String, EndpointSettings> {
    let mode = mode(&found.spec);
    match mode {
        Mode::Container(_) => BTreeMap::new(),
        Mode::None | Mode::Host => {
            let name = if mode == Mode::Host { "host" } else { "none" };
            let mut settings = EndpointSettings::default();
            if found.now.state.started_ns != 0 {
                settings.network_id = view.network(name).map_or(String::new(), |network| network.id.clone());
            }
            BTreeMap::from([(name.to_owned(), settings)])
        }
        Mode::Networks => found.spec.networks.iter().map(|(name, asked)| settings(found, view, name, asked)).collect(),
    }
}

fn settings(found: &Snapshot, view: &View, name: &str, asked: &EndpointSettings) -> (String, EndpointSettings) {
    let network = view.network(name);
    let doc = network.and_then(|network| view.endpoints.get(&found.row.id)?.get(&network.id));
    let settings = match (network, doc) {
        (Some(network), Some(doc)) if found.now.is_live() => doc.settings(&network.id, asked),
        (Some(network), Some(_)) => EndpointSettings { network_id: network.id.clone(), ..asked.clone() },
        _ => asked.clone(),
    };
    (key(network, name).to_owned(), settings)
}

fn sandbox(found: &Snapshot, view: &View) -> String {
    if !found.now.is_live() || matches!(mode(&found.spec), Mode::Container(_)) {
        return String::new();
    }
    let stored = view.endpoints.get(&found.row.id).and_then(|ends| ends.values().next());
    match stored {
        Some(doc) => doc.sandbox.clone(),
        None => {
            let text = format!("{} {}", found.row.id, found.now.state.started_ns);
            Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
        }
    }
}

fn published<'a>(found: &Snapshot, view: &'a View) -> impl Iterator<Item = &'a Published> {
    let live = found.now.is_live();
    view.endpoints
        .get(&found.row.id)
        .into_iter()
        .flat_map(BTreeMap::values)
        .flat_map(|doc| &doc.ports)
        .filter(move |_| live)
}

/// Exposed ports of a running container with their published addresses: `Ports` of inspect and of the list.
pub(super) fn port_map(found: &Snapshot, view: &View) -> PortMap {
    let shown = found.now.is_live() && matches!(mode(&found.spec), Mode::None | Mode::Networks);
    let exposed = found.spec.config.exposed_ports.iter().filter(|_| shown).map(|port| (port_key(&port), None));
    let published = published(found, view).map(|port| {
        let host = (port.host.to_string(), port.host_port.to_string());
        (format!("{}/{}", port.port, port.protocol.name()), Some(host))
    });
    PortMap::of_rows(exposed.chain(published))
}

fn port_key(text: &str) -> String {
    crate::network::parse_port(text).map_or(text.to_owned(), |(port, protocol)| format!("{port}/{}", protocol.name()))
}

/// The netlink requests by which the container's first process makes its interfaces.
pub(super) fn requests(joined: &JoinedEndpoints) -> Vec<NetRequest> {
    let both = joined.endpoints.iter().flat_map(|end| {
        let (interface, network) = (&end.doc.interface, &end.network.name);
        [request(&end.host, NET_HOST, interface, network), request(&end.inside, NET_INSIDE, interface, network)]
    });
    both.collect()
}

fn request(script: &Script, place: u32, interface: &str, network: &str) -> NetRequest {
    NetRequest {
        place,
        interface: interface.to_owned(),
        acks: script.messages.acks(),
        patches: script.patches.clone(),
        messages: script.messages.clone().finish(),
        sentence: format!("add interface {interface} on network {network}"),
    }
}

/// Ports whose connections the container's monitor forwards.
pub(super) fn relays(joined: &JoinedEndpoints) -> Vec<plan::Relay> {
    let relayed = joined.ports().into_iter().filter(Published::is_relayed);
    relayed.map(|port| plan::Relay { key: port.relay_key(), to: port.to, port: port.port }).collect()
}

/// The members of a network's events apart from the container's, as the monitor writes them.
pub(super) fn event_members(network: &Network) -> (String, String) {
    let text = serde_json::json!({ "name": network.name, "type": network.spec.driver.name() }).to_string();
    (network.id.clone(), text.trim_start_matches('{').trim_end_matches('}').to_owned())
}

/// The container's own addresses, in the order of its interfaces.
pub(super) fn addresses(joined: &JoinedEndpoints) -> Vec<String> {
    let of = |doc: &EndpointDoc| [doc.v4, doc.v6].into_iter().flatten().map(|ip| ip.to_string()).collect::<Vec<_>>();
    joined.endpoints.iter().flat_map(|end| of(&end.doc)).collect()
}

/// A change of a running container's network namespace.
#[derive(Default)]
struct NetworkChange<'a> {
    requests: &'a [NetRequest],
    /// Kernel parameters: paths below `/proc/sys`, values.
    sysctls: Vec<(String, String)>,
    /// The container gets a resolver.
    resolver: bool,
}

/// Connects containers to networks, and disconnects them.
pub(crate) struct Connections {
    pub(super) register: Arc<Register>,
    pub(super) monitors: Arc<Monitors>,
    pub(super) finder: Arc<Finder>,
    pub(super) host_files: Arc<HostFiles>,
    pub(super) planner: Arc<Planner>,
    pub(super) networks: Arc<Networks>,
}

impl Connections {
    /// Connects a container to a network: at once if it runs, else at its next start.
    pub(crate) fn connect(&self, reference: &str, asked: &ConnectNetwork, op: Option<&Op>) -> Result<()> {
        let network = self.networks.register.find(reference)?;
        let (_busy, found) = self.finder.lock(&asked.container, op)?;
        let settings = asked_for(&asked.endpoint_config);
        check_settings(&network, &settings)?;
        check_connect(&found, &network)?;
        if self.network_key(&found, &network).is_some() {
            return Err(Error::new(
                ErrorKind::Forbidden,
                format!("endpoint with name {} already exists in network {}", found.row.name, network.name),
            ));
        }
        if found.now.is_live() {
            return self.connect_live(found, &network, settings);
        }
        let mut spec = Spec::clone(&found.spec);
        spec.networks.insert(network.name, settings);
        self.register.set_spec(&found, &spec)
    }

    /// Disconnects a container from a network.
    pub(crate) fn disconnect(&self, reference: &str, asked: &DisconnectNetwork, op: Option<&Op>) -> Result<()> {
        let network = match self.networks.register.find(reference) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return self.disconnect_from_gone(reference, asked, op).unwrap_or(Err(error));
            }
            network => network?,
        };
        let (_busy, found) = match self.finder.lock(&asked.container, op) {
            Err(error) if asked.force && error.kind() == ErrorKind::NotFound => {
                return self.networks.endpoints.forget_gone(&network, &asked.container);
            }
            taken => taken?,
        };
        if network.name == "host" || mode(&found.spec) == Mode::Host {
            return Err(Error::new(
                ErrorKind::Forbidden,
                "container cannot be disconnected from host network or connected to host network",
            ));
        }
        let key = self.network_key(&found, &network).ok_or_else(|| {
            let text = format!("container {} is not connected to network {}", found.row.id, network.name);
            Error::new(ErrorKind::Internal, text).in_area("network")
        })?;
        if found.now.is_live() {
            return self.disconnect_live(found, &network, &key);
        }
        let mut spec = Spec::clone(&found.spec);
        spec.networks.remove(&key);
        self.register.set_spec(&found, &spec)?;
        self.networks.endpoints.forget(&network, &found.row.id)?;
        self.networks.register.container_event(&network, "disconnect", &found.row.id)
    }

    /// Disconnects a stopped container from a network that does not exist any more, by the network's name. `None`: the
    /// container runs, or does not exist.
    fn disconnect_from_gone(&self, name: &str, asked: &DisconnectNetwork, op: Option<&Op>) -> Option<Result<()>> {
        let (_busy, found) = self.finder.lock(&asked.container, op).ok().filter(|(_, found)| !found.now.is_live())?;
        let mut spec = Spec::clone(&found.spec);
        if spec.networks.remove(name).is_none() {
            let text = format!("container {} is not connected to the network {name}", found.row.id);
            return Some(Err(Error::new(ErrorKind::Internal, text).in_area("network")));
        }
        Some(self.register.set_spec(&found, &spec))
    }

    fn connect_live(&self, mut found: Snapshot, network: &Network, settings: EndpointSettings) -> Result<()> {
        let before = self.networks.interfaces.load(&found.row.id)?;
        let interface = interface_name(&before, &settings)?;
        let had_resolver = before.endpoints.iter().any(|end| !end.network.is_predefined());
        let want = EndpointRequest { network: network.id.clone(), settings: settings.clone() };
        let spec = Arc::make_mut(&mut found.spec);
        spec.networks.insert(network.name.clone(), settings);
        let (mac, mode) = (spec.config.mac_address.clone(), spec.host_config.network_mode.clone());
        let netns = self.netns(&found)?;
        let hostname = spec::hostname(&found.spec, &found.row.id);
        let container = Joining {
            id: &found.row.id,
            slot: found.row.slot,
            name: &found.row.name,
            hostname: &hostname,
            mac: &mac,
            mode: &mode,
            networks: Vec::new(),
            bindings: &PortMap::new(),
            exposed: &PortSet::new(),
            publish_all: false,
        };
        self.networks.endpoints.join_one(&container, &want, &interface)?;
        let mut late = None;
        let plugged = (|| {
            let joined = self.networks.interfaces.load(&found.row.id)?;
            let end = endpoint_on(&joined, network)?;
            self.networks.interfaces.plug(end, netns.as_fd(), found.now.state.network_restarts())?;
            self.networks.ports.relocate(&found.row.id, found.row.slot, Vec::new())?;
            let host = &found.spec.host_config;
            let exposed = &found.spec.config.exposed_ports;
            let (bindings, publish_all) = (&host.port_bindings, host.publish_all_ports);
            late = self.networks.ports.publish_late(&Joining { bindings, exposed, publish_all, ..container })?;
            let joined = self.networks.interfaces.load(&found.row.id)?;
            let end = endpoint_on(&joined, network)?;
            let steps = [request(&end.inside, NET_INSIDE, &end.doc.interface, &network.name)];
            let with_resolver = !had_resolver && !network.is_predefined();
            let change = NetworkChange { requests: &steps, sysctls: end.doc.sysctls()?, resolver: with_resolver };
            self.change_network(&found, &joined, &change, late.as_ref())?;
            self.host_files.write_files(&found, &joined)
        })();
        if plugged.is_err() {
            // Best effort: the interface is removed with the container at the latest.
            if let Some(doc) = self.networks.endpoint_store.of_container(&found.row.id)?.get(&network.id) {
                let _ = self.networks.interfaces.unplug(doc, found.now.state.network_restarts());
            }
            let ports = self
                .networks
                .endpoint_store
                .of_container(&found.row.id)?
                .remove(&network.id)
                .map_or(Vec::new(), |doc| doc.ports);
            // Ports that the network brought are removed with it.
            let ports = if late.is_some() { Vec::new() } else { ports };
            self.networks.endpoints.forget(network, &found.row.id)?;
            // The ports are mapped over the same network as before.
            self.networks.ports.relocate(&found.row.id, found.row.slot, ports)?;
        }
        plugged?;
        self.register.set_spec(&found, &found.spec)?;
        self.networks.register.container_event(network, "connect", &found.row.id)
    }

    /// Undoes the connects of programs that were killed in the middle of one, except while another call holds the
    /// container.
    pub(super) fn undo_connects(&self) -> Result<()> {
        for (id, slot) in self.networks.endpoint_store.on_several()? {
            let Some(_busy) = self.register.states.locks.try_busy(slot)? else { continue };
            let Ok(found) = self.finder.find(&id) else { continue };
            if !found.now.is_live() {
                continue;
            }
            for network in self.networks.endpoint_store.of_container(&id)?.into_keys() {
                let Ok(network) = self.networks.register.find(&network) else { continue };
                if self.network_key(&found, &network).is_none() {
                    // Best effort: the interface may not exist yet.
                    let _ = self.take_off(found.clone(), &network, "");
                }
            }
        }
        Ok(())
    }

    fn disconnect_live(&self, found: Snapshot, network: &Network, key: &str) -> Result<()> {
        let id = found.row.id.clone();
        self.take_off(found, network, key)?;
        self.networks.register.container_event(network, "disconnect", &id)
    }

    fn take_off(&self, mut found: Snapshot, network: &Network, key: &str) -> Result<()> {
        let ends = self.networks.endpoint_store.of_container(&found.row.id)?;
        let mut steps = Vec::new();
        let (mut ports, mut gone) = (Vec::new(), None);
        if let Some(doc) = ends.get(&network.id) {
            let left = self.networks.interfaces.unplug(doc, found.now.state.network_restarts())?;
            steps.extend(left.map(|script| request(&script, NET_INSIDE, &doc.interface, &network.name)));
            ports.clone_from(&doc.ports);
            gone = Some(doc.clone());
        }
        self.networks.endpoints.forget_row(network, &found.row.id)?;
        Arc::make_mut(&mut found.spec).networks.remove(key);
        let changed: Result<JoinedEndpoints> = (|| {
            self.networks.ports.relocate(&found.row.id, found.row.slot, ports)?;
            let joined = self.networks.interfaces.load(&found.row.id)?;
            // If the default route used this interface, the kernel removed it with the interface.
            let leader = joined.leads().and_then(|at| joined.endpoints.get(at));
            let lead = leader.and_then(|end| Some((end, end.lead()?)));
            steps.extend(lead.map(|(end, script)| request(&script, NET_INSIDE, &end.doc.interface, &end.network.name)));
            let change = NetworkChange { requests: &steps, ..NetworkChange::default() };
            self.change_network(&found, &joined, &change, None)?;
            Ok(joined)
        })();
        if let Some(doc) = gone {
            self.networks.remote.detach(network, &doc);
        }
        let joined = changed?;
        self.host_files.write_files(&found, &joined)?;
        self.register.set_spec(&found, &found.spec)
    }

    /// Makes the monitor run steps in the container's network namespace, and gives it the plan for later restarts.
    /// `late` reserves the ports that are published from now on.
    fn change_network(
        &self,
        found: &Snapshot,
        joined: &JoinedEndpoints,
        change: &NetworkChange<'_>,
        late: Option<&PortReservation>,
    ) -> Result<()> {
        let full = self.planner.plan_again(found, joined)?;
        let resolver = if change.resolver { self.planner.resolver(found, joined)? } else { None };
        let steps = plan::compile_network(change.requests, &change.sysctls, resolver.as_ref());
        let sealed = |name, bytes| process::sealed_memfd(name, bytes, process::Sealed::Data);
        let memfds = [sealed("steps", &steps.bytes)?, sealed("plan", &full.bytes)?];
        let control = self.monitors.control(found)?;
        let none = Streams { mask: 0, fds: Vec::new() };
        let mut fds: Vec<_> = memfds.iter().map(AsFd::as_fd).collect();
        fds.extend(late.into_iter().flat_map(|sockets| [sockets.reserved.as_fd(), sockets.relayed.as_fd()]));
        control.send_streams(Call::Network, "", &fds, none)?;
        let answer = control.reply(None)?;
        match answer.errno {
            0 => Ok(()),
            errno => Err(Error::os(steps.step(answer.failure.step).description, errno).in_area("network")),
        }
    }

    /// A running container's network namespace.
    fn netns(&self, found: &Snapshot) -> Result<File> {
        let state = found.now.state;
        let path = format!("/proc/{}/ns/net", state.pid);
        let file = File::open(&path).map_err(|e| Error::io(format_args!("open {path}"), &e))?;
        // Checked after the open: from here on the number cannot belong to another process.
        match process::start_time(state.pid) == Some(state.pid_start) {
            true => Ok(file),
            false => Err(super::not_running(&found.row.id)),
        }
    }

    /// The name by which a container's configuration has a network, if the container is on it.
    fn network_key(&self, found: &Snapshot, network: &Network) -> Option<String> {
        let same = |key: &&String| {
            **key == network.name
                || **key == network.id
                || self.networks.register.find(key).is_ok_and(|other| other.id == network.id)
        };
        found.spec.networks.keys().find(same).cloned()
    }
}

/// A container's new endpoint.
fn endpoint_on<'a>(joined: &'a JoinedEndpoints, network: &Network) -> Result<&'a network::Endpoint> {
    let end = joined.endpoints.iter().find(|end| end.network.id == network.id);
    end.ok_or_else(|| Error::internal("the new endpoint is not there"))
}

/// The name of the interface of one more endpoint: the requested one, or the first that is free.
fn interface_name(before: &JoinedEndpoints, settings: &EndpointSettings) -> Result<String> {
    let taken = |name: &str| before.endpoints.iter().any(|end| end.doc.interface == name);
    let options = settings.driver_opts.as_ref().map(EndpointOptions::parse).transpose()?.unwrap_or_default();
    match options.interface {
        Some(name) if taken(&name) => Err(Error::invalid(format!("the container has an interface {name:?}"))),
        Some(name) => Ok(name),
        None => Ok((0..).map(|number| format!("eth{number}")).find(|name| !taken(name)).unwrap_or_default()),
    }
}

fn check_connect(found: &Snapshot, network: &Network) -> Result<()> {
    let refused = |text: &str| Err(Error::new(ErrorKind::Forbidden, text).in_area("network"));
    match (mode(&found.spec), network.name.as_str()) {
        (Mode::Container(_), _) => refused(
            "container sharing network namespace with another container or host cannot be connected to any other network",
        ),
        (Mode::Host, _) | (_, "host") => {
            refused("container cannot be disconnected from host network or connected to host network")
        }
        (Mode::None, _) | (_, "none") => refused(
            "container cannot be connected to multiple networks with one of the networks in private (none) mode",
        ),
        _ => Ok(()),
    }
}

/// The servers that a container's resolver asks: those of the request, or the host's. Servers that perhaps only the
/// host reaches (on its loopback device, or by IPv6) are asked from the host's namespace.
pub(super) fn servers(spec: &Spec, host_text: &str) -> Vec<plan::Server> {
    let asked: Vec<&str> = spec.host_config.dns.iter().flatten().map(String::as_str).collect();
    let of_host = host_text.lines().filter_map(|line| line.trim().strip_prefix("nameserver")).map(str::trim);
    let named = !asked.is_empty();
    let texts: Vec<&str> = if named { asked } else { of_host.collect() };
    let server = |text: &str| {
        let (ip, zone) = text.split_once('%').unwrap_or((text, ""));
        let ip: IpAddr = ip.parse().ok()?;
        let scope = if zone.is_empty() { 0 } else { nix::net::if_::if_nametoindex(zone).ok()? };
        Some(plan::Server { ip, scope, outside: ip.is_loopback() || scope != 0 || ip.is_ipv6() && !named })
    };
    texts.into_iter().filter_map(server).collect()
}
