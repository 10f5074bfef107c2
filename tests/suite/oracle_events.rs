//! Each operation goes to dockerd and to this engine, and their events are compared: which, in which order, with which
//! attributes.

use crate::docker_cli::{Served, newest_served};
use crate::oracle::{call, call_at, call_bytes, document, text};
use crate::support::dockerd::Dockerd;
use crate::support::*;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

/// The events that this engine writes and dockerd does not: the operation, the event, why.
const KNOWN: [(&str, &str, &str); 1] = [(
    "a start that fails",
    "container die ID [exitCode=127 image=busybox name=fourth] die ID busybox",
    "as engine 1.12 did: a client that waits for the end to remove the container waits for this",
)];

/// The event of the OOM killer, and the event that it precedes here. dockerd watches the control group beside the process, so
/// that its two events come in either order.
const OOM: (&str, &str) = ("container oom ", "container die ");

/// One engine behind its socket.
struct Side<'a> {
    socket: &'a Path,
    /// The operations so far, and when each began.
    steps: Vec<(&'static str, Duration)>,
}

impl Side<'_> {
    fn step(&mut self, what: &'static str) {
        self.quiet();
        self.steps.push((what, UNIX_EPOCH.elapsed().expect("the time")));
        std::thread::sleep(Duration::from_millis(2));
    }

    /// Waits until all events of the step before have been told: none has come for a while.
    fn quiet(&self) {
        let mut told = None;
        wait_for("the events of a step", || {
            std::thread::sleep(Duration::from_millis(60));
            let now = self.steps.first().map(|(_, first)| self.events(*first, UNIX_EPOCH.elapsed().expect("the time")));
            told.replace(now.clone()) == Some(now)
        });
    }

    /// The events between two moments.
    fn events(&self, first: Duration, last: Duration) -> Vec<u8> {
        let seconds = |time: Duration| format!("{}.{:09}", time.as_secs(), time.subsec_nanos());
        let path = format!("/events?since={}&until={}", seconds(first), seconds(last));
        call(self.socket, "GET", &path, None).1
    }

    #[track_caller]
    fn ask(&self, method: &str, path: &str, body: Option<Value>) -> Value {
        let (status, answer) = call(self.socket, method, path, body.as_ref());
        assert!(status < 300, "{method} {path}: {status}: {}", String::from_utf8_lossy(&answer));
        document(&answer)
    }

    fn post(&self, path: &str) {
        self.ask("POST", path, None);
    }

    /// Polls an answer until a member of it is so.
    fn until(&self, path: &str, pointer: &str, value: Value) {
        wait_for(path, || self.ask("GET", path, None).pointer(pointer) == Some(&value));
    }

    /// Everything that is done, about forty operations.
    fn do_all(&mut self) {
        let script = "trap 'exit 3' TERM; trap 'echo usr1' USR1; echo ready; while :; do sleep 0.02; done";
        let body = json!({
            "Image": IMAGE, "Cmd": ["sh", "-c", script], "Labels": { "colour": "green" }, "Tty": true,
            "HostConfig": { "NetworkMode": "none", "Binds": ["told:/told:ro"] },
        });
        self.step("create");
        self.ask("POST", "/containers/create?name=first", Some(body));
        self.step("rename");
        self.post("/containers/first/rename?name=second");
        self.step("start");
        self.post("/containers/second/start");
        wait_for("the trap", || {
            let (_, log) = call(self.socket, "GET", "/containers/second/logs?stdout=1", None);
            log.starts_with(b"ready")
        });
        self.step("attach");
        self.post("/containers/second/attach?logs=1&stream=0&stdout=1");
        self.step("resize");
        self.post("/containers/second/resize?h=30&w=100");
        self.step("top");
        self.ask("GET", "/containers/second/top", None);
        self.step("exec create");
        let exec = self.ask("POST", "/containers/second/exec", Some(json!({ "Cmd": ["sh", "-c", "exit 5"] })));
        let exec = text(&exec["Id"]);
        self.step("exec start");
        self.ask("POST", &format!("/exec/{exec}/start"), Some(json!({ "Detach": true })));
        self.until(&format!("/exec/{exec}/json"), "/Running", json!(false));
        self.step("exec on a terminal");
        let config = json!({ "Cmd": ["sh", "-c", "sleep 0.2"], "Tty": true, "AttachStdout": true });
        let exec = text(&self.ask("POST", "/containers/second/exec", Some(config))["Id"]);
        self.ask("POST", &format!("/exec/{exec}/start"), Some(json!({ "Detach": false, "Tty": true })));
        self.step("pause");
        self.post("/containers/second/pause");
        self.step("unpause");
        self.post("/containers/second/unpause");
        self.step("update");
        self.ask("POST", "/containers/second/update", Some(json!({ "CpuShares": 512 })));
        self.step("look");
        self.ask("GET", "/containers/second/json", None);
        self.ask("GET", "/containers/json?all=1", None);
        self.ask("GET", "/containers/second/changes", None);
        self.ask("GET", "/containers/second/stats?stream=0", None);
        self.step("archive get");
        call(self.socket, "GET", "/containers/second/archive?path=/etc/passwd", None);
        self.step("archive head");
        call(self.socket, "HEAD", "/containers/second/archive?path=/etc/passwd", None);
        self.step("archive put");
        let (status, _) = call_bytes(self.socket, "PUT", "/containers/second/archive?path=/tmp", &[0; 1024]);
        assert_eq!(status, 200);
        self.step("export");
        call(self.socket, "GET", "/containers/second/export", None);
        self.step("commit");
        let path = "/commit?container=second&repo=told&tag=one&comment=why&pause=1";
        self.ask("POST", path, Some(json!({})));
        self.step("kill by USR1");
        self.post("/containers/second/kill?signal=USR1");
        self.step("restart");
        self.post("/containers/second/restart?t=5");
        wait_for("the trap", || {
            let (_, log) = call(self.socket, "GET", "/containers/second/logs?stdout=1&tail=1", None);
            log.starts_with(b"ready")
        });
        self.step("stop");
        self.post("/containers/second/stop?t=5");
        self.step("stop once more");
        call(self.socket, "POST", "/containers/second/stop", None);
        self.step("start again and kill");
        self.post("/containers/second/start");
        self.post("/containers/second/kill");
        self.post("/containers/second/wait");
        self.step("remove");
        self.ask("DELETE", "/containers/second?v=1", None);
        self.step("an anonymous volume goes with its container, by force");
        let body = json!({
            "Image": IMAGE, "Cmd": ["sleep", "1000"], "Volumes": { "/anonymous": {} },
            "HostConfig": { "NetworkMode": "none" },
        });
        self.ask("POST", "/containers/create?name=third", Some(body));
        self.post("/containers/third/start");
        self.ask("DELETE", "/containers/third?v=1&force=1", None);
        self.step("a start that fails");
        let body = json!({ "Image": IMAGE, "Cmd": ["no-such"], "HostConfig": { "NetworkMode": "none" } });
        self.ask("POST", "/containers/create?name=fourth", Some(body));
        call(self.socket, "POST", "/containers/fourth/start", None);
        self.ask("DELETE", "/containers/fourth", None);
        self.step("restarts by its policy");
        let body = json!({
            "Image": IMAGE, "Cmd": ["sh", "-c", "exit 4"],
            "HostConfig": { "NetworkMode": "none", "RestartPolicy": { "Name": "on-failure", "MaximumRetryCount": 1 } },
        });
        self.ask("POST", "/containers/create?name=fifth", Some(body));
        self.post("/containers/fifth/start");
        self.until("/containers/fifth/json", "/RestartCount", json!(1));
        self.until("/containers/fifth/json", "/State/Status", json!("exited"));
        self.ask("DELETE", "/containers/fifth", None);
        self.step("health");
        let body = json!({
            "Image": IMAGE, "Cmd": ["sleep", "1000"], "HostConfig": { "NetworkMode": "none" },
            // Long enough that the second check does not come before the removal.
            "Healthcheck": { "Test": ["CMD", "test", "-e", "/etc"], "Interval": 3_000_000_000u64 },
        });
        self.ask("POST", "/containers/create?name=sixth", Some(body));
        self.post("/containers/sixth/start");
        self.until("/containers/sixth/json", "/State/Health/Status", json!("healthy"));
        self.ask("DELETE", "/containers/sixth?force=1", None);
        self.step("out of memory");
        let body = json!({
            "Image": IMAGE, "Cmd": ["sh", "-c", "x=0123456789abcdef; while :; do x=$x$x; done"],
            "HostConfig": { "NetworkMode": "none", "Memory": 16 << 20, "MemorySwap": 16 << 20 },
        });
        self.ask("POST", "/containers/create?name=seventh", Some(body));
        self.post("/containers/seventh/start");
        self.post("/containers/seventh/wait");
        self.ask("DELETE", "/containers/seventh", None);
        self.step("tag");
        self.post(&format!("/images/{IMAGE}/tag?repo=other&tag=two"));
        self.step("untag");
        self.ask("DELETE", "/images/other:two", None);
        self.step("remove an image");
        self.ask("DELETE", "/images/told:one", None);
        self.step("save");
        call(self.socket, "GET", &format!("/images/{IMAGE}/get"), None);
        self.step("volume create");
        self.ask("POST", "/volumes/create", Some(json!({ "Name": "by-hand" })));
        self.step("volume remove");
        self.ask("DELETE", "/volumes/by-hand", None);
        self.step("network create");
        self.ask("POST", "/networks/create", Some(json!({ "Name": "walk", "Driver": "bridge", "Internal": true })));
        self.step("network remove");
        self.ask("DELETE", "/networks/walk", None);
        self.step("end");
    }

    /// The scopes of all events, as a version of the API shows them.
    fn scopes(&self, version: &str) -> BTreeSet<String> {
        let (first, last) = (self.steps[0].1.as_secs(), self.steps[self.steps.len() - 1].1.as_secs());
        let path = format!("/events?since={first}&until={last}");
        let (_, answer) = call_at(self.socket, version, "GET", &path, &[]);
        let scope = |line: &str| document(line.as_bytes()).get("scope").map_or("none".into(), text);
        String::from_utf8_lossy(&answer).lines().map(scope).collect()
    }

    /// The events of each operation, one line each.
    fn events_of_steps(&self) -> BTreeMap<&'static str, Vec<String>> {
        let answer = self.events(self.steps[0].1, self.steps[self.steps.len() - 1].1);
        let mut told: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
        for event in String::from_utf8_lossy(&answer).lines().map(|line| document(line.as_bytes())) {
            let time = Duration::from_nanos(event["timeNano"].as_u64().expect("a time"));
            let (step, _) = self.steps.iter().rfind(|(_, begun)| *begun <= time).expect("its operation");
            told.entry(step).or_default().push(line(&event));
        }
        told
    }
}

