//! Further processes in the container: they are started on request and reaped, and their end is written into the file
//! that the request brought.

use crate::cgroup::Groups;
use crate::child::{self, Launch};
use crate::control::Control;
use crate::entry;
use crate::events::Value;
use crate::failure::{Step, errno, os};
use crate::fd::{Fd, close_all};
use crate::link::Link;
use crate::ops::{Bad, Plan};
use crate::owners::{CHECK, CHECK_OUTPUT, MAX_EXECS, of_exec};
use crate::process::Process;
use crate::progress::{NOT_STARTED, Progress};
use crate::record::Record;
use crate::report::{REPORT_LEN, Report};
use crate::session::Session;
use crate::streams;
use crate::subjects::{REPORT, token};
use crate::sys::{self, *};
use crate::timers;
use crate::walls::Wall;
use crate::wire::*;

/// How long the stack that a further process took is kept for the next one.
const TIDY_NS: i64 = 1_000_000_000;

/// The other parts of the monitor that further processes need.
pub struct Around<'a> {
    pub link: &'a mut Link,
    pub record: &'a mut Record,
    pub control: &'a mut Control,
}

/// The container that a process comes into.
pub struct Home<'a> {
    /// Files through which its groups are joined, and the group to be cloned into.
    pub groups: (&'a [i32], Option<i32>),
    /// The first process's pidfd, and the `/dev/pts`.
    pub init: i32,
    pub devpts: i32,
    /// The PID namespace is shared with other containers.
    pub others: bool,
}

impl<'a> Home<'a> {
    /// `flags`: of the head of the container's plan.
    pub fn new(process: &Process, groups: &'a Groups, flags: u32) -> Home<'a> {
        Home {
            groups: (groups.files(), groups.unified()),
            init: process.pidfd.raw(),
            devpts: process.devpts.raw(),
            others: flags & FLAG_SHARED_PIDS != 0,
        }
    }
}

/// A request for a process.
pub struct Request<'a> {
    /// The client's slot.
    pub client: usize,
    pub session: Session,
    /// The exec instance's id.
    pub id: &'a [u8],
}

/// The end of a health check: its exit code, or the reason that it has none, and how much it wrote.
pub struct CheckEnd {
    pub result: core::result::Result<i32, Failure>,
    pub written: u32,
}

pub struct Execs {
    epoll: i32,
    /// When the stack that a further process took is given back, by the monotonic clock; 0 if it was given back.
    tidy_at: i64,
    check: Option<CheckEnd>,
    /// The last place belongs to the health check.
    execs: [Exec; MAX_EXECS + 1],
}

struct Exec {
    used: bool,
    progress: Progress,
    /// The reports of helper and process, until the program is executed.
    report: Fd,
    state_file: Fd,
    /// The exec instance's id, if the request said it.
    id: [u8; 64],
    /// The slot of the client that asked, as long as the client is there.
    client: Option<usize>,
    plan: Plan<'static>,
    master: Fd,
    /// The client's descriptor for output, until the terminal is there.
    terminal_sink: Fd,
    terminal_input: Fd,
}

const FREE: Exec = Exec {
    used: false,
    progress: Progress::NONE,
    report: Fd::NONE,
    state_file: Fd::NONE,
    id: [0; 64],
    client: None,
    plan: Plan::EMPTY,
    master: Fd::NONE,
    terminal_sink: Fd::NONE,
    terminal_input: Fd::NONE,
};

/// Takes a descriptor out of its place.
fn take(place: &mut i32) -> i32 {
    core::mem::replace(place, -1)
}

impl Execs {
    /// # Safety
    /// `place` is valid for writing and zero, and nothing refers to it.
    pub unsafe fn init(place: *mut Execs) {
        // SAFETY: within the structure.
        unsafe {
            (&raw mut (*place).check).write(None);
            for index in 0..=MAX_EXECS {
                (&raw mut (*place).execs[index]).write(FREE);
            }
        }
    }

