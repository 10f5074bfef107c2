//! Starts in a root that an attacker made: links, false devices, false kernel files, odd parameters.

use crate::canary::Canary;
use crate::images::Image;
use crate::programs::program;
use crate::support::archive::Tar;
use crate::support::*;
use serde_json::{Value, json};

fn with_canary() -> (Root, Canary) {
    let root = Root::new();
    let canary = Canary::new(&root);
    (root, canary)
}

/// Starts a container to its end; returns the error of the start, or its exit code and output.
fn outcome(root: &Root, command: &[&str], more: Value) -> Result<(i32, String), String> {
    let id = root.try_create("", body(command, more)).map_err(|error| error.message().to_owned())?;
    root.engine.container_start(&id, None, Some(&soon())).map_err(|error| error.message().to_owned())?;
    let code = root.wait(&id);
    Ok((code, root.logs(&id).out()))
}

/// A file and a directory of the host that may be seen.
fn open_house(root: &Root) -> (String, String) {
    let dir = root.dir.join("open");
    std::fs::create_dir_all(&dir).expect("make a directory");
    std::fs::write(dir.join("file"), "open").expect("write a file");
    (dir.join("file").display().to_string(), dir.display().to_string())
}

// attack: 15, 20, 22, 23, 36 wall resolve-in-root
#[test]
fn links_of_an_image_lead_no_mount_point_to_the_host() {
    let (root, canary) = with_canary();
    let mut layer = Tar::new()
        .symlink("absolute", &canary.path(""))
        .symlink("climbing", &canary.climb(""))
        .symlink("last", &canary.path("empty"));
    for number in 0..35 {
        let next = if number == 34 { canary.path("") } else { format!("chain{}", number + 1) };
        layer = layer.symlink(&format!("chain{number}"), &next);
    }
    Image::new().layer(layer).load(&root, "links");
    let (file, dir) = open_house(&root);
    for link in ["absolute", "climbing", "chain0"] {
        let host = json!({ "Binds": [format!("{file}:/{link}/new-file"), format!("{dir}:/{link}/new/dir")],
            "Tmpfs": { format!("/{link}/memory"): "" } });
        let look = format!("cat /{link}/new-file && ls /{link}/new/dir && test -d {}/memory", canary.path(""));
        let got = outcome(&root, &["sh", "-c", &look], json!({ "Image": "links", "HostConfig": host }));
        assert_eq!(got, Ok((0, "openfile".into())), "{link}: mounts come to where the link leads inside");
        canary.untouched();
    }
    let host = json!({ "Binds": [format!("{file}:/last")] });
    let got = outcome(&root, &["cat", "/last"], json!({ "Image": "links", "HostConfig": host }));
    assert_eq!(got, Ok((0, "open".into())));
    canary.untouched();
}

// attack: 5, 35, 37 wall resolve-in-root
#[test]
fn the_engine_s_own_files_stay_inside() {
    let (root, canary) = with_canary();
    for (number, target) in [canary.path(""), canary.climb("")].iter().enumerate() {
        let name = format!("etc{number}");
        Image::new().layer(Tar::new().file(".wh.etc", b"").symlink("etc", target)).load(&root, &name);
        let look = "cat /etc/hosts /etc/hostname /etc/resolv.conf > /dev/null && grep -q localhost /etc/hosts";
        let got = outcome(&root, &["sh", "-c", look], json!({ "Image": name }));
        assert_eq!(got, Ok((0, String::new())), "{target}");
        canary.untouched();
    }
}

// attack: 6, 86 wall resolve-in-root
#[test]
fn links_left_where_mounts_were_lead_the_next_start_nowhere() {
    let (root, canary) = with_canary();
    let (_, dir) = open_house(&root);
    let script = format!(
        "test -e /second && exec grep -q localhost /etc/hosts; touch /second
         mv /etc /etc-before; ln -s {canary} /etc; mv /data /data-before; ln -s {canary} /data; echo swapped",
        canary = canary.path("")
    );
    let host = json!({ "Binds": [format!("{dir}:/data/bound"), "kept:/data/volume"] });
    let id = root.create("swapping", body(&["sh", "-c", &script], json!({ "HostConfig": host })));
    root.start(&id);
    root.wait(&id);
    assert_eq!(root.logs(&id).out(), "swapped", "the mount points were replaced");
    for _ in 0..2 {
        root.start(&id);
        assert_eq!(root.wait(&id), 0, "{}", root.logs(&id).err());
        canary.untouched();
    }
}

