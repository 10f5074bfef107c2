//! State records and locks: one slot a container in files that every program and monitor shares.
//!
//! Monitors write `run/states`, on tmpfs, in place; `root/states` is the copy that outlives a reboot. Monitors lock
//! bytes of `root/alive`: a container's monitor lives as long as its byte is locked, whatever its record says. That
//! file lies in the root, so that everybody who opens the root sees which monitors live, whatever the run directory
//! (monitors of earlier versions lock `run/alive`). The locks of callers are in [`super::slot_locks`].

use super::slot_locks::{SlotLocks, open};
use crate::error::{Error, Result};
use crate::kernel::file;
use crate::notes::{LogLevel, is_taken, note};
use coracle_monitor::wire::*;
pub(crate) use coracle_monitor::wire::{STATE_AFTER_BOOT, STATE_MANUAL, STATE_OOM, STATE_SWEPT, State, Status};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The names of the files of records, and of the one that monitors lock.
pub(crate) const NAME: &str = "states";
pub(crate) const ALIVE: &str = "alive";

/// The shared files.
pub(crate) struct States {
    run: File,
    root: File,
    alive: File,
    alive_path: PathBuf,
    /// The file that monitors of earlier versions lock, where there is one.
    older_alive: Option<File>,
    /// The locks of callers.
    pub(crate) locks: SlotLocks,
    boot_id: [u8; 16],
    /// The restarts by policy that were noted, by slot, with the beginning of the container's id; empty while nobody
    /// takes notes.
    noted: Mutex<HashMap<u32, ([u8; 8], u32)>>,
}

/// A container's state as it is known now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Now {
    /// The record; its status is corrected for a monitor that is gone.
    pub state: State,
    /// The monitor died without recording an end: the record is of a container that ran.
    pub lost: bool,
    /// The container ran when the machine went down.
    pub rebooted: bool,
    /// The record is of an earlier boot.
    pub stale: bool,
}

impl Now {
    /// Whether a monitor holds it: running, paused, restarting or starting.
    pub(crate) fn is_live(&self) -> bool {
        !self.lost && self.state.status().is_live()
    }

    /// Whether its last run is over: no monitor holds it, or its restart policy will start it again.
    pub(crate) fn run_is_over(&self) -> bool {
        !self.is_live() || self.state.status() == Status::Restarting
    }
}

impl Now {
    /// The record of a container that does not run: of one that does, as if the machine had gone down `now`
    /// (nanoseconds since 1970).
    pub(crate) fn at_rest(self, now: i64) -> State {
        let mut state = State { monitor_pid: 0, pid_start: 0, ..self.state };
        if self.is_live() {
            ended(&mut state, REBOOT_CODE);
            state.finished_ns = now.max(state.started_ns);
            state.health = HEALTH_NONE;
            state.failing_streak = 0;
        }
        state
    }
}

/// Records as they were a moment ago.
pub(crate) struct Glance(Vec<u8>);

impl Glance {
    /// The record in a slot, if it is this container's; none where it was just being written.
    fn record(&self, slot: u32, id: &str) -> Option<State> {
        let at = offset(slot) as usize;
        let bytes = self.0.get(at..at + STATE_LEN)?.first_chunk()?;
        State::from_bytes(bytes).filter(|state| id.as_bytes().get(..8) == Some(&state.id))
    }
}

/// Exit code of a container whose monitor was killed, and its process with it.
const LOST_CODE: i32 = 137;
/// Exit code of a container that ran when the machine went down, as dockerd has it.
const REBOOT_CODE: i32 = 255;

impl States {
    /// Opens the files, making them if missing.
    pub(crate) fn open(root: &Path, run: &Path) -> Result<States> {
        let alive_path = root.join(ALIVE);
        Ok(States {
            run: open(&run.join(NAME))?,
            root: open(&root.join(NAME))?,
            alive: open(&alive_path)?,
            alive_path,
            older_alive: File::open(run.join(ALIVE)).ok(),
            locks: SlotLocks::open(run)?,
            boot_id: boot_id()?,
            noted: Mutex::default(),
        })
    }

    /// The boot that records of this moment belong to.
    pub(crate) fn boot_id(&self) -> [u8; 16] {
        self.boot_id
    }

