//! Compiles a policy to a filter: for each architecture a search tree over ranges of numbers with equal fates.

use super::arch::{self, Arch, X32_BIT};
use super::bpf::{self, Builder, Place, Test};
use super::profile::{ALLOW, Action, Compare, Condition, KILL_THREAD, NO_SUCH_CALL, Policy, Rule};
use crate::error::{Error, Result};
use crate::order::Order as _;
use std::collections::HashMap;

/// The kernel's limit.
const MOST_INSTRUCTIONS: usize = 4096;

/// The rules of a call in order (only the last one may have no conditions), else the default.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct Fate {
    conditional: Vec<(Vec<Condition>, Action)>,
    finally: Option<Action>,
}

/// # Errors
/// The filter would be longer than the kernel allows.
pub(super) fn compile(policy: &Policy<'_>) -> Result<Vec<u8>> {
    let mut compiler = Compiler { program: Builder::default(), leaves: HashMap::new() };
    let calls = named(policy);
    // Written from the end: the first checks of the finished program come last here.
    let mut entry = compiler.program.answer(KILL_THREAD);
    for arch in policy.arches.iter().rev().filter(|arch| **arch != Arch::X32) {
        let mut numbers = compiler.tree(&ranges(policy, &calls, *arch), arch.wide());
        if *arch == Arch::X86_64 {
            let marked = match policy.arches.contains(&Arch::X32) {
                true => compiler.tree(&ranges(policy, &calls, Arch::X32), Arch::X32.wide()),
                false => compiler.no_x32(policy),
            };
            numbers = compiler.program.branch(Test::AtLeast, X32_BIT, marked, numbers);
        }
        let this = compiler.program.load(bpf::NUMBER, numbers);
        entry = compiler.program.branch(Test::Equal, arch.audit(), this, entry);
    }
    compiler.program.load(bpf::ARCH, entry);
    match compiler.program.len() {
        0..=MOST_INSTRUCTIONS => Ok(compiler.program.finish()),
        length => Err(Error::invalid(format!(
            "the seccomp profile is too large: it compiles to {length} instructions, of which the kernel takes {MOST_INSTRUCTIONS}"
        ))),
    }
}

/// One call named by one rule.
struct Named<'a> {
    name: &'a str,
    row: &'static [i32; 5],
    rule: &'a Rule<'a>,
}

/// The rules of a policy for calls that exist on any architecture, in its order.
fn named<'a>(policy: &'a Policy<'a>) -> Vec<Named<'a>> {
    let of_rule = |rule: &'a Rule<'a>| {
        rule.names.iter().filter_map(move |name| Some(Named { name, row: arch::row(name)?, rule }))
    };
    policy.rules.iter().flat_map(of_rule).collect()
}

/// The fates of all numbers of an architecture as (first number, fate), neighbours different, from its least number on.
fn ranges(policy: &Policy<'_>, calls: &[Named<'_>], arch: Arch) -> Vec<(u32, Fate)> {
    let (fates, newest) = fates(policy, calls, arch);
    let mut ranges = Ranges { list: Vec::with_capacity(fates.len()) };
    let normal = || Fate { finally: Some(policy.default), ..Fate::default() };
    let newer = || Fate { finally: Some(NO_SUCH_CALL), ..Fate::default() };
    let mut next = if arch == Arch::X32 { X32_BIT } else { 0 };
    let gap = |ranges: &mut Ranges, first: u32, end: Option<u32>| {
        // Without known calls there is no way to recognise newer ones.
        let soft = newest.filter(|_| policy.refuse_newer_softly).map_or(u32::MAX, |newest| newest + 1);
        if first < soft && end.is_none_or(|end| first < end) {
            ranges.put(first, normal());
        }
        if soft < u32::MAX && end.is_none_or(|end| soft.max(first) < end) {
            ranges.put(soft.max(first), newer());
        }
    };
    for (number, mut fate) in fates {
        gap(&mut ranges, next, Some(number));
        fate.finally.get_or_insert(policy.default);
        ranges.put(number, fate);
        next = number + 1;
    }
    gap(&mut ranges, next, None);
    ranges.list
}

