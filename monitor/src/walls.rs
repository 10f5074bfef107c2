//! Walls: each names one defence, and a test build (feature `attacks`) can switch each off, so that the test of every
//! attack is seen to fail. In every other build a wall is the constant `true`, and nothing of this is left.
//!
//! `CORACLE_WALLS_OFF=name,name` in the environment of the host program switches walls off, for its monitors too.
//! The library and the monitor's program share this file.

macro_rules! walls {
    ($($name:ident $text:literal $what:literal;)*) => {
        /// A defence that can be switched off in a test build.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Wall {
            $(#[doc = $what] $name,)*
        }

        impl Wall {
            /// Every wall with the name that switches it off.
            pub const ALL: &[(Wall, &str)] = &[$((Wall::$name, $text),)*];
        }
    };
}

// One line a wall: the name in the source, the name of the switch, the defence.
walls! {
    ResolveInRoot "resolve-in-root" "A path of a container is resolved inside of its root, also where links lead.";
    FixedTargets "fixed-targets" "The engine follows no link to a file that it mounts, masks or opens for a container.";
    ProcfsTargets "procfs-targets" "Nothing is mounted in /proc, nor on /sys or devices that the engine makes.";
    NullDevice "null-device" "The container's /dev/null is checked before it becomes an input or a cover.";
    ReadonlyPaths "readonly-paths" "Switches of the kernel are read-only in a container.";
    ReadOnlyDetached "read-only-detached" "A mount becomes read-only before it is attached, never by its path afterwards.";
    CgroupReadOnly "cgroup-read-only" "A container sees its control groups read-only.";
    SysctlCheck "sysctl-check" "Only kernel parameters of the container's own namespaces are set, to one plain value each.";
    ShmSize "shm-size" "Shared memory of a container has a size.";
    SealedMonitor "sealed-monitor" "The monitor's program cannot be changed by anybody.";
    DeviceRules "device-rules" "A container opens the devices that it was given, and no others.";
    AppArmorLabel "apparmor-label" "If the kernel has AppArmor, a container's processes have a profile.";
    SelinuxLabel "selinux-label" "If an engine uses SELinux, a container's processes have a label.";
    RelabelTargets "relabel-targets" "z and Z follow no link, and relabel no directory of the system.";
    UserNumbers "user-numbers" "Digits are a number of a user, never a name, and never out of range.";
    UserGroups "user-groups" "A process has the groups that list its user.";
    UserCapabilities "user-capabilities" "Users other than root have no capabilities.";
    OwnTerminal "own-terminal" "A terminal of a caller never becomes the controlling terminal of the container.";
    PlainText "plain-text" "A name that goes into a file of the engine's is one word.";
    LabelsAreText "labels-are-text" "No label of a container changes what the engine does.";
    SeccompDefault "seccomp-default" "A container that asks for nothing has the default seccomp filter.";
    SeccompHalves "seccomp-halves" "The default seccomp filter compares 32-bit arguments under a mask of 32 bits.";
    SeccompSocketcall "seccomp-socketcall" "The default seccomp filter refuses sockets by socketcall, except for images for i386.";
    SeccompX32 "seccomp-x32" "The default seccomp filter allows no x32 calls.";
    FilterUntraced "filter-untraced" "No process that may trace sees a new process before its filter of system calls is set.";
    EnterConfined "enter-confined" "A process that comes into a container's PID namespace is confined before it is seen there.";
    EntryLimit "entry-limit" "A process that is stopped before it executes its program is killed after some seconds.";
    RootModes "root-modes" "Only the owner of an engine's directories can look into them.";
    MemfdSeals "memfd-seals" "The monitor's program and the plans are sealed, also against becoming (or ceasing to be) executable.";
    NamedSockets "named-sockets" "A monitor listens below its own directory, and at no abstract name.";
    BackPressure "back-pressure" "Output that no client takes waits in the process that writes it.";
    StreamsLetGo "streams-let-go" "The descriptors of a client that is gone are closed.";
    TcpAuthenticated "tcp-authenticated" "TCP is served with TLS, or if the user allows it without.";
    ClientCertificates "client-certificates" "Clients over TLS have a certificate of the server's own authorities.";
    Handshakes "tls-handshakes" "TLS handshakes are bounded in number and time.";
    LogWithoutSecrets "log-without-secrets" "Requests are logged without their queries, which may hold secrets.";
    StrictFraming "strict-framing" "A request whose length two readers could understand differently is refused.";
    HttpVersions "http-versions" "HTTP is spoken in its versions 1.0 and 1.1.";
    SocketMode "socket-mode" "Only the owner and the group can use the API's socket, from the moment that it exists.";
    ListsChecked "lists-checked" "Lists of processors and memory nodes are compared with those of the machine.";
    EnvironmentOfImages "environment-of-images" "A variable that an image names without a value is never looked up on the host.";
    SpecsOfTheirOwn "specs-of-their-own" "A container's kept specification is found by its id.";
    StoredDocuments "stored-documents" "A stored document that cannot be read is the error of its own container alone.";
    ProxyAtOpen "proxy-at-open" "The environment is read when an engine is opened, not while it works.";
    ModesAtBirth "modes-at-birth" "Nodes and directories get their modes as they are made, never by a name afterwards.";
    MaskedPaths "masked-paths" "Files of the kernel that describe the host are masked.";
    LoopbackFilter "loopback-filter" "A filter at each bridge drops packets for 127/8, whatever happens to the firewall.";
    RouterAdvertisements "router-advertisements" "A bridge ignores router advertisements.";
    NoIpv6 "no-ipv6" "The bridge of a network without IPv6 has none.";
    InternalResolver "internal-resolver" "No resolver is asked for the names of internal networks.";
    PeerAddresses "peer-addresses" "A published port's server sees the address of its client.";
    ForeignBridges "foreign-bridges" "Nothing unpublished is forwarded to bridges of others beside dockerd.";
    NeighbourLoopback "neighbour-loopback" "Packets from the wire for 127/8 are forwarded nowhere.";
    ForwardDrop "forward-drop" "Traffic to ports that are not published is not forwarded to containers.";
    NetlinkLengths "netlink-lengths" "A list that is longer than one netlink attribute can be goes in several messages.";
    ConfinedWorker "confined-worker" "Only a process of the monitor without rights reads bytes of the container.";
    WorkerConfirmed "worker-confirmed" "Nothing starts before the process that reads the container's bytes has given up its rights.";
    LauncherRights "launcher-rights" "A monitor's launcher has only those capabilities in effect that it uses itself.";
    ResolverQuestions "resolver-questions" "Each question to a resolver of the host leaves from another port, in another spelling.";
    ResolverAnswers "resolver-answers" "An answer is believed only when it answers the question as it was asked.";
    ArchiveHeaders "archive-headers" "All headers before one entry of an archive share one bound.";
    CratesAllowed "crates-allowed" "Crates, their sources and licences are those that deny.toml allows.";
    ArchiveConfined "archive-confined" "Links on the way to an archive's entry lead nowhere else than into its tree.";
    ArchiveSizes "archive-sizes" "The size of an entry is the one that its extended header says.";
    ArchiveWindows "archive-windows" "Compressed streams that need a large window are refused by their header.";
    ArchiveRoot "archive-root" "The root of an archive is a directory.";
    ArchiveLinks "archive-links" "Links of an archive of images lead to its own files alone.";
    ArchiveNames "archive-names" "An archive of a path holds that path alone.";
    ArchiveSwelling "archive-swelling" "The size to which a compressed stream grows has a bound.";
    BuildCache "build-cache" "A build takes its steps from images that were made here, or that its request names.";
    BuildEnvironment "build-environment" "A step of a build has no variable of the host program.";
    BuildPaths "build-paths" "A path of a build is resolved inside of its tree.";
    ClaimsReleased "claims-released" "A failed fetch of a layer keeps no other from fetching it.";
    ContentDigests "content-digests" "Content of a registry is taken only if it has the digest that was requested.";
    CredentialsAtHome "credentials-at-home" "Credentials go to the host that they are for, wherever a registry leads.";
    CredentialsByHost "credentials-by-host" "A registry gets only its own credentials.";
    DigestPinned "digest-pinned" "A manifest that is named by its digest has that digest.";
    DigestsRead "digests-read" "Only a digest can name content.";
    DocumentsApart "documents-apart" "Documents in a build file are not files of its context.";
    ForeignLayers "foreign-layers" "Layers whose content is not in the registry are fetched from nowhere else.";
    IgnoreFiles "ignore-files" "An ignore file is a file of the context.";
    ImageRights "image-rights" "An image cannot ask for rights.";
    LedAddresses "led-addresses" "No server leads a request to this machine's own addresses.";
    MalformedDocuments "malformed-documents" "A document that cannot be read is an error.";
    ManifestKind "manifest-kind" "A manifest is of one kind, to every reader.";
    LinksStay "links-stay" "A link is archived as a link.";
    NoHostPrograms "no-host-programs" "The engine starts no program of the host.";
    OwnTemporary "own-temporary" "Temporary files lie in the root's own directory.";
    PlainFallback "plain-fallback" "A registry with an authority of its own is never asked without TLS.";
    PluginNames "plugin-names" "The name of a plugin is one component of a path.";
    PluginSockets "plugin-sockets" "A plugin that the engine runs is called at its own socket, never at a link.";
    UrlSecrets "url-secrets" "An address is shown without its user, its password and its query.";
    GitNames "git-names" "A name or a directory of a git commit leads nowhere else than into the context.";
    GitMemory "git-memory" "Contents of a git pack that build on each other share a bound of memory.";
    VolumeParts "volume-parts" "The part of a volume that a container mounts is inside of the volume, also where links lead.";
    VolumeContent "volume-content" "A volume that has content is not filled.";
    AnswerSizes "answer-sizes" "Documents of a registry are read up to a bound.";
    UserFiles "user-files" "Files of users and groups in an image are regular and of bounded size.";
    ArchiveDirectories "archive-directories" "Attributes that directories of an archive get at the end are kept on the disk, not in memory.";
    ArchiveDocuments "archive-documents" "Names and documents of an archive of images have one bound.";
    DocumentValues "document-values" "Documents of images have so many values at the most.";
    BuildWords "build-words" "The values of variables in a build file are bounded, each word and all together.";
    ImageHealth "image-health" "An image's health check is checked as a request's is.";
    LargeEvents "large-events" "An event that is too large is cut, and never makes its operation fail.";
    FewDescriptors "few-descriptors" "A walk over a tree keeps few descriptors, however deep the tree is.";
    FlagsLifted "flags-lifted" "A removal clears the flags that keep a file.";
    OpensRegardless "opens-regardless" "Files that cannot be removed keep nobody from opening the root.";
    BoundFiles "bound-files" "Files that a container can write are compared by their beginning alone.";
}

