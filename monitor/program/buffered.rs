//! A log that holds nobody up (`mode=non-blocking`), from the launcher's side: the ring between the worker and the log's
//! writer, and the writer's life.
//!
//! The launcher touches no file of such a log after the start, because a disk that does not answer must hold up neither
//! the container nor the requests of clients: the writer opens its own file before it gives up its rights, and a child
//! of the launcher begins each next file. The launcher waits for such a child only at the end of the container, and each
//! time for a bounded time, because a child that waits for the disk does not end when it is killed. Clients wait
//! while the buffer is written out at the end.

use crate::fd::Fd;
use crate::logfile::LogFile;
use crate::message::*;
use crate::ring::{Bound, NUMBERS, Ring};
use crate::rotate::{self, Files, ROTATION_FAILED};
use crate::shared::{self, LogRing};
use crate::subjects::{WRITER, token};
use crate::sys::{self, *};
use crate::timers;
use crate::ways::{self, PATIENCE_S};
use crate::worker_life::WorkerLife;
use crate::writer::{self, Begins};

/// The largest buffer: more address space may not be there.
const MOST: u64 = 1 << 40;
/// The memory of a buffer has room for so many times its lines: short ones take the most room as records.
const ROOM: u64 = 16;
/// How long the end of the monitor waits for a child that was told to end, in seconds.
const FAREWELL_S: i64 = 1;
/// How often the end of a container waits for a writer that goes on writing, [`PATIENCE_S`] each time.
const WAITS: u32 = 10;

/// The launcher's hold of the ring and the writer.
pub struct Buffered {
    ring: Option<LogRing>,
    /// The file that the first writer begins with.
    file: LogFile,
    /// The launcher's end of the way to the writer.
    socket: Fd,
    pidfd: Fd,
    epoll: i32,
    life: WorkerLife,
    /// Records that were in the ring when the container had ended, and that nobody will write.
    given_up: u64,
    rotation: Option<Rotation>,
    /// A request for the next file that came while a child began another one: records and bytes of the present file.
    asked: Option<(u64, u64)>,
    /// No writer follows.
    over: bool,
}

/// The child that begins the next file, and how many records and bytes the present one has.
struct Rotation {
    pid: i32,
    pidfd: Fd,
    records: u64,
    size: u64,
}

impl Buffered {
    /// # Safety
    /// `place` is valid for writing and zero, and nothing refers to it.
    pub unsafe fn init(place: *mut Buffered) {
        // SAFETY: within the structure; zeroes are values of all other fields.
        unsafe {
            (&raw mut (*place).ring).write(None);
            (&raw mut (*place).file).write(LogFile::NONE);
            (&raw mut (*place).rotation).write(None);
            (&raw mut (*place).asked).write(None);
        }
    }

    /// Makes the ring, for a log that is written into this file. Answers the worker's file.
    pub fn begin(&mut self, most: u64, log: (usize, usize), file: LogFile) -> Result<LogFile> {
        let (longest, around) = log;
        let lines = most.min(MOST);
        let (numbers, memory) = shared::map::<NUMBERS>((ROOM * lines) as usize + longest)?;
        let bytes = Ring::new(numbers, memory, Bound { lines, around: around as u64 });
        bytes.begin(file.size);
        self.ring = Some(LogRing { bytes, longest });
        self.file = file;
        Ok(LogFile { ring: self.ring, ..LogFile::NONE })
    }

    pub fn has_ring(&self) -> bool {
        self.ring.is_some()
    }

    /// The launcher's set of events, which the writer's messages join.
    pub fn set_epoll(&mut self, epoll: i32) {
        self.epoll = epoll;
    }

    /// Records that had no room, could not be written, or never were written.
    pub fn lost(&self) -> u64 {
        self.given_up.saturating_add(self.ring.map_or(0, |ring| ring.bytes.lost()))
    }

