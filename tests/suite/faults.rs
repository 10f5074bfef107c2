//! The command `coracle` killed before each of its system calls, or told that one of them failed: the next open finds a
//! consistent engine, nothing is left over, and the same work can be done again. Monitors are told so, too.
//!
//! A run takes some points of each operation, of refusals one for each kind of file. With
//! `CORACLE_TORTURE` set in the environment it takes all: killed, each of its system calls; refused, up to [`OFTEN`] of one
//! call on one kind of file.

use crate::support::registry::Registry;
use crate::support::*;
use coracle::model::*;
use coracle::{Context, Engine};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A system call of a program: its name, and the how manieth of that name it is in its thread.
#[derive(Clone, Debug)]
pub struct Point {
    pub call: String,
    count: usize,
    /// The kind of file that it is about.
    place: Option<&'static str>,
}

/// How many of one call on one kind of file are refused, at the most.
const OFTEN: usize = 12;

/// Kinds of files, by a part of their paths.
const PLACES: &[(&str, &str)] = &[
    ("/root/coracle.db", "database"),
    ("/run/events", "journal"),
    ("/states", "state records"),
    ("/root/alive", "locks"),
    ("/run/busy", "locks"),
    ("/run/making", "locks"),
    ("/root/tmp", "staging"),
    ("/root/layers", "layers"),
    ("/root/containers", "containers' files"),
    ("/root/volumes", "volumes"),
    ("/run/c", "run directories"),
    ("/run/x", "exec records"),
    ("/sys/fs/cgroup", "control groups"),
];

/// An operation, its object, and the check that it can be repeated.
pub struct Operation {
    pub words: &'static [&'static str],
    /// Puts the root in the state that the operation starts from.
    pub prepare: fn(&Root),
    /// Does it for good: it holds whether the killed program had finished or not.
    pub finish: fn(&Root),
}

impl Operation {
    /// The operation's threads are traced as well: nothing that it starts outlives it.
    fn threads(&self) -> bool {
        matches!(self.words[0], "load" | "pull" | "commit" | "cp" | "volume" | "rmi" | "verify")
    }
}

const LOAD: Operation = Operation {
    words: &["load", "-i", "ARCHIVE"],
    prepare: |root| {
        let _ = root.engine.image_remove(IMAGE, RemoveImage { force: true, ..RemoveImage::default() });
    },
    finish: |root| root.load(&busybox_archive()),
};

const PULL: Operation = Operation {
    words: &["pull", "-q", "REMOTE"],
    prepare: |root| {
        for name in [IMAGE, remote_name(root).as_str()] {
            let _ = root.engine.image_remove(name, RemoveImage { force: true, ..RemoveImage::default() });
        }
    },
    finish: |root| {
        let request = PullImage { name: remote_name(root), ..PullImage::default() };
        let pull = || root.engine.image_pull_tags(&request, &mut |_| Ok(()), Some(&soon())).expect("pull again");
        pull();
        if !names(&root.dir.join("root/tmp")).is_empty() {
            // A part that could not be removed is removed with the next download of its layer.
            let force = RemoveImage { force: true, ..RemoveImage::default() };
            root.engine.image_remove(&request.name, force).expect("remove");
            pull();
        }
        assert_eq!(names(&root.dir.join("root/tmp")), BTreeSet::new(), "a part is left");
    },
};

/// The registry that an operation wants, with an image in it.
fn registry(root: &Root, operation: &Operation) -> Option<Registry> {
    let wanted = operation.words.contains(&"REMOTE");
    wanted.then(|| {
        let registry = Registry::plain(&root.dir.join("registry"));
        let name = format!("{}/team/box:1", registry.host());
        std::fs::write(root.dir.join("remote"), &name).expect("write");
        root.engine.image_tag(IMAGE, &name).expect("tag");
        let request = PushImage { name, ..PushImage::default() };
        root.engine.image_push_tags(&request, &mut |_| Ok(()), Some(&soon())).expect("push");
        registry
    })
}

