//! `RUN --mount`: what a step sees, what stays of it, and what it must not reach.

use crate::build::{build, build_with, context, nothing_left, plain, refused, sh, try_build};
use crate::container_later_fields::ask;
use crate::support::*;
use coracle::ErrorKind;
use coracle::model::*;
use coracle_http::Router;
use serde_json::json;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Command;

fn cached(said: &str) -> usize {
    said.matches(" ---> Using cache").count()
}

/// The output of a script in a container of an image, also of a script that fails.
fn said_by(root: &Root, image: &str, script: &str) -> String {
    sh(root, image, &format!("{script}; true"))
}

#[test]
fn a_bind_shows_the_context_and_counts_in_the_cache() {
    let root = Root::new();
    let file = "FROM busybox\nWORKDIR /w\nRUN --mount=target=/src,source=sub --mount=source=one,dst=copied \
                cat /src/in copied > /out; echo x > /src/new || echo read-only >> /out\n";
    let files =
        |content: &[u8]| context(file).dir("sub").file("sub/in", content).file("one", b"1\n").file("other", b"");
    let (id, said) = build(&root, files(b"inside\n"));
    assert_eq!(said_by(&root, &id, "cat /out; ls -d /src /w/* 2>/dev/null"), "inside\n1\nread-only", "{said}");
    assert_eq!(cached(&build(&root, files(b"inside\n").file("more", b"")).1), 2);
    let (other, said) = build(&root, files(b"changed\n"));
    assert_eq!((cached(&said), sh(&root, &other, "head -n1 /out")), (1, "changed".into()));
    nothing_left(&root);
}

#[test]
fn a_bind_shows_stages_and_images_and_loses_what_is_written() {
    let root = Root::new();
    let file = "FROM busybox AS one\nRUN mkdir /made && echo of-stage > /made/f && ln -s made /link\n\
                FROM busybox\n\
                RUN --mount=from=one,source=/link,target=/a,rw cat /a/f > /out; echo more >> /a/f; cat /a/f >> /out\n\
                RUN --mount=type=bind,from=one,target=/b cat /b/made/f >> /out; /b/bin/busybox echo runs >> /out\n\
                RUN --mount=from=busybox,source=bin,target=/c ls /c/sh >> /out\n\
                RUN --mount=target=/d,readwrite echo x > /d/f && cat /d/f >> /out\n\
                RUN --mount=target=/e ls /e >> /out\n";
    let (id, said) = build(&root, context(file));
    let want = "of-stage\nof-stage\nmore\nof-stage\nruns\n/c/sh\nx\nDockerfile";
    assert_eq!(said_by(&root, &id, "cat /out; ls -d /[a-e] 2>/dev/null"), want, "{said}");
    nothing_left(&root);
}

#[test]
fn a_cache_survives_builds_and_is_in_no_layer() {
    let root = Root::new();
    let with = |options: &str, command: &str| {
        let file = format!("FROM busybox\nRUN --mount=type=cache,target=/c{options} {command}\n");
        let how = BuildImage { nocache: true, ..plain() };
        let (id, _) = build_with(&root, &how, context(&file));
        said_by(&root, &id, "cat /out; ls -d /c 2>/dev/null")
    };
    let count = "echo x >> /c/n; wc -l < /c/n > /out";
    assert_eq!(with("", count), "1");
    assert_eq!(with(",sharing=locked", count), "2");
    assert_eq!(with(",sharing=private", count), "3");
    let twice = ",sharing=locked --mount=type=cache,target=/d,id=/c,sharing=locked";
    assert_eq!(with(twice, "wc -l < /d/n > /out"), "3");
    assert_eq!(with(",id=other", count), "1");
    assert_eq!(with(",mode=0700,uid=7,gid=8", "stat -c '%a %u %g' /c > /out"), "700 7 8");
    assert_eq!(with(",ro", "cat /c/n > /out; touch /c/y || echo refused >> /out"), "x\nx\nx\nrefused");
    // A stage gives the first content of a new cache.
    let file = "FROM busybox AS seed\nRUN mkdir /s && echo seed > /s/f\nFROM busybox\n\
                RUN --mount=type=cache,target=/c,from=seed,source=s cat /c/f > /out; echo more >> /c/f\n\
                RUN --mount=type=cache,target=/c,from=seed,source=s cat /c/f >> /out\n";
    let (id, _) = build(&root, context(file));
    assert_eq!(sh(&root, &id, "cat /out"), "seed\nseed\nmore");
    nothing_left(&root);
}

