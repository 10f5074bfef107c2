//! Managed plugins: a real one, made with docker's helpers, from a real registry. The answers are those of dockerd 20.10.

use crate::log_delivery::await_delivery;
use crate::log_plugin::{end_program, holder};
use crate::log_program::processes;
use crate::support::registry::Registry;
use crate::support::*;
use crate::support::{dockerd, ended};
use coracle::model::*;
use coracle::{Engine, ErrorKind, ShipLogs};
use coracle_http::{ReplyBody, Router};
use serde_json::{Value, json};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The program of `support/plugin`, built once in a run.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("plugin");
        let mut command = Command::new("go");
        command.args(["build", "-trimpath", "-ldflags", "-s -w", "-o"]).arg(&program).arg(".");
        let built = command.env("CGO_ENABLED", "0").current_dir(project().join("tests/support/plugin")).output();
        let built = built.expect("go: run tools/setup test");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        program
    })
}

/// A plugin's configuration.
fn config(kind: &str, interface: &str, more: Value) -> Value {
    let mut config = json!({ "description": "for tests", "entrypoint": ["/plugin", "toy", kind],
        "interface": { "socket": "toy.sock", "types": [interface] }, "network": { "type": "null" } });
    config.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    config
}

fn volumes() -> Value {
    let env = json!([{ "name": "DEBUG", "value": "0", "settable": ["value"] }, { "name": "DIE", "value": "1" }]);
    config(
        "volume",
        "docker.volumedriver/1.0",
        json!({ "propagatedMount": "/mnt/volumes", "env": env,
        "linux": { "capabilities": ["CAP_SYS_ADMIN"] } }),
    )
}

struct World {
    root: Root,
    registry: Registry,
}

impl World {
    fn new() -> World {
        World::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut coracle::Options)) -> World {
        let root = Root::with(|options| {
            options.ship_logs = ShipLogs::Program;
            change(options);
        });
        root.load(&busybox_archive());
        let registry = Registry::plain(&root.dir.join("registry"));
        World { root, registry }
    }

    fn engine(&self) -> &Engine {
        &self.root.engine
    }

    /// Puts a plugin into the registry; returns its reference.
    fn push(&self, name: &str, config: &Value) -> String {
        let (repository, tag) = name.split_once(':').expect("a tag");
        let script = project().join("tests/support/push-plugin.py");
        let file = format!("plugin={}", program().display());
        let mut command = Command::new("python3");
        command.arg(script).args([&self.registry.host(), repository, tag, &config.to_string(), &file]);
        assert!(command.status().expect("python3").success());
        format!("{}/{name}", self.registry.host())
    }

    /// Installs a plugin with all that it needs, under a short name.
    fn install(&self, name: &str, remote: &str) {
        let request = PullPlugin { remote: remote.into(), name: name.into(), ..PullPlugin::default() };
        self.engine().plugin_pull(&request, &mut |_| Ok(()), Some(&soon())).expect("pull");
    }

    fn enable(&self, name: &str) {
        self.engine().plugin_enable(name, None, Some(&soon())).expect("enable");
    }

    fn disable(&self, name: &str) {
        self.engine().plugin_disable(name, true, Some(&soon())).expect("disable");
    }

    fn remove(&self, name: &str) {
        self.engine().plugin_remove(name, true, Some(&soon())).expect("remove");
    }

    /// The container of the only plugin that runs. No list shows it.
    fn container(&self) -> String {
        let mut all = std::fs::read_dir(self.root.dir.join("root/containers")).expect("the containers");
        all.next().expect("a container").expect("its directory").file_name().to_string_lossy().into_owned()
    }

    /// The first process of the only plugin that runs.
    fn pid(&self) -> i32 {
        let of = |name: &std::ffi::OsStr| name.to_str()?.parse::<i32>().ok();
        let is_it = |pid: &i32| {
            let cgroup = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
            let exe = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
            exe == Path::new("/plugin")
                && cgroup.contains(&identity(&self.root.dir.join("root"))["id"].as_str().expect("id")[..12])
        };
        let mut all = std::fs::read_dir("/proc").expect("/proc").flatten().filter_map(|one| of(&one.file_name()));
        all.find(is_it).expect("the plugin's process")
    }
}

impl Drop for World {
    /// The containers of plugins stand in no list: those of a test that failed go here.
    fn drop(&mut self) {
        let left = self.engine().plugin_list(&ListPlugins::default()).unwrap_or_default();
        for plugin in left {
            let removed = self.engine().plugin_remove(&plugin.id, true, Some(&soon()));
            assert!(removed.is_ok() || std::thread::panicking(), "{removed:?}");
        }
    }
}

