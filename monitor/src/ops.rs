//! The operations of a plan: each as a value, and its place in the bytes.
//!
//! The library writes a plan (`encode`), the monitor reads it; both know its bytes through this file alone. A plan is
//! checked as a whole before anything of it runs ([`Plan::check`]): a payload that ends early, one that has bytes left
//! over, and an operation of the child that nobody knows are errors that name the operation.
//!
//! The table makes three things of an operation: its writer, its reader, and its [`Shape`], by which one small piece of
//! code checks all of them. The monitor matches codes and reads the one operation that it has come to (`of_kind!` in
//! its `child`); [`Op`] is for everybody who looks at all of them.
//!
//! Codes and the order of fields never change, because a library speaks with monitors of earlier versions. A field that
//! an operation got later stands last, in a group `later`: plans of earlier versions end before it, and mean zero. An
//! older monitor refuses a payload that is longer than the one that it knows: so what is new since then is an operation
//! of its own.
//!
//! A number is little-endian, `bool` is a `u32` of 0 or 1, a text is a `u32` length, its bytes and one NUL, a list is a
//! `u32` count and its items. This file is compiled twice: into the library and into the `no_std` monitor.

use crate::wire::{DETAIL_OPERATION, Failure, HEADER_LEN, Header, PLAN_MAGIC, RELAY_KEY, STEP_PLAN, VERSION};
use core::marker::PhantomData;

/// Ends a plan.
pub const END: u16 = 0;
/// From this code on operations are the monitor's own; before it, they are those of its child, in the order in which
/// they stand in the plan. A monitor skips one of its own that it does not know; one of the child may be a restriction,
/// so it must be known.
pub const MONITORS: u16 = 0x100;
/// Bytes before a payload: u16 code, u16 zero, u32 length.
const HEAD: usize = 8;

/// A place that bytes are written to.
pub trait Out {
    /// The next bytes.
    fn put(&mut self, bytes: &[u8]);
}

/// A part of a payload.
pub trait Field<'a>: Sized {
    /// Which bytes it has.
    const SHAPE: Shape;
    /// Writes the field.
    fn write(&self, out: &mut impl Out);
    /// Reads the field from a payload whose shape was looked at.
    fn read(p: &mut Payload<'a>) -> Self;
}

/// An operation: its fields are its payload.
pub trait Operation<'a>: Field<'a> {
    /// The code before the payload.
    const CODE: u16;
}

