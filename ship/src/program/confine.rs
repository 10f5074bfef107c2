//! The rights that the shipper gives up. Receivers, and the files of containers, are not to be trusted: an attacker
//! who takes the shipper over can read what its user may read, write into the outbox and the FIFOs of plugins, and connect: also
//! to UNIX sockets of other programs, which may trust this user.

use crate::sys::{self, Changes};
use seccompiler::{
    BpfProgram, BpfProgramRef, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter_all_threads,
};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// Gives up all capabilities for good.
pub(super) fn give_up_rights() -> io::Result<()> {
    sys::no_new_privileges()?;
    sys::no_capabilities()
}

/// From now on, where the kernel has Landlock, nothing can be changed or made but files of the outbox and FIFOs to plugins,
/// and nothing executed.
pub(super) fn write_only_below(outbox: &Path, fifos: &[PathBuf]) -> io::Result<()> {
    let fifos = fifos.iter().map(|dir| (dir.as_path(), Changes::Fifos));
    let places: Vec<_> = [(outbox, Changes::Files)].into_iter().chain(fifos).collect();
    match sys::restrict_writes(&places) {
        // A kernel without it, or with another list of security modules; a container of the host program that refuses the call.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EOPNOTSUPP | libc::EPERM)) => Ok(()),
        done => done,
    }
}

