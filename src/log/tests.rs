use super::*;
use crate::kernel::tree::{get_xattr_fd, set_xattr_fd};
use coracle_monitor::wire::{LOG_MARK, LogMark};
use flate2::{Compression, write::GzEncoder};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A log and its directory, which is removed with the test; writes like the monitor.
struct Log {
    dir: PathBuf,
    file: Option<File>,
    /// The mark of the file being written; `None`: an older monitor without marks writes.
    mark: Option<LogMark>,
    alive: Arc<AtomicBool>,
}

impl Log {
    fn new() -> Log {
        let mut name = [0u8; 8];
        getrandom::fill(&mut name).unwrap();
        let dir = std::env::temp_dir().join(format!("coracle-log-{:016x}", u64::from_ne_bytes(name)));
        std::fs::create_dir(&dir).unwrap();
        let mark = Some(LogMark { generation: 1, records: 0, bytes: 0 });
        Log { dir, file: None, mark, alive: Arc::new(AtomicBool::new(true)) }
    }
    fn older() -> Log {
        let mut log = Log::new();
        log.mark = None;
        log
    }
    fn path(&self) -> PathBuf {
        self.dir.join("x-json.log")
    }
    fn raw(&mut self, bytes: &[u8]) {
        let path = self.path();
        let file = self.file.get_or_insert_with(|| {
            let file = OpenOptions::new().append(true).create(true).open(path).unwrap();
            if let Some(mark) = &self.mark {
                set_xattr_fd(file.as_fd(), LOG_MARK.to_str().unwrap(), &mark.to_bytes()).unwrap();
            }
            file
        });
        file.write_all(bytes).unwrap();
    }
    fn line(&mut self, text: &str) {
        self.raw(record("stdout", text, 1).as_bytes());
    }
    /// Renames `log.1` to `log.2` and so on, keeping `keep` files in total.
    fn rotate(&mut self, keep: usize) {
        if let Some(mark) = &mut self.mark {
            let text = std::fs::read(self.dir.join("x-json.log")).unwrap();
            mark.generation += 1;
            mark.records += memchr::memchr_iter(b'\n', &text).count() as u64;
            mark.bytes += text.len() as u64;
        }
        for number in (1..keep).rev() {
            for form in ["", ".gz"] {
                let named = |number| if number == 0 { self.path() } else { self.formed(number, form) };
                let _ = std::fs::remove_file(named(number));
                if number > 1 || form.is_empty() {
                    let _ = std::fs::rename(named(number - 1), named(number));
                }
            }
        }
        if keep == 1 {
            std::fs::remove_file(self.path()).unwrap();
        }
        self.file = None;
        if self.mark.is_some() {
            self.raw(b"");
        }
    }
    fn formed(&self, number: usize, form: &str) -> PathBuf {
        self.dir.join(format!("x-json.log.{number}{form}"))
    }
    /// Compresses `log.<number>`, if it exists, like the monitor.
    fn compress(&self, number: usize) {
        let (plain, packed) = (self.formed(number, ""), self.formed(number, ".gz"));
        let Ok(mut from) = File::open(&plain) else { return };
        let mut encoder = GzEncoder::new(File::create(self.dir.join("new")).unwrap(), Compression::fast());
        std::io::copy(&mut from, &mut encoder).unwrap();
        let to = encoder.finish().unwrap();
        let key = LOG_MARK.to_str().unwrap();
        set_xattr_fd(to.as_fd(), key, &get_xattr_fd(from.as_fd(), key).unwrap().unwrap()).unwrap();
        std::fs::rename(self.dir.join("new"), packed).unwrap();
        std::fs::remove_file(plain).unwrap();
    }
    fn stop(&mut self) {
        self.alive.store(false, Ordering::SeqCst);
        self.file = None;
    }
    fn open(&self, query: &LogQuery) -> LogStream {
        let alive = self.alive.clone();
        LogStream::open(self.path(), query, Box::new(move || alive.load(Ordering::SeqCst))).unwrap()
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn record(stream: &str, text: &str, time_ns: i64) -> String {
    let log = serde_json::to_string(&format!("{text}\n")).unwrap();
    format!("{{\"log\":{log},\"stream\":\"{stream}\",\"time\":\"{}\"}}\n", crate::time::rfc3339_nano(time_ns))
}

fn follow() -> LogQuery {
    LogQuery { follow: true, ..LogQuery::default() }
}

fn tail(lines: u64) -> LogQuery {
    LogQuery { tail: Some(lines), ..LogQuery::default() }
}

fn text(line: &LogLine) -> String {
    String::from_utf8(line.data.clone()).unwrap().trim_end().to_owned()
}

/// The lines that exist now.
fn take(stream: &mut LogStream) -> Vec<String> {
    std::iter::from_fn(|| stream.next(Some(Duration::ZERO), None).unwrap()).map(|line| text(&line)).collect()
}

fn read(log: &Log, query: &LogQuery) -> Vec<String> {
    let mut stream = log.open(query);
    let lines = take(&mut stream);
    assert!(stream.ended());
    lines
}

fn readable(stream: &LogStream) -> bool {
    wait_fd(stream.fd().unwrap(), Ready::Read, Some(Duration::ZERO), None).unwrap()
}

#[test]
fn rotated_files_are_read_oldest_first() {
    let older_files = |compressed: &[usize], older: bool| {
        let mut log = if older { Log::older() } else { Log::new() };
        assert!(read(&log, &LogQuery::default()).is_empty());
        for number in 0..7 {
            if number > 0 && number % 2 == 0 {
                log.rotate(9);
            }
            log.line(&number.to_string());
        }
        compressed.iter().for_each(|&number| log.compress(number));
        log
    };
    for log in [
        older_files(&[], true),
        older_files(&[], false),
        older_files(&[3, 2], false),
        older_files(&[1, 2, 3], false),
        older_files(&[2], false),
    ] {
        assert_eq!(read(&log, &LogQuery::default()), ["0", "1", "2", "3", "4", "5", "6"]);
        for lines in 0..9usize {
            let expected: Vec<_> = (7usize.saturating_sub(lines)..7).map(|n| n.to_string()).collect();
            assert_eq!(read(&log, &tail(lines as u64)), expected, "the last {lines}");
        }
    }
}

#[test]
fn a_reader_counts_lines_that_rotation_deleted_unread() {
    for keep in [1, 2, 3] {
        let mut log = Log::new();
        let mut early = log.open(&follow());
        log.line("0");
        let mut late = log.open(&follow());
        assert_eq!(take(&mut late), ["0"]);
        // The last line of the follower's file comes after its last read, and is not lost, because the follower holds
        // that file.
        log.line("1");
        for number in 2..10 {
            log.rotate(keep);
            log.line(&number.to_string());
        }
        let left: Vec<_> = (10 - keep..10).map(|number| number.to_string()).collect();
        assert_eq!(take(&mut late), [vec!["1".to_owned()], left.clone()].concat());
        assert_eq!((late.lost(), late.earlier()), (8 - keep as u64, 0));
        assert_eq!(take(&mut early), left);
        assert_eq!((early.lost(), early.earlier()), (10 - keep as u64, 0));
        let whole = log.open(&LogQuery::default());
        assert_eq!((whole.lost(), whole.earlier()), (0, 10 - keep as u64));
    }
}

/// Whatever happens between a follower's reads: it gets the lines in their order, and those that it does not get are
/// counted and were in deleted files.
#[test]
fn a_follower_misses_nothing_that_it_does_not_count() {
    let mut chance = 1u32;
    let mut below = |bound: u32| {
        chance = chance.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (chance >> 16) % bound
    };
    for round in 0..40 {
        let keep = 2 + below(4) as usize;
        let mut log = Log::new();
        let mut stream = log.open(&follow());
        let (mut written, mut rotated, mut seen, mut next) = (0, 0, 0, 0);
        for _ in 0..200 {
            match below(10) {
                0..5 => {
                    log.line(&written.to_string());
                    written += 1;
                }
                5 | 6 if written > 0 => {
                    log.rotate(keep);
                    rotated += 1;
                }
                7 => log.compress(1 + below(keep as u32) as usize),
                8 => {
                    let before = stream.lost();
                    for line in take(&mut stream) {
                        let line: u64 = line.parse().unwrap();
                        assert!(line >= next, "round {round}: {line} again");
                        (next, seen) = (line + 1, seen + 1);
                    }
                    assert_eq!(seen + stream.lost(), written, "round {round}: {next} of {written}");
                    // A follower that reads after each rotation loses no line.
                    assert!(stream.lost() == before || rotated > 1, "round {round}");
                    rotated = 0;
                }
                _ => {}
            }
        }
        assert_eq!(stream.skipped(), 0);
    }
}

#[test]
fn a_record_that_is_cut_off_again_harms_nothing() {
    let mut log = Log::new();
    log.line("first");
    let whole = std::fs::metadata(log.path()).unwrap().len();
    let mut stream = log.open(&follow());
    assert_eq!(take(&mut stream), ["first"]);
    // The disk was full in the middle of the next record.
    log.raw(br#"{"log":"sec"#);
    assert!(take(&mut stream).is_empty());
    OpenOptions::new().write(true).open(log.path()).unwrap().set_len(whole).unwrap();
    assert!(take(&mut stream).is_empty());
    log.line("third, which is longer");
    assert_eq!(take(&mut stream), ["third, which is longer"]);
    assert_eq!((stream.skipped(), stream.lost()), (0, 0));
}

#[test]
fn a_damaged_compressed_file_does_not_hide_the_others() {
    let mut log = Log::new();
    log.line("first");
    log.rotate(9);
    log.line("second");
    log.compress(1);
    std::fs::write(log.formed(1, ".gz"), "no such thing").unwrap();
    let mut stream = log.open(&LogQuery::default());
    assert_eq!((take(&mut stream), stream.skipped()), (vec!["second".to_owned()], 1));
}

#[test]
fn streams_and_times_select() {
    let mut log = Log::new();
    for (stream, text, time) in [("stdout", "a", 1), ("stderr", "b", 2), ("stdout", "c", 3)] {
        log.raw(record(stream, text, time).as_bytes());
    }
    assert_eq!(read(&log, &LogQuery { stdout: false, ..LogQuery::default() }), ["b"]);
    assert_eq!(read(&log, &LogQuery { stderr: false, ..LogQuery::default() }), ["a", "c"]);
    assert_eq!(read(&log, &LogQuery { since_ns: 2, ..LogQuery::default() }), ["b", "c"]);
    assert_eq!(read(&log, &LogQuery { stderr: false, ..tail(2) }), ["c"]);
    let line = log.open(&LogQuery::default()).next(None, None).unwrap().unwrap();
    assert_eq!((line.channel, line.time_ns, line.data), (Channel::Stdout, 1, b"a\n".to_vec()));
}

#[test]
fn a_torn_last_line_is_not_shown_until_it_is_whole() {
    let mut log = Log::new();
    log.line("a");
    let next = record("stdout", "b", 1);
    let (front, back) = next.split_at(20);
    log.raw(front.as_bytes());
    assert_eq!(read(&log, &LogQuery::default()), ["a"]);
    assert_eq!(read(&log, &tail(1)), ["a"]);
    let mut stream = log.open(&LogQuery { follow: true, ..tail(0) });
    assert!(take(&mut stream).is_empty());
    log.raw(back.as_bytes());
    assert_eq!(take(&mut stream), ["b"]);
    log.raw(front.as_bytes());
    log.stop();
    assert!(stream.next(None, None).unwrap().is_none());
    assert!(stream.ended());
    assert_eq!(stream.skipped(), 1);
}

#[test]
fn damage_is_left_out_and_counted_and_what_follows_a_torn_line_is_kept() {
    let mut log = Log::new();
    log.line("a");
    log.raw(b"garbage\n\n");
    log.raw(&record("stdout", "torn", 1).as_bytes()[..15]);
    log.line("b");
    log.raw(&[0; 100]);
    log.line("c");
    let mut stream = log.open(&LogQuery::default());
    assert_eq!(take(&mut stream), ["a", "b", "c"]);
    assert_eq!(stream.skipped(), 4);
}

#[test]
fn a_line_without_an_end_does_not_eat_memory() {
    let mut log = Log::new();
    log.raw(&vec![b'x'; MAX_LINE + 3 * CHUNK]);
    log.raw(b"\n");
    log.line("a");
    let mut stream = log.open(&LogQuery::default());
    assert_eq!(take(&mut stream), ["a"]);
    assert_eq!(stream.skipped(), 1);
    assert!(stream.window.capacity() < MAX_LINE);
}

#[test]
fn a_follower_starts_before_the_log_and_ends_with_the_container() {
    let mut log = Log::new();
    let mut stream = log.open(&follow());
    assert!(take(&mut stream).is_empty() && !stream.ended() && !readable(&stream));
    log.line("a");
    log.line("b");
    assert!(readable(&stream));
    assert_eq!(stream.next(None, None).unwrap().map(|l| text(&l)).as_deref(), Some("a"));
    assert!(readable(&stream));
    assert_eq!(take(&mut stream), ["b"]);
    assert!(!readable(&stream));
    log.line("c");
    log.stop();
    assert_eq!(stream.next(None, None).unwrap().map(|l| text(&l)).as_deref(), Some("c"));
    assert!(stream.next(None, None).unwrap().is_none());
    assert!(stream.ended() && readable(&stream));
}

#[test]
fn a_reader_that_waits_notices_the_end() {
    let mut log = Log::new();
    log.line("a");
    let mut stream = log.open(&LogQuery { follow: true, ..tail(0) });
    let thread = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(700));
        log.file = None;
        // A monitor closes its log a moment before it releases its lock.
        std::thread::sleep(Duration::from_millis(2));
        log.stop();
        log
    });
    assert!(stream.next(None, None).unwrap().is_none() && stream.ended());
    thread.join().unwrap();
}

