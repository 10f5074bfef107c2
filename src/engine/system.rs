//! The engine itself.

use super::Engine;
use crate::error::{Error, Result};
use crate::model::{Info, Version};

impl Engine {
    /// Version of the library and of the API.
    pub fn version(&self) -> Result<Version> {
        Err(Error::unsupported("not built"))
    }
    /// What `docker info` shows: counts, drivers, kernel, warnings.
    pub fn info(&self) -> Result<Info> {
        Err(Error::unsupported("not built"))
    }
}
