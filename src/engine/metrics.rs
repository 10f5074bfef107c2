//! The work of an engine and the content of its root as numbers: for a program that watches, and as Prometheus reads them.

use super::Engine;
use crate::error::{Error, Result};
use crate::model::{Metrics, OperationMetrics};
use crate::notes::{LogLevel, note_since};
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// The requests that are counted and noted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    Start,
    Stop,
    Restart,
    Kill,
    Remove,
    Exec,
    Pull,
    Push,
    Load,
    Build,
    Sweep,
}

/// Each at the place of its number.
const ALL: [(Work, &str, &str); 11] = [
    (Work::Start, "start", "container"),
    (Work::Stop, "stop", "container"),
    (Work::Restart, "restart", "container"),
    (Work::Kill, "kill", "container"),
    (Work::Remove, "remove", "container"),
    (Work::Exec, "exec", "container"),
    (Work::Pull, "pull", "image"),
    (Work::Push, "push", "image"),
    (Work::Load, "load", "image"),
    (Work::Build, "build", "image"),
    (Work::Sweep, "sweep", "store"),
];

/// How often an engine did each kind of work since it was opened, and how long that took.
#[derive(Default)]
pub(crate) struct Counters([Counter; ALL.len()]);

#[derive(Default)]
struct Counter {
    done: AtomicU64,
    failed: AtomicU64,
    micros: AtomicU64,
}

impl Counters {
    /// Does work, counts it, and notes it at info: `of` is the container, or the image.
    pub(super) fn count<T>(&self, work: Work, of: Option<&str>, does: impl FnOnce() -> Result<T>) -> Result<T> {
        let began = Instant::now();
        let result = does();
        let micros = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        let (counter, (_, name, area)) = (&self.0[work as usize], ALL[work as usize]);
        counter.micros.fetch_add(micros, Ordering::Relaxed);
        match &result {
            Ok(_) => counter.done.fetch_add(1, Ordering::Relaxed),
            Err(_) => counter.failed.fetch_add(1, Ordering::Relaxed),
        };
        let container = of.filter(|_| area == "container");
        note_since(LogLevel::Info, area, container, began, || {
            description(name, of.filter(|_| container.is_none()), &result)
        });
        result
    }

    fn read(&self) -> Vec<OperationMetrics> {
        let read = |(counter, (_, name, _)): (&Counter, &(Work, &str, &str))| OperationMetrics {
            operation: (*name).into(),
            done: counter.done.load(Ordering::Relaxed),
            failed: counter.failed.load(Ordering::Relaxed),
            seconds: counter.micros.load(Ordering::Relaxed) as f64 / 1e6,
        };
        self.0.iter().zip(&ALL).map(read).collect()
    }
}

fn description<T>(name: &str, of: Option<&str>, result: &Result<T>) -> String {
    let of = of.map(|of| format!(" {of}")).unwrap_or_default();
    match result {
        Ok(_) => format!("{name}{of}: done"),
        Err(error) => format!("{name}{of}: {error}"),
    }
}

impl Engine {
    /// Counts what the root holds, and what this engine did since it was opened. Cheap enough to be asked every second: it reads
    /// no document of a container and no file of an image.
    pub fn metrics(&self) -> Result<Metrics> {
        let (states, restarts, log_lost) = self.0.containers.register.tally()?;
        let (images, layer_bytes) = self.0.images.views.totals()?;
        Ok(Metrics {
            version: env!("CARGO_PKG_VERSION").into(),
            containers: states,
            restarts,
            log_lost,
            images,
            layer_bytes,
            operations: self.0.counters.read(),
            event_listeners: self.0.journal.listeners() as u64,
        })
    }

    /// Whether the engine can do its work: the database answers, and the run directory takes files.
    ///
    /// Errors: what does not work.
    pub fn health(&self) -> Result<()> {
        self.0.containers.register.counts()?;
        let run = self.0.containers.places.run();
        // Without a name: nothing stays, however this ends.
        let file = OpenOptions::new().write(true).custom_flags(libc::O_TMPFILE).open(run);
        file.map(drop).map_err(|error| Error::io(format_args!("make a file in {}", run.display()), &error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_work_counts_at_its_place() {
        for (place, (work, ..)) in ALL.iter().enumerate() {
            assert_eq!(*work as usize, place);
        }
        let counters = Counters::default();
        counters.count(Work::Pull, Some("busybox"), || Ok(())).unwrap();
        counters.count(Work::Pull, None, || Err::<(), _>(Error::internal("no"))).unwrap_err();
        let read = counters.read();
        let pull = read.iter().find(|one| one.operation == "pull").unwrap();
        assert_eq!((pull.done, pull.failed), (1, 1));
        assert_eq!(read.iter().map(|one| one.done + one.failed).sum::<u64>(), 2);
    }
}
