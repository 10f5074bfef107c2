//! Processes: starts the monitor unnoticed by the host program; pidfds.

use super::fd::{cstr, errno};
use super::file::{read_again, read_bytes};
use super::mount;
use crate::error::{Error, Result};
use crate::walls::Wall;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;
use std::ffi::{CStr, CString, c_void};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// The use of a sealed memfd, which since Linux 6.3 must be given at its creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sealed {
    /// The content is a program to execute.
    Program,
    /// The content is data to read.
    Data,
}

/// A sealed memfd with `content`: no process can change the content any more, nor whether it is executable.
///
/// If the kernel refuses executable memfds (`vm.memfd_noexec` is 2), a program is a file in a file system of its own
/// that no process can reach or write.
pub(crate) fn sealed_memfd(name: &str, content: &[u8], purpose: Sealed) -> Result<OwnedFd> {
    const EXEC: libc::c_uint = 0x10;
    const NOEXEC_SEAL: libc::c_uint = 0x8;
    const F_SEAL_EXEC: i32 = 0x20;
    let name = cstr(name)?;
    let word = match purpose {
        _ if !Wall::MemfdSeals.stands() => 0,
        Sealed::Program => EXEC,
        Sealed::Data => NOEXEC_SEAL,
    };
    let mut seals = libc::F_SEAL_SEAL | libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_WRITE;
    let memfd = match memfd(&name, word) {
        // Linux before 6.3 does not know these flags.
        Err(libc::EINVAL) if word != 0 => memfd(&name, 0),
        Err(libc::EACCES) if purpose == Sealed::Program => return program_file(content),
        other => {
            if word != 0 {
                seals |= F_SEAL_EXEC;
            }
            other
        }
    };
    let memfd = memfd.map_err(|number| Error::os("memfd_create", number))?;
    write_all(&memfd, content)?;
    // SAFETY: no pointers.
    if Wall::SealedMonitor.stands() && unsafe { libc::fcntl(memfd.as_raw_fd(), libc::F_ADD_SEALS, seals) } < 0 {
        return Err(Error::os("seal a memfd", errno()));
    }
    Ok(memfd)
}

/// The error has the system's number.
fn memfd(name: &CStr, word: libc::c_uint) -> std::result::Result<OwnedFd, i32> {
    // SAFETY: the name lives over the call.
    let fd = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING | word) };
    if fd < 0 {
        return Err(errno());
    }
    // SAFETY: the kernel just gave us this descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn write_all(file: &OwnedFd, content: &[u8]) -> Result<()> {
    let mut rest = content;
    while !rest.is_empty() {
        // SAFETY: the slice is valid for its length.
        let wrote = unsafe { libc::write(file.as_raw_fd(), rest.as_ptr().cast(), rest.len()) };
        if wrote < 0 {
            return Err(Error::os("write a memfd", errno()));
        }
        rest = &rest[wrote as usize..];
    }
    Ok(())
}

/// A program as the only file of a tmpfs that is in no mount namespace: this descriptor alone reaches it, through a
/// read-only mount, and its end removes the file.
fn program_file(content: &[u8]) -> Result<OwnedFd> {
    let made = || {
        let attributes = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
        let mount = mount::file_system("tmpfs", "coracle-monitor", &[("mode", "0700")], attributes)?;
        let open = |mount: &OwnedFd, flags: OFlag, mode| {
            let file = openat(mount, "coracle-monitor", flags | OFlag::O_CLOEXEC, Mode::from_bits_truncate(mode));
            file.map_err(|errno| Error::os("open the monitor's program", errno as i32))
        };
        let writer = open(&mount, OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL, 0o500)?;
        write_all(&writer, content)?;
        // The kernel executes no file that is open for writing.
        drop(writer);
        let mount = mount::private(mount, attributes | libc::MOUNT_ATTR_RDONLY)?;
        open(&mount, OFlag::O_RDONLY, 0)
    };
    made().map_err(|error: Error| {
        error.context("vm.memfd_noexec is 2, so the monitor's program needs a tmpfs of its own; it cannot be had")
    })
}

/// The command line and the variables of a program that is started.
#[derive(Debug)]
pub(crate) struct Words {
    /// The program's name, then its arguments.
    pub(crate) line: Vec<CString>,
    /// `NAME=value`.
    pub(crate) environment: Vec<CString>,
}

impl Words {
    /// The addresses of some words, and the null behind them.
    fn addresses(words: &[CString]) -> Vec<*const libc::c_char> {
        words.iter().map(|word| word.as_ptr()).chain([std::ptr::null()]).collect()
    }
}

