//! The container of a plugin: exactly the rights that its installation granted.

use super::config::Config;
use super::places::Places;
use crate::error::{Error, Result};
use crate::model::{
    BindOptions, ContainerConfig, CreateBody, DeviceMapping, HostConfig, LogConfig, MountRequest, PluginMount,
    PluginSettings, RestartPolicy,
};
use crate::plugin::FIFOS_INSIDE;

/// The directory of sockets as plugins see it.
const SOCKETS_INSIDE: &str = "/run/docker/plugins";
/// A plugin's output is bounded.
const LOG: [(&str, &str); 2] = [("max-size", "1m"), ("max-file", "2")];

/// The request of a plugin's container. Errors: a mount or device has no path yet, or the engine cannot do what the configuration
/// asks for.
pub(super) fn body(
    id: &str,
    image: &str,
    config: &Config,
    settings: &PluginSettings,
    places: &Places,
) -> Result<CreateBody> {
    let user = config.user.uid.map(|uid| format!("{uid}:{}", config.user.gid.unwrap_or(uid)));
    let container = ContainerConfig {
        image: image.to_owned(),
        entrypoint: Some(config.entrypoint.clone()),
        cmd: Some(settings.args.clone()),
        env: Some(settings.env.clone()),
        working_dir: config.work_dir.clone(),
        user: user.unwrap_or_default(),
        ..ContainerConfig::default()
    };
    let mut host = HostConfig {
        log_config: LogConfig {
            kind: "json-file".into(),
            config: LOG.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
        },
        network_mode: network(&config.network.kind)?,
        ipc_mode: if config.ipc_host { "host".into() } else { String::new() },
        pid_mode: if config.pid_host { "host".into() } else { String::new() },
        // Plugins mount, and mounts of a user namespace are not seen outside of it.
        userns_mode: "host".into(),
        restart_policy: RestartPolicy { name: "unless-stopped".into(), ..RestartPolicy::default() },
        cap_add: Some(config.linux.capabilities.clone()),
        // The engine's own profile forbids mounts. dockerd has none for plugins.
        security_opt: Some(vec!["apparmor=unconfined".into()]),
        mounts: mounts(id, config, settings, places)?,
        ..HostConfig::default()
    };
    host.resources.devices = Some(devices(settings)?);
    if config.linux.allow_all_devices {
        host.resources.device_cgroup_rules = vec!["a *:* rwm".into()];
    }
    Ok(CreateBody { config: container, host_config: host, ..CreateBody::default() })
}

fn network(kind: &str) -> Result<String> {
    match kind {
        "host" | "bridge" => Ok(kind.to_owned()),
        "" | "null" | "none" => Ok("none".into()),
        other => Err(Error::unsupported(format!("the plugin's network {other:?} is not supported"))),
    }
}

fn devices(settings: &PluginSettings) -> Result<Vec<DeviceMapping>> {
    let mapped = |device: &crate::model::PluginDevice| {
        let path = device.path.clone().filter(|path| !path.is_empty());
        let path = path.ok_or_else(|| Error::invalid(format!("device {:?}: its path is not set", device.name)))?;
        Ok(DeviceMapping { path_on_host: path.clone(), path_in_container: path, cgroup_permissions: "rwm".into() })
    };
    settings.devices.iter().map(mapped).collect()
}

fn mounts(id: &str, config: &Config, settings: &PluginSettings, places: &Places) -> Result<Vec<MountRequest>> {
    let own = |source: std::path::PathBuf, target: &str, propagation: &str| MountRequest {
        kind: "bind".into(),
        source: source.display().to_string(),
        target: target.to_owned(),
        bind_options: Some(BindOptions {
            propagation: propagation.to_owned(),
            // After a boot the run directory is empty.
            create_mountpoint: true,
            ..BindOptions::default()
        }),
        ..MountRequest::default()
    };
    let mut all = vec![own(places.run(id), SOCKETS_INSIDE, ""), own(places.fifos(id), FIFOS_INSIDE, "")];
    if !config.propagated_mount.is_empty() {
        all.push(own(places.propagated(id), &config.propagated_mount, "rshared"));
    }
    for mount in &settings.mounts {
        all.push(requested(mount)?);
    }
    Ok(all)
}

