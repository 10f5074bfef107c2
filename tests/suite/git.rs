//! Contexts of git repositories, from Debian's git over both ways, and packs that no git makes.

use crate::support::archive::sha256;
use crate::support::git::{Daemon, Entry, GREETING, Repository, line, object, pack, packed, scripted, web};
use crate::support::*;
use coracle::model::*;
use coracle::{Context, ErrorKind, Op};
use serde_json::json;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;

fn build(root: &Root, remote: &str) -> coracle::Result<String> {
    let how = BuildImage { remote: remote.into(), networkmode: "none".into(), ..BuildImage::default() };
    root.engine.image_build(&how, Context::None, &mut |_| Ok(()), Some(&soon()))
}

#[track_caller]
fn built(root: &Root, remote: &str) -> String {
    build(root, remote).unwrap_or_else(|e| panic!("build {remote}: {e}"))
}

/// Runs a script in an image.
#[track_caller]
fn sh(root: &Root, image: &str, script: &str) -> String {
    root.run(&["sh", "-c", script], json!({ "Image": image }), b"").ok()
}

/// No container, and no file of a build that is over.
#[track_caller]
fn nothing_left(root: &Root) {
    let entries = std::fs::read_dir(root.dir.join("root/tmp")).expect("list tmp").flatten();
    let names: Vec<String> = entries.map(|entry| entry.file_name().display().to_string()).collect();
    assert!(names.iter().all(|name| name == "empty"), "{names:?}");
}

const FILE: &str = "FROM busybox\nCOPY . /in/\n";

/// Every form of an address, over both ways.
#[test]
fn branches_tags_commits_and_directories() {
    let root = Root::new();
    let repository = Repository::new(&root.dir.join("git"));
    repository.write("Dockerfile", FILE);
    repository.write("which", "first");
    repository.write("sub/deep/Dockerfile", FILE);
    repository.write("sub/deep/which", "deep");
    let first = repository.commit("first");
    repository.git(&["tag", "plain"], b"");
    repository.git(&["tag", "-a", "-m", "with words", "v1/annotated"], b"");
    repository.write("which", "side");
    repository.git(&["checkout", "-q", "-b", "side/way"], b"");
    repository.commit("side");
    // A tag goes before a branch of its name, as in git.
    repository.git(&["branch", "both"], b"");
    repository.git(&["tag", "both", &first], b"");
    repository.git(&["checkout", "-q", "trunk"], b"");
    repository.write("which", "trunk");
    repository.commit("trunk");
    repository.push();
    let (daemon, web) = (Daemon::start(&repository.dir), web(&repository.dir));
    let over_http = format!("http://{}/x.git", web.host());
    let tag = repository.git(&["rev-parse", "v1/annotated"], b"");
    assert_ne!(tag, first);
    for (fragment, want) in [
        ("", "trunk"),
        ("#", "trunk"),
        ("#trunk", "trunk"),
        ("#side/way", "side"),
        ("#refs/heads/side/way", "side"),
        ("#heads/side/way", "side"),
        ("#both", "first"),
        ("#plain", "first"),
        ("#v1/annotated", "first"),
        (&format!("#{first}"), "first"),
        (&format!("#{tag}"), "first"),
        ("#:sub/deep", "deep"),
        ("#trunk:/sub/./deep/", "deep"),
    ] {
        for address in [&daemon.url(), &over_http] {
            let image = built(&root, &format!("{address}{fragment}"));
            assert_eq!(sh(&root, &image, "cat /in/which; test ! -e /in/.git"), want, "{address}{fragment}");
        }
    }
    let locked = over_http.replace("//", "//me:secret@").replace("/x.git", "/locked/x.git");
    built(&root, &locked);
    built(&root, &over_http.replace("/x.git", "/moved/x.git#plain"));
    for (remote, kind, why) in [
        ("#none", ErrorKind::Invalid, "it has no branch or tag none"),
        ("#ab12", ErrorKind::Invalid, "40 digits"),
        (&format!("#{}", "a".repeat(40)), ErrorKind::Invalid, "it has no commit aaaa"),
        ("#trunk:none", ErrorKind::Invalid, "no directory \"none\""),
        ("#trunk:which", ErrorKind::Invalid, "not a directory"),
        ("#a b", ErrorKind::Invalid, "cannot be the name"),
    ] {
        for address in [&daemon.url(), &over_http] {
            let failed = build(&root, &format!("{address}{remote}"));
            let shown = failed.as_ref().err().map(|e| e.message().to_owned()).unwrap_or_default();
            assert!(shown.starts_with(&format!("remote: {address}: ")), "{shown}");
            fails(failed, kind, why);
        }
    }
    fails(build(&root, &over_http.replace("x.git", "locked/x.git")), ErrorKind::Internal, "user and a password");
    fails(build(&root, &over_http.replace("x.git", "none.git")), ErrorKind::Invalid, "no such repository");
    fails(build(&root, &daemon.url().replace("x.git", "none")), ErrorKind::Internal, "the server says: access denied");
    fails(build(&root, "git@127.0.0.1:x"), ErrorKind::Unsupported, "remote: git@127.0.0.1:x: this engine has no ssh");
    let empty = Repository::new(&root.dir.join("empty"));
    let daemon = Daemon::start(&empty.dir);
    fails(build(&root, &daemon.url()), ErrorKind::Invalid, "the repository has no commit");
    nothing_left(&root);
}

