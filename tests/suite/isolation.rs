//! The rights and the limits of a container with default settings.

use crate::support::*;
use coracle::model::{CommitContainer, PutArchive};
use serde_json::json;

#[test]
fn a_container_has_namespaces_of_its_own() {
    let root = Root::new();
    let output = root.sh("for n in pid mnt uts ipc net cgroup; do readlink /proc/self/ns/$n; done").ok();
    for (line, name) in output.lines().zip(["pid", "mnt", "uts", "ipc", "net", "cgroup"]) {
        let ours = std::fs::read_link(format!("/proc/self/ns/{name}")).expect("our namespace");
        if name != "cgroup" || Cgroups::unified() {
            assert_ne!(line, ours.display().to_string(), "{name} is the host's");
        }
    }
    assert_eq!(output.lines().count(), 6);
    assert_eq!(root.sh("echo $$").ok(), "1");
}

#[test]
fn a_container_sees_its_root_alone() {
    let root = Root::new();
    let output = root.sh("cat /proc/self/mountinfo; ls /").ok();
    let host = root.dir.display().to_string();
    for line in output.lines() {
        // The super options of an overlay name its directories; nothing else may.
        let visible = line.split(" - ").next().unwrap_or_default();
        assert!(!visible.contains(&host) || visible.contains(" /etc/"), "{line}");
    }
    let entries: Vec<&str> = output.lines().filter(|l| !l.contains(' ')).collect();
    for dir in ["bin", "dev", "etc", "proc", "sys", "tmp"] {
        assert!(entries.contains(&dir), "{entries:?}");
    }
    assert!(!entries.contains(&"work") && !entries.contains(&".pivot_root"), "{entries:?}");
}

#[test]
fn nothing_shows_in_the_host_s_mount_table() {
    let root = Root::new();
    let before = std::fs::read_to_string("/proc/self/mountinfo").expect("mountinfo");
    let id = root.sleeper("unseen");
    let during = std::fs::read_to_string("/proc/self/mountinfo").expect("mountinfo");
    let inside =
        |text: &str| text.lines().filter(|l| l.contains(&id) || l.contains(&root.dir.display().to_string())).count();
    assert_eq!(inside(&before), 0);
    assert_eq!(inside(&during), 0, "{during}");
}

// attack: 7, 8, 9 wall masked-paths
// attack: 7 wall readonly-paths
#[test]
fn kernel_files_are_masked_or_read_only() {
    let root = Root::new();
    let script = "for f in /proc/kcore /proc/timer_list /proc/sched_debug /proc/keys /proc/interrupts; do
                    test -e $f || continue; test -c $f || cat $f 2>/dev/null | head -c 1 | wc -c | grep -vx 0; done
                  ls -A /sys/firmware /proc/scsi /proc/acpi /sys/devices/virtual/powercap \
                    /sys/devices/system/cpu/cpu*/thermal_throttle 2>/dev/null | grep -v : | grep .
                  for f in /proc/sysrq-trigger /proc/sys/kernel/panic /proc/irq/default_smp_affinity; do
                    test -e $f || continue; ( : >> $f && echo $f ) 2>&1 | grep -v 'Read-only file system'; done
                  ( mkdir /sys/fs/cgroup/x || touch /sys/x ) 2>&1 | grep -v 'Read-only file system'
                  true";
    // AppArmor would refuse most of it by itself.
    assert_eq!(root.sh_with(script, host(json!({ "SecurityOpt": ["apparmor=unconfined"] }))).ok(), "");
}

#[test]
fn dev_is_docker_s() {
    let root = Root::new();
    let script = "cd /dev; for n in null zero full random urandom tty; do stat -c '%n %a %t:%T' $n; done
                  for l in fd stdin stdout stderr ptmx core; do echo $l $(readlink $l); done
                  ls -d mqueue pts shm; ls | tr '\\n' ' '";
    let output = root.sh(script).ok();
    for line in [
        "null 666 1:3",
        "zero 666 1:5",
        "full 666 1:7",
        "random 666 1:8",
        "urandom 666 1:9",
        "tty 666 5:0",
        "fd /proc/self/fd",
        "stdin /proc/self/fd/0",
        "stdout /proc/self/fd/1",
        "stderr /proc/self/fd/2",
        "ptmx pts/ptmx",
    ] {
        assert!(output.lines().any(|l| l == line), "no {line:?} in\n{output}");
    }
    let names = output.lines().last().unwrap_or_default();
    assert!(!names.contains("sda") && !names.contains("kmsg") && !names.contains("loop"), "{names}");
}

