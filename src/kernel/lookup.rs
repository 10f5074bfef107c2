//! Look-ups of host names that end in time.

use super::thread;
use crate::error::{Error, ErrorKind, Result};
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// The addresses of `host`, `HOST:PORT`.
///
/// Nothing ends a look-up of the C library, so it has a thread of its own, which is left alone after `limit`.
///
/// Errors: the host has no address, or none was found in time ([`ErrorKind::Timeout`]).
pub(crate) fn addresses(host: &str, limit: Duration) -> Result<Vec<SocketAddr>> {
    // An address needs no look-up.
    if let Ok(address) = host.parse() {
        return Ok(vec![address]);
    }
    let asked = host.to_owned();
    in_time(host, limit, move || asked.to_socket_addrs().map(Vec::from_iter))
}

fn in_time(
    host: &str,
    limit: Duration,
    ask: impl FnOnce() -> std::io::Result<Vec<SocketAddr>> + Send + 'static,
) -> Result<Vec<SocketAddr>> {
    let (done, found) = channel();
    thread::spawn_worker("coracle-lookup", move || {
        // Nobody takes the result of a look-up that was too slow.
        let _ = done.send(ask());
    })?;
    match found.recv_timeout(limit) {
        Ok(Ok(addresses)) if addresses.is_empty() => Err(Error::not_found(format!("{host} has no address"))),
        Ok(Ok(addresses)) => Ok(addresses),
        Ok(Err(error)) => Err(Error::io(format!("look up {host}"), &error)),
        Err(RecvTimeoutError::Timeout) => {
            Err(Error::new(ErrorKind::Timeout, format!("look up {host}: no answer within {limit:?}")))
        }
        Err(RecvTimeoutError::Disconnected) => Err(Error::internal(format!("look up {host}: its thread panicked"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_names_are_found() {
        let limit = Duration::from_secs(30);
        assert_eq!(addresses("127.0.0.1:80", limit).unwrap(), ["127.0.0.1:80".parse().unwrap()]);
        assert!(addresses("localhost:80", limit).unwrap().iter().all(|address| address.ip().is_loopback()));
        assert!(addresses("no host", limit).unwrap_err().message().starts_with("look up no host: "));
    }

    #[test]
    fn a_slow_look_up_is_left_alone() {
        let (answer, asked) = channel::<()>();
        let slow = move || Ok(asked.into_iter().map(|()| unreachable!("no answer comes")).collect());
        let error = in_time("far:80", Duration::from_millis(1), slow).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout, "{}", error.message());
        drop(answer);
    }
}
