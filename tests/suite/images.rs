//! Images: archives of every form in and out, names, what a layer keeps, and crashes in between.

use super::registry::push;
use crate::support::archive::{self, Tar};
use crate::support::registry::Registry;
use crate::support::*;
use coracle::model::*;
use coracle::{Engine, ErrorKind};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn load(engine: &Engine, bytes: &[u8]) -> coracle::Result<Vec<String>> {
    engine.image_load(&mut &bytes[..], &mut |_| Ok(()), Some(&soon()))
}

fn save(engine: &Engine, names: &[&str]) -> Vec<u8> {
    let names: Vec<String> = names.iter().map(|&n| n.to_owned()).collect();
    let mut out = Vec::new();
    engine.image_save(&names, &mut out, Some(&soon())).unwrap_or_else(|e| panic!("save {names:?}: {e}"));
    out
}

fn import(engine: &Engine, bytes: &[u8], repo: &str) -> coracle::Result<String> {
    let how = ImportImage { repo: repo.into(), ..ImportImage::default() };
    engine.image_import(&mut &bytes[..], &how, &mut |_| Ok(()), Some(&soon()))
}

/// Runs a program; fails the test if it fails. Answers what it wrote to standard output.
#[track_caller]
fn tool(program: &str, words: &[&str]) -> String {
    let out = Command::new(program).args(words).stdin(Stdio::null()).output();
    let out = out.unwrap_or_else(|e| panic!("{program} (installed by tools/setup test): {e}"));
    let text = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{program} {words:?}: {text}{}", String::from_utf8_lossy(&out.stdout));
    String::from_utf8_lossy(&out.stdout).trim_end().to_owned()
}

/// Pipes `input` through a program.
pub(super) fn through(program: &str, words: &[&str], input: &[u8]) -> Vec<u8> {
    let mut child = Command::new(program)
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|e| panic!("{program} (installed by tools/setup test): {e}"));
    let mut stdin = child.stdin.take().expect("a pipe");
    let input = input.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let out = child.wait_with_output().expect("wait");
    writer.join().expect("the writer").expect("write to it");
    assert!(out.status.success(), "{program} {words:?}");
    out.stdout
}

/// The files of the store on disk: names in `layers/` and in `tmp/`.
fn stored(root: &Path) -> (Vec<String>, Vec<String>) {
    let names = |dir: &str| {
        let mut names: Vec<String> = std::fs::read_dir(root.join("root").join(dir))
            .map(|all| all.flatten().map(|e| e.file_name().to_string_lossy().into_owned()).collect())
            .unwrap_or_default();
        names.sort();
        names
    };
    (names("layers"), names("tmp"))
}

/// Asserts that the files of the store are those of its images and nothing more.
#[track_caller]
fn nothing_leaked(engine: &Engine, root: &Path) {
    let [found, wanted] = found_and_wanted(engine, root);
    assert_eq!(found, wanted);
}

/// The names in `layers/` and in `tmp/`: those that are there, and those that the images of the engine need.
fn found_and_wanted(engine: &Engine, root: &Path) -> [(Vec<String>, Vec<String>); 2] {
    let mut wanted: Vec<String> = Vec::new();
    for image in engine.image_list(&ListImages { all: true, ..ListImages::default() }).expect("list") {
        let detail = engine.image_inspect(&image.id).expect("inspect");
        wanted.extend(detail.root_fs.layers.iter().flatten().map(|id| id.trim_start_matches("sha256:").to_owned()));
    }
    wanted.sort();
    wanted.dedup();
    let (layers, mut staged) = stored(root);
    // A partial download is resumed; an overlay without layers stands on what is empty.
    staged.retain(|name| !name.starts_with("part-") && name != "empty");
    [(layers, staged), (wanted, vec![])]
}

#[track_caller]
fn says_hello(root: &Root, image: &str) {
    assert_eq!(root.run(&["echo", "hello"], json!({ "Image": image }), b"").ok(), "hello");
}

