//! Networks: their rows and addresses in the database, bridges and firewall in the kernel, by netlink, in process.
//!
//! The state in the kernel is derived and can be made again at any time: bridges ([`bridge`]) and the firewall
//! ([`firewall`]). A container's interface lives and dies with its network namespace; its address and its ports are its own
//! as long as its monitor lives, which is a lock, so that nothing has to be given back when it ends.

mod address;
mod beside;
mod bridge;
mod create;
mod driver;
mod endpoint;
mod firewall;
mod links;
mod list;
mod loans;
mod locks;
mod loopback;
mod names;
mod netlink;
mod options;
mod own_links;
mod ports;
mod register;
mod remote;
mod settings;
mod spec;
mod subnet;

pub(crate) use driver::Driver;
pub(crate) use endpoint::{EndpointDoc, Joined, Joining, Want, check_settings, leave, parse_mac};
pub(crate) use names::{RESOLVER, Resolver};
pub(crate) use netlink::link::Script;
pub(crate) use ports::{Hold, Published, check as check_ports, parse as parse_port};
pub(crate) use register::{Register, default_id};
pub(crate) use spec::{Network, PREDEFINED, key};

use crate::error::Result;
use crate::event::Journal;
use crate::options::Options;
use crate::plugin::Plugins;
use crate::store::Db;
use crate::store::identity::Claim;
use crate::store::states::States;
use firewall::Firewall;
use locks::Locks;
use own_links::OwnLinks;
use parking_lot::Mutex;
use ports::Ports;
use settings::Settings;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The networks of a root.
pub(crate) struct Networks {
    pub(crate) register: Arc<Register>,
    pub(crate) settings: Arc<Settings>,
    locks: Arc<Locks>,
    own_links: Arc<OwnLinks>,
    firewall: Arc<Firewall>,
    /// The root's run directory.
    run: PathBuf,
    ports: Ports,
    /// Where ports that name no address are published.
    publish_ip: Option<IpAddr>,
    /// Monitors pass on ports at 127.0.0.1, also where the kernel could lead them.
    relay_loopback: bool,
    /// dockerd's chain for the rules of others gets none.
    leave_docker_user: bool,
    plugins: Plugins,
}

impl Networks {
    /// Opens the networks of a root that `claim` says the id and the run directory of.
    pub(crate) fn open(
        (db, states, journal): (Arc<Db>, Arc<States>, Arc<Journal>),
        root: &Path,
        claim: &Claim,
        options: &Options,
    ) -> Result<Networks> {
        let (root, run) = (root.to_owned(), claim.run.clone());
        let register = group!(Register = db states journal; fixed: Default::default());
        let settings = group!(Settings = ; run: run.clone());
        let locks = group!(Locks = ; run: run.clone(), program: Mutex::default());
        let firewall = Arc::new(Firewall::new(&claim.id[..8]));
        let own_links = group!(OwnLinks = firewall; root);
        Ok(Networks {
            register,
            settings,
            locks,
            own_links,
            firewall,
            run,
            ports: Ports::default(),
            publish_ip: options.publish_ip,
            relay_loopback: options.relay_loopback,
            leave_docker_user: options.leave_docker_user,
            plugins: Plugins::new(&options.plugin_dirs),
        })
    }
}
