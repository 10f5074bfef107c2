//! nf_tables: tables, chains, sets, elements and rules of the `inet` family, in batches that happen as a whole or not.

use super::message::{ACK, APPEND, CREATE, DUMP, Messages};
use crate::kernel::netlink::attributes;
use crate::walls::Wall;

pub(super) const SUBSYSTEM: u16 = 10;
pub(super) const BATCH_BEGIN: u16 = 0x10;
pub(super) const BATCH_END: u16 = 0x11;
const NEW_TABLE: u16 = 0;
const GET_TABLE: u16 = 1;
const DEL_TABLE: u16 = 2;
const NEW_CHAIN: u16 = 3;
pub(super) const GET_CHAIN: u16 = 4;
pub(super) const NEW_RULE: u16 = 6;
pub(super) const GET_RULE: u16 = 7;
pub(super) const DEL_RULE: u16 = 8;
const NEW_SET: u16 = 9;
const NEW_ELEMENT: u16 = 12;
const GET_ELEMENT: u16 = 13;
const DEL_ELEMENT: u16 = 14;

const INET: u8 = 1;
pub(super) const LIST_ELEMENT: u16 = 1;

/// The first of the 32-bit registers; a concatenation uses consecutive ones.
pub(crate) const R0: u32 = 8;

/// A batch being written. Only the last message is acknowledged: the kernel reports one that fails anyway.
pub(crate) struct Batch {
    messages: Messages,
    table: String,
}

/// The hook of a base chain.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hook {
    pub kind: &'static str,
    pub hook: u32,
    pub priority: i32,
}

/// The elements of a set: the types as `nft` shows them, and the bytes of its keys and values.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SetKind {
    pub key: &'static [Type],
    pub value: &'static [Type],
    pub interval: bool,
}

/// Types of keys and values, by the numbers that `nft` gives them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Type {
    Ipv4 = 7,
    Ipv6 = 8,
    Protocol = 12,
    Port = 13,
    Interface = 41,
}

impl Type {
    fn bytes(self) -> u32 {
        match self {
            Type::Ipv4 | Type::Protocol | Type::Port => 4,
            Type::Ipv6 | Type::Interface => 16,
        }
    }
}

fn of_types(types: &[Type]) -> (u32, u32) {
    let bytes = if types.len() == 1 && types[0] == Type::Port { 2 } else { types.iter().map(|t| t.bytes()).sum() };
    (types.iter().fold(0, |all, &kind| all << 6 | kind as u32), bytes)
}

/// One element: its key, and its value in a map; in an interval set, whether an interval ends before it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Element {
    pub key: Vec<u8>,
    pub value: Vec<u8>,
    pub end: bool,
}

pub(super) fn head(family: u8, resource: u16) -> [u8; 4] {
    let [high, low] = resource.to_be_bytes();
    [family, 0, high, low]
}

pub(super) fn kind(message: u16) -> u16 {
    SUBSYSTEM << 8 | message
}

/// Asks, in a message that is acknowledged, whether a table is there.
pub(crate) fn ask_table(m: &mut Messages, name: &str) {
    m.begin(kind(GET_TABLE), ACK, &head(INET, 0)).text(1, name);
}

/// Asks for all chains.
pub(crate) fn get_chains() -> Vec<u8> {
    let mut m = Messages::new();
    m.begin(kind(GET_CHAIN), DUMP, &head(0, 0));
    m.finish()
}

/// Asks for the elements of a set.
pub(crate) fn get_elements(table: &str, set: &str) -> Vec<u8> {
    let mut m = Messages::new();
    m.begin(kind(GET_ELEMENT), DUMP, &head(INET, 0)).text(1, table).text(2, set);
    m.finish()
}

/// Reads an answer to [`get_elements`].
pub(crate) fn read_elements(body: &[u8]) -> Vec<Element> {
    let list = of(body.get(4..).unwrap_or_default(), 3);
    let element = |one: &[u8]| Element { key: of(&of(one, 1), 1), value: of(&of(one, 2), 1), end: false };
    attributes(&list).filter(|(kind, _)| *kind == LIST_ELEMENT).map(|(_, one)| element(one)).collect()
}

/// The payload of one attribute; empty where it is not there.
pub(super) fn of(list: &[u8], wanted: u16) -> Vec<u8> {
    attributes(list).find(|(kind, _)| *kind == wanted).map(|(_, payload)| payload.to_vec()).unwrap_or_default()
}

pub(super) fn number(payload: &[u8]) -> Option<u32> {
    payload.try_into().map(u32::from_be_bytes).ok()
}

pub(super) fn name(payload: &[u8]) -> String {
    String::from_utf8_lossy(payload).trim_end_matches('\0').to_owned()
}

impl Batch {
    pub(crate) fn new(table: &str) -> Batch {
        let mut messages = Messages::new();
        messages.begin(BATCH_BEGIN, 0, &head(0, SUBSYSTEM));
        Batch { messages, table: table.to_owned() }
    }

