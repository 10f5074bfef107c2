//! Why a step of a plan failed. The walk of the plan knows which step that was.

use core::num::NonZeroU64;

use crate::wire::Failure;

/// An error number, a detail (`DETAIL_*`), and a number that depends on the detail. One word holds all three, so that a
/// step returns it in a register: with a [`Failure`] in its place the program is 3 kB larger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault(NonZeroU64);

/// A step, which gives nothing.
pub type Step = Outcome<()>;
/// A step that gives something.
pub type Outcome<T> = Result<T, Fault>;

impl Fault {
    /// Error number and detail have 16 bits, `extra` has 31.
    pub fn new(errno: i32, detail: u32, extra: u32) -> Fault {
        let word = u64::from(errno as u16) | u64::from(detail as u16) << 16 | u64::from(extra) << 32;
        Fault(NonZeroU64::MIN | word << 1)
    }

    pub fn errno(self) -> i32 {
        i32::from((self.0.get() >> 1) as u16)
    }

    /// The failure of the step with this number.
    pub fn of_step(self, step: u32) -> Failure {
        let word = self.0.get() >> 1;
        Failure { step, errno: self.errno(), detail: u32::from((word >> 16) as u16), extra: (word >> 32) as u32 }
    }
}

/// A fault with an error number alone.
pub fn errno(errno: i32) -> Fault {
    Fault::new(errno, 0, 0)
}

/// A fault with an error number, or 0, and a detail.
pub fn detailed(errno: i32, detail: u32) -> Fault {
    Fault::new(errno, detail, 0)
}

/// A call that is a step.
pub fn os<T>(result: Result<T, i32>) -> Outcome<T> {
    result.map_err(errno)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_keeps_its_three_numbers() {
        for (errno, detail, extra) in [(0, 0, 0), (2, 0, 0), (0, 17, 3), (133, 29, i32::MAX as u32), (4095, 65535, 1)] {
            let fault = Fault::new(errno, detail, extra);
            assert_eq!(fault.errno(), errno);
            assert_eq!(fault.of_step(9), Failure { step: 9, errno, detail, extra });
        }
        assert_eq!(os::<()>(Err(13)), Err(errno(13)));
        assert_eq!(detailed(1, 5), Fault::new(1, 5, 0));
    }

    #[test]
    fn a_step_is_one_word() {
        assert_eq!(size_of::<Step>(), size_of::<u64>());
    }
}
