//! Files in and out of containers, and images made of them: what holds, and what an attacker cannot reach.

use crate::support::*;
use coracle::model::*;
use coracle::{Context, ErrorKind};
use serde_json::json;
use std::collections::BTreeMap;
use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};
use tar::{Builder, EntryType, Header};

/// The content of a tar: name to (type, mode, owner, link target, content).
type Listing = BTreeMap<String, (EntryType, u32, u64, String, Vec<u8>)>;

fn listing(bytes: &[u8]) -> Listing {
    let mut archive = tar::Archive::new(bytes);
    let mut all = Listing::new();
    for entry in archive.entries().expect("a tar") {
        let mut entry = entry.expect("an entry");
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let link = entry.link_name_bytes().map(|l| String::from_utf8_lossy(&l).into_owned()).unwrap_or_default();
        let header = entry.header();
        let facts = (header.entry_type(), header.mode().expect("a mode"), header.uid().expect("an owner"));
        let mut content = Vec::new();
        entry.read_to_end(&mut content).expect("content");
        all.insert(name, (facts.0, facts.1, facts.2, link, content));
    }
    all
}

fn get(root: &Root, id: &str, path: &str) -> Listing {
    let archive =
        root.engine.container_archive_get(id, path, Some(&soon())).unwrap_or_else(|e| panic!("get {path}: {e}"));
    let mut bytes = Vec::new();
    archive.write_to(&mut bytes, Some(&soon())).expect("write");
    assert_eq!(bytes.len() % 512, 0);
    listing(&bytes)
}

fn names(list: &Listing) -> Vec<&str> {
    list.keys().map(String::as_str).collect()
}

fn stat(root: &Root, id: &str, path: &str) -> PathStat {
    root.engine.container_archive_stat(id, path, Some(&soon())).unwrap_or_else(|e| panic!("stat {path}: {e}"))
}

fn put(root: &Root, id: &str, path: &str, tar: Vec<u8>) -> coracle::Result<()> {
    root.engine.container_archive_put(id, path, &mut tar.as_slice(), PutArchive::default(), Some(&soon()))
}

/// A tar of (name, type, link target or content).
fn tar_of(entries: &[(&str, EntryType, &str)]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for (name, kind, text) in entries {
        for (letter, long) in [(b'L', name), (b'K', text)] {
            if long.len() > 100 && (letter == b'L' || *kind != EntryType::Regular) {
                let mut header = Header::new_gnu();
                header.set_entry_type(EntryType::new(letter));
                header.set_size(long.len() as u64);
                header.set_cksum();
                builder.append(&header, long.as_bytes()).expect("append");
            }
        }
        let mut header = Header::new_ustar();
        header.set_entry_type(*kind);
        header.set_mode(if *kind == EntryType::Directory { 0o755 } else { 0o640 });
        header.set_uid(3);
        header.set_gid(4);
        header.set_mtime(1_000_000_000);
        let content: &[u8] = if *kind == EntryType::Regular { text.as_bytes() } else { b"" };
        header.set_size(content.len() as u64);
        // Names as an attacker writes them: the builder itself would refuse some.
        let place = &mut header.as_old_mut().name;
        let short = &name.as_bytes()[..name.len().min(100)];
        place[..short.len()].copy_from_slice(short);
        if *kind != EntryType::Regular {
            let short = &text.as_bytes()[..text.len().min(100)];
            header.as_old_mut().linkname[..short.len()].copy_from_slice(short);
        }
        header.set_cksum();
        builder.append(&header, content).expect("append");
    }
    builder.into_inner().expect("a tar")
}

use EntryType::{Directory as Dir, Link as Hard, Regular as File, Symlink};

const MAKE: &str = "mkdir -p /d/sub; echo x >/d/f; chown 5:6 /d/f; chmod 4750 /d/f; ln /d/f /d/hard; ln -s /d /l; \
     ln -s /nope /dang; mkfifo /d/pipe; touch /d/a-name-that-is-longer-than-the-hundred-bytes-that-an-old-header-has-\
     room-for-so-that-it-needs-more-than-one-block-of-it; echo ready; trap 'exit 0' TERM; while :; do sleep 0.05; done";

