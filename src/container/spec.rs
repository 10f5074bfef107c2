//! Request → spec: the container as decided at its creation and stored; everything here is pure.
//!
//! [`resolve`] checks a create body, merges it with the image's configuration and fills in the defaults. Other values
//! for a start ([`environment`], [`ulimits`], [`mount_table`], [`sysctls`], ...) are derived from the stored [`Spec`]
//! by functions without side effects. Texts and statuses are those of dockerd 20.10 unless a comment says otherwise.

mod check;
mod decided;
mod files;
mod health;
mod log;
mod long_mounts;
mod merge;
mod modes;
mod mount_requests;
mod mounts;
mod networks;
mod ports;
mod process;
mod restart;
mod security;
mod signal;
mod storage;
mod sysctl;
mod tag;

pub(crate) use crate::kernel::path::clean;
pub(crate) use crate::kernel::signal::{parse_signal, signal_exists};
pub(crate) use decided::DecidedHost;
pub(crate) use files::{embedded_resolv_conf, hostname_file, hosts_file, resolv_conf, wants_host_gateway};
pub(crate) use health::{HealthCheck, health_check};
pub(crate) use log::{
    LogDriver, is_built_in, log_attributes, log_driver, log_extras, log_tag, unknown as unknown_log_driver,
};
pub(crate) use long_mounts::sources_are_there;
pub(crate) use modes::{CgroupnsMode, IpcMode, Modes, NetworkMode, Owner, PidMode, UsernsMode, UtsMode};
pub(crate) use mounts::{Mount, MountKind, Propagation, mount_points, mount_table, taken_over, volumes_from};
pub(crate) use networks::asked_for;
#[cfg(feature = "bundle")]
pub(crate) use process::rlimit;
pub(crate) use process::{cgroup_parent, environment, hostname, ulimits, with_variables};
pub(crate) use restart::{RestartPolicy, restart_policy};
pub(crate) use security::{Seccomp, apparmor, label_options, masked_paths, readonly_paths, security};
pub(crate) use signal::stop_signal;
pub(crate) use storage::storage_size;
pub(crate) use sysctl::sysctls;
pub(crate) use tag::TagFacts;

use crate::container::names::short_id;
use crate::error::{Error, Result};
use crate::launch::cgroup::{self, HostFacts, RequestKind};
use crate::launch::plan;
use crate::launch::selinux::Labels;
use crate::model::{ContainerConfig, CreateBody, EndpointSettings, HostConfig, StringMap};
use crate::options::UsernsRemap;
use crate::plugin::Plugins;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Size of `/dev/shm` in bytes for a container that names none.
pub(crate) const DEFAULT_SHM_SIZE: i64 = 64 << 20;

/// A container as decided at its creation: the document that the store keeps.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(default)]
pub(crate) struct Spec {
    /// The image's id, `sha256:` and 64 hex digits.
    pub image_id: String,
    /// The image as the request named it.
    pub image_name: String,
    /// The image's architecture; empty in specs of versions that did not record it.
    pub architecture: String,
    /// The configuration, merged with the image's; its host name and working directory are final.
    #[serde(with = "ports")]
    pub config: ContainerConfig,
    /// The host configuration with its defaults, as inspect shows it, and with its decided values.
    #[serde(with = "ports")]
    pub host_config: DecidedHost,
    /// The program: first word of entrypoint and command together.
    pub path: String,
    /// The program's arguments, without its own name.
    pub args: Vec<String>,
    /// Binds and volumes, by depth of their target. The tmpfs mounts are derived at start: [`mount_table`].
    pub mounts: Vec<Mount>,
    /// The cgroup above the container's own: absolute, clean.
    pub cgroup_parent: String,
    /// The container's networks with the requested settings, by the names in the request.
    pub networks: BTreeMap<String, EndpointSettings>,
    /// The beginning of the engine's id in the name of the control group; empty if an older version made the container,
    /// which named the group by the container's id alone.
    pub engine: String,
    /// The user namespace. Options of a later open do not change it.
    pub users: Users,
    /// The AppArmor profile of the container's processes, as its creation or last start decided. Empty if the kernel
    /// had no AppArmor, or the version that started the container did not support it.
    pub apparmor: String,
    /// The reason why the stored document cannot be read; the other fields then hold only the readable parts. Empty:
    /// the document is whole.
    #[serde(skip)]
    pub damage: String,
    /// The SELinux label of the container's processes, as its creation or its first start with SELinux decided; empty:
    /// none.
    pub process_label: String,
    /// The SELinux label of the container's files; empty: not decided yet.
    pub mount_label: String,
    /// The lease with which it ends and goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease: Option<LeaseMark>,
    /// The plugin that the container runs: nobody else sees it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugin: Option<String>,
    /// The place of the plugin's socket on the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugin_socket: Option<String>,
}

