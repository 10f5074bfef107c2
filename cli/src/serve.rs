//! `serve`: the HTTP API on a socket.

use crate::args::{Command, Flag, Parsed};
use crate::{Entry, Failure, Globals, Outcome, emit};
use coracle_http::{Address, Router, RouterOptions, Server, ServerOptions};
use nix::sys::signal::{SigSet, Signal};
use std::time::Duration;

/// Where the specification has its service.
const DEFAULT_ADDRESS: &str = "unix:///var/run/engine.sock";

/// How long answers under way may take once the server is told to end.
const GRACE: Duration = Duration::from_secs(10);

pub const ENTRIES: &[Entry] = &[Entry {
    command: Command {
        name: "serve",
        usage: "[FLAGS]",
        about: "Serve the HTTP API until SIGINT or SIGTERM; containers stay",
        flags: &[
            Flag::value(&["host", "H"], "ADDRESS", "unix:///path or tcp://127.0.0.1:port; may be given more than once"),
            Flag::value(&["api-cors-header"], "ORIGIN", "let web pages of this origin use the API (* for all)"),
            Flag::value(&["host-name"], "NAME", "serve TCP requests for this Host name too"),
            Flag::switch(&["insecure-tcp"], "serve TCP addresses that other machines reach: whoever connects is root"),
        ],
        stops_at_first: false,
    },
    run: serve,
}];

fn serve(globals: &Globals, parsed: &Parsed) -> Outcome {
    let hosts = parsed.some("host").unwrap_or_else(|| vec![DEFAULT_ADDRESS.into()]);
    let addresses = hosts.iter().map(|host| host.parse()).collect::<coracle::Result<Vec<Address>>>()?;
    let signals = block_signals()?;
    let router = RouterOptions { api_cors_header: parsed.last("api-cors-header").map(str::to_owned) };
    let options = ServerOptions {
        insecure_tcp: parsed.has("insecure-tcp"),
        host_names: parsed.all("host-name"),
        ..ServerOptions::default()
    };
    let server = Server::bind(Router::with(globals.engine()?, router), &addresses, options)?;
    for address in server.addresses()? {
        emit(&format!("listening on {address}\n"))?;
    }
    let handle = server.handle();
    let serving = std::thread::spawn(move || server.run());
    signals.wait().map_err(|e| Failure::Here(format!("wait for a signal: {e}")))?;
    handle.shutdown(GRACE);
    serving.join().map_err(|_| Failure::Here("the server met a defect".into()))?;
    Ok(0)
}

/// Before any thread starts, so that all of them leave the signals to the wait.
fn block_signals() -> Result<SigSet, Failure> {
    let mut set = SigSet::empty();
    set.add(Signal::SIGINT);
    set.add(Signal::SIGTERM);
    set.thread_block().map_err(|e| Failure::Here(format!("block signals: {e}")))?;
    Ok(set)
}
