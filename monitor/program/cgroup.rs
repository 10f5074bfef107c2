//! The container's cgroups: made and limited before its first process starts, removed after its last process ended.

use crate::by_kind::of_kind;
use crate::failure::{self, of_step};
use crate::fd::{Fd, FdList, close_all};
use crate::in_force::InForce;
use crate::ops::{self, CgroupDir, CgroupFreezer, CgroupOom, Operation, Plan, Step};
use crate::sys::{self, *};
use crate::wire::*;

const MAX_GROUPS: usize = 24;

/// The groups of the container, and their limits.
pub struct Groups {
    /// The plan that describes the groups.
    limits: InForce,
    /// Files through which a child joins groups of v1: `tasks`.
    files: FdList<MAX_GROUPS>,
    /// The directory of the v2 group.
    unified: Fd,
    /// The path of the file that freezes the groups, with its NUL.
    freezer: &'static [u8],
    /// The path of the file that counts the kills of the OOM killer, with its NUL.
    oom_file: &'static [u8],
}

impl Groups {
    pub const NONE: Groups =
        Groups { limits: InForce::NONE, files: FdList::NONE, unified: Fd::NONE, freezer: b"\0", oom_file: b"\0" };

    /// The plan that the monitor was started with.
    pub fn set_plan(&mut self, plan: Plan<'static>) {
        self.limits = InForce::first(plan);
    }

    /// Makes the directories, writes the limits, and opens the files through which a child joins the groups. `late`:
    /// only the groups that the first process need not have at its start; else only the other groups.
    pub fn make(&mut self, late: bool) -> failure::Step {
        let mut file = ControlFile { path: b"", fd: Fd::NONE };
        let mut are_late = false;
        for step in self.limits.plan().steps() {
            are_late |= step.is::<ops::CgroupLate>();
            if are_late == late {
                self.step(step, &mut file).map_err(|errno| of_step(step.index, errno))?;
            }
        }
        Ok(())
    }

    fn step(&mut self, step: Step<'static>, file: &mut ControlFile) -> Result<()> {
        of_kind!(match step {
            CgroupDir(op) => self.make_group(op)?,
            CgroupWrite(op) =>
                file.write(op.path.cstr(), op.value).or_else(|errno| if op.ignore { Ok(()) } else { Err(errno) })?,
            CgroupDevices(op) => attach_devices(op.path.cstr(), op.program)?,
            CgroupFreezer(op) => self.freezer = op.path.cstr(),
            CgroupOom(op) => self.oom_file = op.path.cstr(),
            _ => (),
        });
        Ok(())
    }

    fn make_group(&mut self, CgroupDir { join, path }: CgroupDir) -> Result<()> {
        make_dirs(path.cstr())?;
        if join { self.open_group(path.cstr()) } else { Ok(()) }
    }

    /// The file through which a child joins the group. A child joins a v2 group by its clone: a write to `cgroup.procs`
    /// waits until every CPU has passed through the scheduler (6 to 13 ms), even if only the tree of systemd is v2.
    fn open_group(&mut self, path: &[u8]) -> Result<()> {
        let mut dir = Fd::new(sys::openat(AT_FDCWD, path, O_PATH | O_DIRECTORY, 0)?);
        // `tasks` moves one thread without the lock that `cgroup.procs` takes; a v2 group has no `tasks`.
        match sys::openat(dir.raw(), b"tasks\0", O_WRONLY, 0) {
            Err(ENOENT) => {
                self.unified.set(dir.take());
                Ok(())
            }
            file => self.files.push(file?),
        }
    }

    /// The files through which a child joins groups.
    pub fn files(&self) -> &[i32] {
        self.files.raw()
    }

    /// The group that a child is cloned into.
    pub fn unified(&self) -> Option<i32> {
        self.unified.is_open().then_some(self.unified.raw())
    }

    pub fn oom_file(&self) -> &'static [u8] {
        self.oom_file
    }

    /// Sends the first process the files through which it joins its groups.
    pub fn hand(&self, report: i32) {
        let mut left = self.files.raw();
        loop {
            let (now, later) = left.split_at(left.len().min(MAX_FDS));
            // If the process is gone, its report or its end gives the reason.
            let _ = sys::send_fds(report, &(later.len() as u32).to_ne_bytes(), now);
            if later.is_empty() {
                return;
            }
            left = later;
        }
    }

    /// Takes limits that count from the next start on: `fds` has their plan. Closes the descriptors.
    pub fn take_limits(&mut self, fds: &[i32]) -> Result<()> {
        let taken = self.map_limits(fds);
        close_all(fds);
        taken
    }

    fn map_limits(&mut self, fds: &[i32]) -> Result<()> {
        let [memfd] = *fds else { return Err(EINVAL) };
        let limits = sys::map_file(memfd, sys::fstat(memfd)?.size as usize)?;
        let limits = Plan::check(limits).map_err(|bad| {
            sys::unmap(limits);
            bad.failure().errno
        })?;
        // Both paths point into the limits that are unmapped below.
        if let Some(CgroupFreezer { path }) = limits.find() {
            self.freezer = path.cstr();
        }
        if let Some(CgroupOom { path }) = limits.find() {
            self.oom_file = path.cstr();
        }
        self.limits.replace(limits);
        Ok(())
    }

    /// Closes and removes the groups of the container's plan; answers whether all have gone. A group that still has
    /// processes stays: the library removes it later.
    pub fn remove(&mut self, plan: Plan) -> bool {
        self.files.close();
        self.unified.close();
        let groups = plan.each().filter(|(_, CgroupDir { join, .. })| *join);
        groups.fold(true, |all, (_, CgroupDir { path, .. })| remove_group(path.cstr()) && all)
    }

    /// Freezes or thaws the groups, and waits until they are frozen or thawed.
    pub fn freeze(&self, frozen: bool) -> Result<()> {
        let v2 = self.freezer.ends_with(b"cgroup.freeze\0");
        let value: &[u8] = match (v2, frozen) {
            (true, true) => b"1",
            (true, false) => b"0",
            (false, true) => b"FROZEN",
            (false, false) => b"THAWED",
        };
        // A v1 group stays FREEZING while a process is being made or does not get to run. Another write makes it go on.
        const LONGEST_NS: i64 = 5_000_000_000;
        let until = sys::monotonic() + LONGEST_NS;
        while sys::monotonic() < until {
            sys::write_file(self.freezer, value)?;
            if v2 {
                return Ok(());
            }
            let mut state = [0u8; 16];
            let file = Fd::new(sys::openat(AT_FDCWD, self.freezer, O_RDONLY, 0)?);
            let length = sys::read(file.raw(), &mut state)?;
            if state[..length].starts_with(value) {
                return Ok(());
            }
            sys::sleep(1_000_000);
        }
        let _ = sys::write_file(self.freezer, b"THAWED");
        Err(EBUSY)
    }
}

