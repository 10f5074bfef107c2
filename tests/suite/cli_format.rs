//! `--format`, lists and disk usage of the command, beside docker's own command on the same root (by `coracle serve`).

use super::cli::{coracle, failed, ok};
use crate::docker_cli::Served;
use crate::support::dockerd::tool;
use crate::support::*;
use serde_json::Value;
use std::process::Command;

/// Docker's command on the root of a test, in the newest version of the API that both know; its output.
#[track_caller]
fn docker(served: &Served, words: &[&str]) -> String {
    let host = format!("unix://{}", served.socket.display());
    tool("docker", &[&["-H", &host], words].concat())
}

/// Things of every kind, for lists and templates.
fn furnished() -> Served {
    let served = Served::new();
    let root = &served.root;
    ok(root, &["volume", "create", "--label", "com.example.cargo=rope", "hold"]);
    ok(root, &["network", "create", "--label", "sea=north", "--internal", "bay"]);
    ok(root, &["tag", "busybox", "harbour/box:v1"]);
    let words =
        ["create", "--name", "boat", "--label", "com.example.crew-size=2", "--label", "b=x", "--network", "none"];
    let more =
        ["-e", "A=1", "-v", "hold:/hold", "-v", "/tmp:/t", "-m", "32m", "busybox", "sh", "-c", "echo \"a b\"; exit 3"];
    ok(root, &[&words[..], &more].concat());
    ok(root, &["run", "-d", "--name", "liner", "--network", "none", "busybox", "sleep", "1000"]);
    served
}

/// Templates of `inspect`, with one output from both commands.
const INSPECTED: &[&str] = &[
    "{{.Id}} {{.Name}} {{.State.Status}} {{.State.ExitCode}} {{.State.Running}}",
    "{{.ID}}",
    "{{.Config.Cmd}} {{.Config.Labels}} {{.HostConfig.Memory}} {{.HostConfig.Binds}}",
    "{{json .Config.Cmd}} {{json .Config.Labels}} {{json .Name}}",
    "{{index .Config.Labels \"com.example.crew-size\"}}|{{index .Config.Labels \"none\"}}|{{.Config.Labels.b}}|{{.Config.Labels.none}}",
    "{{range .Config.Env}}{{.}};{{end}}{{range $i, $e := .Config.Cmd}}{{if $i}}, {{end}}{{$e}}{{end}}",
    "{{range $k, $v := .Config.Labels}}{{$k}}={{$v}} {{else}}none{{end}}{{range .HostConfig.Devices}}x{{else}}none{{end}}",
    "{{range .Mounts}}{{.Type}} {{.Source}} {{.Destination}} {{.RW}}\n{{end}}",
    "{{(index .Mounts 0).Destination}} {{len .Mounts}} {{len .Name}}",
    "{{if .State.Running}}on{{else if eq .State.Status \"created\"}}new{{else}}off{{end}}",
    "{{with .Config.Labels}}{{.b}}{{end}} {{with .Config.Domainname}}x{{else}}none{{end}}",
    "{{join .Config.Cmd \" , \"}} {{upper .Name}} {{lower \"ABC\"}} {{title .State.Status}} {{split .Name \"o\"}}",
    "{{println .Name 1}}{{print 1 2 .Name 3}}{{printf \"%-8s|%5d|%q|%v|%x|%.2s\" .Name 42 .Name .Config.Cmd \"hi\" .Name}}",
    "{{printf \"%d\" .Name}} {{printf \"%s\" 3}} {{printf \"%d\"}} {{printf \"x\" 1}} {{printf \"%t %08.3f %e %+d %#x\" true 1.5 1.5 7 255}}",
    "{{- \" a \" -}}   x {{- /* a comment */ -}} y {{`raw\\n`}} {{\"q\\t\\\"\"}} {{'a'}} {{0x1f}} {{-5}} {{1.5}}",
    "{{$n := .Name}}{{$n = printf \"%s!\" $n}}{{$n | upper | printf \"<%s>\"}} {{$.Name}}",
    "{{and 1 0}} {{or \"\" .Name}} {{not .State.Running}} {{eq 1 2 1}} {{ne .Name \"x\"}} {{lt 1 2}} {{ge \"b\" \"a\"}} {{le 2 1}} {{gt 2 1}}",
    "{{slice .Name 1 3}} {{index .Config.Cmd 2}} {{truncate .Name 3}} {{pad .Name 1 2}}|{{pad \"\" 1 2}}|",
    "{{.NetworkSettings.Networks.none.IPAddress}}|{{range $name, $n := .NetworkSettings.Networks}}{{$name}}{{end}}",
    "{{range .Config.Cmd}}{{if eq . \"-c\"}}{{continue}}{{end}}{{.}}{{break}}{{end}}",
    "a\\tb",
];

