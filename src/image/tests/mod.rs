//! Tests over whole archives.

mod support;
