//! The seccomp filters of the monitor's worker, of the log's writer and of the process that compresses: a list of calls, some with a test of
//! one argument, made into the kernel's program. Everything else is refused.
//!
//! All arguments that are tested are 32-bit ones to the kernel: their lower half is compared.

/// An instruction, as the kernel takes it (`sock_filter`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Instruction {
    code: u16,
    yes: u8,
    no: u8,
    value: u32,
}

/// The condition on an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Test {
    /// Anything.
    Any,
    /// The argument of this index is one of these.
    OneOf(u8, &'static [u32]),
    /// The argument of this index has none of these bits.
    Without(u8, u32),
}

use Test::{Any, OneOf, Without};

/// A call that is allowed: its number on x86-64, its number elsewhere, the test.
pub type Rule = (u32, u32, Test);

const O_CLOEXEC: u32 = 0o2000000;
const PROT_EXEC: u32 = 4;
const FIONREAD: u32 = 0x541b;
const FUTEX_WAIT: u32 = 0;
const FUTEX_WAKE: u32 = 1;
const AF_INET: u32 = 2;
const AF_INET6: u32 = 10;
/// F_DUPFD_CLOEXEC, F_GETFL, F_SETFL, F_OFD_GETLK, F_SETPIPE_SZ, F_GETPIPE_SZ.
const FCNTL: &[u32] = &[1030, 3, 4, 36, 1031, 1032];

/// The system calls of the worker, the frequent ones first.
pub const WORKER: &[Rule] = &[
    (0, 63, Any),                              // read
    (1, 64, Any),                              // write
    (281, 22, Any),                            // epoll_pwait
    (275, 76, Any),                            // splice
    (228, 113, Any),                           // clock_gettime
    (233, 21, Any),                            // epoll_ctl
    (45, 207, Any),                            // recvfrom
    (44, 206, Any),                            // sendto
    (46, 211, Any),                            // sendmsg
    (47, 212, Any),                            // recvmsg
    (3, 57, Any),                              // close
    (17, 67, Any),                             // pread64
    (18, 68, Any),                             // pwrite64
    (9, 222, Without(2, PROT_EXEC)),           // mmap: nothing new is executed
    (11, 215, Any),                            // munmap
    (28, 233, Any),                            // madvise
    (72, 25, OneOf(1, FCNTL)),                 // fcntl
    (16, 29, OneOf(1, &[FIONREAD])),           // ioctl
    (257, 56, OneOf(2, &[O_CLOEXEC])),         // openat: for reading alone
    (332, 291, Any),                           // statx
    (77, 46, Any),                             // ftruncate
    (41, 198, OneOf(0, &[AF_INET, AF_INET6])), // socket
    (42, 203, Any),                            // connect
    (288, 242, Any),                           // accept4
    (54, 208, Any),                            // setsockopt
    (48, 210, Any),                            // shutdown
    (293, 59, Any),                            // pipe2
    (318, 278, Any),                           // getrandom
    (202, 98, OneOf(1, &[FUTEX_WAKE])),        // futex: wakes the log's writer
    (219, 128, Any),                           // restart_syscall
    (231, 94, Any),                            // exit_group
];

/// The system calls of the log's writer.
pub const WRITER: &[Rule] = &[
    (1, 64, Any),                       // write
    (202, 98, OneOf(1, &[FUTEX_WAIT])), // futex: waits for records
    (46, 211, Any),                     // sendmsg
    (47, 212, Any),                     // recvmsg
    (3, 57, Any),                       // close
    (17, 67, Any),                      // pread64
    (77, 46, Any),                      // ftruncate
    (9, 222, Without(2, PROT_EXEC)),    // mmap
    (11, 215, Any),                     // munmap
    (28, 233, Any),                     // madvise
    (219, 128, Any),                    // restart_syscall
    (231, 94, Any),                     // exit_group
];

/// The system calls of compressing.
pub const COMPRESSOR: &[Rule] = &[
    (0, 63, Any),                    // read
    (1, 64, Any),                    // write
    (9, 222, Without(2, PROT_EXEC)), // mmap
    (11, 215, Any),                  // munmap
    (219, 128, Any),                 // restart_syscall
    (231, 94, Any),                  // exit_group
];

/// The most instructions of a filter.
pub const MOST: usize = 128;

/// A filter: its instructions, and how many there are.
#[derive(Clone, Copy, Debug)]
pub struct Filter {
    /// The instructions.
    pub code: [Instruction; MOST],
    /// How many of them are used.
    pub length: usize,
}

const LOAD: u16 = 0x20;
const EQUAL: u16 = 0x15;
const AT_LEAST: u16 = 0x35;
const ANY_BIT: u16 = 0x45;
const RETURN: u16 = 0x06;

const ALLOW: u32 = 0x7fff_0000;
const KILL: u32 = 0x8000_0000;
const EPERM: u32 = 1;
/// Refused with EPERM.
pub const REFUSE: u32 = 0x0005_0000 | EPERM;

#[cfg(target_arch = "x86_64")]
const ARCH: u32 = 0xc000_003e;
#[cfg(not(target_arch = "x86_64"))]
const ARCH: u32 = 0xc000_00b7;
/// Calls of x32.
const X32: u32 = 0x4000_0000;

