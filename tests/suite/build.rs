//! Builds: what images come of build files, what comes from the cache, what a build leaves, what clients see.

use super::images::through;
use super::registry::{SECRET, basic_registry, login, push_with};
use crate::docker_cli::Served;
use crate::support::archive::Tar;
use crate::support::registry::{Answered, Scripted};
use crate::support::*;
use coracle::model::*;
use coracle::{Context, ErrorKind, Op};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Command;

/// A context with this build file.
pub(crate) fn context(file: &str) -> Tar {
    Tar::new().file("Dockerfile", file.as_bytes())
}

pub(crate) fn plain() -> BuildImage {
    BuildImage { networkmode: "none".into(), ..BuildImage::default() }
}

/// Builds; returns the id and what was said.
pub(crate) fn try_build(root: &Root, how: &BuildImage, context: Tar) -> (coracle::Result<String>, String) {
    let bytes = context.end();
    let mut said = String::new();
    let mut tell = |message: Progress| {
        said.push_str(&message.stream);
        said.push_str(&message.status);
        Ok(())
    };
    let built = root.engine.image_build(how, Context::Tar(&mut &bytes[..]), &mut tell, Some(&soon()));
    (built, said)
}

#[track_caller]
pub(crate) fn build_with(root: &Root, how: &BuildImage, context: Tar) -> (String, String) {
    let (built, said) = try_build(root, how, context);
    (built.unwrap_or_else(|e| panic!("build: {e}\n{said}")), said)
}

#[track_caller]
pub(crate) fn build(root: &Root, context: Tar) -> (String, String) {
    build_with(root, &plain(), context)
}

/// Runs a script in a container of an image.
#[track_caller]
pub(crate) fn sh(root: &Root, image: &str, script: &str) -> String {
    root.run(&["sh", "-c", script], json!({ "Image": image, "Entrypoint": [""] }), b"").ok()
}

#[track_caller]
pub(crate) fn refused(root: &Root, how: &BuildImage, context: Tar, kind: ErrorKind, text: &str) {
    fails(try_build(root, how, context).0, kind, text);
}

pub(crate) fn config(root: &Root, image: &str) -> ContainerConfig {
    root.engine.image_inspect(image).expect("inspect").config.expect("a configuration")
}

/// The traces that a build must not leave: containers, directories of its own.
#[track_caller]
pub(crate) fn nothing_left(root: &Root) {
    let all = ListContainers { all: true, ..ListContainers::default() };
    assert_eq!(root.names(&all), [""; 0]);
    let names = |dir: &str| -> Vec<String> {
        let entries = std::fs::read_dir(root.dir.join("root").join(dir)).expect("a directory of the root");
        entries.map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
    };
    assert_eq!(names("containers"), [""; 0]);
    assert!(names("tmp").iter().all(|name| name == "empty"), "{:?}", names("tmp"));
}

