//! Names: answers for the containers of the networks that this one is on, and passes everything else on to the host's
//! resolvers.
//!
//! The sockets are the container's: its first process made them. The library writes a file for each network, with the
//! names and their holders; the locks of running containers tell which of them run (`names`).

use crate::fd;
use crate::launcher::Launcher;
use crate::message::{Message, SOCKET};
use crate::names::{Names, Reply, SERVFAIL};
use crate::ops::{self, Plan};
use crate::question::{Likeness, Question, Spelling, head, likeness, spell};
use crate::subjects::{DNS, TCP, UDP, token};
use crate::sys::{self, *};
use crate::timers;
use crate::walls::Wall;

const SOCKETS: usize = 2;
const FIRST_CLIENT: usize = 8;
const FIRST_UPSTREAM: usize = FIRST_CLIENT + MAX_TCP;
const FIRST_ASKING: usize = FIRST_UPSTREAM + MAX_UPSTREAM;

const MAX_PENDING: usize = 64;
/// How many sockets are kept for the next question; those of more questions at once are closed when they are answered.
const KEPT: usize = 4;
const MAX_TCP: usize = 16;
const MAX_UPSTREAM: usize = 4;
const MAX_SERVERS: usize = 4;
/// The longest question that is passed on, and the longest answer that is given, in bytes.
const QUERY: usize = 1232;
const ANSWER: usize = 4096;
/// The longest answer that is passed on over TCP, in bytes.
const LONG_ANSWER: usize = 32 << 10;
/// A resolver that does not answer for so long is given up for the next.
const PATIENCE_NS: i64 = 2_000_000_000;
const PORT: u16 = 53;

/// A client's IPv4 address and port.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    ip: [u8; 4],
    port: u16,
}

const NOBODY: Peer = Peer { ip: [0; 4], port: 0 };

#[derive(Clone, Copy)]
struct Server {
    /// IPv4 addresses are mapped.
    ip: [u8; 16],
    scope: u32,
    outside: bool,
}

const MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];

impl Server {
    fn v4(ip: [u8; 4], outside: bool) -> Server {
        let mut mapped = [0; 16];
        mapped[..12].copy_from_slice(&MAPPED);
        mapped[12..].copy_from_slice(&ip);
        Server { ip: mapped, scope: 0, outside }
    }

    fn is_v6(&self) -> bool {
        self.ip[..12] != MAPPED
    }

    /// `sockaddr_in` or `sockaddr_in6`, and its length.
    fn address(&self) -> ([u8; 28], usize) {
        let mut bytes = [0; 28];
        bytes[2..4].copy_from_slice(&PORT.to_be_bytes());
        if self.is_v6() {
            bytes[0] = 10;
            bytes[8..24].copy_from_slice(&self.ip);
            bytes[24..28].copy_from_slice(&self.scope.to_ne_bytes());
            (bytes, 28)
        } else {
            bytes[0] = 2;
            bytes[4..8].copy_from_slice(&self.ip[12..]);
            (bytes, 16)
        }
    }

    /// Whether this is where a datagram came from.
    fn sent(&self, from: &[u8; 28]) -> bool {
        let (address, length) = self.address();
        let ip = if length == 28 { 8..24 } else { 4..8 };
        from[..4] == address[..4] && from[ip.clone()] == address[ip]
    }
}

/// A question that was passed on.
struct Pending {
    used: bool,
    client: Peer,
    /// The client's connection, where it asked over TCP.
    stream: Option<usize>,
    asked_as: [u8; 2],
    spelling: Spelling,
    /// The resolver does not answer in the spelling it is asked in: it is asked in small letters.
    plain: bool,
    server: usize,
    /// The connection to the resolver, where it is asked over TCP.
    upstream: Option<usize>,
    until: i64,
    /// As the client asked.
    query: [u8; QUERY],
    length: usize,
    /// The socket that it is asked over, also when it is not used. 0: none.
    socket: i32,
    reach: Reach,
}

/// Where a socket leads.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C)]
struct Reach {
    outside: bool,
    v6: bool,
}

