//! Probes the kernel's features that this library needs, before anything is changed.
//!
//! A call is probed with arguments that it refuses before it acts, so a probe changes nothing and costs a fraction of a
//! microsecond: only `ENOSYS` means that the kernel lacks the call.

use super::fd::errno;
use crate::error::{Error, ErrorKind, Result};
use nix::sys::statfs::{TMPFS_MAGIC, statfs};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::path::Path;

/// A capability that creating and running containers takes.
pub(crate) struct Capability {
    /// The kernel's number.
    pub number: u32,
    pub name: &'static str,
    /// The loss without it.
    pub loss: &'static str,
}

const fn capability(number: u32, name: &'static str, loss: &'static str) -> Capability {
    Capability { number, name, loss }
}

/// The number of the one that an engine can do without.
const NET_ADMIN: u32 = 12;

pub(crate) const CAPABILITIES: [Capability; 13] = [
    capability(0, "CAP_CHOWN", "images cannot be unpacked with their owners"),
    capability(1, "CAP_DAC_OVERRIDE", "files of containers' users cannot be read or written"),
    capability(3, "CAP_FOWNER", "modes and times of files of other users cannot be set"),
    capability(4, "CAP_FSETID", "set-id bits of files in images are lost"),
    capability(5, "CAP_KILL", "containers of other users cannot be stopped"),
    capability(6, "CAP_SETGID", "processes cannot become the groups of a container"),
    capability(7, "CAP_SETUID", "processes cannot become the user of a container"),
    capability(8, "CAP_SETPCAP", "processes cannot give up their rights"),
    capability(
        12,
        "CAP_NET_ADMIN",
        "networks, published ports and the loopback interface: containers need the network mode none (then without a loopback interface) or host",
    ),
    capability(18, "CAP_SYS_CHROOT", "processes cannot be confined to a root file system"),
    capability(21, "CAP_SYS_ADMIN", "no namespace and no mount can be made"),
    capability(27, "CAP_MKNOD", "devices of containers cannot be made"),
    capability(31, "CAP_SETFCAP", "capabilities of files in images are lost"),
];

impl Capability {
    /// Whether nothing works without it.
    pub(crate) fn is_needed(&self) -> bool {
        self.number != NET_ADMIN
    }
}

/// A system call: its name, the release that brought it, and arguments that it refuses.
type Call = (&'static str, libc::c_long, (u32, u32), [libc::c_long; 5]);

/// An invalid descriptor, and all flags at once.
const NO: libc::c_long = -1;

const CALLS: [Call; 9] = [
    ("memfd_create", libc::SYS_memfd_create, (3, 17), [0, NO, 0, 0, 0]),
    ("open_tree", libc::SYS_open_tree, (5, 2), [NO, 0, NO, 0, 0]),
    ("move_mount", libc::SYS_move_mount, (5, 2), [NO, 0, NO, 0, NO]),
    ("fsopen", libc::SYS_fsopen, (5, 2), [0, NO, 0, 0, 0]),
    ("fsmount", libc::SYS_fsmount, (5, 2), [NO, NO, 0, 0, 0]),
    ("pidfd_open", libc::SYS_pidfd_open, (5, 3), [NO, 0, 0, 0, 0]),
    // A structure of size zero.
    ("clone3", libc::SYS_clone3, (5, 3), [0, 0, 0, 0, 0]),
    ("openat2", libc::SYS_openat2, (5, 6), [NO, 0, 0, 0, 0]),
    // A range from 1 down to 0.
    ("close_range", libc::SYS_close_range, (5, 9), [1, 0, 0, 0, 0]),
];

/// The name of the call for which there is another way.
pub(crate) const ATTRIBUTES: &str = "mount_setattr";

const SETS_ATTRIBUTES: Call = (ATTRIBUTES, libc::SYS_mount_setattr, (5, 12), [NO, 0, NO, 0, 0]);

/// Checks that the calling thread has the rights and this kernel has the features that the library needs.
///
/// Errors: [`ErrorKind::Forbidden`] names the missing capabilities; [`ErrorKind::Unsupported`] names a call or file
/// system that the kernel lacks.
pub(crate) fn check() -> Result<()> {
    check_capabilities(effective_capabilities()?)?;
    match calls().find_map(|(_, missing)| missing) {
        Some(error) => Err(error),
        None => check_overlay(),
    }
}

/// Each call that the library needs, with the error if this kernel does not have it.
pub(crate) fn calls() -> impl Iterator<Item = (&'static str, Option<Error>)> {
    CALLS.iter().map(|(name, number, since, arguments)| {
        (*name, (!is_there(*number, arguments)).then(|| missing_call(name, *since, release())))
    })
}

/// Whether the kernel has mount_setattr(2); otherwise attributes of mounts are set by mount(2).
pub(crate) fn sets_attributes() -> bool {
    needs_attributes().is_ok()
}

/// Checks that the kernel has mount_setattr(2), for the uses that have no other way.
///
/// Errors: [`ErrorKind::Unsupported`].
pub(crate) fn needs_attributes() -> Result<()> {
    let (name, number, since, arguments) = SETS_ATTRIBUTES;
    if is_there(number, &arguments) { Ok(()) } else { Err(missing_call(name, since, release())) }
}

/// Whether the calling thread may change networks.
pub(crate) fn may_change_networks() -> bool {
    effective_capabilities().is_ok_and(|held| held & (1 << NET_ADMIN) != 0)
}

/// Whether the kernel has filters of system calls: `prctl` refuses a null pointer in place of a filter with EFAULT.
pub(crate) fn has_filters() -> bool {
    // SAFETY: the kernel refuses the null pointer (EFAULT), or the mode that it does not know (EINVAL).
    let result = unsafe { libc::prctl(libc::PR_SET_SECCOMP, 2 as libc::c_ulong, 0 as libc::c_ulong, 0, 0) };
    result < 0 && errno() == libc::EFAULT
}

/// Whether the process is in a user namespace of its own: the host's maps all ids to themselves.
pub(crate) fn in_user_namespace() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let words: Vec<&str> = map.split_whitespace().collect();
    !words.is_empty() && words != ["0", "0", "4294967295"]
}

