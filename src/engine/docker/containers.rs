//! Stopped containers of dockerd: their documents, from its directory or its socket, become create bodies.

use super::{Engine, Reporter};
use crate::container::spec::NetworkMode;
use crate::error::{Error, Result};
use crate::image::check_values;
use crate::kernel::file::read_bounded;
use crate::model::{
    ContainerConfig, CreateBody, EndpointSettings, HostConfig, NetworkingConfig, RemoveContainer, json_words,
};
use crate::volume::check_name;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

/// The largest document of a container.
const MAX_DOCUMENT: u64 = 8 << 20;

/// Networks that every engine has.
const OWN: [&str; 5] = ["", "default", "bridge", "none", "host"];

/// A container that can be imported.
pub(super) struct Stopped {
    pub(super) id: String,
    pub(super) name: String,
    /// The image's id.
    pub(super) image: String,
    config: ContainerConfig,
    host: HostConfig,
    networks: BTreeMap<String, Option<EndpointSettings>>,
    mounts: BTreeMap<String, MountPoint>,
    has_log: bool,
}

/// One that cannot.
pub(super) struct Refused {
    pub(super) id: String,
    /// The container's id, if its documents cannot be read.
    pub(super) name: String,
    pub(super) reason: String,
}

/// The members of `config.v2.json` that are read.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Document {
    #[serde(default)]
    name: String,
    image: String,
    #[serde(default)]
    driver: String,
    config: ContainerConfig,
    #[serde(default)]
    state: State,
    #[serde(default)]
    network_settings: Option<NetworkSettings>,
    #[serde(default)]
    mount_points: Option<BTreeMap<String, MountPoint>>,
}

/// The members of an inspect's answer that are read.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Inspected {
    id: String,
    name: String,
    image: String,
    config: ContainerConfig,
    host_config: HostConfig,
    #[serde(default)]
    state: State,
    #[serde(default)]
    network_settings: Option<NetworkSettings>,
    #[serde(default)]
    mounts: Option<Vec<MountPoint>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct State {
    running: bool,
    paused: bool,
    restarting: bool,
    dead: bool,
    removal_in_progress: bool,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct NetworkSettings {
    networks: Option<BTreeMap<String, Option<EndpointSettings>>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct MountPoint {
    #[serde(rename = "Type")]
    kind: String,
    #[serde(rename = "Name")]
    name: String,
    /// Only set in the answer of an inspect.
    #[serde(rename = "Destination")]
    place: String,
    #[serde(rename = "RW")]
    writable: bool,
}

impl State {
    /// Why a container in such a state cannot be imported.
    fn objection(&self) -> Option<&'static str> {
        match self {
            _ if self.running || self.paused || self.restarting => {
                Some("it ran when dockerd ended, or does: stop it first")
            }
            _ if self.dead || self.removal_in_progress => Some("it is being removed"),
            _ => None,
        }
    }
}

impl Inspected {
    /// Errors: the container cannot be imported.
    pub(super) fn stopped(self) -> std::result::Result<Stopped, Refused> {
        let name = self.name.trim_start_matches('/').to_owned();
        let mounts: BTreeMap<String, MountPoint> =
            self.mounts.unwrap_or_default().into_iter().map(|mount| (mount.place.clone(), mount)).collect();
        if let Some(reason) = self.state.objection().or_else(|| wrong_volume(&mounts)) {
            return Err(Refused { id: self.id, name, reason: reason.into() });
        }
        Ok(Stopped {
            has_log: self.host_config.log_config.kind != "none",
            id: self.id,
            name,
            image: self.image,
            config: self.config,
            host: self.host_config,
            networks: self.network_settings.unwrap_or_default().networks.unwrap_or_default(),
            mounts,
        })
    }
}

/// Why a container with these mounts cannot be imported: its binds would name a path of the host instead of a volume.
fn wrong_volume(mounts: &BTreeMap<String, MountPoint>) -> Option<&'static str> {
    let is_wrong = |mount: &MountPoint| mount.kind == "volume" && check_name(&mount.name).is_err();
    mounts.values().any(is_wrong).then_some("a volume of its has a name that no volume may have")
}

impl Stopped {
    /// The names of its volumes.
    pub(super) fn volumes(&self) -> impl Iterator<Item = String> + '_ {
        self.mounts.values().filter(|mount| mount.kind == "volume").map(|mount| mount.name.clone())
    }

    /// The request that creates the container here.
    fn body(&self) -> CreateBody {
        let mut host = self.host.clone();
        // This engine has no other runtimes.
        host.runtime.clear();
        // A volume that the image or the request made without a name keeps its identity by its generated name.
        let mut binds = host.binds.take().unwrap_or_default();
        let is_named = |place: &str| {
            let of_bind = |bind: &String| bind.split(':').nth(1) == Some(place);
            binds.iter().any(of_bind) || host.mounts.iter().any(|mount| mount.target == place)
        };
        let unnamed = self.mounts.iter().filter(|(place, mount)| mount.kind == "volume" && !is_named(place));
        let unnamed: Vec<String> = unnamed
            .map(|(place, mount)| format!("{}:{place}{}", mount.name, if mount.writable { "" } else { ":ro" }))
            .collect();
        binds.extend(unnamed);
        host.binds = (!binds.is_empty()).then_some(binds);
        host.links = None;
        // Addresses that a network assigned belong to that network, which stays in dockerd.
        let asked = |settings: &EndpointSettings| EndpointSettings {
            ipam_config: settings.ipam_config.clone(),
            aliases: settings.aliases.clone(),
            ..EndpointSettings::default()
        };
        let networks = self.networks.iter().filter(|(name, _)| !OWN.contains(&name.as_str()));
        let endpoints_config = networks.map(|(name, settings)| (name.clone(), settings.as_ref().map(asked))).collect();
        let mut config = self.config.clone();
        config.image = self.image.clone();
        CreateBody {
            config,
            host_config: host,
            networking_config: NetworkingConfig { endpoints_config },
            ..CreateBody::default()
        }
    }
}

