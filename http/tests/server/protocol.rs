//! HTTP itself: connections, framing, streams, limits, ending.

use crate::support::{Answer, LONG, rest, serve, serve_with, until};
use coracle_http::{Limits, RouterOptions, ServerOptions};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

const PING: &str = "GET /_ping HTTP/1.1\r\nHost: x\r\n\r\n";

fn limited(limits: Limits) -> crate::support::Running {
    serve_with(RouterOptions::default(), ServerOptions { limits, ..Default::default() }, &[])
}

#[test]
fn requests_follow_each_other_and_may_come_early() {
    let server = serve();
    let mut client = server.connect();
    for _ in 0..3 {
        client.write_all(PING.as_bytes()).unwrap();
        assert!(until(&mut client, "\r\n\r\nOK").starts_with("HTTP/1.1 200 OK\r\n"));
    }
    client.write_all(PING.repeat(5).as_bytes()).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(rest(&mut client).matches("HTTP/1.1 200 OK").count(), 5);
}

#[test]
fn bodies_nobody_reads_do_not_spoil_the_next_request() {
    let server = serve();
    let body = "x".repeat(100_000);
    let length = format!("POST /nope HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let chunks = format!(
        "POST /nope HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n{:x};name=value\r\n{body}\r\n0\r\nTrailer: \
         v\r\nOther: w\r\n\r\n",
        body.len()
    );
    let last = PING.replace("Host", "Connection: close\r\nHost");
    let all = server.raw(&format!("{length}{chunks}\r\n{last}"));
    assert_eq!(all.matches("HTTP/1.1 404").count(), 2, "{all}");
    assert!(all.ends_with("\r\n\r\nOK"), "{all}");
}

#[test]
fn a_client_with_a_needless_body_gets_the_answer() {
    let server = serve();
    let body = "x".repeat(5 << 20);
    for (version, closing) in [("1.1", ""), ("1.1", "Connection: close\r\n"), ("1.0", "")] {
        for path in ["/nope", "/v1.24/containers/none/start"] {
            let mut client = server.connect();
            let head =
                format!("POST {path} HTTP/{version}\r\nHost: x\r\n{closing}Content-Length: {}\r\n\r\n", body.len());
            client.write_all(head.as_bytes()).unwrap();
            // The answer is not looked for before all is sent.
            let sent = client.write_all(body.as_bytes());
            assert!(sent.is_ok(), "{path} {version} {closing}: {sent:?}");
            client.shutdown(Shutdown::Write).unwrap();
            let answer = rest(&mut client);
            assert!(answer.starts_with(&format!("HTTP/{version} 4")), "{path} {version} {closing}: {answer}");
        }
    }
}

/// The answer goes out before a body that takes its time, and the connection stays for the body.
#[test]
fn a_slow_body_meets_an_open_connection() {
    let server = serve();
    let mut client = server.connect();
    client.write_all(b"POST /nope HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 5\r\n\r\n").unwrap();
    assert!(until(&mut client, "\r\n\r\n").starts_with("HTTP/1.1 404"));
    // Longer than the server looks for the body before the answer (2 s), and much less than after the answer (10 s).
    std::thread::sleep(Duration::from_secs(3));
    client.write_all(b"hello").unwrap();
    rest(&mut client);
}

#[test]
fn chunked_documents_are_read() {
    let server = serve();
    let request = "POST /containers/create HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: \
                   chunked\r\nConnection: close\r\n\r\n1\r\n{\r\n1\r\na\r\n0\r\nT: x\r\n\r\n";
    let answer = Answer::parse(&server.raw(request));
    assert!(answer.body.contains("invalid character 'a' looking for beginning of object key string"), "{answer:?}");
}

