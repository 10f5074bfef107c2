//! Times at which something is due, by the monotonic clock in nanoseconds; 0 if nothing is due.

/// The longest wait of a loop.
const LONGEST_MS: i64 = 60_000;

/// The first of some times.
pub fn earliest(times: impl IntoIterator<Item = i64>) -> i64 {
    times.into_iter().filter(|&at| at > 0).min().unwrap_or(0)
}

/// Whether a time has come.
pub fn is_due(at: i64, now: i64) -> bool {
    at > 0 && now >= at
}

/// The milliseconds until a time, for epoll; -1 means no end. A wait never ends before its time.
pub fn wait_ms(due: i64, now: i64) -> i32 {
    match due {
        0 => -1,
        _ => ((due - now).max(0) / 1_000_000 + 1).min(LONGEST_MS) as i32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_time_counts_and_zero_is_none() {
        assert_eq!(earliest([0, 30, 0, 20, 40]), 20);
        assert_eq!((earliest([0, 0]), earliest([])), (0, 0));
    }

    #[test]
    fn a_time_is_due_from_its_moment_on() {
        assert_eq!([is_due(5, 4), is_due(5, 5), is_due(5, 6), is_due(0, 6)], [false, true, true, false]);
    }

    #[test]
    fn a_wait_lasts_at_least_to_its_time_and_at_most_a_minute() {
        assert_eq!(wait_ms(0, 99), -1);
        assert_eq!(wait_ms(1_000_000, 0), 2, "rounded up");
        assert_eq!((wait_ms(5, 5), wait_ms(5, 1_000_000_000)), (1, 1), "never -1, which would be no end");
        assert_eq!(wait_ms(i64::MAX / 2, 0), 60_000);
    }
}
