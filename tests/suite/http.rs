//! Conversations over raw sockets with `coracle serve`: what a client library does under the docker command line, and
//! what none should do.

use crate::docker_cli::Served;
use crate::support::*;
use coracle::model::EventQuery;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::Duration;

pub const UPGRADE: &str = "Connection: Upgrade\r\nUpgrade: tcp\r\n";

/// Sends a request; returns the connection behind the answer's head, and the status line.
pub fn ask(served: &Served, method: &str, path: &str, fields: &str, body: &str) -> (UnixStream, String) {
    ask_with_version(served, method, &format!("/v1.24{path}"), fields, body)
}

/// Like [`ask`], with the version in the path.
fn ask_with_version(served: &Served, method: &str, path: &str, fields: &str, body: &str) -> (UnixStream, String) {
    let mut stream = UnixStream::connect(&served.socket).expect("connect");
    stream.set_read_timeout(Some(SOON)).expect("set a time-out");
    let head = format!("{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n{fields}");
    let request = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes()).expect("send the request");
    let line = head_of(&mut stream);
    (stream, line)
}

/// Reads an answer's head; returns its status line.
fn head_of(stream: &mut UnixStream) -> String {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).expect("read the answer's head");
        head.push(byte[0]);
    }
    String::from_utf8_lossy(&head).lines().next().unwrap_or_default().to_owned()
}

