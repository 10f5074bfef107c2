//! The child between clone and exec walks the plan, and decides nothing.
//!
//! The child runs in its own copy of the monitor's memory and ends in execve, or in a report of the step that failed.
//! Targets inside the root are resolved by openat2 from the root's descriptor, so that nothing in an image leads out of
//! it.
//!
//! If other processes live in the PID namespace of the new process ([`Launch::enters`]), the child is a helper: it
//! stays in the PID namespace of the host, where no container sees it. The helper does every step that needs rights,
//! gives up the rights, and makes the process that the others see as its last step ([`program`]).

mod arrival;
mod attributes;
mod covers;
mod mounts;
mod program;
mod resolver;
mod settings;
mod stdio;
mod tree;

pub use covers::new_empty;

use arrival::Arrival;
use attributes::Way;
use covers::Covers;
use mounts::Mounts;
use program::Program;
use stdio::Stdio;
use tree::Tree;

use crate::by_kind::of_kind;
use crate::failure::{self, of_step};
use crate::fault::{Step, errno, os};
use crate::fd::Fd;
use crate::open_set::each_gap_between;
use crate::ops::{self, Operation, Plan};
use crate::report::Report;
use crate::reports::{hand_over, write_report};
use crate::sys::{self, *};
use crate::userns::Made;
use crate::wire::*;

const TIOCSCTTY: usize = 0x540e;

/// The parts that the monitor prepared for a child.
pub struct Launch<'a> {
    pub plan: Plan<'a>,
    /// The socket for reports; if it ends without a failure, the program runs.
    pub report: i32,
    /// Standard streams that are not a terminal: ends of the monitor's own pipes, or -1.
    pub stdio: [i32; 3],
    /// Which of them are descriptors of a caller's own: they stay as they are.
    pub direct: [bool; 3],
    /// `tasks` or `cgroup.procs` files to write `0` into.
    pub cgroups: &'a [i32],
    /// A start: the monitor makes more cgroups, and the worker, while the child does its first steps.
    pub starts: bool,
    pub namespaces: &'a [Fd],
    /// Mount namespaces of volumes.
    pub volumes: &'a [Fd],
    pub tty: bool,
    pub rows: u16,
    pub cols: u16,
    /// For an exec: the pidfd of the container's first process, and the container's `/dev/pts`.
    pub init: i32,
    pub devpts: i32,
    /// A netlink socket of the route family outside the container; -1 if there is none.
    pub host_link: i32,
    pub restarts: u32,
    /// The process comes into a PID namespace that is there already: a helper walks the plan for it.
    pub enters: bool,
    /// The processes in that namespace are not of this container alone.
    pub others: bool,
    /// The network namespace that the process joins has all its interfaces, rules and sockets already.
    pub net_goes_on: bool,
    /// The user namespace and what belongs to it.
    pub made: Made,
}

impl Launch<'static> {
    /// For a child that is given nothing.
    pub const NOTHING: Launch<'static> = Launch {
        plan: Plan::EMPTY,
        report: -1,
        stdio: [-1; 3],
        direct: [false; 3],
        cgroups: &[],
        starts: false,
        namespaces: &[],
        volumes: &[],
        tty: false,
        rows: 0,
        cols: 0,
        init: -1,
        devpts: -1,
        host_link: -1,
        restarts: 0,
        enters: false,
        others: false,
        net_goes_on: false,
        made: Made::NONE,
    };
}

/// The monitor's message that the worker has given up its rights. No message about groups has this number.
pub const WORKER_CONFINED: [u8; 4] = u32::MAX.to_ne_bytes();

/// The parts of a child, each with its own steps.
struct Child<'a> {
    launch: &'a Launch<'a>,
    way: Way,
    arrival: Arrival,
    tree: Tree,
    mounts: Mounts<'a>,
    covers: Covers,
    stdio: Stdio<'a>,
    program: Program<'a>,
}

