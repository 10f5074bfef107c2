//! Creating a container: request → spec → directories → row. The container becomes visible with its row.

use super::made_for::{MadeFor, PluginRun};
use super::names::{check_name, make_up_name, new_id};
use super::spec::{self, Defaults, ImageView, Owner, Spec};
use super::spec::{DecidedHost, UsernsMode, Users};
use super::{Finder, Labelling, Links, Places, Register, Snapshot, Storage, VolumeMounts, now_ns};
use crate::error::{Error, ErrorKind, Result};
use crate::image::Images;
use crate::kernel::path::{IN_ROOT, openat2};
use crate::kernel::{mount, tree};
use crate::launch::{apparmor, cgroup};
use crate::model::{ContainerConfig, HostConfig};
use crate::model::{CreateBody, Created, ImagePlatform};
use crate::options::{Options, UsernsRemap};
use crate::plugin::Plugins;
use crate::store::Flush;
use crate::store::containers::{self as table, ContainerRow};
use crate::store::plugins;
use crate::store::slot_locks::Busy;
use crate::store::states::{State, id_head};
use crate::volume::Staged;
use rusqlite::Transaction;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

/// A container whose spec is decided, and that is not visible yet.
struct New<'a> {
    id: &'a str,
    /// The name of the request; none: the engine makes one up.
    name: Option<&'a str>,
    spec: &'a Spec,
    links: &'a [String],
    made_for: MadeFor<'a>,
}

/// A container that is stored.
struct Inserted {
    row: ContainerRow,
    /// The names of volumes that were made for it.
    volumes: Vec<String>,
    /// Held until the event "create" is written, so that no event of the container comes before it.
    _busy: Busy,
}

/// Creates containers, and changes the host configurations of those that do not run.
pub(crate) struct Creator {
    pub(super) places: Arc<Places>,
    pub(super) register: Arc<Register>,
    pub(super) storage: Arc<Storage>,
    pub(super) finder: Arc<Finder>,
    pub(super) labels: Arc<Labelling>,
    pub(super) mounts: Arc<VolumeMounts>,
    pub(super) links: Arc<Links>,
    pub(super) host: Arc<cgroup::HostFacts>,
    pub(super) images: Arc<Images>,
    pub(super) options: Arc<Options>,
    pub(super) plugins: Arc<Plugins>,
    /// The engine's own lease.
    pub(super) lease: Option<String>,
}

impl Creator {
    /// Creates a container; `name` absent: one is made up.
    pub(crate) fn create(&self, name: Option<&str>, body: &CreateBody) -> Result<Created> {
        self.create_for(name, body, MadeFor::User)
    }

    /// Creates the container that runs a plugin; the image of `body` is hidden.
    pub(crate) fn create_of_plugin(&self, name: &str, body: &CreateBody, plugin: PluginRun<'_>) -> Result<Created> {
        self.create_for(Some(name), body, MadeFor::Plugin(plugin))
    }

    pub(super) fn create_for(&self, name: Option<&str>, body: &CreateBody, made_for: MadeFor<'_>) -> Result<Created> {
        let name = name.filter(|name| !name.is_empty()).map(check_name).transpose()?;
        let id = new_id()?;
        let (mut spec, warnings) = self.resolve_new(&id, body, made_for)?;
        name.map_or(Ok(()), |name| self.finder.free_name(name))?;
        let mut volumes = self.mounts.stage_volumes(&mut spec)?;
        let links = body.host_config.links.as_deref().unwrap_or_default();
        let new = New { id: &id, name, spec: &spec, links, made_for };
        let making = self.register.states.locks.making(&id)?;
        let made = self.make_files(&new).and_then(|()| self.store_new(&new, &mut volumes));
        drop(making);
        let Inserted { row, volumes: new_volumes, _busy } = made.inspect_err(|_| self.remove_files(&new))?;
        let found = self.register.snapshot((Arc::new(row), Arc::new(spec)))?;
        self.mounts.emit_created(&new_volumes)?;
        self.register.event(&found, "create", &[])?;
        Ok(Created { id, warnings })
    }

