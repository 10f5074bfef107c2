//! Reads the older tables of iptables (`iptables-legacy`), which nf_tables does not show; never changes them.

use super::fd::errno;
use crate::error::{Error, Result};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// `IPT_SO_GET_INFO` and `IPT_SO_GET_ENTRIES`; IPv6 has equal numbers.
const GET_INFO: i32 = 64;
const GET_ENTRIES: i32 = 65;
const NAME: usize = 32;
/// `struct ipt_getinfo`.
const INFO: usize = 84;
/// `struct ipt_get_entries`, before its entries.
const HEAD: usize = 40;
const FORWARD: usize = 2;
const HOOKS: usize = 5;

/// The table `filter`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Filter {
    v6: bool,
    /// FORWARD drops packets that no rule accepts.
    pub drops: bool,
    entries: Vec<u8>,
}

/// The filter table of the calling thread's network namespace; none: it does not exist, and the look does not make it.
pub(crate) fn filter(v6: bool) -> Result<Option<Filter>> {
    // A request for a missing table would make it.
    let list = if v6 { "ip6_tables_names" } else { "ip_tables_names" };
    let names = std::fs::read_to_string(format!("/proc/thread-self/net/{list}")).unwrap_or_default();
    if !names.lines().any(|name| name == "filter") {
        return Ok(None);
    }
    let (family, level) = if v6 { (libc::AF_INET6, libc::SOL_IPV6) } else { (libc::AF_INET, libc::SOL_IP) };
    // SAFETY: no pointers.
    let fd = unsafe { libc::socket(family, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(Error::os("open a socket", errno()));
    }
    // SAFETY: the kernel just gave us this descriptor.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    // The table may change between the two requests.
    for _ in 0..100 {
        let mut info = vec![0; INFO];
        info[..6].copy_from_slice(b"filter");
        ask(&socket, level, GET_INFO, &mut info)?;
        let size = word(&info, INFO - 4).unwrap_or_default() as usize;
        let mut table = vec![0; HEAD + size];
        table[..6].copy_from_slice(b"filter");
        table[NAME..NAME + 4].copy_from_slice(&(size as u32).to_ne_bytes());
        match ask(&socket, level, GET_ENTRIES, &mut table) {
            Err(error) if error.is(libc::EAGAIN) => continue,
            asked => asked?,
        }
        let policy = word(&info, NAME + 4 + 4 * HOOKS + 4 * FORWARD).unwrap_or_default() as usize;
        return Ok(Some(Filter::read(v6, table.split_off(HEAD), policy)));
    }
    Err(Error::os("read the table filter", libc::EAGAIN))
}

fn ask(socket: &OwnedFd, level: i32, what: i32, buffer: &mut [u8]) -> Result<()> {
    let mut length = buffer.len() as libc::socklen_t;
    let place = buffer.as_mut_ptr().cast();
    // SAFETY: the buffer is valid for its length, and lives over the call.
    match unsafe { libc::getsockopt(socket.as_raw_fd(), level, what, place, &raw mut length) } {
        0 => Ok(()),
        _ => Err(Error::os("read the table filter", errno())),
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes)
}

fn half(bytes: &[u8], at: usize) -> Option<usize> {
    bytes.get(at..at + 2)?.try_into().ok().map(|half| usize::from(u16::from_ne_bytes(half)))
}

fn text(bytes: &[u8]) -> &[u8] {
    bytes.split(|&byte| byte == 0).next().unwrap_or_default()
}

/// The standard target: its verdict comes after the target's head.
const TARGET: usize = 32;
const DROP: u32 = -1_i32 as u32;
const ACCEPT: u32 = -2_i32 as u32;

impl Filter {
    fn read(v6: bool, entries: Vec<u8>, policy: usize) -> Filter {
        let mut filter = Filter { v6, drops: false, entries };
        filter.drops = filter.entry(policy).is_some_and(|entry| filter.verdict(entry) == Some(DROP));
        filter
    }

    /// Offsets in an entry: the interfaces, the target, the next entry.
    fn places(&self) -> (usize, usize, usize) {
        if self.v6 { (64, 140, 142) } else { (16, 88, 90) }
    }

    fn entry(&self, at: usize) -> Option<&[u8]> {
        let rest = self.entries.get(at..)?;
        rest.get(..half(rest, self.places().2)?)
    }

    fn entries(&self) -> impl Iterator<Item = &[u8]> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let entry = self.entry(at).filter(|entry| !entry.is_empty())?;
            at += entry.len();
            Some(entry)
        })
    }

    fn target<'a>(&self, entry: &'a [u8]) -> Option<&'a [u8]> {
        entry.get(half(entry, self.places().1)?..)
    }

    fn verdict(&self, entry: &[u8]) -> Option<u32> {
        let target = self.target(entry)?;
        if text(target.get(2..TARGET - 1)?).is_empty() { word(target, TARGET) } else { None }
    }

    /// Whether the table has a user's chain with this name.
    pub(crate) fn has_chain(&self, name: &str) -> bool {
        self.entries().any(|entry| {
            let begins = |target: &[u8]| {
                target.get(2..).is_some_and(|rest| text(rest) == b"ERROR")
                    && target.get(TARGET..).is_some_and(|rest| text(rest) == name.as_bytes())
            };
            self.target(entry).is_some_and(begins)
        })
    }

    /// Whether a rule accepts packets from this interface, or to it.
    pub(crate) fn passes(&self, interface: &str, incoming: bool) -> bool {
        let at = self.places().0 + if incoming { 0 } else { 16 };
        let fits = |entry: &&[u8]| entry.get(at..at + 16).is_some_and(|name| text(name) == interface.as_bytes());
        self.entries().filter(fits).any(|entry| self.verdict(entry) == Some(ACCEPT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(interface: &str, target: &[u8], rest: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; 112];
        bytes[16..16 + interface.len()].copy_from_slice(interface.as_bytes());
        bytes[88..90].copy_from_slice(&112u16.to_ne_bytes());
        let mut head = vec![0; TARGET];
        head[2..2 + target.len()].copy_from_slice(target);
        bytes.extend(head);
        bytes.extend(rest);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        let length = (bytes.len() as u16).to_ne_bytes();
        bytes[90..92].copy_from_slice(&length);
        bytes
    }

    #[test]
    fn chains_rules_and_policies_are_read() {
        let accept = entry("coracle0", b"", &ACCEPT.to_ne_bytes());
        let policy = entry("", b"", &DROP.to_ne_bytes());
        let chain = entry("", b"ERROR", b"DOCKER-USER\0");
        let entries = [accept.clone(), policy, chain].concat();
        let filter = Filter::read(false, entries.clone(), accept.len());
        assert!(filter.drops && filter.has_chain("DOCKER-USER") && !filter.has_chain("DOCKER"));
        assert!(
            filter.passes("coracle0", true) && !filter.passes("coracle0", false) && !filter.passes("coracle", true)
        );
        for length in 0..entries.len() {
            let cut = Filter::read(false, entries[..length].to_vec(), accept.len());
            assert!(!cut.passes("other", true) && !cut.has_chain("DOCKER"));
        }
    }
}
