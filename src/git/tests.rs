//! Packs that are made here: their objects, their bounds, and the files of their commits.

use super::output::Name;
use super::pack::{Kind, Limits, MAX_DEPTH, Pack};
use super::{Fetched, Files, GitDir, Id, Remote};
use crate::error::Result;
use crate::hex;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;

const LIMITS: Limits = Limits { objects: 5000, bytes: 1 << 20, lists: 1 << 16, files: 1000 };

fn file() -> File {
    let shm = crate::kernel::tree::open_dir("/dev/shm".as_ref()).unwrap();
    File::from(crate::kernel::tree::unnamed_file(std::os::fd::AsFd::as_fd(&shm)).unwrap())
}

fn read(objects: &[Vec<u8>]) -> Result<Pack> {
    read_with(objects, &LIMITS)
}

fn read_with(objects: &[Vec<u8>], limits: &Limits) -> Result<Pack> {
    let head = [&b"PACK\0\0\0\x02"[..], &(objects.len() as u32).to_be_bytes()].concat();
    let pack = file();
    pack.write_all_at(&[&head[..], &objects.concat(), &[0; 20]].concat(), 0).unwrap();
    Pack::read(pack, file(), limits, None)
}

/// An object: its kind, what stands before its content, its content.
fn object(kind: u8, before: &[u8], content: &[u8]) -> Vec<u8> {
    let (mut rest, mut head) = (content.len() >> 4, vec![kind << 4 | (content.len() & 15) as u8]);
    while rest > 0 {
        *head.last_mut().unwrap() |= 0x80;
        head.push((rest & 0x7f) as u8);
        rest >>= 7;
    }
    let mut packed = flate2::write::ZlibEncoder::new([&head[..], before].concat(), flate2::Compression::fast());
    packed.write_all(content).unwrap();
    packed.finish().unwrap()
}

fn id(kind: Kind, content: &[u8]) -> Id {
    let mut name = Name::new(kind.name(), content.len() as u64);
    name.update(content);
    name.end().unwrap()
}

fn content(pack: &Pack, id: &Id) -> Vec<u8> {
    let mut bytes = vec![];
    pack.content(pack.find(id).unwrap()).read_to_end(&mut bytes).unwrap();
    bytes
}

#[test]
fn differences_of_both_kinds() {
    let base = object(3, b"", b"abcdef");
    // By its distance, and by its name, to a base that comes later.
    let near = object(6, &[base.len() as u8], &[6, 5, 0x91, 1, 3, 2, b'X', b'Y']);
    let far = object(7, &id(Kind::Blob, b"bcdXY"), &[5, 6, 0x90, 5, 1, b'!']);
    let pack = read(&[base.clone(), near, far]).unwrap();
    assert_eq!(content(&pack, &id(Kind::Blob, b"abcdef")), b"abcdef");
    assert_eq!(content(&pack, &id(Kind::Blob, b"bcdXY")), b"bcdXY");
    assert_eq!(content(&pack, &id(Kind::Blob, b"bcdXY!")), b"bcdXY!");
    assert!(pack.find(&id(Kind::Tree, b"abcdef")).is_none());
    // A base that a pack has twice.
    let near = object(7, &id(Kind::Blob, b"abcdef"), &[6, 1, 0x90, 1]);
    let pack = read(&[base.clone(), near, base]).unwrap();
    assert_eq!(content(&pack, &id(Kind::Blob, b"a")), b"a");
}

/// git's own files have each object once, and the name of the tag that was wanted.
#[test]
fn the_kept_directory_of_a_pack_with_an_object_twice() {
    let blob = object(3, b"", b"text");
    let tree = [&b"100644 f\0"[..], &id(Kind::Blob, b"text")].concat();
    let words = format!("tree {}\ncommitter a <b> 1700000000 +0000\n\nwords\n", hex::encode(&id(Kind::Tree, &tree)));
    let commit = id(Kind::Commit, words.as_bytes());
    let pack = read(&[blob.clone(), object(2, b"", &tree), object(1, b"", words.as_bytes()), blob]).unwrap();
    let dir = std::env::temp_dir().join(format!("coracle-git-{}", std::process::id()));
    std::fs::create_dir(&dir).unwrap();
    let root = crate::kernel::tree::open_dir(&dir).unwrap();
    let fetched = Fetched { id: commit, name: Some("refs/heads/main".into()) };
    let remote = Remote::of_source("https://h/a.git").unwrap().unwrap();
    let made = GitDir { pack: &pack, fetched: &fetched, remote: &remote, limits: LIMITS, op: None }
        .make(std::os::fd::AsFd::as_fd(&root));
    let name = std::fs::read_to_string(dir.join(".git/packed-refs"));
    std::fs::remove_dir_all(&dir).unwrap();
    made.unwrap();
    assert_eq!(name.unwrap(), format!("{} refs/heads/main\n", hex::encode(&commit)));
}

