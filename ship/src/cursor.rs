//! The cursor of a log: how far its delivery is.
//!
//! One record of 64 bytes, written in place by one `write`, so that a reader or a killed writer never sees half of it.
//! It is not flushed: after a power cut lines may come twice, and none that the disk has is missed.
//!
//! ```text
//!  0  u32  checksum    FNV-1a of bytes 4 to 63
//!  4  u32  version     1
//!  8  u64  generation  of the file that is being delivered; 0: none was yet
//! 16  u64  offset      in it, before compression
//! 24  u64  ordinal     records before this place, in all files
//! 32  u64  lost        records that were gone before they were delivered
//! 40  i64  delivered   ns since 1970 of the last acknowledgement; 0: never
//! 48  u64  sent        records that were delivered
//! 56  u32  error       what failed last: a number of `Fault`; 0: nothing since the last acknowledgement
//! 60  u32  errno       of that failure, or a status of HTTP
//! ```

use nix::errno::Errno;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Bytes of the record.
pub const LENGTH: usize = 64;
const VERSION: u32 = 1;
/// How often a reader tries again that met a writer.
const TRIES: usize = 100;

/// A place in a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Position {
    /// The number of the file, from 1; 0: before the first.
    pub generation: u64,
    /// Bytes of that file.
    pub offset: u64,
    /// Records before the place, in all files.
    pub ordinal: u64,
}

/// The step at which a delivery failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Fault {
    /// The name of the receiver has no address.
    Resolve = 1,
    /// No connection.
    Connect = 2,
    /// No agreement on TLS.
    Secure = 3,
    /// The connection broke, or took no data for too long.
    Send = 4,
    /// The receiver did not acknowledge in time, or refused.
    Refused = 5,
    /// The spool could not be read.
    Read = 6,
    /// The plan of the delivery is damaged.
    Plan = 7,
    /// The file of the option `…-tls-ca-cert` or `splunk-capath` cannot be used.
    Authorities = 8,
    /// The file of the option `…-tls-cert` cannot be used.
    Certificate = 9,
    /// The file of the option `…-tls-key` cannot be used.
    Key = 10,
    /// The receiver answered with a status of HTTP, which stands in the place of the error number.
    Status = 11,
    /// There are no keys for the receiver.
    Credentials = 12,
    /// A log plugin answered an error: the file `refusal` beside the cursor has it.
    Plugin = 13,
    /// The program that delivers cannot prepare itself.
    Program = 14,
    /// The proxy cannot be reached, broke off, or is of a kind that the delivery does not know.
    Proxy = 15,
    /// The proxy refused a tunnel with a status of HTTP, which stands in the place of the error number.
    ProxyStatus = 16,
    /// The name of the proxy has no address.
    ProxyName = 17,
}

impl Fault {
    fn of(number: u32) -> Option<Fault> {
        use Fault::{
            Authorities, Certificate, Connect, Credentials, Key, Plan, Plugin, Program, Proxy, ProxyName, ProxyStatus,
            Read, Refused, Resolve, Secure, Send, Status,
        };
        let all = [
            Resolve,
            Connect,
            Secure,
            Send,
            Refused,
            Read,
            Plan,
            Authorities,
            Certificate,
            Key,
            Status,
            Credentials,
            Plugin,
            Program,
            Proxy,
            ProxyStatus,
            ProxyName,
        ];
        all.into_iter().find(|fault| *fault as u32 == number)
    }

    fn text(self) -> &'static str {
        match self {
            Fault::Resolve => "the receiver's name has no address",
            Fault::Connect => "the receiver cannot be reached",
            Fault::Secure => "TLS with the receiver failed",
            Fault::Send => "the connection to the receiver broke",
            Fault::Refused => "the receiver did not acknowledge",
            Fault::Read => "the log cannot be read",
            Fault::Plan => "the delivery's plan is damaged",
            Fault::Authorities => "the file of the option -tls-ca-cert or splunk-capath cannot be used",
            Fault::Certificate => "the file of the option -tls-cert cannot be used",
            Fault::Key => "the file of the option -tls-key cannot be used",
            Fault::Credentials => "there are no credentials for the receiver",
            Fault::Plugin => "the log plugin answered an error",
            Fault::Program => "the program that delivers logs cannot prepare itself",
            Fault::Proxy => "the proxy for HTTPS cannot be used",
            Fault::ProxyStatus => "the proxy for HTTPS refused a tunnel with the status",
            Fault::ProxyName => "the name of the proxy for HTTPS has no address",
            Fault::Status => "the receiver refused the lines with the status",
        }
    }
}

/// How far a delivery is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cursor {
    /// Everything before it was delivered or counted as lost.
    pub position: Position,
    /// Records that were gone before they were delivered.
    pub lost: u64,
    /// Records that were delivered.
    pub delivered: u64,
    /// Nanoseconds since 1970 of the last acknowledgement; 0: never.
    pub delivered_ns: i64,
    /// The failure since then: its step, and the error number (0: none).
    pub fault: Option<(Fault, i32)>,
}

