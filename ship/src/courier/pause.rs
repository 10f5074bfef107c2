//! The pauses after failures: each is twice as long as the one before, up to a bound, for ever.

use std::time::Duration;

/// The first pause, and the longest one.
const BOUNDS: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(30));

/// How long the next pause is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pause(Duration);

impl Pause {
    /// Before the first failure, and after each success.
    pub(super) const FIRST: Pause = Pause(BOUNDS.0);

    /// The next pause, with a share of chance: couriers that lost one receiver do not come back all at once.
    pub(super) fn take(&mut self) -> Duration {
        let time = self.0;
        self.0 = (time * 2).min(BOUNDS.1);
        let share = u32::try_from(crate::time::now_ns().rem_euclid(256)).unwrap_or(0);
        time - time * share / 1024
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_the_bound() {
        let mut pause = Pause::FIRST;
        let taken: Vec<Duration> = (0..20).map(|_| pause.take()).collect();
        assert!(taken[0] <= BOUNDS.0 && taken[0] > BOUNDS.0 / 2, "{taken:?}");
        assert!(taken[19] <= BOUNDS.1 && taken[19] > BOUNDS.1 / 2, "{taken:?}");
    }
}
