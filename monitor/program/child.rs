//! The child between clone and exec: walks the plan, decides nothing.
//!
//! The child runs in its own copy of the monitor's memory and ends in execve, or in a report of the step that failed.
//! Targets inside the root are resolved by openat2 from the root's descriptor, so that nothing in an image leads out of
//! it.
//!
//! Where others live in the PID namespace of the new process ([`Launch::enters`]), the child is a helper that stays in
//! the host's, where no container sees it. It takes every step that takes rights, gives up the rights, and makes the
//! process that the others see as its last deed ([`Child::appear`]).

use crate::by_kind::of_kind;
use crate::failure::{Outcome, Step, errno, of_step, os};
use crate::ops::{self, Operation, Plan};
use crate::private;
use crate::report::Report;
use crate::reports::{hand_over, write_report};
use crate::sys::{self, *};
use crate::user;
use crate::userns::Made;
use crate::walls::Wall;
use crate::wire::*;

/// The parts that the monitor prepared for a child.
pub struct Launch<'a> {
    pub plan: Plan<'a>,
    /// Where failures go, and the terminal's master; its end means success.
    pub report: i32,
    /// Standard streams that are not a terminal: ends of the monitor's own pipes, or -1.
    pub stdio: [i32; 3],
    /// Which of them are descriptors of a caller's own: they stay as they are.
    pub direct: [bool; 3],
    /// `tasks` or `cgroup.procs` files to write `0` into.
    pub cgroups: &'a [i32],
    /// A start: while the first steps are done the monitor makes more cgroups, and the worker.
    pub starts: bool,
    pub namespaces: &'a [i32],
    /// Mount namespaces of volumes.
    pub volumes: &'a [i32],
    pub tty: bool,
    pub rows: u16,
    pub cols: u16,
    /// For an exec: the container's first process, and its `/dev/pts`.
    pub init: i32,
    pub devpts: i32,
    /// A netlink socket of the route family outside the container; -1: there is none.
    pub host_link: i32,
    pub restarts: u32,
    /// The process is born among others, in a PID namespace that is not made with it: a helper walks the plan for it.
    pub enters: bool,
    /// The processes in that namespace are not of this container alone.
    pub others: bool,
    /// The network namespace that it joins has all its interfaces, rules and sockets.
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

/// The monitor's word that the worker has given its rights up: no count of groups that are still to come.
pub const WORKER_CONFINED: [u8; 4] = u32::MAX.to_ne_bytes();

struct Child<'a> {
    launch: &'a Launch<'a>,
    root: i32,
    proc: i32,
    devpts: i32,
    null: i32,
    /// An empty mount that hides a directory; more are copies of it.
    empty: i32,
    /// See [`SPECIAL_PLACE`]; also the working directory.
    place: i32,
    /// The place that a terminal is mounted on: the container's own `/dev/console`, or that of somebody else's `/dev`.
    console: Console,
    /// Bind mounts that stay the host's peers: where their source stands in the plan, and the mount.
    shared: [(usize, i32); 32],
    home: [u8; 1024],
    home_length: usize,
    /// The seccomp filter that is set right before the program; empty: none.
    filter: &'a [u8],
    /// The filter is set by the process that the others see, for it would refuse what comes before.
    filter_last: bool,
    /// The capabilities from the moment on in which the filter is set: permitted, inheritable and ambient ones.
    give_up: Option<[u64; 3]>,
    /// The limit of processes, which would count the helper.
    processes: Option<[u64; 2]>,
    /// A procfs of the others' PID namespace, to be mounted.
    others_proc: i32,
    /// The cgroups that come later are still to be joined.
    joins: bool,
    /// The monitor's word that the worker has given its rights up is still to come.
    unwatched: bool,
    /// See [`ops::MountLabel`]: a C string; empty: none.
    label: &'a [u8],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Console {
    /// The child makes the place.
    Own,
    /// Only where it is there.
    Others,
    None,
}

fn join_groups(files: &[i32]) -> Step {
    files.iter().try_for_each(|&file| sys::write_all(file, b"0")).map_err(|errno| of_step(STEP_CGROUP_JOIN, errno))
}

/// Runs the plan. Never returns.
pub fn run(launch: &Launch) -> ! {
    let mut child = Child {
        launch,
        root: -1,
        proc: -1,
        devpts: launch.devpts,
        null: -1,
        empty: -1,
        place: -1,
        console: Console::Own,
        shared: [(0, -1); 32],
        home: [0; 1024],
        home_length: 0,
        filter: b"",
        filter_last: false,
        give_up: None,
        processes: None,
        others_proc: -1,
        joins: launch.starts,
        unwatched: launch.starts && Wall::WorkerConfirmed.stands(),
        label: b"\0",
    };
    if let Err(failure) = child.walk() {
        // Use only write(2): every filter of system calls allows it.
        let _ = write_report(launch.report, Report::Failure(failure));
    }
    sys::exit(1)
}

impl<'a> Child<'a> {
    fn walk(&mut self) -> Step {
        reset_signals();
        os(crate::rights::take_all())?;
        self.close_rest()?;
        if self.launch.enters {
            // The group of the helper, which it may signal, must not be the monitor's.
            os(sys_setsid())?;
        }
        join_groups(self.launch.cgroups)?;
        for &(fd, kind) in self.launch.made.others.iter().filter(|(fd, _)| *fd >= 0) {
            sys::setns(fd, kind).map_err(|errno| of_step(STEP_CLONE, errno))?;
        }
        for step in self.launch.plan.steps() {
            if step.is::<ops::CgroupNs>()
                || step.is::<ops::UserNs>()
                || step.is::<ops::Pivot>()
                || step.is::<ops::Exec>()
            {
                self.join_more()?;
            }
            // Before its own filter, which may not know the call, and before others see it.
            if step.is::<ops::Identity>() || step.is::<ops::Exec>() {
                self.await_worker()?;
            }
            self.step(step).map_err(|mut failure| {
                failure.step = step.index;
                failure
            })?;
        }
        Ok(())
    }

    /// Waits for the cgroups that the monitor makes meanwhile, and joins them.
    fn join_more(&mut self) -> Step {
        if !core::mem::replace(&mut self.joins, false) {
            return Ok(());
        }
        loop {
            let (mut left, mut fds) = ([0u8; 4], [-1; MAX_FDS]);
            let failed = |errno| of_step(STEP_CGROUP_JOIN, errno);
            let (got, count) = sys::recv_fds(self.launch.report, &mut left, &mut fds, true).map_err(failed)?;
            if got < left.len() {
                // The monitor is gone.
                return Err(failed(EPIPE));
            }
            if left == WORKER_CONFINED {
                return Err(failed(EINVAL));
            }
            join_groups(&fds[..count])?;
            fds[..count].iter().copied().for_each(sys::close);
            if left == [0; 4] {
                return Ok(());
            }
        }
    }

    /// Waits for the monitor's word that the worker, which will read the output, has given its rights up.
    fn await_worker(&mut self) -> Step {
        // The cgroups come first, from the same place.
        self.join_more()?;
        if !core::mem::replace(&mut self.unwatched, false) {
            return Ok(());
        }
        let mut word = [0; 4];
        match sys::recv_fds(self.launch.report, &mut word, &mut [-1; MAX_FDS], true) {
            Ok((4, _)) if word == WORKER_CONFINED => Ok(()),
            Ok((4, _)) => Err(EINVAL),
            Ok(_) => Err(EPIPE),
            Err(errno) => Err(errno),
        }
        .map_err(|errno| of_step(STEP_WORKER, errno))
    }