#[test]
fn stages_files_and_commands() {
    let root = Root::new();
    let file = "\
ARG BASE=busybox
FROM $BASE AS one
ENV A=1 B=\"two $BASE words\"
RUN echo out; echo err >&2; echo data > /data; ln -s data /link; mkdir -p /d/e; chmod 4711 /data
WORKDIR /w/x
RUN pwd > here && rm /link && rm -r /d && mkdir /d
COPY a.txt sub /dst/
FROM busybox
COPY --from=one --chown=7:8 /w/x/here /final/
COPY --from=0 /data /keep/data
ADD --chown=daemon all.tar /un/
COPY [\"a.txt\", \"/final/b c\"]
LABEL k=v \"k 2\"='v 2'
EXPOSE 80 90-91/udp
VOLUME /vol
USER 7
STOPSIGNAL SIGINT
HEALTHCHECK --interval=2s CMD true
ONBUILD RUN true
SHELL [\"/bin/sh\", \"-ec\"]
ENTRYPOINT [\"cat\"]
CMD [\"/final/here\"]
";
    let archive = Tar::new().file("in", b"packed").symlink("to", "in").end();
    let files = context(file).file("a.txt", b"hello").dir("sub").file("sub/b", b"b").file("all.tar", &archive);
    let how = BuildImage { t: vec!["app:1".into(), "app".into()], ..plain() };
    let (id, said) = build_with(&root, &how, files);
    assert!(said.starts_with("Step 1/22 : ARG BASE=busybox\nStep 2/22 : FROM $BASE AS one\n ---> "), "{said}");
    assert!(said.contains("\nout\n") && said.contains("\u{1b}[91merr\n\u{1b}[0m"), "{said}");
    let short = &id["sha256:".len()..][..12];
    let end = format!("Successfully built {short}\nSuccessfully tagged app:1\nSuccessfully tagged app:latest\n");
    assert!(said.ends_with(&end), "{said}");

    let script = "cd /final; stat -c '%u:%g %a' here; cat 'b c'; echo; ls /un; cat /un/to; echo; stat -c '%u %a' \
                  /keep/data; cat here";
    let want = "7:8 644\nhello\nin\nto\npacked\n0 4711\n/w/x";
    assert_eq!(sh(&root, "app:1", script), want);
    let config = config(&root, "app");
    assert_eq!(config.entrypoint, Some(vec!["cat".into()]));
    assert_eq!((config.user.as_str(), config.stop_signal.as_str()), ("7", "SIGINT"));
    assert_eq!(config.exposed_ports.iter().collect::<Vec<_>>(), ["80/tcp", "90/udp", "91/udp"]);
    assert_eq!((config.labels["k"].as_str(), config.labels["k 2"].as_str()), ("v", "v 2"));
    assert_eq!(config.on_build, Some(vec!["RUN true".into()]));
    let history = root.engine.image_history("app").expect("its history");
    assert_eq!(history[0].created_by, "/bin/sh -ec #(nop)  CMD [\"/final/here\"]");
    assert!(history.len() >= 15 && history[1].id.starts_with("sha256:"));
    nothing_left(&root);

    // Files that an earlier stage deleted are gone, and its layers are those that dockerd would make.
    let (id, _) = build_with(
        &root,
        &BuildImage { target: "ONE".into(), ..plain() },
        context(file).file("a.txt", b"hello").dir("sub").file("sub/b", b"b"),
    );
    assert_eq!(
        sh(&root, &id, "ls -d /link /d /d/e 2>&1 | sort; echo $A $B; ls /dst"),
        "/d\nls: /d/e: No such file or directory\nls: /link: No such file or directory\n1 two words\na.txt\nb"
    );
}

#[test]
fn the_cache_knows_what_changed() {
    let root = Root::new();
    let file = "FROM busybox\nARG v\nRUN echo $v\nCOPY f /f\nRUN cat /f\n";
    let steps = |said: &str| said.matches(" ---> Using cache").count();
    let with = |content: &[u8], v: &str| {
        let how = BuildImage { buildargs: [("v".into(), Some(v.into()))].into(), ..plain() };
        build_with(&root, &how, context(file).file("f", content))
    };
    let (first, said) = with(b"1", "a");
    assert_eq!(steps(&said), 0);
    let (again, said) = with(b"1", "a");
    assert_eq!((steps(&said), &again), (4, &first));
    let (other, said) = with(b"2", "a");
    assert_eq!(steps(&said), 2, "{said}");
    assert_ne!(other, first);
    assert_eq!(steps(&with(b"1", "b").1), 1);
    // An old branch is as good as the newest.
    assert_eq!(with(b"1", "a").0, first);
    let how = BuildImage { nocache: true, ..plain() };
    assert_eq!(steps(&build_with(&root, &how, context(file).file("f", b"1")).1), 0);
    // Time does not count, mode does.
    let (mode, said) = build(&root, context("FROM busybox\nCOPY f /g\n").entry(b'0', "f", "", 0o600, b"1"));
    assert_eq!(steps(&said), 0);
    let (same, said) = build(&root, context("FROM busybox\nCOPY f /g\n").entry(b'0', "f", "", 0o600, b"1"));
    assert_eq!((steps(&said), same), (1, mode));
    let (_, said) = build(&root, context("FROM busybox\nCOPY f /g\n").entry(b'0', "f", "", 0o755, b"1"));
    assert_eq!(steps(&said), 0);

    // On another root the image serves as a cache only if the request names it.
    let mut saved = Vec::new();
    root.engine.image_tag(&first, "mine").expect("tag");
    root.engine.image_save(&["mine".into()], &mut saved, None).expect("save");
    let other = Root::new();
    other.engine.image_load(&mut &saved[..], &mut |_| Ok(()), None).expect("load");
    let how = BuildImage {
        cachefrom: vec!["mine".into(), "nosuch".into()],
        buildargs: [("v".into(), Some("a".into()))].into(),
        ..plain()
    };
    let (id, said) = build_with(&other, &how, context(file).file("f", b"1"));
    assert_eq!((steps(&said), &id), (4, &first), "{said}");
}

#[test]
fn an_image_from_elsewhere_is_taken_for_what_it_is() {
    let root = Root::new();
    let file = "FROM busybox\nENTRYPOINT [\"/bin/x\"]\nCMD [\"y\"]\nRUN touch /a\n";
    let (whole, _) = build(&root, context(&format!("{file}RUN touch /b\n")));
    let (scratch, _) = build(&root, context("FROM scratch\nCOPY f /a\nCOPY f /b\n").file("f", b"1"));
    root.engine.image_tag(&whole, "mine").expect("tag");
    root.engine.image_tag(&scratch, "files").expect("tag");
    let mut saved = Vec::new();
    root.engine.image_save(&["mine".into(), "files".into()], &mut saved, None).expect("save");
    let other = Root::new();
    other.engine.image_load(&mut &saved[..], &mut |_| Ok(()), None).expect("load");

    // A step of its middle has the configuration that the build file gives it.
    let how = BuildImage { cachefrom: vec!["mine".into()], ..plain() };
    let (id, said) = build_with(&other, &how, context(file));
    assert_eq!(said.matches("Using cache").count(), 3, "{said}");
    let config = config(&other, &id);
    assert_eq!((config.entrypoint, config.cmd), (Some(vec!["/bin/x".into()]), Some(vec!["y".into()])));
    // Two steps without a base do not serve as the cache of the second one alone.
    let (_, said) = build(&other, context("FROM scratch\nCOPY f /b\n").file("f", b"1"));
    assert!(!said.contains("Using cache"), "{said}");
    // A missing cache image does not permit the use of all others.
    let how = BuildImage { cachefrom: vec!["nosuch".into()], ..plain() };
    let (_, said) = build_with(&other, &how, context("FROM scratch\nCOPY f /b\n").file("f", b"1"));
    assert!(!said.contains("Using cache"), "{said}");
}

#[test]
fn a_build_keeps_its_base_image() {
    let root = Root::new();
    let id = root.engine.image_inspect("busybox").expect("inspect").id;
    let bytes = context("FROM busybox\nENV a=b\nRUN sleep 0.2; ls /bin > /list\n").end();
    let mut tried = false;
    let mut tell = |message: Progress| {
        if message.stream.starts_with("Step 3/3") {
            tried = true;
            let filters = [("dangling".to_owned(), vec!["false".to_owned()])].into();
            assert_eq!(root.engine.images_prune(&filters, None).expect("prune").images_deleted, None);
            let how = RemoveImage { force: true, ..RemoveImage::default() };
            fails(root.engine.image_remove(&id, how), ErrorKind::Conflict, "being used by a running build");
            // The image's name may be removed.
            root.engine.image_remove("busybox", RemoveImage::default()).expect("untag");
        }
        Ok(())
    };
    let built = root.engine.image_build(&plain(), Context::Tar(&mut &bytes[..]), &mut tell, Some(&soon()));
    let built = built.expect("build");
    assert!(tried);
    assert!(sh(&root, &built, "cat /list").contains("busybox"));
    // Afterwards nothing is kept for it.
    let how = RemoveImage { force: true, ..RemoveImage::default() };
    root.engine.image_remove(&built, how).expect("remove");
    let layers = std::fs::read_dir(root.dir.join("root/layers")).expect("layers").count();
    assert_eq!(layers, 0);
}

/// A server that takes connections and says nothing.
#[test]
fn a_silent_server_does_not_keep_a_build() {
    let root = Root::new();
    let server = std::net::TcpListener::bind("127.0.0.1:0").expect("a server");
    let address = server.local_addr().expect("its address");
    let url = format!("http://{address}/file");
    let added = BuildImage::default();
    let remote = BuildImage { remote: url.clone(), ..plain() };
    let file = format!("FROM busybox\nADD {url} /file\n");
    for how in [added, remote] {
        let op = Op::new().expect("an operation");
        let bytes = context(&file).end();
        let begun = std::time::Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(std::time::Duration::from_millis(300));
                op.cancel();
            });
            let built = root.engine.image_build(&how, Context::Tar(&mut &bytes[..]), &mut |_| Ok(()), Some(&op));
            fails(built, ErrorKind::Cancelled, "");
        });
        assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    }
    nothing_left(&root);
}

