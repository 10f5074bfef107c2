//! Connections to receivers: opened with a bound, given up when the shipper is to end, and honest about what arrived.

mod ask;
mod connect;
mod plugin;
#[cfg(feature = "tls")]
mod proxy;
mod relp;

use crate::cursor::Fault;
use crate::drivers::{Destination, Frames, Manner};
use crate::options::Address;
use crate::proxies::Proxies;
use crate::sys;
pub(crate) use ask::ask_once;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::socket::{ControlMessage, MsgFlags, recv, send, sendmsg, sockopt};
pub(crate) use plugin::{has_left_stream, leave_stream, refusal};
pub(crate) use relp::send_relp;
use std::fs::File;
use std::io::{IoSlice, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// How long a connection, an agreement on TLS or an answer may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(15);
/// A receiver that acknowledged nothing for so long is gone. One that only reads nothing answers the kernel's probes,
/// which come every two minutes at least.
const SILENCE_MS: u32 = 150_000;
/// The other side sends no more: a flag of `poll` on Linux.
pub(crate) const ENDED: PollFlags = PollFlags::from_bits_retain(libc::POLLRDHUP);
/// How often a sender looks whether a receiver that takes nothing is still there.
const LOOK: Duration = Duration::from_secs(10);
/// The name of a host is looked up again so often for datagrams: nothing reports that its address has changed.
const NAME_AGE: Duration = Duration::from_secs(60);
/// The longest answer to a frame: a name has 64 digits and a number.
const ANSWER: usize = 1024;
/// Datagrams of Graylog's own reader have so many bytes at most, with the head of a chunk.
const CHUNK: usize = 1420;
const CHUNK_HEAD: usize = 12;
const CHUNKS: usize = 128;

/// Why a step did not end well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Problem {
    /// The shipper is to end.
    Stopped,
    /// The delivery failed, with an error number or 0.
    Failed(Fault, i32),
    /// The delivery of one log failed, and nothing speaks against that of the others of the connection.
    OfOne(Fault, i32),
}

impl Problem {
    /// Makes it a problem of all logs of a connection.
    pub(crate) fn of_all(self) -> Problem {
        match self {
            Problem::OfOne(fault, errno) => Problem::Failed(fault, errno),
            other => other,
        }
    }

    /// Makes it a problem of one log alone.
    pub(crate) fn of_one(self) -> Problem {
        match self {
            Problem::Failed(fault, errno) => Problem::OfOne(fault, errno),
            other => other,
        }
    }
}

/// Waits until a descriptor is ready, or the time has passed: returns whether it is ready.
pub(crate) fn wait(
    fd: BorrowedFd<'_>,
    flags: PollFlags,
    time: Duration,
    stop: BorrowedFd<'_>,
) -> Result<bool, Problem> {
    let time = PollTimeout::from(u16::try_from(time.as_millis()).unwrap_or(u16::MAX));
    let mut set = [PollFd::new(stop, PollFlags::POLLIN), PollFd::new(fd, flags)];
    match poll(&mut set, time) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(errno) => return Err(Problem::Failed(Fault::Send, errno as i32)),
    }
    if set[0].any().unwrap_or(false) {
        return Err(Problem::Stopped);
    }
    Ok(set[1].any().unwrap_or(false))
}

/// An open connection to a receiver.
pub(crate) struct Link {
    socket: OwnedFd,
    /// The socket is the FIFO of a log plugin. Dropped after it.
    tap: Option<plugin::Tap>,
    #[cfg(feature = "tls")]
    secure: Option<Box<crate::tls::Session>>,
    manner: Manner,
    /// The kernel counts acknowledged bytes of this stream as they were sent.
    is_exact: bool,
    /// Bytes of frames that were given to the stream.
    sent: u64,
    /// When the address of a datagram's receiver is looked up again.
    until: Option<Instant>,
    /// The failure that was seen.
    broken: Option<Problem>,
    /// Requests were answered: bytes that come before the next request are not an answer.
    is_used: bool,
    /// The number of RELP's last message; 0: the session is not open.
    number: u32,
    /// Bytes of answers that are not complete.
    answers: Vec<u8>,
    /// Numbers the messages that are sent in chunks.
    message: u64,
}

