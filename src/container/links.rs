//! Links: a container knows another one by an alias, in its hosts file and in its environment. Only the default network
//! has links; on other networks a link is a name for the resolver (see [`crate::network`]).

use super::network::{Mode, mode};
use super::spec::{NetworkMode, Spec};
use super::{Finder, Register, Snapshot};
use crate::error::{Error, ErrorKind, Result};
use crate::model::CreateBody;
use crate::network::{Networks, parse_port};
use crate::order::Order as _;
use crate::store::containers;
use crate::store::links as table;
use rusqlite::Transaction;
use std::net::IpAddr;
use std::sync::Arc;

/// A link to a running container: the facts that its parent gets.
pub(super) struct Seen {
    alias: String,
    /// `/parent/alias`.
    name: String,
    child: Spec,
    child_name: String,
    v4: Option<IpAddr>,
    v6: Option<IpAddr>,
}

impl Seen {
    /// Address and names, as lines of a hosts file.
    pub(super) fn hosts(&self) -> Vec<(String, String)> {
        let alias = self.alias.rsplit('/').next().unwrap_or_default();
        let mut names = format!("{alias} {}", self.child.config.hostname);
        if alias != self.child_name {
            names += &format!(" {}", self.child_name);
        }
        [self.v4, self.v6].into_iter().flatten().map(|ip| (ip.to_string(), names.clone())).collect()
    }