    /// Closes the monitor's descriptors that the plan has no use for, above all those of the engine's files: until it
    /// executes its program, a process of the container that may trace others could take them from this one.
    fn close_rest(&self) -> Step {
        let launch = self.launch;
        let used = || {
            let lists = [&launch.stdio[..], launch.cgroups, launch.namespaces, launch.volumes];
            let made = launch.made.others.iter().map(|(fd, _)| *fd).chain([launch.made.user]);
            let single = [launch.report, launch.init, launch.devpts, launch.host_link];
            lists.into_iter().flatten().copied().chain(single).chain(made)
        };
        let mut first = 3;
        while let Some(next) = used().filter(|fd| *fd >= first).min() {
            if next > first {
                os(sys::close_range(first, next as u32 - 1, 0))?;
            }
            first = next + 1;
        }
        os(sys::close_range(first, u32::MAX, 0))
    }

    fn step(&mut self, step: ops::Step<'a>) -> Step {
        of_kind!(match step {
            Hostname(op) => set_name(nr::SETHOSTNAME, op.name),
            Domainname(op) => set_name(nr::SETDOMAINNAME, op.name),
            Loopback(_) => loopback_up(),
            Propagation(op) => self.propagation(op.kind),
            Overlay(op) => self.overlay(op),
            Mount(op) => self.mount(op),
            Bind(op) => self.bind(op),
            Node(op) => self.node(op),
            Symlink(op) => self.symlink(op),
            Mask(op) => self.mask(op.path.cstr()),
            Readonly(op) => self.read_only(op.path.cstr()),
            Attr(op) => self.attributes(op),
            Sysctl(op) => self.sysctl(op),
            Pivot(op) => self.pivot(op),
            Rlimit(op) => self.rlimit(op),
            OomScore(op) => oom_score(op),
            Keyring(_) => keyring(),
            Stdio(_) => self.stdio(),
            Workdir(op) => self.workdir(op.path.cstr()),
            Chdir(op) => self.chdir(op.path.cstr()),
            Profile(op) => profile(op),
            ChangeProfile(op) => self.change_profile(op.word),
            Label(op) => label(op.label),
            MountLabel(op) => self.mount_label(op.label.cstr()),
            Identity(op) => self.identity(op),
            Exec(op) => self.exec(op),
            JoinNs(op) => self.join(op),
            CgroupNs(_) => os(sys::unshare(CLONE_NEWCGROUP)),
            Enter(op) => self.enter(op.namespaces),
            FsOwner(op) => os(sys::set_fs_owner(op.uid, op.gid)),
            UserNs(op) => self.user_ns(op),
            OwnStreams(op) => self.own_streams(op.uid, op.gid),
            SharedShm(op) => self.shared_shm(op.index),
            Dns(_) if self.launch.net_goes_on => Ok(()),
            Net(_) if self.launch.net_goes_on => Ok(()),
            Dns(op) => crate::dns::open(op, self.launch.report),
            Done(_) => self.done(),
            Net(op) => crate::net::run(op, self.launch.host_link, self.launch.restarts),
            MountHere(op) => self.mount_here(op),
            Volume(op) => self.volume(op),
            OthersDev(op) => self.others_dev(op.parts),
            // An operation that this monitor does not know must not be skipped: it may be a restriction.
            _ if step.code < ops::MONITORS => Err(errno(ENOSYS)),
            _ => Ok(()),
        })
    }

    fn mount_label(&mut self, label: &'a [u8]) -> Step {
        self.label = label;
        Ok(())
    }

    fn done(&self) -> Step {
        let _ = hand_over(self.launch.report, Report::Done, None);
        sys::exit(0)
    }

    fn join(&mut self, ops::JoinNs { index, kind }: ops::JoinNs) -> Step {
        let fd = self.launch.namespaces.get(index as usize).copied().unwrap_or(-1);
        if u64::from(kind) == CLONE_NEWPID && self.launch.enters {
            // The one who appears there for a moment is in the container's groups by then.
            self.join_more()?;
            self.others_proc = crate::others_proc::context_for(fd)?;
        }
        os(sys::setns(fd, u64::from(kind)))
    }

    /// The last step with the host's rights.
    fn user_ns(&mut self, op: ops::UserNs) -> Step {
        self.own_streams(op.uid, op.gid)?;
        os(sys::setns(self.launch.made.user, CLONE_NEWUSER))?;
        if op.own_mounts {
            os(sys::unshare(CLONE_NEWNS))?;
            // The root's descriptor is of the mount namespace that was left.
            sys::close(self.root);
            self.root = os(sys::openat(AT_FDCWD, b"/\0", O_PATH | O_DIRECTORY, 0))?;
            os(sys::fchdir(self.root))?;
        }
        os(sys::become_root())
    }

    /// Inside of the user namespace nobody may give away what belongs to somebody outside.
    fn own_streams(&self, uid: u32, gid: u32) -> Step {
        for (number, given) in self.launch.stdio.into_iter().enumerate() {
            if given >= 0 && self.launch.direct[number] {
                continue;
            }
            if given >= 0 {
                os(sys::fchownat(given, b"\0", uid, gid, AT_EMPTY_PATH))?;
            } else if self.launch.tty && self.launch.init < 0 {
                let _ = sys::fchownat(number as i32, b"\0", uid, u32::MAX, AT_EMPTY_PATH);
            }
        }
        Ok(())
    }

    fn enter(&mut self, kinds: u32) -> Step {
        // Of a PID namespace it is the children that live in it, and the rights to join it are the host's.
        let pids = if self.launch.enters { CLONE_NEWPID } else { 0 };
        os(sys::setns(self.launch.init, u64::from(kinds) | pids))?;
        if u64::from(kinds) & CLONE_NEWUSER != 0 {
            os(sys::become_root())?;
        }
        self.root = os(sys::openat(AT_FDCWD, b"/\0", O_PATH | O_DIRECTORY, 0))?;
        Ok(())
    }

    /// Says which mount events pass between this mount namespace and the host's. The tree as a whole never tells the
    /// host: only the bind mounts that are to, and those are taken while they are still the host's peers.
    fn propagation(&mut self, kind: u32) -> Step {
        if kind & MS_SHARED == 0 {
            return os(sys::mount_propagation(b"/\0", kind));
        }
        let mut slots = self.shared.iter_mut();
        for (_, ops::Bind { flags, propagation, source, .. }) in self.launch.plan.each() {
            let source = source.cstr();
            if propagation & MS_SHARED == 0 {
                continue;
            }
            let how = 1 | if flags & BIND_RECURSIVE != 0 { AT_RECURSIVE } else { 0 };
            // One that is missing is made, or told, when its turn comes.
            if let Ok(tree) = sys::open_tree(AT_FDCWD, source, how) {
                *slots.next().ok_or_else(|| errno(E2BIG))? = (source.as_ptr() as usize, tree);
            }
        }
        os(sys::mount_propagation(b"/\0", kind & !MS_SHARED | MS_SLAVE))
    }

    /// The bind mount of this source that was taken before, if it was.
    fn taken(&mut self, source: &[u8]) -> Option<i32> {
        let slot = self.shared.iter_mut().find(|(at, tree)| *at == source.as_ptr() as usize && *tree >= 0)?;
        Some(core::mem::replace(&mut slot.1, -1))
    }

    /// The overlay of the run before may still hold the directories, where a monitor that was killed is letting it go.
    fn overlay(&mut self, op: ops::Overlay) -> Step {
        const TRIES: u32 = 1000;
        const OVERLAY_PAUSE_NS: i64 = 2_000_000;
        for _ in 0..TRIES {
            match self.try_overlay(&op) {
                Err(failure) if failure.errno == EBUSY => sys::sleep(OVERLAY_PAUSE_NS),
                other => return other,
            }
        }
        self.try_overlay(&op)
    }

