//! Standard streams: output from a process to the log and to every attached client, input from clients to a process.
//!
//! An output stream reads a chunk when every sink has taken the one before: a client that does not read holds the process
//! back as a pipe would (dockerd does the same), and memory stays bounded by one chunk a stream. A client that is gone is
//! dropped at once.
//!
//! A process that fills a chunk at once gets a larger pipe: fewer turns for the same bytes. Where then nobody but one client
//! with a pipe wants its output, the pages go from pipe to pipe and nothing is copied here.

use crate::boot::{MAX_EXECS, Monitor};
use crate::health::CHECK;
use crate::jsonlog::Log;
use crate::life::{INPUT, OUTPUT, SINK, TARGET, token};
use crate::logfile::LogFile;
use crate::orders::{self, Word};
use crate::sys::{self, *};
use crate::walls::Wall;
use crate::wire::*;

const CHUNK: usize = 64 * 1024;
/// The pipe of a process that writes much.
const BULK: usize = 1 << 20;
/// At the end of a process what is left in its pipe is taken at once, whatever the clients do: the largest pipe.
const LAST_CHUNK: usize = CHUNK + BULK;
const MAX_STREAMS: usize = 131;
const MAX_SINKS: usize = 16;
const MAX_INPUTS: usize = 80;

/// The container's own output streams; those of exec'd processes follow.
pub const STDOUT: usize = 0;
pub const STDERR: usize = 1;
/// Owner of the container's own streams; exec'd process `i` is `i + 1`.
pub const CONTAINER: u32 = 0;

pub struct Streams {
    outputs: [Output; MAX_STREAMS],
    inputs: [Input; MAX_INPUTS],
    /// Where input goes, by owner: descriptors plus one, 0 is none.
    targets: [i32; MAX_EXECS + 2],
    /// The container runs: its input is read.
    enabled: bool,
    /// Lost records of the log that the launcher knows of.
    told: u64,
}

struct Output {
    used: bool,
    owner: u32,
    log: bool,
    source: i32,
    /// Reading waits for a sink.
    paused: bool,
    /// The source has ended; sinks still take the rest.
    ended: bool,
    /// It has written much at once, into a pipe.
    bulk: bool,
    buffer: Option<&'static mut [u8]>,
    filled: usize,
    sinks: [Sink; MAX_SINKS],
}

struct Sink {
    fd: i32,
    sent: usize,
    kind: Kind,
    /// epoll takes it; a regular file never waits.
    polled: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Socket,
    Pipe,
    Other,
}

struct Input {
    source: i32,
    socket: bool,
    owner: u32,
    /// Its end is the process's end of input.
    once: bool,
    ended: bool,
    polled: bool,
    buffer: Option<&'static mut [u8]>,
    from: usize,
    to: usize,
}

const NO_SINK: Sink = Sink { fd: -1, sent: 0, kind: Kind::Other, polled: false };

impl Streams {
    /// # Safety
    /// `place` is valid for writing and zero, and nothing refers to it.
    pub unsafe fn init(place: *mut Streams) {
        // Those of further processes are zero, so that their memory is not there, until one is used.
        for index in [STDOUT, STDERR] {
            let fresh = Output {
                used: false,
                owner: 0,
                log: false,
                source: -1,
                paused: false,
                ended: false,
                bulk: false,
                buffer: None,
                filled: 0,
                sinks: [NO_SINK; MAX_SINKS],
            };
            // SAFETY: within the array that the caller gives.
            unsafe { (&raw mut (*place).outputs[index]).write(fresh) };
        }
        for index in 0..MAX_INPUTS {
            let fresh = Input {
                source: -1,
                socket: false,
                owner: 0,
                once: false,
                ended: false,
                polled: false,
                buffer: None,
                from: 0,
                to: 0,
            };
            // SAFETY: as above.
            unsafe { (&raw mut (*place).inputs[index]).write(fresh) };
        }
    }

