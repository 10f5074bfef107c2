//! The directories of plugins: one in the run directory, for sockets and FIFOs, and one in the root, for propagated mounts.

use super::config::Config;
use crate::error::{Error, Result};
use crate::kernel::turn::{LONGEST, wait_for};
use crate::kernel::{remove, tree};
use crate::op::Op;
use crate::plugin::{MANAGED, ManagedPlaces};
use nix::errno::Errno;
use nix::mount::{MntFlags, umount2};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// So many digits of a plugin's id name its directories: the path of a socket has 107 bytes.
const DIGITS: usize = 16;

/// The paths of plugins.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    root: PathBuf,
    run: PathBuf,
}

/// Held while a plugin changes.
pub(super) struct Busy(#[expect(dead_code, reason = "the lock goes with the file")] File);

impl Places {
    pub(crate) fn new(root: &Path, run: &Path) -> Places {
        Places { root: root.join(MANAGED), run: run.join(MANAGED) }
    }

    fn short(id: &str) -> &str {
        id.get(..DIGITS).unwrap_or(id)
    }

    /// The directory of the plugin's socket on the host.
    pub(super) fn run(&self, id: &str) -> PathBuf {
        self.run.join(Places::short(id))
    }

    /// The directory of FIFOs on the host.
    pub(super) fn fifos(&self, id: &str) -> PathBuf {
        self.run.join(format!("{}-logging", Places::short(id)))
    }

    /// The directory on the host of the plugin's own mounts.
    pub(super) fn propagated(&self, id: &str) -> PathBuf {
        self.root.join(Places::short(id)).join("mounts")
    }

    pub(super) fn socket(&self, id: &str, config: &Config) -> PathBuf {
        self.run(id).join(&config.interface.socket)
    }

    pub(super) fn shared(&self, id: &str, config: &Config) -> ManagedPlaces {
        ManagedPlaces {
            propagated: config.propagated_mount.clone().into(),
            on_host: self.propagated(id),
            fifos: self.fifos(id),
        }
    }

    /// Makes the directories of a plugin, and removes an old socket.
    pub(super) fn make(&self, id: &str, config: &Config) -> Result<()> {
        let mut dirs = vec![self.run(id), self.fifos(id)];
        dirs.extend((!config.propagated_mount.is_empty()).then(|| self.propagated(id)));
        for dir in dirs {
            make_dir(&dir)?;
        }
        match std::fs::remove_file(self.socket(id, config)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::io(format_args!("remove {}", self.socket(id, config).display()), &error))
            }
            _ => Ok(()),
        }
    }

    /// Unmounts the mounts that a plugin that has ended left on the host.
    pub(super) fn unmount(&self, id: &str) -> Result<()> {
        let top = self.propagated(id);
        let mut left = mounts_below(&top)?;
        // The last ones lie above the others.
        left.reverse();
        for place in left {
            match umount2(&place, MntFlags::MNT_DETACH | MntFlags::UMOUNT_NOFOLLOW) {
                // The mount went with the plugin's own mounts meanwhile.
                Ok(()) | Err(Errno::ENOENT | Errno::EINVAL) => {}
                Err(errno) => return Err(Error::os(format_args!("unmount {}", place.display()), errno as i32)),
            }
        }
        Ok(())
    }

    /// Removes the directories of a plugin that is not there any more.
    pub(super) fn remove(&self, id: &str) -> Result<()> {
        self.unmount(id)?;
        for (parent, name) in [
            (&self.run, Places::short(id).to_owned()),
            (&self.run, format!("{}-logging", Places::short(id))),
            (&self.root, Places::short(id).to_owned()),
        ] {
            match tree::open_dir(parent).and_then(|dir| remove::remove_tree(dir.as_fd(), &name)) {
                Err(error) if !error.is(libc::ENOENT) => return Err(error),
                _ => {}
            }
        }
        let _ = std::fs::remove_file(self.lock_path(id));
        Ok(())
    }

    /// The beginnings of the ids of all plugins that have directories.
    pub(super) fn all(&self) -> Result<BTreeSet<String>> {
        let mut all = BTreeSet::new();
        for parent in [&self.root, &self.run] {
            let entries = match std::fs::read_dir(parent) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                other => other.map_err(|error| Error::io(format_args!("read {}", parent.display()), &error))?,
            };
            for entry in entries {
                let entry = entry.map_err(|error| Error::io(format_args!("read {}", parent.display()), &error))?;
                let name = entry.file_name().to_string_lossy().into_owned();
                let short = name.trim_end_matches("-logging");
                if short.len() == DIGITS && short.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                    all.insert(short.to_owned());
                }
            }
        }
        Ok(all)
    }

    fn lock_path(&self, id: &str) -> PathBuf {
        self.run.join(format!("{}.lock", Places::short(id)))
    }

    /// Waits until no other call changes the plugin.
    pub(super) fn busy(&self, id: &str, op: Option<&Op>) -> Result<Busy> {
        wait_for(format_args!("plugin {}", Places::short(id)), LONGEST, op, || self.try_busy(id))
    }

    /// The right to change the plugin; `None`: another call has it.
    pub(super) fn try_busy(&self, id: &str) -> Result<Option<Busy>> {
        make_dir(&self.run)?;
        let path = self.lock_path(id);
        let failed = |error: &std::io::Error| Error::io(format_args!("lock {}", path.display()), error);
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file = file.map_err(|error| failed(&error))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Busy(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(failed(&error)),
        }
    }
}

