//! The names of containers: answers questions about them from the files of the networks that this container is on.
//!
//! The library writes a file for each network, with the holders of names; the locks of running containers show which of
//! them run.

use crate::ops::{self, Plan};
use crate::question::{self, Answer, Entry, Question, encode_name, entries, head, reversed, reversed6};
use crate::sys::{self, *};
use crate::wire::*;

const MAX_NETWORKS: usize = 16;
const TYPE_A: u16 = 1;
const TYPE_PTR: u16 = 12;
const TYPE_AAAA: u16 = 28;
const TYPE_ANY: u16 = 255;
pub const SERVFAIL: u8 = 2;
const NOTIMP: u8 = 4;

/// Descriptors of the files of names and states; a number below 0 means none.
#[derive(Clone, Copy)]
pub struct Files {
    pub run_dir: i32,
    pub states: i32,
    /// The locks of running containers.
    pub alive: i32,
}

pub struct Names {
    files: Files,
    networks: [&'static [u8]; MAX_NETWORKS],
    network_count: usize,
    aliases: Option<ops::Aliases<'static>>,
    /// There is a resolver for all other names.
    forwards: bool,
    turn: usize,
}

/// The answer to a question.
pub enum Reply {
    /// So many bytes.
    Ready(usize),
    /// A resolver is to answer.
    Forward,
    Silent,
}

impl Names {
    pub const NONE: Names = Names {
        files: Files { run_dir: -1, states: -1, alive: -1 },
        networks: [b""; MAX_NETWORKS],
        network_count: 0,
        aliases: None,
        forwards: false,
        turn: 0,
    };

    /// Called when a worker begins.
    pub fn begin(&mut self, files: Files) {
        self.files = files;
    }

    /// Reads the networks and aliases of a plan. `forwards`: the plan has a resolver for all other names.
    pub fn read(&mut self, plan: Plan<'static>, forwards: bool) {
        (self.network_count, self.aliases, self.forwards) = (0, plan.find(), forwards);
        let Some(resolver) = plan.find::<ops::Resolver>() else { return };
        for (place, path) in self.networks.iter_mut().zip(resolver.names.iter()) {
            *place = path.cstr();
            self.network_count += 1;
        }
    }

    /// The name in the file of a network that stands for an alias of this container alone.
    fn alias(&self, network: usize, name: &[u8]) -> Option<&'static [u8]> {
        for alias in self.aliases?.aliases.iter() {
            if alias.network as usize == network && alias.alias == name {
                return Some(alias.name);
            }
        }
        None
    }

    /// Answers a question about containers, if it is one.
    pub fn answer(&mut self, query: &[u8], out: &mut [u8]) -> Reply {
        // The message is an answer, or cannot be answered.
        let Some(question) = Question::read(query) else { return Reply::Silent };
        if question.opcode != 0 {
            return Reply::Ready(head(out, query, &question, NOTIMP));
        }
        let mut answer = Answer::new(out, query, &question, 0);
        let mut known = false;
        // The order is random and does not rotate: with a rotation, a client that asks for two families, or two names
        // of a search list, would always get the same address.
        if self.turn == 0 {
            self.turn = sys::monotonic() as usize;
        }
        self.turn = self.turn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        for index in 0..self.network_count {
            let Some(file) = NamesFile::open(self.files.run_dir, self.networks[index]) else { continue };
            known |= match question.kind {
                TYPE_PTR => self.pointers(&file, &question, &mut answer),
                _ => {
                    let name = file.without_network(question.name());
                    let name = self.alias(index, name).unwrap_or(name);
                    self.addresses(&file, name, question.kind, &mut answer)
                }
            };
        }
        if !known {
            // Without a resolver, no other names can be answered.
            return if self.forwards { Reply::Forward } else { Reply::Ready(head(out, query, &question, SERVFAIL)) };
        }
        Reply::Ready(answer.finish())
    }

    fn addresses(&mut self, file: &NamesFile, name: &[u8], kind: u16, answer: &mut Answer) -> bool {
        let count = file.entries().filter(|entry| entry.name == name).count();
        let mut known = false;
        let turn = self.turn >> 33;
        for step in 0..count {
            let Some(entry) = file.entries().filter(|entry| entry.name == name).nth((step + turn) % count) else {
                continue;
            };
            if !self.lives(&entry) {
                continue;
            }
            known = true;
            if let (Some(ip), TYPE_A | TYPE_ANY) = (entry.v4, kind) {
                answer.record(TYPE_A, &ip);
            }
            if let (Some(ip), TYPE_AAAA | TYPE_ANY) = (entry.v6, kind) {
                answer.record(TYPE_AAAA, &ip);
            }
        }
        known
    }

    fn pointers(&mut self, file: &NamesFile, question: &Question, answer: &mut Answer) -> bool {
        let (v4, v6) = (reversed(question.name()), reversed6(question.name()));
        let same = |entry: &Entry| v4.is_some() && entry.v4 == v4 || v6.is_some() && entry.v6 == v6;
        for entry in file.entries().filter(|entry| entry.first && same(entry)) {
            if self.lives(&entry) {
                let mut name = [0u8; 256];
                if let Some(length) = encode_name(&mut name, entry.name, file.network) {
                    answer.record(TYPE_PTR, &name[..length]);
                    return true;
                }
            }
        }
        false
    }

    /// Whether an entry's container runs: its monitor's lock is held, and its slot is still its own.
    fn lives(&mut self, entry: &Entry) -> bool {
        let mut record = [0u8; 16];
        let at = u64::from(entry.slot) * STATE_LEN as u64;
        let owner = sys::pread(self.files.states, &mut record, at).is_ok() && record[8..16] == entry.id;
        owner && sys::byte_is_locked(self.files.alive, u64::from(entry.slot))
    }
}

/// The holders of names on a network: see [`NAMES_MAGIC`].
struct NamesFile {
    memory: &'static [u8],
    network: &'static [u8],
    entries: &'static [u8],
}

impl Drop for NamesFile {
    fn drop(&mut self) {
        sys::unmap(self.memory);
    }
}

impl NamesFile {
    /// The library replaces the file as a whole and never changes it, so the mapped contents stay.
    fn open(run_dir: i32, path: &[u8]) -> Option<NamesFile> {
        let fd = sys::openat(run_dir, path, O_RDONLY, 0).ok()?;
        let length = sys::fstat(fd).map_or(0, |stat| stat.size as usize);
        let memory = if length < 5 { Err(EINVAL) } else { sys::map_file(fd, length) };
        sys::close(fd);
        let memory = memory.ok()?;
        let Some((network, entries)) = question::names(memory) else {
            sys::unmap(memory);
            return None;
        };
        Some(NamesFile { memory, network, entries })
    }

    fn entries(&self) -> impl Iterator<Item = Entry<'static>> {
        entries(self.entries)
    }

    /// `name.network` means `name` here.
    fn without_network<'a>(&self, name: &'a [u8]) -> &'a [u8] {
        let bare = name.strip_suffix(self.network).and_then(|rest| rest.strip_suffix(b"."));
        bare.unwrap_or(name)
    }
}
