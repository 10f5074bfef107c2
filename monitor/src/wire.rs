//! The wire format between the library and the monitor: plan, state record, boot and control messages.
//!
//! Everything is little-endian, flat and versioned, so that a newer library works with containers that an older
//! library's monitor still runs. This file is compiled twice: into the library and into the `no_std` monitor.

/// First eight bytes of a plan.
pub const PLAN_MAGIC: u64 = u64::from_le_bytes(*b"CORAPLAN");
/// Version of the plan and of the control protocol. A monitor refuses a plan of another version; a library speaks every
/// control version up to its own.
///
/// Parts that an older monitor may leave out do not change it: operations of the monitor ([`OP_STRING`] and above) that it
/// does not know are skipped, requests that it does not know are answered with ENOSYS, text that it does not expect is not
/// read, and reserved fields that it leaves zero mean "none".
pub const VERSION: u32 = 1;

/// The process has a terminal.
pub const FLAG_TTY: u32 = 1 << 0;
/// The process's stdin stays open for attached clients; else it is `/dev/null`.
pub const FLAG_OPEN_STDIN: u32 = 1 << 1;
/// The process's stdin ends when the first attached client's does.
pub const FLAG_STDIN_ONCE: u32 = 1 << 2;
/// Output goes to the json-file log.
pub const FLAG_LOG: u32 = 1 << 3;
/// Every process of the container is killed through its cgroups when the first one ends (it shares a pid namespace).
pub const FLAG_SHARED_PIDS: u32 = 1 << 5;

/// Log files that rotation left are compressed.
pub const FLAG_LOG_COMPRESS: u32 = 1 << 6;

/// Restart policies.
pub const RESTART_NO: u32 = 0;
/// Always, unless it was stopped by hand.
pub const RESTART_ALWAYS: u32 = 1;
/// On a non-zero exit code.
pub const RESTART_ON_FAILURE: u32 = 2;
/// As [`RESTART_ALWAYS`]; differs after a reboot only.
pub const RESTART_UNLESS_STOPPED: u32 = 3;

/// The head of a plan; operations follow it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Header {
    /// [`PLAN_MAGIC`].
    pub magic: u64,
    /// [`VERSION`].
    pub version: u32,
    /// Bytes of the whole plan.
    pub length: u32,
    /// `FLAG_*`.
    pub flags: u32,
    /// Slot of the state files.
    pub slot: u32,
    /// Namespaces to make (`CLONE_NEW*`).
    pub clone_flags: u64,
    /// `RESTART_*`.
    pub restart: u32,
    /// Bound of [`RESTART_ON_FAILURE`]; 0 is none.
    pub restart_max: u32,
    /// json-file: bytes after which the log is rotated; 0 is never.
    pub log_max_size: u64,
    /// json-file: files kept.
    pub log_max_file: u32,
    /// Terminal size; 0 leaves the kernel's.
    pub rows: u16,
    /// See `rows`.
    pub cols: u16,
    /// Namespaces to join: how many descriptors of the boot message are for [`OP_JOIN_NS`].
    pub namespaces: u32,
    /// Zero.
    pub reserved: u32,
}

/// Bytes of the header.
pub const HEADER_LEN: usize = 64;
const _: () = assert!(size_of::<Header>() == HEADER_LEN);

// Operations of the child, in the order in which they stand in the plan. Payloads are named in the order of their fields;
// `str` is a u32 length, the bytes and one NUL.

