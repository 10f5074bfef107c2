//! The report of the host's needs, each taken away in turn; engines that lack one; launches in words.

use crate::cli;
use crate::support::*;
use coracle::ErrorKind;
use coracle::model::*;
use serde_json::json;
use std::path::Path;
use std::process::{Command, Output};

/// The command on a test's root, run by another program that takes something from it.
fn hindered(dir: &Path, words: &[&str], hinder: &[String]) -> Output {
    let plain = cli::coracle(dir);
    let mut command = match hinder.split_first() {
        None => Command::new(plain.get_program()),
        Some((program, arguments)) => {
            let mut command = Command::new(program);
            command.args(arguments).arg(plain.get_program());
            command
        }
    };
    command.args(plain.get_args()).args(words).stdin(std::process::Stdio::null()).output().expect("run coracle")
}

/// The report of the command where `hinder` took something away, and the command's exit code.
fn report(dir: &Path, hinder: &[String]) -> (HostReport, i32) {
    let output = hindered(dir, &["check", "--format", "json"], hinder);
    let text = String::from_utf8_lossy(&output.stdout);
    let report = serde_json::from_str(&text)
        .unwrap_or_else(|error| panic!("{error}: {text} {}", String::from_utf8_lossy(&output.stderr)));
    (report, output.status.code().unwrap_or(-1))
}

/// The needs that a report calls less than met, `area: name`.
fn lacks(report: &HostReport, state: NeedState) -> Vec<String> {
    let lacking = report.needs.iter().filter(|need| need.state == state);
    lacking.map(|need| format!("{}: {}", need.area, need.name)).collect()
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Takes a capability for good.
fn without(capability: &str) -> Vec<String> {
    let less = format!("-{}", capability.trim_start_matches("CAP_").to_lowercase());
    words(&["setpriv", "--bounding-set", &less, "--inh-caps", &less, "--"])
}

/// Does a script in a mount namespace of its own first.
fn after(script: &str) -> Vec<String> {
    words(&["unshare", "--mount", "--propagation", "private", "sh", "-ec", &format!("{script}; exec \"$@\""), "sh"])
}

/// Hides openat2(2), as an old filter of system calls does.
const FILTER: &str = "
import ctypes, os, struct, sys
rules = [(0x20, 0, 0, 0), (0x15, 0, 1, 437), (0x06, 0, 0, 0x50000 | 38), (0x06, 0, 0, 0x7fff0000)]
program = ctypes.create_string_buffer(b''.join(struct.pack('HBBI', *rule) for rule in rules))
head = struct.pack('HxxxxxxP', len(rules), ctypes.addressof(program))
if ctypes.CDLL(None, use_errno=True).prctl(22, 2, head, 0, 0):
    sys.exit(os.strerror(ctypes.get_errno()))
os.execv(sys.argv[1], sys.argv[1:])
";

#[test]
fn each_need_that_is_taken_away_is_named_and_the_others_stay() {
    let dir = temp_dir();
    std::fs::create_dir(dir.join("root")).expect("a directory");
    let (whole, code) = report(&dir, &[]);
    let before = lacks(&whole, NeedState::Missing);
    assert_eq!((code, before.as_slice(), whole.ready), (0, &[][..], true), "{whole:?}");
    for name in ["CAP_SYS_ADMIN", "CAP_MKNOD", "CAP_SETPCAP"] {
        let (report, code) = report(&dir, &without(name));
        let missing = lacks(&report, NeedState::Missing);
        assert!(
            code == 1 && !report.ready && missing.contains(&format!("capabilities: {name}")),
            "{name}: {missing:?}"
        );
        assert_eq!(report.needs.len(), whole.needs.len(), "{name}");
        let output = hindered(&dir, &["volume", "create"], &without(name));
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains(name) && text.contains("'coracle check'"), "{text}");
    }
    let (reduced, code) = report(&dir, &without("CAP_NET_ADMIN"));
    assert!(code == 0 && reduced.ready, "{reduced:?}");
    assert!(lacks(&reduced, NeedState::Reduced).contains(&"capabilities: CAP_NET_ADMIN".to_owned()), "{reduced:?}");
    // A root on overlayfs, as in a container.
    for name in ["lower", "upper", "work"] {
        std::fs::create_dir(dir.join(name)).expect("a directory");
    }
    let place = |name: &str| dir.join(name).display().to_string();
    let overlay = format!(
        "mount -t overlay -o lowerdir={},upperdir={},workdir={} none {}",
        place("lower"),
        place("upper"),
        place("work"),
        place("root")
    );
    let (overlaid, code) = report(&dir, &after(&overlay));
    assert_eq!((code, lacks(&overlaid, NeedState::Missing)), (1, vec!["root: file system".to_owned()]));
    let output = hindered(&dir, &["volume", "create"], &after(&overlay));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("is on overlayfs") && text.contains("ext4"), "{text}");
    std::fs::remove_dir_all(&dir).expect("clean up");
}