    pub fn listen(&mut self, epoll: i32) {
        self.epoll = epoll;
    }

    /// Starts a process: `fds` has the plan, the state file, and the streams of the session, and all are taken. The
    /// answers come later, unless the start fails here.
    pub fn start(&mut self, request: Request, home: &Home, fds: &[i32], link: &mut Link) -> Step {
        // A descriptor that has a new owner is taken out of this list.
        let mut left = [-1; MAX_FDS];
        left[..fds.len()].copy_from_slice(fds);
        let result = self.try_start(request, home, &mut left[..fds.len()], link);
        close_all(&left);
        result
    }

    fn try_start(&mut self, request: Request, home: &Home, fds: &mut [i32], link: &mut Link) -> Step {
        if fds.len() != 2 + request.session.count() {
            return Err(errno(EINVAL));
        }
        let index = self.execs[..MAX_EXECS].iter().position(|exec| !exec.used).ok_or(errno(EBUSY))?;
        let length = os(sys::fstat(fds[0]))?.size as usize;
        let bytes = os(sys::map_file(fds[0], length))?;
        let plan = Plan::check(bytes).map_err(|bad: Bad| {
            sys::unmap(bytes);
            bad.failure()
        })?;
        let started = self.execs[index].prepare(of_exec(index), plan, request.session, &mut fds[2..], link).and_then(
            |(ends, direct)| {
                let forked = fork(plan, ends, direct, home);
                close_all(&ends);
                forked
            },
        );
        match started {
            Ok((progress, report)) => {
                let exec = &mut self.execs[index];
                exec.plan = plan;
                exec.state_file.set(take(&mut fds[1]));
                exec.client = Some(request.client);
                if let Ok(id) = request.id.try_into() {
                    exec.id = id;
                }
                let input = request.session.place(0).filter(|_| !is_tty(plan) && !request.session.is_direct(0));
                if let Some(at) = input {
                    // If there is no room for it, the process runs without input.
                    let _ = streams::add_input(link, take(&mut fds[2 + at]), of_exec(index), true);
                }
                os(self.watch(index, progress, report))
            }
            Err(error) => {
                self.execs[index].free();
                streams::drop_inputs(link, of_exec(index));
                sys::unmap(bytes);
                Err(errno(error))
            }
        }
    }

    /// The process is on its way: the launcher listens to its reports, for some time.
    fn watch(&mut self, index: usize, progress: Progress, report: Fd) -> Result<()> {
        let exec = &mut self.execs[index];
        (exec.used, exec.progress, exec.report) = (true, progress, report);
        sys::epoll_ctl(self.epoll, ADD, exec.report.raw(), EPOLLIN, token(REPORT, index as u32))
    }

    /// Starts the health check: no input, both outputs into one pipe.
    pub fn start_check(&mut self, plan: Plan, id: [u8; 64], home: &Home, link: &mut Link) -> Result<()> {
        let pipe = sys::pipe2(0)?;
        let output = Fd::new(pipe[1]);
        streams::add_output(link, CHECK_OUTPUT, pipe[0], None)?;
        let second = Fd::new(sys::dup_from(output.raw(), 0).unwrap_or(-1));
        let forked = fork(plan, [-1, output.raw(), second.raw()], [false; 3], home);
        drop((output, second));
        let (progress, report) = forked.inspect_err(|_| {
            streams::end_check_output(link);
        })?;
        self.execs[CHECK].id = id;
        self.watch(CHECK, progress, report)
    }

    /// Whether a place is taken.
    pub fn is_there(&self, index: usize) -> bool {
        self.execs[index].used
    }

    /// The end of the health check, once.
    pub fn take_check(&mut self) -> Option<CheckEnd> {
        self.check.take()
    }

    /// The health check could not be started.
    pub fn check_failed(&mut self, failure: Failure) {
        self.check = Some(CheckEnd { result: Err(failure), written: 0 });
    }

