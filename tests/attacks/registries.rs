//! Registries that lie, lead elsewhere and collect credentials. Each is a small server on this machine's own address.

use crate::support::archive::{self, Tar, sha256};
use crate::support::ended::Ended;
use crate::support::registry::{Answered, Registry, Request, Scripted, make_certificates};
use crate::support::*;
use coracle::model::*;
use coracle::{Context, ErrorKind};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

const MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
const LIST: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
const OCI: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
const CONFIG: &str = "application/vnd.docker.container.image.v1+json";
/// This machine by a name that does not look like it: as a server elsewhere.
const ELSEWHERE: &str = "2130706433";

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", sha256(bytes))
}

fn part(kind: &str, bytes: &[u8]) -> Value {
    json!({ "mediaType": kind, "size": bytes.len(), "digest": digest(bytes) })
}

/// The repository `made/hand` with an image of one layer under the tag `1`.
#[derive(Clone)]
struct Stock {
    paths: BTreeMap<String, (String, Vec<u8>)>,
    config: String,
    layer: String,
    manifest: Value,
}

impl Stock {
    fn new(content: &[u8]) -> Stock {
        let layer = Tar::new().file("f", content).end();
        let config = archive::config(json!({ "Cmd": ["true"] }), &[digest(&layer)]).into_bytes();
        let manifest = json!({ "schemaVersion": 2, "mediaType": MANIFEST, "config": part(CONFIG, &config),
            "layers": [part(LAYER, &layer)] });
        let (config_digest, layer_digest) = (digest(&config), digest(&layer));
        let mut stock =
            Stock { paths: BTreeMap::new(), config: config_digest, layer: layer_digest, manifest: manifest.clone() };
        for blob in [config, layer] {
            stock.paths.insert(format!("/v2/made/hand/blobs/{}", digest(&blob)), ("application/json".into(), blob));
        }
        stock.manifest("1", MANIFEST, manifest.to_string().into_bytes());
        stock
    }

    /// Under a tag and under its digest.
    fn manifest(&mut self, tag: &str, kind: &str, bytes: Vec<u8>) -> String {
        let name = digest(&bytes);
        for reference in [tag, &name] {
            self.put(reference, kind, bytes.clone());
        }
        name
    }

    /// Under a tag or digest, whatever its own is.
    fn put(&mut self, reference: &str, kind: &str, bytes: Vec<u8>) {
        self.paths.insert(format!("/v2/made/hand/manifests/{reference}"), (kind.into(), bytes));
    }

    fn blob(&mut self, digest: &str, bytes: Vec<u8>) {
        self.paths.insert(format!("/v2/made/hand/blobs/{digest}"), ("application/json".into(), bytes));
    }

