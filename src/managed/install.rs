//! Installing and upgrading plugins from registries.

use super::config::{Config, are_granted};
use super::{ManagedPlugins, Stored};
use crate::error::{Error, ErrorKind, Result};
use crate::hex::random_id;
use crate::image::{NewPlugin, OnProgress, Reference, RemotePlugin};
use crate::model::{PluginPrivilege, PullPlugin, RegistryAuth, RegistryOptions};
use crate::op::Op;
use crate::store::plugins::{self as table, PluginRow};

impl ManagedPlugins {
    /// The rights on the host that a plugin of a registry needs.
    pub(crate) fn privileges(
        &self,
        options: &RegistryOptions,
        remote: &str,
        auth: &RegistryAuth,
        op: Option<&Op>,
    ) -> Result<Vec<PluginPrivilege>> {
        let reference = &reference(remote)?;
        let config = self.images.puller.plugin_config(&RemotePlugin { options, reference, auth }, op)?;
        Ok(Config::read(&config)?.privileges())
    }

    /// Installs a plugin, disabled. Errors: the name is taken; the granted rights are not those that it needs.
    pub(crate) fn pull(
        &self,
        options: &RegistryOptions,
        request: &PullPlugin,
        progress: OnProgress<'_>,
        op: Option<&Op>,
    ) -> Result<()> {
        let remote = reference(&request.remote)?;
        let name = match request.name.as_str() {
            "" => remote.to_string(),
            name => installed_name(name)?,
        };
        if self.db.read(|tx| table::named(tx, &name))?.is_some() {
            return Err(Error::invalid(format!("plugin {name} already exists")));
        }
        let id = random_id()?;
        let decide = |image_id: &str, config: &[u8]| {
            let config = granted(config, request)?;
            let stored = Stored { reference: remote.full(), settings: config.settings() };
            Ok(NewPlugin::Installed(PluginRow {
                id: id.clone(),
                name: name.clone(),
                image_id: image_id.to_owned(),
                container: None,
                enabled: false,
                document: stored.write()?,
            }))
        };
        let from = RemotePlugin { options, reference: &remote, auth: &request.auth };
        self.images.puller.pull_plugin(&from, &decide, progress, op)?;
        let row = self.find(&id)?;
        self.event(&row, "pull")
    }

    /// Puts another version in the place of a disabled plugin; its settings are those of the new configuration.
    pub(crate) fn upgrade(
        &self,
        options: &RegistryOptions,
        name: &str,
        request: &PullPlugin,
        progress: OnProgress<'_>,
        op: Option<&Op>,
    ) -> Result<()> {
        let (_busy, row) = self.lock(name, op)?;
        if row.enabled {
            let text = format!("plugin must be disabled before upgrading: plugin {} is enabled", row.name);
            return Err(Error::new(ErrorKind::Conflict, text).in_area("plugin"));
        }
        let remote = match request.remote.as_str() {
            "" => reference(&Stored::read(&row)?.reference)?,
            remote => reference(remote)?,
        };
        let decide = |_: &str, config: &[u8]| {
            let stored = Stored { reference: remote.full(), settings: granted(config, request)?.settings() };
            Ok(NewPlugin::Upgraded(row.id.clone(), stored.write()?))
        };
        let from = RemotePlugin { options, reference: &remote, auth: &request.auth };
        self.images.puller.pull_plugin(&from, &decide, progress, op)?;
        // The files of the version before.
        self.images.collector.collect()?;
        self.event(&row, "upgrade")
    }
}

/// The configuration, if its rights are granted.
fn granted(config: &[u8], request: &PullPlugin) -> Result<Config> {
    let config = Config::read(config)?;
    let given = request.privileges.as_deref();
    match given.is_none_or(|given| are_granted(&config.privileges(), given)) {
        true => Ok(config),
        false => Err(Error::new(ErrorKind::Invalid, "incorrect privileges").in_area("plugin")),
    }
}

fn reference(text: &str) -> Result<Reference> {
    Reference::parse(text).map(Reference::or_latest)
}

/// The name of an installation: with a tag, without a digest.
fn installed_name(name: &str) -> Result<String> {
    let name = reference(name)?;
    match name.digest() {
        None => Ok(name.to_string()),
        Some(_) => Err(Error::invalid(format!("{name}: the name of a plugin has a tag, not a digest"))),
    }
}
