//! A root that is opened in a way in which it should not be: with another run directory, as a copy, under another path, in
//! another mount namespace, beside a second root. The containers that run on it go on, whatever is answered.

use crate::support::*;
use coracle::model::RemoveContainer;
use coracle::{Durability, Engine, ErrorKind, Options};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use serde_json::json;
use std::path::Path;
use std::process::Command;

fn options(root: &Path, run: Option<&Path>) -> Options {
    let mut options = Options::new(root);
    options.run_dir = run.map(Path::to_owned);
    options.durability = Durability::Off;
    options
}

/// The error of an open that is to be refused.
#[track_caller]
fn refused(options: Options) -> coracle::Error {
    let error = Engine::open_with(options).err().expect("the open is refused");
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    error
}

/// The container runs as the same process, takes an exec, and its control groups are there.
#[track_caller]
fn assert_runs(root: &Root, id: &str, pid: i32) {
    assert_eq!(root.pid(id), pid);
    assert_eq!(root.exec(id, &["echo", "alive"]).ok(), "alive");
    assert!(Cgroups::of(pid).path("memory").ends_with(id), "{}", Cgroups::of(pid).path("memory"));
}

fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-a").arg(from).arg(to).status();
    assert!(status.expect("run cp").success());
}

/// Runs `work` on a thread with a mount namespace of its own.
fn in_mounts_of_its_own(work: impl FnOnce() + Send + 'static) {
    let thread = std::thread::spawn(move || {
        unshare(CloneFlags::CLONE_NEWNS).expect("a mount namespace");
        mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)
            .expect("private mounts");
        work();
    });
    thread.join().expect("the work is done");
}

#[test]
fn another_run_directory_is_refused_while_containers_or_programs_use_the_root() {
    let root = Root::new();
    let id = root.sleeper("runs");
    let pid = root.pid(&id);
    let other = root.dir.join("other-run");
    let error = refused(options(&root.dir.join("root"), Some(&other)));
    assert!(error.message().contains(&root.dir.join("run").display().to_string()), "{error}");
    assert_runs(&root, &id, pid);
    // Without containers the program that has the root open still counts on its run directory.
    let force = RemoveContainer { force: true, ..RemoveContainer::default() };
    root.engine.container_remove(&id, force, Some(&soon())).expect("remove");
    refused(options(&root.dir.join("root"), Some(&other)));
    // The program that names none gets the one in use.
    let same = Engine::open_with(options(&root.dir.join("root"), None)).expect("open");
    let id = root.sleeper("seen");
    assert_eq!(same.container_inspect(&id, false).expect("inspect").state.status, "running");
}

#[test]
fn a_root_that_nobody_uses_takes_another_run_directory() {
    let dir = temp_dir();
    let root = dir.join("root");
    for run in ["a", "b", "a"] {
        drop(Engine::open_with(options(&root, Some(&dir.join(run)))).expect("open"));
        assert_eq!(identity(&root)["run"], dir.join(run).display().to_string());
    }
    std::fs::remove_dir_all(&dir).expect("clean up");
}

#[test]
fn a_copy_has_an_id_of_its_own_and_takes_nothing_of_the_original() {
    let root = Root::new();
    root.engine.network_create(&serde_json::from_value(json!({ "Name": "net" })).expect("a body")).expect("a network");
    let id = root.sleeper_with("runs", host(json!({ "NetworkMode": "net" })));
    let on_default = root.sleeper_with("plain", host(json!({ "NetworkMode": "bridge" })));
    let (pid, default_pid) = (root.pid(&id), root.pid(&on_default));
    let copied = temp_dir();
    copy(&root.dir.join("root"), &copied.join("root"));
    let copy = Root { engine: Engine::open_with(options_at(&copied)).expect("open the copy"), dir: copied };
    assert_ne!(identity(&copy.dir.join("root"))["id"], identity(&root.dir.join("root"))["id"]);
    assert_ne!(copy.engine.info().expect("info")["ID"], root.engine.info().expect("info")["ID"]);
    assert_eq!(copy.status(&id), "exited");
    assert_runs(&root, &id, pid);
    // The container of the same id runs in both roots at once.
    copy.start(&on_default);
    let twin = copy.pid(&on_default);
    assert_ne!(Cgroups::of(twin).path("memory"), Cgroups::of(default_pid).path("memory"));
    assert_runs(&copy, &on_default, twin);
    copy.engine.container_kill(&on_default, None, Some(&soon())).expect("kill");
    copy.wait(&on_default);
    let force = RemoveContainer { force: true, ..RemoveContainer::default() };
    for id in [&id, &on_default] {
        copy.engine.container_remove(id, force, Some(&soon())).expect("remove from the copy");
    }
    copy.engine.network_release().expect("release the copy's networks");
    assert_runs(&root, &id, pid);
    assert_runs(&root, &on_default, default_pid);
    let reached = root.exec(&id, &["sh", "-c", "ip route | grep -c default"]);
    assert_eq!(reached.ok(), "1", "the original's network is as it was");
    // The copy stays itself.
    let before = identity(&copy.dir.join("root"))["id"].clone();
    drop(copy.reopen());
    assert_eq!(identity(&copy.dir.join("root"))["id"], before);
}

