//! Waiting for a lock that another call holds, in this program or another one: with pauses, a time limit, and an error
//! that names the lock. The kernel frees a lock when its holder ends; a holder that hangs (a network file system, a
//! stopped process) must not block everybody else for ever.

use crate::error::{Error, ErrorKind, Result};
use crate::notes::{LogLevel, note};
use crate::op::Op;
use std::time::{Duration, Instant};

/// The longest wait for a lock. The longest work under one is a copy of a container's or a volume's files.
pub(crate) const LONGEST: Duration = Duration::from_secs(600);

const FIRST_PAUSE: Duration = Duration::from_micros(50);
const LAST_PAUSE: Duration = Duration::from_millis(20);

/// Calls `take` again and again until it has the lock.
///
/// # Errors
/// `op` ended; another call held the lock for `limit` ([`ErrorKind::Timeout`], names `what`).
pub(crate) fn wait_for<T>(
    what: impl std::fmt::Display,
    limit: Duration,
    op: Option<&Op>,
    mut take: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    let begun = Instant::now();
    let mut pause = FIRST_PAUSE;
    loop {
        if let Some(taken) = take()? {
            return Ok(taken);
        }
        op.map_or(Ok(()), Op::check)?;
        let waited = begun.elapsed();
        if waited >= limit {
            note(LogLevel::Warn, "store", None, || format!("{what}: given up after {limit:?}"));
            let text = format!("{what}: another call has it in use for {limit:?} now");
            return Err(Error::new(ErrorKind::Timeout, text));
        }
        std::thread::sleep(pause);
        // A short wait ends soon after the lock is free, a long one costs little.
        pause = (pause * 2).min(FIRST_PAUSE.max(waited / 16)).min(LAST_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_names_the_lock_at_its_bound_and_ends_with_the_operation() {
        let never = || Ok(None::<()>);
        let error = wait_for("the lock of a test", Duration::from_millis(30), None, never).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout);
        assert_eq!(error.message(), "the lock of a test: another call has it in use for 30ms now");
        let op = Op::new().unwrap();
        op.cancel();
        let error = wait_for("it", LONGEST, Some(&op), never).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cancelled);
        let mut asked = 0;
        let third = || {
            asked += 1;
            Ok((asked == 3).then_some(asked))
        };
        assert_eq!(wait_for("it", LONGEST, None, third).unwrap(), 3);
    }
}
