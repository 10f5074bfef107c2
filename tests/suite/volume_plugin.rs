//! Volumes of a driver that is a plugin: a real one, in another process, behind a socket.

use crate::support::*;
use coracle::model::*;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::{Child, Command};

struct Plugin {
    child: Child,
    log: PathBuf,
    top: PathBuf,
}

impl Plugin {
    /// Starts the plugin `toy`, and opens the root so that the engine finds it.
    fn start(root: &Root) -> Plugin {
        let dir = root.dir.join("plugins");
        std::fs::create_dir_all(&dir).expect("a directory");
        let (socket, log, top) = (dir.join("toy.sock"), dir.join("calls.log"), root.dir.join("toy"));
        let program = project().join("tests/support/volume-plugin.py");
        let child = Command::new("python3").arg(program).args([&socket, &log, &top]).spawn().expect("python3");
        let plugin = Plugin { child, log, top };
        wait_for("the plugin", || std::os::unix::net::UnixStream::connect(&socket).is_ok());
        plugin
    }

    /// The calls since the last look, without kind.
    fn calls(&self) -> Vec<(String, Value)> {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        std::fs::write(&self.log, "").expect("empty the log");
        let pair = |line: &str| {
            let (method, body) = line.split_once(' ').expect("a call");
            let bare = method.split('.').nth(1).unwrap_or_default().to_owned();
            (bare, serde_json::from_str(body).unwrap_or_default())
        };
        let read =
            |(method, _): &(String, Value)| !matches!(method.as_str(), "Activate" | "Get" | "Capabilities" | "Path");
        text.lines().map(pair).filter(read).collect()
    }

    fn names(&self) -> Vec<String> {
        self.calls().into_iter().map(|(name, _)| name).collect()
    }

    fn rules(&self, rules: &Value) {
        let (next, place) = (self.log.with_extension("next"), format!("{}.rules", self.log.display()));
        std::fs::write(&next, rules.to_string()).expect("write the rules");
        std::fs::rename(next, place).expect("publish the rules");
    }
}

impl Drop for Plugin {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(self.log.with_file_name("toy.sock"));
    }
}

fn root_with_plugin() -> (Root, Plugin) {
    let root = Root::with(|options| options.plugin_dirs = vec![options.root.with_file_name("plugins")]);
    root.load(&busybox_archive());
    let plugin = Plugin::start(&root);
    (root, plugin)
}

fn volume(body: Value) -> CreateVolume {
    serde_json::from_value(body).expect("a request")
}

fn container(root: &Root, name: &str, host: Value, script: &str) -> coracle::Result<String> {
    let body = json!({ "Image": "busybox", "Cmd": ["sh", "-c", script], "HostConfig": host });
    let body: CreateBody = serde_json::from_value(body).expect("a request");
    root.engine.container_create(Some(name), &body).map(|made| made.id)
}

/// Starts a container, and waits for its end.
fn ends(root: &Root, id: &str) -> i32 {
    root.engine.container_start(id, None, Some(&soon())).expect("start");
    root.engine.container_wait(id, Some(&soon())).expect("wait")
}

#[test]
fn a_plugin_makes_mounts_and_removes_volumes() {
    let (root, plugin) = root_with_plugin();
    let made =
        root.engine.volume_create(&volume(json!({ "Name": "far", "Driver": "toy", "DriverOpts": { "a": "b" } })));
    let made = made.expect("a volume");
    let place = plugin.top.join("far").display().to_string();
    assert_eq!(
        (made.driver.as_str(), made.scope.as_str(), made.mountpoint.as_str()),
        ("toy", "global", place.as_str())
    );
    let created = ("Create".to_owned(), json!({ "Name": "far", "Opts": { "a": "b" } }));
    assert_eq!(plugin.calls(), [("List".to_owned(), json!({})), created]);
    let again = root.engine.volume_create(&volume(json!({ "Name": "far", "Driver": "toy" }))).expect("the same one");
    assert_eq!(again.driver, "toy");
    let other =
        root.engine.volume_create(&volume(json!({ "Name": "far", "Driver": "local" }))).expect_err("another driver");
    assert_eq!(
        (other.http_status(), other.message()),
        (409, "A volume named far already exists. Choose a different volume name.")
    );
    assert_eq!(plugin.names(), Vec::<String>::new());

    let id = container(&root, "one", json!({ "Binds": ["far:/data"] }), "echo hello > /data/f").expect("a container");
    assert_eq!(plugin.names(), Vec::<String>::new(), "nothing is mounted before the start");
    assert_eq!(ends(&root, &id), 0);
    assert_eq!(std::fs::read_to_string(plugin.top.join("far/f")).expect("the file"), "hello\n");
    assert_eq!(plugin.calls(), [("Mount".to_owned(), json!({ "Name": "far", "ID": id }))]);
    let status = root.engine.volume_inspect("far").expect("inspect").status;
    assert_eq!((json!(status), made.status), (json!({ "files": 1 }), None));
    let mount = root.inspect(&id).mounts[0].clone();
    assert_eq!((mount.name.as_str(), mount.driver.as_str()), ("far", "toy"));
    // The next start gives back the mount of the life before.
    assert_eq!(ends(&root, &id), 0);
    assert_eq!(plugin.names(), ["Unmount", "Mount"]);
    let used = root.engine.volume_remove("far").expect_err("in use");
    assert_eq!(used.http_status(), 409);
    root.engine.container_remove(&id, RemoveContainer::default(), Some(&soon())).expect("remove");
    assert_eq!(plugin.names(), ["Unmount"]);
    root.engine.volume_remove("far").expect("remove");
    assert_eq!(plugin.names(), ["Remove"]);
    assert!(!plugin.top.join("far").exists() && root.engine.volume_inspect("far").is_err());
}

