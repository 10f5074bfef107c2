//! The options of a root in the form of the C interface's configuration, by which another program opens the root in the same way.

use crate::options::{Options, ShipLogs};
use crate::store::Durability;
use serde_json::{Map, Value, json};
use std::path::PathBuf;

fn texts(paths: &[PathBuf]) -> Vec<String> {
    paths.iter().map(|path| path.to_string_lossy().into_owned()).collect()
}

/// The configuration, as JSON. The options that are of one open alone are left out: making the root, restarts after a boot, the
/// lease of an ephemeral engine, and the plugins that are asked about requests of clients.
pub(super) fn written(options: &Options) -> String {
    let registry = &options.registry;
    let mirror = |mirror: &crate::model::Mirror| format!("{}={}", mirror.registry, mirror.url);
    let members = json!({
        "durability": match options.durability {
            Durability::Full => "full",
            Durability::Normal => "normal",
            Durability::Off => "off",
        },
        "log-driver": options.log_driver,
        "log-opts": options.log_options,
        "ship-logs": match options.ship_logs {
            // The threads are the host program's.
            ShipLogs::None | ShipLogs::Thread => "none",
            ShipLogs::Program => "program",
        },
        "cgroup-parent": options.cgroup_parent,
        "labels": options.labels,
        "http-proxy": registry.proxies.http,
        "https-proxy": registry.proxies.https,
        "no-proxy": registry.proxies.exempt,
        "ip": options.publish_ip.map(|ip| ip.to_string()),
        "relay-loopback": options.relay_loopback,
        "leave-docker-user": options.leave_docker_user,
        "plugin-dirs": texts(&options.plugin_dirs),
        "cdi-spec-dirs": texts(&options.cdi_dirs),
        "insecure-registries": registry.insecure,
        "registry-mirrors": registry.mirrors.iter().map(mirror).collect::<Vec<_>>(),
        "userns-remap": options.userns_remap.map(|remap| format!("{}:{}:{}", remap.uid, remap.gid, remap.count)),
        "apparmor": options.apparmor,
        "selinux-enabled": options.selinux,
        "small-memory": options.small_memory,
        "large-windows": options.large_windows,
    });
    let said: Map<String, Value> = members
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    Value::Object(said).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Mirror;
    use std::collections::BTreeSet;

    /// The members of the configuration that are of one open alone.
    const LEFT_OUT: [&str; 5] =
        ["authorization-plugins", "outbox-max-age", "outbox-max-size", "restart-containers", "swarm-program"];

    #[test]
    fn every_member_of_the_configuration_is_passed_on_or_left_out() {
        let schema = concat!(env!("CARGO_MANIFEST_DIR"), "/include/schema/open-config.json");
        let schema: Value = serde_json::from_slice(&std::fs::read(schema).unwrap()).unwrap();
        let known: BTreeSet<String> = schema["properties"].as_object().unwrap().keys().cloned().collect();
        let mut options = Options::new("/r");
        options.publish_ip = Some([127, 0, 0, 1].into());
        options.apparmor = Some("unconfined".into());
        options.userns_remap = crate::UsernsRemap::parse("100000:200000:65536").ok();
        options.registry.mirrors = vec![Mirror::parse("quay.io=http://m:1").unwrap()];
        let proxy = || Some("http://p:1".to_owned());
        options.registry.proxies = crate::model::Proxies { http: proxy(), https: proxy(), exempt: proxy() };
        let written: Value = serde_json::from_str(&written(&options)).unwrap();
        let written = written.as_object().unwrap();
        let passed: BTreeSet<String> = written.keys().cloned().collect();
        let left_out = LEFT_OUT.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(&passed | &left_out, known);
        assert_eq!(written["userns-remap"], "100000:200000:65536");
        assert_eq!(written["registry-mirrors"], json!(["quay.io=http://m:1"]));
        assert_eq!((&written["ip"], &written["durability"]), (&json!("127.0.0.1"), &json!("full")));
    }
}