fn remote_name(root: &Root) -> String {
    std::fs::read_to_string(root.dir.join("remote")).expect("the name of the image in the registry")
}

const BUILD: Operation = Operation {
    words: &["build", "-q", "--no-cache", "--network", "none", "-t", "made:1", "CONTEXT"],
    prepare: |root| {
        let _ = root.engine.image_remove("made:1", RemoveImage { force: true, ..RemoveImage::default() });
        let context = root.dir.join("context");
        std::fs::create_dir_all(&context).expect("mkdir");
        let file = "FROM busybox\nCOPY f /f\nRUN cat /f > /g\nLABEL a=b\n";
        std::fs::write(context.join("Dockerfile"), file).expect("write");
        std::fs::write(context.join("f"), "content").expect("write");
    },
    finish: |root| {
        let context = root.dir.join("context");
        let how = BuildImage { t: vec!["made:1".into()], networkmode: "none".into(), ..BuildImage::default() };
        let built = root.engine.image_build(&how, Context::Directory(&context), &mut |_| Ok(()), Some(&soon()));
        built.expect("build again");
        let report = root.engine.verify(&VerifyImages::default(), &mut |_| Ok(()), Some(&soon())).expect("verify");
        assert_eq!(report.damage, []);
    },
};

const CREATE: Operation = Operation {
    words: &["create", "--name", "target", "--network", "none", "-v", "/tmp:/mnt:ro", IMAGE, "sleep", "1000"],
    prepare: |_| {},
    finish: |root| {
        if root.engine.container_inspect("target", false).is_err() {
            create(root);
        }
        root.start("target");
    },
};

const START: Operation =
    Operation { words: &["start", "target"], prepare: create, finish: |root| root.start("target") };

const EXEC: Operation = Operation {
    words: &["exec", "target", "true"],
    prepare: running,
    finish: |root| {
        assert_eq!(root.status("target"), "running", "the container did not survive");
        assert_eq!(root.exec("target", &["echo", "again"]).ok(), "again");
    },
};

const STOP: Operation = Operation {
    words: &["stop", "-t", "5", "target"],
    prepare: running,
    finish: |root| {
        root.engine.container_stop("target", Some(5000), Some(&soon())).expect("stop again");
        assert_eq!(root.status("target"), "exited");
    },
};

const REMOVE: Operation = Operation { words: &["rm", "-f", "target"], prepare: running, finish: |_| {} };

const FORCE_ALL: RemoveContainer = RemoveContainer { force: true, volumes: true, link: false };

/// With an anonymous volume.
const REMOVE_ALL: Operation = Operation {
    words: &["rm", "-f", "-v", "target"],
    prepare: |root| {
        let script = "trap 'exit 0' TERM; while :; do sleep 0.05; done";
        root.create("target", body(&["sh", "-c", script], json!({ "Volumes": { "/unnamed": {} } })));
        root.start("target");
    },
    finish: |root| {
        if root.engine.container_inspect("target", false).is_ok() {
            root.engine.container_remove("target", FORCE_ALL, Some(&soon())).expect("remove again");
        }
    },
};

const UNTAG: Operation = Operation {
    words: &["rmi", IMAGE],
    prepare: |root| {
        if root.engine.image_inspect(IMAGE).is_err() {
            root.load(&busybox_archive());
        }
    },
    finish: |root| root.load(&busybox_archive()),
};

const REPAIR: Operation = Operation {
    words: &["verify", "--repair", "-q"],
    prepare: |root| {
        for layer in names(&root.dir.join("root/layers")) {
            let tree = root.dir.join("root/layers").join(layer).join("diff");
            std::fs::set_permissions(tree, std::fs::Permissions::from_mode(0o711)).expect("chmod");
        }
    },
    finish: |root| {
        let verify = |repair: bool| {
            let request = VerifyImages { repair, ..VerifyImages::default() };
            root.engine.verify(&request, &mut |_| Ok(()), Some(&soon())).expect("verify").damage
        };
        let left = verify(true);
        // Damage to a mode alone needs no registry for its repair: it is never lost on the way.
        assert!(left.iter().all(|damage| damage.repaired), "{left:?}");
        assert_eq!(verify(false), []);
    },
};

