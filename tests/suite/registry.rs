//! Pulling and pushing: against Debian's docker-registry, and against one that misbehaves.

use crate::support::archive::{self, Tar, sha256};
use crate::support::faulty::Tripwire;
use crate::support::registry::{Answered, Registry, Request, Scripted, make_certificates};
use crate::support::*;
use coracle::model::*;
use coracle::{Engine, ErrorKind, Op};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Pulls and answers what was told, one line a message.
pub(super) fn pull_with(engine: &Engine, name: &str, auth: RegistryAuth) -> coracle::Result<Vec<String>> {
    let mut told = Vec::new();
    let request = PullImage { name: name.into(), auth, ..PullImage::default() };
    engine.image_pull_tags(&request, &mut |message| line(&mut told, message), Some(&soon()))?;
    Ok(told)
}

pub(super) fn pull(engine: &Engine, name: &str) -> coracle::Result<Vec<String>> {
    pull_with(engine, name, RegistryAuth::default())
}

pub(super) fn push(engine: &Engine, name: &str) -> coracle::Result<Vec<String>> {
    push_with(engine, name, RegistryAuth::default())
}

pub(super) fn push_with(engine: &Engine, name: &str, auth: RegistryAuth) -> coracle::Result<Vec<String>> {
    let mut told = Vec::new();
    let request = PushImage { name: name.into(), auth, ..PushImage::default() };
    engine.image_push_tags(&request, &mut |message| line(&mut told, message), Some(&soon()))?;
    Ok(told)
}

fn line(told: &mut Vec<String>, message: Progress) -> coracle::Result<()> {
    if message.progress.is_empty() && message.aux.is_none() {
        told.push(if message.id.is_empty() { message.status } else { format!("{}: {}", message.id, message.status) });
    }
    Ok(())
}

pub(super) fn login(name: &str, password: &str) -> RegistryAuth {
    RegistryAuth { username: name.into(), password: password.into(), ..RegistryAuth::default() }
}

pub(super) fn load(engine: &Engine, bytes: &[u8]) {
    engine.image_load(&mut &bytes[..], &mut |_| Ok(()), Some(&soon())).expect("load");
}

/// Nothing is staged, and no layer is there without an image.
#[track_caller]
pub(super) fn nothing_is_left(root: &Root) {
    assert_eq!(root.engine.image_list(&ListImages::default()).expect("list"), []);
    for dir in ["root/layers", "root/tmp"] {
        assert_eq!(std::fs::read_dir(root.dir.join(dir)).expect("read it").count(), 0, "{dir} is not empty");
    }
}

/// Bytes that do not compress.
pub(super) fn noise(count: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut step = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    (0..count.div_ceil(8)).flat_map(|_| step()).collect()
}

