//! Fields that clients of later versions send whatever version they speak, looked at from inside the container or at the
//! kernel.

use crate::support::*;
use coracle::ErrorKind;
use coracle::model::*;
use serde_json::json;

// field: HostConfig.Init
#[test]
fn an_init_reaps_passes_signals_on_and_answers_for_the_command() {
    let root = Root::new();
    // The command is the second process, in a group of its own; what is left to the first one is reaped.
    let script = "cat /proc/1/comm; echo $$; (sh -c 'sleep 0.1 & exit' &); sleep 0.5; ps -o stat,comm | grep -c '^Z'";
    let output = root.sh_with(script, host(json!({ "Init": true })));
    assert_eq!(output.out().lines().collect::<Vec<_>>(), ["docker-init", "2", "0"], "{}", output.err());
    // Without one nobody reaps.
    let output = root.sh("(sh -c 'sleep 0.1 & exit' &); exec sleep 0.5");
    assert_eq!(output.code, 0);
    assert_eq!(root.sh_with("exit 7", host(json!({ "Init": true }))).code, 7);
    assert_eq!(root.sh_with("kill -9 $$", host(json!({ "Init": true }))).code, 137);
    let missing = root.run(&["no-such-program"], host(json!({ "Init": true })), b"");
    assert_eq!((missing.code, missing.err().as_str()), (127, "init: exec no-such-program: no such file or directory"));
    // The first process has no handler of its own, and yet the command gets the signal.
    let id = root.sleeper_with("with-init", host(json!({ "Init": true })));
    root.engine.container_stop(&id, Some(600_000), Some(&soon())).expect("stop: the signal arrives");
    assert_eq!(root.inspect(&id).state.exit_code, 0);
    assert_eq!(root.inspect(&id).host_config.init, Some(true));
    assert_eq!(root.inspect(&id).path, "sh", "inspect tells of the command, not of the init");
}

// field: HostConfig.Init
#[test]
fn an_init_starts_in_another_ones_network() {
    let root = Root::new();
    root.sleeper("first");
    let more = host(json!({ "Init": true, "NetworkMode": "container:first" }));
    assert_eq!(root.sh_with("cat /proc/1/comm", more).ok(), "docker-init");
}

// field: HostConfig.Init
#[test]
fn an_init_serves_a_terminal_and_another_user() {
    let root = Root::new();
    let more = json!({ "Tty": true, "User": "1234:5678", "HostConfig": { "Init": true, "ReadonlyRootfs": true } });
    let output = root.run(&["sh", "-c", "id -u; read x < /dev/tty; echo $x; cat /proc/1/comm"], more, b"typed\n");
    let text = output.out().replace('\r', "");
    let lines: Vec<&str> = text.lines().filter(|line| *line != "typed" || text.matches("typed").count() > 1).collect();
    assert!(lines.first() == Some(&"1234") || lines.contains(&"1234"), "{text}");
    assert!(lines.contains(&"typed") && lines.contains(&"docker-init"), "{text}");
}

// field: HostConfig.NanoCpus
// field: Update.NanoCpus
#[test]
fn nano_cpus_are_a_quota() {
    let root = Root::new();
    let id = root.sleeper_with("half", host(json!({ "NanoCpus": 500_000_000 })));
    let quota = |id: &str| {
        let cgroups = Cgroups::of(root.pid(id));
        let quota = cgroups.read("cpu", "cpu.cfs_quota_us", "cpu.max");
        let period = cgroups.read("cpu", "cpu.cfs_period_us", "cpu.max");
        if Cgroups::unified() { quota } else { format!("{quota} {period}") }
    };
    assert_eq!(quota(&id), "50000 100000");
    let limits = root.inspect(&id).host_config.resources;
    assert_eq!((limits.nano_cpus, limits.cpu_quota, limits.cpu_period), (500_000_000, 0, 0));
    let update = |change: Resources| {
        root.engine.container_update(&id, &UpdateContainer { resources: change, ..UpdateContainer::default() })
    };
    update(Resources { nano_cpus: 250_000_000, ..Resources::default() }).expect("update");
    assert_eq!(quota(&id), "25000 100000");
    let text = "CPU Quota cannot be updated as NanoCPUs has already been set";
    fails(update(Resources { cpu_quota: 5000, ..Resources::default() }), ErrorKind::Conflict, text);
    let both = host(json!({ "NanoCpus": 1, "CpuQuota": 5000 }));
    fails(root.try_create("", body(&["true"], both)), ErrorKind::Invalid, "Nano CPUs and CPU Quota cannot both be set");
    fails(
        root.try_create("", body(&["true"], host(json!({ "NanoCpus": i64::MAX })))),
        ErrorKind::Invalid,
        "Range of CPUs is from 0.01 to",
    );
}