    /// Kills the process of a place, whether it is in the container or on its way there.
    pub fn kill(&mut self, index: usize, around: &mut Around) {
        // The pid may have been reported already.
        while self.report(index, around) {}
        let exec = &self.execs[index];
        for pid in [exec.progress.helper, exec.progress.pid].into_iter().filter(|&pid| exec.used && pid > 0) {
            sys::kill_group(pid);
        }
    }

    /// When a process has taken too long, or memory is to be given back; 0 if nothing is due.
    pub fn due(&self) -> i64 {
        timers::earliest(self.execs.iter().map(|exec| exec.progress.deadline).chain([self.tidy_at]))
    }

    /// Ends the processes that took too long to start, so that a stopped process holds up nobody.
    pub fn tick(&mut self, now: i64, around: &mut Around) {
        if timers::is_due(self.tidy_at, now) {
            self.tidy_at = 0;
            sys::drop_stack();
        }
        if !Wall::EntryLimit.stands() {
            return;
        }
        for index in 0..self.execs.len() {
            if !self.execs[index].progress.is_late(now) {
                continue;
            }
            self.kill(index, around);
            let exec = &mut self.execs[index];
            if exec.used && exec.report.is_open() {
                exec.progress.late();
                self.launched(index, around);
            }
        }
    }

    /// Whether a process is on its way into the container. If it were frozen there, it could not report its start.
    pub fn is_launching(&self) -> bool {
        self.execs.iter().any(|exec| exec.used && exec.report.is_open())
    }

    /// Takes a report of a helper, or of the process that it made; answers whether there was one. Other processes may
    /// control the process, so its reports only say whether it is ready or has failed.
    pub fn report(&mut self, index: usize, around: &mut Around) -> bool {
        let mut message = [0u8; REPORT_LEN];
        let mut fds = [-1; MAX_FDS];
        let report = &self.execs[index].report;
        if !report.is_open() {
            return false;
        }
        match sys::recv_from_child(report.raw(), &mut message, &mut fds, false) {
            Err(EAGAIN) => return false,
            Ok((length, count, sender)) if length > 0 => {
                self.execs[index].take_report(of_exec(index), &message, &fds[..count], sender, around.link);
            }
            _ => self.launched(index, around),
        }
        true
    }

    /// The report socket ended: the program runs, or the child gave up.
    fn launched(&mut self, index: usize, around: &mut Around) {
        let exec = &mut self.execs[index];
        exec.report.close();
        let launched = exec.progress.launched();
        sys::unmap(core::mem::replace(&mut exec.plan, Plan::EMPTY).bytes());
        // A failure is written before it is answered: a client that learns of the failure finds the code, even if the
        // child is not reaped yet.
        let (phase, code) = if launched.is_ok() { (1, 0) } else { (2, NOT_STARTED) };
        exec.write(phase, code, around.record);
        if let Some(client) = exec.client {
            match launched {
                Ok(()) => around.control.answer(client, 0, exec.progress.pid),
                Err(failure) => around.control.answer_failure(client, failure, 0),
            }
        }
        self.finish(index, around);
    }

    fn find(&self, pid: i32) -> Option<usize> {
        self.execs.iter().position(|exec| exec.used && exec.progress.pid == pid)
    }

    /// A child ended that is neither the first process nor the worker.
    pub fn child_ended(&mut self, pid: i32, code: i32, around: &mut Around) {
        if let Some(index) = self.execs.iter().position(|exec| exec.used && exec.progress.helper == pid) {
            while self.report(index, around) {}
            self.execs[index].progress.helper = 0;
            return self.finish(index, around);
        }
        if self.find(pid).is_none() {
            // A process may end before the report of its helper was read.
            for index in 0..self.execs.len() {
                while self.report(index, around) {}
            }
        }
        if let Some(index) = self.find(pid) {
            self.execs[index].progress.ended(code);
            // All its reports are there by now. Another process may still hold its end of the socket, but the monitor
            // does not wait for that one.
            while self.report(index, around) {}
            if self.execs[index].report.is_open() {
                self.launched(index, around);
            }
            self.finish(index, around);
        }
    }

