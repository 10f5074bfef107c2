//! Parameters that a published version of the API knows, and this engine does not have: refused by their names, at every
//! version, unless they ask for nothing. Those that no version knows are ignored, as clients expect.

use crate::query::Query;
use crate::routes::Route;
use coracle::model::ImagePlatform;
use coracle::{Error, Result};

enum Rule {
    /// Refused unless it is empty, or a no.
    Refused,
    /// One of these, or empty.
    Only(&'static [&'static str]),
    /// A platform that this host runs, or empty: `linux/amd64`, or an object of `os` and `architecture`.
    Platform,
    /// As [`Rule::Platform`], of an import; a pull takes other platforms, too.
    PlatformOfImport,
}
use Rule::*;

/// Method, path, parameters.
type Row = (&'static str, &'static str, &'static [(&'static str, Rule)]);

static ROWS: &[Row] = &[
    ("POST", "/containers/{name}/start", &[("checkpoint", Refused), ("checkpoint-dir", Refused)]),
    ("POST", "/images/load", &[("platform", Platform)]),
    ("POST", "/images/create", &[("platform", PlatformOfImport)]),
    ("POST", "/build", &[("version", Only(&["1", "2"])), ("session", Refused), ("outputs", Refused)]),
    ("GET", "/networks/{name}", &[("scope", Only(&["local", "swarm"]))]),
];

/// Errors: a parameter asks for what is not here.
pub(crate) fn check(route: &Route, query: &Query) -> Result<()> {
    let rows = ROWS.iter().filter(|(method, path, _)| *method == route.method && *path == route.path);
    for (name, rule) in rows.flat_map(|(_, _, parameters)| parameters.iter()) {
        for text in query.all(name) {
            let fits = match rule {
                Refused => !query.flag(name),
                Only(words) => text.is_empty() || words.contains(&text),
                Platform => is_here(text)?,
                PlatformOfImport => !query.text("fromImage").is_empty() || is_here(text)?,
            };
            if !fits {
                return Err(Error::unsupported(format!("the parameter {name}={text} is not supported")));
            }
        }
    }
    Ok(())
}

/// Whether `text` names a platform that this host runs, or none.
fn is_here(text: &str) -> Result<bool> {
    let here = ImagePlatform::of_this_machine();
    // Any variant of this host's processor: nothing here tells which one it is.
    let same = |asked: &ImagePlatform| (&asked.os, &asked.architecture) == (&here.os, &here.architecture);
    Ok(text.is_empty() || same(&text.parse()?))
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
        checked("POST", "/images/create", "fromImage=x&platform=linux/s390x").unwrap();
        assert!(checked("POST", "/images/create", "fromSrc=-&platform=linux/s390x").is_err());
        checked("POST", "/build", "version=1").unwrap();
        assert!(checked("POST", "/build", "version=3").is_err());
    }

    #[test]
    fn platforms() {
        let here = ImagePlatform::of_this_machine().architecture;
        for good in [
            String::new(),
            "linux".into(),
            format!("linux/{here}"),
            format!("{{\"os\":\"linux\",\"architecture\":\"{here}\"}}"),
        ] {
            assert!(is_here(&good).unwrap(), "{good}");
        }
        for bad in ["windows", "linux/s390x", "{\"os\":\"linux\",\"architecture\":\"s390x\"}", "linux/amd65"] {
            assert!(!is_here(bad).unwrap(), "{bad}");
        }
        assert!(is_here("a planet").is_err());
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
