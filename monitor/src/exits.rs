//! Exit codes, by the convention of shells.

use crate::wire::{DETAIL_NOT_IN_PATH, Failure};

const EPERM: i32 = 1;
const ENOENT: i32 = 2;
const EACCES: i32 = 13;

/// The exit code of a process that ended with this wait status: 128 and the signal when a signal ended it.
pub fn code_of(status: i32) -> i32 {
    let signal = status & 0x7f;
    if signal == 0 { status >> 8 & 0xff } else { 128 + signal }
}

/// The exit code of a start that failed: 127 when the program is missing, 126 when it is not executable, else 128.
pub fn code_of_failure(failure: Failure) -> i32 {
    match failure.errno {
        _ if failure.detail == DETAIL_NOT_IN_PATH => 127,
        ENOENT if failure.detail == 0 => 127,
        EACCES | EPERM => 126,
        _ => 128,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_counts_from_128() {
        assert_eq!([0, 0x100, 0xff00, 9, 11 | 0x80].map(code_of), [0, 1, 255, 137, 139]);
    }

    #[test]
    fn a_missing_program_is_127_and_one_that_nobody_may_run_is_126() {
        let failed = |errno, detail| code_of_failure(Failure { errno, detail, ..Failure::default() });
        assert_eq!((failed(ENOENT, 0), failed(0, DETAIL_NOT_IN_PATH)), (127, 127));
        assert_eq!((failed(EACCES, 0), failed(EPERM, 0)), (126, 126));
        assert_eq!(failed(ENOENT, DETAIL_NOT_IN_PATH + 1), 128, "something else than the program is missing");
        assert_eq!(failed(22, 0), 128);
    }
}
