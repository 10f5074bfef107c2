//! The version before and this one on the same roots, each by its own command: containers that one started and the other finds,
//! and roots that one made and the other opens.
//!
//! `tests/versions` builds the command of the version before into `target/previous` (`make test-versions`). Where it was not
//! built, the tests say so and try nothing.

use crate::support::*;
use coracle::Engine;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const SCRIPT: &str = "trap 'exit 7' TERM; echo ready; while :; do sleep 0.05; done";

/// The commands of both versions, the older one first; `None`, and a line, where the older one was not built.
fn versions() -> Option<[String; 2]> {
    let previous = project().join("target/previous/coracle");
    if !previous.exists() {
        println!("not tried: there is no {}; `make test-versions` builds it", previous.display());
        return None;
    }
    Some([previous.display().to_string(), built("coracle").display().to_string()])
}

/// A version's command on a root.
struct On<'a>(&'a str, &'a Path);

impl On<'_> {
    fn run(&self, words: &[&str]) -> Output {
        let mut command = Command::new(self.0);
        command.args(["--root".as_ref(), self.1.join("root").as_os_str()]);
        command.args(["--run".as_ref(), self.1.join("run").as_os_str()]);
        command.args(words).stdin(Stdio::null()).output().expect("run coracle")
    }

    #[track_caller]
    fn ok(&self, words: &[&str]) -> String {
        let output = self.run(words);
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{} {words:?}: {told}", self.0);
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }
}

/// Each version as the one that starts, with the other.
fn each_way(test: impl Fn(On<'_>, On<'_>)) {
    let Some([older, newer]) = versions() else { return };
    for (first, second) in [(&older, &newer), (&newer, &older)] {
        let root = Root::new();
        test(On(first, &root.dir), On(second, &root.dir));
    }
}

#[test]
fn containers_of_one_version_are_seen_entered_logged_stopped_and_removed_by_the_other() {
    each_way(|starts, finds| {
        let id = starts.ok(&["run", "-d", "--name", "old", "--network", "none", "busybox", "sh", "-c", SCRIPT]);
        wait_for("it to be ready", || finds.ok(&["logs", "old"]) == "ready");
        assert_eq!(finds.ok(&["ps", "-q", "--no-trunc"]), id);
        assert_eq!(finds.ok(&["exec", "old", "echo", "inside"]), "inside");
        assert_eq!(finds.run(&["exec", "old", "sh", "-c", "exit 4"]).status.code(), Some(4));
        assert!(finds.ok(&["top", "old"]).contains("sleep 0.05"));
        finds.ok(&["pause", "old"]);
        assert_eq!(starts.ok(&["inspect", "-f", "{{.State.Status}}", "old"]), "paused");
        starts.ok(&["unpause", "old"]);
        finds.ok(&["rename", "old", "same"]);
        finds.ok(&["stop", "-t", "5", "same"]);
        assert_eq!(finds.ok(&["wait", "same"]), "7");
        assert_eq!(starts.ok(&["inspect", "-f", "{{.State.ExitCode}}", "same"]), "7");
        // And with its own monitor from now on.
        finds.ok(&["start", "same"]);
        assert_eq!(starts.ok(&["exec", "same", "echo", "again"]), "again");
        starts.ok(&["kill", "same"]);
        assert_eq!(starts.ok(&["wait", "same"]), "137");
        finds.ok(&["rm", "same"]);
        assert_eq!(starts.ok(&["ps", "-aq"]), "");
    });
}

#[test]
fn restart_policies_and_removal_at_the_end_go_on_under_the_other_version() {
    each_way(|starts, finds| {
        let script = "echo run; sleep 0.3; exit 5";
        let words = ["run", "-d", "--name", "again", "--restart", "on-failure:2", "--network", "none", "busybox"];
        starts.ok(&[&words[..], &["sh", "-c", script]].concat());
        wait_for("its end", || finds.ok(&["inspect", "-f", "{{.State.Status}}", "again"]) == "exited");
        assert_eq!(finds.ok(&["inspect", "-f", "{{.RestartCount}}", "again"]), "2");
        assert_eq!(finds.ok(&["logs", "again"]), "run\nrun\nrun");
        starts.ok(&["run", "-d", "--rm", "--name", "goes", "--network", "none", "busybox", "sh", "-c", "sleep 0.3"]);
        wait_for("its removal", || finds.ok(&["ps", "-aq", "--filter", "name=goes"]).is_empty());
    });
}

#[test]
fn a_root_of_one_version_is_opened_by_the_other_or_refused_with_the_reason() {
    let Some([older, newer]) = versions() else { return };
    for (makes, opens) in [(&older, &newer), (&newer, &older)] {
        let dir = temp_dir();
        let (makes, opens) = (On(makes, &dir), On(opens, &dir));
        makes.ok(&["load", "-i", &busybox_archive().display().to_string()]);
        makes.ok(&["volume", "create", "kept"]);
        let opened = opens.run(&["volume", "ls", "-q"]);
        let told = String::from_utf8_lossy(&opened.stderr);
        match opened.status.success() {
            true => {
                assert_eq!(String::from_utf8_lossy(&opened.stdout), "kept\n");
                let words =
                    ["run", "--rm", "--network", "none", "-v", "kept:/v", "busybox", "sh", "-c", "echo x > /v/y"];
                opens.ok(&words);
                assert_eq!(
                    makes.ok(&["run", "--rm", "--network", "none", "-v", "kept:/v", "busybox", "cat", "/v/y"]),
                    "x"
                );
            }
            false => assert!(told.contains("is newer than this library, which knows"), "{told}"),
        }
        println!("{} opens a root of {}: {}", opens.0, makes.0, opened.status.success());
        drop(Root { engine: Engine::open_with(options_at(&dir)).expect("open it"), dir });
    }
}
