//! Downloads of files that report their progress.

use super::ProgressSender;
use crate::image::progress;
use crate::registry::Download;
use std::io::{self, Read};
use std::time::{Duration, Instant};

/// How often a download reports its progress.
const OFTEN: Duration = Duration::from_millis(100);

/// A download that reports its progress, and fails where it ends before its length.
pub(crate) struct ProgressReader<'a> {
    download: &'a mut Download,
    what: &'a str,
    sender: &'a ProgressSender,
    taken: u64,
    reported: Instant,
}

impl<'a> ProgressReader<'a> {
    pub(crate) fn new(download: &'a mut Download, what: &'a str, sender: &'a ProgressSender) -> ProgressReader<'a> {
        ProgressReader { download, what, sender, taken: 0, reported: Instant::now() }
    }
}

impl Read for ProgressReader<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let n = self.download.read(out)?;
        let ended = n == 0 && !out.is_empty();
        self.taken += n as u64;
        let total = self.download.length.unwrap_or(0);
        if ended && self.taken < total {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "unexpected EOF"));
        }
        if ended || self.reported.elapsed() > OFTEN {
            self.reported = Instant::now();
            self.sender.emit(progress::bar(self.what, "", self.taken, total));
        }
        Ok(n)
    }
}
