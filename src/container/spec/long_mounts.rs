//! Mounts in their long form (`HostConfig.Mounts`): checked, and converted to the mounts of the short forms.

use super::mounts::{Mount, MountKind, Propagation, propagation, target_path, tmpfs};
use super::{clean, plain};
use crate::error::{Error, Result};
use crate::model::{BindOptions, HostConfig, MountRequest, VolumeOptions};
use crate::volume;

/// The mounts in a request's `Mounts`. Errors: a field that does not belong to the mount's type, a bad path or mode.
pub(super) fn long_mounts(host: &HostConfig) -> Result<Vec<Mount>> {
    host.mounts.iter().map(one).collect()
}

/// Checks that the sources of the binds in `Mounts` exist: for this form no source is made on the host.
pub(crate) fn sources_are_there(host: &HostConfig) -> Result<()> {
    let makes = |asked: &&MountRequest| asked.bind_options.as_ref().is_some_and(|options| options.create_mountpoint);
    for asked in host.mounts.iter().filter(|asked| asked.kind == "bind" && !makes(asked)) {
        if std::fs::metadata(&asked.source).is_err() {
            return Err(wrong(asked, format!("bind source path does not exist: {}", asked.source)));
        }
    }
    Ok(())
}

fn one(asked: &MountRequest) -> Result<Mount> {
    for (field, text) in [("Source", &asked.source), ("Target", &asked.target)] {
        plain(field, text).map_err(|error| wrong(asked, error.message()))?;
    }
    if asked.target.is_empty() {
        return Err(wrong(asked, "field Target must not be empty"));
    }
    let target = target_path(&asked.target).map_err(|error| wrong(asked, error.message()))?;
    let base = Mount {
        target,
        read_only: asked.read_only,
        recursive: true,
        long: true,
        flags: if asked.read_only { libc::MOUNT_ATTR_RDONLY } else { 0 },
        ..Mount::default()
    };
    match asked.kind.as_str() {
        "bind" => bind(asked, base),
        "volume" => volume_of(asked, base),
        "tmpfs" => tmpfs_of(asked, base),
        "image" => image_of(asked, base),
        _ => Err(wrong(asked, "mount type unknown")),
    }
}

fn bind(asked: &MountRequest, base: Mount) -> Result<Mount> {
    if asked.source.is_empty() {
        return Err(wrong(asked, "field Source must not be empty"));
    }
    let options = asked.bind_options.clone().unwrap_or_default();
    let way = match options.propagation.as_str() {
        "" => (Propagation::Private, true),
        word => propagation(word)
            .filter(|(kind, _)| *kind != Propagation::Unbindable)
            .ok_or_else(|| wrong(asked, format!("invalid propagation mode: {word}")))?,
    };
    options_of(asked, "BindOptions")?;
    if !asked.source.starts_with('/') {
        let text = format!("invalid mount path: '{}' mount path must be absolute", asked.source);
        return Err(wrong(asked, text));
    }
    Ok(Mount {
        kind: MountKind::Bind,
        source: clean(&asked.source),
        propagation: way.0,
        recursive: way.1,
        top_only: options.non_recursive,
        make_source: options.create_mountpoint,
        read_only_below: read_only_below(asked, &options)?,
        ..base
    })
}

/// How far a bind is read-only, if its request says so.
fn read_only_below(asked: &MountRequest, options: &BindOptions) -> Result<Option<bool>> {
    let (top, all) = (options.read_only_non_recursive, options.read_only_force_recursive);
    let private = matches!(options.propagation.as_str(), "" | "rprivate");
    let conflicts = [
        (top && !asked.read_only, "!ReadOnly && BindOptions.ReadOnlyNonRecursive"),
        (all && !asked.read_only, "!ReadOnly && BindOptions.ReadOnlyForceRecursive"),
        (top && all, "ReadOnlyNonRecursive && BindOptions.ReadOnlyForceRecursive"),
        (all && !private, "ReadOnlyForceRecursive && BindOptions.Propagation != MountPropagationRPrivate"),
    ];
    match conflicts.iter().find(|(found, _)| *found) {
        Some((_, what)) => Err(wrong(asked, format!("mount options conflict: {what}"))),
        None => Ok((top || all).then_some(all)),
    }
}

