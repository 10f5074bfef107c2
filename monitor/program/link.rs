//! The launcher's side of the worker: starts it, gives it orders, grants its requests, starts another one when it dies.
//!
//! All messages have a fixed size, and descriptors (`message`). An order may want an answer; a request (the next file
//! of the log, a socket in the container's network) always gets one, a notice none. While the launcher waits for an
//! answer of the worker it grants the worker's requests, so that neither waits for the other.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::fd::{Fd, close_all};
use crate::in_force::InForce;
use crate::launcher::Launcher;
use crate::message::*;
use crate::ops::Plan;
use crate::rotate::Files;
use crate::subjects::{REQUEST, token};
use crate::successors::Successors;
use crate::sys::{self, *};
use crate::timers;
use crate::walls::Wall;
use crate::wire::*;
use crate::worker::{self, Worker};

/// How long the worker may take to answer. The disk may hold up its writes.
const PATIENCE_S: i64 = 60;

/// The launcher's hold of the worker.
pub struct Link {
    /// The tables that a new worker begins with. The launcher has copies of the descriptors in them.
    pub worker: Worker,
    /// The log's files.
    pub files: Files,
    epoll: i32,
    /// 0: there is no worker.
    pid: i32,
    /// The launcher's end and the worker's.
    orders: [Fd; 2],
    requests: [Fd; 2],
    /// The worker's first notice has come: its rights are given up.
    confined: bool,
    next: Successors,
    /// The pidfd of the container's first process, whose network sockets come from; below 0: there is none.
    inside: i32,
    /// The container's network goes on without a process in it.
    network_goes_on: bool,
    /// Records of the log that could not be written.
    lost: u64,
    /// The part of them that earlier workers lost.
    lost_before: u64,
    under_way: Option<&'static [AtomicU64; 2]>,
    had_clients: bool,
    /// A worker died since the last look.
    died: bool,
}

impl Link {
    /// # Safety
    /// `place` is valid for writing and zero, and nothing refers to it.
    pub unsafe fn init(place: *mut Link) {
        // SAFETY: within the structure; zeroes are values of all other fields.
        unsafe {
            Worker::init(&raw mut (*place).worker);
            (&raw mut (*place).files).write(Files::NONE);
            (&raw mut (*place).orders).write([Fd::NONE; 2]);
            (&raw mut (*place).requests).write([Fd::NONE; 2]);
            (&raw mut (*place).under_way).write(None);
            (&raw mut (*place).inside).write(-1);
        }
    }

    /// Opens the way to a worker. Orders that come before it runs wait there.
    pub fn open(&mut self, epoll: i32) -> Result<()> {
        self.epoll = epoll;
        self.orders = sys::socketpair()?.map(Fd::new);
        self.requests = sys::socketpair()?.map(Fd::new);
        sys::limit_sends(self.orders[0].raw(), PATIENCE_S);
        sys::limit_sends(self.requests[0].raw(), PATIENCE_S);
        if self.under_way.is_none() {
            self.under_way = Some(sys::map_shared()?);
        }
        sys::epoll_ctl(self.epoll, ADD, self.requests[0].raw(), EPOLLIN, token(REQUEST, 0))
    }

    pub fn has_worker(&self) -> bool {
        self.pid > 0
    }

    /// Whether orders wait for the first worker.
    pub fn awaits_worker(&self) -> bool {
        self.pid == 0 && self.orders[1].is_open()
    }

    /// Starts a worker, unless there is one.
    pub fn start(&mut self) -> Result<()> {
        if self.pid > 0 {
            return Ok(());
        }
        self.next.starting();
        if !self.orders[0].is_open() {
            self.open(self.epoll)?;
        }
        let log = &mut self.worker.outputs.log;
        if self.worker.flags & FLAG_LOG != 0 && log.file.fd < 0 {
            log.file = self.files.open()?;
        }
        log.file.launcher = Launcher::new(self.requests[1].raw());
        log.under_way = self.under_way;
        let (pid, pidfd) = sys::fork(0, None)?;
        if pid == 0 {
            let runs = self.inside >= 0;
            worker::run(&mut self.worker, self.orders[1].raw(), Launcher::new(self.requests[1].raw()), runs);
        }
        sys::close(pidfd);
        (self.pid, self.confined) = (pid, false);
        self.next.started(sys::monotonic());
        self.orders[1].close();
        self.requests[1].close();
        Fd::new(core::mem::replace(&mut self.worker.outputs.log.file.fd, -1)).close();
        Ok(())
    }

