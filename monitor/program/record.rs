//! The parts of the container that the world can read: its state record, and events in the journal.

use crate::boot::Monitor;
use crate::ops::{Network, Note};
use crate::sys;
use crate::text::Writer;
use crate::wire::*;

/// Where the head of a record comes.
const EVENT_ROOM: &[u8] = &[0; 16];
/// How often an event is tried to be written, and the nanoseconds between.
const EVENT_TRIES: usize = 10;
const EVENT_PAUSE: i64 = 20_000_000;
/// The size of the journal at the most where no program looks after it; the limit is kept then.
const JOURNAL_MOST: u64 = 4 * JOURNAL_LIMIT;

/// An attribute's value.
#[derive(Clone, Copy)]
pub enum Value<'a> {
    Number(i64),
    /// Needs no escapes in JSON.
    Text(&'a [u8]),
}

impl Monitor {
    /// Writes the state record; `durable` also into the root, where it outlives a reboot.
    pub fn write_state(&self, durable: bool) {
        let bytes = self.state.to_bytes();
        let offset = u64::from(self.header.slot) * STATE_LEN as u64;
        let _ = sys::pwrite(self.run_states, &bytes, offset);
        if durable {
            let _ = sys::pwrite(self.root_states, &bytes, offset);
        }
    }

    /// Appends an event for each network of the container.
    pub fn network_events(&self, action: &[u8]) {
        for (_, Network { id, attributes }) in self.plan.each() {
            let mut buffer = [0u8; 4096];
            let mut w = Writer::new(&mut buffer);
            w.bytes(EVENT_ROOM)
                .bytes(b"{\"Type\":\"network\",\"Action\":\"")
                .bytes(action)
                .bytes(b"\",\"Actor\":{\"ID\":\"");
            w.bytes(id).bytes(b"\",\"Attributes\":{\"container\":\"").bytes(self.id).bytes(b"\",");
            w.bytes(attributes).bytes(b"}}");
            self.append(w);
        }
    }

    /// Appends an event of the container: one write, so that it stands in the journal whole.
    ///
    /// `detail` follows the action (`exec_start: true`); it stands in JSON already.
    pub fn event(&self, action: &[u8], detail: &[u8], extras: &[(&[u8], Value)]) {
        let mut buffer = [0u8; MAX_TEXT + 8192];
        let mut w = Writer::new(&mut buffer);
        w.bytes(EVENT_ROOM).bytes(b"{\"status\":\"").bytes(action).bytes(detail).bytes(b"\",\"id\":\"").bytes(self.id);
        w.bytes(b"\",\"from\":\"").bytes(self.from);
        w.bytes(b"\",\"Type\":\"container\",\"Action\":\"").bytes(action).bytes(detail);
        w.bytes(b"\",\"Actor\":{\"ID\":\"").bytes(self.id).bytes(b"\",\"Attributes\":{");
        // After the labels: of two members with one name the last holds.
        w.bytes(&self.attributes[..self.attributes_length]);
        for (index, (name, value)) in extras.iter().enumerate() {
            w.bytes(if index > 0 || self.attributes_length > 0 { b"," } else { b"" });
            w.bytes(b"\"").bytes(name).bytes(b"\":\"");
            match value {
                Value::Number(number) => w.number(*number),
                Value::Text(text) => w.bytes(text),
            };
            w.bytes(b"\"");
        }
        w.bytes(b"}}");
        self.append(w);
    }

    /// Appends the events of the container's volumes: [`STRING_MOUNTED`] or [`STRING_UNMOUNTED`] of the plan.
    pub fn volume_events(&self, kind: u32) {
        let action: &[u8] = if kind == STRING_MOUNTED { b"mount" } else { b"unmount" };
        for (_, note) in self.plan.each::<Note>().filter(|(_, note)| note.kind == kind) {
            let mut buffer = [0u8; MAX_TEXT + 4096];
            let mut w = Writer::new(&mut buffer);
            w.bytes(EVENT_ROOM).bytes(b"{\"Type\":\"volume\",\"Action\":\"").bytes(action).bytes(b"\",");
            w.bytes(note.text.bytes());
            self.append(w);
        }
    }

    /// Appends the event that stands behind the room for its head, but for its time and its end.
    fn append(&self, mut w: Writer) {
        let now = sys::now();
        w.bytes(b",\"time\":").number(now / 1_000_000_000).bytes(b",\"timeNano\":").number(now).bytes(b"}");
        let Some(record) = w.filled() else { return };
        let (head, body) = record.split_at_mut(EVENT_ROOM.len());
        head[..4].copy_from_slice(&EVENT_MAGIC.to_le_bytes());
        head[4..8].copy_from_slice(&(body.len() as u32).to_le_bytes());
        head[8..12].copy_from_slice(&fnv1a(body).to_le_bytes());
        // There may be room in a moment: who appends from the library takes old events away for it. Of a part of a record
        // that was written readers skip what there is.
        for _ in 0..EVENT_TRIES {
            if sys::write(self.events, record) == Ok(record.len()) {
                return self.bound_journal();
            }
            sys::sleep(EVENT_PAUSE);
        }
    }

    /// Health checks and restarts go on for months, whether or not a program is there that takes old events away.
    /// Readers skip the zeros; one that was so far behind is told by the library (`src/event/journal.rs`).
    fn bound_journal(&self) {
        if let Ok(file) = sys::fstat(self.events)
            && file.blocks * 512 > JOURNAL_MOST
        {
            let _ = sys::punch_hole(self.events, JOURNAL_HEAD, file.size.saturating_sub(JOURNAL_LIMIT) & !4095);
        }
    }
}
