//! Build instructions as `changes`: what import and commit lay over a configuration.

use crate::error::{Error, Result};
use crate::model::{ContainerConfig, Empty, Healthcheck};

const DEFAULT_SHELL: [&str; 2] = ["/bin/sh", "-c"];
/// Most ports that one range of EXPOSE may name.
const MAX_PORTS: u32 = 65_536;

/// Applies `changes` (each may hold several lines) to `config`.
///
/// Errors name the instruction: it is not one that may stand here, or its arguments are wrong.
pub(crate) fn apply(config: &mut ContainerConfig, changes: &[String]) -> Result<()> {
    let mut cmd_set = false;
    for line in lines(&changes.join("\n")) {
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((&line, ""));
        let (word, rest) = (word.to_ascii_uppercase(), rest.trim());
        if !KNOWN.contains(&word.as_str()) {
            return Err(Error::invalid(format!("{} is not a valid change command", word.to_ascii_lowercase())));
        }
        if rest.is_empty() {
            return Err(Error::invalid(format!("{word} requires at least one argument")));
        }
        match word.as_str() {
            "CMD" => {
                config.cmd = Some(command(config, rest));
                cmd_set = true;
            }
            "ENTRYPOINT" => {
                config.entrypoint = Some(command(config, rest));
                // A command of before belonged to another entry point.
                if !cmd_set {
                    config.cmd = None;
                }
            }
            "ENV" => {
                for (key, value) in pairs("ENV", rest, config)? {
                    set_env(config.env.get_or_insert_default(), &key, &value);
                }
            }
            "EXPOSE" => expose(config, rest)?,
            "HEALTHCHECK" => config.healthcheck = Some(healthcheck(rest)?),
            "LABEL" => config.labels.extend(pairs("LABEL", rest, config)?),
            "ONBUILD" => config.on_build.get_or_insert_default().push(trigger(rest)?),
            "SHELL" => {
                let shell = json_words(rest).filter(|words| !words.is_empty());
                config.shell =
                    Some(shell.ok_or_else(|| Error::invalid("SHELL requires the arguments to be in JSON form"))?);
            }
            "STOPSIGNAL" => config.stop_signal = one("STOPSIGNAL", rest, config)?,
            "USER" => config.user = one("USER", rest, config)?,
            "VOLUME" => volume(config, rest)?,
            // The list above has no other.
            _ => workdir(config, rest)?,
        }
    }
    Ok(())
}

const KNOWN: [&str; 12] = [
    "CMD",
    "ENTRYPOINT",
    "ENV",
    "EXPOSE",
    "HEALTHCHECK",
    "LABEL",
    "ONBUILD",
    "SHELL",
    "STOPSIGNAL",
    "USER",
    "VOLUME",
    "WORKDIR",
];

/// Instructions: a backslash at a line's end goes on with the next, lines that begin with `#` are comments.
fn lines(text: &str) -> Vec<String> {
    let (mut lines, mut open) = (Vec::new(), String::new());
    for line in text.lines() {
        let trimmed = line.trim();
        if trimmed.starts_with('#') || trimmed.is_empty() {
            continue;
        }
        match trimmed.strip_suffix('\\') {
            Some(part) => open.push_str(part),
            None => lines.push(std::mem::take(&mut open) + trimmed),
        }
    }
    if !open.trim().is_empty() {
        lines.push(open);
    }
    lines
}

fn json_words(text: &str) -> Option<Vec<String>> {
    text.starts_with('[').then(|| serde_json::from_str(text).ok()).flatten()
}

/// JSON form as it is, anything else for the shell.
fn command(config: &ContainerConfig, rest: &str) -> Vec<String> {
    json_words(rest).unwrap_or_else(|| {
        let shell = config.shell.clone().filter(|shell| !shell.is_empty());
        let mut words = shell.unwrap_or_else(|| DEFAULT_SHELL.map(str::to_owned).to_vec());
        words.push(rest.to_owned());
        words
    })
}

/// `key=value key2="value 2"`, or `key the whole rest`.
fn pairs(instruction: &str, rest: &str, config: &ContainerConfig) -> Result<Vec<(String, String)>> {
    let first = rest.split(char::is_whitespace).next().unwrap_or_default();
    if !first.contains('=') {
        let (key, value) = rest
            .split_once(char::is_whitespace)
            .ok_or_else(|| Error::invalid(format!("{instruction} must have two arguments")))?;
        let value = expand(value.trim(), config)?;
        return Ok(vec![(unquoted(key), value)]);
    }
    split(rest)
        .into_iter()
        .map(|word| {
            let (key, value) = word.split_once('=').ok_or_else(|| {
                Error::invalid(format!("Syntax error - can't find = in {word:?}. Must be of the form: name=value"))
            })?;
            let key = expand(key, config)?;
            if key.is_empty() {
                return Err(Error::invalid(format!("{instruction} names can not be blank")));
            }
            Ok((key, expand(value, config)?))
        })
        .collect()
}

