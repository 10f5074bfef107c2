//! Conversations over raw sockets with `coracle serve`: what a client library does under the docker command line, and
//! what none should do.

use crate::docker_cli::Served;
use crate::support::*;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::Duration;

const UPGRADE: &str = "Connection: Upgrade\r\nUpgrade: tcp\r\n";

/// Sends a request; answers the connection behind the answer's head, and the status line.
fn ask(served: &Served, method: &str, path: &str, fields: &str, body: &str) -> (UnixStream, String) {
    let mut stream = UnixStream::connect(&served.socket).expect("connect");
    stream.set_read_timeout(Some(SOON)).expect("set a time-out");
    let head = format!("{method} /v1.24{path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n{fields}");
    let request = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes()).expect("send the request");
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).expect("read the answer's head");
        head.push(byte[0]);
    }
    (stream, String::from_utf8_lossy(&head).lines().next().unwrap_or_default().to_owned())
}

/// A whole answer: status and document.
fn whole(served: &Served, method: &str, path: &str, body: &Value) -> (String, Value) {
    let text = if body.is_null() { String::new() } else { body.to_string() };
    let (mut stream, line) = ask(served, method, path, "Connection: close\r\n", &text);
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("read the answer");
    (line, serde_json::from_slice(&answer).unwrap_or_default())
}

/// One frame of a multiplexed stream.
fn frame(stream: &mut UnixStream) -> (u8, Vec<u8>) {
    let mut head = [0; 8];
    stream.read_exact(&mut head).expect("read a frame's head");
    let mut data = vec![0; u32::from_be_bytes([head[4], head[5], head[6], head[7]]) as usize];
    stream.read_exact(&mut data).expect("read a frame");
    (head[0], data)
}

/// A container that waits for lines, attached by HTTP and then started.
fn attached(served: &Served, name: &str, script: &str, more: Value) -> UnixStream {
    let mut body = body(&["sh", "-c", script], more);
    for field in ["AttachStdin", "OpenStdin", "StdinOnce"] {
        body[field] = json!(true);
    }
    let (line, created) = whole(served, "POST", &format!("/containers/create?name={name}"), &body);
    assert_eq!(line, "HTTP/1.1 201 Created", "{created}");
    let path = format!("/containers/{name}/attach?stream=1&stdin=1&stdout=1&stderr=1");
    let (stream, line) = ask(served, "POST", &path, UPGRADE, "");
    assert_eq!(line, "HTTP/1.1 101 UPGRADED");
    assert_eq!(whole(served, "POST", &format!("/containers/{name}/start"), &Value::Null).0, "HTTP/1.1 204 No Content");
    stream
}

#[test]
fn half_close_ends_stdin_and_the_output_still_comes() {
    let served = Served::new();
    let mut stream = attached(&served, "half", "echo ready; cat; echo end >&2", json!({}));
    // Output comes while the client is silent, each message by itself.
    assert_eq!(frame(&mut stream), (1, b"ready\n".to_vec()));
    stream.write_all(b"typed").expect("type");
    assert_eq!(frame(&mut stream), (1, b"typed".to_vec()));
    stream.shutdown(Shutdown::Write).expect("half-close");
    assert_eq!(frame(&mut stream), (2, b"end\n".to_vec()));
    assert_eq!(stream.read(&mut [0]).expect("the end"), 0);
    assert_eq!(whole(&served, "POST", "/containers/half/wait", &Value::Null).1["StatusCode"], 0);
}

#[test]
fn a_client_that_vanishes_leaves_the_container_running() {
    let served = Served::new();
    let script = "trap 'exit 0' TERM; while :; do echo tick; sleep 0.02; done";
    let more = json!({ "StdinOnce": false });
    let mut stream = attached(&served, "lone", script, more);
    assert_eq!(frame(&mut stream), (1, b"tick\n".to_vec()));
    drop(stream);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(served.root.status("lone"), "running");
    let path = "/containers/lone/attach?stream=1&stdout=1";
    let (mut again, _) = ask(&served, "POST", path, UPGRADE, "");
    assert_eq!(frame(&mut again), (1, b"tick\n".to_vec()));
}