#[test]
fn a_body_is_asked_for_when_it_is_read() {
    let server = serve();
    let head = |path| {
        format!(
            "POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1\r\nExpect: \
             100-continue\r\n\r\n"
        )
    };
    let mut client = server.connect();
    client.write_all(head("/containers/create").as_bytes()).unwrap();
    assert_eq!(until(&mut client, "\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
    client.write_all(b"{").unwrap();
    assert!(until(&mut client, "unexpected EOF\"}\n").starts_with("HTTP/1.1 400 "));
    // Not read, not asked for; and what follows cannot be told from it.
    let mut client = server.connect();
    client.write_all(head("/nope").as_bytes()).unwrap();
    let answer = Answer::parse(&rest(&mut client));
    assert_eq!((answer.status, answer.field("Connection")), (404, Some("close")));
}

#[test]
fn old_http() {
    let server = serve();
    let answer = Answer::parse(&server.raw("GET /_ping HTTP/1.0\r\n\r\n"));
    assert_eq!((answer.line.as_str(), answer.body.as_str()), ("HTTP/1.0 200 OK", "OK"));
    let kept = "GET /_ping HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
    let both = server.raw(&format!("{kept}GET /_ping HTTP/1.0\r\n\r\n"));
    assert_eq!(both.matches("200 OK").count(), 2);
    assert_eq!(Answer::parse(&both).field("Connection"), Some("keep-alive"));
    let events = Answer::parse(&server.raw("GET /events?since=1&until=2 HTTP/1.0\r\n\r\n"));
    assert_eq!((events.status, events.field("Transfer-Encoding"), events.body.as_str()), (200, None, ""));
}

#[test]
fn streams_begin_at_once_and_end_whole() {
    let server = serve();
    let mut client = server.connect();
    client.write_all(b"GET /events?since=1&until=2 HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let head = until(&mut client, "\r\n\r\n");
    assert!(head.contains("Transfer-Encoding: chunked\r\n") && head.contains("Content-Type: application/json\r\n"));
    assert_eq!(until(&mut client, "0\r\n\r\n"), "0\r\n\r\n");
    client.write_all(PING.as_bytes()).unwrap();
    until(&mut client, "\r\n\r\nOK");
}

/// Whether the server answers a request. Without room the server hangs up, maybe before the request is written.
fn finds_room(client: &mut (impl Read + Write), request: &str) -> bool {
    let mut head = [0; 12];
    let answered = client.write_all(request.as_bytes()).is_ok() && client.read_exact(&mut head).is_ok();
    answered && &head == b"HTTP/1.1 200"
}

#[test]
fn a_client_that_leaves_a_silent_stream_is_noticed() {
    let limits = Limits { connections: 3, ..Default::default() };
    let server = limited(limits);
    let begun = Instant::now();
    let mut left = 20;
    while left > 0 {
        if finds_room(&mut server.connect(), "GET /events HTTP/1.1\r\nHost: x\r\n\r\n") {
            left -= 1;
        }
        // There is room for three: were the first ones not noticed, the fourth would never find any.
        assert!(begun.elapsed() < LONG, "the places of clients that left are not given back");
        std::thread::sleep(Duration::from_millis(5));
    }
    // As above, the places of the last ones may be given back a moment later.
    while !finds_room(&mut server.connect(), PING) {
        assert!(begun.elapsed() < LONG, "no place for a ping");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn idle_connections_make_room() {
    let server = limited(Limits { connections: 2, ..Default::default() });
    let mut first = server.connect();
    first.write_all(PING.as_bytes()).unwrap();
    until(&mut first, "\r\n\r\nOK");
    let mut busy = server.connect();
    busy.write_all(b"GET /events HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    until(&mut busy, "\r\n\r\n");
    // The server may note only later that the first answer was sent, and has no room before that.
    let begun = Instant::now();
    let _third = loop {
        let mut third = server.connect();
        if finds_room(&mut third, "GET /events HTTP/1.1\r\nHost: x\r\n\r\n") {
            break third;
        }
        assert!(begun.elapsed() < LONG, "an idle connection makes no room");
    };
    assert_eq!(first.read(&mut [0; 8]).unwrap(), 0);
    let none = Answer::parse(&rest(&mut server.connect()));
    assert_eq!((none.status, none.body.as_str()), (503, "{\"message\":\"too many connections\"}\n"));
}

#[test]
fn slow_heads_and_silence_end() {
    let server = limited(Limits { head_time: Duration::from_millis(300), ..Default::default() });
    let mut client = server.connect();
    // A byte now and then must not keep the head open: its deadline is one for all of it.
    for byte in b"GET /_ping" {
        if client.write_all(&[*byte]).is_err() {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(rest(&mut client).starts_with("HTTP/1.1 408 "));
    // A server of its own: a busy machine may take longer than this from a connection to the first byte.
    let server = limited(Limits { idle_time: Duration::from_millis(600), ..Default::default() });
    let mut silent = server.connect();
    assert_eq!(rest(&mut silent), "");
}

#[test]
fn tcp_on_loopback_serves_only_programs() {
    let server = serve_with(
        RouterOptions::default(),
        ServerOptions { insecure_tcp: true, ..ServerOptions::default() },
        &["tcp://127.0.0.1:0"],
    );
    let address = server.addresses[1].to_string();
    let ask = |fields: &str| {
        let mut client = TcpStream::connect(address.strip_prefix("tcp://").unwrap()).unwrap();
        write!(client, "GET /_ping HTTP/1.1\r\nConnection: close\r\n{fields}\r\n").unwrap();
        Answer::parse(&rest(&mut client)).status
    };
    assert_eq!(ask("Host: localhost:2375\r\n"), 200);
    assert_eq!(ask("Host: 127.0.0.1\r\n"), 200);
    assert_eq!(ask("Host: rebound.example\r\n"), 403);
    assert_eq!(ask("Host: localhost\r\nOrigin: http://evil.example\r\n"), 403);
}

#[test]
fn ending_waits_for_answers_and_cuts_streams() {
    let server = serve();
    let mut idle = server.connect();
    idle.write_all(PING.as_bytes()).unwrap();
    until(&mut idle, "\r\n\r\nOK");
    let mut stream = server.connect();
    stream.write_all(b"GET /events HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    until(&mut stream, "\r\n\r\n");
    server.handle.shutdown(Duration::from_millis(300));
    assert_eq!(idle.read(&mut [0; 8]).unwrap(), 0);
    // The stream was cut: no last chunk.
    assert_eq!(rest(&mut stream), "");
    let path = server.scratch.path().join("sock");
    drop(server);
    assert!(!path.exists());
}

#[test]
fn five_hundred_clients() {
    let server = serve();
    let clients: Vec<_> = (0..500)
        .map(|_| {
            let mut client = server.connect();
            client.write_all(b"GET /events HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
            client
        })
        .collect();
    // One more is answered while all of them are there.
    assert_eq!(server.get("GET", "/_ping").body, "OK");
    for mut client in clients {
        assert!(until(&mut client, "\r\n\r\n").starts_with("HTTP/1.1 200 "));
    }
}
