//! Netlink sockets: requests in one buffer, their acknowledgements and dumps.

use super::fd::errno;
use crate::error::{Error, ErrorKind, Result};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// Links, addresses, routes.
pub(crate) const ROUTE: i32 = libc::NETLINK_ROUTE;
/// nf_tables.
pub(crate) const NETFILTER: i32 = libc::NETLINK_NETFILTER;

const HEAD: usize = 16;
/// The greatest length of an acknowledgement with the kernel's message.
const ANSWER: usize = 4 << 10;
/// The kernel sends lists in pieces of at most 32 KiB.
const LIST: usize = 64 << 10;
const ERROR: u16 = 2;
const DONE: u16 = 3;
const FLAG_CAPPED: u16 = 0x100;
const FLAG_ACK_TLVS: u16 = 0x200;
const ATTR_TEXT: u16 = 1;
/// The kernel answers while it takes the request, so a later answer never comes.
const LIMIT: Duration = Duration::from_secs(60);
/// The sequence number of the first message of a buffer.
const FIRST: u32 = 1;
const NO_RIGHTS: &str = "nf_tables requires CAP_NET_ADMIN in the user namespace that the network namespace belongs to";

/// A netlink socket in the network namespace of the calling thread.
pub(crate) struct Socket {
    fd: OwnedFd,
    protocol: i32,
    limit: Duration,
}

/// A request that the kernel refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refused {
    /// Sequence number of the message: its place in the buffer, from 1.
    pub sequence: u32,
    pub errno: i32,
    /// The kernel's message about it; often empty.
    pub text: String,
}

impl Refused {
    /// Converts to the library's error; `what` names the attempt.
    pub(crate) fn error(&self, what: impl std::fmt::Display) -> Error {
        let error = Error::os(what, self.errno);
        if self.text.is_empty() { error } else { error.explained(&self.text) }
    }
}

impl Socket {
    /// Opens a socket for a protocol ([`ROUTE`], [`NETFILTER`]).
    pub(crate) fn open(protocol: i32) -> Result<Socket> {
        Socket::open_for(protocol, LIMIT)
    }

