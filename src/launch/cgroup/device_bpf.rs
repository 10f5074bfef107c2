//! The device rules of cgroup v2: an eBPF program that the kernel runs on every use of a device.

use super::DeviceRules;
use crate::launch::devices::{Access, DeviceKind, DeviceRule};

/// The program for `rules`: eBPF instructions of 8 bytes in host order, to be loaded as `BPF_PROG_TYPE_CGROUP_DEVICE`
/// and attached as `BPF_CGROUP_DEVICE`. It returns 1 if one rule covers everything that is requested, else 0 (1 with
/// `default_allow`). One use that needs the permissions of several rules together must fit a single rule, as on v1.
pub(crate) fn device_bpf(rules: &DeviceRules) -> Vec<u8> {
    let mut program = Program::default();
    // The context: access << 16 | type, then major, then minor, 32 bits each.
    program.emit(LOAD_32, TYPE, CONTEXT, 0, 0);
    program.emit(LOAD_32, MAJOR, CONTEXT, 4, 0);
    program.emit(LOAD_32, MINOR, CONTEXT, 8, 0);
    program.emit(MOVE, ACCESS, TYPE, 0, 0);
    program.emit(SHIFT_RIGHT_BY, ACCESS, 0, 0, 16);
    program.emit(AND_WITH, TYPE, 0, 0, 0xffff);
    if !rules.default_allow {
        rules.allow.iter().for_each(|rule| program.rule(rule));
    }
    program.answer(rules.default_allow);
    program.bytes
}

/// Opcodes. Compared numbers are below 2^31, so their sign extension to 64 bits changes nothing.
const LOAD_32: u8 = 0x61;
const MOVE: u8 = 0xbf;
const MOVE_VALUE: u8 = 0xb7;
const SHIFT_RIGHT_BY: u8 = 0x77;
const AND_WITH: u8 = 0x57;
const JUMP_UNLESS_EQUAL: u8 = 0x55;
const EXIT: u8 = 0x95;

/// Registers.
const RESULT: u8 = 0;
const CONTEXT: u8 = 1;
const TYPE: u8 = 2;
const ACCESS: u8 = 3;
const MAJOR: u8 = 4;
const MINOR: u8 = 5;
const SCRATCH: u8 = 0;

#[derive(Default)]
struct Program {
    bytes: Vec<u8>,
}

impl Program {
    fn emit(&mut self, opcode: u8, target: u8, source: u8, offset: i16, value: i32) {
        self.bytes.extend([opcode, source << 4 | target]);
        self.bytes.extend(offset.to_ne_bytes());
        self.bytes.extend(value.to_ne_bytes());
    }

    fn answer(&mut self, allow: bool) {
        self.emit(MOVE_VALUE, RESULT, 0, 0, allow.into());
        self.emit(EXIT, 0, 0, 0, 0);
    }

    /// Allows the uses that the rule covers; otherwise continues after it.
    fn rule(&mut self, rule: &DeviceRule) {
        // After the checks come the two instructions of the result; each check jumps over the rest.
        let mut checks: Vec<(u8, u32)> = vec![(TYPE, kind_number(rule.kind))];
        checks.extend(rule.major.map(|major| (MAJOR, major)));
        checks.extend(rule.minor.map(|minor| (MINOR, minor)));
        let outside = !access_bits(rule.access) & access_bits(Access::ALL);
        let masked = if outside == 0 { 0 } else { 3 };
        for (index, (register, value)) in checks.iter().enumerate() {
            let over = checks.len() - 1 - index + masked + 2;
            self.emit(JUMP_UNLESS_EQUAL, *register, 0, over as i16, *value as i32);
        }
        if masked != 0 {
            self.emit(MOVE, SCRATCH, ACCESS, 0, 0);
            self.emit(AND_WITH, SCRATCH, 0, 0, outside);
            self.emit(JUMP_UNLESS_EQUAL, SCRATCH, 0, 2, 0);
        }
        self.answer(true);
    }
}

/// `BPF_DEVCG_DEV_*`.
fn kind_number(kind: DeviceKind) -> u32 {
    match kind {
        DeviceKind::Block => 1,
        DeviceKind::Char => 2,
        // Nobody rules pipes.
        #[cfg(feature = "bundle")]
        DeviceKind::Pipe => 0,
    }
}

/// `BPF_DEVCG_ACC_*`.
fn access_bits(access: Access) -> i32 {
    let bits = [(Access::MKNOD, 1), (Access::READ, 2), (Access::WRITE, 4)];
    bits.iter().filter(|(one, _)| access.has(*one)).map(|(_, bit)| bit).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::devices::default_rules;

    /// Runs a program on (type and access, major, minor). Panics if the kernel would refuse it.
    fn run(program: &[u8], context: [u32; 3]) -> u64 {
        let mut registers = [None; 10];
        let mut at = 0;
        loop {
            let one: [u8; 8] = program[at * 8..at * 8 + 8].try_into().unwrap();
            let (target, source) = ((one[1] & 15) as usize, (one[1] >> 4) as usize);
            let offset = i16::from_ne_bytes([one[2], one[3]]);
            let value = i32::from_ne_bytes([one[4], one[5], one[6], one[7]]) as i64 as u64;
            at += 1;
            match one[0] {
                LOAD_32 => registers[target] = Some(u64::from(context[offset as usize / 4])),
                MOVE => registers[target] = Some(registers[source].unwrap()),
                MOVE_VALUE => registers[target] = Some(value),
                SHIFT_RIGHT_BY => registers[target] = Some(registers[target].unwrap() >> value),
                AND_WITH => registers[target] = Some(registers[target].unwrap() & value),
                JUMP_UNLESS_EQUAL if registers[target].unwrap() != value => at += usize::try_from(offset).unwrap(),
                JUMP_UNLESS_EQUAL => {}
                EXIT => return registers[RESULT as usize].unwrap(),
                other => panic!("opcode {other:#x}"),
            }
        }
    }

    fn allows(rules: &DeviceRules, kind: DeviceKind, major: u32, minor: u32, access: i32) -> bool {
        run(&device_bpf(rules), [(access as u32) << 16 | kind_number(kind), major, minor]) == 1
    }

    #[test]
    fn agrees_with_the_rules() {
        let mut rules = default_rules();
        rules.allow.push(DeviceRule { kind: DeviceKind::Block, major: Some(8), minor: None, access: Access::READ });
        for kind in [DeviceKind::Char, DeviceKind::Block] {
            for (major, minor) in [(1, 3), (1, 4), (5, 0), (5, 2), (8, 0), (8, 7), (10, 200), (10, 229), (136, 9)] {
                for access in 1..8 {
                    let wanted = rules.allow.iter().any(|rule| {
                        rule.kind == kind
                            && rule.major.is_none_or(|one| one == major)
                            && rule.minor.is_none_or(|one| one == minor)
                            && access & !access_bits(rule.access) == 0
                    });
                    assert_eq!(allows(&rules, kind, major, minor, access), wanted, "{kind:?} {major}:{minor} {access}");
                }
            }
        }
    }

    #[test]
    fn all_or_nothing() {
        let mut rules = DeviceRules { default_allow: true, allow: Vec::new() };
        assert!(allows(&rules, DeviceKind::Block, 8, 0, 7));
        rules.default_allow = false;
        assert!(!allows(&rules, DeviceKind::Char, 1, 3, 2));
    }
}
