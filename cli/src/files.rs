//! Commands on a container's files.

use crate::args::{Command, Flag, Parsed};
use crate::session::no_thread;
use crate::{Entry, Failure, Globals, Outcome, emit, terminal};
use coracle::model::*;
use coracle::{Engine, ErrorKind};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::thread::Builder;

pub const ENTRIES: &[Entry] = &[
    Entry {
        command: Command {
            name: "cp",
            usage: "CONTAINER:PATH FILE|- | FILE|- CONTAINER:PATH",
            about: "Copy files out of or into a container (-: a tar on the standard streams)",
            flags: &[],
            stops_at_first: false,
        },
        run: copy,
    },
    Entry {
        command: Command {
            name: "export",
            usage: "[FLAGS] CONTAINER",
            about: "Write a container's file system as a tar",
            flags: &[Flag::value(&["output", "o"], "FILE", "the tar (default standard output)")],
            stops_at_first: false,
        },
        run: export,
    },
    Entry {
        command: Command {
            name: "diff",
            usage: "CONTAINER",
            about: "What a container changed of its image: A added, C changed, D deleted",
            flags: &[],
            stops_at_first: false,
        },
        run: diff,
    },
    Entry {
        command: Command {
            name: "commit",
            usage: "[FLAGS] CONTAINER [REPOSITORY[:TAG]]",
            about: "Make an image of a container",
            flags: &[
                Flag::value(&["author", "a"], "TEXT", "author of the image"),
                Flag::value(&["message", "m"], "TEXT", "comment in the history"),
                Flag::value(&["change", "c"], "INSTRUCTION", "a build instruction for the configuration, such as CMD"),
                Flag::value(&["pause", "p"], "BOOL", "freeze the container meanwhile (default true)"),
            ],
            stops_at_first: false,
        },
        run: commit,
    },
];

/// The source or the destination of a copy.
enum Side {
    Container(String, String),
    Local(PathBuf),
    Stream,
}

fn side(text: &str) -> Side {
    if text == "-" {
        return Side::Stream;
    }
    match text.split_once(':') {
        // `./a:b` and `/a:b` are files.
        Some((name, path)) if !name.is_empty() && !name.starts_with(['/', '.']) => {
            Side::Container(name.into(), path.into())
        }
        _ => Side::Local(text.into()),
    }
}

fn copy(globals: &Globals, parsed: &Parsed) -> Outcome {
    let [from, to] = parsed.rest.as_slice() else {
        return Err(Failure::Usage("a source and a destination are needed".into()));
    };
    match (side(from), side(to)) {
        (Side::Container(id, path), Side::Stream) => {
            if terminal::stdout_is_one() {
                return Err(Failure::Here("the tar would go to a terminal".into()));
            }
            globals.engine()?.container_archive_get(&id, &path, None)?.write_to(&mut std::io::stdout(), None)?;
        }
        (Side::Stream, Side::Container(id, path)) => {
            let how = PutArchive::default();
            globals.engine()?.container_archive_put(&id, &path, &mut std::io::stdin(), how, None)?;
        }
        (Side::Container(id, path), Side::Local(to)) => take_out(&globals.engine()?, &id, &path, &to)?,
        (Side::Local(from), Side::Container(id, path)) => put_in(&globals.engine()?, &from, &id, &path)?,
        _ => return Err(Failure::Usage("one of both must be CONTAINER:PATH, and only one".into())),
    }
    Ok(0)
}

fn here(path: &Path) -> impl Fn(std::io::Error) -> Failure {
    let path = path.to_path_buf();
    move |error| Failure::Here(format!("{}: {error}", path.display()))
}

/// Unpacks beside the destination, and moves the result into place: no path that the container made is followed.
fn take_out(engine: &Engine, id: &str, path: &str, to: &Path) -> Result<(), Failure> {
    let archive = engine.container_archive_get(id, path, None)?;
    let name = archive.stat().name.clone();
    let content = name == "." || name == "/";
    let target = if to.is_dir() && !content { to.join(&name) } else { to.to_path_buf() };
    let parent = match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        _ => PathBuf::from("."),
    };
    let staging = parent.join(format!(".coracle-cp-{}", std::process::id()));
    std::fs::create_dir(&staging).map_err(here(&staging))?;
    let unpacked = unpack(archive, &staging).and_then(|()| {
        let from = if content { staging.clone() } else { staging.join(&name) };
        move_into_place(&from, &target)
    });
    let removed = match std::fs::remove_dir_all(&staging) {
        // The whole file was moved.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(here(&staging)),
    };
    unpacked.and(removed)
}

fn unpack(archive: coracle::Archive, into: &Path) -> Result<(), Failure> {
    let (reader, mut writer) = std::io::pipe().map_err(here(into))?;
    std::thread::scope(|scope| {
        let work = move || archive.write_to(&mut writer, None);
        let write = Builder::new().spawn_scoped(scope, work).map_err(no_thread)?;
        let mut tar = tar::Archive::new(reader);
        tar.set_preserve_permissions(true);
        tar.set_preserve_ownerships(true);
        let unpacked = tar.unpack(into);
        // The writer waits for a reader as long as one is there.
        drop(tar);
        let written = write.join().unwrap_or_else(|_| Err(coracle::Error::internal("the archive's thread failed")));
        unpacked.map_err(here(into))?;
        Ok(written?)
    })
}

