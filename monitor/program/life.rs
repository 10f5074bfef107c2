//! A container's life: start, event loop, end, restart.

use crate::boot::Monitor;
use crate::child::{self, Launch};
use crate::events::Value;
use crate::exits::{code_of, code_of_failure};
use crate::ops;
use crate::streams::{STDERR, STDOUT};
use crate::sys::{self, *};
use crate::timers;
use crate::userns::Made;
use crate::walls::Wall;
use crate::wire::*;

// The subject of an epoll event: kind in the upper half, index in the lower.
pub const SIGNALS: u32 = 1;
pub const LISTENER: u32 = 2;
pub const CLIENT: u32 = 3;
pub const OUTPUT: u32 = 4;
pub const SINK: u32 = 5;
pub const INPUT: u32 = 6;
pub const TARGET: u32 = 7;
pub const REPORT: u32 = 8;
pub const OOM: u32 = 9;
pub const WISH: u32 = 10;

/// How long clients may take what is left of the output of a container that ended.
const LINGER_MS: i32 = 10_000;

pub fn token(kind: u32, index: u32) -> u64 {
    u64::from(kind) << 32 | u64::from(index)
}

/// The first start, then the loop until the container has ended for good.
pub fn run(monitor: &mut Monitor) -> ! {
    monitor.record.set_status(Status::Starting, true);
    if let Err(failure) = monitor.start() {
        monitor.start_failed(failure);
    } else {
        monitor.answer_start(Failure::default());
        monitor.watch_oom();
    }
    sys::drop_stack();
    let mut events = [EpollEvent::default(); 32];
    loop {
        let count = sys::epoll_wait(monitor.epoll, &mut events, monitor.wait_ms()).unwrap_or(0);
        for event in &events[..count] {
            monitor.dispatch((event.data >> 32) as u32, event.data as u32 as usize);
        }
        let now = sys::monotonic();
        if timers::is_due(monitor.restarts.due(), now) {
            monitor.restart();
        }
        monitor.health_due(now);
        monitor.end_late_execs(now);
        monitor.worker_tick(now);
        if timers::is_due(monitor.tidy_at, now) {
            monitor.tidy_at = 0;
            sys::drop_stack();
        }
    }
}

/// The descriptors of the first process, closed here once it has them or will never be.
struct Given {
    /// Its standard streams.
    ends: [i32; 3],
    /// Where it reports: this end, and its own.
    report: [i32; 2],
    /// See [`Launch::host_link`].
    host_link: i32,
    made: Made,
}

impl Given {
    const NONE: Given = Given { ends: [-1; 3], report: [-1; 2], host_link: -1, made: Made::NONE };

    fn close(self) {
        let [input, output, errors] = self.ends;
        for fd in [input, output, errors, self.report[0], self.report[1], self.host_link] {
            if fd >= 0 {
                sys::close(fd);
            }
        }
        self.made.close();
    }
}

impl Monitor {
    /// Until something is due: a restart, a health check or its end.
    fn wait_ms(&self) -> i32 {
        let due =
            timers::earliest([self.restarts.due(), self.health.due(), self.worker.due, self.exec_due(), self.tidy_at]);
        timers::wait_ms(due, sys::monotonic())
    }

    fn dispatch(&mut self, kind: u32, index: usize) {
        match kind {
            SIGNALS => self.reap(),
            LISTENER => self.accept_client(),
            CLIENT => self.client_ready(index),
            WISH => self.wishes_ready(),
            REPORT => drop(self.exec_report(index)),
            OOM => self.check_oom(),
            _ => {}
        }
    }

    /// Makes cgroups and streams, clones the child, waits until it executes the program.
    fn start(&mut self) -> core::result::Result<(), Failure> {
        self.record.network_events(self.plan.plan(), b"connect");
        self.record.volume_events(self.plan.plan(), STRING_MOUNTED);
        self.start_process().inspect_err(|_| {
            self.record.network_events(self.plan.plan(), b"disconnect");
            self.record.volume_events(self.plan.plan(), STRING_UNMOUNTED);
        })
    }

