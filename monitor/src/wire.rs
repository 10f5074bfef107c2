//! The wire format between the library and the monitor: plan, state record, boot and control messages.
//!
//! Everything is little-endian, flat and versioned, so that a newer library works with containers that an older
//! library's monitor still runs. This file is compiled twice: into the library and into the `no_std` monitor.

/// First eight bytes of a plan.
pub const PLAN_MAGIC: u64 = u64::from_le_bytes(*b"CORAPLAN");
/// Version of the plan and of the control protocol. A monitor refuses a plan of another version; a library speaks every
/// control version up to its own.
///
/// Parts that an older monitor may leave out do not change it: operations of the monitor ([`crate::ops::MONITORS`] and
/// above) that it does not know are skipped, requests that it does not know are answered with ENOSYS, text that it does
/// not expect is not read, and reserved fields that it leaves zero mean "none".
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
/// The kernel has no mount_setattr(2): attributes are set by mount(2), after the mount is attached.
pub const FLAG_REMOUNT: u32 = 1 << 7;

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
    /// Bound of [`RESTART_ON_FAILURE`]; 0 means no bound.
    pub restart_max: u32,
    /// json-file: bytes after which the log is rotated; 0 is never.
    pub log_max_size: u64,
    /// json-file: files kept.
    pub log_max_file: u32,
    /// Terminal size; 0 leaves the kernel's.
    pub rows: u16,
    /// See `rows`.
    pub cols: u16,
    /// Namespaces to join: how many descriptors of the boot message are for [`crate::ops::JoinNs`].
    pub namespaces: u32,
    /// Zero.
    pub reserved: u32,
}

/// Bytes of the header.
pub const HEADER_LEN: usize = 64;
const _: () = assert!(size_of::<Header>() == HEADER_LEN);

// Flags and kinds of the operations in `ops`.

/// Terminals come from the `/dev/pts` that is there.
pub const FOREIGN_PTS: u32 = 1;
/// A terminal is mounted on the `/dev/console` that is there, if there is one: nothing may be made.
pub const FOREIGN_CONSOLE: u32 = 2;
/// A terminal is mounted on `/dev/console`, which is made if it is not there.
pub const FOREIGN_NOT_CONSOLE: u32 = 4;

/// Over a socket in the monitor's network namespace, of the route family.
pub const NET_HOST: u32 = 0;
/// Over a socket in the container's network namespace, of the route family.
pub const NET_INSIDE: u32 = 1;
/// Over a socket in the container's network namespace, of the netfilter family.
pub const NET_INSIDE_FILTER: u32 = 2;
/// Two digits that change with each restart, because an interface of the last run may not be gone yet.
pub const PATCH_RESTART: u32 = 0;
/// A descriptor of the container's network namespace (i32).
pub const PATCH_NETNS: u32 = 1;
/// The index (u32) of the operation's interface in the container.
pub const PATCH_INDEX: u32 = 2;

/// Bytes that name a port that is passed on: u16 port, u8 protocol (6 or 17), u8 zero, sixteen of the host's IPv6
/// address.
pub const RELAY_KEY: usize = 20;

/// First four bytes of a file of names. A u8 length and the network's name follow, then entries: u32 slot, eight bytes
/// of the container's id, four of an IPv4 address, sixteen of an IPv6 address, u8 flags (1: has IPv4, 2: has IPv6, 4:
/// is the container's own name), u8 length and the name in small letters.
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
/// The file of the cursor of the log's delivery, from the container's directory ([`delivered_to`]): no file of the log gives
/// way to a newer one before it is delivered, and output waits meanwhile.
pub const STRING_LOG_CURSOR: u32 = 8;
/// A program delivers the log: the monitor starts the program again if it is gone. The text is empty.
pub const STRING_LOG_SHIPPED: u32 = 9;