    fn answer(&self, asked: &Request) -> Answered {
        match self.paths.get(asked.target.split('?').next().unwrap_or_default()) {
            _ if asked.target == "/v2/" => Answered::new(200, "{}"),
            Some((kind, body)) => Answered::new(200, body.clone()).with("Content-Type", kind),
            None => Answered::new(404, r#"{"errors":[{"code":"MANIFEST_UNKNOWN","message":"not here"}]}"#),
        }
    }

    fn serve(self) -> Scripted {
        Scripted::start(move |asked| self.answer(asked))
    }
}

fn login() -> RegistryAuth {
    RegistryAuth { username: "sailor".into(), password: "s3cr3t-word".into(), ..RegistryAuth::default() }
}

/// `sailor:s3cr3t-word`.
const LOGIN: &str = "Basic c2FpbG9yOnMzY3IzdC13b3Jk";
const TOKEN: &str = "Bearer the-token";

fn pull(root: &Root, name: &str, auth: RegistryAuth) -> coracle::Result<Vec<String>> {
    let request = PullImage { name: name.into(), auth, ..PullImage::default() };
    root.engine.image_pull_tags(&request, &mut |_| Ok(()), Some(&soon()))
}

fn pull_plain(root: &Root, name: &str) -> coracle::Result<Vec<String>> {
    pull(root, name, RegistryAuth::default())
}

fn push(root: &Root, name: &str) -> coracle::Result<()> {
    let request = PushImage { name: name.into(), auth: login(), ..PushImage::default() };
    root.engine.image_push_tags(&request, &mut |_| Ok(()), Some(&soon()))
}

/// Nothing is staged, and no layer is there without an image.
#[track_caller]
fn nothing_is_left(root: &Root) {
    assert_eq!(root.engine.image_list(&ListImages::default()).expect("list"), []);
    for dir in ["root/layers", "root/tmp"] {
        assert_eq!(std::fs::read_dir(root.dir.join(dir)).expect("read it").count(), 0, "{dir} is not empty");
    }
}

/// A server that listens to everything and says nothing but that it has nothing.
fn collector() -> Scripted {
    Scripted::start(|_| {
        let challenge = "Basic realm=\"for you\"";
        Answered::new(401, "{}").with("WWW-Authenticate", challenge)
    })
}

#[track_caller]
fn collected_nothing(server: &Scripted, how: &str) {
    for asked in server.asked() {
        assert_eq!(asked.header("authorization"), "", "{how}: {} {}", asked.method, asked.target);
        assert!(!asked.target.contains("the-token"), "{how}: {}", asked.target);
    }
}

/// A registry's answers can lead to other servers in these places: a redirect of each kind, the next page, the upload's
/// place. The realm is not one of them: a registry that is hostile by itself can ask for the credentials straight.
// attack: 111 wall credentials-at-home
#[test]
fn credentials_stay_with_the_host_that_they_are_for() {
    let root = Root::new();
    for status in [301, 302, 303, 307, 308] {
        for what in ["/manifests/", "/blobs/"] {
            let (stock, away) = (Stock::new(b"f"), collector());
            let place = format!("http://{}/x", away.host());
            let registry = Scripted::start(move |asked| {
                if asked.header("authorization") != LOGIN {
                    return Answered::new(401, "{}").with("WWW-Authenticate", "Basic realm=\"x\"");
                }
                match asked.target.contains(what) {
                    true => Answered::new(status, "").with("Location", &place),
                    false => stock.answer(asked),
                }
            });
            let pulled = pull(&root, &format!("{}/made/hand:1", registry.host()), login());
            let how = format!("{status} of {what}");
            assert!(pulled.is_err() && !away.asked().is_empty(), "{how}: {pulled:?}");
            assert!(registry.asked().iter().any(|asked| asked.header("authorization") == LOGIN), "{how}");
            collected_nothing(&away, &how);
        }
    }
    // The next page of the tags, and where an upload goes on.
    for what in ["tags/list", "blobs/uploads"] {
        let (stock, away) = (Stock::new(b"f"), collector());
        let place = format!("http://{}/x", away.host());
        let registry = Scripted::start(move |asked| {
            if asked.header("authorization") != LOGIN {
                return Answered::new(401, "{}").with("WWW-Authenticate", "Basic realm=\"x\"");
            }
            match (&*asked.method, asked.target.contains(what)) {
                ("GET", true) => Answered::new(200, r#"{"tags":[]}"#).with("Link", &format!("<{place}>; rel=\"next\"")),
                ("POST", true) => Answered::new(202, "").with("Location", &place),
                _ => stock.answer(asked),
            }
        });
        let name = format!("{}/made/hand", registry.host());
        let failed = match what {
            "tags/list" => pull(&root, &name, login()).is_err(),
            _ => {
                root.engine.image_tag(IMAGE, &format!("{name}:new")).expect("tag");
                push(&root, &format!("{name}:new")).is_err()
            }
        };
        assert!(failed && !away.asked().is_empty(), "{what}");
        collected_nothing(&away, what);
    }
    // The token server leads on; the server at the end of the redirection sees neither the login nor the token.
    let (stock, away) = (Stock::new(b"f"), collector());
    let place = format!("http://{}/token", away.host());
    let tokens = Scripted::start(move |_| Answered::new(307, "").with("Location", &place));
    let realm = format!("Bearer realm=\"http://{}/token\",service=\"s\"", tokens.host());
    let registry = Scripted::start(move |asked| match asked.header("authorization") {
        TOKEN => stock.answer(asked),
        _ => Answered::new(401, "{}").with("WWW-Authenticate", &realm),
    });
    assert!(pull(&root, &format!("{}/made/hand:1", registry.host()), login()).is_err());
    assert_eq!(tokens.asked()[0].header("authorization"), LOGIN);
    assert!(!away.asked().is_empty());
    collected_nothing(&away, "the token server");
    collected_nothing(&registry, "the registry, of what is for the token server");
}

/// A registry that is elsewhere leads to this machine's own servers: by names that look like none of its addresses, too.
// attack: 113 wall led-addresses
#[test]
fn no_server_leads_to_this_machine_s_own_addresses() {
    let victim = Scripted::start(|_| Answered::new(200, "{}"));
    for host in ["127.0.0.1", "localhost", ELSEWHERE, "127.1", "0.0.0.0"] {
        let place = format!("http://{host}:{}/secret", victim.port);
        for what in ["redirect", "realm"] {
            let place = place.clone();
            let registry = Scripted::start(move |_| match what {
                "redirect" => Answered::new(307, "").with("Location", &place),
                _ => Answered::new(401, "{}").with("WWW-Authenticate", &format!("Bearer realm=\"{place}\"")),
            });
            let here = format!("{ELSEWHERE}:{}", registry.port);
            // A server without TLS is asked only when its registry may be; all of these may be, by their ports' hosts.
            let insecure = vec![here.clone(), "127.1/32".into(), "0.0.0.0/32".into()];
            let root = Root::with(|options| options.registry.insecure = insecure);
            let error = pull(&root, &format!("{here}/made/hand:1"), login()).expect_err("led to this machine");
            assert!(!registry.asked().is_empty(), "{what} {host}: nobody was led there");
            assert!(victim.asked().is_empty(), "{what} to {host}: {:?}", victim.asked());
            assert!(!error.message().contains("s3cr3t"), "{error}");
        }
    }
    // Files of builds: any server may be asked for those, by the build file alone.
    let place = format!("http://127.0.0.1:{}/secret", victim.port);
    let server = Scripted::start(move |_| Answered::new(302, "").with("Location", &place));
    let root = Root::new();
    let file = format!("FROM scratch\nADD http://{ELSEWHERE}:{}/f /f\n", server.port);
    let context = Tar::new().file("Dockerfile", file.as_bytes()).end();
    let how = BuildImage::default();
    let built = root.engine.image_build(&how, Context::Tar(&mut &context[..]), &mut |_| Ok(()), Some(&soon()));
    assert!(!server.asked().is_empty() && victim.asked().is_empty(), "{built:?}");
    fails(built, ErrorKind::Internal, "a server led there");
    // The twin: the server that the address names is asked, and so is one that the options list.
    let (stock, blobs) = (Stock::new(b"f"), Stock::new(b"f").serve());
    let listed = format!("127.0.0.1:{}", blobs.port);
    let place = format!("http://{listed}");
    let registry = Scripted::start(move |asked| match asked.target.contains("/blobs/") {
        true => Answered::new(307, "").with("Location", &format!("{place}{}", asked.target)),
        false => stock.answer(asked),
    });
    let here = format!("{ELSEWHERE}:{}", registry.port);
    let insecure = vec![here.clone(), listed];
    let root = Root::with(|options| options.registry.insecure = insecure);
    pull_plain(&root, &format!("{here}/made/hand:1")).expect("the twin");
}

// attack: 110 wall foreign-layers
#[test]
fn layers_that_are_elsewhere_are_asked_for_nowhere() {
    let root = Root::empty();
    for kind in [
        "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip",
        "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip",
    ] {
        let (mut stock, away) = (Stock::new(b"f"), collector());
        let mut manifest = stock.manifest.clone();
        manifest["layers"][0]["mediaType"] = json!(kind);
        manifest["layers"][0]["urls"] = json!([format!("http://{}/layer", away.host())]);
        stock.manifest("1", MANIFEST, manifest.to_string().into_bytes());
        let registry = stock.serve();
        let pulled = pull(&root, &format!("{}/made/hand:1", registry.host()), login());
        assert!(!registry.asked_for("/manifests/").is_empty());
        assert!(registry.asked_for("/blobs/").is_empty() && away.asked().is_empty(), "{:?}", away.asked());
        fails(pulled, ErrorKind::Unsupported, "foreign layer sha256:");
        nothing_is_left(&root);
    }
}

/// A port that takes what comes, remembers it, and does with the connection what the test wants.
fn raw(answer: impl Fn(&mut TcpStream, &[u8]) + Send + 'static) -> (u16, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
    let port = listener.local_addr().expect("its address").port();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let all = seen.clone();
    // The server ends with the test's process.
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut first = [0; 4096];
            let count = stream.read(&mut first).unwrap_or(0);
            all.lock().expect("what was seen").extend(&first[..count]);
            answer(&mut stream, &first[..count]);
        }
    });
    (port, seen)
}

