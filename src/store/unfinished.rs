//! The directory that a copy of a root is made in: recognised as long as the copy is not whole, and refused by every
//! open.
//!
//! The marker is the first file in it and goes last; `coracle.db` and `identity`, by which earlier versions know a
//! root, come only when everything else is on the disk.

use crate::error::{Error, ErrorKind, Result};
use crate::kernel::tree::{self, Lock};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The marker: one line of JSON, locked (flock) by the program that copies.
pub(crate) const MARKER: &str = "unfinished-copy";

/// The longest marker that is read: a path.
const MOST: u64 = 16 << 10;

/// The marker's text.
#[derive(Serialize, Deserialize)]
struct Said {
    /// The root that is copied.
    of: PathBuf,
}

/// The marker of a copy that this program makes. Dropped, it stays.
#[derive(Debug)]
pub(crate) struct Marker {
    path: PathBuf,
    _held: File,
}

impl Marker {
    /// Marks `dir` as a copy of the root `of` that is not whole. Errors: another copy is made in it.
    pub(crate) fn set(dir: &Path, of: &Path) -> Result<Marker> {
        let path = dir.join(MARKER);
        let failed = |e: &std::io::Error| Error::io(format_args!("make {}", path.display()), e);
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        let mut held = made.map_err(|e| match e.kind() {
            std::io::ErrorKind::AlreadyExists => refusal(dir).unwrap_or_else(|| failed(&e)),
            _ => failed(&e),
        })?;
        tree::try_lock(held.as_fd(), Lock::Exclusive)?;
        let line = serde_json::to_vec(&Said { of: of.to_owned() });
        let mut line = line.map_err(|e| Error::internal(format!("a marker: {e}")))?;
        line.push(b'\n');
        held.write_all(&line).and_then(|()| held.sync_all()).map_err(|e| failed(&e))?;
        Ok(Marker { path, _held: held })
    }

    /// Takes the marker away: the copy is whole.
    pub(crate) fn take(self) -> Result<()> {
        std::fs::remove_file(&self.path).map_err(|e| Error::io(format_args!("remove {}", self.path.display()), &e))
    }
}

/// The error of opening `dir` if it is a copy that is not whole. `None`: `dir` is not such a copy.
pub(crate) fn refusal(dir: &Path) -> Option<Error> {
    let file = match File::open(dir.join(MARKER)) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return None,
        Err(e) => return Some(Error::io(format_args!("open {}", dir.join(MARKER).display()), &e)),
        Ok(file) => file,
    };
    let mut line = Vec::new();
    let said = (&file).take(MOST).read_to_end(&mut line).ok().and_then(|_| crate::document::read::<Said>(&line).ok());
    let of = said.map_or_else(String::new, |said| format!(" of {}", said.of.display()));
    let text = match tree::try_lock(file.as_fd(), Lock::Exclusive) {
        Ok(true) => format!(
            "{} holds a copy of an engine root{of} that did not come to its end: remove the directory, and copy again",
            dir.display()
        ),
        _ => format!("{} holds a copy of an engine root{of} that is being made", dir.display()),
    };
    Some(Error::new(ErrorKind::Conflict, text).in_area("root"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_refuses_and_says_whether_somebody_copies() {
        let dir = std::env::temp_dir().join(format!("coracle-marker-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        assert!(refusal(&dir).is_none());
        let marker = Marker::set(&dir, Path::new("/of")).unwrap();
        let said = |wanted: &str| {
            let error = refusal(&dir).unwrap();
            assert_eq!(error.kind(), ErrorKind::Conflict);
            assert!(error.message().contains(wanted) && error.message().contains("/of"), "{error}");
        };
        said("being made");
        assert!(Marker::set(&dir, Path::new("/of")).unwrap_err().message().contains("being made"));
        drop(marker);
        said("did not come to its end");
        std::fs::write(dir.join(MARKER), "torn").unwrap();
        assert!(refusal(&dir).unwrap().message().contains("did not come to its end"));
        Marker { path: dir.join(MARKER), _held: File::open(&dir).unwrap() }.take().unwrap();
        assert!(refusal(&dir).is_none());
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