/// ADD of repositories, over both ways; each refusal says why.
#[test]
fn files_of_a_repository_are_added() {
    let root = Root::new();
    let repository = Repository::new(&root.dir.join("git"));
    repository.write("which", "first");
    repository.write("sub/deep/f", "deep");
    repository.write("sub/g.md", "words");
    let first = repository.commit("first");
    repository.git(&["tag", "-a", "-m", "words", "v1"], b"");
    repository.write("which", "second");
    repository.commit("second");
    repository.push();
    let (daemon, web) = (Daemon::start(&repository.dir), web(&repository.dir));
    let over_http = format!("http://{}/x.git", web.host());
    let build = |lines: &str| {
        let file = Some(format!("FROM busybox\n{lines}\n"));
        let how = BuildImage { file, networkmode: "none".into(), ..BuildImage::default() };
        let mut said = String::new();
        let mut tell = |message: Progress| {
            said.push_str(&message.stream);
            Ok(())
        };
        let id = root.engine.image_build(&how, Context::None, &mut tell, Some(&soon()));
        id.map(|id| (id, said))
    };
    let added = |lines: &str| build(lines).unwrap_or_else(|e| panic!("{lines}: {e}")).0;
    for address in [&daemon.url(), &over_http] {
        let image = added(&format!(
            "ARG TAG=v1\nWORKDIR /w\nADD {address} /all/\nADD {address}#$TAG tagged\nADD --chown=3:4 --exclude=**/*.md {address}#{first}:sub /sub"
        ));
        let script = "cat /all/which /w/tagged/which /sub/deep/f; find /sub /all -name '*.md' -o -name .git; stat -c '%u:%g %a %Y' /sub/deep/f";
        assert_eq!(sh(&root, &image, script), "secondfirstdeep/all/sub/g.md\n3:4 644 1700000000", "{address}");
        added(&format!("ADD --checksum={first} {address}#v1 /x/\nADD --checksum={} {address}#v1 /x/", &first[..7]));
        added(&format!("ADD --keep-git-dir=false {address} /x"));
        let image = added(&format!(
            "ADD {address}?tag=v1&subdir=sub&commit={first} /a/\nADD {address}?branch=trunk#:sub/deep /b/\nADD {address}?ref=v1 /c/"
        ));
        assert_eq!(sh(&root, &image, "cat /a/deep/f /b/f /c/which"), "deepdeepfirst", "{address}");
    }
    // The cache goes by the files: another commit with the same ones changes nothing, one with others does.
    let line = format!("ADD {over_http} /x/");
    let before = added(&line);
    repository.git(&["commit", "-q", "--allow-empty", "-m", "nothing"], b"");
    repository.push();
    let (again, said) = build(&line).expect("the same files");
    assert!(again == before && said.contains("Using cache"), "{said}");
    repository.write("which", "third");
    repository.commit("third");
    repository.push();
    assert_eq!(sh(&root, &added(&line), "cat /x/which"), "third");

    let of = |text: &str| format!("ADD failed: the repository {}: {text}", over_http);
    for (line, kind, why) in [
        (format!("COPY {over_http} /x/"), ErrorKind::Invalid, "COPY failed: source can't be a git ref for COPY".into()),
        (
            format!("ADD --keep-git-dir=true {over_http}?keep-git-dir=0 /x/"),
            ErrorKind::Invalid,
            "inconsistent keep-git-dir configuration".into(),
        ),
        (
            format!("ADD --keep-git-dir=false {over_http}?keep-git-dir=1 /x/"),
            ErrorKind::Invalid,
            "inconsistent keep-git-dir configuration".into(),
        ),
        (
            format!("ADD --checksum={first} {over_http}?commit={} /x/", &first[..8]),
            ErrorKind::Invalid,
            "checksum mismatch".into(),
        ),
        (format!("ADD {over_http}?commit={} /x/", "a".repeat(8)), ErrorKind::Invalid, "the commit is ".into()),
        (
            format!("ADD --checksum={} {over_http} /x/", "a".repeat(40)),
            ErrorKind::Invalid,
            of("--checksum: the commit is "),
        ),
        (
            format!("ADD --checksum=sha256:00 {over_http} /x/"),
            ErrorKind::Invalid,
            of("--checksum: \"sha256:00\" is not the id of a commit"),
        ),
        (
            format!("ADD --checksum={} {over_http}#v1 /x/", &first[..6]),
            ErrorKind::Invalid,
            of(&format!("--checksum: {} is too short: it takes at least 7 digits", &first[..6])),
        ),
        (format!("ADD {over_http}#none /x/"), ErrorKind::Invalid, of("it has no branch or tag none")),
        (format!("ADD {over_http}#v1:none /x/"), ErrorKind::Invalid, of("\"none\": the commit has no directory")),
        (format!("ADD {over_http}?token=v1 /x/"), ErrorKind::Invalid, "unexpected query \"token\"".into()),
        (format!("ADD {over_http}?branch=v1 /x/"), ErrorKind::Invalid, "it has no branch or tag refs/heads/v1".into()),
        (
            format!("ADD {} /x/", over_http.replace("x.git", "none.git")),
            ErrorKind::Invalid,
            "no such repository".into(),
        ),
        (
            "ADD git@127.0.0.1:x /x/".into(),
            ErrorKind::Unsupported,
            "the repository git@127.0.0.1:x: this engine has no ssh".into(),
        ),
    ] {
        fails(build(&line), kind, &why);
    }
    nothing_left(&root);
}

