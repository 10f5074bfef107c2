//! Small behaviours of dockerd that clients have met: each was compared with a real one. Requests that are refused stand in
//! `tests/oracle/odd.json`.

use crate::docker_cli::Served;
use crate::oracle::{call, call_bytes};
use crate::support::ended::busy;
use crate::support::world::World;
use crate::support::*;
use coracle::ErrorKind;
use coracle::model::*;
use serde_json::{Value, json};

fn typed<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("a well-formed document")
}

#[test]
fn an_empty_home_is_none() {
    let root = Root::new();
    let home = |env: Value| root.sh_with("echo $HOME", json!({ "Env": env })).ok();
    assert_eq!(home(json!(["HOME="])), "/root");
    assert_eq!(home(json!(["HOME=/x"])), "/x");
    assert_eq!(root.sh_with("echo $HOME", json!({ "Env": ["HOME="], "User": "77" })).ok(), "/");
}

#[test]
fn ids_out_of_range_are_said_to_be_so() {
    let root = Root::new();
    for user in ["-1", "-1:0", "0:-5", "5000000000"] {
        let id = root.create("", body(&["true"], json!({ "User": user })));
        let started = root.engine.container_start(&id, None, Some(&soon()));
        fails(started, ErrorKind::Invalid, "uids and gids must be in range 0-2147483647");
    }
}

#[test]
fn the_working_directory_is_there_before_the_first_start() {
    let root = Root::new();
    let id = root.create("wd", body(&["pwd"], json!({ "WorkingDir": "/a/b/c" })));
    let changes = root.engine.container_changes(&id).expect("changes");
    let paths: Vec<&str> = changes.iter().map(|change| change.path.as_str()).collect();
    assert_eq!(paths, ["/a", "/a/b", "/a/b/c"]);
    let stat = root.engine.container_archive_stat(&id, "/a/b/c", None).expect("stat");
    assert_eq!((stat.name.as_str(), stat.mode & 0o777), ("c", 0o755));
    root.start(&id);
    assert_eq!((root.wait(&id), root.logs(&id).out().as_str()), (0, "/a/b/c"));
    // Whatever the umask of the host program is.
    let made = std::process::Command::new("sh")
        .args(["-c", "umask 077 && exec \"$@\"", "sh"])
        .arg(built("coracle"))
        .args(["--root".as_ref(), root.dir.join("root").as_os_str()])
        .args(["--run".as_ref(), root.dir.join("run").as_os_str()])
        .args(["create", "--name", "masked", "--workdir", "/a/b", IMAGE, "true"])
        .output()
        .expect("run coracle create");
    assert!(made.status.success(), "{made:?}");
    for path in ["/a", "/a/b"] {
        let stat = root.engine.container_archive_stat("masked", path, None).expect("stat");
        assert_eq!(stat.mode & 0o777, 0o755, "{path}");
    }
    // Through links of the image, of which one leads nowhere.
    let id = root.create("", body(&["sh", "-c", "ln -s /etc /link; ln -s /nowhere /dangling"], json!({})));
    root.start(&id);
    assert_eq!(root.wait(&id), 0);
    let how = CommitContainer { repo: "links".into(), ..CommitContainer::default() };
    root.engine.container_commit(&id, &how, Some(&soon())).expect("commit");
    for (dir, expected) in [("/link/wd", &["/etc", "/etc/wd"][..]), ("/dangling/wd", &[]), ("/link", &[])] {
        let id = root.create("", body(&["true"], json!({ "Image": "links", "WorkingDir": dir })));
        let changes = root.engine.container_changes(&id).expect("changes");
        assert!(changes.iter().map(|change| change.path.as_str()).eq(expected.iter().copied()), "{dir}: {changes:?}");
    }
    // A path that the system mounts, and one that the image has.
    let id = root.create("", body(&["true"], json!({ "WorkingDir": "/proc/self" })));
    root.start(&id);
    assert_eq!(root.wait(&id), 0);
    let id = root.create("", body(&["true"], json!({ "WorkingDir": "/etc" })));
    assert!(root.engine.container_changes(&id).expect("changes").is_empty());
}