#[test]
fn all_three_layouts_load_and_run() {
    let root = Root::new();
    let id = root.engine.image_inspect(IMAGE).expect("the image").id;
    let saved = save(&root.engine, &[IMAGE]);

    // Our archive, without its newer half: the oldest layout.
    let mut old = archive::files(&saved);
    let manifest: Value = serde_json::from_slice(&old["manifest.json"]).expect("manifest.json");
    old.remove("manifest.json");
    old.remove(manifest[0]["Config"].as_str().expect("its configuration"));
    assert!(old.contains_key("repositories"), "{:?}", old.keys());
    let other = Root::empty();
    assert_eq!(load(&other.engine, &archive::tar_of(&old)).expect("the old layout"), ["busybox:latest"]);
    says_hello(&other, "busybox");

    // The whole, again, and with compression around it.
    let other = Root::empty();
    for bytes in [saved.clone(), through("gzip", &["-1"], &saved), through("zstd", &["-q"], &saved)] {
        assert_eq!(load(&other.engine, &bytes).expect("load"), ["busybox:latest"]);
        assert_eq!(other.engine.image_inspect(IMAGE).expect("the image").id, id);
    }
    nothing_leaked(&other.engine, &other.dir);

    // OCI layout with gzip layers, as skopeo makes it.
    let tar = root.dir.join("saved.tar").display().to_string();
    std::fs::write(&tar, &saved).expect("write");
    let oci = root.dir.join("oci.tar").display().to_string();
    tool("skopeo", &["copy", "-q", &format!("docker-archive:{tar}"), &format!("oci-archive:{oci}:docker.io/x/box:1")]);
    let other = Root::empty();
    let bytes = std::fs::read(&oci).expect("the OCI archive");
    assert_eq!(load(&other.engine, &bytes).expect("the OCI layout"), ["x/box:1"]);
    assert_eq!(other.engine.image_inspect("x/box:1").expect("the image").root_fs.layers.expect("layers").len(), 1);
    says_hello(&other, "x/box:1");
    nothing_leaked(&other.engine, &other.dir);
}

#[test]
fn an_image_that_umoci_changed() {
    let root = Root::new();
    let path = |name: &str| root.dir.join(name).display().to_string();
    std::fs::write(path("saved.tar"), save(&root.engine, &[IMAGE])).expect("write");
    let (oci, bundle) = (path("oci"), path("bundle"));
    tool("skopeo", &["copy", "-q", &format!("docker-archive:{}", path("saved.tar")), &format!("oci:{oci}:box")]);
    tool("umoci", &["unpack", "--image", &format!("{oci}:box"), &bundle]);
    // One file is changed, one added, one directory removed.
    std::fs::write(root.dir.join("bundle/rootfs/etc/passwd"), "root:x:0:0::/root:/bin/sh\n").expect("write");
    std::fs::write(root.dir.join("bundle/rootfs/new"), "new\n").expect("write");
    std::fs::remove_dir_all(root.dir.join("bundle/rootfs/var")).expect("remove");
    tool("umoci", &["repack", "--image", &format!("{oci}:second"), &bundle]);
    tool("umoci", &["config", "--image", &format!("{oci}:second"), "--config.env", "MADE=umoci"]);
    tool("umoci", &["rm", "--image", &format!("{oci}:box")]);
    tool("tar", &["-C", &oci, "-cf", &path("oci.tar"), "."]);
    let bytes = std::fs::read(path("oci.tar")).expect("read");
    // A bare tag is not a repository, so the image has only an id.
    let ids = load(&root.engine, &bytes).expect("load what umoci made");
    assert!(ids.len() == 1 && ids[0].starts_with("sha256:"), "{ids:?}");
    let out =
        root.run(&["sh", "-c", "cat /etc/passwd /new; ls -d /var 2>&1; echo $MADE"], json!({ "Image": ids[0] }), b"");
    assert_eq!(out.out(), "root:x:0:0::/root:/bin/sh\nnew\nls: /var: No such file or directory\numoci");
}