#[test]
fn templates_of_inspect_print_what_docker_prints() {
    let served = furnished();
    for template in INSPECTED {
        let words = ["inspect", "-f", template, "boat"];
        assert_eq!(ok(&served.root, &words), docker(&served, &words), "{template}");
    }
    for words in [
        &["image", "inspect", "-f", "{{.Id}} {{.Os}} {{.RootFS.Type}} {{len .RootFS.Layers}} {{.Size}}", "busybox"][..],
        &["network", "inspect", "-f", "{{.Name}} {{.Driver}} {{.Internal}} {{.Labels.sea}} {{json .Options}}", "bay"],
        &["volume", "inspect", "-f", "{{.Name}} {{.Driver}} {{.Mountpoint}} {{.Labels}}", "hold"],
        &["info", "-f", "{{.ID}} {{.Containers}} {{.ContainersRunning}} {{.DockerRootDir}} {{.NCPU}}"],
        &["inspect", "--type", "volume", "-f", "{{.Name}}", "hold"],
        &[
            "inspect",
            "-f",
            "{{.State.Status}} {{.Config.Labels}} {{.HostConfig.CapAdd}} {{len .Mounts}}",
            "liner",
            "boat",
        ],
        &["inspect", "-f", "{{.Name}}", "bay", "hold"],
    ] {
        assert_eq!(ok(&served.root, words), docker(&served, words), "{words:?}");
    }
    ok(&served.root, &["rm", "-f", "liner"]);
}

#[test]
fn templates_beyond_the_language_are_refused_at_their_place() {
    let root = Root::empty();
    ok(&root, &["volume", "create", "hold"]);
    for (template, text) in [
        ("{{.Nope}}", "--format, column 3: there is no field Nope"),
        ("{{.Name.x}}", "--format, column 3: .Name.x: Name is a text, which has no fields"),
        ("{{.Name | nope}}", "--format, column 11: there is no function nope"),
        ("{{if .Name}}x", "--format, column 3: {{if}} without {{end}}"),
        ("{{template \"x\"}}", "--format, column 3: template is not supported"),
        ("{{", "--format, column 1: {{ without }}"),
        ("{{index .Labels 5}}", "--format, column 3: index: null has no entries"),
    ] {
        let (code, error) = failed(&root, &["volume", "inspect", "-f", template, "hold"]);
        assert_eq!((code, error.lines().next()), (125, Some(&*format!("coracle: {text}"))), "{template}");
    }
    // A list says so before it has a row.
    for list in [&["ps"][..], &["images"], &["network", "ls"], &["volume", "ls"], &["system", "df"], &["events"]] {
        let (code, error) = failed(&root, &[list, &["--format", "{{.Name"]].concat());
        assert!(code == 125 && error.starts_with("coracle: --format, column 1: {{ without }}"), "{list:?}: {error}");
    }
}

/// Lists whose every column stays the same while the test looks.
const LISTED: &[&[&str]] = &[
    &["ps", "-a", "--format", "table {{.ID}}\\t{{.Names}}\\t{{.Label \"com.example.crew-size\"}}"],
    &["ps", "-a", "--format", "table {{upper .Names}} {{.Image}}\\t{{json .State}}"],
    &[
        "ps",
        "-a",
        "--no-trunc",
        "--format",
        "{{.ID}}\\t{{.Image}}\\t{{.Command}}\\t{{.CreatedAt}}\\t{{.State}}\\t{{.Labels}}",
    ],
    &["ps", "-a", "--format", "{{.Command}} {{.Ports}} {{.Mounts}} {{.LocalVolumes}} {{.Networks}}"],
    &["ps", "-a", "--format", "{{.Names}} {{.Size}}"],
    &["images", "--format", "table {{.Repository}}\\t{{.Tag}}\\t{{.ID}}\\t{{.Size}}\\t{{.Digest}}"],
    &["images", "--no-trunc", "--format", "{{.ID}}: {{.Repository}} {{.CreatedAt}}"],
    &["history", "--format", "{{.ID}} {{.CreatedBy}} {{.Size}} {{.Comment}}", "busybox"],
    &["volume", "ls"],
    &["volume", "ls", "--format", "{{.Name}} {{.Driver}} {{.Scope}} {{.Mountpoint}} {{.Labels}}"],
    &["volume", "ls", "--format", "table {{.Name}}\\t{{.Label \"com.example.cargo\"}}"],
    &["network", "ls"],
    &[
        "network",
        "ls",
        "--no-trunc",
        "-f",
        "label=sea",
        "--format",
        "{{json .Name}} {{.ID}} {{.CreatedAt}} {{.Internal}} {{.IPv6}}",
    ],
    &["system", "df", "--format", "{{.Type}}: {{.TotalCount}} {{.Active}} {{.Size}} {{.Reclaimable}}"],
    &["stats", "--no-stream", "--format", "{{.Name}} {{.ID}} {{.PIDs}}"],
];