impl Pending {
    /// The question as it is asked; answers its length.
    fn asked(&self, out: &mut [u8; QUERY]) -> usize {
        out[..self.length].copy_from_slice(&self.query[..self.length]);
        out[..2].copy_from_slice(&self.asked_as);
        if Wall::ResolverQuestions.stands() {
            spell(&mut out[..self.length], &self.spelling);
        }
        self.length
    }

    /// Makes an answer to the question as it was asked one to the question of the client, who gets his own spelling.
    fn answer_as_client(&self, answer: &mut [u8]) {
        answer[..2].copy_from_slice(&self.query[..2]);
        if let Some(question) = Question::read(&self.query[..self.length]) {
            answer[12..question.end].copy_from_slice(&self.query[12..question.end]);
        }
    }

    /// How a message is like the answer to this question.
    fn likeness(&self, message: &[u8]) -> Likeness {
        let mut asked = [0; QUERY];
        let length = self.asked(&mut asked);
        match likeness(&asked[..length], message) {
            Likeness::OtherSpelling if !Wall::ResolverQuestions.stands() => Likeness::Same,
            Likeness::Other
                if !Wall::ResolverAnswers.stands() && message.len() > length && message[..2] == asked[..2] =>
            {
                Likeness::Same
            }
            likeness => likeness,
        }
    }
}

/// A connection, and what came of a question.
struct Stream {
    fd: i32,
    bytes: [u8; QUERY + 2],
    length: usize,
}

/// A connection to a resolver: a question, then its answer, each with its length before.
struct Upstream {
    /// 0: none.
    fd: i32,
    pending: usize,
    sent: bool,
    bytes: [u8; LONG_ANSWER + 2],
    length: usize,
}

impl Upstream {
    /// Sends the question, with its length before it.
    fn send(&mut self, pending: &Pending) -> Result<()> {
        let mut framed = [0u8; QUERY + 2];
        let mut asked = [0; QUERY];
        let length = pending.asked(&mut asked);
        framed[..2].copy_from_slice(&(length as u16).to_be_bytes());
        framed[2..2 + length].copy_from_slice(&asked[..length]);
        if sys::send(self.fd, &framed[..2 + length])? != 2 + length {
            return Err(EIO);
        }
        self.sent = true;
        Ok(())
    }

    /// Reads more of the answer: where it ends, once all of it is there, else EAGAIN.
    fn receive(&mut self) -> Result<usize> {
        match sys::read(self.fd, &mut self.bytes[self.length..])? {
            0 => return Err(EIO),
            length => self.length += length,
        }
        let Some(length) = self.bytes[..self.length].first_chunk() else { return Err(EAGAIN) };
        match 2 + usize::from(u16::from_be_bytes(*length)) {
            end if end > self.bytes.len() => Err(EIO),
            end if self.length < end => Err(EAGAIN),
            end => Ok(end),
        }
    }
}

/// The host's resolvers.
struct Servers {
    servers: [Server; MAX_SERVERS],
    count: usize,
}

impl Servers {
    /// Reads the resolvers of a plan.
    fn read(&mut self, plan: Plan) {
        self.count = 0;
        if let Some(resolver) = plan.find::<ops::Resolver>() {
            for ops::OldServer { ip, outside } in resolver.servers.iter() {
                self.add(Server::v4(*ip, outside));
            }
        }
        if let Some(op) = plan.find::<ops::Servers>() {
            self.count = 0;
            for ops::Server { ip, outside, scope } in op.servers.iter() {
                self.add(Server { ip: *ip, scope, outside });
            }
        }
    }

    fn add(&mut self, server: Server) {
        if let Some(place) = self.servers.get_mut(self.count) {
            *place = server;
            self.count += 1;
        }
    }

    fn get(&self, number: usize) -> Option<&Server> {
        self.servers[..self.count].get(number)
    }
}

pub struct Dns {
    epoll: i32,
    launcher: Launcher,
    sockets: [i32; SOCKETS],
    names: Names,
    servers: Servers,
    pending: [Pending; MAX_PENDING],
    streams: [Stream; MAX_TCP],
    upstreams: [Upstream; MAX_UPSTREAM],
}