/// A registry that should speak TLS closes such connections, or shows the certificate of another authority, and answers
/// plain HTTP.
// attack: 109 wall plain-fallback
#[test]
fn no_failure_of_tls_leads_to_plain_http() {
    let dir = temp_dir();
    let _gone = Gone(&dir);
    make_certificates(&dir.join("right"));
    make_certificates(&dir.join("wrong"));
    let answer = |stream: &mut TcpStream, first: &[u8]| {
        if first.starts_with(b"GET") {
            let body = "HTTP/1.1 401 X\r\nWWW-Authenticate: Basic realm=\"x\"\r\nContent-Length: 0\r\n\r\n";
            let _ = stream.write_all(body.as_bytes());
            let _ = stream.read(&mut [0; 4096]);
        }
    };
    let try_at = |port: u16| {
        let host = format!("127.0.0.1:{port}");
        let own = dir.join("certs.d").join(&host);
        std::fs::create_dir_all(&own).expect("mkdir");
        std::fs::copy(dir.join("right/ca.pem"), own.join("ca.crt")).expect("copy");
        let root = Root::with(|options| options.registry.certs_dirs = vec![dir.join("certs.d")]);
        pull(&root, &format!("{host}/made/hand:1"), login()).map(drop)
    };
    let (port, seen) = raw(answer);
    fails(try_at(port), ErrorKind::Internal, "https://127.0.0.1");
    let seen = seen.lock().expect("what was seen").clone();
    assert!(seen.starts_with(&[22, 3]), "no TLS was tried");
    let plain = |bytes: &[u8]| bytes.windows(5).any(|window| window == b"GET /");
    assert!(!plain(&seen), "{}", String::from_utf8_lossy(&seen));

    // A front that leads TLS to a server of the wrong authority, and answers plain HTTP itself.
    let behind = Served::tls(&dir.join("wrong"));
    let port_behind = behind.1;
    let (port, seen) = raw(move |stream, first| {
        if first.starts_with(b"GET") {
            return answer(stream, first);
        }
        let Ok(mut server) = TcpStream::connect(("127.0.0.1", port_behind)) else { return };
        let _ = server.write_all(first);
        let (Ok(mut from), Ok(mut to)) = (server.try_clone(), stream.try_clone()) else { return };
        let back = std::thread::spawn(move || drop(std::io::copy(&mut from, &mut to)));
        let _ = std::io::copy(stream, &mut server);
        let _ = server.shutdown(std::net::Shutdown::Both);
        let _ = back.join();
    });
    fails(try_at(port), ErrorKind::Internal, "certificate");
    let seen = seen.lock().expect("what was seen").clone();
    assert!(!plain(&seen), "{}", String::from_utf8_lossy(&seen));
}

