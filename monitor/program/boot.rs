//! From the first instruction to the event loop.

use crate::call::Call;
use crate::cgroup::Groups;
use crate::in_force::InForce;
use crate::life;
use crate::oom::Oom;
use crate::ops::{Bad, Note, Plan};
use crate::record::{Record, RecordFiles};
use crate::restart::{Policy, Restarts};
use crate::rotate::Files;
use crate::streams::Streams;
use crate::sys::{self, *};
use crate::wire::*;

/// The boot socket.
const BOOT: i32 = 3;

/// Requests of one client at a time; the tables below bound everything that a client can make the monitor hold.
pub const MAX_CLIENTS: usize = 256;
pub const MAX_EXECS: usize = 64;

/// Everything that the monitor knows. One, static, zero at the beginning: nothing is allocated while it runs but stream
/// buffers.
pub struct Monitor {
    pub header: Header,
    pub plan: InForce,
    pub run_dir: i32,
    pub container_dir: i32,
    pub lock: i32,
    pub namespaces: [i32; MAX_FDS],
    /// Mount namespaces of volumes that are mounted once for all who use them.
    pub volumes: [i32; MAX_VOLUMES],
    pub epoll: i32,
    pub listener: i32,
    pub signals: i32,
    pub groups: Groups,
    pub oom: Oom,
    pub record: Record,
    pub init: i32,
    pub init_pidfd: i32,
    pub devpts: i32,
    /// The container's root. It outlives the container's mount namespace until everybody knows of the end: letting an
    /// overlay go writes out the whole file system below it, which takes a millisecond, or seconds where others write.
    pub root: i32,
    /// The container's mount namespace, kept as long: the process that takes it along takes its time to end.
    pub mounts: i32,
    /// When the stack that a further process took is given back, by the monotonic clock; 0: it was.
    pub tidy_at: i64,
    pub master: i32,
    pub stdin: i32,
    /// Descriptors that the next process gets as its standard streams; -1: it gets pipes.
    pub direct: [i32; 3],
    pub streams: Streams,
    pub log: crate::jsonlog::Log<'static, crate::logfile::LogFile>,
    pub files: Files,
    pub worker: crate::orders::Worker,
    pub clients: [crate::control::Client; MAX_CLIENTS],
    /// The last one is the health check's.
    pub execs: [crate::exec::Exec; MAX_EXECS + 1],
    pub health: crate::health::Health,
    pub dns: crate::dns::Dns,
    pub relay: crate::relay::Relay,
    /// Keeps published ports from other programs; -1: there are none.
    pub hold: i32,
    pub kept: crate::keep::Kept,
    /// A network namespace that nobody is in yet; -1: there is none.
    pub new_network: i32,
    pub restarts: Restarts,
    /// The first process was sent SIGKILL.
    pub killed: bool,
    /// The receiver of the result of the first start: the boot socket, then nobody.
    pub boot: i32,
}

// SAFETY: all members are integers, arrays of integers, and slices whose static null form is never read: `plan` and the
// strings are set before anything uses them.
static mut MONITOR: core::mem::MaybeUninit<Monitor> = core::mem::MaybeUninit::zeroed();

/// In a child that needs the monitor no more: what the monitor knows reads as zeroes. Where pages are larger than 4 KiB this
/// does nothing.
pub fn forget() {
    const PAGE: usize = 4 << 10;
    let start = (&raw const MONITOR) as usize;
    let (from, to) = (start.next_multiple_of(PAGE), (start + size_of::<Monitor>()) & !(PAGE - 1));
    // SAFETY: the pages lie within a static without initial contents, of which zeroes are a value; a child between clone and
    // exec holds references into it, of which it reads numbers alone, and none of them again.
    unsafe { sys::zero_range(from, to) };
}

/// Called by the entry point, once.
pub extern "C" fn main() -> ! {
    // SAFETY: the only reference ever made, in the only thread. Zeroes are valid for every member but the slices, which
    // are written here before the reference is used.
    let monitor = unsafe {
        let place = (&raw mut MONITOR).cast::<Monitor>();
        (&raw mut (*place).plan).write(InForce::NONE);
        (&raw mut (*place).groups).write(Groups::new(Plan::EMPTY));
        (&raw mut (*place).oom).write(Oom::new());
        (&raw mut (*place).restarts).write(Restarts::NONE);
        Record::init(&raw mut (*place).record);
        (&raw mut (*place).files).write(Files::NONE);
        (&raw mut (*place).worker).write(crate::orders::Worker::NONE);
        Streams::init(&raw mut (*place).streams);
        (&raw mut (*place).log).write(crate::jsonlog::Log::new(crate::logfile::LogFile::NONE));
        crate::dns::init(&raw mut (*place).dns);
        crate::relay::init(&raw mut (*place).relay);
        crate::exec::init(&raw mut (*place).execs);
        &mut *place
    };
    reset_process();
    #[cfg(feature = "attacks")]
    take_switches();
    crate::rights::keep_used();
    if let Err(failure) = monitor.boot() {
        answer_boot(failure);
        sys::exit(1);
    }
    life::run(monitor)
}

