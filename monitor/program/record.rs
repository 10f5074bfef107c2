//! What the world can read of the container: its state record, and events in the journal.

use crate::boot::Monitor;
use crate::sys;
use crate::text::Writer;
use crate::wire::*;

const EVENT_MAGIC: u32 = 0x4556_5431;
const EVENT_HEAD: usize = 16;

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

    /// Appends an event of the container: one write, so that it stands in the journal whole.
    pub fn event(&self, action: &[u8], extra: Option<(&[u8], i64)>) {
        let mut buffer = [0u8; MAX_TEXT + 4096];
        let (head, body) = buffer.split_at_mut(EVENT_HEAD);
        let now = sys::now();
        let mut w = Writer::new(body);
        w.bytes(b"{\"status\":\"").bytes(action).bytes(b"\",\"id\":\"").bytes(self.id);
        w.bytes(b"\",\"from\":\"").bytes(self.from).bytes(b"\",\"Type\":\"container\",\"Action\":\"").bytes(action);
        w.bytes(b"\",\"Actor\":{\"ID\":\"").bytes(self.id).bytes(b"\",\"Attributes\":{");
        if let Some((name, value)) = extra {
            w.bytes(b"\"").bytes(name).bytes(b"\":\"").number(value).bytes(b"\"");
            w.bytes(if self.attributes_length > 0 { b"," } else { b"" });
        }
        w.bytes(&self.attributes[..self.attributes_length]).bytes(b"}},\"time\":").number(now / 1_000_000_000);
        w.bytes(b",\"timeNano\":").number(now).bytes(b"}");
        if w.full {
            return;
        }
        let length = w.done().len();
        head[..4].copy_from_slice(&EVENT_MAGIC.to_le_bytes());
        head[4..8].copy_from_slice(&(length as u32).to_le_bytes());
        let checksum = fnv1a(&body[..length]);
        head[8..12].copy_from_slice(&checksum.to_le_bytes());
        let _ = sys::write(self.events, &buffer[..EVENT_HEAD + length]);
    }
}
