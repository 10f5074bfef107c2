//! Every misuse has an error with the right kind and text, and changes nothing.

use crate::support::archive::{self, Tar};
use crate::support::*;
use coracle::model::*;
use coracle::{AttachOptions, Engine, ErrorKind, Io};
use serde_json::json;

/// The facts that a test compares before and after: every container with its state, every image with its names.
fn fingerprint(engine: &Engine) -> Vec<String> {
    let all = ListContainers { all: true, ..ListContainers::default() };
    let mut seen: Vec<String> = engine
        .container_list(&all)
        .expect("list")
        .into_iter()
        .map(|c| format!("{} {:?} {}", c.id, c.names, c.state))
        .collect();
    let images = engine.image_list(&ListImages { all: true, ..ListImages::default() }).expect("images");
    seen.extend(images.into_iter().map(|i| format!("{} {:?}", i.id, i.repo_tags)));
    seen.sort();
    seen
}

#[test]
fn unknown_containers() {
    let root = Root::new();
    let before = fingerprint(&root.engine);
    let e = &root.engine;
    let op = soon();
    let (not_found, text) = (ErrorKind::NotFound, "No such container: nobody");
    fails(e.container_inspect("nobody", false), not_found, text);
    fails(e.container_start("nobody", None, Some(&op)), not_found, text);
    fails(e.container_stop("nobody", None, Some(&op)), not_found, text);
    fails(e.container_restart("nobody", None, Some(&op)), not_found, text);
    fails(e.container_kill("nobody", None, Some(&op)), not_found, text);
    fails(e.container_pause("nobody"), not_found, text);
    fails(e.container_unpause("nobody"), not_found, text);
    fails(e.container_wait("nobody", Some(&op)), not_found, text);
    fails(e.container_pidfd("nobody"), not_found, text);
    fails(e.container_remove("nobody", RemoveContainer::default(), Some(&op)), not_found, text);
    fails(e.container_rename("nobody", "other"), not_found, text);
    fails(e.container_top("nobody", ""), not_found, text);
    fails(e.container_logs("nobody", &LogQuery::default(), Some(&op)), not_found, text);
    fails(e.container_attach("nobody", Io::default(), AttachOptions::default(), Some(&op)), not_found, text);
    fails(e.container_resize("nobody", 1, 1), not_found, text);
    let config = ExecConfig { cmd: Some(vec!["true".into()]), ..ExecConfig::default() };
    fails(e.exec_create("nobody", &config), not_found, text);
    for call in [
        e.exec_start("nothing", None, Some(&op)).err(),
        e.exec_inspect("nothing").err(),
        e.exec_resize("nothing", 1, 1).err(),
    ] {
        let error = call.expect("an unknown exec must fail");
        assert_eq!(error.kind(), not_found, "{error}");
        assert!(error.message().contains("o such exec"), "{error}");
    }
    assert_eq!(fingerprint(&root.engine), before);
}

#[test]
fn odd_names() {
    let root = Root::new();
    let id = root.create("taken", body(&["true"], json!({})));
    let before = fingerprint(&root.engine);
    for name in ["-", "-x", ".x", "a b", "a/b", "ü1", "x\n", "../x", "a:b"] {
        fails(root.try_create(name, body(&["true"], json!({}))), ErrorKind::Invalid, "Invalid container name");
        let error = root.engine.container_rename(&id, name).expect_err("a bad name");
        assert!(error.message().contains("Invalid container name"), "{name:?}: {error}");
    }
    let error = root.try_create("taken", body(&["true"], json!({}))).expect_err("a name in use");
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert_eq!(
        error.message(),
        format!(
            "Conflict. The container name \"/taken\" is already in use by container \"{id}\". You have to remove (or \
             rename) that container to be able to reuse that name."
        )
    );
    fails(root.engine.container_rename(&id, ""), ErrorKind::Invalid, "Neither old nor new names may be empty");
    let error = root.engine.container_rename(&id, "taken").expect_err("its own name");
    assert!(error.message().contains("same name as its current name"), "{error}");
    fails(root.engine.container_inspect("", false), ErrorKind::Invalid, "invalid name or ID supplied");
    assert_eq!(fingerprint(&root.engine), before);
}

