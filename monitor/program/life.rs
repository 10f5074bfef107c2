//! The loop, and a container's life: start, end, restart.

use crate::cgroup;
use crate::clients::Waits;
use crate::events::Value;
use crate::execs::{Around, Home};
use crate::exits::{code_of, code_of_failure};
use crate::failure::{Step, of_monitor};
use crate::fd::Fd;
use crate::monitor::Monitor;
use crate::network::has_addresses;
use crate::owners::CHECK;
use crate::process::start_time;
use crate::streams;
use crate::subjects::*;
use crate::sys::{self, *};
use crate::timers;
use crate::wire::*;

/// How long clients may take the rest of the output of a container that ended.
const LINGER_MS: i32 = 10_000;

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
            let (kind, index) = subject(event.data);
            monitor.dispatch(kind, index);
            monitor.pass_on();
        }
        monitor.tick(sys::monotonic());
        monitor.pass_on();
    }
}

impl Monitor {
    fn wait_ms(&self) -> i32 {
        let link = [self.link.life.due(), self.link.buffered.due(), self.link.shipping.due()];
        let due = [self.restarts.due(), self.health.checks.due(), self.execs.due()].into_iter().chain(link);
        timers::wait_ms(timers::earliest(due), sys::monotonic())
    }

    fn dispatch(&mut self, kind: u32, index: usize) {
        match kind {
            SIGNALS => self.reap(),
            LISTENER => self.control.accept(),
            CLIENT => self.client_ready(index),
            REQUEST => self.link.request_ready(),
            WRITER => self.link.buffered.request_ready(&mut self.link.files),
            REPORT => self.exec_report(index),
            OOM => self.check_oom(),
            LEASE => {
                self.supplies.lease.close();
                // The last holder is gone: the container ends for good. A container that is ending needs no signal.
                let _ = self.signal(SIGKILL, true);
            }
            _ => {}
        }
    }

    /// Does everything that is due.
    fn tick(&mut self, now: i64) {
        if timers::is_due(self.restarts.due(), now) {
            self.restart(now);
        }
        self.health_tick(now);
        let (execs, mut around) = self.execs();
        execs.tick(now, &mut around);
        self.link.tick(now);
    }

    /// Passes on the results that parts have for others.
    fn pass_on(&mut self) {
        if self.link.life.take_death() {
            self.execs.hang_up();
        }
        self.note_lost();
        while let Some((slot, waits)) = self.control.take_gone() {
            self.execs.forget_client(slot);
            if waits == Waits::Freezes && self.record.state.status() == Status::Paused && self.pause(false).is_ok() {
                self.record.event(b"unpause", b"", &[]);
            }
        }
        self.check_ended();
    }

    /// Notes records of the log that could not be written.
    fn note_lost(&mut self) {
        let lost = self.link.lost.records().saturating_add(self.link.buffered.lost());
        if lost > self.record.state.log_lost {
            self.record.state.log_lost = lost;
            self.record.write(false);
        }
    }

    /// The further processes, and the parts that they work with.
    fn execs(&mut self) -> (&mut crate::execs::Execs, Around<'_>) {
        self.control.flags = self.record.state.flags;
        (&mut self.execs, Around { link: &mut self.link, record: &mut self.record, control: &mut self.control })
    }

    fn exec_report(&mut self, index: usize) {
        let (execs, mut around) = self.execs();
        execs.report(index, &mut around);
    }

    fn kill_exec(&mut self, index: usize) {
        let (execs, mut around) = self.execs();
        execs.kill(index, &mut around);
    }

    /// Checks stop: the container is frozen or ended.
    pub fn end_health(&mut self) {
        if self.health.stop(&mut self.record, self.execs.is_there(CHECK)) {
            self.kill_exec(CHECK);
        }
    }

