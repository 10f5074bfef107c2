//! AppArmor by deed, where the kernel has it. The emulated machine (`tests/vm/run apparmor::`) has it, and says so by
//! `CORACLE_APPARMOR`: there no test may find that the kernel has none.

use crate::support::kernel::said;
use crate::support::*;
use coracle::{Engine, ErrorKind};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The text of the engine's own profile, and its name.
const TEXT: &str = include_str!("../../src/launch/apparmor/coracle-default-1");
const DEFAULT: &str = "coracle-default-1";

/// Whether the kernel has AppArmor; where it has none, what the test shows nothing of is said.
fn is_on(shows: &str) -> bool {
    let on = kernel::has_apparmor();
    assert!(on || std::env::var_os("CORACLE_APPARMOR").is_none(), "this machine is said to have AppArmor");
    if !on {
        said(&format!(
            "apparmor: this kernel has no AppArmor: nothing was shown of {shows} (tests/vm/run apparmor::)\n"
        ));
    }
    on
}

/// A profile that a test loads; dropping it takes it away.
struct Loaded {
    file: PathBuf,
}

impl Loaded {
    fn new(text: &str) -> Loaded {
        let file = temp_dir().join("profile");
        std::fs::write(&file, text).expect("write the profile");
        let loaded = Loaded { file };
        assert!(loaded.parser("--replace").success(), "load {text}");
        loaded
    }

    fn parser(&self, action: &str) -> std::process::ExitStatus {
        let mut parser = Command::new("apparmor_parser");
        parser.args(["--skip-cache", "--quiet", "--policy-features", "/etc/apparmor.d/abi/3.0", action]);
        parser.arg(&self.file).status().expect("run apparmor_parser")
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        self.parser("--remove");
        let _ = std::fs::remove_dir_all(self.file.parent().unwrap_or(Path::new("/nowhere")));
    }
}

/// The label of a process on the host.
fn label(pid: i32) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/attr/current")).expect("a label");
    text.trim_end_matches(['\n', '\0']).to_owned()
}

fn enforced(name: &str) -> String {
    format!("{name} (enforce)")
}

const LABEL: &str = "cat /proc/self/attr/current";

/// Actions that would be possible without the profile: no filter, no cover, and the capability to mount.
fn open_but_for_the_profile(more: &[&str]) -> Value {
    let options: Vec<&str> = ["seccomp=unconfined"].iter().chain(more).copied().collect();
    host(json!({ "CapAdd": ["SYS_ADMIN"], "SecurityOpt": options, "MaskedPaths": [], "ReadonlyPaths": [] }))
}

/// The script prints a line for each action that succeeded.
const DEEDS: &str = "mkdir -p /m
    mount -t tmpfs tmpfs /m 2>/dev/null && echo mounted
    echo ? 2>/dev/null > /proc/sysrq-trigger && echo sysrq
    cat /proc/sys/vm/swappiness > /tmp/s; cat /tmp/s 2>/dev/null > /proc/sys/vm/swappiness && echo vm
    cat /proc/sys/kernel/panic > /tmp/s; cat /tmp/s 2>/dev/null > /proc/sys/kernel/panic && echo panic
    head -c 1 /proc/kcore > /dev/null 2>&1 && echo kcore
    cat /proc/sys/kernel/shmmni > /tmp/s; cat /tmp/s 2>/dev/null > /proc/sys/kernel/shmmni && echo shm
    echo file > /tmp/f && cat /tmp/f
    mkdir /tmp/d && ln -s /tmp/f /tmp/d/l && rm -r /tmp/d && echo tree
    sleep 100 & kill -9 $! && echo signal
    chown 1:1 /tmp/f && su -s /bin/sh -c true nobody 2>/dev/null; echo owner
    true";