/// Runs the plan. Never returns.
pub fn run(launch: &Launch) -> ! {
    let mut child = Child {
        launch,
        way: Way::of(launch.plan),
        arrival: Arrival::new(launch),
        tree: Tree::NONE,
        mounts: Mounts::new(launch),
        covers: Covers::NONE,
        stdio: Stdio::new(launch),
        program: Program::new(launch),
    };
    if let Err(failure) = child.walk() {
        // By write(2) alone: every filter of system calls allows it.
        let _ = write_report(launch.report, Report::Failure(failure));
    }
    sys::exit(1)
}

impl<'a> Child<'a> {
    fn walk(&mut self) -> failure::Step {
        reset_signals();
        os(crate::rights::take_all()).and_then(|()| close_rest(self.launch)).map_err(|fault| fault.of_step(0))?;
        if self.launch.enters {
            // The helper may signal its group, which must not be the monitor's.
            set_session().map_err(failure::errno)?;
        }
        arrival::join(self.launch.cgroups)?;
        for (fd, kind) in self.launch.made.others.iter().filter(|(fd, _)| fd.is_open()) {
            sys::setns(fd.raw(), *kind).map_err(|errno| of_step(STEP_CLONE, errno))?;
        }
        for step in self.launch.plan.steps() {
            if step.is::<ops::CgroupNs>()
                || step.is::<ops::UserNs>()
                || step.is::<ops::Pivot>()
                || step.is::<ops::Exec>()
            {
                self.arrival.join_groups()?;
            }
            // This comes before the process sets its own filter, which may forbid the call, and before other processes
            // see it.
            if step.is::<ops::Identity>() || step.is::<ops::Exec>() {
                self.arrival.await_worker()?;
            }
            self.step(step).map_err(|fault| fault.of_step(step.index))?;
        }
        Ok(())
    }

    fn step(&mut self, step: ops::Step<'a>) -> Step {
        of_kind!(match step {
            Hostname(op) => settings::set_host_name(op.name),
            Domainname(op) => settings::set_domain_name(op.name),
            Loopback(_) => crate::net::loopback_up(),
            Propagation(op) => self.mounts.propagation(op.kind),
            Overlay(op) => self.mounts.overlay(op, &mut self.tree),
            Mount(op) => self.mounts.mount(op, &mut self.tree),
            Bind(op) => self.mounts.bind(op, None, &self.tree),
            Node(op) => self.tree.node(op),
            Symlink(op) => self.tree.symlink(op),
            Mask(op) => self.covers.mask(self.way, &self.tree, op.path.cstr(), self.mounts.label),
            Readonly(op) => self.mounts.read_only(op.path.cstr(), &self.tree),
            Attr(op) => self.tree.attributes(self.way, op),
            Sysctl(op) => settings::sysctl(op, self.mounts.procfs()?),
            Pivot(op) => self.tree.pivot(self.way, op),
            Rlimit(op) => self.program.limit(op),
            OomScore(op) => settings::oom_score(op),
            Keyring(_) => settings::keyring(),
            Stdio(_) => self.stdio.fill(&self.tree, self.mounts.devpts, self.mounts.label),
            Workdir(op) => self.tree.workdir(op.path.cstr()),
            Chdir(op) => self.tree.chdir(op.path.cstr()),
            Profile(op) => settings::profile(op),
            ChangeProfile(op) => settings::change_profile(op.word, self.mounts.proc),
            Label(op) => settings::label(op.label),
            MountLabel(op) => self.set_mount_label(op.label.cstr()),
            Identity(op) => self.program.become_user(op, self.tree.root, &self.stdio),
            Exec(op) => self.program.execute(op),
            JoinNs(op) => self.join(op),
            CgroupNs(_) => os(sys::unshare(CLONE_NEWCGROUP)),
            Enter(op) => self.enter(op.namespaces),
            FsOwner(op) => os(sys::set_fs_owner(op.uid, op.gid)),
            UserNs(op) => self.enter_user_ns(op),
            OwnStreams(op) => self.stdio.give(op.uid, op.gid),
            SharedShm(op) => self.mounts.shared_shm(op.index, &self.tree),
            Dns(_) if self.launch.net_goes_on => Ok(()),
            Net(_) if self.launch.net_goes_on => Ok(()),
            Dns(op) => resolver::open(op, self.launch.report),
            Done(_) => self.done(),
            Net(op) => crate::net::run(op, self.launch.host_link, self.launch.restarts),
            MountHere(op) => self.mounts.mount_here(op, &self.tree),
            Volume(op) => self.mounts.volume(op, None, &self.tree),
            BindPart(op) => self.mounts.bind_part(op, &self.tree),
            VolumePart(op) => self.mounts.volume_part(op, &self.tree),
            ForeignDev(op) => self.use_foreign_dev(op.parts),
            // An operation that this monitor does not know must not be skipped: it may be a restriction.
            _ if step.code < ops::MONITORS => Err(errno(ENOSYS)),
            _ => Ok(()),
        })
    }