    fn start_process(&mut self) -> core::result::Result<(), Failure> {
        self.groups.make(false)?;
        let mut given = Given::NONE;
        let forked = self.fork_first(&mut given);
        let kept = match &forked {
            Ok((pid, _)) => self.keep_network(self.plan.plan(), *pid, &given.made),
            Err(_) => Ok(()),
        };
        let kept = kept.map_err(|errno| Failure { step: STEP_MONITOR, errno, ..Failure::default() });
        let mut report = core::mem::replace(&mut given.report[0], -1);
        given.close();
        // The slow work of both is done at the same time.
        let outcome = forked.and_then(|child| {
            let mut appeared = 0;
            match kept.and_then(|()| self.bring_up(report, child, &mut appeared)) {
                Ok(()) => first_of(child, appeared),
                Err(failure) => {
                    // One that waits for its cgroups would wait for ever.
                    end_child(child, appeared);
                    Err(failure)
                }
            }
        });
        replace(&mut report, -1);
        let (pid, pidfd) = outcome?;
        self.started(pid, pidfd);
        Ok(())
    }

    /// Makes the other cgroups and the worker while the first process makes its mounts, and waits until it executes the
    /// program.
    fn bring_up(
        &mut self,
        report: i32,
        (pid, pidfd): (i32, i32),
        appeared: &mut i32,
    ) -> core::result::Result<(), Failure> {
        self.groups.make(true)?;
        self.oom.begin(self.groups.oom_file());
        self.groups.hand(report);
        self.start_worker().map_err(|errno| Failure { step: STEP_MONITOR, errno, ..Failure::default() })?;
        self.await_worker().map_err(|errno| Failure { step: STEP_WORKER, errno, ..Failure::default() })?;
        // Without this word the first process does not come to its program. One that is gone has said why.
        let _ = sys::send_fds(report, &child::WORKER_CONFINED, &[]);
        if self.may_keep_mounts() {
            replace(&mut self.mounts, sys::mounts_of(pidfd));
        }
        self.await_child(report, pid, appeared)
    }

    /// Whether nobody waits for the mounts to go: what is bound from the host's tree goes with the process.
    fn may_keep_mounts(&self) -> bool {
        self.plan.plan().each::<ops::Bind>().all(|(_, bind)| bind.flags & BIND_OWN != 0)
    }

    /// Clones the first process. What it was given is in `given`, however far this came.
    fn fork_first(&mut self, given: &mut Given) -> core::result::Result<(i32, i32), Failure> {
        let failed = |errno| Failure { step: STEP_MONITOR, errno, ..Failure::default() };
        let tty = self.header.flags & FLAG_TTY != 0;
        let mut direct = [false; 3];
        if !tty {
            direct = self.direct.map(|fd| fd >= 0);
            self.make_pipes(&mut given.ends).map_err(failed)?;
        }
        given.report = sys::report_pair().map_err(failed)?;
        let cgroup2 = self.groups.unified();
        if self.plan.plan().has::<ops::Net>() {
            given.host_link = sys::netlink(sys::NETLINK_ROUTE).map_err(failed)?;
        }
        let pids = self.plan.plan().each::<ops::JoinNs>().find(|(_, join)| u64::from(join.kind) == CLONE_NEWPID);
        // With the wall off the child itself is made in there.
        let mut own = -1;
        if let (Some((step, join)), false) = (pids, Wall::EnterConfined.stands()) {
            own = sys::openat(AT_FDCWD, b"/proc/self/ns/pid\0", O_RDONLY, 0).map_err(failed)?;
            let fd = self.namespaces[join.index as usize % MAX_FDS];
            sys::setns(fd, CLONE_NEWPID).map_err(|errno| Failure { step, errno, ..Failure::default() })?;
        }
        given.made = self.make_userns()?;
        let mut new = self.header.clone_flags & !CLONE_NEWCGROUP;
        let net_goes_on = self.kept.net >= 0;
        if net_goes_on {
            new &= !CLONE_NEWNET;
            given.made.others[0] = (sys::dup_from(self.kept.net, 0).map_err(failed)?, CLONE_NEWNET);
        }
        let new_network = core::mem::replace(&mut self.new_network, -1);
        if new_network >= 0 && new & CLONE_NEWNET != 0 {
            new &= !CLONE_NEWNET;
            given.made.others[0] = (new_network, CLONE_NEWNET);
        } else if new_network >= 0 {
            sys::close(new_network);
        }
        let forked = sys::fork(new, cgroup2);
        if let Ok((0, _)) = forked {
            child::run(&Launch {
                plan: self.plan.plan(),
                report: given.report[1],
                stdio: given.ends,
                direct,
                cgroups: self.groups.files(),
                starts: true,
                namespaces: &self.namespaces,
                volumes: &self.volumes,
                tty,
                rows: self.header.rows,
                cols: self.header.cols,
                init: -1,
                devpts: -1,
                host_link: given.host_link,
                restarts: self.record.state.restarts,
                enters: pids.is_some() && Wall::EnterConfined.stands(),
                others: true,
                net_goes_on,
                made: core::mem::replace(&mut given.made, Made::NONE),
            });
        }
        if own >= 0 {
            sys::setns(own, CLONE_NEWPID).map_err(failed)?;
            sys::close(own);
        }
        forked.map_err(|errno| Failure { step: STEP_CLONE, errno, ..Failure::default() })
    }

