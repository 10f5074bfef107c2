//! A network namespace that goes on while its container is restarted: what somebody else made in it cannot be made again
//! from here.

use crate::boot::Monitor;
use crate::ops::{KeepNet, Plan, UserMap};
use crate::sys::{self, *};
use crate::text::Writer;
use crate::userns::{Made, open_of};

/// Descriptors of what goes on; -1: nothing does.
#[derive(Clone, Copy)]
pub struct Kept {
    pub net: i32,
    /// The user namespace that it belongs to, where that is the container's own.
    pub user: i32,
}

impl Kept {
    pub const NOTHING: Kept = Kept { net: -1, user: -1 };
}

/// Where the library says that the network namespace is, in the run directory.
const LINK: &[u8] = b"netns\0";

impl Monitor {
    /// Keeps what a process is in, if the plan says so and nothing is kept yet. `made` is what it is about to join.
    pub fn keep_network(&mut self, plan: Plan, pid: i32, made: &Made) -> Result<()> {
        if self.kept.net >= 0 || !plan.has::<KeepNet>() {
            return Ok(());
        }
        let net = match made.others[0].0 {
            -1 => open_of(pid, b"/ns/net\0", O_RDONLY)?,
            fd => sys::dup_from(fd, 0)?,
        };
        self.kept.net = net;
        if plan.has::<UserMap>() {
            self.kept.user = match made.user {
                -1 => open_of(pid, b"/ns/user\0", O_RDONLY)?,
                fd => sys::dup_from(fd, 0)?,
            };
        }
        let mut path = [0u8; 64];
        let mut w = Writer::new(&mut path);
        w.bytes(b"/proc/")
            .number(i64::from(self.record.state.monitor_pid))
            .bytes(b"/fd/")
            .number(i64::from(net))
            .bytes(b"\0");
        let _ = sys::unlinkat(self.run_dir, LINK, 0);
        // Whoever made the interfaces seldom looks there again.
        let _ = sys::symlinkat(w.done(), self.run_dir, LINK);
        Ok(())
    }

    /// Before a restart: what the plan does not keep any more goes.
    pub fn keep_over_restart(&mut self) {
        if self.kept.net >= 0 && self.plan.plan().has::<KeepNet>() {
            self.record.state.kept += 1;
            return;
        }
        self.record.state.kept = 0;
        self.let_network_go();
    }

    /// The namespace ends with its last process.
    pub fn let_network_go(&mut self) {
        crate::life::replace(&mut self.kept.net, -1);
        crate::life::replace(&mut self.kept.user, -1);
        self.end_dns();
    }
}
