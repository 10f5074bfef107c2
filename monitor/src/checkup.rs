//! The health check: when a check begins and ends, and what its result means. Times are nanoseconds of the monotonic
//! clock.

use crate::timers::is_due;
use crate::wire::{HEALTH_HEALTHY, HEALTH_STARTING, HEALTH_UNHEALTHY};

/// How long the next check waits for one that was given up, at the most.
const WAIT_NS: i64 = 1_000_000_000;

/// The times of checks. Valid when all zero: none is due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checks {
    pub interval: i64,
    /// The interval within the start period, until a check succeeds.
    pub start_interval: i64,
    pub timeout: i64,
    /// When the next check is due; 0 if none is.
    next: i64,
    /// When the check that runs has taken too long; 0 if none runs, or it was killed already.
    deadline: i64,
}

impl Checks {
    /// The next check is due after one interval. `starts`: no check has succeeded yet within the start period.
    pub fn resume(&mut self, now: i64, starts: bool) {
        self.next = now + if starts { self.start_interval } else { self.interval };
    }

    /// No checks for now.
    pub fn stop(&mut self) {
        (self.next, self.deadline) = (0, 0);
    }

    /// When the next thing is to be done; 0 if nothing is.
    pub fn due(&self) -> i64 {
        if self.deadline > 0 { self.deadline } else { self.next }
    }

    /// Whether the check that runs has taken too long. Answers so once.
    pub fn is_overdue(&mut self, now: i64) -> bool {
        let overdue = is_due(self.deadline, now);
        if overdue {
            self.deadline = 0;
        }
        overdue
    }

    /// Whether a check begins now. `busy`: one that was given up is still on its way out.
    pub fn begins(&mut self, now: i64, busy: bool) -> bool {
        if !is_due(self.next, now) {
            return false;
        }
        self.next = if busy { now + self.interval.min(WAIT_NS) } else { 0 };
        !busy
    }

    /// A check runs.
    pub fn begun(&mut self, now: i64) {
        self.deadline = now + self.timeout;
    }

    /// The check ended.
    pub fn ended(&mut self) {
        self.deadline = 0;
    }
}

/// How the container is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition {
    /// `HEALTH_*`.
    pub health: u32,
    /// How many checks failed in a row.
    pub streak: u32,
}

impl Condition {
    /// The condition after a check. `counts`: a failure counts, because the start period is over.
    pub fn after(self, passed: bool, counts: bool, retries: u32) -> Condition {
        match (passed, counts || self.health != HEALTH_STARTING) {
            (true, _) => Condition { health: HEALTH_HEALTHY, streak: 0 },
            (false, false) => self,
            (false, true) => {
                let streak = self.streak + 1;
                Condition { health: if streak >= retries { HEALTH_UNHEALTHY } else { self.health }, streak }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(results: &[(bool, bool)], from: Condition) -> Vec<(u32, u32)> {
        let mut condition = from;
        let step = |&(passed, counts): &(bool, bool)| {
            condition = condition.after(passed, counts, 3);
            (condition.health, condition.streak)
        };
        results.iter().map(step).collect()
    }

    const STARTING: Condition = Condition { health: HEALTH_STARTING, streak: 0 };

    #[test]
    fn so_many_failures_in_a_row_are_unhealthy() {
        assert_eq!(
            after(&[(false, true), (false, true), (false, true), (false, true), (true, true)], STARTING),
            [
                (HEALTH_STARTING, 1),
                (HEALTH_STARTING, 2),
                (HEALTH_UNHEALTHY, 3),
                (HEALTH_UNHEALTHY, 4),
                (HEALTH_HEALTHY, 0)
            ]
        );
    }

    #[test]
    fn a_success_begins_a_new_row() {
        let healthy = Condition { health: HEALTH_HEALTHY, streak: 0 };
        assert_eq!(
            after(&[(false, true), (false, true), (true, true), (false, true)], healthy),
            [(HEALTH_HEALTHY, 1), (HEALTH_HEALTHY, 2), (HEALTH_HEALTHY, 0), (HEALTH_HEALTHY, 1)]
        );
    }

    #[test]
    fn failures_of_the_start_period_count_after_a_first_success_only() {
        assert_eq!(
            after(&[(false, false), (false, false), (true, false), (false, false)], STARTING),
            [(HEALTH_STARTING, 0), (HEALTH_STARTING, 0), (HEALTH_HEALTHY, 0), (HEALTH_HEALTHY, 1)]
        );
    }

    #[test]
    fn a_check_begins_after_an_interval_and_is_overdue_after_its_time() {
        let mut checks = Checks { interval: 10, timeout: 5, ..Checks::default() };
        assert_eq!(checks.due(), 0);
        checks.resume(100, false);
        assert_eq!(checks.due(), 110);
        assert!(!checks.begins(109, false));
        assert!(checks.begins(110, false) && !checks.begins(110, false));
        checks.begun(110);
        assert_eq!(checks.due(), 115);
        assert!(!checks.is_overdue(114));
        assert!(checks.is_overdue(115) && !checks.is_overdue(200), "it is killed once");
        checks.ended();
        assert_eq!(checks.due(), 0);
    }

    #[test]
    fn a_start_has_an_interval_of_its_own() {
        let mut checks = Checks { interval: 10, start_interval: 3, ..Checks::default() };
        checks.resume(100, true);
        assert_eq!(checks.due(), 103);
        checks.resume(100, false);
        assert_eq!(checks.due(), 110);
    }

    #[test]
    fn a_check_waits_for_one_that_is_on_its_way_out() {
        let mut checks = Checks { interval: 5 * WAIT_NS, timeout: 5, ..Checks::default() };
        checks.resume(0, false);
        assert!(!checks.begins(5 * WAIT_NS, true));
        assert_eq!(checks.due(), 6 * WAIT_NS);
        assert!(checks.begins(6 * WAIT_NS, false));
        checks.resume(0, false);
        checks.begun(0);
        checks.stop();
        assert_eq!((checks.due(), checks.is_overdue(i64::MAX)), (0, false));
    }
}