/// A request to a router, with a JSON body unless it is null: status, and the answer as JSON or text.
pub(crate) fn ask(router: &Router, method: &str, target: &str, body: &Value) -> (u16, Value) {
    let (fields, bytes): (&[(&str, &str)], _) = match body {
        Value::Null => (&[], Vec::new()),
        body => (&[("Content-Type", "application/json")], body.to_string().into_bytes()),
    };
    let reply = router.request(method, target, fields, bytes, None).expect("a reply");
    let mut bytes = Vec::new();
    match reply.body {
        ReplyBody::Bytes(whole) => bytes = whole,
        ReplyBody::Stream(fd, _) => drop(File::from(fd).read_to_end(&mut bytes).expect("the stream")),
        _ => panic!("{target}: a connection"),
    }
    let text = String::from_utf8_lossy(&bytes).into_owned();
    (reply.status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

/// Set in a process whose mounts are shared.
const SHARED: &str = "CORACLE_SUITE_SHARED_MOUNTS";

/// Runs a test again where mounts are shared, as init systems set them up; answers whether this is that run.
fn are_shared(test: &str) -> bool {
    if std::env::var_os(SHARED).is_some() {
        return true;
    }
    in_a_mount_namespace("shared", &format!("managed_plugin::{test}"), &[(SHARED, Path::new("1"))]);
    false
}

fn volume(driver: &str, name: &str) -> CreateVolume {
    CreateVolume { name: name.into(), driver: driver.into(), ..CreateVolume::default() }
}

// attack: 141
#[test]
fn a_plugin_is_installed_set_and_upgraded_as_dockerd_does_it() {
    let world = World::new();
    let router = Router::new(world.engine().clone());
    let mut needy = volumes();
    needy["network"] = json!({ "type": "host" });
    needy["mounts"] = json!([{ "name": "state", "source": "/tmp", "destination": "/state", "type": "bind",
        "options": ["rbind"], "settable": ["source"] }]);
    let remote = world.push("my/toy:one", &needy);
    let (status, privileges) = ask(&router, "GET", &format!("/v1.41/plugins/privileges?remote={remote}"), &Value::Null);
    let wanted = json!([
        { "Name": "network", "Description": "permissions to access a network", "Value": ["host"] },
        { "Name": "mount", "Description": "host path to mount", "Value": ["/tmp"] },
        { "Name": "capabilities", "Description": "list of additional capabilities required", "Value": ["CAP_SYS_ADMIN"] },
    ]);
    assert_eq!((status, &privileges), (200, &wanted));
    let pull = format!("/v1.41/plugins/pull?remote={remote}&name=toy");
    let (_, refused) = ask(&router, "POST", &pull, &json!([privileges[0]]));
    assert!(refused.as_str().expect("a stream").contains("\"error\":\"incorrect privileges\""), "{refused}");
    let none = ask(&router, "POST", &pull, &Value::Null);
    assert_eq!(none, (500, json!({ "message": "failed to parse privileges: EOF" })));
    assert_eq!(ask(&router, "GET", "/v1.41/plugins", &Value::Null), (200, json!([])));
    let (status, said) = ask(&router, "POST", &pull, &privileges);
    assert!(status == 200 && said.as_str().expect("a stream").contains("\"status\":\"Digest: sha256:"), "{said}");
    let again = ask(&router, "POST", &pull, &privileges);
    assert_eq!(again, (400, json!({ "message": "plugin toy:latest already exists" })));
    let (status, shown) = ask(&router, "GET", "/v1.41/plugins/toy/json", &Value::Null);
    assert_eq!((status, &shown["Name"], &shown["Enabled"]), (200, &json!("toy:latest"), &json!(false)));
    assert_eq!(
        (&shown["PluginReference"], &shown["Config"]["PropagatedMount"]),
        (&json!(remote), &json!("/mnt/volumes"))
    );
    assert_eq!(shown["Settings"]["Env"], json!(["DEBUG=0", "DIE=1"]));
    for (change, answer) in [
        (json!(["DEBUG=1", "state.source=/var"]), (204, json!(""))),
        (json!(["DIE=2"]), (500, json!({ "message": "\"DIE\" is not settable" }))),
        (json!(["NOPE=1"]), (500, json!({ "message": "setting \"NOPE\" not found in the plugin configuration" }))),
    ] {
        assert_eq!(ask(&router, "POST", "/v1.41/plugins/toy/set", &change), answer, "{change}");
    }
    let set = world.engine().plugin_inspect("toy").expect("inspect").settings;
    assert_eq!((set.env[0].as_str(), set.mounts[0].source.as_deref()), ("DEBUG=1", Some("/var")));
    // The files of a plugin are not shown as an image, and its tag cannot be pulled as one.
    let images = world.engine().image_list(&ListImages { all: true, ..ListImages::default() }).expect("list");
    assert_eq!(images.len(), 1);
    let pulled =
        world.engine().image_pull_tags(&PullImage { name: remote, ..PullImage::default() }, &mut |_| Ok(()), None);
    fails(pulled, ErrorKind::Invalid, "target is a plugin");
    let two = world.push("my/toy:two", &volumes());
    let upgrade = ask(&router, "POST", &format!("/v1.41/plugins/toy/upgrade?remote={two}"), &json!([privileges[2]]));
    assert_eq!(upgrade.0, 200, "{}", upgrade.1);
    let newer = world.engine().plugin_inspect("toy").expect("inspect");
    assert_eq!((newer.plugin_reference.as_str(), newer.settings.env[0].as_str()), (two.as_str(), "DEBUG=0"));
    for (method, path) in [("POST", "create?name=x"), ("POST", "toy/push")] {
        assert_eq!(ask(&router, method, &format!("/v1.41/plugins/{path}"), &Value::Null).0, 501, "{path}");
    }
    assert_eq!(ask(&router, "DELETE", "/v1.41/plugins/toy", &Value::Null), (200, json!("")));
    let gone = ask(&router, "GET", "/v1.41/plugins/toy/json", &Value::Null);
    assert_eq!(gone, (404, json!({ "message": "plugin \"toy\" not found" })));
    assert!(world.root.reopen().damage_at_open().is_empty());
}

#[test]
fn the_six_routes_of_1_24_answer_as_they_are_specified() {
    let world = World::new();
    let router = Router::new(world.engine().clone());
    let remote = world.push(
        "my/guard:one",
        &config("authz", "docker.authz/1.0", json!({ "linux": { "capabilities": ["CAP_CHOWN"] } })),
    );
    let ask = |method: &str, path: &str| ask(&router, method, &format!("/v1.24/plugins{path}"), &Value::Null);
    let message = |text: &str| json!({ "message": text });
    assert_eq!(ask("GET", ""), (200, json!([])));
    let granted = json!([{ "Name": "capabilities", "Description": "list of additional capabilities required",
        "Value": ["CAP_CHOWN"] }]);
    assert_eq!(ask("POST", &format!("/pull?name={remote}")), (200, granted));
    assert_eq!(ask("POST", &format!("/pull?name={remote}")), (500, message(&format!("{remote} exists"))));
    assert_eq!(ask("POST", "/pull?name=BAD").0, 500);
    // Routes of later versions: the name of a plugin, or none.
    for (path, name) in [("/privileges?remote=x", "privileges"), ("/x/json", "x/json")] {
        assert_eq!(ask("GET", path), (404, message(&format!("plugin {name:?} not found"))), "{path}");
    }
    for path in ["/create?name=x", "/x/upgrade?remote=y"] {
        assert_eq!(ask("POST", path), (404, message("page not found")), "{path}");
    }
    let (status, shown) = ask("GET", &format!("/{remote}"));
    let name = remote.strip_suffix(":one").expect("a tag");
    assert_eq!(
        (status, &shown["Name"], &shown["Tag"], &shown["Active"]),
        (200, &json!(name), &json!("one"), &json!(false))
    );
    assert_eq!(shown["Manifest"]["Interface"], json!({ "Types": ["docker.authz/1.0"], "Socket": "toy.sock" }));
    assert_eq!(
        ask("POST", &format!("/{remote}/disable")),
        (500, message(&format!("plugin {remote} is already disabled")))
    );
    assert_eq!(ask("POST", &format!("/{remote}/enable")), (200, json!("")));
    assert_eq!(
        ask("POST", &format!("/{remote}/enable")),
        (500, message(&format!("plugin {remote} is already enabled")))
    );
    assert_eq!(ask("DELETE", &format!("/{remote}")), (500, message(&format!("plugin {remote} is active"))));
    assert_eq!(ask("GET", "").1[0]["Active"], true);
    assert_eq!(ask("POST", &format!("/{remote}/disable")), (200, json!("")));
    assert_eq!(ask("DELETE", &format!("/{remote}")), (200, json!("")));
    for (method, path) in [("GET", "/x"), ("DELETE", "/x"), ("POST", "/x/enable"), ("POST", "/x/disable")] {
        assert_eq!(ask(method, path), (404, message("plugin \"x\" not found")), "{method} {path}");
    }
}

#[test]
fn an_authorization_plugin_of_the_engine_is_asked() {
    let world = World::with(|options| options.authorization_plugins = vec!["guard".into()]);
    world.install("guard", &world.push("my/guard:one", &config("authz", "docker.authz/1.0", json!({}))));
    let chain = world.engine().authorization(&["guard".to_owned()]);
    let disabled = chain.check().expect_err("disabled");
    assert!(disabled.message().ends_with("plugin guard:latest found but disabled"), "{disabled}");
    world.enable("guard");
    chain.check().expect("there");
    let question = |user: &str| json!({ "User": user, "RequestMethod": "GET", "RequestUri": "/info" });
    chain.ask_request(&question("alice")).expect("allowed");
    let denied = chain.ask_request(&question("mallory")).expect_err("denied");
    assert_eq!(denied.message(), "authorization denied by plugin guard: not mallory");
    let volume = world.engine().volume_create(&CreateVolume { driver: "guard".into(), ..CreateVolume::default() });
    assert!(volume.expect_err("another kind").message().contains("does not implement \"VolumeDriver\""));
    // A plugin that dies is there again: its monitor restarts it.
    let pid = world.pid();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL).expect("kill");
    world.root.wait_for("the plugin", || chain.ask_request(&question("alice")).is_ok());
    assert_ne!(world.pid(), pid);
    world.remove("guard");
}

#[test]
fn a_plugin_that_was_killed_is_called_again_though_its_socket_stays() {
    let world = World::new();
    world.install("guard", &world.push("my/guard:one", &config("bare", "docker.authz/1.0", json!({}))));
    world.enable("guard");
    let chain = world.engine().authorization(&["guard".to_owned()]);
    let answers =
        || chain.ask_request(&json!({ "User": "alice", "RequestMethod": "GET", "RequestUri": "/info" })).is_ok();
    let kill = || {
        let pid = world.pid();
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL).expect("kill");
        pid
    };
    for _ in 0..3 {
        let pid = kill();
        world.root.wait_for("the plugin", answers);
        assert_ne!(world.pid(), pid);
    }
    // A file in the place of the socket stays, whose maker is the plugin.
    let (id, plugin) = (world.container(), world.engine().plugin_inspect("guard").expect("inspect").id);
    let socket = world.root.dir.join("run/plugins").join(&plugin[..16]).join("toy.sock");
    std::fs::remove_file(&socket).expect("remove the socket");
    std::fs::write(&socket, "kept").expect("a file");
    let restarts = || world.root.inspect(&id).restart_count;
    let before = restarts();
    kill();
    world.root.wait_for("restarts", || restarts() > before + 2);
    assert_eq!(std::fs::read_to_string(&socket).expect("the file"), "kept");
    std::fs::remove_file(&socket).expect("remove the file");
    world.root.wait_for("the plugin", answers);
    world.remove("guard");
}

