//! Every field of the create body that is honoured, looked at from inside the container or at the kernel.

use crate::support::*;
use coracle::ErrorKind;
use coracle::model::*;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use serde_json::{Value, json};

/// The lines of `/proc/self/mountinfo` in a container: (mount point, options, type, super options).
fn mounts(text: &str) -> Vec<(String, String, String, String)> {
    text.lines()
        .map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            let dash = words.iter().position(|w| *w == "-").expect("a separator");
            (words[4].to_owned(), words[5].to_owned(), words[dash + 1].to_owned(), words[dash + 3].to_owned())
        })
        .collect()
}

fn mount_at(text: &str, point: &str) -> (String, String, String) {
    let found = mounts(text).into_iter().rev().find(|m| m.0 == point);
    let (_, options, kind, more) = found.unwrap_or_else(|| panic!("nothing mounted at {point}:\n{text}"));
    (options, kind, more)
}

// field: Config.Hostname
// field: Config.Domainname
#[test]
fn hostname_and_domainname() {
    let root = Root::new();
    let script =
        "hostname; cat /etc/hostname; cat /proc/sys/kernel/domainname; echo $HOSTNAME; grep -c boat /etc/hosts";
    // The names have their greatest lengths.
    let (name, domain) = (format!("boat{}", "b".repeat(59)), format!("{}.example", "s".repeat(56)));
    let output = root.sh_with(script, json!({ "Hostname": name, "Domainname": domain })).out();
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(lines, [&name, &name, &domain, &name, "0"], "without a network it is not in /etc/hosts");
    for (field, value) in [("Hostname", format!("{name}b")), ("Domainname", format!("{domain}s"))] {
        let refused = root.try_create("", body(&["true"], json!({ field: value })));
        fails(refused, ErrorKind::Invalid, "name format");
    }
    let id = root.sleeper("default-name");
    assert_eq!(root.exec(&id, &["hostname"]).ok(), id[..12]);
}

// field: Config.User
#[test]
fn user_by_name_number_and_group() {
    let root = Root::new();
    for (user, ids) in [
        ("", "uid=0(root) gid=0(root)"),
        ("games", "uid=5(games) gid=60(games) groups=60(games),29(audio),100(users)"),
        ("5", "uid=5(games) gid=60(games) groups=60(games),29(audio),100(users)"),
        ("games:audio", "uid=5(games) gid=29(audio)"),
        ("1234", "uid=1234 gid=0(root)"),
        ("1234:5678", "uid=1234 gid=5678"),
        (":33", "uid=0(root) gid=33(www-data)"),
    ] {
        let output = root.sh_with("id", json!({ "User": user })).ok();
        let sorted = |text: &str| {
            let mut words: Vec<String> = text.split([' ', ',']).map(|w| w.replace("groups=", "")).collect();
            words.sort();
            words.dedup();
            words
        };
        let (got, want) = (sorted(&output), sorted(ids));
        assert!(want.iter().all(|w| got.contains(w)), "User {user:?}: {output}, wanted {ids}");
        if !ids.contains("groups") {
            assert!(got.len() <= want.len() + 1, "User {user:?}: {output}, wanted {ids}");
        }
    }
    assert_eq!(root.sh_with("echo $HOME", json!({ "User": "games" })).ok(), "/usr/games");
    assert_eq!(root.sh_with("echo $HOME", json!({ "User": "1234" })).ok(), "/");
}

// field: HostConfig.GroupAdd
#[test]
fn group_add() {
    let root = Root::new();
    let output = root.sh_with("id -G", host(json!({ "GroupAdd": ["audio", "4321"] }))).ok();
    let groups: Vec<&str> = output.split(' ').collect();
    assert!(groups.contains(&"29") && groups.contains(&"4321"), "{output}");
    let unknown = root.create("", body(&["true"], host(json!({ "GroupAdd": ["no-such-group"] }))));
    let refused = root.engine.container_start(&unknown, None, Some(&soon())).map(drop);
    assert!(refused.expect_err("nobody has it").message().contains("no-such-group"));
}

#[test]
fn a_user_may_be_in_as_many_groups_as_the_kernel_takes() {
    let root = Root::new();
    let count = |more: &str| {
        let script = format!("seq 65500 | sed 's/.*/g&:x:1000&:games/' >> /etc/group; {more}");
        let id = root.create("", body(&["sh", "-c", &script], json!({})));
        root.start(&id);
        root.wait(&id);
        let how = CommitContainer { repo: "crowded".into(), ..CommitContainer::default() };
        root.engine.container_commit(&id, &how, Some(&soon())).expect("commit");
        let more = json!({ "Image": "crowded", "User": "games", "Cmd": ["sh", "-c", "grep ^Groups /proc/self/status | wc -w"] });
        let id = root.create("", body(&["sh"], more));
        root.engine.container_start(&id, None, Some(&soon())).map(|_| {
            root.wait(&id);
            root.logs(&id).out().trim().parse::<usize>().expect("a number")
        })
    };
    // A group that is named twice counts once.
    assert!(count("tail -n 40 /etc/group >> /etc/group").expect("start") >= 65_500);
    let error = count("seq 100 | sed 's/.*/h&:x:2000&:games/' >> /etc/group").expect_err("too many");
    assert!(error.message().contains("argument list too long"), "{error}");
}

// field: Config.Env
#[test]
fn environment_is_the_image_s_and_the_client_s() {
    let root = Root::new();
    let output = root.sh_with("env", json!({ "Env": ["A=1", "B=x y=z", "EMPTY="], "Hostname": "h" })).ok();
    let mut lines: Vec<&str> = output.lines().filter(|l| !l.starts_with("SHLVL=") && !l.starts_with("PWD=")).collect();
    lines.sort();
    let path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    assert_eq!(lines, ["A=1", "B=x y=z", "EMPTY=", "HOME=/root", "HOSTNAME=h", path]);
    assert_eq!(root.sh_with("echo $PATH", json!({ "Env": ["PATH=/bin:/other"] })).ok(), "/bin:/other");
    // A name alone takes the image's variable away.
    assert_eq!(
        root.run(&["/bin/env"], json!({ "Env": ["PATH"] }), b"")
            .ok()
            .lines()
            .filter(|l| l.starts_with("PATH="))
            .count(),
        0
    );
    let output = root.run(&["sh", "-c", "echo $TERM"], json!({ "Tty": true }), b"");
    assert_eq!(output.out().trim_end(), "xterm");
}

