//! Connections to published ports: each has a pipe in both directions, between the client and the container.

use super::new_socket;
use super::ports::{Port, Ports};
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
    /// In a worker that begins.
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
            if self.connections[index].used && self.connections[index].again {
                self.pass_on(index);
            }
        }
    }

    /// Accepts the connections that wait at a port.
    pub fn accept(&mut self, port: &Port, ports: &Ports) {
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
            let begun = ports.target(port).ok_or(ENOENT).and_then(|target| self.open(index, client, &target));
            if begun.is_err() {
                sys::close(client);
            }
        }
    }

    fn open(&mut self, index: usize, client: i32, target: &Target) -> Result<()> {
        let server = new_socket(target, true)?;
        let mut pipes = [[-1; 2]; 2];
        let begun = (|| {
            pipes[0] = sys::pipe2(O_NONBLOCK)?;
            pipes[1] = sys::pipe2(O_NONBLOCK)?;
            sys::connect(server, &target.address[..target.length])?;
            [client, server].into_iter().for_each(set_options);
            let key = token(SIDE, index as u32);
            sys::epoll_ctl(self.epoll, ADD, client, EDGES, key)?;
            sys::epoll_ctl(self.epoll, ADD, server, EDGES, key)
        })();
        if let Err(error) = begun {
            crate::fd::close_all(&[server, pipes[0][0], pipes[0][1], pipes[1][0], pipes[1][1]]);
            return Err(error);
        }
        self.touched = self.touched.max(index + 1);
        let way = |pipe| Way { pipe, held: 0, ended: false, shut: false };
        self.connections[index] =
            Connection { used: true, sides: [client, server], ways: pipes.map(way), again: false };
        Ok(())
    }

    /// Passes on the bytes that are there, in both directions.
    pub fn pass_on(&mut self, index: usize) {
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
            self.close(index);
        } else {
            self.busy |= self.connections[index].again;
        }
    }

    fn close(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        connection.used = false;
        let pipes = connection.ways.iter().flat_map(|way| way.pipe);
        connection.sides.into_iter().chain(pipes).for_each(sys::close);
        self.freed = true;
    }

    pub fn close_all(&mut self) {
        for index in 0..self.touched {
            if self.connections[index].used {
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
