//! Output: from a process to the log and to every attached client.
//!
//! An output stream reads a chunk when every sink has taken the one before: a client that does not read holds the
//! process back as a pipe would (dockerd does the same), and memory stays bounded by one chunk a stream. A client that
//! is gone is dropped at once.
//!
//! A process that fills a chunk at once gets a larger pipe, which takes fewer turns for the same bytes. If then only
//! one client with a pipe wants the output, the pages go from pipe to pipe without a copy.

use crate::check_output::CheckOutput;
use crate::fd::Fd;
use crate::jsonlog::Log;
use crate::launcher::Launcher;
use crate::logfile::LogFile;
use crate::message::{LOST, Message};
use crate::owners::{CHECK_OUTPUT, CONTAINER};
use crate::subjects::{OUTPUT, SINK, token};
use crate::sys::{self, *};
use crate::timers;
use crate::walls::Wall;

pub const CHUNK: usize = 64 * 1024;
/// The pipe of a process that writes much.
const BULK: usize = 1 << 20;
/// At the end of a process the rest of its output is read at once, whether or not the clients read. The room is for the
/// largest pipe.
const LAST_CHUNK: usize = CHUNK + BULK;
/// How long a log that waits for its delivery waits between two looks.
const LOG_RETRY_NS: i64 = 100_000_000;
const MAX_STREAMS: usize = 131;
const MAX_SINKS: usize = 16;

/// The container's own output streams; those of exec'd processes follow.
pub const STDOUT: usize = 0;
pub const STDERR: usize = 1;

/// The output streams of the worker, the log, and the output of the health check.
pub struct Outputs {
    epoll: i32,
    launcher: Launcher,
    pub log: Log<'static, LogFile>,
    pub check: CheckOutput,
    /// Lost records of the log that the launcher knows of.
    reported: u64,
    /// When the log looks again whether the delivery made room; 0: it does not wait.
    retry: i64,
    outputs: [Output; MAX_STREAMS],
}

struct Output {
    used: bool,
    owner: u32,
    log: bool,
    source: Fd,
    /// Reading waits for a sink.
    paused: bool,
    /// The source has ended; sinks still take the rest.
    ended: bool,
    /// The process has written much at once, into a pipe.
    bulk: bool,
    buffer: Option<&'static mut [u8]>,
    filled: usize,
    sinks: [Sink; MAX_SINKS],
}

/// An output stream that begins.
pub struct NewOutput {
    pub owner: u32,
    /// The place, if the stream is one of the container's own streams.
    pub index: Option<usize>,
    pub source: i32,
    pub log: bool,
}

struct Sink {
    fd: Fd,
    sent: usize,
    kind: Kind,
    /// epoll takes it; a regular file never waits.
    polled: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Socket,
    Pipe,
    Other,
}

/// Closes a descriptor of a client. The client may have a copy, which would keep the epoll entry alive, so the entry is
/// removed first.
pub fn let_go(epoll: i32, fd: &mut Fd) {
    if fd.is_open() {
        let _ = sys::epoll_ctl(epoll, REMOVE, fd.raw(), 0, 0);
        fd.close();
    }
}

impl Sink {
    fn write(&self, data: &[u8]) -> Result<usize> {
        if self.kind == Kind::Socket { sys::send(self.fd.raw(), data) } else { sys::write(self.fd.raw(), data) }
    }
}

impl Output {
    fn behind(&self) -> bool {
        self.sinks.iter().any(|sink| sink.fd.is_open() && sink.sent < self.filled)
    }

    /// The slot of the pipe that can take all of the output unread, if there is only one client.
    fn straight(&self) -> Option<usize> {
        if !self.bulk || self.log || self.owner == CHECK_OUTPUT || !Wall::BackPressure.stands() {
            return None;
        }
        let mut open = self.sinks.iter().enumerate().filter(|(_, sink)| sink.fd.is_open());
        match (open.next(), open.next()) {
            (Some((slot, sink)), None) if sink.kind == Kind::Pipe && sink.polled => Some(slot),
            _ => None,
        }
    }
}

/// The kind of a descriptor that the launcher has opened anew. One that may block counts as another kind.
pub fn kind_of(fd: i32) -> Kind {
    const S_IFIFO: u32 = 0o010000;
    match sys::fstat(fd).map(|stat| stat.mode & S_IFMT) {
        Ok(S_IFSOCK) => Kind::Socket,
        Ok(S_IFIFO) if sys::get_flags(fd).is_ok_and(|flags| flags & O_NONBLOCK != 0) => Kind::Pipe,
        _ => Kind::Other,
    }
}

