//! Further processes in the container: started on request, reaped, their end written where the request said.

use crate::boot::{MAX_EXECS, Monitor};
use crate::child::{self, Launch, errno, os};
use crate::entry;
use crate::events::Value;
use crate::health::CHECK;
use crate::life::{REPORT, failure_of, replace, token, word};
use crate::ops::{Bad, Plan};
use crate::sys::{self, *};
use crate::walls::Wall;
use crate::wire::*;

/// Exit code of an exec whose program could not be started, whatever the reason, as with dockerd.
const NOT_STARTED: i32 = 126;
/// How long after a further process its memory is kept for the next one.
const TIDY_NS: i64 = 1_000_000_000;

pub struct Exec {
    used: bool,
    /// The process that walks the plan, outside of the container's PID namespace, until it is reaped; 0: there is none.
    helper: i32,
    /// The process that the helper made in the container; 0: it is not known yet.
    pid: i32,
    /// The reports of both, until the program is executed.
    report: i32,
    /// When that takes too long (monotonic ns); 0: it is done.
    deadline: i64,
    state_file: i32,
    /// The exec instance's id, where the request said it.
    id: [u8; 64],
    /// Slot of the client that asked, and is still there.
    client: Option<usize>,
    plan: Plan<'static>,
    ready: bool,
    failure: Failure,
    master: i32,
    /// The sink for the output, while a terminal is not there yet.
    terminal_sink: i32,
    terminal_input: i32,
    code: Option<i32>,
}

/// # Safety
/// `place` is valid for writing, and nothing refers to it.
pub unsafe fn init(place: *mut [Exec; MAX_EXECS + 1]) {
    for index in 0..=MAX_EXECS {
        // SAFETY: within the array.
        unsafe { (&raw mut (*place)[index]).write(FREE) };
    }
}

const FREE: Exec = Exec {
    used: false,
    helper: 0,
    pid: 0,
    report: -1,
    deadline: 0,
    state_file: -1,
    id: [0; 64],
    client: None,
    plan: Plan::EMPTY,
    ready: false,
    failure: Failure { step: 0, errno: 0, detail: 0, extra: 0 },
    master: -1,
    terminal_sink: -1,
    terminal_input: -1,
    code: None,
};

/// The process that was forked for an exec; the walls decide whether the helper is there, or the process itself at once.
struct Forked {
    helper: i32,
    pid: i32,
    report: i32,
}

/// Takes a descriptor out of its place.
fn take(place: &mut i32) -> i32 {
    core::mem::replace(place, -1)
}

type Outcome = core::result::Result<(), Failure>;

impl Monitor {
    /// Starts a process: descriptors are the plan, the state file, and the streams of the mask. Takes them all.
    pub fn exec(&mut self, client: usize, mask: u32, id: &[u8], fds: &[i32]) -> Outcome {
        // Those that have found a new owner are taken out.
        let mut left = [-1; MAX_FDS];
        left[..fds.len()].copy_from_slice(fds);
        let result = self.try_exec(client, mask, id, &mut left[..fds.len()]);
        left.into_iter().filter(|&fd| fd >= 0).for_each(sys::close);
        result
    }

    fn try_exec(&mut self, client: usize, mask: u32, id: &[u8], fds: &mut [i32]) -> Outcome {
        let wanted = 2 + (mask & SESSION_STREAMS).count_ones() as usize;
        if self.init == 0 {
            return Err(errno(ESRCH));
        }
        if self.record.state.status() == Status::Paused {
            return Err(errno(EAGAIN));
        }
        if fds.len() != wanted {
            return Err(errno(EINVAL));
        }
        let index = self.execs[..MAX_EXECS].iter().position(|exec| !exec.used).ok_or(errno(EBUSY))?;
        let length = os(sys::fstat(fds[0]))?.size as usize;
        let bytes = os(sys::map_file(fds[0], length))?;
        let plan = Plan::check(bytes).map_err(|bad: Bad| {
            sys::unmap(bytes);
            bad.failure()
        })?;
        let started = self.clone_exec(index, plan, mask, fds);
        let exec = &mut self.execs[index];
        match started {
            Ok(forked) => {
                (exec.plan, exec.state_file, exec.client) = (plan, take(&mut fds[1]), Some(client));
                if let Ok(id) = id.try_into() {
                    exec.id = id;
                }
                os(self.watch_exec(index, forked))
            }
            Err(error) => {
                for fd in [exec.terminal_sink, exec.terminal_input] {
                    if fd >= 0 {
                        sys::close(fd);
                    }
                }
                *exec = FREE;
                self.drop_inputs(index as u32 + 1);
                sys::unmap(bytes);
                Err(errno(error))
            }
        }
    }

