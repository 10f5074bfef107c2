//! A profile resolved for this kernel, architecture and set of capabilities.

use super::arch::Arch;
use super::decode::{Said, SaidArgument, SaidFilter, SaidRule};
use crate::error::{Error, Result};
use crate::kernel::probe::release;
use crate::launch::capability;

/// `SECCOMP_RET_*` with its data.
pub(super) type Action = u32;

pub(super) const ALLOW: Action = 0x7fff_0000;
pub(super) const KILL_THREAD: Action = 0;
/// `ENOSYS`, by its name, because programs take it for an older kernel.
pub(super) const NO_SUCH_CALL: Action = ERRNO | libc::ENOSYS as u32;
const KILL_PROCESS: Action = 0x8000_0000;
const TRAP: Action = 0x0003_0000;
const ERRNO: Action = 0x0005_0000;
const TRACE: Action = 0x7ff0_0000;
const LOG: Action = 0x7ffc_0000;

/// The comparisons of an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Compare {
    NotEqual,
    Less,
    LessOrEqual,
    Equal,
    GreaterOrEqual,
    Greater,
    /// The argument under this mask.
    MaskedEqual(u64),
}

/// A condition on one argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Condition {
    /// 0 to 5.
    pub index: u8,
    pub compare: Compare,
    pub value: u64,
}

/// The action on some calls when all conditions hold.
#[derive(Debug)]
pub(super) struct Rule<'a> {
    pub names: &'a [String],
    pub conditions: Vec<Condition>,
    pub action: Action,
}

/// The decided profile.
#[derive(Debug)]
pub(super) struct Policy<'a> {
    pub default: Action,
    /// Whether a call newer than all named ones gives `ENOSYS`.
    pub refuse_newer_softly: bool,
    /// The native one first, each once.
    pub arches: Vec<Arch>,
    pub rules: Vec<Rule<'a>>,
    /// The action for x32 calls if the profile does not list that architecture.
    pub without_x32: Action,
    /// The names of rules with the default action; they count as known calls.
    pub known: Vec<&'a String>,
}

/// None: everything is allowed.
///
/// # Errors
/// A field has an invalid value; the message names it.
pub(super) fn resolve<'a>(said: &'a Said, native: Arch, caps: u64) -> Result<Option<Policy<'a>>> {
    let rules = said.syscalls.as_deref().unwrap_or_default();
    refuse_unbuilt(said)?;
    let default = match said.default_action.as_deref().unwrap_or_default() {
        "" if rules.is_empty() => return Ok(None),
        name => action(name, said.default_errno_ret).map_err(|why| field("defaultAction", why))?,
    };
    let soft = !matches!(default & 0xffff_0000, ALLOW | LOG | TRACE) && default != NO_SUCH_CALL;
    let arches = arches(said, native)?;
    let (without_x32, rules_made) = (KILL_THREAD, Vec::new());
    let mut policy =
        Policy { default, refuse_newer_softly: soft, arches, rules: rules_made, without_x32, known: Vec::new() };
    for (index, rule) in rules.iter().enumerate() {
        add(&mut policy, rule, native, caps).map_err(|error| field(format_args!("syscalls[{index}]"), error))?;
    }
    Ok((default != ALLOW || !policy.rules.is_empty()).then_some(policy))
}

fn field(name: impl std::fmt::Display, why: impl std::fmt::Display) -> Error {
    Error::invalid(format!("{name}: {why}"))
}

/// Parts of Docker's format that this engine does not support yet.
fn refuse_unbuilt(said: &Said) -> Result<()> {
    for flag in said.flags.iter().flatten() {
        // A container's first process has one thread when its filter is installed, so TSYNC changes nothing.
        if flag != "SECCOMP_FILTER_FLAG_TSYNC" {
            return Err(Error::unsupported(format!("flags: {flag} is not supported yet")));
        }
    }
    if said.listener_path.as_deref().is_some_and(|path| !path.is_empty()) {
        return Err(Error::unsupported("listenerPath: a listener is not supported yet"));
    }
    Ok(())
}

fn arches(said: &Said, native: Arch) -> Result<Vec<Arch>> {
    let listed = said.architectures.as_deref().unwrap_or_default();
    let map = said.arch_map.as_deref().unwrap_or_default();
    if !listed.is_empty() && !map.is_empty() {
        return Err(field("architectures", "both 'architectures' and 'archMap' are given, use one of them"));
    }
    let mut arches = vec![native];
    let mut take = |name: &str, place: &str| match Arch::parse(name) {
        Some(Some(arch)) if arch.runs_on(native) && !arches.contains(&arch) => {
            arches.push(arch);
            Ok(())
        }
        Some(_) => Ok(()),
        None => Err(field(place, format_args!("unknown architecture {name:?}"))),
    };
    for name in listed {
        take(name, "architectures")?;
    }
    for entry in map {
        let head = Arch::parse(&entry.architecture);
        let head =
            head.ok_or_else(|| field("archMap", format_args!("unknown architecture {:?}", entry.architecture)))?;
        if head == Some(native) {
            entry.sub_architectures.iter().flatten().try_for_each(|name| take(name, "archMap"))?;
        }
    }
    Ok(arches)
}

