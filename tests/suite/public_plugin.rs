//! Plugins that other people made, built from their public sources: rclone and local-persist (volumes), casbin's (authorization).
//! Each runs as a program beside the engine and, the volume plugins, as a managed plugin; dockerd 20.10 gets the same requests.
//!
//! `make test-plugins` runs these tests: the builds take a while. Each test runs in a mount namespace with directories of its own at `/run` and
//! `/var/lib`, where these programs have their sockets and states.

use crate::managed_plugin::ask;
use crate::support::dockerd;
use crate::support::ended::Ended;
use crate::support::registry::Registry;
use crate::support::*;
use coracle::Engine;
use coracle::model::*;
use coracle_http::{Router, RouterOptions};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Set in the process of a test that has the mount namespace.
const INSIDE: &str = "CORACLE_SUITE_PUBLIC_PLUGIN";
/// The plugins' usual place, which programs and dockerd have built in.
const PLACE: &str = "/run/docker/plugins";

/// Runs a test again in a mount namespace; answers whether this is that run.
fn is_inside(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        let script = "set -e
            mount --make-rshared /
            for place in /run /var/lib; do mount -t tmpfs none $place; done
            mkdir -p /run/docker/plugins /var/lib/docker/plugin-data";
        dockerd::tool("sh", &["-c", script]);
        return true;
    }
    in_a_mount_namespace("private", &format!("public_plugin::{test}"), &[(INSIDE, Path::new("1"))]);
    false
}

/// Builds the program of a directory with a Go module. The tag leaves a module out that casbin's list lacks.
fn build(name: &str, module: &Path) -> PathBuf {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("public-{name}"));
    let mut command = Command::new("go");
    command.args(["build", "-tags", "nosystemd", "-trimpath", "-ldflags", "-s -w", "-o"]).arg(&program).arg(".");
    let built = command.env("CGO_ENABLED", "0").current_dir(module).output().expect("go: run tools/setup plugins");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    program
}

fn rclone() -> PathBuf {
    build("rclone", &project().join("tests/support/public-plugins/rclone"))
}

/// A program whose sources `tools/setup plugins` could fetch. `None`: it could not.
fn fetched(name: &str) -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the target directory");
    let source = target.join("plugin-sources").join(name);
    if source.join("go.mod").exists() {
        return Some(build(name, &source));
    }
    eprintln!("{name}: its sources are not here (tools/setup plugins, CORACLE_PLUGIN_SOURCES): not tested");
    None
}

/// Starts a plugin and waits until it listens.
fn serve(command: &mut Command, socket: &Path) -> Ended {
    // Whatever a plugin leaves where it was started is of the test's own `/run`.
    let command = command.current_dir("/run").stdout(Stdio::null()).stderr(Stdio::null());
    let started = Ended(command.spawn().expect("the plugin"));
    wait_for("the plugin's socket", || std::os::unix::net::UnixStream::connect(socket).is_ok());
    started
}

/// rclone as a program of the host, with its directories in `dir`.
fn serve_rclone(program: &Path, dir: &Path, socket: &Path) -> Ended {
    let at = |name: &str| dir.join(name);
    let mut command = Command::new(program);
    command.args(["serve", "docker", "--socket-addr"]).arg(socket).arg("--base-dir").arg(at("base"));
    command.arg("--cache-dir").arg(at("cache")).arg("--config").arg(at("rclone.conf"));
    std::fs::create_dir_all(at("base")).expect("a directory");
    serve(&mut command, socket)
}

fn volume(driver: &str, name: &str, options: &[(&str, &str)]) -> CreateVolume {
    let options = options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    CreateVolume { name: name.into(), driver: driver.into(), driver_opts: Some(options), ..CreateVolume::default() }
}

/// A root that finds plugins at their usual place and in a directory of its own.
fn root() -> Root {
    let root = Root::with(|options| options.plugin_dirs = vec![PLACE.into(), options.root.with_file_name("plugins")]);
    root.load(&busybox_archive());
    std::fs::create_dir(root.dir.join("plugins")).expect("a directory");
    root
}

