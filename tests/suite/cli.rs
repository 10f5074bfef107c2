//! The command `coracle`, run as a user does.

use crate::support::ended::Ended;
use crate::support::*;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// The command on a test's root.
pub(super) fn coracle(root: &Path) -> Command {
    let mut command = Command::new(built("coracle"));
    command.args(["--root".as_ref(), root.join("root").as_os_str()]);
    command.args(["--run".as_ref(), root.join("run").as_os_str()]).stdin(Stdio::null());
    command
}

fn run(root: &Root, words: &[&str]) -> Output {
    coracle(&root.dir).args(words).output().expect("run coracle")
}

/// Returns the command's standard output; fails the test if it failed.
#[track_caller]
pub(super) fn ok(root: &Root, words: &[&str]) -> String {
    let output = run(root, words);
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

/// Exit code and standard error.
pub(super) fn failed(root: &Root, words: &[&str]) -> (i32, String) {
    let output = run(root, words);
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&output.stderr).trim_end().to_owned())
}

#[test]
fn a_command_that_only_looks_makes_no_root() {
    let dir = temp_dir();
    let root = dir.join("root");
    for words in [
        &["ps"][..],
        &["images"],
        &["inspect", "nosuch"],
        &["run", "--pull", "never", "busybox"],
        &["load", "-i", "/nosuch"],
    ] {
        let output = coracle(&dir).args(words).output().expect("run coracle");
        assert!(!output.status.success() && !root.exists(), "{words:?}: {output:?}");
    }
    let output = coracle(&dir).arg("ps").output().expect("run coracle");
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        format!("coracle: there is no engine root at {}\n", root.display())
    );
    let output = coracle(&dir).arg("version").output().expect("run coracle");
    assert!(output.status.success() && !root.exists(), "{output:?}");
    std::fs::remove_dir_all(&dir).expect("clean up");
}

#[test]
fn a_root_that_a_failing_command_made_is_taken_back() {
    let dir = temp_dir();
    let root = dir.join("root");
    let bad = dir.join("bad.tar");
    std::fs::write(&bad, "no archive").expect("write");
    std::fs::create_dir(dir.join("context")).expect("make");
    std::fs::write(dir.join("context/Dockerfile"), "FROM nosuch\nRUN").expect("write");
    let (bad, context) = (bad.display().to_string(), dir.join("context").display().to_string());
    let failing = [&["load", "-i", &bad][..], &["build", &context], &["pull", "127.0.0.1:1/nosuch"]];
    for words in failing {
        let output = coracle(&dir).args(words).output().expect("run coracle");
        assert!(!output.status.success() && !root.exists(), "{words:?}: {output:?}");
        assert!(!dir.join("run").exists(), "{words:?}");
    }
    // A directory that was there stays.
    std::fs::create_dir(&root).expect("make");
    let output = coracle(&dir).args(["load", "-i", &bad]).output().expect("run coracle");
    assert!(!output.status.success() && std::fs::read_dir(&root).expect("read").next().is_none(), "{output:?}");
    // A root with something in it does, and one that somebody uses.
    let made = coracle(&dir).args(["volume", "create", "kept"]).output().expect("run coracle");
    assert!(made.status.success(), "{made:?}");
    for words in failing {
        assert!(!coracle(&dir).args(words).output().expect("run coracle").status.success());
    }
    let listed = coracle(&dir).args(["volume", "ls", "-q"]).output().expect("run coracle");
    assert_eq!(String::from_utf8_lossy(&listed.stdout), "kept\n");
    std::fs::remove_dir_all(&dir).expect("clean up");
}

