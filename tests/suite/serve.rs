//! `coracle serve` as a service: its configuration file, SIGHUP, the sockets that it listens on, and what it does after a
//! boot.

use crate::docker_cli::Served;
use crate::oracle::{call, document};
use crate::restart::{policy, reboot};
use crate::support::*;
use coracle::model::ListContainers;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A server that a test starts its own way; ended when dropped.
struct Server(Child);

impl Server {
    fn start(command: &mut Command) -> Server {
        Server(command.spawn().expect("run coracle serve"))
    }
    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.0.id() as i32), signal).expect("signal the server");
    }
    /// Ends it; returns its code.
    fn end(mut self) -> Option<i32> {
        self.signal(Signal::SIGTERM);
        self.0.wait().expect("its end").code()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = kill(Pid::from_raw(self.0.id() as i32), Signal::SIGTERM);
        let _ = self.0.wait();
    }
}

/// `coracle serve` on the root of `root`, without an address.
fn serve(root: &Root) -> Command {
    let mut command = Command::new(built("coracle"));
    command.args(words(root)).stderr(Stdio::null());
    command
}

fn words(root: &Root) -> [String; 5] {
    let dir = |name: &str| root.dir.join(name).display().to_string();
    ["--root".into(), dir("root"), "--run".into(), dir("run"), "serve".into()]
}

fn get(socket: &Path, path: &str) -> Value {
    let (status, bytes) = call(socket, "GET", path, None);
    assert_eq!(status, 200, "{path}");
    document(&bytes)
}

fn answers(socket: &Path) {
    wait_for("the server", || UnixStream::connect(socket).is_ok());
    assert_eq!(call(socket, "GET", "/_ping", None), (200, b"OK".to_vec()));
}

#[test]
fn a_hangup_reads_the_configuration_again_and_ends_nothing() {
    let root = Root::empty();
    let (socket, file, said) = (root.dir.join("sock"), root.dir.join("serve.json"), root.dir.join("said"));
    let write = |text: &str| {
        let next = root.dir.join("serve.json.next");
        std::fs::write(&next, text).expect("write");
        std::fs::rename(next, &file).expect("rename");
    };
    let host = format!("unix://{}", socket.display());
    write(&json!({ "host": [host], "label": ["a=1"], "durability": "off", "log-requests": false }).to_string());
    let said_file = std::fs::File::create(&said).expect("a file");
    let mut command = serve(&root);
    let server = Server::start(command.arg("--config").arg(&file).stderr(said_file));
    answers(&socket);
    let heard = |text: &str| wait_for(text, || std::fs::read_to_string(&said).unwrap_or_default().contains(text));
    let info = get(&socket, "/info");
    assert_eq!(info["Labels"], json!(["a=1"]));

    let mut events = UnixStream::connect(&socket).expect("connect");
    events.set_read_timeout(Some(SOON)).expect("set a time-out");
    let filter = "%7B%22type%22%3A%5B%22daemon%22%5D%7D";
    write!(events, "GET /v1.24/events?filters={filter} HTTP/1.0\r\n\r\n").expect("ask");
    let mut events = BufReader::new(events).lines().map(|line| line.expect("a line"));
    assert!(events.by_ref().any(|line| line.is_empty()), "the head's end");

    write(&json!({ "host": [host], "label": ["b=2", "c=3"], "durability": "full", "log-requests": true }).to_string());
    server.signal(Signal::SIGHUP);
    let event: Value = serde_json::from_str(&events.next().expect("an event")).expect("a document");
    assert_eq!((&event["Type"], &event["Action"]), (&json!("daemon"), &json!("reload")), "{event}");
    assert_eq!(event["Actor"]["ID"], info["ID"]);
    let attributes = json!({ "name": info["Name"], "labels": "[\"b=2\",\"c=3\"]", "log-requests": "true" });
    assert_eq!(event["Actor"]["Attributes"], attributes);
    assert!(event.get("status").is_none());
    assert_eq!(get(&socket, "/info")["Labels"], json!(["b=2", "c=3"]));
    heard("coracle: durability changes with the next start");
    heard("GET /v1.24/info");

    // The error names the wrong setting, and nothing changes.
    for (text, told) in [
        ("{", "EOF"),
        ("[]", "a JSON object is needed"),
        ("{\"labels\": []}", "unknown setting \"labels\""),
        ("{\"label\": [5]}", "invalid value [5] for \"label\""),
        ("{\"config\": \"x\"}", "a file cannot name another one"),
        ("{\"run\": 1, \"config\": \"x\"}", "a file cannot name another one"),
        ("{\"durability\": \"sometimes\"}", "\"sometimes\" for --durability: full, normal or off"),
        ("{\"log-driver\": \"quill\"}", "no log driver named 'quill' is registered"),
        ("{\"log-opt\": [\"max-size=wide\"]}", "log_driver, log_options: "),
        ("{\"log-opt\": [\"max-size\"]}", "\"max-size\" for --log-opt"),
        ("{\"host\": [\"gopher://x\"]}", "host: "),
        ("{\"host\": [\"tcp://127.0.0.1:1\"]}", "only with --insecure-tcp"),
        ("{\"cgroup-parent\": \"a\\u0000b\"}", "cgroup_parent: "),
        ("{\"label\": [\"plain\"]}", "labels: \"plain\" is not of the form NAME=VALUE"),
        ("{\"tlsverify\": true}", "--tlsverify needs --tlscacert, --tlscert and --tlskey"),
        ("{\"tlskey\": \"x\"}", "go with --tlsverify"),
    ] {
        std::fs::write(&said, "").expect("empty it");
        write(text);
        server.signal(Signal::SIGHUP);
        heard("the configuration stays as it is");
        heard(told);
        assert_eq!(get(&socket, "/info")["Labels"], json!(["b=2", "c=3"]), "{text}");
    }
    assert_eq!(server.end(), Some(0));
    // At the start a wrong file is an error, and so is a setting that is said twice.
    for (text, words, told) in [
        ("{\"labels\": []}", &[][..], "unknown setting \"labels\""),
        ("{\"durability\": \"sometimes\"}", &[], "\"sometimes\" for --durability: full, normal or off"),
        ("{\"label\": \"a=1\"}", &["--label", "b=2"], "\"label\" is on the command line, too"),
    ] {
        write(text);
        let output = serve(&root).arg("--config").arg(&file).args(words).stderr(Stdio::piped()).output().expect("run");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(125) && said.contains(told), "{text}: {output:?}");
    }
}

