//! The exit codes of the command, by the rule of its manual page and beside docker's; signals that it passes on.

use super::cli::{coracle, failed, ok};
use crate::docker_cli::Served;
use crate::support::ended::Ended;
use crate::support::*;
use nix::sys::signal::{Signal, kill};
use std::process::{Command, Stdio};

/// Command lines, and the code with which docker's command ends, too. `live` runs, `boat` was never started.
const AS_DOCKER: &[(i32, &[&str])] = &[
    (0, &["ps"]),
    (125, &["ps", "--bad"]),
    (125, &["ps", "-n", "x"]),
    (125, &["ps", "--filter", "x"]),
    (1, &["ps", "--filter", "x=y"]),
    (125, &["--bad", "ps"]),
    (1, &["inspect", "nosuch"]),
    (1, &["rm", "nosuch"]),
    (1, &["rmi", "nosuch"]),
    (1, &["logs", "nosuch"]),
    (1, &["stop", "nosuch"]),
    (1, &["wait", "nosuch"]),
    (1, &["kill", "boat"]),
    (1, &["kill", "-s", "NOPE", "live"]),
    (1, &["top", "boat"]),
    (1, &["port", "boat", "80"]),
    (1, &["network", "rm", "nosuch"]),
    (1, &["volume", "rm", "nosuch"]),
    (1, &["pull", "127.0.0.1:1/nosuch"]),
    (7, &["run", "--network", "none", "busybox", "sh", "-c", "exit 7"]),
    (127, &["run", "--network", "none", "busybox", "nosuch"]),
    (127, &["run", "-d", "--network", "none", "busybox", "nosuch"]),
    (126, &["run", "--network", "none", "busybox", "/etc"]),
    (125, &["run", "--network", "nosuch", "busybox", "true"]),
    (125, &["run", "--memory", "1", "busybox", "true"]),
    (125, &["run", "--bad"]),
    (1, &["create", "--memory", "1", "busybox"]),
    (1, &["start", "nosuch"]),
    (1, &["start", "-a", "nosuch"]),
    (1, &["attach", "boat"]),
    (9, &["exec", "live", "sh", "-c", "exit 9"]),
    (126, &["exec", "live", "nosuch"]),
    (126, &["exec", "live", "/etc"]),
    (1, &["exec", "boat", "true"]),
    (1, &["exec", "nosuch", "true"]),
    (125, &["exec", "--bad", "live", "true"]),
];

/// A missing argument and a wrong template are a wrong command line here; docker's command has 1 or 64 for some of these.
const WRONG_LINES: &[&[&str]] = &[
    &["nope"],
    &["ps", "x"],
    &["run"],
    &["create"],
    &["exec", "live"],
    &["container", "nope"],
    &["ps", "--format", "{{"],
    &["inspect", "-f", "{{.Nope}}", "live"],
    &["events", "--since", "x"],
    &["run", "-it", "busybox"],
    &["run", "--rm", "--restart", "always", "busybox"],
    &["create", "--rm", "--restart", "always", "busybox"],
    &["create", "-d", "busybox"],
    &["create", "--sig-proxy=false", "busybox"],
    &["create", "--detach-keys", "ctrl-x", "busybox"],
    &["exec", "-it", "live", "true"],
    &["explain", "live", "--image", "busybox"],
];

/// A command line without a command: help on standard error, where docker's has it.
const NO_COMMAND: &[&[&str]] = &[&[], &["container"], &["system"]];

#[test]
fn exit_codes_are_docker_s() {
    let served = Served::new();
    let root = &served.root;
    ok(root, &["create", "--name", "boat", "--network", "none", "busybox", "true"]);
    ok(root, &["run", "-d", "--name", "live", "--network", "none", "busybox", "sleep", "1000"]);
    for (code, words) in AS_DOCKER {
        let (ours, text) = failed(root, words);
        assert_eq!(ours, *code, "{words:?}: {text}");
        let host = format!("unix://{}", served.socket.display());
        let theirs = Command::new("docker").args(["-H", &host]).args(*words).stdin(Stdio::null()).output();
        assert_eq!(theirs.expect("run docker").status.code(), Some(*code), "docker {words:?}");
    }
    for words in WRONG_LINES {
        let (code, text) = failed(root, words);
        assert!(code == 125 && text.starts_with("coracle: "), "{words:?}: {code} {text}");
    }
    for words in NO_COMMAND {
        let output = coracle(&root.dir).args(*words).output().expect("run coracle");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.starts_with("Usage: coracle ") && output.stdout.is_empty(), "{words:?}: {output:?}");
        assert_eq!(output.status.code(), Some(125), "{words:?}");
    }
    ok(root, &["rm", "-f", "live"]);
}