    /// A socket with this time limit for each answer.
    fn open_for(protocol: i32, limit: Duration) -> Result<Socket> {
        // SAFETY: no pointers.
        let fd = unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, protocol) };
        if fd < 0 {
            return Err(Error::os("open a netlink socket", errno()));
        }
        // SAFETY: the kernel just gave us this descriptor.
        let socket = Socket { fd: unsafe { OwnedFd::from_raw_fd(fd) }, protocol, limit };
        let time = libc::timeval { tv_sec: limit.as_secs() as libc::time_t, tv_usec: limit.subsec_micros().into() };
        if !socket.set(libc::SOL_SOCKET, libc::SO_RCVTIMEO, &time) {
            return Err(Error::os("limit the waiting for answers of netlink", errno()));
        }
        // Best effort: on an old kernel without these options errors are less clear, nothing else.
        for option in [libc::NETLINK_EXT_ACK, libc::NETLINK_CAP_ACK] {
            socket.set(libc::SOL_NETLINK, option, &1);
        }
        // A whole rule set is one message, and all its acknowledgements come at once.
        socket.set(libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &(16 << 20));
        socket.set(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &(16 << 20));
        Ok(socket)
    }

    /// Sets an option; returns whether the kernel accepted it.
    fn set<T>(&self, level: i32, option: i32, value: &T) -> bool {
        let (pointer, length) = ((&raw const *value).cast(), size_of::<T>() as libc::socklen_t);
        // SAFETY: the value lives over the call, and the length is the value's.
        unsafe { libc::setsockopt(self.fd.as_raw_fd(), level, option, pointer, length) == 0 }
    }

    /// Sends requests in one buffer, and receives `acks` acknowledgements; returns the refusals among them.
    pub(crate) fn request(&self, messages: &[u8], acks: usize) -> Result<Vec<Refused>> {
        self.send(messages)?;
        let mut refused = Vec::new();
        let mut got = 0;
        let mut room = Vec::with_capacity(ANSWER);
        while got < acks {
            for (kind, flags, sequence, body) in split(self.receive(&mut room)?) {
                if kind != ERROR {
                    continue;
                }
                got += 1;
                let errno = -word(body, 0);
                if errno == 0 {
                    continue;
                }
                let mut refusal = Refused { sequence, errno, text: text(flags, body) };
                if self.refuses_all(&refusal) {
                    refusal.text = NO_RIGHTS.into();
                    return Ok(vec![refusal]);
                }
                refused.push(refusal);
            }
        }
        Ok(refused)
    }

    /// nf_tables checks the sender's rights once for a whole buffer, and answers only the first message: no
    /// acknowledgement of the others comes.
    fn refuses_all(&self, refused: &Refused) -> bool {
        self.protocol == NETFILTER && (refused.sequence, refused.errno) == (FIRST, libc::EPERM)
    }

    /// Sends a request for a list; `each` receives the type and the body (after the netlink header) of every answer.
    pub(crate) fn dump(&self, request: &[u8], mut each: impl FnMut(u16, &[u8])) -> Result<()> {
        self.send(request)?;
        let mut room = Vec::with_capacity(LIST);
        loop {
            for (kind, _, _, body) in split(self.receive(&mut room)?) {
                match kind {
                    DONE => return Ok(()),
                    ERROR if word(body, 0) == 0 => return Ok(()),
                    ERROR => return Err(Error::os("read a netlink list", -word(body, 0))),
                    _ => each(kind, body),
                }
            }
        }
    }

    fn send(&self, data: &[u8]) -> Result<()> {
        // SAFETY: the slice is valid for its length.
        let sent = unsafe { libc::send(self.fd.as_raw_fd(), data.as_ptr().cast(), data.len(), 0) };
        if sent == data.len() as isize { Ok(()) } else { Err(Error::os("send a netlink request", errno())) }
    }

    /// One datagram in `room`, cut to its capacity.
    fn receive<'a>(&self, room: &'a mut Vec<u8>) -> Result<&'a [u8]> {
        room.clear();
        let free = room.spare_capacity_mut();
        let (start, length) = (free.as_mut_ptr(), free.len());
        loop {
            // SAFETY: the buffer is valid for its length, and only written to.
            let got = unsafe { libc::recv(self.fd.as_raw_fd(), start.cast(), length, 0) };
            if got >= 0 {
                // SAFETY: the kernel wrote so many bytes, which is no more than there was place for.
                unsafe { room.set_len(got as usize) };
                return Ok(room);
            }
            match errno() {
                libc::EINTR => {}
                libc::EAGAIN => return Err(self.silent()),
                other => return Err(Error::os("read a netlink answer", other)),
            }
        }
    }

    fn silent(&self) -> Error {
        let part = if self.protocol == NETFILTER { "nf_tables" } else { "rtnetlink" };
        let text = format!("the kernel's {part} does not answer a request for {:?}", self.limit);
        Error::new(ErrorKind::Timeout, text).in_area("network")
    }
}

fn word(body: &[u8], at: usize) -> i32 {
    body.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, i32::from_ne_bytes)
}

/// The messages of a datagram: type, flags, sequence number, body. A truncated message ends the list.
fn split(datagram: &[u8]) -> Vec<(u16, u16, u32, &[u8])> {
    let mut rest = datagram;
    let mut found = Vec::new();
    while rest.len() >= HEAD {
        let length = word(rest, 0) as usize;
        let Some(body) = rest.get(HEAD..length) else { break };
        let (kind, flags) = (u16::from_ne_bytes([rest[4], rest[5]]), u16::from_ne_bytes([rest[6], rest[7]]));
        found.push((kind, flags, word(rest, 8) as u32, body));
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    found
}

/// The kernel's words in an extended acknowledgement.
fn text(flags: u16, body: &[u8]) -> String {
    if flags & FLAG_ACK_TLVS == 0 {
        return String::new();
    }
    let skip = if flags & FLAG_CAPPED == 0 { (word(body, 4) as usize).max(HEAD) } else { HEAD };
    let found = attributes(body.get(4 + skip.next_multiple_of(4)..).unwrap_or_default())
        .find(|(kind, _)| *kind == ATTR_TEXT)
        .map(|(_, text)| String::from_utf8_lossy(text).trim_end_matches('\0').to_owned());
    found.unwrap_or_default()
}

/// The attributes in a body: type (without its flag bits) and payload.
pub(crate) fn attributes(body: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = body;
    std::iter::from_fn(move || {
        let head = rest.get(..4)?;
        let length = usize::from(u16::from_ne_bytes([head[0], head[1]]));
        let payload = rest.get(4..length)?;
        let kind = u16::from_ne_bytes([head[2], head[3]]) & 0x3fff;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, payload))
    })
}

