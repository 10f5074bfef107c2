//! What this version does not do: refused by name, never ignored. A feature that lands deletes its lines here.

use crate::error::{Error, Result};
use crate::model::CreateBody;

/// Refuses a request that needs what is not built.
pub(crate) fn not_built(request: &CreateBody) -> Result<()> {
    let (config, host) = (&request.config, &request.host_config);
    let asked = [(config.image.is_empty(), "Image: a container without one"), (!host.cgroup.is_empty(), "Cgroup")];
    if let Some((_, what)) = asked.iter().find(|(found, _)| *found) {
        return Err(Error::unsupported(format!("{what} is not supported yet")));
    }
    Ok(())
}
