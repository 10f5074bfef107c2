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
mod list;
mod loans;
mod loopback;
mod names;
mod netlink;
mod options;
mod ports;
mod remote;
mod settings;
mod subnet;

pub(crate) use driver::Driver;
pub(crate) use endpoint::{EndpointDoc, Joined, Joining, Want, check_settings, key, leave, parse_mac};
pub(crate) use names::{RESOLVER, Resolver};
pub(crate) use netlink::link::Script;
pub(crate) use ports::{Hold, Published, check as check_ports, parse as parse_port};

use crate::error::{Error, ErrorKind, Result};
use crate::event::Journal;
use crate::model::{Event, Ipam, StringMap};
use crate::options::Options;
use crate::plugin::Plugins;
use crate::store::identity::Claim;
use crate::store::networks::{self as table, NetworkRow};
use crate::store::states::States;
use crate::store::{Db, Flush};
use firewall::Firewall;
use parking_lot::Mutex;
use ports::Ports;
use rusqlite::Transaction;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// The networks of a root.
pub(crate) struct Networks {
    db: Arc<Db>,
    states: Arc<States>,
    journal: Arc<Journal>,
    root: PathBuf,
    /// The root's run directory.
    run: PathBuf,
    firewall: Firewall,
    ports: Ports,
    /// Where ports that name no address are published.
    publish_ip: Option<IpAddr>,
    /// Monitors pass on ports at 127.0.0.1, also where the kernel could lead them.
    relay_loopback: bool,
    /// dockerd's chain for the rules of others gets none.
    leave_docker_user: bool,
    plugins: Plugins,
    /// The networks `host` and `none`, once they were asked for: nobody changes or removes them.
    fixed: [OnceLock<Network>; 2],
    /// Work on the kernel's state that must not overlap within this program; [`Networks::lock`] is for the others.
    kernel: Mutex<()>,
}

/// A network as decided at its creation: the document that the store keeps.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct NetworkSpec {
    pub driver: Driver,
    pub internal: bool,
    pub enable_ipv6: bool,
    pub attachable: bool,
    pub ipam: Ipam,
    pub options: StringMap,
    pub labels: StringMap,
    /// The bridge's name; empty: it has none yet.
    pub bridge: String,
    /// As its driver says; empty: local.
    pub scope: String,
    /// A plugin's names of the pools that it gave.
    pub pools: Vec<String>,
    /// No request chose the IPv4 subnet: another may replace it while no container uses it.
    pub automatic: bool,
}

/// A network.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Network {
    pub id: String,
    pub name: String,
    pub created_ns: i64,
    pub spec: NetworkSpec,
}

/// The networks that are always there, and their drivers.
pub(crate) const PREDEFINED: [(&str, &str); 3] = [("bridge", "bridge"), ("host", "host"), ("none", "null")];

impl Network {
    fn of(row: NetworkRow) -> Result<Network> {
        let spec = serde_json::from_str(&row.spec)
            .map_err(|error| Error::corrupt(format!("the stored document of network {}: {error}", row.id)))?;
        Ok(Network { id: row.id, name: row.name, created_ns: row.created_ns, spec })
    }

    fn row(&self) -> Result<NetworkRow> {
        let spec = serde_json::to_string(&self.spec).map_err(|e| Error::internal(format!("write a network: {e}")))?;
        Ok(NetworkRow { id: self.id.clone(), name: self.name.clone(), created_ns: self.created_ns, spec })
    }

    pub(crate) fn is_predefined(&self) -> bool {
        PREDEFINED.iter().any(|(name, _)| *name == self.name)
    }

    /// Whether a network mode means this one.
    pub(crate) fn is_of_mode(&self, mode: &str) -> bool {
        let mode = mode_name(mode);
        self.name == mode || self.id == mode || mode.len() >= 12 && self.id.starts_with(mode)
    }

    /// The network that containers without another one are on.
    pub(crate) fn is_default(&self) -> bool {
        self.name == "bridge"
    }
}

/// The name that a network mode means.
pub(crate) fn mode_name(mode: &str) -> &str {
    if matches!(mode, "" | "default") { "bridge" } else { mode }
}