/// The second word of the command line is the library's list of walls that are off, the third one the seconds of [`entry`].
///
/// [`entry`]: crate::entry
#[cfg(feature = "attacks")]
fn take_switches() {
    let mut text = [0u8; 4096];
    let length = sys::read_file(b"/proc/self/cmdline\0", &mut text).unwrap_or(0);
    let mut words = text[..length].split(|&byte| byte == 0).skip(1);
    if let Some(list) = words.next() {
        crate::walls::Wall::switch_off(list);
    }
    if let Some(seconds) = words.next() {
        crate::entry::set(seconds);
    }
}

/// Nothing inherited from the host program is trusted: signals, mask, session, scheduling, limits.
fn reset_process() {
    const PR_SET_DUMPABLE: usize = 4;
    const PR_SET_NAME: usize = 15;
    const PR_SET_TIMERSLACK: usize = 29;
    for signal in 1..=64 {
        sys::set_signal(signal, 0);
    }
    sys::block_signals(true);
    sys::set_signal(SIGPIPE, 1);
    let _ = sys::close_range(BOOT + 1, u32::MAX, 0);
    for fd in 0..3 {
        let null = sys::openat(AT_FDCWD, b"/dev/null\0", O_RDWR, 0);
        if let Ok(null) = null {
            let _ = sys::dup_to(null, fd);
            if null > BOOT {
                sys::close(null);
            }
        }
    }
    if let Ok(filter) = sys::openat(AT_FDCWD, b"/proc/self/coredump_filter\0", O_WRONLY, 0) {
        let _ = sys::write_all(filter, b"0x33");
        sys::close(filter);
    }
    let _ = sys::prctl(PR_SET_DUMPABLE, 0);
    let _ = sys::prctl(PR_SET_NAME, c"coracle-monitor".as_ptr() as usize);
    // The kernel's default; 0 would be the host's.
    let _ = sys::prctl(PR_SET_TIMERSLACK, 50_000);
    let priority = 0u32;
    let every_cpu = [u64::MAX; 16];
    // SAFETY: the mask lives over the call; the others take numbers alone.
    unsafe {
        let _ = sys::call(nr::SETSID, &[]);
        let _ = sys::call(nr::UMASK, &[0o022]);
        let _ = sys::call(nr::PERSONALITY, &[0]);
        let _ = sys::call(nr::SCHED_SETSCHEDULER, &[0, 0, (&raw const priority) as usize]);
        let _ = sys::call(nr::SETPRIORITY, &[0, 0, 0]);
        let _ = sys::call(nr::IOPRIO_SET, &[1, 0, 0]);
        let _ = sys::call(nr::SCHED_SETAFFINITY, &[0, size_of_val(&every_cpu), every_cpu.as_ptr() as usize]);
        let _ = sys::call(nr::CHDIR, &[c"/".as_ptr() as usize]);
    }
    reset_limits();
    // The process must be able to end up in no cgroup of the host's service: the child joins its own; the monitor stays.
}

/// Soft limits are the host program's own business (what it needs for itself); hard ones are the administrator's and
/// stay. So a container gets what the kernel gives its first process, as far as the hard limits go.
fn reset_limits() {
    const STACK: usize = 3;
    const CORE: usize = 4;
    const NOFILE: usize = 7;
    const COUNT: usize = 16;
    for resource in 0..COUNT {
        let mut limits = [0u64; 2];
        // SAFETY: the array lives over both calls.
        unsafe {
            if sys::call(nr::PRLIMIT64, &[0, resource, 0, limits.as_mut_ptr() as usize]).is_err() {
                continue;
            }
            limits[0] = match resource {
                STACK => limits[1].min(8 << 20),
                CORE => 0,
                // Not without end: programs that close every possible descriptor would take minutes.
                NOFILE => limits[1].min(1 << 20),
                _ => limits[1],
            };
            let _ = sys::call(nr::PRLIMIT64, &[0, resource, limits.as_ptr() as usize, 0]);
        }
    }
}

/// Tells the library that the start failed before anything ran.
pub fn answer_boot(failure: Failure) {
    let answer =
        Answer { magic: MESSAGE_MAGIC, version: VERSION, errno: failure.errno.max(1), failure, ..Answer::default() };
    let _ = sys::send(BOOT, &answer.to_bytes());
}

fn broken(errno: i32) -> Failure {
    Failure { step: STEP_MONITOR, errno, ..Failure::default() }
}

