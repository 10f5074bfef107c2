//! The root's own interfaces: bridges and parents, known by their aliases.

use super::firewall::Firewall;
use super::links::{find_link, links};
use super::netlink::link::Link;
use super::options;
use super::spec::Network;
use crate::error::{Error, Result};
use std::path::PathBuf;
use std::sync::Arc;

/// The beginning of an alias; the network's id, the firewall's key and the root's directory follow.
const OWNER: &str = "coracle:";
/// The longest alias that the kernel keeps, in bytes.
const MAX_ALIAS: usize = 255;

/// Finds the interfaces that this root made.
pub(crate) struct OwnLinks {
    pub(super) root: PathBuf,
    pub(super) firewall: Arc<Firewall>,
}

/// The facts of an alias.
pub(super) struct Owner<'a> {
    pub network: &'a str,
    /// The key of the firewall, which no other root of the host has.
    pub key: &'a str,
    /// The root's directory; empty: it did not fit.
    pub root: &'a str,
}

impl Owner<'_> {
    /// The owner of an interface; `None`: no root made it.
    pub(super) fn of(link: &Link) -> Option<Owner<'_>> {
        let mut parts = link.alias.strip_prefix(OWNER)?.splitn(3, ':');
        Some(Owner { network: parts.next()?, key: parts.next()?, root: parts.next()? })
    }
}

impl OwnLinks {
    /// The network's bridge, if it is there and belongs to this root: a copy of a root has networks of the same ids.
    pub(super) fn bridge_of(&self, network: &Network) -> Result<Option<Link>> {
        if network.spec.bridge.is_empty() {
            return Ok(None);
        }
        Ok(find_link(&network.spec.bridge)?.filter(|link| self.is_bridge_of(link, network)))
    }

    /// Whether an interface is the bridge of a network of this root.
    pub(super) fn is_bridge_of(&self, link: &Link, network: &Network) -> bool {
        let is_own = Owner::of(link).is_some_and(|owner| owner.network == network.id);
        is_own && link.name == network.spec.bridge && self.is_ours(link)
    }

    /// Whether this root made an interface, for any of its networks.
    pub(super) fn is_ours(&self, link: &Link) -> bool {
        Owner::of(link).is_some_and(|owner| owner.key == self.firewall.key())
    }

    /// The alias of an interface that is made for a network.
    pub(super) fn alias(&self, network: &Network) -> String {
        let owner = format!("{OWNER}{}:{}:", network.id, self.firewall.key());
        let root = self.root.to_str().filter(|root| owner.len() + root.len() <= MAX_ALIAS);
        owner + root.unwrap_or_default()
    }
}

/// The name that the network's bridge gets when it is made.
pub(super) fn next_bridge(network: &Network) -> Result<String> {
    match (options::bridge_name(&network.spec)?, network.is_default()) {
        (Some(name), _) => Ok(name.to_owned()),
        (None, false) => Ok(format!("br-{}", &network.id[..12])),
        (None, true) => {
            let links = links()?;
            let taken = |name: &String| links.iter().any(|link| link.name == *name);
            let mut names = (0..100).map(|number| format!("coracle{number}"));
            names
                .find(|name| !taken(name))
                .ok_or_else(|| Error::internal_as_dockerd("network", "no name is left for the default bridge"))
        }
    }
}