macro_rules! fields {
    (
        $(#[$doc:meta])* $name:ident $(<$life:lifetime>)? { $($(#[$about:meta])* $field:ident: $kind:ty,)* }
        $(later { $($(#[$late_about:meta])* $late:ident: $late_kind:ty,)* })?
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name $(<$life>)? {
            $($(#[$about])* pub $field: $kind,)*
            $($($(#[$late_about])* pub $late: $late_kind,)*)?
        }

        impl<'a> Field<'a> for $name $(<$life>)? {
            const SHAPE: Shape =
                Shape::NONE$(.then(<$kind>::SHAPE))*$(.then(Shape::LATER)$(.then(<$late_kind>::SHAPE))*)?;
            fn write(&self, _out: &mut impl Out) {
                $(self.$field.write(_out);)*
                $($(self.$late.write(_out);)*)?
            }
            #[inline(always)]
            fn read(_p: &mut Payload<'a>) -> Self {
                $(let $field = Field::read(_p);)*
                $($(let $late = Field::read(_p);)*)?
                $name { $($field,)* $($($late,)*)? }
            }
        }
    };
}

macro_rules! operations {
    ($($(#[$doc:meta])* $code:literal $name:ident $(<$life:lifetime>)? { $($body:tt)* } $(later { $($late:tt)* })?)*) => {
        $(
            fields! { $(#[$doc])* $name $(<$life>)? { $($body)* } $(later { $($late)* })? }

            impl<'a> Operation<'a> for $name $(<$life>)? {
                const CODE: u16 = $code;
            }
        )*

        /// Any operation.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Op<'a> {
            $($(#[$doc])* $name($name $(<$life>)?),)*
            /// One of the monitor's own that this version does not know: it is skipped.
            Later,
        }

        /// The shape of each operation, below its code.
        const SHAPES: &[u64] = &[$($name::SHAPE.of_code($code),)*];

        /// The code of each operation, and its name.
        pub const NAMES: &[(u16, &str)] = &[$(($code, stringify!($name)),)*];

        impl<'a> Op<'a> {
            /// The operation of a code and its whole payload.
            pub fn read(code: u16, payload: &'a [u8]) -> Result<Op<'a>, Fault> {
                check(code, payload).map(|()| Op::of(code, payload))
            }

            fn of(code: u16, payload: &'a [u8]) -> Op<'a> {
                let mut p = Payload { rest: payload };
                match code {
                    $($code => Op::$name(Field::read(&mut p)),)*
                    _ => Op::Later,
                }
            }

            /// Writes the payload, and answers the code.
            pub fn write(&self, out: &mut impl Out) -> u16 {
                match self {
                    $(Op::$name(op) => {
                        op.write(out);
                        $code
                    })*
                    Op::Later => u16::MAX,
                }
            }
        }
    };
}

operations! {
    /// sethostname(2).
    1 Hostname<'a> {
        /// The name.
        name: &'a [u8],
    }
    /// setdomainname(2).
    2 Domainname<'a> {
        /// The name.
        name: &'a [u8],
    }
    /// Brings the loopback interface up.
    3 Loopback {}
    /// The propagation of the whole tree of this mount namespace.
    4 Propagation {
        /// `MS_*`.
        kind: u32,
    }
    /// The overlay that becomes the root.
    5 Overlay<'a> {
        /// The directory that is written to.
        upper: Text<'a>,
        /// The directory beside it that the kernel works in.
        work: Text<'a>,
        /// `OVERLAY_*`.
        flags: u32,
        /// The layers, topmost first.
        lower: List<'a, Text<'a>>,
    }
    /// A new file system.
    6 Mount<'a> {
        /// `SPECIAL_*`.
        special: u32,
        /// `MOUNT_ATTR_*`.
        attributes: u32,
        /// The type.
        kind: Text<'a>,
        /// The source.
        source: Text<'a>,
        /// The place inside the root.
        target: Text<'a>,
        /// Key and value; an empty value sets a flag.
        options: List<'a, (Text<'a>, Text<'a>)>,
    }
    /// A bind mount of the host's.
    7 Bind<'a> {
        /// `BIND_*`.
        flags: u32,
        /// `MS_*`; 0 leaves it.
        propagation: u32,
        /// `MOUNT_ATTR_*` that are set.
        set: u64,
        /// `MOUNT_ATTR_*` that are cleared.
        clear: u64,
        /// The host's path.
        source: Text<'a>,
        /// The place inside the root.
        target: Text<'a>,
    }
    /// A device node.
    8 Node<'a> {
        /// The mode with its type.
        mode: u32,
        /// The device's number.
        major: u32,
        /// The device's number.
        minor: u32,
        /// The owner.
        uid: u32,
        /// The group.
        gid: u32,
        /// The path inside the root.
        target: Text<'a>,
    }
    /// A symbolic link.
    9 Symlink<'a> {
        /// The path inside the root.
        target: Text<'a>,
        /// The path in the link.
        text: Text<'a>,
    }
    /// Hides a file or a directory; a missing one is fine.
    10 Mask<'a> {
        /// The path inside the root.
        path: Text<'a>,
    }
    /// Makes a subtree read-only; a missing one is fine.
    11 Readonly<'a> {
        /// The path inside the root.
        path: Text<'a>,
    }
    /// Sets a sysctl.
    13 Sysctl<'a> {
        /// The path below `/proc/sys`.
        name: Text<'a>,
        /// The value.
        value: &'a [u8],
    }
    /// The overlay becomes `/`, the host's tree goes.
    14 Pivot {
        /// `MOUNT_ATTR_*` of the root.
        attributes: u64,
        /// `MS_*` of the root; 0 leaves it.
        propagation: u32,
    }
    /// setrlimit(2).
    15 Rlimit {
        /// `RLIMIT_*`.
        resource: u32,
        /// Zero.
        reserved: u32,
        /// The soft limit.
        soft: u64,
        /// The hard limit.
        hard: u64,
    }
    /// `/proc/self/oom_score_adj`.
    16 OomScore {
        /// The value.
        value: i32,
        /// Whether a refusal is an error.
        required: bool,
    }
    /// A session keyring of its own.
    17 Keyring {}
    /// Standard streams (and terminal).
    18 Stdio {}
    /// The working directory, made when missing.
    19 Workdir<'a> {
        /// The path inside the root.
        path: Text<'a>,
    }
    /// The process's user and groups, and its rights.
    20 Identity<'a> {
        /// `ID_*`.
        flags: u32,
        /// The user, the groups, and the capabilities.
        credentials: Credentials<'a>,
        /// The seccomp filter (`sock_filter` bytes); empty if there is none.
        filter: &'a [u8],
        /// Inheritable capabilities.
        inheritable: u64,
        /// Ambient capabilities.
        ambient: u64,
    }
    /// execve(2), the program looked up in `PATH`. `HOME` is added when the environment has none.
    21 Exec<'a> {
        /// Arguments and environment.
        words: Words<'a>,
    }
    /// setns(2).
    22 JoinNs {
        /// Which of the boot message's namespace descriptors.
        index: u32,
        /// `CLONE_NEW*`.
        kind: u32,
    }
    /// unshare(CLONE_NEWCGROUP), after the cgroups are joined.
    23 CgroupNs {}
    /// Attributes of a mount that is there.
    25 Attr<'a> {
        /// `MOUNT_ATTR_*` that are set.
        set: u64,
        /// The path inside the root.
        path: Text<'a>,
    } later {
        /// `MS_*`; 0 leaves it.
        propagation: u32,
    }
    /// Enters the container's namespaces (exec).
    26 Enter {
        /// `CLONE_NEW*`.
        namespaces: u32,
    }
    /// Mounts the `/dev/shm` of another mount namespace in this container.
    27 SharedShm {
        /// Which of the boot message's namespace descriptors.
        index: u32,
    }
    /// A new file system on a new directory of the place ([`crate::wire::SPECIAL_PLACE`]), by the one call that is
    /// enough there.
    28 MountHere<'a> {
        /// `MS_*`.
        flags: u32,
        /// The type.
        kind: Text<'a>,
        /// The options, with commas.
        options: Text<'a>,
        /// The directory's name.
        name: Text<'a>,
    }
    /// New files belong to this owner from here on; all rights are kept.
    29 FsOwner {
        /// The owner.
        uid: u32,
        /// The group.
        gid: u32,
    }
    /// Enters the user namespace. Its root is this user and this group outside of it.
    30 UserNs {
        /// The user of the namespace's root.
        uid: u32,
        /// The group of the namespace's root.
        gid: u32,
        /// Makes a mount namespace that belongs to the user namespace: the root may mount, and cannot separate the
        /// mounts that are there.
        own_mounts: bool,
    }
    /// Gives the standard streams to this user and group (for an exec, before it enters a user namespace).
    31 OwnStreams {
        /// The owner.
        uid: u32,
        /// The group.
        gid: u32,
    }
    /// The file system that is the root of a volume's mount namespace ([`crate::call::Call::Volume`]) is mounted here,
    /// too.
    32 Volume<'a> {
        /// Which of those namespaces.
        index: u32,
        /// [`crate::wire::BIND_IDMAP`].
        flags: u32,
        /// `MOUNT_ATTR_*` that are set.
        set: u64,
        /// `MOUNT_ATTR_*` that are cleared.
        clear: u64,
        /// The place inside the root.
        target: Text<'a>,
        /// The volume's name.
        name: &'a [u8],
    }
    /// The container does not make all of `/dev` itself. A terminal is mounted on a console only if one of the parts
    /// says so.
    33 ForeignDev {
        /// `FOREIGN_*`.
        parts: u32,
    }
    /// The working directory, which is there.
    34 Chdir<'a> {
        /// The path inside the root.
        path: Text<'a>,
    }
    /// The AppArmor profile that the process has from its exec on.
    35 Profile<'a> {
        /// Whether a refusal is an error.
        required: bool,
        /// `exec NAME`.
        word: &'a [u8],
    }
    /// The SELinux label that the process has from its exec on.
    36 Label<'a> {
        /// The label.
        label: &'a [u8],
    }
    /// The SELinux label of the root file system, of the file systems that hide directories, of message queues, and of
    /// pipes that are standard streams. Other file systems have it among their options (`context`).
    37 MountLabel<'a> {
        /// The label.
        label: Text<'a>,
    }
    /// Changes the process to the AppArmor profile at once. [`Profile`] changes it at the exec, where the kernel clears
    /// the parent-death signal.
    38 ChangeProfile<'a> {
        /// `changeprofile NAME`.
        word: &'a [u8],
    }
    /// Netlink requests, sent in one buffer after the holes in it are filled.
    40 Net<'a> {
        /// `NET_*`.
        place: u32,
        /// How many acknowledgements come.
        acks: u32,
        /// The interface in the container.
        interface: Text<'a>,
        /// `PATCH_*`, and where in the messages.
        holes: List<'a, (u32, u32)>,
        /// The requests.
        messages: &'a [u8],
    }
    /// Makes the sockets of the resolver at 127.0.0.11, and hands them to the monitor.
    41 Dns {
        /// The sockets' port.
        port: u32,
    }
    /// Ends the process without a failure: the last step of a plan without a program.
    42 Done {}
    /// A path below a directory of the host's is bound. A container may write in the directory: links that lead out of
    /// it are refused.
    43 BindPart<'a> {
        /// As in [`Bind`].
        flags: u32,
        /// As in [`Bind`].
        propagation: u32,
        /// `MOUNT_ATTR_*` that are set.
        set: u64,
        /// `MOUNT_ATTR_*` that are cleared.
        clear: u64,
        /// The directory of the host.
        source: Text<'a>,
        /// The relative path below it.
        part: Text<'a>,
        /// The place inside the root.
        target: Text<'a>,
    }
    /// As [`Volume`], of a path below the root of the volume; links that lead out of it are refused.
    44 VolumePart<'a> {
        /// Which of those namespaces.
        index: u32,
        /// As in [`Volume`].
        flags: u32,
        /// `MOUNT_ATTR_*` that are set.
        set: u64,
        /// `MOUNT_ATTR_*` that are cleared.
        clear: u64,
        /// The place inside the root.
        target: Text<'a>,
        /// The relative path below the volume's root.
        part: Text<'a>,
        /// The volume's name.
        name: &'a [u8],
    }

    // From here on they are the monitor's.

    /// A text that the monitor keeps.
    0x100 Note<'a> {
        /// `STRING_*`.
        kind: u32,
        /// The text.
        text: Text<'a>,
    }
    /// Makes a cgroup.
    0x101 CgroupDir<'a> {
        /// Whether the container's processes go there.
        join: bool,
        /// The directory.
        path: Text<'a>,
    }
    /// Writes a file of a cgroup.
    0x102 CgroupWrite<'a> {
        /// Whether a refusal is fine.
        ignore: bool,
        /// The file.
        path: Text<'a>,
        /// The value.
        value: &'a [u8],
    }
    /// Attaches a device program (cgroup v2).
    0x103 CgroupDevices<'a> {
        /// The directory.
        path: Text<'a>,
        /// `bpf_insn` bytes.
        program: &'a [u8],
    }
    /// Where the container is frozen.
    0x104 CgroupFreezer<'a> {
        /// `freezer.state` or `cgroup.freeze`.
        path: Text<'a>,
    }
    /// The file whose `oom_kill` line counts kills.
    0x105 CgroupOom<'a> {
        /// `memory.oom_control` or `memory.events`.
        path: Text<'a>,
    }
    /// The health check, a process like an exec'd one.
    0x106 Health<'a> {
        /// Nanoseconds.
        interval: u64,
        /// Nanoseconds.
        timeout: u64,
        /// Nanoseconds.
        start_period: u64,
        /// Nanoseconds: the interval within the start period, until a check succeeds.
        start_interval: u64,
        /// Failures in a row that mean unhealthy.
        retries: u32,
        /// The command, as the inside of a JSON string.
        command: &'a [u8],
        /// The plan of the process.
        plan: &'a [u8],
    }
    /// A network that the container is on, for its events.
    0x120 Network<'a> {
        /// The network's id.
        id: &'a [u8],
        /// JSON members without braces.
        attributes: &'a [u8],
    }
    /// netfilter requests that are sent when the container has ended for good; no answer is awaited.
    0x121 FirewallEnd<'a> {
        /// The requests.
        messages: &'a [u8],
    }
    /// A descriptor that is closed when the container has ended for good.
    0x122 Hold {
        /// Which of the boot message's namespace descriptors.
        index: u32,
    }
    /// The resolver: the names that it answers, and the servers that it asks. Without servers it passes nothing on.
    0x123 Resolver<'a> {
        /// The servers that it asks; [`Servers`] stands in place of this list.
        servers: List<'a, OldServer<'a>>,
        /// Files of names below the run directory.
        names: List<'a, Text<'a>>,
    }
    /// The user namespace.
    0x124 UserMap<'a> {
        /// `CLONE_NEW*` of the namespaces to make in it.
        namespaces: u32,
        /// Which of the boot message's namespace descriptors; none means a new one.
        join: Option<u32>,
        /// As `/proc/PID/uid_map` takes it.
        uids: &'a [u8],
        /// As `/proc/PID/gid_map` takes it.
        gids: &'a [u8],
    }
    /// The servers that the resolver asks, in place of [`Resolver`]'s list.
    0x126 Servers<'a> {
        /// In their order.
        servers: List<'a, Server<'a>>,
    }
    /// Names that this container alone has for others.
    0x127 Aliases<'a> {
        /// All of them.
        aliases: List<'a, Alias<'a>>,
    }
    /// Where ports of the host lead that the monitor passes on itself.
    0x128 Relay<'a> {
        /// All of them.
        ports: List<'a, RelayPort<'a>>,
    }
    /// A socket whose queue has the sockets of those ports, and nothing else. Each packet has as many keys as sockets.
    0x129 RelayQueue {
        /// Which of the boot message's namespace descriptors.
        index: u32,
    }
    /// The container's network namespace outlives restarts, because a plan cannot make its contents again.
    0x12a KeepNet {}
    /// The log holds nobody up: lines that it does not take at once wait in a buffer, and are dropped where that is full.
    0x12b LogBuffer {
        /// So many bytes of lines wait at most.
        most: u64,
    }
    /// The socket at which the container's program listens. A program that was killed leaves its socket, and no other one can
    /// listen there: a socket of this name is removed before each start of the program.
    0x12c StaleSocket<'a> {
        /// The directory of the host, in which the container may write.
        dir: Text<'a>,
        /// The socket's name there.
        name: Text<'a>,
    }
    /// The cgroups that follow may be made after the first process has started: the process joins them before the first
    /// step that depends on them. A monitor that does not know this operation makes all groups before.
    0x1ff CgroupLate {}
}