    /// A worker for an order: also before its time, unless one after the other died.
    fn have(&mut self) -> Result<()> {
        if self.next.may_start(sys::monotonic()) { self.start() } else { Err(EIO) }
    }

    /// Waits until the worker says that its rights are given up. An error: why they could not be.
    pub fn await_confined(&mut self) -> Result<()> {
        const TRIES: u32 = 3;
        for _ in 0..TRIES {
            if self.confined || !Wall::WorkerConfirmed.stands() {
                return Ok(());
            }
            match self.first_notice()? {
                Some(0) => self.confined = true,
                Some(errno) => return Err(errno),
                // The worker was killed.
                None => {
                    self.end();
                    self.start()?;
                }
            }
        }
        if self.confined { Ok(()) } else { Err(EPIPE) }
    }

    /// The error number in the worker's first notice; none: it ended without one.
    fn first_notice(&mut self) -> Result<Option<i32>> {
        let requests = self.requests[0].raw();
        while let Err(error) = sys::either(requests, requests, PATIENCE_S) {
            if error != EINTR {
                return Err(error);
            }
        }
        let notice = receive(requests).unwrap_or(None);
        Ok(notice.filter(|notice| notice.code == CONFINED).map(|notice| notice.b as i32))
    }

    /// A child ended: whether it was the worker.
    pub fn child_ended(&mut self, pid: i32) -> bool {
        if pid != self.pid || pid == 0 {
            return false;
        }
        self.clear();
        true
    }

    /// Clears up after a worker that died, and counts the records that it had taken and not written.
    fn clear(&mut self) {
        self.pid = 0;
        self.orders.iter_mut().chain(&mut self.requests).for_each(Fd::close);
        let mut under_way = 0;
        for count in self.under_way.into_iter().flatten() {
            under_way += count.swap(0, Ordering::AcqRel).min(1 << 32);
        }
        self.lost = self.lost.saturating_add(under_way);
        self.lost_before = self.lost;
        self.died = true;
        if self.inside >= 0 || self.network_goes_on {
            self.next.died(sys::monotonic());
        }
    }

    fn end(&mut self) {
        if self.pid > 0 {
            sys::kill_group(self.pid);
            sys::wait_for(self.pid);
            self.clear();
        }
    }

    /// When the next worker is to be started; 0: none is.
    pub fn due(&self) -> i64 {
        self.next.due()
    }

    /// Starts a worker in place of one that died, when that is due.
    pub fn tick(&mut self, now: i64) {
        if timers::is_due(self.next.due(), now) && self.start().is_err() {
            self.next.failed(now);
        }
    }

    /// The first process runs, or has ended (below 0).
    pub fn set_inside(&mut self, pidfd: i32) {
        self.inside = pidfd;
    }

    /// Whether the network goes on without a process.
    pub fn set_network_goes_on(&mut self, goes_on: bool) {
        self.network_goes_on = goes_on;
    }

    /// The plan that the monitor was started with.
    pub fn set_first_plan(&mut self, plan: Plan<'static>) {
        self.worker.set_plan(InForce::first(plan));
    }

    /// The container's plan from now on, and its file, for a worker that runs. The plan before is unmapped.
    pub fn replace_plan(&mut self, plan: Plan<'static>, file: i32) {
        self.worker.replace_plan(plan);
        if self.pid > 0 {
            let _ = self.order(Message { code: PLAN, ..Message::default() }, &[file]);
        }
    }

