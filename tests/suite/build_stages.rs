//! Builds whose stages are built side by side: `stages=parallel`, `version=2` of `POST /build`, `coracle build --progress`.

use super::build::{build, build_with, config, context, nothing_left, plain, refused, sh, try_build};
use crate::docker_cli::Served;
use crate::support::*;
use coracle::model::*;
use coracle::{Context, ErrorKind, Op};
use std::process::Command;

fn parallel() -> BuildImage {
    BuildImage { stages: "parallel".into(), forcerm: true, ..plain() }
}

/// Each of two stages waits for a file of the other: in turn they would wait for ever.
const TOGETHER: &str = "\
FROM busybox AS one
RUN --mount=type=cache,target=/c touch /c/one; until [ -e /c/two ]; do sleep 0.05; done; echo from one | tee /f
FROM busybox AS two
RUN --mount=type=cache,target=/c touch /c/two; until [ -e /c/one ]; do sleep 0.05; done; echo from two >&2; echo 2 > /f
FROM busybox
ENV A=1
COPY --from=one /f /one
COPY --from=1 /f /two
RUN cat /one /two > /all
";

#[test]
fn stages_that_do_not_need_each_other_are_built_side_by_side() {
    let root = Root::new();
    let how = BuildImage { t: vec!["both".into()], ..parallel() };
    let (id, said) = build_with(&root, &how, context(TOGETHER));
    assert_eq!(sh(&root, "both", "cat /all; echo $A"), "from one\n2\n1");
    for line in
        ["[one 1/2] FROM busybox AS one\n", "[stage-2 4/4] RUN cat /one /two > /all\n", " naming to both:latest\n"]
    {
        assert!(said.contains(line), "{said}");
    }
    // Each line has the number of its step, whichever stage it is of.
    let number = |text: &str| {
        let line = said.lines().find(|line| line.ends_with(text)).unwrap_or_else(|| panic!("{text}: {said}"));
        line.split(' ').next().expect("a number").to_owned()
    };
    let of_step = |text: &str| {
        let line = said.lines().find(|line| line.contains(text)).unwrap_or_else(|| panic!("{text}: {said}"));
        line.split(' ').next().expect("a number").to_owned()
    };
    assert_eq!(number(" from one"), of_step("[one 2/2] RUN"));
    assert_eq!(number(" from two"), of_step("[two 2/2] RUN"));
    assert!(!said.contains("Step ") && !said.contains("--->") && !said.contains("\u{1b}"), "{said}");
    // The cache is the same as that of builds in order, which stay as they were.
    let (again, said) = build_with(&root, &parallel(), context(TOGETHER));
    assert_eq!((again.as_str(), said.matches("CACHED").count()), (id.as_str(), 5), "{said}");
    let (again, said) = build(&root, context(TOGETHER));
    assert!(again == id && said.starts_with("Step 1/9 : FROM busybox AS one\n ---> "), "{said}");
    nothing_left(&root);
}

#[test]
fn stages_that_nothing_needs_are_left_out() {
    let root = Root::new();
    let file = "ARG base=first\nFROM busybox AS first\nRUN echo 1 > /first\nONBUILD COPY --from=third /third /third\n\
                FROM busybox AS second\nRUN exit 9\nFROM busybox AS third\nRUN echo 3 > /third\n\
                FROM busybox AS fourth\nRUN echo 4 > /fourth\nFROM $base\n\
                RUN --mount=from=fourth,source=/fourth,target=/m cat /m > /last\n";
    let (id, said) = build_with(&root, &parallel(), context(file));
    assert!(!said.contains("[second"), "{said}");
    assert_eq!(sh(&root, &id, "cat /first /third /last"), "1\n3\n4");
    assert_eq!(config(&root, &id).on_build, None);
    let (built, _) = try_build(&root, &BuildImage { forcerm: true, ..plain() }, context(file));
    assert_eq!(built.expect_err("in order").exit_code(), Some(9));
    // The target is one of them.
    let target = BuildImage { target: "second".into(), ..parallel() };
    assert_eq!(try_build(&root, &target, context(file)).0.expect_err("the target").exit_code(), Some(9));
    for (file, text) in [
        ("FROM busybox AS a\nFROM busybox AS a\n", "a stage name already used"),
        ("FROM busybox AS a\nRUN --mount=from=none-here,target=/m true\n", "none-here"),
        ("FROM busybox\nCOPY --from=0 /x /y\n", "refers to current build stage"),
    ] {
        let error = try_build(&root, &parallel(), context(file)).0.expect_err(file);
        assert!(error.message().contains(text), "{file}: {}", error.message());
    }
    let odd = BuildImage { stages: "odd".into(), ..plain() };
    refused(&root, &odd, context("FROM busybox\n"), ErrorKind::Invalid, "stages: \"odd\"");
    let squashed = BuildImage { squash: true, ..parallel() };
    let (id, _) = build_with(
        &root,
        &squashed,
        context("FROM busybox AS a\nRUN echo 1 > /a\nFROM a\nRUN echo 2 > /b\nRUN rm /a\n"),
    );
    let layers = root.engine.image_inspect(&id).expect("inspect").root_fs.layers.expect("layers");
    assert_eq!(layers.len(), 3);
    nothing_left(&root);
}

