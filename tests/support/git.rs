//! Git repositories for tests, made and served by Debian's git: by its daemon, and by its program for web servers.

use super::registry::{Answered, Scripted, free_port};
use std::io::Write;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The mode, the name and the id of a file in a directory.
pub type Entry<'a> = (&'a str, &'a str, &'a str);

/// A repository `x.git` in a directory of a test, with a work tree beside it.
pub struct Repository {
    pub dir: PathBuf,
}

impl Repository {
    /// An empty one in the new directory `dir`.
    pub fn new(dir: &Path) -> Repository {
        let repository = Repository { dir: dir.to_owned() };
        std::fs::create_dir_all(dir.join("work")).expect("make a work tree");
        repository.git(&["init", "-q", "--bare", "-b", "trunk", "../x.git"], b"");
        repository.git(&["init", "-q", "-b", "trunk", "."], b"");
        repository.git(&["remote", "add", "origin", "../x.git"], b"");
        repository
    }

    /// Runs git in the work tree; returns its output.
    pub fn git(&self, words: &[&str], input: &[u8]) -> String {
        let mut command = git(&self.dir.join("work"));
        let mut child = command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("git");
        child.stdin.take().expect("a pipe").write_all(input).expect("write to git");
        let out = child.wait_with_output().expect("wait for git");
        assert!(out.status.success(), "git {words:?}");
        String::from_utf8(out.stdout).expect("text").trim().to_owned()
    }

    pub fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.dir.join("work").join(path);
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("make a directory");
        std::fs::write(path, content).expect("write a file");
    }

    /// Commits all files; returns the commit's id.
    pub fn commit(&self, text: &str) -> String {
        self.git(&["add", "-A"], b"");
        self.git(&["commit", "-q", "--allow-empty", "-m", text], b"");
        self.git(&["rev-parse", "HEAD"], b"")
    }

    /// Sends all branches and tags to the served repository.
    pub fn push(&self) {
        self.git(&["push", "-q", "--mirror", "origin"], b"");
    }

    /// Makes an object of any content in the served repository; returns its id.
    pub fn object(&self, kind: &str, content: &[u8]) -> String {
        self.git(&["--git-dir=../x.git", "hash-object", "-w", "--literally", "--stdin", "-t", kind], content)
    }

    /// Makes a directory of any names; returns its id.
    pub fn tree(&self, entries: &[Entry<'_>]) -> String {
        let mut bytes = vec![];
        for (mode, name, id) in entries {
            bytes.extend(format!("{mode} {name}\0").bytes());
            bytes.extend((0..20).map(|at| u8::from_str_radix(&id[at * 2..at * 2 + 2], 16).expect("an id")));
        }
        self.object("tree", &bytes)
    }

    /// Puts a branch of the served repository on a directory.
    pub fn branch(&self, name: &str, tree: &str) {
        let commit = self.git(&["--git-dir=../x.git", "commit-tree", "-m", name, tree], b"");
        self.git(&["--git-dir=../x.git", "update-ref", &format!("refs/heads/{name}"), &commit], b"");
    }
}

/// Git without the settings of the machine; it commits at a known time.
fn git(dir: &Path) -> Command {
    let mut command = Command::new("git");
    command.current_dir(dir).env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
    command.env("HOME", dir).env("GIT_AUTHOR_DATE", "1700000000 +0000").env("GIT_COMMITTER_DATE", "1700000000 +0000");
    for role in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{role}_NAME"), "A").env(format!("GIT_{role}_EMAIL"), "a@example.invalid");
    }
    command.args(["-c", "safe.directory=*", "-c", "protocol.version=2"]);
    command
}

/// A `git daemon`; it ends with the value.
pub struct Daemon {
    port: u16,
    child: Child,
}

impl Daemon {
    /// For the repositories below `dir`.
    pub fn start(dir: &Path) -> Daemon {
        let port = free_port();
        let mut command = git(dir);
        command.args(["daemon", "--listen=127.0.0.1", "--export-all", "--reuseaddr"]);
        command.arg(format!("--port={port}")).arg(format!("--base-path={}", dir.display())).arg(dir);
        // The program `git` waits for another one, which serves: both end with their group.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let child = command.stderr(Stdio::null()).spawn().expect("git daemon");
        super::wait_for("git daemon to listen", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        Daemon { port, child }
    }

    /// The address of the repository of [`Repository::new`] in the served directory.
    pub fn url(&self) -> String {
        format!("git://127.0.0.1:{}/x.git", self.port)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let group = nix::unistd::Pid::from_raw(self.child.id() as i32);
        let _ = nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGKILL);
        let _ = self.child.wait();
    }
}

