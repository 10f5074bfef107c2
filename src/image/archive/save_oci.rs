//! Saving as an OCI layout: `oci-layout`, `index.json`, `blobs/`. Layers go as plain tars, whose digests are their diff
//! ids, so nothing has to be compressed or counted first. Saving images twice gives the same bytes.

use super::save::{Tar, Wanted, to_json, wanted};
use crate::error::Result;
use crate::image::config::ImageConfig;
use crate::image::digest::Digest;
use crate::image::layer_store::LayerStore;
use crate::image::reference::Reference;
use crate::image::{Emit, host_architecture, labels, stored_digest};
use crate::model::Event;
use crate::op::Op;
use crate::store::Db;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::io::Write;
use std::sync::Arc;
use tar::EntryType;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";

/// Writes images as OCI layouts.
pub(crate) struct OciSaver {
    pub(in crate::image) db: Arc<Db>,
    pub(in crate::image) layers: Arc<LayerStore>,
}

impl OciSaver {
    /// Writes the named images to `archive`; names mean what they mean for [`super::Saver::save`].
    pub(crate) fn save(
        &self,
        names: &[String],
        archive: &mut dyn Write,
        emit: Emit<'_>,
        op: Option<&Op>,
    ) -> Result<()> {
        let wanted = self.db.read(|tx| wanted(tx, names))?;
        let mut out = Tar::new(archive);
        out.file("oci-layout", 0, br#"{"imageLayoutVersion":"1.0.0"}"#)?;
        for directory in ["blobs/", "blobs/sha256/"] {
            out.entry(directory, EntryType::Directory, 0o755, 0, 0)?;
        }
        let (mut done, mut manifests) = (HashSet::new(), Vec::new());
        for image in &wanted {
            for (diff_id, size) in &image.layers {
                if done.insert(*diff_id) {
                    out.entry(&path(diff_id), EntryType::Regular, 0o644, *size, 0)?;
                    out.layer(&self.layers, diff_id, *size, op)?;
                }
            }
            let mut document = |bytes: &[u8]| {
                let digest = Digest::of(bytes);
                if done.insert(digest) { out.file(&path(&digest), 0, bytes).map(|()| digest) } else { Ok(digest) }
            };
            document(&image.row.config)?;
            let manifest = to_json(&manifest(image)?)?;
            let digest = document(&manifest)?;
            manifests.extend(listed(image, &digest, manifest.len()));
            emit(Event::image("save", &image.row.id, &image.row.id, &labels(&image.row.config)));
        }
        let index = json!({ "schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json",
            "manifests": manifests });
        out.file("index.json", 0, &to_json(&index)?)?;
        out.finish()
    }
}

fn manifest(image: &Wanted) -> Result<Value> {
    let part = |kind: &str, digest: &Digest, size: u64| json!({ "mediaType": kind, "digest": digest.to_string(), "size": size });
    let layers: Vec<Value> = image.layers.iter().map(|(diff_id, size)| part(LAYER, diff_id, *size)).collect();
    let config = part(CONFIG, &stored_digest(&image.row.id)?, image.row.config.len() as u64);
    Ok(json!({ "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers }))
}

/// The entries of the index: one for each tag, or one without a name.
fn listed(image: &Wanted, digest: &Digest, size: usize) -> Vec<Value> {
    let config = ImageConfig::parse(&image.row.config).ok();
    let architecture = config.and_then(|config| config.architecture).filter(|name| !name.is_empty());
    let architecture = architecture.unwrap_or_else(|| host_architecture().into());
    let entry = |name: Option<&Reference>| {
        let mut entry = json!({ "mediaType": MANIFEST, "digest": digest.to_string(), "size": size,
            "platform": { "architecture": architecture, "os": "linux" } });
        if let Some(name) = name {
            entry["annotations"] = json!({ "io.containerd.image.name": name.full(),
                "org.opencontainers.image.ref.name": name.tag().unwrap_or_default() });
        }
        entry
    };
    match image.tags.as_slice() {
        [] => vec![entry(None)],
        tags => tags.iter().map(|name| entry(Some(name))).collect(),
    }
}

fn path(digest: &Digest) -> String {
    format!("blobs/sha256/{}", digest.hex())
}
