//! Finding enabled plugins by their names, for those that call plugins.

use super::config::Config;
use super::places::Places;
use crate::error::{Error, Result};
use crate::image::Reference;
use crate::plugin::{Managed, ManagedPlugin};
use crate::store::plugins::{self as table, PluginRow};
use crate::store::{Db, images};
use std::sync::Arc;

/// The plugins of a root, by their names.
pub(crate) struct Names {
    db: Arc<Db>,
    places: Places,
}

impl Names {
    pub(crate) fn new(db: Arc<Db>, places: Places) -> Names {
        Names { db, places }
    }
}

/// The name of an installation for one that a user wrote: with a tag. `None`: it is not the name of one.
pub(super) fn full_name(name: &str) -> Option<String> {
    Some(Reference::parse(name).ok()?.or_latest().to_string())
}

/// A plugin's row and its configuration.
pub(super) fn read(db: &Db, row: &PluginRow) -> Result<Config> {
    let image = db.read(|tx| images::any(tx, &row.image_id))?;
    let image = image.ok_or_else(|| Error::corrupt(format!("plugin {}: its image is gone", row.name)))?;
    Config::read(&image.config)
}

impl Managed for Names {
    fn enabled(&self, name: &str) -> Result<Option<ManagedPlugin>> {
        let Some(full) = full_name(name) else { return Ok(None) };
        let Some(row) = self.db.read(|tx| table::named(tx, &full))? else { return Ok(None) };
        if !row.enabled {
            return Err(Error::not_found(format!("plugin {} found but disabled", row.name)));
        }
        let config = read(&self.db, &row)?;
        Ok(Some(ManagedPlugin {
            socket: self.places.socket(&row.id, &config),
            kinds: config.kinds(),
            places: self.places.shared(&row.id, &config),
            name: row.name,
        }))
    }
}
