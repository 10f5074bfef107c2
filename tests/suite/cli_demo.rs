//! `make demo`: the script that it runs, and the place where it looks for the command.

use crate::support::*;
use std::process::{Command, Stdio};

/// The steps that the demo shows, by a line of each.
const SHOWN: &[&str] = &[
    "Successfully tagged harbour/web:latest",
    "127.0.0.1:",
    "Hello from a coracle.\n\n# (from the host",
    "v1: digest: sha256:",
    "Status: Downloaded newer image for",
    "exit code 7",
    "container pause demo",
    "Total reclaimed space: ",
];

#[test]
fn the_demo_shows_every_step_and_cleans_up() {
    let dir = temp_dir();
    let output = Command::new(project().join("tools/demo"))
        .arg(built("coracle"))
        .env("TMPDIR", &dir)
        .stdin(Stdio::null())
        .output()
        .expect("run tools/demo");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    for line in SHOWN {
        assert!(text.contains(line), "no {line:?} in {text}");
    }
    assert_eq!(std::fs::read_dir(&dir).expect("list").count(), 0, "it leaves nothing");
    std::fs::remove_dir(&dir).expect("clean up");
}

#[test]
fn make_finds_the_command_wherever_cargo_puts_it() {
    let recipe = |words: &[&str]| {
        let mut make = Command::new("make");
        make.current_dir(project())
            .env_remove("CARGO_TARGET_DIR")
            .env_remove("CARGO_BUILD_TARGET")
            .env_remove("MAKEFLAGS");
        let output = make.args(["-n", "demo"]).args(words).output().expect("run make");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let own = recipe(&[]);
    assert!(own.contains("/release/coracle\n"), "{own}");
    let other = recipe(&["CARGO_TARGET_DIR=/elsewhere/target", "TARGET=aarch64-unknown-linux-musl", "PROFILE=dev"]);
    assert!(
        other.contains("cargo build --profile dev --target aarch64-unknown-linux-musl -p coracle-cli\n"),
        "{other}"
    );
    assert!(other.contains("tools/demo /elsewhere/target/aarch64-unknown-linux-musl/debug/coracle\n"), "{other}");
}
