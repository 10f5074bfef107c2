//! Coming from a real dockerd: `Engine::import_docker`, `coracle import-docker`.

use crate::support::dockerd::{Dockerd, tool};
use crate::support::*;
use coracle::model::*;
use coracle::{Engine, ErrorKind};
use serde_json::json;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const CHANGED: &str = "echo mine > /mine; ln /mine /again; rm -rf /bin/vi /usr; mkdir /usr; echo new > /usr/new; echo data > /v/data; \
                       echo anonymous > /anonymous/file; echo said";

/// A dockerd with an image of three layers, volumes, a stopped container and one that runs.
struct Source {
    dir: PathBuf,
    dockerd: Dockerd,
    id: String,
}

fn source() -> Source {
    let dir = temp_dir();
    let dockerd = Dockerd::start(&dir.join("docker"));
    dockerd.docker(&["load", "-q", "-i", &busybox_archive().display().to_string()]);
    let context = dir.join("context");
    std::fs::create_dir(&context).expect("mkdir");
    let lines = "FROM busybox\nRUN mkdir /made && echo one > /made/one && ln /made/one /made/two && rm -f /bin/vi\nENV A=b\nCMD [\"cat\", \"/made/one\"]\n";
    std::fs::write(context.join("Dockerfile"), lines).expect("write");
    let place = context.display().to_string();
    dockerd.docker(&["build", "-q", "--network", "none", "-t", "made:1", "-t", "localhost:5000/also:2", &place]);
    dockerd.docker(&["volume", "create", "--label", "a=b", "kept"]);
    let words = [
        "create",
        "--name",
        "stopped",
        "--network",
        "none",
        "-e",
        "C=d",
        "-v",
        "kept:/v",
        "-v",
        "/anonymous",
        "made:1",
    ];
    dockerd.docker(&[&words[..], &["sh", "-c", CHANGED]].concat());
    dockerd.docker(&["start", "-a", "stopped"]);
    dockerd.docker(&[
        "run",
        "-d",
        "--name",
        "runs",
        "--stop-timeout",
        "1",
        "--network",
        "none",
        "busybox",
        "sleep",
        "1000",
    ]);
    let id = dockerd.docker(&["inspect", "-f", "{{.Id}}", "made:1"]);
    Source { dir, dockerd, id }
}

fn import(engine: &Engine, how: &ImportDocker) -> coracle::Result<DockerImport> {
    engine.import_docker(how, &mut |_| Ok(()), Some(&soon()))
}

fn of_directory(path: &Path, names: &[&str]) -> ImportDocker {
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    ImportDocker { directory: path.display().to_string(), names, ..ImportDocker::default() }
}

fn reported(report: &DockerImport, kind: &str) -> Vec<(String, bool)> {
    let mut all: Vec<(String, bool)> =
        report.taken.iter().filter(|one| one.kind == kind).map(|one| (one.name.clone(), one.was_here)).collect();
    all.sort();
    all
}