    /// When both the launch and the end are known, the end is reported and the place is free.
    fn finish(&mut self, index: usize, around: &mut Around) {
        let exec = &mut self.execs[index];
        let Some(result) = exec.progress.result().filter(|_| exec.used) else { return };
        exec.write(2, result.unwrap_or(NOT_STARTED), around.record);
        streams::drop_inputs(around.link, of_exec(index));
        if let Ok(code) = result {
            let extras = [(&b"exitCode"[..], Value::Number(i64::from(code))), (b"execID", Value::Text(&exec.id))];
            // The program that asked may use an older library, which sends no id.
            let known = if exec.id[0] == 0 { 1 } else { 2 };
            around.record.event(b"exec_die", b"", &extras[..known]);
            if let Some(client) = exec.client {
                around.control.answer(client, 0, code);
            }
        }
        exec.free();
        // The stack is not given back at once, because the next process would take it again.
        self.tidy_at = sys::monotonic() + TIDY_NS;
        if index == CHECK {
            self.check = Some(CheckEnd { result, written: streams::end_check_output(around.link) });
        }
    }

    /// The terminal of a process.
    pub fn master(&self, pid: i32) -> Option<i32> {
        self.find(pid).map(|index| self.execs[index].master.raw())
    }

    pub fn forget_client(&mut self, slot: usize) {
        for exec in self.execs.iter_mut().filter(|exec| exec.client == Some(slot)) {
            exec.client = None;
        }
    }

    /// The streams of all processes are gone: terminals hang up.
    pub fn hang_up(&mut self) {
        self.execs.iter_mut().filter(|exec| exec.used).for_each(|exec| exec.master.close());
    }
}

impl Exec {
    /// Closes everything: the place is free.
    #[inline(never)]
    fn free(&mut self) {
        *self = FREE;
    }

    /// The process's ends of its streams, and which of them are a caller's own.
    fn prepare(
        &mut self,
        owner: u32,
        plan: Plan,
        session: Session,
        fds: &mut [i32],
        link: &mut Link,
    ) -> Result<([i32; 3], [bool; 3])> {
        let mut ends = [-1; 3];
        if is_tty(plan) {
            let mut given = |stream| session.place(stream).map_or(-1, |at| take(&mut fds[at]));
            self.terminal_input.set(given(0));
            self.terminal_sink.set(given(1));
            return Ok((ends, [false; 3]));
        }
        let made = make_pipes(owner, session, fds, &mut ends, link);
        made.inspect_err(|_| close_all(&ends))?;
        Ok((ends, [0, 1, 2].map(|stream| session.is_direct(stream))))
    }

    fn take_report(&mut self, owner: u32, message: &[u8; REPORT_LEN], fds: &[i32], sender: i32, link: &mut Link) {
        let trusted = self.progress.trusts(sender, Wall::EnterConfined.stands());
        match (Report::from_bytes(message), fds) {
            (Some(Report::Terminal), &[master]) if trusted && !self.master.is_open() => {
                return self.take_terminal(owner, master, link);
            }
            (Some(Report::Appeared(pid)), []) if trusted => {
                self.progress.appeared(pid, sys::is_child(pid), deadline(entry::limit()));
            }
            (Some(Report::Ready), _) => self.progress.ready(sender),
            (Some(Report::Failure(failure)), _) => self.progress.failed(failure),
            _ => {}
        }
        close_all(fds);
    }

