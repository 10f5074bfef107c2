//! Fields and operations that versions of the API after 1.24 brought, looked at in containers.

use crate::registry::push;
use crate::support::registry::Registry;
use crate::support::*;
use coracle::model::{DiskUsageQuery, EventQuery, Filters, RegistryAuth, StopContainer};
use coracle::{ErrorKind, Io};
use coracle_http::{ReplyBody, Router};
use serde_json::{Value, json};
use std::os::unix::fs::MetadataExt;

/// A document that the router answers.
pub fn ask(router: &Router, method: &str, target: &str) -> (u16, Value) {
    let reply = router.request(method, target, &[], Vec::new(), None).expect("an answer");
    let ReplyBody::Bytes(bytes) = reply.body else { panic!("{method} {target}: a stream") };
    (reply.status, serde_json::from_slice(&bytes).unwrap_or_default())
}

fn filters(value: Value) -> Filters {
    serde_json::from_value(value).expect("filters")
}

/// A container that ends with 5 after SIGUSR1, and takes no notice of SIGTERM.
fn deaf(root: &Root, name: &str, more: Value) -> String {
    let script = "trap 'exit 5' USR1; trap '' TERM; echo ready; while :; do sleep 0.05; done";
    let id = root.create(name, body(&["sh", "-c", script], more));
    root.start(&id);
    root.wait_for("the traps", || root.logs(&id).out().contains("ready"));
    id
}

// field: Config.StopTimeout
// parameter: POST /containers/{name}/stop: signal t
// parameter: POST /containers/{name}/restart: signal t
#[test]
fn a_stop_has_the_signal_and_the_time_that_were_asked_for() {
    let root = Root::new();
    let router = Router::new(root.engine.clone());
    let id = deaf(&root, "deaf", json!({ "StopTimeout": 0 }));
    assert_eq!(root.inspect(&id).config.stop_timeout, Some(0));
    let usr1 = StopContainer { signal: "SIGUSR1".into(), grace_ms: Some(-1) };
    root.engine.container_stop_with(&id, &usr1, None).expect("stop");
    assert_eq!(root.wait(&id), 5);
    root.start(&id);
    root.wait_for("the traps", || root.logs(&id).out().matches("ready").count() == 2);
    assert_eq!(ask(&router, "POST", "/containers/deaf/restart?signal=USR1&t=-1").0, 204);
    root.wait_for("the traps", || root.logs(&id).out().matches("ready").count() == 3);
    // The container's own time is zero: SIGKILL follows at once.
    assert_eq!(ask(&router, "POST", "/containers/deaf/stop").0, 204);
    assert_eq!(root.wait(&id), 137);
    root.start(&id);
    let unknown = StopContainer { signal: "SIGNOTHING".into(), ..StopContainer::default() };
    fails(root.engine.container_stop_with(&id, &unknown, None), ErrorKind::Invalid, "SIGNOTHING");
    assert_eq!(root.status(&id), "running");
}

// field: HostConfig.ConsoleSize
// field: ExecConfig.ConsoleSize
#[test]
fn terminals_have_the_size_that_was_asked_for() {
    let root = Root::new();
    let terminal = json!({ "Tty": true, "HostConfig": { "NetworkMode": "none", "ConsoleSize": [33, 101] } });
    let id = root.create("sized", body(&["sh", "-c", "stty size; sleep 1000"], terminal));
    root.start(&id);
    root.wait_for("the size", || root.logs(&id).out().contains("33 101"));
    let exec = json!({ "Cmd": ["stty", "size"], "Tty": true, "AttachStdout": true, "ConsoleSize": [44, 55] });
    assert_eq!(root.exec_with(&id, exec.clone(), b"").out().trim(), "44 55");
    // The start's own size comes first.
    let config = serde_json::from_value(exec).expect("a configuration");
    let made = root.engine.exec_create(&id, &config).expect("create");
    let io = Io { rows: 11, cols: 22, ..Io::default() };
    let session = root.engine.exec_start(&made, Some(io), None).expect("start").expect("a session");
    assert_eq!(finish(session, b"").out().trim(), "11 22");
}

