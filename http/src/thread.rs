//! The router's threads: with every signal blocked, so that no handler of the host ever runs on them.

use nix::sys::signal::{SigSet, SigmaskHow};
use std::io;
use std::thread::Builder;

/// Starts a thread that inherits a mask with every signal blocked; the caller's mask is as before when this returns.
pub(crate) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    start(name, Box::new(work))
}

fn start(name: &str, work: Box<dyn FnOnce() + Send>) -> io::Result<()> {
    let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
    let started = Builder::new().name(name.into()).spawn(work);
    before.thread_set_mask()?;
    started.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::signal::Signal;

    #[test]
    fn a_thread_has_all_signals_blocked_and_its_starter_has_its_own_mask() {
        let (sender, receiver) = std::sync::mpsc::channel();
        spawn("coracle-test", move || sender.send(SigSet::thread_get_mask().unwrap()).unwrap()).unwrap();
        let theirs = receiver.recv().unwrap();
        assert!(theirs.contains(Signal::SIGCHLD) && theirs.contains(Signal::SIGALRM));
        assert!(!SigSet::thread_get_mask().unwrap().contains(Signal::SIGALRM));
    }
}
