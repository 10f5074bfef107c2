//! Saving: docker's layout with `manifest.json`, `repositories` and one directory per layer.
//!
//! Saving images twice gives the same bytes. Layers are written again from their recipes, and each is checked against
//! its diff id as it goes out.

use crate::error::{Error, ErrorKind, Result};
use crate::hex::{is_hex, is_hex_id};
use crate::image::catalog::{find, no_such};
use crate::image::config::ImageConfig;
use crate::image::digest::{Digest, Hasher, chain_ids};
use crate::image::layer::recipe;
use crate::image::layer_store::LayerStore;
use crate::image::reference::Reference;
use crate::image::{Emit, labels, stored_digest};
use crate::model::{Event, json_words};
use crate::op::Op;
use crate::store::Db;
use crate::store::images::{self as rows, ImageRow};
use rusqlite::Transaction;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{BufWriter, Write};
use std::sync::Arc;
use tar::{EntryType, Header};

/// An image to save, with what was asked of it.
pub(super) struct Wanted {
    pub(super) row: ImageRow,
    /// Diff ids and sizes of the tars, bottom first.
    pub(super) layers: Vec<(Digest, u64)>,
    pub(super) tags: Vec<Reference>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct ManifestItem {
    config: String,
    repo_tags: Option<Vec<String>>,
    layers: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<String>,
}

/// Writes images as docker's archives.
pub(crate) struct Saver {
    pub(in crate::image) db: Arc<Db>,
    pub(in crate::image) layers: Arc<LayerStore>,
}

impl Saver {
    /// Writes the named images to `archive`: a name with tag saves that tag, a repository all of its tags, an id or a
    /// digest the image without names.
    pub(crate) fn save(
        &self,
        names: &[String],
        archive: &mut dyn Write,
        emit: Emit<'_>,
        op: Option<&Op>,
    ) -> Result<()> {
        let wanted = self.db.read(|tx| wanted(tx, names))?;
        for image in &wanted {
            if image.layers.is_empty() {
                return Err(Error::internal("empty export - not implemented"));
            }
        }
        let mut saving = Saving {
            store: &self.layers,
            out: Tar::new(archive),
            op,
            done: HashSet::new(),
            layers: HashMap::new(),
            repositories: BTreeMap::new(),
        };
        let ids: HashSet<&str> = wanted.iter().map(|image| image.row.id.as_str()).collect();
        let mut manifest = Vec::new();
        for image in &wanted {
            let mut item = saving.image(image)?;
            item.parent = image.row.parent.clone().filter(|parent| ids.contains(parent.as_str()));
            manifest.push(item);
            emit(Event::image("save", &image.row.id, &image.row.id, &labels(&image.row.config)));
        }
        saving.finish(manifest)
    }
}

struct Saving<'a> {
    store: &'a LayerStore,
    out: Tar<'a>,
    op: Option<&'a Op>,
    /// Directories written.
    done: HashSet<Digest>,
    /// The directory that has a layer's tar.
    layers: HashMap<Digest, Digest>,
    repositories: BTreeMap<String, BTreeMap<String, String>>,
}

