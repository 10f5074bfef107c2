//! Files that go in and out of containers and volumes: links that an attacker leaves lead nobody to the host.

use crate::canary::{Canary, SECRET};
use crate::images::Image;
use crate::support::archive::Tar;
use crate::support::*;
use coracle::model::{CommitContainer, PutArchive};
use serde_json::json;

/// A running container, and one that never ran, with links to the canary under several names.
fn with_links() -> (Root, Canary, [String; 2]) {
    let root = Root::new();
    let canary = Canary::new(&root);
    let layer = LINKS.iter().fold(Tar::new().dir("t"), |tar, name| {
        let target = if name.ends_with("climbing") { canary.climb("") } else { canary.path("") };
        tar.symlink(name, &target)
    });
    Image::new().layer(layer).load(&root, "links");
    let running = root.sleeper_with("running", json!({ "Image": "links" }));
    let still = root.create("still", body(&["true"], json!({ "Image": "links" })));
    (root, canary, [running, still])
}

const LINKS: [&str; 3] = ["absolute", "t/climbing", "t/star*?["];

/// The bytes of an archive of a path, or the error.
fn get(root: &Root, id: &str, path: &str) -> coracle::Result<Vec<u8>> {
    let archive = root.engine.container_archive_get(id, path, Some(&soon()))?;
    let mut bytes = Vec::new();
    archive.write_to(&mut bytes, Some(&soon())).expect("read the archive");
    Ok(bytes)
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

// attack: 76, 78 wall resolve-in-root
#[test]
fn a_copy_out_follows_no_link_to_the_host() {
    let (root, canary, containers) = with_links();
    for id in &containers {
        for link in LINKS {
            for path in [format!("/{link}/passwd"), format!("/{link}/sub/deep"), format!("/{link}/.")] {
                let got = get(&root, id, &path);
                assert!(!got.as_ref().is_ok_and(|bytes| holds(bytes, SECRET)), "{path}");
                assert!(got.is_err(), "{path}: there is nothing of that name inside");
            }
            let itself = get(&root, id, &format!("/{link}")).expect("the link itself");
            assert!(!holds(&itself, SECRET));
            canary.untouched();
        }
        let whole = get(&root, id, "/t").expect("a directory of links");
        assert!(!holds(&whole, SECRET));
    }
    canary.untouched();
}

// attack: 76, 79, 80 wall resolve-in-root
#[test]
fn a_copy_in_follows_no_link_to_the_host() {
    let (root, canary, containers) = with_links();
    let tar = || Tar::new().entry(b'5', "sub", "", 0o777, b"").file("sub/new", b"evil").file("passwd", b"evil").end();
    for id in &containers {
        for link in LINKS {
            for path in [format!("/{link}"), format!("/{link}/sub"), format!("/{link}/.")] {
                let put = PutArchive::default();
                let got = root.engine.container_archive_put(id, &path, &mut tar().as_slice(), put, Some(&soon()));
                canary.untouched();
                assert!(got.is_err(), "{path}: there is nothing of that name inside");
            }
        }
        // A link of the archive's own, and a directory where the image has a link.
        let own = Tar::new().symlink("own", &canary.path("")).file("own/new", b"evil").end();
        let over = Tar::new().entry(b'5', "absolute", "", 0o777, b"").file("absolute/new", b"evil").end();
        for archive in [own, over] {
            let put = PutArchive::default();
            let _ = root.engine.container_archive_put(id, "/", &mut archive.as_slice(), put, Some(&soon()));
            canary.untouched();
        }
    }
}

// attack: 83 wall resolve-in-root
#[test]
fn a_new_volume_gets_what_the_image_has_and_nothing_of_the_host() {
    let root = Root::new();
    let canary = Canary::new(&root);
    let layer = Tar::new().symlink("absolute", &canary.path("")).symlink("climbing", &canary.climb("")).dir("own");
    Image::new().layer(layer.file("own/file", b"own")).load(&root, "volumes");
    for path in ["/absolute/sub", "/climbing/sub", "/absolute", "/own"] {
        let more = json!({ "Image": "volumes", "Volumes": { path: {} } });
        let script = format!("find {path}/ -type f -exec cat {{}} +");
        let output = root.run(&["sh", "-c", &script], more, b"");
        canary.untouched();
        assert!(!output.out().contains(SECRET), "{path}");
        assert_eq!(output.out(), if path == "/own" { "own" } else { "" }, "{path}");
    }
}

/// A container that does not run, with a bind whose place a link of the image leads out: a copy makes the place inside.
// attack: 80, 81 wall resolve-in-root
#[test]
fn a_copy_mounts_and_makes_nothing_on_the_host() {
    let root = Root::new();
    let canary = Canary::new(&root);
    let bound = root.dir.join("bound");
    std::fs::create_dir(&bound).expect("mkdir");
    std::fs::write(bound.join("f"), "bound").expect("write");
    // The links lead to a directory of the image, where the canary is on the host.
    let layer = Tar::new().symlink("absolute", &canary.path("")).symlink("climbing", &canary.climb(""));
    let inside = canary.path("").trim_matches('/').to_owned();
    Image::new().layer(layer.dir(&inside)).load(&root, "binds");
    let mounts = || std::fs::read_to_string("/proc/self/mountinfo").expect("mounts");
    for link in ["absolute", "climbing"] {
        let binds = [format!("{}:/{link}/sub", bound.display()), format!("{}:/{link}/new/er", bound.display())];
        let more = json!({ "Image": "binds", "HostConfig": { "Binds": binds } });
        let id = root.create("", body(&["true"], more));
        let before = mounts();
        for _ in 0..3 {
            for path in ["/etc/passwd", &format!("/{link}/sub/f"), &format!("/{link}/new/er/f")] {
                let _ = get(&root, &id, path);
            }
            let tar = Tar::new().file("made", b"made").end();
            for path in [format!("/{link}/sub"), "/tmp".into()] {
                let put = PutArchive::default();
                let _ = root.engine.container_archive_put(&id, &path, &mut &tar[..], put, Some(&soon()));
            }
            canary.untouched();
        }
        let own = |text: &str| text.lines().filter(|line| line.contains("canary") || line.contains("bound")).count();
        assert_eq!((own(&before), own(&mounts())), (0, 0), "a copy left a mount");
        // The write went into the container's own bind, to which the link points inside.
        let seen = get(&root, &id, &format!("{}/sub/f", canary.path(""))).expect("the bind, inside");
        assert!(holds(&seen, "bound"));
    }
}

// attack: 82 wall archive-names
// attack: 85 wall links-stay
#[test]
fn archives_hold_their_own_directory_alone_and_no_bytes_of_the_host() {
    let (root, canary, [running, _]) = with_links();
    let script =
        format!("mkdir /dir /dir2; echo one > /dir/a; echo two > /dir2/b; ln -s {} /dir/l", canary.path("passwd"));
    root.exec(&running, &["sh", "-c", &script]).ok();
    let archive = get(&root, &running, "/dir").expect("an archive");
    let names: Vec<String> = archive::files(&archive).into_keys().collect();
    assert_eq!(names, ["dir/a"]);
    let mut whole = Vec::new();
    root.engine.container_export(&running, &mut whole, Some(&soon())).expect("export");
    assert!(holds(&whole, "two") && !holds(&whole, SECRET));
    let how = CommitContainer { repo: "committed".into(), ..CommitContainer::default() };
    root.engine.container_commit(&running, &how, Some(&soon())).expect("commit");
    canary.untouched();
}

/// A volume that has content stays as it is, whatever the image has at its place, also where it is read-only.
// attack: 84 wall volume-content
#[test]
fn a_volume_that_has_content_is_not_filled() {
    let root = Root::new();
    Image::new()
        .layer(Tar::new().dir("own").file("own/mine", b"of the image").file("own/more", b"more"))
        .load(&root, "v");
    let binds = |how: &str| json!({ "Image": "v", "HostConfig": { "Binds": [format!("data:{how}")] } });
    root.run(&["sh", "-c", "echo kept > /elsewhere/mine"], binds("/elsewhere"), b"").ok();
    for how in ["/own", "/own:ro", "/own:nocopy"] {
        let seen = root.run(&["sh", "-c", "ls -A /own; cat /own/mine"], binds(how), b"");
        assert_eq!(seen.ok(), "mine\nkept", "{how}");
    }
    // The twin: one that has none.
    let seen = root.run(&["ls", "-A", "/own"], json!({ "Image": "v", "HostConfig": { "Binds": ["new:/own"] } }), b"");
    assert_eq!(seen.ok(), "mine\nmore");
}
