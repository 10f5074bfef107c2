//! Makes and removes file system objects by directory descriptor and one single name.
//!
//! Every `name` here must be one path component (checked): neither empty, `.`, `..` nor with a slash. So no call can
//! follow a link or leave its directory.

use super::fd::{cstr, errno};
use super::turn;
use crate::error::{Error, Result};
use std::ffi::CString;
use std::fs::DirBuilder;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// Seconds and nanoseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Time {
    pub(crate) seconds: i64,
    pub(crate) nanos: u32,
}

/// The result of lstat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) size: u64,
    pub(crate) dev: u64,
    /// A device's own number.
    pub(crate) rdev: u64,
    pub(crate) ino: u64,
    pub(crate) links: u64,
    pub(crate) mtime: Time,
}

impl Stat {
    pub(crate) fn is_dir(&self) -> bool {
        self.mode & libc::S_IFMT == libc::S_IFDIR
    }
    pub(crate) fn is_file(&self) -> bool {
        self.mode & libc::S_IFMT == libc::S_IFREG
    }
}

/// Opens a directory by its trusted path (the engine's own root).
pub(crate) fn open_dir(path: &Path) -> Result<OwnedFd> {
    use std::os::unix::ffi::OsStrExt;
    let name = cstr(path.as_os_str().as_bytes())?;
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
    // SAFETY: the name is a NUL-terminated string that lives over the call.
    owned(unsafe { libc::open(name.as_ptr(), flags) }, "open", path.display())
}

/// Opens a directory by its trusted path. Missing directories, also those above it, are made with this mode.
pub(crate) fn make_dir(path: &Path, mode: u32) -> Result<OwnedFd> {
    let made = DirBuilder::new().recursive(true).mode(mode).create(path);
    made.map_err(|e| Error::io(format_args!("make directory {}", path.display()), &e))?;
    open_dir(path)
}

/// Opens the directory `name` of `dir` for reading; a symbolic link is refused.
pub(crate) fn open_dir_at(dir: BorrowedFd<'_>, name: impl AsRef<[u8]>) -> Result<OwnedFd> {
    open_at(dir, name, libc::O_RDONLY | libc::O_DIRECTORY, 0)
}

/// openat(2) of a single name, never through a link, close-on-exec.
pub(crate) fn open_at(dir: BorrowedFd<'_>, name: impl AsRef<[u8]>, flags: i32, mode: u32) -> Result<OwnedFd> {
    let name = single(name)?;
    let flags = flags | libc::O_CLOEXEC | libc::O_NOFOLLOW;
    loop {
        // SAFETY: the name is a NUL-terminated string that lives over the call.
        let fd = unsafe { libc::openat(dir.as_raw_fd(), name.as_ptr(), flags, mode) };
        if fd >= 0 || errno() != libc::EINTR {
            return owned(fd, "open", name.to_string_lossy());
        }
    }
}

/// A file without a name on the file system of `dir`, open for reading and writing; it ends with its descriptor.
pub(crate) fn unnamed_file(dir: BorrowedFd<'_>) -> Result<OwnedFd> {
    super::path::openat2(dir, ".", libc::O_TMPFILE | libc::O_RDWR, 0o600, super::path::BENEATH_NO_LINKS)
}

/// mkdirat(2).
pub(crate) fn mkdir_at(dir: BorrowedFd<'_>, name: impl AsRef<[u8]>, mode: u32) -> Result<()> {
    let name = single(name)?;
    // SAFETY: the name is a NUL-terminated string that lives over the call.
    done(unsafe { libc::mkdirat(dir.as_raw_fd(), name.as_ptr(), mode) }, "mkdir", &name)
}

/// mknodat(2): `mode` with its type bits, `device` its number for character and block devices.
pub(crate) fn mknod_at(dir: BorrowedFd<'_>, name: impl AsRef<[u8]>, mode: u32, device: (u32, u32)) -> Result<()> {
    let name = single(name)?;
    let number = libc::makedev(device.0, device.1);
    // SAFETY: the name is a NUL-terminated string that lives over the call.
    done(unsafe { libc::mknodat(dir.as_raw_fd(), name.as_ptr(), mode, number) }, "mknod", &name)
}

