//! The store of images: looking for damage and repairing it, prune, OCI layouts, a disk that is full.

use super::registry::{noise, nothing_is_left, push};
use crate::support::archive::{self, Tar, sha256};
use crate::support::registry::Registry;
use crate::support::*;
use coracle::model::*;
use coracle::{Context, Durability, Engine, ErrorKind};
use serde_json::{Value, json};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) fn verify(engine: &Engine, repair: bool) -> VerifyReport {
    let request = VerifyImages { repair, ..VerifyImages::default() };
    engine.verify(&request, &mut |_| Ok(()), Some(&soon())).expect("verify")
}

/// Reasons of the damage, and whether it was repaired.
fn damage(engine: &Engine, repair: bool) -> Vec<(String, bool)> {
    verify(engine, repair).damage.into_iter().map(|damage| (damage.reason, damage.repaired)).collect()
}

fn load(engine: &Engine, bytes: &[u8]) -> Vec<String> {
    engine.image_load(&mut &bytes[..], &mut |_| Ok(()), Some(&soon())).expect("load")
}

/// The directory of the one layer that has this file.
pub(crate) fn layer_with(root: &Root, file: &str) -> PathBuf {
    let entries = std::fs::read_dir(root.dir.join("root/layers")).expect("read the layers");
    let mut dirs = entries.map(|entry| entry.expect("a layer").path());
    dirs.find(|dir| dir.join("diff").join(file).exists()).unwrap_or_else(|| panic!("no layer has {file}"))
}

/// A layer with one of everything.
fn various() -> Vec<u8> {
    Tar::new()
        .dir("dir")
        .file("dir/file", b"content")
        .file("dir/empty", b"")
        .symlink("link", "dir/file")
        .hard_link("second", "dir/file")
        .entry(b'6', "fifo", "", 0o644, b"")
        .file("unnamed/parent", b"its directory is not in the tar")
        .file(".wh.gone", b"")
        .end()
}

#[test]
fn damage_is_found_and_what_the_recipe_knows_is_repaired() {
    let root = Root::empty();
    load(&root.engine, &archive::image("various:1", &[&various()]));
    let report = verify(&root.engine, false);
    assert_eq!((report.layers, report.images, report.damage), (1, 1, vec![]));
    let at = |name: &str| layer_with(&root, "dir/empty").join("diff").join(name);
    let chmod = |path: PathBuf, mode: u32| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("chmod");
    };
    let cases: [(&str, &dyn Fn()); 8] = [
        ("\"dir/empty\": its mode is 600, not 644", &|| chmod(at("dir/empty"), 0o600)),
        ("\"dir\": its mode is 711, not 755", &|| chmod(at("dir"), 0o711)),
        ("\"dir/empty\": it is missing", &|| std::fs::remove_file(at("dir/empty")).expect("remove")),
        ("\"dir/more\": it should not be there", &|| std::fs::write(at("dir/more"), "x").expect("write")),
        ("\"link\": it points elsewhere", &|| {
            std::fs::remove_file(at("link")).expect("remove");
            std::os::unix::fs::symlink("/etc/passwd", at("link")).expect("link");
            let touched = Command::new("touch").args(["-h", "-d", "@0"]).arg(at("link")).status().expect("touch");
            assert!(touched.success());
        }),
        ("\"fifo\": its owner is 7:7, not 0:0", &|| {
            std::os::unix::fs::chown(at("fifo"), Some(7), Some(7)).expect("chown")
        }),
        ("\"gone\": it is missing", &|| std::fs::remove_file(at("gone")).expect("remove")),
        ("\"second\": it is of another kind", &|| {
            std::fs::remove_file(at("second")).expect("remove");
            std::fs::create_dir(at("second")).expect("mkdir");
        }),
    ];
    for (want, harm) in cases {
        let layer = layer_with(&root, "dir");
        harm();
        assert_eq!(damage(&root.engine, false), [(want.to_owned(), false)]);
        // A missing name of a file may be told of the other one first, its time of its directory.
        assert_eq!(damage(&root.engine, true).iter().filter(|(_, repaired)| *repaired).count(), 1, "{want}");
        assert_eq!(damage(&root.engine, false), [], "{want}");
        assert!(layer.join("diff/dir/empty").exists());
    }
    assert_eq!(std::fs::read_dir(root.dir.join("root/tmp")).expect("read").count(), 0);
}

