//! Bytes that no honest client sends. The server answers or closes, and goes on.

use crate::support::{Answer, rest, serve};
use std::io::Write;

/// Sends `request` and answers the status, 0 where the connection just closed. It must be closed after one answer.
fn status(server: &crate::support::Running, request: &[u8]) -> u16 {
    let mut client = server.connect();
    // The server may close before all is sent.
    let _ = client.write_all(request);
    let _ = client.shutdown(std::net::Shutdown::Write);
    let all = rest(&mut client);
    assert!(all.matches("HTTP/1.1 ").count() <= 1, "{all}");
    if all.is_empty() { 0 } else { Answer::parse(&all).status }
}

// attack: 143 wall strict-framing
// attack: 144 wall http-versions
#[test]
fn ambiguous_and_malformed_requests_are_refused_and_closed() {
    let server = serve();
    // Each is followed by a request that must not be answered.
    let smuggled = "GET /_ping HTTP/1.1\r\nHost: x\r\n\r\n";
    for fields in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "Content-Length: 5\r\nContent-Length: 6\r\n",
        "Content-Length: -1\r\n",
        "Content-Length: 99999999999999999999\r\n",
        "Content-Length: 5,5\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding:\r\n",
        "A: b\nC: d\r\n",
        "A: b\rC: d\r\n",
        " folded: x\r\n",
        "A : b\r\n",
        "A: \0\r\n",
        "Host: y\r\n",
        "no colon\r\n",
    ] {
        let request = format!("POST /_ping HTTP/1.1\r\nHost: x\r\n{fields}\r\n0\r\n\r\n{smuggled}");
        assert_eq!(status(&server, request.as_bytes()), 400, "{fields:?}");
    }
    for request in [
        "GET /_ping HTTP/1.1\n\n",
        "GET /_ping HTTP/1.1\r\n\r\n",
        "GET /_ping\r\n\r\n",
        "GET /_ping HTTP/9.9\r\nHost: x\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "\x16\x03\x01\x02\r\n\r\n",
        "GET /é HTTP/1.1\r\nHost: x\r\n\r\n",
    ] {
        assert_eq!(status(&server, request.as_bytes()), 400, "{request:?}");
    }
    assert_eq!(server.get("GET", "/_ping").body, "OK");
}

#[test]
fn bad_chunks_end_the_connection() {
    let server = serve();
    let head = "POST /containers/create HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: \
                chunked\r\n\r\n";
    for body in [
        "x\r\n",
        "\r\n",
        "-1\r\n",
        "0x1\r\na\r\n0\r\n\r\n",
        "1\na\r\n0\r\n\r\n",
        "1\r\nab\r\n0\r\n\r\n",
        "8000000000000000\r\n",
        "10000000000000000\r\n",
        "ffffffffffffffffff\r\n",
        "5\r\nab",
        "",
    ] {
        let smuggled = if body.is_empty() { "" } else { "GET /_ping HTTP/1.1\r\nHost: x\r\n\r\n" };
        assert_eq!(status(&server, format!("{head}{body}{smuggled}").as_bytes()), 400, "{body:?}");
    }
    let long = format!("{head}1;{}\r\na\r\n0\r\n\r\n", "e".repeat(100_000));
    assert_eq!(status(&server, long.as_bytes()), 400);
    let trailers = format!("{head}0\r\n{}\r\n", "T: x\r\n".repeat(100_000));
    assert_eq!(status(&server, trailers.as_bytes()), 400);
}

#[test]
fn huge_lengths_cost_nothing() {
    let server = serve();
    let request = "POST /nope HTTP/1.1\r\nHost: x\r\nContent-Length: 1125899906842624\r\n\r\nabc";
    assert_eq!(status(&server, request.as_bytes()), 404);
    let request = format!(
        "POST /containers/create HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: \
         1125899906842624\r\n\r\n{}",
        " ".repeat(5 << 20)
    );
    assert_eq!(status(&server, request.as_bytes()), 400);
    assert_eq!(server.get("GET", "/_ping").body, "OK");
}

#[test]
fn heads_are_bounded() {
    let server = serve();
    let long = format!("GET /_ping HTTP/1.1\r\nHost: x\r\nA: {}\r\n\r\n", "a".repeat(70_000));
    assert_eq!(status(&server, long.as_bytes()), 431);
    let endless = format!("GET /{}", "a".repeat(1 << 20));
    assert_eq!(status(&server, endless.as_bytes()), 431);
    let many = format!("GET /_ping HTTP/1.1\r\nHost: x\r\n{}\r\n", "A: b\r\n".repeat(500));
    assert_eq!(status(&server, many.as_bytes()), 431);
    let just = format!("GET /_ping HTTP/1.1\r\nHost: x\r\nConnection: close\r\nA: {}\r\n\r\n", "a".repeat(60_000));
    assert_eq!(status(&server, just.as_bytes()), 200);
}

#[test]
fn deep_and_odd_documents_are_refused() {
    let server = serve();
    for body in [
        "[".repeat(100_000),
        "{\"HostConfig\":".repeat(10_000),
        format!("{{\"Image\":\"{}", "\\u".repeat(1000)),
        format!("{{\"Cmd\":{}}}", "9".repeat(100_000)),
        "{\"Image\":\"a\",\"HostConfig\":{\"Memory\":1e400}}".into(),
        "{\"Image\":\"\\ud800\\udc\"}".into(),
        "\u{feff}{}".into(),
    ] {
        let answer = server.json("POST", "/containers/create", &body);
        assert_eq!(answer.status, 400, "{} {}", &body[..20], answer.body);
    }
}

/// Random and mangled bytes: never a 5xx, never a hang, never a dead server.
#[test]
fn noise() {
    let server = serve();
    let seed = "POST /v1.24/containers/create?name=a HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n\
                Content-Length: 18\r\nConnection: close\r\n\r\n{\"Image\":\"a\",\"b\":1";
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for round in 0..400 {
        let mut bytes = seed.as_bytes().to_vec();
        for _ in 0..=random() % 4 {
            let at = random() as usize % bytes.len();
            match random() % 4 {
                0 => bytes[at] = random() as u8,
                1 => drop(bytes.remove(at)),
                2 => bytes.insert(at, b"\r\n :;,{}[]\"\0%"[random() as usize % 13]),
                _ => bytes.truncate(at.max(1)),
            }
        }
        let status = status(&server, &bytes);
        assert!(status < 500, "round {round}: {status} for {:?}", String::from_utf8_lossy(&bytes));
    }
    assert_eq!(server.get("GET", "/_ping").body, "OK");
}
