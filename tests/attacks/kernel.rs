//! The system calls that a container may make: system calls with real arguments, by every interface that a processor
//! has, and the filter as it is loaded.

use crate::images::Image;
use crate::programs::{program, program_of_i386};
use crate::support::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::Command;

const EPERM: u32 = 0x0005_0001;
const ENOSYS: u32 = 0x0005_0026;
const ALLOW: u32 = 0x7fff_0000;
const X86_64: u32 = 0xc000_003e;
const I386: u32 = 0x4000_0003;
const X32: u32 = 0x4000_0000;

/// The results of `calls.c` in a container: `ok` or the number of an error by each call's name.
fn calls(root: &Root, interface: &str, more: Value) -> BTreeMap<String, String> {
    let mut more = more;
    more["HostConfig"]["Binds"] = json!([format!("{}:/calls:ro", program("calls").display())]);
    let output = root.run(&["/calls", interface], more, b"").ok();
    let pair = |line: &str| line.split_once(' ').map(|(name, result)| (name.to_owned(), result.to_owned()));
    let results: BTreeMap<_, _> = output.lines().filter_map(pair).collect();
    assert!(results.len() > 70, "{output}");
    results
}

/// Of a usual container, as root of it and as another user, by the interfaces that reach the kernel.
fn of_everyone(root: &Root, check: impl Fn(&str, bool, &BTreeMap<String, String>)) {
    for interface in ["x86_64", "i386"] {
        for (user, is_root) in [("0", true), ("1000", false)] {
            let results = calls(root, interface, json!({ "User": user }));
            assert_eq!(results["getpid"], "ok", "{interface}: the calls are made");
            check(interface, is_root, &results);
        }
    }
}

#[track_caller]
fn refused(interface: &str, results: &BTreeMap<String, String>, names: &[&str]) {
    for name in names.iter().filter(|name| interface != "x86_64" || !name.starts_with("socketcall")) {
        let result = results.get(*name).map(String::as_str);
        assert_eq!(result, Some("1"), "{interface} {name}");
    }
}

#[track_caller]
fn done(results: &BTreeMap<String, String>, names: &[&str]) {
    for name in names {
        assert_eq!(results.get(*name).map(String::as_str), Some("ok"), "{name}");
    }
}

// attack: 149, 150, R7 wall seccomp-halves
// attack: 149, 150 wall seccomp-default
#[test]
fn sockets_of_the_kernel_s_ciphers_and_of_virtual_machines_are_not_made() {
    let root = Root::new();
    of_everyone(&root, |interface, is_root, results| {
        refused(interface, results, &["socket-alg", "socket-alg-high", "socket-alg-higher", "socketpair-alg"]);
        refused(interface, results, &["socket-vsock", "socket-vsock-high", "socketpair-vsock-high"]);
        // Some kernels do not have it at all.
        assert!(["1", "97"].contains(&&*results["socket-key"]), "{results:?}");
        done(results, &["socket-inet", "socket-inet6-high", "socket-unix", "socket-route"]);
        if !is_root {
            refused(interface, results, &["socket-packet", "socket-raw"]);
        }
    });
    let bare = calls(&root, "x86_64", host(json!({ "CapDrop": ["NET_RAW"] })));
    refused("x86_64", &bare, &["socket-packet", "socket-raw"]);
}

// attack: 149, R7 wall seccomp-socketcall
// attack: 149, R7 wall seccomp-default
#[test]
fn sockets_by_socketcall_are_for_images_of_i386_alone() {
    let root = Root::new();
    of_everyone(&root, |interface, _, results| {
        refused(interface, results, &["socketcall-alg", "socketcall-vsock", "socketcall-inet", "socketcall-pair"]);
    });
    Image::new().architecture("386").load(&root, "old");
    let old = |image: &str, how: &str| {
        let script = format!(
            "echo hello | nc -l -p 8080 & \
            for i in $(seq 100); do grep -q :1F90 /proc/net/tcp* && break; sleep 0.02; done; /client {how}; kill %1"
        );
        let bind = format!("{}:/client:ro", program_of_i386("client32").display());
        let more = json!({ "Image": image, "HostConfig": { "Binds": [bind] } });
        let output = root.run(&["sh", "-c", &script], more, b"");
        (output.out(), output.err())
    };
    assert_eq!(old(IMAGE, "old"), (String::new(), "socket: EPERM".into()));
    assert_eq!(old(IMAGE, "new"), ("hello".into(), String::new()), "a 32-bit program with calls of their own");
    assert_eq!(old("old", "old"), ("hello".into(), String::new()), "an old program in its image");
}

// attack: 151 wall seccomp-default
#[test]
fn the_mount_calls_are_refused() {
    let root = Root::new();
    of_everyone(&root, |interface, _, results| {
        refused(interface, results, &["mount", "umount2", "pivot_root", "fsopen", "fsconfig", "fsmount", "fspick"]);
        refused(interface, results, &["open_tree", "move_mount", "mount_setattr"]);
    });
}

// attack: 152 wall seccomp-default
#[test]
fn no_namespace_is_made_in_a_container() {
    let root = Root::new();
    of_everyone(&root, |interface, _, results| {
        refused(interface, results, &["unshare-user", "unshare-user-high", "unshare-mounts", "setns"]);
        refused(interface, results, &["clone-user", "clone-user-high"]);
        assert_eq!(results["clone3"], "38", "ENOSYS, so that programs fall back to clone");
        done(results, &["clone"]);
    });
}

