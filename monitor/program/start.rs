//! The program itself: all of it is in the library `program` (`main.rs`), compiled for size, and in `lines`, compiled
//! for speed.

#![no_std]
#![no_main]

extern crate program;
