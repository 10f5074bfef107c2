//! Names: answers for the containers of the networks that this one is on, and passes everything else on to the host's
//! resolvers.
//!
//! The sockets are the container's: its first process made them. Who has which name stands in a file for each network,
//! which the library writes; who runs, in the locks of the living.

use crate::boot::Monitor;
use crate::child::{errno, os};
use crate::life::token;
use crate::sys::{self, *};
use crate::wire::*;

/// Kind of the events of these sockets.
pub const DNS: u32 = 20;

/// What the child sends its sockets with: this word, then which of them.
pub const REPORT_DNS: u32 = 16;

const UDP: usize = 0;
const TCP: usize = 1;
/// Asks resolvers from the container's network namespace.
const INSIDE: usize = 2;
/// Asks those resolvers that only the host reaches.
const OUTSIDE: usize = 3;
/// How far behind those two the sockets for IPv6 are.
const V6: usize = 2;
const SOCKETS: usize = 6;
const FIRST_CLIENT: usize = 8;
const FIRST_UPSTREAM: usize = FIRST_CLIENT + MAX_TCP;

const MAX_PENDING: usize = 64;
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
const TTL: u32 = 600;
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
    id: [u8; 2],
    asked_as: [u8; 2],
    server: usize,
    /// The connection to the resolver, where it is asked over TCP.
    upstream: Option<usize>,
    until: i64,
    query: [u8; QUERY],
    length: usize,
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
    /// What [`OP_ALIASES`] says.
    aliases: Option<Payload<'static>>,
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

