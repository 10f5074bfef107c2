//! Why the server is our own: what tiny_http 0.12.0 does with a hostile length, with output while the client is silent,
//! and with a streamed answer. When one of these tests fails, tiny_http has changed, and the choice is worth a new look.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Serves one request with `handler` and answers the client's end after it sent `request`.
fn serve(request: &str, handler: impl FnOnce(tiny_http::Request) + Send + 'static) -> TcpStream {
    let server = tiny_http::Server::http("127.0.0.1:0").unwrap();
    let address = server.server_addr().to_ip().unwrap();
    std::thread::spawn(move || handler(server.recv().unwrap()));
    let mut client = TcpStream::connect(address).unwrap();
    client.write_all(request.as_bytes()).unwrap();
    client
}

/// The test below runs this one in a process of its own.
#[test]
#[ignore = "aborts its process: run by `a_large_content_length_aborts_the_process`"]
fn answer_a_huge_length_without_reading() {
    let request = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1125899906842624\r\n\r\n";
    let mut client = serve(request, |r| r.respond(tiny_http::Response::from_string("ok")).unwrap());
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
}

#[test]
fn a_large_content_length_aborts_the_process() {
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "answer_a_huge_length_without_reading"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert_eq!(status.signal(), Some(6), "{status}");
}

#[test]
fn output_waits_for_the_client_to_speak() {
    let request = "POST /attach HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n";
    let mut client = serve(request, |r| {
        let stream = r.upgrade("tcp", tiny_http::Response::empty(101));
        // There is one handle for both directions: a reader holds its lock.
        let stream = std::sync::Mutex::new(stream);
        let (reads, read) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let stream = &stream;
            scope.spawn(move || {
                let mut held = stream.lock().unwrap();
                reads.send(()).unwrap();
                held.read(&mut [0; 16]).unwrap()
            });
            read.recv().unwrap();
            let mut stream = stream.lock().unwrap();
            stream.write_all(b"output").unwrap();
            stream.flush().unwrap();
        });
    });
    let mut all = Vec::new();
    let mut buffer = [0; 1024];
    client.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    while let Ok(n @ 1..) = client.read(&mut buffer) {
        all.extend_from_slice(&buffer[..n]);
    }
    assert!(!all.ends_with(b"output"), "output came while the client was silent");
    client.write_all(b"x").unwrap();
    client.set_read_timeout(Some(Duration::from_secs(300))).unwrap();
    while let Ok(n @ 1..) = client.read(&mut buffer) {
        all.extend_from_slice(&buffer[..n]);
    }
    assert!(all.ends_with(b"output"));
}

#[test]
fn a_streamed_answer_comes_at_its_end() {
    /// Two lines, the second half a second after the first.
    struct Slow(u32);
    impl Read for Slow {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            if self.0 == 2 {
                return Ok(0);
            }
            if self.0 == 1 {
                std::thread::sleep(Duration::from_millis(500));
            }
            self.0 += 1;
            buffer[..5].copy_from_slice(b"line\n");
            Ok(5)
        }
    }
    let began = Instant::now();
    let mut client = serve("GET / HTTP/1.1\r\nHost: x\r\n\r\n", |r| {
        let status = tiny_http::StatusCode(200);
        r.respond(tiny_http::Response::new(status, Vec::new(), Slow(0), None, None)).unwrap();
    });
    let mut all = Vec::new();
    let mut buffer = [0; 1024];
    while !all.windows(5).any(|w| w == b"line\n") {
        let n = client.read(&mut buffer).unwrap();
        assert_ne!(n, 0);
        all.extend_from_slice(&buffer[..n]);
    }
    assert!(began.elapsed() >= Duration::from_millis(450), "the first line came after {:?}", began.elapsed());
}
