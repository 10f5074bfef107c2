//! The plan of a delivery: the driver, its options, and the facts of the container. It stands in a file beside the cursor,
//! readable by its owner alone, because options hold keys and tokens.

use crate::cursor::Cursor;
use crate::drivers::{Destination, Driver, NAMES};
use crate::net::{Problem, ask_once};
use crate::options::{Error, Options, is_size, line_size, refused, text};
use crate::proxies::Proxies;
use nix::sys::eventfd::{EfdFlags, EventFd};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::os::fd::AsFd;

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

/// The log plugin of a delivery.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogPlugin {
    /// `unix:///PATH` or `tcp://HOST:PORT`.
    pub address: String,
    /// The directory of the FIFO.
    pub fifo_dir: String,
    /// The path of that directory as the plugin sees it.
    pub seen_dir: String,
    /// The container's facts in docker's form: a JSON object.
    pub info: String,
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
    /// The byte of the file `alive` of the root that the container's monitor locks; `None`: unknown.
    pub slot: Option<u32>,
    /// The facts of the container.
    pub facts: Facts,
    /// Set if the driver is a plugin.
    pub plugin: Option<LogPlugin>,
}

impl Plan {
    /// As it stands in the file.
    pub fn to_json(&self) -> String {
        let facts = &self.facts;
        let map = |map: &Options| Value::Object(map.iter().map(|(k, v)| (k.clone(), v.clone().into())).collect());
        let mut all: Map<String, Value> = self.words().map(|(key, text)| (key.to_owned(), text.into())).collect();
        all.insert("slot".into(), self.slot.into());
        all.insert("options".into(), map(&self.options));
        all.insert("extras".into(), map(&facts.extras));
        if let Some(LogPlugin { address, fifo_dir, seen_dir, info }) = &self.plugin {
            let plugin = [address, fifo_dir, seen_dir, info].map(|text| Value::from(text.as_str()));
            all.insert("plugin".into(), plugin.to_vec().into());
        }
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
        let plugin = match all.get("plugin") {
            None => None,
            Some(list) => {
                let word = |at: usize| Some(list.get(at)?.as_str()?.to_owned());
                Some(LogPlugin { address: word(0)?, fifo_dir: word(1)?, seen_dir: word(2)?, info: word(3)? })
            }
        };
        Some(Plan {
            plugin,
            driver: word("driver")?,
            options: map("options")?,
            log: word("log")?,
            slot: all.get("slot").and_then(Value::as_u64).and_then(|slot| u32::try_from(slot).ok()),
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
    check_spool(options)?;
    let driver = Driver::parse(kind, options)?;
    match (line_size(options)?, driver.longest_line()) {
        (Some(size), (most, how)) if size > most => refused(format!(
            "invalid value for max-line-size: {size} bytes are more than the {most} that {kind} takes{how}"
        )),
        _ => Ok(()),
    }
}

/// Checks the options of every driver that delivers: those of the spool. A plugin checks its own options.
pub fn check_spool(options: &Options) -> Result<(), Error> {
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
    line_size(options)?;
    if let Some(other) =
        text(options, "cache-disabled").filter(|_| crate::options::flag(options, "cache-disabled").is_err())
    {
        return refused(format!("invalid value for option cache-disabled: {other}"));
    }
    Ok(())
}

/// Reads the files that the options of a driver name, and asks the receiver if an option says so. Errors: a file is missing, not a
/// regular one, or too long; the receiver does not answer as one.
pub fn check_files(kind: &str, options: &Options, proxies: &Proxies) -> Result<(), Error> {
    let driver = Driver::parse(kind, options)?;
    let to = driver.destination();
    let tls = to.tls.clone();
    let authorities = tls.authorities.filter(|_| !tls.skips_check);
    let named = match kind {
        "splunk" => "splunk-capath".to_owned(),
        kind => format!("{kind}-tls-ca-cert"),
    };
    let (certificate, key) = (format!("{kind}-tls-cert"), format!("{kind}-tls-key"));
    for (option, path) in [(named, authorities), (certificate, tls.certificate), (key, tls.key)] {
        let Some(path) = path else { continue };
        if let Err(errno) = crate::files::read(&path) {
            return refused(format!("{option}: read {}: {}", path.display(), crate::files::reason(errno)));
        }
    }
    driver.verification().map_or(Ok(()), |request| verify(kind, (&to, proxies), &request))
}

/// Asks a receiver whether it is one, because an option says so.
fn verify(kind: &str, to: (&Destination, &Proxies), request: &[u8]) -> Result<(), Error> {
    let before = format!("{kind}: failed to verify connection - ");
    let never = EventFd::from_flags(EfdFlags::EFD_CLOEXEC).map_err(|errno| Error(format!("{before}{errno}")))?;
    match ask_once(to, request, never.as_fd()) {
        Ok(answer) if answer.status == 200 => Ok(()),
        Ok(answer) => refused(format!("{before}{} - {}", answer.status, String::from_utf8_lossy(&answer.body))),
        Err(Problem::Failed(fault, errno) | Problem::OfOne(fault, errno)) => {
            refused(format!("{before}{}", Cursor { fault: Some((fault, errno)), ..Cursor::default() }.error()))
        }
        Err(Problem::Stopped) => refused(format!("{before}stopped")),
    }
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
        let mut plan =
            Plan { driver: "syslog".into(), options, log: "x-json.log".into(), slot: Some(3), facts, plugin: None };
        assert_eq!(Plan::from_json(plan.to_json().as_bytes()), Some(plan.clone()));
        plan.plugin = Some(LogPlugin { address: "unix:///a".into(), info: "{}".into(), ..LogPlugin::default() });
        assert_eq!(Plan::from_json(plan.to_json().as_bytes()), Some(plan));
        assert_eq!(Plan::from_json(b"{}"), None);
    }

    #[test]
    fn files_of_options_are_named() {
        let of = |key: &str, value: &str| {
            let all = [(key, value), ("syslog-address", "tcp+tls://a:1")];
            let all = all.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
            check_files("syslog", &all, &Proxies::default())
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
        for bad in ["", "1", "16383", "1025k", "1.1m", "much", "-1"] {
            let wanted = format!("invalid value for max-line-size: '{bad}': it takes a size from 16k to 1m");
            assert_eq!(refused(of("max-line-size", bad)), wanted);
        }
        for (address, good, bad) in [
            (
                "udp://a:1",
                "32k",
                Some(
                    "invalid value for max-line-size: 32769 bytes are more than the 32768 that syslog takes by datagrams",
                ),
            ),
            ("tcp://a:1", "1m", None),
        ] {
            let mut options = of("syslog-address", address);
            options.insert("max-line-size".into(), good.into());
            assert_eq!(check("syslog", &options), Ok(()));
            options.insert("max-line-size".into(), "32769".into());
            assert_eq!(check("syslog", &options).err().map(|error| error.0).as_deref(), bad);
        }
        assert_eq!(refused(of("cache-disabled", "maybe")), "invalid value for option cache-disabled: maybe");
        assert_eq!(
            check("etwlogs", &Options::new()).unwrap_err().0,
            "logger: no log driver named 'etwlogs' is registered"
        );
    }
}
