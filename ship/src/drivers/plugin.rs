//! Log plugins: messages of docker's log protocol, each with its length before it.

use super::{Destination, Encoder, Frames, Manner, TlsFiles};
use crate::options::Address;
use crate::plan::Facts;
use crate::spool::{Batch, Part};

/// The wire types of protocol buffers that the messages have.
const VARINT: u64 = 0;
const BYTES: u64 = 2;

/// Each container has a stream of its own. `plan`: the file of the delivery's plan, which says where the plugin is.
pub(super) fn destination(plan: &str) -> Destination {
    let address = Address::Plugin(plan.to_owned());
    Destination { address, tls: TlsFiles::default(), manner: Manner::Stream, account: String::new() }
}

/// Makes messages `LogEntry`.
pub struct Entries {
    id: String,
}

impl Entries {
    pub(super) fn of(facts: &Facts) -> Entries {
        Entries { id: facts.id.clone() }
    }
}

impl Encoder for Entries {
    fn encode(&mut self, batch: &Batch, frames: &mut Frames) {
        let mut entry = Vec::new();
        for (number, record) in batch.records().iter().enumerate().filter(|(_, record)| !record.hollow) {
            entry.clear();
            push_bytes(&mut entry, 1, if record.head.stderr { b"stderr" } else { b"stdout" });
            push_number(&mut entry, 2, record.head.time_ns.cast_unsigned());
            push_bytes(&mut entry, 3, batch.text(record));
            if let Some(part) = record.part {
                push_number(&mut entry, 4, 1);
                push_bytes(&mut entry, 5, &metadata(&self.id, part));
            }
            // A record has some 16 KiB.
            let length = u32::try_from(entry.len()).unwrap_or(u32::MAX);
            frames.bytes.extend_from_slice(&length.to_be_bytes());
            frames.bytes.extend_from_slice(&entry);
            frames.close(number + 1, String::new());
        }
    }
}

/// The message `PartialLogEntryMetadata`.
fn metadata(id: &str, part: Part) -> Vec<u8> {
    let mut out = Vec::new();
    push_number(&mut out, 1, u64::from(part.last));
    push_bytes(&mut out, 2, format!("{id}-{}", part.first).as_bytes());
    push_number(&mut out, 3, u64::from(part.number));
    out
}

/// Appends a field. As in the third version of the language, 0 is not written.
fn push_number(out: &mut Vec<u8>, field: u64, value: u64) {
    if value != 0 {
        push_varint(out, field << 3 | VARINT);
        push_varint(out, value);
    }
}

fn push_bytes(out: &mut Vec<u8>, field: u64, value: &[u8]) {
    if !value.is_empty() {
        push_varint(out, field << 3 | BYTES);
        push_varint(out, value.len() as u64);
        out.extend_from_slice(value);
    }
}

fn push_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_protocol_buffers_with_their_length() {
        let mut frames = Frames::default();
        let facts = Facts { id: "i".into(), ..Facts::default() };
        Entries::of(&facts).encode(&Batch::of(&[(true, 300, b"hi"), (false, 0, b"")]), &mut frames);
        let first = b"\0\0\0\x0f\x0a\x06stderr\x10\xac\x02\x1a\x02hi".as_slice();
        let second = b"\0\0\0\x08\x0a\x06stdout".as_slice();
        assert_eq!(frames.bytes, [first, second].concat());
        let ends: Vec<_> = frames.frames.iter().map(|frame| (frame.end, frame.records)).collect();
        assert_eq!(ends, [(first.len(), 1), (first.len() + second.len(), 2)]);
        let part = Part { first: 7, number: 2, last: true };
        assert_eq!(metadata("i", part), b"\x08\x01\x12\x03i-7\x18\x02");
    }
}