    /// Pipes of a container without a terminal: the child's ends.
    fn make_pipes(&mut self, ends: &mut [i32; 3]) -> Result<()> {
        *ends = core::mem::replace(&mut self.direct, [-1; 3]);
        if ends[0] < 0 && self.header.flags & FLAG_OPEN_STDIN != 0 {
            let pipe = sys::pipe2(0)?;
            sys::set_nonblocking(pipe[1]);
            ends[0] = pipe[0];
            self.take_stdin(pipe[1]);
        }
        for (end, index) in [(1, STDOUT), (2, STDERR)] {
            if ends[end] >= 0 {
                continue;
            }
            let pipe = sys::pipe2(0)?;
            ends[end] = pipe[1];
            self.take_source(index, pipe[0]);
        }
        Ok(())
    }

    /// Takes the child's reports until it executes the program or fails. Where it is a helper, `appeared` is the process that
    /// it made, in which others may have a hand by then: that one says no more than how it goes on.
    pub fn await_child(&mut self, report: i32, child: i32, appeared: &mut i32) -> core::result::Result<(), Failure> {
        let mut ready = false;
        sys::limit_receives(report, STEP_LIMIT_S);
        loop {
            let mut message = [0u8; 32];
            let mut fds = [-1; MAX_FDS];
            let (length, count, sender) = match sys::recv_from_child(report, &mut message, &mut fds, true) {
                Ok(message) => message,
                // It ended without taking what was handed to it; what it has said comes behind this.
                Err(ECONNRESET) => continue,
                Err(EAGAIN) => {
                    let step = if *appeared > 0 { STEP_HELD } else { STEP_LATE };
                    return Err(Failure { step, ..Failure::default() });
                }
                Err(errno) => return Err(Failure { step: STEP_LOST, errno, ..Failure::default() }),
            };
            if length == 0 {
                return if ready { Ok(()) } else { Err(Failure { step: STEP_LOST, ..Failure::default() }) };
            }
            if sender != child {
                fds[..count].iter().copied().for_each(sys::close);
            }
            match word(&message, 0) {
                child::REPORT_READY => ready = true,
                child::REPORT_FAILURE => return Err(failure_of(&message)),
                _ if sender != child => {}
                child::REPORT_APPEARED => {
                    *appeared = word(&message, 1) as i32;
                    if Wall::EntryLimit.stands() {
                        sys::limit_receives(report, crate::entry::limit());
                    }
                }
                child::REPORT_ROOT => replace(&mut self.root, fds[0]),
                crate::dns::REPORT_DNS => self.take_dns(word(&message, 1) as usize, fds[0]),
                child::REPORT_DONE => ready = true,
                child::REPORT_DEVPTS => replace(&mut self.devpts, fds[0]),
                child::REPORT_TERMINAL => self.take_terminal(fds[0]),
                _ => return Err(failure_of(&message)),
            }
        }
    }

    fn take_terminal(&mut self, master: i32) {
        // Its own: the one that is read is closed when every process of the container has closed the terminal, and what
        // then has its number is no terminal.
        self.master = sys::dup_from(master, 0).unwrap_or(-1);
        sys::set_nonblocking(master);
        if let Ok(stdin) = sys::dup_from(master, 0) {
            self.take_stdin(stdin);
        }
        self.take_source(STDOUT, master);
    }

