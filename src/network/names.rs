//! Names: the files that monitors answer from, one for each user-defined network, and what a container's resolver needs.

use super::endpoint::doc::EndpointDoc;
use super::endpoint::joined::{Endpoint, JoinedEndpoints};
use super::endpoint::store::{EndpointStore, read, row as endpoint_row};
use super::locks::Locks;
use super::netlink::nft::{Batch, Hook, Meta, R0, Rule};
use super::register::Register;
use super::spec::Network;
use crate::error::{Error, Result};
use crate::hex::random_bytes;
use crate::store::Flush;
use crate::store::networks::{self as table, EndpointRow};
use crate::walls::Wall;
use coracle_monitor::wire::{NAMES_ENTRY, NAMES_MAGIC};
use std::fs::DirBuilder;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::Arc;

/// Where containers of user-defined networks ask.
pub(crate) const RESOLVER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 11);

/// The facts that a container's resolver needs.
pub(crate) struct Resolver {
    /// The port at which the resolver listens; it receives questions to port 53.
    pub port: u16,
    /// netfilter requests for this redirection, in the container's network namespace.
    pub redirect: Vec<u8>,
    /// Files of names, below the container's run directory.
    pub names: Vec<String>,
    /// The links of the container: the index of a file, the alias, and the name behind the alias.
    pub aliases: Vec<(u32, String, String)>,
    /// Whether questions may leave the host; false if all networks of the container are internal.
    pub forwards: bool,
}

/// The files from which monitors answer questions for names.
pub(crate) struct Names {
    pub(super) register: Arc<Register>,
    pub(super) endpoint_store: Arc<EndpointStore>,
    pub(super) locks: Arc<Locks>,
    /// The root's run directory.
    pub(super) run: PathBuf,
}

impl Names {
    /// The resolver of a container that is on a user-defined network; others have none.
    pub(crate) fn resolver(&self, endpoints: &JoinedEndpoints) -> Result<Option<Resolver>> {
        let own: Vec<&Endpoint> = endpoints.endpoints.iter().filter(|end| !end.network.is_predefined()).collect();
        if own.is_empty() {
            return Ok(None);
        }
        // High, so that it is not in the way of a server in the container.
        let port = 40_000 + u16::from_ne_bytes(random_bytes()?) % 20_000;
        Ok(Some(Resolver {
            port,
            redirect: redirect(port),
            names: own.iter().map(|end| format!("../../net/{}", end.network.id)).collect(),
            aliases: own.iter().enumerate().flat_map(|(at, end)| aliases(at as u32, &end.doc.links)).collect(),
            forwards: endpoints.endpoints.iter().any(|end| !end.network.spec.internal)
                || !Wall::InternalResolver.stands(),
        }))
    }

    /// Writes the names of a network, as the database has them.
    pub(super) fn write(&self, network: &Network) -> Result<()> {
        if network.is_predefined() {
            return Ok(());
        }
        let path = self.path(&network.id);
        let failed = |e: &std::io::Error| Error::io(format_args!("write {}", path.display()), e);
        if let Some(dir) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(|e| failed(&e))?;
        }
        // Two programs must write in the order in which they read the rows.
        let _order = self.locks.root()?;
        let rows = self.endpoint_store.of_network(network)?;
        let mut bytes = NAMES_MAGIC.to_le_bytes().to_vec();
        text(&mut bytes, &network.name);
        for row in rows.iter().filter(|row| row.left_ns == 0) {
            entries(&mut bytes, row, &read(row)?);
        }
        let staged = path.with_extension("new");
        std::fs::write(&staged, bytes).and_then(|()| std::fs::rename(&staged, &path)).map_err(|e| failed(&e))
    }

    /// Removes the names of a network.
    pub(super) fn remove(&self, network: &Network) {
        // If the file stays, no resolver reads it any more.
        let _ = std::fs::remove_file(self.path(&network.id));
    }

    fn path(&self, id: &str) -> PathBuf {
        self.run.join("net").join(id)
    }

    /// Changes the name of a container on all its networks.
    pub(crate) fn rename(&self, container: &str, name: &str) -> Result<()> {
        let rows = self.register.db.write(Flush::Lazy, |tx| {
            let rows = table::of_container(tx, container)?;
            for row in &rows {
                let doc = EndpointDoc { name: name.to_owned(), ..read(row)? };
                let renamed = endpoint_row(&row.network_id, container, row.slot, &doc)?;
                table::put_endpoint(tx, &EndpointRow { left_ns: row.left_ns, ..renamed })?;
            }
            Ok(rows)
        })?;
        for row in rows {
            self.write(&self.register.find(&row.network_id)?)?;
        }
        Ok(())
    }
}

