//! Build files and contexts of an attacker.

use crate::canary::{Canary, SECRET};
use crate::images::Image;
use crate::support::archive::{Tar, sha256};
use crate::support::ended::Ended;
use crate::support::registry::{Answered, Scripted};
use crate::support::*;
use coracle::Context;
use coracle::model::{BuildImage, Progress};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

/// Builds from a context with this build file; returns the image's id or the error.
fn build(root: &Root, file: &str, context: Tar) -> Result<String, String> {
    let bytes = context.file("Dockerfile", file.as_bytes()).end();
    let how = BuildImage::default();
    let built = root.engine.image_build(&how, Context::Tar(&mut &bytes[..]), &mut |_| Ok(()), Some(&soon()));
    built.map_err(|error| error.message().to_owned())
}

// attack: 34, 105 wall build-paths
// attack: 96 wall ignore-files
#[test]
fn copies_of_a_build_stay_in_its_image() {
    let root = Root::new();
    let canary = Canary::new(&root);
    let layer = Tar::new().symlink("absolute", &canary.path("")).symlink("climbing", &canary.climb(""));
    Image::new().layer(layer).load(&root, "base");
    for link in ["absolute", "climbing"] {
        for step in [
            format!("COPY f /{link}/new/f"),
            format!("COPY f /{link}/passwd"),
            format!("ADD f /{link}/"),
            format!("WORKDIR /{link}/a/b\nCOPY f ."),
            format!("COPY f /x/../../../../{link}/f"),
        ] {
            let built = build(&root, &format!("FROM base\n{step}\n"), Tar::new().file("f", b"evil"));
            canary.untouched();
            let _ = built.map(|image| {
                let inside = json!({ "Image": image, "Entrypoint": [""], "Cmd": ["true"] });
                root.run(&["true"], inside, b"").ok()
            });
        }
        let stolen =
            build(&root, &format!("FROM base AS a\nFROM base\nCOPY --from=a /{link}/passwd /stolen\n"), Tar::new());
        canary.untouched();
        if let Ok(image) = stolen {
            let text = root.run(&["cat", "/stolen"], json!({ "Image": image }), b"").out();
            assert!(!text.contains(SECRET));
        }
    }
    let context = Tar::new().symlink("out", &canary.path("")).symlink(".dockerignore", &canary.path("passwd"));
    let built = build(&root, "FROM base\nCOPY out/passwd /stolen\n", context);
    assert!(built.is_err(), "a link of the context led out: {built:?}");
    canary.untouched();
}

/// Like [`build`], with any request; returns what was told, too.
fn build_with_output(root: &Root, how: &BuildImage, file: &str, context: Tar) -> (coracle::Result<String>, String) {
    let bytes = context.file("Dockerfile", file.as_bytes()).end();
    let mut told = String::new();
    let mut tell = |message: Progress| {
        told.push_str(&message.stream);
        told.push_str(&message.status);
        Ok(())
    };
    let built = root.engine.image_build(how, Context::Tar(&mut &bytes[..]), &mut tell, Some(&soon()));
    (built, told)
}