/// The memory that the two short-lived children share with the starting thread.
struct Start {
    program: RawFd,
    boot: RawFd,
    stack: *mut u8,
    /// The command line, up to the null.
    argv: *const *const libc::c_char,
    /// The variables, up to the null.
    envp: *const *const libc::c_char,
    error: i32,
}

/// The children make a few system calls with every signal blocked.
const STACK: usize = 8 * 1024;
/// The number at which the program expects its only descriptor.
const BOOT: RawFd = 3;

/// Starts the program in `program` (a memfd) with `boot` as its descriptor 3; the program is not a child of the host
/// program.
///
/// Two nested clones share the caller's memory (so its size does not matter) and suspend the caller (so it never sees
/// an intermediate state): the first child ends without executing anything and is reaped here; it makes the second,
/// which executes the program. The host program gets no SIGCHLD and has no child. All signals are blocked meanwhile: a
/// handler of the host must not run in a child that shares its memory.
pub(crate) fn start_detached(program: BorrowedFd<'_>, boot: BorrowedFd<'_>, words: &Words) -> Result<()> {
    let mut stacks = std::mem::MaybeUninit::<[u8; 2 * STACK]>::uninit();
    let (argv, envp) = (Words::addresses(&words.line), Words::addresses(&words.environment));
    let mut start = Start {
        program: program.as_raw_fd(),
        boot: boot.as_raw_fd(),
        stack: std::ptr::null_mut(),
        argv: argv.as_ptr(),
        envp: envp.as_ptr(),
        error: 0,
    };
    // SAFETY: both stacks lie in the array, which outlives the children (the caller is suspended until they are done
    // with its memory); stacks grow down from an aligned end.
    let (first, second) = unsafe {
        let base = stacks.as_mut_ptr().cast::<u8>();
        (aligned(base.add(STACK)), aligned(base.add(2 * STACK)))
    };
    start.stack = second;
    let mut all: libc::sigset_t = unsafe_zeroed();
    let mut before: libc::sigset_t = unsafe_zeroed();
    // SAFETY: both sets live over the calls; the mask is put back below.
    unsafe {
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
    }
    // SAFETY: see the function's text; `start` outlives the children for the same reason as the stacks.
    let pid =
        unsafe { libc::clone(first_child, first.cast(), libc::CLONE_VM | libc::CLONE_VFORK, (&raw mut start).cast()) };
    let failed = errno();
    if pid > 0 {
        reap(pid);
    }
    // SAFETY: the set was filled by the call above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut()) };
    if pid < 0 {
        return Err(Error::os("clone", failed));
    }
    // SAFETY: a plain read; volatile because a child wrote it.
    match unsafe { (&raw const start.error).read_volatile() } {
        0 => Ok(()),
        error => {
            let name = words.line.first().map(|name| name.to_string_lossy()).unwrap_or_default();
            Err(Error::os(format_args!("start {name}"), error))
        }
    }
}

fn unsafe_zeroed() -> libc::sigset_t {
    // SAFETY: a signal set is plain data; it is filled before it is read.
    unsafe { std::mem::zeroed() }
}

fn aligned(end: *mut u8) -> *mut u8 {
    end.wrapping_sub(end as usize % 16)
}

/// Reaps a child that executed nothing and sends no signal at its end.
fn reap(pid: libc::pid_t) {
    loop {
        let mut status = 0;
        // SAFETY: the status lives over the call.
        let got = unsafe { libc::waitpid(pid, &raw mut status, libc::__WCLONE) };
        if got == pid || errno() != libc::EINTR {
            return;
        }
    }
}

/// Makes the second child and ends. Only system calls from here on: this runs in the host program's memory.
extern "C" fn first_child(start: *mut c_void) -> i32 {
    // SAFETY: the starter's structure, alive while the starter is suspended.
    unsafe {
        let shared: *mut Start = start.cast();
        let pid = libc::clone(second_child, (*shared).stack.cast(), libc::CLONE_VM | libc::CLONE_VFORK, start);
        if pid < 0 {
            (&raw mut (*shared).error).write_volatile(*libc::__errno_location());
        }
        libc::syscall(libc::SYS_exit_group, 0);
    }
    0
}