#[test]
fn a_root_that_is_used_or_holds_something_is_not_discarded() {
    let root = Root::empty();
    assert!(!root.reopen().discard_if_empty().expect("look"), "another uses it");
    let dir = temp_dir();
    let open = || coracle::Engine::open_with(options_at(&dir)).expect("open");
    let network = serde_json::json!({ "Name": "made" });
    let engine = open();
    engine.network_create(&serde_json::from_value(network).expect("a body")).expect("create a network");
    assert!(!engine.discard_if_empty().expect("look"), "it has a network");
    let engine = open();
    engine.network_remove("made").expect("remove the network");
    engine.network_release().expect("release");
    assert!(engine.discard_if_empty().expect("discard"));
    assert_eq!(std::fs::read_dir(dir.join("root")).expect("read").count(), 0);
    drop(open());
    std::fs::remove_dir_all(&dir).expect("clean up");
}

#[test]
fn a_life_by_hand() {
    let root = Root::empty();
    let archive = busybox_archive().display().to_string();
    assert_eq!(ok(&root, &["load", "-i", &archive]), "Loaded image: busybox:latest");
    assert!(ok(&root, &["images"]).lines().nth(1).is_some_and(|l| l.starts_with("busybox      latest")));
    let script = "trap 'exit 0' TERM; echo ready; while :; do sleep 0.05; done";
    let id = ok(&root, &["run", "-d", "--name", "boat", "--network", "none", "busybox", "sh", "-c", script]);
    assert_eq!(ok(&root, &["ps", "-q", "--no-trunc"]), id);
    wait_for("its output", || ok(&root, &["logs", "boat"]) == "ready");
    assert_eq!(ok(&root, &["exec", "boat", "echo", "inside"]), "inside");
    assert_eq!(ok(&root, &["exec", "-w", "/tmp", "boat", "pwd"]), "/tmp");
    wait_for("a nap among its processes", || ok(&root, &["top", "boat"]).contains("sleep 0.05"));
    ok(&root, &["pause", "boat"]);
    assert_eq!(ok(&root, &["inspect", "-f", "{{.State.Status}}", "boat"]), "paused");
    ok(&root, &["unpause", "boat"]);
    ok(&root, &["rename", "boat", "ship"]);
    assert_eq!(ok(&root, &["stop", "-t", "5", "ship"]), "ship");
    assert_eq!(ok(&root, &["wait", "ship"]), "0");
    let times = ok(&root, &["logs", "-t", "ship"]);
    assert!(times.ends_with("Z ready") && times.len() == "2026-01-02T03:04:05.123456789Z ready".len(), "{times}");
    assert_eq!(ok(&root, &["ps", "-a", "--format", "{{.Names}} {{.State}}"]), "ship exited");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("the time").as_secs() + 1;
    let events = ok(&root, &["events", "--since", "0", "--until", &now.to_string(), "--format", "{{.Action}}"]);
    let kill = events.lines().position(|e| e == "kill");
    assert!(kill.is_some() && events.lines().last() == Some("stop"), "{events}");
    assert_eq!(ok(&root, &["rm", "ship"]), "ship");
    assert_eq!(ok(&root, &["ps", "-aq"]), "");
}

/// Every port that there is, with one flag.
#[test]
fn all_ports_are_published_with_one_flag() {
    let root = Root::new();
    let id = ok(&root, &["create", "-p", "1-65535:1-65535", "busybox", "true"]);
    let seen = root.inspect(&id);
    assert_eq!((seen.config.exposed_ports.len(), seen.host_config.port_bindings.len()), (65_535, 65_535));
    assert!(seen.host_config.port_bindings.bindings().all(|(ip, port)| ip.is_empty() && !port.is_empty()));
}

