//! Paths, versions, header fields and error bodies: what dockerd 20.10 answers to the same requests.

use crate::support::{serve, serve_with};
use coracle_http::{ApiVersion, RouterOptions, ServerOptions};

const ROUTED: [&str; 5] = ["Api-Version", "Content-Type", "Docker-Experimental", "Ostype", "Server"];

#[test]
fn ping() {
    let server = serve();
    let answer = server.get("GET", "/v1.24/_ping");
    assert_eq!((answer.line.as_str(), answer.body.as_str()), ("HTTP/1.1 200 OK", "OK"));
    let names = ["Api-Version", "Cache-Control", "Content-Type", "Docker-Experimental", "Ostype", "Pragma", "Server"];
    assert_eq!(answer.names(), names);
    for (name, value) in [
        ("Api-Version", "1.54"),
        ("Cache-Control", "no-cache, no-store, must-revalidate"),
        ("Content-Type", "text/plain; charset=utf-8"),
        ("Docker-Experimental", "false"),
        ("Ostype", "linux"),
        ("Pragma", "no-cache"),
        ("Content-Length", "2"),
    ] {
        assert_eq!(answer.field(name), Some(value), "{name}");
    }
    assert!(answer.field("Server").unwrap().ends_with(" (linux)"));
    let head = server.get("HEAD", "/v1.18/_ping");
    assert_eq!((head.status, head.body.as_str(), head.field("Content-Length")), (200, "", Some("0")));
    // Clients that look for a version ask without one.
    for prefix in ["", "/v1.44", "/v1.54"] {
        let head = server.get("HEAD", &format!("{prefix}/_ping"));
        assert_eq!((head.field("Builder-Version"), head.field("Swarm")), (Some("1"), Some("inactive")), "{prefix}");
    }
}

fn served_to(newest: ApiVersion) -> crate::support::Running {
    let options = RouterOptions { max_api_version: newest, ..RouterOptions::default() };
    serve_with(options, ServerOptions::default(), &[])
}

/// The contract alone, for a host that wants no more.
#[test]
fn the_newest_version_can_be_chosen() {
    let server = served_to(ApiVersion::SPECIFIED);
    let answer = server.get("GET", "/_ping");
    assert_eq!(answer.field("Api-Version"), Some("1.24"));
    assert_eq!((answer.field("Builder-Version"), answer.field("Swarm")), (None, None));
    let new = server.get("GET", "/v1.25/_ping");
    let text = "client version 1.25 is too new. Maximum supported API version is 1.24";
    assert_eq!((new.status, new.body), (400, format!("{{\"message\":\"{text}\"}}\n")));
    // A request without a version is of the newest that is served.
    assert_eq!(server.get("GET", "/swarm").status, 406);
    let document = |server: &crate::support::Running, path: &str| -> serde_json::Value {
        serde_json::from_str(&server.get("GET", path).body).unwrap()
    };
    let version = document(&server, "/version");
    assert_eq!((&version["ApiVersion"], &version["MinAPIVersion"]), (&"1.24".into(), &"1.18".into()));
    let own = env!("CARGO_PKG_VERSION");
    assert_eq!((&version["Version"], version.get("Components")), (&own.into(), None));
    assert_eq!(document(&server, "/info")["ServerVersion"], own);
}

