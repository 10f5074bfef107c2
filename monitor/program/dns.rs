//! Names: answers for the containers of the networks that this one is on, and passes everything else on to the host's
//! resolvers.
//!
//! The sockets are the container's: its first process made them. Who has which name stands in a file for each network,
//! which the library writes; who runs, in the locks of the living.

use crate::boot::Monitor;
use crate::child::{errno, os};
use crate::life::token;
use crate::ops;
use crate::orders::{self, DNS_SOCKET, END_DNS, SOCKET, Word};
use crate::question::{
    self, Answer, Entry, Likeness, Question, Spelling, encode_name, entries, head, likeness, reversed, reversed6, spell,
};
use crate::sys::{self, *};
use crate::walls::Wall;
use crate::wire::*;

/// Kind of the events of these sockets.
pub const DNS: u32 = 20;

/// The message with which the child sends its sockets: this word, then which of them.
pub const REPORT_DNS: u32 = 16;

const UDP: usize = 0;
const TCP: usize = 1;
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
const MAX_NETWORKS: usize = 16;
/// The longest question that is passed on, and the longest answer that is given, in bytes.
const QUERY: usize = 1232;
const ANSWER: usize = 4096;
/// The longest answer that is passed on over TCP, in bytes.
const LONG_ANSWER: usize = 32 << 10;
/// A resolver that does not answer for so long is given up for the next.
const PATIENCE_NS: i64 = 2_000_000_000;
const PORT: u16 = 53;

const TYPE_A: u16 = 1;
const TYPE_PTR: u16 = 12;
const TYPE_AAAA: u16 = 28;
const TYPE_ANY: u16 = 255;
const SERVFAIL: u8 = 2;
const NOTIMP: u8 = 4;

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

pub struct Dns {
    sockets: [i32; SOCKETS],
    servers: [Server; MAX_SERVERS],
    server_count: usize,
    networks: [&'static [u8]; MAX_NETWORKS],
    network_count: usize,
    aliases: Option<ops::Aliases<'static>>,
    alive: i32,
    pending: [Pending; MAX_PENDING],
    streams: [Stream; MAX_TCP],
    upstreams: [Upstream; MAX_UPSTREAM],
    turn: usize,
}

/// # Safety
/// `place` is valid for writing and zero, and nothing refers to it.
pub unsafe fn init(place: *mut Dns) {
    // SAFETY: within the structure; the slices must not be null, all other zeroes are valid.
    unsafe {
        (&raw mut (*place).sockets).write([-1; SOCKETS]);
        (&raw mut (*place).aliases).write(None);
        (&raw mut (*place).alive).write(-1);
        (&raw mut (*place).networks).write([b""; MAX_NETWORKS]);
    }
}

/// [`ops::Dns`] of the child: sockets in its network namespace.
pub fn open(op: ops::Dns, report: i32) -> core::result::Result<(), Failure> {
    let local = Peer { ip: [127, 0, 0, 11], port: op.port as u16 };
    let udp = os(sys::internet(false))?;
    let tcp = os(sys::internet(true))?;
    os(sys::bind(udp, &address(local)))?;
    os(sys::bind(tcp, &address(local)))?;
    os(sys::listen(tcp, 16))?;
    for (which, fd) in [(UDP, udp), (TCP, tcp)] {
        let mut message = [0u8; 8];
        message[..4].copy_from_slice(&REPORT_DNS.to_ne_bytes());
        message[4..].copy_from_slice(&(which as u32).to_ne_bytes());
        sys::send_fd(report, &message, Some(fd)).map_err(errno)?;
        sys::close(fd);
    }
    Ok(())
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

impl Monitor {
    /// Reads what the plan says of names. What it does not say does not hold any more.
    pub fn read_resolver(&mut self) {
        let dns = &mut self.dns;
        (dns.server_count, dns.network_count, dns.aliases) = (0, 0, self.plan.plan().find());
        if let Some(resolver) = self.plan.plan().find() {
            dns.read_names(resolver);
        }
        if let Some(servers) = self.plan.plan().find() {
            dns.read_servers(servers);
        }
    }
}

impl Dns {
    fn add_server(&mut self, server: Server) {
        if let Some(place) = self.servers.get_mut(self.server_count) {
            *place = server;
            self.server_count += 1;
        }
    }

    fn read_servers(&mut self, op: ops::Servers) {
        self.server_count = 0;
        for ops::Server { ip, outside, scope } in op.servers.iter() {
            self.add_server(Server { ip: *ip, scope, outside });
        }
    }

    fn read_names(&mut self, op: ops::Resolver<'static>) {
        for ops::OldServer { ip, outside } in op.servers.iter() {
            self.add_server(Server::v4(*ip, outside));
        }
        for (place, path) in self.networks.iter_mut().zip(op.names.iter()) {
            *place = path.cstr();
            self.network_count += 1;
        }
    }

    /// The address that a name of this container's alone means on a network.
    fn alias(&self, network: usize, name: &[u8]) -> Option<&'static [u8]> {
        for alias in self.aliases?.aliases.iter() {
            if alias.network as usize == network && alias.alias == name {
                return Some(alias.name);
            }
        }
        None
    }
}

impl Monitor {
    /// A socket of the container's: a copy stays here, for the next worker.
    pub fn take_dns(&mut self, which: usize, fd: i32) {
        let Some(place) = self.dns.sockets.get_mut(which) else { return sys::close(fd) };
        crate::life::replace(place, fd);
        sys::set_nonblocking(fd);
        if self.worker.pid > 0 {
            let _ = self.order(Word { what: DNS_SOCKET, a: which as u32, ..Word::default() }, &[fd]);
        }
    }

