//! The engine itself: what `docker version` and `docker info` show.

pub(super) mod facts;
mod id;

use super::{Engine, dirs};
use crate::error::Result;
use crate::launch::cdi;
use crate::launch::cgroup::{Hierarchies, HostFacts};
use crate::model::{Event, Info, ListImages, RegistryOptions, StringMap, Version, is_address_range};
use crate::notes::{LogLevel, note};
use crate::parts::Part;
use crate::time::{now_ns, rfc3339_nano};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;

/// The newest API version; the shapes of [`crate::model`] belong to it.
const API: &str = "1.24";
/// The oldest version in the specification.
const OLDEST_API: &str = "1.18";

/// The numbers of objects in an engine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub running: usize,
    pub paused: usize,
    /// All others: created, exited, and (as in engine 1.12) restarting.
    pub stopped: usize,
    pub images: usize,
}

/// Version of the library and of the API. Needs no root.
#[must_use]
pub fn version() -> Version {
    Version {
        version: env!("CARGO_PKG_VERSION").into(),
        api_version: API.into(),
        min_api_version: OLDEST_API.into(),
        git_commit: env!("CORACLE_COMMIT").into(),
        go_version: env!("CORACLE_COMPILER").into(),
        os: std::env::consts::OS.into(),
        arch: crate::model::architecture_name(std::env::consts::ARCH).into(),
        kernel_version: facts::Names::read().release,
        experimental: false,
        build_time: build_time(env!("CORACLE_BUILT")),
    }
}

impl Engine {
    /// Version of the library and of the API, like [`version`].
    pub fn version(&self) -> Result<Version> {
        Ok(version())
    }

    /// Describes the engine and the host, as `docker info` does: counts, drivers, kernel, warnings.
    ///
    /// The keys are those of engine 1.12; in addition `EngineRootDir` of the specification (equal to `DockerRootDir`),
    /// and `CgroupVersion`, `PidsLimit`, `OSVersion` and `Warnings` of engine 20.10.
    pub fn info(&self) -> Result<Info> {
        self.info_with(self.counts()?)
    }

    /// Sets new labels for this engine (`key=value`, as in [`crate::Options`]), and sends the event `reload` of the
    /// type `daemon` to all listeners: with the host's name, the labels as a JSON list, and `settings`, other settings
    /// that the host program has read.
    ///
    /// Errors: the journal cannot be written.
    pub fn reload(&self, labels: Vec<String>, settings: &StringMap) -> Result<()> {
        let mut attributes = settings.clone();
        attributes.insert("labels".into(), json!(labels).to_string());
        *self.0.labels.write() = labels;
        let id = id::of(&dirs::root(&self.0.options)?)?;
        self.0.journal.append(&Event::daemon("reload", &id, &facts::Names::read().host, &attributes))?;
        Ok(())
    }

    /// The kinds of plugins: drivers that are built in, those that volumes have, and installed plugins that are enabled.
    fn plugins(&self) -> Result<Value> {
        let authorization = Some(&self.0.options.authorization_plugins).filter(|names| !names.is_empty());
        let installed = self.0.managed.enabled()?;
        let of = |kind: &str, built_in: BTreeSet<String>| {
            let more = installed.iter().filter(|(_, kinds)| kinds.iter().any(|one| one == kind));
            built_in.into_iter().chain(more.map(|(name, _)| name.clone())).collect::<BTreeSet<String>>()
        };
        let own = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Ok(json!({ "Plugins": {
            "Volume": of("volumedriver", self.0.volumes.register.drivers()?),
            "Network": of("networkdriver", own(&networks())),
            "Authorization": authorization,
            "Log": of("logdriver", own(&logs())),
        } }))
    }

    fn counts(&self) -> Result<Counts> {
        let (running, paused, stopped) = self.0.containers.register.counts()?;
        let images = self.image_list(&ListImages { all: true, ..ListImages::default() })?.len();
        Ok(Counts { running, paused, stopped, images })
    }

