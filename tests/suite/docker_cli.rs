//! The stock docker command line, at API 1.24, against `coracle serve`.

use crate::support::*;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// The newest version of the API that [`Served`] serves, if the run chooses one: the suites of the contract run with 1.24,
/// too (`make test-contract`).
pub fn newest_served() -> Option<String> {
    std::env::var("CORACLE_API_MAX").ok()
}

/// The newest version of the API that [`Served`] serves.
pub fn newest_version() -> String {
    newest_served().unwrap_or_else(|| "1.54".into())
}

/// `coracle serve` on a root of its own, and the docker command that talks to it.
pub struct Served {
    pub root: Root,
    server: Child,
    pub socket: PathBuf,
}

impl Served {
    /// A server with the busybox image.
    pub fn new() -> Served {
        let served = Served::empty();
        served.root.load(&busybox_archive());
        served
    }

    /// Without any image.
    fn empty() -> Served {
        let root = Root::empty();
        let socket = root.dir.join("api.sock");
        let server = Command::new(built("coracle"))
            .args(["--root".as_ref(), root.dir.join("root").as_os_str()])
            .args(["--run".as_ref(), root.dir.join("run").as_os_str()])
            .args(["serve", "--durability", "off", "-H", &format!("unix://{}", socket.display())])
            .args(newest_served().map(|version| format!("--api-max={version}")))
            .stderr(Stdio::null())
            .spawn()
            .expect("run coracle serve");
        let served = Served { root, server, socket };
        wait_for("the server", || UnixStream::connect(&served.socket).is_ok());
        served
    }

    /// The server's process.
    pub fn pid(&self) -> u32 {
        self.server.id()
    }

    /// The docker command with these words; it fails the test rather than hang.
    fn command(&self, words: &[&str]) -> Command {
        self.command_within(300, words)
    }

    /// Like [`Self::command`], with another time limit in seconds.
    fn command_within(&self, seconds: u32, words: &[&str]) -> Command {
        let mut command = Command::new("timeout");
        command.args(["-s", "KILL", &seconds.to_string(), "docker"]).args(words).stdin(Stdio::null());
        command.env("DOCKER_HOST", format!("unix://{}", self.socket.display()));
        command.env("DOCKER_API_VERSION", "1.24").env("DOCKER_CONFIG", self.root.dir.join("config"));
        command
    }

    /// Runs it with this standard input.
    fn docker_with(&self, words: &[&str], stdin: &[u8]) -> Output {
        let mut command = self.command(words);
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = piped.spawn().expect("run docker");
        // A command that fails early reads nothing.
        let _ = child.stdin.take().expect("stdin").write_all(stdin);
        output(child)
    }

    fn docker(&self, words: &[&str]) -> Output {
        self.docker_with(words, b"")
    }

    /// `docker build` with its classic builder.
    pub fn build(&self, words: &[&str]) -> Output {
        self.build_with(words, b"")
    }

    /// Like [`Self::build`], with this standard input.
    pub fn build_with(&self, words: &[&str], stdin: &[u8]) -> Output {
        let mut command = self.command(&[&["build"], words].concat());
        command.env("DOCKER_BUILDKIT", "0").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("run docker build");
        let _ = child.stdin.take().expect("stdin").write_all(stdin);
        output(child)
    }

    /// Returns the command's standard output; fails the test if it failed.
    #[track_caller]
    pub fn ok(&self, words: &[&str]) -> String {
        let output = self.docker(words);
        assert_eq!((output.code, output.err().as_str()), (0, ""), "{words:?}: {}", output.out());
        output.out()
    }

    /// Fails with this code, and these words on standard error.
    #[track_caller]
    pub fn fails(&self, words: &[&str], code: i32, text: &str) {
        let output = self.docker(words);
        assert_eq!(output.code, code, "{words:?}: {}", output.err());
        assert!(output.err().contains(text), "{words:?}: {:?} lacks {text:?}", output.err());
    }

    /// Runs it on a terminal; returns what the terminal showed, and the code.
    fn on_terminal(&self, line: &str) -> (String, i32) {
        let mut command = Command::new("script");
        command.args(["-qec", &format!("stty rows 33 cols 99; exec docker {line}"), "/dev/null"]);
        let environment: Vec<_> =
            self.command(&[]).get_envs().map(|(k, v)| (k.to_owned(), v.map(ToOwned::to_owned))).collect();
        for (key, value) in environment {
            command.env(key, value.unwrap_or_default());
        }
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let output = output(child.expect("run script"));
        (output.out().replace('\r', ""), output.code)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let pid = nix::unistd::Pid::from_raw(self.server.id() as i32);
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
        let _ = self.server.wait();
    }
}

