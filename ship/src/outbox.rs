//! The directory of deliveries: `outbox/<container id>/` has the plan and the cursor of each container whose driver
//! delivers. The spool itself is the container's log; when the container is removed, what is owed moves here.

use crate::cursor::{self, Cursor, CursorFile, Fault};
use crate::drivers::Driver;
use crate::plan::Plan;
use crate::spool::{Owed, Spool};
use nix::fcntl::{FcntlArg, fcntl};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The file with the number of records before the first delivery; absent: none.
const FIRST: &str = "first";

/// The places of one container's delivery below the root of an engine.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The container's own directory, where its log is.
    pub container: PathBuf,
    /// The directory of its delivery.
    pub own: PathBuf,
    /// The file of which each container's monitor holds a byte.
    alive: PathBuf,
}

impl Entry {
    /// The places of the container `id`.
    pub fn new(root: &Path, id: &str) -> Entry {
        Entry { container: root.join("containers").join(id), own: directory(root).join(id), alive: root.join("alive") }
    }

    /// The file of the plan.
    pub fn plan_path(&self) -> PathBuf {
        self.own.join("plan")
    }

    /// The file of the cursor.
    pub fn cursor_path(&self) -> PathBuf {
        self.own.join("cursor")
    }

    /// How many records the log had before its first delivery.
    fn first_ordinal(&self) -> u64 {
        let text = std::fs::read_to_string(self.own.join(FIRST)).unwrap_or_default();
        text.trim().parse().unwrap_or(0)
    }

    /// Reads the plan; `None`: it is damaged, or there is none.
    pub fn plan(&self) -> Option<Plan> {
        Plan::from_json(&std::fs::read(self.plan_path()).ok()?)
    }

    /// The log, wherever it is.
    pub fn spool(&self, log: &str) -> Spool {
        Spool::new([self.container.clone(), self.own.clone()], log)
    }

    /// Whether lines are not delivered. A removed container's delivery counts until it is forgotten.
    pub fn owes(&self, plan: &Plan) -> io::Result<bool> {
        let cursor = cursor::read(&self.cursor_path())?.unwrap_or_default();
        Ok(self.is_orphan() || self.spool(&plan.log).owed(&cursor)? != Owed::default())
    }

    /// Whether the container has a monitor: it runs, or is about to be started again. `slot`: the monitor's byte, of the plan;
    /// without one: whether any container has a monitor. If the question fails, the answer is yes.
    pub fn has_monitor(&self, slot: Option<u32>) -> bool {
        let mut question = libc::flock {
            l_type: libc::F_RDLCK as libc::c_short,
            l_whence: libc::SEEK_SET as libc::c_short,
            l_start: slot.map_or(0, libc::off_t::from),
            l_len: libc::off_t::from(slot.is_some()),
            l_pid: 0,
        };
        let mut is_free = |alive: File| {
            let asked = fcntl(&alive, FcntlArg::F_OFD_GETLK(&mut question));
            asked.is_ok() && question.l_type == libc::F_UNLCK as libc::c_short
        };
        match File::open(&self.alive) {
            Ok(alive) => !is_free(alive),
            Err(error) => error.kind() != ErrorKind::NotFound,
        }
    }

    /// Whether the container was removed.
    pub fn is_orphan(&self) -> bool {
        !self.container.exists()
    }
}

/// The directory of all deliveries of a root.
pub fn directory(root: &Path) -> PathBuf {
    root.join("outbox")
}

/// Writes a plan, before the container's first line. A shipper sees it whole.
pub fn write_plan(root: &Path, plan: &Plan) -> io::Result<()> {
    let entry = Entry::new(root, &plan.facts.id);
    let text = plan.to_json();
    if std::fs::read(entry.plan_path()).is_ok_and(|old| old == text.as_bytes()) {
        return Ok(());
    }
    let is_new = !entry.own.exists();
    let dir = if is_new { directory(root).join(format!("new-{}", plan.facts.id)) } else { entry.own.clone() };
    DirBuilder::new().recursive(true).mode(0o700).create(&dir)?;
    let part = dir.join("plan.new");
    let mut how = OpenOptions::new();
    let mut file: File = how.write(true).create(true).truncate(true).mode(0o600).open(&part)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&part, dir.join("plan"))?;
    if !is_new {
        return Ok(());
    }
    // A log that is there before its first delivery is another root's, of which this one is a copy.
    let position = entry.spool(&plan.log).end()?;
    if position.ordinal > 0 {
        std::fs::write(dir.join(FIRST), position.ordinal.to_string())?;
    }
    CursorFile::open(&dir.join("cursor"))?.set(Cursor { position, ..Cursor::default() })?;
    std::fs::rename(&dir, &entry.own)
}