#[test]
fn an_engine_pulls_pushed_images() {
    let root = Root::new();
    let registry = Registry::plain(&root.dir.join("registry"));
    let name = format!("{}/team/box:v1", registry.host());
    root.engine.image_tag(IMAGE, &name).expect("tag");
    let told = push(&root.engine, &name).expect("push");
    let id = root.engine.image_inspect(IMAGE).expect("inspect").id;
    let detail = root.engine.image_inspect(&name).expect("inspect");
    let digest = detail.repo_digests[0].split_once('@').expect("a digest").1.to_owned();
    let layer = detail.root_fs.layers.expect("layers")[0][7..19].to_owned();
    assert_eq!(told[0], format!("The push refers to repository [{}/team/box]", registry.host()));
    assert_eq!(told[1..3], [format!("{layer}: Preparing"), format!("{layer}: Pushed")]);
    assert!(told[3].starts_with(&format!("v1: digest: {digest} size: ")), "{told:?}");

    // Again: it is there. In another repository: it is taken over.
    assert_eq!(push(&root.engine, &name).expect("push again")[2], format!("{layer}: Layer already exists"));
    let other = format!("{}/other/box:v2", registry.host());
    root.engine.image_tag(IMAGE, &other).expect("tag");
    assert_eq!(push(&root.engine, &other).expect("push elsewhere")[2], format!("{layer}: Mounted from team/box"));

    // Pulls by tag, twice; by digest; every tag.
    let fresh = Root::empty();
    let told = pull(&fresh.engine, &name).expect("pull");
    assert_eq!(told[0], "v1: Pulling from team/box");
    let blob = told[1].split(':').next().expect("an id").to_owned();
    for (have, want) in told[1..5].iter().zip(["Pulling fs layer", "Verifying Checksum", "Download complete"]) {
        assert_eq!(*have, format!("{blob}: {want}"));
    }
    assert_eq!(told[4], format!("{blob}: Pull complete"));
    assert_eq!(told[5..], [format!("Digest: {digest}"), format!("Status: Downloaded newer image for {name}")]);
    let again = pull(&fresh.engine, &name).expect("pull again");
    assert_eq!(again[1], format!("{blob}: Already exists"));
    assert_eq!(again.last().expect("a status"), &format!("Status: Image is up to date for {name}"));
    assert_eq!(fresh.engine.image_inspect(&name).expect("inspect").id, id);
    assert_eq!(fresh.run(&["echo", "hello"], json!({ "Image": name }), b"").ok(), "hello");

    let third = Root::empty();
    let by_digest = format!("{}/team/box@{digest}", registry.host());
    let told = pull(&third.engine, &by_digest).expect("pull by digest");
    assert_eq!(told[0], format!("{by_digest}: Pulling from team/box"));
    let detail = third.engine.image_inspect(&by_digest).expect("inspect");
    assert_eq!((detail.repo_tags, detail.repo_digests), (vec![], vec![by_digest]));
    root.engine.image_tag(IMAGE, &format!("{}/team/box:v2", registry.host())).expect("tag");
    push(&root.engine, &format!("{}/team/box", registry.host())).expect("push every tag");
    let request = PullImage { name: format!("{}/team/box", registry.host()), ..PullImage::default() };
    let mut names = third.engine.image_pull_tags(&request, &mut |_| Ok(()), Some(&soon())).expect("pull every tag");
    // In the registry's order, which not every release of it sorts.
    names.sort();
    assert_eq!(names, ["v1", "v2"].map(|tag| format!("{}/team/box:{tag}", registry.host())));
}

#[test]
fn a_push_answers_the_digest_and_a_pull_takes_one_tag() {
    let root = Root::new();
    let registry = Registry::plain(&root.dir.join("registry"));
    let repository = format!("{}/team/box", registry.host());
    for tag in ["latest", "v1"] {
        root.engine.image_tag(IMAGE, &format!("{repository}:{tag}")).expect("tag");
        let pushed =
            root.engine.image_push(&PushImage::of(format!("{repository}:{tag}")), &mut |_| Ok(()), Some(&soon()));
        assert_eq!(pushed.expect("push").tag, tag);
    }
    let pushed = root.engine.image_push(&PushImage::of(&repository), &mut |_| Ok(()), Some(&soon())).expect("push");
    assert_eq!(pushed.tag, "latest");
    let fresh = Root::empty();
    let id = fresh.engine.image_pull(&PullImage::of(&repository), &mut |_| Ok(()), Some(&soon())).expect("pull");
    let detail = fresh.engine.image_inspect(&id).expect("inspect");
    assert_eq!(detail.repo_tags, [format!("{repository}:latest")]);
    assert_eq!(detail.repo_digests, [format!("{repository}@{}", pushed.digest)]);
    let by_digest = PullImage::of(format!("{repository}@{}", pushed.digest));
    assert_eq!(fresh.engine.image_pull(&by_digest, &mut |_| Ok(()), Some(&soon())).expect("pull by digest"), id);
}