/// Reads output. If the output is logged, the record is noted as under way before it is read.
fn read_noted(
    log: &Log<'static, LogFile>,
    logged: bool,
    index: usize,
    source: i32,
    buffer: &mut [u8],
) -> Result<usize> {
    if !logged {
        return sys::read(source, buffer);
    }
    log.reading(index);
    let got = sys::read(source, buffer);
    if !matches!(got, Ok(1..)) {
        log.rests(index);
    }
    got
}

impl Outputs {
    /// # Safety
    /// `place` is valid for writing and zero, and nothing refers to it.
    pub unsafe fn init(place: *mut Outputs) {
        // SAFETY: within the structure that the caller gives; zeroes are values of all other fields.
        unsafe { (&raw mut (*place).log).write(Log::new(LogFile::NONE)) };
    }

    /// Called when a worker begins.
    pub fn begin(&mut self, epoll: i32, launcher: Launcher) {
        (self.epoll, self.launcher) = (epoll, launcher);
    }

    /// A place for the output of a further process.
    fn room(&self, owner: u32) -> Option<usize> {
        if owner == CONTAINER { None } else { (2..MAX_STREAMS).find(|&i| !self.outputs[i].used) }
    }

    pub fn add_sink(&mut self, index: usize, fd: i32) -> core::result::Result<(), i32> {
        let kind = kind_of(fd);
        let output = &mut self.outputs[index];
        output.used = true;
        let filled = output.filled;
        let Some(slot) = output.sinks.iter().position(|sink| !sink.fd.is_open()) else {
            sys::close(fd);
            return Err(EBUSY);
        };
        // No events are requested: epoll then only reports that the client is gone.
        let polled = sys::epoll_ctl(self.epoll, ADD, fd, 0, token(SINK, (index * MAX_SINKS + slot) as u32)).is_ok();
        output.sinks[slot] = Sink { fd: Fd::new(fd), sent: filled, kind, polled };
        Ok(())
    }

    /// Takes the output of a process: the container's own has a fixed `index`, other output gets a free one. Takes the
    /// descriptors, also when it fails.
    pub fn take(&mut self, output: NewOutput, sink: Option<i32>) -> Result<()> {
        let source = output.source;
        match self.open(output) {
            Ok(index) => sink.map_or(Ok(()), |fd| self.add_sink(index, fd)),
            Err(error) => {
                [Some(source), sink].into_iter().flatten().filter(|&fd| fd >= 0).for_each(sys::close);
                Err(error)
            }
        }
    }

    fn open(&mut self, NewOutput { owner, index, source, log }: NewOutput) -> Result<usize> {
        let index = index.or_else(|| self.room(owner)).ok_or(EBUSY)?;
        sys::set_nonblocking(source);
        let buffer = sys::map_memory(CHUNK)?;
        if let Err(error) = sys::epoll_ctl(self.epoll, ADD, source, EPOLLIN, token(OUTPUT, index as u32)) {
            sys::unmap(buffer);
            return Err(error);
        }
        let output = &mut self.outputs[index];
        (output.used, output.owner, output.log) = (true, owner, log);
        output.source.set(source);
        (output.paused, output.ended, output.bulk) = (false, false, false);
        (output.filled, output.buffer) = (0, Some(buffer));
        Ok(index)
    }

    /// There is output.
    pub fn ready(&mut self, index: usize) {
        for _ in 0..16 {
            let output = &mut self.outputs[index];
            if !output.source.is_open() || output.filled > 0 || output.paused {
                return;
            }
            if output.log && self.log.file.held {
                return self.wait_for_log(index);
            }
            if let Some(slot) = output.straight() {
                match self.hand_over(index, slot) {
                    true => continue,
                    false => return,
                }
            }
            let Some(buffer) = output.buffer.as_mut() else { return };
            match read_noted(&self.log, output.log, index, output.source.raw(), buffer) {
                Ok(length) if length > 0 => {
                    if length == CHUNK && !output.bulk {
                        output.bulk = sys::grow_pipe(output.source.raw(), BULK).is_ok();
                    }
                    self.take_chunk(index, 0, length);
                }
                Err(EAGAIN | EINTR) => return,
                // The end, or EIO: the last process with that terminal is gone.
                _ => return self.source_ended(index),
            }
        }
    }

    /// Reads no more of an output until the log takes it.
    #[inline(never)]
    fn wait_for_log(&mut self, index: usize) {
        let output = &mut self.outputs[index];
        output.paused = true;
        let _ = sys::epoll_ctl(self.epoll, REMOVE, output.source.raw(), 0, 0);
        if self.retry == 0 {
            self.retry = sys::monotonic() + LOG_RETRY_NS;
        }
    }

