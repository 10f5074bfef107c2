//! `RUN --mount`: the options of one mount, as text.

use crate::error::{Error, Result};

/// A mount that one RUN has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunMount {
    pub(crate) kind: RunMountKind,
    /// A stage or an image; empty: the context of the build, and for a cache nothing.
    pub(crate) from: String,
    pub(crate) source: String,
    /// As it is written; empty only for a secret that is a variable alone.
    pub(crate) target: String,
    /// The id of a cache, a secret or an agent.
    pub(crate) id: String,
    pub(crate) read_only: bool,
    pub(crate) sharing: Sharing,
    /// Bytes of a tmpfs.
    pub(crate) size: Option<u64>,
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) required: bool,
    /// The variable of the step that has the secret's value; empty: none.
    pub(crate) env: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunMountKind {
    Bind,
    Cache,
    Tmpfs,
    Secret,
    Ssh,
}

/// The rule for two steps that use one cache at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// Both have it.
    Shared,
    /// The second gets another one.
    Private,
    /// The second waits.
    Locked,
}

/// The directory of secrets whose target is not named.
const SECRETS: &str = "/run/secrets/";
/// The socket of an agent whose target is not named; a step may have several.
const AGENT: &str = "/run/buildkit/ssh_agent.";

/// The options of a mount, each at most once.
struct Given(Vec<(&'static str, String)>);

impl RunMountKind {
    fn of(text: &str) -> Option<RunMountKind> {
        Some(match text {
            "" | "bind" => RunMountKind::Bind,
            "cache" => RunMountKind::Cache,
            "tmpfs" => RunMountKind::Tmpfs,
            "secret" => RunMountKind::Secret,
            "ssh" => RunMountKind::Ssh,
            _ => return None,
        })
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            RunMountKind::Bind => "bind",
            RunMountKind::Cache => "cache",
            RunMountKind::Tmpfs => "tmpfs",
            RunMountKind::Secret => "secret",
            RunMountKind::Ssh => "ssh",
        }
    }

    /// The options that mounts of this kind have.
    fn options(self) -> &'static [&'static str] {
        match self {
            RunMountKind::Bind => &["from", "source", "target", "readonly", "readwrite"],
            RunMountKind::Cache => {
                &["id", "from", "source", "target", "readonly", "readwrite", "sharing", "mode", "uid", "gid"]
            }
            RunMountKind::Tmpfs => &["target", "size"],
            RunMountKind::Secret => &["id", "source", "target", "required", "mode", "uid", "gid", "env"],
            RunMountKind::Ssh => &["id", "target", "required", "mode", "uid", "gid"],
        }
    }
}

fn wrong(text: impl std::fmt::Display) -> Error {
    Error::invalid(format!("RUN --mount: {text}"))
}

/// The one name of an option that may have several.
fn option(name: &str) -> Result<&'static str> {
    Ok(match name.to_ascii_lowercase().as_str() {
        "type" => "type",
        "from" => "from",
        "source" | "src" => "source",
        "target" | "dst" | "destination" => "target",
        "readonly" | "ro" => "readonly",
        "readwrite" | "rw" => "readwrite",
        "required" => "required",
        "sharing" => "sharing",
        "id" => "id",
        "size" => "size",
        "mode" => "mode",
        "uid" => "uid",
        "gid" => "gid",
        "env" => "env",
        _ => return Err(wrong(format!("unexpected key '{name}'"))),
    })
}

impl Given {
    fn read(text: &str) -> Result<Given> {
        let mut all: Vec<(&'static str, String)> = Vec::new();
        for field in text.split(',') {
            let (name, value) = field.split_once('=').map_or((field, None), |(name, value)| (name, Some(value)));
            let name = option(name)?;
            if all.iter().any(|(have, _)| *have == name) {
                return Err(wrong(format!("duplicate key '{name}'")));
            }
            let value = match (name, value) {
                (_, Some(value)) => value,
                ("readonly" | "readwrite" | "required", None) => "true",
                (name, None) => return Err(wrong(format!("invalid field '{name}' must be a key=value pair"))),
            };
            all.push((name, value.to_owned()));
        }
        Ok(Given(all))
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(have, _)| *have == name).map(|(_, value)| value.as_str())
    }

