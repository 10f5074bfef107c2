//! Exec: a second process in a running container.

use super::{Engine, Io, Session};
use crate::error::{Error, Result};
use crate::model::*;
use crate::op::Op;

fn not_built<T>() -> Result<T> {
    Err(Error::unsupported("not built"))
}

#[allow(unused_variables)]
impl Engine {
    /// Prepares a process; answers the exec instance's id.
    pub fn exec_create(&self, container: &str, config: &ExecConfig) -> Result<String> {
        not_built()
    }
    /// Starts it; with `io` attached to the streams that its configuration names, else detached.
    pub fn exec_start(&self, id: &str, io: Option<Io>, op: Option<&Op>) -> Result<Option<Session>> {
        not_built()
    }
    /// Everything about an exec instance.
    pub fn exec_inspect(&self, id: &str) -> Result<ExecDetail> {
        not_built()
    }
    /// Sets its terminal's size.
    pub fn exec_resize(&self, id: &str, rows: u16, cols: u16) -> Result<()> {
        not_built()
    }
}