fn volume_of(asked: &MountRequest, base: Mount) -> Result<Mount> {
    options_of(asked, "VolumeOptions")?;
    if asked.source.is_empty() && asked.read_only {
        return Err(wrong(asked, "must not set ReadOnly mode when using anonymous volumes"));
    }
    let options: VolumeOptions = asked.volume_options.clone().unwrap_or_default();
    if asked.source.is_empty() && !options.subpath.is_empty() {
        return Err(wrong(asked, "must not set Subpath when using anonymous volumes"));
    }
    let part = part(asked, &options.subpath)?;
    if !asked.source.is_empty() {
        volume::check_name(&asked.source).map_err(|error| error.context(format_args!("create {}", asked.source)))?;
    }
    if let Some(driver) = &options.driver_config {
        let refused = |error: Error| error.context(format_args!("create {}", asked.source));
        if !volume::is_plugin(&driver.name) {
            volume::check_options(&driver.options).map_err(refused)?;
        }
    }
    Ok(Mount {
        kind: MountKind::Volume,
        name: asked.source.clone(),
        anonymous: asked.source.is_empty(),
        no_copy: options.no_copy,
        part,
        made_with: options,
        ..base
    })
}

/// The mount of an image. Its id is looked up when the container is made.
fn image_of(asked: &MountRequest, base: Mount) -> Result<Mount> {
    options_of(asked, "ImageOptions")?;
    if asked.source.is_empty() {
        return Err(wrong(asked, "field Source must not be empty"));
    }
    let options = asked.image_options.clone().unwrap_or_default();
    let part = part(asked, &options.subpath)?;
    let flags = base.flags | libc::MOUNT_ATTR_RDONLY;
    Ok(Mount { kind: MountKind::Image, name: asked.source.clone(), part, read_only: true, flags, ..base })
}

/// The path in a volume or an image that a request names, in its clean form. Errors: a path that is not relative, or leads
/// out.
fn part(asked: &MountRequest, path: &str) -> Result<String> {
    if path.is_empty() {
        return Ok(String::new());
    }
    plain("Subpath", path).map_err(|error| wrong(asked, error.message()))?;
    let mut depth = 0i64;
    for name in path.split('/') {
        depth += match name {
            "" | "." => 0,
            ".." => -1,
            _ => 1,
        };
        if depth < 0 || path.starts_with('/') {
            return Err(wrong(asked, format!("subpath must be a relative path within the {}", asked.kind)));
        }
    }
    Ok(clean(path).trim_start_matches('/').to_owned())
}

fn tmpfs_of(asked: &MountRequest, base: Mount) -> Result<Mount> {
    options_of(asked, "TmpfsOptions")?;
    if !asked.source.is_empty() {
        return Err(wrong(asked, "field Source must not be specified"));
    }
    let options = asked.tmpfs_options.clone().unwrap_or_default();
    if options.size_bytes < 0 {
        return Err(wrong(asked, "TmpfsOptions: SizeBytes cannot be negative"));
    }
    let mut words = Vec::new();
    if asked.read_only {
        words.push("ro".to_owned());
    }
    if options.mode != 0 {
        words.push(format!("mode={:o}", options.mode & 0o7777));
    }
    if options.size_bytes != 0 {
        words.push(format!("size={}", options.size_bytes));
    }
    let made = tmpfs(base.target, &words.join(","))?;
    Ok(Mount { long: true, mode_text: String::new(), ..made })
}

/// Refuses options of other mount types than the one that has these.
fn options_of(asked: &MountRequest, own: &str) -> Result<()> {
    let all = [
        ("BindOptions", asked.bind_options.is_some()),
        ("VolumeOptions", asked.volume_options.is_some()),
        ("TmpfsOptions", asked.tmpfs_options.is_some()),
        ("ImageOptions", asked.image_options.is_some()),
    ];
    match all.iter().find(|(field, there)| *there && *field != own) {
        Some((field, _)) => Err(wrong(asked, format!("field {field} must not be specified"))),
        None => Ok(()),
    }
}