fields! {
    /// A resolver of IPv4, as monitors of earlier versions know it.
    OldServer<'a> {
        /// The address.
        ip: &'a [u8; 4],
        /// Only the host reaches it.
        outside: bool,
    }
}

fields! {
    /// A resolver.
    Server<'a> {
        /// The address; one of IPv4 in its mapped form.
        ip: &'a [u8; 16],
        /// Only the host reaches it.
        outside: bool,
        /// Of a link-local address.
        scope: u32,
    }
}

fields! {
    /// A name that a container alone has for another one.
    Alias<'a> {
        /// Which file of names in [`Resolver`].
        network: u32,
        /// The name that it asks for.
        alias: &'a [u8],
        /// The name in the file.
        name: &'a [u8],
    }
}

fields! {
    /// A port that the monitor passes on.
    RelayPort<'a> {
        /// See [`RELAY_KEY`].
        key: &'a [u8; RELAY_KEY],
        /// The container's address; one of IPv4 in its mapped form.
        ip: &'a [u8; 16],
        /// The container's port.
        port: u32,
    }
}

/// The user, the groups and the capabilities of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credentials<'a> {
    /// The bounding set.
    pub bounding: u64,
    /// Permitted ones of root.
    pub for_root: u64,
    /// Permitted ones of other users.
    pub for_others: u64,
    /// `user[:group]`.
    pub user: &'a [u8],
    /// Additional groups.
    pub groups: List<'a, &'a [u8]>,
}

