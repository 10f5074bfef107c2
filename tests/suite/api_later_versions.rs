//! The shapes of answers and the rules of requests that came with API 1.45 to 1.54.

use crate::container_later_fields::ask;
use crate::support::*;
use coracle::model::BuildImage;
use coracle_http::{ReplyBody, Router};
use serde_json::{Value, json};
use std::io::Read;
use std::os::unix::net::UnixStream;

/// Creates a container; answers the status and the document.
fn create(router: &Router, version: &str, body: &Value) -> (u16, Value) {
    let json = [("Content-Type", "application/json")];
    let target = format!("{version}/containers/create");
    let reply = router.request("POST", &target, &json, body.to_string().into_bytes(), None).expect("an answer");
    let ReplyBody::Bytes(bytes) = reply.body else { panic!("{target}: a stream") };
    (reply.status, serde_json::from_slice(&bytes).expect("JSON"))
}

fn names(value: &Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

#[test]
fn lists_of_containers_show_health_and_annotations() {
    let root = Root::new();
    let router = Router::new(root.engine.clone());
    let check = json!({ "Test": ["CMD-SHELL", "exit 1"], "Interval": 1_000_000_000u64, "Retries": 1 });
    let noted = json!({ "Healthcheck": check, "HostConfig": { "NetworkMode": "none", "Annotations": { "a": "b" } } });
    let id = root.sleeper_with("noted", noted);
    root.create("plain", body(&["true"], host(json!({ "NetworkMode": "none" }))));
    let item = |version: &str, name: &str| {
        let (_, all) = ask(&router, "GET", &format!("{version}/containers/json?all=1"));
        let all = all.as_array().expect("a list").clone();
        all.into_iter().find(|one| one["Names"][0] == *format!("/{name}")).expect("the item")
    };
    root.wait_for("the check to fail", || root.inspect(&id).state.health.is_some_and(|one| one.status == "unhealthy"));
    let newest = item("/v1.52", "noted");
    assert_eq!(
        (&newest["Health"]["Status"], &newest["HostConfig"]["Annotations"]),
        (&json!("unhealthy"), &json!({ "a": "b" }))
    );
    assert!(newest["Health"]["FailingStreak"].as_u64() >= Some(1));
    assert_eq!(item("/v1.52", "plain")["Health"], json!({ "Status": "none", "FailingStreak": 0 }));
    let older = item("/v1.46", "noted");
    assert!(older.get("Health").is_none() && older["HostConfig"]["Annotations"] == json!({ "a": "b" }));
    assert_eq!(item("/v1.24", "noted")["HostConfig"], json!({ "NetworkMode": "none" }));
}

#[test]
fn inspect_of_containers_and_images_leaves_out_what_was_dropped() {
    let root = Root::new();
    let router = Router::new(root.engine.clone());
    let network = json!({ "Name": "own" });
    root.engine.network_create(&serde_json::from_value(network).expect("a network")).expect("create");
    let id = root.sleeper_with("shown", host(json!({ "NetworkMode": "own" })));
    let container = |version: &str| ask(&router, "GET", &format!("{version}/containers/shown/json")).1;
    let newest = container("/v1.52");
    assert_eq!(names(&newest["NetworkSettings"]), ["Networks", "Ports", "SandboxID", "SandboxKey"]);
    assert!(newest["Config"].get("OnBuild").is_none());
    assert!(container("/v1.51")["NetworkSettings"]["IPAddress"].is_string());
    let aliases = |version: &str| container(version)["NetworkSettings"]["Networks"]["own"]["Aliases"].clone();
    assert!(aliases("/v1.44").as_array().is_some_and(|all| all.contains(&json!(id[..12]))));
    assert!(aliases("/v1.45").as_array().is_none_or(|all| !all.contains(&json!(id[..12]))));
    let image = |version: &str| ask(&router, "GET", &format!("{version}/images/busybox/json")).1;
    assert!(image("/v1.44").get("ContainerConfig").is_some() && image("/v1.45").get("ContainerConfig").is_none());
    assert!(image("/v1.49")["Config"].get("Hostname").is_some() && image("/v1.50")["Config"].get("Hostname").is_none());
    assert!(image("/v1.51").get("Author").is_some() && image("/v1.52").get("Author").is_none());
    let both = "/v1.49/images/busybox/json?manifests=1&platform=%7B%22os%22%3A%22linux%22%7D";
    assert_eq!(ask(&router, "GET", both).0, 400);
}

#[test]
fn networks_tell_the_use_of_their_addresses() {
    let root = Root::new();
    let router = Router::new(root.engine.clone());
    let pool = json!({ "Subnet": "10.213.77.0/28", "Gateway": "10.213.77.1" });
    let network = json!({ "Name": "counted", "IPAM": { "Config": [pool] } });
    root.engine.network_create(&serde_json::from_value(network).expect("a network")).expect("create");
    let inspect = |version: &str| ask(&router, "GET", &format!("{version}/networks/counted")).1;
    let used = |status: &Value| {
        let of = &status["Status"]["IPAM"]["Subnets"]["10.213.77.0/28"];
        (of["IPsInUse"].clone(), of["DynamicIPsAvailable"].clone())
    };
    assert_eq!(used(&inspect("/v1.52")), (json!(3), json!(13)));
    let id = root.sleeper_with("member", host(json!({ "NetworkMode": "counted" })));
    assert_eq!(used(&inspect("/v1.52")), (json!(4), json!(12)));
    root.engine.container_kill(&id, None, None).expect("kill");
    root.wait(&id);
    assert_eq!(used(&inspect("/v1.52")), (json!(3), json!(13)));
    assert_eq!(inspect("/v1.48")["EnableIPv4"], json!(true));
    assert!(inspect("/v1.51").get("Status").is_none() && inspect("/v1.47").get("EnableIPv4").is_none());
}

#[test]
fn wrong_pools_are_a_bad_request_from_1_44_on() {
    let root = Root::new();
    let router = Router::new(root.engine.clone());
    let wrong = json!({ "Name": "wrong", "IPAM": { "Config": [{ "Subnet": "10.0.0.0/24", "Gateway": "10.0.1.1" }] } });
    let json = [("Content-Type", "application/json")];
    let status = |version: &str| {
        let target = format!("{version}/networks/create");
        router.request("POST", &target, &json, wrong.to_string().into_bytes(), None).expect("an answer").status
    };
    assert_eq!([status("/v1.24"), status("/v1.43"), status("/v1.44"), status("")], [500, 500, 400, 400]);
}

#[test]
fn disk_usage_has_sums_and_objects_on_request() {
    let root = Root::new();
    let router = Router::new(root.engine.clone());
    root.sh("echo x > /written");
    let id = root
        .create("writer", body(&["sh", "-c", "head -c 70000 /dev/zero > /f"], host(json!({ "NetworkMode": "none" }))));
    root.start(&id);
    assert_eq!(root.wait(&id), 0);
    let df = |target: &str| ask(&router, "GET", target);
    let sums = df("/v1.53/system/df").1;
    let all = df("/v1.53/system/df?verbose=1").1;
    assert_eq!(names(&all), ["BuildCacheUsage", "ContainerUsage", "ImageUsage", "VolumeUsage"]);
    // The members of earlier versions stay for clients that know no others.
    assert!(sums["Images"].is_array() && sums["LayersSize"].is_i64());
    let containers = &sums["ContainerUsage"];
    assert!(containers["TotalSize"].as_i64() >= Some(70_000) && containers["TotalSize"] == containers["Reclaimable"]);
    assert_eq!((containers["TotalCount"].as_i64(), containers.get("Items")), (Some(1), None));
    let images = &sums["ImageUsage"];
    assert_eq!((images["TotalCount"].as_i64(), images["ActiveCount"].as_i64()), (Some(1), Some(1)));
    assert!(images["TotalSize"].as_i64() > Some(0) && images.get("Reclaimable").is_none());
    let verbose = df("/v1.53/system/df?verbose=1&type=image").1;
    assert_eq!(verbose["ImageUsage"]["Items"][0]["RepoTags"][0], "busybox:latest");
    assert_eq!(names(&verbose), ["ImageUsage"]);
    assert!(df("/v1.51/system/df").1.get("ImageUsage").is_none());
    assert_eq!(df("/v1.53/system/df?type=planet").0, 400);
}

/// The events since the test began, as a version shows them.
fn events(router: &Router, version: &str, accept: &str) -> (String, Vec<u8>) {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a time").as_secs();
    let target = format!("{version}/events?since=1&until={now}");
    let fields = [("Accept", accept)];
    let fields = if accept.is_empty() { &fields[..0] } else { &fields[..] };
    let reply = router.request("GET", &target, fields, Vec::new(), None).expect("an answer");
    let ReplyBody::Stream(fd, _) = reply.body else { panic!("{target}: no stream") };
    let mut bytes = Vec::new();
    UnixStream::from(fd).read_to_end(&mut bytes).expect("read the events");
    let kind = reply.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    (kind.expect("a type").1.to_owned(), bytes)
}

#[test]
fn events_have_the_form_that_the_client_accepts() {
    let root = Root::new();
    let router = Router::new(root.engine.clone());
    let tar = crate::support::archive::Tar::new().file("Dockerfile", b"FROM busybox\nLABEL a=b\n").end();
    let how = BuildImage { t: vec!["made:1".into()], networkmode: "none".into(), ..BuildImage::default() };
    root.engine.image_build(&how, coracle::Context::Tar(&mut &tar[..]), &mut |_| Ok(()), Some(&soon())).expect("build");
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let made = |version: &str, accept: &str| {
        let (kind, bytes) = events(&router, version, accept);
        let text = String::from_utf8(bytes).expect("text");
        let lines: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line.trim_start_matches('\u{1e}')).expect("JSON")).collect();
        let separated = text.lines().all(|line| line.starts_with('\u{1e}'));
        (kind, lines, separated)
    };
    let (kind, lines, separated) = made("/v1.52", "");
    assert_eq!((kind.as_str(), separated), ("application/jsonl", false));
    let image: Vec<&Value> = lines.iter().filter(|line| line["Type"] == "image").collect();
    assert!(
        image.iter().any(|line| line["Action"] == "create" && line["Actor"]["Attributes"]["a"] == "b"),
        "{image:?}"
    );
    assert!(lines.iter().all(|line| ["status", "id", "from"].iter().all(|name| line.get(name).is_none())));
    assert_eq!(made("/v1.52", "text/plain, application/x-ndjson;q=1").0, "application/x-ndjson");
    let (kind, same, separated) = made("/v1.52", "application/json-seq");
    assert_eq!((kind.as_str(), separated, same.len()), ("application/json-seq", true, lines.len()));
    let (kind, older, _) = made("/v1.45", "application/json-seq");
    assert_eq!(kind, "application/json");
    assert!(
        older.iter().any(|line| line["status"] == "tag")
            && older.iter().all(|line| line["status"] != "create" || line["Type"] != "image")
    );
}

