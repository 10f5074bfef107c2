//! syslog: RFC 3164 and RFC 5424, over datagrams, streams and TLS.

use super::{Destination, Encoder, Frames, Manner, TlsFiles};
use crate::options::{Address, Error, Options, refused, text, unknown};
use crate::plan::Facts;
use crate::spool::Batch;
use crate::time::Stamps;
use std::io::Write;

const KNOWN: [&str; 7] = [
    "syslog-address",
    "syslog-facility",
    "syslog-format",
    "syslog-tls-ca-cert",
    "syslog-tls-cert",
    "syslog-tls-key",
    "syslog-tls-skip-verify",
];
/// The facilities by number; `None`: the number has no name that dockerd knows.
const FACILITIES: [&str; 24] = [
    "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv", "ftp", "", "", "",
    "", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7",
];
const DAEMON: u8 = 3;
const ERROR: u8 = 3;
const INFO: u8 = 6;
/// The port of an address without one.
const PORT: u16 = 514;
const PROTOCOLS: [&str; 5] = ["tcp://", "tcp+tls://", "udp://", "unix://", "unixgram://"];

/// The form of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Of the time before RFC 3164, without the host.
    Unix,
    /// RFC 3164.
    Old,
    /// RFC 5424 with seconds.
    New,
    /// RFC 5424 with microseconds.
    Micro,
}

/// The checked options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    address: Address,
    /// The address is one of RELP.
    is_relp: bool,
    facility: u8,
    form: Form,
    tls: TlsFiles,
}

/// Reads the options.
pub fn parse(options: &Options) -> Result<Settings, Error> {
    if let Some(key) = unknown(options, &KNOWN) {
        return refused(format!("unknown log opt '{key}' for syslog log driver"));
    }
    let path = |key: &str| text(options, key).map(Into::into);
    Ok(Settings {
        address: address(text(options, "syslog-address"))?,
        is_relp: relp(text(options, "syslog-address")).is_some(),
        facility: facility(text(options, "syslog-facility"))?,
        form: form(text(options, "syslog-format"))?,
        tls: TlsFiles {
            authorities: path("syslog-tls-ca-cert"),
            certificate: path("syslog-tls-cert"),
            key: path("syslog-tls-key"),
            // As in dockerd, the option's presence decides.
            skips_check: options.contains_key("syslog-tls-skip-verify"),
            name: None,
        },
    })
}

fn address(text: Option<&str>) -> Result<Address, Error> {
    if let Some(plain) = relp(text) {
        return address(Some(&plain));
    }
    let Some(text) = text else { return Ok(Address::LocalSyslog) };
    match Address::parse(text, Some(PORT)) {
        Some(address) if PROTOCOLS.iter().any(|proto| text.starts_with(proto)) => Ok(address),
        _ => refused(format!("syslog-address should be in form proto://address, got {text}")),
    }
}

/// The address below one of RELP; `None`: it is another.
fn relp(text: Option<&str>) -> Option<String> {
    let (secure, plain) = (text?.strip_prefix("relp+tls://"), text?.strip_prefix("relp://"));
    secure.map(|rest| format!("tcp+tls://{rest}")).or_else(|| plain.map(|rest| format!("tcp://{rest}")))
}

fn facility(text: Option<&str>) -> Result<u8, Error> {
    let Some(text) = text else { return Ok(DAEMON) };
    let named = FACILITIES.iter().position(|name| *name == text && !name.is_empty());
    match named.and_then(|number| u8::try_from(number).ok()).or_else(|| text.parse().ok()) {
        Some(number @ 0..24) => Ok(number),
        _ => refused("invalid syslog facility"),
    }
}

fn form(text: Option<&str>) -> Result<Form, Error> {
    match text {
        None => Ok(Form::Unix),
        Some("rfc3164") => Ok(Form::Old),
        Some("rfc5424") => Ok(Form::New),
        Some("rfc5424micro") => Ok(Form::Micro),
        Some(_) => refused("Invalid syslog format"),
    }
}

/// How a receiver separates the messages of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Edge {
    /// Each is a datagram, or a message of RELP.
    Datagram,
    /// A newline behind each.
    Newline,
    /// The length of each stands before it.
    Count,
}

impl Settings {
    pub(super) fn destination(&self) -> Destination {
        let manner = match self.address {
            _ if self.is_relp => Manner::Relp,
            Address::Udp(..) | Address::UnixDatagram(_) | Address::LocalSyslog => Manner::Datagrams,
            Address::Tcp(..) | Address::Tls(..) | Address::Unix(_) | Address::Own(_) | Address::Plugin(_) => {
                Manner::Stream
            }
        };
        Destination { address: self.address.clone(), tls: self.tls.clone(), manner, account: String::new() }
    }

    fn edge(&self) -> Edge {
        match (&self.address, self.form) {
            _ if self.is_relp => Edge::Datagram,
            (Address::Tls(..), Form::New | Form::Micro) => Edge::Count,
            (Address::Tcp(..) | Address::Tls(..) | Address::Unix(_), _) => Edge::Newline,
            _ => Edge::Datagram,
        }
    }

    pub(super) fn encoder(&self, facts: &Facts) -> Messages {
        Messages {
            facility: self.facility,
            form: self.form,
            edge: self.edge(),
            tag: in_one_line(&facts.tag),
            host: in_one_line(&facts.host),
            pid: std::process::id(),
            stamps: Stamps::new(),
            message: Vec::new(),
        }
    }
}