#[test]
fn skopeo_reads_what_we_save() {
    let root = Root::new();
    root.engine.image_tag(IMAGE, "harbour/box:v1").expect("tag");
    let path = root.dir.join("saved.tar").display().to_string();
    std::fs::write(&path, save(&root.engine, &["harbour/box:v1"])).expect("write");
    let raw = tool("skopeo", &["inspect", "--config", "--raw", &format!("docker-archive:{path}")]);
    let id = root.engine.image_inspect(IMAGE).expect("the image").id;
    assert_eq!(format!("sha256:{}", archive::sha256(raw.as_bytes())), id);
    let to = root.dir.join("dir").display().to_string();
    tool("skopeo", &["copy", "-q", &format!("docker-archive:{path}:harbour/box:v1"), &format!("dir:{to}")]);
}

/// The layer of the busybox image as a tar.
fn base_layer(engine: &Engine) -> Vec<u8> {
    let files = archive::files(&save(engine, &[IMAGE]));
    files.into_iter().find(|(path, _)| path.ends_with("layer.tar")).expect("a layer").1
}

#[test]
fn import_takes_every_compression_from_body_and_file() {
    let root = Root::new();
    let tar = base_layer(&root.engine);
    let mut diff_ids = Vec::new();
    for (program, words) in
        [("cat", &[][..]), ("gzip", &["-1"]), ("bzip2", &["-1"]), ("xz", &["-1"]), ("zstd", &["-q", "-1"])]
    {
        let bytes = through(program, words, &tar);
        let name = format!("flat/{program}:1");
        let id = import(&root.engine, &bytes, &name).unwrap_or_else(|e| panic!("{program}: {e}"));
        let detail = root.engine.image_inspect(&name).expect("inspect");
        assert_eq!((detail.id, detail.comment.as_str()), (id, "Imported from -"));
        diff_ids.push(detail.root_fs.layers.expect("layers"));
        // Like the load above, from a file, by the command.
        let file = root.dir.join(program).display().to_string();
        std::fs::write(&file, &bytes).expect("write");
        let name = format!("file/{program}:1");
        let at = |name: &str| root.dir.join(name).display().to_string();
        let words = ["--root", &at("root"), "--run", &at("run"), "import", "-c", "CMD echo $X", &file, &name];
        tool(&built("coracle").display().to_string(), &words);
        let config = root.engine.image_inspect(&name).expect("inspect").config.expect("a configuration");
        assert_eq!(config.cmd.expect("a command"), ["/bin/sh", "-c", "echo $X"]);
    }
    assert!(diff_ids.iter().all(|ids| *ids == [format!("sha256:{}", archive::sha256(&tar))]), "{diff_ids:?}");
    says_hello(&root, "flat/xz:1");
    nothing_leaked(&root.engine, &root.dir);
    for (what, bytes) in [("nothing", &b""[..]), ("half", &tar[..tar.len() / 2]), ("text", &[b'x'; 3000])] {
        assert!(import(&root.engine, bytes, "").is_err(), "{what} was imported");
    }
    // Without what fills the last block, and without an end: the docker command sends such.
    let bare = Tar::new().file("f", b"odd").end();
    import(&root.engine, &bare[..512 + 3], "bare:1").expect("import");
    let diff_ids = root.engine.image_inspect("bare:1").expect("inspect").root_fs.layers.expect("layers");
    assert_eq!(diff_ids, [format!("sha256:{}", archive::sha256(&bare[..512 + 3]))]);
    save(&root.engine, &["bare:1"]);
    assert!(import(&root.engine, &bare[..512 + 2], "").is_err(), "a file that is cut off was imported");
    for repo in ["Upper", "a@sha256:00", &format!("a@sha256:{}", "0".repeat(64))] {
        fails(import(&root.engine, &tar, repo), ErrorKind::Invalid, "");
    }
    nothing_leaked(&root.engine, &root.dir);
}

#[test]
fn history_is_that_of_the_configuration() {
    let root = Root::new();
    let how = ImportImage {
        repo: "steps".into(),
        message: "by hand".into(),
        changes: vec!["ENV A=1".into(), "LABEL k=v".into()],
        ..ImportImage::default()
    };
    let tar = Tar::new().file("f", &[7; 1000]).end();
    let id = root.engine.image_import(&mut &tar[..], &how, &mut |_| Ok(()), None).expect("import");
    let history = root.engine.image_history("steps").expect("history");
    assert_eq!(history.len(), 1);
    let step = &history[0];
    assert_eq!((step.id.as_str(), step.size, step.comment.as_str()), (id.as_str(), 1000, "by hand"));
    assert_eq!(step.tags.as_deref().unwrap_or_default(), ["steps:latest"]);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("the time").as_secs() as i64;
    assert!((now - 60..=now).contains(&step.created), "{}", step.created);
}

