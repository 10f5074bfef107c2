//! Building images.

use crate::args::{Command, Flag, Parsed};
use crate::format::bytes;
use crate::{Entry, Failure, Globals, Outcome, emit};
use coracle::model::{BuildImage, Progress};
use coracle::{Context, Error};
use std::io::{BufRead, Read, Write};
use std::path::{Path, PathBuf};

pub const ENTRIES: &[Entry] = &[Entry {
    command: Command {
        name: "build",
        usage: "[FLAGS] PATH|URL|-",
        about: "Build an image of a build file (-: a tar or a build file from standard input)",
        flags: &[
            Flag::value(&["tag", "t"], "REPOSITORY[:TAG]", "a name for the image"),
            Flag::value(&["file", "f"], "FILE", "the build file (default PATH/Dockerfile)"),
            Flag::value(&["build-arg"], "NAME[=VALUE]", "a value for ARG (default: the environment's)"),
            Flag::value(&["label"], "NAME[=VALUE]", "a label of the image"),
            Flag::value(&["target"], "STAGE", "the stage to stop at"),
            Flag::value(&["cache-from"], "IMAGE", "take steps only from what leads to this image"),
            Flag::switch(&["no-cache"], "take no step from an earlier build"),
            Flag::switch(&["pull"], "ask the registry for a newer base image"),
            Flag::switch(&["quiet", "q"], "print only the image's id"),
            Flag::value(&["rm"], "BOOL", "remove the containers of steps that succeeded (default true)"),
            Flag::switch(&["force-rm"], "remove those of a step that failed, too"),
            Flag::value(&["network"], "NETWORK", "the network of RUN"),
            Flag::value(&["add-host"], "NAME:ADDRESS", "an entry of /etc/hosts of RUN"),
            Flag::value(&["memory", "m"], "BYTES", "memory of RUN"),
            Flag::value(&["shm-size"], "BYTES", "size of /dev/shm of RUN"),
            Flag::value(&["cpu-shares", "c"], "NUMBER", "CPU shares of RUN"),
            Flag::value(&["cpuset-cpus"], "CPUS", "the CPUs of RUN"),
        ],
        stops_at_first: false,
    },
    run: build,
}];

fn build(globals: &Globals, parsed: &Parsed) -> Outcome {
    let [place] = parsed.rest.as_slice() else {
        return Err(Failure::Usage("one directory, address, or - is needed".into()));
    };
    let mut how = asked(parsed)?;
    let file = parsed.last("file");
    let quiet = how.q;
    let mut input = std::io::stdin().lock();
    let (context, directory): (_, PathBuf);
    context = match place.as_str() {
        "-" if is_tar(&mut input)? => {
            how.dockerfile = file.unwrap_or_default().into();
            Context::Tar(&mut input)
        }
        "-" => {
            let mut text = String::new();
            input.read_to_string(&mut text).map_err(|e| Failure::Here(format!("standard input: {e}")))?;
            how.file = Some(text);
            Context::None
        }
        url if url.contains("://") || url.starts_with("git@") || url.starts_with("github.com/") => {
            (how.remote, how.dockerfile) = (url.into(), file.unwrap_or_default().into());
            Context::None
        }
        path => {
            directory = path.into();
            name_file(&mut how, &directory, file)?;
            Context::Directory(&directory)
        }
    };
    let mut show = |message: Progress| show(&message, quiet);
    globals.engine()?.image_build(&how, context, &mut show, None)?;
    Ok(0)
}

fn asked(parsed: &Parsed) -> Result<BuildImage, Failure> {
    let pairs = |key: &str| {
        let split = |text: String| match text.split_once('=') {
            Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
            None => (text, None),
        };
        parsed.all(key).into_iter().map(split).collect::<Vec<_>>()
    };
    let size = |key: &str| {
        let wrong = |text: &str| Failure::Usage(format!("invalid value {text:?} for --{key}"));
        parsed.last(key).map_or(Ok(0), |text| bytes(text).ok_or_else(|| wrong(text)))
    };
    let switch = |key: &str| match parsed.last(key) {
        None | Some("true" | "1") => Ok(true),
        Some("false" | "0") => Ok(false),
        Some(other) => Err(Failure::Usage(format!("invalid value {other:?} for --{key}: true or false"))),
    };
    let environment = |(name, value): (String, Option<String>)| {
        let value = value.or_else(|| std::env::var(&name).ok());
        (name, value)
    };
    Ok(BuildImage {
        t: parsed.all("tag"),
        q: parsed.has("quiet"),
        nocache: parsed.has("no-cache"),
        pull: parsed.has("pull"),
        rm: switch("rm")?,
        forcerm: parsed.has("force-rm"),
        buildargs: pairs("build-arg").into_iter().map(environment).collect(),
        labels: pairs("label").into_iter().map(|(name, value)| (name, value.unwrap_or_default())).collect(),
        target: parsed.last("target").unwrap_or_default().into(),
        cachefrom: parsed.all("cache-from"),
        networkmode: parsed.last("network").unwrap_or_default().into(),
        extrahosts: parsed.all("add-host"),
        memory: size("memory")?,
        shmsize: size("shm-size")?,
        cpushares: parsed.number("cpu-shares").map_err(Failure::Usage)?.unwrap_or_default(),
        cpusetcpus: parsed.last("cpuset-cpus").unwrap_or_default().into(),
        ..BuildImage::default()
    })
}

/// Names the build file: a file in the directory by its path there, any other by its content.
fn name_file(how: &mut BuildImage, directory: &Path, file: Option<&str>) -> Result<(), Failure> {
    let Some(file) = file else { return Ok(()) };
    let cannot = |path: &Path, e: std::io::Error| Failure::Here(format!("{}: {e}", path.display()));
    let whole = std::fs::canonicalize(file).map_err(|e| cannot(file.as_ref(), e))?;
    let directory = std::fs::canonicalize(directory).map_err(|e| cannot(directory, e))?;
    match whole.strip_prefix(&directory).ok().and_then(Path::to_str) {
        Some(inside) => how.dockerfile = inside.into(),
        None => how.file = Some(std::fs::read_to_string(&whole).map_err(|e| cannot(&whole, e))?),
    }
    Ok(())
}

/// Whether the input is a tar, plain or compressed: a build file is text.
fn is_tar(input: &mut impl BufRead) -> Result<bool, Failure> {
    let head = input.fill_buf().map_err(|e| Failure::Here(format!("standard input: {e}")))?;
    Ok(!Context::is_build_file(head))
}

fn show(message: &Progress, quiet: bool) -> coracle::Result<()> {
    let text = match (&message.stream, &message.status) {
        (stream, _) if !stream.is_empty() => stream.clone(),
        (_, status) if !status.is_empty() && !quiet && message.progress.is_empty() => match message.id.as_str() {
            "" => format!("{status}\n"),
            id => format!("{id}: {status}\n"),
        },
        _ => return Ok(()),
    };
    // Red is for terminals.
    let terminal = std::io::IsTerminal::is_terminal(&std::io::stdout());
    let text = if terminal { text } else { text.replace("\u{1b}[91m", "").replace("\u{1b}[0m", "") };
    emit(&text).map_err(|_| Error::new(coracle::ErrorKind::Cancelled, "standard output is closed"))?;
    let _ = std::io::stdout().flush();
    Ok(())
}
