//! The values of the Rust interface: containers, requests made step by step, streams as iterators and as descriptors.

use crate::support::*;
use coracle::model::*;
use coracle::{Channel, Io, SessionRead};
use std::os::fd::AsFd;
use std::time::Duration;

fn lasting() -> CreateBody {
    CreateBody::of(IMAGE).cmd(["sh", "-c", "trap 'exit 5' TERM; echo up; while :; do sleep 0.1; done"]).network("none")
}

#[test]
fn a_container_as_a_value_lives_from_its_creation_to_its_removal() {
    let root = Root::new();
    let request = lasting().env("PLACE", "here").label("site", "north").user("0").working_dir("/tmp").memory(64 << 20);
    let container = root.engine.create(Some("job"), &request).expect("create");
    container.start().expect("start");
    let first = container.logs(&LogQuery::default().followed()).expect("logs").into_iter().next();
    let first = first.expect("a line").expect("read");
    assert_eq!((first.channel, &*first.data), (Channel::Stdout, &b"up\n"[..]));

    let same = root.engine.container("job");
    let seen = same.inspect().expect("inspect");
    assert_eq!((seen.id.as_str(), seen.host_config.resources.memory), (container.id(), 64 << 20));
    let config = ExecConfig::of(["sh", "-c", "echo $PLACE $MORE; pwd; exit 4"]).env("MORE", "there");
    let session = same.exec(&config, Io::default()).expect("exec");
    let (mut output, mut piece) = (Vec::new(), [0; 256]);
    while let SessionRead::Data(_, length) = session.read(&mut piece, Some(&soon())).expect("read") {
        output.extend_from_slice(&piece[..length]);
    }
    assert_eq!(
        (String::from_utf8_lossy(&output).as_ref(), session.wait(Some(&soon())).expect("wait")),
        ("here there\n/tmp\n", 4)
    );

    let found = ListContainers::default().filter("label", "site=north");
    assert_eq!(root.engine.container_list(&found).expect("list").len(), 1);
    same.pause().expect("pause");
    same.unpause().expect("unpause");
    same.stop(Some(Duration::from_secs(60))).expect("stop");
    assert_eq!(container.wait().expect("wait"), 5);
    assert!(root.engine.container_list(&found).expect("list").is_empty());
    assert_eq!(root.engine.container_list(&found.stopped_too()).expect("list").len(), 1);
    container.remove().expect("remove");
    assert_eq!(container.inspect().unwrap_err().kind(), coracle::ErrorKind::NotFound);
}

#[test]
fn streams_are_iterators_and_descriptors() {
    let root = Root::new();
    let filters = [("type".to_owned(), vec!["container".to_owned()])].into();
    let events = root.engine.events(&EventQuery { filters, ..EventQuery::default() }).expect("events");
    let container = root.engine.create(None, &lasting()).expect("create");
    container.start().expect("start");
    let actions: Vec<String> = events.into_iter().map(|event| event.expect("an event").1.action).take(2).collect();
    assert_eq!(actions, ["create", "start"]);

    let mut samples = container.stats(StatsQuery { stream: false, one_shot: true }).expect("stats");
    assert_eq!((&mut samples).into_iter().filter(|sample| sample.is_ok()).count(), 1);
    let log = container.logs(&LogQuery::default()).expect("logs");
    let (of_log, of_samples) = (log.as_fd().try_clone_to_owned(), samples.as_fd().try_clone_to_owned());
    assert!(of_log.is_ok() && of_samples.is_ok());
    container.remove_by_force().expect("remove");
}

#[test]
fn published_ports_of_a_request_add_up() {
    let request = CreateBody::of(IMAGE)
        .publish("80/tcp", "", "8080")
        .publish("80/tcp", "127.0.0.1", "")
        .publish("53/udp", "", "");
    let written = serde_json::to_value(&request).expect("JSON");
    let expected = serde_json::json!({
        "53/udp": [{ "HostIp": "", "HostPort": "" }],
        "80/tcp": [{ "HostIp": "", "HostPort": "8080" }, { "HostIp": "127.0.0.1", "HostPort": "" }],
    });
    assert_eq!(written["HostConfig"]["PortBindings"], expected);
    assert_eq!(written["ExposedPorts"], serde_json::json!({ "53/udp": {}, "80/tcp": {} }));
}