fn output(child: Child) -> Output {
    let mut output = child.wait_with_output().expect("its end");
    // The command's own message when it cancels its request, whatever the server is.
    let noise = |line: &&[u8]| !line.starts_with(b"time=") || !line.ends_with(b"context canceled\"\n");
    output.stderr = output.stderr.split_inclusive(|&byte| byte == b'\n').filter(noise).collect::<Vec<_>>().concat();
    Output { stdout: output.stdout, stderr: output.stderr, code: output.status.code().unwrap_or(-1) }
}

const LOOP: &str = "trap 'exit 7' TERM; i=0; while :; do i=$((i+1)); echo line $i; sleep 0.05; done";

#[test]
fn main_job() {
    let served = Served::empty();
    // Nothing tells when it listens: so it asks for what was before, too. It stays as long as all the others take.
    let format = "{{.Type}} {{.Action}} {{.Actor.Attributes.name}}";
    let mut follower = served.command_within(1200, &["events", "--since", "1", "--format", format]);
    let follower = follower.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("run docker events");
    let archive = busybox_archive().display().to_string();
    assert_eq!(served.ok(&["load", "-i", &archive]), "Loaded image: busybox:latest");
    let script = "while read line; do echo \"out $line\"; echo \"err $line\" >&2; done; exit 3";
    let image = served.ok(&["inspect", "-f", "{{.Id}}", "busybox"]);
    let id = served.ok(&["create", "-i", "--name", "boat", "--network", "none", "busybox", "sh", "-c", script]);
    assert_eq!(id.len(), 64);
    assert_eq!(
        served.ok(&["ps", "-a", "--no-trunc", "--format", "{{.ID}} {{.Names}} {{.Status}}"]),
        format!("{id} boat Created")
    );
    assert_eq!(served.ok(&["ps", "-q"]), "");
    // The command attaches, then starts, then passes its input on.
    let attached = served.docker_with(&["start", "-ai", "boat"], b"one\ntwo\n");
    assert_eq!((attached.out().as_str(), attached.err().as_str()), ("out one\nout two", "err one\nerr two"));
    assert_eq!(attached.code, 3);
    assert_eq!(served.ok(&["wait", "boat"]), "3");
    let logs = served.docker(&["logs", "boat"]);
    assert_eq!((logs.out().as_str(), logs.err().as_str()), ("out one\nout two", "err one\nerr two"));
    let format =
        "{{.Id}} {{.Name}} {{.State.Status}} {{.State.ExitCode}} {{.Config.OpenStdin}} {{.HostConfig.NetworkMode}}";
    assert_eq!(served.ok(&["inspect", "-f", format, "boat"]), format!("{id} /boat exited 3 true none"));

    let ship =
        served.ok(&["run", "-d", "--name", "ship", "-l", "k=v", "--network", "none", "busybox", "sh", "-c", LOOP]);
    assert_eq!(served.ok(&["exec", "ship", "echo", "inside"]), "inside");
    served.ok(&["pause", "ship"]);
    assert!(served.ok(&["ps", "--format", "{{.Status}}"]).ends_with("(Paused)"));
    served.fails(&["exec", "ship", "true"], 1, "Container ship is paused, unpause the container before exec");
    served.ok(&["unpause", "ship"]);
    // The container's only process so far is the shell: between two naps there is none of the other.
    assert!(served.ok(&["top", "ship"]).contains("sh -c"));
    served.ok(&["rename", "ship", "liner"]);
    served.ok(&["kill", "-s", "WINCH", "liner"]);
    assert_eq!(served.ok(&["stop", "-t", "20", "liner"]), "liner");
    assert_eq!(served.ok(&["inspect", "-f", "{{.State.ExitCode}}", "liner"]), "7");
    served.ok(&["restart", "-t", "20", "liner"]);
    served.fails(&["rm", "liner"], 1, &format!("You cannot remove a running container {ship}."));
    assert_eq!(served.ok(&["kill", "liner"]), "liner");
    assert_eq!(served.ok(&["wait", "liner"]), "137");
    assert_eq!(served.ok(&["rm", "liner"]), "liner");
    assert_eq!(served.ok(&["rm", "boat"]), "boat");
    assert_eq!(served.ok(&["ps", "-aq"]), "");
    assert!(served.ok(&["rmi", "busybox"]).starts_with("Untagged: busybox:latest\nDeleted: sha256:"));

    let mut seen = lines_until(follower, "image delete");
    seen.retain(|line| !line.starts_with("network "));
    let [load, untag, delete] = ["load", "untag", "delete"].map(|action| format!("image {action} {image}"));
    // dockerd's events for these commands.
    let expected = [
        load.as_str(),
        "container create boat",
        "container attach boat",
        "container start boat",
        "container die boat",
        "container create ship",
        "container start ship",
        "container exec_create: echo inside ship",
        "container exec_start: echo inside ship",
        "container exec_die ship",
        "container pause ship",
        "container unpause ship",
        "container top ship",
        "container rename liner",
        "container kill liner",
        "container kill liner",
        "container die liner",
        "container stop liner",
        "container start liner",
        "container restart liner",
        "container kill liner",
        "container die liner",
        "container destroy liner",
        "container destroy boat",
        &untag,
        &delete,
    ];
    assert_eq!(seen, expected);
}

