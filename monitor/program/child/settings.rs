//! Settings that one call or one written file makes: names, kernel parameters, keyring, and the words of security modules.

use super::tree::FIXED;
use crate::fault::{Step, errno, os};
use crate::ops;
use crate::paths::Name;
use crate::sys::{self, *};

pub fn set_host_name(name: &[u8]) -> Step {
    set_name(nr::SETHOSTNAME, name)
}

pub fn set_domain_name(name: &[u8]) -> Step {
    set_name(nr::SETDOMAINNAME, name)
}

fn set_name(number: usize, name: &[u8]) -> Step {
    // SAFETY: the name lives over the call.
    os(unsafe { sys::call(number, &[name.as_ptr() as usize, name.len()]) }).map(|_| ())
}

pub fn oom_score(ops::OomScore { value, required }: ops::OomScore) -> Step {
    let mut text = [0u8; 12];
    let text = crate::text::decimal(&mut text, i64::from(value));
    let file = os(sys::openat(AT_FDCWD, b"/proc/self/oom_score_adj\0", O_WRONLY, 0))?;
    let written = sys::write_all(file, text);
    sys::close(file);
    if required { os(written) } else { Ok(()) }
}

/// A new anonymous session keyring; a kernel without keyrings has none to leak.
pub fn keyring() -> Step {
    // SAFETY: KEYCTL_JOIN_SESSION_KEYRING takes a null name.
    match unsafe { sys::call(nr::KEYCTL, &[1, 0]) } {
        Ok(_) | Err(ENOSYS) => Ok(()),
        Err(error) => Err(errno(error)),
    }
}

/// `proc` is the container's procfs.
pub fn sysctl(op: ops::Sysctl, proc: i32) -> Step {
    let sys_dir = os(sys::openat2(proc, b"sys\0", O_PATH | O_DIRECTORY, 0, FIXED))?;
    let file = os(sys::openat2(sys_dir, op.name.cstr(), O_WRONLY, 0, FIXED))?;
    os(sys::write_all(file, op.value))?;
    sys::close(file);
    sys::close(sys_dir);
    Ok(())
}

/// Says the profile of the next exec. The kernel keeps the word with the task, and a child inherits it: the word of a
/// helper counts for the process that the helper makes. So it is given while the host's procfs can be seen, and no
/// descriptor of it stays.
pub fn profile(ops::Profile { required, word }: ops::Profile) -> Step {
    let file = match sys::openat(AT_FDCWD, b"/proc/self/attr/apparmor/exec\0", O_WRONLY, 0) {
        // Before Linux 5.8.
        Err(ENOENT) => sys::openat(AT_FDCWD, b"/proc/self/attr/exec\0", O_WRONLY, 0),
        other => other,
    };
    let written = file.and_then(|file| {
        let written = sys::write_all(file, word);
        sys::close(file);
        written
    });
    if required { os(written) } else { Ok(()) }
}

/// Changes the profile at once, through the container's own procfs (`proc`), because the host's is gone, and never
/// through a file that a mask put there. The kernel takes the word only from the credentials that the file was opened
/// with, so the file is not opened beforehand.
pub fn change_profile(word: &[u8], proc: i32) -> Step {
    // SAFETY: getpid takes no arguments.
    let pid = os(unsafe { sys::call(nr::GETPID, &[]) })?;
    let mut digits = [0u8; 12];
    let pid = crate::text::decimal(&mut digits, pid as i64);
    let pid = Name::new(pid).ok_or_else(|| errno(EINVAL))?;
    let how = FIXED | RESOLVE_NO_XDEV;
    let dir = os(sys::openat2(proc, pid.cstr(), O_PATH | O_DIRECTORY, 0, how))?;
    let file = match sys::openat2(dir, b"attr/apparmor/current\0", O_WRONLY, 0, how) {
        // Before Linux 5.8.
        Err(ENOENT) => sys::openat2(dir, b"attr/current\0", O_WRONLY, 0, how),
        other => other,
    };
    sys::close(dir);
    let file = os(file)?;
    let written = sys::write_all(file, word);
    sys::close(file);
    os(written)
}

/// Says the SELinux label of the next exec, which counts for children as a profile does. Keys that the process makes
/// before (its session keyring) get the same label, if the policy allows that: otherwise they have the host's, and the
/// container cannot use them.
pub fn label(text: &[u8]) -> Step {
    let _ = sys::write_file(b"/proc/self/attr/keycreate\0", text);
    os(sys::write_file(b"/proc/self/attr/exec\0", text))
}