    /// `Warnings` of info.
    fn warnings(&self, limits: &HostFacts) -> Result<Vec<String>> {
        let (mut warnings, options) = (limit_warnings(limits), &self.0.options);
        if options.log_driver == "json-file" && !options.log_options.contains_key("max-size") {
            warnings.push("WARNING: Container logs grow without a limit unless a container sets max-size".into());
        }
        let blocked = self.network_warnings().unwrap_or_default();
        warnings.extend(blocked.into_iter().map(|text| format!("WARNING: {text}")));
        if self.0.containers.networks.loopback.lacks_filter().unwrap_or(false) {
            warnings.push("WARNING: The kernel has no filter for bridges (sch_ingress and cls_bpf): what comes to ports at 127.0.0.1 is passed on by the containers' monitors".into());
        }
        if let Some(text) = facts::not_on_tmpfs(self.0.containers.places.run()) {
            warnings.push(text);
        }
        warnings.extend(self.0.images.verifier.damage_seen()?.into_iter().map(|found| format!("WARNING: {found}")));
        warnings.extend(self.0.containers.views.damaged()?.into_iter().map(|found| format!("WARNING: {found}")));
        warnings.extend(self.leftover_lines().into_iter().map(|line| format!("WARNING: {line}")));
        Ok(warnings)
    }

    fn info_with(&self, counts: Counts) -> Result<Info> {
        let options = &self.0.options;
        let root = dirs::root(options)?;
        // On a host without cgroups the warnings say so.
        let limits = Hierarchies::detect().map(|host| HostFacts::probe(&host)).unwrap_or_default();
        let names = facts::Names::read();
        let root_text = root.to_string_lossy();
        let (devices, unreadable) = cdi::devices(&options.cdi_dirs);
        let mut warnings = self.warnings(&limits)?;
        warnings.extend(unreadable.into_iter().map(|reason| format!("WARNING: CDI: {reason}")));
        let document = [
            objects(counts),
            json!({
                "ID": id::of(&root)?,
                "Name": names.host,
                "Labels": *self.0.labels.read(),
                "ServerVersion": env!("CARGO_PKG_VERSION"),
                "SystemTime": rfc3339_nano(now_ns()),
                "EngineRootDir": root_text,
                "DockerRootDir": root_text,
                "Driver": "overlay2",
                "DriverStatus": [["Backing Filesystem", facts::file_system(&root)]],
                "SystemStatus": null,
                "HostSettings": self.0.containers.networks.settings.changed(),
                "LoggingDriver": options.log_driver,
                "LogDelivery": deliveries(&root),
                "CDISpecDirs": options.cdi_dirs,
                "DiscoveredDevices": devices.iter().map(|id| json!({ "Source": "cdi", "ID": id })).collect::<Vec<_>>(),
                "FirewallBackend": { "Driver": "nftables" },
                "CgroupDriver": "cgroupfs",
                "CgroupVersion": limits.cgroup_version,
                "NFd": facts::entries("/proc/self/fd"),
                "NGoroutines": facts::entries("/proc/self/task"),
                "NEventsListener": self.0.journal.listeners(),
                "Debug": false,
                "ExperimentalBuild": false,
                "LiveRestoreEnabled": true,
                "Warnings": warnings,
            }),
            facts::of_host(&names),
            json!({ "SecurityOptions": facts::security_options(&self.0.containers) }),
            abilities(&limits),
            registries(&options.registry),
            unused(),
            self.0.swarm.info().map_or_else(|| json!({}), |swarm| json!({ "Swarm": swarm })),
            self.plugins()?,
        ];
        Ok(document
            .into_iter()
            .filter_map(|part| if let Value::Object(map) = part { Some(map) } else { None })
            .flatten()
            .collect())
    }
}

fn objects(counts: Counts) -> Value {
    json!({
        "Containers": counts.running + counts.paused + counts.stopped,
        "ContainersRunning": counts.running,
        "ContainersPaused": counts.paused,
        "ContainersStopped": counts.stopped,
        "Images": counts.images,
    })
}

fn abilities(limits: &HostFacts) -> Value {
    json!({
        "MemoryLimit": limits.memory_limit,
        "SwapLimit": limits.swap_limit,
        "KernelMemory": limits.kernel_memory,
        "CpuCfsPeriod": limits.cpu_cfs_period,
        "CpuCfsQuota": limits.cpu_cfs_quota,
        "CPUShares": limits.cpu_shares,
        "CPUSet": limits.cpuset,
        "OomKillDisable": limits.oom_kill_disable,
        "PidsLimit": limits.pids_limit,
    })
}

