//! Volumes: directories that outlive the containers that use them.
//!
//! A volume is its row and its directory `root/volumes/<name>/_data`. What a volume is to hold from the beginning is
//! staged in `root/tmp/volume-…`, which its maker holds locked, and moved to its place in the transaction that adds its
//! row; a removal moves it back there in the transaction that takes the row away. So a program killed at any point
//! leaves a volume whole or none, and what is left in `tmp/` is put right by the next open: see [`Volumes::sweep`].

mod copy;
mod options;
mod root_copy;

pub(crate) use options::{Source, check as check_options, names_label};
pub(crate) use root_copy::{copy_place, lies_elsewhere};

use crate::error::{Error, ErrorKind, Result};
use crate::event::Journal;
use crate::kernel::mount;
use crate::kernel::remove::remove_tree;
use crate::kernel::tree::{self, Lock};
use crate::kernel::turn;
use crate::model::{CreateVolume, Event, ListVolumes, StringMap, Volume, VolumeList, VolumeOptions};
use crate::store::volumes::{self as table, VolumeRow};
use crate::store::{Db, Durability, Flush, Leftovers};
use crate::walls::Wall;
use regex_lite::Regex;
use rusqlite::Transaction;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The one driver.
pub(crate) const LOCAL: &str = "local";

const DATA: &str = "_data";
const PREFIX: &str = "volume-";

/// The volumes of one engine root.
pub(crate) struct Volumes {
    root: PathBuf,
    dir: OwnedFd,
    tmp: OwnedFd,
    db: Arc<Db>,
    journal: Arc<Journal>,
    durability: Durability,
    /// Staging directories that could not be removed.
    pub(crate) leftovers: Leftovers,
}

/// A volume that a container is about to use: see [`Volumes::stage`].
pub(crate) struct Staged<'a> {
    name: String,
    /// Where it is new: a directory of ours that becomes it.
    staging: Option<Staging<'a>>,
    /// Where it is new: its labels and options.
    made_with: CreateVolume,
}

impl Staged<'_> {
    /// Adds the labels and options of a volume that is new.
    pub(crate) fn made_with(self, asked: &VolumeOptions) -> Self {
        let map = |map: &StringMap| (!map.is_empty()).then(|| map.clone());
        let driver_opts = asked.driver_config.as_ref().and_then(|driver| map(&driver.options));
        Staged {
            made_with: CreateVolume { labels: map(&asked.labels), driver_opts, ..CreateVolume::default() },
            ..self
        }
    }
    /// The volume's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

/// The mode of what only the engine enters: mounts show the data directories below it.
fn own_mode() -> u32 {
    if Wall::RootModes.stands() { 0o700 } else { 0o701 }
}

impl Volumes {
    /// Opens the volumes of the existing directory `root`, and puts right what programs that ended left half done.
    pub(crate) fn open(root: &Path, db: Arc<Db>, journal: Arc<Journal>, durability: Durability) -> Result<Volumes> {
        let open = |name: &str| {
            let dir = tree::make_dir(&root.join(name), own_mode())?;
            // Those of older releases could be passed through.
            tree::chmod_fd(dir.as_fd(), own_mode()).map(|()| dir)
        };
        let (dir, tmp, leftovers) = (open("volumes")?, open("tmp")?, Leftovers::default());
        let volumes = Volumes { root: root.to_owned(), dir, tmp, db, journal, durability, leftovers };
        volumes.sweep()?;
        Ok(volumes)
    }

    /// Volumes by name.
    pub(crate) fn list(&self, query: &ListVolumes) -> Result<VolumeList> {
        let filter = Filter::new(query)?;
        let mut list = VolumeList::default();
        for (row, used) in self.db.read(table::all)? {
            let volume = self.shown(&row)?;
            if filter.takes(&volume, used) {
                list.volumes.push(volume);
            }
        }
        Ok(list)
    }

    /// Makes a volume; one that is there already is answered as it is.
    pub(crate) fn create(&self, body: &CreateVolume) -> Result<Volume> {
        self.create_of(body, None)
    }

