//! The options of an endpoint (`DriverOpts`): kernel parameters of its interface, and the interface's name.

use crate::error::{Error, Result};
use crate::model::StringMap;
use crate::walls::Wall;

const SYSCTLS: &str = "com.docker.network.endpoint.sysctls";
const INTERFACE: &str = "com.docker.network.endpoint.ifname";
/// The longest name of an interface: IFNAMSIZ without its NUL.
const LONGEST_NAME: usize = 15;

/// A kernel parameter of an interface.
#[derive(Debug, PartialEq, Eq)]
struct Parameter {
    /// Below `/proc/sys`: the directory of all interfaces.
    dir: String,
    key: String,
    value: String,
}

/// The options that the engine itself follows.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct EndpointOptions {
    sysctls: Vec<Parameter>,
    /// The name of the interface in the container.
    pub interface: Option<String>,
}

impl EndpointOptions {
    /// Reads the options that the engine follows, and checks them. Errors: a malformed option.
    pub(crate) fn parse(options: &StringMap) -> Result<EndpointOptions> {
        let sysctls = options.get(SYSCTLS).map(String::as_str).unwrap_or_default();
        let sysctls = sysctls.split(',').filter(|one| !one.is_empty()).map(sysctl).collect::<Result<_>>()?;
        let interface = options.get(INTERFACE).filter(|name| !name.is_empty());
        Ok(EndpointOptions { sysctls, interface: interface.map(|name| interface_name(name)).transpose()? })
    }

    /// The kernel parameters of an interface: paths below `/proc/sys` and values.
    pub(crate) fn sysctls(&self, interface: &str) -> Vec<(String, String)> {
        let of = |one: &Parameter| (format!("{}/{interface}/{}", one.dir, one.key), one.value.clone());
        self.sysctls.iter().map(of).collect()
    }
}

/// An option that a driver of the engine's own does not have, if there is one.
pub(super) fn unknown(options: &StringMap) -> Option<&str> {
    options.keys().map(String::as_str).find(|key| !matches!(*key, SYSCTLS | INTERFACE))
}

/// `net.ipv4.conf.IFNAME.log_martians=1`: only parameters of the interface itself, so that an endpoint sets nothing of
/// another one.
fn sysctl(text: &str) -> Result<Parameter> {
    let wrong = || {
        Error::invalid(format!(
            "unrecognised network interface sysctl '{text}'; represent 'net.X.Y.ethN.Z=V' as 'net.X.Y.IFNAME.Z=V', 'X' \
             must be 'ipv4', 'ipv6' or 'mpls'"
        ))
    };
    let (name, value) = text.split_once('=').ok_or_else(wrong)?;
    let parts: Vec<&str> = name.split('.').collect();
    let ["net", family @ ("ipv4" | "ipv6" | "mpls"), kind, "IFNAME" | "ifname", key] = parts[..] else {
        return Err(wrong());
    };
    let is_word =
        |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
    let is_value =
        !value.is_empty() && value.bytes().all(|b| b.is_ascii_graphic() || b == b' ') && !value.contains(['+', '=']);
    if !(is_word(kind) && is_word(key) && is_value) && Wall::SysctlCheck.stands() {
        return Err(wrong());
    }
    Ok(Parameter { dir: format!("net/{family}/{kind}"), key: key.to_owned(), value: value.to_owned() })
}

/// The kernel's own rules, and no name that a part of `/proc/sys/net` or the loopback interface has.
fn interface_name(name: &str) -> Result<String> {
    let is_plain = name.bytes().all(|b| b.is_ascii_graphic() && !matches!(b, b'/' | b':' | b'%'));
    match is_plain && name.len() <= LONGEST_NAME && !matches!(name, "." | ".." | "lo" | "all" | "default") {
        true => Ok(name.to_owned()),
        false => Err(Error::invalid(format!("invalid interface name {name:?} ({INTERFACE})"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(key: &str, value: &str) -> Result<EndpointOptions> {
        EndpointOptions::parse(&StringMap::from([(key.to_owned(), value.to_owned())]))
    }

    #[test]
    fn parameters_are_those_of_the_interface() {
        let text = "net.ipv4.conf.IFNAME.log_martians=1,net.ipv6.neigh.ifname.base_reachable_time_ms=5";
        let options = parsed(SYSCTLS, text).unwrap();
        let all = options.sysctls("eth3");
        assert_eq!(all[0], ("net/ipv4/conf/eth3/log_martians".into(), "1".into()));
        assert_eq!(all[1].0, "net/ipv6/neigh/eth3/base_reachable_time_ms");
        let options = parsed(SYSCTLS, "net.ipv4.IFNAME.IFNAME.IFNAME=1").unwrap();
        assert_eq!(options.sysctls("eth3")[0].0, "net/ipv4/IFNAME/eth3/IFNAME");
        for bad in [
            "net.ipv4.conf.eth0.log_martians=1",
            "net.ipv4.ip_forward=1",
            "net.ipv4.conf.IFNAME.log_martians",
            "net.ipv4.conf.IFNAME.a.b=1",
            "net.ipv4.../x.IFNAME.y=1",
            "net.ipv4.conf.IFNAME.x=1+net.ipv4.y=2",
            "kernel.ipv4.conf.IFNAME.x=1",
            "net.core.conf.IFNAME.x=1",
        ] {
            let error = parsed(SYSCTLS, bad).unwrap_err();
            assert!(error.message().starts_with("unrecognised network interface sysctl '"), "{bad}: {error}");
        }
    }

    #[test]
    fn interfaces_have_names_of_the_kernel() {
        assert_eq!(parsed(INTERFACE, "uplink0").unwrap().interface.as_deref(), Some("uplink0"));
        for bad in ["lo", "..", "a/b", "sixteen-letters0", "two words", "all", "x%d"] {
            assert!(parsed(INTERFACE, bad).unwrap_err().message().contains("invalid interface name"), "{bad}");
        }
        assert_eq!(unknown(&StringMap::from([("x".to_owned(), String::new())])), Some("x"));
    }
}
