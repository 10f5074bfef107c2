//! Long lines at each kind of receiver.

use crate::faults::KINDS;
use crate::peers::Peer;
use crate::world::*;

#[test]
fn parts_of_a_line_are_one_message_again_if_an_option_joins_them() {
    for kind in KINDS {
        let mut world = World::new();
        let peer = Peer::new(&world, kind);
        let _running = peer.start();
        let mut log = peer.log_with(&world, "a", peer.port, &[("max-line-size", "48k")]);
        world.ship();
        let text = format!("{} n=1;{}.", &log.id[60..], "x".repeat(40_000));
        log.push_in_parts(&text, 16 << 10);
        log.write_with(1, ";");
        assert_eq!(log.await_delivery(), (4, 0), "{kind:?}");
        wait_for("the whole line", || peer.text().contains(&text));
    }
}

#[test]
fn the_beginning_of_a_line_is_delivered_though_its_end_never_comes() {
    let mut world = World::new();
    let peer = Peer::new(&world, crate::peers::Kind::Fluentd);
    let _running = peer.start();
    let mut log = peer.log_with(&world, "a", peer.port, &[("max-line-size", "1m")]);
    world.ship();
    log.push_record(&"y".repeat(16 << 10), false);
    assert_eq!(log.await_delivery(), (1, 0));
    wait_for("the beginning", || peer.text().contains(&"y".repeat(16 << 10)));
}
