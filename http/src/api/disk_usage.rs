//! The space that everything takes, in the shapes of three times: lists of objects, those of some kinds, sums.

use crate::answer::{Call, as_object, document};
use crate::message::Response;
use crate::versions::{Gate, Noun};
use coracle::model::{BuildCache, ContainerSummary, DiskUsage, DiskUsageQuery, ImageSummary, Volume};
use coracle::{Error, Result};
use serde::Serialize;
use serde_json::{Map, Value, json};

const KINDS: [&str; 4] = ["container", "image", "volume", "build-cache"];

pub(crate) fn disk_usage(call: Call) -> Result<Response> {
    let kinds: Vec<&str> = match call.version.has(Gate::DiskUsageByType) {
        true => call.query.all("type").collect(),
        false => Vec::new(),
    };
    if let Some(unknown) = kinds.iter().find(|kind| !KINDS.contains(kind)) {
        return Err(Error::invalid(format!("unknown object type: {unknown}")));
    }
    let wants = |kind: &str| kinds.is_empty() || kinds.contains(&kind);
    let query = DiskUsageQuery {
        containers: wants("container"),
        images: wants("image"),
        volumes: wants("volume"),
        build_cache: wants("build-cache"),
    };
    let op = call.request.client.op()?;
    let usage = call.engine().disk_usage(query, op.as_ref())?;
    let objects = Objects::of(&call, &usage)?;
    let mut answer = Map::new();
    if call.version.has(Gate::DiskUsageSums) {
        let verbose = call.query.flag("verbose");
        answer = sums(&usage, query, verbose.then_some(&objects));
        if verbose {
            return document(200, answer);
        }
    }
    // A kind that was not requested is null.
    let shown = |wanted: bool, list: Vec<Value>| if wanted { list.into() } else { Value::Null };
    answer.insert("LayersSize".into(), usage.layers_size.into());
    answer.insert("Images".into(), shown(query.images, objects.images));
    answer.insert("Containers".into(), shown(query.containers, objects.containers));
    answer.insert("Volumes".into(), shown(query.volumes, objects.volumes));
    answer.insert("BuildCache".into(), shown(query.build_cache, objects.build_cache));
    if !call.version.has(Gate::DiskUsageByType) {
        let size: u64 = usage.build_cache.iter().map(|cache| cache.size).sum();
        answer.insert("BuilderSize".into(), size.into());
    }
    document(200, answer)
}

/// The objects as the request's version shows them.
struct Objects {
    images: Vec<Value>,
    containers: Vec<Value>,
    volumes: Vec<Value>,
    build_cache: Vec<Value>,
}

impl Objects {
    fn of(call: &Call, usage: &DiskUsage) -> Result<Objects> {
        let image = |image| {
            let mut image = as_object(image)?;
            call.version.lower(Noun::ListedImage, &mut image);
            Ok(Value::Object(image))
        };
        let container = |container: &ContainerSummary| {
            let mut container = container.clone();
            super::containers::listed(&mut container, &call.version);
            as_object(&container).map(Value::Object)
        };
        Ok(Objects {
            images: usage.images.iter().map(image).collect::<Result<_>>()?,
            containers: usage.containers.iter().map(container).collect::<Result<_>>()?,
            volumes: usage.volumes.iter().map(|one| as_object(one).map(Value::Object)).collect::<Result<_>>()?,
            build_cache: usage
                .build_cache
                .iter()
                .map(|one| as_object(one).map(Value::Object))
                .collect::<Result<_>>()?,
        })
    }
}

/// The sums of one kind of objects. Members that are 0 are left out, as dockerd leaves them out.
#[derive(Default, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Sums {
    #[serde(skip_serializing_if = "is_zero")]
    active_count: i64,
    #[serde(skip_serializing_if = "is_zero")]
    total_count: i64,
    #[serde(skip_serializing_if = "is_zero")]
    reclaimable: i64,
    #[serde(skip_serializing_if = "is_zero")]
    total_size: i64,
}

fn is_zero(number: &i64) -> bool {
    *number == 0
}

impl Sums {
    /// Adds an object of this size. Nothing uses one that is not active: its space can be had again.
    fn add(&mut self, active: bool, size: i64) {
        self.total_count += 1;
        self.active_count += i64::from(active);
        self.total_size += size.max(0);
        self.reclaimable += if active { 0 } else { size.max(0) };
    }

