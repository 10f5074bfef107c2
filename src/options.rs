//! The options of an engine root.

use crate::error::{Error, Result};
use crate::kernel::probe::{needs_attributes, on_tmpfs};
use crate::kernel::switches::Switches;
use crate::model::{RegistryOptions, StringMap, duration};
use crate::store::Durability;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The options of an engine root.
///
/// ```
/// use coracle::Options;
///
/// let mut options = Options::new("/var/lib/coracle");
/// options.create = false; // an open fails where there is no root
/// options.labels = vec!["site=north".into()];
/// options.log_options.insert("max-size".into(), "10m".into());
/// // `Engine::open_with(options)` opens the root.
/// assert_eq!(options.log_driver, "json-file");
/// ```
#[derive(Debug, Clone)]
pub struct Options {
    /// Directory of the durable state; made if missing (mode 0700).
    pub root: PathBuf,
    /// Make a missing root; default true. With false, the open of a directory that is not an engine root fails with
    /// [`crate::ErrorKind::NotFound`], and makes nothing.
    pub create: bool,
    /// The run directory, on a tmpfs; absent: one under `/run/coracle` named after the root.
    pub run_dir: Option<PathBuf>,
    /// The operations that a power cut may undo; default: none that was acknowledged.
    pub durability: Durability,
    /// `LogConfig` type of containers that name none; default `json-file`.
    pub log_driver: String,
    /// Options of the default log driver.
    pub log_options: StringMap,
    /// The deliverer of the logs of the root's containers whose log drivers deliver (`docs/logs.md` has their list).
    pub ship_logs: ShipLogs,
    /// The bounds of the logs of removed containers whose lines are not delivered. Absent: those that an open of this root named
    /// last, at first 256 MiB and 7 days.
    pub outbox: Option<Outbox>,
    /// The control group above those of containers that name none; default `/coracle`.
    pub cgroup_parent: String,
    /// Labels of the engine (`key=value`), shown by info.
    pub labels: Vec<String>,
    /// How registries are reached.
    pub registry: RegistryOptions,
    /// The host address at which ports without an address are published; absent: all addresses. With `127.0.0.1` only
    /// the host itself reaches them.
    pub publish_ip: Option<IpAddr>,
    /// The containers' monitors relay connections to published ports at 127.0.0.1, as they always do if the kernel has
    /// no filter for bridges. The kernel then forwards nothing from containers to 127/8, and such connections cost
    /// more. Default false.
    pub relay_loopback: bool,
    /// dockerd's chain for other people's rules (`DOCKER-USER`) gets no rules for our bridges. Beside a dockerd whose
    /// policy drops forwarded packets, our networks are then cut off until a user allows them (`info` names the
    /// command). Default false.
    pub leave_docker_user: bool,
    /// Containers are in a user namespace that maps these ids of the host to 0 and up, unless their `UsernsMode` is
    /// `host`. Images and volumes are stored as without it: mounts map their owners. Default: none.
    pub userns_remap: Option<UsernsRemap>,
    /// The AppArmor profile of containers that name none, if the kernel has AppArmor: a loaded profile, or `unconfined`
    /// for none. Default: the engine's own, `coracle-default-1`, which a start loads if it is missing.
    pub apparmor: Option<String>,
    /// Each container has SELinux labels with types of the host's policy (`contexts/lxc_contexts`) and a pair of
    /// categories. An open on a host without SELinux is refused then. Default false: `label=` is refused if the kernel
    /// has SELinux.
    pub selinux: bool,
    /// The authorization plugins that each request of the HTTP interface needs the consent of, in the order in which they
    /// are asked (`coracle_http::RouterOptions` may name others). Default: none. Calls of this library ask none.
    pub authorization_plugins: Vec<String>,
    /// The directories of sockets and files of plugins (network, address and volume drivers, authorization), in the order of the search;
    /// default: docker's directories `/run/docker/plugins`, `/etc/docker/plugins`, `/usr/lib/docker/plugins`.
    pub plugin_dirs: Vec<PathBuf>,
    /// The directories of specifications of the Container Device Interface; a later one counts before an earlier one.
    /// Default: `/etc/cdi`, `/var/run/cdi`.
    pub cdi_dirs: Vec<PathBuf>,
    /// Load, pull and push with less memory (under 16 MB in place of under 64 MB) and less at once. Compressed streams
    /// with a dictionary (window) above 8 MiB are refused then; without this option, above 32 MiB. Default false.
    pub small_memory: bool,
    /// Take windows of up to 128 MiB (`xz -9`, `zstd --long`), one at a time; each needs that much memory beyond the bound.
    /// No effect with `small_memory`. Default false.
    pub large_windows: bool,
    /// Start, after a reboot, the containers whose restart policy asks for it. Default false.
    pub restart_containers: bool,
    /// The containers that are created through this engine end when its last handle is dropped or its program ends, however it
    /// ends, unless they name another lease ([`crate::Engine::lease`]). The next open removes them. Default false.
    pub ephemeral: bool,
    /// The file of the program `coracle-swarm`. The library starts the program when a client begins or joins a swarm, and when the
    /// root is in one. Default: none; swarm mode then needs a program that was started otherwise.
    pub swarm_program: Option<PathBuf>,
    /// Only for tests: seconds that a process may take from its appearance in a container to its program; default 10.
    #[cfg(feature = "attacks")]
    #[doc(hidden)]
    pub entry_limit_s: Option<u32>,
}