    /// The process is on its way: what it says is listened to, for some time.
    fn watch_exec(&mut self, index: usize, forked: Forked) -> Result<()> {
        let exec = &mut self.execs[index];
        (exec.used, exec.helper, exec.pid, exec.report) = (true, forked.helper, forked.pid, forked.report);
        let limit = if forked.pid > 0 { entry::limit() } else { STEP_LIMIT_S };
        exec.deadline = sys::monotonic() + limit * 1_000_000_000;
        sys::epoll_ctl(self.epoll, ADD, forked.report, EPOLLIN, token(REPORT, index as u32))
    }

    fn clone_exec(&mut self, index: usize, plan: Plan, mask: u32, fds: &mut [i32]) -> Result<Forked> {
        let owner = index as u32 + 1;
        let header = plan.header().ok_or(EINVAL)?;
        let tty = header.flags & FLAG_TTY != 0;
        // Which of the descriptors is which stream.
        let mut streams = [None; 3];
        let mut given = 2..fds.len();
        for (bit, stream) in [(SESSION_STDIN, 0), (SESSION_STDOUT, 1), (SESSION_STDERR, 2)] {
            if mask & bit != 0 {
                streams[stream] = given.next();
            }
        }
        let mut ends = [-1; 3];
        if tty {
            self.execs[index].terminal_input = streams[0].map_or(-1, |at| take(&mut fds[at]));
            self.execs[index].terminal_sink = streams[1].map_or(-1, |at| take(&mut fds[at]));
        } else if let Err(error) = self.exec_pipes(index, mask, streams, fds, &mut ends) {
            ends.into_iter().filter(|&end| end >= 0).for_each(sys::close);
            return Err(error);
        }
        let direct = [0, 1, 2].map(|stream| !tty && mask & SESSION_STDIN << stream << SESSION_DIRECT != 0);
        let forked = self.fork_exec(&header, plan, ends, direct)?;
        if let (false, Some(at)) = (tty || mask & SESSION_STDIN << SESSION_DIRECT != 0, streams[0]) {
            // Where no room is left the process has no input; it runs.
            let _ = self.add_input(take(&mut fds[at]), owner, true);
        }
        Ok(forked)
    }

    /// Makes the helper with the process's ends of the streams, which are closed here.
    fn fork_exec(&mut self, header: &Header, plan: Plan, ends: [i32; 3], direct: [bool; 3]) -> Result<Forked> {
        let forked = self.try_fork_exec(header, plan, ends, direct);
        ends.into_iter().filter(|&end| end >= 0).for_each(sys::close);
        forked
    }

    fn try_fork_exec(&mut self, header: &Header, plan: Plan, ends: [i32; 3], direct: [bool; 3]) -> Result<Forked> {
        let report = sys::report_pair()?;
        let cgroup2 = self.groups.unified();
        let forked = match Wall::EnterConfined.stands() {
            true => sys::fork(0, cgroup2),
            false => self.fork_inside(cgroup2),
        };
        if let Ok((0, _)) = forked {
            child::run(&Launch {
                plan,
                report: report[1],
                stdio: ends,
                direct,
                cgroups: self.groups.files(),
                starts: false,
                namespaces: &[],
                volumes: &[],
                tty: header.flags & FLAG_TTY != 0,
                rows: header.rows,
                cols: header.cols,
                init: self.init_pidfd,
                devpts: self.devpts,
                host_link: -1,
                restarts: 0,
                enters: Wall::EnterConfined.stands(),
                others: self.header.flags & FLAG_SHARED_PIDS != 0,
                net_goes_on: false,
                made: crate::userns::Made::NONE,
            });
        }
        sys::close(report[1]);
        match forked {
            Ok((child, pidfd)) => {
                sys::close(pidfd);
                let (helper, pid) = if Wall::EnterConfined.stands() { (child, 0) } else { (0, child) };
                Ok(Forked { helper, pid, report: report[0] })
            }
            Err(error) => {
                sys::close(report[0]);
                Err(error)
            }
        }
    }