    /// Begins a check that is due, or ends one that takes too long.
    fn health_tick(&mut self, now: i64) {
        if self.health.checks.is_overdue(now) && self.execs.is_there(CHECK) {
            self.health.is_overdue();
            self.kill_exec(CHECK);
        }
        if !self.health.checks.begins(now, self.execs.is_there(CHECK)) || self.process.is_exiting() {
            return;
        }
        let Some((plan, id)) = self.health.begin(now, &self.record) else { return };
        let home = Home::new(&self.process, &self.groups, self.header.flags);
        if let Err(errno) = self.execs.start_check(plan, id, &home, &mut self.link) {
            self.execs.check_failed(of_monitor(errno));
        }
    }

    /// Passes the end of a health check on, if one has ended.
    fn check_ended(&mut self) {
        if let Some(end) = self.execs.take_check() {
            // A check that ended with the container does not count.
            let with_container = !self.process.runs() || end.result != Ok(0) && self.process.is_exiting();
            self.health.ended(end, with_container, &mut self.record, &mut self.link);
        }
    }

    /// Starts the container, with the events of its networks and volumes.
    fn start(&mut self) -> Step {
        let plan = self.link.plan();
        self.record.network_events(plan, b"connect");
        self.record.volume_events(plan, STRING_MOUNTED);
        self.start_process().inspect_err(|_| {
            self.record.network_events(plan, b"disconnect");
            self.record.volume_events(plan, STRING_UNMOUNTED);
        })
    }

    pub fn started(&mut self, pid: i32, pidfd: i32) {
        self.process.started(pid, pidfd);
        self.link.inside.pidfd = pidfd;
        let state = &mut self.record.state;
        (state.pid, state.pid_start, state.started_ns) = (pid, start_time(pid), sys::now());
        (state.failure, state.flags) = (Failure::default(), 0);
        self.record.set_status(Status::Running, true);
        self.record.event(b"start", b"", &[]);
        streams::enable_inputs(&mut self.link);
        self.health.started(&mut self.record);
    }

    fn answer_start(&mut self, failure: Failure) {
        if self.boot.is_open() {
            let answer = Answer {
                magic: MESSAGE_MAGIC,
                version: VERSION,
                errno: if failure == Failure::default() { 0 } else { failure.errno.max(1) },
                value: self.process.pid,
                failure,
                ..Answer::default()
            };
            let _ = sys::send(self.boot.raw(), &answer.to_bytes());
            self.boot.close();
        }
    }

    /// The first start failed: nothing ran, everything is removed, and the library learns why.
    fn start_failed(&mut self, failure: Failure) -> ! {
        self.stop_streams();
        self.groups.remove(self.link.plan());
        self.network.release(&mut self.link);
        self.record.state.failure = failure;
        self.record.set_status(Status::Created, true);
        self.control.remove_name(self.record.run_dir());
        self.lock.close();
        self.answer_start(failure);
        self.linger()
    }

    fn stop_streams(&mut self) {
        self.network.end_names(&mut self.link);
        self.link.stop_streams();
        self.process.master.close();
        self.note_lost();
    }

    /// Children ended: the container's first process, or further ones.
    fn reap(&mut self) {
        let mut info = [0u8; 128 * 4];
        while sys::read(self.signals.raw(), &mut info).is_ok() {}
        let mut ended = None;
        while let Some((pid, status)) = sys::reap() {
            if pid == self.process.pid {
                // The health check ends at once: /proc no longer shows that the container ended, and the check would
                // count that as a failure.
                self.end_health();
                ended = Some(status);
            } else {
                self.child_ended(pid, status);
            }
        }
        if let Some(status) = ended {
            self.ended(code_of(status));
        }
    }

    /// A child ended that is not the container's first process.
    fn child_ended(&mut self, pid: i32, status: i32) {
        if self.link.child_ended(pid) {
            if self.link.life.take_death() {
                self.execs.hang_up();
            }
            return;
        }
        if self.link.buffered.child_ended(pid, status, &mut self.link.files) {
            return;
        }
        let (execs, mut around) = self.execs();
        execs.child_ended(pid, code_of(status), &mut around);
        self.check_ended();
        self.link.files.child_ended(pid);
    }

