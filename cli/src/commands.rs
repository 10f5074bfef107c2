//! Every command by its names: the short one (`ps`), and those below a noun (`container ls`).

use crate::Entry;
use crate::args::Command;
use crate::{
    build, check, completion, containers, create, events, exec, files, images, inspect, lease, login, manual, networks,
    plugins, prune, ps, registry, resources, roots, serve, system, usage, volumes,
};

/// Commands that the help lists together.
struct Group {
    title: &'static str,
    entries: &'static [&'static [Entry]],
}

/// Every command, in the order of the help.
const GROUPS: &[Group] = &[
    Group {
        title: "Containers",
        entries: &[
            create::ENTRIES,
            ps::ENTRIES,
            containers::ENTRIES,
            inspect::ANY,
            exec::ENTRIES,
            files::ENTRIES,
            resources::ENTRIES,
            lease::ENTRIES,
            prune::CONTAINERS,
        ],
    },
    Group {
        title: "Images",
        entries: &[images::ENTRIES, build::ENTRIES, registry::ENTRIES, login::ENTRIES, prune::IMAGES],
    },
    Group { title: "Networks", entries: &[networks::ENTRIES, inspect::NETWORKS, prune::NETWORKS] },
    Group { title: "Volumes", entries: &[volumes::ENTRIES, inspect::VOLUMES, prune::VOLUMES] },
    Group { title: "Plugins", entries: &[plugins::ENTRIES] },
    Group {
        title: "Engine",
        entries: &[
            events::ENTRIES,
            system::ENTRIES,
            usage::ENTRIES,
            prune::SYSTEM,
            prune::BUILDS,
            check::ENTRIES,
            roots::ENTRIES,
            serve::ENTRIES,
            completion::ENTRIES,
            manual::ENTRIES,
        ],
    },
];

/// A second name of a command, and the flags that the name implies.
struct OtherName {
    name: &'static str,
    command: &'static str,
    implies: &'static [(&'static str, &'static str)],
}

const fn also(name: &'static str, command: &'static str) -> OtherName {
    OtherName { name, command, implies: &[] }
}

/// The names below nouns, as docker has them.
const OTHER_NAMES: &[OtherName] = &[
    also("container attach", "attach"),
    also("container commit", "commit"),
    also("container cp", "cp"),
    also("container create", "create"),
    also("container diff", "diff"),
    also("container exec", "exec"),
    also("container export", "export"),
    OtherName { name: "container inspect", command: "inspect", implies: &[("type", "container")] },
    also("container kill", "kill"),
    also("container logs", "logs"),
    also("container ls", "ps"),
    also("container list", "ps"),
    also("container ps", "ps"),
    also("container pause", "pause"),
    also("container port", "port"),
    also("container rename", "rename"),
    also("container restart", "restart"),
    also("container rm", "rm"),
    also("container remove", "rm"),
    also("container run", "run"),
    also("container start", "start"),
    also("container stats", "stats"),
    also("container stop", "stop"),
    also("container top", "top"),
    also("container unpause", "unpause"),
    also("container update", "update"),
    also("container wait", "wait"),
    also("image build", "build"),
    also("image history", "history"),
    also("image import", "import"),
    OtherName { name: "image inspect", command: "inspect", implies: &[("type", "image")] },
    also("image load", "load"),
    also("image ls", "images"),
    also("image list", "images"),
    also("image pull", "pull"),
    also("image push", "push"),
    also("image rm", "rmi"),
    also("image remove", "rmi"),
    also("image save", "save"),
    also("image tag", "tag"),
    also("image verify", "verify"),
    also("network list", "network ls"),
    also("network remove", "network rm"),
    also("volume list", "volume ls"),
    also("volume remove", "volume rm"),
    also("plugin list", "plugin ls"),
    also("plugin remove", "plugin rm"),
    also("system check", "check"),
    also("system events", "events"),
    also("system explain", "explain"),
    also("system info", "info"),
    also("system version", "version"),
];

/// The command that the first words of a command line name.
pub enum Found<'a> {
    /// A command, the flags that its name implies, and the words after its name.
    Command(&'static Entry, &'static [(&'static str, &'static str)], &'a [String]),
    /// A noun alone, and the words after it.
    Noun(&'a str, &'a [String]),
    /// No command: the words that name none.
    Nothing(String),
}

/// Every command, in the order of the help.
pub fn entries() -> impl Iterator<Item = &'static Entry> {
    GROUPS.iter().flat_map(|group| group.entries.iter().copied().flatten())
}

/// Every name of a command: its own, and its names below nouns.
pub fn names() -> impl Iterator<Item = (&'static str, &'static Entry)> {
    let own = entries().map(|entry| (entry.command.name, entry));
    own.chain(OTHER_NAMES.iter().filter_map(|other| Some((other.name, named(other.command)?))))
}

/// The command of that name of its own.
fn named(name: &str) -> Option<&'static Entry> {
    entries().find(|entry| entry.command.name == name)
}

