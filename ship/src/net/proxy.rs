//! The proxy through which receivers are asked by HTTPS: a tunnel, for which the proxy is asked by CONNECT.

use super::{PATIENCE, Problem, connect, send_some, wait};
use crate::base64::base64;
use crate::cursor::Fault;
use crate::http::percent_decoded;
use crate::options::{Address, host_port};
use crate::proxies::{Proxies, is_exempt};
use nix::errno::Errno;
use nix::poll::PollFlags;
use nix::sys::socket::{MsgFlags, recv};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Instant;

/// The longest head of a proxy's answer.
const HEAD: usize = 16 << 10;
/// The port of a proxy that names none.
const PORT: u16 = 80;

/// The text names no proxy that can be used, or the proxy gave no tunnel.
fn failed(errno: i32) -> Problem {
    Problem::Failed(Fault::Proxy, errno)
}

/// A problem on the way to the proxy, which does not speak against the receiver.
fn of_proxy(problem: Problem) -> Problem {
    match problem {
        Problem::Failed(Fault::Resolve, errno) => Problem::Failed(Fault::ProxyName, errno),
        Problem::Failed(_, errno) => failed(errno),
        other => other,
    }
}

/// A proxy of HTTP.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Proxy {
    host: String,
    port: u16,
    /// A name and a password as the proxy's header has them; empty: none.
    login: String,
}

impl Proxy {
    /// The proxy for a receiver; `None`: the receiver needs none. Errors: the text is not the address of a proxy.
    pub(super) fn of((host, port): (&str, u16), proxies: &Proxies) -> Result<Option<Proxy>, Problem> {
        if proxies.https.is_empty() || is_exempt(host, port, &proxies.exempt) {
            return Ok(None);
        }
        Proxy::parse(&proxies.https).map(Some)
    }

    /// Reads `[http://][NAME[:PASSWORD]@]HOST[:PORT]`.
    fn parse(text: &str) -> Result<Proxy, Problem> {
        match text.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => Proxy::at(rest),
            Some(_) => return Err(failed(libc::EPROTONOSUPPORT)),
            None => Proxy::at(text),
        }
        .ok_or(failed(libc::EINVAL))
    }

    /// Reads the address behind the scheme.
    fn at(rest: &str) -> Option<Proxy> {
        let named = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let (login, site) = named.rsplit_once('@').unwrap_or(("", named));
        let (host, port) = host_port(site, Some(PORT))?;
        let (name, password) = login.split_once(':').unwrap_or((login, ""));
        let login = match login {
            "" => String::new(),
            _ => base64(format!("{}:{}", percent_decoded(name)?, percent_decoded(password)?).as_bytes()),
        };
        Some(Proxy { host, port, login })
    }

    /// Opens a tunnel to a receiver. The proxy looks the receiver's name up.
    pub(super) fn tunnel(&self, receiver: (&str, u16), stop: BorrowedFd<'_>) -> Result<OwnedFd, Problem> {
        self.ask(receiver, stop).map_err(of_proxy).and_then(|(socket, head)| match status(&head) {
            Some(200..300) => Ok(socket),
            Some(status) => Err(Problem::Failed(Fault::ProxyStatus, status.into())),
            None => Err(failed(libc::EBADMSG)),
        })
    }

    /// Asks for a tunnel; answers the connection and the head of the proxy's answer.
    fn ask(&self, receiver: (&str, u16), stop: BorrowedFd<'_>) -> Result<(OwnedFd, Vec<u8>), Problem> {
        let socket = connect::open(&Address::Tcp(self.host.clone(), self.port), stop)?;
        let site = match receiver {
            (host, port) if host.contains(':') => format!("[{host}]:{port}"),
            (host, port) => format!("{host}:{port}"),
        };
        let login = match self.login.as_str() {
            "" => String::new(),
            login => format!("Proxy-Authorization: Basic {login}\r\n"),
        };
        let request = format!("CONNECT {site} HTTP/1.1\r\nHost: {site}\r\n{login}\r\n");
        let (until, mut rest) = (Instant::now() + PATIENCE, request.as_bytes());
        while !rest.is_empty() {
            let taken = send_some(&socket, rest, Some(until), stop, || false)?;
            rest = &rest[taken..];
        }
        let head = head(&socket, until, stop)?;
        Ok((socket, head))
    }
}

/// The head of the proxy's answer. The bytes behind the head are the receiver's, and are not taken.
fn head(socket: &OwnedFd, until: Instant, stop: BorrowedFd<'_>) -> Result<Vec<u8>, Problem> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || head.len() == HEAD {
            return Err(failed(if left.is_zero() { libc::ETIMEDOUT } else { libc::EBADMSG }));
        }
        let mut byte = [0];
        match recv(socket.as_raw_fd(), &mut byte, MsgFlags::MSG_DONTWAIT) {
            Ok(0) => return Err(failed(libc::ECONNRESET)),
            Ok(_) => head.extend(byte),
            Err(Errno::EAGAIN | Errno::EINTR) => drop(wait(socket.as_fd(), PollFlags::POLLIN, left, stop)?),
            Err(errno) => return Err(failed(errno as i32)),
        }
    }
    Ok(head)
}