fn unquoted(word: &str) -> String {
    let quoted = |q: char| word.strip_prefix(q).and_then(|w| w.strip_suffix(q));
    quoted('"').or(quoted('\'')).unwrap_or(word).to_owned()
}

fn set_env(env: &mut Vec<String>, key: &str, value: &str) {
    let entry = format!("{key}={value}");
    let same = |have: &&mut String| have.split_once('=').map_or(have.as_str(), |(k, _)| k) == key;
    match env.iter_mut().find(same) {
        Some(have) => *have = entry,
        None => env.push(entry),
    }
}

fn one(instruction: &str, rest: &str, config: &ContainerConfig) -> Result<String> {
    match words(rest, config)?.as_slice() {
        [word] if !word.is_empty() => Ok(word.clone()),
        _ => Err(Error::invalid(format!("{instruction} requires exactly one argument"))),
    }
}

fn words(rest: &str, config: &ContainerConfig) -> Result<Vec<String>> {
    split(rest).iter().map(|word| expand(word, config)).collect()
}

fn expose(config: &mut ContainerConfig, rest: &str) -> Result<()> {
    for port in exposed(&words(rest, config)?)? {
        config.exposed_ports.insert(port, Empty {});
    }
    Ok(())
}

/// The ports that words of EXPOSE name (`80`, `80-82/udp`), each as `port/protocol`.
pub(crate) fn exposed(words: &[String]) -> Result<Vec<String>> {
    let mut ports = Vec::new();
    for word in words {
        let bad = || Error::invalid(format!("Invalid containerPort: {word}"));
        let (numbers, protocol) = word.split_once('/').unwrap_or((word, "tcp"));
        let protocol = protocol.to_ascii_lowercase();
        if !matches!(protocol.as_str(), "tcp" | "udp" | "sctp") {
            return Err(Error::invalid(format!("Invalid proto: {protocol}")));
        }
        let (low, high) = numbers.split_once('-').unwrap_or((numbers, numbers));
        let port = |text: &str| text.parse::<u16>().map_err(|_| bad());
        let (low, high) = (u32::from(port(low)?), u32::from(port(high)?));
        if low > high || high - low > MAX_PORTS {
            return Err(bad());
        }
        ports.extend((low..=high).map(|port| format!("{port}/{protocol}")));
    }
    Ok(ports)
}

fn volume(config: &mut ContainerConfig, rest: &str) -> Result<()> {
    let paths = match json_words(rest) {
        Some(paths) => paths,
        None => words(rest, config)?,
    };
    for path in paths {
        let path = path.trim();
        if path.is_empty() {
            return Err(Error::invalid("VOLUME specified can not be an empty string"));
        }
        config.volumes.get_or_insert_default().insert(path.to_owned(), Empty {});
    }
    Ok(())
}

fn workdir(config: &mut ContainerConfig, rest: &str) -> Result<()> {
    let path = expand(rest, config)?;
    let joined = if path.starts_with('/') { path } else { format!("{}/{path}", config.working_dir) };
    let mut parts: Vec<&str> = Vec::new();
    for part in joined.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    config.working_dir = format!("/{}", parts.join("/"));
    Ok(())
}

fn trigger(rest: &str) -> Result<String> {
    let word = rest.split(char::is_whitespace).next().unwrap_or_default().to_ascii_uppercase();
    match word.as_str() {
        "ONBUILD" => Err(Error::invalid("Chaining ONBUILD via `ONBUILD ONBUILD` isn't allowed")),
        "MAINTAINER" | "FROM" => Err(Error::invalid(format!("{word} isn't allowed as an ONBUILD trigger"))),
        _ => Ok(rest.to_owned()),
    }
}