/// An image that was loaded says that it is a step on another one, or on nothing. A build that comes to such a step takes it
/// itself.
// attack: 106 wall build-cache
#[test]
fn a_build_takes_no_loaded_image_as_cache() {
    let root = Root::new();
    let file = "FROM busybox\nRUN echo own > /made\n";
    // The result of a build of that file, on another machine.
    let other = Root::new();
    let (made, _) = build_with_output(&other, &BuildImage::default(), file, Tar::new());
    let made = made.expect("build");
    other.engine.image_tag(&made, "made").expect("tag");
    let (mut saved, base) = (Vec::new(), other.engine.image_inspect("busybox").expect("inspect"));
    other.engine.image_save(&["made".into()], &mut saved, None).expect("save");
    // The attacker's layer takes the place of the made one; and the archive says whose child it is.
    let mut files = archive_files(&saved);
    let manifest: Value = serde_json::from_slice(&files["manifest.json"]).expect("a manifest");
    let config_name = manifest[0]["Config"].as_str().expect("a name").to_owned();
    let mut config: Value = serde_json::from_slice(&files[&config_name]).expect("a configuration");
    let evil = Tar::new().file("made", b"evil\n").end();
    config["rootfs"]["diff_ids"][1] = json!(format!("sha256:{}", sha256(&evil)));
    let config = config.to_string();
    let name = format!("{}.json", sha256(config.as_bytes()));
    let lower = manifest[0]["Layers"][0].as_str().expect("a layer").to_owned();
    let lower = files.remove(&lower).expect("the layer");
    let forged = |parent: &str, tag: &str| {
        let manifest = json!([{ "Config": name, "RepoTags": [tag], "Layers": ["a.tar", "b.tar"], "Parent": parent }]);
        let tar = Tar::new().file(&name, config.as_bytes()).file("a.tar", &lower).file("b.tar", &evil);
        tar.file("manifest.json", manifest.to_string().as_bytes()).end()
    };
    let archive = forged(&base.id, "forged:1");
    root.engine.image_load(&mut &archive[..], &mut |_| Ok(()), Some(&soon())).expect("load");
    let forged = root.engine.image_inspect("forged:1").expect("inspect");
    assert_eq!(root.engine.image_inspect("busybox").expect("inspect").id, base.id, "one base for both");
    let (built, said) = build_with_output(&root, &BuildImage::default(), file, Tar::new());
    let built = built.expect("build");
    assert!(!said.contains("Using cache") && built != forged.id, "{said}");
    assert_eq!(root.run(&["cat", "/made"], json!({ "Image": built }), b"").ok(), "own");

    // On nothing: an image of one step that has no parent.
    let layer = Tar::new().file("f", b"evil").end();
    let (scratch, _) =
        build_with_output(&other, &BuildImage::default(), "FROM scratch\nCOPY f /\n", Tar::new().file("f", b"own"));
    other.engine.image_tag(&scratch.expect("build"), "scratch-made").expect("tag");
    let mut saved = Vec::new();
    other.engine.image_save(&["scratch-made".into()], &mut saved, None).expect("save");
    let files = archive_files(&saved);
    let manifest: Value = serde_json::from_slice(&files["manifest.json"]).expect("a manifest");
    let mut config: Value =
        serde_json::from_slice(&files[manifest[0]["Config"].as_str().expect("a name")]).expect("a configuration");
    config["rootfs"]["diff_ids"] = json!([format!("sha256:{}", sha256(&layer))]);
    let config = config.to_string();
    let name = format!("{}.json", sha256(config.as_bytes()));
    let manifest = json!([{ "Config": name, "RepoTags": ["nothing:1"], "Layers": ["a.tar"] }]).to_string();
    let tar =
        Tar::new().file(&name, config.as_bytes()).file("a.tar", &layer).file("manifest.json", manifest.as_bytes());
    root.engine.image_load(&mut &tar.end()[..], &mut |_| Ok(()), Some(&soon())).expect("load");
    let (built, said) =
        build_with_output(&root, &BuildImage::default(), "FROM scratch\nCOPY f /\n", Tar::new().file("f", b"own"));
    assert!(built.is_ok() && !said.contains("Using cache"), "{said}");
    // The twin: what was built here is a cache, and what the request names is.
    let (_, said) = build_with_output(&root, &BuildImage::default(), file, Tar::new());
    assert!(said.contains("Using cache"), "{said}");
    let how = BuildImage { cachefrom: vec!["nothing:1".into()], ..BuildImage::default() };
    let (_, said) = build_with_output(&root, &how, "FROM scratch\nCOPY f /\n", Tar::new().file("f", b"own"));
    assert!(said.contains("Using cache"), "{said}");
    // A change of a health check or of a trigger is another step.
    for (one, other) in [("HEALTHCHECK CMD a", "HEALTHCHECK CMD b"), ("ONBUILD RUN a", "ONBUILD RUN b")] {
        let build = |step: &str| {
            build_with_output(&root, &BuildImage::default(), &format!("FROM busybox\n{step}\n"), Tar::new()).1
        };
        build(one);
        assert!(build(one).contains("Using cache") && !build(other).contains("Using cache"), "{one}");
    }
}

