//! The writer of a log that holds nobody up (`mode=non-blocking`): it takes records out of the ring (`src/ring.rs`) and
//! writes them into the file. Only the writer waits for the disk. It has no rights and names no file: the launcher gives
//! it the next one (`buffered`).

use crate::confine;
use crate::filter::WRITER;
use crate::jsonlog::Records;
use crate::launcher::Launcher;
use crate::lines::find_newline;
use crate::logfile::LogFile;
use crate::message::{LOST, Message, WRITTEN};
use crate::ring::ASKED;
use crate::rotate::{self, Files};
use crate::shared::LogRing;
use crate::sys::{self, *};
use crate::ways;

/// The exit code when the rights could not be given up.
const NOT_CONFINED: i32 = 71;
/// The places of the descriptors. The place of the file has the directory at first, if the writer opens the file.
const SOCKET: i32 = 0;
const FILE: i32 = 1;
const ROOT: i32 = 2;

/// Everything that a writer begins with.
pub struct Begins<'f> {
    pub ring: LogRing,
    /// The file; without a descriptor, if the writer opens the present one of these.
    pub file: LogFile,
    pub files: &'f mut Files,
    pub socket: i32,
    /// A directory that becomes the root.
    pub root: i32,
    pub launcher: i32,
}

/// In the child of the fork.
pub fn run(begins: Begins<'_>) -> ! {
    let ring = begins.ring;
    let Ok(mut file) = leave(&begins).and_then(|()| open(begins.file, begins.files)) else {
        // Nothing was read. The launcher tries again.
        sys::exit(NOT_CONFINED);
    };
    if !matches!(ways::receive(SOCKET), Err(EAGAIN)) {
        // The launcher ended before this process was to end with it.
        sys::exit(0);
    }
    let launcher = Launcher::new(SOCKET);
    (file.fd, file.launcher) = (FILE, launcher);
    let Ok(buffer) = sys::map_memory(ring.longest) else { sys::exit(NOT_CONFINED) };
    ring.bytes.resume(file.size, buffer);
    sys::drop_stack();
    loop {
        let length = ring.bytes.peek(buffer);
        if length > 0 {
            if write(&ring, &mut file, &buffer[..length]) > 0 {
                // The launcher reads the number in the ring.
                launcher.notify(Message { code: LOST, ..Message::default() });
            }
            continue;
        }
        if ring.bytes.take(ASKED) {
            launcher.notify(Message { code: WRITTEN, ..Message::default() });
        }
        if ring.bytes.rest() {
            ring.wait();
        }
    }
}

/// Leaves every descriptor behind that the writer does not need, before it waits for the disk: among them is the lock that
/// shows that the container lives.
fn leave(begins: &Begins<'_>) -> Result<()> {
    const PR_SET_NAME: usize = 15;
    let _ = sys::prctl(PR_SET_NAME, c"coracle-log".as_ptr() as usize);
    sys::die_with_parent(begins.launcher)?;
    let file = if begins.file.fd >= 0 { begins.file.fd } else { rotate::directory(begins.files) };
    for (from, to) in [(begins.socket, SOCKET), (file, FILE), (begins.root, ROOT)] {
        sys::dup_to(from, to)?;
    }
    sys::close_range(ROOT + 1, u32::MAX, 0)
}

/// Opens the file, where nobody did, and gives up all rights.
fn open(mut file: LogFile, files: &mut Files) -> Result<LogFile> {
    if file.fd < 0 {
        file = rotate::reopen(files, FILE)?;
        sys::dup_to(file.fd, FILE)?;
    }
    confine::enter_root(ROOT)?;
    sys::close_range(ROOT, u32::MAX, 0)?;
    confine::give_up(WRITER, -1)?;
    Ok(file)
}

/// Writes whole records, each in the file that its place in the log says. Answers how many are lost.
fn write(ring: &LogRing, file: &mut LogFile, mut records: &[u8]) -> u64 {
    let (mut lost, mut refused) = (0, false);
    while !records.is_empty() {
        if file.is_full(0) && !refused {
            rotate(ring, file);
            // One try for all of these records, because each costs a process.
            refused = file.is_full(0);
        }
        let now = if refused { records.len() } else { until_full(file, records) };
        let (now, later) = records.split_at(now);
        let more = file.append(now);
        ring.bytes.took(now, file.size, more);
        lost += more;
        records = later;
    }
    lost
}

#[inline(never)]
fn rotate(ring: &LogRing, file: &mut LogFile) {
    let mut scratch = [0; 4096];
    file.rotate(&mut scratch);
    ring.bytes.begin(file.size);
}

/// How many bytes of these records the file takes before it has reached its bound: one record at least.
fn until_full(file: &LogFile, records: &[u8]) -> usize {
    if file.max_size == 0 {
        return records.len();
    }
    let room = usize::try_from(file.max_size.saturating_sub(file.size)).unwrap_or(usize::MAX).max(1);
    let last = records.get(room - 1..).and_then(find_newline);
    last.map_or(records.len(), |at| room + at)
}
