//! The container's network, for which the launcher makes sockets: that of the first process.

use crate::fd::Fd;
use crate::sys::{self, *};

pub struct Inside {
    /// The pidfd of the container's first process; below 0 if there is none.
    pub pidfd: i32,
    /// The network goes on without a process in it.
    pub goes_on: bool,
}

impl Inside {
    pub const NONE: Inside = Inside { pidfd: -1, goes_on: false };

    pub fn runs(&self) -> bool {
        self.pidfd >= 0
    }

    /// A socket in the container's network namespace.
    pub fn socket(&self, tcp: bool, v6: bool) -> Result<i32> {
        let home = Fd::new(sys::openat(AT_FDCWD, b"/proc/self/ns/net\0", O_RDONLY, 0)?);
        sys::setns(self.pidfd, CLONE_NEWNET)?;
        let made = if v6 { sys::internet6(tcp) } else { sys::internet(tcp) };
        if sys::setns(home.raw(), CLONE_NEWNET).is_err() {
            // Nothing of the host's may be done from the container's network.
            sys::exit(1);
        }
        made
    }
}