#[test]
fn a_tmpfs_is_empty_and_leaves_nothing() {
    let root = Root::new();
    let file = "FROM busybox\nRUN mkdir -p /there && echo kept > /there/f\n\
                RUN --mount=type=tmpfs,target=/there,size=1m --mount=type=tmpfs,target=/new/deep \
                df -k /there | tail -n1 | awk '{print $2}' > /out; ls /there >> /out; echo x > /new/deep/y\n";
    let (id, _) = build(&root, context(file));
    assert_eq!(said_by(&root, &id, "cat /out; cat /there/f; ls -d /new 2>/dev/null"), "1024\nkept");
    let (id, _) = build_with(&root, &BuildImage { rm: false, nocache: true, ..plain() }, context(file));
    assert_eq!(said_by(&root, &id, "ls -d /new 2>/dev/null; cat /there/f"), "kept");
    // A place that the step itself fills stays.
    let file = "FROM busybox\nRUN --mount=type=tmpfs,target=/new/deep touch /new/own\n";
    let (id, _) = build(&root, context(file));
    assert_eq!(sh(&root, &id, "ls -a /new"), ".\n..\nown");
}

#[test]
fn a_secret_reaches_its_step_and_nothing_else() {
    let root = Root::new();
    const VALUE: &str = "correct-horse-battery";
    let path = root.dir.join("secret");
    std::fs::write(&path, VALUE).expect("a file");
    let of_file = BuildSecret { id: "file".into(), src: path.to_string_lossy().into(), ..BuildSecret::default() };
    let given = BuildSecret { id: "given".into(), value: Some(VALUE.into()), ..BuildSecret::default() };
    assert!(!format!("{given:?}").contains(VALUE));
    let file = "FROM busybox\n\
                RUN --mount=type=secret,id=file --mount=type=secret,id=given,target=/etc/key,mode=0440,uid=3,gid=4 \
                wc -c < /run/secrets/file > /out; stat -c '%a %u %g' /run/secrets/file /etc/key >> /out\n\
                ENV KEY=of-the-image\n\
                RUN --mount=type=secret,id=given,env=KEY echo ${#KEY} >> /out; ls -d /run/secrets >> /out 2>&1; true\n\
                RUN --mount=type=secret,id=absent ls /run/secrets >> /out 2>&1 || echo none >> /out\n";
    let how = BuildImage { secrets: vec![of_file, given.clone()], ..plain() };
    let (id, said) = build_with(&root, &how, context(file));
    let want = "21\n400 0 0\n440 3 4\n21\nls: /run/secrets: No such file or directory\n\
                ls: /run/secrets: No such file or directory\nnone";
    assert_eq!(said_by(&root, &id, "cat /out; ls -d /run/secrets /etc/key 2>/dev/null"), want, "{said}");
    // Another value is the same step.
    let other = BuildSecret { value: Some("x".into()), ..given };
    let (_, again) = build_with(&root, &BuildImage { secrets: vec![other], ..plain() }, context(file));
    assert_eq!(cached(&again), 4);

    let history = format!("{:?}", root.engine.image_history(&id).expect("history"));
    assert!(history.contains("type=secret,target=/run/secrets/file,id=file") && !history.contains(VALUE), "{history}");
    let found = Command::new("grep").args(["-rlF", VALUE]).args(["root", "run"]).current_dir(&*root.dir).output();
    assert_eq!(String::from_utf8_lossy(&found.expect("grep").stdout), "");

    let file = "FROM busybox\nRUN --mount=type=secret,id=absent,required true\n";
    refused(&root, &plain(), context(file), ErrorKind::NotFound, "secret absent: not found");
    nothing_left(&root);
}

