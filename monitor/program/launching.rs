//! The start of the first process.

use crate::child::{self, Launch};
use crate::failure::{Outcome, of_monitor, of_step};
use crate::fd::Fd;
use crate::link::Link;
use crate::monitor::Monitor;
use crate::ops;
use crate::outputs::{STDERR, STDOUT};
use crate::process::Process;
use crate::reports::{Handed, await_child};
use crate::sockets;
use crate::stale_socket;
use crate::streams;
use crate::sys::{self, *};
use crate::userns::{self, Made};
use crate::walls::Wall;
use crate::wire::*;

/// The descriptors of the first process. They are closed here once the process has them, or if it will never have them.
struct Given {
    /// The standard streams.
    ends: [Fd; 3],
    /// The process's end of the reports.
    report: Fd,
    /// See [`Launch::host_link`].
    host_link: Fd,
    made: Made,
}

impl Given {
    const NONE: Given = Given { ends: [Fd::NONE; 3], report: Fd::NONE, host_link: Fd::NONE, made: Made::NONE };
}

impl Monitor {
    /// Makes cgroups and streams, clones the child, waits until it executes the program.
    pub fn start_process(&mut self) -> Outcome<()> {
        self.groups.make(false)?;
        stale_socket::remove(self.link.plan());
        let mut given = Given::NONE;
        let report;
        [report, given.report] = sys::report_pair().map_err(of_monitor)?.map(Fd::new);
        let child = self.fork_first(&mut given)?;
        let plan = self.link.plan();
        let kept = self.network.keep(plan, child.0, &given.made, (&self.record, &mut self.link)).map_err(of_monitor);
        drop(given);
        let mut appeared = 0;
        // The monitor and the first process do their slow work at the same time.
        let first = match kept.and_then(|()| self.bring_up(report.raw(), child, &mut appeared)) {
            Ok(()) => first_of(child, appeared),
            Err(failure) => {
                // A process that waits for its cgroups would wait for ever.
                end_child(child, appeared);
                Err(failure)
            }
        };
        drop(report);
        let (pid, pidfd) = first?;
        self.started(pid, pidfd);
        Ok(())
    }

    /// Makes the other cgroups and the worker while the first process makes its mounts, and waits until it executes the
    /// program.
    fn bring_up(&mut self, report: i32, (pid, pidfd): (i32, i32), appeared: &mut i32) -> Outcome<()> {
        self.groups.make(true)?;
        self.oom.begin(self.groups.oom_file());
        self.groups.hand(report);
        self.link.start().map_err(of_monitor)?;
        self.link.await_confined().map_err(|errno| of_step(STEP_WORKER, errno))?;
        // The first process waits for this message before it executes its program. If the process is gone, it has
        // reported why.
        let _ = sys::send_fds(report, &child::WORKER_CONFINED, &[]);
        if self.may_keep_mounts() {
            self.process.mounts.set(sys::mounts_of(pidfd));
        }
        let (process, link) = (&mut self.process, &mut self.link);
        await_child(report, pid, appeared, &mut |handed| take_handed(process, link, handed))
    }

    /// Whether the mounts may outlive the process. Mounts that are bound from the host's tree must go with it, because
    /// the host may wait to unmount their source.
    fn may_keep_mounts(&self) -> bool {
        let plan = self.link.plan();
        plan.each::<ops::Bind>().all(|(_, bind)| bind.flags & BIND_OWN != 0)
            && plan.each::<ops::BindPart>().all(|(_, bind)| bind.flags & BIND_OWN != 0)
    }

