//! Managed plugins: installed from registries, and run by the engine.
//!
//! A plugin is its row, a hidden image (its files, with the plugin's configuration in the place of the image's) and, while it is
//! enabled, a container that lists do not show. The container is an ordinary one: its monitor restarts the plugin.
//! Callers of plugins find an enabled one by [`Names`].

mod config;
#[cfg(feature = "registry")]
mod install;
mod names;
mod places;
mod policy;
mod settings;

use names::Names;
pub(crate) use places::Places;

use crate::container::{Containers, PluginRun, spec};
use crate::error::{Error, ErrorKind, Result};
use crate::event::Journal;
use crate::image::Images;
use crate::model::{
    Event, ListContainers, ListPlugins, Plugin, PluginPrivilege, PluginSettings, RemoveContainer, parse_bool,
};
use crate::notes::{LogLevel, note};
use crate::op::Op;
use crate::parts::Part;
use crate::plugin::{Plugins, connect_own};
use crate::store::plugins::{self as table, PluginRow};
use crate::store::{Db, Flush};
use crate::volume::Volumes;
use config::Config;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long an enabled plugin may take until it listens, unless the request says.
const ARRIVAL: Duration = Duration::from_secs(30);
/// The pause between two looks.
const GLANCE: Duration = Duration::from_millis(20);

/// The installed plugins of a root.
pub(crate) struct ManagedPlugins {
    db: Arc<Db>,
    places: Places,
    images: Arc<Images>,
    volumes: Arc<Volumes>,
    containers: Arc<Containers>,
    journal: Arc<Journal>,
}

/// The plugins that callers find: those of the directories, and those of the root that `db` belongs to.
pub(crate) fn plugins(dirs: &[PathBuf], db: &Arc<Db>, (root, run): (&Path, &Path)) -> (Arc<Plugins>, Places) {
    let places = Places::new(root, run);
    let names = Names::new(Arc::clone(db), places.clone());
    (Arc::new(Plugins::with_managed(dirs, Arc::new(names))), places)
}

/// Whether a root has an enabled plugin of that name. Opens nothing of the root but its database, to read.
pub(crate) fn is_enabled_in(root: &Path, name: &str) -> Result<bool> {
    let path = root.join(Db::NAME);
    match names::full_name(name) {
        Some(full) if path.exists() => table::is_enabled_in(&path, &full),
        _ => Ok(false),
    }
}

/// The part of a plugin that its row stores as JSON.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Stored {
    /// The reference that it was pulled by.
    reference: String,
    settings: PluginSettings,
}

impl Stored {
    fn read(row: &PluginRow) -> Result<Stored> {
        let wrong = |e| Error::corrupt(format!("plugin {}: its stored document is damaged: {e}", row.name));
        serde_json::from_str(&row.document).map_err(wrong)
    }

    fn write(&self) -> Result<String> {
        serde_json::to_string(self).map_err(|e| Error::internal(format!("write a plugin: {e}")))
    }
}

impl ManagedPlugins {
    /// Opens the plugins of a root, completes what killed programs left half done, and, if `starts`, starts enabled plugins that do not
    /// run. Answers also the sockets of those that it started.
    pub(crate) fn open(
        (db, images, volumes, journal): (Arc<Db>, Arc<Images>, Arc<Volumes>, Arc<Journal>),
        places: Places,
        containers: Arc<Containers>,
        starts: bool,
    ) -> Result<(ManagedPlugins, Vec<PathBuf>)> {
        let all = ManagedPlugins { db, places, images, volumes, containers, journal };
        let begun = all.recover(starts)?;
        Ok((all, begun))
    }

    /// Waits until plugins that were started listen, for containers that need them. One that does not come is noted.
    pub(crate) fn await_arrival(&self, sockets: &[PathBuf]) {
        for socket in sockets {
            if let Err(error) = self.await_socket(socket, ARRIVAL, None) {
                note(LogLevel::Error, "plugin", None, || error.to_string());
            }
        }
    }

