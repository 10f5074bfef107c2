//! Mounts that no other process sees: made detached, and assembled in a private mount namespace.

use super::fd::{cstr, errno};
use super::path::openat2;
use super::probe::{release, sets_attributes};
use crate::error::{Error, ErrorKind, Result};
use crate::walls::Wall;
use coracle_monitor::remount::{self, Table};
use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A new overlay of directories, detached; `upper` is the writable directory and its work directory. Without `upper`
/// the overlay is read-only and needs at least two `lower` (topmost first).
pub(crate) fn overlay(lower: &[&Path], upper: Option<(&Path, &Path)>, attributes: u64) -> Result<OwnedFd> {
    overlay_with(lower, upper, &[], attributes)
}

/// A read-only overlay whose files all have one SELinux label; without a label, their own.
pub(crate) fn overlay_labelled(lower: &[&Path], label: Option<&str>, attributes: u64) -> Result<OwnedFd> {
    let options: Vec<(&str, &str)> = label.map(|label| ("context", label)).into_iter().collect();
    overlay_with(lower, None, &options, attributes)
}

/// A writable overlay that never flushes: for a directory that its maker flushes before anybody relies on it. Renamed
/// directories are copied, so that the directory is complete by itself.
pub(crate) fn overlay_unflushed(lower: &[&Path], upper: &Path, work: &Path, attributes: u64) -> Result<OwnedFd> {
    let options = [("volatile", ""), ("redirect_dir", "off"), ("metacopy", "off")];
    overlay_with(lower, Some((upper, work)), &options, attributes)
}

/// `options`: (key, value), or (key, "") for a word.
fn overlay_with(
    lower: &[&Path],
    upper: Option<(&Path, &Path)>,
    options: &[(&str, &str)],
    attributes: u64,
) -> Result<OwnedFd> {
    let one_string =
        || overlay_by_one_string(lower, upper, options, attributes).map_err(|error| error.context("mount an overlay"));
    if release() < (6, 5) {
        // Older kernels accept the steps and fail only at the end, with a message in the kernel's log.
        return one_string();
    }
    let context = open_context("overlay")?;
    match overlay_by_steps(context.as_fd(), lower, upper, options, attributes) {
        Err(error) if error.is(libc::EINVAL) => {
            let error = with_messages(&context, error.context("mount an overlay"));
            one_string().map_err(|_| error)
        }
        other => other.map_err(|error| with_messages(&context, error.context("mount an overlay"))),
    }
}

/// One directory a step, as Linux 6.7 and newer accept them: paths of any form.
fn overlay_by_steps(
    context: BorrowedFd<'_>,
    lower: &[&Path],
    upper: Option<(&Path, &Path)>,
    options: &[(&str, &str)],
    attributes: u64,
) -> Result<OwnedFd> {
    for dir in lower {
        set(context, "lowerdir+", dir.as_os_str().as_bytes())?;
    }
    if let Some((upper, work)) = upper {
        set(context, "upperdir", upper.as_os_str().as_bytes())?;
        set(context, "workdir", work.as_os_str().as_bytes())?;
    }
    for (key, value) in options {
        set(context, key, value.as_bytes())?;
    }
    make(context, attributes)
}

