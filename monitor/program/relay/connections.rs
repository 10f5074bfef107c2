//! Connections to published ports: each has a pipe in both directions, between the client and the container.

use super::new_socket;
use super::ports::{Port, Ports};
use crate::fd::Fd;
use crate::passage::Target;
use crate::subjects::{SIDE, token};
use crate::sys::{self, *};

const MAX_CONNECTIONS: usize = 1024;
/// The room of a pipe, in bytes.
const PIPE: usize = 64 << 10;
/// How many times one connection is served before the next one.
const TURNS: usize = 16;
const EDGES: u32 = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;

/// One direction of a connection.
struct Way {
    pipe: [Fd; 2],
    /// Bytes in the pipe.
    held: usize,
    /// The sending side has ended.
    ended: bool,
    /// That end was passed on to the receiving side.
    shut: bool,
}

/// A client's connection, and the connection to the container: `sides` has them in this order.
struct Connection {
    sides: [Fd; 2],
    ways: [Way; 2],
    /// The connection may have more to pass on.
    again: bool,
}

impl Connection {
    fn is_used(&self) -> bool {
        self.sides[0].is_open()
    }
}

/// Zero at the beginning.
pub struct Connections {
    epoll: i32,
    connections: [Connection; MAX_CONNECTIONS],
    /// How many places were ever used. The rest of the table takes no memory yet.
    touched: usize,
    /// Connections wait for a free place.
    starved: bool,
    /// A place is free since the last look.
    freed: bool,
    /// A connection may have more to pass on.
    busy: bool,
}

impl Connections {
    /// Called when a worker begins.
    pub fn begin(&mut self, epoll: i32) {
        self.epoll = epoll;
    }

    /// Whether something is left to do at once.
    pub fn is_busy(&self) -> bool {
        self.busy
    }

    pub fn tick(&mut self) {
        if !core::mem::take(&mut self.busy) {
            return;
        }
        for index in 0..self.touched {
            if self.connections[index].is_used() && self.connections[index].again {
                self.pass_on(index);
            }
        }
    }

    /// Accepts the connections that wait at a port.
    pub fn accept(&mut self, port: &Port, ports: &Ports) {
        loop {
            let Some(index) = self.connections.iter().position(|connection| !connection.is_used()) else {
                self.starved = true;
                return;
            };
            let client = match sys::accept(port.fd) {
                Ok(client) => Fd::new(client),
                Err(EAGAIN) => return,
                // The client was gone before its connection was accepted.
                Err(ECONNABORTED | EINTR) => continue,
                Err(_) => {
                    self.starved = true;
                    return;
                }
            };
            // A connection that leads nowhere is closed.
            let _ = ports.target(port).ok_or(ENOENT).and_then(|target| self.open(index, client, &target));
        }
    }

    fn open(&mut self, index: usize, client: Fd, target: &Target) -> Result<()> {
        let sides = [client, new_socket(target, true)?];
        let ways = [new_way()?, new_way()?];
        sys::connect(sides[1].raw(), &target.address[..target.length])?;
        for side in &sides {
            set_options(side.raw());
            sys::epoll_ctl(self.epoll, ADD, side.raw(), EDGES, token(SIDE, index as u32))?;
        }
        self.touched = self.touched.max(index + 1);
        self.connections[index] = Connection { sides, ways, again: false };
        Ok(())
    }

    /// Passes on the bytes that are there, in both directions.
    pub fn pass_on(&mut self, index: usize) {
        let Some(connection) = self.connections.get_mut(index).filter(|connection| connection.is_used()) else {
            return;
        };
        connection.again = false;
        let mut failed = false;
        for at in 0..2 {
            let (from, to) = (connection.sides[at].raw(), connection.sides[1 - at].raw());
            match pass(&mut connection.ways[at], from, to) {
                Ok(more) => connection.again |= more,
                Err(_) => failed = true,
            }
        }
        if failed || connection.ways.iter().all(|way| way.shut) {
            self.close(index);
        } else {
            self.busy |= self.connections[index].again;
        }
    }

    fn close(&mut self, index: usize) {
        let Connection { sides, ways, .. } = &mut self.connections[index];
        sides.iter_mut().chain(ways.iter_mut().flat_map(|way| &mut way.pipe)).for_each(Fd::close);
        self.freed = true;
    }

    pub fn close_all(&mut self) {
        for index in 0..self.touched {
            if self.connections[index].is_used() {
                self.close(index);
            }
        }
    }

    /// If a place is free, accepts the connections that wait for one, because the kernel does not report them again.
    pub fn feed(&mut self, ports: &Ports) {
        if core::mem::take(&mut self.freed) && core::mem::take(&mut self.starved) {
            for port in (0..ports.count()).filter_map(|index| ports.get(index)).filter(|port| !port.is_udp()) {
                self.accept(&port, ports);
            }
        }
    }
}

fn new_way() -> Result<Way> {
    Ok(Way { pipe: sys::pipe2(O_NONBLOCK)?.map(Fd::new), held: 0, ended: false, shut: false })
}

fn set_options(side: i32) {
    const TCP: i32 = 6;
    const TCP_NODELAY: i32 = 1;
    const TCP_KEEPIDLE: i32 = 4;
    const TCP_KEEPINTVL: i32 = 5;
    const SOL_SOCKET: i32 = 1;
    const SO_KEEPALIVE: i32 = 9;
    sys::set_option(side, TCP, TCP_NODELAY, 1);
    // A client that vanished does not keep its place.
    sys::set_option(side, SOL_SOCKET, SO_KEEPALIVE, 1);
    sys::set_option(side, TCP, TCP_KEEPIDLE, 15);
    sys::set_option(side, TCP, TCP_KEEPINTVL, 15);
}

/// Moves the bytes of one side to the other. Answers whether there may be more.
fn pass(way: &mut Way, from: i32, to: i32) -> Result<bool> {
    for _ in 0..TURNS {
        let mut moved = false;
        if !way.ended && way.held < PIPE {
            match sys::splice(from, way.pipe[1].raw(), PIPE - way.held) {
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
            match sys::splice(way.pipe[0].raw(), to, way.held) {
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
