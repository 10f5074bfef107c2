//! Looking at everything the store holds: layers against their digests and their own tars, configurations against ids.
//!
//! A layer's tar is written again from its recipe and unpacked a second time beside it. Its digest proves the content;
//! where the trees differ all the same (a mode, an owner, a file too many), the second one is right and can take the
//! first one's place. Where the content is wrong, the layer can be fetched again from where its images came.

use super::catalog::Catalog;
use super::digest::Digest;
use super::layer::{Workers, entry::show, recipe};
use super::layer_store::{LayerStore, Staging};
#[cfg(feature = "registry")]
use super::remote::Refetcher;
use super::remove::Usage;
#[cfg(not(feature = "registry"))]
use super::repair::Refetcher;
use super::repair::Repair;
use super::{OnProgress, progress, stored_digest};
use crate::error::{Error, ErrorKind, Result};
use crate::kernel::path::{BENEATH_NO_LINKS, openat2};
use crate::kernel::tree::{self, Stat};
use crate::model::{Damage, DamagedPart, RegistryOptions, VerifyImages, VerifyReport};
use crate::op::Op;
use crate::store::images::{self as rows, ImageRow};
use crate::store::{Db, Flush};
use crate::time::now_ns;
use std::collections::BTreeSet;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// Files get their times from a clock of the kernel that is up to one tick behind, at 100 ticks a second (the fewest).
const MAX_TICK_NS: i64 = 10_000_000;

/// The result of looking at a layer.
enum Looked {
    Whole,
    /// The content is right, the tree is not; the layer staged under that name is.
    Tree(String, String),
    Content(String),
    /// The layer was removed meanwhile.
    Gone,
}

/// Looks at layers and configurations, and repairs them.
pub(crate) struct Verifier {
    pub(super) db: Arc<Db>,
    pub(super) layers: Arc<LayerStore>,
    pub(super) catalog: Arc<Catalog>,
    pub(super) refetcher: Arc<Refetcher>,
}

impl Verifier {
    /// The damage of layers, as far as one look at each one's directory shows; a line each. Microseconds a layer.
    pub(crate) fn damage_seen(&self) -> Result<Vec<String>> {
        let mut found = Vec::new();
        for diff_id in self.catalog.layer_ids()? {
            // The layer may have been removed in between.
            if let Some(what) = self.layers.look(&diff_id)
                && self.catalog.has_layer(&diff_id)?
            {
                found.push(format!("layer {diff_id}: {what}; `coracle verify --repair` may bring it back"));
            }
        }
        Ok(found)
    }

    /// Looks at all layers and configurations, and repairs what can be, where that is asked for.
    pub(crate) fn verify(
        &self,
        options: &RegistryOptions,
        request: &VerifyImages,
        usage: Usage<'_>,
        on_progress: OnProgress<'_>,
        op: Option<&Op>,
    ) -> Result<VerifyReport> {
        let repair = Repair { options, request, op };
        let mut report = VerifyReport::default();
        if let Some(reason) = self.db.read(rows::damage)? {
            report.damage.push(damage(DamagedPart::Database, "coracle.db", reason));
        }
        for diff_id in self.db.read(rows::all_layers)? {
            self.verify_layer(&repair, &stored_digest(&diff_id)?, usage, &mut *on_progress, &mut report)?;
        }
        for image in self.db.read(rows::all_with_hidden)? {
            self.verify_config(&repair, &image, &mut *on_progress, &mut report)?;
        }
        Ok(report)
    }

