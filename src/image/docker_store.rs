//! Images out of dockerd's own store (overlay2), without dockerd.
//!
//! A layer's tar is written again from its tree and from what dockerd kept of the tar (`tar-split.json.gz`: the bytes
//! between contents, in order), goes through the pipeline that any layer goes through, and must have the digest that
//! the image's configuration promises. So ids are what they were, and what was changed in dockerd's directory is found.

use super::archive::stage_written;
use super::catalog::Catalog;
use super::config::{ImageConfig, MAX_CONFIG, check_values};
use super::digest::{Digest, chain_ids};
use super::layer::Staged;
use super::layer_store::{LayerStore, Staging};
use super::publish::{NewImage, Publisher, StagedLayers};
use super::reference::Reference;
use super::{Emit, labels};
use crate::error::{Error, Result};
use crate::kernel::path::{BENEATH_NO_LINKS, openat2};
use crate::kernel::tree;
use crate::model::{Event, from_base64, json_words};
use crate::op::Op;
use crate::order::Order as _;
use crate::store::Db;
use crate::store::images as rows;
use flate2::read::GzDecoder;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The longest line of `tar-split.json.gz` that is read: what stands between two files of a tar, as base64.
const MAX_LINE: u64 = 32 << 20;
/// The largest `repositories.json`, and the most values in it.
const MAX_NAMES: u64 = 16 << 20;
/// The longest of the files that hold one id.
const MAX_ID: u64 = 1 << 10;

/// dockerd's images.
pub(crate) struct DockerStore {
    /// `image/overlay2` and `overlay2`.
    images: PathBuf,
    trees: PathBuf,
    names: BTreeMap<Digest, Vec<Reference>>,
}

/// How an image was taken.
pub(crate) struct TakenImage {
    pub(crate) id: String,
    pub(crate) was_here: bool,
    /// Names that other images have here, which keep them.
    pub(crate) kept: Vec<String>,
}

/// `repositories.json`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Repositories {
    repositories: BTreeMap<String, BTreeMap<String, String>>,
}

/// A line of `tar-split.json.gz`.
#[derive(Deserialize)]
struct Piece {
    #[serde(rename = "type")]
    kind: u32,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    name_raw: Option<String>,
    #[serde(default)]
    size: Option<i64>,
    #[serde(default)]
    payload: Option<String>,
}

const FILE: u32 = 1;
const SEGMENT: u32 = 2;

impl DockerStore {
    /// Reads which images there are below dockerd's directory. Errors: it has none of overlay2.
    pub(crate) fn open(directory: &Path, most_values: usize) -> Result<DockerStore> {
        let images = directory.join("image/overlay2");
        if !images.is_dir() {
            let text = format!("{} holds no images of dockerd's driver overlay2", directory.display());
            return Err(Error::not_found(text));
        }
        let mut names: BTreeMap<Digest, Vec<Reference>> = BTreeMap::new();
        let path = images.join("repositories.json");
        if let Some(bytes) = read(&path, MAX_NAMES)? {
            check_values(&bytes, most_values).map_err(|e| e.context(path.display()))?;
            let read: Repositories = crate::document::read(&bytes)
                .map_err(|e| Error::invalid(format!("{}: {}", path.display(), json_words(&e))))?;
            for (name, id) in read.repositories.into_values().flatten() {
                let id = Digest::parse(&id, "repositories.json")?;
                names.entry(id).or_default().push(Reference::parse(&name)?);
            }
        }
        Ok(DockerStore { images, trees: directory.join("overlay2"), names })
    }

    /// The ids of all images, sorted.
    pub(crate) fn ids(&self) -> Result<Vec<String>> {
        let dir = self.images.join("imagedb/content/sha256");
        let failed = |e: &std::io::Error| Error::io(format_args!("read {}", dir.display()), e);
        let mut ids = Vec::new();
        for entry in std::fs::read_dir(&dir).map_err(|e| failed(&e))? {
            let name = entry.map_err(|e| failed(&e))?.file_name();
            ids.extend(name.to_str().and_then(Digest::from_hex));
        }
        ids.order();
        Ok(ids.iter().map(Digest::to_string).collect())
    }

