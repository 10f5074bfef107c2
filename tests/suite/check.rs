//! The report of the host's needs, each taken away in turn; engines that lack one; launches in words.

use crate::cli;
use crate::support::*;
use coracle::ErrorKind;
use coracle::model::*;
use nix::libc;
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

/// Answers a system call with an error number, as filters of containers and services do.
fn filtered(call: libc::c_long, errno: i32) -> Vec<String> {
    let hide = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/hide-call");
    words(&[hide, &call.to_string(), &errno.to_string()])
}

/// The need that a kernel before 5.12 does not meet.
const ATTRIBUTES: &str = "kernel: mount_setattr";

/// The needs that this machine does not meet, and that an engine can do without.
fn reduced_here() -> &'static [&'static str] {
    if kernel::sets_attributes() { &[] } else { &[ATTRIBUTES] }
}

/// The numbers of the calls that the report names.
const CALLS: &[(&str, libc::c_long)] = &[
    ("memfd_create", libc::SYS_memfd_create),
    ("open_tree", libc::SYS_open_tree),
    ("move_mount", libc::SYS_move_mount),
    ("fsopen", libc::SYS_fsopen),
    ("fsmount", libc::SYS_fsmount),
    ("pidfd_open", libc::SYS_pidfd_open),
    ("clone3", libc::SYS_clone3),
    ("openat2", libc::SYS_openat2),
    ("close_range", libc::SYS_close_range),
    ("mount_setattr", libc::SYS_mount_setattr),
];

/// Takes one need from the report of a host that meets all of them. `None`: this test has no way to take the need.
fn remover(need: &Need, dir: &Path) -> Option<Vec<String>> {
    let place = |name: &str| dir.join(name).display().to_string();
    let overlay = |over: &str| {
        let [lower, upper, work] = ["lower", "upper", "work"].map(place);
        after(&format!("mount -t overlay -o lowerdir={lower},upperdir={upper},workdir={work} none {}", place(over)))
    };
    let read_only = |over: &str| after(&format!("mount -t tmpfs -o ro none {}", place(over)));
    Some(match (need.area.as_str(), need.name.as_str()) {
        ("kernel", "overlay file system") => filtered(libc::SYS_fsopen, libc::ENODEV),
        ("kernel", "seccomp filters") => filtered(libc::SYS_prctl, libc::EINVAL),
        ("kernel", call) => filtered(CALLS.iter().find(|(name, _)| *name == call)?.1, libc::ENOSYS),
        ("capabilities", name) if name.starts_with("CAP_") => without(name),
        ("cgroups", "a hierarchy") => after("umount -l /sys"),
        // Version 1 has a mount for it; version 2 names it in a file, and block devices there are io.
        ("cgroups", controller) => after(&format!(
            "cd {found}; if [ -e cgroup.controllers ]; then sed -E 's/\\<({controller}{io})\\>//' cgroup.controllers > {list}; \
             mount --bind {list} cgroup.controllers; else cd /; umount -l {found}; fi",
            found = need.found,
            io = if controller == "blkio" { "|io" } else { "" },
            list = place("controllers"),
        )),
        ("root", "file system") => overlay("root"),
        ("root", "writable") => read_only("root"),
        ("run directory", "file system") => overlay("run"),
        ("run directory", "writable") => read_only("run"),
        ("network", "firewalls of others") => {
            let chain = "nft add table inet stranger; \
                         nft add chain inet stranger forward '{ type filter hook forward priority 0; policy drop; }'";
            words(&["unshare", "--net", "sh", "-ec", &format!("{chain}; exec \"$@\""), "sh"])
        }
        ("registries", "certificates") => words(&["env", "SSL_CERT_FILE=/nosuch", "SSL_CERT_DIR=/nosuch"]),
        _ => return None,
    })
}

const CONTROLLERS: [&str; 5] =
    ["cgroups: memory", "cgroups: cpu", "cgroups: pids", "cgroups: cpuset", "cgroups: blkio"];

/// Needs that go with another one.
fn goes_with(need: &Need) -> &'static [&'static str] {
    match need.name.as_str() {
        "fsopen" | "CAP_SYS_ADMIN" => &["kernel: overlay file system"],
        "CAP_NET_ADMIN" => &["network: firewalls of others"],
        // Root may not write to the top of a hierarchy by its mode.
        "CAP_DAC_OVERRIDE" => &CONTROLLERS,
        _ => &[],
    }
}

