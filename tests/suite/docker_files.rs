//! Volumes and a container's files by the stock docker command line and by the command `coracle`.

use crate::docker_cli::Served;
use crate::support::*;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Command;

/// Status line, head and body of a whole answer.
fn answer(served: &Served, method: &str, path: &str, body: &[u8]) -> (String, Vec<u8>) {
    let mut stream = UnixStream::connect(&served.socket).expect("connect");
    stream.set_read_timeout(Some(SOON)).expect("set a time-out");
    let kind = if method == "PUT" { "application/x-tar" } else { "application/json" };
    let head = format!("{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: {kind}\r\n");
    stream.write_all(format!("{head}Content-Length: {}\r\n\r\n", body.len()).as_bytes()).expect("send");
    stream.write_all(body).expect("send the body");
    let mut all = Vec::new();
    stream.read_to_end(&mut all).expect("read the answer");
    let end = all.windows(4).position(|four| four == b"\r\n\r\n").expect("the head's end") + 4;
    (String::from_utf8_lossy(&all[..end]).into_owned(), all[end..].to_vec())
}

fn status(head: &str) -> u16 {
    head.split(' ').nth(1).and_then(|word| word.parse().ok()).expect("a status")
}

#[test]
fn docker_volume_commands() {
    let served = Served::new();
    assert_eq!(served.ok(&["volume", "create", "--name", "one", "--label", "a=b"]), "one");
    assert_eq!(served.ok(&["volume", "ls", "-q", "-f", "dangling=true"]), "one");
    assert_eq!(served.ok(&["volume", "inspect", "-f", "{{.Driver}} {{.Labels.a}}", "one"]), "local b");
    let run = |words: &[&str]| served.ok(&[&["run", "--rm", "--network", "none"], words].concat());
    run(&["-v", "one:/d", "busybox", "sh", "-c", "echo kept >/d/f"]);
    assert_eq!(run(&["-v", "one:/d:ro", "busybox", "cat", "/d/f"]), "kept");
    served.ok(&["create", "--name", "user", "--network", "none", "-v", "one:/d", "-v", "/anon", "busybox", "true"]);
    served.fails(&["volume", "rm", "one"], 1, "volume is in use");
    assert_eq!(served.ok(&["volume", "ls", "-q"]).lines().count(), 2);
    assert_eq!(served.ok(&["ps", "-a", "--format", "{{.Names}}", "-f", "volume=one"]), "user");
    served.ok(&["rm", "-v", "user"]);
    assert_eq!(served.ok(&["volume", "ls", "-q"]), "one");
    assert_eq!(served.ok(&["volume", "rm", "one"]), "one");
    served.fails(&["volume", "inspect", "one"], 1, "no such volume");
}

#[test]
fn docker_cp_diff_export_commit() {
    let served = Served::new();
    let dir = served.root.dir.join("host");
    std::fs::create_dir_all(dir.join("tree/sub")).expect("mkdir");
    std::fs::write(dir.join("tree/sub/f"), "content").expect("write");
    let path = |name: &str| dir.join(name).display().to_string();
    served.root.sleeper("box");
    served.ok(&["cp", &path("tree"), "box:/tmp"]);
    served.ok(&["cp", &path("tree/sub/f"), "box:/tmp/renamed"]);
    assert_eq!(served.ok(&["exec", "box", "cat", "/tmp/tree/sub/f", "/tmp/renamed"]), "contentcontent");
    served.ok(&["cp", "box:/tmp/tree/.", &path("back")]);
    assert_eq!(std::fs::read_to_string(dir.join("back/sub/f")).expect("read"), "content");
    served.fails(&["cp", "box:/nope", &path("x")], 1, "Could not find the file /nope in container box");
    assert_eq!(served.ok(&["diff", "box"]), "C /tmp\nA /tmp/renamed\nA /tmp/tree\nA /tmp/tree/sub\nA /tmp/tree/sub/f");
    served.ok(&["export", "-o", &path("all.tar"), "box"]);
    let list = Command::new("tar").args(["tf", &path("all.tar")]).output().expect("tar");
    assert!(String::from_utf8_lossy(&list.stdout).contains("\ntmp/tree/sub/f\n"));
    served.ok(&["commit", "-m", "why", "-c", "CMD cat /tmp/renamed", "box", "made:one"]);
    assert_eq!(served.ok(&["run", "--rm", "--network", "none", "made:one"]), "content");
    assert!(served.ok(&["history", "made:one"]).contains("why"));
}

