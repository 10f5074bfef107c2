//! The files of a log: the one being written, and older ones (`.1`, `.2`, ...; with `compress` `.1.gz`, ...), as
//! dockerd names them.
//!
//! Each file of a bounded log has a mark, an attribute that says how much was written before it. By the marks a reader
//! finds the file that follows the one that it has read, under any name, or the number of records that it missed if
//! that file is gone.
//!
//! A new file is made before the old ones move up: when that is not possible (a full disk), the old one grows beyond
//! its bound and nothing is lost. A child compresses rotated files, so that output never waits for that. This child
//! reads no file itself: a process without rights does. Where a log holds nobody up (`buffered`), a child of another kind
//! begins the next file, and ends with the monitor. The child that compresses may outlive this process and meet the child of the
//! next monitor, so names change under a lock of the directory, and the child holds a lock of its own.

use crate::confine;
use crate::fd::Fd;
use crate::filter::COMPRESSOR;
use crate::gzip;
use crate::logfile::LogFile;
use crate::sys::{self, *};
use crate::text::Writer;
use crate::ways;
use crate::wire::{LOG_CURSOR_LEN, LOG_MARK, LOG_MARK_BEFORE, LOG_MARK_LEN, LogMark, delivered_to};

/// Compressing gives way to other work of the machine.
const NICE: usize = 10;
const NAME: usize = 256;
/// The exit codes of a child that begins the next file: it told the writer that there is none, or told it nothing.
const FAILED: i32 = 1;
const NOT_ANSWERED: i32 = 2;
/// The first of them, as the end of a child is reported.
pub const ROTATION_FAILED: i32 = FAILED << 8;
/// The ends of file names, after their numbers.
const FORMS: [&[u8]; 2] = [b"", b".gz"];

pub struct Files {
    dir: i32,
    name: &'static [u8],
    /// The file of the delivery's cursor; only a NUL: undelivered files may give way.
    cursor: &'static [u8],
    max_size: u64,
    max_files: u32,
    compress: bool,
    mark: LogMark,
    /// The child that compresses; 0 if there is none.
    child: i32,
    /// The child may have looked for files before the last one came.
    again: bool,
}

impl Files {
    pub const NONE: Files = Files::new(-1, b"\0", 0, 1, false);

    /// Files `name` (with its NUL) in the directory `dir`, of at most `max_size` bytes (0 means no bound) each.
    pub const fn new(dir: i32, name: &'static [u8], max_size: u64, max_files: u32, compress: bool) -> Files {
        let mark = LogMark { generation: 1, records: 0, bytes: 0 };
        Files { dir, name, cursor: b"\0", max_size, max_files, compress, mark, child: 0, again: false }
    }

    /// Keeps each file until the delivery of it, which has this cursor (a name with its NUL).
    pub fn wait_for(&mut self, cursor: &'static [u8]) {
        self.cursor = cursor;
    }

    /// Opens the file that is being written, or makes the first one.
    pub fn open(&mut self) -> Result<LogFile> {
        let fd = self.make(self.name)?;
        let size = sys::fstat(fd).inspect_err(|_| sys::close(fd))?.size;
        if self.max_size > 0 {
            match (size > 0).then(|| read_mark(fd)).flatten() {
                Some(mark) => self.mark = mark,
                // Without a mark, readers find files by their names alone.
                None => drop(set_mark(fd, &self.mark)),
            }
        }
        let records = (size == 0).then_some(0);
        Ok(LogFile { fd, max_size: self.max_size, size, records, ..LogFile::NONE })
    }

    #[inline(never)]
    fn make(&self, name: &[u8]) -> Result<i32> {
        sys::openat(self.dir, name, O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW, 0o640)
    }