impl Filter {
    /// The filter that allows what the rules say.
    pub fn of(rules: &[Rule]) -> Filter {
        let mut filter = Filter { code: [Instruction::default(); MOST], length: 0 };
        filter.add(LOAD, 0, 0, 4);
        filter.add(EQUAL, 1, 0, ARCH);
        filter.add(RETURN, 0, 0, KILL);
        filter.add(LOAD, 0, 0, 0);
        filter.add(AT_LEAST, 0, 1, X32);
        filter.add(RETURN, 0, 0, REFUSE);
        for &(x86, other, test) in rules {
            filter.rule(if cfg!(target_arch = "x86_64") { x86 } else { other }, test);
        }
        filter.add(RETURN, 0, 0, REFUSE);
        filter
    }

    fn add(&mut self, code: u16, yes: u8, no: u8, value: u32) {
        // All lists fit: a test builds them.
        if let Some(place) = self.code.get_mut(self.length) {
            *place = Instruction { code, yes, no, value };
            self.length += 1;
        }
    }

    fn rule(&mut self, number: u32, test: Test) {
        let argument = |index: u8| 16 + 8 * u32::from(index);
        match test {
            Any => {
                self.add(EQUAL, 0, 1, number);
                self.add(RETURN, 0, 0, ALLOW);
            }
            OneOf(index, values) => {
                let count = values.len() as u8;
                self.add(EQUAL, 0, count + 3, number);
                self.add(LOAD, 0, 0, argument(index));
                for (at, &value) in values.iter().enumerate() {
                    self.add(EQUAL, count - at as u8, 0, value);
                }
                self.add(RETURN, 0, 0, REFUSE);
                self.add(RETURN, 0, 0, ALLOW);
            }
            Without(index, bits) => {
                self.add(EQUAL, 0, 4, number);
                self.add(LOAD, 0, 0, argument(index));
                self.add(ANY_BIT, 0, 1, bits);
                self.add(RETURN, 0, 0, REFUSE);
                self.add(RETURN, 0, 0, ALLOW);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel's way through a filter.
    fn answer(filter: &Filter, arch: u32, number: u32, args: [u64; 6]) -> u32 {
        let (mut at, mut value) = (0, 0u32);
        loop {
            let Instruction { code, yes, no, value: k } = filter.code[..filter.length][at];
            at += 1;
            let jump = |hit: bool| usize::from(if hit { yes } else { no });
            match code {
                LOAD => {
                    value = match k {
                        0 => number,
                        4 => arch,
                        // Little endian: the lower half is first.
                        _ if k >= 16 && (k - 16) % 8 == 0 => args[(k as usize - 16) / 8] as u32,
                        _ => panic!("a load from {k}"),
                    }
                }
                EQUAL => at += jump(value == k),
                AT_LEAST => at += jump(value >= k),
                ANY_BIT => at += jump(value & k != 0),
                RETURN => return k,
                _ => panic!("instruction {code:#x}"),
            }
        }
    }

    fn number(rule: &Rule) -> u32 {
        if cfg!(target_arch = "x86_64") { rule.0 } else { rule.1 }
    }

    #[test]
    fn a_filter_allows_its_list_and_nothing_else() {
        for rules in [WORKER, WRITER, COMPRESSOR] {
            let filter = Filter::of(rules);
            assert!(filter.length < MOST && rules.len() <= 40);
            for call in 0..1024 {
                let rule = rules.iter().find(|rule| number(rule) == call).map(|rule| rule.2);
                for word in (0..2048).chain([0o2000000, 0o2000001, 0o2000102, 0x541b, 0x5412, 0x8933, u32::MAX]) {
                    for upper in [0, 1 << 32, u64::MAX << 32] {
                        let args = [upper | u64::from(word); 6];
                        let allowed = match rule {
                            None => false,
                            Some(Any) => true,
                            Some(OneOf(_, values)) => values.contains(&word),
                            Some(Without(_, bits)) => word & bits == 0,
                        };
                        let wanted = if allowed { ALLOW } else { REFUSE };
                        assert_eq!(answer(&filter, ARCH, call, args), wanted, "call {call} with {word:#x}");
                    }
                }
                assert_eq!(answer(&filter, ARCH, call | X32, [0; 6]), REFUSE, "x32 {call}");
                assert_eq!(answer(&filter, 0x4000_0003, call, [0; 6]), KILL, "i386 {call}");
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn no_list_has_a_call_that_leads_to_the_host() {
        let calls = [
            ("open", 2),
            ("execve", 59),
            ("execveat", 322),
            ("fork", 57),
            ("vfork", 58),
            ("clone", 56),
            ("clone3", 435),
            ("ptrace", 101),
            ("kill", 62),
            ("tgkill", 234),
            ("pidfd_send_signal", 424),
            ("mount", 165),
            ("setns", 308),
            ("unshare", 272),
            ("bpf", 321),
            ("openat2", 437),
            ("unlinkat", 263),
            ("renameat", 264),
            ("linkat", 265),
            ("symlinkat", 266),
            ("mkdirat", 258),
            ("fchmod", 91),
            ("fchown", 93),
            ("chroot", 161),
            ("prctl", 157),
            ("capset", 126),
            ("seccomp", 317),
            ("mprotect", 10),
            ("memfd_create", 319),
            ("io_uring_setup", 425),
            ("keyctl", 250),
            ("process_vm_writev", 311),
            ("bind", 49),
            ("listen", 50),
            ("socketpair", 53),
            ("setuid", 105),
            ("pidfd_getfd", 438),
            ("userfaultfd", 323),
            ("perf_event_open", 298),
            ("fsetxattr", 190),
        ];
        for (name, call) in calls {
            assert!(WORKER.iter().chain(WRITER).chain(COMPRESSOR).all(|rule| rule.0 != call), "{name}");
        }
    }
}