    /// The spec of the container `id` for a request, and warnings for the client. Makes nothing yet.
    fn resolve_new(&self, id: &str, body: &CreateBody, made_for: MadeFor<'_>) -> Result<(Spec, Vec<String>)> {
        let defaults = self.defaults();
        let checked = spec::validate(body, &defaults)?;
        super::links::check(body)?;
        spec::sources_are_there(&body.host_config)?;
        let (image_id, view) = match body.config.image.as_str() {
            // Only the engine's own files, as for a build's first step on `scratch`.
            "" => Default::default(),
            // The configuration of a plugin's files is the plugin's, and says nothing to a container.
            image if matches!(made_for, MadeFor::Plugin(_)) => (image.to_owned(), Default::default()),
            image => self.images.catalog.config(image)?,
        };
        let platform_warning = match (body.config.image.as_str(), made_for) {
            ("", _) | (_, MadeFor::Plugin(_)) => None,
            (name, _) => check_platform(name, body.platform.as_ref(), &view.platform())?,
        };
        let image = ImageView { id: image_id, architecture: view.architecture, config: view.config };
        let inherited = self.mounts.inherited(&body.host_config)?;
        let (mut spec, mut warnings) = spec::resolve(&checked, &image, id, &inherited)?;
        warnings.extend(platform_warning);
        #[cfg(feature = "attacks")]
        if self.images.catalog.asks_for_rights(&spec.image_id)? {
            spec.host_config = spec.host_config.changed(|host| host.privileged = true)?;
        }
        if let MadeFor::Plugin(plugin) = made_for {
            spec.plugin = Some(plugin.id.to_owned());
            // A path that is not UTF-8 would name another file here: its plugin removes its own socket.
            spec.plugin_socket = plugin.socket.to_str().map(str::to_owned);
        }
        self.check_owners(&mut spec)?;
        self.mounts.find_images(&mut spec)?;
        self.register.leases.reader(spec.lease.as_ref())?;
        Ok((spec, warnings))
    }

    /// Makes the directories of a new container, and limits their size.
    fn make_files(&self, new: &New<'_>) -> Result<()> {
        self.places.make_dirs(new.id)?;
        self.storage.bound_storage(new.id, new.spec)?;
        // Containers of builds get their working directory by WORKDIR.
        match new.made_for {
            MadeFor::Build(_) => Ok(()),
            MadeFor::User | MadeFor::Plugin(_) => self.make_working_dir(new.id, new.spec),
        }
    }

    /// Removes the directories of a container that was not created.
    fn remove_files(&self, new: &New<'_>) {
        let project = self.storage.storage_project(new.id, new.spec);
        // Best effort: the next open removes the rest.
        let _ = self.places.remove_dirs(new.id);
        self.storage.free_storage(project);
    }

