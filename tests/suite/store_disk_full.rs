//! A disk that is really full, and then freed.

use crate::support::*;
use coracle::model::*;
use coracle::{Durability, Engine};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use serde_json::json;
use std::fs::File;
use std::io::Write;

/// How a process of this test program is told to be the machine whose disk is full.
const MACHINE: &str = "CORACLE_SUITE_FULL";

#[test]
fn a_full_disk_can_be_freed() {
    let dir = temp_dir();
    in_a_mount_namespace("private", "store_disk_full::machine", &[(MACHINE, &dir)]);
    std::fs::remove_dir_all(&dir).expect("clean up");
}

/// The program inside the machine, not a test by itself.
// field: State.LogLost
#[test]
fn machine() {
    let Ok(dir) = std::env::var(MACHINE) else { return };
    let dir = std::path::PathBuf::from(dir);
    let disk = dir.join("root");
    std::fs::create_dir(&disk).expect("a directory");
    mount(Some("disk"), &disk, Some("tmpfs"), MsFlags::empty(), Some("size=24m,mode=700")).expect("mount a small disk");
    {
        let mut options = options_at(&dir);
        options.durability = Durability::Full;
        let engine = Engine::open_with(options).expect("open a root on it");
        let root = Root { dir: dir.clone(), engine };
        root.load(&busybox_archive());
        let running = root.sleeper("running");
        let stopped = root.create("stopped", body(&["true"], json!({})));
        let fill = || {
            let mut file = File::options().create(true).append(true).open(disk.join("fill")).expect("a file");
            for size in [1 << 20, 4096, 1] {
                while file.write_all(&vec![1; size]).is_ok() {}
            }
        };
        // A log that cannot be written: the container goes on, whole lines stay, the others are counted.
        for mode in ["blocking", "non-blocking"] {
            let log = json!({ "Type": "json-file", "Config": { "mode": mode } });
            let more = json!({ "OpenStdin": true, "StdinOnce": true, "HostConfig": { "LogConfig": log } });
            let loud = root.create("loud", body(&["sh", "-c", "read go; seq 1 300000"], more));
            root.start(&loud);
            root.engine
                .container_attach(&loud, coracle::Io::default(), coracle::AttachOptions::default(), Some(&soon()))
                .map(drop)
                .expect("attach");
            wait_for("its end", || root.inspect(&loud).state.status == "exited");
            let lost = root.inspect(&loud).state.log_lost;
            let lines = root.logs(&loud).out().lines().count() as i64;
            assert!(lost > 1000 && lines + lost == 300_000, "{mode}: {lost} lost, {lines} there");
            root.engine.container_remove(&loud, RemoveContainer::default(), Some(&soon())).expect("remove");
        }
        fill();
        // An operation that needs room reports it, and leaves nothing.
        let layer = archive::Tar::new().file("f", &vec![7; 300_000]).end();
        let image = archive::image("too/big:1", &[&layer]);
        let load = || root.engine.image_load(&mut &image[..], &mut |_| Ok(()), Some(&soon()));
        let error = load().expect_err("no room for an image");
        assert_eq!(error.raw_os_error(), Some(libc::ENOSPC), "{error}");
        let before = root.names(&ListContainers { all: true, ..ListContainers::default() });
        for number in 0..50 {
            if let Err(error) = root.try_create(&format!("more-{number}"), body(&["true"], json!({}))) {
                assert_eq!(error.raw_os_error(), Some(libc::ENOSPC), "{error}");
            }
            fill();
        }
        let made = root.names(&ListContainers { all: true, ..ListContainers::default() });
        // The running one goes on, can be looked at, stopped and removed, and so can all others.
        assert_eq!(root.status(&running), "running");
        root.engine.container_stop(&running, Some(5000), Some(&soon())).expect("stop on a full disk");
        assert_eq!(root.inspect(&running).state.exit_code, 0);
        let force = RemoveContainer { force: true, ..RemoveContainer::default() };
        root.engine.container_remove(&running, force, Some(&soon())).expect("remove on a full disk");
        for name in made.iter().filter(|name| !before.contains(name)) {
            root.engine.container_remove(name, force, Some(&soon())).unwrap_or_else(|e| panic!("remove {name}: {e}"));
        }
        fill();
        // Once there is room, everything works again.
        std::fs::remove_file(disk.join("fill")).expect("free the disk");
        load().expect("load once there is room");
        root.start(&stopped);
        assert_eq!(root.wait(&stopped), 0);
        assert_eq!(root.sh("echo again").ok(), "again");
        let fresh = root.reopen();
        assert_eq!(fresh.image_list(&ListImages::default()).expect("list").len(), 2);
    }
    // The root is the mount point, so its directory outlives the value above.
    umount2(&disk, MntFlags::MNT_DETACH).expect("unmount");
}
