//! `serve`: the HTTP API on a socket.

mod activation;
mod memory;
mod settings;

use crate::args::{Command, Flag, Parsed};
use crate::session::no_thread;
use crate::{Entry, Failure, Globals, Outcome};
use coracle::{Durability, Options, Outbox, ShipLogs};
use coracle_http::{Address, ApiVersion, RequestLog, Router, RouterOptions, Server, ServerOptions, Tls};
use memory::Memory;
use nix::sys::signal::{SigSet, Signal};
use settings::Settings;
use std::path::PathBuf;
use std::time::Duration;

pub const ENTRIES: &[Entry] = &[Entry { command: COMMAND, run: serve }];

const COMMAND: Command = Command {
    name: "serve",
    usage: "[-H ADDRESS] [FLAGS]",
    about: "Serve the HTTP API 1.18 to 1.54",
    flags: &[
        Flag::value(
            &["host", "H"],
            "ADDRESS",
            "unix:///PATH or tcp://IP:PORT; may be given again (default unix:///run/coracle.sock and \
             unix:///var/run/engine.sock, or the sockets that systemd gives)",
        ),
        Flag::value(
            &["config"],
            "FILE",
            "a JSON object of these flags' names (default /etc/coracle/serve.json, if it is there)",
        ),
        Flag::value(&["root"], "DIR", "directory of the engine's state, as before the command"),
        Flag::value(&["run"], "DIR", "directory of files that end with a reboot, as before the command"),
        Flag::value(&["api-cors-header"], "VALUE", "Access-Control-Allow-Origin of every answer"),
        Flag::value(
            &["api-max"],
            "VERSION",
            "the newest version of the API that is served (default 1.54); 1.24 is the last one that is specified",
        ),
        Flag::value(&["label"], "NAME=VALUE", "a label of the engine, shown by info"),
        Flag::value(&["log-driver"], "NAME", "log driver of containers that name none (default json-file)"),
        Flag::value(&["log-opt"], "NAME=VALUE", "an option of that log driver"),
        Flag::value(
            &["ship-logs"],
            "HOW",
            "who delivers logs to receivers: program (one of its own, the default), thread (of this one), or none",
        ),
        Flag::value(
            &["outbox-max-size"],
            "SIZE",
            "how much is kept of undelivered logs of removed containers (at first 256m); the root remembers it",
        ),
        Flag::value(&["outbox-max-age"], "TIME", "for how long it is kept (at first 168h)"),
        Flag::value(&["cgroup-parent"], "PATH", "control group of containers that name none (default /coracle)"),
        Flag::value(&["durability"], "HOW", "full, normal or off (default full)"),
        Flag::switch(
            &["no-restart-containers"],
            "after a reboot, start no container, whatever its restart policy says",
        ),
        Flag::switch(&["restart-containers"], "the default since restart policies are followed"),
        Flag::switch(&["selinux-enabled"], "give containers SELinux labels, as before the command"),
        Flag::switch(&["tlsverify"], "TCP with TLS, to clients that have a certificate of --tlscacert"),
        Flag::value(&["tlscacert"], "FILE", "the authorities of clients' certificates (ca.pem)"),
        Flag::value(&["tlscert"], "FILE", "the server's certificate (server-cert.pem)"),
        Flag::value(&["tlskey"], "FILE", "the key of that certificate (server-key.pem)"),
        Flag::switch(&["insecure-tcp"], "TCP without TLS: every client that reaches the port is root here"),
        Flag::value(
            &["authorization-plugin"],
            "NAME",
            "an authorization plugin that each request needs the consent of; may be given again: they are asked in order",
        ),
        Flag::switch(&["log-requests"], "a line for each request, with its client, on standard error"),
        Flag::value(
            &["swarm-program"],
            "FILE",
            "the program of swarm mode (default coracle-swarm in ../libexec/coracle beside this command, if it is there)",
        ),
        Flag::value(&["allow-host"], "NAME", "a name that requests over TCP may give as Host"),
    ],
    stops_at_first: false,
};