    fn set_mount_label(&mut self, label: &'a [u8]) -> Step {
        self.mounts.label = label;
        Ok(())
    }

    fn done(&self) -> Step {
        let _ = hand_over(self.launch.report, Report::Done, None);
        sys::exit(0)
    }

    fn join(&mut self, ops::JoinNs { index, kind }: ops::JoinNs) -> Step {
        let fd = self.launch.namespaces.get(index as usize).map_or(-1, Fd::raw);
        if u64::from(kind) == CLONE_NEWPID && self.launch.enters {
            // The process that appears there for a moment must be in the container's groups.
            self.arrival.join_groups().map_err(|failure| errno(failure.errno))?;
            self.mounts.foreign_proc = crate::foreign_proc::context_for(fd)?;
        }
        os(sys::setns(fd, u64::from(kind)))
    }

    /// The last step with the host's rights.
    fn enter_user_ns(&mut self, op: ops::UserNs) -> Step {
        self.stdio.give(op.uid, op.gid)?;
        os(sys::setns(self.launch.made.user.raw(), CLONE_NEWUSER))?;
        if op.own_mounts {
            os(sys::unshare(CLONE_NEWNS))?;
            // The root's descriptor is of the mount namespace that was left.
            sys::close(self.tree.root);
            self.tree.open_root()?;
            os(sys::fchdir(self.tree.root))?;
        }
        os(sys::become_root())
    }

    /// Enters namespaces of the container's first process.
    fn enter(&mut self, kinds: u32) -> Step {
        // The children of this process live in the PID namespace that it enters, and only the host has the rights to
        // enter it.
        let pids = if self.launch.enters { CLONE_NEWPID } else { 0 };
        os(sys::setns(self.launch.init, u64::from(kinds) | pids))?;
        if u64::from(kinds) & CLONE_NEWUSER != 0 {
            os(sys::become_root())?;
        }
        self.tree.open_root()
    }

    /// Uses a `/dev` that the container does not make: `FOREIGN_*`.
    fn use_foreign_dev(&mut self, parts: u32) -> Step {
        self.stdio.set_foreign(parts);
        if parts & FOREIGN_PTS != 0 {
            self.mounts.foreign_pts(&self.tree);
        }
        Ok(())
    }
}

/// Closes the monitor's descriptors that the plan does not use, above all those of the engine's files: until this
/// process executes its program, a process of the container that may trace others could take them.
fn close_rest(launch: &Launch) -> Step {
    let used = || {
        let lists = [&launch.stdio[..], launch.cgroups];
        let made = launch.made.others.iter().map(|(fd, _)| fd).chain([&launch.made.user]);
        let owned = made.chain(launch.namespaces).chain(launch.volumes).map(Fd::raw);
        let single = [launch.report, launch.init, launch.devpts, launch.host_link];
        lists.into_iter().flatten().copied().chain(single).chain(owned)
    };
    os(each_gap_between(used, 3, |first, last| sys::close_range(first, last, 0)))
}

fn reset_signals() {
    sys::set_signal(SIGPIPE, 0);
    sys::block_signals(false);
}

/// Makes a session of this process's own.
fn set_session() -> Result<()> {
    // SAFETY: no arguments.
    match unsafe { sys::call(nr::SETSID, &[]) } {
        // The leader of a process group cannot, but then it leads a session already.
        Ok(_) | Err(EPERM) => Ok(()),
        Err(error) => Err(error),
    }
}
