//! Prunes.

use crate::answer::{Call, document};
use crate::message::Response;
use crate::versions::Gate;
use coracle::{Error, Result};
use std::num::IntErrorKind;

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

/// The parameters that bound what a prune of builds keeps, in bytes. The first is the name of the second before API 1.48.
const BOUNDS: [(&str, &str); 4] = [
    ("keep-storage", "reserved-space"),
    ("reserved-space", "reserved-space"),
    ("max-used-space", "max-used-space"),
    ("min-free-space", "min-free-space"),
];

/// The caches that steps mount. The results of a build's steps are images here: a prune of images removes them. The bounds work
/// at every version: a version that ignored them would remove what the client wants to keep.
pub(crate) fn build_cache(call: Call) -> Result<Response> {
    let mut filters = call.query.filters()?;
    if let Some((key, _)) = BOUNDS.iter().find(|(key, _)| filters.contains_key(*key)) {
        return Err(Error::invalid(format!("Invalid filter '{key}'")));
    }
    for (parameter, bound) in BOUNDS {
        let bytes = bytes(parameter, call.query.text(parameter))?;
        if bytes != 0 {
            filters.insert(bound.into(), vec![bytes.to_string()]);
        }
    }
    let op = call.request.client.op()?;
    document(200, call.engine().build_prune(&filters, op.as_ref())?)
}

/// A number of bytes; absent: 0. Errors have dockerd's words.
fn bytes(parameter: &str, text: &str) -> Result<i64> {
    let wrong = |why: &str| {
        let text = format!(
            "{parameter} is in bytes and expects an integer, got {text}: strconv.Atoi: parsing {text:?}: {why}"
        );
        Error::invalid(text)
    };
    match text.parse::<i64>() {
        _ if text.is_empty() => Ok(0),
        Ok(bytes) => Ok(bytes),
        Err(error) => Err(wrong(match error.kind() {
            IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
            _ => "invalid syntax",
        })),
    }
}