    /// The child's exposed ports, the lowest first; TCP before UDP for one number.
    fn ports(&self) -> Vec<(u16, &'static str)> {
        let exposed = self.child.config.exposed_ports.iter();
        let read = exposed.filter_map(|text| parse_port(&text).ok());
        let mut ports: Vec<(u16, &'static str)> = read.map(|(port, protocol)| (port, protocol.name())).collect();
        ports.order_by_key(|(port, protocol)| (*port, *protocol != "tcp"));
        ports
    }

    /// The environment variables with the addresses of the child's ports, and with the child's own variables.
    pub(super) fn environment(&self) -> Vec<String> {
        let alias = self.alias.rsplit('/').next().unwrap_or_default().to_uppercase().replace('-', "_");
        let ip = self.v4.map_or(String::new(), |ip| ip.to_string());
        let ports = self.ports();
        let mut env = Vec::new();
        if let Some((port, protocol)) = ports.first() {
            env.push(format!("{alias}_PORT={protocol}://{ip}:{port}"));
        }
        ranges(&mut env, &alias, &ip, &ports);
        for (port, protocol) in &ports {
            let stem = format!("{alias}_PORT_{port}_{}", protocol.to_uppercase());
            env.push(format!("{stem}={protocol}://{ip}:{port}"));
            env.push(format!("{stem}_ADDR={ip}"));
            env.push(format!("{stem}_PORT={port}"));
            env.push(format!("{stem}_PROTO={protocol}"));
        }
        env.push(format!("{alias}_NAME={}", self.name));
        for entry in self.child.config.env.iter().flatten() {
            if let Some((key, value)) = entry.split_once('=')
                && !matches!(key, "HOME" | "PATH")
            {
                env.push(format!("{alias}_ENV_{key}={value}"));
            }
        }
        env
    }
}

/// Three or more consecutive ports are also described by their first and last one.
fn ranges(env: &mut Vec<String>, alias: &str, ip: &str, ports: &[(u16, &'static str)]) {
    let mut at = 0;
    while at < ports.len() {
        let mut end = at;
        while end + 1 < ports.len() && u32::from(ports[end + 1].0) <= u32::from(ports[at].0) + (end + 1 - at) as u32 {
            end += 1;
        }
        if end <= at + 1 {
            at += 1;
            continue;
        }
        let ((first, protocol), (last, last_protocol)) = (ports[at], ports[end]);
        let stem = |port: u16, protocol: &str| format!("{alias}_PORT_{port}_{}", protocol.to_uppercase());
        let from = stem(first, protocol);
        env.push(format!("{from}_START={protocol}://{ip}:{first}"));
        env.push(format!("{from}_ADDR={ip}"));
        env.push(format!("{from}_PROTO={protocol}"));
        env.push(format!("{from}_PORT_START={first}"));
        env.push(format!("{from}_END={last_protocol}://{ip}:{last}"));
        env.push(format!("{from}_PORT_END={last}"));
        at = end + 1;
    }
}

/// Reads a link of a request: `name`, `name:alias`, or `/name:/parent/alias` as inspect shows it.
///
/// The alias may have slashes; only its last part is the other's name in the container.
pub(super) fn parse(text: &str) -> Result<(&str, String)> {
    let bad = || Error::invalid(format!("bad format for links: {text}"));
    let (name, alias) = match text.split_once(':') {
        None => (text, text),
        Some((name, alias)) => match name.strip_prefix('/') {
            Some(name) => (name, alias.rsplit('/').next().unwrap_or_default()),
            None => (name, alias),
        },
    };
    // dockerd joins the alias to the container's name.
    let parts: Vec<&str> = alias.split('/').filter(|part| !part.is_empty()).collect();
    let alias = parts.join("/");
    let is_bad = alias.contains([':', '\0', '\n', ' ', '\t']) || parts.iter().any(|part| matches!(*part, "." | ".."));
    match (text, alias.as_str()) {
        ("", _) => Err(Error::invalid("empty string specified for links")),
        (_, alias) if name.is_empty() || alias.is_empty() || is_bad => Err(bad()),
        _ => Ok((name, alias)),
    }
}

/// Checks the form of a request's links.
pub(super) fn check(request: &CreateBody) -> Result<()> {
    let of_host = request.host_config.links.iter().flatten();
    let ends = request.networking_config.endpoints_config.values().flatten();
    let of_ends = ends.flat_map(|settings| settings.links.iter().flatten());
    of_host.chain(of_ends).try_for_each(|link| parse(link).map(drop))
}

/// The links between containers of the default network.
pub(crate) struct Links {
    pub(super) register: Arc<Register>,
    pub(super) finder: Arc<Finder>,
    pub(super) networks: Arc<Networks>,
}

impl Links {
    /// Stores the links of a request. On other networks than the default they are ignored here: the endpoint's settings
    /// have them.
    ///
    /// Errors: a linked container does not exist, or has the host's network.
    pub(super) fn add_links(&self, tx: &Transaction<'_>, id: &str, links: &[String], spec: &Spec) -> Result<()> {
        match spec.host_config.modes().network {
            NetworkMode::Default | NetworkMode::Bridge | NetworkMode::None => {}
            NetworkMode::Host | NetworkMode::Container(_) | NetworkMode::Network(_) => return Ok(()),
        }
        for link in links {
            let (name, alias) = parse(link)?;
            let missing = |error: Error| match error.kind() {
                ErrorKind::NotFound => {
                    Error::invalid(error.message()).context(format_args!("could not get container for {name}"))
                }
                _ => error.context(format_args!("could not get container for {name}")),
            };
            let find = |name: &str| containers::find(tx, name, &mut self.register.stored()).map_err(missing);
            let mut child = self.register.snapshot(find(name)?)?.whole()?;
            // A container that shares another's network is found under that container's address.
            for _ in 0..16 {
                let Mode::Container(other) = mode(&child.spec) else { break };
                child = self.register.snapshot(find(other)?)?.whole()?;
            }
            if mode(&child.spec) == Mode::Host {
                return Err(Error::invalid(
                    "host type networking can't be used with links. This would result in undefined behavior",
                )
                .context("conflicting options"));
            }
            table::add(tx, id, &alias, &child.row.id)?;
        }
        Ok(())
    }

    /// `HostConfig.Links` of inspect.
    pub(super) fn texts(tx: &Transaction<'_>, id: &str) -> Result<Option<Vec<String>>> {
        let links = table::of_parent(tx, id)?;
        let texts: Vec<String> = links.iter().map(|link| format!("/{}:{}", link.child, link.name())).collect();
        Ok((!texts.is_empty()).then_some(texts))
    }

    /// The links of a container that is about to start. Errors: the linked container does not run, or is not on the
    /// default network.
    pub(super) fn check_links(&self, found: &Snapshot) -> Result<()> {
        if !on_default(&found.spec) {
            return Ok(());
        }
        let refused = |text: String| Err(Error::new(ErrorKind::Internal, text).in_area("network"));
        for link in self.register.db.read(|tx| table::of_parent(tx, &found.row.id))? {
            let child = self.finder.find(&link.child_id)?;
            if !on_default(&child.spec) {
                let text = format!("Cannot link to /{}, as it does not belong to the default network", link.child);
                return refused(text);
            }
            if !child.now.is_live() {
                return refused(format!("Cannot link to a non running container: /{} AS {}", link.child, link.name()));
            }
        }
        Ok(())
    }

    /// The links of a container to those that run.
    pub(super) fn seen_links(&self, found: &Snapshot) -> Result<Vec<Seen>> {
        if !on_default(&found.spec) {
            return Ok(Vec::new());
        }
        let links = self.register.db.read(|tx| table::of_parent(tx, &found.row.id))?;
        if links.is_empty() {
            return Ok(Vec::new());
        }
        let default = self.networks.register.find("bridge")?;
        let mut seen = Vec::new();
        for link in links {
            let child = self.finder.find(&link.child_id)?;
            let mut ends = self.networks.endpoint_store.of_container(&link.child_id)?;
            if let Some(end) = ends.remove(&default.id)
                && child.now.is_live()
            {
                let name = link.name();
                let (v4, v6) = (end.v4, end.v6);
                seen.push(Seen {
                    alias: link.alias,
                    name,
                    child: Spec::clone(&child.spec),
                    child_name: link.child,
                    v4,
                    v6,
                });
            }
        }
        Ok(seen)
    }

    /// The environment variables that describe the container's links.
    pub(super) fn link_variables(&self, found: &Snapshot) -> Result<Vec<String>> {
        Ok(self.seen_links(found)?.iter().flat_map(Seen::environment).collect())
    }
}

/// Whether the container is on the default network, the only one with links.
fn on_default(spec: &Spec) -> bool {
    mode(spec) == Mode::Networks && spec.networks.contains_key("bridge")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ContainerConfig;

    #[test]
    fn links_in_requests() {
        for (text, alias) in [
            ("db", "db"),
            ("db:it", "it"),
            ("/db:/web/it", "it"),
            ("db:/it", "it"),
            ("db:it/", "it"),
            ("db:a//b", "a/b"),
        ] {
            assert_eq!(parse(text).unwrap(), ("db", alias.to_owned()));
        }
        for bad in ["a:b:c", ":b", "a:", "a:b/../c", "/a:/", "a:/"] {
            assert_eq!(parse(bad).unwrap_err().message(), format!("bad format for links: {bad}"));
        }
        assert_eq!(parse("").unwrap_err().message(), "empty string specified for links");
    }

    #[test]
    fn the_variables_of_a_link() {
        let exposed = ["8000/tcp", "53/udp", "8002/tcp", "8001/tcp", "53/tcp"];
        let config = ContainerConfig {
            exposed_ports: exposed.iter().collect(),
            env: Some(["PATH=/x", "A=b=c", "HOME=/", "EMPTY", "Z="].map(str::to_owned).to_vec()),
            hostname: "h".into(),
            ..ContainerConfig::default()
        };
        let seen = Seen {
            alias: "my-db".into(),
            name: "/web/my-db".into(),
            child: Spec { config, ..Spec::default() },
            child_name: "db".into(),
            v4: Some([172, 17, 0, 2].into()),
            v6: None,
        };
        assert_eq!(seen.hosts(), [("172.17.0.2".to_owned(), "my-db h db".to_owned())]);
        let env = seen.environment();
        assert_eq!(env[0], "MY_DB_PORT=tcp://172.17.0.2:53");
        let expected = [
            "MY_DB_PORT_8000_TCP_START=tcp://172.17.0.2:8000",
            "MY_DB_PORT_8000_TCP_PORT_START=8000",
            "MY_DB_PORT_8000_TCP_END=tcp://172.17.0.2:8002",
            "MY_DB_PORT_8000_TCP_PORT_END=8002",
            "MY_DB_PORT_53_UDP=udp://172.17.0.2:53",
            "MY_DB_PORT_53_TCP_ADDR=172.17.0.2",
            "MY_DB_PORT_53_UDP_PROTO=udp",
            "MY_DB_NAME=/web/my-db",
            "MY_DB_ENV_A=b=c",
            "MY_DB_ENV_Z=",
        ];
        for line in expected {
            assert!(env.iter().any(|entry| entry == line), "{line} in {env:#?}");
        }
        assert!(!env.iter().any(|entry| entry.contains("ENV_PATH") || entry.contains("ENV_HOME")), "{env:#?}");
        assert!(!env.iter().any(|entry| entry.contains("PORT_53_TCP_START")), "two ports are not a range: {env:#?}");
    }
}