// field: Config.Cmd
// field: Config.Entrypoint
// field: Config.Image
#[test]
fn entrypoint_and_cmd_merge() {
    let root = Root::new();
    let more = json!({ "Entrypoint": ["echo", "entry"] });
    assert_eq!(root.run(&["cmd", "two words"], more, b"").ok(), "entry cmd two words");
    let id = root.create("defaults", json!({ "Image": IMAGE, "HostConfig": { "NetworkMode": "none" } }));
    assert_eq!(root.inspect(&id).path, "sh", "the image's Cmd");
    // An entrypoint drops the image's command.
    let only = json!({ "Image": IMAGE, "Entrypoint": "env", "HostConfig": { "NetworkMode": "none" } });
    let id = root.create("entry-only", only);
    root.start(&id);
    root.wait(&id);
    assert!(root.logs(&id).out().contains("HOME=/root") && root.inspect(&id).args.is_empty());
    // A string is one word, not a command line.
    let one = json!({ "Image": IMAGE, "Cmd": "sleep 1", "HostConfig": { "NetworkMode": "none" } });
    let id = root.create("one-word", one);
    assert_eq!(root.inspect(&id).path, "sleep 1");
    let refused = root.engine.container_start(&id, None, Some(&soon())).map(drop);
    fails(refused, ErrorKind::Invalid, r#"exec: "sleep 1": executable file not found in $PATH"#);
}

// field: Config.WorkingDir
#[test]
fn working_directory_is_made() {
    let root = Root::new();
    assert_eq!(root.sh("pwd").ok(), "/");
    assert_eq!(root.sh_with("pwd", json!({ "WorkingDir": "/tmp" })).ok(), "/tmp");
    let output = root.sh_with("pwd; stat -c '%a %u' .", json!({ "WorkingDir": "/made/for/me" })).ok();
    assert_eq!(output, "/made/for/me\n755 0");
}

// field: Config.NetworkDisabled
// field: HostConfig.NetworkMode
#[test]
fn no_network_has_only_loopback() {
    let root = Root::new();
    assert_eq!(root.sh("ls /sys/class/net; ping -c 1 -W 1 127.0.0.1 > /dev/null && echo up").ok(), "lo\nup");
    let more = json!({ "NetworkDisabled": true, "HostConfig": { "NetworkMode": "" } });
    assert_eq!(root.sh_with("ls /sys/class/net", more).ok(), "lo");
}

// field: HostConfig.NetworkMode
#[test]
fn host_network_is_the_host_s() {
    let root = Root::new();
    let inside = root.sh_with("readlink /proc/self/ns/net; hostname", host(json!({ "NetworkMode": "host" }))).ok();
    let namespace = std::fs::read_link("/proc/self/ns/net").expect("our namespace");
    let hostname = nix::unistd::gethostname().expect("our name");
    assert_eq!(inside, format!("{}\n{}", namespace.display(), hostname.to_string_lossy()));
}

// field: HostConfig.Binds
#[test]
fn binds_with_modes() {
    let root = Root::new();
    let dir = root.dir.join("bound");
    std::fs::create_dir(&dir).expect("mkdir");
    std::fs::write(dir.join("file"), "from the host").expect("write");
    let at = dir.display();
    let more =
        host(json!({ "Binds": [format!("{at}:/rw"), format!("{at}:/ro:ro"), format!("{at}/file:/etc/one:ro")] }));
    let script = "cat /rw/file; echo; echo back > /rw/back; cat /ro/back /etc/one; echo; echo x > /ro/x; echo $?";
    let output = root.sh_with(script, more.clone());
    assert_eq!(output.out(), "from the host\nback\nfrom the host\n1", "{}", output.err());
    assert!(output.err().contains("Read-only file system"), "{}", output.err());
    assert_eq!(std::fs::read_to_string(dir.join("back")).expect("written by the container"), "back\n");
    let id = root.create("mounted", body(&["true"], more));
    let mounts = root.inspect(&id).mounts;
    let modes: Vec<(&str, bool)> = mounts.iter().map(|m| (m.destination.as_str(), m.rw)).collect();
    assert_eq!(modes, [("/etc/one", false), ("/ro", false), ("/rw", true)]);
    // A source that is missing is made.
    let missing = root.dir.join("not/there");
    let more = host(json!({ "Binds": [format!("{}:/new", missing.display())] }));
    assert_eq!(root.sh_with("touch /new/x", more).ok(), "");
    assert!(missing.join("x").exists());
}

/// With a bind of the host's `/dev` the engine makes no file in it, and no mount that the host sees.
// field: HostConfig.Binds
#[test]
fn the_dev_of_the_host() {
    /// All files there except those that other programs make and remove: name, kind and mode, owner, device, target of
    /// a link.
    fn of_the_host() -> Vec<String> {
        let find = "find /dev -xdev -path /dev/shm -prune -o -path /dev/pts -prune -o \
                    -name 'loop*' -o -exec stat -c '%N %F %a %u %g %t:%T' {} +; \
                    awk '$5 ~ \"^/dev\"' /proc/self/mountinfo";
        let output = std::process::Command::new("sh").args(["-c", find]).output().expect("run find");
        let mut lines: Vec<String> = String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
        lines.sort();
        assert!(lines.len() > 10, "{lines:?}");
        lines
    }
    let root = Root::new();
    let before = of_the_host();
    let bound = |mode: &str, more: Value| {
        let mut config = json!({ "Binds": [format!("/dev:/dev{mode}")] });
        config.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        host(config)
    };
    let nodes = |text: &str| {
        let others = |name: &&str| !name.starts_with("loop");
        let mut names: Vec<String> = text.split_whitespace().filter(others).map(str::to_owned).collect();
        names.sort();
        names
    };
    let names: Vec<String> = std::fs::read_dir("/dev")
        .expect("list /dev")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    for more in [json!({}), json!({ "Privileged": true }), json!({ "Init": true, "ReadonlyRootfs": true })] {
        let seen = root.sh_with("ls -A /dev; cat; echo x >/dev/null", bound("", more)).ok();
        assert_eq!(nodes(&seen), nodes(&names.join(" ")));
    }
    // A terminal is one of the host's, and its console that of the container alone.
    for (mode, console) in [("", "console"), (":ro", "console"), (":rslave", "console"), (":rshared", "none")] {
        let script = "tty; stat -c %t:%T $(tty); grep -c ' /dev/console ' /proc/self/mountinfo; echo ready; read line";
        let mut more = bound(mode, json!({}));
        (more["Tty"], more["OpenStdin"]) = (json!(true), json!(true));
        let id = root.create("", body(&["sh", "-c", script], more));
        root.start(&id);
        root.wait_for("its output", || root.logs(&id).out().contains("ready"));
        assert_eq!(of_the_host(), before, "while it runs, {mode}");
        let lines: Vec<String> = root.logs(&id).out().lines().map(|line| line.trim().to_owned()).collect();
        assert!(lines[0].starts_with("/dev/pts/") && std::path::Path::new(&lines[0]).exists(), "{lines:?}");
        assert_eq!(lines[2] == "1", console == "console", "{mode}: {lines:?}");
        let config = json!({ "Cmd": ["tty"], "Tty": true, "AttachStdout": true });
        assert!(root.exec_with(&id, config, b"").out().starts_with("/dev/pts/"));
        let force = RemoveContainer { force: true, ..RemoveContainer::default() };
        root.engine.container_remove(&id, force, Some(&soon())).expect("remove");
    }
    assert_eq!(of_the_host(), before);
    // Another directory of devices is taken as it is, too.
    let dir = root.dir.join("dev");
    std::fs::create_dir(&dir).expect("mkdir");
    let null = nix::sys::stat::makedev(1, 3);
    let mode = nix::sys::stat::Mode::from_bits_truncate(0o666);
    nix::sys::stat::mknod(&dir.join("null"), nix::sys::stat::SFlag::S_IFCHR, mode, null).expect("mknod");
    let seen = root.sh_with("ls /dev", host(json!({ "Binds": [format!("{}:/dev", dir.display())] }))).ok();
    assert_eq!(seen, "null");
    assert_eq!(std::fs::read_dir(&dir).expect("list").count(), 1);
}

/// Parts of the host's `/dev`, each in the place of the container's own.
// field: HostConfig.Binds
#[test]
fn parts_of_the_dev_of_the_host() {
    let root = Root::new();
    let consoles = || {
        let table = std::fs::read_to_string("/proc/self/mountinfo").expect("mountinfo");
        table.lines().filter(|line| line.contains(" /dev/")).map(str::to_owned).collect::<Vec<_>>()
    };
    let before = consoles();
    let binds = json!(["/dev/pts:/dev/pts", "/dev/console:/dev/console", "/dev/null:/dev/null"]);
    let script = "tty; awk '$5 ~ \"^/dev/(pts|console|null)$\" { print $5, $4 }' /proc/self/mountinfo; \
                  stat -c %t:%T /dev/console $(tty); echo x >/dev/null; test -c /dev/zero && test -d /dev/shm && echo there; echo ready; read line";
    let look = |binds: &Value, tty: bool| {
        let more = json!({ "Tty": tty, "OpenStdin": true, "HostConfig": { "Binds": binds } });
        let id = root.create("", body(&["sh", "-c", script], more));
        root.start(&id);
        root.wait_for("its output", || root.logs(&id).out().contains("ready"));
        assert_eq!(consoles(), before, "nothing of it shows on the host");
        let lines: Vec<String> = root.logs(&id).out().lines().map(|line| line.trim().to_owned()).collect();
        (id, lines)
    };
    // The host's terminals, one of which is the container's, on its console.
    let (id, lines) = look(&binds, true);
    let terminal = lines[0].clone();
    assert!(terminal.starts_with("/dev/pts/") && std::path::Path::new(&terminal).exists(), "{lines:?}");
    let number = terminal.trim_start_matches("/dev/pts");
    let mut mounts = lines[1..5].to_vec();
    mounts.sort();
    let console = format!("/dev/console {number}");
    assert_eq!(mounts, [console.as_str(), "/dev/console /console", "/dev/null /null", "/dev/pts /"]);
    assert_eq!(lines[5], lines[6], "the console is the terminal");
    assert_eq!(lines[7], "there", "the rest of /dev is its own");
    // So are those of an exec.
    let exec = root.exec_with(&id, json!({ "Cmd": ["tty"], "Tty": true, "AttachStdout": true }), b"").out();
    assert!(exec.starts_with("/dev/pts/") && exec.trim() != terminal, "{exec}");
    let (_, lines) = look(&binds, false);
    assert_eq!((lines[0].as_str(), lines[4].as_str()), ("not a tty", "5:1"), "the host's console: {lines:?}");
    // Each alone.
    let (_, lines) = look(&json!(["/dev/console:/dev/console"]), true);
    assert_eq!(lines[0], "/dev/pts/0");
    for (bind, why) in [
        ("/dev/ptmx:/dev/ptmx", "it is the container's own device"),
        ("/dev/zero:/dev/null", "only the host's own may take its place"),
        ("/tmp:/dev/pts/0", "it is the container's own device"),
        ("named:/dev/pts", "it is the container's own device"),
    ] {
        let refused = root.try_create("", body(&["true"], host(json!({ "Binds": [bind] }))));
        fails(refused, ErrorKind::Invalid, why);
    }
    // A directory without terminals has none to give.
    let none = json!({ "Tty": true, "HostConfig": { "Binds": [format!("{}:/dev/pts", root.dir.display())] } });
    let id = root.create("", body(&["true"], none));
    let refused = root.engine.container_start(&id, None, Some(&soon())).map(drop);
    fails(refused, ErrorKind::Internal, "set up the standard streams: no such device");
}

// field: HostConfig.Binds
// field: HostConfig.Mounts.BindOptions.Propagation
#[test]
fn bind_propagation() {
    let root = Root::new();
    let dir = root.dir.join("spread");
    std::fs::create_dir(&dir).expect("mkdir");
    let at = dir.display();
    // A mount of the host arrives only where the client asked for it.
    let mut modes = vec![("", ""), (":private", ""), (":rprivate", ""), (":ro,rprivate", "")];
    let shared = std::fs::read_to_string("/proc/self/mountinfo").expect("mountinfo");
    if shared.lines().any(|l| l.contains(" / / ") && l.contains(" shared:")) {
        modes.extend([(":slave", "master"), (":rslave", "master"), (":shared", "shared"), (":ro,rshared", "shared")]);
    }
    let short: Vec<String> = modes.iter().enumerate().map(|(n, (mode, _))| format!("{at}:/short{n}{mode}")).collect();
    let long: Vec<Value> = modes
        .iter()
        .enumerate()
        .map(|(n, (mode, _))| {
            let word = mode.trim_start_matches(":ro,").trim_start_matches(':');
            json!({ "Type": "bind", "Source": dir, "Target": format!("/long{n}"), "ReadOnly": mode.contains("ro,"),
                "BindOptions": { "Propagation": word } })
        })
        .collect();
    let table = root.sh_with("cat /proc/self/mountinfo", host(json!({ "Binds": short, "Mounts": long }))).ok();
    for (number, (mode, bond)) in modes.iter().enumerate() {
        for form in ["short", "long"] {
            let line = table.lines().find(|line| line.contains(&format!(" /{form}{number} "))).expect("a mount");
            let head = line.split(" - ").next().unwrap_or_default();
            let bonds: Vec<&str> = head.split(' ').skip(6).filter_map(|word| word.split(':').next()).collect();
            assert_eq!(bonds.join(","), *bond, "{form} {mode}: {line}");
            assert_eq!(head.split(' ').nth(5).expect("options").starts_with("ro"), mode.contains("ro,"), "{line}");
        }
    }
    let bad = body(&["true"], host(json!({ "Binds": [format!("{at}:/b:sideways")] })));
    // The status (500) is dockerd's, for all that is wrong with a bind.
    fails(root.try_create("", bad), ErrorKind::Internal, "invalid mode: sideways");
}

/// The mounts are shared, as init systems set them up.
#[test]
fn bind_propagation_on_a_host_whose_mounts_are_shared() {
    in_a_mount_namespace("shared", "config::bind_propagation", &[]);
}

// field: HostConfig.Binds
#[test]
fn binds_hear_of_mounts_of_the_host_where_that_is_asked_for_and_nothing_else_does() {
    // A host whose mounts are shared, as systemd makes them; of this thread alone.
    let on_a_host_of_its_own = || {
        unshare(CloneFlags::CLONE_NEWNS).expect("a mount namespace");
        for kind in [MsFlags::MS_PRIVATE, MsFlags::MS_SHARED] {
            mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | kind, None::<&str>).expect("change the mounts");
        }
        let root = Root::new();
        let dir = root.dir.join("spread");
        std::fs::create_dir_all(dir.join("ours")).expect("mkdir");
        std::fs::create_dir(dir.join("theirs")).expect("mkdir");
        let mounts = || std::fs::read_to_string("/proc/thread-self/mountinfo").expect("mountinfo");
        let before = mounts();
        // Only lines that are new: the kernel takes a mount away here when another test deletes its mount point.
        let new_mounts = || -> Vec<String> {
            mounts().lines().filter(|line| !before.lines().any(|old| old == *line)).map(String::from).collect()
        };
        for (mode, hears, is_heard) in
            [("", 0, 0), (":rprivate", 0, 0), (":rslave", 1, 0), (":slave", 1, 0), (":rshared", 1, 1)]
        {
            let bind = format!("{}:/b{mode}", dir.display());
            let more = host(json!({ "Binds": [bind], "Privileged": true }));
            let id = root.sleeper_with("", more);
            assert_eq!(new_mounts(), [""; 0], "{mode}: a start shows on the host");
            mount(Some("none"), &dir.join("ours"), Some("tmpfs"), MsFlags::empty(), None::<&str>).expect("mount");
            assert_eq!(root.exec(&id, &["grep", "-c", " /b/ours ", "/proc/mounts"]).out(), hears.to_string(), "{mode}");
            umount2(&dir.join("ours"), MntFlags::MNT_DETACH).expect("unmount");
            root.exec(&id, &["mount", "-t", "tmpfs", "none", "/b/theirs"]).ok();
            root.exec(&id, &["sh", "-c", "mkdir -p /m; mount -t tmpfs none /m"]).ok();
            let heard = new_mounts();
            assert_eq!(heard.len(), is_heard, "{mode}: {heard:?}");
            let remove = RemoveContainer { force: true, ..RemoveContainer::default() };
            root.engine.container_remove(&id, remove, Some(&soon())).expect("remove");
            let _ = umount2(&dir.join("theirs"), MntFlags::MNT_DETACH);
        }
    };
    std::thread::scope(|scope| scope.spawn(on_a_host_of_its_own).join().expect("the test's thread"));
}

