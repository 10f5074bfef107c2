//! fluentd: the forward protocol (MessagePack), over TCP, TLS and UNIX sockets.

use super::{Destination, Encoder, Frames, Manner, TlsFiles, parts_of_line};
use crate::options::{Address, Error, Options, flag, host_port, is_size, refused, text, unknown};
use crate::plan::Facts;
use crate::spool::{Batch, Part};

const KNOWN: [&str; 8] = [
    "fluentd-address",
    "fluentd-async",
    "fluentd-async-connect",
    "fluentd-buffer-limit",
    "fluentd-max-retries",
    "fluentd-request-ack",
    "fluentd-retry-wait",
    "fluentd-sub-second-precision",
];
const HOST: &str = "127.0.0.1";
const PORT: u16 = 24224;
/// A frame takes no more records once it has so many bytes: a frame is repeated as a whole.
const FULL: usize = 64 << 10;

/// The checked options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    address: Address,
    is_answered: bool,
    has_nanoseconds: bool,
}

/// Reads the options.
pub fn parse(options: &Options) -> Result<Settings, Error> {
    if let Some(key) = unknown(options, &KNOWN) {
        return refused(format!("unknown log opt '{key}' for fluentd log driver"));
    }
    let address = address(text(options, "fluentd-address"))?;
    check_unused(options)?;
    Ok(Settings {
        address,
        is_answered: go_flag(options, "fluentd-request-ack")?,
        has_nanoseconds: go_flag(options, "fluentd-sub-second-precision")?,
    })
}

fn address(given: Option<&str>) -> Result<Address, Error> {
    let Some(given) = given else { return Ok(Address::Tcp(HOST.into(), PORT)) };
    let parsed = match given.contains("://") {
        true => Address::parse(given, Some(PORT)),
        false => host_port(given, Some(PORT)).map(|(host, port)| Address::Tcp(host, port)),
    };
    match parsed {
        Some(address @ (Address::Tcp(..) | Address::Tls(..) | Address::Unix(_))) => Ok(address),
        _ => refused(format!("invalid fluentd-address {given}")),
    }
}

/// Options of dockerd's buffer in memory: checked, without an effect here, as lines wait in the spool.
fn check_unused(options: &Options) -> Result<(), Error> {
    if let Some(limit) = text(options, "fluentd-buffer-limit").filter(|limit| !is_size(limit)) {
        return refused(format!("invalid size: '{limit}'"));
    }
    if let Some(wait) = text(options, "fluentd-retry-wait") {
        let digits = wait.trim_end_matches(|c: char| c.is_alphabetic());
        if digits.parse::<f64>().is_err() || digits.len() == wait.len() {
            return refused(format!("time: invalid duration {wait:?}"));
        }
    }
    if let Some(count) = text(options, "fluentd-max-retries").filter(|count| count.parse::<u64>().is_err()) {
        return refused(format!("strconv.ParseUint: parsing {count:?}: invalid syntax"));
    }
    if text(options, "fluentd-async").is_some() && text(options, "fluentd-async-connect").is_some() {
        return refused("conflicting options: cannot specify both 'fluentd-async' and 'fluentd-async-connect");
    }
    go_flag(options, "fluentd-async")?;
    go_flag(options, "fluentd-async-connect").map(|_| ())
}

/// A truth value; the error is Go's alone, as dockerd's.
fn go_flag(options: &Options, key: &str) -> Result<bool, Error> {
    flag(options, key)
        .map_err(|error| Error(error.0.trim_start_matches(&format!("invalid value for {key}: ")).to_owned()))
}

impl Settings {
    pub(super) fn destination(&self) -> Destination {
        let manner = if self.is_answered { Manner::Answered } else { Manner::Stream };
        Destination { address: self.address.clone(), tls: TlsFiles::default(), manner, account: String::new() }
    }

    pub(super) fn encoder(&self, facts: &Facts) -> Entries {
        Entries {
            tag: facts.tag.clone(),
            id: facts.id.clone(),
            name: format!("/{}", facts.name),
            extras: facts.extras.clone().into_iter().collect(),
            is_answered: self.is_answered,
            has_nanoseconds: self.has_nanoseconds,
            entries: Vec::new(),
        }
    }
}

/// Makes frames of the forward protocol: `[tag, [[time, record], ...], {"chunk": name}]`.
pub struct Entries {
    tag: String,
    id: String,
    name: String,
    extras: Vec<(String, String)>,
    is_answered: bool,
    has_nanoseconds: bool,
    entries: Vec<u8>,
}

