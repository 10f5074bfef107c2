//! What this version does not do: refused by name, never ignored. A feature that lands deletes its lines here.

use crate::error::{Error, Result};
use crate::model::CreateBody;

/// Refuses a request that needs what is not built.
pub(crate) fn not_built(request: &CreateBody) -> Result<()> {
    let (config, host) = (&request.config, &request.host_config);
    let asked = [
        (config.image.is_empty(), "Image: a container without one"),
        (!host.storage_opt.is_empty(), "StorageOpt"),
        (!host.lxc_conf.is_empty(), "LxcConf"),
        (!host.cgroup.is_empty(), "Cgroup"),
        (host.resources.disk_quota != 0, "DiskQuota"),
    ];
    if let Some((_, what)) = asked.iter().find(|(found, _)| *found) {
        return Err(Error::unsupported(format!("{what} is not supported yet")));
    }
    Ok(())
}