    fn room(&self, owner: u32) -> Option<usize> {
        if owner == CONTAINER { None } else { (2..MAX_STREAMS).find(|&i| !self.outputs[i].used) }
    }
}

/// Closes what a client gave. Its own copy would keep an epoll entry alive: that is removed first.
fn let_go(epoll: i32, fd: &mut i32) {
    if *fd >= 0 {
        let _ = sys::epoll_ctl(epoll, REMOVE, *fd, 0, 0);
        sys::close(*fd);
        *fd = -1;
    }
}

impl Sink {
    fn write(&self, data: &[u8]) -> Result<usize> {
        if self.kind == Kind::Socket { sys::send(self.fd, data) } else { sys::write(self.fd, data) }
    }
}

impl Output {
    fn behind(&self) -> bool {
        self.sinks.iter().any(|sink| sink.fd >= 0 && sink.sent < self.filled)
    }

    /// Where all of the output can go without being looked at: the only client's pipe.
    fn straight(&self) -> Option<usize> {
        if !self.bulk || self.log || self.owner == CHECK as u32 + 1 || !Wall::BackPressure.stands() {
            return None;
        }
        let mut open = self.sinks.iter().enumerate().filter(|(_, sink)| sink.fd >= 0);
        match (open.next(), open.next()) {
            (Some((slot, sink)), None) if sink.kind == Kind::Pipe && sink.polled => Some(slot),
            _ => None,
        }
    }
}

/// Reads output; where it is logged, what is under way is noted before it is taken.
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

/// The kind of a descriptor that the launcher has opened anew; one that may block is of no kind.
fn kind_of(fd: i32) -> Kind {
    const S_IFSOCK: u32 = 0o140000;
    const S_IFIFO: u32 = 0o010000;
    match sys::fstat(fd).map(|stat| stat.mode & S_IFMT) {
        Ok(S_IFSOCK) => Kind::Socket,
        Ok(S_IFIFO) if sys::get_flags(fd).is_ok_and(|flags| flags & O_NONBLOCK != 0) => Kind::Pipe,
        _ => Kind::Other,
    }
}

impl Monitor {
    /// Adds a client's streams to the container's. Descriptors that are not wanted are closed.
    pub fn attach_streams(&mut self, mask: u32, fds: &[i32]) -> Result<()> {
        let tty = self.header.flags & FLAG_TTY != 0;
        let mut fds = fds.iter().copied();
        let mut result = Ok(());
        if mask & SESSION_STDIN != 0 {
            let fd = fds.next().unwrap_or(-1);
            if self.header.flags & FLAG_OPEN_STDIN != 0 {
                let once = self.header.flags & FLAG_STDIN_ONCE != 0 && !tty;
                result = result.and(self.open_input(fd, CONTAINER, once));
            } else {
                sys::close(fd);
            }
        }
        for (bit, index) in [(SESSION_STDOUT, STDOUT), (SESSION_STDERR, STDERR)] {
            if mask & bit != 0 {
                let fd = fds.next().unwrap_or(-1);
                let wanted = index == STDOUT || !tty;
                if wanted { result = result.and(self.add_sink(index, fd)) } else { sys::close(fd) }
            }
        }
        fds.for_each(sys::close);
        result
    }

    fn add_sink(&mut self, index: usize, fd: i32) -> core::result::Result<(), i32> {
        let kind = kind_of(fd);
        let output = &mut self.streams.outputs[index];
        output.used = true;
        let filled = output.filled;
        let Some(slot) = output.sinks.iter().position(|sink| sink.fd < 0) else {
            sys::close(fd);
            return Err(EBUSY);
        };
        // Without events: only a client's going away is told.
        let polled = sys::epoll_ctl(self.epoll, ADD, fd, 0, token(SINK, (index * MAX_SINKS + slot) as u32)).is_ok();
        output.sinks[slot] = Sink { fd, sent: filled, kind, polled };
        Ok(())
    }