#[test]
fn events_tell_their_scope_from_1_30_on() {
    let root = Root::new();
    let router = Router::new(root.engine.clone());
    let network = json!({ "Name": "own" });
    root.engine.network_create(&serde_json::from_value(network).expect("a network")).expect("create");
    root.create("one", body(&["true"], host(json!({ "NetworkMode": "none" }))));
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let scopes = |version: &str| -> Vec<Value> {
        let text = String::from_utf8(events(&router, version, "").1).expect("text");
        let of =
            |line: &str| serde_json::from_str::<Value>(line).expect("JSON").get("scope").cloned().unwrap_or_default();
        text.lines().map(of).collect()
    };
    let told = scopes("/v1.29");
    assert!(told.len() >= 2 && told.iter().all(Value::is_null), "{told:?}");
    for version in ["/v1.30", "/v1.41", "/v1.44", "/v1.52"] {
        let told = scopes(version);
        assert!(told.len() >= 2 && told.iter().all(|scope| scope == "local"), "{version}: {told:?}");
    }
}

#[test]
fn requests_get_the_warnings_and_refusals_of_their_version() {
    let root = Root::new();
    let router = Router::new(root.engine.clone());
    let mac = body(&["true"], json!({ "MacAddress": "02:00:00:00:00:07" }));
    assert_eq!(create(&router, "/v1.51", &mac).0, 201);
    let (status, told) = create(&router, "/v1.52", &mac);
    assert!(
        status == 400 && told["message"].as_str().is_some_and(|text| text.starts_with("Config.MacAddress")),
        "{told}"
    );
    let unbound = body(&["true"], host(json!({ "PortBindings": { "80/tcp": [], "81/tcp": [{ "HostPort": "" }] } })));
    let warned = |version: &str, body: &Value| create(&router, version, body).1["Warnings"].to_string();
    assert!(warned("/v1.52", &unbound).contains("empty list of port-bindings: 80/tcp. Such"));
    assert!(!warned("/v1.51", &unbound).contains("port-bindings"));
    let mount = json!({ "Type": "volume", "Source": "vol", "Target": "/t" });
    let driver = body(&["true"], host(json!({ "VolumeDriver": "local", "Mounts": [mount] })));
    assert!(warned("/v1.48", &driver).contains("VolumeDriver") && !warned("/v1.47", &driver).contains("VolumeDriver"));
    let info = |version: &str| ask(&router, "GET", &format!("{version}/info")).1;
    assert_eq!(info("/v1.49")["FirewallBackend"]["Driver"], "nftables");
    assert!(info("/v1.50").get("BridgeNfIptables").is_none() && info("/v1.48").get("FirewallBackend").is_none());
    assert_eq!(ask(&router, "GET", "/v1.55/info").0, 400);
}