/// symlinkat(2).
pub(crate) fn symlink_at(target: impl AsRef<[u8]>, dir: BorrowedFd<'_>, name: impl AsRef<[u8]>) -> Result<()> {
    let (target, name) = (cstr(target)?, single(name)?);
    // SAFETY: both are NUL-terminated strings that live over the call.
    done(unsafe { libc::symlinkat(target.as_ptr(), dir.as_raw_fd(), name.as_ptr()) }, "symlink", &name)
}

/// linkat(2), not following a link as the last component of the old name.
pub(crate) fn link_at(
    old_dir: BorrowedFd<'_>,
    old_name: impl AsRef<[u8]>,
    dir: BorrowedFd<'_>,
    name: impl AsRef<[u8]>,
) -> Result<()> {
    let (old, name) = (single(old_name)?, single(name)?);
    // SAFETY: both are NUL-terminated strings that live over the call.
    done(unsafe { libc::linkat(old_dir.as_raw_fd(), old.as_ptr(), dir.as_raw_fd(), name.as_ptr(), 0) }, "link", &name)
}

/// unlinkat(2) of a name that is not a directory.
pub(crate) fn unlink_at(dir: BorrowedFd<'_>, name: impl AsRef<[u8]>) -> Result<()> {
    let name = single(name)?;
    // SAFETY: the name is a NUL-terminated string that lives over the call.
    done(unsafe { libc::unlinkat(dir.as_raw_fd(), name.as_ptr(), 0) }, "unlink", &name)
}

/// unlinkat(2) of an empty directory.
pub(crate) fn rmdir_at(dir: BorrowedFd<'_>, name: impl AsRef<[u8]>) -> Result<()> {
    let name = single(name)?;
    // SAFETY: the name is a NUL-terminated string that lives over the call.
    done(unsafe { libc::unlinkat(dir.as_raw_fd(), name.as_ptr(), libc::AT_REMOVEDIR) }, "rmdir", &name)
}

/// renameat2(2) that never replaces: an existing target gives EEXIST.
pub(crate) fn rename_at(
    old_dir: BorrowedFd<'_>,
    old_name: impl AsRef<[u8]>,
    dir: BorrowedFd<'_>,
    name: impl AsRef<[u8]>,
) -> Result<()> {
    rename_how((old_dir, old_name.as_ref()), (dir, name.as_ref()), libc::RENAME_NOREPLACE)
}

/// renameat2(2) that exchanges two names at once: each of them exists at all times.
pub(crate) fn exchange_at(
    old_dir: BorrowedFd<'_>,
    old_name: impl AsRef<[u8]>,
    dir: BorrowedFd<'_>,
    name: impl AsRef<[u8]>,
) -> Result<()> {
    rename_how((old_dir, old_name.as_ref()), (dir, name.as_ref()), libc::RENAME_EXCHANGE)
}

