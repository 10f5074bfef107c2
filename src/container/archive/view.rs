//! A container's file system, assembled for one call.
//!
//! For a running container the view is a copy of its root mount, for a stopped one the overlay that it would have.
//! Binds and volumes are mounted in it, and the three files of `/etc` that the engine writes. All this happens in a
//! mount namespace that only this call has, so nothing of it is visible on the host or remains. The mounts live as long
//! as [`View`].

use super::super::Snapshot;
use super::super::network::{Mode, mode};
use super::super::spec::{Mount, MountKind};
use super::super::volumes::READ_ATTRIBUTES;
use super::Files;
use crate::error::{Error, ErrorKind, Result};
use crate::kernel::file::read_text;
use crate::kernel::mount::{self, Below};
use crate::kernel::path::{IN_ROOT, openat2};
use crate::kernel::{process, tree};
use crate::launch::monitor::Control;
use crate::op::Op;
use crate::store::slot_locks::Busy;
use crate::store::states::Status;
use crate::volume::{Source, pairs};
use coracle_monitor::call::Call;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The purpose of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// To read, including binds and volumes.
    Read,
    /// To write where the container could.
    Write,
    /// To read the container's own files, without binds and volumes.
    ReadOwn,
}

/// The file system.
pub(super) struct View {
    pub root: OwnedFd,
    /// The host's ids of root in the user namespace by which the view maps owners; absent: owners are as stored.
    pub owner: Option<(u32, u32)>,
    /// Keeps the mounts alive.
    _namespace: Option<OwnedFd>,
    /// Keeps a container that waits for its restart waiting.
    _held: Option<Control>,
    /// A stopped container is not started while its overlay is in use here.
    _busy: Option<Busy>,
}

/// A mount to make in a view.
struct Part {
    source: Source,
    target: String,
    /// The path below the source that is mounted in its place; empty: the source itself.
    below: Below,
    read_only: bool,
    /// The owners of the files are ids of the container (a volume), not of the host (a bind).
    own_ids: bool,
    /// A copy of the mount that other containers already have of the volume.
    shared: Option<OwnedFd>,
    /// One of the engine's own files: neither the view nor the host gets a new file for it.
    is_file: bool,
}

/// How often, and after which pause, a container that is being restarted is looked at again.
const TURNS: u32 = 1000;
const TURN: Duration = Duration::from_millis(5);

const SAFE: u64 = libc::MOUNT_ATTR_NODEV | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NOEXEC;

impl Files {
    /// Finds a container and makes its file system reachable.
    pub(super) fn view(&self, reference: &str, access: Access, op: Option<&Op>) -> Result<(Snapshot, View)> {
        for _ in 0..TURNS {
            match self.view_as_it_is(reference, access, op) {
                Err(error) if error.is(libc::ESRCH) => op.map_or(Ok(()), Op::check)?,
                other => return other,
            }
            std::thread::sleep(TURN);
        }
        let again = "the container is being started again each time that it is looked at";
        self.view_as_it_is(reference, access, op).map_err(|error| match error.raw_os_error() {
            Some(libc::ESRCH) => error.context(again),
            _ => error,
        })
    }

    /// Errors: ESRCH if the container is being restarted at this moment.
    fn view_as_it_is(&self, reference: &str, access: Access, op: Option<&Op>) -> Result<(Snapshot, View)> {
        let found = self.finder.find(reference)?;
        if is_running(&found) {
            match self.running_view(&found, access) {
                Err(error) if error.kind() == ErrorKind::Conflict => {}
                other => return other.map(|view| (found, view)),
            }
        }
        let parts = self.parts(&found, access)?;
        if access != Access::Write && parts.iter().all(|part| part.is_file) {
            let root = self.overlay(&found, Access::Read)?;
            let view = self.assemble(&found, root, parts, access, None)?;
            return Ok((found, view));
        }
        let (busy, found) = self.finder.lock(reference, op)?;
        if is_running(&found) {
            drop(busy);
            return match self.running_view(&found, access) {
                // The container was started again meanwhile, and has ended again.
                Err(error) if error.kind() == ErrorKind::Conflict => {
                    Err(Error::os("look at the container", libc::ESRCH))
                }
                other => other.map(|view| (found, view)),
            };
        }
        let held = self.lock_root(&found)?;
        // As at a start, missing mount points of binds and volumes are made.
        let root = self.overlay(&found, Access::Write)?;
        let mut view = self.assemble(&found, root, parts, access, None)?;
        view._busy = Some(busy);
        view._held = held;
        Ok((found, view))
    }