/// A SIGHUP during the start ends nothing: the server follows it once it serves. The configuration is a named pipe at first,
/// so the test knows when the server reads it, and lets it go on.
#[test]
fn a_hangup_during_the_start_is_followed_later() {
    let root = Root::empty();
    let (socket, file, next) = (root.dir.join("sock"), root.dir.join("serve.json"), root.dir.join("next"));
    nix::unistd::mkfifo(&file, nix::sys::stat::Mode::S_IRWXU).expect("make a named pipe");
    let settings = |label: &str| {
        json!({ "host": format!("unix://{}", socket.display()), "durability": "off", "label": label }).to_string()
    };
    let mut command = serve(&root);
    let server = Server::start(command.arg("--config").arg(&file));
    // Nobody can open this end before the server has opened the other one.
    let write = || std::fs::OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(&file);
    let mut pipe = None;
    wait_for("the server to read its settings", || {
        pipe = write().ok();
        pipe.is_some()
    });
    let mut pipe = pipe.expect("the pipe");
    std::fs::write(&next, settings("b=2")).expect("write");
    std::fs::rename(&next, &file).expect("rename");
    server.signal(Signal::SIGHUP);
    pipe.write_all(settings("a=1").as_bytes()).expect("the server reads on");
    drop(pipe);
    answers(&socket);
    wait_for("the second settings", || get(&socket, "/info")["Labels"] == json!(["b=2"]));
    assert_eq!(server.end(), Some(0));
}

/// Without a file there is nothing to read: the event comes all the same.
#[test]
fn a_hangup_without_a_configuration_is_harmless() {
    let served = Served::new();
    served.root.sleeper("up");
    kill(Pid::from_raw(served.pid() as i32), Signal::SIGHUP).expect("signal the server");
    let until_now = |text: &str| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a time").as_secs();
        let (_, events) = call(&served.socket, "GET", &format!("/events?since=1&until={now}"), None);
        String::from_utf8_lossy(&events).contains(text)
    };
    wait_for("the event", || until_now("\"reload\""));
    assert_eq!(served.root.status("up"), "running");
}

