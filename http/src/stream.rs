//! The streams of a connection beside documents: frames, progress messages, and the conversation of attach and exec.

use crate::answer::Call;
use crate::context::Unread;
use crate::json;
use crate::message::{BodyOut, Duplex, Headers, Response, Takeover};
use crate::peer::Peer;
use crate::socket::{recv_now, send_now, wait_many};
use crate::versions::Gate;
use crate::websocket;
use coracle::model::{DetachKeys, Progress};
use coracle::{Channel, Error, Session};
use nix::errno::Errno;
use nix::poll::PollFlags;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::socket::{UnixAddr, getsockname};
use serde::Serialize;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// The media type of taken-over connections, as existing clients know it.
pub(crate) const RAW_STREAM: &str = "application/vnd.docker.raw-stream";
/// The type of a connection whose output is in frames, where the client distinguishes it from the bare stream.
const MULTIPLEXED_STREAM: &str = "application/vnd.docker.multiplexed-stream";
/// The type of the bare stream under the specification's name, for clients that ask for it (`Accept`).
const RAW_STREAM_SPECIFIED: &str = "application/vnd.engine.raw-stream";

/// How output of two streams shares one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Frames {
    /// A terminal's bytes as they are.
    Raw,
    /// Eight bytes before each piece: stream, three zeros, length in network order.
    Multiplexed,
    /// Messages of a websocket, both streams as one.
    WebSocket(websocket::Message),
}

impl Frames {
    fn is_websocket(self) -> bool {
        matches!(self, Frames::WebSocket(_))
    }
}

/// `data` of a stream as it goes out.
pub(crate) fn frame(channel: Channel, data: &[u8], frames: Frames) -> Vec<u8> {
    let mut out = Vec::with_capacity(data.len() + 8);
    push_frame(&mut out, channel, data, frames);
    out
}

/// Appends a frame.
pub(crate) fn push_frame(out: &mut Vec<u8>, channel: Channel, data: &[u8], frames: Frames) {
    if let Frames::WebSocket(message) = frames {
        return websocket::push(out, data, message);
    }
    if frames == Frames::Multiplexed {
        out.extend_from_slice(&[channel as u8, 0, 0, 0]);
        out.extend_from_slice(&u32::try_from(data.len()).unwrap_or(u32::MAX).to_be_bytes());
    }
    out.extend_from_slice(data);
}

/// One progress message: a JSON object and CR LF.
pub(crate) fn progress(message: &Progress) -> Vec<u8> {
    object_line(message)
}

/// The message that ends a stream whose work failed.
pub(crate) fn failure(error: &Error) -> Vec<u8> {
    #[derive(Serialize)]
    struct Detail<'a> {
        #[serde(skip_serializing_if = "Option::is_none")]
        code: Option<i32>,
        message: &'a str,
    }
    #[derive(Serialize)]
    struct Failure<'a> {
        #[serde(rename = "errorDetail")]
        detail: Detail<'a>,
        error: &'a str,
    }
    object_line(&Failure {
        detail: Detail { code: error.exit_code(), message: error.message() },
        error: error.message(),
    })
}

fn object_line(value: &impl Serialize) -> Vec<u8> {
    let mut bytes = json::text(value);
    bytes.extend_from_slice(b"\r\n");
    bytes
}

/// Whether the client asks for the bare connection: `tcp` is among the protocols of its `Upgrade` fields, in any case.
/// Streams speak no other protocol (`h2c`, `websocket`), and HTTP lets a server pass over the protocols that it does not
/// speak.
pub(crate) fn wants_tcp(headers: &Headers) -> bool {
    headers.all("upgrade").flat_map(|list| list.split(',')).any(|protocol| protocol.trim().eq_ignore_ascii_case("tcp"))
}

/// The media type of output in frames, or without, as the client's version has it.
pub(crate) fn media_type(frames: Frames) -> &'static str {
    if frames == Frames::Multiplexed { MULTIPLEXED_STREAM } else { RAW_STREAM }
}