/// `sockaddr_in`.
fn address(peer: Peer) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[0] = 2;
    bytes[2..4].copy_from_slice(&peer.port.to_be_bytes());
    bytes[4..8].copy_from_slice(&peer.ip);
    bytes
}

fn peer(bytes: &[u8]) -> Peer {
    Peer { ip: [bytes[4], bytes[5], bytes[6], bytes[7]], port: u16::from_be_bytes([bytes[2], bytes[3]]) }
}

impl Dns {
    /// # Safety
    /// `place` is valid for writing and zero, and nothing refers to it.
    pub unsafe fn init(place: *mut Dns) {
        // SAFETY: within the structure; the slices must not be null, all other zeroes are valid.
        unsafe {
            (&raw mut (*place).sockets).write([-1; SOCKETS]);
            (&raw mut (*place).names).write(Names::NONE);
        }
    }

    /// In a worker that begins.
    pub fn begin(&mut self, epoll: i32, launcher: Launcher, files: crate::names::Files) {
        (self.epoll, self.launcher) = (epoll, launcher);
        self.names.begin(files);
    }

    /// Reads a plan. Names and resolvers that the plan does not have count no more.
    pub fn read(&mut self, plan: Plan<'static>) {
        self.servers.read(plan);
        self.names.read(plan, self.servers.count > 0);
    }

    /// Puts a socket in its place; one that has no place is closed.
    pub fn take(&mut self, which: usize, fd: i32) -> bool {
        let Some(place) = self.sockets.get_mut(which) else {
            sys::close(fd);
            return false;
        };
        if *place != fd {
            fd::replace(place, fd);
        }
        sys::set_nonblocking(fd);
        true
    }

    /// The worker's: listens at a socket.
    pub fn open(&mut self, which: usize, fd: i32) {
        if self.take(which, fd) {
            let _ = sys::epoll_ctl(self.epoll, ADD, fd, EPOLLIN, token(DNS, which as u32));
        }
    }

    /// The worker's: listens at the sockets that there are.
    pub fn listen(&mut self) {
        for (which, fd) in self.sockets.into_iter().enumerate().filter(|(_, fd)| *fd >= 0) {
            self.open(which, fd);
        }
    }

    /// The sockets that there are.
    pub fn sockets(&self) -> impl Iterator<Item = (usize, i32)> {
        self.sockets.iter().copied().enumerate().filter(|(_, fd)| *fd >= 0)
    }

    pub fn close(&mut self) {
        for place in &mut self.sockets {
            fd::replace(place, -1);
        }
        for index in 0..MAX_TCP {
            self.close_stream(index);
        }
        for index in 0..MAX_UPSTREAM {
            self.close_upstream(index);
        }
        for index in 0..MAX_PENDING {
            self.forget(index);
            self.close_socket(index);
        }
    }

    /// A question is asked no more.
    fn forget(&mut self, index: usize) {
        self.pending[index].used = false;
        if index >= KEPT {
            self.close_socket(index);
        }
    }

    fn close_socket(&mut self, index: usize) {
        let socket = core::mem::take(&mut self.pending[index].socket);
        if socket > 0 {
            sys::close(socket);
        }
    }

    /// When a resolver's patience ends; 0: none is waited for.
    pub fn due(&self) -> i64 {
        timers::earliest(self.pending.iter().filter(|pending| pending.used).map(|pending| pending.until))
    }

    /// Asks the next resolver where one was silent.
    pub fn tick(&mut self) {
        let now = sys::monotonic();
        for index in 0..MAX_PENDING {
            let pending = &mut self.pending[index];
            if pending.used && pending.until <= now {
                self.ask_next(index);
            }
        }
    }

    pub fn ready(&mut self, index: usize) {
        match index {
            UDP => self.questions(),
            TCP => self.accept_streams(),
            FIRST_CLIENT..FIRST_UPSTREAM => self.stream_ready(index - FIRST_CLIENT),
            FIRST_UPSTREAM..FIRST_ASKING => self.upstream_ready(index - FIRST_UPSTREAM),
            FIRST_ASKING.. => self.replies(index - FIRST_ASKING),
            _ => {}
        }
    }

