//! The mounts of a container: its root, file systems, binds, volumes, and what it shares with other containers.

use super::Launch;
use super::attributes::{Change, Way};
use super::tree::{FIXED, IN_ROOT, Tree, is_directory, is_procfs, make_dirs};
use crate::fault::{Outcome, Step, detailed, errno, os};
use crate::fd::Fd;
use crate::ops;
use crate::report::Report;
use crate::reports::hand_over;
use crate::sys::{self, *};
use crate::walls::Wall;
use crate::wire::*;

pub const DEVPTS_MAGIC: u64 = 0x1cd1;

/// How often a mount of an overlay is tried whose directories are busy, and the pause between.
const OVERLAY_TRIES: u32 = 1000;
const OVERLAY_PAUSE_NS: i64 = 2_000_000;

pub struct Mounts<'a> {
    launch: &'a Launch<'a>,
    way: Way,
    /// The container's procfs.
    pub proc: i32,
    pub devpts: i32,
    /// A procfs of the others' PID namespace, to be mounted.
    pub foreign_proc: i32,
    /// Bind mounts that stay the host's peers: where their source stands in the plan, and the mount.
    shared: [(usize, i32); 32],
    /// See [`ops::MountLabel`]: a C string; empty if there is none.
    pub label: &'a [u8],
}

