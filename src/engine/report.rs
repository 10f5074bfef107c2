//! The needs of the library, each looked at whatever the others say. An open stops at the first that is missing.

use super::system::facts;
use crate::error::{Error, ErrorKind};
use crate::kernel::probe::{self, Capability};
use crate::launch::cgroup::Hierarchies;
use crate::model::{HostReport, Need, NeedState};
use crate::options::Options;
use std::path::{Path, PathBuf};

/// The end of the errors of an open.
const HINT: &str = "'coracle check' names every need of the host, and its cure";

/// Checks all that an engine with these options needs of the host. The check leaves no change behind, and works without the
/// rights of root.
///
/// ```
/// use coracle::model::NeedState;
/// use coracle::{Options, host_report};
///
/// let report = host_report(&Options::new("/var/lib/coracle"));
/// for need in report.needs.iter().filter(|need| need.state != NeedState::Met) {
///     println!("{} {}: {}; {}", need.area, need.name, need.loss, need.cure);
/// }
/// ```
#[must_use]
pub fn host_report(options: &Options) -> HostReport {
    let root = resolved(&options.root);
    let needs = [
        kernel(),
        capabilities(),
        cgroups(),
        root_directory(&root),
        run_directory(options.run_dir.as_deref().unwrap_or(Path::new("/run/coracle"))),
        network(),
        registries(),
    ]
    .concat();
    HostReport {
        version: env!("CARGO_PKG_VERSION").into(),
        kernel: facts::Names::read().release,
        ready: needs.iter().all(|need| need.state != NeedState::Missing),
        needs,
    }
}

/// The error of an open, with the way to the report if the host is the reason.
pub(super) fn pointed(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Forbidden | ErrorKind::Unsupported => error.explained(HINT),
        _ => error,
    }
}

fn met(area: &str, name: impl Into<String>, found: impl Into<String>) -> Need {
    Need { area: area.into(), name: name.into(), found: found.into(), ..Need::default() }
}

impl Need {
    fn lacks(self, state: NeedState, loss: impl Into<String>, cure: impl Into<String>) -> Need {
        Need { state, loss: loss.into(), cure: cure.into(), ..self }
    }
}

fn kernel() -> Vec<Need> {
    const AREA: &str = "kernel";
    const UPDATE: &str = "use Linux 5.10 or later; if the kernel is later, let the seccomp filter of this container or service \
                          allow the call (docker: --security-opt seccomp=unconfined; systemd: SystemCallFilter=)";
    let mut needs: Vec<Need> = probe::calls()
        .map(|(name, missing)| match missing {
            None => met(AREA, name, "there"),
            Some(error) => {
                met(AREA, name, error.message()).lacks(NeedState::Missing, "no container can be started", UPDATE)
            }
        })
        .collect();
    needs.push(match probe::needs_attributes() {
        Ok(()) => met(AREA, probe::ATTRIBUTES, "there"),
        Err(error) => met(AREA, probe::ATTRIBUTES, error.message()).lacks(
            NeedState::Reduced,
            "no userns_remap; attributes of mounts are set one by one, after the mount is attached",
            "nothing needs to be done without userns_remap; for it use Linux 5.19 or later, and let the seccomp filter of this \
             container or service allow the call",
        ),
    });
    needs.push(match probe::check_overlay() {
        Ok(()) => met(AREA, "overlay file system", "there"),
        Err(error) => met(AREA, "overlay file system", error.message()).lacks(
            NeedState::Missing,
            "no container can be started",
            "modprobe overlay, or a kernel with CONFIG_OVERLAY_FS; in a user namespace: run as the host's root",
        ),
    });
    needs.push(match probe::has_filters() {
        true => met(AREA, "seccomp filters", "there"),
        false => met(AREA, "seccomp filters", "not there").lacks(
            NeedState::Missing,
            "no container can be started: monitors could not give up their rights",
            "a kernel with CONFIG_SECCOMP_FILTER",
        ),
    });
    needs
}

