//! SELinux labels of containers, decided at their creation, or at their first start with an engine that has SELinux on;
//! and the labels of the host's files that a container gets.

use super::spec::{self, DecidedHost, Mount, MountKind, Owner, Spec};
use super::{Places, Snapshot};
use crate::error::{Error, Result};
use crate::kernel::mount::Below;
use crate::kernel::tree;
use crate::launch::selinux::{self, Context, LabelRequest, Labels, relabel};
use crate::store::levels;
use crate::volume::{Source, Volumes};
use rusqlite::Transaction;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;

/// How a mount's mode shares its label.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sharing {
    /// `z`: all containers with this mount share the label.
    Shared,
    /// `Z`: the label belongs to one container.
    Private,
    /// Nothing.
    Unsaid,
}

/// Gives containers, and the files of the host that they see, their SELinux labels.
pub(crate) struct Labelling {
    /// The container types of the SELinux policy; none: containers have no labels.
    pub(super) policy: Option<selinux::Policy>,
    pub(super) places: Arc<Places>,
    pub(super) volumes: Arc<Volumes>,
}

impl Labelling {
    /// Whether containers get labels unless they opt out.
    pub(crate) fn are_labelled(&self) -> bool {
        self.policy.is_some()
    }

    /// The labels of a container without any yet, with a level that no other container has; none: the engine gives
    /// none. Errors: the requested label does not exist.
    pub(super) fn new_labels(&self, tx: &Transaction<'_>, host: &DecidedHost) -> Result<Option<Labels>> {
        let Some(policy) = &self.policy else { return Ok(None) };
        let asked = self.asked_label(tx, host)?;
        let level = policy.free_level(|level| levels::is_free(tx, level))?;
        policy.labels(&asked, &level).checked().map(Some)
    }

    /// Stores the labels of a container whose row exists.
    pub(super) fn keep_level(&self, tx: &Transaction<'_>, id: &str, labels: &Labels) -> Result<()> {
        match labels.level().as_str() {
            "" => Ok(()),
            level => levels::keep(tx, id, level),
        }
    }

    /// The label that a request asks for, or that follows from the container whose processes it shares.
    fn asked_label(&self, tx: &Transaction<'_>, host: &DecidedHost) -> Result<LabelRequest> {
        let said = spec::label_options(host);
        if host.privileged {
            return Ok(LabelRequest::Disabled);
        }
        if !said.is_empty() {
            return LabelRequest::parse(said);
        }
        let owners = [host.modes().ipc.owner(), host.modes().pid.owner()];
        if owners.contains(&Owner::Host) {
            return Ok(LabelRequest::Disabled);
        }
        let mut asked: Option<LabelRequest> = None;
        for other in owners.into_iter().filter_map(Owner::container) {
            // In the caller's transaction: another connection would wait for it.
            let other: Spec = crate::store::containers::find(tx, other, &mut |row, text| {
                serde_json::from_str(text).map_err(|e| Error::corrupt(format!("the spec of container {}: {e}", row.id)))
            })?;
            let theirs = LabelRequest::as_another(&other.process_label)?;
            if asked.as_ref().is_some_and(|asked| *asked != theirs) {
                return Err(Error::conflict("the containers of PidMode and IpcMode have different SELinux labels"));
            }
            asked = Some(theirs);
        }
        Ok(asked.unwrap_or(LabelRequest::NOTHING))
    }