impl<'a> Mounts<'a> {
    pub fn new(launch: &'a Launch<'a>) -> Mounts<'a> {
        let (proc, devpts, foreign_proc) = (-1, launch.devpts, -1);
        let way = Way::of(launch.plan);
        Mounts { launch, way, proc, devpts, foreign_proc, shared: [(0, -1); 32], label: b"\0" }
    }

    /// Says which mount events pass between this mount namespace and the host's. The tree as a whole sends no events to
    /// the host. The bind mounts that do are taken here, while they are still the host's peers.
    pub fn propagation(&mut self, kind: u32) -> Step {
        if kind & MS_SHARED == 0 {
            return os(sys::mount_propagation(b"/\0", kind));
        }
        let mut slots = self.shared.iter_mut();
        for (_, ops::Bind { flags, propagation, source, .. }) in self.launch.plan.each() {
            let source = source.cstr();
            if propagation & MS_SHARED == 0 {
                continue;
            }
            // A source that is missing is made, or is an error, when its turn comes.
            if let Ok(tree) = sys::open_tree(AT_FDCWD, source, clone_flags(flags)) {
                *slots.next().ok_or_else(|| errno(E2BIG))? = (source.as_ptr() as usize, tree);
            }
        }
        os(sys::mount_propagation(b"/\0", kind & !MS_SHARED | MS_SLAVE))
    }

    /// The bind mount of this source that was taken before.
    fn taken(&mut self, source: &[u8]) -> Option<i32> {
        let slot = self.shared.iter_mut().find(|(at, tree)| *at == source.as_ptr() as usize && *tree >= 0)?;
        Some(core::mem::replace(&mut slot.1, -1))
    }

    /// The container's procfs; in a child that changes the network of a running container, the host's, which shows each
    /// reader the parameters of the reader's network namespace.
    pub fn procfs(&mut self) -> Outcome<i32> {
        if self.proc < 0 {
            self.proc = os(sys::openat(AT_FDCWD, b"/proc\0", O_PATH | O_DIRECTORY, 0))?;
        }
        Ok(self.proc)
    }

    /// Makes the root. The overlay of the run before may still hold the directories, while a monitor that was killed
    /// lets it go.
    pub fn overlay(&self, op: ops::Overlay, tree: &mut Tree) -> Step {
        for _ in 0..OVERLAY_TRIES {
            match self.try_overlay(&op, tree) {
                Err(failure) if failure.errno() == EBUSY => sys::sleep(OVERLAY_PAUSE_NS),
                other => return other,
            }
        }
        self.try_overlay(&op, tree)
    }

    /// Mounts the overlay detached, and puts it on the run directory: it must be somewhere in our own namespace.
    fn try_overlay(&self, op: &ops::Overlay, tree: &mut Tree) -> Step {
        let mount = os(crate::overlay::mount(op, self.launch.made.user.raw(), self.label))?;
        // The working directory is the run directory as this mount namespace has it. A descriptor of the monitor's is
        // of another mount namespace.
        let here = os(sys::openat(AT_FDCWD, b".\0", O_PATH | O_DIRECTORY, 0))?;
        os(sys::move_mount(mount, here))?;
        sys::close(here);
        tree.root = mount;
        Ok(())
    }

    pub fn mount(&mut self, op: ops::Mount, tree: &mut Tree) -> Step {
        let (special, target) = (op.special, op.target.cstr());
        let mount = self.new_mount(op)?;
        if tree.is_here(target) {
            os(sys::mkdirat(tree.place, target, 0o755))?;
            os(sys::move_mount_at(mount, tree.place, target))?;
        } else {
            let resolve = if special & SPECIAL_FIXED != 0 { RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS } else { IN_ROOT };
            place(mount, tree.dirs(target, 0o755, resolve)?, target)?;
        }
        if special & SPECIAL_PLACE != 0 {
            tree.place = mount;
            return tree.return_to_place();
        }
        match special & !SPECIAL_FIXED {
            SPECIAL_PROC => self.proc = mount,
            SPECIAL_DEVPTS => self.take_devpts(mount),
            _ => sys::close(mount),
        }
        Ok(())
    }

    /// A detached mount of a new file system.
    fn new_mount(&mut self, op: ops::Mount) -> Outcome<i32> {
        let (kind, source) = (op.kind.cstr(), op.source.cstr());
        let others = op.special & !SPECIAL_FIXED == SPECIAL_PROC && self.foreign_proc >= 0;
        let fs = if others { core::mem::replace(&mut self.foreign_proc, -1) } else { os(sys::fsopen(kind))? };
        if source != b"\0" {
            os(sys::fsconfig(fs, b"source\0", source))?;
        }
        for (key, value) in op.options.iter() {
            os(sys::fsconfig(fs, key.cstr(), value.cstr()))?;
        }
        os(sys::fs_create(fs))?;
        let mount = os(sys::fsmount(fs, op.attributes))?;
        sys::close(fs);
        if others && !is_procfs(mount)? { Err(errno(EINVAL)) } else { Ok(mount) }
    }

    fn take_devpts(&mut self, mount: i32) {
        self.devpts = mount;
        let _ = hand_over(self.launch.report, Report::DevPts, Some(mount));
    }

    pub fn mount_here(&self, op: ops::MountHere, tree: &Tree) -> Step {
        let (kind, options, name) = (op.kind.cstr(), op.options.cstr(), op.name.cstr());
        if !tree.is_here(name) {
            return Err(errno(EINVAL));
        }
        os(sys::mkdirat(tree.place, name, 0o755))?;
        // File systems in memory are distinguished by their source: /dev/shm is "shm".
        let source = if kind == b"tmpfs\0" { name } else { kind };
        os(sys::mount(source, name, kind, op.flags, options))?;
        if kind == b"mqueue\0" && self.label.len() > 1 {
            // The kernel makes the file system of queues with its IPC namespace, so it takes no label when it is
            // mounted. In the user namespace of a container some kernels let nobody label it; then the container cannot
            // use it.
            let _ = sys::lsetxattr(name, c"security.selinux", self.label);
        }
        Ok(())
    }

    pub fn bind_part(&mut self, op: ops::BindPart, tree: &Tree) -> Step {
        let ops::BindPart { flags, propagation, set, clear, source, part, target } = op;
        self.bind(ops::Bind { flags, propagation, set, clear, source, target }, Some(part.cstr()), tree)
    }

    /// `part`: the path below the source that is bound in its place.
    pub fn bind(&mut self, op: ops::Bind, part: Option<&[u8]>, tree: &Tree) -> Step {
        let ops::Bind { flags, propagation, set, clear, .. } = op;
        let target = op.target.cstr();
        let mount = self.bind_source(flags, op.source.cstr(), part)?;
        if flags & BIND_IDMAP != 0 {
            os(sys::mount_idmap(mount, flags & BIND_RECURSIVE != 0, self.launch.made.user.raw()))?;
        }
        let changes = [
            if Wall::ReadOnlyDetached.stands() { Change { set, clear, ..Change::NONE } } else { Change::NONE },
            if flags & BIND_READ_ONLY_BELOW != 0 { Change::READ_ONLY_BELOW } else { Change::NONE },
            Change { propagation, below: flags & BIND_PROPAGATE_BELOW != 0, ..Change::NONE },
        ];
        self.way.attach(mount, &changes, || place(mount, spot_for(mount, tree, target)?, target))?;
        #[cfg(feature = "attacks")]
        if !Wall::ReadOnlyDetached.stands() && set != 0 {
            // As a string, from a directory that the container fills.
            let by_path = sys::openat(tree.root, crate::paths::relative(target), O_PATH, 0);
            let _ = by_path.and_then(|at| sys::mount_setattr(at, false, set, clear, 0));
        }
        sys::close(mount);
        Ok(())
    }

    /// A detached mount of a path of the host, or of `part` below the path.
    fn bind_source(&mut self, flags: u32, source: &[u8], part: Option<&[u8]>) -> Outcome<i32> {
        let how = clone_flags(flags);
        let opened = match (part, self.taken(source)) {
            (Some(part), _) => part_of(source, part, how, flags & BIND_NO_LINKS != 0),
            // A peer of it that stands in the mount table where it was asked for; before Linux 6.15, where it was
            // taken.
            (None, Some(taken)) => Ok(sys::open_tree(taken, b"\0", AT_EMPTY_PATH | how).unwrap_or(taken)),
            (None, None) => sys::open_tree(AT_FDCWD, source, how),
        };
        if opened != Err(ENOENT) || flags & BIND_MAKE_SOURCE == 0 {
            return os(opened);
        }
        let host = os(sys::openat(AT_FDCWD, b"/\0", O_PATH | O_DIRECTORY, 0))?;
        sys::close(make_dirs(host, source, 0o755, IN_ROOT)?);
        sys::close(host);
        os(sys::open_tree(AT_FDCWD, source, how))
    }

    /// `/dev/shm` of another container: cloned in its mount namespace, put into this one.
    pub fn shared_shm(&self, index: u32, tree: &Tree) -> Step {
        let mount = clone_from(self.launch.namespaces, index, tree, || sys::open_tree(AT_FDCWD, b"/dev/shm\0", 1))?;
        let at = tree.dirs(b"/dev/shm\0", 0o1777, FIXED)?;
        os(sys::move_mount(mount, at))?;
        sys::close(at);
        sys::close(mount);
        Ok(())
    }

    pub fn volume_part(&self, op: ops::VolumePart, tree: &Tree) -> Step {
        let ops::VolumePart { index, flags, set, clear, target, part, name } = op;
        self.volume(ops::Volume { index, flags, set, clear, target, name }, Some(part.cstr()), tree)
    }

    /// The root of a volume's own mount namespace, or the path `part` below it: every container that uses the volume
    /// mounts the same.
    pub fn volume(&self, op: ops::Volume, part: Option<&[u8]>, tree: &Tree) -> Step {
        let ops::Volume { index, flags, set, clear, .. } = op;
        let target = op.target.cstr();
        let mount = clone_from(self.launch.volumes, index, tree, || match part {
            None => sys::open_tree(AT_FDCWD, b"/\0", 1),
            Some(part) => part_of(b"/\0", part, 1, false),
        })?;
        if flags & BIND_IDMAP != 0 {
            os(sys::mount_idmap(mount, false, self.launch.made.user.raw()))?;
        }
        let change = Change { set, clear, ..Change::NONE };
        self.way.attach(mount, &[change], || place(mount, spot_for(mount, tree, target)?, target))?;
        sys::close(mount);
        Ok(())
    }

    /// Makes a path and the mounts below it read-only.
    pub fn read_only(&self, path: &[u8], tree: &Tree) -> Step {
        let Some(at) = tree.find(path)? else { return Ok(()) };
        let copy = os(sys::open_tree(at, b"\0", AT_EMPTY_PATH | AT_RECURSIVE | 1))?;
        let change = match self.way == Way::Remount && path.starts_with(b"/proc/") && !self.fills_procfs() {
            true => Change::READ_ONLY,
            false => Change::READ_ONLY_BELOW,
        };
        self.way.attach(copy, &[change], || os(sys::move_mount(copy, at)))?;
        sys::close(copy);
        sys::close(at);
        Ok(())
    }

    /// Whether the plan mounts more in `/proc` than the container's procfs. Otherwise nothing is mounted below a path of it, and the
    /// table of mounts, which takes a while to read, need not be looked at.
    fn fills_procfs(&self) -> bool {
        let plan = self.launch.plan;
        let inside = |target: ops::Text| target.bytes().starts_with(b"/proc");
        let is_other = |op: ops::Mount| op.special & !SPECIAL_FIXED != SPECIAL_PROC && inside(op.target);
        plan.each().any(|(_, op): (_, ops::Bind)| inside(op.target))
            || plan.each().any(|(_, op): (_, ops::BindPart)| inside(op.target))
            || plan.each().any(|(_, op): (_, ops::Volume)| inside(op.target))
            || plan.each().any(|(_, op): (_, ops::VolumePart)| inside(op.target))
            || plan.each().any(|(_, op)| is_other(op))
    }

    /// Terminals come from a `pts` that was bound, because the container's processes find them there.
    pub fn foreign_pts(&mut self, tree: &Tree) {
        // Without such a `pts` there are no terminals.
        let Ok(pts) = sys::openat2(tree.root, b"dev/pts\0", O_PATH | O_DIRECTORY, 0, FIXED) else { return };
        if sys::fs_magic(pts) == Ok(DEVPTS_MAGIC) { self.take_devpts(pts) } else { sys::close(pts) }
    }
}