    /// The time of the next look; 0: there is none.
    pub fn due(&self) -> i64 {
        self.retry
    }

    /// Looks whether the log takes output again, if it is time to.
    pub fn tick(&mut self) {
        if self.retry == 0 || !timers::is_due(self.retry, sys::monotonic()) {
            return;
        }
        self.log.file.held = false;
        self.log.rotate_full();
        self.retry = match self.log.file.held {
            true => sys::monotonic() + LOG_RETRY_NS,
            false => 0,
        };
        if self.retry == 0 {
            [STDOUT, STDERR].into_iter().for_each(|index| self.push(index));
        }
    }

    /// Moves output to the client's pipe without reading it. Answers whether to try again, because there may be more,
    /// or because this pipe does not take it.
    fn hand_over(&mut self, index: usize, slot: usize) -> bool {
        let epoll = self.epoll;
        let output = &mut self.outputs[index];
        let sink = &mut output.sinks[slot];
        match sys::splice(output.source.raw(), sink.fd.raw(), BULK) {
            Ok(0) => {
                self.source_ended(index);
                false
            }
            Ok(_) | Err(EINTR) => true,
            Err(EAGAIN) => {
                // There is nothing, or no room for it.
                if sys::waiting(output.source.raw()) > 0 {
                    let key = token(SINK, (index * MAX_SINKS + slot) as u32);
                    let _ = sys::epoll_ctl(epoll, CHANGE, sink.fd.raw(), EPOLLOUT, key);
                    output.paused = true;
                    let _ = sys::epoll_ctl(epoll, REMOVE, output.source.raw(), 0, 0);
                    return false;
                }
                // While the sink is full, splice(2) does not report the end of the source, and epoll would report it
                // again and again. A plain read sees it.
                let Some(buffer) = output.buffer.as_mut() else { return false };
                match sys::read(output.source.raw(), buffer) {
                    Ok(length) if length > 0 => self.take_chunk(index, 0, length),
                    Err(EAGAIN | EINTR) => {}
                    _ => self.source_ended(index),
                }
                false
            }
            Err(EPIPE) => {
                let_go(epoll, &mut sink.fd);
                true
            }
            Err(_) => {
                sink.kind = Kind::Other;
                true
            }
        }
    }

    fn take_chunk(&mut self, index: usize, from: usize, to: usize) {
        let output = &mut self.outputs[index];
        if output.owner == CHECK_OUTPUT {
            if let Some(buffer) = output.buffer.as_ref() {
                self.check.take(&buffer[from..to]);
            }
            return;
        }
        if output.log {
            if let Some(buffer) = output.buffer.as_ref() {
                self.log.chunk(index, &buffer[from..to], sys::now());
            }
            if self.log.lost > self.reported {
                self.report_lost(self.log.file.ring.is_none());
            }
        }
        let output = &mut self.outputs[index];
        output.filled = to;
        if from == 0 {
            output.sinks.iter_mut().for_each(|sink| sink.sent = 0);
        }
        self.push(index);
    }

    /// Tells the launcher how many records are lost. If the log holds nobody up, this is a hint: the number is in the ring.
    #[inline(never)]
    fn report_lost(&mut self, wait: bool) {
        let notice = Message { code: LOST, b: self.log.lost, ..Message::default() };
        if wait {
            self.launcher.notify(notice);
        } else if self.launcher.try_notify(notice).is_err() {
            return;
        }
        self.reported = self.log.lost;
    }

    /// Gives every sink what it takes.
    fn push(&mut self, index: usize) {
        let epoll = self.epoll;
        let output = &mut self.outputs[index];
        let Some(buffer) = output.buffer.as_ref() else { return };
        for (slot, sink) in output.sinks.iter_mut().enumerate() {
            while sink.fd.is_open() && sink.sent < output.filled {
                match sink.write(&buffer[sink.sent..output.filled]) {
                    Ok(length) => sink.sent += length,
                    Err(EINTR) => {}
                    Err(EAGAIN) if sink.polled => {
                        let key = token(SINK, (index * MAX_SINKS + slot) as u32);
                        let _ = sys::epoll_ctl(epoll, CHANGE, sink.fd.raw(), EPOLLOUT, key);
                        break;
                    }
                    Err(_) => let_go(epoll, &mut sink.fd),
                }
            }
        }
        #[cfg(feature = "attacks")]
        if output.behind() && !Wall::BackPressure.stands() {
            // Held in memory, and never given back.
            let held = sys::map_memory(output.filled);
            held.into_iter().for_each(|held| held.copy_from_slice(&buffer[..output.filled]));
            output.filled = 0;
            return;
        }
        if output.behind() {
            if output.source.is_open() && !output.paused {
                // The source leaves the set, because epoll would report a source whose other end is closed again and
                // again.
                output.paused = true;
                let _ = sys::epoll_ctl(epoll, REMOVE, output.source.raw(), 0, 0);
            }
            return;
        }
        output.filled = 0;
        if output.ended {
            self.release(index);
        } else if output.paused && output.source.is_open() {
            output.paused = false;
            let _ = sys::epoll_ctl(epoll, ADD, output.source.raw(), EPOLLIN, token(OUTPUT, index as u32));
        }
    }

