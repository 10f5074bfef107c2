//! Pulling and pushing past what goes wrong on the way: real registries, with a proxy between that hinders.

use super::images::through;
use super::registry::*;
use crate::support::archive::{self, Tar};
use crate::support::faulty::{Fault, Faulty, TokenServer, Tunnels};
use crate::support::registry::{Answered, Registry, Request, Scripted};
use crate::support::*;
use coracle::model::*;
use coracle::{Engine, ErrorKind, Options};
use serde_json::json;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A registry that has `team/big:1`, an image of layers with so many megabytes each that do not compress.
fn stocked_registry(root: &Root, megabytes: &[usize]) -> Registry {
    let registry = Registry::plain(&root.dir.join("registry"));
    let seeds = megabytes.iter().enumerate();
    let layers: Vec<Vec<u8>> =
        seeds.map(|(i, mb)| Tar::new().file(&format!("f{i}"), &noise_of(i, mb << 20)).end()).collect();
    let layers: Vec<&[u8]> = layers.iter().map(Vec::as_slice).collect();
    let name = format!("{}/team/big:1", registry.host());
    load(&root.engine, &archive::image(&name, &layers));
    push(&root.engine, &name).expect("push");
    registry
}

fn noise_of(seed: usize, size: usize) -> Vec<u8> {
    let mut bytes = noise(size);
    bytes.iter_mut().for_each(|byte| *byte ^= seed as u8);
    bytes
}

fn big(host: &str) -> String {
    format!("{host}/team/big:1")
}

/// The requests for parts of blobs, by where they begin.
fn ranges(proxy: &Faulty) -> Vec<u64> {
    let asked = proxy.asked_for("/blobs/");
    let ranges = asked.iter().filter_map(|asked| asked.header("range").strip_prefix("bytes="));
    ranges.map(|range| range.trim_end_matches('-').parse().expect("a number")).collect()
}

/// Files in the directory for what is not whole.
fn parts(root: &Root) -> Vec<u64> {
    let entries = std::fs::read_dir(root.dir.join("root/tmp")).expect("read it").map(|entry| entry.expect("an entry"));
    let parts = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("part-"));
    parts.map(|entry| entry.metadata().expect("its size").len()).collect()
}

fn reopened(root: &Root, change: impl FnOnce(&mut Options)) -> Engine {
    let mut options = options_at(&root.dir);
    change(&mut options);
    Engine::open_with(options).expect("open")
}

#[test]
fn another_program_goes_on_where_one_was_killed() {
    let source = Root::empty();
    let registry = stocked_registry(&source, &[1, 12]);
    let slow = std::sync::Arc::new(AtomicBool::new(true));
    let is_slow = slow.clone();
    let proxy = Faulty::start(registry.port, move |asked| {
        let slow = is_slow.load(Ordering::SeqCst) && asked.target.contains("/blobs/");
        if slow { Fault::Slow(256 << 10) } else { Fault::None }
    });
    let root = Root::empty();
    let mut killed = Command::new(built("coracle"))
        .args([
            "--root".as_ref(),
            root.dir.join("root").as_os_str(),
            "--run".as_ref(),
            root.dir.join("run").as_os_str(),
        ])
        .args(["pull", &big(&proxy.host())])
        .stdout(Stdio::null())
        .spawn()
        .expect("coracle");
    wait_for("some of the large layer to be here", || parts(&root).iter().any(|size| *size > 3 << 20));
    killed.kill().expect("kill it");
    let _ = killed.wait();
    slow.store(false, Ordering::SeqCst);
    let had: u64 = parts(&root).iter().sum();
    // An open in between sweeps what nobody can go on with, and only that.
    let fresh = reopened(&root, |_| {});
    assert!(parts(&root).iter().sum::<u64>() >= had.min(3 << 20), "{:?}", parts(&root));
    pull(&fresh, &big(&proxy.host())).expect("pull");
    assert!(ranges(&proxy).iter().any(|from| *from >= 3 << 20), "{:?}", ranges(&proxy));
    assert_eq!(parts(&root).len(), 0);
    let id = |engine: &Engine, name: &str| engine.image_inspect(name).expect("inspect").id;
    assert_eq!(id(&fresh, &big(&proxy.host())), id(&source.engine, &big(&registry.host())));
}

