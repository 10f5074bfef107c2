//! Builds beside dockerd's: what is said, images and layers of the files in `tests/oracle/build`.

use crate::docker_cli::Served;
use crate::support::dockerd::Dockerd;
use crate::support::*;
use std::process::Command;

/// The dose of the ordinary suite; with `CORACLE_TORTURE` all of them, which takes dockerd two minutes.
const SOME: [&str; 8] = [
    "add-archives",
    "copy-over",
    "healthcheck",
    "parser-unknown",
    "run-deletes",
    "run-fails",
    "squash-removes",
    "squash-stages",
];

#[test]
fn builds_are_dockerds() {
    let served = Served::new();
    let dir = served.root.dir.join("dockerd");
    // Without it dockerd refuses `squash`.
    let theirs = Dockerd::start_with(&dir, "--experimental");
    theirs.docker(&["load", "-q", "-i", &busybox_archive().display().to_string()]);
    let cases: &[&str] = if std::env::var_os("CORACLE_TORTURE").is_some() { &[] } else { &SOME };
    let script = project().join("tests/oracle/build.py");
    let out =
        Command::new("/usr/bin/python3").arg(script).arg(dir.join("sock")).arg(&served.socket).args(cases).output();
    let out = out.expect("run python3");
    assert!(out.status.success(), "{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
}