/// Kills every process of the plan's groups. Without a PID namespace of the container's own, the end of its first
/// process does not end them.
pub fn kill_groups(plan: Plan) {
    for (_, CgroupDir { join, path }) in plan.each() {
        if join {
            kill_all(path.cstr());
        }
    }
}

/// Removes a group; answers whether it is gone. A process leaves its group a moment after it was reaped.
fn remove_group(path: &[u8]) -> bool {
    let mut gone = false;
    for _ in 0..50 {
        let removed = sys::unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
        gone = matches!(removed, Ok(()) | Err(ENOENT));
        if removed != Err(EBUSY) {
            break;
        }
        kill_all(path);
        sys::sleep(2_000_000);
    }
    gone
}

fn kill_all(path: &[u8]) {
    let Ok(dir) = sys::openat(AT_FDCWD, path, O_PATH | O_DIRECTORY, 0).map(Fd::new) else { return };
    let Ok(file) = sys::openat(dir.raw(), b"cgroup.procs\0", O_RDONLY, 0).map(Fd::new) else { return };
    let mut buffer = [0u8; 4096];
    let mut pid = 0usize;
    while let Ok(length @ 1..) = sys::read(file.raw(), &mut buffer) {
        for &byte in &buffer[..length] {
            if byte.is_ascii_digit() {
                pid = pid * 10 + usize::from(byte - b'0');
            } else if pid > 0 {
                // SAFETY: no pointers.
                let _ = unsafe { sys::call(nr::KILL, &[pid, SIGKILL as usize]) };
                pid = 0;
            }
        }
    }
}

/// mkdir -p of an absolute path: every part that is missing.
fn make_dirs(path: &[u8]) -> Result<()> {
    match sys::mkdirat(AT_FDCWD, path, 0o755) {
        Ok(()) | Err(EEXIST) => return Ok(()),
        Err(ENOENT) => {}
        Err(error) => return Err(error),
    }
    let mut buffer = [0u8; 4096];
    let parent = path.iter().rposition(|&b| b == b'/').filter(|&at| at > 0 && at < buffer.len()).ok_or(ENOENT)?;
    buffer[..parent].copy_from_slice(&path[..parent]);
    make_dirs(&buffer[..=parent])?;
    match sys::mkdirat(AT_FDCWD, path, 0o755) {
        Err(EEXIST) => Ok(()),
        other => other,
    }
}

/// A control file that stays open while one value after the other goes into it.
struct ControlFile {
    path: &'static [u8],
    fd: Fd,
}

impl ControlFile {
    fn write(&mut self, path: &'static [u8], value: &[u8]) -> Result<()> {
        if self.path != path {
            (self.path, self.fd) = (b"", Fd::NONE);
            self.fd = Fd::new(sys::openat(AT_FDCWD, path, O_WRONLY, 0)?);
            self.path = path;
        }
        // A control file takes a value in one write, at any position.
        match sys::write(self.fd.raw(), value)? {
            length if length == value.len() => Ok(()),
            _ => Err(EIO),
        }
    }
}

/// Loads a device program and attaches it to a v2 group.
fn attach_devices(path: &[u8], program: &[u8]) -> Result<()> {
    const BPF_PROG_LOAD: usize = 5;
    const BPF_PROG_ATTACH: usize = 8;
    const BPF_PROG_TYPE_CGROUP_DEVICE: u32 = 15;
    const BPF_CGROUP_DEVICE: u32 = 6;
    const INSTRUCTION_LEN: usize = 8;
    const ATTR_LEN: usize = 72;
    let mut load = [0u64; ATTR_LEN / 8];
    load[0] = u64::from(BPF_PROG_TYPE_CGROUP_DEVICE) | ((program.len() / INSTRUCTION_LEN) as u64) << 32;
    load[1] = program.as_ptr() as u64;
    load[2] = c"Apache-2.0".as_ptr() as u64;
    // SAFETY: attributes, program and licence live over the call.
    let fd = unsafe { sys::call(nr::BPF, &[BPF_PROG_LOAD, load.as_ptr() as usize, ATTR_LEN]) }? as u32;
    let group = sys::openat(AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0)?;
    let attach = [group as u32, fd, BPF_CGROUP_DEVICE, 0];
    // SAFETY: the attributes live over the call.
    let attached = unsafe { sys::call(nr::BPF, &[BPF_PROG_ATTACH, attach.as_ptr() as usize, size_of_val(&attach)]) };
    sys::close(group);
    sys::close(fd as i32);
    attached.map(|_| ())
}