/// Two containers use a volume of a plugin one after the other; it cannot be removed meanwhile. `file`: where the first one's file
/// comes to be.
fn use_volume(root: &Root, name: &str, file: &Path) {
    let binds = || host(json!({ "Binds": [format!("{name}:/data")] }));
    let writer = root.create("", body(&["sh", "-c", "echo hello > /data/file"], binds()));
    root.start(&writer);
    assert_eq!(root.wait(&writer), 0);
    wait_for("the file", || std::fs::read_to_string(file).is_ok_and(|text| text == "hello\n"));
    assert_eq!(root.sh_with("cat /data/file", binds()).ok(), "hello");
    let used = root.engine.volume_remove(name).expect_err("in use");
    assert_eq!(used.http_status(), 409, "{used}");
    root.engine.container_remove(&writer, RemoveContainer::default(), Some(&soon())).expect("remove");
}

fn remove_containers(root: &Root) {
    let all = ListContainers { all: true, ..ListContainers::default() };
    for one in root.engine.container_list(&all).expect("list") {
        root.engine.container_remove(&one.id, RemoveContainer::default(), Some(&soon())).expect("remove");
    }
}

/// Removes the containers that are left, and a volume.
fn remove_volume(root: &Root, name: &str) {
    remove_containers(root);
    root.engine.volume_remove(name).expect("remove");
    assert!(root.engine.volume_inspect(name).is_err());
}

#[test]
#[ignore = "the builds take a while: make test-plugins"]
fn rclone_beside_the_engine_has_volumes_in_directories() {
    if !is_inside("rclone_beside_the_engine_has_volumes_in_directories") {
        return;
    }
    let (root, program) = (root(), rclone());
    let (socket, data) = (root.dir.join("far.sock"), root.dir.join("data"));
    std::fs::create_dir(&data).expect("a directory");
    // The plugin's name is that of the file that says where the plugin is.
    std::fs::write(root.dir.join("plugins/rclone.spec"), format!("unix://{}\n", socket.display())).expect("write");
    let running = serve_rclone(&program, &root.dir, &socket);
    let refused = root.engine.volume_create(&volume("rclone", "bad", &[])).expect_err("no path");
    assert!(refused.message().starts_with("create bad: VolumeDriver.Create: "), "{refused}");
    let path = data.display().to_string();
    let options = [("type", "local"), ("path", &*path)];
    let made = root.engine.volume_create(&volume("rclone", "far", &options)).expect("a volume");
    assert_eq!((made.driver.as_str(), made.scope.as_str()), ("rclone", "local"));
    use_volume(&root, "far", &data.join("file"));
    // Another one that starts later knows the volume.
    remove_containers(&root);
    drop(running);
    let _running = serve_rclone(&program, &root.dir, &socket);
    use_volume(&root, "far", &data.join("file"));
    remove_volume(&root, "far");
    assert!(data.join("file").exists(), "rclone keeps the directory's files");
}

/// The files of a layer for `push-plugin.py`: the program, and what it needs.
fn layer(program: &Path, dir: &Path) -> Vec<String> {
    let named = |inside: &str, path: &Path| format!("{inside}={}", path.display());
    let libraries = dockerd::tool("ldd", &["/bin/fusermount3"]);
    let libraries = libraries.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from);
    let mut files: Vec<String> =
        libraries.map(|path| named(path.to_str().expect("a path").trim_start_matches('/'), &path)).collect();
    files.push(named("bin/fusermount3", Path::new("/bin/fusermount3")));
    files.push(named("plugin", program));
    for (name, text) in [("passwd", "root:x:0:0:root:/:/bin/sh\n"), ("group", "root:x:0:\n")] {
        let path = dir.join(name);
        std::fs::write(&path, text).expect("write");
        files.push(named(&format!("etc/{name}"), &path));
    }
    files
}

fn push(registry: &Registry, name: &str, config: &Value, files: &[String]) -> String {
    let mut command = Command::new("python3");
    command.arg(project().join("tests/support/push-plugin.py")).args([&registry.host(), name, "one"]);
    assert!(command.arg(config.to_string()).args(files).status().expect("python3").success());
    format!("{}/{name}:one", registry.host())
}