impl Link {
    /// Connects: through a proxy, if the receiver is asked by HTTPS.
    pub(crate) fn open(to: &Destination, proxies: &Proxies, stop: BorrowedFd<'_>) -> Result<Link, Problem> {
        let (socket, tap) = match &to.address {
            Address::Plugin(plan) => plugin::open(plan, stop).map(|(fifo, tap)| (fifo, Some(tap)))?,
            address => (open_socket((address, to.manner), proxies, stop)?, None),
        };
        #[cfg(feature = "tls")]
        let secure = match &to.address {
            Address::Tls(host, _) => {
                let name = to.tls.name.as_deref().unwrap_or(host);
                Some(Box::new(crate::tls::Session::agree(&socket, name, &to.tls, stop)?))
            }
            _ => None,
        };
        #[cfg(not(feature = "tls"))]
        if matches!(to.address, Address::Tls(..)) {
            return Err(Problem::Failed(Fault::Secure, libc::EPROTONOSUPPORT));
        }
        Ok(Link {
            socket,
            tap,
            #[cfg(feature = "tls")]
            secure,
            manner: to.manner,
            is_exact: matches!(to.address, Address::Tcp(..) | Address::Plugin(_)),
            sent: 0,
            until: matches!(to.address, Address::Udp(..)).then(|| Instant::now() + NAME_AGE),
            broken: None,
            is_used: false,
            number: 0,
            answers: Vec::new(),
            message: u64::from(std::process::id()) << 32 | crate::time::now_ns().cast_unsigned() & 0xffff_ffff,
        })
    }

