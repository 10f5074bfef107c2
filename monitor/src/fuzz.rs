//! Doors for fuzzers: each takes any bytes, and must neither panic nor hang nor break what it asserts. See `fuzz/`.

#[cfg(test)]
#[path = "../../tests/support/mutate.rs"]
mod mutate;

use crate::framed::{First, Frames};
use crate::jsonlog::{LINE, Log, Records};
use crate::ops::{Exec, Op, Operation, Plan, Relay};
use crate::passage::{self, own_address, same_peer};
use crate::question::{self, Likeness, Question};
use crate::remount::{self, Table};
use crate::report::Report;
use crate::users::{self, Bad};
use crate::wire::*;
use crate::{answers, deflate, lines};

/// Takes any bytes.
pub type Target = fn(&[u8]);

/// All of them, by name.
pub const TARGETS: &[(&str, Target)] = &[
    ("plan", plan),
    ("messages", messages),
    ("resolver", resolver),
    ("gzip", gzip),
    ("passwd", passwd),
    ("netlink", netlink),
    ("relay", relay),
    ("log_writer", log),
];

/// Runs one by name; of an unknown name nothing comes.
pub fn run(name: &str, data: &[u8]) {
    if let Some((_, target)) = TARGETS.iter().find(|(one, _)| *one == name) {
        target(data);
    }
}

/// A plan is taken or not as a whole; of one that is taken every operation can be read, and is the same when it is
/// written and read again. Two bytes are also the code of an operation, whose payload is the rest.
fn plan(data: &[u8]) {
    if let Some((code, payload)) = data.split_first_chunk() {
        let _ = Op::read(u16::from_le_bytes(*code), payload).map(written_again);
    }
    let Ok(plan) = Plan::check(data) else { return };
    let header = plan.header().map(|header| (header.magic, header.version, header.length as usize));
    assert_eq!(header, Some((PLAN_MAGIC, VERSION, data.len())));
    let count = plan.ops().map(|(_, op)| written_again(op)).count();
    assert!(count <= data.len());
    assert_eq!(plan.ops().filter(|(_, op)| matches!(op, Op::Exec(_))).count(), plan.each::<Exec>().count());
}

fn written_again(op: Op) {
    let mut payload = Vec::new();
    let code = op.write(&mut payload);
    if op != Op::Later {
        assert!(Op::read(code, &payload).is_ok_and(|again| again == op));
    }
    if let Op::Exec(Exec { words }) = op {
        assert_eq!(words.argv.iter().chain(words.env.iter()).count(), words.argv.len() + words.env.len());
    }
}

/// The output of a container in pieces, of both streams, into files with a bound that refuse some writes: the records
/// are those of [`Model`], in their order, and no file is more than one record longer than its bound.
fn log(data: &[u8]) {
    let Some((&[bound, attributes], mut rest)) = data.split_first_chunk() else { return };
    let attrs: &[u8] = if attributes & 1 == 0 { b"" } else { b"\"attrs\":{\"k\":\"v\"}," };
    let bound = usize::from(bound) * 256;
    let mut log = Log::new(Files { bound, refuses: false, closed: Vec::new(), open: Vec::new() });
    log.set_attributes(attrs);
    let (mut out, mut begun) = (vec![0; log.room()], [vec![0; LINE], vec![0; LINE]]);
    let [first, second] = &mut begun;
    log.begin(&mut out, [first, second]);
    let mut model = Model::default();
    while let Some((&[what, low, high], next)) = rest.split_first_chunk() {
        let length = usize::from(u16::from_le_bytes([low, high])).min(next.len());
        let stream = usize::from(what & 1);
        // A file that refuses does so for a whole step, so that it is known which records it lost.
        log.file.refuses = what & 6 == 6;
        model.refused = log.file.refuses;
        if what & 24 == 24 {
            log.end(stream, 0);
            model.end(stream);
        } else {
            log.chunk(stream, &next[..length], 0);
            model.chunk(stream, &next[..length]);
        }
        rest = &next[length..];
    }
    assert_eq!(log.lost, model.lost);
    let longest = lines::room(LINE, attrs.len());
    let files = log.file.closed.iter().chain([&log.file.open]);
    assert!(files.clone().all(|file| bound == 0 || file.len() < bound + longest));
    let records: Vec<u8> = files.flatten().copied().collect();
    let tail =
        |stream| format!("\",\"stream\":\"{stream}\",{}\"time\":\"1970-01-01T00:00:00.000000000Z\"}}\n", text(attrs));
    let wanted = model
        .records
        .iter()
        .map(|(stream, line)| format!("{{\"log\":\"{line}{}", tail(if *stream == 0 { "stdout" } else { "stderr" })));
    assert!(text(&records) == wanted.collect::<String>());
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("the log is text")
}

