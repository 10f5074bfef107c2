//! Images whose configuration is made to harm, each loaded, inspected, listed, created from and run. Each is refused with a
//! reason of a readable length, or does what any other image may do; the engine goes on either way.

use crate::canary::{Canary, SECRET};
use crate::images::Image;
use crate::support::*;
use coracle::model::*;
use serde_json::{Value, json};

/// A variable that the host program has: Cargo sets it for this one.
const THERE: &str = "CARGO_MANIFEST_DIR";

/// The longest reason of a refusal, in bytes: it goes into a log and onto a terminal.
const REASON: usize = 4096;

/// One hostile image.
struct Case {
    name: &'static str,
    /// Members of the image's configuration.
    config: Value,
    /// Members of the document that the configuration is in.
    document: Value,
    /// The words that its container runs; none: those of the image.
    command: &'static [&'static str],
}

impl Case {
    fn image(&self) -> Image {
        Image::new().config(self.config.clone()).document(self.document.clone())
    }
}

/// Prints whether it runs, its directory, its user and its environment.
const LOOK: &[&str] = &["sh", "-c", "echo runs; pwd; id -u; env"];

fn configured(name: &'static str, config: Value) -> Case {
    Case { name, config, document: json!({}), command: LOOK }
}

fn by_itself(name: &'static str, config: Value) -> Case {
    Case { command: &[], ..configured(name, config) }
}

fn documented(name: &'static str, document: Value) -> Case {
    Case { document, ..configured(name, json!({})) }
}

/// `count` names with the same value.
fn many(count: usize, name: impl Fn(usize) -> String, value: &Value) -> Value {
    (0..count).map(|number| (name(number), value.clone())).collect::<serde_json::Map<_, _>>().into()
}

fn volumes(path: &str) -> Value {
    json!({ "Volumes": { path: {} } })
}

fn environments() -> Vec<Case> {
    let nul = "\u{e9}=\0x";
    vec![
        configured("env-nul", json!({ "Env": [THERE, "PATH", "=x", "*", "A*", "D=1", "D=2", "N\nL=3", nul] })),
        configured("env", json!({ "Env": [THERE, "PATH=/bin", "*", "A*", "D=1", "D=2", "N\nL=3"] })),
        configured("shell", json!({ "Shell": [], "OnBuild": ["RUN x", "FROM y"] })),
        configured("labels", json!({ "Labels": { "a\nb": "c\0d\"}", "com.docker.x": "\u{202e}\u{1b}[31m" } })),
        configured("labels-big", json!({ "Labels": many(5000, |n| format!("k{n}"), &json!("v".repeat(1000))) })),
    ]
}

fn places() -> Vec<Case> {
    let mut up = volumes("/../../etc");
    up["Volumes"]["../../../x"] = json!({});
    vec![
        configured("volume-up", up),
        configured("volume-proc", volumes("/proc/sys")),
        configured("volume-root", volumes("/")),
        configured("volume-dev", volumes("/dev")),
        configured("volume-pts", volumes("/dev/pts")),
        configured("volume-etc", volumes("/etc")),
        configured("volumes", json!({ "Volumes": many(2000, |n| format!("/v{n}"), &json!({})) })),
        configured("directory-up", json!({ "WorkingDir": "../../../proc/self/fd/5" })),
        configured("directory-open", json!({ "WorkingDir": "/proc/self/fd/8" })),
        configured("directory-long", json!({ "WorkingDir": format!("/{}", "a/".repeat(3000)) })),
    ]
}

fn numbers() -> Vec<Case> {
    let check = |test: Value, number: i64| json!({ "Test": test, "Interval": number, "Timeout": number });
    let mut negative = check(json!(["CMD-SHELL", "true"]), -5);
    negative["Retries"] = json!(i64::MIN);
    let quick = check(json!(["CMD", "true"]), 1);
    vec![
        configured("user-big", json!({ "User": "4294967296:0" })),
        configured("user-negative", json!({ "User": "-1" })),
        configured("user-lines", json!({ "User": "root\nx" })),
        configured("user-hexadecimal", json!({ "User": "0x0" })),
        configured("user-colons", json!({ "User": ":".repeat(5000) })),
        configured("signal", json!({ "StopSignal": "SIGRTMAX+99" })),
        configured("signal-number", json!({ "StopSignal": "999999999999" })),
        configured("health-negative", json!({ "Healthcheck": negative })),
        configured("health-unknown", json!({ "Healthcheck": check(json!(["XYZ"]), 1) })),
        configured("health-quick", json!({ "Healthcheck": quick })),
        configured("ports", json!({ "ExposedPorts": { "99999/tcp": {}, "x": {}, "0/udp": {} } })),
        configured("ports-all", json!({ "ExposedPorts": many(65_535, |n| format!("{}/tcp", n + 1), &json!({})) })),
    ]
}

