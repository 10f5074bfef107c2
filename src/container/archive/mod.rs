//! A container's files from outside: stat, get, put, copy, export, changes, commit.
//!
//! [`view`] puts a container's file system together for the call, as the container would see it but without its /proc,
//! /sys and /dev; everything in it is found by [`walk`], by directory descriptors that cannot be led out of it.

mod changes;
mod commit;
mod get;
mod put;
mod view;
pub(crate) mod walk;

pub use get::Archive;
pub(crate) use put::{Differences, extract};
