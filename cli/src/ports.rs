//! Ports as docker's command line writes them: `--publish`, `--expose`, and the column of `ps`.

use coracle::model::{PortMap, PortSet, PortSummary};

/// Reads `[ADDRESS:][HOSTPORT:]PORT[/PROTOCOL]`, where ports may be ranges.
pub fn publish(texts: &[String]) -> Result<PortMap, String> {
    let mut rows = Vec::new();
    for text in texts {
        let bad = || format!("invalid value {text:?} for --publish: [ADDRESS:][HOSTPORT:]PORT[/PROTOCOL]");
        let (rest, protocol) = text.rsplit_once('/').unwrap_or((text, "tcp"));
        let (rest, port) = rest.rsplit_once(':').unwrap_or(("", rest));
        let (host_ip, host_port) = match rest.rsplit_once(':') {
            None => ("", rest),
            Some((ip, host_port)) => (ip.trim_start_matches('[').trim_end_matches(']'), host_port),
        };
        let ports = range(port).ok_or_else(bad)?;
        let hosts = if host_port.is_empty() { None } else { Some(range(host_port).ok_or_else(bad)?) };
        for (at, port) in ports.clone().enumerate() {
            let host_port = match &hosts {
                None => String::new(),
                // One port for a range of the host's: the first free one.
                Some(_) if ports.len() == 1 => host_port.to_owned(),
                Some(hosts) if hosts.len() == ports.len() => (hosts.start() + at as u16).to_string(),
                Some(_) => return Err(format!("invalid value {text:?} for --publish: the ranges differ in length")),
            };
            rows.push((format!("{port}/{protocol}"), Some((host_ip.to_owned(), host_port))));
        }
    }
    Ok(PortMap::of_rows(rows))
}

/// Reads `PORT[/PROTOCOL]`, where the port may be a range, and adds the published ports.
pub fn expose(texts: &[String], published: &PortMap) -> Result<PortSet, String> {
    let mut exposed: PortSet = published.keys().collect();
    for text in texts {
        let (ports, protocol) = text.split_once('/').unwrap_or((text, "tcp"));
        let ports = range(ports).ok_or_else(|| format!("invalid value {text:?} for --expose: PORT[/PROTOCOL]"))?;
        exposed.extend(ports.map(|port| format!("{port}/{protocol}")));
    }
    Ok(exposed)
}

/// The ports of a container in one cell: `0.0.0.0:8080->80/tcp, 443/tcp`. Consecutive ports at one address with one
/// distance to their ports of the host are shown as a range: `0.0.0.0:8000-8001->80-81/tcp`.
pub fn shown(ports: impl Iterator<Item = PortSummary>) -> String {
    let key = |port: &PortSummary| {
        let distance = port.public_port.map(|public| i32::from(public) - i32::from(port.private_port));
        (port.kind.clone(), port.ip.clone(), distance)
    };
    let mut ports: Vec<PortSummary> = ports.collect();
    ports.sort_by_key(|port| (key(port), port.private_port));
    let follows =
        |a: &PortSummary, b: &PortSummary| key(a) == key(b) && a.private_port.checked_add(1) == Some(b.private_port);
    let mut runs: Vec<(u16, String)> = ports.chunk_by(follows).filter_map(run).collect();
    runs.sort();
    runs.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(", ")
}

/// Ports that follow one another, with the first of them.
fn run(ports: &[PortSummary]) -> Option<(u16, String)> {
    let (first, last) = (ports.first()?, ports.last()?);
    let span = |from: u16, to: u16| if from == to { from.to_string() } else { format!("{from}-{to}") };
    let private = format!("{}/{}", span(first.private_port, last.private_port), first.kind);
    let text = match (first.public_port, last.public_port) {
        (Some(from), Some(to)) => format!("{}->{private}", address(&first.ip, &span(from, to))),
        _ => private,
    };
    Some((first.private_port, text))
}

/// A port at an address of the host; IPv6 addresses are in brackets.
pub fn address(ip: &str, port: &str) -> String {
    if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") }
}

fn range(text: &str) -> Option<std::ops::RangeInclusive<u16>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.parse::<u16>().ok()?, last.parse::<u16>().ok()?);
    (first <= last).then_some(first..=last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use coracle::model::{Bindings, PortText};

    fn of(text: &str) -> Vec<String> {
        let bindings = publish(&[text.to_owned()]).expect(text);
        let line = |(port, hosts): (PortText<'_>, Option<Bindings<'_>>)| {
            let (ip, host_port) = hosts.and_then(|hosts| hosts.iter().next()).expect("a binding");
            format!("{port} {ip}|{host_port}")
        };
        bindings.iter().map(line).collect()
    }

    #[test]
    fn ports_in_a_cell() {
        let port = |ip: &str, public_port, private_port, kind: &str| PortSummary {
            ip: ip.into(),
            private_port,
            public_port,
            kind: kind.into(),
        };
        let of = |ports: &[PortSummary]| shown(ports.iter().cloned());
        assert_eq!(of(&[]), "");
        assert_eq!(
            of(&[port("0.0.0.0", Some(8080), 80, "tcp"), port("", None, 443, "tcp")]),
            "0.0.0.0:8080->80/tcp, 443/tcp"
        );
        let follow = [
            port("0.0.0.0", Some(8001), 81, "tcp"),
            port("::", Some(8000), 80, "tcp"),
            port("0.0.0.0", Some(8000), 80, "tcp"),
            port("0.0.0.0", Some(9000), 82, "tcp"),
            port("0.0.0.0", Some(8001), 81, "udp"),
        ];
        assert_eq!(
            of(&follow),
            "0.0.0.0:8000-8001->80-81/tcp, [::]:8000->80/tcp, 0.0.0.0:8001->81/udp, 0.0.0.0:9000->82/tcp"
        );
        assert_eq!(of(&[port("", None, 65535, "tcp"), port("", None, 65534, "tcp")]), "65534-65535/tcp");
    }

    #[test]
    fn forms_of_publish() {
        assert_eq!(of("80"), ["80/tcp |"]);
        assert_eq!(of("8080:80"), ["80/tcp |8080"]);
        assert_eq!(of("127.0.0.1:8080:80/udp"), ["80/udp 127.0.0.1|8080"]);
        assert_eq!(of("127.0.0.1::80"), ["80/tcp 127.0.0.1|"]);
        assert_eq!(of("[::1]:8080:80"), ["80/tcp ::1|8080"]);
        assert_eq!(of("8000-8001:80-81"), ["80/tcp |8000", "81/tcp |8001"]);
        assert_eq!(of("8000-8010:80"), ["80/tcp |8000-8010"]);
        for bad in ["", "x", "8000-8002:80-81", "a:80", "70000"] {
            assert!(publish(&[bad.to_owned()]).is_err(), "{bad}");
        }
    }
}
