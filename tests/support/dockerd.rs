//! A private dockerd to compare with.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A dockerd with all that it has under one directory; it ends with the value.
pub struct Dockerd(PathBuf);

impl Dockerd {
    pub fn start(dir: &Path) -> Dockerd {
        Dockerd::start_with(dir, "")
    }

    /// Starts it in a network namespace of its own, where its swarm leaves no bridge on this machine.
    pub fn start_apart(dir: &Path) -> Dockerd {
        Dockerd::started(dir, "", "own")
    }

    /// Starts it with further flags: words with spaces between them.
    pub fn start_with(dir: &Path, flags: &str) -> Dockerd {
        Dockerd::started(dir, flags, "")
    }

    fn started(dir: &Path, flags: &str, net: &str) -> Dockerd {
        let mut script = Command::new(super::project().join("bench/dockerd"));
        let flags = format!("--bridge none --iptables=false --ip6tables=false {flags}");
        let script = script.arg("start").arg(dir).env("DOCKERD_FLAGS", flags).env("DOCKERD_NET", net);
        let out = script.stdout(Stdio::null()).stderr(Stdio::inherit()).status();
        assert!(out.expect("run bench/dockerd").success(), "dockerd does not start");
        Dockerd(dir.to_owned())
    }

    /// Runs the docker command on it; returns what it printed.
    #[track_caller]
    pub fn docker(&self, words: &[&str]) -> String {
        let host = format!("unix://{}/sock", self.0.display());
        tool("docker", &[&["-H", &host], words].concat())
    }
}

impl Drop for Dockerd {
    fn drop(&mut self) {
        let _ = Command::new(super::project().join("bench/dockerd")).arg("stop").arg(&self.0).status();
    }
}

/// Runs a program that must succeed; returns what it printed.
#[track_caller]
pub fn tool(program: &str, words: &[&str]) -> String {
    tried(program, words).unwrap_or_else(|text| panic!("{program} {words:?}: {text}"))
}

/// Runs a program; returns what it printed, as the error where it failed.
#[track_caller]
pub fn tried(program: &str, words: &[&str]) -> Result<String, String> {
    let out = Command::new(program).args(words).stdin(Stdio::null()).output();
    let out = out.unwrap_or_else(|e| panic!("{program} (installed by tools/setup test): {e}"));
    let printed = String::from_utf8_lossy(&out.stdout).trim_end().to_owned();
    match out.status.success() {
        true => Ok(printed),
        false => Err(format!("{}{printed}", String::from_utf8_lossy(&out.stderr))),
    }
}
