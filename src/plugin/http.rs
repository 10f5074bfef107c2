//! The part of HTTP that a plugin's call needs: one request, one answer, one connection for each.

use super::call::{Answer, Failed, LONGEST, TYPE, Tls};
use crate::kernel::lookup;
use crate::walls::Wall;
use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::socket::{self, AddressFamily, SockFlag, SockType, UnixAddr};
use nix::sys::stat::{Mode, fstat};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The time limit of a plugin's answer in most calls.
pub(super) const LIMIT: Duration = Duration::from_secs(30);

/// The pause between two tries to get into the queue of a listener.
const QUEUE: Duration = Duration::from_millis(20);

/// The address of a plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Address {
    Unix(PathBuf),
    /// The socket of a plugin that the engine runs: the plugin may write into its directory.
    Own(PathBuf),
    /// Host and port.
    Tcp(String),
    /// An address with TLS.
    Tls(String, Tls),
}

impl Address {
    /// Reads `unix:///path`, `tcp://host:port`, `http://host:port` or `https://host:port`.
    pub(super) fn parse(text: &str) -> Result<Address, String> {
        match text.split_once("://") {
            Some(("unix", path)) if path.starts_with('/') => Ok(Address::Unix(path.into())),
            Some(("tcp" | "http", host)) if host.contains(':') => Ok(Address::Tcp(host.trim_end_matches('/').into())),
            Some(("https", _)) if cfg!(not(feature = "registry")) => Err("this build has no TLS".into()),
            Some(("https", host)) if host.contains(':') => {
                Ok(Address::Tls(host.trim_end_matches('/').into(), Tls::default()))
            }
            _ => Err(format!("{text:?} is not the address of a plugin")),
        }
    }
}

trait Stream: Read + Write {
    /// The time limit of the next system call.
    fn limit(&self, time: Duration) -> std::io::Result<()>;
}

impl Stream for UnixStream {
    fn limit(&self, time: Duration) -> std::io::Result<()> {
        self.set_read_timeout(Some(time)).and_then(|()| self.set_write_timeout(Some(time)))
    }
}

impl Stream for TcpStream {
    fn limit(&self, time: Duration) -> std::io::Result<()> {
        self.set_read_timeout(Some(time)).and_then(|()| self.set_write_timeout(Some(time)))
    }
}

/// A socket's time limit ends a call with either error.
pub(super) fn is_timeout(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::TimedOut | std::io::ErrorKind::WouldBlock)
}

fn connect(address: &Address, limit: Duration) -> std::io::Result<Box<dyn Stream>> {
    match address {
        Address::Unix(path) => Ok(Box::new(connect_unix(path, limit)?)),
        Address::Own(path) => Ok(Box::new(connect_own(path, limit)?)),
        // Only a build without TLS gets here.
        Address::Tls(..) => Err(std::io::ErrorKind::Unsupported.into()),
        Address::Tcp(host) => {
            let found =
                lookup::addresses(host, limit).map_err(|error| std::io::Error::other(error.message().to_owned()))?;
            Ok(Box::new(TcpStream::connect_timeout(&found[0], limit)?))
        }
    }
}

/// As [`connect_unix`], to the socket of a plugin that the engine runs. A link in its place may lead to any socket of the host:
/// it is refused.
pub(crate) fn connect_own(path: &Path, limit: Duration) -> std::io::Result<UnixStream> {
    if !Wall::PluginSockets.stands() {
        return connect_unix(path, limit);
    }
    let file = open(path, OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC, Mode::empty())?;
    if fstat(&file)?.st_mode & libc::S_IFMT != libc::S_IFSOCK {
        let text = format!("{} is not a socket: links are not followed there", path.display());
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, text));
    }
    // By the descriptor: nobody can exchange the file that was looked at.
    connect_unix(Path::new(&format!("/proc/self/fd/{}", file.as_raw_fd())), limit)
}

