//! The compiled filter against the profile's text: an interpreter of BPF on one side, a direct reading of the JSON on
//! the other.

use super::arch::{Arch, X32_BIT};
use super::table::SYSCALLS;
use super::*;
use crate::launch::capability;
use serde_json::{Value, json};
use std::collections::HashMap;

const EPERM: u32 = 0x0005_0001;
const ENOSYS: u32 = 0x0005_0000 | libc::ENOSYS as u32;
const ALLOW: u32 = 0x7fff_0000;
const KILL: u32 = 0;
const EVERY: [Arch; 5] = [Arch::X86_64, Arch::X86, Arch::X32, Arch::Aarch64, Arch::Arm];

/// A call in the form of a filter's input.
#[derive(Debug, Clone, Copy)]
struct Call {
    audit: u32,
    number: u32,
    arguments: [u64; 6],
}

impl Call {
    fn word(&self, offset: u32) -> u32 {
        let mut data = [0u8; 64];
        data[..4].copy_from_slice(&self.number.to_ne_bytes());
        data[4..8].copy_from_slice(&self.audit.to_ne_bytes());
        for (index, argument) in self.arguments.iter().enumerate() {
            data[16 + index * 8..][..8].copy_from_slice(&argument.to_ne_bytes());
        }
        u32::from_ne_bytes(data[offset as usize..][..4].try_into().unwrap())
    }
}

/// Runs a filter; panics if the kernel would refuse to load it.
fn run(filter: &[u8], call: &Call) -> u32 {
    let mut accumulator = 0;
    let mut at = 0;
    loop {
        let one = &filter[at * 8..at * 8 + 8];
        let value = u32::from_ne_bytes(one[4..].try_into().unwrap());
        let jump = |yes: bool| usize::from(if yes { one[2] } else { one[3] });
        at += 1;
        match u16::from_ne_bytes([one[0], one[1]]) {
            0x20 => accumulator = call.word(value),
            0x54 => accumulator &= value,
            0x05 => at += value as usize,
            0x15 => at += jump(accumulator == value),
            0x25 => at += jump(accumulator > value),
            0x35 => at += jump(accumulator >= value),
            0x45 => at += jump(accumulator & value != 0),
            0x06 => return value,
            other => panic!("instruction {other:#x}"),
        }
    }
}

/// For each architecture the numbers that each rule names, in the order of the rules.
type Numbers = HashMap<Arch, Vec<Vec<u32>>>;

fn numbers(profile: &Value) -> Numbers {
    let rows: HashMap<&str, &[i32; 5]> = SYSCALLS.iter().map(|(name, row)| (*name, row)).collect();
    let of_rule = |arch: Arch, rule: &Value| -> Vec<u32> {
        let names = rule["names"].as_array().unwrap().iter().map(|name| name.as_str().unwrap());
        names.filter_map(|name| rows.get(name)).filter_map(|row| arch.number(row)).collect()
    };
    let rules = profile["syscalls"].as_array().unwrap();
    EVERY.into_iter().map(|arch| (arch, rules.iter().map(|rule| of_rule(arch, rule)).collect())).collect()
}