    /// Mounts the overlay detached, and puts it on the run directory: somewhere in our own namespace it must be.
    fn try_overlay(&mut self, op: &ops::Overlay) -> Step {
        let mount = os(crate::overlay::mount(op, self.launch.made.user, self.label))?;
        // The working directory is the run directory as this mount namespace has it; a descriptor of the monitor's is
        // not.
        let here = os(sys::openat(AT_FDCWD, b".\0", O_PATH | O_DIRECTORY, 0))?;
        os(sys::move_mount(mount, here))?;
        sys::close(here);
        self.root = mount;
        Ok(())
    }

    fn mount(&mut self, op: ops::Mount) -> Step {
        let ops::Mount { special, attributes, options, .. } = op;
        let (kind, source, target) = (op.kind.cstr(), op.source.cstr(), op.target.cstr());
        let others = special & !SPECIAL_FIXED == SPECIAL_PROC && self.others_proc >= 0;
        let fs = if others { core::mem::replace(&mut self.others_proc, -1) } else { os(sys::fsopen(kind))? };
        if source != b"\0" {
            os(sys::fsconfig(fs, b"source\0", source))?;
        }
        for (key, value) in options.iter() {
            os(sys::fsconfig(fs, key.cstr(), value.cstr()))?;
        }
        os(sys::fs_create(fs))?;
        let mount = os(sys::fsmount(fs, attributes))?;
        sys::close(fs);
        if others && os(sys::fs_magic(mount))? != PROC_MAGIC {
            return Err(errno(EINVAL));
        }
        if self.is_here(target) {
            os(sys::mkdirat(self.place, target, 0o755))?;
            os(sys::move_mount_at(mount, self.place, target))?;
        } else {
            let resolve = if special & SPECIAL_FIXED != 0 { RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS } else { IN_ROOT };
            let at = self.make_dirs(self.root, target, 0o755, resolve)?;
            not_kernel_files(target, at)?;
            os(sys::move_mount(mount, at))?;
            sys::close(at);
        }
        if special & SPECIAL_PLACE != 0 {
            os(sys::fchdir(mount))?;
            self.place = mount;
            return Ok(());
        }
        match special & !SPECIAL_FIXED {
            SPECIAL_PROC => self.proc = mount,
            SPECIAL_DEVPTS => {
                self.devpts = mount;
                let _ = hand_over(self.launch.report, Report::DevPts, Some(mount));
            }
            _ => sys::close(mount),
        }
        Ok(())
    }

    /// Whether a target is a name in the place.
    fn is_here(&self, target: &[u8]) -> bool {
        self.place >= 0 && !target.contains(&b'/')
    }

    fn mount_here(&mut self, op: ops::MountHere) -> Step {
        let (kind, options, name) = (op.kind.cstr(), op.options.cstr(), op.name.cstr());
        if !self.is_here(name) {
            return Err(errno(EINVAL));
        }
        os(sys::mkdirat(self.place, name, 0o755))?;
        // File systems in memory are told apart by their source: /dev/shm is "shm".
        let source = if kind == b"tmpfs\0" { name } else { kind };
        os(sys::mount(source, name, kind, op.flags, options))?;
        if kind == b"mqueue\0" && self.label.len() > 1 {
            // The kernel makes a queue's file system with its IPC namespace: as it is mounted, it can be given no
            // label. In the user namespace of a container some kernels let nobody give it one; then its container does
            // not come into it.
            let _ = sys::lsetxattr(name, c"security.selinux", self.label);
        }
        Ok(())
    }

    fn bind(&mut self, op: ops::Bind) -> Step {
        let ops::Bind { flags, propagation, set, clear, .. } = op;
        let (source, target) = (op.source.cstr(), op.target.cstr());
        let recursive = flags & BIND_RECURSIVE != 0;
        let how = 1 | if recursive { AT_RECURSIVE } else { 0 };
        let opened = match self.taken(source) {
            // A peer of it that stands in the mount table where it was asked for; before Linux 6.15, where it was
            // taken.
            Some(tree) => Ok(sys::open_tree(tree, b"\0", AT_EMPTY_PATH | how).unwrap_or(tree)),
            None => sys::open_tree(AT_FDCWD, source, how),
        };
        let tree = match opened {
            Err(ENOENT) if flags & BIND_MAKE_SOURCE != 0 => {
                let host = os(sys::openat(AT_FDCWD, b"/\0", O_PATH | O_DIRECTORY, 0))?;
                sys::close(self.make_dirs(host, source, 0o755, IN_ROOT)?);
                sys::close(host);
                os(sys::open_tree(AT_FDCWD, source, how))?
            }
            other => os(other)?,
        };
        if flags & BIND_IDMAP != 0 {
            os(sys::mount_idmap(tree, recursive, self.launch.made.user))?;
        }
        if set | clear != 0 && Wall::ReadOnlyDetached.stands() {
            os(sys::mount_setattr(tree, false, set, clear, 0))?;
        }
        if flags & BIND_READ_ONLY_BELOW != 0 {
            os(sys::mount_setattr(tree, true, MOUNT_ATTR_RDONLY, 0, 0))?;
        }
        if propagation != 0 {
            os(sys::mount_setattr(tree, flags & BIND_PROPAGATE_BELOW != 0, 0, 0, u64::from(propagation)))?;
        }
        let directory = os(sys::fstat(tree))?.mode & S_IFMT == S_IFDIR;
        let at = if directory { self.make_dirs(self.root, target, 0o755, IN_ROOT)? } else { self.make_file(target)? };
        not_kernel_files(target, at)?;
        os(sys::move_mount(tree, at))?;
        #[cfg(feature = "attacks")]
        if !Wall::ReadOnlyDetached.stands() && set != 0 {
            // As a string, from a directory that the container fills.
            let by_path = sys::openat(self.root, relative(target), O_PATH, 0);
            let _ = by_path.and_then(|at| sys::mount_setattr(at, false, set, clear, 0));
        }
        sys::close(at);
        sys::close(tree);
        Ok(())
    }

    /// `/dev/shm` of another container: cloned in its mount namespace, put into this one.
    fn shared_shm(&mut self, index: u32) -> Step {
        let other = self.launch.namespaces.get(index as usize).copied().unwrap_or(-1);
        let tree = self.clone_from(other, b"/dev/shm\0")?;
        let at = self.make_dirs(self.root, b"/dev/shm\0", 0o1777, FIXED)?;
        os(sys::move_mount(tree, at))?;
        sys::close(at);
        sys::close(tree);
        Ok(())
    }

    /// The root of a volume's own mount namespace: every container that uses the volume mounts the same.
    fn volume(&mut self, op: ops::Volume) -> Step {
        let ops::Volume { index, flags, set, clear, .. } = op;
        let target = op.target.cstr();
        let other = self.launch.volumes.get(index as usize).copied().unwrap_or(-1);
        let tree = self.clone_from(other, b"/\0")?;
        if flags & BIND_IDMAP != 0 {
            os(sys::mount_idmap(tree, false, self.launch.made.user))?;
        }
        if set | clear != 0 {
            os(sys::mount_setattr(tree, false, set, clear, 0))?;
        }
        let at = self.make_dirs(self.root, target, 0o755, IN_ROOT)?;
        not_kernel_files(target, at)?;
        os(sys::move_mount(tree, at))?;
        sys::close(at);
        sys::close(tree);
        Ok(())
    }