#[test]
fn parts_are_used_bounded_and_no_longer_believed_than_they_deserve() {
    let source = Root::empty();
    let registry = stocked_registry(&source, &[4]);
    let cut = AtomicU32::new(0);
    // The blob breaks off at 2 MB as often as it is tried in the first pull.
    let proxy = Faulty::start(registry.port, move |asked| {
        let blob = asked.target.contains("/blobs/") && cut.fetch_add(1, Ordering::SeqCst) == 1;
        if blob { Fault::StallAfter(2 << 20) } else { Fault::None }
    });
    let root = Root::with(|options| options.registry.silence = Duration::from_secs(30));
    let name = big(&proxy.host());
    let op = coracle::Op::new().expect("an operation");
    std::thread::scope(|scope| {
        let other = op.clone();
        scope.spawn(|| {
            let other = other;
            wait_for("the stall", || parts(&root).iter().any(|size| *size > 1 << 20));
            std::thread::sleep(Duration::from_millis(100));
            other.cancel();
        });
        let request = PullImage { name: name.clone(), ..PullImage::default() };
        fails(root.engine.image_pull_tags(&request, &mut |_| Ok(()), Some(&op)), ErrorKind::Cancelled, "cancelled");
    });
    let [have] = parts(&root)[..] else { panic!("{:?}", parts(&root)) };
    assert!((1 << 20..=2 << 20).contains(&have), "{have}");
    // Damaged, it costs one more download and harms nothing.
    let part =
        std::fs::read_dir(root.dir.join("root/tmp")).expect("read").next().expect("a part").expect("a part").path();
    let mut bytes = std::fs::read(&part).expect("read");
    bytes[500_000] ^= 1;
    std::fs::write(&part, &bytes).expect("write");
    pull(&root.engine, &name).expect("pull");
    assert_eq!(ranges(&proxy), [have]);
    assert_eq!(parts(&root).len(), 0);
    // The next open removes the downloads beyond the limit.
    std::fs::write(&part, &bytes).expect("write");
    drop(reopened(&root, |_| {}));
    assert_eq!(parts(&root), [have]);
    drop(reopened(&root, |options| options.registry.parts_limit = 1 << 20));
    assert_eq!(parts(&root).len(), 0);
}

#[test]
fn programs_on_one_root_download_a_layer_once() {
    let source = Root::empty();
    let registry = stocked_registry(&source, &[2, 2]);
    let proxy = Faulty::start(registry.port, |asked| {
        if asked.target.contains("/blobs/") { Fault::Slow(512 << 10) } else { Fault::None }
    });
    let root = Root::empty();
    let (name, others) = (big(&proxy.host()), [root.reopen(), root.reopen()]);
    std::thread::scope(|scope| {
        for engine in others.iter().chain([&root.engine]) {
            scope.spawn(|| pull(engine, &name).expect("pull"));
        }
    });
    let blobs = proxy.asked_for("/blobs/");
    let layers: std::collections::BTreeSet<&str> = blobs.iter().map(|asked| asked.target.as_str()).collect();
    // Two layers once each, and the configuration by each.
    let asked: Vec<_> = blobs.iter().map(|asked| (&asked.target, asked.header("range"))).collect();
    assert_eq!((blobs.len(), layers.len()), (5, 3), "{asked:#?}");
}

#[test]
fn a_pull_that_waits_for_the_store_lets_no_other_download_again() {
    let source = Root::empty();
    let registry = stocked_registry(&source, &[2]);
    let proxy = Faulty::start(registry.port, |_| Fault::None);
    let root = Root::empty();
    let (name, other) = (big(&proxy.host()), root.reopen());
    let store = rusqlite::Connection::open(root.dir.join("root/coracle.db")).expect("the store");
    store.execute_batch("BEGIN IMMEDIATE").expect("keep others from writing");
    std::thread::scope(|scope| {
        let pulls = [&root.engine, &other].map(|engine| scope.spawn(|| pull(engine, &name).expect("pull")));
        // The configuration by each, the layer by one.
        wait_for("the downloads", || proxy.asked_for("/blobs/").len() >= 3);
        // Many times the pause after which a pull asks for the layer again.
        std::thread::sleep(Duration::from_secs(2));
        store.execute_batch("COMMIT").expect("let others write");
        for pull in pulls {
            pull.join().expect("a pull");
        }
    });
    assert_eq!(proxy.asked_for("/blobs/").len(), 3, "{:#?}", proxy.asked_for("/blobs/"));
}

