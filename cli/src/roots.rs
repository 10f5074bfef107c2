//! Commands on a root as a whole.

use crate::args::{Command, Flag, Parsed};
use crate::format::size;
use crate::{Entry, Failure, Globals, Outcome, emit};
use coracle::model::{CopyRoot, ImportDocker, NotTaken, Progress};

pub const ENTRIES: &[Entry] = &[ROOT_COPY, IMPORT_DOCKER];

const IMPORT_DOCKER: Entry = Entry {
    command: Command {
        name: "import-docker",
        usage: "[FLAGS] [NAME...]",
        about: "Take over images, volumes and stopped containers of a dockerd",
        flags: &[
            Flag::value(
                &["directory"],
                "DIR",
                "dockerd's directory, no dockerd running on it (default /var/lib/docker)",
            ),
            Flag::value(&["socket"], "SOCKET", "dockerd's socket, while it runs"),
            Flag::switch(&["quiet", "q"], "print only what was not taken"),
        ],
        stops_at_first: false,
    },
    run: import_docker,
};

const ROOT_COPY: Entry = Entry {
    command: Command {
        name: "root copy",
        usage: "[FLAGS] DIR",
        about: "Copy the whole root into a new or empty directory, while containers run",
        flags: &[
            Flag::switch(&["pause"], "freeze each container while its files are copied"),
            Flag::switch(&["quiet", "q"], "print only what the copy does not have"),
        ],
        stops_at_first: false,
    },
    run: copy,
};

fn import_docker(globals: &Globals, parsed: &Parsed) -> Outcome {
    let text = |flag: &str| parsed.last(flag).unwrap_or_default().to_owned();
    let how = ImportDocker { directory: text("directory"), socket: text("socket"), names: parsed.rest.clone() };
    let report = globals.engine()?.import_docker(&how, &mut |_| Ok(()), None)?;
    report_left(&report.left);
    for one in report.taken.iter().filter(|_| !parsed.has("quiet")) {
        let was_here = if one.was_here { " (was here before)" } else { "" };
        emit(&format!("{} {}{was_here}\n", one.kind, one.name))?;
    }
    Ok(0)
}

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
    report_left(&report.left);
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

/// Reports on standard error the objects that were left out.
pub fn report_left(left: &[NotTaken]) {
    for one in left {
        complain!("coracle: {} {}: {}", one.kind, one.name, one.reason);
    }
}