#[test]
fn the_default_rules_by_deed() {
    if !is_on("the default rules") {
        return;
    }
    let root = Root::new();
    let all = root.sh_with(DEEDS, open_but_for_the_profile(&["apparmor=unconfined"])).out();
    assert!(all.starts_with("mounted\nsysrq\nvm\npanic\n"), "without a profile it can be done: {all}");
    for more in [&[][..], &["no-new-privileges"]] {
        let output = root.sh_with(&format!("{LABEL}; {DEEDS}"), open_but_for_the_profile(more));
        assert_eq!(output.out(), format!("{}\nshm\nfile\ntree\nsignal\nowner", enforced(DEFAULT)), "{more:?}");
    }
    let status = root.sh_with("cat /proc/self/status", host(json!({ "SecurityOpt": ["no-new-privileges"] }))).ok();
    assert_eq!(proc_status(&status, "NoNewPrivs"), "1");
}

#[test]
fn every_process_of_a_container_has_the_label() {
    if !is_on("the label of each process") {
        return;
    }
    let root = Root::new();
    let check = json!({ "Healthcheck": { "Test": ["CMD-SHELL", LABEL], "Interval": 1_000_000_000u64 },
        "HostConfig": { "RestartPolicy": { "Name": "always" }, "CapAdd": ["SYS_ADMIN"] } });
    let id = root.sleeper_with("labelled", check);
    let wanted = enforced(DEFAULT);
    assert_eq!(label(root.pid(&id)), wanted);
    assert_eq!(root.inspect(&id).app_armor_profile, DEFAULT);
    assert_eq!(root.exec(&id, &["sh", "-c", LABEL]).ok(), wanted);
    let privileged =
        json!({ "Cmd": ["sh", "-c", LABEL], "AttachStdout": true, "AttachStderr": true, "Privileged": true });
    assert_eq!(root.exec_with(&id, privileged, b"").ok(), wanted, "as dockerd has it");
    let with_terminal = json!({ "Cmd": ["sh", "-c", LABEL], "AttachStdout": true, "Tty": true });
    assert_eq!(root.exec_with(&id, with_terminal, b"").out().trim(), wanted);
    let refused = root.exec(&id, &["sh", "-c", "mkdir /m; mount -t tmpfs tmpfs /m"]);
    assert!(refused.code != 0 && refused.err().contains("ermission denied"), "{refused:?}");
    wait_for("a health check", || root.inspect(&id).state.health.is_some_and(|health| !health.log.is_empty()));
    let results = root.inspect(&id).state.health.expect("a health").log;
    assert_eq!(results[0].output.trim(), wanted, "{results:?}");

    // Another container in its PID namespace is built by a helper.
    let beside = host(json!({ "PidMode": format!("container:{id}") }));
    assert_eq!(root.sh_with(LABEL, beside).ok(), wanted);

    // The monitor alone starts it again.
    let first = root.pid(&id);
    let sent = Command::new("kill").args(["-9", &first.to_string()]).status().expect("run kill");
    assert!(sent.success());
    wait_for("the restart", || root.inspect(&id).restart_count == 1);
    wait_for("its program", || {
        let state = root.inspect(&id).state;
        state.running && state.pid > 0 && state.pid != first && label(state.pid) == wanted
    });
    assert_eq!(root.exec(&id, &["sh", "-c", LABEL]).ok(), wanted);
    root.engine.container_stop(&id, Some(10_000), Some(&soon())).expect("it takes the host's signals");
}

#[test]
fn a_profile_confines_a_container_in_a_user_namespace() {
    if !is_on("user namespaces") || !kernel::maps_owners() {
        return;
    }
    let root =
        Root::with(|o| o.userns_remap = Some(coracle::UsernsRemap { uid: 100_000, gid: 100_000, count: 65_536 }));
    root.load(&busybox_archive());
    let script = format!("{LABEL}; mkdir /m; mount -t tmpfs tmpfs /m 2>/dev/null && echo mounted");
    let output = root.sh_with(&script, open_but_for_the_profile(&[]));
    assert_eq!(output.out(), enforced(DEFAULT));
    let output = root.sh_with(&script, open_but_for_the_profile(&["apparmor=unconfined"]));
    assert_eq!(output.out(), "unconfined\nmounted");
    let id = root.sleeper("remapped");
    assert_eq!(label(root.pid(&id)), enforced(DEFAULT));
    assert_eq!(root.exec(&id, &["sh", "-c", LABEL]).ok(), enforced(DEFAULT));
}