    /// The finished bytes. One acknowledgement comes.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        // This message changes nothing: it is acknowledged after all others.
        self.messages.begin(kind(NEW_TABLE), CREATE | ACK, &head(INET, 0)).text(1, &self.table);
        self.messages.begin(BATCH_END, 0, &head(0, SUBSYSTEM));
        self.messages.finish()
    }

    /// The finished bytes of a batch that must not make the table where it is gone.
    pub(crate) fn finish_without_table(mut self) -> Vec<u8> {
        self.messages.begin(BATCH_END, 0, &head(0, SUBSYSTEM));
        self.messages.finish()
    }

    fn begin(&mut self, message: u16, flags: u16) -> &mut Messages {
        self.messages.begin(kind(message), flags, &head(INET, 0))
    }

    pub(crate) fn add_table(&mut self) {
        let table = self.table.clone();
        self.begin(NEW_TABLE, CREATE).text(1, &table);
    }

    pub(crate) fn delete_table(&mut self) {
        let table = self.table.clone();
        self.begin(DEL_TABLE, ACK).text(1, &table);
    }

    pub(crate) fn add_chain(&mut self, name: &str, hook: Hook) {
        let table = self.table.clone();
        let m = self.begin(NEW_CHAIN, CREATE).text(1, &table).text(3, name);
        m.nest(4, |m| {
            m.be32(1, hook.hook).be32(2, hook.priority as u32);
        });
        const ACCEPT: u32 = 1;
        m.be32(5, ACCEPT).text(7, hook.kind);
    }

    /// A chain that rules send packets to.
    pub(crate) fn add_branch(&mut self, name: &str) {
        let table = self.table.clone();
        self.begin(NEW_CHAIN, CREATE).text(1, &table).text(3, name);
    }

    pub(crate) fn add_set(&mut self, name: &str, id: u32, set: SetKind) {
        const INTERVAL: u32 = 4;
        const MAP: u32 = 8;
        let table = self.table.clone();
        let is_map = !set.value.is_empty();
        let flags = if set.interval { INTERVAL } else { 0 } | if is_map { MAP } else { 0 };
        let (key_type, key_bytes) = of_types(set.key);
        let m = self.begin(NEW_SET, CREATE).text(1, &table).text(2, name).be32(3, flags);
        m.be32(4, key_type).be32(5, key_bytes);
        if is_map {
            let (value_type, value_bytes) = of_types(set.value);
            m.be32(6, value_type).be32(7, value_bytes);
        }
        m.be32(10, id);
        if set.key == [Type::Interface] {
            // For people: `nft` shows the names of a set that is marked as of the machine's byte order.
            m.attr(13, &[0, 4, 1, 0, 0, 0]);
        }
    }

    pub(crate) fn add_elements(&mut self, set: &str, elements: &[Element]) {
        self.elements(NEW_ELEMENT, CREATE, set, elements);
    }

    pub(crate) fn delete_elements(&mut self, set: &str, elements: &[Element]) {
        self.elements(DEL_ELEMENT, 0, set, elements);
    }

    /// Removes all elements of a set.
    pub(crate) fn empty(&mut self, set: &str) {
        let table = self.table.clone();
        self.begin(DEL_ELEMENT, 0).text(1, &table).text(2, set);
    }

    fn elements(&mut self, message: u16, flags: u16, set: &str, elements: &[Element]) {
        let table = self.table.clone();
        // Attributes have 16 bits for their length: a long list is several messages.
        let most = if Wall::NetlinkLengths.stands() { 500 } else { usize::MAX };
        for part in elements.chunks(most) {
            let m = self.begin(message, flags).text(1, &table).text(2, set);
            m.nest(3, |m| {
                for element in part {
                    m.nest(LIST_ELEMENT, |m| write_element(m, element));
                }
            });
        }
    }

    /// Appends a rule to a chain.
    pub(crate) fn add_rule(&mut self, chain: &str, rule: Rule) {
        let table = self.table.clone();
        let m = self.begin(NEW_RULE, CREATE | APPEND).text(1, &table).text(2, chain);
        m.nest(4, |m| {
            for (name, data) in &rule.expressions {
                m.nest(LIST_ELEMENT, |m| {
                    m.text(1, name).nest(2, |m| {
                        m.raw(data);
                    });
                });
            }
        });
    }
}

fn write_element(m: &mut Messages, element: &Element) {
    const INTERVAL_END: u32 = 1;
    if element.end {
        m.be32(3, INTERVAL_END);
    }
    m.nest(1, |m| {
        m.attr(1, &element.key);
    });
    if !element.value.is_empty() {
        m.nest(2, |m| {
            m.attr(1, &element.value);
        });
    }
}

/// `NFT_META_MARK`.
const MARK: u32 = 3;

/// A fact about a packet that a rule loads.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Meta {
    InName = 6,
    OutName = 7,
    Family = 15,
    Protocol = 16,
    /// The kind of the interface that the packet leaves by, such as `bridge`.
    OutKind = 27,
}

/// One rule: matches, then a verdict on the packets that all of them fit.
#[derive(Debug, Default, Clone)]
pub(crate) struct Rule {
    expressions: Vec<(&'static str, Vec<u8>)>,
}

impl Rule {
    pub(crate) fn new() -> Rule {
        Rule::default()
    }

