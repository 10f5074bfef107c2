//! Published ports: what a container asks for, the host's ports that it gets, and their reservation.

use crate::error::{Error, ErrorKind, Result};
use crate::kernel::port::{self, Bundle};
use crate::model::{Bindings, PortMap, PortSet};
use coracle_monitor::wire::RELAY_KEY;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU16, Ordering};

/// A transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Protocol {
    Tcp,
    Udp,
    Sctp,
}

impl Protocol {
    pub(crate) fn number(self) -> u8 {
        match self {
            Protocol::Tcp => 6,
            Protocol::Udp => 17,
            Protocol::Sctp => 132,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
            Protocol::Sctp => "sctp",
        }
    }
}

/// One port of the host that is mapped to a container's port. The container's monitor relays what comes to the port where the
/// two addresses are not of one family, at the IPv6 loopback address, which the kernel routes nowhere else, and at 127.0.0.1
/// where the kernel cannot keep others from it (see `loopback.rs`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Published {
    pub host: IpAddr,
    pub host_port: u16,
    pub protocol: Protocol,
    pub to: IpAddr,
    pub port: u16,
    /// The monitor relays what comes to 127.0.0.1.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub loopback_relayed: bool,
}

impl Published {
    /// Whether the container's monitor reads the port's socket.
    pub(crate) fn is_relayed(&self) -> bool {
        let IpAddr::V6(host) = self.host else { return self.loopback_relayed };
        self.protocol != Protocol::Sctp && (self.to.is_ipv4() || host.is_unspecified() || host.is_loopback())
    }

    /// Whether the firewall maps the port.
    pub(super) fn is_translated(&self) -> bool {
        let is_passed_on = self.host.is_loopback() && (self.host.is_ipv6() || self.loopback_relayed);
        self.host.is_ipv4() == self.to.is_ipv4() && !is_passed_on
    }

    /// Whether the kernel maps the port at 127.0.0.1.
    pub(super) fn needs_localnet(&self) -> bool {
        let is_there = self.host.is_ipv4() && (self.host.is_unspecified() || self.host.is_loopback());
        is_there && self.is_translated() && !self.loopback_relayed
    }

    /// The key by which the monitor knows the port's socket.
    pub(crate) fn relay_key(&self) -> [u8; RELAY_KEY] {
        let mut key = [0; RELAY_KEY];
        key[..2].copy_from_slice(&self.host_port.to_le_bytes());
        key[2] = self.protocol.number();
        let host = match self.host {
            IpAddr::V4(host) => host.to_ipv6_mapped(),
            IpAddr::V6(host) => host,
        };
        key[4..].copy_from_slice(&host.octets());
        key
    }

    /// The container's address that a port is mapped to: a container without an address of the port's family has an IPv4 one.
    pub(super) fn target(host: IpAddr, protocol: Protocol, v4: Option<IpAddr>, v6: Option<IpAddr>) -> Option<IpAddr> {
        match (host.is_ipv4(), protocol) {
            (true, _) => v4,
            (false, Protocol::Sctp) => v6,
            (false, _) => v6.or(v4),
        }
    }
}

/// Reads a container's port: `80`, `80/tcp`. Errors: in dockerd's words.
pub(crate) fn parse(text: &str) -> Result<(u16, Protocol)> {
    let bad = || Error::invalid(format!("invalid port specification: {text:?}"));
    let (number, protocol) = text.split_once('/').unwrap_or((text, "tcp"));
    let protocol = match protocol.to_ascii_lowercase().as_str() {
        "tcp" => Protocol::Tcp,
        "udp" => Protocol::Udp,
        "sctp" => Protocol::Sctp,
        _ => return Err(bad()),
    };
    let number: u16 = number.parse().map_err(|_| bad())?;
    if number == 0 { Err(bad()) } else { Ok((number, protocol)) }
}

/// Reads a port or a range of the host: empty and `0` mean any ephemeral port.
fn parse_host(text: &str) -> Result<Wanted> {
    let bad = || Error::invalid(format!("invalid port specification: {text:?}"));
    if text.is_empty() || text == "0" {
        return Ok(Wanted::Any);
    }
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.parse::<u16>().map_err(|_| bad())?, last.parse::<u16>().map_err(|_| bad())?);
    if first == 0 || last < first { Err(bad()) } else { Ok(Wanted::Range(first, last)) }
}

enum Wanted {
    Any,
    Range(u16, u16),
}