/// File systems on which no overlay keeps what a container writes, by their numbers.
const NO_UPPER: [(i64, &str); 4] =
    [(0x794c_7630, "overlayfs"), (0x6969, "nfs"), (0x4d44, "vfat"), (0xf15f, "ecryptfs")];

/// Checks that a directory's file system takes the layers of containers.
pub(crate) fn holds_layers(place: &Path) -> Result<()> {
    let kind = statfs(place).map(|facts| facts.filesystem_type().0).unwrap_or_default();
    match NO_UPPER.iter().find(|(magic, _)| *magic == kind) {
        None => Ok(()),
        Some((_, name)) => Err(Error::unsupported(format!(
            "{} is on {name}, where containers cannot have their writable layers: an engine root needs ext4, xfs, btrfs, f2fs \
             or tmpfs",
            place.display()
        ))),
    }
}

fn check_capabilities(effective: u64) -> Result<()> {
    let missing: Vec<&str> = CAPABILITIES
        .iter()
        .filter(|one| one.is_needed() && effective & (1 << one.number) == 0)
        .map(|one| one.name)
        .collect();
    match missing.as_slice() {
        [] => Ok(()),
        [one] => Err(forbidden(format!("{one} is missing"))),
        many => Err(forbidden(format!("{} are missing", many.join(", ")))),
    }
}

fn forbidden(what: String) -> Error {
    Error::new(ErrorKind::Forbidden, format!("not enough privilege: {what}"))
}

fn missing_call(name: &str, since: (u32, u32), release: (u32, u32)) -> Error {
    let (major, minor) = since;
    Error::unsupported(if release < since {
        format!("kernel too old: {name}(2) needs Linux {major}.{minor}")
    } else {
        format!("{name}(2) is not available here: a seccomp filter may hide it, as the kernel is new enough")
    })
}

/// The kernel's release by its first two numbers, such as (6, 18); zeroes if it has no such form.
pub(crate) fn release() -> (u32, u32) {
    nix::sys::utsname::uname().map(|name| parse_release(&name.release().to_string_lossy())).unwrap_or_default()
}

/// The rest after the second number (`-rc1`, `.44-cloud`) is ignored.
fn parse_release(release: &str) -> (u32, u32) {
    let mut parts = release.splitn(3, '.').map(|part| {
        let digits = part.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(part.len());
        part[..digits].parse().unwrap_or(0)
    });
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}

fn is_there(number: libc::c_long, arguments: &[libc::c_long; 5]) -> bool {
    let [a, b, c, d, e] = *arguments;
    // SAFETY: every call of the table refuses these arguments: null pointers, invalid descriptors, unknown flags.
    let result = unsafe { libc::syscall(number, a, b, c, d, e) };
    result >= 0 || errno() != libc::ENOSYS
}

