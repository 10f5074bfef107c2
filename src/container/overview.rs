//! All containers at once, for who shows them in a list.

use super::network::View;
use super::spec::Spec;
use super::{Containers, Found, found_as, specs};
use crate::error::{ErrorKind, Result};
use crate::store::containers::{self as table, ContainerRow};
use crate::store::links::{self, Link};
use std::sync::Arc;

/// What the database says of all containers.
pub(super) struct Overview {
    /// In no order.
    rows: Vec<(Arc<ContainerRow>, Arc<Spec>)>,
    /// Why rows were left out: their stored documents cannot be read.
    pub damaged: Vec<String>,
    pub networks: View,
    pub links: Vec<Link>,
}

impl Containers {
    /// Every container, read anew only where something changed in the database.
    pub(super) fn all(&self) -> Result<Arc<Overview>> {
        let worth = |all: &Overview| all.rows.len() <= specs::MOST;
        self.overview.read(&self.db, worth, |tx| {
            let mut damaged = Vec::new();
            let rows = table::each(tx, |row, text| match self.specs.of(&row.id, text) {
                Ok(spec) => Ok(Some((Arc::new(row), spec))),
                Err(error) if error.kind() == ErrorKind::Corrupt => {
                    damaged.push(error.message().to_owned());
                    Ok(None)
                }
                Err(error) => Err(error),
            })?;
            let rows: Vec<_> = rows.into_iter().flatten().collect();
            self.specs.keep_only(rows.iter().map(|(row, _)| row.id.as_str()));
            Ok(Overview { rows, damaged, networks: View::of_all(tx)?, links: links::all(tx)? })
        })
    }

    /// What is wrong with containers that no list shows.
    pub(crate) fn damaged(&self) -> Result<Vec<String>> {
        Ok(self.all()?.damaged.clone())
    }

    /// The same with what each does now.
    pub(super) fn found_all(&self, all: &Overview) -> Result<Vec<Found>> {
        let states = self.states.glance()?;
        let found = all.rows.iter().map(|(row, spec)| {
            let now = self.states.now_in(&states, row.slot, &row.id)?;
            Ok(found_as(Arc::clone(row), Arc::clone(spec), now))
        });
        found.collect()
    }
}
