//! The engine does all by itself: it starts no program, not one of the host and least of all one that a container left,
//! and loads nothing of theirs. The command runs under a filter that lets nothing be executed and no root be entered.

use crate::canary::Canary;
use crate::hostile;
use crate::images::Image;
use crate::programs::program;
use crate::support::archive::Tar;
use crate::support::*;
use serde_json::json;
use std::io::Write;
use std::process::{Command, Output, Stdio};

/// Programs and libraries that an engine might run or load in a container, or find on its own path.
const TRAPS: &[&str] = &[
    "xz", "unxz", "unpigz", "gzip", "gunzip", "zstd", "unzstd", "bzip2", "tar", "git", "ps", "nsenter", "getent", "cp",
];

/// Runs the command alone; the first directory of its path has traps, whose shell would say so in the canary.
fn alone(root: &Root, words: &[&str], input: &[u8]) -> Output {
    let mut command = Command::new(program("alone"));
    command.arg(built("coracle")).arg("--root").arg(root.dir.join("root")).arg("--run").arg(root.dir.join("run"));
    command.args(words).current_dir(&root.dir);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("alone");
    let mut to = child.stdin.take().expect("its input");
    std::thread::scope(|scope| {
        // One that refuses early does not read to the end.
        scope.spawn(move || drop(to.write_all(input)));
        child.wait_with_output().expect("its output")
    })
}

#[track_caller]
fn done(output: &Output, what: &str) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{what}: {:?} {said}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

// attack: 54, 57, 77, 108 wall no-host-programs
#[test]
fn the_engine_starts_no_program_for_its_work() {
    let root = Root::new();
    let canary = Canary::new(&root);
    // The traces that an attacker would leave: programs, libraries of the C library, their configuration.
    let trap = format!("#!/bin/sh\ncat {} >> {0}\n", canary.path("passwd"));
    let mut layer = TRAPS.iter().fold(Tar::new(), |tar, name| {
        ["bin", "usr/bin", "usr/local/bin"]
            .iter()
            .fold(tar, |tar, dir| tar.entry(b'0', &format!("{dir}/{name}"), "", 0o755, trap.as_bytes()))
    });
    for name in ["lib/libnss_files.so.2", "lib/x86_64-linux-gnu/libnss_files.so.2", "etc/ld.so.preload"] {
        layer = layer.file(name, b"/lib/libnss_files.so.2\n");
    }
    Image::new().layer(layer.file("etc/nsswitch.conf", b"passwd: files trap\n")).load(&root, "traps");
    let id = root.sleeper_with("running", json!({ "Image": "traps" }));
    root.create("still", body(&["true"], json!({ "Image": "traps" })));

    // The filter is one: a shell under it runs nothing.
    let shell = Command::new(program("alone")).args(["/bin/sh", "-c", "echo in; /bin/true"]).output().expect("alone");
    assert!(shell.stdout == b"in\n" && shell.status.code() == Some(126), "{shell:?}");

    let image = Image::new().archive("plain");
    let files = Tar::new().file("f", b"content").end();
    for packer in ["gzip", "bzip2", "xz", "zstd"] {
        let packed = |bytes: &[u8]| hostile::packed(packer, hostile::bytes(bytes.to_vec()));
        done(&alone(&root, &["load", "-q"], &packed(&image)), packer);
        done(&alone(&root, &["import", "-", &format!("{packer}:1")], &packed(&files)), packer);
        for container in ["running:/tmp", "still:/tmp"] {
            done(&alone(&root, &["cp", "-", container], &packed(&files)), packer);
        }
        let context = Tar::new()
            .file(
                "Dockerfile",
                b"FROM traps\nADD a.tar /x/\nLABEL x=--help y=$(id)\nLABEL a=\"--version\"\nWORKDIR /-y\n",
            )
            .file("a.tar", &packed(&files));
        done(&alone(&root, &["build", "-q", "-t", "built", "-"], &packed(&context.end())), packer);
    }
    for container in ["running:/etc/passwd", "still:/etc/passwd"] {
        let copied = done(&alone(&root, &["cp", container, "-"], b""), container);
        assert!(copied.contains("root:"), "{container}");
    }
    let top = done(&alone(&root, &["top", "running"], b""), "top");
    assert!(top.contains("sleep"), "{top}");
    done(&alone(&root, &["stats", "--no-stream", "running"], b""), "stats");
    done(&alone(&root, &["export", "-o", "/dev/null", "running"], b""), "export");
    done(&alone(&root, &["diff", "running"], b""), "diff");
    done(&alone(&root, &["commit", "running", "committed"], b""), "commit");
    assert_eq!(root.exec(&id, &["cat", "/tmp/f"]).ok(), "content");
    canary.untouched();
    // Of this program, which did the rest, nothing of a container is mapped.
    let maps = std::fs::read_to_string("/proc/self/maps").expect("its maps");
    let foreign = maps.lines().filter(|line| line.contains(&*root.dir.join("root/containers").to_string_lossy()));
    assert_eq!(foreign.count(), 0);
}