fn archive_files(archive: &[u8]) -> std::collections::BTreeMap<String, Vec<u8>> {
    crate::support::archive::files(archive)
}

/// Of the host program's environment nothing comes into a step, an image or what is told.
// attack: 95 wall build-environment
#[test]
fn no_variable_of_the_host_comes_into_a_build() {
    let root = Root::new();
    let file = "FROM busybox\nARG CANARY_SECRET\nARG PATH_OF=$CANARY_SECRET\nENV a=$CANARY_SECRET\n\
        RUN env > /env; echo \"<$CANARY_SECRET>\" >> /env\nRUN cat /proc/self/environ >> /env; cat /env\n";
    let tar = Tar::new().file("Dockerfile", file.as_bytes()).end();
    let mut command = Command::new(built("coracle"));
    command.arg("--root").arg(root.dir.join("root")).arg("--run").arg(root.dir.join("run"));
    command.args(["build", "-t", "built", "-"]).env("CANARY_SECRET", "s3cr3t-of-the-host");
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("coracle");
    child.stdin.take().expect("its input").write_all(&tar).expect("send");
    let output = child.wait_with_output().expect("its output");
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    // The steps ran and showed their variables.
    assert!(output.status.success() && said.contains("PATH=") && said.contains("<>"), "{said}");
    assert!(!said.contains("s3cr3t-of-the-host"), "{said}");
    let history = format!("{:?}", root.engine.image_history("built").expect("history"));
    let detail = format!("{:?}", root.engine.image_inspect("built").expect("inspect"));
    assert!(!history.contains("s3cr3t") && !detail.contains("s3cr3t"));
    assert_eq!(root.run(&["grep", "-c", "s3cr3t", "/env"], json!({ "Image": "built" }), b"").out(), "0");
}

/// An ignore file that is a link to a file of the host is not read, and no error tells of a path of the host.
// attack: 96 wall ignore-files
#[test]
fn ignore_files_and_errors_tell_nothing_of_the_host() {
    let root = Root::new();
    let canary = Canary::new(&root);
    for target in [canary.path("passwd"), canary.climb("passwd"), "/proc/self/environ".into(), "Dockerfile".into()] {
        let context = Tar::new().symlink(".dockerignore", &target).file("f", b"f");
        let (built, _) = build_with_output(&root, &BuildImage::default(), "FROM scratch\nCOPY . /all/\n", context);
        canary.untouched();
        let image = built.expect("a link is not an ignore file");
        let id = root.create("", json!({ "Image": image, "Cmd": ["x"] }));
        let mut tar = Vec::new();
        root.engine.container_export(&id, &mut tar, Some(&soon())).expect("export");
        assert!(!tar.windows(SECRET.len()).any(|window| window == SECRET.as_bytes()));
    }
    // A directory of the host as the context.
    let dir = root.dir.join("context");
    std::fs::create_dir(&dir).expect("mkdir");
    std::fs::write(dir.join("Dockerfile"), "FROM scratch\nCOPY . /\n").expect("write");
    std::os::unix::fs::symlink(canary.path("passwd"), dir.join(".dockerignore")).expect("link");
    let how = BuildImage::default();
    let built = root.engine.image_build(&how, Context::Directory(&dir), &mut |_| Ok(()), Some(&soon()));
    canary.untouched();
    built.expect("build");
    let here = root.dir.display().to_string();
    let mut errors = 0;
    for step in
        ["COPY no /", "COPY f /f/g", "ADD f.tar /", "COPY --from=9 a /", "WORKDIR /f", "COPY ../x /", "RUN exit 3"]
    {
        let file = format!("FROM busybox\nCOPY f /f\n{step}\n");
        let context = Tar::new().file("f", b"f").file("f.tar", &[&b"\x1f\x8b"[..], &[9; 600]].concat());
        let (built, said) = build_with_output(&root, &BuildImage::default(), &file, context);
        let text = built.err().map(|error| error.to_string()).unwrap_or_default();
        errors += usize::from(!text.is_empty());
        assert!(!text.contains(&here) && !said.contains(&here), "{step}: {text} {said}");
    }
    assert!(errors >= 5, "{errors}");
}

