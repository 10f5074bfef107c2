//! Users, groups and rights: what the files of an image say of them, and what a request says.

use crate::images::Image;
use crate::programs::program;
use crate::support::archive::Tar;
use crate::support::*;
use serde_json::json;

/// `id -u`, `id -g` or the error of a start as this user.
fn ids_of_user(root: &Root, image: &str, user: &str) -> Result<String, String> {
    let command = ["sh", "-c", "echo $(id -u):$(id -g)"];
    let id = root.create("", body(&command, json!({ "Image": image, "User": user })));
    root.engine.container_start(&id, None, Some(&soon())).map_err(|error| error.message().to_owned())?;
    root.wait(&id);
    Ok(root.logs(&id).out())
}

/// The meaning of `user[:group]` with the files below, computed without any of the engine's code.
fn model(user: &str) -> Result<String, ()> {
    let (name, group) = user.split_once(':').unwrap_or((user, ""));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = |text: &str| text.parse::<u64>().map_err(drop).and_then(|value| i32::try_from(value).map_err(drop));
    let uid = match name {
        "" => 0,
        _ if digits(name) => number(name)?,
        "joe" => 1234,
        _ => return Err(()),
    };
    let of_user = if uid == 1234 { 5678 } else { 0 };
    let gid = match group {
        "" => of_user,
        _ if digits(group) => number(group)?,
        "team" => 77,
        _ => return Err(()),
    };
    Ok(format!("{uid}:{gid}"))
}

// attack: 41, 42, 43, 44 wall user-numbers
#[test]
fn a_user_that_looks_like_a_number_is_that_number_or_nobody() {
    let root = Root::new();
    let mut passwd = String::from("root:x:0:0::/:/bin/sh\njoe:x:1234:5678::/:/bin/sh\n");
    for name in ["1000", "01000", "2147483648", "4294967295", "4294967296", "4294968296", "99999999999"] {
        passwd += &format!("{name}:x:0:0::/:/bin/sh\n");
    }
    let layer =
        Tar::new().file("etc/passwd", passwd.as_bytes()).file("etc/group", b"root:x:0:\nteam:x:77:\n1000:x:0:\n");
    Image::new().layer(layer).load(&root, "numbers");
    for user in [
        "1000",
        "01000",
        "+1000",
        "-1",
        "0x3e8",
        " 1000",
        "1000 ",
        "1e3",
        "2147483647",
        "2147483648",
        "4294967295",
        "4294967296",
        "4294967296:0",
        "4294968296",
        "99999999999",
        "joe",
        "joe:team",
        "joe:1000",
        "1000:team",
        ":team",
        "1000:",
        "joe:",
        "1000:4294967296",
        "1000:2147483648",
        "nobody-here",
        "joe:nobody-here",
        "1000:1000",
    ] {
        let got = ids_of_user(&root, "numbers", user);
        assert_eq!(got.clone().map_err(drop), model(user), "{user:?}: {got:?}");
    }
}

// attack: 45 wall user-capabilities
#[test]
fn another_user_than_root_has_no_capability() {
    let root = Root::new();
    let sets = |more| {
        let status = root.run(&["cat", "/proc/self/status"], more, b"").ok();
        ["CapInh", "CapPrm", "CapEff", "CapAmb"].map(|set| proc_status(&status, set))
    };
    let none = ["0000000000000000"; 4].map(str::to_owned);
    assert_eq!(sets(json!({ "User": "1000" })), none);
    assert_eq!(sets(json!({ "User": "games", "HostConfig": { "CapAdd": ["NET_ADMIN"] } })), none);
    assert_eq!(sets(json!({ "User": "1000:0", "HostConfig": { "CapAdd": ["ALL"] } })), none);
    assert_ne!(sets(json!({}))[1], none[1], "root of a container has some");
}