/// How long a server that was asked to end finishes its answers.
const GRACE: Duration = Duration::from_secs(2);

/// The default sockets: the engine's own name, and the one in the API's specification.
const SOCKETS: [&str; 2] = ["/run/coracle.sock", "/var/run/engine.sock"];

fn serve(globals: &Globals, words: &Parsed) -> Outcome {
    if !words.rest.is_empty() {
        return Err(Failure::Usage("serve takes no arguments: use -H ADDRESS".into()));
    }
    // Before the settings are read, which can take long: a SIGHUP from here on waits, and never ends the server.
    block(&[Signal::SIGHUP])?;
    // Before anything else is opened: these sockets have the first numbers.
    let sockets = activation::sockets()?;
    let settings = Settings::read(&COMMAND, words)?;
    let parsed = settings.now();
    let mut addresses = addresses(parsed)?;
    if addresses.is_empty() && sockets.is_empty() {
        addresses = SOCKETS.iter().map(|path| Address::Unix(path.into())).collect();
    }
    // Before any thread starts: all threads leave these signals to the one that waits below.
    let signals = block(&[Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP])?;

    coracle::hold_little_memory();
    let options = options(globals, parsed)?;
    options.check()?;
    let router = router_options(parsed)?;
    let engine = crate::opened(options)?;
    engine.authorization(engine.authorization_plugins()).check()?;
    let router = Router::with(engine.clone(), router);
    let log = settings.clone();
    let memory = Memory::watched(engine.clone())?;
    let options = ServerOptions {
        insecure_tcp: parsed.has("insecure-tcp"),
        tls: tls(parsed)?,
        log: Some(RequestLog::new(move |asked| {
            memory.is_used();
            if log.logs_requests() {
                complain!("coracle: {asked}");
            }
        })),
        host_names: parsed.all("allow-host"),
        ..ServerOptions::default()
    };
    let server = Server::bind_and_adopt(router, &addresses, sockets, options)?;
    for address in server.addresses()? {
        complain!("coracle: serving on {address}");
    }
    activation::notify_ready();
    let handle = server.handle();
    let globals = globals.clone();
    let end = move || {
        // Waiting fails only for an invalid set; this one was used above.
        while let Ok(Signal::SIGHUP) = signals.wait() {
            if let Err(error) = settings.read_again(&engine, |next| check(&globals, next)) {
                complain!("coracle: the configuration stays as it is: {error}");
            }
        }
        handle.shutdown(GRACE);
    };
    let waiter = std::thread::Builder::new().spawn(end).map_err(no_thread)?;
    server.run();
    let _ = waiter.join();
    Ok(0)
}

/// Blocks the signals for this thread, and for those that it starts later.
fn block(signals: &[Signal]) -> Result<SigSet, Failure> {
    let set: SigSet = signals.iter().copied().collect();
    set.thread_block().map_err(|e| Failure::Here(format!("signals: {e}")))?;
    Ok(set)
}

/// Whether a start with these settings would be refused for one of them.
fn check(globals: &Globals, parsed: &Parsed) -> Result<(), Failure> {
    let addresses = addresses(parsed)?;
    let is_tcp = |address: &Address| matches!(address, Address::Tcp(_));
    if tls(parsed)?.is_none() && !parsed.has("insecure-tcp") && addresses.iter().any(is_tcp) {
        return Err(Failure::Usage("host: TCP without TLS is served only with --insecure-tcp".into()));
    }
    router_options(parsed)?;
    Ok(options(globals, parsed)?.check()?)
}

fn addresses(parsed: &Parsed) -> Result<Vec<Address>, Failure> {
    let all = parsed.all("host");
    let parse = |text: &String| text.parse().map_err(|error: coracle::Error| error.context("host"));
    Ok(all.iter().map(parse).collect::<coracle::Result<_>>()?)
}