const COMMIT: Operation = Operation {
    words: &["commit", "target", "made:1"],
    prepare: |root| {
        let _ = root.engine.image_remove("made:1", RemoveImage { force: true, ..RemoveImage::default() });
        changed(root);
    },
    finish: |root| {
        root.engine.container_commit("target", &CommitContainer::default(), Some(&soon())).expect("commit again");
    },
};

const COPY: Operation =
    Operation { words: &["cp", "ARCHIVE", "target:/new"], prepare: changed, finish: |root| root.start("target") };

const VOLUME: Operation = Operation {
    words: &["volume", "create", "made"],
    prepare: |root| drop(root.engine.volume_remove("made")),
    finish: |root| {
        let named = CreateVolume { name: "made".into(), ..CreateVolume::default() };
        root.engine.volume_create(&named).expect("create it again");
        root.engine.volume_remove("made").expect("remove it");
    },
};

/// A container that does not run, with a file of its own.
fn changed(root: &Root) {
    create(root);
    let tar = archive::Tar::new().file("f", &[7; 100_000]).end();
    let put = root.engine.container_archive_put("target", "/", &mut &tar[..], PutArchive::default(), Some(&soon()));
    put.expect("a file in it");
}

fn create(root: &Root) {
    let script = "trap 'exit 0' TERM; while :; do sleep 0.05; done";
    root.create("target", body(&["sh", "-c", script], json!({})));
}

fn running(root: &Root) {
    create(root);
    root.start("target");
}

#[test]
fn killed_while_it_loads() {
    killed(&LOAD);
}

#[test]
fn killed_while_it_pulls() {
    killed(&PULL);
}

#[test]
fn killed_while_it_builds() {
    killed(&BUILD);
}

#[test]
fn killed_while_it_commits() {
    killed(&COMMIT);
}

#[test]
fn killed_while_it_copies() {
    killed(&COPY);
}

#[test]
fn killed_while_it_creates() {
    killed(&CREATE);
}

#[test]
fn killed_while_it_starts() {
    killed(&START);
}

#[test]
fn killed_while_it_execs() {
    killed(&EXEC);
}

#[test]
fn killed_while_it_stops() {
    killed(&STOP);
}

#[test]
fn killed_while_it_removes() {
    killed(&REMOVE);
}

/// At the moments when layers move.
/// The next open ends what the killed program began: the volume goes, and each end is told once.
#[test]
fn killed_while_it_removes_a_container_with_its_volume() {
    let root = Root::new();
    killed_on(&root, &REMOVE_ALL, 40, &|what| {
        let volumes = root.engine.volume_list(&ListVolumes::default()).expect("volumes").volumes;
        assert_eq!(volumes, [], "{what}: volumes");
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a clock").as_nanos();
        let until_ns = Some(i64::try_from(now).expect("a time"));
        let query = EventQuery { since_ns: Some(0), until_ns, ..EventQuery::default() };
        let mut events = root.engine.events(&query).expect("events");
        let mut ends: BTreeMap<(String, String), usize> = BTreeMap::new();
        while let Some((_, event)) = events.next(None, None).expect("an event") {
            let key = (event.kind, event.actor.id);
            match event.action.as_str() {
                "create" if key.0 != "network" => drop(ends.insert(key, 0)),
                "destroy" => *ends.entry(key).or_default() += 1,
                _ => {}
            }
        }
        assert!(ends.len() > 1 && ends.values().all(|count| *count == 1), "{what}: {ends:?}");
    });
}