#[test]
fn lists_print_what_docker_prints() {
    let served = furnished();
    let without_blanks = |text: &str| -> Vec<String> {
        // The engine has no build cache of its own.
        text.lines().filter(|line| !line.starts_with("Build Cache")).map(|line| line.trim_end().to_owned()).collect()
    };
    for words in LISTED {
        let mut both = [ok(&served.root, words), docker(&served, words)].map(|text| without_blanks(&text));
        if words[0] == "images" {
            // Docker's command has the names of one image in an order of chance.
            both.iter_mut().for_each(|lines| lines.sort());
        }
        assert_eq!(both[0], both[1], "{words:?}");
    }
    // Ages go on between the two commands: one pair of looks falls into one second.
    for words in [&["ps", "-a"][..], &["ps", "-as"], &["ps", "-a", "--no-trunc"]] {
        wait_for("the same table", || {
            without_blanks(&ok(&served.root, words)) == without_blanks(&docker(&served, words))
        });
    }
    ok(&served.root, &["rm", "-f", "liner"]);
}

/// Fields of docker's rows that say nothing here (of a swarm, of a platform that the API does not tell), and one of networks that
/// docker's command takes from a later version of the API.
const NOT_HERE: &[&str] = &["Platform", "Availability", "Group", "Status", "Links", "Size", "IPv4"];
/// Fields that change with time.
const AGES: &[&str] = &["RunningFor", "CreatedSince", "CreatedAt"];

#[test]
fn json_rows_have_docker_s_fields() {
    let served = furnished();
    for list in [&["ps", "-a"][..], &["images"], &["volume", "ls"], &["network", "ls"], &["history", "busybox"]] {
        let rows = |text: String| -> Vec<Value> {
            let mut rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("a row")).collect();
            // Docker's command has the names of one image in an order of chance.
            rows.sort_by_key(|row| row["Repository"].to_string());
            rows
        };
        let ours = rows(ok(&served.root, &[list, &["--format", "json"]].concat()));
        let theirs = rows(docker(&served, &[list, &["--format", "{{json .}}"]].concat()));
        assert!(!ours.is_empty() && ours.len() == theirs.len(), "{list:?}");
        for (ours, theirs) in ours.iter().zip(&theirs) {
            for (field, value) in theirs.as_object().expect("an object") {
                match ours.get(field) {
                    None => assert!(NOT_HERE.contains(&field.as_str()), "{list:?} lacks {field}"),
                    Some(_) if AGES.contains(&field.as_str()) || NOT_HERE.contains(&field.as_str()) => {}
                    Some(own) => assert_eq!(own, value, "{list:?} {field}"),
                }
            }
        }
    }
    // One line, which is the whole.
    let whole: Value = serde_json::from_str(&ok(&served.root, &["inspect", "-f", "json", "boat"])).expect("a document");
    assert_eq!(whole[0]["Name"], "/boat");
    let version: Value = serde_json::from_str(&ok(&served.root, &["version", "-f", "json"])).expect("a document");
    assert_eq!(version["Server"]["Version"], version["Version"]);
    assert_eq!(ok(&served.root, &["version", "-f", "{{.Client.Version}}"]), env!("CARGO_PKG_VERSION"));
    ok(&served.root, &["rm", "-f", "liner"]);
}

/// Lines of `docker info` about parts that this engine does not have, or that the HTTP interface words for docker's clients.
const NOT_IN_INFO: &[&str] = &[
    "Server Version",
    "Runtimes",
    "Default Runtime",
    "Init Binary",
    "containerd version",
    "runc version",
    "init version",
    "Debug Mode",
    "Experimental",
];

#[test]
fn info_has_the_lines_of_docker() {
    let served = furnished();
    let theirs = docker(&served, &["info"]);
    let theirs = theirs.split_once("Server:\n").expect("the part of the server").1;
    let ours = ok(&served.root, &["info"]);
    let ours: Vec<&str> = ours.lines().collect();
    for line in theirs.lines().map(|line| line.strip_prefix(' ').unwrap_or(line)).filter(|line| !line.trim().is_empty())
    {
        let name = line.split(':').next().unwrap_or_default();
        let is_there = ours.contains(&line.trim_end());
        assert_eq!(is_there, !NOT_IN_INFO.contains(&name), "{line:?} in {ours:?}");
    }
    // Warnings go where they do not disturb a program that reads the output.
    let words = ["info", "--format", "{{json .Warnings}}"];
    let warnings: Vec<String> = serde_json::from_str(&ok(&served.root, &words)).expect("a list");
    let output = coracle(&served.root.dir).arg("info").output().expect("run coracle");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!warnings.is_empty() && warnings.iter().all(|warning| told.contains(warning)), "{told}");
}