impl Networks {
    /// Opens the networks of a root that `claim` says the id and the run directory of.
    pub(crate) fn open(
        (db, states, journal): (Arc<Db>, Arc<States>, Arc<Journal>),
        root: &Path,
        claim: &Claim,
        options: &Options,
    ) -> Result<Networks> {
        Ok(Networks {
            db,
            states,
            journal,
            root: root.to_owned(),
            run: claim.run.clone(),
            firewall: Firewall::new(&claim.id[..8]),
            ports: Ports::default(),
            publish_ip: options.publish_ip,
            relay_loopback: options.relay_loopback,
            leave_docker_user: options.leave_docker_user,
            plugins: Plugins::new(&options.plugin_dirs),
            fixed: Default::default(),
            kernel: Mutex::new(()),
        })
    }

    /// The id of a root's default network, which is made where it is missing.
    pub(crate) fn default_id(db: &Db) -> Result<String> {
        predefine(db).map(|network| network.id)
    }

    /// Finds a network as people name it: name, id, unique prefix of an id.
    pub(crate) fn find(&self, reference: &str) -> Result<Network> {
        self.db.read(|tx| table::find(tx, mode_name(reference))).and_then(Network::of)
    }

    /// The network `host` or `none`.
    pub(crate) fn fixed(&self, host: bool) -> Result<&Network> {
        let (place, name) = if host { (&self.fixed[0], "host") } else { (&self.fixed[1], "none") };
        match place.get() {
            Some(network) => Ok(network),
            None => self.find(name).map(|network| place.get_or_init(|| network)),
        }
    }

    pub(crate) fn all(&self) -> Result<Vec<Network>> {
        self.db.read(Networks::all_in)
    }

    /// All networks, read within a transaction.
    pub(crate) fn all_in(tx: &Transaction<'_>) -> Result<Vec<Network>> {
        table::all(tx)?.into_iter().map(Network::of).collect()
    }

    /// Whether a monitor lives in the slot: whose endpoints are in use.
    fn is_live(&self, slot: u32) -> Result<bool> {
        self.states.has_monitor(slot)
    }

    fn event(&self, network: &Network, action: &str, container: Option<&str>) -> Result<()> {
        let event = Event::network(action, &network.id, &network.name, network.spec.driver.name(), container);
        self.journal.append(&event).map(|_| ())
    }

    /// Keeps other programs of this root from changing the kernel's state meanwhile.
    fn lock(&self) -> Result<File> {
        use std::os::unix::fs::OpenOptionsExt;
        let mut open = File::options();
        let path = self.run.join("net.lock");
        let file = open.read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file = file.map_err(|e| Error::io(format_args!("open {}", path.display()), &e))?;
        crate::kernel::file::lock_byte(&file, 0, path.display())?;
        Ok(file)
    }
}

/// Makes the rows of the predefined networks, if they are not there; answers the default one.
fn predefine(db: &Db) -> Result<Network> {
    let there = |tx: &rusqlite::Transaction<'_>| table::by_name(tx, "bridge").map(|rows| rows.into_iter().next());
    if let Some(row) = db.read(there)? {
        return Network::of(row);
    }
    db.write(Flush::Durable, |tx| {
        if let Some(row) = there(tx)? {
            return Network::of(row);
        }
        let now = crate::time::now_ns();
        for (name, driver) in PREDEFINED {
            let spec = NetworkSpec { driver: driver.to_owned().into(), ..NetworkSpec::default() };
            let mut network = Network { id: crate::hex::random_id()?, name: name.into(), created_ns: now, spec };
            network.spec.ipam.driver = "default".into();
            if network.is_default() {
                network.spec.options = options::of_default_bridge();
                network.spec.automatic = true;
                // Where none is free now, the first start looks again.
                let host = bridge::host_subnets().unwrap_or_default();
                if let Ok((pools, _)) = address::decide(&Ipam::default(), false, &[], &host) {
                    network.spec.ipam.config = pools;
                }
            }
            table::insert(tx, &network.row()?)?;
        }
        let row = there(tx)?.ok_or_else(|| Error::internal("the default network is not there"))?;
        Network::of(row)
    })
}

/// A new id: 64 hex digits of 256 random bits.
fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|e| Error::internal(format!("random bytes: {e}")))?;
    Ok(bytes)
}

/// A refusal with status 403, as the field has it for what a network does not allow.
fn forbidden(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Forbidden, message).in_area("network")
}

/// A mistake that the field's engines answer with 500.
fn as_500(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Internal, message).in_area("network")
}
