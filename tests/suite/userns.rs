//! Containers in a user namespace: the ids outside of it, and the owners of files on both sides.

use crate::support::kernel::{maps_owners, release, said};
use crate::support::*;
use coracle::model::*;
use coracle::{ErrorKind, UsernsRemap};
use serde_json::json;
use std::os::unix::fs::MetadataExt;

const FIRST: u32 = 100_000;

/// An engine whose containers have user namespaces; none: they cannot have them here.
fn remapped() -> Option<Root> {
    if !maps_owners() {
        return None;
    }
    let root = Root::with(|options| {
        options.userns_remap = Some(UsernsRemap { uid: FIRST, gid: FIRST, count: 65_536 });
    });
    root.load(&busybox_archive());
    Some(root)
}

/// The four ids of a line of `/proc/<pid>/status`.
fn ids(pid: i32, field: &str) -> Vec<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a status");
    proc_status(&text, field).split_whitespace().map(str::to_owned).collect()
}

// field: HostConfig.UsernsMode
#[test]
fn root_inside_is_nobody_of_the_host() {
    let Some(root) = remapped() else { return };
    let id = root.sleeper("mapped");
    assert_eq!(ids(root.pid(&id), "Uid"), vec![FIRST.to_string(); 4]);
    assert_eq!(ids(root.pid(&id), "Gid"), vec![FIRST.to_string(); 4]);
    let map = root.exec(&id, &["cat", "/proc/self/uid_map", "/proc/self/gid_map"]).ok();
    let words: Vec<&str> = map.split_whitespace().collect();
    assert_eq!(words, ["0", "100000", "65536", "0", "100000", "65536"]);
    assert_eq!(root.exec(&id, &["id", "-u"]).ok(), "0");
    // The namespaces that matter for rights are the user namespace's.
    let whose =
        root.exec(&id, &["stat", "-c", "%u", "/proc/sys/net/ipv4/ip_forward", "/dev", "/dev/shm", "/etc/hosts"]).ok();
    assert_eq!(whose, "0\n0\n0\n0");
    let others = root.exec_with(&id, json!({ "Cmd": ["id", "-u"], "User": "1234", "AttachStdout": true }), b"").ok();
    assert_eq!(others, "1234");
    let info = serde_json::to_value(root.engine.info().expect("info")).expect("JSON");
    assert!(info["SecurityOptions"].to_string().contains("userns"), "{info}");
}

// field: HostConfig.UsernsMode
#[test]
fn owners_of_files_are_those_of_the_image_on_both_sides() {
    let Some(root) = remapped() else { return };
    let script = "stat -c %u /bin /etc/passwd; echo new > /new; chown 5:60 /new; mkdir /dir; stat -c %u:%g /new /dir; \
                  echo out > /dev/stdout; rm /etc/shells; ls /etc/shells 2>/dev/null; mkdir /w && cd /w && echo x > y";
    let id = root.create("owners", body(&["sh", "-c", script], json!({ "WorkingDir": "/made/here" })));
    root.start(&id);
    assert_eq!(root.wait(&id), 0, "{}", root.logs(&id).err());
    assert_eq!(root.logs(&id).out(), "0\n0\n5:60\n0:0\nout", "{}", root.logs(&id).err());
    // On the disk the ids are plain: a commit, an export, another engine option see what the container saw.
    let upper = root.dir.join("root/containers").join(&id).join("upper");
    let stat = std::fs::metadata(upper.join("new")).expect("written");
    assert_eq!((stat.uid(), stat.gid()), (5, 60));
    assert_eq!(std::fs::metadata(upper.join("made/here")).expect("made").uid(), 0);
    // The container's image outside of a user namespace.
    let commit = CommitContainer { repo: "owned".into(), ..CommitContainer::default() };
    root.engine.container_commit(&id, &commit, Some(&soon())).expect("commit");
    let plain = root.reopen();
    let script = body(&["stat", "-c", "%u:%g", "/new"], json!({ "Image": "owned" }));
    let id = plain.container_create(None, &serde_json::from_value(script).expect("a body")).expect("create").id;
    plain.container_start(&id, None, Some(&soon())).expect("start without a user namespace");
    plain.container_wait(&id, Some(&soon())).expect("wait");
    assert_eq!(root.logs(&id).out(), "5:60");
}

