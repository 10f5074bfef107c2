//! Attacks on a process that comes into a container where others live: an exec, a health check, a container in another's PID
//! namespace. A program in the container stops each newcomer ([`program`] `stopper`), and the test looks at it from the host.

use crate::programs::program;
use crate::support::*;
use coracle::UsernsRemap;
use coracle::model::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// How many newcomers each test looks at: where one is stopped is chance.
const NEWCOMERS: usize = 6;

/// The name of a process that has not executed its program.
const BEFORE_ITS_PROGRAM: &str = "coracle-monitor";

/// To find its program a newcomer looks into many directories, so that it is there for a while.
fn long_path() -> String {
    format!("PATH={}/bin", "/none:".repeat(15_000))
}

/// A container whose program stops who comes.
fn stopper(root: &Root, count: usize, more: Value) -> String {
    let mut more = more;
    more["Env"] = json!([long_path()]);
    // AppArmor would refuse it to stop or trace a newcomer: its label is not the container's before its program.
    more["HostConfig"]["SecurityOpt"] = json!(["apparmor=unconfined"]);
    more["HostConfig"]["Binds"] = json!([format!("{}:/stopper:ro", program("stopper").display())]);
    let id = root.create("stopper", body(&["/stopper", &count.to_string()], more));
    root.start(&id);
    wait_for("the stopper", || root.logs(&id).out().starts_with("ready"));
    id
}

/// The processes that were stopped so far: pid inside, and whether the stopper could open its root directory.
fn stopped(root: &Root, id: &str) -> Vec<(i32, String)> {
    let line = |line: &str| {
        let (pid, root) = line.strip_prefix("stopped ")?.split_once(" root ")?;
        Some((pid.parse().ok()?, root.to_owned()))
    };
    root.logs(id).out().lines().filter_map(line).collect()
}

fn link(pid: impl std::fmt::Display, name: &str) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/{pid}/{name}")).ok()
}

/// The pid on the host of a process of the PID namespace that `first` is in.
fn host_pid(first: i32, inside: i32) -> Option<i32> {
    let all = std::fs::read_dir("/proc").expect("/proc").flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|&pid| link(pid, "ns/pid") == link(first, "ns/pid")).find(|&pid| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
        numbers.and_then(|n| n.split_whitespace().last()?.parse().ok()) == Some(inside)
    })
}

fn resume(pid: i32) {
    let sent = Command::new("kill").args(["-CONT", &pid.to_string()]).status();
    assert!(sent.is_ok(), "run kill");
}

/// What of the host is seen of a newcomer, where it should look like a container's own process.
fn leaks(pid: i32, rights: &BTreeMap<&str, String>, like: Option<(i32, &Path)>) -> Vec<String> {
    let mut leaks = Vec::new();
    for name in ["mnt", "net", "uts", "ipc", "pid"] {
        if link(pid, &format!("ns/{name}")) == link("self", &format!("ns/{name}")) {
            leaks.push(format!("the host's {name} namespace"));
        }
    }
    let place = |path: &str| std::fs::metadata(path).map(|m| (m.dev(), m.ino())).ok();
    if place(&format!("/proc/{pid}/root/.")) == place("/") {
        leaks.push("the host's root directory".into());
    }
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    for (field, wanted) in rights {
        let value = proc_status(&status, field);
        if value != *wanted {
            leaks.push(format!("{field} is {value}, not {wanted}"));
        }
    }
    let sockets = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten().filter(|entry| {
        let number = entry.file_name().to_string_lossy().parse::<i32>().unwrap_or(0);
        let what = std::fs::read_link(entry.path()).unwrap_or_default().display().to_string();
        if number > 2 && !what.starts_with("socket:") {
            leaks.push(format!("descriptor {number}: {what}"));
        }
        number > 2
    });
    let sockets = sockets.count();
    if sockets > 1 {
        leaks.push(format!("{sockets} descriptors besides the standard streams"));
    }
    // A container in another's PID namespace has groups of its own, and its own plan in its memory.
    let groups = |pid: i32| std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    if like.is_some_and(|(first, _)| groups(first) != groups(pid)) {
        leaks.push(format!("control groups: {}", groups(pid)));
    }
    if like.is_some_and(|(_, host)| memory_has(pid, host.display().to_string().as_bytes())) {
        leaks.push("paths of the host in its memory".into());
    }
    leaks
}