#[test]
fn an_ambiguous_prefix_is_refused() {
    let root = Root::new();
    let mut first = std::collections::BTreeMap::new();
    // Seventeen ids share a first digit by force.
    for _ in 0..17 {
        let id = root.create("", body(&["true"], json!({})));
        if let Some(other) = first.insert(id.as_bytes()[0], id.clone()) {
            let prefix = &id[..1];
            let error = root.engine.container_inspect(prefix, false).expect_err("ambiguous");
            assert!(error.message().contains(&format!("Multiple IDs found with provided prefix: {prefix}")), "{error}");
            assert_eq!(root.inspect(&other[..20]).id, other);
            return;
        }
    }
}

#[test]
fn bad_create_bodies() {
    let root = Root::new();
    let before = fingerprint(&root.engine);
    let create = |more: serde_json::Value| root.try_create("", body(&["true"], more));
    let host = |config: serde_json::Value| create(json!({ "HostConfig": config }));
    let invalid = ErrorKind::Invalid;
    fails(create(json!({ "Image": "nosuch" })), ErrorKind::NotFound, "No such image: nosuch:latest");
    fails(create(json!({ "Image": "Upper" })), invalid, "invalid reference format");
    fails(create(json!({ "Image": "a b" })), invalid, "invalid reference format");
    fails(create(json!({ "Entrypoint": [""], "Cmd": null })), invalid, "No command specified");
    fails(
        create(json!({ "WorkingDir": "rel" })),
        invalid,
        "the working directory 'rel' is invalid, it needs to be an absolute path",
    );
    fails(create(json!({ "StopSignal": "FOO" })), invalid, "Invalid signal: FOO");
    fails(create(json!({ "Env": ["=x"] })), invalid, "invalid environment variable: =x");
    fails(host(json!({ "Memory": 1000 })), invalid, "Minimum memory limit allowed is 6MB");
    fails(
        host(json!({ "MemorySwap": 1 << 30 })),
        invalid,
        "You should always set the Memory limit when using Memoryswap limit",
    );
    fails(
        host(json!({ "Memory": 64 << 20, "MemorySwap": 32 << 20 })),
        invalid,
        "Minimum memoryswap limit should be larger than memory limit",
    );
    fails(host(json!({ "MemorySwappiness": 101 })), invalid, "valid memory swappiness range is 0-100");
    fails(host(json!({ "CpuPeriod": 10 })), invalid, "CPU cfs period can not be less than 1ms");
    fails(host(json!({ "CpuQuota": 10 })), invalid, "CPU cfs quota can not be less than 1ms");
    fails(host(json!({ "CpusetCpus": "zz" })), invalid, "Invalid value zz for cpuset cpus");
    fails(host(json!({ "CpusetCpus": "900" })), invalid, "Requested CPUs are not available - requested 900");
    fails(host(json!({ "OomScoreAdj": 2000 })), invalid, "range for oom score adj is [-1000, 1000]");
    fails(host(json!({ "ShmSize": -1 })), invalid, "SHM size can not be less than 0");
    fails(host(json!({ "Runtime": "odd" })), invalid, "Unknown runtime specified odd");
    fails(host(json!({ "RestartPolicy": { "Name": "maybe" } })), invalid, "invalid restart policy 'maybe'");
    fails(
        host(json!({ "RestartPolicy": { "Name": "always", "MaximumRetryCount": 3 } })),
        invalid,
        "maximum retry count cannot be used with restart policy 'always'",
    );
    fails(
        host(json!({ "RestartPolicy": { "Name": "on-failure", "MaximumRetryCount": -1 } })),
        invalid,
        "maximum retry count cannot be negative",
    );
    let none = "logger: no log driver named 'nosuch' is registered";
    fails(host(json!({ "LogConfig": { "Type": "nosuch" } })), invalid, none);
    fails(
        host(json!({ "LogConfig": { "Type": "json-file", "Config": { "zz": "1" } } })),
        invalid,
        "unknown log opt 'zz' for json-file log driver",
    );
    fails(host(json!({ "LogConfig": { "Type": "json-file", "Config": { "max-file": "0" } } })), invalid, "max-file");
    fails(host(json!({ "CapAdd": ["FLY"] })), invalid, "unknown capability");
    fails(host(json!({ "NetworkMode": "container:" })), invalid, "invalid container format container:<name|id>");
    // The status of these (500) is dockerd's.
    let internal = ErrorKind::Internal;
    fails(host(json!({ "Binds": ["relative:"] })), internal, "invalid volume specification: 'relative:'");
    fails(host(json!({ "Binds": ["/a:relative"] })), internal, "'relative' mount path must be absolute");
    assert_eq!(fingerprint(&root.engine), before);
}

