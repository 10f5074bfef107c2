//! Volumes: what they hold, who uses them, what is told of them.

use crate::support::*;
use coracle::ErrorKind;
use coracle::model::*;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

fn named(name: &str) -> CreateVolume {
    CreateVolume { name: name.into(), ..CreateVolume::default() }
}

fn names(root: &Root, filters: Value) -> Vec<String> {
    let query = ListVolumes { filters: serde_json::from_value(filters).expect("filters") };
    root.engine.volume_list(&query).expect("list").volumes.into_iter().map(|v| v.name).collect()
}

/// An image with files under `/seed`, which is a volume of it.
fn image_with_volume(root: &Root) -> String {
    let id = root.create(
        "",
        body(
            &[
                "sh",
                "-c",
                "mkdir -p /seed/sub; echo data >/seed/f; ln /seed/f /seed/hard; ln -s f /seed/link; \
              chown 12:34 /seed; chmod 1775 /seed; chmod 4755 /seed/f; mkfifo /seed/sub/pipe",
            ],
            json!({}),
        ),
    );
    root.start(&id);
    assert_eq!(root.wait(&id), 0);
    let how =
        CommitContainer { repo: "seeded".into(), changes: vec!["VOLUME /seed".into()], ..CommitContainer::default() };
    root.engine.container_commit(&id, &how, Some(&soon())).expect("commit")
}

#[test]
fn data_outlives_its_container() {
    let root = Root::new();
    root.sh_with("echo kept >/data/file", host(json!({ "Binds": ["keep:/data"] }))).ok();
    assert_eq!(root.sh_with("cat /other/file", host(json!({ "Binds": ["keep:/other:ro"] }))).ok(), "kept");
    let volume = root.engine.volume_inspect("keep").expect("inspect");
    assert_eq!((volume.driver.as_str(), volume.scope.as_str()), ("local", "local"));
    let file = PathBuf::from(&volume.mountpoint).join("file");
    assert_eq!(std::fs::read_to_string(file).expect("the file on the host"), "kept\n");
    root.engine.volume_remove("keep").expect("remove");
    fails(root.engine.volume_inspect("keep"), ErrorKind::NotFound, "get keep: no such volume");
    assert!(!PathBuf::from(&volume.mountpoint).exists());
}

// field: HostConfig.Binds
// field: HostConfig.VolumeDriver
#[test]
fn modes_of_binds() {
    let root = Root::new();
    let output =
        root.sh_with("touch /ro/x 2>&1; touch /rw/x; ls /rw", host(json!({ "Binds": ["a1:/ro:ro", "a2:/rw:rw,z"] })));
    assert!(output.out().contains("Read-only file system") && output.out().ends_with('x'), "{}", output.out());
    let refused = |bind: &str, kind, text: &str| {
        fails(root.try_create("", body(&["true"], host(json!({ "Binds": [bind] })))), kind, text);
    };
    refused("v1:/b:shared", ErrorKind::Internal, "field BindOptions must not be specified");
    refused("/tmp:/b:nocopy", ErrorKind::Internal, "field VolumeOptions must not be specified");
    refused("x:/b", ErrorKind::Invalid, "volume name is too short");
    refused("a b:/b", ErrorKind::Invalid, "includes invalid characters for a local volume name");
    let driver = json!({ "Binds": ["q1:/b"], "VolumeDriver": "zz" });
    fails(
        root.try_create("", body(&["true"], host(driver))),
        ErrorKind::NotFound,
        "create q1: error looking up volume plugin zz: plugin \"zz\" not found",
    );
    let local = json!({ "Binds": ["q1:/b"], "VolumeDriver": "local" });
    let seen = root.sh_with("echo x >/b/file; grep ' /b ' /proc/self/mountinfo", host(local)).ok();
    assert!(seen.contains("/volumes/q1/_data /b "), "{seen}");
    assert!(root.dir.join("root/volumes/q1/_data/file").exists());
}

