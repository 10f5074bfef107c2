//! A procfs of a PID namespace of other containers, made without a process in it that they could misuse.
//!
//! The kernel makes a procfs for the PID namespace of the process that asks for one, so a process must be in it for a
//! moment. That process has an empty read-only file system as its root, one socket and no other descriptor, only the
//! capability to mount, and a filter that allows five system calls. The helper does everything else from outside
//! ([`crate::child`]).

use crate::fault::{Outcome, os};
use crate::fd::Fd;
use crate::privileges::{CAP_SYS_ADMIN, set_capabilities, set_filter};
use crate::sys::{self, *};
use crate::wire::*;

/// Seconds that the process may take, because the processes of that namespace can stop it.
const LIMIT_S: i64 = 10;

/// The file system context, as fsopen(2) gives it.
pub fn context_for(namespace: i32) -> Outcome<i32> {
    let [talk, own] = os(sys::report_pair())?.map(Fd::new);
    let (maker, pidfd) = os(sys::fork(0, None))?;
    if maker == 0 {
        let made = make(namespace, own.raw());
        let _ = sys::write_all(own.raw(), &made.err().unwrap_or(EIO).to_ne_bytes());
        sys::exit(1)
    }
    drop((own, Fd::new(pidfd)));
    sys::limit_receives(talk.raw(), LIMIT_S);
    let mut inside = 0;
    let context = collect(talk.raw(), maker, &mut inside);
    for pid in [inside, maker].into_iter().filter(|&pid| pid > 0) {
        sys::kill_group(pid);
        sys::wait_for(pid);
    }
    os(context)
}

/// Takes the pid of the process inside from its maker, and the context from either.
fn collect(talk: i32, maker: i32, inside: &mut i32) -> Result<i32> {
    let mut context = Err(EIO);
    loop {
        let (mut word, mut fds) = ([0u8; 4], [-1; MAX_FDS]);
        let (got, count, sender) = sys::recv_from_child(talk, &mut word, &mut fds, true)?;
        let number = i32::from_ne_bytes(word);
        match got {
            0 => return context,
            4 if sender != maker && count == 1 && context.is_err() => context = Ok(fds[0]),
            _ if sender != maker => fds[..count].iter().copied().for_each(sys::close),
            // A negative number is a pid.
            4 if number < 0 => *inside = -number,
            _ => return Err(number.max(1)),
        }
        if context.is_ok() && *inside > 0 {
            return context;
        }
    }
}

/// In a process outside of the namespace: gives up everything, then makes the process inside. Returns only on failure.
fn make(namespace: i32, talk: i32) -> Result<()> {
    // A process group of its own, because the process that it makes may signal the group. SAFETY: no arguments.
    unsafe { sys::call(nr::SETSID, &[]) }?;
    empty_root()?;
    sys::setns(namespace, CLONE_NEWPID)?;
    if talk > 0 {
        sys::close_range(0, talk as u32 - 1, 0)?;
    }
    sys::close_range(talk + 1, u32::MAX, 0)?;
    crate::private::forget(&[]);
    set_capabilities(CAP_SYS_ADMIN, 0, 0).map_err(|failure| failure.errno())?;
    sys::prctl(PR_SET_NO_NEW_PRIVS, 1)?;
    set_filter(&filter()).map_err(|failure| failure.errno())?;
    let pid = sys::fork_sibling()?;
    if pid > 0 {
        let _ = sys::write_all(talk, &(-pid).to_ne_bytes());
        sys::exit(0)
    }
    let context = sys::fsopen(b"proc\0");
    let _ = sys::send_fd(talk, &0u32.to_ne_bytes(), context.ok());
    sys::exit(0)
}

const PR_SET_NO_NEW_PRIVS: usize = 38;

/// A mount namespace with nothing in it but an empty directory.
fn empty_root() -> Result<()> {
    const MS_REC_PRIVATE: u32 = 1 << 14 | 1 << 18;
    sys::unshare(CLONE_NEWNS)?;
    sys::mount_propagation(b"/\0", MS_REC_PRIVATE)?;
    let empty = crate::child::new_empty(b"\0").map_err(|failure| failure.errno())?;
    let here = sys::openat(AT_FDCWD, b".\0", O_PATH | O_DIRECTORY, 0)?;
    sys::move_mount(empty, here)?;
    sys::fchdir(empty)?;
    sys::pivot_root(b".\0", b".\0")?;
    sys::umount_detach(b".\0")?;
    sys::fchdir(empty)
}

/// clone, write, fsopen, sendmsg and exit; the kernel ends the process at any other call.
fn filter() -> [u8; 88] {
    const KILL: u32 = 0x8000_0000;
    const CALLS: [usize; 5] = [nr::CLONE, nr::WRITE, nr::FSOPEN, nr::SENDMSG, nr::EXIT_GROUP];
    const LOAD: u16 = 0x20;
    const EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    let mut bytes = [0u8; 88];
    let mut places = bytes.chunks_exact_mut(8);
    let mut put = |code: u16, if_true: u8, value: u32| {
        if let Some(place) = places.next() {
            place[..2].copy_from_slice(&code.to_le_bytes());
            place[2] = if_true;
            place[4..].copy_from_slice(&value.to_le_bytes());
        }
    };
    put(LOAD, 0, 4);
    put(EQUAL, 1, crate::permits::ARCHITECTURE);
    put(RETURN, 0, KILL);
    put(LOAD, 0, 0);
    for (index, number) in CALLS.into_iter().enumerate() {
        // Over the others and over the refusal.
        put(EQUAL, (CALLS.len() - index) as u8, number as u32);
    }
    put(RETURN, 0, KILL);
    put(RETURN, 0, crate::permits::ALLOW);
    bytes
}
