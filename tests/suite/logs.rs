//! Logs: options, bounds, readers.

use crate::support::*;
use coracle::model::*;
use coracle::{AttachOptions, Io, LogFormat};
use serde_json::{Value, json};

fn logged(kind: &str, options: Value) -> Value {
    json!({ "HostConfig": { "LogConfig": { "Type": kind, "Config": options } } })
}

/// The log as a reader with these wishes gets it.
fn read(root: &Root, id: &str, query: &LogQuery) -> Vec<coracle::LogLine> {
    let mut log = root.engine.container_logs(id, query, Some(&soon())).expect("logs");
    std::iter::from_fn(|| next_line(&mut log)).collect()
}

// field: HostConfig.LogConfig.Config
#[test]
fn lines_carry_what_the_options_name() {
    let root = Root::new();
    let mut more =
        logged("json-file", json!({ "labels": "team,none", "env": "STAGE", "tag": "{{.Name}}/{{.ImageName}}" }));
    more["Labels"] = json!({ "team": "a,b", "other": "x" });
    more["Env"] = json!(["STAGE=test", "SECRET=1"]);
    let id = root.create("tagged", body(&["echo", "<hi>"], more));
    root.start(&id);
    root.wait(&id);
    let line = &read(&root, &id, &LogQuery::default())[0];
    assert_eq!(json!(line.attrs), json!({ "STAGE": "test", "tag": "tagged/busybox", "team": "a,b" }));
    let mut out = Vec::new();
    LogFormat { timestamps: false, details: true }.append(line.view(), &mut out);
    assert_eq!(String::from_utf8_lossy(&out), "STAGE=test,tag=tagged%2Fbusybox,team=a%2Cb <hi>\n");
    let record = std::fs::read_to_string(root.inspect(&id).log_path).expect("the file");
    let json: Value = serde_json::from_str(record.trim_end()).expect("one JSON object");
    assert_eq!((json["log"].as_str(), json["attrs"]["team"].as_str()), (Some("<hi>\n"), Some("a,b")));
}

#[test]
fn attributes_of_any_size_leave_the_records_whole() {
    let root = Root::new();
    let mut more = logged("json-file", json!({ "labels": "big" }));
    more["Labels"] = json!({ "big": "\"".repeat(60_000) });
    let id = root.create("big", body(&["sh", "-c", "echo one; head -c 40000 /dev/zero; echo; echo two"], more));
    root.start(&id);
    root.wait(&id);
    let lines = read(&root, &id, &LogQuery::default());
    assert!(lines.iter().all(|line| line.attrs["big"].len() == 60_000));
    assert_eq!(
        (lines[0].data.as_slice(), lines.last().expect("lines").data.as_slice()),
        (&b"one\n"[..], &b"two\n"[..])
    );
}

#[test]
fn wrong_options_are_refused_at_create() {
    let root = Root::new();
    for (kind, options, text) in [
        ("json-file", json!({ "max-file": "0" }), "max-file cannot be less than 1"),
        ("json-file", json!({ "tag": "{{.Nope}}" }), "template: log-tag: can't evaluate field Nope"),
        ("json-file", json!({ "labels-regex": "(" }), "error parsing regexp"),
        (
            "json-file",
            json!({ "compress": "true", "max-size": "1m" }),
            "compress cannot be true when max-file is less than 2",
        ),
        ("local", json!({ "max-file": "1" }), "compression cannot be enabled when max file count is 1"),
        ("local", json!({ "labels": "a" }), "unknown log opt 'labels' for log driver local"),
    ] {
        fails(root.try_create("", body(&["true"], logged(kind, options))), coracle::ErrorKind::Invalid, text);
    }
    assert!(root.names(&ListContainers { all: true, ..ListContainers::default() }).is_empty());
}

// field: HostConfig.LogConfig.Type
#[test]
fn local_keeps_a_bounded_log() {
    let root = Root::new();
    let id = root
        .create("ring", body(&["seq", "1", "3000"], logged("local", json!({ "max-size": "20k", "max-file": "2" }))));
    root.start(&id);
    root.wait(&id);
    assert_eq!(root.inspect(&id).log_path, "");
    let out = root.logs(&id).out();
    let numbers: Vec<u32> = out.lines().map(|l| l.parse().expect("a number")).collect();
    assert!(numbers.len() < 1000 && numbers.last() == Some(&3000), "{} lines", numbers.len());
    assert!(numbers.windows(2).all(|w| w[1] == w[0] + 1), "lines are missing in the middle");
}

/// The command on a test's root.
fn command(root: &Root) -> std::process::Command {
    let mut command = std::process::Command::new(built("coracle"));
    command.args(["--root".as_ref(), root.dir.join("root").as_os_str()]);
    command.args(["--run".as_ref(), root.dir.join("run").as_os_str()]);
    command
}