// attack: 153 wall seccomp-default
#[test]
fn keyrings_are_out_of_reach() {
    let root = Root::new();
    of_everyone(&root, |interface, _, results| refused(interface, results, &["add_key", "request_key", "keyctl"]));
}

// attack: 154 wall seccomp-default
#[test]
fn calls_that_reach_deep_into_the_kernel_are_refused() {
    let root = Root::new();
    of_everyone(&root, |interface, is_root, results| {
        refused(interface, results, &["io_uring_setup", "io_uring_enter", "io_uring_register", "userfaultfd", "bpf"]);
        refused(interface, results, &["perf_event_open", "kcmp", "kexec_load", "init_module", "finit_module"]);
        refused(interface, results, &["delete_module", "open_by_handle_at", "lookup_dcookie", "personality-bad"]);
        refused(interface, results, &["personality-bad-high", "swapon", "swapoff", "acct", "quotactl", "reboot"]);
        refused(interface, results, &["iopl", "ioperm", "settimeofday", "syslog", "vhangup", "mbind", "move_pages"]);
        refused(interface, results, &["uselib", "fanotify_init", "sethostname"]);
        match interface {
            "i386" => refused(interface, results, &["vm86"]),
            _ => refused(interface, results, &["kexec_file_load"]),
        }
        // As dockerd has it: debuggers work, and so do old emulators.
        done(results, &["ptrace", "process_vm_readv", "process_vm_writev", "vmsplice"]);
        done(results, &["modify_ldt", "personality-read", "personality-read-high", "memfd_create"]);
        assert_eq!(results["chroot"], if is_root { "ok" } else { "1" });
    });
}

/// The kernel of this machine may have been built without x32, so the filter itself is asked, too.
// attack: 154 wall seccomp-x32
// attack: 154 wall seccomp-default
#[test]
fn the_filter_of_a_container_refuses_calls_of_x32() {
    let root = Root::new();
    let results = calls(&root, "x32", json!({}));
    assert!(results.values().all(|result| result == "38"), "{results:?}");
    let filter = loaded(&root, json!({}));
    for number in 0..600 {
        assert_eq!(verdict(&filter, X86_64, number | X32, [0; 6]), ENOSYS, "{number}");
    }
}

// attack: 149, R7 wall seccomp-halves
// attack: 149, R7 wall seccomp-default
#[test]
fn the_loaded_filter_reads_what_the_kernel_reads() {
    let root = Root::new();
    let filter = loaded(&root, json!({}));
    let calls = [(X86_64, 41), (X86_64, 53), (I386, 359), (I386, 360)];
    for family in 0..64u64 {
        let wanted = if matches!(family, 38 | 40) { EPERM } else { ALLOW };
        for (arch, number) in calls {
            for half in [0, 1, 0x8000_0000, 0xffff_ffff] {
                let got = verdict(&filter, arch, number, [half << 32 | family, 1, 0, 0, 0, 0]);
                assert_eq!(got, wanted, "{arch:#x} {number}({half:#x} {family})");
            }
        }
    }
    for half in [0, 1, 0xffff_ffff] {
        for (flags, wanted) in [(0x11, ALLOW), (0x1000_0000, EPERM), (0x0200_0000, EPERM), (0x8000_0000, ALLOW)] {
            assert_eq!(verdict(&filter, X86_64, 56, [half << 32 | flags, 0, 0, 0, 0, 0]), wanted, "clone({flags:#x})");
        }
        for (persona, wanted) in [(0, ALLOW), (8, ALLOW), (0xffff_ffff, ALLOW), (0x40_0000, EPERM)] {
            let got = verdict(&filter, X86_64, 135, [half << 32 | persona, 0, 0, 0, 0, 0]);
            assert_eq!(got, wanted, "personality({persona:#x})");
        }
    }
}

/// One instruction of a filter: code, jumps, value.
type Instruction = (u32, usize, usize, u32);

/// The filter of a running container, as the kernel has it.
fn loaded(root: &Root, more: Value) -> Vec<Instruction> {
    let id = root.sleeper_with("", more);
    let output = Command::new(program("filter")).arg(root.pid(&id).to_string()).output().expect("run filter");
    let text = String::from_utf8(output.stdout).expect("text");
    let words = |line: &str| line.split(' ').map(|word| word.parse::<u32>().expect("a number")).collect::<Vec<_>>();
    let lines: Vec<Vec<u32>> = text.lines().map(words).collect();
    assert!(!lines.is_empty(), "no filter: {}", String::from_utf8_lossy(&output.stderr));
    lines.iter().map(|word| (word[0], word[1] as usize, word[2] as usize, word[3])).collect()
}

/// The verdict of a filter on a call.
fn verdict(filter: &[Instruction], arch: u32, number: u32, arguments: [u64; 6]) -> u32 {
    let word = |offset: u32| match offset {
        0 => number,
        4 => arch,
        _ => (arguments[(offset as usize - 16) / 8] >> (offset % 8 * 8)) as u32,
    };
    let (mut held, mut at) = (0, 0);
    loop {
        let (code, yes, no, value) = filter[at];
        let jump = |holds: bool| if holds { yes } else { no };
        at += 1;
        match code {
            0x20 => held = word(value),
            0x54 => held &= value,
            0x05 => at += value as usize,
            0x15 => at += jump(held == value),
            0x25 => at += jump(held > value),
            0x35 => at += jump(held >= value),
            0x45 => at += jump(held & value != 0),
            0x06 => return value,
            other => panic!("instruction {other:#x}"),
        }
    }
}
