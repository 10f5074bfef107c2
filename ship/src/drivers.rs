//! The log drivers: each checks its options, says how its receiver is reached, and turns records into the bytes that the
//! receiver takes. None of them does input or output.

mod awslogs;
mod fluentd;
mod gcplogs;
mod gelf;
mod journald;
mod otlp;
mod plugin;
mod protobuf;
mod splunk;
mod syslog;

use crate::cursor::Fault;
use crate::http::Answer;
use crate::net::Problem;
use crate::options::{Address, Error, Options, refused};
use crate::plan::{Facts, Plan};
use crate::spool::{Batch, Part};
use flate2::Compression;
use flate2::write::GzEncoder;
pub(crate) use fluentd::acknowledged;
use std::io::Write;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

/// The drivers that deliver.
pub const NAMES: [&str; 8] = ["awslogs", "fluentd", "gcplogs", "gelf", "journald", "otlp", "splunk", "syslog"];

/// A driver with its checked options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Driver {
    /// CloudWatch Logs of AWS.
    Awslogs(awslogs::Settings),
    /// Fluentd's forward protocol.
    Fluentd(fluentd::Settings),
    /// Cloud Logging of Google.
    Gcplogs(gcplogs::Settings),
    /// Graylog's extended log format.
    Gelf(gelf::Settings),
    /// The journal of systemd.
    Journald,
    /// The protocol of OpenTelemetry.
    Otlp(otlp::Settings),
    /// A log plugin; with the file of the delivery's plan.
    Plugin(String),
    /// Splunk's HTTP Event Collector.
    Splunk(splunk::Settings),
    /// Syslog in its three forms.
    Syslog(syslog::Settings),
}

/// The options of a driver with what the environment of this program adds to them.
pub fn settled(kind: &str, options: &Options) -> Options {
    if kind == "awslogs" { awslogs::settled(options) } else { options.clone() }
}

impl Driver {
    /// Reads the options. Errors: an unknown option, a bad value, in dockerd's words.
    pub fn parse(kind: &str, options: &Options) -> Result<Driver, Error> {
        match kind {
            "awslogs" => awslogs::parse(options).map(Driver::Awslogs),
            "fluentd" => fluentd::parse(options).map(Driver::Fluentd),
            "gcplogs" => gcplogs::parse(options).map(Driver::Gcplogs),
            "gelf" => gelf::parse(options).map(Driver::Gelf),
            "journald" => journald::parse(options).map(|()| Driver::Journald),
            "otlp" => otlp::parse(options).map(Driver::Otlp),
            "splunk" => splunk::parse(options).map(Driver::Splunk),
            "syslog" => syslog::parse(options).map(Driver::Syslog),
            other => refused(format!("logger: no log driver named '{other}' is registered")),
        }
    }

    /// The driver of a plan that stands in the file `path`. Errors: as those of [`Driver::parse`].
    pub fn of(plan: &Plan, path: &Path) -> Result<Driver, Error> {
        match plan.plugin {
            Some(_) => Ok(Driver::Plugin(path.to_string_lossy().into_owned())),
            None => Driver::parse(&plan.driver, &plan.options),
        }
    }

    /// How the receiver is reached. Containers with one destination share a connection.
    pub fn destination(&self) -> Destination {
        match self {
            Driver::Awslogs(settings) => settings.destination(),
            Driver::Fluentd(settings) => settings.destination(),
            Driver::Gcplogs(settings) => settings.destination(),
            Driver::Gelf(settings) => settings.destination(),
            Driver::Journald => journald::destination(),
            Driver::Otlp(settings) => settings.destination(),
            Driver::Plugin(plan) => plugin::destination(plan),
            Driver::Splunk(settings) => settings.destination(),
            Driver::Syslog(settings) => settings.destination(),
        }
    }