    /// Whether the receiver's name is to be looked up again, or the connection to be renewed.
    pub(crate) fn is_old(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() > until) || relp::is_at_last_number(self)
    }

    /// The socket, to wait for its end.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The bytes that the stream took so far.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    /// How many bytes of the stream, from its start on, are acknowledged.
    pub(crate) fn acknowledged(&self) -> u64 {
        let left = match self.tap {
            Some(_) => sys::unread(self.socket.as_fd()),
            None => sys::unacknowledged(self.socket.as_fd()),
        };
        match left {
            Some(0) => self.sent,
            Some(left) if self.is_exact => self.sent.saturating_sub(left),
            _ => 0,
        }
    }

    /// The failure of a stream that nothing is sent on; `None`: it is well. The kernel tells an error once: the first answer
    /// stays.
    pub(crate) fn failure(&mut self) -> Option<Problem> {
        if self.tap.is_some() {
            return plugin::is_left(self.fd()).then_some(plugin::GONE);
        }
        self.broken = self.broken.or_else(|| self.look());
        self.broken
    }

    fn look(&self) -> Option<Problem> {
        let failed = |errno| Some(Problem::Failed(Fault::Send, errno));
        let mut set = [PollFd::new(self.socket.as_fd(), ENDED)];
        let is_over = poll(&mut set, PollTimeout::ZERO).is_ok_and(|ready| ready > 0);
        // The kernel has set the error before it says that the stream is over.
        let errno = nix::sys::socket::getsockopt(&self.socket, sockopt::SocketError).unwrap_or(libc::EBADF);
        match errno {
            // A receiver that only closed its side is gone: no receiver of logs goes on like that.
            0 if is_over => failed(libc::EPIPE),
            0 if self.is_silent() => failed(libc::ETIMEDOUT),
            0 => None,
            errno => failed(errno),
        }
    }

    fn is_silent(&self) -> bool {
        let owes = sys::unacknowledged(self.socket.as_fd()).is_some_and(|left| left > 0);
        owes && sys::silence_ms(self.socket.as_fd()).is_some_and(|silence| silence > SILENCE_MS)
    }

    /// Gives all bytes to the stream, at most up to a time. As long as the receiver takes none, this waits.
    pub(crate) fn send_all(
        &mut self,
        bytes: &[u8],
        until: Option<Instant>,
        stop: BorrowedFd<'_>,
    ) -> Result<(), Problem> {
        // The kernel names a reset once, and calls it an end in order after that.
        if let Some(problem) = self.broken {
            return Err(problem);
        }
        #[cfg(feature = "tls")]
        if let Some(secure) = &mut self.secure {
            for part in bytes.chunks(16 << 10) {
                secure.send(&self.socket, part, until, stop)?;
            }
            self.sent += bytes.len() as u64;
            return Ok(());
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            let taken = match self.tap {
                Some(_) => plugin::write_some(&self.socket, rest, stop)?,
                None => send_some(&self.socket, rest, until, stop, || self.is_silent())?,
            };
            self.sent += taken as u64;
            rest = &rest[taken..];
        }
        Ok(())
    }

    /// Sends frames that are datagrams; returns how many were sent.
    pub(crate) fn send_datagrams(&mut self, frames: &Frames, stop: BorrowedFd<'_>) -> (usize, Result<(), Problem>) {
        let mut from = 0;
        for (number, frame) in frames.frames.iter().enumerate() {
            let bytes = &frames.bytes[from..frame.end];
            let sent = match self.manner {
                Manner::GelfDatagrams => self.send_gelf(bytes, stop),
                Manner::Journal => self.send_entry(bytes, stop),
                _ => self.send_datagram(bytes, stop),
            };
            if let Err(problem) = sent {
                // A refusal is about an earlier datagram: the receiver is not there, and has none of them.
                let refused = problem == Problem::Failed(Fault::Send, libc::ECONNREFUSED);
                return (if refused { 0 } else { number }, Err(problem));
            }
            from = frame.end;
        }
        match nix::sys::socket::getsockopt(&self.socket, sockopt::SocketError) {
            Ok(errno) if errno != 0 => (0, Err(Problem::Failed(Fault::Send, errno))),
            _ => (frames.frames.len(), Ok(())),
        }
    }

    /// A datagram that is too long for the socket is cut: no receiver takes it whole.
    fn send_datagram(&self, bytes: &[u8], stop: BorrowedFd<'_>) -> Result<(), Problem> {
        const MOST: usize = 65_000;
        match send_some(&self.socket, bytes, None, stop, || false) {
            Err(Problem::Failed(_, libc::EMSGSIZE)) if bytes.len() > MOST => {
                send_some(&self.socket, &bytes[..MOST], None, stop, || false).map(|_| ())
            }
            sent => sent.map(|_| ()),
        }
    }

    fn send_gelf(&mut self, bytes: &[u8], stop: BorrowedFd<'_>) -> Result<(), Problem> {
        if bytes.len() <= CHUNK {
            return self.send_datagram(bytes, stop);
        }
        self.message = self.message.wrapping_add(1);
        let parts = bytes.chunks(CHUNK - CHUNK_HEAD);
        let count = parts.len();
        // A record has 16 KiB: only labels of a hundred kilobytes lead here. No receiver takes such a message.
        if count > CHUNKS {
            return Err(Problem::OfOne(Fault::Send, libc::EMSGSIZE));
        }
        for (number, part) in parts.enumerate() {
            let mut chunk = vec![0x1e, 0x0f];
            chunk.extend_from_slice(&self.message.to_be_bytes());
            // Both are at most `CHUNKS`.
            chunk.extend_from_slice(&[number as u8, count as u8]);
            chunk.extend_from_slice(part);
            self.send_datagram(&chunk, stop)?;
        }
        Ok(())
    }

    /// An entry that is too long for a datagram goes as a sealed file.
    fn send_entry(&self, bytes: &[u8], stop: BorrowedFd<'_>) -> Result<(), Problem> {
        match send_some(&self.socket, bytes, None, stop, || false) {
            Err(Problem::Failed(_, libc::EMSGSIZE | libc::ENOBUFS)) => {}
            sent => return sent.map(|_| ()),
        }
        let failed = |errno: Errno| Problem::Failed(Fault::Send, errno as i32);
        let file = sealed(bytes).map_err(failed)?;
        let fds = [file.as_raw_fd()];
        loop {
            let rights = [ControlMessage::ScmRights(&fds)];
            let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
            match sendmsg::<()>(self.socket.as_raw_fd(), &[IoSlice::new(&[])], &rights, flags, None) {
                Ok(_) => return Ok(()),
                Err(Errno::EAGAIN | Errno::EINTR) => drop(wait(self.fd(), PollFlags::POLLOUT, LOOK, stop)?),
                Err(errno) => return Err(failed(errno)),
            }
        }
    }

    /// Sends frames of the forward protocol and waits for each one's acknowledgement; returns how many were
    /// acknowledged.
    pub(crate) fn send_answered(&mut self, frames: &Frames, stop: BorrowedFd<'_>) -> (usize, Result<(), Problem>) {
        let mut from = 0;
        for (number, frame) in frames.frames.iter().enumerate() {
            let bytes = &frames.bytes[from..frame.end];
            let done = self.send_all(bytes, None, stop).and_then(|()| self.answer(frame.name.as_bytes(), stop));
            if let Err(problem) = done {
                return (number, Err(problem));
            }
            from = frame.end;
        }
        (frames.frames.len(), Ok(()))
    }

    fn answer(&mut self, name: &[u8], stop: BorrowedFd<'_>) -> Result<(), Problem> {
        let refused = |errno| Problem::Failed(Fault::Refused, errno);
        let until = Instant::now() + PATIENCE;
        loop {
            match crate::drivers::acknowledged(&self.answers) {
                Ok(None) if self.answers.len() > ANSWER => return Err(refused(libc::EBADMSG)),
                Ok(Some((answer, length))) => {
                    let is_it = answer == name;
                    self.answers.drain(..length);
                    if is_it {
                        return Ok(());
                    }
                }
                Ok(None) => self.more_answers(until, stop)?,
                Err(()) => return Err(refused(libc::EBADMSG)),
            }
        }
    }

    fn more_answers(&mut self, until: Instant, stop: BorrowedFd<'_>) -> Result<(), Problem> {
        match self.receive(until, stop)? {
            0 => Err(Problem::Failed(Fault::Refused, libc::ECONNRESET)),
            _ => Ok(()),
        }
    }

    /// Takes more bytes of answers; 0: the receiver has ended the connection.
    fn receive(&mut self, until: Instant, stop: BorrowedFd<'_>) -> Result<usize, Problem> {
        let failed = |errno| Problem::Failed(Fault::Refused, errno);
        loop {
            // Also for a receiver that sends without end.
            wait(stop, PollFlags::empty(), Duration::ZERO, stop)?;
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(failed(libc::ETIMEDOUT));
            }
            let mut block = [0; 1024];
            #[cfg(feature = "tls")]
            let got = match &mut self.secure {
                Some(secure) => secure.receive(&self.socket, &mut block),
                None => recv(self.socket.as_raw_fd(), &mut block, MsgFlags::MSG_DONTWAIT),
            };
            #[cfg(not(feature = "tls"))]
            let got = recv(self.socket.as_raw_fd(), &mut block, MsgFlags::MSG_DONTWAIT);
            match got {
                Ok(length) => {
                    self.answers.extend_from_slice(&block[..length]);
                    return Ok(length);
                }
                Err(Errno::EAGAIN | Errno::EINTR) => drop(wait(self.fd(), PollFlags::POLLIN, left, stop)?),
                Err(errno) => return Err(failed(errno as i32)),
            }
        }
    }
}

