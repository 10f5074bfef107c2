//! Limits of running containers: in the kernel's files, changed while they run, told when memory runs out; and stats.

use crate::support::*;
use coracle::ErrorKind;
use coracle::model::*;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const MB: i64 = 1 << 20;

fn update(root: &Root, id: &str, body: Value) -> coracle::Result<Updated> {
    let body: UpdateContainer = serde_json::from_value(body).expect("a well-formed update body");
    root.engine.container_update(id, &body)
}

/// Memory and swap together as the kernel has it, in bytes; on v2 the swap of it. `None`: this host does not count swap.
fn swap_limit(cgroups: &Cgroups) -> Option<String> {
    let file = if Cgroups::unified() {
        format!("/sys/fs/cgroup{}/memory.swap.max", cgroups.path("memory"))
    } else {
        format!("/sys/fs/cgroup/memory{}/memory.memsw.limit_in_bytes", cgroups.path("memory"))
    };
    std::fs::read_to_string(file).ok().map(|text| text.trim().to_owned())
}

fn memory_limit(cgroups: &Cgroups) -> String {
    cgroups.read("memory", "memory.limit_in_bytes", "memory.max")
}

// operation: POST /containers/{name}/update
// field: Update.CpuPeriod
// field: Update.CpuQuota
// field: Update.CpuShares
// field: Update.CpusetCpus
// field: Update.CpusetMems
// field: Update.Memory
// field: Update.MemoryReservation
// field: Update.MemorySwap
// field: Update.PidsLimit
// field: Update.RestartPolicy
#[test]
fn an_update_changes_a_running_container_and_is_kept() {
    let root = Root::new();
    let id = root.sleeper_with("updated", host(json!({ "Memory": 64 * MB, "PidsLimit": 50 })));
    let cgroups = Cgroups::of(root.pid(&id));
    let mut events = root.engine.events(&EventQuery::default()).expect("events");
    let all = json!({
        "Memory": 128 * MB, "MemorySwap": 256 * MB, "MemoryReservation": 32 * MB, "CpuShares": 512, "CpuPeriod": 50_000,
        "CpuQuota": 25_000, "CpusetCpus": "0", "CpusetMems": "0", "PidsLimit": 77,
        "RestartPolicy": { "Name": "on-failure", "MaximumRetryCount": 3 },
    });
    let updated = update(&root, &id, all).expect("update");
    assert!(updated.warnings.iter().all(|w| w.contains("swap")), "{:?}", updated.warnings);
    cgroups.assert_limits("134217728");
    if let Some(swap) = swap_limit(&cgroups) {
        assert_eq!(swap, if Cgroups::unified() { "134217728" } else { "268435456" });
    }
    let kept = root.inspect(&id).host_config;
    assert_eq!((kept.resources.memory, kept.resources.cpu_shares, kept.resources.pids_limit), (128 * MB, 512, 77));
    assert_eq!((kept.restart_policy.name.as_str(), kept.restart_policy.maximum_retry_count), ("on-failure", 3));
    // An absent limit stays, and 0 removes one.
    update(&root, &id, json!({ "PidsLimit": -1, "Memory": 0 })).expect("update");
    assert_eq!(cgroups.read("pids", "pids.max", "pids.max"), "max");
    assert_eq!(memory_limit(&cgroups), "134217728");
    let seen = events_until(&mut events, |_| true);
    assert_eq!(actions(&seen), ["update"]);
    assert_eq!(seen[0].actor.attributes["name"], "updated");
    // The least and the most of each.
    for (body, v1, v2, value, value_v2) in [
        (json!({ "CpuShares": 2 }), "cpu.shares", "cpu.weight", "2", "1"),
        (json!({ "CpuShares": 262_144 }), "cpu.shares", "cpu.weight", "262144", "10000"),
        (json!({ "CpuPeriod": 1000, "CpuQuota": 1000 }), "cpu.cfs_period_us", "cpu.max", "1000", "1000 1000"),
        (json!({ "CpuPeriod": 1_000_000, "CpuQuota": -1 }), "cpu.cfs_quota_us", "cpu.max", "-1", "max 1000000"),
        (json!({ "CpuPeriod": 1_000_000 }), "cpu.cfs_period_us", "cpu.max", "1000000", "max 1000000"),
    ] {
        update(&root, &id, body.clone()).unwrap_or_else(|e| panic!("{body}: {e}"));
        assert_eq!(cgroups.read("cpu", v1, v2), if Cgroups::unified() { value_v2 } else { value }, "{body}");
    }
}

