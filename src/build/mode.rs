//! The permissions of `--chmod`: octal digits, or the words of chmod (`u=rwX,go-w`).

use crate::error::{Error, Result};

/// Permissions that copies get.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Mode {
    Digits(u32),
    Words(Vec<Change>),
}

/// One change, as `go-w`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Change {
    /// The digits of those whom it is about: 0o700 for the owner.
    who: u32,
    operator: char,
    /// Bits for all of them.
    bits: u32,
    /// Execution of directories, and of files that somebody may execute.
    conditional: bool,
}

const SET_UID: u32 = 0o4000;
const SET_GID: u32 = 0o2000;
const STICKY: u32 = 0o1000;

impl Mode {
    /// Reads the flag; `None`: it is empty.
    pub(super) fn read(text: &str) -> Result<Option<Mode>> {
        if text.is_empty() {
            return Ok(None);
        }
        if text.starts_with(|c: char| c.is_ascii_digit()) {
            let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o7777);
            return mode.map(|mode| Some(Mode::Digits(mode))).ok_or_else(|| wrong(text));
        }
        let mut changes = Vec::new();
        for clause in text.split(',') {
            changes.extend(Change::read_all(clause).ok_or_else(|| wrong(text))?);
        }
        Ok(Some(Mode::Words(changes)))
    }

    /// The permissions of a copy of a file with the mode `before`.
    pub(super) fn of(&self, before: u32) -> u32 {
        let is_dir = before & libc::S_IFMT == libc::S_IFDIR;
        match self {
            Mode::Digits(mode) => *mode,
            Mode::Words(changes) => changes.iter().fold(before & 0o7777, |mode, change| change.of(mode, is_dir)),
        }
    }

    /// The permissions of directories that are made on the way.
    pub(super) fn of_way(&self) -> u32 {
        match self {
            Mode::Digits(mode) => mode & 0o777,
            Mode::Words(_) => 0o755,
        }
    }
}

impl Change {
    /// The changes of a clause: for whom, then operators with their permissions.
    fn read_all(clause: &str) -> Option<Vec<Change>> {
        let from = clause.find(['+', '-', '='])?;
        let (whom, mut rest) = clause.split_at(from);
        let mut who = if whom.is_empty() { 0o777 } else { 0 };
        for c in whom.chars() {
            who |= match c {
                'u' => 0o700,
                'g' => 0o070,
                'o' => 0o007,
                'a' => 0o777,
                _ => return None,
            };
        }
        let mut changes = Vec::new();
        while let Some(operator) = rest.chars().next() {
            let end = rest[1..].find(['+', '-', '=']).map_or(rest.len(), |at| at + 1);
            let (mut bits, mut conditional) = (0, false);
            for c in rest[1..end].chars() {
                match c {
                    'r' => bits |= who & 0o444,
                    'w' => bits |= who & 0o222,
                    'x' => bits |= who & 0o111,
                    'X' => conditional = true,
                    's' => {
                        bits |= if who & 0o700 > 0 { SET_UID } else { 0 } | if who & 0o070 > 0 { SET_GID } else { 0 }
                    }
                    't' => bits |= STICKY,
                    _ => return None,
                }
            }
            changes.push(Change { who, operator, bits, conditional });
            rest = &rest[end..];
        }
        Some(changes)
    }

    fn of(&self, mode: u32, is_dir: bool) -> u32 {
        let executes = self.conditional && (is_dir || mode & 0o111 > 0);
        let bits = self.bits | if executes { self.who & 0o111 } else { 0 };
        match self.operator {
            '+' => mode | bits,
            '-' => mode & !bits,
            _ => mode & !self.who | bits,
        }
    }
}

fn wrong(text: &str) -> Error {
    Error::invalid(format!("invalid chmod parameter: '{text}'. it should be octal string and between 0 and 07777"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_and_words() {
        for (text, before, want) in [
            ("4755", 0o600, 0o4755),
            ("u=rwX,go=rX", 0o100600, 0o644),
            ("u=rwX,go=rX", 0o100700, 0o755),
            ("u=rwX,go=rX", 0o040700, 0o755),
            ("a+x,g-r", 0o100644, 0o715),
            ("+w", 0o100444, 0o666),
            ("u+s-x", 0o100755, 0o4655),
            ("o=", 0o100777, 0o770),
            ("+t", 0o040777, 0o1777),
        ] {
            assert_eq!(Mode::read(text).unwrap().unwrap().of(before), want, "{text}");
        }
        assert_eq!(Mode::read("").unwrap(), None);
        for text in ["rwx", "77777", "99", "u=q", "u", "x+r", "0x7"] {
            assert!(Mode::read(text).is_err(), "{text}");
        }
    }
}