#[test]
fn run_ends_with_the_container_s_code() {
    let root = Root::new();
    let run_rm = |words: &[&str]| failed(&root, &[&["run", "--rm", "--network", "none", "busybox"], words].concat());
    assert_eq!(run_rm(&["true"]).0, 0);
    assert_eq!(run_rm(&["sh", "-c", "exit 42"]).0, 42);
    let (code, text) = run_rm(&["no-such-program"]);
    assert_eq!(code, 127, "{text}");
    assert!(text.contains("executable file not found"), "{text}");
    assert_eq!(run_rm(&["/etc"]).0, 126);
    let (code, text) = failed(&root, &["run", "--rm", "--pull", "never", "--network", "none", "nosuch", "true"]);
    assert_eq!((code, text.as_str()), (125, "coracle: No such image: nosuch:latest"));
    assert_eq!(failed(&root, &["run", "--rm", "--network", "nosuch", "busybox", "true"]).0, 125);
    assert_eq!(ok(&root, &["ps", "-aq"]), "", "--rm removes before the command ends");
    // No program follows the end: the next look removes the container.
    let id = ok(&root, &["run", "--rm", "-d", "--network", "none", "busybox", "sh", "-c", "sleep 0.2"]);
    wait_for("its removal", || ok(&root, &["ps", "-aq"]).is_empty());
    assert!(!root.dir.join("root/containers").join(id).exists());
}

#[test]
fn streams_pass_through() {
    let root = Root::new();
    let script = "while read line; do echo \"out $line\"; echo \"err $line\" >&2; done";
    let mut child = coracle(&root.dir)
        .args(["run", "--rm", "-i", "--network", "none", "busybox", "sh", "-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("run coracle");
    child.stdin.take().expect("stdin").write_all(b"one\ntwo\n").expect("write");
    let output = child.wait_with_output().expect("its end");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "out one\nout two\n");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "err one\nerr two\n");
    assert!(output.status.success());
}

#[test]
fn signals_go_to_the_container() {
    let root = Root::new();
    let script = "trap 'echo got; exit 9' TERM; echo ready; while :; do sleep 0.05; done";
    let child = coracle(&root.dir)
        .args(["run", "--name", "target", "--network", "none", "busybox", "sh", "-c", script])
        .stdout(Stdio::piped())
        .spawn()
        .expect("run coracle");
    wait_for("its output", || {
        root.engine.container_inspect("target", false).is_ok() && root.logs("target").out() == "ready"
    });
    let pid = nix::unistd::Pid::from_raw(child.id() as i32);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).expect("kill");
    let output = child.wait_with_output().expect("its end");
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(9), b"ready\ngot\n".as_slice()));
}

#[test]
fn an_attached_client_that_is_killed_leaves_it_running() {
    let root = Root::new();
    let id = root.sleeper("stays");
    let mut child: Child = coracle(&root.dir).args(["attach", "stays"]).spawn().expect("run coracle");
    std::thread::sleep(std::time::Duration::from_millis(200));
    child.kill().expect("kill");
    child.wait().expect("its end");
    assert_eq!(root.status(&id), "running");
}

#[test]
fn ps_and_port_show_ports() {
    let root = Root::new();
    let (one, two) = (registry::free_port(), registry::free_port());
    let publish = [format!("127.0.0.1:{one}:80"), format!("127.0.0.1:{two}:53/udp")];
    let words = [
        "run",
        "-d",
        "--name",
        "boat",
        "--expose",
        "443",
        "-p",
        &publish[0],
        "-p",
        &publish[1],
        "busybox",
        "sleep",
        "1000",
    ];
    ok(&root, &words);
    let cell = ok(&root, &["ps", "--format", "{{.Ports}}"]);
    assert_eq!(cell, format!("127.0.0.1:{two}->53/udp, 127.0.0.1:{one}->80/tcp, 443/tcp"));
    assert!(ok(&root, &["ps"]).lines().next().is_some_and(|titles| titles.contains("PORTS")));
    assert_eq!(ok(&root, &["port", "boat"]), format!("53/udp -> 127.0.0.1:{two}\n80/tcp -> 127.0.0.1:{one}"));
    assert_eq!(ok(&root, &["port", "boat", "80"]), format!("127.0.0.1:{one}"));
    assert_eq!(ok(&root, &["port", "boat", "53/udp"]), format!("127.0.0.1:{two}"));
    let (code, text) = failed(&root, &["port", "boat", "443"]);
    assert_eq!((code, text.as_str()), (1, "coracle: No public port '443/tcp' published for boat"));
    ok(&root, &["rm", "-f", "boat"]);
}

