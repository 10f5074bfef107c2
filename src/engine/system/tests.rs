use super::*;
use crate::engine::Options;

struct Dir(std::path::PathBuf);

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn engine() -> (Engine, Dir) {
    let mut name = [0u8; 8];
    getrandom::fill(&mut name).unwrap();
    let dir = Dir(std::env::temp_dir().join(format!("coracle-system-{:016x}", u64::from_ne_bytes(name))));
    let mut options = Options::new(dir.0.join("root"));
    options.run_dir = Some(dir.0.join("run"));
    options.labels = vec!["zone=a".into()];
    (Engine::open_with(options).unwrap(), dir)
}

#[test]
fn version_has_what_clients_negotiate_with() {
    let (engine, _dir) = engine();
    let version = engine.version().unwrap();
    assert_eq!((version.api_version.as_str(), version.min_api_version.as_str()), ("1.24", "1.18"));
    assert!(version.go_version.starts_with("rustc 1."), "{}", version.go_version);
    assert!(crate::time::parse_rfc3339(version.build_time.as_bytes()).is_some(), "{}", version.build_time);
    assert!(["amd64", "arm64"].contains(&version.arch.as_str()));
    assert_eq!(build_time("0"), "1970-01-01T00:00:00Z");
    assert_eq!(build_time("soon"), "");
}

#[test]
fn info_has_every_key_of_engine_1_12() {
    let (engine, _dir) = engine();
    let counts = Counts { running: 1, paused: 2, stopped: 4, images: 8 };
    let listener = engine.events(&Default::default()).unwrap();
    let info = engine.info_with(counts).unwrap();
    let keys = "ID Containers ContainersRunning ContainersPaused ContainersStopped Images Driver DriverStatus SystemStatus \
        Plugins MemoryLimit SwapLimit KernelMemory CpuCfsPeriod CpuCfsQuota CPUShares CPUSet IPv4Forwarding \
        BridgeNfIptables BridgeNfIp6tables Debug NFd OomKillDisable NGoroutines SystemTime ExecutionDriver LoggingDriver \
        CgroupDriver NEventsListener KernelVersion OperatingSystem OSType Architecture IndexServerAddress RegistryConfig \
        NCPU MemTotal DockerRootDir HttpProxy HttpsProxy NoProxy Name Labels ExperimentalBuild ServerVersion ClusterStore \
        ClusterAdvertise SecurityOptions Runtimes DefaultRuntime Swarm LiveRestoreEnabled EngineRootDir InitPath InitSha1";
    for key in keys.split_whitespace() {
        assert!(info.contains_key(key), "{key}");
    }
    assert_eq!(info["Containers"], 7);
    assert_eq!(info["Images"], 8);
    assert_eq!(info["NEventsListener"], 1);
    assert_eq!(info["Labels"], json!(["zone=a"]));
    assert_eq!(info["EngineRootDir"], info["DockerRootDir"]);
    assert_eq!(info["ID"], engine.info_with(counts).unwrap()["ID"], "the id stays");
    drop(listener);
    assert_eq!(engine.info_with(counts).unwrap()["NEventsListener"], 0);
}

#[test]
fn a_host_without_control_groups_says_so() {
    let warnings = limit_warnings(&HostFacts::default());
    assert!(warnings.contains(&"WARNING: No memory limit support".into()));
    assert!(!warnings.contains(&"WARNING: No swap limit support".into()), "only of memory that can be limited");
}

#[test]
fn registries_are_told_as_dockerd_tells_them() {
    let mirrors = ["https://mirror.lan", "http://second.lan/", "quay.lan=https://q.lan"];
    let options = RegistryOptions {
        insecure: vec!["10.0.0.0/8".into(), "reg.lan:5000".into()],
        mirrors: mirrors.map(|text| crate::model::Mirror::parse(text).unwrap()).to_vec(),
        ..RegistryOptions::default()
    };
    let shown = &registries(&options)["RegistryConfig"];
    let of_hub = json!(["https://mirror.lan/", "http://second.lan/"]);
    assert_eq!(shown["Mirrors"], of_hub);
    assert_eq!(shown["InsecureRegistryCIDRs"], json!(["10.0.0.0/8", "127.0.0.0/8"]));
    let indexes = json!({
        "docker.io": { "Name": "docker.io", "Mirrors": of_hub, "Secure": true, "Official": true },
        "quay.lan": { "Name": "quay.lan", "Mirrors": ["https://q.lan/"], "Secure": true, "Official": false },
        "reg.lan:5000": { "Name": "reg.lan:5000", "Mirrors": [], "Secure": false, "Official": false },
    });
    assert_eq!(shown["IndexConfigs"], indexes);
}

#[test]
fn logins_of_proxies_are_hidden() {
    for (proxy, shown) in [
        (None, ""),
        (Some("http://proxy:3128"), "http://proxy:3128"),
        (Some("http://user:pass@proxy:3128/"), "http://xxxxx:xxxxx@proxy:3128/"),
        (Some("user:p@ss@proxy"), "xxxxx:xxxxx@proxy"),
        (Some("socks5://proxy/a@b"), "socks5://proxy/a@b"),
    ] {
        assert_eq!(without_login(proxy), shown, "{proxy:?}");
    }
}