    pub fn plan(&self) -> Plan<'static> {
        self.worker.plan()
    }

    /// Records of the log that could not be written.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Whether a worker died since the last look: the streams of further processes are gone with it.
    pub fn take_death(&mut self) -> bool {
        core::mem::take(&mut self.died)
    }

    /// Gives an order. The descriptors stay open here.
    pub fn order(&mut self, message: Message, fds: &[i32]) -> Result<()> {
        self.had_clients |= message.code == ATTACH || fds.len() > 1;
        self.order_bytes(&message.to_bytes(), fds)
    }

    pub fn order_bytes(&mut self, bytes: &[u8], fds: &[i32]) -> Result<()> {
        let sent = sys::send_fds(self.orders[0].raw(), bytes, fds).map(|_| ());
        if matches!(sent, Err(EAGAIN | EPIPE | ECONNRESET)) && self.pid > 0 {
            // The worker takes no orders, or is gone and not reaped yet.
            self.end();
        }
        sent
    }

    /// Gives an order to the worker, or when it is gone to another one.
    fn insist(&mut self, message: Message, fds: &[i32]) -> Result<()> {
        if self.orders[0].is_open() && self.order(message, fds).is_ok() {
            return Ok(());
        }
        self.have()?;
        self.order(message, fds)
    }

    /// Gives an order with descriptors that are the worker's alone from then on.
    pub fn hand(&mut self, message: Message, fds: &[i32]) -> Result<()> {
        let sent = self.insist(message, fds);
        close_all(fds);
        sent
    }

    /// Gives an order and waits for the answer. If the worker dies before it answers, the next one answers.
    pub fn command(&mut self, message: Message, fds: &[i32]) -> Result<u64> {
        match self.try_command(message, fds) {
            Err(EPIPE) if self.pid == 0 => self.try_command(message, fds),
            answer => answer,
        }
    }

    fn try_command(&mut self, message: Message, fds: &[i32]) -> Result<u64> {
        if self.pid == 0 {
            self.have()?;
        }
        self.insist(message, fds)?;
        loop {
            let ready = match sys::either(self.orders[0].raw(), self.requests[0].raw(), PATIENCE_S) {
                Ok(ready) => ready,
                Err(EINTR) => continue,
                Err(error) => {
                    self.end();
                    return Err(error);
                }
            };
            if ready[1] {
                self.request_ready();
            }
            if self.pid == 0 {
                return Err(EPIPE);
            }
            if ready[0] {
                return match receive(self.orders[0].raw()) {
                    Ok(Some(answer)) => answer.answered(),
                    _ => {
                        self.end();
                        Err(EPIPE)
                    }
                };
            }
        }
    }

    /// A request or a notice is there, or the worker is gone, which the end of the child reports.
    pub fn request_ready(&mut self) {
        let requests = self.requests[0].raw();
        let message = match receive(requests) {
            Ok(Some(message)) => message,
            Err(EAGAIN) => return,
            _ => {
                let _ = sys::epoll_ctl(self.epoll, REMOVE, requests, 0, 0);
                return;
            }
        };
        let granted = match message.code {
            ROTATE => self.files.rotate(message.b, message.c).ok_or(EIO),
            SOCKET => inside_socket(self.inside, message.a != 0, message.b != 0),
            LOST => return self.lost = self.lost.max(self.lost_before.saturating_add(message.b)),
            CLOSED => return self.worker.stdin.close(),
            CONFINED => return self.confined = message.b == 0,
            _ => Err(ENOSYS),
        };
        let fd = Fd::new(granted.unwrap_or(-1));
        let answer = Message::answer(granted.map(|_| 0));
        let given = if fd.is_open() { &[fd.raw()][..] } else { &[] };
        if sys::send_fds(requests, &answer.to_bytes(), given) == Err(EAGAIN) {
            self.end();
        }
    }

    /// Clients alone are left, which have so long; then the worker ends.
    pub fn linger(&mut self, millis: i32) {
        if self.pid > 0 && self.had_clients {
            let _ = self.command(Message { code: LINGER, b: millis as u64, ..Message::default() }, &[]);
        }
        self.end();
    }

    /// Reads and logs all output of the container's processes; one worker may die of that.
    pub fn stop_streams(&mut self) {
        let stop = Message { code: STOP, ..Message::default() };
        // All output that is there is read, however many workers died.
        self.next.forgive();
        // Before the first worker nothing ran that wrote.
        if self.pid > 0 || !self.orders[1].is_open() && self.worker.sources.iter().any(Fd::is_open) {
            let _ = self.command(stop, &[]).or_else(|_| self.command(stop, &[]));
        }
        self.worker.sources.iter_mut().for_each(Fd::close);
        self.worker.stdin.close();
    }
}

/// One message without descriptors. None: the other end is closed, or the bytes are not a message.
fn receive(socket: i32) -> Result<Option<Message>> {
    let (mut bytes, mut fds) = ([0; MESSAGE], [-1; MAX_FDS]);
    let got = sys::recv_fds(socket, &mut bytes, &mut fds, false);
    close_all(&fds);
    got.map(|(length, _)| Message::from_bytes(&bytes[..length]))
}

/// A socket in the network namespace of a process.
fn inside_socket(pidfd: i32, tcp: bool, v6: bool) -> Result<i32> {
    let home = Fd::new(sys::openat(AT_FDCWD, b"/proc/self/ns/net\0", O_RDONLY, 0)?);
    sys::setns(pidfd, CLONE_NEWNET)?;
    let made = if v6 { sys::internet6(tcp) } else { sys::internet(tcp) };
    if sys::setns(home.raw(), CLONE_NEWNET).is_err() {
        // Nothing of the host's may be done from the container's network.
        sys::exit(1);
    }
    made
}
