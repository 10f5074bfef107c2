//! Descriptors that are closed when their owner is dropped.

use crate::sys;

/// A descriptor, or none. It is stored plus one: zeroes mean none, so that a table that begins as zeroes needs no memory
/// before it is used.
#[repr(transparent)]
pub struct Fd(i32);

impl Fd {
    pub const NONE: Fd = Fd(0);

    /// Takes a descriptor; a number below 0 means none.
    pub const fn new(fd: i32) -> Fd {
        Fd(if fd < 0 { 0 } else { fd + 1 })
    }

    /// The number, for calls; the descriptor stays here. Below 0 if there is none.
    pub const fn raw(&self) -> i32 {
        self.0 - 1
    }

    pub const fn is_open(&self) -> bool {
        self.0 > 0
    }

    /// Takes another descriptor in place of this one.
    #[inline(never)]
    pub fn set(&mut self, fd: i32) {
        if self.0 > 0 {
            sys::close(self.0 - 1);
        }
        self.0 = fd.max(-1) + 1;
    }

    pub fn close(&mut self) {
        self.set(-1);
    }

    /// Gives the descriptor away.
    pub fn take(&mut self) -> i32 {
        core::mem::take(&mut self.0) - 1
    }
}

impl Drop for Fd {
    #[inline(never)]
    fn drop(&mut self) {
        self.close();
    }
}

/// Up to `N` descriptors.
pub struct FdList<const N: usize> {
    fds: [i32; N],
    count: usize,
}

impl<const N: usize> FdList<N> {
    pub const NONE: FdList<N> = FdList { fds: [-1; N], count: 0 };

    /// Adds a descriptor. If there is no room, closes it and fails with E2BIG.
    pub fn push(&mut self, fd: i32) -> sys::Result<()> {
        match self.fds.get_mut(self.count) {
            Some(place) => {
                *place = fd;
                self.count += 1;
                Ok(())
            }
            None => {
                sys::close(fd);
                Err(sys::E2BIG)
            }
        }
    }

    /// The numbers, for calls.
    pub fn raw(&self) -> &[i32] {
        &self.fds[..self.count]
    }

    pub fn close(&mut self) {
        close_all(self.raw());
        self.count = 0;
    }
}

impl<const N: usize> Drop for FdList<N> {
    fn drop(&mut self) {
        self.close();
    }
}

/// Puts a descriptor in the place of another one, which is closed; a number below 0 means none.
pub fn replace(place: &mut i32, fd: i32) {
    if *place >= 0 {
        sys::close(*place);
    }
    *place = fd;
}

/// Closes descriptors; numbers below 0 mean none.
#[inline(never)]
pub fn close_all(fds: &[i32]) {
    fds.iter().copied().filter(|&fd| fd >= 0).for_each(sys::close);
}

/// Opens the file of a descriptor again, so that both have their own flags and position.
pub fn reopen(fd: i32, flags: u32) -> sys::Result<i32> {
    let mut path = *b"/proc/self/fd/\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    crate::text::decimal(&mut path[14..], i64::from(fd));
    sys::openat(sys::AT_FDCWD, &path, flags, 0)
}