    /// The label of files that are made for a container; empty: the kernel or the container has no labels.
    pub(super) fn mount_label<'a>(&self, spec: &'a Spec) -> &'a str {
        if selinux::is_on() { &spec.mount_label } else { "" }
    }

    /// The label of a file system that is mounted once for all containers with a volume.
    pub(super) fn volume_label(&self, spec: &Spec) -> Result<Option<String>> {
        match self.mount_label(spec) {
            "" => Ok(None),
            label => selinux::shared(label).map(Some),
        }
    }

    /// The label of a volume's file system that is mounted for a container, unless its options name one.
    pub(super) fn volume_context(&self, spec: &Spec, mount: &Mount) -> Result<Option<(String, String)>> {
        let label = match sharing(mount) {
            Sharing::Private => Some(self.mount_label(spec)).filter(|label| !label.is_empty()).map(str::to_owned),
            Sharing::Shared | Sharing::Unsaid => self.volume_label(spec)?,
        };
        Ok(label.map(|label| ("context".to_owned(), label)))
    }

    /// Gives the layers of a container the labels that a check of mapped files needs, if they lack them.
    fn label_layers(&self, found: &Snapshot, own: &str) -> Result<()> {
        let Some(images) = self.policy_now()?.map(|policy| policy.of_images()) else { return Ok(()) };
        for layer in self.places.lower(&found.row.image_id)? {
            relabel::tree(relabel::open_own(&layer)?.as_fd(), &images, false)?;
        }
        relabel::tree(relabel::open_own(&self.places.dir(&found.row.id).join("upper"))?.as_fd(), own, false)
    }

    /// The policy; loaded also if the engine gives no labels, but a container has one.
    fn policy_now(&self) -> Result<Option<selinux::Policy>> {
        match &self.policy {
            Some(policy) => Ok(Some(policy.clone())),
            None if selinux::is_on() => selinux::Policy::read().map(Some),
            None => Ok(None),
        }
    }

    /// Sets the labels that a container's mounts request on the files of the host.
    pub(super) fn relabel_sources(&self, found: &Snapshot) -> Result<()> {
        let own = self.mount_label(&found.spec);
        if own.is_empty() {
            return Ok(());
        }
        if !found.spec.process_label.is_empty() {
            self.label_layers(found, own)?;
        }
        let shared = selinux::shared(own)?;
        for mount in &found.spec.mounts {
            let how = sharing(mount);
            let label = if how == Sharing::Private { own } else { &shared };
            match mount.kind {
                MountKind::Bind if how != Sharing::Unsaid => {
                    self.relabel_bind(Path::new(&mount.source), label, !mount.long)
                }
                MountKind::Volume => self.relabel_volume(mount, how, label),
                _ => Ok(()),
            }
            .map_err(|error| error.context(format_args!("setting the label of the mount {}", mount.target)))?;
        }
        Ok(())
    }

    fn relabel_bind(&self, source: &Path, label: &str, make: bool) -> Result<()> {
        if make && std::fs::symlink_metadata(source).is_err() {
            // The monitor would make the directory a moment later.
            std::fs::create_dir_all(source)
                .map_err(|e| Error::io(format_args!("make directory {}", source.display()), &e))?;
        }
        let source = relabel::open_source(source, &[&self.places.root, &self.places.claim.run])?;
        relabel::tree(source.as_fd(), label, true)
    }

    fn relabel_volume(&self, mount: &Mount, how: Sharing, label: &str) -> Result<()> {
        match self.volumes.mounter.source(&mount.name)? {
            Source::Directory { path, own: true, .. } => {
                let source = relabel::open_own(&path)?;
                // A volume whose label belongs to one container is shared only if the mount says so.
                if how == Sharing::Unsaid && has_type_of(source.as_fd(), label)? {
                    return Ok(());
                }
                relabel::tree(source.as_fd(), label, how != Sharing::Unsaid)
            }
            Source::Directory { path, below, .. } if !below.is_empty() && how != Sharing::Unsaid => {
                // A plugin may write there: it must not lead the engine to other files.
                let source = Below { path: below, no_links: true }.open(&path, libc::O_PATH)?;
                relabel::tree(source.as_fd(), label, true)
            }
            Source::Directory { path, .. } if how != Sharing::Unsaid => self.relabel_bind(&path, label, false),
            source if source.is_shared() && how == Sharing::Private => {
                Err(Error::unsupported("Z: a volume in memory is mounted once for all containers that use it"))
            }
            // The volume is mounted with its label.
            _ => Ok(()),
        }
    }

    /// Labels the files that the engine makes for a container. `files_of` is the container that owns its hosts,
    /// hostname and resolv.conf.
    pub(super) fn label_files(&self, found: &Snapshot, files_of: &str, init: Option<&Path>) -> Result<()> {
        let own = self.mount_label(&found.spec);
        if own.is_empty() {
            return Ok(());
        }
        if let Some(init) = init {
            relabel::tree(relabel::open_own(init)?.as_fd(), own, true)?;
        }
        let shared = selinux::shared(own)?;
        for name in ["resolv.conf", "hostname", "hosts"] {
            let file = relabel::open_own(&self.places.dir(files_of).join(name))?;
            // Files that are shared with other containers stay shared.
            let of_all = files_of != found.row.id || relabel::has(file.as_fd(), &shared)?;
            relabel::tree(file.as_fd(), if of_all { &shared } else { own }, true)?;
        }
        Ok(())
    }
}

fn has_type_of(file: BorrowedFd<'_>, label: &str) -> Result<bool> {
    let wanted: Context = label.parse()?;
    let Some(value) = tree::get_xattr_of(file, relabel::KEY)? else { return Ok(false) };
    let has = String::from_utf8_lossy(&value).trim_end_matches('\0').parse::<Context>();
    Ok(has.is_ok_and(|has| has.kind == wanted.kind))
}

fn sharing(mount: &Mount) -> Sharing {
    let says = |word: &str| mount.kind != MountKind::Tmpfs && mount.mode_text.split(',').any(|other| other == word);
    match (says("z"), says("Z")) {
        (true, _) => Sharing::Shared,
        (_, true) => Sharing::Private,
        _ => Sharing::Unsaid,
    }
}
