//! The plan of a delivery: the driver, its options, and the facts of the container. It stands in a file beside the cursor,
//! readable by its owner alone, because options hold keys and tokens.

use crate::drivers::{Driver, NAMES};
use crate::options::{Error, Options, is_size, refused, text};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The facts of a container that records carry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// All 64 digits.
    pub id: String,
    /// Without a slash.
    pub name: String,
    /// The image's id.
    pub image_id: String,
    /// The image's name, as it was asked for.
    pub image_name: String,
    /// The words of the command, with spaces between them.
    pub command: String,
    /// RFC 3339.
    pub created: String,
    /// The finished tag.
    pub tag: String,
    /// The host's name.
    pub host: String,
    /// Labels and variables that the options chose.
    pub extras: BTreeMap<String, String>,
}

impl Facts {
    /// The first twelve digits of the id.
    pub fn short_id(&self) -> &str {
        self.id.get(..12).unwrap_or(&self.id)
    }
}

/// A delivery: all that a shipper needs to know of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// The driver's name.
    pub driver: String,
    /// The options of the driver.
    pub options: Options,
    /// The name of the log's file.
    pub log: String,
    /// The facts of the container.
    pub facts: Facts,
}

impl Plan {
    /// As it stands in the file.
    pub fn to_json(&self) -> String {
        let facts = &self.facts;
        let map = |map: &Options| Value::Object(map.iter().map(|(k, v)| (k.clone(), v.clone().into())).collect());
        let mut all: Map<String, Value> = self.words().map(|(key, text)| (key.to_owned(), text.into())).collect();
        all.insert("options".into(), map(&self.options));
        all.insert("extras".into(), map(&facts.extras));
        Value::Object(all).to_string()
    }

    fn words(&self) -> impl Iterator<Item = (&'static str, String)> {
        let Facts { id, name, image_id, image_name, command, created, tag, host, .. } = self.facts.clone();
        [
            ("driver", self.driver.clone()),
            ("log", self.log.clone()),
            ("id", id),
            ("name", name),
            ("image_id", image_id),
            ("image_name", image_name),
            ("command", command),
            ("created", created),
            ("tag", tag),
            ("host", host),
        ]
        .into_iter()
    }

    /// Reads the file; `None`: it is damaged.
    pub fn from_json(text: &[u8]) -> Option<Plan> {
        let all: Value = serde_json::from_slice(text).ok()?;
        let word = |key: &str| Some(all.get(key)?.as_str()?.to_owned());
        let map = |key: &str| -> Option<Options> {
            let map = all.get(key)?.as_object()?;
            map.iter().map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
        };
        Some(Plan {
            driver: word("driver")?,
            options: map("options")?,
            log: word("log")?,
            facts: Facts {
                id: word("id")?,
                name: word("name")?,
                image_id: word("image_id")?,
                image_name: word("image_name")?,
                command: word("command")?,
                created: word("created")?,
                tag: word("tag")?,
                host: word("host")?,
                extras: map("extras")?,
            },
        })
    }
}

/// Checks the options of a driver. Errors: an unknown option, a bad value, in dockerd's words; `kind` does not
/// deliver.
pub fn check(kind: &str, options: &Options) -> Result<(), Error> {
    if !NAMES.contains(&kind) {
        return refused(format!("logger: no log driver named '{kind}' is registered"));
    }
    let mode = options.get("mode").map_or("", String::as_str);
    if !["", "blocking", "non-blocking"].contains(&mode) {
        return refused(format!("logger: logging mode not supported: {mode}"));
    }
    if options.contains_key("max-buffer-size") && mode != "non-blocking" {
        return refused("logger: max-buffer-size option is only supported with 'mode=non-blocking'");
    }
    if let Some(size) = options.get("max-buffer-size").filter(|size| !is_size(size)) {
        return refused(format!("error parsing option max-buffer-size: invalid size: '{size}'"));
    }
    if let Some(other) =
        text(options, "cache-disabled").filter(|_| crate::options::flag(options, "cache-disabled").is_err())
    {
        return refused(format!("invalid value for option cache-disabled: {other}"));
    }
    Driver::parse(kind, options).map(|_| ())
}

/// Reads the files that the options of a driver name. Errors: one of them is missing, no regular file, or too long.
pub fn check_files(kind: &str, options: &Options) -> Result<(), Error> {
    let tls = Driver::parse(kind, options)?.destination().tls;
    let authorities = tls.authorities.filter(|_| !tls.skips_check);
    let files =
        [("syslog-tls-ca-cert", authorities), ("syslog-tls-cert", tls.certificate), ("syslog-tls-key", tls.key)];
    for (option, path) in files {
        let Some(path) = path else { continue };
        if let Err(errno) = crate::files::read(&path) {
            return refused(format!("{option}: read {}: {}", path.display(), crate::files::reason(errno)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_read_as_it_was_written() {
        let facts = Facts {
            id: "ab".repeat(32),
            tag: "a\"b".into(),
            extras: BTreeMap::from([("k".into(), "v".into())]),
            ..Facts::default()
        };
        let options = Options::from([("syslog-address".into(), "tcp://a:1".into())]);
        let plan = Plan { driver: "syslog".into(), options, log: "x-json.log".into(), facts };
        assert_eq!(Plan::from_json(plan.to_json().as_bytes()), Some(plan));
        assert_eq!(Plan::from_json(b"{}"), None);
    }

    #[test]
    fn files_of_options_are_named() {
        let of = |key: &str, value: &str| {
            let all = [(key, value), ("syslog-address", "tcp+tls://a:1")];
            check_files("syslog", &all.map(|(key, value)| (key.to_owned(), value.to_owned())).into())
        };
        let refused = |key, value| of(key, value).unwrap_err().0;
        assert_eq!(refused("syslog-tls-key", "/no/key"), "syslog-tls-key: read /no/key: No such file or directory");
        assert!(refused("syslog-tls-ca-cert", "/dev/zero").ends_with("read /dev/zero: not a regular file"));
        assert_eq!(of("syslog-tls-cert", "/proc/self/maps"), Ok(()));
    }

    #[test]
    fn options_of_every_driver() {
        let of = |key: &str, value: &str| Options::from([(key.to_owned(), value.to_owned())]);
        let refused = |options| check("syslog", &options).unwrap_err().0;
        assert_eq!(refused(of("mode", "fast")), "logger: logging mode not supported: fast");
        assert_eq!(
            refused(of("max-buffer-size", "1m")),
            "logger: max-buffer-size option is only supported with 'mode=non-blocking'"
        );
        let mut buffered = of("mode", "non-blocking");
        for (size, is_one) in
            [("1m", true), ("1.5 MiB", true), ("512", true), ("", false), ("-1", false), ("1q", false)]
        {
            buffered.insert("max-buffer-size".into(), size.into());
            assert_eq!(check("syslog", &buffered).is_ok(), is_one, "{size}");
        }
        assert_eq!(refused(buffered), "error parsing option max-buffer-size: invalid size: '1q'");
        assert_eq!(refused(of("cache-disabled", "maybe")), "invalid value for option cache-disabled: maybe");
        assert_eq!(
            check("etwlogs", &Options::new()).unwrap_err().0,
            "logger: no log driver named 'etwlogs' is registered"
        );
    }
}
