//! Authorization plugins: real ones, in other processes, are asked about each request and its answer. The words and documents
//! are those that dockerd 20.10 gave to the same plugin.

use crate::oracle::call;
use crate::support::*;
use coracle_http::{Body, Client, Headers, ReplyBody, Request, Router, RouterOptions, User};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

/// A plugin under this name in a directory of plugins.
struct Plugin {
    child: Child,
    socket: PathBuf,
    log: PathBuf,
}

impl Plugin {
    fn start(dir: &Path, name: &str) -> Plugin {
        std::fs::create_dir_all(dir).expect("a directory");
        let (socket, log) = (dir.join(format!("{name}.sock")), dir.join(format!("{name}.log")));
        let program = project().join("tests/support/authorization-plugin.py");
        let child = Command::new("python3").arg(program).arg(&socket).arg(&log).spawn().expect("python3");
        let plugin = Plugin { child, socket, log };
        wait_for("the plugin", || std::os::unix::net::UnixStream::connect(&plugin.socket).is_ok());
        plugin
    }

    fn rules(&self, rules: &Value) {
        let (next, place) = (self.log.with_extension("next"), format!("{}.rules", self.log.display()));
        std::fs::write(&next, rules.to_string()).expect("write the rules");
        std::fs::rename(next, place).expect("publish the rules");
    }

    /// The questions since the last call, without activations.
    fn asked(&self) -> Vec<(String, Value)> {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        std::fs::write(&self.log, "").expect("empty the log");
        let pair = |line: &str| {
            let (method, body) = line.split_once(' ').expect("a call");
            (method.to_owned(), serde_json::from_str(body).unwrap_or_default())
        };
        text.lines().map(pair).filter(|(method, _)| method != "Plugin.Activate").collect()
    }
}

