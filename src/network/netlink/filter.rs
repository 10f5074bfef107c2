//! Filters of traffic control: one classic BPF program at a link's ingress.
//!
//! Classic BPF in "direct action" mode needs least of a kernel: cls_bpf and an ingress queue, no action modules, no bpf(2).

use super::message::{ACK, CREATE, DUMP, EXCLUSIVE, Messages};
use crate::kernel::netlink::attributes;

const NEW_QDISC: u16 = 36;
const NEW_FILTER: u16 = 44;
const GET_FILTER: u16 = 46;

const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const BPF_OPS_LEN: u16 = 4;
const BPF_OPS: u16 = 5;
const BPF_FLAGS: u16 = 8;
const FLAG_ACT_DIRECT: u32 = 1;

/// The queue `clsact`, its parent, and the place of filters for arriving packets.
const CLSACT: u32 = 0xffff_0000;
const CLSACT_PARENT: u32 = 0xffff_fff1;
const INGRESS: u32 = 0xffff_fff2;
/// The priority of the filter that runs before all others.
const FIRST: u32 = 1;
const ETH_P_ALL: u16 = 3;

/// An instruction of classic BPF: code, jumps if true and if false, value.
type Instruction = (u16, u8, u8, u32);

/// The firewall's mark on answers to the host's own connections that are for 127/8 already when they come to the bridge's
/// ingress: the kernel lets its bridges call the firewall (`bridge-nf-call-iptables`), and connection tracking put the host's
/// address back. A container cannot set the mark: marks end at the border of its network namespace.
pub(crate) const ANSWER: u32 = 0x636f_726c;

/// Drops a packet for 127/8 that lacks the firewall's mark, and a packet with a VLAN tag in a VLAN tag (the kernel has removed
/// the outer tag here, and removes the inner one later without asking the filter again). Bytes count from the Ethernet header;
/// loads from there reach into every part of a packet, however it was sent.
const NO_LOOPBACK: [Instruction; 10] = [
    // The protocol of the packet.
    (0x28, 0, 0, 0xffff_f000),
    (0x15, 2, 0, 0x0800),
    (0x15, 6, 0, 0x8100),
    (0x15, 5, 4, 0x88a8),
    // The first byte of the destination.
    (0x30, 0, 0, 14 + 16),
    (0x15, 0, 2, 127),
    // The mark.
    (0x20, 0, 0, 0xffff_f014),
    (0x15, 0, 1, ANSWER),
    // No opinion; dropped.
    (0x06, 0, 0, u32::MAX),
    (0x06, 0, 0, 2),
];

fn program() -> Vec<u8> {
    let bytes = |(code, yes, no, value): Instruction| {
        let mut bytes = code.to_ne_bytes().to_vec();
        bytes.extend([yes, no]);
        bytes.extend(value.to_ne_bytes());
        bytes
    };
    NO_LOOPBACK.into_iter().flat_map(bytes).collect()
}

/// `tcmsg`.
fn head(index: u32, handle: u32, parent: u32, info: u32) -> [u8; 20] {
    let mut head = [0; 20];
    for (at, word) in [(4, index), (8, handle), (12, parent), (16, info)] {
        head[at..at + 4].copy_from_slice(&word.to_ne_bytes());
    }
    head
}

/// Makes the ingress queue of a link; the kernel refuses with `EEXIST` where the queue is there already. Then puts the program
/// that drops packets for 127/8 into the queue, in place of one that is there.
pub(crate) fn drop_loopback(m: &mut Messages, index: u32) {
    m.begin(NEW_QDISC, ACK | CREATE | EXCLUSIVE, &head(index, CLSACT, CLSACT_PARENT, 0)).text(TCA_KIND, "clsact");
    let info = FIRST << 16 | u32::from(ETH_P_ALL.to_be());
    m.begin(NEW_FILTER, ACK | CREATE, &head(index, 1, INGRESS, info)).text(TCA_KIND, "bpf").nest_as(TCA_OPTIONS, |m| {
        m.attr(BPF_OPS_LEN, &(NO_LOOPBACK.len() as u16).to_ne_bytes());
        m.attr(BPF_OPS, &program());
        m.u32(BPF_FLAGS, FLAG_ACT_DIRECT);
    });
}