    fn verify_layer(
        &self,
        repair: &Repair<'_>,
        diff_id: &Digest,
        usage: Usage<'_>,
        on_progress: OnProgress<'_>,
        report: &mut VerifyReport,
    ) -> Result<()> {
        let staging = self.layers.stage()?;
        let seen = self.layers.identity(diff_id)?;
        let (reason, staged) = match self.look(&staging, diff_id, repair.op)? {
            Looked::Gone => return Ok(()),
            Looked::Whole => {
                report.layers += 1;
                return on_progress(progress::said("ok", &diff_id.short()));
            }
            Looked::Tree(reason, name) => (reason, Some(name)),
            Looked::Content(reason) => (reason, None),
        };
        report.layers += 1;
        on_progress(progress::said(&format!("damaged: {reason}"), &diff_id.short()))?;
        let mut found = damage(DamagedPart::Layer, &diff_id.to_string(), reason);
        found.images = self.names_with(diff_id)?;
        if repair.request.repair {
            let place = |name: &str| self.place(&staging, name, diff_id, usage);
            let done = match staged {
                Some(name) => place(&name),
                None => self.refetcher.layer(repair, &staging, diff_id, seen, place),
            };
            record_outcome(&mut found, done, repair.op, on_progress, diff_id)?;
        }
        report.damage.push(found);
        Ok(())
    }

    fn verify_config(
        &self,
        repair: &Repair<'_>,
        image: &ImageRow,
        on_progress: OnProgress<'_>,
        report: &mut VerifyReport,
    ) -> Result<()> {
        report.images += 1;
        let id = stored_digest(&image.id)?;
        let Some(reason) = wrong_config(image) else { return Ok(()) };
        on_progress(progress::said(&format!("damaged: {reason}"), &id.short()))?;
        let mut found = damage(DamagedPart::Image, &image.id, reason);
        found.images = self.shown_names(&image.id)?;
        if repair.request.repair {
            let done = self.repair_config(repair, &id);
            record_outcome(&mut found, done, repair.op, on_progress, &id)?;
        }
        report.damage.push(found);
        Ok(())
    }

    /// Looks at one layer.
    fn look(&self, staging: &Staging<'_>, diff_id: &Digest, op: Option<&Op>) -> Result<Looked> {
        let begun = (now_ns() - MAX_TICK_NS).div_euclid(1_000_000_000);
        let layer = match self.layers.open_layer(diff_id) {
            Ok(layer) => layer,
            Err(error) => return self.unreadable(diff_id, error),
        };
        let (name, stage) = staging.layer()?;
        let (read, staged) = std::thread::scope(|scope| -> Result<_> {
            let (mut feeder, workers) = Workers::start(scope, stage, &[])?;
            let mut taken = true;
            let read = recipe::replay(&layer, &mut |bytes| {
                op.map_or(Ok(()), Op::check)?;
                taken = feeder.push(bytes);
                if taken { Ok(()) } else { Err(Error::internal("the second copy ended early")) }
            });
            let raw = feeder.end();
            let staged = workers.join(raw);
            // A second copy that cannot be made says nothing about the first.
            if !taken {
                return Ok((Ok(()), Err(staged.err().unwrap_or_else(|| Error::internal("verify: a layer was lost")))));
            }
            Ok((read, staged))
        })?;
        if let Err(error) = read {
            return self.unreadable(diff_id, error);
        }
        let found = match staged {
            Ok(staged) => staged.diff_id,
            Err(error) if error.kind() == ErrorKind::Invalid => return Ok(Looked::Content(error.message().to_owned())),
            Err(error) => return Err(error),
        };
        if found != *diff_id {
            return Ok(Looked::Content(format!("its content has the digest {found}")));
        }
        let open = |layer: &OwnedFd| tree::open_dir_at(layer.as_fd(), recipe::DIFF);
        let want = open(&staging.open(&name)?)?;
        match open(&layer).and_then(|have| differ(&have, &want, begun, op)) {
            Ok(Some(reason)) => Ok(Looked::Tree(reason, name)),
            Ok(None) => {
                staging.discard(&name)?;
                Ok(Looked::Whole)
            }
            // A directory that cannot be read, say: the second copy is right all the same.
            Err(error) => Ok(match self.unreadable(diff_id, error)? {
                Looked::Content(reason) => Looked::Tree(reason, name),
                other => other,
            }),
        }
    }

