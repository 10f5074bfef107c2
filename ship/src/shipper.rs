//! The shipper of a root: finds the deliveries in the outbox, and gives each to the courier of its destination.
//!
//! One shipper works for a root: it holds a lock. The lock goes when its last thread has ended. A shipper is threads of a
//! program that has a root open ([`run`]), or a program of its own ([`run_until_done`]).

use crate::bounds::Bounds;
use crate::courier::{Courier, Source, with_fault};
use crate::cursor::{CursorFile, Fault};
use crate::drivers::{Destination, Driver};
use crate::holder::Holder;
use crate::net::{self, wait};
use crate::outbox::{self, Entry, forget};
use crate::plan::Plan;
use crate::proxies::Proxies;
use nix::poll::PollFlags;
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// How often a shipper tries to get the lock.
const ROUND: Duration = Duration::from_secs(1);
/// How often it looks for deliveries: with and without a watch of their directory.
const ROUNDS: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(1));
/// How often a shipper that ends by itself looks whether it is still needed.
const IDLE: Duration = Duration::from_secs(10);
/// How long it waits for the end of its couriers, and how often it looks. They tell log plugins to leave.
const PARTING: (Duration, Duration) = (Duration::from_secs(5), Duration::from_millis(10));

/// Starts a thread with this work; answers whether it could.
pub type Spawn = Box<dyn Fn(Box<dyn FnOnce() + Send>) -> bool + Send>;

/// The parts that all threads of a shipper share.
struct Shared {
    root: PathBuf,
    /// Readable when the couriers are to end; nobody reads it.
    stop: Arc<OwnedFd>,
    /// Locked as long as a thread lives.
    lock: Arc<File>,
    proxies: Proxies,
    /// The containers that a courier has.
    known: Mutex<BTreeSet<String>>,
}

/// The logs that wait for their courier's thread.
struct Inbox {
    new: Mutex<Option<Vec<Source>>>,
    wake: EventFd,
}

/// Works until `stop` is readable. `lock`: the file by whose lock shippers know of each other.
pub fn run(root: &Path, lock: &Path, stop: Arc<OwnedFd>, proxies: &Proxies, spawn: &Spawn) {
    let Some(lock) = take_lock(lock, &stop) else { return };
    Shared::new(root, &Arc::new(lock), &stop, proxies).work(spawn, Ends::WhenTold, &stop);
}

/// As [`run`], for a caller that holds the lock in `lock`. Ends, too, when no delivery needs a shipper ([`is_needed`]): the
/// lock is free then. The couriers have ended before, so that no log plugin is left behind; nothing is written to `stop`.
pub fn run_until_done(root: &Path, lock: File, stop: Arc<OwnedFd>, proxies: &Proxies, spawn: &Spawn) {
    let lock = Arc::new(lock);
    loop {
        let Ok(parting) = EventFd::from_flags(EfdFlags::EFD_CLOEXEC) else {
            match wait(stop.as_fd(), PollFlags::POLLIN, ROUND, stop.as_fd()) {
                Ok(_) => continue,
                Err(_) => return,
            }
        };
        let parting = Arc::new(OwnedFd::from(parting));
        let shared = Shared::new(root, &lock, &parting, proxies);
        let ended = shared.work(spawn, Ends::WhenDone, &stop);
        shared.end_couriers();
        if ended == Ended::Told {
            return Holder::tell(&lock);
        }
        if is_done(root, &lock) {
            return;
        }
    }
}

/// Whether no delivery needs a shipper; then the lock is free. A start that came meanwhile, and found the lock taken, is seen
/// by the second look: its container lives before it looks for the lock.
fn is_done(root: &Path, lock: &File) -> bool {
    is_void(lock) || lock.unlock().is_err() || !is_needed(root) || lock.try_lock().is_err()
}

/// Whether the lock's file was removed. Then it locks nothing any more: the next shipper of the root makes another one.
fn is_void(lock: &File) -> bool {
    lock.metadata().is_ok_and(|facts| facts.nlink() == 0)
}

/// When a shipper ends by itself.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ends {
    WhenTold,
    WhenDone,
}

/// Why a shipper's work ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    Told,
    Done,
}

/// Whether a shipper of this root has work, or will have some: a container runs whose log is delivered, something is owed, or
/// a log plugin was not told to leave.
pub fn is_needed(root: &Path) -> bool {
    let plans = || outbox::ids(root).into_iter().filter_map(|id| outbox_plan(root, &id));
    plans().any(|(entry, plan)| entry.has_monitor(plan.slot) || net::has_left_stream(&entry.own))
        || plans().any(|(entry, plan)| entry.owes(&plan).unwrap_or(true))
}