#[test]
fn version_is_made_for_people() {
    let root = Root::new();
    let text = ok(&root, &["version"]);
    let expected = format!(
        "Coracle:\n Version:          {}\n API version:      1.24 (minimum version 1.18)",
        env!("CARGO_PKG_VERSION")
    );
    assert!(text.starts_with(&expected) && text.contains(" OS/Arch:          linux/"), "{text}");
}

#[test]
fn a_verification_reports_as_a_document() {
    let root = Root::new();
    let report: Value = serde_json::from_str(&ok(&root, &["verify", "--format", "json"])).expect("one document alone");
    assert_eq!((&report["Images"], &report["Damage"]), (&serde_json::json!(1), &serde_json::json!([])));
    assert_eq!(ok(&root, &["verify", "--format", "{{.Images}} of {{len .Damage}}"]), "1 of 0");
}

#[test]
fn disk_usage_of_each_thing() {
    let served = furnished();
    let root = &served.root;
    ok(root, &["exec", "liner", "sh", "-c", "head -c 100000 /dev/zero > /written"]);
    let text = ok(root, &["system", "df", "-v"]);
    for title in ["Images space usage:", "Containers space usage:", "Local Volumes space usage:"] {
        assert!(text.contains(title), "{text}");
    }
    let line = |name: &str| text.lines().find(|line| line.ends_with(name)).expect("a line").to_owned();
    assert!(
        line("liner").contains("100kB") && !line("liner").contains("virtual") && line("boat").contains(" 1 "),
        "{text}"
    );
    assert!(text.lines().any(|line| line.starts_with("hold          1")), "{text}");
    let of_containers = ok(root, &["system", "df", "--format", "{{if eq .Type \"Containers\"}}{{json .}}{{end}}"]);
    let of_containers: Value = serde_json::from_str(of_containers.trim()).expect("a row");
    assert_eq!((&of_containers["TotalCount"], &of_containers["Active"]), (&"2".into(), &"1".into()));
    assert_eq!(of_containers["Reclaimable"], "0B (0%)");
    assert_eq!(failed(root, &["system", "df", "-v", "--format", "json"]).0, 125);
    ok(root, &["rm", "-f", "liner"]);
}

#[test]
fn events_are_lines() {
    let root = Root::new();
    ok(&root, &["run", "--rm", "--name", "boat", "--label", "sea=north", "--network", "none", "busybox", "true"]);
    let all = ["events", "--since", "1", "--until", "0s"];
    let text = ok(&root, &[&all[..], &["--filter", "type=container"]].concat());
    let actions: Vec<&str> = text.lines().filter_map(|line| line.split(' ').nth(2)).collect();
    assert_eq!(actions, ["create", "attach", "start", "die", "destroy"], "{text}");
    let die = ok(
        &root,
        &[&all[..], &["--filter", "event=die", "--format", "{{.Type}} {{.Actor.Attributes.exitCode}}"]].concat(),
    );
    assert_eq!(die, "container 0");
    ok(&root, &["volume", "create", "hold"]);
    let volume = ok(
        &root,
        &[&all[..], &["--filter", "type=volume", "--format", "{{.Actor.ID}}|{{.ID}}{{.Status}}{{.From}}|"]].concat(),
    );
    assert_eq!(volume, "hold||");
    let json = ok(&root, &[&all[..], &["--filter", "event=start", "--format", "json"]].concat());
    let event: Value = serde_json::from_str(&json).expect("an event");
    assert_eq!((&event["Action"], &event["Actor"]["Attributes"]["sea"]), (&"start".into(), &"north".into()));
    // On a terminal a line is short: the name in place of the id, no labels; colours unless they are forbidden.
    let on_a_terminal = |environment: &str| {
        let coracle = built("coracle").display().to_string();
        let dir = root.dir.display();
        let line = format!(
            "{environment} {coracle} --root {dir}/root --run {dir}/run events --since 1 --until 0s --filter event=die"
        );
        let output = Command::new("script").args(["-qec", &line, "/dev/null"]).env("TERM", "xterm").output();
        String::from_utf8_lossy(&output.expect("run script").stdout).trim_end().to_owned()
    };
    let plain = on_a_terminal("NO_COLOR=1");
    assert!(plain.ends_with("container die          boat  image=busybox  exitCode=0"), "{plain}");
    let coloured = on_a_terminal("NO_COLOR=");
    assert!(coloured.contains("\x1b[33mdie         \x1b[0m boat"), "{coloured}");
    assert_eq!(failed(&root, &["events", "--format", "table {{.ID}}"]).0, 125);
}
