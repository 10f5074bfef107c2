//! A first process waits for two messages of the monitor, which works beside it: one brings the control groups that
//! come later, the other says that the worker has given up its rights.

use super::{Launch, WORKER_CONFINED};
use crate::failure::{Step, of_step};
use crate::sys::{self, *};
use crate::walls::Wall;
use crate::wire::*;

pub struct Arrival {
    /// The socket that brings the messages.
    report: i32,
    /// The groups that come later are not joined yet.
    joins: bool,
    /// The worker's rights may not be given up yet.
    unwatched: bool,
}

impl Arrival {
    pub fn new(launch: &Launch) -> Arrival {
        Arrival {
            report: launch.report,
            joins: launch.starts,
            unwatched: launch.starts && Wall::WorkerConfirmed.stands(),
        }
    }

    /// Waits for the groups that come later, and joins them.
    pub fn join_groups(&mut self) -> Step {
        if !core::mem::replace(&mut self.joins, false) {
            return Ok(());
        }
        loop {
            let (mut left, mut fds) = ([0u8; 4], [-1; MAX_FDS]);
            let failed = |errno| of_step(STEP_CGROUP_JOIN, errno);
            let (got, count) = sys::recv_fds(self.report, &mut left, &mut fds, true).map_err(failed)?;
            if got < left.len() {
                // The monitor is gone.
                return Err(failed(EPIPE));
            }
            if left == WORKER_CONFINED {
                return Err(failed(EINVAL));
            }
            join(&fds[..count])?;
            fds[..count].iter().copied().for_each(sys::close);
            if left == [0; 4] {
                return Ok(());
            }
        }
    }

    /// Waits until the worker, which will read the output, has given up its rights.
    pub fn await_worker(&mut self) -> Step {
        // The socket brings the groups first.
        self.join_groups()?;
        if !core::mem::replace(&mut self.unwatched, false) {
            return Ok(());
        }
        let mut word = [0; 4];
        match sys::recv_fds(self.report, &mut word, &mut [-1; MAX_FDS], true) {
            Ok((4, _)) if word == WORKER_CONFINED => Ok(()),
            Ok((4, _)) => Err(EINVAL),
            Ok(_) => Err(EPIPE),
            Err(errno) => Err(errno),
        }
        .map_err(|errno| of_step(STEP_WORKER, errno))
    }
}

/// Joins control groups by their files.
pub fn join(files: &[i32]) -> Step {
    files.iter().try_for_each(|&file| sys::write_all(file, b"0")).map_err(|errno| of_step(STEP_CGROUP_JOIN, errno))
}