#[test]
fn a_name_with_a_domain_stands_in_hosts_whole_and_short() {
    let world = World::new();
    let last = |more: Value| {
        let line = world.run("tail -n 1 /etc/hosts", more).ok();
        line.split_once('\t').expect("an address and names").1.to_owned()
    };
    assert_eq!(last(json!({ "Hostname": "h.d.e" })), "h.d.e h");
    assert_eq!(last(json!({ "Hostname": "h", "Domainname": "d.e" })), "h.d.e h");
    assert_eq!(last(json!({ "Hostname": "h" })), "h");
}

#[test]
fn a_container_has_the_files_that_programs_look_for() {
    let root = Root::new();
    assert_eq!(root.sh("stat -c %a%s /.dockerenv; readlink /etc/mtab").ok(), "7550\n/proc/mounts");
    // An image that lacks what is mounted in /etc gives it to a volume that is read-only from its first start on.
    let more = host(json!({ "Binds": ["etc:/etc:ro"] }));
    let out = root.sh_with("cat /etc/hostname >/dev/null && ls /etc/mtab && ! touch /etc/x 2>/dev/null", more);
    assert_eq!(out.ok(), "/etc/mtab");
    for path in ["/etc/passwd", "/etc/group"] {
        let out = root.sh_with(&format!("wc -c < {path}; id -u"), host(json!({ "MaskedPaths": [path] })));
        assert_eq!(out.ok(), "0\n0", "{path}");
    }
}

/// Unlike dockerd, which reads the image's file whatever lies over it.
#[test]
fn names_of_users_are_those_that_the_container_sees() {
    let root = Root::new();
    let own = root.dir.join("passwd");
    std::fs::write(&own, "own:x:77:77::/:/bin/sh\n").expect("write");
    let bound = json!({ "Binds": [format!("{}:/etc/passwd:ro", own.display())] });
    let masked = json!({ "MaskedPaths": ["/etc/passwd"] });
    let id = |user: &str, over: &Value| root.sh_with("id -u", json!({ "User": user, "HostConfig": over })).ok();
    assert_eq!(id("games", &json!({})), "5");
    assert_eq!(id("own", &bound), "77");
    assert_eq!(id("5", &masked), "5");
    for over in [bound, masked] {
        let refused = root.create("", body(&["true"], json!({ "User": "games", "HostConfig": over })));
        let error = root.engine.container_start(&refused, None, None).map(drop).expect_err("no such name");
        assert_eq!((error.kind(), error.message().contains("unable to find user games")), (ErrorKind::Invalid, true));
    }
}

#[test]
fn everybody_may_use_low_ports_and_ping_in_a_network_of_its_own() {
    let root = Root::new();
    let look = "cd /proc/sys/net/ipv4; cat ip_unprivileged_port_start ping_group_range | tr '\\t\\n' '  '";
    let here = std::fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start").expect("the host's");
    assert_eq!(root.sh(look).ok().trim(), "0 0 2147483647");
    let own = json!({ "Sysctls": { "net.ipv4.ip_unprivileged_port_start": "500" } });
    assert!(root.sh_with(look, host(own)).ok().starts_with("500 0 2147483647"));
    assert!(root.sh_with(look, host(json!({ "NetworkMode": "host" }))).ok().starts_with(here.trim()));
}

#[test]
fn a_container_that_waits_for_its_restart_is_not_removed() {
    let root = Root::new();
    let policy = host(json!({ "RestartPolicy": { "Name": "always" } }));
    let id = root.create("again", body(&["sh", "-c", "exit 3"], policy));
    root.start(&id);
    // The pause before a restart grows with each.
    wait_for("its pause", || root.inspect(&id).restart_count >= 5 && root.status(&id) == "restarting");
    let text = format!(
        "You cannot remove a restarting container {id}. Stop the container before attempting removal or force remove"
    );
    fails(root.engine.container_remove(&id, RemoveContainer::default(), None), ErrorKind::Conflict, &text);
    root.engine.container_stop(&id, None, Some(&soon())).expect("stop");
    root.engine.container_remove(&id, RemoveContainer::default(), None).expect("remove");
}

