//! Containers that an earlier version of the library started: their monitors go on as they were built.
//!
//! The tests stand in for that version: they write its plan and its boot messages by hand, byte by byte, as nothing of
//! today's code may follow when the formats of today move on.
#![cfg(target_arch = "x86_64")]

use crate::support::kernel::{release, said};
use crate::support::*;
use coracle::model::*;
use coracle::{AttachOptions, Channel, Engine, Io};
use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::socket::{AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, recv, sendmsg, socketpair};
use serde_json::json;
use std::fs::{File, OpenOptions};
use std::io::{IoSlice, Read};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A plan as version 1 has it: numbers little-endian, strings with their length before and a NUL behind.
#[derive(Default)]
struct Plan(Vec<u8>);

impl Plan {
    fn op(&mut self, code: u16, payload: &[Field]) {
        let mut bytes = Vec::new();
        for field in payload {
            match field {
                Field::U32(value) => bytes.extend(value.to_le_bytes()),
                Field::U64(value) => bytes.extend(value.to_le_bytes()),
                Field::Text(text) => {
                    bytes.extend((text.len() as u32).to_le_bytes());
                    bytes.extend([text.as_bytes(), b"\0"].concat());
                }
            }
        }
        self.0.extend(code.to_le_bytes());
        self.0.extend([0; 2]);
        self.0.extend((bytes.len() as u32).to_le_bytes());
        self.0.extend(bytes);
    }

    fn finish(mut self, flags: u32, slot: u32, restart: (u32, u32)) -> Vec<u8> {
        // New namespaces: mount, UTS, IPC, PID, network.
        let clone_flags = 0x0002_0000_u64 | 0x0400_0000 | 0x0800_0000 | 0x2000_0000 | 0x4000_0000;
        self.op(0, &[]);
        let mut head = b"CORAPLAN".to_vec();
        for word in [1, 64 + self.0.len() as u32, flags, slot] {
            head.extend(word.to_le_bytes());
        }
        head.extend(clone_flags.to_le_bytes());
        head.extend([restart.0.to_le_bytes(), restart.1.to_le_bytes()].concat());
        // The log's bounds, the terminal's size, joined namespaces: none.
        head.resize(64, 0);
        [head, self.0].concat()
    }
}

enum Field<'a> {
    U32(u32),
    U64(u64),
    Text(&'a str),
}
use Field::{Text, U32, U64};

/// The freezer's directory for a container, where it has a hierarchy of its own.
fn freezer(id: &str) -> Option<String> {
    Path::new("/sys/fs/cgroup/freezer/tasks").exists().then(|| format!("/sys/fs/cgroup/freezer/coracle/{id}"))
}

/// The earlier version's container: a busybox system without limits, its log in its place.
fn plan(root: &Root, id: &str, slot: u32, command: &[&str], restart: (u32, u32)) -> Vec<u8> {
    const FIXED: u32 = 1 << 31;
    let detail = root.inspect(id);
    let dirs = detail.graph_driver.data.expect("its directories");
    let status = std::fs::read_to_string("/proc/self/status").expect("our status");
    let rights = u64::from_str_radix(&proc_status(&status, "CapBnd"), 16).expect("a mask");
    let mut plan = Plan::default();
    let log = format!("{id}-json.log");
    let attributes = format!("\"image\":\"{IMAGE}\",\"name\":\"{}\"", detail.name.trim_start_matches('/'));
    for (kind, text) in [(1, id), (2, IMAGE), (3, &attributes), (4, &log), (5, "")] {
        plan.op(0x100, &[U32(kind), Text(text)]);
    }
    if let Some(dir) = freezer(id) {
        plan.op(0x101, &[U32(1), Text(&dir)]);
        plan.op(0x104, &[Text(&format!("{dir}/freezer.state"))]);
    }
    plan.op(1, &[Text("older")]);
    plan.op(3, &[]);
    plan.op(4, &[U32(0x4_4000)]);
    let lower: Vec<&str> = dirs["LowerDir"].split(':').collect();
    let mut overlay = vec![Text(&dirs["UpperDir"]), Text(&dirs["WorkDir"]), U32(0), U32(lower.len() as u32)];
    overlay.extend(lower.iter().map(|dir| Text(dir)));
    plan.op(5, &overlay);
    plan.op(6, &[U32(1 | FIXED), U32(14), Text("proc"), Text("proc"), Text("/proc"), U32(0)]);
    plan.op(6, &[U32(FIXED), U32(2), Text("tmpfs"), Text("tmpfs"), Text("/dev"), U32(0)]);
    let pts = [Text("newinstance"), Text(""), Text("ptmxmode"), Text("0666")];
    let mut devpts = vec![U32(2 | FIXED), U32(10), Text("devpts"), Text("devpts"), Text("/dev/pts"), U32(2)];
    devpts.extend(pts);
    plan.op(6, &devpts);
    plan.op(8, &[U32(0o020_666), U32(1), U32(3), U32(0), U32(0), Text("/dev/null")]);
    plan.op(18, &[]);
    plan.op(14, &[U64(0)]);
    plan.op(19, &[Text("/")]);
    plan.op(20, &[U32(0), U32(0), U64(rights), U64(rights), U64(0), Text(""), Text("")]);
    let mut program = vec![U32(command.len() as u32), U32(1)];
    program.extend(command.iter().map(|word| Text(word)));
    program.push(Text("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"));
    plan.op(21, &program);
    // Standard input stays open; there is a log.
    plan.finish(1 << 1 | 1 << 3, slot, restart)
}

