//! Parses the command line: docker's flags, from a table.

use serde_json::Value;

/// A flag: its names (one letter: short), the word for its value if it takes one, its effect. Or a group of flags that
/// several commands share.
pub struct Flag {
    pub names: &'static [&'static str],
    pub value: Option<&'static str>,
    pub help: &'static str,
    group: &'static [Flag],
}

impl Flag {
    /// A flag without a value; `--name=false` switches it off.
    pub const fn switch(names: &'static [&'static str], help: &'static str) -> Flag {
        Flag { names, value: None, help, group: &[] }
    }
    /// A flag with a value.
    pub const fn value(names: &'static [&'static str], value: &'static str, help: &'static str) -> Flag {
        Flag { names, value: Some(value), help, group: &[] }
    }
    /// All flags of a group.
    pub const fn group(group: &'static [Flag]) -> Flag {
        Flag { names: &[], value: None, help: "", group }
    }
    /// The name that [`Parsed`] knows it by: its first.
    fn key(&self) -> &'static str {
        self.names[0]
    }
}

/// A command's words.
pub struct Command {
    pub name: &'static str,
    pub usage: &'static str,
    pub about: &'static str,
    pub flags: &'static [Flag],
    /// Words after the first argument are not parsed (`run IMAGE ls -l`).
    pub stops_at_first: bool,
}

impl Command {
    /// The command's flags, including those of its groups.
    pub fn all_flags(&self) -> impl Iterator<Item = &'static Flag> {
        flattened(self.flags).into_iter()
    }

    /// The text of `--help`; `others` are the command's other names.
    pub fn help(&self, others: &[&str]) -> String {
        let name = if self.name.is_empty() { String::new() } else { format!("{} ", self.name) };
        let mut text = format!("Usage: coracle {name}{}\n\n{}\n", self.usage, self.about);
        if !self.flags.is_empty() {
            text.push_str("\nFlags:\n");
        }
        for flag in self.all_flags() {
            let mut names: Vec<String> = flag.names.iter().map(|n| dashed(n)).collect();
            names.sort_by_key(|n| n.len());
            let value = flag.value.map(|v| format!(" {v}")).unwrap_or_default();
            text.push_str(&format!("  {:<30} {}\n", format!("{}{value}", names.join(", ")), flag.help));
        }
        if !others.is_empty() {
            text.push_str(&format!("\nOther names: {}\n", others.join(", ")));
        }
        text
    }
}

