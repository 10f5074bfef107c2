//! Threads of the library: few, with every signal blocked, so that the host's handlers never run on them.

use crate::entry::catch;
use crate::failure::{Failure, Outcome};
use std::mem::MaybeUninit;

/// Runs `work` on a thread of its own; a panic in it goes to the log sink.
pub(crate) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Outcome<()> {
    start(name, Box::new(work))
}

fn start(name: &str, work: Box<dyn FnOnce() + Send>) -> Outcome<()> {
    let builder = std::thread::Builder::new().name(format!("coracle-{name}"));
    let started = with_signals_blocked(|| {
        builder.spawn(move || {
            let _ = catch(|| {
                work();
                Ok(())
            });
        })
    });
    started.map(drop).map_err(|error| Failure::from(engine::Error::io("start a thread", &error)))
}

/// A new thread inherits the mask of the one that starts it.
fn with_signals_blocked<T>(body: impl FnOnce() -> T) -> T {
    let (mut all, mut old) = (MaybeUninit::<libc::sigset_t>::uninit(), MaybeUninit::<libc::sigset_t>::uninit());
    // SAFETY: both sets live here; the first is filled before it is used, the second by the kernel.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), old.as_mut_ptr());
    }
    let result = body();
    // SAFETY: `old` was filled above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, old.as_ptr(), std::ptr::null_mut()) };
    result
}
