//! The command and registries: login, logout, and the pull of `run`.

use super::cli::coracle;
use super::registry::{SECRET, basic_registry, login, push_with};
use crate::support::registry::Registry;
use crate::support::*;
use serde_json::{Value, json};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Output, Stdio};

/// Runs the command with docker's configuration in `root.dir/docker`, and with an input.
fn run(root: &Root, words: &[&str], input: &str) -> Output {
    let mut command = coracle(&root.dir);
    let path = format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", root.dir.display());
    command.env("DOCKER_CONFIG", root.dir.join("docker")).env("PATH", path);
    let mut child =
        command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("run");
    // A command that reads no input may have ended.
    let _ = child.stdin.take().expect("stdin").write_all(input.as_bytes());
    child.wait_with_output().expect("its end")
}

#[track_caller]
fn ok(root: &Root, words: &[&str], input: &str) -> String {
    let output = run(root, words, input);
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

#[track_caller]
fn failed(root: &Root, words: &[&str], input: &str) -> String {
    let output = run(root, words, input);
    assert!(!output.status.success(), "{words:?}: {output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn config(root: &Root) -> Value {
    serde_json::from_slice(&std::fs::read(root.dir.join("docker/config.json")).expect("read")).expect("JSON")
}

/// A registry for people who know the sailor's password, with an image.
fn closed_registry(root: &Root) -> (Registry, String) {
    let registry = basic_registry(&root.dir.join("registry"));
    let name = format!("{}/closed/box:1", registry.host());
    root.engine.image_tag(IMAGE, &name).expect("tag");
    push_with(&root.engine, &name, login("sailor", SECRET)).expect("push");
    root.engine.image_remove(&name, coracle::model::RemoveImage::default()).expect("remove");
    (registry, name)
}

#[test]
fn credentials_are_kept_in_docker_s_file() {
    let root = Root::new();
    let (registry, name) = closed_registry(&root);
    let host = registry.host();
    std::fs::create_dir(root.dir.join("docker")).expect("make");
    let before = json!({ "HttpHeaders": { "X": "y" }, "auths": { "other.example": { "auth": "eDp5" } } });
    std::fs::write(root.dir.join("docker/config.json"), before.to_string()).expect("write");
    assert!(failed(&root, &["pull", &name], "").contains("no basic auth credentials"));
    let wrong = failed(&root, &["login", "-u", "sailor", "--password-stdin", &host], "another-word\n");
    assert!(wrong.contains("unauthorized") && !wrong.contains("another-word"), "{wrong}");
    assert_eq!(config(&root), before);
    let text = ok(
        &root,
        &["login", "-u", "sailor", "--password-stdin", &format!("http://{host}/v2/")],
        &format!("{SECRET}\n"),
    );
    assert!(text.starts_with("Login Succeeded\n"), "{text}");
    let kept = config(&root);
    assert_eq!(kept["auths"][&host], json!({ "auth": "c2FpbG9yOnMzY3IzdC13b3Jk" }));
    assert_eq!(
        (&kept["HttpHeaders"], &kept["auths"]["other.example"]),
        (&before["HttpHeaders"], &before["auths"]["other.example"])
    );
    let mode = std::fs::metadata(root.dir.join("docker/config.json")).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    ok(&root, &["pull", &name], "");
    assert_eq!(ok(&root, &["logout", &host], ""), format!("Removed the credentials of {host}"));
    assert_eq!(config(&root), before);
    assert_eq!(ok(&root, &["logout", &host], ""), format!("Not logged in to {host}"));
    for (words, text) in [
        (&["login", &host][..], "standard input is not a terminal: use --username and --password-stdin"),
        (&["login", "--password-stdin", &host], "--password-stdin needs --username"),
        (&["login", "-u", "sailor", "--password-stdin", &host], "a user and a password are needed"),
        (&["login", "-u", "sailor", "-p", "x", "http://"], "\"http://\" names no registry"),
    ] {
        assert!(failed(&root, words, "").starts_with(&format!("coracle: {text}\n")), "{words:?}");
    }
    // A file that is not a configuration is left unchanged.
    std::fs::write(root.dir.join("docker/config.json"), "[]").expect("write");
    assert!(failed(&root, &["logout", &host], "").contains("not JSON"));
    assert_eq!(std::fs::read_to_string(root.dir.join("docker/config.json")).expect("read"), "[]");
}

/// A credential helper that keeps what it is told in files of its directory.
fn install_helper(dir: &Path) {
    let script = "#!/bin/sh\ncd \"$(dirname \"$0\")\" || exit 1\ncase $1 in\nstore) cat >stored ;;\n\
                  get) cat stored 2>/dev/null || { echo 'credentials not found in native keychain'; exit 1; } ;;\n\
                  erase) cat >erased; rm -f stored ;;\nesac\n";
    let path = dir.join("docker-credential-cabin");
    std::fs::write(&path, script).expect("write");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("make it a program");
}

#[test]
fn credentials_are_kept_by_a_helper() {
    let root = Root::new();
    let (registry, name) = closed_registry(&root);
    let host = registry.host();
    install_helper(&root.dir);
    std::fs::create_dir(root.dir.join("docker")).expect("make");
    std::fs::write(root.dir.join("docker/config.json"), r#"{"credsStore":"cabin"}"#).expect("write");
    let text = ok(&root, &["login", "-u", "sailor", "-p", SECRET, &host], "");
    assert_eq!(text, "Login Succeeded\nThe credentials are kept by docker-credential-cabin.");
    assert_eq!(config(&root), json!({ "credsStore": "cabin" }));
    ok(&root, &["pull", "-q", &name], "");
    ok(&root, &["logout", &host], "");
    assert_eq!(std::fs::read_to_string(root.dir.join("erased")).expect("read"), host);
    assert_eq!(ok(&root, &["logout", &host], ""), format!("Not logged in to {host}"));
}

#[test]
fn a_login_leaves_no_root() {
    let root = Root::new();
    let (registry, _) = closed_registry(&root);
    let dir = temp_dir();
    let mut command = coracle(&dir);
    command.env("DOCKER_CONFIG", dir.join("docker"));
    let output = command.args(["login", "-u", "sailor", "-p", SECRET, &registry.host()]).output().expect("run coracle");
    assert!(
        output.status.success() && !dir.join("root").exists() && dir.join("docker/config.json").exists(),
        "{output:?}"
    );
    std::fs::remove_dir_all(&dir).expect("clean up");
}

#[test]
fn run_fetches_an_image_that_is_not_here() {
    let root = Root::new();
    let registry = Registry::plain(&root.dir.join("registry"));
    let name = format!("{}/box:1", registry.host());
    root.engine.image_tag(IMAGE, &name).expect("tag");
    push_with(&root.engine, &name, coracle::model::RegistryAuth::default()).expect("push");
    root.engine.image_remove(&name, coracle::model::RemoveImage::default()).expect("remove");
    let words = |more: &[&'static str]| [&["run", "--rm", "--network", "none"], more].concat();
    let never = words(&["--pull", "never"]);
    assert!(failed(&root, &[&never[..], &[&name, "true"]].concat(), "").contains("No such image"));
    let output = run(&root, &[&words(&[])[..], &[&name, "echo", "hello"]].concat(), "");
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(0), &b"hello\n"[..]));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(
        told.starts_with(&format!("Unable to find image '{name}' locally\n")) && told.contains("Status: "),
        "{told}"
    );
    // The second run finds it, and asks nobody.
    let asked = registry.log().len();
    let output = run(&root, &[&words(&[])[..], &[&name, "true"]].concat(), "");
    assert!(output.status.success() && output.stderr.is_empty() && registry.log().len() == asked, "{output:?}");
    let output = run(&root, &[&words(&["--pull", "always", "-q"])[..], &[&name, "true"]].concat(), "");
    assert!(output.status.success() && output.stderr.is_empty() && registry.log().len() > asked, "{output:?}");
    assert!(
        failed(&root, &[&words(&["--pull", "often"])[..], &[&name]].concat(), "").contains("missing, always or never")
    );
    // A missing object other than the image does not make the command fetch an image.
    let text = failed(&root, &[&words(&[])[..], &["--volumes-from", "nosuch", &name, "true"]].concat(), "");
    assert!(!text.contains("Unable to find"), "{text}");
}