// field: HostConfig.Tmpfs
#[test]
fn tmpfs_with_options() {
    let root = Root::new();
    let words = "ro,exec,dev,suid,noatime,uid=5,nr_inodes=77";
    let more = host(json!({ "Tmpfs": { "/scratch": "size=1m,mode=1770", "/plain": "", "/other": words } }));
    let output = root.sh_with("cat /proc/self/mountinfo; stat -c '%a' /scratch", more).ok();
    let (text, mode) = output.rsplit_once('\n').expect("two parts");
    assert_eq!(mode, "1770");
    let (options, _, more) = mount_at(text, "/other");
    assert_eq!(options, "ro,noatime");
    assert!(more.contains("uid=5") && more.contains("nr_inodes=77"), "{more}");
    let (options, kind, more) = mount_at(text, "/scratch");
    assert_eq!(kind, "tmpfs");
    assert!(more.contains("size=1024k"), "{more}");
    for option in ["nosuid", "nodev", "noexec"] {
        assert!(options.contains(option), "{options}");
    }
    mount_at(text, "/plain");
}

// field: HostConfig.ReadonlyRootfs
#[test]
fn read_only_root() {
    let root = Root::new();
    let script = "touch /x 2>&1; touch /etc/hosts 2>&1; touch /dev/shm/x && echo shm; touch /t/x && echo tmpfs";
    let output = root.sh_with(script, host(json!({ "ReadonlyRootfs": true, "Tmpfs": { "/t": "" } }))).out();
    assert_eq!(output.matches("Read-only file system").count(), 2, "{output}");
    assert!(output.ends_with("shm\ntmpfs"), "{output}");
}