/// Containers with the same files that run, were stopped, and one that was only created from an image with them.
fn three(root: &Root) -> [String; 3] {
    let make = |name: &str| {
        let id = root.create(name, body(&["sh", "-c", MAKE], json!({})));
        root.start(&id);
        root.wait_for("its files", || root.logs(&id).stdout.starts_with(b"ready"));
        id
    };
    let (running, stopped) = (make("running"), make("stopped"));
    root.engine.container_stop(&stopped, None, Some(&soon())).expect("stop");
    let how = CommitContainer { repo: "with-files".into(), ..CommitContainer::default() };
    root.engine.container_commit(&running, &how, Some(&soon())).expect("commit");
    let created = root.create("created", body(&["true"], json!({ "Image": "with-files" })));
    [running, stopped, created]
}

// operation: HEAD /containers/{name}/archive
// operation: GET /containers/{name}/archive
#[test]
fn stat_and_get() {
    let root = Root::new();
    for id in three(&root) {
        let of = |path: &str| {
            let stat = stat(&root, &id, path);
            (stat.name, stat.mode, stat.link_target)
        };
        assert_eq!(of("/d"), ("d".into(), 1 << 31 | 0o755, String::new()));
        assert_eq!(of("d/f"), ("f".into(), 1 << 23 | 0o750, String::new()));
        assert_eq!(of("/l"), ("l".into(), 1 << 27 | 0o777, "/d".into()));
        assert_eq!(of("/l/"), ("l".into(), 1 << 31 | 0o755, String::new()));
        assert_eq!(of("/d/."), (".".into(), 1 << 31 | 0o755, String::new()));
        assert_eq!(of("/dang"), ("dang".into(), 1 << 27 | 0o777, "/nope".into()));
        assert_eq!(of("/"), ("/".into(), 1 << 31 | 0o755, String::new()));
        assert_eq!(of("../../d/pipe").1 >> 25 & 1, 1);
        assert_eq!(stat(&root, &id, "/d/f").size, 2);

        let list = get(&root, &id, "/d");
        let long = list.keys().find(|name| name.len() > 100).expect("the long name").clone();
        assert_eq!(names(&list), ["d/", long.as_str(), "d/f", "d/hard", "d/pipe", "d/sub/"]);
        assert_eq!(list["d/f"], (File, 0o4750, 5, String::new(), b"x\n".to_vec()));
        assert_eq!((list["d/hard"].0, list["d/hard"].3.as_str()), (Hard, "d/f"));
        assert_eq!(list["d/pipe"].0, EntryType::Fifo);
        assert_eq!(
            names(&get(&root, &id, "/l/.")),
            ["./", &format!(".{}", &long[1..]), "./f", "./hard", "./pipe", "./sub/"]
        );
        let link = get(&root, &id, "/l");
        assert_eq!((names(&link), link["l"].0, link["l"].3.as_str()), (vec!["l"], Symlink, "/d"));
        assert_eq!(names(&get(&root, &id, "/l/f")), ["f"]);

        let stat = |path: &str| root.engine.container_archive_stat(&id, path, Some(&soon()));
        fails(stat(""), ErrorKind::Invalid, "must specify path parameter");
        fails(stat("/nope"), ErrorKind::NotFound, "Could not find the file /nope in container");
        fails(stat("/d/f/"), ErrorKind::Invalid, "not a directory");
        fails(stat("/d/f/."), ErrorKind::Invalid, "not a directory");
        fails(stat("/proc/1/status"), ErrorKind::NotFound, "Could not find the file /proc/1/status in container");
        // The older form follows the link at the end.
        let copied = root.engine.container_copy(&id, "/l", Some(&soon())).expect("copy");
        let mut bytes = Vec::new();
        copied.write_to(&mut bytes, None).expect("write");
        assert!(names(&listing(&bytes)).contains(&"d/f"));
    }
    fails(root.engine.container_archive_stat("nobody", "/", None), ErrorKind::NotFound, "No such container: nobody");
}

// operation: PUT /containers/{name}/archive
/// The monitor has the file system mounted until the restart that it waits for.
#[test]
fn put_while_it_waits_for_its_restart() {
    let root = Root::new();
    let more = host(json!({ "RestartPolicy": { "Name": "always" }, "Binds": ["with-a-volume:/v"] }));
    let id = root.create("again", body(&["sh", "-c", "test -e /l/put && cat /l/put && exec sleep 1000; exit 1"], more));
    root.start(&id);
    for number in 0..6 {
        root.wait_for("its end", || root.status(&id) == "restarting");
        let name = if number < 5 { format!("not-yet-{number}") } else { "put".to_owned() };
        put(&root, &id, "/", tar_of(&[(&format!("l/{name}"), File, "arrived\n")])).expect("put");
    }
    root.wait_for("what was put", || root.logs(&id).out() == "arrived" && root.status(&id) == "running");
    assert_eq!(root.exec(&id, &["sh", "-c", "ls /l"]).out().lines().count(), 6);
}

