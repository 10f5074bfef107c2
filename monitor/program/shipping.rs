//! Starts the program that delivers logs again, if its processes were killed and no program of the host does it.
//!
//! The library leaves the program, and its words, in the run directory. A lock says whether one lives; the process that gets the lock
//! passes the lock on to the program.

use crate::fd::Fd;
use crate::sys::{self, *};
use crate::timers;
use crate::wire::*;

/// Between two looks: nanoseconds.
const ROUND: i64 = 10_000_000_000;
/// In the text of the lock's file: the program was told to end, and stays ended.
const TOLD: &[u8] = b"\"IsTold\":true";
/// The program's only descriptor.
const LOCK: i32 = 3;
const PROGRAM: i32 = 4;
/// Descriptors that move to those numbers come from here and above.
const ABOVE: i32 = 5;
/// Words of the command line and the environment, with a null behind each of both; one place stays free.
const WORDS: usize = SHIP_WORDS_MOST + 3;

/// When the program is looked for next.
pub struct Shipping {
    due: i64,
}

impl Shipping {
    /// From now on the program is looked for.
    pub fn begin(&mut self, now: i64) {
        self.due = now + ROUND;
    }

    pub fn due(&self) -> i64 {
        self.due
    }

    /// `dir`: the container's run directory.
    pub fn tick(&mut self, now: i64, dir: i32) {
        if timers::is_due(self.due, now) {
            self.due = now + ROUND;
            // The next look tries again.
            let _ = start_if_none_lives(dir);
        }
    }
}

fn start_if_none_lives(dir: i32) -> Result<()> {
    let lock = Fd::new(sys::openat(dir, SHIP_LOCK, O_RDWR | O_NOFOLLOW, 0)?);
    sys::try_lock_file(lock.raw())?;
    let mut text = [0; 256];
    let length = sys::pread(lock.raw(), &mut text, 0)?;
    let text = &text[..length];
    if text.windows(TOLD.len()).any(|part| part == TOLD) || begun_lately(lock.raw())? {
        return Ok(());
    }
    // The text stays as it is, and the time of the start is noted for the monitors of the other containers.
    sys::pwrite(lock.raw(), if text.is_empty() { b" " } else { text }, 0)?;
    let (pid, pidfd) = sys::fork(0, None)?;
    if pid == 0 {
        // The program is a child of nobody here, so that its end is nobody's news.
        if let Ok((0, _)) = sys::fork(0, None) {
            let _ = execute(dir, lock.raw());
        }
        sys::exit(0)
    }
    sys::close(pidfd);
    sys::wait_for(pid);
    Ok(())
}

/// Whether a start came within the last round: a program that ends at once is started once in a round, however many monitors look. A
/// program writes into the lock's file when it begins, too.
fn begun_lately(lock: i32) -> Result<bool> {
    let since = sys::now() - sys::fstat(lock)?.changed;
    Ok((0..ROUND).contains(&since))
}

/// In the child: becomes the program. Answers on failure alone.
fn execute(dir: i32, lock: i32) -> Result<()> {
    let words = map(dir, SHIP_WORDS)?;
    let program = Fd::new(sys::sealed_program(map(dir, SHIP_PROGRAM)?)?);
    let (lock, program) = (sys::dup_from(lock, ABOVE)?, sys::dup_from(program.raw(), ABOVE)?);
    sys::dup_to(lock, LOCK)?;
    sys::dup_to(program, PROGRAM)?;
    sys::close_range(PROGRAM + 1, u32::MAX, 0)?;
    let mut addresses = [0usize; WORDS];
    let environment = arrange(words, &mut addresses).ok_or(E2BIG)?;
    let addresses = addresses.as_ptr();
    // SAFETY: the environment begins within the array, which `arrange` filled.
    unsafe { sys::execute(PROGRAM, addresses, addresses.add(environment)) }
}

/// The addresses of the words, which a count of those of the command line stands before; a zero ends each of both lists. Answers
/// where the second one begins.
fn arrange(words: &'static [u8], addresses: &mut [usize; WORDS]) -> Option<usize> {
    let (count, rest) = words.split_first_chunk()?;
    let count = u32::from_le_bytes(*count) as usize;
    let mut at = 0;
    for (number, word) in rest.split_inclusive(|byte| *byte == 0).enumerate() {
        at += usize::from(number == count);
        // Two places stay: for the zeroes.
        *addresses.get_mut(at).filter(|_| at + 2 < WORDS && word.ends_with(b"\0"))? = word.as_ptr() as usize;
        at += 1;
    }
    (at >= count).then_some(count + 1)
}

/// A file that the library gave its name after it was written: its content stays.
fn map(dir: i32, name: &[u8]) -> Result<&'static [u8]> {
    let file = Fd::new(sys::openat(dir, name, O_RDONLY | O_NOFOLLOW, 0)?);
    sys::map_file(file.raw(), sys::fstat(file.raw())?.size as usize)
}