    /// Output of a process: `index` is fixed for the container's own, else a free one is taken. Takes the descriptors, also
    /// when it fails.
    pub fn take_output(
        &mut self,
        owner: u32,
        index: Option<usize>,
        source: i32,
        log: bool,
        sink: Option<i32>,
    ) -> Result<()> {
        match self.open_output(owner, index, source, log) {
            Ok(index) => sink.map_or(Ok(()), |fd| self.add_sink(index, fd)),
            Err(error) => {
                [Some(source), sink].into_iter().flatten().filter(|&fd| fd >= 0).for_each(sys::close);
                Err(error)
            }
        }
    }

    fn open_output(&mut self, owner: u32, index: Option<usize>, source: i32, log: bool) -> Result<usize> {
        let index = index.or_else(|| self.streams.room(owner)).ok_or(EBUSY)?;
        sys::set_nonblocking(source);
        let buffer = sys::map_memory(CHUNK)?;
        if let Err(error) = sys::epoll_ctl(self.epoll, ADD, source, EPOLLIN, token(OUTPUT, index as u32)) {
            sys::unmap(buffer);
            return Err(error);
        }
        let output = &mut self.streams.outputs[index];
        if !output.used {
            output.sinks = [NO_SINK; MAX_SINKS];
        }
        (output.used, output.owner, output.log, output.source) = (true, owner, log, source);
        (output.paused, output.ended, output.bulk) = (false, false, false);
        (output.filled, output.buffer) = (0, Some(buffer));
        Ok(index)
    }

    pub fn open_input(&mut self, fd: i32, owner: u32, once: bool) -> Result<()> {
        let socket = kind_of(fd) == Kind::Socket;
        let Some(slot) = self.streams.inputs.iter().position(|input| input.source < 0 && input.buffer.is_none()) else {
            sys::close(fd);
            return Err(EBUSY);
        };
        let buffer = sys::map_memory(CHUNK).inspect_err(|_| sys::close(fd))?;
        self.streams.inputs[slot] = Input {
            source: fd,
            socket,
            owner,
            once,
            ended: false,
            polled: false,
            buffer: Some(buffer),
            from: 0,
            to: 0,
        };
        if self.target(owner) >= 0 && (owner != CONTAINER || self.streams.enabled) {
            self.enable_input(slot);
        }
        Ok(())
    }

    /// Begins to read what clients send, once there is a process to send it to.
    pub fn enable(&mut self, owner: u32) {
        self.streams.enabled |= owner == CONTAINER;
        for slot in 0..MAX_INPUTS {
            let input = &self.streams.inputs[slot];
            if input.source >= 0 && input.owner == owner {
                self.enable_input(slot);
            }
        }
    }

    fn enable_input(&mut self, slot: usize) {
        let input = &mut self.streams.inputs[slot];
        input.polled = sys::epoll_ctl(self.epoll, ADD, input.source, EPOLLIN, token(INPUT, slot as u32)).is_ok();
        if !input.polled {
            self.input_ready(slot);
        }
    }

    fn target(&self, owner: u32) -> i32 {
        self.streams.targets.get(owner as usize).map_or(-1, |target| target - 1)
    }

    /// Where input of a process goes.
    pub fn set_target(&mut self, owner: u32, fd: i32) {
        self.close_target(owner);
        match self.streams.targets.get_mut(owner as usize) {
            Some(target) => *target = fd + 1,
            None => sys::close(fd),
        }
    }

    /// There is output.
    pub fn output_ready(&mut self, index: usize) {
        for _ in 0..16 {
            let output = &mut self.streams.outputs[index];
            if output.source < 0 || output.filled > 0 || output.paused {
                return;
            }
            if let Some(slot) = output.straight() {
                match self.hand_over(index, slot) {
                    true => continue,
                    false => return,
                }
            }
            let Some(buffer) = output.buffer.as_mut() else { return };
            match read_noted(&self.log, output.log, index, output.source, buffer) {
                Ok(length) if length > 0 => {
                    if length == CHUNK && !output.bulk {
                        output.bulk = sys::grow_pipe(output.source, BULK).is_ok();
                    }
                    self.take_chunk(index, 0, length);
                }
                Err(EAGAIN | EINTR) => return,
                // The end, or EIO: the last process with that terminal is gone.
                _ => return self.output_ended(index),
            }
        }
    }

