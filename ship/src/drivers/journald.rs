//! journald: entries in the native form of systemd's journal.

use super::{Destination, Encoder, Frames, Manner, TlsFiles};
use crate::options::{Address, Error, Options, refused, unknown};
use crate::plan::Facts;
use crate::spool::Batch;
use crate::time::utc;

/// The journal's socket.
pub(crate) const SOCKET: &str = "/run/systemd/journal/socket";

/// Reads the options: there are only those of the tag and of extras.
pub fn parse(options: &Options) -> Result<(), Error> {
    match unknown(options, &[]) {
        Some(key) => refused(format!("unknown log opt '{key}' for journald log driver")),
        None => Ok(()),
    }
}

pub(super) fn destination() -> Destination {
    let address = Address::UnixDatagram(SOCKET.into());
    Destination { address, tls: TlsFiles::default(), manner: Manner::Journal, account: String::new() }
}

/// Makes entries.
pub struct Entries {
    /// The fields that all entries have.
    common: Vec<u8>,
    id: String,
}

impl Entries {
    pub(super) fn of(facts: &Facts) -> Entries {
        let mut common = Vec::new();
        let own = [
            ("CONTAINER_ID", facts.short_id()),
            ("CONTAINER_ID_FULL", &facts.id),
            ("CONTAINER_NAME", &facts.name),
            ("CONTAINER_TAG", &facts.tag),
            ("IMAGE_NAME", &facts.image_name),
            ("SYSLOG_IDENTIFIER", &facts.tag),
        ];
        for (key, value) in own {
            push(&mut common, key, value.as_bytes());
        }
        for (key, value) in &facts.extras {
            let key = field_name(key);
            if !key.is_empty() {
                push(&mut common, &key, value.as_bytes());
            }
        }
        Entries { common, id: facts.id.clone() }
    }
}

impl Encoder for Entries {
    fn encode(&mut self, batch: &Batch, frames: &mut Frames) {
        for (number, record) in batch.records().iter().enumerate().filter(|(_, record)| !record.hollow) {
            let out = &mut frames.bytes;
            push(out, "MESSAGE", batch.text(record));
            push(out, "PRIORITY", if record.head.stderr { b"3" } else { b"6" });
            push(out, "SYSLOG_TIMESTAMP", utc(record.head.time_ns).as_bytes());
            push(out, "CONTAINER_LOG_ORDINAL", record.ordinal.to_string().as_bytes());
            if let Some(part) = record.part {
                // The last part has no mark of a partial message, as in dockerd.
                if !part.last {
                    push(out, "CONTAINER_PARTIAL_MESSAGE", b"true");
                }
                push(out, "CONTAINER_PARTIAL_ID", format!("{}-{}", self.id, part.first).as_bytes());
                push(out, "CONTAINER_PARTIAL_ORDINAL", part.number.to_string().as_bytes());
                push(out, "CONTAINER_PARTIAL_LAST", part.last.to_string().as_bytes());
            }
            out.extend_from_slice(&self.common);
            frames.close(number + 1, String::new());
        }
    }
}

/// Appends a field. A value with other bytes than text of one line has its length before it.
fn push(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(name.as_bytes());
    if value.contains(&b'\n') {
        out.push(b'\n');
        out.extend_from_slice(&(value.len() as u64).to_le_bytes());
    } else {
        out.push(b'=');
    }
    out.extend_from_slice(value);
    out.push(b'\n');
}

/// A key as a field's name: upper case, `_` for all other characters, none of these at the start.
fn field_name(key: &str) -> String {
    let upper = key.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' });
    upper.collect::<String>().trim_start_matches('_').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_have_the_fields_of_dockerd() {
        let extras = [("com.example/a-b".to_owned(), "1\n2".to_owned()), ("__".to_owned(), "gone".to_owned())];
        let facts = Facts { id: "0123456789abcdef".into(), tag: "t".into(), extras: extras.into(), ..Facts::default() };
        let mut frames = Frames::default();
        Entries::of(&facts).encode(&Batch::of(&[(true, 0, b"hi")]), &mut frames);
        let wanted = "MESSAGE=hi\nPRIORITY=3\nSYSLOG_TIMESTAMP=1970-01-01T00:00:00.000000000Z\nCONTAINER_LOG_ORDINAL=1\n\
             CONTAINER_ID=0123456789ab\nCONTAINER_ID_FULL=0123456789abcdef\nCONTAINER_NAME=\nCONTAINER_TAG=t\nIMAGE_NAME=\n\
             SYSLOG_IDENTIFIER=t\nCOM_EXAMPLE_A_B\n\u{3}\0\0\0\0\0\0\u{0}1\n2\n";
        assert_eq!(String::from_utf8(frames.bytes).unwrap(), wanted);
        let zz = Options::from([("zz".to_owned(), String::new())]);
        assert_eq!(parse(&zz).unwrap_err().0, "unknown log opt 'zz' for journald log driver");
    }
}