// field: HostConfig.MaskedPaths
// field: HostConfig.ReadonlyPaths
#[test]
fn paths_to_hide_and_to_protect_are_the_request_s() {
    let root = Root::new();
    let script = "cat /proc/keys | head -c 1 | wc -c; test -w /proc/sys/net/ipv4/ip_forward; echo $?; \
                  cat /etc/hostname /etc/shells | wc -l; echo x > /etc/new && echo written";
    assert_eq!(root.sh(script).out().lines().nth(3), Some("written"));
    let asked = json!({ "MaskedPaths": ["/etc/shells"], "ReadonlyPaths": ["/etc"] });
    let output = root.sh_with(script, host(asked));
    let lines: Vec<String> = output.out().lines().map(str::to_owned).collect();
    assert_eq!(&lines[1..], ["0", "1"], "/proc/sys is writable, the file is empty, /etc is not written: {lines:?}");
    // None at all.
    let none = root.sh_with("mount | grep -c ' /proc/'", host(json!({ "MaskedPaths": [], "ReadonlyPaths": [] })));
    assert_eq!(none.out(), "0");
    fails(
        root.try_create("", body(&["true"], host(json!({ "MaskedPaths": ["etc"] })))),
        ErrorKind::Invalid,
        "MaskedPaths",
    );
}

// field: HostConfig.DeviceCgroupRules
#[test]
fn device_rules_open_what_is_closed() {
    let root = Root::new();
    // 1:11 is /dev/kmsg, which no container has.
    let script = "mknod /tmp/kmsg c 1 11 && exec 3< /tmp/kmsg && echo read";
    let closed = host(json!({ "CapAdd": ["SYSLOG"] }));
    assert!(root.sh_with(script, closed).err().contains("not permitted"), "a device that was not asked for was opened");
    let rules = host(json!({ "CapAdd": ["SYSLOG"], "DeviceCgroupRules": ["c 1:11 r"] }));
    assert_eq!(root.sh_with(script, rules.clone()).out(), "read");
    let write = "mknod /tmp/kmsg c 1 11 && echo x > /tmp/kmsg && echo written";
    assert!(root.sh_with(write, rules).err().contains("not permitted"), "only reading was asked for");
    fails(
        root.try_create("", body(&["true"], host(json!({ "DeviceCgroupRules": ["q 1:11 r"] })))),
        ErrorKind::Invalid,
        "invalid device cgroup rule format: 'q 1:11 r'",
    );
}

// field: HostConfig.IpcMode
#[test]
fn ipc_none_private_and_shareable() {
    let root = Root::new();
    let none =
        root.sh_with("test -e /dev/shm; echo $?; readlink /proc/self/ns/ipc", host(json!({ "IpcMode": "none" })));
    let host_ns = std::fs::read_link("/proc/self/ns/ipc").expect("a namespace");
    let text = none.ok();
    assert!(text.starts_with("1\n") && !text.contains(&*host_ns.to_string_lossy()), "{text}");
    let shareable = root.sleeper_with("lends", host(json!({ "IpcMode": "shareable" })));
    root.exec(&shareable, &["sh", "-c", "echo hello > /dev/shm/here"]).ok();
    let joined = root.sh_with("cat /dev/shm/here", host(json!({ "IpcMode": "container:lends" }))).ok();
    assert_eq!(joined, "hello");
    root.sleeper_with("keeps", host(json!({ "IpcMode": "private" })));
    let id = root.create("asks", body(&["true"], host(json!({ "IpcMode": "container:keeps" }))));
    let text =
        "can't join IPC of container keeps: non-shareable IPC (hint: use IpcMode:shareable for the donor container)";
    fails(root.engine.container_start(&id, None, Some(&soon())).map(drop), ErrorKind::Internal, text);
}