/// Ends the list.
pub const OP_END: u16 = 0;
/// str: sethostname(2).
pub const OP_HOSTNAME: u16 = 1;
/// str: setdomainname(2).
pub const OP_DOMAINNAME: u16 = 2;
/// Brings the loopback interface up.
pub const OP_LOOPBACK: u16 = 3;
/// u32 propagation (`MS_*`): of the whole tree of this mount namespace.
pub const OP_PROPAGATION: u16 = 4;
/// str upper, str work, u32 flags, u32 n, n × str lower (topmost first): the overlay that becomes the root.
pub const OP_OVERLAY: u16 = 5;
/// u32 special (`SPECIAL_*`), u32 attr (`MOUNT_ATTR_*`), str type, str source, str target, u32 n, n × (str key, str value):
/// a new file system; an empty value sets a flag.
pub const OP_MOUNT: u16 = 6;
/// u32 flags (`BIND_*`), u32 propagation (`MS_*`), u64 attr set, u64 attr clear, str source, str target.
pub const OP_BIND: u16 = 7;
/// u32 mode with type, u32 major, u32 minor, u32 uid, u32 gid, str target: a device node.
pub const OP_NODE: u16 = 8;
/// str target, str text.
pub const OP_SYMLINK: u16 = 9;
/// str path: hides a file or directory; a missing one is fine.
pub const OP_MASK: u16 = 10;
/// str path: makes a subtree read-only; a missing one is fine.
pub const OP_READONLY: u16 = 11;
/// u32 mode, str path: makes directories that are missing.
pub const OP_DIR: u16 = 12;
/// str path below `/proc/sys`, str value.
pub const OP_SYSCTL: u16 = 13;
/// u64 attr, u32 propagation (`MS_*`; 0 leaves it): the overlay becomes `/`, the host's tree goes; attributes for the root
/// mount.
pub const OP_PIVOT: u16 = 14;
/// u32 resource, u32 zero, u64 soft, u64 hard.
pub const OP_RLIMIT: u16 = 15;
/// i32 value, u32 required: /proc/self/oom_score_adj; when not required, a refusal is fine.
pub const OP_OOM_SCORE: u16 = 16;
/// A session keyring of its own.
pub const OP_KEYRING: u16 = 17;
/// Standard streams (and terminal).
pub const OP_STDIO: u16 = 18;
/// str path: made when missing, then the working directory.
pub const OP_WORKDIR: u16 = 19;
/// u32 flags (`ID_*`), u32 n groups, u64 bounding, u64 permitted for root, u64 for other users, str user, n × str group,
/// str seccomp filter (`sock_filter` bytes; empty: none), u64 inheritable, u64 ambient.
pub const OP_IDENTITY: u16 = 20;
/// u32 n argv, u32 n env, strs: execve(2), the program looked up in `PATH`. `HOME` is added when env has none.
pub const OP_EXEC: u16 = 21;
/// u32 index of the boot message's namespace descriptors, u32 `CLONE_NEW*`: setns(2).
pub const OP_JOIN_NS: u16 = 22;
/// unshare(CLONE_NEWCGROUP), after the cgroups are joined.
pub const OP_CGROUP_NS: u16 = 23;
/// str target, u32 mode, str content: a small file, made or replaced.
pub const OP_FILE: u16 = 24;

/// u64 attr set, str path, u32 propagation (`MS_*`; 0 leaves it): attributes of the mount at that path.
pub const OP_ATTR: u16 = 25;
/// u32 namespaces (`CLONE_NEW*`): enters the container's namespaces (exec).
pub const OP_ENTER: u16 = 26;

/// u32 index of a mount namespace among the boot message's: its `/dev/shm` becomes this container's too.
pub const OP_SHARED_SHM: u16 = 27;
/// u32 flags (`MS_*`), str type, str options (with commas), str name: a new file system on a new directory of the place
/// ([`SPECIAL_PLACE`]), by the one call that is enough there.
pub const OP_MOUNT_HERE: u16 = 28;

/// u32 uid, u32 gid: what is made from here on belongs to them, with all rights kept.
pub const OP_FS_OWNER: u16 = 29;
/// u32 uid, u32 gid, u32 own mounts: enters the user namespace whose root these are outside of it. With own mounts the mount
/// namespace belongs to it, too: its root may mount, and the mounts that are there are locked together.
pub const OP_USER_NS: u16 = 30;
/// u32 uid, u32 gid: the standard streams are theirs (exec, before a user namespace is entered).
pub const OP_OWN_STREAMS: u16 = 31;

/// u32 index of a volume's mount namespace ([`crate::call::Call::Volume`]), u32 flags (`BIND_IDMAP`), u64 attr set, u64 attr clear, str
/// target, str name of the volume: the file system that is the root of that namespace is mounted here, too.
pub const OP_VOLUME: u16 = 32;

/// u32 `OTHERS_*`: all of `/dev`, or a part of it, is somebody else's. A terminal is mounted on no console unless one of
/// them says so.
pub const OP_OTHERS_DEV: u16 = 33;
/// Terminals come from the `/dev/pts` that is there.
pub const OTHERS_PTS: u32 = 1;
/// A terminal is mounted on the `/dev/console` that is there, if there is one: nothing may be made.
pub const OTHERS_CONSOLE: u32 = 2;
/// A terminal is mounted on `/dev/console`, which is made if it is not there.
pub const OTHERS_NOT_CONSOLE: u32 = 4;

/// str path: the working directory, which is there.
pub const OP_CHDIR: u16 = 34;

/// u32 required, str `exec NAME`: the AppArmor profile that the process has from its exec on; when not required, a refusal is
/// fine.
pub const OP_PROFILE: u16 = 35;

/// str label: the SELinux label that the process has from its exec on.
pub const OP_LABEL: u16 = 36;

/// str label: the SELinux label of the root file system, of what hides directories, of message queues, and of pipes that are
/// standard streams. Other file systems have it among their options (`context`).
pub const OP_MOUNT_LABEL: u16 = 37;

/// str `changeprofile NAME`: changes the process to the AppArmor profile at once. [`OP_PROFILE`] changes it at the exec, where
/// the kernel clears the parent-death signal.
pub const OP_CHANGE_PROFILE: u16 = 38;

