//! To be written.

pub(crate) mod capability;
pub(crate) mod cgroup;
pub(crate) mod devices;
pub(crate) mod release;
pub(crate) mod seccomp;