    /// With the wall off: the process is in the container's PID namespace before it is confined.
    fn fork_inside(&self, cgroup2: Option<i32>) -> Result<(i32, i32)> {
        let own = sys::openat(AT_FDCWD, b"/proc/self/ns/pid\0", O_RDONLY, 0)?;
        sys::setns(self.init_pidfd, CLONE_NEWPID)?;
        let forked = sys::fork(0, cgroup2);
        if !matches!(forked, Ok((0, _))) {
            sys::setns(own, CLONE_NEWPID)?;
        }
        sys::close(own);
        forked
    }

    /// Starts the health check: no input, both outputs into one pipe.
    pub fn exec_check(&mut self, plan: Plan) -> Result<()> {
        let header = plan.header().ok_or(EINVAL)?;
        let pipe = sys::pipe2(0)?;
        if let Err(error) = self.add_output(CHECK as u32 + 1, pipe[0], None) {
            sys::close(pipe[1]);
            return Err(error);
        }
        let second = sys::dup_from(pipe[1], 0).unwrap_or(-1);
        let forked = self.fork_exec(&header, plan, [-1, pipe[1], second], [false; 3]);
        if forked.is_err() {
            self.end_check_output();
        }
        let forked = forked?;
        self.execs[CHECK].id = self.health.id;
        self.watch_exec(CHECK, forked)
    }

    /// Whether a slot is taken.
    pub fn exec_is_there(&self, index: usize) -> bool {
        self.execs[index].used
    }

    /// Kills the process of a slot, whether it is in the container or on its way there.
    pub fn kill_exec(&mut self, index: usize) {
        // Its pid may have been told already.
        while self.exec_report(index) {}
        let exec = &self.execs[index];
        for pid in [exec.helper, exec.pid].into_iter().filter(|&pid| exec.used && pid > 0) {
            sys::kill_group(pid);
        }
    }

    /// When the first process that is on its way has taken too long; 0: none is.
    pub fn exec_due(&self) -> i64 {
        self.execs.iter().map(|exec| exec.deadline).filter(|&at| at > 0).min().unwrap_or(0)
    }

    /// Ends those that have taken too long: whoever stopped them holds up nobody.
    pub fn end_late_execs(&mut self, now: i64) {
        if self.exec_due() == 0 || !Wall::EntryLimit.stands() {
            return;
        }
        for index in 0..self.execs.len() {
            if self.execs[index].deadline == 0 || now < self.execs[index].deadline {
                continue;
            }
            self.kill_exec(index);
            let exec = &mut self.execs[index];
            if exec.used && exec.report >= 0 {
                let step = if exec.pid > 0 { STEP_HELD } else { STEP_LATE };
                exec.failure = Failure { step, ..Failure::default() };
                self.exec_launched(index);
            }
        }
    }

    fn exec_pipes(
        &mut self,
        index: usize,
        mask: u32,
        streams: [Option<usize>; 3],
        fds: &mut [i32],
        ends: &mut [i32; 3],
    ) -> Result<()> {
        let direct = |stream: usize| mask & SESSION_STDIN << stream << SESSION_DIRECT != 0;
        for stream in 0..3 {
            if let (true, Some(at)) = (direct(stream), streams[stream]) {
                ends[stream] = take(&mut fds[at]);
            }
        }
        // First what is answered: of a worker that died it is known then.
        for stream in [1, 2] {
            if let (false, Some(at)) = (direct(stream), streams[stream]) {
                let pipe = sys::pipe2(0)?;
                ends[stream] = pipe[1];
                self.add_output(index as u32 + 1, pipe[0], Some(take(&mut fds[at])))?;
            }
        }
        if streams[0].is_some() && !direct(0) {
            let pipe = sys::pipe2(0)?;
            sys::set_nonblocking(pipe[1]);
            ends[0] = pipe[0];
            self.add_target(index as u32 + 1, pipe[1])?;
        }
        Ok(())
    }