// field: Config.Volumes
// field: HostConfig.Binds
#[test]
fn content_of_the_image_is_copied_up() {
    let root = Root::new();
    let image = image_with_volume(&root);
    let look = "cd /seed; cat f; cat link; stat -c '%u:%g %a' . f; stat -c %h f; stat -c %F sub/pipe";
    let seen = "data\ndata\n12:34 1775\n0:0 4755\n2\nfifo";
    let of_image = |config: Value| json!({ "Image": image, "HostConfig": config });
    // Anonymous, because the image says so; named; and once more the same, which is not empty any more.
    assert_eq!(root.sh_with(look, of_image(json!({}))).ok(), seen);
    assert_eq!(root.sh_with(look, of_image(json!({ "Binds": ["seeded:/seed"] }))).ok(), seen);
    root.sh_with("rm -r /seed/sub /seed/link; echo changed >/seed/f", of_image(json!({ "Binds": ["seeded:/seed"] })))
        .ok();
    assert_eq!(
        root.sh_with("ls /seed; cat /seed/f", of_image(json!({ "Binds": ["seeded:/seed"] }))).ok(),
        "f\nhard\nchanged"
    );
    // A volume that was made before and is empty is filled; not where that is not wanted.
    root.engine.volume_create(&named("before")).expect("create");
    assert_eq!(root.sh_with(look, of_image(json!({ "Binds": ["before:/seed"] }))).ok(), seen);
    assert_eq!(root.sh_with("ls /seed", of_image(json!({ "Binds": ["empty:/seed:nocopy"] }))).ok(), "");
    // A directory of the host hides what the image has.
    let dir = root.dir.join("plain");
    std::fs::create_dir(&dir).expect("mkdir");
    let bind = format!("{}:/seed", dir.display());
    assert_eq!(root.sh_with("ls /seed", of_image(json!({ "Binds": [bind] }))).ok(), "");
    fails(
        root.try_create("", body(&["true"], host(json!({ "Binds": ["v1:/bin/busybox"] })))),
        ErrorKind::Internal,
        "cannot mount volume over existing file, file exists /bin/busybox",
    );
}

// field: Config.Volumes
// field: Remove.volumes
#[test]
fn anonymous_volumes_go_with_their_container() {
    let root = Root::new();
    let make = |name: &str| {
        let look = ["awk", "$5 ~ \"^/(data|more|n)$\" { print $5, $4 }", "/proc/self/mountinfo"];
        let config = json!({ "Volumes": { "/data": {} }, "HostConfig": { "Binds": ["/more", "named:/n"] } });
        root.create(name, body(&look, config))
    };
    let id = make("first");
    root.start(&id);
    root.wait(&id);
    for mount in root.inspect(&id).mounts {
        let (at, source) = (mount.destination, mount.source);
        let seen = root.logs(&id).out();
        let shown = seen.lines().find_map(|line| line.strip_prefix(&format!("{at} "))).expect("it is mounted");
        assert!(source.ends_with(shown), "{at}: {shown} is not {source}");
    }
    let mounts = root.inspect(&id).mounts;
    let of = |target: &str| mounts.iter().find(|m| m.destination == target).expect("a mount").clone();
    assert_eq!(
        (of("/data").name.len(), of("/data").kind.as_str(), of("/data").driver.as_str()),
        (64, "volume", "local")
    );
    assert_eq!((of("/n").name.as_str(), of("/n").mode.as_str(), of("/n").propagation.as_str()), ("named", "", ""));
    assert!(of("/n").source.ends_with("/volumes/named/_data"));
    assert_eq!(names(&root, json!({ "dangling": ["false"] })).len(), 3);
    let remove = |id: &str, volumes| {
        let how = RemoveContainer { volumes, ..RemoveContainer::default() };
        root.engine.container_remove(id, how, Some(&soon())).expect("remove");
    };
    remove(&id, true);
    assert_eq!(names(&root, json!({})), ["named"]);
    remove(&make("second"), false);
    assert_eq!(names(&root, json!({ "dangling": ["1"] })).len(), 3);
}

