//! Writing tars: POSIX headers, PAX records where those are too small, files from directory descriptors.

use crate::error::{Error, Result};
use crate::kernel::tree::{self, Stat};
use crate::kernel::walk::{Mounts, Order, Step, Walk, check_path};
use crate::op::Op;
use crate::walls::Wall;
use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

const BLOCK: usize = 512;
/// Read and written at once.
const CHUNK: usize = 256 << 10;
/// The largest number in eight and in twelve digits of an old header.
const MAX_ID: u32 = 0o7777777;
const MAX_SIZE: u64 = 0o77777777777;

/// Takes a tar in pieces, and knows of each whether it is a file's content.
pub(crate) trait TarSink {
    /// Headers and padding.
    fn literal(&mut self, bytes: &[u8]) -> Result<()>;
    /// A piece of the content of the file at `path`.
    fn content(&mut self, path: &[u8], offset: u64, bytes: &[u8]) -> Result<()>;
}

/// Where a tar goes.
enum Out<'a> {
    Bytes(&'a mut dyn Write),
    Sink(&'a mut dyn TarSink),
}

/// A tar on its way out.
pub(crate) struct TarWriter<'a> {
    out: Out<'a>,
    op: Option<&'a Op>,
    buffer: Vec<u8>,
    /// Where the buffer is filled to.
    filled: usize,
    /// Under which name a file with several names went out first, by device and inode.
    linked: HashMap<(u64, u64), Vec<u8>>,
}

/// The head of an entry.
#[derive(Clone, Copy)]
struct Header<'a> {
    /// The type flag of tar.
    kind: u8,
    path: &'a [u8],
    stat: &'a Stat,
    /// Bytes of content that follow.
    size: u64,
    /// The path that a link names; else empty.
    link: &'a [u8],
    /// Extended attributes.
    attributes: &'a [(String, Vec<u8>)],
}

impl<'a> Header<'a> {
    /// Without content, link and attributes.
    fn of(kind: u8, path: &'a [u8], stat: &'a Stat) -> Header<'a> {
        Header { kind, path, stat, size: 0, link: b"", attributes: &[] }
    }
}

