//! Spec → plan → bytes → monitor: compiles a start, starts the monitor, talks to it.

pub(crate) mod apparmor;
pub(crate) mod capability;
pub(crate) mod cdi;
pub(crate) mod cgroup;
pub(crate) mod devices;
pub(crate) mod monitor;
pub(crate) mod plan;
pub(crate) mod seccomp;
pub(crate) mod selinux;
pub(crate) mod step;
mod yaml;
