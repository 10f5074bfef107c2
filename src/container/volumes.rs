//! A container's volumes: prepared at its creation, mounted at its start, reported by events, released at its removal.

use super::spec::{self, Mount, MountKind, Spec};
use super::{Confinement, Finder, Labelling, Monitors, Places, Register, Snapshot};
use crate::error::{Error, ErrorKind, Result};
use crate::kernel::mount::Below;
use crate::kernel::path::{IN_ROOT, openat2};
use crate::launch::plan;
use crate::launch::plan::MAX_VOLUMES;
use crate::model::{CreateVolume, Event, HostConfig};
use crate::order::Order as _;
use crate::store::volumes as table;
use crate::volume::{self, Source, Staged, Volumes};
use rusqlite::Transaction;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// A volume or an image of a container that starts: no other start mounts the volume meanwhile.
pub(super) struct HeldVolume {
    /// A mount namespace with nothing but its file system.
    pub namespace: OwnedFd,
    /// Of a volume: images do not change.
    _lock: Option<OwnedFd>,
}

/// The anonymous volumes of a container.
pub(super) fn unnamed(spec: &Spec) -> impl Iterator<Item = &Mount> {
    spec.mounts.iter().filter(|mount| mount.kind == MountKind::Volume && mount.anonymous)
}

/// The volumes of containers: made at the creation, mounted at the start.
pub(crate) struct VolumeMounts {
    pub(super) places: Arc<Places>,
    pub(super) register: Arc<Register>,
    pub(super) monitors: Arc<Monitors>,
    pub(super) finder: Arc<Finder>,
    pub(super) labels: Arc<Labelling>,
    pub(super) confinement: Arc<Confinement>,
    pub(super) volumes: Arc<Volumes>,
}

impl VolumeMounts {
    /// The mounts that VolumesFrom names. Errors: no such container, a bad mode.
    pub(super) fn inherited(&self, host: &HostConfig) -> Result<Vec<Mount>> {
        let mut mounts: Vec<Mount> = Vec::new();
        for (name, writable) in spec::volumes_from(host)? {
            let other = self.finder.find(&name).map_err(|error| match error.kind() {
                ErrorKind::NotFound => error.with_kind(ErrorKind::Invalid),
                _ => error,
            })?;
            for theirs in &other.spec.mounts {
                mounts.retain(|mount| mount.target != theirs.target);
                mounts.push(spec::taken_over(theirs, writable));
            }
        }
        Ok(mounts)
    }