#[test]
fn names_lead_to_images_as_in_docker() {
    let root = Root::new();
    let e = &root.engine;
    let id = e.image_inspect(IMAGE).expect("the image").id;
    let hex = id.trim_start_matches("sha256:").to_owned();
    e.image_tag(IMAGE, "localhost:5000/a/b:t").expect("tag");
    e.image_tag(IMAGE, "docker.io/library/second").expect("tag");
    for name in [
        "busybox",
        "busybox:latest",
        "docker.io/busybox",
        "docker.io/library/busybox:latest",
        "index.docker.io/library/busybox",
        "library/busybox",
        "second",
        "localhost:5000/a/b:t",
        &id,
        &hex,
        &hex[..12],
        &hex[..4],
        &id[..20],
    ] {
        assert_eq!(e.image_inspect(name).unwrap_or_else(|e| panic!("{name}: {e}")).id, id, "{name}");
        let created = root.create("", body(&["true"], json!({ "Image": name })));
        assert_eq!(root.inspect(&created).image, id);
    }
    for name in ["busybox:1", "localhost:5000/a/b", "busyboy", "busybox@sha256:00", &hex[1..13], "x/busybox"] {
        assert!(e.image_inspect(name).is_err(), "{name} means something");
    }
    fails(e.image_inspect(&format!("sha256:{}", "0".repeat(64))), ErrorKind::NotFound, "No such image: sha256:0000");
    // Seventeen images: two of them must begin with the same digit.
    let mut firsts: BTreeMap<char, u32> = BTreeMap::new();
    for i in 0..17 {
        let id = import(e, &Tar::new().file("n", &[i]).end(), "").expect("import");
        *firsts.entry(id.as_bytes()[7].into()).or_default() += 1;
    }
    let twice = firsts.iter().find(|(_, count)| **count > 1).expect("two of seventeen").0.to_string();
    fails(e.image_inspect(&twice), ErrorKind::NotFound, "several image ids begin with");
    let mut list = e.image_list(&ListImages::default()).expect("list");
    list.retain(|image| image.id == id);
    let tags = list[0].repo_tags.clone().expect("tags");
    assert_eq!(tags, ["busybox:latest", "localhost:5000/a/b:t", "second:latest"]);
}

#[test]
fn removal_untags_deletes_and_frees() {
    let root = Root::new();
    let e = &root.engine;
    let id = e.image_inspect(IMAGE).expect("the image").id;
    e.image_tag(IMAGE, "two:1").expect("tag");
    fails(e.image_remove(&id, RemoveImage::default()), ErrorKind::Conflict, "referenced in multiple repositories");
    assert_eq!(e.image_remove("two:1", RemoveImage::default()).expect("untag"), [untagged("two:1")]);
    let removed = e.image_remove(&id[7..19], RemoveImage::default()).expect("delete");
    let layer = format!("sha256:{}", layer_of(&removed));
    assert_eq!(removed, [untagged("busybox:latest"), deleted(&id), deleted(&layer)]);
    assert_eq!(stored(&root.dir), (vec![], vec![]));

    // A stopped container holds the layers of an image that was removed by force, until it goes.
    root.load(&busybox_archive());
    let container = root.create("holder", body(&["echo", "still here"], json!({})));
    fails(e.image_remove(IMAGE, RemoveImage::default()), ErrorKind::Conflict, "is using its referenced image");
    e.image_remove(IMAGE, RemoveImage { force: true, ..RemoveImage::default() }).expect("force");
    fails(e.image_inspect(IMAGE), ErrorKind::NotFound, "No such image");
    assert_eq!(e.image_list(&ListImages { all: true, ..ListImages::default() }).expect("list"), []);
    assert_eq!(stored(&root.dir).0.len(), 1, "its layer stays");
    root.start(&container);
    root.wait(&container);
    assert_eq!(root.logs(&container).out(), "still here");
    e.container_remove(&container, RemoveContainer::default(), Some(&soon())).expect("remove");
    assert_eq!(stored(&root.dir), (vec![], vec![]));
}