/// A program that traps the signal of a stop ends by itself: waiters hear its own code, also on a busy machine.
#[test]
fn a_wait_over_a_stop_has_the_code_of_the_program() {
    let root = Root::new();
    let _busy = busy(4);
    for round in 0..10 {
        let script = format!("trap 'exit {}' TERM; echo ready; while :; do sleep 0.02; done", 30 + round);
        let id = root.create("", body(&["sh", "-c", &script], json!({})));
        root.start(&id);
        root.wait_for("the trap", || root.logs(&id).out() == "ready");
        let code = std::thread::scope(|scope| {
            let waits = scope.spawn(|| root.wait(&id));
            root.engine.container_stop(&id, Some(60_000), Some(&soon())).expect("stop");
            waits.join().expect("the waiter")
        });
        assert_eq!((code, root.inspect(&id).state.exit_code), (30 + round, 30 + round));
    }
}

#[test]
fn the_last_end_stays_to_be_seen() {
    let root = Root::new();
    let id = root.create("", body(&["sleep", "1000"], json!({})));
    root.start(&id);
    assert_eq!(root.inspect(&id).state.finished_at, "0001-01-01T00:00:00Z");
    root.engine.container_restart(&id, Some(0), Some(&soon())).expect("restart");
    let again = root.inspect(&id).state;
    assert!(again.running && again.exit_code == 0, "{again:?}");
    assert!(again.finished_at.starts_with("20") && again.finished_at < again.started_at, "{again:?}");
    // A container whose policy starts it again after a failure: the exit code is cleared, the time stays.
    let fails_once = "test -e /tried && exec sleep 1000; touch /tried; exit 3";
    let policy = json!({ "RestartPolicy": { "Name": "on-failure" } });
    let id = root.create("fails-once", body(&["sh", "-c", fails_once], host(policy)));
    root.start(&id);
    wait_for("its second run", || {
        let seen = root.inspect(&id);
        seen.restart_count == 1 && seen.state.running && !seen.state.restarting
    });
    let again = root.inspect(&id).state;
    assert_eq!((again.status.as_str(), again.exit_code), ("running", 0), "{again:?}");
    assert!(again.finished_at.starts_with("20") && again.finished_at < again.started_at, "{again:?}");
}

#[test]
fn networks_take_what_was_chosen_and_refuse_what_was_not() {
    let world = World::new();
    let engine = &world.root.engine;
    world
        .network(json!({
            "Name": "six", "EnableIPv6": true,
            "IPAM": { "Config": [{ "Subnet": "fd00:55::/64" }, { "Subnet": "10.99.7.0/24" }] },
        }))
        .expect("a network");
    let pools = engine.network_inspect("six").expect("inspect").ipam.config;
    let subnets: Vec<&str> = pools.iter().map(|pool| pool.subnet.as_str()).collect();
    assert_eq!(subnets, ["10.99.7.0/24", "fd00:55::/64"]);
    world
        .network(json!({ "Name": "only", "EnableIPv6": true, "IPAM": { "Config": [{ "Subnet": "fd00:56::/64" }] } }))
        .expect("a network");
    let asked = |address: &str| {
        let key = if address.contains(':') { "IPv6Address" } else { "IPv4Address" };
        json!({
            "HostConfig": { "NetworkMode": "only" },
            "NetworkingConfig": { "EndpointsConfig": { "only": { "IPAMConfig": { key: address } } } },
        })
    };
    assert!(world.run("ip addr", asked("fd00:56::99")).ok().contains("fd00:56::99/64"));
    let id = world.root.create("no", body(&["true"], asked("172.18.0.99")));
    fails(
        engine.container_start(&id, None, Some(&soon())),
        ErrorKind::Invalid,
        "only when connecting to networks with",
    );
    // Errors of the request come before errors about the container.
    let isolated = world.root.create("isolated", body(&["true"], json!({})));
    let alias = json!({ "Container": isolated, "EndpointConfig": { "Aliases": ["foo"] } });
    fails(
        engine.network_connect("bridge", &typed(alias), None),
        ErrorKind::Invalid,
        "network-scoped alias is supported only for containers in user defined networks",
    );
    let id = world.root.create("self", body(&["true"], host(json!({ "NetworkMode": "container:self" }))));
    fails(engine.container_start(&id, None, Some(&soon())), ErrorKind::Internal, "cannot join own network");
}