#[test]
fn an_emptied_file_is_read_from_its_start() {
    let mut log = Log::new();
    log.line("first");
    let mut early = log.open(&follow());
    let mut late = log.open(&LogQuery { follow: true, ..tail(0) });
    assert_eq!(take(&mut early), ["first"]);
    let empty = || OpenOptions::new().write(true).truncate(true).open(log.dir.join("x-json.log")).unwrap();
    empty();
    log.file.as_mut().unwrap().write_all(record("stdout", "again", 2).as_bytes()).unwrap();
    assert_eq!(take(&mut early), ["again"]);
    assert_eq!(take(&mut late), ["again"]);
    // The file grows beyond its old size before the next read, so the size does not show the change.
    empty();
    for number in 0..5 {
        log.file.as_mut().unwrap().write_all(record("stdout", &number.to_string(), 3).as_bytes()).unwrap();
    }
    assert_eq!(take(&mut early), ["0", "1", "2", "3", "4"]);
    assert_eq!((early.skipped(), late.skipped()), (0, 0));
}

#[test]
fn followers_lose_nothing_over_rotation() {
    const LINES: usize = 20_000;
    const KEEP: usize = 8;
    let mut log = Log::new();
    let slowest = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
    let readers: Vec<_> = (0..2)
        .map(|reader| {
            let mut stream = log.open(&follow());
            let progress = slowest.clone();
            std::thread::spawn(move || {
                let op = Op::new().unwrap();
                op.set_timeout(Some(Duration::from_secs(60)));
                let mut seen = 0;
                while !stream.ended() {
                    stream
                        .next_batch(None, Some(&op), &mut |line| {
                            assert_eq!(line.data, format!("{seen}\n").as_bytes());
                            seen += 1;
                            progress[reader].store(seen, Ordering::SeqCst);
                            Ok(())
                        })
                        .unwrap();
                }
                assert_eq!((seen, stream.skipped()), (LINES, 0));
            })
        })
        .collect();
    for number in 0..LINES {
        // Two thirds of the files' capacity: a slower reader may lose lines.
        while number > 50 * (KEEP - 3) + slowest.iter().map(|s| s.load(Ordering::SeqCst)).min().unwrap() {
            assert!(readers.iter().all(|r| !r.is_finished()), "a reader gave up");
            std::thread::yield_now();
        }
        if number % 50 == 49 {
            log.rotate(KEEP);
        }
        log.line(&number.to_string());
    }
    log.stop();
    for reader in readers {
        reader.join().unwrap();
    }
}

