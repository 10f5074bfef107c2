//! Questions that are passed on to the host's resolvers, one after the other until one answers.

use super::askers::{Asker, Askers};
use super::pending::{Pending, Reach};
use super::upstream::{MAX_UPSTREAM, Upstream};
use super::{ANSWER, FIRST_ASKING, FIRST_UPSTREAM, QUERY};
use crate::addresses::is_from;
use crate::launcher::Launcher;
use crate::message::{Message, SOCKET};
use crate::names::SERVFAIL;
use crate::ops::Plan;
use crate::question::{Likeness, Question, head};
use crate::servers::{Server, Servers};
use crate::subjects::{DNS, token};
use crate::sys::{self, *};
use crate::timers;
use crate::walls::Wall;

const MAX_PENDING: usize = 64;
/// How many sockets are kept for the next question; those of more questions at once are closed when they are answered.
const KEPT: usize = 4;
/// A resolver that does not answer for so long is given up for the next.
const PATIENCE_NS: i64 = 2_000_000_000;

/// Zero at the beginning, but for its launcher.
pub struct Forwarder {
    epoll: i32,
    launcher: Launcher,
    servers: Servers,
    pending: [Pending; MAX_PENDING],
    upstreams: [Upstream; MAX_UPSTREAM],
}

impl Forwarder {
    /// Called when a worker begins.
    pub fn begin(&mut self, epoll: i32, launcher: Launcher) {
        (self.epoll, self.launcher) = (epoll, launcher);
    }

    /// Reads the resolvers of a plan.
    pub fn read(&mut self, plan: Plan) {
        self.servers.read(plan);
    }

    pub fn has_servers(&self) -> bool {
        !self.servers.is_empty()
    }

    pub fn close(&mut self) {
        self.upstreams.iter_mut().for_each(|upstream| upstream.fd.close());
        for pending in &mut self.pending {
            pending.used = false;
            pending.socket.close();
        }
    }

    /// A question is asked no more.
    fn forget(&mut self, index: usize) {
        self.pending[index].used = false;
        if index >= KEPT {
            self.pending[index].socket.close();
        }
    }

    /// The questions of askers that are gone are asked no more.
    pub fn forget_gone(&mut self, askers: &Askers) {
        for index in 0..MAX_PENDING {
            if self.pending[index].used && !askers.is_there(self.pending[index].asker) {
                self.forget(index);
            }
        }
    }

    /// When a resolver's patience ends; 0 if none is waited for.
    pub fn due(&self) -> i64 {
        timers::earliest(self.pending.iter().filter(|pending| pending.used).map(|pending| pending.until))
    }

    /// If a resolver was silent for too long, asks the next one.
    pub fn tick(&mut self, askers: &mut Askers) {
        let now = sys::monotonic();
        for index in 0..MAX_PENDING {
            let pending = &mut self.pending[index];
            if pending.used && pending.until <= now {
                self.ask_next(index, askers);
            }
        }
    }

    /// Passes a question on.
    pub fn forward(&mut self, query: &[u8], asker: Asker, askers: &mut Askers) {
        let Some(index) = self.pending.iter().position(|pending| !pending.used) else {
            return fail(query, asker, askers);
        };
        self.pending[index].begin(query, asker);
        self.ask(index, askers);
    }

    /// Sends a question to its resolver, or the client the failure when there is none left.
    fn ask(&mut self, index: usize, askers: &mut Askers) {
        loop {
            let pending = &mut self.pending[index];
            let Some(&server) = self.servers.get(pending.server) else {
                fail(pending.query(), pending.asker, askers);
                return self.forget(index);
            };
            // Each time another number, spelling and port.
            pending.disguise();
            pending.until = sys::monotonic() + PATIENCE_NS;
            // A client that asks over TCP expects an answer that is too long for a datagram.
            let over_tcp = pending.asker.is_stream();
            if over_tcp && self.ask_stream(index, &server).is_some() || self.ask_datagram(index, &server).is_ok() {
                return;
            }
            let pending = &mut self.pending[index];
            (pending.server, pending.plain) = (pending.server + 1, false);
        }
    }

    /// Asks over the question's own socket, from a port that the kernel chooses anew, and that hears this resolver
    /// alone.
    fn ask_datagram(&mut self, index: usize, server: &Server) -> Result<()> {
        const UNCONNECTED: [u8; 16] = [0; 16];
        let reach = Reach { outside: server.outside, v6: server.is_v6() };
        if self.pending[index].reach != reach {
            self.pending[index].socket.close();
        }
        let mut socket = self.pending[index].socket.raw();
        if socket < 0 {
            socket = self.new_socket(server, false)?;
            let pending = &mut self.pending[index];
            pending.socket.set(socket);
            pending.reach = reach;
            sys::epoll_ctl(self.epoll, ADD, socket, EPOLLIN, token(DNS, (FIRST_ASKING + index) as u32))?;
        } else if Wall::ResolverQuestions.stands() {
            // Gives the port back.
            sys::connect(socket, &UNCONNECTED)?;
        }
        let (to, length) = server.address();
        sys::connect(socket, &to[..length])?;
        let mut asked = [0; QUERY];
        let asked_length = self.pending[index].asked(&mut asked);
        // The kernel reports an error of an earlier question once.
        sys::send(socket, &asked[..asked_length]).or_else(|_| sys::send(socket, &asked[..asked_length])).map(|_| ())
    }