    /// The worker's: listens there.
    pub fn open_dns(&mut self, which: usize, fd: i32) {
        let Some(place) = self.dns.sockets.get_mut(which) else { return sys::close(fd) };
        if *place != fd {
            crate::life::replace(place, fd);
        }
        let _ = sys::epoll_ctl(self.epoll, 1, fd, EPOLLIN, token(DNS, which as u32));
    }

    /// The sockets that there are.
    pub fn dns_sockets(&self) -> impl Iterator<Item = (usize, i32)> {
        self.dns.sockets.iter().copied().enumerate().filter(|(_, fd)| *fd >= 0)
    }

    /// A file of locks tells which containers live.
    pub fn open_alive(&mut self) -> i32 {
        self.dns.alive = sys::openat(self.container_dir, b"../../alive\0", O_RDONLY, 0).unwrap_or(-1);
        self.dns.alive
    }

    /// The container ended: its sockets do too, unless their namespace goes on, and what leads to them there.
    pub fn end_dns(&mut self) {
        if self.kept.net >= 0 {
            return;
        }
        if self.worker.pid > 0 && self.dns_sockets().next().is_some() {
            let _ = self.order(Word { what: END_DNS, ..Word::default() }, &[]);
        }
        self.close_dns();
    }

    pub fn close_dns(&mut self) {
        for place in &mut self.dns.sockets {
            crate::life::replace(place, -1);
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
        self.dns.pending[index].used = false;
        if index >= KEPT {
            self.close_socket(index);
        }
    }

    fn close_socket(&mut self, index: usize) {
        let socket = core::mem::take(&mut self.dns.pending[index].socket);
        if socket > 0 {
            sys::close(socket);
        }
    }

    /// When a resolver's patience ends; 0: none is waited for.
    pub fn dns_due(&self) -> i64 {
        let due = self.dns.pending.iter().filter(|pending| pending.used).map(|pending| pending.until);
        due.min().unwrap_or(0)
    }

    /// Asks the next resolver where one was silent.
    pub fn dns_tick(&mut self) {
        let now = sys::monotonic();
        for index in 0..MAX_PENDING {
            let pending = &mut self.dns.pending[index];
            if pending.used && pending.until <= now {
                self.ask_next(index);
            }
        }
    }

    pub fn dns_ready(&mut self, index: usize) {
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
            let Ok(length) = sys::recv_from(self.dns.sockets[UDP], &mut query, &mut from) else { return };
            self.question(&query[..length], peer(&from), None);
        }
    }

