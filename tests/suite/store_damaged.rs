//! Containers whose stored document is damaged: they are shown with the reason, nothing is done with them, and a removal by
//! force frees all that can be found from the id.

use crate::roots_engines::kill_monitor;
use crate::support::*;
use coracle::ErrorKind;
use coracle::model::*;
use serde_json::json;
use std::path::{Path, PathBuf};

/// Puts a text in the place of a container's document; returns the one before.
fn damage(root: &Root, id: &str, text: &str) -> String {
    let store = rusqlite::Connection::open(root.dir.join("root/coracle.db")).expect("the store");
    store.busy_timeout(std::time::Duration::from_secs(10)).expect("patience");
    let get = "SELECT spec FROM containers WHERE id = ?1";
    let sound = store.query_row(get, [id], |row| row.get(0)).expect("a document");
    store
        .execute("UPDATE containers SET spec = CAST(?1 AS TEXT) WHERE id = ?2", (text.as_bytes(), id))
        .expect("damage");
    sound
}

/// Control groups of a container.
fn groups(id: &str) -> Vec<PathBuf> {
    fn below(dir: &Path, id: &str, depth: u32, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if entry.file_name().to_string_lossy().contains(id) {
                found.push(path);
            } else if depth > 0 && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                below(&path, id, depth - 1, found);
            }
        }
    }
    let mut found = Vec::new();
    below(Path::new("/sys/fs/cgroup"), id, 2, &mut found);
    found
}

/// A container that runs, with a volume that nobody named, one that somebody did, and two networks.
fn broken(root: &Root) -> String {
    let more =
        json!({ "Volumes": { "/unnamed": {} }, "HostConfig": { "Binds": ["named:/named"], "NetworkMode": "bridge" } });
    let id = root.sleeper_with("broken", more);
    let connect = ConnectNetwork { container: id.clone(), ..ConnectNetwork::default() };
    root.engine.network_connect("own", &connect, Some(&soon())).expect("connect");
    id
}

fn volumes(root: &Root) -> Vec<String> {
    let all = root.engine.volume_list(&ListVolumes::default()).expect("volumes").volumes;
    all.into_iter().map(|volume| volume.name).collect()
}

#[test]
fn a_damaged_container_is_shown_and_can_be_removed() {
    let root = Root::new();
    let network: CreateNetwork = serde_json::from_value(json!({ "Name": "own" })).expect("a body");
    let network = root.engine.network_create(&network).expect("a network").id;
    let whole = root.sleeper("whole");
    for (text, its_monitor_lives) in [("", true), ("{\"half", false), ("half", true), ("\u{0}", false)] {
        let id = broken(&root);
        let sound = damage(&root, &id, "5");
        // Some of it can still be read.
        let text = if text == "half" { sound.replacen("\"args\":", "\"args\":5,\"was\":", 1) } else { text.to_owned() };
        damage(&root, &id, &text);
        let text = &text[..text.len().min(20)];
        if !its_monitor_lives {
            kill_monitor(&root, &id);
        }
        let engine = root.reopen();
        let list = engine.container_list(&ListContainers { all: true, ..ListContainers::default() }).expect("list");
        let shown = list.iter().find(|one| one.id == id).expect("the damaged one");
        assert!(shown.status.ends_with(" (damaged)"), "{text}: {}", shown.status);
        assert_eq!(shown.names, ["/broken"], "{text}");
        assert!(list.iter().any(|one| one.id == whole && !one.status.contains("damaged")), "{text}");
        let detail = engine.container_inspect("broken", false).expect("inspect");
        assert!(detail.state.error.contains("the stored spec of container"), "{text}: {}", detail.state.error);
        assert_eq!(detail.state.running, its_monitor_lives, "{text}");
        fails(engine.container_start(&id, None, Some(&soon())), ErrorKind::Corrupt, "the stored spec of container");
        fails(engine.container_rename(&id, "other"), ErrorKind::Corrupt, "the stored spec of container");
        if its_monitor_lives {
            let gently = engine.container_remove(&id, RemoveContainer::default(), Some(&soon()));
            fails(gently, ErrorKind::Conflict, "You cannot remove a running container");
        }
        let mut events = engine.events(&of_containers()).expect("events");
        let force = RemoveContainer { force: true, volumes: true, ..RemoveContainer::default() };
        engine.container_remove("broken", force, Some(&soon())).expect("remove");
        let seen = events_until(&mut events, |event| event.action == "destroy");
        assert_eq!(seen.last().expect("an event").actor.attributes["name"], "broken", "{text}");
        fails(engine.container_inspect(&id, false), ErrorKind::NotFound, "No such container");
        for dir in ["root/containers", "run/c", "run/x"] {
            assert!(!root.dir.join(dir).join(&id).exists(), "{text}: {dir}");
        }
        root.wait_for("its control groups to go", || groups(&id).is_empty());
        assert_eq!(volumes(&root), ["named"], "{text}");
        let inside = engine.network_inspect(&network).expect("inspect the network").containers;
        assert!(inside.is_empty(), "{text}: {inside:?}");
    }
    assert_eq!(root.exec(&whole, &["echo", "served"]).ok(), "served");
}
