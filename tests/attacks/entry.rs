//! Attacks on a process that comes into a container where others live: an exec, a health check, a container in another's PID
//! namespace. A program in the container stops each newcomer ([`program`] `stopper`), and the test looks at it from the host.

use crate::newcomers::{Stopper, link, long_path, patient_root, rights_of, without_haste};
use crate::support::*;
use coracle::UsernsRemap;
use coracle::model::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;

fn exec_body(more: Value) -> Value {
    let mut config = json!({ "Cmd": ["true"], "AttachStdout": true, "AttachStderr": true });
    for (key, value) in more.as_object().expect("an object") {
        config[key] = value.clone();
    }
    config
}

/// Execs into a container, as this configuration says, while the container stops who comes.
fn execs(root: &Root, more: Value, exec: Value, rights: impl Fn(&mut BTreeMap<&str, String>)) {
    let stopper = Stopper::start(root, more);
    let mut wanted = rights_of(stopper.first);
    rights(&mut wanted);
    let bring = || assert_eq!(root.exec_with(&stopper.id, exec_body(exec.clone()), b"").code, 0, "the exec runs");
    let found = stopper.look(&wanted, bring, true);
    assert!(found.is_empty(), "{found:#?}");
}

// attack: 4, 24, 48, R1, R2 wall enter-confined
#[test]
fn an_exec_is_confined_before_the_container_sees_it() {
    execs(&patient_root(), json!({}), json!({}), |_| {});
}

// attack: 4, R1 wall enter-confined
#[test]
fn an_exec_is_confined_before_a_container_that_traces_sees_it() {
    execs(&patient_root(), host(json!({ "CapAdd": ["SYS_PTRACE"] })), json!({}), |_| {});
}

// attack: 46, 47, 48 wall enter-confined
#[test]
fn an_exec_as_another_user_has_no_capability_when_it_is_seen() {
    execs(&patient_root(), json!({}), json!({ "User": "1000:1000" }), |rights| {
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
        without_haste(options);
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
    let root = patient_root();
    let check = json!({ "Test": ["CMD", "true"], "Interval": 100_000_000, "Timeout": 600_000_000_000_i64 });
    let stopper = Stopper::start(&root, json!({ "Healthcheck": check, "HostConfig": { "CapAdd": ["SYS_PTRACE"] } }));
    let health = || root.inspect(&stopper.id).state.health;
    let results = || health().and_then(|health| health.log.last().map(|last| last.end.clone()));
    let wanted = rights_of(stopper.first);
    let bring = || {
        let before = results();
        wait_for("a check", || results() != before);
    };
    let found = stopper.look(&wanted, bring, true);
    assert!(found.is_empty(), "{found:#?}");
    let health = health().expect("its health");
    assert!(health.status == "healthy" && health.log.iter().all(|result| result.exit_code == 0), "{health:?}");
}

// attack: 4, R1, R20 wall enter-confined
#[test]
fn the_first_process_in_another_container_s_pid_namespace_is_confined_before_it_is_seen() {
    let root = patient_root();
    let stopper = Stopper::start(&root, host(json!({ "CapAdd": ["SYS_PTRACE"] })));
    // The process that asks for the procfs may mount, and nothing else; the container's own has the usual rights.
    let wanted = BTreeMap::from([("Seccomp", "2".to_owned())]);
    let bring = || {
        let output =
            root.run(&["ps"], json!({ "Env": [long_path()], "HostConfig": { "PidMode": "container:stopper" } }), b"");
        assert!(output.ok().contains("/stopper"), "it sees the others");
    };
    let found = stopper.look(&wanted, bring, false);
    assert!(found.is_empty(), "{found:#?}");
}

// attack: R2 wall entry-limit
#[test]
fn a_stopped_newcomer_holds_up_neither_its_exec_nor_a_pause() {
    let root = Root::new();
    let stopper = Stopper::start(&root, json!({}));
    let id = stopper.id.clone();
    let config: ExecConfig = serde_json::from_value(exec_body(json!({}))).expect("an exec body");
    let mut told = None;
    for _ in 0..20 {
        while stopper.next().is_some() {}
        let exec = root.engine.exec_create(&id, &config).expect("exec create");
        let started = root.engine.exec_start(&exec, Some(coracle::Io::default()), Some(&soon()));
        match started {
            Err(error) => {
                assert!(stopper.next().is_some(), "the newcomer was stopped");
                told = Some(error);
                break;
            }
            // The process was stopped too late: its program goes on.
            Ok(_session) => wait_for("the exec", || {
                stopper.next().and_then(|stopped| stopper.find(&stopped)).inspect(|newcomer| newcomer.resume());
                !root.engine.exec_inspect(&exec).expect("inspect").running
            }),
        }
    }
    let told = told.expect("a newcomer that was stopped before its program").to_string();
    assert!(told.contains("stopped in the container"), "{told}");
    // And while one is stopped.
    while stopper.next().is_some() {}
    std::thread::scope(|scope| {
        let exec = root.engine.exec_create(&id, &config).expect("exec create");
        let root = &root;
        scope.spawn(move || root.engine.exec_start(&exec, Some(coracle::Io::default()), Some(&soon())).map(drop));
        wait_for("a newcomer that is stopped", || stopper.next().is_some());
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
    let links: Vec<_> =
        ["pid", "mnt"].iter().filter_map(|name| link(format!("/proc/{}/ns/{name}", root.pid(&id)))).collect();
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
        // The process leads a session of its own, whatever the filter says.
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
    // The new process makes no process itself.
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