#[test]
fn version_is_read_as_that_of_an_engine_of_the_api() {
    let server = serve();
    let document = |path: &str| -> serde_json::Value { serde_json::from_str(&server.get("GET", path).body).unwrap() };
    let (version, own) = (document("/version"), env!("CARGO_PKG_VERSION"));
    let called = format!("29.3.0+coracle-{own}");
    assert_eq!((&version["ApiVersion"], &version["MinAPIVersion"]), (&"1.54".into(), &"1.18".into()));
    assert_eq!((&version["Version"], &version["Platform"]["Name"]), (&called.as_str().into(), &"Coracle".into()));
    let [engine, library] = version["Components"].as_array().unwrap().as_slice() else { panic!("{version}") };
    assert_eq!((&engine["Name"], &engine["Version"]), (&"Engine".into(), &called.as_str().into()));
    assert_eq!((&library["Name"], &library["Version"]), (&"Coracle".into(), &own.into()));
    let details = engine["Details"].as_object().unwrap();
    assert!(details.len() >= 9 && details.values().all(serde_json::Value::is_string), "{engine}");
    assert_eq!((&details["ApiVersion"], &details["MinAPIVersion"]), (&"1.54".into(), &"1.18".into()));
    for path in ["/v1.24/version", "/v1.34/version"] {
        let version = document(path);
        assert!(version.get("Components").is_none() && version.get("Platform").is_none(), "{path}: {version}");
    }
    assert_eq!(document("/v1.35/version"), version);
    assert_eq!(document("/info")["ServerVersion"], called);
    assert!(server.get("GET", "/_ping").field("Server").unwrap().starts_with(&format!("Docker/{called} ")));
    // Names to 1.24, names and settings from then on.
    let options = |path: &str| document(path)["SecurityOptions"].to_string();
    assert!(!options("/v1.24/info").contains("name="), "{}", options("/v1.24/info"));
    assert!(options("/v1.25/info").contains("\"name=seccomp,profile=builtin\""), "{}", options("/v1.25/info"));
}

#[test]
fn every_version_and_none() {
    let server = serve();
    for prefix in [
        "", "/v1.18", "/v1.19", "/v1.20", "/v1.21", "/v1.22", "/v1.23", "/v1.24", "/v1.24.1", "/v1.25", "/v1.44",
        "/v1.54",
    ] {
        assert_eq!(server.get("GET", &format!("{prefix}/_ping")).body, "OK", "{prefix}");
    }
}

#[test]
fn versions_out_of_range() {
    let server = serve();
    for new in ["1.55", "1.99"] {
        let answer = server.get("GET", &format!("/v{new}/_ping"));
        assert_eq!(answer.status, 400);
        let text = format!("client version {new} is too new. Maximum supported API version is 1.54");
        assert_eq!(answer.body, format!("{{\"message\":\"{text}\"}}\n"));
        assert_eq!(answer.names(), ["Api-Version", "Content-Type", "Ostype", "Server"]);
    }
    for old in ["1", "1.11", "1.17", "1..2"] {
        let answer = server.get("GET", &format!("/v{old}/info"));
        assert_eq!(answer.status, 400);
        let text = "is too old. Minimum supported API version is 1.18, please upgrade your client to a newer version\n";
        assert_eq!(answer.body, format!("client version {old} {text}"));
        assert_eq!(answer.field("X-Content-Type-Options"), Some("nosniff"));
    }
}

#[test]
fn unknown_pages() {
    let server = serve();
    for (method, path) in [
        ("GET", "/v1.24/nope"),
        ("GET", "/nope"),
        ("PUT", "/v1.24/_ping"),
        ("GET", "/v1.24/_ping/"),
        ("GET", "/v1.99/nope"),
        ("GET", "/vx/_ping"),
        ("GET", "/v1.24"),
        ("GET", "/"),
        ("GET", "/v1.24/containers/a/b/nope"),
        ("FETCH", "/_ping"),
    ] {
        let answer = server.get(method, path);
        assert_eq!(
            (answer.status, answer.body.as_str()),
            (404, "{\"message\":\"page not found\"}\n"),
            "{method} {path}"
        );
        assert_eq!(answer.names(), ["Content-Type"], "{method} {path}");
    }
    let head = server.get("HEAD", "/v1.24/version");
    assert_eq!((head.status, head.body.as_str(), head.field("Content-Length")), (404, "", Some("29")));
    let old = server.get("GET", "/v1.23/nope");
    assert_eq!((old.status, old.body.as_str()), (404, "page not found\n"));
    assert_eq!(old.field("Content-Type"), Some("text/plain; charset=utf-8"));
}

#[test]
fn paths_are_cleaned_by_redirect() {
    let server = serve();
    for (path, location) in [
        ("//v1.24//_ping", "/v1.24/_ping"),
        ("/v1.24/images/a%2F%2Fb/json", "/v1.24/images/a/b/json"),
        ("/v1.24/../version", "/version"),
        ("/v1.24/containers//json?all=1", "/v1.24/containers/json?all=1"),
    ] {
        let answer = server.get("GET", path);
        assert_eq!((answer.status, answer.field("Location")), (301, Some(location)), "{path}");
        assert_eq!(answer.field("Content-Length"), Some("0"));
        assert_eq!(answer.field("Server"), None);
    }
    let answer = server.get("GET", "/v1.24/containers/%zz/json");
    assert_eq!((answer.status, answer.body.as_str()), (400, "400 Bad Request"));
}

