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

/// What a shell of that user prints, and whether it succeeded.
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
    // What the attack needs is there, and the way to the directory is open.
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
    fs::write(dir.join("root/theirs"), "").expect("write");
    let error = coracle::Engine::open_with(options_at(&dir)).err().expect("refused");
    assert_eq!(error.kind(), coracle::ErrorKind::Forbidden);
    assert!(error.message().contains("others may look into it (mode 1777)"), "{error}");
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
struct Served {
    child: Child,
    socket: PathBuf,
    /// What it wrote to standard error so far.
    said: Arc<parking_lot::Mutex<String>>,
}

impl Served {
    /// With these words behind `serve`, after `change` of the command; waits until it serves.
    fn start(dir: &Path, words: &[&str], change: impl FnOnce(&mut Command)) -> Served {
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