#[test]
fn repairs_at_once_download_a_layer_once() {
    let source = Root::empty();
    let registry = stocked_registry(&source, &[2]);
    let proxy = Faulty::start(registry.port, |_| Fault::None);
    let root = Root::empty();
    pull(&root.engine, &big(&proxy.host())).expect("pull");
    let layers = root.dir.join("root/layers");
    let layer = std::fs::read_dir(&layers).expect("the layers").next().expect("one").expect("a layer").path();
    std::fs::write(layer.join("diff/f0"), b"damaged").expect("damage it");
    let before = proxy.asked_for("/blobs/").len();
    let (other, damaged) = (root.reopen(), AtomicU32::new(0));
    let repair = |engine: &Engine| {
        let mut tell = |said: Progress| {
            damaged.fetch_add(u32::from(format!("{said:?}").contains("damaged: ")), Ordering::SeqCst);
            Ok(())
        };
        let request = VerifyImages { repair: true, ..VerifyImages::default() };
        engine.verify(&request, &mut tell, Some(&soon())).expect("verify")
    };
    // Repaired layers wait for their places.
    let places = std::fs::File::open(&layers).expect("the layers");
    places.lock().expect("nobody moves layers");
    let reports = std::thread::scope(|scope| {
        let repairs = [&root.engine, &other].map(|engine| scope.spawn(|| repair(engine)));
        wait_for("both to see the damage", || damaged.load(Ordering::SeqCst) == 2);
        wait_for("the download", || proxy.asked_for("/blobs/").len() > before);
        // Many times the pause after which a repair asks for the layer again.
        std::thread::sleep(Duration::from_secs(2));
        places.unlock().expect("let layers move");
        repairs.map(|repair| repair.join().expect("a repair"))
    });
    for report in reports {
        assert!(report.damage.len() == 1 && report.damage[0].repaired, "{report:?}");
    }
    assert_eq!(proxy.asked_for("/blobs/").len(), before + 1, "{:#?}", proxy.asked_for("/blobs/"));
    assert_eq!(std::fs::metadata(layer.join("diff/f0")).expect("the file").len(), 2 << 20);
    assert!(parts(&root).is_empty());
}

#[test]
fn a_pull_gives_up_a_stalled_transfer_and_resumes_the_transfer() {
    let source = Root::empty();
    let registry = stocked_registry(&source, &[3]);
    let stalled = AtomicU32::new(0);
    let proxy = Faulty::start(registry.port, move |asked| {
        let blob = asked.target.contains("/blobs/") && stalled.fetch_add(1, Ordering::SeqCst) == 1;
        if blob { Fault::StallAfter(1 << 20) } else { Fault::None }
    });
    // Long enough that a busy machine does not count as a silent server.
    let root = Root::with(|options| options.registry.silence = Duration::from_secs(5));
    pull(&root.engine, &big(&proxy.host())).expect("pull");
    assert!(matches!(ranges(&proxy)[..], [from] if from > 500_000), "{:?}", ranges(&proxy));
    // A server that takes the connection and says nothing, ever.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("listen");
    let name = format!("{}/x/y:1", silent.local_addr().expect("its address"));
    let begun = Instant::now();
    let hasty = reopened(&root, |options| options.registry.silence = Duration::from_secs(1));
    fails(pull(&hasty, &name), ErrorKind::Internal, "timeout");
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
}

#[test]
fn a_flipped_byte_is_found_and_leaves_no_part() {
    let source = Root::empty();
    let registry = stocked_registry(&source, &[2]);
    let proxy =
        Faulty::start(
            registry.port,
            |asked| {
                if asked.target.contains("/blobs/") { Fault::Flip(1 << 20) } else { Fault::None }
            },
        );
    let root = Root::empty();
    fails(pull(&root.engine, &big(&proxy.host())), ErrorKind::Invalid, "verification failed for digest");
    nothing_is_left(&root);
}

#[test]
fn refusals_are_told_and_what_passes_is_waited_for() {
    let source = Root::empty();
    let registry = stocked_registry(&source, &[1]);
    // Most of this is waiting: both wait at once.
    std::thread::scope(|scope| {
        scope.spawn(|| temporary_refusals_are_waited_for(&registry));
        refusals_are_told(&registry);
    });
}

fn answer(status: &str, more: &str, body: &str) -> Fault {
    Fault::Answer(format!(
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\n{more}Connection: close\r\n\r\n{body}",
        body.len()
    ))
}

fn temporary_refusals_are_waited_for(registry: &Registry) {
    // Twice each, at manifests and at blobs: 500, and 429 with a time.
    let tries = AtomicU32::new(0);
    let proxy = Faulty::start(registry.port, move |asked| {
        if asked.target == "/v2/" {
            return Fault::None;
        }
        match tries.fetch_add(1, Ordering::SeqCst) {
            0 | 4 => answer("500 Internal Server Error", "", "{}"),
            2 => answer("429 Too Many Requests", "Retry-After: 2\r\n", "{}"),
            6 => answer("503 Service Unavailable", "Retry-After: 1\r\n", "{}"),
            _ => Fault::None,
        }
    });
    let (root, begun) = (Root::empty(), Instant::now());
    pull(&root.engine, &big(&proxy.host())).expect("pull");
    assert!(begun.elapsed() >= Duration::from_secs(3), "Retry-After was not heeded: {:?}", begun.elapsed());
}