/// A directory for a root, a run directory on a tmpfs, and directories for an overlay.
struct Host(std::path::PathBuf);

impl Host {
    fn new() -> Host {
        let dir = temp_dir();
        for name in ["root", "run", "lower", "upper", "work"] {
            std::fs::create_dir(dir.join(name)).expect("a directory");
        }
        Host(dir)
    }

    /// The report where `hinder` took something away. The network namespace is new: a dockerd on this machine may have
    /// firewall rules at the moment.
    fn report(&self, hinder: &[String]) -> (HostReport, i32) {
        let run = self.0.join("run");
        let own_network = words(&["unshare", "--net", "--"]);
        let base = after(&format!("mount -t tmpfs none {}", run.display()));
        report(&self.0, &[own_network, base, hinder.to_vec()].concat())
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn every_need_of_the_report_is_named_where_it_is_taken_away() {
    let host = Host::new();
    let (whole, code) = host.report(&[]);
    assert!(code == 0 && whole.needs.len() > 25, "{whole:?}");
    let called = |need: &Need| format!("{}: {}", need.area, need.name);
    let unmet = |report: &HostReport| -> Vec<String> {
        report.needs.iter().filter(|need| need.state != NeedState::Met).map(called).collect()
    };
    assert_eq!(unmet(&whole), reduced_here(), "this host meets all other needs");
    for need in whole.needs.iter().filter(|need| need.state == NeedState::Met) {
        let hinder = remover(need, &host.0).unwrap_or_else(|| panic!("no test takes this need away: {}", called(need)));
        let (report, code) = host.report(&hinder);
        let mut lacking = unmet(&report);
        assert!(lacking.contains(&called(need)), "{}: {lacking:?}", called(need));
        let (with, before) = (goes_with(need), reduced_here());
        lacking.retain(|one| *one != called(need) && !with.contains(&one.as_str()) && !before.contains(&one.as_str()));
        assert_eq!(lacking, [""; 0], "without {}", called(need));
        for one in report.needs.iter().filter(|one| one.state != NeedState::Met) {
            assert!(!one.loss.is_empty() && !one.cure.is_empty(), "{one:?}");
        }
        assert_eq!((report.ready, code), (lacks(&report, NeedState::Missing).is_empty(), i32::from(!report.ready)));
    }
}

/// Needs that a report names only where they are not met.
#[test]
fn a_user_namespace_and_a_hidden_capget_are_named() {
    let host = Host::new();
    for (hinder, name) in [
        (words(&["unshare", "--user", "--map-root-user"]), "capabilities: the host's user namespace"),
        (filtered(libc::SYS_capget, libc::EPERM), "capabilities: all"),
    ] {
        let (report, _) = host.report(&hinder);
        let lacking = [lacks(&report, NeedState::Missing), lacks(&report, NeedState::Reduced)].concat();
        assert!(lacking.contains(&name.to_owned()), "{name}: {lacking:?}");
    }
}

#[test]
fn cures_name_the_directory_and_who_may_write_to_it() {
    use std::os::unix::fs::PermissionsExt;
    let host = Host::new();
    let cure = |report: &HostReport, area: &str, name: &str| {
        let need = report.needs.iter().find(|need| need.area == area && need.name == name).expect("the need");
        assert_ne!(need.state, NeedState::Met, "{need:?}");
        need.cure.clone()
    };
    let dir = host.0.display().to_string();
    // Directories of root, for another user.
    std::fs::set_permissions(&host.0, std::fs::Permissions::from_mode(0o755)).expect("let others look");
    let other = words(&["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--"]);
    let report_of_other = host.report(&other).0;
    assert_eq!(
        cure(&report_of_other, "root", "writable"),
        format!("run as root, or change the owner: chown USER {dir}/root")
    );
    // A mount of another user's directory.
    let read_only = after(&format!("mount -t tmpfs -o ro none {dir}/run"));
    let cure_of_mount = cure(&host.report(&read_only).0, "run directory", "writable");
    assert!(cure_of_mount.contains("--run") && cure_of_mount.contains("remount,rw"), "{cure_of_mount}");
    let overlaid =
        format!("mount -t overlay -o lowerdir={dir}/lower,upperdir={dir}/upper,workdir={dir}/work none {dir}/run");
    let (report, _) = host.report(&after(&overlaid));
    assert_eq!(
        cure(&report, "run directory", "file system"),
        format!("mkdir -p {dir}/run && mount -t tmpfs tmpfs {dir}/run, or name a directory on a tmpfs with --run")
    );
}

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
    // The flags of the `run` that failed, its name among them.
    let bind = format!("{}:/etc/passwd/below", root.dir.display());
    let text = cli::ok(
        &root,
        &["explain", "-d", "--rm", "--name", "bad", "-v", &bind, "-w", "/tmp", "--image", IMAGE, "sh", "-c", "true"],
    );
    assert!(text.contains("/etc/passwd/below") && text.contains("/tmp"), "{text}");
    for words in [&["explain", "bad", "--format", "json"][..], &["system", "explain", "--format=json", "bad"]] {
        let plan: LaunchPlan = serde_json::from_str(&cli::ok(&root, words)).expect("a plan");
        assert_eq!(plan.name, "/bad", "{words:?}");
    }
    let (code, text) = cli::failed(&root, &["explain", "--network", "none", "bad"]);
    assert!(code == 125 && text.contains("--network describes a new container"), "{text}");
    assert_eq!(root.names(&ListContainers { all: true, ..ListContainers::default() }).len(), 2);
    fails(root.engine.container_explain("nosuch"), ErrorKind::NotFound, "No such container");
}

#[test]
fn a_call_that_a_filter_hides_is_named() {
    let dir = temp_dir();
    let (report, code) = report(&dir, &filtered(libc::SYS_openat2, libc::ENOSYS));
    assert_eq!((code, lacks(&report, NeedState::Missing)), (1, vec!["kernel: openat2".to_owned()]));
    std::fs::remove_dir_all(&dir).expect("clean up");
}

/// A place for a bind below a path that is read-only.
const BELOW_READ_ONLY: &str = "/proc/sys/kernel/ns_last_pid";

#[test]
fn an_engine_without_mount_setattr_starts_containers_and_says_what_it_lacks() {
    let root = Root::new();
    let hide = filtered(libc::SYS_mount_setattr, libc::ENOSYS);
    let (report, code) = report(&root.dir, &hide);
    assert_eq!((code, report.ready, lacks(&report, NeedState::Missing)), (0, true, vec![]));
    assert!(lacks(&report, NeedState::Reduced).contains(&ATTRIBUTES.to_owned()), "{report:?}");
    let dir = root.dir.join("src");
    std::fs::create_dir(&dir).expect("a directory");
    // The kernel names the same places and attributes of all mounts, with the call and without it.
    let script = "sed -E 's/^[0-9]+ [0-9]+ [^ ]* [^ ]* ([^ ]* [^ ]*) .*/\\1/' /proc/self/mountinfo; echo x >/ro/x; echo x >/proc/sys/kernel/x";
    let bind = |target: &str| format!("{}:{target}", dir.display());
    let run = |hide: &[String]| {
        let (ro, shared) = (bind("/ro:ro"), bind("/private:rprivate"));
        let file = format!("{}/root/identity:{BELOW_READ_ONLY}", root.dir.display());
        let binds = ["-v", &ro, "-v", &shared, "-v", &file, "--tmpfs", "/t:ro"];
        let words = [&["run", "--rm", "--read-only"], &binds[..], &[IMAGE, "sh", "-c", script]].concat();
        let output = hindered(&root.dir, &words, hide);
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
    };
    let (with, without) = (run(&[]), run(&hide));
    let below = format!("\n{BELOW_READ_ONLY} ro,");
    for part in ["\n/ro ro,", "\n/proc/sys ro,", &below, "/ro/x: Read-only"] {
        assert!(with.contains(part), "{part} in {with}");
    }
    assert_eq!(with, without);
    let output = hindered(&root.dir, &["--userns-remap", "100000:65536", "ps"], &hide);
    let text = String::from_utf8_lossy(&output.stderr);
    let reason =
        if kernel::release() < (5, 19) { "userns_remap needs Linux 5.19" } else { "userns_remap: mount_setattr(2)" };
    assert!(text.contains(reason), "{text}");
}