#[test]
fn killed_while_it_repairs() {
    let root = Root::new();
    let moves: Vec<Point> = points(&root, &REPAIR).into_iter().filter(|point| point.call == "renameat2").collect();
    assert!(!moves.is_empty());
    for point in moves {
        let when = format!("inject=renameat2:signal=KILL:when={}", point.count);
        let output = run(&root, &REPAIR, &point.call, &when);
        assert_eq!(output.status.signal(), Some(9), "{point:?}");
        after(&root, &REPAIR, &format!("killed at {point:?}"));
    }
}

#[test]
fn killed_while_it_removes_an_image() {
    killed(&UNTAG);
}

/// The starting program cannot receive its monitor's answer, not once: it is told all the same how the start went.
#[test]
fn told_nothing_of_its_start() {
    let root = Root::new();
    for call in ["recvmsg:error=EMFILE", "recvmsg:error=ENOMEM", "poll:error=ENOMEM"] {
        let output = run(&root, &START, "all", &format!("inject={call}:when=1+"));
        assert!(told_to(&root, call.split(':').next().unwrap_or_default()), "{call}: not refused");
        assert!(output.status.success(), "{call}: {}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(root.status("target"), "running", "{call}");
        after(&root, &START, call);
        let broken = Operation { prepare: |root| drop(root.create("target", body(&["/nope"], json!({})))), ..START };
        let output = run(&root, &broken, "all", &format!("inject={call}:when=1+"));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("\"/nope\": stat /nope: no such file or directory"), "{call}: {said}");
        let state = root.inspect("target").state;
        assert_eq!((state.status.as_str(), state.exit_code), ("created", 127), "{call}");
        root.engine.container_remove("target", RemoveContainer::default(), Some(&soon())).expect("remove");
    }
}

/// A start whose program was killed while it waited goes on. A program that starts or removes the container meanwhile,
/// when its monitor may not have written a record yet, finds it started.
#[test]
fn started_by_a_program_that_was_killed() {
    let root = Root::new();
    let all = points(&root, &START);
    let wait = all.iter().rev().find(|point| point.call == "poll").expect("it waits for its monitor");
    for round in 0..12 {
        run(&root, &START, "poll", &format!("inject=poll:signal=KILL:when={}", wait.count));
        if round % 2 == 0 {
            root.start("target");
            assert_eq!(root.status("target"), "running");
        }
        let force = RemoveContainer { force: true, ..RemoveContainer::default() };
        root.engine.container_remove("target", force, Some(&soon())).expect("remove");
        wait_for("its monitor to go", || monitors(&root).is_empty());
    }
}

#[test]
fn told_of_a_full_disk() {
    let writes = [
        "write",
        "pwrite64",
        "openat",
        "openat2",
        "mkdirat",
        "mkdir",
        "ftruncate",
        "renameat2",
        "renameat",
        "rename",
        "fallocate",
        "symlinkat",
        "symlink",
        "linkat",
        "link",
        "mknodat",
        "setxattr",
        "fsetxattr",
        "copy_file_range",
    ];
    every_write_path("ENOSPC", &writes);
}

#[test]
fn told_of_an_input_output_error() {
    let calls = [
        "write",
        "pwrite64",
        "read",
        "pread64",
        "fsync",
        "fdatasync",
        "syncfs",
        "ftruncate",
        "renameat2",
        "unlinkat",
        "unlink",
        "mkdirat",
        "openat",
        "copy_file_range",
    ];
    every_write_path("EIO", &calls);
}

#[test]
fn told_of_too_few_descriptors_and_too_little_memory() {
    let opening = [
        "openat",
        "openat2",
        "open",
        "socket",
        "socketpair",
        "pipe2",
        "memfd_create",
        "fcntl",
        "eventfd2",
        "epoll_create1",
        "pidfd_open",
        "open_tree",
        "fsopen",
        "fsmount",
        "timerfd_create",
        "inotify_init1",
        "recvmsg",
    ];
    every_write_path("EMFILE", &opening);
    let making = [
        "mmap",
        "clone",
        "clone3",
        "mount",
        "fsmount",
        "move_mount",
        "openat",
        "mkdir",
        "mkdirat",
        "write",
        "pwrite64",
        "sendmsg",
    ];
    every_write_path("ENOMEM", &making);
}

