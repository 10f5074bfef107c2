//! Requests of HTTP and their answers on a connection that stays open.

use super::{Link, Problem, recv};
use crate::cursor::Fault;
use crate::drivers::Destination;
use crate::http::{Answer, answer};
use crate::proxies::Proxies;
use nix::sys::socket::MsgFlags;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::{Duration, Instant};

/// How long an answer may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);
/// A request may take so long to be sent, and a second more for so many bytes of it.
const PACE: usize = 64 << 10;
/// How long an answer may take to a request that the receiver did not take in time: it is here already, or there is none.
const REST: Duration = Duration::from_secs(1);

impl Link {
    /// Sends a request and takes its answer.
    pub(crate) fn ask(&mut self, request: &[u8], stop: BorrowedFd<'_>) -> Result<Answer, Problem> {
        self.ask_within(request, PATIENCE, stop)
    }

    /// As [`Link::ask`], with a time limit for the answer, which is one for the sending, too.
    pub(super) fn ask_within(
        &mut self,
        request: &[u8],
        limit: Duration,
        stop: BorrowedFd<'_>,
    ) -> Result<Answer, Problem> {
        let failed = |errno| Problem::Failed(Fault::Refused, errno);
        let while_sending = limit + Duration::from_secs((request.len() / PACE) as u64);
        let sent = self.send_all(request, Some(Instant::now() + while_sending), stop);
        let limit = match sent {
            Err(Problem::Stopped) => return Err(Problem::Stopped),
            Err(Problem::Failed(_, libc::ETIMEDOUT)) => limit.min(REST),
            _ => limit,
        };
        let (until, mut is_over) = (Instant::now() + limit, false);
        let (answer, length) = loop {
            match answer(&self.answers, is_over) {
                Ok(Some(found)) => break found,
                Ok(None) => {}
                Err(()) => return Err(failed(if is_over { libc::ECONNRESET } else { libc::EBADMSG })),
            }
            match self.receive(until, stop) {
                Ok(length) => is_over = length == 0,
                // A receiver may refuse a request before it has read all of it: only without an answer that failed.
                Err(problem) => return Err(sent.err().unwrap_or(problem)),
            }
        };
        self.answers.drain(..length);
        self.is_used = true;
        Ok(answer)
    }

    /// Whether the other side says something without a request: that is the end of the connection, under TLS, too.
    pub(crate) fn is_stale(&self) -> bool {
        let peek = MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT;
        let waits = || recv(self.socket.as_raw_fd(), &mut [0], peek).is_ok();
        self.is_used && (!self.answers.is_empty() || waits())
    }
}

/// Asks a receiver once, on a connection of its own.
pub(crate) fn ask_once(
    (to, proxies): (&Destination, &Proxies),
    request: &[u8],
    stop: BorrowedFd<'_>,
) -> Result<Answer, Problem> {
    Link::open(to, proxies, stop)?.ask(request, stop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drivers::{Manner, TlsFiles};
    use crate::net::ENDED;
    use crate::options::Address;
    use nix::poll::{PollFd, PollTimeout, poll};
    use nix::sys::eventfd::{EfdFlags, EventFd};
    use std::io::Write;
    use std::os::fd::AsFd;
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::sync::{Arc, mpsc};

    /// A request that no socket has room for.
    const LARGE: usize = 300 << 10;

    /// Asks a receiver whose program does this with the connection. A request without a time limit is ended after a minute.
    fn asked(name: &str, receiver: impl FnOnce(UnixStream) + Send + 'static) -> Result<Answer, Problem> {
        let path = std::env::temp_dir().join(format!("coracle-{name}-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).unwrap();
        let to = Destination {
            address: Address::Unix(path.to_str().unwrap().to_owned()),
            tls: TlsFiles::default(),
            manner: Manner::Asked,
            account: String::new(),
        };
        let stop = Arc::new(EventFd::from_flags(EfdFlags::EFD_CLOEXEC).unwrap());
        let mut link = Link::open(&to, &Proxies::default(), stop.as_fd()).unwrap();
        std::fs::remove_file(&path).unwrap();
        let receiver = std::thread::spawn(move || receiver(listener.accept().unwrap().0));
        let (done, is_done) = mpsc::channel::<()>();
        let theirs = Arc::clone(&stop);
        let guard = std::thread::spawn(move || {
            if is_done.recv_timeout(Duration::from_secs(60)) == Err(mpsc::RecvTimeoutError::Timeout) {
                theirs.write(1).unwrap();
            }
        });
        let answer = link.ask_within(&vec![b'x'; LARGE], Duration::from_millis(100), stop.as_fd());
        drop((link, done));
        guard.join().unwrap();
        receiver.join().unwrap();
        answer
    }

    /// Waits for the other side's end, and reads nothing.
    fn stay(socket: &UnixStream) {
        poll(&mut [PollFd::new(socket.as_fd(), ENDED)], PollTimeout::NONE).unwrap();
    }

    #[test]
    fn a_receiver_that_reads_nothing_has_a_time_limit_for_a_request() {
        let answer = asked("unread", |socket| stay(&socket));
        assert_eq!(answer.map(|answer| answer.status), Err(Problem::Failed(Fault::Send, libc::ETIMEDOUT)));
    }

    #[test]
    fn an_answer_to_a_request_that_was_not_read_counts() {
        let answer = asked("early", |mut socket| {
            socket.write_all(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n").unwrap();
            stay(&socket);
        });
        assert_eq!(answer.map(|answer| answer.status), Ok(413));
    }
}
