//! The doors of images: see `crate::fuzz`.

use super::Images;
use super::config::ImageConfig;
use super::decompress;
use super::layer::entry::TarReader;
use super::layer::recorder::Recorder;
use super::reference::Reference;
use crate::error::Result;
use crate::model::ContainerConfig;
use crate::options::Options;
use crate::store::{Db, Durability};
use std::io::{BufReader, Read};
use std::path::PathBuf;
use std::sync::Arc;

/// A reference reads the same when it is written again.
pub(crate) fn reference(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(one) = Reference::parse(text) {
        let shown = one.to_string();
        let again = Reference::parse(&shown).unwrap_or_else(|e| panic!("{text:?} became {shown:?}: {e}"));
        assert_eq!(again.to_string(), shown);
        assert_eq!((again.domain(), again.path()), (one.domain(), one.path()));
    }
    let _ = Reference::parse_tag(text);
}

/// The instructions that commit and import take.
pub(crate) fn instructions(data: &[u8]) {
    let text = String::from_utf8_lossy(data).into_owned();
    let _ = super::changes::apply(&mut ContainerConfig::default(), &[text]);
}

pub(crate) fn config(data: &[u8]) {
    let _ = ImageConfig::read(data, usize::MAX);
}

pub(crate) fn manifest(data: &[u8]) {
    #[cfg(feature = "registry")]
    super::remote::fuzz(data);
    #[cfg(not(feature = "registry"))]
    let _ = data;
}

/// Counts the bytes of a tar that are reported to it.
#[derive(Default)]
struct Count(u64);

impl Recorder for Count {
    fn literal(&mut self, bytes: &[u8]) -> Result<()> {
        self.0 += bytes.len() as u64;
        Ok(())
    }
    fn content(&mut self, _: &[u8], _: u64, length: u64) -> Result<()> {
        self.0 += length;
        Ok(())
    }
    fn replaced(&mut self, _: &[u8]) -> Result<()> {
        Ok(())
    }
}

/// Every entry of a tar that is read to its end was reported byte by byte, and none has a path that leads anywhere else.
pub(crate) fn tar(data: &[u8]) {
    let mut count = Count::default();
    let mut tar = TarReader::new(data, &mut count);
    loop {
        match tar.next() {
            Ok(Some(entry)) => {
                let parts = entry.path.split(|byte| *byte == b'/');
                let plain = |part: &[u8]| !matches!(part, b"" | b"." | b"..") && !part.contains(&0);
                assert!(entry.path.is_empty() || parts.into_iter().all(plain), "{}", entry.shown());
                let mut end = 0;
                let mut sink = |offset: u64, bytes: &[u8]| {
                    end = offset + bytes.len() as u64;
                    assert!(end <= entry.size, "{} bytes of {}", end, entry.size);
                    Ok(())
                };
                if tar.content(&entry, Some((&entry.path, &mut sink))).is_err() {
                    return;
                }
            }
            Ok(None) if tar.rest().is_ok() => {
                assert_eq!(count.0, data.len() as u64);
                return;
            }
            _ => return,
        }
    }
}

/// Decompressing ends, and takes no more memory than it needs; a bomb is cut here, as a layer's bound cuts it.
pub(crate) fn compressed(data: &[u8]) {
    if let Ok(reader) = decompress::reader(BufReader::new(data), 128 << 20) {
        let _ = std::io::copy(&mut reader.take(1 << 20), &mut std::io::sink());
    }
}

/// Loads an archive into a root on a tmpfs. A refused archive leaves nothing; a loaded one can be listed and saved.
pub(crate) fn archive(data: &[u8]) {
    let root = Scratch::new();
    let db = Arc::new(Db::open(&root.0, Durability::Off).expect("a database"));
    let images =
        Images::open(&root.0, db, &Options { durability: Durability::Off, ..Options::new(&root.0) }).expect("images");
    let loaded = images.loader.load(&mut &data[..], &mut |_| Ok(()), &mut |_| {}, None);
    let list = images.views.list(&crate::model::ListImages::default()).expect("list");
    match loaded {
        Ok(names) => {
            for name in names {
                images
                    .saver
                    .save(&[name], &mut std::io::sink(), &mut |_| {}, None)
                    .expect("what was loaded can be saved");
            }
        }
        Err(_) => assert!(list.is_empty(), "refused, and there"),
    }
    let left = std::fs::read_dir(root.0.join("tmp")).expect("staging").count();
    assert_eq!(left, 0, "staging is left");
}

/// Lines that dockerd kept of a layer's tar.
pub(crate) fn tar_split(data: &[u8]) {
    let scratch = Scratch::new();
    super::docker_store::fuzz(&scratch.0, data);
}

/// A directory that is removed with the value.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Scratch {
        let number = getrandom::u64().expect("a random number");
        let dir = PathBuf::from("/dev/shm").join(format!("coracle-fuzz-{number:016x}"));
        std::fs::create_dir(&dir).expect("a directory");
        Scratch(dir)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