#[test]
fn told_of_a_read_only_file_system() {
    let calls = [
        "openat",
        "openat2",
        "mkdirat",
        "mkdir",
        "unlinkat",
        "unlink",
        "rmdir",
        "write",
        "pwrite64",
        "renameat2",
        "renameat",
        "rename",
        "ftruncate",
        "symlinkat",
        "symlink",
        "fchmod",
        "fchmodat",
        "fchown",
        "fchownat",
        "utimensat",
    ];
    every_write_path("EROFS", &calls);
}

/// Refuses these calls; all kinds of files that the library writes must be among those where one was.
fn every_write_path(error: &str, calls: &[&str]) {
    let all = [&LOAD, &VOLUME, &CREATE, &START, &EXEC, &PULL, &BUILD, &COMMIT, &COPY, &STOP, &REMOVE];
    let reached = refused(error, calls, if torture() { &all } else { &all[..5] });
    let missed: Vec<&str> = PLACES.iter().map(|(_, place)| *place).filter(|place| !reached.contains(place)).collect();
    assert_eq!(missed, Vec::<&str>::new(), "{error}: not refused");
}

/// Kills the operation before each of the points chosen.
fn killed(operation: &Operation) {
    killed_on(&Root::new(), operation, 14, &|_| {});
}

/// Like [`killed`], on an existing root, before some of the system calls; `look` sees what is left once the container
/// is gone.
pub fn killed_on(root: &Root, operation: &Operation, some: usize, look: &dyn Fn(&str)) {
    killed_at(root, operation, &|all| chosen(all, some), look);
}

/// Like [`killed`], at the points that `pick` selects.
pub fn killed_at(root: &Root, operation: &Operation, pick: &dyn Fn(Vec<Point>) -> Vec<Point>, look: &dyn Fn(&str)) {
    let _registry = registry(root, operation);
    let all = points(root, operation);
    assert!(all.len() > 100, "only {} system calls seen", all.len());
    let picked = pick(all);
    println!("{:?}: to be killed at {} points", operation.words[0], picked.len());
    for point in picked {
        let what = format!("{:?} killed at {point:?}", operation.words[0]);
        let _named = Named(what.clone());
        let inject = format!("inject={}:signal=KILL:when={}", point.call, point.count);
        let output = run(root, operation, &point.call, &inject);
        let ended = output.status.signal() == Some(9) || output.status.code() == Some(0);
        assert!(ended, "{point:?}: {}", String::from_utf8_lossy(&output.stderr));
        after(root, operation, &what);
        look(&what);
    }
}

/// Lets system calls of the operations fail, one at a time. Answers the kinds of files where one failed.
fn refused(error: &str, calls: &[&str], operations: &[&Operation]) -> BTreeSet<&'static str> {
    let mut times: BTreeMap<(String, Option<&'static str>), usize> = BTreeMap::new();
    for operation in operations {
        let root = Root::new();
        let _registry = registry(&root, operation);
        if torture() {
            times.values_mut().for_each(|times| *times = 0);
        }
        // Before it comes to the root, a program is being loaded.
        let points = points(&root, operation).into_iter().skip_while(|point| point.place.is_none());
        let mut tried = 0;
        for point in points.filter(|point| calls.contains(&point.call.as_str())) {
            let call = if torture() { point.call.clone() } else { String::new() };
            let times = times.entry((call, point.place)).or_default();
            if *times >= if torture() { OFTEN } else { 1 } {
                continue;
            }
            *times += 1;
            tried += 1;
            let what = format!("{:?} with {error} at {point:?}", operation.words[0]);
            let _named = Named(what.clone());
            let inject = format!("inject={}:error={error}:when={}", point.call, point.count);
            let output = run(&root, operation, &point.call, &inject);
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.code().is_some_and(|code| code != 101), "{what}: {:?}: {said}", output.status);
            let silenced = || told_to(&root, "write(2<");
            assert!(output.status.success() || !said.trim().is_empty() || silenced(), "{what}: failed without a word");
            after(&root, operation, &what);
        }
        println!("{:?}: {tried} system calls refused with {error}", operation.words[0]);
    }
    times.into_keys().filter_map(|(_, place)| place).collect()
}