#[test]
fn no_descriptor_and_no_setting_of_the_host_leaks_in() {
    let root = Root::new();
    // The shell's own listing opens one more.
    let fds = root.run(&["ls", "/proc/self/fd"], json!({}), b"").ok();
    assert_eq!(fds.split_whitespace().collect::<Vec<_>>(), ["0", "1", "2", "3"]);
    // Without a shell: busybox's ignores SIGQUIT.
    let status = root.run(&["cat", "/proc/self/status"], json!({}), b"").ok();
    for (field, want) in
        [("SigBlk", "0000000000000000"), ("SigIgn", "0000000000000000"), ("Umask", "0022"), ("Groups", "0")]
    {
        let got = proc_status(&status, field);
        assert!(got == want || (field == "Groups" && got.is_empty()), "{field}: {got}");
    }
    assert_eq!(
        root.sh("umask; cut -d' ' -f19 /proc/self/stat; cat /proc/self/oom_score_adj /proc/self/timerslack_ns").ok(),
        "0022\n0\n0\n50000"
    );
    let environment = root.sh("env").ok();
    assert!(!environment.contains("CARGO"), "{environment}");
}

/// An input that nobody gives is the container's own `/dev/null`: the host's would be everybody's to break.
#[test]
fn the_host_s_null_device_is_not_handed_in() {
    use std::os::unix::fs::MetadataExt;
    let root = Root::new();
    let facts = || {
        let null = std::fs::metadata("/dev/null").expect("the host's /dev/null");
        (null.uid(), null.mode())
    };
    let before = facts();
    let config = json!({ "User": "1234" });
    assert_eq!(root.sh_with("readlink /proc/self/fd/0; stat -c %u /dev/null", config.clone()).ok(), "/dev/null\n0");
    let output = root.sh_with("chmod 600 /proc/self/fd/0", config);
    assert_ne!(output.code, 0, "{}", output.out());
    root.sh("chmod 640 /proc/self/fd/0").ok();
    assert_eq!(facts(), before);
}

/// A process in the container chooses what `/dev/null` is: nothing of the monitor's can be had by it.
// attack: 5, 16, 20 wall null-device
#[test]
fn a_null_device_that_was_swapped_opens_nothing() {
    let root = Root::new();
    let id = root.sleeper("swapped");
    root.exec(&id, &["mv", "/dev/null", "/dev/other"]).ok();
    // The input is given here, so these run whatever stands at /dev/null.
    let put = |script: &str| {
        let config =
            json!({ "Cmd": ["sh", "-c", script], "AttachStdin": true, "AttachStdout": true, "AttachStderr": true });
        root.exec_with(&id, config, b"").ok()
    };
    let refused = || {
        let config = serde_json::from_value(json!({ "Cmd": ["readlink", "/proc/self/fd/0"], "AttachStdout": true }));
        let exec = root.engine.exec_create(&id, &config.expect("an exec body")).expect("exec create");
        let started = root.engine.exec_start(&exec, Some(coracle::Io::default()), Some(&soon()));
        started.expect_err("a refusal").message().to_owned()
    };
    for number in 3..30 {
        put(&format!("ln -snf /proc/self/fd/{number} /dev/null"));
        assert_eq!(refused(), "set up the standard streams: too many levels of symbolic links", "{number}");
    }
    put("rm /dev/null; echo text > /dev/null");
    assert_eq!(refused(), "set up the standard streams: invalid argument");
    put("rm /dev/null; mv /dev/other /dev/null");
    assert_eq!(root.exec(&id, &["readlink", "/proc/self/fd/0"]).ok(), "/dev/null");
}