fn untagged(name: &str) -> RemovedImage {
    RemovedImage::Untagged(name.into())
}

fn deleted(id: &str) -> RemovedImage {
    RemovedImage::Deleted(id.into())
}

/// The id of the image that was deleted last.
fn layer_of(removed: &[RemovedImage]) -> String {
    match removed.last() {
        Some(RemovedImage::Deleted(id)) => id.trim_start_matches("sha256:").to_owned(),
        other => panic!("{other:?} is not a deleted layer"),
    }
}

#[test]
fn a_layer_keeps_all_that_its_tar_says() {
    let root = Root::empty();
    let source = root.dir.join("source");
    let at = source.display().to_string();
    let script = r#"
      set -eu
      mkdir -m 750 "$0"; cd "$0"
      umask 022
      mkdir -p dir/sub; chmod 1777 dir; chmod 2750 dir/sub
      echo one > file; ln file dir/hard; ln file zz-hard; ln -s ../no/where dir/soft; ln -s dir link-to-dir
      echo program > setuid; chown 12345:54321 setuid; chmod 6755 setuid
      echo capable > capable; chmod 755 capable; setcap cap_net_raw+ep capable
      chown -h 7:8 dir/soft
      mkfifo -m 600 fifo; mknod -m 660 char c 1 3; mknod -m 640 block b 7 9
      : > empty; chmod 0 empty
      long=$(printf 'l%.0s' $(seq 200)); mkdir "$long"; echo deep > "$long/$long"; ln -s "$long/$long" to-long
      deep=.; for i in 1 2 3; do deep=$deep/d$i$long; mkdir "$deep"; done; echo far > "$deep/end"; ln "$deep/end" hard-long
      echo odd > "$(printf 'new\nline and \303\244 and \377')"
      truncate -s 3M sparse; printf x | dd of=sparse bs=1 seek=1000000 conv=notrunc status=none
      truncate -s 1M hole-only
      python3 - <<'PY'
import os
os.setxattr("file", "user.note", bytes(range(256)))
os.setxattr("dir/sub", "user.on-dir", b"")
os.setxattr("dir/soft", "trusted.on-link", b"t", follow_symlinks=False)
os.setxattr("setuid", "security.other", b"\0\1")
PY
      find . -depth -exec touch -h -d '2001-02-03 04:05:06.789012345 UTC' {} +
      touch -h -d '1960-01-01 00:00:00.5 UTC' dir/soft empty
      touch -d '2106-05-06 07:08:09 UTC' dir/sub
    "#;
    tool("bash", &["-c", script, &at]);
    let tar = root.dir.join("source.tar").display().to_string();
    let words = ["--format=posix", "--xattrs", "--xattrs-include=*", "--numeric-owner", "-C", &at];
    let facts = |dir: &str| tool(&project().join("tests/support/tree-facts").display().to_string(), &[dir]);
    let want = facts(&at);
    for (form, more) in [
        ("plain", &[][..]),
        ("sparse 0.0", &["--sparse", "--sparse-version=0.0"]),
        ("sparse 0.1", &["--sparse", "--sparse-version=0.1"]),
        ("sparse 1.0", &["--sparse", "--sparse-version=1.0"]),
    ] {
        tool("tar", &[&words[..], more, &["-cf", &tar, "."]].concat());
        let bytes = std::fs::read(&tar).expect("read");
        import(&root.engine, &bytes, "kept").unwrap_or_else(|e| panic!("{form}: {e}"));
        let layer = root.dir.join("root/layers").join(archive::sha256(&bytes)).join("diff").display().to_string();
        let mut want = want.clone();
        if form == "plain" {
            want = want.replace("'sparse', ", "'dense', ");
        }
        same_lines(form, &facts(&layer), &want);
        // And gives back the very bytes.
        let saved = archive::files(&save(&root.engine, &["kept"]));
        let layer = saved.iter().find(|(path, _)| path.ends_with("layer.tar")).expect("a layer");
        assert!(*layer.1 == bytes, "{form}: another tar came back");
    }
    // The GNU forms have no attributes and whole seconds: long names, old sparse, base-256 numbers.
    for more in [&["--format=gnu", "--sparse"], &["--format=gnu", "--sort=name"]] {
        tool("tar", &[&["--numeric-owner", "-C", &at][..], more, &["-cf", &tar, "."]].concat());
        let bytes = std::fs::read(&tar).expect("read");
        import(&root.engine, &bytes, "kept").unwrap_or_else(|e| panic!("{more:?}: {e}"));
        let layer = root.dir.join("root/layers").join(archive::sha256(&bytes)).join("diff");
        let unpacked = root.dir.join("unpacked");
        std::fs::create_dir(&unpacked).expect("mkdir");
        tool("tar", &["-C", &unpacked.display().to_string(), "--numeric-owner", "-xpf", &tar]);
        same_lines(more[0], &facts(&layer.display().to_string()), &facts(&unpacked.display().to_string()));
        std::fs::remove_dir_all(&unpacked).expect("remove");
    }
}

