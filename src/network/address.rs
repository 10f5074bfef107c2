//! Giving out addresses: pools of networks, addresses of endpoints. Everything here runs in a database transaction, so that
//! two programs never give out the same address.

use super::spec::{Network, forbidden};
use super::subnet::{Subnet, pools};
use crate::error::{Error, Result};
use crate::model::{Ipam, IpamPool, SubnetStatus};
use crate::order::Order as _;
use std::collections::HashSet;
use std::net::IpAddr;

/// A pool as it is used: its subnet, the part that automatic addresses come from, the gateway, the other taken addresses.
#[derive(Debug, Clone)]
pub(super) struct Pool {
    pub subnet: Subnet,
    pub range: Subnet,
    pub gateway: Option<IpAddr>,
    pub taken: Vec<IpAddr>,
}

impl Pool {
    /// The pools of a stored network.
    pub(super) fn of(network: &Network) -> Result<Vec<Pool>> {
        network.spec.ipam.config.iter().map(Pool::read).collect()
    }

    fn read(pool: &IpamPool) -> Result<Pool> {
        let subnet =
            Subnet::parse(&pool.subnet).map_err(|e| e.context(format_args!("Invalid subnet {} ", pool.subnet)))?;
        let range = match pool.ip_range.as_str() {
            "" => subnet,
            text => Subnet::parse(text).map_err(|e| e.context(format_args!("Invalid ip range {text} ")))?,
        };
        if !subnet.covers(&range) {
            return Err(Error::internal_as_dockerd(
                "network",
                format!("Invalid ip range {range}: it does not lie in subnet {subnet}"),
            ));
        }
        let address = |text: &str, what: &str| -> Result<IpAddr> {
            let ip = text.split('/').next().unwrap_or_default().parse::<IpAddr>();
            let ip =
                ip.map_err(|_| Error::internal_as_dockerd("network", format!("{what}: {text:?} is not an address")))?;
            if subnet.contains(ip) {
                Ok(ip)
            } else {
                Err(Error::internal_as_dockerd(
                    "network",
                    format!("{what} ({text}): it does not lie in subnet {subnet}"),
                ))
            }
        };
        let gateway = match pool.gateway.as_str() {
            "" => None,
            text => Some(address(text, "failed to allocate gateway")?),
        };
        let auxiliary = pool.auxiliary_addresses.values();
        let taken =
            auxiliary.map(|text| address(text, "failed to allocate secondary ip address")).collect::<Result<_>>()?;
        Ok(Pool { subnet, range, gateway, taken })
    }

    /// The lowest address that is not `used`.
    fn free(&self, used: impl Fn(&IpAddr) -> bool) -> Option<IpAddr> {
        let (first, last) = self.subnet.hosts();
        let from = self.subnet.offset(self.range.base()).max(first);
        let to = self.subnet.offset(self.range.last()).min(last);
        // The search ends after so many addresses.
        const LOOK: u128 = 1 << 20;
        (from..=to.min(from.saturating_add(LOOK)))
            .filter_map(|offset| self.subnet.nth(offset))
            .find(|ip| Some(*ip) != self.gateway && !self.taken.contains(ip) && !used(ip))
    }

    /// Whether no container may ever have the address.
    fn reserves(&self, ip: IpAddr) -> bool {
        self.gateway == Some(ip) || self.taken.contains(&ip)
    }

    /// The subnet's prefix length.
    pub(super) fn prefix(&self) -> u8 {
        self.subnet.prefix()
    }

    /// How much of the pool is in use where containers hold these addresses.
    pub(super) fn use_with(&self, held: &[IpAddr]) -> SubnetStatus {
        let mut used: HashSet<IpAddr> = self.taken.iter().chain(&self.gateway).chain(held).copied().collect();
        let (first, last) = self.subnet.hosts();
        let ends = [self.subnet.base(), self.subnet.last()];
        used.extend(ends.into_iter().filter(|ip| !(first..=last).contains(&self.subnet.offset(*ip))));
        used.retain(|ip| self.subnet.contains(*ip));
        let size = self.range.size();
        let in_range = used.iter().filter(|ip| self.range.contains(**ip)).count();
        SubnetStatus {
            ips_in_use: used.len() as u64,
            dynamic_ips_available: u64::try_from(size.saturating_sub(in_range as u128)).unwrap_or(u64::MAX),
        }
    }
}