// field: HostConfig.Privileged
#[test]
fn privileged_has_the_host_s_rights() {
    let root = Root::new();
    let output = root
        .sh_with("cat /proc/self/status; echo ==; cat /proc/self/mountinfo", host(json!({ "Privileged": true })))
        .ok();
    let (status, mountinfo) = output.split_once("==\n").expect("two parts");
    let ours = std::fs::read_to_string("/proc/self/status").expect("our status");
    // All capabilities of this machine: no more than the bounding set of the engine's host.
    assert_eq!(proc_status(status, "CapBnd"), proc_status(&ours, "CapBnd"));
    assert_eq!(proc_status(status, "CapEff"), proc_status(&ours, "CapBnd"));
    // No filter but those of this machine, which `tests/floor` has.
    assert_eq!(proc_status(status, "Seccomp"), proc_status(&ours, "Seccomp"));
    assert!(mount_at(mountinfo, "/sys").0.starts_with("rw"), "{mountinfo}");
    assert!(mounts(mountinfo).iter().all(|m| !m.0.starts_with("/proc/")), "masked: {mountinfo}");
    assert_eq!(
        root.sh_with(
            "test -e /dev/loop-control || test -e /dev/kmsg && echo host",
            host(json!({ "Privileged": true }))
        )
        .ok(),
        "host"
    );
}

