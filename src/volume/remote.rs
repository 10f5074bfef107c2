//! Volumes whose driver is a plugin (`VolumeDriver`).
//!
//! A volume of a plugin has a row and a directory like any other. In place of files, the directory has the file `driver`, the plugin's
//! name, and in `mounts` a file for each container that the plugin has mounted the volume for. So what a killed program left is
//! known to the next one.

use super::dirs::VolumeDirs;
use super::{LOCAL, check_name};
use crate::error::{Error, ErrorKind, Result};
use crate::kernel::tree;
use crate::model::{StringMap, Volume};
use crate::plugin::{HostPlace, Plugin, Plugins};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

const DRIVER: &str = "driver";
const MOUNTS: &str = "mounts";

/// The volumes of plugins.
pub(crate) struct RemoteVolumes {
    pub(super) dirs: Arc<VolumeDirs>,
    pub(super) plugins: Arc<Plugins>,
}

/// The answer to Mount, and to Path; a part of that to Get.
#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct Mounted {
    mountpoint: Option<String>,
    /// In the answer to Get alone.
    status: Option<BTreeMap<String, serde_json::Value>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct Got {
    volume: Option<Mounted>,
}

/// The answer to List.
#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct Listed {
    volumes: Option<Vec<ListedVolume>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct ListedVolume {
    name: String,
    mountpoint: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct Capable {
    capabilities: Option<Scope>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct Scope {
    scope: Option<String>,
}

impl RemoteVolumes {
    /// The plugin of a volume; `None`: the volume is local, or there is none of that name.
    pub(crate) fn driver(&self, name: &str) -> Result<Option<String>> {
        let is_none = |error: &Error| error.is(libc::ENOENT) || error.is(libc::ENOTDIR);
        // No volume has a name that is more than one.
        if check_name(name).is_err() {
            return Ok(None);
        }
        let volume = match tree::open_dir_at(self.dirs.volumes.as_fd(), name) {
            Err(error) if is_none(&error) => return Ok(None),
            other => other?,
        };
        let file = match tree::open_at(volume.as_fd(), DRIVER, libc::O_RDONLY, 0) {
            Err(error) if is_none(&error) => return Ok(None),
            other => std::fs::File::from(other?),
        };
        let mut driver = String::new();
        let read = file.take(256).read_to_string(&mut driver);
        read.map_err(|e| Error::io(format_args!("read the driver of volume {name}"), &e))?;
        Ok(Some(driver))
    }

    /// Finds the plugin of that name. Errors: it is not there.
    pub(crate) fn find(&self, driver: &str) -> Result<Plugin> {
        let found = self.plugins.find(driver, "VolumeDriver");
        found.map_err(|error| error.context(format_args!("error looking up volume plugin {driver}")))
    }

    /// Lets a plugin make a volume; answers whether it is new there. Errors: those of the plugin.
    pub(super) fn create(&self, driver: &str, name: &str, options: &StringMap) -> Result<bool> {
        let plugin = self.find(driver)?;
        // A plugin keeps volumes that other engines made.
        let is_new = match plugin.call::<Got>("VolumeDriver.Get", &json!({ "Name": name })) {
            Ok(_) => false,
            // An error does not say that there is none: the undoing of a create must not remove a volume that was there.
            Err(error) => error.kind() != ErrorKind::Timeout && lacks(&plugin, name),
        };
        plugin.call::<Value>("VolumeDriver.Create", &json!({ "Name": name, "Opts": options }))?;
        Ok(is_new)
    }

    /// Lets the plugin remove its volume. A plugin that has no such volume, as after a removal whose program was killed, is done.
    pub(super) fn remove(&self, driver: &str, name: &str) -> Result<()> {
        let asked = json!({ "Name": name });
        let plugin = self.find(driver).map_err(|error| error.context(format_args!("remove {name}")))?;
        match plugin.call::<Value>("VolumeDriver.Remove", &asked) {
            Err(error) if error.kind() != ErrorKind::Timeout && lacks(&plugin, name) => Ok(()),
            other => other.map(drop).map_err(|error| error.context(format_args!("remove {name}"))),
        }
    }

    /// Notes the plugin in the directory of a new volume.
    pub(super) fn note(&self, volume: impl AsFd, driver: &str) -> Result<()> {
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL;
        let file = tree::open_at(volume.as_fd(), DRIVER, flags, 0o600)?;
        let mut file = std::fs::File::from(file);
        let written = file.write_all(driver.as_bytes()).and_then(|()| file.sync_all());
        written.map_err(|e| Error::io("note the driver of a volume", &e))
    }

    /// Fills in the plugin's part of a volume's document. A plugin that is slow or gone leaves the document as it is.
    pub(super) fn describe(&self, volume: &mut Volume, driver: &str) {
        without_place(volume, driver);
        let Ok(plugin) = self.hurried(driver) else { return };
        if let Ok(got) = plugin.call::<Got>("VolumeDriver.Get", &json!({ "Name": volume.name })) {
            let got = got.volume.unwrap_or_default();
            volume.status = got.status.filter(|status| !status.is_empty());
            volume.mountpoint = shown_path(&plugin, got.mountpoint.unwrap_or_default());
        }
        volume.scope = scope(&plugin);
    }

    /// As [`RemoteVolumes::describe`], of all volumes of a plugin: it is asked once.
    pub(super) fn describe_all(&self, volumes: &mut [&mut Volume], driver: &str) {
        volumes.iter_mut().for_each(|volume| without_place(volume, driver));
        let Ok(plugin) = self.hurried(driver) else { return };
        let Ok(listed) = plugin.call::<Listed>("VolumeDriver.List", &json!({})) else { return };
        let scope = scope(&plugin);
        let places: BTreeMap<String, String> = listed
            .volumes
            .unwrap_or_default()
            .into_iter()
            .map(|one| (one.name, one.mountpoint.unwrap_or_default()))
            .collect();
        for volume in volumes {
            volume.scope.clone_from(&scope);
            if let Some(place) = places.get(&volume.name) {
                volume.mountpoint = shown_path(&plugin, place.clone());
            }
        }
    }

    fn hurried(&self, driver: &str) -> Result<Plugin> {
        RemoteVolumes { dirs: self.dirs.clone(), plugins: Arc::new(self.plugins.hurried()) }.find(driver)
    }

    /// Says in the directory of a volume without a row, which becomes a new volume's, which driver has the volume now.
    pub(super) fn adopt(&self, volume: impl AsFd, driver: Option<&str>) -> Result<()> {
        match tree::unlink_at(volume.as_fd(), DRIVER) {
            Err(error) if !error.is(libc::ENOENT) => return Err(error),
            _ => {}
        }
        driver.map_or(Ok(()), |driver| self.note(volume, driver))
    }

    /// The directory where a plugin shows a volume now.
    pub(crate) fn path(&self, driver: &str, name: &str) -> Result<HostPlace> {
        let plugin = self.find(driver)?;
        directory(&plugin, "VolumeDriver.Path", &json!({ "Name": name }))
    }

    /// Mounts a volume for a container that starts, unless it is mounted for the container already; answers the directory.
    pub(crate) fn mount(&self, driver: &str, name: &str, container: &str) -> Result<HostPlace> {
        let wrong = |error: Error| {
            let error = error.context(format_args!("error while mounting volume '{name}'"));
            error.with_kind(ErrorKind::Internal)
        };
        let mounts = self.dirs.mountpoint(name).with_file_name(MOUNTS);
        tree::make_dir(&mounts, 0o700)?;
        let mark = mounts.join(container);
        if mark.exists() {
            return self.path(driver, name).map_err(wrong);
        }
        // The mark comes first: a program that is killed in between has the volume unmounted once too often.
        std::fs::write(&mark, "").map_err(|e| Error::io(format_args!("write {}", mark.display()), &e))?;
        let asked = json!({ "Name": name, "ID": container });
        let mounted = self.find(driver).and_then(|plugin| directory(&plugin, "VolumeDriver.Mount", &asked));
        mounted.map_err(|error| match self.unmount(driver, name, container) {
            Ok(()) => wrong(error),
            // The next start or the removal of the container tries again.
            Err(again) => wrong(error).explained(&again.to_string()),
        })
    }

    /// Unmounts the volumes of a container that does not run. A plugin that answers an error, or is not there, has nothing
    /// mounted for the container any more, as after a reboot. Errors: a plugin did not answer in time; the others were asked all
    /// the same.
    pub(crate) fn release(&self, container: &str, names: impl IntoIterator<Item = String>) -> Result<()> {
        let mut failed = Ok(());
        for name in names {
            let mark = self.dirs.mountpoint(&name).with_file_name(MOUNTS).join(container);
            // Most volumes have no mark: a start reads the driver of no others.
            if mark.exists()
                && let Some(driver) = self.driver(&name)?
            {
                failed = match self.unmount(&driver, &name, container) {
                    Err(error) if error.kind() != ErrorKind::Timeout => forget(&mark),
                    other => other,
                }
                .and(failed);
            }
        }
        failed
    }

    fn unmount(&self, driver: &str, name: &str, container: &str) -> Result<()> {
        let asked = json!({ "Name": name, "ID": container });
        self.find(driver)?.call::<Value>("VolumeDriver.Unmount", &asked)?;
        forget(&self.dirs.mountpoint(name).with_file_name(MOUNTS).join(container))
    }
}

/// Removes the mark of a mount.
fn forget(mark: &Path) -> Result<()> {
    match std::fs::remove_file(mark) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::io(format_args!("remove {}", mark.display()), &error))
        }
        _ => Ok(()),
    }
}

