//! The container's network from the launcher's side: the namespace that outlives a restart, published ports, and the
//! work that is left when the container ends.

use crate::child::{self, Launch};
use crate::failure::{Outcome, Step, errno, os};
use crate::fd::Fd;
use crate::link::Link;
use crate::ops::{self, Bad, KeepNet, Plan, UserMap};
use crate::record::Record;
use crate::reports::{Handed, await_child};
use crate::sockets;
use crate::sys::{self, *};
use crate::text::Writer;
use crate::userns::{Made, open_of};
use crate::wire::*;

/// The name of the network namespace in the run directory, for the library.
const NAMESPACE: &[u8] = b"netns\0";

/// Zero at the beginning.
pub struct Network {
    /// A network namespace that outlives restarts of the container, because the monitor cannot make the interfaces of a
    /// plugin again.
    pub net: Fd,
    /// The user namespace that it belongs to, if that is the container's own.
    pub user: Fd,
    /// Keeps published ports from other programs.
    ports: Fd,
}

impl Network {
    /// Keeps the namespace that a process is in, if the plan says so and none is kept yet. `made`: the namespaces that
    /// the process is about to join.
    pub fn keep(&mut self, plan: Plan, pid: i32, made: &Made, around: (&Record, &mut Link)) -> Result<()> {
        let (record, link) = around;
        if self.net.is_open() || !plan.has::<KeepNet>() {
            return Ok(());
        }
        self.net.set(match made.others[0].0.raw() {
            -1 => open_of(pid, b"/ns/net\0", O_RDONLY)?,
            fd => sys::dup_from(fd, 0)?,
        });
        link.inside.goes_on = true;
        if plan.has::<UserMap>() {
            self.user.set(match made.user.raw() {
                -1 => open_of(pid, b"/ns/user\0", O_RDONLY)?,
                fd => sys::dup_from(fd, 0)?,
            });
        }
        let mut path = [0u8; 64];
        let mut w = Writer::new(&mut path);
        w.bytes(b"/proc/").number(i64::from(record.state.monitor_pid));
        w.bytes(b"/fd/").number(i64::from(self.net.raw())).bytes(b"\0");
        let _ = sys::unlinkat(record.run_dir(), NAMESPACE, 0);
        // The plugin that made the interfaces seldom looks there again.
        let _ = sys::symlinkat(w.done(), record.run_dir(), NAMESPACE);
        Ok(())
    }

    /// Before a restart: lets go of the namespace if the plan does not keep it any more. Answers how many restarts have
    /// kept it.
    pub fn keep_over_restart(&mut self, link: &mut Link, kept: u32) -> u32 {
        if self.net.is_open() && link.plan().has::<KeepNet>() {
            return kept + 1;
        }
        self.let_go(link);
        0
    }

    /// The namespace ends with its last process.
    fn let_go(&mut self, link: &mut Link) {
        self.net.close();
        self.user.close();
        link.inside.goes_on = false;
        self.end_names(link);
    }

    /// The container ended: the resolver's sockets are closed, unless their namespace goes on with the rules that lead
    /// to them.
    pub fn end_names(&self, link: &mut Link) {
        if !self.net.is_open() {
            sockets::end_resolver(link);
        }
    }

    /// Takes the descriptors of published ports out of those that the start brought.
    pub fn take_ports(&mut self, namespaces: &mut [Fd; MAX_FDS], link: &mut Link) {
        let mut take = |index: u32| namespaces[index as usize % MAX_FDS].take();
        if let Some(ops::Hold { index }) = link.plan().find() {
            self.ports.set(take(index));
        }
        if let Some(ops::RelayQueue { index }) = link.plan().find() {
            let fd = take(index);
            if fd >= 0 {
                sockets::take_ports(link, fd);
            }
        }
    }

    /// A process in the container's network namespace does some steps; then another plan is in force, for restarts and
    /// the end. `fds`: the steps, the plan, and perhaps two descriptors of published ports.
    pub fn change(&mut self, fds: &[i32], first: (i32, i32), record: &Record, link: &mut Link) -> Step {
        let (&[steps, plan_file], more) = fds.split_first_chunk().ok_or(errno(EINVAL))?;
        let map = |fd: i32| sys::fstat(fd).and_then(|stat| sys::map_file(fd, stat.size as usize));
        let (steps, bytes) = (os(map(steps))?, os(map(plan_file))?);
        let taken = self.take(steps, bytes, first, (record, &mut *link));
        sys::unmap(steps);
        if taken.is_err() {
            sys::unmap(bytes);
        }
        link.replace_plan(taken?, plan_file);
        if let &[ports, relays] = more {
            self.ports.set(sys::dup_from(ports, 0).unwrap_or(-1));
            if let Ok(queue) = sys::dup_from(relays, 0) {
                sockets::take_ports(link, queue);
            }
        }
        Ok(())
    }

    /// Both plans are read before anything is done.
    fn take(
        &mut self,
        steps: &[u8],
        plan: &'static [u8],
        (pid, pidfd): (i32, i32),
        around: (&Record, &mut Link),
    ) -> Outcome<Plan<'static>> {
        let plan = Plan::check(plan).map_err(|bad| Bad { index: STEP_PLAN, ..bad }.failure())?;
        take_steps(Plan::check(steps).map_err(Bad::failure)?, pidfd, around.1)?;
        os(self.keep(plan, pid, &Made::NONE, around))?;
        Ok(plan)
    }

    /// The container has ended for good: its ports lead nowhere any more, and are free for others.
    pub fn release(&mut self, link: &mut Link) {
        sockets::end_ports(link);
        self.let_go(link);
        if let Some(ops::FirewallEnd { messages }) = link.plan().find() {
            // The socket stays open until this process ends: closing it waits some milliseconds until the kernel has
            // freed the removed rules, and every other change of a firewall would wait too.
            if let Ok(socket) = sys::netlink(NETLINK_NETFILTER) {
                let _ = sys::write(socket, messages);
            }
        }
        self.ports.close();
    }
}

/// Whether a container has addresses, which nobody else gets while its lock is held.
pub fn has_addresses(plan: Plan) -> bool {
    plan.has::<ops::Net>() || plan.has::<ops::FirewallEnd>() || plan.has::<ops::Hold>()
}

/// A child does the steps of a plan, and may hand over the sockets of a resolver.
fn take_steps(plan: Plan, init: i32, link: &mut Link) -> Step {
    let [report, own] = os(sys::report_pair())?.map(Fd::new);
    let forked = sys::fork(0, None);
    if let Ok((0, _)) = forked {
        child::run(&Launch { plan, report: own.raw(), init, ..Launch::NOTHING });
    }
    drop(own);
    let (pid, pidfd) = os(forked)?;
    let pidfd = Fd::new(pidfd);
    let taken = await_child(report.raw(), pid, &mut 0, &mut |handed| match handed {
        Handed::Dns(which, fd) => sockets::take_resolver(link, which, fd),
        other => other.close(),
    });
    if taken.is_err() {
        // The child may hang.
        let _ = sys::pidfd_signal(pidfd.raw(), SIGKILL);
    }
    sys::wait_for(pid);
    taken
}