// operation: PUT /containers/{name}/archive
#[test]
fn put_into_running_and_stopped() {
    let root = Root::new();
    for id in three(&root) {
        let tar = tar_of(&[
            ("new/", Dir, ""),
            ("new/file", File, "hello"),
            ("new/link", Symlink, "file"),
            ("new/hard", Hard, "new/file"),
            ("deep/er/file", File, "made above"),
            ("f", File, "over"),
        ]);
        put(&root, &id, "/l", tar).expect("put");
        let list = get(&root, &id, "/d/new");
        assert_eq!(list["new/file"], (File, 0o640, 3, String::new(), b"hello".to_vec()));
        assert_eq!((list["new/link"].3.as_str(), list["new/hard"].0), ("file", Hard));
        assert_eq!(get(&root, &id, "/d/deep/er/file")["file"].4, b"made above");
        assert_eq!(get(&root, &id, "/d/f")["f"].4, b"over");
        // The other name of the file that was replaced keeps what it had.
        assert_eq!(get(&root, &id, "/d/hard")["hard"].4, b"x\n");
        fails(put(&root, &id, "/d/f", tar_of(&[("x", File, "")])), ErrorKind::Invalid, "not a directory");
        fails(
            put(&root, &id, "/nope", tar_of(&[("x", File, "")])),
            ErrorKind::NotFound,
            "Could not find the file /nope",
        );
        fails(put(&root, &id, "", tar_of(&[])), ErrorKind::Invalid, "must specify path parameter");
        let strict = |entries: &[(&str, EntryType, &str)]| {
            let how = PutArchive { no_overwrite_dir_non_dir: true, ..PutArchive::default() };
            root.engine.container_archive_put(&id, "/", &mut tar_of(entries).as_slice(), how, Some(&soon()))
        };
        fails(
            strict(&[("d", File, "x")]),
            ErrorKind::Invalid,
            "unable to overwrite existing directory with non-directory",
        );
        for below in [("dang/", Dir, ""), ("etc/passwd/below", File, "x"), ("etc/passwd/d/e", File, "x")] {
            let text = "unable to overwrite existing non-directory with directory";
            fails(strict(&[below]), ErrorKind::Invalid, text);
        }
        put(&root, &id, "/", tar_of(&[("d", File, "a file now"), ("dang/", Dir, "")])).expect("put");
        assert_eq!((stat(&root, &id, "/d").size, stat(&root, &id, "/dang").mode), (10, 1 << 31 | 0o755));
    }
    // A running container sees it at once.
    assert_eq!(root.exec("running", &["cat", "/d"]).out(), "a file now");
}

/// As dockerd has it: an archive goes to the container's own directories of these names, which its kernel's file systems
/// cover as long as it runs. Neither the kernel's files nor devices are reached, for writing or for reading.
#[test]
fn directories_below_proc_sys_and_dev_are_the_container_s_own() {
    let root = Root::new();
    let limit = || std::fs::read_to_string("/proc/sys/kernel/ostype").expect("a setting of the host");
    let before = limit();
    for id in three(&root) {
        for dir in ["/proc", "/sys", "/dev"] {
            put(&root, &id, dir, tar_of(&[("put", File, "covered")])).unwrap_or_else(|e| panic!("put to {dir}: {e}"));
            assert_eq!(get(&root, &id, &format!("{dir}/put"))["put"].4, b"covered");
        }
        put(&root, &id, "/", tar_of(&[("proc/sys/kernel/ostype", File, "301")])).expect("put");
        assert_eq!(limit(), before);
        fails(
            root.engine.container_archive_stat(&id, "/proc/self/status", None),
            ErrorKind::NotFound,
            "Could not find the file /proc/self/status",
        );
        // A device of an archive is a file like any other, and opens nothing from here.
        let found = names(&get(&root, &id, "/dev")).iter().any(|name| name.ends_with("null"));
        assert!(!found, "the container's devices are in the archive");
    }
    let look = "ls /proc/put /sys/put /dev/put 2>/dev/null; cat /proc/sys/kernel/ostype";
    assert_eq!(root.exec("running", &["sh", "-c", look]).out(), before.trim_end());
}