/// A mount of the configuration.
fn requested(mount: &PluginMount) -> Result<MountRequest> {
    let wrong = |why: String| Error::invalid(format!("mount {:?}: {why}", mount.name));
    let mut request =
        MountRequest { kind: mount.kind.clone(), target: mount.destination.clone(), ..MountRequest::default() };
    if mount.kind == "tmpfs" {
        return Ok(request);
    }
    if mount.kind != "bind" {
        return Err(wrong(format!("the type {:?} is not supported", mount.kind)));
    }
    let source = mount.source.clone().filter(|source| !source.is_empty());
    request.source = source.ok_or_else(|| wrong("mount source is not specified".into()))?;
    let mut options = BindOptions { non_recursive: true, ..BindOptions::default() };
    for option in &mount.options {
        match option.as_str() {
            "rbind" => options.non_recursive = false,
            "bind" | "rw" | "dev" | "suid" | "exec" => {}
            "ro" => request.read_only = true,
            "private" | "rprivate" | "shared" | "rshared" | "slave" | "rslave" => {
                options.propagation.clone_from(option);
            }
            other => return Err(wrong(format!("the option {other:?} is not supported"))),
        }
    }
    request.bind_options = Some(options);
    Ok(request)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn a_container_has_the_granted_rights_and_no_others() {
        let config = Config::read(
            br#"{"entrypoint":["/a","b"],"interface":{"socket":"a.sock"},"network":{"type":"host"},"workdir":"/w",
            "mounts":[{"name":"m","source":"/tmp","destination":"/mnt","type":"bind","options":["rbind","ro","rslave"]}],
            "linux":{"capabilities":["CAP_SYS_ADMIN"],"devices":[{"name":"fuse","path":"/dev/fuse"}]},
            "propagatedMount":"/vol"}"#,
        )
        .unwrap();
        let places = Places::new(Path::new("/root"), Path::new("/run/x"));
        let id = "0123456789abcdef0123";
        let made = body(id, "sha256:1", &config, &config.settings(), &places).unwrap();
        let host = &made.host_config;
        assert_eq!((host.network_mode.as_str(), host.pid_mode.as_str(), host.privileged), ("host", "", false));
        assert_eq!(host.cap_add.as_deref(), Some(["CAP_SYS_ADMIN".to_owned()].as_slice()));
        let paths: Vec<_> = host.mounts.iter().map(|one| (one.source.as_str(), one.target.as_str())).collect();
        let wanted = [
            ("/run/x/plugins/0123456789abcdef", "/run/docker/plugins"),
            ("/run/x/plugins/0123456789abcdef-logging", "/run/docker/logging"),
            ("/root/plugins/0123456789abcdef/mounts", "/vol"),
            ("/tmp", "/mnt"),
        ];
        assert_eq!(paths, wanted);
        assert!(host.mounts[3].read_only && !host.mounts[0].read_only);
        let of = |text: &str| {
            let config = Config::read(text.as_bytes()).unwrap();
            body(id, "i", &config, &config.settings(), &places).unwrap_err().message().to_owned()
        };
        let begin = r#"{"entrypoint":["/a"],"interface":{"socket":"a.sock"},"#;
        assert_eq!(
            of(&format!(r#"{begin}"network":{{"type":"fast"}}}}"#)),
            "the plugin's network \"fast\" is not supported"
        );
        let later = r#""mounts":[{"name":"m","destination":"/mnt","type":"bind"}]}"#;
        assert_eq!(of(&format!("{begin}{later}")), "mount \"m\": mount source is not specified");
    }
}
