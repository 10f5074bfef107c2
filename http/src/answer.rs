//! A request on its way to a route, and the answers that routes give: documents, streams, errors.

use crate::context::Context;
use crate::document::Document;
use crate::json;
use crate::message::{BodyOut, Headers, Produce, Request, Response, Sink};
use crate::query::Query;
use crate::versions::{Gate, Version};
use coracle::{Engine, Error, ErrorKind, Result};
use serde::Serialize;
use serde_json::{Map, Value};
use std::io::ErrorKind as IoKind;

/// A request on its way to a route.
pub(crate) struct Call {
    pub(crate) context: Context,
    pub(crate) version: Version,
    pub(crate) query: Query,
    /// The name in the path, decoded.
    pub(crate) name: String,
    pub(crate) request: Request,
}

impl Call {
    pub(crate) fn engine(&self) -> &Engine {
        self.context.engine()
    }
    /// The request's document, read whole. Errors: too large, by itself or with others', or the body is malformed.
    pub(crate) fn document(&mut self) -> Result<Document> {
        if self.context.authorization().is_some() && !self.request.body.is_empty() {
            // Authorization plugins were shown the documents that are called JSON, and no others.
            self.check_json()?;
        }
        self.context.documents().read(&mut self.request.body, body_error)
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
        Ok(other) => Err(Error::internal(format!("the answer is not an object: {other}"))),
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
    let (context, version) = (call.context.clone(), call.version.clone());
    let produce: Produce = Box::new(move |sink| match make(sink) {
        Ok(()) => Ok(()),
        Err(_) if sink.started() => Err(None),
        Err(error) => Err(Some(Box::new(context.mark(error_answer(&version, &error))))),
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

/// The answer that an error of the engine becomes.
pub(crate) fn error_answer(version: &Version, error: &Error) -> Response {
    refusal(version, error.http_status(), error.message())
}

/// An error body: JSON, and text before 1.24.
pub(crate) fn refusal(version: &Version, status: u16, message: &str) -> Response {
    if version.has(Gate::JsonErrors) {
        let body = json::document(&serde_json::json!({ "message": message }));
        return Response::new(status, body).with("Content-Type", "application/json");
    }
    Response::new(status, format!("{message}\n").into_bytes())
        .with("Content-Type", "text/plain; charset=utf-8")
        .with("X-Content-Type-Options", "nosniff")
}

/// Whether the body is called JSON.
pub(crate) fn is_json(headers: &Headers) -> bool {
    let media = headers.get("content-type").unwrap_or("").split(';').next().unwrap_or("").trim();
    media.eq_ignore_ascii_case("application/json")
}

/// The engine's words for a body that should be JSON and is not called so.
pub(crate) fn check_json(headers: &Headers, empty: bool) -> Result<()> {
    let given = headers.get("content-type").unwrap_or("");
    if given.is_empty() && empty {
        return Ok(());
    }
    if is_json(headers) {
        return Ok(());
    }
    Err(Error::invalid(format!("Content-Type specified ({given}) must be 'application/json'")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_must_be_called_json() {
        let named = |text: &str| {
            let mut headers = Headers::new();
            headers.add("Content-Type", text);
            check_json(&headers, false)
        };
        assert!(named("Application/JSON; charset=utf-8").is_ok());
        let error = named("text/plain").unwrap_err();
        assert_eq!(error.message(), "Content-Type specified (text/plain) must be 'application/json'");
        assert!(check_json(&Headers::new(), true).is_ok());
        assert!(check_json(&Headers::new(), false).is_err());
    }
}
