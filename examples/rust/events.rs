//! Follows the events of a root, while a container is made, run and removed: `cargo run --example events -- ROOT`. The root
//! has the image busybox.

use coracle::model::{ContainerConfig, CreateBody, EventQuery, HostConfig, RemoveContainer};
use coracle::{Engine, Op};
use std::time::Duration;

fn main() -> coracle::Result<()> {
    let root = std::env::args().nth(1).unwrap_or("/var/lib/coracle".into());
    let engine = Engine::open(root)?;
    // Events of every program on the root, from here on.
    let mut query = EventQuery::default();
    query.filters.insert("type".into(), vec!["container".into()]);
    let mut events = engine.events(&query)?;

    let config = ContainerConfig { image: "busybox".into(), cmd: Some(vec!["true".into()]), ..Default::default() };
    let host_config = HostConfig { network_mode: "none".into(), ..Default::default() };
    let id = engine.container_create(None, &CreateBody { config, host_config, ..Default::default() })?.id;
    engine.container_start(&id, None, None)?;
    engine.container_wait(&id, None)?;
    engine.container_remove(&id, RemoveContainer::default(), None)?;

    let op = Op::new()?;
    op.set_timeout(Some(Duration::from_secs(30)));
    while let Some((sequence, event)) = events.next(None, Some(&op))? {
        println!("{sequence} {} {}", event.action, event.actor.id);
        // A program that begins again later asks for the events `after` this number.
        if event.action == "destroy" && event.actor.id == id {
            break;
        }
    }
    Ok(())
}
