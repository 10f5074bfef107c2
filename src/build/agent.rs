//! `RUN --mount=type=ssh`: a socket in the step that leads to an agent of the host.

use crate::error::{Error, Result};
use crate::kernel::thread;
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The socket's name in its directory.
pub(super) const SOCKET: &str = "agent";
/// Connections of one step at a time; more are closed.
const MOST: usize = 32;

/// A socket whose connections go to an agent, until it is dropped.
pub(super) struct Forwarded {
    /// A path of the socket that is short, and the directory that it names.
    path: PathBuf,
    _dir: std::fs::File,
    ended: Arc<AtomicBool>,
}

impl Forwarded {
    /// Makes the socket in the directory `place`. Errors: nothing listens at `agent`.
    pub(super) fn start(place: &Path, agent: &Path, id: &str) -> Result<Forwarded> {
        let failed = |what: &str, e: &std::io::Error| Error::io(format_args!("ssh {id}: {what}"), e);
        UnixStream::connect(agent).map_err(|e| failed(&format!("connect to {}", agent.display()), &e))?;
        let dir = std::fs::File::open(place).map_err(|e| failed("open the socket's directory", &e))?;
        // The address of a socket is short; the path of a root may be long.
        let path = PathBuf::from(format!("/proc/self/fd/{}/{SOCKET}", std::os::fd::AsRawFd::as_raw_fd(&dir)));
        let listener = UnixListener::bind(&path).map_err(|e| failed("make the socket", &e))?;
        let ended = Arc::new(AtomicBool::new(false));
        let (agent, stop) = (agent.to_owned(), ended.clone());
        thread::spawn_detached("coracle-agent", move || accept(&listener, &agent, &stop))?;
        Ok(Forwarded { path, _dir: dir, ended })
    }
}

impl Drop for Forwarded {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        // Wakes the thread that accepts; the file goes with the build's directory.
        let _ = UnixStream::connect(&self.path);
    }
}

/// The pause after a connection that could not be accepted.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(50);

fn accept(listener: &UnixListener, agent: &Path, ended: &AtomicBool) {
    let open = Arc::new(());
    for client in listener.incoming() {
        if ended.load(Ordering::Acquire) {
            return;
        }
        let Ok(client) = client else {
            // No descriptor is free.
            std::thread::sleep(PAUSE);
            continue;
        };
        // A step that cannot be served sees the end of its connection.
        if Arc::strong_count(&open) > MOST {
            continue;
        }
        let Ok(server) = UnixStream::connect(agent) else { continue };
        let counted = open.clone();
        let _ = thread::spawn_detached("coracle-agent", move || {
            forward(&client, &server);
            drop(counted);
        });
    }
}

/// Passes on in both directions until one end closes.
fn forward(client: &UnixStream, server: &UnixStream) {
    std::thread::scope(|scope| {
        let back = thread::spawn(scope, "coracle-agent", || pass(server, client));
        pass(client, server);
        if back.is_err() {
            let _ = server.shutdown(Shutdown::Both);
        }
    });
}

/// Passes on what one end says. An end that is gone ends the connection: nobody is left to be told of an error.
fn pass(mut from: &UnixStream, mut to: &UnixStream) {
    let _ = std::io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
}