#[cfg(not(feature = "attacks"))]
impl Wall {
    /// Whether the defence is in force: always.
    #[inline(always)]
    #[must_use]
    pub const fn stands(self) -> bool {
        true
    }
}

#[cfg(feature = "attacks")]
mod switches {
    use super::Wall;
    use core::sync::atomic::{AtomicU64, Ordering};

    /// A bit for each wall that is off.
    static OFF: [AtomicU64; 4] = [const { AtomicU64::new(0) }; 4];

    impl Wall {
        /// Whether the defence is in force.
        #[must_use]
        pub fn stands(self) -> bool {
            let bit = self as usize;
            OFF[bit / 64].load(Ordering::Relaxed) & (1 << (bit % 64)) == 0
        }

        /// Switches off the walls of a list such as `masked-paths,loopback-filter`. Answers whether all are known.
        pub fn switch_off(list: &[u8]) -> bool {
            let mut known = true;
            for name in list.split(|&byte| byte == b',').filter(|name| !name.is_empty()) {
                match Wall::ALL.iter().find(|(_, text)| text.as_bytes() == name) {
                    Some((wall, _)) => {
                        let bit = *wall as usize;
                        OFF[bit / 64].fetch_or(1 << (bit % 64), Ordering::Relaxed);
                    }
                    None => known = false,
                }
            }
            known
        }
    }
}
