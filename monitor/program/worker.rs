//! The worker: the half of the monitor that reads what a container made. It copies output and input, writes the log,
//! answers names and relays connections; it begins as a copy of the launcher, keeps the few descriptors that it needs,
//! and gives up its rights before it reads the first byte (`confine`). It asks the launcher for everything that it
//! cannot do any more (`launcher`).

use crate::confine;
use crate::dns::Dns;
use crate::fd::{self, Fd, close_all};
use crate::filter::WORKER;
use crate::in_force::InForce;
use crate::inputs::Inputs;
use crate::launcher::Launcher;
use crate::message::{self, MESSAGE, Message, ORDER};
use crate::open_set::OpenSet;
use crate::ops::Plan;
use crate::outputs::{NewOutput, Outputs, STDERR, STDOUT};
use crate::owners::{CHECK_OUTPUT, CONTAINER};
use crate::relay::Relay;
use crate::subjects::{BACK, DNS, INPUT, ORDERS, OUTPUT, PORT, SIDE, SINK, TARGET, subject, token};
use crate::sys::{self, *};
use crate::timers;
use crate::wire::*;

/// The exit code when the launcher is gone.
const GONE: i32 = 0;
/// The exit code when the rights could not be given up.
const NOT_CONFINED: i32 = 71;
/// As many descriptors as the kernel's hard limit allows.
const MOST_FDS: usize = 1 << 20;

/// Everything that the worker works with. The launcher has the same tables with copies of the descriptors, and never
/// reads or writes the streams.
pub struct Worker {
    /// `FLAG_*` of the plan's head.
    pub flags: u32,
    /// The reading ends of the container's own output. If a worker dies, the next one reads the rest.
    pub sources: [Fd; 2],
    /// The end of the container's input.
    pub stdin: Fd,
    /// The run directory.
    pub run_dir: i32,
    /// The container's directory.
    pub container_dir: i32,
    /// The states of running containers.
    pub run_states: i32,
    plan: InForce,
    epoll: i32,
    orders: i32,
    pub dns: Dns,
    pub inputs: Inputs,
    pub outputs: Outputs,
    pub relay: Relay,
}

/// In the child of the fork. `runs`: the container runs already.
pub fn run(worker: &mut Worker, orders: i32, launcher: Launcher, runs: bool) -> ! {
    worker.orders = orders;
    let errno = worker.confine(launcher).err().unwrap_or(0);
    launcher.notify(Message { code: message::CONFINED, b: errno as u64, ..Message::default() });
    if errno != 0 {
        sys::exit(NOT_CONFINED);
    }
    worker.open_all(runs);
    sys::drop_stack();
    let mut events = [EpollEvent::default(); 32];
    loop {
        let due = timers::earliest([worker.dns.due(), worker.outputs.due()]);
        let wait = if worker.relay.is_busy() { 0 } else { timers::wait_ms(due, sys::monotonic()) };
        let count = sys::epoll_wait(worker.epoll, &mut events, wait).unwrap_or(0);
        for event in &events[..count] {
            let (kind, index) = subject(event.data);
            worker.work(kind, index, event.events);
        }
        worker.dns.tick();
        worker.outputs.tick();
        worker.relay.tick();
    }
}

impl Worker {
    /// # Safety
    /// `place` is valid for writing and zero, and nothing refers to it.
    pub unsafe fn init(place: *mut Worker) {
        // SAFETY: within the structure; zeroes are values of all other fields.
        unsafe {
            (&raw mut (*place).plan).write(InForce::NONE);
            Outputs::init(&raw mut (*place).outputs);
            Dns::init(&raw mut (*place).dns);
            Relay::init(&raw mut (*place).relay);
        }
    }

