//! Contexts out of git repositories, and sources of ADD.

use super::context;
use super::job::Job;
use super::sources::{SourceFile, own_tree};
use crate::buildfile::{Copy, Patterns};
use crate::error::{Error, ErrorKind, Result};
use crate::git::{Fetched, Files, GitDir, Id, Limits, Pack, Remote};
use crate::hex;
use crate::image::beside;
use crate::kernel::tree;
use crate::parts::Part;
use crate::registry::Download;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// Bytes of the files of a commit, and of all objects of its pack.
const MAX_BYTES: u64 = 16 << 30;
const MAX_FILES: usize = 1_000_000;

/// The least digits of a commit's id that `--checksum` takes: fewer are of many commits.
const LEAST_DIGITS: usize = 7;

/// The context that a commit of a repository is. Answers its tree, the build file's name and content.
pub(super) fn context(job: &Job<'_>, remote: &Remote) -> Result<(Option<Arc<OwnedFd>>, String, Vec<u8>)> {
    let (root, _) = fetched(job, remote, false).map_err(|error| named(error, "remote:", remote))?;
    let (name, bytes) = context::build_file(&root, &job.request.dockerfile)?;
    context::take_away(&root, Some(&name))?;
    Ok((Some(root), name, bytes))
}

/// A repository as a source of ADD: the files of a commit, and on request git's own.
pub(super) fn source(job: &Job<'_>, remote: &Remote, copy: &Copy, excluded: &Patterns) -> Result<SourceFile> {
    let taken = || {
        if matches!((copy.keep_git_dir, remote.keep_git_dir), (Some(flag), Some(query)) if flag != query) {
            return Err(Error::invalid("inconsistent keep-git-dir configuration"));
        }
        let wanted = checksum(copy, remote)?;
        let keep = copy.keep_git_dir.or(remote.keep_git_dir).unwrap_or(false);
        let (root, commit) = fetched(job, remote, keep)?;
        let commit = hex::encode(&commit);
        match commit.starts_with(&wanted) {
            true => own_tree(root, excluded, job.op),
            false => Err(Error::invalid(format!("--checksum: the commit is {commit}, and not {wanted}"))),
        }
    };
    taken().map_err(|error| named(error, "the repository", remote))
}

/// The first digits that the commit's id is to have; empty: any.
fn checksum(copy: &Copy, remote: &Remote) -> Result<String> {
    let (flag, query) = (copy.checksum.as_str(), remote.checksum.as_str());
    if !flag.is_empty() && !query.is_empty() && flag != query {
        return Err(Error::invalid(format!("checksum mismatch {flag:?} != {query:?}")));
    }
    let said = if flag.is_empty() { query } else { flag };
    let wanted = said.to_ascii_lowercase();
    if !said.is_empty() && (!hex::is_hex(&wanted) || wanted.len() > 40) {
        return Err(Error::invalid(format!("--checksum: {said:?} is not the id of a commit")));
    }
    if !said.is_empty() && wanted.len() < LEAST_DIGITS {
        let text =
            format!("--checksum: {wanted} is too short: it takes at least {LEAST_DIGITS} digits of a commit's id");
        return Err(Error::invalid(text));
    }
    Ok(wanted)
}

/// Says of an error which repository it is about.
fn named(error: Error, word: &str, remote: &Remote) -> Error {
    match error.kind() {
        ErrorKind::Cancelled | ErrorKind::Timeout | ErrorKind::Callback => error,
        _ => error.context(format_args!("{word} {}", remote.shown)),
    }
}

/// The files of the wanted commit, and its id. `keep_git_dir`: git's own files are made, too, unless a directory of the
/// repository is wanted.
fn fetched(job: &Job<'_>, remote: &Remote, keep_git_dir: bool) -> Result<(Arc<OwnedFd>, Id)> {
    Part::Git.need()?;
    let transport = Download::transport(&job.shop.options.registry);
    let (place, stage) = job.building.directory()?;
    let file = || tree::unnamed_file(stage.dir.as_fd()).map(File::from);
    let (pack, full) = (file()?, file()?);
    let fetched: Fetched = beside(&transport, &mut |_| Ok(()), job.op, |_| {
        let mut to = BufWriter::with_capacity(256 << 10, Bounded { to: &pack, left: MAX_BYTES });
        let fetched = remote.fetch(&transport, &mut to)?;
        to.flush().map_err(|e| Error::io("write a pack", &e))?;
        Ok(fetched)
    })?;
    let room = stage.room;
    let limits = Limits { objects: room.values * 5, bytes: MAX_BYTES, lists: room.documents, files: MAX_FILES };
    let pack = Pack::read(pack, full, &limits, job.op)?;
    let files = Files::new(&pack, &fetched.id, &remote.directory, limits)?;
    let mut files = files.without_modules(remote.skips_modules);
    let staged = context::stage(&job.building, &mut files, job.op);
    files.failed()?;
    let root = staged?;
    // As BuildKit: a part of the repository comes without them.
    if keep_git_dir && remote.directory.split('/').all(|name| matches!(name, "" | ".")) {
        GitDir { pack: &pack, fetched: &fetched, remote, limits, op: job.op }.make(root.as_fd())?;
    }
    let commit = pack.commit(&fetched.id)?;
    job.building.discard(&place)?;
    Ok((root, commit))
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
