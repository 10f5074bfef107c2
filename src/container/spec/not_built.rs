//! What this version does not do: refused by name, never ignored. A feature that lands deletes its lines here.

use crate::error::{Error, Result};
use crate::model::CreateBody;

/// Refuses a request that needs what is not built.
pub(crate) fn not_built(request: &CreateBody) -> Result<()> {
    match request.config.image.is_empty() {
        true => Err(Error::unsupported("Image: a container without one is not supported yet")),
        false => Ok(()),
    }
}