/// The calling thread's effective capabilities as a set of bits.
pub(crate) fn effective_capabilities() -> Result<u64> {
    /// `_LINUX_CAPABILITY_VERSION_3`: two words per set.
    const VERSION: u32 = 0x2008_0522;
    // Header: version and thread (0 is the caller). Data: effective, permitted, inheritable; twice.
    let mut header = [VERSION, 0];
    let mut data = [0u32; 6];
    // SAFETY: both arrays have the layout of the kernel's structures and live over the call.
    if unsafe { libc::syscall(libc::SYS_capget, header.as_mut_ptr(), data.as_mut_ptr()) } < 0 {
        return Err(Error::os("read the capabilities", errno()));
    }
    Ok(u64::from(data[0]) | u64::from(data[3]) << 32)
}

/// Requests an overlay without mounting it: this loads the module if the kernel has one.
pub(crate) fn check_overlay() -> Result<()> {
    const FSOPEN_CLOEXEC: libc::c_long = 1;
    // SAFETY: the name is a constant that ends with a NUL.
    let fd = unsafe { libc::syscall(libc::SYS_fsopen, c"overlay".as_ptr(), FSOPEN_CLOEXEC) };
    if fd >= 0 {
        // SAFETY: the kernel just gave us this descriptor; dropping it gives it back.
        drop(unsafe { OwnedFd::from_raw_fd(fd as RawFd) });
        return Ok(());
    }
    match errno() {
        libc::ENODEV => Err(Error::unsupported("this kernel has no overlay file system (module overlay)")),
        errno => Err(Error::os("open the overlay file system", errno)),
    }
}

/// Whether a path lies on a tmpfs; false if that is unknown.
pub(crate) fn on_tmpfs(path: &Path) -> bool {
    statfs(path).is_ok_and(|facts| facts.filesystem_type() == TMPFS_MAGIC)
}

/// The host's memory in bytes; 0 if unknown. Costs a hundredth of a read of /proc/meminfo.
pub(crate) fn total_memory() -> u64 {
    // SAFETY: all zeroes is a valid structure; it lives over the call.
    let info = unsafe {
        let mut info: libc::sysinfo = std::mem::zeroed();
        (libc::sysinfo(&raw mut info) == 0).then_some(info)
    };
    info.map_or(0, |info| info.totalram * u64::from(info.mem_unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases() {
        assert_eq!(parse_release("6.1.0-27-cloud-amd64"), (6, 1));
        assert_eq!(parse_release("5.10-rc2"), (5, 10));
        assert_eq!(parse_release("odd"), (0, 0));
        assert!(release() >= (4, 8));
    }

    #[test]
    fn missing_capabilities_are_named() {
        assert!(check_capabilities(u64::MAX).is_ok());
        let error = check_capabilities(!(1 << 21)).unwrap_err();
        assert_eq!(
            (error.kind(), error.message()),
            (ErrorKind::Forbidden, "not enough privilege: CAP_SYS_ADMIN is missing")
        );
        let error = check_capabilities(!(1 | 1 << 27)).unwrap_err();
        assert_eq!(error.message(), "not enough privilege: CAP_CHOWN, CAP_MKNOD are missing");
        assert!(check_capabilities(!(1 << NET_ADMIN)).is_ok(), "an engine without networks");
        for one in CAPABILITIES {
            assert_eq!(one.name.parse::<caps::Capability>().unwrap().index(), one.number as u8);
        }
    }

    #[test]
    fn a_place_on_overlayfs_is_refused() {
        assert!(holds_layers(Path::new("/proc")).is_ok() && has_filters());
        assert!(holds_layers(Path::new("/nosuch")).is_ok());
    }

    #[test]
    fn a_missing_call_is_named_with_its_reason() {
        assert!(!is_there(100_000, &[0; 5]));
        let text = |release| missing_call("mount_setattr", (5, 12), release).message().to_owned();
        assert_eq!(text((5, 10)), "kernel too old: mount_setattr(2) needs Linux 5.12");
        assert!(text((6, 1)).contains("seccomp"));
        assert!(release() > (3, 0));
    }

    #[test]
    fn this_machine_has_all_that_is_needed() {
        if effective_capabilities().unwrap() & (1 << 21) == 0 {
            return;
        }
        check().unwrap();
    }

    #[test]
    fn a_thread_without_the_right_is_told() {
        let answer = std::thread::spawn(|| {
            let one = caps::Capability::CAP_SYS_ADMIN;
            if caps::drop(None, caps::CapSet::Effective, one).is_err() {
                return None;
            }
            Some(check().unwrap_err().message().to_owned())
        });
        if let Some(text) = answer.join().unwrap() {
            assert!(text.contains("CAP_SYS_ADMIN"), "{text}");
        }
    }
}
