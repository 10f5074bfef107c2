//! Reading the files of one commit out of a git repository on a server: version 2 of git's protocol, over HTTP and over
//! `git://`.
//!
//! The server and its bytes are not trusted. A fetch asks for one commit without its history, so the answer is one
//! pack. The pack lies in a file, each of its objects is named by its own hash, and the memory for it is bounded.

mod address;
mod archive;
mod delta;
mod directory;
#[cfg(any(test, fuzzing))]
mod fuzz;
mod lines;
mod link;
mod object;
mod output;
mod pack;
mod query;
mod talk;
#[cfg(test)]
mod tests;

pub(crate) use address::Remote;
pub(crate) use archive::Files;
pub(crate) use directory::GitDir;
pub(crate) use pack::{Limits, Pack};
pub(crate) use talk::Fetched;

/// The name of an object: a SHA-1.
pub(crate) type Id = [u8; 20];

/// Reads the pack, and the files of its commits: what they become is a tar that can be read.
#[cfg(any(test, fuzzing))]
pub(crate) fn fuzz(data: &[u8]) {
    fuzz::pack(data);
    lines::fuzz(data);
}

/// The 40 digits of an object's name.
pub(crate) fn parse_id(text: &[u8]) -> Option<Id> {
    let text = std::str::from_utf8(text).ok().filter(|text| text.len() == 40)?;
    let mut id = Id::default();
    for (byte, pair) in id.iter_mut().zip(text.as_bytes().chunks(2)) {
        let digit = |at: usize| char::from(pair[at]).to_digit(16);
        *byte = (digit(0)? << 4 | digit(1)?) as u8;
    }
    Some(id)
}
