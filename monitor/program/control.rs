//! The control socket: each message has one request, and gets one answer (an exec gets two).

use crate::clients::{Clients, Waits};
use crate::fd::{Fd, close_all};
use crate::subjects::{CLIENT, LISTENER, token};
use crate::sys::{self, *};
use crate::wire::*;

/// Nanoseconds until the monitor tries again to accept a client that it could not accept.
const ACCEPT_PAUSE: i64 = 2_000_000;

/// The name of the socket in the run directory.
const NAME: &[u8] = b"ctl";

/// The longest message: a request and its text.
pub const LONGEST: usize = REQUEST_LEN + MAX_TEXT;

/// Zero at the beginning.
pub struct Control {
    epoll: i32,
    listener: Fd,
    clients: Clients,
    /// `STATE_*`: every answer has these flags.
    pub flags: u32,
}

impl Control {
    /// Listens in the working directory.
    pub fn listen(&mut self, epoll: i32) -> Result<()> {
        let mut name = [0; NAME.len() + 1];
        name[..NAME.len()].copy_from_slice(NAME);
        let _ = sys::unlinkat(AT_FDCWD, &name, 0);
        self.epoll = epoll;
        self.listener.set(sys::listen_at(NAME)?);
        sys::epoll_ctl(epoll, ADD, self.listener.raw(), EPOLLIN, token(LISTENER, 0))
    }

    /// Removes the socket's name: nobody finds it any more.
    pub fn remove_name(&self, run_dir: i32) {
        let _ = sys::unlinkat(run_dir, b"ctl\0", 0);
    }

    /// Takes the clients that wait to be accepted.
    pub fn accept(&mut self) {
        loop {
            let fd = match sys::accept(self.listener.raw()) {
                Ok(fd) => fd,
                Err(EAGAIN) => return,
                // No descriptor is left for the client, which stays in the queue. The pause keeps the monitor from
                // spinning.
                Err(_) => return sys::sleep(ACCEPT_PAUSE),
            };
            match self.clients.add(fd) {
                Some(slot) if sys::epoll_ctl(self.epoll, ADD, fd, EPOLLIN, token(CLIENT, slot as u32)).is_err() => {
                    self.drop_client(slot);
                }
                Some(_) => {}
                // The table is full: the client sees that the connection ends, and tries again.
                None => sys::close(fd),
            }
        }
    }

    /// Receives a client's message: its length, and how many descriptors came with it. None if there is no message, or
    /// the client is gone.
    pub fn receive(
        &mut self,
        slot: usize,
        bytes: &mut [u8; LONGEST],
        fds: &mut [i32; MAX_FDS],
    ) -> Option<(usize, usize)> {
        let fd = self.clients.fd(slot)?;
        match sys::recv_fds(fd, bytes, fds, false) {
            Err(EAGAIN) => None,
            Ok((got, count)) if Request::from_bytes(&bytes[..got]).is_some() => Some((got, count)),
            got => {
                close_all(&fds[..got.map_or(0, |(_, count)| count)]);
                self.drop_client(slot);
                None
            }
        }
    }

    fn drop_client(&mut self, slot: usize) {
        if let Some(fd) = self.clients.leave(slot) {
            sys::close(fd);
        }
    }

    /// The next client that is gone, and the event that it waited for.
    pub fn take_gone(&mut self) -> Option<(usize, Waits)> {
        self.clients.take_gone()
    }

    pub fn set_waits(&mut self, slot: usize, waits: Waits) {
        self.clients.set_waits(slot, waits);
    }

    /// Whether a client holds off the restart.
    pub fn holds_off(&self) -> bool {
        self.clients.hold_off()
    }

    /// The container was frozen or thawed: the connections that froze it count no more.
    pub fn let_thaw(&mut self) {
        self.clients.let_thaw();
    }

    /// Answers with an error number or 0, and a number.
    pub fn answer(&mut self, slot: usize, errno: i32, value: i32) {
        self.answer_with(slot, Answer { errno, value, ..Answer::default() }, None);
    }

    /// Answers why a step failed.
    pub fn answer_failure(&mut self, slot: usize, failure: Failure, value: i32) {
        self.answer_with(slot, Answer { errno: failure.errno.max(1), value, failure, ..Answer::default() }, None);
    }

    /// Answers, perhaps with a descriptor, which stays open here.
    pub fn answer_with(&mut self, slot: usize, answer: Answer, pass: Option<i32>) {
        let answer = Answer { magic: MESSAGE_MAGIC, version: VERSION, flags: self.flags, ..answer };
        // A client that asks and does not take its answers is dropped: the monitor neither waits for it nor leaves an
        // answer out.
        if let Some(fd) = self.clients.fd(slot)
            && sys::send_fd(fd, &answer.to_bytes(), pass).is_err()
        {
            self.drop_client(slot);
        }
    }

    /// Sends the exit code to each client that waits for the end of a run, and if this was the last run (`last`), to
    /// each client that waits for that.
    pub fn answer_waiters(&mut self, last: bool, code: i32) {
        while let Some(slot) = self.clients.take_waiting(last) {
            self.answer(slot, 0, code);
        }
    }
}
