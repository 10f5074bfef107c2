//! The user that a process runs as: names looked up in the container's own passwd and group files.
//!
//! The files belong to the image: only regular files of bounded size are opened, inside the root, and read whole.
//! `src/users.rs` finds the entries in them.

use crate::fault::{Fault, Outcome, detailed, errno, os};
use crate::ops::List;
use crate::sys::{self, *};
use crate::users::{self, Bad};
use crate::walls::Wall;
use crate::wire::*;

/// The most groups that setgroups(2) takes (`NGROUPS_MAX`); more are refused.
const MAX_GROUPS: usize = 65536;
const MAX_FILE: u64 = 10 << 20;

pub struct Identity {
    pub uid: u32,
    pub gid: u32,
    /// Room for the most groups that there can be: fresh memory takes nothing until it is written.
    pub groups: &'static mut [u32],
    pub group_count: usize,
    pub home: [u8; 1024],
    pub home_length: usize,
}

/// Resolves `user[:group]` and additional groups.
///
/// The rules are those of other engines: digits are always a number; a name must be in the file, a number need not be;
/// the groups that list the user count unless the request names a group.
pub fn resolve(root: i32, spec: &[u8], more: List<&[u8]>) -> Outcome<Identity> {
    let mut identity = Identity {
        uid: 0,
        gid: 0,
        groups: os(sys::map_slice(MAX_GROUPS))?,
        group_count: 0,
        home: [0; 1024],
        home_length: 0,
    };
    let mut parts = spec.splitn(2, |&b| b == b':');
    let user = parts.next().unwrap_or(b"");
    let group = parts.next().unwrap_or(b"");
    let passwd = read_file(root, b"etc/passwd\0")?;
    let groups = read_file(root, b"etc/group\0")?;
    let found = users::user(user, passwd).map_err(|bad| failure_of(&bad, DETAIL_NO_USER, 0))?;
    (identity.uid, identity.gid) = (found.uid, found.gid);
    if let Some(place) = identity.home.get_mut(..found.home.len()) {
        place.copy_from_slice(found.home);
        identity.home_length = found.home.len();
    }
    if group.is_empty() && Wall::UserGroups.stands() {
        for gid in users::groups_of(found.name, groups) {
            identity.insert(gid)?;
        }
    } else if !group.is_empty() {
        identity.gid = group_id(group, groups, 0)?;
    }
    let primary = identity.gid;
    identity.insert(primary)?;
    for (group, index) in more.iter().zip(1..) {
        let gid = group_id(group, groups, index)?;
        identity.insert(gid)?;
    }
    identity.each_once();
    if identity.home_length == 0 {
        identity.home[0] = b'/';
        identity.home_length = 1;
    }
    Ok(identity)
}

fn group_id(group: &[u8], groups: &[u8], index: u32) -> Outcome<u32> {
    users::group(group, groups).map_err(|bad| failure_of(&bad, DETAIL_NO_GROUP, index))
}

/// `missing`, with `extra`: the detail if the name is not in the file.
fn failure_of(bad: &Bad, missing: u32, extra: u32) -> Fault {
    match bad {
        Bad::Missing => Fault::new(0, missing, extra),
        Bad::Range => detailed(ERANGE, DETAIL_BAD_ID),
        Bad::Entry => detailed(0, DETAIL_BAD_ID),
    }
}

impl Identity {
    fn insert(&mut self, gid: u32) -> Outcome<()> {
        if self.group_count == self.groups.len() {
            self.each_once();
        }
        let slot = self.groups.get_mut(self.group_count).ok_or_else(|| errno(E2BIG))?;
        *slot = gid;
        self.group_count += 1;
        Ok(())
    }

    /// Sorts the groups, as the kernel will, and drops doubles.
    fn each_once(&mut self) {
        self.group_count = crate::group_list::each_once(&mut self.groups[..self.group_count]);
    }
}

/// Reads a file of the image. A missing file counts as empty.
fn read_file(root: i32, path: &[u8]) -> Outcome<&'static [u8]> {
    const RESOLVE: u64 = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
    let bad = detailed(EINVAL, DETAIL_BAD_USER_FILE);
    // The type is checked before the file is opened for reading, because opening a fifo or a device can have effects.
    let look = match sys::openat2(root, path, O_PATH, 0, RESOLVE) {
        Ok(fd) => fd,
        Err(ENOENT | ENOTDIR) => return Ok(b""),
        Err(error) => return Err(errno(error)),
    };
    let stat = os(sys::fstat(look))?;
    sys::close(look);
    if (stat.mode & S_IFMT, stat.rdev_major, stat.rdev_minor) == (S_IFCHR, 1, 3) {
        // The file is masked: the container sees an empty file.
        return Ok(b"");
    }
    if (stat.mode & S_IFMT != S_IFREG || stat.size > MAX_FILE) && Wall::UserFiles.stands() {
        return Err(bad);
    }
    if stat.size == 0 {
        return Ok(b"");
    }
    let file = os(sys::openat2(root, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0, RESOLVE))?;
    let memory = os(sys::map_memory(stat.size as usize))?;
    let mut length = 0;
    while length < memory.len() {
        match sys::read(file, &mut memory[length..]) {
            Ok(0) => break,
            Ok(n) => length += n,
            Err(EINTR) => {}
            Err(error) => return Err(errno(error)),
        }
    }
    sys::close(file);
    Ok(&memory[..length])
}
