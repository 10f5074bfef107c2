//! The engine itself: ping, version, info, events.

use crate::answer::{Call, as_object, document, gone, streamed};
use crate::json;
use crate::message::Response;
use crate::versions::{ApiVersion, Gate, Noun};
use coracle::Result;
use coracle::model::EventQuery;
use serde_json::{Map, Value, json as value};

pub(crate) fn ping(call: Call) -> Result<Response> {
    let body = if call.request.method == "HEAD" { Vec::new() } else { b"OK".to_vec() };
    let mut answer = Response::new(200, body)
        .with("Content-Type", "text/plain; charset=utf-8")
        .with("Cache-Control", "no-cache, no-store, must-revalidate")
        .with("Pragma", "no-cache");
    if call.version.has(Gate::PingTellsBuilder) {
        // The classic builder.
        answer = answer.with("Builder-Version", "1");
    }
    if call.version.has(Gate::PingTellsSwarm) {
        answer = answer.with("Swarm", "inactive");
    }
    Ok(answer)
}

pub(crate) fn version(call: Call) -> Result<Response> {
    let mut version = call.engine().version()?;
    // Which versions are spoken is this layer's own knowledge.
    version.api_version = call.context.newest().to_string();
    version.min_api_version = ApiVersion::OLDEST.to_string();
    let own = std::mem::replace(&mut version.version, call.context.engine_version());
    let mut answer = as_object(&version)?;
    answer.insert("Platform".into(), value!({ "Name": "Coracle" }));
    answer.insert("Components".into(), components(&version, &own));
    call.version.lower(Noun::Version, &mut answer);
    document(200, answer)
}

/// The engine as docker's clients know it, and the library by its own version. `Details` are texts.
fn components(engine: &coracle::model::Version, own: &str) -> Value {
    value!([
        {
            "Name": "Engine",
            "Version": engine.version,
            "Details": {
                "ApiVersion": engine.api_version,
                "Arch": engine.arch,
                "BuildTime": engine.build_time,
                "Experimental": engine.experimental.to_string(),
                "GitCommit": engine.git_commit,
                "GoVersion": engine.go_version,
                "KernelVersion": engine.kernel_version,
                "MinAPIVersion": engine.min_api_version,
                "Os": engine.os,
            },
        },
        { "Name": "Coracle", "Version": own, "Details": { "GitCommit": engine.git_commit } },
    ])
}

/// 200 and `ok` if the engine can do its work; else the error.
pub(crate) fn health(call: Call) -> Result<Response> {
    call.engine().health()?;
    Ok(Response::new(200, b"ok\n".to_vec()).with("Content-Type", "text/plain; charset=utf-8"))
}

/// The engine's numbers, as Prometheus reads them.
pub(crate) fn metrics(call: Call) -> Result<Response> {
    let text = call.engine().metrics()?.to_prometheus();
    Ok(Response::new(200, text.into_bytes()).with("Content-Type", "text/plain; version=0.0.4; charset=utf-8"))
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
    info.insert("ServerVersion".into(), call.context.engine_version().into());
    call.version.lower(Noun::Info, &mut info);
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
