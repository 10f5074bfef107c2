//! A failed start in words: step and errno of the monitor → kind, text, exit code.

use super::spec::Spec;
use crate::error::{Error, ErrorKind};
use crate::launch::plan::{LABEL, PROFILE, STREAMS};
use coracle_monitor::wire::*;

/// The error of a failed start, and the exit code that it leaves: 127 not found, 126 not executable, else 128.
pub(super) fn explain(failure: Failure, sentence: &str, program: &str, user: &str, groups: &[String]) -> (Error, i32) {
    let invalid = |text: String, code: i32| (Error::invalid(text), code);
    let is_exec = sentence.starts_with("exec: ");
    let reason = std::io::Error::from_raw_os_error(failure.errno).to_string();
    let reason = reason.split(" (os error").next().unwrap_or_default().to_lowercase();
    let (user_name, group_name) = user.split_once(':').unwrap_or((user, ""));
    match failure.detail {
        DETAIL_NOT_IN_PATH => return invalid(format!("exec: {program:?}: executable file not found in $PATH"), 127),
        DETAIL_NO_USER => {
            return invalid(format!("unable to find user {user_name}: no matching entries in passwd file"), 128);
        }
        DETAIL_NO_GROUP => {
            let group = if failure.extra == 0 {
                Some(group_name)
            } else {
                groups.get(failure.extra as usize - 1).map(String::as_str)
            };
            let group = group.unwrap_or_default();
            return invalid(format!("unable to find group {group}: no matching entries in group file"), 128);
        }
        DETAIL_BAD_ID => return invalid("uids and gids must be in range 0-2147483647".into(), 128),
        DETAIL_BAD_USER_FILE => {
            let text = "the image's /etc/passwd and /etc/group must be regular files of at most 10 MiB";
            return invalid(format!("user {user:?}: {text}"), 128);
        }
        DETAIL_IN_PROCFS => {
            let text = format!("{sentence}: a link of the image leads into /proc, where nothing is mounted");
            return (Error::new(ErrorKind::Internal, text), 128);
        }
        DETAIL_FILTER => {
            let text = "the seccomp profile refuses clone, setsid, prctl or ioctl, which a process needs that is started \
                        where others could trace it: allow them, or take SYS_PTRACE from the container";
            return (Error::new(ErrorKind::Internal, format!("{sentence}: {text}")), 126);
        }
        DETAIL_NOT_DIR if sentence.starts_with("change to directory ") => {
            let path = sentence.trim_start_matches("change to directory ");
            return (Error::new(ErrorKind::Internal, format!("Cannot mkdir: {path} is not a directory")), 128);
        }
        _ => {}
    }
    if let Some(name) = sentence.strip_prefix(PROFILE) {
        let missing = if failure.errno == libc::ENOENT { format!(": {name} is not loaded") } else { String::new() };
        let text =
            "unable to apply apparmor profile: apparmor failed to apply profile: write /proc/self/attr/apparmor/exec";
        return (Error::new(ErrorKind::Internal, format!("{text}: {reason}{missing}")).in_area("launch"), 128);
    }
    if let Some(label) = sentence.strip_prefix(LABEL) {
        let text = format!("unable to apply the SELinux label {label}: write /proc/self/attr/exec: {reason}");
        return (Error::new(ErrorKind::Internal, text).in_area("launch"), 128);
    }
    match (is_exec, failure.errno) {
        (true, libc::ENOENT) => invalid(format!("exec: {program:?}: stat {program}: no such file or directory"), 127),
        (true, libc::EACCES | libc::EPERM) => invalid(format!("exec: {program:?}: permission denied"), 126),
        (true, _) => (Error::new(ErrorKind::Internal, format!("exec: {program:?}: {reason}")), 128),
        _ if failure.errno == 0 => (Error::new(ErrorKind::Internal, sentence.to_owned()), 128),
        _ => {
            let error = Error::os(sentence, failure.errno).with_kind(ErrorKind::Internal).in_area("launch");
            (error, 128)
        }
    }
}

/// [`explain`] for a container's own process.
pub(super) fn of_start(failure: Failure, sentence: &str, spec: &Spec) -> (Error, i32) {
    let groups = spec.host_config.group_add.clone().unwrap_or_default();
    // Nothing has run that could have taken the devices away: only a mount can have hidden them.
    if sentence == STREAMS && matches!(failure.errno, libc::ENOENT | libc::ENOTDIR | libc::EINVAL) {
        let text = format!("{sentence}: a link of the image led a mount onto /dev or a device of the container's own");
        return (Error::new(ErrorKind::Internal, text), 128);
    }
    explain(failure, sentence, &spec.path, &spec.config.user, &groups)
}
