//! The shipper as a program of its own: it delivers the logs of a root while no program of the host lives.
//!
//! The library starts it from a sealed memfd, with the lock of the root's shipper as descriptor 3. Its arguments are the
//! root's path, and the directories in which FIFOs to log plugins may be made. Two processes share the lock:
//!
//! - the *keeper* waits for the worker, and starts another one when the worker dies. It touches nothing else.
//! - the *worker* delivers, without any capability, behind a filter of system calls, and with no right to change a file
//!   outside of the outbox. It ends when nothing is owed and no container runs whose log is delivered.
//!
//! SIGTERM to either ends both, in order: the worker tells log plugins to leave, and is not replaced.
//!
//! The lock's file says which processes these are ([`crate::holder`]): programs that have the root open follow them.

mod confine;
mod orders;

use crate::courier::with_fault;
use crate::cursor::{CursorFile, Fault};
use crate::holder::Holder;
use crate::outbox::{self, Entry};
use crate::proxies::Proxies;
use crate::shipper::{Spawn, run_until_done};
use crate::sys;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use orders::Orders;
use std::fs::{DirBuilder, File};
use std::io;
use std::net::ToSocketAddrs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// The pause before a worker takes the place of one that died; it doubles up to the second one.
const PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(30));
/// A worker that lived so long did not die of its start.
const SETTLED: Duration = Duration::from_secs(60);
/// How long the worker waits until the C library has loaded its resolver.
const RESOLVER: Duration = Duration::from_secs(2);
/// A courier's own data is on the heap.
const STACK: usize = 256 * 1024;

/// The whole program. The exit status is 0 when the work is done, 1 when the program could not prepare itself.
pub fn main() -> ExitCode {
    let mut paths = std::env::args_os().skip(1).map(PathBuf::from);
    let (root, fifos) = (paths.next(), paths.collect::<Vec<_>>());
    let Some(root) = root.filter(|root| root.is_absolute()) else { return ExitCode::from(2) };
    match prepare(&root, &fifos) {
        Ok(lock) => keep(&root, lock),
        Err(error) => give_up(&root, &error),
    }
}

/// Tells of a failure where inspection shows it: at each delivery of the root.
fn give_up(root: &Path, error: &io::Error) -> ExitCode {
    for id in outbox::ids(root) {
        if let Ok(mut file) = CursorFile::open(&Entry::new(root, &id).cursor_path()) {
            let now = file.now;
            let _ = file.set(with_fault(now, Fault::Program, error.raw_os_error().unwrap_or(0)));
        }
    }
    ExitCode::FAILURE
}

/// Leaves all that the host program passed along unasked, and gives up every right; answers the lock.
fn prepare(root: &Path, fifos: &[PathBuf]) -> io::Result<File> {
    let lock = sys::only_boot_descriptor()?;
    sys::usual_signals()?;
    orders::hold_back()?;
    // A new session: no signal of the host's terminal comes.
    nix::unistd::setsid()?;
    nix::unistd::chdir("/")?;
    sys::name_process(c"coracle-shipper");
    raise_limit_of_files();
    DirBuilder::new().recursive(true).mode(0o700).create(outbox::directory(root))?;
    confine::give_up_rights()?;
    confine::write_only_below(&outbox::directory(root), fifos)?;
    Ok(lock)
}

/// A log that is read has a file open: a thousand containers need more than the usual limit. Without a higher one some logs wait.
fn raise_limit_of_files() {
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    }
}

/// The keeper's work: a worker lives until the work is done.
fn keep(root: &Path, lock: File) -> ExitCode {
    let orders = match Orders::of_keeper() {
        Ok(orders) => orders,
        Err(error) => return give_up(root, &error),
    };
    let mut holder = Holder::next(&lock);
    let mut pause = PAUSES.0;
    loop {
        let began = std::time::Instant::now();
        match sys::fork() {
            Ok(Some(worker)) => {
                holder.worker = worker.as_raw();
                // Without this nobody follows the program: it delivers all the same.
                let _ = holder.write(&lock);
                if is_over(worker, &orders, &lock) {
                    return ExitCode::SUCCESS;
                }
            }
            Ok(None) => {
                drop(orders);
                return work(root, lock);
            }
            Err(_) => {}
        }
        pause = if began.elapsed() >= SETTLED { PAUSES.0 } else { pause };
        if orders.comes_within(pause) {
            Holder::tell(&lock);
            return ExitCode::SUCCESS;
        }
        pause = (pause * 2).min(PAUSES.1);
    }
}

/// Waits for a worker's end; answers whether no other one is to take its place. An order to end goes on to the worker,
/// and is written into the lock's file at once: a worker that hangs may never end in order.
fn is_over(worker: Pid, orders: &Orders, lock: &File) -> bool {
    let mut is_told = false;
    loop {
        match waitpid(worker, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(_, code)) => return is_told || code == 0,
            Ok(WaitStatus::Signaled(..)) => return is_told,
            Ok(_) => {}
            Err(_) => return is_told,
        }
        orders.wait();
        if orders.is_told_to_end() {
            is_told = true;
            Holder::tell(lock);
            // A worker that has just ended needs no order.
            let _ = nix::sys::signal::kill(worker, Signal::SIGTERM);
        }
    }
}

/// Looks a name up that no part of the C library knows. A thread does it: without a name server it takes long.
fn load_resolver() {
    let (give, take) = std::sync::mpsc::channel();
    let looked = std::thread::Builder::new().stack_size(STACK).spawn(move || {
        let _ = ("coracle.invalid", 0).to_socket_addrs().map(Iterator::count);
        let _ = give.send(());
    });
    if looked.is_ok() {
        let _ = take.recv_timeout(RESOLVER);
    }
}

/// The worker's work.
fn work(root: &Path, lock: File) -> ExitCode {
    // The C library loads the parts that look names up now: later nothing new may be executed. No part knows the name, so that
    // the library asks, and loads, each; the answer of a name server is not awaited for long.
    load_resolver();
    let stop = orders::of_worker().and_then(|stop| confine::allow_only_delivery().map(|()| stop));
    let stop = match stop {
        Ok(stop) => Arc::new(stop),
        Err(error) => return give_up(root, &error),
    };
    let spawn: Spawn = Box::new(|work| {
        let builder = std::thread::Builder::new().name("coracle-courier".into()).stack_size(STACK);
        builder.spawn(work).is_ok()
    });
    run_until_done(root, lock, stop, &Proxies::of_environment(), &spawn);
    ExitCode::SUCCESS
}