// attack: 14, 15 wall resolve-in-root
#[test]
fn links_in_a_shared_volume_lead_no_mount_to_the_host() {
    let (root, canary) = with_canary();
    let (file, dir) = open_house(&root);
    let script = format!("ln -s {} /vol/absolute; ln -s {} /vol/climbing", canary.path(""), canary.climb(""));
    root.sh_with(&script, host(json!({ "Binds": ["shared:/vol"] }))).ok();
    for link in ["absolute", "climbing"] {
        let binds = json!(["shared:/vol", format!("{file}:/vol/{link}/new"), format!("{dir}:/vol/{link}/dir/x")]);
        let got = outcome(&root, &["true"], host(json!({ "Binds": binds })));
        canary.untouched();
        assert_eq!(got, Ok((0, String::new())), "{link}");
    }
}

// attack: 12, 13, 19, 23 wall fixed-targets
#[test]
fn an_image_whose_kernel_directories_are_links_is_refused() {
    let (root, canary) = with_canary();
    for (name, target) in [("proc", "fake"), ("sys", "fake"), ("dev", "fake"), ("proc", "far/away"), ("dev", "/fake")] {
        let image = format!("{name}{}", target.len());
        let layer = Tar::new().dir("fake").dir("fake/sys").dir("fake/fs").symlink(name, target);
        Image::new().layer(layer).load(&root, &image);
        let error = outcome(&root, &["true"], json!({ "Image": image })).expect_err("a refusal");
        assert!(error.contains(&format!("/{name}")) && error.contains("symbolic links"), "{name}: {error}");
    }
    for (number, name) in ["proc", "sys", "dev"].iter().enumerate() {
        let image = format!("led{number}");
        Image::new().layer(Tar::new().symlink(name, &canary.path("sub"))).load(&root, &image);
        outcome(&root, &["true"], json!({ "Image": image })).expect_err("a refusal");
        canary.untouched();
    }
}

// attack: 16, 20 wall null-device
#[test]
fn a_start_refuses_a_false_null_device() {
    let (root, canary) = with_canary();
    let dev = root.dir.join("dev");
    let start = || outcome(&root, &["true"], host(json!({ "Binds": [format!("{}:/dev", dev.display())] })));
    std::fs::create_dir_all(&dev).expect("make a directory");
    std::fs::write(dev.join("null"), "no device").expect("a false device");
    let error = start().expect_err("a refusal");
    assert!(error.starts_with("set up the standard streams"), "{error}");
    std::fs::remove_file(dev.join("null")).expect("remove");
    std::os::unix::fs::symlink(canary.path("passwd"), dev.join("null")).expect("a link");
    start().expect_err("a refusal");
    canary.untouched();
    std::fs::remove_file(dev.join("null")).expect("remove");
    nix::sys::stat::mknod(
        &dev.join("null"),
        nix::sys::stat::SFlag::S_IFCHR,
        nix::sys::stat::Mode::from_bits_truncate(0o666),
        nix::sys::stat::makedev(1, 3),
    )
    .expect("mknod");
    assert_eq!(start(), Ok((0, String::new())), "the real one");
}

// attack: 3 wall resolve-in-root
#[test]
fn a_start_refuses_a_descriptor_as_working_directory() {
    let root = Root::new();
    let mut layer = Tar::new();
    for number in 3..24 {
        layer = layer.symlink(&format!("w{number}"), &format!("/proc/self/fd/{number}"));
    }
    Image::new().layer(layer).load(&root, "descriptors");
    for number in (3..24).step_by(2) {
        for path in [format!("/proc/self/fd/{number}"), format!("/w{number}"), format!("/proc/1/fd/{number}")] {
            let got = outcome(&root, &["pwd"], json!({ "Image": "descriptors", "WorkingDir": path }));
            assert!(got.is_err(), "{path} was entered: {got:?}");
        }
    }
}

