//! Reports of a child before it executes its program.

use crate::child;
use crate::dns::REPORT_DNS;
use crate::failure::{Step, of_step};
use crate::fd::close_all;
use crate::sys::{self, *};
use crate::walls::Wall;
use crate::wire::*;

/// A descriptor that a child hands over.
pub enum Handed {
    /// The container's root.
    Root(i32),
    DevPts(i32),
    /// The master of the process's terminal.
    Terminal(i32),
    /// A socket of the resolver, and which.
    Dns(usize, i32),
}

impl Handed {
    /// Nobody wants the descriptor.
    pub fn close(self) {
        let (Handed::Root(fd) | Handed::DevPts(fd) | Handed::Terminal(fd) | Handed::Dns(_, fd)) = self;
        close_all(&[fd]);
    }
}

/// Takes a child's reports until it executes its program or fails. If the child is a helper, `appeared` is the process
/// that it made. Others may have a hand in that process: its reports say only how it goes on.
pub fn await_child(report: i32, child: i32, appeared: &mut i32, take: &mut dyn FnMut(Handed)) -> Step {
    let mut ready = false;
    sys::limit_receives(report, STEP_LIMIT_S);
    loop {
        let mut message = [0u8; 32];
        let mut fds = [-1; MAX_FDS];
        let (length, count, sender) = match sys::recv_from_child(report, &mut message, &mut fds, true) {
            Ok(message) => message,
            // The child ended without taking the descriptors that were handed to it; its reports come behind this.
            Err(ECONNRESET) => continue,
            Err(EAGAIN) => {
                let step = if *appeared > 0 { STEP_HELD } else { STEP_LATE };
                return Err(Failure { step, ..Failure::default() });
            }
            Err(errno) => return Err(of_step(STEP_LOST, errno)),
        };
        if length == 0 {
            return if ready { Ok(()) } else { Err(Failure { step: STEP_LOST, ..Failure::default() }) };
        }
        if sender != child {
            close_all(&fds[..count]);
        }
        match word(&message, 0) {
            child::REPORT_READY => ready = true,
            child::REPORT_FAILURE => return Err(failure_of(&message)),
            _ if sender != child => {}
            child::REPORT_APPEARED => {
                *appeared = word(&message, 1) as i32;
                if Wall::EntryLimit.stands() {
                    sys::limit_receives(report, crate::entry::limit());
                }
            }
            child::REPORT_DONE => ready = true,
            child::REPORT_ROOT => take(Handed::Root(fds[0])),
            child::REPORT_DEVPTS => take(Handed::DevPts(fds[0])),
            child::REPORT_TERMINAL => take(Handed::Terminal(fds[0])),
            REPORT_DNS => take(Handed::Dns(word(&message, 1) as usize, fds[0])),
            _ => return Err(failure_of(&message)),
        }
    }
}

pub fn word(message: &[u8], index: usize) -> u32 {
    let at = index * 4;
    u32::from_ne_bytes([message[at], message[at + 1], message[at + 2], message[at + 3]])
}

pub fn failure_of(message: &[u8]) -> Failure {
    Failure {
        step: word(message, 1),
        errno: word(message, 2) as i32,
        detail: word(message, 3),
        extra: word(message, 4),
    }
}