// field: HostConfig.VolumesFrom
#[test]
fn volumes_from_another_container() {
    let root = Root::new();
    let dir = root.dir.join("shared");
    std::fs::create_dir(&dir).expect("mkdir");
    let binds = json!([format!("{}:/host", dir.display()), "named:/n:ro"]);
    let giver =
        root.create("giver", body(&["true"], json!({ "Volumes": { "/anon": {} }, "HostConfig": { "Binds": binds } })));
    let from = |text: &str| host(json!({ "VolumesFrom": [text] }));
    root.sh_with("echo one >/anon/f; echo two >/host/f", from("giver")).ok();
    let script = "cat /anon/f /host/f; touch /anon/x 2>&1 | grep -c 'Read-only'; touch /n/x 2>&1 | grep -c Read-only";
    assert_eq!(root.sh_with(script, from("giver:ro")).out(), "one\ntwo\n1\n1");
    assert_eq!(root.sh_with("touch /anon/x; touch /n/x 2>&1 | grep -c Read-only", from("giver:rw")).out(), "1");
    fails(root.try_create("", body(&["true"], from("nobody"))), ErrorKind::Invalid, "No such container: nobody");
    fails(root.try_create("", body(&["true"], from("giver:odd"))), ErrorKind::Invalid, "invalid mode: odd");
    // The container's own bind wins over the mounts that it takes over.
    let own = host(json!({ "VolumesFrom": ["giver"], "Binds": ["own:/anon"] }));
    assert_eq!(root.sh_with("ls /anon", own).ok(), "");
    // A container that takes a volume over keeps it when the giver is removed.
    let taker = root.create("taker", body(&["cat", "/anon/f"], from("giver")));
    let how = RemoveContainer { volumes: true, ..RemoveContainer::default() };
    root.engine.container_remove(&giver, how, Some(&soon())).expect("remove");
    root.start(&taker);
    assert_eq!(root.wait(&taker), 0);
    assert_eq!(root.logs(&taker).out(), "one");
}

#[test]
fn a_used_volume_stays() {
    let root = Root::new();
    let id = root.create("user-of-it", body(&["true"], host(json!({ "Binds": ["held:/h"] }))));
    let text = format!("remove held: volume is in use - [{id}]");
    fails(root.engine.volume_remove("held"), ErrorKind::Conflict, &text);
    // Another program sees the same.
    fails(root.reopen().volume_remove("held"), ErrorKind::Conflict, &text);
    root.engine.container_remove(&id, RemoveContainer::default(), Some(&soon())).expect("remove");
    root.engine.volume_remove("held").expect("remove");
    fails(root.engine.volume_remove("held"), ErrorKind::NotFound, "get held: no such volume");
}

#[test]
fn listed_by_filters() {
    let root = Root::new();
    let labels = Some(StringMap::from([("tier".into(), "db".into())]));
    root.engine.volume_create(&CreateVolume { labels, ..named("alpha") }).expect("create");
    root.engine.volume_create(&named("beta")).expect("create");
    root.create("user", body(&["true"], host(json!({ "Binds": ["beta:/b"] }))));
    assert_eq!(names(&root, json!({})), ["alpha", "beta"]);
    assert_eq!(names(&root, json!({ "name": ["^al"] })), ["alpha"]);
    assert_eq!(names(&root, json!({ "dangling": ["true"] })), ["alpha"]);
    assert_eq!(names(&root, json!({ "dangling": ["0"] })), ["beta"]);
    assert_eq!(names(&root, json!({ "driver": ["local"] })), ["alpha", "beta"]);
    assert_eq!(names(&root, json!({ "driver": ["loc"] })), [""; 0]);
    assert_eq!(names(&root, json!({ "driver": ["other"] })), [""; 0]);
    assert_eq!(names(&root, json!({ "label": ["tier=db"] })), ["alpha"]);
    let list = |filters: Value| {
        root.engine.volume_list(&ListVolumes { filters: serde_json::from_value(filters).expect("filters") })
    };
    fails(list(json!({ "dangling": ["zz"] })), ErrorKind::Invalid, "Invalid filter 'dangling=[zz]'");
    fails(list(json!({ "odd": ["x"] })), ErrorKind::Invalid, "Invalid filter 'odd'");
    let containers = ListContainers {
        all: true,
        filters: Filters::from([("volume".into(), vec!["beta".into()])]),
        ..ListContainers::default()
    };
    assert_eq!(root.names(&containers), ["user"]);
}

#[test]
fn created_twice_is_the_same() {
    let root = Root::new();
    let first = root.engine.volume_create(&named("twice")).expect("create");
    let options = Some(StringMap::from([("type".into(), "tmpfs".into()), ("device".into(), "tmpfs".into())]));
    let again =
        root.engine.volume_create(&CreateVolume { driver_opts: options, ..named("twice") }).expect("create again");
    assert_eq!(first, again);
    assert_eq!(root.engine.volume_create(&CreateVolume::default()).expect("create").name.len(), 64);
    let refused = |body: CreateVolume, kind, text: &str| fails(root.engine.volume_create(&body), kind, text);
    refused(
        named("a b"),
        ErrorKind::Invalid,
        "create a b: \"a b\" includes invalid characters for a local volume name",
    );
    refused(named("a"), ErrorKind::Invalid, "create a: volume name is too short");
    let other = CreateVolume { driver: "zz".into(), ..named("q1") };
    refused(other, ErrorKind::NotFound, "create q1: error looking up volume plugin zz: plugin \"zz\" not found");
    let odd = CreateVolume { driver_opts: Some(StringMap::from([("foo".into(), "x".into())])), ..named("vo") };
    refused(odd, ErrorKind::Invalid, "create vo: invalid option: \"foo\"");
}

