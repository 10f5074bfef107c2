//! The checks of a request, apart from limits, logs and mounts.

use super::{
    CgroupnsMode, IpcMode, Modes, NetworkMode, Owner, PidMode, UtsMode, merge, plain, process, restart, security,
    signal,
};
use crate::error::{Error, Result};
use crate::launch::{capability, cdi, devices};
use crate::model::{ContainerConfig, CreateBody, HostConfig, NetworkingConfig};
use crate::walls::Wall;
use std::net::{Ipv4Addr, Ipv6Addr};

const MILLISECOND_NS: i64 = 1_000_000;

/// Checks the fields that need no facts of host or image.
pub(super) fn check(request: &CreateBody) -> Result<()> {
    let (config, host) = (&request.config, &request.host_config);
    network_conflicts(config, host)?;
    isolation(host)?;
    check_config(config)?;
    hostname(&config.hostname, request.any_hostname)?;
    check_host(host)?;
    super::networks::check(request)?;
    endpoints(&request.networking_config)
}

/// Checks a configuration again after the image's is merged in: images are not trusted either.
pub(super) fn merged(config: &ContainerConfig) -> Result<()> {
    plain("WorkingDir", &config.working_dir)?;
    plain("User", &config.user)?;
    for entry in config.env.iter().flatten() {
        no_nul("Env", entry)?;
    }
    for word in config.entrypoint.iter().chain(&config.cmd).flatten() {
        no_nul("Cmd", word)?;
    }
    for word in config.healthcheck.iter().flat_map(|check| &check.test).chain(config.shell.iter().flatten()) {
        no_nul("Healthcheck", word)?;
    }
    match Wall::ImageHealth.stands() {
        true => healthcheck(config),
        false => Ok(()),
    }
}

fn check_config(config: &ContainerConfig) -> Result<()> {
    merge::working_dir(&config.working_dir)?;
    merged(config)?;
    if !config.stop_signal.is_empty() {
        signal::parse_stop_signal(&config.stop_signal)?;
    }
    for entry in config.env.iter().flatten() {
        if entry.is_empty() || entry.starts_with('=') {
            return Err(Error::invalid(format!("invalid environment variable: {entry}")).in_field("Env"));
        }
    }
    healthcheck(config)?;
    domainname(&config.domainname)
}

fn no_nul(field: &str, text: &str) -> Result<()> {
    match text.contains('\0') {
        true => Err(Error::invalid(format!("{field}: {text:?} holds a NUL byte")).in_field(field)),
        false => Ok(()),
    }
}

/// RFC 1123: letters, digits and inner dashes, in labels separated by dots; 63 characters in all, as dockerd requires.
/// `any`: only requires one word that the kernel accepts, because the name also stands in `/etc/hosts`.
fn hostname(name: &str, any: bool) -> Result<()> {
    let word = name.len() <= 64 && name.chars().all(|c| c.is_ascii_graphic() && c != '#');
    let good = if any { word } else { name.len() <= 63 && name.split('.').all(label) };
    match name.is_empty() || good || !Wall::PlainText.stands() {
        true => Ok(()),
        false => Err(Error::invalid(format!("invalid hostname format: {name}")).in_field("Hostname")),
    }
}

fn label(part: &str) -> bool {
    let inner = part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    inner && !part.is_empty() && !part.starts_with('-') && !part.ends_with('-')
}

/// The kernel accepts 64 bytes; the name also stands in `/etc/hosts`, so it must be one word.
fn domainname(name: &str) -> Result<()> {
    match name.len() > 64 || name.chars().any(|c| c.is_control() || c.is_whitespace()) && Wall::PlainText.stands() {
        true => Err(Error::invalid(format!("invalid domain name format: {name:?}")).in_field("Domainname")),
        false => Ok(()),
    }
}