    /// Turns the records of one container into the driver's form.
    pub fn encoder(&self, facts: &Facts) -> Box<dyn Encoder> {
        match self {
            Driver::Awslogs(settings) => Box::new(settings.encoder(facts)),
            Driver::Fluentd(settings) => Box::new(settings.encoder(facts)),
            Driver::Gcplogs(settings) => Box::new(settings.encoder(facts)),
            Driver::Gelf(settings) => Box::new(settings.encoder(facts)),
            Driver::Journald => Box::new(journald::Entries::of(facts)),
            Driver::Otlp(settings) => Box::new(settings.encoder(facts)),
            Driver::Plugin(_) => Box::new(plugin::Entries::of(facts)),
            Driver::Splunk(settings) => Box::new(settings.encoder(facts)),
            Driver::Syslog(settings) => Box::new(settings.encoder(facts)),
        }
    }

    /// The longest line, in bytes, that receivers of this kind take as one message, whatever characters it has; and the words that say
    /// how the line goes there, if that is the reason.
    pub(crate) fn longest_line(&self) -> (usize, &'static str) {
        match (self, self.destination().manner) {
            (_, Manner::Datagrams) => (32 << 10, " by datagrams"),
            // 128 chunks, of a text in which each byte may take six.
            (_, Manner::GelfDatagrams) => (24 << 10, " by datagrams"),
            // The service's bound for an event, and for an entry.
            (Driver::Awslogs(_), _) => ((256 << 10) - 26, ""),
            (Driver::Gcplogs(_), _) => (128 << 10, ""),
            _ => (1 << 20, ""),
        }
    }

    /// The request to which the receiver's answer decides whether a start goes on; `None`: a start asks nothing.
    pub(crate) fn verification(&self) -> Option<Vec<u8>> {
        match self {
            Driver::Splunk(settings) => settings.verification(),
            _ => None,
        }
    }
}

/// How frames are sent, and when they count as delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Manner {
    /// One frame after the other: delivered when the other side's kernel has acknowledged the bytes.
    Stream,
    /// Each frame is a datagram: delivered when it is sent.
    Datagrams,
    /// Each frame is a datagram, or several chunks with GELF's head: delivered when they are sent.
    GelfDatagrams,
    /// Each frame is a datagram for the journal, or a sealed file.
    Journal,
    /// The receiver answers each frame of the forward protocol with its name.
    Answered,
    /// Each frame is a message of RELP: the receiver answers its number.
    Relp,
    /// Each frame is an HTTP request: the driver judges the answer.
    Asked,
}

impl Manner {
    /// Whether frames go over a connection, whose end the other side tells.
    pub(crate) fn is_stream(self) -> bool {
        matches!(self, Manner::Stream | Manner::Answered | Manner::Relp | Manner::Asked)
    }

    /// Whether receivers acknowledge what they get: the program, or its kernel.
    pub fn is_acknowledged(self) -> bool {
        !matches!(self, Manner::Datagrams | Manner::GelfDatagrams | Manner::Journal)
    }
}

/// The files of TLS. They are read again for each connection, so that renewed ones are used.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct TlsFiles {
    /// The authorities of the receiver; absent: those of the host.
    pub authorities: Option<PathBuf>,
    /// Our certificate.
    pub certificate: Option<PathBuf>,
    /// The key of our certificate.
    pub key: Option<PathBuf>,
    /// The receiver's certificate is not checked.
    pub skips_check: bool,
    /// The name in the receiver's certificate; absent: that of the address.
    pub name: Option<String>,
}

/// A receiver, and how it is spoken to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Destination {
    /// Where it is.
    pub address: Address,
    /// For an address with TLS.
    pub tls: TlsFiles,
    /// How frames are sent.
    pub manner: Manner,
    /// Receivers that refuse one account take others: each account has a connection of its own.
    pub account: String,
}

/// A piece that is delivered as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Frame {
    /// The frame's end in the bytes.
    pub end: usize,
    /// So many records of the batch are delivered with it and the frames before it.
    pub records: usize,
    /// The name with which the receiver acknowledges it.
    pub name: String,
}

