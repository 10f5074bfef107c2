//! Files in and out of containers: archives, export, changes, commit.

use super::Engine;
use crate::container::Archive;
use crate::error::Result;
use crate::model::*;
use crate::op::Op;
use std::io::{Read, Write};

impl Engine {
    /// Describes the file at `path` of a container, binds and volumes included; a link at its end is not followed, unless the
    /// path ends in `/` or `/.`.
    ///
    /// Errors: no such container, no such file, a file although the path names a directory.
    pub fn container_archive_stat(&self, id: &str, path: &str, op: Option<&Op>) -> Result<PathStat> {
        self.0.containers.files.archive_stat(id, path, op)
    }
    /// Prepares a tar of `path`: the file or directory, with everything below it, named by the path's last part. If the
    /// path ends in `/.`, the tar has only the directory's content. A stopped container cannot start until the returned
    /// archive is dropped.
    pub fn container_archive_get(&self, id: &str, path: &str, op: Option<&Op>) -> Result<Archive> {
        self.0.containers.files.archive_get(id, path, op)
    }
    /// Extracts a tar, plain or compressed, into the directory `path` of a container.
    ///
    /// Errors: no such directory; `path` or a place below it is read-only ([`crate::ErrorKind::Forbidden`]); with
    /// `no_overwrite_dir_non_dir`, a directory would replace a file, or a file a directory.
    pub fn container_archive_put(
        &self,
        id: &str,
        path: &str,
        archive: &mut dyn Read,
        how: PutArchive,
        op: Option<&Op>,
    ) -> Result<()> {
        self.0.containers.files.archive_put(id, path, archive, how, op)
    }
    /// Like [`Engine::container_archive_get`], but follows a link at the end, as API versions before 1.24 do.
    pub fn container_copy(&self, id: &str, path: &str, op: Option<&Op>) -> Result<Archive> {
        self.0.containers.files.copy(id, path, op)
    }
    /// Writes a container's whole file system as a tar, without binds and volumes.
    pub fn container_export(&self, id: &str, out: &mut dyn Write, op: Option<&Op>) -> Result<()> {
        self.0.containers.files.export(id, out, op)
    }
    /// Lists the files that a container changed, compared with its image, by path.
    pub fn container_changes(&self, id: &str) -> Result<Vec<FileChange>> {
        self.0.containers.files.changes(id)
    }
    /// Makes an image of a container, without its volumes; returns the image's id.
    ///
    /// Errors: an invalid name, an instruction that is not allowed in `changes`.
    pub fn container_commit(&self, id: &str, how: &CommitContainer, op: Option<&Op>) -> Result<String> {
        self.0.containers.files.commit(id, how, op)
    }
}