/// Images have links that lead to nothing yet, `/etc/resolv.conf` above all: the mounts come to where they lead, inside the
/// root. One that leads into procfs takes no mount there.
#[test]
fn links_of_an_image_lead_mounts_inside_the_root_and_not_into_procfs() {
    let root = Root::new();
    let tar = crate::support::archive::Tar::new()
        .symlink("etc/resolv.conf", "../run/resolve/stub.conf")
        .symlink("etc/hosts", "/far/away")
        .symlink("later", "/lib/new")
        .symlink("loop", "loop")
        .symlink("kernel", "/proc")
        .symlink("devices", "/dev")
        .end();
    let id = root.create("", body(&["true"], json!({})));
    let put = PutArchive::default();
    root.engine.container_archive_put(&id, "/", &mut tar.as_slice(), put, Some(&soon())).expect("put the links");
    let how = CommitContainer { repo: "linked".into(), ..CommitContainer::default() };
    root.engine.container_commit(&id, &how, Some(&soon())).expect("commit");
    let start = |host: serde_json::Value, command: &[&str]| {
        let id = root.create("", body(command, json!({ "Image": "linked", "HostConfig": host })));
        root.engine.container_start(&id, None, Some(&soon())).map(|_| id)
    };
    let look = "cat /etc/hosts > /dev/null && grep -q localhost /far/away && test -f /run/resolve/stub.conf && test -d /lib/new/x";
    let id = start(json!({ "Tmpfs": { "/later/x": "" } }), &["sh", "-c", look]).expect("start");
    assert_eq!(root.wait(&id), 0);
    for (host, error) in [
        (
            json!({ "Tmpfs": { "/kernel": "" } }),
            "mount tmpfs on /kernel: a link of the image leads into /proc, where nothing is mounted",
        ),
        (
            json!({ "Tmpfs": { "/kernel/sys/net": "" } }),
            "mount tmpfs on /kernel/sys/net: a link of the image leads into /proc, where nothing is mounted",
        ),
        (
            json!({ "Binds": ["/etc:/kernel/tty"] }),
            "bind /etc to /kernel/tty: a link of the image leads into /proc, where nothing is mounted",
        ),
        (
            json!({ "Binds": ["/etc:/devices"] }),
            "set up the standard streams: a link of the image led a mount onto /dev or a device of the container's own",
        ),
        (json!({ "Tmpfs": { "/loop": "" } }), "mount tmpfs on /loop: too many levels of symbolic links"),
    ] {
        assert_eq!(start(host, &["true"]).expect_err("a refusal").message(), error);
    }
}

#[test]
fn the_default_filter_refuses_what_docker_s_refuses() {
    let root = Root::new();
    for (what, script) in [
        ("mount", "mount -t tmpfs none /tmp"),
        ("unshare", "unshare -U true"),
        ("keyctl", "cat /proc/keys | grep ."),
        ("reboot", "reboot -f"),
        ("swapoff", "swapoff -a; swapoff /dev/null"),
        ("pivot_root", "pivot_root / /"),
    ] {
        let output = root.sh(script);
        assert_ne!(output.code, 0, "{what} went through: {}", output.out());
    }
    // Threads and processes work: clone3 must say ENOSYS, not EPERM.
    assert_eq!(root.sh("(echo child) | cat").ok(), "child");
}

#[test]
fn the_engine_s_sockets_are_out_of_reach() {
    let root = Root::new();
    let output =
        root.sh("cat /proc/net/unix | grep -i coracle; find / -xdev -name '*.db' -o -xdev -name control 2>/dev/null");
    assert_eq!(output.out(), "");
}

#[test]
fn two_containers_do_not_see_each_other() {
    let root = Root::new();
    let first = root.sleeper("first");
    root.exec(&first, &["sh", "-c", "echo secret > /tmp/secret; sleep 500 > /dev/null 2>&1 &"]);
    let output = root.sh("ls /tmp; ps -o args | grep 'sleep 50[0]'");
    assert_eq!(output.out(), "");
}