#[test]
fn compressed_and_broken_archives() {
    let root = Root::new();
    let id = root.create("target", body(&["true"], json!({})));
    let plain = tar_of(&[("zipped", File, "content")]);
    let mut child = std::process::Command::new("gzip")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("gzip");
    std::io::Write::write_all(&mut child.stdin.take().expect("stdin"), &plain).expect("write");
    put(&root, &id, "/tmp", child.wait_with_output().expect("gzip").stdout).expect("put");
    assert_eq!(get(&root, &id, "/tmp/zipped")["zipped"].4, b"content");
    fails(put(&root, &id, "/tmp", plain[..515].to_vec()), ErrorKind::Invalid, "unexpected end of the archive");
    // Only what fills the last block is missing: Go's reader, and so dockerd, takes that.
    put(&root, &id, "/tmp", plain[..700].to_vec()).expect("a file without its padding");
    assert!(put(&root, &id, "/tmp", vec![b'x'; 2048]).is_err());
    put(&root, &id, "/tmp", Vec::new()).expect("an empty archive holds nothing");
}

#[test]
fn read_only_places() {
    let root = Root::new();
    let more = json!({ "ReadonlyRootfs": true, "Binds": ["rw1:/rw", "ro1:/ro:ro"] });
    let id = root.sleeper_with("frozen", host(more.clone()));
    let created = root.create("frozen-too", body(&["true"], host(more)));
    for id in [&id, &created] {
        let one = || tar_of(&[("x", File, "y")]);
        fails(put(&root, id, "/tmp", one()), ErrorKind::Forbidden, "container rootfs is marked read-only");
        fails(put(&root, id, "/ro", one()), ErrorKind::Forbidden, "mounted volume is marked read-only");
        put(&root, id, "/rw", one()).expect("put");
        assert_eq!(get(&root, id, "/rw/x")["x"].4, b"y");
        // The read-only place lies below: nothing of it is written either.
        let through = put(&root, id, "/", tar_of(&[("ro/x", File, "y")]));
        assert_eq!(through.expect_err("must be refused").kind(), ErrorKind::Forbidden);
    }
    assert_eq!(root.exec("frozen", &["cat", "/rw/x"]).out(), "y");
}

#[test]
fn volumes_and_binds_inside() {
    let root = Root::new();
    let dir = root.dir.join("bound");
    std::fs::create_dir(&dir).expect("mkdir");
    std::fs::write(dir.join("f"), "of the host").expect("write");
    let binds = json!({ "Binds": [format!("{}:/a/b", dir.display()), "inner:/a/b/vol", format!("{}:/file", dir.join("f").display())] });
    let running = root.sleeper_with("with-mounts", host(binds.clone()));
    let created = root.create("with-mounts-too", body(&["true"], host(binds)));
    // Other tests mount meanwhile, elsewhere.
    let own_mounts = || {
        let table = std::fs::read_to_string("/proc/self/mountinfo").expect("mountinfo");
        let here = root.dir.to_str().expect("a path").to_owned();
        table.lines().filter(|line| line.contains(&here)).map(str::to_owned).collect::<Vec<_>>()
    };
    let table = own_mounts();
    for id in [&running, &created] {
        put(&root, id, "/a/b/vol", tar_of(&[("v", File, "in the volume")])).expect("put");
        assert_eq!(names(&get(&root, id, "/a")), ["a/", "a/b/", "a/b/f", "a/b/vol/", "a/b/vol/v"]);
        assert_eq!(get(&root, id, "/file")["file"].4, b"of the host");
    }
    assert!(dir.join("vol").is_dir() && !dir.join("vol/v").exists());
    // An export has neither; and no mount shows on the host.
    let mut bytes = Vec::new();
    root.engine.container_export(&running, &mut bytes, Some(&soon())).expect("export");
    let list = listing(&bytes);
    assert!(
        list.contains_key("bin/busybox") && list.contains_key("a/b/") && !list.contains_key("a/b/f"),
        "{:?}",
        names(&list)
    );
    assert_eq!(list.keys().filter(|name| name.starts_with("proc/")).count(), 1);
    assert_eq!(own_mounts(), table);
}

// operation: GET /containers/{name}/export
#[test]
fn export_of_each_state() {
    let root = Root::new();
    for id in three(&root) {
        let mut bytes = Vec::new();
        root.engine.container_export(&id, &mut bytes, Some(&soon())).expect("export");
        let list = listing(&bytes);
        assert_eq!(list["d/f"].4, b"x\n");
        assert_eq!((list["l"].0, list["l"].3.as_str()), (Symlink, "/d"));
        assert!(list.contains_key("bin/busybox"));
    }
}