/// The deliverer of logs to the receivers of log drivers. A root has one deliverer at a time, which
/// delivers the logs of all its containers, whichever program started them.
///
/// ```
/// # use coracle::{Options, ShipLogs};
/// let mut options = Options::new("/var/lib/example");
/// options.ship_logs = ShipLogs::Thread;
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShipLogs {
    /// Nobody for this engine: lines wait in the containers' logs, unless another program delivers them.
    None,
    /// Threads of this program, as long as the engine is open.
    Thread,
    /// A program of its own, which the library contains. The start of a container whose log is delivered, and the open of a
    /// root that owes lines, start the program, if nobody delivers yet; the program lives as long as there is something to
    /// deliver, whatever becomes of the starter.
    Program,
}

impl Default for ShipLogs {
    /// `Program`; `Thread` in a build without that program (feature `shipper`), and `None` in a build that delivers no logs (`ship`).
    fn default() -> ShipLogs {
        match (cfg!(feature = "shipper"), cfg!(feature = "ship")) {
            (true, _) => ShipLogs::Program,
            (false, true) => ShipLogs::Thread,
            (false, false) => ShipLogs::None,
        }
    }
}

impl ShipLogs {
    /// Reads `none`, `thread` or `program`; `None`: it is another word.
    ///
    /// ```
    /// # use coracle::ShipLogs;
    /// assert_eq!(ShipLogs::parse("thread"), Some(ShipLogs::Thread));
    /// ```
    pub fn parse(word: &str) -> Option<ShipLogs> {
        match word {
            "none" => Some(ShipLogs::None),
            "thread" => Some(ShipLogs::Thread),
            "program" => Some(ShipLogs::Program),
            _ => None,
        }
    }
}

/// The bounds of the outbox of a root, which has the logs of removed containers whose lines are not delivered. Beyond them the
/// oldest logs are dropped, and their lines counted (`LogDelivery.Dropped` of `info`).
///
/// ```
/// # use coracle::{Options, Outbox};
/// let mut options = Options::new("/var/lib/example");
/// options.outbox = Outbox::parse(Some("64m"), Some("24h"))?;
/// assert_eq!(options.outbox.map(|bounds| (bounds.bytes, bounds.age.as_secs())), Some((64 << 20, 86_400)));
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outbox {
    /// Bytes of all these logs.
    pub bytes: u64,
    /// The time since a container's removal, to the second.
    pub age: Duration,
}

impl Outbox {
    /// Reads a size (`64m`: units of 1024) and a time (`24h`); the other one has its default where one is absent. `None`: both
    /// are absent. Errors: a text of another form.
    pub fn parse(size: Option<&str>, age: Option<&str>) -> Result<Option<Outbox>> {
        if size.is_none() && age.is_none() {
            return Ok(None);
        }
        let usual = coracle_ship::Bounds::default();
        let wrong = |name: &str, text: &str, form: &str| Error::invalid(format!("{name}: {text:?} is not {form}"));
        let bytes = size.map_or(Ok(usual.bytes), |text| {
            coracle_ship::options::size(text).ok_or_else(|| wrong("outbox-max-size", text, "a size, such as 256m"))
        })?;
        let age = age.map_or(Ok(usual.age), |text| {
            let nanos = duration(text).and_then(|nanos| u64::try_from(nanos).ok());
            nanos.map(Duration::from_nanos).ok_or_else(|| wrong("outbox-max-age", text, "a time, such as 168h"))
        })?;
        Ok(Some(Outbox { bytes, age }))
    }
}