#[test]
fn an_agent_is_reached_by_the_step_that_mounts_it() {
    let root = Root::new();
    let socket = root.dir.join("agent");
    let agent = UnixListener::bind(&socket).expect("an agent");
    std::thread::spawn(move || {
        for client in agent.incoming() {
            let mut client = client.expect("a connection");
            let mut question = [0; 4];
            if client.read_exact(&mut question).is_ok() {
                let _ = client.write_all(if &question == b"list" { b"one key\n" } else { b"what?\n" });
            }
        }
    });
    let file = "FROM busybox\nRUN --mount=type=ssh,mode=0666 echo $SSH_AUTH_SOCK > /out; \
                stat -c '%a %F' $SSH_AUTH_SOCK >> /out; until [ -e /go ]; do sleep 0.05; done; rm /go\n\
                RUN ls -d /run/buildkit >> /out 2>&1; echo \"<$SSH_AUTH_SOCK>\" >> /out\n";
    let ssh = BuildSsh { id: "default".into(), socket: socket.to_string_lossy().into() };
    let how = BuildImage { ssh: vec![ssh], ..plain() };
    let answers = || {
        let running = || root.engine.container_list(&ListContainers::default()).expect("list");
        wait_for("the step", || running().first().is_some_and(|one| one.command.contains("until")));
        let place = format!("/proc/{}/root", root.pid(&running()[0].id));
        wait_for("its output", || std::fs::read_to_string(format!("{place}/out")).is_ok_and(|out| out.contains("666")));
        let ask = || {
            let mut stream = UnixStream::connect(format!("{place}/run/buildkit/ssh_agent.0")).expect("the socket");
            stream.write_all(b"list").expect("a question");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).expect("an answer");
            answer
        };
        let answers = [ask(), ask()];
        std::fs::write(format!("{place}/go"), "").expect("a file");
        answers
    };
    let (built, answers) = std::thread::scope(|scope| {
        let asked = scope.spawn(answers);
        let (built, said) = try_build(&root, &how, context(file));
        (built.unwrap_or_else(|e| panic!("{e}: {said}")), asked.join().expect("the asking"))
    });
    assert_eq!(answers, ["one key\n", "one key\n"]);
    let want = "/run/buildkit/ssh_agent.0\n666 socket\nls: /run/buildkit: No such file or directory\n<>";
    assert_eq!(sh(&root, &built, "cat /out"), want);
    let file = "FROM busybox\nRUN --mount=type=ssh,required true\n";
    refused(&root, &plain(), context(file), ErrorKind::NotFound, "ssh default: the build has no agent of that id");
    nothing_left(&root);
}

#[test]
fn no_link_leads_a_mount_to_the_host() {
    let root = Root::new();
    let outside = root.dir.join("outside");
    std::fs::create_dir(&outside).expect("a directory");
    std::fs::write(outside.join("host"), "of the host").expect("a file");
    let path = outside.to_string_lossy().into_owned();
    let up = format!("{}{}", "../".repeat(9), path.trim_start_matches('/'));
    let context_of = |file: &str| {
        context(file).symlink("away", &path).symlink("up", &up).dir("d").symlink("d/far", "/../../../../../..")
    };
    for source in ["away", "up", "away/host", "d/far/etc/passwd", "../../../../etc"] {
        let file = format!("FROM busybox\nRUN --mount=source={source},target=/m cat /m /m/* 2>/dev/null; ls /m\n");
        let (built, said) = try_build(&root, &plain(), context_of(&file));
        let shown = said.contains("of the host") || said.contains("root:") || said.contains("\nhost\n");
        assert!(built.is_err() && !shown, "{source}: {said}");
    }
    for from in ["away", "up"] {
        let file = format!(
            "FROM busybox AS one\nRUN ln -s {path} /away; ln -s {up} /up\nFROM busybox\n\
             RUN --mount=from=one,source={from},target=/m,rw ls /m; touch /m/made\n"
        );
        assert!(try_build(&root, &plain(), context(&file)).0.is_err(), "{from}");
    }
    // A target behind a link of the image is in the image.
    for link in [path.as_str(), up.as_str()] {
        let file = format!(
            "FROM busybox\nRUN mkdir /x && ln -s {link} /link && ln -s /../../.. /x/up\n\
             RUN --mount=target=/link/sub --mount=type=tmpfs,target=/x/up/{path}/t ls /link/sub > /out\n"
        );
        let (id, _) = build(&root, context(&file));
        assert_eq!(sh(&root, &id, "cat /out"), "Dockerfile");
    }
    let names: Vec<_> = std::fs::read_dir(&outside).expect("it").map(|e| e.expect("an entry").file_name()).collect();
    assert_eq!(names, ["host"]);
    nothing_left(&root);
}