    /// Whether a process is on its way into the container: frozen there, it could not say how that went.
    pub fn exec_is_launching(&self) -> bool {
        self.execs.iter().any(|exec| exec.used && exec.report >= 0)
    }

    /// An exec's helper has something to say, or the process that it made; answers whether one had. In the latter others
    /// may have a hand: it says no more than how it goes on.
    pub fn exec_report(&mut self, index: usize) -> bool {
        let mut message = [0u8; 32];
        let mut fds = [-1; MAX_FDS];
        let report = self.execs[index].report;
        if report < 0 {
            return false;
        }
        match sys::recv_from_child(report, &mut message, &mut fds, false) {
            Err(EAGAIN) => return false,
            Ok((length, count, sender)) if length > 0 => self.take_exec_report(index, &message, &fds[..count], sender),
            _ => self.exec_launched(index),
        }
        true
    }

    fn take_exec_report(&mut self, index: usize, message: &[u8; 32], fds: &[i32], sender: i32) {
        let exec = &mut self.execs[index];
        let trusted = sender > 0 && sender == if Wall::EnterConfined.stands() { exec.helper } else { exec.pid };
        match (word(message, 0), fds) {
            (child::REPORT_TERMINAL, &[master]) if trusted && exec.master < 0 => {
                return self.take_exec_terminal(index, master);
            }
            (child::REPORT_APPEARED, []) if trusted => {
                exec.pid = word(message, 1) as i32;
                if exec.code.is_none() && !sys::is_child(exec.pid) {
                    // Killed in the container, and reaped, before anybody had heard of it.
                    exec.code = Some(128 + SIGKILL as i32);
                }
                exec.deadline = sys::monotonic() + entry::limit() * 1_000_000_000;
            }
            (child::REPORT_READY, _) => {
                exec.ready = true;
                if exec.pid == 0 {
                    // It may run and end before its helper has told of it.
                    exec.pid = sender;
                }
            }
            (child::REPORT_FAILURE, _) => exec.failure = failure_of(message),
            _ => {}
        }
        fds.iter().copied().for_each(sys::close);
    }

    fn take_exec_terminal(&mut self, index: usize, master: i32) {
        let owner = index as u32 + 1;
        let exec = &mut self.execs[index];
        exec.master = sys::dup_from(master, 0).unwrap_or(-1);
        sys::set_nonblocking(master);
        let target = sys::dup_from(master, 0);
        let (sink, input) = (exec.terminal_sink, exec.terminal_input);
        (exec.terminal_sink, exec.terminal_input) = (-1, -1);
        let _ = self.add_output(owner, master, (sink >= 0).then_some(sink));
        if let Ok(target) = target {
            let _ = self.add_target(owner, target);
        }
        if input >= 0 {
            let _ = self.add_input(input, owner, false);
        }
    }

    /// The report socket ended: the program runs, or the child gave up.
    fn exec_launched(&mut self, index: usize) {
        let exec = &mut self.execs[index];
        replace(&mut exec.report, -1);
        exec.deadline = 0;
        let lost = Failure { step: STEP_LOST, ..Failure::default() };
        if !exec.ready && exec.failure == Failure::default() {
            exec.failure = lost;
        }
        let (client, pid, failure) = (exec.client, exec.pid, exec.failure);
        sys::unmap(core::mem::replace(&mut exec.plan, Plan::EMPTY).bytes());
        if failure == Failure::default() {
            self.write_exec(index, 1, 0);
            if let Some(client) = client {
                self.answer(client, 0, pid, failure);
            }
        } else {
            // Before the answer: who is told of the failure finds the code, though the child may not be reaped yet.
            self.write_exec(index, 2, NOT_STARTED);
            if let Some(client) = client {
                self.answer(client, failure.errno.max(1), 0, failure);
            }
        }
        self.finish_exec(index);
    }

