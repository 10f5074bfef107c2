//! Parameters that a published version of the API knows, and this engine does not have: refused by their names, at every
//! version, unless they ask for nothing. Those that no version knows are ignored, as clients expect.

use crate::query::Query;
use crate::routes::Route;
use coracle::{Error, Result, version};
use serde_json::Value;

enum Rule {
    /// Refused unless it is empty, or a no.
    Refused,
    /// One of these, or empty.
    Only(&'static [&'static str]),
    /// The platform of this host, or empty: `linux/amd64`, or an object of `os` and `architecture`.
    Platform,
}
use Rule::*;

/// Method, path, parameters.
type Row = (&'static str, &'static str, &'static [(&'static str, Rule)]);

static ROWS: &[Row] = &[
    ("POST", "/containers/create", &[("platform", Platform)]),
    ("POST", "/containers/{name}/start", &[("checkpoint", Refused), ("checkpoint-dir", Refused)]),
    ("GET", "/images/{name}/json", &[("platform", Platform)]),
    ("GET", "/images/{name}/history", &[("platform", Platform)]),
    ("GET", "/images/{name}/get", &[("platform", Platform)]),
    ("GET", "/images/get", &[("platform", Platform)]),
    ("POST", "/images/load", &[("platform", Platform)]),
    ("POST", "/images/create", &[("platform", Platform)]),
    ("POST", "/images/{name}/push", &[("platform", Platform)]),
    ("DELETE", "/images/{name}", &[("platforms", Platform)]),
    ("POST", "/build", &[("version", Only(&["1", "2"])), ("session", Refused), ("outputs", Refused)]),
    ("GET", "/networks/{name}", &[("scope", Only(&["local"]))]),
];

/// Errors: a parameter asks for what is not here.
pub(crate) fn check(route: &Route, query: &Query) -> Result<()> {
    let rows = ROWS.iter().filter(|(method, path, _)| *method == route.method && *path == route.path);
    for (name, rule) in rows.flat_map(|(_, _, parameters)| parameters.iter()) {
        for text in query.all(name) {
            let fits = match rule {
                Refused => !query.flag(name),
                Only(words) => text.is_empty() || words.contains(&text),
                Platform => is_this(text),
            };
            if !fits {
                return Err(Error::unsupported(format!("the parameter {name}={text} is not supported")));
            }
        }
    }
    Ok(())
}

/// Whether `text` names the platform that this host runs.
fn is_this(text: &str) -> bool {
    let asked: Vec<String> = match serde_json::from_str::<Value>(text) {
        Ok(Value::Object(members)) => {
            let member = |name: &str| members.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
            vec![member("os"), member("architecture")]
        }
        _ => text.split('/').take(2).map(str::to_owned).collect(),
    };
    let here = version();
    let arch = match asked.get(1).map_or("", String::as_str) {
        "x86_64" | "x86-64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let os = asked.first().map_or("", String::as_str);
    (os.is_empty() || os.eq_ignore_ascii_case(&here.os)) && (arch.is_empty() || arch.eq_ignore_ascii_case(&here.arch))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(method: &str, path: &str, query: &str) -> Result<()> {
        let (route, _) = crate::routes::find(method, path).expect("a route");
        check(route, &Query::parse(query).expect("a query"))
    }

    #[test]
    fn errors_name_the_unsupported_parameter() {
        for zero in ["", "checkpoint=", "checkpoint", "x=1"] {
            checked("POST", "/containers/x/start", zero).unwrap();
        }
        let error = checked("POST", "/containers/x/start", "checkpoint=c").unwrap_err();
        assert_eq!((error.http_status(), error.message()), (501, "the parameter checkpoint=c is not supported"));
        checked("DELETE", "/images/x", "platforms={\"os\":\"linux\"}").unwrap();
        assert!(checked("DELETE", "/images/x", "platforms={\"os\":\"windows\"}").is_err());
        checked("POST", "/build", "version=1").unwrap();
        assert!(checked("POST", "/build", "version=3").is_err());
    }

    #[test]
    fn platforms() {
        let here = version().arch;
        for good in [
            String::new(),
            "linux".into(),
            format!("linux/{here}"),
            format!("{{\"os\":\"linux\",\"architecture\":\"{here}\"}}"),
        ] {
            assert!(is_this(&good), "{good}");
        }
        for bad in ["windows", "linux/s390x", "{\"os\":\"linux\",\"architecture\":\"s390x\"}", "linux/amd65"] {
            assert!(!is_this(bad), "{bad}");
        }
    }

    /// A row whose path has no route would refuse nothing.
    #[test]
    fn rows_are_of_routes() {
        for (method, path, _) in ROWS {
            let (route, _) = crate::routes::find(method, &path.replace("{name}", "x")).expect("a route");
            assert_eq!((route.method, route.path), (*method, *path));
        }
    }
}
