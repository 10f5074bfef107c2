//! A monitor among clients that behave badly: it serves the others, and costs nothing while it waits.

use crate::support::*;
use coracle::model::*;
use coracle::{AttachOptions, Io};
use coracle_monitor::call::{Call, Until};
use coracle_monitor::encode::PlanWriter;
use coracle_monitor::ops;
use coracle_monitor::wire::*;
use nix::sys::socket::{
    AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, UnixAddr, connect, recv, send, sendmsg, socket,
};
use serde_json::json;
use std::fs::File;
use std::io::{IoSlice, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

/// A connection to a container's control socket.
fn control(root: &Root, id: &str) -> OwnedFd {
    let socket = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None).expect("a socket");
    let address = UnixAddr::new(&root.dir.join("run/c").join(id).join("ctl")).expect("an address");
    connect(socket.as_raw_fd(), &address).expect("connect");
    socket
}

fn ask(socket: &OwnedFd, what: u32) -> nix::Result<usize> {
    let request = Request { magic: MESSAGE_MAGIC, version: VERSION, what, ..Request::default() };
    send(socket.as_raw_fd(), &request.to_bytes(), MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT)
}

/// Seconds of processor time that a process has had.
fn cpu_time(pid: i32) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).expect("its times");
    text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).expect("a number") / 1e9
}

/// Fails unless both halves of the monitor come to rest.
pub(crate) fn rests(monitor: i32) {
    let worker = worker_of(monitor);
    let time = || cpu_time(monitor) + cpu_time(worker);
    wait_for("half a second in which the monitor uses nearly no time", || {
        let before = time();
        std::thread::sleep(Duration::from_millis(500));
        time() - before < 0.05
    });
}

#[test]
fn a_client_that_takes_no_answers_is_let_go() {
    let root = Root::new();
    let id = root.sleeper("patient");
    let client = control(&root, &id);
    let begun = Instant::now();
    // Until the monitor hangs up, because it never waits for the client.
    while begun.elapsed() < SOON {
        match ask(&client, Call::Hello.request().what) {
            Ok(_) => {}
            Err(nix::errno::Errno::EAGAIN) => std::thread::sleep(Duration::from_millis(1)),
            Err(_) => break,
        }
    }
    assert!(begun.elapsed() < SOON, "the monitor kept a client that takes no answers");
    assert_eq!(root.exec(&id, &["echo", "still here"]).ok(), "still here");
    rests(super::roots_engines::monitor_of(&root, &id));
}

/// The monitor's answer to an exec of this plan without streams.
fn exec_of(root: &Root, id: &str, plan: &[u8]) -> Answer {
    let path = root.dir.join("plan");
    std::fs::write(&path, plan).expect("write the plan");
    let (plan, state) = (File::open(&path).expect("the plan"), File::create(root.dir.join("state")).expect("a file"));
    let client = control(root, id);
    let request = Call::Exec { streams: 0 }.request().to_bytes();
    let fds = [plan.as_raw_fd(), state.as_raw_fd()];
    let given = [ControlMessage::ScmRights(&fds)];
    sendmsg::<()>(client.as_raw_fd(), &[IoSlice::new(&request)], &given, MsgFlags::empty(), None).expect("send");
    let mut answer = [0; ANSWER_LEN];
    assert_eq!(recv(client.as_raw_fd(), &mut answer, MsgFlags::empty()), Ok(ANSWER_LEN));
    Answer::from_bytes(&answer).expect("an answer")
}

#[test]
fn a_plan_that_is_none_is_refused_before_it_runs() {
    let root = Root::new();
    let id = root.sleeper("strict");
    let mut plan = PlanWriter::new();
    plan.push(ops::Enter { namespaces: 0 }, "enter nothing");
    plan.push(ops::OwnStreams { uid: 0, gid: 0 }, "give nothing");
    plan.push(ops::Done {}, "end");
    let head = Header::of(&[0; HEADER_LEN]).expect("as long as a head is");
    let (whole, _) = plan.finish(Header { magic: PLAN_MAGIC, version: VERSION, ..head });
    // The second operation, behind the first one's eight bytes and four.
    let second = HEADER_LEN + 12;
    let with_code = |code: u16| {
        let mut plan = whole.clone();
        plan[second..second + 2].copy_from_slice(&code.to_le_bytes());
        plan
    };
    let refused = |errno: i32, step: u32, extra: u32| Answer {
        magic: MESSAGE_MAGIC,
        version: VERSION,
        errno,
        failure: Failure { step, errno, detail: DETAIL_OPERATION, extra },
        ..Answer::default()
    };
    // Code 39 does not exist; a limit (15) is longer, a keyring (17) has no payload.
    assert_eq!(exec_of(&root, &id, &with_code(39)), refused(libc::ENOSYS, 1, 39));
    assert_eq!(exec_of(&root, &id, &with_code(15)), refused(libc::EINVAL, 1, 15));
    assert_eq!(exec_of(&root, &id, &with_code(17)), refused(libc::EINVAL, 1, 17));
    assert_eq!(exec_of(&root, &id, &whole[..whole.len() - 1]), refused(libc::EINVAL, STEP_PLAN, 0));
    assert_eq!(root.exec(&id, &["echo", "still here"]).ok(), "still here");
}