/// The flags of open_tree(2) for a bind mount with these flags.
fn clone_flags(flags: u32) -> u32 {
    1 | if flags & BIND_RECURSIVE != 0 { AT_RECURSIVE } else { 0 }
}

/// Mounts a detached mount at a target that is open at `at`, and closes `at`.
fn place(mount: i32, at: i32, target: &[u8]) -> Step {
    // The names decided which targets may lie in procfs: a link of the image leads to no others.
    if !target.starts_with(b"/proc/") && Wall::ProcfsTargets.stands() && is_procfs(at)? {
        return Err(detailed(EPERM, DETAIL_IN_PROCFS));
    }
    os(sys::move_mount(mount, at))?;
    sys::close(at);
    Ok(())
}

/// The place of a mount in the root, open: a directory or a file, as the mount is one.
fn spot_for(mount: i32, tree: &Tree, target: &[u8]) -> Outcome<i32> {
    if is_directory(mount)? { tree.dirs(target, 0o755, IN_ROOT) } else { tree.file(target) }
}

/// A copy of the mount of a path below a directory that others may write in: wherever links and renames lead, the path
/// is below the directory at the moment at which the copy is made, or the step fails. `no_links`: no component is a link.
fn part_of(dir: &[u8], part: &[u8], how: u32, no_links: bool) -> Result<i32> {
    let links = if no_links { RESOLVE_NO_SYMLINKS } else { RESOLVE_NO_MAGICLINKS };
    let resolve = if Wall::VolumeParts.stands() { RESOLVE_BENEATH | links } else { 0 };
    let whole = sys::openat(AT_FDCWD, dir, O_PATH | O_DIRECTORY, 0)?;
    let inside = sys::openat2(whole, part, O_PATH, 0, resolve);
    sys::close(whole);
    let inside = inside?;
    let tree = sys::open_tree(inside, b"\0", AT_EMPTY_PATH | how);
    sys::close(inside);
    tree
}

/// A copy of a mount of another mount namespace, for this one: `take` runs there.
fn clone_from(namespaces: &[Fd], index: u32, tree: &Tree, take: impl FnOnce() -> Result<i32>) -> Outcome<i32> {
    let other = namespaces.get(index as usize).map_or(-1, Fd::raw);
    let own = os(sys::openat(AT_FDCWD, b"/proc/self/ns/mnt\0", O_RDONLY, 0))?;
    os(sys::setns(other, CLONE_NEWNS))?;
    let copy = take();
    os(sys::setns(own, CLONE_NEWNS))?;
    sys::close(own);
    let copy = os(copy)?;
    // Entering a mount namespace changed the working directory.
    tree.return_to_place()?;
    Ok(copy)
}