#[test]
fn run_ends_with_the_code_and_removes() {
    let served = Served::new();
    let run = |words: &[&str]| served.docker(&[&["run", "--rm", "--network", "none", "busybox"], words].concat());
    for _ in 0..5 {
        assert_eq!(run(&["echo", "hello"]), Output { stdout: b"hello\n".to_vec(), ..Output::default() });
    }
    let code = run(&["sh", "-c", "echo out; echo err >&2; exit 42"]);
    assert_eq!((code.out().as_str(), code.err().as_str(), code.code), ("out", "err", 42));
    let piped =
        served.docker_with(&["run", "-i", "--rm", "--network", "none", "busybox", "wc", "-c"], &[b'x'; 100_000]);
    assert_eq!((piped.out().as_str(), piped.code), ("100000", 0), "{}", piped.err());
    assert_eq!(served.ok(&["ps", "-aq"]), "");
    for (words, code, text) in [
        (&["nosuch"][..], 127, "exec: \"nosuch\": executable file not found in $PATH"),
        (&["/etc"], 126, "exec: \"/etc\": permission denied"),
    ] {
        served.fails(&[&["run", "--network", "none", "busybox"], words].concat(), code, text);
        let created = || served.ok(&["ps", "-aq"]).lines().count();
        let before = created();
        served.fails(&[&["run", "--rm", "--network", "none", "busybox"], words].concat(), code, text);
        assert_eq!(created(), before, "one that did not start was to go too");
    }
    let nobody = ["run", "--network", "none", "-u", "nosuch", "busybox", "id"];
    served.fails(&nobody, 125, "unable to find user nosuch: no matching entries in passwd file");
    served.fails(&["run", "--network", "none", "nosuch:v1", "id"], 125, "Unable to find image 'nosuch:v1' locally");
    served.fails(&["start", "nosuch"], 1, "No such container: nosuch");
    let filter =
        |filter: &str| served.ok(&["ps", "-a", "--filter", filter, "--format", "{{.Command}}"]).lines().count();
    assert_eq!((filter("status=created"), filter("status=exited")), (3, 0));
    assert_eq!((filter("is-task=false"), filter("is-task=true"), filter("publish=80")), (3, 0, 0));
}

#[test]
fn logs_by_time_by_tail_and_followed() {
    let served = Served::new();
    let script = "for i in 1 2 3 4; do echo line $i; sleep 0.3; done; echo last >&2";
    let follow = ["run", "-d", "--name", "talker", "--network", "none", "busybox", "sh", "-c", script];
    served.ok(&follow);
    let followed = served.docker(&["logs", "-f", "talker"]);
    assert_eq!((followed.out().as_str(), followed.err().as_str()), ("line 1\nline 2\nline 3\nline 4", "last"));
    assert_eq!(followed.code, 0);
    assert_eq!(served.ok(&["logs", "--tail", "0", "talker"]), "");
    let tail = served.docker(&["logs", "--tail", "2", "talker"]);
    assert_eq!((tail.out().as_str(), tail.err().as_str()), ("line 4", "last"));
    let timed = served.docker(&["logs", "-t", "talker"]).out();
    let times: Vec<&str> = timed.lines().filter_map(|line| line.split_once(' ')).map(|(time, _)| time).collect();
    assert_eq!(times.len(), 4, "{timed}");
    assert!(times.is_sorted() && times.iter().all(|t| t.len() == "2026-01-02T03:04:05.123456789Z".len()), "{times:?}");
    // The time itself is within.
    assert_eq!(served.docker(&["logs", "--since", times[2], "talker"]).out(), "line 3\nline 4");
    assert_eq!(served.docker(&["logs", "--since", "2099-01-01", "talker"]).out(), "");
    served.fails(&["logs", "nosuch"], 1, "No such container: nosuch");
}