#[test]
fn errors_of_missing_images_have_docker_s_words() {
    let root = Root::new();
    let mut registry = Registry::plain(&root.dir.join("registry"));
    let host = registry.host();
    let name = format!("{host}/no/such:tag");
    let text = format!("manifest for {name} not found: manifest unknown: manifest unknown");
    fails(pull(&root.engine, &name), ErrorKind::NotFound, &text);
    let text = format!("An image does not exist locally with the tag: {host}/no/such");
    fails(push(&root.engine, &name), ErrorKind::NotFound, &text);
    root.engine.image_tag(IMAGE, &format!("{host}/is/here:1")).expect("tag");
    let text = format!("tag does not exist: {host}/is/here:2");
    fails(push(&root.engine, &format!("{host}/is/here:2")), ErrorKind::NotFound, &text);
    for bad in ["", "Upper", "a b", "x@sha256:00"] {
        fails(pull(&root.engine, bad), ErrorKind::Invalid, "");
    }
    registry.kill();
    fails(pull(&root.engine, &name), ErrorKind::Internal, "onnection refused");
    // Plain HTTP is for this machine and what was listed.
    fails(pull(&root.engine, "nosuch.invalid:5000/x:1"), ErrorKind::Internal, "https://nosuch.invalid:5000/v2/");
}