/// The bytes of a batch in a driver's form.
#[derive(Debug, Default)]
pub struct Frames {
    /// All frames, one after the other.
    pub bytes: Vec<u8>,
    /// The ends of the frames.
    pub frames: Vec<Frame>,
    /// The numbers of the batch's records that the driver leaves out, in their order: no receiver gets them.
    pub left_out: Vec<usize>,
}

impl Frames {
    /// For the next batch.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.frames.clear();
        self.left_out.clear();
    }

    /// Whether the driver leaves a record out.
    pub(crate) fn leaves_out(&self, number: usize) -> bool {
        self.left_out.binary_search(&number).is_ok()
    }

    /// Ends a frame with the bytes so far.
    fn close(&mut self, records: usize, name: String) {
        self.frames.push(Frame { end: self.bytes.len(), records, name });
    }
}

/// Turns batches into frames. Records that a driver leaves out (empty lines of GELF) have no frame, and are named.
pub trait Encoder: Send {
    /// Before each batch: gets what its frames need. Errors: it cannot be had now.
    fn prepare(&mut self, _stop: BorrowedFd<'_>) -> Result<(), Problem> {
        Ok(())
    }

    /// Appends the frames of a batch.
    fn encode(&mut self, batch: &Batch, frames: &mut Frames);

    /// Says what the answer to an HTTP request means.
    fn judge(&mut self, answer: &Answer) -> Verdict {
        Verdict::of(answer)
    }
}

/// The records of a request that a receiver will never take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rejected {
    /// By their numbers in the request, from 0.
    These(Vec<usize>),
    /// So many: the receiver does not say which.
    Some(u64),
}

impl Rejected {
    /// No record.
    pub(crate) const NONE: Rejected = Rejected::Some(0);

    /// How many records of the log they are, for a request whose records are joined from so many each. Where the receiver does not say
    /// which ones they are, the longest count: a line that is lost never counts as delivered.
    pub(crate) fn pieces(&self, of_each: impl FnOnce() -> Vec<u64>) -> u64 {
        match self {
            Rejected::Some(0) => 0,
            Rejected::These(numbers) if numbers.is_empty() => 0,
            Rejected::These(numbers) => {
                let of_each = of_each();
                numbers.iter().filter_map(|number| of_each.get(*number)).sum()
            }
            Rejected::Some(count) => {
                let mut of_each = of_each();
                of_each.sort_unstable_by(|one, other| other.cmp(one));
                of_each.iter().take(usize::try_from(*count).unwrap_or(usize::MAX)).sum()
            }
        }
    }
}

/// The meaning of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The receiver has the records, but for those that it will never take.
    Taken(Rejected),
    /// This request is to be sent first. Its answer is judged, too.
    First(Vec<u8>),
    /// The frame is to be sent again now.
    Again,
    /// The receiver has no record: the request is sent again later.
    Refused(Problem),
}

impl Verdict {
    /// By the status alone.
    fn of(answer: &Answer) -> Verdict {
        match answer.is_well() {
            true => Verdict::Taken(Rejected::NONE),
            false => Verdict::Refused(Problem::Failed(Fault::Status, i32::from(answer.status))),
        }
    }
}

/// Compresses the body of a request (gzip).
fn pack(body: &[u8], level: u32) -> Vec<u8> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::new(level));
    // A write into memory does not fail.
    let _ = packer.write_all(body);
    packer.finish().unwrap_or_default()
}

/// Dockerd's fields of a part of a line.
fn parts_of_line(id: &str, part: Part) -> Vec<(&'static str, String)> {
    vec![
        ("partial_message", "true".to_owned()),
        ("partial_id", format!("{id}-{}", part.first)),
        ("partial_ordinal", part.number.to_string()),
        ("partial_last", part.last.to_string()),
    ]
}

/// Appends a text as JSON.
fn push_json(out: &mut String, text: &str) {
    out.push_str(&serde_json::Value::from(text).to_string());
}
