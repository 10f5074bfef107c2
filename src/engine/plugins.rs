//! Plugins: chains of authorization, and the plugins that the engine installs and runs.

use super::Engine;
use super::images::OnProgress;
use crate::error::Result;
use crate::model::{ListPlugins, Plugin, PluginPrivilege, PullPlugin, RegistryAuth};
use crate::op::Op;
use crate::parts::Part;
use crate::plugin::{Authorization, Plugins};
use std::time::Duration;

impl Engine {
    /// A chain of authorization plugins with these names, found in this engine's directories of plugins, or among its
    /// installed plugins, when they are asked for the first time.
    #[must_use]
    pub fn authorization(&self, names: &[String]) -> Authorization {
        Authorization::new(Plugins::clone(&self.0.plugins), names)
    }

    /// The names of [`crate::Options::authorization_plugins`].
    #[must_use]
    pub fn authorization_plugins(&self) -> &[String] {
        &self.0.options.authorization_plugins
    }
}

impl Engine {
    /// The installed plugins, by name.
    pub fn plugin_list(&self, query: &ListPlugins) -> Result<Vec<Plugin>> {
        self.0.managed.list(query)
    }

    /// One installed plugin, by its name, its id or the beginning of its id.
    pub fn plugin_inspect(&self, name: &str) -> Result<Plugin> {
        Part::Plugins.need()?;
        self.0.managed.inspect(name)
    }

    /// The rights on the host that the installation of a plugin granted.
    pub fn plugin_privileges_of(&self, name: &str) -> Result<Vec<PluginPrivilege>> {
        Part::Plugins.need()?;
        self.0.managed.privileges_of(name)
    }

    /// Runs a plugin as a container that lists do not show, with exactly the rights that its installation granted, and waits
    /// until the plugin listens: for `timeout`, or 30 s. Its container's monitor restarts it when it ends.
    ///
    /// Errors: the plugin is enabled already ([`crate::ErrorKind::Conflict`]); a mount or a device is not set; those of a
    /// container's start; it does not listen in time.
    pub fn plugin_enable(&self, name: &str, timeout: Option<Duration>, op: Option<&Op>) -> Result<()> {
        Part::Plugins.need()?;
        self.0.managed.enable(name, timeout, op)
    }

    /// Ends a plugin. Errors: it is disabled already; a volume or a network uses it, and `force` is not set
    /// ([`crate::ErrorKind::Conflict`]).
    pub fn plugin_disable(&self, name: &str, force: bool, op: Option<&Op>) -> Result<()> {
        Part::Plugins.need()?;
        self.0.managed.disable(name, force, op)
    }

    /// Removes a plugin with its files. Errors: it is enabled, or a volume or a network uses it, and `force` is not set
    /// ([`crate::ErrorKind::Conflict`]).
    pub fn plugin_remove(&self, name: &str, force: bool, op: Option<&Op>) -> Result<()> {
        Part::Plugins.need()?;
        self.0.managed.remove(name, force, op)
    }

    /// Changes settings of a disabled plugin: each change is `NAME[.FIELD]=VALUE`. Errors: the plugin is enabled; a setting is not
    /// in the plugin's configuration, or cannot be set. Then none is changed.
    pub fn plugin_set(&self, name: &str, changes: &[String]) -> Result<()> {
        Part::Plugins.need()?;
        self.0.managed.set(name, changes)
    }
}

#[cfg(feature = "registry")]
impl Engine {
    /// The rights on the host that a plugin of a registry needs.
    pub fn plugin_privileges(
        &self,
        remote: &str,
        auth: &RegistryAuth,
        op: Option<&Op>,
    ) -> Result<Vec<PluginPrivilege>> {
        Part::Plugins.need()?;
        self.0.managed.privileges(&self.0.options.registry, remote, auth, op)
    }

    /// Installs a plugin from a registry, disabled. Errors: the name is taken; the granted rights are not those that the plugin
    /// needs; those of [`Engine::image_pull`].
    pub fn plugin_pull(&self, request: &PullPlugin, progress: OnProgress<'_>, op: Option<&Op>) -> Result<()> {
        Part::Plugins.need()?;
        self.0.managed.pull(&self.0.options.registry, request, progress, op)
    }

    /// Puts another version in the place of a disabled plugin: that of `request.remote`, or, if that is empty, of the reference that it
    /// was pulled by. Its settings are those of the new version.
    pub fn plugin_upgrade(
        &self,
        name: &str,
        request: &PullPlugin,
        progress: OnProgress<'_>,
        op: Option<&Op>,
    ) -> Result<()> {
        Part::Plugins.need()?;
        self.0.managed.upgrade(&self.0.options.registry, name, request, progress, op)
    }
}

#[cfg(not(feature = "registry"))]
impl Engine {
    /// Not in this build: the library was made without its registry client.
    pub fn plugin_privileges(&self, _: &str, _: &RegistryAuth, _: Option<&Op>) -> Result<Vec<PluginPrivilege>> {
        Err(super::images::no_client())
    }
    /// Not in this build: the library was made without its registry client.
    pub fn plugin_pull(&self, _: &PullPlugin, _: OnProgress<'_>, _: Option<&Op>) -> Result<()> {
        Err(super::images::no_client())
    }
    /// Not in this build: the library was made without its registry client.
    pub fn plugin_upgrade(&self, _: &str, _: &PullPlugin, _: OnProgress<'_>, _: Option<&Op>) -> Result<()> {
        Err(super::images::no_client())
    }
}
