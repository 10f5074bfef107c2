//! Prunes, and the space that everything takes.

use crate::answer::{Call, as_object, document};
use crate::message::Response;
use crate::versions::{Gate, Noun};
use coracle::model::DiskUsageQuery;
use coracle::{Error, Result};
use serde::Serialize;
use serde_json::{Value, json};

pub(crate) fn containers(call: Call) -> Result<Response> {
    let filters = call.query.filters()?;
    // A prune does not take the filters of a list.
    if let Some(key) = filters.keys().find(|key| !matches!(key.as_str(), "until" | "label" | "label!")) {
        return Err(Error::invalid(format!("Invalid filter '{key}'")));
    }
    let op = call.request.client.op()?;
    document(200, call.engine().containers_prune(&filters, op.as_ref())?)
}

pub(crate) fn images(call: Call) -> Result<Response> {
    let op = call.request.client.op()?;
    document(200, call.engine().images_prune(&call.query.filters()?, op.as_ref())?)
}

pub(crate) fn volumes(call: Call) -> Result<Response> {
    let mut filters = call.query.filters()?;
    if !call.version.has(Gate::PruneKeepsNamedVolumes) {
        if let Some(values) = filters.get("all") {
            return Err(Error::invalid(format!("Invalid filter 'all=[{}]'", values.join(" "))));
        }
        filters.insert("all".into(), vec!["true".into()]);
    }
    let op = call.request.client.op()?;
    document(200, call.engine().volumes_prune(&filters, op.as_ref())?)
}

pub(crate) fn networks(call: Call) -> Result<Response> {
    let op = call.request.client.op()?;
    document(200, call.engine().networks_prune(&call.query.filters()?, op.as_ref())?)
}

/// The results of a build's steps are images here: a prune of images removes them.
pub(crate) fn build_cache(_: Call) -> Result<Response> {
    document(200, json!({ "CachesDeleted": [], "SpaceReclaimed": 0 }))
}

pub(crate) fn disk_usage(call: Call) -> Result<Response> {
    let kinds: Vec<&str> = match call.version.has(Gate::DiskUsageByType) {
        true => call.query.all("type").collect(),
        false => Vec::new(),
    };
    if let Some(unknown) = kinds.iter().find(|kind| !KINDS.contains(kind)) {
        return Err(Error::invalid(format!("unknown object type: {unknown}")));
    }
    let wants = |kind: &str| kinds.is_empty() || kinds.contains(&kind);
    let query = DiskUsageQuery { containers: wants("container"), images: wants("image"), volumes: wants("volume") };
    let op = call.request.client.op()?;
    let usage = call.engine().disk_usage(query, op.as_ref())?;
    let image = |image| {
        let mut image = as_object(image)?;
        call.version.lower(Noun::ListedImage, &mut image);
        Ok(Value::Object(image))
    };
    let images = usage.images.iter().map(image).collect::<Result<Vec<_>>>()?;
    // A kind that was not requested is null.
    let shown = |wanted: bool, list: Value| if wanted { list } else { Value::Null };
    let mut answer = json!({
        "LayersSize": usage.layers_size,
        "Images": shown(query.images, images.into()),
        "Containers": shown(query.containers, listed(&usage.containers)?),
        "Volumes": shown(query.volumes, listed(&usage.volumes)?),
        "BuildCache": shown(wants("build-cache"), json!([])),
    });
    if !call.version.has(Gate::DiskUsageByType) {
        answer["BuilderSize"] = 0.into();
    }
    document(200, answer)
}

const KINDS: [&str; 4] = ["container", "image", "volume", "build-cache"];

fn listed(items: &[impl Serialize]) -> Result<Value> {
    items.iter().map(|item| as_object(item).map(Value::Object)).collect()
}