/// Installs the log plugin `scribe`, which writes the lines into a file of a directory; answers the directory.
fn scribe(world: &World) -> PathBuf {
    let state = world.root.dir.join("state");
    std::fs::create_dir(&state).expect("a directory");
    let mount = json!([{ "name": "state", "destination": "/state", "type": "bind", "settable": ["source"] }]);
    world.install(
        "scribe",
        &world.push("my/scribe:one", &config("log", "docker.logdriver/1.0", json!({ "mounts": mount }))),
    );
    let unset = world.engine().plugin_enable("scribe", None, Some(&soon()));
    fails(unset, ErrorKind::Invalid, "mount \"state\": mount source is not specified");
    world.engine().plugin_set("scribe", &[format!("state.source={}", state.display())]).expect("set");
    world.enable("scribe");
    state
}

#[test]
fn a_log_plugin_of_the_engine_gets_lines() {
    let world = World::new();
    let state = scribe(&world);
    let info = world.engine().info().expect("info");
    assert!(info["Plugins"]["Log"].as_array().expect("a list").contains(&json!("scribe:latest")), "{info:?}");
    let log = json!({ "HostConfig": { "LogConfig": { "Type": "scribe" } } });
    let as_default = |world: &World| {
        let mut options = options_at(&world.root.dir);
        options.log_driver = "scribe".into();
        options.check()
    };
    as_default(&world).expect("a log driver");
    // A plugin that gets the lines of a running container is in use.
    let user = world.root.create("user", body(&["sleep", "1000"], log.clone()));
    world.root.start(&user);
    fails(
        world.engine().plugin_disable("scribe", false, Some(&soon())),
        ErrorKind::Conflict,
        "scribe:latest is in use",
    );
    fails(world.engine().plugin_remove("scribe", false, Some(&soon())), ErrorKind::Conflict, "scribe:latest is in use");
    let force = RemoveContainer { force: true, ..RemoveContainer::default() };
    world.engine().container_remove(&user, force, Some(&soon())).expect("remove");
    let id = world.root.create("web", body(&["sh", "-c", "echo one; echo two >&2"], log));
    world.root.start(&id);
    assert_eq!(world.root.wait(&id), 0);
    let read = || std::fs::read_to_string(state.join("log")).unwrap_or_default();
    world.root.wait_for("the lines", || read() == "/web stdout one\n/web stderr two\n");
    assert_eq!(world.root.logs(&id).stdout, b"one\n");
    world.engine().plugin_disable("scribe", false, Some(&soon())).expect("not in use");
    assert!(as_default(&world).expect_err("disabled").message().contains("no log driver named 'scribe'"));
    world.remove("scribe");
}