/// Whether a driver's name means a plugin.
pub(crate) fn is_plugin(driver: &str) -> bool {
    !driver.is_empty() && driver != LOCAL
}

/// The document of a volume whose plugin has said nothing yet.
fn without_place(volume: &mut Volume, driver: &str) {
    driver.clone_into(&mut volume.driver);
    volume.mountpoint = String::new();
}

/// The scope of a plugin's volumes. Plugins that do not say it are local.
fn scope(plugin: &Plugin) -> String {
    let can = plugin.call::<Capable>("VolumeDriver.Capabilities", &json!({})).unwrap_or_default();
    let scope = can.capabilities.and_then(|can| can.scope).map(|scope| scope.to_ascii_lowercase());
    scope.filter(|scope| scope == "global").unwrap_or_else(|| "local".into())
}

/// Whether a plugin says that it has no volume of that name.
fn lacks(plugin: &Plugin, name: &str) -> bool {
    let listed = plugin.call::<Listed>("VolumeDriver.List", &json!({}));
    listed.is_ok_and(|listed| listed.volumes.unwrap_or_default().iter().all(|one| one.name != name))
}

/// A path that a plugin named, as the host sees it; one that the host does not see stays as it is.
fn shown_path(plugin: &Plugin, path: String) -> String {
    let on_host = plugin.places.as_ref().and_then(|places| places.host_place(&path).ok());
    on_host.map_or(path, |place| place.dir.join(place.below).display().to_string())
}

/// The directory on the host of an answer. Errors: none, or a path that is not absolute, has `..`, or is not seen by the host.
fn directory(plugin: &Plugin, method: &str, asked: &Value) -> Result<HostPlace> {
    let mounted: Mounted = plugin.call(method, asked)?;
    let text = mounted.mountpoint.unwrap_or_default();
    let path = Path::new(&text);
    let plain = path.is_absolute() && path.components().all(|part| part != std::path::Component::ParentDir);
    if !plain || path.parent().is_none() {
        return Err(Error::internal(format!("{method}: the plugin's Mountpoint {text:?} is not a directory's path")));
    }
    match &plugin.places {
        Some(places) => places.host_place(&text).map_err(|error| error.context(method)),
        // A plugin that runs outside of the engine has the rights of the host.
        None => Ok(HostPlace { dir: path.to_owned(), below: String::new() }),
    }
}