/// The lease of a container, as its spec has it.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeaseMark {
    pub name: String,
    /// Always true: by this word the index of containers that go finds the container (`SCHEMA_AUTO_REMOVED`).
    #[serde(rename = "AutoRemove")]
    goes: bool,
}

impl LeaseMark {
    pub(crate) fn new(name: impl Into<String>) -> LeaseMark {
        LeaseMark { name: name.into(), goes: true }
    }
}

impl Spec {
    /// Whether the stored document could be read.
    pub(crate) fn is_whole(&self) -> bool {
        self.damage.is_empty()
    }

    /// This container with the given labels.
    pub(crate) fn with_labels(self, labels: &Labels) -> Spec {
        Spec { process_label: labels.process.clone(), mount_label: labels.mount.clone(), ..self }
    }
}

/// The user namespace of a container, as decided at its creation.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Users {
    /// The version that made the container did not record it: the next start decides.
    #[default]
    Undecided,
    /// The host's.
    Host,
    /// A namespace of its own: the host's ids of its root, and the number of ids from there on.
    Own { uid: u32, gid: u32, count: u32 },
}

impl Users {
    /// The decision of an engine opened with `remap` for a new container.
    pub(crate) fn of(mode: UsernsMode, remap: Option<UsernsRemap>) -> Users {
        match remap {
            Some(UsernsRemap { uid, gid, count }) if mode != UsernsMode::Host => Users::Own { uid, gid, count },
            _ => Users::Host,
        }
    }

    /// The value for the plan.
    pub(crate) fn of_plan(self) -> Option<plan::Users> {
        match self {
            Users::Own { uid, gid, count } => Some(plan::Users { uid, gid, count, group_count: count, join: None }),
            Users::Host | Users::Undecided => None,
        }
    }
}

/// The facts of an image that [`resolve`] needs.
pub(crate) struct ImageView {
    pub id: String,
    /// The name in the image's configuration.
    pub architecture: String,
    pub config: ContainerConfig,
}

/// The defaults that the engine and the host give to every new container.
pub(crate) struct Defaults {
    pub log_driver: String,
    pub log_options: StringMap,
    pub cgroup_parent: String,
    /// See [`Spec::engine`].
    pub engine: String,
    /// The host's name, which containers on the host's network get.
    pub host_name: String,
    /// The user namespace of containers unless they opt out.
    pub remap: Option<UsernsRemap>,
    /// The AppArmor profile of containers that name none; none: the kernel has no AppArmor.
    pub apparmor: Option<String>,
    /// Containers have SELinux labels.
    pub selinux: bool,
    /// The lease of containers that name none.
    pub lease: Option<String>,
    /// Plugins may be log drivers.
    pub plugins: Plugins,
    /// The limits that the host can set: other limits are dropped with a warning.
    pub host: HostFacts,
}

/// Merges a configuration over another, field by field: a request's over its image's, a commit's over its container's.
pub(crate) fn over(config: &ContainerConfig, below: &ContainerConfig) -> ContainerConfig {
    merge::merge(config, below)
}

/// A request that [`validate`] has checked, with the defaults that it was checked under.
pub(crate) struct Checked<'a> {
    request: &'a CreateBody,
    defaults: &'a Defaults,
}

/// Checks a request as far as that is possible without its image.
///
/// dockerd reports these mistakes even if the image is missing too, so a create calls this first.
pub(crate) fn validate<'a>(request: &'a CreateBody, defaults: &'a Defaults) -> Result<Checked<'a>> {
    if request.config == ContainerConfig::default() {
        return Err(Error::invalid("Config cannot be empty in order to create a container"));
    }
    check::check(request)?;
    storage_size(&request.host_config)?;
    security::labels_fit(&request.host_config, defaults.selinux)?;
    let modes = Modes::of(&request.host_config)?;
    users_fit(request.host_config.privileged, &modes, Users::of(modes.userns, defaults.remap))?;
    log::find_plugin(&log::effective(&request.host_config.log_config, defaults)?, defaults)?;
    cgroup::check(&mut request.host_config.resources.clone(), &defaults.host, RequestKind::ForNew)
        .map_err(|error| error.below("HostConfig"))?;
    mount_requests::mounts(&request.config, &request.host_config, &[])?;
    volumes_from(&request.host_config)?;
    Ok(Checked { request, defaults })
}