fn refusals_are_told(registry: &Registry) {
    for (status, kind, text) in [
        ("401 Unauthorized", ErrorKind::NotFound, "pull access denied for"),
        ("403 Forbidden", ErrorKind::NotFound, "denied: requested access to the resource is denied"),
    ] {
        let body = r#"{"errors":[{"code":"DENIED","message":"requested access to the resource is denied"}]}"#;
        let proxy = Faulty::start(registry.port, move |asked| {
            if asked.target.contains("/manifests/") { answer(status, "", body) } else { Fault::None }
        });
        let root = Root::empty();
        fails(pull(&root.engine, &big(&proxy.host())), kind, text);
        assert_eq!(proxy.asked_for("/manifests/").len(), 1, "{status} is final");
    }
    let proxy = Faulty::start(registry.port, move |asked| {
        if asked.target.contains("/manifests/") { answer("500 Internal Server Error", "", "oh") } else { Fault::None }
    });
    let root = Root::empty();
    fails(pull(&root.engine, &big(&proxy.host())), ErrorKind::Internal, "received unexpected HTTP status: 500");
    assert_eq!(proxy.asked_for("/manifests/").len(), 4);
}

#[test]
fn a_push_waits_for_what_passes() {
    let root = Root::new();
    let registry = Registry::plain(&root.dir.join("registry"));
    let (tries, cut) = (AtomicU32::new(0), AtomicU32::new(0));
    let proxy = Faulty::start(registry.port, move |asked| match asked.method.as_str() {
        "POST" if tries.fetch_add(1, Ordering::SeqCst) == 0 => Fault::Answer(
            "HTTP/1.1 503 Busy\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".into(),
        ),
        "PUT" if asked.target.contains("/manifests/") && cut.fetch_add(1, Ordering::SeqCst) == 0 => Fault::CutAfter(0),
        _ => Fault::None,
    });
    let name = format!("{}/team/box:1", proxy.host());
    root.engine.image_tag(IMAGE, &name).expect("tag");
    push(&root.engine, &name).expect("push");
    pull(&Root::empty().engine, &name).expect("pull");
}