#[test]
fn an_update_that_is_refused_changes_nothing() {
    let root = Root::new();
    let id = root.sleeper_with("refused", host(json!({ "Memory": 64 * MB })));
    let cgroups = Cgroups::of(root.pid(&id));
    root.exec(&id, &["dd", "if=/dev/zero", "of=/dev/shm/x", "bs=1M", "count=30"]);
    let invalid = ErrorKind::Invalid;
    for (body, kind, text) in [
        (json!({ "Memory": 10 }), invalid, "Minimum memory limit allowed is 6MB"),
        (
            json!({ "Memory": 256 * MB }),
            ErrorKind::Conflict,
            "Memory limit should be smaller than already set memoryswap limit, update the memoryswap at the same time",
        ),
        // Less than is in use.
        (json!({ "Memory": 8 * MB, "MemorySwap": 8 * MB, "CpuShares": 99 }), ErrorKind::Internal, "(current usage: 3"),
        (json!({ "CpusetCpus": "4000" }), invalid, "Requested CPUs are not available - requested 4000"),
        (json!({ "CpuShares": 1 }), ErrorKind::Internal, "the minimum allowed cpu-shares is 2"),
        (json!({ "RestartPolicy": { "Name": "always", "MaximumRetryCount": 2 } }), invalid, "maximum retry count"),
        (json!({ "RestartPolicy": { "Name": "sometimes" } }), invalid, "invalid restart policy 'sometimes'"),
    ] {
        fails(update(&root, &id, body.clone()), kind, text);
        assert_eq!(memory_limit(&cgroups), "67108864", "{body}");
        assert_eq!(root.inspect(&id).host_config.resources.memory, 64 * MB, "{body}");
    }
    let shares = cgroups.read("cpu", "cpu.shares", "cpu.weight");
    assert_eq!(shares, if Cgroups::unified() { "100" } else { "1024" }, "taken back with the rest");
    assert_eq!(root.status(&id), "running", "nothing is killed for it");
    fails(update(&root, "nobody", json!({})), ErrorKind::NotFound, "No such container: nobody");
}

// field: Update.RestartPolicy
#[test]
fn an_update_reaches_stopped_and_restarted_containers() {
    let root = Root::new();
    let id = root.create("later", body(&["sleep", "1000"], json!({})));
    update(&root, &id, json!({ "Memory": 64 * MB, "PidsLimit": 33 })).expect("update");
    root.start(&id);
    let cgroups = Cgroups::of(root.pid(&id));
    assert_eq!(
        (memory_limit(&cgroups).as_str(), cgroups.read("pids", "pids.max", "pids.max").as_str()),
        ("67108864", "33")
    );
    // The monitor restarts it by itself, by the new policy and with the new limits.
    let policy = json!({ "Name": "on-failure", "MaximumRetryCount": 1 });
    update(&root, &id, json!({ "RestartPolicy": policy, "PidsLimit": 44 })).expect("update");
    update(&root, &id, json!({ "PidsLimit": 55 })).expect("update");
    let first = root.pid(&id);
    // The end must not be a stop by a user, so that the policy restarts the container.
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(first), nix::sys::signal::Signal::SIGKILL).expect("kill");
    root.wait_for("its restart", || {
        let state = root.inspect(&id).state;
        state.status == "running" && state.pid != 0 && state.pid != first
    });
    assert_eq!(Cgroups::of(root.pid(&id)).read("pids", "pids.max", "pids.max"), "55");
    assert_eq!(root.inspect(&id).restart_count, 1);
}