/// Asserts that two texts are equal; shows the first lines that differ.
#[track_caller]
fn same_lines(what: &str, have: &str, want: &str) {
    for (have, want) in have.lines().zip(want.lines()) {
        assert_eq!(have, want, "{what}");
    }
    assert_eq!(have.lines().count(), want.lines().count(), "{what}");
}

#[test]
fn whiteouts_hide_what_lies_below() {
    let root = Root::new();
    let base = base_layer(&root.engine);
    let first = Tar::new()
        .dir("a")
        .file("a/one", b"1")
        .file("a/two", b"2")
        .dir("b")
        .file("b/old", b"o")
        .dir("b/sub")
        .file("b/sub/old", b"o")
        .dir("gone")
        .file("gone/f", b"f")
        .file("was-file", b"f")
        .dir("was-dir")
        .file("was-dir/f", b"f")
        .end();
    let second = Tar::new()
        .file("a/.wh.one", b"")
        // The opaque mark hides what lies below, not what its own layer brings, before or after it.
        .dir("b")
        .file("b/before", b"b")
        .file("b/.wh..wh..opq", b"")
        .file("b/after", b"a")
        .file(".wh.gone", b"")
        .dir("was-file")
        .file("was-file/now", b"n")
        .file(".wh.was-dir", b"")
        .file("was-dir", b"now a file")
        .file(".wh.never-was", b"")
        .end();
    let third = Tar::new().dir("gone").file("gone/again", b"g").file("a/one", b"new").file("a/.wh.two", b"").end();
    let bytes = archive::image("veil:1", &[&base, &first, &second, &third]);
    load(&root.engine, &bytes).expect("load");
    let list = |image: &str| {
        let script = "cd /; find a b gone was-file was-dir never-was 2>/dev/null | sort | tr '\\n' ' '; cat a/one";
        root.run(&["sh", "-c", script], json!({ "Image": image }), b"").out()
    };
    assert_eq!(list("veil:1"), "a a/one b b/after b/before gone gone/again was-dir was-file was-file/now new");
    load(&root.engine, &archive::image("veil:2", &[&base, &first, &second])).expect("load");
    assert_eq!(list("veil:2"), "a a/two b b/after b/before was-dir was-file was-file/now ");
    // The archive has the marks again, byte by byte.
    let saved: Vec<Vec<u8>> = archive::files(&save(&root.engine, &["veil:1"])).into_values().collect();
    for layer in [&first, &second, &third] {
        assert!(saved.contains(layer), "a layer came back changed");
    }
}

#[test]
fn attributes_of_overlayfs_in_a_layer_have_no_effect() {
    // An image must not steer the file system that it is mounted by.
    let root = Root::new();
    let record = |key: &str, value: &str| {
        let body = format!(" SCHILY.xattr.{key}={value}\n");
        let length = (body.len()..).find(|n| n.to_string().len() + body.len() == *n).expect("a length");
        format!("{length}{body}")
    };
    let pax = [
        record("trusted.overlay.opaque", "y"),
        record("trusted.overlay.redirect", "/bin"),
        record("user.overlay.opaque", "y"),
        record("user.kept", "k"),
    ]
    .concat();
    let layer = Tar::new().entry(b'x', "pax", "", 0o644, pax.as_bytes()).dir("etc").end();
    load(&root.engine, &archive::image("steer:1", &[&base_layer(&root.engine), &layer])).expect("load");
    let seen = root.run(&["ls", "/etc"], json!({ "Image": "steer:1" }), b"").ok();
    assert_eq!(seen, "group\nhostname\nhosts\nmtab\npasswd\nresolv.conf");
}

