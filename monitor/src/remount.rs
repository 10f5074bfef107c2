//! A change of a mount's attributes by mount(2), for kernels without mount_setattr(2): that call replaces all flags of one
//! attached mount, so the flags that stay are repeated, and the mounts below are found in the table of mounts.
//!
//! This file is compiled twice: into the library and into the `no_std` monitor.

/// `MOUNT_ATTR_*` of access times, which exclude each other.
const ATTR_ATIMES: u64 = 0x70;
const ATTR_STRICTATIME: u64 = 0x20;
/// `MOUNT_ATTR_*`, and the flag of mount(2) that means the same.
const FLAGS: [(u64, u64); 8] = [
    (1, 1),
    (2, 2),
    (4, 4),
    (8, 8),
    (0x10, MS_NOATIME),
    (ATTR_STRICTATIME, MS_STRICTATIME),
    (0x80, MS_NODIRATIME),
    (0x20_0000, MS_NOSYMFOLLOW),
];

const MS_NOSYMFOLLOW: u64 = 0x100;
const MS_NOATIME: u64 = 0x400;
const MS_NODIRATIME: u64 = 0x800;
const MS_RELATIME: u64 = 1 << 21;
const MS_STRICTATIME: u64 = 1 << 24;
const MS_ATIMES: u64 = MS_NOATIME | MS_RELATIME | MS_STRICTATIME;
/// The bits of `f_flags` that mean the same for mount(2): read-only, nosuid, nodev, noexec, noatime, nodiratime.
const SAME: u64 = 0xf | MS_NOATIME | MS_NODIRATIME;
const ST_RELATIME: u64 = 0x1000;
const ST_NOSYMFOLLOW: u64 = 0x2000;

/// MS_REMOUNT and MS_BIND: the flags of one mount are replaced, and its file system stays as it is.
pub const REMOUNT: u64 = 0x20 | 0x1000;

/// The flags for mount(2) of a mount whose `f_flags` (statfs(2)) are `now`, when the `MOUNT_ATTR_*` of `clear` are taken from it and
/// then those of `set` are added. A file system that is read-only as a whole counts as a read-only mount.
pub fn flags(now: u64, set: u64, clear: u64) -> u64 {
    let mut flags = now & SAME;
    flags |= if now & ST_NOSYMFOLLOW != 0 { MS_NOSYMFOLLOW } else { 0 };
    flags |= match now & (MS_NOATIME | ST_RELATIME) {
        0 => MS_STRICTATIME,
        ST_RELATIME => MS_RELATIME,
        _ => 0,
    };
    if (set | clear) & ATTR_ATIMES != 0 {
        flags &= !MS_ATIMES;
        flags |= if set & ATTR_ATIMES == 0 { MS_RELATIME } else { 0 };
    }
    for (attribute, flag) in FLAGS {
        let is_atime = attribute & ATTR_ATIMES != 0;
        if clear & attribute != 0 && !is_atime {
            flags &= !flag;
        }
        if set & attribute != 0 {
            flags |= flag;
        }
    }
    flags
}

/// The most bytes of a path, with its NUL.
const PATH: usize = 4096;

/// Reads `/proc/PID/mountinfo`, byte by byte: `36 35 98:0 / /mnt/a\040name rw,noatime ...`.
pub struct Table {
    field: u32,
    id: u32,
    parent: u32,
    place: [u8; PATH],
    /// May be more than the array holds.
    length: usize,
    /// Digits of an escaped byte that are still to come.
    digits: u32,
}

impl Default for Table {
    fn default() -> Table {
        Table::new()
    }
}

impl Table {
    /// Before the first line.
    pub const fn new() -> Table {
        Table { field: 0, id: 0, parent: 0, place: [0; PATH], length: 0, digits: 0 }
    }

    /// Takes the next byte; true: it ends a line, and the other functions answer about the line's mount.
    pub fn push(&mut self, byte: u8) -> bool {
        if self.field == END {
            (self.field, self.id, self.parent, self.length, self.digits) = (0, 0, 0, 0, 0);
        }
        match (byte, self.field) {
            (b'\n', _) => self.field = END,
            (b' ', _) => self.field += 1,
            (_, 0) => self.id = with_digit(self.id, byte, 10),
            (_, 1) => self.parent = with_digit(self.parent, byte, 10),
            (_, 4) => self.place_byte(byte),
            _ => {}
        }
        self.field == END
    }

    fn place_byte(&mut self, byte: u8) {
        // A backslash and three octal digits stand for a byte that would end the field.
        if self.digits > 0 {
            self.digits -= 1;
            if let Some(last) = self.length.checked_sub(1).and_then(|at| self.place.get_mut(at)) {
                *last = with_digit(u32::from(*last), byte, 8) as u8;
            }
            return;
        }
        let escaped = byte == b'\\';
        if let Some(next) = self.place.get_mut(self.length) {
            *next = if escaped { 0 } else { byte };
        }
        self.digits = if escaped { 3 } else { 0 };
        self.length += 1;
    }