#[test]
fn memory_that_runs_out_is_told_at_once_and_in_the_end() {
    let root = Root::new();
    let mut events = root.engine.events(&of_containers()).expect("events");
    let script = "sh -c 'x=x; while :; do x=$x$x; done'; echo went; read line; exit 7";
    let more = json!({ "OpenStdin": true, "HostConfig": { "Memory": 12 * MB, "MemorySwap": 12 * MB } });
    let id = root.create("hungry", body(&["sh", "-c", script], more));
    root.start(&id);
    let seen = events_until(&mut events, |event| event.action == "oom");
    assert_eq!(actions(&seen), ["create", "start", "oom"]);
    let state = root.inspect(&id).state;
    assert_eq!((state.status.as_str(), state.oom_killed), ("running", true));
    root.wait_for("the survivor", || root.logs(&id).stdout.starts_with(b"went"));
    root.engine.container_kill(&id, None, Some(&soon())).expect("kill");
    let seen = events_until(&mut events, |event| event.action == "die");
    assert!(!actions(&seen).contains(&"oom") || actions(&seen).len() == 3, "told once for one: {:?}", actions(&seen));
    assert!(root.inspect(&id).state.oom_killed);
    root.start(&id);
    root.wait_for("its second want", || root.inspect(&id).state.oom_killed);
}

#[test]
fn a_container_whose_first_process_is_killed_for_memory() {
    let root = Root::new();
    let mut events = root.engine.events(&of_containers()).expect("events");
    let more = host(json!({ "Memory": 12 * MB, "MemorySwap": 12 * MB }));
    let id = root.create("hungry-first", body(&["sh", "-c", "x=x; while :; do x=$x$x; done"], more));
    root.start(&id);
    assert_eq!(root.wait(&id), 137);
    let seen = events_until(&mut events, |event| event.action == "die");
    assert_eq!(actions(&seen), ["create", "start", "oom", "die"]);
    assert_eq!(seen[3].actor.attributes["exitCode"], "137");
    assert!(root.inspect(&id).state.oom_killed);
}

// field: HostConfig.BlkioDeviceReadBps
// field: HostConfig.BlkioDeviceReadIOps
// field: HostConfig.BlkioDeviceWriteBps
// field: HostConfig.BlkioDeviceWriteIOps
#[test]
fn block_io_by_device() {
    let Some((device, number)) = block_device() else { return };
    let root = Root::new();
    let rate = |rate: u64| json!([{ "Path": device, "Rate": rate }]);
    let info = root.engine.info().expect("info");
    assert!(info.contains_key("CPUShares"));
    let asked = json!({
        "BlkioDeviceReadBps": rate(1 << 20), "BlkioDeviceWriteBps": rate(2 << 20), "BlkioDeviceReadIOps": rate(300),
        "BlkioDeviceWriteIOps": rate(400),
    });
    let id = root.sleeper_with("slow-disk", host(asked));
    let cgroups = Cgroups::of(root.pid(&id));
    if Cgroups::unified() {
        let text = cgroups.read("io", "", "io.max");
        assert_eq!(text, format!("{number} rbps=1048576 wbps=2097152 riops=300 wiops=400"));
        return;
    }
    for (file, value) in
        [("read_bps", "1048576"), ("write_bps", "2097152"), ("read_iops", "300"), ("write_iops", "400")]
    {
        let text = cgroups.read("blkio", &format!("blkio.throttle.{file}_device"), "");
        assert_eq!(text, format!("{number} {value}"), "{file}");
    }
}

// field: HostConfig.BlkioWeight
// field: Update.BlkioWeight
#[test]
fn block_io_weights() {
    let root = Root::new();
    let body: CreateBody =
        serde_json::from_value(body(&["sleep", "1000"], host(json!({ "BlkioWeight": 300 })))).expect("a body");
    let created = root.engine.container_create(Some("heavy"), &body).expect("create");
    if let Some(warning) = created.warnings.first() {
        assert_eq!(
            warning,
            "Your kernel does not support Block I/O weight or the cgroup is not mounted. Weight discarded."
        );
        return;
    }
    root.start(&created.id);
    let cgroups = Cgroups::of(root.pid(&created.id));
    assert!(weights(&cgroups).contains("300") || weights(&cgroups).contains("2930"), "{}", weights(&cgroups));
    update(&root, &created.id, json!({ "BlkioWeight": 500 })).expect("update");
    assert!(weights(&cgroups).contains("500") || weights(&cgroups).contains("4950"), "{}", weights(&cgroups));
    // The least and the most, which the general file of v2 counts in a range of its own.
    for (weight, general) in [(10, 1), (1000, 10_000)] {
        update(&root, &created.id, json!({ "BlkioWeight": weight })).expect("update");
        let text = weights(&cgroups);
        let is = |number: i32| text.lines().any(|line| line.trim_start_matches("default ") == number.to_string());
        assert!(is(weight) || is(general), "{weight}: {text}");
    }
}