    /// The first process ended, and with it every other process of its PID namespace.
    fn ended(&mut self, code: i32) {
        self.end_health();
        self.process.ended();
        self.link.inside.pidfd = -1;
        if self.header.flags & FLAG_SHARED_PIDS != 0 {
            cgroup::kill_groups(self.link.plan());
        }
        self.stop_streams();
        self.end_oom();
        let state = &mut self.record.state;
        let ran = sys::now() - state.started_ns;
        (state.pid, state.pid_start) = (0, 0);
        (state.exit_code, state.finished_ns) = (code, sys::now());
        if self.restarts.ended() {
            state.flags |= STATE_MANUAL;
        }
        let again = self.restarts.follows(code, state.restarts);
        // The event comes after the record: a listener that hears of the end must find the container ended.
        self.record.set_status(if again { Status::Restarting } else { Status::Exited }, true);
        self.record.event(b"die", b"", &[(b"exitCode", Value::Number(i64::from(code)))]);
        self.record.network_events(self.link.plan(), b"disconnect");
        self.record.volume_events(self.link.plan(), STRING_UNMOUNTED);
        if again {
            self.plan_restart(ran);
        } else {
            self.finish();
        }
    }

    fn plan_restart(&mut self, ran: i64) {
        self.record.state.restarts += 1;
        self.record.state.kept = self.network.keep_over_restart(&mut self.link, self.record.state.kept);
        self.restarts.plan(sys::monotonic(), ran);
        self.process.mounts.close();
        self.groups.remove(self.link.plan());
        self.record.set_status(Status::Restarting, true);
        self.answer_waiters(false);
    }

    fn restart(&mut self, now: i64) {
        if self.control.holds_off() {
            return self.restarts.hold_off(now);
        }
        self.restarts.take();
        // The next overlay wants the directories for itself.
        self.process.root.close();
        let Err(failure) = self.start() else { return self.watch_oom() };
        self.record.state.failure = failure;
        self.stop_streams();
        self.record.state.exit_code = code_of_failure(failure);
        self.record.state.finished_ns = sys::now();
        if self.restarts.follows(self.record.state.exit_code, self.record.state.restarts) {
            self.plan_restart(0);
        } else {
            self.finish();
        }
    }

    /// Watches for kills of the OOM killer from now on, and announces at once one that came before.
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

    fn answer_waiters(&mut self, last: bool) {
        self.control.flags = self.record.state.flags;
        self.control.answer_waiters(last, self.record.state.exit_code);
    }

    /// The container has ended for good. This is recorded before the waiting clients get their answers; by then the
    /// addresses and ports are free too, because other containers may want them at once. A start or a removal of the
    /// container waits for the lock, and so for everything that is released here.
    fn finish(&mut self) -> ! {
        if self.record.state.status() != Status::Exited {
            self.record.set_status(Status::Exited, true);
        }
        // Every process of the container ended with it. The children that are not reaped yet are reaped now.
        while let Some((pid, status)) = sys::reap() {
            self.child_ended(pid, status);
        }
        self.link.buffered.give_up();
        self.note_lost();
        if !has_addresses(self.link.plan()) {
            self.answer_waiters(true);
        }
        if self.groups.remove(self.link.plan()) {
            self.record.state.flags |= STATE_SWEPT;
            self.record.write(false);
        }
        self.network.release(&mut self.link);
        self.control.remove_name(self.record.run_dir());
        self.lock.close();
        self.answer_waiters(true);
        self.linger()
    }

    /// Only clients are left, with output that they have not taken yet.
    fn linger(&mut self) -> ! {
        self.process.mounts.close();
        self.process.root.close();
        self.supplies.volumes.iter_mut().for_each(Fd::close);
        self.link.linger(LINGER_MS);
        self.link.files.finish();
        sys::exit(0)
    }
}
