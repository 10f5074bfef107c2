//! Coracle: a whole container engine as a library.
//!
//! A program opens an engine root with [`Engine::open`] and creates, runs, inspects and removes containers from local
//! images, with no daemon and no helper program. Any number of programs may have one root open at the same time, and
//! containers outlive the program that started them.
//!
//! Every call blocks; calls that may block for long take an [`Op`] to cancel them or set a deadline. Streams are plain
//! descriptors. `ARCHITECTURE.md` is the map of the source.

#[macro_use]
mod group;

pub mod error;
pub mod model;

mod build;
mod buildfile;
#[cfg(feature = "bundle")]
#[doc(hidden)]
#[allow(missing_docs)]
pub mod bundle;
mod container;
mod document;
mod engine;
mod event;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
#[cfg(feature = "registry")]
mod git;
mod hex;
mod image;
mod kernel;
mod launch;
mod log;
mod managed;
mod network;
mod notes;
mod op;
mod options;
mod order;
mod parts;
mod plugin;
#[cfg(feature = "registry")]
mod registry;
mod store;
mod swarm;
mod time;
#[cfg(feature = "registry")]
mod tls;
mod volume;

#[doc(hidden)]
pub use coracle_monitor::text::{civil as date_of, days_to};
#[doc(hidden)]
pub use coracle_monitor::walls;
#[doc(hidden)]
pub use kernel::memory::{give_memory_back, held_memory, hold_little_memory};
#[doc(hidden)]
pub use kernel::socket::{inherited, unread};

pub use build::Context;
pub use container::Archive;
pub use container::StatsStream;
pub use engine::{
    AttachOptions, BegunStop, Changed, Container, ContainerRestart, ContainerStop, ContainerWait, Durability, Engine,
    ExecWait, Io, Items, Lease, Options, Outbox, Session, SessionRead, ShipLogs, Started, UsernsRemap, host_report,
    version,
};
pub use error::{Error, ErrorKind, Result};
pub use event::EventStream;
pub use log::{Channel, LogFormat, LogLine, LogStream, LogView};
pub use notes::{LogLevel, LogNote, LogSink, set_log};
pub use op::{Beat, Op};
pub use plugin::Authorization;
pub use swarm::{SwarmAnswer, SwarmRequest};
