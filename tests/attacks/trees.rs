//! Trees that containers leave: deep ones, ones that cannot be removed, files that are larger than they should be.

use crate::programs::program;
use crate::support::*;
use coracle::model::*;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The bind of `programs/tree.c`.
fn tree() -> String {
    format!("{}:/tree:ro", program("tree").display())
}

/// A container that made `depth` directories in one another in its `/tmp`, as a user without rights.
fn with_deep_tree(root: &Root, name: &str, depth: usize) -> String {
    let words = ["/tree", "deep", "/tmp", &depth.to_string()];
    let mut wanted = body(&words, host(json!({ "Binds": [tree()] })));
    wanted["User"] = json!("33:33");
    let id = root.create(name, wanted);
    root.start(&id);
    assert_eq!(root.wait(&id), 0, "{}", root.logs(&id).err());
    id
}

/// The command on a root, with a soft limit of descriptors.
fn command(root: &Root, descriptors: u32, words: &[&str]) -> Output {
    let script = format!("ulimit -S -n {descriptors}; exec \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &script, "sh"]).arg(built("coracle"));
    command.arg("--root").arg(root.dir.join("root")).arg("--run").arg(root.dir.join("run")).args(words);
    command.output().expect("run the command")
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// The names that remain in a directory of the root.
fn left_in(root: &Root, dir: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root.dir.join("root").join(dir)).expect("read a directory of the root");
    entries.map(|entry| entry.expect("an entry").path()).filter(|path| !path.ends_with("empty")).collect()
}

/// How deep the tree below is, as far as paths go.
fn has_depth(mut dir: PathBuf, least: usize) -> bool {
    for _ in 0..least {
        dir.push("d");
    }
    dir.is_dir()
}

// attack: R3 wall few-descriptors
#[test]
fn a_deep_tree_is_removed_with_few_descriptors() {
    let root = Root::new();
    let id = with_deep_tree(&root, "deep", 3000);
    let upper = root.dir.join("root/containers").join(&id).join("upper/tmp");
    assert!(has_depth(upper, 1500), "the tree is there");
    let removed = command(&root, 256, &["rm", "deep"]);
    assert!(removed.status.success(), "{}", text(&removed));
    assert_eq!(left_in(&root, "containers"), [] as [PathBuf; 0], "{}", text(&removed));
    let opened = command(&root, 256, &["ps", "-a"]);
    assert!(opened.status.success() && opened.stderr.is_empty(), "{}", text(&opened));
}

/// Makes a file immutable in a volume by a container that may; returns the file.
fn with_immutable_file(root: &Root) -> PathBuf {
    // The volume is the engine's own, so that its name stays when the container goes.
    root.engine.volume_create(&CreateVolume { name: "stuck".into(), ..CreateVolume::default() }).expect("volume");
    let file = root.dir.join("root/volumes/stuck/_data/held/file");
    let script = "mkdir -p /v/held && echo x >/v/held/file && /tree freeze /v/held/file /v/held";
    let may = host(json!({ "CapAdd": ["LINUX_IMMUTABLE"], "Binds": ["stuck:/v", tree()] }));
    root.sh_with(script, may).ok();
    assert!(std::fs::write(&file, "y").is_err(), "the file is immutable");
    file
}

/// Takes the flags away again, when a test failed.
struct Freed(PathBuf);

impl Drop for Freed {
    fn drop(&mut self) {
        let _ = Command::new("chattr").args(["-R", "-i"]).arg(&self.0).output();
    }
}

// attack: R3 wall flags-lifted
#[test]
fn immutable_files_of_a_volume_go_with_it() {
    let root = Root::new();
    let _freed = Freed(root.dir.clone());
    let file = with_immutable_file(&root);
    root.engine.volume_remove("stuck").expect("remove");
    assert!(!file.exists());
    assert_eq!(left_in(&root, "tmp"), [] as [PathBuf; 0]);
    assert_eq!(root.reopen().leftovers(), []);
}

/// A program without the right to change such flags removes the volume: it is told, and every program opens the root.
// attack: R3 wall opens-regardless
// attack: R3 wall flags-lifted
#[test]
fn an_open_succeeds_beside_a_tree_that_cannot_be_removed() {
    let root = Root::new();
    let _freed = Freed(root.dir.clone());
    with_immutable_file(&root);
    let weak = |words: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--inh-caps=-linux_immutable", "--bounding-set=-linux_immutable"]).arg(built("coracle"));
        command.arg("--root").arg(root.dir.join("root")).arg("--run").arg(root.dir.join("run")).args(words);
        command.output().expect("run the command")
    };
    let removed = weak(&["volume", "rm", "stuck"]);
    let left = left_in(&root, "tmp");
    assert_eq!(left.len(), 1, "it cannot be removed: {}", text(&removed));
    let place = left[0].to_string_lossy().into_owned();
    assert!(removed.status.success(), "{}", text(&removed));
    let opened = weak(&["info"]);
    assert!(opened.status.success(), "{}", text(&opened));
    assert!(text(&opened).matches(&place).count() > 1, "info and the command warn: {}", text(&opened));
    // One that has the right ends it.
    let strong = root.reopen();
    assert_eq!(strong.leftovers(), []);
    assert_eq!(left_in(&root, "tmp"), [] as [PathBuf; 0]);
}

