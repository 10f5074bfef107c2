//! A call that was begun with an operation that does not block: its way to its answer, and one descriptor to poll for.

use crate::answer::{Answer, Wait};
use crate::entry::{Area, catch};
use crate::failure::{Failure, Outcome};
use crate::pool::{self, Job};
use crate::reader::eventfd;
use crate::root::Root;
use crate::using::Using;
use crate::work::Work;
use engine::Op;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The state of such an operation.
pub(crate) struct Begun {
    op: Op,
    /// An epoll descriptor over the next three, and over that of a wait.
    poll: OwnedFd,
    /// Readable while there is an answer.
    ready: OwnedFd,
    /// Readable when the deadline of the operation or of a wait has passed.
    timer: OwnedFd,
    inner: Mutex<Inner>,
}

struct Inner {
    state: State,
    deadline: Option<Instant>,
    /// The area of the call.
    area: Option<Area>,
}

enum State {
    /// No call was begun, or its answer was taken.
    Idle,
    /// The call stands in line for a thread.
    Queued,
    Runs,
    /// The call waits for something without a thread; the descriptor is that in the epoll set.
    Waits(Box<dyn Wait>, RawFd),
    Answered(Box<Outcome<Answer>>),
}

impl Begun {
    pub(crate) fn new(op: Op) -> Outcome<Begun> {
        // SAFETY: no pointers; the kernel just made the descriptor for us.
        let poll = owned(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) }, "epoll")?;
        // SAFETY: as above.
        let timer = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC | libc::TFD_NONBLOCK) };
        let (ready, timer) = (eventfd(0)?, owned(timer, "timer")?);
        let inner = Mutex::new(Inner { state: State::Idle, deadline: None, area: None });
        let begun = Begun { op, poll, ready, timer, inner };
        begun.watch(begun.ready.as_raw_fd())?;
        Ok(begun)
    }

    /// The descriptor that is readable when [`Begun::result`] has something to do.
    pub(crate) fn fd(&self) -> RawFd {
        self.poll.as_raw_fd()
    }

    /// Puts a call in line for a thread.
    pub(crate) fn begin(self: &Arc<Begun>, area: Area, root: Option<Root>, work: Work) -> Outcome<()> {
        let mut inner = self.lock();
        if !matches!(inner.state, State::Idle) {
            return Err(Failure::misuse("op has a call already, or the answer of that call was not taken"));
        }
        self.op.check()?;
        let watched = self.watch_operation(&inner).and_then(|()| match &work {
            Work::Wait(wait) => self.watch(wait.fd()),
            _ => Ok(()),
        });
        watched.inspect_err(|_| self.leave_operation())?;
        inner.area = Some(area);
        let work = match work {
            Work::Wait(wait) => {
                inner.state = State::Waits(wait, -1);
                self.arm_wait(&mut inner);
                return Ok(());
            }
            run => run,
        };
        inner.state = State::Queued;
        drop(inner);
        self.submit(root, work)
    }

    /// Runs a call, on a thread of the pool.
    fn run(&self, work: Work, root: Option<Root>) {
        let mut inner = self.lock();
        // The call was given up in the line.
        if !matches!(inner.state, State::Queued) {
            return;
        }
        inner.state = State::Runs;
        drop(inner);
        let result = catch(|| {
            let using = Using::of(&self.op);
            using.check()?;
            work.run(&using)
        });
        if let (Some(root), Err(failure)) = (&root, &result) {
            root.note_defect(failure);
        }
        // The engine may end here: before the answer, so that the caller finds it ended.
        drop(root);
        let mut inner = self.lock();
        inner.state = match result {
            // A look at a call whose operation ended while the call ran stopped watching the operation.
            Ok(Answer { wait: Some(wait), .. }) => {
                match self.watch(wait.fd()).and_then(|()| self.watch_operation(&inner)) {
                    Ok(()) => State::Waits(wait, -1),
                    Err(failure) => State::Answered(Box::new(Err(failure))),
                }
            }
            result => State::Answered(Box::new(result)),
        };
        match inner.state {
            State::Waits(..) => self.arm_wait(&mut inner),
            _ => self.signal(),
        }
    }

    /// Notes the descriptor of a wait that begins, and sets the timer.
    fn arm_wait(&self, inner: &mut Inner) {
        if let State::Waits(wait, place) = &mut inner.state {
            *place = wait.fd();
        }
        self.set_timer(inner);
    }

    /// The answer; `None`: not yet.
    pub(crate) fn result(self: &Arc<Begun>) -> Outcome<Option<Answer>> {
        let inner = self.lock();
        let area = inner.area;
        self.look(inner).map_err(|failure| area.map_or(failure.clone(), |area| area.mark(failure)))
    }

    fn look(self: &Arc<Begun>, mut inner: MutexGuard<'_, Inner>) -> Outcome<Option<Answer>> {
        match std::mem::replace(&mut inner.state, State::Idle) {
            State::Idle => Err(Failure::misuse("no call was begun with op, or its answer was taken")),
            State::Answered(answer) => {
                self.unsignal();
                self.leave_operation();
                answer.map(Some)
            }
            State::Queued => match self.op.check() {
                Ok(()) => Ok(self.again(inner, State::Queued)),
                Err(error) => {
                    self.leave_operation();
                    Err(error.into())
                }
            },
            State::Runs => {
                // The call ends soon if the operation did: until then its descriptor must not keep a loop busy.
                if self.op.check().is_err() {
                    self.leave_operation();
                }
                Ok(self.again(inner, State::Runs))
            }
            State::Waits(wait, place) => self.go_on(inner, wait, place),
        }
    }

    fn go_on(
        self: &Arc<Begun>,
        inner: MutexGuard<'_, Inner>,
        mut wait: Box<dyn Wait>,
        place: RawFd,
    ) -> Outcome<Option<Answer>> {
        let step = match self.op.check() {
            Ok(()) => catch(|| wait.step()),
            Err(error) => {
                wait.give_up();
                Err(error.into())
            }
        };
        self.forget(place);
        let step = match step {
            Ok(None) => self.watch(wait.fd()).map(|()| None),
            step => step,
        };
        if matches!(step, Ok(None)) {
            let place = wait.fd();
            return Ok(self.again(inner, State::Waits(wait, place)));
        }
        match step {
            Ok(Some(Answer { then: Some(run), .. })) => self.queue(inner, Work::Run(run, false)),
            step => {
                self.leave_operation();
                step
            }
        }
    }

    /// Puts the rest of a call in line for a thread.
    fn queue(self: &Arc<Begun>, mut inner: MutexGuard<'_, Inner>, work: Work) -> Outcome<Option<Answer>> {
        inner.state = State::Queued;
        self.set_timer(&inner);
        drop(inner);
        self.submit(None, work).map(|()| None)
    }

    /// Puts the call in line for a thread. A call that no thread takes has ended: neither a cancel nor a deadline makes the descriptor readable any more.
    fn submit(self: &Arc<Begun>, root: Option<Root>, work: Work) -> Outcome<()> {
        let (begun, is_long) = (self.clone(), work.is_long());
        let job = Job { is_long, run: Box::new(move || begun.run(work, root)) };
        pool::submit(job).inspect_err(|_| {
            self.lock().state = State::Idle;
            self.leave_operation();
        })
    }

    /// Not yet: the state stays.
    fn again(&self, mut inner: MutexGuard<'_, Inner>, state: State) -> Option<Answer> {
        inner.state = state;
        if matches!(inner.state, State::Waits(..)) {
            self.set_timer(&inner);
        }
        None
    }

    /// Bounds the operation.
    pub(crate) fn set_timeout(&self, timeout: Option<Duration>) {
        let mut inner = self.lock();
        inner.deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        if !matches!(inner.state, State::Idle | State::Answered(_)) {
            self.set_timer(&inner);
        }
    }

    /// Ends the call that is under way, if there is one.
    pub(crate) fn give_up(&self) {
        let mut inner = self.lock();
        match std::mem::replace(&mut inner.state, State::Idle) {
            State::Queued => {}
            State::Waits(mut wait, _) => wait.give_up(),
            State::Runs => {
                self.op.cancel();
                inner.state = State::Runs;
            }
            State::Idle | State::Answered(_) => {}
        }
    }

    /// From the beginning of a call to its answer a cancel and a deadline make the descriptor readable, too.
    fn watch_operation(&self, inner: &Inner) -> Outcome<()> {
        self.set_timer(inner);
        self.watch(self.timer.as_raw_fd())?;
        self.watch(self.op.cancel_fd().as_raw_fd())
    }

    fn leave_operation(&self) {
        self.forget(self.timer.as_raw_fd());
        self.forget(self.op.cancel_fd().as_raw_fd());
    }

    fn set_timer(&self, inner: &Inner) {
        let wait = match &inner.state {
            State::Waits(wait, _) => wait.deadline(),
            _ => None,
        };
        // A timer of no time at all is off: one that is due gets a nanosecond.
        let due = [inner.deadline, wait].into_iter().flatten().min();
        let left = due
            .map_or(Duration::ZERO, |due| due.saturating_duration_since(Instant::now()).max(Duration::from_nanos(1)));
        let zero = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let value = libc::timespec {
            tv_sec: libc::time_t::try_from(left.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: left.subsec_nanos().into(),
        };
        let setting = libc::itimerspec { it_interval: zero, it_value: value };
        // SAFETY: the setting lives over the call.
        unsafe { libc::timerfd_settime(self.timer.as_raw_fd(), 0, &raw const setting, std::ptr::null_mut()) };
    }

    fn watch(&self, fd: RawFd) -> Outcome<()> {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
        // SAFETY: the event lives over the call.
        match unsafe { libc::epoll_ctl(self.poll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &raw mut event) } {
            0 => Ok(()),
            _ => match std::io::Error::last_os_error() {
                error if error.raw_os_error() == Some(libc::EEXIST) => Ok(()),
                error => Err(engine::Error::io("watch a descriptor", &error).into()),
            },
        }
    }

    /// Also for one that is closed and so not in the set any more.
    fn forget(&self, fd: RawFd) {
        // SAFETY: no pointers are read for this request.
        unsafe { libc::epoll_ctl(self.poll.as_raw_fd(), libc::EPOLL_CTL_DEL, fd, std::ptr::null_mut()) };
    }

    fn signal(&self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: the buffer lives over the call. A counter that is full is readable too.
        unsafe { libc::write(self.ready.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    fn unsignal(&self) {
        let mut count = [0u8; 8];
        // SAFETY: the buffer lives over the call. The descriptor does not block.
        unsafe { libc::read(self.ready.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn owned(fd: RawFd, name: &str) -> Outcome<OwnedFd> {
    match fd {
        // SAFETY: the caller's call just made it.
        0.. => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(engine::Error::io(name, &std::io::Error::last_os_error()).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    /// A wait for a descriptor that is never readable.
    struct Never(OwnedFd);

    impl Wait for Never {
        fn fd(&self) -> RawFd {
            self.0.as_raw_fd()
        }
        fn step(&mut self) -> Outcome<Option<Answer>> {
            Ok(None)
        }
    }

    fn is_readable(fd: RawFd, milliseconds: i32) -> bool {
        let mut polled = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry, which lives over the call.
        unsafe { libc::poll(&raw mut polled, 1, milliseconds) == 1 }
    }

    /// A call is cancelled and looked at while a thread runs it, and then waits.
    #[test]
    fn a_cancel_while_a_call_begins_to_wait_makes_the_descriptor_readable() {
        let op = Op::new().unwrap();
        let begun = Arc::new(Begun::new(op.clone()).unwrap());
        let (running, runs) = channel();
        let (go, told) = channel::<()>();
        let work = crate::work::work(move |_| {
            running.send(()).unwrap();
            told.recv().unwrap();
            let mut answer = Answer::default();
            answer.wait = Some(Box::new(Never(eventfd(0)?)));
            Ok(answer)
        });
        begun.begin(Area::of_caller(), None, work.unwrap()).unwrap();
        runs.recv().unwrap();
        op.cancel();
        assert!(is_readable(begun.fd(), 10_000) && begun.result().unwrap().is_none());
        assert!(!is_readable(begun.fd(), 0), "a call that runs must not keep a loop busy");
        go.send(()).unwrap();
        assert!(is_readable(begun.fd(), 10_000), "nothing wakes the caller");
        let failure = begun.result().err().unwrap();
        assert!(failure.message.contains("cancel"), "{}", failure.message);
    }
}