// attack: 10, 11, 18 wall procfs-targets
#[test]
fn nothing_takes_the_place_of_kernel_files() {
    let (root, canary) = with_canary();
    let fake = root.dir.join("fake");
    std::fs::create_dir_all(fake.join("kernel")).expect("make a directory");
    std::fs::write(fake.join("kernel/msgmax"), "untouched").expect("a false parameter");
    let bind = |target: &str| json!({ "Binds": [format!("{}:{target}", fake.display())], "Sysctls": { "kernel.msgmax": "4242" } });
    let got = outcome(&root, &["true"], host(bind("/proc/sys")));
    let written = std::fs::read_to_string(fake.join("kernel/msgmax")).expect("read");
    assert_eq!(written, "untouched", "a parameter was written elsewhere: {got:?}");
    got.expect_err("a refusal");
    for target in ["/proc", "/proc/self/attr", "/proc/sys/kernel", "/sys", "/dev/ptmx", "/dev/pts/x", "/", "/x/../proc"]
    {
        outcome(&root, &["true"], host(bind(target))).expect_err(target);
        Image::new().config(json!({ "Volumes": { target: {} } })).load(&root, "volumes");
        outcome(&root, &["true"], json!({ "Image": "volumes" })).expect_err(target);
    }
    canary.untouched();
}

// attack: 1, 2 wall sealed-monitor
#[test]
fn the_program_that_a_container_sees_as_its_own_cannot_be_changed() {
    use nix::fcntl::{FcntlArg, SealFlag, fcntl};
    let root = Root::new();
    let id = root.sleeper("sealed");
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", root.pid(&id))).expect("its process");
    let parent = stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)).expect("its parent");
    let program = std::fs::File::open(format!("/proc/{parent}/exe")).expect("the monitor's program");
    let name = std::fs::read_link(format!("/proc/{parent}/exe")).expect("its name");
    assert!(name.display().to_string().contains("memfd:"), "{name:?}");
    let seals = SealFlag::from_bits_truncate(fcntl(&program, FcntlArg::F_GET_SEALS).expect("its seals"));
    let wanted = SealFlag::F_SEAL_SEAL | SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_WRITE;
    assert!(seals.contains(wanted), "{seals:?}");
    // The container's way to it: a program that is `/proc/self/exe` while it is started.
    let layer = Tar::new().entry(b'0', "again", "", 0o755, b"#!/proc/self/exe\n").symlink("own", "/proc/self/exe");
    Image::new().layer(layer).load(&root, "again");
    for command in ["/again", "/own", "/proc/self/exe"] {
        let _ = outcome(&root, &[command], json!({ "Image": "again" }));
        let try_write = "for f in /proc/*/exe; do (echo x > $f) 2>/dev/null && echo $f; done; true";
        let got = root.exec(&id, &["sh", "-c", try_write]).out();
        assert_eq!(got, "", "a running program was opened for writing");
    }
    assert_eq!(root.exec(&id, &["echo", "alive"]).ok(), "alive");
}

// attack: 26, 29 wall cgroup-read-only
#[test]
fn control_groups_cannot_be_written() {
    let root = Root::new();
    let script = "cd /sys/fs/cgroup; find . -type d | grep -q . || echo none
        for f in $(find . -name cgroup.procs -o -name tasks -o -name release_agent -o -name notify_on_release); do
          (echo 0 > $f) 2>/dev/null && echo $f; done
        mkdir /tmp/own && mount -t cgroup -o memory none /tmp/own 2>/dev/null && echo mounted
        find . -name release_agent; true";
    assert_eq!(root.sh(script).ok(), "");
}

/// Values that the host has already are asked for, so that nothing changes where an attack succeeds.
// attack: 27, 28 wall sysctl-check
#[test]
fn kernel_parameters_of_the_host_are_not_set() {
    let root = Root::new();
    let value = |path: &str| std::fs::read_to_string(format!("/proc/sys/{path}")).expect(path).trim().to_owned();
    let try_one = |name: &str, value: &str, mode: Value| {
        let mut more = mode;
        more["Sysctls"] = json!({ name: value });
        outcome(&root, &["true"], host(more))
    };
    let panic = value("kernel/panic");
    for (name, value, mode) in [
        ("kernel.panic", panic.clone(), json!({})),
        ("kernel.msgmax", value("kernel/msgmax"), json!({ "IpcMode": "host" })),
        ("net.ipv4.ip_forward", value("net/ipv4/ip_forward"), json!({ "NetworkMode": "host" })),
        ("net/../kernel/panic", panic.clone(), json!({})),
        ("net.ipv4.ip_forward", "1\n".into(), json!({})),
        ("net.ipv4.ping_group_range", "0 0+".into(), json!({})),
        ("kernel.shm_rmid_forced", format!("0 kernel.panic={panic}"), json!({})),
        ("kernel.shm_rmid_forced=0 kernel.panic", panic.clone(), json!({})),
    ] {
        let got = try_one(name, &value, mode);
        assert!(got.is_err(), "{name}={value:?} went through: {got:?}");
    }
    assert_eq!(try_one("kernel.msgmax", "4242", json!({})), Ok((0, String::new())));
    assert_eq!(value("kernel/panic"), panic);
}

