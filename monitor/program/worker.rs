//! The worker: the half of the monitor that reads what a container made. It copies output and input, writes the log,
//! answers names and passes on connections; it begins as a copy of the launcher, keeps the few descriptors that this
//! takes, and gives its rights up before the first byte (`confine`). What it cannot do any more it asks the launcher for
//! (`orders`).

use crate::boot::Monitor;
use crate::confine;
use crate::filter::WORKER;
use crate::health::CHECK;
use crate::life::{INPUT, OUTPUT, SINK, TARGET, token};
use crate::ops::Plan;
use crate::orders::{self, ORDER, WORD, Word};
use crate::streams::{CONTAINER, STDERR, STDOUT};
use crate::sys::{self, *};
use crate::wire::*;

const ORDERS: u32 = 11;
/// Ends when the launcher has closed its end.
const GONE: i32 = 0;
/// The exit code where the rights could not be given up.
const NOT_CONFINED: i32 = 71;

/// In the child of the fork.
pub fn run(monitor: &mut Monitor) -> ! {
    let confined = monitor.confine();
    let errno = confined.err().unwrap_or(0);
    orders::tell(monitor.worker.wishes[1], Word { what: orders::CONFINED, b: errno as u64, ..Word::default() });
    if errno != 0 {
        sys::exit(NOT_CONFINED);
    }
    monitor.open_all();
    sys::drop_stack();
    let mut events = [EpollEvent::default(); 32];
    loop {
        let wait = if monitor.relay_is_busy() { 0 } else { wait_ms(monitor.dns_due()) };
        let count = sys::epoll_wait(monitor.epoll, &mut events, wait).unwrap_or(0);
        for event in &events[..count] {
            let (kind, index) = ((event.data >> 32) as u32, event.data as u32 as usize);
            monitor.work(kind, index, event.events);
        }
        monitor.dns_tick();
        monitor.relay_tick();
    }
}

fn wait_ms(due: i64) -> i32 {
    if due == 0 {
        return -1;
    }
    ((due - sys::monotonic()).max(0) / 1_000_000 + 1).min(60_000) as i32
}

