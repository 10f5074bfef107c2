//! The only door to the kernel, and the only place of the library with `unsafe` code.

#[allow(unsafe_code)]
pub(crate) mod copy;
#[allow(unsafe_code)]
pub(crate) mod fd;
pub(crate) mod file;
pub(crate) mod lookup;
#[allow(unsafe_code)]
pub(crate) mod memory;
#[allow(unsafe_code)]
pub(crate) mod mount;
#[allow(unsafe_code)]
pub(crate) mod netlink;
#[allow(unsafe_code)]
pub(crate) mod path;
#[allow(unsafe_code)]
pub(crate) mod port;
#[allow(unsafe_code)]
pub(crate) mod probe;
#[allow(unsafe_code)]
pub(crate) mod process;
pub(crate) mod queue;
#[allow(unsafe_code)]
pub(crate) mod quota;
pub(crate) mod remove;
pub(crate) mod shared_watch;
pub(crate) mod signal;
pub(crate) mod size;
#[allow(unsafe_code)]
pub(crate) mod socket;
pub(crate) mod staging;
pub(crate) mod switches;
#[allow(unsafe_code)]
pub(crate) mod thread;
#[allow(unsafe_code)]
pub(crate) mod tree;
pub(crate) mod turn;
pub(crate) mod walk;
pub(crate) mod watch;
#[allow(unsafe_code)]
pub(crate) mod xtables;