/// An image of many small files: slow enough to be killed in.
fn many_files(name: &str, count: u32) -> Vec<u8> {
    let mut layers = Vec::new();
    for layer in 0..3u8 {
        let tar = (0..count).fold(Tar::new(), |tar, i| tar.file(&format!("d{}/{layer}-{i}", i % 7), &[layer; 3000]));
        layers.push(tar.end());
    }
    archive::image(name, &[&layers[0], &layers[1], &layers[2]])
}

/// `CORACLE_KILLS=N` in the environment sets how many programs are killed.
#[test]
fn a_kill_at_any_moment_leaves_nothing_half_done() {
    let root = Root::new();
    let at = |name: &str| root.dir.join(name).display().to_string();
    std::fs::write(at("image.tar"), many_files("many:1", 150)).expect("write");
    std::fs::write(at("flat.tar"), archive::files(&many_files("x:1", 400)).remove("0/layer.tar").expect("a layer"))
        .expect("write");
    let registry = Registry::plain(&root.dir.join("registry"));
    let remote = format!("{}/team/many:1", registry.host());
    load(&root.engine, &many_files(&remote, 151)).expect("load");
    push(&root.engine, &remote).expect("push");
    std::fs::create_dir(at("context")).expect("mkdir");
    let file = "FROM busybox\nCOPY . /c/\nRUN cp -r /c /d && rm -r /c\nLABEL a=b\n";
    std::fs::write(at("context/Dockerfile"), file).expect("write");
    for number in 0..60 {
        std::fs::write(at(&format!("context/f{number}")), [number; 3000]).expect("write");
    }
    let program = built("coracle");
    let started = |words: &[&str]| {
        let mut command = Command::new(&program);
        command.args(["--root", &at("root"), "--run", &at("run")]).args(words);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("run coracle")
    };
    let remove = |engine: &Engine, name: &str| {
        let force = RemoveImage { force: true, ..RemoveImage::default() };
        let _ = engine.image_remove(name, force);
    };
    let (archive, flat, context) = (at("image.tar"), at("flat.tar"), at("context"));
    let jobs: [&[&str]; 5] = [
        &["load", "-i", &archive],
        &["import", &flat, "flat:1"],
        &["rmi", "-f", "many:1", "flat:1"],
        &["pull", "-q", &remote],
        &["build", "-q", "--no-cache", "--network", "none", "-t", "made:1", &context],
    ];
    let prepare = |job: usize, engine: &Engine| match job {
        // There must be something to remove, and something to fetch.
        2 => {
            load(engine, &std::fs::read(at("image.tar")).expect("read")).expect("load");
            import(engine, &std::fs::read(at("flat.tar")).expect("read"), "flat:1").expect("import");
        }
        3 => remove(engine, &remote),
        4 => remove(engine, "made:1"),
        _ => {}
    };
    // How long each takes by itself.
    let mut whole = [Duration::ZERO; 5];
    for (job, time) in whole.iter_mut().enumerate() {
        prepare(job, &root.engine);
        let begun = Instant::now();
        assert!(started(jobs[job]).wait().expect("wait").success(), "{:?}", jobs[job]);
        *time = begun.elapsed();
    }
    let campaign = std::env::var("CORACLE_KILLS").ok().and_then(|text| text.parse::<usize>().ok());
    let seed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("the time").subsec_nanos();
    eprintln!("seed {seed}");
    let (mut random, mut killed, mut present) = (u64::from(seed) | 1, [0; 5], [0; 4]);
    let begun = Instant::now();
    let mut round = 0;
    let often = |killed: &[usize; 5]| killed.iter().all(|&n| n > 1);
    while killed.iter().sum::<usize>() < campaign.unwrap_or(60) || !often(&killed) {
        // A slow machine has had its share by then, if each job was killed.
        let share = round >= 25 && begun.elapsed() > Duration::from_secs(12) && often(&killed);
        if campaign.is_none() && share || round >= 500 && !often(&killed) {
            break;
        }
        let job = round % 5;
        round += 1;
        if round % 100 == 0 {
            println!("round {round}: {killed:?} killed");
        }
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        prepare(job, &root.reopen());
        let mut child = started(jobs[job]);
        std::thread::sleep(whole[job].mul_f64(((random >> 33) % 1000) as f64 / 1000.0));
        match child.try_wait().expect("look at it") {
            None => killed[job] += 1,
            // The load was faster than the first one, because the files are in memory now.
            Some(_) => whole[job] = whole[job].mul_f64(0.8),
        }
        let _ = child.kill();
        child.wait().expect("reap it");
        // The next open finds all or nothing, and sweeps.
        let mut engine = root.reopen();
        let all = ListContainers { all: true, ..ListContainers::default() };
        // A child that it had just forked holds its locks until it is a monitor or a worker, or ends: the open after that
        // sweeps.
        let swept = |engine: &Engine| {
            let [found, wanted] = found_and_wanted(engine, &root.dir);
            found == wanted && engine.container_list(&all).expect("list").is_empty()
        };
        wait_for("the containers of a build, and all that was staged, to go", || {
            let gone = swept(&engine);
            if !gone {
                engine = root.reopen();
            }
            gone
        });
        assert_eq!(engine.damage_at_open(), [""; 0]);
        for (i, name) in ["many:1", "flat:1", &remote, "made:1"].iter().enumerate() {
            if engine.image_inspect(name).is_ok() {
                present[i] += 1;
                // Saving checks every layer against its digest.
                save(&engine, &[name]);
            }
        }
    }
    println!("{killed:?} killed while they load, import, remove, pull, build");
    assert!(often(&killed), "too few were killed in time: {killed:?}");
    // On a busy machine an operation may be killed in each of a few rounds.
    assert!(round < 60 || present.iter().all(|&n| n > 0), "one was never there: {present:?}");
}

