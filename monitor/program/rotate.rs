//! The files of a log: the one being written, and older ones (`.1`, `.2`, ...; with `compress` `.1.gz`, ...), as dockerd
//! names them.
//!
//! Each file of a bounded log carries a mark, an attribute that says what was written before it: so that a reader knows the
//! file that follows the one it has read, under whatever name it is found, and how many records it missed where there is
//! none any more.
//!
//! A new file is made before the old ones move up: when that is not possible (a full disk), the old one grows beyond its
//! bound and nothing is lost. What was rotated is compressed by a child, so that output never waits for that. It may
//! outlive this process and meet its successor's child: names change under a lock of the directory, and who compresses
//! holds one of its own.

use crate::gzip;
use crate::sys::{self, *};
use crate::text::Writer;
use crate::wire::{LOG_MARK, LOG_MARK_LEN, LogMark};

/// Compressing yields to what the machine has to do.
const NICE: usize = 10;
const NAME: usize = 256;
/// What follows a file's number.
const FORMS: [&[u8]; 2] = [b"", b".gz"];

pub struct Files {
    fd: i32,
    dir: i32,
    name: &'static [u8],
    max_size: u64,
    max_files: u32,
    compress: bool,
    mark: LogMark,
    size: u64,
    /// Records in the file; not known of one that an earlier monitor began.
    records: Option<u64>,
    /// The child that compresses; 0: there is none.
    child: i32,
    /// It may have looked before the last file came.
    again: bool,
}

impl Files {
    pub const NONE: Files = Files::new(-1, b"\0", 0, 1, false);

    /// Files `name` (with its NUL) in the directory `dir`, of at most `max_size` bytes (0: no bound) each.
    pub const fn new(dir: i32, name: &'static [u8], max_size: u64, max_files: u32, compress: bool) -> Files {
        let mark = LogMark { generation: 1, records: 0, bytes: 0 };
        Files { fd: -1, dir, name, max_size, max_files, compress, mark, size: 0, records: None, child: 0, again: false }
    }

    /// Opens the file that is written, or makes the first.
    pub fn open(&mut self) -> Result<()> {
        self.fd = self.make(self.name)?;
        self.size = sys::fstat(self.fd)?.size;
        if self.max_size > 0 {
            match (self.size > 0).then(|| read_mark(self.fd)).flatten() {
                Some(mark) => self.mark = mark,
                // Without it readers go by names alone.
                None => drop(set_mark(self.fd, &self.mark)),
            }
        }
        self.records = (self.size == 0).then_some(0);
        Ok(())
    }

    #[inline(never)]
    fn make(&self, name: &[u8]) -> Result<i32> {
        sys::openat(self.dir, name, O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW, 0o640)
    }

    /// Whether the file has reached its bound, once `more` bytes are in it.
    pub fn is_full(&self, more: usize) -> bool {
        self.max_size > 0 && self.size + more as u64 >= self.max_size
    }

    /// Appends records; answers how many could not be written. Of one that was half written the half is cut off again, so
    /// that the file stays records alone.
    pub fn append(&mut self, data: &[u8]) -> u64 {
        let mut done = 0;
        while done < data.len() {
            match sys::write(self.fd, &data[done..]) {
                Ok(length) => done += length,
                Err(EINTR) => {}
                Err(_) => break,
            }
        }
        let mut lost = 0;
        if done < data.len() {
            let whole = data[..done].iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
            if whole < done {
                let _ = sys::ftruncate(self.fd, self.size + whole as u64);
            }
            lost = newlines(&data[whole..]);
            done = whole;
        }
        self.size += done as u64;
        if self.max_size > 0 {
            self.records = self.records.map(|records| records + newlines(&data[..done]));
        }
        lost
    }

    /// Begins the next file. `scratch` is memory that is free at the moment.
    #[inline(never)]
    pub fn rotate(&mut self, scratch: &mut [u8]) {
        let records = *self.records.get_or_insert_with(|| count(self.fd, scratch));
        let mark = LogMark {
            generation: self.mark.generation + 1,
            records: self.mark.records + records,
            bytes: self.mark.bytes + self.size,
        };
        let (mut new, mut name) = ([0; NAME], [0; NAME]);
        self.named(&mut new, 0, b".new");
        // What a killed monitor may have left.
        let _ = sys::unlinkat(self.dir, &new, 0);
        let Ok(fd) = self.make(&new) else { return };
        let lock = if self.compress { lock(self.dir) } else { -1 };
        let _ = set_mark(fd, &mark);
        self.named(&mut name, 0, b"");
        let moved = self.move_up();
        let renamed = moved.and_then(|()| sys::renameat(self.dir, &new, &name));
        if renamed.is_ok() {
            sys::close(core::mem::replace(&mut self.fd, fd));
            (self.mark, self.size, self.records) = (mark, 0, Some(0));
        } else {
            // The old one goes on, by its own name.
            sys::close(fd);
            let _ = sys::unlinkat(self.dir, &new, 0);
            if moved.is_ok() && self.max_files > 1 {
                self.named(&mut new, 1, b"");
                let _ = sys::renameat(self.dir, &new, &name);
            }
        }
        if lock >= 0 {
            sys::close(lock);
            if renamed.is_ok() {
                self.start_compressing();
            }
        }
    }

