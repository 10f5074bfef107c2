//! One thread of the engine follows the ends of containers with `AutoRemove`, as long as there are such containers.

use crate::container::{Containers, Fate, Snapshot};
use crate::error::Result;
use crate::kernel::fd::{eventfd, eventfd_signal, poll};
use crate::kernel::thread;
use crate::launch::monitor::Control;
use parking_lot::Mutex;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// How often, and for how long, a container that has ended is tried again while another call holds its lock. After
/// that, the next look at it removes it.
const AGAIN: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_secs(60);

/// The containers of one engine that are followed. Dropping it ends the following.
pub(crate) struct Reaper(Arc<Shared>);

struct Shared {
    list: Mutex<List>,
    /// Readable when the list has changed.
    turn: OwnedFd,
}

#[derive(Default)]
struct List {
    new: Vec<Followed>,
    /// A thread follows.
    works: bool,
    over: bool,
}

struct Followed {
    id: String,
    /// The connection on which the end will be reported; absent: the container has ended.
    control: Option<Control>,
    /// The time at which the thread gives it up, once it has ended.
    until: Option<Instant>,
}

impl Drop for Reaper {
    fn drop(&mut self) {
        self.0.list.lock().over = true;
        eventfd_signal(self.0.turn.as_fd());
    }
}

impl Reaper {
    pub(super) fn new() -> Result<Reaper> {
        Ok(Reaper(Arc::new(Shared { list: Mutex::default(), turn: eventfd()? })))
    }

    /// Follows a container that runs, or has just ended. If that is impossible, the next look at the container removes
    /// it.
    pub(super) fn follow(&self, all: &Arc<Containers>, found: &Snapshot) {
        let Ok(control) = all.waits.follow_end(found) else { return };
        let mut list = self.0.list.lock();
        list.new.push(Followed { id: found.row.id.clone(), control, until: None });
        if list.works {
            return eventfd_signal(self.0.turn.as_fd());
        }
        // A weak reference: followed containers must not keep the engine open.
        let (shared, all) = (Arc::clone(&self.0), Arc::downgrade(all));
        match thread::spawn_worker("coracle-reaper", move || work(&shared, &all)) {
            Ok(()) => list.works = true,
            Err(_) => list.new.clear(),
        }
    }
}

fn work(shared: &Shared, all: &Weak<Containers>) {
    let mut followed: Vec<Followed> = Vec::new();
    loop {
        let mut list = shared.list.lock();
        followed.append(&mut list.new);
        if list.over || followed.is_empty() {
            list.works = false;
            return;
        }
        drop(list);
        if let Err(_gone) = look(shared, &mut followed) {
            shared.list.lock().works = false;
            return;
        }
        let Some(all) = all.upgrade() else { return };
        followed.retain_mut(|one| one.control.is_some() || stays(&all, one));
    }
}

/// Waits until one of the containers ends, or the list changes.
fn look(shared: &Shared, followed: &mut [Followed]) -> Result<()> {
    let mut set = vec![(shared.turn.as_raw_fd(), libc::POLLIN)];
    let running: Vec<usize> = (0..followed.len()).filter(|&at| followed[at].control.is_some()).collect();
    set.extend(running.iter().filter_map(|&at| Some((followed[at].control.as_ref()?.as_raw_fd(), libc::POLLIN))));
    // The containers that have ended: at once, if one was not tried yet.
    let pauses = followed.iter().filter(|one| one.control.is_none());
    let pause = pauses.map(|one| if one.until.is_none() { Duration::ZERO } else { AGAIN }).min();
    let ready = poll(&set, pause.map_or(-1, |pause| pause.as_millis() as i32))?;
    if ready.first().is_some_and(|turn| *turn != 0) {
        let mut count = [0; 8];
        let _ = nix::unistd::read(&shared.turn, &mut count);
    }
    for (at, _) in running.iter().zip(ready.iter().skip(1)).filter(|(_, ready)| **ready != 0) {
        // The monitor reported the end, or is gone.
        followed[*at].control = None;
    }
    Ok(())
}

/// Removes a container that has ended; returns whether to try again.
fn stays(all: &Containers, one: &mut Followed) -> bool {
    let until = *one.until.get_or_insert_with(|| Instant::now() + PATIENCE);
    matches!(all.finder.reap_ended(&one.id), Ok(Fate::Busy)) && Instant::now() < until
}
