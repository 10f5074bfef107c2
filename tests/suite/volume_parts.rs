//! `VolumeOptions.Subpath`: a path of a volume that a container mounts in place of the whole volume.

use crate::support::archive::Tar;
use crate::support::*;
use coracle::ErrorKind;
use coracle::model::PutArchive;
use serde_json::{Value, json};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// A mount of a part of a volume at `/p`.
fn part(volume: &str, path: &str) -> Value {
    let mount = json!({ "Type": "volume", "Source": volume, "Target": "/p", "VolumeOptions": { "Subpath": path } });
    host(json!({ "NetworkMode": "none", "Mounts": [mount] }))
}

/// A volume with a directory, a file in it, and links.
fn filled(root: &Root) -> PathBuf {
    let create = serde_json::from_value(json!({ "Name": "data" })).expect("a volume");
    let volume = PathBuf::from(root.engine.volume_create(&create).expect("create").mountpoint);
    std::fs::create_dir_all(volume.join("a/b")).expect("directories");
    std::fs::write(volume.join("a/b/file"), "inner").expect("a file");
    symlink("a/b", volume.join("within")).expect("a link");
    symlink("/etc", volume.join("absolute")).expect("a link");
    symlink("../../..", volume.join("a/up")).expect("a link");
    volume
}

// field: HostConfig.Mounts.VolumeOptions.Subpath
#[test]
fn a_part_of_a_volume_is_mounted_in_place_of_the_whole() {
    let root = Root::new();
    let volume = filled(&root);
    let seen =
        |path: &str| root.sh_with("cat /p/file 2>/dev/null || cat /p; ls /p/.. | grep -c b", part("data", path)).out();
    assert!(seen("a/b").starts_with("inner"));
    // Links that stay inside of the volume lead on.
    assert!(seen("within").starts_with("inner") && seen("./a/../a//b/").starts_with("inner"));
    // A file of the volume, too.
    assert!(root.sh_with("cat /p", part("data", "a/b/file")).out().starts_with("inner"));
    // The container writes into the volume, also after a restart, and nothing of the image is copied into it.
    let id = root.create("writer", body(&["sh", "-c", "echo $$ >> /p/file; ls /p | wc -l"], part("data", "a/b")));
    for _ in 0..2 {
        root.start(&id);
        assert_eq!(root.wait(&id), 0);
    }
    assert_eq!(root.logs(&id).out(), "1\n1");
    assert_eq!(std::fs::read_to_string(volume.join("a/b/file")).expect("the file"), "inner1\n1\n");
    let shown = root.inspect(&id);
    let options = shown.host_config.mounts[0].volume_options.clone().expect("options");
    assert_eq!((options.subpath.as_str(), shown.mounts[0].name.as_str()), ("a/b", "data"));
    // A container that takes over the volumes of this one sees the same part.
    let other = json!({ "HostConfig": { "NetworkMode": "none", "VolumesFrom": ["writer:ro"] } });
    assert_eq!(root.sh_with("head -c 5 /p/file; touch /p/x 2>/dev/null || echo -n ' ro'", other).out(), "inner ro");
    // Files from outside go where the container has them.
    let tar = Tar::new().file("put", b"from outside").end();
    root.engine.container_archive_put(&id, "/p", &mut &tar[..], PutArchive::default(), None).expect("put");
    assert_eq!(std::fs::read_to_string(volume.join("a/b/put")).expect("the file"), "from outside");
}

#[test]
fn a_part_that_is_not_inside_of_the_volume_is_refused() {
    let root = Root::new();
    filled(&root);
    for (path, text) in [
        ("absolute", "cross-device link"),
        ("a/up", "cross-device link"),
        ("a/up/etc", "cross-device link"),
        ("missing", "o such file"),
    ] {
        let id = root.create("", body(&["true"], part("data", path)));
        let error = root.engine.container_start(&id, None, None).map(drop).expect_err(path);
        assert!(error.message().contains(text) && error.message().contains("data"), "{path}: {error}");
        let copied = root.engine.container_archive_get(&id, "/p", None).map(drop);
        assert!(copied.is_err(), "{path}: a copy of a part that is not there");
    }
    for bad in ["/a", "..", "a/../../b"] {
        fails(
            root.try_create("", body(&["true"], part("data", bad))),
            ErrorKind::Invalid,
            "subpath must be a relative path",
        );
    }
    fails(root.try_create("", body(&["true"], part("", "a"))), ErrorKind::Invalid, "when using anonymous volumes");
}

/// A volume in memory: all containers have the same one, and each may have another part of it.
#[test]
fn parts_of_a_volume_in_memory_are_shared() {
    let root = Root::new();
    let options = json!({ "type": "tmpfs", "device": "tmpfs" });
    let create = serde_json::from_value(json!({ "Name": "memory", "DriverOpts": options })).expect("a volume");
    root.engine.volume_create(&create).expect("create");
    let whole = host(json!({ "NetworkMode": "none", "Binds": ["memory:/whole"] }));
    let first = root.sleeper_with("first", whole);
    root.exec(&first, &["mkdir", "/whole/sub"]).ok();
    let second = root.sleeper_with("second", part("memory", "sub"));
    root.exec(&second, &["sh", "-c", "echo shared > /p/file"]).ok();
    assert_eq!(root.exec(&first, &["cat", "/whole/sub/file"]).ok(), "shared");
    let escape = root.exec(&second, &["ls", "/p/.."]).out();
    assert!(!escape.contains("whole"), "{escape}");
    // The last one that has the volume keeps it: its monitor gives the volume to the next container.
    root.engine.container_kill(&first, None, None).expect("kill");
    root.wait(&first);
    let third = root.sleeper_with("third", part("memory", "sub"));
    assert_eq!(root.exec(&third, &["cat", "/p/file"]).ok(), "shared");
    assert!(!Path::new("/p").exists());
}
