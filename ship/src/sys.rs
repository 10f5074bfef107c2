//! The calls of the kernel and of the C library that have no safe form elsewhere.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, BorrowedFd};

/// How many of the bytes that were sent the other side's kernel has not acknowledged; `None`: unknown.
pub(crate) fn unacknowledged(socket: BorrowedFd<'_>) -> Option<u64> {
    count(socket, libc::TIOCOUTQ)
}

/// How many of the bytes that were written to a FIFO nobody has read; `None`: unknown.
pub(crate) fn unread(fifo: BorrowedFd<'_>) -> Option<u64> {
    count(fifo, libc::FIONREAD)
}

/// The number that one of these two requests answers.
fn count(file: BorrowedFd<'_>, request: libc::Ioctl) -> Option<u64> {
    let mut count: libc::c_int = 0;
    // SAFETY: the request writes one int, which `count` is; the descriptor is open as long as it is borrowed.
    let done = unsafe { libc::ioctl(file.as_raw_fd(), request, &raw mut count) };
    (done == 0).then(|| u64::try_from(count).unwrap_or(0))
}

/// A time of the host's own zone.
pub(crate) struct Local {
    pub month: i64,
    pub day: i64,
    pub hour: i64,
    pub minute: i64,
    pub second: i64,
    pub year: i64,
    /// Seconds east of UTC.
    pub offset: i64,
}

/// Seconds since 1970 in the host's zone.
pub(crate) fn local(seconds: i64) -> Local {
    // SAFETY: a structure of numbers and a pointer, for which zero is a value.
    let mut found: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both point to values of this frame; the call keeps neither. A failure leaves zeros.
    unsafe { libc::localtime_r(&raw const seconds, &raw mut found) };
    Local {
        month: i64::from(found.tm_mon) + 1,
        day: i64::from(found.tm_mday),
        hour: i64::from(found.tm_hour),
        minute: i64::from(found.tm_min),
        second: i64::from(found.tm_sec),
        year: i64::from(found.tm_year) + 1900,
        offset: found.tm_gmtoff,
    }
}

/// An attribute of an open file; `None`: it has none of that name and size.
pub(crate) fn attribute<const N: usize>(file: BorrowedFd<'_>, name: &std::ffi::CStr) -> Option<[u8; N]> {
    let mut value = [0; N];
    // SAFETY: the name ends with a zero byte, and the call writes at most as many bytes as `value` has.
    let length = unsafe { libc::fgetxattr(file.as_raw_fd(), name.as_ptr(), value.as_mut_ptr().cast(), N) };
    (usize::try_from(length) == Ok(N)).then_some(value)
}

/// Milliseconds since the other side of a TCP connection acknowledged anything; `None`: no TCP connection.
pub(crate) fn silence_ms(socket: BorrowedFd<'_>) -> Option<u32> {
    // The field `tcpi_last_ack_recv` of `struct tcp_info` ends here.
    const END: usize = 60;
    let mut facts = [0_u8; END];
    let mut length = END as libc::socklen_t;
    // SAFETY: the call writes at most `length` bytes into `facts`, and the length.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            facts.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    let last: [u8; 4] = facts[END - 4..].try_into().ok()?;
    (done == 0 && length as usize == END).then(|| u32::from_ne_bytes(last))
}

#[cfg(feature = "program")]
pub(crate) use program::*;

/// The calls of the program, which has one thread when it makes them.
#[cfg(feature = "program")]
mod program {
    use nix::unistd::{ForkResult, Pid};
    use std::ffi::CStr;
    use std::fs::File;
    use std::io;
    use std::os::fd::{AsRawFd, FromRawFd};
    use std::path::Path;

    /// The descriptor that the starter passes: the lock.
    const BOOT: i32 = 3;