#[test]
fn no_control_groups_are_named() {
    let dir = temp_dir();
    let (report, code) = report(&dir, &after("umount -l /sys"));
    assert_eq!((code, lacks(&report, NeedState::Missing)), (1, vec!["cgroups: a hierarchy".to_owned()]));
    std::fs::remove_dir_all(&dir).expect("clean up");
}

#[test]
fn a_program_without_cap_net_admin_runs_containers_without_networks() {
    let root = Root::new();
    let run = |mode: &str| {
        let words = ["run", "--rm", "--network", mode, IMAGE, "echo", "runs"];
        let output = hindered(&root.dir, &words, &without("CAP_NET_ADMIN"));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
        (text(&output.stdout), text(&output.stderr))
    };
    for mode in ["none", "host"] {
        assert_eq!(run(mode), ("runs".to_owned(), String::new()), "{mode}");
    }
    let (out, error) = run("bridge");
    assert!(out.is_empty() && error.contains("CAP_NET_ADMIN is missing, which networks take"), "{error}");
}

#[test]
fn a_failing_start_is_explained_by_its_step_and_the_kernel_s_answer() {
    let root = Root::new();
    let bind = format!("{}:/etc/passwd/below", root.dir.display());
    let id = root.create("bad", body(&["true"], json!({ "HostConfig": { "Binds": [bind] } })));
    let plan = root.engine.container_explain(&id).expect("explain");
    assert!(plan.steps.len() > 10 && plan.error.is_empty() && plan.failed_step.is_empty(), "{plan:?}");
    assert!(plan.steps.iter().all(|step| step.failed.is_empty()), "{plan:?}");
    assert!(root.engine.container_start(&id, None, Some(&soon())).is_err());
    let plan = root.engine.container_explain("bad").expect("explain");
    let failed: Vec<&PlanStep> = plan.steps.iter().filter(|step| !step.failed.is_empty()).collect();
    let [step] = failed[..] else { panic!("not one step failed: {plan:?}") };
    assert!(step.text == plan.failed_step && step.text.contains("/etc/passwd/below"), "{plan:?}");
    assert!(plan.errno != 0 && step.failed.ends_with(&format!("({})", plan.errno_name)), "{plan:?}");
    let text = cli::ok(&root, &["explain", "bad"]);
    assert!(text.contains("<-- ") && text.contains(&plan.error) && text.contains(&plan.errno_name), "{text}");
    // One that starts again is explained without a failure.
    let id = root.create("good", body(&["true"], json!({})));
    root.start(&id);
    root.wait(&id);
    assert_eq!(root.engine.container_explain(&id).expect("explain").failed_step, "");
    let text = cli::ok(&root, &["explain", "--image", IMAGE, "--network", "none", "echo", "hi"]);
    assert!(text.contains("loopback") && text.contains("exec: "), "{text}");
    assert_eq!(root.names(&ListContainers { all: true, ..ListContainers::default() }).len(), 2);
    fails(root.engine.container_explain("nosuch"), ErrorKind::NotFound, "No such container");
}

#[test]
fn a_call_that_a_filter_hides_is_named() {
    let dir = temp_dir();
    let (report, code) = report(&dir, &words(&["python3", "-c", FILTER]));
    assert_eq!((code, lacks(&report, NeedState::Missing)), (1, vec!["kernel: openat2".to_owned()]));
    std::fs::remove_dir_all(&dir).expect("clean up");
}