/// A whole answer: status and document.
pub fn whole(served: &Served, method: &str, path: &str, body: &Value) -> (String, Value) {
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
fn a_container_does_not_read_the_body_of_an_attach() {
    let served = Served::new();
    let body = body(&["cat"], json!({ "AttachStdin": true, "OpenStdin": true, "StdinOnce": true }));
    for (name, framing, sent) in [
        ("whole", "Content-Length: 15", r#"{"stream":true}"#),
        // The container's end does not come.
        ("chunked", "Transfer-Encoding: chunked", "f\r\n{\"stream\":true}\r\n"),
    ] {
        let (line, created) = whole(&served, "POST", &format!("/containers/create?name={name}"), &body);
        assert_eq!(line, "HTTP/1.1 201 Created", "{created}");
        let target = format!("/v1.24/containers/{name}/attach?stream=1&stdin=1&stdout=1");
        let request = format!("POST {target} HTTP/1.1\r\nHost: x\r\n{UPGRADE}{framing}\r\n\r\n{sent}");
        let mut stream = UnixStream::connect(&served.socket).expect("connect");
        stream.set_read_timeout(Some(SOON)).expect("set a time-out");
        stream.write_all(request.as_bytes()).expect("send the request");
        assert_eq!(head_of(&mut stream), "HTTP/1.1 101 UPGRADED");
        assert_eq!(
            whole(&served, "POST", &format!("/containers/{name}/start"), &Value::Null).0,
            "HTTP/1.1 204 No Content"
        );
        stream.write_all(b"typed").expect("type");
        assert_eq!(frame(&mut stream), (1, b"typed".to_vec()), "{name}");
        stream.shutdown(Shutdown::Write).expect("half-close");
        assert_eq!(stream.read(&mut [0]).expect("the end"), 0);
    }
}

#[test]
fn a_client_that_vanishes_leaves_the_container_running() {
    let served = Served::new();
    let script = "trap 'exit 0' TERM; while :; do echo tick; sleep 0.02; done";
    let more = json!({ "StdinOnce": false });
    let mut stream = attached(&served, "lone", script, more);
    let ticked = |stream: &mut UnixStream| {
        let (channel, data) = frame(stream);
        // Output that was written while the client read the head comes at once.
        assert!(channel == 1 && data.starts_with(b"tick\n"), "{channel} {data:?}");
    };
    ticked(&mut stream);
    drop(stream);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(served.root.status("lone"), "running");
    let path = "/containers/lone/attach?stream=1&stdout=1";
    let (mut again, _) = ask(&served, "POST", path, UPGRADE, "");
    ticked(&mut again);
}

/// The frames of a stream that has ended: kind and content.
fn frames_of(mut bytes: &[u8]) -> Vec<(u8, String)> {
    let mut frames = Vec::new();
    while let [kind, _, _, _, a, b, c, d, rest @ ..] = bytes {
        let (data, more) = rest.split_at(u32::from_be_bytes([*a, *b, *c, *d]) as usize);
        frames.push((*kind, String::from_utf8_lossy(data).into_owned()));
        bytes = more;
    }
    frames
}

/// Each parameter reaches what it is for; what that does, other tests look at.
// parameter: POST /containers/create: name
// parameter: GET /containers/json: all before filters limit since size
// parameter: GET /containers/{name}/json: size
// parameter: GET /containers/{name}/logs: details follow since stderr stdout tail timestamps until
// parameter: GET /containers/{name}/stats: one-shot stream
// parameter: GET /containers/{name}/top: ps_args
// parameter: POST /containers/{name}/kill: signal
// parameter: POST /containers/{name}/rename: name
// parameter: POST /containers/{name}/restart: t
// parameter: POST /containers/{name}/stop: t
// parameter: POST /commit: author changes comment container pause repo tag
// parameter: DELETE /containers/{name}: force v
#[test]
fn parameters_of_requests_are_obeyed() {
    let served = Served::new();
    let ask = |method: &str, path: &str| {
        let (status, body) = crate::oracle::call(&served.socket, method, path, None);
        assert!(status < 300, "{path}: {status} {}", String::from_utf8_lossy(&body));
        body
    };
    let get = |path: &str| -> Value { serde_json::from_slice(&ask("GET", path)).expect("a document") };
    let script =
        "trap '' TERM; trap 'echo hup' HUP; echo x >/written; echo one; echo two >&2; while :; do sleep 0.05; done";
    let log = json!({ "Type": "json-file", "Config": { "labels": "kind" } });
    // The container's own time for a stop is longer than any request may last: `t` must count.
    let config = json!({ "Labels": { "kind": "asked" }, "StopTimeout": 3600,
                         "HostConfig": { "LogConfig": log, "Binds": ["/anonymous"] } });
    for (name, script) in [("older", "true"), ("asked", script), ("newer", "true")] {
        let body = body(&["sh", "-c", script], if name == "asked" { config.clone() } else { json!({}) });
        let (line, created) = whole(&served, "POST", &format!("/containers/create?name={name}"), &body);
        assert_eq!(line, "HTTP/1.1 201 Created", "{created}");
    }
    ask("POST", "/containers/asked/start");
    let both = || served.root.logs("asked").stdout == b"one\n" && served.root.logs("asked").stderr == b"two\n";
    served.root.wait_for("its lines", both);

    let logs = |query: &str| frames_of(&ask("GET", &format!("/containers/asked/logs?{query}")));
    let (one, two) = ((1, "one\n".to_owned()), (2, "two\n".to_owned()));
    assert_eq!((logs("stdout=1"), logs("stderr=1")), (vec![one.clone()], vec![two]));
    assert_eq!((logs("stdout=1&stderr=1").len(), logs("stdout=1&stderr=1&tail=1").len()), (2, 1));
    assert_eq!((logs("stdout=1&since=1"), logs("stdout=1&since=4102444800.5")), (vec![one], vec![]));
    assert_eq!((logs("stdout=1&until=1"), logs("stdout=1&until=4102444800&follow=0").len()), (vec![], 1));
    assert_eq!(logs("stdout=1&until=0").len(), 1, "no bound");
    assert_eq!(logs("stdout=1&details=1"), [(1, "kind=asked one\n".to_owned())]);
    let timed = logs("stdout=1&details=1&timestamps=1").remove(0).1;
    assert!(timed.starts_with("20") && timed.find("Z kind=asked one\n") == Some(29), "{timed}");

    let top = get("/containers/asked/top?ps_args=-o%20pid,comm");
    assert_eq!(top["Titles"], json!(["PID", "COMMAND"]));
    let threads = get("/containers/asked/top?ps_args=-eLf%20--sort%3D-pid");
    assert_eq!((&threads["Titles"][3], &threads["Titles"][9]), (&json!("LWP"), &json!("CMD")), "{threads}");
    let names = |query: &str| -> Vec<String> {
        let list = get(&format!("/containers/json?{query}"));
        let name = |one: &Value| one["Names"][0].as_str().unwrap_or_default().to_owned();
        list.as_array().expect("a list").iter().map(name).collect()
    };
    assert_eq!((names(""), names("all=1").len(), names("limit=2").len()), (vec!["/asked".to_owned()], 3, 2));
    assert_eq!(
        (names("all=1&before=asked"), names("all=1&since=asked")),
        (vec!["/older".into()], vec!["/newer".into()])
    );
    assert_eq!(names("all=1&filters=%7B%22name%22:%5B%22old%22%5D%7D"), ["/older"]);
    for (path, at) in [("/containers/json?size=", "/0/SizeRw"), ("/containers/asked/json?size=", "/SizeRw")] {
        assert_eq!(get(&format!("{path}1")).pointer(at), Some(&json!(2)), "{path}");
        assert_eq!(get(&format!("{path}0")).pointer(at), None, "{path}");
    }

    ask("POST", "/containers/asked/kill?signal=HUP");
    served.root.wait_for("its word", || served.root.logs("asked").out().ends_with("hup"));
    let mut events = served.root.engine.events(&EventQuery::default()).expect("events");
    ask(
        "POST",
        "/commit?container=asked&repo=made&tag=so&comment=why&author=who&pause=0&changes=ENV%20A=1&changes=USER%205",
    );
    let image = served.root.engine.image_inspect("made:so").expect("the image");
    let config = image.config.expect("its configuration");
    assert_eq!((image.comment.as_str(), image.author.as_str(), config.user.as_str()), ("why", "who", "5"));
    assert!(config.env.expect("its variables").contains(&"A=1".to_owned()));
    let seen = events_until(&mut events, |event| event.action == "commit");
    assert_eq!(actions(&seen), ["tag", "commit"], "it was not paused");

    // A single sample comes at once: there is no earlier one to compare with.
    let alone = get("/containers/asked/stats?stream=0&one-shot=1");
    assert_eq!(alone["precpu_stats"]["cpu_usage"]["total_usage"], 0, "{alone}");
    // A single sample, and a log that ends with its container, which is ended by force after a second.
    std::thread::scope(|scope| {
        let sample = scope.spawn(|| get("/containers/asked/stats?stream=0"));
        ask("POST", "/containers/asked/restart?t=0");
        assert_eq!(sample.join().expect("one sample")["name"], "/asked");
        ask("POST", "/containers/asked/rename?name=renamed");
        let path = "/containers/renamed/logs?stdout=1&stderr=1&follow=1";
        let follower = scope.spawn(|| frames_of(&ask("GET", path)));
        events_until(&mut events, |event| event.action == "rename");
        ask("POST", "/containers/renamed/stop?t=1");
        let seen = events_until(&mut events, |event| event.action == "die");
        let signals = seen.iter().filter_map(|event| event.actor.attributes.get("signal"));
        assert_eq!(signals.collect::<Vec<_>>(), ["15", "9"], "SIGKILL follows SIGTERM");
        assert!(follower.join().expect("the log").len() >= 3);
    });
    assert_eq!(served.root.inspect("renamed").state.exit_code, 137);

    // The volume goes with it, although the container runs.
    ask("POST", "/containers/renamed/start");
    let volumes = || get("/volumes")["Volumes"].as_array().map_or(0, Vec::len);
    assert_eq!((volumes(), whole(&served, "DELETE", "/containers/renamed", &Value::Null).0.contains("409")), (1, true));
    ask("DELETE", "/containers/renamed?force=1&v=1");
    assert_eq!(volumes(), 0);
}

// operation: POST /containers/{name}/resize
// parameter: POST /containers/{name}/resize: h w
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

// field: ExecConfig.Detach
// operation: POST /exec/{name}/start
// operation: GET /exec/{name}/json
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
    // Detached: the answer comes before the end and is empty, the process goes on and nobody hears it.
    let script = "echo x; while [ ! -e /go ]; do sleep 0.02; done; echo done >/left";
    let config = json!({ "AttachStdout": true, "Detach": true, "Cmd": ["sh", "-c", script] });
    let (_, created) = whole(&served, "POST", "/containers/home/exec", &config);
    let id = created["Id"].as_str().expect("an id").to_owned();
    let (mut stream, line) =
        ask(&served, "POST", &format!("/exec/{id}/start"), "Connection: close\r\n", "{\"Detach\":true}");
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).expect("read the answer");
    assert_eq!((line.as_str(), rest.as_slice()), ("HTTP/1.1 200 OK", &b""[..]));
    let detail = || whole(&served, "GET", &format!("/exec/{id}/json"), &Value::Null).1;
    assert_eq!(detail()["Running"], true, "the answer came after the end");
    served.root.exec("home", &["touch", "/go"]).ok();
    served.root.wait_for("its end", || detail()["Running"] == false);
    assert_eq!((&detail()["ExitCode"], served.root.exec("home", &["cat", "/left"]).ok()), (&json!(0), "done".into()));
}

