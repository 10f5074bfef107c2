//! The container's first process: its numbers, and the descriptors that belong to its run.

use crate::fd::Fd;
use crate::sys::{self, *};

/// Zero at the beginning.
pub struct Process {
    /// The pid; 0 if the process does not run.
    pub pid: i32,
    pub pidfd: Fd,
    /// The container's `/dev/pts`.
    pub devpts: Fd,
    /// The container's root. It stays open until all clients know of the end: closing an overlay writes out the whole
    /// file system below it, which takes a millisecond, or seconds while others write.
    pub root: Fd,
    /// The container's mount namespace, kept as long as the root: a process that is the last member takes long to end.
    pub mounts: Fd,
    /// The master of the container's terminal.
    pub master: Fd,
    /// The process was sent SIGKILL.
    killed: bool,
}

impl Process {
    pub fn runs(&self) -> bool {
        self.pid != 0
    }

    pub fn started(&mut self, pid: i32, pidfd: i32) {
        (self.pid, self.killed) = (pid, false);
        self.pidfd.set(pidfd);
    }

    pub fn ended(&mut self) {
        self.pid = 0;
        self.pidfd.close();
    }

    pub fn signal(&mut self, signal: u32) -> Result<()> {
        sys::pidfd_signal(self.pidfd.raw(), signal)?;
        self.killed |= signal == SIGKILL;
        Ok(())
    }

    pub fn is_killed(&self) -> bool {
        self.killed
    }

    /// Whether the process is exiting (`PF_EXITING`), though it may still be there.
    pub fn is_exiting(&self) -> bool {
        stat_field(self.pid, 9) & 4 != 0
    }
}

/// Field 22 of `/proc/PID/stat`: clock ticks since boot.
pub fn start_time(pid: i32) -> u64 {
    stat_field(pid, 22)
}

/// A number of `/proc/PID/stat`, counted from 1 as in proc(5); 0 if there is none.
fn stat_field(pid: i32, field: usize) -> u64 {
    let mut path = *b"/proc/\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    let length = crate::text::decimal(&mut path[6..], i64::from(pid)).len();
    path[6 + length..6 + length + 5].copy_from_slice(b"/stat");
    let mut buffer = [0u8; 512];
    let length = sys::read_file(&path, &mut buffer).unwrap_or(0);
    crate::answers::stat_field(&buffer[..length], field)
}