// operation: GET /containers/{name}/changes
#[test]
fn changes_of_each_kind() {
    let root = Root::new();
    let id = root.create("untouched", body(&["true"], json!({})));
    assert_eq!(root.engine.container_changes(&id).expect("changes"), []);
    root.start(&id);
    root.wait(&id);
    assert_eq!(root.engine.container_changes(&id).expect("changes"), []);
    let script = "mkdir -p /d/sub; echo x >/d/f; rm /bin/yes; chmod 700 /tmp; touch /etc/passwd; mkdir /new; touch /new/a; \
         rm -rf /root; echo f >/root; touch /proc-like";
    let id = root.create("changed", body(&["sh", "-c", script], host(json!({ "Binds": ["cv:/vol"] }))));
    root.start(&id);
    assert_eq!(root.wait(&id), 0);
    let seen: Vec<(String, u8)> =
        root.engine.container_changes(&id).expect("changes").into_iter().map(|c| (c.path, c.kind)).collect();
    let expected = [
        ("/bin", 0),
        ("/bin/yes", 2),
        ("/d", 1),
        ("/d/f", 1),
        ("/d/sub", 1),
        ("/etc", 0),
        ("/etc/passwd", 0),
        ("/new", 1),
        ("/new/a", 1),
        ("/proc-like", 1),
        ("/root", 0),
        ("/tmp", 0),
        ("/vol", 1),
    ];
    assert_eq!(seen, expected.map(|(path, kind)| (path.to_owned(), kind)));
}

// operation: POST /commit
#[test]
fn commit_makes_an_image() {
    let root = Root::new();
    let script = "rm -r /bin/yes /etc/group; mkdir -p /opt/x; echo kept >/opt/x/f; chown 8:9 /opt/x/f";
    let more = json!({ "Env": ["A=1"], "Labels": { "own": "1" }, "HostConfig": { "Binds": ["gone:/data"] } });
    let id = root.create("source", body(&["sh", "-c", &format!("{script}; echo v >/data/v")], more));
    root.start(&id);
    assert_eq!(root.wait(&id), 0);
    let mut events = root.engine.events(&EventQuery::default()).expect("events");
    let how = CommitContainer {
        repo: "made".into(),
        tag: "by-hand".into(),
        comment: "a comment".into(),
        author: "Ann".into(),
        changes: vec!["ENV B=2".into(), "CMD [\"cat\", \"/opt/x/f\"]\nLABEL more=x".into(), "EXPOSE 80".into()],
        ..CommitContainer::default()
    };
    let image = root.engine.container_commit(&id, &how, Some(&soon())).expect("commit");
    let seen = events_until(&mut events, |event| event.action == "commit");
    assert_eq!(actions(&seen), ["tag", "commit"]);
    assert_eq!(seen[1].actor.attributes["imageRef"], "made:by-hand");
    assert_eq!(
        (seen[1].actor.attributes["comment"].as_str(), &seen[1].actor.attributes["imageID"]),
        ("a comment", &image)
    );
    let detail = root.engine.image_inspect("made:by-hand").expect("inspect");
    assert_eq!(
        (detail.id.as_str(), detail.author.as_str(), detail.comment.as_str()),
        (image.as_str(), "Ann", "a comment")
    );
    let config = detail.config.expect("a configuration");
    assert_eq!(
        config.env.as_ref().map(|env| env.iter().any(|e| e == "A=1") && env.iter().any(|e| e == "B=2")),
        Some(true)
    );
    assert_eq!((config.labels["own"].as_str(), config.labels["more"].as_str()), ("1", "x"));
    assert!(config.exposed_ports.contains("80/tcp"));
    let out = root.sh_with(
        "cat /opt/x/f; stat -c %u:%g /opt/x/f; ls /bin/yes /etc/group 2>&1 | grep -c 'No such'; ls /data",
        json!({ "Image": "made:by-hand" }),
    );
    assert_eq!(out.out(), "kept\n8:9\n2");
    let default = root.create("default", json!({ "Image": "made:by-hand", "HostConfig": { "NetworkMode": "none" } }));
    root.start(&default);
    root.wait(&default);
    assert_eq!(root.logs(&default).out(), "kept");
    // Nothing changed: no layer, but an image.
    let still = root.create("still", body(&["true"], json!({})));
    let same = root.engine.container_commit(&still, &CommitContainer::default(), Some(&soon())).expect("commit");
    let layers = |name: &str| root.engine.image_inspect(name).expect("inspect").root_fs.layers.map(|l| l.len());
    assert_eq!(layers(&same), layers(IMAGE));
    fails(
        root.engine.container_commit(&still, &CommitContainer { changes: vec!["RUN x".into()], ..how.clone() }, None),
        ErrorKind::Invalid,
        "run is not a valid change command",
    );
    fails(
        root.engine.container_commit(&still, &CommitContainer { repo: "Upper".into(), ..how }, None),
        ErrorKind::Invalid,
        "invalid reference format",
    );
}