impl Drop for Plugin {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A root whose requests need the consent of plugins with these names.
fn guarded(names: &[&str]) -> (Root, Router, PathBuf) {
    let mut dir = PathBuf::new();
    let root = Root::with(|options| {
        dir = options.root.with_file_name("plugins");
        options.plugin_dirs = vec![dir.clone()];
        options.authorization_plugins = names.iter().map(|name| (*name).to_owned()).collect();
    });
    let router = Router::new(root.engine.clone());
    (root, router, dir)
}

fn ask(router: &Router, method: &str, target: &str, body: &[u8]) -> (u16, String) {
    let fields: &[(&str, &str)] = if body.is_empty() { &[] } else { &[("Content-Type", "application/json")] };
    let reply = router.request(method, target, fields, body.to_vec(), None).expect("a reply");
    let text = match reply.body {
        ReplyBody::Bytes(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        _ => String::new(),
    };
    let message = serde_json::from_str::<Value>(&text).ok().and_then(|v| v["message"].as_str().map(str::to_owned));
    (reply.status, message.unwrap_or(text))
}

fn decoded(value: &Value) -> String {
    let digit = |c: u8| match c {
        b'A'..=b'Z' => c - b'A',
        b'a'..=b'z' => c - b'a' + 26,
        b'0'..=b'9' => c - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let text = value.as_str().unwrap_or_default().trim_end_matches('=');
    let bits: String = text.bytes().map(|c| format!("{:06b}", digit(c))).collect();
    let octets = bits.as_bytes().chunks_exact(8).map(|octet| std::str::from_utf8(octet).expect("bits"));
    String::from_utf8(octets.map(|octet| u8::from_str_radix(octet, 2).expect("bits")).collect()).expect("text")
}

#[test]
fn plugins_are_asked_in_order_about_requests_and_answers() {
    let (root, router, dir) = guarded(&["one", "two", "one"]);
    let (one, two) = (Plugin::start(&dir, "one"), Plugin::start(&dir, "two"));
    let body = br#"{"Name":"data","Labels":{"a":"b"}}"#;
    let fields = [("content-type", "application/json; charset=utf-8"), ("x-registry-auth", "secret"), ("Host", "h")];
    let reply = router.request("POST", "/v1.24/volumes/create", &fields, body.to_vec(), None).expect("a reply");
    assert_eq!(reply.status, 201);
    for asked in [one.asked(), two.asked()] {
        assert_eq!(asked.len(), 2, "{asked:?}");
        let (method, question) = &asked[0];
        assert_eq!(method, "AuthZPlugin.AuthZReq");
        assert_eq!(decoded(&question["RequestBody"]).as_bytes(), body);
        let mut rest = question.clone();
        rest.as_object_mut().expect("an object").remove("RequestBody");
        let headers = json!({ "Content-Type": "application/json; charset=utf-8" });
        let expected =
            json!({ "RequestMethod": "POST", "RequestUri": "/v1.24/volumes/create", "RequestHeaders": headers });
        assert_eq!(rest, expected);
        let (method, question) = &asked[1];
        assert_eq!((method.as_str(), &question["ResponseStatusCode"]), ("AuthZPlugin.AuthZRes", &json!(201)));
        assert_eq!(question["ResponseHeaders"]["Content-Type"], "application/json");
        assert!(decoded(&question["ResponseBody"]).contains("\"Name\":\"data\""));
        assert_eq!(decoded(&question["RequestBody"]).as_bytes(), body);
    }
    // Passwords of a login are shown to nobody, and `info` names the plugins.
    ask(&router, "POST", "/auth", br#"{"username":"u","password":"p","serveraddress":"127.0.0.1:1"}"#);
    assert!(one.asked().iter().all(|(_, question)| question["RequestBody"].is_null()));
    assert_eq!(root.engine.info().expect("info")["Plugins"]["Authorization"], json!(["one", "two", "one"]));
    // A large document is shown whole before it is sent.
    assert_eq!(ask(&router, "GET", "/v1.24/info", b"").0, 200);
    let asked = one.asked();
    assert!(decoded(&asked[1].1["ResponseBody"]).contains("\"KernelVersion\""));
    // A host program may ask nobody, or others, and names users its own way.
    let free = Router::with(
        root.engine.clone(),
        RouterOptions { authorization_plugins: Some(Vec::new()), ..RouterOptions::default() },
    );
    assert_eq!(ask(&free, "GET", "/v1.24/info", b"").0, 200);
    assert_eq!(one.asked(), []);
    let request = Request {
        method: "GET".into(),
        target: "/_ping".into(),
        headers: Headers::new(),
        body: Body::empty(),
        client: Client::patient().with_user(User::new("alice", "Session")),
    };
    assert_eq!(router.handle(request).status, 200);
    let question = &one.asked()[0].1;
    assert_eq!((&question["User"], &question["UserAuthNMethod"]), (&json!("alice"), &json!("Session")));
}

#[test]
fn a_denied_request_does_nothing_and_the_words_are_those_of_dockerd() {
    let (root, router, dir) = guarded(&["one", "two"]);
    let (one, two) = (Plugin::start(&dir, "one"), Plugin::start(&dir, "two"));
    one.rules(&json!([
        { "method": "AuthZReq", "uri": "/volumes/create", "answer": { "Allow": false, "Msg": "no volumes" } },
        { "method": "AuthZRes", "uri": "/version", "answer": { "Allow": false, "Msg": "hidden" } },
        { "method": "AuthZReq", "uri": "/images/json", "status": 500, "text": "oops" },
        { "method": "AuthZReq", "uri": "/containers/five/json", "status": 500, "text": "{\"Err\":\"worse\"}" },
        { "method": "AuthZReq", "uri": "/containers/none/json", "answer": {} },
        { "method": "AuthZReq", "uri": "/networks", "text": "garbage" },
        { "method": "AuthZReq", "uri": "/volumes/x", "answer": { "Allow": true, "Err": "bad" } },
        { "method": "AuthZReq", "uri": "/volumes/y", "answer": { "Allow": "yes" } },
    ]));
    for (method, target, body, status, text) in [
        ("POST", "/v1.24/volumes/create", r#"{"Name":"v"}"#, 403, "authorization denied by plugin one: no volumes"),
        ("GET", "/version", "", 403, "authorization denied by plugin one: hidden"),
        ("GET", "/v1.24/images/json", "", 500, "plugin one failed with error: AuthZPlugin.AuthZReq: oops"),
        ("GET", "/v1.24/containers/five/json", "", 500, "plugin one failed with error: AuthZPlugin.AuthZReq: worse"),
        ("GET", "/v1.24/containers/none/json", "", 403, "authorization denied by plugin one: "),
        ("GET", "/v1.24/networks", "", 500, "plugin one answered no JSON"),
        ("GET", "/v1.24/volumes/x", "", 500, "AuthZPlugin.AuthZReq: bad"),
        ("GET", "/v1.24/volumes/y", "", 500, "the answer of plugin one"),
        ("GET", "/v1.24/nothing", "", 404, "page not found"),
        ("GET", "/v1.24/containers/gone/json", "", 404, "No such container: gone"),
    ] {
        two.asked();
        let (code, said) = ask(&router, method, target, body.as_bytes());
        assert_eq!(code, status, "{target}: {said}");
        assert!(if status == 403 { said == text } else { said.contains(text) }, "{target}: {said}");
        let asks_two = matches!(target, "/version" | "/v1.24/containers/gone/json");
        assert_eq!(!two.asked().is_empty(), asks_two, "{target}: the next is asked only after consent");
    }
    assert!(root.engine.volume_inspect("v").is_err(), "a denied request does nothing");
    // Before 1.24 errors are texts.
    let (code, said) = ask(&router, "POST", "/v1.18/volumes/create", b"{}");
    assert_eq!((code, said.trim_end()), (403, "authorization denied by plugin one: no volumes"));
}

// attack: 140
#[test]
fn no_document_passes_the_plugins_unseen() {
    let (root, router, dir) = guarded(&["one"]);
    let one = Plugin::start(&dir, "one");
    let create = |fields: &[(&str, &str)], body: Body| {
        let reply = router.request_with("POST", "/v1.24/volumes/create", fields, body, None).expect("a reply");
        reply.status
    };
    let json = [("Content-Type", "application/json")];
    // A document whose length is not known is shown like others.
    let text: &[u8] = br#"{"Name":"piecewise"}"#;
    assert_eq!(create(&json, Body::stream(text, None)), 201);
    assert_eq!(decoded(&one.asked()[0].1["RequestBody"]).as_bytes(), text);
    // Plugins do not see a body that is not called JSON, so no route reads one.
    for kind in ["text/plain", "application/jsonx", ""] {
        assert_eq!(create(&[("Content-Type", kind)], Body::bytes(br#"{"Name":"unseen"}"#.to_vec())), 400, "{kind}");
    }
    one.asked();
    let large = format!("{{\"Name\":\"large\",\"Labels\":{{\"a\":\"{}\"}}}}", "x".repeat(1 << 20));
    assert_eq!(create(&json, Body::bytes(large.into_bytes())), 413);
    assert_eq!(one.asked(), [], "the plugin is not asked about a part of a request");
    let names: Vec<String> =
        root.engine.volume_list(&Default::default()).expect("list").volumes.into_iter().map(|v| v.name).collect();
    assert_eq!(names, ["piecewise"]);
}

#[test]
fn a_plugin_that_hangs_holds_up_its_caller_alone_and_a_dead_one_denies() {
    let (_root, router, dir) = guarded(&["one"]);
    let one = Plugin::start(&dir, "one");
    one.rules(&json!([{ "method": "AuthZReq", "uri": "/info", "hang": true }]));
    let slow = router.clone();
    let waiting = std::thread::spawn(move || ask(&slow, "GET", "/v1.24/info", b""));
    wait_for("the question", || std::fs::read_to_string(&one.log).unwrap_or_default().contains("/v1.24/info"));
    assert_eq!(ask(&router, "GET", "/v1.24/_ping", b"").0, 200, "others are answered meanwhile");
    assert!(!waiting.is_finished());
    one.rules(&json!([{ "method": "AuthZReq", "uri": "/_ping", "die": true }]));
    assert_eq!(waiting.join().expect("its thread").0, 200);
    let (code, said) = ask(&router, "GET", "/v1.24/_ping", b"");
    assert!(code == 500 && said.starts_with("plugin one failed with error: AuthZPlugin.AuthZReq: "), "{said}");
    drop(one);
    std::fs::remove_file(dir.join("one.sock")).expect("remove the socket");
    let (code, said) = ask(&router, "GET", "/v1.24/_ping", b"");
    assert_eq!((code, said.as_str()), (500, "plugin one failed with error: plugin \"one\" not found"));
    let one = Plugin::start(&dir, "one");
    one.rules(&json!([]));
    assert_eq!(ask(&router, "GET", "/v1.24/_ping", b"").0, 200, "it is back");
}

#[test]
fn serve_asks_plugins_and_names_the_client_of_a_certificate() {
    let root = Root::empty();
    let dir = root.dir.join("plugins");
    let made = Command::new("bash")
        .args(["-c", "set -e; mkdir -p \"$1\"; cd \"$1\"
            new() { openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj \"$1\" -keyout $2.key \"${@:3}\"; }
            new /CN=authority ca -x509 -days 2 -out ca.pem
            for who in server client; do
              new \"/O=org/CN=$who of tests\" $who -out request
              printf 'subjectAltName=IP:127.0.0.1\\n' > names
              openssl x509 -req -in request -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -out $who.pem -extfile names
            done", "-"])
        .arg(&dir)
        .output()
        .expect("run openssl");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let file = |name: &str| dir.join(name).display().to_string();
    let one = Plugin::start(&dir, "one");
    let socket = root.dir.join("api.sock");
    let command = |name: &str| {
        let mut command = Command::new(built("coracle"));
        command.arg("--root").arg(root.dir.join("root")).arg("--run").arg(root.dir.join("run"));
        command.args(["--plugin-dir", &dir.display().to_string(), "serve", "--authorization-plugin", name]);
        command
    };
    let out = command("other").args(["-H", &format!("unix://{}", socket.display())]).output().expect("run it");
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(
        !out.status.success() && said.contains("validate authorization plugin: plugin \"other\" not found"),
        "{said}"
    );

    let log = std::fs::File::create(dir.join("serve.log")).expect("a log");
    let mut server = command("one")
        .args(["-H", &format!("unix://{}", socket.display()), "-H", "tcp://127.0.0.1:0", "--tlsverify"])
        .args(["--tlscacert", &file("ca.pem"), "--tlscert", &file("server.pem"), "--tlskey", &file("server.key")])
        .stderr(log)
        .spawn()
        .expect("run coracle serve");
    let said = || std::fs::read_to_string(dir.join("serve.log")).unwrap_or_default();
    wait_for("the server", || said().contains("serving on tcp://") && said().ends_with('\n'));
    let port = said().split("tcp://").nth(1).and_then(|rest| rest.lines().next().map(str::to_owned)).expect("a port");
    let out = Command::new("curl")
        .args(["-s", "--cacert", &file("ca.pem"), "--cert", &file("client.pem"), "--key", &file("client.key")])
        .arg(format!("https://{port}/v1.24/_ping"))
        .output()
        .expect("curl");
    assert_eq!(String::from_utf8_lossy(&out.stdout), "OK");
    let asked = one.asked();
    let question = &asked[0].1;
    assert_eq!((&question["User"], &question["UserAuthNMethod"]), (&json!("client of tests"), &json!("TLS")));
    let shown = decoded(&question["RequestPeerCertificates"][0]);
    let own = std::fs::read_to_string(dir.join("client.pem")).expect("the certificate");
    assert!(own.contains(shown.trim_end()), "{shown}");
    one.rules(&json!([{ "method": "AuthZReq", "uri": "/info", "answer": { "Allow": false, "Msg": "not you" } }]));
    let (status, body) = call(&socket, "GET", "/info", None);
    let body: Value = serde_json::from_slice(&body).expect("a document");
    assert_eq!((status, &body["message"]), (403, &json!("authorization denied by plugin one: not you")));
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(server.id() as i32), nix::sys::signal::Signal::SIGTERM)
        .expect("end it");
    assert!(server.wait().expect("its end").success());
}