#[test]
fn docker_py_does_the_main_job() {
    // dockerd's answers to docker-py about the second container.
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

/// A client that has the answer of a start may resize and inspect the process at once.
#[test]
fn an_exec_whose_start_was_answered_is_found() {
    let served = Served::new();
    served.root.sleeper("home");
    let config = json!({ "Cmd": ["sleep", "1000"], "Tty": true, "AttachStdin": true, "AttachStdout": true });
    for _ in 0..10 {
        let (_, created) = whole(&served, "POST", "/containers/home/exec", &config);
        let exec = created["Id"].as_str().expect("an id");
        let (_stream, _) = ask(&served, "POST", &format!("/exec/{exec}/start"), UPGRADE, "{\"Tty\":true}");
        let resized = whole(&served, "POST", &format!("/exec/{exec}/resize?h=33&w=77"), &Value::Null);
        assert_eq!(resized.0, "HTTP/1.1 201 Created", "{}", resized.1);
        let (_, detail) = whole(&served, "GET", &format!("/exec/{exec}/json"), &Value::Null);
        assert_eq!(detail["Running"], true, "{detail}");
    }
    // An exec that was made before the container was paused.
    let (_, created) = whole(&served, "POST", "/containers/home/exec", &config);
    served.root.engine.container_pause("home").expect("pause");
    let start = format!("/exec/{}/start", created["Id"].as_str().expect("an id"));
    let (line, refused) = whole(&served, "POST", &start, &json!({ "Tty": true }));
    assert_eq!(line, "HTTP/1.1 409 Conflict");
    assert!(refused["message"].as_str().is_some_and(|text| text.contains("is paused")), "{refused}");
}

// field: ExecConfig.DetachKeys
// parameter: POST /exec/{name}/resize: h w
#[test]
fn an_exec_is_left_by_its_keys() {
    let served = Served::new();
    served.root.sleeper("left");
    let script = "trap 'stty size' WINCH; echo ready; while :; do sleep 0.02; done";
    let config = json!({ "Cmd": ["sh", "-c", script], "Tty": true, "AttachStdin": true, "AttachStdout": true,
        "DetachKeys": "ctrl-a,x" });
    let (_, created) = whole(&served, "POST", "/containers/left/exec", &config);
    let exec = created["Id"].as_str().expect("an id").to_owned();
    let (mut stream, _) = ask(&served, "POST", &format!("/exec/{exec}/start"), UPGRADE, "{\"Tty\":true}");
    let read_until = |stream: &mut UnixStream, end: &[u8]| {
        let mut seen = Vec::new();
        while !seen.ends_with(end) {
            let mut byte = [0];
            stream.read_exact(&mut byte).expect("output");
            seen.push(byte[0]);
        }
    };
    read_until(&mut stream, b"ready\r\n");
    let resized = whole(&served, "POST", &format!("/exec/{exec}/resize?h=33&w=77"), &Value::Null).0;
    assert_eq!(resized, "HTTP/1.1 201 Created");
    read_until(&mut stream, b"33 77\r\n");
    stream.write_all(b"\x01x").expect("type the keys");
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).expect("the end of the conversation");
    let (_, detail) = whole(&served, "GET", &format!("/exec/{exec}/json"), &Value::Null);
    assert_eq!((&detail["Running"], &detail["DetachKeys"]), (&json!(true), &json!("AXg=")), "{detail}");
}

