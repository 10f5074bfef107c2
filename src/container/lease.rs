//! Leases: a container with a lease ends when nobody holds the lease any more, and is removed by the next look at it.
//!
//! A lease is a FIFO `run/leases/<name>`. Its holders have it open for writing, and the container's monitor has it open for
//! reading: the kernel notifies the monitor when the last holder closed it, also where that holder was killed. Holders write
//! nothing.

use super::dirs;
use super::names::check_name;
use super::spec::{Defaults, LeaseMark};
use crate::error::{Error, Result};
use crate::kernel::remove::remove_tree;
use crate::kernel::tree;
use crate::model::ContainerConfig;
use nix::fcntl::{Flock, FlockArg, OFlag, openat};
use nix::sys::stat::Mode;
use nix::unistd::mkfifoat;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// The label of a create request that names the container's lease.
pub(crate) const LABEL: &str = "coracle.lease";

/// The names of engines' own leases begin with this, as no name that users give does.
const OWN: char = '@';

/// A lease that is held until this value is dropped or the program ends; see [`crate::Engine::lease`].
///
/// The descriptor may be passed to other processes: each process that has it open holds the lease.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use std::os::fd::OwnedFd;
///
/// let lease = engine.lease("nightly")?;
/// assert_eq!(lease.name(), "nightly");
/// // For a child that is to hold it, too.
/// let descriptor: OwnedFd = lease.into();
/// # drop(descriptor);
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug)]
pub struct Lease {
    name: String,
    fifo: OwnedFd,
}

impl Lease {
    /// The name of the lease.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A lease of an engine's own, in the run directory `run`.
    pub(crate) fn of_engine(run: &Path) -> Result<Lease> {
        let name: String = crate::hex::random_id()?.chars().take(16).collect();
        Leases::open(run)?.hold_any(&format!("{OWN}{name}"))
    }
}

impl AsFd for Lease {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fifo.as_fd()
    }
}

impl From<Lease> for OwnedFd {
    fn from(lease: Lease) -> OwnedFd {
        lease.fifo
    }
}

/// The leases of a root.
pub(crate) struct Leases {
    dir: PathBuf,
}

impl Leases {
    pub(crate) fn open(run: &Path) -> Result<Leases> {
        let dir = run.join("leases");
        dirs::make(&dir)?;
        Ok(Leases { dir })
    }

    /// Holds a lease. Errors: the name is malformed.
    pub(crate) fn hold(&self, name: &str) -> Result<Lease> {
        self.hold_any(checked(name)?)
    }

    fn hold_any(&self, name: &str) -> Result<Lease> {
        let dir = self.locked()?;
        match mkfifoat(dir.as_fd(), name, Mode::from_bits_truncate(0o600)) {
            Ok(()) | Err(nix::errno::Errno::EEXIST) => {}
            Err(errno) => return Err(Error::os(format_args!("make the lease {name}"), errno as i32)),
        }
        // For both: an open for writing alone fails where no monitor has the lease open yet.
        let fifo = openat(dir.as_fd(), name, OFlag::O_RDWR | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC, Mode::empty())
            .map_err(|errno| Error::os(format_args!("hold the lease {name}"), errno as i32))?;
        Ok(Lease { name: name.to_owned(), fifo })
    }

    /// The reading end of a container's lease. Errors: nobody holds it.
    pub(super) fn reader(&self, mark: Option<&LeaseMark>) -> Result<Option<OwnedFd>> {
        let Some(LeaseMark { name, .. }) = mark else { return Ok(None) };
        match reading(&self.dir, name) {
            Some(fifo) if has_writer(&fifo) => Ok(Some(fifo.into())),
            _ => Err(Error::conflict(format!("nobody holds the lease {name} of the container"))),
        }
    }

    /// Whether the container has a lease that nobody holds.
    pub(super) fn has_ended(&self, mark: Option<&LeaseMark>) -> bool {
        mark.is_some_and(|mark| !reading(&self.dir, &mark.name).is_some_and(|fifo| has_writer(&fifo)))
    }

    /// Removes the files of leases that nobody holds.
    pub(super) fn sweep(&self) -> Result<()> {
        let names = dirs::names(&self.dir)?;
        if names.is_empty() {
            return Ok(());
        }
        let dir = self.locked()?;
        for name in names {
            if !reading(&self.dir, &name).is_some_and(|fifo| has_writer(&fifo)) {
                remove_tree(dir.as_fd(), &name)?;
            }
        }
        Ok(())
    }

    /// Nobody makes or removes a lease while the directory is locked: a file that is there stays until it is open.
    fn locked(&self) -> Result<Flock<File>> {
        let dir = File::from(tree::open_dir(&self.dir)?);
        Flock::lock(dir, FlockArg::LockExclusive)
            .map_err(|(_, errno)| Error::os(format_args!("lock {}", self.dir.display()), errno as i32))
    }
}

impl Defaults {
    /// The lease of a new container: the one that the label names, else the engine's own.
    pub(super) fn lease_of(&self, request: &ContainerConfig) -> Result<Option<LeaseMark>> {
        let asked = request.labels.get(LABEL).map(|name| checked(name)).transpose()?;
        Ok(asked.or(self.lease.as_deref()).map(LeaseMark::new))
    }
}

fn checked(name: &str) -> Result<&str> {
    match check_name(name) {
        Ok(bare) if bare.len() == name.len() && name.len() <= 128 => Ok(name),
        _ => Err(Error::invalid(format!(
            "lease {name:?}: a name has at most 128 letters, digits, '_', '.' and '-', and begins with none of '.' and '-'"
        ))),
    }
}

fn reading(dir: &Path, name: &str) -> Option<File> {
    let how = std::os::unix::fs::OpenOptionsExt::custom_flags(
        std::fs::OpenOptions::new().read(true),
        libc::O_NONBLOCK | libc::O_NOFOLLOW,
    )
    .open(dir.join(name));
    how.ok()
}

/// Whether somebody has the FIFO open for writing: a read meets its end where nobody has.
fn has_writer(mut fifo: &File) -> bool {
    !matches!(fifo.read(&mut [0]), Ok(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_held_as_long_as_one_descriptor_is_open() {
        let run = std::env::temp_dir().join(format!("coracle-lease-{}", std::process::id()));
        std::fs::create_dir_all(&run).unwrap();
        let leases = Leases::open(&run).unwrap();
        let mark = LeaseMark::new("work");
        assert!(leases.has_ended(Some(&mark)) && !leases.has_ended(None));
        assert_eq!(leases.reader(Some(&mark)).unwrap_err().message(), "nobody holds the lease work of the container");
        let (first, second) = (leases.hold("work").unwrap(), leases.hold("work").unwrap());
        leases.sweep().unwrap();
        drop(first);
        assert!(leases.reader(Some(&mark)).unwrap().is_some() && !leases.has_ended(Some(&mark)));
        let kept = second.as_fd().try_clone_to_owned().unwrap();
        drop(second);
        assert!(!leases.has_ended(Some(&mark)));
        drop(kept);
        assert!(leases.has_ended(Some(&mark)));
        leases.sweep().unwrap();
        assert!(dirs::names(&run.join("leases")).unwrap().is_empty());
        for name in ["", "@0", "a/b", "/a", ".."] {
            assert!(leases.hold(name).is_err(), "{name}");
        }
        let own = Lease::of_engine(&run).unwrap();
        assert!(own.name().starts_with(OWN) && !leases.has_ended(Some(&LeaseMark::new(own.name()))));
        std::fs::remove_dir_all(&run).unwrap();
    }
}