/// Moves a file, or a directory over or into one that is there.
fn move_into_place(from: &Path, to: &Path) -> Result<(), Failure> {
    let is_dir = |path: &Path| path.symlink_metadata().is_ok_and(|meta| meta.is_dir());
    if !is_dir(from) || !is_dir(to) {
        if is_dir(to) {
            return Err(Failure::Here(format!("{} is a directory", to.display())));
        }
        return std::fs::rename(from, to).map_err(here(to));
    }
    for entry in std::fs::read_dir(from).map_err(here(from))? {
        let entry = entry.map_err(here(from))?;
        move_into_place(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}

/// Copies into an existing directory; a file may also get the name in the path's last part.
fn put_in(engine: &Engine, from: &Path, id: &str, path: &str) -> Result<(), Failure> {
    let meta = std::fs::metadata(from).map_err(here(from))?;
    let text = from.to_string_lossy();
    let content = meta.is_dir() && (text.ends_with("/.") || text == ".");
    let own = from.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let there = match engine.container_archive_stat(id, &format!("{}/.", path.trim_end_matches("/.")), None) {
        Ok(_) => true,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Invalid) => false,
        Err(error) => return Err(error.into()),
    };
    let (target, name) = match (there, content) {
        (true, true) => (path.to_owned(), ".".to_owned()),
        (true, false) => (path.to_owned(), own),
        (false, _) => {
            let whole = path.trim_end_matches('/');
            let (above, name) = whole.rsplit_once('/').unwrap_or(("", whole));
            (if above.is_empty() { "/".into() } else { above.to_owned() }, name.to_owned())
        }
    };
    let (mut reader, writer) = std::io::pipe().map_err(here(from))?;
    std::thread::scope(|scope| {
        let work = move || -> std::io::Result<()> {
            let mut tar = tar::Builder::new(std::io::BufWriter::with_capacity(256 << 10, writer));
            tar.follow_symlinks(false);
            match meta.is_dir() {
                true => tar.append_dir_all(&name, from)?,
                false => tar.append_file(&name, &mut File::open(from)?)?,
            }
            tar.into_inner()?.flush()
        };
        let write = Builder::new().spawn_scoped(scope, work).map_err(no_thread)?;
        let how = PutArchive { no_overwrite_dir_non_dir: true, ..PutArchive::default() };
        let put = engine.container_archive_put(id, &target, &mut reader, how, None);
        // The writer waits for a reader as long as one is there.
        drop(reader);
        let written = write.join().unwrap_or_else(|_| Err(std::io::Error::other("the archive's thread failed")));
        put?;
        written.map_err(here(from))
    })
}

fn export(globals: &Globals, parsed: &Parsed) -> Outcome {
    let [id] = parsed.rest.as_slice() else { return Err(Failure::Usage("one container is needed".into())) };
    let engine = globals.engine()?;
    match parsed.last("output") {
        None if terminal::stdout_is_one() => {
            return Err(Failure::Here("the tar would go to a terminal: use --output FILE".into()));
        }
        None => engine.container_export(id, &mut std::io::stdout(), None)?,
        Some(path) => {
            // A name that is wrong must not cost the file that is there.
            engine.container_inspect(id, false)?;
            let mut file = File::create(path).map_err(here(Path::new(path)))?;
            engine.container_export(id, &mut file, None)?;
        }
    }
    Ok(0)
}

fn diff(globals: &Globals, parsed: &Parsed) -> Outcome {
    let [id] = parsed.rest.as_slice() else { return Err(Failure::Usage("one container is needed".into())) };
    let mut text = String::new();
    for change in globals.engine()?.container_changes(id)? {
        let letter = match change.kind {
            0 => 'C',
            1 => 'A',
            _ => 'D',
        };
        text.push_str(&format!("{letter} {}\n", change.path));
    }
    emit(&text).map(|()| 0)
}

fn commit(globals: &Globals, parsed: &Parsed) -> Outcome {
    let (id, name) = match parsed.rest.as_slice() {
        [id] => (id, ""),
        [id, name] => (id, name.as_str()),
        _ => return Err(Failure::Usage("a container and at most one name are needed".into())),
    };
    let how = CommitContainer {
        repo: name.into(),
        comment: parsed.last("message").unwrap_or_default().into(),
        author: parsed.last("author").unwrap_or_default().into(),
        pause: !matches!(parsed.last("pause"), Some("false" | "0")),
        changes: parsed.all("change"),
        ..CommitContainer::default()
    };
    let id = globals.engine()?.container_commit(id, &how, None)?;
    emit(&format!("{id}\n")).map(|()| 0)
}
