//! How many seconds may pass between the moment when other processes can see a new process and the start of its
//! program: [`APPEARANCE_LIMIT_S`].
//!
//! A test build (feature `attacks`) can set another number, for tests that inspect such a process and do not test the
//! limit: on a slow machine the inspection alone takes longer. In every other build the number is a constant.

#[cfg(not(feature = "attacks"))]
pub use fixed::limit;
#[cfg(feature = "attacks")]
pub use settable::{limit, set};

#[cfg(not(feature = "attacks"))]
mod fixed {
    use crate::wire::APPEARANCE_LIMIT_S;

    /// The seconds.
    pub const fn limit() -> i64 {
        APPEARANCE_LIMIT_S
    }
}

#[cfg(feature = "attacks")]
mod settable {
    use crate::wire::APPEARANCE_LIMIT_S;
    use core::sync::atomic::{AtomicI64, Ordering};

    static LIMIT_S: AtomicI64 = AtomicI64::new(APPEARANCE_LIMIT_S);

    /// The seconds.
    pub fn limit() -> i64 {
        LIMIT_S.load(Ordering::Relaxed)
    }

    /// Takes the seconds as a decimal number; another text changes nothing.
    pub fn set(text: &[u8]) {
        if let Some(seconds) = core::str::from_utf8(text).ok().and_then(|text| text.parse().ok()) {
            LIMIT_S.store(seconds, Ordering::Relaxed);
        }
    }
}
