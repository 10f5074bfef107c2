//! A server on a root of its own, and a client that sees every byte.

use coracle::{Engine, Options};
use coracle_http::{Address, Router, RouterOptions, Server, ServerHandle, ServerOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long to wait for something that comes: a disk may stand still for more than a minute.
pub const LONG: Duration = Duration::from_secs(300);

/// A directory that goes away with it.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new() -> Scratch {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("coracle-http-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A connection that was cut, but has not noticed, may still write there.
        let begun = Instant::now();
        while std::fs::remove_dir_all(&self.0).is_err() && self.0.exists() && begun.elapsed() < LONG {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// An engine in a scratch directory.
pub fn engine(scratch: &Scratch) -> Engine {
    let mut options = Options::new(scratch.path().join("root"));
    options.run_dir = Some(scratch.path().join("run"));
    Engine::open_with(options).unwrap()
}

/// A running server on a Unix socket; ended and cleaned up when dropped.
pub struct Running {
    pub handle: ServerHandle,
    pub addresses: Vec<Address>,
    thread: Option<JoinHandle<()>>,
    engine: Engine,
    pub scratch: Scratch,
}

pub fn serve() -> Running {
    serve_with(RouterOptions::default(), ServerOptions::default(), &[])
}

pub fn serve_with(router: RouterOptions, options: ServerOptions, more: &[&str]) -> Running {
    let scratch = Scratch::new();
    let engine = engine(&scratch);
    let router = Router::with(engine.clone(), router);
    let mut addresses = vec![Address::Unix(scratch.path().join("sock"))];
    addresses.extend(more.iter().map(|text| text.parse().unwrap()));
    let server = Server::bind(router, &addresses, options).unwrap();
    let (handle, addresses) = (server.handle(), server.addresses().unwrap());
    let thread = Some(std::thread::spawn(move || server.run()));
    Running { handle, addresses, thread, engine, scratch }
}

impl Running {
    pub fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(self.scratch.path().join("sock")).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream
    }
    /// Sends `request` on a connection of its own; answers everything until the server closes.
    pub fn raw(&self, request: &str) -> String {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).unwrap();
        rest(&mut stream)
    }
    /// One request without a body, after which the connection closes.
    pub fn get(&self, method: &str, target: &str) -> Answer {
        self.ask(method, target, "", "")
    }
    /// One request with fields (each with its CR LF) and a body.
    pub fn ask(&self, method: &str, target: &str, fields: &str, body: &str) -> Answer {
        let length = if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
        Answer::parse(
            &self.raw(&format!(
                "{method} {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{fields}{length}\r\n{body}"
            )),
        )
    }
    pub fn json(&self, method: &str, target: &str, body: &str) -> Answer {
        self.ask(method, target, "Content-Type: application/json\r\n", body)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.handle.shutdown(Duration::from_millis(200));
        self.thread.take().unwrap().join().unwrap();
        // The links and tables that networks left in the kernel.
        if let Err(error) = self.engine.network_release() {
            eprintln!("release the networks: {error}");
        }
    }
}

/// All that comes until the end of the stream.
pub fn rest(stream: &mut impl Read) -> String {
    let mut all = Vec::new();
    match stream.read_to_end(&mut all) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        Err(error) => panic!("{error} after {:?}", String::from_utf8_lossy(&all)),
    }
    String::from_utf8_lossy(&all).into_owned()
}

/// The bytes that come until `end` was seen.
pub fn until(stream: &mut impl Read, end: &str) -> String {
    let mut all = Vec::new();
    let mut byte = [0];
    while !all.ends_with(end.as_bytes()) {
        match stream.read(&mut byte) {
            Ok(1) => all.push(byte[0]),
            other => panic!("{other:?} after {:?}", String::from_utf8_lossy(&all)),
        }
    }
    String::from_utf8_lossy(&all).into_owned()
}

/// An answer taken apart.
#[derive(Debug)]
pub struct Answer {
    pub line: String,
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    pub fn parse(text: &str) -> Answer {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head in {text:?}"));
        let (line, fields) = head.split_once("\r\n").unwrap_or((head, ""));
        let status = line.split(' ').nth(1).and_then(|s| s.parse().ok()).unwrap_or_else(|| panic!("{line:?}"));
        Answer { line: line.into(), status, head: format!("{fields}\r\n"), body: body.into() }
    }
    pub fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|l| l.split_once(": ").filter(|(n, _)| n.eq_ignore_ascii_case(name))).map(|(_, v)| v)
    }
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.head.lines().filter_map(|l| l.split_once(": ")).map(|(n, _)| n).collect();
        names.retain(|n| !["Date", "Content-Length", "Connection"].contains(n));
        names
    }
}