fn healthcheck(config: &ContainerConfig) -> Result<()> {
    let Some(health) = &config.healthcheck else { return Ok(()) };
    for (name, value) in [
        ("Interval", health.interval),
        ("Timeout", health.timeout),
        ("StartPeriod", health.start_period),
        ("StartInterval", health.start_interval),
    ] {
        if value != 0 && value < MILLISECOND_NS {
            let error = Error::invalid(format!("{name} in Healthcheck cannot be less than 1ms"));
            return Err(error.in_field(format!("Healthcheck.{name}")).with_limit(MILLISECOND_NS));
        }
    }
    match health.retries < 0 {
        true => Err(Error::invalid("Retries in Healthcheck cannot be negative")
            .in_field("Healthcheck.Retries")
            .with_limit(0)),
        false => Ok(()),
    }
}

fn network_conflicts(config: &ContainerConfig, host: &HostConfig) -> Result<()> {
    let some = |list: &Option<Vec<String>>| list.as_ref().is_some_and(|list| !list.is_empty());
    let mode = NetworkMode::parse(&host.network_mode)?;
    let (container, on_host) = (mode.owner().container().is_some(), mode.owner() == Owner::Host);
    // A later check refuses a text that is not a mode.
    let host_uts = matches!(UtsMode::parse(&host.uts_mode), Ok(UtsMode::Host));
    let ports = !host.port_bindings.is_empty() || host.publish_all_ports;
    let conflicts = [
        (host_uts && !config.hostname.is_empty(), "hostname and the UTS mode"),
        (container && !config.hostname.is_empty(), "hostname and the network mode"),
        (
            on_host && some(&host.links),
            "host type networking can't be used with links. This would result in undefined behavior",
        ),
        (
            container && some(&host.links),
            "container type network can't be used with links. This would result in undefined behavior",
        ),
        (container && some(&host.dns), "dns and the network mode"),
        (container && some(&host.extra_hosts), "custom host-to-IP mapping and the network mode"),
        ((container || on_host) && !config.mac_address.is_empty(), "mac-address and the network mode"),
        (container && ports, "port publishing and the container type network mode"),
        (container && !config.exposed_ports.is_empty(), "port exposing and the container type network mode"),
    ];
    match conflicts.iter().find(|(found, _)| *found) {
        Some((_, what)) => Err(Error::invalid(format!("conflicting options: {what}"))),
        None => Ok(()),
    }
}

fn isolation(host: &HostConfig) -> Result<()> {
    if !matches!(host.isolation.to_ascii_lowercase().as_str(), "" | "default") {
        return Err(Error::internal_as_dockerd(
            "container",
            format!("Invalid isolation: {:?} - linux only supports 'default'", host.isolation),
        ));
    }
    if host.resources.io_maximum_bandwidth != 0 {
        return Err(Error::internal_as_dockerd(
            "container",
            "Invalid QoS settings: linux does not support configuration of maximum bandwidth",
        ));
    }
    if host.resources.io_maximum_iops != 0 {
        return Err(Error::internal_as_dockerd(
            "container",
            "Invalid QoS settings: linux does not support configuration of maximum IOPs",
        ));
    }
    Ok(())
}

fn check_host(host: &HostConfig) -> Result<()> {
    for entry in host.extra_hosts.iter().flatten() {
        extra_host(entry)?;
    }
    dns(host)?;
    let policy = restart::restart_policy(&host.restart_policy)?;
    if host.auto_remove && policy != restart::RestartPolicy::No {
        return Err(Error::invalid("can't create 'AutoRemove' container with restart policy"));
    }
    capability::requested(
        host.privileged,
        host.cap_add.as_deref().unwrap_or_default(),
        host.cap_drop.as_deref().unwrap_or_default(),
    )?;
    if host.shm_size.unwrap_or(0) < 0 {
        let error = Error::invalid("SHM size can not be less than 0");
        return Err(error.in_field("HostConfig.ShmSize").with_limit(0));
    }
    if !(-1000..=1000).contains(&host.oom_score_adj) {
        let text = format!("Invalid value {}, range for oom score adj is [-1000, 1000]", host.oom_score_adj);
        let limit = if host.oom_score_adj < 0 { -1000 } else { 1000 };
        return Err(Error::invalid(text).in_field("HostConfig.OomScoreAdj").with_limit(limit));
    }
    // Clients of dockerd know the first name, `info` shows the second.
    if !matches!(host.runtime.as_str(), "" | "runc" | "coracle") {
        let error = Error::invalid(format!("Unknown runtime specified {}", host.runtime));
        return Err(error.in_field("HostConfig.Runtime"));
    }
    modes(host)?;
    process::devices(host)?;
    cdi::check(&host.resources.device_requests)?;
    for rule in &host.resources.device_cgroup_rules {
        devices::rules_of(rule)?;
    }
    for (field, list) in [("MaskedPaths", &host.masked_paths), ("ReadonlyPaths", &host.readonly_paths)] {
        for path in list.iter().flatten() {
            plain(field, path)?;
            if !path.starts_with('/') || super::clean(path) == "/" {
                return Err(Error::invalid(format!("{field}: {path:?} is not an absolute path below the root")));
            }
        }
    }
    process::cgroup_parent(host, "/")?;
    for group in host.group_add.iter().flatten() {
        plain("GroupAdd", group)?;
    }
    security::security(host).map(drop)
}

