//! Imports images, volumes and stopped containers from dockerd, out of its directory or by its socket.
//!
//! An object is imported whole or not at all: an image by one transaction, a volume by one rename, and a container gets
//! its name last. An object that exists here already, by its id or its name, is left alone, so a second run imports
//! nothing twice. Each object that cannot be imported is reported with the reason, and the others are imported.

mod api;
mod bolt;
mod containers;
mod directory;
mod socket;

use super::Engine;
use super::images::OnProgress;
use crate::error::{Error, ErrorKind, Result};
use crate::event::written;
use crate::kernel::copy::{Attributes, TreeCopy};
use crate::model::{DockerImport, ImportDocker, NotTaken, Progress, TakenOver};
use crate::op::Op;
use containers::Stopped;
use directory::Directory;
use std::collections::BTreeSet;
use std::path::Path;

/// The entry point for fuzzers of the file of volumes.
#[cfg(any(test, fuzzing))]
pub(crate) fn fuzz_bolt(data: &[u8]) {
    bolt::fuzz(data);
}

/// dockerd's directory, unless it is configured otherwise.
const DEFAULT: &str = "/var/lib/docker";

impl Engine {
    /// Imports images, volumes of the driver `local` and stopped containers of a dockerd: from its directory, while no
    /// dockerd runs on it, or by its socket. By the socket, a volume is read through a container that uses it, if no
    /// container writes to it meanwhile. The report lists the imported objects, and the others with the reasons.
    ///
    /// Images keep their ids. A container gets a new id and keeps its name, its configuration and its files, but not
    /// its log. The original stays as it is.
    ///
    /// Errors: no such directory or socket; a dockerd runs on the directory ([`ErrorKind::Conflict`]); a name that does
    /// not exist ([`ErrorKind::NotFound`], before anything is imported); `op` ended.
    pub fn import_docker(&self, how: &ImportDocker, progress: OnProgress<'_>, op: Option<&Op>) -> Result<DockerImport> {
        match (how.socket.as_str(), how.directory.as_str()) {
            ("", "") => self.import_directory(Path::new(DEFAULT), how, progress, op),
            ("", directory) => self.import_directory(Path::new(directory), how, progress, op),
            (path, "") => socket::import(self, Path::new(path), how, progress, op),
            _ => Err(Error::invalid("a directory and a socket exclude each other")),
        }
    }

    fn import_directory(
        &self,
        path: &Path,
        how: &ImportDocker,
        progress: OnProgress<'_>,
        op: Option<&Op>,
    ) -> Result<DockerImport> {
        let directory = Directory::open(path, self.0.images.layers.most_values())?;
        let mut reporter = Reporter { report: DockerImport::default(), progress, op };
        let wanted = Wanted::of(&directory, &how.names, &mut reporter)?;
        for id in &wanted.images {
            reporter.check()?;
            let taken = self.take_image(&directory, id, op);
            let name = directory.images.names(id).into_iter().next().unwrap_or_else(|| id.clone());
            match taken {
                Ok(taken) => {
                    for kept in &taken.kept {
                        reporter.left("image", kept, "another image has this name here, and keeps it")?;
                    }
                    reporter.taken("image", &name, &taken.id, taken.was_here)?;
                }
                Err(error) => reporter.failed("image", &name, error)?,
            }
        }
        for name in &wanted.volumes {
            reporter.check()?;
            match directory.take_volume(&self.0.volumes, name) {
                Ok(was_here) => reporter.taken("volume", name, "", was_here)?,
                Err(error) => reporter.failed("volume", name, error)?,
            }
        }
        for stopped in &wanted.containers {
            reporter.check()?;
            let fill = |id: &str| {
                let layer = directory.layer(&stopped.id)?;
                self.0.containers.copies.fill(id, &layer, &mut TreeCopy::new(Attributes::All, op))
            };
            match containers::take(self, stopped, &mut reporter, fill) {
                Ok((id, was_here)) => reporter.taken("container", &stopped.name, &id, was_here)?,
                Err(error) => reporter.failed("container", &stopped.name, error)?,
            }
        }
        Ok(reporter.report)
    }

    fn take_image(&self, directory: &Directory, id: &str, op: Option<&Op>) -> Result<crate::image::TakenImage> {
        let mut events = Vec::new();
        let taken =
            self.0.images.docker_importer.take(&directory.images, id, &mut |event| events.push(written(&event)), op);
        for event in events {
            self.0.journal.append_written(&event?)?;
        }
        taken
    }
}

