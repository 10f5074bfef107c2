//! From the first instruction to the event loop.

use crate::call::Call;
use crate::failure::{Outcome, Step, of_monitor};
use crate::in_force::InForce;
use crate::life;
use crate::monitor::{self, Monitor};
use crate::ops::{Bad, LogBuffer, Note, Plan};
use crate::record::RecordFiles;
use crate::restart::{Policy, Restarts};
use crate::rotate::Files;
use crate::streams;
use crate::subjects::{LEASE, SIGNALS, token};
use crate::sys::{self, *};
use crate::wire::*;

/// The boot socket.
const BOOT: i32 = 3;

/// Called by the entry point, once.
pub extern "C" fn main() -> ! {
    // SAFETY: the entry point calls this function once.
    let monitor = unsafe { monitor::make() };
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

/// The second word of the command line lists the walls that the library switched off. The third word has the seconds of
/// [`entry`].
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
    // The kernel's default; 0 would keep the slack of the host program.
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
    // The monitor stays in the cgroup of the host's service; only the child joins the container's.
}

/// The host program sets soft limits for its own needs; the administrator sets hard limits, which stay. So a container
/// gets the soft limits that the kernel gives its first process, as far as the hard limits allow.
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
                // Bounded, because programs that close every possible descriptor would take minutes.
                NOFILE => limits[1].min(1 << 20),
                _ => limits[1],
            };
            let _ = sys::call(nr::PRLIMIT64, &[0, resource, limits.as_ptr() as usize, 0]);
        }
    }
}

/// Reports to the library that the start failed before anything ran.
pub fn answer_boot(failure: Failure) {
    let answer =
        Answer { magic: MESSAGE_MAGIC, version: VERSION, errno: failure.errno.max(1), failure, ..Answer::default() };
    let _ = sys::send(BOOT, &answer.to_bytes());
}

impl Monitor {
    /// Takes the boot messages: descriptors and plan, sessions that are attached before the start, and the call to go.
    fn boot(&mut self) -> Step {
        let mut fds = [-1i32; MAX_FDS];
        let (request, count) = loop {
            let (request, count) = receive(&mut fds)?;
            match Call::of(&request) {
                Some(Call::NewNetwork) => {
                    self.supplies.new_network.set(crate::net::new_namespace().map_err(of_monitor)?);
                }
                _ => break (request, count),
            }
        };
        if count < BOOT_FDS || request.version != VERSION {
            return Err(of_monitor(EINVAL));
        }
        self.boot.set(BOOT);
        self.lock.set(fds[BOOT_LOCK]);
        for (place, &fd) in self.supplies.namespaces.iter_mut().zip(&fds[BOOT_FDS..count]) {
            place.set(fd);
        }
        let plan = self.take_plan(fds[BOOT_PLAN])?;
        self.record.open(
            RecordFiles {
                run_dir: fds[BOOT_RUN_DIR],
                run_states: fds[BOOT_RUN_STATES],
                root_states: fds[BOOT_ROOT_STATES],
                journal: fds[BOOT_EVENTS],
            },
            self.header.slot,
        );
        self.prepare_worker(plan, fds[BOOT_CONTAINER_DIR]).map_err(of_monitor)?;
        self.prepare(request)?;
        loop {
            let (request, count) = receive(&mut fds)?;
            match Call::of(&request) {
                Some(Call::Attach { streams }) => {
                    let _ = streams::attach(&mut self.link, &mut self.supplies.direct, streams, &fds[..count]);
                }
                Some(Call::Volume { index }) => match self.supplies.volumes.get_mut(index as usize) {
                    Some(place) if count == 1 => place.set(fds[0]),
                    _ => return Err(of_monitor(EINVAL)),
                },
                Some(Call::Lease) if count == 1 => {
                    self.supplies.lease.set(fds[0]);
                    // The kernel reports the end of a lease even if no events are requested.
                    sys::epoll_ctl(self.epoll, ADD, fds[0], 0, token(LEASE, 0)).map_err(of_monitor)?;
                }
                Some(Call::Go) => return Ok(()),
                _ => return Err(of_monitor(EINVAL)),
            }
        }
    }