/// A directory that goes with the test.
struct Gone<'a>(&'a Path);

impl Drop for Gone<'_> {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.0);
    }
}

/// A TLS server, which ends with the value; its port.
struct Served(#[allow(dead_code)] Ended, u16);

impl Served {
    fn tls(dir: &Path) -> Served {
        let port = crate::support::registry::free_port();
        let mut command = Command::new("openssl");
        command.args(["s_server", "-quiet", "-www", "-cert", "cert.pem", "-key", "key.pem", "-accept"]);
        command.arg(format!("127.0.0.1:{port}")).current_dir(dir);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("openssl");
        let served = Served(Ended(child), port);
        wait_for("the server", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        served
    }
}

/// Credentials of a build are looked up by the registry's whole name: no other's, not those of docker's own registry.
// attack: 112 wall credentials-by-host
#[test]
fn credentials_are_those_of_the_asked_registry() {
    let registry = collector();
    let root = Root::new();
    let other = |name: &str| (name.to_owned(), login());
    let host = registry.host();
    let names = ["a.test", "https://index.docker.io/v1/", "127.0.0.1", "127.0.0.1:1", "a.test/127.0.0.1", ""];
    let auths: BTreeMap<_, _> = names.into_iter().map(other).collect();
    let build = |auths: BTreeMap<String, RegistryAuth>| {
        let file = format!("FROM {host}/made/hand:1\nLABEL a=b\n");
        let context = Tar::new().file("Dockerfile", file.as_bytes()).end();
        let how = BuildImage { auths, ..BuildImage::default() };
        let built = root.engine.image_build(&how, Context::Tar(&mut &context[..]), &mut |_| Ok(()), Some(&soon()));
        built.expect_err("a closed registry")
    };
    let error = build(auths);
    assert!(!registry.asked().is_empty());
    collected_nothing(&registry, "a build");
    assert!(!format!("{error:?}").contains("s3cr3t"), "{error:?}");
    // The docker command's file: a helper for another registry is not asked, an entry for another is not used.
    let file = json!({ "auths": { "https://index.docker.io/v1/": { "auth": "dTpw" }, "a.test": { "auth": "dTpw" } },
        "credHelpers": { "b.test": "one" } });
    let config = DockerConfig::from_json(file.to_string().as_bytes()).expect("a configuration");
    let mut helper = |program: &str, _: &str| -> coracle::Result<Vec<u8>> { panic!("{program} was asked") };
    for image in [format!("{host}/x"), "c.test/x".into(), "a.test.evil/x".into(), "a.test:80/x".into()] {
        assert_eq!(config.credentials(&image, &mut helper).expect("none"), RegistryAuth::default(), "{image}");
    }
    // The twin: its own.
    build(BTreeMap::from([other(&host)]));
    assert!(registry.asked().iter().any(|asked| asked.header("authorization") == LOGIN));
}

// attack: 114 wall manifest-kind
#[test]
fn a_manifest_is_of_one_kind_to_every_reader() {
    let root = Root::empty();
    let image = Stock::new(b"f").manifest;
    let with = |more: Value| {
        let mut whole = image.clone();
        let Value::Object(more) = more else { panic!("an object") };
        more.into_iter().for_each(|(key, value)| whole[key] = value);
        whole.to_string()
    };
    let listed = json!([part(MANIFEST, b"of another image")]);
    let cases = [
        ("an image that is a list, too", MANIFEST, with(json!({ "manifests": listed }))),
        ("a list that is an image, too", LIST, with(json!({ "manifests": listed, "mediaType": LIST }))),
        ("an index that is an image, too", INDEX, with(json!({ "manifests": listed, "mediaType": "" }))),
        ("neither, by its type", "text/plain", with(json!({ "manifests": listed, "mediaType": "" }))),
        ("an image of the oldest form, too", MANIFEST, with(json!({ "fsLayers": [] }))),
        ("the oldest version", MANIFEST, with(json!({ "schemaVersion": 1 }))),
        ("another type inside", MANIFEST, with(json!({ "mediaType": INDEX }))),
        ("another type outside", INDEX, with(json!({ "manifests": listed }))),
    ];
    for (what, kind, manifest) in cases {
        let mut stock = Stock::new(b"f");
        stock.manifest("1", kind, manifest.clone().into_bytes());
        let registry = stock.serve();
        let pulled = pull_plain(&root, &format!("{}/made/hand:1", registry.host()));
        assert!(!registry.asked_for("/manifests/").is_empty(), "{what}");
        // By what it is or by what it says; and nothing that it names is asked for.
        assert_eq!(pulled.as_ref().map_err(|error| error.kind()), Err(ErrorKind::Invalid), "{what}: {pulled:?}");
        assert_eq!(registry.asked().len(), 2, "{what}: {:?}", registry.asked());
        nothing_is_left(&root);
    }
    let registry = {
        let mut stock = Stock::new(b"f");
        stock.manifest("1", OCI, with(json!({ "mediaType": OCI, "annotations": { "manifests": "a" } })).into_bytes());
        stock.serve()
    };
    pull_plain(&root, &format!("{}/made/hand:1", registry.host())).expect("the twin");
}

/// Documents as they should not be: each is an error, none ends the program, and the next pull works.
// attack: 115 wall malformed-documents
#[test]
fn malformed_manifests_are_errors() {
    let root = Root::empty();
    let image = Stock::new(b"f").manifest;
    let mut cases: Vec<(&str, Vec<u8>)> = ["", " ", "null", "[]", "{}", "1", "\"x\"", "{", "[[[[", "{\"a\":", "\u{0}"]
        .into_iter()
        .flat_map(|text| [MANIFEST, LIST, OCI, ""].map(|kind| (kind, text.as_bytes().to_vec())))
        .collect();
    let twice = image.to_string().replacen("\"layers\"", "\"layers\":[],\"layers\"", 1);
    cases.push((MANIFEST, twice.into_bytes()));
    cases.push((MANIFEST, b"\xff\xfe\xfd".to_vec()));
    cases.push((MANIFEST, vec![b'['; 100_000]));
    // Every member of the manifest, at any depth, with another type.
    let odd = [json!(null), json!(-1), json!(1e300), json!("x"), json!([]), json!({}), json!([null]), json!(true)];
    for pointer in ["/config", "/layers", "/layers/0", "/config/size", "/layers/0/size", "/layers/0/digest"] {
        for value in &odd {
            let mut whole = image.clone();
            *whole.pointer_mut(pointer).expect("a member") = value.clone();
            if whole != image {
                cases.push((MANIFEST, whole.to_string().into_bytes()));
            }
        }
    }
    let mut refused = 0;
    for (kind, bytes) in &cases {
        let mut stock = Stock::new(b"f");
        stock.manifest("1", kind, bytes.clone());
        let registry = stock.serve();
        let pulled = pull_plain(&root, &format!("{}/made/hand:1", registry.host()));
        assert!(!registry.asked_for("/manifests/").is_empty());
        let text = String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).into_owned();
        let error = pulled.expect_err(&text);
        assert_ne!(error.kind(), ErrorKind::Panic, "{text}");
        assert!(error.message().len() < 4096, "{text}: an error of {} bytes", error.message().len());
        refused += 1;
        nothing_is_left(&root);
    }
    assert!(refused > 80, "{refused}");
    let registry = Stock::new(b"f").serve();
    pull_plain(&root, &format!("{}/made/hand:1", registry.host())).expect("the next pull");
}

/// A manifest names content by digests: nothing else is asked for, nor becomes a path.
// attack: 58 wall digests-read
#[test]
fn a_manifest_with_malformed_digests_names_no_content() {
    let root = Root::empty();
    let image = Stock::new(b"f").manifest;
    let hex = "1".repeat(64);
    let texts = [
        "../../x".to_owned(),
        String::new(),
        hex.clone(),
        format!("sha256:{}", &hex[1..]),
        format!("sha256:{}", "A".repeat(64)),
        "sha256:../../../../../../../../../../../../../../../../../../../../../etc/p".into(),
        format!("sha256:{}", "g".repeat(64)),
        format!("md5:{hex}"),
        format!("sha256:{}/", &hex[1..]),
        format!("sha256:{hex}\u{0}"),
    ];
    for text in &texts {
        for pointer in ["/config/digest", "/layers/0/digest"] {
            let mut whole = image.clone();
            *whole.pointer_mut(pointer).expect("a member") = json!(text);
            let mut stock = Stock::new(b"f");
            stock.manifest("1", MANIFEST, whole.to_string().into_bytes());
            let config = stock.config.clone();
            let registry = stock.serve();
            let pulled = pull_plain(&root, &format!("{}/made/hand:1", registry.host()));
            fails(pulled, ErrorKind::Invalid, "is not a sha256 digest");
            assert!(!registry.asked_for("/manifests/").is_empty());
            // The configuration may have been asked for: it is named well where the layer is not.
            assert!(registry.asked_for("/blobs/").iter().all(|asked| asked.target.ends_with(&config)), "{text}");
            nothing_is_left(&root);
        }
        // A list, and what is asked for by hand.
        let list = json!({ "schemaVersion": 2, "manifests": [{ "mediaType": MANIFEST, "size": 2, "digest": text }] });
        let mut stock = Stock::new(b"f");
        stock.manifest("1", LIST, list.to_string().into_bytes());
        let registry = stock.serve();
        let pulled = pull_plain(&root, &format!("{}/made/hand:1", registry.host()));
        fails(pulled, ErrorKind::Invalid, "is not a sha256 digest");
        // An archive: the digests of an index and of a configuration.
        let config = archive::config(json!({}), std::slice::from_ref(text));
        let name = format!("{}.json", sha256(config.as_bytes()));
        let saved = json!([{ "Config": name, "RepoTags": ["a:1"], "Layers": ["l/layer.tar"] }]).to_string();
        let layer = Tar::new().end();
        let tar = Tar::new().file(&name, config.as_bytes()).file("l/layer.tar", &layer);
        let tar = tar.file("manifest.json", saved.as_bytes()).end();
        let loaded = root.engine.image_load(&mut &tar[..], &mut |_| Ok(()), Some(&soon()));
        fails(loaded, ErrorKind::Invalid, "is not a sha256 digest");
        let tar = Tar::new().file("oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#);
        let index = json!({ "schemaVersion": 2, "manifests": [{ "mediaType": OCI, "size": 2, "digest": text }] });
        let tar = tar.file("index.json", index.to_string().as_bytes()).end();
        let loaded = root.engine.image_load(&mut &tar[..], &mut |_| Ok(()), Some(&soon()));
        fails(loaded, ErrorKind::Invalid, "is not a sha256 digest");
        nothing_is_left(&root);
    }
}

/// `name:tag@digest` is that digest's content, whatever the registry has under the tag, in its headers or in a list.
// attack: 117 wall digest-pinned
#[test]
fn a_pinned_digest_is_what_comes() {
    let root = Root::empty();
    let (wanted, other) = (Stock::new(b"wanted"), Stock::new(b"other"));
    let pinned = digest(wanted.manifest.to_string().as_bytes());
    // The other image under the pinned digest, under the tag, and with a header that says what is wanted.
    let mut lying = other.clone();
    lying.put(&pinned, MANIFEST, other.manifest.to_string().into_bytes());
    let says = pinned.clone();
    let registry = Scripted::start(move |asked| lying.answer(asked).with("Docker-Content-Digest", &says));
    for name in [format!("made/hand@{pinned}"), format!("made/hand:1@{pinned}")] {
        let pulled = pull_plain(&root, &format!("{}/{name}", registry.host()));
        assert!(!registry.asked_for("/manifests/").is_empty(), "{name}");
        fails(pulled, ErrorKind::Invalid, "manifest verification failed for digest");
        assert!(registry.asked_for("/blobs/").is_empty(), "{name}");
        nothing_is_left(&root);
    }
    // A list that is what was pinned, with a child that is another's.
    let list = json!({ "schemaVersion": 2, "manifests": [part(MANIFEST, wanted.manifest.to_string().as_bytes())] });
    let mut lying = other.clone();
    let pinned_list = lying.manifest("list", LIST, list.to_string().into_bytes());
    lying.put(&pinned, MANIFEST, other.manifest.to_string().into_bytes());
    let registry = lying.serve();
    let pulled = pull_plain(&root, &format!("{}/made/hand@{pinned_list}", registry.host()));
    fails(pulled, ErrorKind::Invalid, "manifest verification failed for digest");
    assert_eq!(registry.asked_for("/manifests/").len(), 2);
    nothing_is_left(&root);
    // The twin.
    let registry = wanted.serve();
    pull_plain(&root, &format!("{}/made/hand:1@{pinned}", registry.host())).expect("the twin");
}

/// Content of a registry is stored under its own digest, or not at all: after a second push, a mirror that has
/// something else, a range that was ignored.
// attack: 118 wall content-digests
#[test]
fn nothing_is_stored_that_has_another_digest() {
    let root = Root::empty();
    let (wanted, other) = (Stock::new(b"wanted"), Stock::new(b"other!"));
    let bytes = |stock: &Stock, digest: &str| stock.paths[&format!("/v2/made/hand/blobs/{digest}")].1.clone();
    // One of the same length and with the same layers, that runs something else.
    let evil = archive::config(json!({ "Cmd": ["evil"] }), std::slice::from_ref(&wanted.layer)).into_bytes();
    assert_eq!(evil.len(), bytes(&wanted, &wanted.config).len());
    let cases = [
        ("another configuration", &wanted.config, evil.clone()),
        ("another layer", &wanted.layer, bytes(&other, &other.layer)),
        ("an empty layer", &wanted.layer, Tar::new().end()),
    ];
    for (what, digest, content) in cases {
        let mut lying = wanted.clone();
        lying.blob(digest, content);
        let registry = lying.serve();
        let pulled = pull_plain(&root, &format!("{}/made/hand:1", registry.host()));
        assert!(!registry.asked_for(digest).is_empty(), "{what}");
        assert!(pulled.is_err(), "{what}");
        nothing_is_left(&root);
    }
    // A mirror that has other content under that digest: the registry itself is asked.
    let mut lying = wanted.clone();
    lying.blob(&wanted.config, evil);
    let (mirror, registry) = (lying.serve(), wanted.clone().serve());
    let named = Mirror { registry: registry.host(), url: format!("http://{}", mirror.host()) };
    let root = Root::with(|options| options.registry.mirrors = vec![named]);
    let name = format!("{}/made/hand:1", registry.host());
    pull_plain(&root, &name).expect("by the registry itself");
    assert!(!mirror.asked_for("/blobs/").is_empty());
    assert_eq!(root.engine.image_inspect(&name).expect("inspect").id, wanted.config);
}

/// A real registry behind the same calls: the walls let valid answers pass.
#[test]
fn a_real_registry_passes_every_wall() {
    let root = Root::new();
    let registry = Registry::plain(&root.dir.join("registry"));
    let name = format!("{}/team/box:1", registry.host());
    root.engine.image_tag(IMAGE, &name).expect("tag");
    let request = PushImage { name: name.clone(), ..PushImage::default() };
    root.engine.image_push_tags(&request, &mut |_| Ok(()), Some(&soon())).expect("push");
    let fresh = Root::empty();
    pull_plain(&fresh, &name).expect("pull");
    let digest = fresh.engine.image_inspect(&name).expect("inspect").repo_digests[0].clone();
    pull_plain(&fresh, &digest).expect("pull by digest");
}