impl<'a> TarWriter<'a> {
    pub(crate) fn new(out: &'a mut dyn Write, op: Option<&'a Op>) -> TarWriter<'a> {
        TarWriter { out: Out::Bytes(out), op, buffer: vec![0; CHUNK], filled: 0, linked: HashMap::new() }
    }

    /// A writer whose reader learns which bytes are content.
    pub(crate) fn into_sink(out: &'a mut dyn TarSink, op: Option<&'a Op>) -> TarWriter<'a> {
        TarWriter { out: Out::Sink(out), op, buffer: vec![0; CHUNK], filled: 0, linked: HashMap::new() }
    }

    /// Writes `name` of `dir` (`.`: `dir` itself) and all below it as `path`. Files that go away meanwhile are left
    /// out.
    pub(crate) fn tree(&mut self, dir: BorrowedFd<'_>, name: &[u8], path: &[u8], stat: &Stat) -> Result<()> {
        if !stat.is_dir() {
            return self.entry(dir, name, path, stat);
        }
        let opened = match name {
            b"." => crate::kernel::path::openat2(
                dir,
                ".",
                libc::O_RDONLY | libc::O_DIRECTORY,
                0,
                crate::kernel::path::BENEATH_NO_LINKS,
            ),
            _ => tree::open_dir_at(dir, name),
        };
        let Some(opened) = there(opened)? else { return Ok(()) };
        self.directory(opened.as_fd(), path)?;
        self.below(opened.as_fd(), path)
    }

    /// Writes what is in a directory, by names that begin with nothing.
    pub(crate) fn content(&mut self, dir: BorrowedFd<'_>) -> Result<()> {
        self.below(dir, b"")
    }

    fn below(&mut self, opened: BorrowedFd<'_>, path: &[u8]) -> Result<()> {
        let mut walk = Walk::new(opened, Order::ByName, Mounts::Crossed)?;
        let mut below = path.to_vec();
        if !below.is_empty() && !below.ends_with(b"/") {
            below.push(b'/');
        }
        let length = below.len();
        while let Some(step) = walk.next()? {
            if step == Step::Left {
                continue;
            }
            let Some(stat) = walk.stat()? else { continue };
            below.truncate(length);
            below.extend_from_slice(walk.path());
            check_path(&below)?;
            if !stat.is_dir() {
                self.entry(walk.dir()?, walk.name(), &below, &stat)?;
            } else if let Some(opened) = walk.open()? {
                self.directory(opened.as_fd(), &below)?;
                walk.enter(opened)?;
            }
        }
        Ok(())
    }

    /// Writes a directory's own entry, without what is in it.
    pub(crate) fn directory(&mut self, dir: BorrowedFd<'_>, path: &[u8]) -> Result<()> {
        let stat = tree::stat_fd(dir)?;
        let mut path = path.to_vec();
        if !path.ends_with(b"/") {
            path.push(b'/');
        }
        let attributes = attributes(dir)?;
        self.header(&Header { attributes: &attributes, ..Header::of(b'5', &path, &stat) })
    }

    /// Writes an object that is not a directory. Sockets have no place in an archive.
    pub(crate) fn entry(&mut self, dir: BorrowedFd<'_>, name: &[u8], path: &[u8], stat: &Stat) -> Result<()> {
        let kind = match stat.mode & libc::S_IFMT {
            libc::S_IFREG => b'0',
            libc::S_IFLNK => b'2',
            libc::S_IFCHR => b'3',
            libc::S_IFBLK => b'4',
            libc::S_IFIFO => b'6',
            _ => return Ok(()),
        };
        if stat.links > 1 {
            if let Some(first) = self.linked.get(&(stat.dev, stat.ino)) {
                let first = first.clone();
                return self.header(&Header { link: &first, ..Header::of(b'1', path, stat) });
            }
            self.linked.insert((stat.dev, stat.ino), path.to_vec());
        }
        match kind {
            b'0' => self.file(dir, name, path),
            b'2' if !Wall::LinksStay.stands() => self.file(dir, name, path),
            b'2' => match there(tree::read_link_at(dir, name))? {
                Some(target) => self.header(&Header { link: &target, ..Header::of(kind, path, stat) }),
                None => Ok(()),
            },
            _ => self.header(&Header::of(kind, path, stat)),
        }
    }

    /// A file as it is once it is open: what stood there before may have been put aside by something else.
    fn file(&mut self, dir: BorrowedFd<'_>, name: &[u8], path: &[u8]) -> Result<()> {
        let flags = libc::O_RDONLY | libc::O_NONBLOCK | libc::O_NOCTTY;
        let opened = match Wall::LinksStay.stands() {
            true => tree::open_at(dir, name, flags, 0),
            false => crate::kernel::path::openat2(dir, name, flags, 0, 0),
        };
        let Some(opened) = there(opened)? else { return Ok(()) };
        let stat = tree::stat_fd(opened.as_fd())?;
        if !stat.is_file() {
            return Ok(());
        }
        let attributes = attributes(opened.as_fd())?;
        self.header(&Header { size: stat.size, attributes: &attributes, ..Header::of(b'0', path, &stat) })?;
        let mut file = File::from(opened);
        let mut left = stat.size;
        let to_sink = matches!(self.out, Out::Sink(_));
        if to_sink {
            self.send()?;
        }
        while left > 0 {
            if self.filled == CHUNK {
                self.send()?;
            }
            let room = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK - self.filled);
            match file.read(&mut self.buffer[self.filled..self.filled + room]) {
                // Of a layer that is being made nobody else takes anything away.
                Ok(0) if to_sink => return Err(Error::internal("a layer's file became shorter")),
                Ok(0) => return self.zeros(stat.size.next_multiple_of(BLOCK as u64) - (stat.size - left)),
                Ok(n) => {
                    if let Out::Sink(out) = &mut self.out {
                        out.content(path, stat.size - left, &self.buffer[..n])?;
                    } else {
                        self.filled += n;
                    }
                    left -= n as u64;
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::io(format_args!("read {}", String::from_utf8_lossy(path)), &error)),
            }
        }
        self.zeros((stat.size as usize).wrapping_neg() as u64 % BLOCK as u64)
    }

    /// An empty file that says that something is gone: a layer's whiteout.
    pub(crate) fn whiteout(&mut self, path: &[u8]) -> Result<()> {
        let stat = Stat {
            mode: libc::S_IFREG,
            uid: 0,
            gid: 0,
            size: 0,
            dev: 0,
            rdev: 0,
            ino: 0,
            links: 1,
            mtime: tree::Time::default(),
        };
        self.header(&Header::of(b'0', path, &stat))
    }

    /// Writes the end.
    pub(crate) fn finish(mut self) -> Result<()> {
        self.zeros(2 * BLOCK as u64)?;
        self.send()?;
        match self.out {
            Out::Bytes(out) => out.flush().map_err(unwritten),
            Out::Sink(_) => Ok(()),
        }
    }

    fn header(&mut self, header: &Header<'_>) -> Result<()> {
        let Header { kind, path, stat, size, link, attributes } = *header;
        let mut records = Vec::new();
        if path.len() > 100 {
            record(&mut records, "path", path);
        }
        if link.len() > 100 {
            record(&mut records, "linkpath", link);
        }
        if size > MAX_SIZE {
            record(&mut records, "size", size.to_string().as_bytes());
        }
        for (key, id) in [("uid", stat.uid), ("gid", stat.gid)] {
            if id > MAX_ID {
                record(&mut records, key, id.to_string().as_bytes());
            }
        }
        let seconds = stat.mtime.seconds;
        if seconds < 0 || seconds as u64 > MAX_SIZE {
            record(&mut records, "mtime", seconds.to_string().as_bytes());
        }
        for (key, value) in attributes {
            record(&mut records, &format!("SCHILY.xattr.{key}"), value);
        }
        if !records.is_empty() {
            let mut name = b"PaxHeaders.0/".to_vec();
            name.extend_from_slice(&path[path.len().saturating_sub(80)..]);
            self.block(b'x', &name, stat, records.len() as u64, b"")?;
            self.bytes(&records)?;
            self.zeros(records.len().wrapping_neg() as u64 % BLOCK as u64)?;
        }
        self.block(kind, path, stat, size, link)
    }

    fn block(&mut self, kind: u8, path: &[u8], stat: &Stat, size: u64, link: &[u8]) -> Result<()> {
        let mut block = [0u8; BLOCK];
        let name = &path[..path.len().min(100)];
        block[..name.len()].copy_from_slice(name);
        octal(&mut block[100..108], u64::from(stat.mode & 0o7777));
        octal(&mut block[108..116], u64::from(stat.uid.min(MAX_ID)));
        octal(&mut block[116..124], u64::from(stat.gid.min(MAX_ID)));
        octal(&mut block[124..136], size.min(MAX_SIZE));
        octal(&mut block[136..148], (stat.mtime.seconds.max(0) as u64).min(MAX_SIZE));
        block[148..156].fill(b' ');
        block[156] = kind;
        let link = &link[..link.len().min(100)];
        block[157..157 + link.len()].copy_from_slice(link);
        block[257..265].copy_from_slice(b"ustar\x0000");
        if matches!(kind, b'3' | b'4') {
            octal(&mut block[329..337], u64::from(libc::major(stat.rdev)));
            octal(&mut block[337..345], u64::from(libc::minor(stat.rdev)));
        }
        let sum: u64 = block.iter().map(|&byte| u64::from(byte)).sum();
        octal(&mut block[148..155], sum);
        self.bytes(&block)
    }

    fn zeros(&mut self, mut count: u64) -> Result<()> {
        const ZEROS: [u8; 4096] = [0; 4096];
        while count > 0 {
            let n = count.min(ZEROS.len() as u64);
            self.bytes(&ZEROS[..n as usize])?;
            count -= n;
        }
        Ok(())
    }

    fn bytes(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            if self.filled == CHUNK {
                self.send()?;
            }
            let n = bytes.len().min(CHUNK - self.filled);
            self.buffer[self.filled..self.filled + n].copy_from_slice(&bytes[..n]);
            self.filled += n;
            bytes = &bytes[n..];
        }
        Ok(())
    }

    fn send(&mut self) -> Result<()> {
        self.op.map_or(Ok(()), Op::check)?;
        let filled = std::mem::take(&mut self.filled);
        let bytes = &self.buffer[..filled];
        match &mut self.out {
            Out::Bytes(out) => out.write_all(bytes).map_err(unwritten),
            Out::Sink(_) if bytes.is_empty() => Ok(()),
            Out::Sink(out) => out.literal(bytes),
        }
    }
}