/// Flags with those of their groups, and of groups in groups.
fn flattened(flags: &'static [Flag]) -> Vec<&'static Flag> {
    flags.iter().flat_map(|flag| if flag.group.is_empty() { vec![flag] } else { flattened(flag.group) }).collect()
}

/// A parsed command line.
#[derive(Debug, Default, Clone)]
pub struct Parsed {
    values: Vec<(&'static str, String)>,
    /// Whether `--help` was there.
    pub help: bool,
    /// The arguments.
    pub rest: Vec<String>,
}

impl Parsed {
    /// Adds the flags that the command's name implies; they win over those of the command line.
    pub fn with(mut self, implied: &[(&'static str, &str)]) -> Parsed {
        self.values.extend(implied.iter().map(|(key, value)| (*key, (*value).to_owned())));
        self
    }
    /// Whether a switch is on.
    pub fn has(&self, key: &str) -> bool {
        self.last(key) == Some("true")
    }
    /// The last value of a flag.
    pub fn last(&self, key: &str) -> Option<&str> {
        self.values.iter().rev().find(|(k, _)| *k == key).map(|(_, v)| v.as_str())
    }
    /// Every value of a flag, in order.
    pub fn all(&self, key: &str) -> Vec<String> {
        self.values.iter().filter(|(k, _)| *k == key).map(|(_, v)| v.clone()).collect()
    }
    /// The names of the flags that were given.
    pub fn keys(&self) -> impl Iterator<Item = &'static str> {
        self.values.iter().map(|(key, _)| *key)
    }
    /// Every value of a flag, or `None` if it was not given.
    pub fn some(&self, key: &str) -> Option<Vec<String>> {
        Some(self.all(key)).filter(|all| !all.is_empty())
    }
    /// A flag's value as a number.
    pub fn number<T: std::str::FromStr>(&self, key: &str) -> Result<Option<T>, String> {
        self.last(key)
            .map(|text| text.parse().map_err(|_| format!("invalid value {text:?} for {}", dashed(key))))
            .transpose()
    }
}

impl Parsed {
    /// Adds the settings of a configuration file: an object of the command's long flags, with a text, a number, a
    /// boolean or a list of texts each. Errors: a sentence for the user; an unknown flag, a flag that the command line
    /// has too, or a wrong value.
    pub fn add_file(&mut self, command: &Command, members: &serde_json::Map<String, Value>) -> Result<(), String> {
        let said: Vec<&str> = self.values.iter().map(|(key, _)| *key).collect();
        let mut more = Vec::new();
        for (name, value) in members {
            let flag = find(command, name).filter(|_| name.len() > 1).ok_or(format!("unknown setting {name:?}"))?;
            if said.contains(&flag.key()) {
                return Err(format!("{name:?} is on the command line, too: only one of both can be meant"));
            }
            let wrong = || format!("invalid value {value} for {name:?}");
            let texts: Vec<String> = match (value, flag.value) {
                (Value::Bool(on), None) => vec![on.to_string()],
                (Value::String(text), Some(_)) => vec![text.clone()],
                (Value::Number(number), Some(_)) => vec![number.to_string()],
                (Value::Array(items), Some(_)) => items
                    .iter()
                    .map(|item| item.as_str().map(str::to_owned).ok_or_else(wrong))
                    .collect::<Result<_, _>>()?,
                _ => return Err(wrong()),
            };
            more.extend(texts.into_iter().map(|text| (flag.key(), text)));
        }
        self.values.extend(more);
        Ok(())
    }
}

pub fn dashed(name: &str) -> String {
    if name.len() == 1 { format!("-{name}") } else { format!("--{name}") }
}

/// Parses the words after a command's name. Errors: a sentence for the user.
pub fn parse(command: &Command, words: Vec<String>) -> Result<Parsed, String> {
    let mut parsed = Parsed::default();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        if word == "--" {
            parsed.rest.extend(words.by_ref());
        } else if word == "--help" || word == "-h" && find(command, "h").is_none() {
            parsed.help = true;
        } else if let Some(long) = word.strip_prefix("--") {
            let (name, value) = match long.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (long, None),
            };
            let flag = find(command, name).filter(|_| name.len() > 1).ok_or(format!("unknown flag: --{name}"))?;
            take(&mut parsed, flag, name, value, &mut words)?;
        } else if word.len() > 1 && word.starts_with('-') {
            short(&mut parsed, command, &word[1..], &mut words)?;
        } else {
            parsed.rest.push(word);
            if command.stops_at_first {
                parsed.rest.extend(words.by_ref());
            }
        }
    }
    Ok(parsed)
}

/// A cluster of one-letter flags; the value of the last may follow in the same word (`-it`, `-ename=x`, `-t5`).
fn short(
    parsed: &mut Parsed,
    command: &Command,
    cluster: &str,
    words: &mut impl Iterator<Item = String>,
) -> Result<(), String> {
    for (at, letter) in cluster.char_indices() {
        let name = letter.to_string();
        let flag = find(command, &name).ok_or(format!("unknown flag: -{letter}"))?;
        let after = &cluster[at + letter.len_utf8()..];
        let value = (!after.is_empty()).then(|| after.strip_prefix('=').unwrap_or(after).to_owned());
        if flag.value.is_some() || after.starts_with('=') {
            return take(parsed, flag, &name, value, words);
        }
        take(parsed, flag, &name, None, words)?;
    }
    Ok(())
}

fn take(
    parsed: &mut Parsed,
    flag: &Flag,
    name: &str,
    value: Option<String>,
    words: &mut impl Iterator<Item = String>,
) -> Result<(), String> {
    let value = match (flag.value, value) {
        (Some(_), Some(value)) => value,
        (Some(_), None) => words.next().ok_or(format!("flag needs an argument: {}", dashed(name)))?,
        (None, None) => "true".into(),
        (None, Some(value)) if value == "true" || value == "false" => value,
        (None, Some(value)) => return Err(format!("invalid value {value:?} for {}: true or false", dashed(name))),
    };
    parsed.values.push((flag.key(), value));
    Ok(())
}

fn find(command: &Command, name: &str) -> Option<&'static Flag> {
    command.all_flags().find(|f| f.names.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMAND: Command = Command {
        name: "run",
        usage: "",
        about: "",
        flags: &[
            Flag::switch(&["interactive", "i"], ""),
            Flag::switch(&["tty", "t"], ""),
            Flag::value(&["env", "e"], "X", ""),
            Flag::group(&[Flag::value(&["memory", "m"], "X", "")]),
        ],
        stops_at_first: true,
    };

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn forms_of_flags() {
        let parsed = parse(&COMMAND, words("-it -e A=1 --env=B=2 -eC --memory 5 image -t --help")).expect("parses");
        assert!(parsed.has("interactive") && parsed.has("tty") && !parsed.help);
        assert_eq!(parsed.all("env"), ["A=1", "B=2", "C"]);
        assert_eq!(parsed.number::<u64>("memory"), Ok(Some(5)));
        assert_eq!(parsed.rest, ["image", "-t", "--help"]);
        assert!(!parse(&COMMAND, words("-t --tty=false x")).expect("parses").has("tty"));
        assert_eq!(parse(&COMMAND, words("-- -t")).expect("parses").rest, ["-t"]);
    }

    #[test]
    fn mistakes_are_named() {
        for (line, text) in [
            ("--colour", "unknown flag: --colour"),
            ("-x", "unknown flag: -x"),
            ("--i", "unknown flag: --i"),
            ("-it -e", "flag needs an argument: -e"),
            ("--tty=maybe", "invalid value \"maybe\" for --tty: true or false"),
        ] {
            assert_eq!(parse(&COMMAND, words(line)).map(|p| p.rest), Err(text.to_owned()));
        }
        let parsed = parse(&COMMAND, words("-m lots x")).expect("parses");
        assert_eq!(parsed.number::<u64>("memory"), Err("invalid value \"lots\" for --memory".to_owned()));
    }
}
