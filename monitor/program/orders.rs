//! The launcher's side of the worker: starts it, gives it orders, grants its wishes, starts it again when it dies.
//!
//! All that passes are words of fixed size, with descriptors. An order may ask for an answer; a wish (the next file of the
//! log, a socket in the container's network) always gets one, a message none. Whoever waits for the worker's answer grants
//! its wishes meanwhile, so that neither waits for the other.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::boot::Monitor;
use crate::life::{WISH, replace, token};
use crate::streams::{CONTAINER, STDERR, STDOUT};
use crate::sys::{self, *};
use crate::walls::Wall;
use crate::wire::*;
use crate::worker;

/// One message, either way.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Word {
    /// The order or wish; in an answer an error number, or 0.
    pub what: u32,
    pub a: u32,
    pub b: u64,
    pub c: u64,
}

pub const WORD: usize = size_of::<Word>();
/// An order with what follows it: the keys of relayed ports.
pub const ORDER: usize = WORD + MAX_FDS * RELAY_KEY;

impl Word {
    pub fn to_bytes(self) -> [u8; WORD] {
        // SAFETY: integers without padding.
        unsafe { core::mem::transmute(self) }
    }

    pub fn from_bytes(bytes: &[u8]) -> Option<Word> {
        let bytes: &[u8; WORD] = bytes.first_chunk()?;
        // SAFETY: every bit pattern is a value.
        Some(unsafe { core::mem::transmute::<[u8; WORD], Word>(*bytes) })
    }
}

// Orders. `a` is the owner of streams, where nothing else is said.

/// a: mask of streams, b: whether an answer is waited for; descriptors: those.
pub const ATTACH: u32 = 1;
/// b: index of the stream plus one (0: any), c: whether it is logged; descriptors: the source, perhaps a client's. Answered
/// where it is no stream of the container's own.
pub const OUTPUT: u32 = 2;
/// Descriptor: where input goes.
pub const TARGET: u32 = 3;
/// b: whether its end is the process's; descriptor: a client's.
pub const INPUT: u32 = 4;
/// Clients' input is read from now on.
pub const ENABLE: u32 = 5;
/// Takes what is left of the container's output. Answered.
pub const STOP: u32 = 6;
/// Nobody takes input any more.
pub const DROP: u32 = 7;
/// The health check has ended; the answer's b: how much it wrote. Answered.
pub const CHECKED: u32 = 8;
/// b: place; descriptor: the file that the output of the last check goes to. Answered.
pub const KEEP_CHECK: u32 = 9;
/// a: which; descriptor: a socket of the resolver.
pub const DNS_SOCKET: u32 = 10;
/// Lets go of the resolver's sockets.
pub const END_DNS: u32 = 11;
/// Descriptor: the plan that holds from now on.
pub const PLAN: u32 = 12;
/// Keys follow; descriptors: sockets of ports that are passed on.
pub const PORTS: u32 = 13;
/// Lets go of them. Answered.
pub const END_PORTS: u32 = 14;
/// Gives clients what is left, for so many milliseconds (b). Answered.
pub const LINGER: u32 = 15;
/// The end of the input of clients that are there is the process's. Answered.
pub const END_INPUT: u32 = 16;

// Wishes.

/// b: records, c: bytes of the log's file; the answer brings the next.
pub const ROTATE: u32 = 32;
/// a: 1 for TCP, b: 1 for IPv6; the answer brings a socket in the container's network.
pub const SOCKET: u32 = 33;
/// b: how many records could not be written so far. Not answered.
pub const LOST: u32 = 34;
/// The container's input is closed. Not answered.
pub const CLOSED: u32 = 35;
/// The first message of every worker: b is 0 once its rights are given up, or why they could not be. Not answered.
pub const CONFINED: u32 = 36;

/// How long the worker may take to answer. What it writes the disk may hold up.
const PATIENCE_S: i64 = 60;
/// How soon a worker may follow one that died.
const PAUSE_NS: i64 = 100_000_000;
/// So many may die soon after each other; for the ones after them the pause doubles, so often at the most: 51 seconds.
const DEATHS: u32 = 8;
const DOUBLED: u32 = 9;
/// A worker that lived as long died of something else than those before it.
const STEADY_NS: i64 = 10_000_000_000;

