//! Pulling from and pushing to registries.
//!
//! The work happens on threads of its own; the caller's thread hands on what they say, and stops them when its
//! operation ends or a message is refused.

mod blob;
mod distribution;
mod import_url;
mod manifest;
mod partial_download;
mod plugin;
mod progress_reader;
mod pull;
mod push;
mod refetch;
mod schema1;
mod search;
mod singleflight;

pub(crate) use import_url::{UrlImport, UrlImporter};
pub(crate) use plugin::RemotePlugin;
pub(crate) use progress_reader::ProgressReader;
pub(crate) use pull::Puller;
pub(crate) use push::Pusher;
pub(super) use refetch::Refetcher;
pub(crate) use search::search;
pub(super) use singleflight::Flights;

use super::OnProgress;
use super::reference::Reference;
use crate::error::{Error, ErrorKind, Result};
use crate::kernel::thread;
use crate::model::{AuthStatus, Progress, RegistryAuth, RegistryOptions};
use crate::op::Op;
use crate::registry::{Client, Transport};
use crossbeam_channel::{RecvTimeoutError, Sender, unbounded};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// How often one is tried without any progress.
const ATTEMPTS: u32 = 5;

/// Takes messages from any thread.
#[derive(Clone)]
pub(crate) struct ProgressSender(Sender<Progress>);

impl ProgressSender {
    pub(crate) fn emit(&self, message: Progress) {
        // A receiver that does not listen any more has ended the operation.
        let _ = self.0.send(message);
    }
}

/// Checks credentials against the registry that they are for.
pub(crate) fn login(options: &RegistryOptions, auth: &RegistryAuth, op: Option<&Op>) -> Result<AuthStatus> {
    let domain = login_domain(&auth.serveraddress)?;
    let transport = Transport::new(options.clone());
    let token =
        beside(&transport, &mut |_| Ok(()), op, |_| Client::connect(&transport, &domain, auth.clone())?.login())?;
    Ok(AuthStatus { status: "Login Succeeded".into(), identity_token: token })
}

/// The host that a login's server address means: a host, or a URL of the registry.
fn login_domain(address: &str) -> Result<String> {
    let host = address.split_once("://").map_or(address, |(_, rest)| rest).split('/').next().unwrap_or_default();
    let host = match host {
        "" | "index.docker.io" => "docker.io",
        other => other,
    };
    let probe = Reference::parse(&format!("{host}/x"));
    match probe {
        Ok(reference) if reference.domain() == host => Ok(host.to_owned()),
        _ => Err(Error::invalid(format!("serveraddress: {host:?} is not a registry"))),
    }
}

/// Runs `work` on a thread of its own while this one hands its messages on and watches `op`.
pub(crate) fn beside<T: Send>(
    transport: &Transport,
    on_progress: OnProgress<'_>,
    op: Option<&Op>,
    work: impl FnOnce(ProgressSender) -> Result<T> + Send,
) -> Result<T> {
    std::thread::scope(|scope| {
        let (out, messages) = unbounded();
        let worker = thread::spawn(scope, "image-transfer", move || work(ProgressSender(out)))?;
        let mut ended = None;
        loop {
            let reported = match messages.recv_timeout(Duration::from_millis(50)) {
                Ok(message) if ended.is_none() => on_progress(message),
                Ok(_) | Err(RecvTimeoutError::Timeout) => Ok(()),
                Err(RecvTimeoutError::Disconnected) => break,
            };
            let reported = reported.and_then(|()| op.map_or(Ok(()), Op::check));
            if let (Err(error), None) = (reported, &ended) {
                ended = Some(error);
                transport.stop();
            }
        }
        let result = worker.join().map_err(|_| Error::new(ErrorKind::Panic, "a worker thread of a transfer failed"));
        match (result?, ended) {
            (Err(_), Some(ended)) => Err(ended),
            // A registry that cannot be reached is a failure of this call, not of the engine.
            (Err(error), None) if error.kind() == ErrorKind::Unavailable => Err(error.with_kind(ErrorKind::Internal)),
            (result, _) => result,
        }
    })
}

/// Does every job, some at a time; the first error stops the others.
fn in_parallel<J: Send, T: Send>(
    transport: &Transport,
    at_once: usize,
    jobs: Vec<J>,
    work: impl Fn(J) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let count = jobs.len();
    let jobs: Vec<parking_lot::Mutex<Option<J>>> = jobs.into_iter().map(|job| Some(job).into()).collect();
    let done: Vec<parking_lot::Mutex<Option<T>>> = (0..count).map(|_| None.into()).collect();
    let (next, failed) = (AtomicUsize::new(0), parking_lot::Mutex::new(None));
    let run = || {
        while failed.lock().is_none() {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(index).and_then(|job| job.lock().take()) else { return };
            match work(job) {
                Ok(answer) => *done[index].lock() = Some(answer),
                Err(error) => {
                    failed.lock().get_or_insert(error);
                    transport.halt();
                }
            }
        }
    };
    std::thread::scope(|scope| -> Result<()> {
        let mut workers = Vec::new();
        for _ in 0..count.min(at_once) {
            workers.push(thread::spawn(scope, "image-layer", run)?);
        }
        for worker in workers {
            worker.join().map_err(|_| Error::new(ErrorKind::Panic, "a worker thread of a transfer failed"))?;
        }
        Ok(())
    })?;
    match failed.into_inner() {
        Some(error) => Err(error),
        None => Ok(done.into_iter().filter_map(|answer| answer.into_inner()).collect()),
    }
}

/// Waits before another try, and reports the seconds as docker does.
fn back_off(transport: &Transport, sender: &ProgressSender, id: &str, failures: u32) -> Result<()> {
    for left in (1..=(1u64 << failures.min(4)) / 2).rev() {
        let s = if left == 1 { "" } else { "s" };
        sender.emit(super::progress::step(&format!("Retrying in {left} second{s}"), id));
        transport.sleep(Duration::from_secs(1))?;
    }
    Ok(())
}

/// Whether trying again may help.
fn is_passing(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout)
}

/// Manifests of any form. See `crate::fuzz`.
#[cfg(any(test, fuzzing))]
pub(crate) fn fuzz(data: &[u8]) {
    let _ = manifest::read("", data);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logins_name_a_registry() {
        for (address, want) in [
            ("", "docker.io"),
            ("https://index.docker.io/v1/", "docker.io"),
            ("localhost:5000", "localhost:5000"),
            ("http://reg.example/v2/", "reg.example"),
        ] {
            assert_eq!(login_domain(address).unwrap(), want);
        }
        for bad in ["u@h", "plain", "a b", "h:99999"] {
            assert!(login_domain(bad).is_err(), "{bad}");
        }
    }
}