// field: HostConfig.ExtraHosts
#[test]
fn host_gateway_is_the_host() {
    let root = Root::new();
    let asked = json!({ "ExtraHosts": ["here:host-gateway", "there:10.9.8.7"], "NetworkMode": "bridge" });
    let output = root.sh_with("cat /etc/hosts; ip route", host(asked)).ok();
    let gateway = output.lines().find_map(|line| line.strip_prefix("default via ")).expect("a default route");
    let gateway = gateway.split(' ').next().expect("an address");
    assert!(output.contains(&format!("{gateway}\there\n")), "{output}");
    assert!(output.contains("10.9.8.7\tthere\n"), "{output}");
}

// field: HostConfig.SecurityOpt
#[test]
fn labels_and_profiles_of_other_kernels_are_told_by_name() {
    let root = Root::new();
    let create = |option: &str| {
        let body = serde_json::from_value(body(&["true"], host(json!({ "SecurityOpt": [option] })))).expect("a body");
        root.engine.container_create(None, &body)
    };
    if !kernel::has_apparmor() {
        fails(create("apparmor=x"), ErrorKind::Unsupported, "apparmor=x: this host's kernel has no AppArmor");
    }
    // dockerd accepts them too; here a warning follows.
    for option in ["label=type:x", "label:level:s0:c1,c2"] {
        if std::path::Path::new("/sys/fs/selinux/enforce").exists() {
            fails(create(option), ErrorKind::Unsupported, "this engine gives no SELinux labels");
            continue;
        }
        let made = create(option).expect("create");
        assert_eq!(made.warnings, [format!("The kernel has no SELinux. SecurityOpt {option} discarded.")]);
        root.start(&made.id);
        let detail = root.inspect(&made.id);
        assert_eq!((detail.process_label, detail.mount_label), (String::new(), String::new()));
    }
    root.sh_with("true", host(json!({ "SecurityOpt": ["label=disable", "apparmor=unconfined"] }))).ok();
}

