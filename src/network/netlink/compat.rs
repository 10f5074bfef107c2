//! Chains and rules of other programs. Rules are written in the form of iptables-nft, which shows and saves no other.

use super::message::{ACK, CREATE, DUMP, Messages};
use super::nft::{
    BATCH_BEGIN, BATCH_END, DEL_RULE, GET_CHAIN, GET_RULE, LIST_ELEMENT, Meta, NEW_RULE, SUBSYSTEM, head, kind, name,
    number, of,
};
use crate::kernel::netlink::attributes;

/// The family of IPv4's tables.
pub(crate) const V4: u8 = libc::NFPROTO_IPV4 as u8;
/// The family of IPv6's tables.
pub(crate) const V6: u8 = libc::NFPROTO_IPV6 as u8;

/// The register that iptables-nft uses.
const REGISTER: u32 = 1;
const VERDICT: u32 = 0;
const ACCEPT: u32 = 1;
/// `struct xt_comment_info`: a text with its NUL, the rest zeros.
const COMMENT: usize = 256;

/// A chain of another program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chain {
    pub family: u8,
    pub table: String,
    pub name: String,
}

/// A rule that lets all packets pass that come from one interface, or go to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pass {
    /// The rule's number in its chain.
    pub handle: u64,
    pub interface: String,
    pub incoming: bool,
    /// Empty: the rule has none.
    pub comment: String,
}

impl Chain {
    /// A chain of the table `filter`, where iptables has most of its rules.
    pub(crate) fn of_filter(family: u8, name: &str) -> Chain {
        Chain { family, table: "filter".into(), name: name.into() }
    }

    /// Asks, in a message that is acknowledged, whether the chain is there.
    pub(crate) fn ask(&self, m: &mut Messages) {
        m.begin(kind(GET_CHAIN), ACK, &head(self.family, 0)).text(1, &self.table).text(3, &self.name);
    }

    /// Asks for the chain's rules.
    pub(crate) fn get_rules(&self) -> Vec<u8> {
        let mut m = Messages::new();
        m.begin(kind(GET_RULE), DUMP, &head(self.family, 0)).text(1, &self.table).text(2, &self.name);
        m.finish()
    }

    /// The batch that puts rules at the chain's beginning: for each an interface, and whether packets that come from it or
    /// go to it pass. The last message is acknowledged.
    pub(crate) fn insert(&self, rules: &[(&str, bool)], comment: &str) -> Vec<u8> {
        let mut m = batch();
        for (place, (interface, incoming)) in rules.iter().enumerate() {
            let flags = if place + 1 == rules.len() { CREATE | ACK } else { CREATE };
            let m = m.begin(kind(NEW_RULE), flags, &head(self.family, 0)).text(1, &self.table).text(2, &self.name);
            m.nest(4, |m| expressions(m, interface, *incoming, comment));
            // Matches of iptables' extensions look for a protocol when they are set up: the rule has none.
            m.nest(5, |m| {
                m.be32(1, 0).be32(2, 0);
            });
        }
        ended(m)
    }

    /// The batch that removes a rule.
    pub(crate) fn delete(&self, handle: u64) -> Vec<u8> {
        let mut m = batch();
        let rule = m.begin(kind(DEL_RULE), ACK, &head(self.family, 0)).text(1, &self.table).text(2, &self.name);
        rule.attr(3, &handle.to_be_bytes());
        ended(m)
    }

    /// Reads an answer to [`Chain::get_rules`]; `None`: the rule is of another chain, or does something else.
    pub(crate) fn read_pass(&self, body: &[u8]) -> Option<Pass> {
        let all = body.get(4..)?;
        if body[0] != self.family || name(&of(all, 1)) != self.table || name(&of(all, 2)) != self.name {
            return None;
        }
        let handle = u64::from_be_bytes(of(all, 3).try_into().ok()?);
        let (mut interface, mut incoming, mut comment, mut passes) = (None, None, String::new(), false);
        for (_, one) in attributes(&of(all, 4)) {
            let data = of(one, 2);
            match name(&of(one, 1)).as_str() {
                "counter" => {}
                "meta" if incoming.is_none() => incoming = Some(is_incoming(number(&of(&data, 2))?)?),
                "cmp" if interface.is_none() && number(&of(&data, 2))? == 0 => {
                    interface = Some(until_nul(&of(&of(&data, 3), 1)));
                }
                "match" if name(&of(&data, 1)) == "comment" => comment = until_nul(&of(&data, 3)),
                "immediate" => passes = number(&of(&of(&of(&data, 2), 2), 1))? == ACCEPT,
                _ => return None,
            }
        }
        passes.then_some(Pass { handle, interface: interface?, incoming: incoming?, comment })
    }
}

/// A chain that sees forwarded packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Forward {
    pub chain: Chain,
    /// The chain's policy drops a packet that none of its rules accepts.
    pub drops: bool,
}

/// Reads an answer to `get_chains`; `None`: the chain does not see forwarded packets.
pub(crate) fn read_forward(body: &[u8]) -> Option<Forward> {
    const FORWARD: u32 = 2;
    const DROP: u32 = 0;
    let all = body.get(4..)?;
    let hooked = number(&of(&of(all, 4), 1))? == FORWARD;
    let chain = Chain { family: body[0], table: name(&of(all, 1)), name: name(&of(all, 3)) };
    hooked.then_some(Forward { chain, drops: number(&of(all, 5))? == DROP })
}

