//! The file of the log that is being written. The launcher opens the next file and names the older ones (`rotate`),
//! because the worker, which writes, can name no file.

use crate::jsonlog::{LINE, Log, Records};
use crate::launcher::Launcher;
use crate::lines::newlines;
use crate::message::{Message, ROTATE};
use crate::shared::LogRing;
use crate::sys::{self, *};

pub struct LogFile {
    pub fd: i32,
    /// Takes the records in place of the file: another process writes them (`writer`).
    pub ring: Option<LogRing>,
    /// Gives the next file.
    pub launcher: Launcher,
    pub max_size: u64,
    pub size: u64,
    /// The next file waits for the delivery of the oldest one: output is not read meanwhile. A chunk that was read before
    /// goes into the present file, beyond its bound.
    pub held: bool,
    /// How many records the file has; none if an earlier worker began the file, and they were not counted yet.
    pub records: Option<u64>,
}

impl LogFile {
    pub const NONE: LogFile =
        LogFile { fd: -1, ring: None, launcher: Launcher::NONE, max_size: 0, size: 0, held: false, records: None };
}

impl Records for LogFile {
    fn is_full(&self, more: usize) -> bool {
        self.max_size > 0 && !self.held && self.size + more as u64 >= self.max_size
    }

    /// A record that was partly written is cut off again, so that the file has whole records alone.
    fn append(&mut self, data: &[u8]) -> u64 {
        if let Some(ring) = &self.ring {
            return ring.append(data);
        }
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

    #[inline(never)]
    fn rotate(&mut self, scratch: &mut [u8]) {
        let records = *self.records.get_or_insert_with(|| count(self.fd, scratch));
        let request = Message { code: ROTATE, b: records, c: self.size, ..Message::default() };
        match self.launcher.request(request) {
            Ok(fd) => {
                sys::close(core::mem::replace(&mut self.fd, fd));
                (self.size, self.records) = (0, Some(0));
            }
            Err(error) => self.held = error == EAGAIN,
        }
    }
}

/// The memory that a log works in.
pub fn begin(log: &mut Log<'static, LogFile>) -> Result<()> {
    let out = sys::map_memory(log.room())?;
    log.begin(out, [sys::map_memory(LINE)?, sys::map_memory(LINE)?]);
    Ok(())
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