/// The plan of a delivery, if this version knows how to follow it.
fn outbox_plan(root: &Path, id: &str) -> Option<(Entry, Plan)> {
    let entry = Entry::new(root, id);
    let plan = entry.plan()?;
    Driver::of(&plan, &entry.plan_path()).ok().map(|_| (entry, plan))
}

impl Shared {
    fn new(root: &Path, lock: &Arc<File>, stop: &Arc<OwnedFd>, proxies: &Proxies) -> Arc<Shared> {
        let (stop, lock, proxies) = (Arc::clone(stop), Arc::clone(lock), proxies.clone());
        Arc::new(Shared { root: root.to_owned(), stop, lock, proxies, known: Mutex::default() })
    }

    /// Gives deliveries to couriers, until `told` is readable.
    fn work(self: &Arc<Shared>, spawn: &Spawn, ends: Ends, told: &OwnedFd) -> Ended {
        let mut couriers = BTreeMap::new();
        let outbox = outbox::directory(&self.root);
        // A start makes it otherwise; a watch needs it before.
        let _ = DirBuilder::new().recursive(true).mode(0o700).create(&outbox);
        let watch = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK).ok();
        let mut is_watched = false;
        loop {
            if let Some(watch) = watch.as_ref().filter(|_| !is_watched) {
                let what = AddWatchFlags::IN_CREATE | AddWatchFlags::IN_MOVED_TO;
                is_watched = watch.add_watch(&outbox, what).is_ok();
            }
            for id in outbox::ids(&self.root) {
                self.take_on(&id, &mut couriers, spawn);
            }
            self.bound(&outbox);
            if ends == Ends::WhenDone && (is_void(&self.lock) || !is_needed(&self.root)) {
                return Ended::Done;
            }
            let fd = watch.as_ref().map_or(told.as_fd(), AsFd::as_fd);
            if wait(fd, PollFlags::POLLIN, round(ends, is_watched), told.as_fd()).is_err() {
                return Ended::Told;
            }
            // A directory that is gone takes its watch along.
            is_watched &= watch.as_ref().is_none_or(|watch| {
                let events = watch.read_events().unwrap_or_default();
                events.iter().all(|event| !event.mask.contains(AddWatchFlags::IN_IGNORED))
            });
        }
    }

    /// Lets the couriers end, and waits for them. One that takes too long ends without this.
    fn end_couriers(self: &Arc<Shared>) {
        // The counter of an event has room for a one: this does not fail.
        let _ = nix::unistd::write(&*self.stop, &1_u64.to_ne_bytes());
        let until = Instant::now() + PARTING.0;
        // Each courier's thread has a share of this.
        while Arc::strong_count(self) > 1 && Instant::now() < until {
            std::thread::sleep(PARTING.1);
        }
    }
}

/// How long a shipper waits before it looks again.
fn round(ends: Ends, is_watched: bool) -> Duration {
    match (ends, is_watched) {
        (_, false) => ROUNDS.1,
        (Ends::WhenTold, true) => ROUNDS.0,
        (Ends::WhenDone, true) => IDLE,
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
        let driver = plan.as_ref().and_then(|plan| Driver::of(plan, &entry.plan_path()).ok());
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
        let (shared, own, courier) =
            (Arc::clone(self), Arc::clone(&inbox), Courier::new(to.clone(), self.proxies.clone()));
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
                Err(_) => return,
            }
            let _ = inbox.wake.read();
        }
    }

    /// Drops the oldest logs of removed containers beyond the bounds, and counts their lines.
    fn bound(&self, outbox: &Path) {
        let mut orphans: Vec<(SystemTime, u64, String)> = Vec::new();
        for id in outbox::ids(&self.root) {
            let entry = Entry::new(&self.root, &id);
            if entry.is_orphan()
                && let Ok(facts) = entry.own.metadata()
            {
                orphans.push((facts.modified().unwrap_or(SystemTime::UNIX_EPOCH), size(&entry.own), id));
            }
        }
        let most = Bounds::read(&self.root);
        orphans.sort();
        let mut sum: u64 = orphans.iter().map(|(_, size, _)| size).sum();
        for (since, size, id) in orphans {
            let is_old = since.elapsed().is_ok_and(|age| age > most.age);
            if sum <= most.bytes && !is_old {
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