/// Older kernels take one string of at most a page for all, with colons and commas in it: directories are named by
/// their descriptors, which are short and have neither. These kernels also need a mount point: a thread of its own
/// provides one in a private mount namespace.
fn overlay_by_one_string(
    lower: &[&Path],
    upper: Option<(&Path, &Path)>,
    more: &[(&str, &str)],
    attributes: u64,
) -> Result<OwnedFd> {
    let mount = || {
        unshare()?;
        // The kernel requires directories of this namespace's mounts.
        let lower = lower.iter().map(|dir| open_path(dir)).collect::<Result<Vec<_>>>()?;
        let upper = upper.map(|(upper, work)| Result::Ok((open_path(upper)?, open_path(work)?))).transpose()?;
        let name = |fd: &OwnedFd| format!("/proc/thread-self/fd/{}", fd.as_raw_fd());
        let mut options = format!("lowerdir={}", lower.iter().map(name).collect::<Vec<_>>().join(":"));
        if let Some((upper, work)) = &upper {
            options.push_str(&format!(",upperdir={},workdir={}", name(upper), name(work)));
        }
        for (key, value) in more {
            options.push_str(&if value.is_empty() { format!(",{key}") } else { format!(",{key}={value}") });
        }
        let options = cstr(&options)?;
        let (kind, place) = (c"overlay".as_ptr(), c"/proc");
        // SAFETY: the names and the options live over the call.
        if unsafe { libc::mount(kind, place.as_ptr(), kind, 0, options.as_ptr().cast()) } < 0 {
            return Err(Error::os("mount", errno()));
        }
        // The mount is new and attached: its flags are those of the overlay alone.
        change_flags(place, &open_path(Path::new("/proc"))?, attributes)?;
        copy_of(None, Path::new("/proc"), false)
    };
    in_thread(mount)
}

fn open_path(dir: &Path) -> Result<OwnedFd> {
    let name = cstr(dir.as_os_str().as_bytes())?;
    // SAFETY: the name lives over the call.
    let fd = unsafe { libc::open(name.as_ptr(), libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC) };
    owned(fd.into(), format_args!("open {}", dir.display()))
}

/// A new file system of `kind`, detached: `options` are (key, value), or (key, "") for a word.
pub(crate) fn file_system(kind: &str, source: &str, options: &[(&str, &str)], attributes: u64) -> Result<OwnedFd> {
    let context = open_context(kind)?;
    let failed = |error: Error| with_messages(&context, error);
    if !source.is_empty() {
        set(context.as_fd(), "source", source.as_bytes()).map_err(failed)?;
    }
    for (key, value) in options {
        set(context.as_fd(), key, value.as_bytes()).map_err(failed)?;
    }
    make(context.as_fd(), attributes).map_err(failed)
}

fn open_context(kind: &str) -> Result<OwnedFd> {
    let name = cstr(kind)?;
    // SAFETY: the name lives over the call.
    let fd = unsafe {
        libc::syscall(libc::SYS_fsopen, name.as_ptr(), 1 /* FSOPEN_CLOEXEC */)
    };
    owned(fd, format_args!("use file system {kind:?}"))
}

fn set(context: BorrowedFd<'_>, key: &str, value: &[u8]) -> Result<()> {
    const FLAG: u32 = 0;
    const STRING: u32 = 1;
    let (name, text) = (cstr(key)?, cstr(value)?);
    let (command, pointer) = if value.is_empty() { (FLAG, std::ptr::null()) } else { (STRING, text.as_ptr()) };
    // SAFETY: name and text live over the call.
    let got = unsafe { libc::syscall(libc::SYS_fsconfig, context.as_raw_fd(), command, name.as_ptr(), pointer, 0) };
    if got < 0 {
        return Err(Error::os(format_args!("mount option {key}"), errno()));
    }
    Ok(())
}

fn make(context: BorrowedFd<'_>, attributes: u64) -> Result<OwnedFd> {
    const CREATE: u32 = 6;
    let null = std::ptr::null::<u8>();
    // SAFETY: this command takes no pointers.
    let got = unsafe { libc::syscall(libc::SYS_fsconfig, context.as_raw_fd(), CREATE, null, null, 0) };
    if got < 0 {
        return Err(Error::os("mount", errno()));
    }
    // SAFETY: no pointers.
    let fd = unsafe {
        libc::syscall(libc::SYS_fsmount, context.as_raw_fd(), 1 /* FSMOUNT_CLOEXEC */, attributes)
    };
    owned(fd, "mount")
}

