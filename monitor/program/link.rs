//! The launcher's side of the worker: starts it, gives it orders, grants its requests, starts another one when it dies.
//!
//! All messages have a fixed size, and descriptors (`message`). An order may want an answer; a request (the next file
//! of the log, a socket in the container's network) always gets one, a notice none. While the launcher waits for an
//! answer of the worker it grants the worker's requests, so that neither waits for the other.

use crate::buffered::Buffered;
use crate::fd::{Fd, close_all};
use crate::inside::Inside;
use crate::launcher::Launcher;
use crate::lost::Lost;
use crate::message::*;
use crate::ops::Plan;
use crate::rotate::Files;
use crate::shipping::Shipping;
use crate::sys::{self, *};
use crate::timers;
use crate::walls::Wall;
use crate::ways::{PATIENCE_S, Ways};
use crate::wire::*;
use crate::worker::{self, Worker};
use crate::worker_life::WorkerLife;

/// More messages than a socket holds.
const MOST_NOTICES: u32 = 1024;

/// The launcher's hold of the worker.
pub struct Link {
    /// The tables that a new worker begins with. The launcher has copies of the descriptors in them.
    pub worker: Worker,
    /// The log's files.
    pub files: Files,
    /// The container's network, for which the worker requests sockets.
    pub inside: Inside,
    /// Records of the log that could not be written.
    pub lost: Lost,
    /// The writer of a log that holds nobody up.
    pub buffered: Buffered,
    pub life: WorkerLife,
    pub ways: Ways,
    /// The program that delivers the log.
    pub shipping: Shipping,
    had_clients: bool,
}

impl Link {
    /// # Safety
    /// `place` is valid for writing and zero, and nothing refers to it.
    pub unsafe fn init(place: *mut Link) {
        // SAFETY: within the structure; zeroes are values of all other fields.
        unsafe {
            Worker::init(&raw mut (*place).worker);
            (&raw mut (*place).files).write(Files::NONE);
            (&raw mut (*place).inside).write(Inside::NONE);
            Buffered::init(&raw mut (*place).buffered);
        }
    }

    /// Whether orders wait for the first worker.
    pub fn awaits_worker(&self) -> bool {
        !self.life.runs() && self.ways.await_worker()
    }

    /// Starts a worker, unless there is one.
    pub fn start(&mut self) -> Result<()> {
        if self.life.runs() {
            return Ok(());
        }
        self.life.starting();
        if !self.ways.is_open() {
            self.ways.open()?;
        }
        if self.lost.under_way().is_none() {
            self.lost.share(sys::map_shared()?);
        }
        let (orders, requests) = self.ways.of_worker();
        let log = &mut self.worker.outputs.log;
        if self.buffered.has_ring() {
            self.buffered.start(&mut self.files, self.worker.run_dir);
        } else if self.worker.flags & FLAG_LOG != 0 && log.file.fd < 0 {
            log.file = self.files.open()?;
        }
        log.file.launcher = Launcher::new(requests);
        log.under_way = self.lost.under_way();
        let (pid, pidfd) = sys::fork(0, None)?;
        if pid == 0 {
            worker::run(&mut self.worker, orders, Launcher::new(requests), self.inside.runs());
        }
        sys::close(pidfd);
        self.life.started(pid, sys::monotonic());
        self.ways.close_of_worker();
        Fd::new(core::mem::replace(&mut self.worker.outputs.log.file.fd, -1)).close();
        Ok(())
    }

    /// A worker for an order: also before its time, unless one after the other died.
    fn start_for_order(&mut self) -> Result<()> {
        if self.life.may_start(sys::monotonic()) { self.start() } else { Err(EIO) }
    }

    /// Waits until the worker says that its rights are given up. An error: why they could not be.
    pub fn await_confined(&mut self) -> Result<()> {
        const TRIES: u32 = 3;
        for _ in 0..TRIES {
            if self.life.is_confined() || !Wall::WorkerConfirmed.stands() {
                return Ok(());
            }
            match self.ways.first_notice()? {
                Some(0) => self.life.confined(0),
                Some(errno) => return Err(errno),
                // The worker was killed.
                None => {
                    self.end();
                    self.start()?;
                }
            }
        }
        if self.life.is_confined() { Ok(()) } else { Err(EPIPE) }
    }

    /// A child ended: whether it was the worker.
    pub fn child_ended(&mut self, pid: i32) -> bool {
        let was_worker = self.life.pid() == Some(pid);
        if was_worker {
            self.clear();
        }
        was_worker
    }

    /// Clears up after a worker that died, and counts the records that it had taken and not written.
    fn clear(&mut self) {
        self.ways.close();
        self.lost.worker_died();
        // The worker may have died on its way to wake the writer.
        self.buffered.wake();
        self.life.died(sys::monotonic(), self.inside.runs() || self.inside.goes_on);
    }

