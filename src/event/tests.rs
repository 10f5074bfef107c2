use super::*;
use crate::model::StringMap;
use crate::op::Op;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A directory that is removed with the test.
struct Dir(PathBuf);

impl Dir {
    fn new() -> Dir {
        let mut name = [0u8; 8];
        getrandom::fill(&mut name).unwrap();
        let path = std::env::temp_dir().join(format!("coracle-event-{:016x}", u64::from_ne_bytes(name)));
        std::fs::create_dir(&path).unwrap();
        Dir(path)
    }
    fn journal(&self) -> Arc<Journal> {
        Arc::new(Journal::open(&self.0).unwrap())
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn event(action: &str) -> Event {
    let labels = StringMap::from([("team".into(), "blue \"x\"\n1TVE".into())]);
    Event::container(action, "0123456789abcdef", "busybox", "web", &labels, &[])
}

fn at(action: &str, time_nano: i64) -> Event {
    Event { time_nano, ..event(action) }
}

fn follow(journal: &Arc<Journal>, query: EventQuery) -> EventStream {
    EventStream::open(journal.clone(), &query).unwrap()
}

fn all() -> EventQuery {
    EventQuery { since_ns: Some(0), ..EventQuery::default() }
}

/// The events that exist now.
fn take(stream: &mut EventStream) -> Vec<String> {
    std::iter::from_fn(|| stream.next(Some(Duration::ZERO), None).unwrap()).map(|(_, e)| e.action).collect()
}

fn readable(stream: &EventStream) -> bool {
    wait_fd(stream.fd(), Ready::Read, Some(Duration::ZERO), None).unwrap()
}

#[test]
fn every_follower_sees_the_same_sequence_without_a_gap() {
    const WRITERS: usize = 8;
    const EACH: usize = 600;
    let dir = Dir::new();
    let shared = dir.journal();
    let followers: Vec<_> = (0..4)
        .map(|i| {
            let journal = if i % 2 == 0 { shared.clone() } else { dir.journal() };
            let mut stream = follow(&journal, if i < 2 { EventQuery::default() } else { all() });
            std::thread::spawn(move || {
                let op = Op::new().unwrap();
                op.set_timeout(Some(Duration::from_secs(60)));
                (0..WRITERS * EACH).map(|_| stream.next(None, Some(&op)).unwrap().unwrap()).collect::<Vec<_>>()
            })
        })
        .collect();
    let writers: Vec<_> = (0..WRITERS)
        .map(|w| {
            let journal = if w % 2 == 0 { shared.clone() } else { dir.journal() };
            std::thread::spawn(move || {
                (0..EACH)
                    .map(|n| (journal.append(&event(&format!("{w}:{n}"))).unwrap(), format!("{w}:{n}")))
                    .collect::<Vec<_>>()
            })
        })
        .collect();
    let mut written: Vec<_> = writers.into_iter().flat_map(|w| w.join().unwrap()).collect();
    written.sort();
    for follower in followers {
        let seen: Vec<_> = follower.join().unwrap().into_iter().map(|(seq, e)| (seq, e.action)).collect();
        assert!(seen == written, "the numbers that append gave are those that followers see, in order");
    }
}

#[test]
fn events_survive_the_round_trip_and_follow_a_new_opener() {
    let dir = Dir::new();
    let journal = dir.journal();
    let written = event("create");
    let sequence = journal.append(&written).unwrap();
    drop(journal);
    let mut stream = follow(&dir.journal(), all());
    assert_eq!(stream.next(None, None).unwrap(), Some((sequence, written)));
    assert_eq!(stream.position(), sequence);
    assert!(take(&mut stream).is_empty() && !stream.ended());
}

#[test]
fn the_file_is_laid_out_as_monitors_expect() {
    let dir = Dir::new();
    let sequence = dir.journal().append(&event("start")).unwrap();
    let bytes = std::fs::read(dir.0.join("events")).unwrap();
    assert_eq!(bytes.len() as u64, sequence);
    assert_eq!(&bytes[..24], [&b"CORAEVT1"[..], &[1, 0, 0, 0, 0, 0, 0, 0], &4096u64.to_le_bytes()].concat());
    let record = &bytes[4096..];
    assert_eq!(&record[..4], &[0x31, 0x54, 0x56, 0x45]);
    assert_eq!(u32::from_le_bytes(record[4..8].try_into().unwrap()) as usize, record.len() - 16);
    assert_eq!(&record[12..16], &[0; 4]);
    assert!(record[16..].starts_with(b"{\"status\":\"start\",\"id\":\"0123456789abcdef\",\"from\":\"busybox\","));
}

#[test]
fn a_torn_record_is_skipped_and_an_unfinished_one_waited_for() {
    let dir = Dir::new();
    let journal = dir.journal();
    let mut raw = std::fs::OpenOptions::new().append(true).open(dir.0.join("events")).unwrap();
    let record = record::frame(&serde_json::to_vec(&event("halves")).unwrap()).unwrap();
    let mut stream = follow(&journal, EventQuery::default());

    raw.write_all(&record[..40]).unwrap();
    assert!(take(&mut stream).is_empty());
    raw.write_all(&record[40..]).unwrap();
    assert_eq!(take(&mut stream), ["halves"]);

    raw.write_all(&record[..record.len() - 1]).unwrap();
    assert!(take(&mut stream).is_empty());
    journal.append(&event("after")).unwrap();
    assert_eq!(take(&mut stream), ["after"]);
    assert_eq!(take(&mut follow(&journal, all())), ["halves", "after"]);
}

#[test]
fn the_descriptor_is_readable_until_everything_is_taken() {
    let dir = Dir::new();
    let journal = dir.journal();
    let mut stream = follow(&journal, EventQuery::default());
    take(&mut stream);
    assert!(!readable(&stream));
    for action in ["a", "b", "c"] {
        journal.append(&event(action)).unwrap();
    }
    for _ in 0..3 {
        assert!(readable(&stream));
        assert!(stream.next(Some(Duration::ZERO), None).unwrap().is_some());
    }
    assert!(stream.next(Some(Duration::ZERO), None).unwrap().is_none());
    assert!(!readable(&stream));
}

#[test]
fn times_bound_what_is_replayed_and_end_the_stream() {
    let dir = Dir::new();
    let journal = dir.journal();
    for time in [10, 20, 30, 40] {
        journal.append(&at(&time.to_string(), time)).unwrap();
    }
    let query = |since_ns, until_ns| EventQuery { since_ns, until_ns, ..EventQuery::default() };
    let mut both = follow(&journal, query(Some(20), Some(30)));
    assert_eq!(take(&mut both), ["20", "30"]);
    assert!(both.ended() && readable(&both));
    assert_eq!(take(&mut follow(&journal, query(None, Some(20)))), ["10", "20"]);

    // Events after the opening are new, even if the clock went back.
    let mut open = follow(&journal, query(Some(35), None));
    journal.append(&at("5", 5)).unwrap();
    assert_eq!(take(&mut open), ["40", "5"]);
    assert!(!open.ended());

    let mut soon = follow(&journal, query(None, Some(now_ns() + 30_000_000)));
    while soon.next(None, None).unwrap().is_some() {}
    assert!(soon.ended());

    let error = EventStream::open(journal, &query(Some(100_000_000_000), Some(50_000_000_000))).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(error.message(), "`since` time (100) cannot be after `until` time (50)");
    assert_eq!(seconds(1_500_000_000), "1.500000000");
}

#[test]
fn a_stream_resumes_after_a_sequence_number() {
    let dir = Dir::new();
    let journal = dir.journal();
    let numbers: Vec<_> = ["a", "b", "c"].map(|action| journal.append(&event(action)).unwrap()).into();
    let query = |after| EventQuery { after: Some(after), ..EventQuery::default() };
    assert_eq!(take(&mut follow(&journal, query(numbers[0]))), ["b", "c"]);
    assert!(take(&mut follow(&journal, query(numbers[2]))).is_empty());
    for stranger in [numbers[0] + 1, numbers[2] + 1000, 7] {
        let mut stream = follow(&journal, query(stranger));
        let error = stream.next(Some(Duration::ZERO), None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert_eq!(take(&mut stream), ["a", "b", "c"]);
    }
}

#[test]
fn a_small_journal_stays_small_and_says_what_it_dropped() {
    const LIMIT: u64 = 64 << 10;
    let dir = Dir::new();
    let journal = Arc::new(Journal::open_with(&dir.0, LIMIT).unwrap());
    let mut slow = follow(&journal, EventQuery::default());
    let first = journal.append(&event("0")).unwrap();
    assert_eq!(take(&mut slow), ["0"]);
    let mut fast = follow(&journal, EventQuery::default());
    for n in 1..2000 {
        journal.append(&event(&n.to_string())).unwrap();
        assert_eq!(take(&mut fast), [n.to_string()]);
    }
    let kept = journal.end().unwrap() - journal.start().unwrap();
    assert!(kept <= LIMIT, "{kept} bytes kept");
    let blocks = std::os::unix::fs::MetadataExt::blocks(&std::fs::metadata(dir.0.join("events")).unwrap());
    assert!(blocks * 512 < 2 * LIMIT, "{blocks} blocks used");

    let error = slow.next(None, None).unwrap_err();
    assert!(error.message().starts_with("events were lost"), "{error}");
    let rest = take(&mut slow);
    assert_eq!(rest.last().map(String::as_str), Some("1999"));
    assert_eq!(take(&mut follow(&journal, all())), rest);
    let stale = EventQuery { after: Some(first), ..EventQuery::default() };
    assert!(follow(&journal, stale).next(None, None).is_err());
}

/// Each stream was opened before the journal dropped its oldest events, and reads for the first time afterwards.
#[test]
fn a_stream_that_has_read_nothing_yet_reports_lost_events_too() {
    const LIMIT: u64 = 64 << 10;
    let dir = Dir::new();
    let journal = Arc::new(Journal::open_with(&dir.0, LIMIT).unwrap());
    let first = journal.append(&event("0")).unwrap();
    let until = Some(now_ns() + 3_600_000_000_000);
    let since = all().since_ns;
    let queries = [
        EventQuery::default(),
        all(),
        EventQuery { until_ns: until, ..EventQuery::default() },
        EventQuery { until_ns: until, ..all() },
        EventQuery { after: Some(first), ..EventQuery::default() },
        EventQuery { after: Some(first), since_ns: since, ..EventQuery::default() },
    ];
    let mut streams: Vec<EventStream> = queries.iter().map(|query| follow(&journal, query.clone())).collect();
    for n in 1..2000 {
        journal.append(&event(&n.to_string())).unwrap();
    }
    assert!(journal.start().unwrap() > first);
    for (stream, query) in streams.iter_mut().zip(&queries) {
        let error = stream.next(Some(Duration::ZERO), None).map(|event| event.map(|(_, event)| event.action));
        let error = error.expect_err(&format!("{query:?}"));
        assert!(error.kind() == ErrorKind::Unavailable && error.message().starts_with("events were lost"), "{error}");
        // Once: the stream continues with all that is kept.
        assert_eq!(take(stream), take(&mut follow(&journal, all())), "{query:?}");
    }
    // A stream that is opened now begins with the oldest kept event, and has lost none.
    assert_eq!(take(&mut follow(&journal, all())).last().map(String::as_str), Some("1999"));
}

/// Runs `work` in a private mount namespace with a tmpfs of this size on `dir`; does nothing without the privilege.
fn on_small_tmpfs(dir: &Path, size: u32, work: impl FnOnce() + Send) {
    use nix::mount::{MsFlags, mount};
    std::thread::scope(|scope| {
        scope.spawn(|| {
            if nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNS).is_err() {
                return;
            }
            let none = None::<&str>;
            mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
            let size = format!("size={size}");
            mount(Some("tmpfs"), dir, Some("tmpfs"), MsFlags::empty(), Some(size.as_str())).unwrap();
            work();
        });
    });
}

#[test]
fn a_full_run_directory_drops_old_events_rather_than_new_ones() {
    let dir = Dir::new();
    on_small_tmpfs(&dir.0, 64 << 10, || {
        let journal = dir.journal();
        let mut stream = follow(&journal, EventQuery::default());
        for n in 0..1000 {
            journal.append(&event(&n.to_string())).unwrap();
            assert_eq!(take(&mut stream), [n.to_string()]);
        }
        assert!(journal.start().unwrap() > journal::HEADER);
        // If another program fills it, the error says so.
        let big = vec![0; 1 << 20];
        let _ = std::fs::write(dir.0.join("filler"), &big);
        let failed = (0..2000).find_map(|_| journal.append(&event("more")).err());
        assert!(failed.is_none_or(|e| e.is(libc::ENOSPC)));
        std::fs::remove_file(dir.0.join("filler")).unwrap();
        journal.append(&event("last")).unwrap();
        assert!(stream.next(None, None).unwrap_err().message().starts_with("events were lost"));
        assert_eq!(take(&mut stream).last().map(String::as_str), Some("last"));
    });
}

#[test]
fn followers_keep_a_journal_small_that_only_monitors_write() {
    const LIMIT: u64 = 64 << 10;
    let dir = Dir::new();
    let journal = Arc::new(Journal::open_with(&dir.0, LIMIT).unwrap());
    let mut stream = follow(&journal, EventQuery::default());
    let mut raw = std::fs::OpenOptions::new().append(true).open(dir.0.join("events")).unwrap();
    let record = record::frame(&serde_json::to_vec(&event("die")).unwrap()).unwrap();
    for _ in 0..1000 {
        raw.write_all(&record).unwrap();
        assert_eq!(take(&mut stream), ["die"]);
    }
    assert!(journal.end().unwrap() - journal.start().unwrap() <= LIMIT);
}

#[test]
fn an_operation_ends_the_wait() {
    let dir = Dir::new();
    let mut stream = follow(&dir.journal(), EventQuery::default());
    let op = Op::new().unwrap();
    let other = op.clone();
    let thread = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        other.cancel();
    });
    assert_eq!(stream.next(None, Some(&op)).unwrap_err().kind(), ErrorKind::Cancelled);
    thread.join().unwrap();
    assert!(stream.next(Some(Duration::from_millis(5)), None).unwrap().is_none());
}