    /// The names of an image, in their familiar form.
    pub(crate) fn names(&self, id: &str) -> Vec<String> {
        let id = Digest::parse(id, "image").ok();
        id.and_then(|id| self.names.get(&id)).into_iter().flatten().map(Reference::to_string).collect()
    }

    fn config(&self, id: &Digest) -> Result<Vec<u8>> {
        let path = self.images.join("imagedb/content/sha256").join(id.hex());
        let bytes = read(&path, MAX_CONFIG as u64)?;
        let bytes = bytes.ok_or_else(|| Error::not_found(format!("{} is not there", path.display())))?;
        match Digest::of(&bytes) == *id {
            true => Ok(bytes),
            false => Err(Error::corrupt(format!("{}: its digest is another", path.display()))),
        }
    }

    fn parent(&self, id: &Digest) -> Result<Option<Digest>> {
        let path = self.images.join("imagedb/metadata/sha256").join(id.hex()).join("parent");
        let text = read(&path, MAX_ID)?;
        text.map(|text| Digest::parse(String::from_utf8_lossy(&text).trim(), "parent")).transpose()
    }

    /// Writes the tar of the layer with the chain id `chain`.
    fn tar(&self, chain: &Digest, out: &mut dyn Write, op: Option<&Op>) -> Result<()> {
        let about = self.images.join("layerdb/sha256").join(chain.hex());
        let cache = read(&about.join("cache-id"), MAX_ID)?.unwrap_or_default();
        let cache = String::from_utf8_lossy(&cache).trim().to_owned();
        if !is_plain(&cache) {
            return Err(Error::corrupt(format!("{}: no name of a tree", about.join("cache-id").display())));
        }
        let tree = tree::open_dir_at(tree::open_dir(&self.trees.join(cache))?.as_fd(), "diff")?;
        let path = about.join("tar-split.json.gz");
        let file = File::open(&path).map_err(|e| Error::io(format_args!("open {}", path.display()), &e))?;
        let lines = BufReader::with_capacity(64 << 10, GzDecoder::new(file));
        replay(lines, &tree, out, op).map_err(|e| e.context(path.display()))
    }
}

/// Writes the tar that `lines` describe, with the contents of its files out of `tree`.
fn replay(mut lines: impl BufRead, tree: &OwnedFd, out: &mut dyn Write, op: Option<&Op>) -> Result<()> {
    let wrong = |e: &dyn std::fmt::Display| Error::corrupt(e.to_string());
    let mut line = Vec::new();
    loop {
        op.map_or(Ok(()), Op::check)?;
        line.clear();
        let got = lines.by_ref().take(MAX_LINE).read_until(b'\n', &mut line).map_err(|e| wrong(&e))?;
        if got == 0 {
            return Ok(());
        }
        if got as u64 == MAX_LINE {
            return Err(wrong(&"a line is too long"));
        }
        let piece: Piece = crate::document::read(&line).map_err(|e| wrong(&e))?;
        match piece.kind {
            SEGMENT => {
                let bytes = piece.payload.as_deref().map(|text| match text {
                    "" => Some(Vec::new()),
                    text => from_base64(text),
                });
                out.write_all(&bytes.flatten().ok_or_else(|| wrong(&"a segment is not base64"))?)?;
            }
            FILE if piece.size.unwrap_or(0) > 0 => content(tree, &piece, out)?,
            FILE => {}
            other => return Err(wrong(&format_args!("an entry of the unknown type {other}"))),
        }
    }
}

/// A door for fuzzers: lines of a tree that has the file `a`, and links to what is not to be read.
#[cfg(any(test, fuzzing))]
pub(super) fn fuzz(tree: &Path, data: &[u8]) {
    // No payload says it.
    let secret = getrandom::u64().expect("a random number").to_le_bytes();
    const FILE: &[u8] = b"content";
    let tree_path = tree.join("tree");
    let made = std::fs::create_dir(&tree_path)
        .and_then(|()| std::fs::write(tree.join("secret"), secret))
        .and_then(|()| std::fs::write(tree_path.join("a"), FILE))
        .and_then(|()| std::os::unix::fs::symlink("../secret", tree_path.join("l")))
        .and_then(|()| std::os::unix::fs::symlink("..", tree_path.join("d")));
    made.expect("a tree");
    let mut out = Vec::new();
    let _ = replay(data, &tree::open_dir(&tree_path).expect("the tree"), &mut out, None);
    assert!(out.len() <= data.len() * FILE.len(), "{} bytes of {}", out.len(), data.len());
    assert!(!out.windows(secret.len()).any(|part| part == secret), "what is outside of the tree");
}