#[test]
fn a_created_container_is_removed_at_its_end_where_its_flags_say_so() {
    let root = Root::new();
    ok(&root, &["create", "--rm", "--name", "boat", "--network", "none", "busybox", "sh", "-c", "exit 7"]);
    assert_eq!(ok(&root, &["inspect", "-f", "{{.HostConfig.AutoRemove}}", "boat"]), "true");
    assert_eq!(failed(&root, &["start", "-a", "boat"]), (7, String::new()));
    wait_for("its removal", || ok(&root, &["ps", "-aq"]).is_empty());
}

#[test]
fn events_refuse_a_filter_that_does_not_exist_as_lists_do() {
    let root = Root::new();
    let refused = (1, "coracle: Invalid filter 'foo'".to_owned());
    for list in ["ps", "images", "events"] {
        assert_eq!(failed(&root, &[list, "--filter", "foo=bar"]), refused, "{list}");
    }
    for name in ["container", "daemon", "event", "image", "label", "network", "plugin", "type", "volume"] {
        ok(&root, &["events", "--since", "0", "--until", "0m", "--filter", &format!("{name}=x")]);
    }
}

#[test]
fn a_registry_that_cannot_be_reached_is_told_in_the_kernel_s_words() {
    let root = Root::new();
    let (code, text) = failed(&root, &["pull", "127.0.0.1:1/x/y"]);
    assert_eq!((code, text.as_str()), (1, "coracle: GET http://127.0.0.1:1/v2/: connection refused"));
    let (code, text) = failed(&root, &["login", "-u", "a", "-p", "b", "127.0.0.1:1"]);
    assert!(code == 1 && text.ends_with("/v2/: connection refused"), "{text}");
}

#[test]
fn a_closed_output_ends_the_command_quietly() {
    let root = Root::new();
    let mut child = coracle(&root.dir).args(["images"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.as_mut().map(|child| (child.stdout.take(), child)).expect("run coracle");
    drop(child.0.take());
    let mut text = String::new();
    std::io::Read::read_to_string(&mut child.1.stderr.take().expect("stderr"), &mut text).expect("read");
    assert_eq!((child.1.wait().expect("its end").code(), text.as_str()), (Some(141), ""));
}

#[test]
fn the_signals_of_a_client_reach_the_container() {
    let root = Root::new();
    let script = "for s in TERM INT HUP QUIT USR1 USR2; do trap \"echo $s; exit 5\" $s; done; echo ready; while :; do sleep 0.05; done";
    ok(&root, &["create", "--name", "boat", "--network", "none", "busybox", "sh", "-c", script]);
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGUSR1, Signal::SIGUSR2] {
        let mut child = coracle(&root.dir).args(["start", "-a", "boat"]).stdout(Stdio::piped()).spawn();
        let child = child.as_mut().expect("run coracle");
        let mut output = std::io::BufReader::new(child.stdout.take().expect("stdout"));
        let mut line = String::new();
        std::io::BufRead::read_line(&mut output, &mut line).expect("read");
        assert_eq!(line, "ready\n");
        kill(nix::unistd::Pid::from_raw(child.id() as i32), signal).expect("signal");
        line.clear();
        std::io::BufRead::read_line(&mut output, &mut line).expect("read");
        assert_eq!(line.trim_end(), signal.as_str().trim_start_matches("SIG"));
        assert_eq!(child.wait().expect("its end").code(), Some(5), "{signal}");
    }
}

#[test]
fn without_a_proxy_a_signal_ends_the_client_alone() {
    let root = Root::new();
    let id = root.sleeper("stays");
    for flag in ["--sig-proxy=false", "--no-sig-proxy"] {
        let child = coracle(&root.dir).args(["attach", flag, "--no-stdin", "stays"]).stdout(Stdio::null()).spawn();
        let mut child = Ended(child.expect("run coracle"));
        let client = nix::unistd::Pid::from_raw(child.0.id() as i32);
        // The client has blocked its signals once it has opened the engine.
        wait_for("the client", || {
            let status = std::fs::read_to_string(format!("/proc/{client}/status")).unwrap_or_default();
            let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap_or_default();
            u64::from_str_radix(blocked.trim(), 16).is_ok_and(|mask| mask & 1 << (Signal::SIGTERM as u64 - 1) != 0)
        });
        kill(client, Signal::SIGTERM).expect("signal");
        assert_eq!(child.0.wait().expect("its end").code(), Some(128 + Signal::SIGTERM as i32), "{flag}");
    }
    assert_eq!(root.status(&id), "running");
}