/// A connection to a socket. A listener that accepts nobody has a full queue after a while: a plain connect would wait for ever.
pub(crate) fn connect_unix(path: &Path, limit: Duration) -> std::io::Result<UnixStream> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket::socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    let address = UnixAddr::new(path)?;
    let until = Instant::now() + limit;
    loop {
        match socket::connect(socket.as_raw_fd(), &address) {
            Err(Errno::EAGAIN) if Instant::now() < until => std::thread::sleep(QUEUE),
            Err(Errno::EAGAIN) => return Err(std::io::ErrorKind::TimedOut.into()),
            other => break other?,
        }
    }
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// Writes a request within one time limit, however slowly it is taken.
fn write_all(stream: &mut dyn Stream, mut request: &[u8], until: Instant) -> std::io::Result<()> {
    while !request.is_empty() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(std::io::ErrorKind::TimedOut.into());
        }
        stream.limit(left)?;
        match stream.write(request) {
            Ok(0) => return Err(std::io::ErrorKind::WriteZero.into()),
            Ok(length) => request = &request[length..],
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// `POST /method`.
pub(super) fn post(address: &Address, method: &str, body: &str, limit: Duration) -> Result<Answer, Failed> {
    #[cfg(feature = "registry")]
    if let Address::Tls(host, tls) = address {
        return super::tls::post(host, tls, method, body, limit);
    }
    let mut stream = connect(address, limit).map_err(Failed::Connect)?;
    let request = format!(
        "POST /{method} HTTP/1.1\r\nHost: plugin\r\nAccept: {TYPE}\r\nContent-Type: {TYPE}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    let until = Instant::now() + limit;
    write_all(&mut *stream, request.as_bytes(), until).map_err(Failed::Talk)?;
    let mut bytes = Vec::new();
    let mut part = [0; 8192];
    // Some plugins keep the connection open although the request asks them to close it.
    while bytes.len() < LONGEST {
        // One time limit for the whole answer, however slowly it comes.
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Failed::Talk(std::io::ErrorKind::TimedOut.into()));
        }
        stream.limit(left).map_err(Failed::Talk)?;
        match stream.read(&mut part).map_err(Failed::Talk)? {
            0 => return parse(&bytes, true).ok_or(Failed::NotHttp),
            length => bytes.extend_from_slice(&part[..length]),
        }
        if let Some(answer) = parse(&bytes, false) {
            return Ok(answer);
        }
    }
    Err(Failed::NotHttp)
}

/// A complete answer; `None`: it is malformed, or not complete yet.
fn parse(bytes: &[u8], ended: bool) -> Option<Answer> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&bytes[..end]).ok()?;
    let mut lines = head.split("\r\n");
    let mut first = lines.next()?.split(' ');
    let status = first.next().filter(|version| version.starts_with("HTTP/1."))?;
    let status = first.next().filter(|_| !status.is_empty())?.parse().ok()?;
    let header = |wanted: &str| {
        let mut pairs = head.split("\r\n").filter_map(|line| line.split_once(':'));
        pairs.find(|(key, _)| key.eq_ignore_ascii_case(wanted)).map(|(_, value)| value.trim())
    };
    let body = &bytes[end + 4..];
    let chunked = header("Transfer-Encoding").is_some_and(|value| value.eq_ignore_ascii_case("chunked"));
    let body = match (chunked, header("Content-Length")) {
        (true, _) => unchunk(body)?,
        (false, Some(length)) => body.get(..length.parse().ok()?)?.to_vec(),
        (false, None) if ended => body.to_vec(),
        (false, None) => return None,
    };
    Some(Answer { status, body })
}

fn unchunk(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = rest.windows(2).position(|two| two == b"\r\n")?;
        let line = std::str::from_utf8(&rest[..end]).ok()?;
        let length = usize::from_str_radix(line.split(';').next()?.trim(), 16).ok()?;
        rest = &rest[end + 2..];
        if length == 0 {
            return Some(body);
        }
        body.extend_from_slice(rest.get(..length)?);
        rest = rest.get(length.checked_add(2)?..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_that_accepts_nobody_does_not_hold_up_a_connection() {
        let path = std::env::temp_dir().join(format!("coracle-full-{}.sock", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let listener = socket::socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
        socket::bind(listener.as_raw_fd(), &UnixAddr::new(&path).unwrap()).unwrap();
        socket::listen(&listener, socket::Backlog::new(0).unwrap()).unwrap();
        let limit = Duration::from_millis(60);
        let taken: Vec<_> = (0..9).map(|_| connect_unix(&path, limit)).collect();
        std::fs::remove_file(&path).unwrap();
        assert!(taken[0].is_ok());
        let last = taken.last().map(|last| last.as_ref().map(|_| ()).map_err(std::io::Error::kind));
        assert_eq!(last, Some(Err(std::io::ErrorKind::TimedOut)));
    }

    #[test]
    fn addresses() {
        assert_eq!(Address::parse("unix:///a/b.sock"), Ok(Address::Unix("/a/b.sock".into())));
        assert_eq!(Address::parse("tcp://h:1"), Ok(Address::Tcp("h:1".into())));
        for bad in ["", "h:1", "unix://a", "tcp://h", "https://h", "ftp://h:1"] {
            assert!(Address::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn answers_that_are_none() {
        for bad in [
            "",
            "HTTP/1.1 200 OK\r\n",
            "SSH-2.0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
        ] {
            assert!(parse(bad.as_bytes(), true).is_none(), "{bad:?}");
        }
    }
}