    fn started(&mut self, pid: i32, pidfd: i32) {
        self.init = pid;
        self.killed = false;
        self.init_pidfd = pidfd;
        self.record.state.pid = pid;
        self.record.state.pid_start = start_time(pid);
        self.record.state.started_ns = sys::now();
        self.record.state.failure = Failure::default();
        self.record.state.flags = 0;
        self.record.set_status(Status::Running, true);
        self.record.event(b"start", b"", &[]);
        self.enable_inputs();
        self.begin_health();
    }

    fn answer_start(&mut self, failure: Failure) {
        if self.boot >= 0 {
            let answer = Answer {
                magic: MESSAGE_MAGIC,
                version: VERSION,
                errno: if failure == Failure::default() { 0 } else { failure.errno.max(1) },
                value: self.init,
                failure,
                ..Answer::default()
            };
            let _ = sys::send(self.boot, &answer.to_bytes());
            sys::close(self.boot);
            self.boot = -1;
        }
    }

    /// The first start failed: nothing ran, nothing stays, the library knows why.
    fn start_failed(&mut self, failure: Failure) -> ! {
        self.stop_streams();
        self.groups.remove(self.plan.plan());
        self.release_network();
        self.record.state.failure = failure;
        self.record.set_status(Status::Created, true);
        let _ = sys::unlinkat(self.run_dir, b"ctl\0", 0);
        sys::close(self.lock);
        self.answer_start(failure);
        self.linger()
    }

    fn stop_streams(&mut self) {
        self.end_dns();
        self.stop_worker_streams();
        sys::close(core::mem::replace(&mut self.master, -1));
    }

    /// Children ended: the container's first process, or exec'd ones.
    fn reap(&mut self) {
        let mut info = [0u8; 128 * 4];
        while sys::read(self.signals, &mut info).is_ok() {}
        let mut ended = None;
        while let Some((pid, status)) = sys::reap() {
            if pid == self.init {
                // The health check ends at once: /proc no longer shows that the container ended, and the check would count
                // that as a failure.
                self.end_health();
                ended = Some(status);
            } else if !self.worker_ended(pid) {
                self.exec_ended(pid, code_of(status));
                self.files.child_ended(pid);
            }
        }
        if let Some(status) = ended {
            self.ended(code_of(status));
        }
    }

    /// The first process ended, and with it every other of its pid namespace.
    fn ended(&mut self, code: i32) {
        self.end_health();
        self.init = 0;
        sys::close(self.init_pidfd);
        self.init_pidfd = -1;
        if self.header.flags & FLAG_SHARED_PIDS != 0 {
            crate::cgroup::kill_groups(self.plan.plan());
        }
        self.stop_streams();
        self.end_oom();
        let ran = sys::now() - self.record.state.started_ns;
        (self.record.state.pid, self.record.state.pid_start) = (0, 0);
        self.record.state.exit_code = code;
        self.record.state.finished_ns = sys::now();
        if self.restarts.ended() {
            self.record.state.flags |= STATE_MANUAL;
        }
        let again = self.wants_restart(code);
        // The event comes after the record: who hears of the end must find it ended.
        self.record.set_status(if again { Status::Restarting } else { Status::Exited }, true);
        self.record.event(b"die", b"", &[(b"exitCode", Value::Number(i64::from(code)))]);
        self.record.network_events(self.plan.plan(), b"disconnect");
        self.record.volume_events(self.plan.plan(), STRING_UNMOUNTED);
        if again {
            self.plan_restart(ran);
        } else {
            self.finish();
        }
    }

    fn wants_restart(&self, code: i32) -> bool {
        self.restarts.follows(code, self.record.state.restarts)
    }

    fn plan_restart(&mut self, ran: i64) {
        self.record.state.restarts += 1;
        self.keep_over_restart();
        self.restarts.plan(sys::monotonic(), ran);
        replace(&mut self.mounts, -1);
        self.groups.remove(self.plan.plan());
        self.record.set_status(Status::Restarting, true);
        self.answer_waiters(false);
    }

    fn restart(&mut self) {
        if self.is_held_off() {
            self.restarts.hold_off(sys::monotonic());
            return;
        }
        self.restarts.take();
        // The next overlay wants the directories for itself.
        replace(&mut self.root, -1);
        if let Err(failure) = self.start() {
            self.record.state.failure = failure;
            self.stop_streams();
            self.record.state.exit_code = code_of_failure(failure);
            self.record.state.finished_ns = sys::now();
            if self.wants_restart(self.record.state.exit_code) {
                self.plan_restart(0);
            } else {
                self.finish();
            }
        } else {
            self.watch_oom();
        }
    }