/// A user and a password in an address go to the server of the address, and nowhere else.
// attack: 97 wall url-secrets
#[test]
fn passwords_of_addresses_are_told_to_their_server_alone() {
    let root = Root::new();
    let server = Scripted::start(|asked| match asked.target.as_str() {
        "/file" => Answered::new(200, "content"),
        _ => Answered::new(404, "nothing"),
    });
    let address = |path: &str| format!("http://sailor:s3cr3t-word@{}{path}", server.host());
    let add = |path: &str| format!("FROM scratch\nARG where=/f\nADD {} $where\n", address(path));
    let how = BuildImage { buildargs: [("where".to_owned(), Some("/g".to_owned()))].into(), ..BuildImage::default() };
    let (built, _) = build_with_output(&root, &how, &add("/file"), Tar::new());
    let image = built.expect("build");
    assert_eq!(server.asked_for("/file")[0].header("authorization"), "Basic c2FpbG9yOnMzY3IzdC13b3Jk");
    let (failed, _) = build_with_output(&root, &how, &add("/none"), Tar::new());
    assert!(!server.asked_for("/none").is_empty());
    let mut texts = vec![format!("{:?}", failed.expect_err("there is no such file"))];
    for remote in [address("/none"), format!("{}.git", address("/x")), "ftp://sailor:s3cr3t-word@x/".into()] {
        let how = BuildImage { remote, ..BuildImage::default() };
        let failed = root.engine.image_build(&how, Context::None, &mut |_| Ok(()), Some(&soon()));
        texts.push(format!("{:?}", failed.expect_err("nothing to build")));
    }
    texts.push(format!("{:?}", root.engine.image_history(&image).expect("history")));
    texts.push(format!("{:?}", root.engine.image_inspect(&image).expect("inspect")));
    for text in texts {
        assert!(!text.contains("s3cr3t"), "{text}");
    }
    // Every file of the root: database, journal, layers, what is temporary.
    let mut left = vec![root.dir.join("root"), root.dir.join("run")];
    let mut files = 0;
    while let Some(dir) = left.pop() {
        for entry in std::fs::read_dir(&dir).expect("list").flatten() {
            let (path, kind) = (entry.path(), entry.file_type().expect("its kind"));
            if kind.is_dir() {
                left.push(path);
            } else if kind.is_file() {
                files += 1;
                let bytes = std::fs::read(&path).expect("read");
                assert!(!bytes.windows(11).any(|window| window == b"s3cr3t-word"), "{}", path.display());
            }
        }
    }
    assert!(files > 3);
}

