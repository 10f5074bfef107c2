//! The ids of a container's user, by the files of users and groups that the container sees.

use crate::error::{Error, Result};
use crate::kernel::path::{IN_ROOT, openat2};
use crate::walls::Wall;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};

/// The largest file that is read: as the monitor reads them.
const MAX_BYTES: u64 = 10 << 20;

/// The ids of `user[:group]`: numbers as they are, names by the files in `root`. A user without a group has the one of the
/// file, and a number that the file does not have has group 0. Errors: a name that the files do not have.
pub(super) fn ids(root: &OwnedFd, text: &str) -> Result<(u32, u32)> {
    let (user, group) = text.split_once(':').map_or((text, None), |(user, group)| (user, Some(group)));
    let users = lines(root, "/etc/passwd")?;
    let row = row(&users, user);
    let number = |field: usize| row.and_then(|row| row.split(':').nth(field)?.parse().ok());
    let uid = user.parse().ok().or_else(|| number(2));
    let uid = uid.ok_or_else(|| missing("user", user, "passwd"))?;
    let gid = match group.filter(|group| !group.is_empty()) {
        None => number(3).unwrap_or(0),
        Some(group) => group_id(root, group)?,
    };
    Ok((uid, gid))
}

fn group_id(root: &OwnedFd, group: &str) -> Result<u32> {
    if let Ok(id) = group.parse() {
        return Ok(id);
    }
    let groups = lines(root, "/etc/group")?;
    let id = row(&groups, group).and_then(|row| row.split(':').nth(2)?.parse().ok());
    id.ok_or_else(|| missing("group", group, "group"))
}

fn missing(what: &str, name: &str, file: &str) -> Error {
    Error::invalid(format!("unable to find {what} {name}: no matching entries in {file} file"))
}

/// The first row of a name, or of a number.
fn row<'a>(text: &'a str, user: &str) -> Option<&'a str> {
    let named = text.lines().find(|row| row.split(':').next() == Some(user));
    named.or_else(|| text.lines().find(|row| user.parse::<u32>().is_ok() && row.split(':').nth(2) == Some(user)))
}

/// The text of a file; empty if there is none. It is the container's: neither a pipe nor a device may hold the caller up.
fn lines(root: &OwnedFd, path: &str) -> Result<String> {
    let flags = libc::O_RDONLY | libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = match openat2(root.as_fd(), path, flags, 0, IN_ROOT) {
        Err(error) if error.is(libc::ENOENT) => return Ok(String::new()),
        file => File::from(file?),
    };
    let failed = |e: std::io::Error| Error::io(format_args!("read {path}"), &e);
    let meta = file.metadata().map_err(failed)?;
    if Wall::UserFiles.stands() && (!meta.is_file() || meta.len() > MAX_BYTES) {
        return Err(Error::invalid(format!("{path} of the container must be a regular file of at most 10 MiB")));
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut bytes).map_err(failed)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
