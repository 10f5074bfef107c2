//! coracle-oci: the launch path on an OCI bundle, for the validation programs of the OCI runtime tools (`tests/oci/run`).
//!
//! `coracle-oci [--root DIR] create|start|state|kill|delete`, as runtimes are called. `CORACLE_OCI_STARTER` names the
//! static program made of `starter.c`.

use coracle::bundle::config::{Config, Hook};
use coracle::bundle::{Now, Place, signal_number};
use serde_json::{Value, json};
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

type Failed = Box<dyn std::error::Error>;
type Result<T> = std::result::Result<T, Failed>;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("coracle-oci: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[String]) -> Result<()> {
    let arguments = Arguments::of(words)?;
    match (arguments.command.as_str(), &arguments.rest[..]) {
        ("create", []) => create(&arguments),
        ("start", []) => start(&Known::of(&arguments)?),
        ("state", []) => state(&Known::of(&arguments)?),
        ("kill", []) => kill(&Known::of(&arguments)?, "TERM"),
        ("kill", [signal]) => kill(&Known::of(&arguments)?, signal),
        ("delete", []) => delete(&Known::of(&arguments)?),
        _ => Err("usage: coracle-oci [--root DIR] create [--bundle DIR] [--pid-file FILE] | start | state | kill | delete ID".into()),
    }
}

/// The parsed command line.
struct Arguments {
    command: String,
    root: PathBuf,
    bundle: PathBuf,
    pid_file: Option<PathBuf>,
    id: String,
    rest: Vec<String>,
}

impl Arguments {
    fn of(words: &[String]) -> Result<Arguments> {
        let (mut root, mut bundle, mut pid_file) = (PathBuf::from("/run/coracle-oci"), PathBuf::from("."), None);
        let mut plain = Vec::new();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
            match word.as_str() {
                "--root" => root = value()?.into(),
                "--bundle" => bundle = value()?.into(),
                "--pid-file" => pid_file = Some(value()?.into()),
                option if option.starts_with('-') => return Err(format!("{option} is not known").into()),
                _ => plain.push(word.clone()),
            }
        }
        let mut plain = plain.into_iter();
        let (Some(command), Some(id)) = (plain.next(), plain.next()) else {
            return Err("the container's id is missing".into());
        };
        if id.contains('/') || id.starts_with('.') {
            return Err(format!("{id:?} is not an id").into());
        }
        Ok(Arguments { command, root, bundle: bundle.canonicalize()?, pid_file, id, rest: plain.collect() })
    }

    fn dir(&self) -> PathBuf {
        self.root.join(&self.id)
    }
}

/// A container that is there: what was written down at its creation, and whether it was started.
struct Known {
    id: String,
    dir: PathBuf,
    bundle: PathBuf,
    config: Config,
    place: Place,
}

impl Known {
    fn of(arguments: &Arguments) -> Result<Known> {
        let dir = arguments.dir();
        let bundle =
            std::fs::read_to_string(dir.join("bundle")).map_err(|_| format!("no container {:?}", arguments.id))?;
        // As it was at the creation: what is changed in the bundle later has no effect.
        let config: Config = serde_json::from_slice(&std::fs::read(dir.join("config.json"))?)?;
        let bundle = PathBuf::from(bundle);
        let place = Place::new(&dir, &arguments.id, &config);
        Ok(Known { id: arguments.id.clone(), dir, bundle, config, place })
    }

    fn started(&self) -> bool {
        self.dir.join("started").exists()
    }

    fn status(&self) -> Result<(&'static str, i32)> {
        Ok(match self.place.now()? {
            Now::Running(pid) if self.started() => ("running", pid),
            Now::Running(pid) => ("created", pid),
            // Not written down where the creation was cut off.
            Now::Ended(_) => {
                let pid = std::fs::read_to_string(self.dir.join("pid")).ok().and_then(|text| text.parse().ok());
                ("stopped", pid.unwrap_or(0))
            }
        })
    }

    fn state(&self) -> Result<Value> {
        let (status, pid) = self.status()?;
        Ok(self.state_as(status, pid))
    }

    fn state_as(&self, status: &str, pid: i32) -> Value {
        json!({
            "ociVersion": self.config.oci_version,
            "id": self.id,
            "status": status,
            "pid": pid,
            "bundle": self.bundle,
            "annotations": self.config.annotations,
        })
    }
}

