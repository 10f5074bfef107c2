//! `--publish` and `--expose`: ports as docker's command line writes them.

use coracle::model::{PortMap, PortSet};

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
                // One port in a range of the host's: the first that is free.
                Some(_) if ports.len() == 1 => host_port.to_owned(),
                Some(hosts) if hosts.len() == ports.len() => (hosts.start() + at as u16).to_string(),
                Some(_) => return Err(format!("invalid value {text:?} for --publish: the ranges differ in length")),
            };
            rows.push((format!("{port}/{protocol}"), Some((host_ip.to_owned(), host_port))));
        }
    }
    Ok(PortMap::of_rows(rows))
}

/// Reads `PORT[/PROTOCOL]`, where the port may be a range, and adds what is published.
pub fn expose(texts: &[String], published: &PortMap) -> Result<PortSet, String> {
    let mut exposed: PortSet = published.keys().collect();
    for text in texts {
        let (ports, protocol) = text.split_once('/').unwrap_or((text, "tcp"));
        let ports = range(ports).ok_or_else(|| format!("invalid value {text:?} for --expose: PORT[/PROTOCOL]"))?;
        exposed.extend(ports.map(|port| format!("{port}/{protocol}")));
    }
    Ok(exposed)
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
