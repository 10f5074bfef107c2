//! The doors of the engine: directories, the program in memory, sockets, environment.

use crate::support::*;
use nix::fcntl::{FcntlArg, fcntl};
use serde_json::json;
use std::fs::{self, File, Permissions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A user of the host without any rights.
const NOBODY: u32 = 65534;

/// The output of a shell of that user, and whether it succeeded.
fn as_nobody(script: &str) -> (String, bool) {
    let mut command = Command::new("sh");
    let output = command.args(["-c", script]).uid(NOBODY).gid(NOBODY).current_dir("/").output().expect("run sh");
    let text = [output.stdout, output.stderr].concat();
    (String::from_utf8_lossy(&text).into_owned(), output.status.success())
}

fn mode_of(path: &Path) -> u32 {
    fs::metadata(path).unwrap_or_else(|e| panic!("{}: {e}", path.display())).permissions().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("chmod");
}

/// `coracle` on a root below `dir`.
fn coracle(dir: &Path) -> Command {
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "120"]).arg(built("coracle"));
    command.arg("--root").arg(dir.join("root")).arg("--run").arg(dir.join("run"));
    command.stdin(Stdio::null());
    command
}

// attack: 133, R12 wall root-modes
#[test]
fn others_read_nothing_of_a_root_that_was_there_with_wide_modes() {
    let dir = temp_dir();
    set_mode(&dir, 0o755);
    for name in ["root", "run", "twin"] {
        fs::create_dir(dir.join(name)).expect("mkdir");
        set_mode(&dir.join(name), 0o755);
    }
    fs::write(dir.join("twin/hello"), "read me").expect("write");
    set_mode(&dir.join("twin/hello"), 0o644);
    let engine = coracle::Engine::open_with(options_at(&dir)).expect("open");
    let root = Root { dir, engine };
    root.load(&busybox_archive());
    let script =
        "echo s3cret > /v/password; chmod 644 /v/password; cp /bin/busybox /v/su; chmod 4755 /v/su; chmod 755 /v";
    root.sh_with(script, host(json!({ "NetworkMode": "none", "Binds": ["pgdata:/v"] }))).ok();
    let data = root.dir.join("root/volumes/pgdata/_data");
    // The attack's target exists, and the way to the directory is open.
    assert_eq!(mode_of(&data.join("su")), 0o4755);
    assert_eq!(as_nobody(&format!("cat {}/twin/hello", root.dir.display())), ("read me".into(), true));
    for path in [data.join("password"), data.join("su"), data.clone()] {
        let (text, done) = as_nobody(&format!("cat {0} || ls {0}", path.display()));
        assert!(!done && text.contains("Permission denied"), "{}: {text}", path.display());
    }
    let (text, done) = as_nobody(&format!("{} id -u", data.join("su").display()));
    assert!(!done && text.contains("ermission denied"), "{text}");
    // Every directory below, by its name.
    for top in ["root", "run"] {
        let below = Command::new("find").arg(root.dir.join(top)).args(["-maxdepth", "3"]).output().expect("find");
        let below = String::from_utf8_lossy(&below.stdout).into_owned();
        assert!(below.lines().count() > 3, "{below}");
        let walk = format!("for p in {}; do cat $p; ls -A $p/; done 2>/dev/null", below.replace('\n', " "));
        assert_eq!(as_nobody(&walk).0, "", "{top}");
    }
    assert_eq!(mode_of(&root.dir.join("root")), 0o700);
    assert_eq!(mode_of(&root.dir.join("run")), 0o711);
    for name in ["volumes", "volumes/pgdata", "layers", "containers"] {
        assert_eq!(mode_of(&root.dir.join("root").join(name)), 0o700, "{name}");
    }
}

// attack: R12 wall root-modes
#[test]
fn a_directory_that_others_use_is_refused_as_a_root() {
    let dir = temp_dir();
    fs::create_dir(dir.join("root")).expect("mkdir");
    set_mode(&dir.join("root"), 0o1777);
    let error = coracle::Engine::open_with(options_at(&dir)).err().expect("refused");
    assert_eq!(error.kind(), coracle::ErrorKind::Forbidden);
    assert!(error.message().contains("it is for others to use (mode 1777)"), "{error}");
    assert_eq!(mode_of(&dir.join("root")), 0o1777);
    std::os::unix::fs::chown(dir.join("root"), Some(NOBODY), Some(NOBODY)).expect("chown");
    let error = coracle::Engine::open_with(options_at(&dir)).err().expect("refused");
    assert!(error.message().contains("it belongs to user 65534"), "{error}");
    fs::remove_dir_all(&dir).expect("remove");
}