/// Files of the root's run directory, from that of a container: by the lock of the first one the processes that deliver logs know of each
/// other; the others are the program that delivers, and its words (u32 number of those of the command line, then each with a zero behind
/// it, then the variables alike).
pub const SHIP_LOCK: &[u8] = b"../../ship.lock\0";
/// See [`SHIP_LOCK`].
pub const SHIP_PROGRAM: &[u8] = b"../../ship.program\0";
/// See [`SHIP_LOCK`].
pub const SHIP_WORDS: &[u8] = b"../../ship.words\0";
/// A monitor has room for so many of these words.
pub const SHIP_WORDS_MOST: usize = 509;

/// A mount with nothing special.
pub const SPECIAL_NONE: u32 = 0;
/// This is `/proc`: sysctls go through it.
pub const SPECIAL_PROC: u32 = 1;
/// This is `/dev/pts`: terminals come from it.
pub const SPECIAL_DEVPTS: u32 = 2;

/// Bit of `special`: this fresh mount is the *place* of the operations that follow, and has no files of others. A
/// target without a slash is a name in the place.
pub const SPECIAL_PLACE: u32 = 1 << 30;
/// Bit of `special`: no component of the target may be a symbolic link.
pub const SPECIAL_FIXED: u32 = 1 << 31;

/// Take the mounts below the source too.
pub const BIND_RECURSIVE: u32 = 1;
/// The source is made as a directory when it is missing.
pub const BIND_MAKE_SOURCE: u32 = 2;

/// The propagation holds for the mounts below, too. The attributes hold only for the top mount, as with other engines.
pub const BIND_PROPAGATE_BELOW: u32 = 4;

/// The files show the owners that the container's user namespace maps.
pub const BIND_IDMAP: u32 = 8;
/// Flag of [`crate::ops::Bind`]: the file belongs to the container, so nobody waits until it is unmounted.
pub const BIND_OWN: u32 = 16;
/// Flag of [`crate::ops::Bind`]: the mounts below the source are read-only, too.
pub const BIND_READ_ONLY_BELOW: u32 = 32;
/// Flag of [`crate::ops::BindPart`]: no component of the part may be a symbolic link.
pub const BIND_NO_LINKS: u32 = 64;
/// Flag of [`crate::ops::Overlay`]: a crash may lose what was written.
pub const OVERLAY_VOLATILE: u32 = 1;
/// Flag of [`crate::ops::Overlay`]: as [`BIND_IDMAP`].
pub const OVERLAY_IDMAP: u32 = 2;

/// No new privileges.
pub const ID_NO_NEW_PRIVS: u32 = 1;

/// A failed operation: the child reports it, and the monitor forwards the report.
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
/// `step`: the child ended without a report.
pub const STEP_LOST: u32 = 0xffff_0003;
/// `step`: joining the cgroups.
pub const STEP_CGROUP_JOIN: u32 = 0xffff_0004;
/// `step`: the plan is damaged or of another version.
pub const STEP_PLAN: u32 = 0xffff_0005;
/// `step`: the child reported nothing for [`STEP_LIMIT_S`]. (API 1.24 does not define this case; dockerd waits for
/// ever.)
pub const STEP_LATE: u32 = 0xffff_0006;

/// `step`: the process was there, and did not execute its program for [`APPEARANCE_LIMIT_S`].
pub const STEP_HELD: u32 = 0xffff_0007;

/// `step`: the process that reads the container's output could not give up its rights, for example on a kernel without
/// filters.
pub const STEP_WORKER: u32 = 0xffff_0008;

/// First bytes of an event's record in the journal.
pub const EVENT_MAGIC: u32 = 0x4556_5431;
/// Where the records of the journal begin.
pub const JOURNAL_HEAD: u64 = 4096;
/// Bytes of events that the journal keeps at most, if a program trims it.
pub const JOURNAL_LIMIT: u64 = 8 << 20;

/// Seconds that a step of a plan may take: mounts of network file systems can hang, but a start must not hang for ever.
pub const STEP_LIMIT_S: i64 = 120;

/// Seconds between the moment when a container sees a new process and the start of its program. Other processes of the
/// container can stop the process, which must not hold up anybody outside.
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
/// The filter of system calls forbids a call that a process needs to enter a PID namespace of other processes, and one
/// of those could take over the process before the filter is set.
pub const DETAIL_FILTER: u32 = 9;
/// The plan is not of the form that the monitor knows; `extra` is the code of the operation.
pub const DETAIL_OPERATION: u32 = 10;
/// Without mount_setattr(2) the attributes of a mount cannot be set that another mount hides.
pub const DETAIL_HIDDEN_MOUNT: u32 = 11;

