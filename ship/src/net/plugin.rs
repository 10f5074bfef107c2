//! The stream to a log plugin: a FIFO, which the plugin is told to read (`LogDriver.StartLogging`) and to leave
//! (`LogDriver.StopLogging`).
//!
//! Each stream has a FIFO of its own: a plugin that still reads the one before sees the end of that one, never the rest of a
//! broken message.

use super::{LOOK, Link, PATIENCE, Problem, wait};
use crate::cursor::Fault;
use crate::drivers::{Destination, Manner, TlsFiles};
use crate::http::{Answer, push_request};
use crate::options::Address;
use crate::plan::{LogPlugin, Plan};
use crate::proxies::Proxies;
use nix::errno::Errno;
use nix::fcntl::{OFlag, open as open_file};
use nix::poll::PollFlags;
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::stat::Mode;
use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const TYPE: &str = "application/vnd.docker.plugins.v1.2+json";
/// How often the library looks whether the plugin has opened the FIFO.
const GLANCE: Duration = Duration::from_millis(5);
/// The time limit of an answer to StopLogging: its error changes nothing.
const PARTING: Duration = Duration::from_secs(2);
/// The file beside the plan that has a plugin's own error.
const REFUSAL: &str = "refusal";
/// The file beside the plan that names the FIFO of the stream. A program that is killed leaves the file. The plugin may write
/// into the directory of FIFOs, so nothing that is there says which FIFO is the shipper's.
const STREAM: &str = "stream";
/// The longest error that is kept.
const LONGEST: usize = 1024;

fn failed(errno: Errno) -> Problem {
    Problem::Failed(Fault::Connect, errno as i32)
}

/// A stream that a plugin was told of. Dropping it, after the FIFO was closed, tells the plugin to leave.
pub(super) struct Tap {
    address: Address,
    fifo: PathBuf,
    /// The FIFO's path as the plugin sees it.
    seen: String,
    /// The file that names the FIFO.
    record: PathBuf,
}

impl Drop for Tap {
    fn drop(&mut self) {
        // Also while the program ends.
        if let Ok(never) = EventFd::from_flags(EfdFlags::EFD_CLOEXEC) {
            let _ = part(&self.address, &self.seen, never.as_fd());
        }
        let _ = std::fs::remove_file(&self.fifo);
        let _ = std::fs::remove_file(&self.record);
    }
}

/// Tells the plugin to leave a FIFO. The plugin may be gone, and its error changes nothing: nothing more comes by this FIFO.
/// Errors: the shipper is to end.
fn part(address: &Address, seen: &str, stop: BorrowedFd<'_>) -> Result<(), Problem> {
    let body = serde_json::json!({ "File": seen }).to_string();
    match call(address, "LogDriver.StopLogging", &body, PARTING, stop) {
        Err(Problem::Stopped) => Err(Problem::Stopped),
        _ => Ok(()),
    }
}

/// Where a plugin is called. One that the engine runs, which sees its FIFOs at another path, may write into the directory of its
/// socket.
fn address_of(plugin: &LogPlugin) -> Option<Address> {
    match Address::parse(&plugin.address, None)? {
        Address::Unix(path) if plugin.fifo_dir != plugin.seen_dir => Some(Address::Own(path)),
        address => Some(address),
    }
}

/// Whether the plugin was not told to leave the FIFO of a delivery, whose directory this is. The FIFO itself does not count: the plugin
/// can keep it, or make it again.
pub(crate) fn has_left_stream(dir: &Path) -> bool {
    dir.join(STREAM).exists()
}

/// Tells the plugin of a plan to leave the FIFO that a killed program left. Errors: the shipper is to end.
pub(crate) fn leave_stream(plan: &str, stop: BorrowedFd<'_>) -> Result<(), Problem> {
    let text = std::fs::read(plan).ok().and_then(|text| Plan::from_json(&text));
    if let Some(Plan { plugin: Some(plugin), .. }) = text
        && let Some(address) = address_of(&plugin)
    {
        leave(&address, &plugin, Path::new(plan), stop)?;
    }
    Ok(())
}

/// Tells the plugin once, whatever comes of it. Errors: the shipper is to end; the next one tells the plugin.
fn leave(address: &Address, plugin: &LogPlugin, plan: &Path, stop: BorrowedFd<'_>) -> Result<(), Problem> {
    let record = plan.with_file_name(STREAM);
    match std::fs::read_to_string(&record) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        // A record that stays would start the program for ever, and names no FIFO.
        Err(_) => {}
        Ok(name) => {
            let fifo = Path::new(&plugin.fifo_dir).join(&name);
            if may_be_fifo(&fifo) {
                part(address, &format!("{}/{name}", plugin.seen_dir), stop)?;
                // The plugin may keep the FIFO, whose directory it may write into.
                let _ = std::fs::remove_file(fifo);
            }
        }
    }
    let _ = std::fs::remove_file(record);
    Ok(())
}

