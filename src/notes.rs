//! The library's own log: its work, its waits and what it puts right, for one sink of the process. Without a sink a note
//! costs one read of an atomic; no text is made.

use parking_lot::RwLock;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

/// How grave a note is; the graver ones come first.
///
/// ```
/// assert!(coracle::LogLevel::Error < coracle::LogLevel::Debug);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum LogLevel {
    /// A defect, or damage.
    Error = 1,
    /// Something was put right, or given up.
    Warn = 2,
    /// A request that changed something, with its duration.
    Info = 3,
    /// Parts of requests: the step at which a launch failed, networks, repeated downloads.
    Debug = 4,
}

/// One line of the library's log; its display is the whole line.
///
/// ```
/// use coracle::{LogLevel, set_log};
/// use std::sync::Arc;
///
/// set_log(LogLevel::Info, Some(Arc::new(|note| println!("{}: {note}", note.area))));
/// set_log(LogLevel::Info, None);
/// ```
#[derive(Debug, Clone, Copy)]
pub struct LogNote<'a> {
    /// How grave it is.
    pub level: LogLevel,
    /// The part of the engine: `container`, `image`, `network`, `launch`, `store`.
    pub area: &'static str,
    /// The container's id or name, as the request had it.
    pub container: Option<&'a str>,
    /// How long the work took.
    pub took: Option<Duration>,
    /// The work that was done, and why it failed.
    pub text: &'a str,
}

impl fmt::Display for LogNote<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text)?;
        self.container.map_or(Ok(()), |container| write!(f, " container={container}"))?;
        self.took.map_or(Ok(()), |took| write!(f, " took={:.1}ms", took.as_secs_f64() * 1e3))
    }
}

/// Takes the notes: it is called from any thread of the program, and must not open or drop an engine.
///
/// ```
/// use coracle::{LogLevel, LogNote, LogSink, set_log};
/// use std::sync::Arc;
///
/// let sink: LogSink = Arc::new(|note: &LogNote<'_>| eprintln!("{note}"));
/// set_log(LogLevel::Info, Some(sink));
/// # set_log(LogLevel::Info, None);
/// ```
pub type LogSink = Arc<dyn Fn(&LogNote<'_>) + Send + Sync>;

/// The least grave level that the sink takes; 0: there is none.
static LEVEL: AtomicU8 = AtomicU8::new(0);
static SINK: RwLock<Option<LogSink>> = RwLock::new(None);

/// Sets the process's sink for notes of `level` and graver ones; none: removes it. All engines of the process share it.
///
/// With the feature `log`, notes go to the logger of the crate `log`, too, under the target `coracle::<area>`.
pub fn set_log(level: LogLevel, sink: Option<LogSink>) {
    let mut place = SINK.write();
    LEVEL.store(if sink.is_some() { level as u8 } else { 0 }, Ordering::SeqCst);
    let old = std::mem::replace(&mut *place, sink);
    drop(place);
    // Outside the lock: its drop may be the caller's code.
    drop(old);
}

/// Whether somebody takes notes of this level.
pub(crate) fn is_taken(level: LogLevel) -> bool {
    #[cfg(feature = "log")]
    if level_of(level) <= log::max_level() {
        return true;
    }
    level as u8 <= LEVEL.load(Ordering::Relaxed)
}

#[cfg(feature = "log")]
fn level_of(level: LogLevel) -> log::Level {
    match level {
        LogLevel::Error => log::Level::Error,
        LogLevel::Warn => log::Level::Warn,
        LogLevel::Info => log::Level::Info,
        LogLevel::Debug => log::Level::Debug,
    }
}

fn give(note: &LogNote<'_>) {
    #[cfg(feature = "log")]
    log::logger().log(
        &log::Record::builder()
            .level(level_of(note.level))
            .target(&format!("coracle::{}", note.area))
            .args(format_args!("{note}"))
            .build(),
    );
    if note.level as u8 > LEVEL.load(Ordering::Relaxed) {
        return;
    }
    // In the child of a fork another thread's lock may never open.
    let sink = SINK.try_read().and_then(|place| place.clone());
    if let Some(sink) = sink {
        sink(note);
    }
}

/// Notes something of a container, or of none.
pub(crate) fn note(level: LogLevel, area: &'static str, container: Option<&str>, text: impl FnOnce() -> String) {
    if is_taken(level) {
        give(&LogNote { level, area, container, took: None, text: &text() });
    }
}

/// Notes something that began at a time.
pub(crate) fn note_since(
    level: LogLevel,
    area: &'static str,
    container: Option<&str>,
    began: Instant,
    text: impl FnOnce() -> String,
) {
    if is_taken(level) {
        give(&LogNote { level, area, container, took: Some(began.elapsed()), text: &text() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;

    #[test]
    fn a_note_is_one_line_with_container_and_duration() {
        let took = Some(Duration::from_micros(1250));
        let note = LogNote { level: LogLevel::Info, area: "container", container: Some("a1"), took, text: "start" };
        assert_eq!(note.to_string(), "start container=a1 took=1.2ms");
        assert_eq!(LogNote { container: None, took: None, ..note }.to_string(), "start");
    }

    #[test]
    fn only_what_the_sink_takes_is_made() {
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let sink = Arc::clone(&seen);
        set_log(
            LogLevel::Info,
            Some(Arc::new(move |note| {
                if note.area == "test" {
                    sink.lock().push(note.to_string());
                }
            })),
        );
        note(LogLevel::Info, "test", None, || "noted".into());
        note(LogLevel::Debug, "test", None, || unreachable!("nobody takes it"));
        set_log(LogLevel::Info, None);
        note(LogLevel::Error, "test", None, || unreachable!("nobody takes it"));
        assert_eq!(*seen.lock(), ["noted"]);
    }
}