    fn questions(&mut self) {
        let mut query = [0u8; QUERY];
        let mut from = [0u8; 16];
        // Not for ever: other work waits too.
        for _ in 0..16 {
            let Ok(length) = sys::recv_from(self.sockets[UDP], &mut query, &mut from) else { return };
            self.question(&query[..length], peer(&from), None);
        }
    }

    fn question(&mut self, query: &[u8], client: Peer, stream: Option<usize>) {
        let mut out = [0u8; ANSWER];
        let room = if stream.is_some() { ANSWER } else { 512 };
        match self.names.answer(query, &mut out[..room]) {
            Reply::Ready(length) => self.reply(&out[..length], client, stream),
            Reply::Forward => self.forward(query, client, stream),
            Reply::Silent => {}
        }
    }

    fn reply(&mut self, message: &[u8], client: Peer, stream: Option<usize>) {
        match stream {
            None => {
                let _ = sys::send_to(self.sockets[UDP], message, &address(client));
            }
            Some(index) => {
                let fd = self.streams[index].fd;
                if fd > 0 && client.port == fd as u16 {
                    let mut framed = [0u8; ANSWER + 2];
                    framed[..2].copy_from_slice(&(message.len() as u16).to_be_bytes());
                    framed[2..2 + message.len()].copy_from_slice(message);
                    if sys::send(fd, &framed[..2 + message.len()]).is_err() {
                        self.close_stream(index);
                    }
                }
            }
        }
    }

    fn forward(&mut self, query: &[u8], client: Peer, stream: Option<usize>) {
        let Some(index) = self.pending.iter().position(|pending| !pending.used) else {
            return self.fail(query, client, stream);
        };
        let pending = &mut self.pending[index];
        pending.query[..query.len()].copy_from_slice(query);
        (pending.length, pending.client, pending.stream) = (query.len(), client, stream);
        (pending.server, pending.upstream, pending.plain, pending.used) = (0, None, false, true);
        self.ask(index);
    }

    /// Sends a question to its resolver, or the client the failure when there is none left.
    fn ask(&mut self, index: usize) {
        loop {
            let number = self.pending[index].server;
            if number >= self.servers.count {
                let pending = &self.pending[index];
                let (query, length) = (pending.query, pending.length);
                let (client, stream) = (pending.client, pending.stream);
                self.forget(index);
                return self.fail(&query[..length], client, stream);
            }
            let server = self.servers.servers[number];
            // Each time another number, spelling and port: an attacker without sight of the question must guess them
            // all.
            let mut chance = [0u8; 34];
            sys::random(&mut chance);
            let pending = &mut self.pending[index];
            pending.asked_as.copy_from_slice(&chance[..2]);
            pending.spelling.copy_from_slice(&chance[2..]);
            if pending.plain {
                pending.spelling = [0; 32];
            }
            pending.until = sys::monotonic() + PATIENCE_NS;
            // A client that asks over TCP has an answer to expect that is too long for a datagram.
            let over_tcp = pending.stream.is_some();
            if over_tcp && self.ask_stream(index, &server).is_some() || self.ask_datagram(index, &server).is_ok() {
                return;
            }
            let pending = &mut self.pending[index];
            (pending.server, pending.plain) = (number + 1, false);
        }
    }

