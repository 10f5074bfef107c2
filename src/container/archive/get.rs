//! Stat, get, copy and export.

use super::Files;
use super::view::{Access, View};
use super::walk::{Place, Wanted};
use crate::container::volumes::{volume_event, volumes};
use crate::container::{Register, Snapshot};
use crate::error::{Error, ErrorKind, Result};
use crate::image::archive_writer::TarWriter;
use crate::kernel::tree::Stat;
use crate::model::PathStat;
use crate::op::Op;
use crate::time::rfc3339_nano;
use std::io::Write;
use std::os::fd::AsFd;
use std::sync::Arc;

/// Files of a container, about to be written as a tar: `Engine::container_archive_get`.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// let archive = engine.container_archive_get("clock", "/etc/hosts", None)?;
/// println!("{} bytes", archive.stat().size);
/// let mut tar = Vec::new();
/// archive.write_to(&mut tar, None)?;
/// # Ok::<(), coracle::Error>(())
/// ```
pub struct Archive {
    stat: PathStat,
    place: Place,
    /// The prefix of the entries' names.
    name: Vec<u8>,
    end: End,
}

/// Writes the events of the volumes when the archive is over, and keeps open the view that is read.
struct End {
    register: Arc<Register>,
    found: Snapshot,
    _view: View,
}

impl Drop for End {
    fn drop(&mut self) {
        // An archive that broke off has these events, too. A full journal must not hide the archive's own outcome.
        let _ = volume_events(&self.register, &self.found, "unmount");
    }
}

impl std::fmt::Debug for Archive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Archive").field("stat", &self.stat).finish_non_exhaustive()
    }
}

impl Archive {
    /// The file or directory at the path.
    pub fn stat(&self) -> &PathStat {
        &self.stat
    }

    /// Writes the tar. Errors: `out`'s, with [`ErrorKind::Io`]; a file that cannot be read; `op` ended.
    pub fn write_to(self, out: &mut dyn Write, op: Option<&Op>) -> Result<()> {
        let Archive { place, name, end, .. } = self;
        let mut tar = TarWriter::new(out, op);
        tar.tree(place.parent.as_fd(), &place.name, &name, &place.stat)?;
        #[cfg(feature = "attacks")]
        if !crate::walls::Wall::ArchiveNames.stands() {
            let names = crate::kernel::tree::names(place.parent.as_fd())?;
            for other in names.iter().filter(|other| other.starts_with(&place.name) && **other != place.name) {
                tar.tree(place.parent.as_fd(), other, other, &place.stat)?;
            }
        }
        tar.finish()?;
        drop(end);
        Ok(())
    }
}

impl Files {
    /// The file or directory at a path of a container.
    pub(crate) fn archive_stat(&self, reference: &str, path: &str, op: Option<&Op>) -> Result<PathStat> {
        let wanted = Wanted::parse(path)?;
        let (found, view) = self.view(reference, Access::Read, op)?;
        volume_events(&self.register, &found, "mount")?;
        let stat = wanted.find(&view.root).and_then(|place| path_stat(&wanted, &place, &view));
        volume_events(&self.register, &found, "unmount")?;
        stat.map_err(|error| explain(error, path, &found))
    }

    /// Prepares a tar of a path.
    pub(crate) fn archive_get(&self, reference: &str, path: &str, op: Option<&Op>) -> Result<Archive> {
        let wanted = Wanted::parse(path)?;
        let (found, view) = self.view(reference, Access::Read, op)?;
        let place = wanted.find(&view.root).map_err(|error| explain(error, path, &found))?;
        self.ready(found, view, &wanted, place, "archive-path")
    }

    /// The older form: a link at the end of the path is followed.
    pub(crate) fn copy(&self, reference: &str, path: &str, op: Option<&Op>) -> Result<Archive> {
        if path.is_empty() {
            return Err(Error::invalid("Path cannot be empty"));
        }
        let (found, view) = self.view(reference, Access::Read, op)?;
        let explained = |error| explain(error, path, &found);
        let real = Wanted::parse(path)?.target(&view.root).map_err(explained)?;
        let wanted = Wanted::parse(&real)?;
        let place = wanted.find(&view.root).map_err(explained)?;
        self.ready(found, view, &wanted, place, "copy")
    }

    fn ready(&self, found: Snapshot, view: View, wanted: &Wanted, place: Place, action: &str) -> Result<Archive> {
        let (name, stat) = (wanted.name().as_bytes().to_vec(), path_stat(wanted, &place, &view)?);
        volume_events(&self.register, &found, "mount")?;
        self.register.event(&found, action, &[])?;
        Ok(Archive { stat, place, name, end: End { register: self.register.clone(), found, _view: view } })
    }

    /// Writes a container's whole file system as a tar, without volumes.
    pub(crate) fn export(&self, reference: &str, out: &mut dyn Write, op: Option<&Op>) -> Result<()> {
        let (found, view) = self.view(reference, Access::ReadOwn, op)?;
        self.register.event(&found, "export", &[])?;
        let place = Wanted::parse("/")?.find(&view.root)?;
        let mut tar = TarWriter::new(out, op);
        tar.content(place.parent.as_fd())?;
        self.register.if_there(&found, Ok(()))?;
        tar.finish()
    }
}

/// Writes the events "mount" or "unmount" of a container's volumes for one call.
pub(super) fn volume_events(register: &Register, found: &Snapshot, action: &str) -> Result<()> {
    for mount in volumes(&found.spec) {
        register.journal.append(&volume_event(mount, action, &found.row.id))?;
    }
    Ok(())
}

/// The error about a path, in the words that clients know.
pub(super) fn explain(error: Error, path: &str, found: &Snapshot) -> Error {
    match error.raw_os_error() {
        Some(libc::ENOENT) => {
            Error::not_found(format!("Could not find the file {path} in container {}", found.row.name))
        }
        Some(libc::ENOTDIR) => Error::invalid(format!("{path}: not a directory")),
        Some(libc::EROFS) => error.with_kind(ErrorKind::Forbidden),
        _ => error.context(path),
    }
}

fn path_stat(wanted: &Wanted, place: &Place, view: &View) -> Result<PathStat> {
    let stat = &place.stat;
    let is_link = stat.mode & libc::S_IFMT == libc::S_IFLNK;
    Ok(PathStat {
        name: wanted.name().to_owned(),
        size: i64::try_from(stat.size).unwrap_or(i64::MAX),
        mode: go_mode(stat),
        mtime: rfc3339_nano(stat.mtime.seconds.saturating_mul(1_000_000_000).saturating_add(stat.mtime.nanos.into())),
        link_target: if is_link { wanted.target(&view.root)? } else { String::new() },
    })
}

/// A mode in the bits of Go's `os.FileMode`.
fn go_mode(stat: &Stat) -> u32 {
    let kind = match stat.mode & libc::S_IFMT {
        libc::S_IFDIR => 1 << 31,
        libc::S_IFLNK => 1 << 27,
        libc::S_IFBLK => 1 << 26,
        libc::S_IFCHR => 1 << 26 | 1 << 21,
        libc::S_IFIFO => 1 << 25,
        libc::S_IFSOCK => 1 << 24,
        _ => 0,
    };
    let special = [(libc::S_ISUID, 1 << 23), (libc::S_ISGID, 1 << 22), (libc::S_ISVTX, 1 << 20)];
    let special = special.iter().filter(|(bit, _)| stat.mode & bit != 0).fold(0, |all, (_, go)| all | go);
    stat.mode & 0o777 | kind | special
}
