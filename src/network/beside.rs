//! The firewalls of other programs: a packet that one of them drops is dropped for our containers, too.
//!
//! dockerd drops forwarded packets, and has a chain for the rules of others, `DOCKER-USER`, which it leaves alone: there each
//! of our bridges has two rules that let its packets pass, to be judged by our own table. The comment of these rules is the
//! table's name. dockerd's isolation does not see the packets that they let pass, so our table first keeps our bridges apart
//! from those of others. No rule of any other program is ever changed: where one drops, a warning names the command that
//! lets our packets pass.

use super::address::Pool;
use super::firewall::Firewall;
use super::firewalls::{DOCKER, Firewalls, Standing, apart_from_others, docker_chains};
use super::links::links;
use super::locks::Locks;
use super::netlink::compat::{Chain, Forward, Pass, V4, V6, read_forward, read_refusal};
use super::netlink::nft::get_chains;
use super::own_links::{OwnLinks, next_bridge};
use super::register::Register;
use super::spec::Network;
use crate::error::Result;
use crate::kernel::netlink::{NETFILTER, Socket};
use crate::kernel::xtables;
use std::sync::Arc;

/// A bridge of ours, and whether it has IPv6.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Bridge {
    name: String,
    v6: bool,
}

impl Bridge {
    fn of(network: &Network, name: &str) -> Result<Bridge> {
        Ok(Bridge { name: name.to_owned(), v6: Pool::of(network)?.iter().any(|pool| pool.subnet.is_v6()) })
    }
}

/// Lets packets of our networks pass beside the firewalls of other programs.
pub(crate) struct Beside {
    pub(super) register: Arc<Register>,
    pub(super) locks: Arc<Locks>,
    pub(super) own_links: Arc<OwnLinks>,
    pub(super) firewalls: Arc<Firewalls>,
    pub(super) firewall: Arc<Firewall>,
    /// dockerd's chain for the rules of others gets none.
    pub(super) leave_docker_user: bool,
}