/// The verdict of a profile on a call, read from its JSON without the compiler's code except the table of numbers.
/// Supports only the features of the random profiles.
fn meaning(profile: &Value, numbers: &Numbers, call: &Call) -> u32 {
    let listed: Vec<&str> =
        profile["architectures"].as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect();
    let name_of = |arch: &Arch| match arch {
        Arch::X86_64 => "SCMP_ARCH_X86_64",
        Arch::X86 => "SCMP_ARCH_X86",
        Arch::X32 => "SCMP_ARCH_X32",
        Arch::Aarch64 => "SCMP_ARCH_AARCH64",
        Arch::Arm => "SCMP_ARCH_ARM",
    };
    let native = Arch::NATIVE.unwrap();
    let default = action_of(&profile["defaultAction"], profile.get("defaultErrnoRet"));
    let x32 = native == Arch::X86_64 && call.audit == native.audit() && call.number >= X32_BIT;
    let fits = |arch: &&Arch| arch.audit() == call.audit && (**arch == Arch::X32) == x32;
    let Some(arch) = EVERY.iter().filter(|one| one.runs_on(native)).find(fits) else { return KILL };
    if *arch != native && !listed.contains(&name_of(arch)) {
        return if x32 && call.number == u32::MAX { default } else { KILL };
    }
    let rules = profile["syscalls"].as_array().unwrap();
    let numbers = &numbers[arch];
    let newest = numbers.iter().flatten().filter(|number| *arch != Arch::Arm || **number < 0xf0000).max();
    let mut verdicts = Vec::new();
    for (rule, numbers) in rules.iter().zip(numbers) {
        let action = action_of(&rule["action"], rule.get("errnoRet"));
        if action == default {
            continue;
        }
        let arguments = rule["args"].as_array().cloned().unwrap_or_default();
        let holds = |one: &Value| {
            let half = |value: u64| if arch.wide() { value } else { value & 0xffff_ffff };
            let actual = half(call.arguments[one["index"].as_u64().unwrap() as usize]);
            let (value, second) = (half(one["value"].as_u64().unwrap()), half(one["valueTwo"].as_u64().unwrap_or(0)));
            match one["op"].as_str().unwrap() {
                "SCMP_CMP_NE" => actual != value,
                "SCMP_CMP_LT" => actual < value,
                "SCMP_CMP_LE" => actual <= value,
                "SCMP_CMP_EQ" => actual == value,
                "SCMP_CMP_GE" => actual >= value,
                "SCMP_CMP_GT" => actual > value,
                _ => actual & value == second & value,
            }
        };
        let index = |one: &Value| one["index"].as_u64().unwrap();
        let doubled = arguments.iter().any(|one| arguments.iter().filter(|two| index(one) == index(two)).count() > 1);
        let fit = match doubled {
            true => arguments.iter().any(holds),
            false => arguments.iter().all(holds),
        };
        if numbers.contains(&call.number) {
            verdicts.push((arguments.is_empty(), fit, action));
        }
        // Calls of i386 through socketcall and ipc.
        for name in rule["names"].as_array().unwrap() {
            let through = arch.multiplexed(name.as_str().unwrap());
            if through
                .is_some_and(|(number, argument)| number == call.number && argument == call.arguments[0] & 0xffff_ffff)
                && (arguments.is_empty() || default == ALLOW)
            {
                verdicts.push((false, true, action));
            }
        }
    }
    if let Some((.., action)) = verdicts.iter().find(|(plain, ..)| *plain) {
        return *action;
    }
    match verdicts.iter().find(|(_, fit, _)| *fit) {
        Some((.., action)) => *action,
        None if default & 0xffff_0000 == 0x0005_0000 && newest.is_some_and(|newest| call.number > *newest) => ENOSYS,
        None => default,
    }
}

fn action_of(name: &Value, errno: Option<&Value>) -> u32 {
    match name.as_str().unwrap() {
        "SCMP_ACT_ALLOW" => ALLOW,
        "SCMP_ACT_ERRNO" => 0x0005_0000 | errno.and_then(Value::as_u64).unwrap_or(1) as u32,
        "SCMP_ACT_KILL_PROCESS" => 0x8000_0000,
        _ => 0x7ffc_0000,
    }
}

/// xorshift; every run of the tests must be equal.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound
    }

    fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }

    fn value(&mut self) -> u64 {
        let high = *self.pick(&[0, 0, 0, 1, 5, 0xffff_ffff]);
        let low = *self.pick(&[0, 1, 2, 5, 6, 7, 38, 40, 0x8000_0000, 0xffff_ffff]);
        (high << 32) | low
    }
}

