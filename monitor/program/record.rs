//! What the world can read of the container: its state record, and events in the journal.

use crate::boot::Monitor;
use crate::sys;
use crate::text::Writer;
use crate::wire::*;

const EVENT_MAGIC: u32 = 0x4556_5431;
const EVENT_HEAD: usize = 16;
/// How often an event is tried to be written, and the nanoseconds between.
const EVENT_TRIES: usize = 10;
const EVENT_PAUSE: i64 = 20_000_000;

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
        let Some((_, ops)) = Ops::of(self.plan) else { return };
        for mut op in ops.filter(|op| op.code == OP_NETWORK) {
            let mut buffer = [0u8; 4096];
            let now = sys::now();
            let mut w = Writer::new(&mut buffer[EVENT_HEAD..]);
            w.bytes(b"{\"Type\":\"network\",\"Action\":\"").bytes(action).bytes(b"\",\"Actor\":{\"ID\":\"");
            w.bytes(op.payload.bytes()).bytes(b"\",\"Attributes\":{\"container\":\"").bytes(self.id).bytes(b"\",");
            w.bytes(op.payload.bytes()).bytes(b"}},\"time\":").number(now / 1_000_000_000);
            w.bytes(b",\"timeNano\":").number(now).bytes(b"}");
            if !w.full {
                let length = w.done().len();
                self.append(&mut buffer, length);
            }
        }
    }

    /// Appends an event of the container: one write, so that it stands in the journal whole.
    ///
    /// `detail` follows the action (`exec_start: true`); it stands in JSON already.
    pub fn event(&self, action: &[u8], detail: &[u8], extras: &[(&[u8], Value)]) {
        let mut buffer = [0u8; MAX_TEXT + 8192];
        let now = sys::now();
        let mut w = Writer::new(&mut buffer[EVENT_HEAD..]);
        w.bytes(b"{\"status\":\"").bytes(action).bytes(detail).bytes(b"\",\"id\":\"").bytes(self.id);
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
        w.bytes(b"}},\"time\":").number(now / 1_000_000_000).bytes(b",\"timeNano\":").number(now).bytes(b"}");
        if !w.full {
            let length = w.done().len();
            self.append(&mut buffer, length);
        }
    }

    /// Appends the events of the container's volumes: [`STRING_MOUNTED`] or [`STRING_UNMOUNTED`] of the plan.
    pub fn volume_events(&self, kind: u32) {
        let action: &[u8] = if kind == STRING_MOUNTED { b"mount" } else { b"unmount" };
        let Some((_, ops)) = Ops::of(self.plan) else { return };
        for mut op in ops.filter(|op| op.code == OP_STRING) {
            if op.payload.u32() != kind {
                continue;
            }
            let mut buffer = [0u8; MAX_TEXT + 4096];
            let now = sys::now();
            let mut w = Writer::new(&mut buffer[EVENT_HEAD..]);
            w.bytes(b"{\"Type\":\"volume\",\"Action\":\"").bytes(action).bytes(b"\",").bytes(op.payload.bytes());
            w.bytes(b",\"time\":").number(now / 1_000_000_000).bytes(b",\"timeNano\":").number(now).bytes(b"}");
            if !w.full {
                let length = w.done().len();
                self.append(&mut buffer, length);
            }
        }
    }

    /// Appends the event of that length which stands in `buffer` behind the room for its head.
    fn append(&self, buffer: &mut [u8], length: usize) {
        let (head, body) = buffer.split_at_mut(EVENT_HEAD);
        head[..4].copy_from_slice(&EVENT_MAGIC.to_le_bytes());
        head[4..8].copy_from_slice(&(length as u32).to_le_bytes());
        let checksum = fnv1a(&body[..length]);
        head[8..12].copy_from_slice(&checksum.to_le_bytes());
        let record = &buffer[..EVENT_HEAD + length];
        // There may be room in a moment: who appends from the library takes old events away for it. Of a part of a record
        // that was written readers skip what there is.
        for _ in 0..EVENT_TRIES {
            if sys::write(self.events, record) == Ok(record.len()) {
                return;
            }
            sys::sleep(EVENT_PAUSE);
        }
    }
}
