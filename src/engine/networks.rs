//! Networks: list, create, inspect, connect, disconnect, remove.

use super::Engine;
use crate::error::Result;
use crate::model::*;
use crate::op::Op;

impl Engine {
    /// Lists networks by name. Errors: an unknown filter, or an impossible value.
    pub fn network_list(&self, query: &ListNetworks) -> Result<Vec<NetworkDetail>> {
        self.0.containers.networks.listing.list(query)
    }
    /// Everything about one network, by name, id or unique prefix of an id.
    pub fn network_inspect(&self, reference: &str) -> Result<NetworkDetail> {
        self.0.containers.networks.listing.inspect(reference)
    }
    /// Makes a network.
    ///
    /// Errors: the name is reserved (`Forbidden`), or taken if the request has `CheckDuplicate` (`Conflict`); a subnet
    /// overlaps another one (`Forbidden`); there is no such driver (`NotFound`).
    pub fn network_create(&self, body: &CreateNetwork) -> Result<NetworkCreated> {
        self.0.containers.networks.creator.create(body)
    }
    /// Removes a network. Errors: it is predefined, or running containers are on it (`Forbidden`).
    pub fn network_remove(&self, reference: &str) -> Result<()> {
        self.0.containers.networks.creator.remove(reference)
    }
    /// Removes the bridges of networks without a running container, and the firewall if no network is left. The next
    /// start makes them again. For programs that stop using a root, or the machine's containers.
    pub fn network_release(&self) -> Result<()> {
        self.0.containers.networks.recovery.release()
    }
    /// Restores at once parts of running containers' networks that another program removed: the firewall's rules (`nft
    /// flush ruleset` removes all), bridges. The next start and the next open do the same.
    pub fn network_repair(&self) -> Result<()> {
        self.0.containers.networks.recovery.rebuild()
    }
    /// The reasons why containers on this root's networks may not reach others, or be reached: firewalls of other
    /// programs that drop forwarded packets, each with the command that lets these networks pass. Empty: no reason is
    /// known.
    pub fn network_warnings(&self) -> Result<Vec<String>> {
        self.0.containers.networks.beside.warnings()
    }
    /// Puts a container on a network.
    ///
    /// Errors: the container is on the network already (`Forbidden`); its mode gives it no network of its own; an
    /// address is taken.
    pub fn network_connect(&self, reference: &str, body: &ConnectNetwork, op: Option<&Op>) -> Result<()> {
        self.0.containers.connections.connect(reference, body, op)
    }
    /// Takes a container off a network. Errors: it is not on it.
    pub fn network_disconnect(&self, reference: &str, body: &DisconnectNetwork, op: Option<&Op>) -> Result<()> {
        self.0.containers.connections.disconnect(reference, body, op)
    }
}
