//! The one place that knows API versions.
//!
//! The engine speaks the newest shapes. The ladder (`ladder`) has a row for each change of a document: a request that is
//! older is lifted by it, an answer to another version is brought to its shape. Behaviours that begin with a version are
//! gates. Nothing else in the project compares versions.

mod ladder;

pub(crate) use ladder::Noun;

use coracle::Error;
use std::fmt;
use std::str::FromStr;

/// A version of the API that is served: 1.18 to 1.54.
///
/// 1.18 to 1.24 are the contract, which the specification describes. Later versions are answered as a courtesy to newer
/// clients.
///
/// ```
/// use coracle_http::ApiVersion;
///
/// # fn main() -> coracle::Result<()> {
/// let newest: ApiVersion = "1.40".parse()?;
/// assert!(ApiVersion::SPECIFIED < newest && newest < ApiVersion::NEWEST);
/// assert_eq!(newest.to_string(), "1.40");
/// assert!("1.17".parse::<ApiVersion>().is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ApiVersion(u64);

impl ApiVersion {
    /// The first one that is specified.
    pub const OLDEST: ApiVersion = ApiVersion(18);
    /// The last one that is specified.
    pub const SPECIFIED: ApiVersion = ApiVersion(24);
    /// The newest one.
    pub const NEWEST: ApiVersion = ApiVersion(54);
    /// The version of requests that name none, unless an older one is the newest that is served. Their clients cannot say
    /// which one they know: this one has all that can be requested, and nothing that older clients read has gone yet.
    const UNVERSIONED: ApiVersion = ApiVersion(44);
}

impl Default for ApiVersion {
    fn default() -> ApiVersion {
        ApiVersion::NEWEST
    }
}

impl fmt::Display for ApiVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1.{}", self.0)
    }
}

impl FromStr for ApiVersion {
    type Err = Error;

    /// Reads `1.24`. Errors: a version that is not served.
    fn from_str(text: &str) -> Result<ApiVersion, Error> {
        let minor = text.strip_prefix("1.").and_then(|minor| minor.parse().ok()).map(ApiVersion);
        minor.filter(|version| (ApiVersion::OLDEST..=ApiVersion::NEWEST).contains(version)).ok_or_else(|| {
            let (oldest, newest) = (ApiVersion::OLDEST, ApiVersion::NEWEST);
            Error::invalid(format!("{text:?} is not a version of the API from {oldest} to {newest}"))
        })
    }
}

/// The version of docker's engine that brought a version of the API: clients read what an engine can do out of its own version.
const ENGINES: [(ApiVersion, &str); 15] = [
    (ApiVersion(54), "29.3.0"),
    (ApiVersion(53), "29.2.0"),
    (ApiVersion(52), "29.0.0"),
    (ApiVersion(51), "28.3.0"),
    (ApiVersion(50), "28.2.0"),
    (ApiVersion(49), "28.1.0"),
    (ApiVersion(48), "28.0.0"),
    (ApiVersion(47), "27.2.0"),
    (ApiVersion(46), "27.0.0"),
    (ApiVersion(45), "26.0.0"),
    (ApiVersion(44), "25.0.0"),
    (ApiVersion(42), "23.0.0"),
    (ApiVersion(41), "20.10.0"),
    (ApiVersion(40), "19.3.0"),
    (ApiVersion(25), "17.3.0"),
];

impl ApiVersion {
    /// How the engine calls its own version where clients of later versions than the specified ones are served: that of
    /// docker's engine of this version, and the true one behind it.
    pub(crate) fn engine(self, own: &str) -> String {
        match ENGINES.iter().find(|(since, _)| self >= *since) {
            Some((_, engine)) => format!("{engine}+coracle-{own}"),
            None => own.to_owned(),
        }
    }
}

/// A version as a request has it: dotted numbers of the path, or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Version {
    text: String,
    number: (u64, u64),
    /// Whether the path named it.
    named: bool,
}

