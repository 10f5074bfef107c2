//! Plans for fake hosts, and real groups on this one.

use super::*;
use crate::launch::devices::default_rules;
use std::fs;
use std::io::Read;
use std::process::{Child, Command, Stdio};

const ID: &str = "c0ffee";

/// A directory that stands for a host's mounted hierarchies.
struct Fake(PathBuf);

impl Fake {
    fn new(name: &str) -> Fake {
        let dir = std::env::temp_dir().join(format!("coracle-cgroup-{}-{name}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        Fake(dir)
    }

    fn file(&self, path: &str, text: &str) {
        let file = self.0.join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    fn v1(&self, mount: &str, controllers: &[&str], name: Option<&str>) -> Hierarchy {
        fs::create_dir_all(self.0.join(mount)).unwrap();
        Hierarchy {
            version: Version::V1,
            mount: self.0.join(mount),
            controllers: controllers.iter().map(|one| one.to_string()).collect(),
            name: name.map(str::to_owned),
        }
    }

    fn v2(&self, mount: &str, controllers: &[&str]) -> Hierarchy {
        Hierarchy { version: Version::V2, ..self.v1(mount, controllers, None) }
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn lines(writes: &[Write]) -> Vec<String> {
    let mark = |write: &Write| if write.on_error == OnError::Ignore { " (or not)" } else { "" };
    writes.iter().map(|write| format!("{} = {}{}", write.file, write.value, mark(write))).collect()
}

fn limits() -> Resources {
    Resources {
        memory: 100 << 20,
        memory_swap: 150 << 20,
        memory_reservation: 50 << 20,
        memory_swappiness: Some(7),
        oom_kill_disable: Some(true),
        cpu_shares: 1024,
        cpu_quota: 5000,
        cpuset_cpus: "0".into(),
        blkio_weight: 500,
        pids_limit: 64,
        ..Resources::default()
    }
}

#[test]
fn pure_v2() {
    let fake = Fake::new("v2");
    fake.file("cgroup.subtree_control", "cpu io\n");
    let host = Hierarchies { list: vec![fake.v2("", &["cpuset", "cpu", "io", "memory", "hugetlb", "pids"])] };
    let plan = compile(&host, "/a//b/", ID, &limits(), &default_rules()).unwrap();
    assert!(plan.v2);
    let [group] = &plan.groups[..] else { panic!("{plan:?}") };
    assert_eq!(group.dir, fake.0.join("a/b").join(ID));
    assert_eq!((group.mount_name.as_str(), group.mount_options.as_str()), ("", ""));
    assert!(!group.device_program.is_empty());
    let parents = lines(&group.parent_writes);
    assert_eq!(
        parents[..3],
        [
            "cgroup.subtree_control = +cpuset (or not)",
            "cgroup.subtree_control = +memory (or not)",
            "cgroup.subtree_control = +pids (or not)",
        ]
    );
    assert_eq!(parents.len(), 3 + 5 + 5);
    assert_eq!(parents[12], "a/b/cgroup.subtree_control = +pids (or not)");
    assert_eq!(
        lines(&group.writes),
        [
            "cpuset.cpus = 0",
            "memory.max = 104857600",
            "memory.swap.max = 52428800",
            "memory.low = 52428800",
            "cpu.weight = 100",
            "cpu.max = 5000 100000",
            "io.weight = 4950",
            "pids.max = 64",
        ]
    );
}

#[test]
fn unlimited_swap_on_v2() {
    let fake = Fake::new("swap");
    let host = Hierarchies { list: vec![fake.v2("", &["memory"])] };
    let asked = Resources { memory: 1 << 24, memory_swap: -1, ..Resources::default() };
    let plan = compile(&host, "", ID, &asked, &default_rules()).unwrap();
    assert_eq!(lines(&plan.groups[0].writes), ["memory.max = 16777216", "memory.swap.max = max (or not)"]);
    let asked = Resources { memory: 1 << 24, ..Resources::default() };
    let plan = compile(&host, "", ID, &asked, &default_rules()).unwrap();
    assert_eq!(lines(&plan.groups[0].writes)[1], "memory.swap.max = 16777216 (or not)");
    let asked = Resources { memory_swap: 1 << 24, ..Resources::default() };
    for refused in [compile(&host, "", ID, &asked, &default_rules()).map(drop), update_writes(&host, &asked).map(drop)]
    {
        assert_eq!(refused.unwrap_err().message(), "unable to set swap limit without memory limit");
    }
}

#[test]
fn hybrid() {
    let fake = Fake::new("hybrid");
    fake.file("cpuset/cpuset.cpus", "0-3\n");
    fake.file("cpuset/cpuset.mems", "0\n");
    fake.file("cpuset/up/cpuset.cpus", "1-2\n");
    fake.file("cpuset/up/cpuset.mems", "\n");
    fake.file("blkio/some/blkio.bfq.weight", "100\n");
    let host = Hierarchies {
        list: vec![
            fake.v1("cpu,cpuacct", &["cpu", "cpuacct"], None),
            fake.v1("cpuset", &["cpuset"], None),
            fake.v1("memory", &["memory"], None),
            fake.v1("devices", &["devices"], None),
            fake.v1("blkio", &["blkio"], None),
            fake.v1("pids", &["pids"], None),
            fake.v1("systemd", &[], Some("systemd")),
            fake.v2("unified", &[]),
        ],
    };
    let asked = Resources { cpuset_cpus: String::new(), ..limits() };
    let plan = compile(&host, "up/down", ID, &asked, &default_rules()).unwrap();
    assert!(!plan.v2);
    let group = |name: &str| plan.groups.iter().find(|group| group.mount.ends_with(name)).unwrap();
    let cpu = group("cpu,cpuacct");
    assert_eq!((cpu.mount_name.as_str(), cpu.mount_options.as_str()), ("cpu,cpuacct", "cpu,cpuacct"));
    assert_eq!(cpu.links, ["cpu", "cpuacct"]);
    assert_eq!(lines(&cpu.writes), ["cpu.shares = 1024", "cpu.cfs_quota_us = 5000"]);
    let cpuset = group("cpuset");
    assert!(cpuset.links.is_empty());
    let parents = ["up/down/cpuset.cpus = 1-2", "up/cpuset.mems = 0", "up/down/cpuset.mems = 0"];
    assert_eq!(lines(&cpuset.parent_writes), parents);
    assert_eq!(lines(&cpuset.writes), ["cpuset.cpus = 1-2", "cpuset.mems = 0"]);
    assert_eq!(
        lines(&group("memory").writes),
        [
            "memory.limit_in_bytes = 104857600",
            "memory.memsw.limit_in_bytes = 157286400",
            "memory.soft_limit_in_bytes = 52428800",
            "memory.swappiness = 7",
            "memory.oom_control = 1",
        ]
    );
    assert_eq!(lines(&group("blkio").writes), ["blkio.bfq.weight = 500"]);
    assert_eq!(lines(&group("pids").writes), ["pids.max = 64"]);
    assert_eq!(lines(&group("devices").writes)[..2], ["devices.deny = a", "devices.allow = c *:* m"]);
    assert_eq!(group("systemd").mount_options, "none,name=systemd");
    let unified = group("unified");
    assert!(unified.mount_name.is_empty() && unified.writes.is_empty() && unified.device_program.is_empty());
    let open = DeviceRules { default_allow: true, allow: Vec::new() };
    let plan = compile(&host, "", ID, &Resources::default(), &open).unwrap();
    let devices = plan.groups.iter().find(|group| group.mount.ends_with("devices")).unwrap();
    assert_eq!(lines(&devices.writes), ["devices.allow = a (or not)"]);
}

#[test]
fn refusals() {
    let fake = Fake::new("bad");
    let host = Hierarchies { list: vec![fake.v1("cpu", &["cpu"], None)] };
    let open = DeviceRules { default_allow: true, allow: Vec::new() };
    let try_with = |parent: &str, asked: Resources, rules: &DeviceRules| {
        compile(&host, parent, ID, &asked, rules).unwrap_err().message().to_owned()
    };
    let none = Resources::default;
    assert_eq!(try_with("/a/../b", none(), &open), "invalid CgroupParent \"/a/../b\": it must not contain \"..\"");
    let memory = Resources { memory: 1 << 24, ..none() };
    assert_eq!(try_with("", memory, &open), "Memory: this host has no memory cgroup");
    assert_eq!(try_with("", none(), &default_rules()), "this host has no cgroup that can rule devices");
    let device = |path: &str| ThrottleDevice { path: path.into(), rate: 1 };
    let gone = Resources { blkio_device_read_bps: Some(vec![device("/dev/nope")]), ..none() };
    assert_eq!(try_with("", gone, &open), "stat /dev/nope: no such file or directory");
    let char = Resources { blkio_device_read_bps: Some(vec![device("/dev/null")]), ..none() };
    assert_eq!(try_with("", char, &open), "/dev/null is not a block device");
    assert!(compile(&host, "x.slice", ID, &none(), &open).unwrap().groups[0].dir.ends_with("x.slice/c0ffee"));
}

/// This host's groups below `/coracle-test-<pid>-<name>`; removed with everything in them.
struct Real {
    parent: String,
    live: Live,
    plan: Plan,
}

impl Real {
    /// None if the tests cannot make groups.
    fn new(name: &str, asked: &Resources, rules: &DeviceRules) -> Option<Real> {
        if !nix::unistd::geteuid().is_root() {
            return None;
        }
        let parent = format!("/coracle-test-{}-{name}", std::process::id());
        let host = Hierarchies::detect().unwrap();
        let plan = compile(&host, &parent, ID, asked, rules).unwrap();
        let live = plan.make().unwrap();
        assert_eq!(live, Live::locate(&host, &parent, ID).unwrap());
        Some(Real { parent, live, plan })
    }

    fn read(&self, file: &str) -> String {
        let found = self.plan.groups.iter().map(|group| group.dir.join(file)).find(|file| file.exists()).unwrap();
        fs::read_to_string(found).unwrap().trim().to_owned()
    }

    /// A process that joins every group before it does anything.
    fn run(&self, script: &str) -> Child {
        let files = self.plan.groups.iter().map(|group| group.dir.join("cgroup.procs"));
        let join: String = files.map(|file| format!("echo $$ > '{}' && ", file.display())).collect();
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &format!("{join} {{ {script} ; }}")]).stdout(Stdio::piped()).spawn().unwrap()
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        let _ = self.live.kill_all();
        let _ = self.live.remove();
        for group in &self.plan.groups {
            let _ = fs::remove_dir(group.mount.join(&self.parent[1..]));
        }
    }
}

fn v1_host() -> bool {
    Hierarchies::detect().unwrap().with("memory").is_some_and(|one| one.version == Version::V1)
}

#[test]
fn real_limits() {
    let facts = HostFacts::probe(&Hierarchies::detect().unwrap());
    let mut asked = limits();
    check(&mut asked, &facts, RequestKind::ForNew).unwrap();
    let Some(real) = Real::new("limits", &asked, &default_rules()) else { return };
    assert_eq!(real.read("pids.max"), "64");
    if !v1_host() {
        return;
    }
    assert_eq!(real.read("memory.limit_in_bytes"), "104857600");
    assert_eq!(real.read("memory.memsw.limit_in_bytes"), "157286400");
    assert_eq!(real.read("memory.soft_limit_in_bytes"), "52428800");
    assert_eq!(real.read("memory.swappiness"), "7");
    assert!(real.read("memory.oom_control").starts_with("oom_kill_disable 1"));
    assert_eq!(real.read("cpu.shares"), "1024");
    assert_eq!(real.read("cpu.cfs_quota_us"), "5000");
    assert_eq!(real.read("cpuset.cpus"), "0");
    assert_eq!(real.read("cpuset.mems"), facts.mems);
    let list = real.read("devices.list");
    let mut got: Vec<&str> = list.lines().collect();
    let wanted: Vec<String> = default_rules().allow.iter().map(|rule| rule.to_string()).collect();
    let mut wanted: Vec<&str> = wanted.iter().map(String::as_str).collect();
    got.sort();
    wanted.sort();
    assert_eq!(got, wanted);
}

#[test]
fn real_update_in_both_directions() {
    let asked = Resources { memory: 64 << 20, ..Resources::default() };
    let Some(real) = Real::new("update", &asked, &default_rules()) else { return };
    let host = Hierarchies::detect().unwrap();
    for memory in [256i64 << 20, 32 << 20] {
        let asked = Resources { memory, memory_swap: memory, pids_limit: -1, ..Resources::default() };
        real.live.update(&update_writes(&host, &asked).unwrap()).unwrap();
        assert_eq!(real.live.stats(&mut Files::default()).memory_limit, memory as u64);
        if v1_host() {
            assert_eq!(real.read("memory.memsw.limit_in_bytes"), memory.to_string());
        }
    }
    assert_eq!(real.read("pids.max"), "max");
}

#[test]
fn real_processes() {
    let Some(real) = Real::new("procs", &Resources::default(), &default_rules()) else { return };
    assert!(real.live.pids().unwrap().is_empty());
    let mut child =
        real.run("cat /dev/null; head -c1 /dev/kmsg 2>/dev/null || echo refused; sleep 600 & sleep 600 & wait");
    let mut said = [0; 8];
    child.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
    assert_eq!(&said, b"refused\n");
    while real.live.pids().unwrap().len() < 3 {
        std::thread::yield_now();
    }
    assert!(real.live.pids().unwrap().contains(&(child.id() as i32)));
    assert!(
        real.live.stats(&mut Files::default()).pids == 3
            && real.live.stats(&mut Files::default()).cpu_total > 0
            && real.live.stats(&mut Files::default()).memory_usage > 0
    );
    assert!(real.live.remove().is_err(), "a group with processes cannot go");
    real.live.freeze().unwrap();
    real.live.thaw().unwrap();
    real.live.thaw().unwrap();
    real.live.freeze().unwrap();
    // The parent reaps: kill_all waits for it.
    let reaper = std::thread::spawn(move || child.wait().unwrap());
    real.live.kill_all().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&reaper.join().unwrap()), Some(9));
    real.live.remove().unwrap();
    real.live.remove().unwrap();
    assert!(real.plan.groups.iter().all(|group| !group.dir.exists()));
    assert!(real.live.pids().unwrap().is_empty());
}

#[test]
fn real_oom() {
    let asked = Resources { memory: 8 << 20, memory_swap: 8 << 20, ..Resources::default() };
    let Some(real) = Real::new("oom", &asked, &default_rules()) else { return };
    let mut child = real.run("x=x; while :; do x=$x$x; done");
    let status = child.wait().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9), "{status}");
    let file = if v1_host() { "memory.oom_control" } else { "memory.events" };
    let kills = real.read(file).lines().find_map(|line| line.strip_prefix("oom_kill ").map(str::to_owned));
    assert_ne!(kills.as_deref(), Some("0"));
    assert!(real.live.stats(&mut Files::default()).memory_max_usage > 4 << 20);
}

