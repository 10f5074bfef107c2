//! Files of users and groups as an image has them: the user and the groups of a request. Bytes alone; `program/user.rs`
//! reads the files.
//!
//! The rules are those of other engines: digits are always a number; a name must be in the file, a number need not be.

use crate::walls::Wall;

/// A user: an entry of the file, or a number that the file does not have.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct UserEntry<'a> {
    pub uid: u32,
    pub gid: u32,
    /// Name and home are empty if the file has no entry.
    pub name: &'a [u8],
    pub home: &'a [u8],
}

#[derive(Debug, PartialEq, Eq)]
pub enum Bad {
    /// The name is not in the file.
    Missing,
    /// A number of more than 31 bits.
    Range,
    /// The file's entry has no number where one belongs.
    Entry,
}

/// Looks `user` up: a name, a number, or nothing for root.
pub fn user<'a>(user: &[u8], passwd: &'a [u8]) -> Result<UserEntry<'a>, Bad> {
    let named = !Wall::UserNumbers.stands() && lines(passwd).any(|line| field(line, 0) == user);
    let wanted = match user.is_empty() {
        true => Some(0),
        false if named => None,
        false => number(user)?,
    };
    let entry = lines(passwd).find(|line| match wanted {
        Some(uid) => number(field(line, 2)) == Ok(Some(uid)),
        None => field(line, 0) == user,
    });
    let Some(line) = entry else {
        return wanted.map(|uid| UserEntry { uid, ..UserEntry::default() }).ok_or(Bad::Missing);
    };
    let id = |index| number(field(line, index)).ok().flatten().ok_or(Bad::Entry);
    Ok(UserEntry { uid: id(2)?, gid: id(3)?, name: field(line, 0), home: field(line, 5) })
}

/// The number of a group: a name, or a number.
pub fn group(group: &[u8], groups: &[u8]) -> Result<u32, Bad> {
    if let Some(gid) = number(group)? {
        return Ok(gid);
    }
    lines(groups)
        .find(|line| field(line, 0) == group)
        .and_then(|line| number(field(line, 2)).ok().flatten())
        .ok_or(Bad::Missing)
}

/// The groups that list a user. A damaged line of the file grants nothing.
pub fn groups_of(name: &[u8], groups: &[u8]) -> impl Iterator<Item = u32> {
    lines(groups).filter(move |line| lists(line, name)).filter_map(|line| number(field(line, 2)).ok().flatten())
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|&b| b == b'\n').filter(|line| !line.is_empty() && line[0] != b'#')
}

fn field(line: &[u8], index: usize) -> &[u8] {
    line.split(|&b| b == b':').nth(index).unwrap_or(b"")
}

fn lists(line: &[u8], name: &[u8]) -> bool {
    !name.is_empty() && field(line, 3).split(|&b| b == b',').any(|member| member == name)
}

/// Digits as an id of at most 31 bits; `None` if the text is not a number. A number below 0 is out of range.
fn number(text: &[u8]) -> Result<Option<u32>, Bad> {
    if let Some(digits) = text.strip_prefix(b"-")
        && !digits.is_empty()
        && digits.iter().all(u8::is_ascii_digit)
        && digits.iter().any(|&digit| digit != b'0')
    {
        return Err(Bad::Range);
    }
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return Ok(None);
    }
    let digits = text.iter().map(|digit| u64::from(digit - b'0'));
    let value = digits.fold(0u64, |value, digit| value.saturating_mul(10).saturating_add(digit));
    match value > i32::MAX as u64 && Wall::UserNumbers.stands() {
        true => Err(Bad::Range),
        false => Ok(Some(value as u32)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &[u8] =
        b"# users\nroot:x:0:0:root:/root:/bin/sh\n\ngames:x:5:60::/usr/games:\nbad:x:no:1::/\n7:x:8:9::/n:\n";
    const GROUPS: &[u8] = b"root:x:0:\nwheel:x:10:root,games\naudio:x:29:games\nbad:x:no:games\n#off:x:1:games\n";

    #[test]
    fn a_user_is_found_by_name_or_number() {
        let root = UserEntry { uid: 0, gid: 0, name: b"root", home: b"/root" };
        assert_eq!(user(b"root", PASSWD), Ok(UserEntry { ..root }));
        assert_eq!(user(b"0", PASSWD), Ok(UserEntry { ..root }));
        assert_eq!(user(b"", PASSWD), Ok(root));
        assert_eq!(user(b"games", PASSWD), Ok(UserEntry { uid: 5, gid: 60, name: b"games", home: b"/usr/games" }));
    }

    #[test]
    fn digits_are_a_number_and_need_no_entry() {
        // Not the user of that name.
        assert_eq!(user(b"7", PASSWD), Ok(UserEntry { uid: 7, ..UserEntry::default() }));
        assert_eq!(user(b"2147483647", b""), Ok(UserEntry { uid: i32::MAX as u32, ..UserEntry::default() }));
        for text in [&b"2147483648"[..], b"99999999999999999999", b"-1"] {
            assert_eq!(user(text, PASSWD), Err(Bad::Range));
            assert_eq!(group(text, GROUPS), Err(Bad::Range));
        }
    }

    #[test]
    fn a_name_without_a_whole_entry_is_refused() {
        assert_eq!(user(b"nobody", PASSWD), Err(Bad::Missing));
        assert_eq!(user(b"# users", PASSWD), Err(Bad::Missing));
        assert_eq!(user(b"bad", PASSWD), Err(Bad::Entry));
        assert_eq!((group(b"nobody", GROUPS), group(b"bad", GROUPS)), (Err(Bad::Missing), Err(Bad::Missing)));
        assert_eq!((group(b"wheel", GROUPS), group(b"77", GROUPS)), (Ok(10), Ok(77)));
    }

    #[test]
    fn a_user_has_the_groups_that_list_the_name() {
        let of = |name: &[u8]| groups_of(name, GROUPS).collect::<Vec<u32>>();
        assert_eq!(of(b"games"), [10, 29], "a damaged line and a comment grant nothing");
        assert_eq!(of(b"root"), [10]);
        assert!(of(b"game").is_empty() && of(b"").is_empty());
    }
}