impl Version {
    /// The version of a request whose path names none, where `newest` is the newest that is served.
    pub(crate) fn unversioned(newest: ApiVersion) -> Version {
        let version = newest.min(ApiVersion::UNVERSIONED);
        Version { named: false, ..Version::parse(&version.to_string()) }
    }
    /// `text`: digits and dots; an empty part is 0. Parts after the second do not count.
    pub(crate) fn parse(text: &str) -> Version {
        let mut parts = text.split('.').map(|p| if p.is_empty() { 0 } else { p.parse().unwrap_or(u64::MAX) });
        let number = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
        Version { text: text.to_owned(), number, named: true }
    }
    /// Why the version is not served, if it is not; `newest` is the newest that is.
    pub(crate) fn refusal(&self, newest: ApiVersion) -> Option<String> {
        if self.number > (1, newest.0) {
            return Some(format!("client version {self} is too new. Maximum supported API version is {newest}"));
        }
        (self.number < (1, ApiVersion::OLDEST.0)).then(|| {
            format!(
                "client version {self} is too old. Minimum supported API version is {}, please upgrade your client to a \
                 newer version",
                ApiVersion::OLDEST
            )
        })
    }
    /// The fields of requests that the version does not know any more: what they hold is ignored.
    pub(crate) fn dropped_fields(&self) -> Vec<&'static str> {
        DROPPED.iter().filter(|(since, _)| self.number >= (1, *since)).map(|(_, name)| *name).collect()
    }
    /// Whether the version has what `gate` names.
    pub(crate) fn has(&self, gate: Gate) -> bool {
        let minor = GATES.iter().find(|(_, g)| *g == gate).map_or(0, |(since, _)| *since);
        self.number >= (1, minor)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A behaviour that begins with a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gate {
    /// Killing a container that does not run is an error.
    KillNeedsRunning,
    /// Inspect takes `size`.
    InspectSize,
    /// A body of exec start must be called JSON.
    ExecStartJson,
    /// Errors are JSON documents, not text.
    JsonErrors,
    /// Start takes no host configuration any more.
    StartWithoutBody,
    /// The copy endpoint is gone.
    NoCopy,
    /// Inspecting an exec names its container; before, the answer held the container whole.
    ExecNewest,
    /// Removing a network has an answer without content.
    NetworkRemovalIsEmpty,
    /// A container's host name must be one by RFC 1123.
    HostnameRule,
    /// That the host is outside of a swarm is a service that is not there, no request that is not acceptable.
    NoSwarm,
    /// The answer to a ping names the builder.
    PingTellsBuilder,
    /// The answer to a ping says that the host is outside of a swarm.
    PingTellsSwarm,
    /// Messages of a websocket are binary; before, text where they are.
    BinaryMessages,
    /// The head of a wait's answer goes out when the wait begins.
    WaitHeadAtOnce,
    /// A build reports the ids of its images to programs.
    BuildIds,
    /// An event says whether it is of this host or of a swarm.
    EventScope,
    /// An attach over a websocket has all three streams, whatever the request names.
    WebsocketHasAllStreams,
    /// An attach over a websocket has the streams that the request names, as it has to the last specified version.
    WebsocketChoosesStreams,
    /// A container's IPC namespace is its own unless the request says otherwise; before, others could join it.
    PrivateIpc,
    /// A prune of volumes removes those that somebody named only with the filter `all`.
    PruneKeepsNamedVolumes,
    /// The disk usage of some kinds of objects can be requested.
    DiskUsageByType,
    /// A read-only bind makes all mounts below it read-only, too.
    ReadOnlyBelow,
    /// A container can be created on several networks.
    SeveralNetworks,
    /// Volumes of a cluster can be updated, where there is one.
    ClusterVolumes,
    /// The type of a stream says whether its output is in frames.
    StreamTypes,
    /// Inspect shows the options of endpoints.
    EndpointOptions,
    /// Inspect does not show a limit of the kernel's memory that is not set.
    NoKernelMemory,
    /// Inspect does not show a quota of Windows that is not set.
    NoDiskQuota,
    /// The answer of exec create has the id alone.
    ExecIdAlone,
    /// The name that a list of images takes stands among its filters alone.
    ImageNameIsFilter,
    /// Pools of a new network that are wrong are a bad request.
    BadPoolsAreInvalid,
    /// Inspect shows the names of endpoints; a MAC address belongs to an endpoint.
    EndpointNames,
    /// Inspect shows the priority of endpoints.
    GatewayPriority,
    /// Inspect does not show the short id among the aliases of an endpoint.
    NoShortAlias,
    /// A list of containers shows their annotations.
    ListedAnnotations,
    /// A build may name a version of the builder.
    BuilderVersions,
    /// Plugins are installed with the privileges that the request grants, and shown whole.
    GrantedPlugins,
    /// Listeners hear that a build has made an image.
    ImageCreateEvents,
    /// A driver for volumes that none of the request's volumes has is worth a warning.
    WarnsOfVolumeDriver,
    /// A list of images counts the containers of each.
    ListedImageUsers,
    /// A list of containers shows their health.
    ListedHealth,
    /// Samples name the operating system.
    StatsNameSystem,
    /// Events are without the members of the first versions, and the client chooses how they are separated.
    BareEvents,
    /// The disk usage has sums for each kind of objects; on request it has the objects in these, and nothing beside them.
    DiskUsageSums,
    /// A MAC address belongs to an endpoint alone.
    NoContainerMac,
    /// A port with an empty list of bindings is worth a warning.
    WarnsOfEmptyBindings,
}

/// (minor version that drops it, field of the body of create and update).
const DROPPED: &[(u64, &str)] = &[(42, "KernelMemory"), (52, "KernelMemoryTCP")];

/// (minor version that begins it, behaviour).
const GATES: &[(u64, Gate)] = &[
    (20, Gate::KillNeedsRunning),
    (21, Gate::InspectSize),
    (22, Gate::ExecStartJson),
    (24, Gate::JsonErrors),
    (24, Gate::StartWithoutBody),
    (24, Gate::NoCopy),
    (22, Gate::ExecNewest),
    (23, Gate::NetworkRemovalIsEmpty),
    (24, Gate::HostnameRule),
    (25, Gate::NoSwarm),
    (25, Gate::ExecIdAlone),
    (25, Gate::GrantedPlugins),
    (25, Gate::WebsocketHasAllStreams),
    (28, Gate::BinaryMessages),
    (30, Gate::WaitHeadAtOnce),
    (30, Gate::BuildIds),
    (30, Gate::EventScope),
    (32, Gate::EndpointOptions),
    (38, Gate::BuilderVersions),
    (39, Gate::PingTellsBuilder),
    (40, Gate::PrivateIpc),
    (40, Gate::NoDiskQuota),
    (41, Gate::ImageNameIsFilter),
    (42, Gate::PruneKeepsNamedVolumes),
    (42, Gate::DiskUsageByType),
    (42, Gate::StreamTypes),
    (42, Gate::WebsocketChoosesStreams),
    (42, Gate::ClusterVolumes),
    (42, Gate::PingTellsSwarm),
    (42, Gate::NoKernelMemory),
    (44, Gate::ReadOnlyBelow),
    (44, Gate::SeveralNetworks),
    (44, Gate::BadPoolsAreInvalid),
    (44, Gate::EndpointNames),
    (45, Gate::NoShortAlias),
    (46, Gate::ListedAnnotations),
    (46, Gate::ImageCreateEvents),
    (48, Gate::GatewayPriority),
    (48, Gate::WarnsOfVolumeDriver),
    (51, Gate::ListedImageUsers),
    (52, Gate::ListedHealth),
    (52, Gate::StatsNameSystem),
    (52, Gate::BareEvents),
    (52, Gate::DiskUsageSums),
    (52, Gate::NoContainerMac),
    (52, Gate::WarnsOfEmptyBindings),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn v(text: &str) -> Version {
        Version::parse(text)
    }

    #[test]
    fn range() {
        let newest = ApiVersion::NEWEST;
        for good in ["1.18", "1.21", "1.24", "1.24.1", "01.018", "1.25", "1.44", "1.54"] {
            assert_eq!(v(good).refusal(newest), None, "{good}");
        }
        assert_eq!(
            v("1.99").refusal(newest).unwrap(),
            "client version 1.99 is too new. Maximum supported API version is 1.54"
        );
        let specified = ApiVersion::SPECIFIED;
        assert_eq!(
            v("1.25").refusal(specified).unwrap(),
            "client version 1.25 is too new. Maximum supported API version is 1.24"
        );
        assert_eq!(v("1.24").refusal(specified), None);
        let old = "is too old. Minimum supported API version is 1.18, please upgrade your client to a newer version";
        for bad in ["1", "1.12", "1.17", "1..2", "0.99", "..."] {
            assert_eq!(v(bad).refusal(newest).unwrap(), format!("client version {bad} {old}"));
        }
        assert!(v("99999999999999999999999.1").refusal(newest).is_some());
    }

    #[test]
    fn gates_open_at_their_version() {
        assert!(!v("1.23").has(Gate::JsonErrors) && v("1.24").has(Gate::JsonErrors));
        assert!(!v("1.21").has(Gate::ExecStartJson) && v("1.22").has(Gate::ExecStartJson));
        assert!(v("1.24").has(Gate::NoCopy) && !v("1.18").has(Gate::InspectSize));
        assert!(!v("1.24").has(Gate::NoSwarm) && v("1.25").has(Gate::NoSwarm));
        // Without a version, a request is of 1.44, or of the newest that is served.
        assert!(Version::unversioned(ApiVersion::NEWEST).has(Gate::NoSwarm));
        assert!(!Version::unversioned(ApiVersion::SPECIFIED).has(Gate::NoSwarm));
    }

    #[test]
    fn versions_are_read() {
        for good in ["1.18", "1.24", "1.44", "1.54"] {
            assert_eq!(good.parse::<ApiVersion>().unwrap().to_string(), good);
        }
        for bad in ["1.17", "1.55", "2.24", "1", "", "1.x", "v1.24"] {
            let error = bad.parse::<ApiVersion>().unwrap_err();
            assert_eq!(error.message(), format!("{bad:?} is not a version of the API from 1.18 to 1.54"));
        }
    }

    #[test]
    fn engines_are_called_as_docker_calls_its_own() {
        let called = |version: &str| version.parse::<ApiVersion>().unwrap().engine("0.1.0");
        assert_eq!(called("1.24"), "0.1.0");
        assert_eq!(called("1.25"), "17.3.0+coracle-0.1.0");
        assert_eq!(called("1.43"), "23.0.0+coracle-0.1.0");
        assert_eq!(called("1.44"), "25.0.0+coracle-0.1.0");
        assert_eq!(called("1.54"), "29.3.0+coracle-0.1.0");
    }
}
