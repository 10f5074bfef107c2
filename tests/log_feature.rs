//! The feature `log`: the library's notes reach the logger of the crate `log`. A program by itself, because the feature is not one
//! of the usual build, and a process has one logger.

use coracle::{Engine, Options};
use std::sync::Mutex;

/// Keeps every record as `LEVEL TARGET TEXT`.
struct Kept(Mutex<Vec<String>>);

static KEPT: Kept = Kept(Mutex::new(Vec::new()));

impl log::Log for Kept {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        let line = format!("{} {} {}", record.level(), record.target(), record.args());
        self.0.lock().expect("the records").push(line);
    }

    fn flush(&self) {}
}

#[test]
fn notes_reach_the_logger_of_the_crate_log() {
    log::set_logger(&KEPT).expect("the first logger");
    let dir = std::env::temp_dir().join(format!("coracle-log-{}", std::process::id()));
    let open = || {
        let mut options = Options::new(dir.join("root"));
        options.run_dir = Some(dir.join("run"));
        Engine::open_with(options).map(drop)
    };
    std::fs::create_dir(&dir).expect("make a directory");
    let quiet = open();
    let before = KEPT.0.lock().expect("the records").len();
    log::set_max_level(log::LevelFilter::Info);
    let noted = open();
    std::fs::remove_dir_all(&dir).expect("clean up");
    quiet.and(noted).expect("open");
    assert_eq!(before, 0, "the level of the crate `log` decides");
    let lines = KEPT.0.lock().expect("the records");
    let opened = |line: &String| line.starts_with("INFO coracle::store open ") && line.contains(": done took=");
    assert!(lines.iter().any(opened), "{lines:?}");
}