/// Files of a log, in memory.
struct Files {
    bound: usize,
    refuses: bool,
    closed: Vec<Vec<u8>>,
    open: Vec<u8>,
}

impl Records for Files {
    fn is_full(&self, more: usize) -> bool {
        self.bound > 0 && self.open.len() + more >= self.bound
    }
    fn rotate(&mut self, _: &mut [u8]) {
        self.closed.push(std::mem::take(&mut self.open));
    }
    fn append(&mut self, records: &[u8]) -> u64 {
        assert!(records.ends_with(b"\n"), "a part of a record");
        if self.refuses {
            return lines::newlines(records);
        }
        self.open.extend_from_slice(records);
        0
    }
}

/// The records of a log, given byte by byte.
#[derive(Default)]
struct Model {
    begun: [Vec<u8>; 2],
    records: Vec<(usize, String)>,
    refused: bool,
    lost: u64,
}

impl Model {
    fn chunk(&mut self, stream: usize, data: &[u8]) {
        let mut bytes = data.iter().peekable();
        while let Some(&byte) = bytes.next() {
            if byte == b'\n' {
                self.record(stream, true);
                continue;
            }
            self.begun[stream].push(byte);
            // A newline that comes with the last byte belongs to it.
            if self.begun[stream].len() == LINE {
                let whole = bytes.next_if_eq(&&b'\n').is_some();
                self.record(stream, whole);
            }
        }
    }

    fn end(&mut self, stream: usize) {
        if !self.begun[stream].is_empty() {
            self.record(stream, false);
        }
    }

    fn record(&mut self, stream: usize, whole: bool) {
        let mut line = String::new();
        for part in self.begun[stream].utf8_chunks() {
            part.valid().chars().for_each(|one| escaped(&mut line, one));
            part.invalid().iter().for_each(|_| line.push_str("\\ufffd"));
        }
        line.push_str(if whole { "\\n" } else { "" });
        self.begun[stream].clear();
        if self.refused {
            self.lost += 1;
        } else {
            self.records.push((stream, line));
        }
    }
}

fn escaped(line: &mut String, one: char) {
    match one {
        '"' | '\\' => line.extend(['\\', one]),
        '\n' => line.push_str("\\n"),
        '\r' => line.push_str("\\r"),
        '\t' => line.push_str("\\t"),
        '\0'..='\x1f' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => line.push_str(&format!("\\u{:04x}", one as u32)),
        _ => line.push(one),
    }
}

/// Everything of fixed size that passes between library and monitor.
fn messages(data: &[u8]) {
    if let Some(request) = Request::from_bytes(data) {
        assert_eq!(Request::from_bytes(&request.to_bytes()).map(|one| one.to_bytes()), Some(request.to_bytes()));
    }
    let _ = data.first_chunk().and_then(Answer::from_bytes);
    if let Some(state) = data.first_chunk().and_then(State::from_bytes) {
        assert_eq!(State::from_bytes(&state.to_bytes()), Some(State { ..state }));
    }
    let _ = data.first_chunk().and_then(ExecState::from_bytes);
    let _ = data.first_chunk().map(|bytes| HealthResult::from_bytes(*bytes));
    // Other processes may control a process that reports.
    if let Some(report) = data.first_chunk().and_then(Report::from_bytes) {
        assert_eq!(Report::from_bytes(&report.to_bytes().0), Some(report));
    }
}

/// Two senders of datagrams, a control message, the key of a port, and where ports lead, as it stands in a plan.
fn relay(data: &[u8]) {
    const PORT: usize = RELAY_KEY + 16 + 4;
    let Some((a, rest)) = data.split_first_chunk::<28>() else { return };
    let Some((b, rest)) = rest.split_first_chunk::<28>() else { return };
    assert!(same_peer(a, a) && same_peer(a, b) == same_peer(b, a));
    let Some((asked, rest)) = rest.split_first_chunk::<40>() else { return };
    let own = own_address(*asked);
    assert_eq!((own_address(own), own[..32] == asked[..32], own[36..] == asked[36..]), (own, true, true));
    let Some((key, ports)) = rest.split_first_chunk::<RELAY_KEY>() else { return };
    // As many ports as there are bytes for.
    let count = (ports.len() / PORT) as u32;
    let payload = [&count.to_le_bytes()[..], &ports[..ports.len() / PORT * PORT]].concat();
    let Ok(Op::Relay(relay)) = Op::read(Relay::CODE, &payload) else { panic!("{count} ports are not a payload") };
    assert_eq!(relay.ports.iter().count(), relay.ports.len());
    if let Some(target) = passage::find(relay.ports, key) {
        let family = u16::from_ne_bytes([target.address[0], target.address[1]]);
        assert!(matches!((family, target.length), (2, 16) | (10, 28)));
        assert!(ports.windows(RELAY_KEY).any(|bytes| bytes == key));
    }
}