// field: HostConfig.Mounts
// field: HostConfig.Mounts.Type
// field: HostConfig.Mounts.Source
// field: HostConfig.Mounts.Target
// field: HostConfig.Mounts.ReadOnly
// field: HostConfig.Mounts.BindOptions
// field: HostConfig.Mounts.VolumeOptions
// field: HostConfig.Mounts.VolumeOptions.Labels
// field: HostConfig.Mounts.VolumeOptions.DriverConfig
// field: HostConfig.Mounts.VolumeOptions.NoCopy
// field: HostConfig.Mounts.TmpfsOptions
// field: HostConfig.Mounts.TmpfsOptions.SizeBytes
// field: HostConfig.Mounts.TmpfsOptions.Mode
#[test]
fn mounts_in_their_long_form() {
    let root = Root::new();
    let source = root.dir.join("shown");
    std::fs::create_dir_all(source.join("below")).expect("make a directory");
    std::fs::write(source.join("file"), "of the host").expect("write");
    let mounts = json!([
        { "Type": "bind", "Source": source, "Target": "/ro", "ReadOnly": true },
        { "Type": "bind", "Source": source, "Target": "/rw", "BindOptions": { "Propagation": "rslave" } },
        { "Type": "volume", "Source": "kept", "Target": "/etc",
          "VolumeOptions": { "Labels": { "made": "for this" }, "DriverConfig": { "Name": "local" } } },
        { "Type": "volume", "Source": "empty", "Target": "/bin-not", "VolumeOptions": { "NoCopy": true } },
        { "Type": "volume", "Target": "/anonymous" },
        { "Type": "tmpfs", "Target": "/memory", "TmpfsOptions": { "SizeBytes": 65536, "Mode": 0o700 } },
        { "Type": "tmpfs", "Target": "/memory-ro", "ReadOnly": true },
        { "Type": "volume", "Source": "kept-ro", "Target": "/volume-ro", "ReadOnly": true },
    ]);
    let script = "cat /ro/file; echo; echo x > /ro/y; echo x > /rw/y && echo written; ls /etc | grep -c passwd; \
                  stat -c %a /memory; df -k /memory | tail -1 | awk '{print $2}'; grep ' /memory ' /proc/self/mountinfo; \
                  awk '$5 ~ \"-ro$\" { split($6, all, \",\"); print $5, all[1] }' /proc/self/mountinfo";
    let id = root.create("long", body(&["sh", "-c", script], host(json!({ "Mounts": mounts }))));
    root.start(&id);
    root.wait(&id);
    let (out, err) = (root.logs(&id).out(), root.logs(&id).err());
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(&lines[..5], ["of the host", "written", "1", "700", "64"], "{out} {err}");
    assert!(lines[5].contains("nosuid") && lines[5].contains("noexec"), "{out}");
    assert_eq!(&lines[6..], ["/memory-ro ro", "/volume-ro ro"]);
    assert!(err.contains("Read-only file system"), "{err}");
    assert_eq!(std::fs::read_to_string(source.join("y")).expect("written to the host"), "x\n");
    let volume = root.engine.volume_inspect("kept").expect("a volume");
    assert_eq!(volume.labels, Some(StringMap::from([("made".into(), "for this".into())])));
    // The image's files are copied into a new volume unless the request opts out; the driver's options are mounted.
    let no_copy = json!({ "Type": "volume", "Source": "bare", "Target": "/etc", "VolumeOptions": { "NoCopy": true } });
    assert_eq!(root.sh_with("ls -A /etc | grep -c passwd", host(json!({ "Mounts": [no_copy] }))).out(), "0");
    let options = json!({ "type": "tmpfs", "device": "tmpfs", "o": "size=1m" });
    let driver = json!({ "Name": "local", "Options": options });
    let small =
        json!({ "Type": "volume", "Source": "small", "Target": "/s", "VolumeOptions": { "DriverConfig": driver } });
    let seen = root.sh_with("grep ' /s ' /proc/self/mountinfo", host(json!({ "Mounts": [small] }))).ok();
    assert!(seen.contains(" tmpfs ") && seen.contains("size=1024k"), "{seen}");
    let detail = root.inspect(&id);
    let kinds: Vec<(&str, &str)> =
        detail.mounts.iter().map(|mount| (mount.destination.as_str(), mount.kind.as_str())).collect();
    let want = [
        ("/anonymous", "volume"),
        ("/bin-not", "volume"),
        ("/etc", "volume"),
        ("/memory", "tmpfs"),
        ("/memory-ro", "tmpfs"),
        ("/ro", "bind"),
        ("/rw", "bind"),
        ("/volume-ro", "volume"),
    ];
    assert_eq!(kinds, want);
    assert_eq!(detail.host_config.mounts.len(), 8, "inspect shows what was asked for");
    for (mount, text) in [
        (json!({ "Type": "bind", "Source": "/no/such", "Target": "/t" }), "bind source path does not exist: /no/such"),
        (json!({ "Type": "npipe", "Source": "/x", "Target": "/t" }), "mount type unknown"),
        (json!({ "Type": "tmpfs", "Target": "/proc" }), "cannot be mounted"),
    ] {
        let asked = root.try_create("", body(&["true"], host(json!({ "Mounts": [mount] }))));
        fails(asked, ErrorKind::Invalid, text);
    }
    let twice = json!({ "Binds": ["/tmp:/t"], "Mounts": [{ "Type": "tmpfs", "Target": "/t" }] });
    fails(root.try_create("", body(&["true"], host(twice))), ErrorKind::Invalid, "Duplicate mount point: /t");
}