    fn running_view(&self, found: &Snapshot, access: Access) -> Result<View> {
        let users = self.confinement.users(&found.spec);
        // With a user namespace the root mount shows the owners as that namespace maps them. For reading the layers are
        // mounted anew.
        let mapped = if access == Access::Write { users } else { None };
        let root = match (users, mapped) {
            (Some(_), None) => self.overlay(found, Access::Read)?,
            (None, _) => root_of(found)?,
            (Some(_), Some(_)) => match root_of(found) {
                // The mounts of the container are locked together, so the root mount alone cannot be copied.
                Err(error) if error.is(libc::EINVAL) => tree_of(found)?,
                other => other?,
            },
        };
        let parts = self.parts(found, access)?;
        let namespace = mapped.map(|_| namespace_of(found, "user")).transpose()?;
        let view = self.assemble(found, root, parts, access, namespace.as_ref())?;
        Ok(View { owner: mapped.map(|users| (users.uid, users.gid)), ..view })
    }

    /// The overlay of a container that does not run.
    fn overlay(&self, found: &Snapshot, access: Access) -> Result<OwnedFd> {
        let dir = self.places.dir(&found.row.id);
        let (upper, work) = (dir.join("upper"), dir.join("work"));
        // Includes the mount points that the image lacks, as at a start.
        let layers = self.places.lower(&found.row.image_id)?;
        let mut lower: Vec<&Path> = layers.iter().map(PathBuf::as_path).collect();
        let mounted = match access {
            Access::Write => mount::overlay(&lower, Some((&upper, &work)), SAFE),
            _ => {
                lower.insert(0, &upper);
                mount::overlay(&lower, None, READ_ATTRIBUTES)
            }
        };
        // A removal may have removed the directory meanwhile.
        mounted.or_else(|error| self.register.if_there(found, Err(error)))
    }

    /// The root of a container that never ran, without mounts and without files of its own, and its writable layer. No
    /// other program works on the container meanwhile.
    pub(super) fn empty_root(&self, reference: &str, op: Option<&Op>) -> Result<(Busy, OwnedFd, OwnedFd)> {
        let (busy, found) = self.finder.lock(reference, op)?;
        // The creation of the container may have made its working directory.
        let upper = tree::open_dir(&self.places.dir(&found.row.id).join("upper"))?;
        for name in tree::names(upper.as_fd())? {
            crate::kernel::remove::remove_tree(upper.as_fd(), name)?;
        }
        Ok((busy, self.overlay(&found, Access::Write)?, upper))
    }

    /// Waits until no other process has the root file system mounted, because two overlays of the same directories
    /// damage each other. Returns the connection that keeps a container waiting for its restart. Errors: ESRCH if it
    /// does not wait any more.
    fn lock_root(&self, found: &Snapshot) -> Result<Option<Control>> {
        if found.now.is_live() {
            let control = self.monitors.control(found)?;
            match control.ask(Call::HoldOff, None) {
                Ok(_) => return Ok(Some(control)),
                // An older monitor.
                Err(error) if error.is(libc::ENOSYS) => {
                    return Err(Error::conflict(format!(
                        "Container {} is restarting, wait until the container is running",
                        found.row.id
                    )));
                }
                Err(error) if error.kind() == ErrorKind::Unavailable => {}
                Err(error) => return Err(error),
            }
        }
        drop(self.monitors.lock_alive(found)?);
        self.monitors.let_go_of_root(found)?;
        Ok(None)
    }

    fn parts(&self, found: &Snapshot, access: Access) -> Result<Vec<Part>> {
        let mut parts = Vec::new();
        if access == Access::ReadOwn {
            return Ok(parts);
        }
        for mount in &found.spec.mounts {
            let source = match mount.kind {
                MountKind::Tmpfs => continue,
                MountKind::Bind => {
                    let (path, below) = (mount.source.clone().into(), String::new());
                    Source::Directory { path, below, recursive: true, attributes: 0, own: false }
                }
                MountKind::Volume => self.volumes.mounter.source(&mount.name)?,
                MountKind::Image => {
                    parts.push(image_part(mount, self.mounts.image_to_read(mount)?));
                    continue;
                }
            };
            let own_ids = source.has_own_ids();
            let shared = match source.is_shared() {
                true => {
                    let volume = self.mounts.mounted_volume(&mount.name)?;
                    volume.map(|volume| mount::root_of(volume.as_fd(), &mount.part)).transpose()?
                }
                false => None,
            };
            let (target, read_only) = (mount.target.clone(), mount.read_only);
            let below = match &source {
                Source::Directory { below, .. } => Below::of(below, &mount.part),
                Source::FileSystem { .. } => Below::of("", &mount.part),
            };
            parts.push(Part { source, target, below, read_only, own_ids, shared, is_file: false });
        }
        let dir = self.dir_of_files(found)?;
        for name in ["resolv.conf", "hostname", "hosts"] {
            let target = format!("/etc/{name}");
            if parts.iter().all(|part| part.target != target) {
                let (path, recursive) = (dir.join(name), false);
                let source = Source::Directory { path, below: String::new(), recursive, attributes: 0, own: true };
                let below = Below::default();
                parts.push(Part {
                    source,
                    target,
                    below,
                    read_only: false,
                    own_ids: true,
                    shared: None,
                    is_file: true,
                });
            }
        }
        Ok(parts)
    }

