//! Making and removing networks.

use super::address;
use super::beside::Beside;
use super::bridge::Bridges;
use super::driver::Driver;
use super::leases::Leases;
use super::links::host_subnets;
use super::names::Names;
use super::options::{self, sub};
use super::pending_leases::PendingLeases;
use super::register::Register;
use super::remote::RemoteDrivers;
use super::spec::{Network, NetworkSpec, PREDEFINED, forbidden};
use super::subnet::Subnet;
use crate::error::{Error, ErrorKind, Result};
use crate::model::{CreateNetwork, Filters, IpamPool, NetworkCreated, PruneFilter, PrunedNetworks};
use crate::op::Op;
use crate::parts::Part;
use crate::store::Flush;
use crate::store::networks as table;
use std::sync::Arc;

/// Makes and removes networks.
pub(crate) struct Creator {
    pub(super) register: Arc<Register>,
    pub(super) names: Arc<Names>,
    pub(super) leases: Arc<Leases>,
    pub(super) remote: Arc<RemoteDrivers>,
    pub(super) beside: Arc<Beside>,
    pub(super) bridges: Arc<Bridges>,
}

impl Creator {
    /// Makes a network. Errors: its name is reserved, its driver is not there, its subnets overlap others.
    pub(crate) fn create(&self, asked: &CreateNetwork) -> Result<NetworkCreated> {
        let name = asked.name.trim();
        if name.is_empty() {
            return Err(Error::internal_as_dockerd("network", format!("invalid name: {}", asked.name)));
        }
        if name.chars().any(char::is_control) || name.contains('/') {
            return Err(Error::invalid(format!("invalid network name: {:?}", asked.name)));
        }
        if name == "default" || PREDEFINED.iter().any(|(predefined, _)| *predefined == name) {
            return Err(forbidden(format!("operation is not permitted on predefined {name} network ")));
        }
        let mut pending = self.leases.pending();
        let network = self.decide(asked, name, &mut pending)?;
        let asked_for = network.clone();
        let is_bridge = network.spec.driver == Driver::Bridge;
        let insert = |host: &[Subnet]| self.insert(asked, network, host);
        let inserted = if is_bridge {
            self.bridges.create(insert)
        } else {
            let inserted = host_subnets().and_then(|host| insert(&host));
            inserted.map(|(network, warning)| (network, warning, Ok(())))
        };
        let (network, warning, made) = inserted.inspect_err(|_| self.leases.give_back_pools(&asked_for))?;
        let made = match network.spec.driver {
            Driver::Plugin(_) => self.remote.make(&network),
            Driver::Bridge | Driver::Macvlan | Driver::Ipvlan | Driver::Host | Driver::Null => made,
        };
        if let Err(error) = made {
            self.leases.give_back_pools(&network);
            self.register.db.write(Flush::Lazy, |tx| table::delete(tx, &network.id))?;
            return Err(error);
        }
        self.register.event(&network, "create")?;
        // The network is there, even if the rules of other programs cannot be read.
        let blocked = match network.spec.driver {
            Driver::Bridge => self.beside.warnings_for(&self.register.find(&network.id)?).unwrap_or_default(),
            _ => Vec::new(),
        };
        let texts = Some(warning).filter(|text| !text.is_empty()).into_iter().chain(blocked);
        Ok(NetworkCreated { id: network.id, warning: texts.collect::<Vec<_>>().join("\n") })
    }

    /// Stores a network with the pools that it gets; answers a warning, too. `host`: see [`address::decide`].
    fn insert(&self, asked: &CreateNetwork, mut network: Network, host: &[Subnet]) -> Result<(Network, String)> {
        self.register.db.write(Flush::Durable, |tx| {
            let name = network.name.as_str();
            let same = table::by_name(tx, name)?.into_iter().next();
            if let Some(other) = same.as_ref().filter(|_| asked.check_duplicate) {
                return Err(Error::conflict(format!("network with name {name} already exists")).with_other(&other.id));
            }
            let mut others = Vec::new();
            for row in table::all(tx)? {
                let other = Network::of(row)?;
                others.extend(address::Pool::of(&other)?.iter().map(|pool| (pool.subnet, other.id.clone())));
            }
            let warning = same
                .map_or(String::new(), |other| format!("Network with name {name} (id : {}) already exists", other.id));
            if !network.has_foreign_addresses() {
                let taken: Vec<Subnet> = others.iter().map(|(subnet, _)| *subnet).collect();
                let decided = address::decide(&asked.ipam, asked.enable_ipv6, &taken, host);
                let (pools, automatic) = decided.map_err(|error| match overlapped(&asked.ipam.config, &others) {
                    Some(id) => error.with_other(id),
                    None => error,
                })?;
                (network.spec.ipam.config, network.spec.automatic) = (pools, automatic);
            }
            table::insert(tx, &network.row()?)?;
            Ok((network, warning))
        })
    }