impl Saving<'_> {
    fn image(&mut self, image: &Wanted) -> Result<ManifestItem> {
        let id = stored_digest(&image.row.id)?;
        let mtime = u64::try_from(image.row.created.div_euclid(1_000_000_000)).unwrap_or(0);
        let diff_ids: Vec<Digest> = image.layers.iter().map(|(id, _)| *id).collect();
        let (mut directories, mut parent) = (Vec::new(), None);
        for (i, chain_id) in chain_ids(&diff_ids).iter().enumerate() {
            let top = i + 1 == diff_ids.len();
            let document = v1_document(if top { Some(&image.row.config) } else { None })?;
            let directory = v1_id(&document, chain_id, parent.as_ref())?;
            self.layer(&directory, document, parent.as_ref(), image.layers[i], mtime)?;
            directories.push(format!("{}/layer.tar", directory.hex()));
            parent = Some(directory);
        }
        let config = format!("{}.json", id.hex());
        if self.done.insert(id) {
            self.out.file(&config, mtime, &image.row.config)?;
        }
        for tag in &image.tags {
            if let (Some(name), Some(top)) = (tag.tag(), &parent) {
                self.repositories.entry(tag.repository()).or_default().insert(name.to_owned(), top.hex());
            }
        }
        let tags: Vec<String> = image.tags.iter().map(Reference::to_string).collect();
        let repo_tags = (!tags.is_empty()).then_some(tags);
        Ok(ManifestItem { config, repo_tags, layers: directories, parent: None })
    }

    fn layer(
        &mut self,
        directory: &Digest,
        mut document: Map<String, Value>,
        parent: Option<&Digest>,
        (diff_id, size): (Digest, u64),
        mtime: u64,
    ) -> Result<()> {
        if !self.done.insert(*directory) {
            return Ok(());
        }
        let hex = directory.hex();
        document.insert("id".into(), hex.clone().into());
        if let Some(parent) = parent {
            document.insert("parent".into(), parent.hex().into());
        }
        self.out.entry(&format!("{hex}/"), EntryType::Directory, 0o755, 0, mtime)?;
        self.out.file(&format!("{hex}/VERSION"), mtime, b"1.0")?;
        self.out.file(&format!("{hex}/json"), mtime, &to_json(&document)?)?;
        let path = format!("{hex}/layer.tar");
        if let Some(other) = self.layers.get(&diff_id) {
            return self.out.symlink(&path, &format!("../{}/layer.tar", other.hex()), mtime);
        }
        self.layers.insert(diff_id, *directory);
        self.out.entry(&path, EntryType::Regular, 0o644, size, mtime)?;
        self.out.layer(self.store, &diff_id, size, self.op)
    }

    fn finish(mut self, manifest: Vec<ManifestItem>) -> Result<()> {
        let manifest = if manifest.is_empty() { Value::Null } else { json!(manifest) };
        let line = |value: Vec<u8>| [value, b"\n".to_vec()].concat();
        self.out.file("manifest.json", 0, &line(to_json(&manifest)?))?;
        if !self.repositories.is_empty() {
            self.out.file("repositories", 0, &line(to_json(&self.repositories)?))?;
        }
        self.out.finish()
    }
}

/// The images meant by `names`, each once, in the order named.
pub(super) fn wanted(tx: &Transaction<'_>, names: &[String]) -> Result<Vec<Wanted>> {
    let mut images: Vec<Wanted> = Vec::new();
    for name in names {
        for (id, tag) in meant(tx, name)? {
            let at = match images.iter().position(|image| image.row.id == id) {
                Some(at) => at,
                None => {
                    let row = rows::get(tx, &id)?.ok_or_else(|| no_such(name))?;
                    let mut layers = Vec::new();
                    for (diff_id, size) in rows::tars(tx, &id)? {
                        layers.push((stored_digest(&diff_id)?, u64::try_from(size).unwrap_or(0)));
                    }
                    images.push(Wanted { row, layers, tags: Vec::new() });
                    images.len() - 1
                }
            };
            let tags = &mut images[at].tags;
            tags.extend(tag.filter(|tag| !tags.contains(tag)));
        }
    }
    Ok(images)
}

fn meant(tx: &Transaction<'_>, name: &str) -> Result<Vec<(String, Option<Reference>)>> {
    let missing = |e: Error| if e.kind() == ErrorKind::NotFound { no_such(name) } else { e };
    let hex = name.strip_prefix("sha256:").unwrap_or(name);
    if !is_hex_id(hex) {
        let reference = Reference::parse(name)?;
        if reference.tag().is_none() && reference.digest().is_none() {
            let repository = reference.repository();
            let all = rows::all_names(tx)?.into_iter().filter(|row| row.repository == repository && !row.is_digest);
            let all = all.map(|row| Ok((row.image_id, Some(Reference::parse(&row.name)?))));
            let all = all.collect::<Result<Vec<_>>>()?;
            if !all.is_empty() || !is_hex(hex) {
                return if all.is_empty() { Err(no_such(name)) } else { Ok(all) };
            }
        }
    }
    let found = find(tx, name).map_err(missing)?;
    Ok(vec![(found.id, found.reference.filter(|reference| reference.digest().is_none()))])
}