#[test]
fn others_read_what_we_push_and_we_what_they_push() {
    let root = Root::new();
    let registry = Registry::plain(&root.dir.join("registry"));
    let host = registry.host();
    let ours = format!("{host}/our/box:1");
    root.engine.image_tag(IMAGE, &ours).expect("tag");
    push(&root.engine, &ours).expect("push");
    let id = root.engine.image_inspect(IMAGE).expect("inspect").id;
    let skopeo = |words: &[&str]| {
        let out = Command::new("skopeo").args(words).stdin(Stdio::null()).output().expect("skopeo");
        assert!(out.status.success(), "{words:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8_lossy(&out.stdout).into_owned()
    };
    let raw = skopeo(&["inspect", "--tls-verify=false", "--config", "--raw", &format!("docker://{ours}")]);
    assert_eq!(format!("sha256:{}", sha256(raw.as_bytes())), id);
    // OCI with gzip and with zstd.
    for (tag, more) in [("gzip", &[][..]), ("zstd", &["--dest-compress-format", "zstd"])] {
        let to = format!("{host}/their/box:{tag}");
        let tls = ["copy", "-q", "--src-tls-verify=false", "--dest-tls-verify=false", "--format", "oci"];
        skopeo(&[&tls[..], more, &[&format!("docker://{ours}"), &format!("docker://{to}")]].concat());
        let fresh = Root::empty();
        pull(&fresh.engine, &to).unwrap_or_else(|e| panic!("{tag}: {e}"));
        assert_eq!(fresh.run(&["echo", "hello"], json!({ "Image": to }), b"").ok(), "hello");
    }
}

#[test]
fn a_blob_that_is_not_what_it_should_be() {
    let root = Root::empty();
    let registry = Registry::plain(&root.dir.join("registry"));
    let layer = Tar::new().file("f", &noise(300_000)).end();
    let name = format!("{}/spoilt/one:1", registry.host());
    load(&root.engine, &archive::image(&name, &[&layer]));
    push(&root.engine, &name).expect("push");
    let engine = &root.engine;
    engine.image_remove(&name, RemoveImage { force: true, ..RemoveImage::default() }).expect("remove");
    nothing_is_left(&root);
    let manifest = Command::new("curl")
        .args(["-sf", "-H", "Accept: application/vnd.docker.distribution.manifest.v2+json"])
        .arg(format!("http://{}/v2/spoilt/one/manifests/1", registry.host()))
        .output()
        .expect("curl");
    let manifest: Value = serde_json::from_slice(&manifest.stdout).expect("the manifest");
    let (config, layer) = (&manifest["config"]["digest"], &manifest["layers"][0]["digest"]);
    let (config, layer) = (config.as_str().expect("a digest"), layer.as_str().expect("a digest"));
    for (what, digest) in [("the configuration", config), ("the layer", layer)] {
        let path = registry.blob(digest);
        let whole = std::fs::read(&path).expect("the blob");
        let mut changed = whole.clone();
        let middle = changed.len() / 2;
        changed[middle] ^= 1;
        std::fs::write(&path, &changed).expect("write");
        let text = format!("verification failed for digest {digest}");
        fails(pull(engine, &name), ErrorKind::Invalid, &text);
        nothing_is_left(&root);
        std::fs::write(&path, &whole[..middle]).expect("write");
        let text = format!("{digest}: the manifest says {} bytes, the registry has {middle}", whole.len());
        fails(pull(engine, &name), ErrorKind::Invalid, &text);
        nothing_is_left(&root);
        std::fs::write(&path, &whole).unwrap_or_else(|e| panic!("{what}: {e}"));
    }
    pull(engine, &name).expect("with all as it was");
}

/// A plain registry at another port, which is killed and started again when 8 MiB have gone one way in a connection.
fn killed_midway(registry: &Arc<Mutex<Registry>>) -> Tripwire {
    let port = registry.lock().expect("the registry").port;
    let registry = registry.clone();
    Tripwire::start(port, 8 << 20, move || {
        let mut registry = registry.lock().expect("the registry");
        registry.kill();
        registry.run();
    })
}

#[test]
fn a_registry_that_is_killed_midway_and_comes_back() {
    let root = Root::empty();
    let registry = Arc::new(Mutex::new(Registry::plain(&root.dir.join("registry"))));
    let layer = Tar::new().file("big", &noise(32 << 20)).end();
    // Killed in the push: it is begun anew.
    let wire = killed_midway(&registry);
    let name = format!("{}/big/one:1", wire.host());
    load(&root.engine, &archive::image(&name, &[&layer]));
    let mut told = Vec::new();
    let request = PushImage { name: name.clone(), ..PushImage::default() };
    let mut tell = |message: Progress| {
        told.push(message.status);
        Ok(())
    };
    root.engine.image_push_tags(&request, &mut tell, Some(&soon())).expect("push");
    assert!(told.iter().any(|status| status.starts_with("Retrying in ")), "{told:?}");
    let id = root.engine.image_inspect(&name).expect("inspect").id;

    // Killed in the pull: it goes on where it was.
    let wire = killed_midway(&registry);
    let name = format!("{}/big/one:1", wire.host());
    let fresh = Root::empty();
    let mut told = Vec::new();
    let request = PullImage { name: name.clone(), ..PullImage::default() };
    let mut tell = |message: Progress| {
        told.push(message.status);
        Ok(())
    };
    fresh.engine.image_pull_tags(&request, &mut tell, Some(&soon())).expect("pull");
    assert!(told.iter().any(|status| status == "Retrying in 1 second"), "{told:?}");
    let log = registry.lock().expect("the registry").log();
    assert!(log.contains("\" 206 "), "nothing was resumed: {log}");
    assert_eq!(fresh.engine.image_inspect(&name).expect("inspect").id, id);
}

/// bcrypt of `s3cr3t-word`.
const HTPASSWD: &str = "sailor:$2y$05$abcdefghijklmnopqrstuu1gnH1w3qtZX3U1O7JEI3HUJtwELxlju\n";
pub(super) const SECRET: &str = "s3cr3t-word";

/// A registry for users with the sailor's password.
pub(super) fn basic_registry(dir: &std::path::Path) -> Registry {
    std::fs::create_dir_all(dir).expect("mkdir");
    std::fs::write(dir.join("htpasswd"), HTPASSWD).expect("write");
    let more = format!(
        "http: {{addr: \"127.0.0.1:PORT\"}}\nauth:\n  htpasswd: {{realm: test, path: {}/htpasswd}}",
        dir.display()
    );
    Registry::start(dir, &more)
}

#[test]
fn basic_login() {
    let root = Root::new();
    let registry = basic_registry(&root.dir.join("registry"));
    let name = format!("{}/closed/box:1", registry.host());
    root.engine.image_tag(IMAGE, &name).expect("tag");
    let (right, wrong) = (login("sailor", SECRET), login("sailor", "another-word"));
    for call in [push(&root.engine, &name), pull(&root.engine, &name)] {
        fails(call, ErrorKind::Unauthorized, "no basic auth credentials");
    }
    let error = push_with(&root.engine, &name, wrong.clone()).expect_err("a wrong password");
    assert_eq!(error.kind(), ErrorKind::Unauthorized);
    assert!(error.message().contains("unauthorized: authentication required"), "{error}");
    assert!(!format!("{error} {error:?}").contains("another-word"), "{error:?}");
    push_with(&root.engine, &name, right.clone()).expect("push");
    let fresh = Root::empty();
    let text = "pull access denied for";
    fails(pull_with(&fresh.engine, &name, wrong.clone()), ErrorKind::NotFound, text);
    pull_with(&fresh.engine, &name, right.clone()).expect("pull");
    // Both in one field, as docker's configuration has it.
    let header = RegistryAuth { auth: "c2FpbG9yOnMzY3IzdC13b3Jk".into(), ..RegistryAuth::default() };
    pull_with(&fresh.engine, &name, header).expect("pull");

    let at = |auth: RegistryAuth| RegistryAuth { serveraddress: format!("http://{}/v1/", registry.host()), ..auth };
    let status = fresh.engine.registry_auth(&at(right), Some(&soon())).expect("log in");
    assert_eq!((status.status.as_str(), status.identity_token.as_str()), ("Login Succeeded", ""));
    fails(fresh.engine.registry_auth(&at(wrong), Some(&soon())), ErrorKind::Unauthorized, "unauthorized");
}

#[test]
fn tls_with_an_authority_of_its_own() {
    let root = Root::new();
    let dir = root.dir.join("registry");
    let registry = Registry::tls(&dir, "", "");
    make_certificates(&root.dir.join("other"));
    let certs = root.dir.join("certs.d");
    let own = certs.join(registry.host());
    std::fs::create_dir_all(&own).expect("mkdir");
    let with_certs = || Root::with(|options| options.registry.certs_dirs = vec![certs.clone()]);
    let name = format!("{}/tls/box:1", registry.host());
    root.engine.image_tag(IMAGE, &name).expect("tag");
    // This machine's own address: nobody need vouch for it, unless somebody is named.
    push(&root.engine, &name).expect("push");
    std::fs::copy(dir.join("ca.pem"), own.join("ca.crt")).expect("copy");
    pull(&with_certs().engine, &name).expect("pull with the right authority");
    std::fs::copy(root.dir.join("other/ca.pem"), own.join("ca.crt")).expect("copy");
    let fresh = with_certs();
    fails(pull(&fresh.engine, &name), ErrorKind::Internal, "certificate");
    std::fs::write(own.join("client.cert"), "x").expect("write");
    fails(pull(&fresh.engine, &name), ErrorKind::Invalid, "missing key");
}

/// An image as a scripted registry gives it: documents and blobs by path.
pub(super) struct Stocked {
    paths: BTreeMap<String, (String, Vec<u8>)>,
    pub(super) layer: String,
    pub(super) manifest: String,
}

/// The repository `made/hand` with the tags `1` (an image of one layer) and `list` (a list with it in).
pub(super) fn stocked(layer_type: &str, layer: &[u8], tar: &[u8]) -> Stocked {
    let mut paths = BTreeMap::new();
    let digest = |bytes: &[u8]| format!("sha256:{}", sha256(bytes));
    let config = archive::config(json!({}), &[digest(tar)]).into_bytes();
    let part = |kind: &str, bytes: &[u8]| json!({ "mediaType": kind, "size": bytes.len(), "digest": digest(bytes) });
    let manifest = json!({ "schemaVersion": 2, "layers": [part(layer_type, layer)],
        "config": part("application/vnd.docker.container.image.v1+json", &config) });
    let manifest = manifest.to_string().into_bytes();
    let kind = "application/vnd.docker.distribution.manifest.v2+json";
    let mut entry = part(kind, &manifest);
    let mut wrong = entry.clone();
    wrong["digest"] = json!(digest(b"for another machine"));
    wrong["platform"] = json!({ "os": "linux", "architecture": "s390x" });
    let ours = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    entry["platform"] = json!({ "os": "linux", "architecture": ours });
    let list = json!({ "schemaVersion": 2, "manifests": [wrong, entry] }).to_string().into_bytes();
    let at = |part: &str| format!("/v2/made/hand/{part}");
    for reference in ["1".to_owned(), digest(&manifest)] {
        paths.insert(at(&format!("manifests/{reference}")), (kind.to_owned(), manifest.clone()));
    }
    let list_kind = "application/vnd.docker.distribution.manifest.list.v2+json".to_owned();
    paths.insert(at("manifests/list"), (list_kind, list));
    for blob in [&config[..], layer] {
        paths.insert(at(&format!("blobs/{}", digest(blob))), ("application/octet-stream".into(), blob.to_vec()));
    }
    paths.insert("/v2/".into(), ("application/json".into(), b"{}".to_vec()));
    Stocked { paths, layer: digest(layer), manifest: digest(&manifest) }
}

impl Stocked {
    pub(super) fn answer(&self, asked: &Request) -> Answered {
        match self.paths.get(&asked.target) {
            Some((kind, body)) => Answered::new(200, body.clone()).with("Content-Type", kind),
            None => Answered::new(404, r#"{"errors":[{"code":"MANIFEST_UNKNOWN","message":"not here"}]}"#),
        }
    }
}

pub(super) const PLAIN: &str = "application/vnd.oci.image.layer.v1.tar";

#[test]
fn lists_give_this_machine_s_image_and_layers_may_be_plain() {
    let tar = Tar::new().file("f", b"by hand").end();
    let stock = stocked(PLAIN, &tar, &tar);
    let manifest = stock.manifest.clone();
    let server = Scripted::start(move |asked| stock.answer(asked));
    let root = Root::empty();
    let name = format!("{}/made/hand:list", server.host());
    pull(&root.engine, &name).expect("pull");
    let detail = root.engine.image_inspect(&name).expect("inspect");
    // The digest is that of the list, as in docker.
    assert_ne!(detail.repo_digests[0], format!("{}/made/hand@{manifest}", server.host()));
    assert!(server.asked_for("/manifests/sha256:")[0].target.ends_with(&manifest));
    assert!(server.asked_for("/manifests/list")[0].header("accept").contains("image.index.v1+json"));
}

#[test]
fn layers_that_are_elsewhere_are_refused_before_anything_is_fetched() {
    let tar = Tar::new().file("f", b"x").end();
    let stock = stocked("application/vnd.docker.image.rootfs.foreign.diff.tar.gzip", &tar, &tar);
    let server = Scripted::start(move |asked| stock.answer(asked));
    let root = Root::empty();
    fails(
        pull(&root.engine, &format!("{}/made/hand:1", server.host())),
        ErrorKind::Unsupported,
        "foreign layer sha256:",
    );
    assert!(server.asked_for("/blobs/").is_empty());
    nothing_is_left(&root);
}

#[test]
fn tokens_are_fetched_and_credentials_stay_at_home() {
    let tar = Tar::new().file("f", b"x").end();
    let stock = stocked(PLAIN, &tar, &tar);
    let layer = stock.layer.clone();
    // The token server, the host that blobs are redirected to, the registry: three hosts.
    let tokens = Scripted::start(|asked| match asked.header("authorization") {
        // sailor:s3cr3t-word
        "Basic c2FpbG9yOnMzY3IzdC13b3Jk" => Answered::new(200, r#"{"token":"the-token","expires_in":300}"#),
        _ => Answered::new(401, r#"{"details":"incorrect username or password"}"#),
    });
    let body = tar.clone();
    let elsewhere = Scripted::start(move |_| Answered::new(200, body.clone()));
    let (realm, away) = (tokens.host(), elsewhere.host());
    let registry = Scripted::start(move |asked| {
        if asked.header("authorization") != "Bearer the-token" {
            let challenge = format!("Bearer realm=\"http://{realm}/token\",service=\"the service\",scope=\"x\"");
            return Answered::new(401, "{}").with("WWW-Authenticate", &challenge);
        }
        if asked.target.ends_with(&layer) {
            return Answered::new(307, "").with("Location", &format!("http://{away}/signed?secret=1"));
        }
        stock.answer(asked)
    });
    let root = Root::empty();
    let name = format!("{}/made/hand:1", registry.host());
    let error = pull_with(&root.engine, &name, login("sailor", "wrong-word")).expect_err("a wrong password");
    assert!(error.message().contains("incorrect username or password"), "{error}");
    assert!(!error.message().contains("wrong-word"), "{error}");
    pull_with(&root.engine, &name, login("sailor", SECRET)).expect("pull");
    let asked = tokens.asked();
    let target = "/token?service=the%20service&scope=repository%3Amade%2Fhand%3Apull&account=sailor";
    assert_eq!(asked.last().expect("a request").target, target);
    assert_eq!(asked.len(), 2, "a token is used again");
    // No other host saw a password or the token.
    assert!(registry.asked().iter().all(|asked| !asked.header("authorization").starts_with("Basic")));
    assert_eq!(elsewhere.asked().len(), 1);
    assert_eq!(elsewhere.asked()[0].header("authorization"), "");
    // A token of the caller's goes as it is.
    let other = Root::empty();
    let auth = RegistryAuth { registrytoken: "the-token".into(), ..RegistryAuth::default() };
    pull_with(&other.engine, &name, auth).expect("pull");
    assert_eq!(tokens.asked().len(), 2);
}

#[test]
fn a_registry_that_asks_for_patience_and_one_that_breaks_off() {
    let tar = Tar::new().file("f", &noise(400_000)).end();
    let stock = stocked(PLAIN, &tar, &tar);
    let (layer, busy, cut) = (stock.layer.clone(), AtomicU32::new(0), AtomicU32::new(0));
    let server = Scripted::start(move |asked| {
        if asked.target.ends_with("/manifests/1") && busy.fetch_add(1, Ordering::SeqCst) == 0 {
            return Answered::new(429, "{}").with("Retry-After", "1");
        }
        let answer = stock.answer(asked);
        // The server supports no ranges, and breaks off once.
        if asked.target.ends_with(&layer) && cut.fetch_add(1, Ordering::SeqCst) == 0 {
            return Answered { stop_after: Some(150_000), ..answer };
        }
        answer
    });
    let root = Root::empty();
    pull(&root.engine, &format!("{}/made/hand:1", server.host())).expect("pull");
    let blobs = server.asked_for("/blobs/");
    let ranges: Vec<&str> = blobs.iter().map(|asked| asked.header("range")).filter(|range| !range.is_empty()).collect();
    assert_eq!(ranges.len(), 1);
    assert!(ranges[0].starts_with("bytes=") && ranges[0] != "bytes=0-", "{ranges:?}");
}

#[test]
fn one_download_serves_all_waiting_pulls() {
    let tar = Tar::new().file("f", &noise(200_000)).end();
    let stock = stocked(PLAIN, &tar, &tar);
    let layer = stock.layer.clone();
    let server = Scripted::start(move |asked| {
        if asked.target.ends_with(&layer) {
            std::thread::sleep(Duration::from_millis(300));
        }
        stock.answer(asked)
    });
    let root = Root::empty();
    let name = format!("{}/made/hand:1", server.host());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| pull(&root.engine, &name).expect("pull"));
        }
    });
    let layers = server.asked_for("/blobs/").into_iter().filter(|asked| asked.target.contains(&sha256(&tar)));
    assert_eq!(layers.count(), 1);
}