/// The triggers of an image outside of the build file are known when its stage begins. They find the stages that the stage
/// needs by itself, and no stage that only happens to be done.
#[test]
fn triggers_of_an_image_find_the_same_stages_in_every_run() {
    let root = Root::new();
    let base = "FROM busybox\nONBUILD COPY --from=made /made /of-the-trigger\n";
    build_with(&root, &BuildImage { t: vec!["triggers:1".into()], ..plain() }, context(base));
    let made = "FROM busybox AS made\nRUN echo 1 > /made\n";
    // The last stage begins when `made` is done, because `between` needs both.
    let waits = format!("{made}FROM busybox AS between\nCOPY --from=made /made /m\n");
    let (id, _) =
        build_with(&root, &parallel(), context(&format!("{waits}FROM triggers:1\nCOPY --from=between /m /n\n")));
    assert_eq!(sh(&root, &id, "cat /of-the-trigger /n"), "1\n1");
    // `made` is in the cache now, and done at once: the stage with the trigger begins when `slow` is done, long after.
    let beside = format!(
        "{made}FROM busybox AS slow\nRUN sleep 0.5\nFROM triggers:1 AS triggered\nCOPY --from=slow /bin/sh /s\n\
         FROM busybox\nCOPY --from=made /made /m\nCOPY --from=triggered /s /s\n"
    );
    let text = "invalid from flag value made: a trigger of the base image names it";
    refused(&root, &parallel(), context(&beside), ErrorKind::Unsupported, text);
    nothing_left(&root);
}

#[test]
fn a_stage_that_fails_ends_the_others() {
    let root = Root::new();
    let file = "FROM busybox AS one\nRUN --mount=type=cache,target=/c touch /c/begun; sleep 1000\nFROM busybox AS two\n\
                RUN --mount=type=cache,target=/c until [ -e /c/begun ]; do sleep 0.05; done; echo why; exit 7\n\
                FROM busybox\nCOPY --from=one / /\nCOPY --from=two / /\n";
    let (built, said) = try_build(&root, &parallel(), context(file));
    let error = built.expect_err("a stage fails");
    assert_eq!(error.exit_code(), Some(7), "{error}");
    assert!(said.contains(" why\n") && said.contains(" ERROR: The command '/bin/sh -c "), "{said}");
    nothing_left(&root);

    // So does the operation's end.
    let op = Op::new().expect("an operation");
    let bytes = context(&file.replace("exit 7", "sleep 1000")).end();
    let mut tell = |message: Progress| {
        if message.stream.contains(" why") {
            op.cancel();
        }
        Ok(())
    };
    let built = root.engine.image_build(&parallel(), Context::Tar(&mut &bytes[..]), &mut tell, Some(&op));
    fails(built, ErrorKind::Cancelled, "");
    nothing_left(&root);
}

/// The bytes that the step below has written when nothing takes them: the pipes are full, and so is the queue.
fn written(progress: &std::path::Path) -> usize {
    let bytes = || std::fs::read(progress).map_or(0, |text| text.len());
    let mut before = bytes();
    loop {
        std::thread::sleep(std::time::Duration::from_millis(1500));
        let now = bytes();
        if now > 0 && now == before {
            return now;
        }
        before = now;
    }
}

/// Whether each thread of a stage blocks all signals that can be blocked; `None`: no stage has a thread.
fn stages_block_signals() -> Option<bool> {
    let mut answer = None;
    for task in std::fs::read_dir("/proc/self/task").expect("the tasks").flatten() {
        let read = |name: &str| std::fs::read_to_string(task.path().join(name)).unwrap_or_default();
        let status = read("status");
        let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:"));
        if let (true, Some(blocked)) = (read("comm").trim() == "build-stage", blocked) {
            let signals = u64::from_str_radix(blocked.trim(), 16).expect("a mask");
            // SIGTERM, SIGINT, SIGCHLD.
            let all = [15, 2, 17].iter().all(|signal| signals & (1 << (signal - 1)) != 0);
            answer = Some(answer.unwrap_or(true) && all);
        }
    }
    answer
}

