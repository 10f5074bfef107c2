//! The names of commands: nouns, help, completion of shells, manual pages.

use super::cli::{coracle, failed, ok};
use crate::support::*;
use std::process::{Command, Stdio};

/// The command's standard output and exit code, without a root.
fn said(words: &[&str]) -> (i32, String) {
    let output = Command::new(built("coracle")).args(words).stdin(Stdio::null()).output().expect("run coracle");
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn nouns_stand_beside_the_short_forms() {
    let root = Root::new();
    let id = ok(&root, &["container", "create", "--name", "boat", "busybox", "true"]);
    assert_eq!(ok(&root, &["container", "ls", "-aq", "--no-trunc"]), id);
    assert_eq!(ok(&root, &["container", "start", "boat"]), "boat");
    assert_eq!(ok(&root, &["container", "wait", "boat"]), "0");
    assert_eq!(ok(&root, &["container", "run", "--rm", "--network", "none", "busybox", "echo", "hello"]), "hello");
    assert_eq!(ok(&root, &["container", "inspect", "-f", "{{.Name}}", "boat"]), "/boat");
    let (code, text) = failed(&root, &["image", "inspect", "boat"]);
    assert_eq!((code, text.as_str()), (1, "coracle: no such image: boat: No such image: boat:latest"));
    let (code, text) = failed(&root, &["container", "inspect", "busybox"]);
    assert_eq!((code, text.as_str()), (1, "coracle: No such container: busybox"));
    assert!(ok(&root, &["image", "ls"]).contains("busybox"));
    ok(&root, &["image", "tag", "busybox", "other:1"]);
    assert_eq!(ok(&root, &["image", "rm", "other:1"]), "Untagged: other:1");
    assert_eq!(ok(&root, &["volume", "create", "hold"]), "hold");
    assert_eq!(ok(&root, &["volume", "list", "-q"]), "hold");
    assert_eq!(ok(&root, &["volume", "remove", "hold"]), "hold");
    assert!(ok(&root, &["system", "info"]).contains("ID: "));
    assert_eq!(ok(&root, &["system", "version"]), ok(&root, &["version"]));
    assert!(ok(&root, &["system", "check", "--all"]).contains("ok       kernel: openat2: there"));
    // A word that `run` implies an exit code for means the same below its noun.
    assert_eq!(failed(&root, &["container", "run", "--network", "none", "busybox", "no-such-program"]).0, 127);
}

#[test]
fn help_is_found_by_every_name() {
    let (code, text) = said(&["--help"]);
    assert!(
        code == 0 && ["\nContainers:\n", "\nImages:\n", "\nEngine:\n"].iter().all(|title| text.contains(title)),
        "{text}"
    );
    for words in [&["container", "--help"][..], &["help", "container"], &["--help", "container"]] {
        let (code, text) = said(words);
        assert!(code == 0 && text.contains("\n  container ls        List containers\n"), "{words:?}: {text}");
    }
    assert_eq!(said(&["container"]), (125, String::new()), "its help is on standard error");
    assert!(said(&["root", "--help"]).1.contains("root copy"));
    for words in
        [&["ps", "--help"][..], &["container", "ls", "--help"], &["help", "ps"], &["help", "container", "list"]]
    {
        let (code, text) = said(words);
        assert!(code == 0 && text.starts_with("Usage: coracle ps [FLAGS]\n"), "{words:?}: {text}");
        assert!(text.contains("\nOther names: container ls, container list, container ps\n"), "{text}");
    }
    let root = Root::empty();
    for (words, text) in [
        (
            &["swarm", "init"][..],
            "coracle: 'swarm' is a command of docker alone: docker's command works with coracle serve --swarm-program\nSee 'coracle --help'.",
        ),
        (&["nope"], "coracle: 'nope' is not a command\nSee 'coracle --help'."),
        (&["container", "nope"], "coracle: 'container nope' is not a command\nSee 'coracle --help'."),
        (&["volume", "ls", "x"], "coracle: volume ls takes no arguments\nSee 'coracle volume ls --help'."),
        (&["container", "stop"], "coracle: a container is needed\nSee 'coracle stop --help'."),
    ] {
        assert_eq!(failed(&root, words), (125, text.to_owned()), "{words:?}");
    }
}

/// The words that a shell offers for the last of `words`.
fn offered(root: &Root, words: &[&str]) -> Vec<String> {
    let script = format!(
        "coracle() {{ '{coracle}' --root '{dir}/root' --run '{dir}/run' \"$@\"; }}\n\
         source <('{coracle}' completion bash)\nCOMP_WORDS=(coracle \"$@\")\nCOMP_CWORD=$#\n_coracle\n\
         printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        coracle = built("coracle").display(),
        dir = root.dir.display(),
    );
    let output = Command::new("bash").args(["-c", &script, "bash"]).args(words).output().expect("bash");
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).filter(|line| !line.is_empty()).collect()
}

#[test]
fn bash_completes_commands_flags_and_names() {
    let root = Root::new();
    ok(&root, &["create", "--name", "boat", "busybox"]);
    ok(&root, &["volume", "create", "hold"]);
    assert_eq!(offered(&root, &["netw"]), ["network"]);
    assert_eq!(offered(&root, &["network", "rep"]), ["repair"]);
    assert_eq!(offered(&root, &["--ro"]), ["--root"]);
    assert_eq!(offered(&root, &["--root", "/x", "vol"]), ["volume"]);
    assert_eq!(offered(&root, &["run", "--memory-s"]), ["--memory-swap", "--memory-swappiness"]);
    assert_eq!(offered(&root, &["container", "stop", "bo"]), ["boat"]);
    assert_eq!(offered(&root, &["rm", "--force", "bo"]), ["boat"]);
    assert_eq!(offered(&root, &["volume", "rm", "h"]), ["hold"]);
    assert_eq!(offered(&root, &["run", "busy"]), ["busybox:latest"]);
    for shell in ["zsh", "fish"] {
        let (code, script) = said(&["completion", shell]);
        assert!(code == 0 && script.contains("memory-swappiness"), "{shell}");
    }
    assert_eq!(said(&["completion", "tcsh"]).0, 125);
}

#[test]
fn manual_pages_are_well_formed() {
    let dir = temp_dir();
    let output = coracle(&dir).args(["manual", &dir.display().to_string()]).output().expect("run coracle");
    assert!(output.status.success() && !dir.join("root").exists(), "{output:?}");
    let pages: Vec<_> = std::fs::read_dir(&dir).expect("read").map(|entry| entry.expect("an entry").path()).collect();
    assert!(pages.len() > 50, "{pages:?}");
    for page in &pages {
        let text = std::fs::read_to_string(page).expect("read");
        assert!(
            text.starts_with(".TH ") && text.contains("\n.SH NAME\n") && text.contains("\n.SH SYNOPSIS\n"),
            "{page:?}"
        );
    }
    // The page is what `man` shows, where there is one.
    if let Ok(shown) = Command::new("groff").args(["-man", "-Tascii", "-ww"]).arg(dir.join("coracle-run.1")).output() {
        assert!(shown.status.success() && shown.stderr.is_empty(), "{shown:?}");
    }
    std::fs::remove_dir_all(&dir).expect("clean up");
}