#[test]
fn a_pull_can_be_cancelled_and_leaves_nothing() {
    let tar = Tar::new().file("f", &noise(400_000)).end();
    let stock = stocked(PLAIN, &tar, &tar);
    let layer = stock.layer.clone();
    let server = Scripted::start(move |asked| {
        let answer = stock.answer(asked);
        match asked.target.ends_with(&layer) {
            true => Answered { stop_after: Some(100_000), stall: true, ..answer },
            false => answer,
        }
    });
    let root = Root::empty();
    let request = PullImage { name: format!("{}/made/hand:1", server.host()), ..PullImage::default() };
    let op = Op::new().expect("an operation");
    std::thread::scope(|scope| {
        let other = op.clone();
        scope.spawn(move || {
            std::thread::sleep(Duration::from_millis(500));
            other.cancel();
        });
        let result = root.engine.image_pull_tags(&request, &mut |_| Ok(()), Some(&op));
        fails(result, ErrorKind::Cancelled, "cancelled");
    });
    nothing_is_left(&root);
    // A deadline, and a caller who does not want to hear more.
    let op = Op::new().expect("an operation");
    op.set_timeout(Some(Duration::from_millis(300)));
    fails(root.engine.image_pull_tags(&request, &mut |_| Ok(()), Some(&op)), ErrorKind::Timeout, "deadline");
    let mut refuse = |_: Progress| Err(coracle::Error::new(ErrorKind::Callback, "enough"));
    fails(root.engine.image_pull_tags(&request, &mut refuse, None), ErrorKind::Callback, "enough");
    nothing_is_left(&root);
}

