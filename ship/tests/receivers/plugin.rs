//! A log plugin: a program behind a socket and a FIFO.

use crate::world::*;
use coracle_ship::{LogPlugin, Plan, outbox};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The plugin of the suite.
struct Plugin {
    dir: PathBuf,
    _running: Program,
}

impl Plugin {
    fn start(world: &World) -> Plugin {
        let dir = world.dir.join("plugin");
        std::fs::create_dir_all(&dir).expect("a directory");
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/support/log-plugin.py");
        let socket = dir.join("sock");
        let mut command = Command::new("python3");
        let running = Program::start(command.arg(program).args([&socket, &dir.join("calls"), &dir.join("out")]));
        wait_for("the plugin", || std::os::unix::net::UnixStream::connect(&socket).is_ok());
        Plugin { dir, _running: running }
    }

    fn fifos(&self) -> PathBuf {
        self.dir.join("fifos")
    }

    /// A container whose lines go to the plugin.
    fn container(&self, world: &World, name: &str) -> Log {
        let log = world.container(name, "journald", &[]);
        let plan = outbox::Entry::new(&world.root(), &log.id).plan().expect("a plan");
        let fifos = self.fifos().display().to_string();
        let plugin = LogPlugin {
            address: format!("unix://{}", self.dir.join("sock").display()),
            fifo_dir: fifos.clone(),
            seen_dir: fifos,
            info: serde_json::json!({ "ContainerName": format!("/{name}") }).to_string(),
        };
        outbox::write_plan(&world.root(), &Plan { driver: "scribe".into(), plugin: Some(plugin), ..plan })
            .expect("write the plan");
        log
    }

    fn calls(&self, method: &str) -> usize {
        let text = std::fs::read_to_string(self.dir.join("calls")).unwrap_or_default();
        text.lines().filter(|line| line.starts_with(&format!("LogDriver.{method} "))).count()
    }

    fn out(&self) -> String {
        std::fs::read_to_string(self.dir.join("out")).unwrap_or_default()
    }
}

#[test]
fn a_shipper_that_ends_by_itself_leaves_no_stream_to_a_plugin() {
    let world = World::new();
    let plugin = Plugin::start(&world);
    let mut logs = ["a", "b", "c"].map(|name| plugin.container(&world, name));
    logs.iter_mut().for_each(|log| log.write(100));
    world.ship_until_done();
    for log in &logs {
        assert_eq!(log.await_delivery(), (100, 0));
        arrived(log, || plugin.out());
    }
    assert_eq!((plugin.calls("StartLogging"), plugin.calls("StopLogging")), (3, 3));
    assert_eq!(std::fs::read_dir(plugin.fifos()).expect("the directory of FIFOs").count(), 0);
}

#[test]
fn lines_that_come_later_reach_a_plugin() {
    let mut world = World::new();
    let plugin = Plugin::start(&world);
    // More than have a watch of their own.
    let mut logs: Vec<Log> = (10..30).map(|number| plugin.container(&world, &number.to_string())).collect();
    world.ship();
    for _ in 0..4 {
        logs.iter_mut().for_each(|log| log.write(20));
        for log in &logs {
            assert_eq!(log.await_delivery(), (log.written, 0));
            let counts = arrived(log, || plugin.out());
            assert!(counts.values().all(|count| *count == 1), "lines came twice");
        }
    }
}