fn unwritten(error: std::io::Error) -> Error {
    Error::io("write the archive", &error)
}

/// A file that went away meanwhile does not fail an archive: `None`.
fn there<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        // ELOOP, ENOTDIR: a link or a file took its place; EINVAL: no link any more.
        Err(error) => match error.raw_os_error() {
            Some(libc::ENOENT | libc::ELOOP | libc::ENOTDIR | libc::EINVAL | libc::ENXIO) => Ok(None),
            _ => Err(error),
        },
    }
}

/// The extended attributes that archives carry: rights of programs, and the user's own.
fn attributes(fd: BorrowedFd<'_>) -> Result<Vec<(String, Vec<u8>)>> {
    let mut attributes = Vec::new();
    for key in tree::xattrs_fd(fd)? {
        if (key == "security.capability" || key.starts_with("user."))
            && let Some(value) = tree::get_xattr_fd(fd, &key)?
        {
            attributes.push((key, value));
        }
    }
    Ok(attributes)
}

/// `length key=value\n`, where the length counts itself.
fn record(records: &mut Vec<u8>, key: &str, value: &[u8]) {
    let rest = key.len() + value.len() + 3;
    let mut length = rest + 1;
    while rest + length.to_string().len() != length {
        length = rest + length.to_string().len();
    }
    records.extend_from_slice(format!("{length} {key}=").as_bytes());
    records.extend_from_slice(value);
    records.push(b'\n');
}

/// Octal digits that end in a NUL.
fn octal(field: &mut [u8], value: u64) {
    let digits = field.len() - 1;
    let text = format!("{value:0digits$o}");
    field[..digits].copy_from_slice(&text.as_bytes()[text.len() - digits..]);
    field[digits] = 0;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_count_themselves() {
        for length in [1, 85, 86, 87, 88, 89, 90, 985, 990, 991, 9980] {
            let mut records = Vec::new();
            record(&mut records, "path", &vec![b'x'; length]);
            let text = String::from_utf8(records).unwrap();
            let count: usize = text.split(' ').next().unwrap().parse().unwrap();
            assert_eq!(count, text.len());
        }
    }

    #[test]
    fn numbers() {
        let mut field = [b'x'; 8];
        octal(&mut field, 0o755);
        assert_eq!(&field, b"0000755\0");
    }
}
