//! The last steps: the process becomes its user, gives up its rights, appears among others, and executes its program.

use super::stdio::Stdio;
use super::{Launch, TIOCSCTTY, set_session};
use crate::fault::{Fault, Outcome, Step, detailed, errno, os};
use crate::ops;
use crate::permits::allows;
use crate::privileges::{CAP_SYS_ADMIN, CAP_SYS_PTRACE, drop_bounding, set_capabilities, set_filter, set_ids};
use crate::report::Report;
use crate::reports::{hand_over, write_report};
use crate::search::{CANDIDATE, candidate, directories};
use crate::sys::{self, *};
use crate::walls::Wall;
use crate::wire::*;
use crate::{private, user};

const PR_SET_PDEATHSIG: usize = 1;
const PR_SET_DUMPABLE: usize = 4;
const PR_SET_KEEPCAPS: usize = 8;
const PR_SET_NO_NEW_PRIVS: usize = 38;
const RLIMIT_NPROC: u32 = 6;

/// `HOME=` before the user's home, with a NUL behind it.
const HOME: &[u8] = b"HOME=";

pub struct Program<'a> {
    launch: &'a Launch<'a>,
    /// The user's home directory as a variable of the environment.
    home: [u8; 1100],
    /// The seccomp filter that is set right before the program; empty if there is none.
    filter: &'a [u8],
    /// The process that the others see sets the filter, because the filter would refuse the calls before.
    filter_last: bool,
    /// The process has these capabilities once the filter is set: permitted, inheritable and ambient ones.
    give_up: Option<[u64; 3]>,
    /// The limit of processes, which would count the helper.
    processes: Option<[u64; 2]>,
}

impl<'a> Program<'a> {
    pub fn new(launch: &'a Launch<'a>) -> Program<'a> {
        let mut home = [0; 1100];
        home[..HOME.len()].copy_from_slice(HOME);
        Program { launch, home, filter: b"", filter_last: false, give_up: None, processes: None }
    }

    /// Sets a limit of the process. A helper has the same user by then, and would count as one of the user's processes:
    /// the limit of processes is set once the helper does not count. Until then the process has a limit that it may
    /// lower.
    pub fn limit(&mut self, op: ops::Rlimit) -> Step {
        let (resource, limits) = (op.resource, [op.soft, op.hard]);
        if !self.launch.enters || resource != RLIMIT_NPROC {
            return os(sys::set_limit(resource, limits));
        }
        let most = os(sys::get_limit(resource))?[1].max(limits[1]);
        os(sys::set_limit(resource, [most, most]))?;
        self.processes = Some(limits);
        Ok(())
    }

    /// Becomes the user, and gives up the rights that the program does not have. `root`: the container's.
    pub fn become_user(&mut self, op: ops::Identity<'a>, root: i32, stdio: &Stdio) -> Step {
        let ops::Identity { flags, filter, mut inheritable, mut ambient, .. } = op;
        let ops::Credentials { bounding, for_root, mut for_others, user, groups } = op.credentials;
        if self.launch.enters {
            private::forget(self.launch.plan.bytes());
        }
        let identity = user::resolve(root, user, groups)?;
        if !Wall::UserCapabilities.stands() {
            (for_others, inheritable, ambient) = (for_root, for_root, for_root);
        }
        let no_new_privs = flags & ID_NO_NEW_PRIVS != 0;
        self.filter_last = self.launch.enters && !self.passes(filter);
        if self.filter_last {
            self.nobody_traces(bounding)?;
        }
        self.home[HOME.len()..][..identity.home_length].copy_from_slice(&identity.home[..identity.home_length]);
        stdio.give_to_process(identity.uid);
        drop_bounding(bounding)?;
        self.close_descriptors(root)?;
        // Without no_new_privs a filter needs CAP_SYS_ADMIN, so it comes before the privileges go; with it, last of
        // all.
        let early = !no_new_privs && !self.filter_last;
        if early {
            set_filter(filter)?;
        } else {
            self.filter = filter;
        }
        let keeps = if !early && !no_new_privs { CAP_SYS_ADMIN } else { 0 };
        if ambient | keeps != 0 {
            // Otherwise another user loses the permitted capabilities before they are set below.
            os(sys::prctl(PR_SET_KEEPCAPS, 1))?;
        }
        set_ids(identity.uid, identity.gid, &identity.groups[..identity.group_count])?;
        let permitted = if identity.uid == 0 { for_root } else { for_others };
        set_capabilities(permitted | keeps, inheritable, ambient)?;
        self.give_up = (keeps != 0).then_some([permitted, inheritable, ambient]);
        if no_new_privs {
            os(sys::prctl(PR_SET_NO_NEW_PRIVS, 1))?;
        }
        Ok(())
    }

    /// Whether a filter allows the calls of the process that appears among others, from its clone to its program.
    fn passes(&self, filter: &[u8]) -> bool {
        let allows = |number, arguments: &[usize]| allows(filter, number, arguments);
        allows(nr::CLONE, &[sys::SIBLING as usize])
            && allows(nr::SETSID, &[])
            && allows(nr::WRITE, &[self.launch.report as usize])
            && allows(nr::PRCTL, &[PR_SET_DUMPABLE, 0])
            && allows(nr::PRCTL, &[PR_SET_PDEATHSIG, SIGKILL as usize])
            && (!self.launch.tty || allows(nr::IOCTL, &[0, TIOCSCTTY, 0]))
            && (self.processes.is_none() || allows(nr::PRLIMIT64, &[0, RLIMIT_NPROC as usize]))
    }

    /// If the process that others see sets the filter, none of them may be able to take over that process before: it
    /// would have no filter, and without `no_new_privs` still a capability.
    fn nobody_traces(&self, bounding: u64) -> Step {
        match self.launch.others || bounding & CAP_SYS_PTRACE != 0 {
            true if Wall::FilterUntraced.stands() => Err(detailed(EPERM, DETAIL_FILTER)),
            _ => Ok(()),
        }
    }

    /// Hands over the root of a container, and closes all descriptors but the standard streams and the report, which closes at the
    /// program's start. This comes before any filter, which may not allow these calls.
    fn close_descriptors(&self, root: i32) -> Step {
        let Launch { report, init, .. } = *self.launch;
        if init < 0 && hand_over(report, Report::Root, Some(root)).is_err() {
            sys::exit(1);
        }
        if report > 3 {
            os(sys::close_range(3, report as u32 - 1, 0))?;
        }
        os(sys::close_range(report + 1, u32::MAX, 0))
    }

    /// Executes the program. A helper makes the process that does.
    pub fn execute(&mut self, ops::Exec { words }: ops::Exec<'a>) -> Step {
        let start = self.start_of(words)?;
        if self.launch.enters {
            self.appear()?;
        }
        // If the monitor ends, the kernel kills the process. If it ended before this line, the report cannot be sent.
        os(sys::prctl(PR_SET_PDEATHSIG, SIGKILL as usize))?;
        if write_report(self.launch.report, Report::Ready).is_err() {
            sys::exit(1);
        }
        set_filter(self.filter)?;
        if let Some([permitted, inheritable, ambient]) = self.give_up {
            set_capabilities(permitted, inheritable, ambient)?;
        }
        if start.program.contains(&b'/') {
            return Err(errno(start.execve(start.program)));
        }
        Err(start.search())
    }

    /// Lays out the words of the program.
    fn start_of(&self, ops::Words { argv, env }: ops::Words<'a>) -> Outcome<Start<'a>> {
        let (argc, envc) = (argv.len(), env.len());
        let count = argc + envc + 4;
        let memory = os(sys::map_memory(count * size_of::<usize>()))?;
        // SAFETY: the mapping is page-aligned, zeroed, and holds that many words.
        let words = unsafe { core::slice::from_raw_parts_mut(memory.as_mut_ptr().cast::<usize>(), count) };
        for (word, text) in words.iter_mut().zip(argv.iter()) {
            *word = text.cstr().as_ptr() as usize;
        }
        let home = self.home.as_ptr() as usize;
        let (mut path, mut has_home): (&[u8], bool) = (b"", false);
        for (word, text) in words[argc + 1..].iter_mut().zip(env.iter()) {
            let variable = text.cstr();
            if let Some(value) = variable.strip_prefix(b"PATH=") {
                path = &value[..value.len() - 1];
            }
            has_home |= variable.starts_with(HOME);
            // An empty value counts as a missing one, as with runc.
            *word = if variable == b"HOME=\0" { home } else { variable.as_ptr() as usize };
        }
        if !has_home {
            words[argc + 1 + envc] = home;
        }
        let program = argv.iter().next().unwrap_or(ops::Text::EMPTY).cstr();
        let (argv, envp) = (words.as_ptr() as usize, words[argc + 1..].as_ptr() as usize);
        Ok(Start { program, path, argv, envp })
    }

    /// In a helper: makes the process that the others see. That process alone returns, with nothing left of the host.
    fn appear(&mut self) -> Step {
        // The change of ids and capabilities set this to the value of fs.suid_dumpable.
        os(sys::prctl(PR_SET_DUMPABLE, 0))?;
        if !self.filter_last {
            set_filter(core::mem::take(&mut self.filter))?;
        }
        let pid = os(sys::fork_sibling())?;
        if pid > 0 {
            let _ = write_report(self.launch.report, Report::Appeared(pid));
            sys::exit(0)
        }
        os(set_session())?;
        if self.launch.tty {
            os(sys::ioctl(0, TIOCSCTTY, 0))?;
        }
        match self.processes {
            Some(limits) => os(sys::set_limit(RLIMIT_NPROC, limits)),
            None => Ok(()),
        }
    }
}

