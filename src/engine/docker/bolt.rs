//! Reads one bucket of a bbolt file: dockerd keeps labels and drivers of volumes in one. The file is untrusted: every
//! position is checked to be inside of it, and the amount that is read is limited.

use crate::error::{Error, Result};

const MAGIC: u32 = 0xED0C_DAED;
const VERSION: u32 = 2;
const PAGE_HEAD: usize = 16;
const ELEMENT: usize = 16;
const BRANCH: u16 = 1;
const LEAF: u16 = 2;
/// An element of a leaf that is a bucket.
const BUCKET: u32 = 1;
/// The greatest depth of a tree of pages: enough for more keys than any dockerd has.
const MOST_DEPTH: usize = 16;
/// The offset of the checksum in a meta page; it covers all bytes before it.
const META_SUM: usize = 56;
/// Pages have 2^9 to 2^20 bytes.
const PAGE_SIZES: std::ops::RangeInclusive<u32> = 9..=20;
/// The most keys that are read.
const MOST_KEYS: usize = 1 << 20;

/// Called for each key, with its value and its flags.
type Take<'t, 'a> = &'t mut dyn FnMut(&'a [u8], &'a [u8], u32) -> Result<()>;

/// Keys with their values.
type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// The keys and values of the bucket `name` at the top of the file `bytes`; none if the file has no such bucket.
pub(super) fn bucket(bytes: &[u8], name: &[u8]) -> Result<Pairs> {
    Bolt::open(bytes)?.bucket(name)
}

struct Bolt<'a> {
    bytes: &'a [u8],
    page: usize,
    root: u64,
}

impl<'a> Bolt<'a> {
    /// Opens the file by the younger one of its two meta pages, or by the other one if a crash cut the younger one
    /// short.
    fn open(bytes: &'a [u8]) -> Result<Bolt<'a>> {
        let at = |place: usize| bytes.get(place..).and_then(|rest| Bolt::meta(rest).ok());
        let first = Bolt::meta(bytes);
        let second = match &first {
            Ok((first, _)) => at(first.page),
            Err(_) => PAGE_SIZES.map(|shift| 1 << shift).find_map(at),
        };
        let (newest, _) = match (first, second) {
            (Ok(first), Some(second)) if second.1 > first.1 => second,
            (Err(_), Some(second)) => second,
            (first, _) => first?,
        };
        Ok(Bolt { bytes, ..newest })
    }

    /// The content of a meta page, and its transaction number.
    fn meta(bytes: &'a [u8]) -> Result<(Bolt<'a>, u64)> {
        let meta = bytes.get(PAGE_HEAD..).ok_or_else(damaged)?;
        let page = u32_at(meta, 8)? as usize;
        let known = u32_at(meta, 0)? == MAGIC && u32_at(meta, 4)? == VERSION;
        let sum = meta.get(..META_SUM).map(fnv64a).ok_or_else(damaged)?;
        let fits = page.is_power_of_two() && PAGE_SIZES.contains(&page.trailing_zeros());
        if !known || !fits || u64_at(meta, META_SUM)? != sum {
            return Err(damaged());
        }
        Ok((Bolt { bytes, page, root: u64_at(meta, 16)? }, u64_at(meta, 48)?))
    }

    fn bucket(&self, name: &[u8]) -> Result<Pairs> {
        let mut found = None;
        let mut left = MOST_KEYS;
        self.each(self.root, MOST_DEPTH, &mut left, &mut |key, value, flags| {
            if flags & BUCKET != 0 && key == name {
                found = Some(value);
            }
            Ok(())
        })?;
        let Some(head) = found else { return Ok(Vec::new()) };
        let root = u64_at(head, 0)?;
        let mut all = Vec::new();
        // Nothing occurs twice in a valid file: if elements shared their bytes, a small file would become much memory.
        let mut room = self.bytes.len();
        let mut take = |key: &[u8], value: &[u8], flags: u32| {
            if flags & BUCKET == 0 {
                room = room.checked_sub(key.len() + value.len()).ok_or_else(damaged)?;
                all.push((key.to_vec(), value.to_vec()));
            }
            Ok(())
        };
        match root {
            // A small bucket is stored inside its element: a head of 16 bytes, then a page.
            0 => leaf(head.get(16..).ok_or_else(damaged)?, &mut left, &mut take)?,
            root => self.each(root, MOST_DEPTH, &mut left, &mut take)?,
        }
        Ok(all)
    }

    fn each(&self, page: u64, depth: usize, left: &mut usize, take: Take<'_, 'a>) -> Result<()> {
        let at = usize::try_from(page).ok().and_then(|page| page.checked_mul(self.page)).ok_or_else(damaged)?;
        let page = self.bytes.get(at..).ok_or_else(damaged)?;
        match u16_at(page, 8)? {
            LEAF => leaf(page, left, take),
            BRANCH if depth > 0 => {
                for index in 0..usize::from(u16_at(page, 10)?) {
                    *left = left.checked_sub(1).ok_or_else(damaged)?;
                    self.each(u64_at(page, PAGE_HEAD + index * ELEMENT + 8)?, depth - 1, left, take)?;
                }
                Ok(())
            }
            _ => Err(damaged()),
        }
    }
}

fn leaf<'a>(page: &'a [u8], left: &mut usize, take: Take<'_, 'a>) -> Result<()> {
    for index in 0..usize::from(u16_at(page, 10)?) {
        *left = left.checked_sub(1).ok_or_else(damaged)?;
        let at = PAGE_HEAD + index * ELEMENT;
        let part = |offset: usize| u32_at(page, at + offset).map(|value| value as usize);
        let begin = at.checked_add(part(4)?).ok_or_else(damaged)?;
        let middle = begin.checked_add(part(8)?).ok_or_else(damaged)?;
        let end = middle.checked_add(part(12)?).ok_or_else(damaged)?;
        let (key, value) = (page.get(begin..middle), page.get(middle..end));
        let (Some(key), Some(value)) = (key, value) else { return Err(damaged()) };
        take(key, value, u32_at(page, at)?)?;
    }
    Ok(())
}