/// u32 where (`NET_*`), u32 acknowledgements that come, str interface, u32 n, n × (u32 `PATCH_*`, u32 offset), str
/// messages: netlink requests, sent in one buffer after the holes in it are filled.
pub const OP_NET: u16 = 40;
/// u32 port: makes the sockets of the resolver at 127.0.0.11, and hands them to the monitor.
pub const OP_DNS: u16 = 41;
/// Ends the process well: of a plan that runs no program.
pub const OP_DONE: u16 = 42;
/// Over a socket in the monitor's network namespace, of the route family.
pub const NET_HOST: u32 = 0;
/// Over a socket in the container's network namespace, of the route family.
pub const NET_INSIDE: u32 = 1;
/// Over a socket in the container's network namespace, of the netfilter family.
pub const NET_INSIDE_FILTER: u32 = 2;
/// Two digits that differ from restart to restart: an interface of the last run may not be gone yet.
pub const PATCH_RESTART: u32 = 0;
/// A descriptor of the container's network namespace (i32).
pub const PATCH_NETNS: u32 = 1;
/// The index (u32) of the operation's interface in the container.
pub const PATCH_INDEX: u32 = 2;

// Operations of the monitor.

/// u32 kind (`STRING_*`), str.
pub const OP_STRING: u16 = 0x100;
/// u32 join (1: the container's processes go here), str directory: makes the directory.
pub const OP_CGROUP_DIR: u16 = 0x101;
/// u32 ignore errors, str path, str value.
pub const OP_CGROUP_WRITE: u16 = 0x102;
/// str directory, str program: attaches a device program (cgroup v2).
pub const OP_CGROUP_DEVICES: u16 = 0x103;
/// str path: the freezer's control file (`freezer.state` or `cgroup.freeze`).
pub const OP_CGROUP_FREEZER: u16 = 0x104;
/// str path: the file whose `oom_kill` line counts kills (`memory.oom_control` or `memory.events`).
pub const OP_CGROUP_OOM: u16 = 0x105;
/// The cgroups that follow may be made while the first process is on its way: it joins them before the first step that they
/// matter to. A monitor that does not know this makes all of them before.
pub const OP_CGROUP_LATE: u16 = 0x1ff;

/// u64 interval, u64 timeout, u64 start period (all ns), u32 failures in a row that mean unhealthy, str command as the
/// inside of a JSON string, str plan: the health check, a process like an exec'd one.
pub const OP_HEALTH: u16 = 0x106;
/// str id, str attributes (JSON members without braces): a network that the container is on, for its events.
pub const OP_NETWORK: u16 = 0x120;
/// str messages: netfilter requests that are sent when the container has ended for good; no answer is awaited.
pub const OP_FIREWALL_END: u16 = 0x121;
/// u32 index of the boot message's namespace descriptors: one that is closed when the container has ended for good.
pub const OP_HOLD: u16 = 0x122;
/// u32 n, n × (a [`RELAY_KEY`]; 16 bytes of the container's address, an IPv4 address in its mapped form; u32 port): where
/// ports of the host lead that the monitor passes on itself.
pub const OP_RELAY: u16 = 0x128;
/// u32 index of the boot message's namespace descriptors: a socket in whose queue lie those ports' sockets, and nothing else
/// to come. Each packet has as many keys as sockets.
pub const OP_RELAY_QUEUE: u16 = 0x129;
/// The container's network namespace goes on over its restarts: what is in it cannot be made again by a plan.
pub const OP_KEEP_NET: u16 = 0x12a;
/// Bytes that name a port that is passed on: u16 port, u8 protocol (6 or 17), u8 zero, sixteen of the host's IPv6 address.
pub const RELAY_KEY: usize = 20;

/// u32 namespaces (`CLONE_NEW*`) to make in it, u32 index of a namespace descriptor plus one (0: a new one), str uid map, str
/// gid map: the user namespace, as /proc/PID/uid_map takes it.
pub const OP_USER_MAP: u16 = 0x124;

/// u32 n, n × (u32 IPv4 address as its bytes lie, u32 whether only the host reaches it), u32 n, n × str file of names below
/// the run directory: what the resolver answers, and whom it asks. Without resolvers it passes nothing on.
pub const OP_RESOLVER: u16 = 0x123;

/// u32 n, n × (16 bytes of an IPv6 address as four u32 in the order in which they lie, an IPv4 address in its mapped form;
/// u32 whether only the host reaches it; u32 scope): whom the resolver asks, in place of [`OP_RESOLVER`]'s list.
pub const OP_SERVERS: u16 = 0x126;
/// u32 n, n × (u32 index of a file of names in [`OP_RESOLVER`], str alias, str name): names that this container alone has
/// for others on that network.
pub const OP_ALIASES: u16 = 0x127;