/// A question, after two bytes that are its length; the rest is an answer, and a file of names. All of it is also what a
/// client sends over a connection.
fn resolver(data: &[u8]) {
    connection(data);
    let Some((&[a, b], rest)) = data.split_first_chunk() else { return };
    let length = usize::from(u16::from_be_bytes([a, b])).min(rest.len()).min(1232);
    let (query, answer) = rest.split_at(length);
    let _ = question::likeness(query, answer);
    if let Some((network, entries)) = question::names(answer) {
        assert!(question::entries(entries).map(|entry| entry.name.len()).sum::<usize>() <= entries.len());
        let mut name = [0; 256];
        if let Some(entry) = question::entries(entries).next() {
            let _ = (entry.slot, entry.id, entry.v4, entry.v6, entry.first);
            assert!(question::encode_name(&mut name, entry.name, network).is_none_or(|length| length <= 256));
        }
    }
    let Some(question) = Question::read(query) else { return };
    assert!(question.end <= query.len() && question.opcode < 16);
    let _ = (question::reversed(question.name()), question::reversed6(question.name()), question.kind);
    // In another spelling it is the same question, and what answers it answers nothing else.
    let mut asked = query.to_vec();
    let spelling: question::Spelling = core::array::from_fn(|at| answer.get(at).copied().unwrap_or(0x55));
    question::spell(&mut asked, &spelling);
    assert_eq!(Question::read(&asked).map(|asked| asked.end), Some(question.end));
    assert!(asked.eq_ignore_ascii_case(query));
    let mut out = [0; 512];
    let mut answer = question::Answer::new(&mut out, &asked, &question, 0);
    (0..20).for_each(|number| answer.record(1, &[number; 16]));
    let length = answer.finish();
    assert_eq!(question::likeness(&asked, &out[..length]), Likeness::Same);
    if asked[12..question.end] != query[12..question.end] {
        assert_eq!(question::likeness(query, &out[..length]), Likeness::OtherSpelling);
    }
}

/// Bytes that come in pieces: each message is taken once, and the rest stays.
fn connection(data: &[u8]) {
    let mut frames = Frames::<64>::NONE;
    let (mut came, mut taken) = (0, 0);
    for piece in data.chunks(7) {
        let room = frames.room();
        let count = piece.len().min(room.len());
        room[..count].copy_from_slice(&piece[..count]);
        frames.add(count);
        came += count;
        while let First::Whole(length) = frames.first() {
            assert_eq!((frames.message(length).len(), frames.framed(length).len()), (length, length + 2));
            frames.remove(length);
            taken += length + 2;
        }
        assert_eq!(frames.room().len() + came - taken, 64);
    }
}

/// A reader of its own finds the compressed bytes as they were before.
fn gzip(data: &[u8]) {
    let (mut buffer, mut table, mut out) = (vec![0; deflate::BUFFER], vec![0; deflate::TABLE], Vec::new());
    let done = deflate::compress(data, &mut buffer, &mut table, &mut |bytes| {
        out.extend_from_slice(bytes);
        Ok(())
    });
    assert_eq!(done, Ok(()));
    let (body, tail) = out.split_at(out.len() - 8);
    assert!(body.starts_with(&[0x1f, 0x8b, 8, 0]), "the header");
    assert_eq!(inflate(&body[10..]).as_deref(), Some(data));
    assert_eq!(tail[4..], (data.len() as u32).to_le_bytes());
    assert_eq!(tail[..4], crc(data).to_le_bytes());
    // Where nobody takes what is written, that is the answer.
    let (mut buffer, mut table) = (vec![0; deflate::BUFFER], vec![0; deflate::TABLE]);
    assert_eq!(deflate::compress(data, &mut buffer, &mut table, &mut |_| Err(28)), Err(28));
}

fn crc(data: &[u8]) -> u32 {
    let step = |crc: u32| crc >> 1 ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 };
    !data.iter().fold(!0u32, |crc, &byte| (0..8).fold(crc ^ u32::from(byte), |crc, _| step(crc)))
}