/// A container's groups made of fake files.
fn fake_live(fake: &Fake, list: Vec<Hierarchy>) -> Live {
    fs::create_dir_all(fake.0.join("up")).unwrap();
    Live::locate(&Hierarchies { list }, "/up", ID).unwrap()
}

#[test]
fn less_memory_than_v2_can_take_back_is_refused_before_it_kills() {
    let fake = Fake::new("below");
    let live = fake_live(&fake, vec![fake.v2("", &["memory", "pids"])]);
    let (limit, high) = (format!("up/{ID}/memory.max"), format!("up/{ID}/memory.high"));
    fake.file(&limit, "90000000");
    fake.file(&high, "max");
    fake.file(&format!("up/{ID}/memory.current"), "80000000\n");
    fake.file(&format!("up/{ID}/memory.peak"), "85000000\n");
    let to = |bytes: i64| [Write::must("memory.max", bytes)];
    let error = live.update(&to(70_000_000)).unwrap_err();
    let said = "unable to set memory limit to 70000000 (current usage: 80000000, peak usage: 85000000)";
    assert_eq!(error.message(), said);
    assert_eq!(fs::read_to_string(fake.0.join(&limit)).unwrap(), "90000000");
    assert!(fs::read_to_string(fake.0.join(&high)).unwrap().starts_with("max"));
    live.update(&to(81_000_000)).unwrap();
    assert_eq!(fs::read_to_string(fake.0.join(&limit)).unwrap(), "81000000");
}