// field: HostConfig.SecurityOpt
#[test]
fn a_profile_by_its_name() {
    if !is_on("profiles by name") {
        return;
    }
    let root = Root::new();
    let name = format!("coracle-test-{}", std::process::id());
    let text = format!(
        "profile {name} flags=(attach_disconnected,mediate_deleted) {{\n file, capability, network, signal,\n deny /etc/hosts r,\n}}\n"
    );
    let asked = |option: String| host(json!({ "SecurityOpt": [option] }));
    let script = "cat /proc/self/attr/current; cat /etc/hosts >/dev/null 2>&1 && echo read; cat /etc/hostname >/dev/null && echo other";
    let loaded = Loaded::new(&text);
    for separator in ["=", ":"] {
        let output = root.sh_with(script, asked(format!("apparmor{separator}{name}")));
        assert_eq!(output.ok(), format!("{}\nother", enforced(&name)));
    }
    let id = root.create("named", body(&["sleep", "100"], asked(format!("apparmor={name}"))));
    assert_eq!(root.inspect(&id).app_armor_profile, name);
    root.start(&id);
    assert_eq!(root.inspect(&id).app_armor_profile, name);
    assert!(!root.exec(&id, &["cat", "/etc/hosts"]).err().is_empty(), "an exec has the profile, too");
    assert_eq!(root.sh_with(script, asked("apparmor=unconfined".into())).ok(), "unconfined\nread\nother");

    root.engine.container_stop(&id, Some(0), Some(&soon())).expect("stop");
    drop(loaded);
    let error = root.engine.container_start(&id, None, Some(&soon())).map(drop);
    fails(
        error,
        ErrorKind::Internal,
        &format!(
            "unable to apply apparmor profile: apparmor failed to apply profile: write /proc/self/attr/apparmor/exec: no such \
             file or directory: {name} is not loaded"
        ),
    );
    assert_eq!(root.inspect(&id).state.exit_code, 128);

    let privileged = root.create(
        "privileged",
        body(&["sleep", "100"], host(json!({ "Privileged": true, "SecurityOpt": [format!("apparmor={name}")] }))),
    );
    root.start(&privileged);
    assert_eq!(root.inspect(&privileged).app_armor_profile, "unconfined");
    assert_eq!(label(root.pid(&privileged)), "unconfined");
    let default = root.create("default", body(&["sleep", "100"], json!({})));
    assert_eq!(root.inspect(&default).app_armor_profile, "", "as dockerd tells it before a start");
}

#[test]
fn versions_stand_beside_each_other() {
    if !is_on("versions of the profile") {
        return;
    }
    let root = Root::new();
    // An older library's, by which no mount is refused.
    let older = Loaded::new(&TEXT.replace(DEFAULT, "coracle-default-0").replace("  deny mount,", "  mount,"));
    let old = root.sleeper_with("old", open_but_for_the_profile(&["apparmor=coracle-default-0"]));
    if std::env::var_os("CORACLE_APPARMOR").is_some() {
        // No other test runs meanwhile: the host's service takes all profiles away, and the next start brings ours back.
        let file = temp_dir().join("own");
        std::fs::write(&file, TEXT).expect("write the profile");
        let own = Loaded { file };
        own.parser("--replace");
        drop(own);
    }
    let new = root.sleeper_with("new", open_but_for_the_profile(&[]));
    let mount = ["sh", "-c", "mkdir /m; mount -t tmpfs tmpfs /m"];
    assert_eq!((label(root.pid(&old)), label(root.pid(&new))), (enforced("coracle-default-0"), enforced(DEFAULT)));
    root.exec(&old, &mount).ok();
    assert_ne!(root.exec(&new, &mount).code, 0);
    drop(older);
}