    /// The plugins that a query wants, by name. Errors: an unknown filter.
    pub(crate) fn list(&self, query: &ListPlugins) -> Result<Vec<Plugin>> {
        if let Some(key) = query.filters.keys().find(|key| !["capability", "enabled"].contains(&key.as_str())) {
            return Err(Error::invalid(format!("Invalid filter '{key}'")));
        }
        let enabled = match query.filters.get("enabled").map(Vec::as_slice) {
            None | Some([]) => None,
            Some([one]) => {
                Some(parse_bool(one).ok_or_else(|| Error::invalid(format!("Invalid filter 'enabled={one}'")))?)
            }
            Some(more) => return Err(Error::invalid(format!("Invalid filter 'enabled={}'", more.join(",")))),
        };
        let capabilities = query.filters.get("capability").cloned().unwrap_or_default();
        let mut all = Vec::new();
        for row in
            self.db.read(table::all)?.into_iter().filter(|row| enabled.is_none_or(|wanted| wanted == row.enabled))
        {
            let config = names::read(&self.db, &row)?;
            let kinds = config.kinds();
            if capabilities.iter().all(|one| kinds.contains(&one.to_ascii_lowercase())) {
                all.push(shown(row, &config)?);
            }
        }
        Ok(all)
    }

    /// The names of the enabled plugins, and their kinds in small letters.
    pub(crate) fn enabled(&self) -> Result<Vec<(String, Vec<String>)>> {
        let rows = self.db.read(table::all)?.into_iter().filter(|row| row.enabled);
        rows.map(|row| names::read(&self.db, &row).map(|config| (row.name, config.kinds()))).collect()
    }

    /// One plugin, by its name, its id or the beginning of its id.
    pub(crate) fn inspect(&self, name: &str) -> Result<Plugin> {
        let row = self.find(name)?;
        let config = names::read(&self.db, &row)?;
        shown(row, &config)
    }

    /// The rights that the installation of a plugin granted.
    pub(crate) fn privileges_of(&self, name: &str) -> Result<Vec<PluginPrivilege>> {
        Ok(names::read(&self.db, &self.find(name)?)?.privileges())
    }

    fn find(&self, name: &str) -> Result<PluginRow> {
        let missing = || Error::not_found(format!("plugin {name:?} not found"));
        if let Some(full) = names::full_name(name)
            && let Some(row) = self.db.read(|tx| table::named(tx, &full))?
        {
            return Ok(row);
        }
        let mut fits = self.db.read(table::all)?;
        fits.retain(|row| !name.is_empty() && row.id.starts_with(name));
        match fits.len() {
            0 => Err(missing()),
            1 => Ok(fits.swap_remove(0)),
            _ => Err(Error::invalid(format!("multiple plugins found for {name:?}"))),
        }
    }

    /// Takes the right to change a plugin, and reads it again.
    fn lock(&self, name: &str, op: Option<&Op>) -> Result<(places::Busy, PluginRow)> {
        let row = self.find(name)?;
        let busy = self.places.busy(&row.id, op)?;
        let row = self.db.read(|tx| table::get(tx, &row.id))?;
        Ok((busy, row.ok_or_else(|| Error::not_found(format!("plugin {name:?} not found")))?))
    }

    /// Starts a plugin, and waits until it listens.
    pub(crate) fn enable(&self, name: &str, timeout: Option<Duration>, op: Option<&Op>) -> Result<()> {
        let (_busy, row) = self.lock(name, op)?;
        if row.enabled {
            return Err(Error::conflict(format!("plugin already enabled: plugin {} is enabled", row.name)));
        }
        let config = names::read(&self.db, &row)?;
        // The container of a program that was killed.
        self.end(&row, op)?;
        self.begin(&row, &config)?;
        let limit = timeout.filter(|timeout| !timeout.is_zero()).unwrap_or(ARRIVAL);
        let enabled = self
            .await_socket(&self.places.socket(&row.id, &config), limit, op)
            .and_then(|()| self.db.write(Flush::Durable, |tx| table::set_enabled(tx, &row.id, true)));
        if let Err(error) = enabled {
            let row = self.db.read(|tx| table::get(tx, &row.id))?.unwrap_or(row);
            self.end(&row, None)?;
            return Err(error);
        }
        self.event(&row, "enable")
    }

