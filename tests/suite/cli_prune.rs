//! Prunes by the command: their questions, their filters, and the things that stay.

use super::cli::{coracle, failed, ok};
use crate::support::*;
use std::io::Write;
use std::process::Stdio;

/// Runs the command with this answer on standard input; its exit code, output and errors.
fn answered(root: &Root, words: &[&str], answer: &str) -> (i32, String, String) {
    let mut command = coracle(&root.dir);
    command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("run coracle");
    child.stdin.take().expect("stdin").write_all(answer.as_bytes()).expect("write");
    let output = child.wait_with_output().expect("its end");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

const QUESTION: &str = "\nAre you sure you want to continue? [y/N] ";

/// The questions are those of docker's command, word for word, except for the build cache, which this engine does not have.
#[test]
fn a_prune_asks_first() {
    let root = Root::new();
    let id = ok(&root, &["create", "--name", "boat", "--network", "none", "busybox"]);
    for (words, warning) in [
        (&["container", "prune"][..], " all stopped containers."),
        (&["image", "prune"], " all dangling images."),
        (&["image", "prune", "-a"], " all images without at least one container associated to them."),
        (&["network", "prune"], " all custom networks not used by at least one container."),
        (&["volume", "prune"], " anonymous local volumes not used by at least one container."),
        (&["volume", "prune", "-a"], " all local volumes not used by at least one container."),
        (&["system", "prune", "-a", "--volumes", "--filter", "label=x"], {
            ":\n  - all stopped containers\n  - all networks not used by at least one container\n  \
             - all anonymous volumes not used by at least one container\n  \
             - all images without at least one container associated to them\n\n  \
             Items to be pruned will be filtered with:\n  - label=x\n"
        }),
    ] {
        let question = format!("WARNING! This will remove{warning}{QUESTION}");
        assert_eq!(answered(&root, words, "n\n"), (0, question.clone(), String::new()), "{words:?}");
        // Nobody answers: nothing is removed, and that is an error.
        let refused = "coracle: nobody answered, nothing was removed: --force (-f) does not ask\n".to_owned();
        assert_eq!(answered(&root, words, ""), (1, question + "\n", refused), "{words:?}");
    }
    assert_eq!(ok(&root, &["ps", "-aq", "--no-trunc"]), id);
    let (code, text, _) = answered(&root, &["container", "prune"], "y\n");
    assert!(
        code == 0 && text.ends_with(&format!("Deleted Containers:\n{id}\n\nTotal reclaimed space: 0B\n")),
        "{text}"
    );
    assert_eq!(ok(&root, &["ps", "-aq"]), "");
}

#[test]
fn prunes_remove_what_nothing_uses() {
    let root = Root::new();
    let named = |name: &str, label: &str| {
        ok(&root, &["create", "--name", name, "--label", label, "--network", "none", "-v", "hold:/x", "busybox"])
    };
    let (boat, ship) = (named("boat", "sea=north"), named("ship", "sea=south"));
    ok(&root, &["volume", "create", "--label", "cargo", "spare"]);
    ok(&root, &["network", "create", "bay"]);
    ok(&root, &["tag", "busybox", "other:1"]);
    let said = ok(&root, &["container", "prune", "-f", "--filter", "label=sea=north"]);
    assert_eq!(said, format!("Deleted Containers:\n{boat}\n\nTotal reclaimed space: 0B"));
    assert_eq!(ok(&root, &["container", "prune", "-f", "--filter", "until=1h"]), "Total reclaimed space: 0B");
    assert_eq!(ok(&root, &["volume", "prune", "-f"]), "Total reclaimed space: 0B", "volumes with names stay");
    assert_eq!(ok(&root, &["volume", "prune", "-af", "--filter", "label!=cargo"]), "Total reclaimed space: 0B");
    assert_eq!(ok(&root, &["volume", "prune", "-af"]), "Deleted Volumes:\nspare\n\nTotal reclaimed space: 0B");
    assert_eq!(ok(&root, &["network", "prune", "-f"]), "Deleted Networks:\nbay");
    assert_eq!(ok(&root, &["network", "prune", "-f"]), "");
    assert_eq!(ok(&root, &["image", "prune", "-af"]), "Total reclaimed space: 0B", "a container was made from it");
    let anonymous = ok(&root, &["volume", "create"]);
    ok(&root, &["network", "create", "bay"]);
    let said = ok(&root, &["system", "prune", "-f", "-a", "--volumes"]);
    let parts = [
        format!("Deleted Containers:\n{ship}\n\nDeleted Networks:\nbay\n\nDeleted Volumes:\n{anonymous}\n\n"),
        "Deleted Images:\nuntagged: ".into(),
        "Total reclaimed space: ".into(),
    ];
    assert!(parts.iter().all(|part| said.contains(part)) && said.starts_with(&parts[0]), "{said}");
    assert_eq!(ok(&root, &["volume", "ls", "-q"]), "hold", "it has a name");
    assert_eq!(ok(&root, &["images", "-q"]), "");
}

#[test]
fn mistakes_of_prunes_remove_nothing() {
    let root = Root::new();
    ok(&root, &["create", "--name", "boat", "--network", "none", "busybox"]);
    for (words, code, text) in [
        (&["system", "prune", "-f", "--volumes", "--filter", "until=1h"][..], 125, "volumes have no age"),
        (&["container", "prune", "-f", "boat"], 125, "a prune takes no arguments"),
        (&["image", "prune", "-f", "--filter", "until=soon"], 125, "until=soon: not a time"),
        (&["volume", "prune", "-f", "--filter", "nope=x"], 1, "nope"),
        (&["network", "prune", "-f", "--filter", "nope"], 125, "invalid filter"),
    ] {
        let (ended, error) = failed(&root, words);
        assert!(ended == code && error.contains(text), "{words:?}: {ended} {error}");
    }
    assert_eq!(ok(&root, &["ps", "-a", "--format", "{{.Names}}"]), "boat");
}