fn healthcheck(rest: &str) -> Result<Healthcheck> {
    let mut check = Healthcheck::default();
    let mut rest = rest;
    while let Some(flag) = rest.strip_prefix("--") {
        let (flag, after) = flag.split_once(char::is_whitespace).unwrap_or((flag, ""));
        let (name, value) = flag.split_once('=').unwrap_or((flag, ""));
        match name {
            "interval" => check.interval = duration(name, value)?,
            "timeout" => check.timeout = duration(name, value)?,
            "start-period" => check.start_period = duration(name, value)?,
            "retries" => {
                let count = value.parse::<i64>().ok().filter(|&count| count >= 0);
                check.retries =
                    count.ok_or_else(|| Error::invalid(format!("--retries: {value:?} is not a count of 0 or more")))?;
            }
            other => return Err(Error::invalid(format!("HEALTHCHECK: unknown flag --{other}"))),
        }
        rest = after.trim_start();
    }
    let (kind, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let rest = rest.trim();
    check.test = match kind.to_ascii_uppercase().as_str() {
        "NONE" if rest.is_empty() => vec!["NONE".into()],
        "NONE" => return Err(Error::invalid("HEALTHCHECK NONE takes no arguments")),
        "CMD" if rest.is_empty() => return Err(Error::invalid("Missing command after HEALTHCHECK CMD")),
        "CMD" => match json_words(rest) {
            Some(words) => [vec!["CMD".to_owned()], words].concat(),
            None => vec!["CMD-SHELL".into(), rest.to_owned()],
        },
        other => return Err(Error::invalid(format!("Unknown type {other:?} in HEALTHCHECK (try CMD)"))),
    };
    Ok(check)
}

/// Go's durations (`1m30s`, `1.5h`) in nanoseconds; at least a millisecond, or 0.
fn duration(flag: &str, text: &str) -> Result<i64> {
    let bad = || Error::invalid(format!("--{flag}: {text:?} is not a duration"));
    let (mut rest, mut total) = (text, 0f64);
    if rest.is_empty() {
        return Err(bad());
    }
    while !rest.is_empty() && rest != "0" {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(bad)?;
        let value: f64 = rest[..digits].parse().map_err(|_| bad())?;
        rest = &rest[digits..];
        let unit = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
        total += value
            * match &rest[..unit] {
                "ns" => 1.0,
                "us" | "µs" => 1e3,
                "ms" => 1e6,
                "s" => 1e9,
                "m" => 6e10,
                "h" => 3.6e12,
                _ => return Err(bad()),
            };
        rest = &rest[unit..];
    }
    if total != 0.0 && !(1e6..9.2e18).contains(&total) {
        return Err(Error::invalid(format!("--{flag}: {text:?} cannot be less than 1ms")));
    }
    Ok(total as i64)
}

/// Words apart by blanks that stand in no quotes; quotes and backslashes stay.
fn split(text: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, quote) {
            ('\\', None | Some('"')) => {
                word.push(c);
                word.extend(chars.next());
                continue;
            }
            ('"' | '\'', None) => quote = Some(c),
            (c, Some(q)) if c == q => quote = None,
            (c, None) if c.is_whitespace() => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                continue;
            }
            _ => {}
        }
        word.push(c);
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

/// Takes quotes away and puts variables of the configuration's environment in: `$x`, `${x}`, `${x:-y}`, `${x:+y}`.
fn expand(text: &str, config: &ContainerConfig) -> Result<String> {
    let (mut out, mut quote) = (String::new(), None);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, quote) {
            ('\'' | '"', None) => quote = Some(c),
            (c, Some(q)) if c == q => quote = None,
            ('\\', None) => out.extend(chars.next()),
            ('\\', Some('"')) => match chars.peek() {
                Some('"' | '$' | '\\') => out.extend(chars.next()),
                _ => out.push(c),
            },
            ('$', None | Some('"')) if chars.peek() == Some(&'{') => {
                chars.next();
                let mut inner = String::new();
                loop {
                    match chars.next() {
                        Some('}') => break,
                        Some(c) => inner.push(c),
                        None => return Err(Error::invalid(format!("syntax error: missing '}}' in {text:?}"))),
                    }
                }
                out.push_str(&substitute(&inner, config)?);
            }
            ('$', None | Some('"')) => {
                let mut name = String::new();
                while let Some(&c) = chars.peek().filter(|c| c.is_ascii_alphanumeric() || **c == '_') {
                    name.push(c);
                    chars.next();
                }
                match name.is_empty() {
                    true => out.push('$'),
                    false => out.push_str(variable(&name, config)),
                }
            }
            _ => out.push(c),
        }
    }
    match quote {
        Some(quote) => Err(Error::invalid(format!("unexpected end of statement while looking for matching {quote}"))),
        None => Ok(out),
    }
}