fn commands() -> Vec<Case> {
    let long: Vec<&str> = ["/bin/true"].into_iter().chain(std::iter::repeat_n("x", 300_000)).collect();
    vec![
        by_itself("command-nul", json!({ "Cmd": ["sh\0x"] })),
        by_itself("command-none", json!({ "Cmd": [], "Entrypoint": [] })),
        by_itself("command-itself", json!({ "Cmd": ["/proc/self/exe"] })),
        by_itself("command-long", json!({ "Entrypoint": long })),
    ]
}

fn rights() -> Vec<Case> {
    let terminal = json!({ "Tty": true, "OpenStdin": true, "AttachStdin": true, "NetworkDisabled": true,
        "Hostname": "a b\n", "Domainname": "x".repeat(300), "MacAddress": "zz" });
    let all = json!({ "Privileged": true, "Binds": ["/:/h"] });
    let asks = json!({ "HostConfig": all, "Privileged": true, "Devices": ["/dev/vda"] });
    vec![configured("request", terminal), Case { document: json!({ "HostConfig": all }), ..configured("rights", asks) }]
}

fn documents() -> Vec<Case> {
    let outside = json!({ "type": "layers", "diff_ids": ["sha256:../../x"] });
    vec![
        documented("history", json!({ "history": [null, {}, { "empty_layer": "x" }] })),
        documented("history-control", json!({ "history": [null, { "created_by": "x\u{1b}[2J" }] })),
        documented("system", json!({ "os": "windows" })),
        documented("architecture", json!({ "architecture": "x".repeat(100_000) })),
        documented("created", json!({ "created": "99999-99-99" })),
        documented("created-leap", json!({ "created": "9999-12-31T23:59:60Z" })),
        documented("layers", json!({ "rootfs": outside })),
    ]
}

/// Loads the image, looks at it from all sides and runs it. Whether a container of it ran; else the reason.
fn tried(root: &Root, case: &Case) -> coracle::Result<Output> {
    case.image().try_load(root, case.name)?;
    root.engine.image_inspect(case.name)?;
    root.engine.image_history(case.name)?;
    root.engine.image_list(&ListImages::default())?;
    let command = if case.command.is_empty() { Value::Null } else { json!(case.command) };
    let id = root.try_create("", body(&[], json!({ "Image": case.name, "Cmd": command })))?;
    let host = root.inspect(&id).host_config;
    assert!(!host.privileged && host.binds.unwrap_or_default().is_empty(), "{}: the image got rights", case.name);
    let ran = root.engine.container_start(&id, Some(coracle::Io::default()), Some(&soon()));
    let ran = ran.map(|started| finish(started.session.expect("an attached session"), b""));
    let remove = RemoveContainer { force: true, volumes: true, ..RemoveContainer::default() };
    root.engine.container_remove(&id, remove, Some(&soon()))?;
    ran
}

/// The twin of script 09 of the review.
// attack: 59 wall image-rights
// attack: 155 wall environment-of-images
#[test]
fn no_configuration_of_an_image_hurts_the_engine_or_shows_it_the_host() {
    let root = Root::new();
    let canary = Canary::new(&root);
    let of_the_host = std::env::var(THERE).expect("a variable of the host program");
    let mut ran = Vec::new();
    for case in [environments, places, numbers, commands, rights, documents].into_iter().flat_map(|cases| cases()) {
        match tried(&root, &case) {
            Ok(output) => {
                let said = output.out();
                assert!(!said.contains(&of_the_host) && !said.contains(SECRET), "{}: {said}", case.name);
                ran.push((case.name, said.starts_with("runs")));
            }
            Err(error) => {
                let reason = error.message();
                assert!(
                    !reason.is_empty() && reason.len() <= REASON,
                    "{}: {} bytes: {reason:.200}",
                    case.name,
                    reason.len()
                );
            }
        }
        assert_eq!(root.sh("echo alive").ok(), "alive", "after {}", case.name);
    }
    canary.untouched();
    assert!(ran.len() > 10, "images that say nothing harmful run: {ran:?}");
    eprintln!("{ran:?}");
}