#[test]
fn a_terminal_inside_needs_one_here() {
    let root = Root::new();
    let text = "coracle: standard input is not a terminal: leave out --tty (-t)";
    let wrong_line = |command: &str| (125, format!("{text}\nSee 'coracle {command} --help'."));
    assert_eq!(failed(&root, &["run", "--rm", "-it", "--network", "none", "busybox", "cat"]), wrong_line("run"));
    assert_eq!(ok(&root, &["ps", "-aq"]), "");
    // Without its input, a terminal inside is allowed.
    assert_eq!(ok(&root, &["run", "--rm", "-t", "--network", "none", "busybox", "echo", "hello"]), "hello");
    ok(&root, &["run", "-dit", "--name", "boat", "--network", "none", "busybox", "cat"]);
    assert_eq!(failed(&root, &["exec", "-it", "boat", "cat"]), wrong_line("exec"));
    assert_eq!(failed(&root, &["attach", "boat"]), (1, text.to_owned()));
    ok(&root, &["rm", "-f", "boat"]);
}

#[test]
fn the_third_signal_ends_the_command_and_not_the_container() {
    let root = Root::new();
    let deaf = "trap '' INT TERM; echo ready; while :; do sleep 0.05; done";
    let mut command = coracle(&root.dir);
    command.args(["run", "--rm", "--name", "deaf", "--network", "none", "busybox", "sh", "-c", deaf]);
    let mut child = Ended(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("run coracle"));
    let client = nix::unistd::Pid::from_raw(child.0.id() as i32);
    wait_for("its output", || run(&root, &["logs", "deaf"]).stdout == b"ready\n");
    let id = ok(&root, &["ps", "-q", "--no-trunc"]);
    let kills = || {
        let events = ok(&root, &["events", "--since", "0", "--until", "0m", "--filter", "event=kill"]);
        events.lines().count()
    };
    for (count, signal) in [nix::sys::signal::Signal::SIGINT, nix::sys::signal::Signal::SIGTERM].into_iter().enumerate()
    {
        nix::sys::signal::kill(client, signal).expect("signal");
        wait_for("the signal inside", || kills() == count + 1);
        assert!(child.0.try_wait().expect("look").is_none(), "it is patient");
    }
    nix::sys::signal::kill(client, nix::sys::signal::Signal::SIGINT).expect("signal");
    assert_eq!(child.0.wait().expect("its end").code(), Some(1));
    let mut text = String::new();
    std::io::Read::read_to_string(&mut child.0.stderr.take().expect("stderr"), &mut text).expect("read");
    assert_eq!(
        text,
        "coracle: 3 signals to end: the container NAME is left to itself; to end it: coracle kill NAME\n"
            .replace("NAME", &id)
    );
    assert_eq!(ok(&root, &["ps", "--format", "{{.Names}}"]), "deaf");
    ok(&root, &["rm", "-f", "deaf"]);
}

#[test]
fn a_signal_ends_an_exec_s_command() {
    let root = Root::new();
    ok(&root, &["run", "-d", "--name", "boat", "--network", "none", "busybox", "sleep", "1000"]);
    let mut command = coracle(&root.dir);
    command.args(["exec", "boat", "sh", "-c", "touch /begun; sleep 1000"]);
    let mut child = Ended(command.spawn().expect("run coracle"));
    wait_for("its process", || run(&root, &["exec", "boat", "test", "-e", "/begun"]).status.success());
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(child.0.id() as i32), nix::sys::signal::Signal::SIGTERM)
        .expect("signal");
    assert_eq!(child.0.wait().expect("its end").code(), Some(128 + 15));
    ok(&root, &["rm", "-f", "boat"]);
}