#[test]
fn conflicting_states() {
    let root = Root::new();
    let e = &root.engine;
    let op = soon();
    let created = root.create("created", body(&["true"], json!({})));
    let conflict = ErrorKind::Conflict;
    let not_running = format!("{created} is not running");
    fails(e.container_pause(&created), conflict, "is not running");
    fails(e.container_kill(&created, None, Some(&op)), conflict, "is not running");
    fails(e.container_top(&created, ""), conflict, "is not running");
    fails(e.container_resize(&created, 1, 1), conflict, "is not running");
    let config = ExecConfig { cmd: Some(vec!["true".into()]), ..ExecConfig::default() };
    fails(e.exec_create(&created, &config), conflict, &not_running);
    let error = e.container_unpause(&created).expect_err("not paused");
    assert!(error.message().contains("is not"), "{error}");

    let id = root.sleeper("running");
    e.container_pause(&id).expect("pause");
    fails(e.container_pause(&id), conflict, "is already paused");
    fails(e.container_start(&id, None, Some(&op)), conflict, "cannot start a paused container, try unpause instead");
    fails(e.exec_create(&id, &config), conflict, "is paused, unpause the container before exec");
    fails(
        e.container_attach(&id, Io::default(), AttachOptions::default(), Some(&op)),
        conflict,
        "is paused, unpause the container before attach",
    );
    e.container_unpause(&id).expect("unpause");
    let error = e.container_unpause(&id).expect_err("not paused");
    assert!(error.message().contains(&format!("Container {id} is not paused")), "{error}");
    fails(e.container_kill(&id, Some("NOSUCH"), Some(&op)), ErrorKind::Invalid, "Invalid signal: NOSUCH");
    fails(e.container_kill(&id, Some("0"), Some(&op)), ErrorKind::Invalid, "Invalid signal: 0");
    fails(e.exec_create(&id, &ExecConfig::default()), ErrorKind::Invalid, "No exec command specified");
    fails(
        e.container_remove(&id, RemoveContainer::default(), Some(&op)),
        conflict,
        "You cannot remove a running container",
    );
    assert_eq!(root.status(&id), "running");
    let neither = LogQuery { stdout: false, stderr: false, ..LogQuery::default() };
    fails(e.container_logs(&id, &neither, Some(&op)), ErrorKind::Invalid, "you must choose at least one stream");
}

#[test]
fn images_in_the_wrong() {
    let root = Root::new();
    let e = &root.engine;
    let id = root.create("user-of-it", body(&["true"], json!({})));
    let before = fingerprint(e);
    fails(e.image_inspect("nosuch"), ErrorKind::NotFound, "o such image: nosuch");
    fails(e.image_history("nosuch"), ErrorKind::NotFound, "o such image: nosuch");
    fails(e.image_tag("nosuch", "a:b"), ErrorKind::NotFound, "o such image: nosuch");
    let error = e.image_tag(IMAGE, "Upper:tag").expect_err("a bad name");
    assert!(error.message().contains("invalid reference format"), "{error}");
    let error = e.image_tag(IMAGE, "x:bad tag").expect_err("a bad tag");
    assert!(error.message().contains("invalid"), "{error}");
    fails(e.image_remove("nosuch", RemoveImage::default()), ErrorKind::NotFound, "No such image: nosuch:latest");
    fails(
        e.image_remove(IMAGE, RemoveImage::default()),
        ErrorKind::Conflict,
        &format!("unable to remove repository reference \"busybox\" (must force) - container {} is using", &id[..12]),
    );
    fails(e.image_save(&["nosuch".into()], &mut Vec::new(), Some(&soon())), ErrorKind::NotFound, "nosuch");
    assert_eq!(fingerprint(e), before);
}

