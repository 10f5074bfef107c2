//! Downloads of files from any server: what builds add and take as their context.

use super::auth::basic;
use super::transport::{Answer, Ask, Transport};
use super::url::{Url, split_user, unescape, without_secrets};
use crate::error::{Error, Result};
use crate::model::RegistryOptions;
use std::io::{Cursor, Read};

/// A download that began.
pub(crate) struct Download {
    /// Bytes to come, where the server says.
    pub(crate) length: Option<u64>,
    headers: Vec<(&'static str, String)>,
    /// The bytes that were looked at already.
    head: Cursor<Vec<u8>>,
    body: Box<dyn Read + Send>,
}

/// The headers that somebody asks for.
const HEADERS: [&str; 3] = ["content-disposition", "content-type", "last-modified"];

impl Download {
    /// The transport of downloads; stopping it ends them.
    pub(crate) fn transport(options: &RegistryOptions) -> Transport {
        Transport::for_files(options)
    }

    /// Asks for a file. A user and a password in the address go to its server, and stand in no error. Errors: the
    /// address is malformed, nobody answers there, or the answer is a refusal.
    pub(crate) fn start(url: &str, transport: &Transport) -> Result<Download> {
        let (address, user) = split_user(url);
        let address = Url::parse(&address)
            .map_err(|_| Error::invalid(format!("{} is not an http or https URL", without_secrets(url))))?;
        let authorization = user.map(|user| {
            let (name, password) = user.split_once(':').unwrap_or((user, ""));
            basic(&unescape(name), &unescape(password))
        });
        let headers = vec![("accept-encoding", "identity".into())];
        let ask = Ask { headers, authorization, ..Ask::get(address) };
        let answer: Answer = transport.send(ask).map_err(|e| e.with_kind(crate::error::ErrorKind::Internal))?;
        if answer.status >= 400 {
            let text = format!("failed to GET {} with status {}", without_secrets(url), answer.status);
            return Err(Error::internal(text));
        }
        let own = |name: &&'static str| Some((*name, answer.header(name)?.to_owned()));
        Ok(Download {
            length: answer.length(),
            headers: HEADERS.iter().filter_map(own).collect(),
            head: Cursor::default(),
            body: Box::new(answer.reader()),
        })
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(have, _)| *have == name).map(|(_, value)| value.as_str())
    }

    /// The first bytes, at most `count`: they are read again.
    pub(crate) fn peek(&mut self, count: u64) -> Result<&[u8]> {
        let mut head = Vec::new();
        self.body.by_ref().take(count).read_to_end(&mut head)?;
        self.head = Cursor::new(head);
        Ok(self.head.get_ref())
    }
}

impl Read for Download {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self.head.read(buffer)? {
            0 => self.body.read(buffer),
            read => Ok(read),
        }
    }
}
