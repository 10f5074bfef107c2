//! The routes' functions: the request's words become calls of the engine, its answers become bodies.

pub(crate) mod archive;
pub(crate) mod build;
pub(crate) mod containers;
pub(crate) mod exec;
pub(crate) mod images;
mod lowered;
pub(crate) mod networks;
pub(crate) mod registry;
pub(crate) mod swarm;
pub(crate) mod system;
pub(crate) mod unbuilt;
pub(crate) mod volumes;

use crate::document::Document;
use crate::json;
use crate::message::{BodyOut, Produce, Request, Response, Sink};
use crate::query::Query;
use crate::router::{Router, check_json, error_answer};
use crate::versions::Version;
use coracle::{Engine, Error, ErrorKind, Result};
use serde::Serialize;
use serde_json::{Map, Value};
use std::io::ErrorKind as IoKind;

/// A route's function.
pub(crate) type Handler = fn(Call) -> Result<Response>;

/// A request on its way to a route.
pub(crate) struct Call {
    pub(crate) router: Router,
    pub(crate) version: Version,
    pub(crate) query: Query,
    /// The name in the path, decoded.
    pub(crate) name: String,
    pub(crate) request: Request,
}

impl Call {
    pub(crate) fn engine(&self) -> &Engine {
        self.router.engine()
    }
    /// The request's document, read whole. Errors: too large, by itself or with others', or the body is malformed.
    pub(crate) fn document(&mut self) -> Result<Document> {
        self.router.documents().read(&mut self.request.body, body_error)
    }
    pub(crate) fn check_json(&self) -> Result<()> {
        check_json(&self.request.headers, self.request.body.is_empty())
    }
}

/// A failure to read the request's body: the client's doing.
pub(crate) fn body_error(error: &std::io::Error) -> Error {
    match error.kind() {
        IoKind::InvalidData | IoKind::UnexpectedEof | IoKind::TimedOut => {
            Error::invalid(format!("the request body is malformed: {error}"))
        }
        _ => Error::io("read the request body", error),
    }
}

/// A JSON answer. A large one is written while it goes out.
pub(crate) fn document(status: u16, value: impl Serialize + Send + 'static) -> Result<Response> {
    let mut answer = Response::new(status, Vec::new()).with("Content-Type", "application/json");
    answer.body = match json::small_document(&value) {
        Some(bytes) => BodyOut::Bytes(bytes),
        None => BodyOut::Document(Box::new(move |out| json::write_document(out, &value))),
    };
    Ok(answer)
}

/// A document whose members another version of the API has otherwise.
pub(crate) fn as_object(value: &impl Serialize) -> Result<Map<String, Value>> {
    match serde_json::to_value(value) {
        Ok(Value::Object(members)) => Ok(members),
        Ok(other) => Err(Error::internal(format!("the answer is no object: {other}"))),
        Err(error) => Err(Error::internal(error.to_string())),
    }
}

/// An answer without a body.
pub(crate) fn empty(status: u16) -> Result<Response> {
    Ok(Response::new(status, Vec::new()))
}

/// A 200 whose body `make` produces. An error of it before the first byte becomes an ordinary error answer; after that
/// the stream breaks off.
pub(crate) fn streamed(
    call: &Call,
    content_type: Option<&str>,
    make: impl FnOnce(&mut dyn Sink) -> Result<()> + Send + 'static,
) -> Response {
    let (router, version) = (call.router.clone(), call.version.clone());
    let produce: Produce = Box::new(move |sink| match make(sink) {
        Ok(()) => Ok(()),
        Err(_) if sink.started() => Err(None),
        Err(error) => Err(Some(Box::new(router.mark(error_answer(&version, &error))))),
    });
    let answer = Response::new(200, Vec::new());
    let mut answer = match content_type {
        Some(kind) => answer.with("Content-Type", kind),
        None => answer,
    };
    answer.body = BodyOut::Stream(produce);
    answer
}

/// The error of a client that no longer listens: it ends the work, nobody reads it.
pub(crate) fn gone(error: std::io::Error) -> Error {
    Error::io("send the answer", &error).with_kind(ErrorKind::Cancelled)
}