/// git reads what `--keep-git-dir` leaves: the commit, its files without a change, and no history.
#[test]
fn git_reads_the_directory_that_an_add_keeps() {
    let root = Root::new();
    let repository = Repository::new(&root.dir.join("git"));
    repository.write("which", "first");
    repository.commit("first");
    repository.write("run", "#!/bin/sh\n");
    let work = repository.dir.join("work");
    let set = std::os::unix::fs::PermissionsExt::from_mode;
    std::fs::set_permissions(work.join("run"), set(0o755)).expect("set a mode");
    std::os::unix::fs::symlink("which", work.join("link")).expect("a link");
    for path in ["sub", "sub-", "sub0", "sub/deep/f"].map(|path| format!("{path}/{}", "n".repeat(60))) {
        repository.write(&path, path.repeat(100));
    }
    repository
        .write("noise", (0..300_000u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect::<Vec<u8>>());
    let second = repository.commit("second");
    repository.git(&["tag", "-a", "-m", "words", "v2"], b"");
    repository.push();
    let (daemon, web) = (Daemon::start(&repository.dir), web(&repository.dir));
    let (daemon, web) = (daemon.url(), format!("http://{}/x.git", web.host()));
    let file = format!(
        "FROM busybox\nADD --keep-git-dir=true {daemon} /a/\nADD {web}?keep-git-dir#v2 /b/\nADD --keep-git-dir=true {web}#:sub /c/\n"
    );
    let how = BuildImage { file: Some(file), networkmode: "none".into(), ..BuildImage::default() };
    let id = root.engine.image_build(&how, Context::None, &mut |_| Ok(()), Some(&soon())).expect("build");
    assert_eq!(sh(&root, &id, "test ! -e /c/.git; ls /c | wc -l"), "2");
    let mut asked = host(json!({ "NetworkMode": "none" }));
    asked["Image"] = json!(id);
    let running = root.sleeper_with("git", asked);
    for (dir, remote, reference) in [("a", &daemon, "refs/heads/trunk commit"), ("b", &web, "refs/tags/v2 tag")] {
        let place = root.dir.join(dir).display().to_string();
        let from = format!("/proc/{}/root/{dir}", root.pid(&running));
        let copied = std::process::Command::new("cp").args(["-a", &from, &place]).status().expect("run cp");
        assert!(copied.success(), "{from}");
        let git = |words: &[&str]| {
            let done = std::process::Command::new("git").args(["-C", &place]).args(words).output().expect("run git");
            let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
            assert!(done.status.success(), "{words:?}: {err}");
            out.trim().to_owned()
        };
        assert_eq!(git(&["rev-parse", "HEAD"]), second);
        assert_eq!(git(&["log", "--format=%s"]), "second");
        assert_eq!(git(&["status", "--porcelain"]), "", "{dir}");
        assert_eq!(git(&["rev-parse", "--is-shallow-repository"]), "true");
        assert_eq!(git(&["config", "remote.origin.url"]), *remote);
        assert_eq!(git(&["for-each-ref", "--format=%(refname) %(objecttype)"]), reference);
        if dir == "b" {
            assert_eq!(git(&["describe"]), "v2");
        }
        git(&["fsck", "--strict"]);
        assert_eq!(git(&["ls-files"]).lines().count(), 8);
        std::fs::write(format!("{place}/which"), "other").expect("write");
        assert_eq!(git(&["status", "--porcelain"]), "M which");
    }
    root.engine.container_kill(&running, None, None).expect("kill");
    root.wait(&running);
    nothing_left(&root);
}

/// Modes, links, long names, and contents of every size, out of packs whose objects are differences to each other.
#[test]
fn files_come_as_they_were_committed() {
    let root = Root::new();
    let repository = Repository::new(&root.dir.join("git"));
    repository.write("Dockerfile", FILE);
    repository.write("run", "#!/bin/sh\n");
    let work = repository.dir.join("work");
    let set = std::os::unix::fs::PermissionsExt::from_mode;
    std::fs::set_permissions(work.join("run"), set(0o755)).expect("set a mode");
    std::os::unix::fs::symlink("/etc/passwd", work.join("out")).expect("a link");
    let far = format!("{}/target", "far".repeat(60));
    std::os::unix::fs::symlink(&far, work.join("long link")).expect("a link");
    let deep = format!("{}/{}/{}", "a".repeat(90), "b".repeat(90), "c".repeat(250));
    repository.write(&deep, "deep");
    repository.write("empty", "");
    // Much alike, some of them larger than what is kept in memory.
    let mut seed = 1u32;
    let mut noise = |count: usize| -> Vec<u8> {
        let mut next = || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 24) as u8
        };
        (0..count).map(|_| next()).collect()
    };
    for (group, size) in [("small", 3_000), ("large", 1_500_000)] {
        let base = noise(size);
        for number in 0..30 {
            let mut content = base.clone();
            content[size / 2..size / 2 + 100].copy_from_slice(&noise(100));
            content.extend(noise(number * 7));
            repository.write(&format!("{group}/{number}"), content);
        }
    }
    for number in 0..20 {
        repository.write("changing", format!("{}{number}\n", "the same line\n".repeat(500)));
        repository.commit("change");
    }
    repository.push();
    repository.git(&["-C", "../x.git", "repack", "-adfq", "--depth=50", "--window=50"], b"");
    let daemon = Daemon::start(&repository.dir);
    let image = built(&root, &daemon.url());
    // Depth 1: 1 commit, no older content.
    let look = "cd /in; stat -c '%A %u %Y %n' run empty out Dockerfile small; readlink out; readlink 'long link'; cat a*/b*/c*; wc -c < empty";
    let want = format!(
        "-rwxr-xr-x 0 1700000000 run\n-rw-r--r-- 0 1700000000 empty\nlrwxrwxrwx 0 1700000000 out\n\
         -rw-r--r-- 0 1700000000 Dockerfile\ndrwxr-xr-x 0 1700000000 small\n/etc/passwd\n{far}\ndeep0"
    );
    assert_eq!(sh(&root, &image, look), want);
    let sums = sh(&root, &image, "cd /in; sha256sum small/* large/* changing");
    assert_eq!(sums.lines().count(), 61);
    for line in sums.lines() {
        let (sum, path) = line.split_once("  ").expect("a sum and a path");
        assert_eq!(sha256(&std::fs::read(work.join(path)).expect("read")), sum, "{path}");
    }
    nothing_left(&root);
}