/// rclone as a managed plugin: the directory `/data` is one of the host.
fn managed_rclone(data: &Path) -> Value {
    json!({ "description": "rclone", "network": { "type": "null" }, "propagatedMount": "/mnt/volumes",
        "entrypoint": ["/plugin", "serve", "docker", "--base-dir", "/mnt/volumes", "--cache-dir", "/cache", "--config", "/rclone.conf"],
        "interface": { "socket": "rclone.sock", "types": ["docker.volumedriver/1.0"] },
        "env": [{ "name": "PATH", "value": "/bin" }, { "name": "HOME", "value": "/" }],
        "mounts": [{ "name": "data", "source": data, "destination": "/data", "type": "bind", "options": ["rbind"] }],
        "linux": { "capabilities": ["CAP_SYS_ADMIN"], "devices": [{ "path": "/dev/fuse" }] } })
}

fn managed_local_persist() -> Value {
    json!({ "description": "local-persist", "network": { "type": "null" }, "propagatedMount": "/mnt/volumes",
        "entrypoint": ["/plugin"], "interface": { "socket": "local-persist.sock", "types": ["docker.volumedriver/1.0"] } })
}

/// Installs a plugin with all that it needs, uses a volume, and removes the plugin, which cannot be removed before.
fn use_managed(root: &Root, (name, remote): (&str, &str), options: &[(&str, &str)], file: &dyn Fn(&Engine) -> PathBuf) {
    let engine = &root.engine;
    let request = PullPlugin { remote: remote.into(), name: name.into(), ..PullPlugin::default() };
    engine.plugin_pull(&request, &mut |_| Ok(()), Some(&soon())).expect("pull");
    engine.plugin_enable(name, None, Some(&soon())).expect("enable");
    engine.volume_create(&volume(name, "far", options)).expect("a volume");
    use_volume(root, "far", &file(engine));
    let in_use = format!("plugin {name}:latest is in use");
    fails(engine.plugin_remove(name, false, Some(&soon())), coracle::ErrorKind::Conflict, &in_use);
    fails(engine.plugin_disable(name, false, Some(&soon())), coracle::ErrorKind::Conflict, &in_use);
    remove_volume(root, "far");
    engine.plugin_disable(name, false, Some(&soon())).expect("disable");
    engine.plugin_remove(name, false, Some(&soon())).expect("remove");
}

#[test]
#[ignore = "the builds take a while: make test-plugins"]
fn rclone_as_a_managed_plugin_has_volumes_in_directories() {
    if !is_inside("rclone_as_a_managed_plugin_has_volumes_in_directories") {
        return;
    }
    let (root, data) = (root(), temp_dir());
    let registry = Registry::plain(&root.dir.join("registry"));
    let remote = push(&registry, "rclone/rclone", &managed_rclone(&data), &layer(&rclone(), &root.dir));
    let options = [("type", "local"), ("path", "/data")];
    use_managed(&root, ("rclone", &remote), &options, &|_| data.join("file"));
    std::fs::remove_dir_all(&data).expect("remove");
}

#[test]
#[ignore = "the builds take a while: make test-plugins"]
fn local_persist_has_volumes_beside_the_engine_and_as_a_managed_plugin() {
    if !is_inside("local_persist_has_volumes_beside_the_engine_and_as_a_managed_plugin") {
        return;
    }
    let Some(program) = fetched("local-persist") else { return };
    let root = root();
    let running = serve(&mut Command::new(&program), &Path::new(PLACE).join("local-persist.sock"));
    let refused = root.engine.volume_create(&volume("local-persist", "bad", &[])).expect_err("no place");
    assert_eq!(refused.message(), "create bad: VolumeDriver.Create: The `mountpoint` option is required");
    let place = root.dir.join("data");
    let path = place.display().to_string();
    let made = root.engine.volume_create(&volume("local-persist", "far", &[("mountpoint", &path)])).expect("a volume");
    assert_eq!((made.driver.as_str(), made.mountpoint.as_str()), ("local-persist", path.as_str()));
    use_volume(&root, "far", &place.join("file"));
    remove_volume(&root, "far");
    drop(running);
    let registry = Registry::plain(&root.dir.join("registry"));
    let remote = push(&registry, "cwspear/local-persist", &managed_local_persist(), &layer(&program, &root.dir));
    let file = |engine: &Engine| PathBuf::from(engine.volume_inspect("far").expect("inspect").mountpoint).join("file");
    use_managed(&root, ("local-persist", &remote), &[("mountpoint", "/mnt/volumes/far")], &file);
}