    /// Wakes the writer, whether or not anything is there.
    pub fn wake(&self) {
        if let Some(ring) = self.ring {
            ring.wake();
        }
    }

    /// When a writer is to be started; 0 if none is.
    pub fn due(&self) -> i64 {
        self.life.due()
    }

    /// The writer's socket; below 0 if there is none.
    pub fn socket(&self) -> i32 {
        self.socket.raw()
    }

    /// Starts a writer, or tries it again soon. `root`: a directory that becomes its root.
    pub fn start(&mut self, files: &mut Files, root: i32) {
        if self.try_start(files, root).is_err() {
            self.life.failed(sys::monotonic());
        }
    }

    /// Starts a writer, unless there is one, or the log has no ring.
    fn try_start(&mut self, files: &mut Files, root: i32) -> Result<()> {
        let Some(ring) = self.ring.filter(|_| !self.life.runs() && !self.over) else { return Ok(()) };
        self.life.starting();
        if self.rotation.is_some() {
            // The names of the files change at the moment.
            return Err(EBUSY);
        }
        let [socket, of_writer] = sys::socketpair()?.map(Fd::new);
        sys::limit_sends(socket.raw(), PATIENCE_S);
        sys::epoll_ctl(self.epoll, ADD, socket.raw(), EPOLLIN, token(WRITER, 0))?;
        let launcher = sys::own_pid();
        let (pid, pidfd) = sys::fork(0, None)?;
        let file = core::mem::replace(&mut self.file, LogFile::NONE);
        if pid == 0 {
            writer::run(Begins { ring, file, files, socket: of_writer.raw(), root, launcher });
        }
        Fd::new(file.fd).close();
        self.pidfd.set(pidfd);
        self.life.started(pid, sys::monotonic());
        self.socket = socket;
        Ok(())
    }

    /// Starts a writer in place of one that died, when that is due.
    pub fn tick(&mut self, files: &mut Files, root: i32, now: i64) {
        if timers::is_due(self.due(), now) {
            self.start(files, root);
        }
    }

    /// A request or a notice is there, or the writer is gone.
    pub fn request_ready(&mut self, files: &mut Files) {
        match ways::receive(self.socket.raw()) {
            Ok(Some(Message { code: ROTATE, b, c, .. })) => self.rotate(files, b, c),
            // Also LOST: the number is in the ring.
            Ok(Some(_)) | Err(EAGAIN) => {}
            // The end of the child reports that the writer is gone.
            _ => self.let_go(),
        }
    }

    /// Begins the next file in a child, which answers.
    fn rotate(&mut self, files: &mut Files, records: u64, size: u64) {
        if let Some(Rotation { pid, pidfd, .. }) = &self.rotation {
            // The child answered the request before, and ends now.
            let Some(status) = sys::wait_for_at_most(*pid, pidfd.raw(), 0) else {
                self.asked = Some((records, size));
                return;
            };
            self.rotated(files, status);
        }
        match rotate::rotate_apart(files, records, size, self.socket.raw()) {
            Ok((pid, pidfd)) => self.rotation = Some(Rotation { pid, pidfd, records, size }),
            // Not the reason, because EAGAIN would mean that the files wait for their delivery.
            Err(_) => drop(ways::answer(self.socket.raw(), Err(EIO))),
        }
    }

    fn rotated(&mut self, files: &mut Files, status: i32) {
        let Some(Rotation { records, size, .. }) = self.rotation.take() else { return };
        match status {
            0 => files.rotated(records, size),
            ROTATION_FAILED => {}
            // The writer may wait for an answer that never comes. Another one finds the present file by its name.
            _ => {
                self.asked = None;
                if let Some(pid) = self.life.pid() {
                    sys::kill_group(pid);
                }
            }
        }
        if let Some((records, size)) = self.asked.take() {
            self.rotate(files, records, size);
        }
    }

