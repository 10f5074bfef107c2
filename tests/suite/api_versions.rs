//! The contract, versions 1.18 to 1.24 of the API, beside the later versions: answers are equal whether those are served or not.

use crate::support::*;
use coracle_http::{ApiVersion, ReplyBody, Router, RouterOptions};
use serde_json::{Value, json};
use std::io::Read;
use std::os::unix::net::UnixStream;

/// Header fields that tell which versions are served.
const TELLING: [&str; 2] = ["server", "api-version"];
/// Members that tell it, or change by themselves: times, and counters of the program.
const CHANGING: [&str; 8] =
    ["Version", "ApiVersion", "ServerVersion", "SystemTime", "NFd", "NGoroutines", "NEventsListener", "NHeadsUnread"];

/// An answer without the members that may differ: status, header fields, body.
fn answer(router: &Router, method: &str, target: &str, body: &str) -> (u16, Vec<(String, String)>, String) {
    let json = [("Content-Type", "application/json")];
    let reply = router.request(method, target, &json, body.as_bytes().to_vec(), None).expect("an answer");
    let fields = reply.headers.iter().map(|(name, value)| (name.to_lowercase(), value.to_owned()));
    let fields = fields.filter(|(name, _)| !TELLING.contains(&name.as_str())).collect();
    let mut bytes = Vec::new();
    match reply.body {
        ReplyBody::Bytes(whole) => bytes = whole,
        ReplyBody::Stream(fd, _) => {
            UnixStream::from(fd).read_to_end(&mut bytes).expect("read the answer");
        }
        other => panic!("{method} {target}: {other:?}"),
    }
    let text = match serde_json::from_slice::<Value>(&bytes) {
        Ok(Value::Object(mut members)) => {
            members.retain(|name, _| !CHANGING.contains(&name.as_str()));
            Value::Object(members).to_string()
        }
        _ => String::from_utf8_lossy(&bytes).into_owned(),
    };
    (reply.status, fields, text)
}

#[test]
fn the_contract_is_the_same_beside_later_versions() {
    let root = Root::new();
    // One process that is always the same; a container that has ended; one that never ran.
    let up = root.create("up", body(&["sleep", "1000"], json!({ "HostConfig": { "NetworkMode": "none" } })));
    root.start(&up);
    let ended = root.create("ended", body(&["sh", "-c", "echo said"], json!({})));
    root.start(&ended);
    assert_eq!(root.wait(&ended), 0);
    root.create("made", body(&["true"], json!({ "HostConfig": { "NetworkMode": "bridge" } })));
    let all = Router::new(root.engine.clone());
    let options = RouterOptions { max_api_version: ApiVersion::SPECIFIED, ..RouterOptions::default() };
    let contract = Router::with(root.engine.clone(), options);
    let asked = [
        ("GET", "/_ping", ""),
        ("GET", "/version", ""),
        ("GET", "/info", ""),
        ("GET", "/containers/json?all=1", ""),
        ("GET", "/containers/up/json", ""),
        ("GET", "/containers/up/json?size=1", ""),
        ("GET", "/containers/ended/json", ""),
        ("GET", "/containers/made/json", ""),
        ("GET", "/containers/nothing/json", ""),
        ("GET", "/containers/up/top?ps_args=-o%20pid,args", ""),
        ("GET", "/containers/up/changes", ""),
        ("GET", "/containers/ended/logs?stdout=1", ""),
        ("GET", "/containers/ended/stats?stream=0", ""),
        ("GET", "/images/json", ""),
        ("GET", "/images/busybox/json", ""),
        ("GET", "/images/busybox/history", ""),
        ("GET", "/networks", ""),
        ("GET", "/networks/bridge", ""),
        ("GET", "/volumes", ""),
        ("GET", "/plugins", ""),
        ("GET", "/swarm", ""),
        ("GET", "/events?since=1&until=2", ""),
        ("POST", "/containers/create", "{}"),
        ("POST", "/containers/create", "{\"Image\":\"nothing\",\"HostConfig\":{\"DeviceRequests\":[{}]}}"),
        ("POST", "/containers/create", "{\"Image\":\"nothing\",\"HostConfig\":{\"KernelMemoryTCP\":5}}"),
        ("POST", "/containers/up/start", ""),
        ("POST", "/containers/ended/wait", ""),
        ("POST", "/containers/ended/kill", ""),
        ("POST", "/build?version=3", ""),
        ("DELETE", "/networks/bridge", ""),
    ];
    for minor in 18..=24 {
        for (method, path, body) in asked {
            let target = format!("/v1.{minor}{path}");
            let both = || [&all, &contract].map(|router| answer(router, method, &target, body));
            // A status counts seconds, and one may pass between the two.
            let equal = |[one, other]: [_; 2]| one == other;
            let [one, other] = if equal(both()) { continue } else { both() };
            assert_eq!(one, other, "{target}");
        }
    }
    // And the later ones are only there where they are served.
    assert_eq!(answer(&all, "GET", "/v1.44/_ping", "").0, 200);
    assert_eq!(answer(&contract, "GET", "/v1.44/_ping", "").0, 400);
    created_for_its_version(&root, &all);
}

/// A container's IPC namespace is open to others to 1.39, and its own from 1.40 on, unless the request says otherwise.
fn created_for_its_version(root: &Root, router: &Router) {
    for (prefix, mode) in [("/v1.24", ""), ("/v1.39", ""), ("/v1.40", "private"), ("", "private")] {
        let text = body(&["true"], json!({})).to_string();
        let (status, _, made) = answer(router, "POST", &format!("{prefix}/containers/create"), &text);
        assert_eq!(status, 201, "{prefix}: {made}");
        let made: Value = serde_json::from_str(&made).expect("a document");
        let id = made["Id"].as_str().expect("an id");
        assert_eq!(root.inspect(id).host_config.ipc_mode, mode, "{prefix}");
    }
}
