//! A repair of damage that a verification found.

#[cfg(not(feature = "registry"))]
use super::digest::Digest;
#[cfg(not(feature = "registry"))]
use super::layer_store::Staging;
#[cfg(not(feature = "registry"))]
use crate::error::{Error, Result};
use crate::model::{RegistryOptions, VerifyImages};
use crate::op::Op;

/// The parts that a repair needs.
#[cfg_attr(not(feature = "registry"), allow(dead_code))]
pub(super) struct Repair<'a> {
    pub(super) options: &'a RegistryOptions,
    pub(super) request: &'a VerifyImages,
    pub(super) op: Option<&'a Op>,
}

/// Without a registry client nothing is fetched again.
#[cfg(not(feature = "registry"))]
pub(super) struct Refetcher {}

#[cfg(not(feature = "registry"))]
impl Refetcher {
    pub(super) fn layer(
        &self,
        _: &Repair<'_>,
        _: &Staging<'_>,
        _: &Digest,
        _: Option<u64>,
        _: impl FnOnce(&str) -> Result<()>,
    ) -> Result<()> {
        Err(Error::unsupported("this build of the library cannot fetch it again: it has no registry client"))
    }

    pub(super) fn config(&self, _: &Repair<'_>, _: &Digest) -> Result<Vec<u8>> {
        Err(Error::unsupported("this build of the library cannot fetch it again: it has no registry client"))
    }
}