fn random_profile(random: &mut Random) -> Value {
    let actions = ["SCMP_ACT_ALLOW", "SCMP_ACT_ERRNO", "SCMP_ACT_KILL_PROCESS", "SCMP_ACT_LOG"];
    let sizes = [3, 30, 450];
    let wide = *random.pick(&sizes);
    let mut rules = Vec::new();
    for _ in 0..random.below(60) {
        let first = random.below(SYSCALLS.len());
        let names: Vec<&str> =
            (0..1 + random.below(20)).map(|step| SYSCALLS[(first + step) % wide.min(SYSCALLS.len())].0).collect();
        let arguments: Vec<Value> = (0..random.below(4))
            .map(|_| {
                let ops = ["NE", "LT", "LE", "EQ", "EQ", "GE", "GT", "MASKED_EQ"];
                json!({"index": random.below(3), "value": random.value(), "valueTwo": random.value(),
                       "op": format!("SCMP_CMP_{}", random.pick(&ops))})
            })
            .collect();
        rules.push(json!({"names": names, "action": random.pick(&actions), "errnoRet": 1 + random.below(3), "args": arguments}));
    }
    let arches: Vec<&str> =
        ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32", "SCMP_ARCH_AARCH64", "SCMP_ARCH_ARM"]
            .into_iter()
            .filter(|_| random.below(3) > 0)
            .collect();
    json!({"defaultAction": random.pick(&actions[..2]), "defaultErrnoRet": 1, "architectures": arches, "syscalls": rules})
}

fn random_call(random: &mut Random) -> Call {
    let arch = random.pick(&EVERY);
    let number = match random.below(8) {
        0 => u32::MAX,
        1 => 600 | if *arch == Arch::X32 { X32_BIT } else { 0 },
        2 => 102,
        3 => 0xf0000 + random.below(8) as u32,
        _ => arch.number(&random.pick(&SYSCALLS).1).unwrap_or(3),
    };
    let arguments = [0; 6].map(|_: u64| random.value());
    Call { audit: arch.audit(), number, arguments }
}

#[test]
fn random_profiles() {
    let mut random = Random(0x1234_5678_9abc_def1);
    for _ in 0..200 {
        let profile = random_profile(&mut random);
        let text = profile.to_string();
        let filter = match profile_filter(&text, 0) {
            Ok(Some(filter)) => filter,
            Ok(None) => {
                assert_eq!(profile["defaultAction"], "SCMP_ACT_ALLOW");
                continue;
            }
            Err(error) => panic!("{error}"),
        };
        assert!(filter.len() <= 4096 * 8);
        let numbers = numbers(&profile);
        for _ in 0..100 {
            let call = random_call(&mut random);
            let (got, wanted) = (run(&filter, &call), meaning(&profile, &numbers, &call));
            assert_eq!(got, wanted, "{got:#x} for {wanted:#x}: {call:x?} {text}");
        }
    }
}

/// The default profile against its own text, every number of every architecture.
#[test]
fn default_profile_means_what_it_says() {
    let native = Arch::NATIVE.unwrap();
    let caps = capability::DEFAULT;
    let filter = default_filter(caps, Machine::Usual).unwrap();
    let mut plain: Value = serde_json::from_str(DEFAULT).unwrap();
    let arches: Vec<Value> = plain["archMap"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|one| {
            one["architecture"] == if native == Arch::X86_64 { "SCMP_ARCH_X86_64" } else { "SCMP_ARCH_AARCH64" }
        })
        .flat_map(|one| one["subArchitectures"].as_array().unwrap().clone())
        .collect();
    plain["architectures"] = arches.into();
    let held = |name: &Value| capability::number(name.as_str().unwrap()).is_some_and(|number| caps >> number & 1 == 1);
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    plain["syscalls"].as_array_mut().unwrap().retain(|rule| {
        let arches = list(&rule["includes"]["arches"]);
        (arches.is_empty() || arches.iter().any(|arch| arch == native.word()))
            && list(&rule["includes"]["caps"]).iter().all(held)
            && !list(&rule["excludes"]["caps"]).iter().any(held)
    });
    let numbers = numbers(&plain);
    for arch in EVERY.into_iter().filter(|arch| arch.runs_on(native)) {
        let mark = if arch == Arch::X32 { X32_BIT } else { 0 };
        for number in (0..700).chain(0xf0000..0xf0010).chain([u32::MAX]) {
            for first in [0, 8, 38, 39, 40, 41, 0x20008, 0xffff_ffff, 0x7e02_0000, 0x1_0000_0000, 0x11] {
                let call = Call { audit: arch.audit(), number: number | mark, arguments: [first, 0, 0, 0, 0, 0] };
                // The kernel in the profile's text has no x32, so such calls are not fatal.
                let wanted = match meaning(&plain, &numbers, &call) {
                    KILL if arch == Arch::X32 => ENOSYS,
                    other => other,
                };
                assert_eq!(run(&filter, &call), wanted, "{arch:?} {call:x?}");
            }
        }
    }
}