// operation: POST /containers/{name}/copy
// parameter: HEAD /containers/{name}/archive: path
// parameter: GET /containers/{name}/archive: path
// parameter: PUT /containers/{name}/archive: noOverwriteDirNonDir path
#[test]
fn archive_over_http() {
    let served = Served::new();
    served.root.create("box", body(&["true"], json!({ "HostConfig": { "ReadonlyRootfs": true } })));
    served.root.create("open", body(&["true"], json!({})));
    let base = "/v1.24/containers/open/archive?path=";
    let (head, body) = answer(&served, "HEAD", &format!("{base}/bin/"), b"");
    assert_eq!((status(&head), body.len()), (200, 0));
    for field in ["X-Docker-Container-Path-Stat: ey", "X-Engine-Container-Path-Stat: ey"] {
        assert!(head.contains(field), "{head}");
    }
    let (head, _) = answer(&served, "GET", &format!("{base}/bin/busybox"), b"");
    assert!(status(&head) == 200 && head.contains("Content-Type: application/x-tar\r\n"), "{head}");
    let (head, body) = answer(&served, "GET", base, b"");
    assert_eq!((status(&head), body), (400, b"{\"message\":\"must specify path parameter\"}\n".to_vec()));
    let (head, _) = answer(&served, "GET", &format!("{base}/nope"), b"");
    assert_eq!(status(&head), 404);
    let (head, body) = answer(&served, "PUT", &format!("{base}/bin/busybox"), &[0; 1024]);
    assert_eq!((status(&head), body), (400, b"{\"message\":\"not a directory\"}\n".to_vec()));
    let (head, body) = answer(&served, "PUT", "/v1.24/containers/box/archive?path=/tmp", &[0; 1024]);
    assert_eq!((status(&head), body), (403, b"{\"message\":\"container rootfs is marked read-only\"}\n".to_vec()));
    assert_eq!(status(&answer(&served, "PUT", &format!("{base}/tmp"), &[0; 1024]).0), 200);
    // The older form, and where it ends.
    let resource = br#"{"Resource":"/bin/busybox"}"#;
    assert_eq!(status(&answer(&served, "POST", "/v1.20/containers/open/copy", resource).0), 200);
    let (head, body) = answer(&served, "POST", "/v1.24/containers/open/copy", resource);
    assert_eq!((status(&head), body.len()), (404, 0));
    let (_, body) = answer(&served, "GET", "/v1.24/containers/open/changes", b"");
    assert_eq!(body, b"null\n");
    // A file of a directory's name, which takes its place unless that is forbidden.
    let tar = crate::support::archive::Tar::new().file("tmp", b"a file").end();
    let (head, body) = answer(&served, "PUT", &format!("{base}/&noOverwriteDirNonDir=1"), &tar);
    let refused = String::from_utf8_lossy(&body);
    assert!(status(&head) == 400 && refused.contains("unable to overwrite existing directory with non-directory"));
    assert_eq!(status(&answer(&served, "PUT", &format!("{base}/&noOverwriteDirNonDir=0"), &tar).0), 200);
    assert_eq!(status(&answer(&served, "HEAD", &format!("{base}/tmp/"), b"").0), 400, "a file now");
    let (head, body) = answer(&served, "POST", "/v1.24/commit?container=open&repo=c&tag=t", b"");
    assert_eq!(status(&head), 201, "{}", String::from_utf8_lossy(&body));
    let (head, body) = answer(&served, "POST", "/v1.24/volumes/create", b"{\"Name\":\"v1\"}");
    let volume: Value = serde_json::from_slice(&body).expect("a document");
    assert_eq!((status(&head), &volume["Name"], &volume["Labels"]), (201, &json!("v1"), &Value::Null));
    let (_, body) = answer(&served, "GET", "/v1.24/volumes", b"");
    let list: Value = serde_json::from_slice(&body).expect("a document");
    assert_eq!((&list["Volumes"][0]["Name"], &list["Warnings"]), (&json!("v1"), &Value::Null));
    let (head, body) = answer(&served, "POST", "/v1.24/volumes/create", b"");
    assert_eq!((status(&head), body), (400, b"{\"message\":\"got EOF while reading request body\"}\n".to_vec()));
    assert_eq!(status(&answer(&served, "DELETE", "/v1.24/volumes/v1", b"").0), 204);
    assert_eq!(status(&answer(&served, "DELETE", "/v1.24/volumes/v1", b"").0), 404);
}

#[test]
fn the_command_s_own() {
    let root = Root::new();
    let coracle = |words: &[&str]| {
        let mut command = Command::new(built("coracle"));
        command.args(["--root".as_ref(), root.dir.join("root").as_os_str()]);
        let output = command.args(["--run".as_ref(), root.dir.join("run").as_os_str()]).args(words).output();
        let output = output.expect("run coracle");
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    };
    assert_eq!(coracle(&["volume", "create", "-o", "type=tmpfs", "-o", "device=tmpfs", "mem"]), "mem");
    assert_eq!(coracle(&["volume", "ls", "-q"]), "mem");
    assert!(coracle(&["volume", "inspect", "mem"]).contains("\"type\": \"tmpfs\""));
    assert_eq!(coracle(&["volume", "rm", "mem"]), "mem");
    // A container that would lead a copy astray: links in the place of directories.
    let canary = root.dir.join("canary");
    std::fs::create_dir(&canary).expect("mkdir");
    let script = format!("mkdir -p /d/sub; echo x >/d/f; ln -s {} /d/out; ln -s {0}/evil /d/file", canary.display());
    let id = root.create("astray", body(&["sh", "-c", &script], json!({})));
    root.start(&id);
    root.wait(&id);
    let to = root.dir.join("to");
    std::fs::create_dir_all(to.join("d/out")).expect("mkdir");
    coracle(&["cp", "astray:/d/f", &to.join("copy").display().to_string()]);
    assert_eq!(std::fs::read_to_string(to.join("copy")).expect("read"), "x\n");
    coracle(&["cp", "astray:/d", &to.join("new").display().to_string()]);
    assert!(to.join("new/out").is_symlink() && to.join("new/sub").is_dir());
    assert_eq!(std::fs::read_dir(&canary).expect("list").count(), 0);
    coracle(&["cp", &to.join("new").display().to_string(), "astray:/tmp"]);
    assert!(coracle(&["diff", "astray"]).contains("A /tmp/new/f"));
    coracle(&["commit", "-c", "CMD [\"cat\", \"/tmp/new/f\"]", "astray", "led:x"]);
    assert_eq!(coracle(&["run", "--rm", "--network", "none", "led:x"]), "x");
    let left: Vec<_> = std::fs::read_dir(&to).expect("list").flatten().map(|e| e.file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().starts_with(".coracle-cp")), "{left:?}");
}
