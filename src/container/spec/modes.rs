//! The namespace modes of a host configuration: one parser for each mode.
//!
//! Documents keep the texts of the request. [`super::DecidedHost`] has them beside their meaning; both change together.

use crate::error::{Error, Result};
use crate::model::HostConfig;

/// `NetworkMode`: the owner of the network namespace, and the container's first network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum NetworkMode {
    /// The default network, `bridge`: the request names none, or `default`.
    #[default]
    Default,
    /// The default network by its name.
    Bridge,
    /// A namespace of the container's own, with the loopback interface alone.
    None,
    Host,
    /// The container of this name or id.
    Container(String),
    /// The network of this name or id.
    Network(String),
}

/// `IpcMode`: the owner of System V objects, message queues and `/dev/shm`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum IpcMode {
    /// A namespace of the container's own. The request does not say whether other containers may join it, so they may.
    #[default]
    Default,
    /// A namespace of the container's own, which no other container may join.
    Private,
    /// A namespace of the container's own, which other containers may join.
    Shareable,
    /// A namespace of the container's own, without `/dev/shm`.
    None,
    Host,
    /// The container of this name or id.
    Container(String),
}

/// `PidMode`: the owner of the processes that the container sees.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum PidMode {
    #[default]
    Private,
    Host,
    /// The container of this name or id.
    Container(String),
}

/// `CgroupnsMode`: the root of the control groups that the container sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum CgroupnsMode {
    /// The container's own control group.
    #[default]
    Private,
    Host,
}

impl CgroupnsMode {
    /// Errors: no mode is spelled so.
    pub(crate) fn parse(text: &str) -> Result<CgroupnsMode> {
        match text {
            "" | "private" => Ok(CgroupnsMode::Private),
            "host" => Ok(CgroupnsMode::Host),
            _ => Err(Error::invalid(format!("invalid cgroup namespace mode: {text}"))),
        }
    }
}

/// `UTSMode`: the owner of host name and domain name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum UtsMode {
    #[default]
    Private,
    Host,
}

/// `UsernsMode`: the owner of the user namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum UsernsMode {
    /// The engine's options decide: see `Options::userns_remap`.
    #[default]
    Default,
    Host,
}

/// The owner of a namespace that a container is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner<'a> {
    /// The container itself.
    Own,
    Host,
    /// The container of this name or id.
    Container(&'a str),
}

impl NetworkMode {
    /// Errors: the mode must name a container, and names none.
    pub(crate) fn parse(text: &str) -> Result<NetworkMode> {
        Ok(match (text, text.strip_prefix("container:")) {
            ("container", _) | (_, Some("")) => {
                return Err(Error::invalid("Invalid network mode: invalid container format container:<name|id>"));
            }
            (_, Some(name)) => NetworkMode::Container(name.into()),
            ("" | "default", _) => NetworkMode::Default,
            ("bridge", _) => NetworkMode::Bridge,
            ("none", _) => NetworkMode::None,
            ("host", _) => NetworkMode::Host,
            (network, _) => NetworkMode::Network(network.into()),
        })
    }

    /// The name or id of the container's first network; none: the mode excludes networks.
    pub(crate) fn network(&self) -> Option<&str> {
        match self {
            NetworkMode::Default | NetworkMode::Bridge => Some("bridge"),
            NetworkMode::Network(name) => Some(name),
            NetworkMode::None | NetworkMode::Host | NetworkMode::Container(_) => None,
        }
    }

    pub(crate) fn owner(&self) -> Owner<'_> {
        match self {
            NetworkMode::Host => Owner::Host,
            NetworkMode::Container(name) => Owner::Container(name),
            NetworkMode::Default | NetworkMode::Bridge | NetworkMode::None | NetworkMode::Network(_) => Owner::Own,
        }
    }
}

impl IpcMode {
    /// Errors: the text is not a mode.
    pub(crate) fn parse(text: &str) -> Result<IpcMode> {
        match text {
            "" => Ok(IpcMode::Default),
            "private" => Ok(IpcMode::Private),
            "shareable" => Ok(IpcMode::Shareable),
            "none" => Ok(IpcMode::None),
            "host" => Ok(IpcMode::Host),
            _ => match container(text) {
                Some(name) => Ok(IpcMode::Container(name)),
                None => Err(Error::invalid(format!("invalid IPC mode: {text}"))),
            },
        }
    }

    pub(crate) fn owner(&self) -> Owner<'_> {
        match self {
            IpcMode::Host => Owner::Host,
            IpcMode::Container(name) => Owner::Container(name),
            IpcMode::Default | IpcMode::Private | IpcMode::Shareable | IpcMode::None => Owner::Own,
        }
    }

    /// Whether other containers may join the namespace of a container with this mode.
    pub(crate) fn is_shareable(&self) -> bool {
        !matches!(self, IpcMode::Private | IpcMode::None)
    }
}

impl PidMode {
    /// Errors: the text is not a mode.
    pub(crate) fn parse(text: &str) -> Result<PidMode> {
        match text {
            "" => Ok(PidMode::Private),
            "host" => Ok(PidMode::Host),
            _ => match container(text) {
                Some(name) => Ok(PidMode::Container(name)),
                None => Err(Error::invalid(format!("invalid PID mode: {text}"))),
            },
        }
    }

    pub(crate) fn owner(&self) -> Owner<'_> {
        match self {
            PidMode::Private => Owner::Own,
            PidMode::Host => Owner::Host,
            PidMode::Container(name) => Owner::Container(name),
        }
    }
}

