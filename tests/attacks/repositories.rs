//! Git repositories whose packs want memory, and servers whose answers have no end.

use super::archives::{Measured, Run, SMALL};
use crate::support::archive::hex;
use crate::support::git::{GREETING, line, name, number, object, pack, packed, scripted};

/// Objects that a pack may have for an engine of small memory, and longest chain of differences: see `docs/images.md`.
const OBJECTS: usize = 100_000;
const CHAIN: usize = 4095;
/// Largest content that the reader keeps in memory; behind other differences, less.
const IN_MEMORY: usize = 128 << 10;

/// A difference by the base's name: the first `kept` bytes of the base, then four bytes of its own.
fn difference(base: &[u8], base_name: &[u8], kept: usize, own: u32) -> (Vec<u8>, Vec<u8>) {
    let content = [&base[..kept], &own.to_be_bytes()].concat();
    let copy = [&[0xf0][..], &(kept as u32).to_le_bytes()[..3], &[4], &own.to_be_bytes()].concat();
    let text = [number(base.len() as u64), number(content.len() as u64), copy].concat();
    (object(7, text.len() as u64, base_name, &text), content)
}

/// A pack of a file, its directory and its commit; a chain of so many differences, the n-th of `size(n)` bytes; and
/// differences to the chain's first content until it has so many objects. Answers the name of the commit too.
fn hoard(objects: usize, chain: usize, size: fn(usize) -> usize) -> (Vec<u8>, [u8; 20]) {
    let file = b"FROM scratch\nLABEL a=b\n";
    let tree = [b"100644 Dockerfile\0", &name("blob", file)[..]].concat();
    let commit = format!("tree {}\n\nwords", hex(&name("tree", &tree)));
    let mut all: Vec<Vec<u8>> = [(3, &file[..]), (2, &tree), (1, commit.as_bytes())]
        .map(|(kind, content)| object(kind, content.len() as u64, b"", content))
        .into();
    let first = vec![b'a'; IN_MEMORY];
    let first_name = name("blob", &first);
    all.push(object(3, first.len() as u64, b"", &first));
    let (mut base, mut base_name) = (first.clone(), first_name);
    for number in 1..=chain {
        let (differs, content) = difference(&base, &base_name, size(number) - 4, number as u32);
        all.push(differs);
        (base_name, base) = (name("blob", &content), content);
    }
    while all.len() < objects {
        all.push(difference(&first, &first_name, 4, all.len() as u32).0);
    }
    (pack(&all), name("commit", commit.as_bytes()))
}

/// Fetches the commit of a pack within the bound of a small engine.
fn fetch(at: &Measured, answer: Vec<u8>, commit: &[u8; 20]) -> Run {
    let server = scripted(vec![GREETING.to_vec(), answer]);
    let remote = format!("http://{}/x.git#{}", server.host(), hex(commit));
    at.run(SMALL, &["build", "-q", &remote], None)
}

#[track_caller]
fn refused(run: &Run, why: &str) {
    assert!(run.code != Some(0) && run.said.contains(why), "{:?} {}", run.code, run.said);
}

// attack: R5 wall git-memory
#[test]
fn contents_of_a_pack_have_one_bound_of_memory() {
    let at = Measured::new();
    // The longest chain, each content as large as may be kept while those behind it are worked off, and as many objects as
    // there may be, all but a few of them differences: every table is as long as it can be.
    let (most, commit) = hoard(OBJECTS, CHAIN, |number| IN_MEMORY / (number + 1));
    let run = fetch(&at, packed(&most), &commit);
    assert_eq!(run.code, Some(0), "{}", run.said);
    // Contents that are 50 MiB together: they lie on the disk.
    let (large, commit) = hoard(0, 400, |_| IN_MEMORY);
    let run = fetch(&at, packed(&large), &commit);
    assert_eq!(run.code, Some(0), "{}", run.said);
    let (more, commit) = hoard(OBJECTS + 1, 1, |_| 4);
    refused(&fetch(&at, packed(&more), &commit), "100001 objects: more than 100000");
}

/// Messages in place of a pack, empty pieces of one, lines before one; objects that say that they are large, and are not.
#[test]
fn answers_without_end_are_errors() {
    let (at, commit) = (Measured::new(), [0xaa; 20]);
    for lines in [line(b"\x02words\n"), line(b"\x01"), line(b"\x02"), line(b"")] {
        let answer = [line(b"packfile\n"), lines.repeat(1_000_001)].concat();
        refused(&fetch(&at, answer, &commit), "more than 1000000 lines that are not part of a pack");
    }
    let before = line(b"shallow-info\n").repeat(1_000_000);
    refused(&fetch(&at, before, &commit), "has no pack");
    let claims = object(3, 1 << 40, b"", b"abc");
    refused(&fetch(&at, packed(&pack(&[claims])), &commit), "another size than it says");
}