/// Git's program for web servers, behind a small one. Below `/locked/` a password is asked for, and `/moved/` leads to the
/// repository.
pub fn web(dir: &Path) -> Scripted {
    let dir = dir.to_owned();
    Scripted::start(move |asked| {
        if let Some(rest) = asked.target.strip_prefix("/moved/") {
            return Answered::new(302, "").with("Location", &format!("/{rest}"));
        }
        if asked.target.starts_with("/locked/") && asked.header("authorization") != "Basic bWU6c2VjcmV0" {
            return Answered::new(401, "").with("WWW-Authenticate", "Basic realm=\"x\"");
        }
        let target = asked.target.trim_start_matches("/locked");
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut command = git(&dir);
        command.arg("http-backend").env("GIT_PROJECT_ROOT", &dir).env("GIT_HTTP_EXPORT_ALL", "1");
        command.env("REQUEST_METHOD", &asked.method).env("PATH_INFO", path).env("QUERY_STRING", query);
        command.env("GIT_PROTOCOL", asked.header("git-protocol")).env("CONTENT_TYPE", asked.header("content-type"));
        command.env("CONTENT_LENGTH", asked.body.len().to_string());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("git http-backend");
        child.stdin.take().expect("a pipe").write_all(&asked.body).expect("write to git");
        let out = child.wait_with_output().expect("wait for git").stdout;
        let end = out.windows(4).position(|bytes| bytes == b"\r\n\r\n").expect("a head");
        let (mut status, mut headers) = (200, vec![]);
        for line in String::from_utf8_lossy(&out[..end]).lines() {
            let (name, value) = line.split_once(": ").expect("a header");
            match name {
                "Status" => status = value[..3].parse().expect("a status"),
                _ => headers.push((name.to_owned(), value.to_owned())),
            }
        }
        Answered { status, headers, ..Answered::new(200, &out[end + 4..]) }
    })
}

/// A server of a test's own: it greets, and answers each question with bytes.
pub fn scripted(answers: Vec<Vec<u8>>) -> Scripted {
    let answers = std::sync::Mutex::new(answers.into_iter());
    Scripted::start(move |_| Answered::new(200, answers.lock().expect("the answers").next().unwrap_or_default()))
}

/// A line of git's protocol.
pub fn line(text: &[u8]) -> Vec<u8> {
    [format!("{:04x}", text.len() + 4).as_bytes(), text].concat()
}

/// The first answer of a server: its version and its abilities.
pub const GREETING: &[u8] = b"000eversion 2\n0012fetch=shallow\n0000";

/// An answer to a fetch with this pack.
pub fn packed(pack: &[u8]) -> Vec<u8> {
    let mut answer = line(b"packfile\n");
    for piece in pack.chunks(60_000) {
        answer.extend(line(&[&[1][..], piece].concat()));
    }
    answer.extend(b"0000");
    answer
}

fn zlib(content: &[u8]) -> Vec<u8> {
    let mut packed = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(content).expect("compress");
    packed.finish().expect("compress")
}

/// An object of a pack: its kind and size, what stands before its content, its content.
pub fn object(kind: u8, size: u64, before: &[u8], content: &[u8]) -> Vec<u8> {
    let mut head = vec![kind << 4 | (size & 15) as u8];
    if size >> 4 > 0 {
        head[0] |= 0x80;
        head.extend(number(size >> 4));
    }
    [&head, before, &zlib(content)].concat()
}

/// A number in pieces of seven bits, the lowest first.
pub fn number(mut value: u64) -> Vec<u8> {
    let mut bytes = vec![];
    while value > 0x7f {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// The name of an object of a kind ("blob", ..).
pub fn name(kind: &str, content: &[u8]) -> [u8; 20] {
    let mut hash = sha1dc::Hasher::new();
    hash.update(format!("{kind} {}\0", content.len()).as_bytes());
    hash.update(content);
    hash.finalize().expect("no collision").into()
}

/// A pack of these objects; its checksum is not looked at.
pub fn pack(objects: &[Vec<u8>]) -> Vec<u8> {
    [&b"PACK\0\0\0\x02"[..], &(objects.len() as u32).to_be_bytes(), &objects.concat(), &[0; 20]].concat()
}