#[test]
fn driver_options_mount() {
    let root = Root::new();
    let dir = root.dir.join("elsewhere");
    std::fs::create_dir(&dir).expect("mkdir");
    let with = |name: &str, options: &[(&str, &str)]| {
        let options = options.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        root.engine.volume_create(&CreateVolume { driver_opts: Some(options), ..named(name) }).expect("create");
    };
    with("memory", &[("type", "tmpfs"), ("device", "tmpfs"), ("o", "size=1m,uid=7")]);
    let seen =
        root.sh_with("grep ' /m ' /proc/self/mountinfo; stat -c %u /m", host(json!({ "Binds": ["memory:/m"] }))).ok();
    assert!(seen.contains("tmpfs") && seen.contains("size=1024k") && seen.ends_with("\n7"), "{seen}");
    with("bound", &[("type", "none"), ("device", &dir.to_string_lossy()), ("o", "bind")]);
    root.sh_with("echo x >/b/file", host(json!({ "Binds": ["bound:/b"] }))).ok();
    assert!(dir.join("file").exists());
    with("wrong", &[("type", "nosuchfs"), ("device", "x")]);
    let id = root.create("wrong-user", body(&["true"], host(json!({ "Binds": ["wrong:/w"] }))));
    let error = root.engine.container_start(&id, None, Some(&soon())).expect_err("no such file system");
    assert!(error.message().contains("mount nosuchfs on /w"), "{error}");
    with("odd", &[("type", "tmpfs"), ("device", "tmpfs"), ("o", "nosuchword=1")]);
    let id = root.create("odd-user", body(&["true"], host(json!({ "Binds": ["odd:/w"] }))));
    let refused = root.engine.container_start(&id, None, Some(&soon()));
    fails(refused, ErrorKind::Internal, "odd/_data': failed to mount local volume: mount tmpfs:");
    // Nothing of it shows in the host's table.
    let table = std::fs::read_to_string("/proc/self/mountinfo").expect("mountinfo");
    assert!(!table.contains(&*root.dir.to_string_lossy()), "{table}");
}

/// A file system in memory, by the options of the driver, is mounted once for all who use it at the same time.
#[test]
fn a_volume_in_memory_is_one_for_all() {
    let root = Root::new();
    let pairs = [("type", "tmpfs"), ("device", "tmpfs"), ("o", "size=1m,uid=7")];
    let options = pairs.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    root.engine.volume_create(&CreateVolume { driver_opts: Some(options), ..named("memory") }).expect("create");
    let runs = |name: &str, bind: &str, more: Value| {
        let mut config = json!({ "Binds": [bind] });
        config.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        let id = root.create(name, body(&["sleep", "1000"], host(config)));
        root.start(&id);
        id
    };
    let sh = |id: &str, script: &str| root.exec(id, &["sh", "-c", script]);
    let first = runs("first", "memory:/m", json!({ "RestartPolicy": { "Name": "always" } }));
    sh(&first, "echo one >/m/file").ok();
    let second = runs("second", "memory:/other/place", json!({}));
    let reader = runs("reader", "memory:/m:ro", json!({}));
    assert_eq!(sh(&second, "cat /other/place/file; stat -c %u /other/place").ok(), "one\n7");
    assert_eq!(sh(&reader, "cat /m/file; touch /m/new 2>&1").out(), "one\ntouch: /m/new: Read-only file system");
    // Copies into or out of a container, running or not, use the same content.
    let stopped = root.create("stopped", body(&["true"], host(json!({ "Binds": ["memory:/s"] }))));
    for (id, path) in [(&second, "/other/place/file"), (&stopped, "/s/file")] {
        let mut tar = Vec::new();
        let archive = root.engine.container_archive_get(id, path, Some(&soon())).expect("get");
        archive.write_to(&mut tar, Some(&soon())).expect("read");
        assert!(tar.windows(4).any(|bytes| bytes == b"one\n"), "{path}");
    }
    // The policy starts the first one again: it finds what it left.
    sh(&first, "echo two >/m/file").ok();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(root.pid(&first)), nix::sys::signal::Signal::SIGKILL)
        .expect("kill");
    root.wait_for("the restart", || {
        let detail = root.inspect(&first);
        detail.restart_count == 1 && detail.state.status == "running"
    });
    assert_eq!(sh(&first, "cat /m/file").ok(), "two");
    // The last one that uses it, not the first one, ends it.
    let force = RemoveContainer { force: true, ..RemoveContainer::default() };
    root.engine.container_remove(&first, force, Some(&soon())).expect("remove");
    assert_eq!(sh(&second, "cat /other/place/file").ok(), "two");
    let third = runs("third", "memory:/m", json!({}));
    assert_eq!(sh(&third, "cat /m/file").ok(), "two");
    for id in [&second, &reader, &third] {
        root.engine.container_remove(id, force, Some(&soon())).expect("remove");
    }
    assert_eq!(root.sh_with("ls /m", host(json!({ "Binds": ["memory:/m"] }))).ok(), "");
    // Containers that start at the same time get the same content.
    let ids: Vec<String> = (0..6)
        .map(|n| {
            root.create(&format!("at-once-{n}"), body(&["sleep", "1000"], host(json!({ "Binds": ["memory:/m"] }))))
        })
        .collect();
    std::thread::scope(|scope| {
        for id in &ids {
            scope.spawn(|| root.engine.container_start(id, None, Some(&soon())).expect("start"));
        }
    });
    let devices: BTreeSet<String> = ids.iter().map(|id| sh(id, "stat -c %d /m").ok()).collect();
    assert_eq!(devices.len(), 1, "{devices:?}");
    let table = std::fs::read_to_string("/proc/self/mountinfo").expect("mountinfo");
    assert!(!table.contains(&*root.dir.to_string_lossy()), "{table}");
}