/// First four bytes of a file of names. A u8 length and the network's name follow, then entries: u32 slot, eight bytes of
/// the container's id, four of an IPv4 address, sixteen of an IPv6 address, u8 flags (1: has IPv4, 2: has IPv6, 4: is the
/// container's own name), u8 length and the name in small letters.
pub const NAMES_MAGIC: u32 = u32::from_le_bytes(*b"CNAM");
/// Bytes of an entry before its name.
pub const NAMES_ENTRY: usize = 34;

/// The container's id.
pub const STRING_ID: u32 = 1;
/// The image's name, escaped for JSON.
pub const STRING_FROM: u32 = 2;
/// Attributes of the container's events: JSON members without braces.
pub const STRING_ATTRIBUTES: u32 = 3;
/// File name of the json-file log in the container's directory.
pub const STRING_LOG_NAME: u32 = 4;
/// `"attrs":{...},` of log records, or empty.
pub const STRING_LOG_ATTRS: u32 = 5;
/// A volume of the container: the actor of its mount event, `"Actor":{...}`. One string for each volume.
pub const STRING_MOUNTED: u32 = 6;
/// As [`STRING_MOUNTED`], for the unmount event.
pub const STRING_UNMOUNTED: u32 = 7;

/// A mount with nothing special.
pub const SPECIAL_NONE: u32 = 0;
/// This is `/proc`: sysctls go through it.
pub const SPECIAL_PROC: u32 = 1;
/// This is `/dev/pts`: terminals come from it.
pub const SPECIAL_DEVPTS: u32 = 2;

/// Bit of `special`: this fresh mount is the *place* of the operations that follow, where nobody else has written yet: a
/// target without a slash is a name in it.
pub const SPECIAL_PLACE: u32 = 1 << 30;
/// Bit of `special`: no component of the target may be a symbolic link.
pub const SPECIAL_FIXED: u32 = 1 << 31;

/// Take the mounts below the source too.
pub const BIND_RECURSIVE: u32 = 1;
/// The source is made as a directory when it is missing.
pub const BIND_MAKE_SOURCE: u32 = 2;

/// The propagation holds for the mounts below too; the attributes are the top mount's alone, as the field has it.
pub const BIND_PROPAGATE_BELOW: u32 = 4;

/// The owners of files are as the container's user namespace has them.
pub const BIND_IDMAP: u32 = 8;
/// Flag of [`OP_BIND`]: a file of the container's own, for which nobody waits when the container has ended.
pub const BIND_OWN: u32 = 16;
/// Flag of [`OP_OVERLAY`]: a crash may lose what was written.
pub const OVERLAY_VOLATILE: u32 = 1;
/// Flag of [`OP_OVERLAY`]: as [`BIND_IDMAP`].
pub const OVERLAY_IDMAP: u32 = 2;

/// No new privileges.
pub const ID_NO_NEW_PRIVS: u32 = 1;

/// A failed operation: report of the child, forwarded by the monitor.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failure {
    /// Index of the operation in the plan; [`STEP_MONITOR`] and below for the monitor's own work.
    pub step: u32,
    /// The kernel's error number, or 0.
    pub errno: i32,
    /// `DETAIL_*`.
    pub detail: u32,
    /// Depends on the detail.
    pub extra: u32,
}

/// `step` of a failure before any operation ran: the clone itself.
pub const STEP_CLONE: u32 = 0xffff_0001;
/// `step`: the monitor's own set-up (sockets, streams).
pub const STEP_MONITOR: u32 = 0xffff_0002;
/// `step`: the child ended without a word.
pub const STEP_LOST: u32 = 0xffff_0003;
/// `step`: joining the cgroups.
pub const STEP_CGROUP_JOIN: u32 = 0xffff_0004;
/// `step`: the plan is damaged or of another version.
pub const STEP_PLAN: u32 = 0xffff_0005;
/// `step`: the child said nothing for [`STEP_LIMIT_S`]. (1.24 has no word for it; dockerd waits for ever.)
pub const STEP_LATE: u32 = 0xffff_0006;

/// `step`: the process was there, and did not come to execute its program for [`APPEARANCE_LIMIT_S`].
pub const STEP_HELD: u32 = 0xffff_0007;

/// `step`: the process that reads what the container makes could not give its rights up, as on a kernel without filters.
pub const STEP_WORKER: u32 = 0xffff_0008;

/// First bytes of an event's record in the journal.
pub const EVENT_MAGIC: u32 = 0x4556_5431;
/// Where the records of the journal begin.
pub const JOURNAL_HEAD: u64 = 4096;
/// Bytes of events that the journal keeps at most, where a program looks after it.
pub const JOURNAL_LIMIT: u64 = 8 << 20;

/// Seconds that a step of a plan may take: mounts of network file systems can hang, a start must not for ever.
pub const STEP_LIMIT_S: i64 = 120;