#[test]
fn commit_pauses_what_runs() {
    let root = Root::new();
    let id = root.sleeper("busy");
    let mut events = root.engine.events(&EventQuery::default()).expect("events");
    root.engine.container_commit(&id, &CommitContainer::default(), Some(&soon())).expect("commit");
    let unpaused = CommitContainer { pause: false, ..CommitContainer::default() };
    root.engine.container_commit(&id, &unpaused, Some(&soon())).expect("commit");
    let mut commits = 0;
    let seen = events_until(&mut events, |event| {
        commits += usize::from(event.action == "commit");
        commits == 2
    });
    assert_eq!(actions(&seen), ["pause", "commit", "unpause", "commit"]);
    assert_eq!(root.status(&id), "running");
    // A frozen one stays so.
    root.engine.container_pause(&id).expect("pause");
    root.engine.container_commit(&id, &CommitContainer::default(), Some(&soon())).expect("commit");
    assert_eq!(root.status(&id), "paused");
}

/// dockerd only has an error for a container whose image was removed by force.
#[test]
fn commit_of_a_container_without_an_image() {
    let root = Root::new();
    let context = root.dir.join("context");
    std::fs::create_dir(&context).expect("mkdir");
    std::fs::write(context.join("Dockerfile"), "FROM scratch\nLABEL a=b\n").expect("write");
    let keep = BuildImage { rm: false, ..BuildImage::default() };
    let how = Context::Directory(&context);
    root.engine.image_build(&keep, how, &mut |_| Ok(()), Some(&soon())).expect("build");
    let all = root.engine.container_list(&ListContainers { all: true, ..ListContainers::default() }).expect("list");
    let kept = &all.first().expect("a container that the build kept").id;
    let changed = tar_of(&[("f", File, "kept")]);
    let put = root.engine.container_archive_put(kept, "/", &mut &changed[..], PutArchive::default(), Some(&soon()));
    put.expect("a file in it");
    let image = root.engine.container_commit(kept, &CommitContainer::default(), Some(&soon())).expect("commit");
    let detail = root.engine.image_inspect(&image).expect("inspect");
    assert_eq!((detail.parent.as_str(), detail.os.as_str()), ("", "linux"));
    assert_eq!(detail.root_fs.layers.expect("layers").len(), 1);
    assert_eq!(detail.config.expect("a configuration").labels["a"], "b");
    let history = root.engine.image_history(&image).expect("history");
    assert_eq!(
        history.iter().map(|step| step.created_by.as_str()).collect::<Vec<_>>(),
        ["/bin/sh -c #(nop)  LABEL a=b"]
    );

    // The image is removed by force: what the container needs of it stays.
    let made = root.engine.container_commit(
        &root.create("first", body(&["true"], json!({}))),
        &CommitContainer { repo: "going".into(), ..CommitContainer::default() },
        Some(&soon()),
    );
    let made = made.expect("an image");
    let id = root.create("orphan", json!({ "Image": "going", "Cmd": ["sh", "-c", "echo mine > /mark"] }));
    root.start(&id);
    assert_eq!(root.wait(&id), 0);
    root.engine.image_remove(&made, RemoveImage { force: true, ..RemoveImage::default() }).expect("remove it");
    let image = root.engine.container_commit(&id, &CommitContainer::default(), Some(&soon())).expect("commit");
    root.engine.container_remove(&id, RemoveContainer::default(), Some(&soon())).expect("remove");
    assert_eq!(root.run(&["cat", "/mark"], json!({ "Image": image }), b"").ok(), "mine");
}