#[test]
fn a_full_disk_leaves_nothing_behind() {
    let mounted = Tmpfs::mount(&temp_dir(), "400k");
    let image = many_files("many:1", 60);
    let flat = archive::files(&image).remove("0/layer.tar").expect("a layer");
    let (mut refused, mut loaded) = (0, false);
    for size in (400..2600).step_by(100) {
        mounted.resize(&format!("{size}k"));
        let engine = match Engine::open_with(options_at(&mounted.0)) {
            Ok(engine) => engine,
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(28), "{error}");
                continue;
            }
        };
        for (what, result) in
            [("import", import(&engine, &flat, "flat:1").map(drop)), ("load", load(&engine, &image).map(drop))]
        {
            let name = if what == "load" { "many:1" } else { "flat:1" };
            match result {
                Ok(()) => {
                    loaded |= what == "load";
                    save(&engine, &[name]);
                    engine.image_remove(name, RemoveImage::default()).expect("remove");
                }
                Err(error) => {
                    refused += 1;
                    let full = error.raw_os_error() == Some(28);
                    assert!(full, "{size}k {what}: {:?} {error}", error.kind());
                    assert!(engine.image_inspect(name).is_err(), "{what} left an image");
                }
            }
            nothing_leaked(&engine, &mounted.0);
        }
        nothing_leaked(&Engine::open_with(options_at(&mounted.0)).expect("reopen"), &mounted.0);
        if loaded {
            break;
        }
    }
    assert!(refused > 3 && loaded, "refused {refused} times, loaded: {loaded}");
}

/// A small file system of a test's own.
struct Tmpfs(PathBuf);

impl Tmpfs {
    fn mount(dir: &Path, size: &str) -> Tmpfs {
        let options = format!("size={size}");
        tool("mount", &["-t", "tmpfs", "-o", &options, "coracle-test", &dir.display().to_string()]);
        Tmpfs(dir.to_owned())
    }

    fn resize(&self, size: &str) {
        tool("mount", &["-o", &format!("remount,size={size}"), &self.0.display().to_string()]);
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
        let _ = std::fs::remove_dir(&self.0);
    }
}