/// Decides the spec of the container `id`: the document to store, and warnings for the client. `inherited` are the
/// mounts that VolumesFrom names, as [`taken_over`] gives them.
///
/// Errors: every other mistake that shows without a look at the host.
pub(crate) fn resolve(
    checked: &Checked<'_>,
    image: &ImageView,
    id: &str,
    inherited: &[Mount],
) -> Result<(Spec, Vec<String>)> {
    let Checked { request, defaults } = *checked;
    let mut config = merge::merge(&request.config, &image.config);
    check::merged(&config)?;
    let (path, args) = merge::command(&mut config)?;
    config.working_dir = merge::working_dir(&config.working_dir)?;
    if config.hostname.is_empty() {
        let mode = NetworkMode::parse(&request.host_config.network_mode)?;
        config.hostname = default_hostname(&mode, id, &defaults.host_name);
    }
    let (host_config, mut warnings) = normalise(&request.host_config, defaults)?;
    let host_config = DecidedHost::of(host_config)?;
    warnings.extend(health::warning(config.healthcheck.as_ref()));
    let spec = Spec {
        image_id: image.id.clone(),
        image_name: request.config.image.clone(),
        architecture: image.architecture.clone(),
        path,
        args,
        mounts: mount_requests::decided(
            mount_requests::mounts(&config, &host_config, inherited)?,
            request.read_only_below,
        ),
        cgroup_parent: cgroup_parent(&host_config, &defaults.cgroup_parent)?,
        networks: networks::wanted(request)?,
        engine: defaults.engine.clone(),
        users: Users::of(host_config.modes().userns, defaults.remap),
        apparmor: apparmor(&host_config, defaults.apparmor.as_deref())?,
        damage: String::new(),
        process_label: String::new(),
        mount_label: String::new(),
        lease: defaults.lease_of(&request.config)?,
        plugin: None,
        plugin_socket: None,
        config,
        host_config,
    };
    Ok((spec, warnings))
}

/// The host's name, which containers on its UTS namespace have.
pub(super) fn host_name() -> String {
    nix::unistd::gethostname().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Checks the fields that cannot be combined with a user namespace.
pub(crate) fn users_fit(privileged: bool, modes: &Modes, users: Users) -> Result<()> {
    match users {
        Users::Host => Ok(()),
        Users::Own { .. } | Users::Undecided => check::remapped(privileged, modes),
    }
}

fn default_hostname(mode: &NetworkMode, id: &str, host_name: &str) -> String {
    match mode {
        NetworkMode::Host if !host_name.is_empty() => host_name.to_owned(),
        _ => short_id(id),
    }
}

fn normalise(asked: &HostConfig, defaults: &Defaults) -> Result<(HostConfig, Vec<String>)> {
    let mut host = asked.clone();
    let checked = cgroup::check(&mut host.resources, &defaults.host, RequestKind::ForNew);
    let mut warnings = checked.map_err(|error| error.below("HostConfig"))?;
    warnings.extend(security::label_warnings(asked));
    host.log_config = log::effective(&asked.log_config, defaults)?;
    // Links are stored separately, because the linked containers may be renamed or removed.
    host.links = None;
    if host.network_mode.is_empty() {
        host.network_mode = "default".into();
    }
    if host.shm_size.unwrap_or(0) == 0 {
        host.shm_size = Some(DEFAULT_SHM_SIZE);
    }
    for (asked, what) in [
        (host.resources.cpu_count > 0, "CPU count. Count discarded."),
        (host.resources.disk_quota > Some(0), "a disk quota. DiskQuota discarded."),
    ] {
        if asked {
            warnings.push(format!("linux does not support {what}"));
        }
    }
    (host.resources.cpu_count, host.resources.disk_quota) = (0, None);
    if !host.lxc_conf.is_empty() {
        host.lxc_conf.clear();
        warnings.push("The lxc execution driver is not supported. LxcConf discarded.".into());
    }
    if !host.cgroup.is_empty() {
        // A field for a runtime that engines no longer have; dockerd accepts and ignores it.
        host.cgroup.clear();
        warnings.push("A group by the name of a container is not supported. Cgroup discarded.".into());
    }
    Ok((host, warnings))
}

/// Refuses control characters (including NUL and newline), which must not reach a file of the engine or a system call.
fn plain(field: &str, text: &str) -> Result<()> {
    match text.chars().any(char::is_control) {
        true => Err(Error::invalid(format!("{field}: {text:?} holds a control character"))),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests;
