//! Networks: their rows and addresses in the database, bridges and firewall in the kernel, by netlink, in process.
//!
//! The state in the kernel is derived and can be made again at any time: bridges ([`bridge`]) and the firewall
//! ([`firewall`]). A container's interface lives and dies with its network namespace; its address and its ports are its own
//! as long as its monitor lives, which is a lock, so that nothing has to be given back when it ends.
//!
//! [`Networks::open`] makes the groups of methods, each with the handles that it needs. A group knows only groups that are
//! made before it: [`Register`] has the rows, [`EndpointStore`] the endpoints of containers, [`Bridges`] the interfaces on the
//! host; [`Endpoints`] puts containers on networks with the help of all of them.

mod address;
mod beside;
mod bridge;
mod create;
mod driver;
mod endpoint;
mod firewall;
mod firewalls;
mod leases;
mod links;
mod list;
mod locks;
mod loopback;
mod names;
mod netlink;
mod options;
mod own_links;
mod pending_leases;
mod ports;
mod recovery;
mod register;
mod remote;
mod settings;
mod spec;
mod subnet;

pub(crate) use beside::refusals;
pub(crate) use endpoint::allocate::check_settings;
pub(crate) use endpoint::doc::{EndpointDoc, parse_mac};
pub(crate) use endpoint::joined::{Endpoint, EndpointRequest, JoinedEndpoints, Joining};
pub(crate) use endpoint::options::EndpointOptions;
pub(crate) use endpoint::store::{EndpointStore, leave};
pub(crate) use names::{RESOLVER, Resolver};
pub(crate) use netlink::link::Script;
pub(crate) use ports::{PortReservation, Published, check as check_ports, parse as parse_port};
pub(crate) use register::{Register, default_id};
pub(crate) use spec::{Network, PREDEFINED, key};

use crate::event::Journal;
use crate::options::Options;
use crate::plugin::Plugins;
use crate::store::Db;
use crate::store::identity::Claim;
use crate::store::states::States;
use beside::Beside;
use bridge::Bridges;
use create::Creator;
use endpoint::allocate::Allocator;
use endpoint::interfaces::Interfaces;
use endpoint::join::Endpoints;
use endpoint::publish::Ports;
use firewall::Firewall;
use firewalls::Firewalls;
use leases::Leases;
use list::Listing;
use locks::Locks;
use loopback::Loopback;
use names::Names;
use own_links::OwnLinks;
use parking_lot::Mutex;
use ports::HostPorts;
use recovery::Recovery;
use remote::RemoteDrivers;
use settings::Settings;
use std::path::Path;
use std::sync::Arc;

/// The networks of a root: the groups of methods that containers and the engine call. Each group has the handles that it
/// needs, and knows only groups that are made before it.
pub(crate) struct Networks {
    pub(crate) register: Arc<Register>,
    pub(crate) settings: Arc<Settings>,
    pub(crate) endpoint_store: Arc<EndpointStore>,
    pub(crate) names: Arc<Names>,
    pub(crate) remote: Arc<RemoteDrivers>,
    pub(crate) beside: Arc<Beside>,
    pub(crate) loopback: Arc<Loopback>,
    pub(crate) interfaces: Arc<Interfaces>,
    pub(crate) ports: Arc<Ports>,
    pub(crate) endpoints: Arc<Endpoints>,
    pub(crate) creator: Arc<Creator>,
    pub(crate) listing: Arc<Listing>,
    pub(crate) recovery: Arc<Recovery>,
}

impl Networks {
    /// Opens the networks of a root; `claim` has the root's id and run directory.
    pub(crate) fn open(
        (db, states, journal): (Arc<Db>, Arc<States>, Arc<Journal>),
        root: &Path,
        claim: &Claim,
        options: &Options,
        plugins: Arc<Plugins>,
    ) -> Networks {
        let run = || claim.run.clone();
        let Options { publish_ip, relay_loopback: relay, leave_docker_user, .. } = options;
        let (publish_ip, relay, leave_docker_user) = (*publish_ip, *relay, *leave_docker_user);
        let firewall = Arc::new(Firewall::new(&claim.id[..8]));
        let register = group!(Register = db states journal; fixed: Default::default());
        let settings = group!(Settings = ; run: run());
        let locks = group!(Locks = ; run: run(), program: Mutex::default());
        let own_links = group!(OwnLinks = firewall; root: root.to_owned());
        let endpoint_store = group!(EndpointStore = register);
        let names = group!(Names = register endpoint_store locks; run: run());
        let leases = group!(Leases = register endpoint_store plugins; run: run());
        let remote = group!(RemoteDrivers = register endpoint_store leases plugins; run: run());
        let firewalls = group!(Firewalls = register endpoint_store own_links firewall);
        let beside = group!(Beside = register locks own_links firewalls firewall; leave_docker_user);
        let loopback = group!(Loopback = register endpoint_store locks own_links; relay);
        let bridges = group!(Bridges = register settings locks own_links endpoint_store firewalls beside loopback);
        let interfaces = group!(Interfaces = register endpoint_store own_links firewall);
        let ports = group!(Ports = register endpoint_store locks loopback interfaces firewall;
            host_ports: HostPorts::default(), publish_ip, run: run());
        let allocator = group!(Allocator = register ports);
        let endpoints =
            group!(Endpoints = register endpoint_store names leases remote bridges ports allocator firewall);
        let creator = group!(Creator = register names leases remote beside bridges);
        let listing = group!(Listing = register endpoint_store);
        let recovery = group!(Recovery = register settings locks own_links endpoint_store remote firewalls beside
            loopback bridges ports firewall);
        Networks {
            register,
            settings,
            endpoint_store,
            names,
            remote,
            beside,
            loopback,
            interfaces,
            ports,
            endpoints,
            creator,
            listing,
            recovery,
        }
    }
}