impl Entries {
    fn entry(&mut self, text: &[u8], stderr: bool, time_ns: i64, part: Option<Part>) {
        let out = &mut self.entries;
        out.push(0x92);
        push_time(out, time_ns, self.has_nanoseconds);
        let parts = part.map_or(Vec::new(), |part| parts_of_line(&self.id, part));
        push_map(out, 4 + self.extras.len() + parts.len());
        let source = if stderr { "stderr" } else { "stdout" };
        for (key, value) in [("container_id", &*self.id), ("container_name", &*self.name), ("source", source)] {
            push_text(out, key.as_bytes());
            push_text(out, value.as_bytes());
        }
        push_text(out, b"log");
        push_text(out, text);
        for (key, value) in self
            .extras
            .iter()
            .map(|(key, value)| (key.as_str(), value))
            .chain(parts.iter().map(|(key, value)| (*key, value)))
        {
            push_text(out, key.as_bytes());
            push_text(out, value.as_bytes());
        }
    }

    /// Ends a frame of so many entries; `through`: the ordinal of its last record.
    fn close(&mut self, frames: &mut Frames, count: usize, records: usize, through: u64) {
        if count == 0 {
            return;
        }
        let out = &mut frames.bytes;
        out.push(if self.is_answered { 0x93 } else { 0x92 });
        push_text(out, self.tag.as_bytes());
        push_head(out, 0xdd, count);
        out.append(&mut self.entries);
        let name = if self.is_answered { format!("{}-{through}", self.id) } else { String::new() };
        if self.is_answered {
            push_map(out, 1);
            push_text(out, b"chunk");
            push_text(out, name.as_bytes());
        }
        frames.close(records, name);
    }
}

impl Encoder for Entries {
    fn encode(&mut self, batch: &Batch, frames: &mut Frames) {
        let (mut count, mut through) = (0, 0);
        for (number, record) in batch.records().iter().enumerate().filter(|(_, record)| !record.hollow) {
            self.entry(batch.text(record), record.head.stderr, record.head.time_ns, record.part);
            (count, through) = (count + 1, record.ordinal);
            if self.entries.len() >= FULL {
                self.close(frames, std::mem::take(&mut count), number + 1, through);
            }
        }
        self.close(frames, count, batch.records().len(), through);
    }
}

fn push_time(out: &mut Vec<u8>, time_ns: i64, has_nanoseconds: bool) {
    let second = u32::try_from(time_ns.div_euclid(1_000_000_000)).unwrap_or(0).to_be_bytes();
    if has_nanoseconds {
        // EventTime: an extension of type 0 with eight bytes.
        out.extend_from_slice(&[0xd7, 0x00]);
        out.extend_from_slice(&second);
        let nanos = u32::try_from(time_ns.rem_euclid(1_000_000_000)).unwrap_or(0);
        out.extend_from_slice(&nanos.to_be_bytes());
    } else {
        out.push(0xce);
        out.extend_from_slice(&second);
    }
}

/// A code with a length of four bytes. A batch is far shorter.
fn push_head(out: &mut Vec<u8>, code: u8, length: usize) {
    out.push(code);
    out.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
}

fn push_map(out: &mut Vec<u8>, pairs: usize) {
    match u8::try_from(pairs) {
        Ok(few @ 0..16) => out.push(0x80 | few),
        _ => push_head(out, 0xdf, pairs),
    }
}

fn push_text(out: &mut Vec<u8>, text: &[u8]) {
    match u8::try_from(text.len()) {
        Ok(short @ 0..32) => out.push(0xa0 | short),
        Ok(short) => out.extend_from_slice(&[0xd9, short]),
        Err(_) => push_head(out, 0xdb, text.len()),
    }
    out.extend_from_slice(text);
}

/// The name in an acknowledgement `{"ack": name}` at the start of `bytes`, and its length; `None`: more bytes are
/// needed. Errors: something else came.
pub(crate) fn acknowledged(bytes: &[u8]) -> Result<Option<(&[u8], usize)>, ()> {
    let Some(&first) = bytes.first() else { return Ok(None) };
    if first != 0x81 {
        return Err(());
    }
    let Some((key, at)) = text_at(bytes, 1)? else { return Ok(None) };
    let Some((name, end)) = text_at(bytes, at)? else { return Ok(None) };
    if key == b"ack" { Ok(Some((name, end))) } else { Err(()) }
}

