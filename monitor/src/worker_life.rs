//! The worker as the launcher knows it: whether it runs, whether its rights are given up, when another one follows.

use crate::successors::Successors;

/// Zero at the beginning.
pub struct WorkerLife {
    /// The worker's pid; 0 if there is no worker.
    pid: i32,
    /// The worker's first notice has come: its rights are given up.
    confined: bool,
    /// A worker died since the last look.
    died: bool,
    next: Successors,
}

impl WorkerLife {
    #[cfg(test)]
    pub const NONE: WorkerLife = WorkerLife { pid: 0, confined: false, died: false, next: Successors::NONE };

    pub fn runs(&self) -> bool {
        self.pid > 0
    }

    /// The worker's pid, if it runs.
    pub fn pid(&self) -> Option<i32> {
        Some(self.pid).filter(|pid| *pid > 0)
    }

    pub fn is_confined(&self) -> bool {
        self.confined
    }

    /// A worker is being started: none is due.
    pub fn starting(&mut self) {
        self.next.starting();
    }

    pub fn started(&mut self, pid: i32, now: i64) {
        (self.pid, self.confined) = (pid, false);
        self.next.started(now);
    }

    /// The start of a worker that was due failed.
    pub fn failed(&mut self, now: i64) {
        self.next.failed(now);
    }

    /// The worker's first notice: an error number, or 0.
    pub fn confined(&mut self, errno: i32) {
        self.confined = errno == 0;
    }

    /// The worker died. `needed`: another one is to follow.
    pub fn died(&mut self, now: i64, needed: bool) {
        (self.pid, self.died) = (0, true);
        if needed {
            self.next.died(now);
        }
    }

    /// Whether a worker died since the last look: the streams of further processes are gone with it.
    pub fn take_death(&mut self) -> bool {
        core::mem::take(&mut self.died)
    }

    /// When the next worker is to be started; 0 if none is.
    pub fn due(&self) -> i64 {
        self.next.due()
    }

    /// Whether a worker may be started for an order: also before its time, unless one after the other died.
    pub fn may_start(&self, now: i64) -> bool {
        self.next.may_start(now)
    }

    /// Forgets the deaths so far.
    pub fn forgive(&mut self) {
        self.next.forgive();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_was_started_is_not_confined_until_it_says_so() {
        let mut life = WorkerLife::NONE;
        assert!(!life.runs() && life.pid().is_none());
        life.started(7, 0);
        assert!(life.runs() && !life.is_confined());
        life.confined(1);
        assert!(!life.is_confined(), "an error is no confirmation");
        life.confined(0);
        assert!(life.is_confined());
        life.died(1, true);
        life.started(8, 2);
        assert!(!life.is_confined() && life.pid() == Some(8), "the next worker says so itself");
    }

    #[test]
    fn a_death_is_told_once_and_another_worker_follows_where_one_is_needed() {
        let mut life = WorkerLife::NONE;
        life.started(7, 1_000);
        life.died(2_000, false);
        assert!(!life.runs() && life.take_death() && !life.take_death());
        assert_eq!(life.due(), 0);
        life.started(8, 1_000);
        life.died(2_000, true);
        assert!(life.due() > 2_000);
        life.starting();
        assert_eq!(life.due(), 0);
        life.failed(5);
        assert!(life.due() > 5);
    }

    #[test]
    fn deaths_one_after_the_other_are_forgiven_at_the_end_of_the_container() {
        let mut life = WorkerLife::NONE;
        (0..20).for_each(|_| life.died(0, true));
        assert!(!life.may_start(0));
        life.forgive();
        assert!(life.may_start(0));
    }
}
