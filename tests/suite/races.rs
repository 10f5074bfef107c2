//! Moments that a busy machine brings: a container ends while it is committed, a program dies in a commit, a monitor cannot
//! be reached, a port is taken by somebody else. Each moment is made, not waited for.

use crate::docker_cli::Served;
use crate::http::{UPGRADE, ask, whole};
use crate::oracle::{call_bytes, document};
use crate::roots_engines::spawn_worker;
use crate::support::ended::busy;
use crate::support::world::World;
use crate::support::*;
use coracle::model::*;
use coracle::{AttachOptions, Engine, ErrorKind, Io};
use nix::fcntl::{FcntlArg, fcntl};
use serde_json::json;
use std::fs::File;
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;

/// Works on all containers of a root at once, as another program would on one: changes of theirs wait until it is dropped.
struct AtWork(File);

impl AtWork {
    fn on(root: &Root) -> AtWork {
        let path = root.dir.join("run/busy");
        let file = File::options().read(true).write(true).open(path).expect("the file of the call that works");
        let all = libc::flock {
            l_type: libc::F_WRLCK as i16,
            l_whence: libc::SEEK_SET as i16,
            l_start: 0,
            l_len: 0,
            l_pid: 0,
        };
        wait_for("nobody to work", || fcntl(&file, FcntlArg::F_OFD_SETLK(&all)).is_ok());
        AtWork(file)
    }

    /// Whether somebody of this program waits for it: the process that does has the file open.
    fn is_waited_for(&self) -> bool {
        let place = |file: std::fs::Metadata| (file.dev(), file.ino());
        let this = place(self.0.metadata().expect("the file"));
        let is_it = |fd: &std::fs::DirEntry| std::fs::metadata(fd.path()).is_ok_and(|there| place(there) == this);
        let open = std::fs::read_dir("/proc/self/fd").expect("the descriptors").flatten();
        open.filter(is_it).count() > 1
    }
}

fn kill(pid: i32) {
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL).expect("kill");
}

#[test]
fn a_container_that_ends_at_that_moment_is_committed() {
    let root = Root::new();
    let id = root.create("ends", body(&["sh", "-c", "echo kept > /mark; sleep 1000"], json!({})));
    root.start(&id);
    root.wait_for("the file", || root.exec(&id, &["cat", "/mark"]).out() == "kept");
    let pid = root.pid(&id);
    let work = AtWork::on(&root);
    let image = std::thread::scope(|scope| {
        let commit = scope.spawn(|| root.engine.container_commit(&id, &CommitContainer::default(), Some(&soon())));
        root.wait_for("the commit to wait for its pause", || work.is_waited_for());
        kill(pid);
        root.wait_for("the end", || root.status(&id) == "exited");
        drop(work);
        commit.join().expect("the thread").expect("commit")
    });
    assert_eq!(root.run(&["cat", "/mark"], json!({ "Image": image }), b"").ok(), "kept");
}

/// The work of the killed program in the next test.
pub fn commits(engine: &Engine) {
    engine.container_commit("frozen", &CommitContainer::default(), None).expect("commit");
}

#[test]
fn a_program_killed_in_a_commit_leaves_nothing_frozen() {
    let root = Root::new();
    let script = "truncate -s 8G /large; i=0; while :; do echo $i; i=$((i+1)); sleep 0.05; done";
    let id = root.create("frozen", body(&["sh", "-c", script], json!({})));
    root.start(&id);
    root.wait_for("its first line", || !root.logs(&id).stdout.is_empty());
    let mut events = root.engine.events(&of_containers()).expect("events");
    let mut worker = spawn_worker("commits", &root, 0);
    // The program tells of its pause after the freeze: a program that is killed in between tells nothing.
    let mut seen = events_until(&mut events, |event| event.action == "pause");
    worker.kill().expect("kill the program");
    worker.wait().expect("reap it");
    root.wait_for("the container to go on", || root.status(&id) == "running");
    let before = root.logs(&id).stdout.len();
    root.wait_for("its output to go on", || root.logs(&id).stdout.len() > before);
    seen.extend(events_until(&mut events, |event| event.action == "unpause"));
    assert_eq!(actions(&seen), ["pause", "unpause"]);
    // A container that a user froze stays frozen, whichever program dies.
    root.engine.container_pause(&id).expect("pause");
    assert_eq!(root.status(&id), "paused");
}

