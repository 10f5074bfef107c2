//! The gifts of a service manager to a server that it starts (sd_listen_fds(3), sd_notify(3)): sockets, and an address for notices.

use crate::Failure;
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The sockets that were opened for this process.
pub fn sockets() -> Result<Vec<OwnedFd>, Failure> {
    let said = |name: &str| std::env::var(name).ok();
    let count = match (said("LISTEN_PID"), said("LISTEN_FDS")) {
        // Otherwise the variables were meant for an earlier process.
        (Some(pid), Some(count)) if pid.parse() == Ok(std::process::id()) => count,
        _ => return Ok(Vec::new()),
    };
    let count = count.parse().map_err(|_| Failure::Usage(format!("LISTEN_FDS is not a number: {count:?}")))?;
    Ok(coracle::inherited(count)?)
}

/// Notifies the service manager that the server answers clients. A failure is ignored, because the manager notices the
/// missing message itself.
pub fn notify_ready() {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let name = name.as_encoded_bytes();
    let address = match name.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(std::path::Path::new(&*String::from_utf8_lossy(name))),
    };
    if let (Ok(address), Ok(socket)) = (address, UnixDatagram::unbound()) {
        let _ = socket.send_to_addr(b"READY=1", &address);
    }
}