/// The launcher's view of the worker.
pub struct Worker {
    /// 0: there is none.
    pub pid: i32,
    /// The launcher's end and the worker's; below 0 where there is none.
    pub orders: [i32; 2],
    pub wishes: [i32; 2],
    /// Where the container's own output comes from: what a worker that died has not read the next one reads.
    pub sources: [i32; 2],
    /// When it was started.
    since: i64,
    /// It has said that its rights are given up.
    confined: bool,
    /// How many died soon after their start, one after the other.
    deaths: u32,
    /// When the next one is to be started; 0: none is to be.
    pub due: i64,
    /// Records that earlier workers lost.
    lost: u64,
    pub under_way: Option<&'static [AtomicU64; 2]>,
    /// Somebody was attached at some time.
    had_clients: bool,
}

impl Worker {
    pub const NONE: Worker = Worker {
        pid: 0,
        orders: [-1; 2],
        wishes: [-1; 2],
        sources: [-1; 2],
        since: 0,
        confined: false,
        deaths: 0,
        due: 0,
        lost: 0,
        under_way: None,
        had_clients: false,
    };
}

/// The worker asks the launcher: the answer and its descriptor, or -1.
pub fn wish(wishes: i32, word: Word) -> Result<(Word, i32)> {
    sys::send_fds(wishes, &word.to_bytes(), &[])?;
    let (mut bytes, mut fds) = ([0; WORD], [-1; MAX_FDS]);
    let (length, _) = sys::recv_fds(wishes, &mut bytes, &mut fds, true)?;
    // The launcher is gone.
    let word = Word::from_bytes(&bytes[..length]).unwrap_or_else(|| sys::exit(0));
    Ok((word, fds[0]))
}

/// A message to the launcher.
pub fn tell(wishes: i32, word: Word) {
    let _ = sys::send_fds(wishes, &word.to_bytes(), &[]);
}

impl Monitor {
    /// Opens the way to a worker. What is ordered before it runs waits there.
    pub fn begin_worker(&mut self) -> Result<()> {
        self.worker.orders = sys::socketpair()?;
        self.worker.wishes = sys::socketpair()?;
        sys::limit_sends(self.worker.orders[0], PATIENCE_S);
        sys::limit_sends(self.worker.wishes[0], PATIENCE_S);
        if self.worker.under_way.is_none() {
            self.worker.under_way = Some(sys::map_shared()?);
        }
        sys::epoll_ctl(self.epoll, ADD, self.worker.wishes[0], EPOLLIN, token(WISH, 0))
    }

    /// Starts a worker, unless there is one.
    pub fn start_worker(&mut self) -> Result<()> {
        if self.worker.pid > 0 {
            return Ok(());
        }
        self.worker.due = 0;
        if self.worker.orders[0] < 0 {
            self.begin_worker()?;
        }
        if self.header.flags & FLAG_LOG != 0 && self.log.file.fd < 0 {
            self.log.file = self.files.open(-1)?;
        }
        self.log.file.wishes = self.worker.wishes[1];
        self.log.under_way = self.worker.under_way;
        let (pid, pidfd) = sys::fork(0, None)?;
        if pid == 0 {
            worker::run(self);
        }
        sys::close(pidfd);
        (self.worker.pid, self.worker.since, self.worker.confined) = (pid, sys::monotonic(), false);
        for end in [&mut self.worker.orders[1], &mut self.worker.wishes[1], &mut self.log.file.fd] {
            replace(end, -1);
        }
        Ok(())
    }

    /// A worker for what is asked now: also before its time, unless one after the other died.
    fn have_worker(&mut self) -> Result<()> {
        if self.worker.deaths > DEATHS && sys::monotonic() < self.worker.due {
            return Err(EIO);
        }
        self.start_worker()
    }

    /// Waits until the worker says that its rights are given up. An error: why they could not be.
    pub fn await_worker(&mut self) -> Result<()> {
        const TRIES: u32 = 3;
        for _ in 0..TRIES {
            if self.worker.confined || !Wall::WorkerConfirmed.stands() {
                return Ok(());
            }
            match self.first_word()? {
                Some(0) => self.worker.confined = true,
                Some(errno) => return Err(errno),
                // Somebody killed it.
                None => {
                    self.end_worker();
                    self.start_worker()?;
                }
            }
        }
        if self.worker.confined { Ok(()) } else { Err(EPIPE) }
    }

    /// The error number in the worker's first message; none: it ended without one.
    fn first_word(&mut self) -> Result<Option<i32>> {
        let wishes = self.worker.wishes[0];
        while let Err(error) = sys::either(wishes, wishes, PATIENCE_S) {
            if error != EINTR {
                return Err(error);
            }
        }
        let (mut bytes, mut fds) = ([0; WORD], [-1; MAX_FDS]);
        let got = sys::recv_fds(wishes, &mut bytes, &mut fds, false);
        fds.into_iter().filter(|&fd| fd >= 0).for_each(sys::close);
        let word = got.ok().and_then(|(length, _)| Word::from_bytes(&bytes[..length]));
        Ok(word.filter(|word| word.what == CONFINED).map(|word| word.b as i32))
    }

