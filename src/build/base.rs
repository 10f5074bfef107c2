//! Base images.

use super::job::Job;
#[cfg(feature = "registry")]
use super::remote::pull;
#[cfg(not(feature = "registry"))]
use crate::error::Error;
use crate::error::{ErrorKind, Result};
use crate::model::ContainerConfig;

/// An image by its name, from its registry where it is not here or a newer one is asked for.
pub(super) fn base_image(job: &mut Job<'_>, name: &str) -> Result<(String, ContainerConfig)> {
    if !job.request.pull {
        match job.shop.images.catalog.config(name) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            found => return found.map(|(id, view)| (id, view.config)),
        }
    }
    pull(job, name)?;
    job.shop.images.catalog.config(name).map(|(id, view)| (id, view.config))
}

#[cfg(not(feature = "registry"))]
fn pull(_: &mut Job<'_>, name: &str) -> Result<()> {
    Err(Error::not_found(format!("No such image: {name}")))
}
