//! Delivery of container logs to the receivers of log drivers.
//!
//! The monitor of a container writes the container's output into files, the *spool* ([`spool`]). This crate reads these
//! files, turns their records into the form of a driver ([`drivers`]), sends them ([`net`]), and moves a *cursor*
//! ([`cursor`]) over what the receiver acknowledged. Memory holds one batch of a destination at most: everything else
//! stays on the disk. The crate knows nothing of the engine: [`shipper`] finds its work in a directory.

mod aws;
mod base64;
pub mod bounds;
pub mod courier;
pub mod cursor;
pub mod drivers;
#[cfg(feature = "embed")]
pub mod embedded;
mod files;
mod google;
pub mod holder;
pub mod http;
mod metadata;
pub mod net;
pub mod options;
pub mod outbox;
pub mod plan;
#[cfg(feature = "program")]
pub mod program;
mod proxies;
pub mod record;
pub mod shipper;
pub mod spool;
mod sys;
mod time;
#[cfg(feature = "tls")]
mod tls;

pub use bounds::Bounds;
pub use plan::{Facts, LogPlugin, Plan, check, check_files, check_spool};
pub use proxies::{Proxies, is_exempt};
