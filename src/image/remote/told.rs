//! Downloads of files that tell how far they are, and images that are imported from one.

use super::{Say, beside};
use crate::error::Result;
use crate::image::{Emit, Images, Tell, progress};
use crate::model::{Event, ImportImage, RegistryOptions};
use crate::op::Op;
use crate::registry::{Download, without_secrets};
use std::io::{self, Read};
use std::time::{Duration, Instant};

/// How often a download tells how far it is.
const OFTEN: Duration = Duration::from_millis(100);

/// A download that tells how far it is, and fails where it ends before its length.
pub(crate) struct Told<'a> {
    download: &'a mut Download,
    what: &'a str,
    say: &'a Say,
    taken: u64,
    told: Instant,
}

impl<'a> Told<'a> {
    pub(crate) fn new(download: &'a mut Download, what: &'a str, say: &'a Say) -> Told<'a> {
        Told { download, what, say, taken: 0, told: Instant::now() }
    }
}

impl Read for Told<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let n = self.download.read(out)?;
        let ended = n == 0 && !out.is_empty();
        self.taken += n as u64;
        let total = self.download.length.unwrap_or(0);
        if ended && self.taken < total {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "unexpected EOF"));
        }
        if ended || self.told.elapsed() > OFTEN {
            self.told = Instant::now();
            self.say.tell(progress::bar(self.what, "", self.taken, total));
        }
        Ok(n)
    }
}

impl Images {
    /// Makes an image of a tar (plain or compressed) that a server has. Answers its id.
    pub(crate) fn import_url(
        &self,
        options: &RegistryOptions,
        url: &str,
        how: &ImportImage,
        tell: Tell<'_>,
        emit: Emit<'_>,
        op: Option<&Op>,
    ) -> Result<String> {
        let transport = Download::transport(options);
        let how = ImportImage { source: without_secrets(url), ..how.clone() };
        let (id, events) = beside(&transport, tell, op, |say| {
            let mut download = Download::start(url, &transport)?;
            say.tell(progress::line(format!("Downloading from {}", how.source), ""));
            let mut events: Vec<Event> = Vec::new();
            // The operation's end ends the transport, and so the download.
            let id = self.import(
                &mut Told::new(&mut download, "Importing", &say),
                &how,
                &mut |message| {
                    say.tell(message);
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