fn capabilities() -> Vec<Need> {
    const AREA: &str = "capabilities";
    let held = match probe::effective_capabilities() {
        Ok(held) => held,
        Err(error) => {
            let need = met(AREA, "all", error.message());
            return vec![need.lacks(NeedState::Missing, "no engine can be opened", "let the process call capget(2)")];
        }
    };
    let cure = |name: &str| {
        format!(
            "run as root; in a container: --cap-add {name}; in a unit: AmbientCapabilities={name} beside the others"
        )
    };
    let one = |capability: &Capability| {
        let need = met(AREA, capability.name, "effective");
        if held & (1 << capability.number) != 0 {
            return need;
        }
        let state = if capability.is_needed() { NeedState::Missing } else { NeedState::Reduced };
        Need { found: "not effective".into(), ..need }.lacks(state, capability.loss, cure(capability.name))
    };
    let mut needs: Vec<Need> = probe::CAPABILITIES.iter().map(one).collect();
    if probe::in_user_namespace() {
        needs.push(met(AREA, "the host's user namespace", "the process is in another one").lacks(
            NeedState::Reduced,
            "devices, control groups and mounts that belong to the host's root may be refused: engines without root are not \
             supported yet",
            "run as the host's root",
        ));
    }
    needs
}

fn cgroups() -> Vec<Need> {
    const AREA: &str = "cgroups";
    let host = match Hierarchies::detect() {
        Ok(host) => host,
        Err(error) => {
            return vec![met(AREA, "a hierarchy", error.message()).lacks(
                NeedState::Missing,
                "no engine can be opened",
                "mount -t cgroup2 none /sys/fs/cgroup",
            )];
        }
    };
    let mut needs = vec![met(AREA, "a hierarchy", if host.pure_v2() { "version 2" } else { "version 1" })];
    for (controller, loss) in [
        ("memory", "limits of memory, and its use in stats"),
        ("cpu", "limits of processor time"),
        ("pids", "limits of the number of processes"),
        ("cpuset", "the choice of processors"),
        ("blkio", "limits and weights of block devices"),
    ] {
        // Version 2 has another name for one of them.
        let there = host.with(controller).or_else(|| host.with("io").filter(|_| controller == "blkio"));
        needs.push(match there {
            Some(hierarchy) => writable(AREA, controller, &hierarchy.mount),
            None => met(AREA, controller, "no mounted hierarchy has it").lacks(
                NeedState::Reduced,
                loss,
                format!(
                    "boot with cgroup_enable={controller}, or mount it: mount -t cgroup -o {controller} none \
                     /sys/fs/cgroup/{controller}"
                ),
            ),
        });
    }
    needs
}

/// A controller whose groups can be made, or not.
fn writable(area: &str, controller: &str, mount: &Path) -> Need {
    let own = mount.join(format!("coracle-check-{}", std::process::id()));
    let made = std::fs::create_dir(&own);
    let _ = std::fs::remove_dir(&own);
    match made {
        Ok(()) => met(area, controller, mount.display().to_string()),
        Err(error) => {
            let found = Error::io(format_args!("make a group in {}", mount.display()), &error).message().to_owned();
            met(area, controller, found).lacks(
                NeedState::Missing,
                "no container can be started",
                format!(
                    "mount -o remount,rw {}; in a container: --privileged or --cgroupns=private with a writable mount; in a \
                     unit: Delegate=yes",
                    mount.display()
                ),
            )
        }
    }
}

/// The directory, or the nearest one above it that is there: links are followed.
fn resolved(path: &Path) -> PathBuf {
    let above = path.ancestors().find_map(|above| above.canonicalize().ok());
    above.unwrap_or_else(|| PathBuf::from("."))
}

fn root_directory(place: &Path) -> Vec<Need> {
    const AREA: &str = "root";
    let kind = facts::file_system(place);
    let found = format!("{}: {kind}", place.display());
    let file_system = match probe::holds_layers(place) {
        Ok(()) => met(AREA, "file system", found),
        Err(error) => met(AREA, "file system", found).lacks(
            NeedState::Missing,
            error.message(),
            "mount ext4, xfs, btrfs or a tmpfs there (in a container: a volume), or name another directory with --root",
        ),
    };
    vec![file_system, takes_files(AREA, place, "root")]
}

