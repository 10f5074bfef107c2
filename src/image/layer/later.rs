//! Attributes of directories that are set at the end of an unpacking, when no more files are made in them.
//!
//! An archive decides how many they are and how much is said of each, so they are kept in memory only while they are
//! few; beyond that they lie in a file that has no name, and are read from there one at a time.

use crate::error::{Error, Result};
use crate::kernel::tree::Time;
use crate::walls::Wall;
use std::fs::File;
use std::io::{BufReader, Read, Seek, Write};
use std::os::fd::OwnedFd;

/// Bytes that are kept in memory.
const IN_MEMORY: usize = 512 << 10;

/// One directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LaterDir {
    pub(crate) path: Vec<u8>,
    /// Which directory stood at the path: another one may be there at the end.
    pub(crate) inode: u64,
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) mtime: Time,
    pub(crate) xattrs: Vec<(String, Vec<u8>)>,
}

/// Directories, in the order in which they came.
pub(crate) struct Later<'a> {
    /// Records that are not in the file.
    kept: Vec<u8>,
    file: Option<File>,
    /// Makes a file without a name, open for reading and writing.
    spool: &'a dyn Fn() -> Result<OwnedFd>,
}

impl<'a> Later<'a> {
    pub(crate) fn new(spool: &'a dyn Fn() -> Result<OwnedFd>) -> Later<'a> {
        Later { kept: Vec::new(), file: None, spool }
    }

    pub(crate) fn push(&mut self, dir: &LaterDir) -> Result<()> {
        encode(&mut self.kept, dir);
        match self.kept.len() > IN_MEMORY && Wall::ArchiveDirectories.stands() {
            true => self.write_out(),
            false => Ok(()),
        }
    }

    fn write_out(&mut self) -> Result<()> {
        if self.file.is_none() {
            self.file = Some(File::from((self.spool)()?));
        }
        if let Some(file) = &mut self.file {
            file.write_all(&self.kept).map_err(|e| failed(&e))?;
        }
        self.kept.clear();
        Ok(())
    }

    /// Hands out all of them.
    pub(crate) fn each(mut self, take: &mut dyn FnMut(LaterDir) -> Result<()>) -> Result<()> {
        if self.file.is_some() {
            self.write_out()?;
        }
        match self.file {
            None => read_all(&mut self.kept.as_slice(), take),
            Some(mut file) => {
                drop(self.kept);
                file.rewind().map_err(|e| failed(&e))?;
                read_all(&mut BufReader::with_capacity(64 << 10, file), take)
            }
        }
    }
}

fn failed(error: &std::io::Error) -> Error {
    Error::io("keep the attributes of directories", error)
}

fn encode(out: &mut Vec<u8>, dir: &LaterDir) {
    let bytes = |out: &mut Vec<u8>, bytes: &[u8]| {
        out.extend((bytes.len() as u32).to_le_bytes());
        out.extend(bytes);
    };
    bytes(out, &dir.path);
    out.extend(dir.inode.to_le_bytes());
    out.extend(dir.mtime.seconds.to_le_bytes());
    for number in [dir.mtime.nanos, dir.mode, dir.uid, dir.gid, dir.xattrs.len() as u32] {
        out.extend(number.to_le_bytes());
    }
    for (key, value) in &dir.xattrs {
        bytes(out, key.as_bytes());
        bytes(out, value);
    }
}

fn read_all(from: &mut dyn Read, take: &mut dyn FnMut(LaterDir) -> Result<()>) -> Result<()> {
    loop {
        let mut length = [0; 4];
        match from.read(&mut length[..1]).map_err(|e| failed(&e))? {
            0 => return Ok(()),
            _ => from.read_exact(&mut length[1..]).map_err(|e| failed(&e))?,
        }
        let mut path = vec![0; u32::from_le_bytes(length) as usize];
        from.read_exact(&mut path).map_err(|e| failed(&e))?;
        take(decode(from, path).map_err(|e| failed(&e))?)?;
    }
}

fn decode(from: &mut dyn Read, path: Vec<u8>) -> std::io::Result<LaterDir> {
    let (inode, seconds) = (u64::from_le_bytes(array(from)?), i64::from_le_bytes(array(from)?));
    let mut number = || Ok::<u32, std::io::Error>(u32::from_le_bytes(array(from)?));
    let (nanos, mode, uid, gid, count) = (number()?, number()?, number()?, number()?, number()?);
    let mut xattrs = Vec::new();
    for _ in 0..count {
        let key = String::from_utf8(bytes(from)?).map_err(std::io::Error::other)?;
        xattrs.push((key, bytes(from)?));
    }
    Ok(LaterDir { path, inode, mode, uid, gid, mtime: Time { seconds, nanos }, xattrs })
}

fn bytes(from: &mut dyn Read) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; u32::from_le_bytes(array(from)?) as usize];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn array<const N: usize>(from: &mut dyn Read) -> std::io::Result<[u8; N]> {
    let mut array = [0; N];
    from.read_exact(&mut array)?;
    Ok(array)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dir(i: u32) -> LaterDir {
        LaterDir {
            path: format!("some/{i}").into_bytes(),
            inode: u64::from(i) << 33,
            mode: 0o2755,
            uid: i,
            gid: u32::MAX - i,
            mtime: Time { seconds: -i64::from(i), nanos: i },
            xattrs: vec![("user.a".into(), vec![7; i as usize % 5000]), (String::new(), Vec::new())],
        }
    }

    #[test]
    fn few_and_many_come_back_in_their_order() {
        for count in [0, 3, 2000] {
            let made = std::cell::Cell::new(0);
            let spool = || {
                made.set(made.get() + 1);
                Ok(OwnedFd::from(tempfile()))
            };
            let mut later = Later::new(&spool);
            (0..count).for_each(|i| later.push(&dir(i)).unwrap());
            let mut next = 0;
            let mut take = |got: LaterDir| {
                assert_eq!(got, dir(next));
                next += 1;
                Ok(())
            };
            later.each(&mut take).unwrap();
            assert_eq!((next, made.get()), (count, u32::from(count == 2000)));
        }
    }

    fn tempfile() -> File {
        let mut options = File::options();
        use std::os::unix::fs::OpenOptionsExt;
        options.read(true).write(true).custom_flags(libc::O_TMPFILE).open(std::env::temp_dir()).unwrap()
    }
}