impl UtsMode {
    /// Errors: the text is not a mode.
    pub(crate) fn parse(text: &str) -> Result<UtsMode> {
        match text {
            "" => Ok(UtsMode::Private),
            "host" => Ok(UtsMode::Host),
            _ => Err(Error::invalid(format!("invalid UTS mode: {text}"))),
        }
    }
}

impl UsernsMode {
    /// Errors: the text is not a mode.
    pub(crate) fn parse(text: &str) -> Result<UsernsMode> {
        match text {
            "" => Ok(UsernsMode::Default),
            "host" => Ok(UsernsMode::Host),
            _ => Err(Error::invalid(format!("invalid USER mode: {text}"))),
        }
    }
}

impl<'a> Owner<'a> {
    pub(crate) fn container(self) -> Option<&'a str> {
        match self {
            Owner::Container(name) => Some(name),
            Owner::Own | Owner::Host => None,
        }
    }
}

/// The container that `container:NAME` names.
fn container(text: &str) -> Option<String> {
    text.strip_prefix("container:").filter(|name| !name.is_empty()).map(str::to_owned)
}

/// All modes of a host configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Modes {
    pub network: NetworkMode,
    pub ipc: IpcMode,
    pub pid: PidMode,
    pub uts: UtsMode,
    pub userns: UsernsMode,
    pub cgroupns: CgroupnsMode,
}

impl Modes {
    /// Errors: a text is not a mode.
    pub(crate) fn of(host: &HostConfig) -> Result<Modes> {
        Ok(Modes {
            network: NetworkMode::parse(&host.network_mode)?,
            pid: PidMode::parse(&host.pid_mode)?,
            ipc: IpcMode::parse(&host.ipc_mode)?,
            uts: UtsMode::parse(&host.uts_mode)?,
            userns: UsernsMode::parse(&host.userns_mode)?,
            cgroupns: CgroupnsMode::parse(&host.cgroupns_mode)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused<T: std::fmt::Debug>(parsed: Result<T>) -> String {
        let error = parsed.unwrap_err();
        assert_eq!(error.http_status(), 400);
        error.message().to_owned()
    }

    #[test]
    fn network_modes() {
        for (text, mode, network, owner) in [
            ("", NetworkMode::Default, Some("bridge"), Owner::Own),
            ("default", NetworkMode::Default, Some("bridge"), Owner::Own),
            ("bridge", NetworkMode::Bridge, Some("bridge"), Owner::Own),
            ("none", NetworkMode::None, None, Owner::Own),
            ("host", NetworkMode::Host, None, Owner::Host),
            ("container:a", NetworkMode::Container("a".into()), None, Owner::Container("a")),
            ("container:a:b", NetworkMode::Container("a:b".into()), None, Owner::Container("a:b")),
            ("own", NetworkMode::Network("own".into()), Some("own"), Owner::Own),
            ("Host", NetworkMode::Network("Host".into()), Some("Host"), Owner::Own),
            ("containers", NetworkMode::Network("containers".into()), Some("containers"), Owner::Own),
            ("host:a", NetworkMode::Network("host:a".into()), Some("host:a"), Owner::Own),
        ] {
            let parsed = NetworkMode::parse(text).unwrap();
            assert_eq!((&parsed, parsed.network(), parsed.owner()), (&mode, network, owner), "{text:?}");
        }
        for bad in ["container", "container:"] {
            let text = "Invalid network mode: invalid container format container:<name|id>";
            assert_eq!(refused(NetworkMode::parse(bad)), text, "{bad:?}");
        }
    }

    #[test]
    fn ipc_modes() {
        for (text, mode, owner, shareable) in [
            ("", IpcMode::Default, Owner::Own, true),
            ("private", IpcMode::Private, Owner::Own, false),
            ("shareable", IpcMode::Shareable, Owner::Own, true),
            ("none", IpcMode::None, Owner::Own, false),
            ("host", IpcMode::Host, Owner::Host, true),
            ("container:a", IpcMode::Container("a".into()), Owner::Container("a"), true),
        ] {
            let parsed = IpcMode::parse(text).unwrap();
            let facts = (&parsed, parsed.owner(), parsed.is_shareable());
            assert_eq!(facts, (&mode, owner, shareable), "{text:?}");
        }
        for bad in ["container", "container:", "zz", "Host", "default", " host"] {
            assert_eq!(refused(IpcMode::parse(bad)), format!("invalid IPC mode: {bad}"));
        }
    }

    #[test]
    fn pid_modes() {
        for (text, mode, owner) in [
            ("", PidMode::Private, Owner::Own),
            ("host", PidMode::Host, Owner::Host),
            ("container:a", PidMode::Container("a".into()), Owner::Container("a")),
        ] {
            let parsed = PidMode::parse(text).unwrap();
            assert_eq!((&parsed, parsed.owner()), (&mode, owner), "{text:?}");
            assert_eq!(parsed.owner().container(), text.strip_prefix("container:"), "{text:?}");
        }
        for bad in ["container", "container:", "zz", "private", "none", "shareable", "HOST"] {
            assert_eq!(refused(PidMode::parse(bad)), format!("invalid PID mode: {bad}"));
        }
    }

    #[test]
    fn uts_and_userns_modes() {
        assert_eq!(["", "host"].map(|text| UtsMode::parse(text).unwrap()), [UtsMode::Private, UtsMode::Host]);
        assert_eq!(["", "host"].map(|text| UsernsMode::parse(text).unwrap()), [UsernsMode::Default, UsernsMode::Host]);
        for bad in ["private", "container:a", "Host", "zz"] {
            assert_eq!(refused(UtsMode::parse(bad)), format!("invalid UTS mode: {bad}"));
            assert_eq!(refused(UsernsMode::parse(bad)), format!("invalid USER mode: {bad}"));
        }
    }
}