/// Seconds between the moment when a container sees a new process and that process's program: others in the container can
/// stop it, which must hold up nobody outside.
pub const APPEARANCE_LIMIT_S: i64 = 10;

/// The user is not in the image's passwd file.
pub const DETAIL_NO_USER: u32 = 1;
/// A group is not in the image's group file; `extra` is its index, 0 for the user's own.
pub const DETAIL_NO_GROUP: u32 = 2;
/// A number is out of range.
pub const DETAIL_BAD_ID: u32 = 3;
/// Something on the way to the target is not a directory, or of the wrong kind.
pub const DETAIL_NOT_DIR: u32 = 4;
/// The program was not found in `PATH`.
pub const DETAIL_NOT_IN_PATH: u32 = 5;
/// The passwd or group file is too large or not a regular file.
pub const DETAIL_BAD_USER_FILE: u32 = 6;

/// A health check that was killed because it took too long.
pub const DETAIL_TIMEOUT: u32 = 7;
/// A link of the image leads the place of a mount into procfs.
pub const DETAIL_IN_PROCFS: u32 = 8;
/// The filter of system calls refuses what a process needs to come into a PID namespace of others, and somebody there could
/// take it over before the filter is set.
pub const DETAIL_FILTER: u32 = 9;

/// The state of a container, by its number in a state record.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It never ran, or its first start failed.
    Created = 0,
    /// Its monitor is starting it.
    Starting = 1,
    /// It runs.
    Running = 2,
    /// It is frozen.
    Paused = 3,
    /// It ended, and its monitor waits to start it again.
    Restarting = 4,
    /// It ended.
    Exited = 5,
}

impl Status {
    /// Each state at the place of its number.
    pub const ALL: [Status; 6] =
        [Status::Created, Status::Starting, Status::Running, Status::Paused, Status::Restarting, Status::Exited];

    /// Whether a monitor holds the container.
    pub fn is_live(self) -> bool {
        match self {
            Status::Starting | Status::Running | Status::Paused | Status::Restarting => true,
            Status::Created | Status::Exited => false,
        }
    }
}

/// The kernel's OOM killer ended it.
pub const STATE_OOM: u32 = 1;
/// It was stopped or killed by hand.
pub const STATE_MANUAL: u32 = 2;
/// Its monitor has removed all of its cgroups. Only in the records of this boot.
pub const STATE_SWEPT: u32 = 8;

/// Written by the library: the machine was started since, and nobody who starts containers after a boot has looked yet.
pub const STATE_AFTER_BOOT: u32 = 4;

/// No health check runs.
pub const HEALTH_NONE: u32 = 0;
/// None has succeeded yet.
pub const HEALTH_STARTING: u32 = 1;
/// The last one succeeded, or too few have failed since.
pub const HEALTH_HEALTHY: u32 = 2;
/// Too many failed in a row; also while no checks are made, as of a paused or ended container.
pub const HEALTH_UNHEALTHY: u32 = 3;

/// The attribute of a log file that holds its [`LogMark`].
pub const LOG_MARK: &core::ffi::CStr = c"trusted.coracle.log";

/// The amount that was written to a log before one of its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogMark {
    /// Each file has one more than the file before it.
    pub generation: u64,
    /// Records in all earlier files.
    pub records: u64,
    /// Bytes in all earlier files, before they were compressed.
    pub bytes: u64,
}

/// Bytes of a [`LogMark`].
pub const LOG_MARK_LEN: usize = 24;

impl LogMark {
    /// As it stands in the attribute.
    pub fn to_bytes(self) -> [u8; LOG_MARK_LEN] {
        let mut bytes = [0; LOG_MARK_LEN];
        for (place, value) in bytes.chunks_exact_mut(8).zip([self.generation, self.records, self.bytes]) {
            place.copy_from_slice(&value.to_le_bytes());
        }
        bytes
    }

    /// `None`: something else.
    pub fn from_bytes(bytes: &[u8]) -> Option<LogMark> {
        let bytes: &[u8; LOG_MARK_LEN] = bytes.try_into().ok()?;
        let [generation, records, before] = [0, 8, 16].map(|at| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(word)
        });
        Some(LogMark { generation, records, bytes: before })
    }
}