/// A monitor of an earlier version; it is ours to reap.
struct Older(Child);

impl Drop for Older {
    fn drop(&mut self) {
        let _ = self.0.wait();
    }
}

/// Makes a container's record one of the earlier version, which named control groups by the container's id alone.
fn age(root: &Root, id: &str) {
    let script = "import sqlite3, sys\nwith sqlite3.connect(sys.argv[1]) as db:\n    \
                  db.execute(\"UPDATE containers SET spec = json_remove(spec, '$.engine') WHERE id = ?\", [sys.argv[2]])";
    let status = Command::new("python3").args(["-c", script]).arg(root.dir.join("root/coracle.db")).arg(id).status();
    assert!(status.expect("run python3").success(), "see above");
}

/// Starts a created container as the earlier version did.
fn start(root: &Root, id: &str, program: &[u8], command: &[&str], restart: (u32, u32)) -> Older {
    age(root, id);
    let open = |path: &str| {
        OpenOptions::new().read(true).write(true).open(root.dir.join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
    };
    let states = std::fs::read(root.dir.join("run/states")).expect("the states");
    let slot = states.as_chunks::<128>().0.iter().position(|record| record[8..16] == id.as_bytes()[..8]);
    let slot = slot.expect("its slot") as u32;
    let dir = |path: &str| File::open(root.dir.join(path).join(id)).unwrap_or_else(|e| panic!("{path}: {e}"));
    let plan_path = root.dir.join("plan");
    std::fs::write(&plan_path, plan(root, id, slot, command, restart)).expect("write the plan");
    let events = OpenOptions::new().append(true).open(root.dir.join("run/events")).expect("the journal");
    let lock = open("run/alive");
    let range = libc::flock { l_type: 1, l_whence: 0, l_start: i64::from(slot), l_len: 1, l_pid: 0 };
    fcntl(&lock, FcntlArg::F_OFD_SETLK(&range)).expect("lock the slot");
    let given = [
        dir("run/c"),
        dir("root/containers"),
        File::open(&plan_path).expect("the plan"),
        events,
        open("run/states"),
        open("root/states"),
        lock,
    ];
    let path = root.dir.join("monitor");
    std::fs::write(&path, program).expect("write the program");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).expect("make it executable");
    let (ours, theirs) =
        socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC).expect("a socket pair");
    let child = Command::new("sh").args(["-c", "exec \"$0\" 3<&0"]).arg(&path).stdin(Stdio::from(theirs)).spawn();
    let older = Older(child.expect("start the monitor"));
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("the boot id");
    let boot = u128::from_str_radix(&boot.trim().replace('-', ""), 16).expect("a UUID").to_be_bytes();
    let fds: Vec<RawFd> = given.iter().map(AsRawFd::as_raw_fd).collect();
    say(&ours, 1, boot, &fds);
    drop(given);
    say(&ours, 12, [0; 16], &[]);
    let mut answer = [0; 40];
    assert_eq!(recv(ours.as_raw_fd(), &mut answer, MsgFlags::empty()), Ok(40));
    assert_eq!(answer[8..12], [0; 4], "it did not start: {answer:?}");
    older
}