/// The objects to import.
struct Wanted {
    images: BTreeSet<String>,
    volumes: BTreeSet<String>,
    containers: Vec<Stopped>,
}

impl Wanted {
    /// All objects, or those that the names refer to, with everything that containers among them need. Errors: a name
    /// refers to nothing.
    fn of(directory: &Directory, names: &[String], reporter: &mut Reporter<'_>) -> Result<Wanted> {
        let (ids, volumes) = (directory.images.ids()?, directory.volumes());
        let mut met = vec![false; names.len()];
        let mut asked = |means: &dyn Fn(&str) -> bool| {
            let mut any = names.is_empty();
            for (_, met) in names.iter().zip(&mut met).filter(|(name, _)| means(name)) {
                (any, *met) = (true, true);
            }
            any
        };
        let mut wanted = Wanted { images: BTreeSet::new(), volumes: BTreeSet::new(), containers: Vec::new() };
        wanted.images.extend(ids.into_iter().filter(|id| asked(&|name| is_image(directory, id, name))));
        wanted.volumes.extend(volumes.iter().filter(|volume| asked(&|name| name == *volume)).cloned());
        for found in directory.containers()? {
            let (id, own) = match &found {
                Ok(stopped) => (&stopped.id, &stopped.name),
                Err(refused) => (&refused.id, &refused.name),
            };
            if !asked(&|name| name.trim_start_matches('/') == own || is_prefix(id, name)) {
                continue;
            }
            match found {
                Err(refused) => reporter.left("container", &refused.name, &refused.reason)?,
                Ok(stopped) => {
                    wanted.images.insert(stopped.image.clone());
                    wanted.volumes.extend(stopped.volumes().filter(|name| volumes.contains(name)));
                    wanted.containers.push(stopped);
                }
            }
        }
        match names.iter().zip(met).find(|(_, met)| !met) {
            Some((name, _)) => Err(Error::not_found(format!("dockerd has no image, volume or container {name}"))),
            None => Ok(wanted),
        }
    }
}

fn is_image(directory: &Directory, id: &str, name: &str) -> bool {
    let hex = id.strip_prefix("sha256:").unwrap_or(id);
    let of_name = crate::image::Reference::parse(name).map(|name| name.or_latest().to_string());
    is_prefix(hex, name.strip_prefix("sha256:").unwrap_or(name))
        || of_name.is_ok_and(|of_name| directory.images.names(id).contains(&of_name))
}

/// Whether `beginning` is the beginning of an id, at least as long as the ids that people see.
fn is_prefix(id: &str, beginning: &str) -> bool {
    beginning.len() >= 12 && id.starts_with(beginning)
}

/// The report, and the callback that receives each entry.
struct Reporter<'a> {
    report: DockerImport,
    progress: OnProgress<'a>,
    op: Option<&'a Op>,
}

impl Reporter<'_> {
    fn check(&self) -> Result<()> {
        self.op.map_or(Ok(()), Op::check)
    }

    fn taken(&mut self, kind: &str, name: &str, id: &str, was_here: bool) -> Result<()> {
        let status = if was_here { "was here before" } else { "taken" };
        let taken = TakenOver { kind: kind.into(), name: name.into(), id: id.into(), was_here };
        self.report.taken.push(taken);
        (self.progress)(Progress { id: format!("{kind} {name}"), status: status.into(), ..Progress::default() })
    }

    fn left(&mut self, kind: &str, name: &str, reason: &str) -> Result<()> {
        self.report.left.push(NotTaken { kind: kind.into(), name: name.into(), reason: reason.into() });
        let status = format!("not taken: {reason}");
        (self.progress)(Progress { id: format!("{kind} {name}"), status, ..Progress::default() })
    }

    /// Reports an object that could not be imported. Errors: those that every further object would meet, too.
    fn failed(&mut self, kind: &str, name: &str, error: Error) -> Result<()> {
        self.check()?;
        let ends = matches!(error.kind(), ErrorKind::Cancelled | ErrorKind::Timeout | ErrorKind::Callback);
        match ends || error.is(libc::ENOSPC) {
            true => Err(error),
            false => self.left(kind, name, error.message()),
        }
    }
}
