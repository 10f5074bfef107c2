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

/// The action without its data; none if the filter ends without one.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// An instruction: its code, the two jumps, its value.
    fn code(instructions: &[(u16, u8, u8, u32)]) -> Vec<u8> {
        let bytes = |&(code, if_true, if_false, value): &(u16, u8, u8, u32)| {
            let [a, b] = code.to_le_bytes();
            let [c, d, e, f] = value.to_le_bytes();
            [a, b, if_true, if_false, c, d, e, f]
        };
        instructions.iter().flat_map(bytes).collect()
    }

    const REFUSE: u32 = 0x0005_0001;

    #[test]
    fn no_filter_allows_everything_and_a_filter_without_an_answer_nothing() {
        assert!(allows(b"", 1, &[]));
        assert!(!allows(&code(&[(0x20, 0, 0, 0)]), 1, &[]));
        // An instruction that is not among those that the library makes, and half an instruction.
        assert!(!allows(&code(&[(0x30, 0, 0, 0), (0x06, 0, 0, ALLOW)]), 1, &[]));
        assert!(!allows(&code(&[(0x06, 0, 0, ALLOW)])[..7], 1, &[]));
        // A jump over the end.
        assert!(!allows(&code(&[(0x05, 0, 0, u32::MAX), (0x06, 0, 0, ALLOW)]), 1, &[]));
    }

    #[test]
    fn a_filter_is_asked_by_number_architecture_and_arguments() {
        let by = |at: u32, value: u32| {
            code(&[(0x20, 0, 0, at), (0x15, 0, 1, value), (0x06, 0, 0, ALLOW), (0x06, 0, 0, REFUSE)])
        };
        assert!(allows(&by(0, 157), 157, &[]) && !allows(&by(0, 157), 158, &[]));
        assert!(allows(&by(4, ARCHITECTURE), 1, &[]) && !allows(&by(4, 0), 1, &[]));
        // The second argument, its lower and its upper half.
        assert!(allows(&by(24, 7), 1, &[9, 7]) && !allows(&by(24, 7), 1, &[7, 9]));
        assert!(allows(&by(28, 1), 1, &[0, 1 << 32]) && !allows(&by(28, 1), 1, &[0, 1]));
        // The place of the call, and a place between two words.
        assert!(!allows(&by(8, 0), 1, &[]) && !allows(&by(17, 0), 1, &[]));
    }

    #[test]
    fn comparisons_jump_as_the_kernel_does() {
        let with = |compare: u16, value: u32| {
            code(&[(0x20, 0, 0, 16), (compare, 1, 0, value), (0x06, 0, 0, REFUSE), (0x06, 0, 0, ALLOW)])
        };
        let holds = |compare, value, argument| allows(&with(compare, value), 1, &[argument]);
        assert!(holds(0x25, 5, 6) && !holds(0x25, 5, 5));
        assert!(holds(0x35, 5, 5) && !holds(0x35, 5, 4));
        assert!(holds(0x45, 6, 2) && !holds(0x45, 6, 9));
        let masked = code(&[
            (0x20, 0, 0, 16),
            (0x54, 0, 0, 0xf0),
            (0x15, 0, 1, 0x10),
            (0x06, 0, 0, 0x7ffc_0000),
            (0x06, 0, 0, REFUSE),
        ]);
        assert!(allows(&masked, 1, &[0x1f]), "a call that is logged is allowed");
        assert!(!allows(&masked, 1, &[0x2f]));
    }
}
