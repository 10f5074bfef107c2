//! Attributes of mounts, set in one of two ways.
//!
//! mount_setattr(2) takes detached mounts, so a mount has its attributes before it has a place. Kernels without that call change
//! attached mounts alone, by mount(2) and one at a time: there the mount gets its place first. The mount namespace is still this
//! process's own then, so nothing of the container sees a mount between the two calls. The plan says which way it is
//! ([`FLAG_REMOUNT`]).

use crate::fault::{Outcome, Step, detailed, errno, os};
use crate::ops::Plan;
use crate::overlay::by_descriptor;
use crate::remount::{self, Table};
use crate::sys::{self, *};
use crate::wire::*;

const MS_REC: u32 = 1 << 14;

/// The most mounts below one whose attributes are set with it.
const MOST_BELOW: usize = 2048;

/// Attributes of a mount that change.
#[derive(Clone, Copy)]
pub struct Change {
    /// `MOUNT_ATTR_*` that are set.
    pub set: u64,
    /// `MOUNT_ATTR_*` that are cleared.
    pub clear: u64,
    /// `MS_*`; 0 leaves it.
    pub propagation: u32,
    /// The mounts below change, too.
    pub below: bool,
}

impl Change {
    /// Changes nothing.
    pub const NONE: Change = Change { set: 0, clear: 0, propagation: 0, below: false };
    /// Read-only.
    pub const READ_ONLY: Change = Change { set: MOUNT_ATTR_RDONLY, ..Change::NONE };
    /// Read-only, with the mounts below.
    pub const READ_ONLY_BELOW: Change = Change { below: true, ..Change::READ_ONLY };

    fn is_none(self) -> bool {
        self.set | self.clear == 0 && self.propagation == 0
    }
}

/// How attributes are set.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// By mount_setattr(2).
    Call,
    /// By mount(2).
    Remount,
}

impl Way {
    /// The way that the plan says.
    pub fn of(plan: Plan) -> Way {
        match plan.header().is_some_and(|header| header.flags & FLAG_REMOUNT != 0) {
            true => Way::Remount,
            false => Way::Call,
        }
    }

    /// Gives a detached mount its place by `attach`, and changes its attributes: before that if the kernel can.
    pub fn attach(self, mount: i32, changes: &[Change], attach: impl FnOnce() -> Step) -> Step {
        let change = || changes.iter().try_for_each(|change| self.change(mount, *change));
        match self {
            Way::Call => change().and_then(|()| attach()),
            Way::Remount => attach().and_then(|()| change()),
        }
    }

    /// Changes the attributes of a mount, which must be attached unless [`Way::Call`] is the way.
    pub fn change(self, mount: i32, change: Change) -> Step {
        if change.is_none() {
            return Ok(());
        }
        let Change { set, clear, propagation, below } = change;
        match self {
            Way::Call => os(sys::mount_setattr(mount, below, set, clear, u64::from(propagation))),
            Way::Remount => remount(mount, change),
        }
    }
}

fn remount(mount: i32, change: Change) -> Step {
    let mut buffer = [0; 40];
    let path = by_descriptor(mount, &mut buffer);
    if change.set | change.clear != 0 {
        let flags = remount::flags(os(sys::fs_flags(mount))?, change.set, change.clear);
        os(sys::remount(path, flags | remount::REMOUNT))?;
        if change.below {
            each_below(mount, Change { propagation: 0, below: false, ..change })?;
        }
    }
    match change.propagation {
        0 => Ok(()),
        kind => os(sys::mount_propagation(path, kind | if change.below { MS_REC } else { 0 })),
    }
}

/// Changes the mounts below one, which the table of this mount namespace names. A mount that another one hides cannot be
/// reached: it counts as changed if the other one stands at the same place, because nobody else can reach it either.
fn each_below(top: i32, change: Change) -> Step {
    let table = os(sys::openat(AT_FDCWD, b"/proc/self/mountinfo\0", O_RDONLY, 0))?;
    let done = walk(table, top, change);
    sys::close(table);
    done
}

fn walk(table: i32, top: i32, change: Change) -> Step {
    let mut below = Below::new(os(sys::mount_of(top))?.0);
    let (mut lines, mut piece) = (Table::new(), [0; 4096]);
    loop {
        let length = os(sys::read(table, &mut piece))?;
        if length == 0 {
            return Ok(());
        }
        for byte in &piece[..length] {
            if lines.push(*byte) && below.takes(&lines)? {
                change_at(top, below.path(&lines)?, u64::from(lines.id()), change)?;
            }
        }
    }
}

/// Changes the mount with this number at a path below another one.
fn change_at(top: i32, path: &[u8], id: u64, change: Change) -> Step {
    let Ok(at) = sys::openat2(top, path, O_PATH, 0, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS) else {
        return Err(hidden());
    };
    let (reached, is_root) = os(sys::mount_of(at))?;
    let done = match reached == id {
        true => remount(at, change),
        false if is_root => Ok(()),
        false => Err(hidden()),
    };
    sys::close(at);
    done
}

fn hidden() -> crate::fault::Fault {
    detailed(EBUSY, DETAIL_HIDDEN_MOUNT)
}

/// The mounts below one, as far as the table was read: a mount stands in the table after the one that it is attached to.
struct Below {
    /// The topmost mount first.
    ids: [u32; MOST_BELOW],
    count: usize,
    /// The place of the topmost mount.
    top: [u8; 4096],
    length: usize,
    /// A path, for the kernel.
    path: [u8; 4096],
}

impl Below {
    fn new(top: u64) -> Below {
        let mut ids = [0; MOST_BELOW];
        ids[0] = top as u32;
        Below { ids, count: 1, top: [0; 4096], length: 0, path: [0; 4096] }
    }

    /// Whether a line of the table is of a mount below.
    fn takes(&mut self, line: &Table) -> Outcome<bool> {
        if line.id() == self.ids[0] {
            let place = line.place();
            self.top[..place.len()].copy_from_slice(place);
            self.length = place.len();
            return Ok(false);
        }
        if !self.ids[..self.count].contains(&line.parent()) {
            return Ok(false);
        }
        *self.ids.get_mut(self.count).ok_or_else(|| errno(E2BIG))? = line.id();
        self.count += 1;
        Ok(true)
    }

    /// The path from the topmost mount to the mount of a line, as a C string.
    fn path(&mut self, line: &Table) -> Outcome<&[u8]> {
        let path = remount::below(line.place(), &self.top[..self.length]).ok_or_else(hidden)?;
        self.path[..path.len()].copy_from_slice(path);
        self.path[path.len()] = 0;
        Ok(&self.path[..=path.len()])
    }
}
