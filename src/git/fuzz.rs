//! The door of packs: see `crate::fuzz`.

use super::archive::Files;
use super::pack::{Limits, Pack};
use crate::kernel::tree;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// A pack's objects can be read as they are listed, and the files of its commits are a tar.
pub(super) fn pack(data: &[u8]) {
    let shm = tree::open_dir("/dev/shm".as_ref()).expect("a directory in memory");
    let file = || File::from(tree::unnamed_file(std::os::fd::AsFd::as_fd(&shm)).expect("a file in memory"));
    let (pack, full) = (file(), file());
    pack.write_all_at(data, 0).expect("write to memory");
    let limits = Limits { objects: 1000, bytes: 4 << 20, lists: 1 << 16, files: 200 };
    let Ok(pack) = Pack::read(pack, full, &limits, None) else { return };
    for object in &pack.objects {
        let read = std::io::copy(&mut pack.content(object), &mut std::io::sink());
        assert_eq!(read.expect("an object that was read before"), object.size);
        if let Ok(mut files) = Files::new(&pack, &object.id, "", limits) {
            let read = std::io::copy(&mut files, &mut std::io::sink());
            assert_eq!(read.is_ok(), files.failed().is_ok());
        }
    }
}