/// State of a container, one per slot of the state files: its monitor writes it in place, readers never lock.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// FNV-1a of the bytes after this field; a record that does not match is torn (read again) or empty.
    pub checksum: u32,
    /// [`VERSION`]; 0 is an empty slot.
    pub version: u32,
    /// First eight bytes of the container's id, so that a reused slot is noticed.
    pub id: [u8; 8],
    /// The boot that the record belongs to (`/proc/sys/kernel/random/boot_id` as bytes).
    pub boot: [u8; 16],
    /// The number of a [`Status`]: see [`State::status`].
    pub status: u32,
    /// `STATE_*`.
    pub flags: u32,
    /// First process, as the host sees it; 0 when it does not run.
    pub pid: i32,
    /// Exit code of the last run.
    pub exit_code: i32,
    /// Start time of `pid` in clock ticks since boot: with it a reused pid is noticed.
    pub pid_start: u64,
    /// Nanoseconds since 1970; 0 is never.
    pub started_ns: i64,
    /// Nanoseconds since 1970; 0 is never.
    pub finished_ns: i64,
    /// How often the restart policy started it.
    pub restarts: u32,
    /// The monitor.
    pub monitor_pid: i32,
    /// Why the last start failed.
    pub failure: Failure,
    /// `HEALTH_*`.
    pub health: u32,
    /// How many health checks have failed in a row.
    pub failing_streak: u32,
    /// Records of the log that its monitor could not write.
    pub log_lost: u64,
    /// How many of the last restarts went on in the network namespace of before ([`OP_KEEP_NET`]).
    pub kept: u32,
    /// Zero.
    pub reserved: [u8; 12],
}

/// Bytes of a state record, and of a slot of the state files.
pub const STATE_LEN: usize = 128;
const _: () = assert!(size_of::<State>() == STATE_LEN);

impl State {
    /// An empty record.
    pub const EMPTY: State = State {
        checksum: 0,
        version: 0,
        id: [0; 8],
        boot: [0; 16],
        status: Status::Created as u32,
        flags: 0,
        pid: 0,
        exit_code: 0,
        pid_start: 0,
        started_ns: 0,
        finished_ns: 0,
        restarts: 0,
        monitor_pid: 0,
        failure: Failure { step: 0, errno: 0, detail: 0, extra: 0 },
        health: HEALTH_NONE,
        failing_streak: 0,
        log_lost: 0,
        kept: 0,
        reserved: [0; 12],
    };

    /// The container's state. A number that no state has tells of none that a monitor of this library holds.
    pub fn status(&self) -> Status {
        Status::ALL.get(self.status as usize).copied().unwrap_or(Status::Exited)
    }

    /// After which restart its network namespace was made, as [`PATCH_RESTART`] has it.
    pub fn network_restarts(&self) -> u32 {
        self.restarts.wrapping_sub(self.kept)
    }

    /// The record as bytes, its checksum made.
    pub fn to_bytes(mut self) -> [u8; STATE_LEN] {
        self.version = VERSION;
        self.checksum = 0;
        // SAFETY: State is repr(C), without padding (its size is the sum of its fields), so all its bytes are initialised.
        let bytes: [u8; STATE_LEN] = unsafe { core::mem::transmute(self) };
        let mut out = bytes;
        out[..4].copy_from_slice(&fnv1a(&bytes[4..]).to_le_bytes());
        out
    }

    /// Reads a record; `None` when it is torn, empty or of a version that is not known.
    pub fn from_bytes(bytes: &[u8; STATE_LEN]) -> Option<State> {
        // SAFETY: every bit pattern is a valid State: it holds integers only.
        let state: State = unsafe { core::mem::transmute(*bytes) };
        (state.version == VERSION && state.checksum == fnv1a(&bytes[4..])).then_some(state)
    }
}

/// FNV-1a, 32 bits: enough against torn writes, small enough for the monitor.
pub fn fnv1a(bytes: &[u8]) -> u32 {
    let mut hash = 0x811c_9dc5_u32;
    for &byte in bytes {
        hash = (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    }
    hash
}

/// State of an exec'd process: the monitor writes it into a file that the request brought.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExecState {
    /// [`VERSION`]; 0 is not started.
    pub version: u32,
    /// 1 while it runs, 2 when it ended.
    pub phase: u32,
    /// As the host sees it.
    pub pid: i32,
    /// Valid in phase 2.
    pub exit_code: i32,
    /// The monitor that started it.
    pub monitor_pid: i32,
    /// Zero.
    pub reserved: u32,
}

/// Bytes of an exec state.
pub const EXEC_STATE_LEN: usize = 24;

// The results of health checks: a file in the container's run directory, of a count (u64, of all results ever) and a ring
// of slots. A reader that finds the count as it was before has read whole results: the slot that is written next holds
// none of the last five.

/// Name of the file.
pub const HEALTH_FILE: &str = "health";
/// Results that are kept.
pub const HEALTH_KEPT: u64 = 5;
/// Slots of the ring.
pub const HEALTH_SLOTS: u64 = HEALTH_KEPT + 1;
/// Bytes of output that are kept of a check.
pub const HEALTH_OUTPUT: usize = 4096;
/// Bytes before the ring.
pub const HEALTH_HEAD: usize = 8;
/// Bytes of a slot: the result, then its output.
pub const HEALTH_SLOT_LEN: usize = HEALTH_RESULT_LEN + HEALTH_OUTPUT;
/// Bytes of a [`HealthResult`].
pub const HEALTH_RESULT_LEN: usize = 40;
const _: () = assert!(size_of::<HealthResult>() == HEALTH_RESULT_LEN);

