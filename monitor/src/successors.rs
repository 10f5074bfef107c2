//! When another worker follows one that died. All times are nanoseconds of the monotonic clock.

/// How soon a worker may follow one that died.
const PAUSE_NS: i64 = 100_000_000;
/// After so many deaths, each soon after the one before, the pause doubles with each death, so often at the most: up to
/// 51 seconds.
const DEATHS: u32 = 8;
const DOUBLED: u32 = 9;
/// If a worker lived for so long, its death has another cause than those before.
const STEADY_NS: i64 = 10_000_000_000;

pub struct Successors {
    /// When the last worker was started.
    since: i64,
    /// How many died soon after their start, one after the other.
    deaths: u32,
    /// When the next worker is to be started; 0 if none is.
    due: i64,
}

impl Successors {
    #[cfg(test)]
    pub const NONE: Successors = Successors { since: 0, deaths: 0, due: 0 };

    /// A worker is being started: none is due.
    pub fn starting(&mut self) {
        self.due = 0;
    }

    pub fn started(&mut self, now: i64) {
        self.since = now;
    }

    /// The worker died, and another one is to follow.
    pub fn died(&mut self, now: i64) {
        let steady = now - self.since >= STEADY_NS;
        self.deaths = if steady { 0 } else { self.deaths.saturating_add(1) };
        self.due = match self.deaths.saturating_sub(DEATHS) {
            0 => (self.since + PAUSE_NS).max(now),
            more => now + (PAUSE_NS << more.min(DOUBLED)),
        };
    }

    /// The start of a worker that was due failed.
    pub fn failed(&mut self, now: i64) {
        self.due = now + PAUSE_NS;
    }

    /// Whether a worker may be started for an order: also before its time, unless one after the other died.
    pub fn may_start(&self, now: i64) -> bool {
        self.deaths <= DEATHS || now >= self.due
    }

    /// When the next worker is to be started; 0 if none is.
    pub fn due(&self) -> i64 {
        self.due
    }

    /// Forgets the deaths so far.
    pub fn forgive(&mut self) {
        self.deaths = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_follows_at_the_earliest_a_tenth_of_a_second_after_the_start_before() {
        let mut next = Successors::NONE;
        next.started(1_000);
        next.died(2_000);
        assert_eq!(next.due(), 1_000 + PAUSE_NS);
        next.starting();
        assert_eq!(next.due(), 0);
        next.started(5_000);
        next.died(5_000 + 2 * PAUSE_NS);
        assert_eq!(next.due(), 5_000 + 2 * PAUSE_NS, "at once after a longer life");
    }

    #[test]
    fn after_eight_deaths_the_pause_doubles_up_to_51_seconds() {
        let mut next = Successors::NONE;
        for _ in 0..DEATHS {
            next.died(0);
            assert!(next.may_start(0), "an order starts a worker before its time");
        }
        let pauses: Vec<i64> = (0..11)
            .map(|_| {
                next.died(0);
                assert!(!next.may_start(next.due() - 1) && next.may_start(next.due()));
                next.due() / 1_000_000
            })
            .collect();
        assert_eq!(pauses, [200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 51_200, 51_200, 51_200]);
    }

    #[test]
    fn a_long_life_or_the_end_of_the_container_forgives_the_deaths() {
        let mut next = Successors::NONE;
        (0..20).for_each(|_| next.died(0));
        next.forgive();
        assert!(next.may_start(0));
        (0..20).for_each(|_| next.died(0));
        next.died(STEADY_NS);
        assert!(next.may_start(0));
        assert_eq!(next.due(), STEADY_NS);
    }

    #[test]
    fn a_start_that_failed_is_tried_again() {
        let mut next = Successors::NONE;
        next.failed(7);
        assert_eq!(next.due(), 7 + PAUSE_NS);
    }
}
