//! Classic BPF, written from its end: jumps only go forward, so the target of a jump exists already.

use std::collections::HashMap;

/// Offsets into `struct seccomp_data`.
pub(super) const NUMBER: u32 = 0;
pub(super) const ARCH: u32 = 4;

/// The low half of an argument.
pub(super) fn low(index: u8) -> u32 {
    16 + 8 * u32::from(index) + if cfg!(target_endian = "big") { 4 } else { 0 }
}

/// The high half of an argument.
pub(super) fn high(index: u8) -> u32 {
    16 + 8 * u32::from(index) + if cfg!(target_endian = "big") { 0 } else { 4 }
}

/// The comparisons of the accumulator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Test {
    Equal,
    Above,
    AtLeast,
    AnyBit,
}

/// An instruction as the target of jumps, counted from the end of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place(usize);

const LOAD: u16 = 0x20;
const AND: u16 = 0x54;
const JUMP: u16 = 0x05;
const RETURN: u16 = 0x06;
/// The farthest jump of a comparison.
const REACH: usize = 255;

#[derive(Clone, Copy)]
struct Instruction {
    code: u16,
    yes: u8,
    no: u8,
    value: u32,
}

/// A program that grows at its front.
#[derive(Default)]
pub(super) struct Builder {
    /// The last instruction first.
    reversed: Vec<Instruction>,
    /// The latest return of each value.
    returns: HashMap<u32, Place>,
}

impl Builder {
    fn push(&mut self, code: u16, yes: u8, no: u8, value: u32) -> Place {
        self.reversed.push(Instruction { code, yes, no, value });
        Place(self.reversed.len() - 1)
    }

    /// Ends with an action; equal actions share one instruction.
    pub(super) fn answer(&mut self, action: u32) -> Place {
        match self.returns.get(&action) {
            Some(place) => *place,
            None => self.new_answer(action),
        }
    }

    fn new_answer(&mut self, action: u32) -> Place {
        let place = self.push(RETURN, 0, 0, action);
        self.returns.insert(action, place);
        place
    }

    /// Loads a word, then goes on at `then`.
    pub(super) fn load(&mut self, offset: u32, then: Place) -> Place {
        self.go_to(then);
        self.push(LOAD, 0, 0, offset)
    }

    /// Masks the accumulator, then goes on at `then`.
    pub(super) fn and(&mut self, mask: u32, then: Place) -> Place {
        self.go_to(then);
        self.push(AND, 0, 0, mask)
    }

    /// Compares the accumulator and goes on at `yes` or `no`.
    pub(super) fn branch(&mut self, test: Test, value: u32, yes: Place, no: Place) -> Place {
        if yes == no {
            return yes;
        }
        // The instruction that brings the second target into reach moves the first one by one.
        let mut targets = [yes, no];
        for target in &mut targets {
            if self.reversed.len() - 1 - target.0 > REACH - 1 {
                *target = self.nearer(*target);
            }
        }
        let [yes, no] = targets.map(|target| (self.reversed.len() - 1 - target.0) as u8);
        let code = match test {
            Test::Equal => 0x15,
            Test::Above => 0x25,
            Test::AtLeast => 0x35,
            Test::AnyBit => 0x45,
        };
        self.push(code, yes, no, value)
    }

    /// Makes the next instruction in the finished program the one at `place`.
    fn go_to(&mut self, place: Place) {
        if place.0 + 1 != self.reversed.len() {
            self.nearer(place);
        }
    }

    /// Like `place`, but near the newest instruction: a return is repeated, for others a long jump is made.
    fn nearer(&mut self, place: Place) -> Place {
        let Instruction { code, value, .. } = self.reversed[place.0];
        match code {
            RETURN => self.new_answer(value),
            _ => self.push(JUMP, 0, 0, (self.reversed.len() - 1 - place.0) as u32),
        }
    }

    /// The number of instructions.
    pub(super) fn len(&self) -> usize {
        self.reversed.len()
    }

    /// The program as `struct sock_filter`, the newest instruction first.
    pub(super) fn finish(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.reversed.len() * 8);
        for one in self.reversed.iter().rev() {
            bytes.extend(one.code.to_ne_bytes());
            bytes.extend([one.yes, one.no]);
            bytes.extend(one.value.to_ne_bytes());
        }
        bytes
    }
}