/// The operation under test. A test that fails meanwhile, wherever it does, says it.
struct Named(String);

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("this was: {}", self.0);
        }
    }
}

/// Whether the call that was refused begins so.
fn told_to(root: &Root, call: &str) -> bool {
    let trace = std::fs::read(root.dir.join("trace")).expect("read the trace");
    String::from_utf8_lossy(&trace).lines().any(|line| line.contains(call) && line.contains("INJECTED"))
}

fn torture() -> bool {
    std::env::var_os("CORACLE_TORTURE").is_some()
}

/// Looks at what is there, does the work again, and removes all.
fn after(root: &Root, operation: &Operation, what: &str) {
    let fresh = Engine::open_with(options_at(&root.dir)).unwrap_or_else(|e| panic!("{what}: open: {e}"));
    consistent(root, &fresh, what);
    (operation.finish)(root);
    consistent(root, &fresh, what);
    let force = RemoveContainer { force: true, ..RemoveContainer::default() };
    if fresh.container_inspect("target", false).is_ok() {
        fresh.container_remove("target", force, Some(&soon())).unwrap_or_else(|e| panic!("{what}: remove: {e}"));
    }
    consistent(root, &fresh, what);
}

/// The engine's answers, the files and the kernel agree.
fn consistent(root: &Root, engine: &Engine, what: &str) {
    let all = ListContainers { all: true, ..ListContainers::default() };
    let list = engine.container_list(&all).unwrap_or_else(|e| panic!("{what}: list: {e}"));
    let ids: BTreeSet<String> = list.iter().map(|container| container.id.clone()).collect();
    // A start that was under way goes on without the one who asked for it.
    wait_for("monitors and states to agree", || monitors(root).len() == live(engine, &ids, what).len());
    let live = live(engine, &ids, what);
    assert_eq!(names(&root.dir.join("root/containers")), ids, "{what}: directories of containers");
    let ran = names(&root.dir.join("run/c"));
    assert!(ran.is_subset(&ids), "{what}: run directories {ran:?} of {ids:?}");
    // A download that was cut off is gone on with; what mounts of stopped containers need below stays.
    let staged =
        names(&root.dir.join("root/tmp")).into_iter().filter(|name| !name.starts_with("part-") && name != "empty");
    assert_eq!(staged.count(), 0, "{what}: staging");
    for image in engine.image_list(&ListImages { all: true, ..ListImages::default() }).expect("list images") {
        engine.image_inspect(&image.id).unwrap_or_else(|e| panic!("{what}: image {}: {e}", image.id));
    }
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("read mountinfo");
    let here = root.dir.to_string_lossy();
    assert!(!mounts.lines().any(|line| line.contains(&*here)), "{what}: mounts are left");
    wait_for("cgroups without a container to go", || cgroups(&ids).is_subset(&live));
}

/// The containers that run. Those are the ones that have a process.
fn live(engine: &Engine, ids: &BTreeSet<String>, what: &str) -> BTreeSet<String> {
    let state = |id: &str| engine.container_inspect(id, false).unwrap_or_else(|e| panic!("{what}: {e}")).state;
    let has_process =
        |state: &ContainerState| state.pid > 0 && Path::new(&format!("/proc/{}/status", state.pid)).exists();
    let runs = |id: &&String| {
        let seen = state(id);
        // The process may be ending just now: then it is said as soon as its monitor has seen it.
        if seen.running && !has_process(&seen) {
            wait_for("the end of a process to be recorded", || state(id).pid != seen.pid);
        }
        let seen = state(id);
        seen.running && has_process(&seen)
    };
    ids.iter().filter(runs).cloned().collect()
}