#[test]
fn fifos_of_a_plugin_and_one_that_cannot_be_removed_start_no_program() {
    let world = World::new();
    let (root, state) = (&world.root, scribe(&world));
    let log = json!({ "HostConfig": { "LogConfig": { "Type": "scribe" } } });
    let id = root.create("long", body(&["sh", "-c", "echo first; sleep 1000"], log));
    root.start(&id);
    root.wait_for("the line", || {
        std::fs::read_to_string(state.join("log")).is_ok_and(|text| text.ends_with("first\n"))
    });
    await_delivery(root, &id);
    let plugin = world.engine().plugin_inspect("scribe").expect("inspect").id;
    let fifos = root.dir.join(format!("run/plugins/{}-logging", &plugin[..16]));
    let more = fifos.join(format!("{id}-more"));
    nix::unistd::mkfifo(&more, nix::sys::stat::Mode::S_IRWXU).expect("a FIFO of the plugin's own");
    // The program has no right of root's: in this directory it can remove nothing, and see nothing.
    std::os::unix::fs::chown(&fifos, Some(65534), Some(65534)).expect("chown");
    std::fs::set_permissions(&fifos, std::fs::Permissions::from_mode(0o700)).expect("chmod");
    end_program(root, libc::SIGKILL);
    root.wait_for("the next program", || holder(root)["Programs"] == 2);
    root.engine.container_kill(&id, None, Some(&soon())).expect("kill");
    root.wait(&id);
    root.wait_for("the end of the program", || processes(&root.dir).is_empty());
    let ended = holder(root);
    let mut options = options_at(&root.dir);
    options.ship_logs = ShipLogs::Program;
    drop(Engine::open_with(options).expect("open"));
    assert_eq!(holder(root), ended, "nothing is owed");
    assert_eq!((ended["Programs"].as_u64(), std::fs::read_dir(&fifos).expect("the FIFOs").count()), (Some(2), 2));
    let force = RemoveContainer { force: true, ..RemoveContainer::default() };
    root.engine.container_remove(&id, force, Some(&soon())).expect("remove");
    world.remove("scribe");
}