/// Like dockerd's events.
#[test]
fn a_paused_container_that_is_stopped_is_told_to_go_on() {
    let root = Root::new();
    let script = "trap 'exit 3' TERM; echo ready; while :; do sleep 0.05; done";
    let id = root.create("paused", body(&["sh", "-c", script], json!({})));
    root.start(&id);
    root.wait_for("its trap", || root.logs(&id).out() == "ready");
    let mut events = root.engine.events(&of_containers()).expect("events");
    root.engine.container_pause(&id).expect("pause");
    root.engine.container_stop(&id, Some(10_000), Some(&soon())).expect("stop");
    let seen = events_until(&mut events, |event| event.action == "stop");
    assert_eq!(actions(&seen), ["pause", "kill", "unpause", "die", "stop"]);
    assert_eq!(root.inspect(&id).state.exit_code, 3);
}

#[test]
fn a_container_whose_run_directory_is_gone_is_said_to_run_and_can_be_removed() {
    let root = Root::new();
    let always = host(json!({ "RestartPolicy": { "Name": "always" } }));
    let id = root.sleeper_with("cut-off", always);
    let pid = root.pid(&id);
    std::fs::remove_dir_all(root.dir.join("run/c").join(&id)).expect("remove its run directory");
    let engine = &root.engine;
    fails(engine.container_stop(&id, Some(0), Some(&soon())), ErrorKind::Internal, "its monitor cannot be reached");
    fails(engine.container_kill(&id, None, Some(&soon())), ErrorKind::Internal, "its monitor cannot be reached");
    let config: ExecConfig = serde_json::from_value(json!({ "Cmd": ["true"] })).expect("an exec body");
    let exec = engine.exec_create(&id, &config).expect("exec create");
    fails(engine.exec_start(&exec, None, Some(&soon())), ErrorKind::Internal, "its monitor cannot be reached");
    assert_eq!(root.status(&id), "running");
    fails(
        engine.container_remove(&id, RemoveContainer::default(), Some(&soon())),
        ErrorKind::Conflict,
        "You cannot remove a running container",
    );
    let force = RemoveContainer { force: true, ..RemoveContainer::default() };
    engine.container_remove(&id, force, Some(&soon())).expect("remove by force");
    fails(engine.container_inspect(&id, false), ErrorKind::NotFound, "No such container");
    // The machine's first process may take its time to reap it.
    let stat = || std::fs::read_to_string(format!("/proc/{pid}/stat"));
    root.wait_for("its process to end", || stat().map_or(true, |text| text.contains(") Z ")));
}

#[test]
fn a_session_that_closes_stdin_ends_it() {
    let root = Root::new();
    for once in [true, false] {
        let more = json!({ "OpenStdin": true, "StdinOnce": once });
        let id = root.create("", body(&["sh", "-c", "cat; echo done"], more.clone()));
        let started = root.engine.container_start(&id, Some(Io::default()), Some(&soon())).expect("start");
        let session = started.session.expect("a session");
        let text = b"hello\n".repeat(50_000);
        let sent = std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let op = soon();
                let mut sent = 0;
                while sent < text.len() {
                    sent += session.write(&text[sent..], Some(&op)).expect("write");
                }
                session.close_stdin().expect("end stdin");
                sent
            });
            let output = read_output(&session);
            assert_eq!(output.stdout, [&text[..], b"done\n"].concat(), "StdinOnce {once}");
            writer.join().expect("the writer")
        });
        assert_eq!((sent, session.wait(Some(&soon())).expect("wait")), (text.len(), 0));
    }
    // Dropping a session does not end its process.
    let id = root.create("", body(&["cat"], json!({ "OpenStdin": true })));
    root.start(&id);
    let attach = || root.engine.container_attach(&id, Io::default(), AttachOptions::default(), Some(&soon()));
    drop(attach().expect("attach"));
    let session = attach().expect("attach again");
    session.write(b"still there\n", Some(&soon())).expect("write");
    assert_eq!(read_until(&session, "there\n"), "still there\n");
    session.close_stdin().expect("end stdin");
    assert_eq!(root.wait(&id), 0);
}

