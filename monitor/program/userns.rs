//! A container's user namespace, made before its first process. A helper process makes it, and the namespaces that are
//! to belong to it. Their descriptors keep them when the helper has ended.
//!
//! The first process stays outside until its mounts, devices and interfaces are made, joins what belongs to the user
//! namespace one by one, and enters the user namespace itself as its last privileged step ([`crate::child`]).

use crate::failure::{Outcome, of_step};
use crate::fd::Fd;
use crate::ops::{Plan, UserMap};
use crate::sys::{self, *};
use crate::wire::*;

/// Descriptors of namespaces, and their kinds.
pub struct Made {
    pub user: Fd,
    pub others: [(Fd, u64); 3],
}

impl Made {
    /// None at all.
    pub const NONE: Made = Made { user: Fd::NONE, others: [const { (Fd::NONE, 0) }; 3] };
}

const KINDS: [(u64, &[u8]); 3] =
    [(CLONE_NEWNET, b"/ns/net\0"), (CLONE_NEWUTS, b"/ns/uts\0"), (CLONE_NEWIPC, b"/ns/ipc\0")];

/// Makes the user namespace that the plan describes, and the namespaces that are to belong to it; without such an
/// operation there is none. A network namespace that goes on (`net`) belongs to the user namespace `user`, which goes
/// on with it.
pub fn make_for(plan: Plan, namespaces: &[Fd; MAX_FDS], (net, user): (i32, i32)) -> Outcome<Made> {
    let Some((step, op)) = plan.each::<UserMap>().next() else { return Ok(Made::NONE) };
    let again = net >= 0;
    let kinds = u64::from(op.namespaces) & if again { !CLONE_NEWNET } else { !0 };
    let joined = match op.join {
        _ if again => user,
        Some(index) => namespaces[index as usize % MAX_FDS].raw(),
        None => -1,
    };
    make(kinds, joined, (op.uids, op.gids)).map_err(|errno| of_step(step, errno))
}

fn make(kinds: u64, joined: i32, maps: (&[u8], &[u8])) -> Result<Made> {
    let [talk, own] = sys::socketpair()?.map(Fd::new);
    let (pid, pidfd) = match sys::fork(0, None)? {
        (0, _) => helper(kinds, joined, own.raw()),
        (pid, pidfd) => (pid, Fd::new(pidfd)),
    };
    drop((own, pidfd));
    let made = collect(pid, talk.raw(), kinds, (joined < 0).then_some(maps));
    // The helper ends when the monitor's end of the socket is closed.
    drop(talk);
    sys::wait_for(pid);
    made
}

fn collect(pid: i32, talk: i32, kinds: u64, new: Option<(&[u8], &[u8])>) -> Result<Made> {
    heard(talk)?;
    if let Some((uids, gids)) = new {
        write_map(pid, b"/uid_map\0", uids)?;
        write_map(pid, b"/gid_map\0", gids)?;
    }
    sys::write_all(talk, b"go")?;
    heard(talk)?;
    let mut made = Made { user: Fd::new(open_of(pid, b"/ns/user\0", O_RDONLY)?), ..Made::NONE };
    for (place, (kind, name)) in made.others.iter_mut().zip(KINDS).filter(|(_, (kind, _))| kinds & kind != 0) {
        *place = (Fd::new(open_of(pid, name, O_RDONLY)?), kind);
    }
    Ok(made)
}

/// Waits until the helper has done its step. An error, or its end: the step failed.
fn heard(talk: i32) -> Result<()> {
    let mut word = [0u8; 4];
    match sys::read(talk, &mut word)? {
        4 => match i32::from_ne_bytes(word) {
            0 => Ok(()),
            error => Err(error),
        },
        _ => Err(EIO),
    }
}

fn write_map(pid: i32, file: &[u8], text: &[u8]) -> Result<()> {
    let map = Fd::new(open_of(pid, file, O_WRONLY)?);
    sys::write_all(map.raw(), text)
}

/// A file of `/proc/PID`.
pub fn open_of(pid: i32, file: &[u8], flags: u32) -> Result<i32> {
    let mut path = [0u8; 40];
    path[..6].copy_from_slice(b"/proc/");
    let length = 6 + crate::text::decimal(&mut path[6..], i64::from(pid)).len();
    path[length..length + file.len()].copy_from_slice(file);
    sys::openat(AT_FDCWD, &path[..length + file.len()], flags, 0)
}

/// Never returns.
fn helper(kinds: u64, joined: i32, talk: i32) -> ! {
    let say = |done: Result<()>| {
        let word = done.err().unwrap_or(0);
        if sys::write_all(talk, &word.to_ne_bytes()).is_err() || word != 0 {
            sys::exit(1)
        }
    };
    // A process in a namespace that is joined must not find the monitor's descriptors here.
    let (low, high) = (talk.min(joined), talk.max(joined));
    if low > 0 {
        let _ = sys::close_range(0, low as u32 - 1, 0);
        let _ = sys::close_range(low + 1, (high - 1).max(low) as u32, 0);
    } else {
        let _ = sys::close_range(0, high as u32 - 1, 0);
    }
    let _ = sys::close_range(high + 1, u32::MAX, 0);
    say(if joined >= 0 { sys::setns(joined, CLONE_NEWUSER) } else { sys::unshare(CLONE_NEWUSER) });
    let mut word = [0u8; 2];
    let _ = sys::read(talk, &mut word);
    say(if kinds != 0 { sys::unshare(kinds) } else { Ok(()) });
    // Waits until the monitor has opened the namespaces.
    let _ = sys::read(talk, &mut word);
    sys::exit(0)
}
