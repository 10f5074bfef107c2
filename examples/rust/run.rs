//! Runs a container, and reads its output: `cargo run --example run -- ROOT`. The root has the image busybox.

use coracle::model::{ContainerConfig, CreateBody, HostConfig, RemoveContainer};
use coracle::{Channel, Engine, Io, SessionRead};

fn main() -> coracle::Result<()> {
    let root = std::env::args().nth(1).unwrap_or("/var/lib/coracle".into());
    let engine = Engine::open(root)?;
    let config = ContainerConfig {
        image: "busybox".into(),
        cmd: Some(["sh", "-c", "echo output; echo errors >&2; exit 3"].map(String::from).to_vec()),
        ..Default::default()
    };
    let host_config = HostConfig { network_mode: "none".into(), ..Default::default() };
    let id = engine.container_create(None, &CreateBody { config, host_config, ..Default::default() })?.id;

    // The session is there before the program runs, so no byte is missed.
    let session =
        engine.container_start(&id, Some(Io::default()), None)?.session.expect("a container that did not run");
    let mut piece = [0; 4096];
    while let SessionRead::Data(channel, length) = session.read(&mut piece, None)? {
        let name = if channel == Channel::Stderr { "stderr" } else { "stdout" };
        print!("{name}: {}", String::from_utf8_lossy(&piece[..length]));
    }
    println!("exit code {}", session.wait(None)?);
    engine.container_remove(&id, RemoveContainer::default(), None)
}
