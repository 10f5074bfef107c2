//! The words for a failed start: step and errno of the monitor → kind, text, exit code.

use super::spec::Spec;
use crate::error::{Error, ErrorKind};
use crate::launch::step::{Operation, Step};
use coracle_monitor::wire::*;

/// A failed start.
#[derive(Debug)]
pub(super) struct StartFailure {
    pub error: Error,
    /// The exit code that the container gets.
    pub exit_code: i32,
    /// The step of the launch that failed; the default: the start did not come to the launch.
    pub failure: Failure,
}

/// The exit code if the program was not found.
const NOT_FOUND: i32 = 127;
/// The exit code if the program was found, and cannot be executed.
const NOT_EXECUTABLE: i32 = 126;
/// Every other reason.
const NOT_STARTED: i32 = 128;

impl StartFailure {
    fn with_code(error: Error, exit_code: i32) -> StartFailure {
        StartFailure { error, exit_code, failure: Failure::default() }
    }
}

impl From<Error> for StartFailure {
    fn from(error: Error) -> StartFailure {
        StartFailure::with_code(error, NOT_STARTED)
    }
}

/// The error for a failed step of a launch.
pub(super) fn explain(failure: Failure, step: &Step, program: &str, user: &str, groups: &[String]) -> StartFailure {
    if let Some(failure) = by_detail(failure, step, program, user, groups) {
        return failure;
    }
    let reason = std::io::Error::from_raw_os_error(failure.errno).to_string();
    let reason = reason.split(" (os error").next().unwrap_or_default().to_lowercase();
    let errno = failure.errno;
    match &step.operation {
        Operation::Profile(name) => {
            let missing = if errno == libc::ENOENT { format!(": {name} is not loaded") } else { String::new() };
            let text = "unable to apply apparmor profile: apparmor failed to apply profile: \
                        write /proc/self/attr/apparmor/exec";
            Error::internal(format!("{text}: {reason}{missing}")).in_area("launch").into()
        }
        Operation::Label(label) => {
            let text = format!("unable to apply the SELinux label {label}: write /proc/self/attr/exec: {reason}");
            Error::internal(text).in_area("launch").into()
        }
        Operation::Exec => not_executed(errno, &reason, program),
        _ if errno == 0 => Error::internal(step.description.clone()).into(),
        _ => {
            let error = Error::os(&step.description, errno).with_kind(ErrorKind::Internal).in_area("launch");
            match (failure.step, errno) {
                (STEP_CLONE, libc::ENOSPC) => error.explained(&namespace_limit()).into(),
                _ => error.into(),
            }
        }
    }
}

fn not_executed(errno: i32, reason: &str, program: &str) -> StartFailure {
    match errno {
        libc::ENOENT => {
            let text = format!("exec: {program:?}: stat {program}: no such file or directory");
            StartFailure::with_code(Error::invalid(text), NOT_FOUND)
        }
        libc::EACCES | libc::EPERM => {
            StartFailure::with_code(Error::invalid(format!("exec: {program:?}: permission denied")), NOT_EXECUTABLE)
        }
        _ => Error::internal(format!("exec: {program:?}: {reason}")).into(),
    }
}

/// The limit behind the kernel's ENOSPC at the creation of namespaces; the lowest one is the likely one.
fn namespace_limit() -> String {
    const KINDS: [&str; 7] = ["net", "pid", "mnt", "ipc", "uts", "cgroup", "user"];
    let limits = KINDS.into_iter().filter_map(|kind| {
        let path = format!("/proc/sys/user/max_{kind}_namespaces");
        let limit: u64 = std::fs::read_to_string(&path).ok()?.trim().parse().ok()?;
        Some((limit, path))
    });
    match limits.min_by_key(|(limit, _)| *limit) {
        Some((limit, path)) => format!("a limit of namespaces is reached; the lowest one is {path}: {limit}"),
        None => "a limit of namespaces is reached".into(),
    }
}

