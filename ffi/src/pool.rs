//! The threads that calls with operations that do not block run on: at most [`MOST_THREADS`], and soon none without work.

use crate::failure::Outcome;
use crate::handle;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Threads of one process.
const MOST_THREADS: usize = 16;
/// Calls that last as long as others like (a registry, a build, a request for the end of a container) leave some threads
/// to calls that end by themselves: a stop must begin while requests wait for the end of that container.
const MOST_LONG: usize = 12;
/// A thread without a job waits so long for the next one: a call after the other costs no thread each.
const LINGER: Duration = Duration::from_millis(20);

/// A call that is to run.
pub(crate) struct Job {
    pub(crate) run: Box<dyn FnOnce() + Send>,
    /// Whether it lasts as long as somebody else likes.
    pub(crate) is_long: bool,
}

struct Pool {
    /// The process that made it: the threads of a parent are not there in a forked child.
    pid: u32,
    inner: Mutex<Inner>,
    /// There is a new job.
    more: Condvar,
}

#[derive(Default)]
struct Inner {
    jobs: VecDeque<Job>,
    threads: usize,
    /// Threads without a job, for a moment.
    idle: usize,
    long: usize,
}

/// Runs a job on a thread of the pool, as soon as one is free.
pub(crate) fn submit(job: Job) -> Outcome<()> {
    let pool = pool();
    let mut inner = pool.lock();
    inner.jobs.push_back(job);
    pool.more.notify_one();
    if inner.idle >= inner.jobs.len() || inner.threads == MOST_THREADS {
        return Ok(());
    }
    inner.threads += 1;
    inner.idle += 1;
    let alone = inner.threads == 1;
    drop(inner);
    let started = crate::thread::spawn("op", move || pool.serve());
    if let Err(failure) = started {
        let mut inner = pool.lock();
        inner.threads -= 1;
        inner.idle -= 1;
        // Other threads come to it.
        if alone && let Some(job) = inner.jobs.pop_back() {
            drop(inner);
            drop(job);
            return Err(failure);
        }
    }
    Ok(())
}

impl Pool {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs jobs until there is none for this thread.
    fn serve(&self) {
        let mut inner = self.lock();
        while let (guard, Some(job)) = self.take(inner) {
            inner = guard;
            let long = job.is_long;
            inner.long += usize::from(long);
            inner.idle -= 1;
            drop(inner);
            (job.run)();
            inner = self.lock();
            inner.long -= usize::from(long);
            inner.idle += 1;
        }
    }

    /// The next job that may run; `None`: there was none for [`LINGER`], and the thread is not counted any more.
    fn take<'a>(&'a self, mut inner: MutexGuard<'a, Inner>) -> (MutexGuard<'a, Inner>, Option<Job>) {
        let mut has_waited = false;
        loop {
            let job = next(&mut inner);
            if job.is_some() {
                return (inner, job);
            }
            if has_waited {
                inner.threads -= 1;
                inner.idle -= 1;
                return (inner, None);
            }
            let waited = self.more.wait_timeout(inner, LINGER).unwrap_or_else(PoisonError::into_inner);
            (inner, has_waited) = (waited.0, waited.1.timed_out());
        }
    }
}

/// The first job that may run now.
fn next(inner: &mut Inner) -> Option<Job> {
    let room = inner.long < MOST_LONG;
    let place = inner.jobs.iter().position(|job| room || !job.is_long)?;
    inner.jobs.remove(place)
}

/// The pool of this process. A forked child makes its own: its parent's may be locked for ever there.
fn pool() -> &'static Pool {
    static POOL: AtomicPtr<Pool> = AtomicPtr::new(std::ptr::null_mut());
    let pid = handle::own_pid();
    let known = POOL.load(Ordering::Acquire);
    // SAFETY: a pool that was published stays for ever.
    if let Some(pool) = unsafe { known.as_ref() }.filter(|pool| pool.pid == pid) {
        return pool;
    }
    let new = Box::into_raw(Box::new(Pool { pid, inner: Mutex::default(), more: Condvar::new() }));
    match POOL.compare_exchange(known, new, Ordering::AcqRel, Ordering::Acquire) {
        // SAFETY: as above.
        Ok(_) => unsafe { &*new },
        Err(other) => {
            // SAFETY: nobody saw the new one; the other one stays for ever.
            unsafe {
                drop(Box::from_raw(new));
                &*other
            }
        }
    }
}