#[test]
fn options_and_cross_origin() {
    let server = serve();
    let answer = server.get("OPTIONS", "/v1.24/whatever");
    assert_eq!((answer.status, answer.body.as_str()), (200, ""));
    assert_eq!(answer.names(), ["Api-Version", "Docker-Experimental", "Ostype", "Server"]);
    let options = RouterOptions { api_cors_header: Some("http://a.example".into()), ..RouterOptions::default() };
    let server = serve_with(options, ServerOptions::default(), &[]);
    for answer in [server.get("OPTIONS", "/x"), server.get("GET", "/_ping"), server.get("GET", "/v1.99/_ping")] {
        assert_eq!(answer.field("Access-Control-Allow-Origin"), Some("http://a.example"));
        assert_eq!(answer.field("Access-Control-Allow-Methods"), Some("HEAD, GET, POST, DELETE, PUT, OPTIONS"));
        let fields = "Origin, X-Requested-With, Content-Type, Accept, X-Registry-Auth";
        assert_eq!(answer.field("Access-Control-Allow-Headers"), Some(fields));
    }
    assert_eq!(server.get("GET", "/nope").field("Access-Control-Allow-Origin"), None);
}

// operation: GET /containers/{name}/checkpoints
// operation: POST /containers/{name}/checkpoints
#[test]
fn answers_name_unsupported_operations() {
    let server = serve();
    let answer = server.get("POST", "/v1.25/plugins/create");
    assert_eq!(answer.status, 501);
    assert!(answer.body.contains("making plugins is not supported"), "{}", answer.body);
    assert_eq!(answer.names(), ROUTED);
    for path in ["/session", "/grpc"] {
        let answer = server.get("POST", path);
        assert!(answer.status == 501 && answer.body.contains("set DOCKER_BUILDKIT=0"), "{path} {answer:?}");
    }
    let answer = server.get("GET", "/containers/x/checkpoints");
    assert!(answer.status == 501 && answer.body.contains("checkpoints are not supported"), "{answer:?}");
    let copy = server.get("POST", "/v1.24/containers/x/copy");
    assert_eq!((copy.status, copy.body.as_str(), copy.field("Content-Type")), (404, "", None));
    // There, and asked without a body.
    assert_eq!(server.get("POST", "/v1.23/containers/x/copy").status, 400);
}

/// A request that begins or joins a swarm needs the program, which the router's engine does not name.
#[test]
fn a_swarm_needs_its_program() {
    let server = serve();
    for path in ["/swarm/init", "/swarm/join"] {
        let answer = server.json("POST", &format!("/v1.24{path}"), "{}");
        assert_eq!(answer.status, 501, "{path}");
        assert!(answer.body.contains("swarm mode needs the program coracle-swarm"), "{path}: {}", answer.body);
    }
}

