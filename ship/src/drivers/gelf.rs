//! gelf: Graylog's extended log format 1.1, over UDP (compressed) and TCP.

use super::{Destination, Encoder, Frames, Manner, TlsFiles, push_json as push};
use crate::options::{Address, Error, Options, refused, text, unknown};
use crate::plan::Facts;
use crate::spool::Batch;
use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use std::fmt::Write as _;
use std::io::Write;

const KNOWN: [&str; 5] = [
    "gelf-address",
    "gelf-compression-level",
    "gelf-compression-type",
    "gelf-tcp-max-reconnect",
    "gelf-tcp-reconnect-delay",
];
const PROTOCOLS: [&str; 4] = ["tcp://", "udp://", "unix://", "unixgram://"];
const ERROR: u8 = 3;
const INFO: u8 = 6;

/// The compression of datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Packing {
    Gzip(u32),
    Zlib(u32),
    None,
}

/// The checked options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    address: Address,
    packing: Packing,
}

/// Reads the options.
pub fn parse(options: &Options) -> Result<Settings, Error> {
    let address = address(text(options, "gelf-address"))?;
    let is_udp = matches!(address, Address::Udp(..));
    for (key, value) in options {
        match key.as_str() {
            "gelf-compression-level" | "gelf-compression-type" if !is_udp => {
                return refused("compression is only supported on UDP");
            }
            "gelf-tcp-max-reconnect" | "gelf-tcp-reconnect-delay" if is_udp => {
                return refused(format!("{key:?} is only valid for TCP"));
            }
            "gelf-tcp-max-reconnect" | "gelf-tcp-reconnect-delay" if value.parse::<u32>().is_err() => {
                return refused(format!("{key:?} must be a positive integer"));
            }
            _ => {}
        }
    }
    if let Some(key) = unknown(options, &KNOWN) {
        return refused(format!("unknown log opt {key:?} for gelf log driver"));
    }
    let packing = packing(options)?;
    Ok(Settings { address, packing: if is_udp { packing } else { Packing::None } })
}

fn address(text: Option<&str>) -> Result<Address, Error> {
    let Some(text) = text else { return refused("gelf-address is a required parameter") };
    if !PROTOCOLS.iter().any(|proto| text.starts_with(proto)) {
        return refused(format!("gelf-address should be in form proto://address, got {text}"));
    }
    if text.starts_with("unix") {
        return refused("gelf: endpoint needs to be TCP or UDP");
    }
    match Address::parse(text, None) {
        Some(address) => Ok(address),
        None => refused("gelf: please provide gelf-address as proto://host:port"),
    }
}

fn packing(options: &Options) -> Result<Packing, Error> {
    let unknown =
        |key: &str, value: &str| refused(format!("unknown value {value:?} for log opt {key:?} for gelf log driver"));
    let level = match options.get("gelf-compression-level") {
        None => 1,
        Some(level) => match level.parse::<i32>() {
            Ok(-1) => Compression::default().level(),
            Ok(level @ 0..=9) => level.unsigned_abs(),
            _ => return unknown("gelf-compression-level", level),
        },
    };
    match options.get("gelf-compression-type").map(String::as_str) {
        None | Some("gzip") => Ok(Packing::Gzip(level)),
        Some("zlib") => Ok(Packing::Zlib(level)),
        Some("none") => Ok(Packing::None),
        Some(other) => unknown("gelf-compression-type", other),
    }
}

impl Settings {
    pub(super) fn destination(&self) -> Destination {
        let manner = match self.address {
            Address::Udp(..) => Manner::GelfDatagrams,
            _ => Manner::Stream,
        };
        Destination { address: self.address.clone(), tls: TlsFiles::default(), manner, account: String::new() }
    }

    pub(super) fn encoder(&self, facts: &Facts) -> Messages {
        let mut before = String::from("{\"version\":\"1.1\",\"host\":");
        push(&mut before, &facts.host);
        before.push_str(",\"short_message\":");
        let mut behind = String::new();
        let own = [
            ("_container_id", &facts.id),
            ("_container_name", &facts.name),
            ("_image_id", &facts.image_id),
            ("_image_name", &facts.image_name),
            ("_command", &facts.command),
            ("_tag", &facts.tag),
            ("_created", &facts.created),
        ];
        let named = |key: &String| if key.starts_with('_') { key.clone() } else { format!("_{key}") };
        let extras = facts.extras.iter().map(|(key, value)| (named(key), value));
        let extras = extras.filter(|(key, _)| own.iter().all(|(own, _)| own != key) && key != "_log_ordinal");
        for (key, value) in own.iter().map(|(key, value)| ((*key).to_owned(), *value)).chain(extras) {
            behind.push(',');
            push(&mut behind, &key);
            behind.push(':');
            push(&mut behind, value);
        }
        let is_stream = matches!(self.address, Address::Tcp(..));
        Messages { before, behind, packing: self.packing, is_stream, message: String::new() }
    }
}

/// Makes GELF messages.
pub struct Messages {
    before: String,
    behind: String,
    packing: Packing,
    is_stream: bool,
    message: String,
}

impl Messages {
    fn make(&mut self, text: &[u8], stderr: bool, time_ns: i64, ordinal: u64) {
        let millis = time_ns.div_euclid(1_000_000);
        let (seconds, millis) = (millis.div_euclid(1000), millis.rem_euclid(1000));
        self.message.clear();
        self.message.push_str(&self.before);
        push(&mut self.message, &String::from_utf8_lossy(text));
        let level = if stderr { ERROR } else { INFO };
        // A write into memory does not fail.
        let _ = write!(self.message, ",\"timestamp\":{seconds}.{millis:03},\"level\":{level}");
        self.message.push_str(&self.behind);
        let _ = write!(self.message, ",\"_log_ordinal\":{ordinal}}}");
    }

