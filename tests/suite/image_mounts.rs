//! Mounts of type `image`: the files of an image in a container that is made of another one.

use crate::container_later_fields::ask;
use crate::support::archive::{Tar, image};
use crate::support::*;
use coracle::ErrorKind;
use coracle::model::{DiskUsageQuery, PutArchive, RemoveContainer, RemoveImage};
use coracle_http::Router;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;

/// Loads an image of two layers, the second of which hides a file of the first.
fn load(root: &Root, name: &str) {
    let first = Tar::new().file("hidden", b"no").file("tool", b"#!/bin/sh\necho ran\n").file("kept", b"first").end();
    let second = Tar::new().file(".wh.hidden", b"").file("bin-of/inner", b"second").end();
    load_archive(root, &image(name, &[&first, &second]));
}

fn load_archive(root: &Root, archive: &[u8]) {
    root.engine.image_load(&mut &archive[..], &mut |_| Ok(()), Some(&soon())).expect("load the image");
}

/// The mount of an image at `/i`.
fn mounted(name: &str, subpath: &str) -> Value {
    let mount = match subpath {
        "" => json!({ "Type": "image", "Source": name, "Target": "/i" }),
        path => json!({ "Type": "image", "Source": name, "Target": "/i", "ImageOptions": { "Subpath": path } }),
    };
    host(json!({ "NetworkMode": "none", "Mounts": [mount] }))
}

// field: HostConfig.Mounts.ImageOptions
// field: HostConfig.Mounts.ImageOptions.Subpath
#[test]
fn the_files_of_an_image_are_mounted_read_only() {
    let root = Root::new();
    load(&root, "tools:1");
    let script = "ls /i; cat /i/kept; sh /i/tool; touch /i/new 2>&1 | grep -o Read-only";
    assert_eq!(root.sh_with(script, mounted("tools:1", "")).out(), "bin-of\nkept\ntool\nfirstran\nRead-only");
    assert_eq!(root.sh_with("ls /i; cat /i/inner", mounted("tools:1", "bin-of")).out(), "inner\nsecond");
    assert_eq!(root.sh_with("cat /i", mounted("tools:1", "bin-of/inner")).out(), "second");
    // After a restart, too, and in a container that takes over the mounts.
    let id = root.create("user", body(&["cat", "/i/kept"], mounted("tools:1", "")));
    for _ in 0..2 {
        root.start(&id);
        assert_eq!(root.wait(&id), 0);
    }
    assert_eq!(root.logs(&id).out(), "firstfirst");
    let other = json!({ "HostConfig": { "NetworkMode": "none", "VolumesFrom": ["user"] } });
    assert_eq!(root.sh_with("cat /i/kept", other).out(), "first");
    let shown = root.inspect(&id);
    let point = &shown.mounts[0];
    assert_eq!((point.kind.as_str(), point.name.as_str(), point.rw), ("image", "tools:1", false));
    assert_eq!(point.source, root.engine.image_inspect("tools:1").expect("the image").id);
    assert_eq!((point.destination.as_str(), point.propagation.as_str()), ("/i", ""));
    // Two images, and one of them twice.
    load(&root, "tools:2");
    let twice = json!([
        { "Type": "image", "Source": "tools:1", "Target": "/a" },
        { "Type": "image", "Source": "busybox", "Target": "/b" },
        { "Type": "image", "Source": "tools:1", "Target": "/c", "ImageOptions": { "Subpath": "bin-of" } },
    ]);
    let twice = host(json!({ "NetworkMode": "none", "Mounts": twice }));
    assert_eq!(root.sh_with("cat /a/kept /c/inner; ls -d /b/bin", twice).out(), "firstsecond/b/bin");
}

#[test]
fn copies_see_a_mounted_image_and_do_not_write_into_it() {
    let root = Root::new();
    load(&root, "tools:1");
    let id = root.create("copied", body(&["true"], mounted("tools:1", "")));
    let archive = root.engine.container_archive_get(&id, "/i/kept", None).expect("get");
    let mut bytes = Vec::new();
    archive.write_to(&mut bytes, None).expect("read the archive");
    assert!(bytes.windows(5).any(|part| part == b"first"));
    let tar = Tar::new().file("put", b"x").end();
    let put = root.engine.container_archive_put(&id, "/i", &mut &tar[..], PutArchive::default(), None);
    assert!(put.expect_err("a read-only mount").message().contains("ead-only"));
    assert!(root.engine.container_changes(&id).expect("changes").iter().all(|change| !change.path.starts_with("/i/")));
}