/// The error, with the file system's own words about it.
fn with_messages(context: &OwnedFd, error: Error) -> Error {
    let mut text = [0u8; 1024];
    // SAFETY: the buffer lives over the call, and the length is its own.
    let got = unsafe { libc::read(context.as_raw_fd(), text.as_mut_ptr().cast(), text.len()) };
    let said = &text[..usize::try_from(got).unwrap_or(0)];
    match String::from_utf8_lossy(said).trim() {
        "" => error,
        // The first letter is the severity.
        words => Error::new(error.kind(), format!("{} ({})", error.message(), words.trim_start_matches("e "))),
    }
}

/// A detached copy of the mount at `path` below `dir` (`dir` itself if empty); with `recursive` also of the mounts
/// below it. The path is trusted.
pub(crate) fn copy_of(dir: Option<BorrowedFd<'_>>, path: &Path, recursive: bool) -> Result<OwnedFd> {
    let name = cstr(path.as_os_str().as_bytes())?;
    let mut flags = libc::OPEN_TREE_CLONE | libc::OPEN_TREE_CLOEXEC;
    if recursive {
        flags |= libc::AT_RECURSIVE as u32;
    }
    if path.as_os_str().is_empty() {
        flags |= libc::AT_EMPTY_PATH as u32;
    }
    let dir = dir.map_or(libc::AT_FDCWD, |dir| dir.as_raw_fd());
    // SAFETY: the name lives over the call.
    let fd = unsafe { libc::syscall(libc::SYS_open_tree, dir, name.as_ptr(), flags) };
    owned(fd, format_args!("mount {}", path.display()))
}

/// A relative path below a directory in which others may write.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Below {
    /// Empty: the directory itself.
    pub path: String,
    /// No component is a link. Otherwise links may lead on, but not out of the directory.
    pub no_links: bool,
}

impl Below {
    /// The path `inner` below the path `outer`. Of two paths neither goes through links: a link in the outer directory that stays in
    /// the whole could lead out of the outer directory.
    pub(crate) fn of(outer: &str, inner: &str) -> Below {
        match (outer, inner) {
            (path, "") | ("", path) => Below { path: path.to_owned(), no_links: false },
            (outer, inner) => Below { path: format!("{outer}/{inner}"), no_links: true },
        }
    }

    /// Opens the path below a directory, whose own path is trusted. Errors: links lead out of the directory.
    pub(crate) fn open(&self, dir: &Path, flags: i32) -> Result<OwnedFd> {
        let resolve = match self.no_links {
            _ if !Wall::VolumeParts.stands() => 0,
            true => libc::RESOLVE_BENEATH | libc::RESOLVE_NO_SYMLINKS,
            false => libc::RESOLVE_BENEATH | libc::RESOLVE_NO_MAGICLINKS,
        };
        openat2(open_path(dir)?.as_fd(), &self.path, flags, 0, resolve)
    }
}

/// A detached copy of the mount of a path below a directory: links that lead out of the directory are refused.
pub(crate) fn copy_below(dir: &Path, below: &Below, recursive: bool) -> Result<OwnedFd> {
    let inside = below.open(dir, libc::O_PATH)?;
    copy_of(Some(inside.as_fd()), Path::new(""), recursive)
}

/// The detached mount with `MOUNT_ATTR_*` in addition to its own, and private. Without mount_setattr(2) it is another mount of the same
/// directory, because that kernel changes attached mounts alone.
pub(crate) fn private(mount: OwnedFd, attributes: u64) -> Result<OwnedFd> {
    if sets_attributes() {
        set_private(mount.as_fd(), attributes, false)?;
        return Ok(mount);
    }
    in_thread(|| {
        unshare()?;
        let place = Path::new("/proc");
        attach(mount.as_fd(), open_path(place)?.as_fd())?;
        change_flags(c"/proc", &mount, attributes)?;
        propagate(c"/proc", libc::MS_PRIVATE)?;
        copy_of(None, place, false)
    })
}