    /// A sink takes more, or its client is gone.
    pub fn sink_ready(&mut self, key: usize, events: u32) {
        let (index, slot) = (key / MAX_SINKS, key % MAX_SINKS);
        let epoll = self.epoll;
        let sink = &mut self.outputs[index].sinks[slot];
        if !sink.fd.is_open() {
            return;
        }
        if events & (EPOLLERR | EPOLLHUP) != 0 {
            if !Wall::StreamsLetGo.stands() {
                let _ = sys::epoll_ctl(epoll, REMOVE, sink.fd.raw(), 0, 0);
                let _ = sink.fd.take();
            }
            let_go(epoll, &mut sink.fd);
        } else {
            let _ = sys::epoll_ctl(epoll, CHANGE, sink.fd.raw(), 0, token(SINK, key as u32));
        }
        self.push(index);
    }

    fn source_ended(&mut self, index: usize) {
        let epoll = self.epoll;
        let output = &mut self.outputs[index];
        // The launcher has a copy, which would keep the epoll entry alive.
        let_go(epoll, &mut output.source);
        output.ended = true;
        if output.log {
            self.log.end(index, sys::now());
        }
        let output = &self.outputs[index];
        if !output.behind() {
            self.release(index);
        }
    }

    fn release(&mut self, index: usize) {
        let epoll = self.epoll;
        let output = &mut self.outputs[index];
        output.sinks.iter_mut().for_each(|sink| let_go(epoll, &mut sink.fd));
        if let Some(buffer) = output.buffer.take() {
            sys::unmap(buffer);
        }
        (output.used, output.filled) = (false, 0);
    }

    /// The container's process ended: reads the rest of its output, without waiting for clients.
    pub fn drain(&mut self) {
        for index in [STDOUT, STDERR] {
            while self.outputs[index].source.is_open() {
                let output = &mut self.outputs[index];
                let Some(buffer) = output.buffer.as_mut() else { break };
                if output.filled > 0 && buffer.len() == CHUNK {
                    let Ok(larger) = sys::map_memory(LAST_CHUNK) else { break };
                    larger[..output.filled].copy_from_slice(&buffer[..output.filled]);
                    let old: &'static mut [u8] = core::mem::replace(buffer, larger);
                    sys::unmap(old);
                    continue;
                }
                let from = output.filled;
                match read_noted(&self.log, output.log, index, output.source.raw(), &mut buffer[from..]) {
                    Ok(length) if length > 0 => self.take_chunk(index, from, from + length),
                    Err(EINTR) => {}
                    _ => self.source_ended(index),
                }
            }
            // Attached before a start that failed: the client sees the end.
            if self.outputs[index].used && !self.outputs[index].source.is_open() && !self.outputs[index].behind() {
                self.release(index);
            }
        }
        if self.log.lost > self.reported {
            self.report_lost(true);
        }
    }

    /// A process ended: reads the rest of its output, even if another process could still write there.
    pub fn end_outputs(&mut self, owner: u32) {
        for index in 0..MAX_STREAMS {
            while self.outputs[index].used && self.outputs[index].source.is_open() && self.outputs[index].owner == owner
            {
                let output = &mut self.outputs[index];
                let Some(buffer) = output.buffer.as_mut() else { break };
                match sys::read(output.source.raw(), buffer) {
                    Ok(length) if length > 0 => self.take_chunk(index, 0, length),
                    Err(EINTR) => {}
                    _ => self.source_ended(index),
                }
            }
        }
    }

    /// Whether clients still have to take output of processes that ended.
    pub fn draining(&self) -> bool {
        self.outputs.iter().any(|output| output.used && output.ended && output.behind())
    }
}