    /// Decides what an error of reading a layer says about the layer.
    fn unreadable(&self, diff_id: &Digest, error: Error) -> Result<Looked> {
        let ours = matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM));
        match error.kind() {
            _ if ours => Err(error),
            ErrorKind::Cancelled | ErrorKind::Timeout | ErrorKind::Callback => Err(error),
            _ if !self.catalog.has_layer(diff_id)? => Ok(Looked::Gone),
            _ => Ok(Looked::Content(error.message().to_owned())),
        }
    }

    /// Puts a staged layer in the place of the damaged one.
    fn place(&self, staging: &Staging<'_>, name: &str, diff_id: &Digest, usage: Usage<'_>) -> Result<()> {
        let moving = self.layers.moving()?;
        for image in self.db.read(|tx| rows::images_of_layer(tx, &diff_id.to_string()))? {
            if self.db.read(|tx| rows::is_leased(tx, &image))? {
                return Err(Error::conflict("a running build stands on it: try again when it is over"));
            }
            if let Some(user) = usage(&image)?.iter().find(|user| user.running) {
                let id = user.id.get(..12).unwrap_or(&user.id);
                return Err(Error::conflict(format!("the running container {id} stands on it: stop it first")));
            }
        }
        moving.replace(staging, name, diff_id)
    }

    fn repair_config(&self, repair: &Repair<'_>, id: &Digest) -> Result<()> {
        let config = self.refetcher.config(repair, id)?;
        self.db.write(Flush::Durable, |tx| rows::set_config(tx, &id.to_string(), &config))
    }

    /// The names of the images that have a layer; ids of those without.
    fn names_with(&self, diff_id: &Digest) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for id in self.db.read(|tx| rows::images_of_layer(tx, &diff_id.to_string()))? {
            names.extend(self.shown_names(&id)?);
        }
        Ok(names)
    }

    fn shown_names(&self, id: &str) -> Result<Vec<String>> {
        let names = self.db.read(|tx| rows::names(tx, id))?;
        let tags: Vec<String> = names.into_iter().filter(|name| !name.is_digest).map(|name| name.name).collect();
        Ok(if tags.is_empty() { vec![id.to_owned()] } else { tags })
    }
}

fn damage(part: DamagedPart, id: &str, reason: String) -> Damage {
    Damage { part, id: id.to_owned(), images: Vec::new(), reason, repaired: false, unrepaired: String::new() }
}

/// Notes what came of a repair. Only what ends the whole operation is an error.
fn record_outcome(
    found: &mut Damage,
    done: Result<()>,
    op: Option<&Op>,
    on_progress: OnProgress<'_>,
    id: &Digest,
) -> Result<()> {
    op.map_or(Ok(()), Op::check)?;
    match done {
        Ok(()) => {
            found.repaired = true;
            on_progress(progress::said("repaired", &id.short()))
        }
        Err(error) => {
            found.unrepaired = error.message().to_owned();
            on_progress(progress::said(&format!("not repaired: {}", found.unrepaired), &id.short()))
        }
    }
}

/// The damage of an image's configuration.
fn wrong_config(image: &ImageRow) -> Option<String> {
    let found = Digest::of(&image.config);
    if found.to_string() != image.id {
        return Some(format!("its configuration has the digest {found}"));
    }
    super::config::ImageConfig::read(&image.config, usize::MAX).err().map(|error| error.message().to_owned())
}