fn rename_how(
    (old_dir, old_name): (BorrowedFd<'_>, &[u8]),
    (dir, name): (BorrowedFd<'_>, &[u8]),
    flags: libc::c_uint,
) -> Result<()> {
    let (old, name) = (single(old_name)?, single(name)?);
    // SAFETY: both are NUL-terminated strings that live over the call.
    let got = unsafe {
        libc::syscall(libc::SYS_renameat2, old_dir.as_raw_fd(), old.as_ptr(), dir.as_raw_fd(), name.as_ptr(), flags)
    };
    done(got as i32, "rename", &old)
}

/// lstat of a name; `None`: it does not exist.
pub(crate) fn stat_at(dir: BorrowedFd<'_>, name: impl AsRef<[u8]>) -> Result<Option<Stat>> {
    let name = single(name)?;
    match stat(dir, &name, libc::AT_SYMLINK_NOFOLLOW) {
        Err(error) if error.is(libc::ENOENT) => Ok(None),
        other => other.map(Some),
    }
}

/// fstat of a descriptor (`O_PATH` too).
pub(crate) fn stat_fd(fd: BorrowedFd<'_>) -> Result<Stat> {
    stat(fd, c"", libc::AT_EMPTY_PATH)
}

fn stat(fd: BorrowedFd<'_>, name: &std::ffi::CStr, flags: i32) -> Result<Stat> {
    // SAFETY: stat is plain data for which all zeroes is valid.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: name and stat live over the call.
    if unsafe { libc::fstatat(fd.as_raw_fd(), name.as_ptr(), &raw mut stat, flags) } < 0 {
        return Err(Error::os(format_args!("stat {}", name.to_string_lossy()), errno()));
    }
    Ok(Stat {
        mode: stat.st_mode,
        uid: stat.st_uid,
        gid: stat.st_gid,
        size: stat.st_size as u64,
        dev: stat.st_dev,
        rdev: stat.st_rdev,
        ino: stat.st_ino,
        links: stat.st_nlink as u64,
        mtime: Time { seconds: stat.st_mtime, nanos: stat.st_mtime_nsec as u32 },
    })
}

/// The birth time of a file in seconds and nanoseconds; `None`: the file system keeps no such time, or the file does
/// not exist.
pub(crate) fn born_at(dir: BorrowedFd<'_>, name: impl AsRef<[u8]>) -> Result<Option<(i64, u32)>> {
    let name = single(name)?;
    // SAFETY: statx is plain data for which all zeroes is valid.
    let mut stat: libc::statx = unsafe { std::mem::zeroed() };
    let (flags, mask) = (libc::AT_SYMLINK_NOFOLLOW, libc::STATX_BTIME);
    // SAFETY: name and stat live over the call.
    if unsafe { libc::statx(dir.as_raw_fd(), name.as_ptr(), flags, mask, &raw mut stat) } < 0 {
        return match errno() {
            libc::ENOENT => Ok(None),
            other => Err(Error::os(format_args!("stat {}", name.to_string_lossy()), other)),
        };
    }
    let born = (stat.stx_btime.tv_sec, stat.stx_btime.tv_nsec);
    Ok((stat.stx_mask & libc::STATX_BTIME != 0).then_some(born))
}

/// lchown of a name.
pub(crate) fn chown_at(dir: BorrowedFd<'_>, name: impl AsRef<[u8]>, uid: u32, gid: u32) -> Result<()> {
    let name = single(name)?;
    // SAFETY: the name is a NUL-terminated string that lives over the call.
    let got = unsafe { libc::fchownat(dir.as_raw_fd(), name.as_ptr(), uid, gid, libc::AT_SYMLINK_NOFOLLOW) };
    done(got, "chown", &name)
}

/// fchown(2).
pub(crate) fn chown_fd(fd: BorrowedFd<'_>, uid: u32, gid: u32) -> Result<()> {
    // SAFETY: no pointers.
    done(unsafe { libc::fchown(fd.as_raw_fd(), uid, gid) }, "chown", c"")
}

/// fchmod(2): `mode` without type bits.
pub(crate) fn chmod_fd(fd: BorrowedFd<'_>, mode: u32) -> Result<()> {
    // SAFETY: no pointers.
    done(unsafe { libc::fchmod(fd.as_raw_fd(), mode) }, "chmod", c"")
}

/// chmod of a name that is not a link: a device or a fifo, which cannot be opened. Links are refused.
pub(crate) fn chmod_at(dir: BorrowedFd<'_>, name: impl AsRef<[u8]>, mode: u32) -> Result<()> {
    // fchmodat would follow a link; opened as `O_PATH`, a link has no mode to change.
    let node = open_at(dir, &name, libc::O_PATH, 0)?;
    let shown = single(name)?;
    let path = cstr(format!("/proc/self/fd/{}", node.as_raw_fd()))?;
    // SAFETY: the path lives over the call.
    done(unsafe { libc::chmod(path.as_ptr(), mode) }, "chmod", &shown)
}

/// Sets a name's access and modification time, not following a link.
pub(crate) fn utime_at(dir: BorrowedFd<'_>, name: impl AsRef<[u8]>, time: Time) -> Result<()> {
    let (name, times) = (single(name)?, [timespec(time); 2]);
    // SAFETY: name and times live over the call.
    let got = unsafe { libc::utimensat(dir.as_raw_fd(), name.as_ptr(), times.as_ptr(), libc::AT_SYMLINK_NOFOLLOW) };
    done(got, "set the time of", &name)
}

/// Sets a descriptor's access and modification time.
pub(crate) fn utime_fd(fd: BorrowedFd<'_>, time: Time) -> Result<()> {
    let times = [timespec(time); 2];
    // SAFETY: times live over the call.
    done(unsafe { libc::futimens(fd.as_raw_fd(), times.as_ptr()) }, "set the time", c"")
}

fn timespec(time: Time) -> libc::timespec {
    // SAFETY: timespec is plain data for which all zeroes is valid (it has padding on some targets).
    let mut spec: libc::timespec = unsafe { std::mem::zeroed() };
    spec.tv_sec = time.seconds;
    spec.tv_nsec = i64::from(time.nanos) as _;
    spec
}

/// fsetxattr(2) on a descriptor that is not `O_PATH`.
pub(crate) fn set_xattr_fd(fd: BorrowedFd<'_>, key: &str, value: &[u8]) -> Result<()> {
    let key = cstr(key)?;
    // SAFETY: key and value live over the call.
    let got = unsafe { libc::fsetxattr(fd.as_raw_fd(), key.as_ptr(), value.as_ptr().cast(), value.len(), 0) };
    done(got, "set the attribute", &key)
}

/// fremovexattr(2) on a descriptor that is not `O_PATH`.
pub(crate) fn remove_xattr_fd(fd: BorrowedFd<'_>, key: &str) -> Result<()> {
    let key = cstr(key)?;
    // SAFETY: key lives over the call.
    done(unsafe { libc::fremovexattr(fd.as_raw_fd(), key.as_ptr()) }, "remove the attribute", &key)
}

/// setxattr on a single name, not following a link: for links, devices and fifos, which cannot be opened.
pub(crate) fn set_xattr_at(dir: BorrowedFd<'_>, name: impl AsRef<[u8]>, key: &str, value: &[u8]) -> Result<()> {
    let (path, key) = (path_at(dir, name)?, cstr(key)?);
    // SAFETY: path, key and value live over the call.
    let got = unsafe { libc::lsetxattr(path.as_ptr(), key.as_ptr(), value.as_ptr().cast(), value.len(), 0) };
    done(got, "set the attribute", &key)
}

/// A path of the single name `name` of `dir`, for calls without directory descriptors: the descriptor names the
/// directory, and one component follows, which the caller must not follow if it is a link.
fn path_at(dir: BorrowedFd<'_>, name: impl AsRef<[u8]>) -> Result<CString> {
    let mut path = format!("/proc/self/fd/{}/", dir.as_raw_fd()).into_bytes();
    path.extend_from_slice(single(name)?.as_bytes());
    cstr(path)
}

/// setxattr on the object of a descriptor, also of an `O_PATH` one: a link itself, a device, a file that cannot be
/// opened.
pub(crate) fn set_xattr_of(fd: BorrowedFd<'_>, key: &str, value: &[u8]) -> Result<()> {
    let (path, key) = (cstr(format!("/proc/self/fd/{}", fd.as_raw_fd()))?, cstr(key)?);
    // SAFETY: path, key and value live over the call.
    let got = unsafe { libc::setxattr(path.as_ptr(), key.as_ptr(), value.as_ptr().cast(), value.len(), 0) };
    done(got, "set the attribute", &key)
}

/// getxattr on the object of a descriptor, also of an `O_PATH` one; `None`: the attribute does not exist (or the file
/// system has none). Attributes of more than 4 KiB are an error.
pub(crate) fn get_xattr_of(fd: BorrowedFd<'_>, key: &str) -> Result<Option<Vec<u8>>> {
    let (path, key) = (cstr(format!("/proc/self/fd/{}", fd.as_raw_fd()))?, cstr(key)?);
    let mut value = vec![0u8; 4096];
    // SAFETY: path, key and value live over the call, and the length is that of value.
    let got = unsafe { libc::getxattr(path.as_ptr(), key.as_ptr(), value.as_mut_ptr().cast(), value.len()) };
    if got >= 0 {
        value.truncate(got as usize);
        return Ok(Some(value));
    }
    match errno() {
        libc::ENODATA | libc::EOPNOTSUPP => Ok(None),
        other => Err(Error::os("get an attribute", other)),
    }
}

/// fgetxattr(2) on a descriptor that is not `O_PATH`; `None`: the attribute does not exist (or the file system has
/// none).
pub(crate) fn get_xattr_fd(fd: BorrowedFd<'_>, key: &str) -> Result<Option<Vec<u8>>> {
    let key = cstr(key)?;
    get_xattr(&mut |value| {
        // SAFETY: key and value live over the call, and the length is that of value.
        unsafe { libc::fgetxattr(fd.as_raw_fd(), key.as_ptr(), value.as_mut_ptr().cast(), value.len()) }
    })
}

/// Like [`get_xattr_fd`], for a single name, without following a link.
pub(crate) fn get_xattr_at(dir: BorrowedFd<'_>, name: impl AsRef<[u8]>, key: &str) -> Result<Option<Vec<u8>>> {
    let (path, key) = (path_at(dir, name)?, cstr(key)?);
    get_xattr(&mut |value| {
        // SAFETY: path, key and value live over the call, and the length is that of value.
        unsafe { libc::lgetxattr(path.as_ptr(), key.as_ptr(), value.as_mut_ptr().cast(), value.len()) }
    })
}

fn get_xattr(call: &mut dyn FnMut(&mut [u8]) -> isize) -> Result<Option<Vec<u8>>> {
    // Nearly all are short; the kernel's limit is 64 KiB.
    let mut short = [0u8; 256];
    let mut get = |value: &mut [u8]| usize::try_from(call(value)).map_err(|_| errno());
    let got = match get(&mut short) {
        Ok(length) => return Ok(Some(short[..length].to_vec())),
        Err(libc::ERANGE) => {
            let mut value = vec![0u8; 65536];
            get(&mut value).map(|length| {
                value.truncate(length);
                value
            })
        }
        Err(other) => Err(other),
    };
    match got {
        Ok(value) => Ok(Some(value)),
        Err(libc::ENODATA | libc::EOPNOTSUPP | libc::ENOENT) => Ok(None),
        Err(other) => Err(Error::os("get an attribute", other)),
    }
}

/// The names of the extended attributes of a descriptor that is not `O_PATH`; those that are not UTF-8 are left out.
pub(crate) fn xattrs_fd(fd: BorrowedFd<'_>) -> Result<Vec<String>> {
    xattrs(&mut |buffer| {
        // SAFETY: the buffer lives over the call, and the length is its own.
        unsafe { libc::flistxattr(fd.as_raw_fd(), buffer.as_mut_ptr(), buffer.len()) }
    })
}

/// Like [`xattrs_fd`], for a single name, without following a link; empty if the name does not exist any more.
pub(crate) fn xattrs_at(dir: BorrowedFd<'_>, name: impl AsRef<[u8]>) -> Result<Vec<String>> {
    let path = path_at(dir, name)?;
    let all = xattrs(&mut |buffer| {
        // SAFETY: path and buffer live over the call, and the length is the buffer's.
        unsafe { libc::llistxattr(path.as_ptr(), buffer.as_mut_ptr(), buffer.len()) }
    });
    match all {
        Err(error) if is_elsewhere(&error) => Ok(Vec::new()),
        all => all,
    }
}

fn xattrs(call: &mut dyn FnMut(&mut [libc::c_char]) -> isize) -> Result<Vec<String>> {
    let mut short = [0 as libc::c_char; 512];
    let mut long;
    let mut list = |buffer: &mut [libc::c_char]| usize::try_from(call(buffer)).map_err(|_| errno());
    let bytes = match list(&mut short) {
        Ok(length) => &short[..length],
        Err(libc::EOPNOTSUPP) => return Ok(Vec::new()),
        Err(libc::ERANGE) => {
            long = vec![0 as libc::c_char; 65536];
            let length = list(&mut long).map_err(|e| Error::os("list the attributes", e))?;
            &long[..length]
        }
        Err(other) => return Err(Error::os("list the attributes", other)),
    };
    let bytes: Vec<u8> = bytes.iter().map(|&byte| byte as u8).collect();
    let names = bytes.split(|&byte| byte == 0).filter(|name| !name.is_empty());
    Ok(names.filter_map(|name| String::from_utf8(name.to_vec()).ok()).collect())
}

/// The target of a symbolic link.
pub(crate) fn read_link_at(dir: BorrowedFd<'_>, name: impl AsRef<[u8]>) -> Result<Vec<u8>> {
    let name = single(name)?;
    let mut text = vec![0u8; libc::PATH_MAX as usize];
    // SAFETY: name and text live over the call, and the length is that of text.
    let got = unsafe { libc::readlinkat(dir.as_raw_fd(), name.as_ptr(), text.as_mut_ptr().cast(), text.len()) };
    if got < 0 {
        return Err(Error::os(format_args!("read the link {}", name.to_string_lossy()), errno()));
    }
    text.truncate(got as usize);
    Ok(text)
}

/// ftruncate(2).
pub(crate) fn truncate_fd(fd: BorrowedFd<'_>, size: i64) -> Result<()> {
    // SAFETY: no pointers.
    done(unsafe { libc::ftruncate(fd.as_raw_fd(), size) }, "set the size", c"")
}

/// syncfs(2): the whole file system that holds `fd` is on disk, or an error occurred since the descriptor was opened.
pub(crate) fn sync_fs(fd: BorrowedFd<'_>) -> Result<()> {
    // SAFETY: no pointers.
    done(unsafe { libc::syncfs(fd.as_raw_fd()) }, "flush the file system", c"")
}

/// sync_file_range(2): makes the kernel begin to write these bytes of a file to the disk, without waiting. A later
/// flush has less to do, and reports the errors.
pub(crate) fn begin_writing(file: BorrowedFd<'_>, from: u64, to: u64) {
    let (Ok(from), Ok(length)) = (i64::try_from(from), i64::try_from(to - from)) else { return };
    // SAFETY: no pointers.
    unsafe { libc::sync_file_range(file.as_raw_fd(), from, length, libc::SYNC_FILE_RANGE_WRITE) };
}

/// fsync(2), for directories.
pub(crate) fn sync_fd(fd: BorrowedFd<'_>) -> Result<()> {
    // SAFETY: no pointers.
    done(unsafe { libc::fsync(fd.as_raw_fd()) }, "flush", c"")
}

/// The two kinds of [`lock`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lock {
    Shared,
    Exclusive,
}

/// flock(2): held until the last copy of this open file is closed. Errors: others hold it too long; the error names it
/// `what`.
pub(crate) fn lock(fd: BorrowedFd<'_>, how: Lock, what: impl std::fmt::Display) -> Result<()> {
    turn::wait_for(what, turn::LONGEST, None, || Ok(try_lock(fd, how)?.then_some(())))
}

/// Takes that lock if no other lock prevents it.
pub(crate) fn try_lock(fd: BorrowedFd<'_>, how: Lock) -> Result<bool> {
    let operation = if how == Lock::Shared { libc::LOCK_SH } else { libc::LOCK_EX };
    loop {
        // SAFETY: no pointers.
        if unsafe { libc::flock(fd.as_raw_fd(), operation | libc::LOCK_NB) } == 0 {
            return Ok(true);
        }
        match errno() {
            libc::EINTR => {}
            libc::EWOULDBLOCK => return Ok(false),
            other => return Err(Error::os("lock", other)),
        }
    }
}

/// Gives that lock up, for all copies of this open file.
pub(crate) fn unlock(fd: BorrowedFd<'_>) -> Result<()> {
    // SAFETY: no pointers.
    match unsafe { libc::flock(fd.as_raw_fd(), libc::LOCK_UN) } {
        0 => Ok(()),
        _ => Err(Error::os("unlock", errno())),
    }
}

/// The names in a directory (opened for reading), without `.` and `..`.
pub(crate) fn names(dir: BorrowedFd<'_>) -> Result<Vec<Vec<u8>>> {
    Ok(entries(dir)?.into_iter().map(|(name, _)| name).collect())
}

/// Whether a directory has nothing in it.
pub(crate) fn is_empty(dir: BorrowedFd<'_>) -> Result<bool> {
    let fd = reopen(dir)?;
    let mut some = false;
    each_name(fd.as_fd(), &mut Vec::new(), &mut |_, _| {
        some = true;
        false
    })?;
    Ok(!some)
}

/// The path of a descriptor's object in the caller's mount namespace, as the kernel reports it.
pub(crate) fn path_of(fd: BorrowedFd<'_>) -> Result<Vec<u8>> {
    use std::os::unix::ffi::OsStringExt;
    let link = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()))
        .map_err(|e| Error::io("read a descriptor's path", &e))?;
    Ok(link.into_os_string().into_vec())
}