/// Whether a FIFO is there, or may be: this program may lack the right to look. After a boot there is none.
fn may_be_fifo(path: &Path) -> bool {
    match path.symlink_metadata() {
        Ok(facts) => facts.file_type().is_fifo(),
        Err(error) => error.kind() != ErrorKind::NotFound,
    }
}

/// Lets the plugin of a plan read a new FIFO; returns the end to write to.
pub(super) fn open(plan: &str, stop: BorrowedFd<'_>) -> Result<(OwnedFd, Tap), Problem> {
    let broken = Problem::Failed(Fault::Plan, 0);
    let text = std::fs::read(plan).map_err(|_| broken)?;
    let Plan { plugin: Some(plugin), facts, .. } = Plan::from_json(&text).ok_or(broken)? else { return Err(broken) };
    let address = address_of(&plugin).ok_or(broken)?;
    leave(&address, &plugin, Path::new(plan), stop)?;
    let tap = make(address, &plugin, &facts.id, Path::new(plan))?;
    // A FIFO without a reader cannot be opened for writing. This end is the reader until the plugin is one; and so the plugin's
    // own opening, which may come before its answer, does not wait.
    let both = open_fifo(&tap.fifo, OFlag::O_RDWR)?;
    let ours = open_fifo(&tap.fifo, OFlag::O_WRONLY)?;
    start(&tap, &plugin, Path::new(plan), stop)?;
    drop(both);
    let until = Instant::now() + PATIENCE;
    while is_left(ours.as_fd()) {
        if Instant::now() > until {
            return Err(failed(Errno::ETIMEDOUT));
        }
        wait(stop, PollFlags::empty(), GLANCE, stop)?;
    }
    Ok((ours, tap))
}

/// Opens an end of a FIFO. The plugin may write into its directory: a link or a file in the FIFO's place is refused before it
/// is opened, so that no line gets anywhere else.
fn open_fifo(path: &Path, way: OFlag) -> Result<OwnedFd, Problem> {
    let found = open_file(path, OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC, Mode::empty()).map_err(failed)?;
    let kind = nix::sys::stat::fstat(&found).map_err(failed)?.st_mode & libc::S_IFMT;
    if kind != libc::S_IFIFO {
        return Err(failed(Errno::EINVAL));
    }
    // By the descriptor: nobody can exchange the file that was looked at.
    let same = format!("/proc/self/fd/{}", found.as_raw_fd());
    open_file(same.as_str(), way | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC, Mode::empty()).map_err(failed)
}

/// Makes a FIFO.
fn make(address: Address, plugin: &LogPlugin, id: &str, plan: &Path) -> Result<Tap, Problem> {
    let dir = Path::new(&plugin.fifo_dir);
    let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.map_err(|error| failed(Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO))))?;
    let name = format!("{id}-{:x}", crate::time::now_ns());
    let record = plan.with_file_name(STREAM);
    // On a full disk the FIFO of a killed program stays, and the plugin is not told.
    let _ = std::fs::write(&record, &name);
    let fifo = dir.join(&name);
    let made = nix::unistd::mkfifo(&fifo, Mode::S_IRWXU).map_err(failed);
    made.inspect_err(|_| drop(std::fs::remove_file(&record)))?;
    Ok(Tap { address, fifo, seen: format!("{}/{name}", plugin.seen_dir), record })
}

/// Asks the plugin to read. Its own error is kept beside the plan, for inspection.
fn start(tap: &Tap, plugin: &LogPlugin, plan: &Path, stop: BorrowedFd<'_>) -> Result<(), Problem> {
    let body = format!("{{\"File\":{},\"Info\":{}}}", serde_json::Value::from(tap.seen.as_str()), plugin.info);
    let answer = call(&tap.address, "LogDriver.StartLogging", &body, super::ask::PATIENCE, stop)?;
    let refusal = plan.with_file_name(REFUSAL);
    match own_error(&answer) {
        None => {
            let _ = std::fs::remove_file(refusal);
            Ok(())
        }
        Some(text) => {
            let text: String = text.chars().take(LONGEST).collect();
            // Without the file inspection shows that there was an error, but not which one.
            let _ = std::fs::write(refusal, text);
            Err(Problem::Failed(Fault::Plugin, 0))
        }
    }
}