// The setting belongs to the PID namespace: each value is tried in one of its own.
// attack: R13 wall memfd-seals
#[test]
fn containers_start_where_memfds_are_not_to_be_executed() {
    for value in ["0", "1", "2"] {
        let dir = temp_dir();
        let words = |words: &str| {
            let at = dir.display();
            format!("{} --root {at}/root --run {at}/run {words}", built("coracle").display())
        };
        let script = format!(
            "set -e; mount -t tmpfs tmpfs /run; ip link set lo up; echo {value} > /proc/sys/vm/memfd_noexec
             echo set to $(cat /proc/sys/vm/memfd_noexec)
             {} > {}/out 2>&1; {} 2>&1",
            words(&format!("load -i {}", busybox_archive().display())),
            dir.display(),
            words("run --rm --network none busybox sh -c 'echo started; dd if=/proc/1/exe of=/dev/null 2>/dev/null'"),
        );
        let output = Command::new("timeout")
            .args(["-s", "KILL", "120", "unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-c"])
            .arg(script)
            .output()
            .expect("run unshare");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let _ = fs::remove_dir_all(&dir);
        assert!(text.starts_with(&format!("set to {value}\n")), "{text}{output:?}");
        assert!(text.ends_with("\nstarted\n"), "vm.memfd_noexec={value}: {text}");
    }
}

/// The monitor of a running container.
fn monitor_of(root: &Root, id: &str) -> u32 {
    let status = fs::read_to_string(format!("/proc/{}/status", root.pid(id))).expect("status");
    proc_status(&status, "PPid").parse().expect("a number")
}

// attack: 2 wall memfd-seals
#[test]
fn the_program_of_the_monitor_is_sealed_whole() {
    const SEALS: i32 = 0x1 | 0x2 | 0x4 | 0x8 | 0x20;
    let root = Root::new();
    let id = root.sleeper("sealed");
    let exe = format!("/proc/{}/exe", monitor_of(&root, &id));
    assert_eq!(fs::read_link(&exe).expect("a link").to_string_lossy(), "/memfd:coracle-monitor (deleted)");
    let program = File::open(&exe).expect("open the program");
    let seals = fcntl(&program, FcntlArg::F_GET_SEALS).expect("F_GET_SEALS");
    assert_eq!(seals & SEALS, SEALS, "SEAL, SHRINK, GROW, WRITE, EXEC: {seals:x}");
    assert!(program.set_permissions(Permissions::from_mode(0o600)).is_err(), "its mode was changed");
}

// A name could be a link by then.
// attack: R18 wall modes-at-birth
#[test]
fn no_mode_is_set_by_a_name() {
    let dir = temp_dir();
    let load = coracle(&dir).args(["load", "-i"]).arg(busybox_archive()).output().expect("load");
    assert!(load.status.success(), "{load:?}");
    let trace = dir.join("trace");
    let calls = "trace=mknodat,mkdirat,chmod,fchmodat,?fchmodat2";
    let output = Command::new("timeout")
        .args(["-s", "KILL", "120", "strace", "-f", "-qq", "-e", calls, "-e", "signal=none", "-o"])
        .arg(&trace)
        .arg(built("coracle"))
        .arg("--root")
        .arg(dir.join("root"))
        .arg("--run")
        .arg(dir.join("run"))
        .args(["run", "--rm", "--network", "none", "busybox", "stat", "-c", "%a %n"])
        .args(["/dev/null", "/dev/tty", "/dev/shm"])
        .output()
        .expect("run strace");
    let traced = fs::read_to_string(&trace).expect("the trace");
    let _ = fs::remove_dir_all(&dir);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(text, "666 /dev/null\n666 /dev/tty\n1777 /dev/shm\n", "{output:?}");
    let pid_of = |line: &str| line.split(' ').next().unwrap_or_default().to_owned();
    let child = traced.lines().find(|line| line.contains("mknodat(")).map(pid_of).expect("nodes were made");
    let set: Vec<_> = traced.lines().filter(|line| pid_of(line) == child && line.contains("chmod")).collect();
    assert!(set.is_empty(), "{set:#?}");
}