    /// Begins the next file, after one of so many records and bytes. Errors: EAGAIN if the oldest file waits for its
    /// delivery; otherwise the present file is written further. [`Files::rotated`] has to follow.
    #[inline(never)]
    pub fn rotate(&self, records: u64, size: u64) -> Result<i32> {
        if self.is_owed(size) {
            return Err(EAGAIN);
        }
        let (mut new, mut name) = ([0; NAME], [0; NAME]);
        self.named(&mut new, 0, b".new");
        // A monitor that was killed may have left such a file.
        let _ = sys::unlinkat(self.dir, &new, 0);
        let fd = self.make(&new)?;
        let lock = if self.compress { lock(self.dir) } else { -1 };
        let _ = set_mark(fd, &self.mark.after(records, size));
        self.named(&mut name, 0, b"");
        let moved = self.move_up();
        let renamed = moved.and_then(|()| sys::renameat(self.dir, &new, &name));
        if renamed.is_err() {
            // The old file keeps its name, and is written further.
            sys::close(fd);
            let _ = sys::unlinkat(self.dir, &new, 0);
            if moved.is_ok() && self.max_files > 1 {
                self.named(&mut new, 1, b"");
                let _ = sys::renameat(self.dir, &new, &name);
            }
        }
        if lock >= 0 {
            sys::close(lock);
        }
        renamed.map(|()| fd)
    }

    /// Another file than that of so many records and bytes is the present one now.
    pub fn rotated(&mut self, records: u64, size: u64) {
        self.mark = self.mark.after(records, size);
        if self.compress {
            self.start_compressing();
        }
    }

    /// Whether the file that a rotation removes is not delivered yet. `size`: that of the present file, which is the one if
    /// no older file is kept.
    #[inline(never)]
    fn is_owed(&self, size: u64) -> bool {
        if self.cursor.len() < 2 {
            return false;
        }
        let Ok(file) = sys::openat(self.dir, self.cursor, O_RDONLY | O_NOFOLLOW, 0).map(Fd::new) else { return false };
        let mut cursor = [0; LOG_CURSOR_LEN];
        let read = sys::pread(file.raw(), &mut cursor, 0);
        // A record that is being written does not fit its checksum: the next look sees it.
        let Some(done) = read.ok().and_then(|_| delivered_to(&cursor)) else { return true };
        if self.max_files == 1 {
            return done < (self.mark.generation, size);
        }
        let oldest = FORMS.iter().find_map(|form| self.open_numbered(self.max_files - 1, form).ok());
        oldest.and_then(|file| read_mark(file.raw())).is_some_and(|mark| done.0 <= mark.generation)
    }

    /// Gives each file the next number, and removes the oldest. An error: a file could not be renamed. It and all newer
    /// files keep their names, and the next rotation fills the free number.
    #[inline(never)]
    fn move_up(&self) -> Result<()> {
        let (mut older, mut newer) = ([0; NAME], [0; NAME]);
        for number in (1..=self.in_use().saturating_add(1).min(self.max_files - 1)).rev() {
            // The newest file, which has only one form, comes last.
            for form in FORMS.into_iter().rev() {
                self.named(&mut older, number, form);
                if number + 1 == self.max_files {
                    let _ = sys::unlinkat(self.dir, &older, 0);
                }
                self.named(&mut newer, number - 1, form);
                match sys::renameat(self.dir, &newer, &older) {
                    Err(ENOENT) if number > 1 || !form.is_empty() => {}
                    renamed => renamed?,
                }
            }
        }
        Ok(())
    }

    /// How many older files there are. A number is free if a monitor was killed while it rotated. A file that cannot be
    /// opened counts as missing.
    #[inline(never)]
    fn in_use(&self) -> u32 {
        let free = |&number: &u32| FORMS.iter().all(|form| matches!(self.open_numbered(number, form), Err(ENOENT)));
        (1..self.max_files).find(free).unwrap_or(self.max_files) - 1
    }

    #[inline(never)]
    fn open_numbered(&self, number: u32, form: &[u8]) -> Result<Fd> {
        let mut name = [0; NAME];
        self.named(&mut name, number, form);
        sys::openat(self.dir, &name, O_RDONLY | O_NOFOLLOW, 0).map(Fd::new)
    }

