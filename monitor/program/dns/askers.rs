//! The askers of the resolver: processes of the container that ask by datagrams or over connections.

use super::{ANSWER, FIRST_CLIENT, QUERY, SOCKETS};
use crate::addresses::Peer;
use crate::fd::Fd;
use crate::framed::{First, Frames, frame};
use crate::subjects::{DNS, TCP, UDP, token};
use crate::sys::{self, *};

pub const MAX_STREAMS: usize = 16;

/// The client that asked.
#[derive(Clone, Copy)]
pub struct Asker {
    /// Of a datagram: where it came from.
    peer: Peer,
    /// Of a connection: its descriptor, which distinguishes it from a later one in its place; 0 if the client sent a datagram.
    fd: i32,
    place: usize,
}

impl Asker {
    pub fn of_datagram(peer: Peer) -> Asker {
        Asker { peer, fd: 0, place: 0 }
    }

    pub fn is_stream(self) -> bool {
        self.fd > 0
    }
}

/// A connection, and the bytes that came over it.
struct Stream {
    fd: Fd,
    frames: Frames<{ QUERY + 2 }>,
}

/// Zero at the beginning, but for its sockets.
pub struct Askers {
    epoll: i32,
    /// The container's sockets; below 0 if there is none.
    pub sockets: [i32; SOCKETS],
    streams: [Stream; MAX_STREAMS],
    /// A connection was closed since the last look.
    closed: bool,
}

impl Askers {
    /// Called when a worker begins.
    pub fn begin(&mut self, epoll: i32) {
        self.epoll = epoll;
    }

    /// Takes the connections that wait.
    pub fn accept(&mut self) {
        while let Ok(fd) = sys::accept(self.sockets[TCP]) {
            match self.streams.iter().position(|stream| !stream.fd.is_open()) {
                Some(place) => {
                    self.streams[place].fd.set(fd);
                    self.streams[place].frames.clear();
                    let _ = sys::epoll_ctl(self.epoll, ADD, fd, EPOLLIN, token(DNS, (FIRST_CLIENT + place) as u32));
                }
                None => sys::close(fd),
            }
        }
    }

    /// Reads from a connection; answers whether something came.
    pub fn read(&mut self, place: usize) -> bool {
        let Some(stream) = self.streams.get_mut(place).filter(|stream| stream.fd.is_open()) else {
            return false;
        };
        match sys::read(stream.fd.raw(), stream.frames.room()) {
            Err(EAGAIN) => false,
            Ok(length) if length > 0 => {
                stream.frames.add(length);
                true
            }
            _ => {
                self.close(place);
                false
            }
        }
    }

    /// The next question of a connection: the client, and the length in `query`. None if all of it is not there yet, or
    /// the connection is closed.
    pub fn next(&mut self, place: usize, query: &mut [u8; QUERY]) -> Option<(Asker, usize)> {
        let stream = &mut self.streams[place];
        if !stream.fd.is_open() {
            return None;
        }
        match stream.frames.first() {
            First::Whole(length) => {
                query[..length].copy_from_slice(stream.frames.message(length));
                stream.frames.remove(length);
                Some((Asker { peer: Peer::NOBODY, fd: stream.fd.raw(), place }, length))
            }
            First::Incomplete => None,
            First::TooLong => {
                self.close(place);
                None
            }
        }
    }

    /// Whether a client can be answered: connections can be closed.
    pub fn is_there(&self, asker: Asker) -> bool {
        !asker.is_stream() || self.streams[asker.place].fd.raw() == asker.fd
    }

    pub fn reply(&mut self, asker: Asker, message: &[u8]) {
        if !asker.is_stream() {
            let _ = sys::send_to(self.sockets[UDP], message, &asker.peer.address());
            return;
        }
        let mut framed = [0u8; ANSWER + 2];
        let length = frame(&mut framed, message);
        self.reply_framed(asker, &framed[..length]);
    }

    /// Over a connection, with the length before the message. A connection that does not take all of it is closed.
    pub fn reply_framed(&mut self, asker: Asker, framed: &[u8]) {
        if asker.is_stream() && self.is_there(asker) && sys::send(asker.fd, framed) != Ok(framed.len()) {
            self.close(asker.place);
        }
    }

    fn close(&mut self, place: usize) {
        let fd = &mut self.streams[place].fd;
        self.closed |= fd.is_open();
        fd.close();
    }

    pub fn close_all(&mut self) {
        for place in 0..MAX_STREAMS {
            self.close(place);
        }
    }

    /// Whether a connection was closed since the last look.
    pub fn take_closed(&mut self) -> bool {
        core::mem::take(&mut self.closed)
    }
}