fn run_directory(run: &Path) -> Vec<Need> {
    const AREA: &str = "run directory";
    let place = resolved(run);
    let kind = facts::file_system(&place);
    let found = format!("{}: {kind}", place.display());
    let tmpfs = match probe::on_tmpfs(&place) {
        true => met(AREA, "file system", found),
        false => met(AREA, "file system", found).lacks(
            NeedState::Reduced,
            "what is to end with the boot may outlive it, and events wait for the disk",
            format!(
                "mkdir -p {0} && mount -t tmpfs tmpfs {0}, or name a directory on a tmpfs with --run",
                run.display()
            ),
        ),
    };
    vec![tmpfs, takes_files(AREA, &place, "run")]
}

/// Whether a file can be made in a directory: one that is removed at once. `flag` names the option for another directory.
fn takes_files(area: &str, place: &Path, flag: &str) -> Need {
    let name = place.join(format!(".coracle-check-{}", std::process::id()));
    let made = std::fs::File::create_new(&name);
    let _ = std::fs::remove_file(&name);
    match made {
        Ok(_) => met(area, "writable", place.display().to_string()),
        Err(error) => {
            let found = Error::io(format_args!("make a file in {}", place.display()), &error).message().to_owned();
            // The rights to a directory do not come with a mount.
            let cure = match error.kind() {
                std::io::ErrorKind::PermissionDenied => {
                    format!("run as root, or change the owner: chown USER {}", place.display())
                }
                _ => format!("name another directory with --{flag}, or mount -o remount,rw the file system"),
            };
            met(area, "writable", found).lacks(NeedState::Missing, "no engine can be opened", cure)
        }
    }
}

fn network() -> Vec<Need> {
    const AREA: &str = "network";
    let refusals = match crate::network::refusals() {
        Ok(refusals) => refusals,
        Err(error) => {
            return vec![met(AREA, "firewalls of others", error.message()).lacks(
                NeedState::Reduced,
                "it cannot be seen whether another firewall drops what networks forward",
                "run with CAP_NET_ADMIN",
            )];
        }
    };
    if refusals.is_empty() {
        return vec![met(AREA, "firewalls of others", "none drops forwarded packets")];
    }
    let one = |table: String| {
        met(AREA, "firewalls of others", format!("{table} drops forwarded packets")).lacks(
            NeedState::Reduced,
            "containers of one network may not reach each other or the outside, unless a chain for others lets them pass",
            "coracle info: its warnings have the commands for the bridges of the root; beside dockerd the rules are made",
        )
    };
    refusals.into_iter().map(one).collect()
}

fn registries() -> Vec<Need> {
    const AREA: &str = "registries";
    #[cfg(feature = "registry")]
    let needs = match crate::tls::system_roots().len() {
        0 => vec![met(AREA, "certificates", "no authority is known").lacks(
            NeedState::Reduced,
            "pull and push by TLS fail, but for registries with certificates of their own",
            "apt-get install ca-certificates, or name a file of certificates in SSL_CERT_FILE",
        )],
        count => vec![met(AREA, "certificates", format!("{count} authorities"))],
    };
    #[cfg(not(feature = "registry"))]
    let needs = vec![met(AREA, "certificates", "this library has no registries").lacks(
        NeedState::Reduced,
        "no pull and no push",
        "build with the feature registry",
    )];
    needs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_need_that_is_not_met_has_a_loss_and_a_cure() {
        let report = host_report(&Options::new("/nosuch/root"));
        assert!(report.needs.len() > 20, "{}", report.needs.len());
        for need in &report.needs {
            let said = !need.loss.is_empty() && !need.cure.is_empty();
            assert_eq!(said, need.state != NeedState::Met, "{need:?}");
        }
    }

    #[test]
    fn only_errors_of_the_host_point_to_the_report() {
        assert!(pointed(Error::unsupported("no overlay")).message().ends_with(&format!("({HINT})")));
        assert_eq!(pointed(Error::invalid("wrong")).message(), "wrong");
    }
}