#[test]
fn archives_that_try_to_get_out() {
    let root = Root::new();
    let canary = root.dir.join("canary");
    std::fs::create_dir(&canary).expect("mkdir");
    std::fs::write(canary.join("file"), "untouched").expect("write");
    let outside = canary.to_string_lossy().into_owned();
    let running = root.sleeper("victim");
    let created = root.create("victim-too", body(&["true"], host(json!({ "Binds": ["hv:/hv"] }))));
    for id in [&running, &created] {
        let deep = "../".repeat(12);
        let attacks: Vec<Vec<u8>> = vec![
            tar_of(&[(&format!("{deep}{}/new", &outside[1..]), File, "x")]),
            tar_of(&[(&format!("{outside}/file"), File, "x")]),
            tar_of(&[("out", Symlink, &outside), ("out/file", File, "x"), ("out/new", File, "x")]),
            tar_of(&[("out", Symlink, &format!("{deep}{}", &outside[1..])), ("out/new", File, "x")]),
            tar_of(&[("hard", Hard, &format!("{deep}{}/file", &outside[1..])), ("hard", File, "x")]),
            tar_of(&[("hard", Hard, &format!("{outside}/file"))]),
            tar_of(&[("p", Symlink, "/proc/1/root"), ("p/etc/evil-coracle", File, "x")]),
            tar_of(&[("p", Symlink, "/proc/self/cwd"), ("p/evil-coracle", File, "x")]),
            tar_of(&[("hv", Symlink, &outside), ("hv/new", File, "x")]),
        ];
        for (index, attack) in attacks.into_iter().enumerate() {
            // Refused or confined, either is well.
            let _ = put(&root, id, "/tmp", attack.clone());
            let _ = put(&root, id, "/", attack);
            assert_eq!(std::fs::read_to_string(canary.join("file")).expect("read"), "untouched", "attack {index}");
            assert_eq!(std::fs::read_dir(&canary).expect("list").count(), 1, "attack {index}");
            assert!(!std::path::Path::new("/etc/evil-coracle").exists(), "attack {index}");
        }
        // Reading through such links finds the container's own files or none.
        put(&root, id, "/", tar_of(&[("peek", Symlink, &outside), ("up", Symlink, &"../".repeat(40))])).expect("put");
        // The attacks above may have made one of that path inside.
        match root.engine.container_archive_stat(id, "/peek/file", None) {
            Ok(_) => assert_eq!(get(&root, id, "/peek/file")["file"].4, b"x"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound, "{error}"),
        }
        assert!(get(&root, id, "/up/bin/busybox").contains_key("busybox"));
    }
    // Links in a volume, which another container may have made, lead nowhere else either.
    let links = tar_of(&[("abs", Symlink, &outside), ("up", Symlink, &format!("../../../../../../..{outside}"))]);
    put(&root, &created, "/hv", links).expect("put links");
    let other = root.sleeper_with("other-user", host(json!({ "Binds": ["hv:/hv"] })));
    for id in [&created, &other] {
        for path in ["/hv/abs", "/hv/abs/.", "/hv/up", "/hv"] {
            let _ = put(&root, id, path, tar_of(&[("new", File, "x"), ("abs/new", File, "x"), ("up/new", File, "x")]));
            assert_eq!(std::fs::read_dir(&canary).expect("list").count(), 1, "{path}");
        }
        match root.engine.container_archive_stat(id, "/hv/abs/file", None) {
            Ok(_) => assert_ne!(get(&root, id, "/hv/abs/file")["file"].4, b"untouched"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound, "{error}"),
        }
    }
    // A mount is not removed for an entry of its name, nor for one above it; and nothing in it is.
    let nested = root.create("nested", body(&["true"], host(json!({ "Binds": ["keep:/a/b/keep"] }))));
    put(&root, &nested, "/a/b/keep", tar_of(&[("file", File, "kept")])).expect("put");
    for attack in [tar_of(&[("a", File, "x")]), tar_of(&[("a/b", Symlink, "/")]), tar_of(&[("a/b/keep", File, "x")])] {
        let error = put(&root, &nested, "/", attack).expect_err("must be refused");
        assert!(error.message().contains("replace a mount"), "{error}");
        assert_eq!(get(&root, &nested, "/a/b/keep/file")["file"].4, b"kept");
    }
}

/// A container swaps a directory for a link to the host's as fast as it can, while files are put and got through it.
#[test]
fn links_swapped_while_it_runs() {
    let root = Root::new();
    let canary = root.dir.join("canary");
    std::fs::create_dir(&canary).expect("mkdir");
    std::fs::write(canary.join("secret"), "secret").expect("write");
    let outside = canary.display();
    let script = format!(
        "mkdir /a /b; ln -s {outside} /a/link; mkdir /b/link; echo own >/b/link/secret; mkdir /t; mv /b/link /t/x; echo ready; \
         trap 'exit 0' TERM; while :; do mv /t/x /b/y; mv /a/link /t/x; mv /t/x /a/link; mv /b/y /t/x; done"
    );
    let id = root.create("swapper", body(&["sh", "-c", &script], json!({})));
    root.start(&id);
    root.wait_for("the swapper", || root.logs(&id).stdout.starts_with(b"ready"));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for path in ["/t/x", "/t/x/"] {
            let (root, id, stop) = (&root, &id, &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    if let Ok(archive) = root.engine.container_archive_get(id, path, None) {
                        let mut bytes = Vec::new();
                        let _ = archive.write_to(&mut bytes, None);
                        for (name, entry) in listing(&bytes) {
                            assert_ne!(entry.4, b"secret", "{name}");
                        }
                    }
                }
            });
        }
        for _ in 0..300 {
            let _ = put(&root, &id, "/t/x", tar_of(&[("put", File, "x"), ("dir/put", File, "x")]));
            let _ = put(&root, &id, "/t", tar_of(&[("x/put", File, "x")]));
        }
        stop.store(true, Ordering::Relaxed);
    });
    let left: Vec<_> = std::fs::read_dir(&canary).expect("list").flatten().map(|e| e.file_name()).collect();
    assert_eq!(left, ["secret"]);
}