/// A connected socket.
fn open_socket(
    (address, manner): (&Address, Manner),
    proxies: &Proxies,
    stop: BorrowedFd<'_>,
) -> Result<OwnedFd, Problem> {
    #[cfg(feature = "tls")]
    if let (Address::Tls(host, port), Manner::Asked) = (address, manner)
        && let Some(proxy) = proxy::Proxy::of((host, *port), proxies)?
    {
        return proxy.tunnel((host, *port), stop);
    }
    #[cfg(not(feature = "tls"))]
    let _ = (manner, proxies);
    connect::open(address, stop)
}

/// Sends some of the bytes (a datagram: all); waits until the socket takes some, at most up to a time.
pub(crate) fn send_some(
    socket: &OwnedFd,
    bytes: &[u8],
    until: Option<Instant>,
    stop: BorrowedFd<'_>,
    is_gone: impl Fn() -> bool,
) -> Result<usize, Problem> {
    loop {
        match send(socket.as_raw_fd(), bytes, MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT) {
            Ok(taken) => return Ok(taken),
            Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) => {
                let left = until.map_or(LOOK, |until| until.saturating_duration_since(Instant::now()).min(LOOK));
                // A receiver that takes a little now and then does not get more time, either.
                if left.is_zero() || !wait(socket.as_fd(), PollFlags::POLLOUT, left, stop)? && is_gone() {
                    return Err(Problem::Failed(Fault::Send, libc::ETIMEDOUT));
                }
            }
            Err(errno) => return Err(Problem::Failed(Fault::Send, errno as i32)),
        }
    }
}

