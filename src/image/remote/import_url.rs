//! Importing an image from a server.

use super::beside;
use super::progress_reader::ProgressReader;
use crate::error::Result;
use crate::image::import::Importer;
use crate::image::{Emit, OnProgress, progress};
use crate::model::{Event, ImportImage, RegistryOptions};
use crate::op::Op;
use crate::registry::{Download, without_secrets};
use std::sync::Arc;

/// Makes images of root file systems that servers have.
pub(crate) struct UrlImporter {
    pub(in crate::image) importer: Arc<Importer>,
}

/// The place of a root file system, and the image that is to be made of it.
pub(crate) struct UrlImport<'a> {
    pub(crate) url: &'a str,
    pub(crate) how: &'a ImportImage,
}

impl UrlImporter {
    /// Makes an image of a tar (plain or compressed) that a server has. Answers its id.
    pub(crate) fn import(
        &self,
        options: &RegistryOptions,
        request: UrlImport<'_>,
        on_progress: OnProgress<'_>,
        emit: Emit<'_>,
        op: Option<&Op>,
    ) -> Result<String> {
        let UrlImport { url, how } = request;
        let transport = Download::transport(options);
        let how = ImportImage { source: without_secrets(url), ..how.clone() };
        let (id, events) = beside(&transport, on_progress, op, |sender| {
            let mut download = Download::start(url, &transport)?;
            sender.emit(progress::line(format!("Downloading from {}", how.source), ""));
            let mut events: Vec<Event> = Vec::new();
            // The operation's end ends the transport, and so the download.
            let id = self.importer.import(
                &mut ProgressReader::new(&mut download, "Importing", &sender),
                &how,
                &mut |message| {
                    sender.emit(message);
                    Ok(())
                },
                &mut |event| events.push(event),
                None,
            )?;
            Ok((id, events))
        })?;
        events.into_iter().for_each(emit);
        Ok(id)
    }
}
