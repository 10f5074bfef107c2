//! A connected stream socket: bounded waits, no SIGPIPE, closing without losing what was sent.

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::socket::{self, MsgFlags, Shutdown};
use nix::sys::time::TimeSpec;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// A connected stream socket, in blocking mode; every call here waits by itself.
#[derive(Debug)]
pub(crate) struct Socket(OwnedFd);

impl Socket {
    pub(crate) fn new(fd: OwnedFd) -> Socket {
        Socket(fd)
    }
    /// Reads the bytes that are there, at most `buffer`; 0 is the end. `TimedOut` once `deadline` passed.
    pub(crate) fn recv(&self, buffer: &mut [u8], deadline: Option<Instant>) -> io::Result<usize> {
        loop {
            match recv_now(self.0.as_fd(), buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.wait(PollFlags::POLLIN, deadline)?,
                result => return result,
            }
        }
    }
    /// Sends all of `bytes`; `more`: more follows at once.
    pub(crate) fn send(&self, mut bytes: &[u8], more: bool, deadline: Option<Instant>) -> io::Result<()> {
        while !bytes.is_empty() {
            match send_now(self.0.as_fd(), bytes, more) {
                Ok(sent) => bytes = &bytes[sent..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.wait(PollFlags::POLLOUT, deadline)?,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
    /// Ends both directions: every wait on the socket returns.
    pub(crate) fn cut(&self) {
        let _ = socket::shutdown(self.0.as_raw_fd(), Shutdown::Both);
    }
    /// Ends the sending direction and reads what still comes, for a while: closing with unread bytes would take back
    /// what was sent.
    pub(crate) fn linger(&self, limit: Duration, most: usize) {
        let deadline = Instant::now() + limit;
        if socket::shutdown(self.0.as_raw_fd(), Shutdown::Write).is_err() {
            return;
        }
        let mut rest = most;
        let mut buffer = [0; 16 << 10];
        while rest > 0 && Instant::now() < deadline {
            match self.recv(&mut buffer, Some(deadline)) {
                Ok(0) | Err(_) => return,
                Ok(n) => rest -= n.min(rest),
            }
        }
    }
    fn wait(&self, events: PollFlags, deadline: Option<Instant>) -> io::Result<()> {
        wait_many(&[(self.0.as_fd(), events)], deadline).map(drop)
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Receives without waiting.
pub(crate) fn recv_now(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match socket::recv(fd.as_raw_fd(), buffer, MsgFlags::MSG_DONTWAIT) {
            Err(Errno::EINTR) => {}
            got => return Ok(got?),
        }
    }
}

/// Sends without waiting and without SIGPIPE.
pub(crate) fn send_now(fd: BorrowedFd<'_>, bytes: &[u8], more: bool) -> io::Result<usize> {
    let mut flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
    if more {
        flags |= MsgFlags::from_bits_retain(nix::libc::MSG_MORE);
    }
    loop {
        match socket::send(fd.as_raw_fd(), bytes, flags) {
            Err(Errno::EINTR) => {}
            sent => return Ok(sent?),
        }
    }
}

/// Waits until one of the descriptors is ready; answers what each is ready for. `TimedOut` once `deadline` passed.
pub(crate) fn wait_many(set: &[(BorrowedFd<'_>, PollFlags)], deadline: Option<Instant>) -> io::Result<Vec<PollFlags>> {
    let mut fds: Vec<PollFd<'_>> = set.iter().map(|(fd, events)| PollFd::new(*fd, *events)).collect();
    loop {
        let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        match ppoll(&mut fds, left.map(TimeSpec::from_duration), None) {
            Ok(0) if deadline.is_some_and(|at| Instant::now() >= at) => return Err(io::ErrorKind::TimedOut.into()),
            Ok(0) | Err(Errno::EINTR) => {}
            Ok(_) => return Ok(fds.iter().map(|fd| fd.revents().unwrap_or(PollFlags::empty())).collect()),
            Err(error) => return Err(error.into()),
        }
    }
}