#[test]
fn volumes_of_a_plugin_of_the_engine_are_seen_by_containers() {
    if !are_shared("volumes_of_a_plugin_of_the_engine_are_seen_by_containers") {
        return;
    }
    let world = World::new();
    world.install("toy", &world.push("my/toy:one", &volumes()));
    world.enable("toy");
    let made = world.engine().volume_create(&volume("toy", "far")).expect("a volume");
    assert_eq!(made.driver, "toy:latest");
    let mounts = world
        .root
        .sh_with("cat /data/made; echo more > /data/more; cat /data/more", host(json!({ "Binds": ["far:/data"] })));
    assert!(mounts.ok().ends_with("more"), "{}", mounts.ok());
    // Nobody sees the container, or its events.
    assert_eq!(world.engine().info().expect("info")["ContainersRunning"], 0);
    let all = ListContainers { all: true, ..ListContainers::default() };
    assert!(world.engine().container_list(&all).expect("list").iter().all(|one| !one.names[0].contains("plugin")));
    let name = format!("plugin-{}", &world.engine().plugin_inspect("toy").expect("inspect").id[..16]);
    fails(world.engine().container_inspect(&name, false), ErrorKind::NotFound, "No such container");
    let query = EventQuery { since_ns: Some(0), ..EventQuery::default() };
    let mut events = world.engine().events(&query).expect("events");
    let events = events_until(&mut events, |event| event.kind == "container" && event.action == "die");
    let told: Vec<_> = events.iter().map(|event| format!("{} {}", event.kind, event.action)).collect();
    assert!(
        events.iter().all(|event| !event.actor.attributes.get("name").is_some_and(|name| name.starts_with("plugin-")))
    );
    let of_plugin: Vec<_> = told.iter().filter(|one| one.starts_with("plugin")).collect();
    assert_eq!(of_plugin, ["plugin pull", "plugin enable"], "{told:?}");
    let info = world.engine().info().expect("info");
    assert!(info["Plugins"]["Volume"].as_array().expect("a list").contains(&json!("toy:latest")), "{info:?}");
    for what in ["disable", "remove"] {
        let refused = match what {
            "disable" => world.engine().plugin_disable("toy", false, Some(&soon())),
            _ => world.engine().plugin_remove("toy", false, Some(&soon())),
        };
        fails(refused, ErrorKind::Conflict, "plugin toy:latest is in use");
    }
    // A plugin that dies while it makes a volume: the next call finds it again.
    let died = world.engine().volume_create(&volume("toy:latest", "die"));
    assert!(died.is_err() || died.is_ok());
    world.root.wait_for("the plugin", || world.engine().volume_create(&volume("toy", "die")).is_ok());
    for name in ["die", "far"] {
        world.engine().volume_remove(name).expect("remove");
    }
    world.engine().plugin_disable("toy", false, Some(&soon())).expect("disable");
    fails(
        world.engine().volume_create(&volume("toy", "xx")),
        ErrorKind::NotFound,
        "plugin toy:latest found but disabled",
    );
    world.engine().plugin_remove("toy", false, Some(&soon())).expect("remove");
    let left = std::fs::read_dir(world.root.dir.join("root/plugins")).expect("list").count();
    assert_eq!(left, 0);
}

/// A plugin without any right of the host.
fn weak(name: &str, world: &World) {
    let config = config(
        "volume",
        "docker.volumedriver/1.0",
        json!({ "propagatedMount": "/mnt/volumes",
        "env": [{ "name": "PLAIN", "value": "1" }] }),
    );
    let remote = world.push(&format!("my/{name}:one"), &config);
    let none = world.engine().plugin_privileges(&remote, &Default::default(), Some(&soon())).expect("privileges");
    assert!(none.is_empty(), "{none:?}");
    world.install(name, &remote);
    world.enable(name);
}

// attack: R22 wall volume-parts
#[test]
fn the_links_of_a_plugin_without_rights_lead_to_no_files_of_the_host() {
    if !are_shared("the_links_of_a_plugin_without_rights_lead_to_no_files_of_the_host") {
        return;
    }
    let world = World::new();
    weak("toy", &world);
    let secret = world.root.dir.join("secret");
    std::fs::create_dir(&secret).expect("a directory");
    std::fs::write(secret.join("key"), "of the host").expect("a file");
    let make = |name: &str, link: Option<&str>| {
        let options = link.map(|link| StringMap::from([("link".to_owned(), link.to_owned())]));
        let request = CreateVolume { driver_opts: options, ..volume("toy", name) };
        world.engine().volume_create(&request).expect("a volume");
    };
    make("plain", None);
    make("near", Some("plain"));
    make("root", Some("/"));
    make("far", Some(&secret.display().to_string()));
    make("up", Some("../../../../../../../../../../.."));
    // A link that stays with the plugin leads on.
    let seen = host(json!({ "Binds": ["near:/data"] }));
    assert_eq!(world.root.sh_with("echo here > /data/file; cat /data/file", seen).ok(), "here");
    let read = json!({ "Binds": ["plain:/data"] });
    assert_eq!(
        world.root.sh_with("mkdir /data/sub; ln -s ../near/sub /data/aside; cat /data/file", host(read)).ok(),
        "here"
    );
    let part = |volume: &str, path: &str| json!({ "Type": "volume", "Source": volume, "Target": "/data", "VolumeOptions": { "Subpath": path } });
    for (mount, inside) in [
        (json!({ "Binds": ["root:/data"] }), secret.join("key")),
        (json!({ "Binds": ["up:/data"] }), secret.join("key")),
        (json!({ "Binds": ["far:/data"] }), "/key".into()),
        (json!({ "Mounts": [part("far", ".")] }), "/key".into()),
        (json!({ "Mounts": [part("root", "etc")] }), "/hostname".into()),
        // Nor do links of a container lead from its volume to another one.
        (json!({ "Mounts": [part("plain", "aside")] }), "/".into()),
    ] {
        let id =
            world.root.create("reader", body(&["cat", &format!("/data{}", inside.display())], host(mount.clone())));
        let started = world.engine().container_start(&id, None, Some(&soon()));
        assert!(started.is_err(), "{mount}: {}", world.root.logs(&id).out());
        let path = format!("/data{}", inside.display());
        let copied = world.engine().container_archive_get(&id, &path, Some(&soon()));
        assert!(copied.is_err(), "{mount}: cp reads it");
        let tar = crate::support::archive::Tar::new().file("put", b"from outside").end();
        let put = world.engine().container_archive_put(&id, "/data", &mut &tar[..], PutArchive::default(), None);
        assert!(put.is_err(), "{mount}: cp writes there");
        let force = RemoveContainer { force: true, ..RemoveContainer::default() };
        world.engine().container_remove(&id, force, Some(&soon())).expect("remove");
    }
    assert_eq!(std::fs::read_dir(&secret).expect("list").count(), 1);
    assert!(!Path::new("/put").exists() && !Path::new("/etc/put").exists());
    assert_eq!(
        world.root.sh_with("cat /data/../data/file", host(json!({ "Mounts": [part("plain", ".")] }))).ok(),
        "here"
    );
    world.remove("toy");
}