    /// Makes and starts the container.
    fn begin(&self, row: &PluginRow, config: &Config) -> Result<()> {
        let settings = Stored::read(row)?.settings;
        let body = policy::body(&row.id, &row.image_id, config, &settings, &self.places)?;
        self.places.make(&row.id, config)?;
        let name = format!("plugin-{}", row.id.get(..16).unwrap_or(&row.id));
        let socket = self.places.socket(&row.id, config);
        let plugin = PluginRun { id: &row.id, socket: &socket };
        let made = self.containers.creator.create_of_plugin(&name, &body, plugin)?;
        let started = self.containers.starter.start(&made.id, None, (0, 0), None);
        started.map(drop).inspect_err(|_| {
            // Best effort: the next open removes the rest.
            let _ = self.remove_container(&made.id, None);
        })
    }

    fn await_socket(&self, socket: &Path, limit: Duration, op: Option<&Op>) -> Result<()> {
        let until = Instant::now() + limit;
        loop {
            // The plugin may listen and accept nobody: the connection itself must not wait.
            match connect_own(socket, GLANCE) {
                Ok(_) => return Ok(()),
                Err(error) if Instant::now() > until => {
                    return Err(Error::io(format_args!("dial unix {}: connect", socket.display()), &error)
                        .with_kind(ErrorKind::Internal)
                        .in_area("plugin"));
                }
                Err(_) => {}
            }
            op.map_or(Ok(()), Op::check)?;
            std::thread::sleep(GLANCE);
        }
    }

