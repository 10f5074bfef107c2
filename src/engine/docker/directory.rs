//! dockerd's directory: locked against a dockerd that starts, and read as untrusted input.

use super::bolt;
use super::containers::{self, Refused, Stopped};
use crate::error::{Error, Result};
use crate::hex::is_hex_id;
use crate::image::DockerStore;
use crate::kernel::file::read_bounded;
use crate::kernel::tree::{self, Lock};
use crate::model::{CreateVolume, StringMap, json_words};
use crate::order::Order as _;
use crate::volume::Volumes;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

/// The database that dockerd holds locked (flock) while it runs.
const HELD: &str = "volumes/metadata.db";
/// The greatest size of this database that is read: some ten thousand volumes.
const MAX_DATABASE: u64 = 32 << 20;
/// The largest `opts.json`.
const MAX_OPTIONS: u64 = 64 << 10;

/// dockerd's directory. No dockerd can start on it as long as this value lives.
pub(super) struct Directory {
    pub(super) path: PathBuf,
    pub(super) images: DockerStore,
    most_values: usize,
    volumes: BTreeMap<String, About>,
    _held: Option<File>,
}

/// A volume's value in dockerd's database.
#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct About {
    driver: String,
    labels: Option<StringMap>,
}

/// `opts.json` of the driver `local`.
#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct LocalOptions {
    mount_type: String,
    mount_opts: String,
    mount_device: String,
}

impl Directory {
    /// Errors: the directory does not exist, or a dockerd runs on it.
    pub(super) fn open(path: &Path, most_values: usize) -> Result<Directory> {
        let images = DockerStore::open(path, most_values)?;
        let held = match File::open(path.join(HELD)) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => None,
            held => Some(held.map_err(|e| Error::io(format_args!("open {}", path.join(HELD).display()), &e))?),
        };
        if let Some(held) = &held
            && !tree::try_lock(held.as_fd(), Lock::Exclusive)?
        {
            return Err(Error::conflict(format!(
                "a dockerd runs on {}: end it (its containers, too), or name its socket",
                path.display()
            )));
        }
        let mut directory =
            Directory { path: path.to_owned(), images, most_values, volumes: BTreeMap::new(), _held: held };
        directory.read_volumes()?;
        Ok(directory)
    }

    fn read_volumes(&mut self) -> Result<()> {
        let dir = self.path.join("volumes");
        let mut about = BTreeMap::new();
        let path = self.path.join(HELD);
        if let Some(bytes) = read_bounded(&path, MAX_DATABASE)? {
            let all = bolt::bucket(&bytes, b"volumes").map_err(|error| error.context(path.display()))?;
            for (name, value) in all {
                // A wrong value is reported when its volume is imported.
                if let (Ok(name), Ok(of)) = (String::from_utf8(name), crate::document::read::<About>(&value)) {
                    about.insert(name, of);
                }
            }
        }
        for name in names(&dir)? {
            if dir.join(&name).join("_data").is_dir() {
                let of = about.remove(&name).unwrap_or_default();
                self.volumes.insert(name, of);
            }
        }
        // Volumes of other drivers have a row there, and no directory.
        self.volumes.extend(about.into_iter().filter(|(_, of)| !matches!(of.driver.as_str(), "" | "local")));
        Ok(())
    }

    /// The names of the volumes, sorted.
    pub(super) fn volumes(&self) -> Vec<String> {
        self.volumes.keys().cloned().collect()
    }

    /// Imports a volume of dockerd; returns whether it was here before.
    pub(super) fn take_volume(&self, volumes: &Volumes, name: &str) -> Result<bool> {
        let about = self.volumes.get(name).ok_or_else(|| Error::not_found(format!("no volume {name}")))?;
        if !matches!(about.driver.as_str(), "" | "local") {
            return Err(Error::unsupported(format!("it is of the driver {}, which has its data", about.driver)));
        }
        if volumes.register.inspect(name).is_ok() {
            return Ok(true);
        }
        let dir = self.path.join("volumes").join(name);
        let options = match read_bounded(&dir.join("opts.json"), MAX_OPTIONS)? {
            Some(bytes) => crate::document::read::<Option<LocalOptions>>(&bytes)
                .map_err(|e| Error::invalid(format!("its opts.json: {}", json_words(&e))))?
                .unwrap_or_default(),
            None => LocalOptions::default(),
        };
        let asked = [("type", options.mount_type), ("o", options.mount_opts), ("device", options.mount_device)];
        let driver_opts: StringMap =
            asked.into_iter().filter(|(_, value)| !value.is_empty()).map(|(key, value)| (key.into(), value)).collect();
        let body = CreateVolume {
            name: name.into(),
            labels: about.labels.clone().filter(|labels| !labels.is_empty()),
            driver_opts: (!driver_opts.is_empty()).then_some(driver_opts),
            ..CreateVolume::default()
        };
        let content = tree::open_dir_at(tree::open_dir(&dir)?.as_fd(), "_data")?;
        volumes.creator.create_with(&body, Some(&content)).map(|_| false)
    }

    /// The containers: those that can be imported, and the others with the reasons.
    pub(super) fn containers(&self) -> Result<Vec<std::result::Result<Stopped, Refused>>> {
        let dir = self.path.join("containers");
        let ids = names(&dir)?.into_iter().filter(|id| is_hex_id(id));
        Ok(ids.map(|id| containers::read(&dir.join(&id), &id, self.most_values)).collect())
    }

    /// The writable layer of a container.
    pub(super) fn layer(&self, id: &str) -> Result<OwnedFd> {
        let path = self.path.join("image/overlay2/layerdb/mounts").join(id).join("mount-id");
        let text = read_bounded(&path, 1 << 10)?.unwrap_or_default();
        let name = String::from_utf8_lossy(&text).trim().to_owned();
        match crate::image::is_plain(&name) {
            true => tree::open_dir_at(tree::open_dir(&self.path.join("overlay2").join(name))?.as_fd(), "diff"),
            false => Err(Error::corrupt(format!("{}: no name of a layer", path.display()))),
        }
    }
}

/// The UTF-8 names in a directory, sorted; none if the directory does not exist.
fn names(dir: &Path) -> Result<Vec<String>> {
    let failed = |e: &std::io::Error| Error::io(format_args!("read {}", dir.display()), e);
    let mut names = Vec::new();
    match std::fs::read_dir(dir) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
        entries => {
            for entry in entries.map_err(|e| failed(&e))? {
                names.extend(entry.map_err(|e| failed(&e))?.file_name().into_string());
            }
        }
    }
    names.order();
    Ok(names)
}
