//! The library's own worker threads, which never run a signal handler of the host.

use super::fd::errno;
use crate::error::{Error, Result};
use std::thread::{Builder, Scope, ScopedJoinHandle};

/// Starts a worker in `scope` with every signal blocked from its first instruction on; when this returns, the caller's
/// mask is as before.
pub(crate) fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>> {
    let before = block_all();
    // Boxed: the standard library's code for a thread is compiled for each type of function that a thread runs.
    let work: Box<dyn FnOnce() -> T + Send + 'scope> = Box::new(work);
    let thread = Builder::new().name(name.to_owned()).spawn_scoped(scope, work);
    restore(&before);
    thread.map_err(|error| Error::io("start a worker thread", &error))
}

/// Starts a worker that outlives this call, every signal blocked from its first instruction on.
pub(crate) fn spawn_detached(name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
    start(Builder::new().name(name.to_owned()).stack_size(128 * 1024), Box::new(work))
}

/// Starts a thread with a stack for work of any kind.
pub(crate) fn spawn_worker(name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
    start(Builder::new().name(name.to_owned()), Box::new(work))
}

fn start(builder: Builder, work: Box<dyn FnOnce() + Send>) -> Result<()> {
    let before = block_all();
    let thread = builder.spawn(work);
    restore(&before);
    thread.map(|_| ()).map_err(|error| Error::io("start a worker thread", &error))
}

/// Gives the calling thread its own umask of 0, so that new files have exactly the requested modes.
///
/// For the library's own worker threads only: the host's threads keep their umask.
pub(crate) fn zero_umask() -> Result<()> {
    // SAFETY: no pointers; only this thread's file system attributes are unshared and changed.
    unsafe {
        if libc::unshare(libc::CLONE_FS) < 0 {
            return Err(Error::os("unshare the umask", errno()));
        }
        libc::umask(0);
    }
    Ok(())
}

/// Makes new files of the calling thread belong to `uid` and `gid`; its capabilities stay.
///
/// For the library's own worker threads only: the system calls bypass the C library, which would change every thread.
pub(crate) fn make_for(uid: u32, gid: u32) -> Result<()> {
    const NO_SETUID_FIXUP: libc::c_ulong = 4;
    // SAFETY: numbers alone; of this thread only.
    unsafe {
        if libc::prctl(libc::PR_SET_SECUREBITS, NO_SETUID_FIXUP, 0, 0, 0) < 0 {
            return Err(Error::os("keep the capabilities of a thread", errno()));
        }
        libc::syscall(libc::SYS_setfsgid, gid);
        libc::syscall(libc::SYS_setfsuid, uid);
    }
    Ok(())
}

fn block_all() -> libc::sigset_t {
    // SAFETY: both sets are plain data that the calls fill in.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        before
    }
}

fn restore(before: &libc::sigset_t) {
    // SAFETY: the set was filled in by pthread_sigmask.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, std::ptr::null_mut()) };
}