/// A text without control characters: a newline of a tag would end the message, and begin another one.
fn in_one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Makes syslog messages.
pub struct Messages {
    facility: u8,
    form: Form,
    edge: Edge,
    tag: String,
    host: String,
    pid: u32,
    stamps: Stamps,
    message: Vec<u8>,
}

impl Messages {
    /// The text before the line. A write into memory does not fail.
    fn head(&mut self, stderr: bool, time_ns: i64) {
        let micros = self.stamps.turn_to(time_ns);
        let priority = self.facility << 3 | if stderr { ERROR } else { INFO };
        let Messages { tag, host, pid, stamps: Stamps { old, new, zone, .. }, message: out, .. } = self;
        let _ = match self.form {
            Form::Unix => write!(out, "<{priority}>{old} {tag}[{pid}]: "),
            Form::Old => write!(out, "<{priority}>{old} {host} {tag}[{pid}]: "),
            Form::New => write!(out, "<{priority}>1 {new}{zone} {host} {tag} {pid} {tag} - "),
            Form::Micro => write!(out, "<{priority}>1 {new}.{micros:06}{zone} {host} {tag} {pid} {tag} - "),
        };
    }
}

impl Encoder for Messages {
    fn encode(&mut self, batch: &Batch, frames: &mut Frames) {
        for (number, record) in batch.records().iter().enumerate().filter(|(_, record)| !record.hollow) {
            self.message.clear();
            self.head(record.head.stderr, record.head.time_ns);
            self.message.extend_from_slice(batch.text(record));
            if self.edge == Edge::Count {
                let _ = write!(frames.bytes, "{} ", self.message.len());
            }
            frames.bytes.extend_from_slice(&self.message);
            if self.edge == Edge::Newline {
                frames.bytes.push(b'\n');
            }
            frames.close(number + 1, String::new());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(pairs: &[(&str, &str)]) -> Options {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn sent(pairs: &[(&str, &str)]) -> (String, usize) {
        let facts = Facts { tag: "web".into(), host: "box".into(), ..Facts::default() };
        let mut frames = Frames::default();
        let lines: [(bool, i64, &[u8]); 2] = [(false, 1_500_000, b"one"), (true, 0, b"")];
        parse(&options(pairs)).unwrap().encoder(&facts).encode(&Batch::of(&lines), &mut frames);
        assert_eq!(frames.frames[1].records, 2);
        let pid = format!("{}", std::process::id());
        (String::from_utf8(frames.bytes).unwrap().replace(&pid, "PID"), frames.frames[0].end)
    }

    #[test]
    fn messages_have_the_forms_of_dockerd() {
        let old = Stamps::new();
        let mut stamps = old;
        let micros = stamps.turn_to(1_500_000);
        let (old, new, zone) = (stamps.old, stamps.new, stamps.zone);
        let udp = ("syslog-address", "udp://a");
        assert_eq!(sent(&[udp]).0, format!("<30>{old} web[PID]: one<27>{old} web[PID]: "));
        let tcp = [("syslog-address", "tcp://a"), ("syslog-format", "rfc3164"), ("syslog-facility", "local7")];
        assert_eq!(sent(&tcp).0, format!("<190>{old} box web[PID]: one\n<187>{old} box web[PID]: \n"));
        let new_form = [("syslog-address", "tcp://a"), ("syslog-format", "rfc5424"), ("syslog-facility", "0")];
        assert!(sent(&new_form).0.starts_with(&format!("<6>1 {new}{zone} box web PID web - one\n<3>1 ")));
        let tls = [("syslog-address", "tcp+tls://a"), ("syslog-format", "rfc5424micro")];
        let message = format!("<30>1 {new}.{micros:06}{zone} box web {} web - one", std::process::id());
        let (all, end) = sent(&tls);
        assert!(all.starts_with(&format!("{} <30>1 {new}.{micros:06}{zone} box web PID web - one", message.len())));
        assert_eq!(end, message.len() + message.len().to_string().len() + 1);
    }

    #[test]
    fn a_tag_does_not_begin_another_message() {
        let facts = Facts { tag: "web\n<0>forged\0".into(), host: "b\nox".into(), ..Facts::default() };
        let mut frames = Frames::default();
        let settings = parse(&options(&[("syslog-address", "tcp://a"), ("syslog-format", "rfc3164")])).unwrap();
        settings.encoder(&facts).encode(&Batch::of(&[(false, 0, b"one")]), &mut frames);
        let text = String::from_utf8(frames.bytes).unwrap();
        assert!(text.contains(" b ox web <0>forged [") && text.ends_with("one\n"), "{text:?}");
        assert_eq!(text.matches(char::is_control).count(), 1, "{text:?}");
    }

    #[test]
    fn refusals_have_dockerd_s_words() {
        for (key, value, words) in [
            ("colour", "red", "unknown log opt 'colour' for syslog log driver"),
            ("syslog-address", "logs:514", "syslog-address should be in form proto://address, got logs:514"),
            ("syslog-address", "tls://logs", "syslog-address should be in form proto://address, got tls://logs"),
            ("syslog-facility", "24", "invalid syslog facility"),
            ("syslog-facility", "disk", "invalid syslog facility"),
            ("syslog-format", "rfc1", "Invalid syslog format"),
        ] {
            assert_eq!(parse(&options(&[(key, value)])).unwrap_err().0, words);
        }
        assert_eq!(parse(&Options::new()).unwrap().address, Address::LocalSyslog);
    }
}