    /// Names and stages the volumes of a new container; empty ones are filled from its image.
    pub(super) fn stage_volumes(&self, spec: &mut Spec) -> Result<Vec<Staged<'_>>> {
        let mut staged = Vec::new();
        let mut image = None;
        for mount in spec.mounts.iter_mut().filter(|mount| mount.kind == MountKind::Volume) {
            if mount.name.is_empty() {
                mount.name = volume::new_name()?;
            }
            // Files that are copied into a directory under another mount would not be visible.
            let elsewhere = mount.made_with.driver_config.as_ref().is_some_and(|driver| !driver.options.is_empty());
            let taken_over = mount.no_copy || !mount.source.is_empty() || !mount.part.is_empty() || elsewhere;
            mount.source = self.volumes.dirs.mountpoint(&mount.name).to_string_lossy().into_owned();
            let driver = self.volume_driver(mount)?;
            let content = if taken_over || driver.is_some() {
                None
            } else {
                let root = match &mut image {
                    Some(root) => root,
                    none => none.insert(self.places.root_before(&spec.image_id)?),
                };
                directory_in(root, &mount.target)?
            };
            let one = match driver {
                None => self.volumes.stager.stage(&mount.name, content.as_ref())?,
                Some(driver) => self.stage_remote(mount, driver)?,
            };
            staged.push(one.made_with(&mount.made_with));
        }
        Ok(staged)
    }

    /// The plugin of a volume, or of one that is about to be made.
    fn volume_driver(&self, mount: &Mount) -> Result<Option<String>> {
        if let Some(driver) = self.volumes.remote.driver(&mount.name)? {
            return Ok(Some(driver));
        }
        let asked = mount.made_with.driver_config.as_ref().map(|driver| driver.name.clone());
        Ok(asked.filter(|driver| volume::is_plugin(driver)))
    }

    /// Lets a plugin make the volume of a mount, if it is new.
    fn stage_remote(&self, mount: &mut Mount, driver: String) -> Result<Staged<'_>> {
        let wrong = |error: Error| error.context(format_args!("create {}", mount.name));
        let options = mount.made_with.driver_config.as_ref().map(|asked| asked.options.clone());
        let body = CreateVolume { driver: driver.clone(), driver_opts: options, ..CreateVolume::default() };
        let staged = self.volumes.stager.stage_with(&mount.name, None, &body).map_err(wrong)?;
        mount.plugin = driver;
        Ok(staged)
    }

    /// Lets plugins unmount the volumes of a container that does not run.
    pub(super) fn release(&self, found: &Snapshot) -> Result<()> {
        self.volumes.remote.release(&found.row.id, volumes(&found.spec).map(|mount| mount.name.clone()))
    }

    /// Gives staged volumes to the container; returns the names of the new ones.
    pub(super) fn take_volumes(
        &self,
        tx: &Transaction<'_>,
        id: &str,
        staged: &mut [Staged<'_>],
    ) -> Result<Vec<String>> {
        let mut new = Vec::new();
        for staged in staged {
            if self.volumes.stager.take(tx, staged, id)? {
                new.push(staged.name().to_owned());
            }
        }
        Ok(new)
    }

    /// Writes the events of new volumes.
    pub(super) fn emit_created(&self, new: &[String]) -> Result<()> {
        new.iter().try_for_each(|name| self.volumes.register.event("create", name, &[]))
    }

    /// A volume in the form of the plan.
    pub(super) fn volume_mount(&self, found: &Snapshot, mount: spec::Mount) -> Result<plan::Mount> {
        let missing = |error: Error| error.with_kind(ErrorKind::Internal);
        let source = self.volumes.mounter.source_for(&mount.name, &found.row.id).map_err(missing)?;
        match source {
            Source::Directory { path, below, recursive, attributes, own } => Ok(plan::Mount::Bind {
                source: path,
                target: mount.target,
                attributes: mount.flags | attributes,
                propagation: libc::MS_PRIVATE,
                propagate_below: recursive,
                recursive: true,
                make_source: false,
                read_only_below: false,
                own_ids: own,
                part: Below::of(&below, &mount.part),
            }),
            source if shares(&found.spec, &mount.name, &source) => Ok(plan::Mount::Volume {
                index: self.held_place(&found.spec, &mount)?,
                name: mount.name,
                target: mount.target,
                part: mount.part,
                attributes: mount.flags,
                own_ids: source.has_own_ids(),
            }),
            Source::FileSystem { kind, device, mut options, attributes } => {
                if !volume::names_label(&options) {
                    options.extend(self.labels.volume_context(&found.spec, &mount)?);
                }
                Ok(plan::Mount::FileSystem {
                    kind,
                    source: device,
                    target: mount.target,
                    attributes: mount.flags | attributes,
                    propagation: 0,
                    options,
                })
            }
        }
    }

    /// Mounts that all containers of a volume share, for a start of this one: copied from a running container, or new.
    pub(super) fn hold_volumes(&self, found: &Snapshot) -> Result<Vec<HeldVolume>> {
        // Plugins unmount the volumes that an earlier life of the container had mounted.
        self.release(found)?;
        let names = self.shared_volumes(&found.spec)?;
        let images = mounted_images(&found.spec);
        if names.len() + images.len() > MAX_VOLUMES {
            return Err(Error::unsupported(format!(
                "a container takes at most {MAX_VOLUMES} mounts of images, and of volumes that are a tmpfs, ramfs or overlay"
            )));
        }
        let uid = self.confinement.users(&found.spec).map(|users| (users.uid, users.gid));
        let label = self.labels.volume_label(&found.spec)?;
        let hold = |name: String| {
            let lock = self.volumes.dirs.lock(&name)?;
            let namespace = match self.mounted_volume(&name)? {
                Some(namespace) => namespace,
                None => self.volumes.mounter.mount_alone(&name, uid, label.as_deref())?,
            };
            Ok(HeldVolume { namespace, _lock: Some(lock) })
        };
        let volumes = names.into_iter().map(hold);
        let image = |id: &str| Ok(HeldVolume { namespace: self.image_alone(&found.spec, id)?, _lock: None });
        volumes.chain(images.into_iter().map(image)).collect()
    }

    /// The place of a file system among those that a start holds ([`Self::hold_volumes`]): volumes first, then images.
    pub(super) fn held_place(&self, spec: &Spec, mount: &Mount) -> Result<u32> {
        let shared = self.shared_volumes(spec)?;
        let place = match mount.kind {
            MountKind::Image => {
                let images = mounted_images(spec);
                images.iter().position(|id| *id == mount.source).map(|place| shared.len() + place)
            }
            _ => shared.iter().position(|name| *name == mount.name),
        };
        let missing = || Error::internal(format!("the mount on {} is not among those that are held", mount.target));
        place.and_then(|place| u32::try_from(place).ok()).ok_or_else(missing)
    }

    /// In the order in which starts lock them.
    fn shared_volumes(&self, spec: &Spec) -> Result<Vec<String>> {
        let mut names: Vec<String> = Vec::new();
        for mount in volumes(spec).filter(|mount| mount.driver() == volume::LOCAL) {
            let source =
                self.volumes.mounter.source(&mount.name).map_err(|error| error.with_kind(ErrorKind::Internal))?;
            if shares(spec, &mount.name, &source) {
                names.push(mount.name.clone());
            }
        }
        names.order();
        names.dedup();
        Ok(names)
    }

    /// The mount namespace of a volume that a running container has mounted.
    pub(super) fn mounted_volume(&self, name: &str) -> Result<Option<OwnedFd>> {
        for id in self.register.db.read(|tx| table::users(tx, name))? {
            let Some(user) = self.finder.find(&id).ok().filter(|user| user.now.is_live()) else { continue };
            match self.monitors.control(&user).and_then(|control| control.volume(name)) {
                Ok(namespace) => return Ok(Some(namespace)),
                Err(error) if error.is(libc::ENOSYS) => {
                    return Err(Error::unsupported(format!(
                        "volume {name} is in use by container {id}, which an earlier version started: restart it to share it"
                    )));
                }
                // The container has ended meanwhile, or its volume was chosen after its start.
                Err(error) if matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Conflict) => {}
                Err(error) if error.is(libc::ENOENT) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }
}

/// The images that a container mounts, each once, in the order in which a start holds them.
fn mounted_images(spec: &Spec) -> Vec<&str> {
    let mut ids: Vec<&str> = images(spec).map(|mount| mount.source.as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// The mounts of images.
pub(super) fn images(spec: &Spec) -> impl Iterator<Item = &Mount> {
    spec.mounts.iter().filter(|mount| mount.kind == MountKind::Image)
}

/// Whether a container mounts a volume out of a mount namespace that has the volume's file system alone: all containers
/// share it, or a part of it is mounted, which is found below the whole.
fn shares(spec: &Spec, name: &str, source: &Source) -> bool {
    let in_parts = || volumes(spec).any(|mount| mount.name == name && !mount.part.is_empty());
    source.is_shared() || matches!(source, Source::FileSystem { .. }) && in_parts()
}

/// Mount attributes for reading a tree: no program in it is executed, and no device is opened.
pub(super) const READ_ATTRIBUTES: u64 =
    libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NODEV | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NOEXEC;

/// The image's directory at a volume's target. Errors: the target is a file, not a directory.
fn directory_in(root: &OwnedFd, target: &str) -> Result<Option<OwnedFd>> {
    match openat2(root.as_fd(), target, libc::O_RDONLY | libc::O_DIRECTORY, 0, IN_ROOT) {
        Ok(dir) => Ok(Some(dir)),
        Err(error) => match error.raw_os_error() {
            Some(libc::ENOENT) => Ok(None),
            Some(libc::ENOTDIR) => {
                let text = format!("cannot mount volume over existing file, file exists {target}");
                Err(Error::new(ErrorKind::Internal, text).in_area("container"))
            }
            _ => Err(error),
        },
    }
}

/// The actors of the events "mount" and "unmount" of a container's volumes, as the monitor writes them.
pub(super) fn actors(found: &Snapshot) -> Vec<(String, String)> {
    let event = |mount: &Mount, action: &str| {
        let event = volume_event(mount, action, &found.row.id);
        let actor = serde_json::to_string(&event.actor).unwrap_or_default();
        format!("\"Actor\":{actor}")
    };
    volumes(&found.spec).map(|mount| (event(mount, "mount"), event(mount, "unmount"))).collect()
}

/// The event of a volume of a container.
pub(super) fn volume_event(mount: &Mount, action: &str, container: &str) -> Event {
    let writable = (!mount.read_only).to_string();
    let mut extras = vec![("container", container)];
    if action == "mount" {
        extras.extend([("destination", mount.target.as_str()), ("propagation", ""), ("read/write", &writable)]);
    }
    Event::volume(action, &mount.name, mount.driver(), &extras)
}

pub(super) fn volumes(spec: &Spec) -> impl Iterator<Item = &Mount> {
    spec.mounts.iter().filter(|mount| mount.kind == MountKind::Volume)
}