/// The result of a health check.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HealthResult {
    /// Nanoseconds since 1970.
    pub start_ns: i64,
    /// Nanoseconds since 1970.
    pub end_ns: i64,
    /// -1: it could not be run, or took too long.
    pub exit_code: i32,
    /// Bytes of output; only the first [`HEALTH_OUTPUT`] are kept.
    pub output: u32,
    /// Why it could not be run; [`DETAIL_TIMEOUT`]: it took too long.
    pub failure: Failure,
}

impl HealthResult {
    /// The result as bytes.
    pub fn to_bytes(self) -> [u8; HEALTH_RESULT_LEN] {
        // SAFETY: HealthResult is repr(C), of integers, without padding.
        unsafe { core::mem::transmute(self) }
    }

    /// Reads a result.
    pub fn from_bytes(bytes: [u8; HEALTH_RESULT_LEN]) -> HealthResult {
        // SAFETY: every bit pattern is a valid HealthResult: it holds integers only.
        unsafe { core::mem::transmute(bytes) }
    }
}

/// First word of every boot and control message.
pub const MESSAGE_MAGIC: u32 = 0x4c54_4343;

// Descriptors of the boot message, in order; namespace descriptors follow.

/// The container's run directory.
pub const BOOT_RUN_DIR: usize = 0;
/// The container's durable directory.
pub const BOOT_CONTAINER_DIR: usize = 1;
/// The plan, a sealed memfd.
pub const BOOT_PLAN: usize = 2;
/// The event journal, opened for appending.
pub const BOOT_EVENTS: usize = 3;
/// The run directory's state file.
pub const BOOT_RUN_STATES: usize = 4;
/// The root's state file.
pub const BOOT_ROOT_STATES: usize = 5;
/// An open file description that holds the lock of the slot.
pub const BOOT_LOCK: usize = 6;
/// How many descriptors every boot message has.
pub const BOOT_FDS: usize = 7;
/// The most descriptors a message can bring.
pub const MAX_FDS: usize = 16;

/// A control or boot request.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Request {
    /// [`MESSAGE_MAGIC`].
    pub magic: u32,
    /// [`VERSION`] of the sender.
    pub version: u32,
    /// The number of a call: see [`crate::call::Call`].
    pub what: u32,
    /// Its argument.
    pub a: u32,
    /// Its argument.
    pub b: u32,
    /// Its argument.
    pub c: u32,
    /// Boot id of the machine (boot message only).
    pub boot: [u8; 16],
    /// Restart count to begin with (boot message only).
    pub d: u64,
}

/// The most volumes of that kind that a container has.
pub const MAX_VOLUMES: usize = 32;

/// Masks of standard streams.
pub const SESSION_STDIN: u32 = 1;
/// See [`SESSION_STDIN`].
pub const SESSION_STDOUT: u32 = 2;
/// See [`SESSION_STDIN`].
pub const SESSION_STDERR: u32 = 4;
/// Those three: as many descriptors come as of them are set.
pub const SESSION_STREAMS: u32 = 7;
/// `SESSION_STDIN << SESSION_DIRECT` and so on: the process itself gets the descriptor. Only before it runs.
pub const SESSION_DIRECT: u32 = 3;

/// The longest text after a control request, in bytes.
pub const MAX_TEXT: usize = 32 * 1024;

/// An answer of the monitor.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// [`MESSAGE_MAGIC`].
    pub magic: u32,
    /// [`VERSION`] of the monitor.
    pub version: u32,
    /// 0, or an errno.
    pub errno: i32,
    /// pid, or exit code of an end.
    pub value: i32,
    /// `STATE_*`.
    pub flags: u32,
    /// Zero.
    pub reserved: u32,
    /// Of a failed start.
    pub failure: Failure,
}

/// Bytes of an [`Answer`].
pub const ANSWER_LEN: usize = size_of::<Answer>();
/// Bytes of a [`Request`].
pub const REQUEST_LEN: usize = size_of::<Request>();

impl Request {
    /// The request as bytes.
    pub fn to_bytes(self) -> [u8; REQUEST_LEN] {
        // SAFETY: Request is repr(C), of integers, without padding.
        unsafe { core::mem::transmute(self) }
    }

    /// Reads a request; `None` when it is none.
    pub fn from_bytes(bytes: &[u8]) -> Option<Request> {
        let bytes: &[u8; REQUEST_LEN] = bytes.get(..REQUEST_LEN)?.try_into().ok()?;
        // SAFETY: every bit pattern is a valid Request: it holds integers only.
        let request: Request = unsafe { core::mem::transmute(*bytes) };
        (request.magic == MESSAGE_MAGIC).then_some(request)
    }
}

