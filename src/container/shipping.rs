//! The program that delivers the logs of a root ([`ShipLogs::Program`]): the start of a container whose log is delivered, and
//! the open of a root that owes lines, start the program, if no other shipper of the root lives. The program ends by itself.

mod guard;

use super::{Places, Snapshot, delivery, dirs};
use crate::error::{Error, Result};
use crate::kernel::process::{Sealed, Words, sealed_memfd, start_detached};
use crate::notes::{LogLevel, note};
use crate::options::{Options, ShipLogs};
use crate::parts::Part;
use crate::plugin::MANAGED;
use coracle_monitor::wire::SHIP_WORDS_MOST;
use coracle_ship::Proxies;
use coracle_ship::holder::Holder;
use guard::Guard;
use std::ffi::{CString, OsString};
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The variables of this program that the delivery reads: the host's own time zone, authorities and resolver, and the keys and
/// places of cloud services.
const PASSED: [&str; 8] =
    ["TZ", "TZDIR", "HOME", "SSL_CERT_FILE", "SSL_CERT_DIR", "LOCALDOMAIN", "RES_OPTIONS", "HOSTALIASES"];
const PASSED_KINDS: [&str; 2] = ["AWS_", "GOOGLE_"];
/// The lock of a program that was told to end, and has ended, is tried so often, and waited for so long between two tries.
const TRIES: u32 = 100;
const TRY: Duration = Duration::from_millis(10);
/// The program's name: the first word of its command line.
const NAME: &str = "coracle-shipper";

/// Starts the program.
pub(crate) struct Shipping {
    parts: Arc<Parts>,
    how: ShipLogs,
}

/// The parts that the guard's thread needs.
struct Parts {
    places: Arc<Places>,
    /// The proxies that this open decided.
    proxies: Proxies,
    guard: Guard,
}

impl Shipping {
    /// Errors: this build of the library has no such program.
    pub(crate) fn new(places: &Arc<Places>, options: &Options) -> Result<Shipping> {
        delivery::bound(places.root(), options.outbox)?;
        let how = options.ship_logs;
        if how == ShipLogs::Program && !cfg!(feature = "shipper") {
            return Err(Error::unsupported(
                "ship_logs: this build of the library has no program that delivers logs (feature shipper)",
            )
            .in_area("log"));
        }
        if how == ShipLogs::Thread {
            Part::Ship.need().map_err(|error| error.context("ship_logs"))?;
        }
        let decided = options.registry.proxies.clone();
        let proxies = Proxies { https: decided.https.unwrap_or_default(), exempt: decided.exempt.unwrap_or_default() };
        let parts = Parts { places: Arc::clone(places), proxies, guard: Guard::default() };
        Ok(Shipping { parts: Arc::new(parts), how })
    }

    /// The proxies through which receivers are reached.
    pub(crate) fn proxies(&self) -> &Proxies {
        &self.parts.proxies
    }

    pub(crate) fn root(&self) -> &Path {
        self.parts.places.root()
    }

    /// The file by whose lock the shippers of a root know of each other.
    pub(crate) fn lock_path(&self) -> PathBuf {
        self.parts.lock_path()
    }

    /// After a container's start: its monitor lives, so that a shipper which is about to end sees it.
    pub(super) fn after_start(&self, found: &Snapshot) {
        if delivery::is_delivered(found) {
            self.ensure(Some(&found.row.id));
        }
    }

    /// At the open of a root.
    pub(crate) fn resume(&self) {
        if self.parts.is_needed() {
            self.ensure(None);
        }
    }

    /// A program that cannot be started loses nothing: the lines wait, and the next start tries again.
    fn ensure(&self, id: Option<&str>) {
        if self.how != ShipLogs::Program {
            return;
        }
        let followed = self.parts.start_if_none_lives().and_then(|_| Guard::follow(&self.parts));
        if let Err(error) = followed {
            note(LogLevel::Error, "log", id, || format!("no program delivers logs: {error}"));
        }
    }
}

impl Parts {
    fn lock_path(&self) -> PathBuf {
        self.places.run().join("ship.lock")
    }

    fn is_needed(&self) -> bool {
        coracle_ship::shipper::is_needed(self.places.root())
    }

    fn lock_file(&self) -> Result<File> {
        let path = self.lock_path();
        let mut how = OpenOptions::new();
        let file = how.read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
        file.map_err(|error| Error::io(format_args!("lock {}", path.display()), &error))
    }

    /// The processes that deliver, to be followed. `None`: nobody is to be followed, because the last program was told to end.
    fn followed(&self) -> Option<Vec<OwnedFd>> {
        let holder = self.lock_file().ok().and_then(|lock| Holder::read(&lock)).unwrap_or_default();
        let is_over = holder.is_told && !holder.is_older();
        (!is_over).then(|| guard::processes(&holder, self.places.root()))
    }