/// Finds the command of a command line.
pub fn find(words: &[String]) -> Found<'_> {
    let Some((first, rest)) = words.split_first() else { return Found::Nothing(String::new()) };
    if let Some((second, rest)) = rest.split_first() {
        let name = format!("{first} {second}");
        if let Some(entry) = named(&name) {
            return Found::Command(entry, &[], rest);
        }
        if let Some(other) = OTHER_NAMES.iter().find(|other| other.name == name)
            && let Some(entry) = named(other.command)
        {
            return Found::Command(entry, other.implies, rest);
        }
    }
    if let Some(entry) = named(first) {
        return Found::Command(entry, &[], rest);
    }
    match rest.first() {
        _ if !is_noun(first) => Found::Nothing(first.clone()),
        Some(second) if !second.starts_with('-') => Found::Nothing(format!("{first} {second}")),
        _ => Found::Noun(first, rest),
    }
}

/// Docker's commands that are not here, each with the reason or the way around.
const ABSENT: &[(&str, &str)] = &[
    ("builder", "layers of builds are images: coracle image prune removes them"),
    ("buildx", "coracle build reads build files; docker buildx works with coracle serve"),
    ("checkpoint", "processes are not saved to disk"),
    ("compose", "docker compose works with coracle serve"),
    ("config", SWARM),
    ("context", "--root names the root; docker's contexts can name the socket of coracle serve"),
    ("manifest", "coracle has no lists of manifests"),
    ("node", SWARM),
    ("secret", SWARM),
    ("service", SWARM),
    ("stack", SWARM),
    ("swarm", SWARM),
    ("trust", "signatures of images are not checked"),
];
const SWARM: &str = "docker's command works with coracle serve --swarm-program";

/// Why a word is not a command.
pub fn absence(name: &str) -> String {
    let first = name.split(' ').next().unwrap_or_default();
    match ABSENT.iter().find(|(absent, _)| *absent == first) {
        Some((_, why)) => format!("'{first}' is a command of docker alone: {why}"),
        None => format!("'{name}' is not a command"),
    }
}

/// Whether commands of two words begin with this one.
fn is_noun(word: &str) -> bool {
    names().any(|(name, _)| name.split_once(' ').is_some_and(|(noun, _)| noun == word))
}

/// The lists of commands for the help of the whole.
pub fn overview() -> String {
    let mut text = String::new();
    for group in GROUPS {
        text.push_str(&format!("\n{}:\n", group.title));
        for entry in group.entries.iter().copied().flatten() {
            text.push_str(&line(entry.command.name, &entry.command));
        }
    }
    text.push_str(
        "\n'coracle COMMAND --help' shows the flags of a command, 'coracle NOUN --help' the commands of a noun:\n",
    );
    text.push_str("container, image, network, volume, plugin, root, system.\n");
    text
}

/// The help of a noun: the commands below it.
pub fn help_of_noun(noun: &str) -> String {
    let mut text = format!("Usage: coracle {noun} COMMAND [ARG...]\n\nCommands:\n");
    let mut below: Vec<_> = names().filter(|(name, _)| name.split(' ').next() == Some(noun)).collect();
    below.retain(|(name, _)| name.contains(' '));
    below.sort_by_key(|(name, _)| *name);
    for (name, entry) in below {
        text.push_str(&line(name, &entry.command));
    }
    text
}

/// The other names of a command.
pub fn other_names(command: &str) -> Vec<&'static str> {
    OTHER_NAMES.iter().filter(|other| other.command == command).map(|other| other.name).collect()
}

fn line(name: &str, command: &Command) -> String {
    format!("  {name:<19} {}\n", command.about)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn names_are_found_once() {
        let mut seen = HashSet::new();
        for (name, entry) in names() {
            assert!(seen.insert(name), "{name} twice");
            let line = words(&format!("{name} x"));
            assert!(
                matches!(find(&line), Found::Command(found, _, rest)
                if found.command.name == entry.command.name && rest == ["x"]),
                "{name}"
            );
        }
        assert_eq!(names().count(), entries().count() + OTHER_NAMES.len(), "a second name of no command");
    }

    #[test]
    fn nouns_and_mistakes() {
        assert!(matches!(find(&words("root")), Found::Noun("root", [])));
        assert!(matches!(find(&words("network --help")), Found::Noun("network", [_])));
        assert!(matches!(find(&words("container nope")), Found::Nothing(name) if name == "container nope"));
        assert!(matches!(find(&words("nope ls")), Found::Nothing(name) if name == "nope"));
        assert!(help_of_noun("image").contains("\n  image rm            Remove images\n"));
        assert_eq!(other_names("rmi"), ["image rm", "image remove"]);
    }

    #[test]
    fn an_implied_flag_is_one_of_the_command() {
        for other in OTHER_NAMES {
            let command = &named(other.command).expect(other.command).command;
            for (flag, _) in other.implies {
                assert!(command.all_flags().any(|have| have.names.contains(flag)), "{}: {flag}", other.name);
            }
        }
    }
}