/// A `/dev` of somebody else's with terminals of its own.
// attack: 17 wall fixed-targets
#[test]
fn a_terminal_is_put_where_no_link_leads() {
    let (root, canary) = with_canary();
    let dev = root.dir.join("dev");
    std::fs::create_dir_all(dev.join("pts")).expect("make a directory");
    let null = nix::sys::stat::makedev(1, 3);
    let mode = nix::sys::stat::Mode::from_bits_truncate(0o666);
    nix::sys::stat::mknod(&dev.join("null"), nix::sys::stat::SFlag::S_IFCHR, mode, null).expect("mknod");
    let binds = |pts: &str| json!({ "Binds": [format!("{}:/dev", dev.display()), format!("{pts}:/dev/pts")] });
    let start = |pts: &str| outcome(&root, &["true"], json!({ "Tty": true, "HostConfig": binds(pts) }));
    assert_eq!(start("/dev/pts"), Ok((0, String::new())), "without a console");
    for target in [canary.path("passwd"), canary.path("made"), canary.climb("empty")] {
        std::os::unix::fs::symlink(&target, dev.join("console")).expect("a link");
        let error = start("/dev/pts").expect_err("a refusal");
        assert!(error.contains("standard streams"), "{target}: {error}");
        canary.untouched();
        std::fs::remove_file(dev.join("console")).expect("remove");
    }
    // Another file system than devpts gives no terminal, whatever its `ptmx` is.
    let false_pts = root.dir.join("pts");
    std::fs::create_dir_all(&false_pts).expect("make a directory");
    std::os::unix::fs::symlink(canary.path("passwd"), false_pts.join("ptmx")).expect("a link");
    start(&false_pts.display().to_string()).expect_err("a refusal");
    canary.untouched();
}

// attack: 21 wall read-only-detached
#[test]
fn a_mount_is_read_only_wherever_a_link_leads_it() {
    let root = Root::new();
    Image::new().layer(Tar::new().dir("real").symlink("link", "/real")).load(&root, "links");
    let (file, dir) = open_house(&root);
    let binds = json!({ "Binds": [format!("{dir}:/link/dir:ro"), format!("{file}:/link/file:ro")] });
    let script = "ls /real/dir; touch /real/dir/x 2>/dev/null && echo wrote; (echo x > /real/file) 2>/dev/null && echo wrote; true";
    let got = outcome(&root, &["sh", "-c", script], json!({ "Image": "links", "HostConfig": binds }));
    assert_eq!(got, Ok((0, "file".into())));
    assert_eq!(std::fs::read_to_string(&file).expect("read"), "open");
}

/// The kernel lets who is controlled by a terminal type into it.
// attack: 25 wall own-terminal
// attack: 20 wall null-device
#[test]
fn a_caller_s_terminal_gets_no_byte_of_a_container() {
    use nix::fcntl::{FcntlArg, OFlag, fcntl};
    use std::io::Read;
    let root = Root::new();
    let terminal = nix::pty::openpty(None, None).expect("a terminal");
    let path = root.dir.join("said");
    let said = std::fs::File::create(&path).expect("a file");
    let streams = || coracle::Io {
        stdin: Some(terminal.slave.try_clone().expect("a descriptor")),
        stdout: Some(said.try_clone().expect("a descriptor").into()),
        direct: true,
        ..coracle::Io::default()
    };
    let host =
        json!({ "LogConfig": { "Type": "none" }, "Binds": [format!("{}:/tiocsti:ro", program("tiocsti").display())] });
    let more = json!({ "OpenStdin": true, "StdinOnce": true, "HostConfig": host });
    let id = root.create("typing", body(&["/tiocsti"], more));
    let started = root.engine.container_start(&id, Some(streams()), Some(&soon())).expect("start");
    assert_eq!(root.wait(&id), 0);
    drop(started);
    let text = std::fs::read_to_string(&path).expect("what it said");
    assert_eq!(text, "terminal 1 push Operation not permitted own no\n");
    // Nothing was typed.
    fcntl(&terminal.slave, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).expect("a flag");
    let mut slave = std::fs::File::from(terminal.slave);
    let nothing = slave.read(&mut [0; 8]).expect_err("nothing to read");
    assert_eq!(nothing.kind(), std::io::ErrorKind::WouldBlock);
}

