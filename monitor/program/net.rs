//! Networks: netlink requests that the library wrote, sent where only a process of the container can send them; and what
//! is left to do when the container ends.

use crate::answers;
use crate::boot::Monitor;
use crate::child::{self, Launch, errno, os};
use crate::ops::{self, Bad, Plan};
use crate::orders::{PLAN, Word};
use crate::sys::{self, *};
use crate::wire::*;

type Step = core::result::Result<(), Failure>;

/// [`ops::Net`] of the child.
pub fn run(op: ops::Net, host_link: i32, restarts: u32) -> Step {
    let ops::Net { place, acks, interface, holes, messages } = op;
    let buffer = os(sys::map_memory(messages.len().max(1)))?;
    buffer[..messages.len()].copy_from_slice(messages);
    // Each hole gets the number that is found once.
    let mut index = None;
    for (kind, at) in holes.iter() {
        let at = at as usize;
        let value = match kind {
            PATCH_RESTART => {
                let digits = [b'0' + (restarts / 10 % 10) as u8, b'0' + (restarts % 10) as u8];
                buffer.get_mut(at..at + 2).ok_or_else(|| errno(EINVAL))?.copy_from_slice(&digits);
                continue;
            }
            PATCH_NETNS => os(sys::openat(AT_FDCWD, b"/proc/self/ns/net\0", O_RDONLY, 0))?,
            _ => match index {
                Some(index) => index,
                None => *index.insert(index_of(interface.cstr())?),
            },
        };
        buffer.get_mut(at..at + 4).ok_or_else(|| errno(EINVAL))?.copy_from_slice(&value.to_ne_bytes());
    }
    let socket = match place {
        NET_HOST => host_link,
        NET_INSIDE => os(sys::netlink(NETLINK_ROUTE))?,
        _ => os(sys::netlink(NETLINK_NETFILTER))?,
    };
    os(sys::write(socket, &buffer[..messages.len()]))?;
    let answered = acknowledged(socket, acks);
    if place != NET_HOST {
        sys::close(socket);
    }
    answered
}

/// The index of an interface of this process's network namespace.
fn index_of(name: &[u8]) -> core::result::Result<i32, Failure> {
    const SIOCGIFINDEX: usize = 0x8933;
    let mut request = [0u8; 40];
    let length = name.len().min(16);
    request[..length].copy_from_slice(&name[..length]);
    // SAFETY: no pointers.
    let socket = os(unsafe { sys::call(nr::SOCKET, &[2, 2 | O_CLOEXEC as usize, 0]) })? as i32;
    let found = sys::ioctl(socket, SIOCGIFINDEX, request.as_mut_ptr() as usize);
    sys::close(socket);
    os(found)?;
    Ok(i32::from_ne_bytes([request[16], request[17], request[18], request[19]]))
}

/// Takes the acknowledgements; the first refusal is the answer.
fn acknowledged(socket: i32, acks: u32) -> Step {
    let mut buffer = [0u8; 8192];
    let mut got = 0;
    while got < acks {
        let length = os(sys::read(socket, &mut buffer))?;
        let (count, refused) = answers::acknowledged(&buffer[..length]);
        got += count;
        if let Some(error) = refused {
            return Err(errno(error));
        }
    }
    Ok(())
}

/// A network namespace that nobody is in; -1 where the kernel makes none now: the clone of the first process says why. An
/// error: this process did not come back out of it.
pub fn new_namespace() -> Result<i32> {
    let own = sys::openat(AT_FDCWD, b"/proc/self/ns/net\0", O_RDONLY, 0)?;
    let made = sys::unshare(CLONE_NEWNET).is_ok();
    let new = if made { sys::openat(AT_FDCWD, b"/proc/self/ns/net\0", O_RDONLY, 0) } else { Ok(-1) };
    let back = if made { sys::setns(own, CLONE_NEWNET) } else { Ok(()) };
    sys::close(own);
    back.map(|()| new.unwrap_or(-1))
}