/// Links as the resolver has them. They were checked when the container was created.
fn aliases(network: u32, links: &[String]) -> Vec<(u32, String, String)> {
    let pair = |link: &String| {
        let (name, alias) = link.split_once(':').unwrap_or((link, link));
        let name = name.trim_start_matches('/');
        // A container's name is the beginning of its id, not the whole id.
        let name = if crate::hex::is_hex_id(name) { &name[..12] } else { name };
        let alias = alias.rsplit('/').next().unwrap_or_default();
        (network, alias.to_ascii_lowercase(), name.to_ascii_lowercase())
    };
    links.iter().map(pair).collect()
}

fn entries(bytes: &mut Vec<u8>, row: &EndpointRow, doc: &EndpointDoc) {
    for name in &doc.dns_names() {
        let own = *name == doc.name;
        let mut entry = row.slot.to_le_bytes().to_vec();
        entry.extend(row.container_id.bytes().take(8));
        let mut flags = if own { 4 } else { 0 };
        match doc.v4 {
            Some(IpAddr::V4(ip)) => {
                flags |= 1;
                entry.extend(ip.octets());
            }
            _ => entry.extend([0; 4]),
        }
        match doc.v6 {
            Some(IpAddr::V6(ip)) => {
                flags |= 2;
                entry.extend(ip.octets());
            }
            _ => entry.extend([0; 16]),
        }
        entry.push(flags);
        debug_assert_eq!(entry.len(), NAMES_ENTRY - 1);
        bytes.extend(entry);
        text(bytes, name);
    }
}

/// A length and the text in small letters; no name is longer than a length can say.
fn text(bytes: &mut Vec<u8>, text: &str) {
    let short: String = text
        .to_ascii_lowercase()
        .chars()
        .scan(0, |used, c| {
            *used += c.len_utf8();
            (*used <= 255).then_some(c)
        })
        .collect();
    bytes.push(short.len() as u8);
    bytes.extend(short.bytes());
}

/// Leads questions to 127.0.0.11 port 53 to another port there: a server of the container may have port 53.
fn redirect(port: u16) -> Vec<u8> {
    const OUTPUT: u32 = 3;
    const DESTINATION: u32 = 16;
    let mut batch = Batch::new("coracle-names");
    // A container that left its networks and joins one has the rules of its resolver before, whose port nobody serves.
    batch.add_table();
    batch.delete_table();
    batch.add_table();
    batch.add_chain("ask", Hook { kind: "nat", hook: OUTPUT, priority: -100 });
    for protocol in [libc::IPPROTO_UDP as u8, libc::IPPROTO_TCP as u8] {
        let rule = Rule::new()
            .load(Meta::Family, R0)
            .compare(R0, true, &[libc::NFPROTO_IPV4 as u8])
            .payload(1, DESTINATION, 4, R0)
            .compare(R0, true, &RESOLVER.octets())
            .load(Meta::Protocol, R0)
            .compare(R0, true, &[protocol])
            .payload(2, 2, 2, R0)
            .compare(R0, true, &53u16.to_be_bytes())
            .set(R0, &RESOLVER.octets())
            .set(R0 + 1, &port.to_be_bytes())
            .dnat(false, R0, R0 + 1);
        batch.add_rule("ask", rule);
    }
    batch.finish()
}