// field: Config.Healthcheck.StartInterval
#[test]
fn checks_are_made_more_often_within_the_start_period() {
    let root = Root::new();
    let hour = 3_600_000_000_000_i64;
    let check = json!({ "Test": ["CMD", "test", "-e", "/well"], "Interval": hour, "StartPeriod": hour,
        "StartInterval": 20_000_000, "Retries": 1 });
    let id = root.sleeper_with("checked", json!({ "Healthcheck": check }));
    let health = |root: &Root| root.inspect(&id).state.health.expect("health");
    // Failures within the start period do not count, and the next check does not wait for an hour.
    root.wait_for("checks that failed", || health(&root).log.len() > 2);
    assert_eq!(health(&root).status, "starting");
    root.exec(&id, &["touch", "/well"]).ok();
    root.wait_for("a check that succeeds", || health(&root).status == "healthy");
    let short = json!({ "Healthcheck": { "Test": ["CMD", "true"], "StartInterval": 5 } });
    let refused = root.try_create("short", body(&["true"], short));
    fails(refused, ErrorKind::Invalid, "StartInterval in Healthcheck cannot be less than 1ms");
}

// field: HostConfig.Annotations
// field: HostConfig.CgroupnsMode
#[test]
fn the_control_group_namespace_can_be_the_host_s() {
    let root = Root::new();
    let namespace = |mode: &str| {
        let options = json!({ "NetworkMode": "none", "CgroupnsMode": mode, "Annotations": { "a.b": "c" } });
        let id = root.sleeper_with(&format!("with-{mode}"), json!({ "HostConfig": options }));
        let kept = root.inspect(&id).host_config;
        assert_eq!((kept.cgroupns_mode.as_str(), kept.annotations["a.b"].as_str()), (mode, "c"));
        root.exec(&id, &["readlink", "/proc/1/ns/cgroup"]).ok()
    };
    let own = std::fs::read_link("/proc/self/ns/cgroup").expect("the host's").to_string_lossy().into_owned();
    assert_eq!(namespace("host"), own);
    assert_ne!(namespace("private"), own);
    let odd = root.try_create("odd", body(&["true"], json!({ "HostConfig": { "CgroupnsMode": "mine" } })));
    fails(odd, ErrorKind::Invalid, "invalid cgroup namespace mode: mine");
}

// parameter: PUT /containers/{name}/archive: copyUIDGID
#[test]
fn files_from_outside_may_get_the_container_s_user() {
    let root = Root::new();
    let router = Router::new(root.engine.clone());
    let tar = crate::support::archive::Tar::new().file("put", b"x").end();
    let put = |name: &str, user: &str, query: &str| {
        let script = "echo user:x:1007:1008::/: >> /etc/passwd; echo crew:x:2009: >> /etc/group; sleep 1000";
        let id = root.create(name, body(&["sh", "-c", script], json!({ "HostConfig": { "NetworkMode": "none" } })));
        root.start(&id);
        root.wait_for("the files", || root.exec(&id, &["grep", "-c", "crew", "/etc/group"]).out() == "1");
        let how = serde_json::from_value(json!({ "repo": name, "tag": "x" })).expect("a commit");
        root.engine.container_commit(&id, &how, None).expect("commit");
        let other = root.create(
            "",
            json!({ "Image": format!("{name}:x"), "User": user, "Cmd": ["true"],
            "HostConfig": { "NetworkMode": "none" } }),
        );
        let target = format!("/containers/{other}/archive?path=/tmp{query}");
        let status = router.request("PUT", &target, &[], tar.clone(), None).expect("an answer").status;
        let file = root.dir.join("root/containers").join(&other).join("upper/tmp/put");
        let owner = std::fs::metadata(file).map(|meta| (meta.uid(), meta.gid()));
        (status, owner.unwrap_or_default())
    };
    assert_eq!(put("one", "user", "&copyUIDGID=1"), (200, (1007, 1008)));
    assert_eq!(put("two", "user:crew", "&copyUIDGID=1"), (200, (1007, 2009)));
    assert_eq!(put("three", "1007", "&copyUIDGID=1"), (200, (1007, 1008)));
    assert_eq!(put("four", "55:66", "&copyUIDGID=1"), (200, (55, 66)));
    assert_eq!(put("five", "", "&copyUIDGID=1"), (200, (0, 0)));
    assert_eq!(put("six", "user", ""), (200, (0, 0)));
    assert_eq!(put("seven", "nobody-here", "&copyUIDGID=1").0, 400);
}

