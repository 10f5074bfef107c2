//! Reading a layer's tar, block by block, with every byte accounted for.
//!
//! An own reader, not the tar crate's, for three reasons: a layer must be written again byte by byte, so headers and
//! padding are needed verbatim; all three PAX sparse forms must be understood; and each field is checked in one place.
//! Where readers in the field disagree about a header (a directory with content, a size on a link) the entry is refused
//! or read as docker's reader does, so that no entry can hide in another's content.

use super::recorder::Recorder;
use crate::error::{Cause, Error, Result};
use crate::kernel::tree::Time;
use crate::walls::Wall;
use std::collections::BTreeMap;
use std::io::{self, BufRead, Read};

/// Most bytes of all that says more about one entry than its header, together: PAX headers (also global ones), GNU long
/// names, sparse maps.
const MAX_META: u64 = 1 << 20;
/// Most extended attributes of an entry, and most bytes of one: the kernel takes no more.
const MAX_XATTRS: usize = 1000;
const MAX_XATTR: usize = 64 << 10;
/// Most pieces of a sparse file.
const MAX_PIECES: usize = 1 << 16;
/// Most entries of one layer.
const MAX_ENTRIES: u64 = 5_000_000;
/// Longest path that the kernel takes.
const MAX_PATH: usize = 4095;
/// Most digits of a decimal number.
const MAX_DIGITS: usize = 20;
const BLOCK: usize = 512;

/// The kind of file that an entry makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Dir,
    /// A hard link to that entry's path (cleaned).
    Link(Vec<u8>),
    Symlink(Vec<u8>),
    Char(u32, u32),
    Block(u32, u32),
    Fifo,
}

/// A piece of a file's content as it follows in the tar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

/// One entry: its path is cleaned (relative, no `.`, `..` or doubled slashes; empty is the root itself).
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) path: Vec<u8>,
    pub(crate) kind: Kind,
    /// Permission bits, with setuid, setgid and sticky.
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) mtime: Time,
    pub(crate) xattrs: Vec<(String, Vec<u8>)>,
    /// The file's size with its holes.
    pub(crate) size: u64,
    /// Whether `extents` leave holes.
    pub(crate) sparse: bool,
    pub(crate) extents: Vec<Extent>,
    /// Bytes of padding after the content.
    padding: usize,
}

impl Entry {
    /// The path for messages.
    pub(crate) fn shown(&self) -> String {
        show(&self.path)
    }
}

/// A path of an archive for messages.
pub(crate) fn show(path: &[u8]) -> String {
    let text = String::from_utf8_lossy(path);
    let short: String = text.chars().take(300).collect();
    format!("{short:?}")
}

/// Takes a file's content as (offset in the file, bytes).
pub(crate) type Sink<'a> = &'a mut dyn FnMut(u64, &[u8]) -> Result<()>;

/// Reads entries from `input` and gives `recorder` every byte that is not a file's content.
pub(crate) struct TarReader<'a, R> {
    input: R,
    recorder: &'a mut dyn Recorder,
    entries: u64,
    /// The part of [`MAX_META`] that the current entry has taken.
    meta: u64,
}

