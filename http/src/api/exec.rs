//! Exec instances.

use super::containers::terminal_size;
use super::lowered::{Holding, lowered};
use crate::answer::{Call, as_object, document, empty};
use crate::document::Document;
use crate::message::{Duplex, Response};
use crate::schema;
use crate::stream::{self, Frames};
use crate::versions::Gate;
use coracle::model::{DetachKeys, ExecConfig};
use coracle::{Channel, Error, Io, Result};
use serde::Deserialize;
use serde_json::Value;

pub(crate) fn create(mut call: Call) -> Result<Response> {
    call.check_json()?;
    let text = body(&mut call)?;
    let config: ExecConfig = schema::typed(schema::read(&text, &schema::EXEC_CONFIG)?)?;
    let id = call.engine().exec_create(&call.name, &config)?;
    match call.version.has(Gate::ExecIdAlone) {
        true => document(201, serde_json::json!({ "Id": id })),
        false => document(201, serde_json::json!({ "Id": id, "Warnings": [] })),
    }
}

/// The document, which must not be empty.
fn body(call: &mut Call) -> Result<Document> {
    let text = call.document()?;
    if text.iter().all(u8::is_ascii_whitespace) {
        return Err(Error::invalid("got EOF while reading request body"));
    }
    Ok(text)
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct Start {
    detach: bool,
    tty: bool,
    /// Rows and columns.
    console_size: [u32; 2],
}

pub(crate) fn start(mut call: Call) -> Result<Response> {
    if call.version.has(Gate::ExecStartJson) {
        call.check_json()?;
    }
    let text = body(&mut call)?;
    let start: Start = schema::typed(schema::read(&text, &schema::EXEC_START)?)?;
    let detail = call.engine().exec_inspect(&call.name)?;
    if start.detach {
        call.engine().exec_start(&call.name, None, None)?;
        return empty(200);
    }
    let frames = if start.tty { Frames::Raw } else { Frames::Multiplexed };
    let keys = DetachKeys::of_exec(&detail);
    let plan = stream::Plan {
        frames,
        keys: start.tty.then_some(keys),
        waits_for_exit: true,
        unread: call.context.unread().clone(),
    };
    let unread = plan.unread.clone();
    let (engine, id) = (call.engine(), &call.name);
    // Before the answer is sent: a client that has the answer may resize and inspect the process at once.
    let [rows, cols] = start.console_size.map(|size| u16::try_from(size).unwrap_or(u16::MAX));
    let started = engine.exec_start(id, Some(Io { rows, cols, ..Io::default() }), None);
    if let Err(error) = &started
        && engine.container_inspect(&detail.container_id, false)?.state.paused
    {
        return Err(error.clone());
    }
    // Any other failure stands in the stream, as with dockerd.
    let take = move |socket: Duplex| match started {
        Ok(Some(session)) => stream::pump(socket, session, plan),
        Ok(None) => {}
        Err(error) => {
            stream::say(&socket, Channel::Stdout, format!("{}\r\n", error.message()).as_bytes(), frames, &unread)
        }
    };
    let marks = call.context.mark(Response::new(200, Vec::new())).headers;
    Ok(stream::takeover(&call, frames, Some(&marks), Box::new(take)))
}

pub(crate) fn resize(call: Call) -> Result<Response> {
    let (rows, cols) = terminal_size(&call)?;
    call.engine().exec_resize(&call.name, rows, cols)?;
    Ok(empty(201)?.with("Content-Type", "text/plain; charset=utf-8"))
}

pub(crate) fn inspect(call: Call) -> Result<Response> {
    let detail = call.engine().exec_inspect(&call.name)?;
    if call.version.has(Gate::ExecNewest) {
        return document(200, detail);
    }
    let container = call.engine().container_inspect(&detail.container_id, false)?;
    let mut members = as_object(&detail)?;
    for name in ["CanRemove", "ContainerID", "DetachKeys", "Pid"] {
        members.remove(name);
    }
    members.insert(Holding::NAME.into(), Value::Null);
    document(200, Holding { members, container: lowered(container, &call.version)? })
}