    fn of_images(images: &[ImageSummary], layers_size: i64) -> Sums {
        let mut sums = Sums::default();
        let mut held = 0;
        for image in images {
            sums.add(image.containers > 0, 0);
            held += if image.containers > 0 { image.size - image.shared_size.max(0) } else { 0 };
        }
        // Layers that images share count once.
        Sums { total_size: layers_size, reclaimable: layers_size - held, ..sums }
    }

    fn of_containers(containers: &[ContainerSummary]) -> Sums {
        let mut sums = Sums::default();
        for one in containers {
            sums.add(matches!(one.state.as_str(), "running" | "paused" | "restarting"), one.size_rw.unwrap_or(0));
        }
        sums
    }

    fn of_caches(caches: &[BuildCache]) -> Sums {
        let mut sums = Sums::default();
        for one in caches {
            sums.add(one.in_use, i64::try_from(one.size).unwrap_or(i64::MAX));
        }
        sums
    }

    fn of_volumes(volumes: &[Volume]) -> Sums {
        let mut sums = Sums::default();
        for usage in volumes.iter().map(|volume| volume.usage_data.unwrap_or_default()) {
            sums.add(usage.ref_count > 0, usage.size);
        }
        sums
    }
}

/// The members of the sums' shape; with `objects` the lists, too.
fn sums(usage: &DiskUsage, query: DiskUsageQuery, objects: Option<&Objects>) -> Map<String, Value> {
    let mut answer = Map::new();
    let mut add = |wanted: bool, name: &str, sums: Sums, items: Option<&Vec<Value>>| {
        let mut kind = json!(sums);
        if let Some(items) = items.filter(|items| !items.is_empty()) {
            kind["Items"] = items.clone().into();
        }
        if wanted {
            answer.insert(name.into(), kind);
        }
    };
    let images = Sums::of_images(&usage.images, usage.layers_size);
    add(query.images, "ImageUsage", images, objects.map(|all| &all.images));
    add(query.containers, "ContainerUsage", Sums::of_containers(&usage.containers), objects.map(|all| &all.containers));
    add(query.volumes, "VolumeUsage", Sums::of_volumes(&usage.volumes), objects.map(|all| &all.volumes));
    let caches = Sums::of_caches(&usage.build_cache);
    add(query.build_cache, "BuildCacheUsage", caches, objects.map(|all| &all.build_cache));
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use coracle::model::VolumeUsage;

    #[test]
    fn sums_tell_what_can_be_had_again() {
        let image =
            |size, shared_size, containers| ImageSummary { size, shared_size, containers, ..Default::default() };
        let container = |state: &str, size_rw| ContainerSummary { state: state.into(), size_rw, ..Default::default() };
        let volume =
            |size, ref_count| Volume { usage_data: Some(VolumeUsage { size, ref_count }), ..Default::default() };
        let cache = |in_use, size| BuildCache { in_use, size, ..Default::default() };
        let usage = DiskUsage {
            layers_size: 100,
            images: vec![image(60, 20, 2), image(60, 20, 0)],
            containers: vec![container("running", Some(5)), container("exited", Some(7)), container("created", None)],
            volumes: vec![volume(9, 1), volume(4, 0), volume(-1, 0)],
            build_cache: vec![cache(true, 3), cache(false, 8)],
        };
        let none = Vec::new;
        let objects =
            Objects { images: vec![json!({"Id": "i"})], containers: none(), volumes: none(), build_cache: none() };
        let all = sums(&usage, DiskUsageQuery::ALL, Some(&objects));
        let wanted = json!({
            "ImageUsage": {"ActiveCount": 1, "TotalCount": 2, "Reclaimable": 60, "TotalSize": 100, "Items": [{"Id": "i"}]},
            "ContainerUsage": {"ActiveCount": 1, "TotalCount": 3, "Reclaimable": 7, "TotalSize": 12},
            "VolumeUsage": {"ActiveCount": 1, "TotalCount": 3, "Reclaimable": 4, "TotalSize": 13},
            "BuildCacheUsage": {"ActiveCount": 1, "TotalCount": 2, "Reclaimable": 8, "TotalSize": 11},
        });
        assert_eq!(Value::Object(all), wanted);
        let some = sums(&usage, DiskUsageQuery { images: true, ..Default::default() }, None);
        assert_eq!(some.keys().collect::<Vec<_>>(), ["ImageUsage"]);
    }
}
