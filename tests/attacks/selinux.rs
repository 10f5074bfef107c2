//! Attacks that SELinux's labels stop, and those that the giving of labels could help.

use crate::support::*;
use coracle::ErrorKind;
use serde_json::json;
use std::path::Path;

fn is_on() -> bool {
    let on = kernel::enforces_selinux();
    if !on {
        assert!(std::env::var_os("CORACLE_SELINUX").is_none(), "this machine is said to enforce SELinux's policy");
        let text = "selinux: this kernel enforces no policy: nothing was shown (VM_SUITE=attacks VM_LSM=selinux \
                    tests/vm/run selinux::)\n";
        kernel::said(text);
    }
    on
}

fn labelled() -> Root {
    let root = Root::with(|o| o.selinux = true);
    root.load(&busybox_archive());
    root
}

fn label_of(path: &Path) -> Vec<u8> {
    std::process::Command::new("stat").args(["-c", "%C"]).arg(path).output().expect("run stat").stdout
}

/// A person who may write the directory of a bind's source puts a link there, so that the label goes to what it leads to.
// attack: 87 wall relabel-targets
#[test]
fn a_label_is_given_over_no_link_and_to_nothing_of_the_system() {
    if !is_on() {
        return;
    }
    let root = labelled();
    let dir = temp_dir();
    let (secret, link) = (dir.join("secret"), dir.join("link"));
    std::fs::create_dir(&secret).expect("make a directory");
    std::os::unix::fs::symlink(&secret, &link).expect("make a link");
    let before = label_of(&secret);
    let own = root.dir.join("root/containers");
    for mode in ["z", "Z"] {
        for source in [link.as_path(), Path::new("/mnt"), Path::new("/sys/kernel"), own.as_path()] {
            let bind = format!("{}:/d:{mode}", source.display());
            let id = root.create("", body(&["true"], host(json!({ "Binds": [bind] }))));
            let started = root.engine.container_start(&id, None, Some(&soon())).map(drop);
            fails(started, ErrorKind::Invalid, "is not allowed");
        }
    }
    assert_eq!(label_of(&secret), before);
    std::fs::remove_dir_all(&dir).expect("remove the directory");
}

/// A directory of the host that was bound without a word about labels.
// attack: 87 wall selinux-label
#[test]
fn files_of_the_host_have_no_label_of_a_container_s() {
    if !is_on() {
        return;
    }
    let root = labelled();
    let output = root.sh_with("cat /host/passwd", host(json!({ "Binds": ["/etc:/host"] })));
    assert!(output.code != 0 && output.err().contains("ermission denied"), "{output:?}");
}