    fn expression(mut self, name: &'static str, write: impl FnOnce(&mut Messages)) -> Rule {
        let mut inside = Messages::new();
        write(&mut inside);
        self.expressions.push((name, inside.finish()));
        self
    }

    /// Loads into a register.
    pub(crate) fn load(self, what: Meta, register: u32) -> Rule {
        self.expression("meta", |m| {
            m.be32(2, what as u32).be32(1, register);
        })
    }

    /// Loads bytes of the network header (1) or the transport header (2).
    pub(crate) fn payload(self, base: u32, offset: u32, length: u32, register: u32) -> Rule {
        self.expression("payload", |m| {
            m.be32(1, register).be32(2, base).be32(3, offset).be32(4, length);
        })
    }

    /// The register holds these bytes, or does not.
    pub(crate) fn compare(self, register: u32, equal: bool, data: &[u8]) -> Rule {
        self.expression("cmp", |m| {
            m.be32(1, register).be32(2, u32::from(!equal)).nest(3, |m| {
                m.attr(1, data);
            });
        })
    }

    /// The register's bits under a mask are not all zero.
    pub(crate) fn any_bit(self, register: u32, mask: u32) -> Rule {
        self.masked(register, mask).compare(register, false, &[0; 4])
    }

    /// The register's bits under a mask are all zero.
    pub(crate) fn no_bit(self, register: u32, mask: u32) -> Rule {
        self.masked(register, mask).compare(register, true, &[0; 4])
    }

    fn masked(self, register: u32, mask: u32) -> Rule {
        self.expression("bitwise", |m| {
            m.be32(1, register).be32(2, register).be32(3, 4);
            m.nest(4, |m| {
                m.attr(1, &mask.to_ne_bytes());
            });
            m.nest(5, |m| {
                m.attr(1, &[0; 4]);
            });
        })
    }

    /// Puts bytes into a register.
    pub(crate) fn set(self, register: u32, data: &[u8]) -> Rule {
        self.expression("immediate", |m| {
            m.be32(1, register).nest(2, |m| {
                m.attr(1, data);
            });
        })
    }

    /// Marks the packet.
    pub(crate) fn mark(self, mark: u32) -> Rule {
        self.set(R0, &mark.to_ne_bytes()).expression("meta", |m| {
            m.be32(2, MARK).be32(3, R0);
        })
    }

    /// Connection tracking's state (0) or status (2).
    pub(crate) fn ct(self, key: u32, register: u32) -> Rule {
        self.expression("ct", |m| {
            m.be32(2, key).be32(1, register);
        })
    }

    /// The register is in a set, or is not.
    pub(crate) fn in_set(self, register: u32, set: &str, inside: bool) -> Rule {
        self.expression("lookup", |m| {
            m.text(1, set).be32(2, register);
            if !inside {
                m.be32(5, 1);
            }
        })
    }

    /// The register is in a map: the map's value comes into the same registers.
    pub(crate) fn through_map(self, register: u32, map: &str) -> Rule {
        self.expression("lookup", |m| {
            m.text(1, map).be32(2, register).be32(3, register);
        })
    }

    /// The packet is for an address of this machine. The match uses `register`.
    pub(crate) fn for_this_host(self, register: u32) -> Rule {
        const ADDRESS_TYPE: u32 = 3;
        const DESTINATION: u32 = 2;
        const LOCAL: u32 = 2;
        let rule = self.expression("fib", |m| {
            m.be32(1, register).be32(2, ADDRESS_TYPE).be32(3, DESTINATION);
        });
        rule.compare(register, true, &LOCAL.to_ne_bytes())
    }

    /// Changes the destination to the address in `register` and the port in `port`.
    pub(crate) fn dnat(self, v6: bool, register: u32, port: u32) -> Rule {
        const DNAT: u32 = 1;
        let family = if v6 { libc::NFPROTO_IPV6 } else { libc::NFPROTO_IPV4 } as u32;
        self.expression("nat", |m| {
            m.be32(1, DNAT).be32(2, family).be32(3, register).be32(4, register).be32(5, port).be32(6, port);
        })
    }

    /// Changes the source to the address of the interface that the packet leaves by.
    pub(crate) fn masquerade(self) -> Rule {
        self.expression("masq", |_| {})
    }

    pub(crate) fn accept(self) -> Rule {
        self.verdict(1, None)
    }

    pub(crate) fn drop(self) -> Rule {
        self.verdict(0, None)
    }

    /// The packet goes on in a branch, and does not come back.
    pub(crate) fn go_to(self, branch: &str) -> Rule {
        const GOTO: i32 = -4;
        self.verdict(GOTO as u32, Some(branch))
    }

    fn verdict(self, code: u32, branch: Option<&str>) -> Rule {
        self.expression("immediate", |m| {
            m.be32(1, 0).nest(2, |m| {
                m.nest(2, |m| {
                    m.be32(1, code);
                    if let Some(branch) = branch {
                        m.text(2, branch);
                    }
                });
            });
        })
    }
}
