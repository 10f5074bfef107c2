//! The rows of networks, their events, and which containers run.

use super::address::{self, Pool};
use super::links::host_subnets;
use super::options;
use super::spec::{Network, NetworkSpec, PREDEFINED, mode_name};
use super::subnet::Subnet;
use crate::error::{Error, Result};
use crate::event::Journal;
use crate::model::{Event, Ipam};
use crate::store::networks as table;
use crate::store::states::States;
use crate::store::{Db, Flush};
use rusqlite::Transaction;
use std::sync::{Arc, OnceLock};

/// The stored networks of a root.
pub(crate) struct Register {
    pub(super) db: Arc<Db>,
    pub(super) states: Arc<States>,
    pub(super) journal: Arc<Journal>,
    /// The networks `host` and `none`, once they were asked for: nobody changes or removes them.
    pub(super) fixed: [OnceLock<Network>; 2],
}

impl Register {
    /// Finds a network by a name, an id, or the unique beginning of an id.
    pub(crate) fn find(&self, reference: &str) -> Result<Network> {
        self.db.read(|tx| table::find(tx, mode_name(reference))).and_then(Network::of)
    }

    /// Finds the network `host` or `none`.
    pub(crate) fn fixed(&self, host: bool) -> Result<&Network> {
        let (place, name) = if host { (&self.fixed[0], "host") } else { (&self.fixed[1], "none") };
        match place.get() {
            Some(network) => Ok(network),
            None => self.find(name).map(|network| place.get_or_init(|| network)),
        }
    }

    /// All networks.
    pub(crate) fn all(&self) -> Result<Vec<Network>> {
        self.db.read(Register::all_in)
    }

    /// All networks, read within a transaction.
    pub(crate) fn all_in(tx: &Transaction<'_>) -> Result<Vec<Network>> {
        table::all(tx)?.into_iter().map(Network::of).collect()
    }

    /// The networks whose id and name `wants` accepts: the others are not read any further.
    pub(crate) fn some_in(tx: &Transaction<'_>, wants: impl Fn(&str, &str) -> bool) -> Result<Vec<Network>> {
        let rows = table::all(tx)?.into_iter().filter(|row| wants(&row.id, &row.name));
        rows.map(Network::of).collect()
    }

    /// The subnets of all networks but one.
    pub(super) fn subnets_of_others(&self, id: &str) -> Result<Vec<Subnet>> {
        let mut subnets = Vec::new();
        for network in self.all()?.iter().filter(|network| network.id != id) {
            subnets.extend(Pool::of(network)?.iter().map(|pool| pool.subnet));
        }
        Ok(subnets)
    }

    /// Whether a monitor lives in the slot: then the endpoints of the slot's container are in use.
    pub(super) fn is_live(&self, slot: u32) -> Result<bool> {
        self.states.has_monitor(slot)
    }

    /// Records an event of a network.
    pub(super) fn event(&self, network: &Network, action: &str) -> Result<()> {
        self.append(network, action, None)
    }

    /// Records that a container came to a network (`connect`), or left it (`disconnect`).
    pub(crate) fn container_event(&self, network: &Network, action: &str, container: &str) -> Result<()> {
        self.append(network, action, Some(container))
    }

    fn append(&self, network: &Network, action: &str, container: Option<&str>) -> Result<()> {
        let event = Event::network(action, &network.id, &network.name, network.spec.driver.name(), container);
        self.journal.append(&event).map(|_| ())
    }
}

/// The id of a root's default network, which is made where it is missing.
pub(crate) fn default_id(db: &Db) -> Result<String> {
    predefine(db).map(|network| network.id)
}

/// Makes the rows of the predefined networks, if they are not there; answers the default one.
fn predefine(db: &Db) -> Result<Network> {
    let there = |tx: &Transaction<'_>| table::by_name(tx, "bridge").map(|rows| rows.into_iter().next());
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
                // If no subnet is free now, the first start chooses one.
                let host = host_subnets().unwrap_or_default();
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