    /// Ends the container of a plugin, and what it mounted.
    fn end(&self, row: &PluginRow, op: Option<&Op>) -> Result<()> {
        if let Some(container) = &row.container {
            let how = crate::model::StopContainer::default();
            match self.containers.stopper.stop(container, &how, op) {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) if error.kind() == ErrorKind::Cancelled => return Err(error),
                // The removal by force ends it.
                _ => {}
            }
            self.remove_container(container, op)?;
        }
        self.places.unmount(&row.id)
    }

    fn remove_container(&self, container: &str, op: Option<&Op>) -> Result<()> {
        let how = RemoveContainer { force: true, volumes: true, ..RemoveContainer::default() };
        match self.containers.remover.remove(container, how, op) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }

    /// Ends a plugin. Errors: it is disabled already; volumes or networks use it, and `force` is not set.
    pub(crate) fn disable(&self, name: &str, force: bool, op: Option<&Op>) -> Result<()> {
        let (_busy, row) = self.lock(name, op)?;
        if !row.enabled && row.container.is_none() {
            return Err(Error::conflict(format!("plugin is already disabled: plugin {} found but disabled", row.name)));
        }
        self.disable_taken(&row, force)
    }

    fn disable_taken(&self, row: &PluginRow, force: bool) -> Result<()> {
        if !force {
            self.check_unused(row)?;
        }
        // First the row: a program that is killed here leaves a container that the next open removes.
        self.db.write(Flush::Durable, |tx| table::set_enabled(tx, &row.id, false))?;
        // The plugin counts as disabled now, so nothing stops its end half way.
        self.end(row, None)?;
        self.event(row, "disable")
    }

    /// Errors: a volume or a network has the plugin as its driver, or a container that runs has it as its log driver.
    fn check_unused(&self, row: &PluginRow) -> Result<()> {
        let of_volume = self.volumes.register.drivers()?.contains(&row.name);
        let networks = self.containers.networks.register.all()?;
        let uses = |network: &crate::network::Network| {
            network.spec.driver.name() == row.name || network.spec.ipam.driver == row.name
        };
        match of_volume || networks.iter().any(uses) || self.takes_logs(row)? {
            true => Err(Error::conflict(format!("plugin {} is in use", row.name))),
            false => Ok(()),
        }
    }

    /// Whether a container that runs has the plugin as its log driver.
    fn takes_logs(&self, row: &PluginRow) -> Result<bool> {
        for container in self.containers.views.list(&ListContainers::default())? {
            // The container has been removed meanwhile, or its document is damaged.
            let Ok(found) = self.containers.finder.find(&container.id) else { continue };
            let driver = &found.spec.host_config.log_config.kind;
            if !spec::is_built_in(driver) && names::full_name(driver).as_ref() == Some(&row.name) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Removes a plugin. Errors: it is enabled or used, and `force` is not set.
    pub(crate) fn remove(&self, name: &str, force: bool, op: Option<&Op>) -> Result<()> {
        let (_busy, row) = self.lock(name, op)?;
        if !force {
            self.check_unused(&row)?;
        }
        match row.enabled {
            true if force => self.disable_taken(&row, true)?,
            true => return Err(Error::conflict(format!("plugin {} is enabled", row.name))),
            false => {}
        }
        self.end(&row, op)?;
        self.db.write_to_free(Flush::Durable, |tx| table::remove(tx, &row.id))?;
        self.places.remove(&row.id)?;
        self.images.collector.collect()?;
        self.event(&row, "remove")
    }

    /// Changes settings of a disabled plugin.
    pub(crate) fn set(&self, name: &str, changes: &[String]) -> Result<()> {
        let (_busy, row) = self.lock(name, None)?;
        if row.enabled {
            return Err(Error::internal("cannot set on an active plugin, disable plugin before setting"));
        }
        let config = names::read(&self.db, &row)?;
        let stored = Stored::read(&row)?;
        let settings = settings::set(&config, &stored.settings, changes)?;
        let text = Stored { settings, ..stored }.write()?;
        self.db.write(Flush::Durable, |tx| table::replace(tx, &row.id, &row.image_id, &text))
    }

    /// Completes what programs that were killed left half done, and starts enabled plugins that do not run. Failures are noted. Answers
    /// the sockets of the plugins that were started.
    fn recover(&self, starts: bool) -> Result<Vec<PathBuf>> {
        let mut begun = Vec::new();
        for row in self.db.read(table::all)? {
            let Some(_busy) = self.places.try_busy(&row.id)? else { continue };
            // Another program may have changed it meanwhile.
            let Some(row) = self.db.read(|tx| table::get(tx, &row.id))? else { continue };
            let done = match (&row.container, row.enabled) {
                (Some(_), false) => self.end(&row, None),
                (_, true) if starts && !Part::Plugins.is_here() => Part::Plugins.need(),
                (Some(id), true) if starts && self.runs(id) => Ok(()),
                // A new container, because the root may have been moved: the paths of the old one may lead to another root.
                (_, true) if starts => {
                    self.end(&row, None).and_then(|()| names::read(&self.db, &row)).and_then(|config| {
                        self.begin(&row, &config)?;
                        begun.push(self.places.socket(&row.id, &config));
                        Ok(())
                    })
                }
                _ => Ok(()),
            };
            if let Err(error) = done {
                note(LogLevel::Error, "plugin", Some(&row.id), || format!("plugin {}: {error}", row.name));
            }
        }
        self.sweep()?;
        Ok(begun)
    }

    fn runs(&self, container: &str) -> bool {
        self.containers.finder.find(container).is_ok_and(|found| found.now.is_live())
    }

    /// Removes the directories of plugins that are not there any more. A program that was killed while it removed a plugin left them.
    fn sweep(&self) -> Result<()> {
        let has_row =
            |short: &str| -> Result<bool> { Ok(self.db.read(table::all)?.iter().any(|row| row.id.starts_with(short))) };
        for short in self.places.all()? {
            if has_row(&short)? {
                continue;
            }
            // Another program removes them.
            let Some(_busy) = self.places.try_busy(&short)? else { continue };
            // Rows come before directories: one that came meanwhile is seen now.
            if has_row(&short)? {
                continue;
            }
            if let Err(error) = self.places.remove(&short) {
                note(LogLevel::Error, "plugin", Some(&short), || format!("directories of a removed plugin: {error}"));
            }
        }
        Ok(())
    }

    fn event(&self, row: &PluginRow, action: &str) -> Result<()> {
        self.journal.append(&Event::plugin(action, &row.id, &row.name)).map(drop)
    }
}

fn shown(row: PluginRow, config: &Config) -> Result<Plugin> {
    let stored = Stored::read(&row)?;
    Ok(Plugin {
        config: config.shown(),
        enabled: row.enabled,
        id: row.id,
        name: row.name,
        plugin_reference: stored.reference,
        settings: stored.settings,
    })
}