/// The error for a failed step about which the monitor reports more than an error number; none: it does not.
fn by_detail(failure: Failure, step: &Step, program: &str, user: &str, groups: &[String]) -> Option<StartFailure> {
    let description = &step.description;
    let invalid = |text: String| StartFailure::from(Error::invalid(text));
    let internal = |text: String| StartFailure::from(Error::internal(text));
    let (user_name, group_name) = user.split_once(':').unwrap_or((user, ""));
    Some(match failure.detail {
        DETAIL_NOT_IN_PATH => {
            let text = format!("exec: {program:?}: executable file not found in $PATH");
            StartFailure::with_code(Error::invalid(text), NOT_FOUND)
        }
        DETAIL_NO_USER => invalid(format!("unable to find user {user_name}: no matching entries in passwd file")),
        DETAIL_NO_GROUP => {
            let group = if failure.extra == 0 {
                Some(group_name)
            } else {
                groups.get(failure.extra as usize - 1).map(String::as_str)
            };
            let group = group.unwrap_or_default();
            invalid(format!("unable to find group {group}: no matching entries in group file"))
        }
        DETAIL_BAD_ID => invalid("uids and gids must be in range 0-2147483647".into()),
        DETAIL_BAD_USER_FILE => {
            let text = "the image's /etc/passwd and /etc/group must be regular files of at most 10 MiB";
            invalid(format!("user {user:?}: {text}"))
        }
        DETAIL_IN_PROCFS => {
            let text = format!("{description}: a link of the image leads into /proc, where nothing is mounted");
            internal(text)
        }
        DETAIL_FILTER => {
            let text = "the seccomp profile refuses clone, setsid, prctl or ioctl, which a process needs that is started \
                        where others could trace it: allow them, or take SYS_PTRACE from the container";
            let error = Error::internal(format!("{description}: {text}"));
            StartFailure::with_code(error, NOT_EXECUTABLE)
        }
        DETAIL_OPERATION => {
            let name = u16::try_from(failure.extra).ok().and_then(coracle_monitor::ops::name);
            let text = match name {
                _ if failure.step == STEP_PLAN => "the monitor cannot read the plan".to_owned(),
                Some(name) => format!("{description}: the monitor cannot read the operation {name} of the plan"),
                None => format!("{description}: the monitor does not know the operation {} of the plan", failure.extra),
            };
            Error::internal(text).in_area("launch").into()
        }
        DETAIL_HIDDEN_MOUNT => {
            let text = "another mount hides one of the mounts below, which Linux before 5.12 cannot make read-only";
            internal(format!("{description}: {text}"))
        }
        DETAIL_NOT_DIR => match &step.operation {
            Operation::Directory(path) => internal(format!("Cannot mkdir: {path} is not a directory")),
            _ => return None,
        },
        _ => return None,
    })
}

/// [`explain`] for a container's own process.
pub(super) fn of_start(failure: Failure, step: &Step, spec: &Spec) -> StartFailure {
    let groups = spec.host_config.group_add.clone().unwrap_or_default();
    // Nothing has run that could have removed the devices: only a mount can have hidden them.
    let lacks_device = matches!(failure.errno, libc::ENOENT | libc::ENOTDIR | libc::EINVAL);
    if step.operation == Operation::Streams && lacks_device {
        let text = "a link of the image led a mount onto /dev or a device of the container's own";
        return StartFailure { failure, ..Error::internal(format!("{}: {text}", step.description)).into() };
    }
    StartFailure { failure, ..explain(failure, step, &spec.path, &spec.config.user, &groups) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_of_namespaces_is_named() {
        let failure = Failure { step: STEP_CLONE, errno: libc::ENOSPC, ..Failure::default() };
        let step = Step::described("make the container's namespaces");
        let text = explain(failure, &step, "sh", "", &[]).error.to_string();
        let begin = "make the container's namespaces: no space left on device (a limit of namespaces is reached";
        assert!(text.starts_with(begin) && text.contains("/proc/sys/user/max_"), "{text}");
    }
}