// field: HostConfig.Mounts
// field: HostConfig.Mounts.BindOptions.NonRecursive
#[test]
fn a_bind_without_what_is_mounted_below() {
    let root = Root::new();
    let all = json!({ "Mounts": [{ "Type": "bind", "Source": "/dev", "Target": "/d" }] });
    assert_ne!(root.sh_with("grep -c ' /d/' /proc/self/mountinfo", host(all)).out(), "0");
    let top = json!({ "Mounts": [{ "Type": "bind", "Source": "/dev", "Target": "/d",
        "BindOptions": { "NonRecursive": true } }] });
    assert_eq!(root.sh_with("grep -c ' /d/' /proc/self/mountinfo", host(top)).out(), "0");
}

// field: HostConfig.StorageOpt
#[test]
fn storage_is_bounded_or_refused_with_the_reason() {
    let root = Root::new();
    let script = "dd if=/dev/zero of=/big bs=1M count=30 2>&1; ls -l /big | awk '{print $5}'";
    let asked = body(&["sh", "-c", script], host(json!({ "StorageOpt": { "size": "10M" } })));
    match root.try_create("bounded", asked) {
        Ok(id) => {
            root.start(&id);
            root.wait(&id);
            let out = root.logs(&id).out();
            assert!(out.contains("No space left") || out.contains("quota exceeded"), "{out}");
            // Others are not bounded by it, and what it had can be used again.
            assert!(root.sh(script).ok().ends_with(&(30 << 20).to_string()));
            root.engine.container_remove(&id, RemoveContainer::default(), Some(&soon())).expect("remove");
            let again = root.sh_with(
                "dd if=/dev/zero of=/some bs=1M count=8 2>&1",
                host(json!({ "StorageOpt": { "size": "10M" } })),
            );
            assert_eq!(again.code, 0, "{}", again.out());
        }
        Err(error) => {
            let quotas = std::env::var_os("CORACLE_QUOTA").is_some() && kernel::release() >= (5, 14);
            assert!(!quotas, "there are project quotas, and still: {error}");
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            assert!(error.message().starts_with("StorageOpt: size needs project quotas"), "{error}");
            let left = root.dir.join("root/containers");
            assert_eq!(std::fs::read_dir(left).expect("containers").count(), 0, "a refused one left files");
        }
    }
    let wrong = |option: serde_json::Value| root.try_create("", body(&["true"], host(json!({ "StorageOpt": option }))));
    fails(wrong(json!({ "colour": "red" })), ErrorKind::Internal, "Unknown option colour");
    fails(wrong(json!({ "size": "much" })), ErrorKind::Internal, "invalid size: 'much'");
}

// field: Config.OnBuild
#[test]
fn triggers_go_into_the_image_that_a_commit_makes() {
    let root = Root::new();
    let id = root.create("triggers", body(&["true"], json!({ "OnBuild": ["RUN true"] })));
    assert_eq!(root.inspect(&id).config.on_build, Some(vec!["RUN true".to_owned()]));
    let commit = CommitContainer { repo: "with-triggers".into(), ..CommitContainer::default() };
    root.engine.container_commit(&id, &commit, Some(&soon())).expect("commit");
    let config = root.engine.image_inspect("with-triggers").expect("inspect").config;
    assert_eq!(serde_json::to_value(&config).expect("JSON")["OnBuild"], json!(["RUN true"]));
}

// field: Config.Shell
#[test]
fn the_shell_runs_the_check() {
    let root = Root::new();
    let check = json!({ "Test": ["CMD-SHELL", "a word"], "Interval": 50_000_000 });
    let id = root.sleeper_with("shelled", json!({ "Shell": ["/bin/echo", "said:"], "Healthcheck": check }));
    root.wait_for("a result", || root.inspect(&id).state.health.is_some_and(|health| !health.log.is_empty()));
    assert_eq!(root.inspect(&id).state.health.expect("health").log[0].output, "said: a word\n");
}