#[test]
fn lists_of_images_count_shared_layers_and_select_by_age() {
    let root = Root::new();
    let router = Router::new(root.engine.clone());
    let id = root.create("writer", body(&["sh", "-c", "echo 12345 > /five"], host(json!({ "NetworkMode": "none" }))));
    root.start(&id);
    assert_eq!(root.wait(&id), 0);
    let how = serde_json::from_value(json!({ "repo": "second", "tag": "x" })).expect("a commit");
    root.engine.container_commit(&id, &how, None).expect("commit");
    let list = |query: &str| {
        let (status, images) = ask(&router, "GET", &format!("/v1.42/images/json?{query}"));
        assert_eq!(status, 200, "{images}");
        images.as_array().cloned().expect("a list")
    };
    let plain = list("");
    assert!(plain.len() == 2 && plain.iter().all(|image| image["SharedSize"] == -1), "{plain:?}");
    for image in list("shared-size=1") {
        let own = if image["RepoTags"][0] == "second:x" { 6 } else { 0 };
        assert_eq!(image["SharedSize"].as_i64().map(|shared| shared + own), image["Size"].as_i64(), "{image}");
        assert_eq!(image["Containers"], -1);
    }
    // The base image is old, and the other one was made just now.
    let old = list("filters=%7B%22until%22%3A%5B%221h%22%5D%7D");
    assert_eq!(old.iter().map(|image| &image["RepoTags"][0]).collect::<Vec<_>>(), ["busybox:latest"]);
    assert_eq!(ask(&router, "GET", "/v1.42/images/json?filters=%7B%22until%22%3A%5B%22soon%22%5D%7D").0, 400);
}

#[test]
fn limits_of_the_kernel_s_memory_are_ignored_from_their_versions_on() {
    let root = Root::new();
    let router = Router::new(root.engine.clone());
    let json = [("Content-Type", "application/json")];
    let ask = |target: &str, body: Value| {
        router.request("POST", target, &json, body.to_string().into_bytes(), None).expect("an answer").status
    };
    // Less than the least that may be requested.
    let create = || body(&["true"], host(json!({ "NetworkMode": "none", "KernelMemory": 1 })));
    assert_eq!(ask("/v1.41/containers/create?name=before", create()), 400);
    assert_eq!(ask("/v1.42/containers/create?name=since", create()), 201);
    assert_eq!(root.inspect("since").host_config.resources.kernel_memory, Some(0));
    assert_eq!(ask("/v1.41/containers/since/update", json!({ "KernelMemory": 1 })), 400);
    assert_eq!(ask("/v1.42/containers/since/update", json!({ "KernelMemory": 1 })), 200);
    let tcp = || body(&["true"], host(json!({ "NetworkMode": "none", "KernelMemoryTCP": 1 })));
    assert_eq!(ask("/v1.51/containers/create?name=tcp", tcp()), 501);
    assert_eq!(ask("/v1.52/containers/create?name=tcp", tcp()), 201);
    assert_eq!(ask("/v1.51/containers/tcp/update", json!({ "KernelMemoryTCP": 1 })), 501);
    assert_eq!(ask("/v1.52/containers/tcp/update", json!({ "KernelMemoryTCP": 1 })), 200);
}