    /// A copy of a mount of another mount namespace, for this one.
    fn clone_from(&self, namespace: i32, path: &[u8]) -> Outcome<i32> {
        let own = os(sys::openat(AT_FDCWD, b"/proc/self/ns/mnt\0", O_RDONLY, 0))?;
        os(sys::setns(namespace, CLONE_NEWNS))?;
        let tree = sys::open_tree(AT_FDCWD, path, 1);
        os(sys::setns(own, CLONE_NEWNS))?;
        sys::close(own);
        let tree = os(tree)?;
        // Entering a mount namespace left the place.
        os(sys::fchdir(if self.place >= 0 { self.place } else { self.root }))?;
        Ok(tree)
    }

    /// Terminals come from a `pts` that was bound, as the container's processes find them there.
    fn others_dev(&mut self, what: u32) -> Step {
        self.console = match what {
            _ if what & OTHERS_NOT_CONSOLE != 0 => Console::Own,
            _ if what & OTHERS_CONSOLE != 0 => Console::Others,
            _ => Console::None,
        };
        if what & OTHERS_PTS == 0 {
            return Ok(());
        }
        match sys::openat2(self.root, b"dev/pts\0", O_PATH | O_DIRECTORY, 0, FIXED) {
            Ok(pts) if sys::fs_magic(pts) == Ok(DEVPTS_MAGIC) => {
                self.devpts = pts;
                let _ = hand_over(self.launch.report, Report::DevPts, Some(pts));
            }
            Ok(other) => sys::close(other),
            // Without terminals, then.
            Err(_) => {}
        }
        Ok(())
    }

    fn node(&mut self, op: ops::Node) -> Step {
        let ops::Node { mode, uid, gid, .. } = op;
        let (major, minor) = (u64::from(op.major), u64::from(op.minor));
        let target = op.target.cstr();
        let here = self.is_here(target);
        let (parent, name) = if here { (self.place, Name::of(target)?) } else { self.parent_of(target)? };
        let device = (minor & 0xff) | (major & 0xfff) << 8 | (minor & !0xff) << 12 | (major & !0xfff) << 32;
        let make = || with_mode(parent, &name, mode & 0o7777, || sys::mknodat(parent, name.cstr(), mode, device));
        if let Err(error) = make() {
            if error != EEXIST {
                return Err(errno(error));
            }
            os(sys::unlinkat(parent, name.cstr(), 0))?;
            os(make())?;
        }
        if uid | gid != 0 {
            os(sys::fchownat(parent, name.cstr(), uid, gid, AT_SYMLINK_NOFOLLOW))?;
        }
        if !here {
            sys::close(parent);
        }
        Ok(())
    }

    fn symlink(&mut self, op: ops::Symlink) -> Step {
        let (target, text) = (op.target.cstr(), op.text.cstr());
        let here = self.is_here(target);
        let (parent, name) = if here { (self.place, Name::of(target)?) } else { self.parent_of(target)? };
        let made = match sys::symlinkat(text, parent, name.cstr()) {
            Err(EEXIST) => Ok(()),
            other => os(other),
        };
        if !here {
            sys::close(parent);
        }
        made
    }

    fn attributes(&mut self, op: ops::Attr) -> Step {
        let at = os(sys::openat2(self.root, relative(op.path.cstr()), O_PATH, 0, FIXED))?;
        os(sys::mount_setattr(at, false, op.set, 0, u64::from(op.propagation)))?;
        sys::close(at);
        Ok(())
    }

    /// Hides a path: an empty read-only tmpfs over a directory, the host's `/dev/null` over anything else.
    fn mask(&mut self, path: &[u8]) -> Step {
        let at = match sys::openat2(self.root, relative(path), O_PATH, 0, FIXED) {
            Err(ENOENT | ENOTDIR) => return Ok(()),
            other => os(other)?,
        };
        let directory = os(sys::fstat(at))?.mode & S_IFMT == S_IFDIR;
        let cover = if directory { self.empty_dir()? } else { self.null_file()? };
        os(sys::move_mount(cover, at))?;
        if cover != self.empty {
            sys::close(cover);
        }
        sys::close(at);
        Ok(())
    }

    /// An empty read-only directory: one file system for all that are hidden.
    fn empty_dir(&mut self) -> Outcome<i32> {
        if self.empty >= 0 {
            // A copy of the first one, which stands in this mount namespace by now.
            return os(sys::open_tree(self.empty, b"\0", AT_EMPTY_PATH | 1));
        }
        self.empty = new_empty(self.label)?;
        Ok(self.empty)
    }

    /// A mount of the host's `/dev/null`, looked at before it is trusted.
    fn null_file(&mut self) -> Outcome<i32> {
        if self.null < 0 {
            self.null = os(sys::openat(AT_FDCWD, b"/dev/null\0", O_PATH | O_NOFOLLOW, 0))?;
            is_null(self.null)?;
        }
        let cover = os(sys::open_tree(self.null, b"\0", AT_EMPTY_PATH | 1))?;
        os(sys::mount_setattr(cover, false, MOUNT_ATTR_RDONLY, 0, 0))?;
        Ok(cover)
    }

    fn read_only(&mut self, path: &[u8]) -> Step {
        let at = match sys::openat2(self.root, relative(path), O_PATH, 0, FIXED) {
            Err(ENOENT | ENOTDIR) => return Ok(()),
            other => os(other)?,
        };
        let tree = os(sys::open_tree(at, b"\0", AT_EMPTY_PATH | AT_RECURSIVE | 1))?;
        os(sys::mount_setattr(tree, true, MOUNT_ATTR_RDONLY, 0, 0))?;
        os(sys::move_mount(tree, at))?;
        sys::close(tree);
        sys::close(at);
        Ok(())
    }

    fn sysctl(&mut self, op: ops::Sysctl) -> Step {
        let sys_dir = os(sys::openat2(self.proc, b"sys\0", O_PATH | O_DIRECTORY, 0, FIXED))?;
        let file = os(sys::openat2(sys_dir, op.name.cstr(), O_WRONLY, 0, FIXED))?;
        os(sys::write_all(file, op.value))?;
        sys::close(file);
        sys::close(sys_dir);
        Ok(())
    }

    /// By the container's own procfs, for the host's is gone: not by what a mask put there. The kernel takes the word
    /// only from the credentials that the file was opened with, so the file is not opened beforehand.
    fn change_profile(&mut self, word: &[u8]) -> Step {
        // SAFETY: getpid takes no arguments.
        let pid = os(unsafe { sys::call(nr::GETPID, &[]) })?;
        let mut digits = [0u8; 12];
        let pid = crate::text::decimal(&mut digits, pid as i64);
        let pid = Name::new(pid).ok_or_else(|| errno(EINVAL))?;
        let how = FIXED | RESOLVE_NO_XDEV;
        let dir = os(sys::openat2(self.proc, pid.cstr(), O_PATH | O_DIRECTORY, 0, how))?;
        let file = match sys::openat2(dir, b"attr/apparmor/current\0", O_WRONLY, 0, how) {
            // Before Linux 5.8.
            Err(ENOENT) => sys::openat2(dir, b"attr/current\0", O_WRONLY, 0, how),
            other => other,
        };
        sys::close(dir);
        let file = os(file)?;
        let written = sys::write_all(file, word);
        sys::close(file);
        os(written)
    }

    fn pivot(&mut self, ops::Pivot { attributes, propagation }: ops::Pivot) -> Step {
        if attributes != 0 {
            os(sys::mount_setattr(self.root, false, attributes, 0, 0))?;
        }
        os(sys::fchdir(self.root))?;
        os(sys::pivot_root(b".\0", b".\0"))?;
        os(sys::umount_detach(b".\0"))?;
        if propagation != 0 {
            // Not before: a shared mount cannot be pivoted to.
            os(sys::mount_setattr(self.root, false, 0, 0, u64::from(propagation)))?;
        }
        // The root's descriptor names the tree that is "/" now.
        os(sys::fchdir(self.root))
    }