    /// As [`Volumes::create`]; a new volume begins with the files of `content`.
    pub(crate) fn create_of(&self, body: &CreateVolume, content: Option<&OwnedFd>) -> Result<Volume> {
        let name = match body.name.as_str() {
            "" => new_name()?,
            name => name.to_owned(),
        };
        let wrong = |error: Error| error.context(format_args!("create {name}"));
        check_driver(&body.driver).map_err(wrong)?;
        check_name(&name).map_err(wrong)?;
        options::check(body.driver_opts.as_ref().unwrap_or(&StringMap::new())).map_err(wrong)?;
        let mut staged = self.stage(&name, content)?;
        let row = self.db.write(Flush::Durable, |tx| self.settle(tx, &mut staged, body).map(|(row, _)| row))?;
        self.event("create", &name, &[])?;
        self.shown(&row)
    }

    /// The volume of that name.
    pub(crate) fn inspect(&self, name: &str) -> Result<Volume> {
        self.shown(&self.row(name)?)
    }

    /// Removes a volume that no container uses. Of what cannot be removed its event says so.
    pub(crate) fn remove(&self, name: &str) -> Result<()> {
        let staging = self.staging()?;
        self.db.write(Flush::Durable, |tx| {
            table::delete(tx, name)?;
            match tree::rename_at(self.dir.as_fd(), name, staging.dir.as_fd(), name) {
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
                other => other,
            }
        })?;
        let place = self.staged_at(&staging.name);
        staging.clear()?;
        let left = self.leftovers.said_of(&[&place]);
        let extras: Vec<(&str, &str)> = left.iter().map(|left| ("leftover", left.as_str())).collect();
        self.event("destroy", name, &extras)
    }

    /// The source that a container mounts for a volume.
    pub(crate) fn source(&self, name: &str) -> Result<Source> {
        let own = Source::Directory { path: self.mountpoint(name), recursive: false, attributes: 0, own: true };
        let options = document(self.row(name)?.options.as_deref())?.unwrap_or_default();
        Ok(options::source(&options)?.unwrap_or(own))
    }

    /// Mounts the file system of a volume, in a mount namespace of its own. `owner`: the host's ids of the root of the user
    /// namespace that it is made for. `label`: the SELinux label of its files, unless its options name one.
    pub(crate) fn mount_alone(&self, name: &str, owner: Option<(u32, u32)>, label: Option<&str>) -> Result<OwnedFd> {
        let source = self.source(name)?;
        let own_ids = source.has_own_ids();
        let Source::FileSystem { kind, device, mut options, attributes } = source else {
            return Err(Error::internal(format!("volume {name} is not a file system of its own")));
        };
        if let Some((uid, gid)) = owner.filter(|_| !own_ids && kind == "tmpfs") {
            options::shift_owner(&mut options, uid, gid);
        }
        if let Some(label) = label.filter(|_| !names_label(&options)) {
            options.push(("context".to_owned(), label.to_owned()));
        }
        let mounted = mount::file_system(&kind, &device, &pairs(&options), attributes);
        mounted.and_then(|mounted| mount::alone(mounted.as_fd())).map_err(|error| {
            let place = self.mountpoint(name);
            let error = error.context(format_args!("failed to mount local volume: mount {device}:{}", place.display()));
            error
                .context(format_args!("error while mounting volume '{}'", place.display()))
                .with_kind(ErrorKind::Internal)
        })
    }

    /// The lock under which a volume is filled or mounted.
    pub(crate) fn lock(&self, name: &str) -> Result<OwnedFd> {
        let volume = tree::open_dir_at(self.dir.as_fd(), name)?;
        tree::lock(volume.as_fd(), Lock::Exclusive, format_args!("volume {name}"))?;
        Ok(volume)
    }

    /// Where a volume's data lies.
    pub(crate) fn mountpoint(&self, name: &str) -> PathBuf {
        self.root.join("volumes").join(name).join(DATA)
    }

