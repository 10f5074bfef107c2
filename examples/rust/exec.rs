//! Runs a second process in a container, and writes its stdin: `cargo run --example exec -- ROOT`. The root has the image
//! busybox.

use coracle::model::{ContainerConfig, CreateBody, ExecConfig, HostConfig, RemoveContainer};
use coracle::{Engine, Io, Session, SessionRead};

fn main() -> coracle::Result<()> {
    let root = std::env::args().nth(1).unwrap_or("/var/lib/coracle".into());
    let engine = Engine::open(root)?;
    let config = ContainerConfig {
        image: "busybox".into(),
        cmd: Some(["sleep", "1000"].map(String::from).to_vec()),
        ..Default::default()
    };
    let host_config = HostConfig { network_mode: "none".into(), ..Default::default() };
    let id = engine.container_create(None, &CreateBody { config, host_config, ..Default::default() })?.id;
    engine.container_start(&id, None, None)?;

    let exec = ExecConfig {
        cmd: Some(vec!["sort".into()]),
        attach_stdin: true,
        attach_stdout: true,
        attach_stderr: true,
        ..Default::default()
    };
    let exec = engine.exec_create(&id, &exec)?;
    let session = engine.exec_start(&exec, Some(Io::default()), None)?.expect("an attached exec has a session");
    write_all(&session, b"pear\napple\nfig\n")?;
    // `sort` answers when its input has ended.
    session.close_stdin()?;
    let mut piece = [0; 4096];
    while let SessionRead::Data(_, length) = session.read(&mut piece, None)? {
        print!("{}", String::from_utf8_lossy(&piece[..length]));
    }
    println!("exit code {}", session.wait(None)?);
    engine.container_remove(&id, RemoveContainer { force: true, ..Default::default() }, None)
}

/// Input that is longer than the pipe is read while the process writes: use a thread for it.
fn write_all(session: &Session, mut input: &[u8]) -> coracle::Result<()> {
    while !input.is_empty() {
        let written = session.write(input, None)?;
        input = &input[written..];
    }
    Ok(())
}