/// The error of an answer; an answer that is not a JSON object counts as one, too.
fn own_error(answer: &Answer) -> Option<String> {
    let raw = || String::from_utf8_lossy(&answer.body).trim().to_owned();
    let document = serde_json::from_slice::<serde_json::Value>(&answer.body).ok().filter(serde_json::Value::is_object);
    let said = document.as_ref().and_then(|document| document.get("Err")?.as_str()).unwrap_or_default();
    match (document.is_some(), answer.is_well()) {
        (true, true) => Some(said.to_owned()).filter(|said| !said.is_empty()),
        (true, false) if !said.is_empty() => Some(said.to_owned()),
        (false, true) => Some(format!("no JSON: {}", raw())),
        (_, false) => Some(format!("status {}: {}", answer.status, raw())),
    }
}

fn call(address: &Address, method: &str, body: &str, limit: Duration, stop: BorrowedFd<'_>) -> Result<Answer, Problem> {
    let to = Destination {
        address: address.clone(),
        tls: TlsFiles::default(),
        manner: Manner::Asked,
        account: String::new(),
    };
    let mut request = Vec::new();
    let headers = [("Host", "plugin"), ("Accept", TYPE), ("Content-Type", TYPE), ("Connection", "close")];
    push_request(&mut request, &format!("POST /{method}"), &headers, body.as_bytes());
    Link::open(&to, &Proxies::default(), stop)?.ask_within(&request, limit, stop)
}

/// Whether a FIFO has no reader.
pub(super) fn is_left(fifo: BorrowedFd<'_>) -> bool {
    use nix::poll::{PollFd, PollTimeout, poll};
    let mut set = [PollFd::new(fifo, PollFlags::empty())];
    poll(&mut set, PollTimeout::ZERO).is_ok() && set[0].any().unwrap_or(false)
}

/// Writes some of the bytes; waits until the FIFO takes some. Threads of the library have SIGPIPE blocked.
pub(super) fn write_some(fifo: &OwnedFd, bytes: &[u8], stop: BorrowedFd<'_>) -> Result<usize, Problem> {
    loop {
        match nix::unistd::write(fifo, bytes) {
            Ok(taken) => return Ok(taken),
            Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) => drop(wait(fifo.as_fd(), PollFlags::POLLOUT, LOOK, stop)?),
            Err(_) => return Err(GONE),
        }
    }
}

/// The plugin has closed the FIFO. Nobody knows whether it kept all that it had read: what it read last is sent again.
pub(super) const GONE: Problem = Problem::Failed(Fault::Send, libc::ECONNRESET);

