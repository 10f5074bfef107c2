//! Answers about images for containers: which images were made from one, and how large one is.

use super::Images;
use crate::error::{ErrorKind, Result};
use crate::store::images as rows;
use std::collections::BTreeSet;

impl Images {
    /// The ids of the image that `name` means and of all images made from it here; none where there is no such image.
    pub(crate) fn descendants(&self, name: &str) -> Result<BTreeSet<String>> {
        let id = match self.resolve(name) {
            Ok(id) => id,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(BTreeSet::new()),
            Err(error) => return Err(error),
        };
        let all = self.db.read(rows::all)?;
        let mut kin = BTreeSet::from([id]);
        loop {
            let before = kin.len();
            let children = all.iter().filter(|row| row.parent.as_ref().is_some_and(|parent| kin.contains(parent)));
            let found: Vec<String> = children.map(|row| row.id.clone()).collect();
            kin.extend(found);
            if kin.len() == before {
                return Ok(kin);
            }
        }
    }

    /// Bytes of an image's layers, unpacked.
    pub(crate) fn size(&self, image_id: &str) -> Result<i64> {
        self.db.read(|tx| rows::layer_sizes(tx, image_id)).map(|sizes| sizes.iter().sum())
    }
}
