//! The launcher's parts, and the one value that owns them.

use crate::cgroup::Groups;
use crate::control::Control;
use crate::execs::Execs;
use crate::fd::Fd;
use crate::health::Health;
use crate::link::Link;
use crate::network::Network;
use crate::oom::Oom;
use crate::private;
use crate::process::Process;
use crate::record::Record;
use crate::restart::Restarts;
use crate::wire::*;

/// The parts of the launcher. There is one, static and zero at the beginning: while it runs, only stream buffers are
/// allocated. A part knows another part only as an argument of a call; the methods of the monitor pass on the results
/// of the parts.
pub struct Monitor {
    pub header: Header,
    /// The lock that shows that the container lives.
    pub lock: Fd,
    pub epoll: i32,
    pub signals: Fd,
    /// Takes the result of the first start: the boot socket, which is closed then.
    pub boot: Fd,
    pub restarts: Restarts,
    pub process: Process,
    pub network: Network,
    pub oom: Oom,
    pub groups: Groups,
    pub supplies: Supplies,
    pub record: Record,
    pub control: Control,
    pub health: Health,
    pub execs: Execs,
    pub link: Link,
}

/// The descriptors that the library brought for starts.
pub struct Supplies {
    pub namespaces: [Fd; MAX_FDS],
    /// Mount namespaces of volumes that are mounted once for all containers that use them.
    pub volumes: [Fd; MAX_VOLUMES],
    /// The standard streams of the next process; pipes take the places of missing ones.
    pub direct: [Fd; 3],
    /// A network namespace without a process in it yet.
    pub new_network: Fd,
    /// The reading end of the container's lease, which its holders have open for writing.
    pub lease: Fd,
}

// SAFETY: zeroes are values of all members, or of their parts, but for slices: `make` writes those before anything reads
// them.
static mut MONITOR: core::mem::MaybeUninit<Monitor> = core::mem::MaybeUninit::zeroed();

/// Makes the only monitor of the program, and the only reference to it.
///
/// # Safety
/// It is called once.
pub unsafe fn make() -> &'static mut Monitor {
    // SAFETY: the caller makes this the only reference. Zeroes are valid for every member but slices, which are written
    // here before the reference is used.
    unsafe {
        let place = (&raw mut MONITOR).cast::<Monitor>();
        private::set(place as usize, size_of::<Monitor>());
        (&raw mut (*place).restarts).write(Restarts::NONE);
        (&raw mut (*place).oom).write(Oom::new());
        (&raw mut (*place).groups).write(Groups::NONE);
        Record::init(&raw mut (*place).record);
        Health::init(&raw mut (*place).health);
        Execs::init(&raw mut (*place).execs);
        Link::init(&raw mut (*place).link);
        &mut *place
    }
}
