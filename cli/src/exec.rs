//! `exec`: a second process in a running container.

use crate::args::{Command, Flag, Parsed};
use crate::session::{Ended, Foreground, Signals, terminal_is_needed};
use crate::{Entry, Failure, Globals, Outcome, terminal};
use coracle::Io;
use coracle::model::{DetachKeys, ExecConfig};

pub const ENTRIES: &[Entry] = &[Entry {
    command: Command {
        name: "exec",
        usage: "[FLAGS] CONTAINER COMMAND [ARG...]",
        about: "Run a command in a running container",
        flags: &[
            Flag::switch(&["interactive", "i"], "attach to its standard input"),
            Flag::switch(&["tty", "t"], "give it a terminal"),
            Flag::switch(&["detach", "d"], "do not wait for it"),
            Flag::switch(&["privileged"], "all rights of the host"),
            Flag::value(&["user", "u"], "USER[:GROUP]", "user of the process, by name or number"),
            Flag::value(&["env", "e"], "NAME=VALUE", "an environment variable"),
            Flag::value(&["workdir", "w"], "DIR", "working directory"),
            Flag::value(&["detach-keys"], "KEYS", "what leaves it running (default ctrl-p,ctrl-q)"),
        ],
        stops_at_first: true,
    },
    run: exec,
}];

fn exec(globals: &Globals, parsed: &Parsed) -> Outcome {
    let Some((container, command)) = parsed.rest.split_first().filter(|(_, command)| !command.is_empty()) else {
        return Err(Failure::Usage("a container and a command are needed".into()));
    };
    let keys = DetachKeys::parse(parsed.last("detach-keys").unwrap_or_default())?;
    let (interactive, detached) = (parsed.has("interactive"), parsed.has("detach"));
    let config = ExecConfig {
        user: parsed.last("user").unwrap_or_default().to_owned(),
        privileged: parsed.has("privileged"),
        tty: parsed.has("tty"),
        attach_stdin: interactive && !detached,
        attach_stdout: !detached,
        attach_stderr: !detached,
        detach: detached,
        detach_keys: parsed.last("detach-keys").unwrap_or_default().to_owned(),
        env: parsed.some("env"),
        working_dir: parsed.last("workdir").unwrap_or_default().to_owned(),
        cmd: Some(command.to_vec()),
        ..ExecConfig::default()
    };
    terminal_is_needed(config.tty, config.attach_stdin).map_err(Failure::Usage)?;
    let signals = if detached { None } else { Some(Signals::block(false)?) };
    let engine = globals.engine()?;
    let id = engine.exec_create(container, &config)?;
    let (rows, cols) = if config.tty { terminal::size() } else { (0, 0) };
    let io = (!detached).then(|| Io { rows, cols, ..Io::default() });
    let session = match engine.exec_start(&id, io, None) {
        Ok(session) => session,
        Err(error) => {
            complain!("coracle: {error}");
            let tried = engine.exec_inspect(&id).ok().and_then(|detail| detail.exit_code);
            return Err(Failure::Exit(if tried.is_some() { 126 } else { 1 }));
        }
    };
    match session.zip(signals) {
        Some((session, signals)) => {
            Foreground { engine: &engine, signals_to: None, stdin: interactive, ends_stdin: true, detach_keys: keys }
                .carry(session, &signals)
                .map(Ended::code)
        }
        None => Ok(0),
    }
}