    /// The run directory's state file, for a monitor.
    pub(crate) fn run_fd(&self) -> BorrowedFd<'_> {
        self.run.as_fd()
    }

    /// The root's state file, for a monitor.
    pub(crate) fn root_fd(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    /// The state of the container with this id in this slot.
    pub(crate) fn now(&self, slot: u32, id: &str) -> Result<Now> {
        self.now_of(read(&self.run, slot, id)?, slot, id)
    }

    /// All records of the run directory at once, for callers that need many: see [`States::now_in`].
    pub(crate) fn glance(&self) -> Result<Glance> {
        let failed = |e: std::io::Error| Error::io("read the states of containers", &e);
        let mut all = vec![0; self.run.metadata().map_err(failed)?.len() as usize];
        let got = self.run.read_at(&mut all, 0).map_err(failed)?;
        all.truncate(got);
        Ok(Glance(all))
    }

    /// Answers as [`States::now`] does, by a record that was read with the others'.
    pub(crate) fn now_in(&self, glance: &Glance, slot: u32, id: &str) -> Result<Now> {
        match glance.record(slot, id) {
            Some(state) => self.now_of(Some(state), slot, id),
            None => self.now(slot, id),
        }
    }

    fn now_of(&self, record: Option<State>, slot: u32, id: &str) -> Result<Now> {
        let record = record.filter(|state| state.boot == self.boot_id);
        let mut now = match record {
            Some(state) => Now { state, lost: false, rebooted: false, stale: false },
            None => {
                let state = read(&self.root, slot, id)?.unwrap_or(State::EMPTY);
                let stale = state.boot != self.boot_id;
                Now { state, lost: false, rebooted: stale, stale }
            }
        };
        if !now.state.status().is_live() {
            now.rebooted = false;
        } else if now.rebooted {
            ended(&mut now.state, REBOOT_CODE);
        } else if !self.has_monitor(slot)? {
            // The monitor may have recorded the end between the two looks.
            let over = |state: &State| !state.status().is_live();
            // Or in the root alone, where the run directory did not take it.
            let of_this_run =
                |state: &State| state.boot == self.boot_id && state.started_ns == now.state.started_ns && over(state);
            match read(&self.run, slot, id)?.filter(over) {
                Some(state) => now.state = state,
                None if let Some(state) = read(&self.root, slot, id)?.filter(of_this_run) => now.state = state,
                None => {
                    now.lost = true;
                    ended(&mut now.state, LOST_CODE);
                }
            }
        }
        self.note_restarts(&now.state, slot, id);
        Ok(now)
    }

    /// Notes the restarts since the last look: monitors restart containers without a program of the library.
    fn note_restarts(&self, state: &State, slot: u32, id: &str) {
        if !is_taken(LogLevel::Info) {
            return;
        }
        let mut noted = self.noted.lock();
        let before = noted.insert(slot, (state.id, state.restarts));
        drop(noted);
        let before = before.filter(|(of, _)| *of == state.id).map_or(0, |(_, restarts)| restarts);
        if state.restarts > before {
            note(LogLevel::Info, "container", Some(id), || {
                format!(
                    "restart by its policy: {} since the last look, {} in all",
                    state.restarts - before,
                    state.restarts
                )
            });
        }
    }

    /// The record of this boot as it stands, whether or not its monitor lives.
    pub(crate) fn recorded(&self, slot: u32, id: &str) -> Result<Option<State>> {
        Ok(read(&self.run, slot, id)?.filter(|state| state.boot == self.boot_id))
    }

    /// The file that monitors hold open, and locked, as long as they live.
    pub(crate) fn alive_path(&self) -> &Path {
        &self.alive_path
    }

    /// The first characters of the ids of containers whose records say that they run, while no monitor lives.
    pub(crate) fn lost(&self) -> Result<Vec<String>> {
        let Glance(all) = self.glance()?;
        let mut lost = Vec::new();
        for (slot, bytes) in all.as_chunks::<STATE_LEN>().0.iter().enumerate() {
            let live = |state: &State| state.boot == self.boot_id && state.status().is_live();
            if let Some(state) = State::from_bytes(bytes).filter(live)
                && !self.has_monitor(slot as u32)?
            {
                lost.push(String::from_utf8_lossy(&state.id).into_owned());
            }
        }
        Ok(lost)
    }

    /// Whether a monitor lives in the slot.
    pub(crate) fn has_monitor(&self, slot: u32) -> Result<bool> {
        Ok(file::byte_is_locked(&self.alive, u64::from(slot))? || self.has_older_monitor(slot)?)
    }

    fn has_older_monitor(&self, slot: u32) -> Result<bool> {
        self.older_alive.as_ref().map_or(Ok(false), |alive| file::byte_is_locked(alive, u64::from(slot)))
    }

    /// Writes a record in place of a monitor: the caller holds the container and knows that none lives.
    pub(crate) fn write(&self, slot: u32, mut state: State) -> Result<()> {
        state.boot = self.boot_id;
        let bytes = state.to_bytes();
        for file in [&self.run, &self.root] {
            file.write_all_at(&bytes, offset(slot)).map_err(|e| Error::io("write the state of a container", &e))?;
        }
        Ok(())
    }

    /// Empties a slot.
    pub(crate) fn clear(&self, slot: u32) -> Result<()> {
        for file in [&self.run, &self.root] {
            file.write_all_at(&[0; STATE_LEN], offset(slot))
                .map_err(|e| Error::io("write the state of a container", &e))?;
        }
        Ok(())
    }

    /// Takes the lock that says "a monitor lives here", on a description of its own: it goes to the monitor. `None`:
    /// another has it.
    pub(crate) fn lock_alive(&self, slot: u32) -> Result<Option<OwnedFd>> {
        if self.has_older_monitor(slot)? {
            return Ok(None);
        }
        let file = open(&self.alive_path)?;
        Ok(file::try_lock_byte(&file, u64::from(slot))?.then(|| file.into()))
    }
}