/// A step that puts a link where the place of its mount was does not lead the removal of places elsewhere.
#[test]
fn a_place_that_became_a_link_is_left() {
    let root = Root::new();
    let outside = root.dir.join("outside");
    std::fs::create_dir_all(outside.join("empty")).expect("directories");
    let file = format!(
        "FROM busybox\nRUN --mount=type=tmpfs,target=/a/empty mkdir /b && mv /a /b/a 2>/dev/null; true\n\
         RUN --mount=type=tmpfs,target=/c/empty umount /c/empty 2>/dev/null; ln -s {} /d\n",
        outside.display()
    );
    let (id, _) = build(&root, context(&file));
    assert!(outside.join("empty").exists());
    assert_eq!(sh(&root, &id, "ls -d /b; readlink /d"), format!("/b\n{}", outside.display()));
}

/// A directory of the image that a step copied only for the place of a mount goes again, unless the step changed it: its
/// attributes are a change, too.
#[test]
fn a_directory_whose_attributes_alone_changed_stays_in_the_layer() {
    let root = Root::new();
    let source = root.dir.join("attribute.c");
    let text = "#include <sys/xattr.h>\n#include <unistd.h>\nint main(int n, char **w) {\n\
                return n > 2 ? -setxattr(w[1], \"user.note\", w[2], 1, 0) : getxattr(w[1], \"user.note\", 0, 0) != 1;\n}\n";
    std::fs::write(&source, text).expect("write");
    let program = source.with_extension("");
    let made = Command::new("cc").args(["-static", "-o"]).arg(&program).arg(&source).status().expect("run cc");
    assert!(made.success());
    let program = std::fs::read(program).expect("read the program");
    let file = "FROM busybox\nCOPY --chmod=755 attribute /\nRUN mkdir /p /o\n\
                RUN --mount=type=tmpfs,target=/p/q --mount=type=tmpfs,target=/o/q /attribute /p x\n";
    let (id, _) = build(&root, context(file).file("attribute", &program));
    assert_eq!(sh(&root, &id, "/attribute /p && ls -A /p && /attribute /o || echo none"), "none");
    let layers = root.engine.image_inspect(&id).expect("inspect").root_fs.layers.expect("layers");
    assert_eq!(layers.len(), 4, "the last step has a layer");
    nothing_left(&root);
}

#[test]
fn wrong_mounts_are_named() {
    let root = Root::new();
    for (mount, kind, want) in [
        ("type=volume,target=/x", ErrorKind::Invalid, "unsupported mount type \"volume\""),
        ("type=bind", ErrorKind::Invalid, "a mount of type 'bind' takes a 'target'"),
        ("type=cache,target=/c,colour=red", ErrorKind::Invalid, "unexpected key 'colour'"),
        ("type=cache,target=/c,dst=/d", ErrorKind::Invalid, "duplicate key 'target'"),
        ("type=tmpfs,target=/", ErrorKind::Invalid, "invalid mount target \"/\""),
        ("source=nothing,target=/x", ErrorKind::NotFound, "nothing: file does not exist"),
        ("from=$v,target=/x", ErrorKind::Invalid, "'from' doesn't support variable expansion"),
        ("from=7,target=/x", ErrorKind::Invalid, "invalid from flag value 7"),
    ] {
        let file = format!("FROM busybox\nARG v=1\nRUN --mount={mount} true\n");
        refused(&root, &plain(), context(&file), kind, want);
    }
    // Variables are put in.
    let file = "FROM busybox\nARG d=/there\nRUN --mount=target=$d ls $d > /out\n";
    let (id, _) = build(&root, context(file));
    assert_eq!(sh(&root, &id, "cat /out"), "Dockerfile");
}

/// The locks of 280 caches would fill the queue in which they wait for the monitor.
#[test]
fn a_step_with_too_many_mounts_locks_none_of_its_caches() {
    let root = Root::new();
    let caches = |count: usize| {
        let mounts: String =
            (0..count).map(|number| format!("--mount=type=cache,id=c{number},target=/c/{number} ")).collect();
        context(&format!("FROM busybox\nENV A=1\nRUN {mounts} ls /c | wc -l > /out\n"))
    };
    for count in [32, 280] {
        let want = "dockerfile line 3: RUN --mount: a step takes at most 31 mounts";
        refused(&root, &plain(), caches(count), ErrorKind::Unsupported, want);
    }
    assert!(!root.dir.join("root/caches").exists(), "a cache was made");
    let (id, _) = build(&root, caches(31));
    assert_eq!(sh(&root, &id, "cat /out"), "31");
    nothing_left(&root);
}