    fn stdio(&mut self) -> Step {
        if !self.launch.enters {
            os(sys_setsid())?;
        }
        let mut streams = self.launch.stdio;
        if self.launch.tty {
            streams = [self.terminal()?; 3];
        }
        for (number, fd) in streams.into_iter().enumerate() {
            // A caller's own may be the host's null.
            let own = fd >= 0 && !(self.launch.direct[number] && is_null(fd).is_ok());
            let fd = if own { fd } else { self.own_null()? };
            if own && !self.launch.tty && !self.launch.direct[number] && self.label.len() > 1 {
                // The monitor's pipe has the monitor's label and level, which the container may not write to. Where the
                // policy refuses this one, the container's rights decide.
                let _ = sys::set_attribute(fd, c"security.selinux", self.label);
            }
            // Out of the way of the three numbers being filled.
            let fd = if fd < 3 && fd != number as i32 { os(sys::dup_from(fd, 3))? } else { fd };
            os(sys::dup_to(fd, number as i32))?;
        }
        #[cfg(feature = "attacks")]
        if !Wall::OwnTerminal.stands() && !self.launch.tty {
            let _ = sys::ioctl(0, TIOCSCTTY, 1);
        }
        Ok(())
    }

    /// The container's own `/dev/null`: a holder of the host's could change its mode for everybody. A process of the
    /// container may have put something else in its place, such as a link to a descriptor of the monitor: no link is
    /// followed, and what was opened is looked at.
    fn own_null(&self) -> Outcome<i32> {
        let null = os(sys::openat2(self.root, b"dev/null\0", O_RDWR | O_NOCTTY, 0, FIXED))?;
        is_null(null)?;
        Ok(null)
    }

    /// A terminal of the container's own `/dev/pts`; its master goes to the monitor.
    fn terminal(&mut self) -> Outcome<i32> {
        const TIOCSPTLCK: usize = 0x4004_5431;
        const TIOCGPTPEER: usize = 0x5441;
        if self.devpts < 0 {
            // Somebody bound another file system to /dev/pts, which makes no terminals.
            return Err(errno(ENODEV));
        }
        if os(sys::fs_magic(self.devpts))? != DEVPTS_MAGIC {
            return Err(errno(EINVAL));
        }
        let master = os(sys::openat2(self.devpts, b"ptmx\0", O_RDWR | O_NOCTTY, 0, FIXED))?;
        let unlocked = 0i32;
        os(sys::ioctl(master, TIOCSPTLCK, (&raw const unlocked) as usize))?;
        let slave = os(sys::ioctl(master, TIOCGPTPEER, (O_RDWR | O_NOCTTY | O_CLOEXEC) as usize))? as i32;
        if self.launch.rows | self.launch.cols != 0 {
            os(sys::set_window(master, self.launch.rows, self.launch.cols))?;
        }
        os(hand_over(self.launch.report, Report::Terminal, Some(master)))?;
        sys::close(master);
        if !self.launch.enters {
            os(sys::ioctl(slave, TIOCSCTTY, 0))?;
        }
        if self.launch.init < 0 && self.console != Console::None {
            self.mount_console(slave)?;
        }
        Ok(slave)
    }

    fn mount_console(&mut self, terminal: i32) -> Step {
        let console = match self.console {
            Console::Own => self.make_file(b"/dev/console\0")?,
            _ => match sys::openat2(self.root, b"dev/console\0", O_PATH, 0, FIXED) {
                Err(ENOENT) => return Ok(()),
                other => os(other)?,
            },
        };
        let tree = os(sys::open_tree(terminal, b"\0", AT_EMPTY_PATH | 1))?;
        os(sys::move_mount(tree, console))?;
        sys::close(tree);
        sys::close(console);
        Ok(())
    }

    fn workdir(&mut self, path: &[u8]) -> Step {
        enter(self.make_dirs(self.root, path, 0o755, IN_ROOT)?)
    }

    fn chdir(&mut self, path: &[u8]) -> Step {
        enter(os(sys::openat2(self.root, path, O_PATH | O_DIRECTORY, 0, IN_ROOT))?)
    }

    fn identity(&mut self, op: ops::Identity<'a>) -> Step {
        let ops::Identity { flags, filter, mut inheritable, mut ambient, .. } = op;
        let ops::Who { bounding, for_root, mut for_others, user, groups } = op.who;
        if self.launch.enters {
            private::forget(self.launch.plan.bytes());
        }
        let who = user::resolve(self.root, user, groups)?;
        if !Wall::UserCapabilities.stands() {
            (for_others, inheritable, ambient) = (for_root, for_root, for_root);
        }
        let no_new_privs = flags & ID_NO_NEW_PRIVS != 0;
        self.filter_last = self.launch.enters && !self.passes(filter);
        if self.filter_last {
            self.nobody_traces(bounding)?;
        }
        self.home[..who.home_length].copy_from_slice(&who.home[..who.home_length]);
        self.home_length = who.home_length;
        // `/dev/null` stays root's, and what a caller gave the caller's.
        for (number, given) in self.launch.stdio.into_iter().enumerate() {
            if self.launch.tty || given >= 0 && !self.launch.direct[number] {
                let _ = sys::fchownat(number as i32, b"\0", who.uid, u32::MAX, AT_EMPTY_PATH);
            }
        }
        drop_bounding(bounding)?;
        if self.launch.init < 0 && hand_over(self.launch.report, Report::Root, Some(self.root)).is_err() {
            sys::exit(1);
        }
        // Before any filter: it may not know these calls.
        if self.launch.enters {
            self.drop_everything()?;
        } else {
            os(sys::close_range(3, u32::MAX, 4))?;
        }
        // Without no_new_privs a filter needs CAP_SYS_ADMIN, so it comes before the privileges go; with it, last of
        // all.
        let early = !no_new_privs && !self.filter_last;
        if early {
            seccomp(filter)?;
        } else {
            self.filter = filter;
        }
        let keeps = if !early && !no_new_privs { CAP_SYS_ADMIN } else { 0 };
        if ambient | keeps != 0 {
            // Another user keeps what is permitted until it is said below what that is.
            os(sys::prctl(PR_SET_KEEPCAPS, 1))?;
        }
        os(set_ids(&who))?;
        let permitted = if who.uid == 0 { for_root } else { for_others };
        set_capabilities(permitted | keeps, inheritable, ambient)?;
        self.give_up = (keeps != 0).then_some([permitted, inheritable, ambient]);
        if no_new_privs {
            os(sys::prctl(38, 1))?;
        }
        Ok(())
    }

    /// Whether a filter lets the process through that appears among others, from its clone to its program.
    fn passes(&self, filter: &[u8]) -> bool {
        let allows = |number, arguments: &[usize]| crate::permits::allows(filter, number, arguments);
        allows(nr::CLONE, &[sys::SIBLING as usize])
            && allows(nr::SETSID, &[])
            && allows(nr::WRITE, &[self.launch.report as usize])
            && allows(nr::PRCTL, &[PR_SET_DUMPABLE, 0])
            && allows(nr::PRCTL, &[PR_SET_PDEATHSIG, SIGKILL as usize])
            && (!self.launch.tty || allows(nr::IOCTL, &[0, TIOCSCTTY, 0]))
            && (self.processes.is_none() || allows(nr::PRLIMIT64, &[0, RLIMIT_NPROC as usize]))
    }