impl Options {
    /// The default options for `root`.
    pub fn new(root: impl AsRef<Path>) -> Options {
        Options {
            root: root.as_ref().to_path_buf(),
            create: true,
            run_dir: None,
            durability: Durability::Full,
            log_driver: "json-file".into(),
            log_options: StringMap::new(),
            ship_logs: ShipLogs::default(),
            outbox: None,
            cgroup_parent: "/coracle".into(),
            labels: Vec::new(),
            registry: RegistryOptions::default(),
            publish_ip: None,
            relay_loopback: false,
            leave_docker_user: false,
            userns_remap: None,
            apparmor: None,
            selinux: false,
            cdi_dirs: ["/etc/cdi", "/var/run/cdi"].map(PathBuf::from).to_vec(),
            authorization_plugins: Vec::new(),
            plugin_dirs: ["/run/docker/plugins", "/etc/docker/plugins", "/usr/lib/docker/plugins"]
                .map(PathBuf::from)
                .to_vec(),
            small_memory: false,
            large_windows: false,
            restart_containers: false,
            ephemeral: false,
            swarm_program: None,
            #[cfg(feature = "attacks")]
            entry_limit_s: None,
        }
    }

    /// Settings for the monitors of a test build.
    #[cfg_attr(not(feature = "attacks"), allow(clippy::unused_self))]
    pub(crate) fn switches(&self) -> Switches {
        Switches {
            #[cfg(feature = "attacks")]
            entry_limit_s: self.entry_limit_s,
        }
    }
}

/// The ids of the host that a container's user namespace maps.
///
/// ```
/// use coracle::{Options, UsernsRemap};
///
/// let mut options = Options::new("/var/lib/coracle");
/// options.userns_remap = Some(UsernsRemap::parse("200000:65536")?);
/// assert_eq!(options.userns_remap, Some(UsernsRemap { uid: 200_000, gid: 200_000, count: 65_536 }));
/// assert!(UsernsRemap::parse("0:65536").is_err(), "the host's root is not given to containers");
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsernsRemap {
    /// The host's uid of the container's root.
    pub uid: u32,
    /// The host's gid of the container's root.
    pub gid: u32,
    /// The number of ids from there on, of both kinds.
    pub count: u32,
}

/// The least number of ids for images: those of ordinary distributions use ids up to 65534.
const LEAST_IDS: u32 = 65_535;

/// Since this release an overlay's layers may be idmapped mounts.
const MAPS_LAYERS: (u32, u32) = (5, 19);

/// Since this release the owners of a tmpfs can be mapped; those of the usual disk file systems could be mapped before.
const MAPS_TMPFS: (u32, u32) = (6, 3);

impl UsernsRemap {
    /// Reads `FIRST:COUNT`, `UID:GID:COUNT`, or a user and group (`USER[:GROUP]`, by names) whose ranges are in `/etc/subuid` and
    /// `/etc/subgid`; `default` is the user `dockremap`.
    ///
    /// # Errors
    /// The text is malformed, the range does not exist, has less than 65535 ids, or begins with the host's
    /// root.
    pub fn parse(text: &str) -> Result<UsernsRemap> {
        let wrong = |why: &str| Error::invalid(format!("userns-remap: {text:?}: {why}"));
        let (user, group) = text.split_once(':').unwrap_or((text, text));
        let numbers: Vec<Option<u32>> = text.split(':').map(|word| word.parse().ok()).collect();
        if let [Some(uid), Some(gid), Some(count)] = numbers[..] {
            let remap = UsernsRemap { uid, gid, count };
            return remap.fits().map_err(wrong).map(|()| remap);
        }
        let remap = match (user.parse::<u32>(), group.parse::<u32>()) {
            (Ok(first), Ok(count)) if text.contains(':') => UsernsRemap { uid: first, gid: first, count },
            _ => {
                let name = |name: &'static str, said: &'_ str| {
                    if said == "default" { name.to_owned() } else { said.to_owned() }
                };
                let uids = range("/etc/subuid", &name("dockremap", user))
                    .ok_or_else(|| wrong("no range of the user in /etc/subuid"))?;
                let gids = range("/etc/subgid", &name("dockremap", group))
                    .ok_or_else(|| wrong("no range of the group in /etc/subgid"))?;
                UsernsRemap { uid: uids.0, gid: gids.0, count: uids.1.min(gids.1) }
            }
        };
        remap.fits().map_err(wrong)?;
        Ok(remap)
    }