#[test]
fn a_container_names_the_driver_of_its_volumes() {
    let (root, plugin) = root_with_plugin();
    let error =
        container(&root, "none", json!({ "Binds": ["v1:/a"], "VolumeDriver": "other" }), "true").expect_err("refused");
    let text = "create v1: error looking up volume plugin other: plugin \"other\" not found";
    assert_eq!((error.http_status(), error.message()), (404, text));
    let error = root.engine.volume_create(&volume(json!({ "Name": "v1", "Driver": "../toy" }))).expect_err("refused");
    assert_eq!(error.http_status(), 404);
    let id =
        container(&root, "short", json!({ "Binds": ["v2:/a"], "VolumeDriver": "toy" }), "touch /a/x").expect("made");
    let mount = json!({ "Type": "volume", "Source": "v3", "Target": "/b", "ReadOnly": true,
        "VolumeOptions": { "DriverConfig": { "Name": "toy", "Options": { "k": "v" } } } });
    let long =
        container(&root, "long", json!({ "Mounts": [mount] }), "touch /b/x || echo kept > /dev/null").expect("made");
    // Before a volume is made, the plugin is asked whether there is one of that name.
    let calls: Vec<_> = plugin.calls().into_iter().filter(|(name, _)| name != "List").collect();
    assert_eq!(calls[0], ("Create".to_owned(), json!({ "Name": "v2", "Opts": {} })));
    assert_eq!(calls[1], ("Create".to_owned(), json!({ "Name": "v3", "Opts": { "k": "v" } })));
    assert_eq!((ends(&root, &id), ends(&root, &long)), (0, 0));
    assert_eq!(root.engine.info().expect("info")["Plugins"]["Volume"], json!(["local", "toy"]));
    assert!(plugin.top.join("v2/x").exists() && !plugin.top.join("v3/x").exists());
    let list = root.engine.volume_list(&ListVolumes::default()).expect("list");
    assert_eq!(list.volumes.iter().map(|v| v.driver.as_str()).collect::<Vec<_>>(), ["toy", "toy"]);
}

#[test]
fn errors_and_silence_of_a_plugin_meet_the_caller_alone() {
    let (root, plugin) = root_with_plugin();
    plugin.rules(&json!({ "Create": "no room" }));
    let create = |name: &str| root.engine.volume_create(&volume(json!({ "Name": name, "Driver": "toy" })));
    let error = create("bad").expect_err("refused");
    assert_eq!((error.http_status(), error.message()), (500, "create bad: VolumeDriver.Create: no room"));
    assert!(root.engine.volume_inspect("bad").is_err(), "nothing is left of it");
    plugin.rules(&json!({ "Create": "garbage" }));
    assert!(create("bad").expect_err("refused").message().contains("plugin toy answered no JSON"));
    plugin.rules(&json!({ "Mount": "no way", "Remove": "stays", "Get": "hang" }));
    create("v1").expect("a volume");
    let id = container(&root, "one", json!({ "Binds": ["v1:/a"] }), "true").expect("made");
    let error = root.engine.container_start(&id, None, Some(&soon())).expect_err("refused");
    assert!(error.message().contains("error while mounting volume 'v1': VolumeDriver.Mount: no way"), "{error}");
    root.engine.container_remove(&id, RemoveContainer::default(), Some(&soon())).expect("remove");
    let error = root.engine.volume_remove("v1").expect_err("refused");
    assert_eq!(error.message(), "remove v1: VolumeDriver.Remove: stays");
    // A list waits a moment for a plugin that hangs, and shows the volume all the same.
    assert_eq!(root.engine.volume_list(&ListVolumes::default()).expect("list").volumes[0].name, "v1");
    plugin.rules(&json!({ "Create": "hang" }));
    let engine = root.engine.clone();
    let waiting = std::thread::spawn(move || engine.volume_create(&volume(json!({ "Name": "v2", "Driver": "toy" }))));
    wait_for("the call", || std::fs::read_to_string(&plugin.log).unwrap_or_default().contains("\"v2\""));
    root.engine.volume_create(&volume(json!({ "Name": "near" }))).expect("others go on");
    assert!(!waiting.is_finished());
    plugin.rules(&json!({}));
    waiting.join().expect("its thread").expect("a volume");
}

