//! The router: a request in, an answer out. It knows no socket.

use crate::answer::{Call, error_answer, refusal};
use crate::authorize;
use crate::context::{Context, RouterOptions};
use crate::message::{BodyOut, Request, Response};
use crate::parameters;
use crate::query::{Query, decode};
use crate::routes::{self, Route};
use crate::target::{clean_path, encode_path, split, split_version};
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
        let target = request.target.clone();
        let (raw_path, raw_query) = split(&target);
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
        let answer = |request: Request| self.routed(route, name, raw_query, &version, request);
        match self.0.authorization() {
            None => answer(request),
            Some(chain) => authorize::guarded(chain, &self.0, &version, request, answer),
        }
    }

    /// Answers a request by its route.
    fn routed(
        &self,
        route: &'static Route,
        name: &str,
        raw_query: &str,
        version: &Version,
        request: Request,
    ) -> Response {
        if let Some(message) = version.refusal(self.0.newest()) {
            return self.0.identify(refusal(version, 400, &message));
        }
        let answer = match Query::parse(raw_query) {
            Err(error) => error_answer(version, &error),
            Ok(query) => {
                let name = name.to_owned();
                let known = parameters::check(route, &query);
                let call = Call { context: self.0.clone(), version: version.clone(), query, name, request };
                known.and_then(|()| (route.handler)(call)).unwrap_or_else(|error| error_answer(version, &error))
            }
        };
        match answer.body {
            // A taken-over connection's head is the handler's own.
            BodyOut::Raw(_) | BodyOut::Hijack(_) => answer,
            _ => self.0.mark(answer),
        }
    }
}