/// Checks the ports of a request.
pub(crate) fn check(bindings: &PortMap, exposed: impl Iterator<Item = impl AsRef<str>>) -> Result<()> {
    for port in exposed {
        parse(port.as_ref())?;
    }
    for (port, hosts) in bindings.iter() {
        parse(&port)?;
        for (ip, host_port) in hosts.into_iter().flat_map(Bindings::iter) {
            parse_host(&host_port)?;
            if !ip.is_empty() && ip.parse::<IpAddr>().is_err() {
                return Err(Error::invalid(format!("invalid IP address in port binding: {ip:?}")));
            }
        }
    }
    Ok(())
}

/// The ports that a container publishes: its exposed ports that have bindings, or all.
pub(crate) struct PortRequest<'a> {
    pub bindings: &'a PortMap,
    pub exposed: &'a PortSet,
    pub all: bool,
    /// Where bindings without an address are published; absent: everywhere.
    pub default_host: Option<IpAddr>,
    /// See [`Published::loopback_relayed`].
    pub relay_loopback: bool,
    pub v4: Option<IpAddr>,
    pub v6: Option<IpAddr>,
}

/// Ports that are taken: their mappings, and the sockets that keep other programs out.
#[derive(Default)]
pub(crate) struct Taken {
    pub ports: Vec<Published>,
    /// The sockets that nobody reads, and those that the monitor reads.
    reserved: Option<(Bundle, Bundle)>,
    /// The number of sockets that the monitor reads.
    relayed: usize,
}

/// Sockets that keep ports from other programs as long as they are open.
pub(crate) struct PortReservation {
    pub reserved: OwnedFd,
    /// See [`Published::is_relayed`].
    pub relayed: OwnedFd,
}

impl Taken {
    fn add(&mut self, ports: Vec<(Published, Option<OwnedFd>)>) -> Result<()> {
        for (port, socket) in ports {
            self.ports.push(port);
            if self.reserved.is_none() {
                self.reserved = Some((Bundle::new()?, Bundle::new()?));
            }
            if let (Some((reserved, relayed)), Some(socket)) = (&mut self.reserved, socket) {
                let is_relayed = port.is_relayed();
                self.relayed += usize::from(is_relayed);
                check_relayed(self.relayed, &port, port::descriptors()?)?;
                let bundle = if is_relayed { relayed } else { reserved };
                bundle.push(socket, &port.relay_key())?;
            }
        }
        Ok(())
    }

    pub(super) fn port_reservation(&mut self) -> Result<Option<PortReservation>> {
        let Some((reserved, relayed)) = self.reserved.take() else { return Ok(None) };
        Ok(Some(PortReservation { reserved: reserved.finish()?, relayed: relayed.finish()? }))
    }
}

/// Gives out the host's ports.
#[derive(Default)]
pub(crate) struct HostPorts {
    /// The next ephemeral port to try.
    next: AtomicU16,
}

impl HostPorts {
    /// Takes all requested ports, or none. `ours` says whether a container of this root has a port.
    pub(crate) fn take(&self, asked: &PortRequest<'_>, ours: &dyn Fn(&Published) -> Result<bool>) -> Result<Taken> {
        let mut taken = Taken::default();
        let bindings = bindings_by_port(asked.bindings);
        check_room(asked, &bindings)?;
        for text in asked.exposed.iter() {
            let port = parse(&text)?;
            match bindings.get(&port).filter(|hosts| !hosts.is_empty()) {
                Some(hosts) => {
                    hosts
                        .iter()
                        .try_for_each(|host| self.take_one(asked, (&host.0, &host.1), port, ours, &mut taken))?;
                }
                None if asked.all => self.take_one(asked, ("", ""), port, ours, &mut taken)?,
                None => {}
            }
        }
        Ok(taken)
    }