fn verdict(filter: &[u8], name: &str, arguments: &[u64]) -> u32 {
    let native = Arch::NATIVE.unwrap();
    let mut call = Call { audit: native.audit(), number: 0, arguments: [0; 6] };
    call.number = native.number(arch::row(name).unwrap()).unwrap();
    call.arguments[..arguments.len()].copy_from_slice(arguments);
    run(filter, &call)
}

#[test]
fn default_profile_in_words() {
    let filter = default_filter(capability::DEFAULT, Machine::Usual).unwrap();
    let check = |name: &str, arguments: &[u64]| verdict(&filter, name, arguments);
    for name in ["read", "execve", "chroot", "ptrace", "seccomp", "openat2", "pidfd_open"] {
        assert_eq!(check(name, &[]), ALLOW, "{name}");
    }
    for name in ["mount", "bpf", "keyctl", "unshare", "setns", "reboot", "kexec_load", "io_uring_setup", "userfaultfd"]
    {
        assert_eq!(check(name, &[]), EPERM, "{name}");
    }
    assert_eq!(check("clone", &[0x11]), ALLOW);
    assert_eq!(check("clone", &[0x1000_0000]), EPERM, "a user namespace");
    assert_eq!(check("clone3", &[]), ENOSYS);
    assert_eq!(check("personality", &[8]), ALLOW);
    assert_eq!(check("personality", &[1]), EPERM);
    assert_eq!(check("socket", &[2]), ALLOW);
    let newest = Call { audit: Arch::NATIVE.unwrap().audit(), number: 500, arguments: [0; 6] };
    assert_eq!(run(&filter, &newest), ENOSYS);
    let admin = default_filter(capability::all(), Machine::Usual).unwrap();
    for name in ["mount", "bpf", "clone3", "reboot", "acct", "syslog"] {
        assert_eq!(verdict(&admin, name, &[]), ALLOW, "{name}");
    }
    assert_eq!(verdict(&admin, "clone", &[0x1000_0000]), ALLOW);
}

/// Arguments of which the kernel reads 32 bits, by its prototypes, among those that the default profile compares. (`clone`
/// takes a long and uses its lower half.)
const NARROW: [(&str, u64); 4] = [("clone", 0), ("personality", 0), ("socket", 0), ("socketpair", 0)];