    /// A child ended: whether it was the worker.
    pub fn worker_ended(&mut self, pid: i32) -> bool {
        if pid != self.worker.pid || pid == 0 {
            return false;
        }
        self.bury_worker();
        true
    }

    /// Clears up after a worker that died, and counts the records that it had taken and not written.
    fn bury_worker(&mut self) {
        self.worker.pid = 0;
        for end in self.worker.orders.iter_mut().chain(&mut self.worker.wishes) {
            replace(end, -1);
        }
        let mut under_way = 0;
        for count in self.worker.under_way.into_iter().flatten() {
            under_way += count.swap(0, Ordering::AcqRel).min(1 << 32);
        }
        self.worker.lost = self.record.state.log_lost.saturating_add(under_way);
        if under_way > 0 {
            self.record.state.log_lost = self.worker.lost;
            self.record.write(false);
        }
        // Streams of processes that were started further are gone with their clients': they see the end.
        self.hang_up_execs();
        if self.init != 0 || self.kept.net >= 0 {
            self.worker.due = self.next_worker(sys::monotonic());
        }
    }

    /// When another worker may follow the one that died now.
    fn next_worker(&mut self, now: i64) -> i64 {
        let steady = now - self.worker.since >= STEADY_NS;
        self.worker.deaths = if steady { 0 } else { self.worker.deaths.saturating_add(1) };
        match self.worker.deaths.saturating_sub(DEATHS) {
            0 => (self.worker.since + PAUSE_NS).max(now),
            more => now + (PAUSE_NS << more.min(DOUBLED)),
        }
    }

    fn end_worker(&mut self) {
        let pid = self.worker.pid;
        if pid > 0 {
            sys::kill_group(pid);
            sys::wait_for(pid);
            self.bury_worker();
        }
    }

    /// Starts a worker in place of one that died, when that is due.
    pub fn worker_tick(&mut self, now: i64) {
        if self.worker.due > 0 && now >= self.worker.due && self.start_worker().is_err() {
            self.worker.due = now + PAUSE_NS;
        }
    }

    /// Gives an order. The descriptors stay open here.
    pub fn order(&mut self, word: Word, fds: &[i32]) -> Result<()> {
        self.worker.had_clients |= word.what == ATTACH || fds.len() > 1;
        self.order_with(&word.to_bytes(), fds)
    }

    pub fn order_with(&mut self, bytes: &[u8], fds: &[i32]) -> Result<()> {
        let sent = sys::send_fds(self.worker.orders[0], bytes, fds).map(|_| ());
        if matches!(sent, Err(EAGAIN | EPIPE | ECONNRESET)) && self.worker.pid > 0 {
            // It does not take orders, or is gone, which nobody has heard yet.
            self.end_worker();
        }
        sent
    }

    /// Gives an order to the worker, or where it is gone to another one.
    fn insist(&mut self, word: Word, fds: &[i32]) -> Result<()> {
        if self.worker.orders[0] >= 0 && self.order(word, fds).is_ok() {
            return Ok(());
        }
        self.have_worker()?;
        self.order(word, fds)
    }

    /// Gives an order with descriptors that are the worker's alone from then on.
    pub fn hand(&mut self, word: Word, fds: &[i32]) -> Result<()> {
        let sent = self.insist(word, fds);
        fds.iter().copied().for_each(sys::close);
        sent
    }

    /// Gives an order and waits for the answer. Of a worker that died before it, the next one gives it.
    pub fn command(&mut self, word: Word, fds: &[i32]) -> Result<Word> {
        match self.try_command(word, fds) {
            Err(EPIPE) if self.worker.pid == 0 => self.try_command(word, fds),
            answer => answer,
        }
    }

    fn try_command(&mut self, word: Word, fds: &[i32]) -> Result<Word> {
        if self.worker.pid == 0 {
            self.have_worker()?;
        }
        self.insist(word, fds)?;
        loop {
            let ready = match sys::either(self.worker.orders[0], self.worker.wishes[0], PATIENCE_S) {
                Ok(ready) => ready,
                Err(EINTR) => continue,
                Err(error) => {
                    self.end_worker();
                    return Err(error);
                }
            };
            if ready[1] {
                self.wishes_ready();
            }
            if self.worker.pid == 0 {
                return Err(EPIPE);
            }
            if ready[0] {
                return self.answered();
            }
        }
    }

