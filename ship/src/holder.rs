//! The processes that hold the lock of a root's shipper, as the lock's file tells them: programs that have the root open
//! follow them, and start the shipper again when they are killed.
//!
//! The text says what was true when it was written. A reader checks that the processes live, and that they are what the text
//! says.

use serde_json::{Value, json};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The text has so many bytes, with spaces behind it: it is written by one call, and a reader never sees half of it.
const LENGTH: usize = 256;

/// A program that holds the lock.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Holder {
    /// The version of the library that the program is part of.
    pub version: String,
    /// The number of the process that replaces the worker.
    pub keeper: i32,
    /// The number of the process that delivers.
    pub worker: i32,
    /// How many programs held this file's lock, with this one.
    pub programs: u64,
    /// The program was told to end.
    pub is_told: bool,
}

impl Holder {
    /// The text of this process, a keeper: the lock's file has that of the program before it.
    pub fn next(lock: &File) -> Holder {
        let programs = Holder::read(lock).unwrap_or_default().programs + 1;
        let keeper = nix::unistd::getpid().as_raw();
        Holder { version: env!("CARGO_PKG_VERSION").into(), keeper, worker: 0, programs, is_told: false }
    }

    /// Reads the lock's file; `None`: it names no program.
    pub fn read(lock: &File) -> Option<Holder> {
        let mut text = [0; LENGTH];
        let length = lock.read_at(&mut text, 0).ok()?;
        let document: Value = serde_json::from_slice(text.get(..length)?.trim_ascii()).ok()?;
        let pid = |name: &str| i32::try_from(document[name].as_i64()?).ok();
        Some(Holder {
            version: document["Version"].as_str()?.to_owned(),
            keeper: pid("Keeper")?,
            worker: pid("Worker")?,
            programs: document["Programs"].as_u64()?,
            is_told: document["IsTold"].as_bool()?,
        })
    }

    /// Writes it into the lock's file.
    pub fn write(&self, lock: &File) -> io::Result<()> {
        let Holder { version, keeper, worker, programs, is_told } = self;
        let document =
            json!({ "Version": version, "Keeper": keeper, "Worker": worker, "Programs": programs, "IsTold": is_told });
        lock.write_all_at(format!("{:<LENGTH$}", document.to_string()).as_bytes(), 0)
    }

    /// For the holder of a free lock, before it starts a program: the file names no process, and keeps the count of programs.
    pub fn vacate(lock: &File) {
        if let Some(Holder { version, programs, .. }) = Holder::read(lock) {
            // Without this the processes that it names are looked for, and not found.
            let _ = Holder { version, programs, ..Holder::default() }.write(lock);
        }
    }

    /// Writes into the lock's file that its program was told to end: nobody is to start it again for that.
    pub fn tell(lock: &File) {
        if let Some(holder) = Holder::read(lock) {
            // Without this a program that follows the processes starts another one.
            let _ = Holder { is_told: true, ..holder }.write(lock);
        }
    }

    /// Whether the program is of an earlier version than this library.
    pub fn is_older(&self) -> bool {
        let own = numbers(env!("CARGO_PKG_VERSION"));
        numbers(&self.version).zip(own).is_some_and(|(theirs, own)| theirs < own)
    }
}

/// The three numbers of a version; what follows a hyphen does not count.
fn numbers(version: &str) -> Option<[u64; 3]> {
    let numbers: Vec<u64> = version.split('-').next()?.split('.').map(str::parse).collect::<Result<_, _>>().ok()?;
    numbers.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_is_read_as_it_was_written() {
        let path = std::env::temp_dir().join(format!("coracle-holder-{}", std::process::id()));
        let lock = File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        assert_eq!(Holder::read(&lock), None);
        let mut first = Holder::next(&lock);
        first.worker = i32::MAX;
        first.write(&lock).unwrap();
        assert_eq!(Holder::read(&lock).as_ref(), Some(&first));
        let second = Holder::next(&lock);
        assert_eq!((second.programs, second.worker), (2, 0));
        // The longer text before it leaves nothing behind.
        second.write(&lock).unwrap();
        Holder::tell(&lock);
        assert_eq!(Holder::read(&lock), Some(Holder { is_told: true, ..second.clone() }));
        Holder::vacate(&lock);
        assert_eq!(Holder::read(&lock), Some(Holder { keeper: 0, ..second }));
        std::fs::write(&path, "{").unwrap();
        assert_eq!(Holder::read(&lock), None);
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn versions_are_compared_by_their_numbers() {
        let is_older = |version: &str| Holder { version: version.into(), ..Holder::default() }.is_older();
        assert!(is_older("0.0.99") && is_older("0.0.9-rc.1"));
        assert!(!is_older(env!("CARGO_PKG_VERSION")) && !is_older("99.0.0") && !is_older("") && !is_older("x.y.z"));
    }
}