#[test]
fn usage_errors_are_told() {
    let root = Root::empty();
    let (code, text) = failed(&root, &["run", "--colour", "blue", "busybox"]);
    assert_eq!((code, text.as_str()), (125, "coracle: unknown flag: --colour\nSee 'coracle run --help'."));
    let (code, text) = failed(&root, &["sail"]);
    assert_eq!(code, 125);
    assert!(text.starts_with("coracle: 'sail' is not a command"), "{text}");
    for words in [&["start"][..], &["exec", "x"], &["tag", "x"], &["logs"], &["run"]] {
        let (code, text) = failed(&root, words);
        assert_eq!(code, 125, "{words:?}");
        assert!(text.contains("needed"), "{words:?}: {text}");
    }
    let (code, text) = failed(&root, &["rm", "nobody", "nothing"]);
    assert_eq!((code, text.as_str()), (1, "coracle: No such container: nobody\ncoracle: No such container: nothing"));
    assert!(ok(&root, &["--help"]).contains("\nContainers:\n"));
    assert!(ok(&root, &["run", "--help"]).contains("--memory"));
}

#[test]
fn save_and_load_and_import_by_hand() {
    let root = Root::new();
    let file = root.dir.join("saved.tar").display().to_string();
    ok(&root, &["tag", "busybox", "harbour/box:v1"]);
    ok(&root, &["save", "-o", &file, "harbour/box:v1"]);
    assert!(ok(&root, &["rmi", "harbour/box:v1"]).contains("Untagged: harbour/box:v1"));
    assert_eq!(ok(&root, &["load", "-q", "-i", &file]), "Loaded image: harbour/box:v1");
    let (code, _) = failed(&root, &["save", "-o", &file, "nosuch"]);
    assert_eq!(code, 1);
    assert!(std::fs::metadata(&file).is_ok_and(|m| m.len() > 1_000_000), "a wrong name cost the archive");
    let rootfs = root.dir.join("rootfs.tar").display().to_string();
    let made = Command::new("tar").args(["-C", "/etc", "-cf", &rootfs, "hostname", "passwd"]).status();
    assert!(made.expect("run tar").success());
    let id = ok(&root, &["import", "-c", "CMD [\"x\"]", &rootfs, "flat:one"]);
    assert!(id.starts_with("sha256:"), "{id}");
    assert_eq!(ok(&root, &["inspect", "-f", "{{json .Config.Cmd}}", "flat:one"]), "[\"x\"]");
}

#[test]
fn serve_answers_and_ends_by_signal() {
    let root = Root::new();
    let socket = root.dir.join("api.sock");
    let server = coracle(&root.dir)
        .args(["serve", "-H", &format!("unix://{}", socket.display()), "--api-cors-header", "*"])
        .stdout(Stdio::null())
        .spawn()
        .expect("run coracle");
    let mut server = Ended(server);
    wait_for("the socket", || std::os::unix::net::UnixStream::connect(&socket).is_ok());
    let get = |path: &str| {
        let url = format!("http://coracle{path}");
        let output = Command::new("curl").args(["-s", "-i", "--unix-socket"]).arg(&socket).arg(url).output();
        String::from_utf8_lossy(&output.expect("run curl").stdout).into_owned()
    };
    let ping = get("/_ping");
    assert!(ping.starts_with("HTTP/1.1 200 OK") && ping.ends_with("OK"), "{ping}");
    let images = get("/v1.24/images/json");
    assert!(images.contains("busybox:latest"), "{images}");
    assert!(images.to_lowercase().contains("access-control-allow-origin: *"), "{images}");
    assert!(get("/v1.99/_ping").starts_with("HTTP/1.1 400"));
    let pid = nix::unistd::Pid::from_raw(server.0.id() as i32);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).expect("kill");
    assert!(server.0.wait().expect("its end").success());
    assert!(!socket.exists(), "the socket's file is left");
}