/// `coracle serve`, ended with it.
pub struct Served {
    child: Child,
    socket: PathBuf,
    /// The text on its standard error so far.
    said: Arc<parking_lot::Mutex<String>>,
}

impl Served {
    /// With these words behind `serve`, after `change` of the command; waits until it serves.
    pub fn start(dir: &Path, words: &[&str], change: impl FnOnce(&mut Command)) -> Served {
        let socket = dir.join("api.sock");
        let mut command = Command::new(built("coracle"));
        command
            .args(["serve", "--durability", "off", "--root"])
            .arg(dir.join("root"))
            .arg("--run")
            .arg(dir.join("run"));
        command.arg("-H").arg(format!("unix://{}", socket.display())).args(words);
        change(&mut command);
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("run coracle serve");
        let said = Arc::new(parking_lot::Mutex::new(String::new()));
        let (stderr, sink) = (child.stderr.take().expect("piped"), said.clone());
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                sink.lock().push_str(&format!("{line}\n"));
            }
        });
        let served = Served { child, socket, said };
        wait_for("the server", || UnixStream::connect(&served.socket).is_ok());
        served
    }

    /// A whole answer over the Unix socket.
    fn ask(&self, method: &str, path: &str) -> String {
        let mut stream = UnixStream::connect(&self.socket).expect("connect");
        stream.set_read_timeout(Some(SOON)).expect("a time-out");
        write!(stream, "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
            .expect("ask");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // SIGTERM by way of its pid: it is our child, not yet reaped.
        let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(self.child.id() as i32), nix::sys::signal::SIGTERM);
        let _ = self.child.wait();
    }
}

/// A listener that counts who comes.
fn counting() -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
    let (port, count) = (listener.local_addr().expect("an address").port(), Arc::new(AtomicUsize::new(0)));
    let counted = count.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut line = String::new();
            let _ = BufReader::new(&stream).read_line(&mut line);
            if line.starts_with("CONNECT registry.test:443 ") {
                counted.fetch_add(1, Ordering::SeqCst);
            }
        }
    });
    (port, count)
}

// A C library between the program and `getenv` plays the other thread that changes the environment.
// attack: R19 wall proxy-at-open
#[test]
fn the_proxy_is_the_one_of_the_open() {
    const BETWEEN: &str = r#"
        #define _GNU_SOURCE
        #include <dlfcn.h>
        #include <string.h>
        #include <unistd.h>
        char *getenv(const char *name) {
            char *(*real)(const char *) = (char *(*)(const char *))dlsym(RTLD_NEXT, "getenv");
            const char *flag = real("CHANGED_BY");
            if (strcmp(name, "HTTPS_PROXY") == 0 && flag && access(flag, F_OK) == 0) return real("CHANGED_TO");
            return real(name);
        }"#;
    let dir = temp_dir();
    fs::write(dir.join("between.c"), BETWEEN).expect("write");
    let (source, library, flag) = (dir.join("between.c"), dir.join("between.so"), dir.join("changed"));
    let made = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).arg("-ldl").status();
    assert!(made.expect("run cc").success());
    let ((first, at_first), (second, at_second)) = (counting(), counting());
    let served = Served::start(&dir, &[], |command| {
        command.env("LD_PRELOAD", &library).env("CHANGED_BY", &flag).env("NO_PROXY", "");
        command.env("HTTPS_PROXY", format!("http://127.0.0.1:{first}"));
        command.env("CHANGED_TO", format!("http://127.0.0.1:{second}"));
    });
    fs::write(&flag, "").expect("write");
    let answer = served.ask("POST", "/v1.24/images/create?fromImage=registry.test/box&tag=1");
    let said = served.said.lock().clone();
    drop(served);
    fs::remove_dir_all(&dir).expect("remove");
    assert!(!said.contains("panicked"), "{said}");
    assert!(answer.starts_with("HTTP/1.1 500 ") && answer.contains("registry.test"), "{answer}");
    assert!(at_first.load(Ordering::SeqCst) > 0, "the proxy was not asked: {answer}");
    assert_eq!(at_second.load(Ordering::SeqCst), 0);
}

