//! Building images.

use crate::args::{Command, Flag, Parsed};
use crate::format::bytes;
use crate::{Entry, Failure, Globals, Outcome, emit};
use coracle::model::{BuildImage, BuildSecret, BuildSsh, Progress};
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
            Flag::value(&["secret"], "id=ID[,src=FILE|,env=NAME]", "a secret for RUN --mount=type=secret"),
            Flag::value(&["ssh"], "ID[=SOCKET]", "an agent for RUN --mount=type=ssh (default: $SSH_AUTH_SOCK)"),
            Flag::value(&["label"], "NAME[=VALUE]", "a label of the image"),
            Flag::value(&["target"], "STAGE", "the stage to stop at"),
            Flag::value(&["cache-from"], "IMAGE", "take steps only from what leads to this image"),
            Flag::switch(&["no-cache"], "take no step from an earlier build"),
            Flag::switch(&["pull"], "ask the registry for a newer base image"),
            Flag::value(
                &["progress"],
                "plain|auto",
                "build the stages that are needed side by side, with numbered steps",
            ),
            Flag::switch(&["squash"], "make one layer of those that the last stage adds"),
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
        squash: parsed.has("squash"),
        stages: match parsed.last("progress") {
            None => String::new(),
            Some("plain" | "auto") => "parallel".into(),
            Some(other) => {
                return Err(Failure::Usage(format!("invalid value {other:?} for --progress: plain or auto")));
            }
        },
        nocache: parsed.has("no-cache"),
        pull: parsed.has("pull"),
        rm: switch("rm")?,
        forcerm: parsed.has("force-rm"),
        buildargs: pairs("build-arg").into_iter().map(environment).collect(),
        secrets: parsed.all("secret").iter().map(|text| secret(text)).collect::<Result<_, _>>()?,
        ssh: parsed.all("ssh").iter().map(|text| agent(text)).collect::<Result<_, _>>()?,
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

/// A secret, as `docker build` takes it: `id=ID,src=FILE`, `id=ID,env=NAME`, or `id=ID` for the variable or the file ID.
fn secret(text: &str) -> Result<BuildSecret, Failure> {
    let wrong = |why: String| Failure::Usage(format!("invalid value {text:?} for --secret: {why}"));
    let mut secret = BuildSecret::default();
    for field in text.split(',') {
        let (key, value) = field.split_once('=').ok_or_else(|| wrong(format!("{field}: no key=value pair")))?;
        match (key, value) {
            ("id", value) => secret.id = value.into(),
            ("src" | "source", value) => secret.src = value.into(),
            ("env", value) => secret.env = value.into(),
            ("type", "file" | "env") => {}
            ("type", other) => return Err(wrong(format!("type {other}: neither file nor env"))),
            (other, _) => return Err(wrong(format!("unexpected key {other}"))),
        }
    }
    if secret.id.is_empty() {
        return Err(wrong("id is missing".into()));
    }
    match (secret.src.is_empty(), secret.env.is_empty()) {
        (false, false) => return Err(wrong("src and env: only one says what it is".into())),
        (true, true) if std::env::var_os(&secret.id).is_some() => secret.env.clone_from(&secret.id),
        (true, true) => secret.src.clone_from(&secret.id),
        _ => {}
    }
    Ok(secret)
}

/// An agent: `default`, `ID` or `ID=SOCKET`.
fn agent(text: &str) -> Result<BuildSsh, Failure> {
    let (id, socket) = match text.split_once('=') {
        Some((id, socket)) => (id.to_owned(), socket.to_owned()),
        None => (text.to_owned(), std::env::var("SSH_AUTH_SOCK").unwrap_or_default()),
    };
    match id.is_empty() || socket.is_empty() {
        true => {
            Err(Failure::Usage(format!("invalid value {text:?} for --ssh: no socket, and SSH_AUTH_SOCK is not set")))
        }
        false => Ok(BuildSsh { id, socket }),
    }
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
