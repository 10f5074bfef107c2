//! The router: a request in, an answer out. It knows no socket.

use crate::answer::{Call, error_answer, refusal};
use crate::context::{Context, RouterOptions};
use crate::message::{BodyOut, Request, Response};
use crate::parameters;
use crate::query::{Query, decode};
use crate::routes;
use crate::versions::Version;
use coracle::Engine;

/// The API of one engine. Clones share it.
///
/// ```no_run
/// use coracle_http::{ReplyBody, Router};
///
/// # fn main() -> coracle::Result<()> {
/// let router = Router::new(coracle::Engine::open("/var/lib/app")?);
/// let reply = router.request("GET", "/v1.24/containers/json?all=1", &[], Vec::new(), None)?;
/// if let ReplyBody::Bytes(json) = reply.body {
///     println!("{} {}", reply.status, String::from_utf8_lossy(&json));
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Router(Context);

impl Router {
    /// The API of `engine`, with default options.
    pub fn new(engine: Engine) -> Router {
        Router::with(engine, RouterOptions::default())
    }

    /// The API of `engine`.
    pub fn with(engine: Engine, options: RouterOptions) -> Router {
        Router(Context::new(engine, options))
    }

    /// The engine behind it.
    pub fn engine(&self) -> &Engine {
        self.0.engine()
    }

    pub(crate) fn context(&self) -> &Context {
        &self.0
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
        let version = prefix.map_or_else(|| Version::unversioned(self.0.newest()), Version::parse);
        if request.method == "OPTIONS" {
            return self.0.mark(Response::new(200, Vec::new()));
        }
        let Some((route, name)) = routes::find(&request.method, rest) else {
            return refusal(&version, 404, "page not found");
        };
        if let Some(message) = version.refusal(self.0.newest()) {
            return self.0.identify(refusal(&version, 400, &message));
        }
        let answer = match Query::parse(raw_query) {
            Err(error) => error_answer(&version, &error),
            Ok(query) => {
                let name = name.to_owned();
                let known = parameters::check(route, &query);
                let call = Call { context: self.0.clone(), version: version.clone(), query, name, request };
                known.and_then(|()| (route.handler)(call)).unwrap_or_else(|error| error_answer(&version, &error))
            }
        };
        match answer.body {
            // A taken-over connection's head is the handler's own.
            BodyOut::Raw(_) | BodyOut::Hijack(_) => answer,
            _ => self.0.mark(answer),
        }
    }
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
}