/// Descriptors that stay open, a bit each.
struct Kept(&'static mut [u8]);

impl Kept {
    /// As many as the hard limit of the kernel is.
    const MOST: usize = 1 << 20;

    fn add(&mut self, fd: i32) {
        if let Some(byte) = usize::try_from(fd).ok().and_then(|fd| self.0.get_mut(fd / 8)) {
            *byte |= 1 << (fd % 8);
        }
    }

    /// Closes all others.
    fn close_others(self, highest: i32) -> Result<()> {
        let mut first = 3;
        for fd in 3..=highest.max(2) {
            if self.0.get(fd as usize / 8).is_some_and(|byte| byte & 1 << (fd % 8) != 0) {
                if fd > first {
                    sys::close_range(first, fd as u32 - 1, 0)?;
                }
                first = fd + 1;
            }
        }
        sys::unmap(self.0);
        sys::close_range(first, u32::MAX, 0)
    }
}

impl Monitor {
    /// Leaves everything behind that the worker does not need.
    fn confine(&mut self) -> Result<()> {
        const PR_SET_NAME: usize = 15;
        const PR_SET_PDEATHSIG: usize = 1;
        let _ = sys::prctl(PR_SET_NAME, c"coracle-worker".as_ptr() as usize);
        sys::prctl(PR_SET_PDEATHSIG, SIGKILL as usize)?;
        crate::logfile::begin(&mut self.log)?;
        let states = reopened(self.record.run_states())?;
        let (orders, wishes) = (self.worker.orders[1], self.worker.wishes[1]);
        self.worker.pid = 0;
        let mut highest = 0;
        let mut kept = Kept(sys::map_memory(Kept::MOST / 8)?);
        let single = [orders, wishes, self.log.file.fd, states, self.run_dir, self.open_alive(), self.stdin];
        let sources = self.worker.sources;
        let sockets = self.dns_sockets().map(|(_, fd)| fd).chain(self.relay_sockets());
        for fd in single.into_iter().chain(sources).chain(sockets) {
            kept.add(fd);
            highest = highest.max(fd);
        }
        kept.close_others(highest)?;
        self.record.replace_run_states(states);
        (self.lock, self.epoll) = (-1, sys::epoll_create()?);
        // The files of names, and who lives: both lie in the directory of all that runs.
        let running = sys::openat(self.run_dir, b"../..\0", O_PATH | O_DIRECTORY, 0)?;
        confine::enter_root(running)?;
        confine::give_up(WORKER, running)?;
        sys::close(running);
        sys::epoll_ctl(self.epoll, ADD, orders, EPOLLIN, token(ORDERS, 0))
    }

    /// Takes up what an earlier worker left, or the start made.
    fn open_all(&mut self) {
        let log = self.header.flags & FLAG_LOG != 0;
        for index in [STDOUT, STDERR] {
            let source = self.worker.sources[index];
            if source >= 0 {
                let _ = self.take_output(CONTAINER, Some(index), source, log, None);
            }
        }
        if self.stdin >= 0 {
            self.set_target(CONTAINER, self.stdin);
        }
        if self.init != 0 {
            self.enable(CONTAINER);
        }
        for which in 0..8 {
            let socket = self.dns_sockets().find(|(at, _)| *at == which);
            if let Some((_, fd)) = socket {
                self.open_dns(which, fd);
            }
        }
        self.watch_relays(0);
    }

    fn work(&mut self, kind: u32, index: usize, bits: u32) {
        match kind {
            ORDERS => self.take_order(),
            OUTPUT => self.output_ready(index),
            SINK => self.sink_ready(index, bits),
            INPUT => self.input_ready(index),
            TARGET => self.target_ready(index as u32),
            crate::dns::DNS => self.dns_ready(index),
            crate::relay::PORT | crate::relay::SIDE | crate::relay::BACK => self.relay_ready(kind, index),
            _ => {}
        }
    }

    fn take_order(&mut self) {
        let (mut bytes, mut fds) = ([0; ORDER], [-1; MAX_FDS]);
        let (length, count) = match sys::recv_fds(self.worker.orders[1], &mut bytes, &mut fds, false) {
            Ok((length, count)) if length >= WORD => (length, count),
            Err(EAGAIN | EINTR) => return,
            // The launcher is gone.
            _ => sys::exit(GONE),
        };
        let Some(word) = Word::from_bytes(&bytes[..length]) else { return };
        let answer = self.obey(word, &bytes[WORD..length], &fds[..count]);
        if let Some(answer) = answer {
            let word = Word { what: answer.err().unwrap_or(0) as u32, b: answer.unwrap_or(0), ..Word::default() };
            let _ = sys::send_fds(self.worker.orders[1], &word.to_bytes(), &[]);
        }
    }

    /// None: no answer is waited for.
    fn obey(&mut self, word: Word, keys: &[u8], fds: &[i32]) -> Option<Result<u64>> {
        let fd = fds.first().copied().unwrap_or(-1);
        let done = |result: Result<()>| Some(result.map(|()| 0));
        match word.what {
            orders::ATTACH => {
                let attached = self.attach_streams(word.a, fds);
                return done(attached).filter(|_| word.b != 0);
            }
            orders::OUTPUT => {
                let index = (word.b > 0).then(|| (word.b - 1) as usize % 2);
                if word.a == CHECK as u32 + 1 {
                    self.health.forget_output();
                }
                let taken = self.take_output(word.a, index, fd, word.c != 0, fds.get(1).copied());
                return done(taken).filter(|_| index.is_none());
            }
            orders::TARGET => self.set_target(word.a, fd),
            orders::INPUT => drop(self.open_input(fd, word.a, word.b != 0)),
            orders::ENABLE => self.enable(word.a),
            orders::STOP => {
                self.end_relayed();
                self.drain_container();
                self.lose_inputs(CONTAINER);
                return Some(Ok(0));
            }
            orders::DROP => self.lose_inputs(word.a),
            orders::END_INPUT => {
                self.end_with_inputs(word.a);
                return Some(Ok(0));
            }
            orders::CHECKED => {
                self.end_outputs(CHECK as u32 + 1);
                return Some(Ok(u64::from(self.health.taken().0)));
            }
            orders::KEEP_CHECK => {
                let kept = sys::pwrite(fd, self.health.taken().1, word.b);
                sys::close(fd);
                return done(kept.map(|_| ()));
            }
            orders::DNS_SOCKET => self.open_dns(word.a as usize, fd),
            orders::END_DNS => self.close_dns(),
            orders::PLAN => self.change_plan(fd),
            orders::PORTS => self.more_relays(keys, fds),
            orders::END_PORTS => {
                self.close_relays();
                return Some(Ok(0));
            }
            orders::LINGER => {
                self.give_the_rest(word.b as i64);
                return Some(Ok(0));
            }
            _ => fds.iter().copied().for_each(sys::close),
        }
        None
    }

    fn change_plan(&mut self, file: i32) {
        let plan = sys::fstat(file).and_then(|stat| sys::map_file(file, stat.size as usize));
        sys::close(file);
        // The launcher has read it before.
        if let Some(Ok(plan)) = plan.ok().map(Plan::check) {
            self.plan.replace(plan);
            self.read_resolver();
            // Packets on their way went to where the ports led before.
            self.end_relayed();
        }
    }

    /// Gives clients what they have not taken, for so long.
    fn give_the_rest(&mut self, millis: i64) {
        let until = sys::monotonic() + millis * 1_000_000;
        let mut events = [EpollEvent::default(); 16];
        let _ = sys::epoll_ctl(self.epoll, REMOVE, self.worker.orders[1], 0, 0);
        while self.draining() && sys::monotonic() < until {
            let count = sys::epoll_wait(self.epoll, &mut events, millis as i32).unwrap_or(0);
            for event in &events[..count] {
                if (event.data >> 32) as u32 == SINK {
                    self.sink_ready(event.data as u32 as usize, event.events);
                }
            }
        }
    }
}

/// Opens a descriptor's file again, for reading alone.
fn reopened(fd: i32) -> Result<i32> {
    let mut path = *b"/proc/self/fd/\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    crate::text::decimal(&mut path[14..], i64::from(fd));
    sys::openat(AT_FDCWD, &path, O_RDONLY, 0)
}