/// The settings for registries, in dockerd's form.
fn registries(options: &RegistryOptions) -> Value {
    let mirrors = |registry: &str| -> Vec<String> {
        let own = options.mirrors.iter().filter(|mirror| mirror.registry == registry);
        own.map(|mirror| format!("{}/", mirror.url.trim_end_matches('/'))).collect()
    };
    let (networks, hosts): (Vec<&String>, Vec<&String>) =
        options.insecure.iter().partition(|entry| is_address_range(entry));
    let mut indexes = serde_json::Map::new();
    let named = options.mirrors.iter().map(|mirror| &mirror.registry);
    for name in named.chain(hosts.iter().copied()) {
        let secure = !hosts.contains(&name);
        let index = json!({ "Name": name, "Mirrors": mirrors(name), "Secure": secure, "Official": false });
        indexes.insert(name.clone(), index);
    }
    let official = json!({ "Name": "docker.io", "Mirrors": mirrors("docker.io"), "Secure": true, "Official": true });
    indexes.insert("docker.io".into(), official);
    let networks: Vec<&str> = networks.into_iter().map(String::as_str).chain(["127.0.0.0/8"]).collect();
    json!({
        "HttpProxy": without_login(options.proxies.http.as_deref()),
        "HttpsProxy": without_login(options.proxies.https.as_deref()),
        "NoProxy": options.proxies.exempt.as_deref().unwrap_or_default(),
        "RegistryConfig": {
            "InsecureRegistryCIDRs": networks,
            "IndexConfigs": indexes,
            "Mirrors": mirrors("docker.io"),
        },
    })
}

/// The address of a proxy in `info`: name and password are hidden, in dockerd's way.
fn without_login(proxy: Option<&str>) -> String {
    let proxy = proxy.unwrap_or_default();
    let start = proxy.find("://").map_or(0, |at| at + 3);
    let end = proxy[start..].find(['/', '?', '#']).map_or(proxy.len(), |at| start + at);
    match proxy[start..end].rfind('@') {
        Some(at) => format!("{}xxxxx:xxxxx{}", &proxy[..start], &proxy[start + at..]),
        None => proxy.to_owned(),
    }
}

/// The sums of the deliveries of logs; null: their states cannot be read, and all else can be told.
fn deliveries(root: &Path) -> Value {
    crate::container::delivery_sums(root).unwrap_or_else(|error| {
        note(LogLevel::Error, "log", None, || error.to_string());
        Value::Null
    })
}

/// The drivers of networks that are built in.
fn networks() -> Vec<&'static str> {
    let others: &[&str] = if Part::Networks.is_here() { &["ipvlan", "macvlan"] } else { &[] };
    [&["bridge", "host", "null"], others].concat()
}

/// The drivers of logs that are built in.
fn logs() -> Vec<&'static str> {
    const DELIVERING: [&str; 8] = ["awslogs", "fluentd", "gcplogs", "gelf", "journald", "otlp", "splunk", "syslog"];
    let delivering: &[&str] = if Part::Ship.is_here() { &DELIVERING } else { &[] };
    [&["json-file", "local"], delivering].concat()
}

/// Members that clients look for and that are empty in this engine (other runtimes), or outside of a swarm.
fn unused() -> Value {
    let never = "0001-01-01T00:00:00Z";
    json!({
        "Runtimes": { "coracle": { "path": "" } },
        "DefaultRuntime": "coracle",
        "ExecutionDriver": "",
        "InitPath": "",
        "InitSha1": "",
        "InitBinary": "",
        "Isolation": "",
        "GenericResources": null,
        "ClusterStore": "",
        "ClusterAdvertise": "",
        "IndexServerAddress": "https://index.docker.io/v1/",
        "Swarm": {
            "NodeID": "",
            "NodeAddr": "",
            "LocalNodeState": "inactive",
            "ControlAvailable": false,
            "Error": "",
            "RemoteManagers": null,
            "Nodes": 0,
            "Managers": 0,
            "Cluster": { "ID": "", "Version": {}, "CreatedAt": never, "UpdatedAt": never, "Spec": {} },
        },
    })
}

fn limit_warnings(limits: &HostFacts) -> Vec<String> {
    let v1 = limits.cgroup_version != "2";
    let needed = [
        (limits.memory_limit, "memory limit"),
        (limits.swap_limit || !limits.memory_limit, "swap limit"),
        (limits.oom_kill_disable || !v1, "oom kill disable"),
        (limits.cpu_cfs_quota, "cpu cfs quota"),
        (limits.cpu_cfs_period, "cpu cfs period"),
        (limits.cpu_shares, "cpu shares"),
        (limits.cpuset, "cpuset"),
        (limits.pids_limit, "pids limit"),
        (limits.devices, "device"),
    ];
    let missing = needed.iter().filter(|(there, _)| !there);
    missing.map(|(_, what)| format!("WARNING: No {what} support")).collect()
}

fn build_time(seconds: &str) -> String {
    let ns = seconds.parse::<i64>().ok().and_then(|s| s.checked_mul(1_000_000_000));
    ns.map_or_else(String::new, rfc3339_nano)
}

#[cfg(test)]
mod tests;