#[test]
fn ps_filters() {
    let served = Served::new();
    for (name, label, script) in [("one", "k=v", "exit 3"), ("two", "k=w", "true"), ("three", "other", "sleep 100")] {
        served.ok(&["run", "-d", "--name", name, "-l", label, "--network", "none", "busybox", "sh", "-c", script]);
    }
    served.ok(&["wait", "one", "two"]);
    let ps = |filters: &[&str]| {
        let mut words = vec!["ps", "-a", "--format", "{{.Names}}"];
        filters.iter().for_each(|filter| words.extend(["--filter", *filter]));
        served.ok(&words).replace('\n', " ")
    };
    let id = served.ok(&["inspect", "-f", "{{.Id}}", "two"]);
    for (filters, names) in [
        (&[][..], "three two one"),
        (&["status=exited"], "two one"),
        (&["status=running"], "three"),
        (&["status=exited", "status=running"], "three two one"),
        (&["exited=3"], "one"),
        (&["label=k"], "two one"),
        (&["label=k=w"], "two"),
        (&["name=^/t"], "three two"),
        (&["name=o"], "two one"),
        (&[&format!("id={}", &id[..12])], "two"),
        (&["ancestor=busybox"], "three two one"),
        (&["before=two"], "one"),
        (&["since=two"], "three"),
        (&["status=exited", "label=k=v"], "one"),
    ] {
        assert_eq!(ps(filters), names, "{filters:?}");
    }
    assert_eq!(served.ok(&["ps", "-l", "--format", "{{.Names}}"]), "three");
    assert_eq!(served.ok(&["ps", "-n", "2", "--format", "{{.Names}}"]), "three\ntwo");
    served.fails(&["ps", "--filter", "colour=blue"], 1, "Invalid filter 'colour'");
    let big = served.ok(&["ps", "-s", "--format", "{{.Size}}"]);
    assert!(big.starts_with("0B (virtual "), "{big}");
}

#[test]
fn exec_with_input_code_user_and_terminal() {
    let served = Served::new();
    served.ok(&["run", "-d", "--name", "host", "--network", "none", "busybox", "sleep", "1000"]);
    let both = served.docker(&["exec", "host", "sh", "-c", "echo out; echo err >&2; exit 5"]);
    assert_eq!((both.out().as_str(), both.err().as_str(), both.code), ("out", "err", 5));
    let typed = served.docker_with(&["exec", "-i", "host", "sh", "-c", "cat; exit 4"], b"a\nb\n");
    assert_eq!((typed.out().as_str(), typed.code), ("a\nb", 4));
    assert_eq!(served.ok(&["exec", "-u", "nobody", "host", "id", "-un"]), "nobody");
    assert_eq!(served.ok(&["exec", "-d", "host", "sh", "-c", "echo there > /tmp/mark"]), "");
    wait_for("the detached exec", || served.docker(&["exec", "host", "cat", "/tmp/mark"]).out() == "there");
    let missing = served.docker(&["exec", "host", "nosuch"]);
    assert_eq!((missing.out().trim(), missing.code), ("exec: \"nosuch\": executable file not found in $PATH", 126));
    for _ in 0..5 {
        let (shown, code) = served.on_terminal("exec host true");
        assert_eq!((shown.as_str(), code), ("", 0));
    }
    let (shown, code) = served.on_terminal("exec -t host sh -c 'test -t 1 && test -t 2 && echo terminal; exit 6'");
    assert_eq!((shown.as_str(), code), ("terminal", 6));
    served.fails(&["exec", "nosuch", "true"], 1, "No such container: nosuch");
    served.ok(&["kill", "host"]);
    served.fails(&["exec", "host", "true"], 1, "is not running");
}

#[test]
fn a_terminal_has_the_client_s_size() {
    let served = Served::new();
    let script = "'until [ \"$(stty size 2>/dev/null)\" = \"33 99\" ]; do sleep 0.05; done; tty; exit 8'";
    let (shown, code) = served.on_terminal(&format!("run -t --name wide --network none busybox sh -c {script}"));
    assert_eq!((shown.as_str(), code), ("/dev/pts/0", 8));
    assert_eq!(served.docker(&["logs", "wide"]).out().replace('\r', ""), "/dev/pts/0");
}