    /// The name of a file, with its NUL.
    #[inline(never)]
    fn named(&self, name: &mut [u8; NAME], number: u32, suffix: &[u8]) {
        name.fill(0);
        let mut writer = Writer::new(&mut name[..NAME - 1]);
        writer.bytes(&self.name[..self.name.len() - 1]);
        if number > 0 {
            writer.bytes(b".").number(i64::from(number));
        }
        writer.bytes(suffix);
    }

    pub fn child_ended(&mut self, pid: i32) {
        if pid == self.child {
            self.child = 0;
            if core::mem::take(&mut self.again) {
                self.start_compressing();
            }
        }
    }

    /// Writing has ended: waits until all files are compressed, so that no process is left behind.
    pub fn finish(&mut self) {
        while self.child > 0 {
            sys::wait_for(self.child);
            self.child_ended(self.child);
        }
    }

    #[inline(never)]
    fn start_compressing(&mut self) {
        if self.child > 0 {
            self.again = true;
            return;
        }
        match sys::fork(0, None) {
            Ok((0, _)) => self.compress_all(),
            Ok((pid, pidfd)) => {
                sys::close(pidfd);
                self.child = pid;
            }
            // The next rotation tries again.
            Err(_) => {}
        }
    }

    /// In the child: compresses all files that are not compressed, the oldest first. It closes the descriptors of the
    /// monitor, such as its lock and the streams of clients.
    fn compress_all(&mut self) -> ! {
        if sys::dup_to(self.dir, 0).is_ok() {
            self.dir = 0;
            let _ = sys::close_range(1, u32::MAX, 0);
            // SAFETY: no pointers.
            let _ = unsafe { sys::call(nr::SETPRIORITY, &[0, 0, NICE]) };
            while let Ok(true) = self.compress_oldest() {}
        }
        sys::exit(0)
    }

    /// Answers whether there was a file to compress.
    fn compress_oldest(&self) -> Result<bool> {
        let mut name = [0; NAME];
        self.named(&mut name, 0, b".gz.new");
        let output = self.own(&name)?;
        let source = (1..=self.in_use()).rev().find_map(|number| self.open_numbered(number, b"").ok());
        let there = source.is_some();
        let done = source.map_or(Ok(false), |source| self.compress_one(source.raw(), output.raw(), &name));
        if done != Ok(true) {
            let _ = sys::unlinkat(self.dir, &name, 0);
        }
        // A file that was removed meanwhile does not stop the others.
        done.map(|_| there)
    }

    /// The file that takes the compressed bytes. One process at a time owns it.
    fn own(&self, name: &[u8]) -> Result<Fd> {
        loop {
            let file = Fd::new(self.make(name)?);
            sys::lock_file(file.raw())?;
            // The maker of the file may have given the file its name, or removed it.
            let current = sys::openat(self.dir, name, O_RDONLY | O_NOFOLLOW, 0).map(Fd::new);
            if current.is_ok_and(|current| is_same(&current, file.raw())) {
                sys::ftruncate(file.raw(), 0)?;
                return Ok(file);
            }
        }
    }

    /// Answers whether the compressed file replaced the other one, which a rotation may have removed.
    fn compress_one(&self, source: i32, output: i32, temporary: &[u8]) -> Result<bool> {
        let size = sys::fstat(source)?.size as usize;
        squeeze(source, size, output)?;
        if let Some(mark) = read_mark(source) {
            set_mark(output, &mark)?;
        }
        let _lock = Fd::new(lock(self.dir));
        let mut numbers = 1..=self.in_use();
        let number = numbers.find(|&number| self.open_numbered(number, b"").is_ok_and(|file| is_same(&file, source)));
        let Some(number) = number else { return Ok(false) };
        let (mut plain, mut compressed) = ([0; NAME], [0; NAME]);
        self.named(&mut plain, number, b"");
        self.named(&mut compressed, number, b".gz");
        sys::renameat(self.dir, temporary, &compressed)?;
        sys::unlinkat(self.dir, &plain, 0)?;
        Ok(true)
    }
}