/// Replaces the configuration of an image in the database by an empty one.
pub(crate) fn harm_configuration(root: &Root, name: &str) {
    let id = root.engine.image_inspect(name).expect("inspect").id;
    let sql = format!("UPDATE images SET config = x'7b7d' WHERE id = '{id}'");
    let script = "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]); db.execute(sys.argv[2]); db.commit()";
    let database = root.dir.join("root/coracle.db");
    let done = Command::new("/usr/bin/python3").args(["-c", script]).arg(database).arg(sql).status().expect("python3");
    assert!(done.success());
}

#[test]
fn content_that_is_damaged_is_fetched_again() {
    let root = Root::empty();
    let registry = Registry::plain(&root.dir.join("registry"));
    let name = format!("{}/team/various:1", registry.host());
    load(&root.engine, &archive::image(&name, &[&various()]));
    load(&root.engine, &archive::image("local:1", &[&Tar::new().file("local", b"only here").end()]));
    push(&root.engine, &name).expect("push");
    let layer = layer_with(&root, "dir/empty");
    let harms: [&dyn Fn(); 4] = [
        &|| std::fs::write(layer.join("diff/dir/file"), b"Content").expect("write"),
        &|| std::fs::write(layer.join("diff/dir/file"), b"").expect("write"),
        &|| std::fs::write(layer.join("recipe"), b"").expect("write"),
        &|| std::fs::remove_dir_all(&layer).expect("remove"),
    ];
    for harm in harms {
        harm();
        let report = verify(&root.engine, false);
        assert_eq!(report.damage.len(), 1, "{report:?}");
        assert_eq!((&report.damage[0].images, report.damage[0].part), (&vec![name.clone()], DamagedPart::Layer));
        let repaired = verify(&root.engine, true);
        assert!(repaired.damage[0].repaired, "{repaired:?}");
        assert_eq!(damage(&root.engine, false), []);
        assert_eq!(std::fs::read(layer.join("diff/dir/file")).expect("read"), b"content");
    }
    // The error names the missing layer, and the remedy.
    let aside = layer.with_extension("aside");
    std::fs::rename(&layer, &aside).expect("rename");
    let error =
        root.engine.image_save(std::slice::from_ref(&name), &mut Vec::new(), Some(&soon())).expect_err("it is missing");
    let hex = layer.file_name().expect("its name").to_string_lossy();
    assert!(error.message().contains(&format!("sha256:{hex}: its directory is missing")), "{error}");
    assert!(error.message().contains("coracle verify --repair"), "{error}");
    std::fs::rename(&aside, &layer).expect("rename");
    // A configuration.
    harm_configuration(&root, &name);
    assert!(verify(&root.engine, false).damage[0].reason.starts_with("its configuration has the digest sha256:"));
    assert!(verify(&root.engine, true).damage[0].repaired);
    assert_eq!(damage(&root.engine, false), []);

    // A layer without a source cannot be fetched again; what a container stands on stays until it ends.
    std::fs::write(layer_with(&root, "local").join("diff/local"), b"changed!!").expect("write");
    let report = verify(&root.engine, true);
    assert!(report.damage[0].unrepaired.contains("no registry is known to have it"), "{report:?}");
    root.engine.image_remove("local:1", RemoveImage::default()).expect("remove");
    root.load(&busybox_archive());
    let busybox = layer_with(&root, "bin/busybox");
    let id = root.sleeper("stands-on-it");
    std::fs::set_permissions(busybox.join("diff/bin"), std::fs::Permissions::from_mode(0o700)).expect("chmod");
    let report = verify(&root.engine, true);
    assert!(report.damage[0].unrepaired.contains(&format!("running container {}", &id[..12])), "{report:?}");
    root.engine.container_stop(&id, Some(0), Some(&soon())).expect("stop");
    assert!(verify(&root.engine, true).damage[0].repaired);
    assert_eq!(std::fs::metadata(busybox.join("diff/bin")).expect("stat").mode() & 0o777, 0o755);

    // By the command.
    std::fs::set_permissions(busybox.join("diff/bin"), std::fs::Permissions::from_mode(0o700)).expect("chmod");
    let coracle = |words: &[&str]| {
        let mut command = Command::new(built("coracle"));
        command.arg("--root").arg(root.dir.join("root")).arg("--run").arg(root.dir.join("run")).args(words);
        let out = command.output().expect("coracle");
        (out.status.code(), String::from_utf8_lossy(&out.stdout).into_owned())
    };
    let (code, said) = coracle(&["verify", "-q"]);
    assert!(
        code == Some(1) && said.contains("\"bin\": its mode is 700, not 755") && said.contains("1 damaged"),
        "{said}"
    );
    assert_eq!(coracle(&["verify", "--repair", "-q"]).0, Some(0));
}