/// Attaches a detached mount with `MOUNT_ATTR_*` in addition to its own, and private; with `recursive` the mounts below it, too. For
/// threads in a mount namespace of their own, because without mount_setattr(2) the attributes are set afterwards.
pub(crate) fn attach_private(
    mount: BorrowedFd<'_>,
    at: BorrowedFd<'_>,
    attributes: u64,
    recursive: bool,
) -> Result<()> {
    if sets_attributes() {
        set_private(mount, attributes, recursive)?;
        return attach(mount, at);
    }
    attach(mount, at)?;
    change_attached(mount, attributes, recursive)
}

/// Sets `MOUNT_ATTR_*` on a mount that is attached in the calling thread's mount namespace, and makes it private; with `recursive` the
/// mounts below it, too.
pub(crate) fn change_attached(mount: BorrowedFd<'_>, attributes: u64, recursive: bool) -> Result<()> {
    if sets_attributes() {
        return set_private(mount, attributes, recursive);
    }
    let path = by_descriptor(mount)?;
    change_flags(&path, &mount, attributes)?;
    if recursive {
        for below in mounts_below(mount)? {
            change_flags(&by_descriptor(below.as_fd())?, &below, attributes)?;
        }
    }
    propagate(&path, libc::MS_PRIVATE | if recursive { libc::MS_REC } else { 0 })
}

fn by_descriptor(fd: BorrowedFd<'_>) -> Result<std::ffi::CString> {
    cstr(format!("/proc/thread-self/fd/{}", fd.as_raw_fd()))
}

/// Sets `MOUNT_ATTR_*` of the attached mount whose root is at `path` and open at `mount`.
fn change_flags(path: &CStr, mount: &impl AsFd, attributes: u64) -> Result<()> {
    let flags = remount::flags(facts(mount.as_fd())?.f_flag, attributes, replaced(attributes));
    by_mount(path, flags | remount::REMOUNT)
}

fn propagate(path: &CStr, kind: u64) -> Result<()> {
    by_mount(path, kind)
}

/// mount(2), to change an attached mount.
fn by_mount(path: &CStr, flags: u64) -> Result<()> {
    let null = std::ptr::null();
    // SAFETY: the path lives over the call; these flags need no other argument.
    match unsafe { libc::mount(null, path.as_ptr(), null, flags, null.cast()) } {
        0 => Ok(()),
        _ => Err(Error::os("set the attributes of a mount", errno())),
    }
}

/// The mounts below an attached one, without those that others hide: nobody can reach them.
fn mounts_below(top: BorrowedFd<'_>) -> Result<Vec<OwnedFd>> {
    let path = "/proc/thread-self/mountinfo";
    let text = std::fs::read(path).map_err(|error| Error::io(format_args!("read {path}"), &error))?;
    let (mut table, mut ids) = (Table::new(), vec![mount_id(top)?]);
    let (mut place, mut found) = (Vec::new(), Vec::new());
    for byte in text {
        if !table.push(byte) {
            continue;
        }
        let id = u64::from(table.id());
        if id == ids[0] {
            place = table.place().to_vec();
        } else if ids.contains(&table.parent().into()) {
            // A mount stands in the table after the one that it is attached to.
            ids.push(id);
            let Some(below) = remount::below(table.place(), &place) else { continue };
            let resolve = libc::RESOLVE_BENEATH | libc::RESOLVE_NO_SYMLINKS;
            let Ok(mount) = openat2(top, below, libc::O_PATH, 0, resolve) else { continue };
            if mount_id(mount.as_fd())? == id {
                found.push(mount);
            }
        }
    }
    Ok(found)
}

/// Access time modes exclude each other: a new one replaces the old one.
fn replaced(attributes: u64) -> u64 {
    if attributes & libc::MOUNT_ATTR__ATIME != 0 { libc::MOUNT_ATTR__ATIME } else { 0 }
}