    /// Clones the first process; answers its pid and pidfd. `given` has the descriptors for it, also after a failure.
    fn fork_first(&mut self, given: &mut Given) -> Outcome<(i32, i32)> {
        let plan = self.link.plan();
        let tty = self.header.flags & FLAG_TTY != 0;
        let mut direct = [false; 3];
        if !tty {
            given.ends = core::mem::replace(&mut self.supplies.direct, [Fd::NONE; 3]);
            direct = given.ends.each_ref().map(Fd::is_open);
            let opens_input = self.header.flags & FLAG_OPEN_STDIN != 0;
            make_pipes(&mut self.link, opens_input, &mut given.ends).map_err(of_monitor)?;
        }
        if plan.has::<ops::Net>() {
            given.host_link.set(sys::netlink(sys::NETLINK_ROUTE).map_err(of_monitor)?);
        }
        let pids = plan.each::<ops::JoinNs>().find(|(_, join)| u64::from(join.kind) == CLONE_NEWPID);
        // With the wall off, the child itself is made in that PID namespace.
        let mut home = Fd::NONE;
        if let (Some((step, join)), false) = (&pids, Wall::EnterConfined.stands()) {
            home.set(sys::openat(AT_FDCWD, b"/proc/self/ns/pid\0", O_RDONLY, 0).map_err(of_monitor)?);
            let fd = self.supplies.namespaces[join.index as usize % MAX_FDS].raw();
            sys::setns(fd, CLONE_NEWPID).map_err(|errno| of_step(*step, errno))?;
        }
        let new = self.make_namespaces(given)?;
        let forked = sys::fork(new, self.groups.unified());
        if let Ok((0, _)) = forked {
            child::run(&Launch {
                plan,
                report: given.report.raw(),
                stdio: given.ends.each_ref().map(Fd::raw),
                direct,
                cgroups: self.groups.files(),
                starts: true,
                namespaces: &self.supplies.namespaces,
                volumes: &self.supplies.volumes,
                tty,
                rows: self.header.rows,
                cols: self.header.cols,
                host_link: given.host_link.raw(),
                restarts: self.record.state.restarts,
                enters: pids.is_some() && Wall::EnterConfined.stands(),
                others: true,
                net_goes_on: self.network.net.is_open(),
                made: core::mem::replace(&mut given.made, Made::NONE),
                ..Launch::NOTHING
            });
        }
        if home.is_open() {
            sys::setns(home.raw(), CLONE_NEWPID).map_err(of_monitor)?;
        }
        forked.map_err(|errno| of_step(STEP_CLONE, errno))
    }

    /// Makes the namespaces that the first process joins; answers which ones its clone makes.
    fn make_namespaces(&mut self, given: &mut Given) -> Outcome<u64> {
        let network = &self.network;
        let goes_on = (network.net.raw(), network.user.raw());
        given.made = userns::make_for(self.link.plan(), &self.supplies.namespaces, goes_on)?;
        let mut new = self.header.clone_flags & !CLONE_NEWCGROUP;
        if network.net.is_open() {
            new &= !CLONE_NEWNET;
            given.made.others[0] = (Fd::new(sys::dup_from(network.net.raw(), 0).map_err(of_monitor)?), CLONE_NEWNET);
        }
        if self.supplies.new_network.is_open() && new & CLONE_NEWNET != 0 {
            new &= !CLONE_NEWNET;
            given.made.others[0] = (Fd::new(self.supplies.new_network.take()), CLONE_NEWNET);
        }
        self.supplies.new_network.close();
        Ok(new)
    }
}

/// Pipes of a container without a terminal: the child's ends.
fn make_pipes(link: &mut Link, opens_input: bool, ends: &mut [Fd; 3]) -> Result<()> {
    if !ends[0].is_open() && opens_input {
        let pipe = sys::pipe2(0)?;
        sys::set_nonblocking(pipe[1]);
        ends[0].set(pipe[0]);
        streams::take_stdin(link, pipe[1]);
    }
    for (end, index) in [(1, STDOUT), (2, STDERR)] {
        if !ends[end].is_open() {
            let pipe = sys::pipe2(0)?;
            ends[end].set(pipe[1]);
            streams::take_source(link, index, pipe[0]);
        }
    }
    Ok(())
}

/// Takes a descriptor of the first process.
fn take_handed(process: &mut Process, link: &mut Link, handed: Handed) {
    match handed {
        Handed::Root(fd) => process.root.set(fd),
        Handed::DevPts(fd) => process.devpts.set(fd),
        Handed::Dns(which, fd) => sockets::take_resolver(link, which, fd),
        Handed::Terminal(master) => {
            // This is a copy, because the descriptor that is read is closed when every process of the container has
            // closed the terminal. Its number may then belong to another file.
            process.master.set(sys::dup_from(master, 0).unwrap_or(-1));
            sys::set_nonblocking(master);
            if let Ok(stdin) = sys::dup_from(master, 0) {
                streams::take_stdin(link, stdin);
            }
            streams::take_source(link, STDOUT, master);
        }
    }
}

/// The container's first process: the child itself, or the one that the child, a helper, has made.
fn first_of((pid, pidfd): (i32, i32), appeared: i32) -> Outcome<(i32, i32)> {
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
            Err(of_monitor(errno))
        }
    }
}

/// Ends a child that failed, and the process that it made.
fn end_child((pid, pidfd): (i32, i32), appeared: i32) {
    let _ = sys::pidfd_signal(pidfd, SIGKILL);
    sys::wait_for(pid);
    sys::close(pidfd);
    if appeared > 0 {
        sys::kill_group(appeared);
        sys::wait_for(appeared);
    }
}