#[test]
fn a_prune_whose_operation_ended_removes_nothing() {
    let root = Root::new();
    let create = serde_json::from_value(json!({ "Name": "idle-net" })).expect("a network");
    root.engine.network_create(&create).expect("create");
    root.engine.volume_create(&Default::default()).expect("create");
    root.create("ended", body(&["true"], json!({})));
    let ended = coracle::Op::new().expect("an operation");
    ended.cancel();
    let (none, op) = (Default::default(), Some(&ended));
    let unnamed = filters(json!({ "dangling": ["false"] }));
    let cancelled = |error: coracle::Error| assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
    cancelled(root.engine.networks_prune(&none, op).expect_err("networks"));
    cancelled(root.engine.volumes_prune(&none, op).expect_err("volumes"));
    cancelled(root.engine.containers_prune(&none, op).expect_err("containers"));
    cancelled(root.engine.images_prune(&unnamed, op).expect_err("images"));
    root.engine.network_inspect("idle-net").expect("the network");
    root.engine.container_inspect("ended", false).expect("the container");
    root.engine.image_inspect("busybox").expect("the image");
    assert_eq!(root.engine.volume_list(&Default::default()).expect("volumes").volumes.len(), 1);
    // An operation that ends in the middle: objects that were removed stay removed, and the others stay.
    let create = serde_json::from_value(json!({ "Name": "second-net" })).expect("a network");
    root.engine.network_create(&create).expect("create");
    let own = |engine: &coracle::Engine| {
        let all = engine.network_list(&Default::default()).expect("networks");
        all.into_iter().filter(|network| network.name.ends_with("-net")).count()
    };
    let (middle, engine) = (coracle::Op::new().expect("an operation"), root.engine.clone());
    let beat: coracle::Beat = Box::new(move || match own(&engine) {
        1 => Err(coracle::Error::new(ErrorKind::Cancelled, "one is gone")),
        _ => Ok(()),
    });
    middle.set_heartbeat(Some((std::time::Duration::ZERO, beat)));
    cancelled(root.engine.networks_prune(&none, Some(&middle)).expect_err("networks"));
    assert_eq!(own(&root.engine), 1);
    // Without it all goes.
    assert_eq!(root.engine.networks_prune(&none, None).expect("networks").networks_deleted.len(), 1);
    assert_eq!(root.engine.volumes_prune(&none, None).expect("volumes").volumes_deleted.len(), 1);
    assert_eq!(root.engine.containers_prune(&none, None).expect("containers").containers_deleted.len(), 1);
    assert!(root.engine.images_prune(&unnamed, None).expect("images").images_deleted.is_some());
}

