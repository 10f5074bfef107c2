//! Follows a container's log while the container runs: `cargo run --example logs -- ROOT`. The root has the image busybox.

use coracle::Engine;
use coracle::model::{ContainerConfig, CreateBody, HostConfig, LogQuery, RemoveContainer};

fn main() -> coracle::Result<()> {
    let root = std::env::args().nth(1).unwrap_or("/var/lib/coracle".into());
    let engine = Engine::open(root)?;
    let config = ContainerConfig {
        image: "busybox".into(),
        cmd: Some(["sh", "-c", "for i in 1 2 3; do echo line $i; sleep 0.1; done"].map(String::from).to_vec()),
        ..Default::default()
    };
    let host_config = HostConfig { network_mode: "none".into(), ..Default::default() };
    let id = engine.container_create(None, &CreateBody { config, host_config, ..Default::default() })?.id;
    engine.container_start(&id, None, None)?;

    // `next` waits for a line; None is the log's end, which comes after the container's.
    let mut log = engine.container_logs(&id, &LogQuery { follow: true, ..Default::default() }, None)?;
    while let Some(line) = log.next(None, None)? {
        print!("{} {:?} {}", line.time_ns, line.channel, String::from_utf8_lossy(&line.data));
    }
    // A reader that is slower than the rotation of the log misses lines, and learns how many.
    println!("{} lines were missed", log.lost());
    engine.container_wait(&id, None)?;
    engine.container_remove(&id, RemoveContainer::default(), None)
}