    /// Takes one port at one address of the host, or at all of them, by the texts of a binding.
    fn take_one(
        &self,
        asked: &PortRequest<'_>,
        (host_ip, host_port): (&str, &str),
        (port, protocol): (u16, Protocol),
        ours: &dyn Fn(&Published) -> Result<bool>,
        taken: &mut Taken,
    ) -> Result<()> {
        let wanted = parse_host(host_port)?;
        let bad = || Error::invalid(format!("invalid IP address in port binding: {host_ip:?}"));
        let address = match host_ip {
            "" => asked.default_host,
            text => Some(text.parse::<IpAddr>().map_err(|_| bad())?),
        };
        let everywhere = [IpAddr::from(Ipv4Addr::UNSPECIFIED), IpAddr::from(Ipv6Addr::UNSPECIFIED)];
        let addresses: Vec<(IpAddr, IpAddr)> = everywhere
            .into_iter()
            .filter_map(|any| match address {
                None => Some(any),
                Some(address) => (address.is_ipv4() == any.is_ipv4()).then_some(address),
            })
            .filter_map(|host| Some((host, Published::target(host, protocol, asked.v4, asked.v6)?)))
            .collect();
        if addresses.is_empty() {
            return Err(Error::new(
                ErrorKind::Internal,
                format!("port {port}/{}: the container has no address of the family of {host_ip}", protocol.name(),),
            ));
        }
        let at = |host_port: u16| -> Vec<Published> {
            let one = |&(host, to): &(IpAddr, IpAddr)| {
                let is_there = host.is_ipv4() && (host.is_unspecified() || host.is_loopback());
                let loopback_relayed = asked.relay_loopback && is_there && protocol != Protocol::Sctp;
                Published { host, host_port, protocol, to, port, loopback_relayed }
            };
            addresses.iter().map(one).collect()
        };
        taken.add(match wanted {
            Wanted::Any => self.ephemeral(at)?,
            Wanted::Range(first, last) => first_free(first, last, at, ours)?,
        })
    }

    /// The next free port of the kernel's ephemeral range.
    fn ephemeral(&self, at: impl Fn(u16) -> Vec<Published>) -> Result<Reserved> {
        let (first, last) = ephemeral_range();
        for _ in first..=last {
            let before = self.next.fetch_add(1, Ordering::Relaxed);
            let port = if (first..=last).contains(&before) { before } else { first };
            if port != before {
                self.next.store(port.wrapping_add(1), Ordering::Relaxed);
            }
            match reserve(&at(port)) {
                Ok(reserved) => return Ok(reserved),
                Err((_, error)) if error.is(libc::EADDRINUSE) => {}
                Err((port, error)) => return Err(refused(&port, &error)),
            }
        }
        Err(Error::new(ErrorKind::Internal, "all ports are allocated").in_area("network"))
    }
}

/// Descriptors of a monitor that ports must not use: its own, and those of the connections that it relays.
const OTHER_DESCRIPTORS: u64 = 1024;

/// Refuses more ports than the monitor has descriptors for. A port that nobody reads needs none: its socket lies in the queue
/// of another socket.
fn check_relayed(count: usize, port: &Published, limit: u64) -> Result<()> {
    if (count as u64).saturating_add(OTHER_DESCRIPTORS.min(limit / 2)) <= limit {
        return Ok(());
    }
    let text = format!(
        "PortBindings, PublishAllPorts: {count} ports like {} cannot be mapped to {} by the kernel, and the container's monitor, which \
         relays them, needs a descriptor for each: the hard limit of open files (RLIMIT_NOFILE) is {limit}. \
         Raise it, publish the ports at an IPv4 address (HostIp, --publish-ip), or use a network with IPv6",
        socket_text(port),
        port.to
    );
    Err(Error::new(ErrorKind::Unsupported, text).in_area("network"))
}

/// Refuses to publish all ports if the host has fewer ports to give out, before any is taken.
fn check_room(asked: &PortRequest<'_>, bindings: &HashMap<(u16, Protocol), Bindings<'_>>) -> Result<()> {
    let (first, last) = ephemeral_range();
    let room = usize::from(last - first) + 1;
    let mut counts: HashMap<Protocol, usize> = HashMap::new();
    for text in asked.exposed.iter().filter(|_| asked.all) {
        let port = parse(&text)?;
        if bindings.get(&port).is_none_or(|hosts| hosts.is_empty()) {
            *counts.entry(port.1).or_default() += 1;
        }
    }
    let Some((protocol, count)) = counts.into_iter().find(|(_, count)| *count > room) else { return Ok(()) };
    let protocol = protocol.name();
    let text = format!(
        "all ports are allocated: PublishAllPorts asks for {count} {protocol} ports of the host's choice, and it has {room} \
         (net.ipv4.ip_local_port_range is {first} {last})"
    );
    Err(Error::new(ErrorKind::Internal, text).in_area("network"))
}

/// The bindings of each port. A key may be written in another way than the exposed port (`80` for `80/tcp`); of several keys
/// for one port, the first counts.
fn bindings_by_port(bindings: &PortMap) -> HashMap<(u16, Protocol), Bindings<'_>> {
    let mut by_port = HashMap::with_capacity(bindings.len());
    for (text, hosts) in bindings.iter() {
        let Ok(port) = parse(&text) else { continue };
        by_port.entry(port).or_insert(hosts);
    }
    by_port.into_iter().filter_map(|(port, hosts)| Some((port, hosts?))).collect()
}

