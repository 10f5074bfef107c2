use super::*;
use std::io::Write;

/// A directory with a spool that a test writes as the monitor does.
struct Files(PathBuf);

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Files {
    fn new(name: &str) -> Files {
        let dir = std::env::temp_dir().join(format!("coracle-spool-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir(&dir).unwrap();
        Files(dir)
    }

    fn spool(&self) -> Spool {
        Spool::new([self.0.clone(), self.0.join("none")], "log")
    }

    /// Appends these lines to a file of that generation.
    fn write(&self, name: &str, mark: (u64, u64, u64), lines: &[&str]) {
        let path = self.0.join(name);
        let mut file = OpenOptions::new().create(true).append(true).open(&path).unwrap();
        for line in lines {
            let time = "2026-11-21T12:20:28Z";
            writeln!(file, r#"{{"log":"{line}","stream":"stdout","time":"{time}"}}"#).unwrap();
        }
        let mark = LogMark { generation: mark.0, records: mark.1, bytes: mark.2 }.to_bytes();
        let path = std::ffi::CString::new(path.into_os_string().into_encoded_bytes()).unwrap();
        set_attribute(&path, &mark);
    }
}

#[allow(unsafe_code)]
fn set_attribute(path: &std::ffi::CStr, mark: &[u8]) {
    // SAFETY: both texts end with a zero byte, and the mark has as many bytes as are named.
    let set = unsafe { libc::setxattr(path.as_ptr(), LOG_MARK.as_ptr(), mark.as_ptr().cast(), mark.len(), 0) };
    assert_eq!(set, 0, "the test needs root: {}", io::Error::last_os_error());
}

/// All texts behind a place; the place moves over them.
fn rest(spool: &mut Spool, place: &mut Place) -> Vec<String> {
    let mut texts = Vec::new();
    loop {
        let batch = spool.read(place, false).unwrap();
        if batch.is_empty() {
            return texts;
        }
        texts.extend(batch.records().iter().map(|one| String::from_utf8(batch.text(one).to_vec()).unwrap()));
        place.pass(batch.records(), |_| false);
    }
}

#[test]
fn records_are_read_across_rotations_and_counted() {
    let files = Files::new("rotations");
    let (mut spool, mut place) = (files.spool(), Place::default());
    assert!(rest(&mut spool, &mut place).is_empty());
    files.write("log", (1, 0, 0), &["a\\n", "b\\n"]);
    assert_eq!(rest(&mut spool, &mut place), ["a", "b"]);
    files.write("log", (1, 0, 0), &["c\\n"]);
    let size = files.0.join("log").metadata().unwrap().len();
    std::fs::rename(files.0.join("log"), files.0.join("log.1")).unwrap();
    files.write("log", (2, 3, size), &["d\\n"]);
    assert_eq!(spool.owed(&place.cursor).unwrap().lines, 2);
    assert_eq!(spool.owed(&place.cursor).unwrap().bytes, size / 3 + files.0.join("log").metadata().unwrap().len());
    assert_eq!(rest(&mut spool, &mut place), ["c", "d"]);
    assert_eq!((place.cursor.position.ordinal, place.cursor.delivered, place.cursor.lost), (4, 4, 0));
    assert_eq!(spool.owed(&place.cursor).unwrap(), Owed::default());
    // Generations 3 and 4 came and went.
    std::fs::rename(files.0.join("log"), files.0.join("log.1")).unwrap();
    files.write("log", (5, 14, 9999), &["o\\n"]);
    std::fs::remove_file(files.0.join("log.1")).unwrap();
    assert_eq!(rest(&mut spool, &mut place), ["o"]);
    assert_eq!((place.cursor.position.ordinal, place.cursor.delivered, place.cursor.lost), (15, 5, 10));
}

#[test]
fn compressed_files_are_read_from_any_place() {
    let files = Files::new("compressed");
    let lines: Vec<String> = (0..9000).map(|number| format!("{number}\\n")).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    files.write("log.1", (1, 0, 0), &lines);
    let plain = std::fs::read(files.0.join("log.1")).unwrap();
    std::fs::remove_file(files.0.join("log.1")).unwrap();
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(&plain).unwrap();
    std::fs::write(files.0.join("log.1.gz"), packer.finish().unwrap()).unwrap();
    files.write("log.1.gz", (1, 0, 0), &[]);
    files.write("log", (2, 9000, plain.len() as u64), &["end\\n"]);
    let (mut spool, mut place) = (files.spool(), Place::default());
    let first = spool.read(&mut place, false).unwrap();
    assert!(first.records().len() < 9000);
    let start = place;
    place.pass(&first.records()[..10], |_| false);
    let all = rest(&mut spool, &mut place);
    assert_eq!((all.len(), all[0].as_str(), all[8990].as_str()), (8991, "10", "end"));
    let mut again = start;
    assert_eq!(rest(&mut spool, &mut again).len(), 9001, "the decoder starts again");
}

#[test]
fn a_begun_record_waits_and_a_damaged_one_is_counted() {
    let files = Files::new("damaged");
    files.write("log", (1, 0, 0), &["a\\n"]);
    let mut raw = OpenOptions::new().append(true).open(files.0.join("log")).unwrap();
    raw.write_all(b"garbage\n").unwrap();
    let (mut spool, mut place) = (files.spool(), Place::default());
    assert_eq!(rest(&mut spool, &mut place), ["a"]);
    assert_eq!((place.cursor.delivered, place.cursor.lost, place.cursor.position.ordinal), (1, 1, 2));
    raw.write_all(b"garbage alone\n").unwrap();
    let batch = spool.read(&mut place, false).unwrap();
    assert!(batch.records()[0].hollow);
    place.pass(batch.records(), |_| false);
    assert_eq!((place.cursor.delivered, place.cursor.lost, place.cursor.position.ordinal), (1, 2, 3));
    raw.write_all(br#"{"log":"b\n","stream":"std"#).unwrap();
    assert!(rest(&mut spool, &mut place).is_empty());
    raw.write_all(b"err\",\"time\":\"2026-11-21T12:20:28Z\"}\n").unwrap();
    assert_eq!(rest(&mut spool, &mut place), ["b"]);
}

#[test]
fn parts_of_a_line_are_numbered() {
    let files = Files::new("parts");
    let long = "x".repeat(PART);
    files.write("log", (1, 0, 0), &["a\\n", &long, &long, "tail\\n", "end"]);
    let (mut spool, mut place) = (files.spool(), Place::default());
    let batch = spool.read(&mut place, false).unwrap();
    let parts: Vec<_> =
        batch.records().iter().map(|one| one.part.map(|part| (part.first, part.number, part.last))).collect();
    let wanted = [None, Some((1, 1, false)), Some((1, 2, false)), Some((1, 3, true)), None];
    assert_eq!(parts, wanted);
    // A retry from the middle numbers them alike.
    place.pass(&batch.records()[..2], |_| false);
    let again = spool.read(&mut place, false).unwrap();
    assert_eq!(again.records()[0].part, batch.records()[2].part);
}

/// Appends a record of a stream to the first file.
fn append(files: &Files, stderr: bool, text: &str) {
    let mut file = OpenOptions::new().create(true).append(true).open(files.0.join("log")).unwrap();
    let stream = if stderr { "stderr" } else { "stdout" };
    writeln!(file, r#"{{"log":"{text}","stream":"{stream}","time":"2026-11-21T12:20:28Z"}}"#).unwrap();
}

/// A record's length, its part (number, whether it is the last one) and its own number.
type Joined = (usize, Option<(u32, bool)>, u64);

/// The lengths of all joined records behind a place, with their parts and numbers; the place moves over them.
fn joined(spool: &mut Spool, place: &mut Place, takes_all: bool) -> Vec<Joined> {
    let mut all = Vec::new();
    loop {
        let batch = spool.read(place, takes_all).unwrap();
        if batch.is_empty() {
            return all;
        }
        let part = |one: &Record| one.part.map(|part| (part.number, part.last));
        all.extend(batch.records().iter().map(|one| (batch.text(one).len(), part(one), one.ordinal)));
        place.pass(batch.records(), |_| false);
    }
}

#[test]
fn parts_of_a_line_are_joined_up_to_a_size() {
    let files = Files::new("joined");
    let long = "x".repeat(PART);
    files.write("log", (1, 0, 0), &["a\\n", &long, &long, "tail\\n", &long, &long, &long, &long, "\\n", "b\\n"]);
    let (mut spool, mut place) = (files.spool(), Place::default());
    spool.join(Some(3 * PART));
    let wanted = [
        (1, None, 1),
        (2 * PART + 4, None, 4),
        (3 * PART, Some((1, false)), 7),
        (PART, Some((2, true)), 9),
        (1, None, 10),
    ];
    assert_eq!(joined(&mut spool, &mut place, false), wanted);
    assert_eq!((place.cursor.position.ordinal, place.cursor.delivered, place.cursor.lost), (10, 10, 0));
    assert_eq!(spool.owed(&place.cursor).unwrap(), Owed::default());
}

#[test]
fn a_joined_line_waits_for_its_end_unless_it_is_told_not_to() {
    let files = Files::new("waiting");
    let long = "x".repeat(PART);
    files.write("log", (1, 0, 0), &["a\\n", &long]);
    let (mut spool, mut place) = (files.spool(), Place::default());
    spool.join(Some(1 << 20));
    assert_eq!(joined(&mut spool, &mut place, false), [(1, None, 1)]);
    assert!(spool.waits());
    append(&files, false, "end\\n");
    assert_eq!(joined(&mut spool, &mut place, false), [(PART + 3, None, 3)]);
    assert!(!spool.waits());
    append(&files, false, &long);
    assert_eq!(joined(&mut spool, &mut place, true), [(PART, Some((1, false)), 4)]);
    append(&files, false, "late\\n");
    assert_eq!(joined(&mut spool, &mut place, false), [(4, Some((2, true)), 5)]);
    assert_eq!(place.cursor.delivered, 5);
}

#[test]
fn a_line_in_the_middle_of_another_holds_the_cursor_back() {
    let files = Files::new("woven");
    let long = "x".repeat(PART);
    files.write("log", (1, 0, 0), &["a\\n", &long]);
    append(&files, true, "error\\n");
    let (mut spool, mut place) = (files.spool(), Place::default());
    spool.join(Some(1 << 20));
    assert_eq!(joined(&mut spool, &mut place, false), [(1, None, 1)], "the error is not read before the line");
    append(&files, false, "end\\n");
    let start = place;
    let batch = spool.read(&mut place, false).unwrap();
    let texts: Vec<usize> = batch.records().iter().map(|one| batch.text(one).len()).collect();
    assert_eq!(texts, [PART + 3, 5]);
    place.pass(&batch.records()[..1], |_| false);
    assert_eq!(place.cursor, start.cursor, "a break repeats both");
    place.pass(&batch.records()[1..], |number| number == 0);
    assert_eq!((place.cursor.position.ordinal, place.cursor.delivered), (4, 3), "the error was left out");
    // Across a rotation the parts stay two records.
    append(&files, false, &long);
    let size = files.0.join("log").metadata().unwrap().len();
    std::fs::rename(files.0.join("log"), files.0.join("log.1")).unwrap();
    files.write("log", (2, 5, size), &["end\\n"]);
    assert_eq!(joined(&mut spool, &mut place, false), [(PART, Some((1, false)), 5), (3, Some((2, true)), 6)]);
    assert_eq!((place.cursor.delivered, place.cursor.lost), (5, 0));
}

#[test]
fn a_flood_behind_a_line_without_an_end_is_read_in_bounds() {
    let files = Files::new("flood");
    let long = "x".repeat(PART);
    files.write("log", (1, 0, 0), &[&long]);
    let (mut spool, mut place) = (files.spool(), Place::default());
    spool.join(Some(4 * PART));
    let flood = |bytes: usize| (0..bytes / 1000).for_each(|_| append(&files, true, &format!("{}\\n", "y".repeat(940))));
    flood(100_000);
    assert!(joined(&mut spool, &mut place, false).is_empty() && spool.waits());
    let looked = spool.waited.1;
    flood(10_000);
    assert!(joined(&mut spool, &mut place, false).is_empty() && spool.waits());
    assert_eq!(spool.waited.1, looked, "little is new: nothing was looked through");
    flood(40_000);
    assert!(joined(&mut spool, &mut place, false).is_empty() && spool.waited.1 > looked);
    flood(2_000_000);
    let batch = spool.read(&mut place, false).unwrap();
    assert_eq!(
        batch.records()[0].part,
        Some(Part { first: 0, number: 1, last: false }),
        "the line goes without its end"
    );
    assert!(spool.window.len() <= 2 * most_waiting(4 * PART), "{} bytes were read", spool.window.len());
}