/// Sockets as systemd gives them: open, from descriptor 3 on, for this very process.
#[test]
fn sockets_of_a_service_manager_are_served() {
    let root = Root::empty();
    let (given, own) = (root.dir.join("given.sock"), root.dir.join("own.sock"));
    let notify = UnixDatagram::bind(root.dir.join("notify")).expect("bind");
    notify.set_read_timeout(Some(SOON)).expect("set a time-out");
    let start = |script: &str, socket: &UnixListener| {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("exec 3<&0 </dev/null; {script}; exec \"$@\""), "sh"]).arg(built("coracle"));
        command.args(words(&root)).args(["--durability", "off"]).env("NOTIFY_SOCKET", root.dir.join("notify"));
        if script.contains("LISTEN_PID=1") {
            command.args(["-H", &format!("unix://{}", own.display())]);
        }
        let socket = socket.try_clone().expect("a descriptor");
        Server::start(command.stdin(std::os::fd::OwnedFd::from(socket)).stderr(Stdio::null()))
    };
    let listener = UnixListener::bind(&given).expect("bind");
    let server = start("export LISTEN_PID=$$ LISTEN_FDS=1", &listener);
    let mut word = [0; 64];
    let length = notify.recv(&mut word).expect("its word");
    assert_eq!(&word[..length], b"READY=1");
    answers(&given);
    assert_eq!(server.end(), Some(0));
    assert!(given.exists(), "the socket is its maker's");
    // For another process: the address of the command line alone is served.
    let server = start("export LISTEN_PID=1 LISTEN_FDS=1", &listener);
    answers(&own);
    listener.set_nonblocking(true).expect("set");
    let waiting = UnixStream::connect(&given).expect("connect");
    assert_eq!(call(&own, "GET", "/_ping", None).0, 200);
    assert!(listener.accept().is_ok(), "nobody else took it");
    drop((server, waiting));
    // A descriptor that is not a socket.
    let script = "exec 3</dev/null; export LISTEN_PID=$$ LISTEN_FDS=1; exec \"$@\"";
    let output = Command::new("sh").args(["-c", script, "sh"]).arg(built("coracle")).args(words(&root)).output();
    let output = output.expect("run");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && said.contains("descriptor 3 is not a socket"), "{output:?}");
}

/// In a mount namespace with a private /run: both default names, including the specification's.
#[test]
fn the_server_listens_at_the_names_of_the_specification() {
    let root = Root::empty();
    let script = "mount -t tmpfs none /run && { [ -L /var/run ] || mount -t tmpfs none /var/run; } && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script, "sh"]).arg(built("coracle")).args(words(&root)).stderr(Stdio::null());
    let server = Server::start(&mut command);
    let inside = |path: &str| PathBuf::from(format!("/proc/{}/root{path}", server.0.id()));
    // A link is followed on this side of the namespace.
    let other = if Path::new("/var/run").is_symlink() { "/run/engine.sock" } else { "/var/run/engine.sock" };
    for path in ["/run/coracle.sock", other] {
        wait_for(path, || UnixStream::connect(inside(path)).is_ok());
        answers(&inside(path));
    }
}

#[test]
fn after_a_boot_policies_are_followed_unless_it_is_told_not_to() {
    let mut root = Root::new();
    root.sleeper_with("always", policy("always", 0));
    root.sleeper_with("no", policy("no", 0));
    reboot(&mut root, false);
    let running = || root.names(&ListContainers::default());
    let socket = root.dir.join("sock");
    let host = format!("unix://{}", socket.display());
    let server = Server::start(serve(&root).args(["--durability", "off", "--no-restart-containers", "-H", &host]));
    answers(&socket);
    assert!(running().is_empty());
    assert_eq!(server.end(), Some(0));
    let _server = Server::start(serve(&root).args(["--durability", "off", "-H", &host]));
    answers(&socket);
    assert_eq!(running(), ["always"]);
}

/// The unit runs a command that there is, with words that it knows, and listens where the command would by itself.
#[test]
fn the_units_fit_the_command() {
    let read = |name: &str| std::fs::read_to_string(project().join("packaging").join(name)).expect("a unit");
    let (service, socket) = (read("coracle.service"), read("coracle.socket"));
    let values = |unit: &str, key: &str| -> Vec<String> {
        let line = |line: &str| line.strip_prefix(&format!("{key}=")).map(str::to_owned);
        unit.lines().filter_map(line).collect()
    };
    assert_eq!(values(&service, "ExecStart"), ["/usr/bin/coracle serve"]);
    assert_eq!(values(&service, "ExecReload"), ["/bin/kill -HUP $MAINPID"]);
    assert_eq!(values(&service, "Type"), ["notify"]);
    assert_eq!(
        (values(&service, "KillMode"), values(&service, "Delegate")),
        (vec!["process".into()], vec!["yes".into()])
    );
    assert_eq!(values(&socket, "ListenStream"), ["/run/coracle.sock", "/run/engine.sock"]);
    assert_eq!(values(&socket, "SocketMode"), ["0660"]);
}
