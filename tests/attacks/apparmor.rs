//! What AppArmor keeps a container from that the rest lets through.

use crate::support::*;
use serde_json::json;

/// A container that may mount (as programs ask that mount file systems of their own) mounts the kernel's files anew, without
/// masks. Its exec'd processes try, too.
// attack: R11 wall apparmor-label
#[test]
fn who_may_mount_shows_no_unmasked_files_of_the_kernel() {
    let on = std::fs::read("/sys/module/apparmor/parameters/enabled").is_ok_and(|text| text.starts_with(b"Y"));
    if !on {
        assert!(std::env::var_os("CORACLE_APPARMOR").is_none(), "this machine is said to have AppArmor");
        use std::io::Write;
        let text =
            "apparmor: this kernel has no AppArmor: nothing was shown (VM_SUITE=attacks tests/vm/run apparmor::)\n";
        return std::io::stderr().write_all(text.as_bytes()).expect("write to stderr");
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
