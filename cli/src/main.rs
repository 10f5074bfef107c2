//! The command `coracle`: containers without a daemon. An example of the library that happens to be useful.
//!
//! Each group of commands has a file; [`args`] parses, [`session`] connects a container's streams to this terminal.

/// Writes a line to standard error. A line that cannot be written (a full disk) has no effect on the command:
/// `eprintln` panics.
macro_rules! complain {
    ($($word:tt)*) => {{
        let _ = std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("{}\n", format_args!($($word)*)));
    }};
}

mod args;
mod build;
mod check;
mod commands;
mod completion;
mod containers;
mod create;
mod described;
mod events;
mod exec;
mod files;
mod format;
mod images;
mod inspect;
mod lease;
mod listing;
mod login;
mod manual;
mod mounts;
mod networks;
mod plugins;
mod ports;
mod prune;
mod ps;
mod registry;
mod resources;
mod roots;
mod serve;
mod session;
mod system;
mod template;
mod terminal;
mod time;
mod usage;
mod volumes;

use args::{Command, Flag, Parsed};
use commands::Found;
use coracle::model::Mirror;
use coracle::{Engine, Options, UsernsRemap};
use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The engine's root, unless `--root` names another one.
const DEFAULT_ROOT: &str = "/var/lib/coracle";

/// Exit code for errors of the command line and of the engine before a container's process ran, as docker has it.
const ENGINE_FAILED: u8 = 125;

/// Why a command ended early.
pub enum Failure {
    /// The command line is wrong: the mistake. The message also names the command whose help explains more.
    Usage(String),
    /// The engine refused or failed.
    Engine(coracle::Error),
    /// Something here failed: a file that cannot be read, for example.
    Here(String),
    /// Everything is printed; exit with this code.
    Exit(u8),
}

/// A command's result: its exit code.
pub type Outcome = Result<u8, Failure>;

impl From<coracle::Error> for Failure {
    fn from(error: coracle::Error) -> Failure {
        Failure::Engine(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Usage(text) | Failure::Here(text) => f.write_str(text),
            Failure::Engine(error) => write!(f, "{error}"),
            Failure::Exit(code) => write!(f, "exit code {code}"),
        }
    }
}

/// A command: its words, its usage, and the function that runs it.
pub struct Entry {
    /// The command's words.
    pub command: Command,
    /// The command's function.
    pub run: fn(&Globals, &Parsed) -> Outcome,
}

impl Entry {
    /// A command whose flags may come after its arguments.
    pub const fn new(
        name: &'static str,
        usage: &'static str,
        about: &'static str,
        flags: &'static [Flag],
        run: fn(&Globals, &Parsed) -> Outcome,
    ) -> Entry {
        Entry { command: Command { name, usage, about, flags, stops_at_first: false }, run }
    }
}

/// The commands that make a missing root: all others need objects that only these bring.
const BEGINNINGS: &[&str] = &[
    "load",
    "import",
    "import-docker",
    "pull",
    "build",
    "serve",
    "network create",
    "volume create",
    "plugin install",
    "login",
];

/// The commands that need an engine, and leave nothing in a root that they made.
const BORROWERS: &[&str] = &["login"];

/// The flags before the command.
#[derive(Clone)]
pub struct Globals {
    /// Whether the command makes a missing root.
    pub begins: bool,
    /// `--root`.
    pub root: PathBuf,
    /// `--run`.
    pub run_dir: Option<PathBuf>,
    /// `--publish-ip`.
    pub publish_ip: Option<std::net::IpAddr>,
    /// `--relay-loopback`.
    pub relay_loopback: bool,
    /// `--leave-docker-user`.
    pub leave_docker_user: bool,
    /// `--insecure-registry`.
    pub insecure_registries: Vec<String>,
    /// `--registry-mirror`.
    pub mirrors: Vec<String>,
    /// `--userns-remap`.
    pub userns_remap: Option<String>,
    /// `--apparmor`.
    pub apparmor: Option<String>,
    /// `--selinux-enabled`.
    pub selinux: bool,
    /// `--plugin-dir`; empty: the usual ones.
    pub plugin_dirs: Vec<PathBuf>,
    /// `--cdi-spec-dir`; empty: the usual ones.
    pub cdi_dirs: Vec<PathBuf>,
    /// `--small-memory`.
    pub small_memory: bool,
    /// `--large-windows`.
    pub large_windows: bool,
    /// `--ephemeral`.
    pub ephemeral: bool,
}

impl Globals {
    /// Opens the engine on the chosen root.
    pub fn engine(&self) -> Result<Engine, Failure> {
        opened(self.options()?)
    }