impl<'a> Field<'a> for Credentials<'a> {
    const SHAPE: Shape = {
        let sets = u64::SHAPE.then(u64::SHAPE).then(u64::SHAPE);
        Shape::COUNT.then(sets).then(Text::SHAPE).then(Shape::items(Text::SHAPE))
    };
    fn write(&self, out: &mut impl Out) {
        self.groups.count.write(out);
        [self.bounding, self.for_root, self.for_others].iter().for_each(|set| set.write(out));
        self.user.write(out);
        out.put(self.groups.items);
    }
    fn read(p: &mut Payload<'a>) -> Self {
        let count = u32::read(p);
        let [bounding, for_root, for_others] = [u64::read(p), u64::read(p), u64::read(p)];
        Credentials { bounding, for_root, for_others, user: Field::read(p), groups: List::read_items(count, p) }
    }
}

/// The words of a program: both counts stand before the first word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words<'a> {
    /// The arguments, the program's name first.
    pub argv: List<'a, Text<'a>>,
    /// The environment.
    pub env: List<'a, Text<'a>>,
}

impl<'a> Field<'a> for Words<'a> {
    const SHAPE: Shape = {
        let texts = Shape::items(Text::SHAPE);
        Shape::COUNT.then(Shape::COUNT).then(texts).then(texts)
    };
    fn write(&self, out: &mut impl Out) {
        (self.argv.count, self.env.count).write(out);
        out.put(self.argv.items);
        out.put(self.env.items);
    }
    fn read(p: &mut Payload<'a>) -> Self {
        let (argc, envc) = Field::read(p);
        Words { argv: List::read_items(argc, p), env: List::read_items(envc, p) }
    }
}