    /// Stores a new container, as durably as its maker and the engine's options require.
    fn store_new(&self, new: &New<'_>, volumes: &mut [Staged<'_>]) -> Result<Inserted> {
        let text = written(new.spec)?;
        // Without volumes only a row must be undone. Then the flush is awaited outside of the database's lock, together
        // with other creates.
        let alone = volumes.is_empty();
        let is_of_build = matches!(new.made_for, MadeFor::Build(_));
        let flush = if alone || is_of_build { Flush::Lazy } else { Flush::Durable };
        let inserted = self.register.db.write(flush, |tx| self.insert(tx, new, text, volumes))?;
        if alone && !is_of_build {
            self.register.db.wait_durable().inspect_err(|_| {
                // No client has seen the container.
                let _ = self.register.db.write_to_free(Flush::Lazy, |tx| super::remove::forget_row(tx, new.id));
            })?;
        }
        Ok(inserted)
    }

    /// Everything that the database has of a new container, and its first state. `text` is its spec, without labels.
    fn insert(
        &self,
        tx: &Transaction<'_>,
        new: &New<'_>,
        text: String,
        volumes: &mut [Staged<'_>],
    ) -> Result<Inserted> {
        let New { id, spec, .. } = *new;
        let name = match new.name {
            Some(name) => name.to_owned(),
            None => make_up_name(id, |name| table::has_name(tx, name).map(|taken| !taken))?,
        };
        let labels = self.labels.new_labels(tx, &spec.host_config)?;
        let text = match &labels {
            None => text,
            Some(labels) => written(&spec.clone().with_labels(labels))?,
        };
        // Checked again in the transaction: from here on the container keeps its image.
        let is_hidden = matches!(new.made_for, MadeFor::Plugin(_));
        if !spec.image_id.is_empty() && !is_hidden && !self.images.catalog.is_there(tx, &spec.image_id)? {
            return Err(Error::not_found(format!("No such image: {}", spec.image_name)));
        }
        let (slot, busy) = self.free_slot(tx)?;
        let (image_id, error) = (spec.image_id.clone(), String::new());
        let row = ContainerRow { id: id.to_owned(), slot, name, created_ns: now_ns(), image_id, error };
        table::insert(tx, &row, text)?;
        self.mounts.take_images(tx, id, spec)?;
        labels.map_or(Ok(()), |labels| self.labels.keep_level(tx, id, &labels))?;
        self.links.add_links(tx, id, new.links, spec)?;
        match new.made_for {
            MadeFor::User => {}
            MadeFor::Build(builder) => table::set_builder(tx, id, builder)?,
            MadeFor::Plugin(plugin) => plugins::set_container(tx, plugin.id, id)?,
        }
        let volumes = self.mounts.take_volumes(tx, id, volumes)?;
        // In the transaction, so that no start sees the record of the slot's last owner.
        self.register.states.clear(slot)?;
        self.register.states.write(slot, State { id: id_head(id), ..State::EMPTY })?;
        Ok(Inserted { row, volumes, _busy: busy })
    }

    /// Looks up the containers whose namespaces a new one shares. Errors: the owner of its PID or IPC namespace does
    /// not exist; the owner of its network may be missing until the start.
    fn check_owners(&self, spec: &mut Spec) -> Result<()> {
        let modes = spec.host_config.modes();
        for name in [modes.pid.owner(), modes.ipc.owner()].into_iter().filter_map(Owner::container) {
            self.finder.find(name).map_err(|error| error.with_kind(ErrorKind::Invalid))?;
        }
        let other = modes.network.owner().container().and_then(|name| self.finder.find(name).ok());
        if let Some(other) = other {
            // Stored by the id, because the other container may be renamed.
            let mode = format!("container:{}", other.row.id);
            spec.host_config = std::mem::take(&mut spec.host_config).changed(|host| host.network_mode = mode)?;
        }
        Ok(())
    }

    /// The lowest slot that no container has and no call holds: a removal keeps the slot's lock longer than the row
    /// exists.
    fn free_slot(&self, tx: &Transaction<'_>) -> Result<(u32, Busy)> {
        let mut slot = 0;
        loop {
            slot = table::free_slot(tx, slot)?;
            if let Some(busy) = self.register.states.locks.try_busy(slot)? {
                return Ok((slot, busy));
            }
        }
    }

    /// Makes the working directory if the image lacks it, because files may be put there before the first start.
    /// Errors: the path is not a directory.
    fn make_working_dir(&self, id: &str, spec: &Spec) -> Result<()> {
        let path = spec.config.working_dir.as_str();
        if matches!(path, "" | "/") {
            return Ok(());
        }
        let is_there = |root: &OwnedFd, path: &str| -> Result<bool> {
            match openat2(root.as_fd(), path, libc::O_PATH | libc::O_DIRECTORY, 0, IN_ROOT) {
                Ok(_) => Ok(true),
                Err(error) if error.is(libc::ENOENT) => Ok(false),
                Err(error) if error.is(libc::ENOTDIR) => {
                    Err(Error::internal(format!("Cannot mkdir: {path} is not a directory")))
                }
                Err(error) => Err(error),
            }
        };
        if is_there(&self.places.root_before(&spec.image_id)?, path)? {
            return Ok(());
        }
        let lower = self.places.lower(&spec.image_id)?;
        let lower: Vec<&Path> = lower.iter().map(|path| path.as_path()).collect();
        let dir = self.places.dir(id);
        let root =
            mount::overlay(&lower, Some((&dir.join("upper"), &dir.join("work"))), super::build::WRITE_ATTRIBUTES)?;
        for (at, _) in path.match_indices('/').skip(1).chain([(path.len(), "")]) {
            let (above, name) = path[..at].rsplit_once('/').unwrap_or(("", &path[..at]));
            if name.is_empty() || is_there(&root, &path[..at])? {
                continue;
            }
            let above = if above.is_empty() { "/" } else { above };
            let parent = openat2(root.as_fd(), above, libc::O_PATH | libc::O_DIRECTORY, 0, IN_ROOT)?;
            match tree::mkdir_at(parent.as_fd(), name, 0o755) {
                // A dangling link: the start makes its target, or reports the error.
                Err(error) if error.is(libc::EEXIST) => return Ok(()),
                made => made?,
            }
            tree::chmod_fd(tree::open_dir_at(parent.as_fd(), name)?.as_fd(), 0o755)?;
        }
        Ok(())
    }

    fn defaults(&self) -> Defaults {
        Defaults {
            log_driver: self.options.log_driver.clone(),
            log_options: self.options.log_options.clone(),
            cgroup_parent: self.options.cgroup_parent.clone(),
            engine: self.places.engine().to_owned(),
            host_name: spec::host_name(),
            remap: self.options.userns_remap,
            apparmor: apparmor::for_containers(self.options.apparmor.as_deref()).map(str::to_owned),
            selinux: self.labels.are_labelled(),
            lease: self.lease.clone(),
            plugins: Plugins::clone(&self.plugins),
            host: cgroup::HostFacts::clone(&self.host),
        }
    }

    /// Replaces the host configuration of a container that does not run; checked like that of a new one.
    pub(crate) fn set_host_config(&self, reference: &str, host_config: &HostConfig) -> Result<()> {
        let (_busy, found) = self.finder.lock(reference, None)?;
        if found.now.is_live() {
            return Ok(());
        }
        let mut changed = self.resolve_changed(&found, host_config)?;
        self.mounts.find_images(&mut changed)?;
        let mut volumes = self.mounts.stage_volumes(&mut changed)?;
        self.storage.rebound_storage(&found.row.id, &found.spec, &changed)?;
        keep_decided(&mut changed, &found.spec);
        let text = serde_json::to_string(&changed).map_err(|e| Error::internal(format!("write a spec: {e}")))?;
        let new = self.register.db.write(Flush::Durable, |tx| {
            table::set_spec(tx, &found.row.id, &text)?;
            crate::store::volumes::clear_uses(tx, &found.row.id)?;
            crate::store::image_mounts::clear(tx, &found.row.id)?;
            self.mounts.take_images(tx, &found.row.id, &changed)?;
            if host_config.links.is_some() {
                crate::store::links::clear(tx, &found.row.id)?;
            }
            self.links.add_links(tx, &found.row.id, host_config.links.as_deref().unwrap_or_default(), &changed)?;
            self.mounts.take_volumes(tx, &found.row.id, &mut volumes)
        })?;
        self.mounts.emit_created(&new)
    }

    /// The spec of a container with another host configuration. Errors: as for a new container.
    fn resolve_changed(&self, found: &Snapshot, host_config: &HostConfig) -> Result<Spec> {
        let body = CreateBody {
            config: found.spec.config.clone(),
            host_config: host_config.clone(),
            // The host name was checked at the creation, by the rules of that version.
            any_hostname: true,
            ..CreateBody::default()
        };
        let mut defaults = self.defaults();
        // The user namespace stays, unless the new mode names another one.
        defaults.remap = match found.spec.users {
            Users::Own { uid, gid, count } => Some(UsernsRemap { uid, gid, count }),
            Users::Host if found.spec.host_config.modes().userns != UsernsMode::Host => None,
            Users::Host | Users::Undecided => defaults.remap,
        };
        let checked = spec::validate(&body, &defaults)?;
        super::links::check(&body)?;
        let image = spec::ImageView {
            id: found.row.image_id.clone(),
            architecture: found.spec.architecture.clone(),
            config: ContainerConfig::default(),
        };
        // Existing mounts stay, unless a new one has the same target.
        let mut inherited = found.spec.mounts.clone();
        for mount in self.mounts.inherited(host_config)? {
            inherited.retain(|other| other.target != mount.target);
            inherited.push(mount);
        }
        let (changed, _) = spec::resolve(&checked, &image, &found.row.id, &inherited)?;
        // As dockerd treats a configuration that came with a start.
        let host_config = changed.host_config.changed(|host| {
            for list in [&mut host.dns, &mut host.dns_search, &mut host.dns_options] {
                list.get_or_insert_default();
            }
        })?;
        Ok(Spec { host_config, ..changed })
    }
}