#[test]
#[ignore = "the builds take a while: make test-plugins"]
fn the_authorization_plugin_of_casbin_decides_by_its_policy() {
    if !is_inside("the_authorization_plugin_of_casbin_decides_by_its_policy") {
        return;
    }
    let Some(program) = fetched("casbin-authz-plugin") else { return };
    let root = root();
    let model = "[request_definition]\nr = obj, act\n[policy_definition]\np = obj, act\n[policy_effect]\n\
        e = some(where (p.eft == allow))\n[matchers]\nm = r.obj == p.obj && r.act == p.act\n";
    let policy = "p, /_ping, GET\np, /v1.24/volumes/create, POST\np, /v1.24/volumes, GET\n";
    let (model_path, policy_path) = (root.dir.join("model"), root.dir.join("policy"));
    std::fs::write(&model_path, model).expect("write");
    std::fs::write(&policy_path, policy).expect("write");
    let mut command = Command::new(program);
    command.arg("-model").arg(&model_path).arg("-policy").arg(&policy_path);
    let name = "casbin-authz-plugin";
    let running = serve(&mut command, &Path::new(PLACE).join(format!("{name}.sock")));
    let options = RouterOptions { authorization_plugins: Some(vec![name.into()]), ..RouterOptions::default() };
    let router = Router::with(root.engine.clone(), options);
    let flag = format!("--authorization-plugin={name}");
    let peer = dockerd::Dockerd::start_with(&root.dir.join("dockerd"), &flag);
    for (method, path, body, status) in [
        ("GET", "/_ping", Value::Null, 200),
        ("POST", "/v1.24/volumes/create", json!({ "Name": "one" }), 201),
        ("GET", "/v1.24/volumes/one", Value::Null, 403),
        ("DELETE", "/v1.24/volumes/one", Value::Null, 403),
        ("GET", "/v1.24/volumes", Value::Null, 200),
        ("GET", "/v1.24/info", Value::Null, 403),
    ] {
        let ours = ask(&router, method, path, &body);
        let theirs = of_dockerd(&root.dir.join("dockerd/sock"), method, path, &body);
        assert_eq!((ours.0, theirs.0), (status, status), "{method} {path}: {} and {}", ours.1, theirs.1);
        if status == 403 {
            assert_eq!(ours.1, theirs.1, "{method} {path}");
        }
    }
    assert!(root.engine.volume_inspect("one").is_ok());
    drop((running, peer));
    let (status, said) = ask(&router, "GET", "/_ping", &Value::Null);
    assert_eq!(status, 500, "{said}");
}

/// A request to dockerd: the status and the answer.
fn of_dockerd(socket: &Path, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let (url, socket, said) = (format!("http://x{path}"), socket.display().to_string(), body.to_string());
    let mut words = vec!["-s", "--unix-socket", &socket, "-X", method, "-w", "\n%{http_code}", &url];
    if !body.is_null() {
        words.extend(["-H", "Content-Type: application/json", "-d", &said]);
    }
    let text = dockerd::tool("curl", &words);
    let (answer, status) = text.rsplit_once('\n').unwrap_or(("", &text));
    let answer = serde_json::from_str(answer.trim()).unwrap_or_else(|_| json!(answer));
    (status.parse().expect("a status"), answer)
}