#[test]
fn archives_that_lie() {
    let root = Root::empty();
    let good = std::fs::read(busybox_archive()).expect("the archive");
    let load = |bytes: &[u8]| root.engine.image_load(&mut &bytes[..], &mut |_| Ok(()), Some(&soon()));
    let refused = |what: &str, bytes: &[u8]| {
        let error = load(bytes).err().unwrap_or_else(|| panic!("{what} was loaded"));
        assert!(!error.message().is_empty());
        assert!(fingerprint(&root.engine).is_empty(), "{what} left an image");
        let layers: Vec<_> = std::fs::read_dir(root.dir.join("root/layers")).into_iter().flatten().flatten().collect();
        assert!(layers.is_empty(), "{what} left layers: {layers:?}");
        let staged: Vec<_> = std::fs::read_dir(root.dir.join("root/tmp")).into_iter().flatten().flatten().collect();
        assert!(staged.is_empty(), "{what} left staging: {staged:?}");
    };
    refused("nothing", b"");
    refused(
        "text",
        b"this is no archive, and longer than one block of five hundred and twelve bytes".repeat(20).as_slice(),
    );
    refused("half of it", &good[..good.len() / 2]);
    refused("its first block", &good[..512]);
    // One byte of the layer is changed: the digest must show it.
    let mut bad = good.clone();
    let at = good.len() / 2;
    bad[at] ^= 1;
    refused("a changed layer", &bad);
    load(&good).expect("the good one still loads");
}

/// An OCI layout archive `name` of one layer; `change` may spoil its parts: (path, content).
fn oci_image(name: &str, layer: &[u8], change: impl Fn(&str, &mut Vec<u8>)) -> Vec<u8> {
    let mut files = Vec::new();
    let mut blob = |kind: &str, data: Vec<u8>| {
        let digest = archive::sha256(&data);
        let descriptor = json!({ "digest": format!("sha256:{digest}"), "size": data.len(), "mediaType": kind });
        files.push((format!("blobs/sha256/{digest}"), data));
        descriptor
    };
    let config = archive::config(json!({}), &[format!("sha256:{}", archive::sha256(layer))]);
    let layer = blob("application/vnd.oci.image.layer.v1.tar", layer.to_vec());
    let config = blob("application/vnd.oci.image.config.v1+json", config.into_bytes());
    let manifest = json!({ "schemaVersion": 2, "config": config, "layers": [layer] }).to_string().into_bytes();
    let mut manifest = blob("application/vnd.oci.image.manifest.v1+json", manifest);
    manifest["annotations"] = json!({ "org.opencontainers.image.ref.name": name });
    let index = json!({ "schemaVersion": 2, "manifests": [manifest] }).to_string();
    files.push(("index.json".into(), index.into_bytes()));
    // The entry that everything needs comes last, so that no cut archive is complete.
    files.insert(0, ("oci-layout".into(), br#"{"imageLayoutVersion":"1.0.0"}"#.to_vec()));
    let mut tar = Tar::new();
    for ((path, mut data), part) in files.into_iter().zip(["layout", "layer", "config", "manifest", "index"]) {
        change(part, &mut data);
        if !data.is_empty() {
            tar = tar.file(&path, &data);
        }
    }
    tar.end()
}

#[test]
fn archives_whose_digests_are_wrong() {
    let root = Root::empty();
    let layer = Tar::new().file("f", b"content").end();
    let load = |bytes: &[u8]| root.engine.image_load(&mut &bytes[..], &mut |_| Ok(()), Some(&soon()));
    load(&oci_image("good/one:1", &layer, |_, _| {})).expect("the good one");
    root.engine.image_remove("good/one:1", RemoveImage::default()).expect("remove it");
    let spoil = |part: &'static str| {
        oci_image("bad/one:1", &layer, move |at, data| {
            if at == part {
                // In a string of the document, and in the content of the layer's file: both can still be parsed.
                let at = if part == "layer" { 512 } else { data.iter().position(|&b| b == b's').expect("a letter") };
                data[at] ^= 1;
            }
        })
    };
    let lost = |part: &'static str| {
        oci_image("bad/one:1", &layer, move |at, data| {
            if at == part {
                data.clear();
            }
        })
    };
    let digest = "has the digest sha256:";
    fails(load(&spoil("layer")), ErrorKind::Invalid, digest);
    fails(load(&spoil("config")), ErrorKind::Invalid, digest);
    fails(load(&spoil("manifest")), ErrorKind::Invalid, digest);
    fails(load(&lost("layer")), ErrorKind::Invalid, "is missing");
    fails(load(&lost("config")), ErrorKind::Invalid, "is missing");
    fails(load(&lost("manifest")), ErrorKind::Invalid, "is missing");
    fails(load(&lost("index")), ErrorKind::Invalid, "holds no images");
    // In docker's layout: a layer that the configuration does not name, and a configuration with a wrong name.
    let whole = archive::files(&archive::image("bad/one:1", &[&layer]));
    let with = |path: &str, data: &[u8]| {
        let mut files = whole.clone();
        files.insert(path.into(), data.to_vec());
        archive::tar_of(&files)
    };
    let other = Tar::new().file("f", b"another").end();
    fails(load(&with("0/layer.tar", &other)), ErrorKind::Invalid, "invalid diffID for layer 0: expected");
    let config = whole.keys().find(|path| path.len() == 69).expect("the configuration").clone();
    let changed = archive::config(json!({ "Cmd": ["y"] }), &[format!("sha256:{}", archive::sha256(&layer))]);
    fails(load(&with(&config, changed.as_bytes())), ErrorKind::Invalid, digest);
    fails(load(&with("manifest.json", b"{")), ErrorKind::Invalid, "manifest.json");
    for (manifest, text) in [
        (json!([{ "Config": "nosuch.json", "Layers": ["0/layer.tar"] }]), "nosuch.json"),
        (json!([{ "Config": config, "Layers": [] }]), "layers length mismatch: expected 0, got 1"),
        (json!([{ "Config": config, "Layers": ["nosuch/layer.tar"] }]), "is missing"),
        (json!([{ "Config": "../../etc/passwd", "Layers": ["0/layer.tar"] }]), "leaves the archive's root"),
        (json!([{ "Config": config, "Layers": ["../../../etc/passwd"] }]), "leaves the archive's root"),
        (json!([{ "Config": config, "Layers": ["0/layer.tar"], "RepoTags": ["Bad Name"] }]), "invalid tag"),
        (json!([{ "Config": config, "Layers": [config] }]), ""),
    ] {
        fails(load(&with("manifest.json", manifest.to_string().as_bytes())), ErrorKind::Invalid, text);
    }
    assert!(fingerprint(&root.engine).is_empty());
    for dir in ["root/layers", "root/tmp"] {
        let left = std::fs::read_dir(root.dir.join(dir)).expect("read it").count();
        assert_eq!(left, 0, "{dir} is not empty");
    }
}