    /// A child that is not the first process ended.
    pub fn exec_ended(&mut self, pid: i32, code: i32) {
        if let Some(index) = self.execs.iter().position(|exec| exec.used && exec.helper == pid) {
            while self.exec_report(index) {}
            self.execs[index].helper = 0;
            return self.finish_exec(index);
        }
        let find = |monitor: &Monitor| monitor.execs.iter().position(|exec| exec.used && exec.pid == pid);
        if find(self).is_none() {
            // A short life may be over before its helper has been heard.
            for index in 0..self.execs.len() {
                while self.exec_report(index) {}
            }
        }
        if let Some(index) = find(self) {
            self.execs[index].code = Some(code);
            // Its report is there; if it left its end of the socket to somebody, nobody is waited for.
            while self.exec_report(index) {}
            if self.execs[index].report >= 0 {
                self.exec_launched(index);
            }
            self.finish_exec(index);
        }
    }

    /// When both the launch and the end are known, the end is told and the slot is free.
    fn finish_exec(&mut self, index: usize) {
        let exec = &mut self.execs[index];
        // A helper that failed made no process.
        let code = if exec.pid > 0 { exec.code } else { Some(NOT_STARTED) };
        let (Some(code), true) = (code, exec.used && exec.report < 0 && exec.helper == 0) else { return };
        let failed = exec.failure != Failure::default();
        let code = if failed { NOT_STARTED } else { code };
        let (client, failure) = (exec.client, exec.failure);
        let id = exec.id;
        self.write_exec(index, 2, code);
        self.drop_inputs(index as u32 + 1);
        if !failed {
            let extras = [(&b"exitCode"[..], Value::Number(i64::from(code))), (b"execID", Value::Text(&id))];
            // The asking program may have an older library, which says no id.
            let known = if id[0] == 0 { 1 } else { 2 };
            self.record.event(b"exec_die", b"", &extras[..known]);
            if let Some(client) = client {
                self.answer(client, 0, code, Failure::default());
            }
        }
        let exec = &mut self.execs[index];
        for fd in [exec.state_file, exec.master, exec.terminal_sink, exec.terminal_input] {
            if fd >= 0 {
                sys::close(fd);
            }
        }
        *exec = FREE;
        // Not at once: another one may follow, and would take it again.
        self.tidy_at = sys::monotonic() + TIDY_NS;
        if index == CHECK {
            self.health.result.output = self.end_check_output();
            self.check_ended((!failed).then_some(code), failure);
        }
    }

    fn write_exec(&self, index: usize, phase: u32, exit_code: i32) {
        let exec = &self.execs[index];
        if exec.state_file < 0 {
            return;
        }
        let state = ExecState {
            version: VERSION,
            phase,
            pid: exec.pid,
            exit_code,
            monitor_pid: self.record.state.monitor_pid,
            reserved: 0,
        };
        let _ = sys::pwrite(exec.state_file, &state.to_bytes(), 0);
    }

    pub fn exec_master(&self, pid: i32) -> Option<i32> {
        self.execs.iter().find(|exec| exec.used && exec.pid == pid).map(|exec| exec.master)
    }

    pub fn forget_exec_client(&mut self, slot: usize) {
        for exec in &mut self.execs {
            if exec.client == Some(slot) {
                exec.client = None;
            }
        }
    }

    /// Their streams are gone: terminals hang up.
    pub fn hang_up_execs(&mut self) {
        for exec in self.execs.iter_mut().filter(|exec| exec.used) {
            replace(&mut exec.master, -1);
        }
    }

    /// The container ended: so did every process in it; those not reaped yet are reaped now.
    pub fn end_execs(&mut self) {
        while let Some((pid, status)) = sys::reap() {
            if self.worker_ended(pid) {
                continue;
            }
            self.exec_ended(pid, crate::exits::code_of(status));
        }
    }
}
