//! Reads a filter of system calls: whether it lets a call through is asked before it is set, not found out by a death.
//!
//! The library compiled the filter; an instruction that it does not make counts as a refusal.

/// The view of a call that the kernel gives a filter.
struct Call {
    number: u32,
    arguments: [u64; 6],
}

#[cfg(target_arch = "x86_64")]
pub const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
pub const ARCHITECTURE: u32 = 0xc000_00b7;

const INSTRUCTION_LEN: usize = 8;

/// Whether a filter lets a call of this architecture through. No filter lets everything through.
pub fn allows(filter: &[u8], number: usize, arguments: &[usize]) -> bool {
    let mut call = Call { number: number as u32, arguments: [0; 6] };
    for (place, argument) in call.arguments.iter_mut().zip(arguments) {
        *place = *argument as u64;
    }
    filter.is_empty() || matches!(verdict(filter, &call), Some(ALLOW | LOG))
}

pub const ALLOW: u32 = 0x7fff_0000;
const LOG: u32 = 0x7ffc_0000;

/// The action without its data; none: the filter ends without one.
fn verdict(filter: &[u8], call: &Call) -> Option<u32> {
    let (mut at, mut accumulator) = (0usize, 0u32);
    // Jumps lead forward alone, so that this ends.
    while let Some(&[a, b, if_true, if_false, k0, k1, k2, k3]) = filter.get(at * INSTRUCTION_LEN..)?.first_chunk() {
        let value = u32::from_le_bytes([k0, k1, k2, k3]);
        let branch = |holds: bool| usize::from(if holds { if_true } else { if_false });
        at += 1;
        match u16::from_le_bytes([a, b]) {
            0x20 => accumulator = call.word(value)?,
            0x54 => accumulator &= value,
            0x05 => at += value as usize,
            0x15 => at += branch(accumulator == value),
            0x25 => at += branch(accumulator > value),
            0x35 => at += branch(accumulator >= value),
            0x45 => at += branch(accumulator & value != 0),
            0x06 => return Some(value & 0xffff_0000),
            _ => return None,
        }
    }
    None
}

impl Call {
    /// Four bytes of the kernel's structure: number, architecture, the place of the call (nobody asks for it),
    /// arguments.
    fn word(&self, at: u32) -> Option<u32> {
        match at {
            0 => Some(self.number),
            4 => Some(ARCHITECTURE),
            16..64 if at.is_multiple_of(4) => {
                let argument = self.arguments[(at as usize - 16) / 8];
                Some((argument >> (if at.is_multiple_of(8) { 0 } else { 32 })) as u32)
            }
            _ => None,
        }
    }
}