    /// Asks over the question's own socket, from a port that the kernel chooses anew, and that hears this resolver
    /// alone.
    fn ask_datagram(&mut self, index: usize, server: &Server) -> Result<()> {
        const UNCONNECTED: [u8; 16] = [0; 16];
        let reach = Reach { outside: server.outside, v6: server.is_v6() };
        if self.pending[index].reach != reach {
            self.close_socket(index);
        }
        let mut socket = self.pending[index].socket;
        if socket <= 0 {
            socket = self.new_socket(server, false)?;
            let pending = &mut self.pending[index];
            (pending.socket, pending.reach) = (socket, reach);
            sys::epoll_ctl(self.epoll, ADD, socket, EPOLLIN, token(DNS, (FIRST_ASKING + index) as u32))?;
        } else if Wall::ResolverQuestions.stands() {
            // Gives the port back.
            sys::connect(socket, &UNCONNECTED)?;
        }
        let (to, length) = server.address();
        sys::connect(socket, &to[..length])?;
        let mut asked = [0; QUERY];
        let asked_length = self.pending[index].asked(&mut asked);
        // An error that an earlier question left is told once.
        sys::send(socket, &asked[..asked_length]).or_else(|_| sys::send(socket, &asked[..asked_length])).map(|_| ())
    }

    fn ask_next(&mut self, index: usize) {
        if let Some(upstream) = self.pending[index].upstream.take() {
            self.close_upstream(upstream);
        }
        let pending = &mut self.pending[index];
        (pending.server, pending.plain) = (pending.server + 1, false);
        self.ask(index);
    }

    /// A resolver changed the spelling, or somebody guessed all but that: it is asked once more, from another port and
    /// with another number, in the letters that such resolvers answer with.
    fn ask_plainly(&mut self, index: usize) {
        if let Some(upstream) = self.pending[index].upstream.take() {
            self.close_upstream(upstream);
        }
        self.pending[index].plain = true;
        self.ask(index);
    }

    /// A socket in the network namespace from which a resolver is asked. The container's the launcher enters.
    fn new_socket(&self, server: &Server, tcp: bool) -> Result<i32> {
        if server.outside {
            return if server.is_v6() { sys::internet6(tcp) } else { sys::internet(tcp) };
        }
        let tcp = u32::from(tcp);
        self.launcher.request(Message { code: SOCKET, a: tcp, b: u64::from(server.is_v6()), ..Message::default() })
    }

    /// Asks over a connection of its own. None: there is no room for one, or no way there.
    fn ask_stream(&mut self, index: usize, server: &Server) -> Option<()> {
        let at = self.upstreams.iter().position(|upstream| upstream.fd == 0)?;
        let fd = self.new_socket(server, true).ok()?;
        let (to, length) = server.address();
        let key = token(DNS, (FIRST_UPSTREAM + at) as u32);
        if sys::connect(fd, &to[..length]).is_err()
            || sys::epoll_ctl(self.epoll, ADD, fd, EPOLLIN | EPOLLOUT, key).is_err()
        {
            sys::close(fd);
            return None;
        }
        let upstream = &mut self.upstreams[at];
        (upstream.fd, upstream.pending, upstream.sent, upstream.length) = (fd, index, false, 0);
        self.pending[index].upstream = Some(at);
        Some(())
    }

    fn close_upstream(&mut self, at: usize) {
        let upstream = &mut self.upstreams[at];
        if upstream.fd > 0 {
            sys::close(upstream.fd);
        }
        upstream.fd = 0;
    }

    fn upstream_ready(&mut self, at: usize) {
        let Some(upstream) = self.upstreams.get_mut(at).filter(|upstream| upstream.fd > 0) else { return };
        let (fd, index) = (upstream.fd, upstream.pending);
        let pending = &self.pending[index];
        if !pending.used || pending.upstream != Some(at) {
            return self.close_upstream(at);
        }
        if !upstream.sent {
            match upstream.send(pending) {
                Err(EAGAIN) => {}
                Err(_) => self.ask_next(index),
                Ok(()) => {
                    let key = token(DNS, (FIRST_UPSTREAM + at) as u32);
                    let _ = sys::epoll_ctl(self.epoll, CHANGE, fd, EPOLLIN, key);
                }
            }
            return;
        }
        let end = match upstream.receive() {
            Ok(end) => end,
            Err(EAGAIN) => return,
            Err(_) => return self.ask_next(index),
        };
        match pending.likeness(&upstream.bytes[2..end]) {
            Likeness::Same => {}
            Likeness::OtherSpelling if !pending.plain => return self.ask_plainly(index),
            _ => return self.ask_next(index),
        }
        pending.answer_as_client(&mut upstream.bytes[2..end]);
        let (client, stream) = (pending.client, pending.stream);
        self.forget(index);
        if let Some(stream) = stream
            && let Some(to) = self.streams.get(stream).filter(|to| to.fd > 0 && client.port == to.fd as u16)
            && sys::send(to.fd, &self.upstreams[at].bytes[..end]) != Ok(end)
        {
            self.close_stream(stream);
        }
        self.close_upstream(at);
    }

