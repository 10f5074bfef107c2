//! The command `coracle` killed before each of its system calls, or told that one of them failed: the next open finds a
//! consistent engine, nothing is left over, and the same work can be done again.
//!
//! A run takes some points of each operation; with `CORACLE_TORTURE` set in the environment, all of them.

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

/// A system call of a program: its name, and the how manieth of that name it is.
#[derive(Clone, Debug)]
struct Point {
    call: String,
    count: usize,
}

/// What is done, on what, and how one sees that it can be done again.
pub struct Operation {
    pub words: &'static [&'static str],
    /// Puts the root in the state that the operation starts from.
    pub prepare: fn(&Root),
    /// Does it for good: it holds whether the killed program had finished or not.
    pub finish: fn(&Root),
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
        root.engine.image_pull(&request, &mut |_| Ok(()), Some(&soon())).expect("pull again");
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
        root.engine.image_push(&request, &mut |_| Ok(()), Some(&soon())).expect("push");
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
        // What is whole but for a mode needs no registry: it is never lost on the way.
        assert!(left.iter().all(|damage| damage.repaired), "{left:?}");
        assert_eq!(verify(false), []);
    },
};

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

#[test]
fn told_of_a_full_disk() {
    let writes = ["write", "pwrite64", "openat", "openat2", "mkdirat", "mkdir", "ftruncate", "renameat2", "fallocate"];
    refused("ENOSPC", &writes, &[&LOAD, &PULL, &BUILD, &CREATE, &START, &REMOVE]);
}

#[test]
fn told_of_an_input_output_error() {
    refused("EIO", &["write", "pwrite64", "read", "pread64", "fsync", "fdatasync"], &[&LOAD, &CREATE, &START]);
}

#[test]
fn told_of_too_few_descriptors_and_too_little_memory() {
    refused("EMFILE", &["openat", "openat2", "socket", "pipe2", "memfd_create", "fcntl"], &[&CREATE, &START, &EXEC]);
    refused("ENOMEM", &["mmap", "clone", "clone3", "mount", "fsmount", "move_mount"], &[&CREATE, &START, &EXEC]);
}

#[test]
fn told_of_a_read_only_file_system() {
    refused(
        "EROFS",
        &["openat", "openat2", "mkdirat", "mkdir", "unlinkat", "write"],
        &[&LOAD, &CREATE, &START, &REMOVE],
    );
}

/// Kills the operation before each of the points chosen.
fn killed(operation: &Operation) {
    killed_on(&Root::new(), operation, 14, &|_| {});
}

/// The same on a root that is there, before some of its system calls; `look` sees what is left once the container is gone.
pub fn killed_on(root: &Root, operation: &Operation, some: usize, look: &dyn Fn(&str)) {
    let _registry = registry(root, operation);
    let all = points(root, operation);
    assert!(all.len() > 100, "only {} system calls seen", all.len());
    for point in chosen(all, some) {
        let inject = format!("inject={}:signal=KILL:when={}", point.call, point.count);
        let output = run(root, operation, &point.call, &inject);
        let ended = output.status.signal() == Some(9) || output.status.code() == Some(0);
        assert!(ended, "{point:?}: {}", String::from_utf8_lossy(&output.stderr));
        let what = format!("killed at {point:?}");
        after(root, operation, &what);
        look(&what);
    }
}

/// Lets system calls of the operations fail, one at a time.
fn refused(error: &str, calls: &[&str], operations: &[&Operation]) {
    for operation in operations {
        let root = Root::new();
        let _registry = registry(&root, operation);
        let all: Vec<Point> =
            points(&root, operation).into_iter().filter(|point| calls.contains(&point.call.as_str())).collect();
        for point in chosen(all, 5) {
            let inject = format!("inject={}:error={error}:when={}", point.call, point.count);
            let output = run(&root, operation, &point.call, &inject);
            let what = format!("{:?} with {error} at {point:?}", operation.words[0]);
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.code().is_some_and(|code| code != 101), "{what}: {:?}: {said}", output.status);
            assert!(output.status.success() || !said.trim().is_empty(), "{what}: failed without a word");
            after(&root, operation, &what);
        }
    }
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

/// What the engine says, the files and the kernel agree.
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
    // A download that was cut off is gone on with.
    let staged = names(&root.dir.join("root/tmp")).into_iter().filter(|name| !name.starts_with("part-"));
    assert_eq!(staged.count(), 0, "{what}: staging");
    for image in engine.image_list(&ListImages { all: true, ..ListImages::default() }).expect("list images") {
        engine.image_inspect(&image.id).unwrap_or_else(|e| panic!("{what}: image {}: {e}", image.id));
    }
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("read mountinfo");
    let here = root.dir.to_string_lossy();
    assert!(!mounts.lines().any(|line| line.contains(&*here)), "{what}: mounts are left");
    wait_for("cgroups of what does not run to go", || cgroups(&ids).is_subset(&live));
}

/// The containers that run. Those are the ones that have a process.
fn live(engine: &Engine, ids: &BTreeSet<String>, what: &str) -> BTreeSet<String> {
    let runs = |id: &&String| {
        let state = engine.container_inspect(id, false).unwrap_or_else(|e| panic!("{what}: {e}")).state;
        let process = state.pid > 0 && Path::new(&format!("/proc/{}/status", state.pid)).exists();
        assert!(process || !state.running, "{what}: {state:?}");
        state.running
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
    let trace = std::fs::read_to_string(root.dir.join("trace")).expect("read the trace");
    after(root, operation, "traced");
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let calls = trace.lines().filter_map(|line| line.split_once('(')).map(|(call, _)| call);
    calls
        .filter(|call| call.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') && *call != "execve")
        .map(|call| {
            let count = counts.entry(call).or_default();
            *count += 1;
            Point { call: call.to_owned(), count: *count }
        })
        .collect()
}

/// Some of the points, evenly; all when torture was asked for.
fn chosen(all: Vec<Point>, some: usize) -> Vec<Point> {
    if std::env::var_os("CORACLE_TORTURE").is_some() {
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
    command.arg("-o").arg(root.dir.join("trace")).args(["-e", &format!("trace={trace}"), "-e", expression]);
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