// field: HostConfig.UsernsMode
#[test]
fn a_later_open_of_the_root_changes_nothing() {
    let Some(root) = remapped() else { return };
    let id = root.sleeper_with("mapped", host(json!({ "RestartPolicy": { "Name": "always" } })));
    let mut plain = Root { engine: root.reopen(), dir: root.dir.clone() };
    let outside = plain.sleeper("outside");
    let privileged = plain.create("privileged", body(&["true"], host(json!({ "Privileged": true }))));
    let own = std::fs::read_link("/proc/self/ns/user").expect("a namespace").display().to_string();
    let users = |engine: &Root, id: &str| engine.exec(id, &["cat", "/proc/self/uid_map"]).ok();
    for engine in [&root, &plain] {
        assert_eq!(users(engine, &id).split_whitespace().nth(1), Some("100000"));
        let exec = engine.exec(&id, &["sh", "-c", "exec 2>&1; touch /made; readlink /proc/self/ns/user"]).ok();
        assert_ne!(exec, own);
        assert_eq!(engine.exec(&outside, &["readlink", "/proc/self/ns/user"]).ok(), own);
        engine.start(&privileged);
        assert_eq!(engine.wait(&privileged), 0);
    }
    // This also holds in the plan that the other program makes, and at the next start.
    plain.engine.container_restart(&id, Some(0), Some(&soon())).expect("restart");
    assert_eq!(ids(root.pid(&id), "Uid")[0], FIRST.to_string());
    let asked = HostConfig { privileged: true, ..root.inspect(&id).host_config };
    plain.engine.container_stop(&id, Some(0), Some(&soon())).expect("stop");
    fails(plain.engine.container_set_host_config(&id, &asked), ErrorKind::Invalid, "privileged mode is incompatible");
    let asked = HostConfig { privileged: false, ..asked };
    plain.engine.container_set_host_config(&id, &asked).expect("set");
    plain.engine.container_start(&id, None, Some(&soon())).expect("start");
    assert_eq!(ids(root.pid(&id), "Uid")[0], FIRST.to_string());
    // Only one of the two takes the directory away.
    plain.dir = temp_dir();
}

// field: HostConfig.UsernsMode
#[test]
fn a_directory_that_a_volume_names_stays_the_hosts() {
    let Some(root) = remapped() else { return };
    let dir = root.dir.join("srv");
    std::fs::create_dir(&dir).expect("mkdir");
    std::fs::write(dir.join("secret"), "x").expect("write");
    std::os::unix::fs::chown(dir.join("secret"), Some(0), Some(0)).expect("chown");
    let options = [("type", "none"), ("o", "bind"), ("device", dir.to_str().expect("UTF-8"))];
    let driver_opts = Some(options.map(|(key, value)| (key.to_owned(), value.to_owned())).into_iter().collect());
    let volume = CreateVolume { name: "named-dir".into(), driver_opts, ..CreateVolume::default() };
    root.engine.volume_create(&volume).expect("create");
    let more = host(json!({ "Binds": ["named-dir:/d", "own:/own"] }));
    let script = "stat -c %u /d/secret /own; touch /d/new 2>/dev/null || echo refused; chmod 4755 /d/secret 2>/dev/null || echo refused";
    assert_eq!(root.sh_with(script, more).out(), "65534\n0\nrefused\nrefused");
}

#[test]
fn ids_are_checked_at_open() {
    let dir = temp_dir();
    for users in
        [UsernsRemap { uid: 0, gid: FIRST, count: 65_536 }, UsernsRemap { uid: u32::MAX - 9, gid: 1, count: 65_536 }]
    {
        let options = coracle::Options { userns_remap: Some(users), ..options_at(&dir) };
        fails(coracle::Engine::open_with(options), ErrorKind::Invalid, "userns_remap: ");
    }
    std::fs::remove_dir_all(dir).expect("remove");
}

