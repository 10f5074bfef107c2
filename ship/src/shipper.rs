//! The shipper of a root: finds the deliveries in the outbox, and gives each to the courier of its destination.
//!
//! One shipper works for a root: it holds a lock. The lock goes when its last thread has ended.

use crate::courier::{Courier, Source, with_fault};
use crate::cursor::{CursorFile, Fault};
use crate::drivers::{Destination, Driver};
use crate::net::{Problem, wait};
use crate::outbox::{self, Entry, forget};
use nix::poll::PollFlags;
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// How often a shipper tries to get the lock.
const ROUND: Duration = Duration::from_secs(1);
/// How often it looks for deliveries: with and without a watch of their directory.
const ROUNDS: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(1));
/// The bounds of the logs of removed containers: bytes, and age.
const MOST: u64 = 256 << 20;
const AGE: Duration = Duration::from_secs(7 * 24 * 3600);

/// Starts a thread with this work; answers whether it could.
pub type Spawn = Box<dyn Fn(Box<dyn FnOnce() + Send>) -> bool + Send>;

/// The parts that all threads of a shipper share.
struct Shared {
    root: PathBuf,
    /// Readable when all are to end; nobody reads it.
    stop: Arc<OwnedFd>,
    /// Locked as long as a thread lives.
    _lock: File,
    /// The containers that a courier has.
    known: Mutex<BTreeSet<String>>,
}

/// The logs that wait for their courier's thread.
struct Inbox {
    new: Mutex<Option<Vec<Source>>>,
    wake: EventFd,
}

/// Works until `stop` is readable. `lock`: the file by whose lock shippers know of each other.
pub fn run(root: &Path, lock: &Path, stop: Arc<OwnedFd>, spawn: &Spawn) {
    let Some(lock) = take_lock(lock, &stop) else { return };
    let shared = Arc::new(Shared { root: root.to_owned(), stop, _lock: lock, known: Mutex::default() });
    let mut couriers = BTreeMap::new();
    let outbox = outbox::directory(root);
    // A start makes it otherwise; a watch needs it before.
    let _ = DirBuilder::new().recursive(true).mode(0o700).create(&outbox);
    let watch = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK).ok();
    let mut is_watched = false;
    loop {
        if let Some(watch) = watch.as_ref().filter(|_| !is_watched) {
            let what = AddWatchFlags::IN_CREATE | AddWatchFlags::IN_MOVED_TO;
            is_watched = watch.add_watch(&outbox, what).is_ok();
        }
        for id in names(&outbox) {
            shared.take_on(&id, &mut couriers, spawn);
        }
        shared.bound(&outbox);
        let fd = watch.as_ref().map_or(shared.stop.as_fd(), AsFd::as_fd);
        let round = if is_watched { ROUNDS.0 } else { ROUNDS.1 };
        if wait(fd, PollFlags::POLLIN, round, shared.stop.as_fd()).is_err() {
            return;
        }
        // A directory that is gone takes its watch along.
        is_watched &= watch.as_ref().is_none_or(|watch| {
            watch.read_events().unwrap_or_default().iter().all(|event| !event.mask.contains(AddWatchFlags::IN_IGNORED))
        });
    }
}

/// Waits for the lock; `None`: the shipper is to end.
fn take_lock(path: &Path, stop: &Arc<OwnedFd>) -> Option<File> {
    loop {
        let opened = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path);
        if let Ok(file) = opened
            && file.try_lock().is_ok()
        {
            return Some(file);
        }
        wait(stop.as_fd(), PollFlags::POLLIN, ROUND, stop.as_fd()).ok()?;
    }
}