    /// The directory of hosts, hostname and resolv.conf: another container's, if the network is that container's.
    fn dir_of_files(&self, found: &Snapshot) -> Result<PathBuf> {
        match mode(&found.spec) {
            Mode::Container(other) => match self.finder.find(other) {
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(self.places.dir(&found.row.id)),
                other => Ok(self.places.dir(&other?.row.id)),
            },
            _ => Ok(self.places.dir(&found.row.id)),
        }
    }

    /// Mounts the parts in a root, in a mount namespace of this call.
    fn assemble(
        &self,
        found: &Snapshot,
        root: OwnedFd,
        parts: Vec<Part>,
        access: Access,
        users: Option<&OwnedFd>,
    ) -> Result<View> {
        let owner = None;
        if parts.is_empty() {
            let root = mount::private(root, attributes(found, access))?;
            return Ok(View { root, owner, _namespace: None, _held: None, _busy: None });
        }
        // Any directory that surely exists will do: no other process sees the mounts on it.
        let place = self.places.claim.run.join("c");
        let work = || -> Result<View> {
            let namespace = mount::unshare()?;
            let at = super::super::dirs::open(&place)?;
            mount::attach_private(root.as_fd(), at.as_fd(), SAFE, false)?;
            for part in &parts {
                let Some(mounted) = part.mount(access)? else { continue };
                if let Some(users) = users.filter(|_| part.own_ids) {
                    mount::map_owners(mounted.as_fd(), users.as_fd())?;
                }
                if let Some(at) = place_for(&root, part, &mounted)? {
                    let (attributes, recursive) = (part.attributes(access), part.is_recursive());
                    match mount::attach_private(mounted.as_fd(), at.as_fd(), attributes, recursive) {
                        // A removal has removed the file meanwhile: treated as a file that does not exist.
                        Err(error) if part.is_file && error.is(libc::ENOENT) => {}
                        other => other?,
                    }
                }
            }
            mount::change_attached(root.as_fd(), attributes(found, access), false)?;
            Ok(View { root, owner, _namespace: Some(namespace), _held: None, _busy: None })
        };
        mount::in_thread(work)
    }
}

/// The part that shows the files of an image.
fn image_part(mount: &Mount, files: OwnedFd) -> Part {
    let (path, below) = (PathBuf::new(), String::new());
    let source = Source::Directory { path, below, recursive: false, attributes: 0, own: false };
    let (target, below, shared) = (mount.target.clone(), Below::default(), Some(files));
    Part { source, target, below, read_only: true, own_ids: false, shared, is_file: false }
}

impl Part {
    /// The attributes that the mount gets with its place.
    fn attributes(&self, access: Access) -> u64 {
        let read_only = self.read_only || access != Access::Write;
        let own = match &self.source {
            Source::Directory { attributes, .. } | Source::FileSystem { attributes, .. } => *attributes,
        };
        SAFE | own | if read_only { libc::MOUNT_ATTR_RDONLY } else { 0 }
    }

    /// Whether the mounts below have these attributes, too.
    fn is_recursive(&self) -> bool {
        self.shared.is_none() && matches!(self.source, Source::Directory { .. })
    }