// attack: R21 wall plugin-sockets
#[test]
fn a_plugin_whose_socket_is_a_link_leads_to_no_other_socket() {
    let world = World::new();
    weak("toy", &world);
    let other = world.root.dir.join("other.sock");
    let listener = std::os::unix::net::UnixListener::bind(&other).expect("listen");
    listener.set_nonblocking(true).expect("an option");
    let options = StringMap::from([("socket".to_owned(), other.display().to_string())]);
    let request = CreateVolume { driver_opts: Some(options), ..volume("toy", "swap") };
    world.engine().volume_create(&request).expect("a volume");
    let error = world.engine().volume_create(&volume("toy", "one")).expect_err("the socket is a link");
    assert!(error.message().contains("links are not followed"), "{error}");
    let called = listener.accept().map(drop).expect_err("the engine called another socket");
    assert_eq!(called.kind(), std::io::ErrorKind::WouldBlock);
    world.remove("toy");
}

#[test]
fn a_plugin_that_accepts_nobody_holds_up_no_call() {
    let world = World::new();
    world.install("deaf", &world.push("my/deaf:one", &config("deaf", "docker.authz/1.0", json!({}))));
    let tried = world.engine().plugin_enable("deaf", Some(std::time::Duration::from_secs(1)), Some(&soon()));
    assert!(tried.expect_err("nobody answers").message().contains("dial unix"));
    assert!(!world.engine().plugin_inspect("deaf").expect("inspect").enabled);
    world.remove("deaf");
}

#[test]
fn a_cancelled_disable_disables_the_plugin_or_leaves_it() {
    let world = World::new();
    world.install("guard", &world.push("my/guard:one", &config("authz", "docker.authz/1.0", json!({}))));
    world.enable("guard");
    let pid = world.pid();
    let op = soon();
    op.cancel();
    let disabled = world.engine().plugin_disable("guard", false, Some(&op));
    let there = world.engine().plugin_inspect("guard").expect("inspect").enabled;
    assert_eq!(disabled.is_err(), there);
    if there {
        world.disable("guard");
    }
    assert!(!Path::new(&format!("/proc/{pid}")).exists(), "a disabled plugin runs");
    world.remove("guard");
}

#[test]
fn an_open_removes_what_a_killed_removal_left() {
    let world = World::new();
    let (root, run) = (world.root.dir.join("root/plugins"), world.root.dir.join("run/plugins"));
    let left =
        [root.join("0123456789abcdef/mounts"), run.join("0123456789abcdef"), run.join("fedcba9876543210-logging")];
    left.iter().for_each(|dir| std::fs::create_dir_all(dir).expect("a directory"));
    drop(world.root.reopen());
    for dir in [root, run] {
        assert_eq!(std::fs::read_dir(&dir).expect("list").count(), 0, "{}", dir.display());
    }
}