    /// Whether images can run safely with these ids; else the reason why not.
    fn fits(&self) -> std::result::Result<(), &'static str> {
        if self.count < LEAST_IDS {
            return Err("at least 65535 ids are needed");
        }
        if self.uid == 0 || self.gid == 0 {
            return Err("the range must not begin with the host's root");
        }
        match self.uid.max(self.gid).checked_add(self.count) {
            Some(_) => Ok(()),
            None => Err("the range goes beyond the last id"),
        }
    }

    /// Checks the ids, and whether a kernel of this release can map them.
    pub(crate) fn check(&self, release: (u32, u32)) -> Result<()> {
        self.fits().map_err(|why| Error::invalid(format!("userns_remap: {self:?}: {why}")))?;
        match release >= MAPS_LAYERS {
            true => needs_attributes().map_err(|error| error.context("userns_remap")),
            false => {
                Err(Error::unsupported("userns_remap needs Linux 5.19: older ones cannot map the owners of images"))
            }
        }
    }

    /// Checks whether a kernel of this release can map the owners of images on the file system of `root`.
    pub(crate) fn check_root(root: &Path, release: (u32, u32)) -> Result<()> {
        match release < MAPS_TMPFS && on_tmpfs(root) {
            false => Ok(()),
            true => Err(Error::unsupported(format!(
                "userns_remap: {} is on a tmpfs, which needs Linux 6.3: older ones cannot map its owners",
                root.display()
            ))),
        }
    }
}

/// The first range of a name in a file of lines `NAME:FIRST:COUNT`.
fn range(file: &str, name: &str) -> Option<(u32, u32)> {
    let text = std::fs::read_to_string(file).ok()?;
    text.lines().find_map(|line| {
        let mut words = line.trim().split(':');
        let (owner, first, count) = (words.next()?, words.next()?, words.next()?);
        (owner == name).then_some(())?;
        Some((first.parse().ok()?, count.parse().ok()?))
    })
}

/// Reads from the environment the walls that a test switches off. Errors: a wall with that name does not exist.
#[cfg(feature = "attacks")]
pub(crate) fn switch_walls_off() -> Result<()> {
    let list = std::env::var("CORACLE_WALLS_OFF").unwrap_or_default();
    if crate::walls::Wall::switch_off(list.as_bytes()) {
        return Ok(());
    }
    Err(Error::new(crate::ErrorKind::Invalid, format!("CORACLE_WALLS_OFF: {list}: no wall has one of these names")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_refuses_values_that_no_parser_read() {
        let remap = UsernsRemap { uid: 100_000, gid: 100_000, count: 65_536 };
        remap.check((5, 19)).unwrap();
        let old = remap.check((5, 15)).unwrap_err();
        assert!(old.message().contains("needs Linux 5.19"), "{old}");
        for bad in [UsernsRemap { uid: 0, ..remap }, UsernsRemap { gid: u32::MAX - 9, ..remap }] {
            assert!(bad.check((6, 1)).unwrap_err().message().starts_with("userns_remap: "), "{bad:?}");
        }
        let (tmpfs, other) = (Path::new("/dev/shm"), Path::new("/proc"));
        UsernsRemap::check_root(tmpfs, (6, 3)).unwrap();
        UsernsRemap::check_root(other, (6, 2)).unwrap();
        let old = UsernsRemap::check_root(tmpfs, (6, 2)).unwrap_err();
        assert!(old.message().contains("/dev/shm is on a tmpfs, which needs Linux 6.3"), "{old}");
    }

    #[test]
    fn bounds_of_the_outbox_are_read() {
        let of = |size, age| Outbox::parse(size, age);
        assert_eq!(of(None, None).unwrap(), None);
        let both = of(Some("1k"), Some("1h30m")).unwrap().unwrap();
        assert_eq!((both.bytes, both.age.as_secs()), (1024, 5400));
        let usual = of(Some("1k"), None).unwrap().unwrap();
        assert_eq!(usual.age, Duration::from_secs(604_800));
        assert_eq!(of(None, Some("1s")).unwrap().unwrap().bytes, 256 << 20);
        let refused = |size, age| of(size, age).unwrap_err().message().to_owned();
        assert_eq!(refused(Some("much"), None), "outbox-max-size: \"much\" is not a size, such as 256m");
        for age in ["", "7", "7d", "-1h"] {
            assert_eq!(refused(None, Some(age)), format!("outbox-max-age: {age:?} is not a time, such as 168h"));
        }
    }

    #[test]
    fn ranges_by_number() {
        let remap = UsernsRemap { uid: 100_000, gid: 100_000, count: 65_536 };
        assert_eq!(UsernsRemap::parse("100000:65536").unwrap(), remap);
        assert_eq!(UsernsRemap::parse("100000:200000:65536").unwrap(), UsernsRemap { gid: 200_000, ..remap });
        for (bad, why) in [
            ("100000:5", "at least 65535"),
            ("0:65536", "must not begin"),
            ("100000:0:65536", "must not begin"),
            ("4294967295:65536", "beyond the last id"),
            ("no-such-user-here", "/etc/subuid"),
            ("", "/etc/subuid"),
        ] {
            let error = UsernsRemap::parse(bad).unwrap_err();
            assert!(error.message().contains(why) && error.message().contains("userns-remap"), "{bad}: {error}");
        }
    }
}