/// The kernel ignores the upper half of a 32-bit argument: it changes no verdict.
#[test]
fn the_upper_half_of_a_narrow_argument_counts_nowhere() {
    let profile: Value = serde_json::from_str(DEFAULT).unwrap();
    let filters = [Machine::Usual, Machine::I386].map(|machine| default_filter(capability::DEFAULT, machine).unwrap());
    let mut compared = Vec::new();
    for rule in profile["syscalls"].as_array().unwrap() {
        for condition in rule["args"].as_array().into_iter().flatten() {
            let index = condition["index"].as_u64().unwrap();
            for name in rule["names"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()) {
                assert!(NARROW.contains(&(name, index)), "argument {index} of {name}: what does the kernel read?");
                compared.push((name, index as usize, condition["value"].as_u64().unwrap()));
                compared.push((name, index as usize, condition["valueTwo"].as_u64().unwrap_or(0)));
            }
        }
    }
    let arches = [Arch::NATIVE.unwrap(), Arch::X86, Arch::Arm];
    for (name, index, value) in compared {
        let near = [value, value.wrapping_add(1), value.wrapping_sub(1), value | 1 << 31];
        for low in (0..64).chain(near).map(|low| low & 0xffff_ffff) {
            for (filter, arch) in filters.iter().flat_map(|filter| arches.map(|arch| (filter, arch))) {
                let Some(number) = arch.number(arch::row(name).unwrap()) else { continue };
                let verdict = |half: u64| {
                    let mut call = Call { audit: arch.audit(), number, arguments: [0; 6] };
                    call.arguments[index] = half << 32 | low;
                    run(filter, &call)
                };
                for half in [1, 0x10, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff] {
                    assert_eq!(verdict(half), verdict(0), "{arch:?} {name}({half:#x}, {low:#x})");
                }
            }
        }
    }
}

/// AF_ALG, AF_VSOCK, and numbers without a name are refused; every other family is not.
#[test]
fn families_of_sockets() {
    let filter = default_filter(capability::DEFAULT, Machine::Usual).unwrap();
    for family in 0..100 {
        let wanted = if matches!(family, 38 | 40 | 64..) { EPERM } else { ALLOW };
        for name in ["socket", "socketpair"] {
            assert_eq!(verdict(&filter, name, &[family]), wanted, "{name}({family})");
            assert_eq!(verdict(&filter, name, &[family | 1 << 32]), wanted, "{name}({family}) and bit 32");
        }
    }
    assert_eq!(verdict(&filter, "socket", &[u64::from(u32::MAX)]), ALLOW, "the kernel knows no negative one");
}

/// The filter cannot see the arguments of `socketcall`, which lie in memory. Images for i386 need it all the same.
#[test]
fn socketcall_is_for_images_of_i386() {
    let usual = default_filter(capability::DEFAULT, Machine::Usual).unwrap();
    let old = default_filter(capability::DEFAULT, Machine::of("386")).unwrap();
    for (number, name, refused) in
        [(0, "none", true), (1, "socket", true), (3, "connect", false), (8, "socketpair", true), (21, "none", true)]
    {
        for half in [0, 1 << 32] {
            let call = Call { audit: Arch::X86.audit(), number: 102, arguments: [half | number, 0, 0, 0, 0, 0] };
            assert_eq!(run(&usual, &call), if refused { EPERM } else { ALLOW }, "{name}");
            assert_eq!(run(&old, &call), ALLOW, "{name}");
        }
    }
    assert_eq!(verdict(&old, "socket", &[38]), EPERM, "the calls whose arguments can be seen stay as they are");
}

/// The default profile treats x32 as absent; a caller's profile without it kills, like libseccomp.
#[test]
fn the_filter_refuses_calls_of_x32() {
    let native = Arch::NATIVE.unwrap();
    if native != Arch::X86_64 {
        return;
    }
    let filter = default_filter(capability::all(), Machine::Usual).unwrap();
    let said = r#"{"defaultAction": "SCMP_ACT_ERRNO", "syscalls": [{"names": ["read"], "action": "SCMP_ACT_ALLOW"}]}"#;
    let strict = profile_filter(said, 0).unwrap().unwrap();
    for number in (0..600).map(|number| number | X32_BIT).chain([0x8000_0000, u32::MAX - 1]) {
        let call = Call { audit: native.audit(), number, arguments: [0; 6] };
        assert_eq!(run(&filter, &call), ENOSYS, "{number:#x}");
        assert_eq!(run(&strict, &call), KILL, "{number:#x}");
    }
    let skipped = Call { audit: native.audit(), number: u32::MAX, arguments: [0; 6] };
    assert_eq!(run(&filter, &skipped), EPERM, "a tracer skips a call by -1");
}

