//! The HTTP API on sockets: for hosts that serve it to others, and hand it listening sockets of their own.

use crate::answer::{Answer, Outs};
use crate::arg::{self, Out};
use crate::call::call_without_root;
use crate::entry::enter;
use crate::failure::{Failure, Outcome};
use crate::handle::{self, Object};
use crate::query::Query;
use crate::root::{Access, with_root};
use crate::types::*;
use crate::using::Using;
use crate::work::{Work, work};
use coracle_http::{Address, Server, ServerHandle, ServerOptions};
use libc::c_char;
use std::os::fd::OwnedFd;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// The object behind a `coracle_http_server *`.
pub(crate) struct Served {
    server: ServerHandle,
    /// As they are written: `unix:///path`, `tcp://IP:PORT`.
    addresses: Vec<String>,
    /// Disconnected once its thread has ended and its sockets are closed.
    ended: Mutex<Receiver<()>>,
}

impl Served {
    fn end(&self, grace: Duration) {
        self.server.shutdown(grace);
        let ended = self.ended.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let _ = ended.recv();
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.end(Duration::ZERO);
    }
}

impl Object for Served {
    type Opaque = coracle_http_server;
    const KIND: u64 = 7;
    const NAME: &'static str = "HTTP server";
}

/// Serves the HTTP API to others, on a thread of the library.
///
/// options_json: NULL, or an object with any of "Addresses" (texts: "unix:///path", made with mode 0660, or
/// "tcp://IP:PORT"), "InsecureTcp" (serve TCP, without TLS: each client that reaches the port is root here) and "HostNames" (names
/// that requests over TCP may give as Host, besides addresses and localhost). fds, fd_count: sockets that listen already,
/// Unix or TCP, as systemd passes them; the library takes duplicates, the caller's stay the caller's. *out: the server; end it
/// with coracle_http_server_free. The engine stays open as long as the server serves.
///
/// Schemas: options_json http-serve-options.
///
/// Errors: EINVALID (no address and no socket, a descriptor that does not listen, TCP without "InsecureTcp"), ECONFLICT
/// (a server listens there already), EIO (an address cannot be used).
///
/// Threads: any. Blocks: no. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_http_serve(
    c: *mut coracle,
    options_json: *const c_char,
    fds: *const i32,
    fd_count: usize,
    out: *mut *mut coracle_http_server,
    err: *mut *mut coracle_error,
) -> coracle_status {
    let out = Out::null(out);
    with_root(c, Access::Change, err, |root| {
        out.check("out")?;
        let known = ["Addresses", "HostNames", "InsecureTcp"];
        let query = Query::new(options_json, "options_json", &known, root.lenient())?;
        let addresses = query.texts("Addresses")?;
        let addresses: Vec<Address> = addresses.iter().map(|text| text.parse()).collect::<engine::Result<_>>()?;
        let options = ServerOptions {
            insecure_tcp: query.flag("InsecureTcp", false)?,
            host_names: query.texts("HostNames")?,
            ..ServerOptions::default()
        };
        let sockets = sockets(arg::numbers(fds, fd_count, "fds")?)?;
        let server = Server::bind_and_adopt(root.router()?.clone(), &addresses, sockets, options)?;
        out.set(handle::give(serve(server)?));
        Ok(CORACLE_OK)
    })
}

fn sockets(fds: &[i32]) -> Outcome<Vec<OwnedFd>> {
    let missing = || Failure::invalid("fds: a descriptor below 0");
    fds.iter().map(|fd| arg::duplicate(*fd, "fds")?.ok_or_else(missing)).collect()
}

/// Lets a thread serve.
fn serve(server: Server) -> Outcome<Served> {
    let addresses = server.addresses()?.iter().map(ToString::to_string).collect();
    let (handle, (running, ended)) = (server.handle(), channel());
    crate::thread::spawn("serve", move || {
        let _running = running;
        server.run();
    })?;
    Ok(Served { server: handle, addresses, ended: Mutex::new(ended) })
}

/// Lists the addresses of a server, with the ports that were chosen.
///
/// *out_json: an array of texts, the sockets that were handed over first; free it with coracle_free.
///
/// Schemas: out_json string-list.
///
/// Errors: none but those of every function.
///
/// Threads: any. Blocks: no. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_http_server_addresses(
    s: *mut coracle_http_server,
    out_json: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    let out = Out::null(out_json);
    enter(err, || {
        out.check("out_json")?;
        let served = handle::get::<Served>(s, "HTTP server")?;
        out.give_json(&served.addresses)?;
        Ok(CORACLE_OK)
    })
}

/// Ends serving. Nothing is accepted any more and idle connections are closed; answers under way have grace_ms to come to
/// their end; the rest (streams, attached terminals) is cut then. A second call finds the server ended.
///
/// Errors: EINVALID (grace_ms is below 0), ECANCELLED, ETIMEOUT (op).
///
/// Threads: any. Blocks: up to grace_ms and some seconds more. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_http_server_shutdown(
    s: *mut coracle_http_server,
    grace_ms: i64,
    op: *mut coracle_op,
    err: *mut *mut coracle_error,
) -> coracle_status {
    call_without_root(op, Outs::none(), err, &mut |_| {
        let served = handle::get::<Served>(s, "HTTP server")?;
        let grace = u64::try_from(grace_ms).map_err(|_| Failure::invalid("grace_ms is below 0"))?;
        let end = move |_: &Using| {
            served.end(Duration::from_millis(grace));
            Ok(Answer::done())
        };
        work(end).map(Work::long)
    })
}

/// Ends a server and its handle, without grace. NULL is fine.
///
/// Threads: any, and last. Blocks: until its connections are closed. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_http_server_free(s: *mut coracle_http_server) {
    crate::entry::enter_void(|| handle::free::<Served>(s));
}
