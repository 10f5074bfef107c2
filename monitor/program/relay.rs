//! Passes on the traffic of published ports that the kernel cannot forward to the container: ports at the IPv6 loopback
//! address, and IPv6 ports of a container without an IPv6 address.
//!
//! The bytes of connections go through pipes, and are never read or copied here. The plan has the target of each port,
//! so a plan that replaces another one also replaces the targets.

use crate::ops::{self, Plan};
use crate::passage::{self, Target, own_address, same_peer};
use crate::subjects::{BACK, PORT, SIDE, token};
use crate::sys::{self, *};
use crate::wire::*;

const MAX_CONNECTIONS: usize = 1024;
const MAX_PEERS: usize = 256;
/// The room of a pipe, in bytes.
const PIPE: usize = 64 << 10;
/// How many times one connection is served before the next one.
const TURNS: usize = 16;
const DATAGRAM: usize = 64 << 10;
const UDP: u8 = 17;
const EDGES: u32 = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;

/// A port's socket.
#[derive(Clone, Copy)]
struct Port {
    fd: i32,
    key: [u8; RELAY_KEY],
}

// SAFETY: a number and bytes.
unsafe impl sys::Plain for Port {}

/// One direction of a connection.
#[derive(Clone, Copy)]
struct Way {
    pipe: [i32; 2],
    /// Bytes in the pipe.
    held: usize,
    /// The sending side has ended.
    ended: bool,
    /// The receiving side was told of that end.
    shut: bool,
}

/// A client's connection, and the connection to the container: `sides` has them in this order.
#[derive(Clone, Copy)]
struct Connection {
    used: bool,
    sides: [i32; 2],
    ways: [Way; 2],
    /// The connection may have more to pass on.
    again: bool,
}

/// A client that sent datagrams, and a socket that is connected to the container for this client.
#[derive(Clone, Copy)]
struct Peer {
    used: bool,
    fd: i32,
    port: usize,
    address: [u8; 28],
    asked: Asked,
    asked_length: usize,
    last: i64,
}

/// Zero at the beginning.
pub struct Relay {
    epoll: i32,
    /// Where the ports lead.
    targets: Option<ops::Relay<'static>>,
    ports: Option<&'static mut [Port]>,
    count: usize,
    connections: [Connection; MAX_CONNECTIONS],
    peers: [Peer; MAX_PEERS],
    datagram: [u8; DATAGRAM],
    /// How many places of connections and of peers were ever used. The rest of both tables takes no memory yet.
    touched: (usize, usize),
    /// Connections wait for a free place.
    starved: bool,
    /// A connection may have more to pass on.
    busy: bool,
}

impl Relay {
    /// # Safety
    /// `place` is valid for writing and zero, and nothing refers to it.
    pub unsafe fn init(place: *mut Relay) {
        // SAFETY: within the structure; all other zeroes are valid.
        unsafe {
            (&raw mut (*place).ports).write(None);
            (&raw mut (*place).targets).write(None);
        }
    }

    /// In a worker that begins.
    pub fn begin(&mut self, epoll: i32) {
        self.epoll = epoll;
    }

