//! `system df`: the space that things take.

use crate::args::{Flag, Parsed};
use crate::format::{precise, size};
use crate::images;
use crate::listing::{Listing, row};
use crate::ps;
use crate::template::Subject;
use crate::{Entry, Failure, Globals, Outcome, emit};
use coracle::model::{ContainerSummary, DiskUsage, DiskUsageQuery, Volume};
use serde_json::json;

pub const ENTRIES: &[Entry] =
    &[Entry::new("system df", "[FLAGS]", "The space that images, containers and volumes take", DF, df)];

const DF: &[Flag] = &[
    Flag::switch(&["verbose", "v"], "each image, container and volume"),
    Flag::value(
        &["format"],
        "FORMAT",
        "table, json, table TEMPLATE or a template; fields: Type TotalCount Active Size Reclaimable",
    ),
];

const KINDS: Listing = Listing {
    titles: &[
        ("Type", "TYPE"),
        ("TotalCount", "TOTAL"),
        ("Active", "ACTIVE"),
        ("Size", "SIZE"),
        ("Reclaimable", "RECLAIMABLE"),
    ],
    usual: "{{.Type}}\t{{.TotalCount}}\t{{.Active}}\t{{.Size}}\t{{.Reclaimable}}",
};
const IMAGES: &str = "{{.Repository}}\t{{.Tag}}\t{{.ID}}\t{{.CreatedSince}}\t{{.Size}}\t{{.SharedSize}}\t{{.UniqueSize}}\t\
                      {{.Containers}}";
const CONTAINERS: &str = "{{.ID}}\t{{.Image}}\t{{.Command}}\t{{.LocalVolumes}}\t{{.Size}}\t{{.RunningFor}}\t{{.Status}}\t\
                          {{.Names}}";
const VOLUMES: Listing = Listing {
    titles: &[("Name", "VOLUME NAME"), ("Links", "LINKS"), ("Size", "SIZE")],
    usual: "{{.Name}}\t{{.Links}}\t{{.Size}}",
};

fn df(globals: &Globals, parsed: &Parsed) -> Outcome {
    if !parsed.rest.is_empty() {
        return Err(Failure::Usage("system df takes no arguments".into()));
    }
    if parsed.has("verbose") && parsed.last("format").is_some() {
        return Err(Failure::Usage("--format cannot stand with --verbose".into()));
    }
    let usage = globals.engine()?.disk_usage(DiskUsageQuery::ALL, None)?;
    let text = match parsed.has("verbose") {
        true => each(&usage)?,
        false => KINDS.text(
            parsed.last("format"),
            &[of_images(&usage), of_containers(&usage), of_volumes(&usage), of_builds(&usage)],
        )?,
    };
    emit(&text).map(|()| 0)
}

/// A kind of things: how many there are, how many are in use, their bytes, and those of things that are not in use.
fn kind(name: &str, total: usize, active: usize, size: i64, reclaimable: i64) -> Subject {
    let part =
        if size > 0 { format!(" ({}%)", i128::from(reclaimable) * 100 / i128::from(size)) } else { String::new() };
    let document = json!({
        "Type": name,
        "TotalCount": total.to_string(),
        "Active": active.to_string(),
        "Size": precise(size),
        "Reclaimable": format!("{}{part}", precise(reclaimable)),
    });
    row(document, None)
}

/// Layers that several images have cannot be reclaimed with one of them.
fn of_images(usage: &DiskUsage) -> Subject {
    let used = usage.images.iter().filter(|image| image.containers > 0);
    let own: i64 = used.clone().map(|image| (image.size - image.shared_size.max(0)).max(0)).sum();
    kind("Images", usage.images.len(), used.count(), usage.layers_size, (usage.layers_size - own).max(0))
}

fn of_containers(usage: &DiskUsage) -> Subject {
    let lives = |state: &str| ["running", "paused", "restarting"].contains(&state);
    let size = |wanted: fn(bool) -> bool| -> i64 {
        let chosen = usage.containers.iter().filter(|container| wanted(lives(&container.state)));
        chosen.filter_map(|container| container.size_rw).sum()
    };
    let active = usage.containers.iter().filter(|container| lives(&container.state)).count();
    kind("Containers", usage.containers.len(), active, size(|_| true), size(|lives| !lives))
}

fn of_volumes(usage: &DiskUsage) -> Subject {
    let known = || usage.volumes.iter().filter_map(|volume| volume.usage_data);
    let size = |unused: bool| -> i64 {
        known().filter(|usage| !unused || usage.ref_count == 0).map(|usage| usage.size.max(0)).sum()
    };
    let active = known().filter(|usage| usage.ref_count > 0).count();
    kind("Local Volumes", usage.volumes.len(), active, size(false), size(true))
}

/// The caches that steps of builds mount.
fn of_builds(usage: &DiskUsage) -> Subject {
    let bytes = |size: u64| i64::try_from(size).unwrap_or(i64::MAX);
    let size: u64 = usage.build_cache.iter().map(|cache| cache.size).sum();
    let unused: u64 = usage.build_cache.iter().filter(|cache| !cache.in_use).map(|cache| cache.size).sum();
    let active = usage.build_cache.iter().filter(|cache| cache.in_use).count();
    kind("Build Cache", usage.build_cache.len(), active, bytes(size), bytes(unused))
}

/// Every thing with its size.
fn each(usage: &DiskUsage) -> Result<String, Failure> {
    let images: Vec<Subject> = usage.images.iter().flat_map(|image| images::subjects(image, false)).collect();
    let containers: Vec<Subject> = usage.containers.iter().map(container).collect();
    let volumes: Vec<Subject> = usage.volumes.iter().map(volume).collect();
    let of_images = Listing { usual: IMAGES, ..images::IMAGES };
    let of_containers = Listing { usual: CONTAINERS, ..ps::CONTAINERS };
    Ok(format!(
        "Images space usage:\n\n{}\nContainers space usage:\n\n{}\nLocal Volumes space usage:\n\n{}",
        of_images.text(None, &images)?,
        of_containers.text(None, &containers)?,
        VOLUMES.text(None, &volumes)?
    ))
}

/// A container with the space of its own: that of its image stands above.
fn container(container: &ContainerSummary) -> Subject {
    let mut subject = ps::subject(container, false);
    subject.document["Size"] = size(container.size_rw.unwrap_or(0)).into();
    subject
}

fn volume(volume: &Volume) -> Subject {
    let usage = volume.usage_data.unwrap_or_default();
    let size = if usage.size < 0 { "N/A".to_owned() } else { precise(usage.size) };
    row(json!({ "Name": volume.name, "Links": usage.ref_count.to_string(), "Size": size }), volume.labels.as_ref())
}