/// A file from an earlier boot tells by its inode nothing: the id stays, unless a root that is in use has it.
#[test]
fn a_root_of_an_earlier_boot_keeps_its_id_unless_another_root_in_use_has_it() {
    let (first, second) = (temp_dir(), temp_dir());
    let open = |dir: &Path| Engine::open_with(options_at(dir)).expect("open");
    let engine = open(&first);
    let path = first.join("root");
    copy(&path, &second.join("root"));
    of_an_earlier_boot(&second.join("root"));
    drop(open(&second));
    assert_ne!(identity(&second.join("root"))["id"], identity(&path)["id"], "two roots in use share an id");
    drop(engine);
    copy(&path.join("identity"), &second.join("root/identity"));
    of_an_earlier_boot(&second.join("root"));
    drop(open(&second));
    assert_eq!(identity(&second.join("root"))["id"], identity(&path)["id"], "a root that was moved lost its id");
    for dir in [first, second] {
        std::fs::remove_dir_all(dir).expect("clean up");
    }
}

#[test]
fn a_bind_mount_of_a_root_is_the_root() {
    in_mounts_of_its_own(|| {
        let root = Root::new();
        let id = root.sleeper("runs");
        let pid = root.pid(&id);
        let bound = root.dir.join("bound");
        std::fs::create_dir(&bound).expect("mkdir");
        mount(Some(&root.dir.join("root")), &bound, None::<&str>, MsFlags::MS_BIND, None::<&str>).expect("bind");
        let same = Engine::open_with(options(&bound, None)).expect("open it under its other name");
        assert_eq!(same.container_inspect(&id, false).expect("inspect").state.pid, pid);
        refused(options(&bound, Some(&root.dir.join("other-run"))));
        assert_runs(&root, &id, pid);
        drop(same);
        umount2(&bound, MntFlags::MNT_DETACH).expect("unmount");
    });
}

#[test]
fn an_open_that_cannot_see_the_run_directory_is_refused() {
    in_mounts_of_its_own(|| {
        let root = Root::new();
        let id = root.sleeper("runs");
        let pid = root.pid(&id);
        let run = root.dir.join("run");
        mount(Some("run"), &run, Some("tmpfs"), MsFlags::empty(), None::<&str>).expect("hide the run directory");
        for (asked, why) in [(Some(run.as_path()), "which is another directory than"), (None, "which cannot be seen")] {
            let error = refused(options(&root.dir.join("root"), asked));
            assert!(error.message().contains(&run.display().to_string()) && error.message().contains(why), "{error}");
        }
        umount2(&run, MntFlags::MNT_DETACH).expect("unmount");
        assert_runs(&root, &id, pid);
    });
}

#[test]
fn two_roots_do_not_share_a_run_directory() {
    let root = Root::new();
    let id = root.sleeper("runs");
    let pid = root.pid(&id);
    let other = root.dir.join("other-root");
    let error = refused(options(&other, Some(&root.dir.join("run"))));
    assert!(error.message().contains(&root.dir.join("root").display().to_string()), "{error}");
    assert_runs(&root, &id, pid);
}

#[test]
fn the_run_directory_of_a_root_that_is_gone_is_taken_over() {
    let dir = temp_dir();
    let run = dir.join("run");
    drop(Engine::open_with(options(&dir.join("first"), Some(&run))).expect("open"));
    std::fs::remove_dir_all(dir.join("first")).expect("remove the root");
    drop(Engine::open_with(options(&dir.join("second"), Some(&run))).expect("open another with its run directory"));
    std::fs::remove_dir_all(&dir).expect("clean up");
}

#[test]
fn a_directory_of_somebody_else_is_never_a_root() {
    let dir = temp_dir();
    let strange = dir.join("strange");
    let theirs = strange.join("containers").join("0123456789abcdef".repeat(4));
    std::fs::create_dir_all(&theirs).expect("mkdir");
    let error = Engine::open_with(options(&strange, Some(&dir.join("run")))).err().expect("refused");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.message().contains("containers") && error.message().contains("not empty"), "{error}");
    let found: Vec<_> = std::fs::read_dir(&strange).expect("read it").collect();
    assert!(found.len() == 1 && theirs.exists(), "{found:?}");
    // An empty file system is.
    let disk = dir.join("disk");
    std::fs::create_dir_all(disk.join("lost+found")).expect("mkdir");
    drop(Engine::open_with(options(&disk, Some(&dir.join("run")))).expect("open a root on an empty file system"));
    std::fs::remove_dir_all(&dir).expect("clean up");
}