#[test]
fn copies_of_a_root_have_plugins_of_their_own() {
    let world = World::new();
    world.install("guard", &world.push("my/guard:one", &config("authz", "docker.authz/1.0", json!({}))));
    world.enable("guard");
    let (pid, chain) = (world.pid(), world.engine().authorization(&["guard".to_owned()]));
    let dirs = ["copied", "moved"].map(|name| world.root.dir.join(name));
    dirs.iter().for_each(|dir| std::fs::create_dir(dir).expect("a directory"));
    let report =
        world.engine().snapshot_root(dirs[0].join("root"), CopyRoot::default(), &mut |_| Ok(()), Some(&soon()));
    let left = report.expect("copied").left;
    assert!(left.iter().any(|one| (one.kind.as_str(), one.name.as_str()) == ("plugin", "guard:latest")), "{left:?}");
    let copied = Command::new("cp").arg("-a").arg(world.root.dir.join("root")).arg(&dirs[1]).status();
    assert!(copied.expect("cp").success());
    for dir in &dirs {
        let mut options = options_at(dir);
        options.restart_containers = true;
        let copy = Root { engine: Engine::open_with(options).expect("open the copy"), dir: dir.clone() };
        let engine = &copy.engine;
        if dir == &dirs[0] {
            assert!(!engine.plugin_inspect("guard").expect("inspect").enabled);
            engine.plugin_enable("guard", None, Some(&soon())).expect("enable");
        }
        let own = engine.authorization(&["guard".to_owned()]);
        copy.wait_for("the copy's own plugin", || own.ask_request(&json!({ "User": "alice" })).is_ok());
        chain.ask_request(&json!({ "User": "alice" })).expect("the original's plugin answers");
        assert_eq!(world.pid(), pid);
        engine.plugin_remove("guard", true, Some(&soon())).expect("remove");
        chain.ask_request(&json!({ "User": "alice" })).expect("the original's plugin answers");
    }
    world.remove("guard");
}

#[test]
fn the_containers_of_a_moved_root_start_after_its_plugins() {
    let world = World::new();
    weak("toy", &world);
    world.engine().volume_create(&volume("toy", "vv")).expect("a volume");
    let host = json!({ "Binds": ["vv:/data"], "RestartPolicy": { "Name": "always" } });
    let id = world.root.create("user", body(&["sleep", "1000"], json!({ "HostConfig": host })));
    world.root.start(&id);
    let dir = world.root.dir.join("moved");
    std::fs::create_dir(&dir).expect("a directory");
    let copied = Command::new("cp").arg("-a").arg(world.root.dir.join("root")).arg(&dir).status();
    assert!(copied.expect("cp").success());
    crate::restart::before_a_boot(&dir.join("root"));
    let mut options = options_at(&dir);
    options.restart_containers = true;
    let moved = Root { engine: Engine::open_with(options).expect("open the moved root"), dir: dir.clone() };
    let (status, found) = (moved.status("user"), moved.inspect("user"));
    let force = RemoveContainer { force: true, ..RemoveContainer::default() };
    moved.engine.container_remove("user", force, Some(&soon())).expect("remove");
    moved.engine.plugin_remove("toy", true, Some(&soon())).expect("remove");
    assert_eq!(status, "running", "{}", found.state.error);
    world.engine().container_kill(&id, None, Some(&soon())).expect("kill");
}

#[test]
fn an_open_starts_plugins_whose_monitors_were_killed() {
    if !are_shared("an_open_starts_plugins_whose_monitors_were_killed") {
        return;
    }
    let world = World::new();
    world.install("toy", &world.push("my/toy:one", &volumes()));
    world.enable("toy");
    world.engine().volume_create(&volume("toy", "vv")).expect("a volume");
    // The monitor is killed, and the plugin with it; another open starts the plugin again.
    let monitor = monitor_of(world.pid());
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(monitor), nix::sys::signal::Signal::SIGKILL).expect("kill");
    let mut options = options_at(&world.root.dir);
    options.restart_containers = true;
    let second = Engine::open_with(options).expect("open");
    world.root.wait_for("the plugin", || second.volume_inspect("vv").is_ok_and(|volume| !volume.mountpoint.is_empty()));
    world.disable("toy");
    assert!(!second.plugin_inspect("toy").expect("inspect").enabled);
    drop(second);
    world.enable("toy");
    world.engine().volume_remove("vv").expect("remove");
    world.remove("toy");
}

/// So many rounds; with `CORACLE_TORTURE` fifty.
fn rounds() -> usize {
    if std::env::var_os("CORACLE_TORTURE").is_some() { 50 } else { 4 }
}

#[test]
fn a_program_that_is_killed_while_it_changes_a_plugin_leaves_it_whole() {
    let world = World::new();
    world.install("guard", &world.push("my/guard:one", &config("authz", "docker.authz/1.0", json!({}))));
    let (root, run) = (world.root.dir.join("root"), world.root.dir.join("run"));
    let mut random = Random(20_261_126);
    for round in 0..rounds() {
        let wanted = if round % 2 == 0 { "enable" } else { "disable" };
        let mut command = Command::new(built("coracle"));
        command.arg("--root").arg(&root).arg("--run").arg(&run).args(["plugin", wanted, "guard"]);
        let mut child = ended::Ended(command.stdout(std::process::Stdio::null()).spawn().expect("the command"));
        std::thread::sleep(std::time::Duration::from_millis(random.below(150) as u64));
        child.0.kill().expect("kill");
        child.0.wait().expect("wait");
        let second = world.root.reopen();
        let plugin = second.plugin_inspect("guard").expect("inspect");
        if plugin.enabled {
            let chain = second.authorization(&["guard".to_owned()]);
            chain.check().expect("an enabled plugin answers");
            second.plugin_disable("guard", false, Some(&soon())).expect("disable");
        }
        second.plugin_enable("guard", None, Some(&soon())).expect("enable");
        second.plugin_disable("guard", false, Some(&soon())).expect("disable");
        if wanted == "enable" {
            second.plugin_enable("guard", None, Some(&soon())).expect("enable");
        }
    }
    world.remove("guard");
}