#[test]
fn a_stranger_file_is_refused() {
    let dir = Dir::new();
    std::fs::write(dir.0.join("events"), b"something else").unwrap();
    assert_eq!(Journal::open(&dir.0).err().unwrap().kind(), ErrorKind::Corrupt);
    let newer = [&b"CORAEVT1"[..], &9u32.to_le_bytes(), &[0; 4084]].concat();
    std::fs::write(dir.0.join("events"), newer).unwrap();
    assert_eq!(Journal::open(&dir.0).err().unwrap().kind(), ErrorKind::Unsupported);
}

/// Names the directory in which [`child_process_appends`] writes; without it the test does nothing.
const CHILD: &str = "CORACLE_EVENT_TEST_DIR";

#[test]
fn child_process_appends() {
    if let Some(dir) = std::env::var_os(CHILD) {
        let journal = Journal::open(Path::new(&dir)).unwrap();
        // The parent kills this process much earlier; the limit is for a parent that fails.
        let began = Instant::now();
        for n in (0..).take_while(|_| began.elapsed() < Duration::from_secs(10)) {
            let action = format!("{}:{n}:{}", std::process::id(), "x".repeat(n % 9000));
            journal.append(&event(&action)).unwrap();
        }
    }
}

#[test]
fn processes_share_the_journal_and_may_be_killed_at_any_time() {
    let dir = Dir::new();
    let journal = dir.journal();
    let mut streams = [follow(&journal, all()), follow(&dir.journal(), all())];
    for _ in 0..2 {
        let mut children: Vec<_> = (0..2)
            .map(|_| {
                Command::new(std::env::current_exe().unwrap())
                    .args(["--exact", "event::tests::child_process_appends", "--nocapture"])
                    .env(CHILD, &dir.0)
                    .stdout(std::process::Stdio::null())
                    .spawn()
                    .unwrap()
            })
            .collect();
        // Both write; on a busy machine a program starts slowly.
        let (mut began, until) = (journal.end().unwrap(), Instant::now() + Duration::from_secs(60));
        began += 20_000;
        while journal.end().unwrap() < began && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(50));
        for child in &mut children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
    journal.append(&event("last")).unwrap();
    let seen = streams.each_mut().map(|stream| {
        let mut seen = Vec::new();
        loop {
            match stream.next(Some(Duration::ZERO), None) {
                Ok(Some((sequence, event))) => seen.push((sequence, event.action)),
                Ok(None) => break seen,
                Err(e) => assert!(e.message().starts_with("events were lost"), "{e}"),
            }
        }
    });
    assert!(seen[0] == seen[1], "both followers see the same");
    assert!(seen[0].len() > 10, "{} events", seen[0].len());
    assert_eq!(seen[0].last().map(|(_, action)| action.as_str()), Some("last"));
    let mut next = std::collections::BTreeMap::<&str, u64>::new();
    for (_, action) in &seen[0][..seen[0].len() - 1] {
        let (process, rest) = action.split_once(':').unwrap();
        let number: u64 = rest.split_once(':').unwrap().0.parse().unwrap();
        let expected = next.insert(process, number + 1);
        assert!(expected.is_none_or(|expected| expected == number), "a gap before {number}");
    }
}

