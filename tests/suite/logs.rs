//! Logs: options, bounds, readers.

use crate::support::*;
use coracle::LogFormat;
use coracle::model::*;
use serde_json::{Value, json};
use std::io::{Seek, SeekFrom, Write};
use std::time::{Duration, Instant};

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
        ("local", json!({ "labels": "a" }), "unknown log opt 'labels' for log-driver local"),
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

#[test]
fn the_end_of_a_huge_log_is_there_at_once() {
    let root = Root::new();
    let id = root.create("huge", body(&["sh", "-c", "seq 1 10"], json!({})));
    root.start(&id);
    root.wait(&id);
    let path = root.inspect(&id).log_path;
    let last = std::fs::read(&path).expect("the file");
    // Ten records, 10 GB of nothing, a newline, and the ten once more.
    let mut file = std::fs::OpenOptions::new().write(true).open(&path).expect("open it");
    file.seek(SeekFrom::Start(10_000_000_000)).expect("seek");
    file.write_all(&[b"\n", last.as_slice()].concat()).expect("write");
    let begun = Instant::now();
    let lines = read(&root, &id, &LogQuery { tail: Some(3), ..LogQuery::default() });
    assert!(begun.elapsed() < Duration::from_millis(200), "{:?}", begun.elapsed());
    let text: Vec<_> = lines.iter().map(|l| String::from_utf8_lossy(&l.data).into_owned()).collect();
    assert_eq!(text, ["8\n", "9\n", "10\n"]);
}

#[test]
fn a_follower_keeps_up_over_rotations() {
    let root = Root::new();
    let script = "i=0; while [ $i -lt 3000 ]; do i=$((i + 1)); echo $i; [ $((i % 100)) != 0 ] || sleep 0.01; done";
    let options = logged("json-file", json!({ "max-size": "10k", "max-file": "4" }));
    let id = root.create("turns", body(&["sh", "-c", script], options));
    let query = LogQuery { follow: true, ..LogQuery::default() };
    root.start(&id);
    let numbers: Vec<u32> = read(&root, &id, &query)
        .iter()
        .map(|l| String::from_utf8_lossy(&l.data).trim_end().parse().expect("a number"))
        .collect();
    assert_eq!(numbers, (1..=3000).collect::<Vec<_>>());
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