/// A directory that somebody moves out of a bind's source, while a process is in it.
// attack: 40 wall resolve-in-root
#[test]
fn a_directory_moved_from_under_a_bind_leads_nowhere() {
    let (root, canary) = with_canary();
    let inner = root.dir.join("house/inner");
    std::fs::create_dir_all(inner.join("deep")).expect("make a directory");
    std::os::unix::fs::symlink(canary.climb(""), inner.join("climb")).expect("a link");
    let script = "cd /b/deep; echo ready; while [ ! -e /b/go ]; do sleep 0.02; done
        for up in .. ../.. ../../.. ../../../..; do cat $up/canary/passwd; ls $up/canary; done 2>/dev/null; echo done; sleep 1000";
    let id = root
        .create("moved", body(&["sh", "-c", script], host(json!({ "Binds": [format!("{}:/b", inner.display())] }))));
    root.start(&id);
    wait_for("the process", || root.logs(&id).out() == "ready");
    std::fs::rename(inner.join("deep"), root.dir.join("deep")).expect("move it");
    std::fs::write(inner.join("go"), "").expect("write");
    wait_for("its look", || root.logs(&id).out().ends_with("done"));
    assert_eq!(root.logs(&id).out(), "ready\ndone");
    canary.untouched();
    // Nor does the engine find its way from there.
    for path in ["/b/climb/passwd", "/b/climb/sub/", "/proc/1/cwd/../canary/passwd"] {
        let archive = root.engine.container_archive_get(&id, path, Some(&soon()));
        let found = archive.map(|archive| {
            let mut bytes = Vec::new();
            let _ = archive.write_to(&mut bytes, Some(&soon()));
        });
        assert!(found.is_err(), "{path} was found");
        canary.untouched();
    }
    let config =
        json!({ "Cmd": ["cat", "passwd"], "WorkingDir": "/b/climb", "AttachStdout": true, "AttachStderr": true });
    let exec = root.engine.exec_create(&id, &serde_json::from_value(config).expect("a body")).expect("exec create");
    if let Ok(Some(session)) = root.engine.exec_start(&exec, Some(coracle::Io::default()), Some(&soon())) {
        assert!(!finish(session, b"").out().contains(crate::canary::SECRET));
    }
    canary.untouched();
}

/// Shared memory of several containers is as large as its owner's, and goes with the last of them.
// attack: 137 wall shm-size
#[test]
fn shared_memory_has_a_size_whoever_fills_it() {
    let root = Root::new();
    let owner = root.sleeper_with("owner", host(json!({ "IpcMode": "shareable", "ShmSize": 4 << 20 })));
    root.exec(&owner, &["sh", "-c", "echo there > /dev/shm/there"]).ok();
    let filler = root.sleeper_with("filler", host(json!({ "IpcMode": "container:owner" })));
    assert_eq!(root.exec(&filler, &["cat", "/dev/shm/there"]).ok(), "there", "the memory is shared");
    let fill = "dd if=/dev/zero of=/dev/shm/fill bs=1M count=80 2>/dev/null; echo $?; du -sk /dev/shm | cut -f1";
    let filled = root.exec(&filler, &["sh", "-c", fill]).ok();
    let lines: Vec<u64> = filled.lines().map(|line| line.parse().expect("a number")).collect();
    assert!(lines[0] == 1 && lines[1] <= 4096, "{filled}");
    for id in [&owner, &filler] {
        root.engine.container_kill(id, Some("KILL"), Some(&soon())).expect("kill");
        root.wait(id);
    }
    root.start(&owner);
    assert_eq!(root.exec(&owner, &["ls", "/dev/shm"]).ok(), "", "nothing stays");
}
