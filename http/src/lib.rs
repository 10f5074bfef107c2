//! The HTTP API of the engine, versions 1.18 to 1.24 and, as a courtesy to newer clients, to 1.44: a router that needs no
//! server, and the doors to it.
//!
//! [`Router`] turns a [`Request`] into a [`Response`]: bytes, a stream, or a connection that is taken over. Three doors:
//!
//! * [`Server`] listens on Unix sockets and, with TLS or where that is asked for, on TCP ([`Address`]).
//! * [`Router::request`] answers one request in process; streams come back as descriptors.
//! * [`Router::connect`] gives one end of a private socket that speaks the API, for clients that bring their own
//!   protocol code (docker-py, dockerode, the Go client).
//!
//! ```no_run
//! # fn main() -> coracle::Result<()> {
//! let engine = coracle::Engine::open("/var/lib/app")?;
//! let router = coracle_http::Router::new(engine);
//! let reply = router.request("GET", "/v1.24/_ping", &[], Vec::new(), None)?;
//! assert_eq!(reply.status, 200);
//!
//! let server = coracle_http::Server::bind(router, &["unix:///run/app.sock".parse()?], Default::default())?;
//! let handle = server.handle(); // the part of the program that ends the server calls handle.shutdown(...)
//! server.run();
//! # drop(handle); Ok(())
//! # }
//! ```
//!
//! All knowledge of API versions stands in `versions`; the engine knows the newest shapes only. Only HTTP/1.1 and 1.0
//! are spoken: attach and exec take connections over, which HTTP/2 cannot do, and its flood attacks stay out with it.
//! Nothing is ever printed, no signal is raised (SIGPIPE) and no process-wide state is kept.

mod answer;
mod api;
mod authorize;
mod context;
mod document;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod json;
mod local;
mod message;
mod misfit;
mod parameters;
mod peer;
mod platform;
mod query;
mod router;
mod routes;
mod schema;
mod server;
mod socket;
mod stream;
mod target;
mod thread;
mod time;
#[cfg(feature = "tiny_http")]
pub mod tiny_http_adapter;
mod user;
mod versions;
mod watch;
mod websocket;

pub use context::RouterOptions;
pub use local::{Reply, ReplyBody, StreamEnd};
pub use message::{Body, BodyOut, Client, Duplex, Headers, Produce, Request, Response, Sink, Takeover, WriteDocument};
#[doc(hidden)]
pub use misfit::misfit;
pub use router::Router;
pub use schema::{Document, stranger, unknown};
pub use server::{
    Address, Credentials, Limits, LoggedRequest, Peer, RequestLog, Server, ServerHandle, ServerOptions, Tls,
};
pub use user::User;
pub use versions::ApiVersion;

/// Locks; a panic of another holder does not matter, for nothing here is left half done.
fn lock<T: ?Sized>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