/// The state of a container, by its number in a state record.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The container never ran, or its first start failed.
    Created = 0,
    /// A monitor is starting the container.
    Starting = 1,
    /// The container runs.
    Running = 2,
    /// The container is frozen.
    Paused = 3,
    /// The container ended, and its monitor waits to start it again.
    Restarting = 4,
    /// The container ended.
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
/// The container was stopped or killed by hand.
pub const STATE_MANUAL: u32 = 2;
/// The container's monitor has removed all of its cgroups. Only in the records of this boot.
pub const STATE_SWEPT: u32 = 8;

/// The library writes this: the machine was started since, and no program that starts containers after a boot has
/// looked yet.
pub const STATE_AFTER_BOOT: u32 = 4;

/// No health check runs.
pub const HEALTH_NONE: u32 = 0;
/// No check has succeeded yet.
pub const HEALTH_STARTING: u32 = 1;
/// The last one succeeded, or too few have failed since.
pub const HEALTH_HEALTHY: u32 = 2;
/// Too many checks failed in a row; also while no checks run, because the container is paused or has ended.
pub const HEALTH_UNHEALTHY: u32 = 3;

/// The attribute of a log file that holds its [`LogMark`]. The shipper, which has no capability, can read it: attributes of
/// this kind can be written with `CAP_SYS_ADMIN` alone, and read by everybody who can read the file.
pub const LOG_MARK: &core::ffi::CStr = c"security.coracle.log";
/// The attribute in its place in files of earlier versions.
pub const LOG_MARK_BEFORE: &core::ffi::CStr = c"trusted.coracle.log";

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
    /// The mark of the file that follows one of so many records and bytes.
    pub fn after(self, records: u64, bytes: u64) -> LogMark {
        LogMark {
            generation: self.generation.saturating_add(1),
            records: self.records.saturating_add(records),
            bytes: self.bytes.saturating_add(bytes),
        }
    }

    /// As it stands in the attribute.
    pub fn to_bytes(self) -> [u8; LOG_MARK_LEN] {
        let mut bytes = [0; LOG_MARK_LEN];
        for (place, value) in bytes.chunks_exact_mut(8).zip([self.generation, self.records, self.bytes]) {
            place.copy_from_slice(&value.to_le_bytes());
        }
        bytes
    }

    /// Reads a mark; `None` if the bytes are not one.
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

/// Bytes of the cursor of a log's delivery, which the crate `ship` writes.
pub const LOG_CURSOR_LEN: usize = 64;

/// How far a log is delivered: the generation of a file, and the bytes of that file before the place, uncompressed; `None`
/// if the bytes are not a cursor.
pub fn delivered_to(cursor: &[u8; LOG_CURSOR_LEN]) -> Option<(u64, u64)> {
    let word = |at: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&cursor[at..at + 8]);
        u64::from_le_bytes(word)
    };
    (word(0) as u32 == fnv1a(&cursor[4..])).then(|| (word(8), word(16)))
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
    /// How many of the last restarts kept the network namespace of the run before ([`crate::ops::KeepNet`]).
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

    /// The container's state. An unknown number counts as a state in which no monitor holds the container.
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
        // SAFETY: State is repr(C), without padding (its size is the sum of its fields), so all its bytes are
        // initialised.
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

// The results of health checks are in a file of the container's run directory: a count of all results ever (u64), and a
// ring of slots. If the count is the same before and after a reader reads, the results are whole, because the slot that
// is written next has none of the last five.

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
    /// The exit code; -1 if the check could not be run, or took too long.
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
    /// The request's argument.
    pub a: u32,
    /// The request's argument.
    pub b: u32,
    /// The request's argument.
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
/// All three. A message has a descriptor for each bit that is set.
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