    /// Starts the program if nobody delivers; answers whether it did. A program of an earlier version is told to end, and the guard starts this one's
    /// then.
    fn start_if_none_lives(&self) -> Result<bool> {
        let lock = self.lock_file()?;
        if !self.try_lock(&lock)? {
            let holder = Holder::read(&lock).filter(|holder| holder.is_older() && !holder.is_told);
            holder.iter().for_each(|holder| guard::dismiss(holder, self.places.root()));
            return Ok(false);
        }
        let (program, words) = (program()?, self.words()?);
        if let Err(error) = self.leave_for_monitors(&program, &words) {
            note(LogLevel::Warn, "log", None, || {
                format!("no monitor can start the program that delivers logs: {error}")
            });
        }
        let program = sealed_memfd(NAME, &program, Sealed::Program)?;
        // The lock passes to the program with the descriptor.
        Holder::vacate(&lock);
        start_detached(program.as_fd(), lock.as_fd(), &words).map(|()| true)
    }

    /// Whether this program got the lock. A monitor holds the lock while it reads that the program was told to end, and nobody would
    /// start another one then: so the lock is waited for shortly where that program has ended.
    fn try_lock(&self, lock: &File) -> Result<bool> {
        for _ in 0..TRIES {
            match lock.try_lock() {
                Ok(()) => return Ok(true),
                Err(TryLockError::WouldBlock) if Holder::read(lock).is_some_and(|holder| self.is_past(&holder)) => {
                    std::thread::sleep(TRY);
                }
                Err(TryLockError::WouldBlock) => return Ok(false),
                Err(TryLockError::Error(error)) => {
                    return Err(Error::io(format_args!("lock {}", self.lock_path().display()), &error));
                }
            }
        }
        Ok(false)
    }

    /// Whether a program was told to end, and has ended.
    fn is_past(&self, holder: &Holder) -> bool {
        holder.is_told && guard::processes(holder, self.places.root()).is_empty()
    }

    /// Leaves the program and its words in the run directory: monitors start the program again if it is killed, when no program has
    /// the root open.
    fn leave_for_monitors(&self, program: &[u8], words: &Words) -> Result<()> {
        if words.line.len() + words.environment.len() > SHIP_WORDS_MOST {
            let text = format!("its environment has more than {SHIP_WORDS_MOST} words with AWS_ and GOOGLE_");
            return Err(Error::invalid(text));
        }
        let mut text = u32::try_from(words.line.len()).unwrap_or(0).to_le_bytes().to_vec();
        words.line.iter().chain(&words.environment).for_each(|word| text.extend_from_slice(word.to_bytes_with_nul()));
        for (name, content) in [("ship.program", program), ("ship.words", &text)] {
            // A monitor maps the file.
            dirs::replace(&self.places.run().join(name), content, 0o600)?;
        }
        Ok(())
    }

    /// The directories above all FIFOs to log plugins, made if they are missing.
    fn fifo_dirs(&self) -> Result<[PathBuf; 2]> {
        let dirs = [self.places.run().join(delivery::FIFOS), self.places.run().join(MANAGED)];
        for (dir, mode) in dirs.iter().zip([0o700, 0o755]) {
            let made = DirBuilder::new().recursive(true).mode(mode).create(dir);
            made.map_err(|error| Error::io(format_args!("make {}", dir.display()), &error))?;
        }
        Ok(dirs)
    }

    fn words(&self) -> Result<Words> {
        let word = |word: OsString| CString::new(word.as_bytes()).map_err(|_| Error::invalid("a null byte in a word"));
        let fifos = self.fifo_dirs()?.map(PathBuf::into_os_string);
        let line = [NAME.into(), self.places.root().into()].into_iter().chain(fifos).map(word);
        let is_passed = |name: &str| PASSED.contains(&name) || PASSED_KINDS.iter().any(|kind| name.starts_with(kind));
        let variables = std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_passed));
        // The options of this open may name other proxies than its environment.
        let Proxies { https, exempt } = &self.proxies;
        let proxies = [("HTTPS_PROXY", https), ("NO_PROXY", exempt)].map(|(name, value)| (name.into(), value.into()));
        let environment = variables.chain(proxies).map(|(mut name, value): (OsString, OsString)| {
            name.push("=");
            name.push(value);
            word(name)
        });
        Ok(Words { line: line.collect::<Result<_>>()?, environment: environment.collect::<Result<_>>()? })
    }
}

#[cfg(feature = "shipper")]
fn program() -> Result<Vec<u8>> {
    coracle_ship::embedded::program().map_err(|error| Error::io("unpack the program that delivers logs", &error))
}

#[cfg(not(feature = "shipper"))]
fn program() -> Result<Vec<u8>> {
    Err(Error::unsupported("this build of the library has no program that delivers logs"))
}