#[test]
fn attached_to_what_runs() {
    let served = Served::new();
    served.ok(&["run", "-d", "--name", "clock", "--network", "none", "busybox", "sh", "-c", LOOP]);
    let mut attach = served.command(&["attach", "--no-stdin", "clock"]);
    let mut attached = attach.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("run docker attach");
    let mut lines = BufReader::new(attached.stdout.take().expect("stdout")).lines();
    for _ in 0..3 {
        let line = lines.next().expect("a line while it runs").expect("read it");
        assert!(line.starts_with("line "), "{line}");
    }
    served.ok(&["stop", "clock"]);
    lines.for_each(|line| assert!(line.expect("read it").starts_with("line ")));
    let attached = output(attached);
    assert_eq!(attached.code, 7, "{}", attached.err());
    served.fails(&["attach", "clock"], 1, "You cannot attach to a stopped container, start it first");
}

#[test]
fn images_are_tagged_saved_imported_and_removed() {
    let served = Served::new();
    served.ok(&["tag", "busybox", "harbour/box:v1"]);
    assert_eq!(served.ok(&["images", "--format", "{{.Repository}}:{{.Tag}}", "harbour/box"]), "harbour/box:v1");
    let id = served.ok(&["inspect", "-f", "{{.Id}}", "busybox"]);
    assert_eq!(served.ok(&["history", "-q", "--no-trunc", "harbour/box:v1"]), id);
    assert_eq!(served.ok(&["images", "-q", "--no-trunc"]), format!("{id}\n{id}"));
    let file = served.root.dir.join("saved.tar").display().to_string();
    served.ok(&["save", "-o", &file, "harbour/box:v1"]);
    assert_eq!(served.ok(&["rmi", "harbour/box:v1"]), "Untagged: harbour/box:v1");
    served.ok(&["rmi", "busybox"]);
    assert_eq!(served.ok(&["images", "-q"]), "");
    assert_eq!(served.ok(&["load", "-q", "-i", &file]), "Loaded image: harbour/box:v1");
    assert_eq!(served.ok(&["inspect", "-f", "{{.Id}}", "harbour/box:v1"]), id);

    let files = served.root.dir.join("rootfs/bin");
    std::fs::create_dir_all(&files).expect("make a root file system");
    std::fs::copy("/bin/busybox", files.join("busybox")).expect("copy busybox");
    let tar = Command::new("tar").arg("-C").arg(served.root.dir.join("rootfs")).args(["-c", "."]).output();
    let change = "CMD [\"/bin/busybox\",\"echo\",\"imported\"]";
    let imported =
        served.docker_with(&["import", "-c", change, "-m", "by hand", "-", "flat:one"], &tar.expect("run tar").stdout);
    assert!(imported.out().starts_with("sha256:") && imported.code == 0, "{} {}", imported.out(), imported.err());
    assert_eq!(served.ok(&["run", "--rm", "--network", "none", "flat:one"]), "imported");
    assert_eq!(served.ok(&["history", "--format", "{{.Comment}}", "flat:one"]), "by hand");

    for (words, text) in [
        (&["tag", "nosuch", "x"][..], "No such image: nosuch:latest"),
        (&["rmi", "nosuch"], "No such image: nosuch"),
        (&["save", "-o", &file, "nosuch"], "No such image: nosuch"),
        (&["inspect", "--type", "image", "nosuch"], "No such image: nosuch"),
    ] {
        served.fails(words, 1, text);
    }
    served.ok(&["create", "--name", "user", "--network", "none", "flat:one"]);
    served.fails(&["rmi", "flat:one"], 1, "is using");
}

#[test]
fn version_and_info() {
    let served = Served::new();
    let said = served.ok(&["version", "--format", "{{.Server.APIVersion}} {{.Server.Os}}"]);
    assert_eq!(said, format!("{} linux", newest_version()));
    let directory = served.root.dir.join("root").display().to_string();
    assert_eq!(
        served.ok(&["info", "--format", "{{.Images}} {{.Containers}} {{.DockerRootDir}}"]),
        format!("1 0 {directory}")
    );
    assert!(served.docker(&["info"]).out().contains("Logging Driver: json-file"));
}

/// The lines of a command's standard output until one begins so; then the command is ended.
fn lines_until(mut child: Child, last: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for line in BufReader::new(child.stdout.take().expect("stdout")).lines() {
        lines.push(line.expect("a line"));
        if lines.last().is_some_and(|line| line.starts_with(last)) {
            break;
        }
    }
    child.kill().expect("end it");
    child.wait().expect("its end");
    lines
}
