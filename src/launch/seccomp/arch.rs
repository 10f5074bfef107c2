//! The architectures that a filter can support, and their numbers.

use super::table::SYSCALLS;

/// A system call interface of this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Arch {
    X86_64,
    X86,
    X32,
    Aarch64,
    Arm,
}

/// Set in the number of an x32 call; otherwise the kernel reports it as x86_64.
pub(super) const X32_BIT: u32 = 0x4000_0000;

/// Names of architectures that a profile may list although filters for this library's machines never need them.
const FOREIGN: [&str; 18] = [
    "LOONGARCH64",
    "M68K",
    "MIPS",
    "MIPS64",
    "MIPS64N32",
    "MIPSEL",
    "MIPSEL64",
    "MIPSEL64N32",
    "PARISC",
    "PARISC64",
    "PPC",
    "PPC64",
    "PPC64LE",
    "RISCV64",
    "S390",
    "S390X",
    "SH",
    "SHEB",
];

impl Arch {
    /// The architecture of this library.
    pub(super) const NATIVE: Option<Arch> = if cfg!(all(target_arch = "x86_64", target_pointer_width = "64")) {
        Some(Arch::X86_64)
    } else if cfg!(target_arch = "aarch64") {
        Some(Arch::Aarch64)
    } else {
        None
    };

    /// From a profile's name. `Some(None)`: a known architecture that cannot run here.
    pub(super) fn parse(name: &str) -> Option<Option<Arch>> {
        let known = [
            ("X86_64", Arch::X86_64),
            ("X86", Arch::X86),
            ("X32", Arch::X32),
            ("AARCH64", Arch::Aarch64),
            ("ARM", Arch::Arm),
        ];
        let name = name.strip_prefix("SCMP_ARCH_")?;
        let found = known.iter().find(|(one, _)| *one == name).map(|(_, arch)| *arch);
        (found.is_some() || FOREIGN.contains(&name)).then_some(found)
    }

    /// The word for a native architecture in `includes` and `excludes`.
    pub(super) fn word(self) -> &'static str {
        match self {
            Arch::X86_64 => "amd64",
            Arch::X86 => "x86",
            Arch::X32 => "x32",
            Arch::Aarch64 => "arm64",
            Arch::Arm => "arm",
        }
    }

    /// Whether a kernel of the `native` architecture runs its programs.
    pub(super) fn runs_on(self, native: Arch) -> bool {
        let family = |arch| matches!(arch, Arch::Aarch64 | Arch::Arm);
        family(self) == family(native)
    }

    /// `AUDIT_ARCH_*`, which a filter sees.
    pub(super) fn audit(self) -> u32 {
        match self {
            Arch::X86_64 | Arch::X32 => 0xc000_003e,
            Arch::X86 => 0x4000_0003,
            Arch::Aarch64 => 0xc000_00b7,
            Arch::Arm => 0x4000_0028,
        }
    }

    /// Whether arguments have 64 bits.
    pub(super) fn wide(self) -> bool {
        matches!(self, Arch::X86_64 | Arch::Aarch64)
    }

    /// The number of a row of [`SYSCALLS`] as a filter sees it, including the x32 bit.
    pub(super) fn number(self, row: &[i32; 5]) -> Option<u32> {
        let column = match self {
            Arch::X86_64 => 0,
            Arch::X86 => 1,
            Arch::X32 => 2,
            Arch::Aarch64 => 3,
            Arch::Arm => 4,
        };
        let number = u32::try_from(row[column]).ok()?;
        Some(if self == Arch::X32 { number | X32_BIT } else { number })
    }

    /// The call and first argument by which i386 programs reached `name` before it had a number of its own.
    pub(super) fn multiplexed(self, name: &str) -> Option<(u32, u64)> {
        const SOCKETCALL: u32 = 102;
        const IPC: u32 = 117;
        let number = match name {
            "socket" => 1,
            "bind" => 2,
            "connect" => 3,
            "listen" => 4,
            "accept" => 5,
            "getsockname" => 6,
            "getpeername" => 7,
            "socketpair" => 8,
            "send" => 9,
            "recv" => 10,
            "sendto" => 11,
            "recvfrom" => 12,
            "shutdown" => 13,
            "setsockopt" => 14,
            "getsockopt" => 15,
            "sendmsg" => 16,
            "recvmsg" => 17,
            "accept4" => 18,
            "recvmmsg" => 19,
            "sendmmsg" => 20,
            "semop" => 101,
            "semget" => 102,
            "semctl" => 103,
            "semtimedop" => 104,
            "msgsnd" => 111,
            "msgrcv" => 112,
            "msgget" => 113,
            "msgctl" => 114,
            "shmat" => 121,
            "shmdt" => 122,
            "shmget" => 123,
            "shmctl" => 124,
            _ => return None,
        };
        let (call, number) = if number > 100 { (IPC, number - 100) } else { (SOCKETCALL, number) };
        (self == Arch::X86).then_some((call, number))
    }
}

/// A call's numbers on all architectures.
pub(super) fn row(name: &str) -> Option<&'static [i32; 5]> {
    SYSCALLS.binary_search_by(|(one, _)| (*one).cmp(name)).ok().map(|index| &SYSCALLS[index].1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_sorted_and_true() {
        assert!(SYSCALLS.is_sorted_by(|one, next| one.0 < next.0));
        let native = Arch::NATIVE.unwrap();
        let known = [
            ("read", libc::SYS_read),
            ("openat2", libc::SYS_openat2),
            ("clone3", libc::SYS_clone3),
            ("seccomp", libc::SYS_seccomp),
            ("mount_setattr", libc::SYS_mount_setattr),
            ("io_uring_setup", libc::SYS_io_uring_setup),
        ];
        for (name, number) in known {
            assert_eq!(native.number(row(name).unwrap()).map(i64::from), Some(number), "{name}");
        }
        assert_eq!(row("nonsense"), None);
        assert_eq!(Arch::X32.number(row("rt_sigaction").unwrap()), Some(X32_BIT | 512));
    }
}