/// The FNV-1a sum of 64 bits.
fn fnv64a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

fn u16_at(bytes: &[u8], at: usize) -> Result<u16> {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map(|word| u16::from_le_bytes(*word)).ok_or_else(damaged)
}

fn u32_at(bytes: &[u8], at: usize) -> Result<u32> {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map(|word| u32::from_le_bytes(*word)).ok_or_else(damaged)
}

fn u64_at(bytes: &[u8], at: usize) -> Result<u64> {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map(|word| u64::from_le_bytes(*word)).ok_or_else(damaged)
}

fn damaged() -> Error {
    Error::corrupt("a file of dockerd's in bbolt's form is damaged, or of another form")
}

/// The entry point for fuzzers. Few mutated files have a valid checksum, so the bytes are also read as a file's pages.
/// No more is read than the file has.
#[cfg(any(test, fuzzing))]
pub(super) fn fuzz(data: &[u8]) {
    let pages = Bolt { bytes: data, page: 512, root: 2 };
    for all in [bucket(data, b"volumes"), pages.bucket(b"volumes")].into_iter().flatten() {
        let read: usize = all.iter().map(|(key, value)| key.len() + value.len()).sum();
        assert!(read <= data.len(), "{read} bytes of {}", data.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = 512;

    /// A file of three pages: two meta pages and a leaf with one small bucket.
    fn file() -> Vec<u8> {
        let mut bytes = vec![0; 3 * PAGE];
        for (page, age) in [(0, 1u64), (PAGE, 2)] {
            let meta = &mut bytes[page + 16..];
            meta[..4].copy_from_slice(&MAGIC.to_le_bytes());
            meta[4..8].copy_from_slice(&VERSION.to_le_bytes());
            meta[8..12].copy_from_slice(&(PAGE as u32).to_le_bytes());
            meta[16..24].copy_from_slice(&2u64.to_le_bytes());
            meta[48..56].copy_from_slice(&age.to_le_bytes());
            let sum = fnv64a(&meta[..56]);
            meta[56..64].copy_from_slice(&sum.to_le_bytes());
        }
        let mut put = |at: usize, part: &[u8]| bytes[at..at + part.len()].copy_from_slice(part);
        // The bucket: its head, a page with one element, its key and value.
        let mut inner = vec![0; 16 + 16 + 16];
        inner[24] = 2;
        inner[26] = 1;
        for (at, value) in [(36, 16u32), (40, 3), (44, 5)] {
            inner[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        inner.extend_from_slice(b"keyvalue");
        put(2 * PAGE + 8, &[2, 0, 1, 0]);
        for (at, value) in [(16, 1u32), (20, 16), (24, 7), (28, inner.len() as u32)] {
            put(2 * PAGE + at, &value.to_le_bytes());
        }
        put(2 * PAGE + 32, b"volumes");
        put(2 * PAGE + 39, &inner);
        bytes
    }

    #[test]
    fn a_bucket_is_read_and_a_damaged_file_is_an_error_or_less() {
        let whole = file();
        assert_eq!(bucket(&whole, b"volumes").unwrap(), [(b"key".to_vec(), b"value".to_vec())]);
        assert!(bucket(&whole, b"other").unwrap().is_empty());
        assert!(bucket(b"", b"volumes").is_err());
        // If a crash cut a meta page short, the other one counts.
        for page in [0, PAGE] {
            let mut torn = whole.clone();
            torn[page + 33] = 7;
            assert_eq!(bucket(&torn, b"volumes").unwrap().len(), 1, "{page}");
        }
        // With any single byte changed: no panic, no endless loop.
        for at in 0..whole.len() {
            for value in [0, 1, 2, 0x7f, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] = value;
                fuzz(&bytes);
            }
            fuzz(&whole[..at]);
        }
    }

    #[test]
    fn pages_that_name_themselves_and_elements_that_share_bytes_are_damage() {
        // The root is a branch with the most children, and each of them is the root again.
        let mut bytes = file();
        bytes.resize(2 * PAGE + PAGE_HEAD + 0xffff * ELEMENT, 0);
        bytes[2 * PAGE + 8..2 * PAGE + 12].copy_from_slice(&[1, 0, 0xff, 0xff]);
        for child in 0..0xffff {
            bytes[2 * PAGE + PAGE_HEAD + child * ELEMENT + 8] = 2;
        }
        assert!(bucket(&bytes, b"volumes").is_err());
        // The bucket is a page of its own, with many elements of the same mebibyte.
        let mut bytes = file();
        bytes[2 * PAGE + 39] = 3;
        const COUNT: usize = 3000;
        bytes.resize(3 * PAGE + PAGE_HEAD + COUNT * ELEMENT + (1 << 20), 0);
        let page = &mut bytes[3 * PAGE..];
        page[8] = 2;
        page[10..12].copy_from_slice(&(COUNT as u16).to_le_bytes());
        for element in 0..COUNT {
            let at = PAGE_HEAD + element * ELEMENT;
            page[at + 4..at + 8].copy_from_slice(&(((COUNT - element) * ELEMENT) as u32).to_le_bytes());
            page[at + 12..at + 16].copy_from_slice(&(1u32 << 20).to_le_bytes());
        }
        assert!(bucket(&bytes, b"volumes").is_err());
    }
}