/// `name:address`; an IPv6 address keeps its colons.
fn extra_host(entry: &str) -> Result<()> {
    let Some((_, address)) = entry.split_once(':').filter(|(name, _)| one_word(name)) else {
        return Err(Error::invalid(format!("bad format for add-host: {entry:?}")));
    };
    if address == "host-gateway" || address.parse::<std::net::IpAddr>().is_ok() {
        return Ok(());
    }
    Err(Error::invalid(format!("invalid IP address in add-host: {address:?}")))
}

fn one_word(text: &str) -> bool {
    let breaks_out = text.chars().any(|c| c.is_control() || c.is_whitespace()) && Wall::PlainText.stands();
    !text.is_empty() && !breaks_out
}

/// These become lines of `/etc/resolv.conf`: no value may contain a line break.
fn dns(host: &HostConfig) -> Result<()> {
    for server in host.dns.iter().flatten() {
        if server.parse::<std::net::IpAddr>().is_err() {
            return Err(Error::invalid(format!("Dns: {server:?} is not an ip address")));
        }
    }
    for (field, list) in [("DnsSearch", &host.dns_search), ("DnsOptions", &host.dns_options)] {
        if let Some(bad) = list.iter().flatten().find(|word| !one_word(word)) {
            return Err(Error::invalid(format!("{field}: {bad:?} is not one word")));
        }
    }
    Ok(())
}

fn modes(host: &HostConfig) -> Result<()> {
    PidMode::parse(&host.pid_mode)?;
    IpcMode::parse(&host.ipc_mode)?;
    CgroupnsMode::parse(&host.cgroupns_mode)?;
    UtsMode::parse(&host.uts_mode).map(drop)
}

/// Refuses settings that cannot be combined with a user namespace.
pub(super) fn remapped(privileged: bool, modes: &Modes) -> Result<()> {
    let clashes = [
        (
            privileged,
            "privileged mode is incompatible with user namespaces.  You must run the container in the host namespace when \
             running privileged mode",
        ),
        (
            modes.network == NetworkMode::Host,
            "cannot share the host's network namespace when user namespaces are enabled",
        ),
        (modes.pid == PidMode::Host, "cannot share the host PID namespace when user namespaces are enabled"),
    ];
    match clashes.iter().find(|(clash, _)| *clash) {
        Some((_, what)) => Err(Error::invalid(*what)),
        None => Ok(()),
    }
}

fn endpoints(networking: &NetworkingConfig) -> Result<()> {
    for (name, settings) in &networking.endpoints_config {
        let Some(settings) = settings else { return Err(Error::invalid(format!("no EndpointSettings for {name}"))) };
        let Some(ipam) = &settings.ipam_config else { continue };
        let (v4, v6) = (&ipam.ipv4_address, &ipam.ipv6_address);
        if !v4.is_empty() && v4.parse::<Ipv4Addr>().is_err() {
            return Err(Error::invalid(format!("invalid IPv4 address: {v4}")));
        }
        if !v6.is_empty() && v6.parse::<Ipv6Addr>().is_err() {
            return Err(Error::invalid(format!("invalid IPv6 address: {v6}")));
        }
    }
    Ok(())
}