/// The directory of the files.
pub fn directory(files: &Files) -> i32 {
    files.dir
}

/// Opens the file that is being written, in place of a writer that died. `dir`: the directory's number in this process.
pub fn reopen(files: &mut Files, dir: i32) -> Result<LogFile> {
    files.dir = dir;
    take_mark(files);
    files.open()
}

/// Takes the mark of the present file: a child that was killed may have begun the file without telling anybody.
fn take_mark(files: &mut Files) {
    let present = sys::openat(files.dir, files.name, O_RDONLY | O_NOFOLLOW, 0).map(Fd::new);
    if let Some(mark) = present.ok().and_then(|file| read_mark(file.raw())) {
        files.mark = mark;
    }
}

/// Begins the next file in a child, which answers the request at this socket itself: the disk holds up the child
/// alone. Answers the child's pid and a pidfd; the child ends with 0 if there is a next file.
pub fn rotate_apart(files: &mut Files, records: u64, size: u64, socket: i32) -> Result<(i32, Fd)> {
    let launcher = sys::own_pid();
    let (pid, pidfd) = sys::fork(0, None)?;
    if pid == 0 {
        // The child ends with this process, because the next monitor names the same files, and closes this process's lock
        // and streams, because a child that waits for the disk ends late.
        let kept = sys::die_with_parent(launcher);
        let kept = kept.and_then(|()| sys::dup_to(files.dir, 0)).and_then(|()| sys::dup_to(socket, 1));
        if kept.and_then(|()| sys::close_range(2, u32::MAX, 0)).is_err() {
            sys::exit(NOT_ANSWERED);
        }
        files.dir = 0;
        take_mark(files);
        let next = files.rotate(records, size);
        sys::exit(match ways::answer(1, next) {
            Ok(()) if next.is_ok() => 0,
            Ok(()) => FAILED,
            Err(_) => NOT_ANSWERED,
        });
    }
    Ok((pid, Fd::new(pidfd)))
}

/// Compresses in a process of its own, because the container wrote the file.
fn squeeze(source: i32, size: usize, output: i32) -> Result<()> {
    let (pid, pidfd) = sys::fork(0, None)?;
    if pid == 0 {
        let done = (|| {
            let input = if size > 0 { sys::map_file(source, size)? } else { &[] };
            sys::dup_to(output, 0)?;
            sys::close_range(1, u32::MAX, 0)?;
            confine::give_up(COMPRESSOR, -1)?;
            gzip::compress(input, 0)
        })();
        sys::exit(i32::from(done.is_err()));
    }
    sys::close(pidfd);
    if sys::wait_for(pid) == 0 { Ok(()) } else { Err(EIO) }
}

/// Whether two descriptors are of the same file.
#[inline(never)]
fn is_same(one: &Fd, other: i32) -> bool {
    matches!((sys::fstat(one.raw()), sys::fstat(other)), (Ok(a), Ok(b)) if a.ino == b.ino)
}

/// The lock of the names in a directory, until it is closed.
#[inline(never)]
fn lock(dir: i32) -> i32 {
    let Ok(fd) = sys::openat(dir, b".\0", O_RDONLY, 0) else { return -1 };
    let _ = sys::lock_file(fd);
    fd
}

#[inline(never)]
fn read_mark(fd: i32) -> Option<LogMark> {
    let mut bytes = [0; LOG_MARK_LEN];
    let found = sys::get_attribute(fd, LOG_MARK, &mut bytes);
    let length = found.or_else(|_| sys::get_attribute(fd, LOG_MARK_BEFORE, &mut bytes)).ok()?;
    LogMark::from_bytes(&bytes[..length])
}

/// Every file system that can hold containers has such attributes.
#[inline(never)]
fn set_mark(fd: i32, mark: &LogMark) -> Result<()> {
    sys::set_attribute(fd, LOG_MARK, &mark.to_bytes())
}