/// A text that ends in a NUL: so it is a C string where it lies.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Text<'a>(&'a [u8]);

impl<'a> Text<'a> {
    /// No characters.
    pub const EMPTY: Text<'static> = Text(b"\0");

    /// `None` if the last byte is not a NUL.
    pub fn of(closed: &'a [u8]) -> Option<Text<'a>> {
        (closed.last() == Some(&0)).then_some(Text(closed))
    }

    /// With its NUL. Further ones may stand before it.
    pub fn cstr(self) -> &'a [u8] {
        self.0
    }

    /// Without its NUL.
    pub fn bytes(self) -> &'a [u8] {
        self.0.split_last().map_or(b"", |(_, text)| text)
    }
}

impl core::fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}", self.bytes().escape_ascii())
    }
}

/// Items of one kind, as they lie in a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct List<'a, T> {
    count: u32,
    items: &'a [u8],
    kind: PhantomData<T>,
}

impl<'a, T> List<'a, T> {
    /// So many items, as they were written.
    pub(crate) fn of(count: u32, items: &'a [u8]) -> List<'a, T> {
        List { count, items, kind: PhantomData }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

impl<'a, T: Field<'a>> List<'a, T> {
    fn read_items(count: u32, p: &mut Payload<'a>) -> List<'a, T> {
        List { count, items: p.items(count, T::SHAPE.parts), kind: PhantomData }
    }

    /// One after the other.
    pub fn iter(&self) -> impl Iterator<Item = T> + use<'a, T> {
        let mut p = Payload { rest: self.items };
        (0..self.count).map(move |_| T::read(&mut p))
    }
}

impl<'a, T: Field<'a>> Field<'a> for List<'a, T> {
    const SHAPE: Shape = Shape::COUNT.then(Shape::items(T::SHAPE));
    fn write(&self, out: &mut impl Out) {
        self.count.write(out);
        out.put(self.items);
    }
    #[inline(always)]
    fn read(p: &mut Payload<'a>) -> Self {
        let (count, items) = p.list(T::SHAPE.parts);
        List { count, items, kind: PhantomData }
    }
}

impl<'a> Field<'a> for u32 {
    const SHAPE: Shape = Shape::bytes(4);
    fn write(&self, out: &mut impl Out) {
        out.put(&self.to_le_bytes());
    }
    fn read(p: &mut Payload<'a>) -> Self {
        p.u32()
    }
}

impl<'a> Field<'a> for i32 {
    const SHAPE: Shape = u32::SHAPE;
    fn write(&self, out: &mut impl Out) {
        out.put(&self.to_le_bytes());
    }
    fn read(p: &mut Payload<'a>) -> Self {
        p.u32() as i32
    }
}

impl<'a> Field<'a> for u64 {
    const SHAPE: Shape = Shape::bytes(8);
    fn write(&self, out: &mut impl Out) {
        out.put(&self.to_le_bytes());
    }
    fn read(p: &mut Payload<'a>) -> Self {
        p.u64()
    }
}

impl<'a> Field<'a> for bool {
    const SHAPE: Shape = u32::SHAPE;
    fn write(&self, out: &mut impl Out) {
        u32::from(*self).write(out);
    }
    fn read(p: &mut Payload<'a>) -> Self {
        u32::read(p) != 0
    }
}

/// An index plus one; 0 if there is none.
impl<'a> Field<'a> for Option<u32> {
    const SHAPE: Shape = u32::SHAPE;
    fn write(&self, out: &mut impl Out) {
        self.map_or(0, |index| index.wrapping_add(1)).write(out);
    }
    fn read(p: &mut Payload<'a>) -> Self {
        u32::read(p).checked_sub(1)
    }
}

impl<'a, const N: usize> Field<'a> for &'a [u8; N] {
    const SHAPE: Shape = Shape::bytes(N);
    fn write(&self, out: &mut impl Out) {
        out.put(*self);
    }
    fn read(p: &mut Payload<'a>) -> Self {
        p.take()
    }
}

impl<'a> Field<'a> for Text<'a> {
    const SHAPE: Shape = Shape::TEXT;
    fn write(&self, out: &mut impl Out) {
        (self.bytes().len() as u32).write(out);
        out.put(self.0);
    }
    fn read(p: &mut Payload<'a>) -> Self {
        p.text()
    }
}

