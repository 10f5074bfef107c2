//! Passes on the traffic of published ports that the kernel cannot forward to the container: ports at the IPv6 loopback
//! address, and IPv6 ports of a container without an IPv6 address.
//!
//! The bytes of connections go through pipes, and are never read or copied here. The plan has the target of each port,
//! so a plan that replaces another one also replaces the targets.

mod connections;
mod peers;
mod ports;

use connections::Connections;
use peers::Peers;
use ports::Ports;

use crate::fd::Fd;
use crate::ops::Plan;
use crate::passage::Target;
use crate::subjects::{PORT, SIDE};
use crate::sys::{self, *};

/// Zero at the beginning, but for its ports.
pub struct Relay {
    ports: Ports,
    connections: Connections,
    peers: Peers,
}

impl Relay {
    /// # Safety
    /// `place` is valid for writing and zero, and nothing refers to it.
    pub unsafe fn init(place: *mut Relay) {
        // SAFETY: within the structure; zeroes are values of all other fields.
        unsafe { (&raw mut (*place).ports).write(Ports::NONE) };
    }

    /// Called when a worker begins.
    pub fn begin(&mut self, epoll: i32) {
        self.ports.begin(epoll);
        self.connections.begin(epoll);
        self.peers.begin(epoll);
    }

    /// Reads where ports lead from now on.
    pub fn read(&mut self, plan: Plan<'static>) {
        self.ports.read(plan);
    }

    /// Takes sockets, with their keys.
    pub fn add(&mut self, keys: &[u8], fds: &[i32]) {
        self.ports.add(keys, fds);
    }

    /// In the worker: takes more sockets, and listens to them.
    pub fn more(&mut self, keys: &[u8], fds: &[i32]) {
        let known = self.ports.count();
        self.ports.add(keys, fds);
        self.ports.watch(known);
    }

    /// In the worker: listens to all sockets.
    pub fn watch(&self) {
        self.ports.watch(0);
    }

    /// The descriptors of all ports.
    pub fn sockets(&self) -> impl Iterator<Item = i32> {
        self.ports.sockets()
    }

    /// Closes all connections; the ports stay.
    pub fn end_passages(&mut self) {
        self.connections.close_all();
        self.peers.close_all();
    }

    pub fn close(&mut self) {
        self.end_passages();
        self.ports.close();
    }

    /// Whether something is left to do at once.
    pub fn is_busy(&self) -> bool {
        self.connections.is_busy()
    }

    pub fn tick(&mut self) {
        self.connections.tick();
        self.connections.feed(&self.ports);
    }

    pub fn ready(&mut self, kind: u32, index: usize) {
        match (kind, self.ports.get(index)) {
            (PORT, Some(port)) if port.is_udp() => self.peers.datagrams(index, &port, &self.ports),
            (PORT, Some(port)) => self.connections.accept(&port, &self.ports),
            (PORT, None) => {}
            (SIDE, _) => {
                self.connections.pass_on(index);
                self.connections.feed(&self.ports);
            }
            _ => self.peers.answer(index, &self.ports),
        }
    }
}

fn new_socket(target: &Target, tcp: bool) -> Result<Fd> {
    if target.length == 28 { sys::internet6(tcp) } else { sys::internet(tcp) }.map(Fd::new)
}