    fn decide(&self, asked: &CreateNetwork, name: &str, pending: &mut PendingLeases) -> Result<Network> {
        let driver = if asked.driver.is_empty() { Driver::Bridge } else { asked.driver.clone().into() };
        match &driver {
            Driver::Bridge => {}
            Driver::Macvlan | Driver::Ipvlan => Part::Networks.need()?,
            Driver::Host | Driver::Null => {
                return Err(forbidden(format!("only one instance of \"{driver}\" network is allowed")));
            }
            Driver::Plugin(name) => self.remote.check(name)?,
        }
        let mut ipam = asked.ipam.clone();
        if ipam.driver.is_empty() {
            ipam.driver = "default".into();
        }
        let spec = NetworkSpec {
            driver,
            internal: asked.internal,
            enable_ipv6: asked.enable_ipv6,
            attachable: asked.attachable,
            ipam,
            options: asked.options.clone(),
            labels: asked.labels.clone(),
            bridge: String::new(),
            scope: String::new(),
            pools: Vec::new(),
            automatic: false,
        };
        if !matches!(spec.driver, Driver::Plugin(_)) {
            options::check(&spec)?;
        }
        let id = crate::hex::random_id()?;
        let mut network = Network { id, name: name.to_owned(), created_ns: crate::time::now_ns(), spec };
        self.remote.ask(&mut network, pending)?;
        sub(&network)?;
        Ok(network)
    }

    /// Removes the networks that no running container is on, except for the predefined ones. One that a container joins
    /// meanwhile stays.
    pub(crate) fn prune(&self, filters: &Filters, op: Option<&Op>) -> Result<PrunedNetworks> {
        let filter = PruneFilter::read(filters)?;
        let mut pruned = PrunedNetworks::default();
        for network in self.register.all()? {
            op.map_or(Ok(()), Op::check)?;
            if network.is_predefined() || !filter.takes(network.created_ns, &network.spec.labels) {
                continue;
            }
            match self.remove(&network.id) {
                Ok(()) => pruned.networks_deleted.push(network.name),
                Err(error) if matches!(error.kind(), ErrorKind::Forbidden | ErrorKind::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(pruned)
    }

    /// Removes a network. Errors: it is predefined, a running container is on it.
    pub(crate) fn remove(&self, reference: &str) -> Result<()> {
        let network = self.register.db.read(|tx| table::find(tx, reference)).and_then(Network::of)?;
        if network.is_predefined() {
            return Err(forbidden(format!("{} is a pre-defined network and cannot be removed", network.name)));
        }
        let idle = |tx: &rusqlite::Transaction<'_>| {
            for row in table::of_network(tx, &network.id)? {
                if row.left_ns == 0 && self.register.is_live(row.slot)? {
                    return Err(forbidden(format!(
                        "error while removing network: network {} id {} has active endpoints",
                        network.name, network.id
                    )));
                }
            }
            Ok(())
        };
        if network.is_remote() || network.has_foreign_addresses() {
            self.register.db.read(idle)?;
            self.remote.release_all()?;
            self.remote.unmake(&network);
        }
        self.register.db.write(Flush::Durable, |tx| {
            idle(tx)?;
            table::delete(tx, &network.id)
        })?;
        self.bridges.down(&network)?;
        self.names.remove(&network);
        self.register.event(&network, "destroy")
    }
}

/// The network that has addresses which one of these pools asks for, too.
fn overlapped(asked: &[IpamPool], others: &[(Subnet, String)]) -> Option<String> {
    let wanted: Vec<Subnet> = asked.iter().filter_map(|pool| Subnet::parse(&pool.subnet).ok()).collect();
    let overlaps = |subnet: &Subnet| wanted.iter().any(|wanted| wanted.overlaps(subnet));
    others.iter().find(|(subnet, _)| overlaps(subnet)).map(|(_, id)| id.clone())
}