#[test]
fn chains_and_sizes_are_bounded() {
    let mut chain = vec![object(3, b"", b"abc")];
    for number in 0..MAX_DEPTH + 1 {
        let far = [chain[number].len() as u8];
        chain.push(object(6, &far, &[3, 3, 0x90, 3]));
    }
    let all = read(&chain).err().unwrap();
    assert!(all.message().contains("a chain of more than 4095"), "{all}");
    chain.pop();
    read(&chain).unwrap();
    // 10 steps of 64 KiB each, again and again: each object has little in the pack.
    let base = vec![b'a'; 1 << 16];
    let steps = [&[0x80, 0x80, 4, 0x80, 0x80, 0x28][..], &[0x80; 10]].concat();
    let mut objects = vec![object(3, b"", &base)];
    for _ in 0..3 {
        objects.push(object(7, &id(Kind::Blob, &base), &steps));
    }
    let all = read(&objects).err().unwrap();
    assert!(all.message().contains("more than 1048576 bytes together"), "{all}");
    objects.truncate(2);
    let pack = read(&objects).unwrap();
    assert_eq!(content(&pack, &id(Kind::Blob, &base.repeat(10))).len(), 10 << 16);
}

/// One byte of a large base after the other costs no read of the file each.
#[test]
fn small_pieces_of_a_large_base_are_read_together() {
    const BASE: usize = 300 << 10;
    const PIECES: usize = 150_000;
    let base: Vec<u8> = (0..BASE).map(|at| (at * at % 251) as u8).collect();
    // The sizes, then at each step one byte, at a place of three bytes.
    let mut steps = vec![0x80 | (BASE & 0x7f) as u8, 0x80 | (BASE >> 7 & 0x7f) as u8, (BASE >> 14) as u8];
    steps.extend([0x80 | (PIECES & 0x7f) as u8, 0x80 | (PIECES >> 7 & 0x7f) as u8, (PIECES >> 14) as u8]);
    let places: Vec<usize> =
        (0..PIECES).map(|piece| if piece % 1000 == 0 { BASE - 1 - piece } else { 2 * piece }).collect();
    for place in &places {
        let [a, b, c, ..] = place.to_le_bytes();
        steps.extend([0x97, a, b, c, 1]);
    }
    let wanted: Vec<u8> = places.iter().map(|place| base[*place]).collect();
    let objects = [object(3, b"", &base), object(7, &id(Kind::Blob, &base), &steps)];
    let reads = || -> u64 {
        let text = std::fs::read_to_string("/proc/thread-self/io").unwrap();
        text.lines().find_map(|line| line.strip_prefix("syscr: ")).unwrap().parse().unwrap()
    };
    let before = reads();
    let limits = Limits { bytes: 4 << 20, ..LIMITS };
    let pack = read_with(&objects, &limits).unwrap();
    let reads = reads() - before;
    assert_eq!(content(&pack, &id(Kind::Blob, &wanted)), wanted);
    assert!(reads < 10_000, "{reads} reads");
}

/// Ten directories that are one, in ten directories that are one: few objects, and files without end.
#[test]
fn a_small_pack_does_not_become_a_large_tar() {
    let blob = id(Kind::Blob, b"x");
    let mut tree = [b"100644 f\0", &blob[..]].concat();
    let mut objects = vec![object(3, b"", b"x"), object(2, b"", &tree)];
    for _ in 0..10 {
        let below = id(Kind::Tree, &tree);
        tree = (0..10).flat_map(|n| [format!("40000 d{n}\0").as_bytes(), &below].concat()).collect();
        objects.push(object(2, b"", &tree));
    }
    let commit = format!("tree {}\ncommitter A <a> 5 +0000\n\nwords", crate::hex::encode(&id(Kind::Tree, &tree)));
    objects.push(object(1, b"", commit.as_bytes()));
    let pack = read(&objects).unwrap();
    let mut files = Files::new(&pack, &id(Kind::Commit, commit.as_bytes()), "", LIMITS).unwrap();
    assert!(std::io::copy(&mut files, &mut std::io::sink()).is_err());
    assert!(files.failed().unwrap_err().message().contains("too many files"));
}
