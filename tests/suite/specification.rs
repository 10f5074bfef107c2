//! `docs/specification.md`: each row's request gets the answer that the row names.

use crate::docker_cli::{Served, newest_served};
use crate::oracle::call_bytes;
use crate::support::*;
use serde_json::json;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

struct Row {
    asked: String,
    status: u16,
    text: Option<String>,
}

fn rows() -> Vec<Row> {
    let page = std::fs::read_to_string(project().join("docs/specification.md")).expect("the page");
    let row = |line: &str| {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        assert_eq!(cells.len(), 4, "{line}");
        assert!(!cells[3].is_empty(), "no reason: {line}");
        let (status, text) = cells[2].split_once(' ').map_or((cells[2], None), |(status, text)| (status, Some(text)));
        Row {
            asked: cells[1].trim_matches('`').to_owned(),
            status: status.parse().expect("a status"),
            text: text.map(|text| text.trim_matches('`').to_owned()),
        }
    };
    page.lines().filter(|line| line.starts_with("| ")).skip(1).map(row).collect()
}

/// The answer to a request, its head among it.
fn whole(served: &Served, asked: &str) -> (u16, String) {
    let (request, body) =
        asked.split_once(" {").map_or((asked, String::new()), |(request, rest)| (request, format!("{{{rest}")));
    let (method, path) = request.split_once(' ').expect("a method and a path");
    let mut stream = UnixStream::connect(&served.socket).expect("connect");
    stream.set_read_timeout(Some(SOON)).expect("set a time-out");
    // A row that names its server has no version.
    let path = if path.starts_with("http://") { path.to_owned() } else { format!("/v1.24{path}") };
    let head =
        format!("{method} {path} HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n", body.len());
    stream.write_all(format!("{head}{body}").as_bytes()).expect("send");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("the answer");
    let text = String::from_utf8_lossy(&answer).into_owned();
    (text[9..12].parse().expect("a status"), text)
}

#[test]
fn the_page_says_what_is_answered() {
    let served = Served::new();
    let root = &served.root;
    root.sleeper("up");
    root.sleeper_with("terminal", json!({ "Tty": true, "OpenStdin": true }));
    for (name, script) in [("ended", "true"), ("files", "echo in a volume >/data/file; ln -s /data/file /link")] {
        let more = json!({ "HostConfig": { "Binds": ["kept:/data"] } });
        root.create(name, body(&["sh", "-c", script], more));
        root.start(name);
        assert_eq!(root.wait(name), 0, "{name}");
    }
    // Another image has the name that a row moves.
    let other = root.create("other", body(&["true"], json!({})));
    let (status, _) = call_bytes(&served.socket, "POST", &format!("/commit?container={other}&repo=moved&tag=x"), b"{}");
    assert_eq!(status, 201);
    let detached = json!({ "Cmd": ["sleep", "1000"] });
    let (_, made) = call_bytes(&served.socket, "POST", "/containers/up/exec", detached.to_string().as_bytes());
    let exec = crate::oracle::text(&crate::oracle::document(&made)["Id"]).to_owned();
    let (status, _) = call_bytes(&served.socket, "POST", &format!("/exec/{exec}/start"), b"{\"Detach\":true}");
    assert_eq!(status, 200);
    let rows = rows();
    assert!(rows.len() > 12, "{} rows", rows.len());
    // Requests without a version get other answers if no later versions are served.
    for row in rows.into_iter().filter(|row| newest_served().is_none() || !row.asked.contains("http://")) {
        let (status, answer) = whole(&served, &row.asked.replace("EXEC", &exec));
        assert_eq!(status, row.status, "{}: {answer}", row.asked);
        if let Some(text) = row.text {
            assert!(answer.contains(&text), "{}: {answer}", row.asked);
        }
    }
}

/// The objects that the specification names in addition to those that clients read.
#[test]
fn names_of_the_specification_stand_beside_those_of_clients() {
    let served = Served::new();
    served.root.sleeper("up");
    let ask = |method: &str, path: &str, body: &str| {
        let (status, bytes) = call_bytes(&served.socket, method, path, body.as_bytes());
        assert!(status < 300, "{path}: {status} {}", String::from_utf8_lossy(&bytes));
        crate::oracle::document(&bytes)
    };
    let exec = ask("POST", "/containers/up/exec", "{\"Cmd\":[\"true\"]}");
    assert_eq!(exec["Warnings"], json!([]));
    let image = ask("GET", "/images/busybox/json", "");
    assert_eq!(
        (&image["ContainerConfig"]["Dns"], &image["ContainerConfig"]["VolumesFrom"]),
        (&json!(null), &json!(""))
    );
    assert!(image["ContainerConfig"].as_object().expect("an object").contains_key("Dns"));
    let pool = json!({ "Subnet": "10.213.7.0/24", "AuxAddress": { "router": "10.213.7.9" } });
    let network = json!({ "Name": "aside", "IPAM": { "Config": [pool] } });
    ask("POST", "/networks/create", &network.to_string());
    let shown = ask("GET", "/networks/aside", "");
    let config = &shown["IPAM"]["Config"][0];
    assert_eq!(config["AuxAddress"], json!({ "router": "10.213.7.9" }));
    assert_eq!(config["AuxAddress"], config["AuxiliaryAddresses"]);
    let options = ask("GET", "/networks/bridge", "")["Options"].clone();
    for name in [
        "bridge.default_bridge",
        "bridge.enable_icc",
        "bridge.enable_ip_masquerade",
        "bridge.host_binding_ipv4",
        "driver.mtu",
    ] {
        let (ours, theirs) =
            (&options[format!("com.engine.network.{name}")], &options[format!("com.docker.network.{name}")]);
        assert!(ours.is_string() && ours == theirs, "{name}: {options}");
    }
    // A name among the filters of the images.
    served.ok(&["tag", "busybox", "second:x"]);
    let names = |filter: &str| ask("GET", &format!("/images/json?filters=%7B%22filter%22%3A%5B{filter}%5D%7D"), "");
    assert_eq!(names("%22nothing%22"), json!([]));
    let tags = names("%22second%22")[0]["RepoTags"].to_string();
    assert!(tags.contains("second:x"), "{tags}");
    assert_eq!(names("").as_array().expect("a list").len(), 1);
}
