//! The C ABI: `libcoracle.so`, `libcoracle.a`, and by cbindgen `include/coracle.h`.
//!
//! Thin on purpose. An entry point turns C arguments into Rust ones, calls the public Rust API, and turns the answer
//! back; what the engine means is decided there, not here. Five things are made once, for all entry points:
//!
//! - [`handle`]: handles are tokens, so a freed, foreign or forked one is an error and not a crash;
//! - [`entry`]: panics end here, errors become objects, the error argument is always written;
//! - [`arg`]: text, JSON, sized structs and out parameters, each checked by name;
//! - [`query`]: the JSON form of the HTTP API's query parameters;
//! - [`thread`]: the few threads of the library, with every signal blocked.
//!
//! The comments on public items are the header's text; its reader is a C programmer.

#![allow(unsafe_code)]
#![allow(non_camel_case_types)]
// The header is the place where the contract stands.
#![allow(clippy::missing_safety_doc)]

#[cfg(not(target_pointer_width = "64"))]
compile_error!("handles are 64-bit tokens");

mod answer;
mod archive;
mod arg;
mod attached;
mod begun;
mod call;
mod container;
mod disk;
mod entry;
mod error;
mod error_object;
mod event;
mod exec;
mod failure;
mod features;
mod handle;
mod http;
mod image;
mod lease;
mod library;
mod log;
mod metrics;
mod network;
mod op;
mod plugin;
mod pool;
mod query;
mod reader;
mod registry;
mod report;
mod root;
mod server;
mod session;
mod source;
mod stream;
mod system;
mod text;
mod thread;
pub mod types;
mod using;
mod volume;
mod work;