impl Beside {
    /// Whether a bridge is kept apart and its packets pass, if dockerd is there.
    pub(super) fn is_reconciled(&self, standing: &Standing, bridge: &str) -> Result<bool> {
        if standing.docker.is_empty() {
            return Ok(true);
        }
        // A table that an older version made keeps nothing apart.
        if !self.firewall.apart()?.is_some_and(|apart| apart.bridges.iter().any(|name| name == bridge)) {
            return Ok(false);
        }
        for chain in standing.docker.iter().filter(|_| !self.leave_docker_user) {
            let own = self.own_rules(chain)?;
            if !has_both(&own, bridge) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Makes the rules beside dockerd match the bridges that are there now. Under [`Locks::root`].
    pub(super) fn reconcile(&self) -> Result<()> {
        let standing = self.firewalls.standing()?;
        let bridges = self.bridges()?;
        let names: Vec<String> = bridges.into_iter().map(|bridge| bridge.name).collect();
        if standing.table && standing.is_dockers() {
            let apart = apart_from_others(names.clone())?;
            match self.firewall.apart()? {
                None => self.firewalls.make()?,
                Some(now) if now != apart => self.firewall.keep_apart(&apart)?,
                Some(_) => {}
            }
        }
        // Without the table nothing would be kept apart.
        let wanted = if self.leave_docker_user || !standing.table { &[][..] } else { &names };
        for chain in &standing.docker {
            self.reconcile_chain(chain, wanted)?;
        }
        Ok(())
    }

    /// Checks the rules at an open or a repair; where there is no dockerd it costs one question.
    pub(super) fn check(&self) -> Result<()> {
        if self.firewalls.standing()?.docker.is_empty() {
            return Ok(());
        }
        let _kernel = self.locks.kernel()?;
        self.reconcile()
    }

    /// Removes the rules of a chain that no bridge needs, and adds those that a bridge lacks.
    fn reconcile_chain(&self, chain: &Chain, bridges: &[String]) -> Result<()> {
        let mut stays: Vec<Pass> = Vec::new();
        for rule in self.own_rules(chain)? {
            let again =
                stays.iter().any(|other| (&other.interface, other.incoming) == (&rule.interface, rule.incoming));
            if again || !bridges.contains(&rule.interface) {
                delete(chain, rule.handle)?;
            } else {
                stays.push(rule);
            }
        }
        let lacks = |bridge: &str, incoming: bool| {
            !stays.iter().any(|rule| rule.interface == bridge && rule.incoming == incoming)
        };
        let both = bridges.iter().flat_map(|bridge| [(bridge.as_str(), true), (bridge.as_str(), false)]);
        let lacking: Vec<_> = both.filter(|(bridge, incoming)| lacks(bridge, *incoming)).collect();
        // The length of a message is limited.
        for some in lacking.chunks(100) {
            let refused = Socket::open(NETFILTER)?.request(&chain.insert(some, self.firewall.name()), 1)?;
            if let Some(refused) = refused.first() {
                return Err(refused.error(format_args!("let networks pass in {DOCKER}")).in_area("network"));
            }
        }
        Ok(())
    }

    /// The rules of this root in a chain.
    fn own_rules(&self, chain: &Chain) -> Result<Vec<Pass>> {
        let rules = passes(chain)?;
        Ok(rules.into_iter().filter(|rule| rule.comment == self.firewall.name()).collect())
    }

    /// The bridges of this root's networks that are there.
    fn bridges(&self) -> Result<Vec<Bridge>> {
        let links = links()?;
        let mut bridges = Vec::new();
        for network in self.register.all()? {
            if links.iter().any(|link| self.own_links.is_bridge_of(link, &network)) {
                bridges.push(Bridge::of(&network, &network.spec.bridge)?);
            }
        }
        Ok(bridges)
    }

    /// Why packets of this root's networks may not pass, with the command of each that lets them.
    pub(crate) fn warnings(&self) -> Result<Vec<String>> {
        let mut bridges = self.bridges()?;
        if bridges.is_empty() {
            let default = self.register.find("bridge")?;
            bridges.push(Bridge::of(&default, &next_bridge(&default)?)?);
        }
        self.warnings_of(&bridges)
    }

    /// The warnings about one network.
    pub(super) fn warnings_for(&self, network: &Network) -> Result<Vec<String>> {
        self.warnings_of(&[Bridge::of(network, &network.spec.bridge)?])
    }

    fn warnings_of(&self, bridges: &[Bridge]) -> Result<Vec<String>> {
        let mut warnings = Vec::new();
        for forward in forwards()? {
            let commands = self.commands(&forward.chain, bridges)?;
            warnings.extend(warning(&forward.chain.table, &commands));
        }
        for v6 in [false, true] {
            if let Some(filter) = xtables::filter(v6)?.filter(|filter| filter.drops) {
                let commands = legacy_commands(&filter, v6, bridges);
                warnings.extend(warning("filter (iptables-legacy)", &commands));
            }
        }
        Ok(warnings)
    }

    /// The commands that let these bridges pass where a chain drops; none: they pass, or will after their next start.
    fn commands(&self, chain: &Chain, bridges: &[Bridge]) -> Result<Vec<String>> {
        let concerned = bridges.iter().filter(|bridge| chain.family != V6 || bridge.v6);
        let mut rules = passes(chain)?;
        if chain.table == "firewalld" {
            let zone =
                |bridge: &Bridge| format!("firewall-cmd --permanent --zone=trusted --add-interface={}", bridge.name);
            let mut commands: Vec<String> = concerned.map(zone).collect();
            commands.push("firewall-cmd --reload".into());
            return Ok(commands);
        }
        let how = if is_of_iptables(chain) {
            let ufw = if chain.family == V6 { "ufw6-user-forward" } else { "ufw-user-forward" };
            let chains = [Chain::of_filter(chain.family, DOCKER), Chain::of_filter(chain.family, ufw)];
            let (_, there) = self.firewall.look(&chains)?;
            for (chain, _) in chains.iter().zip(&there).filter(|(_, there)| **there) {
                rules.extend(passes(chain)?);
            }
            if there[0] && !self.leave_docker_user {
                // A bridge that is not there yet has no rule.
                let existing = links()?;
                let made = |bridge: &&Bridge| existing.iter().any(|link| link.name == bridge.name);
                let lacking = concerned.filter(made).filter(|bridge| !has_both(&rules, &bridge.name));
                return Ok(lacking
                    .flat_map(|bridge| Tool::iptables(chain.family, "nft", DOCKER).both(bridge))
                    .collect());
            }
            match there[..] {
                [true, _] => Tool::iptables(chain.family, "nft", DOCKER),
                [_, true] => Tool::Ufw,
                _ => Tool::iptables(chain.family, "nft", "FORWARD"),
            }
        } else {
            Tool::Nft(chain.clone())
        };
        let lacking = concerned.filter(|bridge| !has_both(&rules, &bridge.name));
        Ok(lacking.flat_map(|bridge| how.both(bridge)).collect())
    }
}

/// The tool by which a person lets packets pass.
enum Tool {
    Iptables(String),
    Ufw,
    Nft(Chain),
}

impl Tool {
    fn iptables(family: u8, variant: &str, chain: &str) -> Tool {
        Tool::Iptables(format!("{}-{variant} -I {chain}", if family == V6 { "ip6tables" } else { "iptables" }))
    }

    /// Both directions.
    fn both(&self, bridge: &Bridge) -> Vec<String> {
        let name = &bridge.name;
        match self {
            Tool::Iptables(insert) => ["-i", "-o"].map(|way| format!("{insert} {way} {name} -j ACCEPT")).into(),
            Tool::Ufw => ["in", "out"].map(|way| format!("ufw route allow {way} on {name}")).into(),
            Tool::Nft(Chain { family, table, name: chain }) => {
                let family = match *family {
                    V4 => "ip",
                    V6 => "ip6",
                    _ => "inet",
                };
                let rule = |way| format!("nft insert rule {family} {table} {chain} {way} {name} accept");
                ["iifname", "oifname"].map(rule).into()
            }
        }
    }
}

fn legacy_commands(filter: &xtables::Filter, v6: bool, bridges: &[Bridge]) -> Vec<String> {
    let ufw = if v6 { "ufw6-user-forward" } else { "ufw-user-forward" };
    let family = if v6 { V6 } else { V4 };
    let how = if filter.has_chain(DOCKER) {
        Tool::iptables(family, "legacy", DOCKER)
    } else if filter.has_chain(ufw) {
        Tool::Ufw
    } else {
        Tool::iptables(family, "legacy", "FORWARD")
    };
    let passes = |bridge: &&Bridge| [true, false].iter().all(|incoming| filter.passes(&bridge.name, *incoming));
    let concerned = bridges.iter().filter(|bridge| !v6 || bridge.v6);
    concerned.filter(|bridge| !passes(bridge)).flat_map(|bridge| how.both(bridge)).collect()
}

fn warning(table: &str, commands: &[String]) -> Option<String> {
    let text = format!(
        "The firewall table {table} of another program drops forwarded packets: containers on networks may not be reached, nor reach others; this lets them pass: {}",
        commands.join(" && ")
    );
    (!commands.is_empty()).then_some(text)
}

fn is_of_iptables(chain: &Chain) -> bool {
    [V4, V6].contains(&chain.family) && (chain.table.as_str(), chain.name.as_str()) == ("filter", "FORWARD")
}

fn has_both(rules: &[Pass], bridge: &str) -> bool {
    [true, false].iter().all(|way| rules.iter().any(|rule| rule.interface == bridge && rule.incoming == *way))
}

/// The rules of a chain that let an interface pass.
fn passes(chain: &Chain) -> Result<Vec<Pass>> {
    let mut rules = Vec::new();
    Socket::open(NETFILTER)?.dump(&chain.get_rules(), |_, body| rules.extend(chain.read_pass(body)))?;
    Ok(rules)
}

/// Removes a rule; it may be gone already.
fn delete(chain: &Chain, handle: u64) -> Result<()> {
    let refused = Socket::open(NETFILTER)?.request(&chain.delete(handle), 1)?;
    match refused.first().filter(|refused| refused.errno != libc::ENOENT) {
        None => Ok(()),
        Some(refused) => Err(refused.error(format_args!("take a rule out of {DOCKER}")).in_area("network")),
    }
}

/// Removes from dockerd's chains the rules of a root that is gone; `name` is the name of its table.
pub(super) fn withdraw(name: &str) -> Result<()> {
    for chain in docker_chains() {
        // A chain that is not there has no rules.
        for rule in passes(&chain)?.iter().filter(|rule| rule.comment == name) {
            delete(&chain, rule.handle)?;
        }
    }
    Ok(())
}

/// The chains of other programs that drop forwarded packets which none of their rules accepts, by the chain's policy or by
/// its last rule.
/// The tables of other programs that drop forwarded packets, in the network namespace of the calling thread.
pub(crate) fn refusals() -> Result<Vec<String>> {
    let mut tables: Vec<String> = forwards()?.into_iter().map(|forward| forward.chain.table).collect();
    for v6 in [false, true] {
        if xtables::filter(v6)?.is_some_and(|filter| filter.drops) {
            tables.push("filter (iptables-legacy)".into());
        }
    }
    tables.dedup();
    Ok(tables)
}

fn forwards() -> Result<Vec<Forward>> {
    let mut chains = Vec::new();
    Socket::open(NETFILTER)?.dump(&get_chains(), |_, body| {
        chains.extend(read_forward(body).filter(|forward| !forward.chain.table.starts_with("coracle-")));
    })?;
    for Forward { chain, drops } in chains.iter_mut().filter(|forward| !forward.drops) {
        Socket::open(NETFILTER)?.dump(&chain.get_rules(), |_, body| {
            *drops = read_refusal(chain, body).unwrap_or(*drops);
        })?;
    }
    chains.retain(|forward| forward.drops);
    Ok(chains)
}