// operation: POST /containers/{name}/attach
// parameter: POST /containers/{name}/attach: detachKeys logs stderr stdin stdout stream
#[test]
fn an_attach_has_the_log_the_stream_or_both_and_is_left_by_its_keys() {
    let served = Served::new();
    let script = "echo out; echo err >&2; read line; echo got $line; exec sleep 1000";
    let asked = body(&["sh", "-c", script], json!({ "OpenStdin": true }));
    whole(&served, "POST", "/containers/create?name=shown", &asked);
    whole(&served, "POST", "/containers/shown/start", &Value::Null);
    let both = || served.root.logs("shown").out() == "out" && served.root.logs("shown").err() == "err";
    served.root.wait_for("its lines", both);
    let attach = |query: &str| ask(&served, "POST", &format!("/containers/shown/attach?{query}"), UPGRADE, "").0;
    let all = |query: &str| {
        let mut stream = attach(query);
        let mut frames = Vec::new();
        let mut head = [0; 8];
        while stream.read_exact(&mut head).is_ok() {
            let mut data = vec![0; u32::from_be_bytes([head[4], head[5], head[6], head[7]]) as usize];
            stream.read_exact(&mut data).expect("a frame");
            frames.push((head[0], String::from_utf8_lossy(&data).into_owned()));
        }
        frames.sort();
        frames
    };
    let (out, err) = ((1, "out\n".to_owned()), (2, "err\n".to_owned()));
    assert_eq!(all("logs=1&stdout=1&stderr=1"), [out.clone(), err.clone()]);
    assert_eq!(all("logs=1&stderr=1"), [err]);
    assert_eq!(all("logs=1&stdout=1"), [out]);
    assert_eq!(all("stdout=1&stderr=1"), [], "neither the log nor the stream");
    // Past events first, then new ones; one that looks on types nothing.
    let mut both = attach("logs=1&stream=1&stdin=1&stdout=1");
    let mut new = attach("stream=1&stdout=1");
    assert_eq!(frame(&mut both), (1, b"out\n".to_vec()));
    both.write_all(b"word\n").expect("type");
    for stream in [&mut both, &mut new] {
        assert_eq!(frame(stream), (1, b"got word\n".to_vec()));
    }
    // The keys of a container with a terminal: the conversation ends, the container goes on, and it is told.
    let mut events = served.root.engine.events(&of_containers()).expect("events");
    let asked = body(&["sh", "-c", "echo ready; exec sleep 1000"], json!({ "OpenStdin": true, "Tty": true }));
    whole(&served, "POST", "/containers/create?name=typed", &asked);
    whole(&served, "POST", "/containers/typed/start", &Value::Null);
    let path = "/containers/typed/attach?stream=1&stdin=1&stdout=1&detachKeys=ctrl-b,q";
    let (mut stream, _) = ask(&served, "POST", path, UPGRADE, "");
    stream.write_all(b"\x02q").expect("type the keys");
    stream.read_to_end(&mut Vec::new()).expect("the end of the conversation");
    events_until(&mut events, |event| event.action == "detach");
    assert_eq!(served.root.status("typed"), "running");
}

