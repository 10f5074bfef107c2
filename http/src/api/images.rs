//! Images.

use crate::answer::{Call, as_object, document, empty, gone, streamed};
use crate::message::{Response, Sink};
use crate::platform;
use crate::stream;
use crate::versions::{Gate, Noun};
use coracle::model::{ImportImage, ListImages, Progress, RemoveImage};
use coracle::{Error, ErrorKind, Result};
use std::io::{self, Write};

pub(crate) fn list(call: Call) -> Result<Response> {
    let mut filters = call.query.filters()?;
    let mut filter = String::new();
    if !call.version.has(Gate::ImageNameIsFilter) {
        filter = call.query.text("filter").to_owned();
    }
    // Specified among the filters, and known as a parameter.
    if let Some(names) = filters.remove("filter") {
        match names.as_slice() {
            [name] if filter.is_empty() => filter.clone_from(name),
            [] => {}
            _ => return Err(Error::invalid("filter: one name can be given")),
        }
    }
    let shared_size = call.query.flag("shared-size");
    let containers = call.version.has(Gate::ListedImageUsers);
    let query = ListImages { all: call.query.flag("all"), filter, filters, shared_size, containers };
    let images = call.engine().image_list(&query)?;
    if !call.version.changes(Noun::ListedImage) {
        return document(200, images);
    }
    let shown = |image| {
        let mut image = as_object(image)?;
        call.version.lower(Noun::ListedImage, &mut image);
        Ok(image)
    };
    document(200, images.iter().map(shown).collect::<Result<Vec<_>>>()?)
}

pub(crate) fn inspect(call: Call) -> Result<Response> {
    if call.query.flag("manifests") && !call.query.text("platform").is_empty() {
        return Err(Error::invalid("conflicting options: manifests and platform options cannot both be set"));
    }
    platform::check_images(&call, "platform", std::slice::from_ref(&call.name))?;
    let mut answer = as_object(&call.engine().image_inspect(&call.name)?)?;
    call.version.lower(Noun::Image, &mut answer);
    document(200, answer)
}

pub(crate) fn history(call: Call) -> Result<Response> {
    platform::check_images(&call, "platform", std::slice::from_ref(&call.name))?;
    document(200, call.engine().image_history(&call.name)?)
}

pub(crate) fn tag(call: Call) -> Result<Response> {
    let (repo, tag) = (call.query.text("repo"), call.query.text("tag"));
    let reference = if tag.is_empty() { repo.to_owned() } else { format!("{repo}:{tag}") };
    call.engine().image_tag(&call.name, &reference)?;
    empty(201)
}

pub(crate) fn remove(call: Call) -> Result<Response> {
    if call.name.trim().is_empty() {
        return Err(Error::invalid("image name cannot be blank"));
    }
    platform::check_images(&call, "platforms", std::slice::from_ref(&call.name))?;
    let how = RemoveImage { force: call.query.flag("force"), no_prune: call.query.flag("noprune") };
    document(200, call.engine().image_remove(&call.name, how)?)
}

pub(crate) fn save_one(call: Call) -> Result<Response> {
    let names = vec![call.name.clone()];
    save(call, names)
}

pub(crate) fn save_many(call: Call) -> Result<Response> {
    let names = call.query.all("names").map(str::to_owned).collect();
    save(call, names)
}

fn save(call: Call, names: Vec<String>) -> Result<Response> {
    platform::check_repositories(&call, &names)?;
    let (engine, client) = (call.engine().clone(), call.request.client.clone());
    Ok(streamed(&call, Some("application/x-tar"), move |sink| {
        let op = client.op()?;
        let mut archive = io::BufWriter::with_capacity(128 << 10, ToSink(sink));
        let result = engine.image_save(&names, &mut archive, op.as_ref());
        // The buffered part of a failed archive must not go out: if nothing has gone out yet, the failure
        // is the answer.
        let (sink, rest) = archive.into_parts();
        result?;
        sink.0.write_all(&rest.unwrap_or_default()).map_err(gone)
    }))
}

/// A writer on a sink (which is one itself, behind a reference).
struct ToSink<'a>(&'a mut dyn Sink);

impl Write for ToSink<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

pub(crate) fn load(mut call: Call) -> Result<Response> {
    let quiet = call.query.flag("quiet");
    let (engine, client) = (call.engine().clone(), call.request.client.clone());
    let mut archive = std::mem::replace(&mut call.request.body, crate::message::Body::empty());
    Ok(streamed(&call, Some("application/json"), move |sink| {
        let op = client.op()?;
        let mut report = |message: Progress| {
            if quiet && message.stream.is_empty() {
                return Ok(());
            }
            sink.write_all(&stream::progress(&message)).map_err(gone)
        };
        let result = engine.image_load(&mut archive, &mut report, op.as_ref());
        match result {
            Ok(_) => sink.start().map_err(gone),
            // A load is a 200 once it began; what goes wrong stands in the stream.
            Err(error) => sink.write_all(&stream::failure(&error)).map_err(gone),
        }
    }))
}

pub(crate) fn create(call: Call) -> Result<Response> {
    let from = |key| call.query.get(key).filter(|v| !v.is_empty());
    match (from("fromImage"), from("fromSrc")) {
        (Some(name), _) => {
            let name = name.to_owned();
            super::registry::pull(call, &name)
        }
        (None, Some(source)) => {
            let source = source.to_owned();
            import(call, &source)
        }
        (None, None) => Err(Error::invalid("one of fromImage and fromSrc is needed")),
    }
}

/// `source`: `-` is the body, anything else the URL of a file, as dockerd without a scheme too.
fn import(mut call: Call, source: &str) -> Result<Response> {
    let url = (source != "-").then(|| match source.contains("://") {
        true => source.to_owned(),
        false => format!("http://{source}"),
    });
    let text = |key| call.query.text(key).to_owned();
    let how = ImportImage {
        repo: text("repo"),
        tag: text("tag"),
        message: text("message"),
        source: "-".into(),
        changes: call.query.all("changes").flat_map(str::lines).map(str::to_owned).collect(),
    };
    let (engine, client) = (call.engine().clone(), call.request.client.clone());
    let mut rootfs = std::mem::replace(&mut call.request.body, crate::message::Body::empty());
    Ok(streamed(&call, Some("application/json"), move |sink| {
        let op = client.op()?;
        let mut report = |message: Progress| sink.write_all(&stream::progress(&message)).map_err(gone);
        let imported = match &url {
            Some(url) => engine.image_import_url(url, &how, &mut report, op.as_ref()),
            None => engine.image_import(&mut rootfs, &how, &mut report, op.as_ref()),
        };
        match imported {
            Ok(_) => Ok(()),
            Err(error) if sink.started() && error.kind() != ErrorKind::Cancelled => {
                sink.write_all(&stream::failure(&error)).map_err(gone)
            }
            Err(error) => Err(error),
        }
    }))
}
