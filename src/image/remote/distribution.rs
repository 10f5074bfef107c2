//! Distribution inspect: the descriptor and the platforms of an image in a registry, without a pull.

use super::beside;
use super::blob::BlobReader;
use super::manifest::{ACCEPT, Document, platforms, read};
use super::pull::{Puller, explain};
use crate::error::Result;
use crate::image::digest::Digest;
use crate::image::reference::Reference;
use crate::model::{Distribution, DistributionDescriptor, ImagePlatform, RegistryAuth, RegistryOptions};
use crate::op::Op;
use crate::registry::{Client, Repository, Transport};

impl Puller {
    /// Asks the registry of a name.
    pub(crate) fn distribution(
        &self,
        options: &RegistryOptions,
        name: &str,
        auth: &RegistryAuth,
        op: Option<&Op>,
    ) -> Result<Distribution> {
        let reference = Reference::parse(name)?;
        let transport = Transport::new(options.clone());
        beside(&transport, &mut |_| Ok(()), op, |_| {
            let client = Client::connect(&transport, reference.domain(), auth.clone())?;
            let repository = client.repository(reference.path(), false);
            self.described(&transport, &repository, &reference).map_err(|error| explain(error, &reference))
        })
    }

    fn described(
        &self,
        transport: &Transport,
        repository: &Repository<'_>,
        reference: &Reference,
    ) -> Result<Distribution> {
        let tag = reference.tag().unwrap_or("latest");
        let fetched = repository.manifest(reference.digest().unwrap_or(tag), ACCEPT)?;
        let found = Digest::of(&fetched.bytes);
        // A list has the platforms of its images; an image has its own in its configuration.
        let platforms = match read(&fetched.media_type, &fetched.bytes) {
            Ok(Document::Image(manifest)) => {
                let (digest, size) = (manifest.config.digest()?, manifest.config.size);
                let bound = self.layers.room.document() as u64;
                let config = BlobReader::new(transport, repository, digest, size.min(bound), None, None).small()?;
                vec![platform(&config)]
            }
            Ok(Document::Old) => Vec::new(),
            // A list without an image for this machine is a list all the same.
            Ok(Document::Chosen(_)) | Err(_) => platforms(&fetched.bytes)?,
        };
        let size = i64::try_from(fetched.bytes.len()).unwrap_or(i64::MAX);
        let descriptor = DistributionDescriptor { media_type: fetched.media_type, digest: found.to_string(), size };
        Ok(Distribution { descriptor, platforms })
    }
}

/// The platform that a configuration names; one that cannot be read names none.
fn platform(config: &[u8]) -> ImagePlatform {
    crate::document::read(config).unwrap_or_default()
}