/// Names in a directory; none where it is not.
fn names(dir: &Path) -> BTreeSet<String> {
    let Ok(entries) = std::fs::read_dir(dir) else { return BTreeSet::new() };
    entries.map(|entry| entry.expect("read a directory").file_name().to_string_lossy().into_owned()).collect()
}

/// Pids of monitors whose working directory is in this root's run directory.
fn monitors(root: &Root) -> Vec<String> {
    let run = root.dir.join("run");
    let pids = names(Path::new("/proc")).into_iter().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
    pids.filter(|pid| {
        let comm = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let dir = std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
        comm.starts_with("coracle-monitor") && dir.starts_with(&run)
    })
    .collect()
}

/// Which of the containers have a cgroup in any hierarchy.
fn cgroups(ids: &BTreeSet<String>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut tops = vec![Path::new("/sys/fs/cgroup").to_path_buf()];
    tops.extend(names(Path::new("/sys/fs/cgroup")).iter().map(|name| Path::new("/sys/fs/cgroup").join(name)));
    for top in tops {
        found.extend(names(&top.join("coracle")).intersection(ids).cloned());
    }
    found
}

/// The system calls that the operation makes when nothing goes wrong.
fn points(root: &Root, operation: &Operation) -> Vec<Point> {
    let output = run(root, operation, "all", "signal=none");
    assert!(output.status.success(), "{:?}: {}", operation.words, String::from_utf8_lossy(&output.stderr));
    let trace = std::fs::read(root.dir.join("trace")).expect("read the trace");
    after(root, operation, "traced");
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut seen: BTreeSet<(&str, usize)> = BTreeSet::new();
    let mut points = Vec::new();
    let trace = String::from_utf8_lossy(&trace);
    for line in trace.lines() {
        // If threads are traced, each line begins with the thread's number.
        let (thread, line) = line.split_once(' ').filter(|_| operation.threads()).unwrap_or(("", line));
        let Some((call, rest)) = line.trim_start().split_once('(') else { continue };
        if call == "execve" || !call.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            continue;
        }
        let count = counts.entry((thread, call)).or_default();
        *count += 1;
        let place = PLACES.iter().find(|(part, _)| rest.contains(part)).map(|(_, place)| *place);
        // A call of another thread with an equal number is the same point.
        if seen.insert((call, *count)) {
            points.push(Point { call: call.to_owned(), count: *count, place });
        }
    }
    points
}

/// Some of the points, evenly; when torture was asked for, all.
pub fn chosen(all: Vec<Point>, some: usize) -> Vec<Point> {
    if torture() {
        return all;
    }
    let step = all.len().div_ceil(some).max(1);
    all.into_iter().skip(step / 2).step_by(step).collect()
}

/// Runs the operation under strace with one more expression.
fn run(root: &Root, operation: &Operation, trace: &str, expression: &str) -> Output {
    (operation.prepare)(root);
    let archive = busybox_archive();
    let mut command = Command::new("strace");
    command.args(["-y", "-s", "0", "-o"]).arg(root.dir.join("trace"));
    command.args(["-e", &format!("trace={trace}"), "-e", expression]).args(operation.threads().then_some("-f"));
    command.arg(built("coracle")).arg("--root").arg(root.dir.join("root")).arg("--run").arg(root.dir.join("run"));
    for word in operation.words {
        match *word {
            "ARCHIVE" => command.arg(&archive),
            "REMOTE" => command.arg(remote_name(root)),
            "CONTEXT" => command.arg(root.dir.join("context")),
            word => command.arg(word),
        };
    }
    command.stdin(Stdio::null()).output().expect("run strace")
}
