//! Archives, documents and build files that want memory, or a place outside of where they are unpacked.
//!
//! Each is given to the command in a process of its own, whose data the kernel bounds: an operation that takes more than
//! is promised would end in an abort, and is seen by its peak as well.

use super::hostile::{self, Feed};
use crate::canary::Canary;
use crate::support::archive::Tar;
use crate::support::ended::Ended;
use crate::support::registry::{Answered, Request, Scripted};
use crate::support::*;
use coracle::ErrorKind;
use coracle::model::*;
use serde_json::json;
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

const MIB: u64 = 1 << 20;
/// The limits of an operation: see `docs/images.md`.
const WIDE: u64 = 64 * MIB;
pub const SMALL: u64 = 16 * MIB;
/// A stack of its threads: the kernel counts each whole as data, used or not.
const STACK: &str = "524288";

/// How a run of the command ended.
pub struct Run {
    /// The exit code; absent: a signal ended it.
    pub code: Option<i32>,
    pub said: String,
    /// The peak of resident memory, in bytes, without the program's file.
    peak: u64,
}

/// Runs `coracle WORDS` on the root, with data of at most `most` bytes, and feeds its standard input.
fn command(root: &Root, words: &[&str], most: u64, feed: Option<Feed>) -> Run {
    let mut command = Command::new("prlimit");
    command.arg(format!("--data={most}")).arg("--core=0").arg(built("coracle")).env("RUST_MIN_STACK", STACK);
    // A list of calls would be made with memory that is not there: some of those lists wait for ever.
    command.env("RUST_BACKTRACE", "0");
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
        let (id, mut peak) = (child.id(), 0);
        loop {
            peak = peak.max(resident(id));
            if let Some(ended) = child.try_wait().expect("wait") {
                return Run { code: ended.code(), said: said.join().expect("what it says"), peak };
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    })
}

/// The most resident memory so far of a process that runs the command, in bytes.
fn resident(process: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let kib = |field: &str| -> u64 {
        let line = text.lines().find_map(|line| line.strip_prefix(field));
        line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
    };
    // Until its name changes, a new process may still be seen with the memory of this one. Of the program's own file the
    // kernel maps as much as it likes.
    if text.starts_with("Name:\tcoracle\n") { kib("VmHWM:").saturating_sub(kib("RssFile:")) << 10 } else { 0 }
}