/// Files and contexts of a server, contexts in every compression.
#[test]
fn a_build_fetches_files_and_contexts_of_a_server() {
    let root = Root::new();
    let file = "FROM busybox\nCOPY in /in\n";
    let tar = context(file).file("in", b"inside").end();
    let (gzip, text) = (through("gzip", &["-c"], &tar), "FROM busybox\nLABEL from=far\n");
    let sent = (tar.clone(), gzip.clone());
    let server = Scripted::start(move |asked| match asked.target.as_str() {
        "/dir/file.txt" => Answered::new(200, "from afar").with("Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT"),
        "/archive.tar" => Answered::new(200, Tar::new().file("f", b"packed").end()),
        "/named" => Answered::new(302, "").with("Location", "/dir/file.txt"),
        "/build" => Answered::new(200, text).with("Content-Type", "text/plain; charset=utf-8"),
        "/guessed" => Answered::new(200, text),
        "/context.tar" => Answered::new(200, sent.0.clone()).with("Content-Type", "application/x-tar"),
        "/context" => Answered::new(200, sent.1.clone()).with("Content-Type", "application/octet-stream"),
        "/page" => Answered::new(200, "<html>").with("Content-Type", "text/html"),
        _ => Answered::new(404, "no"),
    });
    let at = |path: &str| format!("http://{}{path}", server.host());
    let adds = format!(
        "FROM busybox\nADD {} /dst/\nADD {} /dst/two\nADD {} /dst/\n",
        at("/dir/file.txt"),
        at("/named"),
        at("/archive.tar")
    );
    let (id, _) = build(&root, context(&adds));
    let look = "cd /dst; cat file.txt two; echo; stat -c '%n %a %u %Y' *; tar tf archive.tar";
    // Archives of a server are not unpacked; a time that a server does not tell is 1970.
    let want = "from afarfrom afar\narchive.tar 600 0 0\nfile.txt 600 0 784111777\ntwo 600 0 784111777\nf";
    assert_eq!(sh(&root, &id, look), want);
    refused(
        &root,
        &plain(),
        context(&format!("FROM busybox\nADD {} /x\n", at("/gone"))),
        ErrorKind::Internal,
        "with status 404",
    );

    let far = |path: &str| BuildImage { remote: at(path), ..plain() };
    for path in ["/build", "/guessed"] {
        let (id, _) = build_with(&root, &far(path), Tar::new());
        assert_eq!(config(&root, &id).labels["from"], "far", "{path}");
    }
    for path in ["/context.tar", "/context"] {
        let (id, _) = build_with(&root, &far(path), Tar::new());
        assert_eq!(sh(&root, &id, "cat /in"), "inside", "{path}");
    }
    refused(&root, &far("/page"), Tar::new(), ErrorKind::Invalid, "unsupported Content-Type \"text/html\"");
    refused(&root, &far("/gone"), Tar::new(), ErrorKind::Internal, "with status 404");

    let how = ImportImage { repo: "far".into(), changes: vec!["CMD x".into()], ..ImportImage::default() };
    let mut told = Vec::new();
    let mut tell = |message: Progress| {
        told.push(message.status);
        Ok(())
    };
    let id = root.engine.image_import_url(&at("/archive.tar"), &how, &mut tell, Some(&soon())).expect("import");
    // A slow machine reports the progress of one download more than once.
    told.dedup();
    let source = at("/archive.tar");
    assert_eq!(told, [format!("Downloading from {source}"), "Importing".into(), id.clone()]);
    let detail = root.engine.image_inspect("far:latest").expect("inspect");
    assert_eq!((detail.id, detail.comment), (id, format!("Imported from {source}")));
    let gone = root.engine.image_import_url(&at("/gone"), &how, &mut |_| Ok(()), Some(&soon())).unwrap_err();
    assert!(gone.message().ends_with("/gone with status 404"), "{gone}");

    let level = ["-c"];
    let zstd = ["-q", "-c"];
    let packers: [(&str, &[&str]); 4] = [("gzip", &level), ("bzip2", &level), ("xz", &level), ("zstd", &zstd)];
    for (packer, words) in packers {
        let packed = through(packer, words, &tar);
        let how = BuildImage { nocache: true, ..plain() };
        let built = root.engine.image_build(&how, Context::Tar(&mut &packed[..]), &mut |_| Ok(()), Some(&soon()));
        let id = built.unwrap_or_else(|e| panic!("{packer}: {e}"));
        assert_eq!(sh(&root, &id, "cat /in"), "inside", "{packer}");
        // And as a source of ADD, where what is packed is unpacked.
        let inner = through(packer, words, &Tar::new().file("deep", packer.as_bytes()).end());
        let (id, _) = build(&root, context("FROM busybox\nADD packed /un/\n").file("packed", &inner));
        assert_eq!(sh(&root, &id, "cat /un/deep"), packer);
    }
    nothing_left(&root);
}

