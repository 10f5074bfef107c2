//! A blob whose download may be cut off and gone on with, by whichever program.
//!
//! The pull that downloads a blob locks its part. Other pulls, also of other programs, wait for the lock, then find the
//! layer in the store or go on where the part ends. Its bytes are not trusted before the whole blob has its digest.
//! Parts end with the pull that they were for; those of pulls that failed stay, within the bounds that
//! [`LayerStore::sweep_parts`] keeps.

use crate::error::{Error, ErrorKind, Result};
use crate::image::digest::Digest;
use crate::image::layer_store::LayerStore;
use crate::image::partial_gc::PREFIX;
use crate::kernel::tree::{self, Lock};
use crate::registry::Transport;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// A smaller part is as quickly fetched again.
const LEAST: u64 = 1 << 20;

/// How long the download of another pull may stand still before who waits for it gives up.
const STANDSTILL: Duration = Duration::from_secs(3600);

/// Another pull's download of a layer, which is waited for as long as it gets on.
pub(super) struct Awaited<'a> {
    layers: &'a LayerStore,
    digest: Digest,
    have: u64,
    until: Instant,
}

impl<'a> Awaited<'a> {
    pub(super) fn of(layers: &'a LayerStore, digest: Digest) -> Awaited<'a> {
        Awaited { layers, digest, have: 0, until: Instant::now() + STANDSTILL }
    }

    /// Errors: nothing more of it came for too long.
    pub(super) fn check(&mut self, now: Instant) -> Result<()> {
        let have = tree::stat_at(self.layers.tmp(), name_of(&self.digest))?.map_or(0, |stat| stat.size);
        if have != self.have {
            (self.have, self.until) = (have, now + STANDSTILL);
        }
        match now < self.until {
            true => Ok(()),
            false => Err(Error::new(
                ErrorKind::Timeout,
                format!(
                    "layer {}: another pull downloads it, and no byte more of it came for {STANDSTILL:?}",
                    self.digest
                ),
            )),
        }
    }
}

fn name_of(digest: &Digest) -> String {
    format!("{PREFIX}{}", digest.hex())
}

/// The right to download a blob, and what is here of it. A part with bytes stays when it is dropped, an empty one goes.
pub(crate) struct Part<'a> {
    tmp: BorrowedFd<'a>,
    name: String,
    file: File,
    have: u64,
    /// Nothing is kept (any more): too small, or the disk is full.
    idle: bool,
}

impl LayerStore {
    /// The part of the blob `digest` of `size` bytes, where no other pull has it; its content is bounded by `limit`.
    fn try_part(&self, digest: &Digest, size: u64, limit: u64) -> Result<Option<Part<'_>>> {
        let (tmp, name) = (self.tmp(), name_of(digest));
        let file = tree::open_at(tmp, &name, libc::O_RDWR | libc::O_CREAT, 0o600)?;
        if !tree::try_lock(file.as_fd(), Lock::Exclusive)? {
            return Ok(None);
        }
        let found = tree::stat_fd(file.as_fd())?;
        // The pull that had the lock may have removed the file meanwhile: then the caller asks again.
        if tree::stat_at(tmp, &name)?.is_none_or(|stat| stat.ino != found.ino) {
            return Ok(None);
        }
        let idle = size < LEAST || size > limit;
        let mut part = Part { tmp, name, file: File::from(file), have: found.size, idle };
        if found.size > size || idle {
            part.reset();
        }
        Ok(Some(part))
    }

    /// That part, also where other pulls have it: they are waited for. Errors: they do not get on, or the transport was
    /// stopped.
    pub(super) fn part(&self, transport: &Transport, digest: &Digest, size: u64, limit: u64) -> Result<Part<'_>> {
        let mut awaited = Awaited::of(self, *digest);
        loop {
            if let Some(part) = self.try_part(digest, size, limit)? {
                return Ok(part);
            }
            awaited.check(Instant::now())?;
            transport.sleep(Duration::from_millis(50))?;
        }
    }
}

impl Part<'_> {
    /// How many bytes from the blob's beginning are here.
    pub(crate) fn have(&self) -> u64 {
        self.have
    }

    /// Some bytes from `at` on, which must be before the end; none where they cannot be read.
    pub(crate) fn read(&mut self, out: &mut [u8], at: u64) -> usize {
        let want = out.len().min(usize::try_from(self.have - at).unwrap_or(usize::MAX));
        match self.file.read_at(&mut out[..want], at) {
            Ok(n) if n > 0 => n,
            _ => {
                self.reset();
                0
            }
        }
    }

    /// Keeps what came at `at`. A part is a help for later: that it cannot be kept fails nothing now.
    pub(crate) fn append(&mut self, bytes: &[u8], at: u64) {
        if self.idle || at != self.have {
            return;
        }
        match self.file.write_all_at(bytes, at) {
            Ok(()) => self.have += bytes.len() as u64,
            Err(_) => {
                self.reset();
                self.idle = true;
            }
        }
    }

    /// Forgets what is here. The right to download stays until the part is dropped.
    pub(crate) fn reset(&mut self) {
        self.have = 0;
        let _ = tree::truncate_fd(self.file.as_fd(), 0);
    }
}