/// The oldest layout's description of a layer, without id and parent; `config` where it is an image's top layer.
fn v1_document(config: Option<&Vec<u8>>) -> Result<Map<String, Value>> {
    let mut document = Map::new();
    document.insert("created".into(), "1970-01-01T00:00:00Z".into());
    document.insert("container_config".into(), json!({}));
    document.insert("os".into(), "linux".into());
    if let Some(config) = config {
        // Read once more as we understand it: what follows takes it as an object.
        ImageConfig::parse(config)?;
        let whole: Map<String, Value> = crate::document::read(config)
            .map_err(|e| Error::invalid(format!("image configuration: {}", json_words(&e))))?;
        for (key, value) in whole {
            if !matches!(key.as_str(), "rootfs" | "history" | "id" | "parent" | "layer_id") && !value.is_null() {
                document.insert(key, value);
            }
        }
    }
    Ok(document)
}

fn v1_id(document: &Map<String, Value>, chain_id: &Digest, parent: Option<&Digest>) -> Result<Digest> {
    let mut document = document.clone();
    document.insert("layer_id".into(), chain_id.to_string().into());
    if let Some(parent) = parent {
        document.insert("parent".into(), parent.to_string().into());
    }
    Ok(Digest::of(&to_json(&document)?))
}

pub(super) fn to_json(value: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(|e| Error::internal(format!("save: {e}")))
}

fn damaged(diff_id: &Digest) -> Error {
    Error::corrupt(format!("layer {diff_id} in the store is damaged: its content does not have this digest"))
}

/// A tar being written.
pub(super) struct Tar<'a> {
    out: BufWriter<&'a mut dyn Write>,
}

impl<'a> Tar<'a> {
    pub(super) fn new(archive: &'a mut dyn Write) -> Tar<'a> {
        Tar { out: BufWriter::with_capacity(256 << 10, archive) }
    }
}

impl Tar<'_> {
    /// The content of an entry that is a layer's tar, checked as it goes out.
    pub(super) fn layer(&mut self, layers: &LayerStore, diff_id: &Digest, size: u64, op: Option<&Op>) -> Result<()> {
        let layer = layers.open_layer(diff_id)?;
        let (mut hasher, mut written) = (Hasher::new(), 0u64);
        recipe::replay(&layer, &mut |bytes| {
            if let Some(op) = op {
                op.check()?;
            }
            hasher.update(bytes);
            written += bytes.len() as u64;
            if written > size {
                return Err(damaged(diff_id));
            }
            self.write(bytes)
        })
        .map_err(|e| e.context(format_args!("save layer {diff_id}")))?;
        if written != size || hasher.finish() != *diff_id {
            return Err(damaged(diff_id));
        }
        self.pad(size)
    }

    pub(super) fn entry(&mut self, path: &str, kind: EntryType, mode: u32, size: u64, mtime: u64) -> Result<()> {
        let header = header(path, kind, mode, size, mtime)?;
        self.finish_header(header)
    }

    fn symlink(&mut self, path: &str, target: &str, mtime: u64) -> Result<()> {
        let mut header = header(path, EntryType::Symlink, 0o777, 0, mtime)?;
        header.set_link_name(target).map_err(|e| Error::internal(format!("save: {e}")))?;
        self.finish_header(header)
    }

    pub(super) fn file(&mut self, path: &str, mtime: u64, content: &[u8]) -> Result<()> {
        self.entry(path, EntryType::Regular, 0o644, content.len() as u64, mtime)?;
        self.write(content)?;
        self.pad(content.len() as u64)
    }

    fn finish_header(&mut self, mut header: Header) -> Result<()> {
        header.set_cksum();
        self.write(header.as_bytes())
    }

    fn pad(&mut self, size: u64) -> Result<()> {
        self.write(&[0; 512][..(size.wrapping_neg() % 512) as usize])
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.out.write_all(bytes).map_err(|e| Error::io("write the archive", &e))
    }

    pub(super) fn finish(mut self) -> Result<()> {
        self.write(&[0; 1024])?;
        self.out.flush().map_err(|e| Error::io("write the archive", &e))
    }
}

fn header(path: &str, kind: EntryType, mode: u32, size: u64, mtime: u64) -> Result<Header> {
    let mut header = Header::new_gnu();
    header.set_path(path).map_err(|e| Error::internal(format!("save: {e}")))?;
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_size(size);
    header.set_mtime(mtime);
    Ok(header)
}