impl Answer {
    /// The answer as bytes.
    pub fn to_bytes(self) -> [u8; ANSWER_LEN] {
        // SAFETY: Answer is repr(C), of integers, without padding.
        unsafe { core::mem::transmute(self) }
    }

    /// Reads an answer; `None` when it is none.
    pub fn from_bytes(bytes: &[u8; ANSWER_LEN]) -> Option<Answer> {
        // SAFETY: every bit pattern is a valid Answer: it holds integers only.
        let answer: Answer = unsafe { core::mem::transmute(*bytes) };
        (answer.magic == MESSAGE_MAGIC).then_some(answer)
    }
}

impl ExecState {
    /// The state as bytes.
    pub fn to_bytes(self) -> [u8; EXEC_STATE_LEN] {
        // SAFETY: ExecState is repr(C), of integers, without padding.
        unsafe { core::mem::transmute(self) }
    }

    /// Reads a state; `None` when nothing is written yet.
    pub fn from_bytes(bytes: &[u8; EXEC_STATE_LEN]) -> Option<ExecState> {
        // SAFETY: every bit pattern is a valid ExecState: it holds integers only.
        let state: ExecState = unsafe { core::mem::transmute(*bytes) };
        (state.version == VERSION).then_some(state)
    }
}

/// Reads the operations of a plan.
#[derive(Clone, Copy)]
pub struct Ops<'a> {
    rest: &'a [u8],
    index: u32,
}

/// One operation: its index in the plan, its code, its payload.
#[derive(Clone, Copy)]
pub struct Op<'a> {
    /// Index in the plan, counted over all operations.
    pub index: u32,
    /// `OP_*`.
    pub code: u16,
    /// The payload.
    pub payload: Payload<'a>,
}

/// A payload being read. Reads beyond its end give zeroes and empty strings: a plan is checked as a whole before it runs.
#[derive(Clone, Copy)]
pub struct Payload<'a> {
    rest: &'a [u8],
}

impl<'a> Ops<'a> {
    /// The operations of a plan; `None` when its head is wrong.
    pub fn of(plan: &'a [u8]) -> Option<(Header, Ops<'a>)> {
        let header = read_header(plan)?;
        let known = header.magic == PLAN_MAGIC && header.version == VERSION && header.length as usize == plan.len();
        known.then_some((header, Ops { rest: &plan[HEADER_LEN..], index: 0 }))
    }
}

fn read_header(plan: &[u8]) -> Option<Header> {
    let bytes: &[u8; HEADER_LEN] = plan.get(..HEADER_LEN)?.try_into().ok()?;
    // SAFETY: every bit pattern is a valid Header: it holds integers only.
    Some(unsafe { core::mem::transmute::<[u8; HEADER_LEN], Header>(*bytes) })
}

impl<'a> Ops<'a> {
    /// The bytes that are left to be read.
    pub fn bytes(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Ops<'a> {
    type Item = Op<'a>;
    fn next(&mut self) -> Option<Op<'a>> {
        let head = self.rest.get(..8)?;
        let code = u16::from_le_bytes([head[0], head[1]]);
        let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        let payload = self.rest.get(8..8usize.checked_add(length)?)?;
        if code == OP_END {
            return None;
        }
        self.rest = &self.rest[8 + length..];
        let op = Op { index: self.index, code, payload: Payload { rest: payload } };
        self.index += 1;
        Some(op)
    }
}

impl<'a> Payload<'a> {
    /// These bytes as a payload.
    #[cfg(any(test, fuzzing))]
    pub fn of(rest: &'a [u8]) -> Payload<'a> {
        Payload { rest }
    }

    /// The next 32 bits.
    pub fn u32(&mut self) -> u32 {
        match self.rest.split_first_chunk::<4>() {
            Some((bytes, rest)) => {
                self.rest = rest;
                u32::from_le_bytes(*bytes)
            }
            None => 0,
        }
    }
    /// The next 64 bits.
    pub fn u64(&mut self) -> u64 {
        u64::from(self.u32()) | u64::from(self.u32()) << 32
    }
    /// The next bytes as they are; none where there are fewer.
    pub fn raw(&mut self, length: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(bytes)
    }
    /// The next string, with its closing NUL: so it is a C string.
    pub fn cstr(&mut self) -> &'a [u8] {
        let length = self.u32() as usize;
        match length.checked_add(1).and_then(|n| self.rest.split_at_checked(n)) {
            Some((text, rest)) if text[length] == 0 => {
                self.rest = rest;
                text
            }
            _ => b"\0",
        }
    }
    /// The next string with its NUL, left where it is.
    pub fn cstr_peek(&self) -> &'a [u8] {
        let mut copy = *self;
        copy.cstr()
    }
    /// The next string without its NUL.
    pub fn bytes(&mut self) -> &'a [u8] {
        let text = self.cstr();
        &text[..text.len() - 1]
    }
}