/// The numbers that a reader gets from a container that counts.
fn numbers(lines: &[coracle::LogLine]) -> Vec<u64> {
    lines.iter().map(|l| String::from_utf8_lossy(&l.data).trim_end().parse().expect("a number")).collect()
}

/// A container that counts in steps of a hundred lines, each when its session tells it to.
fn counter(root: &Root, name: &str, options: Value) -> (String, coracle::Session) {
    let script = "i=0; while read go; do for n in $(seq 100); do i=$((i + 1)); echo $i; done; done";
    let mut more = logged("json-file", options);
    (more["OpenStdin"], more["StdinOnce"]) = (json!(true), json!(true));
    let id = root.create(name, body(&["sh", "-c", script], more));
    root.start(&id);
    let session = stdin_of(root, &id);
    (id, session)
}

/// The input of a container.
fn stdin_of(root: &Root, id: &str) -> coracle::Session {
    let streams = AttachStreams { stdin: true, stdout: false, stderr: false };
    let how = AttachOptions { streams, wait_for_start: false };
    root.engine.container_attach(id, Io::default(), how, Some(&soon())).expect("attach")
}

/// Lets a [`counter`] go on, and waits until it has written up to `last`.
fn count_to(root: &Root, id: &str, session: &coracle::Session, last: u64) {
    session.write(b"go\n", Some(&soon())).expect("tell it");
    wait_for("the lines", || {
        let lines = read(root, id, &LogQuery { tail: Some(1), ..LogQuery::default() });
        lines.first().is_some_and(|line| line.data == format!("{last}\n").as_bytes())
    });
}

/// Takes what a follower gets until the line `last` is among it.
fn follow_to(log: &mut coracle::LogStream, last: u64) -> Vec<u64> {
    let mut lines = Vec::new();
    while lines.last() != Some(&last) {
        lines.extend(numbers(&[next_line(log).expect("a line")]));
    }
    lines
}

#[test]
fn a_follower_keeps_up_over_rotations() {
    let root = Root::new();
    let (id, session) = counter(&root, "turns", json!({ "max-size": "4k", "max-file": "4" }));
    let query = LogQuery { follow: true, ..LogQuery::default() };
    let mut log = root.engine.container_logs(&id, &query, Some(&soon())).expect("logs");
    for step in 0..20 {
        count_to(&root, &id, &session, 100 * (step + 1));
        // Two files were filled meanwhile: neither of the four was deleted unread.
        assert_eq!(follow_to(&mut log, 100 * (step + 1)), (100 * step + 1..=100 * (step + 1)).collect::<Vec<_>>());
    }
    assert_eq!((log.lost(), log.earlier(), log.skipped()), (0, 0, 0));
}

#[test]
fn lines_that_rotation_deleted_unread_are_counted() {
    let root = Root::new();
    let (id, session) = counter(&root, "bounded", json!({ "max-size": "2k", "max-file": "2" }));
    let query = LogQuery { follow: true, ..LogQuery::default() };
    let mut log = root.engine.container_logs(&id, &query, Some(&soon())).expect("logs");
    count_to(&root, &id, &session, 100);
    let mut seen = follow_to(&mut log, 100);
    assert_eq!(seen.len() as u64 + log.lost(), 100);
    // The reader does not read while more is written than two files hold.
    for step in 1..4 {
        count_to(&root, &id, &session, 100 * (step + 1));
    }
    seen.extend(follow_to(&mut log, 400));
    assert!(log.lost() > 200 && seen.windows(2).all(|pair| pair[0] < pair[1]), "{} lost", log.lost());
    assert_eq!(seen.len() as u64 + log.lost(), 400);
    // A later reader is told, too: the command says it beside the lines.
    drop(session);
    root.wait(&id);
    let output = command(&root).args(["logs", "bounded"]).output().expect("run coracle");
    let (lines, told) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let earlier = 400 - lines.lines().count();
    assert_eq!(told, format!("coracle: {earlier} lines were deleted by rotation (max-size, max-file)\n"));
    // Started again, the count goes on.
    root.start(&id);
    let again = root.engine.container_logs(&id, &LogQuery::default(), Some(&soon())).expect("logs");
    assert_eq!(again.earlier(), earlier as u64);
}

