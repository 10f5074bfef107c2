//! The files hosts, hostname and resolv.conf of containers, with the names of linked containers.

use super::network::{Mode, addresses, mode};
use super::{Finder, Links, Places, Register, Snapshot, dirs, spec};
use crate::error::{Error, Result};
use crate::kernel::tree::{self, Lock};
use crate::network::{self, JoinedEndpoints, Networks};
use crate::store::links as table;
use crate::store::{Flush, containers};
use std::fs::File;
use std::os::fd::AsFd;
use std::sync::Arc;

/// The files hosts, hostname and resolv.conf of containers.
pub(crate) struct HostFiles {
    pub(super) places: Arc<Places>,
    pub(super) register: Arc<Register>,
    pub(super) finder: Arc<Finder>,
    pub(super) links: Arc<Links>,
    pub(super) networks: Arc<Networks>,
}

impl HostFiles {
    /// The address of `host-gateway`: the host's address on the container's first network, or on the default one if the
    /// first has none.
    fn host_gateway(&self, joined: &JoinedEndpoints) -> Result<String> {
        if let Some(own) = joined.endpoints.iter().find_map(|end| end.host_gateway()) {
            return Ok(own.to_string());
        }
        let networks = self.networks.register.all()?;
        let pools =
            networks.iter().filter(|network| network.is_default()).flat_map(|network| &network.spec.ipam.config);
        let mut gateways = pools.map(|pool| pool.gateway.split('/').next().unwrap_or_default().to_owned());
        gateways
            .find(|gateway| !gateway.is_empty())
            .ok_or_else(|| Error::internal("unable to derive the IP value for host-gateway"))
    }

    /// Writes hosts, hostname and resolv.conf for the present state.
    pub(super) fn write_files(&self, found: &Snapshot, networks: &network::JoinedEndpoints) -> Result<()> {
        if let Mode::Container(_) = mode(&found.spec) {
            // A container that shares another's network shows that container's files.
            return Ok(());
        }
        let dir = self.places.dir(&found.row.id);
        // Several programs may rewrite these files, and the last write must reflect the newest state: writers take
        // turns.
        let _one_at_a_time = self.lock_files(&found.row.id)?;
        let host = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let spec = &found.spec;
        let host_network = mode(spec) == Mode::Host;
        let hosts = if host_network { host("/etc/hosts") } else { String::new() };
        let links: Vec<_> = self.links.seen_links(found)?.iter().flat_map(super::links::Seen::hosts).collect();
        let gateway = match spec::wants_host_gateway(&spec.host_config) {
            true => self.host_gateway(networks)?,
            false => String::new(),
        };
        dirs::write(&dir.join("hosts"), &spec::hosts_file(spec, &hosts, &gateway, &links, &addresses(networks)))?;
        dirs::write(&dir.join("hostname"), &spec::hostname_file(spec))?;
        let resolvers = host("/etc/resolv.conf");
        let named = networks.endpoints.iter().any(|end| !end.network.is_predefined());
        let text = match named {
            true => spec::embedded_resolv_conf(&resolvers, &spec.host_config),
            false => spec::resolv_conf(&resolvers, &spec.host_config),
        };
        dirs::write(&dir.join("resolv.conf"), &text)
    }

    fn lock_files(&self, id: &str) -> Result<File> {
        let path = self.places.dir(id);
        let dir = File::open(&path).map_err(|e| Error::io(format_args!("open {}", path.display()), &e))?;
        tree::lock(dir.as_fd(), Lock::Exclusive, path.display())?;
        Ok(dir)
    }

    /// Updates the hosts files of the containers that link to `child`: it runs again, perhaps with another address.
    pub(super) fn rewrite_parents(&self, child: &str) {
        // Best effort: the next start of each parent writes its files again.
        for link in self.register.db.read(|tx| table::of_child(tx, child)).unwrap_or_default() {
            let _ = self.rewrite_hosts(&link.parent_id);
        }
    }

    fn rewrite_hosts(&self, id: &str) -> Result<()> {
        let found = self.finder.find(id)?;
        if found.now.is_live() {
            self.write_files(&found, &self.networks.interfaces.load(id)?)?;
        }
        Ok(())
    }

    /// Removes a link by its name, `parent/alias`. Errors: the name is a container's own; no container has the parent's
    /// name.
    pub(super) fn remove_link(&self, reference: &str) -> Result<()> {
        let child = self.finder.find(reference)?;
        let name = reference.strip_prefix('/').unwrap_or(reference);
        let Some((parent, alias)) = name.split_once('/') else {
            let text = format!("Conflict, cannot remove the default link name of the container {}", child.row.id);
            return Err(Error::conflict(text));
        };
        let parent_id = self.register.db.write(Flush::Durable, |tx| {
            let refused = |_| Error::internal(format!("Cannot get parent /{parent} for link name /{name}"));
            let row = containers::find(tx, parent, &mut |row, _| Ok(row)).map_err(refused)?;
            table::remove(tx, &row.id, alias)?;
            Ok(row.id)
        })?;
        // Best effort, as above.
        let _ = self.rewrite_hosts(&parent_id);
        Ok(())
    }
}