#[test]
fn followers_of_one_engine_share_one_watch() {
    let dir = Dir::new();
    let journal = dir.journal();
    let alive = dir.0.join("alive");
    std::fs::write(&alive, "").unwrap();
    let looks = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let look = || -> Look {
        let looks = looks.clone();
        Box::new(move || {
            looks.fetch_add(1, Ordering::Relaxed);
        })
    };
    let instances = || {
        let all = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        all.filter(|fd| std::fs::read_link(fd.path()).is_ok_and(|to| to.ends_with("anon_inode:inotify"))).count()
    };
    let before = instances();
    let mut all: Vec<EventStream> = (0..200)
        .map(|_| EventStream::follow(journal.clone(), &EventQuery::default(), &alive, &look).unwrap())
        .collect();
    // Other tests beside this one have some of their own.
    assert!(instances() < before + 100, "{} instances", instances() - before);
    assert!(all.iter_mut().all(|stream| take(stream).is_empty()));
    assert!(!all.iter().any(readable));
    for round in 0..3 {
        journal.append(&event(&format!("round {round}"))).unwrap();
        assert!(all.iter().all(readable));
        assert!(all.iter_mut().all(|stream| take(stream) == [format!("round {round}")]));
        assert!(!all.iter().any(readable));
        // Streams that come and go change nothing for the others.
        all.remove(0);
        all.push(EventStream::follow(journal.clone(), &EventQuery::default(), &alive, &look).unwrap());
        assert!(all.iter_mut().all(|stream| take(stream).is_empty()));
    }
    // A file that was open for writing is closed: one search at once, and two later, for all streams.
    drop(std::fs::OpenOptions::new().append(true).open(&alive).unwrap());
    let until = Instant::now() + Duration::from_secs(60);
    while looks.load(Ordering::Relaxed) < 3 && Instant::now() < until {
        all.iter_mut().for_each(|stream| drop(take(stream)));
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(looks.load(Ordering::Relaxed), 3);
    drop(all);
    assert!(journal.hub.lock().upgrade().is_none());
}