    /// Moves output to the client's pipe as it is. Answers whether to go on: there may be more, or this was not the way.
    fn hand_over(&mut self, index: usize, slot: usize) -> bool {
        let epoll = self.epoll;
        let output = &mut self.streams.outputs[index];
        let sink = &mut output.sinks[slot];
        match sys::splice(output.source, sink.fd, BULK) {
            Ok(0) => {
                self.output_ended(index);
                false
            }
            Ok(_) | Err(EINTR) => true,
            Err(EAGAIN) => {
                // There is nothing, or no room for it.
                if sys::waiting(output.source) > 0 {
                    let key = token(SINK, (index * MAX_SINKS + slot) as u32);
                    let _ = sys::epoll_ctl(epoll, CHANGE, sink.fd, EPOLLOUT, key);
                    output.paused = true;
                    let _ = sys::epoll_ctl(epoll, REMOVE, output.source, 0, 0);
                    return false;
                }
                // A full sink hides the source's end, which would be told again and again: a plain read sees it.
                let Some(buffer) = output.buffer.as_mut() else { return false };
                match sys::read(output.source, buffer) {
                    Ok(length) if length > 0 => self.take_chunk(index, 0, length),
                    Err(EAGAIN | EINTR) => {}
                    _ => self.output_ended(index),
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
        let output = &mut self.streams.outputs[index];
        if output.owner == CHECK as u32 + 1 {
            if let Some(buffer) = output.buffer.as_ref() {
                self.health.take_output(&buffer[from..to]);
            }
            return;
        }
        if output.log {
            if let Some(buffer) = output.buffer.as_ref() {
                self.log.chunk(index, &buffer[from..to], sys::now());
            }
            if self.log.lost > self.streams.told {
                self.streams.told = self.log.lost;
                orders::tell(self.log.file.wishes, Word { what: orders::LOST, b: self.log.lost, ..Word::default() });
            }
        }
        let output = &mut self.streams.outputs[index];
        output.filled = to;
        if from == 0 {
            output.sinks.iter_mut().for_each(|sink| sink.sent = 0);
        }
        self.push(index);
    }

    /// Gives every sink what it takes.
    fn push(&mut self, index: usize) {
        let epoll = self.epoll;
        let output = &mut self.streams.outputs[index];
        let Some(buffer) = output.buffer.as_ref() else { return };
        for (slot, sink) in output.sinks.iter_mut().enumerate() {
            while sink.fd >= 0 && sink.sent < output.filled {
                match sink.write(&buffer[sink.sent..output.filled]) {
                    Ok(length) => sink.sent += length,
                    Err(EINTR) => {}
                    Err(EAGAIN) if sink.polled => {
                        let key = token(SINK, (index * MAX_SINKS + slot) as u32);
                        let _ = sys::epoll_ctl(epoll, CHANGE, sink.fd, EPOLLOUT, key);
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
            if output.source >= 0 && !output.paused {
                // Taken out altogether: a source whose other end is closed would be told again and again.
                output.paused = true;
                let _ = sys::epoll_ctl(epoll, REMOVE, output.source, 0, 0);
            }
            return;
        }
        output.filled = 0;
        if output.ended {
            self.release_output(index);
        } else if output.paused && output.source >= 0 {
            output.paused = false;
            let _ = sys::epoll_ctl(epoll, ADD, output.source, EPOLLIN, token(OUTPUT, index as u32));
        }
    }

    /// A sink takes more, or its client is gone.
    pub fn sink_ready(&mut self, key: usize, events: u32) {
        let (index, slot) = (key / MAX_SINKS, key % MAX_SINKS);
        let epoll = self.epoll;
        let sink = &mut self.streams.outputs[index].sinks[slot];
        if sink.fd < 0 {
            return;
        }
        if events & (EPOLLERR | EPOLLHUP) != 0 {
            if !Wall::StreamsLetGo.stands() {
                let _ = sys::epoll_ctl(epoll, REMOVE, sink.fd, 0, 0);
                sink.fd = -1;
            }
            let_go(epoll, &mut sink.fd);
        } else {
            let _ = sys::epoll_ctl(epoll, CHANGE, sink.fd, 0, token(SINK, key as u32));
        }
        self.push(index);
    }

    fn output_ended(&mut self, index: usize) {
        let epoll = self.epoll;
        let output = &mut self.streams.outputs[index];
        // The launcher has a copy, which would keep the epoll entry alive.
        let_go(epoll, &mut output.source);
        output.ended = true;
        if output.log {
            self.log.end(index, sys::now());
        }
        let output = &self.streams.outputs[index];
        if !output.behind() {
            self.release_output(index);
        }
    }

    fn release_output(&mut self, index: usize) {
        let epoll = self.epoll;
        let output = &mut self.streams.outputs[index];
        output.sinks.iter_mut().for_each(|sink| let_go(epoll, &mut sink.fd));
        if let Some(buffer) = output.buffer.take() {
            sys::unmap(buffer);
        }
        (output.used, output.filled) = (false, 0);
    }

    /// The container's process ended: takes what is left of its output, without waiting for clients.
    pub fn drain_container(&mut self) {
        self.streams.enabled = false;
        for index in [STDOUT, STDERR] {
            while self.streams.outputs[index].source >= 0 {
                let output = &mut self.streams.outputs[index];
                let Some(buffer) = output.buffer.as_mut() else { break };
                if output.filled > 0 && buffer.len() == CHUNK {
                    let Ok(larger) = sys::map_memory(LAST_CHUNK) else { break };
                    larger[..output.filled].copy_from_slice(&buffer[..output.filled]);
                    let old: &'static mut [u8] = core::mem::replace(buffer, larger);
                    sys::unmap(old);
                    continue;
                }
                let from = output.filled;
                match read_noted(&self.log, output.log, index, output.source, &mut buffer[from..]) {
                    Ok(length) if length > 0 => self.take_chunk(index, from, from + length),
                    Err(EINTR) => {}
                    _ => self.output_ended(index),
                }
            }
            // Attached before a start that failed: the client sees the end.
            if self.streams.outputs[index].used
                && self.streams.outputs[index].source < 0
                && !self.streams.outputs[index].behind()
            {
                self.release_output(index);
            }
        }
    }

    /// A process ended: takes what is left of its output, whoever else could still write there.
    pub fn end_outputs(&mut self, owner: u32) {
        for index in 0..MAX_STREAMS {
            while self.streams.outputs[index].used
                && self.streams.outputs[index].source >= 0
                && self.streams.outputs[index].owner == owner
            {
                let output = &mut self.streams.outputs[index];
                let Some(buffer) = output.buffer.as_mut() else { break };
                match sys::read(output.source, buffer) {
                    Ok(length) if length > 0 => self.take_chunk(index, 0, length),
                    Err(EINTR) => {}
                    _ => self.output_ended(index),
                }
            }
        }
    }

    /// Whether clients still have to take output of processes that ended.
    pub fn draining(&self) -> bool {
        self.streams.outputs.iter().any(|output| output.used && output.ended && output.behind())
    }

    /// A client sent input, or ended it.
    pub fn input_ready(&mut self, slot: usize) {
        loop {
            if !self.write_input(slot) {
                return;
            }
            let input = &mut self.streams.inputs[slot];
            if input.source < 0 {
                return;
            }
            let Some(buffer) = input.buffer.as_mut() else { return };
            let read = if input.socket { sys::receive } else { sys::read };
            match read(input.source, buffer) {
                Ok(length) if length > 0 => (input.from, input.to) = (0, length),
                Err(EAGAIN | EINTR) => return,
                _ => {
                    input.ended = true;
                    return self.finish_input(slot);
                }
            }
            if self.streams.inputs[slot].polled {
                self.write_input(slot);
                return;
            }
        }
    }

    /// Hands on what was read; false when the process does not take it now.
    fn write_input(&mut self, slot: usize) -> bool {
        let owner = self.streams.inputs[slot].owner;
        let target = self.target(owner);
        let epoll = self.epoll;
        let input = &mut self.streams.inputs[slot];
        while input.from < input.to {
            let Some(buffer) = input.buffer.as_ref() else { return false };
            match sys::write(target, &buffer[input.from..input.to]) {
                Ok(length) => input.from += length,
                Err(EINTR) => {}
                Err(EAGAIN) => {
                    if input.polled {
                        let _ = sys::epoll_ctl(epoll, REMOVE, input.source, 0, 0);
                    }
                    let _ = sys::epoll_ctl(epoll, ADD, target, EPOLLOUT, token(TARGET, owner));
                    return false;
                }
                // The process closed its input: what comes is dropped.
                Err(_) => (input.from, input.to) = (0, 0),
            }
        }
        true
    }

    /// The process takes input again.
    pub fn target_ready(&mut self, owner: u32) {
        let target = self.target(owner);
        let _ = sys::epoll_ctl(self.epoll, REMOVE, target, 0, 0);
        for slot in 0..MAX_INPUTS {
            let input = &self.streams.inputs[slot];
            if input.buffer.is_none() || input.owner != owner || !self.write_input(slot) {
                continue;
            }
            let input = &self.streams.inputs[slot];
            if input.ended {
                self.finish_input(slot);
            } else if input.polled {
                let _ = sys::epoll_ctl(self.epoll, ADD, input.source, EPOLLIN, token(INPUT, slot as u32));
            } else {
                self.input_ready(slot);
            }
        }
    }

    /// The client's input has ended: once all of it is written, the process's has too where that is wanted.
    fn finish_input(&mut self, slot: usize) {
        let epoll = self.epoll;
        let input = &mut self.streams.inputs[slot];
        let_go(epoll, &mut input.source);
        if input.from < input.to {
            return;
        }
        let (owner, once) = (input.owner, input.once);
        if let Some(buffer) = input.buffer.take() {
            sys::unmap(buffer);
        }
        if once {
            self.end_target(owner);
        }
    }

    /// The end of any input that is open now is the process's.
    pub fn end_with_inputs(&mut self, owner: u32) {
        let open = self.streams.inputs.iter_mut().filter(|input| input.owner == owner && input.buffer.is_some());
        open.for_each(|input| input.once = true);
    }

    /// Ends the process's input, of which the launcher keeps a copy where it is the container's.
    fn end_target(&mut self, owner: u32) {
        self.close_target(owner);
        if owner == CONTAINER {
            orders::tell(self.log.file.wishes, Word { what: orders::CLOSED, ..Word::default() });
        }
    }

    fn close_target(&mut self, owner: u32) {
        let epoll = self.epoll;
        if let Some(target) = self.streams.targets.get_mut(owner as usize)
            && *target > 0
        {
            let mut fd = core::mem::take(target) - 1;
            let_go(epoll, &mut fd);
        }
    }

    /// The process is gone: nobody takes input any more.
    pub fn lose_inputs(&mut self, owner: u32) {
        let epoll = self.epoll;
        for input in &mut self.streams.inputs {
            if input.owner == owner && input.buffer.is_some() {
                let_go(epoll, &mut input.source);
                if let Some(buffer) = input.buffer.take() {
                    sys::unmap(buffer);
                }
            }
        }
        self.close_target(owner);
    }
}