/// Writes the content of a file of a layer's tree, which is as long as it was.
fn content(tree: &OwnedFd, piece: &Piece, out: &mut dyn Write) -> Result<()> {
    let name = match &piece.name_raw {
        Some(raw) => from_base64(raw).ok_or_else(|| Error::corrupt("a name is not base64"))?,
        None => piece.name.clone().unwrap_or_default().into_bytes(),
    };
    let name = super::layer::entry::clean(&name)?;
    let size = u64::try_from(piece.size.unwrap_or(0)).unwrap_or(0);
    let file = openat2(tree.as_fd(), &name, libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK, 0, BENEATH_NO_LINKS)?;
    let shown = || String::from_utf8_lossy(&name).into_owned();
    if !tree::stat_fd(file.as_fd())?.is_file() {
        return Err(Error::corrupt(format!("{} is not a file", shown())));
    }
    let copied = std::io::copy(&mut File::from(file).take(size), out)?;
    if copied == size { Ok(()) } else { Err(Error::corrupt(format!("{} is shorter than it was", shown()))) }
}

/// A name that stays in its directory.
pub(crate) fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

/// A small file, whole; `None`: there is none. Errors: it is longer.
fn read(path: &Path, most: u64) -> Result<Option<Vec<u8>>> {
    crate::kernel::file::read_bounded(path, most)
}

/// Takes images out of dockerd's store.
pub(crate) struct DockerImporter {
    pub(super) db: Arc<Db>,
    pub(super) layers: Arc<LayerStore>,
    pub(super) catalog: Arc<Catalog>,
    pub(super) publisher: Arc<Publisher>,
}

impl DockerImporter {
    /// Takes the image `id` out of dockerd's store, with the names that no other image has here.
    pub(crate) fn take(&self, store: &DockerStore, id: &str, emit: Emit<'_>, op: Option<&Op>) -> Result<TakenImage> {
        let id = Digest::parse(id, "image")?;
        let config = store.config(&id)?;
        let (read, layers) = ImageConfig::read(&config, self.layers.most_values())?;
        let (mut names, mut kept) = (Vec::new(), Vec::new());
        let here = self.db.read(|tx| {
            for name in store.names.get(&id).into_iter().flatten() {
                match rows::named(tx, &name.to_string())? {
                    Some(other) if other != id.to_string() => kept.push(name.to_string()),
                    Some(_) => {}
                    None => names.push(name.clone()),
                }
            }
            rows::get(tx, &id.to_string()).map(|row| row.is_some())
        })?;
        let was_here = here && names.is_empty();
        if !was_here {
            let staging = self.layers.stage()?;
            let staged = if here { StagedLayers::new() } else { self.stage(store, &staging, &layers, op)? };
            let parent = store.parent(&id)?;
            let created = read.created_ns();
            let image =
                NewImage { id, config: config.clone(), created, layers, parent, names, made_here: false, plugin: None };
            self.publisher.publish(&staging, &staged, std::slice::from_ref(&image))?;
            let text = id.to_string();
            emit(Event::image("load", &text, &text, &labels(&config)));
        }
        Ok(TakenImage { id: id.to_string(), was_here, kept })
    }

    fn stage(
        &self,
        store: &DockerStore,
        staging: &Staging<'_>,
        layers: &[Digest],
        op: Option<&Op>,
    ) -> Result<StagedLayers> {
        let mut staged = StagedLayers::new();
        for (chain, diff_id) in chain_ids(layers).iter().zip(layers) {
            if staged.contains_key(diff_id) || self.catalog.has_layer(diff_id)? {
                continue;
            }
            let (name, layer): (String, Staged) = stage_written(staging, &mut |out| store.tar(chain, out, op))
                .map_err(|error| error.context(format_args!("layer {diff_id}")))?;
            if layer.diff_id != *diff_id {
                let text = format!("layer {diff_id}: what dockerd has of it gives {}: it was changed", layer.diff_id);
                return Err(Error::corrupt(text));
            }
            staged.insert(*diff_id, (name, layer));
        }
        Ok(staged)
    }
}
