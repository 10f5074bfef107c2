//! Project quotas: limits for the storage below a directory, if its file system supports projects.

use super::fd::errno;
use crate::error::{Error, Result};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;

/// `struct fsxattr` of FS_IOC_FSGETXATTR.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    flags: u32,
    extent_size: u32,
    extents: u32,
    project: u32,
    cow_extent_size: u32,
    pad: [u8; 8],
}

/// `struct if_dqblk` of quotactl(2); limits in KiB.
#[repr(C)]
#[derive(Default)]
struct Limits {
    hard_blocks: u64,
    soft_blocks: u64,
    space: u64,
    hard_inodes: u64,
    soft_inodes: u64,
    inodes: u64,
    block_time: u64,
    inode_time: u64,
    valid: u32,
}

const SET_QUOTA: u32 = 0x80_0008;
const GET_QUOTA: u32 = 0x80_0007;
const GET_INFO: u32 = 0x80_0005;
const PROJECT: u32 = 2;
const BLOCK_LIMITS: u32 = 1;

/// The release that has quotactl_fd(2).
pub(crate) const SINCE: (u32, u32) = (5, 14);

/// Whether the file system of a directory has project quotas, and enforces them.
pub(crate) fn has_projects(dir: &Path) -> Result<bool> {
    let mut info = [0u64; 8];
    Ok(control(&open(dir)?, GET_INFO, 0, info.as_mut_ptr().cast()).is_ok())
}

/// Puts a new directory, and everything that will be made below it, into a project.
pub(crate) fn set_project(dir: &Path, project: u32) -> Result<()> {
    const SET_ATTRIBUTES: libc::c_ulong = 0x401c_5820;
    const INHERIT: u32 = 0x200;
    let file = open(dir)?;
    let mut attributes = attributes_of(&file)?;
    attributes.project = project;
    attributes.flags |= INHERIT;
    // SAFETY: the structure lives over the call, and is the one that the request takes.
    if unsafe { libc::ioctl(file.as_raw_fd(), SET_ATTRIBUTES as _, &raw const attributes) } < 0 {
        return Err(Error::os("set the project of a directory", errno()));
    }
    Ok(())
}

/// The project of a directory; 0: none.
pub(crate) fn project_of(dir: &Path) -> Result<u32> {
    attributes_of(&open(dir)?).map(|attributes| attributes.project)
}

/// Whether a project has no files and no limit. `dir` is any directory of the file system.
pub(crate) fn is_free(dir: &Path, project: u32) -> Result<bool> {
    let mut limits = Limits::default();
    match control(&open(dir)?, GET_QUOTA, project, (&raw mut limits).cast()) {
        Ok(()) => Ok(limits.space | limits.inodes | limits.hard_blocks | limits.soft_blocks == 0),
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH)) => Ok(true),
        Err(error) => Err(error),
    }
}

fn attributes_of(file: &File) -> Result<Attributes> {
    const GET_ATTRIBUTES: libc::c_ulong = 0x801c_581f;
    let mut attributes = Attributes::default();
    // SAFETY: the structure lives over the call, and is the one that the request takes.
    match unsafe { libc::ioctl(file.as_raw_fd(), GET_ATTRIBUTES as _, &raw mut attributes) } {
        0.. => Ok(attributes),
        _ => Err(Error::os("read the project of a directory", errno())),
    }
}

/// Limits the storage of a project, in bytes; 0 removes the limit. `dir` is any directory of the file system.
pub(crate) fn set_limit(dir: &Path, project: u32, bytes: u64) -> Result<()> {
    let mut limits = Limits { hard_blocks: bytes.div_ceil(1024), valid: BLOCK_LIMITS, ..Limits::default() };
    control(&open(dir)?, SET_QUOTA, project, (&raw mut limits).cast())
}

fn control(file: &File, command: u32, project: u32, argument: *mut libc::c_void) -> Result<()> {
    // This number is the same on every architecture.
    const QUOTACTL_FD: libc::c_long = 443;
    // SAFETY: the argument is the structure of the command, and lives over the call.
    let got = unsafe { libc::syscall(QUOTACTL_FD, file.as_raw_fd(), command << 8 | PROJECT, project, argument) };
    if got < 0 { Err(Error::os("use project quotas", errno())) } else { Ok(()) }
}

fn open(dir: &Path) -> Result<File> {
    File::open(dir).map_err(|e| Error::io(format_args!("open {}", dir.display()), &e))
}
