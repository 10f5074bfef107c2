//! Archives, documents and build files that want memory, or a place outside of where they are unpacked.
//!
//! Each is given to the command in a process of its own, whose data the kernel bounds: an operation that takes more than
//! is promised would end in an abort, and is seen by its peak as well.

use super::hostile::{self, Feed};
use crate::support::archive::Tar;
use crate::support::registry::{Answered, Asked, Scripted};
use crate::support::*;
use coracle::ErrorKind;
use coracle::model::*;
use serde_json::json;
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

const MIB: u64 = 1 << 20;
/// What an operation may take: see `docs/images.md`.
const WIDE: u64 = 64 * MIB;
const SMALL: u64 = 16 * MIB;
/// What the kernel lets it take of data, beside what the command has in any case: stacks of its threads count as a whole,
/// and what the allocator keeps.
const STACKS: u64 = 56 * MIB;

/// How a run of the command ended.
struct Run {
    /// Its code; absent: a signal ended it.
    code: Option<i32>,
    said: String,
    /// Its most resident memory, in bytes, without its program's file.
    peak: u64,
}

/// Runs `coracle WORDS` on the root, with data of at most `most` bytes, and feeds its standard input.
fn command(root: &Root, words: &[&str], most: u64, feed: Option<Feed>) -> Run {
    let mut command = Command::new("prlimit");
    command.arg(format!("--data={most}")).arg("--core=0").arg(built("coracle"));
    command.arg("--root").arg(root.dir.join("root")).arg("--run").arg(root.dir.join("run")).args(words);
    command.stdin(if feed.is_some() { Stdio::piped() } else { Stdio::null() });
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("prlimit");
    let (input, mut errors) = (child.stdin.take(), child.stderr.take().expect("its errors"));
    std::thread::scope(|scope| {
        if let (Some(mut input), Some(feed)) = (input, feed) {
            // One that is refused early is not read to its end.
            scope.spawn(move || drop(feed(&mut input)));
        }
        let said = scope.spawn(move || {
            let mut said = String::new();
            errors.read_to_string(&mut said).expect("what it says");
            said
        });
        let (status, mut peak) = (format!("/proc/{}/status", child.id()), 0);
        loop {
            let text = std::fs::read_to_string(&status).unwrap_or_default();
            let kib = |field: &str| -> u64 {
                let line = text.lines().find_map(|line| line.strip_prefix(field));
                line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
            };
            // Of the program's own file the kernel maps as much as it likes.
            peak = peak.max(kib("VmHWM:").saturating_sub(kib("RssFile:")) << 10);
            if let Some(ended) = child.try_wait().expect("wait") {
                return Run { code: ended.code(), said: said.join().expect("what it says"), peak };
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    })
}

/// A root, and what the command takes by itself.
struct Measured {
    root: Root,
    base: u64,
}

impl Measured {
    fn new() -> Measured {
        let root = Root::new();
        let base = (0..3).map(|_| command(&root, &["images"], u64::MAX >> 1, None).peak).max().unwrap_or(0);
        Measured { root, base }
    }

    /// Runs a command within a bound; answers how it ended, which is never by a signal.
    #[track_caller]
    fn run(&self, bound: u64, words: &[&str], feed: Option<Feed>) -> Run {
        let mode: &[&str] = if bound == SMALL { &["--small-memory"] } else { &[] };
        let run = command(&self.root, &[mode, words].concat(), self.base + bound + STACKS, feed);
        let grown = run.peak.saturating_sub(self.base);
        println!("{words:?}: {:?}, {:.1} MB: {}", run.code, grown as f64 / 1e6, run.said.trim());
        assert!(run.code.is_some(), "{words:?}: ended by a signal: {}", run.said);
        assert!(grown < bound, "{words:?} took {grown} bytes of {bound}");
        run
    }

    /// The same of what must be refused, for this reason.
    #[track_caller]
    fn refused(&self, bound: u64, words: &[&str], feed: Feed, why: &str) {
        let run = self.run(bound, words, Some(feed));
        assert!(run.code != Some(0) && run.said.contains(why), "{words:?}: {:?} {}", run.code, run.said);
        assert!(run.said.len() < 8192, "an error of {} bytes", run.said.len());
    }

    #[track_caller]
    fn taken(&self, bound: u64, words: &[&str], feed: Feed) {
        let run = self.run(bound, words, Some(feed));
        assert_eq!(run.code, Some(0), "{words:?}: {}", run.said);
    }
}

const LOAD: &[&str] = &["load", "-q"];
const IMPORT: &[&str] = &["import", "-", "hostile:1"];
const PUT: &[&str] = &["cp", "-", "box:/tmp"];
const CONTEXT: &[&str] = &["build", "-q", "-"];

// attack: 69, R5 wall archive-headers
#[test]
fn extended_headers_have_one_bound() {
    let at = Measured::new();
    at.root.create("box", body(&["true"], json!({})));
    let why = "tar: extended headers of more than 1048576 bytes";
    for words in [IMPORT, LOAD, PUT, CONTEXT] {
        at.refused(WIDE, words, hostile::many_headers(160), why);
    }
    // One that is large by itself is refused by its size, before any of it is read.
    for kind in [b'x', b'g', b'L', b'K'] {
        at.refused(SMALL, LOAD, hostile::large_header(kind, 1500 << 20), why);
    }
    at.taken(SMALL, IMPORT, hostile::plain());
}

// attack: 69, R5 wall archive-directories
#[test]
fn what_directories_get_at_the_end_lies_on_the_disk() {
    let at = Measured::new();
    at.root.create("box", body(&["true"], json!({})));
    at.taken(SMALL, IMPORT, hostile::directories(600, 60 << 10));
    at.taken(SMALL, PUT, hostile::long_directories(6000));
    // All of them got what is theirs.
    let import = |archive: &[u8]| {
        let how = ImportImage { repo: "dirs".into(), ..ImportImage::default() };
        at.root.engine.image_import(&mut &archive[..], &how, &mut |_| Ok(()), Some(&soon())).expect("import")
    };
    let mut bytes = Vec::new();
    hostile::dated_directories(3000)(&mut bytes).expect("an archive");
    import(&bytes);
    let mut tar = Vec::new();
    let id = at.root.create("dirs", json!({ "Image": "dirs", "Cmd": ["x"] }));
    at.root.engine.container_export(&id, &mut tar, Some(&soon())).expect("export");
    let mut seen = 0;
    for entry in tar::Archive::new(&tar[..]).entries().expect("a tar") {
        let entry = entry.expect("an entry");
        let path = entry.path().expect("a path").display().to_string();
        if let Some(number) =
            path.trim_start_matches("./").strip_prefix('d').and_then(|n| n.trim_end_matches('/').parse::<u64>().ok())
        {
            assert_eq!(entry.header().mtime().expect("a time"), 1_000_000 + number, "{path}");
            assert_eq!(entry.header().mode().expect("a mode") & 0o7777, 0o2750, "{path}");
            seen += 1;
        }
    }
    assert_eq!(seen, 3000);
}

// attack: 70, R5 wall archive-documents
#[test]
fn documents_and_names_of_an_archive_have_one_bound() {
    let at = Measured::new();
    let why = "its documents and the names of its files take more than";
    at.refused(SMALL, LOAD, hostile::documents(40, 1 << 20), why);
    at.refused(SMALL, LOAD, hostile::names(20_000), why);
    at.refused(WIDE, LOAD, hostile::documents(160, 1 << 20), why);
    // A document that is none by its size is passed over, and told of only where it is needed.
    at.refused(SMALL, LOAD, hostile::one_document("manifest.json", 200 << 20), "at most 4194304 are taken");
    at.refused(SMALL, LOAD, hostile::one_document("index.json", 200 << 20), "at most 4194304 are taken");
    // The same configuration as many images, in both layouts.
    at.refused(SMALL, LOAD, hostile::one_for_all(false), "the configurations of its images take more than");
    at.refused(SMALL, LOAD, hostile::one_for_all(true), "the configurations of its images take more than");
}

// attack: 70, 71, 75 wall document-values
#[test]
fn documents_of_many_values_are_refused() {
    let at = Measured::new();
    at.refused(WIDE, LOAD, hostile::history(1_500_000, "{}"), "values, at most");
    at.refused(SMALL, LOAD, hostile::history(300_000, "null"), "values, at most");
    // Gaps in the history are none in what is told of it.
    at.taken(SMALL, LOAD, hostile::history(30, "null"));
    let list = at.root.engine.image_history("history:1").expect("its history");
    assert!(list.len() <= 1, "{list:?}");

    // A registry's manifest of more layers than can be stacked, before any of them is asked for.
    let digest = format!("sha256:{}", "1".repeat(64));
    let kind = "application/vnd.docker.distribution.manifest.v2+json";
    let layer =
        json!({ "mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip", "size": 3, "digest": digest });
    let manifest = json!({ "schemaVersion": 2, "mediaType": kind, "layers": vec![layer; 600],
        "config": { "mediaType": "application/vnd.docker.container.image.v1+json", "size": 2, "digest": digest } });
    let manifest = manifest.to_string();
    let server = Scripted::start(move |asked: &Asked| match asked.target.contains("/manifests/") {
        true => Answered::new(200, manifest.clone()).with("Content-Type", kind),
        false => Answered::new(200, "{}"),
    });
    let name = format!("{}/made/hand:1", server.host());
    let run = at.run(SMALL, &["pull", "-q", &name], None);
    assert!(run.code != Some(0) && run.said.contains("an image of 600 layers"), "{}", run.said);
    assert!(!server.asked_for("/manifests/").is_empty() && server.asked_for("/blobs/").is_empty());
}

// attack: R9 wall build-words
#[test]
fn what_variables_of_a_build_file_become_is_bounded() {
    let at = Measured::new();
    let file = |lines: &[String]| format!("FROM scratch\n{}\n", lines.join("\n"));
    let build = |lines: &[String]| hostile::context(&file(lines));
    let (a, b) = (format!("ENV a={}", "x".repeat(1000)), format!("ENV b={}", "$a".repeat(300)));
    let laughs = |word: &str| [a.clone(), b.clone(), format!("{word} c={}", "$b".repeat(600))];
    for word in ["ENV", "LABEL", "ARG"] {
        at.refused(WIDE, CONTEXT, build(&laughs(word)), "dockerfile line 4: ");
    }
    // Many words, each of them in bounds; many variables; many steps, each of which tells of all before.
    at.refused(
        WIDE,
        CONTEXT,
        build(&[a.clone(), b.clone(), format!("LABEL{}", " k=$b".repeat(900))]),
        "dockerfile line 4: ",
    );
    let args: Vec<String> = (0..400).map(|i| format!("ARG v{i}=$b")).collect();
    at.refused(
        WIDE,
        CONTEXT,
        build(&[&[a.clone(), b.clone()][..], &args].concat()),
        "the values of ARG takes more than",
    );
    let steps: Vec<String> = (0..3000).map(|i| format!("LABEL key{i}=value")).collect();
    at.refused(WIDE, CONTEXT, build(&steps), "the configurations of this build's images take more than");
    at.taken(SMALL, CONTEXT, build(&[a, "ENV b=$a$a".into(), "LABEL c=$b".into()]));
}

#[test]
fn build_files_and_ignore_files_are_bounded() {
    let at = Measured::new();
    let file = |more: &str, count: usize| hostile::context(&format!("FROM scratch\n{}", more.repeat(count)));
    for (more, count, why) in [
        ("\n", 3 << 20, "is larger than 1048576 bytes"),
        ("\n", 1 << 19, "a build file of more than 50000 lines"),
        ("CMD a\n", 30_000, "more than 10000 instructions"),
        ("CMD [\"a\"]\nRUN a \\\n a a a a a a a a a a a a\n", 9_000, "words in them"),
    ] {
        at.refused(SMALL, CONTEXT, file(more, count), why);
    }
    let ignored = |text: String| -> Feed {
        let tar =
            Tar::new().file("Dockerfile", b"FROM scratch\nLABEL a=b\n").file(".dockerignore", text.as_bytes()).end();
        Box::new(move |out: &mut dyn Write| out.write_all(&tar))
    };
    at.refused(SMALL, CONTEXT, ignored("a/".repeat(1 << 20)), "is larger than 262144 bytes");
    at.refused(SMALL, CONTEXT, ignored("a\n".repeat(100_000)), "more than 10000 patterns");
    at.taken(SMALL, CONTEXT, ignored("a/".repeat(100_000)));
}

#[test]
fn generated_archives_are_taken_or_refused_within_the_bound() {
    let at = Measured::new();
    at.root.create("box", body(&["true"], json!({})));
    for seed in 1..=2 {
        for words in [IMPORT, LOAD, PUT, CONTEXT] {
            let run = at.run(SMALL, words, Some(hostile::generated(seed, 6 << 20, words != LOAD)));
            assert!(run.code == Some(0) || !run.said.is_empty(), "{seed} {words:?}: an error without a word");
        }
    }
    // As what ADD unpacks, and compressed in each way.
    for (seed, program) in [(6, "gzip"), (7, "bzip2"), (8, "xz"), (9, "zstd")] {
        let packed = hostile::packed(program, hostile::generated(seed, 1 << 20, false));
        at.run(SMALL, IMPORT, Some(hostile::bytes(packed.clone())));
        at.run(SMALL, LOAD, Some(hostile::bytes(packed.clone())));
        at.run(SMALL, PUT, Some(hostile::bytes(packed.clone())));
        let tar = Tar::new().file("Dockerfile", b"FROM scratch\nADD a.tar /x/\n").file("a.tar", &packed).end();
        at.run(SMALL, CONTEXT, Some(hostile::bytes(tar)));
    }
}

// attack: R16 wall image-health
#[test]
fn an_image_s_health_check_is_checked() {
    let root = Root::new();
    let image = |name: &str, interval: i64| {
        let check = json!({ "Test": ["CMD", "true"], "Interval": interval, "Timeout": 1_000_000_000, "Retries": 1 });
        load(&root, hostile::image(name, json!({ "Cmd": ["true"], "Healthcheck": check })));
    };
    image("nanosecond:1", 1);
    image("negative:1", -5);
    image("second:1", 1_000_000_000);
    for name in ["nanosecond:1", "negative:1"] {
        fails(
            root.try_create("", json!({ "Image": name })),
            ErrorKind::Invalid,
            "Interval in Healthcheck cannot be less than 1ms",
        );
    }
    root.try_create("", json!({ "Image": "second:1" })).expect("the twin");
    // A request can put it right.
    let own = json!({ "Image": "nanosecond:1", "Healthcheck": { "Interval": 1_000_000_000 } });
    root.try_create("", own).expect("with an interval of its own");
}

// attack: R17 wall large-events
#[test]
fn labels_that_no_event_holds_fail_nothing() {
    let root = Root::new();
    let mut events = root.engine.events(&EventQuery::default()).expect("events");
    let labels: serde_json::Map<_, _> = (0..2000).map(|i| (format!("k{i}"), "v".repeat(1000).into())).collect();
    load(&root, hostile::image_on_busybox("labels:1", json!({ "Cmd": ["true"], "Labels": labels })));
    let id = root.create("large", json!({ "Image": "labels:1", "HostConfig": { "NetworkMode": "none" } }));
    root.start(&id);
    assert_eq!(root.wait(&id), 0);
    assert_eq!(root.inspect(&id).config.labels.len(), 2000, "the container has them all");
    root.engine.container_remove(&id, RemoveContainer::default(), Some(&soon())).expect("remove");
    root.engine.image_remove("labels:1", RemoveImage::default()).expect("remove the image");
    let seen = events_until(&mut events, |event| event.kind == "image" && event.action == "delete");
    let wanted = ["load", "create", "start", "die", "destroy", "untag", "delete"];
    let told: Vec<&str> = actions(&seen).into_iter().filter(|action| wanted.contains(action)).collect();
    assert_eq!(told, wanted);
    for action in ["load", "create", "start", "die", "destroy", "untag"] {
        let event = seen.iter().find(|event| event.action == action && event.kind != "network");
        let attributes = &event.expect("it was told").actor.attributes;
        assert!(
            attributes.contains_key("attributesLeftOut") && attributes.len() > 20,
            "{action}: {}",
            attributes.len()
        );
    }
    let die = seen.iter().find(|event| event.action == "die").expect("it ended");
    assert_eq!((&*die.actor.attributes["name"], &*die.actor.attributes["exitCode"]), ("large", "0"));
}

fn load(root: &Root, archive: Vec<u8>) {
    root.engine.image_load(&mut &archive[..], &mut |_| Ok(()), Some(&soon())).expect("load");
}

/// A directory beside the root that no archive may change, with a file and a directory in it.
struct Canary(std::path::PathBuf);

impl Canary {
    fn new(root: &Root) -> Canary {
        use std::os::unix::fs::PermissionsExt;
        let dir = root.dir.join("canary");
        std::fs::create_dir_all(dir.join("dir")).expect("make it");
        std::fs::set_permissions(dir.join("dir"), std::fs::Permissions::from_mode(0o700)).expect("its mode");
        std::fs::write(dir.join("secret"), "secret").expect("a file in it");
        Canary(dir)
    }

    #[track_caller]
    fn is_untouched(&self, by: &str) {
        use std::os::unix::fs::MetadataExt;
        let mut names: Vec<_> =
            std::fs::read_dir(&self.0).expect("read it").map(|e| e.expect("one").file_name()).collect();
        names.sort();
        assert_eq!(names, ["dir", "secret"], "{by} made something outside");
        assert_eq!(std::fs::read_dir(self.0.join("dir")).expect("read it").count(), 0, "{by} made something outside");
        let (file, dir) = (self.0.join("secret"), self.0.join("dir"));
        assert_eq!(std::fs::read(&file).expect("read it"), b"secret", "{by} wrote outside");
        assert_eq!(file.metadata().expect("stat").nlink(), 1, "{by} linked what is outside");
        assert_eq!(dir.metadata().expect("stat").mode() & 0o7777, 0o700, "{by} changed a mode outside");
    }
}

// attack: 55, 56, 61, 62, 64, 72 wall archive-confined
#[test]
fn links_on_the_way_lead_nowhere_else() {
    let root = Root::new();
    let canary = Canary::new(&root);
    let id = root.create("box", body(&["true"], json!({})));
    let out = canary.0.display().to_string();
    let ways: [(&str, Tar); 4] = [
        ("a file through a link", Tar::new().symlink("out", &out).file("out/made", b"made")),
        ("a directory through a link", Tar::new().symlink("out", &out).entry(b'5', "out/dir", "", 0o777, b"")),
        ("a hard link through a link", Tar::new().symlink("out", &out).hard_link("stolen", "out/secret")),
        ("a link in a link", Tar::new().symlink("a", &format!("{out}/dir")).symlink("b", "a").file("b/made", b"made")),
    ];
    for (what, tar) in ways {
        let bytes = tar.end();
        let how = ImportImage::default();
        // Refused or not: what counts is where it leads.
        let imported = root.engine.image_import(&mut &bytes[..], &how, &mut |_| Ok(()), Some(&soon()));
        canary.is_untouched(&format!("import of {what}: {imported:?}"));
        let put = root.engine.container_archive_put(&id, "/tmp", &mut &bytes[..], PutArchive::default(), Some(&soon()));
        canary.is_untouched(&format!("copy of {what}: {put:?}"));
        let built = build(&root, &bytes, "FROM scratch\nLABEL a=b\n");
        canary.is_untouched(&format!("a context with {what}: {built:?}"));
        let add = Tar::new().file("a.tar", &bytes).end();
        let built = build(&root, &add, "FROM scratch\nADD a.tar /\n");
        canary.is_untouched(&format!("ADD of {what}: {built:?}"));
    }
    // The twin: links that images do have.
    let twin = Tar::new()
        .dir("usr/lib")
        .symlink("lib", "usr/lib")
        .symlink("run", "/usr")
        .file("lib/f", b"f")
        .file("run/g", b"g");
    let how = ImportImage { repo: "twin".into(), ..ImportImage::default() };
    root.engine.image_import(&mut &twin.end()[..], &how, &mut |_| Ok(()), Some(&soon())).expect("the twin");
    let twin = root.create("twin", json!({ "Image": "twin", "Cmd": ["x"] }));
    let paths = exported(&root, &twin);
    assert!(paths.contains(&"usr/lib/f".to_owned()) && paths.contains(&"usr/g".to_owned()), "{paths:?}");
}

/// Builds from a context to which that build file is added.
fn build(root: &Root, context: &[u8], file: &str) -> coracle::Result<String> {
    let mut bytes = Tar::new().file("Dockerfile", file.as_bytes()).end();
    bytes.truncate(bytes.len() - 1024);
    bytes.extend(context);
    root.engine.image_build(
        &BuildImage { nocache: true, ..BuildImage::default() },
        coracle::Context::Tar(&mut &bytes[..]),
        &mut |_| Ok(()),
        Some(&soon()),
    )
}

/// The paths of a container's files.
fn exported(root: &Root, id: &str) -> Vec<String> {
    let mut tar = Vec::new();
    root.engine.container_export(id, &mut tar, Some(&soon())).expect("export");
    let mut archive = tar::Archive::new(&tar[..]);
    let entries = archive.entries().expect("a tar");
    let path = |entry: std::io::Result<tar::Entry<'_, &[u8]>>| {
        entry.expect("an entry").path().expect("a path").display().to_string()
    };
    entries.map(path).map(|path| path.trim_start_matches("./").trim_end_matches('/').to_owned()).collect()
}

// attack: 65
#[test]
fn the_root_of_an_archive_is_a_directory() {
    let root = Root::new();
    let canary = Canary::new(&root);
    let id = root.create("box", body(&["true"], json!({})));
    let out = canary.0.display().to_string();
    for name in [".", "./", "/", "a/.."] {
        let bytes = Tar::new().symlink(name, &out).file("made", b"made").end();
        let why = "the root of the archive can only be a directory";
        let imported =
            root.engine.image_import(&mut &bytes[..], &ImportImage::default(), &mut |_| Ok(()), Some(&soon()));
        fails(imported, ErrorKind::Invalid, why);
        fails(
            root.engine.container_archive_put(&id, "/tmp", &mut &bytes[..], PutArchive::default(), Some(&soon())),
            ErrorKind::Invalid,
            why,
        );
        canary.is_untouched(name);
    }
}

// attack: 63 wall archive-sizes
#[test]
fn no_entry_hides_in_another_s_content() {
    let root = Root::new();
    let bytes = hostile::hidden_entry();
    let how = ImportImage { repo: "hidden".into(), ..ImportImage::default() };
    root.engine.image_import(&mut &bytes[..], &how, &mut |_| Ok(()), Some(&soon())).expect("import");
    let id = root.create("hidden", json!({ "Image": "hidden", "Cmd": ["x"] }));
    let paths = exported(&root, &id);
    assert!(paths.contains(&"carrier".to_owned()) && paths.contains(&"after".to_owned()), "{paths:?}");
    assert!(!paths.contains(&"inside".to_owned()), "{paths:?}");
}

// attack: 116 wall answer-sizes
#[test]
fn a_registry_s_documents_are_read_up_to_a_bound() {
    let at = Measured::new();
    // A manifest that is one, but for the blanks behind it.
    let stock = |blanks: usize| {
        let config = "{}";
        let digest = format!("sha256:{}", crate::support::archive::sha256(config.as_bytes()));
        let kind = "application/vnd.docker.distribution.manifest.v2+json";
        let manifest = json!({ "schemaVersion": 2, "mediaType": kind, "layers": [],
            "config": { "mediaType": "application/vnd.docker.container.image.v1+json", "size": 2, "digest": digest } });
        let manifest = format!("{manifest}{}", " ".repeat(blanks));
        Scripted::start(move |asked: &Asked| match asked.target.contains("/manifests/") {
            true => Answered::new(200, manifest.clone()).with("Content-Type", kind),
            false => Answered::new(200, config),
        })
    };
    for (blanks, bound, why) in [
        (5 << 20, SMALL, "the answer has more than 4194304 bytes"),
        (100 << 20, WIDE, "the answer has more than 4194304 bytes"),
        // The twin comes to the configuration, which is none.
        (1 << 20, SMALL, "invalid image JSON, no RootFS key"),
    ] {
        let server = stock(blanks);
        let run = at.run(bound, &["pull", "-q", &format!("{}/made/hand:1", server.host())], None);
        assert!(run.code != Some(0) && run.said.contains(why), "{}", run.said);
        assert!(!server.asked_for("/manifests/").is_empty());
    }
}

// attack: 52, 53 wall user-files
#[test]
fn files_of_users_are_small_and_regular() {
    let root = Root::new();
    let start = |name: &str, passwd: Tar| {
        let id = root.create(name, body(&["true"], json!({ "User": "root" })));
        root.engine
            .container_archive_put(&id, "/etc", &mut &passwd.end()[..], PutArchive::default(), Some(&soon()))
            .expect("put");
        root.engine.container_start(&id, None, Some(&soon())).map(|_| root.wait(&id))
    };
    let line = b"root:x:0:0:root:/root:/bin/sh\n";
    let large = [&line[..], &vec![b'#'; 11 << 20]].concat();
    let why = "must be regular files of at most 10 MiB";
    fails(start("large", Tar::new().file("passwd", &large)), ErrorKind::Invalid, why);
    fails(start("fifo", Tar::new().entry(b'6', "passwd", "", 0o644, b"")), ErrorKind::Invalid, why);
    fails(start("dir", Tar::new().entry(b'6', "group", "", 0o644, b"")), ErrorKind::Invalid, why);
    assert_eq!(start("twin", Tar::new().file("passwd", line)).expect("the twin"), 0);
}

// attack: 59
#[test]
fn an_image_says_nothing_of_rights() {
    let root = Root::new();
    let mut config: serde_json::Value =
        json!({ "Cmd": ["true"], "Privileged": true, "HostConfig": { "Privileged": true } });
    config["Devices"] = json!(["/dev/null"]);
    load(&root, hostile::image("rights:1", config));
    let id = root.create("", json!({ "Image": "rights:1" }));
    let host = root.inspect(&id).host_config;
    assert!(
        !host.privileged && host.binds.unwrap_or_default().is_empty() && host.cap_add.unwrap_or_default().is_empty()
    );
}