    /// Where the filter is set by the process that others see, none of them may be able to take that process over
    /// before: it would be one without a filter, and without `no_new_privs` one that still has a capability.
    fn nobody_traces(&self, bounding: u64) -> Step {
        match self.launch.others || bounding & CAP_SYS_PTRACE != 0 {
            true if Wall::FilterUntraced.stands() => {
                Err(Failure { errno: EPERM, detail: DETAIL_FILTER, ..Failure::default() })
            }
            _ => Ok(()),
        }
    }

    /// A helper keeps its standard streams and its report.
    fn drop_everything(&self) -> Step {
        let report = self.launch.report;
        if report > 3 {
            os(sys::close_range(3, report as u32 - 1, 0))?;
        }
        os(sys::close_range(report + 1, u32::MAX, 0))
    }

    /// In a helper: makes the process that the others see. That process alone returns, with nothing left of the host.
    fn appear(&mut self) -> Step {
        // Ids and capabilities that were given up made it what fs.suid_dumpable says.
        os(sys::prctl(PR_SET_DUMPABLE, 0))?;
        if !self.filter_last {
            seccomp(core::mem::take(&mut self.filter))?;
        }
        let pid = os(sys::fork_sibling())?;
        if pid > 0 {
            let _ = write_report(self.launch.report, Report::Appeared(pid));
            sys::exit(0)
        }
        os(sys_setsid())?;
        if self.launch.tty {
            os(sys::ioctl(0, TIOCSCTTY, 0))?;
        }
        match self.processes {
            Some(limits) => os(sys::set_limit(RLIMIT_NPROC, limits)),
            None => Ok(()),
        }
    }

    /// A limit of the process. That of processes is set when the helper, which has the same user by then, does not
    /// count: until then the process has what it may lower.
    fn rlimit(&mut self, op: ops::Rlimit) -> Step {
        let (resource, limits) = (op.resource, [op.soft, op.hard]);
        if !self.launch.enters || resource != RLIMIT_NPROC {
            return os(sys::set_limit(resource, limits));
        }
        let most = os(sys::get_limit(resource))?[1].max(limits[1]);
        os(sys::set_limit(resource, [most, most]))?;
        self.processes = Some(limits);
        Ok(())
    }

    fn exec(&mut self, ops::Exec { words: ops::Words { argv, env } }: ops::Exec<'a>) -> Step {
        let (argc, envc) = (argv.len(), env.len());
        let memory = os(sys::map_memory((argc + envc + 4) * size_of::<usize>()))?;
        // SAFETY: the mapping is page-aligned, zeroed, and holds that many words.
        let words = unsafe { core::slice::from_raw_parts_mut(memory.as_mut_ptr().cast::<usize>(), argc + envc + 4) };
        let program = argv.iter().next().unwrap_or(ops::Text::EMPTY).cstr();
        for (word, text) in words.iter_mut().zip(argv.iter()) {
            *word = text.cstr().as_ptr() as usize;
        }
        let mut path: &[u8] = b"";
        let mut home = [0u8; 1100];
        home[..5].copy_from_slice(b"HOME=");
        home[5..5 + self.home_length].copy_from_slice(&self.home[..self.home_length]);
        let mut has_home = false;
        for (word, text) in words[argc + 1..].iter_mut().zip(env.iter()) {
            let variable = text.cstr();
            if let Some(value) = variable.strip_prefix(b"PATH=") {
                path = &value[..value.len() - 1];
            }
            has_home |= variable.starts_with(b"HOME=");
            // An empty value counts as a missing one, as with runc.
            *word = if variable == b"HOME=\0" { home.as_ptr() } else { variable.as_ptr() } as usize;
        }
        if !has_home {
            words[argc + 1 + envc] = home.as_ptr() as usize;
        }
        if self.launch.enters {
            self.appear()?;
        }
        // A monitor that ends takes its container along; one that ended before this line does not read the report any
        // more.
        os(sys::prctl(PR_SET_PDEATHSIG, SIGKILL as usize))?;
        if write_report(self.launch.report, Report::Ready).is_err() {
            sys::exit(1);
        }
        seccomp(self.filter)?;
        if let Some([permitted, inheritable, ambient]) = self.give_up {
            set_capabilities(permitted, inheritable, ambient)?;
        }
        let (argv, envp) = (words.as_ptr() as usize, words[argc + 1..].as_ptr() as usize);
        if program.contains(&b'/') {
            return Err(errno(execve(program.as_ptr(), argv, envp)));
        }
        Err(search(&program[..program.len() - 1], path, argv, envp))
    }

    /// The directory that `path` lies in, and its last component.
    fn parent_of(&mut self, path: &[u8]) -> Outcome<(i32, Name)> {
        let path = trim(path);
        let split = path.iter().rposition(|&b| b == b'/').map_or(0, |at| at + 1);
        let name = Name::new(&path[split..]).ok_or_else(|| errno(EINVAL))?;
        let mut parent = [0u8; 4096];
        parent[..split].copy_from_slice(&path[..split]);
        let parent = self.make_dirs(self.root, &parent[..=split], 0o755, IN_ROOT)?;
        Ok((parent, name))
    }