/// The answer that takes the connection over: 101 where the client asked for that, else 200.
pub(crate) fn takeover(call: &Call, frames: Frames, marks: Option<&Headers>, take: Takeover) -> Response {
    let headers = &call.request.headers;
    let specified = headers.all("accept").any(|accept| accept.contains(RAW_STREAM_SPECIFIED));
    let kind = match specified {
        true => RAW_STREAM_SPECIFIED,
        false if call.version.has(Gate::StreamTypes) && wants_tcp(headers) => media_type(frames),
        false => RAW_STREAM,
    };
    let mut answer = Response::new(200, Vec::new()).with("Content-Type", kind);
    if wants_tcp(headers) {
        answer.status = 101;
        answer.reason = Some("UPGRADED");
        answer = answer.with("Connection", "Upgrade").with("Upgrade", "tcp");
    }
    for (name, value) in marks.into_iter().flat_map(Headers::iter) {
        answer.headers.add(name, value);
    }
    answer.body = BodyOut::Hijack(take);
    answer
}

/// Takes the connection over for a websocket. Errors: the client sent no valid handshake.
pub(crate) fn websocket_takeover(call: &Call, take: Takeover) -> coracle::Result<Response> {
    let headers = &call.request.headers;
    let upgrade = headers.get("upgrade").is_some_and(|to| to.eq_ignore_ascii_case("websocket"));
    let key = headers.get("sec-websocket-key").filter(|key| upgrade && !key.is_empty());
    let key = key.ok_or_else(|| Error::invalid("not websocket protocol"))?;
    if headers.get("sec-websocket-version") != Some("13") {
        return Err(Error::invalid("the websocket's version is not supported: 13 is"));
    }
    let mut answer = Response::new(101, Vec::new())
        .with("Upgrade", "websocket")
        .with("Connection", "Upgrade")
        .with("Sec-WebSocket-Accept", websocket::accept(key));
    answer.reason = Some("Switching Protocols");
    answer.body = BodyOut::Hijack(take);
    Ok(answer)
}