// field: ExecConfig.Privileged
#[test]
fn a_privileged_exec_has_all_rights() {
    let root = Root::new();
    let id = root.sleeper("plain");
    let caps = |privileged: bool| {
        let config = json!({ "Cmd": ["grep", "CapEff", "/proc/self/status"], "Privileged": privileged,
            "AttachStdout": true, "AttachStderr": true });
        let text = root.exec_with(&id, config, b"").ok();
        u64::from_str_radix(text.trim_start_matches("CapEff:").trim(), 16).expect("a mask")
    };
    let own = std::fs::read_to_string("/proc/self/status").expect("a status");
    let bounding = u64::from_str_radix(&proc_status(&own, "CapBnd"), 16).expect("a mask");
    assert_eq!(caps(true), bounding);
    assert_ne!(caps(false), bounding);
    let config = json!({ "Cmd": ["sh", "-c", "exit 3"], "Privileged": true });
    let config: ExecConfig = serde_json::from_value(config).expect("an exec body");
    let exec = root.engine.exec_create(&id, &config).expect("create");
    assert!(root.engine.exec_inspect(&exec).expect("inspect").process_config.privileged);
}

// field: HostConfig.CpuCount
// field: HostConfig.CpuPercent
// field: HostConfig.DiskQuota
// field: HostConfig.ConsoleSize
// field: HostConfig.LxcConf
// field: HostConfig.Mounts.Consistency
// field: HostConfig.ContainerIDFile
// field: HostConfig.Cgroup
#[test]
fn fields_of_other_systems_are_taken_and_warned_about() {
    let root = Root::new();
    let asked = json!({ "CpuCount": 2, "CpuPercent": 50, "DiskQuota": 1 << 30, "ConsoleSize": [25, 80],
        "LxcConf": { "a": "b" }, "ContainerIDFile": "/no/where", "Cgroup": "container:x",
        "Mounts": [{ "Type": "tmpfs", "Target": "/t", "Consistency": "cached" }] });
    let create: CreateBody = serde_json::from_value(body(&["cat", "/proc/mounts"], host(asked))).expect("a body");
    let created = root.engine.container_create(Some("elsewhere"), &create).expect("create");
    for text in [
        "linux does not support CPU percent. Percent discarded.",
        "linux does not support CPU count. Count discarded.",
        "linux does not support a disk quota. DiskQuota discarded.",
        "The lxc execution driver is not supported. LxcConf discarded.",
        "A group by the name of a container is not supported. Cgroup discarded.",
    ] {
        assert!(created.warnings.iter().any(|warning| warning == text), "{:?} lacks {text}", created.warnings);
    }
    root.start(&created.id);
    assert_eq!(root.wait(&created.id), 0);
    assert!(root.logs(&created.id).out().contains(" /t tmpfs "), "the rest of the request counts");
    let kept = root.inspect(&created.id).host_config;
    assert_eq!((kept.resources.cpu_percent, kept.resources.cpu_count, kept.resources.disk_quota), (0, 0, Some(0)));
    // Every client that has a terminal sends it; dockerd keeps it and says nothing.
    assert_eq!(kept.console_size, [25, 80]);
    assert!(!created.warnings.iter().any(|warning| warning.contains("ConsoleSize")), "{:?}", created.warnings);
    assert_eq!(kept.container_id_file, "/no/where", "the file is the client's own to write");
    assert!(!std::path::Path::new("/no/where").exists());
}

// field: HostConfig.Isolation
// field: HostConfig.IOMaximumIOps
// field: HostConfig.IOMaximumBandwidth
// field: HostConfig.Runtime
#[test]
fn errors_name_fields_of_other_systems() {
    let root = Root::new();
    for (asked, kind, text) in [
        (json!({ "Isolation": "hyperv" }), ErrorKind::Internal, "linux only supports 'default'"),
        (json!({ "IOMaximumIOps": 5 }), ErrorKind::Internal, "linux does not support configuration of maximum IOPs"),
        (
            json!({ "IOMaximumBandwidth": 5 }),
            ErrorKind::Internal,
            "linux does not support configuration of maximum bandwidth",
        ),
        (json!({ "Runtime": "kata" }), ErrorKind::Invalid, "Unknown runtime specified kata"),
    ] {
        fails(root.try_create("", body(&["true"], host(asked))), kind, text);
    }
    root.sh_with("true", host(json!({ "Isolation": "default", "Runtime": "runc" }))).ok();
}