    /// The number of the mount.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// The number of the mount that it is attached to.
    pub fn parent(&self) -> u32 {
        self.parent
    }

    /// The path at which it is attached, below the root of the process that reads the table; empty: the path is too long for any call.
    pub fn place(&self) -> &[u8] {
        self.place.get(..self.length).filter(|place| place.len() < PATH).unwrap_or(b"")
    }
}

/// The field after a line's last one.
const END: u32 = u32::MAX;

fn with_digit(number: u32, digit: u8, base: u32) -> u32 {
    number.wrapping_mul(base).wrapping_add(u32::from(digit.wrapping_sub(b'0')))
}

/// The path of a mount below another one, without the `/` between them. `None`: it is not below.
pub fn below<'a>(place: &'a [u8], top: &[u8]) -> Option<&'a [u8]> {
    match top {
        b"" => None,
        b"/" => place.strip_prefix(b"/"),
        top => place.strip_prefix(top)?.strip_prefix(b"/"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ST_RDONLY: u64 = 1;
    const ST_NOSUID: u64 = 2;
    const ATTR_NOATIME: u64 = 0x10;

    #[test]
    fn flags_that_stay_are_repeated() {
        let now = ST_NOSUID | MS_NODIRATIME | ST_RELATIME | ST_NOSYMFOLLOW;
        assert_eq!(flags(now, 1, 0), 1 | 2 | MS_NODIRATIME | MS_RELATIME | MS_NOSYMFOLLOW);
        assert_eq!(flags(now | ST_RDONLY, 0, 1), 2 | MS_NODIRATIME | MS_RELATIME | MS_NOSYMFOLLOW);
        assert_eq!(flags(ST_RELATIME, 1 | 2 | 4 | 8, 0), 0xf | MS_RELATIME);
        // f_flags of locks and of the file system (ST_VALID, ST_MANDLOCK) mean nothing here.
        assert_eq!(flags(0x20 | 0x40 | ST_RELATIME, 0, 0), MS_RELATIME);
    }

    #[test]
    fn one_mode_of_access_times_replaces_the_other() {
        assert_eq!(flags(MS_NOATIME, 1, 0), 1 | MS_NOATIME);
        assert_eq!(flags(0, 1, 0), 1 | MS_STRICTATIME, "neither flag means strict");
        assert_eq!(flags(ST_RELATIME, ATTR_NOATIME, ATTR_ATIMES), MS_NOATIME);
        assert_eq!(flags(MS_NOATIME, ATTR_STRICTATIME, ATTR_ATIMES), MS_STRICTATIME);
        assert_eq!(flags(MS_NOATIME, 0, ATTR_ATIMES), MS_RELATIME);
        assert_eq!(flags(ST_RELATIME, 0x80 | 0x20_0000, 0), MS_NODIRATIME | MS_NOSYMFOLLOW | MS_RELATIME);
    }

    fn read(text: &[u8]) -> Vec<(u32, u32, Vec<u8>)> {
        let mut table = Table::new();
        let mut lines = Vec::new();
        for byte in text {
            if table.push(*byte) {
                lines.push((table.id(), table.parent(), table.place().to_vec()));
            }
        }
        lines
    }

    #[test]
    fn a_table_is_read_with_its_escapes() {
        let text = b"36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw\n\
            137 36 0:4 / /a\\040b\\134c\\012 ro - tmpfs x\\040y rw\n1 0 0:1 / / rw - rootfs none rw\n9 8 half";
        let lines = [(36, 35, b"/mnt2".to_vec()), (137, 36, b"/a b\\c\n".to_vec()), (1, 0, b"/".to_vec())];
        assert_eq!(read(text), lines);
        let own = std::fs::read("/proc/self/mountinfo").unwrap();
        let lines = own.iter().filter(|byte| **byte == b'\n').count();
        assert!(lines > 0 && read(&own).len() == lines);
    }

    #[test]
    fn a_path_that_is_too_long_is_empty_and_the_next_line_is_whole() {
        let long = |length: usize| format!("1 2 0:1 / /{} rw\n3 4 0:1 / /next rw\n", "n".repeat(length - 1));
        let places = |length| read(long(length).as_bytes()).into_iter().map(|line| line.2).collect::<Vec<_>>();
        assert_eq!(places(4095)[0].len(), 4095);
        assert_eq!(places(4096), [b"".to_vec(), b"/next".to_vec()]);
        assert_eq!(places(70_000), [b"".to_vec(), b"/next".to_vec()]);
    }

    #[test]
    fn a_path_below_another_one_is_told_from_its_neighbours() {
        assert_eq!(below(b"/a/b/c", b"/a/b"), Some(&b"c"[..]));
        assert_eq!(below(b"/a/bc", b"/a/b"), None);
        assert_eq!(below(b"/a/b", b"/"), Some(&b"a/b"[..]));
        assert_eq!(below(b"/a/b", b"/a/b"), None);
        assert_eq!(below(b"/a", b""), None, "a path that is not known");
    }
}