/// Reads an answer to [`Chain::get_rules`]: whether no packet passes the rule. `None`: the rule is of another chain.
pub(crate) fn read_refusal(chain: &Chain, body: &[u8]) -> Option<bool> {
    const DROP: u32 = 0;
    let all = body.get(4..)?;
    if name(&of(all, 1)) != chain.table || name(&of(all, 2)) != chain.name {
        return None;
    }
    let list = of(all, 4);
    let mut refuses = false;
    for (_, one) in attributes(&list) {
        let data = of(one, 2);
        match name(&of(one, 1)).as_str() {
            "counter" | "log" => {}
            "reject" => refuses = true,
            "target" if name(&of(&data, 1)) == "REJECT" => refuses = true,
            "immediate" if number(&of(&of(&of(&data, 2), 2), 1)) == Some(DROP) => refuses = true,
            // The rule looks at the packet, or does something else with it.
            _ => return Some(false),
        }
    }
    Some(refuses)
}

fn is_incoming(key: u32) -> Option<bool> {
    match key {
        key if key == Meta::InName as u32 => Some(true),
        key if key == Meta::OutName as u32 => Some(false),
        _ => None,
    }
}

fn until_nul(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

fn batch() -> Messages {
    let mut m = Messages::new();
    m.begin(BATCH_BEGIN, 0, &head(0, SUBSYSTEM));
    m
}

fn ended(mut m: Messages) -> Vec<u8> {
    m.begin(BATCH_END, 0, &head(0, SUBSYSTEM));
    m.finish()
}

/// Interface, comment, counter, verdict.
fn expressions(m: &mut Messages, interface: &str, incoming: bool, comment: &str) {
    let key = if incoming { Meta::InName } else { Meta::OutName };
    expression(m, "meta", |m| {
        m.be32(2, key as u32).be32(1, REGISTER);
    });
    expression(m, "cmp", |m| {
        m.be32(1, REGISTER).be32(2, 0).nest(3, |m| {
            // With its NUL: without it the rule would fit every interface whose name begins so.
            m.text(1, interface);
        });
    });
    expression(m, "match", |m| {
        let mut info = [0; COMMENT];
        for (to, from) in info[..COMMENT - 1].iter_mut().zip(comment.bytes()) {
            *to = from;
        }
        m.text(1, "comment").be32(2, 0).attr(3, &info);
    });
    expression(m, "counter", |m| {
        m.attr(1, &[0; 8]).attr(2, &[0; 8]);
    });
    expression(m, "immediate", |m| {
        m.be32(1, VERDICT).nest(2, |m| {
            m.nest(2, |m| {
                m.be32(1, ACCEPT);
            });
        });
    });
}

fn expression(m: &mut Messages, name: &str, data: impl FnOnce(&mut Messages)) {
    m.nest(LIST_ELEMENT, |m| {
        m.text(1, name).nest(2, data);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel's message about a rule that was written so.
    fn rule(chain: &Chain, incoming: bool, comment: &str) -> Vec<u8> {
        let mut m = Messages::new();
        let rule = m.begin(kind(NEW_RULE), 0, &head(chain.family, 0)).text(1, &chain.table).text(2, &chain.name);
        rule.attr(3, &7u64.to_be_bytes()).nest(4, |m| expressions(m, "coracle0", incoming, comment));
        m.finish().split_off(16)
    }

    #[test]
    fn rules_are_read_as_they_were_written() {
        let chain = Chain::of_filter(V4, "DOCKER-USER");
        for incoming in [true, false] {
            let body = rule(&chain, incoming, "coracle-ab12cd34");
            let (interface, comment) = ("coracle0".to_owned(), "coracle-ab12cd34".to_owned());
            assert_eq!(chain.read_pass(&body), Some(Pass { handle: 7, interface, incoming, comment }));
            assert_eq!(Chain::of_filter(V6, "DOCKER-USER").read_pass(&body), None);
            assert_eq!(Chain::of_filter(V4, "FORWARD").read_pass(&body), None);
            // A message that is cut short is not read as a rule, and causes no panic.
            for length in 0..body.len() {
                chain.read_pass(&body[..length]);
            }
        }
    }

    #[test]
    fn the_form_is_that_of_iptables_nft() {
        // As iptables-nft 1.8.9 sends `-I DOCKER-USER -i coracle0 -m comment --comment "coracle ab12cd34" -j ACCEPT`.
        let sent = Chain::of_filter(V4, "DOCKER-USER").insert(&[("coracle0", true)], "coracle ab12cd34");
        let rule = &sent[20..20 + 552];
        assert_eq!(rule[..4], 552u32.to_ne_bytes());
        let expected = "\x24\0\x01\u{80}\x09\0\x01\0meta\0\0\0\0\x14\0\x02\u{80}\x08\0\x02\0\0\0\0\x06\x08\0\x01\0\0\0\0\x01\
            \x34\0\x01\u{80}\x08\0\x01\0cmp\0\x28\0\x02\u{80}\x08\0\x01\0\0\0\0\x01\x08\0\x02\0\0\0\0\0\x14\0\x03\u{80}\
            \x0d\0\x01\0coracle0\0\0\0\0\x2c\x01\x01\u{80}\x0a\0\x01\0match\0\0\0\x1c\x01\x02\u{80}\
            \x0c\0\x01\0comment\0\x08\0\x02\0\0\0\0\0\x04\x01\x03\0coracle ab12cd34\0";
        let expected: Vec<u8> = expected.chars().map(|byte| byte as u8).collect();
        let list = 20 + 12 + 16 + 4;
        assert_eq!(rule[list..list + expected.len()], expected);
        let end = b"\x14\0\x05\x80\x08\0\x01\0\0\0\0\0\x08\0\x02\0\0\0\0\0";
        assert!(rule.ends_with(end));
    }
}