#[test]
fn images_volumes_and_stopped_containers_come_from_the_directory() {
    let Source { dir, dockerd, id } = source();
    let data = dir.join("docker/data");

    // By the socket, while dockerd runs.
    let asked = Root::empty();
    let by_socket = ImportDocker { socket: dir.join("docker/sock").display().to_string(), ..ImportDocker::default() };
    let error = import(&asked.engine, &of_directory(&data, &[])).expect_err("dockerd runs on it");
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    import(&asked.engine, &by_socket).expect("import by the socket");
    assert_eq!(asked.engine.image_inspect("made:1").expect("the image").id, id);
    assert_eq!(asked.engine.image_inspect("localhost:5000/also:2").expect("its other name").id, id);
    let again = import(&asked.engine, &by_socket).expect("again");
    assert!(reported(&again, "image").iter().all(|(_, was_here)| *was_here), "{again:?}");

    // dockerd ends; the document of one container says that it runs, as after a dockerd that was killed.
    let runs = dockerd.docker(&["inspect", "-f", "{{.Id}}", "runs"]);
    let stopped = dockerd.docker(&["inspect", "-f", "{{.Id}}", "stopped"]);
    let pid: i32 = std::fs::read_to_string(dir.join("docker/pid")).expect("its pid").trim().parse().expect("a number");
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGTERM).expect("end dockerd");
    wait_for("its end", || !Path::new(&format!("/proc/{pid}")).exists() || is_zombie(pid));
    let document = data.join("containers").join(runs).join("config.v2.json");
    let text = std::fs::read_to_string(&document).expect("a document");
    assert!(text.contains("\"Running\":false"), "{text}");
    std::fs::write(&document, text.replace("\"Running\":false", "\"Running\":true")).expect("write it");

    let root = Root::empty();
    let report = import(&root.engine, &of_directory(&data, &[])).expect("import the directory");
    assert_eq!(root.engine.image_inspect("made:1").expect("the image").id, id);
    assert_eq!(root.engine.image_inspect("localhost:5000/also:2").expect("its other name").id, id);
    assert_eq!(root.engine.verify(&VerifyImages::default(), &mut |_| Ok(()), None).expect("verify").damage, []);
    let left: Vec<(&str, &str)> = report.left.iter().map(|left| (left.name.as_str(), left.reason.as_str())).collect();
    assert!(left.iter().any(|(name, reason)| *name == "runs" && reason.contains("stop it first")), "{left:?}");
    assert!(left.iter().any(|(name, reason)| *name == "stopped" && reason.contains("log")), "{left:?}");
    assert_eq!(left.len(), 2, "{left:?}");
    let volume = root.engine.volume_inspect("kept").expect("the volume");
    assert_eq!(volume.labels.expect("labels")["a"], "b");
    // The container has its files, and continues where it was.
    let detail = root.inspect("stopped");
    assert!(detail.config.env.unwrap_or_default().contains(&"C=d".to_owned()));
    root.start("stopped");
    assert_eq!(root.wait("stopped"), 0, "{:?}", root.logs("stopped"));
    let upper = root.dir.join("root/containers").join(detail.id).join("upper");
    assert_eq!(std::fs::read_to_string(upper.join("mine")).expect("its file"), "mine\n");
    assert_eq!(std::fs::read_to_string(Path::new(&volume.mountpoint).join("data")).expect("its volume"), "data\n");
    let words = ["cat", "/made/one", "/made/two"];
    assert_eq!(root.run(&words, json!({ "Image": "made:1" }), b"").ok(), "one\none");

    // Nothing twice; and one by its name.
    let again = import(&root.engine, &of_directory(&data, &[])).expect("again");
    assert!(again.taken.iter().all(|one| one.was_here), "{again:?}");
    let one = Root::empty();
    let report = import(&one.engine, &of_directory(&data, &["stopped"])).expect("one container");
    assert_eq!(
        (reported(&report, "container"), reported(&report, "image").len()),
        (vec![("stopped".to_owned(), false)], 1)
    );
    assert_eq!(one.engine.container_list(&ListContainers { all: true, ..Default::default() }).expect("list").len(), 1);
    let error = import(&one.engine, &of_directory(&data, &["nosuch"])).expect_err("no such");
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");

    // A layer that was changed is found by its digest.
    let text =
        "for one in \"$0\"/overlay2/*/diff/made/one; do printf X | dd of=\"$one\" conv=notrunc status=none; done";
    tool("sh", &["-c", text, &data.display().to_string()]);
    let damaged = Root::empty();
    let report = import(&damaged.engine, &of_directory(&data, &["made:1"])).expect("a report");
    let left: Vec<(&str, bool)> =
        report.left.iter().map(|left| (left.kind.as_str(), left.reason.contains("it was changed"))).collect();
    assert_eq!((report.taken.len(), left), (0, vec![("image", true)]), "{report:?}");
    let report = import(&damaged.engine, &of_directory(&data, &["runs"])).expect("a report");
    assert_eq!((report.taken.len(), report.left[0].name.as_str()), (0, "runs"), "{report:?}");

    // A volume's name that is a path would become a bind of the host's directory.
    let document = data.join("containers").join(&stopped).join("config.v2.json");
    let text = std::fs::read_to_string(&document).expect("a document");
    assert!(text.contains("\"Name\":\"kept\""), "{text}");
    std::fs::write(&document, text.replace("\"Name\":\"kept\"", "\"Name\":\"/etc\"")).expect("write it");
    let report = import(&damaged.engine, &of_directory(&data, &["stopped"])).expect("a report");
    let left: Vec<(&str, bool)> =
        report.left.iter().map(|left| (left.name.as_str(), left.reason.contains("no volume may have"))).collect();
    assert_eq!((report.taken.len(), left), (0, vec![("stopped", true)]), "{report:?}");
    drop(dockerd);
    let _ = std::fs::remove_dir_all(&dir);
}