#[test]
fn the_configuration_s_hardware_address_is_the_one_on_the_network_of_the_mode() {
    const MAC: &str = "02:11:22:33:44:55";
    let world = World::new();
    for name in ["alpha", "omega"] {
        world.network(json!({ "Name": name })).expect("a network");
    }
    let connect = |network: &str, id: &str| {
        world.root.engine.network_connect(network, &typed(json!({ "Container": id })), None).expect("connect");
    };
    let on = |id: &str| {
        let networks = world.root.inspect(id).network_settings.networks;
        let has = |(name, end): (&String, &EndpointSettings)| (end.mac_address == MAC).then(|| name.clone());
        networks.iter().filter_map(has).collect::<Vec<_>>()
    };
    let mode = |mode: &str| json!({ "MacAddress": MAC, "HostConfig": { "NetworkMode": mode } });
    // Others come first by their names, and the default network before all.
    let id = world.root.create("one", body(&["sleep", "1000"], mode("omega")));
    connect("alpha", &id);
    connect("bridge", &id);
    world.root.start(&id);
    assert_eq!(on(&id), ["omega"]);
    let cards = world.root.exec(&id, &["sh", "-c", "cat /sys/class/net/eth*/address"]).ok();
    assert_eq!(cards.matches(MAC).count(), 1, "{cards}");
    // The alias stays with the network, even if the container leaves it and comes back.
    world.root.engine.network_disconnect("omega", &typed(json!({ "Container": id })), None).expect("disconnect");
    assert!(on(&id).is_empty());
    connect("omega", &id);
    assert_eq!(on(&id), ["omega"]);
    let id = world.sleeper("two", mode(&world.root.engine.network_inspect("alpha").expect("inspect").id));
    assert_eq!(on(&id).len(), 1);
}

#[test]
fn a_link_leads_to_the_one_whose_network_a_container_shares() {
    let world = World::new();
    let owner = world.sleeper("owner", json!({}));
    world.sleeper("guest", json!({ "HostConfig": { "NetworkMode": "container:owner" } }));
    let out = world.run("grep db /etc/hosts; env | grep DB_NAME", host(json!({ "Links": ["guest:db"] })));
    let said = out.ok();
    assert!(said.starts_with(&format!("{}\tdb {}", world.ip(&owner), &owner[..12])), "{said}");
    let shared = host(json!({ "NetworkMode": "container:owner", "Links": ["owner:db"] }));
    let text = "container type network can't be used with links. This would result in undefined behavior";
    fails(world.root.try_create("no", body(&["true"], shared)), ErrorKind::Invalid, text);
}

#[test]
fn a_container_that_does_not_run_leaves_networks_also_such_as_are_gone() {
    let world = World::new();
    let engine = &world.root.engine;
    for name in ["stays", "goes"] {
        world.network(json!({ "Name": name })).expect("a network");
    }
    let id = world.root.create("member", body(&["true"], host(json!({ "NetworkMode": "goes" }))));
    engine.network_connect("stays", &typed(json!({ "Container": id })), None).expect("connect");
    let mut events = engine.events(&EventQuery::default()).expect("events");
    engine.network_disconnect("stays", &typed(json!({ "Container": id })), None).expect("disconnect");
    let seen = events_until(&mut events, |event| event.action == "disconnect");
    assert_eq!(seen.last().expect("an event").actor.attributes["container"], id);
    engine.network_remove("goes").expect("remove");
    engine.network_disconnect("goes", &typed(json!({ "Container": id })), None).expect("disconnect");
    assert!(world.root.inspect(&id).network_settings.networks.is_empty());
    fails(
        engine.network_disconnect("goes", &typed(json!({ "Container": id })), None),
        ErrorKind::Internal,
        "is not connected to the network goes",
    );
}