fn weights(cgroups: &Cgroups) -> String {
    let dir = match Cgroups::unified() {
        true => format!("/sys/fs/cgroup{}", cgroups.path("io")),
        false => format!("/sys/fs/cgroup/blkio{}", cgroups.path("blkio")),
    };
    let files = ["blkio.weight", "blkio.weight_device", "blkio.bfq.weight", "blkio.bfq.weight_device"];
    let files = files.iter().chain(&["io.bfq.weight", "io.weight"]);
    files.filter_map(|file| std::fs::read_to_string(format!("{dir}/{file}")).ok()).collect()
}

// field: HostConfig.BlkioWeightDevice
#[test]
fn block_io_weights_by_device() {
    let root = Root::new();
    let Some(weighed) = Weighed::new(&root) else { return };
    let (device, number) = (&weighed.device, &weighed.number);
    let asked = json!({ "BlkioWeightDevice": [{ "Path": device, "Weight": 200 }] });
    let body: CreateBody = serde_json::from_value(body(&["sleep", "1000"], host(asked))).expect("a body");
    let created = root.engine.container_create(Some("heavy-there"), &body).expect("create");
    if let Some(warning) = created.warnings.first() {
        assert!(warning.ends_with("Weight-device discarded."), "{warning}");
        return;
    }
    root.start(&created.id);
    let text = weights(&Cgroups::of(root.pid(&created.id)));
    assert!(text.lines().any(|line| line == format!("{number} 200")), "{text}");
    let force = RemoveContainer { force: true, ..RemoveContainer::default() };
    root.engine.container_remove(&created.id, force, Some(&soon())).expect("remove");
}

/// A block device of the test's own with the scheduler that weighs; it ends with the value.
struct Weighed {
    device: String,
    number: String,
}

impl Weighed {
    /// None: the kernel has no such scheduler, or none for these devices (before Linux 5.14).
    fn new(root: &Root) -> Option<Weighed> {
        let file = root.dir.join("weighed");
        std::fs::File::create(&file).and_then(|file| file.set_len(1 << 20)).expect("make a file");
        let output = std::process::Command::new("losetup").args(["--find", "--show"]).arg(&file).output();
        let device = String::from_utf8(output.expect("run losetup").stdout).expect("a name").trim().to_owned();
        let queue = format!("/sys/block/{}", device.trim_start_matches("/dev/"));
        let number = std::fs::read_to_string(format!("{queue}/dev")).expect("its number").trim().to_owned();
        let weighed = Weighed { device, number };
        let scheduler = format!("{queue}/queue/scheduler");
        std::fs::write(&scheduler, "bfq").ok()?;
        std::fs::read_to_string(scheduler).is_ok_and(|text| text.contains("[bfq]")).then_some(weighed)
    }
}

impl Drop for Weighed {
    fn drop(&mut self) {
        let _ = std::process::Command::new("losetup").args(["--detach", &self.device]).status();
    }
}

/// A block device whose queue can be limited, and its number.
fn block_device() -> Option<(String, String)> {
    let disks = std::fs::read_dir("/sys/block").ok()?.flatten();
    let mut names: Vec<String> = disks.map(|disk| disk.file_name().to_string_lossy().into_owned()).collect();
    names.retain(|name| !["loop", "ram", "zram"].iter().any(|kind| name.starts_with(kind)));
    names.sort();
    let name = names.into_iter().find(|name| std::path::Path::new(&format!("/dev/{name}")).exists())?;
    let number = std::fs::read_to_string(format!("/sys/block/{name}/dev")).ok()?;
    Some((format!("/dev/{name}"), number.trim().to_owned()))
}

