//! Commands on a root as a whole.

use crate::args::{Command, Flag, Parsed};
use crate::format::size;
use crate::{Entry, Failure, Globals, Outcome, emit};
use coracle::model::{CopyRoot, NotTaken, Progress};

pub const ENTRIES: &[Entry] = &[Entry {
    command: Command {
        name: "root copy",
        usage: "[FLAGS] DIR",
        about: "Copy the whole root into a new or empty directory, while containers run",
        flags: &[
            Flag::switch(&["pause"], "freeze each container while what it writes is copied"),
            Flag::switch(&["quiet", "q"], "print only what the copy does not have"),
        ],
        stops_at_first: false,
    },
    run: copy,
}];

fn copy(globals: &Globals, parsed: &Parsed) -> Outcome {
    let [dir] = parsed.rest.as_slice() else {
        return Err(Failure::Usage("one directory is needed".into()));
    };
    let quiet = parsed.has("quiet");
    let mut progress = |message: Progress| match quiet {
        true => Ok(()),
        false => crate::images::print_stream(&format!("{}: {}\n", message.id, message.status)),
    };
    let how = CopyRoot { pause: parsed.has("pause") };
    let report = globals.engine()?.snapshot_root(dir, how, &mut progress, None)?;
    told(&report.left);
    if quiet {
        return Ok(0);
    }
    let shown = |bytes: u64| size(i64::try_from(bytes).unwrap_or(i64::MAX));
    let line = format!(
        "{} images, {} volumes, {} containers: {} files, {} copied, {} shared\n",
        report.images,
        report.volumes.len(),
        report.containers.len(),
        report.files,
        shown(report.bytes),
        shown(report.shared)
    );
    emit(&line).map(|()| 0)
}

/// Says on standard error what was not taken.
pub fn told(left: &[NotTaken]) {
    for one in left {
        complain!("coracle: {} {}: {}", one.kind, one.name, one.reason);
    }
}
