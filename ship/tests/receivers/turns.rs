//! Several containers with one receiver that breaks at the content of one of them: the others' lines are delivered.

use crate::peers::{Kind, Peer};
use crate::world::*;
use nix::sys::socket::{setsockopt, sockopt};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};

/// The words that a guard passes to no receiver.
const FORBIDDEN: &[u8] = b"forbidden";

/// The deed of a guard at the forbidden words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Guard {
    /// Ends the connection with a reset.
    Resets,
    /// Passes nothing more on, in no direction: no answer comes.
    Swallows,
}

/// Passes connections on to a port as long as their content is allowed; returns the port to connect to. Its threads end with
/// their connections, and the last one with the test's program.
fn guard(to: u16, guard: Guard) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for from in listener.incoming() {
            let Ok(from) = from else { return };
            std::thread::spawn(move || pass(&from, to, guard));
        }
    });
    port
}

fn pass(from: &TcpStream, to: u16, guard: Guard) {
    let Ok(to) = TcpStream::connect(("127.0.0.1", to)) else { return };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut block = [0; 4096];
            while let Ok(got @ 1..) = (&to).read(&mut block) {
                if (&mut &*from).write_all(&block[..got]).is_err() {
                    return;
                }
            }
        });
        let (mut block, mut seen) = (vec![0; 64 << 10], Vec::new());
        while let Ok(got @ 1..) = (&mut &*from).read(&mut block) {
            seen.extend_from_slice(&block[..got]);
            if seen.windows(FORBIDDEN.len()).any(|words| words == FORBIDDEN) {
                match guard {
                    Guard::Resets => {
                        let now = libc::linger { l_onoff: 1, l_linger: 0 };
                        setsockopt(from, sockopt::Linger, &now).expect("a reset");
                    }
                    // Until the sender gives up.
                    Guard::Swallows => while matches!((&mut &*from).read(&mut block), Ok(1..)) {},
                }
                break;
            }
            if (&to).write_all(&block[..got]).is_err() {
                break;
            }
            seen.drain(..seen.len().saturating_sub(FORBIDDEN.len()));
        }
        let _ = to.shutdown(Shutdown::Both);
    });
}

/// Three containers; the first one's lines do not pass. Those of the others do, again and again.
fn others_have_their_turns(kind: Kind, how: Guard, rounds: u64) {
    let mut world = World::new();
    let peer = Peer::new(&world, kind);
    let _running = peer.start();
    let port = guard(peer.port, how);
    let mut logs = ["a", "b", "c"].map(|name| peer.log(&world, name, port));
    logs[0].write_with(3, " forbidden;");
    for log in &mut logs[1..] {
        log.write_with(500, ";");
    }
    world.ship();
    for _ in 0..rounds {
        for log in &mut logs[1..] {
            log.write_with(50, ";");
        }
        for log in &logs[1..] {
            assert_eq!(log.await_delivery(), (log.written, 0), "{kind:?} {how:?}");
            wait_for("the lines", || peer.counts(log).len() as u64 == log.written);
        }
    }
    wait_for("the failure of the first one", || {
        logs[0].status().is_some_and(|status| !status.cursor.error().is_empty())
    });
    assert_eq!(logs[0].status().map(|status| status.owed.lines), Some(3), "{kind:?} {how:?}");
}

#[test]
fn a_log_at_which_the_connection_is_reset_holds_no_other_one_up() {
    for kind in [Kind::Fluentd, Kind::Splunk, Kind::Relp, Kind::SyslogTcp, Kind::GelfTcp] {
        others_have_their_turns(kind, Guard::Resets, 3);
    }
}

#[test]
fn a_log_that_the_receiver_never_answers_holds_no_other_one_up() {
    others_have_their_turns(Kind::Fluentd, Guard::Swallows, 1);
}
