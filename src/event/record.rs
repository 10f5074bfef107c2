//! The form of an event in the journal, and the search for records.
//!
//! A record is sixteen bytes of head (magic, payload length, FNV-1a of the payload, zero; little-endian) and the event
//! as one JSON object. A killed writer leaves the front part of a record; later records are found by a search for the
//! next head with a matching checksum. A payload cannot contain such a head: the length in it would consist of JSON
//! text, bytes of at least 0x20, which is far above [`MAX_PAYLOAD`].

use crate::error::{Error, Result};

pub(crate) use coracle_monitor::wire::EVENT_MAGIC as MAGIC;

/// Bytes before the payload.
pub(crate) const HEAD: usize = 16;
/// The greatest size of an event as JSON.
pub(crate) const MAX_PAYLOAD: usize = 1 << 20;

/// The record of a payload, head and all.
pub(crate) fn frame(payload: &[u8]) -> Result<Vec<u8>> {
    if payload.is_empty() || payload.len() > MAX_PAYLOAD {
        return Err(Error::invalid(format!("an event of {} bytes: 1 to {MAX_PAYLOAD} can be stored", payload.len())));
    }
    let mut record = Vec::with_capacity(HEAD + payload.len());
    for word in [MAGIC, payload.len() as u32, fnv1a(payload), 0] {
        record.extend_from_slice(&word.to_le_bytes());
    }
    record.extend_from_slice(payload);
    Ok(record)
}

/// The result of [`find`] in a part of the journal.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found<'a> {
    /// The first whole record; `end` counts from the part's start, including damaged bytes before the record.
    Record { payload: &'a [u8], end: usize },
    /// No record is whole yet. The first `skip` bytes are damaged; the rest may become a record.
    Wait { skip: usize },
}

/// Finds the first record in a part of the journal. A record that the part cuts off is awaited, unless a whole one
/// begins after its start: then its writer was killed.
pub(crate) fn find(stretch: &[u8]) -> Found<'_> {
    let mut cut = None;
    let mut at = 0;
    while let Some(head) = next_magic(stretch, at) {
        match record_at(&stretch[head..]) {
            At::Record(payload) => return Found::Record { payload, end: head + HEAD + payload.len() },
            At::Cut => cut = cut.or(Some(head)),
            At::Damage => {}
        }
        at = head + 1;
    }
    Found::Wait { skip: cut.unwrap_or(at.max(stretch.len().saturating_sub(3))) }
}

enum At<'a> {
    Record(&'a [u8]),
    Cut,
    Damage,
}

fn record_at(bytes: &[u8]) -> At<'_> {
    let Some(head) = bytes.first_chunk::<HEAD>() else { return At::Cut };
    let word = |i: usize| u32::from_le_bytes([head[4 * i], head[4 * i + 1], head[4 * i + 2], head[4 * i + 3]]);
    let length = word(1) as usize;
    if length == 0 || length > MAX_PAYLOAD || word(3) != 0 {
        return At::Damage;
    }
    match bytes.get(HEAD..HEAD + length) {
        None => At::Cut,
        Some(payload) if fnv1a(payload) == word(2) => At::Record(payload),
        Some(_) => At::Damage,
    }
}

/// The offset of the next magic at or after `from`, also of a part of one at the end.
fn next_magic(stretch: &[u8], from: usize) -> Option<usize> {
    let magic = MAGIC.to_le_bytes();
    (from..stretch.len()).find(|&at| {
        let rest = &stretch[at..stretch.len().min(at + magic.len())];
        magic.starts_with(rest)
    })
}

fn fnv1a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, &byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_published_one() {
        assert_eq!(fnv1a(b""), 0x811c_9dc5);
        assert_eq!(fnv1a(b"a"), 0xe40c_292c);
        assert_eq!(fnv1a(b"foobar"), 0xbf9c_f968);
    }

    #[test]
    fn a_record_is_found_only_when_whole() {
        let record = frame(b"{\"a\":1}").unwrap();
        assert_eq!(find(&record), Found::Record { payload: b"{\"a\":1}", end: record.len() });
        for cut in 0..record.len() {
            assert_eq!(find(&record[..cut]), Found::Wait { skip: 0 }, "cut at {cut}");
        }
    }

    #[test]
    fn a_torn_record_is_skipped_wherever_it_was_torn() {
        let torn = frame(b"{\"torn\":\"0123456789\"}").unwrap();
        for next in [&b"{}"[..], b"{\"long\":\"012345678901234567890123456789012345678901234567890123456789\"}"] {
            let whole = frame(next).unwrap();
            for cut in 1..torn.len() {
                let bytes = [&torn[..cut], &whole].concat();
                assert_eq!(find(&bytes), Found::Record { payload: next, end: bytes.len() }, "torn at {cut}");
            }
        }
    }

    #[test]
    fn damage_is_dropped_and_a_possible_start_kept() {
        assert_eq!(find(&[0; 100]), Found::Wait { skip: 97 });
        let mut bytes = vec![0; 50];
        bytes.extend_from_slice(&frame(b"{}").unwrap()[..10]);
        assert_eq!(find(&bytes), Found::Wait { skip: 50 });
        let mut flipped = frame(b"{\"a\":1}").unwrap();
        flipped[HEAD + 1] ^= 1;
        assert!(matches!(find(&flipped), Found::Wait { skip } if skip > 0));
    }

    #[test]
    fn a_reader_passes_over_the_magic_in_a_payload() {
        let payload = format!("{{\"a\":\"{}\"}}", "1TVE0000111122223333".repeat(40));
        let record = frame(payload.as_bytes()).unwrap();
        assert_eq!(find(&record), Found::Record { payload: payload.as_bytes(), end: record.len() });
        assert_eq!(find(&record[..record.len() - 1]), Found::Wait { skip: 0 });
        assert!(frame(&vec![b' '; MAX_PAYLOAD + 1]).is_err());
    }
}
