//! `hold`: a lease as long as a command runs.

use crate::args::{Command, Parsed};
use crate::{Entry, Failure, Globals, Outcome};
use std::os::unix::process::ExitStatusExt;

pub const ENTRIES: &[Entry] = &[Entry {
    command: Command {
        name: "hold",
        usage: "LEASE COMMAND [ARG...]",
        about: "Hold a lease while a command runs: containers of 'run --lease' end with it",
        flags: &[],
        stops_at_first: true,
    },
    run: hold,
}];

/// Answers with the command's exit code; 128 and the signal's number where a signal ended the command.
fn hold(globals: &Globals, parsed: &Parsed) -> Outcome {
    let [lease, program, arguments @ ..] = parsed.rest.as_slice() else {
        return Err(Failure::Usage("a lease and a command are needed".into()));
    };
    let engine = globals.engine()?;
    let _lease = engine.lease(lease)?;
    let status = std::process::Command::new(program).args(arguments).status();
    let status = status.map_err(|error| Failure::Here(format!("{program}: {error}")))?;
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    Ok(code.clamp(0, 255) as u8)
}