/// The ids of containers in the outbox.
fn names(outbox: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(outbox).into_iter().flatten();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter(|name| name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit())).collect()
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Gives a delivery to the courier of its destination, if no courier has it.
    fn take_on(self: &Arc<Self>, id: &str, couriers: &mut BTreeMap<Destination, Arc<Inbox>>, spawn: &Spawn) {
        if locked(&self.known).contains(id) {
            return;
        }
        let entry = Entry::new(&self.root, id);
        let plan = entry.plan();
        let driver = plan.as_ref().and_then(|plan| Driver::parse(&plan.driver, &plan.options).ok());
        let (Some(plan), Some(driver)) = (plan, driver) else {
            // The next start writes the plan again. Inspection shows the damage until then.
            if let Ok(mut file) = CursorFile::open(&entry.cursor_path()) {
                let now = file.now;
                let _ = file.set(with_fault(now, Fault::Plan, 0));
            }
            return;
        };
        let Ok(source) = Source::open(entry, &plan, &driver) else { return };
        locked(&self.known).insert(id.to_owned());
        if !self.give(driver.destination(), source, couriers, spawn) {
            locked(&self.known).remove(id);
        }
    }

    /// Answers whether a courier has it.
    fn give(
        self: &Arc<Self>,
        to: Destination,
        source: Source,
        couriers: &mut BTreeMap<Destination, Arc<Inbox>>,
        spawn: &Spawn,
    ) -> bool {
        if let Some(inbox) = couriers.get(&to)
            && let Some(new) = locked(&inbox.new).as_mut()
        {
            new.push(source);
            return inbox.wake.write(1).is_ok();
        }
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let Ok(wake) = EventFd::from_flags(flags) else { return false };
        let inbox = Arc::new(Inbox { new: Mutex::new(Some(vec![source])), wake });
        let (shared, own, courier) = (Arc::clone(self), Arc::clone(&inbox), Courier::new(to.clone()));
        let started = spawn(Box::new(move || shared.deliver(courier, &own)));
        if started {
            couriers.insert(to, inbox);
        }
        started
    }

    /// The work of a courier's thread.
    fn deliver(&self, mut courier: Courier, inbox: &Inbox) {
        loop {
            let mut new = locked(&inbox.new);
            new.as_mut().into_iter().flat_map(std::mem::take).for_each(|source| courier.add(source));
            if courier.is_done() {
                // From here on the shipper starts another thread.
                *new = None;
                return;
            }
            drop(new);
            match courier.work(inbox.wake.as_fd(), self.stop.as_fd()) {
                Ok(over) => locked(&self.known).retain(|id| !over.contains(id)),
                Err(Problem::Stopped | Problem::Failed(..)) => return,
            }
            let _ = inbox.wake.read();
        }
    }

    /// Drops the oldest logs of removed containers beyond the bounds, and counts their lines.
    fn bound(&self, outbox: &Path) {
        let mut orphans: Vec<(SystemTime, u64, String)> = Vec::new();
        for id in names(outbox) {
            let entry = Entry::new(&self.root, &id);
            if entry.is_orphan()
                && let Ok(facts) = entry.own.metadata()
            {
                orphans.push((facts.modified().unwrap_or(SystemTime::UNIX_EPOCH), size(&entry.own), id));
            }
        }
        orphans.sort();
        let mut sum: u64 = orphans.iter().map(|(_, size, _)| size).sum();
        for (since, size, id) in orphans {
            let is_old = since.elapsed().is_ok_and(|age| age > AGE);
            if sum <= MOST && !is_old {
                break;
            }
            sum -= size;
            let lines = outbox::status(&self.root, &id).ok().flatten().map_or(0, |status| status.owed.lines);
            if forget(&Entry::new(&self.root, &id)).is_ok() {
                let _ = add_dropped(outbox, lines);
            }
        }
    }
}

/// Bytes of the files in a directory.
fn size(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).into_iter().flatten();
    entries.filter_map(|entry| Some(entry.ok()?.metadata().ok()?.len())).sum()
}

/// The lines of removed containers that were dropped because the outbox was full.
pub fn dropped(root: &Path) -> u64 {
    let text = std::fs::read_to_string(outbox::directory(root).join("dropped")).unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

fn add_dropped(outbox: &Path, lines: u64) -> io::Result<()> {
    let path = outbox.join("dropped");
    let before: u64 = std::fs::read_to_string(&path).unwrap_or_default().trim().parse().unwrap_or(0);
    std::fs::write(path, format!("{}\n", before.saturating_add(lines)))
}
