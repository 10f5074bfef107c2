//! The locks of callers on containers: one byte a slot in files that every program shares.
//!
//! A caller that works on a container locks its byte of `run/busy`. A caller that makes a container locks a byte of
//! `run/making` until the row stands: the id says which byte.

use crate::error::{Error, Result};
use crate::kernel::file;
use crate::kernel::queue::Queue;
use crate::op::Op;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Where in `run/busy` the locks begin, by slots, of callers that end a container and keep it from being removed
/// meanwhile.
const ENDS_AT: u64 = 1 << 33;

/// Where in `run/busy` the tickets of the callers that wait for a container begin, and how many each slot has: a byte
/// for each microsecond of 35 minutes, so that 31 bits of slots have room.
const QUEUES_AT: u64 = 1 << 62;
const QUEUE: u64 = 1 << 31;

/// Where in `run/making` the locks begin, by ids, of callers that remove a container whose row is gone.
const REMOVALS_AT: u64 = 1 << 61;

/// See [`SlotLocks::hold_end`].
pub(crate) struct HeldEnd {
    file: File,
    place: u64,
}

impl Drop for HeldEnd {
    fn drop(&mut self) {
        // A child that the host program has just forked still has the descriptor: a close alone would leave the lock. The
        // lock ends with that descriptor if this fails.
        let _ = file::unlock_byte(&self.file, self.place);
    }
}

/// Holds the right to work on one container until it is dropped.
pub(crate) struct Busy(#[allow(dead_code)] File);

/// See [`SlotLocks::removing`].
pub(crate) struct Removing(#[allow(dead_code)] File);

/// See [`SlotLocks::making`].
pub(crate) struct Making<'a> {
    file: &'a File,
    place: u64,
}

impl Drop for Making<'_> {
    fn drop(&mut self) {
        // A lock that stays is one on a directory that nobody else looks for.
        let _ = file::unlock_byte(self.file, self.place);
    }
}

/// The files of the locks.
pub(crate) struct SlotLocks {
    busy_path: PathBuf,
    making: File,
    making_path: PathBuf,
}

impl SlotLocks {
    /// Opens the files in the run directory, making them if missing.
    pub(super) fn open(run: &Path) -> Result<SlotLocks> {
        let (busy_path, making_path) = (run.join("busy"), run.join("making"));
        open(&busy_path)?;
        Ok(SlotLocks { busy_path, making: open(&making_path)?, making_path })
    }

    /// The right to work on the container in the slot, if nobody else does.
    pub(crate) fn try_busy(&self, slot: u32) -> Result<Option<Busy>> {
        let file = open(&self.busy_path)?;
        Ok(file::try_lock_byte(&file, u64::from(slot))?.then_some(Busy(file)))
    }

    /// Says that a container which goes when it ends is not to go yet, until the answer is dropped or this program
    /// ends.
    pub(crate) fn hold_end(&self, slot: u32) -> Result<HeldEnd> {
        let file = open(&self.busy_path)?;
        let place = ENDS_AT + u64::from(slot);
        file::share_byte(&file, place, self.busy_path.display())?;
        Ok(HeldEnd { file, place })
    }

    /// Whether anybody holds it: [`SlotLocks::hold_end`].
    pub(crate) fn is_end_held(&self, slot: u32) -> Result<bool> {
        file::byte_is_locked(open(&self.busy_path)?, ENDS_AT + u64::from(slot))
    }

    /// Says that a container is being made, until the answer is dropped or this program ends: its directories are not
    /// leftovers.
    pub(crate) fn making(&self, id: &str) -> Result<Making<'_>> {
        let place = place(id)?;
        file::lock_byte(&self.making, place, format_args!("container {id}"))?;
        Ok(Making { file: &self.making, place })
    }

    /// Says that the removal of a container is done here, until the answer is dropped or this program ends. `None`:
    /// another does it.
    pub(crate) fn removing(&self, id: &str) -> Result<Option<Removing>> {
        let file = open(&self.making_path)?;
        Ok(file::try_lock_byte(&file, REMOVALS_AT + place(id)?)?.then_some(Removing(file)))
    }

    /// Whether another opener of the root is making the container with this id.
    pub(crate) fn is_being_made(&self, id: &str) -> Result<bool> {
        file::byte_is_locked(&self.making, place(id)?)
    }

    /// Waits until nobody else works on the container `id` in the slot. Errors: somebody does for too long.
    pub(crate) fn busy(&self, slot: u32, id: &str, op: Option<&Op>) -> Result<Busy> {
        let file = open(&self.busy_path)?;
        let first = QUEUES_AT + u64::from(slot) * QUEUE;
        let queue = Queue { file: &file, at: u64::from(slot), tickets: first..first + QUEUE };
        queue.wait(format_args!("container {id}"), op)?;
        Ok(Busy(file))
    }
}

/// Where in `run/making` an id is: file offsets have 63 bits.
fn place(id: &str) -> Result<u64> {
    id.get(..15)
        .and_then(|head| u64::from_str_radix(head, 16).ok())
        .ok_or_else(|| Error::invalid(format!("{id:?} is not a container id")))
}

/// Opens a file for reading and writing, made (mode 0600) if missing.
pub(super) fn open(path: &Path) -> Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(|e| Error::io(format_args!("open {}", path.display()), &e))
}
