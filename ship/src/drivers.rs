//! The log drivers: each checks its options, says how its receiver is reached, and turns records into the bytes that the
//! receiver takes. None of them does input or output.

mod fluentd;
mod gelf;
mod journald;
mod syslog;

use crate::options::{Address, Error, Options, refused};
use crate::plan::Facts;
use crate::spool::Batch;
pub(crate) use fluentd::acknowledged;
use std::path::PathBuf;

/// The drivers that deliver.
pub const NAMES: [&str; 4] = ["fluentd", "gelf", "journald", "syslog"];

/// A driver with its checked options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Driver {
    /// Fluentd's forward protocol.
    Fluentd(fluentd::Settings),
    /// Graylog's extended log format.
    Gelf(gelf::Settings),
    /// The journal of systemd.
    Journald,
    /// Syslog in its three forms.
    Syslog(syslog::Settings),
}

impl Driver {
    /// Reads the options. Errors: an unknown option, a bad value, in dockerd's words.
    pub fn parse(kind: &str, options: &Options) -> Result<Driver, Error> {
        match kind {
            "fluentd" => fluentd::parse(options).map(Driver::Fluentd),
            "gelf" => gelf::parse(options).map(Driver::Gelf),
            "journald" => journald::parse(options).map(|()| Driver::Journald),
            "syslog" => syslog::parse(options).map(Driver::Syslog),
            other => refused(format!("logger: no log driver named '{other}' is registered")),
        }
    }

    /// How the receiver is reached. Containers with one destination share a connection.
    pub fn destination(&self) -> Destination {
        match self {
            Driver::Fluentd(settings) => settings.destination(),
            Driver::Gelf(settings) => settings.destination(),
            Driver::Journald => journald::destination(),
            Driver::Syslog(settings) => settings.destination(),
        }
    }

    /// Turns the records of one container into the driver's form.
    pub fn encoder(&self, facts: &Facts) -> Box<dyn Encoder> {
        match self {
            Driver::Fluentd(settings) => Box::new(settings.encoder(facts)),
            Driver::Gelf(settings) => Box::new(settings.encoder(facts)),
            Driver::Journald => Box::new(journald::Entries::of(facts)),
            Driver::Syslog(settings) => Box::new(settings.encoder(facts)),
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
}

impl Frames {
    /// Ends a frame with the bytes so far.
    fn close(&mut self, records: usize, name: String) {
        self.frames.push(Frame { end: self.bytes.len(), records, name });
    }
}

/// Turns batches into frames. Records that a driver leaves out (empty lines of GELF) have no frame.
pub trait Encoder: Send {
    /// Appends the frames of a batch.
    fn encode(&mut self, batch: &Batch, frames: &mut Frames);
}