/// The kernel's number of this network namespace, unique until the next boot; 0: the kernel has none.
pub(crate) fn namespace_cookie() -> u64 {
    let Ok(socket) = Socket::open(ROUTE) else { return 0 };
    let (mut cookie, mut length) = (0u64, size_of::<u64>() as libc::socklen_t);
    let place = (&raw mut cookie).cast();
    // SAFETY: value and length live over the call, and the length is the value's.
    unsafe { libc::getsockopt(socket.fd.as_raw_fd(), libc::SOL_SOCKET, SO_NETNS_COOKIE, place, &raw mut length) };
    cookie
}

const SO_NETNS_COOKIE: i32 = 71;

#[cfg(test)]
mod tests {
    use super::*;

    /// A request for each sequence number, with acknowledgement.
    fn requests(kind: u16, flags: u16, body: &[u8], count: u32) -> Vec<u8> {
        let mut all = Vec::new();
        for sequence in 1..=count {
            all.extend_from_slice(&((HEAD + body.len()) as u32).to_ne_bytes());
            all.extend_from_slice(&kind.to_ne_bytes());
            all.extend_from_slice(&flags.to_ne_bytes());
            all.extend_from_slice(&sequence.to_ne_bytes());
            all.extend_from_slice(&[0; 4]);
            all.extend_from_slice(body);
        }
        all
    }

    #[test]
    fn a_caller_without_rights_hears_once_that_nf_tables_refuses_all_requests() {
        const REQUEST_AND_ACK: u16 = 1 | 4;
        const GET_TABLE: u16 = 10 << 8 | 1;
        const BATCH_BEGIN: u16 = 0x10;
        let refused = |kind, body: &[u8]| {
            let messages = requests(kind, REQUEST_AND_ACK, body, 3);
            Socket::open(NETFILTER).unwrap().request(&messages, 3).unwrap()
        };
        // Only for this thread; with another user the thread lacks the right anyway.
        let done = std::thread::spawn(move || {
            let _ = caps::drop(None, caps::CapSet::Effective, caps::Capability::CAP_NET_ADMIN);
            [refused(GET_TABLE, &[1, 0, 0, 0]), refused(BATCH_BEGIN, &[0, 0, 0, 10])]
        });
        for refused in done.join().unwrap() {
            assert_eq!(refused.len(), 1);
            let text = refused[0].error("look for the table").to_string();
            assert_eq!(text, format!("look for the table: operation not permitted ({NO_RIGHTS})"));
        }
    }

    #[test]
    fn an_answer_that_never_comes_is_an_error() {
        const NOTHING: u16 = 1;
        for (protocol, part) in [(ROUTE, "rtnetlink"), (NETFILTER, "nf_tables")] {
            let socket = Socket::open_for(protocol, Duration::from_millis(20)).unwrap();
            let asked = socket.request(&requests(NOTHING, 0, &[], 1), 1);
            if protocol == NETFILTER && asked.as_ref().is_ok_and(|refused| refused[0].errno == libc::EPERM) {
                // A caller without rights gets this answer first.
                continue;
            }
            let error = asked.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Timeout);
            assert_eq!(error.message(), format!("the kernel's {part} does not answer a request for 20ms"));
        }
    }

    #[test]
    fn cut_messages_end_the_list() {
        let mut whole = Vec::new();
        for sequence in [1u32, 2] {
            whole.extend_from_slice(&20u32.to_ne_bytes());
            whole.extend_from_slice(&ERROR.to_ne_bytes());
            whole.extend_from_slice(&0u16.to_ne_bytes());
            whole.extend_from_slice(&sequence.to_ne_bytes());
            whole.extend_from_slice(&[0; 4]);
            whole.extend_from_slice(&(-5i32).to_ne_bytes());
        }
        let sequences = |data: &[u8]| split(data).iter().map(|m| m.2).collect::<Vec<_>>();
        assert_eq!(sequences(&whole), [1, 2]);
        assert_eq!(sequences(&whole[..39]), [1]);
        assert!(sequences(&whole[..19]).is_empty());
        whole[0] = 3;
        assert!(sequences(&whole).is_empty());
    }

    #[test]
    fn attributes_that_lie_about_their_length_end_the_list() {
        let list = [8, 0, 1, 0, b'a', b'b', b'c', 0, 200, 0, 2, 0];
        assert_eq!(attributes(&list).collect::<Vec<_>>(), [(1, &b"abc\0"[..])]);
        assert_eq!(attributes(&[0, 0, 1, 0]).count(), 0);
    }
}
