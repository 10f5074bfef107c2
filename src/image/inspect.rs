//! Everything about one image, and its history.

use super::catalog::{find, no_such};
use super::config::ImageConfig;
use super::layer_store::LayerStore;
use super::{list, stored_digest};
use crate::error::Result;
use crate::model::{GraphDriver, HistoryItem, ImageDetail, ImageSummary, ListImages, RootFs, StringMap};
use crate::store::Db;
use crate::store::images as rows;
use crate::time::parse_rfc3339;
use std::collections::HashMap;
use std::sync::Arc;

/// How Go writes a time that is not set.
const NO_TIME: &str = "0001-01-01T00:00:00Z";
/// Unix seconds of that time.
const NO_TIME_SECONDS: i64 = -62_135_596_800;
/// The storage as clients know it.
const DRIVER: &str = "overlay2";

/// Shows images to clients.
pub(crate) struct Views {
    pub(super) db: Arc<Db>,
    pub(super) layers: Arc<LayerStore>,
}

impl Views {
    /// The number of images, and the bytes of the files of all layers.
    pub(crate) fn totals(&self) -> Result<(u64, u64)> {
        self.db.read(crate::store::images::totals)
    }

    /// Lists images, newest first. Filters: `dangling`, `label`, `before`, `since`, `reference`.
    pub(crate) fn list(&self, query: &ListImages) -> Result<Vec<ImageSummary>> {
        self.db.read(|tx| list::list(tx, query))
    }

    /// Lists images as [`Views::list`] does, with the bytes that each shares with others and the number of its containers,
    /// which `users` answers by the image's id.
    pub(crate) fn list_with_usage(
        &self,
        query: &ListImages,
        users: &dyn Fn(&str) -> Result<usize>,
    ) -> Result<Vec<ImageSummary>> {
        let mut list = self.list(query)?;
        let layers_of = |image: &ImageSummary| self.db.read(|tx| rows::sized_layers(tx, &image.id));
        let layers = list.iter().map(layers_of).collect::<Result<Vec<_>>>()?;
        let mut images_of: HashMap<&str, usize> = HashMap::new();
        for (layer, _) in layers.iter().flatten() {
            *images_of.entry(layer).or_default() += 1;
        }
        let is_shared = |layer: &str| images_of.get(layer).is_some_and(|count| *count > 1);
        for (image, layers) in list.iter_mut().zip(&layers) {
            image.shared_size = layers.iter().filter(|(layer, _)| is_shared(layer)).map(|(_, size)| size).sum();
            image.containers = i64::try_from(users(&image.id)?).unwrap_or(i64::MAX);
        }
        Ok(list)
    }

    /// Bytes of all layers, each counted once.
    pub(crate) fn layers_size(&self) -> Result<i64> {
        self.db.read(rows::all_layers_size)
    }

    /// Everything about the image `name`.
    pub(crate) fn inspect(&self, name: &str) -> Result<ImageDetail> {
        let (row, names, layers, sizes) = self.db.read(|tx| {
            let missing = |e: crate::error::Error| match e.kind() {
                crate::error::ErrorKind::NotFound => e.context(format_args!("no such image: {name}")),
                _ => e,
            };
            let id = find(tx, name).map_err(missing)?.id;
            let row = rows::get(tx, &id)?.ok_or_else(|| missing(no_such(name)))?;
            Ok((row, rows::names(tx, &id)?, rows::layers(tx, &id)?, rows::layer_sizes(tx, &id)?))
        })?;
        let config = ImageConfig::parse(&row.config)?;
        let size = sizes.iter().sum();
        let (digests, tags): (Vec<_>, Vec<_>) = names.into_iter().partition(|name| name.is_digest);
        let last_comment = config.steps().next_back().and_then(|step| step.comment.clone());
        let mut graph = StringMap::new();
        let mut paths = Vec::new();
        for diff_id in layers.iter().rev() {
            paths.push(self.layers.diff_path(&stored_digest(diff_id)?).to_string_lossy().into_owned());
        }
        if let Some((top, below)) = paths.split_first() {
            graph.insert("UpperDir".into(), top.clone());
            if !below.is_empty() {
                graph.insert("LowerDir".into(), below.join(":"));
            }
        }
        Ok(ImageDetail {
            id: row.id,
            repo_tags: tags.into_iter().map(|name| name.name).collect(),
            repo_digests: digests.into_iter().map(|name| name.name).collect(),
            parent: row.parent.unwrap_or_default(),
            comment: config.comment.filter(|c| !c.is_empty()).or(last_comment).unwrap_or_default(),
            created: config.created.filter(|c| !c.is_empty()).unwrap_or_else(|| NO_TIME.into()),
            container: config.container.unwrap_or_default(),
            container_config: Some(config.container_config.unwrap_or_default()),
            docker_version: config.docker_version.unwrap_or_default(),
            author: config.author.unwrap_or_default(),
            config: config.config,
            architecture: config.architecture.unwrap_or_default(),
            variant: config.variant.unwrap_or_default(),
            os: config.os.filter(|os| !os.is_empty()).unwrap_or_else(|| "linux".into()),
            size,
            virtual_size: size,
            graph_driver: GraphDriver { data: Some(graph), name: DRIVER.into() },
            root_fs: RootFs { kind: "layers".into(), layers: Some(layers) },
        })
    }

    /// The steps of the image `name`, newest first.
    pub(crate) fn history(&self, name: &str) -> Result<Vec<HistoryItem>> {
        self.db.read(|tx| {
            let id = find(tx, name)?.id;
            let row = rows::get(tx, &id)?.ok_or_else(|| no_such(name))?;
            let mut sizes = rows::layer_sizes(tx, &id)?.into_iter();
            let config = ImageConfig::parse(&row.config)?;
            let mut items: Vec<HistoryItem> = config
                .steps()
                .map(|step| HistoryItem {
                    id: "<missing>".into(),
                    created: seconds(step.created.as_deref()),
                    created_by: step.created_by.clone().unwrap_or_default(),
                    tags: None,
                    // A history that lists more layers than there are is shown all the same.
                    size: if step.empty_layer == Some(true) { 0 } else { sizes.next().unwrap_or(0) },
                    comment: step.comment.clone().unwrap_or_default(),
                })
                .collect();
            items.reverse();
            // The newest steps belong to this image and its local parents.
            let mut next = Some(row);
            for item in &mut items {
                let Some(image) = next.take() else { break };
                let tags = rows::names(tx, &image.id)?.into_iter().filter(|name| !name.is_digest);
                let tags: Vec<String> = tags.map(|name| name.name).collect();
                item.tags = (!tags.is_empty()).then_some(tags);
                next = match &image.parent {
                    Some(parent) => rows::get(tx, parent)?,
                    None => None,
                };
                item.id = image.id;
            }
            Ok(items)
        })
    }
}

fn seconds(time: Option<&str>) -> i64 {
    let ns = time.and_then(|time| parse_rfc3339(time.as_bytes()));
    ns.map_or(NO_TIME_SECONDS, |ns| ns.div_euclid(1_000_000_000))
}
