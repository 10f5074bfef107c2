//! The monitor of Coracle: the wire format, shared with the library, and the finished static program as bytes.
//!
//! The program itself stands in `monitor/program/`: `no_std`, no libc, raw system calls; `build.rs` compiles it with one
//! call of the compiler. The library runs it from a sealed memfd, one per running container.

#[cfg(any(test, fuzzing))]
mod answers;
#[cfg(any(test, fuzzing))]
mod deflate;
#[allow(unsafe_code)]
pub mod encode;
pub mod filter;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
#[cfg(any(test, fuzzing))]
mod passage;
#[cfg(any(test, fuzzing))]
mod question;
#[cfg(any(test, fuzzing))]
mod users;
pub mod walls;
#[allow(unsafe_code)]
pub mod wire;

/// The static program, an ELF executable.
pub static PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/coracle-monitor"));

/// The static program that is the first process of containers that ask for an init, an ELF executable.
pub static INIT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/coracle-init"));
