//! The main job: a container's whole life through the Rust API.
//!
//! `cargo run --example main_job -- ARCHIVE.tar [ROOT [RUN]]`: ARCHIVE is what `docker save` or
//! `tools/make-busybox-image` makes of a busybox image. Without ROOT it uses a new directory and removes it. Needs root.

use coracle::model::*;
use coracle::{Channel, Engine, Io, Op, Options, Result, Session, SessionRead};
use std::path::{Path, PathBuf};
use std::time::Duration;

fn main() -> std::process::ExitCode {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let Some(archive) = arguments.next() else {
        eprintln!("usage: main_job ARCHIVE.tar [ROOT [RUN]]");
        return 2.into();
    };
    let own = std::env::temp_dir().join(format!("coracle-main-job-{}", std::process::id()));
    let root = arguments.next();
    let mut options = Options::new(root.clone().unwrap_or_else(|| own.join("root")));
    options.run_dir = arguments.next().or_else(|| root.is_none().then(|| own.join("run")));
    let result = main_job(options, &archive);
    if root.is_none() {
        let _ = std::fs::remove_dir_all(&own);
    }
    match result {
        Ok(()) => 0.into(),
        Err(error) => {
            eprintln!("main_job: {error}");
            1.into()
        }
    }
}

fn main_job(options: Options, archive: &Path) -> Result<()> {
    let engine = Engine::open_with(options)?;
    let mut events = engine.events(&EventQuery::default())?;

    let mut file = std::fs::File::open(archive)?;
    let loaded = engine.image_load(&mut file, &mut |_| Ok(()), None)?;
    println!("load: {}", loaded.join(", "));
    let image = engine.image_inspect(&loaded[0])?;

    let body = CreateBody {
        config: ContainerConfig {
            image: loaded[0].clone(),
            cmd: words(&["sh", "-c", SCRIPT]),
            attach_stdin: true,
            attach_stdout: true,
            attach_stderr: true,
            open_stdin: true,
            stdin_once: true,
            ..ContainerConfig::default()
        },
        host_config: HostConfig { network_mode: "none".into(), ..HostConfig::default() },
        ..CreateBody::default()
    };
    // A failure on the way must not leave a container running.
    let id = engine.container_create(Some("main-job"), &body)?.id;
    println!("create: {}", short(&id));
    let done = life(&engine, &id, &image.id);
    if done.is_err() {
        let force = RemoveContainer { force: true, ..RemoveContainer::default() };
        let _ = engine.container_remove(&id, force, None);
    }
    done?;

    let mut seen = Vec::new();
    while let Some((_, event)) = events.next(Some(Duration::from_secs(5)), None)? {
        let last = event.action == "destroy" && event.actor.id == id;
        seen.push(event.action);
        if last {
            break;
        }
    }
    println!("events: {}", seen.join(", "));
    Ok(())
}

/// Says it is ready, answers each line on both streams, then stays until SIGTERM.
const SCRIPT: &str = "trap 'echo bye; exit 3' TERM; echo ready; \
                      while read line; do echo \"out $line\"; echo \"err $line\" >&2; done; \
                      while :; do sleep 0.05; done";

fn life(engine: &Engine, id: &str, image: &str) -> Result<()> {
    // Attach and start in one step: not a byte of the output can be missed.
    let started = engine.container_start(id, Some(Io::default()), Some(&within(10)?))?;
    let mut lines = Lines::of(started.session.ok_or_else(|| coracle::Error::internal("start gave no session"))?);
    println!("start, attached: {}", lines.next(Channel::Stdout)?);

    lines.session.write(b"hello\n", None)?;
    println!("stdout: {}", lines.next(Channel::Stdout)?);
    println!("stderr: {}", lines.next(Channel::Stderr)?);
    lines.session.close_stdin()?;

    let detail = engine.container_inspect(id, false)?;
    println!(
        "inspect: {} {} of {}",
        detail.name,
        detail.state.status,
        if detail.image == image { "its image" } else { "?" }
    );
    let list = engine.container_list(&ListContainers::default())?;
    println!("list: {} running, {}", list.len(), list[0].status);

    let config = ExecConfig {
        cmd: words(&["sh", "-c", "echo second; exit 5"]),
        attach_stdout: true,
        attach_stderr: true,
        ..ExecConfig::default()
    };
    let exec = engine.exec_create(id, &config)?;
    let second = engine.exec_start(&exec, Some(Io::default()), None)?;
    let mut second = Lines::of(second.ok_or_else(|| coracle::Error::internal("exec start gave no session"))?);
    let line = second.next(Channel::Stdout)?;
    println!("exec: {line}, code {}", second.session.wait(Some(&within(10)?))?);

    engine.container_pause(id)?;
    println!("pause: {}", engine.container_inspect(id, false)?.state.status);
    engine.container_unpause(id)?;
    println!("unpause: {}", engine.container_inspect(id, false)?.state.status);

    engine.container_stop(id, Some(10_000), None)?;
    println!("stop, wait: {}", engine.container_wait(id, Some(&within(20)?))?);

    engine.container_start(id, None, None)?;
    engine.container_kill(id, Some("KILL"), None)?;
    println!("start, kill, wait: {}", engine.container_wait(id, Some(&within(20)?))?);

    let mut log = engine.container_logs(id, &LogQuery::default(), None)?;
    while let Some(line) = log.next(Some(Duration::from_secs(5)), None)? {
        println!("log: {:?}: {}", line.channel, String::from_utf8_lossy(&line.data).trim_end());
    }

    engine.container_rename(id, "retired")?;
    println!("rename: {}", engine.container_inspect("retired", false)?.name);
    engine.container_remove("retired", RemoveContainer::default(), None)?;
    let all = ListContainers { all: true, ..ListContainers::default() };
    println!("remove: {} left", engine.container_list(&all)?.len());
    Ok(())
}

/// Output of a session, cut into lines; the two streams come in any order.
struct Lines {
    session: Session,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Lines {
    fn of(session: Session) -> Lines {
        Lines { session, stdout: Vec::new(), stderr: Vec::new() }
    }

    /// The next line of a stream, without its newline; what is left at its end.
    fn next(&mut self, channel: Channel) -> Result<String> {
        let op = within(10)?;
        let mut buffer = [0; 4096];
        loop {
            let have = if channel == Channel::Stderr { &mut self.stderr } else { &mut self.stdout };
            if let Some(end) = have.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = have.drain(..=end).collect();
                return Ok(String::from_utf8_lossy(&line[..end]).into_owned());
            }
            match self.session.read(&mut buffer, Some(&op))? {
                SessionRead::Data(Channel::Stderr, n) => self.stderr.extend(&buffer[..n]),
                SessionRead::Data(_, n) => self.stdout.extend(&buffer[..n]),
                SessionRead::End => return Err(coracle::Error::internal(format!("no line on {channel:?}"))),
            }
        }
    }
}

fn within(seconds: u64) -> Result<Op> {
    let op = Op::new()?;
    op.set_timeout(Some(Duration::from_secs(seconds)));
    Ok(op)
}

fn words(words: &[&str]) -> Option<Vec<String>> {
    Some(words.iter().map(|word| word.to_string()).collect())
}

fn short(id: &str) -> &str {
    id.get(..12).unwrap_or(id)
}