/// TLS as the flags say, by the names that docker's have.
fn tls(parsed: &Parsed) -> Result<Option<Tls>, Failure> {
    const FILES: [&str; 3] = ["tlscacert", "tlscert", "tlskey"];
    let given = FILES.map(|flag| parsed.last(flag));
    if !parsed.has("tlsverify") {
        return match given.iter().any(Option::is_some) {
            true => Err(Failure::Usage("--tlscacert, --tlscert and --tlskey go with --tlsverify".into())),
            false => Ok(None),
        };
    }
    if parsed.has("insecure-tcp") {
        return Err(Failure::Usage("--tlsverify and --insecure-tcp exclude each other".into()));
    }
    let [Some(authorities), Some(chain), Some(key)] = given else {
        return Err(Failure::Usage("--tlsverify needs --tlscacert, --tlscert and --tlskey".into()));
    };
    let read = |path: &str| std::fs::read(path).map_err(|e| Failure::Here(format!("{path}: {e}")));
    Ok(Some(Tls::mutual(&read(authorities)?, &read(chain)?, &read(key)?)?))
}

fn router_options(parsed: &Parsed) -> Result<RouterOptions, Failure> {
    let max_api_version = match parsed.last("api-max") {
        None => ApiVersion::default(),
        Some(text) => text.parse().map_err(|error| Failure::Usage(format!("api-max: {error}")))?,
    };
    Ok(RouterOptions {
        api_cors_header: parsed.last("api-cors-header").map(str::to_owned),
        max_api_version,
        ..RouterOptions::default()
    })
}

fn options(globals: &Globals, parsed: &Parsed) -> Result<Options, Failure> {
    let mut options = globals.options()?;
    if let Some(root) = parsed.last("root") {
        options.root = root.into();
    }
    if let Some(run_dir) = parsed.last("run") {
        options.run_dir = Some(run_dir.into());
    }
    options.selinux |= parsed.has("selinux-enabled");
    options.labels = parsed.all("label");
    options.authorization_plugins = parsed.all("authorization-plugin");
    if let Some(driver) = parsed.last("log-driver") {
        options.log_driver = driver.to_owned();
    }
    for entry in parsed.all("log-opt") {
        let (name, value) =
            entry.split_once('=').ok_or(Failure::Usage(format!("invalid value {entry:?} for --log-opt")))?;
        options.log_options.insert(name.to_owned(), value.to_owned());
    }
    if let Some(parent) = parsed.last("cgroup-parent") {
        options.cgroup_parent = parent.to_owned();
    }
    options.durability = match parsed.last("durability") {
        None | Some("full") => Durability::Full,
        Some("normal") => Durability::Normal,
        Some("off") => Durability::Off,
        Some(other) => {
            return Err(Failure::Usage(format!("invalid value {other:?} for --durability: full, normal or off")));
        }
    };
    if let Some(word) = parsed.last("ship-logs") {
        options.ship_logs = ShipLogs::parse(word).ok_or_else(|| {
            Failure::Usage(format!("invalid value {word:?} for --ship-logs: none, thread or program"))
        })?;
    }
    let bounds = Outbox::parse(parsed.last("outbox-max-size"), parsed.last("outbox-max-age"));
    options.outbox = bounds.map_err(|error| Failure::Usage(error.message().to_owned()))?;
    options.swarm_program = parsed.last("swarm-program").map(Into::into).or_else(installed_swarm_program);
    options.restart_containers =
        !parsed.has("no-restart-containers") && parsed.last("restart-containers") != Some("false");
    Ok(options)
}

/// The program of swarm mode that is installed beside this command.
fn installed_swarm_program() -> Option<PathBuf> {
    let own = std::env::current_exe().ok()?;
    let path = own.parent()?.parent()?.join("libexec/coracle/coracle-swarm");
    path.exists().then_some(path)
}