#[test]
fn an_alias_of_a_link_may_have_slashes() {
    let world = World::new();
    let child = world.sleeper("child", json!({}));
    let network = json!({ "NetworkMode": "bridge", "Links": ["child:a/b", "child:/x"] });
    let out =
        world.run("grep child /etc/hosts | cut -f 2 | cut -d ' ' -f 1 | sort; env | grep _NAME= | sort", host(network));
    let said = out.ok();
    assert!(said.starts_with("b\nx\nB_NAME=/") && said.contains("/a/b\nX_NAME=/"), "{said}");
    world
        .root
        .engine
        .container_remove(&child, RemoveContainer { force: true, ..Default::default() }, None)
        .expect("remove");
}

#[test]
fn documents_and_lists_over_http_are_as_dockerd_answers_them() {
    let served = Served::new();
    let socket = &served.socket;
    let create = json!({ "Image": IMAGE, "Cmd": ["a&b<c>"], "HostConfig": { "NetworkMode": "none" } });
    assert_eq!(call(socket, "POST", "/containers/create?name=marked", Some(&create)).0, 201);
    let (_, text) = call_bytes(socket, "GET", "/containers/marked/json", b"");
    assert!(String::from_utf8_lossy(&text).contains("[\"a&b<c>\"]"));
    // dockerd has the id of a network in a container only after its start.
    assert_eq!(call(socket, "POST", "/volumes/create", Some(&json!({ "Name": "local-one" }))).0, 201);
    let volumes = |driver: &str| {
        let filters = format!("%7B%22driver%22%3A%5B%22{driver}%22%5D%7D");
        let (_, text) = call_bytes(socket, "GET", &format!("/volumes?filters={filters}"), b"");
        String::from_utf8_lossy(&text).contains("local-one")
    };
    assert_eq!((volumes("local"), volumes("loc")), (true, false));
    // A configuration that comes with a start has lists where it names none.
    let body = json!({ "Binds": ["/tmp:/q"] });
    let started = {
        let mut stream = std::os::unix::net::UnixStream::connect(socket).expect("connect");
        let text = body.to_string();
        let head = format!(
            "POST /v1.18/containers/marked/start HTTP/1.0\r\nHost: x\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{text}",
            text.len()
        );
        std::io::Write::write_all(&mut stream, head.as_bytes()).expect("send");
        let mut answer = String::new();
        std::io::Read::read_to_string(&mut stream, &mut answer).expect("an answer");
        answer
    };
    // The command is missing.
    assert!(started.starts_with("HTTP/1.0 "), "{started}");
    let host = crate::oracle::document(&call(socket, "GET", "/containers/marked/json", None).1)["HostConfig"].clone();
    assert_eq!((&host["Dns"], &host["DnsSearch"], &host["Binds"]), (&json!([]), &json!([]), &json!(["/tmp:/q"])));
}

#[test]
fn steps_of_a_build_that_dockerd_refuses_or_takes() {
    let served = Served::new();
    let build = |text: &str| {
        let dir = served.root.dir.join("context");
        std::fs::create_dir_all(&dir).expect("a directory");
        std::fs::write(dir.join("Dockerfile"), text).expect("a file");
        let tar = std::process::Command::new("tar").arg("-cC").arg(&dir).arg(".").output().expect("tar");
        let (status, answer) = call_bytes(&served.socket, "POST", "/build", &tar.stdout);
        assert_eq!(status, 200);
        String::from_utf8(answer).expect("text")
    };
    // The image's own command runs.
    assert!(build("FROM busybox\nCMD [\"true\"]\nRUN []\n").contains("Successfully built"));
    let said = build("FROM busybox\nRUN echo a > /f\nVOLUME /f\nRUN echo b\n");
    assert!(said.contains("cannot mount volume over existing file, file exists /f"), "{said}");
    assert!(!said.contains("Step 4/4"), "{said}");
}