/// The memory that the command takes by itself: a command that waits for its input is looked at, since one that ends may
/// have ended between two looks. It waits when all its threads sleep at 20 looks in a row.
fn waiting(root: &Root) -> u64 {
    let mut command = Command::new(built("coracle"));
    command.env("RUST_MIN_STACK", STACK).arg("--root").arg(root.dir.join("root"));
    command.arg("--run").arg(root.dir.join("run")).args(["--small-memory", "load", "-q"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("coracle");
    let process = child.id();
    let sleeps = || {
        let threads = std::fs::read_dir(format!("/proc/{process}/task")).expect("its threads").flatten();
        let mut states = threads.map(|thread| std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default());
        resident(process) > 0 && states.all(|stat| stat.contains(") S "))
    };
    let mut looks = 0;
    wait_for("the command to wait for its input", || {
        looks = if sleeps() { looks + 1 } else { 0 };
        looks == 20
    });
    let base = resident(process);
    drop(child.stdin.take());
    child.wait().expect("wait");
    base
}

/// A root, and what the command takes by itself.
pub struct Measured {
    root: Root,
    base: u64,
}

impl Measured {
    pub fn new() -> Measured {
        let root = Root::new();
        let base = waiting(&root);
        println!("the command by itself: {:.1} MB", base as f64 / 1e6);
        Measured { root, base }
    }

    /// Runs a command within a bound; returns how it ended, which is never by a signal.
    #[track_caller]
    pub fn run(&self, bound: u64, words: &[&str], feed: Option<Feed>) -> Run {
        let mode: &[&str] = if bound == SMALL { &["--small-memory"] } else { &[] };
        let run = command(&self.root, &[mode, words].concat(), self.base + bound, feed);
        let grown = run.peak.saturating_sub(self.base);
        println!("{words:?}: {:?}, {:.1} MB: {}", run.code, grown as f64 / 1e6, run.said.trim());
        assert!(run.code.is_some(), "{words:?}: ended by a signal: {}", run.said);
        assert!(grown < bound, "{words:?} took {grown} bytes of {bound}");
        run
    }

    /// Like the function above, for an archive that must be refused, for this reason.
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
fn pending_attributes_of_directories_lie_on_the_disk() {
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
    // A document that is too large counts as absent, and is only reported if it is needed.
    at.refused(SMALL, LOAD, hostile::one_document("manifest.json", 200 << 20), "at most 4194304 are taken");
    at.refused(SMALL, LOAD, hostile::one_document("index.json", 200 << 20), "at most 4194304 are taken");
    // One configuration as many images, in both layouts.
    at.refused(SMALL, LOAD, hostile::one_for_all(false), "the configurations of its images take more than");
    at.refused(SMALL, LOAD, hostile::one_for_all(true), "the configurations of its images take more than");
}

// attack: 70, 71, 75 wall document-values
#[test]
fn documents_of_many_values_are_refused() {
    let at = Measured::new();
    at.refused(WIDE, LOAD, hostile::history(1_500_000, "{}"), "values, at most");
    at.refused(SMALL, LOAD, hostile::history(300_000, "null"), "values, at most");
    // Gaps in the history do not show in the report of it.
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
    let server = Scripted::start(move |asked: &Request| match asked.target.contains("/manifests/") {
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
fn a_budget_bounds_the_variables_of_a_build_file() {
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

// attack: 55, 56, 61, 62, 64, 72 wall archive-confined
#[test]
fn links_on_the_way_lead_nowhere_else() {
    let root = Root::new();
    let canary = Canary::new(&root);
    let id = root.create("box", body(&["true"], json!({})));
    let out = canary.dir.display().to_string();
    let ways: [(&str, Tar); 4] = [
        ("a file through a link", Tar::new().symlink("out", &out).file("out/made", b"made")),
        ("a directory through a link", Tar::new().symlink("out", &out).entry(b'5', "out/sub", "", 0o777, b"")),
        ("a hard link through a link", Tar::new().symlink("out", &out).hard_link("stolen", "out/passwd")),
        ("a link in a link", Tar::new().symlink("a", &format!("{out}/sub")).symlink("b", "a").file("b/made", b"made")),
    ];
    for (what, tar) in ways {
        let bytes = tar.end();
        let how = ImportImage::default();
        // Refused or not: what counts is where it leads.
        let imported = root.engine.image_import(&mut &bytes[..], &how, &mut |_| Ok(()), Some(&soon()));
        canary.untouched_by(&format!("import of {what}: {imported:?}"));
        let put = root.engine.container_archive_put(&id, "/tmp", &mut &bytes[..], PutArchive::default(), Some(&soon()));
        canary.untouched_by(&format!("copy of {what}: {put:?}"));
        let built = build(&root, &bytes, "FROM scratch\nLABEL a=b\n");
        canary.untouched_by(&format!("a context with {what}: {built:?}"));
        let add = Tar::new().file("a.tar", &bytes).end();
        let built = build(&root, &add, "FROM scratch\nADD a.tar /\n");
        canary.untouched_by(&format!("ADD of {what}: {built:?}"));
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

// attack: 65 wall archive-root
#[test]
fn the_root_of_an_archive_is_a_directory() {
    let root = Root::new();
    let canary = Canary::new(&root);
    let id = root.create("box", body(&["true"], json!({})));
    let out = canary.dir.display().to_string();
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
        canary.untouched_by(name);
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
        Scripted::start(move |asked: &Request| match asked.target.contains("/manifests/") {
            true => Answered::new(200, manifest.clone()).with("Content-Type", kind),
            false => Answered::new(200, config),
        })
    };
    for (blanks, bound, why) in [
        (5 << 20, SMALL, "the answer has more than 4194304 bytes"),
        (100 << 20, WIDE, "the answer has more than 4194304 bytes"),
        // The twin replaces the configuration, and is malformed.
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

// attack: 59 wall image-rights
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

/// Data that expands without end, compressed once and twice: it ends at a budget, costs little and leaves nothing.
// attack: 60 wall archive-swelling
#[test]
fn a_budget_ends_data_that_swell_without_end() {
    let at = Measured::new();
    // A frame of blocks that are one byte each, 128 KiB long: 8 GiB and a bit.
    let block = (128 << 10 << 3u32) | 2;
    let first = &u32::to_le_bytes(block)[..3];
    let mut bomb = vec![0x28, 0xb5, 0x2f, 0xfd, 0, 0x38];
    // The whole is one file of a tar, which no image has a use for.
    let mut head = Vec::new();
    hostile::head(&mut head, "noise", 9 << 30).expect("a header");
    bomb.extend(u32::to_le_bytes((512 << 3) as u32)[..3].iter());
    bomb.extend(&head);
    for _ in 0..(8u64 << 30 >> 17) + 1024 {
        bomb.extend(first);
        bomb.push(0);
    }
    bomb.extend([1, 0, 0]);
    let why = "which is over the budget";
    at.refused(WIDE, LOAD, hostile::bytes(bomb.clone()), why);
    assert_eq!(std::fs::read_dir(at.root.dir.join("root/tmp")).expect("list").count(), 0);
}

/// Hostile archives at once, by several programs' threads: each is confined as if it were alone.
// attack: 66 wall archive-confined
#[test]
fn archives_unpacked_at_once_stay_apart() {
    let root = Root::new();
    let canary = Canary::new(&root);
    let out = canary.dir.display().to_string();
    // One layer has the links that the next one uses; each uses its own as well.
    let links = Tar::new().symlink("out", &out).symlink("way", "out").symlink("dir", &format!("{out}/sub"));
    let lower = links.file("lower", b"l").file("out/made", b"made").end();
    let upper = Tar::new().file("out/made", b"made").file("way/made", b"made").file("dir/made", b"made").end();
    let lower_plain = Tar::new().symlink("out", &out).symlink("way", "out").symlink("dir", &format!("{out}/sub")).end();
    let whole = crate::support::archive::image("apart:1", &[&lower_plain, &upper]);
    std::thread::scope(|scope| {
        for number in 0..8 {
            let (root, whole, lower) = (&root, &whole, &lower);
            scope.spawn(move || {
                let how = ImportImage { repo: format!("apart{number}"), ..ImportImage::default() };
                let _ = root.engine.image_import(&mut &lower[..], &how, &mut |_| Ok(()), Some(&soon()));
                root.engine.image_load(&mut &whole[..], &mut |_| Ok(()), Some(&soon())).expect("load");
            });
        }
    });
    canary.untouched_by("eight at once");
    let id = root.create("apart", json!({ "Image": "apart:1", "Cmd": ["x"] }));
    let paths = exported(&root, &id);
    assert!(paths.contains(&"out/made".to_owned()) && paths.contains(&"dir/made".to_owned()), "{paths:?}");
}

/// A layer whose packing is broken ends its pull or load with an error, and keeps no other from the same layer.
// attack: 67 wall claims-released
#[test]
fn a_broken_layer_keeps_nobody_waiting() {
    let root = Root::new();
    for packer in ["gzip", "bzip2", "xz", "zstd"] {
        // Content that is stored already is not fetched: each has a layer of its own.
        let tar = Tar::new().file(packer, &vec![7; 300_000]).end();
        let whole = hostile::packed(packer, hostile::bytes(tar.clone()));
        let mut flipped = whole.clone();
        let middle = flipped.len() / 2;
        flipped[middle] ^= 0x55;
        let wrong = [&whole[..6], &[0xa5; 600][..]].concat();
        for (what, bytes) in [("cut", whole[..middle].to_vec()), ("flipped", flipped), ("of another form", wrong)] {
            let diff_id = format!("sha256:{}", crate::support::archive::sha256(&tar));
            let config = crate::support::archive::config(json!({ "Cmd": [packer, what] }), &[diff_id]);
            let name = |bytes: &[u8]| format!("sha256:{}", crate::support::archive::sha256(bytes));
            let part =
                |kind: &str, bytes: &[u8]| json!({ "mediaType": kind, "size": bytes.len(), "digest": name(bytes) });
            let kind = "application/vnd.docker.distribution.manifest.v2+json";
            let manifest = json!({ "schemaVersion": 2, "mediaType": kind,
                "config": part("application/vnd.docker.container.image.v1+json", config.as_bytes()),
                "layers": [part("application/vnd.docker.image.rootfs.diff.tar.gzip", &bytes)] });
            let (manifest, layer) = (manifest.to_string(), name(&bytes));
            let server = Scripted::start(move |asked: &Request| match &asked.target {
                target if target.contains("/manifests/") => {
                    Answered::new(200, manifest.clone()).with("Content-Type", kind)
                }
                target if target.ends_with(&layer) => Answered::new(200, bytes.clone()),
                target if target.contains("/blobs/") => Answered::new(200, config.clone()),
                _ => Answered::new(200, "{}"),
            });
            let pull = || {
                let request = PullImage { name: format!("{}/made/hand:1", server.host()), ..PullImage::default() };
                root.engine.image_pull_tags(&request, &mut |_| Ok(()), Some(&soon()))
            };
            // Twice: the second does not wait for what the first held.
            for _ in 0..2 {
                let error = pull().expect_err("a broken layer");
                assert!(!matches!(error.kind(), ErrorKind::Timeout | ErrorKind::Panic), "{packer} {what}: {error}");
            }
            assert!(server.asked_for("/blobs/").len() >= 2, "{packer} {what}");
        }
        // The twin.
        let how = ImportImage { repo: packer.into(), ..ImportImage::default() };
        root.engine.image_import(&mut &whole[..], &how, &mut |_| Ok(()), Some(&soon())).expect("the twin");
    }
}

/// Where an archive of images should have its files and directories, it has links to the host's.
// attack: 73 wall archive-links
#[test]
fn links_of_an_archive_of_images_lead_to_its_own_files() {
    let root = Root::empty();
    let canary = Canary::new(&root);
    let image = crate::images::Image::new().archive("linked:1");
    let files = crate::support::archive::files(&image);
    let config = files.keys().find(|name| name.ends_with(".json") && *name != "manifest.json").expect("one").clone();
    let targets = |name: &str| [canary.path(name), canary.climb(name), format!("/proc/self/root{}", canary.path(name))];
    for linked in ["manifest.json", &config, "0/layer.tar", "0", "repositories", "index.json", "oci-layout", "blobs"] {
        for target in targets("passwd").into_iter().chain(targets("sub")) {
            // A name of a tar's header has 100 bytes.
            if target.len() > 100 {
                continue;
            }
            let tar = Tar::new().symlink(linked, &target);
            let tar =
                files.iter().filter(|(path, _)| *path != linked).fold(tar, |tar, (path, data)| tar.file(path, data));
            let loaded = root.engine.image_load(&mut &tar.end()[..], &mut |_| Ok(()), Some(&soon()));
            println!("{linked} -> {target}: {loaded:?}");
            let needed = linked == "manifest.json" || linked == config || linked == "0/layer.tar";
            canary.untouched();
            assert!(loaded.is_err() || !needed, "{linked} -> {target}");
        }
    }
    // The twin: a layer that is a link to another layer, as docker's own archives have them.
    let tar = files.iter().fold(Tar::new(), |tar, (path, data)| match path.as_str() {
        "0/layer.tar" => tar.file("real.tar", data).symlink("0/layer.tar", "../real.tar"),
        _ => tar.file(path, data),
    });
    root.engine.image_load(&mut &tar.end()[..], &mut |_| Ok(()), Some(&soon())).expect("the twin");
}

/// A driver's name that leads out of the directories of plugins finds none, though one listens there.
// attack: 88 wall plugin-names
#[test]
fn names_of_drivers_lead_out_of_no_directory() {
    let dir = temp_dir();
    std::fs::create_dir(dir.join("plugins")).expect("mkdir");
    let server = Scripted::start(|_| Answered::new(200, r#"{"Implements":["NetworkDriver","IpamDriver"]}"#));
    std::fs::write(dir.join("evil.spec"), format!("tcp://{}", server.host())).expect("write");
    let engine = coracle::Engine::open_with({
        let mut options = options_at(&dir);
        options.plugin_dirs = vec![dir.join("plugins")];
        options
    });
    let root = Root { dir, engine: engine.expect("open") };
    let out = root.dir.join("evil").display().to_string();
    for name in ["../evil", "./../evil", &out, "plugins/../../evil"] {
        let body: CreateNetwork = serde_json::from_value(json!({ "Name": "n", "Driver": name })).expect("a body");
        fails(root.engine.network_create(&body), ErrorKind::NotFound, "");
        assert!(server.asked().is_empty(), "{name}: {:?}", server.asked());
    }
    // The twin: in its directory it is found, and asked.
    std::fs::rename(root.dir.join("evil.spec"), root.dir.join("plugins/evil.spec")).expect("move");
    let body: CreateNetwork = serde_json::from_value(json!({ "Name": "n", "Driver": "evil" })).expect("a body");
    let _ = root.engine.network_create(&body);
    assert!(!server.asked().is_empty());
    // Volumes: names are components of paths, and there are no drivers but our own.
    for name in ["../x", "a/b", "..", ".", "a\0b", "/etc"] {
        let how = CreateVolume { name: name.into(), ..CreateVolume::default() };
        fails(root.engine.volume_create(&how), ErrorKind::Invalid, "volume name");
    }
    let how = CreateVolume { name: "vol".into(), driver: "../evil".into(), ..CreateVolume::default() };
    fails(root.engine.volume_create(&how), ErrorKind::NotFound, "plugin");
}

/// The oldest layout of archives: many documents, long chains, histories that grow from image to image.
// attack: R5 wall archive-documents
#[test]
fn archives_of_the_oldest_layout_have_one_bound() {
    let at = Measured::new();
    let id = |number: usize| format!("{number:064x}");
    let layer = Tar::new().end();
    let archive = |count: usize, more: &dyn Fn(usize) -> serde_json::Value| {
        let mut tar = Tar::new();
        for number in 1..=count {
            let mut document = more(number);
            document["id"] = json!(id(number));
            document["os"] = json!("linux");
            if number > 1 {
                document["parent"] = json!(id(number - 1));
            }
            tar = tar.file(&format!("{}/json", id(number)), document.to_string().as_bytes());
            tar = tar.file(&format!("{}/layer.tar", id(number)), &layer);
        }
        hostile::bytes(tar.end())
    };
    let why = "take more than";
    // Documents of many values each; comments that every later image has in its history, too.
    let many = json!(vec![0; 19_000]);
    at.refused(SMALL, LOAD, archive(150, &|_| json!({ "more": many })), why);
    at.refused(SMALL, LOAD, archive(400, &|_| json!({ "comment": "c".repeat(1000) })), why);
    at.refused(WIDE, LOAD, archive(450, &|_| json!({ "comment": "c".repeat(10_000) })), why);
    at.run(
        SMALL,
        LOAD,
        Some(archive(90, &|number| json!({ "created": format!("2020-01-01T00:00:{:02}Z", number % 60) }))),
    );
}

/// A server under the same bound, and what it takes for requests.
// attack: R5 wall document-values
#[test]
fn documents_of_requests_have_one_bound() {
    let at = Measured::new();
    let socket = at.root.dir.join("api.sock");
    let mut command = Command::new("prlimit");
    command
        .arg(format!("--data={}", at.base + WIDE))
        .arg("--core=0")
        .arg(built("coracle"))
        .env("RUST_MIN_STACK", STACK);
    command.arg("--root").arg(at.root.dir.join("root")).arg("--run").arg(at.root.dir.join("run"));
    command.args(["serve", "-H"]).arg(format!("unix://{}", socket.display()));
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("prlimit");
    let mut child = Ended(child);
    wait_for("the server", || std::os::unix::net::UnixStream::connect(&socket).is_ok());
    let ask = |target: &str, header: &str, body: &[u8]| {
        let mut stream = std::os::unix::net::UnixStream::connect(&socket).expect("connect");
        let head = format!(
            "POST {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{header}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    };
    let fill = |head: &str, piece: &str, tail: &str| {
        let count = ((8 << 20) - head.len() - tail.len()) / piece.len();
        format!("{head}{}{tail}", piece.repeat(count)).into_bytes()
    };
    let bodies = [
        fill("{\"Image\":\"busybox\",\"Cmd\":[\"\"", ",\"\"", "]}"),
        fill("{\"Image\":\"busybox\",\"More\":[0", ",0", "]}"),
        fill("{\"Image\":\"busybox\",\"More\":[{}", ",{}", "]}"),
        fill("{\"Image\":\"busybox\",\"Labels\":{\"\":\"\"", ",\"\":\"\"", "}}"),
        fill("{\"Image\":\"busybox\",\"HostConfig\":{\"Binds\":[\"\"", ",\"\"", "]}}"),
    ];
    for body in &bodies {
        for target in ["/v1.24/containers/create", "/v1.24/networks/create", "/v1.24/volumes/create", "/v1.24/auth"] {
            let answer = ask(target, "", body);
            assert!(answer.starts_with("HTTP/1.1 4") || answer.starts_with("HTTP/1.1 5"), "{target}: {answer}");
        }
    }
    let answer = ask("/v1.24/containers/create", "", &bodies[1]);
    assert!(answer.contains("values"), "{answer}");
    // As many values as a create of all ports has, in other places: what would be held of them is bounded all the same.
    let many = |head: &str, member: &dyn Fn(usize) -> String, tail: &str| {
        let members: Vec<String> = (0..400_000).map(member).collect();
        format!("{{\"Image\":\"busybox\",{head}{}{tail}}}", members.join(",")).into_bytes()
    };
    let name = |at: usize| format!("\"{at:x}\":");
    let maps = [
        many("\"Labels\":{", &|at| name(at) + "\"\"", "}"),
        many("\"Volumes\":{", &|at| name(at) + "{}", "}"),
        many("\"ExposedPorts\":{", &|at| name(at) + "{}", "}"),
        many("\"HostConfig\":{\"PortBindings\":{", &|at| name(at) + "[]", "}}"),
        many("\"HostConfig\":{\"LxcConf\":{", &|at| name(at) + "\"\"", "}}"),
        many("\"HostConfig\":{\"Nothing\":{\"a\":[", &|_| "[]".into(), "]}}"),
    ];
    for body in &maps {
        let answer = ask("/v1.24/containers/create", "", body);
        assert!(answer.contains("a document of more than 100000 values"), "{answer}");
    }
    let deep = fill("{\"Image\":\"busybox\",\"Nothing\":[", "[", "");
    let answer = ask("/v1.24/containers/create", "", &deep);
    assert!(answer.contains("exceeded max depth"), "{answer}");
    for place in ["\"ExposedPorts\":{\"", "\"HostConfig\":{\"PortBindings\":{\""] {
        let long = fill(&format!("{{\"Image\":\"busybox\",{place}"), "x", "\":null}}}");
        let answer = ask("/v1.24/containers/create", "", &long);
        assert!(answer.starts_with("HTTP/1.1 4") && answer.len() < 5000, "{} bytes", answer.len());
    }
    // The twin.
    let ports = |number: &dyn Fn(usize) -> String| (1..=65_535).map(number).collect::<Vec<_>>().join(",");
    let exposed = ports(&|port| format!("\"{port}/tcp\":{{}}"));
    let bound = ports(&|port| format!("\"{port}/tcp\":[{{\"HostIp\":\"127.0.0.1\",\"HostPort\":\"{port}\"}}]"));
    let all = format!(
        "{{\"Image\":\"busybox\",\"Cmd\":[\"x\"],\"ExposedPorts\":{{{exposed}}},\"HostConfig\":{{\"PortBindings\":{{{bound}}}}}}}"
    );
    let answer = ask("/v1.24/containers/create?name=all", "", all.as_bytes());
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    // Documents of a build stand in the head of its request, which has its own bound.
    let context = Tar::new().file("Dockerfile", b"FROM scratch\nLABEL a=b\n").end();
    for key in ["buildargs", "labels", "ulimits", "cachefrom", "securityopt"] {
        let answer = ask(&format!("/v1.24/build?{key}=[{}0]", "0,".repeat(28_000)), "", &context);
        assert!(answer.starts_with("HTTP/1.1 4"), "{key}: {answer}");
    }
    let auths = format!("X-Registry-Config: {}\r\n", "W1tb".repeat(15_000));
    assert!(ask("/v1.24/build", &auths, &context).contains("Successfully built"));
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.0.id())).expect("its status");
    let kib = |field: &str| -> u64 { proc_status(&status, field).trim_end_matches(" kB").parse().expect("a number") };
    let grown = ((kib("VmHWM") - kib("RssFile")) << 10).saturating_sub(at.base);
    println!("requests: {:.1} MB", grown as f64 / 1e6);
    assert!(grown < WIDE, "requests took {grown} bytes");
    assert!(child.0.try_wait().expect("wait").is_none(), "the server ended");
}

/// The docker command's file of credentials, and what a registry says beside manifests.
// attack: R5 wall document-values
#[test]
fn documents_of_credentials_and_registries_have_one_bound() {
    let at = Measured::new();
    let file = at.root.dir.join("config.json");
    let many =
        format!("{{\"auths\":{{\"a\":{{}}{}}}}}", (0..500_000).map(|i| format!(",\"{i:x}\":{{}}")).collect::<String>());
    std::fs::write(&file, &many).expect("write");
    fails(coracle::model::DockerConfig::load(&file), ErrorKind::Invalid, "more than 524288 bytes");
    fails(coracle::model::DockerConfig::from_json(many.as_bytes()), ErrorKind::Invalid, "more than 524288 bytes");
    let endless = std::fs::File::create(&file).expect("create");
    endless.set_len(1 << 40).expect("a sparse file");
    fails(coracle::model::DockerConfig::load(&file), ErrorKind::Invalid, "more than 524288 bytes");
    // Tags by the million, a token of many values, errors of many words.
    let pieces: [(&str, String, &str); 3] = [
        ("tags/list", format!("{{\"tags\":[\"\"{}]}}", ",\"\"".repeat(1_390_000)), "more than 100000 tags"),
        ("token", format!("{{\"more\":[0{}]}}", ",0".repeat(520_000)), "no token"),
        ("manifests", format!("{{\"errors\":[{{}}{}]}}", ",{}".repeat(20_000)), ""),
    ];
    for (what, answer, why) in pieces {
        let port = Arc::new(AtomicU16::new(0));
        let own = port.clone();
        let server = Scripted::start(move |asked: &Request| match asked.target.contains(what) {
            true => Answered::new(if what == "manifests" { 404 } else { 200 }, answer.clone()),
            false if what == "token" => {
                let realm = format!("Bearer realm=\"http://127.0.0.1:{}/token\"", own.load(Ordering::SeqCst));
                Answered::new(401, "{}").with("WWW-Authenticate", &realm)
            }
            false => Answered::new(200, "{}"),
        });
        port.store(server.port, Ordering::SeqCst);
        let name = format!("{}/made/hand{}", server.host(), if what == "tags/list" { "" } else { ":1" });
        let words: &[&str] = if what == "tags/list" { &["pull", "-q", "-a", &name] } else { &["pull", "-q", &name] };
        let run = at.run(SMALL, words, None);
        assert!(run.code != Some(0) && run.said.contains(why), "{what}: {}", run.said);
        assert!(!server.asked_for(what).is_empty(), "{what}");
    }
}