    /// The detached mount; `None`: there is nothing to mount.
    fn mount(&self, access: Access) -> Result<Option<OwnedFd>> {
        if let Some(shared) = &self.shared {
            return shared.try_clone().map(Some).map_err(|e| Error::io("duplicate a descriptor", &e));
        }
        match &self.source {
            Source::Directory { path, recursive, .. } if !self.below.path.is_empty() => {
                mount::copy_below(path, &self.below, *recursive).map(Some)
            }
            Source::Directory { path, recursive, .. } => match mount::copy_of(None, path, *recursive) {
                // A start will make the missing source of a bind, as an empty directory.
                Err(error) if error.is(libc::ENOENT) => Ok(None),
                other => other.map(Some),
            },
            Source::FileSystem { kind, device, options, .. } => {
                let whole = mount::file_system(kind, device, &pairs(options), self.attributes(access))?;
                match self.below.path.as_str() {
                    "" => Ok(Some(whole)),
                    below => mount::root_of(mount::alone(whole.as_fd())?.as_fd(), below).map(Some),
                }
            }
        }
    }
}

/// The place of a mount, made if it is missing. `None`: the existing file there cannot be a mount point.
fn place_for(root: &OwnedFd, part: &Part, mounted: &OwnedFd) -> Result<Option<OwnedFd>> {
    let is_dir = tree::stat_fd(mounted.as_fd())?.is_dir();
    match openat2(root.as_fd(), &part.target, libc::O_PATH, 0, IN_ROOT) {
        Ok(at) if tree::stat_fd(at.as_fd())?.is_dir() == is_dir => Ok(Some(at)),
        Ok(_) => Ok(None),
        Err(error) if error.is(libc::ENOENT) && part.is_file => Ok(None),
        Err(error) if error.is(libc::ENOENT) => super::walk::make_place(root, &part.target, is_dir).map(Some),
        Err(error) => Err(error),
    }
}

/// The final attributes of the root mount.
fn attributes(found: &Snapshot, access: Access) -> u64 {
    match access {
        Access::Write if !found.spec.host_config.readonly_rootfs => SAFE,
        _ => READ_ATTRIBUTES,
    }
}

fn is_running(found: &Snapshot) -> bool {
    found.now.is_live() && found.now.state.status() != Status::Starting && found.now.state.pid > 0
}

/// A namespace of a running container. Errors: it ended meanwhile ([`ErrorKind::Conflict`]).
fn namespace_of(found: &Snapshot, kind: &str) -> Result<OwnedFd> {
    let state = &found.now.state;
    let gone = || super::super::not_running(&found.row.id);
    let path = format!("/proc/{}/ns/{kind}", state.pid);
    let namespace = OwnedFd::from(File::open(path).map_err(|_| gone())?);
    // If the process still exists after its namespace was opened, the namespace is the container's.
    match process::start_time(state.pid) == Some(state.pid_start) {
        true => Ok(namespace),
        false => Err(gone()),
    }
}

/// A copy of a running container's root mount, detached. Errors: as [`namespace_of`].
fn root_of(found: &Snapshot) -> Result<OwnedFd> {
    mount::root_of(namespace_of(found, "mnt")?.as_fd(), "")
}

/// A copy of a running container's root mount with all mounts below it; only the root mount itself is writable. The
/// container's own mounts are copied, too. The kernel locks them together in the copy, so everything below can only be
/// read. A file system that a process of the container serves could block its readers.
fn tree_of(found: &Snapshot) -> Result<OwnedFd> {
    let root = mount::tree_of(namespace_of(found, "mnt")?.as_fd())?;
    let mounts = read_text(format!("/proc/{}/mountinfo", found.now.state.pid));
    if mounts.map_err(|_| super::super::not_running(&found.row.id))?.lines().any(is_served) {
        return Err(Error::unsupported(
            "archives into a running container in a user namespace that has CAP_SYS_ADMIN and mounted a FUSE file system",
        ));
    }
    mount::set_private(root.as_fd(), READ_ATTRIBUTES, true)?;
    if !found.spec.host_config.readonly_rootfs {
        mount::set_writable(root.as_fd())?;
    }
    Ok(root)
}

/// Whether a line of mountinfo describes a file system that a process serves: `36 35 98:0 / /mnt rw - fuse.sshfs ...`.
fn is_served(line: &str) -> bool {
    let kind = line.split_once(" - ").and_then(|(_, rest)| rest.split(' ').next()).unwrap_or_default();
    ["fuse", "fuseblk"].contains(&kind) || kind.starts_with("fuse.")
}

#[cfg(test)]
mod tests {
    use super::is_served;

    #[test]
    fn file_systems_that_processes_serve() {
        let line = |kind: &str| format!("36 35 98:0 / /a\\040-\\040b rw,noatime master:1 - {kind} /dev/root rw");
        assert!(is_served(&line("fuse")) && is_served(&line("fuse.sshfs")));
        assert!(!is_served(&line("ext4")) && !is_served(&line("fusectl")) && !is_served(""));
    }
}