// field: HostConfig.KernelMemory
// field: Update.KernelMemory
#[test]
fn kernel_memory_is_limited_or_the_client_is_told() {
    let root = Root::new();
    let asked = body(&["sleep", "1000"], host(json!({ "KernelMemory": 16 << 20 })));
    let create: CreateBody = serde_json::from_value(asked).expect("a body");
    let created = root.engine.container_create(Some("kernel"), &create).expect("create");
    assert_eq!(created.warnings.len(), 1, "{:?}", created.warnings);
    root.start(&created.id);
    let kept = root.inspect(&created.id).host_config.resources.kernel_memory;
    if created.warnings[0].contains("deprecated") {
        let limit = Cgroups::of(root.pid(&created.id)).read("memory", "memory.kmem.limit_in_bytes", "memory.max");
        assert_eq!((limit.as_str(), kept), ("16777216", Some(16 << 20)));
    } else {
        assert!(created.warnings[0].starts_with("Your kernel does not support kernel memory limit"), "{created:?}");
        assert_eq!(kept, Some(0));
    }
    let change = Resources { kernel_memory: Some(32 << 20), ..Resources::default() };
    let update = UpdateContainer { resources: change, ..UpdateContainer::default() };
    let updated = root.engine.container_update(&created.id, &update).expect("update");
    let kept = root.inspect(&created.id).host_config.resources.kernel_memory;
    assert_eq!(
        (updated.warnings.len(), kept > Some(0)),
        (1, updated.warnings[0].contains("deprecated")),
        "{updated:?}"
    );
}

// field: List.before
// field: List.since
// field: List.size
// filter: network
// filter: volume
// filter: isolation
// filter: publish
// filter: expose
// filter: is-task
#[test]
fn lists_by_place_and_by_what_they_use() {
    let root = Root::new();
    let more = json!({ "ExposedPorts": { "80/tcp": {}, "90/udp": {} }, "HostConfig": { "Binds": ["vol:/data"],
        "NetworkMode": "bridge", "PortBindings": { "80/tcp": [{ "HostIp": "127.0.0.1", "HostPort": "18048" }] } } });
    let first = root.create("first", body(&["sh", "-c", "echo 12345 > /five"], more));
    root.create("second", body(&["true"], host(json!({ "Tmpfs": { "/t": "" } }))));
    root.create("third", body(&["true"], host(json!({ "Binds": ["/tmp:/data"] }))));
    root.start(&first);
    root.wait(&first);
    let list = |key: &str, value: &str| {
        let filters = serde_json::from_value(json!({ key: [value] })).expect("filters");
        root.names(&ListContainers { all: true, filters, ..ListContainers::default() })
    };
    for (key, value, want) in [
        ("network", "bridge", &["first"][..]),
        // The one with the port does not run.
        ("publish", "18048", &[]),
        ("expose", "80", &[]),
        ("is-task", "true", &[]),
        ("is-task", "false", &["third", "second", "first"]),
        ("network", "none", &["third", "second"]),
        ("network", &root.engine.network_inspect("bridge").expect("inspect").id, &["first"]),
        ("volume", "vol", &["first"]),
        ("volume", "/data", &["third", "first"]),
        ("isolation", "default", &["third", "second", "first"]),
    ] {
        assert_eq!(list(key, value), want, "{key}={value}");
    }
    let bounded = |since: &str, before: &str| {
        let (since, before) = (since.to_owned(), before.to_owned());
        root.names(&ListContainers { all: true, since, before, ..ListContainers::default() })
    };
    assert_eq!(bounded("first", "third"), ["second"]);
    assert_eq!(bounded("", "second"), ["first"]);
    let sized = ListContainers { all: true, size: true, ..ListContainers::default() };
    let sized = root.engine.container_list(&sized).expect("list");
    assert_eq!(sized[2].size_rw, Some(6), "what it wrote");
    assert!(sized[2].size_root_fs > Some(1000));
    assert_eq!(sized[0].size_rw, None, "nothing is left out");
}

