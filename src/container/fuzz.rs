//! The door of create bodies: see `crate::fuzz`.

use super::spec::{self, Defaults, ImageView, Spec};
use crate::launch::cgroup::HostFacts;
use crate::model::{ContainerConfig, CreateBody, StringMap};
use crate::plugin::Plugins;

/// A body gives an error, or a spec. The spec must read back unchanged after it was stored, and all values that a start
/// needs must follow from it.
pub(crate) fn create(data: &[u8]) {
    let Ok(body) = serde_json::from_slice::<CreateBody>(data) else { return };
    let defaults = Defaults {
        log_driver: "json-file".into(),
        log_options: StringMap::new(),
        cgroup_parent: "/coracle".into(),
        engine: "0123456789ab".into(),
        host_name: "host".into(),
        host: HostFacts::everything(),
        remap: None,
        apparmor: None,
        selinux: false,
        lease: None,
        plugins: Plugins::new(&[]),
    };
    let config = ContainerConfig { cmd: Some(vec!["sh".into()]), ..ContainerConfig::default() };
    let image = ImageView { id: format!("sha256:{}", "0".repeat(64)), architecture: "amd64".into(), config };
    let Ok(checked) = spec::validate(&body, &defaults) else { return };
    let Ok((spec, _)) = spec::resolve(&checked, &image, &"0123456789abcdef".repeat(4), &[]) else { return };
    let text = serde_json::to_string(&spec).expect("a spec can be stored");
    let again: Spec = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{text}: {e}"));
    assert_eq!(serde_json::to_string(&again).expect("JSON"), text);
    let _ = spec::environment(&spec, "host", &[]);
    let _ = spec::ulimits(&spec.host_config);
    let _ = spec::mount_table(&spec, Vec::new());
    let _ = spec::sysctls(&spec.host_config);
    let _ = spec::security(&spec.host_config);
    let _ = spec::health_check(&spec);
}