impl<'a> Field<'a> for &'a [u8] {
    const SHAPE: Shape = Shape::TEXT;
    fn write(&self, out: &mut impl Out) {
        (self.len() as u32).write(out);
        out.put(self);
        out.put(&[0]);
    }
    fn read(p: &mut Payload<'a>) -> Self {
        p.text().bytes()
    }
}

impl<'a, A: Field<'a>, B: Field<'a>> Field<'a> for (A, B) {
    const SHAPE: Shape = A::SHAPE.then(B::SHAPE);
    fn write(&self, out: &mut impl Out) {
        self.0.write(out);
        self.1.write(out);
    }
    fn read(p: &mut Payload<'a>) -> Self {
        (A::read(p), B::read(p))
    }
}

/// The parts of a payload, in their order, four bits each: so one piece of code looks at every operation.
#[derive(Clone, Copy)]
pub struct Shape {
    parts: u64,
    length: u32,
}

const SHAPE_BITS: u32 = 52;
/// Bytes of the parts that have a fixed length.
const LENGTHS: [usize; 5] = [0, 4, 8, 16, RELAY_KEY];
const TEXT: u64 = 5;
/// A number of items, which come later.
const COUNT: u64 = 6;
/// The parts before `CLOSE` come as often as the first count says that was not used.
const ITEMS: u64 = 7;
const CLOSE: u64 = 8;
/// Plans of earlier versions end here.
const LATER: u64 = 9;

impl Shape {
    const NONE: Shape = Shape { parts: 0, length: 0 };
    const TEXT: Shape = Shape::one(TEXT);
    const COUNT: Shape = Shape::one(COUNT);
    const LATER: Shape = Shape::one(LATER);

    const fn one(part: u64) -> Shape {
        Shape { parts: part, length: 1 }
    }

    const fn bytes(length: usize) -> Shape {
        let mut part = LENGTHS.len() - 1;
        while LENGTHS[part] != length {
            part -= 1;
        }
        assert!(part > 0, "no part has this length");
        Shape::one(part as u64)
    }

