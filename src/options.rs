//! How an engine root is opened.

use crate::model::{RegistryOptions, StringMap};
use crate::store::Durability;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// How an engine root is opened.
#[derive(Debug, Clone)]
pub struct Options {
    /// Directory of the durable state; made if missing (mode 0700).
    pub root: PathBuf,
    /// Directory on tmpfs for what a reboot ends; absent: one under `/run/coracle` named after the root.
    pub run_dir: Option<PathBuf>,
    /// What a power cut may take back; default: nothing that was acknowledged.
    pub durability: Durability,
    /// `LogConfig` type of containers that name none; default `json-file`.
    pub log_driver: String,
    /// Options of that default driver.
    pub log_options: StringMap,
    /// cgroup under which containers that name none are put; default `/coracle`.
    pub cgroup_parent: String,
    /// Labels of the engine (`key=value`), shown by info.
    pub labels: Vec<String>,
    /// How registries are reached.
    pub registry: RegistryOptions,
    /// Where ports that name no address of the host are published; absent: at all of them. `127.0.0.1` keeps them from
    /// everybody but the host itself.
    pub publish_ip: Option<IpAddr>,
    /// Load, pull and push with less memory (under 16 MB in place of under 64 MB) and less at once. Images whose
    /// compression needs more are refused. Default false.
    pub small_memory: bool,
    /// Start, after a reboot, the containers whose restart policy asks for it. Default false.
    pub restart_containers: bool,
}

impl Options {
    /// The default options for `root`.
    pub fn new(root: impl AsRef<Path>) -> Options {
        Options {
            root: root.as_ref().to_path_buf(),
            run_dir: None,
            durability: Durability::Full,
            log_driver: "json-file".into(),
            log_options: StringMap::new(),
            cgroup_parent: "/coracle".into(),
            labels: Vec::new(),
            registry: RegistryOptions::default(),
            publish_ip: None,
            small_memory: false,
            restart_containers: false,
        }
    }
}
