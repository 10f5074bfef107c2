//! A proxy between the library and a real server: a proxy that hinders, a tunnel as firms have them, a token server.

use super::ended::Ended;
use super::registry::{Request, free_port, read_request};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The fate of one exchange.
#[derive(Debug, Clone)]
pub enum Fault {
    None,
    /// This answer (head and body) in place of the server's.
    Answer(String),
    /// The connection breaks off after so many bytes of the body.
    CutAfter(usize),
    /// Nothing more comes after so many bytes of the body.
    StallAfter(usize),
    /// The byte at that place of the body is another one.
    Flip(usize),
    /// So many bytes at a time, ten times a second.
    Slow(usize),
}

/// A proxy before a plain HTTP server, which may do something else for each request.
pub struct Faulty {
    pub port: u16,
    asked: Arc<Mutex<Vec<Request>>>,
    over: Arc<AtomicBool>,
}

impl Faulty {
    pub fn start(server: u16, fault: impl Fn(&Request) -> Fault + Send + Sync + 'static) -> Faulty {
        let (asked, over) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let (all, end, fault) = (asked.clone(), over.clone(), Arc::new(fault));
        let port = listen(over.clone(), move |client| {
            let (all, end, fault) = (all.clone(), end.clone(), fault.clone());
            std::thread::spawn(move || exchange(&client, server, &all, &end, &*fault));
        });
        Faulty { port, asked, over }
    }

    pub fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Every request so far whose target has `part` in it.
    pub fn asked_for(&self, part: &str) -> Vec<Request> {
        let all = self.asked.lock().expect("the requests");
        all.iter().filter(|asked| asked.target.contains(part)).cloned().collect()
    }
}

impl Drop for Faulty {
    fn drop(&mut self) {
        end(self.port, &self.over);
    }
}

fn listen(over: Arc<AtomicBool>, serve: impl Fn(TcpStream) + Send + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
    let port = listener.local_addr().expect("its address").port();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            if over.load(Ordering::SeqCst) {
                return;
            }
            serve(client);
        }
    });
    port
}

fn end(port: u16, over: &AtomicBool) {
    over.store(true, Ordering::SeqCst);
    let _ = TcpStream::connect(("127.0.0.1", port));
}

fn exchange(
    client: &TcpStream,
    server: u16,
    all: &Mutex<Vec<Request>>,
    over: &AtomicBool,
    fault: &dyn Fn(&Request) -> Fault,
) {
    // One request a connection: the answer says so.
    let mut input = BufReader::with_capacity(64 << 10, client);
    let Some((head, asked)) = read_head(&mut input) else { return };
    all.lock().expect("the requests").push(asked.clone());
    let fault = fault(&asked);
    if let Fault::Answer(answer) = &fault {
        let _ = (&*client).write_all(answer.as_bytes());
        let _ = client.shutdown(Shutdown::Write);
        let _ = std::io::copy(&mut input, &mut std::io::sink());
        return;
    }
    let Ok(upstream) = TcpStream::connect(("127.0.0.1", server)) else { return };
    if (&upstream).write_all(head.as_bytes()).is_err() {
        return;
    }
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut sink = &upstream;
            let _ = std::io::copy(&mut input, &mut sink);
        });
        let mut answer = BufReader::new(&upstream);
        let mut line = String::new();
        while answer.read_line(&mut line).is_ok_and(|n| n > 2) {
            if !line.to_ascii_lowercase().starts_with("connection:") && (&*client).write_all(line.as_bytes()).is_err() {
                break;
            }
            line.clear();
        }
        let _ = (&*client).write_all(b"Connection: close\r\n\r\n");
        body(&mut answer, client, &fault, over);
        let _ = client.shutdown(Shutdown::Both);
        let _ = upstream.shutdown(Shutdown::Both);
    });
}

/// The head of a request, to be sent on with its connection closed at the end.
fn read_head(input: &mut BufReader<&TcpStream>) -> Option<(String, Request)> {
    let (mut head, mut line) = (String::new(), String::new());
    loop {
        line.clear();
        input.read_line(&mut line).ok().filter(|&n| n > 0)?;
        if line == "\r\n" {
            break;
        }
        if !line.to_ascii_lowercase().starts_with("connection:") {
            head.push_str(&line);
        }
    }
    head.push_str("Connection: close\r\n\r\n");
    let mut words = head.split_whitespace().map(str::to_owned);
    let (method, target) = (words.next()?, words.next()?);
    let headers = head.lines().skip(1).filter_map(|line| line.split_once(':'));
    let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned())).collect();
    Some((head.clone(), Request { method, target, headers, body: Vec::new() }))
}

fn body(answer: &mut impl Read, mut client: &TcpStream, fault: &Fault, over: &AtomicBool) {
    let mut piece = vec![0; if let Fault::Slow(size) = fault { *size } else { 32 << 10 }];
    let mut at = 0;
    loop {
        let Ok(n) = answer.read(&mut piece) else { return };
        if n == 0 {
            return;
        }
        let mut end = n;
        match fault {
            Fault::CutAfter(limit) | Fault::StallAfter(limit) => end = n.min(limit.saturating_sub(at)),
            Fault::Flip(place) if (at..at + n).contains(place) => piece[place - at] ^= 1,
            Fault::Slow(_) => std::thread::sleep(Duration::from_millis(100)),
            _ => {}
        }
        if client.write_all(&piece[..end]).is_err() {
            return;
        }
        at += n;
        if end < n {
            while matches!(fault, Fault::StallAfter(_)) && !over.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(20));
            }
            return;
        }
    }
}