// field: HostConfig.UsernsMode
#[test]
fn volumes_terminals_users_and_tmpfs_work_in_it() {
    let Some(root) = remapped() else { return };
    let mounts = json!({ "Binds": ["kept:/etc"], "Tmpfs": { "/t": "uid=5,mode=700" }, "ShmSize": 1 << 20 });
    let output =
        root.sh_with("stat -c %u /etc/passwd /t; echo mine > /etc/mine; stat -c %u /etc/mine", host(mounts)).ok();
    assert_eq!(output, "0\n5\n0");
    let data = root.dir.join("root/volumes/kept/_data/mine");
    assert_eq!(std::fs::metadata(data).expect("in the volume").uid(), 0, "volumes hold plain ids");
    // A volume in memory, which a container outside of the namespace has at the same time.
    let pairs = [("type", "tmpfs"), ("device", "tmpfs"), ("o", "uid=5")];
    let options = pairs.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    let memory = CreateVolume { name: "memory".into(), driver_opts: Some(options), ..CreateVolume::default() };
    root.engine.volume_create(&memory).expect("create");
    let bind = json!({ "Binds": ["memory:/m"] });
    let id = root.sleeper_with("with-memory", host(bind.clone()));
    let seen = "echo here >/m/file; stat -c %u /m /m/file";
    assert_eq!(root.exec(&id, &["sh", "-c", seen]).ok(), "5\n0");
    let outside = json!({ "Binds": ["memory:/m"], "UsernsMode": "host" });
    // Kernels before do not map the owners of memory: each sees them as they are on the host.
    let first = if release() < (6, 3) { FIRST } else { 0 };
    if first != 0 {
        said("userns: this kernel does not map the owners of memory: nothing was shown of one that does\n");
    }
    let seen = format!("here\n{}\n{first}", first + 5);
    assert_eq!(root.sh_with("cat /m/file; stat -c %u /m /m/file", host(outside)).ok(), seen);
    let more = json!({ "Tty": true, "User": "games" });
    let output = root.run(&["sh", "-c", "id -u; tty; echo x > /dev/tty"], more, b"").out().replace('\r', "");
    assert!(output.starts_with("5\n/dev/pts/0\nx"), "{output}");
    let bridged = host(json!({ "NetworkMode": "bridge", "CapAdd": ["NET_ADMIN"] }));
    let output = root.sh_with("ip addr show eth0 | grep -c 'inet '; ip link set lo down && echo may", bridged).ok();
    assert_eq!(output, "1\nmay");
    let health = json!({ "Healthcheck": { "Test": ["CMD-SHELL", "id -u"], "Interval": 100_000_000 } });
    let id = root.sleeper_with("checked", health);
    root.wait_for("the check", || root.inspect(&id).state.health.is_some_and(|h| h.status == "healthy"));
    let log = root.inspect(&id).state.health.expect("health").log;
    assert_eq!(log[0].output, "0\n");
    let joined = host(json!({ "NetworkMode": "container:checked", "IpcMode": "container:checked" }));
    let script = "readlink /proc/self/ns/user; ip link set lo down 2>&1; echo x > /dev/shm/y";
    let theirs = root.exec(&id, &["readlink", "/proc/self/ns/user"]).ok();
    assert!(root.sh_with(script, joined).out().starts_with(&theirs), "who shares a network shares its user namespace");
}

/// A tar of one file, of user 12 and group 34.
fn owned_file(name: &str) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(2);
    header.set_mode(0o644);
    header.set_uid(12);
    header.set_gid(34);
    tar.append_data(&mut header, name, &b"x\n"[..]).expect("an entry");
    tar.into_inner().expect("an archive")
}

// field: HostConfig.UsernsMode
#[test]
fn archives_of_running_ones_have_the_container_s_owners() {
    let Some(root) = remapped() else { return };
    let id = root.sleeper_with("copied", host(json!({ "Binds": ["vol:/vol"] })));
    root.exec(&id, &["sh", "-c", "echo a > /a; chown 7:8 /a; mkdir /d"]).ok();
    let bytes = owned_file("put");
    for place in ["/d", "/vol"] {
        let how = PutArchive::default();
        root.engine.container_archive_put(&id, place, &mut &bytes[..], how, Some(&soon())).expect("put");
        assert_eq!(root.exec(&id, &["stat", "-c", "%u:%g", &format!("{place}/put")]).ok(), "12:34", "{place}");
    }
    let mut got = Vec::new();
    root.engine.container_archive_get(&id, "/a", Some(&soon())).expect("get").write_to(&mut got, None).expect("read");
    let mut entries = tar::Archive::new(&got[..]);
    let entry = entries.entries().expect("entries").next().expect("one").expect("whole");
    assert_eq!((entry.header().uid().ok(), entry.header().gid().ok()), (Some(7), Some(8)));
}

// field: HostConfig.UsernsMode
#[test]
fn a_container_with_sys_admin_mounts_in_its_user_namespace() {
    let Some(root) = remapped() else { return };
    let may = host(json!({ "CapAdd": ["SYS_ADMIN"], "SecurityOpt": ["seccomp=unconfined", "apparmor=unconfined"] }));
    let script = "mkdir /m && mount -t tmpfs tmpfs /m && stat -f -c %T /m; umount /proc 2>&1 | grep -c .";
    assert_eq!(root.sh_with(script, may.clone()).out(), "tmpfs\n1", "it mounts its own, and takes away none of ours");
    let id = root.sleeper_with("mounts", may);
    root.engine.container_archive_get(&id, "/etc", Some(&soon())).expect("reading works");
}

