//! All mounts that a request asks for, in both forms, together: no target twice, none that the engine needs.

use super::long_mounts::long_mounts;
use super::mounts::{Mount, MountKind, parse_bind, sort, target_allowed, target_path};
use super::plain;
use crate::error::{Error, Result};
use crate::model::{ContainerConfig, HostConfig};
use crate::order::Order as _;
use crate::volume;

/// The mounts of a new container: those of `inherited` (from VolumesFrom), then the request's Binds, which override
/// them, and a volume for each target in Volumes without a mount.
pub(super) fn mounts(config: &ContainerConfig, host: &HostConfig, inherited: &[Mount]) -> Result<Vec<Mount>> {
    let mut mounts = inherited.to_vec();
    for bind in asked(host)? {
        mounts.retain(|mount| mount.target != bind.target);
        mounts.push(bind);
    }
    let own = tmpfs_targets(host)?;
    for target in config.volumes.iter().flatten().map(|(target, _)| target) {
        plain("Volumes", target)?;
        // A relative path in an image begins at the root.
        let target = target_path(&format!("/{target}")).map_err(|error| {
            Error::internal_as_dockerd(
                "container",
                format!("invalid volume specification: '{target}': {}", error.message()),
            )
        })?;
        let mount = Mount { kind: MountKind::Volume, target, anonymous: true, recursive: true, ..Mount::default() };
        target_allowed(&mount)?;
        if !own.contains(&mount.target) && mounts.iter().all(|other| other.target != mount.target) {
            mounts.push(mount);
        }
    }
    if volume::is_plugin(&host.volume_driver) {
        // Volumes that VolumesFrom names are there already, and those of Mounts name their driver by themselves.
        let is_meant = |mount: &&mut Mount| mount.kind == MountKind::Volume && mount.source.is_empty() && !mount.long;
        for mount in mounts.iter_mut().filter(is_meant) {
            mount.made_with.driver_config.get_or_insert_default().name.clone_from(&host.volume_driver);
        }
    }
    sort(&mut mounts);
    Ok(mounts)
}

/// The mounts of a request, short form and long. Checks that no target (of tmpfs, too) is named twice or forbidden.
fn asked(host: &HostConfig) -> Result<Vec<Mount>> {
    let mut mounts = Vec::new();
    for bind in host.binds.iter().flatten() {
        mounts.push(parse_bind(bind)?);
    }
    mounts.extend(long_mounts(host)?);
    mounts.iter().try_for_each(target_allowed)?;
    let mut targets: Vec<String> = mounts.iter().map(|mount| mount.target.clone()).collect();
    targets.extend(tmpfs_targets(host)?);
    targets.order();
    if let Some(pair) = targets.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(Error::invalid(format!("Duplicate mount point: {}", pair[0])));
    }
    sort(&mut mounts);
    Ok(mounts)
}

/// The mounts with the part that the request's version decides: how far a read-only bind is read-only.
pub(super) fn decided(mut mounts: Vec<Mount>, read_only_below: bool) -> Vec<Mount> {
    for mount in mounts.iter_mut().filter(|mount| mount.kind == MountKind::Bind && mount.read_only) {
        mount.read_only_below.get_or_insert(read_only_below);
    }
    mounts
}

fn tmpfs_targets(host: &HostConfig) -> Result<Vec<String>> {
    let mut targets = Vec::new();
    for target in host.tmpfs.keys() {
        plain("Tmpfs", target)?;
        let path = target_path(target)?;
        target_allowed(&Mount { kind: MountKind::Tmpfs, target: path.clone(), ..Mount::default() })?;
        targets.push(path);
    }
    Ok(targets)
}
