//! Delivery to real receivers. The tests need root, as a spool's marks do, and the programs that `tools/setup test`
//! installs.
#![allow(unsafe_code)]

mod fluent;
mod gelf;
mod honesty;
mod journal;
mod rsyslog;
mod world;