    fn end(&mut self) {
        if let Some(pid) = self.life.pid() {
            sys::kill_group(pid);
            sys::wait_for(pid);
            self.clear();
        }
    }

    /// Starts a worker or a writer in place of one that died, when that is due.
    pub fn tick(&mut self, now: i64) {
        self.shipping.tick(now, self.worker.run_dir);
        self.buffered.tick(&mut self.files, self.worker.run_dir, now);
        if timers::is_due(self.life.due(), now) && self.start().is_err() {
            self.life.failed(now);
        }
    }

    pub fn plan(&self) -> Plan<'static> {
        self.worker.plan()
    }

    /// The container's plan from now on, and its file, for a worker that runs. The plan before is unmapped.
    pub fn replace_plan(&mut self, plan: Plan<'static>, file: i32) {
        self.worker.replace_plan(plan);
        if self.life.runs() {
            let _ = self.order(Message { code: PLAN, ..Message::default() }, &[file]);
        }
    }

    /// Gives an order. The descriptors stay open here.
    pub fn order(&mut self, message: Message, fds: &[i32]) -> Result<()> {
        self.had_clients |= message.code == ATTACH || fds.len() > 1;
        self.order_bytes(&message.to_bytes(), fds)
    }

    pub fn order_bytes(&mut self, bytes: &[u8], fds: &[i32]) -> Result<()> {
        let sent = self.ways.send_order(bytes, fds);
        if matches!(sent, Err(EAGAIN | EPIPE | ECONNRESET)) {
            // The worker takes no orders, or is gone and not reaped yet.
            self.end();
        }
        sent
    }

    /// Gives an order to the worker, or when it is gone to another one.
    fn insist(&mut self, message: Message, fds: &[i32]) -> Result<()> {
        if self.ways.is_open() && self.order(message, fds).is_ok() {
            return Ok(());
        }
        self.start_for_order()?;
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
            Err(EPIPE) if !self.life.runs() => self.try_command(message, fds),
            answer => answer,
        }
    }

    fn try_command(&mut self, message: Message, fds: &[i32]) -> Result<u64> {
        if !self.life.runs() {
            self.start_for_order()?;
        }
        self.insist(message, fds)?;
        let until = sys::monotonic() + PATIENCE_S * 1_000_000_000;
        loop {
            let waiting = self.ways.wait(self.buffered.socket(), until).inspect_err(|_| self.end())?;
            if waiting.of_writer {
                self.buffered.request_ready(&mut self.files);
            }
            if waiting.request {
                self.request_ready();
            }
            if !self.life.runs() {
                return Err(EPIPE);
            }
            if waiting.answer {
                let Ok(answer) = self.ways.receive_answer() else {
                    self.end();
                    return Err(EPIPE);
                };
                return answer.answered();
            }
        }
    }

    /// A request or a notice is there, or the worker is gone.
    pub fn request_ready(&mut self) {
        if let Some(message) = self.ways.receive_request() {
            self.grant(message);
        }
    }

    fn grant(&mut self, message: Message) {
        let granted = match message.code {
            ROTATE => {
                let next = self.files.rotate(message.b, message.c);
                if next.is_ok() {
                    self.files.rotated(message.b, message.c);
                }
                next
            }
            SOCKET => self.inside.socket(message.a != 0, message.b != 0),
            // The number of dropped records is in the ring.
            LOST if self.buffered.has_ring() => return,
            LOST => return self.lost.reported(message.b),
            CLOSED => return self.worker.stdin.close(),
            CONFINED => return self.life.confined(message.b as i32),
            _ => Err(ENOSYS),
        };
        let answered = self.ways.answer(granted);
        drop(granted.map(Fd::new));
        if answered == Err(EAGAIN) {
            self.end();
        }
    }

    /// Clients alone are left, which have so long; then the worker ends.
    pub fn linger(&mut self, millis: i32) {
        if self.life.runs() && self.had_clients {
            let _ = self.command(Message { code: LINGER, b: millis as u64, ..Message::default() }, &[]);
        }
        self.end();
        self.buffered.end(&mut self.files);
    }

    /// Reads and logs all output of the container's processes; one worker may die of that.
    pub fn stop_streams(&mut self) {
        let stop = Message { code: STOP, ..Message::default() };
        // All output that is there is read, however many workers died.
        self.life.forgive();
        // Before the first worker nothing ran that wrote.
        if self.life.runs() || !self.ways.await_worker() && self.worker.sources.iter().any(Fd::is_open) {
            let _ = self.command(stop, &[]).or_else(|_| self.command(stop, &[]));
        }
        self.worker.sources.iter_mut().for_each(Fd::close);
        self.worker.stdin.close();
        if self.buffered.has_ring() {
            // More does not wait in the socket: a worker that goes on sending holds nobody up.
            for _ in 0..MOST_NOTICES {
                let Some(message) = self.ways.receive_request() else { break };
                self.grant(message);
            }
            self.buffered.drain(&mut self.files, self.worker.run_dir);
        }
    }
}
