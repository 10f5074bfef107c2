//! The two directories of an engine: `root` stays, `run` ends with the boot.

use super::Options;
use crate::error::{Error, Result};
use crate::network::Networks;
use crate::store::Db;
use crate::store::identity::{self, Ask, Claim};
use crate::store::states::boot_id;
use sha2::{Digest, Sha256};
use std::fs::DirBuilder;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// What tells that a directory is an engine root: the first file that any version makes in it.
const MARKS: [&str; 2] = [identity::NAME, Db::NAME];
/// What an empty file system may hold.
const NOTHING: &str = "lost+found";

/// The root directory by its one true name, made (mode 0700) if missing. Errors: it holds something, and no engine's.
pub(super) fn root(options: &Options) -> Result<PathBuf> {
    let none = || Error::not_found(format!("there is no engine root at {}", options.root.display())).in_area("root");
    if !options.create && !options.root.exists() {
        return Err(none());
    }
    let root = made(&options.root)?;
    let failed = |e: &std::io::Error| Error::io(format_args!("read directory {}", root.display()), e);
    let mut strange = None;
    for entry in std::fs::read_dir(&root).map_err(|e| failed(&e))? {
        let name = entry.map_err(|e| failed(&e))?.file_name();
        if MARKS.iter().any(|mark| name == *mark) {
            return Ok(root);
        }
        strange = strange.or((name != NOTHING).then_some(name));
    }
    match strange {
        None if !options.create => Err(none()),
        None => Ok(root),
        Some(name) => Err(Error::invalid(format!(
            "{} is no engine root and is not empty (it holds {}): name an empty directory, or one that does not exist",
            root.display(),
            name.to_string_lossy()
        ))
        .in_area("root")),
    }
}

/// Who the root is, and its run directory: as the options say, or as those who use the root now, or one of its own under
/// `/run/coracle`.
pub(super) fn claim(options: &Options, root: &Path, db: &Db) -> Result<Claim> {
    identity::claim(&Ask {
        root,
        run: options.run_dir.as_deref(),
        default_run: &Path::new("/run/coracle").join(name_of(root)),
        first_id: &Networks::default_id(db)?,
        boot: boot_id()?,
    })
}

fn name_of(root: &Path) -> String {
    crate::hex::encode(&Sha256::digest(root.as_os_str().as_bytes())[..8])
}

fn made(path: &Path) -> Result<PathBuf> {
    let failed = |e: &std::io::Error| Error::io(format_args!("make directory {}", path.display()), e);
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|e| failed(&e))?;
    path.canonicalize().map_err(|e| failed(&e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_names_its_run_directory() {
        assert_eq!(name_of(Path::new("/var/lib/coracle")).len(), 16);
        assert_ne!(name_of(Path::new("/a")), name_of(Path::new("/b")));
    }
}