/// An event without what is different in every run.
fn line(event: &Value) -> String {
    let mut attributes: Vec<String> = event["Actor"]["Attributes"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", shown(&text(value))))
        .collect();
    attributes.sort();
    let own = ["status", "id", "from"].map(|key| event.get(key).map_or("-".into(), |value| shown(&text(value))));
    let id = shown(&text(&event["Actor"]["ID"]));
    format!("{} {} {id} [{}] {}", text(&event["Type"]), text(&event["Action"]), attributes.join(" "), own.join(" "))
}

/// Moves dockerd's event of the OOM killer before the end of the container.
fn oom_before_end(mut told: Vec<String>) -> Vec<String> {
    let at = |told: &[String], begin: &str| told.iter().position(|line| line.starts_with(begin));
    if let (Some(oom), Some(die)) = (at(&told, OOM.0), at(&told, OOM.1))
        && oom > die
    {
        told[die..=oom].rotate_right(1);
    }
    told
}

fn shown(text: &str) -> String {
    let is_id = |text: &str| text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    match text.strip_prefix("sha256:") {
        Some(rest) if is_id(rest) => "sha256:ID".into(),
        _ if is_id(text) => "ID".into(),
        _ => text.into(),
    }
}

#[test]
fn events_are_told_as_dockerd_tells_them() {
    let served = Served::new();
    let dockerd = Dockerd::start(&served.root.dir.join("dockerd"));
    dockerd.docker(&["load", "-q", "-i", &busybox_archive().to_string_lossy()]);
    let theirs = served.root.dir.join("dockerd/sock");
    let told = std::thread::scope(|scope| {
        let sides = [theirs.as_path(), served.socket.as_path()].map(|socket| {
            scope.spawn(move || {
                let mut side = Side { socket, steps: Vec::new() };
                side.do_all();
                // If the run leaves later versions out, nobody can be asked for their scopes.
                let later: &[&str] = if newest_served().is_none() { &["1.30", "1.41"] } else { &[] };
                let scopes: Vec<_> = later.iter().map(|version| side.scopes(version)).collect();
                ((side.events_of_steps(), scopes), side.steps)
            })
        });
        sides.map(|side| side.join().expect("one side"))
    });
    let [((there, their_scopes), steps), ((here, scopes), _)] = told;
    assert!(their_scopes.iter().all(|scopes| *scopes == BTreeSet::from(["local".to_owned()])), "{their_scopes:?}");
    assert_eq!(scopes, their_scopes);
    assert!(steps.len() > 30 && there.len() > 25, "{} operations, events of {}", steps.len(), there.len());
    let mut wrong = Vec::new();
    for (step, _) in steps {
        let of = |side: &BTreeMap<_, Vec<String>>| side.get(step).cloned().unwrap_or_default();
        let (a, mut b) = (oom_before_end(of(&there)), of(&here));
        for (_, more, why) in KNOWN.iter().filter(|(known, ..)| *known == step) {
            let at = b.iter().position(|line| line == more);
            b.remove(at.unwrap_or_else(|| panic!("{step} does not tell {more} any more ({why})")));
        }
        if a != b {
            wrong.push(format!("{step}:\n  dockerd:\n    {}\n  here:\n    {}", a.join("\n    "), b.join("\n    ")));
        }
    }
    assert!(wrong.is_empty(), "{} operations differ:\n{}", wrong.len(), wrong.join("\n"));
}