/// The verdicts equal seccompiler's for all that it can express: one architecture, one action.
#[test]
fn agrees_with_seccompiler() {
    use seccompiler::{
        BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    };
    let native = Arch::NATIVE.unwrap();
    let mut random = Random(99);
    for _ in 0..40 {
        let mut theirs = std::collections::BTreeMap::new();
        let mut ours = Vec::new();
        for _ in 0..30 {
            let (name, row) = random.pick(&SYSCALLS);
            let Some(number) = native.number(row) else { continue };
            if theirs.contains_key(&i64::from(number)) {
                continue;
            }
            let (index, value, mask) = (random.below(6) as u8, random.value(), random.value());
            let (op, word) = match random.below(8) {
                0 => (SeccompCmpOp::Eq, "EQ"),
                1 => (SeccompCmpOp::Ge, "GE"),
                2 => (SeccompCmpOp::Gt, "GT"),
                3 => (SeccompCmpOp::Le, "LE"),
                4 => (SeccompCmpOp::Lt, "LT"),
                5 => (SeccompCmpOp::Ne, "NE"),
                6 => (SeccompCmpOp::MaskedEq(mask), "MASKED_EQ"),
                _ => {
                    theirs.insert(number.into(), Vec::new());
                    ours.push(json!({"names": [name], "action": "SCMP_ACT_ALLOW"}));
                    continue;
                }
            };
            let (first, second) = if word == "MASKED_EQ" { (mask, value) } else { (value, 0) };
            let condition = SeccompCondition::new(index, SeccompCmpArgLen::Qword, op, value).unwrap();
            theirs.insert(number.into(), vec![SeccompRule::new(vec![condition]).unwrap()]);
            let said = json!({"index": index, "value": first, "valueTwo": second, "op": format!("SCMP_CMP_{word}")});
            ours.push(json!({"names": [name], "action": "SCMP_ACT_ALLOW", "args": [said]}));
        }
        let arch = std::env::consts::ARCH.try_into().unwrap();
        let theirs = SeccompFilter::new(theirs, SeccompAction::Errno(1), SeccompAction::Allow, arch).unwrap();
        let theirs: BpfProgram = theirs.try_into().unwrap();
        let mut bytes = Vec::new();
        for one in &theirs {
            bytes.extend(one.code.to_ne_bytes());
            bytes.extend([one.jt, one.jf]);
            bytes.extend(one.k.to_ne_bytes());
        }
        let ours = json!({"defaultAction": "SCMP_ACT_ERRNO", "syscalls": ours}).to_string();
        let filter = profile_filter(&ours, 0).unwrap().unwrap();
        for _ in 0..300 {
            let mut call = random_call(&mut random);
            call.audit = native.audit();
            call.number &= 0x1ff;
            let (one, two) = (run(&filter, &call) == ALLOW, run(&bytes, &call) == ALLOW);
            assert_eq!(one, two, "{call:x?} {ours}");
        }
    }
}