/// Requests in turn, as method, path and body. `{}` stands for the name of the engine, `DRIVER` for the driver's, `PATH` for a directory.
const BESIDE: [(&str, &str, &str); 18] = [
    ("POST", "/volumes/create", r#"{"Name":"{}-bad","Driver":"DRIVER"}"#),
    ("POST", "/volumes/create", r#"{"Name":"{}-bad","Driver":"nobody"}"#),
    ("POST", "/volumes/create", r#"{"Name":"{}-one","Driver":"DRIVER","DriverOpts":{"type":"local","path":"PATH"}}"#),
    ("POST", "/volumes/create", r#"{"Name":"{}-one","Driver":"DRIVER","DriverOpts":{"type":"local","path":"PATH"}}"#),
    ("POST", "/volumes/create", r#"{"Name":"{}-one","Driver":"local"}"#),
    ("GET", "/volumes/{}-one", ""),
    ("GET", "/volumes/{}-none", ""),
    (
        "POST",
        "/containers/create?name={}-user",
        r#"{"Image":"busybox","Cmd":["sh","-c","echo {} > /data/{}; cat /data/{}"],"HostConfig":{"NetworkMode":"none","Binds":["{}-one:/data"]}}"#,
    ),
    ("DELETE", "/volumes/{}-one", ""),
    ("POST", "/containers/{}-user/start", ""),
    ("POST", "/containers/{}-user/wait", ""),
    ("GET", "/containers/{}-user/logs?stdout=1", ""),
    ("DELETE", "/volumes/{}-one", ""),
    ("DELETE", "/containers/{}-user", ""),
    (
        "POST",
        "/containers/create?name={}-user",
        r#"{"Image":"busybox","HostConfig":{"Binds":["{}-new:/data"],"VolumeDriver":"nobody"}}"#,
    ),
    ("DELETE", "/volumes/{}-one", ""),
    ("DELETE", "/volumes/{}-one", ""),
    ("GET", "/volumes/{}-one", ""),
];

/// An answer without names, ids, times and places, which differ from one engine to the next.
fn comparable(engine: &str, answer: &Value) -> String {
    let mut text = answer.to_string().replace(engine, "NAME");
    // Identifiers of containers are 64 digits.
    while let Some(at) = text.as_bytes().windows(64).position(|part| part.iter().all(u8::is_ascii_hexdigit)) {
        text.replace_range(at..at + 64, "ID");
    }
    let mut answer: Value = serde_json::from_str(&text).expect("JSON");
    if let Some(members) = answer.as_object_mut() {
        for key in ["CreatedAt", "Mountpoint"] {
            members.remove(key);
        }
        // The answer to a wait that ended well.
        members.retain(|key, value| key != "Error" || !value.is_null());
    }
    answer.to_string()
}

fn compare(root: &Root, socket: &Path, (driver, path): (&str, &str)) {
    let router = Router::new(root.engine.clone());
    for (method, target, body) in BESIDE {
        let of = |engine: &str| {
            let body = body.replace("{}", engine).replace("DRIVER", driver).replace("PATH", path);
            let body = if body.is_empty() { Value::Null } else { serde_json::from_str(&body).expect("JSON") };
            (format!("/v1.41{}", target.replace("{}", engine)), body)
        };
        let (ours, theirs) = (of("ours"), of("dock"));
        let ours = ask(&router, method, &ours.0, &ours.1);
        let theirs = of_dockerd(socket, method, &theirs.0, &theirs.1);
        assert_eq!(ours.0, theirs.0, "{driver}: {method} {target}: {} and {}", ours.1, theirs.1);
        // A name that another driver has: the words here are those of API 1.24.
        if body.contains(r#""Driver":"local""#) {
            continue;
        }
        assert_eq!(comparable("ours", &ours.1), comparable("dock", &theirs.1), "{driver}: {method} {target}");
    }
}

#[test]
#[ignore = "the builds take a while: make test-plugins"]
fn dockerd_answers_requests_about_volumes_of_rclone_in_the_same_way() {
    if !is_inside("dockerd_answers_requests_about_volumes_of_rclone_in_the_same_way") {
        return;
    }
    let (root, data, program) = (root(), temp_dir(), rclone());
    let peer = dockerd::Dockerd::start(&root.dir.join("dockerd"));
    let socket = root.dir.join("dockerd/sock");
    peer.docker(&["load", "-i", &busybox_archive().display().to_string()]);
    let _running = serve_rclone(&program, &root.dir, &Path::new(PLACE).join("rclone.sock"));
    compare(&root, &socket, ("rclone", &data.display().to_string()));
    let registry = Registry::plain(&root.dir.join("registry"));
    let remote = push(&registry, "rclone/rclone", &managed_rclone(&data), &layer(&program, &root.dir));
    let request = PullPlugin { remote: remote.clone(), name: "far".into(), ..PullPlugin::default() };
    root.engine.plugin_pull(&request, &mut |_| Ok(()), Some(&soon())).expect("pull");
    root.engine.plugin_enable("far", None, Some(&soon())).expect("enable");
    peer.docker(&["plugin", "install", "--grant-all-permissions", "--alias", "far", &remote]);
    compare(&root, &socket, ("far", "/data"));
    root.engine.plugin_remove("far", true, Some(&soon())).expect("remove");
    peer.docker(&["plugin", "rm", "-f", "far"]);
    drop(peer);
    std::fs::remove_dir_all(&data).expect("remove");
}