    fn ask_next(&mut self, index: usize, askers: &mut Askers) {
        self.close_upstream_of(index);
        let pending = &mut self.pending[index];
        (pending.server, pending.plain) = (pending.server + 1, false);
        self.ask(index, askers);
    }

    /// A resolver changed the spelling, or somebody guessed all but that: the resolver is asked once more, from another
    /// port and with another number, in small letters, which such resolvers answer with.
    fn ask_plainly(&mut self, index: usize, askers: &mut Askers) {
        self.close_upstream_of(index);
        self.pending[index].plain = true;
        self.ask(index, askers);
    }

    fn close_upstream_of(&mut self, index: usize) {
        if let Some(upstream) = self.pending[index].upstream.take() {
            self.upstreams[upstream].fd.close();
        }
    }

    /// A socket in the network namespace from which a resolver is asked. Only the launcher can make one in the
    /// container's.
    fn new_socket(&self, server: &Server, tcp: bool) -> Result<i32> {
        if server.outside {
            return if server.is_v6() { sys::internet6(tcp) } else { sys::internet(tcp) };
        }
        let tcp = u32::from(tcp);
        self.launcher.request(Message { code: SOCKET, a: tcp, b: u64::from(server.is_v6()), ..Message::default() })
    }

    /// Asks over a connection of its own. None if there is no room for one, or no way there.
    fn ask_stream(&mut self, index: usize, server: &Server) -> Option<()> {
        let at = self.upstreams.iter().position(|upstream| !upstream.fd.is_open())?;
        let fd = self.new_socket(server, true).ok()?;
        let (to, length) = server.address();
        let key = token(DNS, (FIRST_UPSTREAM + at) as u32);
        if sys::connect(fd, &to[..length]).is_err()
            || sys::epoll_ctl(self.epoll, ADD, fd, EPOLLIN | EPOLLOUT, key).is_err()
        {
            sys::close(fd);
            return None;
        }
        self.upstreams[at].begin(fd, index);
        self.pending[index].upstream = Some(at);
        Some(())
    }

    /// A connection to a resolver takes the question, or brings the answer.
    pub fn upstream_ready(&mut self, at: usize, askers: &mut Askers) {
        let Some(upstream) = self.upstreams.get_mut(at).filter(|upstream| upstream.fd.is_open()) else {
            return;
        };
        let index = upstream.pending;
        let pending = &self.pending[index];
        if !pending.used || pending.upstream != Some(at) {
            return upstream.fd.close();
        }
        if !upstream.is_sent() {
            match upstream.send(pending) {
                Err(EAGAIN) => {}
                Err(_) => self.ask_next(index, askers),
                Ok(()) => {
                    let key = token(DNS, (FIRST_UPSTREAM + at) as u32);
                    let _ = sys::epoll_ctl(self.epoll, CHANGE, upstream.fd.raw(), EPOLLIN, key);
                }
            }
            return;
        }
        let length = match upstream.receive() {
            Ok(length) => length,
            Err(EAGAIN) => return,
            Err(_) => return self.ask_next(index, askers),
        };
        match pending.likeness(upstream.answer(length)) {
            Likeness::Same => {}
            Likeness::OtherSpelling if !pending.plain => return self.ask_plainly(index, askers),
            _ => return self.ask_next(index, askers),
        }
        pending.answer_as_client(upstream.answer(length));
        askers.reply_framed(pending.asker, upstream.framed(length));
        upstream.fd.close();
        self.forget(index);
    }

    /// Something came for a question, or late for one before.
    pub fn replies(&mut self, index: usize, askers: &mut Askers) {
        let mut message = [0u8; ANSWER];
        let mut from = [0u8; 28];
        for _ in 0..16 {
            let Some(pending) = self.pending.get(index).filter(|pending| pending.socket.is_open()) else {
                return;
            };
            let waits = pending.used && pending.upstream.is_none();
            let length = match sys::recv_from(pending.socket.raw(), &mut message, &mut from) {
                Ok(length) => length,
                // Nobody is there.
                Err(ECONNREFUSED) if waits => return self.ask_next(index, askers),
                Err(_) => return,
            };
            if !waits || !self.servers.get(pending.server).is_some_and(|server| is_from(&server.address(), &from)) {
                continue;
            }
            match pending.likeness(&message[..length]) {
                Likeness::Same => {}
                Likeness::OtherSpelling if !pending.plain => {
                    return self.ask_plainly(index, askers);
                }
                // Nobody's answer, whoever sent it.
                _ => continue,
            }
            pending.answer_as_client(&mut message[..length]);
            askers.reply(pending.asker, &message[..length]);
            return self.forget(index);
        }
    }
}

/// Answers a client that its question has no answer.
fn fail(query: &[u8], asker: Asker, askers: &mut Askers) {
    let mut out = [0u8; QUERY];
    if let Some(question) = Question::read(query) {
        let length = head(&mut out, query, &question, SERVFAIL);
        askers.reply(asker, &out[..length]);
    }
}
