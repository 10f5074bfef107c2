//! The members of a bundle's `config.json` that are used: the runtime specification 1.0. Unknown members are not
//! errors, as it requires.

use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Config {
    pub oci_version: String,
    pub root: Option<Root>,
    #[serde(default)]
    pub mounts: Vec<Mount>,
    pub process: Option<Process>,
    pub hostname: Option<String>,
    #[serde(default)]
    pub hooks: Hooks,
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
    #[serde(default)]
    pub linux: Linux,
}

#[derive(Deserialize)]
pub struct Root {
    pub path: String,
    #[serde(default)]
    pub readonly: bool,
}

#[derive(Deserialize)]
pub struct Mount {
    pub destination: String,
    #[serde(default, rename = "type")]
    pub kind: String,
    #[serde(default)]
    pub source: String,
    #[serde(default)]
    pub options: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Process {
    #[serde(default)]
    pub terminal: bool,
    pub cwd: String,
    #[serde(default)]
    pub env: Vec<String>,
    #[serde(default)]
    pub args: Vec<String>,
    #[serde(default)]
    pub rlimits: Vec<Rlimit>,
    pub apparmor_profile: Option<String>,
    pub selinux_label: Option<String>,
    pub capabilities: Option<Capabilities>,
    #[serde(default)]
    pub no_new_privileges: bool,
    pub oom_score_adj: Option<i64>,
    #[serde(default)]
    pub user: User,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
pub struct User {
    #[serde(default)]
    pub uid: u32,
    #[serde(default)]
    pub gid: u32,
    #[serde(default)]
    pub additional_gids: Vec<u32>,
}

#[derive(Deserialize)]
pub struct Rlimit {
    #[serde(rename = "type")]
    pub kind: String,
    pub soft: u64,
    pub hard: u64,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Capabilities {
    pub bounding: Vec<String>,
    pub permitted: Vec<String>,
    pub effective: Vec<String>,
    pub inheritable: Vec<String>,
    pub ambient: Vec<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Hooks {
    pub prestart: Vec<Hook>,
    pub poststart: Vec<Hook>,
    pub poststop: Vec<Hook>,
}

#[derive(Deserialize)]
pub struct Hook {
    pub path: String,
    #[serde(default)]
    pub args: Vec<String>,
    #[serde(default)]
    pub env: Vec<String>,
    /// Seconds.
    pub timeout: Option<u64>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub struct Linux {
    pub namespaces: Vec<Namespace>,
    pub uid_mappings: Vec<IdMapping>,
    pub gid_mappings: Vec<IdMapping>,
    pub devices: Vec<Device>,
    pub cgroups_path: Option<String>,
    pub rootfs_propagation: Option<String>,
    pub masked_paths: Vec<String>,
    pub readonly_paths: Vec<String>,
    pub mount_label: Option<String>,
    pub sysctl: BTreeMap<String, String>,
    pub resources: Resources,
    /// Passed on unchanged: the engine's profiles have the same form.
    pub seccomp: Option<serde_json::Value>,
}

#[derive(Deserialize)]
pub struct Namespace {
    #[serde(rename = "type")]
    pub kind: String,
    pub path: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IdMapping {
    #[serde(rename = "containerID")]
    pub container_id: u32,
    #[serde(rename = "hostID")]
    pub host_id: u32,
    pub size: u32,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Device {
    #[serde(rename = "type")]
    pub kind: String,
    pub path: String,
    #[serde(default)]
    pub major: u32,
    #[serde(default)]
    pub minor: u32,
    pub file_mode: Option<u32>,
    #[serde(default)]
    pub uid: u32,
    #[serde(default)]
    pub gid: u32,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub struct Resources {
    pub devices: Vec<DeviceRule>,
    pub memory: Memory,
    pub cpu: Cpu,
    pub pids: Pids,
    #[serde(rename = "blockIO")]
    pub block_io: BlockIo,
    pub hugepage_limits: Vec<HugepageLimit>,
    pub network: Network,
}

#[derive(Deserialize)]
pub struct DeviceRule {
    pub allow: bool,
    #[serde(default, rename = "type")]
    pub kind: Option<String>,
    pub major: Option<i64>,
    pub minor: Option<i64>,
    #[serde(default)]
    pub access: String,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub struct Memory {
    pub limit: i64,
    pub reservation: i64,
    pub swap: i64,
    pub kernel: i64,
    #[serde(rename = "kernelTCP")]
    pub kernel_tcp: Option<i64>,
    pub swappiness: Option<i64>,
    #[serde(rename = "disableOOMKiller")]
    pub disable_oom_killer: Option<bool>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub struct Cpu {
    pub shares: i64,
    pub quota: i64,
    pub period: i64,
    pub realtime_runtime: Option<i64>,
    pub realtime_period: Option<i64>,
    pub cpus: String,
    pub mems: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Pids {
    pub limit: i64,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub struct BlockIo {
    pub weight: Option<u64>,
    pub leaf_weight: Option<u64>,
    pub weight_device: Vec<WeightDevice>,
    pub throttle_read_bps_device: Vec<ThrottleDevice>,
    pub throttle_write_bps_device: Vec<ThrottleDevice>,
    #[serde(rename = "throttleReadIOPSDevice")]
    pub throttle_read_iops_device: Vec<ThrottleDevice>,
    #[serde(rename = "throttleWriteIOPSDevice")]
    pub throttle_write_iops_device: Vec<ThrottleDevice>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WeightDevice {
    pub major: u32,
    pub minor: u32,
    pub weight: Option<u64>,
    pub leaf_weight: Option<u64>,
}

#[derive(Deserialize)]
pub struct ThrottleDevice {
    pub major: u32,
    pub minor: u32,
    pub rate: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HugepageLimit {
    pub page_size: String,
    pub limit: u64,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Network {
    #[serde(rename = "classID")]
    pub class_id: Option<u32>,
    pub priorities: Vec<Priority>,
}

#[derive(Deserialize)]
pub struct Priority {
    pub name: String,
    pub priority: u32,
}