/// How a delivery is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// The driver.
    pub driver: String,
    /// How much is not delivered.
    pub owed: Owed,
    /// How far it is.
    pub cursor: Cursor,
    /// Receivers of the driver acknowledge what they get; otherwise the lines that count as delivered were sent.
    pub is_acknowledged: bool,
    /// Lines that the driver leaves out.
    pub left_out: u64,
    /// The failure since the last acknowledgement in words; empty: none.
    pub error: String,
}

/// The status of a container's delivery; `None`: there is none.
pub fn status(root: &Path, id: &str) -> io::Result<Option<Status>> {
    let entry = Entry::new(root, id);
    let Some(plan) = entry.plan() else { return Ok(None) };
    let cursor = cursor::read(&entry.cursor_path())?.unwrap_or_default();
    let owed = entry.spool(&plan.log).owed(&cursor)?;
    let driver = Driver::of(&plan, &entry.plan_path());
    let is_acknowledged = driver.is_ok_and(|driver| driver.destination().manner.is_acknowledged());
    // Each record before the cursor was delivered, lost, or left out.
    let passed = cursor.position.ordinal.saturating_sub(entry.first_ordinal());
    let left_out = passed.saturating_sub(cursor.delivered + cursor.lost);
    let own = matches!(cursor.fault, Some((Fault::Plugin, _))).then(|| crate::net::refusal(&entry.own)).flatten();
    let error = own.map_or_else(|| cursor.error(), |own| format!("{}: {own}", cursor.error()));
    Ok(Some(Status { driver: plan.driver, owed, cursor, is_acknowledged, left_out, error }))
}

/// The states of all deliveries, with those of removed containers.
pub fn statuses(root: &Path) -> io::Result<Vec<Status>> {
    ids(root).iter().filter_map(|id| status(root, id).transpose()).collect()
}

/// The containers that have a delivery.
pub(crate) fn ids(root: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory(root)).into_iter().flatten();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter(|name| name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit())).collect()
}

/// Before a container's directory is removed: its log moves to the outbox if something is owed, and its delivery is
/// forgotten otherwise.
pub fn hand_over(root: &Path, id: &str) -> io::Result<()> {
    let entry = Entry::new(root, id);
    if !entry.own.exists() {
        return Ok(());
    }
    let plan = entry.plan();
    let owes = match &plan {
        Some(plan) => {
            let cursor = cursor::read(&entry.cursor_path())?.unwrap_or_default();
            // A shipper tells the log plugin to leave before it forgets the delivery.
            entry.spool(&plan.log).owed(&cursor)? != Owed::default() || crate::net::has_left_stream(&entry.own)
        }
        None => false,
    };
    let Some(plan) = plan.filter(|_| owes) else { return forget(&entry) };
    let names = match std::fs::read_dir(&entry.container) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        names => names?,
    };
    // The oldest file first: a reader sees no hole.
    let mut files: Vec<_> = names.filter_map(|name| name.ok()?.file_name().into_string().ok()).collect();
    files.retain(|name| name == &plan.log || name.strip_prefix(&plan.log).is_some_and(|rest| rest.starts_with('.')));
    files.sort_by_key(|name| std::cmp::Reverse((name.len(), name.clone())));
    files.iter().try_for_each(|name| std::fs::rename(entry.container.join(name), entry.own.join(name)))
}

/// Removes a delivery that owes nothing any more.
pub(crate) fn forget(entry: &Entry) -> io::Result<()> {
    match std::fs::remove_dir_all(&entry.own) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
