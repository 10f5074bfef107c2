//! The state that all requests of an engine's API share: the engine, the options, and a few counters and limits.

use crate::document::Documents;
use crate::message::Response;
use crate::versions::ApiVersion;
use crate::watch::Watch;
use coracle::{Authorization, Engine};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How the router answers.
///
/// ```no_run
/// use coracle_http::{ApiVersion, Router, RouterOptions};
///
/// # fn main() -> coracle::Result<()> {
/// let options = RouterOptions {
///     api_cors_header: Some("https://panel.example.org".into()),
///     max_api_version: ApiVersion::SPECIFIED,
///     authorization_plugins: Some(vec!["opa-docker-authz".into()]),
/// };
/// let router = Router::with(coracle::Engine::open("/var/lib/app")?, options);
/// # drop(router);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct RouterOptions {
    /// The value of `Access-Control-Allow-Origin`; absent or empty: no cross-origin header is sent.
    pub api_cors_header: Option<String>,
    /// The newest version of the API that is served. [`ApiVersion::SPECIFIED`] gives the contract alone.
    pub max_api_version: ApiVersion,
    /// The authorization plugins that each request needs the consent of, in the order in which they are asked; absent: those
    /// of the engine ([`coracle::Options::authorization_plugins`]).
    pub authorization_plugins: Option<Vec<String>>,
}

/// The shared state. Clones share it.
#[derive(Clone)]
pub(crate) struct Context(Arc<Inner>);

struct Inner {
    engine: Engine,
    options: RouterOptions,
    /// Absent: nobody is asked.
    authorization: Option<Authorization>,
    watch: Watch,
    documents: Documents,
    unread: Unread,
}

impl Context {
    pub(crate) fn new(engine: Engine, options: RouterOptions) -> Context {
        let (watch, documents, unread) = Default::default();
        let names = options.authorization_plugins.as_deref().unwrap_or_else(|| engine.authorization_plugins());
        let authorization = (!names.is_empty()).then(|| engine.authorization(names));
        Context(Arc::new(Inner { engine, options, authorization, watch, documents, unread }))
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.0.engine
    }

    /// The plugins that are asked about each request, if there are any.
    pub(crate) fn authorization(&self) -> Option<&Authorization> {
        self.0.authorization.as_ref()
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

    /// The newest version of the API that is served.
    pub(crate) fn newest(&self) -> ApiVersion {
        self.0.options.max_api_version
    }

    /// The engine's own version as clients see it.
    pub(crate) fn engine_version(&self) -> String {
        self.newest().engine(env!("CARGO_PKG_VERSION"))
    }

    /// Whether answers carry cross-origin headers.
    pub(crate) fn cors(&self) -> bool {
        self.0.options.api_cors_header.as_deref().is_some_and(|v| !v.is_empty())
    }

    /// The header fields of every routed answer.
    pub(crate) fn mark(&self, answer: Response) -> Response {
        self.identify(answer.with("Docker-Experimental", "false"))
    }

    /// The header fields of every answer, also of those that no route gives.
    pub(crate) fn identify(&self, mut answer: Response) -> Response {
        let version = self.engine_version();
        // Clients read the system in brackets out of a `Server` field that begins so.
        answer.headers.set("Server", format!("Docker/{version} (linux)"));
        answer.headers.set("Api-Version", self.newest().to_string());
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

/// How often output went out to a client that had not read the answer's head within the time that it has for that (`stream`).
#[derive(Clone, Default)]
pub(crate) struct Unread(Arc<AtomicU64>);

impl Unread {
    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}
