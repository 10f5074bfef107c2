//! The three doors: sockets and the users that may bind them, one request in process, a private socket.

use crate::support::{Scratch, engine, rest, serve, until};
use coracle::{ErrorKind, Op};
use coracle_http::{Address, ReplyBody, Router, Server};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

// attack: 131 wall socket-mode
#[test]
fn the_socket_is_for_its_group() {
    let server = serve();
    let mode = std::fs::metadata(server.scratch.path().join("sock")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o660);
}

#[test]
fn a_dead_socket_is_replaced_a_live_one_is_not() {
    let scratch = Scratch::new();
    let router = Router::new(engine(&scratch));
    let path = scratch.path().join("other");
    let address = Address::Unix(path.clone());
    let bind = || Server::bind(router.clone(), std::slice::from_ref(&address), Default::default());
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let server = bind().unwrap();
    let error = bind().err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.message().contains("a server listens on"), "{error}");
    drop(server);
    assert!(!path.exists());
    std::fs::write(&path, "precious").unwrap();
    assert_eq!(bind().err().unwrap().kind(), ErrorKind::Conflict);
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
}

// attack: 145, R10 wall tcp-authenticated
#[test]
fn tcp_without_tls_is_refused_unless_asked_for() {
    let scratch = Scratch::new();
    let router = Router::new(engine(&scratch));
    for address in ["tcp://0.0.0.0:0", "tcp://[::]:0", "tcp://127.0.0.1:0"] {
        let error = Server::bind(router.clone(), &[address.parse().unwrap()], Default::default()).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.message().contains("--tlsverify") && error.message().contains("--insecure-tcp"), "{error}");
    }
}

#[test]
fn one_request_in_process() {
    let scratch = Scratch::new();
    let router = Router::new(engine(&scratch));
    let reply = router.request("GET", "/v1.24/_ping", &[], Vec::new(), None).unwrap();
    assert_eq!(reply.status, 200);
    assert!(matches!(reply.body, ReplyBody::Bytes(ref b) if b == b"OK"));
    assert_eq!(reply.headers.get("api-version"), Some("1.54"));
    let json = [("Content-Type", "application/json")];
    let reply = router.request("POST", "/containers/create", &json, b"{".to_vec(), None).unwrap();
    assert!(matches!(reply.body, ReplyBody::Bytes(ref b) if b == b"{\"message\":\"unexpected EOF\"}\n"));
}

#[test]
fn a_stream_in_process_ends_by_itself_or_when_it_is_cancelled() {
    let scratch = Scratch::new();
    let router = Router::new(engine(&scratch));
    let stream = |target: &str, op: Option<&Op>| match router.request("GET", target, &[], Vec::new(), op).unwrap().body
    {
        ReplyBody::Stream(fd, end) => (UnixStream::from(fd), end),
        other => panic!("{other:?}"),
    };
    let (mut fd, end) = stream("/events?since=1&until=2", None);
    assert_eq!(rest(&mut fd), "");
    assert_eq!(end.complete(), Some(true));
    let op = Op::new().unwrap();
    let (mut fd, end) = stream("/events", Some(&op));
    fd.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    assert!(fd.read(&mut [0]).is_err());
    assert_eq!(end.complete(), None);
    op.cancel();
    fd.set_read_timeout(None).unwrap();
    assert_eq!(rest(&mut fd), "");
    assert_eq!(end.complete(), Some(false));
    // Closing the descriptor ends the work too.
    let (fd, end) = stream("/events", None);
    drop(fd);
    for _ in 0..15_000 {
        if end.complete().is_some() {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(end.complete(), Some(false));
}

#[test]
fn a_private_connection() {
    let scratch = Scratch::new();
    let router = Router::new(engine(&scratch));
    let mut client = UnixStream::from(router.connect().unwrap());
    for _ in 0..2 {
        client.write_all(b"GET /_ping HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        assert!(until(&mut client, "\r\n\r\nOK").starts_with("HTTP/1.1 200 OK"));
    }
}