#[test]
fn output_that_nobody_takes_costs_nothing() {
    let root = Root::new();
    let id = root.sleeper("untaken");
    for size in ["64k", "1M"] {
        let fill = format!("bs={size}");
        let config = json!({ "Cmd": ["dd", "if=/dev/zero", fill, "count=1"], "AttachStdout": true });
        let exec = root.engine.exec_create(&id, &serde_json::from_value(config).expect("a body")).expect("exec");
        let _session = root.engine.exec_start(&exec, Some(Io::default()), Some(&soon())).expect("exec start");
        std::thread::sleep(Duration::from_millis(300));
        rests(super::roots_engines::monitor_of(&root, &id));
    }
}

fn kill(pid: i32) {
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL).expect("kill");
}

#[test]
fn a_worker_that_dies_is_replaced_and_no_line_is_lost_uncounted() {
    const LINES: i64 = 3000;
    let root = Root::new();
    // The last line comes when no worker dies any more: a line that is in transit when one dies is lost.
    let script = format!(
        "i=1; while [ $i -lt {LINES} ]; do echo line $i; i=$((i+1)); done
         while [ ! -e /go ]; do sleep 0.1; done; echo the last line; exec sleep 1000"
    );
    let log = json!({ "HostConfig": { "LogConfig": { "Type": "json-file", "Config": { "max-size": "16k", "max-file": "40" } } } });
    let id = root.create("bereft", body(&["sh", "-c", &script], log));
    root.start(&id);
    let (first, monitor) = (root.pid(&id), super::roots_engines::monitor_of(&root, &id));
    for _ in 0..6 {
        let worker = worker_of(monitor);
        kill(worker);
        wait_for("another worker", || children_of(monitor).iter().any(|pid| *pid != worker && worker_name(*pid)));
        std::thread::sleep(Duration::from_millis(30));
    }
    assert_eq!((root.pid(&id), root.status(&id).as_str()), (first, "running"), "its container goes on");
    assert_eq!(root.exec(&id, &["sh", "-c", "touch /go; echo inside"]).ok(), "inside");
    wait_for("the last line", || root.logs(&id).out().ends_with("the last line"));
    root.engine.container_kill(&id, Some("KILL"), Some(&soon())).expect("kill");
    assert_eq!(root.wait(&id), 137);
    let there = root.logs(&id).out().lines().count() as i64;
    let lost = root.inspect(&id).state.log_lost;
    assert!(there + lost >= LINES && there <= LINES, "{there} lines and {lost} lost");
}

fn worker_name(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim() == "coracle-worker")
}

#[test]
fn a_worker_ends_with_its_launcher() {
    let root = Root::new();
    let id = root.sleeper("both");
    let monitor = super::roots_engines::monitor_of(&root, &id);
    let worker = worker_of(monitor);
    kill(monitor);
    wait_for("the worker's end", || !worker_name(worker));
    wait_for("the engine to see it", || root.status(&id) == "exited");
}

#[test]
fn garbage_and_crowds_harm_nobody() {
    let root = Root::new();
    let id = root.sleeper("crowded");
    for garbage in [&b""[..], b"x", &[0xff; 64], &[0; 4096]] {
        let client = control(&root, &id);
        let _ = send(client.as_raw_fd(), garbage, MsgFlags::MSG_NOSIGNAL);
    }
    let unknown = control(&root, &id);
    ask(&unknown, 9999).expect("send");
    let crowd: Vec<OwnedFd> = (0..200).map(|_| control(&root, &id)).collect();
    for client in &crowd {
        ask(client, Call::Wait(Until::Over).request().what).expect("send");
    }
    assert_eq!(root.exec(&id, &["echo", "still here"]).ok(), "still here");
    drop(crowd);
    root.engine.container_stop(&id, Some(5000), Some(&soon())).expect("stop");
}

#[test]
fn a_client_that_does_not_read_costs_no_time() {
    let root = Root::new();
    // More than a pipe and the monitor's buffer hold; then the output ends, the process does not.
    let script = "head -c 4000000 /dev/zero; exec >&- 2>&-; while :; do sleep 0.05; done";
    let id = root
        .create("blocked", body(&["sh", "-c", script], json!({ "HostConfig": { "LogConfig": { "Type": "none" } } })));
    let started = root.engine.container_start(&id, Some(Io::default()), Some(&soon())).expect("start");
    let monitor = super::roots_engines::monitor_of(&root, &id);
    std::thread::sleep(Duration::from_millis(100));
    rests(monitor);
    drop(started);
    // Without its client the output flows off.
    wait_for("the output's end", || !root.exec(&id, &["ls", "-l", "/proc/1/fd"]).out().contains("pipe:"));
    rests(monitor);
}

