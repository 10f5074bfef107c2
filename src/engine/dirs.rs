//! The two directories of an engine: `root` stays, `run` ends with the boot. Only their owner may enter them, because
//! they contain files that containers wrote, including setuid ones.

use super::Options;
use crate::error::{Error, ErrorKind, Result};
use crate::network;
use crate::store::Db;
use crate::store::identity::{self, Ask, Claim};
use crate::store::states::boot_id;
use crate::store::unfinished;
use crate::walls::Wall;
use sha2::{Digest, Sha256};
use std::fs::{OpenOptions, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The files that mark a directory as an engine root: each version makes one of them before all others.
const MARKS: [&str; 2] = [identity::NAME, Db::NAME];
/// The only directory that an empty file system may hold.
const NOTHING: &str = "lost+found";

/// The root directory by its canonical path, made (mode 0700) if missing. Errors: the directory has files, and is not
/// an engine's.
pub(super) fn root(options: &Options) -> Result<PathBuf> {
    let none = || Error::not_found(format!("there is no engine root at {}", options.root.display())).in_area("root");
    if !options.create && !options.root.exists() {
        return Err(none());
    }
    let root = identity::made(&options.root)?;
    unfinished::refusal(&root).map_or(Ok(()), Err)?;
    let failed = |e: &std::io::Error| Error::io(format_args!("read directory {}", root.display()), e);
    let mut strange = None;
    for entry in std::fs::read_dir(&root).map_err(|e| failed(&e))? {
        let name = entry.map_err(|e| failed(&e))?.file_name();
        if MARKS.iter().any(|mark| name == *mark) {
            narrow(&root, 0o700)?;
            return Ok(root);
        }
        strange = strange.or((name != NOTHING).then_some(name));
    }
    match strange {
        None if !options.create => Err(none()),
        None => narrow(&root, 0o700).map(|()| root),
        Some(name) => Err(Error::invalid(format!(
            "{} is not an engine root and is not empty (it holds {}): name an empty directory, or one that does not exist",
            root.display(),
            name.to_string_lossy()
        ))
        .in_area("root")),
    }
}

/// Claims the root's identity and its run directory: that of the options, or the one that other programs use now, or a
/// new one below `/run/coracle`.
pub(super) fn claim(options: &Options, root: &Path, db: &Db) -> Result<Claim> {
    let claim = identity::claim(&Ask {
        root,
        run: options.run_dir.as_deref(),
        default_run: &Path::new("/run/coracle").join(name_of(root)),
        first_id: &network::default_id(db)?,
        boot: boot_id()?,
    })?;
    // Others may pass through an existing one, to a socket that the host program keeps in it.
    narrow(&claim.run, 0o711)?;
    Ok(claim)
}

fn name_of(root: &Path) -> String {
    crate::hex::encode(&Sha256::digest(root.as_os_str().as_bytes())[..8])
}

/// Removes permissions beyond `widest` from a directory that another program made (a package, systemd's
/// `StateDirectory=`).
pub(super) fn narrow(path: &Path, widest: u32) -> Result<()> {
    if !Wall::RootModes.stands() {
        return Ok(());
    }
    let failed = |e: &std::io::Error| Error::io(format_args!("look at directory {}", path.display()), e);
    // By descriptor: the directory cannot be exchanged between the check and the change.
    let how = libc::O_DIRECTORY | libc::O_NOFOLLOW;
    let dir = OpenOptions::new().read(true).custom_flags(how).open(path).map_err(|e| failed(&e))?;
    let found = dir.metadata().map_err(|e| failed(&e))?;
    let refused = |why: &str| {
        Error::new(ErrorKind::Forbidden, format!("directory {}: {why}: name one of the engine's own", path.display()))
    };
    let me = nix::unistd::geteuid().as_raw();
    if found.uid() != me {
        return Err(refused(&format!("it belongs to user {}, not to {me}, the opening user", found.uid())));
    }
    let mode = found.mode() & 0o7777;
    if mode & !widest == 0 {
        return Ok(());
    }
    // Sticky: a directory for everybody, such as /tmp.
    if mode & 0o1000 != 0 {
        return Err(refused(&format!("it is for others to use (mode {mode:o})")));
    }
    let narrowed = dir.set_permissions(Permissions::from_mode(mode & widest));
    narrowed.map_err(|e| refused(&format!("others may look into it (mode {mode:o}), and that cannot be ended: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_names_its_run_directory() {
        assert_eq!(name_of(Path::new("/var/lib/coracle")).len(), 16);
        assert_ne!(name_of(Path::new("/a")), name_of(Path::new("/b")));
    }

    #[test]
    fn open_narrows_or_refuses_a_directory_that_others_may_read() {
        let dir = std::env::temp_dir().join(format!("coracle-dirs-{}", std::process::id()));
        let set = |mode| std::fs::set_permissions(&dir, Permissions::from_mode(mode)).unwrap();
        let mode = || std::fs::metadata(&dir).unwrap().mode() & 0o7777;
        std::fs::create_dir(&dir).unwrap();
        for (before, widest, after) in [(0o755, 0o700, 0o700), (0o755, 0o711, 0o711), (0o700, 0o711, 0o700)] {
            set(before);
            narrow(&dir, widest).unwrap();
            assert_eq!(mode(), after);
        }
        set(0o1777);
        let error = narrow(&dir, 0o700).unwrap_err();
        assert!(error.message().contains("for others to use") && mode() == 0o1777, "{error}");
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
