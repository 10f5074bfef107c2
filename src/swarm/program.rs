//! The start of the program `coracle-swarm`, which is not a child of the host program, and outlives the host program.

use super::config;
use crate::error::{Error, ErrorKind, Result};
use crate::kernel::process::{Words, start_detached};
use crate::options::Options;
use std::ffi::{CString, OsStr, OsString};
use std::fs::{DirBuilder, File, TryLockError};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The variables of this program that the program gets: the host's own time zone, authorities and resolver.
const PASSED: [&str; 8] =
    ["TZ", "TZDIR", "HOME", "SSL_CERT_FILE", "SSL_CERT_DIR", "LOCALDOMAIN", "RES_OPTIONS", "HOSTALIASES"];
/// The time that the program has to answer after its start.
const PATIENCE: Duration = Duration::from_secs(30);
/// The pause between two looks.
const LOOK: Duration = Duration::from_millis(5);
/// The time that the program has from its start to its lock.
const BOOT: Duration = Duration::from_secs(10);
/// Outside of a swarm the program ends after this time without a request.
const IDLE: &str = "10s";
/// The last bytes of the log, which have the reason of an end.
const REASON: usize = 1000;

pub(super) struct Program {
    /// Absent: the options name no program.
    named: Option<Named>,
    root: PathBuf,
    /// The program's directory below the run directory.
    run: PathBuf,
}

/// The program that the options name.
struct Named {
    path: PathBuf,
    /// The options that the program opens the root with.
    config: String,
}

impl Program {
    pub(super) fn new(root: &Path, run: PathBuf, options: &Options) -> Program {
        let named = options.swarm_program.clone().map(|path| Named { path, config: config::written(options) });
        Program { named, root: root.to_owned(), run }
    }

    pub(super) fn is_named(&self) -> bool {
        self.named.is_some()
    }

    fn log(&self) -> PathBuf {
        self.run.join("log")
    }

    /// Starts the program, if it does not run, and connects to it as soon as it answers. Errors: no program is named (`Unsupported` if
    /// the request enters a swarm, else `Unavailable`), it cannot be executed, or it ends.
    pub(super) fn reach<T>(&self, enters: bool, connect: impl Fn() -> Result<T>) -> Result<T> {
        let mut is_ours = false;
        if !self.is_at_work()? {
            self.start().map_err(|error| if enters { error } else { error.with_kind(ErrorKind::Unavailable) })?;
            is_ours = true;
        }
        let began = Instant::now();
        let mut was_at_work = !is_ours;
        loop {
            if let Ok(connected) = connect() {
                return Ok(connected);
            }
            let is_at_work = self.is_at_work()?;
            was_at_work |= is_at_work;
            let waited = began.elapsed();
            if (was_at_work && !is_at_work) || (!was_at_work && waited > BOOT) {
                return Err(Error::new(ErrorKind::Unavailable, format!("coracle-swarm ended: {}", self.reason())));
            }
            if waited > PATIENCE {
                let text = format!("coracle-swarm does not answer for {}s after its start", PATIENCE.as_secs());
                return Err(Error::new(ErrorKind::Unavailable, text));
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Whether the program runs: it holds a lock as long as it lives.
    fn is_at_work(&self) -> Result<bool> {
        let path = self.run.join("lock");
        let lock = match File::open(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
            other => other.map_err(|error| Error::io(format_args!("open {}", path.display()), &error))?,
        };
        match lock.try_lock_shared() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(Error::io(format_args!("lock {}", path.display()), &error)),
        }
    }

    /// The end of the program's log.
    fn reason(&self) -> String {
        let text = std::fs::read(self.log()).unwrap_or_default();
        let end = &text[text.len().saturating_sub(REASON)..];
        String::from_utf8_lossy(end).trim().replace('\n', "; ")
    }

    pub(super) fn start(&self) -> Result<()> {
        let Some(named) = &self.named else {
            return Err(Error::unsupported(
                "swarm mode needs the program coracle-swarm: it does not run, and no option (swarm-program) names its file",
            ));
        };
        let missing = |error: std::io::Error| {
            let reason = Error::io(named.path.display(), &error);
            Error::unsupported(format!("swarm mode needs the program coracle-swarm: {}", reason.message()))
        };
        let program = File::open(&named.path).map_err(missing)?;
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&self.run);
        made.map_err(|error| Error::io(format_args!("make {}", self.run.display()), &error))?;
        let null = File::open("/dev/null").map_err(|error| Error::io("open /dev/null", &error))?;
        start_detached(program.as_fd(), null.as_fd(), &self.words(named)?)
    }

    fn words(&self, named: &Named) -> Result<Words> {
        let word = |word: &OsStr| {
            CString::new(word.as_bytes()).map_err(|_| Error::invalid("a path of coracle-swarm has a null byte"))
        };
        // The run directory itself, which the program's own directory is in.
        let run = self.run.parent().unwrap_or(&self.run);
        let line: [&OsStr; 7] = [
            named.path.as_ref(),
            "--root".as_ref(),
            self.root.as_ref(),
            "--run-dir".as_ref(),
            run.as_ref(),
            "--idle".as_ref(),
            IDLE.as_ref(),
        ];
        let own = [
            ("CORACLE_SWARM_BOOT", self.log().into_os_string()),
            ("CORACLE_SWARM_CONFIG", named.config.clone().into()),
        ];
        let passed = PASSED.iter().filter_map(|name| Some((*name, std::env::var_os(name)?)));
        let environment = passed.chain(own).map(|(name, value)| {
            let mut text = OsString::from(name);
            text.push("=");
            text.push(value);
            word(&text)
        });
        Ok(Words {
            line: line.into_iter().map(word).collect::<Result<_>>()?,
            environment: environment.collect::<Result<_>>()?,
        })
    }
}
