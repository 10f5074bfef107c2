//! Every field and parameter that a published version of the API knows (`tests/known.json`), one at a time: it is read, or
//! refused by its name, or stands in the list of `docs/fields.md` of those that are taken without an effect.

use crate::support::{Running, serve};
use coracle_http::{Document, unknown};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

struct Known {
    route: String,
    /// The members above it; `[]` behind one that is a list.
    above: String,
    /// The page's name of the members above it.
    page: String,
    name: String,
}

fn known() -> Vec<Known> {
    let text = std::fs::read_to_string(project().join("tests/known.json")).unwrap();
    let document: Value = serde_json::from_str(&text).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let rows = document["fields"].as_array().unwrap().iter();
    rows.flat_map(|row| {
        let one =
            |name: &Value| Known { route: text(&row[0]), above: text(&row[1]), page: text(&row[2]), name: text(name) };
        row[3].as_array().unwrap().iter().map(one).collect::<Vec<_>>()
    })
    .collect()
}

impl Known {
    /// The body with this field alone, beside an image that is not there.
    fn body(&self, value: &Value) -> Value {
        let mut inner = json!({ &self.name: value });
        for part in self.above.split('.').rev().filter(|part| !part.is_empty()) {
            let (name, list) = part.strip_suffix("[]").map_or((part, false), |name| (name, true));
            // `80/tcp` and `net` are keys of maps.
            inner = json!({ name: if list { json!([inner]) } else { inner } });
        }
        if self.route == "POST /containers/create" {
            let all = inner.as_object_mut().unwrap();
            all.entry("Image").or_insert(json!("no-such-image"));
        }
        inner
    }
    fn asked(&self, server: &Running, prefix: &str, value: &Value) -> (u16, String) {
        let (method, path) = self.route.split_once(' ').unwrap();
        let answer = server.json(method, &format!("{prefix}{path}"), &self.body(value).to_string());
        (answer.status, answer.body)
    }
    /// As the page calls it.
    fn row(&self) -> String {
        if self.page.is_empty() { self.name.clone() } else { format!("{}.{}", self.page, self.name) }
    }
}

const PREFIXES: [&str; 11] =
    ["", "/v1.18", "/v1.19", "/v1.20", "/v1.21", "/v1.22", "/v1.23", "/v1.24", "/v1.32", "/v1.44", "/v1.54"];

/// The part of the page that lists what has no effect.
fn taken() -> String {
    let page = std::fs::read_to_string(project().join("docs/fields.md")).unwrap();
    page.split("## Taken without effect").nth(1).expect("the list").to_owned()
}

/// A value that is of no field's type is refused with the field's name, by what reads the field as by what refuses it.
#[test]
fn no_field_is_taken_silently() {
    let server = serve();
    let (page, taken) = (std::fs::read_to_string(project().join("docs/fields.md")).unwrap(), taken());
    let (mut wrong, mut refused) = (Vec::new(), 0);
    for one in known() {
        let row = one.row();
        let is_taken = taken.contains(&format!("| `{row}` |"));
        for prefix in PREFIXES {
            let (status, body) = one.asked(&server, prefix, &json!(5.5));
            let named = body.contains(&format!("{} ", one.name)) && matches!(status, 400 | 501);
            if !named && !is_taken {
                wrong.push(format!("{prefix} {row}: {status} {body}"));
            }
            if status != 501 {
                continue;
            }
            refused += 1;
            for zero in [json!(null), json!(false), json!(0), json!(""), json!([]), json!({})] {
                let (status, body) = one.asked(&server, prefix, &zero);
                if status == 501 {
                    wrong.push(format!("{prefix} {row} {zero}: {status} {body}"));
                }
            }
        }
        // The fields that containers read have a test, which the page names.
        let (status, _) = one.asked(&server, "", &json!(5.5));
        let container = ["Config", "HostConfig", "NetworkingConfig", "Update", "ExecConfig"];
        let listed = container.iter().any(|head| one.page.split('.').next() == Some(head));
        if listed && status == 400 && !page.contains(&format!("| `{row}")) {
            wrong.push(format!("docs/fields.md has no test of {row}"));
        }
    }
    assert!(refused > 8 * 30, "{refused} were refused");
    assert!(wrong.is_empty(), "{} fields:\n{}", wrong.len(), wrong.join("\n"));
}

