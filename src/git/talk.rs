//! The two questions of a fetch: which object a name means, and the pack of that object.

use super::address::{MAX_REF, Remote};
use super::lines::{Line, Lines, Request, reported};
use super::link::Link;
use super::{Id, parse_id};
use crate::error::{Cause, Error, Result};
use crate::hex;
use crate::registry::Transport;
use std::io::{Read, Write};

const AGENT: &str = concat!("agent=coracle/", env!("CARGO_PKG_VERSION"));
/// Most lines of an answer outside its pack.
const MAX_LINES: usize = 1_000_000;

/// The abilities of a server that count here.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Server {
    names_formats: bool,
    names_agents: bool,
    is_shallow: bool,
}

impl Server {
    /// Reads the greeting of a server. Over HTTP a line that names the service may come first.
    fn read(lines: &mut Lines<impl Read>) -> Result<Server> {
        let is_service = matches!(lines.next()?, Line::Data(text) if text.starts_with(b"# service="));
        if is_service {
            lines.next()?;
            lines.next()?;
        }
        if !lines.last().trim_ascii_end().eq(b"version 2") {
            return Err(old());
        }
        Server::abilities(lines)
    }

    fn abilities(lines: &mut Lines<impl Read>) -> Result<Server> {
        let (mut server, mut fetches) = (Server::default(), false);
        for _ in 0..MAX_LINES {
            let Line::Data(text) = lines.next()? else { break };
            let text = String::from_utf8_lossy(text.trim_ascii_end()).into_owned();
            let (key, value) = text.split_once('=').unwrap_or((&text, ""));
            match key {
                "agent" => server.names_agents = true,
                "fetch" => {
                    fetches = true;
                    server.is_shallow = value.split(' ').any(|word| word == "shallow");
                }
                "object-format" if value != "sha1" => {
                    return Err(Error::unsupported(format!(
                        "its objects are named by {value:?}: this engine reads repositories of SHA-1"
                    )));
                }
                "object-format" => server.names_formats = true,
                _ => {}
            }
        }
        if fetches { Ok(server) } else { Err(old()) }
    }

    fn request(&self, command: &str) -> Request {
        let agent = self.names_agents.then_some(AGENT);
        let format = self.names_formats.then_some("object-format=sha1");
        Request::default().line(format!("command={command}\n")).lines(agent).lines(format).delimiter()
    }
}

/// An object that a fetch has brought.
pub(crate) struct Fetched {
    /// A commit, or a tag that leads to it.
    pub(crate) id: Id,
    /// The whole name of the branch or tag (`refs/tags/v1`), if a name was wanted and the server says it.
    pub(crate) name: Option<String>,
}

impl Remote {
    /// Fetches the wanted commit, without its history, and the tag that leads to it: writes their pack.
    pub(crate) fn fetch(&self, transport: &Transport, pack: &mut dyn Write) -> Result<Fetched> {
        let mut link = Link::open(&self.place, transport)?;
        let server = Server::read(&mut Lines::new(link.greeting()))?;
        let found = match parse_id(self.wanted.as_bytes()) {
            Some(id) => Fetched { id, name: None },
            None => self.find(&server, &mut link)?,
        };
        let depth = server.is_shallow.then_some("deepen 1\n");
        let want = format!("want {}\n", hex::encode(&found.id));
        let request = server.request("fetch").lines(["no-progress\n", "ofs-delta\n"]).lines(depth);
        let request = request.line(want).line("done\n").end();
        take(&mut Lines::new(link.ask(&request)?), pack).map_err(|error| match error.cause() {
            Some(Cause::CommitUnknown) => Error::invalid(format!("it has no commit {}", self.wanted)),
            _ => error,
        })?;
        Ok(found)
    }

    /// The object that the wanted name means: a tag before a branch, as in git.
    fn find(&self, server: &Server, link: &mut Link<'_>) -> Result<Fetched> {
        let wanted = self.wanted.as_str();
        let names = match wanted {
            "" => vec!["HEAD".to_owned()],
            _ => ["", "refs/", "refs/tags/", "refs/heads/"].map(|start| format!("{start}{wanted}")).to_vec(),
        };
        let prefixes = names.iter().map(|name| format!("ref-prefix {name}\n"));
        let request = server.request("ls-refs").line("symrefs\n").lines(prefixes).end();
        let mut found: Vec<Option<Fetched>> = names.iter().map(|_| None).collect();
        let mut lines = Lines::new(link.ask(&request)?);
        let mut ended = false;
        for _ in 0..MAX_LINES {
            let Line::Data(text) = lines.next()? else {
                ended = true;
                break;
            };
            let mut words = text.trim_ascii_end().split(|byte| *byte == b' ');
            let (id, name) = (words.next().and_then(parse_id), words.next().unwrap_or_default());
            if let Some(at) = names.iter().position(|known| known.as_bytes() == name) {
                let target = words.find_map(|word| word.strip_prefix(b"symref-target:"));
                found[at] = id.map(|id| Fetched { id, name: reference(target.unwrap_or(name)) });
            }
        }
        if !ended {
            return Err(Error::internal(format!("the server names more than {MAX_LINES} branches and tags")));
        }
        let missing = || match wanted {
            "" => Error::invalid("the repository has no commit"),
            _ if wanted.len() < 40 && hex::is_hex(wanted) => {
                Error::invalid(format!("it has no branch or tag {wanted}; the id of a commit has 40 digits"))
            }
            _ => Error::invalid(format!("it has no branch or tag {wanted}")),
        };
        found.into_iter().flatten().next().ok_or_else(missing)
    }
}

/// The whole name of a branch or tag, as a line of a file can hold it.
fn reference(name: &[u8]) -> Option<String> {
    let name =
        std::str::from_utf8(name).ok().filter(|name| name.len() <= MAX_REF && !name.contains(char::is_control))?;
    name.starts_with("refs/").then(|| name.to_owned())
}

fn old() -> Error {
    Error::internal("the server does not speak version 2 of git's protocol")
}

/// Takes the pack out of an answer to a fetch.
fn take(lines: &mut Lines<impl Read>, pack: &mut dyn Write) -> Result<()> {
    for _ in 0..MAX_LINES {
        match lines.next()? {
            Line::Data(text) if text.trim_ascii_end() == b"packfile" => return bands(lines, pack),
            Line::Data(_) | Line::Delimiter => {}
            Line::Flush => break,
        }
    }
    Err(Error::internal("the server's answer has no pack"))
}

/// A pack comes in the first of three bands; in the others come messages and an error.
fn bands(lines: &mut Lines<impl Read>, pack: &mut dyn Write) -> Result<()> {
    let mut others = 0;
    loop {
        let Line::Data(text) = lines.next()? else { return Ok(()) };
        match text.split_first() {
            Some((1, bytes)) if !bytes.is_empty() => {
                pack.write_all(bytes).map_err(|e| Error::io("write a pack", &e))?
            }
            Some((3, error)) => return Err(reported(error)),
            _ if others == MAX_LINES => {
                return Err(Error::internal(format!(
                    "the server sends more than {MAX_LINES} lines that are not part of a pack"
                )));
            }
            _ => others += 1,
        }
    }
}
