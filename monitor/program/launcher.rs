//! The worker's way to the launcher: requests, which the launcher answers, and notices.

use crate::message::{MESSAGE, Message};
use crate::sys::{self, *};
use crate::wire::MAX_FDS;

/// The worker's end of the socket for requests.
#[derive(Clone, Copy)]
pub struct Launcher(i32);

impl Launcher {
    pub const NONE: Launcher = Launcher(-1);

    pub const fn new(socket: i32) -> Launcher {
        Launcher(socket)
    }

    pub fn socket(self) -> i32 {
        self.0
    }

    /// Requests something: the descriptor that the answer brings.
    pub fn request(self, request: Message) -> Result<i32> {
        sys::send_fds(self.0, &request.to_bytes(), &[])?;
        let (mut bytes, mut fds) = ([0; MESSAGE], [-1; MAX_FDS]);
        let (length, _) = sys::recv_fds(self.0, &mut bytes, &mut fds, true)?;
        // Without an answer the launcher is gone.
        let answer = Message::from_bytes(&bytes[..length]).unwrap_or_else(|| sys::exit(0));
        answer.answered().and(if fds[0] >= 0 { Ok(fds[0]) } else { Err(EIO) })
    }

    /// As [`Launcher::notify`], unless that would wait.
    pub fn try_notify(self, notice: Message) -> Result<()> {
        sys::send(self.0, &notice.to_bytes()).map(|_| ())
    }

    pub fn notify(self, notice: Message) {
        let _ = sys::send_fds(self.0, &notice.to_bytes(), &[]);
    }
}