/// Sets `MOUNT_ATTR_*` on a mount and, with `recursive`, on those below it, and makes them private. Needs mount_setattr(2).
pub(crate) fn set_private(mount: BorrowedFd<'_>, attributes: u64, recursive: bool) -> Result<()> {
    let attr_clr = replaced(attributes);
    let how = libc::mount_attr { attr_set: attributes, attr_clr, propagation: libc::MS_PRIVATE, userns_fd: 0 };
    set_attributes(mount, &how, recursive).map_err(|number| Error::os("set the attributes of a mount", number))
}

/// Makes a mount writable again, but none below it. Needs mount_setattr(2).
pub(crate) fn set_writable(mount: BorrowedFd<'_>) -> Result<()> {
    let how = libc::mount_attr { attr_set: 0, attr_clr: libc::MOUNT_ATTR_RDONLY, propagation: 0, userns_fd: 0 };
    set_attributes(mount, &how, false).map_err(|number| Error::os("set the attributes of a mount", number))
}

/// Maps the owners of a detached mount, and of those below it, as a user namespace maps them.
pub(crate) fn map_owners(mount: BorrowedFd<'_>, namespace: BorrowedFd<'_>) -> Result<()> {
    let userns_fd = namespace.as_raw_fd() as u64;
    let how = libc::mount_attr { attr_set: libc::MOUNT_ATTR_IDMAP, attr_clr: 0, propagation: 0, userns_fd };
    set_attributes(mount, &how, true).map_err(|number| Error::os("map the owners of a mount", number))
}

/// The error has the system's number.
fn set_attributes(mount: BorrowedFd<'_>, how: &libc::mount_attr, recursive: bool) -> std::result::Result<(), i32> {
    let flags = libc::AT_EMPTY_PATH | if recursive { libc::AT_RECURSIVE } else { 0 };
    let (fd, size) = (mount.as_raw_fd(), size_of::<libc::mount_attr>());
    // SAFETY: the empty name and the attributes live over the call, and the size is theirs.
    let got = unsafe { libc::syscall(libc::SYS_mount_setattr, fd, c"".as_ptr(), flags, &raw const *how, size) };
    if got < 0 { Err(errno()) } else { Ok(()) }
}

/// Attaches a detached mount at a directory of the calling thread's mount namespace.
pub(crate) fn attach(mount: BorrowedFd<'_>, at: BorrowedFd<'_>) -> Result<()> {
    let flags = libc::MOVE_MOUNT_F_EMPTY_PATH | libc::MOVE_MOUNT_T_EMPTY_PATH;
    let empty = c"".as_ptr();
    // SAFETY: the names are constant.
    let got = unsafe { libc::syscall(libc::SYS_move_mount, mount.as_raw_fd(), empty, at.as_raw_fd(), empty, flags) };
    if got < 0 { Err(Error::os("attach a mount", errno())) } else { Ok(()) }
}

/// A mount namespace with nothing but a detached mount as its root. It lives as long as its descriptor, or a process in
/// it.
pub(crate) fn alone(mount: BorrowedFd<'_>) -> Result<OwnedFd> {
    let work = || {
        let namespace = unshare()?;
        attach(mount, open_path(Path::new("/proc"))?.as_fd())?;
        let here = c".".as_ptr();
        // SAFETY: the names are constant; the directory and the root are this thread's own.
        let moved = unsafe {
            libc::fchdir(mount.as_raw_fd()) == 0
                && libc::syscall(libc::SYS_pivot_root, here, here) == 0
                && libc::umount2(here, libc::MNT_DETACH) == 0
        };
        if moved { Ok(namespace) } else { Err(Error::os("empty a mount namespace", errno())) }
    };
    in_thread(work)
}

/// A detached copy of the root mount of another mount namespace, or of the relative path `below` in it: see [`copy_below`].
pub(crate) fn root_of(namespace: BorrowedFd<'_>, below: &str) -> Result<OwnedFd> {
    in_thread(|| {
        enter(namespace)?;
        match below {
            "" => copy_of(None, Path::new("/"), false),
            below => copy_below(Path::new("/"), &Below::of("", below), false),
        }
    })
}

