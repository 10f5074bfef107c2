//! A plan until another one takes its place.

use crate::ops::Plan;
use crate::sys;

pub struct InForce {
    plan: Plan<'static>,
    /// The plan that the monitor was started with. It stays mapped, because the container's id, the attributes of its
    /// events and its health check stand in it.
    first: bool,
}

impl InForce {
    pub const NONE: InForce = InForce { plan: Plan::EMPTY, first: true };

    /// The plan that the monitor was started with.
    pub fn first(plan: Plan<'static>) -> InForce {
        InForce { plan, first: true }
    }

    pub fn plan(&self) -> Plan<'static> {
        self.plan
    }

    /// Another plan is in force from now on; nothing may refer to the one before.
    pub fn replace(&mut self, plan: Plan<'static>) {
        let old = core::mem::replace(&mut self.plan, plan);
        if !core::mem::replace(&mut self.first, false) {
            sys::unmap(old.bytes());
        }
    }
}
