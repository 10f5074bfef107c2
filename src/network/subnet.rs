//! Subnets: CIDR texts, containment, overlap, the pools that automatic subnets come from.

use crate::error::{Error, ErrorKind, Result};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A range of addresses with a common prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Subnet {
    v6: bool,
    base: u128,
    prefix: u8,
}

impl Subnet {
    /// The subnet that an address with a prefix length lies in.
    pub(crate) fn of(ip: IpAddr, prefix: u8) -> Subnet {
        let v6 = ip.is_ipv6();
        let bits = if v6 { 128 } else { 32 };
        let prefix = prefix.min(bits);
        Subnet { v6, base: number(ip) & !mask(bits - prefix), prefix }
    }

    /// Reads `address/prefix`. Errors: in the words of dockerd's reader.
    pub(crate) fn parse(text: &str) -> Result<Subnet> {
        let (subnet, _) = Subnet::parse_with_address(text)?;
        Ok(subnet)
    }

    /// As `parse`, and the address as written.
    pub(crate) fn parse_with_address(text: &str) -> Result<(Subnet, IpAddr)> {
        let bad = || Error::new(ErrorKind::Internal, format!("invalid CIDR address: {text}")).in_area("network");
        let (address, prefix) = text.split_once('/').ok_or_else(bad)?;
        let address: IpAddr = address.parse().map_err(|_| bad())?;
        let prefix: u8 = prefix.parse().map_err(|_| bad())?;
        if prefix > if address.is_ipv6() { 128 } else { 32 } {
            return Err(bad());
        }
        Ok((Subnet::of(address, prefix), address))
    }

    pub(crate) fn is_v6(&self) -> bool {
        self.v6
    }

    pub(crate) fn prefix(&self) -> u8 {
        self.prefix
    }

    fn size_bits(&self) -> u8 {
        (if self.v6 { 128 } else { 32 }) - self.prefix
    }

    /// How many addresses it has; the largest number, where a number does not hold it.
    pub(crate) fn size(&self) -> u128 {
        1u128.checked_shl(self.size_bits().into()).unwrap_or(u128::MAX)
    }

    pub(crate) fn base(&self) -> IpAddr {
        address(self.v6, self.base)
    }

    /// The last address.
    pub(crate) fn last(&self) -> IpAddr {
        address(self.v6, self.base | mask(self.size_bits()))
    }

    /// The first address behind the subnet; none behind the last address of all.
    pub(crate) fn after(&self) -> Option<IpAddr> {
        let last = self.base | mask(self.size_bits());
        let end = if self.v6 { u128::MAX } else { u128::from(u32::MAX) };
        (last < end).then(|| address(self.v6, last + 1))
    }

    pub(crate) fn contains(&self, ip: IpAddr) -> bool {
        ip.is_ipv6() == self.v6 && number(ip) & !mask(self.size_bits()) == self.base
    }

    /// Whether `other` lies in the subnet.
    pub(crate) fn covers(&self, other: &Subnet) -> bool {
        self.prefix <= other.prefix && self.contains(other.base())
    }

    pub(crate) fn overlaps(&self, other: &Subnet) -> bool {
        self.covers(other) || other.covers(self)
    }

    /// The address at an offset from the base.
    pub(crate) fn nth(&self, offset: u128) -> Option<IpAddr> {
        (offset <= mask(self.size_bits())).then(|| address(self.v6, self.base + offset))
    }

    /// Addresses that interfaces may have: without the subnet's own and the broadcast address, where it has them.
    pub(crate) fn hosts(&self) -> (u128, u128) {
        let last = mask(self.size_bits());
        match (self.v6, self.size_bits()) {
            (_, 0) => (0, 0),
            (_, 1) => (0, 1),
            (true, _) => (1, last),
            (false, _) => (1, last - 1),
        }
    }

    /// The offset of an address from the base.
    pub(crate) fn offset(&self, ip: IpAddr) -> u128 {
        number(ip).wrapping_sub(self.base)
    }
}

impl fmt::Display for Subnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.base(), self.prefix)
    }
}

/// The subnets that automatic networks come from, in the order in which they are tried.
pub(crate) fn pools() -> impl Iterator<Item = Subnet> {
    let large = (17..=31).map(|second| Subnet::of(Ipv4Addr::new(172, second, 0, 0).into(), 16));
    let small = (0..=15).map(|part| Subnet::of(Ipv4Addr::new(192, 168, part * 16, 0).into(), 20));
    large.chain(small)
}

fn mask(bits: u8) -> u128 {
    if bits >= 128 { u128::MAX } else { (1 << bits) - 1 }
}

fn number(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => u128::from(u32::from(ip)),
        IpAddr::V6(ip) => u128::from(ip),
    }
}

fn address(v6: bool, number: u128) -> IpAddr {
    if v6 { Ipv6Addr::from(number).into() } else { Ipv4Addr::from(number as u32).into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subnet(text: &str) -> Subnet {
        Subnet::parse(text).expect(text)
    }

    #[test]
    fn reads_and_writes() {
        assert_eq!(subnet("10.1.2.3/8").to_string(), "10.0.0.0/8");
        assert_eq!(subnet("fd00:1::5/64").to_string(), "fd00:1::/64");
        assert_eq!(subnet("0.0.0.0/0").after(), None);
        for bad in ["", "10.0.0.0", "10.0.0.0/33", "10.0.0/8", "::/129", "10.0.0.0/x", "bad"] {
            assert!(Subnet::parse(bad).unwrap_err().message().starts_with("invalid CIDR address: "), "{bad}");
        }
    }

    #[test]
    fn overlap_is_symmetric() {
        let (wide, narrow, other) = (subnet("172.16.0.0/12"), subnet("172.17.0.0/16"), subnet("172.32.0.0/16"));
        assert!(wide.overlaps(&narrow) && narrow.overlaps(&wide));
        assert!(!wide.overlaps(&other) && !other.overlaps(&wide));
        assert!(!subnet("::/0").overlaps(&wide));
    }

    #[test]
    fn hosts_of_small_subnets() {
        let hosts = |text: &str| {
            let s = subnet(text);
            let (first, last) = s.hosts();
            (s.nth(first).unwrap().to_string(), s.nth(last).unwrap().to_string())
        };
        assert_eq!(hosts("10.0.0.0/30"), ("10.0.0.1".into(), "10.0.0.2".into()));
        assert_eq!(hosts("10.0.0.0/31"), ("10.0.0.0".into(), "10.0.0.1".into()));
        assert_eq!(hosts("10.0.0.7/32"), ("10.0.0.7".into(), "10.0.0.7".into()));
        assert_eq!(hosts("fd00::/126"), ("fd00::1".into(), "fd00::3".into()));
    }

    #[test]
    fn pools_do_not_overlap() {
        let all: Vec<Subnet> = pools().collect();
        assert_eq!(all.len(), 31);
        for (at, one) in all.iter().enumerate() {
            assert!(all[at + 1..].iter().all(|other| !one.overlaps(other)));
        }
    }
}