// attack: 49, 50 wall user-groups
// attack: 49 wall user-capabilities
#[test]
fn a_process_has_the_groups_of_its_user() {
    let root = Root::new();
    let passwd = b"root:x:0:0::/:/bin/sh\nfoo:x:1000:50::/:/bin/sh\n";
    let group = b"root:x:0:\nfoo:x:77:foo\ng2:x:88:other,foo\nprimary:x:50:\n";
    let layer = Tar::new().file("etc/passwd", passwd).file("etc/group", group);
    Image::new().layer(layer).load(&root, "groups");
    let groups = "tr -d '\\t' < /proc/self/status | grep ^Groups";
    let of = |host| root.sh_with(groups, json!({ "Image": "groups", "User": "foo", "HostConfig": host })).ok();
    assert_eq!(of(json!({})).trim_end(), "Groups:50 77 88");
    assert_eq!(of(json!({ "GroupAdd": ["99"] })).trim_end(), "Groups:50 77 88 99");
    // A file that everybody but a group may read.
    let id = root.create(
        "kept",
        body(&["sh", "-c", "trap exit TERM; while :; do sleep 0.05; done"], json!({ "Image": "groups" })),
    );
    root.start(&id);
    root.exec(&id, &["sh", "-c", "echo secret > /f; chown 0:88 /f; chmod 604 /f"]).ok();
    let exec = |user: &str| {
        let config = json!({ "Cmd": ["cat", "/f"], "User": user, "AttachStdout": true, "AttachStderr": true });
        root.exec_with(&id, config, b"")
    };
    assert_eq!(exec("4321").ok(), "secret", "who is not in the group reads it");
    assert_ne!(exec("foo").code, 0, "who is in the group does not");
}

// attack: 51 wall plain-text
#[test]
fn no_request_puts_a_line_into_a_file_of_the_engine_s() {
    let root = Root::new();
    let lines = "cat /etc/hosts /etc/hostname /etc/resolv.conf /etc/passwd /etc/group | grep -c evil";
    let script = ["sh", "-c", lines];
    for more in [
        json!({ "Hostname": "a\nevil" }),
        json!({ "Domainname": "a\nevil" }),
        json!({ "HostConfig": { "ExtraHosts": ["a\nevil:1.2.3.4"] } }),
        json!({ "HostConfig": { "Dns": ["1.2.3.4\nevil"] } }),
        json!({ "HostConfig": { "DnsSearch": ["a\nevil"] } }),
        json!({ "HostConfig": { "DnsOptions": ["a\nevil"] } }),
        json!({ "User": "0\nevil:x:0:0" }),
        json!({ "Env": ["HOME=/\nevil:x:0:0::/:/bin/sh", "A=\nevil"] }),
        json!({ "Labels": { "a\nevil": "b\nevil" } }),
    ] {
        let Ok(id) = root.try_create("", body(&script, more.clone())) else { continue };
        if root.engine.container_start(&id, None, Some(&soon())).is_ok() {
            root.wait(&id);
            assert_eq!(root.logs(&id).out(), "0", "{more}");
        }
    }
    assert!(root.try_create("a\nevil", body(&script, json!({}))).is_err());
}

/// A file that all but a group may read, and one of that group, who would leave it.
// attack: 39 wall user-capabilities
#[test]
fn a_user_leaves_no_group_that_is_kept_out() {
    for remapped in [false, true] {
        let root = Root::with(|options| {
            if remapped {
                options.userns_remap = Some(coracle::UsernsRemap { uid: 100_000, gid: 100_000, count: 65_536 });
            }
        });
        root.load(&busybox_archive());
        let prepare =
            "echo secret > /v/f; chown 0:88 /v/f; chmod 604 /v/f; chmod 755 /v; echo open > /v/g; chmod 644 /v/g";
        root.sh_with(prepare, host(json!({ "Binds": ["kept:/v"] }))).ok();
        let binds = json!(["kept:/v", format!("{}:/groups:ro", program("groups").display())]);
        for options in [json!([]), json!(["seccomp=unconfined"]), json!(["no-new-privileges"])] {
            let host = json!({ "Binds": binds, "SecurityOpt": options, "GroupAdd": ["88"] });
            let look =
                |file: &str| root.run(&["/groups", file], json!({ "User": "1000:1000", "HostConfig": host }), b"").ok();
            assert_eq!(look("/v/g").matches(": open").count(), 3, "what all may read");
            let seen = look("/v/f");
            assert_eq!(seen.lines().filter(|line| line.ends_with("ermission denied")).count(), 3, "{options}: {seen}");
        }
    }
}
