//! The sources that containers mount for volumes.

use super::dirs::VolumeDirs;
use super::options::{self, Source, document, names_label, pairs};
use super::register::Register;
use super::remote::RemoteVolumes;
use crate::error::{Error, ErrorKind, Result};
use crate::kernel::mount;
use crate::plugin::HostPlace;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// Finds and mounts the sources of volumes.
pub(crate) struct Mounter {
    pub(super) dirs: Arc<VolumeDirs>,
    pub(super) register: Arc<Register>,
    pub(super) remote: Arc<RemoteVolumes>,
}

impl Mounter {
    /// The source that a container mounts for a volume.
    pub(crate) fn source(&self, name: &str) -> Result<Source> {
        if let Some(driver) = self.remote.driver(name)? {
            return self.remote.path(&driver, name).map(of_plugin);
        }
        let (path, below) = (self.dirs.mountpoint(name), String::new());
        let own = Source::Directory { path, below, recursive: false, attributes: 0, own: true };
        let options = document(self.register.row(name)?.options.as_deref())?.unwrap_or_default();
        Ok(options::source(&options)?.unwrap_or(own))
    }

    /// The source that a container which starts mounts: a plugin mounts its volume for the container.
    pub(crate) fn source_for(&self, name: &str, container: &str) -> Result<Source> {
        match self.remote.driver(name)? {
            Some(driver) => self.remote.mount(&driver, name, container).map(of_plugin),
            None => self.source(name),
        }
    }

    /// Mounts the file system of a volume, in a mount namespace of its own. `owner`: the host's ids of the root of the
    /// user namespace that it is made for. `label`: the SELinux label of its files, unless its options name one.
    pub(crate) fn mount_alone(&self, name: &str, owner: Option<(u32, u32)>, label: Option<&str>) -> Result<OwnedFd> {
        let source = self.source(name)?;
        let own_ids = source.has_own_ids();
        let Source::FileSystem { kind, device, mut options, attributes } = source else {
            return Err(Error::internal(format!("volume {name} is not a file system of its own")));
        };
        if let Some((uid, gid)) = owner.filter(|_| !own_ids && kind == "tmpfs") {
            options::shift_owner(&mut options, uid, gid);
        }
        if let Some(label) = label.filter(|_| !names_label(&options)) {
            options.push(("context".to_owned(), label.to_owned()));
        }
        let mounted = mount::file_system(&kind, &device, &pairs(&options), attributes);
        mounted.and_then(|mounted| mount::alone(mounted.as_fd())).map_err(|error| {
            let place = self.dirs.mountpoint(name);
            let error = error.context(format_args!("failed to mount local volume: mount {device}:{}", place.display()));
            error
                .context(format_args!("error while mounting volume '{}'", place.display()))
                .with_kind(ErrorKind::Internal)
        })
    }
}

/// The directory that a plugin shows, with the mounts below it.
fn of_plugin(place: HostPlace) -> Source {
    let HostPlace { dir: path, below } = place;
    Source::Directory { path, below, recursive: true, attributes: 0, own: false }
}