/// The specification's 406, which is 503 to later clients. A method, a path, the text behind "This node ".
#[test]
fn outside_of_a_swarm() {
    let server = serve();
    let manager = "is not a swarm manager. Use \\\"docker swarm init\\\" or \\\"docker swarm join\\\" to connect this node to swarm \
                   and try again.";
    for (method, path, text) in [
        ("GET", "/swarm", manager),
        ("POST", "/swarm/leave?force=1", "is not part of a swarm"),
        ("POST", "/swarm/update?version=1", manager),
        ("GET", "/services", manager),
        ("POST", "/services/create", manager),
        ("GET", "/services/x", manager),
        ("POST", "/services/x/update?version=1", manager),
        ("DELETE", "/services/x", manager),
        ("GET", "/nodes", manager),
        ("GET", "/nodes/x", manager),
        ("POST", "/nodes/x/update?version=1", manager),
        ("DELETE", "/nodes/x", manager),
        ("GET", "/tasks", manager),
        ("GET", "/tasks/x", manager),
        ("GET", "/secrets", manager),
        ("GET", "/secrets/x", manager),
        ("POST", "/configs/create", manager),
    ] {
        let plain = format!("This node {}\n", text.replace("\\\"", "\""));
        for minor in 18..=24 {
            let answer = server.json(method, &format!("/v1.{minor}{path}"), "");
            assert_eq!(answer.status, 406, "{minor} {method} {path}");
            match minor {
                24 => assert_eq!(answer.body, format!("{{\"message\":\"This node {text}\"}}\n")),
                _ => assert_eq!(answer.body, plain),
            }
        }
        let answer = server.json(method, path, "");
        assert_eq!(answer.status, 503, "{method} {path}");
        assert_eq!(answer.body, format!("{{\"message\":\"This node {text}\"}}\n"));
    }
    // Volumes of a cluster came later.
    for (version, status) in [("1.24", 404), ("1.41", 404), ("1.42", 503), ("1.54", 503)] {
        assert_eq!(server.json("PUT", &format!("/v{version}/volumes/x?version=1"), "").status, status, "{version}");
    }
}

#[test]
fn older_versions_have_their_own_answers() {
    let server = serve();
    let json = |path: &str| serde_json::from_str::<serde_json::Value>(&server.get("GET", path).body).unwrap();
    // Debug, IPv4Forwarding, MemoryLimit, SwapLimit; and what came later than 1.18.
    for name in ["Debug", "IPv4Forwarding", "MemoryLimit", "SwapLimit"] {
        assert!(json("/v1.18/info")[name].is_u64() && json("/v1.19/info")[name].is_boolean(), "{name}");
    }
    for name in ["Architecture", "ContainersRunning", "Plugins", "ServerVersion"] {
        assert!(json("/v1.18/info").get(name).is_none() && json("/v1.19/info").get(name).is_some(), "{name}");
    }
    for minor in 18..=24 {
        let info = json(&format!("/v1.{minor}/info"));
        assert_eq!(info["ExecutionDriver"], "<not supported>", "1.{minor}");
        let runtime = info["DefaultRuntime"].as_str().unwrap();
        assert!(info["Runtimes"].get(runtime).is_some(), "1.{minor}: {runtime}");
        assert_ne!(json(&format!("/v1.{minor}/version"))["GitCommit"], "");
        let network = |name: &str| {
            server.json("POST", &format!("/v1.{minor}/networks/create"), &format!("{{\"Name\":\"{name}\"}}"))
        };
        assert_eq!(network(&format!("net{minor}")).status, 201);
        let removed = server.get("DELETE", &format!("/v1.{minor}/networks/net{minor}")).status;
        assert_eq!(removed, if minor < 23 { 200 } else { 204 }, "1.{minor}");
        assert_eq!(json(&format!("/v1.{minor}/networks/")), json(&format!("/v1.{minor}/networks")));
        assert_eq!(json(&format!("/v1.{minor}/networks/")).as_array().unwrap().len(), 3);
        // A host name needs a form since 1.24. There is no image of that name, which is looked for last.
        let body = "{\"Image\":\"no-such-image\",\"Hostname\":\"my_host\"}";
        let answer = server.json("POST", &format!("/v1.{minor}/containers/create"), body);
        assert_eq!(answer.status, if minor < 24 { 404 } else { 400 }, "1.{minor} {}", answer.body);
    }
}

/// Whatever the credentials are called: a document, a text, nothing. The address has no registry behind it.
#[test]
fn credentials_need_no_content_type() {
    let server = serve();
    let body = "{\"username\":\"u\",\"password\":\"p\",\"serveraddress\":\"127.0.0.1:1\"}";
    for kind in ["", "Content-Type: text/plain\r\n", "Content-Type: application/json\r\n"] {
        let answer = server.ask("POST", "/v1.24/auth", kind, body);
        assert!(answer.status == 500 && answer.body.contains("127.0.0.1:1"), "{kind} {answer:?}");
    }
    assert_eq!(server.ask("POST", "/v1.24/auth", "", "").body, "{\"message\":\"EOF\"}\n");
}