fn add<'a>(policy: &mut Policy<'a>, said: &'a SaidRule, native: Arch, caps: u64) -> std::result::Result<(), String> {
    let names: &'a [String] =
        match (said.name.as_ref().filter(|name| !name.is_empty()), said.names.as_deref().unwrap_or_default()) {
            (None, []) => return Err("names: no system call is named".into()),
            (None, names) => names,
            (Some(name), []) => std::slice::from_ref(name),
            _ => return Err("both 'name' and 'names' are given, use one of them".into()),
        };
    let action =
        action(said.action.as_deref().unwrap_or_default(), said.errno_ret).map_err(|why| format!("action: {why}"))?;
    let arguments = said.args.as_deref().unwrap_or_default();
    let conditions = arguments.iter().enumerate();
    let conditions: Vec<Condition> = conditions
        .map(|(index, said)| condition(said).map_err(|why| format!("args[{index}].{why}")))
        .collect::<std::result::Result<_, _>>()?;
    let unfit = |filter: &Option<SaidFilter>, wanted| match filter {
        Some(filter) => disagrees(filter, wanted, native, caps),
        None => Ok(false),
    };
    let excluded = unfit(&said.excludes, false).map_err(|why| format!("excludes.{why}"))?;
    if unfit(&said.includes, true).map_err(|why| format!("includes.{why}"))? || excluded {
        return Ok(());
    }
    if action == policy.default {
        policy.known.extend(names);
        return Ok(());
    }
    let doubled =
        conditions.iter().enumerate().any(|(at, one)| conditions[..at].iter().any(|two| two.index == one.index));
    match doubled {
        true => policy.rules.extend(conditions.into_iter().map(|one| Rule { names, conditions: vec![one], action })),
        false => policy.rules.push(Rule { names, conditions, action }),
    }
    Ok(())
}

/// Whether the filter has something that it must not have (`wanted` false), or lacks something that it must have.
fn disagrees(filter: &SaidFilter, wanted: bool, native: Arch, caps: u64) -> std::result::Result<bool, String> {
    let has = |name: &str| capability::number(name).is_some_and(|number| caps >> number & 1 == 1);
    let arches = filter.arches.as_deref().unwrap_or_default();
    if !arches.is_empty() && arches.iter().any(|arch| *arch == native.word()) != wanted {
        return Ok(true);
    }
    if filter.caps.iter().flatten().any(|name| has(name) != wanted) {
        return Ok(true);
    }
    match filter.min_kernel.as_deref().unwrap_or_default() {
        "" => Ok(false),
        text => {
            let least = version(text).ok_or_else(|| format!("minKernel: invalid kernel version {text:?}"))?;
            Ok((release() >= least) != wanted)
        }
    }
}

/// Exactly two numbers: `4.8`.
fn version(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once('.')?;
    let number = |text: &str| text.parse::<u8>().ok().map(u32::from);
    Some((number(major)?, number(minor)?)).filter(|version| *version != (0, 0))
}

fn action(name: &str, errno: Option<u32>) -> std::result::Result<Action, String> {
    // The kernel only takes error numbers up to 4095.
    let data = || match errno.unwrap_or(libc::EPERM as u32) {
        number @ 0..=4095 => Ok(number),
        number => Err(format!("the error number {number} is out of range")),
    };
    Ok(match name {
        "SCMP_ACT_ALLOW" => ALLOW,
        "SCMP_ACT_ERRNO" => ERRNO | data()?,
        "SCMP_ACT_KILL" | "SCMP_ACT_KILL_THREAD" => KILL_THREAD,
        "SCMP_ACT_KILL_PROCESS" => KILL_PROCESS,
        "SCMP_ACT_TRAP" => TRAP,
        "SCMP_ACT_TRACE" => TRACE | data()?,
        "SCMP_ACT_LOG" => LOG,
        "SCMP_ACT_NOTIFY" => return Err("SCMP_ACT_NOTIFY is not supported yet".into()),
        "" => return Err("missing".into()),
        other => return Err(format!("unknown action {other:?}")),
    })
}

fn condition(said: &SaidArgument) -> std::result::Result<Condition, String> {
    let index = u8::try_from(said.index).ok().filter(|index| *index < 6);
    let index = index.ok_or_else(|| format!("index: {} is not below 6", said.index))?;
    let (compare, value) = match &*said.op {
        "SCMP_CMP_NE" => (Compare::NotEqual, said.value),
        "SCMP_CMP_LT" => (Compare::Less, said.value),
        "SCMP_CMP_LE" => (Compare::LessOrEqual, said.value),
        "SCMP_CMP_EQ" => (Compare::Equal, said.value),
        "SCMP_CMP_GE" => (Compare::GreaterOrEqual, said.value),
        "SCMP_CMP_GT" => (Compare::Greater, said.value),
        // The mask is the first value. Bits outside it are never set in the masked argument, so they are ignored.
        "SCMP_CMP_MASKED_EQ" => (Compare::MaskedEqual(said.value), said.value_two & said.value),
        "" => return Err("op: missing".into()),
        other => return Err(format!("op: unknown comparison {other:?}")),
    };
    Ok(Condition { index, compare, value })
}