impl Header {
    /// The head of a plan; `None` where there are too few bytes.
    pub fn of(plan: &[u8]) -> Option<Header> {
        let bytes: &[u8; HEADER_LEN] = plan.get(..HEADER_LEN)?.try_into().ok()?;
        // SAFETY: every bit pattern is a valid Header: it holds integers only.
        Some(unsafe { core::mem::transmute::<[u8; HEADER_LEN], Header>(*bytes) })
    }

    /// The head as bytes.
    pub fn to_bytes(self) -> [u8; HEADER_LEN] {
        // SAFETY: Header is repr(C), of integers, without padding.
        unsafe { core::mem::transmute(self) }
    }
}

impl Request {
    /// The request as bytes.
    pub fn to_bytes(self) -> [u8; REQUEST_LEN] {
        // SAFETY: Request is repr(C), of integers, without padding.
        unsafe { core::mem::transmute(self) }
    }

    /// Reads a request; `None` when the bytes are not one.
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

    /// Reads an answer; `None` when the bytes are not one.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_whole_or_not_at_all() {
        let mut bytes = [0; LOG_CURSOR_LEN];
        bytes[8..24].copy_from_slice(&[[7u64, 99].map(u64::to_le_bytes)].concat().concat());
        assert_eq!(delivered_to(&bytes), None, "without its checksum");
        let checksum = fnv1a(&bytes[4..]);
        bytes[..4].copy_from_slice(&checksum.to_le_bytes());
        assert_eq!(delivered_to(&bytes), Some((7, 99)));
        bytes[16] ^= 1;
        assert_eq!(delivered_to(&bytes), None);
    }

    #[test]
    fn a_state_record_that_is_torn_is_not_read() {
        let state = State { id: *b"containr", pid: 7, exit_code: -1, log_lost: u64::MAX, kept: 2, ..State::EMPTY };
        let bytes = state.to_bytes();
        let read = State::from_bytes(&bytes).expect("a record");
        assert_eq!((read.id, read.pid, read.exit_code, read.log_lost), (state.id, 7, -1, u64::MAX));
        assert_eq!(read.to_bytes(), bytes);
        for at in 0..STATE_LEN {
            let mut torn = bytes;
            torn[at] ^= 0x10;
            assert!(State::from_bytes(&torn).is_none(), "byte {at}");
        }
        assert!(State::from_bytes(&[0; STATE_LEN]).is_none(), "an empty slot");
    }

    #[test]
    fn a_status_is_its_number() {
        for status in Status::ALL {
            assert_eq!(State { status: status as u32, ..State::EMPTY }.status(), status);
        }
        assert_eq!(State { status: 99, ..State::EMPTY }.status(), Status::Exited);
        let live = Status::ALL.into_iter().filter(|status| status.is_live()).count();
        assert_eq!(live, 4, "created and exited containers have no monitor");
    }

    #[test]
    fn the_restarts_of_a_network_are_those_since_it_was_made() {
        assert_eq!(State { restarts: 5, kept: 2, ..State::EMPTY }.network_restarts(), 3);
    }

    #[test]
    fn messages_are_read_as_they_were_written_and_in_no_other_form() {
        let answer = Answer { magic: MESSAGE_MAGIC, version: VERSION, errno: 3, value: -9, ..Answer::default() };
        let bytes = answer.to_bytes();
        assert_eq!(Answer::from_bytes(&bytes).map(Answer::to_bytes), Some(bytes));
        assert!(Answer::from_bytes(&[0; ANSWER_LEN]).is_none());
        let mark = LogMark { generation: 1, records: u64::MAX, bytes: 3 };
        assert_eq!(LogMark::from_bytes(&mark.to_bytes()), Some(mark));
        assert_eq!(LogMark::from_bytes(&[0; LOG_MARK_LEN - 1]), None);
        let exec = ExecState { version: VERSION, phase: 2, pid: 7, exit_code: 1, monitor_pid: 6, reserved: 0 };
        assert_eq!(ExecState::from_bytes(&exec.to_bytes()).map(ExecState::to_bytes), Some(exec.to_bytes()));
        assert!(ExecState::from_bytes(&[0; EXEC_STATE_LEN]).is_none());
    }
}