#[test]
fn bad_documents() {
    let server = serve();
    for (body, message) in [
        ("", "EOF"),
        ("{", "unexpected EOF"),
        ("{a", "invalid character 'a' looking for beginning of object key string"),
        ("{}", "Config cannot be empty in order to create a container"),
        ("null", "Config cannot be empty in order to create a container"),
        ("[]", "json: cannot unmarshal array into Go value of type runconfig.ContainerConfigWrapper"),
        (
            "{\"Image\":5}",
            "json: cannot unmarshal number into Go struct field ContainerConfigWrapper.Image of type string",
        ),
    ] {
        let answer = server.json("POST", "/v1.24/containers/create", body);
        assert_eq!((answer.status, answer.body), (400, format!("{{\"message\":\"{message}\"}}\n")), "{body}");
        assert_eq!(server.json("POST", "/v1.23/containers/create", body).body, format!("{message}\n"));
    }
    let form = "Content-Type: application/x-www-form-urlencoded\r\n";
    let text = "Content-Type specified (application/x-www-form-urlencoded) must be 'application/json'";
    for path in ["/v1.24/containers/create", "/v1.24/containers/x/exec", "/v1.22/exec/x/start"] {
        let answer = server.ask("POST", path, form, "{}");
        assert!(answer.status == 400 && answer.body.contains(text), "{path} {answer:?}");
    }
    let none = server.ask("POST", "/v1.24/containers/create", "", "{}");
    assert_eq!(none.body, "{\"message\":\"Content-Type specified () must be 'application/json'\"}\n");
    for path in ["/containers/x/exec", "/exec/x/start"] {
        let answer = server.json("POST", path, "");
        assert_eq!(
            (answer.status, answer.body.as_str()),
            (400, "{\"message\":\"got EOF while reading request body\"}\n")
        );
        assert_eq!(server.json("POST", path, "{").body, "{\"message\":\"unexpected EOF\"}\n");
    }
    let late = "{\"message\":\"starting container with non-empty request body was deprecated since API v1.22 and removed \
                in v1.24\"}\n";
    let answer = server.json("POST", "/v1.24/containers/x/start", "{\"Binds\":[]}");
    assert_eq!((answer.status, answer.body.as_str()), (400, late));
    let answer = server.ask("POST", "/v1.23/containers/x/start", form, "{\"Binds\":[]}");
    assert_eq!((answer.status, answer.body), (400, format!("{text}\n")));
}

#[test]
fn bad_parameters() {
    let server = serve();
    for (method, target, message) in [
        ("GET", "/containers/json?limit=a", "strconv.Atoi: parsing \\\"a\\\": invalid syntax"),
        ("GET", "/containers/json?filters=x", "invalid character 'x' looking for beginning of value"),
        ("GET", "/containers/json?a=%zz", "invalid URL escape \\\"%zz\\\""),
        ("POST", "/containers/x/stop?t=x", "strconv.Atoi: parsing \\\"x\\\": invalid syntax"),
        ("POST", "/containers/x/resize?h=20", "strconv.Atoi: parsing \\\"\\\": invalid syntax"),
        ("POST", "/exec/x/resize?h=a", "strconv.Atoi: parsing \\\"a\\\": invalid syntax"),
        ("GET", "/containers/x/logs", "Bad parameters: you must choose at least one stream"),
        ("GET", "/containers/x/logs?stdout=1&since=x", "strconv.ParseInt: parsing \\\"x\\\": invalid syntax"),
        ("GET", "/events?since=x", "strconv.ParseInt: parsing \\\"x\\\": invalid syntax"),
        ("GET", "/events?since=100&until=50", "`since` time (100) cannot be after `until` time (50)"),
        ("DELETE", "/images/", "image name cannot be blank"),
    ] {
        let answer = server.get(method, target);
        assert_eq!((answer.status, answer.body), (400, format!("{{\"message\":\"{message}\"}}\n")), "{target}");
        assert_eq!(answer.head.matches("Docker-Experimental").count(), 1);
    }
    let attach = server.get("POST", "/v1.18/containers/x/attach?stream=1&detachKeys=foo");
    assert_eq!((attach.status, attach.body.as_str()), (400, "Invalid detach keys (foo) provided\r\n"));
    assert_eq!(attach.head, "Content-Type: application/vnd.docker.raw-stream\r\n");
}
