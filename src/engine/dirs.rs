//! The two directories of an engine: `root` stays, `run` ends with the boot.

use super::Options;
use crate::error::{Error, Result};
use sha2::{Digest, Sha256};
use std::fs::DirBuilder;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The root directory by its one true name, made (mode 0700) if missing.
pub(super) fn root(options: &Options) -> Result<PathBuf> {
    made(&options.root)
}

/// The run directory of `root`, made (mode 0700) if missing: as the options say, or one of its own under
/// `/run/coracle`, so that every program finds the same for the same root.
pub(super) fn run(options: &Options, root: &Path) -> Result<PathBuf> {
    match &options.run_dir {
        Some(dir) => made(dir),
        None => made(&Path::new("/run/coracle").join(name_of(root))),
    }
}

fn name_of(root: &Path) -> String {
    Sha256::digest(root.as_os_str().as_bytes()).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
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
