//! `completion`: scripts by which shells complete commands and flags, made from the table of flags.

use crate::args::{Command, Parsed, dashed};
use crate::commands;
use crate::{Entry, Failure, GLOBAL, Globals, Outcome, emit};
use std::collections::BTreeMap;

pub const ENTRIES: &[Entry] = &[Entry::new(
    "completion",
    "bash|zsh|fish",
    "Print a script by which the shell completes commands, flags and names",
    &[],
    completion,
)];

fn completion(_: &Globals, parsed: &Parsed) -> Outcome {
    let script = match parsed.rest.as_slice() {
        [shell] if shell == "bash" => bash(),
        [shell] if shell == "zsh" => zsh(),
        [shell] if shell == "fish" => fish(),
        _ => return Err(Failure::Usage("exactly one shell is needed: bash, zsh or fish".into())),
    };
    emit(&script).map(|()| 0)
}

/// The kind of thing that a command's arguments name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Containers,
    Images,
    Networks,
    Volumes,
    Files,
}

impl Kind {
    /// The kind in the usage of the command: its first argument in capitals.
    fn of(command: &Command) -> Kind {
        let word = |name: &str| command.usage.split([' ', '.', ':', '[', ']']).any(|word| word == name);
        match () {
            () if word("NETWORK") => Kind::Networks,
            () if word("VOLUME") => Kind::Volumes,
            () if word("CONTAINER") => Kind::Containers,
            () if word("IMAGE") || word("REPOSITORY") => Kind::Images,
            () => Kind::Files,
        }
    }

    /// The command that lists such names, a name a line.
    fn lister(self) -> &'static str {
        match self {
            Kind::Containers => "coracle ps -a --format '{{.Names}}' 2>/dev/null",
            Kind::Images => "coracle images 2>/dev/null | awk 'NR > 1 && $1 != \"<none>\" { print $1 \":\" $2 }'",
            Kind::Networks => "coracle network ls 2>/dev/null | awk 'NR > 1 { print $2 }'",
            Kind::Volumes => "coracle volume ls -q 2>/dev/null",
            Kind::Files => "",
        }
    }
}

/// The flags of a command, each with its dashes.
fn flags(command: &Command) -> Vec<String> {
    let names = command.all_flags().flat_map(|flag| flag.names.iter()).map(|name| dashed(name));
    names.chain(["--help".to_owned()]).collect()
}

/// The first words of commands, and the second words below nouns.
fn tree() -> BTreeMap<&'static str, Vec<&'static str>> {
    let mut tree: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, _) in commands::names() {
        match name.split_once(' ') {
            Some((noun, second)) => tree.entry(noun).or_default().push(second),
            None => drop(tree.entry(name).or_default()),
        }
    }
    tree
}

/// The shell function `_coracle_of`, for bash and zsh: it sets, for a command, its flags and the names for its arguments, and
/// for a noun the words below it.
fn cases() -> String {
    let mut text = "_coracle_of() {\n  case $1 in\n".to_owned();
    for (noun, below) in tree().iter().filter(|(_, below)| !below.is_empty()) {
        text.push_str(&format!("    '{noun}') below='{}' ;;\n", below.join(" ")));
    }
    for (name, entry) in commands::names() {
        let lister = match Kind::of(&entry.command) {
            Kind::Files => "files=1".to_owned(),
            kind => format!("names=$({})", kind.lister()),
        };
        text.push_str(&format!("    '{name}') flags='{}'; {lister} ;;\n", flags(&entry.command).join(" ")));
    }
    text.push_str("    *) return 1 ;;\n  esac\n}\n");
    text
}

/// The flags before the command that take a value, as a pattern of `case`.
fn valued() -> String {
    let valued = GLOBAL.all_flags().filter(|flag| flag.value.is_some()).flat_map(|flag| flag.names.iter());
    valued.map(|name| dashed(name)).collect::<Vec<_>>().join("|")
}

