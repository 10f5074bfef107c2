//! A root with logs that a test writes as monitors do, a shipper for it, and real receivers.

use coracle_monitor::text::civil;
use coracle_monitor::wire::{LOG_MARK, LogMark};
use coracle_ship::outbox::{self, Status};
use coracle_ship::shipper::{self, Spawn};
use coracle_ship::{Facts, Plan, Proxies, check};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The day of the lines, in days since 1970: the one before this program's start, because services refuse lines of two weeks ago.
fn day() -> i64 {
    static DAY: OnceLock<i64> = OnceLock::new();
    *DAY.get_or_init(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock that is set").as_secs();
        i64::try_from(now / 86_400).expect("a day") - 1
    })
}

/// The time of a line as records have it, up to its seconds: `2026-11-21T12:20:28`.
pub fn line_time() -> String {
    let (year, month, day) = civil(day());
    format!("{year:04}-{month:02}-{day:02}T12:20:28")
}

/// The time of a line with its half second, in milliseconds since 1970.
pub fn line_ms() -> i64 {
    day() * 86_400_000 + 44_428_500
}

/// How long a test waits for something that should come at once, on a busy machine.
pub const SOON: Duration = Duration::from_secs(50);

/// How long a test waits for a receiver that writes to a disk: under load a disk may stand still for more than a minute.
pub const AFTER_A_DISK: Duration = Duration::from_secs(300);

pub fn wait_for(what: &str, done: impl FnMut() -> bool) {
    wait_within(SOON, || what.to_owned(), done);
}