#[test]
fn a_file_that_shrinks_does_not_break_the_archive() {
    let root = Root::new();
    let script = ": >/f; echo ready; trap 'exit 0' TERM; while :; do dd if=/dev/zero of=/f bs=1k count=900 2>/dev/null; : >/f; done";
    let id = root.create("shrinker", body(&["sh", "-c", script], json!({})));
    root.start(&id);
    root.wait_for("the shrinker", || root.logs(&id).stdout.starts_with(b"ready"));
    for _ in 0..50 {
        let _ = get(&root, &id, "/f");
    }
}

#[test]
fn events_of_archives() {
    let root = Root::new();
    let id = root.create("watched", body(&["true"], host(json!({ "Binds": ["wv:/wv"] }))));
    let mut events = root.engine.events(&EventQuery::default()).expect("events");
    let _ = get(&root, &id, "/tmp");
    put(&root, &id, "/tmp", tar_of(&[("x", File, "")])).expect("put");
    let mut bytes = Vec::new();
    root.engine.container_export(&id, &mut bytes, None).expect("export");
    let seen = events_until(&mut events, |event| event.action == "export");
    let expected = ["mount", "archive-path", "unmount", "mount", "extract-to-dir", "unmount", "export"];
    assert_eq!(actions(&seen), expected);
}

/// hosts, hostname and resolv.conf are mounts: a copy has what the container sees, and none is replaced under it.
#[test]
fn the_engine_s_files_in_etc() {
    let root = Root::new();
    let more = json!({ "Hostname": "box", "HostConfig": { "NetworkMode": "none", "ExtraHosts": ["far:10.9.8.7"] } });
    let id = root.sleeper_with("shown", more);
    let tail = json!({ "HostConfig": { "NetworkMode": "container:shown" } });
    let other = root.sleeper_with("beside", tail);
    let content = |id: &str, path: &str| {
        let name = path.rsplit('/').next().expect("a name");
        String::from_utf8(get(&root, id, path)[name].4.clone()).expect("text")
    };
    for file in ["/etc/hosts", "/etc/hostname", "/etc/resolv.conf"] {
        let seen = root.exec(&id, &["cat", file]).stdout;
        assert_eq!(content(&id, file).as_bytes(), seen, "{file}");
        assert_eq!(stat(&root, &id, file).size, seen.len() as i64, "{file}");
        assert_eq!(content(&other, file).as_bytes(), seen, "{file} of a container that shares the network");
    }
    assert!(content(&id, "/etc/hosts").contains("10.9.8.7\tfar"));
    let error = put(&root, &id, "/etc", tar_of(&[("hosts", File, "1.2.3.4 x\n")])).expect_err("it is a mount");
    assert!(error.message().contains("busy"), "{error}");
    put(&root, &id, "/etc", tar_of(&[("other", File, "x")])).expect("what is beside them is the container's");
    root.engine.container_kill(&id, None, Some(&soon())).expect("kill");
    root.engine.container_wait(&id, Some(&soon())).expect("wait");
    assert_eq!(content(&id, "/etc/hostname"), "box\n");
    assert!(names(&get(&root, &id, "/etc")).contains(&"etc/hosts"));

    // A bind of the caller's stands in for one; one that was never started has none yet.
    let own = root.dir.join("own-hosts");
    std::fs::write(&own, "10.0.0.1 mine\n").expect("write");
    let bind = format!("{}:/etc/hosts", own.display());
    let bound = root.sleeper_with("bound", json!({ "HostConfig": { "NetworkMode": "none", "Binds": [bind] } }));
    assert_eq!(content(&bound, "/etc/hosts"), "10.0.0.1 mine\n");
    let created = root.create("new", body(&["true"], json!({})));
    assert_eq!(content(&created, "/etc/hosts"), "");
}