#[test]
fn the_docker_command_pulls_and_pushes_through_serve() {
    let root = Root::new();
    let registry = Registry::plain(&root.dir.join("registry"));
    let socket = root.dir.join("sock").display().to_string();
    let at = |name: &str| root.dir.join(name).display().to_string();
    let mut server = Command::new(built("coracle"))
        .args(["--root", &at("root"), "--run", &at("run"), "serve", "-H", &format!("unix://{socket}")])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("serve");
    wait_for("the server", || std::os::unix::net::UnixStream::connect(&socket).is_ok());
    let docker = |words: &[&str]| {
        let out = Command::new("docker")
            .args(["-H", &format!("unix://{socket}")])
            .args(words)
            .env("DOCKER_API_VERSION", "1.24")
            .env("DOCKER_CONFIG", at("no-config"))
            .stdin(Stdio::null())
            .output()
            .expect("docker");
        (
            out.status.success(),
            String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr),
        )
    };
    let name = format!("{}/by/docker:1", registry.host());
    root.engine.image_tag(IMAGE, &name).expect("tag");
    let pushed = docker(&["push", &name]);
    let digest = root.engine.image_inspect(&name).expect("inspect").repo_digests.pop();
    root.engine.image_remove(&name, RemoveImage { force: true, ..RemoveImage::default() }).expect("untag");
    let pulled = docker(&["pull", &name]);
    let missing = docker(&["pull", &format!("{}/by/docker:2", registry.host())]);
    let absent = docker(&["push", &format!("{}/by/nobody:2", registry.host())]);
    let _ = server.kill();
    let _ = server.wait();
    assert!(pushed.0 && pushed.1.contains("1: digest: sha256:"), "{pushed:?}");
    assert!(
        pulled.0 && pulled.1.contains(&format!("Status: Image is up to date for {name}"))
            || pulled.1.contains("Downloaded newer image"),
        "{pulled:?}"
    );
    assert!(digest.is_some_and(|digest| pulled.1.contains(digest.split_once('@').expect("a digest").1)), "{pulled:?}");
    assert!(!missing.0 && missing.1.contains("manifest unknown"), "{missing:?}");
    assert!(!absent.0 && absent.1.contains("An image does not exist locally with the tag"), "{absent:?}");
}
