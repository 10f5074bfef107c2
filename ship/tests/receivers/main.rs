//! Delivery to real receivers. The tests need root, as a spool's marks do, and the programs that `tools/setup test`
//! installs.
#![allow(unsafe_code)]

#[cfg(feature = "tls")]
#[path = "../../../tests/support/disk.rs"]
mod disk;
#[cfg(feature = "tls")]
mod dockerd;
#[cfg(feature = "tls")]
mod examples;
#[cfg(feature = "tls")]
mod faults;
mod fluent;
mod gcp;
mod gelf;
mod honesty;
mod journal;
#[cfg(feature = "tls")]
mod lines;
mod metadata;
mod moto;
mod otel;
#[cfg(feature = "tls")]
mod peers;
mod plugin;
mod rsyslog;
#[cfg(feature = "tls")]
mod surroundings;
#[cfg(feature = "tls")]
mod turns;
mod world;
