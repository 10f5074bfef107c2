//! The actions that only AppArmor keeps a container from.

use crate::programs::program;
use crate::support::*;
use serde_json::{Value, json};

/// Whether the kernel has AppArmor; where it has none, that nothing was shown is said past the test harness.
fn is_on() -> bool {
    let on = kernel::has_apparmor();
    if !on {
        assert!(std::env::var_os("CORACLE_APPARMOR").is_none(), "this machine is said to have AppArmor");
        let text =
            "apparmor: this kernel has no AppArmor: nothing was shown (VM_SUITE=attacks tests/vm/run apparmor::)\n";
        kernel::said(text);
    }
    on
}

/// A container that may mount (as programs ask that mount file systems of their own) mounts the kernel's files anew, without
/// masks. Its exec'd processes try, too.
// attack: R11 wall apparmor-label
#[test]
fn a_container_that_may_mount_does_not_unmask_files_of_the_kernel() {
    if !is_on() {
        return;
    }
    let root = Root::new();
    let script = "mkdir /m; mount -t proc proc /m && ls /m/sysrq-trigger";
    let may = |more: &[&str]| {
        let options: Vec<&str> = ["seccomp=unconfined"].iter().chain(more).copied().collect();
        host(json!({ "CapAdd": ["SYS_ADMIN"], "SecurityOpt": options }))
    };
    assert_eq!(root.sh_with(script, may(&["apparmor=unconfined"])).ok(), "/m/sysrq-trigger", "it can be tried");
    let id = root.sleeper_with("mounts", may(&[]));
    for output in [root.sh_with(script, may(&[])), root.exec(&id, &["sh", "-c", script])] {
        assert!(output.code != 0 && output.err().contains("ermission denied"), "{output:?}");
    }
}

/// A container whose caller gave it the host's `/sys` and took its filter away: the profile alone is left.
// attack: R11 wall apparmor-label
#[test]
fn without_a_filter_the_profile_closes_the_ciphers_and_the_kernel_s_settings() {
    if !is_on() {
        return;
    }
    let root = Root::new();
    let setting = "/sys/kernel/mm/ksm/sleep_millisecs";
    let script =
        format!("/calls x86_64 | grep '^socket-alg '; cat {setting} > /s; cat /s > {setting} && echo set; true");
    let with = |options: &[&str]| -> Value {
        let binds = [format!("{}:/calls:ro", program("calls").display()), "/sys:/sys".to_owned()];
        host(json!({ "Binds": binds, "SecurityOpt": options, "ReadonlyPaths": [], "MaskedPaths": [] }))
    };
    let open = root.sh_with(&script, with(&["seccomp=unconfined", "apparmor=unconfined"])).out();
    assert_eq!(open, "socket-alg ok\nset", "it can be done without a profile");
    let output = root.sh_with(&script, with(&["seccomp=unconfined"]));
    assert_eq!(output.out(), "socket-alg 13", "{output:?}");
    assert!(output.err().contains("ermission denied"), "{output:?}");
}