/// Makes every record one of an earlier boot: of a copied root, whose containers run in another root if they run at
/// all.
pub(crate) fn forget_boot(root: &Path) -> Result<()> {
    let path = root.join(NAME);
    let failed = |e: std::io::Error| Error::io(format_args!("write {}", path.display()), &e);
    let file = open(&path)?;
    for (slot, mut state) in records(&file)? {
        state.boot = [0; 16];
        file.write_all_at(&state.to_bytes(), offset(slot)).map_err(failed)?;
    }
    file.sync_all().map_err(failed)
}

/// Writes the records of a copied root, of no boot. Nobody else knows of it yet.
pub(crate) fn write_copy(root: &Path, all: &[(u32, State)]) -> Result<()> {
    let path = root.join(NAME);
    let file = open(&path)?;
    for (slot, state) in all {
        let bytes = State { boot: [0; 16], ..*state }.to_bytes();
        let written = file.write_all_at(&bytes, offset(*slot));
        written.map_err(|e| Error::io(format_args!("write {}", path.display()), &e))?;
    }
    Ok(())
}

/// Whether a root's records name containers that run since `boot`, and those of this run directory do not.
pub(crate) fn run_elsewhere(root: &Path, run: &Path, boot: [u8; 16]) -> Result<bool> {
    let here = records(&open(&run.join(NAME))?)?;
    let known = |slot: u32| here.iter().any(|(other, state)| *other == slot && state.boot == boot);
    let live = |state: &State| state.boot == boot && state.status().is_live();
    Ok(records(&open(&root.join(NAME))?)?.iter().any(|(slot, state)| live(state) && !known(*slot)))
}

/// The whole records of a file, with their slots.
fn records(file: &File) -> Result<Vec<(u32, State)>> {
    let all = file::read_all(file).map_err(|e| Error::io("read the states of containers", &e))?;
    let chunks = all.as_chunks::<STATE_LEN>().0.iter().enumerate();
    Ok(chunks.filter_map(|(slot, bytes)| Some((slot as u32, State::from_bytes(bytes)?))).collect())
}

fn ended(state: &mut State, code: i32) {
    state.status = Status::Exited as u32;
    state.pid = 0;
    state.exit_code = code;
    if state.finished_ns < state.started_ns {
        state.finished_ns = state.started_ns;
    }
}

/// The beginning of an id, as state records carry it.
pub(crate) fn id_head(id: &str) -> [u8; 8] {
    let mut head = [0; 8];
    for (to, from) in head.iter_mut().zip(id.bytes()) {
        *to = from;
    }
    head
}

fn offset(slot: u32) -> u64 {
    u64::from(slot) * STATE_LEN as u64
}

/// The record in a slot, if it is this container's. A torn one is read again: its writer is in the middle of it.
fn read(file: &File, slot: u32, id: &str) -> Result<Option<State>> {
    for _ in 0..100 {
        let mut bytes = [0; STATE_LEN];
        let got = file.read_at(&mut bytes, offset(slot)).map_err(|e| Error::io("read the state of a container", &e))?;
        if got < STATE_LEN || bytes[4..8] == [0; 4] {
            return Ok(None);
        }
        if let Some(state) = State::from_bytes(&bytes) {
            return Ok((id.as_bytes().get(..8) == Some(&state.id)).then_some(state));
        }
        std::thread::yield_now();
    }
    // Damaged for good, as by a power cut: as if there were none.
    Ok(None)
}

/// The boot of this moment.
pub(crate) fn boot_id() -> Result<[u8; 16]> {
    const PATH: &str = "/proc/sys/kernel/random/boot_id";
    let text = std::fs::read_to_string(PATH).map_err(|e| Error::io(format_args!("read {PATH}"), &e))?;
    let hex: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    u128::from_str_radix(&hex, 16)
        .map(u128::to_be_bytes)
        .map_err(|_| Error::corrupt(format!("{PATH} is not a UUID: {text:?}")))
}
