//! Commits a container as an image.

use super::Files;
use crate::container::Snapshot;
use crate::container::spec::over;
use crate::container::state::{Verb, Way, decide};
use crate::error::Result;
use crate::image::archive_writer::TarWriter;
use crate::image::{Commit, check_commit_name};
use crate::kernel::path::{BENEATH_NO_LINKS, openat2};
use crate::kernel::tree::{self, is_elsewhere};
use crate::model::CommitContainer;
use crate::op::Op;
use std::io::Write;
use std::os::fd::AsFd;

impl Files {
    /// Makes an image of a container's changes; returns the image's id.
    pub(crate) fn commit(&self, reference: &str, how: &CommitContainer, op: Option<&Op>) -> Result<String> {
        let name = check_commit_name(&how.repo, &how.tag)?;
        let found = self.finder.find(reference)?;
        let base = how.config.as_ref().unwrap_or(&found.spec.config);
        let mut config = base.clone();
        crate::image::apply_changes(&mut config, &how.changes)?;
        let config = over(&config, &found.spec.config);
        // A container that ends at this moment is committed in its final state.
        let pause = how.pause && decide(Verb::Commit, &found)? == Way::Freeze;
        let held = if pause { self.freezer.hold_still(&found.row.id)? } else { None };
        let commit = Commit {
            parent: &found.row.image_id,
            container: &found.row.id,
            container_config: &found.spec.config,
            config: &config,
            author: &how.author,
            comment: &how.comment,
            name: name.as_ref(),
        };
        let committed = self.images.committer.commit(&commit, &mut |out| self.write_layer(&found, out, op));
        let named = committed.and_then(|(id, tag)| {
            if let Some(event) = tag {
                self.register.journal.append(&event)?;
            }
            let image = name.as_ref().map(ToString::to_string).unwrap_or_default();
            self.register.event(
                &found,
                "commit",
                &[("comment", &how.comment), ("imageID", &id), ("imageRef", &image)],
            )?;
            Ok(id)
        });
        let thawed = held.map_or(Ok(()), |held| self.freezer.let_go_on(&found.row.id, &held));
        named.and_then(|id| thawed.map(|()| id))
    }

    /// Writes the container's changes as a layer's tar.
    pub(in crate::container) fn write_layer(
        &self,
        found: &Snapshot,
        out: &mut dyn Write,
        op: Option<&Op>,
    ) -> Result<()> {
        let (upper, changes) = self.register.if_there(found, self.changed(&found.row.id, &found.row.image_id))?;
        let mut tar = TarWriter::new(out, op);
        for change in changes {
            let path = change.path.strip_prefix(b"/").unwrap_or(&change.path);
            let (above, name) =
                path.iter().rposition(|&b| b == b'/').map_or((&b""[..], path), |at| (&path[..at], &path[at + 1..]));
            if change.is_deletion() {
                let separator: &[u8] = if above.is_empty() { b"" } else { b"/" };
                tar.whiteout(&[above, separator, b".wh.", name].concat())?;
                continue;
            }
            let dir = if above.is_empty() { b"." } else { above };
            let flags = libc::O_PATH | libc::O_DIRECTORY;
            let parent = match openat2(upper.as_fd(), dir, flags, 0, BENEATH_NO_LINKS) {
                Err(error) if is_elsewhere(&error) => continue,
                parent => parent?,
            };
            match tree::stat_at(parent.as_fd(), name)? {
                Some(stat) if stat.is_dir() => match tree::open_dir_at(parent.as_fd(), name) {
                    Err(error) if is_elsewhere(&error) => {}
                    dir => tar.directory(dir?.as_fd(), path)?,
                },
                Some(stat) => tar.entry(parent.as_fd(), name, path, &stat)?,
                None => {}
            }
        }
        // A removal that ran meanwhile left only some of the files: these are not an image of the container.
        self.register.if_there(found, Ok(()))?;
        tar.finish()
    }
}