impl Monitor {
    /// Has a process of the container's network namespace take some steps; then another plan holds, for restarts and the
    /// end.
    pub fn change_network(&mut self, fds: &[i32]) -> Step {
        let (&[steps, plan_file], more) = fds.split_first_chunk().ok_or(errno(EINVAL))?;
        if self.init == 0 {
            return Err(errno(ESRCH));
        }
        let map = |fd: i32| sys::fstat(fd).and_then(|stat| sys::map_file(fd, stat.size as usize));
        let (steps, bytes) = (os(map(steps))?, os(map(plan_file))?);
        let taken = self.take_network(steps, bytes);
        sys::unmap(steps);
        if taken.is_err() {
            sys::unmap(bytes);
        }
        self.plan.replace(taken?);
        self.read_resolver();
        if self.worker.pid > 0 {
            let _ = self.order(Word { what: PLAN, ..Word::default() }, &[plan_file]);
        }
        if let &[hold, relays] = more {
            crate::life::replace(&mut self.hold, sys::dup_from(hold, 0).unwrap_or(-1));
            if let Ok(queue) = sys::dup_from(relays, 0) {
                self.take_relays(queue);
            }
        }
        Ok(())
    }

    /// Both plans are read before anything is done.
    fn take_network(&mut self, steps: &[u8], plan: &'static [u8]) -> core::result::Result<Plan<'static>, Failure> {
        let plan = Plan::check(plan).map_err(|bad| Bad { index: STEP_PLAN, ..bad }.failure())?;
        let steps = Plan::check(steps).map_err(Bad::failure)?;
        self.take_steps(steps)?;
        os(self.keep_network(plan, self.init, &crate::userns::Made::NONE))?;
        Ok(plan)
    }

    /// Takes what keeps the published ports out of the descriptors that the start brought.
    pub fn take_ports(&mut self) {
        if let Some(ops::Hold { index }) = self.plan.plan().find() {
            self.hold = self.take_descriptor(index);
        }
        if let Some(ops::RelayQueue { index }) = self.plan.plan().find() {
            let fd = self.take_descriptor(index);
            if fd >= 0 {
                self.take_relays(fd);
            }
        }
    }

    fn take_descriptor(&mut self, index: u32) -> i32 {
        core::mem::replace(&mut self.namespaces[index as usize % MAX_FDS], -1)
    }

    fn take_steps(&mut self, plan: Plan) -> Step {
        let report = os(sys::report_pair())?;
        let forked = sys::fork(0, None);
        if let Ok((0, _)) = forked {
            child::run(&Launch {
                plan,
                report: report[1],
                stdio: [-1; 3],
                direct: [false; 3],
                cgroups: &[],
                starts: false,
                namespaces: &[],
                volumes: &[],
                tty: false,
                rows: 0,
                cols: 0,
                init: self.init_pidfd,
                devpts: -1,
                host_link: -1,
                restarts: 0,
                enters: false,
                others: false,
                net_goes_on: false,
                made: crate::userns::Made::NONE,
            });
        }
        sys::close(report[1]);
        let taken = match forked {
            Ok((pid, pidfd)) => {
                let taken = self.await_child(report[0], pid, &mut 0);
                if taken.is_err() {
                    // It may hang.
                    let _ = sys::pidfd_signal(pidfd, SIGKILL);
                }
                sys::wait_for(pid);
                sys::close(pidfd);
                taken
            }
            Err(error) => Err(errno(error)),
        };
        sys::close(report[0]);
        taken
    }

    /// Whether it has addresses, which nobody else gets while the lock is held.
    pub fn has_networks(&self) -> bool {
        self.plan.plan().has::<ops::Net>()
            || self.plan.plan().has::<ops::FirewallEnd>()
            || self.plan.plan().has::<ops::Hold>()
    }

    /// The container has ended for good: its ports lead nowhere any more, and are free for others.
    pub fn release_network(&mut self) {
        self.end_relays();
        self.let_network_go();
        if let Some(ops::FirewallEnd { messages }) = self.plan.plan().find() {
            // Left open to this process's end: whoever closes such a socket waits until the kernel has freed what was
            // taken out, some milliseconds, and everybody else's change of a firewall with it.
            if let Ok(socket) = sys::netlink(NETLINK_NETFILTER) {
                let _ = sys::write(socket, messages);
            }
        }
        crate::life::replace(&mut self.hold, -1);
    }
}