fn substitute(inner: &str, config: &ContainerConfig) -> Result<String> {
    let (name, rest) = match inner.split_once(':') {
        Some((name, rest)) => (name, Some(rest)),
        None => (inner, None),
    };
    if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
        return Err(Error::invalid(format!("bad substitution in \"${{{inner}}}\"")));
    }
    let value = variable(name, config);
    Ok(match rest {
        None => value,
        Some(rest) => match (rest.chars().next(), value.is_empty()) {
            (Some('-'), true) | (Some('+'), false) => &rest[1..],
            (Some('-'), false) | (Some('+'), true) => value,
            _ => return Err(Error::invalid(format!("unsupported modifier in substitution \"${{{inner}}}\""))),
        },
    }
    .to_owned())
}

fn variable<'a>(name: &str, config: &'a ContainerConfig) -> &'a str {
    let mut all = config.env.iter().flatten();
    all.find_map(|entry| entry.split_once('=').filter(|(key, _)| *key == name)).map_or("", |(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(changes: &[&str]) -> ContainerConfig {
        let mut config = ContainerConfig::default();
        apply(&mut config, &changes.iter().map(|c| (*c).to_string()).collect::<Vec<_>>()).unwrap();
        config
    }

    fn refused(change: &str) -> String {
        apply(&mut ContainerConfig::default(), &[change.into()]).unwrap_err().message().to_owned()
    }

    #[test]
    fn each_instruction_sets_its_field() {
        let config = applied(&[
            "ENV A=1 B=\"two words\"\nENV C the $A rest",
            "env A=3",
            "EXPOSE 80 100-101/udp",
            "LABEL a.b=c \"d e\"='f $A'",
            "USER app:app",
            "VOLUME [\"/x\", \"/y\"]",
            "VOLUME /z",
            "WORKDIR /srv",
            "WORKDIR data/../${B:-x}/w",
            "STOPSIGNAL SIGINT",
            "ONBUILD RUN true",
            "HEALTHCHECK --interval=1m30s --retries=3 CMD curl \\\n localhost",
            "ENTRYPOINT [\"/e\", \"-x\"]",
            "CMD echo \"$A\"",
        ]);
        assert_eq!(config.env.unwrap(), ["A=3", "B=two words", "C=the 1 rest"]);
        let ports: Vec<_> = config.exposed_ports.keys().map(String::as_str).collect();
        assert_eq!(ports, ["100/udp", "101/udp", "80/tcp"]);
        assert_eq!(config.labels["d e"], "f $A");
        assert_eq!(config.user, "app:app");
        assert_eq!(config.volumes.unwrap().keys().cloned().collect::<Vec<_>>(), ["/x", "/y", "/z"]);
        assert_eq!(config.working_dir, "/srv/two words/w");
        assert_eq!(config.stop_signal, "SIGINT");
        assert_eq!(config.on_build.unwrap(), ["RUN true"]);
        let check = config.healthcheck.unwrap();
        assert_eq!((check.interval, check.retries), (90_000_000_000, 3));
        assert_eq!(check.test, ["CMD-SHELL", "curl localhost"]);
        assert_eq!(config.entrypoint.unwrap(), ["/e", "-x"]);
        assert_eq!(config.cmd.unwrap(), ["/bin/sh", "-c", "echo \"$A\""]);
    }

    #[test]
    fn an_entry_point_takes_an_older_command_away() {
        let mut config = ContainerConfig { cmd: Some(vec!["old".into()]), ..ContainerConfig::default() };
        apply(&mut config, &["SHELL [\"/bin/bash\"]\nENTRYPOINT run".into()]).unwrap();
        assert_eq!((config.cmd, config.entrypoint), (None, Some(vec!["/bin/bash".into(), "run".into()])));
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert_eq!(refused("foo bar"), "foo is not a valid change command");
        assert_eq!(refused("RUN x"), "run is not a valid change command");
        assert_eq!(refused("EXPOSE 70000"), "Invalid containerPort: 70000");
        assert_eq!(refused("EXPOSE 1/icmp"), "Invalid proto: icmp");
        assert_eq!(refused("ONBUILD FROM x"), "FROM isn't allowed as an ONBUILD trigger");
        for change in [
            "ENV A",
            "ENV A=1 B",
            "CMD",
            "SHELL x",
            "HEALTHCHECK WHAT",
            "HEALTHCHECK --interval=1 CMD x",
            "USER a b",
            "LABEL a='x",
            "ENV A=${B",
            "EXPOSE 9-1",
        ] {
            assert!(!refused(change).is_empty(), "{change}");
        }
    }
}