#[test]
fn events_of_volumes() {
    let root = Root::new();
    let query =
        EventQuery { filters: Filters::from([("type".into(), vec!["volume".into()])]), ..EventQuery::default() };
    let mut events = root.engine.events(&query).expect("events");
    root.engine.volume_create(&named("told")).expect("create");
    let id = root.create("teller", body(&["true"], host(json!({ "Binds": ["told:/t:ro", "new-one:/n"] }))));
    root.start(&id);
    root.wait(&id);
    root.engine.container_remove(&id, RemoveContainer::default(), Some(&soon())).expect("remove");
    root.engine.volume_remove("told").expect("remove");
    let seen = events_until(&mut events, |event| event.action == "destroy");
    assert_eq!(actions(&seen), ["create", "create", "mount", "mount", "unmount", "unmount", "destroy"]);
    assert_eq!(seen[1].actor.id, "new-one");
    let attributes = |index: usize| {
        let event: &Event = &seen[index];
        event.actor.attributes.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>().join(" ")
    };
    let mounted = seen.iter().position(|e| e.action == "mount" && e.actor.id == "told").expect("mount of told");
    let expected = format!("container={id} destination=/t driver=local propagation= read/write=false");
    assert_eq!(attributes(mounted), expected);
    let unmounted = seen.iter().position(|e| e.action == "unmount" && e.actor.id == "told").expect("unmount of told");
    assert_eq!(attributes(unmounted), format!("container={id} driver=local"));
    assert!(seen.iter().all(|event| event.kind == "volume" && event.status.is_empty()));
}

#[test]
fn many_programs_make_and_remove_one_volume() {
    let root = Root::new();
    let engines: Vec<_> = (0..4).map(|_| root.reopen()).collect();
    std::thread::scope(|scope| {
        for engine in &engines {
            scope.spawn(move || {
                for _ in 0..20 {
                    engine.volume_create(&named("contended")).expect("create");
                    match engine.volume_remove("contended") {
                        Err(error) if error.kind() != ErrorKind::NotFound => panic!("{error}"),
                        _ => {}
                    }
                }
            });
        }
    });
    let left: Vec<_> =
        std::fs::read_dir(root.dir.join("root/tmp")).expect("tmp").flatten().map(|e| e.file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().starts_with("volume-")), "{left:?}");
    root.engine.volume_create(&named("contended")).expect("create");
    root.sh_with("touch /v/x", host(json!({ "Binds": ["contended:/v"] }))).ok();
}

