//! Plain TCP: a line counts as delivered when the other side's kernel has it, and never earlier.

use crate::world::*;
use coracle_ship::cursor::Fault;
use nix::sys::socket::{setsockopt, sockopt};
use std::io::{ErrorKind, Read};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

/// How many bytes a socket's kernel has for its program.
fn waiting(socket: &TcpStream) -> usize {
    let mut count: libc::c_int = 0;
    // SAFETY: the request writes one int, which `count` is.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::FIONREAD, &raw mut count) };
    assert_eq!(done, 0);
    usize::try_from(count).expect("a count")
}

#[test]
fn lines_in_the_sender_s_own_kernel_are_not_delivered_and_come_again() {
    let mut world = World::new();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = format!("tcp://{}", listener.local_addr().expect("an address"));
    let mut log = world.container("a", "syslog", &[("syslog-address", &address)]);
    log.write_with(300_000, &" xxxxxxxxx".repeat(10));
    world.ship();
    let (mut first, _) = listener.accept().expect("a connection");
    // The receiver's program reads nothing: both kernels fill up.
    let mut before = (0, 0);
    wait_for("a standstill", || {
        std::thread::sleep(Duration::from_millis(500));
        let now = (waiting(&first), log.status().map_or(0, |status| status.cursor.delivered));
        std::mem::replace(&mut before, now) == now && now.1 > 0
    });
    let (bytes, delivered) = before;
    let mut taken = vec![0; bytes];
    first.read_exact(&mut taken).expect("the bytes that are here");
    let whole = taken.iter().filter(|byte| **byte == b'\n').count() as u64;
    assert!(delivered <= whole, "{delivered} lines count as delivered, and the receiver's kernel has {whole}");
    // The receiver breaks the connection. Everything that does not count as delivered comes again.
    drop(first);
    let delivered = log.status().expect("a status").cursor.delivered;
    let mut text = String::from_utf8_lossy(&taken).into_owned();
    listener.set_nonblocking(true).expect("no waiting");
    let until = Instant::now() + SOON;
    while log.status().is_none_or(|status| status.owed.lines > 0) {
        assert!(Instant::now() < until, "the rest does not come");
        match listener.accept() {
            Ok((mut next, _)) => {
                drain(&mut next, &mut text, || log.status().is_none_or(|status| status.owed.lines > 0))
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let counts = numbers(&text, &log);
    let lost: Vec<u64> = (delivered + 1..=log.written).filter(|number| !counts.contains_key(number)).collect();
    assert_eq!(lost, [] as [u64; 0]);
}

/// Reads as long as there is more to come.
fn drain(socket: &mut TcpStream, text: &mut String, more: impl Fn() -> bool) {
    socket.set_nonblocking(false).expect("waiting");
    socket.set_read_timeout(Some(Duration::from_millis(200))).expect("a bound");
    let mut block = vec![0; 1 << 20];
    loop {
        match socket.read(&mut block) {
            Ok(0) => return,
            Ok(length) => text.push_str(&String::from_utf8_lossy(&block[..length])),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                if !more() {
                    return;
                }
            }
            Err(_) => return,
        }
    }
}

/// Prints how many lines a second reach a receiver that only reads: `make test-receivers` shows it.
#[test]
fn speed_of_plain_tcp() {
    let mut world = World::new();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = format!("tcp://{}", listener.local_addr().expect("an address"));
    let mut log = world.container("a", "syslog", &[("syslog-address", &address)]);
    log.write_with(200_000, &" xxxxxxxxx".repeat(8));
    let reader = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().expect("a connection");
        let (mut block, mut lines) = (vec![0; 1 << 20], 0);
        while lines < 200_000 {
            let length = socket.read(&mut block).expect("lines");
            lines += block[..length].iter().filter(|byte| **byte == b'\n').count();
        }
        lines
    });
    let began = Instant::now();
    world.ship();
    assert_eq!(reader.join().expect("the reader"), 200_000);
    let time = began.elapsed();
    println!("{:.0} lines a second of 100 bytes", 200_000.0 / time.as_secs_f64());
    assert_eq!(log.await_delivery(), (200_000, 0));
}

#[test]
fn a_receiver_of_requests_that_reads_nothing_is_given_up_and_tried_again() {
    let mut world = World::new();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    // Small packets: the kernels have no room for a request.
    setsockopt(&listener, sockopt::TcpMaxSeg, &536)
        .and_then(|()| setsockopt(&listener, sockopt::RcvBuf, &4096))
        .expect("small buffers");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let mut log = world.container("a", "splunk", &[("splunk-url", &url), ("splunk-token", "t")]);
    log.write_with(1000, &" xxxxxxxxx".repeat(20));
    world.ship();
    let (first, _) = listener.accept().expect("a connection");
    wait_for("the failure", || log.status().is_some_and(|status| !status.cursor.error().is_empty()));
    let status = log.status().expect("a status");
    assert_eq!((status.cursor.delivered, status.owed.lines), (0, 1000));
    assert_eq!(status.cursor.fault, Some((Fault::Send, libc::ETIMEDOUT)), "the request did not fit into the kernels");
    let (second, _) = listener.accept().expect("another connection");
    drop((first, second));
}
