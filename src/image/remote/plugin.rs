//! Plugins of registries: a plugin is an image whose configuration has another form.

use super::manifest::{Manifest, Wanted};
use super::partial_download::Part;
use super::pull::{Described, Pull, Puller, explain};
use super::{ProgressSender, beside};
use crate::error::{Error, Result};
use crate::image::digest::Digest;
use crate::image::publish::{NewImage, NewPlugin};
use crate::image::reference::Reference;
use crate::image::{OnProgress, progress};
use crate::model::{RegistryAuth, RegistryOptions};
use crate::op::Op;
use crate::registry::{Client, Transport};

/// A plugin in a registry.
pub(crate) struct RemotePlugin<'a> {
    pub(crate) options: &'a RegistryOptions,
    pub(crate) reference: &'a Reference,
    pub(crate) auth: &'a RegistryAuth,
}

/// Says which plugin an image with this id and configuration becomes. Errors: none.
pub(crate) type Decide<'a> = &'a (dyn Fn(&str, &[u8]) -> Result<NewPlugin> + Sync);

impl Puller {
    /// The configuration of a plugin.
    pub(crate) fn plugin_config(&self, remote: &RemotePlugin<'_>, op: Option<&Op>) -> Result<Vec<u8>> {
        self.of_plugin(remote, &mut |_| Ok(()), op, |pull, _, manifest| pull.config(manifest))
    }

    /// Pulls a plugin. It becomes visible as `decide` says, with its files, or nothing does.
    pub(crate) fn pull_plugin(
        &self,
        remote: &RemotePlugin<'_>,
        decide: Decide<'_>,
        on_progress: OnProgress<'_>,
        op: Option<&Op>,
    ) -> Result<()> {
        let pulled = self.of_plugin(remote, on_progress, op, |pull, digest, manifest| {
            let (image, mut fetched) = pull.content(manifest)?;
            let plugin = Some(decide(&image.id.to_string(), &image.config)?);
            fetched.parts.iter_mut().for_each(Part::reset);
            self.publisher.publish(&fetched.staging, &fetched.layers, &[NewImage { plugin, ..image }])?;
            pull.sender.emit(progress::line(format!("Digest: {digest}"), ""));
            Ok(())
        });
        if pulled.is_err() {
            self.layers.sweep_parts_now(remote.options.parts_limit)?;
        }
        pulled
    }

    /// Does work with the manifest of a plugin. Mirrors are of images.
    fn of_plugin<T: Send>(
        &self,
        remote: &RemotePlugin<'_>,
        on_progress: OnProgress<'_>,
        op: Option<&Op>,
        work: impl FnOnce(&Pull<'_>, Digest, &Manifest) -> Result<T> + Send,
    ) -> Result<T> {
        let RemotePlugin { options, reference, auth } = *remote;
        let transport = Transport::new(options.clone());
        beside(&transport, on_progress, op, |sender: ProgressSender| {
            let client = Client::connect(&transport, reference.domain(), auth.clone())?;
            let repository = client.repository(reference.path(), false);
            let pull = Pull {
                puller: self,
                transport: &transport,
                repository: &repository,
                sender: &sender,
                parts_limit: options.parts_limit,
                wanted: Wanted::Plugin,
            };
            let tag = reference.tag().unwrap_or_default().to_owned();
            sender.emit(progress::line(format!("Pulling from {}", reference.repository()), &tag));
            let (digest, described) = pull.manifest(reference).map_err(|error| explain(error, reference))?;
            match described {
                Described::Image(manifest) => work(&pull, digest, &manifest),
                Described::Old(_) => Err(Error::invalid(format!("{reference} is not a plugin"))),
            }
        })
    }
}