/// Certificates in `dir`, by the names that docker's command expects of a client: `ca.pem`, `cert.pem`, `key.pem`; of the
/// server; and of a client of another authority.
fn make_certificates(dir: &Path) {
    let script = "set -e; cd \"$1\"
        new() { openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=$1 -keyout $2 \"${@:3}\"; }
        signed() { new $1 $3 -out request; openssl x509 -req -in request -CA $4.pem -CAkey $4.key -CAcreateserial -days 2 -out $2 -extfile $5; }
        printf 'subjectAltName=IP:127.0.0.1,DNS:localhost\nextendedKeyUsage=serverAuth\n' > of-server
        echo extendedKeyUsage=clientAuth > of-client
        new ca ca.key -x509 -days 2 -out ca.pem; new other other.key -x509 -days 2 -out other.pem
        signed server server-cert.pem server-key.pem ca of-server
        signed client cert.pem key.pem ca of-client
        signed stranger stranger.pem stranger.key other of-client
        chmod 644 *.key *.pem";
    let made = Command::new("bash").args(["-c", script, "-"]).arg(dir).output().expect("run openssl");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

impl Served {
    /// The address of the port that it chose.
    pub fn tcp(&self) -> String {
        let mut found = None;
        wait_for("the port", || {
            found = self
                .said
                .lock()
                .split("serving on tcp://")
                .nth(1)
                .and_then(|rest| rest.lines().next().map(str::to_owned));
            found.is_some()
        });
        found.expect("waited for")
    }

    /// With TLS at a port of 127.0.0.1.
    fn with_tls(dir: &Path) -> Served {
        make_certificates(dir);
        let file = |name: &str| dir.join(name).display().to_string();
        let files = [file("ca.pem"), file("server-cert.pem"), file("server-key.pem")];
        let words =
            ["-H", "tcp://127.0.0.1:0", "--tlsverify", "--tlscacert", &files[0], "--tlscert", &files[1], "--tlskey"];
        Served::start(dir, &[&words[..], &[&files[2]]].concat(), |_| {})
    }
}

// attack: 145, R10 wall tcp-authenticated
#[test]
fn tcp_without_tls_is_served_only_where_that_is_said() {
    let dir = temp_dir();
    let mut command = Command::new("timeout");
    command.args(["5"]).arg(built("coracle")).arg("serve").arg("--root").arg(dir.join("root")).arg("--run");
    let refused = command.arg(dir.join("run")).args(["-H", "tcp://127.0.0.1:0"]).output().expect("run coracle serve");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("--insecure-tcp") && said.contains("--tlsverify"), "{said}");
    let served = Served::start(&dir, &["-H", "tcp://127.0.0.1:0", "--insecure-tcp"], |_| {});
    let (text, done) = as_nobody(&format!("curl -s http://{}/v1.24/_ping", served.tcp()));
    assert!(done && text == "OK", "{text}");
    drop(served);
    fs::remove_dir_all(&dir).expect("remove");
}

// attack: 126, R10 wall client-certificates
#[test]
fn a_client_without_a_certificate_of_the_authority_gets_nothing() {
    let dir = temp_dir();
    set_mode(&dir, 0o755);
    let served = Served::with_tls(&dir);
    let (at, tcp) = (dir.display(), served.tcp());
    let url = format!("https://{tcp}/v1.24/_ping");
    let curl = |words: &str| as_nobody(&format!("curl -sS --cacert {at}/ca.pem {words}"));
    for (words, why) in [
        (url.clone(), "ertificate"),
        (format!("--cert {at}/stranger.pem --key {at}/stranger.key {url}"), "unknown"),
        (format!("http://{tcp}/v1.24/_ping"), "curl: "),
        (format!("--tls-max 1.1 --cert {at}/cert.pem --key {at}/key.pem {url}"), "curl: "),
    ] {
        let (text, done) = curl(&words);
        assert!(!done && text.contains(why), "{words}: {text}");
    }
    for version in ["1.2", "1.3"] {
        let own = format!("--tlsv{version} --tls-max {version} --cert {at}/cert.pem --key {at}/key.pem {url}");
        assert_eq!(curl(&own), ("OK".into(), true), "{version}");
    }
    drop(served);
    fs::remove_dir_all(&dir).expect("remove");
}

// attack: 128 wall tls-handshakes
#[test]
fn handshakes_that_never_end_keep_nobody_out() {
    let dir = temp_dir();
    let served = Served::with_tls(&dir);
    let tcp = served.tcp();
    let mut silent: Vec<_> = (0..80).map(|_| std::net::TcpStream::connect(&tcp).expect("connect")).collect();
    let mut oldest = silent.remove(0);
    oldest.set_read_timeout(Some(SOON)).expect("a time-out");
    // Broken off, long before its time is over: the newest are there still, and so is the server.
    assert_eq!(oldest.read(&mut [0]).expect("the end of the oldest"), 0);
    let url = format!("https://{tcp}/v1.24/_ping");
    let at = dir.display();
    let own = format!("curl -sS --cacert {at}/ca.pem --cert {at}/cert.pem --key {at}/key.pem {url}");
    let output = Command::new("sh").args(["-c", &own]).output().expect("curl");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "OK", "{output:?}");
    drop((silent, served));
    fs::remove_dir_all(&dir).expect("remove");
}

