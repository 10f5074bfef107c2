//! The locks of a root's state in the kernel: bridges, the firewall, the files of names.

use crate::error::{Error, Result};
use crate::kernel::file::lock_byte;
use parking_lot::{Mutex, MutexGuard};
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

/// The locks of a root's networks.
pub(crate) struct Locks {
    /// The root's run directory.
    pub(super) run: PathBuf,
    /// Work on the kernel's state that must not overlap within this program; the lock of the root is for other programs.
    pub(super) program: Mutex<()>,
}

/// The lock of a root's networks, held until it is dropped.
pub(super) struct RootLock(#[expect(dead_code, reason = "it is held until it is closed")] File);

/// Both locks, held until they are dropped.
pub(super) struct KernelLock<'a> {
    _root: RootLock,
    _program: MutexGuard<'a, ()>,
}

impl Locks {
    /// Keeps other programs of this root from changing the kernel's state meanwhile.
    pub(super) fn root(&self) -> Result<RootLock> {
        let mut open = File::options();
        let path = self.run.join("net.lock");
        let file = open.read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file = file.map_err(|e| Error::io(format_args!("open {}", path.display()), &e))?;
        lock_byte(&file, 0, path.display())?;
        Ok(RootLock(file))
    }

    /// Keeps other threads of this program and other programs of this root from changing the kernel's state meanwhile.
    pub(super) fn kernel(&self) -> Result<KernelLock<'_>> {
        let program = self.program.lock();
        Ok(KernelLock { _root: self.root()?, _program: program })
    }
}