/// The container's mounts are locked together: nothing but the root's own files and its volumes can be written from
/// outside.
// field: HostConfig.UsernsMode
#[test]
fn archives_into_running_ones_that_may_mount() {
    let Some(root) = remapped() else { return };
    let may = json!({ "CapAdd": ["SYS_ADMIN"], "SecurityOpt": ["seccomp=unconfined", "apparmor=unconfined"], "Binds": ["vol:/vol"],
        "Tmpfs": { "/memory": "" } });
    let id = root.sleeper_with("mounts", host(may));
    root.exec(&id, &["sh", "-c", "mkdir /d /own && mount -t tmpfs tmpfs /own && ln -s /proc /d/link"]).ok();
    let into = |id: &str, place: &str, name: &str| {
        let bytes = owned_file(name);
        root.engine.container_archive_put(id, place, &mut &bytes[..], PutArchive::default(), Some(&soon()))
    };
    let put = |place: &str, name: &str| into(&id, place, name);
    for (place, name) in [("/", "put"), ("/", "d/put"), ("/d", "put"), ("/etc", "put"), ("/vol", "put")] {
        put(place, name).unwrap_or_else(|error| panic!("{place} {name}: {error}"));
        assert_eq!(
            root.exec(&id, &["stat", "-c", "%u:%g", &format!("{place}/{name}")]).ok(),
            "12:34",
            "{place} {name}"
        );
    }
    for place in ["/proc", "/dev", "/dev/shm", "/sys", "/own", "/memory", "/d/link"] {
        fails(put(place, "put"), ErrorKind::Forbidden, "mounted volume is marked read-only");
    }
    fails(put("/", "dev/put"), ErrorKind::Forbidden, "read-only");
    assert!(put("/etc", "hosts").is_err(), "a mount is not replaced");
    assert_eq!(
        root.exec(&id, &["sh", "-c", "ls /own /memory; grep -c localhost /etc/hosts"]).out(),
        "/memory:\n\n/own:\n2"
    );
    assert_eq!(
        root.exec(&id, &["sh", "-c", "echo more > /d/put && cat /d/put"]).ok(),
        "more",
        "it can write as before"
    );

    let more = json!({ "CapAdd": ["SYS_ADMIN"], "ReadonlyRootfs": true, "Binds": ["vol:/vol"] });
    let closed = root.sleeper_with("closed", host(more));
    into(&closed, "/vol", "closed").expect("put into a volume");
    assert_eq!(root.exec(&id, &["stat", "-c", "%u:%g", "/vol/closed"]).ok(), "12:34");
    fails(into(&closed, "/", "put"), ErrorKind::Forbidden, "container rootfs is marked read-only");
}

// field: HostConfig.UsernsMode
#[test]
fn a_container_may_stay_outside() {
    let Some(root) = remapped() else { return };
    let id = root.sleeper_with("outside", host(json!({ "UsernsMode": "host" })));
    assert_eq!(ids(root.pid(&id), "Uid")[0], "0");
    assert_eq!(root.inspect(&id).host_config.userns_mode, "host");
    let outside = std::fs::read_link("/proc/self/ns/user").expect("a namespace");
    assert_eq!(root.exec(&id, &["readlink", "/proc/self/ns/user"]).ok(), outside.to_string_lossy());
    for (asked, text) in [
        (json!({ "Privileged": true }), "privileged mode is incompatible with user namespaces."),
        (
            json!({ "NetworkMode": "host" }),
            "cannot share the host's network namespace when user namespaces are enabled",
        ),
        (json!({ "PidMode": "host" }), "cannot share the host PID namespace when user namespaces are enabled"),
        (json!({ "UsernsMode": "other" }), "invalid USER mode: other"),
    ] {
        fails(root.try_create("", body(&["true"], host(asked))), ErrorKind::Invalid, text);
    }
    root.sh_with("true", host(json!({ "Privileged": true, "UsernsMode": "host" }))).ok();
}

// field: HostConfig.UsernsMode
#[test]
fn the_monitor_restarts_a_remapped_container() {
    let Some(root) = remapped() else { return };
    let policy = json!({ "RestartPolicy": { "Name": "on-failure", "MaximumRetryCount": 2 } });
    let id = root.create("again", body(&["sh", "-c", "id -u; stat -c %u /etc/hosts; exit 3"], host(policy)));
    root.start(&id);
    root.wait_for("two restarts", || {
        let now = root.inspect(&id);
        now.restart_count == 2 && now.state.status == "exited"
    });
    assert_eq!(root.logs(&id).out(), "0\n0\n0\n0\n0\n0");
}