#[test]
fn archives_that_end_too_early() {
    let root = Root::empty();
    let layer = Tar::new().file("f", &[7; 5000]).file("g", &[8; 700]).end();
    for whole in [archive::image("cut/one:1", &[&layer]), oci_image("cut/one:1", &layer, |_, _| {})] {
        // The end mark is 1024 bytes; an archive without it is whole, as tar readers have it.
        for end in (0..whole.len() - 1024).step_by(256) {
            let cut = &whole[..end];
            let loaded = root.engine.image_load(&mut &cut[..], &mut |_| Ok(()), Some(&soon()));
            let Err(error) = loaded else { panic!("{end} of {} bytes were loaded", whole.len()) };
            assert_eq!(error.kind(), ErrorKind::Invalid, "{end} bytes: {error}");
        }
    }
    assert!(fingerprint(&root.engine).is_empty());
    for dir in ["root/layers", "root/tmp"] {
        let left = std::fs::read_dir(root.dir.join(dir)).expect("read it").count();
        assert_eq!(left, 0, "{dir} is not empty");
    }
}

#[test]
fn archives_that_try_to_get_out() {
    let root = Root::empty();
    let target = root.dir.join("outside");
    std::fs::create_dir(&target).expect("mkdir");
    std::fs::write(target.join("secret"), "s").expect("write");
    let out = target.display().to_string();
    let up = format!("{}{out}", "../".repeat(20).trim_end_matches('/'));
    let (out_new, up_new) = (format!("{out}/new"), format!("{up}/new"));
    let (out_secret, up_secret) = (format!("{out}/secret"), format!("{up}/secret"));
    let tar = Tar::new;
    // Refused requests, and requests that stay inside: an absolute name is one in the layer, as a link's target is in a
    // container.
    let refused = [
        ("dots", tar().file(&up_new, b"x")),
        ("dots behind a directory", tar().dir("a").file(&format!("a/../..{out_new}"), b"x")),
        ("a hard link by dots", tar().hard_link("hard", &up_secret)),
        ("an absolute hard link", tar().hard_link("hard", &out_secret)),
        ("a hard link through a link", tar().symlink("link", "/").hard_link("hard", &format!("link{out_secret}"))),
        ("a hard link to a link out", tar().symlink("link", &out).hard_link("hard", "link/secret")),
        ("a whiteout by dots", tar().file(&format!("{up}/.wh.secret"), b"")),
        ("a directory by dots", tar().dir(&up_new)),
        ("a link by dots", tar().symlink(&up_new, "x")),
    ];
    let inside = [
        ("an absolute name", tar().file(&out_new, b"x")),
        ("an absolute directory", tar().dir(&out).file(&out_new, b"x")),
        ("a link of its own", tar().dir("real").symlink("link", "real").file("link/new", b"x")),
        ("a link that is replaced", tar().symlink("link", &out).dir("link").file("link/new", b"x")),
        ("a file in a link's place", tar().symlink("new", &out_secret).file("new", b"x")),
        ("a whiteout of an absolute name", tar().file(&format!("{out}/.wh.secret"), b"")),
    ];
    // Through a link that leads out the kernel resolves inside of the layer, where nothing is.
    let either = [
        ("a link", tar().symlink("link", &out).file("link/new", b"x")),
        ("a link by dots", tar().symlink("link", &up).file("link/new", b"x")),
        ("a chain of links", tar().symlink("a", "/").symlink("b", "a").file(&format!("b{out_new}"), b"x")),
        ("a whiteout through a link", tar().symlink("link", &out).file("link/.wh.secret", b"")),
        ("an opaque mark through a link", tar().symlink("link", &out).file("link/.wh..wh..opq", b"")),
    ];
    let load = |tar: Tar| {
        let bytes = archive::image("evil:latest", &[&tar.end()]);
        let loaded = root.engine.image_load(&mut &bytes[..], &mut |_| Ok(()), Some(&soon()));
        if loaded.is_ok() {
            root.engine.image_remove("evil", RemoveImage::default()).expect("remove it");
        }
        loaded
    };
    let untouched = |what: &str| {
        let names: Vec<_> = std::fs::read_dir(&target).expect("the target").flatten().map(|e| e.file_name()).collect();
        assert_eq!(names, ["secret"], "{what} got out");
        let secret = std::fs::metadata(target.join("secret")).expect("the secret");
        assert_eq!((std::os::unix::fs::MetadataExt::nlink(&secret), secret.len()), (1, 1), "{what} got out");
    };
    for (what, tar) in refused {
        let error = load(tar).err().unwrap_or_else(|| panic!("{what} was taken"));
        assert_eq!(error.kind(), ErrorKind::Invalid, "{what}: {error}");
        untouched(what);
    }
    for (what, tar) in inside {
        load(tar).unwrap_or_else(|e| panic!("{what}: {e}"));
        untouched(what);
    }
    for (what, tar) in either {
        if let Err(error) = load(tar) {
            assert_eq!(error.kind(), ErrorKind::Invalid, "{what}: {error}");
        }
        untouched(what);
    }
    assert!(fingerprint(&root.engine).is_empty());
}