    /// Something that is not a directory, to mount on: what is there, or a new empty file. A link that leads to nothing
    /// yet is followed inside the root: images have `/etc/resolv.conf` as such a one.
    fn make_file(&mut self, path: &[u8]) -> Outcome<i32> {
        let mut path = Path::new(path)?;
        for _ in 0..MAX_LINKS {
            match sys::openat2(self.root, path.cstr(), O_PATH, 0, IN_ROOT) {
                Err(ENOENT) => {}
                other => return os(other),
            }
            let (parent, name) = self.parent_of(path.text())?;
            match sys::openat(parent, name.cstr(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o644) {
                Ok(made) => {
                    sys::close(made);
                    let at = os(sys::openat(parent, name.cstr(), O_PATH | O_NOFOLLOW, 0))?;
                    sys::close(parent);
                    return Ok(at);
                }
                Err(EEXIST) => {
                    let start = path.text().iter().rposition(|&b| b == b'/').map_or(0, |at| at + 1);
                    path.follow(parent, &name, start..path.length)?;
                    sys::close(parent);
                }
                Err(error) => return Err(errno(error)),
            }
        }
        Err(errno(ELOOP))
    }

    /// Opens a directory below `root`, making what is missing: the longest part that is there is resolved as a whole,
    /// then one component after the other is made. A link that leads to nothing yet is followed where links are.
    fn make_dirs(&mut self, root: i32, path: &[u8], mode: u32, resolve: u64) -> Outcome<i32> {
        let mut path = Path::new(path)?;
        for _ in 0..MAX_LINKS {
            if let Some(at) = self.dirs_of(root, &mut path, mode, resolve)? {
                return Ok(at);
            }
        }
        Err(errno(ELOOP))
    }

    /// One try of [`Self::make_dirs`]; none: a link was met, and `path` leads through it now.
    fn dirs_of(&mut self, root: i32, path: &mut Path, mode: u32, resolve: u64) -> Outcome<Option<i32>> {
        let mut start = path.length;
        let mut at = loop {
            let name = if start == 0 { Path::new(b".")? } else { Path::new(&path.text()[..start])? };
            match sys::openat2(root, name.cstr(), O_PATH | O_DIRECTORY, 0, resolve) {
                Ok(fd) => break fd,
                Err(ENOENT) if start > 0 => {
                    start = path.text()[..start].iter().rposition(|&b| b == b'/').unwrap_or(0);
                }
                Err(ENOTDIR) => return Err(Failure { errno: ENOTDIR, detail: DETAIL_NOT_DIR, ..Failure::default() }),
                Err(error) => return Err(errno(error)),
            }
        };
        while start < path.length {
            let end = path.text()[start..].iter().position(|&b| b == b'/').map_or(path.length, |slash| start + slash);
            let part = &path.text()[start..end];
            if part.is_empty() || part == b"." {
                start = end + 1;
                continue;
            }
            let name = Name::new(part).ok_or_else(|| errno(EINVAL))?;
            match with_mode(at, &name, mode, || sys::mkdirat(at, name.cstr(), mode)) {
                Ok(()) | Err(EEXIST) => {}
                Err(error) => return Err(errno(error)),
            }
            match sys::openat(at, name.cstr(), O_PATH | O_DIRECTORY | O_NOFOLLOW, 0) {
                Ok(next) => {
                    sys::close(at);
                    at = next;
                }
                Err(ENOTDIR) if resolve == IN_ROOT => {
                    path.follow(at, &name, start..end)?;
                    sys::close(at);
                    return Ok(None);
                }
                Err(error) => return Err(errno(error)),
            }
            start = end + 1;
        }
        Ok(Some(at))
    }
}

/// Makes something below `parent` with the mode that it is given: no bit is masked, so that none has to be set by the
/// name afterwards, which may be a link by then. The mask is this process's own, 022 before and after.
fn with_mode(parent: i32, name: &Name, mode: u32, make: impl FnOnce() -> sys::Result<()>) -> sys::Result<()> {
    #[cfg(feature = "attacks")]
    if !crate::walls::Wall::ModesAtBirth.stands() {
        return make().and_then(|()| sys::fchmodat(parent, name.cstr(), mode));
    }
    let _ = (parent, name);
    sys::umask(if mode & 0o022 == 0 { 0o022 } else { 0 });
    let made = make();
    sys::umask(0o022);
    made
}

/// As many links as the kernel follows in one path.
const MAX_LINKS: u32 = 40;

/// A path relative to the root, without slashes at either end.
struct Path {
    bytes: [u8; 4096],
    length: usize,
}

impl Path {
    fn new(path: &[u8]) -> Outcome<Path> {
        let path = trim(path);
        let mut bytes = [0; 4096];
        // One for the NUL, which stands there already.
        bytes[..4095].get_mut(..path.len()).ok_or_else(|| errno(ENAMETOOLONG))?.copy_from_slice(path);
        Ok(Path { bytes, length: path.len() })
    }
    fn text(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
    fn cstr(&self) -> &[u8] {
        &self.bytes[..=self.length]
    }

    /// Puts the text of a link in place of its name, or, where it begins with a slash, of all up to its name. Errors:
    /// the name is not a link.
    fn follow(&mut self, dir: i32, name: &Name, at: core::ops::Range<usize>) -> Step {
        let mut joined = [0; 4096];
        let mut link = [0; 4096];
        // Links of procfs show descriptors; their texts are not paths of the container.
        if Wall::ResolveInRoot.stands() && os(sys::fs_magic(dir))? == PROC_MAGIC {
            return Err(errno(ELOOP));
        }
        let length = match sys::readlinkat(dir, name.cstr(), &mut link) {
            Err(EINVAL) => return Err(errno(EEXIST)),
            other => os(other)?,
        };
        let link = &link[..length];
        let before = if link.starts_with(b"/") { b"" } else { &self.bytes[..at.start] };
        let mut used = 0;
        for part in [before, link, &self.bytes[at.end..self.length]] {
            let room = joined.get_mut(used..used + part.len()).ok_or_else(|| errno(ENAMETOOLONG))?;
            room.copy_from_slice(part);
            used += part.len();
        }
        *self = Path::new(&joined[..used])?;
        Ok(())
    }
}

/// One path component with its NUL.
struct Name {
    bytes: [u8; 256],
    length: usize,
}

impl Name {
    /// Of a C string.
    fn of(text: &[u8]) -> Outcome<Name> {
        Name::new(text.strip_suffix(b"\0").unwrap_or(text)).ok_or_else(|| errno(EINVAL))
    }
    fn new(text: &[u8]) -> Option<Name> {
        if text.is_empty() || text.len() > 255 || text == b"." || text == b".." {
            return None;
        }
        let mut bytes = [0; 256];
        bytes[..text.len()].copy_from_slice(text);
        Some(Name { bytes, length: text.len() })
    }
    fn cstr(&self) -> &[u8] {
        &self.bytes[..=self.length]
    }
}

const DEVPTS_MAGIC: u64 = 0x1cd1;
const PROC_MAGIC: u64 = 0x9fa0;
const PR_SET_PDEATHSIG: usize = 1;
const PR_SET_DUMPABLE: usize = 4;
const PR_SET_KEEPCAPS: usize = 8;
const TIOCSCTTY: usize = 0x540e;
const RLIMIT_NPROC: u32 = 6;
const CAP_SYS_PTRACE: u64 = 1 << 19;
pub const CAP_SYS_ADMIN: u64 = 1 << 21;

const IN_ROOT: u64 = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
const FIXED: u64 = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;

/// A C string without slashes at its beginning: what lies beneath a directory is not named from the root.
fn relative(path: &[u8]) -> &[u8] {
    let slashes = path.iter().take_while(|&&b| b == b'/').count();
    &path[slashes..]
}

/// Without NUL and without slashes at either end: relative to the root.
fn trim(path: &[u8]) -> &[u8] {
    let mut path = path.strip_suffix(b"\0").unwrap_or(path);
    while let Some(rest) = path.strip_prefix(b"/") {
        path = rest;
    }
    while let Some(rest) = path.strip_suffix(b"/") {
        path = rest;
    }
    path
}

/// A detached mount of an empty read-only directory.
pub fn new_empty(label: &[u8]) -> Outcome<i32> {
    let fs = os(sys::fsopen(b"tmpfs\0"))?;
    os(sys::fsconfig(fs, b"size\0", b"0\0"))?;
    if label.len() > 1 {
        os(sys::fsconfig(fs, b"context\0", label))?;
    }
    os(sys::fs_create(fs))?;
    let attributes = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
    let empty = os(sys::fsmount(fs, attributes as u32))?;
    sys::close(fs);
    Ok(empty)
}

/// Which targets may lie in procfs was decided by their names: a link of the image leads to no others.
fn not_kernel_files(target: &[u8], at: i32) -> Step {
    if !target.starts_with(b"/proc/") && Wall::ProcfsTargets.stands() && os(sys::fs_magic(at))? == PROC_MAGIC {
        return Err(Failure { errno: EPERM, detail: DETAIL_IN_PROCFS, ..Failure::default() });
    }
    Ok(())
}

fn is_null(fd: i32) -> Step {
    let stat = os(sys::fstat(fd))?;
    match (stat.mode & S_IFMT, stat.rdev_major, stat.rdev_minor) == (S_IFCHR, 1, 3) || !Wall::NullDevice.stands() {
        true => Ok(()),
        false => Err(errno(EINVAL)),
    }
}

fn sys_setsid() -> Result<()> {
    // SAFETY: no arguments.
    match unsafe { sys::call(nr::SETSID, &[]) } {
        // The leader of a process group cannot, but then it leads a session already.
        Ok(_) | Err(EPERM) => Ok(()),
        Err(error) => Err(error),
    }
}

fn reset_signals() {
    sys::set_signal(SIGPIPE, 0);
    sys::block_signals(false);
}

fn set_name(number: usize, name: &[u8]) -> Step {
    // SAFETY: the name lives over the call.
    os(unsafe { sys::call(number, &[name.as_ptr() as usize, name.len()]) }).map(|_| ())
}

/// Interface flags by ioctl: one call, no netlink.
fn loopback_up() -> Step {
    const SIOCSIFFLAGS: usize = 0x8914;
    const IFF_UP_RUNNING: u16 = 0x41;
    let mut request = [0u8; 40];
    request[..2].copy_from_slice(b"lo");
    request[16..18].copy_from_slice(&IFF_UP_RUNNING.to_ne_bytes());
    // SAFETY: no pointers.
    let socket = os(unsafe { sys::call(nr::SOCKET, &[2, 2 | O_CLOEXEC as usize, 0]) })? as i32;
    os(sys::ioctl(socket, SIOCSIFFLAGS, request.as_ptr() as usize))?;
    sys::close(socket);
    Ok(())
}

fn oom_score(ops::OomScore { value, required }: ops::OomScore) -> Step {
    let mut text = [0u8; 12];
    let text = crate::text::decimal(&mut text, i64::from(value));
    let file = os(sys::openat(AT_FDCWD, b"/proc/self/oom_score_adj\0", O_WRONLY, 0))?;
    let written = sys::write_all(file, text);
    sys::close(file);
    if required { os(written) } else { Ok(()) }
}

/// The kernel keeps with the task who it becomes at its exec, and a child has that, too: the word of a helper counts
/// for the process that it makes. So it is given while the host's procfs can be seen, and no descriptor of it stays.
fn profile(ops::Profile { required, word }: ops::Profile) -> Step {
    let file = match sys::openat(AT_FDCWD, b"/proc/self/attr/apparmor/exec\0", O_WRONLY, 0) {
        // Before Linux 5.8.
        Err(ENOENT) => sys::openat(AT_FDCWD, b"/proc/self/attr/exec\0", O_WRONLY, 0),
        other => other,
    };
    let written = file.and_then(|file| {
        let written = sys::write_all(file, word);
        sys::close(file);
        written
    });
    if required { os(written) } else { Ok(()) }
}

/// As a profile's, the word counts for children until their exec. Keys that the process makes before (its session
/// keyring) are to have the same label, where the policy lets them: without it they are the host's, and closed to the
/// container.
fn label(text: &[u8]) -> Step {
    let say = |path: &[u8]| {
        let file = sys::openat(AT_FDCWD, path, O_WRONLY, 0)?;
        let written = sys::write_all(file, text);
        sys::close(file);
        written
    };
    let _ = say(b"/proc/self/attr/keycreate\0");
    os(say(b"/proc/self/attr/exec\0"))
}

/// Makes a directory the working directory, and closes it.
fn enter(at: i32) -> Step {
    os(sys::fchdir(at))?;
    sys::close(at);
    Ok(())
}

/// A new anonymous session keyring; a kernel without keyrings has none to leak.
fn keyring() -> Step {
    // SAFETY: KEYCTL_JOIN_SESSION_KEYRING takes a null name.
    match unsafe { sys::call(nr::KEYCTL, &[1, 0]) } {
        Ok(_) | Err(ENOSYS) => Ok(()),
        Err(error) => Err(errno(error)),
    }
}

fn drop_bounding(keep: u64) -> Step {
    const PR_CAPBSET_DROP: usize = 24;
    for capability in 0..64 {
        if keep & (1 << capability) == 0 {
            match sys::prctl(PR_CAPBSET_DROP, capability) {
                Ok(_) => {}
                // Beyond the kernel's last capability.
                Err(EINVAL) => break,
                Err(error) => return Err(errno(error)),
            }
        }
    }
    Ok(())
}

fn set_ids(who: &user::Identity) -> Result<()> {
    let (uid, gid) = (who.uid as usize, who.gid as usize);
    let groups = &who.groups[..who.group_count];
    // SAFETY: the list lives over the call; the other two take numbers.
    unsafe {
        sys::call(nr::SETGROUPS, &[groups.len(), groups.as_ptr() as usize])?;
        sys::call(nr::SETRESGID, &[gid, gid, gid])?;
        sys::call(nr::SETRESUID, &[uid, uid, uid])?;
    }
    Ok(())
}

/// Permitted capabilities are effective. Ambient ones must be permitted and inheritable.
pub fn set_capabilities(permitted: u64, inheritable: u64, ambient: u64) -> Step {
    const VERSION_3: u32 = 0x2008_0522;
    const PR_CAP_AMBIENT: usize = 47;
    const CLEAR_ALL: usize = 4;
    const RAISE: usize = 2;
    let header = [VERSION_3, 0];
    let (low, high) = (permitted as u32, (permitted >> 32) as u32);
    let data = [low, low, inheritable as u32, high, high, (inheritable >> 32) as u32];
    let _ = sys::prctl(PR_CAP_AMBIENT, CLEAR_ALL);
    // SAFETY: both structures live over the call.
    os(unsafe { sys::call(nr::CAPSET, &[header.as_ptr() as usize, data.as_ptr() as usize]) })?;
    for capability in (0..64).filter(|bit| ambient & (1 << bit) != 0) {
        // SAFETY: takes numbers; the last two must be zero.
        os(unsafe { sys::call(nr::PRCTL, &[PR_CAP_AMBIENT, RAISE, capability, 0, 0]) })?;
    }
    Ok(())
}

pub fn seccomp(filter: &[u8]) -> Step {
    const SET_MODE_FILTER: usize = 1;
    const INSTRUCTION_LEN: usize = 8;
    #[repr(C)]
    struct Program {
        length: u16,
        filter: *const u8,
    }
    if filter.is_empty() {
        return Ok(());
    }
    let program = Program { length: (filter.len() / INSTRUCTION_LEN) as u16, filter: filter.as_ptr() };
    // SAFETY: the program lives over the call; the kernel copies and checks it.
    os(unsafe { sys::call(nr::SECCOMP, &[SET_MODE_FILTER, 0, (&raw const program) as usize]) }).map(|_| ())
}

/// Tries again for a while where the program is being written: a program that was just put there may still be open in
/// another process between its clone and its exec. Without a pause of the kernel's: the filter of system calls is in
/// force.
fn execve(program: *const u8, argv: usize, envp: usize) -> i32 {
    const ATTEMPTS: u32 = 5000;
    const SPINS: u32 = 2000;
    let mut attempt = 0;
    loop {
        // SAFETY: the arrays end with a null and hold C strings of the plan's mapping.
        let failed = unsafe { sys::call(nr::EXECVE, &[program as usize, argv, envp]) }.err().unwrap_or(0);
        attempt += 1;
        if failed != ETXTBSY || attempt == ATTEMPTS {
            return failed;
        }
        (0..SPINS).for_each(|_| core::hint::spin_loop());
    }
}

/// Tries the program in every directory of `PATH`.
fn search(program: &[u8], path: &[u8], argv: usize, envp: usize) -> Failure {
    let mut candidate = [0u8; 4096];
    for dir in path.split(|&b| b == b':') {
        let dir: &[u8] = if dir.is_empty() { b"." } else { dir };
        let length = dir.len() + 1 + program.len();
        if program.is_empty() || length + 1 > candidate.len() {
            continue;
        }
        candidate[..dir.len()].copy_from_slice(dir);
        candidate[dir.len()] = b'/';
        candidate[dir.len() + 1..length].copy_from_slice(program);
        candidate[length] = 0;
        match execve(candidate.as_ptr(), argv, envp) {
            ENOENT | ENOTDIR | EACCES | ELOOP => {}
            error => return errno(error),
        }
    }
    Failure { errno: ENOENT, detail: DETAIL_NOT_IN_PATH, ..Failure::default() }
}