/// A boot request: what, and the boot id.
fn say(socket: &OwnedFd, what: u32, boot: [u8; 16], fds: &[RawFd]) {
    let mut request = 0x4c54_4343_u32.to_le_bytes().to_vec();
    for word in [1, what, 0, 0, 0] {
        request.extend(word.to_le_bytes());
    }
    request.extend(boot);
    request.extend([0; 8]);
    let control: &[ControlMessage] = if fds.is_empty() { &[] } else { &[ControlMessage::ScmRights(fds)] };
    sendmsg::<()>(socket.as_raw_fd(), &[IoSlice::new(&request)], control, MsgFlags::empty(), None).expect("send");
}

/// Each kept monitor program, by its file's name.
fn programs() -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(project().join("tests/monitors")).expect("tests/monitors") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|e| e == "xz") {
            let file = File::open(&path).expect("open it");
            let mut program = Vec::new();
            lzma_rust2::XzReader::new(file, true).read_to_end(&mut program).expect("decompress it");
            all.push((path.file_stem().expect("a name").to_string_lossy().into_owned(), program));
        }
    }
    assert!(!all.is_empty(), "no monitor of an earlier version is kept");
    all
}

/// Whether a monitor of that name can start a container here. The first one mounts overlays by an option that kernels before
/// 6.5 take without a word and refuse at the mount: there is no container of that version on such a host.
fn starts_here(name: &str) -> bool {
    name != "x86_64-1" || release() >= (6, 5)
}

/// A root for each kept monitor, and the engine of today on it.
fn with_each(test: impl Fn(&Root, &Engine, &[u8])) {
    for (name, program) in programs() {
        if !starts_here(&name) {
            said(&format!("older: the monitor {name} starts no container on this kernel: nothing was shown of it\n"));
            continue;
        }
        println!("monitor {name}");
        let mut root = Root::new();
        // The file that monitors of that version lock; it was there before this version opened the root.
        File::create(root.dir.join("run/alive")).expect("make run/alive");
        root.engine = root.reopen();
        test(&root, &root.reopen(), &program);
    }
}

#[test]
fn exec_attach_and_stop() {
    with_each(|root, now, program| {
        let script = "trap 'exit 7' TERM; echo ready; while read -r line; do echo \"got $line\"; done; while :; do sleep 0.05; done";
        let id = root.create("old", body(&["sh", "-c", script], json!({ "OpenStdin": true })));
        let older = start(root, &id, program, &["sh", "-c", script], (0, 0));
        wait_for("it to be ready", || root.logs(&id).out() == "ready");
        let attached =
            now.container_attach(&id, Io::default(), AttachOptions::default(), Some(&soon())).expect("attach");
        attached.write(b"hello\n", Some(&soon())).expect("write");
        read_until(&attached, "got hello");

        let mut events = now.events(&EventQuery::default()).expect("events");
        let exec = |config: serde_json::Value| {
            let config: ExecConfig = serde_json::from_value(config).expect("a body");
            let exec = now.exec_create(&id, &config).expect("create an exec");
            let session = now.exec_start(&exec, Some(Io::default()), Some(&soon())).expect("start it");
            (exec, finish(session.expect("a session"), b""))
        };
        let (first, output) = exec(
            json!({ "Cmd": ["sh", "-c", "echo out; echo err >&2; exit 4"], "AttachStdout": true, "AttachStderr": true }),
        );
        assert_eq!((output.out().as_str(), output.err().as_str(), output.code), ("out", "err", 4));
        assert_eq!(now.exec_inspect(&first).expect("inspect").exit_code, Some(4));
        let seen = events_until(&mut events, |e| e.action == "exec_die");
        assert_eq!(seen.last().expect("an event").actor.attributes["exitCode"], "4");
        let (_, output) =
            exec(json!({ "Cmd": ["stty", "size"], "Tty": true, "AttachStdout": true, "AttachStdin": true }));
        assert_eq!(output.code, 0, "{output:?}");

        if freezer(&id).is_some() {
            now.container_pause(&id).expect("pause");
            assert_eq!(now.container_inspect(&id, false).expect("inspect").state.status, "paused");
            now.container_unpause(&id).expect("unpause");
        }
        if freezer(&id).is_some() {
            let top = now.container_top(&id, "-eo pid,args").expect("top");
            assert!(
                top.processes.iter().any(|row| row.last().is_some_and(|args| args.contains("echo ready"))),
                "{top:?}"
            );
        }
        now.container_rename(&id, "renamed").expect("rename");
        now.container_stop(&id, Some(5000), Some(&soon())).expect("stop");
        let state = now.container_inspect(&id, false).expect("inspect").state;
        assert_eq!((state.status.as_str(), state.exit_code, state.error.as_str()), ("exited", 7, ""));
        assert!(attached.fd(Channel::Stdout).is_some());
        drop((attached, older));
        // From now on the container has a monitor of this version.
        now.container_start(&id, None, Some(&soon())).expect("start");
        now.container_kill(&id, None, Some(&soon())).expect("kill");
        assert_eq!(now.container_wait(&id, Some(&soon())).expect("wait"), 137);
    });
}