impl Drop for Part<'_> {
    fn drop(&mut self) {
        // Still locked: nobody else can have begun with it.
        if self.have == 0 {
            let _ = tree::unlink_at(self.tmp, &self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::layer::Room;
    use crate::store::Durability;
    use std::time::SystemTime;

    const LIMIT: u64 = 10 << 20;

    struct Dir(std::path::PathBuf, LayerStore);

    impl Dir {
        fn new(name: &str) -> Dir {
            let dir = std::env::temp_dir().join(format!("coracle-parts-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&dir).unwrap();
            let layers = LayerStore::open(&dir, Durability::Off, Room::WIDE).unwrap();
            Dir(dir, layers)
        }
        fn names(&self) -> Vec<String> {
            let entries = std::fs::read_dir(self.0.join("tmp")).unwrap();
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
        }
        fn sweep(&self, limit: u64) {
            let names = self.names().into_iter().map(String::into_bytes).collect();
            self.1.sweep_parts(names, limit).unwrap();
        }
    }

    impl Drop for Dir {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn one_has_it_and_the_next_goes_on() {
        let dir = Dir::new("go-on");
        let blob = Digest::of(b"blob");
        let mut part = dir.1.try_part(&blob, 2 << 20, LIMIT).unwrap().unwrap();
        assert!(dir.1.try_part(&blob, 2 << 20, LIMIT).unwrap().is_none(), "two have it");
        part.append(b"abc", 0);
        part.append(b"lost", 7);
        part.append(b"de", 3);
        drop(part);
        let mut part = dir.1.try_part(&blob, 2 << 20, LIMIT).unwrap().unwrap();
        let mut out = [0; 4];
        assert_eq!((part.have(), part.read(&mut out, 1), &out), (5, 4, b"bcde"));
        part.reset();
        drop(part);
        assert!(dir.names().is_empty());
        // Small blobs and those over the limit keep no parts; a part that is too long is dropped.
        for size in [1000, LIMIT + 1] {
            let mut part = dir.1.try_part(&blob, size, LIMIT).unwrap().unwrap();
            part.append(b"abc", 0);
            drop(part);
            assert!(dir.names().is_empty());
        }
        std::fs::write(dir.0.join("tmp").join(format!("part-{}", blob.hex())), vec![0; 3 << 20]).unwrap();
        assert_eq!(dir.1.try_part(&blob, 2 << 20, LIMIT).unwrap().unwrap().have(), 0);
    }

    #[test]
    fn another_pull_is_waited_for_as_long_as_it_gets_on() {
        let dir = Dir::new("awaited");
        let blob = Digest::of(b"awaited");
        let mut part = dir.1.try_part(&blob, 2 << 20, LIMIT).unwrap().unwrap();
        let mut awaited = Awaited::of(&dir.1, blob);
        let (begun, second) = (Instant::now(), Duration::from_secs(1));
        awaited.check(begun).unwrap();
        part.append(&[1; 10], 0);
        let later = begun + STANDSTILL + second;
        awaited.check(later).unwrap();
        awaited.check(later + STANDSTILL - second).unwrap();
        let error = awaited.check(later + STANDSTILL + second).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout);
        assert!(error.message().contains(&blob.hex()), "{error}");
        part.reset();
    }

    #[test]
    fn parts_are_bounded_in_number_and_age() {
        let dir = Dir::new("bounded");
        let make = |text: &[u8], age: u64| {
            let blob = Digest::of(text);
            let mut part = dir.1.try_part(&blob, 2 << 20, LIMIT).unwrap().unwrap();
            part.append(&[7; 1000], 0);
            let time = SystemTime::now() - Duration::from_secs(age);
            part.file.set_times(std::fs::FileTimes::new().set_modified(time)).unwrap();
            format!("part-{}", blob.hex())
        };
        let (old, middle, new) = (make(b"1", 300), make(b"2", 200), make(b"3", 100));
        let _stale = make(b"4", 8 * 24 * 3600);
        let locked = dir.1.try_part(&Digest::of(b"5"), 2 << 20, LIMIT).unwrap().unwrap();
        dir.sweep(2500);
        let mut want = vec![middle.clone(), new.clone(), locked.name.clone()];
        want.sort();
        let mut have = dir.names();
        have.sort();
        assert_eq!(have, want);
        assert!(!have.contains(&old));
        drop(locked);
        dir.sweep(0);
        assert!(dir.names().is_empty());
    }
}