#[test]
fn prune_takes_what_nothing_uses() {
    let root = Root::new();
    let made = |name: &str, text: &[u8]| {
        load(&root.engine, &archive::image(name, &[&Tar::new().file("f", text).end()]));
        root.engine.image_inspect(name).expect("inspect").id
    };
    let first = made("moving:1", b"first");
    let second = made("moving:1", b"the second");
    let used = made("used:1", b"used");
    made("unused:1", b"unused");
    root.create("user", json!({ "Image": used, "Cmd": ["x"] }));
    let prune = |filters: Value| {
        let filters: Filters = serde_json::from_value(filters).expect("filters");
        root.engine.images_prune(&filters, None)
    };
    assert_eq!(prune(json!({ "until": ["1500000000"] })).expect("prune").images_deleted, None);
    let pruned = prune(json!({})).expect("prune");
    let gone = pruned.images_deleted.expect("something");
    assert_eq!(gone[0], RemovedImage::Deleted(first));
    assert_eq!(pruned.space_reclaimed, 5);
    let pruned = prune(json!({ "dangling": ["false"] })).expect("prune");
    let gone = pruned.images_deleted.expect("something");
    assert!(gone.contains(&RemovedImage::Untagged("unused:1".into())), "{gone:?}");
    assert!(gone.contains(&RemovedImage::Deleted(second)), "{gone:?}");
    let left = root.engine.image_list(&ListImages::default()).expect("list");
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].id, used);
    fails(prune(json!({ "size": ["1"] })), ErrorKind::Invalid, "Invalid filter 'size'");
    root.engine.container_remove("user", RemoveContainer::default(), None).expect("remove");
    let out = Command::new(built("coracle"))
        .args([
            "--root".as_ref(),
            root.dir.join("root").as_os_str(),
            "--run".as_ref(),
            root.dir.join("run").as_os_str(),
        ])
        .args(["image", "prune", "--all", "--force"])
        .output()
        .expect("coracle");
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(said.contains("untagged: used:1\n") && said.ends_with("Total reclaimed space: 4B\n"), "{said}");
    nothing_is_left(&root);
}

#[test]
fn an_oci_layout_holds_several_images() {
    let root = Root::new();
    root.engine.image_tag(IMAGE, "second/name:v2").expect("tag");
    let extra = Tar::new().file("added", b"x").end();
    load(&root.engine, &archive::image("other:1", &[&extra, &extra]));
    let save = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut out = Vec::new();
        root.engine.image_save_oci(&names, &mut out, Some(&soon())).map(|()| out)
    };
    let bytes = save(&[IMAGE, "second/name:v2", "other:1"]).expect("save");
    assert_eq!(bytes, save(&[IMAGE, "second/name:v2", "other:1"]).expect("save again"), "not the same bytes");
    let files = archive::files(&bytes);
    for (path, content) in files.iter().filter(|(path, _)| path.starts_with("blobs/")) {
        assert_eq!(*path, format!("blobs/sha256/{}", sha256(content)));
    }
    let index: Value = serde_json::from_slice(&files["index.json"]).expect("index.json");
    let names: Vec<&str> = index["manifests"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|entry| entry["annotations"]["io.containerd.image.name"].as_str().expect("a name"))
        .collect();
    assert_eq!(names, ["docker.io/library/busybox:latest", "docker.io/second/name:v2", "docker.io/library/other:1"]);
    let fresh = Root::empty();
    assert_eq!(load(&fresh.engine, &bytes), ["busybox:latest", "second/name:v2", "other:1"]);
    for name in [IMAGE, "other:1"] {
        let id = |root: &Root| root.engine.image_inspect(name).expect("inspect").id;
        assert_eq!(id(&fresh), id(&root));
    }
    fails(save(&["nosuch"]), ErrorKind::NotFound, "No such image");
}

/// A tmpfs of so many bytes, gone with the value.
struct Disk(PathBuf);

impl Disk {
    fn new(dir: &Path, bytes: usize) -> Disk {
        std::fs::create_dir_all(dir).expect("mkdir");
        let done =
            Command::new("mount").args(["-t", "tmpfs", "-o", &format!("size={bytes}"), "tmpfs"]).arg(dir).status();
        assert!(done.expect("mount").success());
        Disk(dir.to_owned())
    }

    fn resize(&self, bytes: usize) {
        let done = Command::new("mount").args(["-o", &format!("remount,size={bytes}")]).arg(&self.0).status();
        assert!(done.expect("mount").success());
    }