fn create(arguments: &Arguments) -> Result<()> {
    let starter = std::env::var_os("CORACLE_OCI_STARTER").ok_or("CORACLE_OCI_STARTER is not set")?;
    let text = std::fs::read(arguments.bundle.join("config.json"))?;
    let config: Config = serde_json::from_slice(&text).map_err(|e| format!("config.json: {e}"))?;
    std::fs::create_dir_all(&arguments.root)?;
    let dir = arguments.dir();
    std::fs::create_dir(&dir).map_err(|e| format!("container {:?}: {e}", arguments.id))?;
    let place = Place::new(&dir, &arguments.id, &config);
    let made = || -> Result<i32> {
        // First: a signal that ends this program must leave a container that can be removed.
        std::fs::write(dir.join("config.json"), &text)?;
        std::fs::write(dir.join("bundle"), arguments.bundle.as_os_str().as_encoded_bytes())?;
        let pid = place.create(&arguments.bundle, &config, Path::new(&starter), streams()?)?;
        std::fs::write(dir.join("pid"), pid.to_string())?;
        patiently("the container does not get ready", || Ok(waits(pid) || !matches!(place.now()?, Now::Running(_))))?;
        Ok(pid)
    };
    let pid = made().inspect_err(|_| {
        let _ = place.signal(SIGKILL);
        let _ = patiently("", || Ok(!matches!(place.now()?, Now::Running(_))));
        let _ = place.remove();
        let _ = std::fs::remove_dir_all(&dir);
    })?;
    match &arguments.pid_file {
        Some(file) => Ok(std::fs::write(file, pid.to_string())?),
        None => Ok(()),
    }
}

/// The command's own streams, which the container's process gets.
fn streams() -> Result<[OwnedFd; 3]> {
    Ok([
        std::io::stdin().as_fd().try_clone_to_owned()?,
        std::io::stdout().as_fd().try_clone_to_owned()?,
        std::io::stderr().as_fd().try_clone_to_owned()?,
    ])
}

fn start(known: &Known) -> Result<()> {
    let (status, pid) = known.status()?;
    if status != "created" {
        return Err(format!("container {:?} is {status}", known.id).into());
    }
    if known.config.process.is_none() {
        return Err("process is not set".into());
    }
    let prestart = |hook: &Hook| -> Result<()> {
        call(hook, &known.state()?).map_err(|error| format!("{}: {error}", hook.path).into())
    };
    if let Err(error) = known.config.hooks.prestart.iter().try_for_each(prestart) {
        known.place.signal(SIGKILL)?;
        patiently("the container does not end", || Ok(!matches!(known.place.now()?, Now::Running(_))))?;
        delete(known)?;
        return Err(format!("prestart hook {error}").into());
    }
    let program = || std::fs::read_link(format!("/proc/{pid}/exe")).ok();
    let starter = program();
    std::fs::write(known.dir.join("started"), "")?;
    known.place.signal(SIGRTMAX)?;
    patiently("the program does not start", || {
        Ok(program() != starter || !matches!(known.place.now()?, Now::Running(_)))
    })?;
    // The container runs for these hooks, however briefly.
    let state = known.state_as("running", pid);
    for hook in &known.config.hooks.poststart {
        if let Err(error) = call(hook, &state) {
            eprintln!("coracle-oci: warning: poststart hook {}: {error}", hook.path);
        }
    }
    Ok(())
}

/// The file for which the starter waits.
const SIGRTMAX: i32 = 64;

const SIGKILL: i32 = 9;

fn state(known: &Known) -> Result<()> {
    println!("{}", known.state()?);
    Ok(())
}

fn kill(known: &Known, signal: &str) -> Result<()> {
    let (status, _) = known.status()?;
    if status == "stopped" {
        return Err(format!("container {:?} is stopped", known.id).into());
    }
    Ok(known.place.signal(signal_number(signal)?)?)
}

fn delete(known: &Known) -> Result<()> {
    let (status, _) = known.status()?;
    if status != "stopped" {
        return Err(format!("container {:?} is {status}", known.id).into());
    }
    let state = known.state()?;
    known.place.remove()?;
    for hook in &known.config.hooks.poststop {
        if let Err(error) = call(hook, &state) {
            eprintln!("coracle-oci: warning: poststop hook {}: {error}", hook.path);
        }
    }
    Ok(())
}

/// Whether the starter has come to where it waits: a signal before that would be lost.
fn waits(pid: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:"));
    let blocked = blocked.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok()).unwrap_or(0);
    blocked & 1 << (SIGRTMAX - 2) != 0
}

/// Waits until something is so.
fn patiently(otherwise: &str, is_so: impl Fn() -> Result<bool>) -> Result<()> {
    let until = Instant::now() + Duration::from_secs(10);
    while !is_so()? {
        if Instant::now() > until {
            return Err(otherwise.into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// A hook gets the state as its input.
fn call(hook: &Hook, state: &Value) -> Result<()> {
    use std::os::unix::process::CommandExt;
    let mut command = Command::new(&hook.path);
    if let Some(name) = hook.args.first() {
        command.arg0(name);
    }
    let pairs = hook.env.iter().filter_map(|pair| pair.split_once('='));
    let mut child = command.args(hook.args.iter().skip(1)).env_clear().envs(pairs).stdin(Stdio::piped()).spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // One that does not read it has ended, or closed it.
        let _ = stdin.write_all(state.to_string().as_bytes());
    }
    let until = hook.timeout.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    loop {
        if let Some(status) = child.try_wait()? {
            return if status.success() { Ok(()) } else { Err(status.to_string().into()) };
        }
        if until.is_some_and(|until| Instant::now() > until) {
            child.kill()?;
            child.wait()?;
            return Err("it takes too long".into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