/// Whether some writable memory of a process has these bytes.
fn memory_has(pid: i32, bytes: &[u8]) -> bool {
    use std::os::unix::fs::FileExt;
    let Ok(memory) = std::fs::File::open(format!("/proc/{pid}/mem")) else { return false };
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    maps.lines().filter(|line| !line.contains("[v")).any(|line| {
        let range = line.split(' ').next().and_then(|range| range.split_once('-'));
        let number = |text: &str| u64::from_str_radix(text, 16).unwrap_or(0);
        let Some((from, to)) = range.map(|(from, to)| (number(from), number(to))) else { return false };
        let mut content = vec![0; (to - from).min(64 << 20) as usize];
        let got = memory.read_at(&mut content, from).unwrap_or(0);
        content[..got].windows(bytes.len()).any(|window| window == bytes)
    })
}

/// Rights that a newcomer has to have as soon as it is seen: those of the container's first process.
fn rights_of(pid: i32) -> BTreeMap<&'static str, String> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a status");
    let fields = ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "Uid", "Gid", "Groups"];
    fields.into_iter().map(|field| (field, proc_status(&status, field))).collect()
}

/// Looks at each newcomer that is stopped before its program, until there were enough; `bring` brings one, in a thread.
fn look(
    root: &Root,
    id: &str,
    rights: &BTreeMap<&str, String>,
    bring: impl Fn() + Sync,
    same_groups: bool,
) -> Vec<String> {
    let first = root.pid(id);
    let like = same_groups.then_some((first, root.dir.as_path()));
    let (mut seen, mut found, mut all) = (0, Vec::new(), 0);
    let mut looked_at = stopped(root, id).len();
    std::thread::scope(|scope| {
        while seen < NEWCOMERS {
            assert!(all < 200, "{seen} of {all} newcomers were stopped in time");
            all += 1;
            let brought = scope.spawn(&bring);
            while !brought.is_finished() {
                let Some((inside, opened)) = stopped(root, id).into_iter().nth(looked_at) else {
                    std::thread::sleep(Duration::from_millis(1));
                    continue;
                };
                looked_at += 1;
                let Some(pid) = host_pid(first, inside) else { continue };
                let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
                if name.trim_end() == BEFORE_ITS_PROGRAM {
                    seen += 1;
                    let mut leaks = leaks(pid, rights, like);
                    // On a slow machine it may have been killed for its time meanwhile.
                    let elsewhere = link(pid, "ns/mnt").is_some_and(|own| Some(own) != link(first, "ns/mnt"));
                    if opened == "opened" && like.is_some() && elsewhere {
                        leaks.push("the container opened another root directory".into());
                    }
                    found.extend(leaks);
                }
                resume(pid);
            }
            brought.join().expect("a newcomer that runs");
        }
    });
    found
}

fn exec_body(more: Value) -> Value {
    let mut config = json!({ "Cmd": ["true"], "AttachStdout": true, "AttachStderr": true });
    for (key, value) in more.as_object().expect("an object") {
        config[key] = value.clone();
    }
    config
}

/// Execs into a container, as this configuration says, while the container stops who comes.
fn execs(root: &Root, more: Value, exec: Value, rights: impl Fn(&mut BTreeMap<&str, String>)) {
    let id = stopper(root, 1000, more);
    let mut wanted = rights_of(root.pid(&id));
    rights(&mut wanted);
    let bring = || assert_eq!(root.exec_with(&id, exec_body(exec.clone()), b"").code, 0, "the exec runs");
    let found = look(root, &id, &wanted, bring, true);
    assert!(found.is_empty(), "{found:#?}");
}

// attack: 4, 24, 48, R1, R2 wall enter-confined
#[test]
fn an_exec_is_confined_before_the_container_sees_it() {
    execs(&Root::new(), json!({}), json!({}), |_| {});
}

// attack: 4, R1 wall enter-confined
#[test]
fn an_exec_is_confined_before_a_container_that_traces_sees_it() {
    execs(&Root::new(), host(json!({ "CapAdd": ["SYS_PTRACE"] })), json!({}), |_| {});
}

// attack: 46, 47, 48 wall enter-confined
#[test]
fn an_exec_as_another_user_has_no_capability_when_it_is_seen() {
    execs(&Root::new(), json!({}), json!({ "User": "1000:1000" }), |rights| {
        for field in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
            rights.insert(field, "0000000000000000".into());
        }
        for field in ["Uid", "Gid"] {
            rights.insert(field, ["1000"; 4].join("\t"));
        }
        rights.insert("Groups", "1000".into());
    });
}