impl Cursor {
    /// The failure in words; empty: none since the last acknowledgement.
    pub fn error(&self) -> String {
        match self.fault {
            None => String::new(),
            Some((fault @ (Fault::Status | Fault::ProxyStatus), status)) => format!("{} {status}", fault.text()),
            Some((fault, 0)) => fault.text().to_owned(),
            Some((fault, errno)) => {
                let errno = Errno::from_raw(errno);
                let is_file = matches!(fault, Fault::Authorities | Fault::Certificate | Fault::Key);
                format!("{}: {}", fault.text(), if is_file { crate::files::reason(errno) } else { errno.desc() })
            }
        }
    }

    fn to_bytes(self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        let (fault, errno) = self.fault.map_or((0, 0), |(fault, errno)| (fault as u32, errno.cast_unsigned()));
        let Position { generation, offset, ordinal } = self.position;
        bytes[4..8].copy_from_slice(&VERSION.to_le_bytes());
        let words = [generation, offset, ordinal, self.lost, self.delivered_ns.cast_unsigned(), self.delivered];
        for (place, word) in bytes[8..56].chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes[56..60].copy_from_slice(&fault.to_le_bytes());
        bytes[60..].copy_from_slice(&errno.to_le_bytes());
        let sum = checksum(&bytes[4..]);
        bytes[..4].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8; LENGTH]) -> Option<Cursor> {
        let small = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let large = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        if small(0)? != checksum(&bytes[4..]) || small(4)? != VERSION {
            return None;
        }
        let errno = small(60)?.cast_signed();
        Some(Cursor {
            position: Position { generation: large(8)?, offset: large(16)?, ordinal: large(24)? },
            lost: large(32)?,
            delivered_ns: large(40)?.cast_signed(),
            delivered: large(48)?,
            fault: Fault::of(small(56)?).map(|fault| (fault, errno)),
        })
    }
}

fn checksum(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |sum, byte| (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// Reads the cursor at `path`; `None`: nothing was delivered yet, or the record is damaged.
pub fn read(path: &Path) -> io::Result<Option<Cursor>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    read_from(&file)
}

fn read_from(file: &File) -> io::Result<Option<Cursor>> {
    let mut bytes = [0; LENGTH];
    for _ in 0..TRIES {
        match file.read_exact_at(&mut bytes, 0) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
            read => read?,
        }
        if let Some(cursor) = Cursor::from_bytes(&bytes) {
            return Ok(Some(cursor));
        }
        std::thread::yield_now();
    }
    Ok(None)
}

/// The cursor in the hands of the one who writes it.
#[derive(Debug)]
pub struct CursorFile {
    path: PathBuf,
    /// As it stands in the file.
    pub now: Cursor,
}

impl CursorFile {
    /// Opens the cursor at `path`, or makes one before the first record.
    pub fn open(path: &Path) -> io::Result<CursorFile> {
        let file = made(path)?;
        if file.metadata()?.len() == 0 {
            // The record has its place on the disk from now on, also when the disk is full.
            file.write_all_at(&Cursor::default().to_bytes(), 0)?;
        }
        Ok(CursorFile { path: path.to_owned(), now: read_from(&file)?.unwrap_or_default() })
    }

    /// Writes a changed cursor. The file is open no longer than that: there may be many.
    pub fn set(&mut self, cursor: Cursor) -> io::Result<()> {
        if cursor != self.now {
            made(&self.path)?.write_all_at(&cursor.to_bytes(), 0)?;
            self.now = cursor;
        }
        Ok(())
    }
}

fn made(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_was_written() {
        let path = std::env::temp_dir().join(format!("coracle-cursor-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        assert_eq!(read(&path).unwrap(), None);
        let mut file = CursorFile::open(&path).unwrap();
        assert_eq!(file.now, Cursor::default());
        let cursor = Cursor {
            position: Position { generation: 3, offset: 1 << 40, ordinal: 77 },
            lost: 5,
            delivered: 72,
            delivered_ns: -1,
            fault: Some((Fault::Connect, libc::ECONNREFUSED)),
        };
        file.set(cursor).unwrap();
        assert_eq!(read(&path).unwrap(), Some(cursor));
        assert_eq!(CursorFile::open(&path).unwrap().now, cursor);
        assert_eq!(cursor.error(), "the receiver cannot be reached: Connection refused");
        let unusable = Cursor { fault: Some((Fault::Key, libc::ENOTSUP)), ..cursor };
        file.set(unusable).unwrap();
        let text = read(&path).unwrap().unwrap().error();
        assert_eq!(text, "the file of the option -tls-key cannot be used: not a regular file");
        for (fault, text) in [
            ((Fault::Proxy, libc::ECONNREFUSED), "the proxy for HTTPS cannot be used: Connection refused"),
            ((Fault::ProxyStatus, 407), "the proxy for HTTPS refused a tunnel with the status 407"),
            ((Fault::ProxyName, 0), "the name of the proxy for HTTPS has no address"),
        ] {
            file.set(Cursor { fault: Some(fault), ..cursor }).unwrap();
            assert_eq!(read(&path).unwrap().unwrap().error(), text);
        }
        // A damaged record counts as none.
        made(&path).unwrap().write_all_at(&[1], 20).unwrap();
        assert_eq!(read(&path).unwrap(), None);
        std::fs::remove_file(&path).unwrap();
    }
}