#[test]
fn forms_of_profiles() {
    let get = |text: &str| profile_filter(text, 0).unwrap();
    assert_eq!(get("{}"), None);
    assert_eq!(get(r#"{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": null}"#), None);
    let filter = get(r#"{"defaultAction": "SCMP_ACT_ALLOW", "architectures": null, "syscalls": [
            {"name": "chmod", "action": "SCMP_ACT_ERRNO", "args": null, "comment": "old", "includes": {}},
            {"names": ["not_a_call", "mkdir"], "action": "SCMP_ACT_KILL_PROCESS"},
            {"names": ["chown"], "action": "SCMP_ACT_TRACE", "errnoRet": 7, "excludes": {"minKernel": "4.8"}},
            {"names": ["pause"], "action": "SCMP_ACT_TRAP", "includes": {"minKernel": "200.0"}}
        ]}"#);
    let filter = filter.unwrap();
    if Arch::NATIVE == Some(Arch::X86_64) {
        assert_eq!(verdict(&filter, "chmod", &[]), EPERM);
        assert_eq!(verdict(&filter, "mkdir", &[]), 0x8000_0000);
        assert_eq!(verdict(&filter, "chown", &[]), ALLOW);
        assert_eq!(verdict(&filter, "pause", &[]), ALLOW);
    }
    assert_eq!(verdict(&filter, "read", &[]), ALLOW);
}

#[test]
fn mistakes_name_the_field() {
    let cases = [
        ("nonsense", "expected ident at line 1 column 2"),
        (r#"{"syscalls": 3}"#, "syscalls: a value must be a list, not the number 3"),
        (r#"{"defaultAction": "SCMP_ACT_MAYBE"}"#, "defaultAction: unknown action \"SCMP_ACT_MAYBE\""),
        (r#"{"syscalls": [{"names": ["read"]}]}"#, "defaultAction: missing"),
        (
            r#"{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{}, {"names": "read"}]}"#,
            "syscalls[1].names: a value must be a list, not the string \"read\"",
        ),
        (
            r#"{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["read"], "action": "SCMP_ACT_NOTIFY"}]}"#,
            "syscalls[0]: action: SCMP_ACT_NOTIFY is not supported yet",
        ),
        (
            r#"{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["read"], "action": "SCMP_ACT_KILL",
                "args": [{"index": 6, "op": "SCMP_CMP_EQ"}]}]}"#,
            "syscalls[0]: args[0].index: 6 is not below 6",
        ),
        (
            r#"{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["read"], "action": "SCMP_ACT_KILL",
                "args": [{"op": "EQ"}]}]}"#,
            "syscalls[0]: args[0].op: unknown comparison \"EQ\"",
        ),
        (
            r#"{"defaultAction": "SCMP_ACT_ALLOW", "architectures": ["SCMP_ARCH_VAX"]}"#,
            "architectures: unknown architecture \"SCMP_ARCH_VAX\"",
        ),
        (
            r#"{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["read"], "action": "SCMP_ACT_KILL",
                "includes": {"minKernel": "4"}}]}"#,
            "syscalls[0]: includes.minKernel: invalid kernel version \"4\"",
        ),
        (
            r#"{"defaultAction": "SCMP_ACT_ALLOW", "flags": ["SECCOMP_FILTER_FLAG_LOG"]}"#,
            "flags: SECCOMP_FILTER_FLAG_LOG is not supported yet",
        ),
        (
            r#"{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["read"], "action": "SCMP_ACT_ERRNO",
                "errnoRet": 4096}]}"#,
            "syscalls[0]: action: the error number 4096 is out of range",
        ),
    ];
    for (text, wanted) in cases {
        let error = profile_filter(text, 0).unwrap_err();
        assert_eq!(error.message(), format!("invalid seccomp profile: {wanted}"));
    }
}

#[test]
fn a_profile_that_does_not_fit() {
    let rule = |value: u64| {
        json!({"names": ["read"], "action": "SCMP_ACT_ERRNO",
               "args": [{"index": 0, "value": value << 32, "op": "SCMP_CMP_EQ"}]})
    };
    let rules: Vec<Value> = (1..2000).map(rule).collect();
    let profile = json!({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": rules}).to_string();
    assert!(profile_filter(&profile, 0).unwrap_err().message().contains("too large"));
}

#[test]
fn default_filters_are_kept() {
    let filters = DefaultFilters::default();
    let first = filters.get(capability::DEFAULT, Machine::Usual).unwrap();
    assert_eq!(*first, *default_filter(capability::DEFAULT, Machine::Usual).unwrap());
    assert!(Arc::ptr_eq(&first, &filters.get(capability::DEFAULT, Machine::Usual).unwrap()));
    for caps in 0..DefaultFilters::KEPT as u64 {
        filters.get(caps, Machine::Usual).unwrap();
    }
    assert!(!Arc::ptr_eq(&first, &filters.get(capability::DEFAULT, Machine::Usual).unwrap()), "the oldest goes");
    assert_eq!(filters.compiled.lock().len(), DefaultFilters::KEPT);
}