#[test]
fn clients_with_certificates_do_what_they_do_over_the_socket() {
    const PYTHON: &str = r#"
import docker, io, sys, tarfile
at, tcp = sys.argv[1:]
tls = docker.tls.TLSConfig(client_cert=(f"{at}/cert.pem", f"{at}/key.pem"), ca_cert=f"{at}/ca.pem", verify=True)
client = docker.DockerClient(base_url=f"tcp://{tcp}", tls=tls, version="1.24", timeout=30)
box = client.containers.run("busybox", ["sleep", "1000"], network_mode="none", detach=True)
try:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        info = tarfile.TarInfo("big"); info.size = 3 << 20
        tar.addfile(info, io.BytesIO(bytes(3 << 20)))
    assert box.put_archive("/tmp", archive.getvalue())
    assert box.exec_run(["wc", "-c", "/tmp/big"]).output.split()[0] == b"3145728"
    stream, _ = box.get_archive("/tmp/big")
    assert sum(len(piece) for piece in stream) > 3 << 20
    made = client.api.exec_create(box.id, ["head", "-n", "1"], stdin=True)
    talk = client.api.exec_start(made["Id"], socket=True)
    talk.sendall(b"over tls\n") if hasattr(talk, "sendall") else talk._sock.sendall(b"over tls\n")
    said = b""
    while b"over tls" not in said:
        piece = talk.recv(100) if hasattr(talk, "recv") else talk.read(9)
        assert piece, said
        said += piece
finally:
    box.remove(force=True)
print("done")
"#;
    let dir = temp_dir();
    let served = Served::with_tls(&dir);
    let tcp = served.tcp();
    let load = coracle(&dir).args(["load", "-i"]).arg(busybox_archive()).output().expect("load");
    assert!(load.status.success(), "{load:?}");
    let docker = |words: &[&str], stdin: &[u8]| {
        let mut command = Command::new("timeout");
        command.args(["-s", "KILL", "60", "docker"]).args(words).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.env("DOCKER_HOST", format!("tcp://{tcp}")).env("DOCKER_TLS_VERIFY", "1").env("DOCKER_CERT_PATH", &dir);
        command.env("DOCKER_API_VERSION", "1.24").env("DOCKER_CONFIG", dir.join("config")).stderr(Stdio::piped());
        let mut child = command.spawn().expect("run docker");
        let mut input = child.stdin.take().expect("piped");
        let stdin = stdin.to_vec();
        let typing = std::thread::spawn(move || input.write_all(&stdin));
        let output = child.wait_with_output().expect("docker");
        let _ = typing.join();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    // Both ways at once, and the end of the input comes through by itself.
    let much: Vec<u8> = (0..2_000_000u32).map(|i| (i % 251) as u8).collect();
    assert!(docker(&["run", "-i", "--rm", "--network", "none", "busybox", "cat"], &much) == much);
    docker(&["run", "-d", "--name", "here", "--network", "none", "busybox", "sleep", "1000"], b"");
    assert_eq!(docker(&["exec", "-i", "here", "wc", "-c"], b"12345"), b"5\n");
    assert_eq!(docker(&["ps", "--format", "{{.Names}}"], b""), b"here\n");
    docker(&["rm", "-f", "here"], b"");
    let python = Command::new("timeout")
        .args(["60", "python3", "-c", PYTHON])
        .env_remove("REQUESTS_CA_BUNDLE")
        .env_remove("CURL_CA_BUNDLE")
        .arg(&dir)
        .arg(&tcp)
        .output()
        .expect("python3");
    assert_eq!(String::from_utf8_lossy(&python.stdout), "done\n", "{}", String::from_utf8_lossy(&python.stderr));
    drop(served);
    fs::remove_dir_all(&dir).expect("remove");
}

// attack: 138 wall log-without-secrets
#[test]
fn requests_are_logged_with_who_asks_and_without_secrets() {
    let dir = temp_dir();
    let served = Served::start(&dir, &["--log-requests"], |_| {});
    let args = "buildargs=%7B%22TOKEN%22%3A%22pl4nted%22%7D";
    let answer = served.ask("POST", &format!("/v1.24/build?{args}"));
    assert!(answer.starts_with("HTTP/1.1 "), "{answer}");
    let line = format!("coracle: POST /v1.24/build by pid {} uid 0 gid 0\n", std::process::id());
    wait_for("the line", || served.said.lock().contains("POST /v1.24/build"));
    let said = served.said.lock().clone();
    drop(served);
    fs::remove_dir_all(&dir).expect("remove");
    assert!(!said.contains("pl4nted"), "{said}");
    assert!(said.contains(&line), "{said}");
}

/// Loads the busybox image as `name`, with a changed configuration.
fn load_changed(root: &Root, name: &str, change: impl FnOnce(&mut serde_json::Value)) {
    let mut files = archive::files(&fs::read(busybox_archive()).expect("the archive"));
    let mut manifest: serde_json::Value = serde_json::from_slice(&files["manifest.json"]).expect("JSON");
    let old = manifest[0]["Config"].as_str().expect("a name").to_owned();
    let mut config: serde_json::Value = serde_json::from_slice(&files.remove(&old).expect("the file")).expect("JSON");
    change(&mut config["config"]);
    let text = config.to_string();
    let new = format!("{}.json", archive::sha256(text.as_bytes()));
    manifest[0]["Config"] = json!(new);
    manifest[0]["RepoTags"] = json!([name]);
    files.insert(new, text.into_bytes());
    files.insert("manifest.json".into(), manifest.to_string().into_bytes());
    files.remove("repositories");
    let mut tar = &archive::tar_of(&files)[..];
    root.engine.image_load(&mut tar, &mut |_| Ok(()), Some(&soon())).expect("load the changed image");
}

// attack: 155 wall environment-of-images
#[test]
fn an_image_s_variables_without_values_get_none_of_the_host_s() {
    // Cargo sets it for this program; the attack needs it to be there.
    const THERE: &str = "CARGO_MANIFEST_DIR";
    let value = std::env::var(THERE).expect("a variable of the host program");
    let root = Root::empty();
    load_changed(&root, "hostile:1", |config| {
        config["Env"] = json!([THERE, "PATH", "=x", "*", "CARGO*", "TWICE=1", "TWICE=2", "LINES=a\nb"]);
    });
    let found = root.run(&["/bin/env"], json!({ "Image": "hostile:1" }), b"").ok();
    assert!(found.contains("TWICE=2\n") && found.contains("LINES=a\nb"), "the image's variables are there: {found}");
    assert!(!found.contains(THERE) && !found.contains(&value), "{found}");
    assert!(!found.lines().any(|line| line.starts_with("PATH=") || line.starts_with('=')), "{found}");
}

// attack: 30, 142 wall labels-are-text
// attack: 139 wall specs-of-their-own
#[test]
fn labels_of_an_image_are_text() {
    let root = Root::empty();
    let labels = json!({ "com.docker.logger": "binary:///bin/touch?/tmp/x", "io.containerd.runtime": "/bin/sh",
        "coracle.privileged": "true", "com.engine.log-driver": "none", "com.docker.userns": "host", "io.containerd.user": "1234:1234",
        "org.systemd.property.MemoryMax": "0", "io.kubernetes.cri-o.cgroup2-unified": "memory.max=max",
        "memory.limit_in_bytes": "1", "pids.max": "1" });
    load_changed(&root, "labelled:1", |config| config["Labels"] = labels.clone());
    let id = root.create(
        "labelled",
        body(
            &["grep", "-E", "CapEff|Seccomp:|Uid", "/proc/self/status"],
            json!({ "Image": "labelled:1", "HostConfig": { "Memory": 64 << 20 } }),
        ),
    );
    let detail = root.inspect(&id);
    assert_eq!(serde_json::to_value(&detail.config.labels).expect("JSON"), labels);
    assert_eq!(detail.host_config.log_config.kind, "json-file");
    assert!(!detail.host_config.privileged);
    root.start(&id);
    assert_eq!(root.wait(&id), 0);
    let said = root.logs(&id).out();
    assert!(said.contains("00000000a80425fb") && said.contains("Seccomp:\t2"), "{said}");
    assert!(said.contains("Uid:\t0\t0\t0\t0"), "{said}");
    let limited = root.sleeper_with("limited", json!({ "Image": "labelled:1", "HostConfig": { "Memory": 64 << 20 } }));
    let limit = Cgroups::of(root.pid(&limited)).read("memory", "memory.limit_in_bytes", "memory.max");
    assert_eq!(limit, (64 << 20).to_string());
}

// attack: 147 wall stored-documents
// attack: 139 wall specs-of-their-own
#[test]
fn a_stored_document_that_is_damaged_is_its_own_container_s_fault() {
    let root = Root::new();
    let whole = root.sleeper("whole");
    let broken = root.create("broken", body(&["true"], json!({})));
    let sound = {
        let store = rusqlite::Connection::open(root.dir.join("root/coracle.db")).expect("the store");
        store
            .query_row("SELECT spec FROM containers WHERE id = ?1", [&broken], |row| row.get::<_, String>(0))
            .expect("a spec")
    };
    let deep = "[".repeat(100_000);
    for text in ["", "null", "5", "{\"half", "{\"config\":5}", &deep, "\u{0}", &sound[..sound.len() / 2]] {
        let store = rusqlite::Connection::open(root.dir.join("root/coracle.db")).expect("the store");
        store.busy_timeout(SOON).expect("patience");
        store.execute("UPDATE containers SET spec = ?1 WHERE id = ?2", [text, &broken]).expect("damage");
        drop(store);
        let shown = &text[..text.len().min(20)];
        let engine = root.reopen();
        let error = engine.container_inspect(&broken, false).expect(shown).state.error;
        assert!(error.contains(&broken), "{shown}: {error}");
        let error = engine.container_start(&broken, None, Some(&soon())).expect_err(shown);
        assert_eq!(error.kind(), coracle::ErrorKind::Corrupt, "{shown}: {error}");
        // The others go on.
        assert!(engine.container_inspect(&whole, false).expect("the other").state.running, "{shown}");
        let warnings = engine.info().expect("info")["Warnings"].to_string();
        assert!(warnings.contains(&broken), "{shown}: {warnings}");
        let listed = engine.container_list(&coracle::model::ListContainers { all: true, ..Default::default() });
        let ids: Vec<String> = listed.expect("a list").into_iter().map(|one| one.id).collect();
        assert!(ids.contains(&whole), "{shown}: {ids:?}");
    }
    assert_eq!(root.exec(&whole, &["echo", "served"]).ok(), "served");
    let store = rusqlite::Connection::open(root.dir.join("root/coracle.db")).expect("the store");
    store.busy_timeout(SOON).expect("patience");
    store.execute("UPDATE containers SET spec = ?1 WHERE id = ?2", [sound.as_str(), &broken]).expect("mend");
    drop(store);
    let force = coracle::model::RemoveContainer { force: true, ..Default::default() };
    root.engine.container_remove(&broken, force, Some(&soon())).expect("remove it once it is whole");
}

// attack: 139 wall specs-of-their-own
#[test]
fn containers_made_at_once_have_their_own_variables() {
    let root = Root::new();
    let ids: Vec<(usize, String)> = std::thread::scope(|scope| {
        let make = |number: usize| {
            let own = json!({ "Env": [format!("OWN=value-{number}"), format!("ONLY_{number}=1")] });
            root.create(&format!("own-{number}"), body(&["env"], own))
        };
        let threads: Vec<_> = (0..100).map(|number| (number, scope.spawn(move || make(number)))).collect();
        threads.into_iter().map(|(number, thread)| (number, thread.join().expect("a container"))).collect()
    });
    for (number, id) in &ids {
        let env = root.inspect(id).config.env.unwrap_or_default();
        let own: Vec<_> = env.iter().filter(|entry| entry.starts_with("OWN=") || entry.starts_with("ONLY_")).collect();
        assert_eq!(own, [&format!("OWN=value-{number}"), &format!("ONLY_{number}=1")]);
    }
    for (number, id) in ids.iter().step_by(10) {
        root.start(id);
        assert_eq!(root.wait(id), 0);
        let said = root.logs(id).out();
        assert!(said.contains(&format!("OWN=value-{number}\n")) && said.matches("ONLY_").count() == 1, "{said}");
    }
}

// attack: 134 wall lists-checked
#[test]
fn extreme_numbers_are_answered() {
    const LISTS: [&str; 4] = ["9223372036854775806", "0-9223372036854775806", "0-4294967295", "0-99999,4294967295"];
    let root = Root::new();
    for field in ["CpusetCpus", "CpusetMems"] {
        for list in LISTS {
            let error = root.try_create("", body(&["true"], host(json!({ field: list })))).expect_err("refused");
            assert_eq!(error.kind(), coracle::ErrorKind::Invalid, "{field} {list}: {error}");
        }
    }
    for field in [
        "Memory",
        "MemorySwap",
        "MemoryReservation",
        "NanoCpus",
        "CpuShares",
        "CpuPeriod",
        "CpuQuota",
        "PidsLimit",
        "ShmSize",
        "BlkioWeight",
    ] {
        for number in [i64::MIN, i64::MIN + 1, -2, -1, 0, 1, i64::MAX - 1, i64::MAX] {
            // Some are numbers that the field cannot hold: documents with them are refused as they are read.
            let asked = body(&["true"], host(json!({ field: number })));
            let Ok(asked) = serde_json::from_value(asked) else { continue };
            drop(root.engine.container_create(None, &asked));
        }
    }
    root.engine.info().expect("the engine goes on");
}

// The rules of `deny.toml`, checked without its program, which takes longer to build than the project.
// attack: 148 wall crates-allowed
#[test]
fn crates_are_those_that_deny_toml_allows() {
    let rules = fs::read_to_string(project().join("deny.toml")).expect("deny.toml");
    let words = |line: &str| line.split('"').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
    let line = |start: &str| rules.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("no {start}"));
    let allowed = words(line("allow = "));
    let excepted = words(line("exceptions = "));
    let banned: Vec<_> =
        rules.lines().filter(|line| line.trim().starts_with("{ name")).map(|line| words(line)[0].clone()).collect();
    assert!(allowed.len() > 3 && excepted.len() == 2 && banned.len() > 1, "deny.toml is written in another way");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let made = Command::new(cargo)
        .args(["metadata", "--offline", "--locked", "--format-version", "1"])
        .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
        .current_dir(project())
        .output();
    let made = made.expect("run cargo metadata");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let found: serde_json::Value = serde_json::from_slice(&made.stdout).expect("JSON");
    let packages = found["packages"].as_array().expect("packages");
    assert!(packages.len() > 50, "{} packages", packages.len());
    let mut wrong = Vec::new();
    // With the wall off a crate of the project's own is one that is not wanted.
    let off =
        std::env::var("CORACLE_WALLS_OFF").is_ok_and(|walls| walls.split(',').any(|wall| wall == "crates-allowed"));
    let banned: Vec<String> = banned.into_iter().chain(off.then(|| "serde_json".to_owned())).collect();
    for package in packages {
        let text = |field: &str| package[field].as_str().unwrap_or_default();
        let (name, license, source) = (text("name"), text("license"), text("source"));
        if banned.iter().any(|banned| banned == name) {
            wrong.push(format!("{name} is banned"));
        }
        if !source.is_empty() && source != "registry+https://github.com/rust-lang/crates.io-index" {
            wrong.push(format!("{name} comes from {source}"));
        }
        // All names that AND joins, and at least one of those that OR joins.
        let fits = |one: &str| {
            let one = one.trim_matches(['(', ')', ' ']);
            allowed.iter().any(|allowed| allowed == one) || (excepted[0] == name && excepted[1] == one)
        };
        let spelled = license.replace('/', " OR ");
        if !spelled.split(" AND ").all(|part| part.split(" OR ").any(fits)) {
            wrong.push(format!("{name} has the license {license:?}"));
        }
    }
    // Versions with published defects: the first one without them.
    for (name, fixed) in
        [("crossbeam-channel", (0, 5, 15)), ("nix", (0, 23, 1)), ("tar", (0, 4, 45)), ("tiny_http", (0, 8, 0))]
    {
        for package in packages.iter().filter(|package| package["name"] == name) {
            let version = package["version"].as_str().unwrap_or_default();
            let mut parts = version.split(['.', '-', '+']).map(|part| part.parse::<u32>().unwrap_or(0));
            let mut next = || parts.next().unwrap_or(0);
            if (next(), next(), next()) < fixed {
                wrong.push(format!("{name} {version} has a published defect"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