/// A detached copy of a tree with all mounts below it.
pub(crate) fn tree_of(namespace: BorrowedFd<'_>) -> Result<OwnedFd> {
    in_thread(|| {
        enter(namespace)?;
        copy_of(None, Path::new("/"), true)
    })
}

/// Runs `work` on a thread of its own, because it changes the thread's mount namespace.
pub(crate) fn in_thread<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    std::thread::scope(|scope| {
        let thread = super::thread::spawn(scope, "coracle-mounts", work)?;
        thread.join().unwrap_or_else(|_| Err(Error::new(ErrorKind::Panic, "a thread that mounts ended early")))
    })
}

/// Gives the calling thread a private mount namespace, whose mounts never reach the host's, and returns it.
///
/// For the library's own worker threads only. The namespace lives as long as the thread is in it or the descriptor is
/// open.
pub(crate) fn unshare() -> Result<OwnedFd> {
    // SAFETY: no pointers; of this thread only.
    if unsafe { libc::unshare(libc::CLONE_NEWNS) } < 0 {
        return Err(Error::os("make a mount namespace", errno()));
    }
    propagate(c"/", libc::MS_PRIVATE | libc::MS_REC)?;
    namespace()
}

/// The calling thread's mount namespace.
pub(crate) fn namespace() -> Result<OwnedFd> {
    let path = "/proc/thread-self/ns/mnt";
    std::fs::File::open(path).map(OwnedFd::from).map_err(|e| Error::io(format_args!("open {path}"), &e))
}

/// Moves the calling thread to another mount namespace. For the library's own worker threads only.
pub(crate) fn enter(namespace: BorrowedFd<'_>) -> Result<()> {
    // SAFETY: no pointers; of this thread only, which stops to share its root and directory with the others.
    if unsafe { libc::unshare(libc::CLONE_FS) } < 0 {
        return Err(Error::os("enter a mount namespace", errno()));
    }
    // SAFETY: no pointers; of this thread only.
    if unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNS) } < 0 {
        return Err(Error::os("enter a mount namespace", errno()));
    }
    Ok(())
}

/// Whether the mount that holds `fd` is read-only.
pub(crate) fn is_read_only(fd: BorrowedFd<'_>) -> Result<bool> {
    Ok(facts(fd)?.f_flag & libc::ST_RDONLY != 0)
}

/// The free bytes of the file system that holds `fd`, with those that only root may take.
pub(crate) fn free_bytes(fd: BorrowedFd<'_>) -> Result<u64> {
    let facts = facts(fd)?;
    Ok(facts.f_bfree.saturating_mul(facts.f_frsize))
}

fn facts(fd: BorrowedFd<'_>) -> Result<libc::statvfs> {
    // SAFETY: plain data for which all zeroes is valid.
    let mut stat: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: stat lives over the call.
    if unsafe { libc::fstatvfs(fd.as_raw_fd(), &raw mut stat) } < 0 {
        return Err(Error::os("stat a file system", errno()));
    }
    Ok(stat)
}

/// Number of the mount that holds `fd`.
pub(crate) fn mount_id(fd: BorrowedFd<'_>) -> Result<u64> {
    // SAFETY: plain data for which all zeroes is valid.
    let mut stat: libc::statx = unsafe { std::mem::zeroed() };
    // SAFETY: the empty name and stat live over the call.
    let got =
        unsafe { libc::statx(fd.as_raw_fd(), c"".as_ptr(), libc::AT_EMPTY_PATH, libc::STATX_MNT_ID, &raw mut stat) };
    if got < 0 { Err(Error::os("stat a mount", errno())) } else { Ok(stat.stx_mnt_id) }
}

fn owned(fd: libc::c_long, what: impl std::fmt::Display) -> Result<OwnedFd> {
    if fd < 0 {
        return Err(Error::os(what, errno()));
    }
    // SAFETY: the kernel just gave us this descriptor; nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}