#[test]
fn a_process_that_does_not_read_costs_no_time() {
    let root = Root::new();
    let id = root.sleeper_with("deaf", json!({ "OpenStdin": true }));
    let attached =
        root.engine.container_attach(&id, Io::default(), AttachOptions::default(), Some(&soon())).expect("attach");
    let op = coracle::Op::new().expect("an operation");
    op.set_timeout(Some(Duration::from_millis(300)));
    // Until the other side accepts no more.
    while attached.write(&[b'x'; 65536], Some(&op)).is_ok() {}
    let monitor = super::roots_engines::monitor_of(&root, &id);
    rests(monitor);
    drop(attached);
    rests(monitor);
    assert_eq!(root.exec(&id, &["echo", "still here"]).ok(), "still here");
    root.engine
        .container_remove(&id, RemoveContainer { force: true, ..RemoveContainer::default() }, Some(&soon()))
        .expect("remove");
}

/// Months of health checks and restarts without a program that takes old events away.
#[test]
fn the_journal_stays_small_where_no_program_looks_after_it() {
    let root = Root::new();
    let mut behind = root.reopen().events(&of_containers()).expect("events");
    let gate = root.dir.join("gate");
    std::fs::create_dir(&gate).expect("a directory");
    let more = host(json!({ "Binds": [format!("{}:/gate", gate.display())] }));
    let script = "until [ -e /gate/open ]; do sleep 0.02; done; exit 3";
    let id = root.create("lone", body(&["sh", "-c", script], more));
    root.start(&id);
    events_until(&mut behind, |event| event.action == "start");
    let path = root.dir.join("run/events");
    let told = std::fs::read(&path).expect("the journal").split_off(4096);
    let much = told.repeat((40 << 20) / told.len());
    let mut file = std::fs::File::options().append(true).open(&path).expect("the journal");
    file.write_all(&much).expect("fill it");
    let takes = || path.metadata().expect("the journal").blocks() * 512;
    assert!(takes() > 32 << 20);
    std::fs::write(gate.join("open"), "").expect("let it end");
    wait_for("the old events to go", || takes() < 12 << 20);
    // A reader that had not read them is told, and continues.
    let lost = behind.next(Some(SOON), None).expect_err("events that are gone");
    assert!(lost.to_string().contains("events were lost"), "{lost}");
    let seen = events_until(&mut behind, |event| event.action == "die");
    assert_eq!(seen.last().expect("an event").actor.attributes["exitCode"], "3");
    assert_eq!(root.inspect(&id).state.exit_code, 3);
}

/// A profile may forbid a process to end: it ends nevertheless, and the callers that wait for it learn of the end.
#[test]
fn a_process_that_may_not_exit_ends_all_the_same() {
    let root = Root::new();
    let profile = json!({ "defaultAction": "SCMP_ACT_ALLOW",
        "syscalls": [{ "names": ["exit", "exit_group"], "action": "SCMP_ACT_ERRNO" }] });
    let host = |more: serde_json::Value| {
        let mut host = json!({ "NetworkMode": "none", "SecurityOpt": [format!("seccomp={profile}")] });
        host.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        json!({ "HostConfig": host })
    };
    let id = root.create("missing", body(&["/nothing"], host(json!({}))));
    let error = root.engine.container_start(&id, None, Some(&soon())).expect_err("the image lacks the program");
    assert!(error.message().contains("no such file"), "{error}");
    let id = root.create("up", body(&["sleep", "1000"], host(json!({}))));
    root.start(&id);
    let monitor = crate::roots_engines::monitor_of(&root, &id);
    let exec = |program: &str| {
        let exec: ExecConfig = serde_json::from_value(json!({ "Cmd": [program, "1000"] })).expect("an exec");
        let exec = root.engine.exec_create(&id, &exec).expect("create an exec");
        root.engine.exec_start(&exec, None, Some(&soon())).map(drop).map_err(|error| error.message().to_owned())
    };
    for (program, told) in [("/nothing", "no such file"), ("nothing", "not found in $PATH")] {
        let error = exec(program).expect_err("the image lacks the program");
        assert!(error.contains(told), "{error}");
    }
    // The helper of an exec is not the program: that one goes on.
    assert_eq!(exec("sleep"), Ok(()));
    let other = root.create("guest", body(&["sleep", "1000"], host(json!({ "PidMode": format!("container:{id}") }))));
    root.start(&other);
    for (monitor, most) in [(monitor, 3), (crate::roots_engines::monitor_of(&root, &other), 2)] {
        wait_for("the helpers to be gone", || children_of(monitor).len() == most);
    }
    root.engine.container_kill(&other, None, None).expect("kill");
    root.engine.container_kill(&id, None, None).expect("kill");
}