#[test]
fn a_prune_removes_what_does_not_run() {
    let root = Root::new();
    let running = root.sleeper("running");
    let ended = root.create("ended", body(&["sh", "-c", "echo 12345 > /five"], json!({ "Labels": { "old": "" } })));
    root.start(&ended);
    root.wait(&ended);
    let created = root.create("created", body(&["true"], json!({})));
    let paused = root.sleeper("paused");
    root.engine.container_pause(&paused).expect("pause");
    let filters: Filters = serde_json::from_value(json!({ "label": ["old"] })).expect("filters");
    let pruned = root.engine.containers_prune(&filters, None).expect("prune");
    assert_eq!((pruned.containers_deleted, pruned.space_reclaimed), (vec![ended], 6));
    let pruned = root.engine.containers_prune(&Filters::default(), None).expect("prune");
    assert_eq!(pruned.containers_deleted, [created]);
    let all = ListContainers { all: true, ..ListContainers::default() };
    assert_eq!(root.names(&all), ["paused", "running"]);
    assert_eq!((root.status(&running).as_str(), root.status(&paused).as_str()), ("running", "paused"));
    let left: Vec<_> = std::fs::read_dir(root.dir.join("root/containers")).expect("directories").collect();
    assert_eq!(left.len(), 2, "nothing of them stays on the disk");
}

#[test]
fn a_limit_below_what_is_used_is_refused_or_enforced() {
    let root = Root::new();
    let id =
        root.sleeper_with("full", host(json!({ "Memory": 64 << 20, "MemorySwap": 64 << 20, "Tmpfs": { "/m": "" } })));
    root.exec(&id, &["dd", "if=/dev/zero", "of=/m/file", "bs=1M", "count=32"]);
    let resources = Resources { memory: 8 << 20, memory_swap: 8 << 20, ..Resources::default() };
    let update = UpdateContainer { resources, ..UpdateContainer::default() };
    let limit = |id: &str| Cgroups::of(root.pid(id)).read("memory", "memory.limit_in_bytes", "memory.max");
    match root.engine.container_update(&id, &update) {
        // cgroup v1 cannot take away what is used; everything stays as it was.
        Err(error) => {
            assert!(error.message().starts_with(&format!("Cannot update container {id}")), "{error}");
            assert_eq!(limit(&id), (64 << 20).to_string());
            assert_eq!(root.inspect(&id).host_config.resources.memory, 64 << 20);
            assert_eq!(root.status(&id), "running");
            assert_eq!(root.exec(&id, &["echo", "alive"]).ok(), "alive");
        }
        // v2 kills for it.
        Ok(_) => root.wait_for("its end", || root.status(&id) != "running" || limit(&id) == (8 << 20).to_string()),
    }
}

#[test]
fn a_container_that_fills_its_disk_is_told_so_and_stays_usable() {
    let root = Root::new();
    let id = root.sleeper_with("fills", host(json!({ "Tmpfs": { "/small": "size=1m" }, "PidsLimit": 20 })));
    let full = root.exec(&id, &["dd", "if=/dev/zero", "of=/small/file", "bs=64k"]);
    assert!(full.code != 0 && full.err().contains("No space left"), "{}", full.err());
    // The container's processes, too: the bound is the container's, not the engine's.
    let script = "i=0; while [ $i -lt 40 ]; do sleep 5 & i=$((i+1)); done; wait";
    let forks = root.exec(&id, &["sh", "-c", script]);
    assert!(forks.err().contains("can't fork"), "{}", forks.err());
    root.engine.container_stop(&id, Some(5000), Some(&soon())).expect("stop");
    root.start(&id);
    assert_eq!(root.exec(&id, &["echo", "again"]).ok(), "again");
}