fn remapped() -> Root {
    let root = Root::with(|options| {
        options.userns_remap = Some(UsernsRemap { uid: 100_000, gid: 100_000, count: 65_536 });
    });
    root.load(&busybox_archive());
    root
}

// attack: 4, 31 wall enter-confined
#[test]
fn an_exec_into_a_user_namespace_is_confined_before_it_is_seen() {
    execs(&remapped(), json!({}), json!({}), |_| {});
}

// attack: 4, 31 wall enter-confined
#[test]
fn an_exec_into_a_user_namespace_that_may_mount_is_confined_before_it_is_seen() {
    execs(&remapped(), host(json!({ "CapAdd": ["SYS_ADMIN", "SYS_PTRACE"] })), json!({}), |_| {});
}

// attack: 4, R1, R2 wall enter-confined
#[test]
fn a_health_check_is_confined_before_the_container_sees_it() {
    let root = Root::new();
    let check = json!({ "Test": ["CMD", "true"], "Interval": 100_000_000, "Timeout": 20_000_000_000_i64 });
    let id = stopper(&root, 1000, json!({ "Healthcheck": check, "HostConfig": { "CapAdd": ["SYS_PTRACE"] } }));
    let results = || root.inspect(&id).state.health.and_then(|health| health.log.last().map(|last| last.end.clone()));
    let wanted = rights_of(root.pid(&id));
    let bring = || {
        let before = results();
        wait_for("a check", || results() != before);
    };
    let found = look(&root, &id, &wanted, bring, true);
    assert!(found.is_empty(), "{found:#?}");
    wait_for("healthy", || root.inspect(&id).state.health.is_some_and(|health| health.status == "healthy"));
}

// attack: 4, R1, R20 wall enter-confined
#[test]
fn the_first_process_in_another_container_s_pid_namespace_is_confined_before_it_is_seen() {
    let root = Root::new();
    let id = stopper(&root, 1000, host(json!({ "CapAdd": ["SYS_PTRACE"] })));
    // The process that asks for the procfs may mount, and nothing else; the container's own has the usual rights.
    let wanted = BTreeMap::from([("Seccomp", "2".to_owned())]);
    let bring = || {
        let output =
            root.run(&["ps"], json!({ "Env": [long_path()], "HostConfig": { "PidMode": "container:stopper" } }), b"");
        assert!(output.ok().contains("/stopper"), "it sees the others");
    };
    let found = look(&root, &id, &wanted, bring, false);
    assert!(found.is_empty(), "{found:#?}");
}

// attack: R2 wall entry-limit
#[test]
fn a_stopped_newcomer_holds_up_neither_its_exec_nor_a_pause() {
    let root = Root::new();
    let id = stopper(&root, 1000, json!({}));
    let config: ExecConfig = serde_json::from_value(exec_body(json!({}))).expect("an exec body");
    let mut told = None;
    for _ in 0..20 {
        let known = stopped(&root, &id).len();
        let exec = root.engine.exec_create(&id, &config).expect("exec create");
        let started = root.engine.exec_start(&exec, Some(coracle::Io::default()), Some(&soon()));
        match started {
            Err(error) => {
                assert!(stopped(&root, &id).len() > known, "the newcomer was stopped");
                told = Some(error);
                break;
            }
            // It was stopped too late: its program goes on.
            Ok(_session) => wait_for("the exec", || {
                if let Some((inside, _)) = stopped(&root, &id).into_iter().nth(known) {
                    host_pid(root.pid(&id), inside).into_iter().for_each(resume);
                }
                !root.engine.exec_inspect(&exec).expect("inspect").running
            }),
        }
    }
    let told = told.expect("a newcomer that was stopped before its program").to_string();
    assert!(told.contains("stopped in the container"), "{told}");
    // And while one is stopped.
    let known = stopped(&root, &id).len();
    std::thread::scope(|scope| {
        let exec = root.engine.exec_create(&id, &config).expect("exec create");
        let root = &root;
        scope.spawn(move || root.engine.exec_start(&exec, Some(coracle::Io::default()), Some(&soon())).map(drop));
        wait_for("a newcomer that is stopped", || stopped(root, &id).len() > known);
        root.engine.container_pause(&id).expect("pause");
        root.engine.container_unpause(&id).expect("unpause");
    });
    let how = CommitContainer { repo: "stopped".into(), ..CommitContainer::default() };
    root.engine.container_commit(&id, &how, Some(&soon())).expect("commit");
}