    const fn then(self, next: Shape) -> Shape {
        assert!(4 * (self.length + next.length) <= SHAPE_BITS, "an operation has too many parts");
        match next.length {
            0 => self,
            _ => Shape { parts: self.parts | next.parts << (4 * self.length), length: self.length + next.length },
        }
    }

    const fn of_code(self, code: u16) -> u64 {
        assert!(code >> (u64::BITS - SHAPE_BITS) == 0, "the code is too large");
        self.parts | (code as u64) << SHAPE_BITS
    }

    const fn items(item: Shape) -> Shape {
        Shape::one(ITEMS).then(item).then(Shape::one(CLOSE))
    }
}

/// Whether a payload has the shape of its operation. An unknown operation of the monitor may have any payload.
fn check(code: u16, payload: &[u8]) -> Result<(), Fault> {
    let Some(shape) = SHAPES.iter().find(|shape| **shape >> SHAPE_BITS == u64::from(code)) else {
        return if code >= MONITORS { Ok(()) } else { Err(Fault::Unknown) };
    };
    let mut p = Payload { rest: payload };
    match (p.pass(shape & ((1 << SHAPE_BITS) - 1)), p.rest) {
        (None, _) => Err(Fault::Short),
        (_, []) => Ok(()),
        _ => Err(Fault::Left),
    }
}

/// A payload that is being read after its shape was checked. A missing field would read as zero or empty.
#[derive(Clone, Copy)]
pub struct Payload<'a> {
    rest: &'a [u8],
}

impl<'a> Payload<'a> {
    /// Goes past these parts; `None` if it ends before they do.
    fn pass(&mut self, mut parts: u64) -> Option<()> {
        // As many as were read and not used.
        let (mut counts, mut read, mut used) = ([0; 2], 0, 0);
        loop {
            let part = parts & 0xf;
            parts >>= 4;
            match part {
                0 | CLOSE => return Some(()),
                TEXT => {
                    let length = self.number()? as usize;
                    let (text, rest) = self.rest.split_at_checked(length.checked_add(1)?)?;
                    self.rest = rest;
                    Text::of(text)?;
                }
                COUNT => {
                    counts[read % 2] = self.number()?;
                    read += 1;
                }
                ITEMS => {
                    for _ in 0..counts[used % 2] {
                        self.pass(parts)?;
                    }
                    used += 1;
                    while parts & 0xf != CLOSE {
                        parts >>= 4;
                    }
                    parts >>= 4;
                }
                LATER if self.rest.is_empty() => return Some(()),
                LATER => {}
                _ => self.rest = self.rest.get(*LENGTHS.get(part as usize)?..)?,
            }
        }
    }

    /// The bytes of so many items.
    #[inline(never)]
    fn items(&mut self, count: u32, item: u64) -> &'a [u8] {
        let from = self.rest;
        for _ in 0..count {
            _ = self.pass(item);
        }
        from.get(..from.len() - self.rest.len()).unwrap_or(&[])
    }

    #[inline(never)]
    fn list(&mut self, item: u64) -> (u32, &'a [u8]) {
        let count = self.u32();
        (count, self.items(count, item))
    }

    fn number(&mut self) -> Option<u32> {
        let (bytes, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(u32::from_le_bytes(*bytes))
    }

    fn take<const N: usize>(&mut self) -> &'a [u8; N] {
        match self.rest.split_first_chunk() {
            Some((bytes, rest)) => {
                self.rest = rest;
                bytes
            }
            None => &[0; N],
        }
    }

    #[inline(never)]
    fn u32(&mut self) -> u32 {
        self.number().unwrap_or(0)
    }

    #[inline(never)]
    fn u64(&mut self) -> u64 {
        u64::from(self.u32()) | u64::from(self.u32()) << 32
    }

    #[inline(never)]
    fn text(&mut self) -> Text<'a> {
        let length = self.u32() as usize;
        match length.checked_add(1).and_then(|length| self.rest.split_at_checked(length)) {
            Some((text, rest)) => {
                self.rest = rest;
                Text(text)
            }
            None => Text::EMPTY,
        }
    }
}

/// Why bytes are not a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The head is of another version, or the length another one.
    Head,
    /// An operation does not end within the plan, or the plan does not end with the last one.
    Frame,
    /// An operation of the child that nobody knows.
    Unknown,
    /// The payload ends before its last field does.
    Short,
    /// The payload goes on behind its last field.
    Left,
}

/// The fault of a plan, and its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bad {
    /// Index of the operation in the plan; [`STEP_PLAN`]: the plan itself is invalid.
    pub index: u32,
    /// The operation's code.
    pub code: u16,
    /// The reason.
    pub fault: Fault,
}