/// A program with its words.
struct Start<'a> {
    /// A C string.
    program: &'a [u8],
    /// The value of `PATH`.
    path: &'a [u8],
    /// Arrays of C strings that end with a null.
    argv: usize,
    envp: usize,
}

impl Start<'_> {
    /// Answers on failure alone. Tries again for a while if the program is being written: a program that was just put
    /// there may still be open in another process between its clone and its exec. The pause is not a system call,
    /// because the filter is in force.
    fn execve(&self, program: &[u8]) -> i32 {
        const ATTEMPTS: u32 = 5000;
        const SPINS: u32 = 2000;
        let mut attempt = 0;
        loop {
            // SAFETY: the path ends with a NUL; the arrays end with a null and hold C strings of the plan's mapping.
            let failed = unsafe { sys::call(nr::EXECVE, &[program.as_ptr() as usize, self.argv, self.envp]) };
            let failed = failed.err().unwrap_or(0);
            attempt += 1;
            if failed != ETXTBSY || attempt == ATTEMPTS {
                return failed;
            }
            (0..SPINS).for_each(|_| core::hint::spin_loop());
        }
    }

    /// Tries the program in every directory of `PATH`; answers on failure alone.
    fn search(&self) -> Fault {
        let mut place = [0u8; CANDIDATE];
        let name = &self.program[..self.program.len() - 1];
        for dir in directories(self.path) {
            if !candidate(&mut place, dir, name) {
                continue;
            }
            match self.execve(&place) {
                ENOENT | ENOTDIR | EACCES | ELOOP => {}
                error => return errno(error),
            }
        }
        detailed(ENOENT, DETAIL_NOT_IN_PATH)
    }
}
