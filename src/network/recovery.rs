//! The state in the kernel is made to match the database again: after a crash, after the work of another program, and when
//! nobody needs it any more.

use super::beside::Beside;
use super::bridge::Bridges;
use super::driver::Driver;
use super::endpoint::publish::Ports;
use super::endpoint::store::EndpointStore;
use super::firewall::Firewall;
use super::firewalls::Firewalls;
use super::links::links;
use super::locks::Locks;
use super::loopback::{Loopback, is_open};
use super::netlink::link::Link;
use super::own_links::{OwnLinks, Owner};
use super::register::Register;
use super::remote::RemoteDrivers;
use super::settings::Settings;
use crate::error::Result;
use std::sync::Arc;

/// Repairs the state in the kernel, and removes it.
pub(crate) struct Recovery {
    pub(super) register: Arc<Register>,
    pub(super) settings: Arc<Settings>,
    pub(super) locks: Arc<Locks>,
    pub(super) own_links: Arc<OwnLinks>,
    pub(super) endpoint_store: Arc<EndpointStore>,
    pub(super) remote: Arc<RemoteDrivers>,
    pub(super) firewalls: Arc<Firewalls>,
    pub(super) beside: Arc<Beside>,
    pub(super) loopback: Arc<Loopback>,
    pub(super) bridges: Arc<Bridges>,
    pub(super) ports: Arc<Ports>,
    pub(super) firewall: Arc<Firewall>,
}

impl Recovery {
    /// Makes again the state that another program removed (the firewall, bridges of running containers), and removes the
    /// state that a killed program left. Nothing is made that no container needs.
    pub(crate) fn reconcile(&self) -> Result<()> {
        let known = self.register.all()?;
        let has_row =
            |link: &Link| Owner::of(link).is_some_and(|own| known.iter().any(|other| other.id == own.network));
        if links()?.iter().any(|link| self.own_links.is_ours(link) && !has_row(link)) {
            let _kernel = self.locks.kernel()?;
            self.bridges.sweep()?;
        }
        let mut needed: Vec<String> = Vec::new();
        for row in self.endpoint_store.rows()? {
            if row.left_ns == 0 && !needed.contains(&row.network_id) && self.register.is_live(row.slot)? {
                needed.push(row.network_id);
            }
        }
        for mut network in known.into_iter().filter(|network| network.spec.driver == Driver::Bridge) {
            let is_needed = needed.contains(&network.id);
            if is_needed {
                network = self.bridges.up(&network)?.0;
            }
            if is_needed || is_open(&network) {
                self.loopback.check(&network)?;
            }
        }
        self.beside.check()?;
        self.ports.sweep()?;
        // Last: a plugin may be slow.
        self.remote.release_all()
    }

    /// As [`Recovery::reconcile`], and makes the firewall anew, even if it looks whole.
    pub(crate) fn rebuild(&self) -> Result<()> {
        self.reconcile()?;
        let _kernel = self.locks.kernel()?;
        self.firewalls.remake()?;
        self.beside.reconcile()
    }

    /// Removes the state of networks that no running container is on; the next start makes it again.
    pub(crate) fn release(&self) -> Result<()> {
        let rows = self.endpoint_store.rows()?;
        let mut left = false;
        for network in self.register.all()? {
            let mut used = false;
            for row in rows.iter().filter(|row| row.network_id == network.id && row.left_ns == 0) {
                used |= self.register.is_live(row.slot)?;
            }
            left |= used;
            if !used {
                self.bridges.down(&network)?;
            }
        }
        let _kernel = self.locks.kernel()?;
        self.bridges.sweep()?;
        self.beside.reconcile()?;
        if left {
            return Ok(());
        }
        if self.firewall.is_there()? {
            self.firewall.remove()?;
        }
        // Another bridge (of another root, of another program) may need a setting that a root of ours changed first.
        self.settings.restore(|| Ok(links()?.iter().any(|link| link.kind == "bridge")))
    }
}