    /// Reads the plan.
    fn take_plan(&mut self, memfd: i32) -> Outcome<Plan<'static>> {
        let length = sys::fstat(memfd).map_err(of_monitor)?.size as usize;
        let bytes = sys::map_file(memfd, length).map_err(of_monitor)?;
        sys::close(memfd);
        let plan = Plan::check(bytes).map_err(Bad::failure)?;
        self.header = plan.header().ok_or(of_monitor(EINVAL))?;
        self.groups.set_plan(plan);
        self.restarts = Restarts::new(Policy { name: self.header.restart, most: self.header.restart_max });
        self.record.read(plan);
        if let Some(health) = plan.find() {
            self.health.configure(health).map_err(Bad::failure)?;
        }
        Ok(plan)
    }

    /// The tables that the first worker begins with, and its log.
    fn prepare_worker(&mut self, plan: Plan<'static>, container_dir: i32) -> Result<()> {
        let header = &self.header;
        self.link.worker.set_plan(InForce::first(plan));
        let worker = &mut self.link.worker;
        worker.flags = header.flags;
        (worker.run_dir, worker.container_dir) = (self.record.run_dir(), container_dir);
        worker.run_states = self.record.run_states();
        if header.flags & FLAG_LOG != 0 {
            let note = |wanted| plan.each::<Note>().find(|(_, note)| note.kind == wanted).map(|(_, note)| note.text);
            let name = note(STRING_LOG_NAME).map_or(&b"\0"[..], |text| text.cstr());
            let compress = header.flags & FLAG_LOG_COMPRESS != 0;
            self.link.files =
                Files::new(container_dir, name, header.log_max_size, header.log_max_file.max(1), compress);
            if let Some(cursor) = note(STRING_LOG_CURSOR) {
                self.link.files.wait_for(cursor.cstr());
            }
            if note(STRING_LOG_SHIPPED).is_some() {
                self.link.shipping.begin(sys::monotonic());
            }
            worker.outputs.log.set_attributes(note(STRING_LOG_ATTRS).map_or(b"", |text| text.bytes()));
            let file = self.link.files.open()?;
            let log = &mut worker.outputs.log;
            log.file = match plan.find() {
                Some(LogBuffer { most }) => self.link.buffered.begin(most, (log.room(), log.around()), file)?,
                None => file,
            };
        }
        Ok(())
    }

    /// Opens everything that the loop waits for.
    fn prepare(&mut self, request: Request) -> Step {
        // SAFETY: no arguments.
        let pid = unsafe { sys::call(nr::GETPID, &[]) }.unwrap_or(0) as i32;
        self.record.begin(request.boot, request.d as u32, pid).ok_or(of_monitor(EINVAL))?;
        sys::fchdir(self.record.run_dir()).map_err(of_monitor)?;
        self.epoll = sys::epoll_create().map_err(of_monitor)?;
        self.signals.set(sys::child_signals().map_err(of_monitor)?);
        self.control.listen(self.epoll).map_err(of_monitor)?;
        #[cfg(feature = "attacks")]
        if !crate::walls::Wall::NamedSockets.stands() {
            let mut name = *b"\0coracle-\0\0\0\0\0\0\0\0\0\0\0\0";
            crate::text::decimal(&mut name[9..], i64::from(pid));
            // The socket stays open until this process ends.
            let _ = sys::listen_at(&name);
        }
        self.execs.listen(self.epoll);
        self.link.ways.set_epoll(self.epoll);
        self.link.buffered.set_epoll(self.epoll);
        self.link.ways.open().map_err(of_monitor)?;
        self.network.take_ports(&mut self.supplies.namespaces, &mut self.link);
        sys::epoll_ctl(self.epoll, ADD, self.signals.raw(), EPOLLIN, token(SIGNALS, 0)).map_err(of_monitor)
    }
}

/// Receives a boot message: the request, and how many descriptors came with it.
fn receive(fds: &mut [i32; MAX_FDS]) -> Outcome<(Request, usize)> {
    let mut bytes = [0u8; REQUEST_LEN];
    let (got, count) = sys::recv_fds(BOOT, &mut bytes, fds, true).map_err(of_monitor)?;
    Ok((Request::from_bytes(&bytes[..got]).ok_or(of_monitor(EINVAL))?, count))
}
