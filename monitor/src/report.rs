//! Reports of a child before it executes its program: a word that says which, numbers, perhaps a descriptor beside it.

use crate::wire::Failure;

/// Room for every report.
pub const REPORT_LEN: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// A step failed; the child has ended.
    Failure(Failure),
    /// The master of the process's terminal.
    Terminal,
    /// The container's `/dev/pts`.
    DevPts,
    /// The process executes its program next.
    Ready,
    /// The pid of the process that a helper made.
    Appeared(i32),
    /// A socket of the resolver, and which.
    Dns(u32),
    /// All steps of a plan without a program are done.
    Done,
    /// The root of a container; no exec has this report.
    Root,
}

const FAILURE: u32 = 1;
const TERMINAL: u32 = 2;
const DEV_PTS: u32 = 3;
const READY: u32 = 4;
const APPEARED: u32 = 5;
const DNS: u32 = 16;
const DONE: u32 = 17;
const ROOT: u32 = 18;

impl Report {
    /// The bytes, and how many of them count.
    #[inline(never)]
    pub fn to_bytes(self) -> ([u8; REPORT_LEN], usize) {
        let (word, numbers) = match self {
            Report::Failure(Failure { step, errno, detail, extra }) => (FAILURE, [step, errno as u32, detail, extra]),
            Report::Appeared(pid) => (APPEARED, [pid as u32, 0, 0, 0]),
            Report::Dns(which) => (DNS, [which, 0, 0, 0]),
            Report::Terminal => (TERMINAL, [0; 4]),
            Report::DevPts => (DEV_PTS, [0; 4]),
            Report::Ready => (READY, [0; 4]),
            Report::Done => (DONE, [0; 4]),
            Report::Root => (ROOT, [0; 4]),
        };
        let mut bytes = [0; REPORT_LEN];
        for (place, word) in bytes.chunks_exact_mut(4).zip([word].into_iter().chain(numbers)) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        (bytes, 20)
    }

    /// The report in a buffer that was zero before it was received; none if the bytes are not a report.
    #[inline(never)]
    pub fn from_bytes(bytes: &[u8; REPORT_LEN]) -> Option<Report> {
        let word = |index: usize| {
            let at = index * 4;
            u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        Some(match word(0) {
            FAILURE => {
                Report::Failure(Failure { step: word(1), errno: word(2) as i32, detail: word(3), extra: word(4) })
            }
            TERMINAL => Report::Terminal,
            DEV_PTS => Report::DevPts,
            READY => Report::Ready,
            APPEARED => Report::Appeared(word(1) as i32),
            DNS => Report::Dns(word(1)),
            DONE => Report::Done,
            ROOT => Report::Root,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_as_it_was_written() {
        let failure = Failure { step: 7, errno: -3, detail: 9, extra: u32::MAX };
        for report in [
            Report::Failure(failure),
            Report::Terminal,
            Report::DevPts,
            Report::Ready,
            Report::Appeared(i32::MAX),
            Report::Dns(1),
            Report::Done,
            Report::Root,
        ] {
            let (bytes, length) = report.to_bytes();
            assert_eq!(Report::from_bytes(&bytes), Some(report));
            assert!(bytes[length..].iter().all(|&byte| byte == 0), "{report:?} has more than {length} bytes");
        }
    }

    #[test]
    fn the_reader_refuses_other_bytes() {
        assert_eq!(Report::from_bytes(&[0; REPORT_LEN]), None);
        assert_eq!(Report::from_bytes(&[0xff; REPORT_LEN]), None);
    }
}