#[test]
fn an_image_stays_as_long_as_a_container_mounts_it() {
    let root = Root::new();
    load(&root, "tools:1");
    let id = root.create("holder", body(&["cat", "/i/kept"], mounted("tools:1", "")));
    let image = root.engine.image_inspect("tools:1").expect("the image").id;
    fails(root.engine.image_remove("tools:1", RemoveImage::default()), ErrorKind::Conflict, &id[..12]);
    let all = serde_json::from_value(json!({ "dangling": ["false"] })).expect("filters");
    let pruned = root.engine.images_prune(&all, None).expect("prune").images_deleted;
    assert!(!format!("{pruned:?}").contains(&image), "{pruned:?}");
    let router = Router::new(root.engine.clone());
    let (_, listed) = ask(&router, "GET", "/v1.51/images/json");
    let tools = listed.as_array().and_then(|all| all.iter().find(|one| one["Id"] == *image)).expect("listed");
    assert_eq!(tools["Containers"], 1);
    // Another program, or the next one, knows it.
    let other = root.reopen();
    fails(other.image_remove("tools:1", RemoveImage::default()), ErrorKind::Conflict, &id[..12]);
    other.container_start(&id, None, Some(&soon())).expect("start");
    assert_eq!((root.wait(&id), root.logs(&id).out().as_str()), (0, "first"));
    root.engine.container_remove(&id, RemoveContainer::default(), None).expect("remove the container");
    root.engine.image_remove("tools:1", RemoveImage::default()).expect("remove the image");
}

/// An image that a removal by force takes the name from keeps its files as long as a container mounts it.
#[test]
fn an_image_that_is_removed_by_force_stays_for_its_mounts() {
    let root = Root::new();
    load(&root, "tools:1");
    let of_it = root.create("of-it", json!({ "Image": "tools:1", "Cmd": ["x"] }));
    let script = "trap 'exit 0' TERM; echo ready; while :; do sleep 0.05; done";
    let user = root.create("user", body(&["sh", "-c", script], mounted("tools:1", "")));
    let id = root.engine.image_inspect("tools:1").expect("the image").id;
    let force = RemoveImage { force: true, ..RemoveImage::default() };
    root.engine.image_remove("tools:1", force).expect("remove by force");
    fails(root.engine.image_inspect(&id), ErrorKind::NotFound, "o such image");
    root.start(&user);
    // The container that is made of the image was the other reason to keep it.
    root.engine.container_remove(&of_it, RemoveContainer::default(), None).expect("remove");
    assert_eq!(root.exec(&user, &["cat", "/i/kept", "/i/bin-of/inner"]).ok(), "firstsecond");
    root.engine.container_stop(&user, Some(10_000), Some(&soon())).expect("stop");
    root.start(&user);
    assert_eq!(root.exec(&user, &["cat", "/i/kept"]).ok(), "first");
    let kill = RemoveContainer { force: true, ..RemoveContainer::default() };
    root.engine.container_remove(&user, kill, Some(&soon())).expect("remove");
    let layers = || root.engine.disk_usage(DiskUsageQuery::ALL, None).expect("usage").images.len();
    assert_eq!(layers(), 1, "busybox alone");
    load(&root, "tools:1");
    assert_eq!(layers(), 2);
}

/// An image without layers shows nothing, and copies of such a container work.
#[test]
fn an_image_without_files_is_mounted() {
    let root = Root::new();
    load_archive(&root, &image("empty:1", &[]));
    assert_eq!(root.sh_with("ls -A /i | wc -l", mounted("empty:1", "")).out(), "0");
    let id = root.create("copied", body(&["true"], mounted("empty:1", "")));
    root.engine.container_archive_get(&id, "/bin/sh", None).expect("get");
}

#[test]
fn mistakes_in_mounts_of_images_are_named() {
    let root = Root::new();
    load(&root, "tools:1");
    let attempt = |name: &str, path: &str| root.try_create("", body(&["true"], mounted(name, path)));
    fails(attempt("nothing:here", ""), ErrorKind::NotFound, "nothing:here");
    fails(attempt("", ""), ErrorKind::Invalid, "field Source must not be empty");
    fails(attempt("tools:1", "../etc"), ErrorKind::Invalid, "subpath must be a relative path within the image");
    let id = attempt("tools:1", "missing").expect("created");
    let error = root.engine.container_start(&id, None, None).map(drop).expect_err("a part that is not there");
    assert!(error.message().contains("missing"), "{error}");
    let router = Router::new(root.engine.clone());
    let wrong = json!({ "Image": "busybox", "HostConfig": { "Mounts": [
        { "Type": "volume", "Source": "v", "Target": "/t", "ImageOptions": { "Subpath": "a" } }] } });
    let json = [("Content-Type", "application/json")];
    let reply = router.request("POST", "/v1.48/containers/create", &json, wrong.to_string().into_bytes(), None);
    assert_eq!(reply.expect("an answer").status, 400);
}

/// A link of an image that leads out of it leads nowhere: neither into the host nor into the container.
#[test]
fn links_of_a_mounted_image_do_not_lead_out_of_it() {
    let root = Root::new();
    let outside = root.dir.join("outside");
    std::fs::create_dir(&outside).expect("a directory");
    std::fs::set_permissions(&outside, std::fs::Permissions::from_mode(0o755)).expect("its mode");
    std::fs::write(outside.join("secret"), "of the host").expect("a file");
    let path = outside.to_str().expect("a path");
    let layer = Tar::new().symlink("absolute", path).symlink("up", "../../../../../../..").end();
    load_archive(&root, &image("hostile:1", &[&layer]));
    for part in ["absolute", "up", "absolute/secret"] {
        let id = root.create("", body(&["ls", "/i"], mounted("hostile:1", part)));
        assert!(root.engine.container_start(&id, None, None).is_err(), "{part} was mounted");
        assert!(root.engine.container_archive_get(&id, "/i", None).is_err(), "{part} was copied");
    }
}