#[test]
fn openings_during_rotation_see_a_run_of_lines_without_a_gap() {
    let mut log = Log::new();
    log.line("0");
    let done = Arc::new(AtomicBool::new(false));
    let (path, stop) = (log.path(), done.clone());
    let reader = std::thread::spawn(move || {
        let mut rounds = 0;
        while !stop.load(Ordering::SeqCst) || rounds == 0 {
            let mut stream = LogStream::open(path.clone(), &tail(100), Box::new(|| true)).unwrap();
            let lines: Vec<u64> = take(&mut stream).iter().map(|line| line.parse().unwrap()).collect();
            assert!(lines.windows(2).all(|w| w[1] == w[0] + 1), "{lines:?}");
            rounds += 1;
        }
        rounds
    });
    for number in 1..5000 {
        if number % 20 == 0 {
            log.rotate(9);
        }
        log.line(&number.to_string());
    }
    done.store(true, Ordering::SeqCst);
    assert!(reader.join().unwrap() > 0);
}

#[test]
fn a_stream_answers_to_its_operation_and_its_timeout() {
    let mut log = Log::new();
    log.line("a");
    let mut stream = log.open(&LogQuery { follow: true, ..tail(0) });
    assert!(stream.next(Some(Duration::from_millis(10)), None).unwrap().is_none());
    let op = Op::new().unwrap();
    op.set_timeout(Some(Duration::from_millis(10)));
    assert_eq!(stream.next(None, Some(&op)).unwrap_err().kind(), crate::ErrorKind::Timeout);
    let refused = |_: LogView<'_>| Err(crate::Error::invalid("enough"));
    log.line("b");
    log.line("c");
    assert!(stream.next_batch(None, None, &mut { refused }).is_err());
    assert!(readable(&stream));
    assert_eq!(take(&mut stream), ["c"]);
}