    /// Each file takes the next number; the oldest goes. Errors: one cannot have it. It and all newer ones stay as they are
    /// then, and the number that is free is filled the next time.
    #[inline(never)]
    fn move_up(&self) -> Result<()> {
        let (mut older, mut newer) = ([0; NAME], [0; NAME]);
        for number in (1..=self.in_use().saturating_add(1).min(self.max_files - 1)).rev() {
            // The newest, which has no other form, is the last.
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

    /// How many older files there are. A number that is free is where a monitor was killed while it rotated; one that
    /// cannot be looked at is none.
    #[inline(never)]
    fn in_use(&self) -> u32 {
        let free = |&number: &u32| FORMS.iter().all(|form| matches!(self.open_numbered(number, form), Err(ENOENT)));
        (1..self.max_files).find(free).unwrap_or(self.max_files) - 1
    }

    #[inline(never)]
    fn open_numbered(&self, number: u32, form: &[u8]) -> Result<Opened> {
        let mut name = [0; NAME];
        self.named(&mut name, number, form);
        sys::openat(self.dir, &name, O_RDONLY | O_NOFOLLOW, 0).map(Opened)
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

    /// Nothing is written any more: waits until all is compressed, so that no process stays behind.
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
            // The next rotation tries it again.
            Err(_) => {}
        }
    }

    /// The child: compresses what is not, the oldest first. Nothing of the monitor's stays open here, as its lock or a
    /// client's stream would.
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

    /// Answers whether there was one.
    fn compress_oldest(&self) -> Result<bool> {
        let mut name = [0; NAME];
        self.named(&mut name, 0, b".gz.new");
        let output = self.own(&name)?;
        let source = (1..=self.in_use()).rev().find_map(|number| self.open_numbered(number, b"").ok());
        let there = source.is_some();
        let done = source.map_or(Ok(false), |source| self.compress_one(source.0, output.0, &name));
        if done != Ok(true) {
            let _ = sys::unlinkat(self.dir, &name, 0);
        }
        // One that was dropped meanwhile is no reason to stop.
        done.map(|_| there)
    }

    /// The file that compressed bytes are gathered in, which one process at a time has.
    fn own(&self, name: &[u8]) -> Result<Opened> {
        loop {
            let file = Opened(self.make(name)?);
            sys::lock_file(file.0)?;
            // Who had it may have given it its name, or removed it.
            let current = sys::openat(self.dir, name, O_RDONLY | O_NOFOLLOW, 0).map(Opened);
            if current.is_ok_and(|current| current.is(file.0)) {
                sys::ftruncate(file.0, 0)?;
                return Ok(file);
            }
        }
    }

    /// Answers whether the compressed file took the other's place: rotation may have dropped that.
    fn compress_one(&self, source: i32, output: i32, temporary: &[u8]) -> Result<bool> {
        let size = sys::fstat(source)?.size as usize;
        let input = if size > 0 { sys::map_file(source, size)? } else { &[] };
        gzip::compress(input, output)?;
        if let Some(mark) = read_mark(source) {
            set_mark(output, &mark)?;
        }
        let _lock = Opened(lock(self.dir));
        let mut numbers = 1..=self.in_use();
        let number = numbers.find(|&number| self.open_numbered(number, b"").is_ok_and(|file| file.is(source)));
        let Some(number) = number else { return Ok(false) };
        let (mut plain, mut compressed) = ([0; NAME], [0; NAME]);
        self.named(&mut plain, number, b"");
        self.named(&mut compressed, number, b".gz");
        sys::renameat(self.dir, temporary, &compressed)?;
        sys::unlinkat(self.dir, &plain, 0)?;
        Ok(true)
    }
}

/// Closed when it goes.
struct Opened(i32);

impl Opened {
    /// Whether it is the same file.
    #[inline(never)]
    fn is(&self, other: i32) -> bool {
        matches!((sys::fstat(self.0), sys::fstat(other)), (Ok(a), Ok(b)) if a.ino == b.ino)
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        sys::close(self.0);
    }
}

/// The lock of the names in a directory, until it is closed.
#[inline(never)]
fn lock(dir: i32) -> i32 {
    let Ok(fd) = sys::openat(dir, b".\0", O_RDONLY, 0) else { return -1 };
    let _ = sys::lock_file(fd);
    fd
}

#[inline(never)]
fn newlines(data: &[u8]) -> u64 {
    // Sums of bytes over short pieces, which the compiler makes vectors of.
    data.chunks(192).map(|piece| u64::from(piece.iter().map(|&byte| u8::from(byte == b'\n')).sum::<u8>())).sum()
}

/// How many records a file holds.
#[inline(never)]
fn count(fd: i32, scratch: &mut [u8]) -> u64 {
    let (mut at, mut records) = (0, 0);
    while let Ok(length @ 1..) = sys::pread(fd, scratch, at) {
        records += newlines(&scratch[..length]);
        at += length as u64;
    }
    records
}

#[inline(never)]
fn read_mark(fd: i32) -> Option<LogMark> {
    let mut bytes = [0; LOG_MARK_LEN];
    let length = sys::get_attribute(fd, LOG_MARK, &mut bytes).ok()?;
    LogMark::from_bytes(&bytes[..length])
}

/// A file system that knows no such attributes holds no containers either.
#[inline(never)]
fn set_mark(fd: i32, mark: &LogMark) -> Result<()> {
    sys::set_attribute(fd, LOG_MARK, &mark.to_bytes())
}
