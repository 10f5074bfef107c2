//! What this version does not do: refused by name, never ignored. A feature that lands deletes its lines here.

use crate::error::{Error, Result};
use crate::model::CreateBody;

/// Refuses a request that needs what is not built.
pub(crate) fn not_built(request: &CreateBody) -> Result<()> {
    let (config, host) = (&request.config, &request.host_config);
    let some = |list: &Option<Vec<String>>| list.as_ref().is_some_and(|list| !list.is_empty());
    let asked = [
        (config.image.is_empty(), "Image: a container without one"),
        (!host.storage_opt.is_empty(), "StorageOpt"),
        (!host.lxc_conf.is_empty(), "LxcConf"),
        (!host.cgroup.is_empty(), "Cgroup"),
        (host.mounts.as_ref().is_some_and(|mounts| !mounts.is_empty()), "Mounts"),
        (some(&host.device_cgroup_rules), "DeviceCgroupRules"),
        (host.init == Some(true), "Init"),
        (host.nano_cpus != 0, "NanoCpus"),
        // An empty list asks for none; absent is the usual ones.
        (host.masked_paths.is_some(), "MaskedPaths"),
        (host.readonly_paths.is_some(), "ReadonlyPaths"),
        (host.resources.disk_quota != 0, "DiskQuota"),
        (!matches!(host.userns_mode.as_str(), "" | "host"), "UsernsMode: anything but host"),
        (host.ipc_mode == "none", "IpcMode: none"),
        (host.extra_hosts.iter().flatten().any(|entry| entry.ends_with(":host-gateway")), "ExtraHosts: host-gateway"),
        (host.security_opt.iter().flatten().any(|option| labelled(option)), "SecurityOpt: label= and apparmor="),
    ];
    if let Some((_, what)) = asked.iter().find(|(found, _)| *found) {
        return Err(Error::unsupported(format!("{what} is not supported yet")));
    }
    Ok(())
}

/// `label=disable` and `apparmor=unconfined` ask for what is: no label, no profile.
fn labelled(option: &str) -> bool {
    match option.split_once(['=', ':']) {
        Some(("label", value)) => value != "disable",
        Some(("apparmor", value)) => value != "unconfined",
        _ => false,
    }
}