// operation: POST /containers/prune
// parameter: POST /containers/prune: filters
#[test]
fn prunes_remove_what_nothing_uses() {
    let root = Root::new();
    let router = Router::new(root.engine.clone());
    let events = root.engine.events(&EventQuery::default()).expect("events");
    let used = json!({ "Image": "busybox", "Cmd": ["sleep", "1000"], "HostConfig": { "NetworkMode": "used-net",
        "Binds": ["used:/v"] } });
    for network in ["used-net", "idle-net", "kept-net"] {
        let labels = json!({ "kind": network });
        let create = serde_json::from_value(json!({ "Name": network, "Labels": labels })).expect("a network");
        root.engine.network_create(&create).expect("create");
    }
    let id = root.create("user", used);
    root.start(&id);
    for volume in ["named", ""] {
        let create = serde_json::from_value(json!({ "Name": volume })).expect("a volume");
        let made = root.engine.volume_create(&create).expect("create");
        std::fs::write(std::path::Path::new(&made.mountpoint).join("five"), "12345").expect("write");
    }
    let volumes = || -> Vec<String> {
        let list = root.engine.volume_list(&Default::default()).expect("volumes").volumes;
        list.into_iter().map(|volume| volume.name).filter(|name| name.len() < 64).collect()
    };
    // From 1.42 on only volumes that nobody named.
    let (status, pruned) = ask(&router, "POST", "/v1.44/volumes/prune");
    assert_eq!((status, pruned["VolumesDeleted"].as_array().map(Vec::len)), (200, Some(1)), "{pruned}");
    assert_eq!((&pruned["SpaceReclaimed"], volumes()), (&json!(5), vec!["named".to_owned(), "used".to_owned()]));
    let (status, pruned) = ask(&router, "POST", "/v1.25/volumes/prune");
    assert_eq!((status, pruned), (200, json!({ "VolumesDeleted": ["named"], "SpaceReclaimed": 5 })));
    assert_eq!(volumes(), ["used"]);
    // Networks that a container is on stay, and those that a filter spares.
    let spared = filters(json!({ "label!": ["kind=kept-net"] }));
    let pruned = root.engine.networks_prune(&spared, None).expect("prune");
    assert_eq!(pruned.networks_deleted, ["idle-net"]);
    // Containers: by age and label.
    let ended = root.create("ended", body(&["true"], json!({ "Labels": { "old": "" } })));
    let (status, none) = ask(&router, "POST", "/v1.25/containers/prune?filters=%7B%22until%22%3A%5B%221h%22%5D%7D");
    assert_eq!((status, none), (200, json!({ "ContainersDeleted": [], "SpaceReclaimed": 0 })));
    let spared = filters(json!({ "label!": ["old"] }));
    assert!(root.engine.containers_prune(&spared, None).expect("prune").containers_deleted.is_empty());
    let (status, pruned) = ask(&router, "POST", "/v1.25/containers/prune?filters=%7B%22label%22%3A%5B%22old%22%5D%7D");
    assert_eq!((status, &pruned["ContainersDeleted"]), (200, &json!([ended])));
    let (status, _) = ask(&router, "POST", "/v1.25/containers/prune?filters=%7B%22name%22%3A%5B%22x%22%5D%7D");
    assert_eq!(status, 400);
    assert_eq!(ask(&router, "POST", "/v1.31/build/prune").1, json!({ "CachesDeleted": [], "SpaceReclaimed": 0 }));
    let (status, pruned) = ask(&router, "POST", "/v1.25/images/prune");
    assert_eq!((status, pruned), (200, json!({ "ImagesDeleted": null, "SpaceReclaimed": 0 })));
    pruned_is_told(events);
}

/// A mount below a root's directory, which goes before the directory.
struct Unmounted(std::path::PathBuf);

