//! Names: answers for the containers of the networks that this one is on, and passes everything else on to the host's
//! resolvers.
//!
//! The sockets are the container's: its first process made them. The library writes a file for each network, with the
//! names and their holders; the locks of running containers show which of them run (`names`).

mod askers;
mod forwarder;
mod pending;
mod upstream;

use askers::{Asker, Askers};
use forwarder::Forwarder;

use crate::addresses::Peer;
use crate::fd;
use crate::launcher::Launcher;
use crate::names::{Names, Reply};
use crate::ops::Plan;
use crate::subjects::{DNS, TCP, UDP, token};
use crate::sys::{self, *};

/// The container's sockets, by their places: [`UDP`] and [`TCP`].
const SOCKETS: usize = 2;
const FIRST_CLIENT: usize = 8;
const FIRST_UPSTREAM: usize = FIRST_CLIENT + askers::MAX_STREAMS;
const FIRST_ASKING: usize = FIRST_UPSTREAM + upstream::MAX_UPSTREAM;

/// The longest question that is passed on, and the longest answer that is given, in bytes.
const QUERY: usize = 1232;
const ANSWER: usize = 4096;
/// The longest answer to a datagram of a client, in bytes.
const DATAGRAM: usize = 512;

pub struct Dns {
    epoll: i32,
    names: Names,
    askers: Askers,
    forwarder: Forwarder,
}

impl Dns {
    /// # Safety
    /// `place` is valid for writing and zero, and nothing refers to it.
    pub unsafe fn init(place: *mut Dns) {
        // SAFETY: within the structure; the slices must not be null, all other zeroes are valid.
        unsafe {
            (&raw mut (*place).askers.sockets).write([-1; SOCKETS]);
            (&raw mut (*place).names).write(Names::NONE);
        }
    }

    /// Called when a worker begins.
    pub fn begin(&mut self, epoll: i32, launcher: Launcher, files: crate::names::Files) {
        self.epoll = epoll;
        self.askers.begin(epoll);
        self.forwarder.begin(epoll, launcher);
        self.names.begin(files);
    }

    /// Reads a plan. Names and resolvers that the plan does not have count no more.
    pub fn read(&mut self, plan: Plan<'static>) {
        self.forwarder.read(plan);
        self.names.read(plan, self.forwarder.has_servers());
    }

    /// Puts a socket in its place; one that has no place is closed.
    pub fn take(&mut self, which: usize, fd: i32) -> bool {
        let Some(place) = self.askers.sockets.get_mut(which) else {
            sys::close(fd);
            return false;
        };
        if *place != fd {
            fd::replace(place, fd);
        }
        sys::set_nonblocking(fd);
        true
    }

    /// In the worker: listens at a socket.
    pub fn open(&mut self, which: usize, fd: i32) {
        if self.take(which, fd) {
            let _ = sys::epoll_ctl(self.epoll, ADD, fd, EPOLLIN, token(DNS, which as u32));
        }
    }

    /// In the worker: listens at the sockets that there are.
    pub fn listen(&mut self) {
        for (which, fd) in self.askers.sockets.into_iter().enumerate().filter(|(_, fd)| *fd >= 0) {
            self.open(which, fd);
        }
    }

    /// The sockets that there are.
    pub fn sockets(&self) -> impl Iterator<Item = (usize, i32)> {
        self.askers.sockets.iter().copied().enumerate().filter(|(_, fd)| *fd >= 0)
    }

    pub fn close(&mut self) {
        for place in &mut self.askers.sockets {
            fd::replace(place, -1);
        }
        self.askers.close_all();
        self.forwarder.close();
    }

    /// When a resolver's patience ends; 0 if none is waited for.
    pub fn due(&self) -> i64 {
        self.forwarder.due()
    }

    /// If a resolver was silent for too long, asks the next one.
    pub fn tick(&mut self) {
        self.forwarder.tick(&mut self.askers);
        self.sweep();
    }

    pub fn ready(&mut self, index: usize) {
        match index {
            UDP => self.datagrams(),
            TCP => self.askers.accept(),
            FIRST_CLIENT..FIRST_UPSTREAM => self.stream_ready(index - FIRST_CLIENT),
            FIRST_UPSTREAM..FIRST_ASKING => self.forwarder.upstream_ready(index - FIRST_UPSTREAM, &mut self.askers),
            FIRST_ASKING.. => self.forwarder.replies(index - FIRST_ASKING, &mut self.askers),
            _ => {}
        }
        self.sweep();
    }

    /// Nobody waits for the questions of a connection that is gone.
    fn sweep(&mut self) {
        if self.askers.take_closed() {
            self.forwarder.forget_gone(&self.askers);
        }
    }

    fn datagrams(&mut self) {
        let mut query = [0u8; QUERY];
        let mut from = [0u8; 16];
        // Not for ever: other work waits too.
        for _ in 0..16 {
            let Ok(length) = sys::recv_from(self.askers.sockets[UDP], &mut query, &mut from) else {
                return;
            };
            self.question(&query[..length], Asker::of_datagram(Peer::of(&from)));
        }
    }

    fn stream_ready(&mut self, index: usize) {
        if !self.askers.read(index) {
            return;
        }
        let mut query = [0u8; QUERY];
        while let Some((asker, length)) = self.askers.next(index, &mut query) {
            self.question(&query[..length], asker);
        }
    }

    fn question(&mut self, query: &[u8], asker: Asker) {
        let mut out = [0u8; ANSWER];
        let room = if asker.is_stream() { ANSWER } else { DATAGRAM };
        match self.names.answer(query, &mut out[..room]) {
            Reply::Ready(length) => self.askers.reply(asker, &out[..length]),
            Reply::Forward => self.forwarder.forward(query, asker, &mut self.askers),
            Reply::Silent => {}
        }
    }
}