impl Monitor {
    /// Takes the boot messages: descriptors and plan, sessions that are attached before the start, and the word to go.
    fn boot(&mut self) -> core::result::Result<(), Failure> {
        let mut fds = [-1i32; MAX_FDS];
        let mut bytes = [0u8; REQUEST_LEN];
        self.new_network = -1;
        let (request, count) = loop {
            let (got, count) = sys::recv_fds(BOOT, &mut bytes, &mut fds, true).map_err(broken)?;
            let request = Request::from_bytes(&bytes[..got]).ok_or(broken(EINVAL))?;
            match Call::of(&request) {
                Some(Call::NewNetwork) => self.new_network = crate::net::new_namespace().map_err(broken)?,
                _ => break (request, count),
            }
        };
        if count < BOOT_FDS || request.version != VERSION {
            return Err(broken(EINVAL));
        }
        self.take_descriptors(&fds, count);
        self.take_plan(fds[BOOT_PLAN])?;
        let files = RecordFiles {
            run_states: fds[BOOT_RUN_STATES],
            root_states: fds[BOOT_ROOT_STATES],
            journal: fds[BOOT_EVENTS],
        };
        self.record.open(files, self.header.slot);
        self.prepare(request)?;
        loop {
            let (got, count) = sys::recv_fds(BOOT, &mut bytes, &mut fds, true).map_err(broken)?;
            let request = Request::from_bytes(&bytes[..got]).ok_or(broken(EINVAL))?;
            match Call::of(&request) {
                Some(Call::Attach { streams }) => {
                    let _ = self.attach(streams, &fds[..count]);
                }
                Some(Call::Volume { index }) => match self.volumes.get_mut(index as usize) {
                    Some(place) if count == 1 => *place = fds[0],
                    _ => return Err(broken(EINVAL)),
                },
                Some(Call::Go) => return Ok(()),
                _ => return Err(broken(EINVAL)),
            }
        }
    }

    fn take_descriptors(&mut self, fds: &[i32; MAX_FDS], count: usize) {
        self.run_dir = fds[BOOT_RUN_DIR];
        self.container_dir = fds[BOOT_CONTAINER_DIR];
        self.lock = fds[BOOT_LOCK];
        self.namespaces = [-1; MAX_FDS];
        self.namespaces[..count - BOOT_FDS].copy_from_slice(&fds[BOOT_FDS..count]);
        self.boot = BOOT;
        self.init = 0;
        (self.init_pidfd, self.devpts, self.master, self.stdin) = (-1, -1, -1, -1);
        (self.root, self.mounts) = (-1, -1);
        self.volumes = [-1; MAX_VOLUMES];
        self.direct = [-1; 3];
        self.hold = -1;
        self.kept = crate::keep::Kept::NOTHING;
    }

    fn take_plan(&mut self, memfd: i32) -> core::result::Result<(), Failure> {
        let length = sys::fstat(memfd).map_err(broken)?.size as usize;
        let bytes = sys::map_file(memfd, length).map_err(broken)?;
        sys::close(memfd);
        let plan = Plan::check(bytes).map_err(Bad::failure)?;
        let header = plan.header().ok_or(broken(EINVAL))?;
        (self.header, self.plan, self.groups) = (header, InForce::first(plan), Groups::new(plan));
        self.restarts = Restarts::new(Policy { name: header.restart, most: header.restart_max });
        self.record.read(plan);
        let mut log_name: &'static [u8] = b"\0";
        let mut log_attrs: &'static [u8] = b"";
        for (_, Note { kind, text }) in plan.each() {
            match kind {
                STRING_LOG_NAME => log_name = text.cstr(),
                STRING_LOG_ATTRS => log_attrs = text.bytes(),
                _ => {}
            }
        }
        if let Some(health) = plan.find() {
            self.health.configure(health).map_err(Bad::failure)?;
        }
        self.read_resolver();
        if header.flags & FLAG_LOG != 0 {
            let compress = header.flags & FLAG_LOG_COMPRESS != 0;
            self.files =
                Files::new(self.container_dir, log_name, header.log_max_size, header.log_max_file.max(1), compress);
            self.log.set_attributes(log_attrs);
            // The first worker's.
            self.log.file = self.files.open(-1).map_err(broken)?;
        }
        Ok(())
    }

    fn prepare(&mut self, request: Request) -> core::result::Result<(), Failure> {
        // SAFETY: no arguments.
        let pid = unsafe { sys::call(nr::GETPID, &[]) }.unwrap_or(0) as i32;
        self.record.begin(request.boot, request.d as u32, pid).ok_or(broken(EINVAL))?;
        sys::fchdir(self.run_dir).map_err(broken)?;
        self.epoll = sys::epoll_create().map_err(broken)?;
        self.signals = sys::child_signals().map_err(broken)?;
        let _ = sys::unlinkat(self.run_dir, b"ctl\0", 0);
        self.listener = sys::listen_at(b"ctl").map_err(broken)?;
        #[cfg(feature = "attacks")]
        if !crate::walls::Wall::NamedSockets.stands() {
            let mut name = *b"\0coracle-\0\0\0\0\0\0\0\0\0\0\0\0";
            crate::text::decimal(&mut name[9..], i64::from(self.record.state.monitor_pid));
            // Left open to the process's end.
            let _ = sys::listen_at(&name);
        }
        self.begin_worker().map_err(broken)?;
        self.take_ports();
        sys::epoll_ctl(self.epoll, ADD, self.signals, EPOLLIN, life::token(life::SIGNALS, 0)).map_err(broken)?;
        sys::epoll_ctl(self.epoll, ADD, self.listener, EPOLLIN, life::token(life::LISTENER, 0)).map_err(broken)
    }
}
