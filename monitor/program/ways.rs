//! The two sockets between the launcher and the worker: one for orders and their answers, one for requests and notices.

use crate::fd::{Fd, close_all};
use crate::message::{CONFINED, MESSAGE, Message};
use crate::subjects::{REQUEST, token};
use crate::sys::{self, *};
use crate::wire::MAX_FDS;

/// How long the worker may take to answer. The disk may hold up its writes.
pub const PATIENCE_S: i64 = 60;

/// Of each pair the launcher's end, then the worker's. Zero at the beginning.
pub struct Ways {
    epoll: i32,
    orders: [Fd; 2],
    requests: [Fd; 2],
}

/// The messages that wait.
pub struct Waiting {
    pub answer: bool,
    pub request: bool,
    /// A message of the log's writer.
    pub of_writer: bool,
}

impl Ways {
    /// The launcher's set of events, which the requests join.
    pub fn set_epoll(&mut self, epoll: i32) {
        self.epoll = epoll;
    }

    /// Opens the way to a worker. Orders that come before it runs wait there.
    pub fn open(&mut self) -> Result<()> {
        self.orders = sys::socketpair()?.map(Fd::new);
        self.requests = sys::socketpair()?.map(Fd::new);
        sys::limit_sends(self.orders[0].raw(), PATIENCE_S);
        sys::limit_sends(self.requests[0].raw(), PATIENCE_S);
        sys::epoll_ctl(self.epoll, ADD, self.requests[0].raw(), EPOLLIN, token(REQUEST, 0))
    }

    pub fn is_open(&self) -> bool {
        self.orders[0].is_open()
    }

    /// Whether no worker has taken its ends yet.
    pub fn await_worker(&self) -> bool {
        self.orders[1].is_open()
    }

    /// The worker's ends: for orders, and for requests.
    pub fn of_worker(&self) -> (i32, i32) {
        (self.orders[1].raw(), self.requests[1].raw())
    }

    /// The worker has its ends.
    pub fn close_of_worker(&mut self) {
        self.orders[1].close();
        self.requests[1].close();
    }

    pub fn close(&mut self) {
        self.orders.iter_mut().chain(&mut self.requests).for_each(Fd::close);
    }

    pub fn send_order(&self, bytes: &[u8], fds: &[i32]) -> Result<()> {
        sys::send_fds(self.orders[0].raw(), bytes, fds).map(|_| ())
    }

    /// The answer to an order. An error: the worker sends no answers any more.
    pub fn receive_answer(&self) -> Result<Message> {
        receive(self.orders[0].raw())?.ok_or(EPIPE)
    }

    /// A request or a notice; none if nothing came, or the worker is gone, which the end of the child reports.
    pub fn receive_request(&self) -> Option<Message> {
        let requests = self.requests[0].raw();
        let received = receive(requests);
        if !matches!(received, Ok(Some(_)) | Err(EAGAIN)) {
            let _ = sys::epoll_ctl(self.epoll, REMOVE, requests, 0, 0);
        }
        received.unwrap_or(None)
    }

    /// Answers a request: with a descriptor, which stays open here, or why there is none.
    pub fn answer(&self, granted: Result<i32>) -> Result<()> {
        answer(self.requests[0].raw(), granted)
    }

    /// Waits for an answer, a request, or a message of the log's writer, if it has a socket; at most to this time.
    pub fn wait(&self, writer: i32, until: i64) -> Result<Waiting> {
        loop {
            let left = sys::seconds_until(until);
            if left == 0 {
                return Err(EAGAIN);
            }
            match sys::any_of([self.orders[0].raw(), self.requests[0].raw(), writer], left) {
                Err(EINTR) => {}
                ready => {
                    return ready.map(|[answer, request, of_writer]| Waiting { answer, request, of_writer });
                }
            }
        }
    }

    /// Waits for the error number in the worker's first notice; none if the worker ended without one.
    pub fn first_notice(&self) -> Result<Option<i32>> {
        let requests = self.requests[0].raw();
        while let Err(error) = sys::any_of([requests], PATIENCE_S) {
            if error != EINTR {
                return Err(error);
            }
        }
        let notice = receive(requests).unwrap_or(None);
        Ok(notice.filter(|notice| notice.code == CONFINED).map(|notice| notice.b as i32))
    }
}

/// Answers a request: with a descriptor, which stays open here, or why there is none.
pub fn answer(socket: i32, granted: Result<i32>) -> Result<()> {
    let answer = Message::answer(granted.map(|_| 0)).to_bytes();
    let given = granted.as_ref().map_or(&[][..], core::slice::from_ref);
    sys::send_fds(socket, &answer, given).map(|_| ())
}

/// One message without descriptors. None if the other end is closed, or the bytes are not a message.
pub fn receive(socket: i32) -> Result<Option<Message>> {
    let (mut bytes, mut fds) = ([0; MESSAGE], [-1; MAX_FDS]);
    let got = sys::recv_fds(socket, &mut bytes, &mut fds, false);
    close_all(&fds);
    got.map(|(length, _)| Message::from_bytes(&bytes[..length]))
}