    fn answered(&mut self) -> Result<Word> {
        let (mut bytes, mut fds) = ([0; WORD], [-1; MAX_FDS]);
        let got = sys::recv_fds(self.worker.orders[0], &mut bytes, &mut fds, false);
        fds.into_iter().filter(|&fd| fd >= 0).for_each(sys::close);
        match got.ok().and_then(|(length, _)| Word::from_bytes(&bytes[..length])) {
            Some(answer) if answer.what == 0 => Ok(answer),
            Some(answer) => Err(answer.what as i32),
            None => {
                self.end_worker();
                Err(EPIPE)
            }
        }
    }

    /// The worker wishes something, or is gone, which the end of the child tells.
    pub fn wishes_ready(&mut self) {
        let wishes = self.worker.wishes[0];
        let (mut bytes, mut fds) = ([0; WORD], [-1; MAX_FDS]);
        let got = sys::recv_fds(wishes, &mut bytes, &mut fds, false);
        fds.into_iter().filter(|&fd| fd >= 0).for_each(sys::close);
        let Some(word) = got.ok().and_then(|(length, _)| Word::from_bytes(&bytes[..length])) else {
            if got != Err(EAGAIN) {
                let _ = sys::epoll_ctl(self.epoll, REMOVE, wishes, 0, 0);
            }
            return;
        };
        let granted = match word.what {
            ROTATE => self.next_log(word.b, word.c),
            SOCKET => self.inside_socket(word.a != 0, word.b != 0),
            LOST => return self.note_lost(word.b),
            CLOSED => return replace(&mut self.stdin, -1),
            CONFINED => return self.worker.confined = word.b == 0,
            _ => Err(ENOSYS),
        };
        let answer = Word { what: granted.err().unwrap_or(0) as u32, ..Word::default() };
        let sent = sys::send_fds(wishes, &answer.to_bytes(), granted.ok().as_slice());
        if let Ok(fd) = granted {
            sys::close(fd);
        }
        if sent == Err(EAGAIN) {
            self.end_worker();
        }
    }

    fn next_log(&mut self, records: u64, size: u64) -> Result<i32> {
        self.files.rotate(records, size).ok_or(EIO)
    }

    fn note_lost(&mut self, count: u64) {
        let lost = self.worker.lost.saturating_add(count);
        if lost > self.record.state.log_lost {
            self.record.state.log_lost = lost;
            self.record.write(false);
        }
    }

    /// A socket in the container's network namespace.
    fn inside_socket(&self, tcp: bool, v6: bool) -> Result<i32> {
        let home = sys::openat(AT_FDCWD, b"/proc/self/ns/net\0", O_RDONLY, 0)?;
        let made = sys::setns(self.init_pidfd, CLONE_NEWNET).and_then(|()| {
            let made = if v6 { sys::internet6(tcp) } else { sys::internet(tcp) };
            if sys::setns(home, CLONE_NEWNET).is_err() {
                // Nothing of the host's may be done from the container's network.
                sys::exit(1);
            }
            made
        });
        sys::close(home);
        made
    }

    /// Adds a client's streams to the container's. Descriptors that are not wanted are closed.
    pub fn attach(&mut self, mask: u32, fds: &[i32]) -> Result<()> {
        let (mut wanted, mut mine, mut count) = (0, [-1; 3], 0);
        let mut fds = fds.iter().copied();
        for stream in 0..3 {
            let bit = SESSION_STDIN << stream;
            if mask & bit == 0 {
                continue;
            }
            let fd = fds.next().unwrap_or(-1);
            if mask & bit << SESSION_DIRECT != 0 {
                replace(&mut self.direct[stream], fd);
            } else {
                wanted |= bit;
                mine[count] = own_description(fd, if stream == 0 { O_RDONLY } else { O_WRONLY });
                count += 1;
            }
        }
        fds.for_each(sys::close);
        let attach = Word { what: ATTACH, a: wanted, ..Word::default() };
        let result = match wanted {
            0 => Ok(()),
            // Before the start: it finds the order when it begins.
            _ if self.worker.pid == 0 && self.worker.orders[1] >= 0 => self.order(attach, &mine[..count]),
            _ => self.command(Word { b: 1, ..attach }, &mine[..count]).map(|_| ()),
        };
        mine[..count].iter().copied().filter(|&fd| fd >= 0).for_each(sys::close);
        result
    }

    /// Output of a further process: takes the descriptors, also when it fails.
    pub fn add_output(&mut self, owner: u32, source: i32, sink: Option<i32>) -> Result<()> {
        let fds = [source, sink.map_or(-1, |fd| own_description(fd, O_WRONLY))];
        let count = if fds[1] >= 0 { 2 } else { 1 };
        let result = self.command(Word { what: OUTPUT, a: owner, ..Word::default() }, &fds[..count]).map(|_| ());
        fds[..count].iter().copied().for_each(sys::close);
        result
    }