#[test]
fn a_terminal_is_resized() {
    let served = Served::new();
    let script = "trap 'stty size' WINCH; echo ready; while :; do sleep 0.02; done";
    let mut stream = attached(&served, "screen", script, json!({ "Tty": true }));
    let mut shown = String::new();
    let mut read_until = |needle: &str| {
        let mut buffer = [0; 256];
        while !shown.contains(needle) {
            let length = stream.read(&mut buffer).expect("read the terminal");
            assert!(length > 0, "ended without {needle:?}: {shown:?}");
            shown.push_str(&String::from_utf8_lossy(&buffer[..length]));
        }
    };
    read_until("ready\r\n");
    let resized = whole(&served, "POST", "/containers/screen/resize?h=41&w=87", &Value::Null);
    assert_eq!(resized.0, "HTTP/1.1 200 OK");
    read_until("41 87\r\n");
}

#[test]
fn an_exec_is_joined_both_ways_and_tells_its_code() {
    let served = Served::new();
    served.root.sleeper("home");
    let config = json!({ "AttachStdin": true, "AttachStdout": true, "AttachStderr": true,
                         "Cmd": ["sh", "-c", "cat; echo e >&2; exit 9"] });
    let (_, created) = whole(&served, "POST", "/containers/home/exec", &config);
    let id = created["Id"].as_str().expect("an id").to_owned();
    let start = format!("/exec/{id}/start");
    let (mut stream, line) = ask(&served, "POST", &start, UPGRADE, "{\"Detach\":false,\"Tty\":false}");
    assert_eq!(line, "HTTP/1.1 101 UPGRADED");
    stream.write_all(b"in").expect("type");
    stream.shutdown(Shutdown::Write).expect("half-close");
    assert_eq!(frame(&mut stream), (1, b"in".to_vec()));
    assert_eq!(frame(&mut stream), (2, b"e\n".to_vec()));
    assert_eq!(stream.read(&mut [0]).expect("the end"), 0);
    let (_, detail) = whole(&served, "GET", &format!("/exec/{id}/json"), &Value::Null);
    assert_eq!((&detail["Running"], &detail["ExitCode"]), (&json!(false), &json!(9)));
    let (line, refused) = whole(&served, "POST", &start, &json!({ "Detach": true }));
    assert_eq!(line, "HTTP/1.1 409 Conflict");
    assert_eq!(refused["message"], format!("Error: Exec command {id} has already run"));
}

#[test]
fn docker_py_does_the_main_job() {
    // What dockerd tells docker-py of the second container.
    let told = [
        "create",
        "start",
        "exec_create: sh -c echo in; exit 4",
        "exec_start: sh -c echo in; exit 4",
        "exec_die",
        "exec_create: sh -c echo o; echo e >&2",
        "exec_start: sh -c echo o; echo e >&2",
        "exec_die",
        "exec_create: tty ",
        "exec_start: tty ",
        "exec_die",
        "pause",
        "unpause",
        "top",
        "rename",
        "kill",
        "kill",
        "die",
        "stop",
        "start",
        "restart",
        "kill",
        "die",
        "destroy",
    ];
    for version in ["1.21", "1.24"] {
        let served = Served::new();
        // Debian's Python, which has Debian's docker-py (tools/setup).
        let job = Command::new("/usr/bin/python3")
            .arg(project().join("tests/support/docker-py-job.py"))
            .arg(&served.socket)
            .arg(version)
            .arg(busybox_archive())
            .output()
            .expect("run python3");
        let (out, err) = (String::from_utf8_lossy(&job.stdout), String::from_utf8_lossy(&job.stderr));
        assert!(job.status.success(), "{version}: {err}");
        assert_eq!(out.lines().collect::<Vec<_>>(), told, "{version}");
    }
}
