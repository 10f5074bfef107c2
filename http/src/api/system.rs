//! The engine itself: ping, version, info, events.

use crate::answer::{Call, as_object, document, gone, streamed};
use crate::json;
use crate::message::Response;
use crate::versions::{ApiVersion, Gate, Noun, Version};
use coracle::model::{Event, EventQuery};
use coracle::{Engine, Result};
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
        answer = answer.with("Swarm", swarm_state(call.engine()));
    }
    Ok(answer)
}

/// The state of the membership of a swarm, as a ping tells it: `inactive`, `pending`, `error`, `active/manager`, `active/worker`.
fn swarm_state(engine: &Engine) -> String {
    let Some(info) = engine.swarm_info() else { return "inactive".into() };
    let state = info["LocalNodeState"].as_str().unwrap_or("error");
    match (state, info["ControlAvailable"].as_bool()) {
        ("active", Some(true)) => "active/manager".into(),
        ("active", _) => "active/worker".into(),
        _ => state.into(),
    }
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
    let (client, version) = (call.request.client.clone(), call.version.clone());
    let form = EventForm::of(&call);
    Ok(streamed(&call, Some(form.media_type()), move |sink| {
        sink.start().map_err(gone)?;
        let op = client.op()?;
        loop {
            match events.next(None, op.as_ref())? {
                Some((_, event)) => {
                    if let Some(event) = shown(event, &version) {
                        sink.write_all(&form.written(&event, &version)).map_err(gone)?;
                    }
                }
                None if events.ended() => return Ok(()),
                None => {}
            }
        }
    }))
}

/// How events follow one another.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EventForm {
    /// One on a line, under the name that engines had for this before 1.52.
    Json,
    /// One on a line: <https://jsonlines.org>.
    Lines,
    /// One on a line, under another name.
    Ndjson,
    /// A record separator before each (RFC 7464).
    Sequence,
}

impl EventForm {
    /// The first form among those that the request accepts; lines, if it accepts anything else.
    fn of(call: &Call) -> EventForm {
        if !call.version.has(Gate::BareEvents) {
            return EventForm::Json;
        }
        let named = |form: EventForm| {
            let accepts = |text: &str| text.split(';').next().unwrap_or("").trim() == form.media_type();
            let accepted = call.request.headers.get("Accept").unwrap_or_default();
            accepted.split(',').any(accepts)
        };
        let others = [EventForm::Lines, EventForm::Ndjson, EventForm::Sequence];
        others.into_iter().find(|form| named(*form)).unwrap_or(EventForm::Lines)
    }

    fn media_type(self) -> &'static str {
        match self {
            EventForm::Json => "application/json",
            EventForm::Lines => "application/jsonl",
            EventForm::Ndjson => "application/x-ndjson",
            EventForm::Sequence => "application/json-seq",
        }
    }

    fn written(self, event: &Event, version: &Version) -> Vec<u8> {
        const SEPARATOR: u8 = 0x1e;
        let line = match version.has(Gate::EventScope) {
            true => json::line(&Scoped { event, scope: "local" }),
            false => json::line(event),
        };
        if self == EventForm::Sequence { [&[SEPARATOR], line.as_slice()].concat() } else { line }
    }
}

/// An event with the extent that it is known in. All events are of this host: none is of a swarm.
#[derive(serde::Serialize)]
struct Scoped<'a> {
    #[serde(flatten)]
    event: &'a Event,
    scope: &'static str,
}

/// An event as a version shows it; none, if the version does not have it.
fn shown(event: Event, version: &Version) -> Option<Event> {
    let is_new = event.kind == "image" && event.action == "create";
    if is_new && !version.has(Gate::ImageCreateEvents) {
        return None;
    }
    match version.has(Gate::BareEvents) {
        true => Some(Event { status: String::new(), id: String::new(), from: String::new(), ..event }),
        false => Some(event),
    }
}

pub(super) fn nanoseconds((seconds, nanos): (i64, i64)) -> i64 {
    seconds.saturating_mul(1_000_000_000).saturating_add(nanos)
}