#[test]
fn an_open_repairs_the_volumes_of_a_killed_program() {
    let root = Root::new();
    root.engine.volume_create(&named("precious")).expect("create");
    let data = PathBuf::from(root.engine.volume_inspect("precious").expect("inspect").mountpoint);
    std::fs::write(data.join("file"), "x").expect("write");
    // A removal that was killed before its transaction: the row is there, the directory waits in tmp.
    let tmp = root.dir.join("root/tmp/volume-0123456789abcdef");
    std::fs::create_dir(&tmp).expect("mkdir");
    std::fs::rename(root.dir.join("root/volumes/precious"), tmp.join("precious")).expect("rename");
    // A creation that was killed before its own: neither row nor place.
    std::fs::create_dir_all(tmp.join("unborn/_data")).expect("mkdir");
    let engine = root.reopen();
    assert!(data.join("file").exists());
    assert!(!tmp.exists());
    assert!(engine.volume_inspect("unborn").is_err());
    // Like the check above, while an engine stays open: met when the volume is used.
    std::fs::create_dir(&tmp).expect("mkdir");
    std::fs::rename(root.dir.join("root/volumes/precious"), tmp.join("precious")).expect("rename");
    assert_eq!(root.sh_with("cat /p/file", host(json!({ "Binds": ["precious:/p"] }))).ok(), "x");
    // Data without a row is nobody's to throw away.
    std::fs::create_dir_all(root.dir.join("root/volumes/found/_data")).expect("mkdir");
    std::fs::write(root.dir.join("root/volumes/found/_data/file"), "y").expect("write");
    assert_eq!(root.sh_with("cat /p/file", host(json!({ "Binds": ["found:/p"] }))).ok(), "y");
}

#[test]
fn a_lock_that_another_holds_for_a_moment_costs_no_volume() {
    let root = Root::new();
    root.engine.volume_create(&named("precious")).expect("create");
    let data = PathBuf::from(root.engine.volume_inspect("precious").expect("inspect").mountpoint);
    std::fs::write(data.join("file"), "x").expect("write");
    let tmp = root.dir.join("root/tmp/volume-0123456789abcdef");
    for held in [root.dir.join("root/tmp"), tmp.clone()] {
        std::fs::create_dir(&tmp).expect("mkdir");
        std::fs::rename(root.dir.join("root/volumes/precious"), tmp.join("precious")).expect("rename");
        // Like a child of the host program between fork and exec, which has a copy of the descriptor.
        let lock = std::fs::File::open(&held).expect("open");
        lock.lock_shared().expect("lock");
        let output = std::thread::scope(|scope| {
            let run = scope.spawn(|| root.sh_with("cat /p/file", host(json!({ "Binds": ["precious:/p"] }))).ok());
            std::thread::sleep(std::time::Duration::from_millis(300));
            drop(lock);
            run.join().expect("a run")
        });
        assert_eq!(output, "x", "{}", held.display());
    }
    // A directory that is lost is told of at once.
    std::fs::remove_dir_all(root.dir.join("root/volumes/precious")).expect("remove");
    let lost = root.try_create("", body(&["true"], host(json!({ "Binds": ["precious:/p"] }))));
    assert!(lost.is_err_and(|error| error.message().contains("the directory of volume precious is gone")));
}

#[test]
fn hostile_volume_targets() {
    let root = Root::new();
    // A link in the container where a volume is to be: it stays inside.
    let id = root.create("linker", body(&["sh", "-c", "ln -s / /up; ln -s ../../../../../../etc /etc2"], json!({})));
    root.start(&id);
    root.wait(&id);
    let how = CommitContainer { repo: "linked".into(), ..CommitContainer::default() };
    root.engine.container_commit(&id, &how, Some(&soon())).expect("commit");
    let canary = root.dir.join("canary");
    std::fs::write(&canary, "untouched").expect("write");
    let owner = std::fs::metadata("/etc").expect("stat").uid();
    let more = json!({ "Image": "linked", "HostConfig": { "Binds": ["hv:/etc2/below", "hw:/up/made"] } });
    root.sh_with("touch /etc/below/x /made/y", more).ok();
    assert!(!PathBuf::from("/etc/below").exists() && !PathBuf::from("/made").exists());
    assert_eq!(std::fs::metadata("/etc").expect("stat").uid(), owner);
    assert_eq!(std::fs::read_to_string(&canary).expect("read"), "untouched");
    for target in ["/proc", "/proc/x", "/dev", "/sys", "/"] {
        let body = body(&["true"], json!({ "Volumes": { target: {} } }));
        assert!(root.try_create("", body).is_err(), "{target}");
    }
}
