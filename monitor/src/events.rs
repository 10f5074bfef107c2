//! Records of the event journal: a head, then one event as JSON. All texts stand in JSON already.

use crate::text::Writer;
use crate::wire::{EVENT_MAGIC, JOURNAL_HEAD, JOURNAL_LIMIT, fnv1a};

/// Room for the head of a record.
const HEAD: &[u8] = &[0; 16];
/// The size of the journal at the most when no program trims it; then the journal is cut back to its limit.
const JOURNAL_MOST: u64 = 4 * JOURNAL_LIMIT;

/// The value of an attribute.
#[derive(Clone, Copy)]
pub enum Value<'a> {
    Number(i64),
    /// A text that needs no escapes in JSON.
    Text(&'a [u8]),
}

/// The container of an event.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    pub id: &'a [u8],
    /// The container's image.
    pub from: &'a [u8],
    /// The container's own attributes: members of an object, without its brackets.
    pub attributes: &'a [u8],
}

/// Writes an event of a container. `detail` follows the action (`exec_start: true`).
pub fn of_container(w: &mut Writer, subject: &Subject, action: &[u8], detail: &[u8], extras: &[(&[u8], Value)]) {
    w.bytes(HEAD).bytes(b"{\"status\":\"").bytes(action).bytes(detail).bytes(b"\",\"id\":\"").bytes(subject.id);
    w.bytes(b"\",\"from\":\"").bytes(subject.from);
    w.bytes(b"\",\"Type\":\"container\",\"Action\":\"").bytes(action).bytes(detail);
    w.bytes(b"\",\"Actor\":{\"ID\":\"").bytes(subject.id).bytes(b"\",\"Attributes\":{");
    // The extras follow the labels: of two members with one name the last one counts.
    w.bytes(subject.attributes);
    for (index, (name, value)) in extras.iter().enumerate() {
        w.bytes(if index > 0 || !subject.attributes.is_empty() { b"," } else { b"" });
        w.bytes(b"\"").bytes(name).bytes(b"\":\"");
        match value {
            Value::Number(number) => w.number(*number),
            Value::Text(text) => w.bytes(text),
        };
        w.bytes(b"\"");
    }
    w.bytes(b"}}");
}

/// Writes an event of a network, with the network's attributes and the container's id.
pub fn of_network(w: &mut Writer, container: &[u8], network: &[u8], attributes: &[u8], action: &[u8]) {
    w.bytes(HEAD).bytes(b"{\"Type\":\"network\",\"Action\":\"").bytes(action).bytes(b"\",\"Actor\":{\"ID\":\"");
    w.bytes(network).bytes(b"\",\"Attributes\":{\"container\":\"").bytes(container).bytes(b"\",");
    w.bytes(attributes).bytes(b"}}");
}

/// Writes an event of a volume; `text` is the rest of the event.
pub fn of_volume(w: &mut Writer, action: &[u8], text: &[u8]) {
    w.bytes(HEAD).bytes(b"{\"Type\":\"volume\",\"Action\":\"").bytes(action).bytes(b"\",").bytes(text);
}

/// Completes a record: the time of the event, and the head. None if the record did not fit its buffer.
pub fn seal<'a>(mut w: Writer<'a>, now: i64) -> Option<&'a mut [u8]> {
    w.bytes(b",\"time\":").number(now / 1_000_000_000).bytes(b",\"timeNano\":").number(now).bytes(b"}");
    let record = w.filled()?;
    let (head, body) = record.split_at_mut(HEAD.len());
    head[..4].copy_from_slice(&EVENT_MAGIC.to_le_bytes());
    head[4..8].copy_from_slice(&(body.len() as u32).to_le_bytes());
    head[8..12].copy_from_slice(&fnv1a(body).to_le_bytes());
    Some(record)
}

