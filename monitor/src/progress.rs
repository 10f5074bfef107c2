//! How far a further process has come, by the reports of its helper and of the process itself, which other processes
//! may control.

use crate::timers::is_due;
use crate::wire::{Failure, STEP_HELD, STEP_LATE, STEP_LOST};

/// The exit code of a process whose program could not be started, whatever the reason, as dockerd has it.
pub const NOT_STARTED: i32 = 126;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The process that follows the plan, outside of the container's PID namespace, until it is reaped; 0 if there is
    /// none.
    pub helper: i32,
    /// The process that the helper made in the container; 0 if it is not known yet.
    pub pid: i32,
    /// Reports may still come.
    pub reports: bool,
    /// When the launch has taken too long, by the monotonic clock in nanoseconds; 0 if the launch is done.
    pub deadline: i64,
    ready: bool,
    failure: Failure,
    code: Option<i32>,
}

impl Progress {
    pub const NONE: Progress = Progress {
        helper: 0,
        pid: 0,
        reports: false,
        deadline: 0,
        ready: false,
        failure: Failure { step: 0, errno: 0, detail: 0, extra: 0 },
        code: None,
    };

    /// A process on its way, until `deadline`.
    pub fn begun(helper: i32, pid: i32, deadline: i64) -> Progress {
        Progress { helper, pid, reports: true, deadline, ..Progress::NONE }
    }

    /// Whether descriptors and numbers of a sender count: only those of the child that the launcher forked.
    pub fn trusts(&self, sender: i32, helped: bool) -> bool {
        sender > 0 && sender == if helped { self.helper } else { self.pid }
    }

    /// The helper has made the process. `there`: it is a child that nobody has reaped yet, else it was killed at once.
    pub fn appeared(&mut self, pid: i32, there: bool, deadline: i64) {
        const SIGKILL: i32 = 9;
        self.pid = pid;
        if self.code.is_none() && !there {
            self.code = Some(128 + SIGKILL);
        }
        self.deadline = deadline;
    }

    /// The process is about to execute its program, perhaps before its helper has reported its pid.
    pub fn ready(&mut self, sender: i32) {
        self.ready = true;
        if self.pid == 0 {
            self.pid = sender;
        }
    }

    pub fn failed(&mut self, failure: Failure) {
        self.failure = failure;
    }

    /// The process ended.
    pub fn ended(&mut self, code: i32) {
        self.code = Some(code);
    }

    /// Whether the process has taken too long.
    pub fn is_late(&mut self, now: i64) -> bool {
        is_due(self.deadline, now)
    }

    /// The process has taken too long.
    pub fn late(&mut self) {
        let step = if self.pid > 0 { STEP_HELD } else { STEP_LATE };
        self.failure = Failure { step, ..Failure::default() };
    }

    /// No report comes any more. Answers whether the program runs, or why it does not.
    pub fn launched(&mut self) -> Result<(), Failure> {
        (self.reports, self.deadline) = (false, 0);
        if !self.ready && self.failure == Failure::default() {
            self.failure = Failure { step: STEP_LOST, ..Failure::default() };
        }
        self.outcome()
    }

    fn outcome(&self) -> Result<(), Failure> {
        if self.failure == Failure::default() { Ok(()) } else { Err(self.failure) }
    }

    /// The exit code, or why there is none. None if the launch or the process has not ended yet.
    pub fn result(&self) -> Option<Result<i32, Failure>> {
        // A helper that failed made no process.
        let code = if self.pid > 0 { self.code } else { Some(NOT_STARTED) };
        let code = code.filter(|_| !self.reports && self.helper == 0)?;
        Some(self.outcome().map(|()| code))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(step: u32) -> Failure {
        Failure { step, ..Failure::default() }
    }

    #[test]
    fn a_process_that_ran_has_its_exit_code_once_both_children_are_reaped() {
        let mut progress = Progress::begun(10, 0, 99);
        progress.appeared(11, true, 200);
        assert_eq!((progress.pid, progress.deadline), (11, 200));
        progress.ready(11);
        assert_eq!(progress.launched(), Ok(()));
        assert_eq!(progress.deadline, 0);
        progress.ended(3);
        assert_eq!(progress.result(), None, "its helper is not reaped");
        progress.helper = 0;
        assert_eq!(progress.result(), Some(Ok(3)));
    }

    #[test]
    fn a_process_may_be_ready_before_its_helper_tells_its_pid() {
        let mut progress = Progress::begun(10, 0, 99);
        progress.ready(12);
        assert_eq!(progress.pid, 12);
        progress.appeared(12, true, 99);
        progress.ready(77);
        assert_eq!(progress.pid, 12, "a pid that is known stays");
    }

    #[test]
    fn a_process_that_was_killed_before_anybody_heard_of_it_ended_by_sigkill() {
        let mut progress = Progress::begun(0, 0, 99);
        progress.appeared(11, false, 99);
        progress.ready(11);
        assert_eq!(progress.launched(), Ok(()));
        assert_eq!(progress.result(), Some(Ok(137)));
        let mut progress = Progress::begun(0, 0, 99);
        progress.ended(2);
        progress.appeared(11, false, 99);
        progress.ready(11);
        let _ = progress.launched();
        assert_eq!(progress.result(), Some(Ok(2)), "its end was reaped before");
    }

    #[test]
    fn the_first_failure_is_reported_and_silence_is_one() {
        let mut progress = Progress::begun(10, 0, 99);
        assert_eq!(progress.launched(), Err(failure(STEP_LOST)));
        let mut progress = Progress::begun(10, 0, 99);
        progress.failed(failure(7));
        assert_eq!(progress.launched(), Err(failure(7)));
        progress.helper = 0;
        assert_eq!(progress.result(), Some(Err(failure(7))), "without a process no end is waited for");
    }

    #[test]
    fn a_late_process_is_held_by_others_once_they_can_see_it() {
        let mut progress = Progress::begun(10, 0, 50);
        assert!(!progress.is_late(49) && progress.is_late(50));
        progress.late();
        assert_eq!(progress.launched(), Err(failure(STEP_LATE)));
        let mut progress = Progress::begun(10, 0, 50);
        progress.appeared(11, true, 60);
        assert!(!progress.is_late(59) && progress.is_late(60));
        progress.late();
        assert_eq!(progress.launched(), Err(failure(STEP_HELD)));
        assert!(!progress.is_late(i64::MAX), "nothing is waited for any more");
    }

    #[test]
    fn only_the_launcher_s_own_child_is_trusted() {
        let progress = Progress::begun(10, 11, 99);
        assert!(progress.trusts(10, true) && !progress.trusts(11, true) && !progress.trusts(0, true));
        assert!(progress.trusts(11, false) && !progress.trusts(10, false));
        assert!(!Progress::begun(0, 0, 99).trusts(0, true), "a sender that the kernel does not name");
    }
}