/// [`OP_DNS`] of the child: sockets in its network namespace.
pub fn open(mut p: Payload, report: i32) -> core::result::Result<(), Failure> {
    let local = Peer { ip: [127, 0, 0, 11], port: p.u32() as u16 };
    let udp = os(sys::internet(false))?;
    let tcp = os(sys::internet(true))?;
    let inside = os(sys::internet(false))?;
    os(sys::bind(udp, &address(local)))?;
    os(sys::bind(tcp, &address(local)))?;
    os(sys::listen(tcp, 16))?;
    for (which, fd) in [(UDP, udp), (TCP, tcp), (INSIDE, inside)] {
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
        (dns.server_count, dns.network_count, dns.aliases) = (0, 0, None);
        let Some((_, ops)) = Ops::of(self.plan) else { return };
        for op in ops {
            match op.code {
                OP_RESOLVER => self.dns.read_names(op.payload),
                OP_SERVERS => self.dns.read_servers(op.payload),
                OP_ALIASES => self.dns.aliases = Some(op.payload),
                _ => {}
            }
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

    fn read_servers(&mut self, mut p: Payload<'static>) {
        self.server_count = 0;
        for _ in 0..p.u32() {
            let mut ip = [0; 16];
            for part in ip.chunks_exact_mut(4) {
                part.copy_from_slice(&p.u32().to_le_bytes());
            }
            let (outside, scope) = (p.u32() != 0, p.u32());
            self.add_server(Server { ip, scope, outside });
        }
    }

    fn read_names(&mut self, mut p: Payload<'static>) {
        let dns = self;
        for _ in 0..p.u32() {
            let (ip, outside) = (p.u32().to_le_bytes(), p.u32() != 0);
            dns.add_server(Server::v4(ip, outside));
        }
        for _ in 0..p.u32() {
            let path = p.cstr();
            if let Some(place) = dns.networks.get_mut(dns.network_count) {
                *place = path;
                dns.network_count += 1;
            }
        }
    }

    /// What a name of this container's alone means on a network.
    fn alias(&self, network: usize, name: &[u8]) -> Option<&'static [u8]> {
        let mut p = self.aliases?;
        for _ in 0..p.u32() {
            let (at, alias, target) = (p.u32() as usize, p.bytes(), p.bytes());
            if at == network && alias == name {
                return Some(target);
            }
        }
        None
    }
}

impl Monitor {
    /// A socket of the container's.
    pub fn take_dns(&mut self, which: usize, fd: i32) {
        let Some(place) = self.dns.sockets.get_mut(which) else { return sys::close(fd) };
        crate::life::replace(place, fd);
        sys::set_nonblocking(fd);
        let _ = sys::epoll_ctl(self.epoll, 1, fd, EPOLLIN, token(DNS, which as u32));
    }

    /// The container ended: its sockets do too, unless their namespace goes on, and what leads to them there.
    pub fn end_dns(&mut self) {
        if self.kept.net >= 0 {
            return;
        }
        for place in &mut self.dns.sockets {
            if *place >= 0 {
                sys::close(*place);
            }
            *place = -1;
        }
        for index in 0..MAX_TCP {
            self.close_stream(index);
        }
        for index in 0..MAX_UPSTREAM {
            self.close_upstream(index);
        }
        self.dns.pending.iter_mut().for_each(|pending| pending.used = false);
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
            FIRST_UPSTREAM.. => self.upstream_ready(index - FIRST_UPSTREAM),
            _ => self.replies(index),
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
        pending.id = [query[0], query[1]];
        (pending.server, pending.upstream, pending.used) = (0, None, true);
        self.ask(index);
    }

    /// Sends a question to its resolver, or the client the failure when there is none left.
    fn ask(&mut self, index: usize) {
        let asked_as = sys::random_pair();
        loop {
            let number = self.dns.pending[index].server;
            if number >= self.dns.server_count {
                let pending = &mut self.dns.pending[index];
                pending.used = false;
                let (mut query, length) = (pending.query, pending.length);
                query[..2].copy_from_slice(&pending.id);
                let (client, stream) = (pending.client, pending.stream);
                return self.fail(&query[..length], client, stream);
            }
            let server = self.dns.servers[number];
            let (to, to_length) = server.address();
            // Whoever asks over TCP has an answer to expect that is too long for a datagram.
            let over_tcp = self.dns.pending[index].stream.is_some();
            let pending = &mut self.dns.pending[index];
            pending.asked_as = asked_as;
            pending.query[..2].copy_from_slice(&asked_as);
            pending.until = sys::monotonic() + PATIENCE_NS;
            if over_tcp && self.ask_stream(index, &server).is_some() {
                return;
            }
            let socket = self.socket_for(&server);
            let pending = &mut self.dns.pending[index];
            if sys::send_to(socket, &pending.query[..pending.length], &to[..to_length]).is_ok() {
                return;
            }
            pending.server += 1;
        }
    }

    fn ask_next(&mut self, index: usize) {
        if let Some(upstream) = self.dns.pending[index].upstream.take() {
            self.close_upstream(upstream);
        }
        self.dns.pending[index].server += 1;
        self.ask(index);
    }

    /// The socket that a resolver is asked over; most are made when they are needed.
    fn socket_for(&mut self, server: &Server) -> i32 {
        let which = if server.outside { OUTSIDE } else { INSIDE } + if server.is_v6() { V6 } else { 0 };
        if self.dns.sockets[which] < 0
            && let Ok(fd) = self.new_socket(server, false)
        {
            self.take_dns(which, fd);
        }
        self.dns.sockets[which]
    }

    /// A socket in the network namespace from which a resolver is asked.
    fn new_socket(&self, server: &Server, tcp: bool) -> Result<i32> {
        let make = || if server.is_v6() { sys::internet6(tcp) } else { sys::internet(tcp) };
        if server.outside {
            return make();
        }
        let home = sys::openat(AT_FDCWD, b"/proc/self/ns/net\0", O_RDONLY, 0)?;
        let made = sys::setns(self.init_pidfd, CLONE_NEWNET).and_then(|()| {
            let made = make();
            if sys::setns(home, CLONE_NEWNET).is_err() {
                // Nothing of the host's may be done from the container's network.
                sys::exit(1);
            }
            made
        });
        sys::close(home);
        made
    }

    /// Asks over a connection of its own. None: there is no room for one, or no way there.
    fn ask_stream(&mut self, index: usize, server: &Server) -> Option<()> {
        let at = self.dns.upstreams.iter().position(|upstream| upstream.fd == 0)?;
        let fd = self.new_socket(server, true).ok()?;
        let (to, length) = server.address();
        let key = token(DNS, (FIRST_UPSTREAM + at) as u32);
        if sys::connect(fd, &to[..length]).is_err() || sys::epoll_ctl(self.epoll, 1, fd, EPOLLIN | EPOLLOUT, key).is_err() {
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
            framed[..2].copy_from_slice(&(pending.length as u16).to_be_bytes());
            framed[2..2 + pending.length].copy_from_slice(&pending.query[..pending.length]);
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
        let message = &upstream.bytes[2..end];
        let fits = message.len() >= 12
            && message[..2] == pending.asked_as
            && same_question(&pending.query[..pending.length], message);
        if !fits {
            return self.ask_next(index);
        }
        upstream.bytes[2..4].copy_from_slice(&pending.id);
        let (client, stream) = (pending.client, pending.stream);
        self.dns.pending[index].used = false;
        if let Some(stream) = stream
            && let Some(to) = self.dns.streams.get(stream).filter(|to| to.fd > 0 && client.port == to.fd as u16)
            && sys::send(to.fd, &self.dns.upstreams[at].bytes[..end]) != Ok(end)
        {
            self.close_stream(stream);
        }
        self.close_upstream(at);
    }

    fn replies(&mut self, socket: usize) {
        let mut message = [0u8; ANSWER];
        let mut from = [0u8; 28];
        for _ in 0..16 {
            let Ok(length) = sys::recv_from(self.dns.sockets[socket], &mut message, &mut from) else { return };
            let dns = &self.dns;
            let fits = |pending: &Pending| {
                pending.used
                    && pending.upstream.is_none()
                    && pending.asked_as == [message[0], message[1]]
                    && dns.servers.get(pending.server).is_some_and(|server| server.sent(&from))
                    && same_question(&pending.query[..pending.length], &message[..length])
            };
            // Anything else is nobody's answer, whoever sent it.
            let Some(index) = dns.pending.iter().position(fits) else { continue };
            let pending = &mut self.dns.pending[index];
            pending.used = false;
            message[..2].copy_from_slice(&pending.id);
            let (client, stream) = (pending.client, pending.stream);
            self.reply(&message[..length], client, stream);
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
        self.dns.pending.iter_mut().filter(|pending| pending.stream == Some(index)).for_each(|pending| pending.used = false);
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
        let mut answer = Answer { out, length: 0, count: 0, full: false };
        answer.length = head(answer.out, query, &question, 0);
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
            return if self.dns.server_count > 0 { Reply::Forward } else { self.refuse(query, &question, answer.out) };
        }
        answer.finish()
    }

    /// Nothing leads outside from here.
    fn refuse(&self, query: &[u8], question: &Question, out: &mut [u8]) -> Reply {
        Reply::Ready(head(out, query, question, SERVFAIL))
    }

    fn addresses(&mut self, file: &NamesFile, name: &[u8], kind: u16, answer: &mut Answer) -> bool {
        let count = file.entries().filter(|entry| entry.name == name).count();
        let mut known = false;
        let turn = self.dns.turn >> 33;
        for step in 0..count {
            let Some(entry) = file.entries().filter(|entry| entry.name == name).nth((step + turn) % count) else { continue };
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
        if self.dns.alive < 0 {
            let Ok(fd) = sys::openat(self.run_dir, b"../../alive\0", O_RDWR, 0) else { return false };
            self.dns.alive = fd;
        }
        let mut record = [0u8; 16];
        let at = u64::from(entry.slot) * STATE_LEN as u64;
        let owner = sys::pread(self.run_states, &mut record, at).is_ok() && record[8..16] == entry.id;
        owner && sys::byte_is_locked(self.dns.alive, u64::from(entry.slot))
    }
}

enum Reply {
    Ready(usize),
    Forward,
    Silent,
}

/// The one question of a query.
struct Question {
    opcode: u8,
    name: [u8; 256],
    name_length: usize,
    kind: u16,
    /// Where the question ends.
    end: usize,
}

impl Question {
    fn name(&self) -> &[u8] {
        &self.name[..self.name_length]
    }

    /// Reads a query of one question; names in small letters with dots, without the last one.
    fn read(query: &[u8]) -> Option<Question> {
        let is_answer = *query.get(2)? & 0x80 != 0;
        if query.len() < 17 || is_answer || query[4..6] != [0, 1] {
            return None;
        }
        let mut question = Question { opcode: query[2] >> 3 & 15, name: [0; 256], name_length: 0, kind: 0, end: 0 };
        let mut at = 12;
        loop {
            let length = usize::from(*query.get(at)?);
            at += 1;
            match length {
                0 => break,
                // Compression has no place in a question.
                64.. => return None,
                _ => {}
            }
            let label = query.get(at..at + length)?;
            at += length;
            if question.name_length > 0 {
                *question.name.get_mut(question.name_length)? = b'.';
                question.name_length += 1;
            }
            let room = question.name.get_mut(question.name_length..question.name_length + length)?;
            room.copy_from_slice(label);
            room.make_ascii_lowercase();
            question.name_length += length;
        }
        let rest = query.get(at..at + 4)?;
        question.kind = u16::from_be_bytes([rest[0], rest[1]]);
        question.end = at + 4;
        Some(question)
    }
}

fn same_question(asked: &[u8], answered: &[u8]) -> bool {
    let Some(question) = Question::read(asked) else { return false };
    answered.len() >= question.end
        && answered[2] & 0x80 != 0
        && asked[12..question.end].eq_ignore_ascii_case(&answered[12..question.end])
}

/// The head of an answer and its question; answers its length.
fn head(out: &mut [u8], query: &[u8], question: &Question, code: u8) -> usize {
    out[..question.end].copy_from_slice(&query[..question.end]);
    let recursion = query[2] & 1;
    out[2] = 0x80 | (question.opcode << 3) | recursion;
    out[3] = 0x80 | code;
    out[4..12].copy_from_slice(&[0, 1, 0, 0, 0, 0, 0, 0]);
    question.end
}

/// Records behind the question.
struct Answer<'a> {
    out: &'a mut [u8],
    length: usize,
    count: u16,
    full: bool,
}

impl Answer<'_> {
    fn record(&mut self, kind: u16, data: &[u8]) {
        let end = self.length + 12 + data.len();
        let Some(room) = self.out.get_mut(self.length..end) else {
            self.full = true;
            return;
        };
        // The question's name, at byte 12.
        room[..2].copy_from_slice(&[0xc0, 12]);
        room[2..4].copy_from_slice(&kind.to_be_bytes());
        room[4..6].copy_from_slice(&[0, 1]);
        room[6..10].copy_from_slice(&TTL.to_be_bytes());
        room[10..12].copy_from_slice(&(data.len() as u16).to_be_bytes());
        room[12..].copy_from_slice(data);
        self.length = end;
        self.count += 1;
    }

    fn finish(self) -> Reply {
        if self.full {
            self.out[2] |= 2;
        }
        self.out[6..8].copy_from_slice(&self.count.to_be_bytes());
        Reply::Ready(self.length)
    }
}

/// The IPv4 address of `d.c.b.a.in-addr.arpa`.
fn reversed(name: &[u8]) -> Option<[u8; 4]> {
    let digits = name.strip_suffix(b".in-addr.arpa")?;
    let mut ip = [0u8; 4];
    let mut parts = digits.split(|&b| b == b'.');
    for byte in ip.iter_mut().rev() {
        let part = parts.next()?;
        if part.is_empty() || part.len() > 3 || !part.iter().all(u8::is_ascii_digit) {
            return None;
        }
        *byte = u8::try_from(part.iter().fold(0u32, |value, digit| value * 10 + u32::from(digit - b'0'))).ok()?;
    }
    parts.next().is_none().then_some(ip)
}

/// The IPv6 address of 32 digits, the last first, and `ip6.arpa`.
fn reversed6(name: &[u8]) -> Option<[u8; 16]> {
    let digits = name.strip_suffix(b".ip6.arpa")?;
    let mut ip = [0u8; 16];
    let mut parts = digits.split(|&b| b == b'.');
    for at in (0..32).rev() {
        let &[digit] = parts.next()? else { return None };
        let value = (digit as char).to_digit(16)? as u8;
        ip[at / 2] |= if at % 2 == 0 { value << 4 } else { value };
    }
    parts.next().is_none().then_some(ip)
}

/// `name.network` as labels.
fn encode_name(out: &mut [u8; 256], name: &[u8], network: &[u8]) -> Option<usize> {
    let mut at = 0;
    for label in name.split(|&b| b == b'.').chain(network.split(|&b| b == b'.')) {
        if label.is_empty() || label.len() > 63 || at + label.len() + 2 > out.len() {
            return None;
        }
        out[at] = label.len() as u8;
        out[at + 1..at + 1 + label.len()].copy_from_slice(label);
        at += 1 + label.len();
    }
    out[at] = 0;
    Some(at + 1)
}

/// Who has which name on a network: see [`NAMES_MAGIC`].
struct NamesFile {
    memory: &'static [u8],
    network: &'static [u8],
    from: usize,
}

struct Entry {
    slot: u32,
    id: [u8; 8],
    v4: Option<[u8; 4]>,
    v6: Option<[u8; 16]>,
    /// The container's own name, not an alias.
    first: bool,
    name: &'static [u8],
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
        let mut file = NamesFile { memory, network: b"", from: 0 };
        let name = 5..5 + usize::from(memory[4]);
        if memory[..4] != NAMES_MAGIC.to_le_bytes() || memory.len() < name.end {
            return None;
        }
        (file.network, file.from) = (&memory[name.clone()], name.end);
        Some(file)
    }

    fn entries(&self) -> impl Iterator<Item = Entry> {
        let mut rest = &self.memory[self.from..];
        core::iter::from_fn(move || {
            let head = rest.get(..NAMES_ENTRY)?;
            let name = rest.get(NAMES_ENTRY..NAMES_ENTRY + usize::from(head[NAMES_ENTRY - 1]))?;
            rest = &rest[NAMES_ENTRY + name.len()..];
            let flags = head[NAMES_ENTRY - 2];
            let mut entry = Entry {
                slot: u32::from_le_bytes([head[0], head[1], head[2], head[3]]),
                id: [0; 8],
                v4: None,
                v6: None,
                first: flags & 4 != 0,
                name,
            };
            entry.id.copy_from_slice(&head[4..12]);
            if flags & 1 != 0 {
                entry.v4 = head[12..16].try_into().ok();
            }
            if flags & 2 != 0 {
                entry.v6 = head[16..32].try_into().ok();
            }
            Some(entry)
        })
    }

    /// `name.network` means `name` here.
    fn without_network<'a>(&self, name: &'a [u8]) -> &'a [u8] {
        let bare = name.strip_suffix(self.network).and_then(|rest| rest.strip_suffix(b"."));
        bare.unwrap_or(name)
    }
}