    pub fn plan(&self) -> Plan<'static> {
        self.plan.plan()
    }

    /// Reads the parts of the plan that the worker works with.
    pub fn set_plan(&mut self, plan: InForce) {
        self.dns.read(plan.plan());
        self.relay.read(plan.plan());
        self.plan = plan;
    }

    /// Another plan is in force; the one before is unmapped.
    pub fn replace_plan(&mut self, plan: Plan<'static>) {
        self.plan.replace(plan);
        self.dns.read(plan);
        self.relay.read(plan);
    }

    /// Leaves everything behind that the worker does not need.
    fn confine(&mut self, launcher: Launcher) -> Result<()> {
        const PR_SET_NAME: usize = 15;
        const PR_SET_PDEATHSIG: usize = 1;
        let _ = sys::prctl(PR_SET_NAME, c"coracle-worker".as_ptr() as usize);
        sys::prctl(PR_SET_PDEATHSIG, SIGKILL as usize)?;
        crate::logfile::begin(&mut self.outputs.log)?;
        let states = fd::reopen(self.run_states, O_RDONLY)?;
        // The locks of a file show which containers live.
        let alive = sys::openat(self.container_dir, b"../../alive\0", O_RDONLY, 0).unwrap_or(-1);
        let mut highest = 0;
        let mut open = OpenSet::new(sys::map_memory(MOST_FDS / 8)?);
        let log = &self.outputs.log.file;
        let single = [self.orders, launcher.socket(), log.fd, states, self.run_dir, alive, self.stdin.raw()];
        let sources = self.sources.iter().map(Fd::raw);
        let sockets = self.dns.sockets().map(|(_, fd)| fd).chain(self.relay.sockets());
        for fd in single.into_iter().chain(sources).chain(sockets) {
            open.add(fd);
            highest = highest.max(fd);
        }
        open.each_gap(3, highest, |first, last| sys::close_range(first as i32, last, 0))?;
        sys::unmap(open.into_memory());
        self.run_states = states;
        self.epoll = sys::epoll_create()?;
        self.outputs.begin(self.epoll, launcher);
        self.inputs.begin(self.epoll, launcher);
        self.relay.begin(self.epoll);
        self.dns.begin(self.epoll, launcher, crate::names::Files { run_dir: self.run_dir, states, alive });
        // The files of names and of states lie below the directory of everything that runs.
        let running = Fd::new(sys::openat(self.run_dir, b"../..\0", O_PATH | O_DIRECTORY, 0)?);
        confine::enter_root(running.raw())?;
        confine::give_up(WORKER, running.raw())?;
        drop(running);
        sys::epoll_ctl(self.epoll, ADD, self.orders, EPOLLIN, token(ORDERS, 0))
    }

    /// Takes the descriptors that an earlier worker left, or that the start made.
    fn open_all(&mut self, runs: bool) {
        let log = self.flags & FLAG_LOG != 0;
        for index in [STDOUT, STDERR] {
            // The outputs own the source from now on.
            let source = self.sources[index].take();
            if source >= 0 {
                let _ = self.outputs.take(NewOutput { owner: CONTAINER, index: Some(index), source, log }, None);
            }
        }
        let stdin = self.stdin.take();
        if stdin >= 0 {
            self.inputs.set_target(CONTAINER, stdin);
        }
        if runs {
            self.inputs.enable(CONTAINER);
        }
        self.dns.listen();
        self.relay.watch();
    }

    fn work(&mut self, kind: u32, index: usize, bits: u32) {
        match kind {
            ORDERS => self.take_order(),
            OUTPUT => self.outputs.ready(index),
            SINK => self.outputs.sink_ready(index, bits),
            INPUT => self.inputs.ready(index),
            TARGET => self.inputs.target_ready(index as u32),
            DNS => self.dns.ready(index),
            PORT | SIDE | BACK => self.relay.ready(kind, index),
            _ => {}
        }
    }

    fn take_order(&mut self) {
        let (mut bytes, mut fds) = ([0; ORDER], [-1; MAX_FDS]);
        let (length, count) = match sys::recv_fds(self.orders, &mut bytes, &mut fds, false) {
            Ok((length, count)) if length >= MESSAGE => (length, count),
            Err(EAGAIN | EINTR) => return,
            // The launcher is gone.
            _ => sys::exit(GONE),
        };
        let Some(order) = Message::from_bytes(&bytes[..length]) else { return };
        if let Some(result) = self.obey(order, &bytes[MESSAGE..length], &fds[..count]) {
            let _ = sys::send_fds(self.orders, &Message::answer(result).to_bytes(), &[]);
        }
    }

    /// Does the work of an order. None if the launcher waits for no answer.
    fn obey(&mut self, order: Message, keys: &[u8], fds: &[i32]) -> Option<Result<u64>> {
        let fd = fds.first().copied().unwrap_or(-1);
        let done = |result: Result<()>| Some(result.map(|()| 0));
        match order.code {
            message::ATTACH => {
                let attached = self.attach(order.a, fds);
                return done(attached).filter(|_| order.b != 0);
            }
            message::OUTPUT => return self.new_output(order, fd, fds.get(1).copied()),
            message::TARGET => self.inputs.set_target(order.a, fd),
            message::INPUT => drop(self.inputs.open(fd, order.a, order.b != 0)),
            message::ENABLE => self.inputs.enable(order.a),
            message::STOP => {
                self.relay.end_passages();
                self.outputs.drain();
                self.inputs.disable();
                self.inputs.lose(CONTAINER);
                return done(Ok(()));
            }
            message::DROP => self.inputs.lose(order.a),
            message::END_INPUT => {
                self.inputs.end_with(order.a);
                return done(Ok(()));
            }
            message::CHECKED => {
                self.outputs.end_outputs(CHECK_OUTPUT);
                return Some(Ok(u64::from(self.outputs.check.written())));
            }
            message::KEEP_CHECK => {
                let kept = sys::pwrite(fd, self.outputs.check.kept(), order.b);
                sys::close(fd);
                return done(kept.map(drop));
            }
            message::DNS_SOCKET => self.dns.open(order.a as usize, fd),
            message::END_DNS => self.dns.close(),
            message::PLAN => self.change_plan(fd),
            message::PORTS => self.relay.more(keys, fds),
            message::END_PORTS => {
                self.relay.close();
                return done(Ok(()));
            }
            message::LINGER => {
                self.give_the_rest(order.b as i64);
                return done(Ok(()));
            }
            _ => close_all(fds),
        }
        None
    }

    fn new_output(&mut self, order: Message, source: i32, sink: Option<i32>) -> Option<Result<u64>> {
        let index = (order.b > 0).then(|| (order.b - 1) as usize % 2);
        if order.a == CHECK_OUTPUT {
            self.outputs.check.clear();
        }
        let output = NewOutput { owner: order.a, index, source, log: order.c != 0 };
        let taken = self.outputs.take(output, sink);
        Some(taken.map(|()| 0)).filter(|_| index.is_none())
    }

    /// Adds a client's streams to the container's. Closes the descriptors that nobody wants.
    fn attach(&mut self, mask: u32, fds: &[i32]) -> Result<()> {
        let tty = self.flags & FLAG_TTY != 0;
        let mut fds = fds.iter().copied();
        let mut result = Ok(());
        if mask & SESSION_STDIN != 0 {
            let fd = fds.next().unwrap_or(-1);
            if self.flags & FLAG_OPEN_STDIN != 0 {
                let once = self.flags & FLAG_STDIN_ONCE != 0 && !tty;
                result = result.and(self.inputs.open(fd, CONTAINER, once));
            } else {
                sys::close(fd);
            }
        }
        for (bit, index) in [(SESSION_STDOUT, STDOUT), (SESSION_STDERR, STDERR)] {
            if mask & bit != 0 {
                let fd = fds.next().unwrap_or(-1);
                let wanted = index == STDOUT || !tty;
                if wanted { result = result.and(self.outputs.add_sink(index, fd)) } else { sys::close(fd) }
            }
        }
        fds.for_each(sys::close);
        result
    }

    fn change_plan(&mut self, file: i32) {
        let plan = sys::fstat(file).and_then(|stat| sys::map_file(file, stat.size as usize));
        sys::close(file);
        // The launcher has checked the plan before.
        if let Some(Ok(plan)) = plan.ok().map(Plan::check) {
            self.replace_plan(plan);
            // The open connections lead to the old targets of the ports.
            self.relay.end_passages();
        }
    }

    /// Gives clients the output that they have not taken yet, for at most so long.
    fn give_the_rest(&mut self, millis: i64) {
        let until = sys::monotonic() + millis * 1_000_000;
        let mut events = [EpollEvent::default(); 16];
        let _ = sys::epoll_ctl(self.epoll, REMOVE, self.orders, 0, 0);
        while self.outputs.draining() && sys::monotonic() < until {
            let count = sys::epoll_wait(self.epoll, &mut events, millis as i32).unwrap_or(0);
            for event in &events[..count] {
                if let (SINK, key) = subject(event.data) {
                    self.outputs.sink_ready(key, event.events);
                }
            }
        }
    }
}