    /// The options of the chosen root.
    pub fn options(&self) -> Result<Options, Failure> {
        let mut options = Options::new(&self.root);
        options.create = self.begins;
        options.run_dir = self.run_dir.clone();
        options.publish_ip = self.publish_ip;
        options.relay_loopback = self.relay_loopback;
        options.leave_docker_user = self.leave_docker_user;
        options.registry.insecure = self.insecure_registries.clone();
        options.registry.mirrors = self.mirrors.iter().map(|text| Mirror::parse(text)).collect::<Result<_, _>>()?;
        options.userns_remap = self.userns_remap.as_deref().map(UsernsRemap::parse).transpose()?;
        options.apparmor = self.apparmor.clone();
        options.selinux = self.selinux;
        options.small_memory = self.small_memory;
        options.large_windows = self.large_windows;
        options.ephemeral = self.ephemeral;
        if !self.plugin_dirs.is_empty() {
            options.plugin_dirs = self.plugin_dirs.clone();
        }
        if !self.cdi_dirs.is_empty() {
            options.cdi_dirs = self.cdi_dirs.clone();
        }
        Ok(options)
    }
}

/// Opens an engine, and reports the damage of its store.
pub fn opened(options: Options) -> Result<Engine, Failure> {
    let engine = Engine::open_with(options)?;
    engine.damage_at_open().iter().for_each(|found| complain!("WARNING: {found}"));
    engine.leftover_lines().iter().for_each(|line| complain!("WARNING: {line}"));
    Ok(engine)
}

/// The flags before the command.
pub const GLOBAL: Command = Command {
    name: "",
    usage: "[--root DIR] [--run DIR] COMMAND [ARG...]",
    about: "Containers without a daemon.",
    flags: &[
        Flag::value(&["root"], "DIR", "directory of the engine's state (default /var/lib/coracle)"),
        Flag::value(&["run"], "DIR", "directory of files that end with a reboot (default one below /run/coracle)"),
        Flag::value(&["publish-ip"], "IP", "address that ports are published at where none is named (default all)"),
        Flag::switch(&["relay-loopback"], "have monitors pass on what comes to ports at 127.0.0.1"),
        Flag::switch(&["leave-docker-user"], "put no rules for bridges into dockerd's chain DOCKER-USER"),
        Flag::value(&["plugin-dir"], "DIR", "where plugins are looked for, in place of the usual directories"),
        Flag::value(&["cdi-spec-dir"], "DIR", "specifications of CDI devices, in place of /etc/cdi and /var/run/cdi"),
        Flag::value(
            &["insecure-registry"],
            "HOST[:PORT]",
            "a registry without TLS, or with a certificate nobody vouches for",
        ),
        Flag::value(
            &["registry-mirror"],
            "[REGISTRY=]URL",
            "where pulls from a registry (default docker.io) ask first",
        ),
        Flag::value(
            &["userns-remap"],
            "RANGE",
            "put containers into a user namespace: FIRST:COUNT, USER[:GROUP] of /etc/subuid, default",
        ),
        Flag::value(
            &["apparmor"],
            "PROFILE",
            "AppArmor profile of containers that name none, or unconfined (default coracle-default-1)",
        ),
        Flag::switch(&["selinux-enabled"], "give containers SELinux labels, by the types of the host's policy"),
        Flag::switch(&["small-memory"], "load, pull and push with less memory, slower"),
        Flag::switch(&["large-windows"], "take what xz -9 and zstd --long compressed, with more memory"),
        Flag::switch(&["ephemeral"], "end the containers that this command creates when it ends, also by SIGKILL"),
        Flag::switch(&["version", "v"], "print the version"),
    ],
    stops_at_first: true,
};

fn main() -> std::process::ExitCode {
    let words: Vec<String> = match std::env::args_os().skip(1).map(|a| a.into_string()).collect() {
        Ok(words) => words,
        Err(word) => {
            complain!("coracle: not UTF-8: {}", word.display());
            return ENGINE_FAILED.into();
        }
    };
    let (name, outcome) = dispatch(words);
    let failure = match outcome {
        Ok(code) => return code.into(),
        Err(failure) => failure,
    };
    match failure {
        Failure::Exit(code) => code.into(),
        Failure::Usage(text) => {
            let command = if name.is_empty() { String::new() } else { format!(" {name}") };
            complain!("coracle: {text}\nSee 'coracle{command} --help'.");
            ENGINE_FAILED.into()
        }
        failure => {
            complain!("coracle: {failure}");
            if name == "run" { ENGINE_FAILED.into() } else { 1.into() }
        }
    }
}

