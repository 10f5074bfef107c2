//! The container as other programs see it: its state record, and its events in the journal.

use crate::events::{self, Subject, Value};
use crate::fd::Fd;
use crate::ops::{Network, Note, Plan};
use crate::sys;
use crate::text::Writer;
use crate::wire::*;

/// How often the monitor tries to write an event, and the nanoseconds between.
const EVENT_TRIES: usize = 10;
const EVENT_PAUSE: i64 = 20_000_000;

/// The files of records and events.
pub struct RecordFiles {
    /// The run directory.
    pub run_dir: i32,
    pub run_states: i32,
    pub root_states: i32,
    pub journal: i32,
}

pub struct Record {
    pub state: State,
    /// Where the record stands in the files of states.
    offset: u64,
    run_dir: Fd,
    run_states: Fd,
    root_states: Fd,
    journal: Fd,
    id: &'static [u8],
    from: &'static [u8],
    attributes: [u8; MAX_TEXT],
    attributes_length: usize,
}

impl Record {
    /// # Safety
    /// `place` is valid for writing and zero, and nothing refers to it.
    pub unsafe fn init(place: *mut Record) {
        // SAFETY: within the structure; zeroes are values of all other fields.
        unsafe {
            (&raw mut (*place).id).write(b"");
            (&raw mut (*place).from).write(b"");
        }
    }

    /// Takes the files.
    pub fn open(&mut self, files: RecordFiles, slot: u32) {
        self.offset = u64::from(slot) * STATE_LEN as u64;
        self.run_dir.set(files.run_dir);
        self.run_states.set(files.run_states);
        self.root_states.set(files.root_states);
        self.journal.set(files.journal);
    }

    /// Reads the container's id, image and attributes.
    pub fn read(&mut self, plan: Plan<'static>) {
        for (_, Note { kind, text }) in plan.each() {
            match kind {
                STRING_ID => self.id = text.bytes(),
                STRING_FROM => self.from = text.bytes(),
                STRING_ATTRIBUTES => self.set_attributes(text.bytes()),
                _ => {}
            }
        }
    }

    /// A new record. The end of the container's last run stays in it. None if the plan has no id.
    pub fn begin(&mut self, boot: [u8; 16], restarts: u32, monitor_pid: i32) -> Option<()> {
        self.state = State { boot, restarts, monitor_pid, ..State::EMPTY };
        self.state.id.copy_from_slice(self.id.get(..8)?);
        self.state.finished_ns = self.last_end();
        Some(())
    }

    /// When the container's last run ended; 0 if there was none.
    fn last_end(&self) -> i64 {
        let mut bytes = [0u8; STATE_LEN];
        let read = sys::pread(self.run_states.raw(), &mut bytes, self.offset);
        let before = read.ok().filter(|&count| count == STATE_LEN).and_then(|_| State::from_bytes(&bytes));
        before.filter(|before| before.id == self.state.id).map_or(0, |before| before.finished_ns)
    }

    /// The run directory.
    pub fn run_dir(&self) -> i32 {
        self.run_dir.raw()
    }

    pub fn run_states(&self) -> i32 {
        self.run_states.raw()
    }

    /// Replaces the container's own attributes of events. A text that is too long changes nothing.
    pub fn set_attributes(&mut self, text: &[u8]) {
        if text.len() <= self.attributes.len() {
            self.attributes[..text.len()].copy_from_slice(text);
            self.attributes_length = text.len();
        }
    }

    /// Writes the state record; `durable` also into the root, where it outlives a reboot.
    pub fn write(&self, durable: bool) {
        let bytes = self.state.to_bytes();
        let _ = sys::pwrite(self.run_states.raw(), &bytes, self.offset);
        if durable {
            let _ = sys::pwrite(self.root_states.raw(), &bytes, self.offset);
        }
    }

    pub fn set_status(&mut self, status: Status, durable: bool) {
        self.state.status = status as u32;
        self.write(durable);
    }

    /// Appends an event of the container: one write, so that the journal has the event whole.
    pub fn event(&self, action: &[u8], detail: &[u8], extras: &[(&[u8], Value)]) {
        let mut buffer = [0u8; MAX_TEXT + 8192];
        let mut w = Writer::new(&mut buffer);
        let attributes = &self.attributes[..self.attributes_length];
        let subject = Subject { id: self.id, from: self.from, attributes };
        events::of_container(&mut w, &subject, action, detail, extras);
        self.append(w);
    }

    /// Appends an event for each network of the plan.
    pub fn network_events(&self, plan: Plan, action: &[u8]) {
        for (_, Network { id, attributes }) in plan.each() {
            let mut buffer = [0u8; 4096];
            let mut w = Writer::new(&mut buffer);
            events::of_network(&mut w, self.id, id, attributes, action);
            self.append(w);
        }
    }

    /// Appends the events of the plan's volumes: [`STRING_MOUNTED`] or [`STRING_UNMOUNTED`].
    pub fn volume_events(&self, plan: Plan, kind: u32) {
        let action: &[u8] = if kind == STRING_MOUNTED { b"mount" } else { b"unmount" };
        for (_, note) in plan.each::<Note>().filter(|(_, note)| note.kind == kind) {
            let mut buffer = [0u8; MAX_TEXT + 4096];
            let mut w = Writer::new(&mut buffer);
            events::of_volume(&mut w, action, note.text.bytes());
            self.append(w);
        }
    }

    fn append(&self, w: Writer) {
        let Some(record) = events::seal(w, sys::now()) else { return };
        // A full journal has room again soon, because an engine that appends trims it before. Readers skip a partly
        // written record.
        for _ in 0..EVENT_TRIES {
            if sys::write(self.journal.raw(), record) == Ok(record.len()) {
                return self.bound_journal();
            }
            sys::sleep(EVENT_PAUSE);
        }
    }

    /// Health checks and restarts go on for months, whether or not a program trims the journal. Readers skip the zeros;
    /// the library (`src/event/journal.rs`) reports the gap to a reader that was so far behind.
    fn bound_journal(&self) {
        if let Ok(file) = sys::fstat(self.journal.raw())
            && let Some((from, length)) = events::excess(file.size, file.blocks * 512)
        {
            let _ = sys::punch_hole(self.journal.raw(), from, length);
        }
    }
}
