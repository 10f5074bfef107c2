//! Odd requests about containers: bad JSON, wrong types, numbers that cannot be, names of nobody, states that do not fit.
//!
//! `tests/oracle/odd.json` holds what dockerd answers (a status, and the message or the warnings), and where this engine
//! answers another, that and why; where hosts that have cgroup v2 alone answer another, that too. They are asked one after
//! the other, of four containers. With `CORACLE_TORTURE` dockerd is asked too.

use crate::docker_cli::Served;
use crate::oracle::{call_bytes, document, text};
use crate::support::dockerd::Dockerd;
use crate::support::*;
use serde_json::{Value, json};
use std::path::Path;

/// A status, and what was said with it. Ids are left out.
fn answer(socket: &Path, method: &str, path: &str, body: &[u8]) -> Value {
    let (status, bytes) = call_bytes(socket, method, path, body);
    let said = document(&bytes);
    let mut words = vec![json!(status)];
    match (&said["message"], said["Warnings"].as_array()) {
        (Value::String(message), _) => words.push(json!(message)),
        (_, Some(warnings)) => words.extend(warnings.iter().cloned()),
        _ if status >= 400 && !bytes.is_empty() => words.push(json!(String::from_utf8_lossy(&bytes).trim())),
        _ => {}
    }
    let plain = |word: Value| word.as_str().map_or(word.clone(), |word| json!(without_ids(word)));
    Value::Array(words.into_iter().map(plain).collect())
}

/// Replaces every 64 hexadecimal digits by `ID`, also after the 12 of the engine's id (a control group's name).
fn without_ids(text: &str) -> String {
    const ENGINE: usize = 12;
    let mut out = String::new();
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')).count();
        match digits {
            64.. => {
                let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
                let before = out.strip_suffix('-').and_then(|out| out.get(out.len().checked_sub(ENGINE)?..));
                if before.is_some_and(is_hex) {
                    out.truncate(out.len() - ENGINE - 1);
                }
                out.push_str("ID");
            }
            _ => out.push_str(&rest[..digits]),
        }
        let next = rest[digits..].chars().next();
        out.extend(next);
        rest = &rest[digits + next.map_or(0, char::len_utf8)..];
    }
    out
}

/// Four containers: running, ended, with a terminal, paused.
fn four(socket: &Path) {
    let sleep = json!(["sleep", "10000"]);
    let bodies = [
        ("run1", json!({ "Cmd": sleep })),
        ("stop1", json!({ "Cmd": ["true"] })),
        ("tty1", json!({ "Cmd": sleep, "Tty": true, "OpenStdin": true })),
        ("pau1", json!({ "Cmd": sleep })),
    ];
    let must = |method: &str, path: &str, body: &[u8]| {
        let said = answer(socket, method, path, body);
        assert!(said[0].as_u64().is_some_and(|status| status < 300), "{path}: {said}");
    };
    for (name, mut body) in bodies {
        body["Image"] = json!(IMAGE);
        body["HostConfig"] = json!({ "NetworkMode": "none" });
        must("POST", &format!("/containers/create?name={name}"), body.to_string().as_bytes());
        if name != "stop1" {
            must("POST", &format!("/containers/{name}/start"), b"");
        }
    }
    must("POST", "/containers/pau1/pause", b"");
}

/// Replaces `{cpus}` by this machine's processors and `{count}` by their number.
fn on_this_machine(answer: &Value) -> Value {
    let cpus = std::fs::read_to_string("/sys/devices/system/cpu/online").expect("the processors");
    let number = |text: &str| text.parse::<u32>().expect("a processor");
    let count: u32 = cpus
        .trim()
        .split(',')
        .map(|range| range.split_once('-').map_or(1, |(first, last)| number(last) - number(first) + 1))
        .sum();
    let filled = |word: &Value| match word {
        Value::String(text) => json!(text.replace("{cpus}", cpus.trim()).replace("{count}", &count.to_string())),
        other => other.clone(),
    };
    Value::Array(answer.as_array().expect("an answer").iter().map(filled).collect())
}

/// The differences from the answers that `of` lists: "here", or "dockerd".
fn differences(socket: &Path, of: &str) -> Vec<String> {
    let list = std::fs::read_to_string(project().join("tests/oracle/odd.json")).expect("read");
    let list: Vec<Value> = serde_json::from_str(&list).expect("a list");
    assert!(list.len() > 250);
    four(socket);
    let mut wrong = Vec::new();
    for one in list {
        let ask = text(&one["ask"]);
        let (method, path) = ask.split_once(' ').expect("a method and a path");
        let body = match one["zeroes"].as_u64() {
            Some(count) => vec![0; count as usize],
            None => one["body"].as_str().unwrap_or_default().as_bytes().to_vec(),
        };
        let on_v2 = if Cgroups::unified() { one.get(format!("{of} on v2")) } else { None };
        let want = on_this_machine(on_v2.or(one.get(of)).unwrap_or(&one["dockerd"]));
        let got = answer(socket, method, path, &body);
        if got != want {
            wrong.push(format!("{ask} {}\n    {got}\n    {want}", one["body"]));
        }
    }
    wrong
}

// parameter: DELETE /containers/{name}: link
#[test]
fn odd_requests_are_answered_as_dockerd_does() {
    let served = Served::new();
    let mut wrong = differences(&served.socket, "here");
    if std::env::var_os("CORACLE_TORTURE").is_some() {
        let dockerd = Dockerd::start(&served.root.dir.join("dockerd"));
        dockerd.docker(&["load", "-q", "-i", &busybox_archive().to_string_lossy()]);
        wrong.extend(differences(&served.root.dir.join("dockerd/sock"), "dockerd"));
    }
    assert!(wrong.is_empty(), "{} answers:\n{}", wrong.len(), wrong.join("\n"));
}