/// The names in a directory, without `.` and `..`, and whether they are directories.
pub(crate) fn entries(dir: BorrowedFd<'_>) -> Result<Vec<(Vec<u8>, bool)>> {
    let fd = reopen(dir)?;
    let mut found = Vec::new();
    each_name(fd.as_fd(), &mut Vec::new(), &mut |name, is_dir| {
        found.push((name.to_vec(), is_dir));
        true
    })?;
    let known = |(name, is_dir): (Vec<u8>, Option<bool>)| {
        let is_dir = match is_dir {
            Some(is_dir) => is_dir,
            None => stat_at(dir, &name)?.is_some_and(|stat| stat.is_dir()),
        };
        Ok((name, is_dir))
    };
    found.into_iter().map(known).collect()
}

/// A second open file of a directory, so that the caller's read position does not move; "." of an open directory cannot
/// be a link.
fn reopen(dir: BorrowedFd<'_>) -> Result<OwnedFd> {
    // SAFETY: the name is a constant NUL-terminated string.
    let fd =
        unsafe { libc::openat(dir.as_raw_fd(), c".".as_ptr(), libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC) };
    owned(fd, "open", "a directory")
}

/// Calls `visit` for each name of a directory that has not been read yet, with whether it is a directory if the file
/// system knows, until `visit` returns false; `.` and `..` are left out. The buffer grows as needed, and can be reused.
pub(crate) fn each_name(
    dir: BorrowedFd<'_>,
    buffer: &mut Vec<u8>,
    visit: &mut dyn FnMut(&[u8], Option<bool>) -> bool,
) -> Result<()> {
    /// Offsets of the length and the type in a `linux_dirent64`, and of the name.
    const LENGTH: usize = 16;
    const KIND: usize = 18;
    const NAME: usize = 19;
    buffer.resize(32 << 10, 0);
    loop {
        // SAFETY: the buffer lives over the call, and the length is its own.
        let got = unsafe { libc::syscall(libc::SYS_getdents64, dir.as_raw_fd(), buffer.as_mut_ptr(), buffer.len()) };
        let mut rest = match usize::try_from(got) {
            Ok(0) => return Ok(()),
            Ok(length) => &buffer[..length],
            Err(_) if errno() == libc::EINTR => continue,
            // The directory was removed since it was opened.
            Err(_) if errno() == libc::ENOENT => return Ok(()),
            Err(_) => return Err(Error::os("read a directory", errno())),
        };
        while rest.len() > NAME {
            let length = usize::from(u16::from_ne_bytes([rest[LENGTH], rest[LENGTH + 1]]));
            if length <= NAME || length > rest.len() {
                return Err(Error::internal("the kernel listed a directory in another form"));
            }
            let (entry, after) = rest.split_at(length);
            let name = entry[NAME..].split(|&byte| byte == 0).next().unwrap_or_default();
            if !matches!(name, b"" | b"." | b"..") {
                let is_dir = (entry[KIND] != libc::DT_UNKNOWN).then_some(entry[KIND] == libc::DT_DIR);
                if !visit(name, is_dir) {
                    return Ok(());
                }
            }
            rest = after;
        }
    }
}