/// The doors in process take what HTTP takes, and HTTP takes what they take.
#[test]
fn documents_of_other_doors_know_the_fields() {
    let server = serve();
    let kinds = [
        ("POST /containers/create", Document::Create),
        ("POST /containers/x/update", Document::Update),
        ("POST /containers/x/exec", Document::Exec),
        ("POST /volumes/create", Document::Volume),
        ("POST /networks/create", Document::Network),
        ("POST /networks/x/connect", Document::Connect),
        ("POST /networks/x/disconnect", Document::Disconnect),
    ];
    for one in known() {
        let Some((_, kind)) = kinds.iter().find(|(route, _)| *route == one.route) else { continue };
        let (status, _) = one.asked(&server, "", &json!(5.5));
        match unknown(one.body(&json!(5.5)).to_string().as_bytes(), *kind) {
            Ok(strangers) => assert!(strangers.is_empty() && status != 501, "{}: {status} {strangers:?}", one.row()),
            Err(error) => {
                assert_eq!((error.http_status(), status), (501, 501), "{}: {error}", one.row());
                assert!(error.message().ends_with(&format!("{} is not supported", one.name)), "{error}");
            }
        }
        // A letter too many.
        let odd = Known { name: format!("{}x", one.name), ..one };
        let strangers = unknown(odd.body(&json!(5.5)).to_string().as_bytes(), *kind).unwrap();
        let nearest = format!("the nearest is {}", &odd.name[..odd.name.len() - 1]);
        assert!(strangers.len() == 1 && strangers[0].ends_with(&nearest), "{}: {strangers:?}", odd.row());
        // Over HTTP it is passed over, as clients expect.
        let (status, body) = odd.asked(&server, "", &json!(5.5));
        assert!(!body.contains(&odd.name), "{status} {body}");
    }
}

/// Parameters that are refused: at every version, and never where their value asks for nothing.
// parameter: POST /containers/{name}/start: detachKeys
#[test]
fn parameters_that_are_not_here_are_named() {
    let server = serve();
    let ask = |method: &str, path: &str, query: &str| -> Vec<(u16, String)> {
        let one = |prefix: &&str| {
            let answer = server.json(method, &format!("{prefix}{path}?{query}"), "{}");
            (answer.status, answer.body)
        };
        PREFIXES.iter().map(one).collect()
    };
    for (route, name, other) in [
        ("POST /containers/x/start", "checkpoint", "c"),
        ("POST /containers/x/start", "checkpoint-dir", "/c"),
        ("POST /images/load", "platform", "linux/s390x"),
        ("POST /images/create", "platform", "linux/s390x"),
        ("POST /build", "session", "s"),
        ("POST /build", "outputs", "o"),
        ("POST /build", "version", "3"),
        ("GET /networks/x", "scope", "global"),
    ] {
        let (method, path) = route.split_once(' ').unwrap();
        for (status, body) in ask(method, path, &format!("{name}={other}")) {
            let text = format!("the parameter {name}={other} is not supported");
            assert!(status == 501 && body.contains(&text), "{route} {name}: {status} {body}");
        }
        for (status, body) in ask(method, path, &format!("{name}=")) {
            assert!(status != 501, "{route} {name}: {status} {body}");
        }
    }
    // Keys of a start that are not valid.
    for (status, body) in ask("POST", "/containers/x/start", "detachKeys=!!!") {
        assert!(status == 400 && body.contains("Invalid detach keys (!!!) provided"), "{status} {body}");
    }
}

/// Members of old bodies beside `HostConfig` count, are refused, or ask for nothing.
#[test]
fn host_configuration_beside_itself_is_not_passed_over() {
    let server = serve();
    let ask = |more: Value| {
        let mut body = json!({ "Image": "no-such-image", "HostConfig": {} });
        let members: Map<String, Value> = more.as_object().unwrap().clone();
        body.as_object_mut().unwrap().extend(members);
        server.json("POST", "/v1.24/containers/create", &body.to_string())
    };
    for (more, status) in [
        (json!({ "Binds": ["/a:/b"] }), 400),
        (json!({ "Privileged": true }), 400),
        (json!({ "Binds": null, "Dns": [], "Privileged": false, "PidsLimit": 0 }), 404),
        (json!({ "Memory": 64 << 20, "CpuShares": 5 }), 404),
    ] {
        let answer = ask(more.clone());
        assert_eq!(answer.status, status, "{more}: {}", answer.body);
        if status == 400 {
            assert!(answer.body.contains("stands beside HostConfig"), "{}", answer.body);
        }
    }
}