/// `X-Registry-Config`: what a build logs in with, by registry.
#[test]
fn base_images_behind_a_login() {
    let served = Served::new();
    let root = &served.root;
    let dir = root.dir.join("registry");
    let registry = basic_registry(&dir);
    let name = format!("{}/closed/base:1", registry.host());
    root.engine.image_tag(IMAGE, &name).expect("tag");
    push_with(&root.engine, &name, login("sailor", SECRET)).expect("push");
    root.engine.image_remove(&name, RemoveImage::default()).expect("untag");
    let body = context(&format!("FROM {name}\nLABEL a=b\n")).end();
    let post = |header: &str| {
        let mut stream = UnixStream::connect(&served.socket).expect("connect");
        let head = format!(
            "POST /v1.24/build?networkmode=none HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{header}Content-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body)).expect("send");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("read");
        String::from_utf8_lossy(&answer).into_owned()
    };
    let refused = post("");
    assert!(refused.contains("no basic auth credentials") && !refused.contains("Successfully"), "{refused}");
    let config = json!({ registry.host(): { "username": "sailor", "password": SECRET } }).to_string();
    let encoded = through("base64", &["-w0"], config.as_bytes());
    let header = format!("X-Registry-Config: {}\r\n", String::from_utf8_lossy(&encoded));
    let built = post(&header);
    assert!(built.contains("Successfully built") && !built.contains(SECRET), "{built}");
}

#[test]
fn a_build_refuses_impossible_requests() {
    let root = Root::new();
    let how = BuildImage { platform: "linux/s390x".into(), ..plain() };
    refused(&root, &how, context("FROM busybox\n"), ErrorKind::Unsupported, "platform linux/s390x");
    let how = BuildImage { file: Some("FROM busybox".into()), remote: "http://host/file".into(), ..plain() };
    refused(&root, &how, context(""), ErrorKind::Invalid, "file and remote");
    let deep =
        "FROM busybox\nRUN n=$(printf %0250d 1); i=0; while [ $i -lt 17 ]; do mkdir $n; cd -P $n; i=$((i+1)); done\n";
    refused(&root, &plain(), context(deep), ErrorKind::Invalid, "the path is longer than 4095 bytes");
    // Rights of programs that are asked for are kept, whoever the owner is.
    let file = "FROM busybox\nCOPY --chmod=4755 --chown=1:1 f /f\n";
    let (id, _) = build(&root, context(file).file("f", b"1"));
    assert_eq!(sh(&root, &id, "stat -c %a:%u /f"), "4755:1");
}

/// Flags of today's build files.
#[test]
fn sources_are_left_out_and_keep_the_directories_above_them() {
    let root = Root::new();
    let files = |file: &str| {
        context(file)
            .dir("d")
            .dir("d/deep")
            .file("a.txt", b"a")
            .file("b.md", b"b")
            .file("d/c.txt", b"c")
            .file("d/deep/e.txt", b"e")
    };
    let listed = |id: &str, dir: &str| sh(&root, id, &format!("cd {dir} && find . -type f | sort | tr '\\n' ' '"));
    let file = "FROM busybox\nARG what=md\nCOPY --exclude=*.txt --exclude=d/deep . /all/\n\
                COPY --exclude=*.$what --exclude=Dockerfile * /some/\n";
    let (id, _) = build(&root, files(file));
    assert_eq!(listed(&id, "/all"), "./Dockerfile ./b.md ./d/c.txt ");
    // A directory that a pattern matches gives its content, as without the flag.
    assert_eq!(listed(&id, "/some"), "./a.txt ./c.txt ./deep/e.txt ");
    // A file that is left out does not count for the cache; one that is not does.
    let (again, said) = build(&root, files(file).file("d/deep/new.txt", b"new"));
    assert!(said.contains("Using cache"), "{said}");
    assert_ne!(again, id, "the second COPY has the new file");
    let file = "FROM busybox\nCOPY --parents d/deep a.txt d/c.txt /kept/\n";
    let (id, _) = build(&root, files(file));
    assert_eq!(listed(&id, "/kept"), "./a.txt ./d/c.txt ./d/deep/e.txt ");
    assert_eq!(listed(&build(&root, files(&file.replace("d/c.txt ", ""))).0, "/kept"), "./a.txt ./d/deep/e.txt ");
    // Directories before /./ are not made.
    let file = "FROM busybox\nCOPY --parents ./d/./deep /d/./*.txt ./a.txt /kept/\n";
    assert_eq!(listed(&build(&root, files(file)).0, "/kept"), "./a.txt ./c.txt ./deep/e.txt ");
    let file = "FROM busybox\nCOPY --parents d/deep /d/*.txt a.txt /kept/\n";
    assert_eq!(listed(&build(&root, files(file)).0, "/kept"), "./a.txt ./d/c.txt ./d/deep/e.txt ");
    for (line, text) in [
        ("COPY --parents ../d/./deep /x/", "forbidden path outside the build context"),
        ("COPY --exclude=! . /x/", "COPY: illegal exclusion pattern: \"!\""),
        ("COPY --exclude=[a . /x/", "COPY: \"[a\": syntax error in pattern"),
        ("COPY --parents=perhaps . /x/", "expecting boolean value for flag parents, not: perhaps"),
        ("ADD --parents . /x/", "Unknown flag: parents"),
        ("ADD --checksum=sha256:0 a.txt /x/", "--checksum is of downloads and repositories alone: a.txt is neither"),
    ] {
        let (built, _) = try_build(&root, &plain(), files(&format!("FROM busybox\n{line}\n")));
        let error = built.expect_err(line);
        assert!(error.message().contains(text), "{line}: {}", error.message());
    }
}

/// The answers are those of buildkitd 0.25.1 for the same lines.
#[test]
fn a_pattern_takes_back_what_another_excludes() {
    let root = Root::new();
    let files = |file: &str| {
        let files =
            context(file).dir("d").file("d/a.txt", b"").file("d/b.md", b"").file("d/keep.txt", b"").dir("d/sub");
        files.file("d/sub/c.txt", b"").file("d/sub/d.md", b"").file("top.txt", b"").dir("e")
    };
    for (line, want) in [
        ("--exclude=**/*.txt --exclude=!keep.txt d /x/", "b.md keep.txt sub sub/d.md"),
        ("--exclude=sub --exclude=!sub/c.txt d /x/", "a.txt b.md keep.txt sub sub/c.txt"),
        ("--exclude=** --exclude=!**/*.md d /x/", "b.md sub sub/d.md"),
        ("--exclude=**/*.txt --exclude=!sub d /x/", "b.md sub sub/d.md"),
        ("--exclude=* --exclude=!sub/ d /x/", "sub sub/c.txt sub/d.md"),
        ("--exclude=top.txt top.txt /x/", "top.txt"),
        // With --parents the patterns are of the paths that are kept.
        ("--parents --exclude=*.txt d top.txt /x/", "d d/a.txt d/b.md d/keep.txt d/sub d/sub/c.txt d/sub/d.md"),
        ("--parents --exclude=**/*.txt d top.txt /x/", "d d/b.md d/sub d/sub/d.md"),
        ("--parents --exclude=* --exclude=!d/sub d /x/", "d d/sub d/sub/c.txt d/sub/d.md"),
        ("--parents --exclude=x/../sub ./d/./sub /x/", ""),
        ("--parents --exclude=sub/c.txt ./d/./sub /x/", "sub sub/d.md"),
    ] {
        for word in ["COPY", "ADD"] {
            if word == "ADD" && line.contains("--parents") {
                continue;
            }
            let (id, _) = build(&root, files(&format!("FROM busybox\n{word} {line}\n")));
            let found = sh(&root, &id, "cd /x && find . -mindepth 1 | sort | sed 's/..//' | tr '\\n' ' '");
            assert_eq!(found.trim(), want, "{word} {line}");
        }
    }
    // Excluded files of an excluded directory do not count for the cache.
    let file = "FROM busybox\nCOPY --exclude=* --exclude=!sub/d.md d /x/\n";
    let (id, _) = build(&root, files(file));
    let (again, _) = build(&root, files(file).file("d/sub/more.txt", b"more"));
    assert_eq!(id, again);
    let (again, _) = build(&root, files(file).file("d/sub/d.md", b"more"));
    assert_ne!(id, again);
    // Directories that --parents makes are those of the source.
    let file = "FROM busybox\nRUN mkdir -p /p/q && chmod 710 /p && chown 3:4 /p && touch /p/q/f\n\
                FROM busybox\nCOPY --from=0 --parents /p/q/f /x/\nCOPY --parents --from=0 --chown=5 --chmod=700 /p/./q /y/\n";
    let (id, _) = build(&root, context(file));
    assert_eq!(
        sh(&root, &id, "stat -c '%n %a %u:%g' /x /x/p /x/p/q /y/q"),
        "/x 755 0:0\n/x/p 710 3:4\n/x/p/q 755 0:0\n/y/q 700 5:5"
    );
    nothing_left(&root);
}

/// Of BuildKit's language; `make test-buildkit` compares with buildkitd.
#[test]
fn modes_in_words_parts_of_values_and_layers_apart() {
    let root = Root::new();
    let files = |file: &str| context(file).dir("d").file("d/plain", b"1").file("a.txt", b"a");
    let file = "FROM busybox\nCOPY --chmod=u=rwX,go=rX d /x\nCOPY --chmod=a+x,g-r a.txt /y\nCOPY --chmod=750 a.txt /new/dir/\n\
                COPY --link a.txt /home\nCOPY --link a.txt /root/\n\
                ENV P=/a/b.tar.gz\nENV Q=${P##*/} R=${P%.*} S=${P/a/z} T=${P//a/z} U=${none-unset} V=${P+set}\n\
                HEALTHCHECK --start-interval=3s CMD true\n";
    let (id, _) = build(&root, files(file));
    let script = "stat -c '%n %a %F' /x/plain /y /new /new/dir /home /root/a.txt; echo $Q $R $S $T $U $V";
    let want = "/x/plain 644 regular file\n/y 715 regular file\n/new 750 directory\n/new/dir 750 directory\n\
                /home 644 regular file\n/root/a.txt 644 regular file\nb.tar.gz /a/b.tar /z/b.tar.gz /z/b.tzr.gz unset set";
    assert_eq!(sh(&root, &id, script), want);
    assert_eq!(config(&root, &id).healthcheck.expect("a check").start_interval, 3_000_000_000);
    for (line, text) in [
        ("COPY --chmod=u=q a.txt /x", "invalid chmod parameter: 'u=q'"),
        ("ENV A=${P#\\a}", "invalid escape"),
        ("ENV A=${P#x", "syntax error: missing '}'"),
        ("ENV A=${P/x}", "syntax error: missing '/'"),
    ] {
        let (built, _) = try_build(&root, &plain(), files(&format!("FROM busybox\n{line}\n")));
        let error = built.expect_err(line);
        assert!(error.message().contains(text), "{line}: {}", error.message());
    }
}

#[test]
fn a_step_may_have_no_network_and_never_the_host_s_alone() {
    let root = Root::new();
    let interfaces = "ls /sys/class/net | tr '\\n' ' ' > /net";
    let own = "FROM busybox\nRUN --security=sandbox --network=none ".to_owned() + interfaces;
    let how = BuildImage::default();
    let (id, said) = build_with(&root, &how, context(&own));
    assert_eq!(sh(&root, &id, "cat /net"), "lo ", "{said}");
    // On the own network of the build this command is another step.
    let (other, said) =
        build_with(&root, &how, context(&own.replace("--security=sandbox --network=none", "--network=default")));
    assert!(!said.contains("Using cache"), "{said}");
    assert_ne!(sh(&root, &other, "cat /net"), "lo ");
    assert!(build_with(&root, &how, context(&own)).1.contains("Using cache"));
    let file = own.replace("=none", "=host");
    let text = "RUN --network=host: the build must have the network mode host, too";
    refused(&root, &how, context(&file), ErrorKind::Forbidden, text);
    let on_host = BuildImage { networkmode: "host".into(), ..BuildImage::default() };
    build_with(&root, &on_host, context(&file));
    for (flag, text) in [
        ("--network=moon", "RUN --network=moon: none of default, none, host"),
        ("--security=insecure", "RUN --security=insecure is not supported: no step gets the host's rights"),
        ("--security=mostly", "RUN --security=mostly: neither sandbox nor insecure"),
        ("--mount=type=volume,target=/c", "unsupported mount type \"volume\""),
    ] {
        let (built, _) = try_build(&root, &how, context(&format!("FROM busybox\nRUN {flag} true\n")));
        let error = built.expect_err(flag);
        assert!(error.message().contains(text), "{flag}: {}", error.message());
    }
}

/// The files are those of the same build without `squash`.
#[test]
fn a_squashed_image_has_one_layer_more_than_its_base() {
    let root = Root::new();
    let file = "\
FROM busybox AS first
RUN echo base > /base && mkdir /kept && echo 1 > /kept/one
FROM first
RUN mkdir -p /d/e && echo 1 > /d/e/f && ln /d/e/f /d/g && rm /kept/one && touch -d '2001-02-03 04:05:06' /kept
RUN mv /d/e /moved && chmod 700 /home && rm -r /usr && echo file > /usr && mknod /null c 1 3
COPY --chown=3:4 f /var/f
CMD [\"true\"]
";
    // Not what each container has of its own.
    let facts = "cd / && find $(ls | grep -Ev '^(proc|sys|dev|etc|bin)$') -exec stat -c '%n %f %u:%g %Y %t' {} + | sort; \
                 cat /d/g /moved/f /usr /var/f /base";
    let files = || context(file).file("f", b"hello");
    let (plain_id, _) = build(&root, files());
    let squash = BuildImage { squash: true, t: vec!["flat".into()], ..plain() };
    let (id, said) = build_with(&root, &squash, files());
    assert_eq!(said.matches("Using cache").count(), 6 - 1, "{said}");
    assert!(said.ends_with(&format!("Successfully built {}\nSuccessfully tagged flat:latest\n", &id[7..19])), "{said}");
    let layers = |name: &str| root.engine.image_inspect(name).expect("inspect").root_fs.layers.expect("layers");
    let (all, flat) = (layers(&plain_id), layers("flat"));
    assert_eq!((all.len(), flat.len()), (5, 3));
    assert_eq!(all[..2], flat[..2]);
    assert_eq!(sh(&root, "flat", facts), sh(&root, &plain_id, facts));
    assert_eq!(config(&root, "flat"), config(&root, &plain_id));
    let history = root.engine.image_history("flat").expect("its history");
    assert!(history[0].comment.starts_with(&format!("merge {plain_id} to sha256:")), "{}", history[0].comment);
    assert!(history[1..5].iter().all(|step| step.size == 0) && history[0].size > 0);

    // With one layer there is nothing to merge, and with none nothing to squash.
    let (id, _) = build_with(&root, &squash, context("FROM busybox\nRUN rm /bin/vi\n"));
    assert_eq!(layers(&id).len(), 2);
    refused(&root, &squash, context("FROM busybox\nENV A=1\n"), ErrorKind::Invalid, "the build added no layer");
    nothing_left(&root);
}

/// `--link` puts a file in the place of a directory, but an unpacked archive into it.
#[test]
fn an_archive_that_is_unpacked_apart_leaves_what_is_there() {
    let root = Root::new();
    let archive = Tar::new().file("new", b"2").file("old", b"changed").end();
    let file = "FROM busybox\nRUN mkdir -p /d/sub; echo 1 > /d/old; echo 1 > /d/sub/kept; touch /f\n\
                ADD --link all.tar /d\nADD --link all.tar /f\nADD --link plain /d/sub/\nCOPY --link all.tar /d/sub\n";
    let to_copy = "COPY --link all.tar /d/sub\n";
    let files = |file: &str| context(file).file("all.tar", &archive).file("plain", b"p");
    let (id, _) = build(&root, files(&file.replace(to_copy, "")));
    let script = "cat /d/new /d/old /d/sub/kept /d/sub/plain /f/new";
    assert_eq!(sh(&root, &id, script), "2changed1\np2");
    let (id, _) = build(&root, files(file));
    assert_eq!(sh(&root, &id, "[ -f /d/sub ] && cat /d/old"), "changed");
}

#[test]
fn a_layer_that_is_apart_passes_no_link_of_the_image() {
    let root = Root::new();
    let plainly = "FROM busybox\nRUN ln -s /bin /way\nCOPY f /way/f\n";
    let (id, _) = build(&root, context(plainly).file("f", b"1"));
    assert_eq!(sh(&root, &id, "cat /bin/f"), "1");
    let (id, _) = build(&root, context("FROM busybox\nCOPY --link f /new/f\n").file("f", b"2"));
    assert_eq!(sh(&root, &id, "cat /new/f"), "2");
    let file = context(&plainly.replace("COPY", "COPY --link")).file("f", b"1");
    refused(&root, &plain(), file, ErrorKind::Unsupported, "--link: a link of the image is on the way to /way/f");
}

#[test]
fn a_download_has_the_digest_that_the_build_file_names() {
    let root = Root::new();
    let server = Scripted::start(|_| Answered::new(200, "from afar"));
    let url = format!("http://{}/file", server.host());
    let digest = "sha256:a0bd6fe8b9a3e8de7d7b0d2ce3b3e4c1e9c7ab0bd8b3a8d0a7ad9d5de5c5b001";
    let file = |digest: &str| format!("FROM busybox\nARG D={digest}\nADD --checksum=$D {url} /f\n");
    let error = try_build(&root, &plain(), context(&file(digest))).0.expect_err("another digest");
    let found = error.message().split_once(": sha256:").expect("the digest that was found").1;
    let found = format!("sha256:{}", &found[..64]);
    assert_eq!(error.message(), format!("ADD failed: digest mismatch for {url}: {found} (expected: {digest})"));
    let (id, _) = build(&root, context(&file(&found)));
    assert_eq!(sh(&root, &id, "sha256sum < /f"), format!("{}  -", &found[7..]));
    refused(&root, &plain(), context(&file("md5:1")), ErrorKind::Invalid, "\"md5:1\" is not a sha256 digest");
    nothing_left(&root);
}

#[test]
fn a_failed_build_says_the_reason_and_keeps_finished_steps() {
    let root = Root::new();
    let file = "FROM busybox\nRUN touch /one\nRUN echo last words; exit 3\n";
    let (built, said) = try_build(&root, &plain(), context(file));
    let error = built.expect_err("a command that fails");
    assert_eq!(error.message(), "The command '/bin/sh -c echo last words; exit 3' returned a non-zero code: 3");
    assert_eq!(error.exit_code(), Some(3));
    // The container of the step that failed stays, as with docker, and can be looked into and started again.
    let all = ListContainers { all: true, ..ListContainers::default() };
    let left = root.engine.container_list(&all).expect("list");
    assert_eq!(left.len(), 1, "{said}");
    let changes = root.engine.container_changes(&left[0].id).expect("changes");
    assert!(changes.is_empty(), "{changes:?}");
    root.start(&left[0].id);
    assert_eq!(root.wait(&left[0].id), 3);
    root.engine.container_remove(&left[0].id, RemoveContainer::default(), None).expect("remove");
    assert!(try_build(&root, &plain(), context(file)).1.contains("Using cache"));
    let how = BuildImage { forcerm: true, ..plain() };
    let (_, said) = try_build(&root, &how, context(file));
    assert!(said.contains("Removing intermediate container"), "{said}");
    for left in root.engine.container_list(&all).expect("list") {
        root.engine.container_remove(&left.id, RemoveContainer::default(), None).expect("remove");
    }
    nothing_left(&root);

    let none = plain();
    refused(
        &root,
        &none,
        Tar::new().file("x", b""),
        ErrorKind::Internal,
        "Cannot locate specified Dockerfile: Dockerfile",
    );
    refused(&root, &none, context(""), ErrorKind::Invalid, "the Dockerfile (Dockerfile) cannot be empty");
    refused(
        &root,
        &none,
        context("FROM busybox\nFOO\n"),
        ErrorKind::Invalid,
        "dockerfile parse error line 2: unknown instruction: FOO",
    );
    refused(&root, &none, context("RUN x"), ErrorKind::Invalid, "no build stage in current context");
    refused(
        &root,
        &none,
        context("FROM scratch"),
        ErrorKind::Internal,
        "No image was generated. Is your Dockerfile empty?",
    );
    refused(
        &root,
        &none,
        context("FROM busybox\nCOPY x /"),
        ErrorKind::NotFound,
        "COPY failed: file not found in build context or excluded by .dockerignore: stat x: file does not exist",
    );
    refused(
        &root,
        &none,
        context("FROM busybox\nCOPY --from=3 a b"),
        ErrorKind::Invalid,
        "invalid from flag value 3: index out of bounds",
    );
    refused(
        &root,
        &none,
        context("FROM busybox\nCOPY --chown=nobodyelse Dockerfile /"),
        ErrorKind::Invalid,
        "no such user: nobodyelse",
    );
    refused(&root, &none, context("FROM busybox\nENV a=${b"), ErrorKind::Invalid, "failed to process \"${b\"");
    let how = BuildImage { t: vec!["UPPER".into()], ..plain() };
    refused(&root, &how, context("FROM busybox"), ErrorKind::Internal, "repository name must be lowercase");
    let how = BuildImage { remote: "ssh://host/repository.git".into(), ..plain() };
    refused(&root, &how, context(""), ErrorKind::Unsupported, "git");
    nothing_left(&root);
}

#[test]
fn sources_stay_in_the_context() {
    let root = Root::new();
    let file = "FROM busybox\nCOPY up /a\nCOPY abs/f /b\nCOPY d/../etc/x /c\nCOPY d /d/\nADD d/*.t[x]t /e/\nRUN ln -s /d /l\nCOPY over /l/\n";
    let files = context(file)
        .symlink("up", "../../../../etc/x")
        .symlink("abs", "/etc")
        .dir("etc")
        .file("etc/x", b"own")
        .file("etc/f", b"file")
        .dir("d")
        .file("d/a.txt", b"1")
        .file("d/b.txt", b"2")
        .file("d/c", b"3")
        .symlink("d/link", "a.txt")
        .hard_link("d/same", "d/c")
        .file("over", b"4");
    let (id, _) = build(&root, files);
    assert_eq!(
        sh(
            &root,
            &id,
            "cat /a /b /c; ls -l /d/link | grep -o 'link.*'; ls /e | xargs; cat /d/over; [ /d/c -ef /d/same ] && echo same"
        ),
        "ownfileownlink -> a.txt\na.txt b.txt\n4same"
    );
    refused(&root, &plain(), context("FROM busybox\nCOPY a b /c"), ErrorKind::NotFound, "stat a");
    let above = context("FROM busybox\nCOPY d/../../x /c");
    refused(&root, &plain(), above, ErrorKind::Invalid, "forbidden path outside the build context");
    let two = context("FROM busybox\nCOPY a b /c").file("a", b"").file("b", b"");
    refused(
        &root,
        &plain(),
        two,
        ErrorKind::Invalid,
        "When using COPY with more than one source file, the destination must be a directory and end with a /",
    );
}

#[test]
fn triggers_variables_and_documents() {
    let root = Root::new();
    let base = "FROM busybox\nONBUILD COPY f /from-trigger\nONBUILD RUN echo triggered > /t\nONBUILD ENV T=1\n";
    build_with(&root, &BuildImage { t: vec!["trigger".into()], ..plain() }, context(base));
    let file = "\
FROM trigger
ARG who=nobody
ENV dir=/x${none:-y} set=${T:+yes}
WORKDIR $dir
COPY <<one <<\"two\" /docs/
who is $who in \"$dir\" \\$who
one
plain $who
two
RUN <<EOF
echo first > a
echo $who > b
EOF
CMD env
";
    let buildargs = [("who".into(), Some("me".into())), ("other".into(), Some("x".into()))].into();
    let (id, said) = build_with(&root, &BuildImage { buildargs, ..plain() }, context(file).file("f", b"file"));
    assert!(said.contains("# Executing 3 build triggers\n"), "{said}");
    assert!(said.contains("[Warning] One or more build-args [other] were not consumed\n"), "{said}");
    let want = "filetriggered\n/xy\nyes\nwho is me in \"/xy\" $who\nplain $who\nfirst\nme";
    assert_eq!(sh(&root, &id, "cat /from-trigger /t; pwd; echo $set; cat /docs/one /docs/two a b"), want);
    assert_eq!(config(&root, &id).on_build, None);
}

#[test]
fn the_ends_of_a_build() {
    let root = Root::new();
    // Cancelled: nothing is left of the step, what was done is there.
    let op = Op::new().expect("an operation");
    let bytes = context("FROM busybox\nRUN touch /one\nRUN echo now; sleep 100\n").end();
    let cancel = op.clone();
    let mut tell = |message: Progress| {
        if message.stream == "now\n" {
            cancel.cancel();
        }
        Ok(())
    };
    fails(
        root.engine.image_build(&plain(), Context::Tar(&mut &bytes[..]), &mut tell, Some(&op)),
        ErrorKind::Cancelled,
        "",
    );
    nothing_left(&root);

    // Killed: the next open removes what runs and what was staged.
    let dir = root.dir.join("context");
    std::fs::create_dir(&dir).expect("a directory");
    std::fs::write(dir.join("Dockerfile"), "FROM busybox\nRUN touch /two\nRUN echo now; sleep 100\n").expect("write");
    let mut child = Command::new(built("coracle"))
        .args(["--root".as_ref(), root.dir.join("root").as_os_str()])
        .args(["--run".as_ref(), root.dir.join("run").as_os_str()])
        .args(["build", "--network", "none"])
        .arg(&dir)
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("run coracle build");
    let running = || root.engine.container_list(&ListContainers::default()).expect("list");
    wait_for("the step", || running().first().is_some_and(|c| c.command.contains("sleep")));
    // While it lives, nobody takes its container away.
    drop(root.reopen());
    assert_eq!(running().len(), 1);
    child.kill().expect("kill it");
    child.wait().expect("its end");
    let again = root.reopen();
    let all = ListContainers { all: true, ..ListContainers::default() };
    assert_eq!(again.container_list(&all).expect("list"), []);
    nothing_left(&root);

    // Kept: the containers of all steps.
    let how = BuildImage { rm: false, ..plain() };
    let (_, said) = build_with(&root, &how, context("FROM busybox\nRUN touch /three\nENV a=b\n"));
    assert!(!said.contains("Removing"), "{said}");
    let all = root.engine.container_list(&all).expect("list");
    assert_eq!(all.len(), 2);
    let has_three = |id: &str| root.engine.container_changes(id).expect("changes").iter().any(|f| f.path == "/three");
    assert!(all.iter().any(|c| has_three(&c.id)));
}

#[test]
fn docker_builds_here() {
    let served = Served::new();
    let dir = served.root.dir.join("context");
    std::fs::create_dir(&dir).expect("a directory");
    let write = |name: &str, text: &str| std::fs::write(dir.join(name), text).expect("write");
    write("Dockerfile", "FROM busybox\nCOPY . /c/\nRUN cat /c/f\nCMD cat /c/f\n");
    write("f", "from docker\n");
    write("ignored", "");
    write(".dockerignore", "ignored\nDockerfile\n.dockerignore\n");
    let path = dir.display().to_string();
    let out = served.build(&["-t", "d:1", "--memory", "64m", &path]);
    assert_eq!(out.code, 0, "{} {}", out.out(), out.err());
    assert!(out.out().contains("Successfully tagged d:1") && out.out().contains("from docker"), "{}", out.out());
    assert_eq!(served.ok(&["run", "--rm", "--net", "none", "d:1", "ls", "/c"]), "f");
    let out = served.build(&["-q", &path]);
    assert!(out.out().starts_with("sha256:") && out.out().len() == 71, "{}", out.out());
    let other = dir.join("Other").display().to_string();
    write("Other", "FROM busybox\nRUN exit 9\n");
    let out = served.build(&["-f", &other, "--force-rm", &path]);
    assert_eq!(out.code, 9, "{}", out.err());
    assert!(out.err().contains("The command '/bin/sh -c exit 9' returned a non-zero code: 9"), "{}", out.err());
    write("Other", "FROM busybox\nBAD\n");
    let out = served.build(&["-f", &other, &path]);
    assert!(out.err().contains("dockerfile parse error line 2: unknown instruction: BAD"), "{}", out.err());

    // A build file from standard input: the docker command adds it to the context, and leaves out the tar's end.
    let out = served.build_with(&["-q", "-t", "d:2", "-f", "-", &path], b"FROM busybox\nCOPY f /g\nRUN cat /g");
    assert_eq!(out.code, 0, "{}", out.err());
    assert_eq!(served.ok(&["run", "--rm", "--net", "none", "d:2", "ls", "/g"]), "/g");
    let tar = Tar::new().file("from-far", b"x").end();
    let server = Scripted::start(move |_| Answered::new(200, tar.clone()));
    assert!(served.ok(&["import", &format!("http://{}/x.tar", server.host()), "far:1"]).ends_with(&served.ok(&[
        "images",
        "-q",
        "--no-trunc",
        "far:1"
    ])));

    let script = "\
import docker, io, sys
client = docker.DockerClient(base_url='unix://' + sys.argv[1], version='1.24', timeout=60)
image, logs = client.images.build(path=sys.argv[2], tag='py:1', rm=True, buildargs={'x': '1'}, labels={'l': 'v'})
assert image.labels == {'l': 'v'} and 'py:1' in image.tags, image.attrs
assert any('Successfully built' in line.get('stream', '') for line in logs)
image, logs = client.images.build(fileobj=io.BytesIO(b'FROM busybox\\nCMD [\"echo\", \"py\"]\\n'))
assert image.attrs['Config']['Cmd'] == ['echo', 'py']
try:
    client.images.build(fileobj=io.BytesIO(b'FROM busybox\\nRUN false\\n'), forcerm=True)
    raise SystemExit('built')
except docker.errors.BuildError as error:
    assert 'returned a non-zero code: 1' in error.msg, error.msg
";
    let out = Command::new("/usr/bin/python3").arg("-c").arg(script).arg(&served.socket).arg(&path).output();
    let out = out.expect("run docker-py");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
}

#[test]
fn the_server_streams_a_build_s_messages() {
    let served = Served::new();
    let post = |target: &str, body: &[u8]| -> (u16, Vec<Value>) {
        let mut stream = UnixStream::connect(&served.socket).expect("connect");
        let length = body.len();
        let head =
            format!("POST {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
        stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body)).expect("send");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("read");
        let text = String::from_utf8_lossy(&answer).into_owned();
        let status = text.split(' ').nth(1).expect("a status").parse().expect("a number");
        let lines = text.lines().filter(|line| line.starts_with('{'));
        (status, lines.map(|line| serde_json::from_str(line).expect("JSON")).collect())
    };
    let good = context("FROM busybox\nRUN exit 4\n").end();
    let (status, lines) = post("/v1.24/build?forcerm=1&networkmode=none&memory=x", &good);
    assert_eq!(status, 200);
    assert_eq!(lines[0], json!({ "stream": "Step 1/2 : FROM busybox" }));
    assert_eq!(lines[1], json!({ "stream": "\n" }));
    let message = "The command '/bin/sh -c exit 4' returned a non-zero code: 4";
    let last = json!({ "errorDetail": { "code": 4, "message": message }, "error": message });
    assert_eq!(lines.last(), Some(&last));
    for (target, body, status, text) in [
        ("/v1.24/build", context("FROM busybox\nFOO").end(), 400, "unknown instruction: FOO"),
        ("/v1.24/build?dockerfile=x", good.clone(), 500, "Cannot locate specified Dockerfile: x"),
        ("/v1.24/build?t=a:b:c", good.clone(), 500, "invalid reference format"),
        ("/v1.24/build?buildargs=x", good.clone(), 400, "error reading build args"),
        ("/v1.24/build?remote=foo", Vec::new(), 500, "remoteURL (foo) could not be recognized as URL"),
        ("/v1.24/build", b"garbage".repeat(200), 500, "tar"),
    ] {
        let (got, lines) = post(target, &body);
        assert_eq!(got, status, "{target}: {lines:?}");
        assert!(lines[0]["message"].as_str().expect("a message").contains(text), "{target}: {lines:?}");
    }
}
