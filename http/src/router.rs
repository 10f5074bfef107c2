//! The router: a request in, an answer out. It knows no socket.

use crate::api::Call;
use crate::document::Documents;
use crate::json;
use crate::message::{BodyOut, Headers, Request, Response};
use crate::parameters;
use crate::query::{Query, decode};
use crate::routes;
use crate::stream::Unread;
use crate::versions::{Gate, NEWEST, Version};
use crate::watch::Watch;
use coracle::{Engine, Error};
use std::sync::Arc;

/// How the router answers.
#[derive(Debug, Clone, Default)]
pub struct RouterOptions {
    /// The value of `Access-Control-Allow-Origin`; absent or empty: no cross-origin header is sent.
    pub api_cors_header: Option<String>,
}

/// The API of one engine. Clones share it.
#[derive(Clone)]
pub struct Router(Arc<Inner>);

struct Inner {
    engine: Engine,
    options: RouterOptions,
    watch: Watch,
    documents: Documents,
    unread: Unread,
}

impl Router {
    /// The API of `engine`, with default options.
    pub fn new(engine: Engine) -> Router {
        Router::with(engine, RouterOptions::default())
    }
    /// The API of `engine`.
    pub fn with(engine: Engine, options: RouterOptions) -> Router {
        let (watch, documents, unread) = Default::default();
        Router(Arc::new(Inner { engine, options, watch, documents, unread }))
    }
    /// The engine behind it.
    pub fn engine(&self) -> &Engine {
        &self.0.engine
    }
    pub(crate) fn watch(&self) -> &Watch {
        &self.0.watch
    }
    pub(crate) fn unread(&self) -> &Unread {
        &self.0.unread
    }
    pub(crate) fn documents(&self) -> &Documents {
        &self.0.documents
    }
    pub(crate) fn cors(&self) -> bool {
        self.0.options.api_cors_header.as_deref().is_some_and(|v| !v.is_empty())
    }

    /// Answers one request. Every failure is an answer too.
    pub fn handle(&self, request: Request) -> Response {
        let (raw_path, raw_query) = split(&request.target);
        let Ok(path) = decode(raw_path, false) else {
            let answer = Response::new(400, b"400 Bad Request".to_vec());
            return answer.with("Content-Type", "text/plain; charset=utf-8").with("Connection", "close");
        };
        let clean = clean_path(&path);
        if clean != path {
            let query = if raw_query.is_empty() { String::new() } else { format!("?{raw_query}") };
            return Response::new(301, Vec::new()).with("Location", encode_path(&clean) + &query);
        }
        let (prefix, rest) = split_version(&path);
        let version = prefix.map_or_else(Version::newest, Version::parse);
        if request.method == "OPTIONS" {
            return self.mark(Response::new(200, Vec::new()));
        }
        let Some((route, name)) = routes::find(&request.method, rest) else {
            return refusal(&version, 404, "page not found");
        };
        if let Some(message) = version.refusal() {
            return self.identify(refusal(&version, 400, &message));
        }
        let answer = match Query::parse(raw_query) {
            Err(error) => error_answer(&version, &error),
            Ok(query) => {
                let name = name.to_owned();
                let known = parameters::check(route, &query);
                let call = Call { router: self.clone(), version: version.clone(), query, name, request };
                known.and_then(|()| (route.handler)(call)).unwrap_or_else(|error| error_answer(&version, &error))
            }
        };
        match answer.body {
            // A taken-over connection's head is the handler's own.
            BodyOut::Raw(_) | BodyOut::Hijack(_) => answer,
            _ => self.mark(answer),
        }
    }

    /// The header fields of every routed answer.
    pub(crate) fn mark(&self, answer: Response) -> Response {
        self.identify(answer.with("Docker-Experimental", "false"))
    }

    fn identify(&self, mut answer: Response) -> Response {
        let version = env!("CARGO_PKG_VERSION");
        // Clients read the system in brackets out of a `Server` field that begins so.
        answer.headers.set("Server", format!("Docker/{version} (linux)"));
        answer.headers.set("Api-Version", NEWEST);
        answer.headers.set("Ostype", "linux");
        if let Some(origin) = self.0.options.api_cors_header.as_deref().filter(|v| !v.is_empty()) {
            answer.headers.set("Access-Control-Allow-Origin", origin);
            let fields = "Origin, X-Requested-With, Content-Type, Accept, X-Registry-Auth";
            answer.headers.set("Access-Control-Allow-Headers", fields);
            answer.headers.set("Access-Control-Allow-Methods", "HEAD, GET, POST, DELETE, PUT, OPTIONS");
        }
        answer.headers.sort();
        answer
    }
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

/// Path and query of a target; `http://host/path` counts as `/path`.
fn split(target: &str) -> (&str, &str) {
    let mut rest = target;
    for scheme in ["http://", "https://"] {
        if let Some(after) = target.strip_prefix(scheme) {
            rest = after.find('/').map_or("/", |slash| &after[slash..]);
        }
    }
    rest.split_once('?').unwrap_or((rest, ""))
}

/// The version of a path that begins with `/v` and digits or dots, and the path behind it.
fn split_version(path: &str) -> (Option<&str>, &str) {
    let split = || {
        let after = path.strip_prefix("/v")?;
        let slash = after.find('/')?;
        let version = &after[..slash];
        let dotted = !version.is_empty() && version.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        dotted.then_some((version, &after[slash..]))
    };
    split().map_or((None, path), |(version, rest)| (Some(version), rest))
}

/// The path without empty, `.` and `..` segments; a slash at the end stays.
fn clean_path(path: &str) -> String {
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            name => segments.push(name),
        }
    }
    let end = if path.ends_with('/') && !segments.is_empty() { "/" } else { "" };
    format!("/{}{end}", segments.join("/"))
}

fn encode_path(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => out.push(char::from(byte)),
            _ if b"/-_.~$&+,:;=@".contains(&byte) => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// The engine's words for a body that should be JSON and is not called so.
pub(crate) fn check_json(headers: &Headers, empty: bool) -> coracle::Result<()> {
    let given = headers.get("content-type").unwrap_or("");
    if given.is_empty() && empty {
        return Ok(());
    }
    let media = given.split(';').next().unwrap_or("").trim();
    if media.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    Err(Error::invalid(format!("Content-Type specified ({given}) must be 'application/json'")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        assert_eq!(split("/a?b=1?c"), ("/a", "b=1?c"));
        assert_eq!(split("http://h:1/a?b"), ("/a", "b"));
        assert_eq!(split("http://h"), ("/", ""));
        assert_eq!(split_version("/v1.24/info"), (Some("1.24"), "/info"));
        for path in ["/info", "/vx/info", "/v/info", "/v1.24", "/volumes/x"] {
            assert_eq!(split_version(path), (None, path));
        }
        assert_eq!(clean_path("//v1.24//../a/./b/"), "/a/b/");
        assert_eq!(clean_path("/../.."), "/");
        assert_eq!(clean_path("/a/"), "/a/");
        assert_eq!(encode_path("/a b/é:1"), "/a%20b/%C3%A9:1");
    }

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