#[test]
fn policies_logs_and_a_killed_monitor() {
    with_each(|root, now, program| {
        let command = ["sh", "-c", "echo run; exit 5"];
        let id = root.create("fails", body(&command, json!({})));
        // on-failure, once.
        let older = start(root, &id, program, &command, (2, 1));
        wait_for("its end", || now.container_inspect(&id, false).expect("inspect").state.status == "exited");
        let detail = now.container_inspect(&id, false).expect("inspect");
        assert_eq!((detail.restart_count, detail.state.exit_code), (1, 5));
        let mut log = now.container_logs(&id, &LogQuery::default(), Some(&soon())).expect("logs");
        assert_eq!(next_line(&mut log).expect("a line").data, b"run\n");
        drop(older);

        // An older monitor leaves out the members that it does not know; the rest goes on.
        let script = "echo ready; while :; do sleep 0.05; done";
        let check = json!({ "Healthcheck": { "Test": ["CMD", "true"], "Interval": 10_000_000 } });
        let id = root.create("checked", body(&["sh", "-c", script], check));
        let older = start(root, &id, program, &["sh", "-c", script], (1, 0));
        let query = LogQuery { follow: true, ..LogQuery::default() };
        let mut log = now.container_logs(&id, &query, Some(&soon())).expect("logs");
        assert_eq!(next_line(&mut log).expect("a line").data, b"ready\n");
        let detail = now.container_inspect(&id, false).expect("inspect");
        assert_eq!((detail.state.status.as_str(), detail.state.health), ("running", None));
        super::roots_engines::kill_monitor(root, &id);
        drop(older);
        wait_for("its end", || now.container_inspect(&id, false).expect("inspect").state.status == "exited");
        assert!(now.container_inspect(&id, false).expect("inspect").state.error.contains("monitor was killed"));
    });
}

/// Makes the database of a root one of the schema 8, which had no index of the containers that go by themselves, no notes of
/// removals and no levels of labels.
fn age_schema(root: &Root) {
    let store = rusqlite::Connection::open(root.dir.join("root/coracle.db")).expect("the store");
    store.busy_timeout(std::time::Duration::from_secs(10)).expect("patience");
    let back = "DROP INDEX containers_auto_removed; DROP TABLE removals; DROP TABLE levels; DROP TABLE plugins; PRAGMA user_version = 8;";
    store.execute_batch(back).expect("make it older");
}

#[test]
fn a_database_of_an_older_schema_is_brought_up() {
    let root = Root::new();
    let text = json!({ "Labels": { "said": "\"AutoRemove\":true" } });
    let stays = root.create("stays", body(&["true"], text));
    root.start(&stays);
    root.wait(&stays);
    // A container with AutoRemove that ended without a follower.
    let goes = super::auto_remove::ended_alone(&root);
    age_schema(&root);
    drop(root.reopen());
    let dirs = std::fs::read_dir(root.dir.join("root/containers")).expect("the containers");
    let left: Vec<String> = dirs.map(|dir| dir.expect("one").file_name().to_string_lossy().into_owned()).collect();
    assert_eq!(left, [stays], "{goes} was to go with the open");
    let store = rusqlite::Connection::open(root.dir.join("root/coracle.db")).expect("the store");
    let sql = "EXPLAIN QUERY PLAN SELECT id FROM containers WHERE instr(spec, '\"AutoRemove\":true') > 0";
    let plan: String = store.query_row(sql, [], |row| row.get("detail")).expect("a plan");
    assert!(plan.contains("USING INDEX containers_auto_removed"), "{plan}");
}