fn status(head: &[u8]) -> Option<u16> {
    let text = std::str::from_utf8(head.get(..12)?).ok()?;
    text.strip_prefix("HTTP/1.")?.get(2..)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::eventfd::{EfdFlags, EventFd};
    use std::io::{Read, Write};
    use std::net::TcpListener;

    #[test]
    fn the_texts_say_which_proxy_is_used() {
        let of = |proxy: &str, exempt: &str| {
            Proxy::of(("logs.example", 8088), &Proxies { https: proxy.into(), exempt: exempt.into() })
        };
        let proxy = |host: &str, port, login: &str| Ok(Some(Proxy { host: host.into(), port, login: login.into() }));
        assert_eq!(of("http://p:3128/", ""), proxy("p", 3128, ""));
        assert_eq!(of("u%40x:p?@p", ""), Err(failed(libc::EINVAL)));
        assert_eq!(of("http://u%40x:p%3F@[::2]:1", ""), proxy("::2", 1, "dUB4OnA/"));
        assert_eq!(of("p", "other.example, .local"), proxy("p", 80, ""));
        assert_eq!(of("p", "logs.example:443"), proxy("p", 80, ""));
        assert_eq!(of("p", "logs.example:8088"), Ok(None));
        assert_eq!(of("", ""), Ok(None));
        assert_eq!(of("HTTP://p", ""), proxy("p", 80, ""));
        for bad in ["http://", "http://p:x"] {
            assert_eq!(of(bad, ""), Err(failed(libc::EINVAL)), "{bad}");
        }
        for other in ["socks5://p", "https://p"] {
            assert_eq!(of(other, ""), Err(failed(libc::EPROTONOSUPPORT)), "{other}");
            assert_eq!(of(other, "example"), Ok(None), "{other}");
        }
    }

    /// The outcome of a tunnel through a proxy that answers this, the request, and what came through the tunnel.
    fn through(answer: &'static str) -> (Result<String, Problem>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let (mut request, mut byte) = (Vec::new(), [0]);
            while !request.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() == 1 {
                request.extend(byte);
            }
            stream.write_all(answer.as_bytes()).unwrap();
            String::from_utf8(request).unwrap()
        });
        let stop = EventFd::from_flags(EfdFlags::EFD_CLOEXEC).unwrap();
        let proxy = Proxy { host: "127.0.0.1".into(), port, login: "dTpw".into() };
        let opened = proxy.tunnel(("::5", 443), stop.as_fd());
        let request = server.join().unwrap();
        let read = opened.map(|socket| {
            let mut text = [0; 64];
            let length = recv(socket.as_raw_fd(), &mut text, MsgFlags::empty()).unwrap();
            String::from_utf8_lossy(&text[..length]).into_owned()
        });
        (read, request)
    }

    #[test]
    fn a_tunnel_begins_behind_the_proxy_s_answer() {
        let (read, request) = through("HTTP/1.1 200 OK\r\nA: b\r\n\r\nfrom the receiver");
        assert_eq!(read, Ok("from the receiver".to_owned()));
        let wanted = "CONNECT [::5]:443 HTTP/1.1\r\nHost: [::5]:443\r\nProxy-Authorization: Basic dTpw\r\n\r\n";
        assert_eq!(request, wanted);
    }

    #[test]
    fn a_failure_on_the_way_to_the_proxy_is_the_proxy_s() {
        let stop = EventFd::from_flags(EfdFlags::EFD_CLOEXEC).unwrap();
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let proxy = |host: &str| Proxy { host: host.into(), port: closed, login: String::new() };
        let opened = |host| proxy(host).tunnel(("logs.example", 443), stop.as_fd()).unwrap_err();
        assert_eq!(opened("127.0.0.1"), failed(libc::ECONNREFUSED));
        let is_named = matches!(opened("no such name"), Problem::Failed(Fault::ProxyName, _));
        assert!(is_named);
    }

    #[test]
    fn a_proxy_that_refuses_gives_no_tunnel() {
        let of = |answer| through(answer).0.unwrap_err();
        let refused = |status| Problem::Failed(Fault::ProxyStatus, status);
        assert_eq!(of("HTTP/1.1 407 No\r\n\r\n"), refused(407));
        assert_eq!(of("HTTP/1.0 502 Bad\r\nLength: 0\r\n\r\n"), refused(502));
        assert_eq!(of("SSH-2.0\r\n\r\n"), failed(libc::EBADMSG));
        assert_eq!(of("HTTP/1.1 200"), failed(libc::ECONNRESET));
    }
}