    fn used(&self) -> usize {
        let found = nix::sys::statvfs::statvfs(&self.0).expect("statvfs");
        ((found.blocks() - found.blocks_free()) * found.fragment_size()) as usize
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// The open reports the damage that one look at the store shows; a single lost object does not make the others invalid.
#[test]
fn an_open_sees_what_is_missing() {
    let root = Root::empty();
    for number in 0..30u8 {
        load(&root.engine, &archive::image(&format!("i{number}:1"), &[&Tar::new().file("f", &[number; 100]).end()]));
    }
    load(&root.engine, &archive::image("various:1", &[&various()]));
    assert_eq!(root.reopen().damage_at_open(), [""; 0]);
    let layer = layer_with(&root, "dir/empty");
    let id = format!("layer sha256:{}", layer.file_name().expect("a name").to_string_lossy());
    let recipe = layer.join("recipe");
    let kept = std::fs::read(&recipe).expect("read");
    let aside = root.dir.join("aside");
    let told = |what: &str| {
        let engine = root.reopen();
        let want = format!("{id}: {what}; `coracle verify --repair` may bring it back");
        assert_eq!(engine.damage_at_open(), [want.as_str()]);
        let info = engine.info().expect("info");
        let warnings = info["Warnings"].as_array().expect("warnings");
        assert!(warnings.contains(&json!(format!("WARNING: {want}"))), "{warnings:?}");
        let out = Command::new(built("coracle"))
            .args(["--root".as_ref(), root.dir.join("root").as_os_str()])
            .args(["--run".as_ref(), root.dir.join("run").as_os_str(), "images".as_ref()])
            .output()
            .expect("coracle");
        assert_eq!(String::from_utf8_lossy(&out.stderr), format!("WARNING: {want}\n"));
    };
    std::fs::write(&recipe, "").expect("truncate");
    told("its recipe is empty");
    std::fs::remove_file(&recipe).expect("remove");
    told("its recipe is missing");
    std::fs::write(&recipe, kept).expect("write");
    std::fs::rename(&layer, &aside).expect("move");
    told("its directory is missing");
    std::fs::rename(&aside, &layer).expect("move back");
    assert_eq!(root.reopen().damage_at_open(), [""; 0]);

    // The metadata itself: an empty database is not a new root, and not one byte of it may be wrong.
    let fresh = Root::empty();
    load(&fresh.engine, &archive::image("various:1", &[&various()]));
    let copied = root.dir.join("copy");
    let open_copy = |change: &dyn Fn(&Path)| {
        let _ = std::fs::remove_dir_all(&copied);
        let status = Command::new("cp").arg("-a").arg(fresh.dir.join("root")).arg(&copied).status();
        assert!(status.expect("cp").success());
        change(&copied.join("coracle.db"));
        let mut options = options_at(&root.dir.join("elsewhere"));
        options.root = copied.clone();
        options.durability = Durability::Full;
        let opened = Engine::open_with(options);
        (opened.map(drop), copied.join("layers").read_dir().expect("layers").count())
    };
    let emptied = |path: &Path| {
        std::fs::write(path, "").expect("truncate");
        let _ = std::fs::remove_file(path.with_file_name("coracle.db-wal"));
    };
    let (opened, layers) = open_copy(&emptied);
    fails(opened, ErrorKind::Corrupt, "the database is empty or was lost");
    assert_eq!(layers, 1, "the layer stays");
    let garbled = |path: &Path| {
        std::fs::write(path, vec![7; 8192]).expect("write");
        let _ = std::fs::remove_file(path.with_file_name("coracle.db-wal"));
    };
    let (opened, layers) = open_copy(&garbled);
    fails(opened, ErrorKind::Corrupt, "metadata store");
    assert_eq!(layers, 1, "the layer stays");
}

/// The disk gets full after every so many bytes of each operation: it fails in so many words, nothing of it is visible,
/// and with space again it succeeds.
#[test]
fn a_full_disk_at_every_step() {
    let source = Root::new();
    let registry = Registry::plain(&source.dir.join("registry"));
    let name = format!("{}/team/big:1", registry.host());
    let layers = [0u8, 1].map(|i| Tar::new().file(&format!("f{i}"), &noise(1_500_000 + usize::from(i))).dir("d").end());
    let bytes = archive::image(&name, &[&layers[0], &layers[1]]);
    load(&source.engine, &bytes);
    push(&source.engine, &name).expect("push");

    let disk = Disk::new(&source.dir.join("disk"), 64 << 20);
    let mut options = options_at(&source.dir.join("engine"));
    options.root = disk.0.join("root");
    let engine = Engine::open_with(options).expect("open");
    load(&engine, &std::fs::read(busybox_archive()).expect("read"));
    let committed: CreateBody =
        serde_json::from_value(body(&["sh", "-c", "head -c 3000000 /dev/urandom > /f"], json!({}))).expect("a body");
    let container = engine.container_create(Some("user"), &committed).expect("create").id;
    engine.container_start(&container, None, Some(&soon())).expect("start");
    engine.container_wait(&container, Some(&soon())).expect("wait");

    let pull = || {
        let request = PullImage { name: name.clone(), ..PullImage::default() };
        engine.image_pull_tags(&request, &mut |_| Ok(()), Some(&soon())).map(drop)
    };
    let load_it = || engine.image_load(&mut &bytes[..], &mut |_| Ok(()), Some(&soon())).map(drop);
    let commit = || {
        let how = CommitContainer { repo: "committed".into(), ..CommitContainer::default() };
        engine.container_commit("user", &how, Some(&soon())).map(drop)
    };
    let context =
        Tar::new().file("Dockerfile", b"FROM busybox\nCOPY f /f\nRUN cp /f /g\n").file("f", &noise(1_000_000)).end();
    let build = || {
        let how = BuildImage {
            t: vec!["built:1".into()],
            networkmode: "none".into(),
            nocache: true,
            ..BuildImage::default()
        };
        let built = engine.image_build(&how, Context::Tar(&mut &context[..]), &mut |_| Ok(()), Some(&soon()));
        // The command itself reports output that it could not write.
        built.map(drop).map_err(|error| match error.exit_code() {
            Some(1) => coracle::Error::from(std::io::Error::from_raw_os_error(libc::ENOSPC)),
            _ => error,
        })
    };
    type Operation<'a> = (&'a str, &'a str, &'a dyn Fn() -> coracle::Result<()>);
    let operations: [Operation<'_>; 4] = [
        ("pull", &name, &pull),
        ("load", &name, &load_it),
        ("commit", "committed", &commit),
        ("build", "built:1", &build),
    ];
    let steps = if std::env::var_os("CORACLE_TORTURE").is_some() { 40 } else { 5 };
    for (what, made, operation) in operations {
        let mut failed = 0;
        for step in 0..steps {
            // The database's reserve for removals is there.
            let room = step * 4_000_000 / steps;
            let before = disk.used();
            disk.resize(before + room.max(4096));
            let result = operation();
            if let Err(error) = &result {
                failed += 1;
                let text = error.message();
                assert!(
                    text.contains("No space left on device") || error.raw_os_error() == Some(libc::ENOSPC),
                    "{what} with {room}: {error:?}"
                );
                assert!(engine.image_inspect(made).is_err(), "{what} with {room}: half of it is visible");
                let staged =
                    std::fs::read_dir(disk.0.join("root/tmp")).expect("read").map(|e| e.expect("an entry").path());
                // A part of a download may stay, to be gone on with.
                let is_part = |path: &PathBuf| {
                    what == "pull" && path.to_string_lossy().contains("/part-") || path.ends_with("empty")
                };
                let staged: Vec<PathBuf> = staged.filter(|path| !is_part(path)).collect();
                assert!(staged.is_empty(), "{what} with {room}: {staged:?}");
            }
            disk.resize(64 << 20);
            if result.is_err() {
                continue;
            }
            engine.image_remove(made, RemoveImage { force: true, ..RemoveImage::default() }).expect("remove");
        }
        assert!(failed > 0, "{what} never ran out of space");
        operation().unwrap_or_else(|e| panic!("{what} with space again: {e}"));
        assert_eq!(damage(&engine, false), [], "{what}");
        // Saving needs no space here; a reader that takes no more is told.
        let mut full = Full(1_000_000);
        let error =
            engine.image_save(&[made.to_owned()], &mut full, Some(&soon())).expect_err("the archive's disk is full");
        assert_eq!(error.raw_os_error(), Some(libc::ENOSPC), "{error}");
        engine.image_remove(made, RemoveImage { force: true, ..RemoveImage::default() }).expect("remove");
    }
    engine
        .container_remove("user", RemoveContainer { force: true, ..RemoveContainer::default() }, Some(&soon()))
        .expect("remove");
}

/// Takes so many bytes, then the disk is full.
struct Full(usize);

impl std::io::Write for Full {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(std::io::Error::from_raw_os_error(libc::ENOSPC))?;
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