/// Whether the error means that a file was removed or replaced meanwhile.
pub(crate) fn is_elsewhere(error: &Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR | libc::ELOOP))
}

/// Clears the flags that protect a file or directory from changes and removal; returns whether it had one.
pub(crate) fn unfreeze(fd: BorrowedFd<'_>) -> Result<bool> {
    /// `FS_IMMUTABLE_FL` and `FS_APPEND_FL` of linux/fs.h.
    const FROZEN: libc::c_int = 0x10 | 0x20;
    let mut flags: libc::c_int = 0;
    // SAFETY: the kernel writes one int there, which lives over the call.
    let got = unsafe { libc::ioctl(fd.as_raw_fd(), libc::FS_IOC_GETFLAGS as _, &raw mut flags) };
    // A file system without such flags has none set.
    if got < 0 || flags & FROZEN == 0 {
        return Ok(false);
    }
    flags &= !FROZEN;
    // SAFETY: the kernel reads one int there, which lives over the call.
    done(
        unsafe { libc::ioctl(fd.as_raw_fd(), libc::FS_IOC_SETFLAGS as _, &raw const flags) },
        "change the flags",
        c"",
    )?;
    Ok(true)
}

fn single(name: impl AsRef<[u8]>) -> Result<CString> {
    let bytes = name.as_ref();
    if bytes.is_empty() || bytes == b"." || bytes == b".." || bytes.contains(&b'/') {
        return Err(Error::internal(format!("{:?} is not a single name", String::from_utf8_lossy(bytes))));
    }
    cstr(bytes)
}

fn done(got: i32, what: &str, name: &std::ffi::CStr) -> Result<()> {
    if got < 0 {
        let errno = errno();
        return Err(if name.is_empty() {
            Error::os(what, errno)
        } else {
            Error::os(format_args!("{what} {}", name.to_string_lossy()), errno)
        });
    }
    Ok(())
}

fn owned(fd: i32, what: &str, name: impl std::fmt::Display) -> Result<OwnedFd> {
    if fd < 0 {
        return Err(Error::os(format_args!("{what} {name}"), errno()));
    }
    // SAFETY: the kernel just gave us this descriptor; nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