#[test]
fn a_list_asks_each_plugin_once() {
    let (root, plugin) = root_with_plugin();
    for name in ["v1", "v2", "v3"] {
        root.engine.volume_create(&volume(json!({ "Name": name, "Driver": "toy" }))).expect("a volume");
    }
    plugin.calls();
    let list = root.engine.volume_list(&ListVolumes::default()).expect("list").volumes;
    let places: Vec<_> = list.iter().map(|one| (one.name.clone(), one.mountpoint.clone(), one.scope.clone())).collect();
    let wanted = |name: &str| (name.to_owned(), plugin.top.join(name).display().to_string(), "global".to_owned());
    assert_eq!(places, ["v1", "v2", "v3"].map(wanted));
    assert_eq!(plugin.names(), ["List"]);
    plugin.rules(&json!({ "List": "hang" }));
    let list = root.engine.volume_list(&ListVolumes::default()).expect("list").volumes;
    assert!(list.iter().all(|one| one.driver == "toy" && one.mountpoint.is_empty()));
    plugin.rules(&json!({}));
}

#[test]
fn a_volume_can_be_removed_whatever_its_plugin_says() {
    let (root, plugin) = root_with_plugin();
    let create =
        |name: &str| root.engine.volume_create(&volume(json!({ "Name": name, "Driver": "toy" }))).expect("made");
    // As after a program that was killed between the plugin's removal and the engine's.
    create("half");
    std::fs::remove_dir(plugin.top.join("half")).expect("remove");
    root.engine.volume_remove("half").expect("removed: the plugin has none");
    create("stays");
    plugin.rules(&json!({ "Remove": "no" }));
    let refused = root.engine.volume_remove("stays").expect_err("refused");
    assert_eq!(refused.message(), "remove stays: VolumeDriver.Remove: no");
    root.engine.volume_remove_by_force("stays").expect("removed here");
    assert!(plugin.top.join("stays").exists() && root.engine.volume_inspect("stays").is_err());
    fails(root.engine.volume_remove_by_force("stays"), coracle::ErrorKind::NotFound, "no such volume");
    plugin.rules(&json!({}));
    create("gone");
    std::fs::remove_file(plugin.log.with_file_name("toy.sock")).expect("remove the socket");
    assert!(root.engine.volume_remove("gone").is_err());
    root.engine.volume_remove_by_force("gone").expect("removed here");
}

#[test]
fn a_create_that_fails_leaves_no_new_volume_at_a_plugin() {
    let (root, plugin) = root_with_plugin();
    let with = |name: &str| {
        let other = json!({ "Type": "volume", "Source": "other", "Target": "/b",
            "VolumeOptions": { "DriverConfig": { "Name": "none" } } });
        let first = json!({ "Type": "volume", "Source": name, "Target": "/a",
            "VolumeOptions": { "DriverConfig": { "Name": "toy" } } });
        container(&root, "bad", json!({ "Mounts": [first, other] }), "true").expect_err("no such plugin")
    };
    assert!(with("new1").message().contains("plugin \"none\" not found"));
    assert_eq!(plugin.names(), ["List", "Create", "Remove"]);
    assert!(!plugin.top.join("new1").exists());
    // A volume that the plugin had before stays.
    std::fs::create_dir(plugin.top.join("old1")).expect("a directory");
    with("old1");
    assert_eq!(plugin.names(), ["Create"]);
    assert!(plugin.top.join("old1").exists() && root.engine.volume_inspect("old1").is_err());
    // Also if the plugin cannot say now that it has the volume.
    plugin.rules(&json!({ "Get": "busy" }));
    with("old1");
    assert!(plugin.top.join("old1").exists());
    plugin.rules(&json!({ "Get": "busy", "List": "busy" }));
    with("old1");
    assert!(plugin.top.join("old1").exists());
}

#[test]
fn a_directory_without_a_row_has_the_driver_of_the_new_volume() {
    let (root, plugin) = root_with_plugin();
    let left = |name: &str, driver: Option<&str>| {
        let dir = root.dir.join("root/volumes").join(name);
        std::fs::create_dir_all(dir.join("_data")).expect("a directory");
        if let Some(driver) = driver {
            std::fs::write(dir.join("driver"), driver).expect("write");
        }
    };
    left("was-toy", Some("toy"));
    left("was-local", None);
    let local = root.engine.volume_create(&volume(json!({ "Name": "was-toy" }))).expect("made");
    assert_eq!(local.driver, "local");
    let toy = root.engine.volume_create(&volume(json!({ "Name": "was-local", "Driver": "toy" }))).expect("made");
    assert_eq!(toy.driver, "toy");
    assert_eq!(plugin.names(), ["List", "Create"]);
    for name in ["was-toy", "was-local"] {
        root.engine.volume_remove(name).expect("remove");
    }
    assert_eq!(plugin.names(), ["Remove"]);
}