#[test]
fn a_log_refuses_a_path_to_another_kind_of_file() {
    let log = Log::new();
    std::os::unix::fs::symlink("/etc/passwd", log.path()).unwrap();
    assert!(LogStream::open(log.path(), &LogQuery::default(), Box::new(|| true)).is_err());
}

/// Measures reading; run in release: `cargo test --release -p coracle --lib log::tests::speed -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn speed() {
    const LINES: usize = 3_000_000;
    let mut log = Log::new();
    let block: String =
        (0..1000).map(|n| record("stdout", &format!("{n:031}"), 1_795_263_628_123_456_789 + n)).collect();
    for _ in 0..LINES / 1000 {
        log.raw(block.as_bytes());
    }
    let report = |what: &str, began: Instant, lines: usize| {
        let took = began.elapsed();
        let rate = |bytes: usize| bytes as f64 / took.as_secs_f64() / 1e6;
        let file = lines * block.len() / 1000;
        let each = took.as_nanos() / lines as u128;
        eprintln!(
            "{what}: {lines} lines in {took:?}: {each} ns each, {:.0} MB/s of text, {:.0} of file",
            rate(lines * 32),
            rate(file)
        );
    };
    for _ in 0..3 {
        let (mut stream, mut out, mut lines) = (log.open(&LogQuery::default()), Vec::new(), 0);
        let began = Instant::now();
        while !stream.ended() {
            out.clear();
            let format = LogFormat { timestamps: true, details: false };
            lines += stream
                .next_batch(None, None, &mut |line| {
                    format.append(line, &mut out);
                    Ok(())
                })
                .unwrap();
        }
        report("next_batch, formatted with time", began, lines);
        let mut stream = log.open(&LogQuery::default());
        let began = Instant::now();
        let lines = std::iter::from_fn(|| stream.next(None, None).unwrap()).count();
        report("next", began, lines);
        let began = Instant::now();
        assert_eq!(take(&mut log.open(&tail(100))).len(), 100);
        eprintln!("tail of 100: {:?}", began.elapsed());
    }
}