/// The fate of each number that has rules, in order, and the highest number that the profile knows, not counting arm's
/// private numbers far above all others.
fn fates(policy: &Policy<'_>, calls: &[Named<'_>], arch: Arch) -> (Vec<(u32, Fate)>, Option<u32>) {
    const ARM_OWN: u32 = 0xf_0000;
    let mut found: Vec<(u32, Option<u64>, &Rule<'_>)> = Vec::with_capacity(calls.len());
    for call in calls {
        let through = arch.multiplexed(call.name);
        found.extend(through.map(|(number, argument)| (number, Some(argument), call.rule)));
        found.extend(arch.number(call.row).map(|number| (number, None, call.rule)));
    }
    // Stable: the rules of one call stay in the profile's order.
    found.order_by_key(|(number, ..)| *number);
    let known = policy.known.iter().filter_map(|name| arch.number(arch::row(name)?));
    let numbers = found.iter().map(|(number, ..)| *number).chain(known);
    let newest = numbers.filter(|number| arch != Arch::Arm || *number < ARM_OWN).max();
    let mut fates: Vec<(u32, Fate)> = Vec::with_capacity(found.len());
    for (number, through, rule) in found {
        if fates.last().is_none_or(|(last, _)| *last != number) {
            fates.push((number, Fate::default()));
        }
        let Some((_, fate)) = fates.last_mut() else { continue };
        match through {
            Some(argument) => fate.add_through(argument, rule, policy.default),
            None => fate.add(&rule.conditions, rule.action),
        }
    }
    (fates, newest)
}

/// Ranges of numbers; equal neighbours are merged.
struct Ranges {
    list: Vec<(u32, Fate)>,
}

impl Ranges {
    fn put(&mut self, first: u32, fate: Fate) {
        if self.list.last().is_none_or(|(_, last)| *last != fate) {
            self.list.push((first, fate));
        }
    }
}

impl Fate {
    fn add(&mut self, conditions: &[Condition], action: Action) {
        match self.finally {
            Some(_) => {}
            None if conditions.is_empty() => {
                self.conditional.clear();
                self.finally = Some(action);
            }
            None => self.conditional.push((conditions.to_vec(), action)),
        }
    }

    /// A rule on a call that i386 also reaches by this one, with its arguments in memory, where a filter cannot look. A
    /// rule on arguments applies to all of these calls if it refuses what the default allows, else to none.
    fn add_through(&mut self, number: u64, rule: &Rule<'_>, default: Action) {
        if rule.conditions.is_empty() || default == ALLOW {
            let condition = Condition { index: 0, compare: Compare::Equal, value: number };
            self.add(&[condition], rule.action);
        }
    }
}

struct Compiler {
    program: Builder,
    /// The place of each fate with conditions, separately for both widths of arguments.
    leaves: HashMap<(Fate, bool), Place>,
}

impl Compiler {
    /// A search tree over the numbers in the accumulator.
    fn tree(&mut self, ranges: &[(u32, Fate)], wide: bool) -> Place {
        match ranges {
            [] => self.program.answer(KILL_THREAD),
            [(_, fate)] => self.leaf(fate, wide),
            _ => {
                let middle = ranges.len() / 2;
                let above = self.tree(&ranges[middle..], wide);
                let below = self.tree(&ranges[..middle], wide);
                self.program.branch(Test::AtLeast, ranges[middle].0, above, below)
            }
        }
    }

    /// x32 calls, if the profile does not list that architecture. -1 is not an x32 call: a tracer writes it to skip a
    /// call.
    fn no_x32(&mut self, policy: &Policy<'_>) -> Place {
        let (skipped, foreign) = (self.program.answer(policy.default), self.program.answer(policy.without_x32));
        self.program.branch(Test::Equal, u32::MAX, skipped, foreign)
    }

    fn leaf(&mut self, fate: &Fate, wide: bool) -> Place {
        let finally = fate.finally.unwrap_or(KILL_THREAD);
        if fate.conditional.is_empty() {
            return self.program.answer(finally);
        }
        let key = (fate.clone(), wide);
        if let Some(place) = self.leaves.get(&key) {
            return *place;
        }
        let mut place = self.program.answer(finally);
        let mut rules = &fate.conditional[..];
        while let Some((last, before)) = rules.split_last() {
            let same =
                rules.iter().rev().take_while(|rule| simple(&rule.0).is_some_and(|one| Some(one) == simple(&last.0)));
            let count = same.count();
            if count > 1 {
                let (rest, group) = rules.split_at(rules.len() - count);
                place = self.chain(group, wide, place);
                rules = rest;
            } else {
                let yes = self.program.answer(last.1);
                place = last.0.iter().rev().fold(yes, |yes, one| self.condition(one, wide, yes, place));
                rules = before;
            }
        }
        self.leaves.insert(key, place);
        place
    }

    /// Several rules with one condition each, all on one argument with values of 32 bits: each half is loaded once.
    fn chain(&mut self, rules: &[(Vec<Condition>, Action)], wide: bool, otherwise: Place) -> Place {
        let conditions = || rules.iter().map(|(conditions, action)| (conditions[0], *action));
        let index = rules[0].0[0].index;
        let mut next = otherwise;
        for (one, action) in conditions().rev() {
            let yes = self.program.answer(action);
            next = self.compare(one.compare, one.value as u32, yes, next);
        }
        next = self.program.load(bpf::low(index), next);
        if !wide {
            return next;
        }
        let above = |compare| matches!(compare, Compare::Greater | Compare::GreaterOrEqual | Compare::NotEqual);
        let big = match conditions().find(|(one, _)| above(one.compare)) {
            Some((_, action)) => self.program.answer(action),
            None => otherwise,
        };
        let small = self.program.branch(Test::Equal, 0, next, big);
        self.program.load(bpf::high(index), small)
    }

    /// One condition, with its argument loaded again.
    fn condition(&mut self, one: &Condition, wide: bool, yes: Place, no: Place) -> Place {
        let (high, low) = ((one.value >> 32) as u32, one.value as u32);
        if let Compare::MaskedEqual(mask) = one.compare {
            let mut next = self.masked(bpf::low(one.index), mask as u32, low, yes, no);
            if wide && mask >> 32 != 0 {
                next = self.masked(bpf::high(one.index), (mask >> 32) as u32, high, next, no);
            }
            return next;
        }
        let lower = self.compare(one.compare, low, yes, no);
        let lower = self.program.load(bpf::low(one.index), lower);
        if !wide {
            return lower;
        }
        let (above, below) = match one.compare {
            Compare::Greater | Compare::GreaterOrEqual => (yes, no),
            Compare::Less | Compare::LessOrEqual => (no, yes),
            Compare::NotEqual => (yes, yes),
            Compare::Equal | Compare::MaskedEqual(_) => (no, no),
        };
        let differs = match above == below {
            true => above,
            false => self.program.branch(Test::Above, high, above, below),
        };
        let next = self.program.branch(Test::Equal, high, lower, differs);
        self.program.load(bpf::high(one.index), next)
    }

    /// Compares the accumulator with a word.
    fn compare(&mut self, compare: Compare, value: u32, yes: Place, no: Place) -> Place {
        let (test, yes, no) = match compare {
            Compare::Equal => (Test::Equal, yes, no),
            Compare::NotEqual => (Test::Equal, no, yes),
            Compare::Greater => (Test::Above, yes, no),
            Compare::LessOrEqual => (Test::Above, no, yes),
            Compare::GreaterOrEqual => (Test::AtLeast, yes, no),
            Compare::Less => (Test::AtLeast, no, yes),
            Compare::MaskedEqual(mask) => {
                let next = self.program.branch(Test::Equal, value, yes, no);
                return self.program.and(mask as u32, next);
            }
        };
        self.program.branch(test, value, yes, no)
    }

    /// A masked word of an argument; against zero one instruction tests all bits.
    fn masked(&mut self, offset: u32, mask: u32, value: u32, yes: Place, no: Place) -> Place {
        let next = match value {
            0 => self.program.branch(Test::AnyBit, mask, no, yes),
            _ => self.compare(Compare::MaskedEqual(mask.into()), value, yes, no),
        };
        self.program.load(offset, next)
    }
}

/// The argument of a single condition that fits a chain.
fn simple(conditions: &[Condition]) -> Option<u8> {
    match conditions {
        [one] if one.value >> 32 == 0 && !matches!(one.compare, Compare::MaskedEqual(_)) => Some(one.index),
        _ => None,
    }
}