    /// Watches for kills from now on; one that came before is announced at once.
    fn watch_oom(&mut self) {
        self.oom.watch(self.epoll);
        self.check_oom();
    }

    /// Announces a kill that no event has announced.
    fn check_oom(&mut self) {
        if self.oom.check() {
            self.record.state.flags |= STATE_OOM;
            self.record.write(false);
            self.record.event(b"oom", b"", &[]);
        }
    }

    fn end_oom(&mut self) {
        self.check_oom();
        self.oom.end();
    }

    /// A pending restart is given up.
    pub fn give_up_restart(&mut self) {
        if self.restarts.take() {
            self.record.state.flags |= STATE_MANUAL;
            self.finish();
        }
    }

    /// The container has ended for good: that is recorded before those who wait are told. Addresses and ports, which
    /// others may want at once, are free by then, too. Who starts or removes the container waits for the lock, and so
    /// for all that is released here.
    fn finish(&mut self) -> ! {
        if self.record.state.status() != Status::Exited {
            self.record.set_status(Status::Exited, true);
        }
        self.end_execs();
        if !self.has_networks() {
            self.answer_waiters(true);
        }
        if self.groups.remove(self.plan.plan()) {
            self.record.state.flags |= STATE_SWEPT;
            self.record.write(false);
        }
        self.release_network();
        let _ = sys::unlinkat(self.run_dir, b"ctl\0", 0);
        sys::close(self.lock);
        self.answer_waiters(true);
        self.linger()
    }

    /// Only clients are left, with output that they have not taken yet.
    fn linger(&mut self) -> ! {
        replace(&mut self.mounts, -1);
        replace(&mut self.root, -1);
        self.volumes.iter_mut().for_each(|volume| replace(volume, -1));
        self.linger_worker(LINGER_MS);
        self.files.finish();
        sys::exit(0)
    }
}

/// The container's first process: the child itself, or the one that the child, a helper, has made.
fn first_of((pid, pidfd): (i32, i32), appeared: i32) -> core::result::Result<(i32, i32), Failure> {
    if appeared == 0 {
        return Ok((pid, pidfd));
    }
    sys::wait_for(pid);
    sys::close(pidfd);
    match sys::pidfd_of(appeared) {
        Ok(first) => Ok((appeared, first)),
        Err(errno) => {
            sys::kill_group(appeared);
            sys::wait_for(appeared);
            Err(Failure { step: STEP_MONITOR, errno, ..Failure::default() })
        }
    }
}

/// Ends a child that failed, and what it made.
fn end_child((pid, pidfd): (i32, i32), appeared: i32) {
    let _ = sys::pidfd_signal(pidfd, SIGKILL);
    sys::wait_for(pid);
    sys::close(pidfd);
    if appeared > 0 {
        sys::kill_group(appeared);
        sys::wait_for(appeared);
    }
}

pub fn word(message: &[u8], index: usize) -> u32 {
    let at = index * 4;
    u32::from_ne_bytes([message[at], message[at + 1], message[at + 2], message[at + 3]])
}

pub fn failure_of(message: &[u8]) -> Failure {
    Failure {
        step: word(message, 1),
        errno: word(message, 2) as i32,
        detail: word(message, 3),
        extra: word(message, 4),
    }
}

pub fn replace(place: &mut i32, fd: i32) {
    if *place >= 0 {
        sys::close(*place);
    }
    *place = fd;
}

/// Field 22 of /proc/PID/stat: clock ticks since boot.
fn start_time(pid: i32) -> u64 {
    stat_field(pid, 22)
}

/// Whether a process is on its way out (`PF_EXITING`), though it may still be there.
pub fn is_exiting(pid: i32) -> bool {
    stat_field(pid, 9) & 4 != 0
}

/// A number of /proc/PID/stat, counted from 1 as proc(5) does; 0 where there is none.
fn stat_field(pid: i32, field: usize) -> u64 {
    let mut path = *b"/proc/\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    let length = crate::text::decimal(&mut path[6..], i64::from(pid)).len();
    path[6 + length..6 + length + 5].copy_from_slice(b"/stat");
    let mut buffer = [0u8; 512];
    let length = sys::read_file(&path, &mut buffer).unwrap_or(0);
    crate::answers::stat_field(&buffer[..length], field)
}