    /// Something came for a question, or late for one before.
    fn replies(&mut self, index: usize) {
        let mut message = [0u8; ANSWER];
        let mut from = [0u8; 28];
        for _ in 0..16 {
            let Some(pending) = self.pending.get(index).filter(|pending| pending.socket > 0) else { return };
            let waits = pending.used && pending.upstream.is_none();
            let length = match sys::recv_from(pending.socket, &mut message, &mut from) {
                Ok(length) => length,
                // Nobody is there.
                Err(ECONNREFUSED) if waits => return self.ask_next(index),
                Err(_) => return,
            };
            if !waits || !self.servers.get(pending.server).is_some_and(|server| server.sent(&from)) {
                continue;
            }
            match pending.likeness(&message[..length]) {
                Likeness::Same => {}
                Likeness::OtherSpelling if !pending.plain => return self.ask_plainly(index),
                // Nobody's answer, whoever sent it.
                _ => continue,
            }
            pending.answer_as_client(&mut message[..length]);
            let (client, stream) = (pending.client, pending.stream);
            self.forget(index);
            return self.reply(&message[..length], client, stream);
        }
    }

    fn fail(&mut self, query: &[u8], client: Peer, stream: Option<usize>) {
        let mut out = [0u8; QUERY];
        if let Some(question) = Question::read(query) {
            let length = head(&mut out, query, &question, SERVFAIL);
            self.reply(&out[..length], client, stream);
        }
    }

    fn accept_streams(&mut self) {
        while let Ok(fd) = sys::accept(self.sockets[TCP]) {
            match self.streams.iter().position(|stream| stream.fd == 0) {
                Some(index) => {
                    self.streams[index].fd = fd;
                    self.streams[index].length = 0;
                    let _ = sys::epoll_ctl(self.epoll, ADD, fd, EPOLLIN, token(DNS, (FIRST_CLIENT + index) as u32));
                }
                None => sys::close(fd),
            }
        }
    }

    fn close_stream(&mut self, index: usize) {
        let stream = &mut self.streams[index];
        if stream.fd > 0 {
            sys::close(stream.fd);
        }
        (stream.fd, stream.length) = (0, 0);
        for asked in 0..MAX_PENDING {
            if self.pending[asked].used && self.pending[asked].stream == Some(index) {
                self.forget(asked);
            }
        }
    }

    fn stream_ready(&mut self, index: usize) {
        let Some(stream) = self.streams.get_mut(index).filter(|stream| stream.fd > 0) else { return };
        let fd = stream.fd;
        match sys::read(fd, &mut stream.bytes[stream.length..]) {
            Err(EAGAIN) => return,
            Ok(length) if length > 0 => stream.length += length,
            _ => return self.close_stream(index),
        }
        loop {
            let stream = &mut self.streams[index];
            if stream.fd == 0 || stream.length < 2 {
                return;
            }
            let wanted = usize::from(u16::from_be_bytes([stream.bytes[0], stream.bytes[1]]));
            if wanted > QUERY {
                return self.close_stream(index);
            }
            if stream.length < 2 + wanted {
                return;
            }
            let mut query = [0u8; QUERY];
            query[..wanted].copy_from_slice(&stream.bytes[2..2 + wanted]);
            stream.bytes.copy_within(2 + wanted..stream.length, 0);
            stream.length -= 2 + wanted;
            // A connection is told apart from a later one in its slot by its descriptor.
            self.question(&query[..wanted], Peer { port: fd as u16, ..NOBODY }, Some(index));
        }
    }
}