impl Drop for Unmounted {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

// field: HostConfig.Mounts.BindOptions.CreateMountpoint
// field: HostConfig.Mounts.BindOptions.ReadOnlyForceRecursive
// field: HostConfig.Mounts.BindOptions.ReadOnlyNonRecursive
#[test]
fn binds_are_read_only_as_far_as_they_were_asked_to_be() {
    // Mounts of its own, which no other container sees.
    const INNER: &str = "CORACLE_READ_ONLY_BINDS";
    if std::env::var_os(INNER).is_none() {
        let own_name = "container_later_fields::binds_are_read_only_as_far_as_they_were_asked_to_be";
        return in_a_mount_namespace("private", own_name, &[(INNER, std::path::Path::new("1"))]);
    }
    let root = Root::new();
    let router = Router::new(root.engine.clone());
    let source = root.dir.join("source");
    std::fs::create_dir_all(source.join("below")).expect("a directory");
    let below = source.join("below");
    let mounted = std::process::Command::new("mount").args(["-t", "tmpfs", "below"]).arg(&below).status();
    assert!(mounted.expect("mount").success());
    let _mounted = Unmounted(below);
    let bind = |options: Value| json!({ "Type": "bind", "Source": source, "Target": "/b", "ReadOnly": true, "BindOptions": options });
    let made = |prefix: &str, name: &str, mount: &Value| -> String {
        let json = [("Content-Type", "application/json")];
        let script = "touch /b/top 2>/dev/null || echo -n top; touch /b/below/x 2>/dev/null || echo -n ' below'";
        let host = json!({ "NetworkMode": "none", "Mounts": [mount] });
        let text = body(&["sh", "-c", script], json!({ "HostConfig": host })).to_string().into_bytes();
        let reply = router.request("POST", &format!("{prefix}/containers/create?name={name}"), &json, text, None);
        assert_eq!(reply.expect("an answer").status, 201, "{prefix} {mount}");
        root.start(name);
        assert_eq!(root.wait(name), 0);
        root.logs(name).out()
    };
    assert_eq!(made("/v1.24", "before", &bind(json!({}))), "top");
    assert_eq!(made("/v1.44", "since", &bind(json!({}))), "top below");
    assert_eq!(made("/v1.44", "flat", &bind(json!({ "ReadOnlyNonRecursive": true }))), "top");
    assert_eq!(made("/v1.24", "deep", &bind(json!({ "ReadOnlyForceRecursive": true }))), "top below");
    let options = json!({ "ReadOnlyNonRecursive": true, "ReadOnlyForceRecursive": true });
    let both = root.try_create("both", body(&["true"], host(json!({ "Mounts": [bind(options)] }))));
    fails(both, ErrorKind::Invalid, "mount options conflict");
    let missing = source.join("missing");
    let mount = |make: bool| {
        let options = json!({ "CreateMountpoint": make });
        host(
            json!({ "NetworkMode": "none", "Mounts": [{ "Type": "bind", "Source": missing, "Target": "/m", "BindOptions": options }] }),
        )
    };
    fails(root.try_create("missing", body(&["true"], mount(false))), ErrorKind::Invalid, "does not exist");
    let id = root.create("makes", body(&["true"], mount(true)));
    root.start(&id);
    assert_eq!(root.wait(&id), 0);
    assert!(missing.is_dir());
}

#[test]
fn stacked_mounts_below_a_bind_are_read_only_and_hidden_ones_are_so_or_named() {
    const INNER: &str = "CORACLE_STACKED_MOUNTS";
    if std::env::var_os(INNER).is_none() {
        let own_name =
            "container_later_fields::stacked_mounts_below_a_bind_are_read_only_and_hidden_ones_are_so_or_named";
        return in_a_mount_namespace("private", own_name, &[(INNER, std::path::Path::new("1"))]);
    }
    let root = Root::new();
    let source = root.dir.join("source");
    let mount = |below: &str| {
        let place = source.join(below);
        std::fs::create_dir_all(&place).expect("a directory");
        let mounted =
            std::process::Command::new("mount").args(["-t", "tmpfs", "-o", "noexec,noatime", "x"]).arg(place).status();
        assert!(mounted.expect("mount").success());
    };
    ["", "one", "one/deep", "a b\\c", "a b\\c"].into_iter().for_each(mount);
    let _mounted = Unmounted(source.clone());
    let all = json!({ "Type": "bind", "Source": source, "Target": "/b", "ReadOnly": true,
        "BindOptions": { "ReadOnlyForceRecursive": true } });
    let more = host(json!({ "Mounts": [all], "NetworkMode": "none" }));
    let script = "sed -nE 's/^[^ ]+ [^ ]+ [^ ]+ [^ ]+ (.b[^ ]*) ([^ ]+) .*/\\1 \\2/p' /proc/self/mountinfo";
    let seen = root.sh_with(script, more.clone()).ok();
    let wanted = ["", "/one", "/one/deep", "/a\\040b\\134c", "/a\\040b\\134c"];
    let mut wanted = wanted.map(|below| format!("/b{below} ro,noexec,noatime"));
    if !kernel::sets_attributes() {
        // Nobody reaches the mount below another one at the same place.
        wanted[3] = wanted[3].replace(" ro,", " rw,");
    }
    assert_eq!(seen.lines().collect::<Vec<_>>(), wanted);
    ["two/hidden", "two"].into_iter().for_each(mount);
    let id = root.create("hidden", body(&["sh", "-c", script], more));
    match root.engine.container_start(&id, None, Some(&soon())) {
        Ok(_) => {
            assert!(kernel::sets_attributes(), "a mount that nobody can reach was made read-only");
            assert_eq!(root.wait(&id), 0);
            assert_eq!(root.logs(&id).out().matches(" ro,noexec,noatime").count(), 7);
        }
        Err(error) => {
            assert!(!kernel::sets_attributes(), "{error}");
            assert!(error.message().contains("another mount hides one of the mounts below"), "{error}");
        }
    }
}

#[test]
fn a_container_can_be_created_on_several_networks() {
    let root = Root::new();
    let router = Router::new(root.engine.clone());
    for network in ["first-net", "other-net"] {
        let create = serde_json::from_value(json!({ "Name": network })).expect("a network");
        root.engine.network_create(&create).expect("create");
    }
    let asked = json!({ "Image": "busybox", "Cmd": ["sleep", "1000"], "HostConfig": { "NetworkMode": "other-net" },
        "NetworkingConfig": { "EndpointsConfig": { "first-net": {}, "other-net": { "Aliases": ["there"] } } } });
    let create = |prefix: &str| {
        let json = [("Content-Type", "application/json")];
        let target = format!("{prefix}/containers/create?name=both");
        let reply = router.request("POST", &target, &json, asked.to_string().into_bytes(), None).expect("an answer");
        let ReplyBody::Bytes(bytes) = reply.body else { panic!("a stream") };
        (reply.status, String::from_utf8_lossy(&bytes).into_owned())
    };
    let (status, text) = create("/v1.24");
    assert!(status == 400 && text.contains("network endpoints: first-net, other-net"), "{status} {text}");
    let (status, text) = create("/v1.44");
    assert_eq!(status, 201, "{text}");
    root.start("both");
    let networks = root.inspect("both").network_settings.networks;
    assert_eq!(networks.keys().collect::<Vec<_>>(), ["first-net", "other-net"]);
    // As dockerd numbers the interfaces: by the names of the networks.
    for (network, interface) in [("first-net", "eth0"), ("other-net", "eth1")] {
        let address = &networks[network].ip_address;
        let shown = root.exec("both", &["ip", "-o", "addr", "show", interface]).ok();
        assert!(!address.is_empty() && shown.contains(&format!("{address}/")), "{address}: {shown}");
    }
}

/// Each kind of prune has its event, with the bytes that are free again.
fn pruned_is_told(mut events: coracle::EventStream) {
    let mut told = Vec::new();
    events_until(&mut events, |event| {
        if event.action == "prune" {
            told.push((event.kind.clone(), event.actor.attributes["reclaimed"].clone()));
        }
        event.action == "prune" && event.kind == "image"
    });
    let told: Vec<(&str, &str)> = told.iter().map(|(kind, bytes)| (kind.as_str(), bytes.as_str())).collect();
    let wanted = [
        ("volume", "5"),
        ("volume", "5"),
        ("network", "0"),
        ("container", "0"),
        ("container", "0"),
        ("container", "0"),
        ("builder", "0"),
        ("image", "0"),
    ];
    assert_eq!(told, wanted);
}

#[test]
fn disk_usage_counts_each_layer_once() {
    let root = Root::new();
    let router = Router::new(root.engine.clone());
    let id = root.create(
        "user",
        body(
            &["sh", "-c", "echo 12345 > /five"],
            json!({ "HostConfig": {
        "NetworkMode": "none", "Binds": ["data:/v"] } }),
        ),
    );
    root.start(&id);
    assert_eq!(root.wait(&id), 0);
    let data = root.engine.volume_inspect("data").expect("inspect").mountpoint;
    std::fs::write(std::path::Path::new(&data).join("three"), "123").expect("write");
    // An image that has the layers of the other one, and one more.
    let how = serde_json::from_value(json!({ "repo": "second", "tag": "x" })).expect("a commit");
    root.engine.container_commit(&id, &how, None).expect("commit");
    let usage = root.engine.disk_usage(DiskUsageQuery::ALL, None).expect("disk usage");
    let of = |name: &str| {
        let has = |tags: &Vec<String>| tags.iter().any(|tag| tag.starts_with(name));
        usage.images.iter().find(|image| image.repo_tags.as_ref().is_some_and(has)).expect("an image")
    };
    let (base, second) = (of("busybox"), of("second"));
    assert_eq!((base.shared_size, second.shared_size), (base.size, base.size));
    assert_eq!((base.containers, second.containers), (1, 0));
    assert_eq!(second.size, base.size + 6);
    assert_eq!(usage.layers_size, second.size);
    assert_eq!((usage.containers.len(), usage.containers[0].size_rw), (1, Some(6)));
    let volume = &usage.volumes[0];
    assert_eq!(
        (volume.name.as_str(), volume.usage_data.map(|used| (used.size, used.ref_count))),
        ("data", Some((3, 1)))
    );
    // Over HTTP: all of it, or the kinds that were asked for.
    let (status, all) = ask(&router, "GET", "/v1.41/system/df?type=image");
    assert_eq!((status, &all["LayersSize"], &all["BuilderSize"]), (200, &json!(second.size), &json!(0)));
    assert_eq!((all["Images"].as_array().map(Vec::len), all["Volumes"].as_array().map(Vec::len)), (Some(2), Some(1)));
    let (status, some) = ask(&router, "GET", "/v1.44/system/df?type=volume&type=container");
    assert_eq!((status, &some["Images"], some.get("BuilderSize")), (200, &Value::Null, None));
    assert_eq!(some["Volumes"][0]["UsageData"], json!({ "Size": 3, "RefCount": 1 }));
    assert_eq!(ask(&router, "GET", "/v1.44/system/df?type=planet").0, 400);
    // A list of volumes counts nothing.
    assert!(ask(&router, "GET", "/v1.44/volumes").1["Volumes"][0].get("UsageData").is_none());
}

#[test]
fn a_registry_tells_what_a_name_is_without_a_pull() {
    let root = Root::new();
    let registry = Registry::plain(&root.dir.join("registry"));
    let name = format!("{}/box:1", registry.host());
    root.engine.image_tag("busybox", &name).expect("tag");
    push(&root.engine, &name).expect("push");
    let told = root.engine.distribution_inspect(&name, &RegistryAuth::default(), None).expect("distribution");
    let arch = coracle::version().arch;
    let platforms: Vec<(&str, &str)> =
        told.platforms.iter().map(|of| (of.os.as_str(), of.architecture.as_str())).collect();
    assert_eq!(platforms, [("linux", arch.as_str())]);
    let router = Router::new(root.engine.clone());
    let (status, shown) = ask(&router, "GET", &format!("/distribution/{name}/json"));
    assert_eq!(status, 200, "{shown}");
    assert_eq!(shown["Platforms"], json!([{ "architecture": arch, "os": "linux" }]));
    let descriptor = &shown["Descriptor"];
    assert_eq!(descriptor["digest"], told.descriptor.digest.as_str());
    assert_eq!(descriptor["mediaType"], "application/vnd.docker.distribution.manifest.v2+json");
    // The digest names the same manifest, of that many bytes.
    let by_digest = format!("{}/box@{}", registry.host(), told.descriptor.digest);
    assert_eq!(
        root.engine.distribution_inspect(&by_digest, &RegistryAuth::default(), None).expect("distribution"),
        told
    );
    let bytes = std::fs::metadata(registry.blob(&told.descriptor.digest)).expect("the manifest").len();
    assert_eq!(told.descriptor.size, i64::try_from(bytes).expect("a size"));
    let missing = format!("{}/nothing:1", registry.host());
    assert_eq!(ask(&router, "GET", &format!("/distribution/{missing}/json")).0, 404);
}
