//! Whether a container that ended is started again, and when.

use crate::wire::*;

/// A restart policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// `RESTART_*`.
    pub name: u32,
    /// The most restarts of [`RESTART_ON_FAILURE`]; 0 means no bound.
    pub most: u32,
}

impl Policy {
    /// Whether a restart follows an end with this exit code, the restarts before it counted.
    pub fn restarts_after(self, code: i32, before: u32) -> bool {
        match self.name {
            RESTART_ALWAYS | RESTART_UNLESS_STOPPED => true,
            RESTART_ON_FAILURE => code != 0 && (self.most == 0 || before < self.most),
            _ => false,
        }
    }
}

/// The pause before a restart. Each pause is twice the one before, up to a minute. After a long run, the first pause
/// follows again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    next_ms: i64,
}

impl Pause {
    const FIRST_MS: i64 = 100;
    const LONGEST_MS: i64 = 60_000;
    /// After a run of this length, the first pause follows again.
    const STEADY_NS: i64 = 10_000_000_000;

    /// Before the first end.
    pub const FIRST: Pause = Pause { next_ms: Pause::FIRST_MS };

    /// The pause after a run of so many nanoseconds, in nanoseconds.
    pub fn after(&mut self, ran: i64) -> i64 {
        let pause = if ran >= Pause::STEADY_NS { Pause::FIRST_MS } else { self.next_ms };
        self.next_ms = (pause * 2).min(Pause::LONGEST_MS);
        pause * 1_000_000
    }
}

/// The restarts of a container: whether one follows an end, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restarts {
    pub policy: Policy,
    /// A client ended the container by hand: no restart follows.
    ended: bool,
    pause: Pause,
    /// When the pending restart is due, by the monotonic clock in nanoseconds; 0 if none is pending.
    due: i64,
}

impl Restarts {
    /// How long until the next look whether a client still holds off a restart.
    const HELD_OFF_NS: i64 = 20_000_000;

    pub const NONE: Restarts = Restarts::new(Policy { name: RESTART_NO, most: 0 });

    pub const fn new(policy: Policy) -> Restarts {
        Restarts { policy, ended: false, pause: Pause::FIRST, due: 0 }
    }

    /// No restart follows any more. A pending one stays pending.
    pub fn end(&mut self) {
        self.ended = true;
    }

    /// Whether a client has ended the restarts.
    pub fn ended(&self) -> bool {
        self.ended
    }

    /// Whether a restart follows an end with this exit code, the restarts before it counted.
    pub fn follows(&self, code: i32, before: u32) -> bool {
        !self.ended && self.policy.restarts_after(code, before)
    }

    /// Plans the restart after a run of so many nanoseconds.
    pub fn plan(&mut self, now: i64, ran: i64) {
        self.due = now + self.pause.after(ran);
    }

    /// When the pending restart is due; 0 if none is pending.
    pub fn due(&self) -> i64 {
        self.due
    }

    /// A client works on the container's files: the restart comes later.
    pub fn hold_off(&mut self, now: i64) {
        self.due = now + Restarts::HELD_OFF_NS;
    }

    /// The pending restart begins, or is given up; answers whether there was one.
    pub fn take(&mut self) -> bool {
        core::mem::take(&mut self.due) > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_policy_restarts_after_the_ends_that_are_its_own() {
        let after = |name, most, code, before| Policy { name, most }.restarts_after(code, before);
        for code in [0, 1, 137] {
            assert!(!after(RESTART_NO, 0, code, 0));
            assert!(after(RESTART_ALWAYS, 0, code, 1000) && after(RESTART_UNLESS_STOPPED, 0, code, 1000));
            assert_eq!(after(RESTART_ON_FAILURE, 0, code, u32::MAX), code != 0);
        }
        let failures: Vec<bool> = (0..4).map(|before| after(RESTART_ON_FAILURE, 2, 1, before)).collect();
        assert_eq!(failures, [true, true, false, false]);
        assert!(!after(99, 0, 1, 0), "a policy that is not known");
    }

    #[test]
    fn pauses_double_to_a_minute_and_a_long_run_begins_anew() {
        let mut pause = Pause::FIRST;
        let short: Vec<i64> = (0..12).map(|_| pause.after(0) / 1_000_000).collect();
        assert_eq!(short, [100, 200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 51_200, 60_000, 60_000]);
        assert_eq!([10_000_000_000, 0, 9_999_999_999].map(|ran| pause.after(ran) / 1_000_000), [100, 200, 400]);
    }

    #[test]
    fn a_restart_is_pending_until_it_begins_or_is_given_up() {
        let mut restarts = Restarts::new(Policy { name: RESTART_ALWAYS, most: 0 });
        assert_eq!(restarts.due(), 0);
        assert!(!restarts.take(), "none is pending");
        restarts.plan(5_000, 0);
        assert_eq!(restarts.due(), 5_000 + 100_000_000);
        restarts.hold_off(200_000_000);
        assert_eq!(restarts.due(), 220_000_000);
        assert!(restarts.take());
        assert_eq!((restarts.due(), restarts.take()), (0, false));
        restarts.plan(0, 0);
        assert_eq!(restarts.due(), 200_000_000, "the second pause is longer");
    }

    #[test]
    fn a_container_that_was_ended_by_hand_is_not_started_again() {
        let mut restarts = Restarts::new(Policy { name: RESTART_ALWAYS, most: 0 });
        assert!(restarts.follows(0, 5) && !restarts.ended());
        restarts.end();
        assert!(!restarts.follows(0, 5) && !restarts.follows(1, 0) && restarts.ended());
        restarts.policy = Policy { name: RESTART_UNLESS_STOPPED, most: 0 };
        assert!(!restarts.follows(0, 0), "another policy changes nothing of that");
        assert!(!Restarts::NONE.follows(1, 0));
    }
}