    fn done(result: libc::c_long) -> io::Result<()> {
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Closes all descriptors but the lock; the standard ones lead to `/dev/null`. To be called once.
    pub(crate) fn only_boot_descriptor() -> io::Result<File> {
        let null = File::options().read(true).write(true).open("/dev/null")?;
        nix::unistd::dup2_stdin(&null)?;
        nix::unistd::dup2_stdout(&null)?;
        nix::unistd::dup2_stderr(&null)?;
        drop(null);
        // SAFETY: nothing in this process has one of these descriptors.
        done(unsafe { libc::syscall(libc::SYS_close_range, BOOT + 1, libc::c_uint::MAX, 0) })?;
        // SAFETY: a plain question about a descriptor.
        done(i64::from(unsafe { libc::fcntl(BOOT, libc::F_SETFD, libc::FD_CLOEXEC) }))?;
        // SAFETY: the descriptor is open, and this is its only owner.
        Ok(unsafe { File::from_raw_fd(BOOT) })
    }

    /// Gives all signals their usual effect, and lets them come: the starter had blocked all, and may have ignored some.
    pub(crate) fn usual_signals() -> io::Result<()> {
        // SAFETY: a set and a number; neither is kept. A signal that cannot be changed is left as it is.
        unsafe {
            for signal in (1..=64).filter(|signal| *signal != libc::SIGPIPE) {
                libc::signal(signal, libc::SIG_DFL);
            }
            let mut none: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut none);
            done(i64::from(libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut())))
        }
    }

    /// The name of this process, for lists of processes: at most 15 bytes.
    pub(crate) fn name_process(name: &CStr) {
        // SAFETY: the name ends with a zero byte.
        unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
    }

    /// The child gets `None`.
    pub(crate) fn fork() -> io::Result<Option<Pid>> {
        // SAFETY: this process has one thread, so that the child has the whole of its memory in order.
        Ok(match unsafe { nix::unistd::fork() }? {
            ForkResult::Parent { child } => Some(child),
            ForkResult::Child => None,
        })
    }

    /// No program that this process may execute gains rights. Others cannot look into its memory.
    pub(crate) fn no_new_privileges() -> io::Result<()> {
        // SAFETY: numbers alone.
        unsafe {
            done(i64::from(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)))?;
            done(i64::from(libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0)))
        }
    }

    /// Empties all sets of capabilities.
    pub(crate) fn no_capabilities() -> io::Result<()> {
        const AMBIENT_CLEAR_ALL: libc::c_ulong = 4;
        const VERSION_3: u32 = 0x2008_0522;
        let (header, none) = ([VERSION_3, 0], [0_u32; 6]);
        // SAFETY: numbers; the two structures live here, and have the form of this version.
        unsafe {
            for capability in 0..64 {
                // The call fails if the kernel has no such capability, or if the user may drop none.
                libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0);
            }
            done(i64::from(libc::prctl(libc::PR_CAP_AMBIENT, AMBIENT_CLEAR_ALL, 0, 0, 0)))?;
            done(libc::syscall(libc::SYS_capset, header.as_ptr(), none.as_ptr()))
        }
    }

    /// Changes of files that a place is for.
    #[derive(Clone, Copy)]
    pub(crate) enum Changes {
        /// Files and directories are made, written and removed.
        Files,
        /// FIFOs and directories are made, FIFOs are written and removed.
        Fifos,
    }

    /// Landlock: files can be changed and made below the places alone, and none can be executed. Errors: the kernel has none
    /// (`ENOSYS`, `EOPNOTSUPP`).
    pub(crate) fn restrict_writes(places: &[(&Path, Changes)]) -> io::Result<()> {
        const ASK_VERSION: u32 = 1;
        const BENEATH: u32 = 1;
        // Execute, write a file, all kinds of makings and removals: the bits of the first version but reading (2, 3).
        const FIRST: u64 = 0x1fff & !0b1100;
        const REFER: u64 = 1 << 13;
        const TRUNCATE: u64 = 1 << 14;
        const WRITE: u64 = 1 << 1;
        const REMOVE_DIR: u64 = 1 << 4;
        const REMOVE_FILE: u64 = 1 << 5;
        const MAKE_DIR: u64 = 1 << 7;
        const MAKE_FILE: u64 = 1 << 8;
        const MAKE_FIFO: u64 = 1 << 10;
        let null = std::ptr::null::<u64>();
        // SAFETY: a question without a structure.
        let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, null, 0, ASK_VERSION) };
        done(version)?;
        let more = if version >= 3 {
            REFER | TRUNCATE
        } else if version == 2 {
            REFER
        } else {
            0
        };
        let handled = FIRST | more;
        // SAFETY: the structure is one number in its first version, and its size is given.
        let rules = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, &raw const handled, 8, 0) };
        done(rules)?;
        // SAFETY: the kernel just gave us this descriptor.
        let rules = unsafe { File::from_raw_fd(rules as i32) };
        for (place, changes) in places {
            let allowed = match changes {
                Changes::Files => WRITE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_FILE | more,
                Changes::Fifos => WRITE | REMOVE_FILE | MAKE_DIR | MAKE_FIFO,
            };
            let parent = File::open(place)?;
            let mut rule = [0_u8; 12];
            rule[..8].copy_from_slice(&allowed.to_ne_bytes());
            rule[8..].copy_from_slice(&parent.as_raw_fd().to_ne_bytes());
            let add = libc::SYS_landlock_add_rule;
            // SAFETY: the structure has 12 bytes, without padding; both descriptors are open.
            done(unsafe { libc::syscall(add, rules.as_raw_fd(), BENEATH, rule.as_ptr(), 0) })?;
        }
        // SAFETY: the descriptor is open; no structure.
        done(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, rules.as_raw_fd(), 0) })
    }
}