// field: HostConfig.CapAdd
// field: HostConfig.CapDrop
#[test]
fn capabilities_added_and_dropped() {
    let root = Root::new();
    let effective = |config: Value, user: &str| {
        let mut more = host(config);
        more["User"] = json!(user);
        let status = root.sh_with("cat /proc/self/status", more).ok();
        let bits = |field| u64::from_str_radix(&proc_status(&status, field), 16).expect("a mask");
        assert_eq!(bits("CapInh"), 0);
        (bits("CapEff"), bits("CapBnd"))
    };
    const DEFAULT: u64 = 0xa804_25fb;
    const CHOWN: u64 = 1;
    const NET_ADMIN: u64 = 1 << 12;
    const KILL: u64 = 1 << 5;
    assert_eq!(effective(json!({}), ""), (DEFAULT, DEFAULT));
    assert_eq!(effective(json!({ "CapAdd": ["NET_ADMIN"] }), "").0, DEFAULT | NET_ADMIN);
    assert_eq!(effective(json!({ "CapAdd": ["cap_net_admin"] }), "").0, DEFAULT | NET_ADMIN);
    assert_eq!(effective(json!({ "CapDrop": ["CHOWN"] }), "").0, DEFAULT & !CHOWN);
    assert_eq!(effective(json!({ "CapDrop": ["ALL"] }), "").0, 0);
    let own = std::fs::read_to_string("/proc/self/status").expect("our status");
    let all = u64::from_str_radix(&proc_status(&own, "CapBnd"), 16).expect("a mask");
    assert_eq!(effective(json!({ "CapAdd": ["ALL"] }), ""), (all, all), "all that the host has");
    assert_eq!(effective(json!({ "CapAdd": ["all"], "CapDrop": ["CAP_KILL"] }), ""), (all & !KILL, all & !KILL));
    assert_eq!(effective(json!({ "CapDrop": ["ALL"], "CapAdd": ["KILL"] }), ""), (KILL, KILL));
    assert_eq!(effective(json!({}), "games"), (0, DEFAULT), "a user without root's id");
    let bad = body(&["true"], host(json!({ "CapAdd": ["FLY"] })));
    fails(root.try_create("", bad), ErrorKind::Invalid, r#"invalid CapAdd: unknown capability: "CAP_FLY""#);
}

// field: HostConfig.Devices
// field: HostConfig.Devices.PathOnHost
// field: HostConfig.Devices.PathInContainer
// field: HostConfig.Devices.CgroupPermissions
// attack: 32 wall device-rules
#[test]
fn devices_and_their_rights() {
    let root = Root::new();
    let device = |rights: &str| {
        host(
            json!({ "Devices": [{ "PathOnHost": "/dev/zero", "PathInContainer": "/dev/mine", "CgroupPermissions": rights }] }),
        )
    };
    let output = root.sh_with("test -c /dev/mine && head -c 3 /dev/mine | wc -c; ls -l /dev/mine", device("rwm")).ok();
    assert!(output.starts_with('3') && output.contains("1,   5"), "{output}");
    // Which of reading and writing is allowed, of a device that no container has by itself. A node may be made of any.
    let tries =
        "head -c 0 /dev/mine 2>/dev/null && echo r; (: >>/dev/mine) 2>/dev/null && echo w; mknod /tmp/mine c 10 237";
    let of = |rights: &str| {
        let mapping =
            json!({ "PathOnHost": "/dev/loop-control", "PathInContainer": "/dev/mine", "CgroupPermissions": rights });
        root.sh_with(tries, host(json!({ "Devices": [mapping] }))).ok().replace('\n', "")
    };
    for (rights, may) in [("r", "r"), ("w", "w"), ("m", ""), ("rw", "rw"), ("rm", "r"), ("rwm", "rw")] {
        assert_eq!(of(rights), may, "{rights}");
    }
    // A device that was not given cannot be opened, even by a node that the container makes itself.
    let output = root.sh("mknod /tmp/kmsg c 1 11 && head -c 1 /tmp/kmsg");
    assert_ne!(output.code, 0);
    assert!(output.err().contains("Operation not permitted"), "{}", output.err());
}

/// The kernel takes no path of 4096 bytes. The process that makes the node must report that, and not crash.
#[test]
fn a_device_at_a_path_that_is_too_long_fails_with_the_reason() {
    let root = Root::new();
    let at = format!("/dev/{}null", "d/".repeat(2045));
    let mapping = json!({ "PathOnHost": "/dev/null", "PathInContainer": at, "CgroupPermissions": "rwm" });
    let id = root.create("deep", body(&["true"], host(json!({ "Devices": [mapping] }))));
    fails(root.engine.container_start(&id, None, Some(&soon())), ErrorKind::Internal, "file name too long");
    assert_eq!(root.status(&id), "created");
}

/// Whether this program has a right: the number of its `CAP_`.
fn has_right(number: u32) -> bool {
    let own = std::fs::read_to_string("/proc/self/status").expect("our status");
    u64::from_str_radix(&proc_status(&own, "CapEff"), 16).expect("a mask") >> number & 1 == 1
}

// field: HostConfig.Ulimits
// field: HostConfig.Ulimits.Name
// field: HostConfig.Ulimits.Soft
// field: HostConfig.Ulimits.Hard
#[test]
fn ulimits() {
    let root = Root::new();
    // All flags, by the kernel's names.
    let all = [
        ("core", "core file size", 0, 0),
        ("cpu", "cpu time", 1000, 2000),
        ("data", "data size", 1 << 30, 1 << 31),
        ("fsize", "file size", 1 << 20, -1),
        ("locks", "file locks", 10, 20),
        ("memlock", "locked memory", 65_536, 131_072),
        ("msgqueue", "msgqueue size", 4096, 8192),
        ("nice", "nice priority", 0, if has_right(24) { 5 } else { 0 }),
        ("nofile", "open files", 100, 200),
        ("nproc", "processes", 50, 60),
        ("rss", "resident set", 1 << 20, 1 << 21),
        ("rtprio", "realtime priority", 0, if has_right(24) { 2 } else { 0 }),
        ("rttime", "realtime timeout", 1000, 2000),
        ("sigpending", "pending signals", 70, 80),
        ("stack", "stack size", 4_194_304, 8_388_608),
        ("as", "address space", -1, -1),
    ];
    let asked: Vec<Value> =
        all.iter().map(|(name, _, soft, hard)| json!({ "Name": name, "Soft": soft, "Hard": hard })).collect();
    let text = root.sh_with("cat /proc/self/limits", host(json!({ "Ulimits": asked }))).ok();
    let row = |name: &str| {
        let line = text.lines().find(|l| l.starts_with(name)).unwrap_or_else(|| panic!("{text}"));
        line[name.len()..].split_whitespace().take(2).collect::<Vec<_>>().join(" ")
    };
    for (name, kernel, soft, hard) in all {
        let word = |limit: i64| if limit == -1 { "unlimited".to_owned() } else { limit.to_string() };
        assert_eq!(row(&format!("Max {kernel} ")), format!("{} {}", word(soft), word(hard)), "{name}");
    }
    for (limit, text) in [
        (json!({ "Name": "nofiles", "Soft": 1, "Hard": 1 }), "wrong rlimit value: RLIMIT_NOFILES"),
        (json!({ "Name": "nofile", "Soft": 2, "Hard": 1 }), "nofile"),
    ] {
        let id = root.create("", body(&["true"], host(json!({ "Ulimits": [limit] }))));
        let refused = root.engine.container_start(&id, None, Some(&soon())).map(drop);
        fails(refused, ErrorKind::Internal, text);
    }
}

// field: HostConfig.Sysctls
#[test]
fn sysctls() {
    let root = Root::new();
    let config = json!({ "Sysctls": { "kernel.msgmax": "4242", "net/ipv4/ip_forward": "1",
        "net.ipv4.ip_local_port_range": "2000 3000", "fs.mqueue.msg_max": "33" } });
    let script = "cd /proc/sys; cat kernel/msgmax net/ipv4/ip_forward net/ipv4/ip_local_port_range fs/mqueue/msg_max";
    let output = root.sh_with(script, host(config)).ok();
    assert_eq!(output, "4242\n1\n2000\t3000\n33");
    // A parameter of the host is refused, and not set.
    let before = std::fs::read_to_string("/proc/sys/kernel/panic").expect("read");
    let result = root.try_create("", body(&["true"], host(json!({ "Sysctls": { "kernel.panic": "77" } }))));
    let error = match result {
        Err(error) => error,
        Ok(id) => root.engine.container_start(&id, None, Some(&soon())).expect_err("must be refused"),
    };
    assert!(error.message().contains("kernel.panic"), "{error}");
    assert_eq!(std::fs::read_to_string("/proc/sys/kernel/panic").expect("read"), before);
}

// field: HostConfig.ShmSize
#[test]
fn shared_memory_size() {
    let root = Root::new();
    let size = |config| {
        let text = root.sh_with("cat /proc/self/mountinfo", host(config)).ok();
        let (options, kind, more) = mount_at(&text, "/dev/shm");
        assert_eq!(kind, "tmpfs");
        for option in ["nosuid", "nodev", "noexec"] {
            assert!(options.contains(option), "{options}");
        }
        more.split(',').find_map(|o| o.strip_prefix("size=").map(str::to_owned)).expect("a size")
    };
    assert_eq!(size(json!({})), "65536k");
    assert_eq!(size(json!({ "ShmSize": 1 << 20 })), "1024k");
}

// field: HostConfig.OomScoreAdj
#[test]
fn oom_score() {
    let root = Root::new();
    // Less than what this program has takes a right that it may not have.
    let least = if has_right(24) { -1000 } else { 0 };
    for score in [321, least, 1000] {
        let output = root.sh_with("cat /proc/self/oom_score_adj", host(json!({ "OomScoreAdj": score }))).ok();
        assert_eq!(output, score.to_string());
    }
    for score in [-1001, 1001] {
        let refused = root.try_create("", body(&["true"], host(json!({ "OomScoreAdj": score }))));
        fails(refused, ErrorKind::Invalid, "range for oom score adj is [-1000, 1000]");
    }
}

// field: HostConfig.Dns
// field: HostConfig.DnsOptions
// field: HostConfig.DnsSearch
// field: HostConfig.ExtraHosts
#[test]
fn hosts_and_resolver_files() {
    let root = Root::new();
    let config = json!({ "ExtraHosts": ["db:10.1.2.3", "v6:fd00::1"], "Dns": ["9.8.7.6"], "DnsSearch": ["a.example"],
        "DnsOptions": ["ndots:3"] });
    let output = root.sh_with("cat /etc/hosts; echo ==; cat /etc/resolv.conf", host(config)).ok();
    let (hosts, resolver) = output.split_once("==\n").expect("two parts");
    let has = |address: &str, name: &str| {
        hosts.lines().any(|l| {
            let mut words = l.split_whitespace();
            words.next() == Some(address) && words.any(|w| w == name)
        })
    };
    assert!(has("10.1.2.3", "db") && has("fd00::1", "v6") && has("127.0.0.1", "localhost"), "{hosts}");
    for line in ["nameserver 9.8.7.6", "search a.example", "options ndots:3"] {
        assert!(resolver.lines().any(|l| l == line), "{resolver}");
    }
    let bad = body(&["true"], host(json!({ "ExtraHosts": ["nocolon"] })));
    fails(root.try_create("", bad), ErrorKind::Invalid, r#"bad format for add-host: "nocolon""#);
}

// field: HostConfig.PidMode
// field: HostConfig.IpcMode
// field: HostConfig.UTSMode
// field: HostConfig.NetworkMode
#[test]
fn namespaces_shared_with_the_host_or_a_container() {
    let root = Root::new();
    let ours =
        |name: &str| std::fs::read_link(format!("/proc/self/ns/{name}")).expect("our namespace").display().to_string();
    let link = |name: &str, config: Value| root.sh_with(&format!("readlink /proc/self/ns/{name}"), host(config)).ok();
    for (field, name) in [("PidMode", "pid"), ("IpcMode", "ipc"), ("UTSMode", "uts")] {
        assert_eq!(link(name, json!({ field: "host" })), ours(name), "{field}");
        assert_ne!(link(name, json!({})), ours(name), "{field}");
    }
    let id = root.sleeper("shared");
    for (field, name) in [("PidMode", "pid"), ("IpcMode", "ipc")] {
        let other = std::fs::read_link(format!("/proc/{}/ns/{name}", root.pid(&id))).expect("its namespace");
        assert_eq!(link(name, json!({ field: "container:shared" })), other.display().to_string(), "{field}");
    }
    let seen =
        root.sh_with("ps | grep -c 'sleep 0.0[5]'; ps | head -1", host(json!({ "PidMode": "container:shared" })));
    assert_eq!(seen.out().lines().last().expect("ps").split_whitespace().next(), Some("PID"));
    let gone = body(&["true"], host(json!({ "PidMode": "container:nobody" })));
    let error = match root.try_create("", gone) {
        Err(error) => error,
        Ok(id) => root.engine.container_start(&id, None, Some(&soon())).expect_err("must fail"),
    };
    assert!(error.message().contains("nobody"), "{error}");
}

// field: HostConfig.SecurityOpt
#[test]
fn security_options() {
    let root = Root::new();
    let status = |options: Value| root.sh_with("cat /proc/self/status", host(json!({ "SecurityOpt": options }))).ok();
    let plain = status(json!([]));
    assert_eq!((proc_status(&plain, "Seccomp"), proc_status(&plain, "NoNewPrivs")), ("2".into(), "0".into()));
    let ours = std::fs::read_to_string("/proc/self/status").expect("our status");
    assert_eq!(proc_status(&status(json!(["seccomp=unconfined"])), "Seccomp"), proc_status(&ours, "Seccomp"));
    assert_eq!(proc_status(&status(json!(["no-new-privileges"])), "NoNewPrivs"), "1");
    // A profile of one's own: everything but mkdir.
    let profile = json!({ "defaultAction": "SCMP_ACT_ALLOW",
        "syscalls": [{ "names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO" }] });
    let option = json!([format!("seccomp={profile}")]);
    let output =
        root.sh_with("mkdir /tmp/d 2>&1; touch /tmp/f && echo made", host(json!({ "SecurityOpt": option }))).out();
    assert!(output.contains("Operation not permitted") && output.ends_with("made"), "{output}");
    // The calls that a program needs, and of the launch's calls only those that change its privileges: nothing newer
    // than those.
    let names = "access arch_prctl brk capset chdir close execve exit exit_group fcntl fstat geteuid getpid getuid ioctl lseek \
                 mmap mprotect open openat prctl prlimit64 read readlink sendfile rt_sigaction rt_sigprocmask set_tid_address setgroups \
                 setresgid setresuid stat uname write";
    let names: Vec<&str> = names.split(' ').collect();
    let profile = json!({ "defaultAction": "SCMP_ACT_ERRNO",
        "syscalls": [{ "names": names, "action": "SCMP_ACT_ALLOW" }] });
    for more in [None, Some("no-new-privileges")] {
        let options: Vec<String> = [format!("seccomp={profile}")].into_iter().chain(more.map(str::to_owned)).collect();
        let output = root.run(&["cat", "/proc/self/status"], host(json!({ "SecurityOpt": options })), b"").out();
        assert_eq!(proc_status(&output, "Seccomp"), "2", "{more:?}: {output}");
    }
    for bad in ["colour=blue", "nonsense"] {
        let result = root.try_create("", body(&["true"], host(json!({ "SecurityOpt": [bad] }))));
        assert!(result.expect_err("must be refused").message().contains("--security-opt"), "{bad}");
    }
}

// field: HostConfig.CpuPeriod
// field: HostConfig.CpuQuota
// field: HostConfig.CpuShares
// field: HostConfig.CpusetCpus
// field: HostConfig.CpusetMems
// field: HostConfig.Memory
// field: HostConfig.MemoryReservation
// field: HostConfig.PidsLimit
#[test]
fn cgroup_limits_are_the_kernel_s() {
    let root = Root::new();
    let config = json!({
        "Memory": 64 << 20, "MemorySwap": 96 << 20, "MemoryReservation": 32 << 20, "CpuShares": 512,
        "CpuPeriod": 50_000, "CpuQuota": 25_000, "CpusetCpus": "0", "CpusetMems": "0", "PidsLimit": 77,
        "BlkioWeight": 0,
    });
    let id = root.sleeper_with("limited", host(config));
    let cgroups = Cgroups::of(root.pid(&id));
    cgroups.assert_limits("67108864");
    let swap = format!("/sys/fs/cgroup/memory{}/memory.memsw.limit_in_bytes", cgroups.path("memory"));
    if std::path::Path::new(&swap).exists() {
        assert_eq!(std::fs::read_to_string(&swap).expect("read").trim(), (96 << 20).to_string());
    }
    assert_eq!(root.exec(&id, &["nproc"]).ok(), "1");
    // The parent's name, and that it goes with the container.
    let path = cgroups.path("memory");
    let leaf = path.strip_prefix("/coracle/").unwrap_or_else(|| panic!("{path}"));
    let engine = leaf.strip_suffix(&format!("-{id}")).unwrap_or_else(|| panic!("{path}"));
    assert!(engine.len() == 12 && engine.bytes().all(|digit| digit.is_ascii_hexdigit()), "{path}");
    let force = RemoveContainer { force: true, ..RemoveContainer::default() };
    root.engine.container_remove(&id, force, Some(&soon())).expect("remove");
    for base in ["/sys/fs/cgroup", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/pids", "/sys/fs/cgroup/devices"] {
        assert!(!std::path::Path::new(&format!("{base}{path}")).exists(), "{base}{path} is left");
    }
}

// field: HostConfig.MemorySwap
#[test]
fn memory_without_swap_limit_doubles() {
    let root = Root::new();
    let id = root.create("memory", body(&["sleep", "1000"], host(json!({ "Memory": 32 << 20 }))));
    let told = root.inspect(&id).host_config.resources.memory_swap;
    root.start(&id);
    // A kernel may not count swap: then there is nothing to bound, and the client was told.
    let limit = |id: &str| {
        let cgroups = Cgroups::of(root.pid(id));
        let (unified, path) = (Cgroups::unified(), cgroups.path("memory"));
        let dir = format!("/sys/fs/cgroup{}{path}", if unified { "" } else { "/memory" });
        let file = if unified { "memory.swap.max" } else { "memory.memsw.limit_in_bytes" };
        std::fs::read_to_string(format!("{dir}/{file}")).ok().map(|text| text.trim().to_owned())
    };
    let Some(bytes) = limit(&id) else { return assert_eq!(told, -1) };
    // v2 counts swap alone.
    assert_eq!((bytes.parse(), told), (Ok(if Cgroups::unified() { 32 << 20 } else { 64 << 20 }), 64 << 20));
    // As much swap as there is, and none.
    let free = root.create("free", body(&["sleep", "1000"], host(json!({ "Memory": 32 << 20, "MemorySwap": -1 }))));
    root.start(&free);
    let most = limit(&free).expect("a limit");
    assert!(most == "max" || most.parse().is_ok_and(|bytes: u64| bytes > 1 << 50), "{most}");
    let all = json!({ "Memory": 32 << 20, "MemorySwap": 32 << 20, "MemorySwappiness": 0 });
    let none = root.create("none", body(&["sleep", "1000"], host(all)));
    root.start(&none);
    assert_eq!(limit(&none).as_deref(), Some(if Cgroups::unified() { "0" } else { "33554432" }));
    if !Cgroups::unified() {
        assert_eq!(Cgroups::of(root.pid(&none)).read("memory", "memory.swappiness", ""), "0");
        assert_ne!(Cgroups::of(root.pid(&free)).read("memory", "memory.swappiness", ""), "0");
    }
}

// field: HostConfig.CgroupParent
#[test]
fn cgroup_parent() {
    let root = Root::new();
    // Both forms begin at the root of the hierarchies.
    for parent in ["/coracle-test-parent/inner", "coracle-test-parent//inner/"] {
        let id = root.create("", body(&["sleep", "1000"], host(json!({ "CgroupParent": parent }))));
        root.start(&id);
        let cgroups = Cgroups::of(root.pid(&id));
        for controller in ["pids", "memory"] {
            let path = cgroups.path(controller);
            assert!(path.starts_with("/coracle-test-parent/inner/") && path.ends_with(&format!("-{id}")), "{path}");
        }
    }
    drop(root);
    // A parent that the user named is the user's to remove.
    for controller in std::fs::read_dir("/sys/fs/cgroup").expect("cgroups").flatten() {
        for dir in ["coracle-test-parent/inner", "coracle-test-parent"] {
            let _ = std::fs::remove_dir(controller.path().join(dir));
        }
    }
    let _ = std::fs::remove_dir("/sys/fs/cgroup/coracle-test-parent/inner");
    let _ = std::fs::remove_dir("/sys/fs/cgroup/coracle-test-parent");
}

// field: HostConfig.PidsLimit
#[test]
fn process_limit_holds() {
    let root = Root::new();
    let script = "for i in 1 2 3 4 5 6 7 8 9 10; do sleep 2 & done 2>&1; echo after";
    let output = root.sh_with(script, host(json!({ "PidsLimit": 5 })));
    let all = format!("{}{}", output.out(), output.err());
    assert!(all.contains("fork"), "{all}");
}

// field: HostConfig.MemorySwappiness
// field: HostConfig.OomKillDisable
#[test]
fn oom_kill_disable_and_swappiness() {
    if Cgroups::unified() {
        // The unified hierarchy has neither: accepted with a warning.
        return;
    }
    let root = Root::new();
    let config = json!({ "OomKillDisable": true, "MemorySwappiness": 13, "Memory": 64 << 20 });
    let id = root.sleeper_with("patient", host(config));
    let cgroups = Cgroups::of(root.pid(&id));
    let control = cgroups.read("memory", "memory.oom_control", "");
    assert!(control.contains("oom_kill_disable 1"), "{control}");
    assert_eq!(cgroups.read("memory", "memory.swappiness", ""), "13");
}

#[test]
fn block_io_rates() {
    let Some(device) = a_block_device() else {
        eprintln!("no block device on this machine");
        return;
    };
    let root = Root::new();
    let config = json!({ "BlkioDeviceReadBps": [{ "Path": device.0, "Rate": 1_048_576 }],
        "BlkioDeviceWriteIOps": [{ "Path": device.0, "Rate": 50 }] });
    let id = root.sleeper_with("slow", host(config));
    let cgroups = Cgroups::of(root.pid(&id));
    if Cgroups::unified() {
        let text = cgroups.read("io", "", "io.max");
        assert!(text.contains(&format!("{} rbps=1048576", device.1)) && text.contains("wiops=50"), "{text}");
    } else {
        let read = cgroups.read("blkio", "blkio.throttle.read_bps_device", "");
        assert_eq!(read, format!("{} 1048576", device.1));
        let write = cgroups.read("blkio", "blkio.throttle.write_iops_device", "");
        assert_eq!(write, format!("{} 50", device.1));
    }
}

/// A whole disk of this machine: its node and `major:minor`.
fn a_block_device() -> Option<(String, String)> {
    std::fs::read_dir("/sys/block").ok()?.flatten().find_map(|disk| {
        let node = format!("/dev/{}", disk.file_name().to_string_lossy());
        let numbers = std::fs::read_to_string(disk.path().join("dev")).ok()?;
        std::path::Path::new(&node).exists().then(|| (node, numbers.trim().to_owned()))
    })
}

// field: Config.Labels
#[test]
fn labels_and_image_defaults_are_kept() {
    let root = Root::new();
    let id = root.create("labelled", body(&["true"], json!({ "Labels": { "a": "1", "b": "" } })));
    let labels = root.inspect(&id).config.labels;
    assert_eq!(labels, StringMap::from([("a".into(), "1".into()), ("b".into(), String::new())]));
    // Files of an image belong to its containers, which may change them.
    let how = CommitContainer { repo: "labelled".into(), ..CommitContainer::default() };
    root.engine.container_commit(&id, &how, Some(&soon())).expect("commit");
    let own = json!({ "Image": "labelled", "Labels": { "a": "2", "c": "3" } });
    let labels = root.inspect(&root.create("own", body(&["true"], own))).config.labels;
    assert_eq!(serde_json::to_value(labels).expect("JSON"), json!({ "a": "2", "b": "", "c": "3" }));
}