fn first_free(
    first: u16,
    last: u16,
    at: impl Fn(u16) -> Vec<Published>,
    ours: &dyn Fn(&Published) -> Result<bool>,
) -> Result<Reserved> {
    let mut failed = None;
    for port in first..=last {
        match reserve(&at(port)) {
            Ok(reserved) => return Ok(reserved),
            Err((port, error)) => failed = Some((port, error)),
        }
    }
    Err(match failed {
        Some((port, error)) if error.is(libc::EADDRINUSE) && ours(&port)? => Error::new(
            ErrorKind::Internal,
            format!("Bind for {} failed: port is already allocated", socket_text(&port)),
        ),
        Some((port, error)) => refused(&port, &error),
        None => Error::internal("no port in the range"),
    })
}

/// Ports, each with the socket that keeps other programs out.
type Reserved = Vec<(Published, Option<OwnedFd>)>;

fn reserve(ports: &[Published]) -> std::result::Result<Reserved, (Published, Error)> {
    let mut reserved = Vec::new();
    for port in ports {
        match port::reserve(i32::from(port.protocol.number()), port.host, port.host_port, port.is_relayed()) {
            Ok(socket) => reserved.push((*port, Some(socket))),
            // A kernel without SCTP: nobody on this host can have such a port.
            Err(error) if error.is(libc::EPROTONOSUPPORT) => reserved.push((*port, None)),
            // A host without IPv6: `everywhere` is IPv4 there.
            Err(error) if error.is(libc::EAFNOSUPPORT) && ports.len() > 1 => {}
            Err(error) => return Err((*port, error)),
        }
    }
    Ok(reserved)
}

fn refused(port: &Published, error: &Error) -> Error {
    let reason = std::io::Error::from_raw_os_error(error.raw_os_error().unwrap_or(0)).to_string();
    let reason = reason.split(" (os error").next().unwrap_or_default().to_lowercase();
    let family = if port.host.is_ipv4() { 4 } else { 6 };
    let text = format!("listen {}{family} {}: bind: {reason}", port.protocol.name(), socket_text(port));
    Error::new(ErrorKind::Internal, text).in_area("network")
}

fn socket_text(port: &Published) -> String {
    std::net::SocketAddr::new(port.host, port.host_port).to_string()
}

fn ephemeral_range() -> (u16, u16) {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let mut words = text.split_whitespace().map(str::parse::<u16>);
    match (words.next(), words.next()) {
        (Some(Ok(first)), Some(Ok(last))) if 0 < first && first <= last => (first, last),
        _ => (49153, 65535),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_in_requests() {
        assert_eq!(parse("80").unwrap(), (80, Protocol::Tcp));
        assert_eq!(parse("53/UDP").unwrap(), (53, Protocol::Udp));
        for bad in ["", "0/tcp", "99999", "80/xyz", "80-81/tcp", "-1", "80/tcp/udp"] {
            assert_eq!(parse(bad).unwrap_err().message(), format!("invalid port specification: {bad:?}"));
        }
        assert!(parse_host("8010-8000").is_err() && parse_host("70000").is_err() && parse_host("1-").is_err());
        assert!(matches!(parse_host("8000-8010"), Ok(Wanted::Range(8000, 8010))));
    }

    #[test]
    fn only_exposed_ports_are_published() {
        let bindings = PortMap::of_rows(["80/tcp", "81/tcp"].map(|port| (port, Some(("127.0.0.1", "")))));
        let asked = PortRequest {
            bindings: &bindings,
            exposed: &["80"].into_iter().collect(),
            all: false,
            default_host: None,
            relay_loopback: false,
            v4: Some(Ipv4Addr::new(10, 0, 0, 2).into()),
            v6: None,
        };
        let taken = HostPorts::default().take(&asked, &|_| Ok(false)).unwrap();
        assert_eq!(taken.ports.len(), 1);
        assert_eq!((taken.ports[0].port, taken.ports[0].host), (80, Ipv4Addr::LOCALHOST.into()));
        let again = Published { to: Ipv4Addr::new(10, 0, 0, 3).into(), ..taken.ports[0] };
        let text = first_free(again.host_port, again.host_port, |_| vec![again], &|_| Ok(true)).unwrap_err();
        let expected = format!("Bind for 127.0.0.1:{} failed: port is already allocated", again.host_port);
        assert_eq!(text.message(), expected);
        let text = first_free(again.host_port, again.host_port, |_| vec![again], &|_| Ok(false)).unwrap_err();
        let expected = format!("listen tcp4 127.0.0.1:{}: bind: address already in use", again.host_port);
        assert_eq!(text.message(), expected);
    }
}