#[test]
fn a_mount_below_another_one_is_seen() {
    let root = Root::new();
    let file = "FROM busybox\nRUN --mount=type=cache,target=/app/kept --mount=type=bind,source=dir,target=/app \
                echo more >> /app/kept/f; cat /app/kept/f /app/own > /out\n";
    let how = BuildImage { nocache: true, ..plain() };
    let files = || context(file).dir("dir").dir("dir/kept").file("dir/own", b"own\n");
    build_with(&root, &how, files());
    let (id, said) = build_with(&root, &how, files());
    assert_eq!(said_by(&root, &id, "cat /out"), "more\nmore\nown", "{said}");
}

/// Each step takes its caches in one order, whatever the order of its options is.
#[test]
fn steps_that_share_two_caches_do_not_wait_for_each_other_for_ever() {
    let root = Root::new();
    let how = BuildImage { nocache: true, ..plain() };
    let round = |first: &str, second: &str| {
        let run = format!(
            "RUN --mount=type=cache,id={first},target=/a,sharing=locked --mount=type=cache,id={second},target=/b,sharing=locked \
             echo x >> /a/f; sleep 0.1; echo x >> /b/f\n"
        );
        build_with(&root, &how, context(&format!("FROM busybox\n{}", run.repeat(3))));
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| round("two", "one"));
        round("one", "two");
        other.join().expect("the other build");
    });
    let file = "FROM busybox\nRUN --mount=type=cache,id=one,target=/a cat /a/f | wc -l > /out\n";
    let (id, _) = build_with(&root, &how, context(file));
    assert_eq!(said_by(&root, &id, "cat /out"), "6");
}

#[test]
fn caches_are_counted_and_pruned_unless_a_step_uses_them() {
    let root = Root::new();
    let router = Router::new(root.engine.clone());
    let file = "FROM busybox\nRUN --mount=type=cache,target=/c,id=one echo 12345 > /c/f\n\
                RUN --mount=type=cache,target=/c,id=two true\n";
    build(&root, context(file));
    let list = || root.engine.disk_usage(DiskUsageQuery::ALL, None).expect("usage").build_cache;
    let caches = list();
    let one = caches.iter().find(|cache| cache.description == "cached mount one").expect("the cache");
    assert_eq!((caches.len(), one.size, one.in_use, one.kind.as_str()), (2, 6, false, "exec.cachemount"));
    let (_, usage) = ask(&router, "GET", "/v1.44/system/df?type=build-cache");
    assert_eq!((usage["BuildCache"].as_array().map(Vec::len), &usage["Images"]), (Some(2), &json!(null)));

    // While a step uses one, only the other goes.
    let file =
        "FROM busybox\nRUN --mount=type=cache,target=/c,id=one echo up; until [ -e /c/go ]; do sleep 0.05; done\n";
    let prune = || {
        let running = || root.engine.container_list(&ListContainers::default()).expect("list");
        wait_for("the step", || running().first().is_some_and(|container| container.command.contains("until")));
        let place = format!("/proc/{}/root/c", root.pid(&running()[0].id));
        wait_for("the cache", || std::fs::read_to_string(format!("{place}/f")).is_ok());
        assert!(list().iter().any(|cache| cache.in_use));
        let (status, pruned) = ask(&router, "POST", "/v1.44/build/prune");
        std::fs::write(format!("{place}/go"), "").expect("a file");
        (status, pruned)
    };
    let (status, pruned) = std::thread::scope(|scope| {
        let pruned = scope.spawn(prune);
        build(&root, context(file));
        pruned.join().expect("the prune")
    });
    assert_eq!((status, pruned["CachesDeleted"].as_array().map(Vec::len)), (200, Some(1)), "{pruned}");
    let until = |key: &str, value: &str| Filters::from([(key.to_owned(), vec![value.to_owned()])]);
    assert!(root.engine.build_prune(&until("until", "1h"), None).expect("prune").caches_deleted.is_empty());
    assert!(root.engine.build_prune(&until("type", "regular"), None).expect("prune").caches_deleted.is_empty());
    fails(root.engine.build_prune(&until("colour", "red"), None), ErrorKind::Invalid, "Invalid filter 'colour'");
    let (status, told) = ask(&router, "POST", "/v1.44/build/prune?keep-storage=1.5");
    let text =
        "keep-storage is in bytes and expects an integer, got 1.5: strconv.Atoi: parsing \"1.5\": invalid syntax";
    assert_eq!((status, &told["message"]), (400, &json!(text)));
    assert_eq!(ask(&router, "POST", "/v1.48/build/prune?filters=%7B%22reserved-space%22%3A%5B%221%22%5D%7D").0, 400);
    let pruned = root.engine.build_prune(&until("id", &one.id[..12]), None).expect("prune");
    assert_eq!((pruned.caches_deleted, pruned.space_reclaimed), (vec![one.id.clone()], 6));
    assert_eq!(list(), []);
    assert_eq!(std::fs::read_dir(root.dir.join("root/caches")).expect("caches").count(), 0);
}