/// Mounts in a removed tree stay whole, and everything else is removed.
// attack: R3 wall opens-regardless
#[test]
fn a_removal_keeps_the_mounts_in_a_tree() {
    const NAME: &str = "trees::a_removal_keeps_the_mounts_in_a_tree";
    if std::env::var_os("CORACLE_TREES_MOUNT").is_none() {
        return in_a_mount_namespace("private", NAME, &[("CORACLE_TREES_MOUNT", Path::new("1"))]);
    }
    let root = Root::new();
    let id = root.create("held", body(&["sh", "-c", "mkdir -p /a/b /c; echo x >/c/file"], json!({})));
    root.start(&id);
    assert_eq!(root.wait(&id), 0);
    let (upper, outside) = (root.dir.join("root/containers").join(&id).join("upper"), root.dir.join("outside"));
    std::fs::create_dir(&outside).expect("mkdir");
    std::fs::write(outside.join("precious"), "x").expect("write");
    let mount = |words: &[&std::ffi::OsStr]| {
        assert!(Command::new(words[0]).args(&words[1..]).status().expect("run").success(), "{words:?}");
    };
    mount(&["mount".as_ref(), "--bind".as_ref(), outside.as_ref(), upper.join("a/b").as_ref()]);
    root.engine.container_remove("held", RemoveContainer::default(), Some(&soon())).expect("remove");
    let left = root.engine.leftovers();
    assert_eq!(left.len(), 1, "{left:?}");
    assert!(left[0].reason.contains("a mount"), "{left:?}");
    assert!(outside.join("precious").exists() && upper.join("a/b/precious").exists(), "what is mounted is whole");
    assert!(!upper.join("c").exists(), "all else is gone");
    let warnings = root.engine.info().expect("info")["Warnings"].to_string();
    assert!(warnings.contains(&id), "{warnings}");
    assert_eq!(root.reopen().leftovers().len(), 1);
    mount(&["umount".as_ref(), upper.join("a/b").as_ref()]);
    assert_eq!(root.engine.sweep().expect("sweep"), []);
    assert_eq!(left_in(&root, "containers"), [] as [PathBuf; 0]);
}

// attack: R8 wall bound-files
#[test]
fn giant_files_of_etc_cost_nothing_and_keep_no_start() {
    let root = Root::new();
    // On ext4 a file ends at 16 TiB: no memory holds this one.
    let script = "for f in hosts hostname resolv.conf; do truncate -s 7168G /etc/$f || exit 3; done";
    let id = root.create("giant", body(&["sh", "-c", script], json!({})));
    root.start(&id);
    assert_eq!(root.wait(&id), 0, "{}", root.logs(&id).err());
    let files: Vec<PathBuf> = ["hosts", "hostname", "resolv.conf"]
        .iter()
        .map(|f| root.dir.join("root/containers").join(&id).join(f))
        .collect();
    assert!(files.iter().all(|file| file.metadata().expect("stat").len() == 7 << 40), "the files are giant");
    // By a program of its own, whose memory and time are bounded.
    let script = "ulimit -v 2000000; exec timeout 60 \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).arg(built("coracle"));
    command.arg("--root").arg(root.dir.join("root")).arg("--run").arg(root.dir.join("run")).args(["start", "giant"]);
    let started = command.output().expect("run the command");
    // The container makes them giant again; what counts is that it started.
    assert!(started.status.success(), "{}", text(&started));
    assert_eq!(root.wait(&id), 0, "{}", root.logs(&id).err());
    // Immutable ones are written again, too.
    let frozen = root.create(
        "frozen",
        body(&["/tree", "freeze", "/etc/hosts"], host(json!({ "CapAdd": ["LINUX_IMMUTABLE"], "Binds": [tree()] }))),
    );
    for _ in 0..2 {
        root.start(&frozen);
        assert_eq!(root.wait(&frozen), 0, "{}", root.logs(&frozen).err());
    }
}