/// The old part of a journal of `size` bytes that is to go, when `used` bytes of it are on the disk: its place and its
/// length. None if the journal is small enough.
pub fn excess(size: u64, used: u64) -> Option<(u64, u64)> {
    (used > JOURNAL_MOST).then(|| (JOURNAL_HEAD, size.saturating_sub(JOURNAL_LIMIT) & !4095))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(write: impl Fn(&mut Writer)) -> (Vec<u8>, String) {
        let mut buffer = [0; 1024];
        let mut writer = Writer::new(&mut buffer);
        write(&mut writer);
        let record = seal(writer, 1_700_000_000_000_000_005).expect("the record fits").to_vec();
        let text = String::from_utf8(record[HEAD.len()..].to_vec()).expect("the event is text");
        (record, text)
    }

    #[test]
    fn an_event_of_a_container_has_its_attributes_before_the_extra_ones() {
        let subject = Subject { id: b"abc", from: b"image", attributes: b"\"a\":\"b\"" };
        let extras = [(&b"exitCode"[..], Value::Number(-3)), (b"execID", Value::Text(b"77"))];
        let (_, text) = sealed(|w| of_container(w, &subject, b"exec_die", b": x", &extras));
        assert_eq!(
            text,
            r#"{"status":"exec_die: x","id":"abc","from":"image","Type":"container","Action":"exec_die: x","Actor":{"ID":"abc","Attributes":{"a":"b","exitCode":"-3","execID":"77"}},"time":1700000000,"timeNano":1700000000000000005}"#
        );
        let bare = Subject { attributes: b"", ..subject };
        let (_, text) = sealed(|w| of_container(w, &bare, b"die", b"", &extras[..1]));
        assert!(text.contains(r#""Attributes":{"exitCode":"-3"}"#), "no comma before the first attribute: {text}");
        let (_, text) = sealed(|w| of_container(w, &bare, b"start", b"", &[]));
        assert!(text.contains(r#""Attributes":{}}"#), "{text}");
    }

    #[test]
    fn events_of_networks_and_volumes_name_what_they_are_of() {
        let (_, text) = sealed(|w| of_network(w, b"c1", b"n1", b"\"name\":\"web\"", b"connect"));
        assert!(
            text.starts_with(r#"{"Type":"network","Action":"connect","Actor":{"ID":"n1","Attributes":{"container":"c1","name":"web"}},"time""#),
            "{text}"
        );
        let (_, text) = sealed(|w| of_volume(w, b"mount", b"\"Actor\":{}"));
        assert!(text.starts_with(r#"{"Type":"volume","Action":"mount","Actor":{},"time":1700000000,"#), "{text}");
    }

    #[test]
    fn the_head_of_a_record_has_the_length_and_the_sum_of_the_event() {
        let (record, text) = sealed(|w| of_volume(w, b"mount", b"\"x\":1"));
        assert_eq!(record[..4], EVENT_MAGIC.to_le_bytes());
        assert_eq!(record[4..8], (text.len() as u32).to_le_bytes());
        assert_eq!(record[8..12], fnv1a(text.as_bytes()).to_le_bytes());
        assert_eq!(record[12..16], [0; 4]);
    }

    #[test]
    fn an_event_that_does_not_fit_makes_no_record() {
        let mut buffer = [0; 64];
        let mut writer = Writer::new(&mut buffer);
        of_volume(&mut writer, b"mount", &[b'x'; 64]);
        assert!(seal(writer, 1).is_none());
    }

    #[test]
    fn a_journal_that_nobody_trims_is_cut_back_to_its_limit() {
        assert_eq!(excess(JOURNAL_MOST, JOURNAL_MOST), None);
        let (from, length) = excess(JOURNAL_MOST + 9000, JOURNAL_MOST + 512).expect("it is too large");
        assert_eq!(from, JOURNAL_HEAD, "the head of the journal stays");
        assert_eq!(length % 4096, 0);
        assert!(JOURNAL_MOST + 9000 - length >= JOURNAL_LIMIT, "the newest events stay");
    }
}
