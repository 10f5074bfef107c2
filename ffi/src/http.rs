//! The HTTP API in process: one request, a private connection.

use crate::answer::{Answer, Outs};
use crate::arg::{self, Out};
use crate::call::call;
use crate::failure::{Failure, Outcome};
use crate::reader::{Ending, Stream};
use crate::root::{Access, with_root};
use crate::types::*;
use crate::using::Using;
use crate::work::{Work, work};
use coracle_http::{ReplyBody, Router};
use engine::Op;
use engine::model::StringMap;
use libc::{c_char, c_void};
use std::os::fd::IntoRawFd;

/// Answers one request of the HTTP API in process: whatever the engine can do, also without a function of its own here.
///
/// method: "GET", ... target: path and query, percent-encoded, such as "/v1.24/containers/json?all=1". headers_json:
/// NULL, or an object of strings. body, len: the request's body; NULL and 0 for none. *out_status (may be NULL): the
/// answer's status. *out: the answer's body; end it with coracle_stream_free. An HTTP status that reports a failure
/// is an answer and no error here; the body has the message.
///
/// The answer to an attach or exec start is the process's connection, in the frames of the HTTP API: bytes that the caller
/// writes to the descriptor of coracle_stream_fd go to the process's stdin. Of requests with CORACLE_OP_NONBLOCK 12 run at a
/// time; a request that waits for a container is better made by coracle_container_wait, which takes no thread.
///
/// Schemas: headers_json string-map.
///
/// Errors: EINVALID (an argument), ECANCELLED, ETIMEOUT (op), EIO (no descriptor is left).
///
/// Threads: any. Blocks: until the answer begins, or op ends the call. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_http_request(
    c: *mut coracle,
    method: *const c_char,
    target: *const c_char,
    headers_json: *const c_char,
    body: *const c_void,
    len: usize,
    op: *mut coracle_op,
    out_status: *mut i32,
    out: *mut *mut coracle_stream,
    err: *mut *mut coracle_error,
) -> coracle_status {
    let outs = Outs::none().optional_code(out_status, 0).stream(out);
    call(c, access(method), op, outs, err, &mut |root| {
        let request = Request::new(method, target, headers_json, body, len)?;
        let router = root.router()?.clone();
        let send = move |using: &Using| {
            let (status, body) = request.send(&router, using.op())?;
            using.done(using.check())?;
            Ok(Answer::code(status.into()).and_stream(body))
        };
        work(send).map(Work::long)
    })
}

/// Opens a private connection that speaks the HTTP API, for clients with protocol code of their own. There is no listening
/// socket, no path and no port.
///
/// *out_fd: a connected stream socket (close-on-exec), the caller's to close, which ends it; -1 on failure. It is served
/// by a thread of the library.
///
/// Errors: EIO (no descriptor is left).
///
/// Threads: any. Blocks: no. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_http_connect(
    c: *mut coracle,
    out_fd: *mut i32,
    err: *mut *mut coracle_error,
) -> coracle_status {
    let out = Out::new(out_fd, -1);
    with_root(c, Access::Change, err, |root| {
        out.check("out_fd")?;
        out.set(root.router()?.connect()?.into_raw_fd());
        Ok(CORACLE_OK)
    })
}

/// A request with everything that it needs.
struct Request {
    method: String,
    target: String,
    headers: StringMap,
    body: Vec<u8>,
}

impl Request {
    fn new(
        method: *const c_char,
        target: *const c_char,
        headers_json: *const c_char,
        body: *const c_void,
        len: usize,
    ) -> Outcome<Request> {
        let target = arg::text(target, "target")?.to_string();
        if !target.starts_with('/') {
            return Err(Failure::invalid("target does not begin with /"));
        }
        Ok(Request {
            method: arg::text(method, "method")?.to_string(),
            target,
            headers: arg::json_or_default(headers_json, "headers_json")?,
            body: arg::bytes(body, len, "body")?.to_vec(),
        })
    }

    fn send(self, router: &Router, op: Option<&Op>) -> Outcome<(u16, Stream)> {
        let headers: Vec<(&str, &str)> = self.headers.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        let reply = router.request(&self.method, &self.target, &headers, self.body, op)?;
        let body = match reply.body {
            ReplyBody::Bytes(bytes) => Stream::memory(bytes)?,
            ReplyBody::Stream(fd, end) => Stream::bytes(fd, Ending::Http(end)),
            ReplyBody::Duplex(fd) => Stream::bytes(fd, Ending::Plain),
        };
        Ok((reply.status, body))
    }
}

/// How a request of that method may use the root. The caller refuses a method that is not text later.
fn access(method: *const c_char) -> Access {
    match arg::text(method, "method") {
        Ok("GET" | "HEAD") => Access::Read,
        _ => Access::Change,
    }
}