/// Reads a container's documents.
pub(super) fn read(dir: &Path, id: &str, most_values: usize) -> std::result::Result<Stopped, Refused> {
    let refused = |name: String, reason: &str| Refused { id: id.to_owned(), name, reason: reason.to_owned() };
    match read_all(dir, id, most_values) {
        Ok(Ok(stopped)) => Ok(stopped),
        Ok(Err((name, reason))) => Err(refused(name, reason)),
        Err(error) => Err(refused(id.to_owned(), error.message())),
    }
}

/// The inner error: the container's name, and why it cannot be imported.
fn read_all(dir: &Path, id: &str, most_values: usize) -> Result<std::result::Result<Stopped, (String, &'static str)>> {
    let document: Document = document(&dir.join("config.v2.json"), most_values)?;
    let host: HostConfig = document_of(&dir.join("hostconfig.json"), most_values)?;
    let name = document.name.trim_start_matches('/').to_owned();
    if let Some(reason) = document.state.objection() {
        return Ok(Err((name, reason)));
    }
    if document.driver != "overlay2" {
        return Ok(Err((name, "its files are not of dockerd's driver overlay2")));
    }
    let mounts = document.mount_points.unwrap_or_default();
    if let Some(reason) = wrong_volume(&mounts) {
        return Ok(Err((name, reason)));
    }
    let networks = document.network_settings.unwrap_or_default().networks.unwrap_or_default();
    let log = std::fs::metadata(dir.join(format!("{id}-json.log")));
    Ok(Ok(Stopped {
        id: id.to_owned(),
        name,
        image: document.image,
        config: document.config,
        host,
        networks,
        mounts,
        has_log: log.is_ok_and(|log| log.len() > 0),
    }))
}

fn document(path: &Path, most_values: usize) -> Result<Document> {
    document_of(path, most_values)
}

fn document_of<T: serde::de::DeserializeOwned>(path: &Path, most_values: usize) -> Result<T> {
    let bytes = read_bounded(path, MAX_DOCUMENT)?;
    let bytes = bytes.ok_or_else(|| Error::not_found(format!("{} is not there", path.display())))?;
    check_values(&bytes, most_values).map_err(|error| error.context(path.display()))?;
    crate::document::read(&bytes).map_err(|e| Error::invalid(format!("{}: {}", path.display(), json_words(&e))))
}

/// Imports a container of dockerd; `fill` gives the files to the new one, by its id. Returns that id, and whether the
/// container was here before.
pub(super) fn take(
    engine: &Engine,
    stopped: &Stopped,
    reporter: &mut Reporter<'_>,
    fill: impl FnOnce(&str) -> Result<()>,
) -> Result<(String, bool)> {
    let all = &engine.0.containers;
    if let Ok(there) = all.finder.find(&stopped.name)
        && there.row.name == stopped.name
    {
        return Ok((there.row.id.clone(), true));
    }
    // Until its files are complete the container has another name, by which the next run finds it if this one is
    // killed.
    let unfinished = format!("unfinished-import-{}", &stopped.id[..12]);
    let force = RemoveContainer { force: true, ..RemoveContainer::default() };
    if all.finder.find(&unfinished).is_ok() {
        engine.container_remove(&unfinished, force, reporter.op)?;
    }
    let created = engine.container_create(Some(&unfinished), &stopped.body())?;
    let filled = fill(&created.id).and_then(|()| engine.container_rename(&created.id, &stopped.name));
    if let Err(error) = filled {
        // The next run removes the rest of it.
        let _ = engine.container_remove(&created.id, force, None);
        return Err(error);
    }
    reporter.about(stopped, &created.warnings)?;
    Ok((created.id, false))
}

impl Reporter<'_> {
    /// Reports the differences of an imported container.
    fn about(&mut self, stopped: &Stopped, warnings: &[String]) -> Result<()> {
        for warning in warnings {
            self.left("container", &stopped.name, warning)?;
        }
        if stopped.has_log {
            self.left("container", &stopped.name, "its log stays with dockerd")?;
        }
        if stopped.host.links.as_ref().is_some_and(|links| !links.is_empty()) {
            self.left("container", &stopped.name, "its links: create it anew with them where it needs them")?;
        }
        for network in stopped.networks.keys().filter(|name| !OWN.contains(&name.as_str())) {
            let reason = format!("its network {network} is not taken: make one of that name before it is started");
            self.left("container", &stopped.name, &reason)?;
        }
        match NetworkMode::parse(&stopped.host.network_mode) {
            Ok(NetworkMode::Container(_)) => {
                self.left("container", &stopped.name, "its NetworkMode names a container by its id in dockerd")
            }
            _ => Ok(()),
        }
    }
}