    /// Makes a volume ready for a container, before the transaction that makes it a use: a new one is staged, one that
    /// is there and empty is filled from `content`, a directory of the container's image.
    pub(crate) fn stage(&self, name: &str, content: Option<&OwnedFd>) -> Result<Staged<'_>> {
        if let Some(row) = self.standing(name)? {
            if let Some(content) = content {
                self.fill(&row, content)?;
            }
            return Ok(Staged { name: name.to_owned(), staging: None, made_with: CreateVolume::default() });
        }
        let staging = self.staging()?;
        tree::mkdir_at(staging.dir.as_fd(), name, own_mode())?;
        let volume = tree::open_dir_at(staging.dir.as_fd(), name)?;
        self.make_data(&volume)?;
        if let Some(content) = content {
            let data = tree::open_dir_at(volume.as_fd(), DATA)?;
            copy::copy_tree(content.as_fd(), data.as_fd())?;
        }
        if self.durability == Durability::Full {
            match content {
                Some(_) => tree::sync_fs(volume.as_fd())?,
                None => tree::sync_fd(volume.as_fd())?,
            }
        }
        Ok(Staged { name: name.to_owned(), staging: Some(staging), made_with: CreateVolume::default() })
    }

    /// Makes a staged volume one that `container` uses, whose row must be there. Answers whether it is new, which is to
    /// be told by [`Volumes::event`].
    pub(crate) fn take(&self, tx: &Transaction<'_>, staged: &mut Staged<'_>, container: &str) -> Result<bool> {
        let body = std::mem::take(&mut staged.made_with);
        let (_, new) = self.settle(tx, staged, &body)?;
        table::add_use(tx, container, &staged.name)?;
        Ok(new)
    }

    /// Appends an event of a volume.
    pub(crate) fn event(&self, action: &str, name: &str, extras: &[(&str, &str)]) -> Result<()> {
        self.journal.append(&Event::volume(action, name, LOCAL, extras)).map(drop)
    }

    fn row(&self, name: &str) -> Result<VolumeRow> {
        let row = self.db.read(|tx| table::get(tx, name))?;
        row.ok_or_else(|| Error::not_found(format!("get {name}: no such volume")))
    }

    /// The row of a volume, and whether it had to be added.
    fn settle(&self, tx: &Transaction<'_>, staged: &mut Staged<'_>, body: &CreateVolume) -> Result<(VolumeRow, bool)> {
        let name = staged.name.as_str();
        if let Some(row) = table::get(tx, name)? {
            return Ok((row, false));
        }
        let text = |map: &Option<StringMap>| {
            let text = map.as_ref().map(serde_json::to_string).transpose();
            text.map_err(|e| Error::internal(format!("write a volume's options: {e}")))
        };
        self.publish(name, staged.staging.as_ref())?;
        let row = VolumeRow {
            name: name.to_owned(),
            created_ns: crate::time::now_ns(),
            options: text(&body.driver_opts)?,
            labels: text(&body.labels)?,
        };
        table::insert(tx, &row)?;
        Ok((row, true))
    }

    /// Moves a staged volume to its place. Data that stands there already, of a volume without a row, is nobody's to
    /// throw away: it becomes the volume's.
    fn publish(&self, name: &str, staging: Option<&Staging<'_>>) -> Result<()> {
        if let Some(staging) = staging {
            match tree::rename_at(staging.dir.as_fd(), name, self.dir.as_fd(), name) {
                Err(error) if error.raw_os_error() == Some(libc::EEXIST) => {}
                other => {
                    other?;
                    return self.flush();
                }
            }
        }
        match tree::mkdir_at(self.dir.as_fd(), name, own_mode()) {
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) => {}
            other => other?,
        }
        let volume = tree::open_dir_at(self.dir.as_fd(), name)?;
        if tree::stat_at(volume.as_fd(), DATA)?.is_none() {
            self.make_data(&volume)?;
        }
        self.flush()
    }

    fn make_data(&self, volume: &OwnedFd) -> Result<()> {
        tree::mkdir_at(volume.as_fd(), DATA, 0o755)?;
        // Whatever the caller's umask is.
        tree::chmod_fd(tree::open_dir_at(volume.as_fd(), DATA)?.as_fd(), 0o755)
    }

    fn flush(&self) -> Result<()> {
        match self.durability {
            Durability::Full => tree::sync_fd(self.dir.as_fd()),
            _ => Ok(()),
        }
    }

    /// Fills a volume that is empty. Only one program does that at a time.
    fn fill(&self, row: &VolumeRow, content: &OwnedFd) -> Result<()> {
        let volume = match tree::open_dir_at(self.dir.as_fd(), &row.name) {
            // Removed meanwhile: it will be made anew, and empty.
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(()),
            other => other?,
        };
        let data = match options::source(&document(row.options.as_deref())?.unwrap_or_default())? {
            None => tree::open_dir_at(volume.as_fd(), DATA)?,
            Some(Source::Directory { path, .. }) => tree::open_dir(&path)?,
            // Files that are copied there would be gone with the mount.
            Some(source) if source.is_shared() => return Ok(()),
            Some(Source::FileSystem { kind, device, options, attributes }) => {
                let mounted = mount::file_system(&kind, &device, &pairs(&options), attributes)?;
                crate::kernel::path::openat2(
                    mounted.as_fd(),
                    ".",
                    libc::O_RDONLY | libc::O_DIRECTORY,
                    0,
                    crate::kernel::path::BENEATH_NO_LINKS,
                )?
            }
        };
        let is_empty = || tree::is_empty(data.as_fd()).map(|empty| empty || !Wall::VolumeContent.stands());
        if !is_empty()? || mount::is_read_only(data.as_fd())? {
            return Ok(());
        }
        tree::lock(volume.as_fd(), Lock::Exclusive, format_args!("volume {}", row.name))?;
        if is_empty()? {
            copy::copy_tree(content.as_fd(), data.as_fd())?;
            if self.durability == Durability::Full {
                tree::sync_fs(data.as_fd())?;
            }
        }
        Ok(())
    }

    /// The row of a volume that is there. One with a row, but without a directory, was taken by a removal that did not
    /// get to its end, and is put back.
    fn standing(&self, name: &str) -> Result<Option<VolumeRow>> {
        let there = || tree::stat_at(self.dir.as_fd(), name).map(|stat| stat.is_some());
        let row = self.db.read(|tx| table::get(tx, name))?;
        if row.is_none() || there()? {
            return Ok(row);
        }
        // Under a write transaction no removal is half way.
        let halved = |tx: &Transaction<'_>| Ok((table::get(tx, name)?, there()?));
        match self.db.write(Flush::Lazy, halved)? {
            (Some(_), false) => {}
            (row, _) => return Ok(row),
        }
        // Another may hold a lock that the sweep needs for a moment: a sweeper, or a child that the host program has just
        // forked, which has copies of all descriptors until its exec. The directory is lost only if all was looked at.
        turn::wait_for(format_args!("the directory of volume {name}"), turn::LONGEST, None, || {
            let looked_at_all = self.sweep()?;
            match self.db.write(Flush::Lazy, halved)? {
                (Some(_), false) if looked_at_all => {
                    Err(Error::corrupt(format!("the directory of volume {name} is gone")))
                }
                (Some(_), false) => Ok(None),
                (row, _) => Ok(Some(row)),
            }
        })
    }

    fn shown(&self, row: &VolumeRow) -> Result<Volume> {
        let time = crate::time::rfc3339_fixed(row.created_ns);
        Ok(Volume {
            created_at: format!("{}Z", String::from_utf8_lossy(&time[..19])),
            driver: LOCAL.into(),
            labels: document(row.labels.as_deref())?,
            mountpoint: self.mountpoint(&row.name).to_string_lossy().into_owned(),
            name: row.name.clone(),
            options: document(row.options.as_deref())?,
            scope: "local".into(),
        })
    }

    /// A new staging directory of ours.
    fn staging(&self) -> Result<Staging<'_>> {
        let gate = self.gate()?;
        tree::lock(gate.as_fd(), Lock::Shared, "the directory tmp of the root")?;
        let number = getrandom::u64().map_err(|e| Error::internal(format!("no random number: {e}")))?;
        let name = format!("{PREFIX}{number:016x}");
        tree::mkdir_at(self.tmp.as_fd(), &name, 0o700)?;
        let dir = tree::open_dir_at(self.tmp.as_fd(), &name)?;
        tree::lock(dir.as_fd(), Lock::Exclusive, &name)?;
        Ok(Staging { volumes: self, name, dir })
    }

    fn staged_at(&self, name: &str) -> PathBuf {
        self.root.join("tmp").join(name)
    }

    /// The lock of `tmp/`: held shared while a staging directory is made, exclusively by a sweeper.
    fn gate(&self) -> Result<OwnedFd> {
        tree::open_dir(&self.root.join("tmp"))
    }

    /// Removes what programs that ended left in `tmp/`; a volume in it that has a row and no directory goes back. What
    /// cannot be put right now is noted. Answers whether all was looked at: others may hold locks.
    pub(crate) fn sweep(&self) -> Result<bool> {
        let gate = self.gate()?;
        if !tree::try_lock(gate.as_fd(), Lock::Exclusive)? {
            return Ok(false);
        }
        let mut looked_at_all = true;
        for name in tree::names(self.tmp.as_fd())? {
            if !name.starts_with(PREFIX.as_bytes()) {
                continue;
            }
            let place = self.staged_at(&String::from_utf8_lossy(&name));
            let swept = self.sweep_one(&name);
            looked_at_all &= !matches!(swept, Ok(false));
            self.leftovers.note(place, swept.map(drop))?;
        }
        Ok(looked_at_all)
    }

    /// Puts right one staging directory; `false`: somebody is at work in it.
    fn sweep_one(&self, name: &[u8]) -> Result<bool> {
        let dir = match tree::open_dir_at(self.tmp.as_fd(), name) {
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(true),
            other => other?,
        };
        if !tree::try_lock(dir.as_fd(), Lock::Exclusive)? {
            return Ok(false);
        }
        self.db.write(Flush::Durable, |tx| {
            for volume in tree::names(dir.as_fd())? {
                let known = std::str::from_utf8(&volume).ok().map(|name| table::get(tx, name)).transpose()?;
                if known.flatten().is_some() {
                    match tree::rename_at(dir.as_fd(), &volume, self.dir.as_fd(), &volume) {
                        Err(error) if error.raw_os_error() == Some(libc::EEXIST) => {}
                        other => other?,
                    }
                }
            }
            Ok(())
        })?;
        remove_tree(self.tmp.as_fd(), name).map(|()| true)
    }
}

