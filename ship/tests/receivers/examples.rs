//! The examples of docs/logs.md: each names a driver and its options, and its lines reach a real receiver at the example's
//! address. The test has a network and a `/run` of its own.

use crate::gcp::CloudLogging;
use crate::journal::{CONF, JOURNALD, PLACES};
use crate::peers::{Kind, Peer};
use crate::surroundings::{inside, is_inside};
use crate::world::*;
use std::path::Path;
use std::process::Command;

const NAME: &str = "examples::the_examples_of_the_page_bring_their_lines";
const PAGE: &str = include_str!("../../../docs/logs.md");

/// The driver and the options of each command of the page.
fn examples() -> Vec<(String, Vec<(String, String)>)> {
    let joined = PAGE.replace("\\\n", " ");
    let commands = joined.lines().filter(|line| line.starts_with("coracle run ") && line.contains("--log-driver"));
    let read = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let behind = |flag: &str| {
            let places = words.iter().enumerate().filter(|(_, word)| **word == flag).map(|(at, _)| at + 1);
            places.map(|at| words[at].trim_matches('\'').to_owned()).collect::<Vec<_>>()
        };
        let split = |option: String| option.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
        let driver = behind("--log-driver").pop().expect("a driver");
        (driver, behind("--log-opt").into_iter().map(|option| split(option).expect("an option")).collect())
    };
    commands.map(read).collect()
}

/// A receiver of an example, running, and how its text is read.
type Running<'a> = (Vec<Program>, Box<dyn Fn() -> String + 'a>);

fn start<'a>(world: &World, kept: &'a mut Vec<Peer>, driver: &str, at: &str) -> Running<'a> {
    let port = at.rsplit(':').next().and_then(|port| port.trim_end_matches("/v1/logs").parse().ok());
    let kind = match (driver, at) {
        ("syslog", at) if at.starts_with("relp") => Kind::Relp,
        ("syslog", _) => Kind::SyslogTcp,
        ("fluentd", _) => Kind::Fluentd,
        ("splunk", _) => Kind::Splunk,
        ("otlp", _) => Kind::Otlp,
        ("awslogs", _) => Kind::Awslogs,
        ("gelf", _) => return gelf(world, at),
        ("gcplogs", _) => return gcp(world, port.expect("a port")),
        ("journald", _) => {
            let running = Program::start(&mut Command::new(JOURNALD));
            wait_for("journald", || Path::new("/run/systemd/journal/socket").exists());
            return (vec![running], Box::new(crate::journal::entries));
        }
        other => panic!("an example without a receiver: {other:?}"),
    };
    kept.push(Peer::at(world, kind, port.expect("a port")));
    let peer = kept.last().expect("it was pushed");
    let running = peer.start();
    if kind == Kind::Awslogs {
        std::fs::copy(world.dir.join("keys"), "/run/secrets/aws-keys").expect("the keys");
        return (vec![running], Box::new(|| peer.moto_text("web", "web-1")));
    }
    (vec![running], Box::new(|| peer.text()))
}

fn gelf(world: &World, at: &str) -> Running<'static> {
    let (kind, address) = at.split_once("://").expect("an address");
    let out = world.dir.join("gelf");
    let running = Program::start(Command::new(crate::gelf::program()).args([kind, address]).arg(&out));
    wait_for("the receiver", || out.with_extension("ready").exists());
    (vec![running], Box::new(move || std::fs::read_to_string(&out).unwrap_or_default()))
}

fn gcp(world: &World, port: u16) -> Running<'static> {
    let service = CloudLogging { port, ..CloudLogging::new(world) };
    std::fs::copy(service.dir.join("good.json"), "/run/secrets/gcp-key.json").expect("the key");
    (vec![service.start()], Box::new(move || service.out()))
}

#[test]
fn the_examples_of_the_page_bring_their_lines() {
    if !is_inside(NAME) {
        let script = format!("ip link set lo up\nCONF='{}'\n{PLACES}\nmkdir /run/secrets", CONF.replace('\n', "\\n"));
        return inside(NAME, &["--mount", "--net"], &script);
    }
    let examples = examples();
    for driver in coracle_ship::drivers::NAMES {
        assert!(examples.iter().any(|(other, _)| other == driver), "the page has no example of {driver}");
    }
    for (driver, options) in examples {
        let mut world = World::new();
        let options: Vec<(&str, &str)> = options.iter().map(|(key, value)| (&**key, &**value)).collect();
        let is_address = |key: &str| ["address", "url", "endpoint"].iter().any(|end| key.ends_with(end));
        let at = options.iter().find(|(key, _)| is_address(key)).map_or("", |(_, value)| value);
        let mut kept = Vec::new();
        let (_running, text) = start(&world, &mut kept, &driver, at);
        let mut log = world.container("a", &driver, &options);
        log.write(10);
        world.ship();
        assert_eq!(log.await_delivery(), (10, 0), "{driver} {options:?}");
        arrived(&log, &text);
        println!("measured: {driver} {options:?}");
    }
}