impl Bad {
    /// As the monitor reports it.
    #[inline(never)]
    pub fn failure(self) -> Failure {
        const ENOSYS: i32 = 38;
        const EINVAL: i32 = 22;
        let errno = if self.fault == Fault::Unknown { ENOSYS } else { EINVAL };
        Failure { step: self.index, errno, detail: DETAIL_OPERATION, extra: u32::from(self.code) }
    }
}

/// The name of an operation; `None` if nobody knows it.
pub fn name(code: u16) -> Option<&'static str> {
    NAMES.iter().find(|(known, _)| *known == code).map(|(_, name)| *name)
}

/// A plan that was read as a whole: every operation of it is known and has its fields.
#[derive(Clone, Copy)]
pub struct Plan<'a>(&'a [u8]);

impl<'a> Plan<'a> {
    /// A plan of no operations.
    pub const EMPTY: Plan<'static> = Plan(b"");

    /// Reads a plan.
    #[inline(never)]
    pub fn check(bytes: &'a [u8]) -> Result<Plan<'a>, Bad> {
        let plan = Plan(bytes);
        let mut steps = plan.steps();
        let mut head = Payload { rest: bytes };
        let known = head.u64() == PLAN_MAGIC && head.u32() == VERSION && head.u32() as usize == bytes.len();
        if !known || bytes.len() < HEADER_LEN {
            return Err(Bad { index: STEP_PLAN, code: END, fault: Fault::Head });
        }
        for Step { index, code, payload } in &mut steps {
            self::check(code, payload).map_err(|fault| Bad { index, code, fault })?;
        }
        match steps.whole {
            true => Ok(plan),
            false => Err(Bad { index: STEP_PLAN, code: END, fault: Fault::Frame }),
        }
    }

    /// The plan's head; `None` if it is [`Plan::EMPTY`].
    pub fn header(self) -> Option<Header> {
        Header::of(self.0)
    }

    /// The whole plan.
    pub fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// The plan's operations, each with its index.
    pub fn ops(self) -> impl Iterator<Item = (u32, Op<'a>)> {
        self.steps().map(|step| (step.index, Op::of(step.code, step.payload)))
    }

    /// The plan's operations of one kind, each with its index.
    pub fn each<T: Operation<'a>>(self) -> impl Iterator<Item = (u32, T)> {
        let mut steps = self.steps();
        core::iter::from_fn(move || steps.next_or(T::CODE).map(|step| (step.index, step.read())))
    }

    /// The plan's first operation of one kind.
    pub fn find<T: Operation<'a>>(self) -> Option<T> {
        self.first_of(T::CODE).map(Step::read)
    }

    /// Whether it has an operation of one kind.
    pub fn has<T: Operation<'a>>(self) -> bool {
        self.first_of(T::CODE).is_some()
    }

    #[inline(never)]
    fn first_of(self, code: u16) -> Option<Step<'a>> {
        self.steps().next_or(code)
    }

    /// The plan's operations as they lie in it.
    #[inline(never)]
    pub fn steps(self) -> Steps<'a> {
        Steps { rest: self.0.get(HEADER_LEN..).unwrap_or(&[]), index: 0, whole: false }
    }
}

/// Goes from operation to operation.
pub struct Steps<'a> {
    rest: &'a [u8],
    index: u32,
    /// The end came, and it was the plan's last bytes.
    whole: bool,
}

/// An operation of a plan, to be read.
#[derive(Clone, Copy)]
pub struct Step<'a> {
    /// The operation's index in the plan.
    pub index: u32,
    /// The operation's code.
    pub code: u16,
    payload: &'a [u8],
}

impl<'a> Step<'a> {
    /// Whether it is one of this kind.
    pub fn is<T: Operation<'a>>(self) -> bool {
        self.code == T::CODE
    }

    /// The operation, which is of this kind.
    #[inline(always)]
    pub fn read<T: Operation<'a>>(self) -> T {
        T::read(&mut Payload { rest: self.payload })
    }
}

impl<'a> Steps<'a> {
    /// The next one of a code; [`END`]: the next one.
    #[inline(never)]
    fn next_or(&mut self, wanted: u16) -> Option<Step<'a>> {
        loop {
            let (head, rest) = self.rest.split_first_chunk::<HEAD>()?;
            let code = u16::from_le_bytes([head[0], head[1]]);
            let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
            let (payload, rest) = rest.split_at_checked(length)?;
            if code == END {
                self.whole = payload.is_empty() && rest.is_empty();
                return None;
            }
            let index = self.index;
            (self.rest, self.index) = (rest, index + 1);
            if wanted == code || wanted == END {
                return Some(Step { index, code, payload });
            }
        }
    }
}

impl<'a> Iterator for Steps<'a> {
    type Item = Step<'a>;

    fn next(&mut self) -> Option<Step<'a>> {
        self.next_or(END)
    }
}