    /// Appends the message as it is sent.
    fn pack(&self, out: &mut Vec<u8>) {
        let message = self.message.as_bytes();
        let packed = match self.packing {
            Packing::None => return out.extend_from_slice(message),
            Packing::Gzip(level) => {
                let mut packer = GzEncoder::new(&mut *out, Compression::new(level));
                packer.write_all(message).and_then(|()| packer.finish().map(|_| ()))
            }
            Packing::Zlib(level) => {
                let mut packer = ZlibEncoder::new(&mut *out, Compression::new(level));
                packer.write_all(message).and_then(|()| packer.finish().map(|_| ()))
            }
        };
        debug_assert!(packed.is_ok(), "a write into memory does not fail");
    }
}

impl Encoder for Messages {
    fn encode(&mut self, batch: &Batch, frames: &mut Frames) {
        for (number, record) in batch.records().iter().enumerate() {
            let text = batch.text(record);
            if record.hollow {
                continue;
            }
            // Graylog refuses a message without a text.
            if text.is_empty() {
                frames.left_out.push(number);
                continue;
            }
            self.make(text, record.head.stderr, record.head.time_ns, record.ordinal);
            self.pack(&mut frames.bytes);
            if self.is_stream {
                frames.bytes.push(0);
            }
            frames.close(number + 1, String::new());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::{GzDecoder, ZlibDecoder};
    use std::io::Read;

    fn options(pairs: &[(&str, &str)]) -> Options {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn sent(pairs: &[(&str, &str)]) -> Frames {
        let extras = [("a".to_owned(), "1".to_owned()), ("_tag".to_owned(), "stolen".to_owned())];
        let facts = Facts { tag: "web".into(), host: "b\"x".into(), extras: extras.into(), ..Facts::default() };
        let mut frames = Frames::default();
        let lines: [(bool, i64, &[u8]); 3] = [(false, 1_500_000_000, b"one \x01"), (true, 0, b""), (true, -1, b"two")];
        parse(&options(pairs)).unwrap().encoder(&facts).encode(&Batch::of(&lines), &mut frames);
        frames
    }

    #[test]
    fn messages_are_json_with_the_container_s_facts() {
        let frames = sent(&[("gelf-address", "tcp://a:1")]);
        assert_eq!(frames.frames.iter().map(|frame| frame.records).collect::<Vec<_>>(), [1, 3]);
        let all = String::from_utf8(frames.bytes).unwrap();
        let one: serde_json::Value = serde_json::from_str(all.split('\0').next().unwrap()).unwrap();
        for (key, value) in [
            ("version", "\"1.1\""),
            ("host", "\"b\\\"x\""),
            ("short_message", "\"one \\u0001\""),
            ("timestamp", "1.5"),
            ("level", "6"),
            ("_tag", "\"web\""),
            ("_a", "\"1\""),
            ("_log_ordinal", "1"),
        ] {
            assert_eq!(one[key].to_string(), value, "{key}");
        }
        assert!(all.ends_with('\0') && all.contains("\"timestamp\":-1.999,\"level\":3"));
    }

    #[test]
    fn datagrams_are_compressed_as_asked_for() {
        let udp = ("gelf-address", "udp://a:1");
        let read = |mut reader: Box<dyn Read>| {
            let mut text = String::new();
            reader.read_to_string(&mut text).unwrap();
            text
        };
        let first = |frames: &Frames| frames.bytes[..frames.frames[0].end].to_vec();
        let plain = String::from_utf8(first(&sent(&[udp, ("gelf-compression-type", "none")]))).unwrap();
        assert!(plain.starts_with("{\"version\""));
        let gzip = first(&sent(&[udp, ("gelf-compression-level", "9")]));
        assert_eq!(read(Box::new(GzDecoder::new(std::io::Cursor::new(gzip)))), plain);
        let zlib = first(&sent(&[udp, ("gelf-compression-type", "zlib"), ("gelf-compression-level", "-1")]));
        assert_eq!(read(Box::new(ZlibDecoder::new(std::io::Cursor::new(zlib)))), plain);
    }

    #[test]
    fn refusals_have_dockerd_s_words() {
        let (tcp, udp) = (("gelf-address", "tcp://a:1"), ("gelf-address", "udp://a:1"));
        for (pairs, words) in [
            (vec![], "gelf-address is a required parameter"),
            (vec![("gelf-address", "a:1")], "gelf-address should be in form proto://address, got a:1"),
            (vec![("gelf-address", "unix:///a")], "gelf: endpoint needs to be TCP or UDP"),
            (vec![("gelf-address", "udp://a")], "gelf: please provide gelf-address as proto://host:port"),
            (vec![udp, ("zz", "")], "unknown log opt \"zz\" for gelf log driver"),
            (vec![tcp, ("gelf-compression-type", "gzip")], "compression is only supported on UDP"),
            (
                vec![udp, ("gelf-compression-type", "rar")],
                "unknown value \"rar\" for log opt \"gelf-compression-type\" for gelf log driver",
            ),
            (
                vec![udp, ("gelf-compression-level", "10")],
                "unknown value \"10\" for log opt \"gelf-compression-level\" for gelf log driver",
            ),
            (vec![udp, ("gelf-tcp-max-reconnect", "1")], "\"gelf-tcp-max-reconnect\" is only valid for TCP"),
            (vec![tcp, ("gelf-tcp-reconnect-delay", "x")], "\"gelf-tcp-reconnect-delay\" must be a positive integer"),
        ] {
            assert_eq!(parse(&options(&pairs)).unwrap_err().0, words);
        }
    }
}