    fn take_terminal(&mut self, owner: u32, master: i32, link: &mut Link) {
        self.master.set(sys::dup_from(master, 0).unwrap_or(-1));
        sys::set_nonblocking(master);
        let target = sys::dup_from(master, 0);
        let (sink, input) = (self.terminal_sink.take(), self.terminal_input.take());
        let _ = streams::add_output(link, owner, master, (sink >= 0).then_some(sink));
        if let Ok(target) = target {
            let _ = streams::add_target(link, owner, target);
        }
        if input >= 0 {
            let _ = streams::add_input(link, input, owner, false);
        }
    }

    fn write(&self, phase: u32, exit_code: i32, record: &Record) {
        if !self.state_file.is_open() {
            return;
        }
        let state = ExecState {
            version: VERSION,
            phase,
            pid: self.progress.pid,
            exit_code,
            monitor_pid: record.state.monitor_pid,
            reserved: 0,
        };
        let _ = sys::pwrite(self.state_file.raw(), &state.to_bytes(), 0);
    }
}

fn is_tty(plan: Plan) -> bool {
    plan.header().is_some_and(|header| header.flags & FLAG_TTY != 0)
}

fn deadline(seconds: i64) -> i64 {
    sys::monotonic() + seconds * 1_000_000_000
}

/// Pipes of a process without a terminal.
fn make_pipes(owner: u32, session: Session, fds: &mut [i32], ends: &mut [i32; 3], link: &mut Link) -> Result<()> {
    for (stream, end) in ends.iter_mut().enumerate() {
        if let (true, Some(at)) = (session.is_direct(stream), session.place(stream)) {
            *end = take(&mut fds[at]);
        }
    }
    // The orders that get an answer come first: after them the monitor knows whether the worker died.
    for stream in [1, 2] {
        if let (false, Some(at)) = (session.is_direct(stream), session.place(stream)) {
            let pipe = sys::pipe2(0)?;
            ends[stream] = pipe[1];
            streams::add_output(link, owner, pipe[0], Some(take(&mut fds[at])))?;
        }
    }
    if session.has(0) && !session.is_direct(0) {
        let pipe = sys::pipe2(0)?;
        sys::set_nonblocking(pipe[1]);
        ends[0] = pipe[0];
        streams::add_target(link, owner, pipe[1])?;
    }
    Ok(())
}

/// Makes the helper, or with the wall off the process itself. The process's ends of the streams stay open here.
fn fork(plan: Plan, stdio: [i32; 3], direct: [bool; 3], home: &Home) -> Result<(Progress, Fd)> {
    let header = plan.header().ok_or(EINVAL)?;
    let helped = Wall::EnterConfined.stands();
    let [report, own] = sys::report_pair()?.map(Fd::new);
    let (cgroups, unified) = home.groups;
    let forked = if helped { sys::fork(0, unified) } else { fork_inside(home.init, unified) };
    if let Ok((0, _)) = forked {
        child::run(&Launch {
            plan,
            report: own.raw(),
            stdio,
            direct,
            cgroups,
            tty: header.flags & FLAG_TTY != 0,
            rows: header.rows,
            cols: header.cols,
            init: home.init,
            devpts: home.devpts,
            enters: helped,
            others: home.others,
            ..Launch::NOTHING
        });
    }
    let (child, pidfd) = forked?;
    sys::close(pidfd);
    let progress = match helped {
        true => Progress::begun(child, 0, deadline(STEP_LIMIT_S)),
        false => Progress::begun(0, child, deadline(entry::limit())),
    };
    Ok((progress, report))
}

/// With the wall off: the process is in the container's PID namespace before it is confined.
fn fork_inside(init: i32, unified: Option<i32>) -> Result<(i32, i32)> {
    let own = Fd::new(sys::openat(AT_FDCWD, b"/proc/self/ns/pid\0", O_RDONLY, 0)?);
    sys::setns(init, CLONE_NEWPID)?;
    let forked = sys::fork(0, unified);
    if !matches!(forked, Ok((0, _))) {
        sys::setns(own.raw(), CLONE_NEWPID)?;
    }
    forked
}