extern "C" fn second_child(start: *mut c_void) -> i32 {
    // SAFETY: as above. The descriptor table is a copy, so nothing done to it is seen by the host program.
    unsafe {
        let shared: *mut Start = start.cast();
        // The program may have the number that the boot socket needs.
        let program = libc::syscall(libc::SYS_fcntl, (*shared).program, libc::F_DUPFD_CLOEXEC, BOOT + 1);
        let moved = if (*shared).boot == BOOT {
            libc::syscall(libc::SYS_fcntl, BOOT, libc::F_SETFD, 0)
        } else {
            libc::syscall(libc::SYS_dup3, (*shared).boot, BOOT, 0)
        };
        if program >= 0 && moved >= 0 {
            let (empty, flags) = (c"".as_ptr(), libc::AT_EMPTY_PATH);
            libc::syscall(libc::SYS_execveat, program, empty, (*shared).argv, (*shared).envp, flags);
        }
        (&raw mut (*shared).error).write_volatile(*libc::__errno_location());
        libc::syscall(libc::SYS_exit_group, 1);
    }
    0
}

/// A pidfd of a process. Errors: no process has that number.
pub(crate) fn pidfd(pid: i32) -> Result<OwnedFd> {
    // SAFETY: no pointers.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    if fd < 0 {
        return Err(Error::os(format_args!("open process {pid}"), errno()));
    }
    // SAFETY: the kernel just gave us this descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// Sends a signal to a pidfd's process.
pub(crate) fn pidfd_signal(pidfd: BorrowedFd<'_>, signal: i32) -> Result<()> {
    // SAFETY: a null siginfo is allowed.
    let sent = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, pidfd.as_raw_fd(), signal, 0, 0) };
    if sent < 0 { Err(Error::os("send a signal", errno())) } else { Ok(()) }
}

/// The name of a process (at most 15 bytes); `None`: the process is gone.
pub(crate) fn name(pid: i32) -> Option<String> {
    let name = std::fs::read(format!("/proc/{pid}/comm")).ok()?;
    Some(String::from_utf8_lossy(&name).trim_end().to_owned())
}

/// Whether the process with that number is a container's monitor, by its name, which any process may have.
pub(crate) fn is_monitor(pid: i32) -> bool {
    name(pid).is_some_and(|name| name == "coracle-monitor")
}

/// A pidfd of the container's monitor with that number, if it still exists: once it is open, the number cannot pass to
/// another process.
pub(crate) fn monitor(pid: i32) -> Option<OwnedFd> {
    pidfd(pid).ok().filter(|_| is_monitor(pid))
}

/// The directory of one process in /proc: it never becomes that of a later process with the same number.
#[derive(Debug)]
pub(crate) struct ProcDir(OwnedFd);

impl ProcDir {
    /// The directory of the process that started at `start` (see [`start_time`]); `None`: the process is gone.
    pub(crate) fn open(pid: i32, start: u64) -> Option<ProcDir> {
        let dir = std::fs::File::open(format!("/proc/{pid}")).ok()?;
        (start_time(pid) == Some(start)).then(|| ProcDir(dir.into()))
    }

    /// The text of one of its files; `None`: the process is gone.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC;
        let file = openat(&self.0, name, flags, Mode::empty()).ok()?;
        read_again(&file.into()).ok()
    }
}

/// The start time of a process, in clock ticks since boot (field 22 of /proc/PID/stat); `None`: the process is gone.
pub(crate) fn start_time(pid: i32) -> Option<u64> {
    let stat = read_bytes(format!("/proc/{pid}/stat")).ok()?;
    // The name may have any characters: fields are counted from its closing bracket.
    let after = stat.iter().rposition(|&b| b == b')')? + 2;
    let field = stat.get(after..)?.split(|&b| b == b' ').nth(19)?;
    std::str::from_utf8(field).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_file_keeps_its_content() {
        for purpose in [Sealed::Program, Sealed::Data] {
            let memfd = sealed_memfd("test", b"content", purpose).unwrap();
            let seals = nix::fcntl::fcntl(&memfd, nix::fcntl::FcntlArg::F_GET_SEALS).unwrap();
            let old = super::super::probe::release() < (6, 3);
            // The kernel adds another seal to an executable memfd.
            assert_eq!(seals & 0x2f, if old { 0xf } else { 0x2f }, "{purpose:?}");
        }
    }

    #[test]
    fn a_program_without_a_memfd_is_reached_by_its_descriptor_alone() {
        let program = program_file(b"#!/bin/sh\n").unwrap();
        let name = format!("/proc/self/fd/{}", program.as_raw_fd());
        assert_eq!(std::fs::read(&name).unwrap(), b"#!/bin/sh\n");
        let error = std::fs::OpenOptions::new().write(true).open(&name).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EROFS));
        let mine = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        assert!(!mine.contains("coracle-monitor"), "{mine}");
    }
}