/// The member of a request that has the pools, which errors name.
const POOLS: &str = "IPAM.Config";

/// Decides the pools of a new network: requested pools are checked, a missing one is chosen. `others` are the subnets of the
/// root's networks, `host` those that the host has a route to or an address in.
pub(super) fn decide(
    asked: &Ipam,
    enable_ipv6: bool,
    others: &[Subnet],
    host: &[Subnet],
) -> Result<(Vec<IpamPool>, bool)> {
    let mut pools: Vec<IpamPool> = Vec::new();
    for pool in asked.config.iter().filter(|pool| **pool != IpamPool::default()) {
        if pool.subnet.is_empty() {
            return Err(
                Error::internal_as_dockerd("network", "Invalid subnet  : invalid CIDR address: ").in_field(POOLS)
            );
        }
        pools.push(pool.clone());
    }
    let read = |pool: &IpamPool| Pool::read(pool).map_err(|error| error.in_field(POOLS));
    let mut taken: Vec<Subnet> = others.to_vec();
    for pool in &pools {
        let subnet = read(pool)?.subnet;
        if taken.iter().any(|other| other.overlaps(&subnet)) {
            return Err(forbidden("Pool overlaps with other one on this address space"));
        }
        taken.push(subnet);
    }
    let has =
        |pools: &[IpamPool], v6: bool| pools.iter().any(|p| Subnet::parse(&p.subnet).is_ok_and(|s| s.is_v6() == v6));
    let automatic = !has(&pools, false);
    if automatic {
        let subnet = choose(&taken, host)?;
        pools.insert(0, IpamPool { subnet: subnet.to_string(), ..IpamPool::default() });
    }
    if enable_ipv6 && !has(&pools, true) {
        return Err(Error::internal_as_dockerd(
            "network",
            "could not find an available, non-overlapping IPv6 address pool among the defaults to assign to the network",
        ));
    }
    for pool in &mut pools {
        if pool.gateway.is_empty() {
            let read = read(pool)?;
            let gateway = read.free(|_| false).ok_or_else(|| {
                Error::internal_as_dockerd(
                    "network",
                    "failed to allocate gateway (): No available addresses on this pool",
                )
            })?;
            // The first of the subnet, even where automatic addresses come from a part of it.
            let (first, _) = read.subnet.hosts();
            let first = read.subnet.nth(first).filter(|ip| !read.taken.contains(ip));
            pool.gateway = first.unwrap_or(gateway).to_string();
        }
        pool.subnet = read(pool)?.subnet.to_string();
    }
    // IPv4 comes first, as inspect shows the pools.
    pools.order_by_key(|pool| pool.subnet.contains(':'));
    Ok((pools, automatic))
}

/// Chooses a free subnet among the automatic ones.
pub(super) fn choose(taken: &[Subnet], host: &[Subnet]) -> Result<Subnet> {
    let free = |subnet: &Subnet| !taken.iter().chain(host).any(|other| other.overlaps(subnet));
    pools().find(free).ok_or_else(|| {
        Error::internal_as_dockerd("network", "could not find an available, non-overlapping IPv4 address pool among the defaults to assign to the network")
    })
}

/// The holder of an address of a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Holder {
    Nobody,
    /// A container that ended a moment ago.
    Lately,
    /// A container that runs.
    Now,
}

/// The addresses of a network that are in use, with their holders.
pub(super) struct Used<'a> {
    /// The addresses of all containers that are there, or were a moment ago; cheap to get.
    pub known: HashSet<IpAddr>,
    /// Answers the holder of one address: addresses are looked at one by one.
    pub holder: &'a dyn Fn(IpAddr) -> Result<Holder>,
}