fn make_dir(dir: &Path) -> Result<()> {
    // The directories above are for their owner alone; a plugin with a user of its own sees this one.
    let made = DirBuilder::new().recursive(true).mode(0o755).create(dir);
    made.map_err(|error| Error::io(format_args!("make {}", dir.display()), &error))
}

/// The mounts at and below a directory, in the order in which they were made. A plugin may mount at the directory itself, too.
fn mounts_below(dir: &Path) -> Result<Vec<PathBuf>> {
    let path = "/proc/thread-self/mountinfo";
    let text = std::fs::read(path).map_err(|e| Error::io(format_args!("read {path}"), &e))?;
    let places = text.split(|byte| *byte == b'\n').filter_map(|line| line.split(|byte| *byte == b' ').nth(4));
    Ok(places.map(unescaped).filter(|place| place.starts_with(dir)).collect())
}

/// A path of mountinfo: `\NNN` is a byte in octal digits.
fn unescaped(text: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, behind)) = rest.split_first() {
        let octal =
            behind.get(..3).filter(|digits| first == b'\\' && digits.iter().all(|one| matches!(one, b'0'..=b'7')));
        let value = octal.map(|digits| digits.iter().fold(0u32, |sum, one| sum * 8 + u32::from(one - b'0')));
        let (byte, next) = match value.and_then(|value| u8::try_from(value).ok()) {
            Some(byte) => (byte, behind.get(3..).unwrap_or_default()),
            None => (first, behind),
        };
        bytes.push(byte);
        rest = next;
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::mount;
    use nix::mount::{MsFlags, mount};
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn mounts_with_any_name_end_with_their_plugin() {
        let top = std::env::temp_dir().join(format!("coracle-places-{}", std::process::id()));
        let places = Places::new(&top, &top.join("run"));
        let id = "0123456789abcdef0123";
        let own = places.propagated(id);
        let names: [&[u8]; 5] = [b"a b", b"a\nb", b"back\\040slash", b"not\xffutf8", b"#hash\t"];
        let done = mount::in_thread(|| {
            let _namespace = mount::unshare()?;
            make_dir(&own)?;
            // At the directory itself, too.
            mount(Some("x"), &own, Some("tmpfs"), MsFlags::empty(), None::<&str>).expect("mount");
            for name in names {
                let place = own.join(OsStr::from_bytes(name));
                std::fs::create_dir(&place).expect("a directory");
                mount(Some("x"), &place, Some("tmpfs"), MsFlags::empty(), None::<&str>).expect("mount");
            }
            assert_eq!(mounts_below(&own)?.len(), 6);
            make_dir(&places.run)?;
            assert_eq!(places.all()?.into_iter().collect::<Vec<_>>(), ["0123456789abcdef"]);
            places.remove(id)?;
            assert!(mounts_below(&own)?.is_empty() && places.all()?.is_empty());
            Ok(())
        });
        std::fs::remove_dir_all(&top).expect("remove");
        done.expect("unmounted");
    }
}