#[test]
fn rotated_files_are_compressed_and_read_like_others() {
    let root = Root::new();
    let options = json!({ "max-size": "20k", "max-file": "20", "compress": "true" });
    let script = "seq 1 1000; read go; seq 1001 3000";
    let mut more = logged("json-file", options);
    (more["OpenStdin"], more["StdinOnce"]) = (json!(true), json!(true));
    let id = root.create("small", body(&["sh", "-c", script], more));
    root.start(&id);
    let query = LogQuery { follow: true, ..LogQuery::default() };
    let mut log = root.engine.container_logs(&id, &query, Some(&soon())).expect("logs");
    let mut seen = follow_to(&mut log, 10);
    drop(stdin_of(&root, &id));
    root.wait(&id);
    let path = root.inspect(&id).log_path;
    let files = || {
        let dir = std::path::Path::new(&path).parent().expect("a directory");
        let names = std::fs::read_dir(dir).expect("list").map(|entry| entry.expect("entry").file_name());
        let mut names: Vec<String> = names.filter_map(|name| name.into_string().ok()).collect();
        names.retain(|name| name.contains("-json.log"));
        names
    };
    // The last lines stay unchanged; all others are compressed in the end. A directory that changes while it is listed
    // may be short of a name: so what the listing says is looked for.
    let is_there = |number: usize| std::path::Path::new(&format!("{path}.{number}.gz")).exists();
    wait_for("the compression", || {
        let names = files();
        let compressed = names.iter().filter(|name| name.ends_with(".gz")).count();
        names.len() == compressed + 1 && (1..=compressed).all(is_there) && !is_there(compressed + 1)
    });
    let compressed = files().len() - 1;
    assert!((8..20).contains(&compressed), "{:?}", files());
    let unpacked = std::process::Command::new("zcat").arg(format!("{path}.{compressed}.gz")).output().expect("zcat");
    assert!(unpacked.status.success() && unpacked.stdout.starts_with(b"{\"log\":\"1\\n\",\"stream\":\"stdout\","));
    assert!(unpacked.stdout.len() >= 20_000);
    let packed = std::fs::metadata(format!("{path}.{compressed}.gz")).expect("the file").len();
    assert!(packed < 8_000, "{packed} bytes");
    // All readers read both kinds.
    seen.extend(std::iter::from_fn(|| next_line(&mut log)).flat_map(|line| numbers(&[line])));
    assert_eq!((seen, log.lost()), ((1..=3000).collect(), 0));
    let all = read(&root, &id, &LogQuery::default());
    assert_eq!(numbers(&all), (1..=3000).collect::<Vec<_>>());
    for tail in [0, 1, 100, 500, 2999, 3000, 5000] {
        let lines = read(&root, &id, &LogQuery { tail: Some(tail), ..LogQuery::default() });
        assert_eq!(numbers(&lines), (3001 - tail.min(3000)..=3000).collect::<Vec<_>>(), "the last {tail}");
    }
    let since = LogQuery { since_ns: all[700].time_ns, ..LogQuery::default() };
    let later = all.iter().filter(|line| line.time_ns >= all[700].time_ns).count();
    assert_eq!(read(&root, &id, &since).len(), later);
    root.engine.container_remove(&id, RemoveContainer::default(), Some(&soon())).expect("remove");
}

#[test]
fn a_reader_that_does_not_read_holds_nobody_up() {
    let root = Root::new();
    let id = root.create("loud", body(&["sh", "-c", "seq 1 300000; echo end"], json!({})));
    let query = LogQuery { follow: true, ..LogQuery::default() };
    let log = root.engine.container_logs(&id, &query, Some(&soon())).expect("logs");
    root.start(&id);
    assert_eq!(root.wait(&id), 0);
    drop(log);
    let last = read(&root, &id, &LogQuery { tail: Some(1), ..LogQuery::default() });
    assert_eq!(last[0].data, b"end\n");
}

/// The end of a log is looked for from behind: what lies before it is not read.
#[test]
fn the_end_of_ten_gigabytes() {
    let root = Root::new();
    let script = "for n in 1 2 3 4 5 6 7 8 9; do echo line $n; done";
    let id = root.create("long", body(&["sh", "-c", script], json!({})));
    root.start(&id);
    root.wait(&id);
    let path = root.inspect(&id).log_path;
    let records = std::fs::read(&path).expect("the log");
    // Like the check above, after a hole.
    let file = std::fs::OpenOptions::new().write(true).open(&path).expect("open the log");
    file.set_len(10 << 30).expect("lengthen it");
    std::os::unix::fs::FileExt::write_all_at(&file, &[b"\n", &records[..]].concat(), 10 << 30).expect("write");
    let read = || {
        let text = std::fs::read_to_string("/proc/thread-self/io").expect("what this thread has read");
        let line = text.lines().find_map(|line| line.strip_prefix("rchar: ")).expect("a count");
        line.parse::<u64>().expect("a number")
    };
    let before = read();
    let query = LogQuery { tail: Some(3), ..LogQuery::default() };
    let mut log = root.engine.container_logs(&id, &query, Some(&soon())).expect("logs");
    let mut lines = Vec::new();
    while let Some(line) = next_line(&mut log) {
        lines.push(String::from_utf8_lossy(&line.data).trim().to_owned());
    }
    assert_eq!(lines, ["line 7", "line 8", "line 9"]);
    let bytes = read() - before;
    assert!(bytes < 1 << 20, "{bytes} bytes were read");
}
