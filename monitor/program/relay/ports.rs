//! The sockets of the published ports, and where each port leads.

use crate::ops::{self, Plan};
use crate::passage::{self, Target};
use crate::subjects::{PORT, token};
use crate::sys::{self, *};
use crate::wire::RELAY_KEY;

const UDP: u8 = 17;

/// A port's socket.
#[derive(Clone, Copy)]
pub struct Port {
    pub fd: i32,
    key: [u8; RELAY_KEY],
}

// SAFETY: a number and bytes.
unsafe impl sys::Plain for Port {}

impl Port {
    pub fn is_udp(&self) -> bool {
        self.key[2] == UDP
    }
}

pub struct Ports {
    epoll: i32,
    /// Where the ports lead.
    targets: Option<ops::Relay<'static>>,
    ports: Option<&'static mut [Port]>,
    count: usize,
}

impl Ports {
    pub const NONE: Ports = Ports { epoll: -1, targets: None, ports: None, count: 0 };

    /// Called when a worker begins.
    pub fn begin(&mut self, epoll: i32) {
        self.epoll = epoll;
    }

    /// Reads where ports lead from now on.
    pub fn read(&mut self, plan: Plan<'static>) {
        self.targets = plan.find();
    }

    /// Where a port leads now; none if the plan has no target for it at the moment.
    pub fn target(&self, port: &Port) -> Option<Target> {
        passage::find(self.targets?.ports, &port.key)
    }

    pub fn count(&self) -> usize {
        self.count
    }

    fn all(&self) -> &[Port] {
        &self.ports.as_deref().unwrap_or(&[])[..self.count]
    }

    pub fn get(&self, index: usize) -> Option<Port> {
        self.all().get(index).copied()
    }

    /// The descriptors of all ports.
    pub fn sockets(&self) -> impl Iterator<Item = i32> {
        self.all().iter().map(|port| port.fd)
    }

    /// Takes sockets, with their keys.
    pub fn add(&mut self, keys: &[u8], fds: &[i32]) {
        self.make_room(fds.len());
        for (fd, key) in fds.iter().zip(keys.chunks_exact(RELAY_KEY)) {
            self.add_one(*fd, key);
        }
    }

    fn add_one(&mut self, fd: i32, key: &[u8]) {
        let index = self.count;
        let Some(place) = self.ports.as_deref_mut().and_then(|ports| ports.get_mut(index)) else {
            return sys::close(fd);
        };
        place.fd = fd;
        place.key.copy_from_slice(key);
        self.count += 1;
        sys::set_nonblocking(fd);
    }

    /// Makes room in the table for so many more ports: networks that are connected later may have more ports to pass on
    /// than those of the start.
    fn make_room(&mut self, more: usize) {
        let wanted = self.count + more;
        let there = self.ports.as_deref().map_or(0, <[Port]>::len);
        if wanted <= there {
            return;
        }
        let planned = self.targets.map_or(0, |relay| relay.ports.len());
        let Ok(room) = sys::map_slice(wanted.max(planned)) else { return };
        if let Some(old) = self.ports.take() {
            room[..self.count].copy_from_slice(&old[..self.count]);
            sys::unmap_slice(old);
        }
        self.ports = Some(room);
    }

    /// Listens to all ports except the first `known`.
    pub fn watch(&self, known: usize) {
        for (index, port) in self.all().iter().enumerate().skip(known) {
            let edge = if port.is_udp() { 0 } else { EPOLLET };
            let _ = sys::epoll_ctl(self.epoll, ADD, port.fd, EPOLLIN | edge, token(PORT, index as u32));
        }
    }

    pub fn close(&mut self) {
        self.sockets().for_each(sys::close);
        self.count = 0;
    }
}