/// A relay to one port of this machine that does something once, when the first connection has carried so many bytes one
/// way, and breaks that connection off. Where the moment is told by bytes, no machine is too quick or too busy for it.
pub struct Tripwire {
    pub port: u16,
    over: Arc<AtomicBool>,
}

impl Tripwire {
    pub fn start(server: u16, limit: u64, trip: impl FnOnce() + Send + 'static) -> Tripwire {
        let over = Arc::new(AtomicBool::new(false));
        let trip: Arc<Mutex<Option<Trip>>> = Arc::new(Mutex::new(Some(Box::new(trip))));
        let port = listen(over.clone(), move |client| {
            let trip = trip.clone();
            std::thread::spawn(move || trip_over(&client, server, limit, &trip));
        });
        Tripwire { port, over }
    }

    pub fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }
}

impl Drop for Tripwire {
    fn drop(&mut self) {
        end(self.port, &self.over);
    }
}

type Trip = Box<dyn FnOnce() + Send>;

fn trip_over(client: &TcpStream, server: u16, limit: u64, trip: &Mutex<Option<Trip>>) {
    let Ok(upstream) = TcpStream::connect(("127.0.0.1", server)) else { return };
    let carry = |mut from: &TcpStream, mut to: &TcpStream| {
        let _ = std::io::copy(&mut from.take(limit), &mut to);
        let tripped = from.peek(&mut [0]).is_ok_and(|n| n > 0);
        match trip.lock().expect("the deed").take_if(|_| tripped) {
            Some(deed) => deed(),
            None => drop(std::io::copy(&mut from, &mut to)),
        }
        let _ = to.shutdown(Shutdown::Both);
        let _ = from.shutdown(Shutdown::Both);
    };
    std::thread::scope(|scope| {
        scope.spawn(|| carry(client, &upstream));
        carry(&upstream, client);
    });
}

/// An HTTP proxy that makes tunnels (CONNECT), whatever host is asked for, to one port of this machine.
pub struct Tunnels {
    pub port: u16,
    asked: Arc<Mutex<Vec<Request>>>,
    over: Arc<AtomicBool>,
}

impl Tunnels {
    pub fn start(server: u16) -> Tunnels {
        let (asked, over) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let all = asked.clone();
        let port = listen(over.clone(), move |client| {
            let all = all.clone();
            std::thread::spawn(move || tunnel(&client, server, &all));
        });
        Tunnels { port, asked, over }
    }

    /// Every request so far.
    pub fn asked(&self) -> Vec<Request> {
        self.asked.lock().expect("the requests").clone()
    }
}

impl Drop for Tunnels {
    fn drop(&mut self) {
        end(self.port, &self.over);
    }
}

fn tunnel(client: &TcpStream, server: u16, all: &Mutex<Vec<Request>>) {
    let Some(asked) = read_request(&mut BufReader::with_capacity(1, client)) else { return };
    let tunnels = asked.method == "CONNECT";
    all.lock().expect("the requests").push(asked);
    if !tunnels {
        let _ = (&*client).write_all(b"HTTP/1.1 405 No\r\nContent-Length: 0\r\n\r\n");
        return;
    }
    let Ok(upstream) = TcpStream::connect(("127.0.0.1", server)) else { return };
    let _ = (&*client).write_all(b"HTTP/1.1 200 Connected\r\n\r\n");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut from, mut to) = (client, &upstream);
            let _ = std::io::copy(&mut from, &mut to);
            let _ = upstream.shutdown(Shutdown::Both);
        });
        let (mut from, mut to) = (&upstream, client);
        let _ = std::io::copy(&mut from, &mut to);
        let _ = client.shutdown(Shutdown::Both);
    });
}

/// Runs a Python server of this directory (`script DIR PORT MORE...`) until the value ends; returns its port when it
/// listens.
fn python(script: &str, dir: &Path, more: &[String]) -> (u16, Ended) {
    let port = free_port();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support").join(script);
    let mut command = Command::new("/usr/bin/python3");
    command.arg(script).arg(dir).arg(port.to_string()).args(more).stdin(Stdio::null());
    let server = Ended(command.spawn().expect("python3 (installed by tools/setup test)"));
    super::wait_for("the server to listen", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    (port, server)
}

/// TLS before a plain server of this machine; it ends with the value.
pub struct TlsFront {
    pub port: u16,
    _server: Ended,
}

impl TlsFront {
    /// With the certificate in `dir` (see [`super::registry::make_certificates`]), before the server at a port.
    pub fn start(dir: &Path, server: u16) -> TlsFront {
        let (port, _server) = python("tls_front.py", dir, &[server.to_string()]);
        TlsFront { port, _server }
    }
}

/// A token server over TLS that signs what docker-registry takes; it ends with the value.
pub struct TokenServer {
    pub port: u16,
    _server: Ended,
}

impl TokenServer {
    /// With the certificates in `dir`, where it writes a line for each request to `tokens.log`.
    pub fn start(dir: &Path) -> TokenServer {
        let (port, _server) = python("token_server.py", dir, &[]);
        TokenServer { port, _server }
    }

    /// The part of docker-registry's configuration that sends its clients here.
    pub fn config(&self, dir: &Path) -> String {
        format!(
            "auth:\n  token: {{realm: \"https://127.0.0.1:{}/token\", service: harbour, issuer: tokens, rootcertbundle: {}/ca.pem}}",
            self.port,
            dir.display()
        )
    }
}