impl<'a, R: BufRead> TarReader<'a, R> {
    pub(crate) fn new(input: R, recorder: &'a mut dyn Recorder) -> TarReader<'a, R> {
        TarReader { input, recorder, entries: 0, meta: 0 }
    }

    pub(crate) fn recorder(&mut self) -> &mut dyn Recorder {
        self.recorder
    }

    /// The next entry. Its content must be taken with [`TarReader::content`] before the next call.
    pub(crate) fn next(&mut self) -> Result<Option<Entry>> {
        let mut extra = Extra::default();
        self.meta = 0;
        loop {
            if !Wall::ArchiveHeaders.stands() {
                self.meta = 0;
            }
            let Some(header) = self.header()? else {
                return if extra.is_empty() {
                    Ok(None)
                } else {
                    Err(Error::invalid("tar: the archive ends in an extended header"))
                };
            };
            match header.kind() {
                b'x' => extra.pax(&self.meta(&header)?)?,
                b'g' => check_global(&self.meta(&header)?)?,
                b'L' => extra.long_name = Some(text_of(&self.meta(&header)?).to_vec()),
                b'K' => extra.long_link = Some(text_of(&self.meta(&header)?).to_vec()),
                _ => return self.entry(&header, extra).map(Some),
            }
        }
    }

    /// Passes the entry's content on as (offset in the file, bytes); absent `sink`: skips it, and records it as it is.
    ///
    /// `path`: where the content stands in the unpacked tree, for the recipe.
    pub(crate) fn content(&mut self, entry: &Entry, mut sink: Option<(&[u8], Sink<'_>)>) -> Result<()> {
        for extent in &entry.extents {
            let (mut offset, mut left) = (extent.offset, extent.length);
            if let Some((path, _)) = &sink {
                self.recorder.content(path, extent.offset, extent.length)?;
            }
            while left > 0 {
                let have = self.input.fill_buf()?;
                if have.is_empty() {
                    return Err(truncated_in(entry));
                }
                let n = have.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                match &mut sink {
                    Some((_, write)) => write(offset, &have[..n])?,
                    None => self.recorder.literal(&have[..n])?,
                }
                self.input.consume(n);
                offset += n as u64;
                left -= n as u64;
            }
        }
        self.padding(entry.padding).map(drop)
    }

    /// Hands the content of a file without holes to `take` as a stream, and passes over what was left of it. No
    /// recorder gets it.
    pub(crate) fn stream<T>(&mut self, entry: &Entry, take: impl FnOnce(&mut dyn Read) -> Result<T>) -> Result<T> {
        let mut content = self.input.by_ref().take(entry.size);
        let taken = take(&mut content)?;
        io::copy(&mut content, &mut io::sink())?;
        if content.limit() > 0 {
            return Err(truncated_in(entry));
        }
        // An archive of images was cut short there: nobody leaves the padding out of one.
        match self.padding(entry.padding)? {
            0 => Ok(taken),
            _ => Err(truncated_in(entry)),
        }
    }

    /// Reads what fills the last block of a content. It may be missing at the end of the stream: the docker command
    /// leaves it out where it adds a build file to a context. Answers how many bytes are missing.
    fn padding(&mut self, mut left: usize) -> Result<usize> {
        while left > 0 {
            let have = self.input.fill_buf()?;
            let n = have.len().min(left);
            if n == 0 {
                return Ok(left);
            }
            self.recorder.literal(&have[..n])?;
            self.input.consume(n);
            left -= n;
        }
        Ok(0)
    }

    /// Reads what stands after the last entry to the end of the stream.
    pub(crate) fn rest(&mut self) -> Result<()> {
        loop {
            let have = self.input.fill_buf()?;
            if have.is_empty() {
                return Ok(());
            }
            self.recorder.literal(have)?;
            let n = have.len();
            self.input.consume(n);
        }
    }

    /// The next header, or `None` at the end mark or the end of the stream.
    fn header(&mut self) -> Result<Option<Header>> {
        self.entries += 1;
        if self.entries > MAX_ENTRIES {
            return Err(Error::invalid(format!("tar: more than {MAX_ENTRIES} entries")));
        }
        if self.input.fill_buf()?.is_empty() {
            return Ok(None);
        }
        let mut block = [0; BLOCK];
        self.exact(&mut block)?;
        if block.iter().all(|&b| b == 0) {
            if self.input.fill_buf()?.is_empty() {
                return Ok(None);
            }
            self.exact(&mut block)?;
            if block.iter().any(|&b| b != 0) {
                return Err(Error::invalid("tar: a lone zero block stands between entries"));
            }
            return Ok(None);
        }
        let header = Header(block);
        header.check()?;
        Ok(Some(header))
    }

    /// Counts bytes of an entry's headers against their bound.
    fn spend(&mut self, bytes: u64) -> Result<()> {
        self.meta = self.meta.saturating_add(bytes);
        match self.meta > MAX_META {
            true => Err(Error::invalid(format!(
                "tar: extended headers of more than {MAX_META} bytes before one entry, or a sparse map of so many"
            ))),
            false => Ok(()),
        }
    }

    /// The whole content of an extended header.
    fn meta(&mut self, header: &Header) -> Result<Vec<u8>> {
        let size = header.size()?;
        self.spend(size)?;
        let mut data = vec![0; (size as usize).next_multiple_of(BLOCK)];
        self.exact(&mut data)?;
        data.truncate(size as usize);
        Ok(data)
    }

    fn entry(&mut self, header: &Header, mut extra: Extra) -> Result<Entry> {
        let raw_name = extra.name().unwrap_or_else(|| header.name());
        let wrong = |what: &str| Error::invalid(format!("tar: {}: {what}", show(&raw_name)));
        let path = clean(&raw_name)?;
        let mut stored = match extra.number("size")? {
            Some(size) if Wall::ArchiveSizes.stands() => size,
            _ => header.size().map_err(|e| e.context(show(&raw_name)))?,
        };
        let raw_link = extra.link().unwrap_or_else(|| header.link());
        let kind = kind_of(header, &raw_name, raw_link)?;
        if path.is_empty() && kind != Kind::Dir && Wall::ArchiveRoot.stands() {
            return Err(wrong("the root of the archive can only be a directory"));
        }
        match kind {
            Kind::File => {}
            // Archivers write the linked file's size here, without content; all readers skip it.
            Kind::Link(_) => stored = 0,
            _ if stored != 0 => return Err(wrong("has content, but is not a file")),
            _ => {}
        }
        let padding = (stored as usize).wrapping_neg() % BLOCK;
        let (size, extents, sparse) = match self.sparse_map(header, &mut extra, &mut stored)? {
            Some((size, extents)) => {
                check_map(size, stored, &extents).map_err(|e| e.context(show(&raw_name)))?;
                (size, extents, true)
            }
            None if stored == 0 => (0, Vec::new(), false),
            None => (stored, vec![Extent { offset: 0, length: stored }], false),
        };
        if kind != Kind::File && sparse {
            return Err(wrong("has a sparse map, but is not a file"));
        }
        let owner = |pax: Option<u64>, own: Result<i64>, what: &str| {
            let id = match pax {
                Some(id) => i64::try_from(id).unwrap_or(-1),
                None => own?,
            };
            u32::try_from(id)
                .ok()
                .filter(|&id| id != u32::MAX)
                .ok_or_else(|| wrong(&format!("{what} {id} is out of range")))
        };
        Ok(Entry {
            kind,
            mode: (number(&header.0[100..108])? & 0o7777) as u32,
            uid: owner(extra.number("uid")?, number(&header.0[108..116]), "owner")?,
            gid: owner(extra.number("gid")?, number(&header.0[116..124]), "group")?,
            mtime: match extra.records.get("mtime") {
                Some(text) => pax_time(text)?,
                None => Time { seconds: number(&header.0[136..148])?, nanos: 0 },
            },
            xattrs: extra.xattrs,
            path,
            size,
            sparse,
            extents,
            padding,
        })
    }

    /// The map of a sparse file in any of its four forms, and the file's real size. A map that stands in the content is
    /// read, and taken off `stored`.
    fn sparse_map(
        &mut self,
        header: &Header,
        extra: &mut Extra,
        stored: &mut u64,
    ) -> Result<Option<(u64, Vec<Extent>)>> {
        if header.kind() == b'S' {
            return self.old_gnu_map(header).map(Some);
        }
        let real = match extra.number("GNU.sparse.realsize")? {
            Some(size) => Some(size),
            None => extra.number("GNU.sparse.size")?,
        };
        let missing = || Error::invalid("tar: a sparse file without its size");
        if extra.number("GNU.sparse.major")?.is_some_and(|major| major > 0) {
            let map = self.map_in_content(stored)?;
            return Ok(Some((real.ok_or_else(missing)?, map)));
        }
        let numbers: Vec<u64> = match extra.records.remove("GNU.sparse.map") {
            Some(map) if !map.is_empty() => {
                check_pieces(1 + map.iter().filter(|&&b| b == b',').count())?;
                map.split(|&b| b == b',').map(decimal).collect::<Result<_>>()?
            }
            _ if !extra.sparse.is_empty() => std::mem::take(&mut extra.sparse),
            _ if real.is_some() => Vec::new(),
            _ => return Ok(None),
        };
        if !numbers.len().is_multiple_of(2) {
            return Err(Error::invalid("tar: a sparse map with an odd count of numbers"));
        }
        Ok(Some((real.ok_or_else(missing)?, pairs(&numbers))))
    }

    fn old_gnu_map(&mut self, header: &Header) -> Result<(u64, Vec<Extent>)> {
        let mut map = Vec::new();
        let mut take = |fields: &[u8]| -> Result<()> {
            for field in fields.chunks_exact(24) {
                if field[0] == 0 {
                    break;
                }
                map.push(Extent { offset: unsigned(&field[..12])?, length: unsigned(&field[12..])? });
            }
            Ok(())
        };
        take(&header.0[386..482])?;
        let mut more = header.0[482];
        while more != 0 {
            self.spend(BLOCK as u64)?;
            let mut block = [0; BLOCK];
            self.exact(&mut block)?;
            take(&block[..504])?;
            more = block[504];
        }
        Ok((unsigned(&header.0[483..495])?, map))
    }

    /// PAX sparse form 1.0: decimal numbers on lines, count first, padded to a block, before the content.
    fn map_in_content(&mut self, stored: &mut u64) -> Result<Vec<Extent>> {
        let (mut numbers, mut line, mut wanted, mut read) = (Vec::new(), Vec::new(), None, 0u64);
        loop {
            read += BLOCK as u64;
            self.spend(BLOCK as u64)?;
            if read > stored.next_multiple_of(BLOCK as u64) {
                return Err(Error::invalid("tar: a sparse map that is too long or cut off"));
            }
            let mut block = [0; BLOCK];
            self.exact(&mut block)?;
            for byte in block {
                if wanted.is_some_and(|n| numbers.len() >= n) {
                    break;
                }
                if byte != b'\n' {
                    line.push(byte);
                    if line.len() > MAX_DIGITS {
                        return Err(Error::invalid("tar: a sparse map with a malformed number"));
                    }
                    continue;
                }
                let value = decimal(&line)?;
                line.clear();
                check_pieces(numbers.len())?;
                match wanted {
                    None => wanted = Some(usize::try_from(value).unwrap_or(usize::MAX).saturating_mul(2)),
                    Some(_) => numbers.push(value),
                }
            }
            if wanted.is_some_and(|n| numbers.len() >= n) {
                *stored = stored.checked_sub(read).ok_or_else(truncated)?;
                return Ok(pairs(&numbers));
            }
        }
    }

    /// Reads and records exactly that many bytes.
    fn exact(&mut self, out: &mut [u8]) -> Result<()> {
        let mut filled = 0;
        while filled < out.len() {
            let have = self.input.fill_buf()?;
            if have.is_empty() {
                return Err(truncated());
            }
            let n = have.len().min(out.len() - filled);
            out[filled..filled + n].copy_from_slice(&have[..n]);
            self.input.consume(n);
            filled += n;
        }
        self.recorder.literal(out)
    }
}

/// The kind of an entry, by its names in the archive: an old archiver marks a directory by the slash at its end alone.
fn kind_of(header: &Header, raw_name: &[u8], raw_link: Vec<u8>) -> Result<Kind> {
    let wrong = |what: &str| Error::invalid(format!("tar: {}: {what}", show(raw_name)));
    Ok(match header.kind() {
        b'0' | 0 | b'7' if raw_name.ends_with(b"/") => Kind::Dir,
        b'0' | 0 | b'7' | b'S' => Kind::File,
        b'1' => Kind::Link(clean(&raw_link).map_err(|e| e.context(show(raw_name)))?),
        b'2' if raw_link.is_empty() || raw_link.contains(&0) || raw_link.len() > MAX_PATH => {
            return Err(wrong("not a target that a symbolic link can have"));
        }
        b'2' => Kind::Symlink(raw_link),
        b'3' => header.device().map(|(major, minor)| Kind::Char(major, minor))?,
        b'4' => header.device().map(|(major, minor)| Kind::Block(major, minor))?,
        b'5' => Kind::Dir,
        b'6' => Kind::Fifo,
        other => return Err(wrong(&format!("unknown entry type {:?}", char::from(other)))),
    })
}

/// The error of a stream that ends too early.
fn truncated() -> Error {
    Error::invalid("tar: unexpected end of the archive")
}

fn truncated_in(entry: &Entry) -> Error {
    truncated().context(entry.shown()).caused_by(Cause::NamedEntry)
}

/// Makes a name of an archive relative to its root: no `.`, no empty components, `..` resolved by itself.
///
/// Errors name the entry: it is empty, holds a NUL, is too long or leaves the root.
pub(crate) fn clean(name: &[u8]) -> Result<Vec<u8>> {
    if name.is_empty() {
        return Err(Error::invalid("tar: an entry without a name"));
    }
    if name.contains(&0) || name.len() > MAX_PATH {
        return Err(Error::invalid(format!("tar: {}: not a path that a file can have", show(name))));
    }
    // The usual case needs no work.
    let mut path: Vec<u8> = Vec::with_capacity(name.len());
    for part in name.split(|&b| b == b'/') {
        match part {
            b"" | b"." => {}
            b".." if path.is_empty() => {
                return Err(Error::invalid(format!("tar: {}: the path leaves the archive's root", show(name))));
            }
            b".." => {
                let end = path.iter().rposition(|&b| b == b'/').unwrap_or(0);
                path.truncate(end);
            }
            _ => {
                if !path.is_empty() {
                    path.push(b'/');
                }
                path.extend_from_slice(part);
            }
        }
    }
    Ok(path)
}

/// Whether a block is a tar header: its checksum fits.
pub(crate) fn is_header(block: &[u8]) -> bool {
    <[u8; BLOCK]>::try_from(block).is_ok_and(|block| block[0] != 0 && Header(block).check().is_ok())
}

struct Header([u8; BLOCK]);

impl Header {
    fn kind(&self) -> u8 {
        self.0[156]
    }

    fn check(&self) -> Result<()> {
        let stored = number(&self.0[148..156])?;
        let byte = |i: usize| if (148..156).contains(&i) { b' ' } else { self.0[i] };
        let unsigned: i64 = (0..BLOCK).map(|i| i64::from(byte(i))).sum();
        // Some old archivers summed signed bytes.
        let signed: i64 = (0..BLOCK).map(|i| i64::from(byte(i) as i8)).sum();
        if stored == unsigned || stored == signed {
            return Ok(());
        }
        Err(Error::invalid("tar: a header whose checksum is wrong"))
    }

    fn size(&self) -> Result<u64> {
        unsigned(&self.0[124..136])
    }

    fn device(&self) -> Result<(u32, u32)> {
        let part = |field: &[u8]| {
            u32::try_from(number(field)?).map_err(|_| Error::invalid("tar: a device number is out of range"))
        };
        Ok((part(&self.0[329..337])?, part(&self.0[337..345])?))
    }

    fn name(&self) -> Vec<u8> {
        let name = text_of(&self.0[..100]);
        let prefix = match () {
            () if &self.0[257..265] != b"ustar\x0000" && &self.0[257..263] != b"ustar\0" => &[][..],
            () if &self.0[508..512] == b"tar\0" => text_of(&self.0[345..476]),
            () => text_of(&self.0[345..500]),
        };
        if prefix.is_empty() {
            return name.to_vec();
        }
        [prefix, b"/", name].concat()
    }

    fn link(&self) -> Vec<u8> {
        text_of(&self.0[157..257]).to_vec()
    }
}

/// The facts that extended headers gave about the next entry.
#[derive(Default)]
struct Extra {
    long_name: Option<Vec<u8>>,
    long_link: Option<Vec<u8>>,
    records: BTreeMap<String, Vec<u8>>,
    xattrs: Vec<(String, Vec<u8>)>,
    /// Offsets and lengths of PAX sparse form 0.0, in turn.
    sparse: Vec<u64>,
}

impl Extra {
    fn is_empty(&self) -> bool {
        self.long_name.is_none() && self.long_link.is_none() && self.records.is_empty() && self.xattrs.is_empty()
    }

    fn pax(&mut self, data: &[u8]) -> Result<()> {
        for record in records(data) {
            let (key, value) = record?;
            if let Some(name) = key.strip_prefix("SCHILY.xattr.") {
                self.xattrs.retain(|(have, _)| have != name);
                self.xattrs.push((name.to_owned(), value.to_vec()));
                if Wall::ArchiveHeaders.stands() && (self.xattrs.len() > MAX_XATTRS || value.len() > MAX_XATTR) {
                    return Err(Error::invalid(format!(
                        "tar: an entry with more than {MAX_XATTRS} extended attributes, or one of more than {MAX_XATTR} bytes"
                    )));
                }
                continue;
            }
            match key {
                "GNU.sparse.offset" | "GNU.sparse.numbytes" => {
                    if self.sparse.len().is_multiple_of(2) != (key == "GNU.sparse.offset") {
                        return Err(Error::invalid("tar: a sparse map out of order"));
                    }
                    self.sparse.push(decimal(value)?);
                    check_pieces(self.sparse.len())?;
                }
                "path"
                | "linkpath"
                | "size"
                | "uid"
                | "gid"
                | "mtime"
                | "GNU.sparse.name"
                | "GNU.sparse.map"
                | "GNU.sparse.major"
                | "GNU.sparse.minor"
                | "GNU.sparse.size"
                | "GNU.sparse.realsize" => {
                    self.records.insert(key.to_owned(), value.to_vec());
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn name(&mut self) -> Option<Vec<u8>> {
        let take = |r: &mut BTreeMap<String, Vec<u8>>, key| r.remove(key).filter(|v: &Vec<u8>| !v.is_empty());
        let sparse = take(&mut self.records, "GNU.sparse.name");
        let path = take(&mut self.records, "path");
        sparse.or(path).or(self.long_name.take())
    }

    fn link(&mut self) -> Option<Vec<u8>> {
        self.records.remove("linkpath").filter(|v| !v.is_empty()).or(self.long_link.take())
    }

    /// A decimal record; an empty one deletes, so it counts as absent.
    fn number(&self, key: &str) -> Result<Option<u64>> {
        self.records.get(key).filter(|v| !v.is_empty()).map(|v| decimal(v)).transpose()
    }
}

/// PAX records: `<length> <key>=<value>\n`, the length counting itself.
fn records(data: &[u8]) -> impl Iterator<Item = Result<(&str, &[u8])>> {
    let mut rest = data;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let record = record(rest);
        match &record {
            Some((_, _, length)) => rest = &rest[*length..],
            None => rest = &[],
        }
        Some(record.map(|(k, v, _)| (k, v)).ok_or_else(|| Error::invalid("tar: a PAX record is malformed")))
    })
}

fn record(data: &[u8]) -> Option<(&str, &[u8], usize)> {
    let space = data.iter().take(20).position(|&b| b == b' ')?;
    let length = usize::try_from(decimal(&data[..space]).ok()?).ok()?;
    let body = data.get(space + 1..length)?.strip_suffix(b"\n")?;
    let equals = body.iter().position(|&b| b == b'=')?;
    let key = std::str::from_utf8(&body[..equals]).ok().filter(|k| !k.is_empty() && !k.contains('\0'))?;
    Some((key, &body[equals + 1..], length))
}

/// A global header may carry comments; what would change entries is refused, as readers disagree about it.
fn check_global(data: &[u8]) -> Result<()> {
    for record in records(data) {
        let (key, _) = record?;
        if matches!(key, "path" | "linkpath" | "size") || key.starts_with("GNU.sparse.") {
            return Err(Error::invalid(format!("tar: a global header sets {key:?}")));
        }
    }
    Ok(())
}

/// The bytes before the first NUL.
fn text_of(field: &[u8]) -> &[u8] {
    field.split(|&b| b == 0).next().unwrap_or_default()
}

/// A number of a header: octal text, or base 256 with the first bit set.
fn number(field: &[u8]) -> Result<i64> {
    let bad = || Error::invalid("tar: a header with a malformed number");
    if field[0] & 0x80 != 0 {
        let mut value: i128 = if field[0] & 0x40 != 0 { -1 } else { 0 };
        for (i, &byte) in field.iter().enumerate() {
            let byte = if i == 0 { (byte & 0x3f) | if value < 0 { 0xc0 } else { 0 } } else { byte };
            value = value << 8 | i128::from(byte);
            if i64::try_from(value).is_err() {
                return Err(bad());
            }
        }
        return i64::try_from(value).map_err(|_| bad());
    }
    let start = field.iter().position(|b| !matches!(b, b' ' | 0)).unwrap_or(field.len());
    let digits = &field[start..];
    let end = digits.iter().position(|b| matches!(b, b' ' | 0)).unwrap_or(digits.len());
    digits[..end].iter().try_fold(0i64, |value, &b| match b {
        b'0'..=b'7' => value.checked_mul(8).and_then(|v| v.checked_add(i64::from(b - b'0'))).ok_or_else(bad),
        _ => Err(bad()),
    })
}

fn unsigned(field: &[u8]) -> Result<u64> {
    u64::try_from(number(field)?).map_err(|_| Error::invalid("tar: a negative size"))
}

fn decimal(text: &[u8]) -> Result<u64> {
    let bad = || Error::invalid("tar: a malformed number in an extended header");
    if text.is_empty() || text.len() > MAX_DIGITS {
        return Err(bad());
    }
    text.iter().try_fold(0u64, |value, &b| match b {
        b'0'..=b'9' => value.checked_mul(10).and_then(|v| v.checked_add(u64::from(b - b'0'))).ok_or_else(bad),
        _ => Err(bad()),
    })
}

/// `seconds[.fraction]`, maybe negative; the fraction counts away from zero.
fn pax_time(text: &[u8]) -> Result<Time> {
    let (negative, text) = match text.strip_prefix(b"-") {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let mut parts = text.splitn(2, |&b| b == b'.');
    let seconds = i64::try_from(decimal(parts.next().unwrap_or_default())?)
        .map_err(|_| Error::invalid("tar: a time is out of range"))?;
    let mut nanos = 0u32;
    let fraction = parts.next().unwrap_or_default();
    for i in 0..9 {
        let digit = fraction.get(i).copied().unwrap_or(b'0');
        if !digit.is_ascii_digit() {
            return Err(Error::invalid("tar: a malformed time"));
        }
        nanos = nanos * 10 + u32::from(digit - b'0');
    }
    Ok(match (negative, nanos) {
        (false, _) => Time { seconds, nanos },
        (true, 0) => Time { seconds: -seconds, nanos: 0 },
        (true, _) => Time { seconds: -seconds - 1, nanos: 1_000_000_000 - nanos },
    })
}

/// Whether a sparse map of so many numbers, two a piece, is taken.
fn check_pieces(numbers: usize) -> Result<()> {
    match numbers > 2 * MAX_PIECES {
        true => Err(Error::invalid(format!("tar: a sparse file of more than {MAX_PIECES} pieces"))),
        false => Ok(()),
    }
}

fn pairs(numbers: &[u64]) -> Vec<Extent> {
    numbers.chunks_exact(2).map(|p| Extent { offset: p[0], length: p[1] }).collect()
}

/// Ordered, apart, inside the file, and together exactly what is stored.
fn check_map(size: u64, stored: u64, extents: &[Extent]) -> Result<()> {
    let (mut end, mut sum) = (0u64, 0u64);
    for extent in extents {
        let next = extent.offset.checked_add(extent.length);
        match next {
            Some(next) if extent.offset >= end && next <= size => end = next,
            _ => return Err(Error::invalid("tar: a sparse map that is out of order or larger than its file")),
        }
        sum = sum.saturating_add(extent.length);
    }
    if sum != stored || i64::try_from(size).is_err() {
        return Err(Error::invalid("tar: a sparse map that does not fit its content"));
    }
    Ok(())
}