    /// Reads where ports lead from now on.
    pub fn read(&mut self, plan: Plan<'static>) {
        self.targets = plan.find();
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

    /// In the worker: takes more sockets, and listens to them.
    pub fn more(&mut self, keys: &[u8], fds: &[i32]) {
        let known = self.count;
        self.add(keys, fds);
        self.watch(known);
    }

    /// In the worker: listens to all sockets except the first `known`.
    pub fn watch(&mut self, known: usize) {
        let ports = self.ports.as_deref().unwrap_or(&[]);
        for (index, port) in ports[..self.count].iter().enumerate().skip(known) {
            let edge = if port.key[2] == UDP { 0 } else { EPOLLET };
            let _ = sys::epoll_ctl(self.epoll, ADD, port.fd, EPOLLIN | edge, token(PORT, index as u32));
        }
    }

    /// The descriptors of all ports.
    pub fn sockets(&self) -> impl Iterator<Item = i32> {
        self.ports.as_deref().unwrap_or(&[])[..self.count].iter().map(|port| port.fd)
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

    /// Closes all connections; the ports stay.
    pub fn end_passages(&mut self) {
        let (connections, peers) = self.touched;
        for index in 0..connections {
            if self.connections[index].used {
                self.close_connection(index);
            }
        }
        for peer in self.peers[..peers].iter_mut().filter(|peer| peer.used) {
            peer.used = false;
            sys::close(peer.fd);
        }
    }

    pub fn close(&mut self) {
        self.end_passages();
        let count = core::mem::take(&mut self.count);
        if let Some(ports) = &self.ports {
            ports[..count].iter().for_each(|port| sys::close(port.fd));
        }
    }

    /// Whether something is left to do at once.
    pub fn is_busy(&self) -> bool {
        self.busy
    }

    pub fn tick(&mut self) {
        if !core::mem::take(&mut self.busy) {
            return;
        }
        for index in 0..self.touched.0 {
            if self.connections[index].used && self.connections[index].again {
                self.pass_on(index);
            }
        }
    }

    pub fn ready(&mut self, kind: u32, index: usize) {
        match kind {
            PORT => self.port_ready(index),
            SIDE => self.pass_on(index),
            _ => self.answer_peer(index),
        }
    }

    fn port(&self, index: usize) -> Option<Port> {
        self.ports.as_deref()?[..self.count].get(index).copied()
    }

    fn port_ready(&mut self, index: usize) {
        match self.port(index) {
            Some(port) if port.key[2] == UDP => self.datagrams(index, port),
            Some(port) => self.connections(port),
            None => {}
        }
    }

    /// Where a port leads now; none if the plan has no target for it at the moment.
    fn target(&self, key: &[u8; RELAY_KEY]) -> Option<Target> {
        passage::find(self.targets?.ports, key)
    }

    fn connections(&mut self, port: Port) {
        loop {
            let Some(index) = self.connections.iter().position(|connection| !connection.used) else {
                self.starved = true;
                return;
            };
            let client = match sys::accept(port.fd) {
                Ok(client) => client,
                Err(EAGAIN) => return,
                // The client was gone before its connection was accepted.
                Err(ECONNABORTED | EINTR) => continue,
                Err(_) => {
                    self.starved = true;
                    return;
                }
            };
            if self.begin_connection(index, client, port).is_err() {
                sys::close(client);
            }
        }
    }

    fn begin_connection(&mut self, index: usize, client: i32, port: Port) -> Result<()> {
        let target = self.target(&port.key).ok_or(ENOENT)?;
        let server = new_socket(&target, true)?;
        let mut pipes = [[-1; 2]; 2];
        let begun = (|| {
            pipes[0] = sys::pipe2(O_NONBLOCK)?;
            pipes[1] = sys::pipe2(O_NONBLOCK)?;
            sys::connect(server, &target.address[..target.length])?;
            for side in [client, server] {
                const TCP_NODELAY: i32 = 1;
                sys::set_option(side, 6, TCP_NODELAY, 1);
                const SOL_SOCKET: i32 = 1;
                const SO_KEEPALIVE: i32 = 9;
                const TCP_KEEPIDLE: i32 = 4;
                const TCP_KEEPINTVL: i32 = 5;
                // A client that vanished does not keep its place.
                sys::set_option(side, SOL_SOCKET, SO_KEEPALIVE, 1);
                sys::set_option(side, 6, TCP_KEEPIDLE, 15);
                sys::set_option(side, 6, TCP_KEEPINTVL, 15);
            }
            let key = token(SIDE, index as u32);
            sys::epoll_ctl(self.epoll, ADD, client, EDGES, key)?;
            sys::epoll_ctl(self.epoll, ADD, server, EDGES, key)
        })();
        if let Err(error) = begun {
            for fd in [server, pipes[0][0], pipes[0][1], pipes[1][0], pipes[1][1]] {
                if fd >= 0 {
                    sys::close(fd);
                }
            }
            return Err(error);
        }
        self.touched.0 = self.touched.0.max(index + 1);
        let way = |pipe| Way { pipe, held: 0, ended: false, shut: false };
        self.connections[index] =
            Connection { used: true, sides: [client, server], ways: pipes.map(way), again: false };
        Ok(())
    }

    /// Passes on the bytes that are there, in both directions.
    fn pass_on(&mut self, index: usize) {
        let Some(connection) = self.connections.get_mut(index).filter(|connection| connection.used) else {
            return;
        };
        connection.again = false;
        let mut failed = false;
        for at in 0..2 {
            let (from, to) = (connection.sides[at], connection.sides[1 - at]);
            match pass(&mut connection.ways[at], from, to) {
                Ok(more) => connection.again |= more,
                Err(_) => failed = true,
            }
        }
        if failed || connection.ways.iter().all(|way| way.shut) {
            self.close_connection(index);
            self.feed();
        } else {
            self.busy |= self.connections[index].again;
        }
    }

    fn close_connection(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        connection.used = false;
        let pipes = connection.ways.iter().flat_map(|way| way.pipe);
        connection.sides.into_iter().chain(pipes).for_each(sys::close);
    }

    /// A place is free. Accepts the connections that wait, because the kernel does not report them again.
    fn feed(&mut self) {
        if core::mem::take(&mut self.starved) {
            for index in 0..self.count {
                if let Some(port) = self.port(index).filter(|port| port.key[2] != UDP) {
                    self.connections(port);
                }
            }
        }
    }

    fn datagrams(&mut self, index: usize, port: Port) {
        let (mut from, mut asked) = ([0; 28], Asked([0; 40]));
        // Bounded, because other work waits too.
        for _ in 0..16 {
            let buffer = &mut self.datagram;
            let Ok((length, asked_length)) = sys::recv_asked(port.fd, buffer, &mut from, &mut asked) else { return };
            let Some(at) = self.peer(index, &port, &from) else { continue };
            let peer = &mut self.peers[at];
            (peer.asked, peer.asked_length, peer.last) = (Asked(own_address(asked.0)), asked_length, sys::monotonic());
            let _ = sys::send(peer.fd, &self.datagram[..length]);
        }
    }

    /// The place of a client that sends datagrams. A new client takes the place of the one that was silent longest.
    fn peer(&mut self, index: usize, port: &Port, from: &[u8; 28]) -> Option<usize> {
        let same = |peer: &Peer| peer.used && peer.port == index && same_peer(&peer.address, from);
        if let Some(at) = self.peers[..self.touched.1].iter().position(same) {
            return Some(at);
        }
        let target = self.target(&port.key)?;
        let fd = new_socket(&target, false).ok()?;
        let peers = self.peers.iter().enumerate();
        let at = peers.min_by_key(|(_, peer)| if peer.used { peer.last } else { 0 }).map_or(0, |(at, _)| at);
        let peer = &mut self.peers[at];
        if peer.used {
            sys::close(peer.fd);
            peer.used = false;
        }
        let key = token(BACK, at as u32);
        if sys::connect(fd, &target.address[..target.length]).is_err()
            || sys::epoll_ctl(self.epoll, ADD, fd, EPOLLIN, key).is_err()
        {
            sys::close(fd);
            return None;
        }
        (peer.used, peer.fd, peer.port, peer.address) = (true, fd, index, *from);
        self.touched.1 = self.touched.1.max(at + 1);
        Some(at)
    }

    fn answer_peer(&mut self, index: usize) {
        for _ in 0..16 {
            let Some(peer) = self.peers.get_mut(index).filter(|peer| peer.used) else { return };
            peer.last = sys::monotonic();
            let peer = *peer;
            let length = match sys::receive(peer.fd, &mut self.datagram) {
                Ok(length) => length,
                // Nobody listens there; the kernel reports this once.
                Err(_) => return,
            };
            let Some(port) = self.port(peer.port) else { return };
            let data = &self.datagram[..length];
            let _ = sys::send_asked(port.fd, data, &peer.address, &peer.asked, peer.asked_length);
        }
    }
}

/// Moves the bytes of one side to the other. Answers whether there may be more.
fn pass(way: &mut Way, from: i32, to: i32) -> Result<bool> {
    for _ in 0..TURNS {
        let mut moved = false;
        if !way.ended && way.held < PIPE {
            match sys::splice(from, way.pipe[1], PIPE - way.held) {
                Ok(0) => way.ended = true,
                Ok(length) => {
                    way.held += length;
                    moved = true;
                }
                Err(EAGAIN) => {}
                Err(error) => return Err(error),
            }
        }
        if way.held > 0 {
            match sys::splice(way.pipe[0], to, way.held) {
                Ok(length) => {
                    way.held -= length;
                    moved = true;
                }
                Err(EAGAIN) => {}
                Err(error) => return Err(error),
            }
        }
        if way.ended && way.held == 0 && !way.shut {
            sys::shut_write(to);
            way.shut = true;
        }
        if !moved {
            return Ok(false);
        }
    }
    Ok(true)
}

fn new_socket(target: &Target, tcp: bool) -> Result<i32> {
    if target.length == 28 { sys::internet6(tcp) } else { sys::internet(tcp) }
}