#[test]
fn an_exec_in_the_host_s_pid_namespace_runs_in_the_container() {
    let root = Root::new();
    let id = root.sleeper_with("host", host(json!({ "PidMode": "host" })));
    let script = "for name in pid mnt; do readlink /proc/self/ns/$name; done; hostname";
    let seen = root.exec(&id, &["sh", "-c", script]).ok();
    let links: Vec<_> = ["pid", "mnt"].iter().filter_map(|name| link(root.pid(&id), &format!("ns/{name}"))).collect();
    let lines: Vec<&str> = seen.lines().collect();
    assert_eq!(&lines[..2], links.iter().map(|link| link.display().to_string()).collect::<Vec<_>>());
    assert_eq!(lines[2], &id[..12]);
}

// attack: R1 wall filter-untraced
// attack: R1 wall enter-confined
#[test]
fn a_profile_without_clone_lets_an_exec_in_unless_somebody_there_may_trace() {
    let root = Root::new();
    let profile = json!({ "defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
        { "names": ["clone", "clone3", "fork", "vfork", "setsid"], "action": "SCMP_ACT_ERRNO" }] });
    let profile = format!("seccomp={profile}");
    let container = |name: &str, more: Value, options: &[&str]| {
        let mut more = more;
        more["SecurityOpt"] = json!([&[profile.as_str()], options].concat());
        let id = root.create(name, body(&["sleep", "1000"], host(more)));
        root.start(&id);
        id
    };
    let plain = container("plain", json!({}), &[]);
    let nnp = container("nnp", json!({}), &["no-new-privileges"]);
    for id in [&plain, &nnp] {
        let status = root.exec(id, &["cat", "/proc/self/status"]).ok();
        let of = |field: &str| proc_status(&status, field);
        let first = rights_of(root.pid(id));
        for field in ["CapPrm", "CapEff", "CapBnd", "CapInh", "CapAmb", "Seccomp", "NoNewPrivs"] {
            assert_eq!(of(field), first[field], "{field}");
        }
        // It leads a session of its own, whatever the filter says.
        let stat = root.exec(id, &["cat", "/proc/self/stat"]).ok();
        let fields: Vec<&str> = stat.split(' ').collect();
        assert_eq!((fields[4], fields[5]), (fields[0], fields[0]), "{stat}");
    }
    let config: ExecConfig = serde_json::from_value(exec_body(json!({}))).expect("an exec body");
    for (name, options) in [("traces", &[][..]), ("traces-nnp", &["no-new-privileges"])] {
        let traces = container(name, json!({ "CapAdd": ["SYS_PTRACE"] }), options);
        let exec = root.engine.exec_create(&traces, &config).expect("exec create");
        let error =
            root.engine.exec_start(&exec, Some(coracle::Io::default()), Some(&soon())).expect_err("must be refused");
        assert!(error.message().contains("seccomp profile refuses"), "{name}: {error}");
    }
}

/// The number of the next process in a container, less one: execs take one each.
fn last_pid(root: &Root, id: &str) -> i32 {
    root.exec(id, &["sh", "-c", "echo $$"]).ok().parse().expect("a pid")
}

// attack: 54
#[test]
fn copies_top_and_stats_put_no_process_into_the_container() {
    let root = Root::new();
    // It makes no process itself.
    let id = root.create("quiet", body(&["sleep", "1000"], json!({})));
    root.start(&id);
    let before = last_pid(&root, &id);
    let mut got = Vec::new();
    root.engine.container_archive_get(&id, "/etc", Some(&soon())).expect("get").write_to(&mut got, None).expect("read");
    root.engine.container_archive_put(&id, "/tmp", &mut &got[..], PutArchive::default(), Some(&soon())).expect("put");
    assert!(root.engine.container_top(&id, "").expect("top").processes.iter().any(|p| p.concat().contains("sleep")));
    let query = StatsQuery { stream: false, one_shot: true };
    let mut stats = root.engine.container_stats(&id, query).expect("stats");
    assert!(stats.next(Some(&soon())).expect("a sample").is_some());
    assert_eq!(last_pid(&root, &id), before + 1, "the exec alone has a process");
    assert_eq!(root.exec(&id, &["ls", "/tmp/etc/passwd"]).ok(), "/tmp/etc/passwd");
}
