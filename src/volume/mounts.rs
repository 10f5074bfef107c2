//! The sources that containers mount for volumes.

use super::dirs::VolumeDirs;
use super::options::{self, Source, document, names_label, pairs};
use super::register::Register;
use crate::error::{Error, ErrorKind, Result};
use crate::kernel::mount;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// Finds and mounts the sources of volumes.
pub(crate) struct Mounter {
    pub(super) dirs: Arc<VolumeDirs>,
    pub(super) register: Arc<Register>,
}

impl Mounter {
    /// The source that a container mounts for a volume.
    pub(crate) fn source(&self, name: &str) -> Result<Source> {
        let own = Source::Directory { path: self.dirs.mountpoint(name), recursive: false, attributes: 0, own: true };
        let options = document(self.register.row(name)?.options.as_deref())?.unwrap_or_default();
        Ok(options::source(&options)?.unwrap_or(own))
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
