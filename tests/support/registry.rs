//! Registries for tests: Debian's docker-registry, and one made by hand that can misbehave.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A docker-registry on a port of 127.0.0.1; it ends with the value.
pub struct Registry {
    dir: PathBuf,
    pub port: u16,
    child: Option<Child>,
}

impl Registry {
    /// With its data in the new directory `dir`; `more` goes into its configuration.
    pub fn start(dir: &Path, more: &str) -> Registry {
        std::fs::create_dir_all(dir).expect("make the registry's directory");
        let port = free_port();
        let config = format!(
            "version: 0.1\nlog: {{level: warn}}\nstorage:\n  filesystem: {{rootdirectory: {}/data}}\n  delete: {{enabled: true}}\n{}\n",
            dir.display(),
            more.replace("PORT", &port.to_string())
        );
        std::fs::write(dir.join("config.yml"), config).expect("write its configuration");
        let mut registry = Registry { dir: dir.to_owned(), port, child: None };
        registry.run();
        registry
    }

    /// Without login and TLS.
    pub fn plain(dir: &Path) -> Registry {
        Registry::start(dir, "http: {addr: \"127.0.0.1:PORT\"}")
    }

    /// `127.0.0.1:PORT`, as it stands before a repository.
    pub fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Starts it (again), and waits until it listens.
    pub fn run(&mut self) {
        let log = std::fs::File::options().create(true).append(true).open(self.dir.join("log")).expect("its log");
        let child = Command::new("docker-registry")
            .arg("serve")
            .arg(self.dir.join("config.yml"))
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("its log"))
            .stderr(log)
            .spawn()
            .expect("docker-registry (installed by tools/setup test)");
        self.child = Some(child);
        super::wait_for("the registry to listen", || TcpStream::connect(("127.0.0.1", self.port)).is_ok());
    }

    /// Behind TLS, with an authority and certificates in `dir`: see [`make_certificates`].
    pub fn tls(dir: &Path, http: &str, more: &str) -> Registry {
        make_certificates(dir);
        let tls = format!("tls: {{certificate: {0}/cert.pem, key: {0}/key.pem{http}}}", dir.display());
        Registry::start(dir, &format!("http: {{addr: \"127.0.0.1:PORT\", {tls}}}\n{more}"))
    }

    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// The registry's log, including its answers.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.join("log")).expect("its log")
    }

    /// The file of a blob.
    pub fn blob(&self, digest: &str) -> PathBuf {
        let hex = digest.trim_start_matches("sha256:");
        self.dir.join("data/docker/registry/v2/blobs/sha256").join(&hex[..2]).join(hex).join("data")
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.kill();
    }
}

/// An authority (`ca.pem`), a server's certificate of it for 127.0.0.1 and registry.test (`cert.pem`, `key.pem`), and a
/// client's (`client.pem`, `client-key.pem`).
pub fn make_certificates(dir: &Path) {
    std::fs::create_dir_all(dir).expect("mkdir");
    let script = r#"set -e; cd "$0"; exec 2>&1
        openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 2 -subj /CN=authority
        printf 'subjectAltName=IP:127.0.0.1,DNS:registry.test\nbasicConstraints=CA:FALSE\n' > extensions
        printf 'basicConstraints=CA:FALSE\n' > client-extensions
        sign() {
          openssl req -newkey rsa:2048 -nodes -keyout "$1" -out request.pem -subj "/CN=$4"
          openssl x509 -req -in request.pem -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile "$3" -out "$2"
        }
        sign key.pem cert.pem extensions registry
        sign client-key.pem client.pem client-extensions client"#;
    let made = Command::new("sh").args(["-c", script]).arg(dir).output().expect("sh");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stdout));
}

/// A port that nobody holds, below those that the kernel gives to outgoing connections: between this answer and the
/// caller's `bind`, only a test that asks for the same number could take the port.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = 20_000 + (std::process::id() % 100) as u16 * 100;
    (0..1000)
        .map(|_| first + NEXT.fetch_add(1, Ordering::Relaxed) % 1000)
        .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .expect("a free port")
}

/// A request as the scripted server got it.
#[derive(Debug, Clone)]
pub struct Request {
    pub method: String,
    /// Path and query.
    pub target: String,
    /// Names in lower case.
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

impl Request {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}

/// The answers of the scripted server.
#[derive(Debug, Clone, Default)]
pub struct Answered {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Say nothing more after so many bytes of the body: break the connection off, or wait until the test is over.
    pub stop_after: Option<usize>,
    pub stall: bool,
}

impl Answered {
    pub fn new(status: u16, body: impl Into<Vec<u8>>) -> Answered {
        Answered { status, body: body.into(), ..Answered::default() }
    }

    pub fn with(mut self, name: &str, value: &str) -> Answered {
        self.headers.push((name.into(), value.into()));
        self
    }
}

/// A small HTTP server whose answers a test writes.
pub struct Scripted {
    pub port: u16,
    asked: Arc<Mutex<Vec<Request>>>,
    over: Arc<AtomicBool>,
}

impl Scripted {
    pub fn start(answer: impl Fn(&Request) -> Answered + Send + Sync + 'static) -> Scripted {
        let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
        let port = listener.local_addr().expect("its address").port();
        let (asked, over) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let (all, end, answer) = (asked.clone(), over.clone(), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if end.load(Ordering::SeqCst) {
                    return;
                }
                let (all, end, answer) = (all.clone(), end.clone(), answer.clone());
                std::thread::spawn(move || serve(&stream, &all, &end, &*answer));
            }
        });
        Scripted { port, asked, over }
    }

    pub fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Every request so far.
    pub fn asked(&self) -> Vec<Request> {
        self.asked.lock().expect("the requests").clone()
    }

    /// Every request whose target has `part` in it.
    pub fn asked_for(&self, part: &str) -> Vec<Request> {
        self.asked().into_iter().filter(|asked| asked.target.contains(part)).collect()
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn serve(stream: &TcpStream, all: &Mutex<Vec<Request>>, over: &AtomicBool, answer: &dyn Fn(&Request) -> Answered) {
    let mut input = BufReader::new(stream);
    while let Some(asked) = read_request(&mut input) {
        all.lock().expect("the requests").push(asked.clone());
        let answer = answer(&asked);
        let mut head = format!("HTTP/1.1 {} Status\r\nContent-Length: {}\r\n", answer.status, answer.body.len());
        for (name, value) in &answer.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        let mut bytes = (head + "\r\n").into_bytes();
        if asked.method != "HEAD" {
            bytes.extend(&answer.body[..answer.stop_after.unwrap_or(answer.body.len()).min(answer.body.len())]);
        }
        if (&*stream).write_all(&bytes).is_err() {
            return;
        }
        while answer.stall && !over.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(20));
        }
        if answer.stop_after.is_some() || answer.stall {
            return;
        }
    }
}

pub(super) fn read_request(input: &mut BufReader<&TcpStream>) -> Option<Request> {
    let mut line = String::new();
    input.read_line(&mut line).ok().filter(|&n| n > 0)?;
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, target) = (words.next()?, words.next()?);
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        input.read_line(&mut line).ok().filter(|&n| n > 0)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").and_then(|l| l.parse().ok()).unwrap_or(0);
    let mut body = Vec::new();
    input.take(length).read_to_end(&mut body).ok()?;
    Some(Request { method, target, headers, body })
}