fn bash() -> String {
    let first: Vec<&str> = tree().into_keys().collect();
    format!(
        r#"# Completion of coracle for bash: `source <(coracle completion bash)`.
_coracle() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} below='' flags='' names='' files='' at=1
  local -a line=()
  while [ "$at" -lt "$COMP_CWORD" ]; do
    case ${{COMP_WORDS[at]}} in
    {valued}) if [ "${{#line[@]}}" = 0 ]; then at=$((at + 1)); else line+=("${{COMP_WORDS[at]}}"); fi ;;
    -*) ;;
    *) line+=("${{COMP_WORDS[at]}}") ;;
    esac
    at=$((at + 1))
  done
  if [ "${{#line[@]}}" = 0 ]; then
    below='{first}' flags='{global}'
  else
    _coracle_of "${{line[0]}} ${{line[1]-}}" || _coracle_of "${{line[0]}}" || files=1
    [ "${{#line[@]}}" = 1 ] || below=''
  fi
  case $current in
  -*) COMPREPLY=($(compgen -W "$flags" -- "$current")) ;;
  *)
    COMPREPLY=($(compgen -W "$below $names" -- "$current"))
    if [ -n "$files" ]; then COMPREPLY+=($(compgen -f -- "$current")); fi
    ;;
  esac
}}
{cases}complete -o filenames -F _coracle coracle
"#,
        valued = valued(),
        first = first.join(" "),
        global = flags(&GLOBAL).join(" "),
        cases = cases(),
    )
}

fn zsh() -> String {
    let first: Vec<&str> = tree().into_keys().collect();
    format!(
        r#"#compdef coracle
# Completion of coracle for zsh: `source <(coracle completion zsh)` after `compinit`, or as `_coracle` in a directory of $fpath.
_coracle() {{
  local below='' flags='' names='' files='' at=2
  local -a line
  while (( at < CURRENT )); do
    case ${{words[at]}} in
    ({valued}) if (( ${{#line}} == 0 )); then (( at++ )); else line+=("${{words[at]}}"); fi ;;
    (-*) ;;
    (*) line+=("${{words[at]}}") ;;
    esac
    (( at++ ))
  done
  if (( ${{#line}} == 0 )); then
    below='{first}' flags='{global}'
  else
    _coracle_of "${{line[1]}} ${{line[2]}}" || _coracle_of "${{line[1]}}" || files=1
    (( ${{#line}} == 1 )) || below=''
  fi
  if [[ ${{words[CURRENT]}} == -* ]]; then
    compadd -- ${{=flags}}
  else
    compadd -- ${{=below}} ${{=names}}
    if [[ -n $files ]]; then _files; fi
  fi
}}
{cases}compdef _coracle coracle
"#,
        valued = valued(),
        first = first.join(" "),
        global = flags(&GLOBAL).join(" "),
        cases = cases(),
    )
}

fn fish() -> String {
    let mut text = "# Completion of coracle for fish: `coracle completion fish | source`.\n".to_owned();
    let tree = tree();
    for flag in GLOBAL.all_flags() {
        text.push_str(&format!("complete -c coracle -n __fish_use_subcommand {}\n", fish_flag(flag)));
    }
    for (first, below) in &tree {
        let about = match commands::names().find(|(name, _)| name == first) {
            Some((_, entry)) => entry.command.about.to_owned(),
            None => format!("Commands on a {first}"),
        };
        text.push_str(&format!("complete -c coracle -f -n __fish_use_subcommand -a {first} -d {}\n", quoted(&about)));
        for second in below {
            let condition =
                format!("__fish_seen_subcommand_from {first}; and not __fish_seen_subcommand_from {}", below.join(" "));
            text.push_str(&format!("complete -c coracle -f -n {} -a {second}\n", quoted(&condition)));
        }
    }
    for (name, entry) in commands::names() {
        let seen: Vec<String> = name.split(' ').map(|word| format!("__fish_seen_subcommand_from {word}")).collect();
        let condition = quoted(&seen.join("; and "));
        for flag in entry.command.all_flags() {
            text.push_str(&format!("complete -c coracle -n {condition} {}\n", fish_flag(flag)));
        }
        let kind = Kind::of(&entry.command);
        if kind != Kind::Files {
            let names = quoted(&format!("({})", kind.lister()));
            text.push_str(&format!("complete -c coracle -f -n {condition} -a {names}\n"));
        }
    }
    text
}

fn fish_flag(flag: &crate::args::Flag) -> String {
    let names = flag.names.iter().map(|name| format!("-{} {name}", if name.len() == 1 { "s" } else { "l" }));
    let names: Vec<String> = names.collect();
    let value = if flag.value.is_some() { " -r" } else { "" };
    format!("{}{value} -d {}", names.join(" "), quoted(flag.help))
}

/// A text as one word of a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_have_a_kind() {
        let kind =
            |name: &str| Kind::of(&commands::entries().find(|entry| entry.command.name == name).expect(name).command);
        assert!(kind("stop") == Kind::Containers && kind("rmi") == Kind::Images && kind("load") == Kind::Files);
        assert!(kind("network connect") == Kind::Networks && kind("volume rm") == Kind::Volumes);
        assert!(kind("run") == Kind::Images && kind("push") == Kind::Images && kind("exec") == Kind::Containers);
    }
}
