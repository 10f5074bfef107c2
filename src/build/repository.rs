//! Contexts out of git repositories.

use super::context;
use super::job::Job;
use crate::error::{Error, ErrorKind, Result};
use crate::git::{Files, Limits, Pack, Remote};
use crate::image::beside;
use crate::kernel::tree;
use crate::registry::Download;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

/// Bytes of the files of a commit, and of all objects of its pack.
const MAX_BYTES: u64 = 16 << 30;
const MAX_FILES: usize = 1_000_000;

/// The context that a commit of a repository is. Answers its tree, the build file's name and content.
pub(super) fn context(job: &Job<'_>, remote: &Remote) -> Result<(Option<Rc<OwnedFd>>, String, Vec<u8>)> {
    let root = fetched(job, remote).map_err(|error| match error.kind() {
        ErrorKind::Cancelled | ErrorKind::Timeout | ErrorKind::Callback => error,
        _ => error.context(format_args!("remote: {}", remote.shown)),
    })?;
    let (name, bytes) = context::build_file(&root, &job.request.dockerfile)?;
    context::take_away(&root, Some(&name))?;
    Ok((Some(root), name, bytes))
}

fn fetched(job: &Job<'_>, remote: &Remote) -> Result<Rc<OwnedFd>> {
    let transport = Download::transport(&job.shop.options.registry);
    let (place, stage) = job.building.directory()?;
    let file = || tree::unnamed_file(stage.dir.as_fd()).map(File::from);
    let (pack, full) = (file()?, file()?);
    let commit = beside(&transport, &mut |_| Ok(()), job.op, |_| {
        let mut to = BufWriter::with_capacity(256 << 10, Bounded { to: &pack, left: MAX_BYTES });
        let commit = remote.fetch(&transport, &mut to)?;
        to.flush().map_err(|e| Error::io("write a pack", &e))?;
        Ok(commit)
    })?;
    let room = stage.room;
    let limits = Limits { objects: room.values * 5, bytes: MAX_BYTES, lists: room.documents, files: MAX_FILES };
    let pack = Pack::read(pack, full, &limits, job.op)?;
    let mut files = Files::new(&pack, &commit, &remote.directory, limits)?;
    let staged = context::stage(&job.building, &mut files, job.op);
    files.failed()?;
    job.building.discard(&place)?;
    staged
}

/// A server that never ends its pack does not fill the disk.
struct Bounded<W> {
    to: W,
    left: u64,
}

impl<W: Write> Write for Bounded<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.left = (self.left.checked_sub(bytes.len() as u64))
            .ok_or_else(|| std::io::Error::other(format!("it has more than {MAX_BYTES} bytes")))?;
        self.to.write_all(bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.to.flush()
    }
}