/// The changes of a container, as dockerd numbers their kinds.
fn changes(engine: &Engine, id: &str) -> Vec<(u8, String)> {
    let all = engine.container_changes(id).expect("changes");
    let mut all: Vec<(u8, String)> = all.into_iter().map(|change| (change.kind, change.path)).collect();
    all.sort();
    all
}

/// Prints the files that a container sees: kinds, modes, owners, links, times. Directories are printed without their number of
/// links, which depends on the layers of the overlay.
const TREE: &str = "cd / && find . -xdev \\( -path ./proc -o -path ./sys -o -path ./dev \\) -prune -o -print | sort | \
                    while read -r f; do if [ -d \"$f\" ]; then stat -c '%n %F %a %u:%g %Y' \"$f\"; \
                    else stat -c '%N %F %a %u:%g %h %s %Y' \"$f\"; fi; done; true";

#[test]
fn images_volumes_and_stopped_containers_come_by_the_socket() {
    let Source { dir, dockerd, id } = source();
    let changed = "mkdir -p /new/deep && chmod 1770 /new && chown 7:8 /new/deep && echo secret > /new/deep/f && chmod 4711 /new/deep/f && \
                   chown 5:6 /new/deep/f && chmod 4711 /new/deep/f && ln -s /nowhere /new/link && mkfifo /new/pipe && ln /etc/passwd /etc/again && \
                   rm /bin/ls && rm -rf /home && echo x > /home && touch -d @1000000000 /new/deep/f /new/deep && head -c 3000000 /dev/zero > /new/large; true";
    dockerd.docker(&["run", "--name", "files", "--network", "none", "busybox", "sh", "-c", changed]);
    dockerd.docker(&["volume", "create", "alone"]);
    dockerd.docker(&["volume", "create", "busy"]);
    let sleep = ["sleep", "1000"];
    let words =
        ["run", "-d", "--name", "writes", "--stop-timeout", "1", "--network", "none", "-v", "busy:/b", "busybox"];
    dockerd.docker(&[&words[..], &sleep].concat());
    let diff = |name: &str| {
        let text = dockerd.docker(&["diff", name]);
        let kind = |letter: &str| ["C", "A", "D"].iter().position(|one| *one == letter).expect("a kind") as u8;
        let mut all: Vec<(u8, String)> = text
            .lines()
            .map(|line| line.split_once(' ').expect("a kind and a path"))
            .map(|(letter, path)| (kind(letter), path.to_owned()))
            .collect();
        all.sort();
        all
    };
    let by_socket = |names: &[&str]| ImportDocker {
        socket: dir.join("docker/sock").display().to_string(),
        ..of_directory(Path::new(""), names)
    };
    let root = Root::empty();
    let report = import(&root.engine, &by_socket(&[])).expect("import by the socket");
    assert_eq!(root.engine.image_inspect("made:1").expect("the image").id, id);
    let names = |kind: &str| reported(&report, kind).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    assert_eq!(names("container"), ["files", "stopped"]);
    let volumes = names("volume");
    assert!(volumes.contains(&"kept".to_owned()) && volumes.len() == 2, "{volumes:?}");
    let left: Vec<(&str, &str)> = report.left.iter().map(|left| (left.name.as_str(), left.reason.as_str())).collect();
    for (name, reason) in [
        ("runs", "stop it first"),
        ("writes", "stop it first"),
        ("busy", "container writes runs, and may write to it"),
        ("alone", "no container of dockerd's mounts it"),
    ] {
        assert!(left.iter().any(|(one, why)| *one == name && why.contains(reason)), "{name}: {left:?}");
    }
    assert_eq!(root.engine.volume_inspect("kept").expect("the volume").labels.expect("labels")["a"], "b");
    // The containers changed here what they had changed there.
    for name in ["stopped", "files"] {
        assert_eq!(changes(&root.engine, name), diff(name), "{name}");
        assert!(root.engine.container_inspect(name, false).expect("inspect").state.started_at.starts_with("0001"));
    }
    // And see the same: an image of each has the same tree.
    for name in ["stopped", "files"] {
        dockerd.docker(&["commit", name, &format!("{name}:seen")]);
        let there = dockerd.docker(&["run", "--rm", "--network", "none", &format!("{name}:seen"), "sh", "-c", TREE]);
        let commit = CommitContainer { repo: name.into(), tag: "seen".into(), ..CommitContainer::default() };
        root.engine.container_commit(name, &commit, None).expect("commit");
        let here = root.run(&["sh", "-c", TREE], json!({ "Image": format!("{name}:seen") }), b"").ok();
        let own = |text: &str| -> BTreeSet<String> {
            let of_engine = [
                "etc/hosts",
                "etc/hostname",
                "etc/resolv.conf",
                ".dockerenv",
                "etc/mtab",
                "etc directory",
                ". directory",
            ];
            // A file of the image that was copied without change is not a change to dockerd's commit.
            let of_commit = ["etc/again", "etc/passwd"];
            text.lines()
                .filter(|line| !of_engine.iter().chain(&of_commit).any(|own| line.contains(own)))
                .map(str::to_owned)
                .collect()
        };
        let (here, there) = (own(&here), own(&there));
        assert!(
            here.len() > 200 && here == there,
            "{name}: {:?}",
            here.symmetric_difference(&there).collect::<Vec<_>>()
        );
    }
    let detail = root.inspect("stopped");
    assert!(detail.config.env.clone().unwrap_or_default().contains(&"C=d".to_owned()));
    let anonymous = detail.mounts.iter().find(|mount| mount.destination == "/anonymous").expect("its volume");
    let volume = root.engine.volume_inspect(&anonymous.name).expect("the volume");
    assert_eq!(std::fs::read_to_string(Path::new(&volume.mountpoint).join("file")).expect("its file"), "anonymous\n");
    root.start("stopped");
    assert_eq!(root.wait("stopped"), 0, "{:?}", root.logs("stopped"));
    // Nothing twice; one by its name; nothing at all where a name means nothing.
    let again = import(&root.engine, &by_socket(&[])).expect("again");
    let mut before = again.taken.iter().filter(|one| !one.name.ends_with(":seen"));
    assert!(before.all(|one| one.was_here), "{again:?}");
    let one = Root::empty();
    let report = import(&one.engine, &by_socket(&["stopped"])).expect("one container");
    assert_eq!(
        (reported(&report, "container"), reported(&report, "image").len()),
        (vec![("stopped".to_owned(), false)], 1)
    );
    assert_eq!(reported(&report, "volume").len(), 2);
    let empty = Root::empty();
    let error = import(&empty.engine, &by_socket(&["stopped", "nosuch"])).expect_err("no such");
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    assert!(empty.engine.image_list(&ListImages::default()).expect("list").is_empty());
    drop(dockerd);
    let _ = std::fs::remove_dir_all(&dir);
}

fn is_zombie(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") Z"))
}