/// Returns docker's warning about an image that this machine does not run by itself, where no platform was named. Errors: the
/// image is of another platform than the named one.
fn check_platform(name: &str, wanted: Option<&ImagePlatform>, image: &ImagePlatform) -> Result<Option<String>> {
    let here = ImagePlatform::of_this_machine();
    match wanted {
        Some(wanted) => wanted.check(name, image).map(|()| None),
        None if here.runs(image) => Ok(None),
        None => Ok(Some(format!(
            "The requested image's platform ({image}) does not match the detected host platform ({here}) and no specific \
             platform was requested"
        ))),
    }
}

/// A spec as it is stored.
fn written(spec: &Spec) -> Result<String> {
    serde_json::to_string(spec).map_err(|e| Error::internal(format!("write a spec: {e}")))
}

/// Copies the decisions of the old spec that still hold into a changed one.
fn keep_decided(changed: &mut Spec, old: &Spec) {
    changed.image_name = old.image_name.clone();
    changed.lease.clone_from(&old.lease);
    // If the labels differ, the start decides them anew.
    let label_of = |host: &DecidedHost| {
        (host.security_opt.clone(), host.privileged, host.modes().pid.clone(), host.modes().ipc.clone())
    };
    if label_of(&changed.host_config) == label_of(&old.host_config) {
        changed.process_label.clone_from(&old.process_label);
        changed.mount_label.clone_from(&old.mount_label);
    }
    if changed.host_config.modes().network == old.host_config.modes().network {
        changed.networks = old.networks.clone();
    }
}