/// A host that is slow to take messages does not pay for them with memory: the step waits.
#[test]
fn a_step_waits_until_its_output_is_taken() {
    const PIECES: usize = 600;
    let root = Root::new();
    // The cache is the only place of a step that can be seen from here while the step runs.
    let file = format!(
        "FROM busybox AS one\nRUN --mount=type=cache,target=/c for i in $(seq {PIECES}); do head -c 50000 /dev/zero | tr '\\0' x; \
         echo; echo -n y >> /c/progress; done\nFROM busybox\nCOPY --from=one /bin/true /t\n"
    );
    let (mut seen, mut bytes) = (None, 0);
    let tell = |message: Progress, seen: &mut Option<(usize, Option<bool>)>| {
        if seen.is_none() && message.stream.contains("xxxx") {
            let caches = root.dir.join("root/caches");
            let cache = std::fs::read_dir(&caches).expect("the caches").flatten().next().expect("a cache");
            *seen = Some((written(&cache.path().join("data/progress")), stages_block_signals()));
        }
        message.stream.matches('x').count()
    };
    let context_bytes = context(&file).end();
    let mut take = |message: Progress| {
        bytes += tell(message, &mut seen);
        Ok(())
    };
    let built = root.engine.image_build(&parallel(), Context::Tar(&mut &context_bytes[..]), &mut take, Some(&soon()));
    built.expect("a build");
    let (pieces, blocks) = seen.expect("output");
    assert!(pieces < PIECES, "all was written though nobody took it");
    assert!(bytes >= PIECES * 50_000, "{bytes} bytes came");
    assert_eq!(blocks, Some(true), "threads of stages run handlers of the host");
    nothing_left(&root);
}

/// More messages wait than the queue takes: the threads that say them end all the same.
#[test]
fn stages_that_say_much_end_when_the_host_refuses_it() {
    let root = Root::new();
    let run = "RUN while :; do echo much; done\n";
    let file = format!("FROM busybox AS one\n{run}FROM busybox AS two\n{run}FROM one\nCOPY --from=two / /\n");
    let bytes = context(&file).end();
    let mut refuse = |message: Progress| match message.stream.contains("much\n") {
        true => Err(coracle::Error::new(ErrorKind::Callback, "enough")),
        false => Ok(()),
    };
    let built = root.engine.image_build(&parallel(), Context::Tar(&mut &bytes[..]), &mut refuse, Some(&soon()));
    fails(built, ErrorKind::Callback, "enough");
    nothing_left(&root);
}

/// The values of one `FROM` are refused: another one has all the room again, and its stage is found.
#[test]
fn a_base_that_is_too_long_hides_no_other_one() {
    let root = Root::new();
    let (long, many) = ("x".repeat(60_000), "$LONG".repeat(20));
    let file = format!(
        "ARG LONG={long}\nARG NAME=first\nFROM busybox AS first\nRUN echo 1 > /first\nFROM {many} AS unused\n\
         FROM $NAME\nRUN echo 2 > /second\n"
    );
    let (id, said) = build_with(&root, &parallel(), context(&file));
    assert_eq!(sh(&root, &id, "cat /first /second"), "1\n2", "{said}");
    nothing_left(&root);
}

#[test]
fn clients_ask_for_it_by_their_version_and_the_command_by_a_flag() {
    let served = Served::new();
    let file = "FROM busybox AS broken\nRUN exit 9\nFROM busybox\nRUN echo fine\n";
    let bytes = context(file).end();
    let place = served.root.dir.join("context");
    std::fs::create_dir(&place).expect("a directory");
    std::fs::write(place.join("Dockerfile"), file).expect("write");
    std::fs::write(place.join("context.tar"), bytes).expect("write");
    let post_at = |version: &str, query: &str| {
        let body = format!("@{}", place.join("context.tar").display());
        let url = format!("http://x/{version}/build?networkmode=none{query}");
        let mut curl = Command::new("curl");
        curl.args([
            "-s",
            "-X",
            "POST",
            "-H",
            "Content-Type: application/x-tar",
            "--data-binary",
            &body,
            "--unix-socket",
        ]);
        let out = curl.arg(&served.socket).arg(url).output().expect("run curl");
        String::from_utf8_lossy(&out.stdout).into_owned()
    };
    let post = |query: &str| post_at("v1.44", query);
    let said = post("&version=2");
    assert!(
        said.contains("#1 [stage-1 1/2] FROM busybox\\n") && said.contains("DONE") && !said.contains("error"),
        "{said}"
    );
    assert!(post("").contains("returned a non-zero code: 9") && post("&version=1").contains("non-zero code: 9"));
    assert!(post_at("v1.24", "&version=2").contains("version=2 is not supported before API 1.38"));
    assert!(post("&version=3").contains("the parameter version=3 is not supported"));
    let command = |words: &[&str]| {
        let mut command = Command::new(built("coracle"));
        command.args(["--root".as_ref(), served.root.dir.join("root").as_os_str()]);
        command.args(["--run".as_ref(), served.root.dir.join("run").as_os_str()]);
        command.args(["build", "--network", "none"]).args(words).arg(&place).output().expect("run coracle build")
    };
    for how in ["plain", "auto"] {
        let out = command(&["--progress", how]);
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        assert!(out.status.success() && text.contains("#2 [stage-1 2/2] RUN echo fine\n#2 CACHED\n"), "{text}");
    }
    assert!(!command(&[]).status.success());
    let out = command(&["--progress", "tty"]);
    assert!(String::from_utf8_lossy(&out.stderr).contains("plain or auto"));
    let out = command(&["--progress", "plain", "-q"]);
    assert!(String::from_utf8_lossy(&out.stdout).starts_with("sha256:"));
}
