//! Files in and out of containers: archive, copy, export, changes, commit.

use crate::answer::{Call, document, empty, streamed};
use crate::json;
use crate::message::{Response, Sink};
use crate::schema;
use crate::versions::Gate;
use coracle::model::{CommitContainer, ContainerConfig, PathStat, PutArchive, to_base64};
use coracle::{Archive, Error, Result};
use serde_json::Value;
use std::io::{self, Write};

const TAR: &str = "application/x-tar";

pub(crate) fn stat(call: Call) -> Result<Response> {
    let op = call.request.client.op()?;
    let stat = call.engine().container_archive_stat(&call.name, call.query.text("path"), op.as_ref())?;
    Ok(described(Response::new(200, Vec::new()), &stat))
}

pub(crate) fn get(call: Call) -> Result<Response> {
    let op = call.request.client.op()?;
    let archive = call.engine().container_archive_get(&call.name, call.query.text("path"), op.as_ref())?;
    let stat = archive.stat().clone();
    Ok(described(sent(&call, archive), &stat))
}

pub(crate) fn put(mut call: Call) -> Result<Response> {
    let how = PutArchive {
        no_overwrite_dir_non_dir: call.query.flag("noOverwriteDirNonDir"),
        copy_uid_gid: call.query.flag("copyUIDGID"),
    };
    let op = call.request.client.op()?;
    let engine = call.engine().clone();
    let path = call.query.text("path").to_owned();
    engine.container_archive_put(&call.name, &path, &mut call.request.body, how, op.as_ref())?;
    Ok(Response::new(200, Vec::new()))
}

/// Gone from 1.24 on, with an answer that has no body.
pub(crate) fn copy(mut call: Call) -> Result<Response> {
    if call.version.has(Gate::NoCopy) {
        return empty(404);
    }
    call.check_json()?;
    let text = call.document()?;
    let body: Value = schema::typed(schema::read(&text, &schema::COPY)?)?;
    let op = call.request.client.op()?;
    let resource = body["Resource"].as_str().unwrap_or_default();
    let archive = call.engine().container_copy(&call.name, resource, op.as_ref())?;
    Ok(sent(&call, archive))
}

fn sent(call: &Call, archive: Archive) -> Response {
    let client = call.request.client.clone();
    streamed(call, Some(TAR), move |sink| {
        let op = client.op()?;
        archive.write_to(&mut ToSink(sink), op.as_ref())
    })
}

pub(crate) fn export(call: Call) -> Result<Response> {
    let (engine, client, name) = (call.engine().clone(), call.request.client.clone(), call.name.clone());
    Ok(streamed(&call, Some("application/octet-stream"), move |sink| {
        let op = client.op()?;
        engine.container_export(&name, &mut ToSink(sink), op.as_ref())
    }))
}

pub(crate) fn changes(call: Call) -> Result<Response> {
    let changes = call.engine().container_changes(&call.name)?;
    // No change is null, as clients know it.
    document(200, (!changes.is_empty()).then_some(changes))
}

pub(crate) fn commit(mut call: Call) -> Result<Response> {
    call.check_json()?;
    let text = call.document()?;
    let config = match schema::read(if text.is_empty() { b"null" } else { &text }, &schema::COMMIT)? {
        json::Node::Object(fields) if fields.is_empty() => None,
        node => Some(schema::typed::<ContainerConfig>(node)?),
    };
    let words = |key| call.query.text(key).to_owned();
    let how = CommitContainer {
        repo: words("repo"),
        tag: words("tag"),
        comment: words("comment"),
        author: words("author"),
        pause: call.query.get("pause").is_none() || call.query.flag("pause"),
        changes: call.query.all("changes").map(str::to_owned).collect(),
        config,
    };
    let op = call.request.client.op()?;
    let container = call.query.text("container");
    if container.is_empty() {
        return Err(Error::not_found("No such container: "));
    }
    let id = call.engine().container_commit(container, &how, op.as_ref())?;
    document(201, serde_json::json!({ "Id": id }))
}

/// With what stands at the path, under the specification's name and the one that clients read.
fn described(answer: Response, stat: &PathStat) -> Response {
    let text = to_base64(&json::text(stat));
    answer.with("X-Docker-Container-Path-Stat", &text).with("X-Engine-Container-Path-Stat", &text)
}

/// A writer on a sink.
struct ToSink<'a>(&'a mut dyn Sink);

impl Write for ToSink<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