/// The plugin's own error, from the directory of a delivery.
pub(crate) fn refusal(dir: &Path) -> Option<String> {
    std::fs::read_to_string(dir.join(REFUSAL)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_in_the_place_of_a_fifo_is_not_opened() {
        let dir = std::env::temp_dir().join(format!("coracle-fifo-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let (file, link, fifo) = (dir.join("file"), dir.join("link"), dir.join("fifo"));
        std::fs::write(&file, "kept").unwrap();
        nix::unistd::mkfifo(&fifo, Mode::S_IRWXU).unwrap();
        std::os::unix::fs::symlink(&fifo, &link).unwrap();
        assert_eq!(open_fifo(&file, OFlag::O_RDWR).unwrap_err(), failed(Errno::EINVAL));
        assert_eq!(open_fifo(&link, OFlag::O_RDWR).unwrap_err(), failed(Errno::EINVAL));
        let both = open_fifo(&fifo, OFlag::O_RDWR).unwrap();
        assert_eq!(nix::unistd::write(&both, b"x"), Ok(1));
        std::fs::remove_dir_all(&dir).unwrap();
    }

    /// A directory for the FIFOs of the container `abc`, and a plan whose plugin is at a socket beside it.
    fn with_dir(name: &str) -> (PathBuf, Plan) {
        let dir = std::env::temp_dir().join(format!("coracle-{name}-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("fifos")).unwrap();
        let fifos = dir.join("fifos").to_str().unwrap().to_owned();
        let address = format!("unix://{}", dir.join("socket").display());
        let plugin = LogPlugin { address, fifo_dir: fifos.clone(), seen_dir: fifos, info: "{}".into() };
        let mut plan = Plan { plugin: Some(plugin), ..Plan::default() };
        plan.facts.id = "abc".into();
        (dir, plan)
    }

    #[test]
    fn fifos_that_a_plugin_makes_keep_no_program_and_it_is_told_of_one_once() {
        let (dir, plan) = with_dir("many");
        let path = dir.join("plan");
        std::fs::write(&path, plan.to_json()).unwrap();
        let fifo = |number: u32| dir.join(format!("fifos/abc-{number}"));
        (0..100).for_each(|number| nix::unistd::mkfifo(&fifo(number), Mode::S_IRWXU).unwrap());
        assert!(!has_left_stream(&dir));
        std::fs::write(dir.join(STREAM), "abc-7").unwrap();
        assert!(has_left_stream(&dir));
        let socket = std::os::unix::net::UnixListener::bind(dir.join("socket")).unwrap();
        socket.set_nonblocking(true).unwrap();
        let stop = EventFd::from_flags(EfdFlags::EFD_CLOEXEC).unwrap();
        stop.write(1).unwrap();
        assert_eq!(leave_stream(path.to_str().unwrap(), stop.as_fd()), Err(Problem::Stopped));
        assert!(has_left_stream(&dir) && fifo(7).exists(), "the next program finds it");
        let asked = || std::iter::from_fn(|| socket.accept().ok()).count();
        asked();
        let stop = EventFd::from_flags(EfdFlags::EFD_CLOEXEC).unwrap();
        let calls = std::thread::scope(|scope| {
            let (done, is_done) = std::sync::mpsc::channel::<()>();
            let calls = scope.spawn(move || {
                let mut count = 0;
                while matches!(is_done.try_recv(), Err(std::sync::mpsc::TryRecvError::Empty)) {
                    // Each call ends at once: its connection is closed without an answer.
                    count += asked();
                    std::thread::sleep(GLANCE);
                }
                count + asked()
            });
            for _ in 0..3 {
                leave_stream(path.to_str().unwrap(), stop.as_fd()).unwrap();
            }
            drop(done);
            calls.join().unwrap()
        });
        let left = std::fs::read_dir(dir.join("fifos")).unwrap().count();
        assert_eq!((calls, left, fifo(7).exists(), has_left_stream(&dir)), (1, 99, false, false));
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_fifo_that_is_gone_is_told_to_nobody_and_one_that_stays_keeps_no_program() {
        let (dir, plan) = with_dir("gone");
        let path = dir.join("plan");
        std::fs::write(&path, plan.to_json()).unwrap();
        let stop = EventFd::from_flags(EfdFlags::EFD_CLOEXEC).unwrap();
        // A directory of that name: it cannot be removed as a file is.
        std::fs::create_dir_all(dir.join("fifos/abc-2")).unwrap();
        for name in ["abc-1", "abc-2", ""] {
            std::fs::write(dir.join(STREAM), name).unwrap();
            leave_stream(path.to_str().unwrap(), stop.as_fd()).unwrap();
            assert!(!has_left_stream(&dir), "{name}");
        }
        assert!(dir.join("fifos/abc-2").is_dir());
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_record_that_cannot_be_read_keeps_no_program() {
        let (dir, plan) = with_dir("unreadable");
        let path = dir.join("plan");
        std::fs::write(&path, plan.to_json()).unwrap();
        let stop = EventFd::from_flags(EfdFlags::EFD_CLOEXEC).unwrap();
        std::fs::write(dir.join(STREAM), b"abc-\xff").unwrap();
        leave_stream(path.to_str().unwrap(), stop.as_fd()).unwrap();
        assert!(!has_left_stream(&dir));
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_plugin_is_told_once_of_a_fifo_that_cannot_be_looked_at() {
        let (dir, mut plan) = with_dir("hidden");
        let (path, around) = (dir.join("plan"), dir.join("around"));
        std::os::unix::fs::symlink(&around, &around).unwrap();
        plan.plugin.as_mut().unwrap().fifo_dir = around.to_str().unwrap().to_owned();
        std::fs::write(&path, plan.to_json()).unwrap();
        std::fs::write(dir.join(STREAM), "abc-1").unwrap();
        let socket = std::os::unix::net::UnixListener::bind(dir.join("socket")).unwrap();
        socket.set_nonblocking(true).unwrap();
        let stop = EventFd::from_flags(EfdFlags::EFD_CLOEXEC).unwrap();
        // The plugin takes the call and answers nothing.
        (0..2).for_each(|_| leave_stream(path.to_str().unwrap(), stop.as_fd()).unwrap());
        let calls = std::iter::from_fn(|| socket.accept().ok()).count();
        assert_eq!((calls, has_left_stream(&dir)), (1, false));
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn answers_that_are_errors() {
        let of = |status, body: &str| own_error(&Answer { status, body: body.into(), ends: true });
        assert_eq!(of(200, "{\"Err\":\"\"}"), None);
        assert_eq!(of(200, "{}"), None);
        assert_eq!(of(200, "{\"Err\":\"no room\"}").as_deref(), Some("no room"));
        assert_eq!(of(500, "{\"Err\":\"no room\"}").as_deref(), Some("no room"));
        assert_eq!(of(404, "page not found\n").as_deref(), Some("status 404: page not found"));
        assert_eq!(of(200, "garbage").as_deref(), Some("no JSON: garbage"));
    }
}
