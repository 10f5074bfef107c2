//! The layers and images that a load takes from an archive, counted and checked.

use super::intake::{FoundLayer, Intake};
use crate::error::{Error, Result};
use crate::image::digest::Digest;
use crate::image::publish::{NewImage, StagedLayers};
use crate::walls::Wall;

/// The layers that the images of an archive need.
#[derive(Default)]
pub(super) struct Loading {
    pub(super) staged: StagedLayers,
    /// Bytes of the images' configurations: documents of an archive can name one again and again.
    documents: usize,
}

impl Loading {
    /// Counts an image that is taken.
    pub(super) fn image(&mut self, intake: &Intake<'_>, image: &NewImage) -> Result<()> {
        self.documents += image.config.len() + size_of_val(image.layers.as_slice()) + size_of::<NewImage>();
        let most = intake.room().documents;
        match self.documents > most && Wall::ArchiveDocuments.stands() {
            true => {
                Err(Error::invalid(format!("archive: the configurations of its images take more than {most} bytes")))
            }
            false => Ok(()),
        }
    }

    /// Checks that layer number `i`, found at `path` or not, is the one expected, and keeps it for the commit.
    pub(super) fn layer(
        &mut self,
        intake: &Intake<'_>,
        i: usize,
        path: &str,
        found: Option<FoundLayer>,
        expected: &Digest,
    ) -> Result<()> {
        match found {
            Some(found) if found.diff_id != *expected => Err(Error::invalid(format!(
                "invalid diffID for layer {i}: expected \"{expected}\", got \"{}\"",
                found.diff_id
            ))),
            Some(FoundLayer { staged: Some(staged), .. }) => {
                self.staged.entry(*expected).or_insert(staged);
                Ok(())
            }
            Some(_) => Ok(()),
            // An archive may leave out what the store has.
            None if intake.catalog().has_layer(expected)? => Ok(()),
            None => Err(Error::invalid(format!("archive: the layer {path:?} is missing"))),
        }
    }
}