#[test]
fn a_port_that_another_program_has_is_passed_over() {
    let world = World::new();
    let root = &world.root;
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").expect("the range");
    let first: u16 = range.split_whitespace().next().expect("a number").parse().expect("a port");
    let held: Vec<TcpListener> = (first..first + 60)
        .enumerate()
        .filter_map(|(at, port)| {
            let address = ["0.0.0.0", "127.0.0.1", "[::]", "[::1]"][at % 4];
            TcpListener::bind(format!("{address}:{port}")).ok()
        })
        .collect();
    assert!(held.len() > 30, "{} ports are free", held.len());
    let ports: Vec<u16> = held.iter().map(|one| one.local_addr().expect("an address").port()).collect();
    let network = json!({
        "ExposedPorts": { "80/tcp": {}, "81/tcp": {} },
        "HostConfig": { "NetworkMode": "bridge", "PublishAllPorts": true },
    });
    let id = root.sleeper_with("published", network);
    let settings = root.inspect(&id).network_settings;
    let chosen: Vec<u16> = settings.ports.bindings().map(|(_, port)| port.parse().expect("a port")).collect();
    assert!(chosen.len() >= 2, "{chosen:?}");
    assert!(chosen.iter().all(|port| !ports.contains(port)), "{chosen:?} of {ports:?}");
}

/// The answers of a build, a line each.
fn build(served: &Served, query: &str, context: &[u8]) -> String {
    let (status, answer) = call_bytes(&served.socket, "POST", &format!("/build?{query}"), context);
    let text = String::from_utf8(answer).expect("text");
    assert_eq!(status, 200, "{text}");
    text.lines().map(|line| text_of(&document(line.as_bytes()))).collect()
}

fn text_of(message: &serde_json::Value) -> String {
    message["stream"].as_str().map_or_else(|| message.to_string(), str::to_owned)
}

#[test]
fn a_build_without_rm_keeps_its_containers() {
    let served = Served::new();
    let dir = served.root.dir.join("context");
    std::fs::create_dir(&dir).expect("a directory");
    std::fs::write(dir.join("a"), "hi\n").expect("a file");
    let file = "FROM scratch\nLABEL x=y\nCOPY a /\nCMD [\"/a\"]\nFROM busybox\nRUN echo one > /one\nENV a=b\n";
    std::fs::write(dir.join("Dockerfile"), file).expect("the build file");
    let out = std::process::Command::new("tar").arg("-cC").arg(&dir).arg(".").output().expect("tar");
    let all = ListContainers { all: true, ..ListContainers::default() };
    let containers = || served.root.engine.container_list(&all).expect("list");
    for (query, kept) in [("rm=0&nocache=1", 4), ("rm=0&forcerm=1&nocache=1", 0), ("nocache=1", 0)] {
        let said = build(&served, query, &out.stdout);
        assert!(said.contains("Successfully built"), "{query}: {said}");
        let list = containers();
        assert_eq!(list.len(), kept, "{query}: {list:?}");
        assert_eq!(said.matches("Removing intermediate container").count(), 4 - kept, "{query}: {said}");
        for container in list {
            let without = container.image.is_empty();
            assert_eq!(without, container.command.contains("LABEL"), "{container:?}");
            served.root.engine.container_remove(&container.id, RemoveContainer::default(), None).expect("remove");
        }
    }
    // A step that fails keeps its container unless it is said that it goes all the same.
    std::fs::write(dir.join("Dockerfile"), "FROM busybox\nRUN exit 3\n").expect("the build file");
    let out = std::process::Command::new("tar").arg("-cC").arg(&dir).arg(".").output().expect("tar");
    for (query, kept) in [("rm=1", 1), ("rm=0", 2), ("forcerm=1", 2)] {
        let said = build(&served, query, &out.stdout);
        assert!(said.contains("returned a non-zero code: 3"), "{query}: {said}");
        assert_eq!(containers().len(), kept, "{query}");
    }
}

/// Requests about something whose answer a client has just got.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Door {
    Resize,
    Inspect,
    Kill,
    Attach,
}

const DOORS: [Door; 4] = [Door::Resize, Door::Inspect, Door::Kill, Door::Attach];

/// Asks about a container by a connection of its own; returns the status line, and the document where there is one.
fn ask_about(served: &Served, container: &str, door: Door) -> (String, serde_json::Value) {
    let of = |rest: &str| format!("/containers/{container}/{rest}");
    let none = serde_json::Value::Null;
    match door {
        Door::Resize => whole(served, "POST", &of("resize?h=33&w=77"), &none),
        Door::Inspect => whole(served, "GET", &of("json"), &none),
        Door::Kill => whole(served, "POST", &of("kill"), &none),
        Door::Attach => (ask(served, "POST", &of("attach?stream=1&stdout=1"), UPGRADE, "").1, none),
    }
}

