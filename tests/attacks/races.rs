//! A process of a container that exchanges a directory and a link as fast as it can, while the engine works on both.

use crate::canary::{Canary, SECRET};
use crate::programs::program;
use crate::support::archive::Tar;
use crate::support::*;
use coracle::model::{CommitContainer, ExecConfig, PutArchive};
use serde_json::json;
use std::path::Path;

/// Exchanges as fast as it can; a bound, so that a machine with other work gets on.
const EXCHANGES: &str = "3000000";
const ROUNDS: usize = 60;

/// Waits until the directory was seen as both.
fn wait_for_both(path: &Path) {
    let (mut link, mut directory) = (false, false);
    wait_for("the racer", || {
        if let Ok(meta) = std::fs::symlink_metadata(path) {
            link |= meta.is_symlink();
            directory |= meta.is_dir();
        }
        link && directory
    });
}

// attack: 14, 15, 76, 80, 146 wall resolve-in-root
#[test]
fn a_link_that_comes_and_goes_leads_nobody_to_the_host() {
    let root = Root::new();
    let canary = Canary::new(&root);
    let evil = root.dir.join("evil");
    std::fs::create_dir_all(&evil).expect("make a directory");
    std::fs::write(evil.join("file"), "evil").expect("write a file");
    let racer = |name: &str, dir: &str, more: &str| {
        let binds = json!([format!("{}:/racer:ro", program("racer").display()), more]);
        let binds: Vec<_> = binds.as_array().expect("a list").iter().filter(|bind| *bind != "").cloned().collect();
        let command = ["/racer", dir, &canary.path(""), EXCHANGES];
        let id = root.create(name, body(&command, host(json!({ "Binds": binds }))));
        root.start(&id);
        wait_for("the racer", || root.logs(&id).out() == "racing");
        id
    };
    let own = racer("own", "/tmp", "");
    let volume = racer("volume", "/t", "shared:/t");
    wait_for_both(&root.dir.join("root/volumes/shared/_data/x"));
    wait_for_both(&root.dir.join("root/containers").join(&own).join("upper/tmp/x"));
    let evil_tar = Tar::new().file("passwd", b"evil").file("sub/put", b"evil").end();
    let secret = |bytes: &[u8]| bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes());
    let (mut got, mut put) = (0, 0);
    for round in 0..ROUNDS {
        for (id, dir) in [(&own, "/tmp"), (&volume, "/t")] {
            for path in [format!("{dir}/x/passwd"), format!("{dir}/x/"), format!("{dir}/x/sub")] {
                let Ok(archive) = root.engine.container_archive_get(id, &path, Some(&soon())) else { continue };
                let mut bytes = Vec::new();
                got += usize::from(archive.write_to(&mut bytes, Some(&soon())).is_ok());
                assert!(!secret(&bytes), "a copy of {path} has the host's file");
            }
            let path = format!("{dir}/x");
            let done =
                root.engine.container_archive_put(id, &path, &mut &evil_tar[..], PutArchive::default(), Some(&soon()));
            put += usize::from(done.is_ok());
            canary.untouched();
        }
        if round % 4 == 0 {
            // A start with mounts and a working directory below the name, and an exec in it.
            let binds = json!([
                "shared:/t",
                format!("{}/file:/t/x/file", evil.display()),
                format!("{}:/t/x/deep/er", evil.display())
            ]);
            let more = json!({ "WorkingDir": "/t/x/work", "HostConfig": { "Binds": binds } });
            let id = root.create("", body(&["sh", "-c", "cat /t/x/passwd"], more));
            if root.engine.container_start(&id, None, Some(&soon())).is_ok() {
                root.wait(&id);
                assert!(!root.logs(&id).out().contains(SECRET), "a start saw the host's file");
            }
            canary.untouched();
            let config = json!({ "Cmd": ["cat", "passwd"], "WorkingDir": "/tmp/x", "AttachStdout": true });
            let config: ExecConfig = serde_json::from_value(config).expect("an exec body");
            let exec = root.engine.exec_create(&own, &config).expect("exec create");
            if let Ok(Some(session)) = root.engine.exec_start(&exec, Some(coracle::Io::default()), Some(&soon())) {
                assert!(!secret(&finish(session, b"").stdout), "an exec saw the host's file");
            }
            canary.untouched();
        }
        if round % 20 == 0 {
            let how = CommitContainer { repo: format!("raced{round}"), ..CommitContainer::default() };
            root.engine.container_commit(&own, &how, Some(&soon())).expect("commit");
            canary.untouched();
        }
    }
    assert!(got > 0 && put > 0, "{got} copies out and {put} in went well");
    assert_eq!((root.status(&own).as_str(), root.status(&volume).as_str()), ("running", "running"), "both race still");
}

// attack: 91 wall volume-parts
#[test]
fn the_part_of_a_volume_that_comes_and_goes_is_of_the_volume() {
    let root = Root::new();
    let canary = Canary::new(&root);
    let binds = json!([format!("{}:/racer:ro", program("racer").display()), "shared:/t"]);
    let racer =
        root.create("racer", body(&["/racer", "/t", &canary.path(""), EXCHANGES], host(json!({ "Binds": binds }))));
    root.start(&racer);
    wait_for_both(&root.dir.join("root/volumes/shared/_data/x"));
    let mount = json!({ "Type": "volume", "Source": "shared", "Target": "/p", "VolumeOptions": { "Subpath": "x" } });
    let victim =
        root.create("victim", body(&["sh", "-c", "cat /p/passwd; touch /p/evil"], host(json!({ "Mounts": [mount] }))));
    let (mut started, mut refused) = (0, 0);
    for _ in 0..ROUNDS {
        match root.engine.container_start(&victim, None, Some(&soon())) {
            Ok(_) => {
                root.wait(&victim);
                started += 1;
            }
            // The link led out at that moment.
            Err(_) => refused += 1,
        }
        assert!(!root.logs(&victim).out().contains(SECRET), "a start saw the host's file");
        if let Ok(archive) = root.engine.container_archive_get(&victim, "/p/passwd", Some(&soon())) {
            let mut bytes = Vec::new();
            let _ = archive.write_to(&mut bytes, Some(&soon()));
            assert!(
                !bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes()),
                "a copy has the host's file"
            );
        }
        canary.untouched();
    }
    assert!(started > 0, "of {ROUNDS} starts {started} saw the volume and {refused} were refused");
    assert_eq!(root.status(&racer), "running", "it races still");
}