    /// A client's input for a further process. Takes the descriptor.
    pub fn add_input(&mut self, fd: i32, owner: u32, once: bool) -> Result<()> {
        let fd = own_description(fd, O_RDONLY);
        self.hand(Word { what: INPUT, a: owner, b: u64::from(once), ..Word::default() }, &[fd])
    }

    /// Where input of a process goes. Takes the descriptor.
    pub fn add_target(&mut self, owner: u32, fd: i32) -> Result<()> {
        self.hand(Word { what: TARGET, a: owner, ..Word::default() }, &[fd])
    }

    /// A stream of the container's own; a copy stays here.
    pub fn take_source(&mut self, index: usize, source: i32) {
        replace(&mut self.worker.sources[index], source);
        if self.worker.pid > 0 {
            let log = self.header.flags & FLAG_LOG != 0;
            let word = Word { what: OUTPUT, a: CONTAINER, b: index as u64 + 1, c: u64::from(log) };
            let _ = self.order(word, &[source]);
        }
    }

    /// Where the container's input goes; a copy stays here.
    pub fn take_stdin(&mut self, fd: i32) {
        replace(&mut self.stdin, fd);
        if self.worker.pid > 0 {
            let _ = self.order(Word { what: TARGET, a: CONTAINER, ..Word::default() }, &[fd]);
        }
    }

    /// The end of input of the container's clients of now is its own. A terminal has none.
    pub fn end_input(&mut self) -> Result<()> {
        if self.worker.pid == 0 || self.header.flags & FLAG_TTY != 0 {
            return Ok(());
        }
        self.command(Word { what: END_INPUT, a: CONTAINER, ..Word::default() }, &[]).map(|_| ())
    }

    pub fn enable_inputs(&mut self) {
        let _ = self.order(Word { what: ENABLE, a: CONTAINER, ..Word::default() }, &[]);
    }

    /// The process is gone: nobody takes input any more.
    pub fn drop_inputs(&mut self, owner: u32) {
        if self.worker.pid > 0 {
            let _ = self.order(Word { what: DROP, a: owner, ..Word::default() }, &[]);
        }
    }

    /// All output of the container's processes is taken and logged; one worker may die of it.
    pub fn stop_worker_streams(&mut self) {
        let stop = Word { what: STOP, ..Word::default() };
        // All output that is there is read, however many workers died.
        self.worker.deaths = 0;
        // Before the first worker nothing ran that wrote.
        if self.worker.pid > 0 || self.worker.orders[1] < 0 && self.worker.sources != [-1; 2] {
            let _ = self.command(stop, &[]).or_else(|_| self.command(stop, &[]));
        }
        replace(&mut self.worker.sources[STDOUT], -1);
        replace(&mut self.worker.sources[STDERR], -1);
        replace(&mut self.stdin, -1);
    }

    /// The health check ended: how much it wrote.
    pub fn end_check_output(&mut self) -> u32 {
        self.command(Word { what: CHECKED, ..Word::default() }, &[])
            .map_or(0, |answer| answer.b.min(u64::from(u32::MAX)) as u32)
    }

    /// The last check's output goes into a file.
    pub fn keep_check_output(&mut self, file: i32, at: u64) -> Result<()> {
        self.command(Word { what: KEEP_CHECK, b: at, ..Word::default() }, &[file]).map(|_| ())
    }

    /// Only clients are left, which have so long; then the worker ends.
    pub fn linger_worker(&mut self, millis: i32) {
        if self.worker.pid > 0 && self.worker.had_clients {
            let _ = self.command(Word { what: LINGER, b: millis as u64, ..Word::default() }, &[]);
        }
        self.end_worker();
    }
}

/// A descriptor that never blocks this process: its flags are not changed when its description is shared with the
/// caller's, so a pipe or terminal is opened anew.
fn own_description(fd: i32, flags: u32) -> i32 {
    const S_IFSOCK: u32 = 0o140000;
    let socket = sys::fstat(fd).is_ok_and(|stat| stat.mode & S_IFMT == S_IFSOCK);
    if socket || sys::get_flags(fd).is_ok_and(|flags| flags & O_NONBLOCK != 0) {
        return fd;
    }
    let mut path = *b"/proc/self/fd/\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    crate::text::decimal(&mut path[14..], i64::from(fd));
    match sys::openat(AT_FDCWD, &path, flags | O_NONBLOCK | O_NOCTTY, 0) {
        Ok(own) => {
            sys::close(fd);
            own
        }
        Err(_) => fd,
    }
}
