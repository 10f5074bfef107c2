//! SELinux by deed, where the kernel has it. The emulated machine (`VM_LSM=selinux tests/vm/run selinux::`) has it, enforcing,
//! and says so by `CORACLE_SELINUX`: there no test may find that the kernel has none.

use crate::support::*;
use coracle::{Engine, ErrorKind};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Whether the kernel has SELinux and enforces a policy; where it does not, what the test shows nothing of is said.
fn is_on(shows: &str) -> bool {
    let on = kernel::enforces_selinux();
    assert!(on || std::env::var_os("CORACLE_SELINUX").is_none(), "this machine is said to enforce SELinux's policy");
    if !on {
        let text = format!(
            "selinux: this kernel enforces no policy: nothing was shown of {shows} (VM_LSM=selinux tests/vm/run selinux::)\n"
        );
        kernel::said(&text);
    }
    on
}

fn labelled() -> Root {
    let root = Root::with(|o| o.selinux = true);
    root.load(&busybox_archive());
    root
}

const LABEL: &str = "cat /proc/self/attr/current | tr -d '\\0'";

/// The label of a process on the host.
fn label(pid: i32) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/attr/current")).expect("a label");
    text.trim_end_matches(['\n', '\0']).to_owned()
}

/// The label of a file of the host, not followed.
fn label_of(path: &Path) -> String {
    let output = std::process::Command::new("stat").args(["-c", "%C"]).arg(path).output().expect("run stat");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn level(label: &str) -> &str {
    label.splitn(4, ':').nth(3).expect("a level")
}

/// A directory of the host with a file in it, removed when dropped.
struct Dir(PathBuf);

impl Dir {
    fn new() -> Dir {
        let dir = temp_dir();
        std::fs::create_dir(dir.join("below")).expect("make a directory");
        std::fs::write(dir.join("below/file"), "content\n").expect("write a file");
        Dir(dir)
    }

    fn bound(&self, mode: &str) -> Value {
        host(json!({ "Binds": [format!("{}:/d:{mode}", self.0.display())] }))
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn options(list: &[&str]) -> Value {
    host(json!({ "SecurityOpt": list }))
}

const READ: &str = "cat /d/below/file";

#[test]
fn every_process_of_a_container_has_its_label() {
    if !is_on("the label of each process") {
        return;
    }
    let root = labelled();
    let check = json!({ "Healthcheck": { "Test": ["CMD-SHELL", LABEL], "Interval": 1_000_000_000u64 } });
    let id = root.sleeper_with("labelled", check);
    let detail = root.inspect(&id);
    let wanted = detail.process_label.clone();
    assert!(wanted.starts_with("system_u:system_r:container_t:s0:c"), "{wanted}");
    assert_eq!(detail.mount_label, format!("system_u:object_r:container_file_t:{}", level(&wanted)));
    assert_eq!(label(root.pid(&id)), wanted);
    assert_eq!(root.exec(&id, &["sh", "-c", LABEL]).ok(), wanted);
    let privileged = json!({ "Cmd": ["sh", "-c", LABEL], "AttachStdout": true, "Privileged": true });
    assert_eq!(root.exec_with(&id, privileged, b"").ok(), wanted, "as dockerd has it");
    let with_terminal = json!({ "Cmd": ["sh", "-c", LABEL], "AttachStdout": true, "Tty": true });
    assert_eq!(root.exec_with(&id, with_terminal, b"").out().trim(), wanted);
    // The files that the engine makes for it can be read, and written.
    let script = "cat /etc/hosts /etc/hostname /etc/resolv.conf > /all && echo 1 > /etc/hosts && echo 2 > /dev/shm/f \
                  && cat /dev/shm/f > /dev/null && ls /dev/mqueue /sys/firmware > /dev/null && echo all";
    assert_eq!(root.exec(&id, &["sh", "-c", script]).ok(), "all");
    wait_for("a health check", || root.inspect(&id).state.health.is_some_and(|health| !health.log.is_empty()));
    let results = root.inspect(&id).state.health.expect("a health").log;
    assert_eq!(results[0].output.trim(), wanted, "{results:?}");
    let info = serde_json::to_value(root.engine.info().expect("info")).expect("JSON");
    assert!(info["SecurityOptions"].as_array().expect("options").contains(&json!("name=selinux")), "{info}");
    // A peer of one without a label has its own.
    let open = root.sleeper_with("open", json!({ "HostConfig": { "NetworkMode": "none", "Privileged": true } }));
    let beside = host(json!({ "PidMode": format!("container:{open}") }));
    assert!(root.sh_with(LABEL, beside).ok().contains(":container_t:s0:c"));
    // A peer in its processes, an init, no new rights, a start by the monitor's plan again.
    let beside = host(json!({ "PidMode": format!("container:{id}") }));
    assert_eq!(root.sh_with(LABEL, beside).ok(), wanted);
    for more in [json!({ "Init": true }), json!({ "SecurityOpt": ["no-new-privileges"] })] {
        assert!(root.sh_with(LABEL, host(more)).ok().contains(":container_t:s0:c"));
    }
}

// field: HostConfig.SecurityOpt
#[test]
fn options_of_labels() {
    if !is_on("options of labels") {
        return;
    }
    let root = labelled();
    let of = |list: &[&str]| {
        let id = root.create("", body(&["sh", "-c", LABEL], options(list)));
        let detail = root.inspect(&id);
        (detail.process_label, detail.mount_label)
    };
    let (process, mount) = of(&["label=level:s0:c9,c8"]);
    assert_eq!(process, "system_u:system_r:container_t:s0:c8,c9", "as the kernel writes it");
    assert_eq!(mount, "system_u:object_r:container_file_t:s0:c8,c9");
    assert_eq!(root.sh_with(LABEL, options(&["label=level:s0:c8,c9"])).ok(), process);
    let none = (String::new(), "system_u:object_r:container_file_t:s0:c1022,c1023".to_owned());
    assert_eq!(of(&["label:disable"]), none);
    assert!(of(&["label=type:unconfined_t", "label=filetype:container_ro_file_t"]).1.contains(":container_ro_file_t:"));
    let host_label = label(std::process::id() as i32);
    assert_eq!(root.sh_with(LABEL, options(&["label=disable"])).ok(), host_label);
    for more in [json!({ "Privileged": true }), json!({ "PidMode": "host" }), json!({ "IpcMode": "host" })] {
        assert_eq!(root.sh_with(LABEL, host(more.clone())).ok(), host_label, "{more}");
    }
    for (bad, text) in [
        ("label=type:no_such_t", "the SELinux policy has no such label"),
        ("label=level:s0:c5000", "the SELinux policy has no such label"),
        ("label=colour:red", "there are user, role, type, filetype and level"),
    ] {
        let made = root.try_create("", body(&["true"], options(&[bad]))).map(drop);
        fails(made, ErrorKind::Invalid, text);
    }
}

#[test]
fn containers_are_kept_apart_by_their_categories() {
    if !is_on("levels of containers") {
        return;
    }
    let root = labelled();
    let mut levels = BTreeSet::new();
    for number in 0..50 {
        let id = root.create(&format!("c{number}"), body(&["true"], json!({})));
        assert!(levels.insert(level(&root.inspect(&id).process_label).to_owned()), "{levels:?}");
    }
    // A private volume is for one container; a request without the option does not open it for others.
    let private = host(json!({ "Binds": ["vol:/d:Z"] }));
    let id = root.sleeper_with("owner", private);
    root.exec(&id, &["sh", "-c", "mkdir /d/below && echo content > /d/below/file"]).ok();
    for mode in ["", ":ro"] {
        let output = root.sh_with(READ, host(json!({ "Binds": [format!("vol:/d{mode}")] })));
        assert!(output.code != 0 && output.err().contains("ermission denied"), "{output:?}");
    }
    assert_eq!(root.exec(&id, &["sh", "-c", READ]).ok(), "content");
    assert_eq!(root.sh_with(READ, host(json!({ "Binds": ["vol:/d:z"] }))).ok(), "content");
    // Content that comes from the image, and volumes in memory, can be read by all containers that have the volume.
    let copied = host(json!({ "Binds": ["copied:/bin"] }));
    assert!(root.sh_with("ls /bin/busybox && touch /bin/new", copied.clone()).ok().contains("busybox"));
    root.sh_with("cat /bin/new && touch /bin/newer", copied).ok();
}

#[test]
fn binds_are_read_with_a_word_alone() {
    if !is_on("z and Z") {
        return;
    }
    let (root, dir) = (labelled(), Dir::new());
    let refused = |mode: &str| {
        let output = root.sh_with(READ, dir.bound(mode));
        assert!(output.code != 0 && output.err().contains("ermission denied"), "{mode}: {output:?}");
    };
    let before = label_of(&dir.0);
    refused("rw");
    assert_eq!(label_of(&dir.0), before);
    assert_eq!(root.sh_with(READ, dir.bound("Z")).ok(), "content");
    assert!(label_of(&dir.0.join("below/file")).contains(":container_file_t:s0:c"));
    // Another container's pair is another one.
    refused("rw");
    assert_eq!(root.sh_with(READ, dir.bound("ro,z")).ok(), "content");
    assert_eq!(label_of(&dir.0.join("below/file")), "system_u:object_r:container_file_t:s0");
    assert_eq!(root.sh_with(READ, dir.bound("rw")).ok(), "content");
    assert_eq!(
        root.sh_with(
            READ,
            json!({ "HostConfig": { "NetworkMode": "none", "SecurityOpt": ["label=disable"],
        "Binds": [format!("{}:/d", dir.0.display())] } })
        )
        .ok(),
        "content"
    );
    // The host's own files, by a bind that names them.
    let secrets = host(json!({ "Binds": ["/etc:/host"] }));
    let output = root.sh_with("cat /host/shadow; cat /host/passwd", secrets);
    assert!(output.out().is_empty() && output.err().contains("ermission denied"), "{output:?}");
}

#[test]
fn labels_hold_in_a_user_namespace() {
    if !is_on("user namespaces") {
        return;
    }
    let root = Root::with(|o| {
        o.selinux = true;
        o.userns_remap = Some(coracle::UsernsRemap { uid: 100_000, gid: 100_000, count: 65_536 });
    });
    root.load(&busybox_archive());
    let dir = Dir::new();
    let bound = json!({ "NetworkMode": "none", "Tmpfs": { "/t": "" }, "Binds": [format!("{}:/d:Z", dir.0.display()), "vol:/v"] });
    let id = root.sleeper_with("remapped", json!({ "HostConfig": bound }));
    let wanted = root.inspect(&id).process_label;
    assert!(wanted.contains(":container_t:s0:c"), "{wanted}");
    assert_eq!(label(root.pid(&id)), wanted);
    assert_eq!(root.exec(&id, &["sh", "-c", LABEL]).ok(), wanted);
    let script = "cat /etc/hosts /etc/hostname /etc/resolv.conf > /all && cat /d/below/file && id -u && for d in /t /v /dev/shm; \
                  do echo $d > $d/f && cat $d/f; done; cat /proc/self/uid_map | tr -s ' '";
    let output = root.exec(&id, &["sh", "-c", script]);
    assert_eq!(output.ok(), "content\n0\n/t\n/v\n/dev/shm\n 0 100000 65536");
    // The private directory stays closed to another container with the same map.
    let output = root.sh_with(READ, dir.bound("rw"));
    assert!(output.code != 0 && output.err().contains("ermission denied"), "{output:?}");
}

#[test]
fn labels_outlive_the_option() {
    if !is_on("labels of containers of an engine without the option") {
        return;
    }
    let root = labelled();
    let id = root.create("kept", body(&["sh", "-c", "sleep 100"], json!({})));
    let wanted = root.inspect(&id).process_label;
    let without = Engine::open_with(options_at(&root.dir)).expect("open without the option");
    without.container_start(&id, None, Some(&soon())).expect("start");
    assert_eq!(label(root.pid(&id)), wanted);
    without.container_stop(&id, Some(0), Some(&soon())).expect("stop");
    let asked = serde_json::from_value(body(&["true"], options(&["label=level:s0:c1,c2"]))).expect("a body");
    fails(without.container_create(None, &asked), ErrorKind::Unsupported, "gives no SELinux labels");
    // A container made without the option gets its label when an engine with the option starts it.
    let late = serde_json::from_value(body(&["sleep", "100"], json!({}))).expect("a body");
    let late = without.container_create(Some("late"), &late).expect("create").id;
    assert_eq!(root.inspect(&late).process_label, "");
    root.start(&late);
    let given = root.inspect(&late).process_label;
    assert!(given.contains(":container_t:s0:c") && label(root.pid(&late)) == given, "{given}");
}

/// The other side: nobody who asked for labels is without, silently.
#[test]
fn a_kernel_without_it() {
    if std::fs::metadata("/sys/fs/selinux/enforce").is_ok() {
        return;
    }
    let dir = temp_dir();
    let mut options = options_at(&dir);
    options.selinux = true;
    let opened = Engine::open_with(options).map(drop);
    std::fs::remove_dir_all(&dir).expect("remove the directory");
    fails(opened, ErrorKind::Unsupported, "selinux: this host's kernel has no SELinux");
    let root = Root::new();
    let bound = Dir::new();
    assert_eq!(root.sh_with(READ, bound.bound("Z")).ok(), "content", "as dockerd, which leaves the labels alone");
    let id = root.sleeper("plain");
    let detail = root.inspect(&id);
    assert_eq!((detail.process_label, detail.mount_label), (String::new(), String::new()));
}