/// Sends all of `bytes`, waiting as long as the client takes.
pub(crate) fn send(client: &Duplex, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match send_now(client.socket.as_fd(), bytes, false) {
            Ok(sent) => bytes = &bytes[sent..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                wait_many(&[(client.socket.as_fd(), PollFlags::POLLOUT)], None)?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Says one thing in place of a process's output.
pub(crate) fn say(client: &Duplex, channel: Channel, text: &[u8], frames: Frames, unread: &Unread) {
    await_head(client, unread);
    // A client that is gone hears nothing.
    let _ = send(client, &frame(channel, text, frames));
}

/// Ends a conversation over a websocket as its protocol wants it.
pub(crate) fn say_goodbye(client: &Duplex) {
    // A client that is gone hears nothing.
    let _ = send_now(client.socket.as_fd(), &websocket::close(), false);
}

/// How a process's streams and a client's connection are joined.
pub(crate) struct Plan {
    pub(crate) frames: Frames,
    /// The sequence that leaves: of terminals only.
    pub(crate) keys: Option<DetachKeys>,
    /// The client looks at the process's exit code once the connection is closed.
    pub(crate) waits_for_exit: bool,
    /// Counts an answer whose head the client does not read.
    pub(crate) unread: Unread,
}

/// Joins client and process until the process's output has ended, the client is gone, or it typed the detach keys.
///
/// One thread does both directions. A client that stops sending ends the process's stdin and still gets the output.
pub(crate) fn pump(client: Duplex, mut session: Session, plan: Plan) {
    let stdin = session.take_fd(Channel::Stdin);
    let outputs = [Channel::Stdout, Channel::Stderr].into_iter();
    let outputs = outputs.filter_map(|channel| session.take_fd(channel).map(|fd| (channel, fd))).collect();
    let waits_for_exit = plan.waits_for_exit;
    let frames = plan.frames;
    let (end, client) = join(client, stdin, outputs, plan);
    if frames.is_websocket() && end != End::Closed {
        say_goodbye(&client);
    }
    match end {
        // The client detached on purpose; the connection ends even if the event of it cannot be written.
        End::Detached => drop(session.detach()),
        End::Done if waits_for_exit => await_exit(&session),
        End::Done | End::Closed => {}
    }
    drop(client);
}

/// Waits a moment for the end of a process whose output has ended: clients ask for its exit code as soon as the
/// connection is closed. A process that only closed its output must not keep them.
fn await_exit(session: &Session) {
    if let Ok(op) = coracle::Op::new() {
        op.set_timeout(Some(EXIT_WAIT));
        let _ = session.wait(Some(&op));
    }
}

/// How long the end of an exec'd process may come after the end of its output.
const EXIT_WAIT: Duration = Duration::from_secs(2);

fn join(client: Duplex, stdin: Option<OwnedFd>, outputs: Vec<(Channel, OwnedFd)>, plan: Plan) -> (End, Duplex) {
    let mut pump = Pump::new(client, stdin, outputs, plan);
    let end = pump.run();
    (end, pump.client)
}

/// Buffered bytes between two sockets; reading stops above this.
const HIGH_WATER: usize = 256 << 10;
/// How long what a vanished client had sent may take to reach a process that does not read.
const LAST_INPUT: Duration = Duration::from_secs(10);

struct Pump {
    client: Duplex,
    stdin: Option<OwnedFd>,
    outputs: Vec<(Channel, OwnedFd)>,
    /// No output was asked for: the conversation ends with the input.
    stdin_only: bool,
    /// Whether the client may still send.
    sending: bool,
    /// Set once nobody reads the client's end any more: when the last input must be through.
    gone: Option<Instant>,
    /// The answer's head, until the client has it.
    head: Option<Head>,
    to_client: Pending,
    to_stdin: Pending,
    messages: websocket::Reader,
    plan: Plan,
}

/// The head of an answer that the client may not have read yet.
///
/// A client that reads through a buffer (Python's `http.client`) takes what came with the head in the same read, and looks
/// for the stream on the bare socket: what is sent too early is lost to it. dockerd is saved from that by being slow. A
/// client that speaks TLS reads one record at a time, and the head has one of its own.
struct Head {
    witness: Witness,
    sent: Instant,
}

/// The object that shows whether the client has read the head.
enum Witness {
    /// The socket itself, a Unix socket. Wakes when the client has read something.
    Socket(Option<Epoll>),
    /// The client's own socket, TCP on this host, which is asked again and again; and whether the head has arrived there.
    Peer(Peer, bool),
    /// The acknowledgement of the client's kernel, elsewhere, which says less.
    Kernel,
}

/// How long a client of this host may take to read the head of an answer.
const HEAD_READ: Duration = Duration::from_secs(5);
/// How long a TCP peer may take to acknowledge it.
const HEAD_ACKNOWLEDGED: Duration = Duration::from_millis(20);
/// The longest time between two looks at a socket that does not wake. At first there is none: most clients read at once.
const LOOK: Duration = Duration::from_millis(1);
const LOOKS_AT_ONCE: Duration = Duration::from_micros(50);

impl Head {
    /// That of the answer that was just sent; `None`: the client has read it.
    fn of(socket: BorrowedFd<'_>) -> Option<Head> {
        let witness = if getsockname::<UnixAddr>(socket.as_raw_fd()).is_ok() {
            Witness::Socket(Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).ok().filter(|epoll| {
                // Each read of the peer frees room, which an edge reports.
                epoll.add(socket, EpollEvent::new(EpollFlags::EPOLLOUT | EpollFlags::EPOLLET, 0)).is_ok()
            }))
        } else {
            Peer::of(socket).map_or(Witness::Kernel, |peer| Witness::Peer(peer, false))
        };
        let mut head = Head { witness, sent: Instant::now() };
        (!head.is_read(socket)).then_some(head)
    }

    /// Whether output must still wait.
    fn is_waiting(&mut self, socket: BorrowedFd<'_>) -> bool {
        if let Some(wakes) = self.wakes() {
            // Taken before the look: what is read after the look wakes again.
            let _ = wakes.wait(&mut [EpollEvent::empty()], EpollTimeout::ZERO);
        }
        !self.is_read(socket) && Instant::now() < self.until()
    }

    fn wakes(&self) -> Option<&Epoll> {
        if let Witness::Socket(wakes) = &self.witness { wakes.as_ref() } else { None }
    }

    /// When output goes out all the same.
    fn until(&self) -> Instant {
        self.sent + if matches!(self.witness, Witness::Kernel) { HEAD_ACKNOWLEDGED } else { HEAD_READ }
    }

    /// Whether the client has all that was sent, or its kernel has, where no more is known. A socket that cannot say is not
    /// waited for.
    fn is_read(&mut self, socket: BorrowedFd<'_>) -> bool {
        let acknowledged = || coracle::unread(socket).unwrap_or(0) == 0;
        match &mut self.witness {
            Witness::Socket(_) | Witness::Kernel => acknowledged(),
            Witness::Peer(peer, arrived) => {
                let waited = self.sent.elapsed() >= HEAD_ACKNOWLEDGED;
                *arrived = *arrived || waited || acknowledged() || peer.has_arrived().unwrap_or(false);
                // Asked after: nothing is unread as well where nothing has arrived. A client that is gone reads no more.
                *arrived && peer.unread().unwrap_or(0) == 0
            }
        }
    }

    /// Counts it where output goes out although the client could have reported that it had read the head.
    fn count_unread(&mut self, socket: BorrowedFd<'_>, unread: &Unread) {
        let can_report = !matches!(self.witness, Witness::Kernel);
        if can_report && Instant::now() >= self.until() && !self.is_read(socket) {
            unread.add();
        }
    }

    /// When the client is to be looked at again, if nothing wakes before.
    fn next_look(&self) -> Instant {
        let now = Instant::now();
        match self.sent.elapsed() {
            _ if self.wakes().is_some() => self.until(),
            waited if waited < LOOKS_AT_ONCE => now,
            waited => self.until().min(now + (waited / 2).min(LOOK)),
        }
    }
}

/// Waits until the client has read the answer's head: for what goes out before a [`pump`].
pub(crate) fn await_head(client: &Duplex, unread: &Unread) {
    let socket = client.socket.as_fd();
    let Some(mut head) = Head::of(socket) else { return };
    while head.is_waiting(socket) {
        let mut set = vec![(socket, PollFlags::empty())];
        set.extend(head.wakes().map(|wakes| (wakes.0.as_fd(), PollFlags::POLLIN)));
        // A hang-up ends it; what is said then goes nowhere.
        if wait_many(&set, Some(head.next_look()))
            .is_ok_and(|ready| ready.first().is_some_and(|flags| !flags.is_empty()))
        {
            return;
        }
    }
    head.count_unread(socket, unread);
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// All is said.
    Done,
    /// The client typed the detach keys.
    Detached,
    /// The client closed its websocket, and was answered.
    Closed,
}

impl Pump {
    fn new(client: Duplex, stdin: Option<OwnedFd>, outputs: Vec<(Channel, OwnedFd)>, plan: Plan) -> Pump {
        Pump {
            stdin,
            stdin_only: outputs.is_empty(),
            outputs,
            sending: true,
            gone: None,
            head: Head::of(client.socket.as_fd()),
            to_client: Pending::default(),
            to_stdin: Pending::default(),
            messages: websocket::Reader::default(),
            plan,
            client,
        }
    }

    /// Carries until the end.
    fn run(&mut self) -> End {
        let early = std::mem::take(&mut self.client.early);
        let mut end = self.came(&early);
        loop {
            match end {
                Some(end) => return end,
                None => end = self.turn(),
            }
        }
    }

    /// Waits for the next thing to do and does all that can be done without waiting.
    fn turn(&mut self) -> Option<End> {
        if !self.sending && self.to_stdin.is_empty() {
            self.end_stdin();
        }
        if let Some(end) = self.over() {
            return Some(end);
        }
        let mut interest = PollFlags::empty();
        // Each ping of a websocket is answered: a client that takes no answers is not listened to.
        let answers = !self.plan.frames.is_websocket() || self.to_client.len() < HIGH_WATER;
        if self.sending && self.to_stdin.len() < HIGH_WATER && answers {
            interest |= PollFlags::POLLIN;
        }
        let socket = self.client.socket.as_fd();
        if self.head.as_mut().is_some_and(|head| self.gone.is_some() || !head.is_waiting(socket)) {
            // Where there is nothing to be sent nothing was sent too early.
            let head = self.head.take().filter(|_| self.gone.is_none() && !self.to_client.is_empty());
            head.into_iter().for_each(|mut head| head.count_unread(socket, &self.plan.unread));
        }
        if !self.to_client.is_empty() && self.head.is_none() {
            interest |= PollFlags::POLLOUT;
        }
        // A hang-up cannot be left out of a wait: a client that is gone is not asked any more.
        let ask_client = self.gone.is_none() || self.sending;
        let room = self.to_client.len() < HIGH_WATER;
        let mut set: Vec<(BorrowedFd<'_>, PollFlags)> = Vec::with_capacity(4);
        if ask_client {
            set.push((self.client.socket.as_fd(), interest));
        }
        if let Some(stdin) = &self.stdin {
            let write = if self.to_stdin.is_empty() { PollFlags::empty() } else { PollFlags::POLLOUT };
            set.push((stdin.as_fd(), write));
        }
        if room {
            set.extend(self.outputs.iter().map(|(_, fd)| (fd.as_fd(), PollFlags::POLLIN)));
        }
        // Looked for only while something waits for it.
        let head = self.head.as_ref().filter(|_| !self.to_client.is_empty());
        set.extend(head.and_then(Head::wakes).map(|wakes| (wakes.0.as_fd(), PollFlags::POLLIN)));
        let Ok(ready) = wait_many(&set, self.gone.or(head.map(Head::next_look))) else {
            return if self.gone.is_some() { Some(End::Done) } else { None };
        };
        let mut ready = ready.into_iter();
        let client = if ask_client { ready.next().unwrap_or(PollFlags::empty()) } else { PollFlags::empty() };
        let stdin = if self.stdin.is_some() { ready.next().unwrap_or(PollFlags::empty()) } else { PollFlags::empty() };
        let outputs: Vec<PollFlags> = ready.take(self.outputs.len()).collect();
        if room {
            self.read_outputs(&outputs);
        }
        self.write_stdin(stdin);
        self.write_client();
        self.read_client(client)
    }

    fn over(&self) -> Option<End> {
        let silent = self.outputs.is_empty() && self.to_client.is_empty();
        let ended = silent && (!self.stdin_only || self.stdin.is_none());
        let lost = self.gone.is_some() && !self.sending && self.to_stdin.is_empty();
        (ended || lost).then_some(End::Done)
    }

    fn read_outputs(&mut self, ready: &[PollFlags]) {
        let mut buffer = [0; 32 << 10];
        let mut ended = Vec::new();
        for (index, flags) in ready.iter().enumerate() {
            if flags.is_empty() {
                continue;
            }
            let (channel, fd) = &self.outputs[index];
            // A pipe or a socket, and something is there: the read does not wait.
            match nix::unistd::read(fd, &mut buffer) {
                Ok(n) if n > 0 => {
                    if self.gone.is_none() {
                        push_frame(&mut self.to_client.bytes, *channel, &buffer[..n], self.plan.frames);
                    }
                }
                Err(Errno::EAGAIN | Errno::EINTR) => {}
                // The end; a reset is one too.
                _ => ended.push(index),
            }
        }
        for index in ended.into_iter().rev() {
            self.outputs.remove(index);
        }
    }

    fn write_stdin(&mut self, ready: PollFlags) {
        let Some(stdin) = &self.stdin else { return };
        let closed = ready.intersects(PollFlags::POLLERR | PollFlags::POLLHUP | PollFlags::POLLNVAL);
        if closed || self.to_stdin.send(stdin.as_fd()).is_err() {
            // The process reads no more: what the client still types goes nowhere.
            self.stdin = None;
            self.to_stdin = Pending::default();
        }
    }

    fn write_client(&mut self) {
        if self.gone.is_none() && self.head.is_none() && self.to_client.send(self.client.socket.as_fd()).is_err() {
            self.lose_client();
        }
    }

    fn read_client(&mut self, ready: PollFlags) -> Option<End> {
        if ready.intersects(PollFlags::POLLIN | PollFlags::POLLHUP | PollFlags::POLLERR) && self.sending {
            let mut buffer = [0; 16 << 10];
            match recv_now(self.client.socket.as_fd(), &mut buffer) {
                Ok(0) => self.sending = false,
                Ok(n) => {
                    if let Some(end) = self.came(&buffer[..n]) {
                        return Some(end);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => {
                    self.sending = false;
                    self.lose_client();
                }
            }
        }
        if ready.intersects(PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL) {
            self.lose_client();
        }
        None
    }

    fn lose_client(&mut self) {
        if self.gone.is_none() {
            self.gone = Some(Instant::now() + LAST_INPUT);
            self.to_client = Pending::default();
        }
    }

    /// Takes bytes of the client.
    fn came(&mut self, bytes: &[u8]) -> Option<End> {
        if !self.plan.frames.is_websocket() {
            return self.typed(bytes);
        }
        let read = self.messages.feed(bytes);
        self.to_client.bytes.extend(read.reply);
        let end = self.typed(&read.data);
        if !read.closed || end.is_some() {
            return end;
        }
        // The client closed the websocket: after the answer to its close it sends and reads nothing more.
        let _ = self.to_client.send(self.client.socket.as_fd());
        if let Some(stdin) = &self.stdin {
            let _ = self.to_stdin.send(stdin.as_fd());
        }
        Some(End::Closed)
    }

    fn typed(&mut self, bytes: &[u8]) -> Option<End> {
        let stdin = self.stdin.as_ref()?;
        let Some(keys) = &mut self.plan.keys else {
            self.to_stdin.bytes.extend_from_slice(bytes);
            return None;
        };
        if !keys.feed(bytes, &mut self.to_stdin.bytes) {
            return None;
        }
        // Input that was typed before still goes to the process, as far as the process takes it now.
        let _ = self.to_stdin.send(stdin.as_fd());
        Some(End::Detached)
    }

    /// Ends the process's input. By a shutdown, as the descriptor may be one of several on the socket.
    fn end_stdin(&mut self) {
        if let Some(stdin) = self.stdin.take() {
            let _ = nix::sys::socket::shutdown(stdin.as_raw_fd(), nix::sys::socket::Shutdown::Write);
        }
    }
}

/// Bytes on their way: `bytes[at..]` is still to go.
#[derive(Default)]
struct Pending {
    bytes: Vec<u8>,
    at: usize,
}

impl Pending {
    fn len(&self) -> usize {
        self.bytes.len() - self.at
    }
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Sends what goes without waiting.
    fn send(&mut self, fd: BorrowedFd<'_>) -> io::Result<()> {
        while !self.is_empty() {
            match send_now(fd, &self.bytes[self.at..], false) {
                Ok(sent) => self.at += sent,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        if self.is_empty() {
            self.bytes.clear();
            self.at = 0;
        } else if self.at > HIGH_WATER {
            self.bytes.drain(..self.at);
            self.at = 0;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coracle::model::ProgressDetail;
    use std::fs::File;
    use std::io::{Read, Write};
    use std::net::{Shutdown, TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;
    use std::thread::JoinHandle;

    #[test]
    fn frames_carry_stream_and_length() {
        assert_eq!(frame(Channel::Stderr, b"ab", Frames::Multiplexed), b"\x02\0\0\0\0\0\0\x02ab");
        assert_eq!(frame(Channel::Stdout, b"ab", Frames::Raw), b"ab");
        let long = frame(Channel::Stdout, &[7; 0x10203], Frames::Multiplexed);
        assert_eq!(&long[..8], [1, 0, 0, 0, 0, 1, 2, 3]);
    }

    #[test]
    fn messages_end_with_cr_lf() {
        let message = Progress {
            status: "Loading layer".into(),
            progress_detail: Some(ProgressDetail { current: 1, total: 2 }),
            progress: "[=>]".into(),
            id: "x".into(),
            ..Default::default()
        };
        let text = "{\"status\":\"Loading layer\",\"progressDetail\":{\"current\":1,\"total\":2},\
                    \"progress\":\"[=\\u003e]\",\"id\":\"x\"}\r\n";
        assert_eq!(progress(&message), text.as_bytes());
        let error = Error::internal("no \"luck\"");
        assert_eq!(
            failure(&error),
            b"{\"errorDetail\":{\"message\":\"no \\\"luck\\\"\"},\"error\":\"no \\\"luck\\\"\"}\r\n"
        );
    }

    /// The ends that a test holds while a pump joins the others.
    struct Joined {
        client: UnixStream,
        stdin: UnixStream,
        outputs: Vec<UnixStream>,
        thread: JoinHandle<End>,
    }

    fn joined(outputs: &[Channel], frames: Frames, keys: Option<&str>, early: &[u8]) -> Joined {
        let pair = || UnixStream::pair().unwrap();
        let ((client, near), (stdin, far_stdin)) = (pair(), pair());
        let (mut held, mut given) = (Vec::new(), Vec::new());
        for channel in outputs {
            let (ours, theirs) = pair();
            held.push(ours);
            given.push((*channel, OwnedFd::from(theirs)));
        }
        let plan = Plan {
            frames,
            keys: keys.map(|k| DetachKeys::parse(k).unwrap()),
            waits_for_exit: false,
            unread: Unread::default(),
        };
        let duplex = Duplex { socket: near.into(), early: early.to_vec() };
        let thread = std::thread::spawn(move || join(duplex, Some(far_stdin.into()), given, plan).0);
        for stream in [&client, &stdin] {
            stream.set_read_timeout(Some(Duration::from_secs(300))).unwrap();
        }
        Joined { client, stdin, outputs: held, thread }
    }

    /// Connections to clients of this host, each with the client's end.
    fn connections() -> [(File, File); 2] {
        let (client, near) = UnixStream::pair().unwrap();
        client.set_read_timeout(Some(Duration::from_secs(300))).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let tcp_client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        tcp_client.set_read_timeout(Some(Duration::from_secs(300))).unwrap();
        let tcp_near = listener.accept().unwrap().0;
        [(OwnedFd::from(near), OwnedFd::from(client)), (tcp_near.into(), tcp_client.into())]
            .map(|(near, client)| (near.into(), client.into()))
    }

    fn all(stream: &mut impl Read) -> Vec<u8> {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn output_reaches_a_silent_client_and_half_close_reaches_the_process() {
        let mut j = joined(&[Channel::Stdout, Channel::Stderr], Frames::Multiplexed, None, b"early ");
        let mut frame = [0; 10];
        j.outputs[1].write_all(b"e1").unwrap();
        j.client.read_exact(&mut frame).unwrap();
        assert_eq!(&frame, b"\x02\0\0\0\0\0\0\x02e1");
        j.client.write_all(b"late").unwrap();
        j.client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(all(&mut j.stdin), b"early late");
        j.outputs[0].write_all(b"o1").unwrap();
        drop(j.outputs);
        assert_eq!(all(&mut j.client), b"\x01\0\0\0\0\0\0\x02o1");
        assert_eq!(j.thread.join().unwrap(), End::Done);
    }

    /// A client that takes as much as is there with the head of the answer, and looks for the stream later.
    #[test]
    fn output_waits_until_the_client_has_read_the_head() {
        for (mut near, mut client) in connections() {
            near.write_all(b"the head").unwrap();
            let (mut output, far) = UnixStream::pair().unwrap();
            output.write_all(b"x").unwrap();
            drop(output);
            let plan = Plan { frames: Frames::Raw, keys: None, waits_for_exit: false, unread: Unread::default() };
            let duplex = Duplex { socket: near.into(), early: Vec::new() };
            let thread = std::thread::spawn(move || join(duplex, None, vec![(Channel::Stdout, far.into())], plan).0);
            std::thread::sleep(Duration::from_millis(100));
            let mut buffer = [0; 64];
            assert_eq!(client.read(&mut buffer[..3]).unwrap(), 3);
            std::thread::sleep(Duration::from_millis(100));
            assert_eq!(client.read(&mut buffer).unwrap(), 5, "output came with the head");
            assert_eq!(all(&mut client), b"x");
            assert_eq!(thread.join().unwrap(), End::Done);
        }
    }

    /// A client that never reads the head gets the output after the bound, and is counted; one that does is not.
    #[test]
    fn a_head_that_nobody_reads_is_counted() {
        let ends = connections().into_iter().chain(connections());
        for ((mut near, mut client), reads) in ends.zip([false, false, true, true]) {
            near.write_all(b"the head").unwrap();
            let (mut output, far) = UnixStream::pair().unwrap();
            output.write_all(b"x").unwrap();
            drop(output);
            if reads {
                client.read_exact(&mut [0; 8]).unwrap();
            }
            let unread = Unread::default();
            let plan = Plan { frames: Frames::Raw, keys: None, waits_for_exit: false, unread: unread.clone() };
            let duplex = Duplex { socket: near.into(), early: Vec::new() };
            assert_eq!(join(duplex, None, vec![(Channel::Stdout, far.into())], plan).0, End::Done);
            assert_eq!(all(&mut client), if reads { &b"x"[..] } else { b"the headx" });
            assert_eq!(unread.count(), u64::from(!reads));
        }
    }

    #[test]
    fn a_client_that_takes_no_answers_is_not_listened_to() {
        let mut j = joined(&[Channel::Stdout], Frames::WebSocket(websocket::Message::Text), None, b"");
        j.client.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
        let pings = b"\x89\x80\0\0\0\0".repeat(1 << 12);
        let taken = (0..1000).take_while(|_| j.client.write_all(&pings).is_ok()).count();
        assert!(taken < 200, "{taken} times {} bytes were taken", pings.len());
        // The rest of a frame does not count any more.
        drop(j.client);
        j.outputs.clear();
        j.thread.join().unwrap();
    }

    #[test]
    fn much_goes_both_ways_at_once() {
        let mut j = joined(&[Channel::Stdout], Frames::Raw, None, b"");
        let data: Vec<u8> = (0..3_000_000u32).map(|i| (i % 251) as u8).collect();
        std::thread::scope(|scope| {
            let (mut typed, mut client) = (j.client.try_clone().unwrap(), j.client.try_clone().unwrap());
            let data = &data;
            scope.spawn(move || {
                typed.write_all(data).unwrap();
                typed.shutdown(Shutdown::Write).unwrap();
            });
            let mut output = j.outputs[0].try_clone().unwrap();
            scope.spawn(move || output.write_all(data).unwrap());
            let reader = scope.spawn(move || all(&mut client));
            assert!(all(&mut j.stdin) == *data);
            // The end of the output is the end of the conversation, so it comes last.
            j.outputs.clear();
            assert!(reader.join().unwrap() == *data);
        });
        assert_eq!(j.thread.join().unwrap(), End::Done);
    }

    #[test]
    fn detach_keys_leave() {
        let mut j = joined(&[Channel::Stdout], Frames::Raw, Some("ctrl-p,ctrl-q"), b"");
        j.client.write_all(b"ls\x10x\x10\x11more").unwrap();
        assert_eq!(j.thread.join().unwrap(), End::Detached);
        assert_eq!(all(&mut j.stdin), b"ls\x10x");
        // Without a terminal they are input like any other.
        let mut j = joined(&[Channel::Stdout], Frames::Multiplexed, None, b"");
        j.client.write_all(b"\x10\x11").unwrap();
        j.client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(all(&mut j.stdin), b"\x10\x11");
    }

    #[test]
    fn a_client_that_is_gone_ends_it_after_its_last_input() {
        let mut j = joined(&[Channel::Stdout], Frames::Raw, None, b"");
        j.client.write_all(b"last").unwrap();
        drop(j.client);
        assert_eq!(all(&mut j.stdin), b"last");
        assert_eq!(j.thread.join().unwrap(), End::Done);
    }

    #[test]
    fn input_alone_ends_with_the_input_or_the_process() {
        let mut j = joined(&[], Frames::Raw, None, b"");
        j.client.write_all(b"x").unwrap();
        j.client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(all(&mut j.stdin), b"x");
        assert_eq!(j.thread.join().unwrap(), End::Done);
        let mut j = joined(&[], Frames::Raw, None, b"");
        drop(j.stdin);
        assert_eq!(j.thread.join().unwrap(), End::Done);
        assert_eq!(all(&mut j.client), b"");
    }
}
