//! Members of bodies that the published descriptions of API 1.25 to 1.54 have (`tests/oracle/described/requests`), each at
//! the first and at the last version that has it: the member is read, or refused by its name, or stands in the list of
//! `docs/fields.md` of those that are taken without an effect. Members that a later version dropped do there as the table
//! [`DROPPED`] says.

use crate::support::{Running, serve};
use serde_json::{Value, json};
use std::path::Path;

/// The fate of a member at versions after the last one that has it.
#[derive(Debug, PartialEq)]
enum Later {
    /// The member is passed over, whatever it holds.
    Ignored,
    /// The member counts, or is refused by its name, as before.
    AsBefore,
}
use Later::*;

const DROPPED: [(&str, &str, Later); 13] = [
    ("POST /commit", "MacAddress", AsBefore),
    ("POST /containers/create", "HostConfig.Capabilities", AsBefore),
    ("POST /containers/create", "HostConfig.DiskQuota", AsBefore),
    ("POST /containers/create", "HostConfig.KernelMemory", Ignored),
    ("POST /containers/create", "HostConfig.KernelMemoryTCP", Ignored),
    ("POST /containers/create", "HostConfig.NanoCPUs", AsBefore),
    ("POST /containers/create", "MacAddress", AsBefore),
    ("POST /containers/{name}/update", "DiskQuota", AsBefore),
    ("POST /containers/{name}/update", "KernelMemory", Ignored),
    ("POST /containers/{name}/update", "KernelMemoryTCP", Ignored),
    ("POST /containers/{name}/update", "NanoCPUs", AsBefore),
    ("POST /networks/create", "CheckDuplicate", AsBefore),
    ("POST /networks/create", "IPAM.Config[].*", AsBefore),
];

struct Member {
    request: String,
    path: String,
    first: u32,
    last: u32,
}

/// The members of bodies, but for those of descriptions whose shape was a slip.
fn members() -> Vec<Member> {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let text = std::fs::read_to_string(project.join("tests/oracle/described/requests")).unwrap();
    let (mut members, mut request) = (Vec::new(), String::new());
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some(line) = line.strip_prefix(' ') else {
            request = line.to_owned();
            continue;
        };
        let (path, kinds) = line.split_once(' ').unwrap();
        let versions: Vec<u32> = kinds.split(", ").flat_map(versions).collect();
        // Volumes of a cluster, which a swarm's manager has; a login, which is refused as a whole without a word of its text.
        if request == "PUT /volumes/{name}" || request == "POST /auth" {
            continue;
        }
        let is_slip = path.contains("PortBindings.*.") || path.starts_with("IPAM.Options[]");
        if !path.starts_with('?') && !path.ends_with("[]") && !path.ends_with(".*") && !is_slip {
            let (first, last) = (versions[0], *versions.last().unwrap());
            members.push(Member { request: request.clone(), path: path.to_owned(), first, last });
        }
    }
    members
}

/// The first and the last version of `s 25-40`, or of all.
fn versions(kind: &str) -> [u32; 2] {
    let (first, last) = kind.split_once(' ').and_then(|(_, range)| range.split_once('-')).unwrap_or(("25", "54"));
    [first.parse().unwrap(), last.parse().unwrap()]
}

impl Member {
    /// The body with this member alone, beside an image that is not there.
    fn body(&self) -> Value {
        let mut inner = json!(5.5);
        for part in self.path.split('.').rev() {
            let (name, list) = part.strip_suffix("[]").map_or((part, false), |name| (name, true));
            let free = if self.path.contains("Ports") || self.path.contains("PortBindings") { "80/tcp" } else { "net" };
            inner = json!({ if name == "*" { free } else { name }: if list { json!([inner]) } else { inner } });
        }
        if self.request == "POST /containers/create" {
            inner.as_object_mut().unwrap().entry("Image").or_insert(json!("no-such-image"));
        }
        inner
    }

    fn asked(&self, server: &Running, version: u32) -> (u16, String) {
        let (method, path) = self.request.split_once(' ').unwrap();
        let path = path.replace("{name}", "x");
        let answer = server.json(method, &format!("/v1.{version}{path}"), &self.body().to_string());
        (answer.status, answer.body)
    }

    /// Whether the answer refuses the member, or one above it, by its name.
    fn is_named(&self, (status, body): &(u16, String)) -> bool {
        let (body, parts) = (body.to_lowercase(), self.path.split('.').rev());
        let named = |part: &str| body.contains(&part.trim_end_matches("[]").to_lowercase());
        matches!(status, 400 | 501) && parts.filter(|part| *part != "*").any(named)
    }

    /// As `docs/fields.md` calls it.
    fn row(&self) -> String {
        let path = self.path.replace("[]", "").replace(".*", "");
        match self.request.as_str() {
            "POST /containers/create" if !path.starts_with("HostConfig") && !path.starts_with("Networking") => {
                format!("Config.{path}")
            }
            "POST /commit" => format!("Config.{path}"),
            "POST /containers/{name}/update" => format!("Update.{path}"),
            "POST /containers/{name}/exec" => format!("ExecConfig.{path}"),
            "POST /networks/create" => format!("CreateNetwork.{path}"),
            _ => path.replace("EndpointConfig.", "NetworkingConfig.EndpointsConfig."),
        }
    }

    fn later(&self) -> &'static Later {
        let one = |(request, path, _): &&(&str, &str, Later)| *request == self.request && *path == self.path;
        &DROPPED.iter().find(one).unwrap_or_else(|| panic!("nothing says what is with {} later", self.path)).2
    }
}

#[test]
fn bodies_are_read_as_their_versions_describe_them() {
    let server = serve();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/fields.md");
    let page = std::fs::read_to_string(page).unwrap();
    let taken = page.split("## Taken without effect").nth(1).expect("the list");
    let mut wrong = Vec::new();
    let members = members();
    assert!(members.len() > 300, "{} members", members.len());
    for one in &members {
        let is_taken = taken.contains(&format!("| `{}` |", one.row()));
        for version in [one.first, one.last] {
            let answer = one.asked(&server, version);
            if !one.is_named(&answer) && !is_taken {
                wrong.push(format!("1.{version} {} {}: {answer:?}", one.request, one.path));
            }
        }
        if one.last < 54 {
            let answer = one.asked(&server, 54);
            let named = one.is_named(&answer);
            if named != (*one.later() == AsBefore) {
                wrong.push(format!("1.54 {} {}: {:?}, and {answer:?}", one.request, one.path, one.later()));
            }
        }
    }
    assert!(wrong.is_empty(), "{} members:\n{}", wrong.len(), wrong.join("\n"));
}