fn wait_within(time: Duration, what: impl Fn() -> String, mut done: impl FnMut() -> bool) {
    let until = Instant::now() + time;
    while !done() {
        assert!(Instant::now() < until, "waited in vain for {}", what());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A port that nobody has at the moment.
pub fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").and_then(|bound| bound.local_addr()).expect("a free port").port()
}

/// A root of its own, removed at the end of the test.
pub struct World {
    pub dir: PathBuf,
    stop: Arc<OwnedFd>,
    shipper: Option<JoinHandle<()>>,
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop_shipping();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn eventfd() -> EventFd {
    EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK).expect("an eventfd")
}

impl World {
    pub fn new() -> World {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("coracle-ship-{}-{number}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        World::at(&dir)
    }

    /// In a directory that may have a root.
    pub fn at(dir: &Path) -> World {
        std::fs::create_dir_all(dir.join("root")).expect("a directory");
        World { dir: dir.to_owned(), stop: Arc::new(eventfd().into()), shipper: None }
    }

    /// Leaves the directory as it is.
    pub fn keep(mut self) {
        self.stop_shipping();
        self.dir = PathBuf::from("/nonexistent");
    }

    pub fn root(&self) -> PathBuf {
        self.dir.join("root")
    }

    /// Starts a shipper.
    pub fn ship(&mut self) {
        self.ship_through(Proxies::default());
    }

    /// Starts a shipper with proxies.
    pub fn ship_through(&mut self, proxies: Proxies) {
        self.stop = Arc::new(eventfd().into());
        let (root, lock, stop) = (self.root(), self.dir.join("lock"), Arc::clone(&self.stop));
        let spawn: Spawn = Box::new(|work| std::thread::Builder::new().spawn(work).is_ok());
        self.shipper = Some(std::thread::spawn(move || shipper::run(&root, &lock, stop, &proxies, &spawn)));
    }

    /// Ships as the program of its own does, until nothing is owed.
    pub fn ship_until_done(&self) {
        let lock = File::create(self.dir.join("lock")).expect("the lock's file");
        lock.lock().expect("the lock");
        let spawn: Spawn = Box::new(|work| std::thread::Builder::new().spawn(work).is_ok());
        shipper::run_until_done(&self.root(), lock, Arc::clone(&self.stop), &Proxies::default(), &spawn);
        let lock = File::open(self.dir.join("lock")).expect("the lock's file");
        lock.try_lock().expect("the lock is free");
    }

    /// Ends the shipper, as the end of its program does.
    pub fn stop_shipping(&mut self) {
        if let Some(shipper) = self.shipper.take() {
            nix::unistd::write(&self.stop, &1_u64.to_ne_bytes()).expect("signal the shipper");
            shipper.join().expect("the shipper ends");
        }
    }

    /// A container with a driver that delivers.
    pub fn container(&self, name: &str, driver: &str, options: &[(&str, &str)]) -> Log {
        let facts = Facts {
            id: format!("{name:0>64}"),
            name: name.to_owned(),
            image_name: "busybox".into(),
            tag: "tag".into(),
            host: "box".into(),
            ..Facts::default()
        };
        self.container_of(facts, driver, options)
    }

    /// A container with these facts.
    pub fn container_of(&self, facts: Facts, driver: &str, options: &[(&str, &str)]) -> Log {
        let options: BTreeMap<String, String> =
            options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        check(driver, &options).expect("good options");
        let id = facts.id.clone();
        let plan = Plan { driver: driver.to_owned(), options, log: "log".into(), slot: None, facts, plugin: None };
        let dir = self.root().join("containers").join(&id);
        std::fs::create_dir_all(&dir).expect("a directory");
        outbox::write_plan(&self.root(), &plan).expect("write the plan");
        Log::new(self.root(), id, dir.join("log"))
    }
}

/// A log in a test's hands.
pub struct Log {
    root: PathBuf,
    pub id: String,
    path: PathBuf,
    file: File,
    mark: LogMark,
    in_file: u64,
    pub written: u64,
    /// Files rotate at so many bytes; so many are kept.
    pub bounds: (u64, usize),
}

impl Log {
    fn new(root: PathBuf, id: String, path: PathBuf) -> Log {
        let mark = LogMark { generation: 1, records: 0, bytes: 0 };
        // A log that is there keeps its mark.
        let file = match path.exists() {
            true => OpenOptions::new().append(true).open(&path).expect("the log"),
            false => make(&path, mark),
        };
        Log { root, id, path, file, mark, in_file: 0, written: 0, bounds: (1 << 40, 5) }
    }

    /// Writes so many lines, each with its number.
    pub fn write(&mut self, lines: u64) {
        self.write_with(lines, "")
    }

    pub fn write_with(&mut self, lines: u64, more: &str) {
        let (mut block, time) = (String::new(), line_time());
        for _ in 0..lines {
            self.written += 1;
            let stream = if self.written.is_multiple_of(2) { "stdout" } else { "stderr" };
            let number = self.written;
            block.push_str(&format!(
                "{{\"log\":\"{} n={number}{more}\\n\",\"stream\":\"{stream}\",\"time\":\"{time}.5Z\"}}\n",
                &self.id[60..]
            ));
            self.in_file += 1;
            if self.size() + block.len() as u64 >= self.bounds.0 {
                self.file.write_all(block.as_bytes()).expect("write");
                block.clear();
                self.rotate();
            }
        }
        self.file.write_all(block.as_bytes()).expect("write");
    }

    /// Writes one line.
    #[cfg(feature = "tls")]
    pub fn push(&mut self, text: &str, stderr: bool) {
        self.push_record(&format!("{text}\n"), stderr);
    }

    /// Writes one line in records of so many bytes.
    pub fn push_in_parts(&mut self, text: &str, most: usize) {
        let line = format!("{text}\n");
        let mut rest = line.as_str();
        while rest.len() > most + 1 {
            let (part, more) = rest.split_at(most);
            self.push_record(part, false);
            rest = more;
        }
        self.push_record(rest, false);
    }

    /// Writes one record.
    pub fn push_record(&mut self, text: &str, stderr: bool) {
        self.push_record_at(text, stderr, &format!("{}.5Z", line_time()));
    }

    /// Writes one record with a time.
    pub fn push_record_at(&mut self, text: &str, stderr: bool, time: &str) {
        let stream = if stderr { "stderr" } else { "stdout" };
        let record = serde_json::json!({ "log": text, "stream": stream, "time": time });
        (self.written, self.in_file) = (self.written + 1, self.in_file + 1);
        self.file.write_all(format!("{record}\n").as_bytes()).expect("write");
    }

    /// Writes so many lines without a text.
    pub fn write_empty(&mut self, lines: u64) {
        let line = format!("{{\"log\":\"\\n\",\"stream\":\"stdout\",\"time\":\"{}.5Z\"}}\n", line_time());
        (self.written, self.in_file) = (self.written + lines, self.in_file + lines);
        self.file.write_all(line.repeat(usize::try_from(lines).expect("few")).as_bytes()).expect("write");
    }

    fn size(&self) -> u64 {
        self.file.metadata().expect("a size").len()
    }

    fn rotate(&mut self) {
        self.mark = LogMark {
            generation: self.mark.generation + 1,
            records: self.mark.records + std::mem::take(&mut self.in_file),
            bytes: self.mark.bytes + self.size(),
        };
        let numbered = |number: usize| match number {
            0 => self.path.clone(),
            number => self.path.with_extension(number.to_string()),
        };
        let new = self.path.with_extension("new");
        let file = make(&new, self.mark);
        for number in (1..self.bounds.1).rev() {
            let _ = std::fs::rename(numbered(number - 1), numbered(number));
        }
        std::fs::rename(&new, &self.path).expect("rename");
        self.file = file;
    }

    pub fn status(&self) -> Option<Status> {
        outbox::status(&self.root, &self.id).expect("a status")
    }

    /// Waits until nothing is owed; returns how many lines were delivered, and how many were lost. Every line that was
    /// written counts, and counts once.
    pub fn await_delivery(&self) -> (u64, u64) {
        self.await_nothing_owed(SOON);
        let Status { cursor, left_out, .. } = self.status().expect("a status");
        let sum = cursor.delivered + cursor.lost + left_out;
        assert_eq!(sum, self.written, "{} delivered, {} lost, {left_out} left out", cursor.delivered, cursor.lost);
        (cursor.delivered, cursor.lost)
    }

    /// Waits until all lines of the log are delivered or counted.
    pub fn await_nothing_owed(&self, within: Duration) {
        let what = || format!("the delivery: {:?}", self.status());
        wait_within(within, what, || self.status().is_some_and(|status| status.owed.lines == 0));
    }

    /// How many lines the driver left out.
    pub fn left_out(&self) -> u64 {
        self.status().expect("a status").left_out
    }
}

fn make(path: &Path, mark: LogMark) -> File {
    let file = OpenOptions::new().create(true).append(true).open(path).expect("a file");
    let path = std::ffi::CString::new(path.as_os_str().as_encoded_bytes()).expect("a path");
    let mark = mark.to_bytes();
    // SAFETY: both texts end with a zero byte, and the mark has as many bytes as are named.
    let set = unsafe { libc::setxattr(path.as_ptr(), LOG_MARK.as_ptr(), mark.as_ptr().cast(), mark.len(), 0) };
    assert_eq!(set, 0, "the test needs root: {}", std::io::Error::last_os_error());
    file
}

/// A program that ends with the test.
pub struct Program(pub Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Program {
    pub fn start(command: &mut Command) -> Program {
        let quiet = command.stdin(Stdio::null());
        Program(quiet.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}: run tools/setup receivers")))
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.0.id().cast_signed()), signal).expect("signal a receiver");
    }

    /// Asks the program to end, and waits until it has.
    pub fn end(mut self) {
        self.signal(Signal::SIGTERM);
        self.0.wait().expect("a receiver ends");
    }
}

/// The numbers of whole lines that a receiver wrote, for a container: how often each came.
pub fn numbers(text: &str, log: &Log) -> BTreeMap<u64, u64> {
    let mut counts = BTreeMap::new();
    let mark = format!("{} n=", &log.id[60..]);
    // The receiver may be writing the last line.
    let text = &text[..text.rfind('\n').map_or(0, |end| end + 1)];
    for place in text.match_indices(&mark) {
        let digits: String = text[place.0 + mark.len()..].chars().take_while(char::is_ascii_digit).collect();
        *counts.entry(digits.parse().expect("a number")).or_default() += 1;
    }
    counts
}

/// The numbers that did not come.
pub fn missing(counts: &BTreeMap<u64, u64>, log: &Log) -> Vec<u64> {
    (1..=log.written).filter(|number| !counts.contains_key(number)).collect()
}

/// Waits until every line of a log is in the receiver's text; returns how often each is there.
pub fn arrived(log: &Log, text: impl Fn() -> String) -> BTreeMap<u64, u64> {
    let until = Instant::now() + SOON;
    loop {
        let counts = numbers(&text(), log);
        let missing = missing(&counts, log);
        if missing.is_empty() {
            return counts;
        }
        assert!(
            Instant::now() < until,
            "{} of {} lines are missing: {:?}...",
            missing.len(),
            log.written,
            missing.first()
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}