/// The calls that a worker makes, apart from those of [`conditions`]. Everything else is refused.
const CALLS: &[libc::c_long] = &[
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_lseek,
    libc::SYS_close,
    libc::SYS_openat,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_readlinkat,
    libc::SYS_getdents64,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_ftruncate,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_unlinkat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_mkdirat,
    libc::SYS_mknodat,
    libc::SYS_fgetxattr,
    libc::SYS_flock,
    libc::SYS_fcntl,
    libc::SYS_dup,
    libc::SYS_memfd_create,
    libc::SYS_inotify_init1,
    libc::SYS_inotify_add_watch,
    libc::SYS_inotify_rm_watch,
    libc::SYS_eventfd2,
    libc::SYS_ppoll,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_futex,
    libc::SYS_clone3,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_sigaltstack,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_restart_syscall,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_gettimeofday,
    libc::SYS_getrandom,
    libc::SYS_uname,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// Calls of the same kind that only this processor has.
#[cfg(target_arch = "x86_64")]
const OLDER_CALLS: &[libc::c_long] = &[
    libc::SYS_open,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_readlink,
    libc::SYS_unlink,
    libc::SYS_rmdir,
    libc::SYS_rename,
    libc::SYS_mkdir,
    libc::SYS_mknod,
    libc::SYS_poll,
    libc::SYS_time,
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER_CALLS: &[libc::c_long] = &[];

/// An argument, the bits of it that count, and the values that they may have.
type Condition = (u8, u32, &'static [u32]);

/// Calls that are allowed with some arguments.
fn conditions() -> Vec<(libc::c_long, Condition)> {
    const EXEC: u32 = libc::PROT_EXEC as u32;
    const THREAD: u32 = libc::CLONE_THREAD as u32;
    const FAMILIES: &[u32] =
        &[libc::AF_UNIX as u32, libc::AF_INET as u32, libc::AF_INET6 as u32, libc::AF_NETLINK as u32];
    const REQUESTS: &[u32] = &[libc::FIONREAD as u32, libc::TIOCOUTQ as u32, libc::FIONBIO as u32];
    vec![
        // Nothing new is executed, and there are threads but no processes.
        (libc::SYS_mmap, (2, EXEC, &[0])),
        (libc::SYS_mprotect, (2, EXEC, &[0])),
        (libc::SYS_clone, (0, THREAD, &[THREAD])),
        (libc::SYS_prctl, (0, u32::MAX, &[libc::PR_SET_NAME as u32])),
        (libc::SYS_socket, (0, u32::MAX, FAMILIES)),
        (libc::SYS_ioctl, (1, u32::MAX, REQUESTS)),
    ]
}

/// From now on only the calls of the lists are possible, for all threads.
pub(super) fn allow_only_delivery() -> io::Result<()> {
    allow_with(apply_filter_all_threads)
}

/// `apply` gives a filter to all threads, or to this one and those that this one makes.
fn allow_with(apply: fn(BpfProgramRef<'_>) -> Result<(), seccompiler::Error>) -> io::Result<()> {
    let failed = |error: seccompiler::Error| io::Error::other(error.to_string());
    let list: BpfProgram = list().and_then(|filter| filter.try_into().map_err(Into::into)).map_err(failed)?;
    let clone: BpfProgram =
        clone_in_parts().and_then(|filter| filter.try_into().map_err(Into::into)).map_err(failed)?;
    // The list allows no further filter.
    apply(&clone).map_err(failed)?;
    apply(&list).map_err(failed)
}

fn arch() -> Result<TargetArch, seccompiler::Error> {
    Ok(TargetArch::try_from(std::env::consts::ARCH)?)
}

fn list() -> Result<SeccompFilter, seccompiler::Error> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        CALLS.iter().chain(OLDER_CALLS).map(|call| (*call, Vec::new())).collect();
    for (call, (index, bits, values)) in conditions() {
        let same = SeccompCmpOp::MaskedEq(u64::from(bits));
        let rule = |value: &u32| -> Result<SeccompRule, seccompiler::Error> {
            let test = SeccompCondition::new(index, SeccompCmpArgLen::Dword, same.clone(), u64::from(*value))?;
            Ok(SeccompRule::new(vec![test])?)
        };
        rules.insert(call, values.iter().map(rule).collect::<Result<_, _>>()?);
    }
    let refuse = SeccompAction::Errno(libc::EPERM as u32);
    Ok(SeccompFilter::new(rules, refuse, SeccompAction::Allow, arch()?)?)
}

/// A filter cannot read the flags of clone3. The C library makes threads by clone if clone3 is missing.
fn clone_in_parts() -> Result<SeccompFilter, seccompiler::Error> {
    let rules = [(libc::SYS_clone3, Vec::new())].into();
    let absent = SeccompAction::Errno(libc::ENOSYS as u32);
    Ok(SeccompFilter::new(rules, SeccompAction::Allow, absent, arch()?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_call_leads_to_another_program_or_to_more_rights() {
        let calls = [
            libc::SYS_execve,
            libc::SYS_execveat,
            libc::SYS_ptrace,
            libc::SYS_mount,
            libc::SYS_setns,
            libc::SYS_unshare,
            libc::SYS_bpf,
            libc::SYS_kill,
            libc::SYS_tgkill,
            libc::SYS_pidfd_getfd,
            libc::SYS_process_vm_writev,
            libc::SYS_listen,
            libc::SYS_accept4,
            libc::SYS_fchmod,
            libc::SYS_fchown,
            libc::SYS_linkat,
            libc::SYS_symlinkat,
            libc::SYS_io_uring_setup,
            libc::SYS_keyctl,
            libc::SYS_capset,
            libc::SYS_seccomp,
        ];
        let allowed = |call: &libc::c_long| CALLS.contains(call) || OLDER_CALLS.contains(call);
        assert!(!calls.iter().any(|call| allowed(call) || conditions().iter().any(|(number, _)| number == call)));
    }

    #[test]
    fn a_confined_thread_delivers_and_does_nothing_else() {
        // Of its own: a filter cannot be taken off.
        let confined = std::thread::spawn(|| {
            sys::no_new_privileges().unwrap();
            allow_with(seccompiler::apply_filter).unwrap();
            let inner = std::thread::spawn(|| 7).join().unwrap();
            let refused = std::process::Command::new("/bin/true").status().unwrap_err();
            let listened = std::net::TcpListener::bind("127.0.0.1:0").unwrap_err();
            let sent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().send_to(b"x", "127.0.0.1:9").unwrap();
            (inner, refused.raw_os_error(), listened.raw_os_error(), sent)
        });
        assert_eq!(confined.join().unwrap(), (7, Some(libc::EPERM), Some(libc::EPERM), 1));
    }
}