/// A file in memory that nobody can change any more.
fn sealed(bytes: &[u8]) -> nix::Result<OwnedFd> {
    use nix::fcntl::{FcntlArg, SealFlag, fcntl};
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    let mut file = File::from(memfd_create(c"journal", flags)?);
    file.write_all(bytes).map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO)))?;
    fcntl(&file, FcntlArg::F_ADD_SEALS(SealFlag::all()))?;
    Ok(file.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drivers::{Frame, TlsFiles};
    use nix::sys::eventfd::{EfdFlags, EventFd};
    use std::net::TcpListener;
    use std::os::unix::net::{UnixListener, UnixStream};

    /// A connection of the forward protocol, its other end, and the descriptor that ends it.
    fn answered(name: &str) -> (Link, UnixStream, EventFd) {
        let path = std::env::temp_dir().join(format!("coracle-{name}-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).unwrap();
        let address = Address::Unix(path.to_str().unwrap().to_owned());
        let to = Destination { address, tls: TlsFiles::default(), manner: Manner::Answered, account: String::new() };
        let stop = EventFd::from_flags(EfdFlags::EFD_CLOEXEC).unwrap();
        let link = Link::open(&to, &Proxies::default(), stop.as_fd()).unwrap();
        std::fs::remove_file(&path).unwrap();
        (link, listener.accept().unwrap().0, stop)
    }

    fn frames() -> Frames {
        Frames {
            bytes: b"x".to_vec(),
            frames: vec![Frame { end: 1, records: 1, name: "i-1".into() }],
            ..Frames::default()
        }
    }

    #[test]
    fn a_reset_that_was_seen_stays_one() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::Tcp("127.0.0.1".into(), listener.local_addr().unwrap().port());
        let to = Destination { address, tls: TlsFiles::default(), manner: Manner::Stream, account: String::new() };
        let stop = EventFd::from_flags(EfdFlags::EFD_CLOEXEC).unwrap();
        let mut link = Link::open(&to, &Proxies::default(), stop.as_fd()).unwrap();
        let other = listener.accept().unwrap().0;
        link.send_all(b"x", None, stop.as_fd()).unwrap();
        // With a byte that was not read the end is a reset.
        poll(&mut [PollFd::new(other.as_fd(), PollFlags::POLLIN)], PollTimeout::NONE).unwrap();
        drop(other);
        poll(&mut [PollFd::new(link.fd(), ENDED)], PollTimeout::NONE).unwrap();
        let reset = Problem::Failed(Fault::Send, libc::ECONNRESET);
        assert_eq!(link.failure(), Some(reset));
        assert_eq!(link.send_all(b"y", None, stop.as_fd()), Err(reset));
        assert_eq!(link.failure(), Some(reset));
    }

    const OTHER: &[u8] = b"\x81\xa3ack\xa1x";

    #[test]
    fn answers_without_end_defeat_neither_the_stop_nor_the_time() {
        let (mut link, mut other, stop) = answered("flood");
        let flood = std::thread::spawn(move || {
            let answers = OTHER.repeat(100_000);
            while other.write_all(&answers).is_ok() {}
        });
        link.more_answers(Instant::now() + PATIENCE, stop.as_fd()).unwrap();
        let late = link.more_answers(Instant::now(), stop.as_fd());
        assert_eq!(late, Err(Problem::Failed(Fault::Refused, libc::ETIMEDOUT)));
        stop.write(1).unwrap();
        assert_eq!(link.answer(b"i-1", stop.as_fd()), Err(Problem::Stopped));
        drop(link);
        flood.join().unwrap();
    }

    #[test]
    fn an_answer_is_bounded() {
        let (mut link, mut other, stop) = answered("long");
        other.write_all(&[b"\x81\xa3ack\xda\xff\xff".as_slice(), &[b'x'; 4096]].concat()).unwrap();
        let sent = link.send_answered(&frames(), stop.as_fd());
        assert_eq!(sent, (0, Err(Problem::Failed(Fault::Refused, libc::EBADMSG))));
        let (mut link, mut other, stop) = answered("right");
        other.write_all(&[OTHER, b"\x81\xa3ack\xa3i-1"].concat()).unwrap();
        assert_eq!(link.send_answered(&frames(), stop.as_fd()), (1, Ok(())));
    }
}
