//! Reading a blob to its end, over any number of connections.

use super::partial_download::Part;
use super::{ATTEMPTS, ProgressSender, back_off, is_passing};
use crate::error::{Error, ErrorKind, Result};
use crate::image::digest::{Digest, Hasher};
use crate::image::progress;
use crate::registry::{Blob, Repository, Transport};
use crate::walls::Wall;
use std::io::{self, Read};
use std::time::{Duration, Instant};

/// How often progress is reported.
const EVERY: Duration = Duration::from_millis(100);

/// A blob as one stream. A connection that breaks is made again where it broke, a part of the blob that is here already
/// comes first; the end comes only when size and digest are right.
pub(super) struct BlobReader<'a, 'p> {
    transport: &'a Transport,
    repository: &'a Repository<'a>,
    digest: Digest,
    size: u64,
    /// The receiver of progress, and the id that the messages name.
    sender: Option<(&'a ProgressSender, String)>,
    /// The part that is here already, and the place where more of it is kept.
    part: Option<&'a mut Part<'p>>,
    open: Option<Box<dyn Read + Send>>,
    at: u64,
    hasher: Option<Hasher>,
    /// Tries in a row that brought nothing.
    failures: u32,
    reported: Option<Instant>,
    failed: Option<Error>,
}

impl<'a, 'p> BlobReader<'a, 'p> {
    pub(super) fn new(
        transport: &'a Transport,
        repository: &'a Repository<'a>,
        digest: Digest,
        size: u64,
        sender: Option<(&'a ProgressSender, String)>,
        part: Option<&'a mut Part<'p>>,
    ) -> BlobReader<'a, 'p> {
        BlobReader {
            transport,
            repository,
            digest,
            size,
            sender,
            part,
            open: None,
            at: 0,
            hasher: Some(Hasher::new()),
            failures: 0,
            reported: None,
            failed: None,
        }
    }

    /// The whole content, which the caller knows to be small.
    pub(super) fn small(mut self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        match self.read_to_end(&mut bytes) {
            Ok(_) => Ok(bytes),
            Err(error) => Err(self.failed.take().unwrap_or_else(|| Error::from(error))),
        }
    }

    /// Reads what is left, for its errors: a wrong digest explains what came before.
    pub(super) fn drain(&mut self) -> Result<()> {
        if self.failed.is_none() {
            let _ = io::copy(self, &mut io::sink());
        }
        self.failed.take().map_or(Ok(()), Err)
    }

    fn next(&mut self, out: &mut [u8]) -> Result<usize> {
        loop {
            self.transport.check()?;
            if self.at == self.size {
                return self.end();
            }
            match self.piece(out) {
                Ok(n) => {
                    self.failures = 0;
                    if let Some(part) = &mut self.part {
                        part.append(&out[..n], self.at);
                    }
                    self.at += n as u64;
                    if let Some(hasher) = &mut self.hasher {
                        hasher.update(&out[..n]);
                    }
                    self.emit();
                    return Ok(n);
                }
                Err(error) if is_passing(&error) => {
                    self.open = None;
                    self.failures += 1;
                    if self.failures >= ATTEMPTS {
                        return Err(error.context(self.digest));
                    }
                    let silent = ProgressSender(crossbeam_channel::unbounded().0);
                    let (sender, id) = match &self.sender {
                        Some((sender, id)) => (*sender, id.as_str()),
                        None => (&silent, ""),
                    };
                    back_off(self.transport, sender, id, self.failures)?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Some bytes, at least one.
    fn piece(&mut self, out: &mut [u8]) -> Result<usize> {
        let wanted = out.len().min(usize::try_from(self.size - self.at).unwrap_or(usize::MAX));
        let broken = |e: &dyn std::fmt::Display| Error::new(ErrorKind::Unavailable, format!("download: {e}"));
        if let Some(part) = self.part.as_mut().filter(|part| part.have() > self.at) {
            match part.read(&mut out[..wanted], self.at) {
                0 => {}
                n => return Ok(n),
            }
        }
        let content = match &mut self.open {
            Some(content) => content,
            None => self.open.insert(connect(self.repository, &self.digest, self.size, self.at)?),
        };
        loop {
            match content.read(&mut out[..wanted]) {
                Ok(0) => {
                    self.transport.check()?;
                    return Err(broken(&format_args!("it ended after {} of {} bytes", self.at, self.size)));
                }
                Ok(n) => return Ok(n),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => {
                    self.transport.check()?;
                    return Err(broken(&e));
                }
            }
        }
    }

    fn end(&mut self) -> Result<usize> {
        self.open = None;
        match self.hasher.take().map(Hasher::finish) {
            Some(found) if found != self.digest && Wall::ContentDigests.stands() => {
                // These bytes do not belong to the blob: the next attempt must not use them.
                if let Some(part) = &mut self.part {
                    part.reset();
                }
                Err(Error::invalid(format!("filesystem layer verification failed for digest {}", self.digest)))
            }
            _ => Ok(0),
        }
    }

    fn emit(&mut self) {
        if let Some((sender, id)) = &self.sender
            && (self.reported.is_none_or(|at| at.elapsed() >= EVERY) || self.at == self.size)
        {
            self.reported = Some(Instant::now());
            sender.emit(progress::bar("Downloading", id, self.at, self.size));
        }
    }
}

impl Read for BlobReader<'_, '_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        if self.failed.is_some() {
            return Err(io::Error::other("the download failed"));
        }
        self.next(out).map_err(|error| {
            let shown = io::Error::other(error.to_string());
            self.failed = Some(error);
            shown
        })
    }
}

/// Opens the blob so that the byte `at` comes next.
fn connect(repository: &Repository<'_>, digest: &Digest, size: u64, at: u64) -> Result<Box<dyn Read + Send>> {
    let Blob { from, length, mut content } = repository.blob(&digest.to_string(), at)?;
    if let Some(length) = length
        && length != size - from
    {
        return Err(Error::invalid(format!(
            "{digest}: the manifest says {size} bytes, the registry has {}",
            from.saturating_add(length)
        )));
    }
    // A registry that takes no ranges begins again: what is here already is skipped.
    let skipped = io::copy(&mut content.by_ref().take(at - from), &mut io::sink());
    match skipped {
        Ok(n) if n == at - from => Ok(content),
        Ok(_) => Err(Error::new(ErrorKind::Unavailable, "download: it ended early")),
        Err(e) => Err(Error::new(ErrorKind::Unavailable, format!("download: {e}"))),
    }
}