/// Temporary files lie in the root's own directory, under names that nobody else can take first.
// attack: 94 wall own-temporary
#[test]
fn nothing_is_made_in_a_directory_that_others_write() {
    use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
    let root = Root::new();
    root.create("box", body(&["true"], json!({})));
    let shared = root.dir.join("shared");
    std::fs::create_dir(&shared).expect("mkdir");
    let watch = Inotify::init(InitFlags::IN_NONBLOCK).expect("inotify");
    let flags = AddWatchFlags::IN_CREATE | AddWatchFlags::IN_OPEN | AddWatchFlags::IN_MOVED_TO;
    watch.add_watch(&shared, flags).expect("watch");
    let run = |words: &[&str], input: &[u8]| {
        let mut command = Command::new(built("coracle"));
        command.arg("--root").arg(root.dir.join("root")).arg("--run").arg(root.dir.join("run")).args(words);
        for name in ["TMPDIR", "TMP", "TEMP", "SQLITE_TMPDIR", "HOME"] {
            command.env(name, &shared);
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("coracle");
        child.stdin.take().expect("its input").write_all(input).expect("send");
        assert!(child.wait().expect("wait").success(), "{words:?}");
    };
    let files = Tar::new().file("f", b"content").end();
    let context = Tar::new()
        .file("Dockerfile", b"FROM busybox\nCOPY <<a /b\ntext\na\nADD a.tar /x\nRUN true\n")
        .file("a.tar", &files)
        .end();
    run(&["load", "-q"], &Image::new().archive("plain"));
    run(&["import", "-", "files:1"], &files);
    run(&["cp", "-", "box:/tmp"], &files);
    run(&["build", "-q", "-"], &context);
    run(&["images"], b"");
    let seen: Vec<_> =
        watch.read_events().unwrap_or_default().into_iter().map(|event| (event.name, event.mask)).collect();
    assert!(seen.is_empty(), "{seen:?}");
}

/// Documents inside the build file are not files of the context, nor of the next step's.
// attack: 107 wall documents-apart
#[test]
fn a_context_does_not_have_the_documents_of_a_build_file() {
    let root = Root::new();
    let file = "FROM busybox\nCOPY <<secret /one/\ns3cr3t\nsecret\nCOPY . /all/\nRUN ls -A /all /one > /list\n";
    let (built, _) = build_with_output(&root, &BuildImage::default(), file, Tar::new().file("f", b"f"));
    let list = root.run(&["cat", "/list"], json!({ "Image": built.expect("build") }), b"").ok();
    assert_eq!(list.split_whitespace().collect::<Vec<_>>(), ["/all:", "Dockerfile", "f", "/one:", "secret"]);
    // A directory of the host as the context stays as it is.
    let dir = root.dir.join("context");
    std::fs::create_dir(&dir).expect("mkdir");
    std::fs::write(dir.join("Dockerfile"), file).expect("write");
    let how = BuildImage::default();
    root.engine.image_build(&how, Context::Directory(&dir), &mut |_| Ok(()), Some(&soon())).expect("build");
    let names: Vec<_> = std::fs::read_dir(&dir).expect("list").flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(names, ["Dockerfile"]);
}

/// A step of a build has the default filter, and no request takes it away by a word that nobody knows.
// attack: 103 wall seccomp-default
#[test]
fn a_step_of_a_build_is_confined_whatever_its_request_says() {
    let root = Root::new();
    let file = "FROM busybox\nRUN grep -E '^(Seccomp|CapEff|CapBnd):' /proc/self/status > /status\n";
    let (built, _) = build_with_output(&root, &BuildImage { nocache: true, ..BuildImage::default() }, file, Tar::new());
    let status = root.run(&["cat", "/status"], json!({ "Image": built.expect("build") }), b"").ok();
    let own = root.run(&["grep", "-E", "^(Seccomp|CapEff|CapBnd):", "/proc/self/status"], json!({}), b"").ok();
    assert_eq!(status, own);
    assert!(status.contains("Seccomp:\t2"), "{status}");
    let ways: [(&str, BuildImage); 6] = [
        ("a word", BuildImage { securityopt: vec!["seccomp=none-such".into()], ..BuildImage::default() }),
        ("another word", BuildImage { securityopt: vec!["insecure".into()], ..BuildImage::default() }),
        ("a number", BuildImage { securityopt: vec!["2147483648".into()], ..BuildImage::default() }),
        ("a network", BuildImage { networkmode: "privileged".into(), ..BuildImage::default() }),
        ("limits", BuildImage { cpusetcpus: "-1".into(), ..BuildImage::default() }),
        ("memory", BuildImage { memory: i64::MIN, ..BuildImage::default() }),
    ];
    for (what, how) in ways {
        let (built, said) = build_with_output(&root, &BuildImage { nocache: true, ..how }, file, Tar::new());
        assert!(built.is_err() && !said.contains("Seccomp:"), "{what}: {built:?} {said}");
    }
}

/// `coracle serve` at a socket, which ends with the value.
struct Serving(#[allow(dead_code)] Ended, std::path::PathBuf);

impl Serving {
    fn new(dir: &Path) -> Serving {
        let socket = dir.join("api.sock");
        let mut command = Command::new(built("coracle"));
        command.arg("--root").arg(dir.join("root")).arg("--run").arg(dir.join("run"));
        command.args(["serve", "-H"]).arg(format!("unix://{}", socket.display()));
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("coracle");
        let serving = Serving(Ended(child), socket);
        wait_for("the server", || UnixStream::connect(&serving.1).is_ok());
        serving
    }

    /// The answer to a build with that query, and context.
    fn build(&self, query: &str, header: &str, body: &[u8]) -> String {
        let mut stream = UnixStream::connect(&self.1).expect("connect");
        let head = format!(
            "POST /v1.24/build?{query} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{header}Content-Length: {}\r\n\r\n",
            body.len()
        );
        let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }
}

/// Requests and build files made to end the program: each is answered, and the next build works.
// attack: 104 wall malformed-documents
#[test]
fn crafted_builds_are_answered() {
    let root = Root::new();
    let serving = Serving::new(&root.dir);
    let odd = ["{", "[[[[", "1e999", "\"", "nul", "{\"a\":{}}", "[{\"Name\":1}]", "-", "%FF", "[null", "{\"a\":[1]"];
    let context = Tar::new().file("Dockerfile", b"FROM scratch\nLABEL a=b\n").end();
    for key in ["buildargs", "labels", "ulimits", "securityopt", "cachefrom"] {
        for value in odd {
            let escaped: String = value.bytes().map(|byte| format!("%{byte:02X}")).collect();
            let answer = serving.build(&format!("{key}={escaped}"), "", &context);
            assert!(answer.starts_with("HTTP/1.1 400"), "{key}={value}: {answer:?}");
        }
    }
    for header in ["X-Registry-Config: e30\r\n", "X-Registry-Config: ====\r\n", "X-Registry-Config: W1tb\r\n"] {
        assert!(serving.build("", header, &context).starts_with("HTTP/1.1 "), "{header}");
    }
    for number in ["memory", "memswap", "cpushares", "cpuperiod", "cpuquota", "shmsize"] {
        for value in ["9223372036854775807", "-9223372036854775808", "99999999999999999999", "1e9", "0x7f"] {
            assert!(serving.build(&format!("{number}={value}"), "", &context).starts_with("HTTP/1.1 "), "{number}");
        }
    }
    let files = [
        "",
        "\n",
        "FROM",
        "FROM ",
        "FROM scratch AS",
        "FROM scratch\nCOPY",
        "FROM scratch\nCOPY --from= a b",
        "FROM scratch\nCOPY --chown=:: f /",
        "FROM scratch\nCOPY <<",
        "FROM scratch\nCOPY <<a /\n",
        "#escape=\n",
        "# escape=`\nFROM scratch\nENV a=`",
        "FROM scratch\nENV",
        "FROM scratch\nENV =",
        "FROM scratch\nENV a=\"",
        "FROM scratch\nENV a=${",
        "FROM scratch\nENV a=${b:",
        "FROM scratch\nENV a=${b:-${c:-${d",
        "ONBUILD ONBUILD",
        "FROM scratch\nONBUILD",
        "FROM scratch\nHEALTHCHECK",
        "FROM scratch\nHEALTHCHECK --interval=1",
        "ARG",
        "FROM scratch\nEXPOSE -1/x/y",
        "FROM scratch\nEXPOSE 1-99999999999",
        "FROM scratch\nVOLUME [",
        "FROM ${x}",
        "FROM scratch\nUSER",
        "FROM scratch\nSTOPSIGNAL \u{0}",
        "FROM scratch\nSHELL []",
        "FROM scratch\nCMD [\"",
        "FROM scratch\nRUN --mount=type=bind",
        "FROM scratch\nRUN --security=insecure x",
        "FROM scratch\nADD [] ",
        "FROM scratch\nWORKDIR \u{0}",
        "FROM scratch\n\u{feff}LABEL",
        "\u{feff}FROM scratch\n",
        "FROM scratch\nLABEL \\",
    ];
    for file in files {
        let context = Tar::new().file("Dockerfile", file.as_bytes()).file("f", b"f").end();
        let answer = serving.build("", "", &context);
        assert!(answer.starts_with("HTTP/1.1 "), "{file:?}: {answer:?}");
        let _ = build_with_output(&root, &BuildImage::default(), file, Tar::new().file("f", b"f"));
    }
    assert!(serving.build("", "", &context).contains("Successfully built"));
}