    /// A child ended: whether it was one of these.
    pub fn child_ended(&mut self, pid: i32, status: i32, files: &mut Files) -> bool {
        if self.rotation.as_ref().is_some_and(|rotation| rotation.pid == pid) {
            self.rotated(files, status);
            return true;
        }
        let was_writer = self.life.pid() == Some(pid);
        if was_writer {
            self.died();
        }
        was_writer
    }

    /// Everything that the writer took out of the ring is in the file or was counted, and the next writer goes on there.
    fn died(&mut self) {
        self.let_go();
        self.asked = None;
        self.pidfd.close();
        self.life.died(sys::monotonic(), true);
    }

    fn let_go(&mut self) {
        if self.socket.is_open() {
            let _ = sys::epoll_ctl(self.epoll, REMOVE, self.socket.raw(), 0, 0);
            self.socket.close();
        }
    }

    /// The container ended: waits until the ring is empty, as long as the writer goes on writing.
    pub fn drain(&mut self, files: &mut Files, root: i32) {
        let Some(ring) = self.ring else { return };
        self.life.forgive();
        for _ in 0..WAITS {
            let taken = ring.bytes.taken();
            if self.drain_for_a_while(&ring, files, root) || taken == ring.bytes.taken() {
                return;
            }
        }
    }

    /// Answers whether the ring is empty, or a writer cannot be started any more.
    fn drain_for_a_while(&mut self, ring: &LogRing, files: &mut Files, root: i32) -> bool {
        let until = sys::monotonic() + PATIENCE_S * 1_000_000_000;
        while !ring.bytes.is_empty() {
            let left = sys::seconds_until(until);
            if left == 0 {
                return false;
            }
            // While a child changes the names of the files, no writer begins.
            let begins = !self.life.runs() && self.rotation.is_none();
            if begins && (!self.life.may_start(sys::monotonic()) || self.try_start(files, root).is_err()) {
                return true;
            }
            ring.bytes.ask();
            ring.wake();
            let rotation = self.rotation.as_ref().map_or(-1, |rotation| rotation.pidfd.raw());
            match sys::any_of([self.socket.raw(), self.pidfd.raw(), rotation], left) {
                Ok([_, _, true]) => {
                    let pid = self.rotation.as_ref().map(|rotation| rotation.pid);
                    pid.into_iter().for_each(|pid| self.rotated(files, sys::wait_for(pid)));
                }
                Ok([_, true, _]) => {
                    self.life.pid().into_iter().map(sys::wait_for).for_each(drop);
                    self.died();
                }
                Ok([true, ..]) => self.request_ready(files),
                _ => {}
            }
        }
        true
    }

    /// The container has ended for good: records that still wait are lost, because nobody is left to write them.
    pub fn give_up(&mut self) {
        self.over = true;
        let Some(ring) = self.ring.filter(|ring| !ring.bytes.is_empty()) else { return };
        // A writer whose disk answers again would write records that are counted here.
        let pid = self.life.pid();
        if pid.is_some_and(|pid| sys::kill_and_wait(pid, self.pidfd.raw(), FAREWELL_S).is_some()) {
            self.died();
        }
        ring.bytes.take_noted();
        self.given_up = ring.bytes.records();
    }

    /// The monitor is about to end.
    pub fn end(&mut self, files: &mut Files) {
        self.over = true;
        if let Some(pid) = self.life.pid() {
            let _ = sys::kill_and_wait(pid, self.pidfd.raw(), FAREWELL_S);
        }
        self.asked = None;
        let Some(rotation) = &self.rotation else { return };
        let (pid, pidfd) = (rotation.pid, rotation.pidfd.raw());
        // A child that answered ends at once.
        let ended = sys::wait_for_at_most(pid, pidfd, FAREWELL_S);
        let status = ended.or_else(|| sys::kill_and_wait(pid, pidfd, FAREWELL_S));
        status.into_iter().for_each(|status| self.rotated(files, status));
    }
}