/// Asks for the filters at a link's ingress.
pub(crate) fn get_filters(index: u32) -> Vec<u8> {
    let mut m = Messages::new();
    m.begin(GET_FILTER, DUMP, &head(index, 0, INGRESS, 0));
    m.finish()
}

/// Whether an answer is the filter of [`drop_loopback`].
pub(crate) fn is_drop_loopback(kind: u16, body: &[u8]) -> bool {
    let find = |list: &[u8], wanted: u16, is: &dyn Fn(&[u8]) -> bool| {
        attributes(list).any(|(kind, payload)| kind == wanted && is(payload))
    };
    let is_first = body.get(18..20) == Some(&(FIRST as u16).to_ne_bytes()[..]);
    let attributes = body.get(20..).unwrap_or_default();
    let is_direct = |flags: &[u8]| flags.try_into().is_ok_and(|flags| u32::from_ne_bytes(flags) & FLAG_ACT_DIRECT != 0);
    kind == NEW_FILTER
        && (is_first || cfg!(target_endian = "big"))
        && find(attributes, TCA_KIND, &|name| name == b"bpf\0")
        && find(attributes, TCA_OPTIONS, &|options| {
            find(options, BPF_OPS, &|ops| ops == program()) && find(options, BPF_FLAGS, &is_direct)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_known_again() {
        let mut m = Messages::new();
        drop_loopback(&mut m, 7);
        let bytes = m.finish();
        let queue = u32::from_ne_bytes(bytes[..4].try_into().unwrap()) as usize;
        let filter = &bytes[queue + 16..];
        assert!(is_drop_loopback(NEW_FILTER, filter));
        assert!(!is_drop_loopback(NEW_QDISC, filter));
        for at in 18..filter.len() {
            let mut other = filter.to_vec();
            other[at] ^= 0x15;
            // Padding, the number of instructions, and all flags but the first do not count; the flags are at the end.
            let known = is_drop_loopback(NEW_FILTER, &other);
            assert!(!known || at < 40 || at > filter.len() - 4, "{at} of {}", filter.len());
        }
        (0..filter.len()).for_each(|length| assert!(!is_drop_loopback(NEW_FILTER, &filter[..length])));
    }

    /// The program's verdict on a packet, as the kernel runs it.
    fn verdict(protocol: u16, mark: u32, packet: &[u8]) -> u32 {
        let (mut at, mut a) = (0, 0);
        loop {
            let (code, yes, no, value) = NO_LOOPBACK[at];
            at += 1;
            match code {
                0x28 => a = u32::from(protocol),
                0x20 => a = mark,
                0x30 => match packet.get(value as usize) {
                    Some(byte) => a = u32::from(*byte),
                    None => return 0,
                },
                0x15 => at += usize::from(if a == value { yes } else { no }),
                _ => return value,
            }
        }
    }

    #[test]
    fn the_filter_drops_loopback_and_tags_in_tags() {
        let to = |first: u8| [[0; 30].as_slice(), &[first, 0, 0, 1]].concat();
        assert_eq!((verdict(0x0800, 0, &to(127)), verdict(0x0800, ANSWER, &to(127))), (2, u32::MAX));
        for first in [0, 10, 126, 128, 255] {
            assert_eq!(verdict(0x0800, 0, &to(first)), u32::MAX);
        }
        assert_eq!((verdict(0x8100, 0, &to(10)), verdict(0x88a8, ANSWER, &to(10))), (2, 2));
        assert_eq!((verdict(0x86dd, 0, &to(127)), verdict(0x0806, 0, &to(127))), (u32::MAX, u32::MAX));
    }
}