    fn text(&self, name: &str) -> String {
        self.get(name).unwrap_or_default().to_owned()
    }

    fn flag(&self, name: &str) -> Result<Option<bool>> {
        self.get(name).map(|value| truth(value).ok_or_else(|| invalid(name, value))).transpose()
    }

    fn number(&self, name: &str, radix: u32, absent: u32) -> Result<u32> {
        self.get(name).map_or(Ok(absent), |text| u32::from_str_radix(text, radix).map_err(|_| invalid(name, text)))
    }
}

fn truth(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

fn invalid(name: &str, value: &str) -> Error {
    wrong(format!("invalid value for {name}: {value}"))
}

impl RunMount {
    /// Reads the options of a mount, with variables put in. `number`: which agent of the step it would be.
    pub(crate) fn read(text: &str, number: usize) -> Result<RunMount> {
        let given = Given::read(text)?;
        let word = given.text("type");
        let kind = RunMountKind::of(&word).ok_or_else(|| wrong(format!("unsupported mount type \"{word}\"")))?;
        let alien = given.0.iter().find(|(name, _)| *name != "type" && !kind.options().contains(name));
        if let Some((name, _)) = alien {
            return Err(wrong(format!("unexpected key '{name}' for mount type '{}'", kind.word())));
        }
        let mut mount = RunMount {
            kind,
            from: given.text("from"),
            source: given.text("source"),
            target: given.text("target"),
            id: given.text("id"),
            read_only: read_only(&given, kind)?,
            sharing: sharing(&given)?,
            size: given.get("size").map(|text| bytes(text).ok_or_else(|| invalid("size", text))).transpose()?,
            mode: given.number("mode", 8, default_mode(kind))?,
            uid: given.number("uid", 10, 0)?,
            gid: given.number("gid", 10, 0)?,
            required: given.flag("required")?.unwrap_or(false),
            env: given.text("env"),
        };
        if mount.mode > 0o7777 {
            return Err(invalid("mode", &given.text("mode")));
        }
        mount.complete(number)?;
        Ok(mount)
    }

    /// Puts in what a kind of mount has where the text does not say it.
    fn complete(&mut self, number: usize) -> Result<()> {
        match self.kind {
            RunMountKind::Secret => {
                if !self.source.is_empty() && !self.id.is_empty() {
                    return Err(wrong("a secret takes either 'source' or 'id', not both"));
                }
                if self.id.is_empty() {
                    self.id = std::mem::take(&mut self.source);
                }
                if self.id.is_empty() {
                    self.id = last_name(&self.target);
                }
                if self.id.is_empty() {
                    return Err(wrong("a secret takes one of 'id' and 'target'"));
                }
                if self.target.is_empty() && self.env.is_empty() {
                    self.target = format!("{SECRETS}{}", last_name(&self.id));
                }
            }
            RunMountKind::Ssh => {
                if self.id.is_empty() {
                    self.id = "default".into();
                }
                if self.target.is_empty() {
                    self.target = format!("{AGENT}{number}");
                }
            }
            _ if self.target.is_empty() => {
                return Err(wrong(format!("a mount of type '{}' takes a 'target'", self.kind.word())));
            }
            RunMountKind::Cache if self.id.is_empty() => self.id.clone_from(&self.target),
            _ => {}
        }
        Ok(())
    }
}

fn last_name(path: &str) -> String {
    path.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_owned()
}

fn default_mode(kind: RunMountKind) -> u32 {
    match kind {
        RunMountKind::Secret => 0o400,
        RunMountKind::Ssh => 0o600,
        _ => 0o755,
    }
}

/// A bind is for reading alone unless the text says otherwise; a cache and a tmpfs are for writing.
fn read_only(given: &Given, kind: RunMountKind) -> Result<bool> {
    match (given.flag("readonly")?, given.flag("readwrite")?) {
        (Some(_), Some(_)) => Err(wrong("'readonly' and 'readwrite' say both whether the mount can be written to")),
        (Some(read_only), None) => Ok(read_only),
        (None, Some(writable)) => Ok(!writable),
        (None, None) => Ok(kind == RunMountKind::Bind),
    }
}

fn sharing(given: &Given) -> Result<Sharing> {
    match given.get("sharing") {
        None | Some("" | "shared") => Ok(Sharing::Shared),
        Some("private") => Ok(Sharing::Private),
        Some("locked") => Ok(Sharing::Locked),
        Some(other) => Err(wrong(format!("unsupported sharing value \"{other}\""))),
    }
}

/// Bytes with a unit, as docker reads them: `64m`, `1.5g`, `1024`.
fn bytes(text: &str) -> Option<u64> {
    let text = text.trim().to_ascii_lowercase();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let shift = match text[end..].trim() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return None,
    };
    let size = text[..end].parse::<f64>().ok()? * (1u64 << shift) as f64;
    (size.is_finite() && size < i64::MAX as f64).then_some(size as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> RunMount {
        RunMount::read(text, 0).unwrap_or_else(|e| panic!("{text}: {e}"))
    }

    #[test]
    fn mounts_have_the_defaults_of_their_kinds() {
        let bind = read("target=/x");
        assert_eq!((bind.kind, bind.read_only, bind.source.as_str()), (RunMountKind::Bind, true, ""));
        assert!(!read("type=bind,dst=/x,rw").read_only && !read("type=bind,dst=/x,ro=false").read_only);
        let cache = read("type=cache,destination=/c");
        assert_eq!((cache.id.as_str(), cache.mode, cache.sharing), ("/c", 0o755, Sharing::Shared));
        assert_eq!(read("type=tmpfs,target=/t,size=1.5k").size, Some(1536));
        let secret = read("type=secret,id=a/b");
        assert_eq!((secret.target.as_str(), secret.mode), ("/run/secrets/b", 0o400));
        assert_eq!(read("type=secret,target=/etc/key").id, "key");
        assert_eq!(read("type=secret,id=k,env=K").target, "");
        assert_eq!(
            (read("type=ssh").id.as_str(), read("type=ssh").target.as_str()),
            ("default", "/run/buildkit/ssh_agent.0")
        );
    }

    #[test]
    fn wrong_options_are_named() {
        for (text, want) in [
            ("type=volume,target=/x", "unsupported mount type \"volume\""),
            ("type=bind,target=/x,colour=red", "unexpected key 'colour'"),
            ("type=bind,target=/x,dst=/y", "duplicate key 'target'"),
            ("type=bind", "a mount of type 'bind' takes a 'target'"),
            ("type=tmpfs", "a mount of type 'tmpfs' takes a 'target'"),
            ("type=tmpfs,target=/x,size=much", "invalid value for size: much"),
            ("type=tmpfs,target=/x,id=a", "unexpected key 'id' for mount type 'tmpfs'"),
            ("type=bind,target=/x,mode=0755", "unexpected key 'mode' for mount type 'bind'"),
            ("type=cache,target=/x,sharing=maybe", "unsupported sharing value \"maybe\""),
            ("type=cache,target=/x,mode=9", "invalid value for mode: 9"),
            ("type=cache,target=/x,ro,rw", "'readonly' and 'readwrite'"),
            ("type=cache,target=/x,required", "unexpected key 'required' for mount type 'cache'"),
            ("type=secret", "a secret takes one of 'id' and 'target'"),
            ("type=secret,id=a,src=b", "either 'source' or 'id'"),
            ("type=secret,id=a,required=perhaps", "invalid value for required: perhaps"),
            ("target", "invalid field 'target' must be a key=value pair"),
        ] {
            let error = RunMount::read(text, 0).expect_err(text);
            assert!(error.message().starts_with("RUN --mount: ") && error.message().contains(want), "{text}: {error}");
        }
    }
}
