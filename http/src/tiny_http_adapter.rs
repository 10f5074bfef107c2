//! The router's plain routes behind `tiny_http`, for programs that have that server already.
//!
//! Streams and taken-over connections (events, logs, attach, exec start, image archives) are answered 501: its answers
//! reach the client only at their end, and its upgraded connections cannot be read and written at once.
//! `tests/tiny_http.rs` shows both, and a request that aborts the whole process: use it for trusted clients only.

use crate::message::{Body, BodyOut, Client, Headers, Request, Response};
use crate::router::Router;
use std::io::{self, Read};

/// Largest body that is read for a request.
const MAX_BODY: u64 = crate::document::MAX as u64;

/// Answers one request. Errors: the client is gone.
pub fn answer(router: &Router, mut request: tiny_http::Request) -> io::Result<()> {
    let mut headers = Headers::new();
    for header in request.headers() {
        headers.add(header.field.as_str().as_str(), header.value.as_str());
    }
    let mut body = Vec::new();
    request.as_reader().take(MAX_BODY + 1).read_to_end(&mut body)?;
    if body.len() as u64 > MAX_BODY {
        return request
            .respond(tiny_http::Response::from_data(b"the body is too large\n".to_vec()).with_status_code(413));
    }
    let answer = router.handle(Request {
        method: request.method().as_str().to_owned(),
        target: request.url().to_owned(),
        headers,
        body: Body::bytes(body),
        client: Client::patient(),
    });
    let Response { status, headers, body, .. } = answer;
    let (status, body) = match body {
        BodyOut::Bytes(body) | BodyOut::Raw(body) => (status, body),
        BodyOut::Document(write) => {
            let mut body = Vec::new();
            write(&mut body)?;
            (status, body)
        }
        BodyOut::Stream(_) | BodyOut::Hijack(_) => (501, b"{\"message\":\"streams need the own server\"}\n".to_vec()),
    };
    let mut out = tiny_http::Response::from_data(body).with_status_code(status);
    for (name, value) in headers.iter() {
        if let Ok(header) = tiny_http::Header::from_bytes(name, value) {
            out.add_header(header);
        }
    }
    request.respond(out)
}