#[test]
fn a_root_that_cannot_be_one() {
    let dir = temp_dir();
    let file = dir.join("file");
    std::fs::write(&file, "x").expect("write");
    let error = Engine::open(file.join("root")).err().expect("a file in the way");
    assert!(error.message().contains("file"), "{error}");
    // A database of a newer library.
    let options = options_at(&dir);
    drop(Engine::open_with(options.clone()).expect("open"));
    let db = rusqlite::Connection::open(dir.join("root/coracle.db")).expect("the store");
    db.pragma_update(None, "user_version", 9999).expect("set the version");
    drop(db);
    let error = Engine::open_with(options).err().expect("a newer store");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.message().contains("newer than this library"), "{error}");
    std::fs::remove_dir_all(&dir).expect("clean up");
}

#[test]
fn documents_with_wrong_types() {
    for bad in [
        json!({ "Image": 5 }),
        json!({ "Image": "x", "Cmd": 5 }),
        json!({ "Image": "x", "Env": "A=1" }),
        json!({ "Image": "x", "Tty": "yes" }),
        json!({ "Image": "x", "HostConfig": { "Memory": "much" } }),
        json!({ "Image": "x", "HostConfig": [] }),
        json!({ "Image": "x", "HostConfig": { "Binds": "/a:/b" } }),
        json!({ "Image": "x", "Labels": ["a"] }),
    ] {
        assert!(serde_json::from_value::<CreateBody>(bad.clone()).is_err(), "{bad} was taken");
    }
    // Null is absent.
    let body: CreateBody =
        serde_json::from_value(json!({ "Image": "x", "Cmd": null, "HostConfig": null, "Labels": null,
        "Env": null, "Tty": null }))
        .expect("nulls");
    assert_eq!(body.config.cmd, None);
}