/// A client's frame of a websocket.
fn message(kind: u8, data: &[u8]) -> Vec<u8> {
    let mask = [7, 77, 177, 99];
    let mut frame = vec![0x80 | kind, 0x80 | data.len() as u8];
    frame.extend(mask);
    frame.extend(data.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    frame
}

/// A server's frame: kind and content.
fn heard(stream: &mut UnixStream) -> (u8, Vec<u8>) {
    let mut head = [0; 2];
    stream.read_exact(&mut head).expect("a frame's head");
    let mut length = [0; 2];
    let length = match head[1] {
        126 => {
            stream.read_exact(&mut length).expect("a length");
            usize::from(u16::from_be_bytes(length))
        }
        short => usize::from(short),
    };
    let mut data = vec![0; length];
    stream.read_exact(&mut data).expect("a frame");
    (head[0] & 0x0f, data)
}

const WEBSOCKET: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

/// Reads the messages of a websocket up to its end.
fn heard_in_all(stream: &mut UnixStream) -> Vec<u8> {
    let mut text = Vec::new();
    loop {
        match heard(stream) {
            (1 | 2, data) => text.extend(data),
            (8, _) => return text,
            other => panic!("{other:?}"),
        }
    }
}

/// dockerd attaches all three streams from 1.25 to 1.41, whatever the request names. The specification of the versions before,
/// and the description of 1.42 and later, have the streams that the request names.
#[test]
fn the_streams_of_a_websocket_are_those_of_the_version() {
    let served = Served::new();
    let script = "echo out; echo err >&2; read line; echo got $line; echo bad >&2";
    for (version, all) in [("1.24", false), ("1.25", true), ("1.41", true), ("1.42", false), ("1.54", false)] {
        let name = format!("web{}", &version[2..]);
        let asked = body(&["sh", "-c", script], json!({ "OpenStdin": true, "StdinOnce": true, "AttachStdin": true }));
        whole(&served, "POST", &format!("/containers/create?name={name}"), &asked);
        whole(&served, "POST", &format!("/containers/{name}/start"), &Value::Null);
        served.root.wait_for("its first lines", || {
            let log = served.root.logs(&name);
            log.out() == "out" && log.err() == "err"
        });
        // The request names one stream, and not the input.
        let path = format!("/v{version}/containers/{name}/attach/ws?stream=1&logs=1&stderr=1");
        let (mut stream, _) = ask_with_version(&served, "GET", &path, WEBSOCKET, "");
        stream.write_all(&message(2, b"it\n")).expect("type");
        if !all {
            // The input is not this client's: another one types.
            let (mut other, _) =
                ask(&served, "GET", &format!("/containers/{name}/attach/ws?stream=1&stdin=1"), WEBSOCKET, "");
            other.write_all(&message(2, b"other\n")).expect("type");
            heard_in_all(&mut other);
        }
        let mut lines: Vec<String> =
            String::from_utf8(heard_in_all(&mut stream)).expect("text").lines().map(str::to_owned).collect();
        lines.sort();
        let expected: &[&str] = if all { &["bad", "err", "got it", "out"] } else { &["bad", "err"] };
        assert_eq!(lines, expected, "{version}");
        served.root.wait(&name);
    }
}

// operation: GET /containers/{name}/attach/ws
// parameter: GET /containers/{name}/attach/ws: detachKeys logs stderr stdin stdout stream
#[test]
fn attached_over_a_websocket() {
    let served = Served::new();
    let script = "echo ready; read line; echo got $line; echo bad >&2; read line; exit 4";
    let mut asked = body(&["sh", "-c", script], json!({ "OpenStdin": true, "StdinOnce": true }));
    asked["AttachStdin"] = json!(true);
    whole(&served, "POST", "/containers/create?name=web", &asked);
    whole(&served, "POST", "/containers/web/start", &Value::Null);
    served.root.wait_for("its first line", || served.root.logs("web").out() == "ready");
    let path = "/containers/web/attach/ws?stream=1&logs=1&stdin=1&stdout=1&stderr=1";
    let (mut stream, line) = ask(&served, "GET", path, WEBSOCKET, "");
    assert_eq!(line, "HTTP/1.1 101 Switching Protocols");
    assert_eq!(heard(&mut stream), (1, b"ready\n".to_vec()), "the log");
    stream.write_all(&message(1, b"a wo")).expect("type");
    stream.write_all(&message(9, b"there?")).expect("ping");
    assert_eq!(heard(&mut stream), (10, b"there?".to_vec()));
    stream.write_all(&message(2, b"rd\n")).expect("type");
    let mut texts = [heard(&mut stream), heard(&mut stream)];
    texts.sort();
    assert_eq!(texts, [(1, b"bad\n".to_vec()), (1, b"got a word\n".to_vec())]);
    stream.write_all(&message(1, b"\n")).expect("type");
    assert_eq!(heard(&mut stream).0, 8, "the end of the container closes");
    assert_eq!(served.root.wait("web"), 4);
    // Streams of past events end, too, and so do streams without any event.
    for (query, said) in [("logs=1&stdout=1", &[&b"ready\ngot a word\n"[..]][..]), ("", &[])] {
        let (mut stream, _) = ask(&served, "GET", &format!("/containers/web/attach/ws?{query}"), WEBSOCKET, "");
        let mut text = Vec::new();
        let end = loop {
            match heard(&mut stream) {
                (1, data) => text.extend(data),
                end => break end,
            }
        };
        assert_eq!((text, end), (said.concat(), (8, vec![3, 232])), "{query}");
        assert_eq!(stream.read(&mut [0]).expect("the end"), 0);
    }
    // A client that closes leaves the container running.
    served.root.sleeper("stays");
    let (mut stream, _) = ask(&served, "GET", "/containers/stays/attach/ws?stream=1&stdout=1", WEBSOCKET, "");
    stream.write_all(&message(8, &[3, 232])).expect("close");
    assert_eq!(heard(&mut stream), (8, vec![3, 232]));
    assert_eq!(stream.read(&mut [0]).expect("the end"), 0);
    assert_eq!(served.root.status("stays"), "running");
    // Nor does one that types the keys of a terminal.
    let asked = body(&["sh", "-c", "echo ready; exec sleep 1000"], json!({ "OpenStdin": true, "Tty": true }));
    whole(&served, "POST", "/containers/create?name=typed", &asked);
    whole(&served, "POST", "/containers/typed/start", &Value::Null);
    let path = "/containers/typed/attach/ws?stream=1&stdin=1&detachKeys=ctrl-b,q";
    let (mut stream, _) = ask(&served, "GET", path, WEBSOCKET, "");
    stream.write_all(&message(2, b"\x02q")).expect("type the keys");
    assert_eq!(heard(&mut stream).0, 8, "it closes");
    assert_eq!(served.root.status("typed"), "running");
    let (status, refused) = whole(&served, "GET", "/containers/stays/attach/ws?stream=1", &Value::Null);
    assert!(status.contains("400") && refused["message"] == "not websocket protocol", "{status} {refused}");
}

/// `Upgrade: tcp` alone takes the bare connection; what else is asked for there is passed over. dockerd takes every value,
/// and gives logs in chunks alone.
#[test]
fn tcp_is_the_only_protocol_of_an_upgrade() {
    let served = Served::new();
    let script = "echo one; echo two >&2";
    whole(&served, "POST", "/containers/create?name=said", &body(&["sh", "-c", script], json!({})));
    whole(&served, "POST", "/containers/said/start", &Value::Null);
    served.root.wait("said");
    served.root.sleeper("up");
    let fields = |protocol: &str| format!("Connection: Upgrade\r\n{protocol}");
    let both = vec![(1, "one\n".to_owned()), (2, "two\n".to_owned())];
    for protocol in
        ["Upgrade: tcp\r\n", "upgrade: TCP\r\n", "Upgrade: h2c, Tcp\r\n", "Upgrade: h2c\r\nUpgrade: tcp\r\n"]
    {
        let fields = fields(protocol);
        let all = |path: &str, method: &str, body: &str| {
            let (mut stream, line) = ask(&served, method, path, &fields, body);
            assert_eq!(line, "HTTP/1.1 101 UPGRADED", "{protocol} {path}");
            let mut bytes = Vec::new();
            stream.read_to_end(&mut bytes).expect("read the stream");
            let mut frames = frames_of(&bytes);
            frames.sort();
            frames
        };
        assert_eq!(all("/containers/said/logs?stdout=1&stderr=1", "GET", ""), both, "{protocol}");
        assert_eq!(all("/containers/said/attach?logs=1&stdout=1&stderr=1", "POST", ""), both, "{protocol}");
        let exec = json!({ "AttachStdout": true, "AttachStderr": true, "Cmd": ["sh", "-c", script] });
        let (_, made) = whole(&served, "POST", "/containers/up/exec", &exec);
        let path = format!("/exec/{}/start", made["Id"].as_str().expect("an id"));
        assert_eq!(all(&path, "POST", "{}"), both, "{protocol}");
    }
    for protocol in ["", "Upgrade: h2c\r\n", "Upgrade: websocket\r\n", "Upgrade: tcp2, x-tcp\r\n", "Upgrade:\r\n"] {
        let fields = format!("{}Connection: close\r\n", fields(protocol));
        let all = |path: &str, method: &str, body: &str| {
            let (mut stream, line) = ask(&served, method, path, &fields, body);
            assert_eq!(line, "HTTP/1.1 200 OK", "{protocol} {path}");
            let mut bytes = Vec::new();
            stream.read_to_end(&mut bytes).expect("read the stream");
            bytes
        };
        // In chunks: the length of each in its own line.
        let log = all("/containers/said/logs?stdout=1", "GET", "");
        assert_eq!(log, b"c\r\n\x01\0\0\0\0\0\0\x04one\n\r\n0\r\n\r\n", "{protocol}");
        assert_eq!(frames_of(&all("/containers/said/attach?logs=1&stdout=1", "POST", "")), both[..1], "{protocol}");
        let (_, made) =
            whole(&served, "POST", "/containers/up/exec", &json!({ "AttachStdout": true, "Cmd": ["echo", "one"] }));
        let path = format!("/exec/{}/start", made["Id"].as_str().expect("an id"));
        assert_eq!(frames_of(&all(&path, "POST", "{}")), both[..1], "{protocol}");
    }
}

/// A log that is followed over the bare connection comes as it is written, and ends with its container.
#[test]
fn a_log_is_followed_over_an_upgrade() {
    let served = Served::new();
    let mut process = attached(&served, "told", "echo ready; while read line; do echo $line; done", json!({}));
    assert_eq!(frame(&mut process), (1, b"ready\n".to_vec()));
    let (mut log, line) = ask(&served, "GET", "/containers/told/logs?follow=1&stdout=1", UPGRADE, "");
    assert_eq!(line, "HTTP/1.1 101 UPGRADED");
    assert_eq!(frame(&mut log), (1, b"ready\n".to_vec()));
    process.write_all(b"more\n").expect("type");
    assert_eq!(frame(&mut log), (1, b"more\n".to_vec()));
    process.shutdown(Shutdown::Write).expect("half-close");
    assert_eq!(log.read(&mut [0]).expect("the end"), 0);
    // A client that leaves is noticed, though nothing is written.
    served.root.sleeper("silent");
    let before = costs(&served).descriptors;
    for _ in 0..3 {
        drop(ask(&served, "GET", "/containers/silent/logs?follow=1&stdout=1", UPGRADE, ""));
    }
    wait_for("the descriptors of those who left", || costs(&served).descriptors <= before);
}

/// Until 1.21 the document of an exec shows the container itself; since then its id.
#[test]
fn an_exec_of_an_old_version_shows_its_container() {
    let served = Served::new();
    let id = served.root.sleeper("up");
    let (_, made) = whole(&served, "POST", "/containers/up/exec", &json!({ "Cmd": ["true"] }));
    let exec = made["Id"].as_str().expect("an id");
    let at = |minor: u32| -> Value {
        let mut stream = UnixStream::connect(&served.socket).expect("connect");
        let request = format!("GET /v1.{minor}/exec/{exec}/json HTTP/1.0\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("send");
        assert_eq!(head_of(&mut stream), "HTTP/1.0 200 OK");
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).expect("the answer");
        serde_json::from_slice(&bytes).expect("a document")
    };
    for minor in 18..=21 {
        let shown = at(minor);
        let names: Vec<&str> = shown.as_object().expect("an object").keys().map(String::as_str).collect();
        let mut wanted =
            ["ID", "Running", "ExitCode", "ProcessConfig", "OpenStdin", "OpenStderr", "OpenStdout", "Container"];
        let mut names = names;
        names.sort_unstable();
        wanted.sort_unstable();
        assert_eq!(names, wanted, "1.{minor}");
        let container = &shown["Container"];
        assert_eq!((&container["Id"], &container["State"]["Running"]), (&json!(id), &json!(true)));
        assert_eq!(
            (&container["Config"]["Image"], &container["ExecDriver"]),
            (&json!(IMAGE), &json!("<not supported>"))
        );
    }
    for minor in 22..=24 {
        let shown = at(minor);
        assert!(shown.get("Container").is_none() && shown["ContainerID"] == json!(id), "1.{minor}: {shown}");
    }
}

/// The resources of the server's process: kilobytes of memory now and at the most, descriptors.
struct Costs {
    memory: u64,
    peak: u64,
    descriptors: usize,
}

fn costs(served: &Served) -> Costs {
    let dir = format!("/proc/{}", served.pid());
    let status = std::fs::read_to_string(format!("{dir}/status")).expect("its status");
    let kilobytes = |field| proc_status(&status, field).trim_end_matches(" kB").parse().expect("a number");
    let descriptors = std::fs::read_dir(format!("{dir}/fd")).expect("its descriptors").count();
    Costs { memory: kilobytes("VmRSS"), peak: kilobytes("VmHWM"), descriptors }
}

/// Writes until all is taken, or nothing more is.
fn press(client: &mut UnixStream, mut data: &[u8]) {
    client.set_write_timeout(Some(Duration::from_millis(1))).expect("set a time-out");
    while !data.is_empty()
        && let Ok(sent) = client.write(data)
    {
        data = &data[sent..];
    }
}

/// The most that five hundred clients at once may cost the server, in kilobytes: a third of the total of the heads,
/// bodies and chunks that they send.
const CROWD_COSTS: u64 = 64 << 10;

#[test]
fn a_crowd_that_behaves_badly_delays_nobody_and_costs_little() {
    let served = Served::new();
    let flood = "while :; do head -c 100000 /dev/zero; done";
    let more = || json!({ "HostConfig": { "LogConfig": { "Type": "none" } } });
    let deaf = attached(&served, "deaf", flood, more());
    let mut brief = attached(&served, "brief", flood, more());
    let fine = attached(&served, "fine", "while read line; do echo $line; done", json!({}));
    // The peak is counted from now on.
    std::fs::write(format!("/proc/{}/clear_refs", served.pid()), "5").expect("reset the peak");
    let before = costs(&served);
    let bulk = vec![b'x'; 1 << 20];
    let mut crowd = Vec::new();
    for number in 0..500 {
        let mut client = UnixStream::connect(&served.socket).expect("connect");
        // A head that never ends, bodies that never do, noise, silence.
        let (said, bulk): (&[u8], &[u8]) = match number % 5 {
            0 => (b"GET /v1.24/info HTTP/1.1\r\nHost: x\r\nX-Slow: ", &bulk[..60_000]),
            1 => (
                b"POST /v1.24/containers/create HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n\
                  Content-Length: 9000000000000000000\r\n\r\n{\"Image\": \"",
                &bulk,
            ),
            2 => (
                b"POST /v1.24/images/load HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n7fffffffffffffff\r\n",
                &bulk[..512],
            ),
            3 => (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", &bulk),
            _ => (b"", b""),
        };
        press(&mut client, said);
        press(&mut client, bulk);
        crowd.push(client);
    }
    for _ in 0..10 {
        // Gone in the middle of the stream.
        brief.read_exact(&mut [0; 1000]).expect("some of the flood");
        let path = "/containers/brief/attach?stream=1&stdout=1";
        brief = ask(&served, "POST", path, UPGRADE, "").0;
    }
    // The crowd would hold up all.
    for round in 0..5 {
        assert_eq!(whole(&served, "GET", "/containers/fine/json", &Value::Null).0, "HTTP/1.1 200 OK");
        let mut fine = &fine;
        fine.write_all(format!("{round}\n").as_bytes()).expect("write");
        let mut frame = [0; 10];
        fine.read_exact(&mut frame).expect("its echo");
        assert_eq!(frame[8..], *format!("{round}\n").as_bytes());
    }
    let after = costs(&served);
    println!("500 clients: {} kB became {} kB", before.memory, after.peak);
    // The later requests were answered before the earlier ones: what loads and what is silent is still there.
    assert!(after.descriptors >= before.descriptors + 200, "{} of the crowd", after.descriptors - before.descriptors);
    assert!(after.peak < before.memory + CROWD_COSTS, "{} kB became {} kB", before.memory, after.peak);
    drop((crowd, deaf, brief));
    wait_for("the crowd's descriptors to go", || costs(&served).descriptors <= before.descriptors);
    for name in ["deaf", "brief"] {
        assert_eq!(served.root.status(name), "running", "the flood of {name} goes on without its client");
    }
}