/// One block of fixed codes, by RFC 1951.
pub(crate) fn inflate(data: &[u8]) -> Option<Vec<u8>> {
    let mut at = 0;
    let mut bit = || {
        let bit = data.get(at / 8)? >> (at % 8) & 1;
        at += 1;
        Some(u32::from(bit))
    };
    let mut take = |count: u32, highest_first: bool| {
        (0..count).try_fold(0, |value, place| {
            bit().map(|bit| if highest_first { value << 1 | bit } else { value | bit << place })
        })
    };
    // The last block, of fixed codes.
    if take(3, false)? != 0b011 {
        return None;
    }
    let mut out = Vec::new();
    loop {
        let mut code = take(7, true)?;
        let symbol = match code {
            0..=0b001_0111 => 256 + code,
            _ => {
                code = code << 1 | take(1, true)?;
                match code {
                    0x30..=0xbf => code - 0x30,
                    0xc0..=0xc7 => 280 + code - 0xc0,
                    _ => 144 + (code << 1 | take(1, true)?) - 0x190,
                }
            }
        };
        match symbol {
            0..256 => out.push(symbol as u8),
            256 => return Some(out),
            _ => {
                let length = match symbol - 257 {
                    28 => 258,
                    class @ 0..8 => class + 3,
                    class => {
                        let bits = class / 4 - 1;
                        ((4 + class % 4) << bits) + 3 + take(bits, false)?
                    }
                };
                let distance = match take(5, true)? {
                    class @ 0..4 => class + 1,
                    class => {
                        let bits = class / 2 - 1;
                        ((2 + class % 2) << bits) + 1 + take(bits, false)?
                    }
                };
                let from = out.len().checked_sub(distance as usize)?;
                (0..length as usize).for_each(|place| out.push(out[from + place]));
            }
        }
    }
}

/// A user and a group, a line each, then a file of users; behind a NUL one of groups.
fn passwd(data: &[u8]) {
    let mut parts = data.splitn(3, |&b| b == b'\n');
    let (user, group) = (parts.next().unwrap_or(b""), parts.next().unwrap_or(b""));
    let mut files = parts.next().unwrap_or(b"").splitn(2, |&b| b == 0);
    let (passwd, groups) = (files.next().unwrap_or(b""), files.next().unwrap_or(b""));
    let most = i32::MAX as u32;
    let digits = |text: &[u8]| !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    // A number below 0 is one that nobody can have, and no name; `-0` is a name.
    let negative =
        |text: &[u8]| text.strip_prefix(b"-").is_some_and(|rest| digits(rest) && rest.iter().any(|&b| b != b'0'));
    let number = |text: &[u8]| std::str::from_utf8(text).ok()?.parse().ok().filter(|id| *id <= most);
    match users::user(user, passwd) {
        Ok(found) => {
            assert!(found.uid <= most && found.gid <= most);
            if digits(user) {
                assert_eq!(Some(found.uid), number(user));
            } else if user.is_empty() {
                assert_eq!(found.uid, 0);
            } else {
                assert_eq!(found.name, user);
            }
            assert!(users::groups_of(found.name, groups).all(|gid| gid <= most));
            assert!(!found.name.contains(&b':') && !found.home.contains(&b'\n'));
        }
        Err(Bad::Range) => assert!(digits(user) && number(user).is_none() || negative(user)),
        Err(Bad::Missing) => assert!(!digits(user) && !user.is_empty()),
        Err(Bad::Entry) => assert!(!passwd.is_empty()),
    }
    match users::group(group, groups) {
        Ok(gid) => assert!(gid <= most && (!digits(group) || number(group) == Some(gid))),
        Err(bad) => assert_eq!(bad == Bad::Range, digits(group) || negative(group)),
    }
    assert_eq!(users::groups_of(b"", groups).count(), 0);
}

/// An answer of netlink; also what procfs and control groups say, the table of mounts among them.
fn netlink(data: &[u8]) {
    let mut table = Table::new();
    for byte in data {
        let ended = table.push(*byte);
        assert_eq!(ended, *byte == b'\n');
        if ended {
            assert!(table.place().len() < 4096 && remount::below(table.place(), table.place()).is_none());
        }
    }
    let (count, refused) = answers::acknowledged(data);
    assert!(count as usize <= data.len() / 20);
    assert!(refused.is_none_or(|error| error != 0 && count > 0));
    let name = data.iter().filter(|&&b| b != 0).take(15).copied().collect::<Vec<u8>>();
    let stat = [b"17 (", &name[..], b") S 5 6 7 8 9 4 11 12 13 14 15 16 17 18 19 20 21 22 23"].concat();
    assert_eq!([4, 9, 22].map(|field| answers::stat_field(&stat, field)), [5, 4, 23]);
    for field in [0, 2, 3, 22, usize::MAX] {
        let _ = answers::stat_field(data, field);
    }
    let _ = answers::oom_kills(data);
}

#[cfg(test)]
mod tests {
    use super::mutate;

    #[test]
    fn every_target_takes_anything() {
        for (name, target) in super::TARGETS {
            mutate::each(name, 3000, target);
        }
    }
}