/// The address that an endpoint asks for, and the one that it had.
#[derive(Debug, Default)]
pub(super) struct Ask {
    pub address: Option<IpAddr>,
    /// The address of the endpoint's last run.
    pub before: Option<IpAddr>,
}

/// Gives out an address of one family; `None` where the network has no pool of it.
pub(super) fn give(pools: &[Pool], v6: bool, ask: &Ask, used: &Used<'_>) -> Result<Option<(IpAddr, Pool)>> {
    let of_family: Vec<&Pool> = pools.iter().filter(|pool| pool.subnet.is_v6() == v6).collect();
    if let Some(ip) = ask.address {
        let pool = of_family.iter().find(|pool| pool.subnet.contains(ip));
        let pool = pool.ok_or_else(|| {
            Error::invalid(
                "user specified IP address is supported only when connecting to networks with user configured subnets",
            )
        })?;
        return match pool.reserves(ip) || (used.holder)(ip)? == Holder::Now {
            true => Err(forbidden("Address already in use")),
            false => Ok(Some((ip, (*pool).clone()))),
        };
    }
    let Some(first) = of_family.first() else { return Ok(None) };
    if let Some(ip) = ask.before
        && let Some(pool) = of_family.iter().find(|pool| pool.range.contains(ip) && !pool.reserves(ip))
        && (used.holder)(ip)? != Holder::Now
    {
        return Ok(Some((ip, (*pool).clone())));
    }
    let free = |used: &HashSet<IpAddr>| {
        of_family.iter().find_map(|pool| Some((pool.free(|ip| used.contains(ip))?, (*pool).clone())))
    };
    if let Some(found) = free(&used.known) {
        return Ok(Some(found));
    }
    // Only now it is worth the cost to look which containers run. First the addresses of those that ended long ago are given
    // out, then of those that ended a moment ago.
    let mut lately = HashSet::new();
    let mut now = HashSet::new();
    for ip in &used.known {
        let holder = (used.holder)(*ip)?;
        lately.extend((holder >= Holder::Lately).then_some(*ip));
        now.extend((holder == Holder::Now).then_some(*ip));
    }
    if let Some(found) = free(&lately).or_else(|| free(&now)) {
        return Ok(Some(found));
    }
    let family = if v6 { "IPv6" } else { "IPv4" };
    Err(Error::internal_as_dockerd(
        "network",
        format!("no available {family} addresses on this network's address pools: {}", first.subnet),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(subnet: &str, range: &str) -> IpamPool {
        IpamPool { subnet: subnet.into(), ip_range: range.into(), ..IpamPool::default() }
    }

    fn ipam(config: Vec<IpamPool>) -> Ipam {
        Ipam { config, ..Ipam::default() }
    }

    fn subnet(text: &str) -> Subnet {
        Subnet::parse(text).unwrap()
    }

    #[test]
    fn a_chosen_subnet_avoids_what_the_host_knows() {
        let host = [subnet("172.16.0.0/13"), subnet("10.0.0.0/8")];
        let (pools, automatic) = decide(&Ipam::default(), false, &[subnet("172.24.0.0/16")], &host).unwrap();
        assert!(automatic);
        assert_eq!((pools[0].subnet.as_str(), pools[0].gateway.as_str()), ("172.25.0.0/16", "172.25.0.1"));
        let all = [subnet("172.16.0.0/12"), subnet("192.168.0.0/16")];
        assert!(decide(&Ipam::default(), false, &[], &all).is_err());
    }

    #[test]
    fn the_use_of_a_pool_counts_each_address_once() {
        let of = |subnet: &str, range: &str, held: &[&str]| {
            let asked = IpamPool {
                gateway: "10.1.0.1".into(),
                auxiliary_addresses: [("a".to_owned(), "10.1.0.9".to_owned())].into(),
                ..pool(subnet, range)
            };
            let held: Vec<IpAddr> = held.iter().map(|ip| ip.parse().unwrap()).collect();
            let found = Pool::read(&asked).unwrap().use_with(&held);
            (found.ips_in_use, found.dynamic_ips_available)
        };
        // The subnet's own address, the broadcast address, the gateway, one set aside, two containers.
        assert_eq!(of("10.1.0.0/24", "", &["10.1.0.2", "10.1.0.3"]), (6, 250));
        assert_eq!(of("10.1.0.0/24", "10.1.0.8/29", &["10.1.0.8", "10.1.0.2", "fd00::2"]), (6, 6));
        let wide = IpamPool { gateway: "fd00::1".into(), ..pool("fd00::/48", "") };
        assert_eq!(Pool::read(&wide).unwrap().use_with(&[]).dynamic_ips_available, u64::MAX);
    }

    #[test]
    fn a_decision_checks_the_requested_pools() {
        let refused = |config: Vec<IpamPool>| decide(&ipam(config), false, &[subnet("10.9.0.0/16")], &[]).unwrap_err();
        assert_eq!(refused(vec![pool("bad", "")]).message(), "Invalid subnet bad : invalid CIDR address: bad");
        assert_eq!(refused(vec![pool("10.9.1.0/24", "")]).http_status(), 403);
        assert_eq!(refused(vec![pool("10.1.0.0/16", ""), pool("10.1.4.0/24", "")]).http_status(), 403);
        assert!(refused(vec![pool("10.1.0.0/16", "10.2.0.0/24")]).message().contains("ip range"));
        let mut with_gateway = pool("10.1.0.0/16", "");
        with_gateway.gateway = "10.2.0.1".into();
        assert!(refused(vec![with_gateway]).message().starts_with("failed to allocate gateway (10.2.0.1): "));
    }

    #[test]
    fn addresses_come_lowest_first_from_the_range() {
        let (config, _) = decide(&ipam(vec![pool("10.1.0.0/16", "10.1.5.0/30")]), false, &[], &[]).unwrap();
        assert_eq!(config[0].gateway, "10.1.0.1");
        let pools = vec![Pool::read(&config[0]).unwrap()];
        let mut used = Used { known: HashSet::new(), holder: &|_| Ok(Holder::Now) };
        let mut given = Vec::new();
        while let Ok(Some((ip, pool))) = give(&pools, false, &Ask::default(), &used) {
            assert_eq!(pool.prefix(), 16);
            used.known.insert(ip);
            given.push(ip.to_string());
        }
        assert_eq!(given, ["10.1.5.0", "10.1.5.1", "10.1.5.2", "10.1.5.3"]);
        assert!(give(&pools, true, &Ask::default(), &used).unwrap().is_none());
    }

    #[test]
    fn an_address_rests_before_it_is_given_out_again() {
        let (config, _) = decide(&ipam(vec![pool("10.1.0.0/30", "")]), false, &[], &[]).unwrap();
        let mut wide = config[0].clone();
        wide.subnet = "10.1.0.0/29".into();
        let (small, wide) = (vec![Pool::read(&config[0]).unwrap()], vec![Pool::read(&wide).unwrap()]);
        let two: IpAddr = "10.1.0.2".parse().unwrap();
        let used = Used { known: HashSet::from([two]), holder: &|_| Ok(Holder::Lately) };
        let ip = |pools: &[Pool], ask: &Ask| give(pools, false, ask, &used).unwrap().unwrap().0.to_string();
        assert_eq!(ip(&wide, &Ask::default()), "10.1.0.3");
        // Nothing else is left; or it is the container's own.
        assert_eq!(ip(&small, &Ask::default()), "10.1.0.2");
        assert_eq!(ip(&wide, &Ask { address: None, before: Some(two) }), "10.1.0.2");
        let taken = Used { known: HashSet::from([two]), holder: &|_| Ok(Holder::Now) };
        let ask = Ask { address: Some(two), before: None };
        assert_eq!(give(&wide, false, &ask, &taken).unwrap_err().message(), "Address already in use");
    }
}