/// The text at a place, and the place behind it.
fn text_at(bytes: &[u8], at: usize) -> Result<Option<(&[u8], usize)>, ()> {
    let Some(&code) = bytes.get(at) else { return Ok(None) };
    let number = |count: usize| {
        let bytes = bytes.get(at + 1..at + 1 + count)?;
        Some((bytes.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)), at + 1 + count))
    };
    let found = match code {
        0xa0..0xc0 => Some((usize::from(code & 0x1f), at + 1)),
        0xd9 | 0xc4 => number(1),
        0xda | 0xc5 => number(2),
        _ => return Err(()),
    };
    let Some((length, from)) = found else { return Ok(None) };
    Ok(bytes.get(from..from + length).map(|text| (text, from + length)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(pairs: &[(&str, &str)]) -> Options {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn sent(pairs: &[(&str, &str)], lines: &[(bool, i64, &[u8])]) -> Frames {
        let facts = Facts { tag: "t".into(), id: "i".into(), name: "n".into(), ..Facts::default() };
        let mut frames = Frames::default();
        parse(&options(pairs)).unwrap().encoder(&facts).encode(&Batch::of(lines), &mut frames);
        frames
    }

    #[test]
    fn a_frame_is_messagepack() {
        let record = b"\x84\xaccontainer_id\xa1i\xaecontainer_name\xa2/n\xa6source\xa6stderr\xa3log\xa2hi";
        let plain = sent(&[], &[(true, 5_000_000_007, b"hi")]);
        let wanted = [b"\x92\xa1t\xdd\0\0\0\x01\x92\xce\0\0\0\x05".as_slice(), record].concat();
        assert_eq!(plain.bytes, wanted);
        let pairs = [("fluentd-request-ack", "true"), ("fluentd-sub-second-precision", "1")];
        let full = sent(&pairs, &[(true, 5_000_000_007, b"hi")]);
        let head = b"\x93\xa1t\xdd\0\0\0\x01\x92\xd7\0\0\0\0\x05\0\0\0\x07".as_slice();
        assert_eq!(full.bytes, [head, record, b"\x81\xa5chunk\xa3i-1"].concat());
        assert_eq!(full.frames[0].name, "i-1");
    }

    #[test]
    fn frames_are_bounded_and_cover_their_records() {
        let line = vec![b'x'; 10_000];
        let frames = sent(&[], &[(false, 0, line.as_slice()); 20]);
        let records: Vec<usize> = frames.frames.iter().map(|frame| frame.records).collect();
        assert_eq!(records, [7, 14, 20]);
        assert_eq!(frames.frames.last().unwrap().end, frames.bytes.len());
        assert!(sent(&[], &[]).frames.is_empty());
    }

    #[test]
    fn acknowledgements_are_read_at_every_length() {
        let whole = b"\x81\xa3ack\xd9\x03i-1rest";
        for length in 0..10 {
            assert_eq!(acknowledged(&whole[..length]), Ok(None), "{length}");
        }
        assert_eq!(acknowledged(whole), Ok(Some((b"i-1".as_slice(), 10))));
        assert!(acknowledged(b"HTTP").is_err() && acknowledged(b"\x81\xa3no!\xa1x").is_err());
    }

    #[test]
    fn refusals_have_dockerd_s_words() {
        for (key, value, words) in [
            ("zz", "", "unknown log opt 'zz' for fluentd log driver"),
            ("fluentd-address", "a:b", "invalid fluentd-address a:b"),
            ("fluentd-address", "udp://a:1", "invalid fluentd-address udp://a:1"),
            ("fluentd-async", "x", "strconv.ParseBool: parsing \"x\": invalid syntax"),
            ("fluentd-request-ack", "x", "strconv.ParseBool: parsing \"x\": invalid syntax"),
            ("fluentd-max-retries", "-1", "strconv.ParseUint: parsing \"-1\": invalid syntax"),
            ("fluentd-buffer-limit", "x", "invalid size: 'x'"),
            ("fluentd-retry-wait", "5", "time: invalid duration \"5\""),
        ] {
            assert_eq!(parse(&options(&[(key, value)])).unwrap_err().0, words, "{key}");
        }
        let both = [("fluentd-async", "true"), ("fluentd-async-connect", "true")];
        assert!(parse(&options(&both)).unwrap_err().0.starts_with("conflicting options"));
        assert_eq!(parse(&Options::new()).unwrap().address, Address::Tcp("127.0.0.1".into(), 24224));
    }
}