// operation: GET /containers/{name}/stats
#[test]
fn stats_of_a_running_container() {
    let root = Root::new();
    let id = root.sleeper_with("measured", host(json!({ "Memory": 64 * MB, "PidsLimit": 40 })));
    let mut stream = root.engine.container_stats(&id, StatsQuery::default()).expect("stats");
    let begun = Instant::now();
    let first = stream.next(Some(&soon())).expect("a sample").expect("a sample");
    assert_eq!((first.name.as_str(), first.id.as_str()), ("/measured", id.as_str()));
    assert_eq!((first.preread.as_str(), &first.precpu_stats), ("0001-01-01T00:00:00Z", &CpuStats::default()));
    assert_eq!(first.memory_stats.limit, Some(64 << 20));
    assert!(first.memory_stats.usage.is_some_and(|usage| usage > 0 && usage < 64 << 20));
    assert!(!first.memory_stats.stats.is_empty() && first.networks.is_none());
    assert!(first.pids_stats.current >= 1 && first.pids_stats.limit == 40);
    assert!(first.blkio_stats.io_service_bytes_recursive.is_some());
    let second = stream.next(Some(&soon())).expect("a sample").expect("a sample");
    assert!(begun.elapsed() >= Duration::from_millis(950), "one a second");
    assert_eq!((&second.preread, &second.precpu_stats), (&first.read, &first.cpu_stats));
    assert!(second.cpu_stats.cpu_usage.total_usage > first.cpu_stats.cpu_usage.total_usage);
    assert!(second.cpu_stats.system_cpu_usage > first.cpu_stats.system_cpu_usage);
    assert!(second.cpu_stats.online_cpus >= 1);
    // Another name, other limits, another process in groups of the same names.
    root.engine.container_rename(&id, "renamed").expect("rename");
    let resources = Resources { memory: 48 << 20, memory_swap: -1, ..Resources::default() };
    root.engine.container_update(&id, &UpdateContainer { resources, ..UpdateContainer::default() }).expect("update");
    root.engine.container_restart(&id, Some(0), Some(&soon())).expect("restart");
    let third = stream.next(Some(&soon())).expect("a sample").expect("a sample");
    assert_eq!((third.name.as_str(), third.memory_stats.limit), ("/renamed", Some(48 << 20)));
    assert!(third.memory_stats.usage.is_some_and(|usage| usage > 0 && usage < 48 << 20));
    assert!(third.pids_stats.current >= 1 && third.cpu_stats.cpu_usage.total_usage > 0);
    // A stopped container has zeroes; after its removal there is no further sample.
    root.engine.container_kill(&id, None, Some(&soon())).expect("kill");
    let last = stream.next(Some(&soon())).expect("a sample").expect("a sample");
    assert_eq!(last, ContainerStats { name: "/renamed".into(), id: id.clone(), ..zero() });
    let force = RemoveContainer { force: true, ..RemoveContainer::default() };
    root.engine.container_remove(&id, force, Some(&soon())).expect("remove");
    assert!(stream.next(Some(&soon())).expect("the end").is_none());
}

#[test]
fn single_samples() {
    let root = Root::new();
    let id = root.sleeper("once");
    let once = StatsQuery { stream: false, one_shot: false };
    let mut stream = root.engine.container_stats(&id, once).expect("stats");
    let sample = stream.next(Some(&soon())).expect("a sample").expect("a sample");
    assert!(sample.precpu_stats.system_cpu_usage > 0 && sample.preread < sample.read);
    assert!(stream.next(Some(&soon())).expect("the end").is_none());
    let mut stream = root.engine.container_stats(&id, StatsQuery { one_shot: true, ..once }).expect("stats");
    let sample = stream.next(Some(&soon())).expect("a sample").expect("a sample");
    assert_eq!(sample.precpu_stats, CpuStats::default());
    let host = std::fs::read_to_string("/proc/meminfo").expect("meminfo");
    let total: u64 = host.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("MemTotal");
    assert_eq!(sample.memory_stats.limit, Some(total * 1024), "without a bound the host's memory is one");
    root.engine.container_kill(&id, None, Some(&soon())).expect("kill");
    let mut stream = root.engine.container_stats(&id, once).expect("stats");
    let sample = stream.next(Some(&soon())).expect("a sample").expect("a sample");
    let empty = ContainerStats { name: "/once".into(), id: id.clone(), ..zero() };
    assert_eq!(sample, empty);
    fails(root.engine.container_stats("nobody", once).map(|_| ()), ErrorKind::NotFound, "No such container: nobody");
}

fn zero() -> ContainerStats {
    let never = || "0001-01-01T00:00:00Z".to_owned();
    let os_type = "linux".to_owned();
    ContainerStats { read: never(), preread: never(), os_type, ..ContainerStats::default() }
}
