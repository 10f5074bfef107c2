//! The engine itself: ping, version, info, events.

use crate::answer::{Call, document, gone, streamed};
use crate::json;
use crate::message::Response;
use crate::versions::{NEWEST, OLDEST};
use coracle::Result;
use coracle::model::EventQuery;
use serde_json::{Map, Value};

pub(crate) fn ping(call: Call) -> Result<Response> {
    let body = if call.request.method == "HEAD" { Vec::new() } else { b"OK".to_vec() };
    Ok(Response::new(200, body)
        .with("Content-Type", "text/plain; charset=utf-8")
        .with("Cache-Control", "no-cache, no-store, must-revalidate")
        .with("Pragma", "no-cache"))
}

pub(crate) fn version(call: Call) -> Result<Response> {
    let mut version = call.engine().version()?;
    // Which versions are spoken is this layer's own knowledge.
    version.api_version = NEWEST.into();
    version.min_api_version = OLDEST.into();
    document(200, version)
}

pub(crate) fn info(call: Call) -> Result<Response> {
    let mut info: Map<String, Value> = call.engine().info()?.into_iter().collect();
    // One directory under the specification's name and under the one that clients read.
    for (name, other) in [("EngineRootDir", "DockerRootDir"), ("DockerRootDir", "EngineRootDir")] {
        if let Some(value) = info.get(name).cloned() {
            info.entry(other).or_insert(value);
        }
    }
    // Each may have cost a client the beginning of its output.
    info.insert("NHeadsUnread".into(), call.context.unread().count().into());
    call.version.lower_info(&mut info);
    document(200, info)
}

pub(crate) fn events(call: Call) -> Result<Response> {
    let query = EventQuery {
        since_ns: call.query.time("since")?.map(nanoseconds),
        until_ns: call.query.time("until")?.map(nanoseconds),
        after: None,
        filters: call.query.filters()?,
    };
    let mut events = call.engine().events(&query)?;
    let client = call.request.client.clone();
    Ok(streamed(&call, Some("application/json"), move |sink| {
        sink.start().map_err(gone)?;
        let op = client.op()?;
        loop {
            match events.next(None, op.as_ref())? {
                Some((_, event)) => sink.write_all(&json::line(&event)).map_err(gone)?,
                None if events.ended() => return Ok(()),
                None => {}
            }
        }
    }))
}

pub(super) fn nanoseconds((seconds, nanos): (i64, i64)) -> i64 {
    seconds.saturating_mul(1_000_000_000).saturating_add(nanos)
}