/// The first difference of the tree `have` from the tree `want`, which was made after `begun` (Unix seconds): what got
/// its time by being made is not compared in that.
fn differ(have: &OwnedFd, want: &OwnedFd, begun: i64, op: Option<&Op>) -> Result<Option<String>> {
    let open = |tree: &OwnedFd, path: &[u8], flags: i32| {
        let path = if path.is_empty() { b"." } else { path };
        openat2(tree.as_fd(), path, flags, 0, BENEATH_NO_LINKS)
    };
    let dir = libc::O_RDONLY | libc::O_DIRECTORY;
    let mut left = vec![Vec::new()];
    while let Some(path) = left.pop() {
        op.map_or(Ok(()), Op::check)?;
        let (have, want) = (open(have, &path, dir)?, open(want, &path, dir)?);
        let names = |dir: &OwnedFd| tree::names(dir.as_fd()).map(BTreeSet::from_iter);
        let (ours, theirs): (BTreeSet<Vec<u8>>, BTreeSet<Vec<u8>>) = (names(&have)?, names(&want)?);
        if let Some(name) = ours.symmetric_difference(&theirs).next() {
            let what = if ours.contains(name) { "it should not be there" } else { "it is missing" };
            return Ok(Some(at(&child(&path, name), what)));
        }
        let stats = (tree::stat_fd(have.as_fd())?, tree::stat_fd(want.as_fd())?);
        if let Some(what) = other_stat(stats, begun).or(other_xattrs(&have, &want)?) {
            return Ok(Some(at(&path, &what)));
        }
        for name in ours {
            let stat = |dir: &OwnedFd| tree::stat_at(dir.as_fd(), &name);
            let (Some(ours), Some(theirs)) = (stat(&have)?, stat(&want)?) else { continue };
            let path = child(&path, &name);
            if ours.mode & libc::S_IFMT != theirs.mode & libc::S_IFMT {
                return Ok(Some(at(&path, "it is of another kind")));
            }
            if ours.is_dir() {
                left.push(path);
                continue;
            }
            let mut what = other_stat((ours, theirs), begun);
            if what.is_none() && ours.mode & libc::S_IFMT == libc::S_IFLNK {
                let target = |dir: &OwnedFd| tree::read_link_at(dir.as_fd(), &name);
                what = (target(&have)? != target(&want)?).then(|| "it points elsewhere".into());
            }
            if what.is_none() && ours.is_file() {
                let file = |dir: &OwnedFd| tree::open_at(dir.as_fd(), &name, libc::O_RDONLY, 0);
                what = other_xattrs(&file(&have)?, &file(&want)?)?;
            }
            if let Some(what) = what {
                return Ok(Some(at(&path, &what)));
            }
        }
    }
    Ok(None)
}

fn other_stat((have, want): (Stat, Stat), begun: i64) -> Option<String> {
    if have.mode != want.mode {
        return Some(format!("its mode is {:o}, not {:o}", have.mode & 0o7777, want.mode & 0o7777));
    }
    if (have.uid, have.gid) != (want.uid, want.gid) {
        return Some(format!("its owner is {}:{}, not {}:{}", have.uid, have.gid, want.uid, want.gid));
    }
    if have.mtime != want.mtime && want.mtime.seconds < begun {
        return Some("its time is another".into());
    }
    let file = have.is_file();
    if file && have.size != want.size {
        return Some(format!("it has {} bytes, not {}", have.size, want.size));
    }
    if file && have.links != want.links {
        return Some(format!("it has {} names, not {}", have.links, want.links));
    }
    (have.rdev != want.rdev).then(|| "it is another device".into())
}

fn other_xattrs(have: &OwnedFd, want: &OwnedFd) -> Result<Option<String>> {
    let names = |fd: &OwnedFd| tree::xattrs_fd(fd.as_fd()).map(BTreeSet::from_iter);
    let (ours, theirs): (BTreeSet<String>, BTreeSet<String>) = (names(have)?, names(want)?);
    for key in ours.union(&theirs) {
        let value = |fd: &OwnedFd| tree::get_xattr_fd(fd.as_fd(), key);
        if value(have)? != value(want)? {
            return Ok(Some(format!("its attribute {key} is another")));
        }
    }
    Ok(None)
}

fn child(path: &[u8], name: &[u8]) -> Vec<u8> {
    if path.is_empty() { name.to_vec() } else { [path, b"/", name].concat() }
}

fn at(path: &[u8], what: &str) -> String {
    format!("{}: {what}", if path.is_empty() { "/".into() } else { show(path) })
}
