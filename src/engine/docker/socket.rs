//! Imports by dockerd's socket, while it runs: images as archives, volumes through a container that mounts them,
//! stopped containers by their configuration and their changed files. Only reads: dockerd makes or changes nothing.

use super::api::{Api, escaped};
use super::containers::{Inspected, Refused, Stopped};
use super::{Engine, Reporter, is_prefix};
use crate::container::Differences;
use crate::engine::images::OnProgress;
use crate::error::{Error, Result};
use crate::model::{CreateVolume, DockerImport, ImportDocker, StringMap};
use crate::op::Op;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::path::Path;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Image {
    id: String,
    repo_tags: Option<Vec<String>>,
}

/// A container in the full list.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Listed {
    id: String,
    names: Option<Vec<String>>,
    #[serde(default)]
    state: String,
    #[serde(default)]
    mounts: Option<Vec<Mount>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", default)]
#[derive(Default)]
struct Mount {
    r#type: String,
    name: String,
    destination: String,
    #[serde(rename = "RW")]
    writable: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Volumes {
    volumes: Option<Vec<Volume>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Volume {
    name: String,
    #[serde(default)]
    driver: String,
    labels: Option<StringMap>,
    options: Option<StringMap>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Change {
    kind: u32,
    path: String,
}

const DELETED: u32 = 2;

impl Image {
    fn tags(&self) -> impl Iterator<Item = &String> {
        self.repo_tags.iter().flatten().filter(|tag| !tag.contains("<none>"))
    }

    fn is(&self, asked: &str) -> bool {
        let short = self.id.strip_prefix("sha256:").unwrap_or(&self.id);
        self.tags().any(|tag| tag == asked || tag.strip_suffix(":latest") == Some(asked))
            || is_prefix(short, asked.strip_prefix("sha256:").unwrap_or(asked))
    }
}

impl Listed {
    /// Names by which links refer to it have the form `/other/alias`.
    fn name(&self) -> &str {
        let names = self.names.iter().flatten().map(|name| name.trim_start_matches('/'));
        names.clone().find(|name| !name.contains('/')).unwrap_or(&self.id)
    }

    fn is(&self, asked: &str) -> bool {
        self.name() == asked.trim_start_matches('/') || is_prefix(&self.id, asked)
    }

    fn mounts(&self) -> impl Iterator<Item = &Mount> {
        self.mounts.iter().flatten()
    }

    /// The mount of a volume in this container, if nothing else is mounted below.
    fn place_of(&self, volume: &str) -> Option<&Mount> {
        let place = self.mounts().find(|mount| mount.r#type == "volume" && mount.name == volume)?;
        let below = format!("{}/", place.destination);
        self.mounts().all(|mount| !mount.destination.starts_with(&below)).then_some(place)
    }

    fn may_run(&self) -> bool {
        !matches!(self.state.as_str(), "created" | "exited" | "dead")
    }
}

pub(super) fn import(
    engine: &Engine,
    socket: &Path,
    how: &ImportDocker,
    progress: OnProgress<'_>,
    op: Option<&Op>,
) -> Result<DockerImport> {
    let api = Api::of(socket, engine.0.images.layers.most_values(), op)?;
    let there = There::of(&api)?;
    let mut reporter = Reporter { report: DockerImport::default(), progress, op };
    let wanted = there.wanted(&api, &how.names, &mut reporter)?;
    for image in there.images.iter().filter(|image| wanted.images.contains(&image.id)) {
        reporter.check()?;
        take_image(engine, &api, image, &mut reporter)?;
    }
    for volume in there.volumes.iter().filter(|volume| wanted.volumes.contains(&volume.name)) {
        reporter.check()?;
        match there.take_volume(engine, &api, volume, op) {
            Ok(was_here) => reporter.taken("volume", &volume.name, "", was_here)?,
            Err(error) => reporter.failed("volume", &volume.name, error)?,
        }
    }
    for stopped in &wanted.containers {
        reporter.check()?;
        match take_container(engine, &api, stopped, &mut reporter) {
            Ok((id, was_here)) => reporter.taken("container", &stopped.name, &id, was_here)?,
            Err(error) => reporter.failed("container", &stopped.name, error)?,
        }
    }
    Ok(reporter.report)
}

/// All objects of dockerd.
struct There {
    images: Vec<Image>,
    containers: Vec<Listed>,
    volumes: Vec<Volume>,
}

/// The objects to import.
#[derive(Default)]
struct Wanted {
    images: BTreeSet<String>,
    volumes: BTreeSet<String>,
    containers: Vec<Stopped>,
}

impl There {
    fn of(api: &Api<'_>) -> Result<There> {
        let volumes: Volumes = api.document("/volumes")?;
        Ok(There {
            images: api.document("/images/json")?,
            containers: api.document("/containers/json?all=1")?,
            volumes: volumes.volumes.unwrap_or_default(),
        })
    }

    /// All objects, or those that the names refer to, with everything that containers among them need. Errors: a name
    /// refers to nothing.
    fn wanted(&self, api: &Api<'_>, names: &[String], reporter: &mut Reporter<'_>) -> Result<Wanted> {
        let mut met: BTreeSet<&String> = BTreeSet::new();
        let mut asked = |means: &dyn Fn(&str) -> bool| {
            let by: Vec<&String> = names.iter().filter(|name| means(name)).collect();
            met.extend(&by);
            names.is_empty() || !by.is_empty()
        };
        let mut wanted = Wanted::default();
        wanted.images.extend(self.images.iter().filter(|image| asked(&|name| image.is(name))).map(|i| i.id.clone()));
        let volumes = self.volumes.iter().filter(|volume| asked(&|name| volume.name == name));
        wanted.volumes.extend(volumes.map(|volume| volume.name.clone()));
        let containers: Vec<&Listed> = self.containers.iter().filter(|one| asked(&|name| one.is(name))).collect();
        if let Some(name) = names.iter().find(|name| !met.contains(name)) {
            return Err(Error::not_found(format!("dockerd has no image, volume or container {name}")));
        }
        for listed in containers {
            reporter.check()?;
            let inspected: Inspected = api.document(&format!("/containers/{}/json", listed.id))?;
            match inspected.stopped() {
                Err(Refused { name, reason, .. }) => reporter.left("container", &name, &reason)?,
                Ok(stopped) => {
                    wanted.images.insert(stopped.image.clone());
                    wanted.volumes.extend(stopped.volumes());
                    wanted.containers.push(stopped);
                }
            }
        }
        Ok(wanted)
    }

    /// Imports a volume of dockerd; returns whether it was here before.
    fn take_volume(&self, engine: &Engine, api: &Api<'_>, volume: &Volume, op: Option<&Op>) -> Result<bool> {
        if !matches!(volume.driver.as_str(), "" | "local") {
            return Err(Error::unsupported(format!("it is of the driver {}, which has its data", volume.driver)));
        }
        let volumes = &engine.0.volumes;
        if volumes.register.inspect(&volume.name).is_ok() {
            return Ok(true);
        }
        let filled = |map: &Option<StringMap>| map.clone().filter(|map| !map.is_empty());
        let body = CreateVolume {
            name: volume.name.clone(),
            labels: filled(&volume.labels),
            driver_opts: filled(&volume.options),
            ..CreateVolume::default()
        };
        if body.driver_opts.as_ref().is_some_and(|options| options.contains_key("device")) {
            // The options of the volume say where its data is.
            return volumes.creator.create_with(&body, None).map(|_| false);
        }
        let (holder, place) = self.holder(&volume.name)?;
        let building = engine.0.images.builds.begin(&[])?;
        let (_, stage) = building.directory()?;
        let path = format!("/containers/{holder}/archive?path={}", escaped(&format!("{place}/.")));
        api.archive(&path, |tar| crate::container::extract(&stage.dir, "/", tar, stage.dir.as_fd(), stage.room, op))?;
        volumes.creator.create_with(&body, Some(&stage.dir)).map(|_| false)
    }

    /// A container through which the content of a volume can be read, and the path there. Errors: no container has the
    /// volume; one may write to it meanwhile.
    fn holder(&self, volume: &str) -> Result<(&str, &str)> {
        let is_written =
            |one: &&Listed| one.may_run() && one.mounts().any(|mount| mount.name == volume && mount.writable);
        if let Some(one) = self.containers.iter().find(is_written) {
            return Err(Error::conflict(format!("container {} runs, and may write to it: stop it first", one.name())));
        }
        let mut places = self.containers.iter().filter_map(|one| Some((one.id.as_str(), one.place_of(volume)?)));
        let (id, place) = places.next().ok_or_else(|| {
            Error::unsupported(
                "no container of dockerd's mounts it by itself, and its socket shows volumes in containers alone: create a \
                 container with it, or end dockerd and take it from its directory",
            )
        })?;
        Ok((id, &place.destination))
    }
}

fn take_image(engine: &Engine, api: &Api<'_>, image: &Image, reporter: &mut Reporter<'_>) -> Result<()> {
    let tags: Vec<&String> = image.tags().collect();
    let name = tags.first().map_or(image.id.as_str(), |tag| tag.as_str()).to_owned();
    let here = tags.iter().all(|tag| engine.image_inspect(tag).is_ok_and(|here| here.id == image.id));
    if here && engine.image_inspect(&image.id).is_ok() {
        return reporter.taken("image", &name, &image.id, true);
    }
    let taken: BTreeSet<&String> =
        tags.iter().copied().filter(|tag| engine.image_inspect(tag).is_ok_and(|here| here.id != image.id)).collect();
    for tag in &taken {
        reporter.left("image", tag, "another image has this name here, and keeps it")?;
    }
    let free: Vec<&str> = tags.iter().filter(|tag| !taken.contains(*tag)).map(|tag| tag.as_str()).collect();
    let named = if free.is_empty() { vec![image.id.as_str()] } else { free };
    let names: Vec<String> = named.iter().map(|name| format!("names={}", escaped(name))).collect();
    let op = reporter.op;
    let load = |tar: &mut dyn std::io::Read| engine.image_load(tar, &mut |_| Ok(()), op).map(drop);
    match api.archive(&format!("/images/get?{}", names.join("&")), load) {
        Ok(()) => reporter.taken("image", &name, &image.id, false),
        Err(error) => reporter.failed("image", &name, error),
    }
}

/// Imports a container of dockerd; returns its id, and whether it was here before.
fn take_container(
    engine: &Engine,
    api: &Api<'_>,
    stopped: &Stopped,
    reporter: &mut Reporter<'_>,
) -> Result<(String, bool)> {
    let mut left = BTreeSet::new();
    let op = reporter.op;
    let taken = super::containers::take(engine, stopped, reporter, |id| {
        let mut changed = changes(api, &stopped.id)?;
        api.archive(&format!("/containers/{}/export", stopped.id), |tar| {
            engine.0.containers.files.take_changes(id, &mut changed, tar, op)
        })?;
        left = changed.come;
        Ok(())
    })?;
    if let Some(path) = left.first() {
        let more = left.len() - 1;
        let reason = format!(
            "{}{}: a file that an archive cannot hold (a socket), or a name that is not text",
            String::from_utf8_lossy(path),
            if more == 0 { String::new() } else { format!(" and {more} more") }
        );
        reporter.left("container", &stopped.name, &reason)?;
    }
    Ok(taken)
}

/// The files of its image that a container changed.
fn changes(api: &Api<'_>, id: &str) -> Result<Differences> {
    let all: Option<Vec<Change>> = api.document(&format!("/containers/{id}/changes"))?;
    let mut changed = Differences::default();
    for change in all.unwrap_or_default() {
        let path = change.path.trim_matches('/').as_bytes().to_vec();
        match change.kind {
            _ if path.is_empty() => {}
            DELETED => changed.gone.push(path),
            _ => drop(changed.come.insert(path)),
        }
    }
    Ok(changed)
}