/// A heredoc that begins with `#!` is a program for its interpreter, as with BuildKit: nothing of it is in the layer, and the cache
/// knows its content.
#[test]
fn a_heredoc_is_run_by_the_interpreter_that_it_names() {
    let root = Root::new();
    let file = |text: &str| {
        format!("FROM busybox\nENV a=of-env\nRUN <<-EOF.sh\n\t#!/bin/awk -f\n\tBEGIN {{ {text} }}\n\tEOF.sh\n")
    };
    let awk = r#"print ENVIRON["a"] > "/said"; getline < "/dev/pipes/EOF.sh"; print > "/first""#;
    let (id, _) = build(&root, context(&file(awk)));
    assert_eq!(sh(&root, &id, "cat /said /first; ! ls -a /dev | grep pipes"), "of-env\n#!/bin/awk -f");
    let (again, said) = build(&root, context(&file(awk)));
    assert!(again == id && said.contains("Using cache"), "{said}");
    let (other, said) = build(&root, context(&file(r#"print "other" > "/said""#)));
    assert!(other != id && !said.contains("RUN <<-EOF.sh\n ---> Using cache"), "{said}");
    assert_eq!(sh(&root, &other, "cat /said"), "other");
    // The file is as BuildKit's: executable, root's and read-only, beside the other mounts of the step.
    let file = "FROM busybox\nRUN --mount=type=tmpfs,target=/t <<'EOF'\n#!/bin/sh -e\n\
                stat -c '%a %u:%g %n' /dev/pipes/* > /t/x\n! touch /dev/pipes/y\necho $0 >> /t/x\ncp /t/x /x\nEOF\n";
    let (id, _) = build(&root, context(file));
    assert_eq!(sh(&root, &id, "cat /x"), "755 0:0 /dev/pipes/EOF\n/dev/pipes/EOF");
    for (file, text) in [
        ("FROM busybox\nRUN <<EOF\n#!/none/here\nEOF\n", "returned a non-zero code: 127"),
        (
            "FROM busybox\nRUN --mount=target=/dev/pipes/x <<EOF\n#!/bin/sh\nEOF\n",
            "/dev/pipes is the place of the heredoc",
        ),
    ] {
        let error = try_build(&root, &BuildImage { forcerm: true, ..plain() }, context(file)).0.expect_err(file);
        assert!(error.message().contains(text), "{file}: {error}");
    }
    let changes = root.engine.image_inspect(&id).expect("inspect").root_fs.layers.expect("layers");
    assert_eq!(changes.len(), 2);
    nothing_left(&root);
}

/// The caches that a prune with bounds leaves are those that were used last.
#[test]
fn a_prune_keeps_as_much_as_its_bounds_say() {
    let root = Root::new();
    let router = Router::new(root.engine.clone());
    let mount = |id: &str| format!("--mount=type=cache,target=/c,id={id}");
    let fill = |ids: &[&str]| {
        for id in ids {
            let file = format!("FROM busybox\nRUN {} head -c 1000 /dev/zero > /c/{id}\n", mount(id));
            build(&root, context(&file));
        }
    };
    let left = || {
        let all = root.engine.disk_usage(DiskUsageQuery::ALL, None).expect("usage").build_cache;
        let mut ids: Vec<String> = all.iter().map(|one| one.description.replace("cached mount ", "")).collect();
        ids.sort();
        ids.join(" ")
    };
    let prune = |query: &str| {
        let (status, pruned) = ask(&router, "POST", query);
        assert_eq!(status, 200, "{query}: {pruned}");
        pruned["SpaceReclaimed"].as_u64().expect("bytes")
    };
    fill(&["one", "two", "three"]);
    assert_eq!(prune("/v1.47/build/prune?keep-storage=3000"), 0);
    assert_eq!(prune("/v1.48/build/prune?min-free-space=1"), 0);
    assert_eq!((prune("/v1.31/build/prune?keep-storage=2999"), left()), (1000, "three two".into()));
    assert_eq!((prune("/v1.48/build/prune?max-used-space=1500"), left()), (1000, "three".into()));
    // No file system has so much free; the reserved space stays all the same.
    let all_free = format!("min-free-space={}", i64::MAX);
    assert_eq!(prune(&format!("/v1.48/build/prune?{all_free}&reserved-space=1000")), 0);
    assert_eq!((prune(&format!("/v1.54/build/prune?{all_free}")), left()), (1000, String::new()));
    fill(&["four", "five"]);
    let bound = Filters::from([("max-used-space".to_owned(), vec!["1000".to_owned()])]);
    let pruned = root.engine.build_prune(&bound, None).expect("prune");
    assert_eq!((pruned.space_reclaimed, left()), (1000, "five".into()));
    let wrong = Filters::from([("max-used-space".to_owned(), vec!["1k".to_owned()])]);
    fails(root.engine.build_prune(&wrong, None), ErrorKind::Invalid, "Invalid filter 'max-used-space=[1k]'");
}

#[test]
fn a_killed_build_leaves_its_cache_whole_and_free() {
    let root = Root::new();
    let dir = root.dir.join("context");
    std::fs::create_dir(&dir).expect("a directory");
    let coracle = |words: &[&str]| {
        let mut command = Command::new(built("coracle"));
        command.args(["--root".as_ref(), root.dir.join("root").as_os_str()]);
        command.args(["--run".as_ref(), root.dir.join("run").as_os_str()]).args(words).env("TOKEN", "a-token");
        command
    };
    let file = "FROM busybox\nRUN --mount=type=cache,target=/c --mount=type=secret,id=t,required --mount=type=secret,id=TOKEN \
                cat /run/secrets/t /run/secrets/TOKEN > /c/f; sleep 100\n";
    std::fs::write(dir.join("Dockerfile"), file).expect("write");
    std::fs::write(dir.join("t"), "of-a-file ").expect("write");
    let (path, secret) = (dir.to_string_lossy(), format!("id=t,src={}", dir.join("t").display()));
    let words = ["build", "--network", "none", "--secret", &secret, "--secret", "id=TOKEN", &path];
    let mut child = coracle(&words).stdout(std::process::Stdio::null()).spawn().expect("run coracle build");
    let list = || root.engine.disk_usage(DiskUsageQuery::ALL, None).expect("usage").build_cache;
    wait_for("the cache", || list().first().is_some_and(|cache| cache.in_use && cache.size == 17));
    // Directories as of a maker and of a prune that were killed.
    for left in ["making-1", "removing-1"] {
        std::fs::create_dir(root.dir.join("root/caches").join(left)).expect("a directory");
    }
    child.kill().expect("kill it");
    child.wait().expect("its end");
    // The step runs on until a program opens the root, and has its cache as long.
    let pruned = root.engine.build_prune(&Filters::default(), None).expect("prune");
    assert!(pruned.caches_deleted.is_empty() && list()[0].in_use, "{:?}", list());
    drop(root.reopen());
    wait_for("the end of the step's monitor", || !list()[0].in_use);
    let caches = list();
    assert_eq!((caches.len(), caches[0].in_use, caches[0].size), (1, false, 17));
    let (id, _) = build(&root, context("FROM busybox\nRUN --mount=type=cache,target=/c cat /c/f > /out\n"));
    assert_eq!(sh(&root, &id, "cat /out"), "of-a-file a-token");
    let pruned = coracle(&["builder", "prune", "-f"]).output().expect("run coracle builder prune");
    let out = String::from_utf8_lossy(&pruned.stdout).into_owned();
    assert!(out.starts_with(&format!("Deleted build caches:\n{}\n", caches[0].id)), "{out}");
    assert_eq!(list(), []);
    nothing_left(&root);
}