#[test]
fn a_refused_update_is_taken_back() {
    let fake = Fake::new("back");
    let live = fake_live(&fake, vec![fake.v2("", &["cpu", "pids"])]);
    let file = format!("up/{ID}/pids.max");
    fake.file(&file, "50");
    // There is no cpu.weight.
    assert!(live.update(&[Write::must("pids.max", 70), Write::must("cpu.weight", 5)]).is_err());
    assert_eq!(fs::read_to_string(fake.0.join(&file)).unwrap(), "50");
    live.update(&[Write::must("pids.max", 70), Write::may("cpu.weight", 5)]).unwrap();
    assert_eq!(fs::read_to_string(fake.0.join(&file)).unwrap(), "70");
}

#[test]
fn stats_of_v2() {
    let fake = Fake::new("stats");
    let live = fake_live(&fake, vec![fake.v2("", &["cpu", "io", "memory", "pids"])]);
    for (file, text) in [
        ("cpu.stat", "usage_usec 30\nuser_usec 20\nsystem_usec 10\nnr_periods 4\nnr_throttled 3\nthrottled_usec 2\n"),
        ("memory.current", "4096\n"),
        ("memory.max", "max\n"),
        ("memory.stat", "anon 1\ninactive_file 2\n"),
        ("memory.events", "low 0\nmax 7\noom_kill 1\n"),
        ("io.stat", "8:0 rbytes=1 wbytes=2 rios=3 wios=4\n"),
        ("pids.current", "5\n"),
        ("pids.max", "max\n"),
    ] {
        fake.file(&format!("up/{ID}/{file}"), text);
    }
    let stats = live.stats(&mut Files::default());
    assert_eq!((stats.cpu_total, stats.cpu_user, stats.cpu_kernel), (30_000, 20_000, 10_000));
    assert_eq!((stats.cpu_periods, stats.cpu_throttled_periods, stats.cpu_throttled), (4, 3, 2000));
    assert_eq!((stats.memory_usage, stats.memory_limit, stats.memory_fail_count), (4096, u64::MAX, 7));
    assert_eq!(stats.memory["inactive_file"], 2);
    assert_eq!((stats.io_bytes[1].op.as_str(), stats.io_bytes[1].value), ("Write", 2));
    assert_eq!((stats.pids, stats.pids_limit), (5, 0));
    assert!(stats.cpu_each.is_empty());
}