    fn question(&mut self, query: &[u8], client: Peer, stream: Option<usize>) {
        let mut out = [0u8; ANSWER];
        let room = if stream.is_some() { ANSWER } else { 512 };
        match self.answer_names(query, &mut out[..room]) {
            Reply::Ready(length) => self.reply(&out[..length], client, stream),
            Reply::Forward => self.forward(query, client, stream),
            Reply::Silent => {}
        }
    }

    fn reply(&mut self, message: &[u8], client: Peer, stream: Option<usize>) {
        match stream {
            None => {
                let _ = sys::send_to(self.dns.sockets[UDP], message, &address(client));
            }
            Some(index) => {
                let fd = self.dns.streams[index].fd;
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
        let Some(index) = self.dns.pending.iter().position(|pending| !pending.used) else {
            return self.fail(query, client, stream);
        };
        let pending = &mut self.dns.pending[index];
        pending.query[..query.len()].copy_from_slice(query);
        (pending.length, pending.client, pending.stream) = (query.len(), client, stream);
        (pending.server, pending.upstream, pending.plain, pending.used) = (0, None, false, true);
        self.ask(index);
    }

    /// Sends a question to its resolver, or the client the failure when there is none left.
    fn ask(&mut self, index: usize) {
        loop {
            let number = self.dns.pending[index].server;
            if number >= self.dns.server_count {
                let pending = &self.dns.pending[index];
                let (query, length) = (pending.query, pending.length);
                let (client, stream) = (pending.client, pending.stream);
                self.forget(index);
                return self.fail(&query[..length], client, stream);
            }
            let server = self.dns.servers[number];
            // Each time another number, spelling and port: who did not see the question must guess them all.
            let mut chance = [0u8; 34];
            sys::random(&mut chance);
            let pending = &mut self.dns.pending[index];
            pending.asked_as.copy_from_slice(&chance[..2]);
            pending.spelling.copy_from_slice(&chance[2..]);
            if pending.plain {
                pending.spelling = [0; 32];
            }
            pending.until = sys::monotonic() + PATIENCE_NS;
            // Whoever asks over TCP has an answer to expect that is too long for a datagram.
            let over_tcp = pending.stream.is_some();
            if over_tcp && self.ask_stream(index, &server).is_some() || self.ask_datagram(index, &server).is_ok() {
                return;
            }
            let pending = &mut self.dns.pending[index];
            (pending.server, pending.plain) = (number + 1, false);
        }
    }

    /// Asks over the question's own socket, from a port that the kernel chooses anew, and that hears this resolver alone.
    fn ask_datagram(&mut self, index: usize, server: &Server) -> Result<()> {
        const UNCONNECTED: [u8; 16] = [0; 16];
        let reach = Reach { outside: server.outside, v6: server.is_v6() };
        if self.dns.pending[index].reach != reach {
            self.close_socket(index);
        }
        let mut socket = self.dns.pending[index].socket;
        if socket <= 0 {
            socket = self.new_socket(server, false)?;
            let pending = &mut self.dns.pending[index];
            (pending.socket, pending.reach) = (socket, reach);
            sys::epoll_ctl(self.epoll, 1, socket, EPOLLIN, token(DNS, (FIRST_ASKING + index) as u32))?;
        } else if Wall::ResolverQuestions.stands() {
            // Gives the port back.
            sys::connect(socket, &UNCONNECTED)?;
        }
        let (to, length) = server.address();
        sys::connect(socket, &to[..length])?;
        let mut asked = [0; QUERY];
        let asked_length = self.dns.pending[index].asked(&mut asked);
        // An error that an earlier question left is told once.
        sys::send(socket, &asked[..asked_length]).or_else(|_| sys::send(socket, &asked[..asked_length])).map(|_| ())
    }

    fn ask_next(&mut self, index: usize) {
        if let Some(upstream) = self.dns.pending[index].upstream.take() {
            self.close_upstream(upstream);
        }
        let pending = &mut self.dns.pending[index];
        (pending.server, pending.plain) = (pending.server + 1, false);
        self.ask(index);
    }

    /// A resolver changed the spelling, or somebody guessed all but that: it is asked once more, from another port and
    /// with another number, in the letters that such resolvers answer with.
    fn ask_plainly(&mut self, index: usize) {
        if let Some(upstream) = self.dns.pending[index].upstream.take() {
            self.close_upstream(upstream);
        }
        self.dns.pending[index].plain = true;
        self.ask(index);
    }

    /// A socket in the network namespace from which a resolver is asked. The container's the launcher enters.
    fn new_socket(&self, server: &Server, tcp: bool) -> Result<i32> {
        if server.outside {
            return if server.is_v6() { sys::internet6(tcp) } else { sys::internet(tcp) };
        }
        let wish = Word { what: SOCKET, a: u32::from(tcp), b: u64::from(server.is_v6()), ..Word::default() };
        match orders::wish(self.log.file.wishes, wish)? {
            (Word { what: 0, .. }, fd @ 0..) => Ok(fd),
            (answer, _) => Err(answer.what.max(1) as i32),
        }
    }

    /// Asks over a connection of its own. None: there is no room for one, or no way there.
    fn ask_stream(&mut self, index: usize, server: &Server) -> Option<()> {
        let at = self.dns.upstreams.iter().position(|upstream| upstream.fd == 0)?;
        let fd = self.new_socket(server, true).ok()?;
        let (to, length) = server.address();
        let key = token(DNS, (FIRST_UPSTREAM + at) as u32);
        if sys::connect(fd, &to[..length]).is_err()
            || sys::epoll_ctl(self.epoll, 1, fd, EPOLLIN | EPOLLOUT, key).is_err()
        {
            sys::close(fd);
            return None;
        }
        let upstream = &mut self.dns.upstreams[at];
        (upstream.fd, upstream.pending, upstream.sent, upstream.length) = (fd, index, false, 0);
        self.dns.pending[index].upstream = Some(at);
        Some(())
    }

    fn close_upstream(&mut self, at: usize) {
        let upstream = &mut self.dns.upstreams[at];
        if upstream.fd > 0 {
            sys::close(upstream.fd);
        }
        upstream.fd = 0;
    }

    fn upstream_ready(&mut self, at: usize) {
        let Some(upstream) = self.dns.upstreams.get_mut(at).filter(|upstream| upstream.fd > 0) else { return };
        let (fd, index) = (upstream.fd, upstream.pending);
        let pending = &self.dns.pending[index];
        if !pending.used || pending.upstream != Some(at) {
            return self.close_upstream(at);
        }
        if !upstream.sent {
            let mut framed = [0u8; QUERY + 2];
            let mut asked = [0; QUERY];
            let length = pending.asked(&mut asked);
            framed[..2].copy_from_slice(&(length as u16).to_be_bytes());
            framed[2..2 + length].copy_from_slice(&asked[..length]);
            match sys::send(fd, &framed[..2 + pending.length]) {
                Err(EAGAIN) => return,
                Ok(sent) if sent == 2 + pending.length => upstream.sent = true,
                _ => return self.ask_next(index),
            }
            let _ = sys::epoll_ctl(self.epoll, 3, fd, EPOLLIN, token(DNS, (FIRST_UPSTREAM + at) as u32));
            return;
        }
        match sys::read(fd, &mut upstream.bytes[upstream.length..]) {
            Err(EAGAIN) => return,
            Ok(length) if length > 0 => upstream.length += length,
            _ => return self.ask_next(index),
        }
        if upstream.length < 2 {
            return;
        }
        let end = 2 + usize::from(u16::from_be_bytes([upstream.bytes[0], upstream.bytes[1]]));
        if end > upstream.bytes.len() {
            return self.ask_next(index);
        }
        if upstream.length < end {
            return;
        }
        match pending.likeness(&upstream.bytes[2..end]) {
            Likeness::Same => {}
            Likeness::OtherSpelling if !pending.plain => return self.ask_plainly(index),
            _ => return self.ask_next(index),
        }
        pending.answer_as_client(&mut upstream.bytes[2..end]);
        let (client, stream) = (pending.client, pending.stream);
        self.forget(index);
        if let Some(stream) = stream
            && let Some(to) = self.dns.streams.get(stream).filter(|to| to.fd > 0 && client.port == to.fd as u16)
            && sys::send(to.fd, &self.dns.upstreams[at].bytes[..end]) != Ok(end)
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
            let Some(pending) = self.dns.pending.get(index).filter(|pending| pending.socket > 0) else { return };
            let waits = pending.used && pending.upstream.is_none();
            let length = match sys::recv_from(pending.socket, &mut message, &mut from) {
                Ok(length) => length,
                // Nobody is there.
                Err(ECONNREFUSED) if waits => return self.ask_next(index),
                Err(_) => return,
            };
            if !waits || !self.dns.servers.get(pending.server).is_some_and(|server| server.sent(&from)) {
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
        while let Ok(fd) = sys::accept(self.dns.sockets[TCP]) {
            match self.dns.streams.iter().position(|stream| stream.fd == 0) {
                Some(index) => {
                    self.dns.streams[index].fd = fd;
                    self.dns.streams[index].length = 0;
                    let _ = sys::epoll_ctl(self.epoll, 1, fd, EPOLLIN, token(DNS, (FIRST_CLIENT + index) as u32));
                }
                None => sys::close(fd),
            }
        }
    }

    fn close_stream(&mut self, index: usize) {
        let stream = &mut self.dns.streams[index];
        if stream.fd > 0 {
            sys::close(stream.fd);
        }
        (stream.fd, stream.length) = (0, 0);
        for asked in 0..MAX_PENDING {
            if self.dns.pending[asked].used && self.dns.pending[asked].stream == Some(index) {
                self.forget(asked);
            }
        }
    }

    fn stream_ready(&mut self, index: usize) {
        let Some(stream) = self.dns.streams.get_mut(index).filter(|stream| stream.fd > 0) else { return };
        let fd = stream.fd;
        match sys::read(fd, &mut stream.bytes[stream.length..]) {
            Err(EAGAIN) => return,
            Ok(length) if length > 0 => stream.length += length,
            _ => return self.close_stream(index),
        }
        loop {
            let stream = &mut self.dns.streams[index];
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

    /// Answers a question about containers, if it is one.
    fn answer_names(&mut self, query: &[u8], out: &mut [u8]) -> Reply {
        // An answer sent here, or nothing that could be answered.
        let Some(question) = Question::read(query) else { return Reply::Silent };
        if question.opcode != 0 {
            return Reply::Ready(head(out, query, &question, NOTIMP));
        }
        let mut answer = Answer::new(out, query, &question, 0);
        let mut known = false;
        // By chance, not by turns: who asks for two families, or two names of a search list, would get the same one always.
        if self.dns.turn == 0 {
            self.dns.turn = sys::monotonic() as usize;
        }
        self.dns.turn = self.dns.turn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        for index in 0..self.dns.network_count {
            let Some(file) = NamesFile::open(self.run_dir, self.dns.networks[index]) else { continue };
            known |= match question.kind {
                TYPE_PTR => self.pointers(&file, &question, &mut answer),
                _ => {
                    let name = file.without_network(question.name());
                    let name = self.dns.alias(index, name).unwrap_or(name);
                    self.addresses(&file, name, question.kind, &mut answer)
                }
            };
        }
        if !known {
            // Without a resolver nothing leads outside from here.
            return if self.dns.server_count > 0 {
                Reply::Forward
            } else {
                Reply::Ready(head(out, query, &question, SERVFAIL))
            };
        }
        Reply::Ready(answer.finish())
    }

    fn addresses(&mut self, file: &NamesFile, name: &[u8], kind: u16, answer: &mut Answer) -> bool {
        let count = file.entries().filter(|entry| entry.name == name).count();
        let mut known = false;
        let turn = self.dns.turn >> 33;
        for step in 0..count {
            let Some(entry) = file.entries().filter(|entry| entry.name == name).nth((step + turn) % count) else {
                continue;
            };
            if !self.lives(&entry) {
                continue;
            }
            known = true;
            if let (Some(ip), TYPE_A | TYPE_ANY) = (entry.v4, kind) {
                answer.record(TYPE_A, &ip);
            }
            if let (Some(ip), TYPE_AAAA | TYPE_ANY) = (entry.v6, kind) {
                answer.record(TYPE_AAAA, &ip);
            }
        }
        known
    }

    fn pointers(&mut self, file: &NamesFile, question: &Question, answer: &mut Answer) -> bool {
        let (v4, v6) = (reversed(question.name()), reversed6(question.name()));
        let same = |entry: &Entry| v4.is_some() && entry.v4 == v4 || v6.is_some() && entry.v6 == v6;
        for entry in file.entries().filter(|entry| entry.first && same(entry)) {
            if self.lives(&entry) {
                let mut name = [0u8; 256];
                if let Some(length) = encode_name(&mut name, entry.name, file.network) {
                    answer.record(TYPE_PTR, &name[..length]);
                    return true;
                }
            }
        }
        false
    }

    /// Whether an entry's container runs: its monitor's lock is held, and its slot is still its own.
    fn lives(&mut self, entry: &Entry) -> bool {
        let mut record = [0u8; 16];
        let at = u64::from(entry.slot) * STATE_LEN as u64;
        let owner = sys::pread(self.record.run_states(), &mut record, at).is_ok() && record[8..16] == entry.id;
        owner && sys::byte_is_locked(self.dns.alive, u64::from(entry.slot))
    }
}

enum Reply {
    Ready(usize),
    Forward,
    Silent,
}

/// The holders of names on a network: see [`NAMES_MAGIC`].
struct NamesFile {
    memory: &'static [u8],
    network: &'static [u8],
    entries: &'static [u8],
}

impl Drop for NamesFile {
    fn drop(&mut self) {
        sys::unmap(self.memory);
    }
}

impl NamesFile {
    /// The file is replaced as a whole, never changed, so what is mapped stays.
    fn open(run_dir: i32, path: &[u8]) -> Option<NamesFile> {
        let fd = sys::openat(run_dir, path, O_RDONLY, 0).ok()?;
        let length = sys::fstat(fd).map_or(0, |stat| stat.size as usize);
        let memory = if length < 5 { Err(EINVAL) } else { sys::map_file(fd, length) };
        sys::close(fd);
        let memory = memory.ok()?;
        let Some((network, entries)) = question::names(memory) else {
            sys::unmap(memory);
            return None;
        };
        Some(NamesFile { memory, network, entries })
    }

    fn entries(&self) -> impl Iterator<Item = Entry<'static>> {
        entries(self.entries)
    }

    /// `name.network` means `name` here.
    fn without_network<'a>(&self, name: &'a [u8]) -> &'a [u8] {
        let bare = name.strip_suffix(self.network).and_then(|rest| rest.strip_suffix(b"."));
        bare.unwrap_or(name)
    }
}