#[test]
fn mirrors_are_asked_first_and_get_no_credentials() {
    let root = Root::new();
    let mut registry = Registry::plain(&root.dir.join("registry"));
    let name = format!("{}/team/box:1", registry.host());
    root.engine.image_tag(IMAGE, &name).expect("tag");
    push(&root.engine, &name).expect("push");
    let empty = Scripted::start(|_| Answered::new(404, r#"{"errors":[{"code":"MANIFEST_UNKNOWN","message":"no"}]}"#));
    let good = Faulty::start(registry.port, |_| Fault::None);
    let mirrors = |hosts: &[String]| -> Vec<Mirror> {
        let of = |host: &String| Mirror::parse(&format!("{}=http://{host}", registry.host())).expect("a mirror");
        hosts.iter().map(of).collect()
    };
    let (one, two) = (mirrors(&[empty.host(), good.host()]), mirrors(&[empty.host()]));
    let fresh = Root::with(|options| options.registry.mirrors = one);
    pull_with(&fresh.engine, &name, login("sailor", SECRET)).expect("pull");
    assert_eq!(good.asked_for("/manifests/1").len(), 1);
    assert!(empty.asked().iter().all(|asked| asked.header("authorization").is_empty()));
    assert_eq!(fresh.engine.image_inspect(&name).expect("under the registry's own name").repo_tags[0], name);
    // Mirrors without the image do not matter; an unreachable registry does not matter if a mirror has the image.
    let fresh = Root::with(|options| options.registry.mirrors = two);
    pull(&fresh.engine, &name).expect("pull");
    let port = registry.port;
    let listed = fresh.engine.image_inspect(&name).expect("inspect").id;
    registry.kill();
    let away = Root::with(|options| {
        options.registry.mirrors =
            vec![Mirror { registry: format!("127.0.0.1:{port}"), url: format!("http://{}", empty.host()) }];
    });
    fails(pull(&away.engine, &name), ErrorKind::Internal, "onnection refused");
    assert!(listed.starts_with("sha256:"));
}

#[test]
fn tokens_of_a_real_token_server() {
    let root = Root::new();
    let dir = root.dir.join("registry");
    make_tls(&dir);
    let tokens = TokenServer::start(&dir);
    let registry = Registry::start(&dir, &format!("{}\n{}", tls_config(&dir, ""), tokens.config(&dir)));
    let sailor = || login("sailor", SECRET);
    let name = |path: &str| format!("{}/{path}", registry.host());
    for path in ["open/box:1", "closed/box:1"] {
        root.engine.image_tag(IMAGE, &name(path)).expect("tag");
    }
    // A server that is busy for a moment does not matter.
    std::fs::write(dir.join("busy"), "").expect("write");
    push_with(&root.engine, &name("closed/box:1"), sailor()).expect("push");
    let told = push_with(&root.engine, &name("open/box:1"), sailor()).expect("push");
    assert!(told.iter().any(|line| line.contains("Mounted from closed/box")), "{told:?}");
    let log = std::fs::read_to_string(dir.join("tokens.log")).expect("its log");
    assert!(log.contains("GET sailor repository:open/box:pull,push repository:closed/box:pull"), "{log}");

    // Anonymous users may read the open repository, and only that.
    pull(&Root::empty().engine, &name("open/box:1")).expect("pull");
    let fresh = Root::empty();
    fails(pull(&fresh.engine, &name("closed/box:1")), ErrorKind::NotFound, "pull access denied for");
    let wrong = pull_with(&fresh.engine, &name("closed/box:1"), login("sailor", "wrong-word")).expect_err("refused");
    assert!(
        wrong.message().contains("incorrect username or password") && !wrong.message().contains("wrong-word"),
        "{wrong}"
    );
    fails(push(&root.engine, &name("open/box:1")), ErrorKind::Unauthorized, "");

    // The login gives an identity token, which does instead of the password; one that is not known does not.
    let auth = RegistryAuth { serveraddress: registry.host(), ..sailor() };
    let status = fresh.engine.registry_auth(&auth, Some(&soon())).expect("log in");
    assert_eq!((status.status.as_str(), status.identity_token.as_str()), ("Login Succeeded", "refresh-of-sailor"));
    let identity = |token: &str| RegistryAuth { identitytoken: token.into(), ..RegistryAuth::default() };
    pull_with(&fresh.engine, &name("closed/box:1"), identity(&status.identity_token)).expect("pull");
    let error = pull_with(&Root::empty().engine, &name("closed/box:1"), identity("stolen-token")).expect_err("refused");
    assert!(!format!("{error} {error:?}").contains("stolen-token"), "{error:?}");
    // The catalog needs a scope of its own.
    let search = SearchImages { term: format!("{}/box", registry.host()), auth: sailor(), ..SearchImages::default() };
    let found = fresh.engine.image_search(&search, Some(&soon())).expect("search");
    let names: Vec<&str> = found.iter().map(|result| result.name.as_str()).collect();
    assert_eq!(names, ["closed/box", "open/box"]);
}

#[test]
fn client_certificates_and_proxies() {
    let root = Root::new();
    let dir = root.dir.join("registry");
    make_tls(&dir);
    let closed = tls_config(&dir, &format!(", clientcas: [\"{}/ca.pem\"]", dir.display()));
    let registry = Registry::start(&dir, &closed);
    let certs = root.dir.join("certs.d");
    let own = certs.join(registry.host());
    std::fs::create_dir_all(&own).expect("mkdir");
    std::fs::copy(dir.join("ca.pem"), own.join("ca.crt")).expect("copy");
    let name = format!("{}/closed/box:1", registry.host());
    root.engine.image_tag(IMAGE, &name).expect("tag");
    let engine = reopened(&root, |options| options.registry.certs_dirs = vec![certs.clone()]);
    let refused = push(&engine, &name).expect_err("without a certificate");
    assert!(refused.message().contains("ertificate"), "{refused}");
    std::fs::copy(dir.join("client.pem"), own.join("client.cert")).expect("copy");
    std::fs::copy(dir.join("client-key.pem"), own.join("client.key")).expect("copy");
    push(&engine, &name).expect("push with a certificate");

    // A name that only the proxy knows; the tunnel shows it nothing but the name.
    let open = Registry::tls(&root.dir.join("open"), "", "");
    let proxy = Tunnels::start(open.port);
    let name = format!("registry.test:{}/by/proxy:1", open.port);
    let coracle = |words: &[&str]| {
        let out = Command::new(built("coracle"))
            .args([
                "--root".as_ref(),
                root.dir.join("root").as_os_str(),
                "--run".as_ref(),
                root.dir.join("run").as_os_str(),
            ])
            .args(["--insecure-registry", &format!("registry.test:{}", open.port)])
            .args(words)
            .env("HTTPS_PROXY", format!("http://127.0.0.1:{}", proxy.port))
            .env("DOCKER_CONFIG", root.dir.join("no-config"))
            .output()
            .expect("coracle");
        assert!(out.status.success(), "{words:?}: {}", String::from_utf8_lossy(&out.stderr));
    };
    coracle(&["tag", IMAGE, &name]);
    coracle(&["push", &name]);
    coracle(&["rmi", &name]);
    coracle(&["pull", "-q", &name]);
    let asked = proxy.asked();
    assert!(!asked.is_empty());
    let target = format!("registry.test:{}", open.port);
    assert!(asked.iter().all(|asked| asked.method == "CONNECT" && asked.target == target), "{asked:?}");
}

#[test]
fn searches_by_the_old_protocol_and_by_the_catalog() {
    let server = Scripted::start(|asked: &Request| {
        match asked.target.as_str() {
        "/v2/" => Answered::new(200, "{}"),
        target if target.starts_with("/v1/search?q=busy%20box&n=3") => Answered::new(
            200,
            json!({ "num_results": 2, "query": "busy box", "results": [
                { "name": "busybox", "description": "small", "star_count": 7, "is_official": true, "is_automated": false },
                { "name": "a/busybox", "description": "", "star_count": 1, "is_official": false, "is_automated": true } ] })
            .to_string(),
        ),
        _ => Answered::new(404, "{}"),
    }
    });
    let root = Root::new();
    let request =
        SearchImages { term: format!("{}/busy box", server.host()), limit: Some(3), ..SearchImages::default() };
    let found = root.engine.image_search(&request, Some(&soon())).expect("search");
    let shown =
        |found: &[SearchResult]| found.iter().map(|r| format!("{} {}", r.name, r.star_count)).collect::<Vec<_>>();
    assert_eq!(shown(&found), ["busybox 7", "a/busybox 1"]);
    assert!(found[0].is_official && found[1].is_automated && found[1].is_trusted);
    let filters = Filters::from([("stars".into(), vec!["2".into()])]);
    let found = root.engine.image_search(&SearchImages { filters, ..request.clone() }, None).expect("search");
    assert_eq!(shown(&found), ["busybox 7"]);
    for limit in [0, 101, -1] {
        let text = format!("Limit {limit} is outside the range of [1, 100]");
        fails(
            root.engine.image_search(&SearchImages { limit: Some(limit), ..request.clone() }, None),
            ErrorKind::Invalid,
            &text,
        );
    }
    // A registry of today, by the docker command.
    let registry = Registry::plain(&root.dir.join("registry"));
    for path in ["team/box", "box", "other"] {
        let name = format!("{}/{path}:1", registry.host());
        root.engine.image_tag(IMAGE, &name).expect("tag");
        push(&root.engine, &name).expect("push");
    }
    let socket = root.dir.join("sock").display().to_string();
    let mut serve = Command::new(built("coracle"))
        .args([
            "--root".as_ref(),
            root.dir.join("root").as_os_str(),
            "--run".as_ref(),
            root.dir.join("run").as_os_str(),
        ])
        .args(["serve", "-H", &format!("unix://{socket}")])
        .stderr(Stdio::null())
        .spawn()
        .expect("serve");
    wait_for("the server", || std::os::unix::net::UnixStream::connect(&socket).is_ok());
    let docker = |words: &[&str]| {
        let mut command = Command::new("docker");
        command.args(["-H", &format!("unix://{socket}")]).args(words).env("DOCKER_CONFIG", root.dir.join("none"));
        command.output().expect("docker")
    };
    let found = docker(&["search", "--format", "{{.Name}}", &format!("{}/box", registry.host())]);
    let _ = serve.kill();
    let _ = serve.wait();
    let text = String::from_utf8_lossy(&found.stdout) + String::from_utf8_lossy(&found.stderr);
    assert_eq!(text, "box\nteam/box\n");
}

/// A repository says of a layer that one has already that it is another blob: nothing that one pushes gets that blob.
#[test]
fn a_repository_that_lies_about_its_blobs_spoils_no_push() {
    let root = Root::empty();
    let layer = Tar::new().file("f", b"ours").end();
    load(&root.engine, &archive::image("ours:1", &[&layer]));
    let kind = "application/vnd.docker.image.rootfs.diff.tar.gzip";
    let stock = stocked(kind, &Tar::new().file("f", b"theirs").end(), &layer);
    let lie = stock.layer.clone();
    let evil = Scripted::start(move |asked| stock.answer(asked));
    pull(&root.engine, &format!("{}/made/hand:1", evil.host())).expect("pull");
    let target = format!("{}/team/ours:1", evil.host());
    root.engine.image_tag("ours:1", &target).expect("tag");
    // The registry takes no uploads: that it was asked to is what counts.
    push(&root.engine, &target).expect_err("it takes no uploads");
    let asked = evil.asked_for("/v2/team/ours/blobs/");
    assert!(asked.iter().all(|asked| !asked.target.contains(&lie)), "{asked:?}");
    assert!(asked.iter().any(|asked| asked.method == "POST"), "{asked:?}");
}

/// How much memory a command takes at most, in bytes.
fn peak(root: &Root, words: &[&str]) -> u64 {
    let mut command = Command::new(built("coracle"));
    command.arg("--root").arg(root.dir.join("root")).arg("--run").arg(root.dir.join("run")).args(words);
    let mut child = command.stdout(Stdio::null()).spawn().expect("coracle");
    let (status, mut most) = (format!("/proc/{}/status", child.id()), 0);
    loop {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
        most = kib.unwrap_or(0).max(most);
        if let Some(ended) = child.try_wait().expect("wait") {
            assert!(ended.success(), "{words:?}");
            return most << 10;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn memory_is_bounded() {
    let source = Root::empty();
    let torture = std::env::var_os("CORACLE_TORTURE").is_some();
    let registry = stocked_registry(&source, if torture { &[7, 7, 7, 7] } else { &[7, 7, 7] });
    let (name, zstd) = (big(&registry.host()), format!("{}/team/zstd:1", registry.host()));
    let copied = Command::new("skopeo")
        .args(["copy", "-q", "--src-tls-verify=false", "--dest-tls-verify=false", "--format", "oci"])
        .args(["--dest-compress-format", "zstd", &format!("docker://{name}"), &format!("docker://{zstd}")])
        .status();
    assert!(copied.expect("skopeo").success());
    let archive = source.dir.join("big.tar").display().to_string();
    let again = format!("{}/again/big:1", registry.host());
    // The image is larger than the smaller bound alone.
    let modes = [(&["--small-memory"][..], 16u64 << 20), (&[], 64 << 20)];
    for (mode, bound) in modes.into_iter().take(if torture { 2 } else { 1 }) {
        let root = Root::empty();
        // The peak of a process that ends at once is not always seen.
        let base = (0..5).map(|_| peak(&root, &["images"])).max().unwrap_or(0);
        let pushed = format!("{again}{}", mode.len());
        for words in [
            &["pull", "-q", &name][..],
            &["save", "-o", &archive, &name],
            &["tag", &name, &pushed],
            &["push", "-q", &pushed],
            &["rmi", &name, &pushed],
            &["load", "-q", "-i", &archive],
            &["verify"],
            &["rmi", &name],
            &["pull", "-q", &zstd],
        ] {
            let grown = peak(&root, &[mode, words].concat()).saturating_sub(base);
            println!("{mode:?} {} {}: {:.1} MB", words[0], words[words.len() - 1], grown as f64 / 1e6);
            assert!(grown < bound, "{mode:?} {words:?}: {grown} bytes");
        }
    }
}

/// A zstd frame without compression: the program must reserve the memory of the announced window.
fn zstd_frame(window_log: u8, content: &[u8]) -> Vec<u8> {
    let mut frame = b"\x28\xb5\x2f\xfd\0".to_vec();
    frame.push((window_log - 10) << 3);
    let blocks: Vec<&[u8]> = content.chunks(128 << 10).collect();
    for (at, block) in blocks.iter().enumerate() {
        let last = u32::from(at + 1 == blocks.len());
        frame.extend(&(last | (block.len() as u32) << 3).to_le_bytes()[..3]);
        frame.extend(*block);
    }
    frame
}

/// Archives whose decoders want to keep a lot: within the bound they are taken, beyond it refused before it is taken.
// attack: 68 wall archive-windows
#[test]
fn windows_of_archives_are_bounded() {
    let root = Root::empty();
    let archived = |content: &[u8]| archive::image("packed:1", &[&Tar::new().file("f", content).end()]);
    // More than the window, so that all of it is used; and little for an image that is refused in any case.
    let (large, little) = (archived(&noise_of(3, 64 << 10).repeat(12 * 16)), archived(b"little"));
    let write = |name: &str, bytes: &[u8]| {
        let path = root.dir.join(name).display().to_string();
        std::fs::write(&path, bytes).expect("write");
        path
    };
    // From a pipe: zstd takes no larger window than a content whose size it knows.
    let xz = |dict: &str, content: &[u8]| {
        through("xz", &["-q", "-c", "-T1", &format!("--lzma2=preset=0,dict={dict}")], content)
    };
    let zstd = |window: &str, content: &[u8]| through("zstd", &["-q", "-c", "-1", window], content);
    let base = (0..5).map(|_| peak(&root, &["images"])).max().unwrap_or(0);
    for (name, packed) in [("8.xz", xz("8MiB", &large)), ("8.zst", zstd("--zstd=wlog=23", &large))] {
        let grown = peak(&root, &["--small-memory", "load", "-q", "-i", &write(name, &packed)]).saturating_sub(base);
        println!("{name}: {:.1} MB", grown as f64 / 1e6);
        assert!(grown < 16 << 20, "{name}: {grown} bytes");
        peak(&root, &["rmi", "packed:1"]);
    }
    let refused = |mode: &[&str], archive: &str, most: &str| {
        let mut command = Command::new(built("coracle"));
        command.arg("--root").arg(root.dir.join("root")).arg("--run").arg(root.dir.join("run"));
        let out = command.args(mode).args(["load", "-q", "-i", archive]).output().expect("coracle");
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        let text = format!("with a dictionary (window) of more than {most}, which is the most here");
        assert!(!out.status.success() && said.contains(&text), "{archive}: {said}");
    };
    let (xz_16, zstd_16) = (xz("16MiB", &little), zstd("--zstd=wlog=24", &little));
    for (name, packed) in [("16.xz", &xz_16), ("16.zst", &zstd_16)] {
        let archive = write(name, packed);
        refused(&["--small-memory"], &archive, "8 MiB");
        peak(&root, &["load", "-q", "-i", &archive]);
    }
    let (xz_64, zstd_64) = (xz("64MiB", &little), zstd("--zstd=wlog=26", &little));
    for (name, packed) in [("64.xz", &xz_64), ("64.zst", &zstd_64)] {
        let archive = write(name, packed);
        refused(&[], &archive, "32 MiB");
        refused(&["--small-memory", "--large-windows"], &archive, "8 MiB");
        peak(&root, &["--large-windows", "load", "-q", "-i", &archive]);
    }
    refused(&["--large-windows"], &write("256.xz", &xz("256MiB", &little)), "128 MiB");
    refused(&["--large-windows"], &write("2048.zst", &zstd_frame(31, &little)), "128 MiB");
    if std::env::var_os("CORACLE_TORTURE").is_some() {
        // The cost of the largest image, without and with the option.
        let large = archived(&noise_of(3, 64 << 10).repeat(70 * 16));
        for (name, packed) in [("32.xz", xz("32MiB", &large)), ("32.zst", zstd("--zstd=wlog=25", &large))] {
            let grown = peak(&root, &["load", "-q", "-i", &write(name, &packed)]).saturating_sub(base);
            println!("{name}: {:.1} MB", grown as f64 / 1e6);
            assert!(grown < 64_000_000, "{name}: {grown} bytes");
            peak(&root, &["rmi", "packed:1"]);
        }
        let large = archived(&noise_of(3, 64 << 10).repeat(130 * 16));
        for (name, packed) in [("128.xz", xz("128MiB", &large)), ("128.zst", zstd("--long=27", &large))] {
            let words = ["--large-windows", "load", "-q", "-i", &write(name, &packed)];
            let grown = peak(&root, &words).saturating_sub(base);
            println!("{name}: {:.1} MB", grown as f64 / 1e6);
            assert!(grown < (128 << 20) + (32 << 20), "{name}: {grown} bytes");
        }
    }
}

fn make_tls(dir: &Path) {
    crate::support::registry::make_certificates(dir);
}

fn tls_config(dir: &Path, more: &str) -> String {
    let tls = format!("certificate: {0}/cert.pem, key: {0}/key.pem{more}", dir.display());
    format!("http: {{addr: \"127.0.0.1:PORT\", tls: {{{tls}}}}}")
}

/// For tests whose images come from elsewhere: see [`stocked`].
#[test]
fn lists_in_lists_and_tags_by_the_page() {
    let tar = Tar::new().file("f", b"nested").end();
    let stock = stocked(PLAIN, &tar, &tar);
    let manifest = stock.manifest.clone();
    let kind = "application/vnd.oci.image.index.v1+json";
    let inner = json!({ "schemaVersion": 2, "manifests": [{ "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
        "size": 1, "digest": manifest, "platform": { "os": "linux", "architecture": if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" } } }] })
    .to_string();
    let inner_digest = format!("sha256:{}", archive::sha256(inner.as_bytes()));
    let outer = json!({ "schemaVersion": 2, "manifests": [{ "mediaType": kind, "size": inner.len(), "digest": inner_digest }] }).to_string();
    let server = Scripted::start(move |asked| match asked.target.as_str() {
        "/v2/made/hand/manifests/nested" => Answered::new(200, outer.clone()).with("Content-Type", kind),
        target if target.ends_with(&inner_digest) => Answered::new(200, inner.clone()).with("Content-Type", kind),
        "/v2/made/hand/tags/list" => {
            Answered::new(200, r#"{"tags":["1"]}"#).with("Link", "</v2/made/hand/tags/list?last=1>; rel=\"next\"")
        }
        "/v2/made/hand/tags/list?last=1" => Answered::new(200, r#"{"tags":["nested"]}"#),
        _ => stock.answer(asked),
    });
    let root = Root::empty();
    let request = PullImage { name: format!("{}/made/hand", server.host()), ..PullImage::default() };
    let names = root.engine.image_pull_tags(&request, &mut |_| Ok(()), Some(&soon())).expect("pull every tag");
    assert_eq!(names, ["1", "nested"].map(|tag| format!("{}/made/hand:{tag}", server.host())));
}