/// A directory of ours in `tmp/`; removed with what is left in it when dropped.
struct Staging<'a> {
    volumes: &'a Volumes,
    name: String,
    dir: OwnedFd,
}

impl Staging<'_> {
    fn clear(&self) -> Result<()> {
        let removed = remove_tree(self.volumes.tmp.as_fd(), &self.name);
        self.volumes.leftovers.note(self.volumes.staged_at(&self.name), removed)
    }
}

impl Drop for Staging<'_> {
    fn drop(&mut self) {
        // Files that cannot be removed now are noted, and the next open sweeps them.
        let _ = self.clear();
    }
}

/// A query made ready. Values of one key are alternatives, except of labels, which must all be there.
struct Filter<'a> {
    query: &'a ListVolumes,
    names: Vec<Regex>,
    dangling: Option<bool>,
}

impl<'a> Filter<'a> {
    fn new(query: &'a ListVolumes) -> Result<Filter<'a>> {
        if let Some(key) =
            query.filters.keys().find(|k| !matches!(k.as_str(), "dangling" | "driver" | "label" | "name"))
        {
            return Err(Error::invalid(format!("Invalid filter '{key}'")));
        }
        let values = |key: &str| query.filters.get(key).into_iter().flatten().map(String::as_str);
        let mut dangling = None;
        for value in values("dangling") {
            dangling = match value {
                "true" | "1" => Some(true),
                "false" | "0" => Some(false),
                _ => {
                    let all: Vec<&str> = values("dangling").collect();
                    return Err(Error::invalid(format!("Invalid filter 'dangling=[{}]'", all.join(" "))));
                }
            };
        }
        Ok(Filter { query, names: values("name").filter_map(|value| Regex::new(value).ok()).collect(), dangling })
    }

    fn takes(&self, volume: &Volume, used: bool) -> bool {
        let any = |key: &str, fits: &dyn Fn(&str) -> bool| match self.query.filters.get(key) {
            Some(values) if !values.is_empty() => values.iter().any(|value| fits(value)),
            _ => true,
        };
        let named = |value: &str| volume.name == value || self.names.iter().any(|name| name.is_match(&volume.name));
        let labels = self.query.filters.get("label").into_iter().flatten();
        let empty = StringMap::new();
        let has = volume.labels.as_ref().unwrap_or(&empty);
        self.dangling.is_none_or(|dangling| dangling != used)
            && any("name", &named)
            && any("driver", &|value| volume.driver == value)
            && labels.into_iter().all(|label| match label.split_once('=') {
                Some((key, value)) => has.get(key).is_some_and(|has| has == value),
                None => has.contains_key(label),
            })
    }
}

/// Checks a volume's name as the local driver has it. Errors name no volume: the caller says which.
pub(crate) fn check_name(name: &str) -> Result<()> {
    if name.len() < 2 {
        let text = "volume name is too short, names should be at least two alphanumeric characters";
        return Err(Error::invalid(text));
    }
    let mut bytes = name.bytes();
    let good = bytes.next().is_some_and(|byte| byte.is_ascii_alphanumeric())
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'));
    if !good {
        return Err(Error::invalid(format!(
            "{name:?} includes invalid characters for a local volume name, only \"[a-zA-Z0-9][a-zA-Z0-9_.-]\" are \
             allowed. If you intended to pass a host directory, use absolute path"
        )));
    }
    if name.len() > 255 {
        return Err(Error::invalid("volume name is too long, at most 255 characters are taken"));
    }
    Ok(())
}

/// Checks the name of a driver; empty is `local`.
pub(crate) fn check_driver(name: &str) -> Result<()> {
    match name {
        "" | LOCAL => Ok(()),
        _ => Err(Error::not_found(format!("error looking up volume plugin {name}: plugin {name:?} not found"))),
    }
}

/// A name for a volume that nobody named: 64 hex digits.
pub(crate) fn new_name() -> Result<String> {
    let mut bytes = [0u8; 32];
    getrandom::fill(&mut bytes).map_err(|e| Error::internal(format!("random bytes: {e}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// As the kernel's door takes options.
pub(crate) fn pairs(options: &[(String, String)]) -> Vec<(&str, &str)> {
    options.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect()
}

fn document(text: Option<&str>) -> Result<Option<StringMap>> {
    let map = text.map(serde_json::from_str).transpose();
    map.map_err(|error| Error::corrupt(format!("the stored options of a volume: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for good in ["ab", "A1", "a_.-", &"x".repeat(255)] {
            check_name(good).unwrap();
        }
        for bad in ["", "a", ".a", "-a", "a b", "a/b", "..", "é1", &"x".repeat(256)] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
        assert_eq!(new_name().unwrap().len(), 64);
    }

    #[test]
    fn drivers() {
        check_driver("").unwrap();
        check_driver("local").unwrap();
        assert_eq!(
            check_driver("zz").unwrap_err().message(),
            "error looking up volume plugin zz: plugin \"zz\" not found"
        );
    }
}
