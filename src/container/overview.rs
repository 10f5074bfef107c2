//! All containers at once, for lists.

use super::network::View;
use super::spec::Spec;
use super::{Snapshot, Views, snapshot_of, spec_cache};
use crate::error::Result;
use crate::store::containers::{self as table, ContainerRow};
use crate::store::links::{self, Link};
use std::sync::Arc;

/// An overview with more published ports of all containers (40 bytes each) is not kept.
const MOST_PORTS: usize = 16 << 10;

/// The rows of all containers, as the database has them.
pub(super) struct Overview {
    /// In no order.
    rows: Vec<(Arc<ContainerRow>, Arc<Spec>)>,
    /// The errors of rows whose stored documents cannot be read.
    pub damaged: Vec<String>,
    pub networks: View,
    pub links: Vec<Link>,
}

impl Views {
    /// Every container; read again only if the database has changed.
    pub(super) fn all(&self) -> Result<Arc<Overview>> {
        let worth = |all: &Overview| all.rows.len() <= spec_cache::MOST && all.networks.ports() <= MOST_PORTS;
        self.overview.read(&self.register.db, worth, |tx| {
            let mut damaged = Vec::new();
            let mut rows = table::each(tx, |row, text| {
                let spec = self.register.spec_of(&row, text)?;
                damaged.extend((!spec.is_whole()).then(|| spec.damage.clone()));
                Ok((Arc::new(row), spec))
            })?;
            rows.retain(|(_, spec)| spec.plugin.is_none());
            self.register.specs.keep_only(rows.iter().map(|(row, _)| row.id.as_str()));
            Ok(Overview { rows, damaged, networks: View::of_all(tx)?, links: links::all(tx)? })
        })
    }

    /// Drops everything that was read before: it can be read again.
    pub(crate) fn forget_what_was_read(&self) {
        self.overview.forget();
        self.register.specs.forget_all();
        self.register.db.forget_pages();
    }

    /// The errors of containers whose stored documents are damaged.
    pub(crate) fn damaged(&self) -> Result<Vec<String>> {
        Ok(self.all()?.damaged.clone())
    }

    /// The overview with the present state of each container.
    pub(super) fn snapshots(&self, all: &Overview) -> Result<Vec<Snapshot>> {
        let states = self.register.states.glance()?;
        let found = all.rows.iter().map(|(row, spec)| {
            let now = self.register.states.now_in(&states, row.slot, &row.id)?;
            Ok(snapshot_of(Arc::clone(row), Arc::clone(spec), now))
        });
        found.collect()
    }
}