#[test]
fn the_engine_s_own_choice() {
    if !is_on("the option of the engine") {
        return;
    }
    let security =
        |engine: &Engine| serde_json::to_value(engine.info().expect("info")).expect("JSON")["SecurityOptions"].clone();
    let root = Root::new();
    assert_eq!(security(&root.engine)[0], "name=apparmor");
    let open = |profile: &str| {
        let root = Root::with(|o| o.apparmor = Some(profile.into()));
        root.load(&busybox_archive());
        root
    };
    let without = open("unconfined");
    assert_eq!(without.sh(LABEL).ok(), "unconfined");
    assert_ne!(security(&without.engine)[0], "apparmor");
    let missing = open("coracle-no-such");
    let id = missing.create("", body(&["true"], json!({})));
    fails(
        missing.engine.container_start(&id, None, Some(&soon())).map(drop),
        ErrorKind::Internal,
        "coracle-no-such is not loaded",
    );
    assert_eq!(
        missing.sh_with(LABEL, host(json!({ "SecurityOpt": ["apparmor=coracle-default-1"] }))).ok(),
        enforced(DEFAULT)
    );
}

#[test]
fn no_start_is_silently_without() {
    const INNER: &str = "CORACLE_APPARMOR_INNER";
    if !is_on("a policy that cannot be changed") {
        return;
    }
    if std::env::var_os(INNER).is_none() {
        return in_a_mount_namespace("private", "apparmor::no_start_is_silently_without", &[(INNER, Path::new("1"))]);
    }
    let unmounted = Command::new("umount").arg("/sys/kernel/security").status().expect("run umount");
    assert!(unmounted.success());
    let root = Root::new();
    let id = root.create("", body(&["true"], json!({})));
    let start = |id: &str| root.engine.container_start(id, None, Some(&soon())).map(drop);
    for text in [
        "unable to load the AppArmor profile coracle-default-1: write /sys/kernel/security/apparmor/.replace: ",
        "apparmor=unconfined",
        "the engine's option apparmor",
    ] {
        fails(start(&id), ErrorKind::Internal, text);
    }
    assert_eq!(root.sh_with(LABEL, host(json!({ "SecurityOpt": ["apparmor=unconfined"] }))).ok(), "unconfined");
}

/// The engine does not write the profile into a file that a request mounts over the kernel's.
#[test]
fn a_mask_takes_no_profile_away() {
    if !is_on("a mask over the file of the profile") {
        return;
    }
    let root = Root::new();
    let masks = json!({ "MaskedPaths": ["/proc/1/attr/apparmor/current", "/proc/1/attr/current"] });
    let id = root.create("", body(&["true"], host(masks)));
    let start = root.engine.container_start(&id, None, Some(&soon())).map(drop);
    fails(start, ErrorKind::Internal, "unable to apply apparmor profile: ");
}

/// The other side: where the kernel has none nothing is asked for, and nothing that is asked for is left out silently.
#[test]
fn a_kernel_without_it() {
    let root = Root::new();
    if kernel::has_apparmor() {
        said("apparmor: this kernel has AppArmor: nothing was shown of kernels without it\n");
        return;
    }
    let options = json!({ "SecurityOpt": ["apparmor:unconfined"] });
    let id = root.sleeper_with("plain", host(options));
    assert_eq!(root.inspect(&id).app_armor_profile, "");
    let info = serde_json::to_value(root.engine.info().expect("info")).expect("JSON");
    assert!(!info["SecurityOptions"].to_string().contains("apparmor"), "{info}");
    let dir = temp_dir();
    let mut options = options_at(&dir);
    options.apparmor = Some("coracle-default-1".into());
    let opened = Engine::open_with(options.clone()).map(drop);
    options.apparmor = Some("unconfined".into());
    let without = Engine::open_with(options).map(drop);
    std::fs::remove_dir_all(&dir).expect("remove the directory");
    fails(opened, ErrorKind::Unsupported, "apparmor: coracle-default-1: this host's kernel has no AppArmor");
    without.expect("no profile is what there is");
}