/// A client that has the answer of a create, a start or an exec's start may ask about the object at once, by another
/// connection and on a busy machine: it is there, in the state that the answer promised.
#[test]
fn another_connection_finds_an_answered_object_at_once() {
    const ROUNDS: usize = 5;
    const OK: &str = "HTTP/1.1 200 OK";
    const NONE: &str = "HTTP/1.1 204 No Content";
    const CONFLICT: &str = "HTTP/1.1 409 Conflict";
    const UPGRADED: &str = "HTTP/1.1 101 UPGRADED";
    let served = Served::new();
    let _busy = busy(8);
    let terminal = body(&["sleep", "1000"], json!({ "Tty": true, "OpenStdin": true }));
    let create = || {
        let (line, made) = whole(&served, "POST", "/containers/create", &terminal);
        assert_eq!(line, "HTTP/1.1 201 Created", "{made}");
        made["Id"].as_str().expect("an id").to_owned()
    };
    let start = |id: &str| {
        let (line, said) = whole(&served, "POST", &format!("/containers/{id}/start"), &serde_json::Value::Null);
        assert_eq!(line, NONE, "{said}");
    };
    let remove = |id: &str| {
        whole(&served, "DELETE", &format!("/containers/{id}?force=1"), &serde_json::Value::Null);
    };
    for round in 0..ROUNDS {
        for door in DOORS {
            let id = create();
            let (line, said) = ask_about(&served, &id, door);
            let wanted = match door {
                Door::Resize | Door::Kill => CONFLICT,
                Door::Inspect => OK,
                Door::Attach => UPGRADED,
            };
            assert_eq!(line, wanted, "round {round}, created, {door:?}: {said}");
            let is_as_said = match door {
                Door::Inspect => said["State"]["Status"] == "created",
                Door::Attach => true,
                _ => said["message"].as_str().is_some_and(|text| text.contains("is not running")),
            };
            assert!(is_as_said, "round {round}, created, {door:?}: {said}");
            start(&id);
            let (line, said) = ask_about(&served, &id, door);
            let wanted = match door {
                Door::Resize | Door::Inspect => OK,
                Door::Kill => NONE,
                Door::Attach => UPGRADED,
            };
            assert_eq!(line, wanted, "round {round}, started, {door:?}: {said}");
            assert!(door != Door::Inspect || said["State"]["Running"] == true, "round {round}: {said}");
            remove(&id);
        }
        for (detach, door) in [false, true].into_iter().flat_map(|detach| DOORS.map(|door| (detach, door))) {
            let id = create();
            start(&id);
            let config = json!({ "Cmd": ["sleep", "1000"], "Tty": true, "AttachStdin": true, "AttachStdout": true });
            let (line, made) = whole(&served, "POST", &format!("/containers/{id}/exec"), &config);
            assert_eq!(line, "HTTP/1.1 201 Created", "{made}");
            let exec = format!("/exec/{}", made["Id"].as_str().expect("an id"));
            let how = json!({ "Detach": detach, "Tty": true }).to_string();
            let fields = if detach { "" } else { UPGRADE };
            let (_stream, line) = ask(&served, "POST", &format!("{exec}/start"), fields, &how);
            assert_eq!(line, if detach { OK } else { UPGRADED });
            let none = serde_json::Value::Null;
            let inspect = || whole(&served, "GET", &format!("{exec}/json"), &none);
            let (line, said) = match door {
                Door::Resize => whole(&served, "POST", &format!("{exec}/resize?h=33&w=77"), &none),
                Door::Inspect => inspect(),
                Door::Kill => {
                    // As long as the exec exists, so does its process.
                    let pid = inspect().1["Pid"].as_i64().expect("a pid");
                    kill(i32::try_from(pid).expect("a pid"));
                    served.root.wait_for("the exec's end", || inspect().1["Running"] == false);
                    inspect()
                }
                // An exec is joined by its start alone, and that once.
                Door::Attach => whole(&served, "POST", &format!("{exec}/start"), &json!({ "Detach": true })),
            };
            let wanted = match door {
                Door::Resize => "HTTP/1.1 201 Created",
                Door::Inspect | Door::Kill => OK,
                Door::Attach => CONFLICT,
            };
            assert_eq!(line, wanted, "round {round}, exec, detached {detach}, {door:?}: {said}");
            assert!(door != Door::Inspect || said["Running"] == true, "round {round}: {said}");
            assert!(door != Door::Kill || said["ExitCode"] == 137, "round {round}: {said}");
            let told = said["message"].as_str().unwrap_or_default();
            assert!(door != Door::Attach || told.ends_with("is already running"), "round {round}: {said}");
            remove(&id);
        }
    }
}