fn dispatch(words: Vec<String>) -> (String, Outcome) {
    let global = match args::parse(&GLOBAL, words) {
        Ok(parsed) => parsed,
        Err(text) => return (String::new(), Err(Failure::Usage(text))),
    };
    if global.has("version") {
        return (String::new(), emit(&format!("coracle {}\n", env!("CARGO_PKG_VERSION"))).map(|()| 0));
    }
    let Some((name, rest)) = global.rest.split_first() else {
        return (String::new(), unasked_help(&overview(), global.help));
    };
    let asks_for_help = global.help || name == "help";
    let words = if name == "help" { rest } else { global.rest.as_slice() };
    if asks_for_help && words.is_empty() {
        return (String::new(), emit(&overview()).map(|()| 0));
    }
    let (entry, implied, rest) = match commands::find(words) {
        Found::Command(entry, implied, rest) => (entry, implied, rest),
        Found::Noun(noun, rest) => {
            let asked = asks_for_help || rest.iter().any(|word| word == "--help" || word == "-h");
            return (noun.to_owned(), unasked_help(&commands::help_of_noun(noun), asked));
        }
        Found::Nothing(name) => return (String::new(), Err(Failure::Usage(commands::absence(&name)))),
    };
    if asks_for_help {
        return (String::new(), emit(&entry.command.help(&commands::other_names(entry.command.name))).map(|()| 0));
    }
    let name = entry.command.name.to_owned();
    let globals = Globals {
        begins: BEGINNINGS.contains(&entry.command.name),
        root: global.last("root").unwrap_or(DEFAULT_ROOT).into(),
        run_dir: global.last("run").map(PathBuf::from),
        publish_ip: match global.last("publish-ip").map(str::parse).transpose() {
            Ok(ip) => ip,
            Err(_) => return (String::new(), Err(Failure::Usage("--publish-ip is not an address".into()))),
        },
        relay_loopback: global.has("relay-loopback"),
        leave_docker_user: global.has("leave-docker-user"),
        insecure_registries: global.all("insecure-registry"),
        userns_remap: global.last("userns-remap").map(str::to_owned),
        apparmor: global.last("apparmor").map(str::to_owned),
        selinux: global.has("selinux-enabled"),
        mirrors: global.all("registry-mirror"),
        plugin_dirs: global.all("plugin-dir").into_iter().map(PathBuf::from).collect(),
        cdi_dirs: global.all("cdi-spec-dir").into_iter().map(PathBuf::from).collect(),
        small_memory: global.has("small-memory"),
        large_windows: global.has("large-windows"),
        ephemeral: global.has("ephemeral"),
    };
    let before = if globals.begins { Before::of(&globals.root) } else { Before::Root };
    let outcome = match args::parse(&entry.command, rest.to_vec()) {
        Err(text) => Err(Failure::Usage(text)),
        Ok(parsed) if parsed.help => emit(&entry.command.help(&commands::other_names(entry.command.name))).map(|()| 0),
        Ok(parsed) => (entry.run)(&globals, &parsed.with(implied)),
    };
    if outcome.is_err() || BORROWERS.contains(&entry.command.name) {
        before.restore(globals);
    }
    (name, outcome)
}

/// The state of the root's place before a command that makes a root.
enum Before {
    Root,
    Directory,
    Nothing,
}

impl Before {
    fn of(root: &Path) -> Before {
        match std::fs::read_dir(root) {
            Ok(mut entries) => match entries.next() {
                Some(_) => Before::Root,
                None => Before::Directory,
            },
            Err(_) => Before::Nothing,
        }
    }

    /// Removes a root that the command made and did not use. Best effort: an empty root is harmless.
    fn restore(self, globals: Globals) {
        if matches!(self, Before::Root) {
            return;
        }
        let existing = Globals { begins: false, ..globals };
        let discarded = existing
            .options()
            .is_ok_and(|options| Engine::open_with(options).and_then(Engine::discard_if_empty).unwrap_or(false));
        if discarded && matches!(self, Before::Nothing) {
            let _ = std::fs::remove_dir(&existing.root);
        }
    }
}

/// The help for a command line without a command: on standard error, and the line is wrong, unless it asks for help.
fn unasked_help(text: &str, asked: bool) -> Outcome {
    if asked {
        return emit(text).map(|()| 0);
    }
    complain!("{}", text.trim_end());
    Ok(ENGINE_FAILED)
}

fn overview() -> String {
    GLOBAL.help(&[]) + &commands::overview()
}

/// Writes to standard output; a reader that went away ends the command quietly.
pub fn emit(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| match error.kind() {
        std::io::ErrorKind::BrokenPipe => Failure::Exit(141),
        _ => Failure::Here(format!("standard output: {error}")),
    })
}

/// Runs `one` for each of `names`, and prints the results; after an error the next name follows.
pub fn each(names: &[String], mut one: impl FnMut(&str) -> Result<String, coracle::Error>) -> Outcome {
    let mut code = 0;
    for name in names {
        match one(name) {
            Ok(line) => emit(&format!("{line}\n"))?,
            Err(error) => {
                complain!("coracle: {error}");
                code = 1;
            }
        }
    }
    Ok(code)
}