fn wrong(asked: &MountRequest, why: impl std::fmt::Display) -> Error {
    Error::invalid(format!("invalid mount config for type {:?}: {why}", asked.kind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn of(asked: Value) -> Result<Mount> {
        let host: HostConfig = serde_json::from_value(json!({ "Mounts": [asked] })).unwrap();
        long_mounts(&host).map(|mut all| all.remove(0))
    }

    #[test]
    fn each_type_becomes_a_mount() {
        let bind = of(json!({"Type": "bind", "Source": "/a//b", "Target": "/t/", "ReadOnly": true,
            "BindOptions": {"Propagation": "slave", "NonRecursive": true}}))
        .unwrap();
        assert_eq!((bind.kind, bind.source.as_str(), bind.target.as_str()), (MountKind::Bind, "/a/b", "/t"));
        assert!(bind.read_only && bind.top_only && !bind.recursive && bind.propagation == Propagation::Slave);
        let volume = of(json!({"Type": "volume", "Source": "vol", "Target": "/t",
            "VolumeOptions": {"NoCopy": true, "Labels": {"a": "b"}, "DriverConfig": {"Name": "local"}}}))
        .unwrap();
        assert!(volume.no_copy && !volume.anonymous && volume.name == "vol" && volume.made_with.labels["a"] == "b");
        assert!(of(json!({"Type": "volume", "Target": "/t"})).unwrap().anonymous);
        let part = |path: &str| {
            let asked = json!({"Type": "volume", "Source": "vol", "Target": "/t", "VolumeOptions": {"Subpath": path}});
            of(asked).map(|mount| mount.part)
        };
        for (path, clean) in [("a", "a"), ("a/../b//c/", "b/c"), ("./a", "a"), (".", ""), ("", "")] {
            assert_eq!(part(path).unwrap(), clean, "{path}");
        }
        for bad in ["/a", "..", "a/../../b", "../a/.."] {
            let error = part(bad).unwrap_err();
            assert!(error.message().ends_with("subpath must be a relative path within the volume"), "{bad}: {error}");
        }
        let image =
            of(json!({"Type": "image", "Source": "tools:1", "Target": "/t", "ImageOptions": {"Subpath": "./a/"}}));
        let image = image.unwrap();
        assert_eq!((image.kind, image.name.as_str(), image.part.as_str()), (MountKind::Image, "tools:1", "a"));
        assert!(image.read_only && image.flags & libc::MOUNT_ATTR_RDONLY != 0);
        let tmpfs = of(json!({"Type": "tmpfs", "Target": "/t", "TmpfsOptions": {"SizeBytes": 4096, "Mode": 448}}));
        assert_eq!(tmpfs.unwrap().options, "mode=700,size=4096");
    }

    #[test]
    fn mistakes_are_told_as_dockerd_tells_them() {
        for (asked, text) in [
            (json!({"Type": "x", "Target": "/t"}), "invalid mount config for type \"x\": mount type unknown"),
            (json!({"Type": "bind", "Source": "/a"}), "\"bind\": field Target must not be empty"),
            (json!({"Type": "bind", "Target": "/t"}), "\"bind\": field Source must not be empty"),
            (json!({"Type": "bind", "Source": "a", "Target": "/t"}), "'a' mount path must be absolute"),
            (json!({"Type": "bind", "Source": "/a", "Target": "/"}), "destination can't be '/'"),
            (json!({"Type": "bind", "Source": "/a", "Target": "t"}), "'t' mount path must be absolute"),
            (
                json!({"Type": "bind", "Source": "/a", "Target": "/t", "BindOptions": {"Propagation": "up"}}),
                "invalid propagation mode: up",
            ),
            (
                json!({"Type": "bind", "Source": "/a", "Target": "/t", "VolumeOptions": {}}),
                "field VolumeOptions must not be specified",
            ),
            (json!({"Type": "image", "Target": "/t"}), "\"image\": field Source must not be empty"),
            (
                json!({"Type": "image", "Source": "i", "Target": "/t", "VolumeOptions": {}}),
                "field VolumeOptions must not be specified",
            ),
            (
                json!({"Type": "image", "Source": "i", "Target": "/t", "ImageOptions": {"Subpath": "../x"}}),
                "subpath must be a relative path within the image",
            ),
            (json!({"Type": "volume", "Target": "/t", "BindOptions": {}}), "field BindOptions must not be specified"),
            (json!({"Type": "volume", "Target": "/t", "ReadOnly": true}), "must not set ReadOnly mode"),
            (
                json!({"Type": "volume", "Target": "/t", "VolumeOptions": {"Subpath": "a"}}),
                "must not set Subpath when using anonymous volumes",
            ),
            (json!({"Type": "tmpfs", "Source": "x", "Target": "/t"}), "field Source must not be specified"),
        ] {
            let error = of(asked.clone()).unwrap_err();
            assert!(error.message().contains(text), "{asked}: {error}");
        }
    }
}
