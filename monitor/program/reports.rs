//! Reports of a child before it executes its program, sent by the child and taken by the monitor.

use crate::entry;
use crate::failure::{Step, of_step};
use crate::fd::close_all;
use crate::report::{REPORT_LEN, Report};
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
    /// A socket of the resolver: its place, and its descriptor.
    Dns(usize, i32),
}

impl Handed {
    /// Nobody wants the descriptor.
    pub fn close(self) {
        let (Handed::Root(fd) | Handed::DevPts(fd) | Handed::Terminal(fd) | Handed::Dns(_, fd)) = self;
        close_all(&[fd]);
    }
}

/// Sends a report, perhaps with a descriptor, which stays open here.
pub fn hand_over(socket: i32, report: Report, fd: Option<i32>) -> Result<()> {
    let (bytes, length) = report.to_bytes();
    sys::send_fd(socket, &bytes[..length], fd).map(|_| ())
}

/// Sends a report by write(2) alone.
pub fn write_report(socket: i32, report: Report) -> Result<()> {
    let (bytes, length) = report.to_bytes();
    sys::write_all(socket, &bytes[..length])
}

/// Takes a child's reports until it executes its program or fails. If the child is a helper, `appeared` is the process
/// that it made. Other processes may control that process, so its reports only say whether it is ready or has failed.
pub fn await_child(report: i32, child: i32, appeared: &mut i32, take: &mut dyn FnMut(Handed)) -> Step {
    let mut ready = false;
    sys::limit_receives(report, STEP_LIMIT_S);
    loop {
        let mut message = [0u8; REPORT_LEN];
        let mut fds = [-1; MAX_FDS];
        let (length, count, sender) = match sys::recv_from_child(report, &mut message, &mut fds, true) {
            Ok(message) => message,
            // The child ended without taking the descriptors that were sent to it. Its reports follow this error.
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
        match Report::from_bytes(&message) {
            Some(Report::Ready) => ready = true,
            Some(Report::Failure(failure)) => return Err(failure),
            _ if sender != child => {}
            Some(Report::Appeared(pid)) => {
                *appeared = pid;
                if Wall::EntryLimit.stands() {
                    sys::limit_receives(report, entry::limit());
                }
            }
            Some(Report::Done) => ready = true,
            Some(Report::Root) => take(Handed::Root(fds[0])),
            Some(Report::DevPts) => take(Handed::DevPts(fds[0])),
            Some(Report::Terminal) => take(Handed::Terminal(fds[0])),
            Some(Report::Dns(which)) => take(Handed::Dns(which as usize, fds[0])),
            None => return Err(of_step(STEP_LOST, EINVAL)),
        }
    }
}