/// The command with 512 KiB of stack and a limit of descriptors that is 40 above what an opened root has.
fn poor(root: &Root, words: &[&str], input: Option<&Path>) -> Output {
    const OPEN: usize = 18;
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -S -s 512; ulimit -S -n {}; exec \"$@\"", OPEN + 40), "sh"]);
    command.arg(built("coracle")).arg("--root").arg(root.dir.join("root")).arg("--run").arg(root.dir.join("run"));
    command.args(words);
    if let Some(input) = input {
        command.stdin(std::fs::File::open(input).expect("open the input"));
    }
    command.output().expect("run the command")
}

/// Runs a command that must succeed; returns its output.
fn done(root: &Root, words: &[&str]) -> Vec<u8> {
    let output = poor(root, words, None);
    assert!(output.status.success(), "{words:?}: {:?} {}", output.status, String::from_utf8_lossy(&output.stderr));
    output.stdout
}

// attack: R4 wall few-descriptors
#[test]
fn deep_trees_are_read_on_little_stack_with_few_descriptors() {
    const DEPTH: usize = 2000;
    let root = Root::new();
    with_deep_tree(&root, "deep", DEPTH);
    let changes = String::from_utf8(done(&root, &["diff", "deep"])).expect("text");
    assert_eq!(changes.lines().filter(|line| line.starts_with("A /tmp/d")).count(), DEPTH);
    for words in [&["export", "deep"][..], &["cp", "deep:/tmp/d", "-"]] {
        // An entry is a header, and one of its own for a long name.
        assert!(done(&root, words).len() > DEPTH * 1024, "{words:?}");
    }
    done(&root, &["commit", "deep", "made"]);
    done(&root, &["ps", "-a", "-s"]);
    // Copied into a volume.
    done(&root, &["create", "--name", "copied", "--network", "none", "-v", "seeded:/tmp", "made", "true"]);
    assert!(has_depth(root.dir.join("root/volumes/seeded/_data"), 1900));
    // A file takes the tree's place.
    let archive = root.dir.join("file.tar");
    std::fs::write(root.dir.join("d"), "a file").expect("write");
    let packed = Command::new("tar").arg("-cf").arg(&archive).arg("-C").arg(&root.dir).arg("d").status();
    assert!(packed.expect("run tar").success());
    let put = poor(&root, &["cp", "-", "deep:/tmp"], Some(&archive));
    assert!(put.status.success(), "{}", text(&put));
    assert!(done(&root, &["diff", "deep"]).len() < 500);
    // A context, COPY, and the layer of it.
    let context = root.dir.join("context");
    std::fs::create_dir_all(context.join("x")).expect("mkdir");
    let made = Command::new(program("tree")).arg("deep").arg(context.join("x")).arg("1900").status();
    assert!(made.expect("run tree").success());
    std::fs::write(context.join("Dockerfile"), "FROM busybox\nCOPY x /x\n").expect("write");
    done(&root, &["build", "-q", "--network", "none", "-t", "built", &context.to_string_lossy()]);
    done(&root, &["rm", "deep", "copied"]);
    done(&root, &["volume", "rm", "seeded"]);
    done(&root, &["rmi", "made", "built"]);
    assert_eq!((left_in(&root, "containers"), left_in(&root, "tmp")), (vec![], vec![]));
}

// attack: R4 wall few-descriptors
#[test]
fn trees_deeper_than_paths_are_an_error() {
    let root = Root::new();
    with_deep_tree(&root, "deep", 6000);
    for words in [&["diff", "deep"][..], &["export", "deep"], &["cp", "deep:/tmp/d", "-"], &["commit", "deep", "made"]]
    {
        let output = poor(&root, words, None);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("the path is longer than 4095 bytes"), "{words:?}: {:?} {said}", output.status);
    }
    done(&root, &["ps", "-a", "-s"]);
    done(&root, &["rm", "deep"]);
    assert_eq!((left_in(&root, "containers"), left_in(&root, "tmp")), (vec![], vec![]));
}