/// Requests in turn, whose answers are compared with those of dockerd. `{}` stands for the registry.
const BESIDE: [(&str, &str, &str); 24] = [
    ("GET", "/plugins", ""),
    ("GET", "/plugins/privileges?remote={}/my/toy:one", ""),
    ("GET", "/plugins/privileges?remote=BAD", ""),
    ("POST", "/plugins/pull?remote={}/my/toy:one", ""),
    ("POST", "/plugins/pull?remote={}/my/toy:one&name=toy", "GRANTED"),
    ("POST", "/plugins/pull?remote={}/my/toy:one&name=toy", "GRANTED"),
    ("GET", "/plugins/toy/json", ""),
    ("GET", "/plugins/none/json", ""),
    ("POST", "/plugins/toy/set", "[\"DEBUG=2\"]"),
    ("POST", "/plugins/toy/set", "[\"DIE=2\"]"),
    ("POST", "/plugins/toy/set", "[\"=2\"]"),
    ("POST", "/plugins/none/set", "[]"),
    ("POST", "/plugins/toy/disable", ""),
    ("POST", "/plugins/toy/enable", ""),
    ("POST", "/plugins/toy/enable?timeout=x", ""),
    ("POST", "/plugins/none/enable?timeout=5", ""),
    ("POST", "/plugins/toy/enable?timeout=10", ""),
    ("POST", "/plugins/toy/enable?timeout=10", ""),
    ("POST", "/plugins/toy/set", "[\"DEBUG=3\"]"),
    ("DELETE", "/plugins/toy", ""),
    ("POST", "/plugins/toy/disable", ""),
    ("GET", "/plugins?filters={\"capability\":[\"volumedriver\"]}", ""),
    ("DELETE", "/plugins/toy", ""),
    ("DELETE", "/plugins/toy", ""),
];

/// With `CORACLE_TORTURE`: dockerd takes a while to start.
#[test]
fn dockerd_answers_requests_about_plugins_in_the_same_way() {
    if std::env::var_os("CORACLE_TORTURE").is_none()
        || !are_shared("dockerd_answers_requests_about_plugins_in_the_same_way")
    {
        return;
    }
    let world = World::new();
    world.push("my/toy:one", &volumes());
    let peer = dockerd::Dockerd::start(&world.root.dir.join("dockerd"));
    let socket = world.root.dir.join("dockerd/sock");
    let router = Router::new(world.engine().clone());
    let granted = json!([{ "Name": "capabilities", "Value": ["CAP_SYS_ADMIN"] }]);
    for (method, path, body) in BESIDE {
        let target = format!("/v1.41{}", path.replace("{}", &world.registry.host()));
        let escaped =
            target.replace('{', "%7B").replace('}', "%7D").replace('"', "%22").replace('[', "%5B").replace(']', "%5D");
        let body = match body {
            "" => Value::Null,
            "GRANTED" => granted.clone(),
            text => serde_json::from_str(text).expect("JSON"),
        };
        let ours = ask(&router, method, &escaped, &body);
        let url = format!("http://x{escaped}");
        let (said, path) = (body.to_string(), socket.display().to_string());
        let mut words = vec!["-s", "--unix-socket", &path, "-X", method, "-w", "\n%{http_code}", &url];
        if !body.is_null() {
            words.extend(["-H", "Content-Type: application/json", "-d", &said]);
        }
        let text = dockerd::tool("curl", &words);
        let (answer, status) = text.rsplit_once('\n').unwrap_or(("", &text));
        let theirs: Value = serde_json::from_str(answer.trim()).unwrap_or_else(|_| json!(answer));
        assert_eq!(ours.0.to_string(), status, "{method} {target}: {} and {theirs}", ours.1);
        // Streams differ in their steps.
        if !target.contains("/pull") || ours.0 != 200 {
            assert_eq!(comparable(ours.1), comparable(theirs), "{method} {target}");
        }
    }
    drop(peer);
}

/// Without members that differ from one installation to the next.
fn comparable(mut answer: Value) -> Value {
    let strip = |one: &mut Value| {
        if let Some(members) = one.as_object_mut().filter(|members| members.contains_key("PluginReference")) {
            members.remove("Id");
            // dockerd adds its own version where a configuration has none.
            members["Config"].as_object_mut().map(|config| config.remove("DockerVersion"));
        }
    };
    match &mut answer {
        Value::Array(list) => list.iter_mut().for_each(strip),
        one => strip(one),
    }
    answer
}

#[test]
fn the_commands_of_the_page_about_plugins_run() {
    if !are_shared("the_commands_of_the_page_about_plugins_run") {
        return;
    }
    let world = World::new();
    let remote = world.push("vieux/sshfs:latest", &volumes());
    let page = std::fs::read_to_string(project().join("docs/plugins.md")).expect("the page");
    let block = page.split("## Managed plugins\n\n```\n").nth(1).and_then(|rest| rest.split("```").next());
    let lines: Vec<&str> = block.expect("commands").lines().collect();
    assert!(lines.len() > 5, "{lines:?}");
    for line in lines {
        let line = line.replace("vieux/sshfs", &remote);
        let words = line.strip_prefix("coracle ").expect("a command").split(' ');
        let mut command = Command::new(built("coracle"));
        command.arg("--root").arg(world.root.dir.join("root")).arg("--run").arg(world.root.dir.join("run"));
        let out = command.args(words).output().expect("the command");
        assert!(out.status.success(), "{line}: {}", String::from_utf8_lossy(&out.stderr));
    }
    assert!(world.engine().plugin_list(&ListPlugins::default()).expect("list").is_empty());
}