/// Names that lead elsewhere, links in place of directories, and entries that are not files.
// attack: 93 wall git-names
#[test]
fn hostile_directories_are_refused() {
    let root = Root::new();
    let repository = Repository::new(&root.dir.join("git"));
    let file = repository.object("blob", FILE.as_bytes());
    let text = repository.object("blob", b"text");
    let to_etc = repository.object("blob", b"/etc");
    let dir = repository.tree(&[("100644", "Dockerfile", &file)]);
    let long = "n".repeat(256);
    let module = "1".repeat(40);
    let hostile: &[(&str, &[Entry<'_>], &str)] = &[
        ("up", &[("40000", "..", &dir)], "that is another directory"),
        ("here", &[("100644", ".", &text)], "that is another directory"),
        ("own", &[("40000", ".git", &dir)], "git's own"),
        ("own-link", &[("120000", ".GIT", &to_etc)], "git's own"),
        ("path", &[("100644", "a/../../b", &text)], "that is a path"),
        ("absolute", &[("100644", "/etc/evil", &text)], "that is a path"),
        ("long", &[("100644", &long, &text)], "too long"),
        ("twice", &[("120000", "a", &to_etc), ("40000", "a", &dir)], "twice"),
        ("mode", &[("104755", "a", &text)], "not one of git's"),
        ("device", &[("20666", "a", &text)], "not one of git's"),
        ("kind", &[("100644", "a", &dir)], "of another kind"),
        ("to-nothing", &[("120000", "a", &repository.object("blob", b""))], "leads nowhere"),
        ("to-nul", &[("120000", "a", &repository.object("blob", b"a\0b"))], "leads nowhere"),
        ("module", &[("160000", "lib", &module)], "submodule"),
    ];
    for (branch, entries, _) in hostile {
        let inner = repository.tree(entries);
        repository.branch(branch, &repository.tree(&[("100644", "Dockerfile", &file), ("40000", "in", &inner)]));
    }
    // Directories that are links are what the kernel makes of them in the context: nothing of the host.
    let through = repository.tree(&[("100644", "Dockerfile", &file), ("120000", "sub", &to_etc)]);
    repository.branch("through", &through);
    let file_link = repository.object("blob", b"/etc/passwd");
    repository.branch("file-link", &repository.tree(&[("120000", "Dockerfile", &file_link)]));
    let daemon = Daemon::start(&repository.dir);
    let mut wrong = vec![];
    for (branch, _, why) in hostile {
        let kind = match *branch {
            "module" => ErrorKind::Unsupported,
            "kind" => ErrorKind::Internal,
            _ => ErrorKind::Invalid,
        };
        match build(&root, &format!("{}#{branch}", daemon.url())) {
            Err(e) if e.kind() == kind && e.message().starts_with("remote: git://") && e.message().contains(why) => {}
            other => wrong.push(format!("{branch}: {other:?}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    fails(build(&root, &format!("{}#through:sub", daemon.url())), ErrorKind::Invalid, "is a link, and is not followed");
    fails(build(&root, &format!("{}#through:../etc", daemon.url())), ErrorKind::Invalid, "not in the repository");
    fails(
        build(&root, &format!("{}#file-link", daemon.url())),
        ErrorKind::Internal,
        "Cannot locate specified Dockerfile",
    );
    nothing_left(&root);
}

/// Names that git would read as options are names.
#[test]
fn a_fetch_takes_names_with_dashes_for_names() {
    let root = Root::new();
    let repository = Repository::new(&root.dir.join("git"));
    repository.write("Dockerfile", FILE);
    repository.commit("first");
    repository.git(&["update-ref", "refs/heads/--upload-pack=x", "HEAD"], b"");
    repository.push();
    let daemon = Daemon::start(&repository.dir);
    built(&root, &format!("{}#--upload-pack=x", daemon.url()));
    for name in ["-h", "--all", "--output=/tmp/x"] {
        fails(build(&root, &format!("{}#{name}", daemon.url())), ErrorKind::Invalid, "it has no branch or tag -");
    }
}

/// Directories in directories, in an engine with little memory.
#[test]
fn deep_directories_are_refused() {
    let root = Root::with(|options| options.small_memory = true);
    let repository = Repository::new(&root.dir.join("git"));
    let file = repository.object("blob", FILE.as_bytes());
    let mut tree = repository.tree(&[("100644", "Dockerfile", &file)]);
    for _ in 0..600 {
        tree = repository.tree(&[("40000", "deeper", &tree)]);
    }
    repository.branch("deep", &tree);
    let daemon = Daemon::start(&repository.dir);
    fails(build(&root, &format!("{}#deep", daemon.url())), ErrorKind::Invalid, "a path of more than 4096 bytes");
    nothing_left(&root);
}

/// Servers that answer with something else than a pack, and packs that claim what is not so.
#[test]
fn hostile_servers_and_packs_are_errors() {
    let root = Root::new();
    let blob = object(3, 3, b"", b"abc");
    // A difference: from 3 bytes, to as many as it says, of these steps.
    let delta = |to: &[u8], steps: &[u8]| [&[3], to, steps].concat();
    let differs = |text: Vec<u8>| vec![blob.clone(), object(6, text.len() as u64, &[blob.len() as u8], &text)];
    let greeted = |answer: Vec<u8>| vec![GREETING.to_vec(), answer];
    let claims = |count: u32| [&b"PACK\0\0\0\x02"[..], &count.to_be_bytes()].concat();
    for (name, answers, why) in [
        ("a page", vec![b"<html>".to_vec()], "git's protocol"),
        (
            "an old server",
            vec![[&line(b"# service=git-upload-pack\n")[..], b"0000", &line(b"0000 HEAD")].concat()],
            "version 2",
        ),
        ("nothing", vec![vec![]], "early"),
        ("an error", greeted(line(b"ERR go \x1b[31maway")), "the server says: go  [31maway"),
        ("no pack", greeted(b"0000".to_vec()), "has no pack"),
        ("an error late", greeted([line(b"packfile\n"), line(b"\x03broken")].concat()), "the server says: broken"),
        ("half a pack", greeted([line(b"packfile\n"), line(b"\x01PACK")].concat()), "early"),
        ("no head", greeted(packed(b"PACK")), "it has no head"),
        ("version 3", greeted(packed(b"PACK\0\0\0\x03\0\0\0\0")), "version 2"),
        ("too many", greeted(packed(&claims(u32::MAX))), "4294967295 objects: more than 500000"),
        ("fewer", greeted(packed(&claims(5))), "damaged"),
        ("none", greeted(packed(&pack(&[]))), "did not send the object"),
        ("longer", greeted(packed(&pack(&[object(3, 2, b"", b"abc")]))), "another size"),
        ("shorter", greeted(packed(&pack(&[object(3, 1 << 50, b"", b"abc")]))), "another size"),
        ("kind", greeted(packed(&pack(&[object(5, 3, b"", b"abc")]))), "no known kind"),
        ("base before", greeted(packed(&pack(&[object(6, 3, &[100], b"abc")]))), "a base is"),
        ("base itself", greeted(packed(&pack(&[object(6, 3, &[0], b"abc")]))), "a base is"),
        ("base unknown", greeted(packed(&pack(&[object(7, 3, &[9; 20], b"abc")]))), "is not in it"),
        ("step 0", greeted(packed(&pack(&differs(delta(&[3], &[0]))))), "damaged delta"),
        ("beyond", greeted(packed(&pack(&differs(delta(&[9], &[0x91, 1, 9]))))), "damaged delta"),
        ("cut", greeted(packed(&pack(&differs(delta(&[9], &[5, 1]))))), "damaged delta"),
        ("little", greeted(packed(&pack(&differs(delta(&[9], &[0x90, 3]))))), "shorter than it says"),
        ("much", greeted(packed(&pack(&differs(delta(&[2], &[0x90, 3]))))), "longer than it says"),
        ("other base", greeted(packed(&pack(&differs(vec![4, 3, 0x90, 3])))), "damaged delta"),
    ] {
        let server = scripted(answers);
        let failed = build(&root, &format!("http://{}/x.git#{}", server.host(), "a".repeat(40)));
        let shown = failed.map_or_else(|e| e.message().to_owned(), |_| "built".into());
        assert!(shown.starts_with("remote: http://127.") && shown.contains(why), "{name}: {shown}");
    }
    nothing_left(&root);
}

/// Servers that take a connection and say nothing: the caller's operation ends the build.
#[test]
fn silent_servers_do_not_keep_a_build() {
    let root = Root::new();
    let server = TcpListener::bind("127.0.0.1:0").expect("a server");
    let address = server.local_addr().expect("its address");
    for remote in [format!("git://{address}/x"), format!("http://{address}/x.git")] {
        let op = Op::new().expect("an operation");
        let how = BuildImage { remote, ..BuildImage::default() };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut asked, _) = server.accept().expect("a connection");
                let mut some = [0; 10];
                asked.read_exact(&mut some).expect("a question");
                op.cancel();
                let _ = asked.read_to_end(&mut Vec::new());
            });
            let built = root.engine.image_build(&how, Context::None, &mut |_| Ok(()), Some(&op));
            fails(built, ErrorKind::Cancelled, "");
        });
    }
    nothing_left(&root);
}

/// A server whose queue is full takes no connection: the caller's operation ends the build, and the attempt to connect,
/// which nothing can end, is left alone.
#[test]
fn a_server_that_takes_no_connection_does_not_keep_a_build() {
    use nix::sys::socket::{AddressFamily, Backlog, SockFlag, SockType, SockaddrIn, bind, getsockname, listen, socket};
    let root = Root::new();
    for scheme in ["git", "http"] {
        let server = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).expect("a socket");
        bind(server.as_raw_fd(), &SockaddrIn::new(127, 0, 0, 1, 0)).expect("bind");
        listen(&server, Backlog::new(0).expect("a queue for one")).expect("listen");
        let port = getsockname::<SockaddrIn>(server.as_raw_fd()).expect("its address").port();
        let _first = TcpStream::connect(("127.0.0.1", port)).expect("the only place in the queue");
        let connects = || {
            let table = std::fs::read_to_string("/proc/net/tcp").expect("the connections");
            // The remote address, and the state SYN_SENT.
            table.contains(&format!(" 0100007F:{port:04X} 02 "))
        };
        let op = Op::new().expect("an operation");
        let how = BuildImage { remote: format!("{scheme}://127.0.0.1:{port}/x.git"), ..BuildImage::default() };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                wait_for("an attempt to connect", connects);
                op.cancel();
            });
            let built = root.engine.image_build(&how, Context::None, &mut |_| Ok(()), Some(&op));
            fails(built, ErrorKind::Cancelled, "");
        });
        assert!(connects(), "{scheme}: the build waited for the attempt to connect");
    }
    nothing_left(&root);
}
