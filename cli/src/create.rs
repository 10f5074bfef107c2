//! `create` and `run`: a container from the flags of the command line.

use crate::args::{Command, Flag, Parsed};
use crate::format::bytes;
use crate::ports;
use crate::session::{Ended, Foreground, Signals, passes_signals_on, terminal_is_needed};
use crate::{Entry, Failure, Globals, Outcome, emit, registry, terminal};
use coracle::model::*;
use coracle::{ContainerWait, Engine, ErrorKind, Io};

pub const ENTRIES: &[Entry] = &[
    Entry {
        command: Command {
            name: "run",
            usage: "[FLAGS] IMAGE [COMMAND] [ARG...]",
            about: "Run a command in a new container",
            flags: RUN,
            stops_at_first: true,
        },
        run,
    },
    Entry {
        command: Command {
            name: "create",
            usage: "[FLAGS] IMAGE [COMMAND] [ARG...]",
            about: "Make a container without starting it",
            flags: CREATE,
            stops_at_first: true,
        },
        run: create,
    },
];

/// Flags of limits, which `update` takes, too.
pub const LIMITS: &[Flag] = &[
    Flag::value(&["memory", "m"], "SIZE", "memory limit"),
    Flag::value(&["memory-swap"], "SIZE", "memory and swap limit; -1: no swap limit"),
    Flag::value(&["memory-reservation"], "SIZE", "soft memory limit"),
    Flag::value(&["kernel-memory"], "SIZE", "limit of the kernel's memory for it"),
    Flag::value(&["cpus"], "N", "processors' worth of time, with fractions"),
    Flag::value(&["cpu-shares", "c"], "N", "relative weight"),
    Flag::value(&["cpu-period"], "MICROSECONDS", "period of the quota"),
    Flag::value(&["cpu-quota"], "MICROSECONDS", "time in each period"),
    Flag::value(&["cpuset-cpus"], "LIST", "processors it may run on"),
    Flag::value(&["cpuset-mems"], "LIST", "memory nodes it may use"),
    Flag::value(&["blkio-weight"], "N", "relative block I/O weight, 10 to 1000"),
    Flag::value(&["pids-limit"], "N", "how many processes; -1: no limit"),
    Flag::value(&["restart"], "POLICY", "no, always, unless-stopped, on-failure[:N]"),
];

const HEALTH: &[Flag] = &[
    Flag::value(&["health-cmd"], "COMMAND", "a shell command that checks whether the container is healthy"),
    Flag::value(&["health-interval"], "DURATION", "time between checks, such as 30s"),
    Flag::value(&["health-timeout"], "DURATION", "how long a check may take"),
    Flag::value(&["health-retries"], "N", "failures in a row that mean unhealthy"),
    Flag::value(&["health-start-period"], "DURATION", "time in which failures do not count"),
    Flag::switch(&["no-healthcheck"], "no check, whatever the image has"),
];

/// The flags of `run`: those of `create`, and those of the terminal that the container is attached to.
const RUN: &[Flag] = &[
    Flag::switch(&["detach", "d"], "do not wait: print its id"),
    Flag::value(&["detach-keys"], "KEYS", "what leaves it running (default ctrl-p,ctrl-q)"),
    Flag::switch(&["no-sig-proxy"], "do not pass signals on to it"),
    Flag::switch(&["sig-proxy"], "pass signals on to it: what run does, unless --sig-proxy=false"),
    Flag::group(CREATE),
];

const CREATE: &[Flag] = &[
    Flag::value(&["name"], "NAME", "its name"),
    Flag::value(&["cidfile"], "FILE", "write its id to a new file"),
    Flag::value(&["pull"], "WHEN", "fetch the image: missing (the default), always, never"),
    Flag::switch(&["quiet", "q"], "no progress of a pull"),
    Flag::group(BODY),
];

/// Flags that describe the container, from which [`body`] makes it.
pub const BODY: &[Flag] = &[
    Flag::switch(
        &["rm"],
        "remove the container and its anonymous volumes when it ends; with -d, or if this command is killed, the next \
         command on the root or a server removes it at the latest",
    ),
    Flag::switch(&["interactive", "i"], "keep standard input open"),
    Flag::switch(&["tty", "t"], "give it a terminal"),
    Flag::value(&["attach", "a"], "STREAM", "attach to stdin, stdout or stderr only"),
    Flag::value(&["hostname", "h"], "NAME", "host name inside"),
    Flag::value(&["domainname"], "NAME", "domain name inside"),
    Flag::value(&["user", "u"], "USER[:GROUP]", "user of the process, by name or number"),
    Flag::value(&["group-add"], "GROUP", "a further group"),
    Flag::value(&["env", "e"], "NAME[=VALUE]", "an environment variable; without a value: ours"),
    Flag::value(&["env-file"], "FILE", "environment variables from a file, one a line"),
    Flag::value(&["workdir", "w"], "DIR", "working directory"),
    Flag::value(&["entrypoint"], "PROGRAM", "instead of the image's entry point"),
    Flag::value(&["label", "l"], "NAME[=VALUE]", "a label"),
    Flag::value(&["label-file"], "FILE", "labels from a file, one a line"),
    Flag::value(&["stop-signal"], "SIGNAL", "what stop sends first"),
    Flag::switch(&["init"], "a small init is the first process: it passes signals on and reaps"),
    Flag::group(HEALTH),
    Flag::value(&["volume", "v"], "HOST:CONTAINER[:OPTIONS]", "show a directory or file of the host inside"),
    Flag::value(&["mount"], "KEY=VALUE,...", "type=bind|volume|tmpfs|image, source, target, readonly, ..."),
    Flag::value(&["volumes-from"], "CONTAINER[:ro]", "the mounts of another container"),
    Flag::value(&["volume-driver"], "NAME", "local"),
    Flag::value(&["tmpfs"], "DIR[:OPTIONS]", "an empty file system in memory"),
    Flag::value(
        &["device"],
        "HOST[:CONTAINER[:rwm]]",
        "give it a device of the host, or one of CDI: VENDOR/CLASS=NAME",
    ),
    Flag::value(&["device-cgroup-rule"], "RULE", "devices that it may use, such as 'c 10:* rw'"),
    Flag::value(&["storage-opt"], "NAME=VALUE", "size=SIZE: how much it may write to its root file system"),
    Flag::value(&["shm-size"], "SIZE", "size of /dev/shm (default 64m)"),
    Flag::switch(&["read-only"], "its root file system is read-only"),
    Flag::switch(&["privileged"], "all rights of the host"),
    Flag::value(&["cap-add"], "CAPABILITY", "add a capability"),
    Flag::value(&["cap-drop"], "CAPABILITY", "drop a capability"),
    Flag::value(
        &["security-opt"],
        "OPTION",
        "no-new-privileges, seccomp=unconfined, seccomp=FILE, systempaths=unconfined",
    ),
    Flag::value(&["sysctl"], "NAME=VALUE", "a kernel setting of its namespaces"),
    Flag::value(&["ulimit"], "NAME=SOFT[:HARD]", "a resource limit"),
    Flag::value(&["network", "net"], "MODE", "bridge (the default), a network, none, host, container:NAME"),
    Flag::value(&["ip"], "ADDRESS", "its IPv4 address on that network"),
    Flag::value(&["ip6"], "ADDRESS", "its IPv6 address on that network"),
    Flag::value(&["link"], "CONTAINER[:ALIAS]", "know another container by a name"),
    Flag::value(&["link-local-ip"], "ADDRESS", "a further address on that network, of the link alone"),
    Flag::value(&["network-alias", "net-alias"], "NAME", "a further name on that network"),
    Flag::value(&["publish", "p"], "[[ADDRESS:]PORT:]PORT", "publish a port on the host"),
    Flag::switch(&["publish-all", "P"], "publish all exposed ports on free ones of the host"),
    Flag::value(&["expose"], "PORT", "a port that it serves"),
    Flag::value(&["mac-address"], "ADDRESS", "MAC address of its first interface"),
    Flag::value(&["add-host"], "NAME:ADDRESS", "a line of /etc/hosts"),
    Flag::value(&["dns"], "ADDRESS", "a name server"),
    Flag::value(&["dns-search"], "DOMAIN", "a search domain"),
    Flag::value(&["dns-option", "dns-opt"], "OPTION", "a resolver option"),
    Flag::value(&["pid"], "MODE", "process namespace: host, container:NAME"),
    Flag::value(&["ipc"], "MODE", "IPC namespace: host, container:NAME, private, shareable, none"),
    Flag::value(&["userns"], "MODE", "user namespace: host"),
    Flag::value(&["uts"], "MODE", "host name namespace: host"),
    Flag::group(LIMITS),
    Flag::value(&["memory-swappiness"], "N", "0 to 100"),
    Flag::switch(&["oom-kill-disable"], "wait instead of being killed when memory is out"),
    Flag::value(&["oom-score-adj"], "N", "-1000 to 1000"),
    Flag::value(&["blkio-weight-device"], "DEVICE:N", "relative weight for one device"),
    Flag::value(&["device-read-bps"], "DEVICE:RATE", "bytes a second that may be read from a device, such as 1mb"),
    Flag::value(&["device-write-bps"], "DEVICE:RATE", "bytes a second that may be written to it"),
    Flag::value(&["device-read-iops"], "DEVICE:N", "reads a second"),
    Flag::value(&["device-write-iops"], "DEVICE:N", "writes a second"),
    Flag::value(&["cgroup-parent"], "PATH", "control group to put it under"),
    Flag::value(
        &["log-driver"],
        "NAME",
        "json-file, local, none, awslogs, fluentd, gcplogs, gelf, journald, otlp, splunk, syslog",
    ),
    Flag::value(&["log-opt"], "NAME=VALUE", "an option of the log driver"),
    Flag::value(&["lease"], "NAME", "end when nobody holds this lease any more (hold): the label coracle.lease"),
];

fn create(globals: &Globals, parsed: &Parsed) -> Outcome {
    let body = body_of_line(parsed)?;
    if globals.ephemeral {
        return Err(Failure::Usage("--ephemeral: the container would end with this command".into()));
    }
    let engine = globals.engine()?;
    let id = make(&engine, parsed, &body)?;
    emit(&format!("{id}\n"))?;
    Ok(0)
}

fn run(globals: &Globals, parsed: &Parsed) -> Outcome {
    let keys = DetachKeys::parse(parsed.last("detach-keys").unwrap_or_default())?;
    let body = body_of_line(parsed)?;
    let detached = parsed.has("detach");
    if detached && globals.ephemeral {
        return Err(Failure::Usage("conflicting options: --ephemeral and --detach".into()));
    }
    if detached && parsed.some("attach").is_some() {
        return Err(Failure::Usage("conflicting options: --attach and --detach".into()));
    }
    let remove = body.host_config.auto_remove;
    if !detached {
        terminal_is_needed(body.config.tty, body.config.attach_stdin).map_err(usage)?;
    }
    let proxy = passes_signals_on(parsed);
    let signals = if detached { None } else { Some(Signals::block(proxy)?) };
    let engine = globals.engine()?;
    let id = make(&engine, parsed, &body)?;
    let attached = body.config.attach_stdin || body.config.attach_stdout || body.config.attach_stderr;
    let (rows, cols) = if body.config.tty { terminal::size() } else { (0, 0) };
    let io = (!detached && attached).then(|| Io { rows, cols, ..Io::default() });
    let removal = remove.then(|| engine.container_wait_begin(&id, WaitCondition::Removed)).transpose()?;
    let started = match engine.container_start(&id, io, None) {
        Ok(started) => started,
        Err(error) => return Err(start_failed(&engine, &id, removal, error)),
    };
    if !body.config.network_disabled && is_on_networks(&body.host_config.network_mode) {
        for warning in engine.network_warnings().unwrap_or_default() {
            complain!("WARNING: {warning}");
        }
    }
    let Some((session, signals)) = started.session.zip(signals) else {
        emit(&format!("{id}\n"))?;
        return Ok(0);
    };
    let foreground = Foreground {
        engine: &engine,
        signals_to: proxy.then_some(id.as_str()),
        stdin: body.config.attach_stdin,
        ends_stdin: true,
        detach_keys: keys,
    };
    let ended = foreground.carry(session, &signals);
    if let Some(removal) = removal
        && !matches!(ended, Ok(Ended::Detached | Ended::Left(_)))
    {
        if ended.is_err() {
            remove_it(&engine, &id);
        }
        removed(removal);
    }
    ended.map(Ended::code)
}

/// Whether a container of this mode is on networks that a firewall may close.
fn is_on_networks(mode: &str) -> bool {
    !matches!(mode, "none" | "host") && !mode.starts_with("container:")
}

fn make(engine: &Engine, parsed: &Parsed, body: &CreateBody) -> Result<String, Failure> {
    let pull = PullPolicy::of(parsed)?;
    if pull == PullPolicy::Always {
        registry::pull_for_create(engine, &body.config.image, parsed.has("quiet"))?;
    }
    let created = match engine.container_create(parsed.last("name"), body) {
        Err(error) if pull == PullPolicy::Missing && is_absent(engine, &body.config.image, &error) => {
            complain!("Unable to find image '{}' locally", body.config.image);
            registry::pull_for_create(engine, &body.config.image, parsed.has("quiet"))?;
            engine.container_create(parsed.last("name"), body)?
        }
        other => other?,
    };
    for warning in &created.warnings {
        complain!("WARNING: {warning}");
    }
    if let Some(path) = parsed.last("cidfile") {
        write_new(path, &created.id)?;
    }
    Ok(created.id)
}

/// When `run` and `create` fetch the image.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PullPolicy {
    Missing,
    Always,
    Never,
}

impl PullPolicy {
    fn of(parsed: &Parsed) -> Result<PullPolicy, Failure> {
        match parsed.last("pull") {
            None | Some("missing") => Ok(PullPolicy::Missing),
            Some("always") => Ok(PullPolicy::Always),
            Some("never") => Ok(PullPolicy::Never),
            Some(other) => Err(Failure::Usage(format!("invalid value {other:?} for --pull: missing, always or never"))),
        }
    }
}

/// Whether a create failed because its image is not here.
fn is_absent(engine: &Engine, image: &str, error: &coracle::Error) -> bool {
    let absent = |error: &coracle::Error| error.kind() == ErrorKind::NotFound;
    absent(error) && engine.image_inspect(image).err().as_ref().is_some_and(absent)
}

fn write_new(path: &str, text: &str) -> Result<(), Failure> {
    use std::io::Write;
    let file = std::fs::File::create_new(path).and_then(|mut file| file.write_all(text.as_bytes()));
    file.map_err(|e| Failure::Here(format!("{path}: {e}")))
}

/// The exit code of a failed start: the container's own 126 or 127, else 125. With `--rm` the engine removes the
/// container.
fn start_failed(engine: &Engine, id: &str, removal: Option<ContainerWait>, error: coracle::Error) -> Failure {
    complain!("coracle: {error}");
    let code = match removal {
        // A refused start does not end the container, so the engine would not remove it.
        Some(removal) => {
            remove_it(engine, id);
            removed(removal)
        }
        None => engine.container_inspect(id, false).map_or(0, |detail| detail.state.exit_code),
    };
    Failure::Exit(match code {
        126 | 127 => code as u8,
        _ => crate::ENGINE_FAILED,
    })
}

/// Waits for the removal of a container that has ended; returns its exit code.
fn removed(removal: ContainerWait) -> i32 {
    match removal.wait(None) {
        Ok(waited) => {
            if let Some(error) = waited.error {
                complain!("coracle: {}", error.message);
            }
            waited.status_code
        }
        Err(error) => {
            complain!("coracle: {error}");
            0
        }
    }
}

/// Removes a container that may be gone.
fn remove_it(engine: &Engine, id: &str) {
    let how = RemoveContainer { force: true, volumes: true, ..RemoveContainer::default() };
    match engine.container_remove(id, how, None) {
        Err(error) if error.kind() != ErrorKind::NotFound => complain!("coracle: {error}"),
        _ => {}
    }
}

/// The create body of a command line that names the image after the flags.
fn body_of_line(parsed: &Parsed) -> Result<CreateBody, Failure> {
    match parsed.rest.split_first() {
        Some((image, command)) => body(parsed, image, command),
        None => Err(Failure::Usage("an image is needed".into())),
    }
}

/// The create body that the flags describe.
pub fn body(parsed: &Parsed, image: &str, command: &[String]) -> Result<CreateBody, Failure> {
    let config = config(parsed, image, command)?;
    let mut host_config = host_config(parsed).map_err(usage)?;
    host_config.auto_remove = parsed.has("rm");
    if host_config.auto_remove && !matches!(host_config.restart_policy.name.as_str(), "" | "no") {
        return Err(Failure::Usage("conflicting options: --rm and --restart".into()));
    }
    let mut endpoint = crate::networks::endpoint(parsed, "network-alias");
    if matches!(host_config.network_mode.as_str(), "" | "default" | "bridge") {
        // On the default network links belong to the container, not to its endpoint.
        host_config.links = endpoint.as_mut().and_then(|end| end.links.take());
        endpoint = endpoint.filter(|end| *end != EndpointSettings::default());
    }
    let endpoints_config = endpoint.map(|end| (host_config.network_mode.clone(), Some(end))).into_iter().collect();
    let networking_config = NetworkingConfig { endpoints_config };
    Ok(CreateBody { config, host_config, networking_config, ..CreateBody::default() })
}

fn usage(text: String) -> Failure {
    Failure::Usage(text)
}

fn config(parsed: &Parsed, image: &str, command: &[String]) -> Result<ContainerConfig, Failure> {
    let interactive = parsed.has("interactive");
    let streams = parsed.all("attach");
    if let Some(odd) = streams.iter().find(|s| !["stdin", "stdout", "stderr"].contains(&s.to_lowercase().as_str())) {
        return Err(Failure::Usage(format!("invalid value {odd:?} for --attach: stdin, stdout or stderr")));
    }
    let wants = |name: &str, default: bool| {
        let named = streams.iter().any(|s| s.eq_ignore_ascii_case(name));
        if streams.is_empty() { default && !parsed.has("detach") } else { named }
    };
    let attach_stdin = wants("stdin", interactive);
    let published = ports::publish(&parsed.all("publish")).map_err(usage)?;
    Ok(ContainerConfig {
        exposed_ports: ports::expose(&parsed.all("expose"), &published).map_err(usage)?,
        mac_address: text(parsed, "mac-address"),
        hostname: text(parsed, "hostname"),
        domainname: text(parsed, "domainname"),
        user: text(parsed, "user"),
        attach_stdin,
        attach_stdout: wants("stdout", true),
        attach_stderr: wants("stderr", true),
        tty: parsed.has("tty"),
        open_stdin: interactive,
        stdin_once: interactive && attach_stdin,
        env: Some(environment(parsed)?).filter(|env| !env.is_empty()),
        cmd: Some(command.to_vec()).filter(|command| !command.is_empty()),
        image: image.to_owned(),
        working_dir: text(parsed, "workdir"),
        entrypoint: parsed.last("entrypoint").map(|program| vec![program.to_owned()]),
        labels: labels(parsed)?,
        stop_signal: text(parsed, "stop-signal"),
        healthcheck: healthcheck(parsed).map_err(usage)?,
        ..ContainerConfig::default()
    })
}

fn text(parsed: &Parsed, key: &str) -> String {
    parsed.last(key).unwrap_or_default().to_owned()
}

/// Lines of files first, then flags; a name without a value takes ours, or is left out.
fn environment(parsed: &Parsed) -> Result<Vec<String>, Failure> {
    let mut entries = lines_of(parsed, "env-file")?;
    entries.extend(parsed.all("env"));
    let ours = |entry: String| match entry.contains('=') {
        true => Some(entry),
        false => std::env::var(&entry).ok().map(|value| format!("{entry}={value}")),
    };
    Ok(entries.into_iter().filter_map(ours).collect())
}

fn labels(parsed: &Parsed) -> Result<StringMap, Failure> {
    let mut entries = lines_of(parsed, "label-file")?;
    entries.extend(parsed.all("label"));
    entries.extend(parsed.last("lease").map(|name| format!("coracle.lease={name}")));
    Ok(entries.iter().map(|entry| pair(entry)).collect())
}

/// The lines of the files that a flag names, without comments and empty ones.
fn lines_of(parsed: &Parsed, key: &str) -> Result<Vec<String>, Failure> {
    let mut lines = Vec::new();
    for path in parsed.all(key) {
        let text = std::fs::read_to_string(&path).map_err(|e| Failure::Here(format!("{path}: {e}")))?;
        let wanted = text.lines().map(str::trim_start).filter(|line| !line.is_empty() && !line.starts_with('#'));
        lines.extend(wanted.map(str::to_owned));
    }
    Ok(lines)
}

fn pair(entry: &str) -> (String, String) {
    let (name, value) = entry.split_once('=').unwrap_or((entry, ""));
    (name.to_owned(), value.to_owned())
}

/// Entries `NAME=VALUE` of a flag. Errors: the flag and the entry.
fn pairs(parsed: &Parsed, key: &str) -> Result<StringMap, String> {
    let entries = parsed.all(key).into_iter();
    entries
        .map(|e| if e.contains('=') { Ok(pair(&e)) } else { Err(format!("invalid value {e:?} for --{key}")) })
        .collect()
}

/// The health check, if one of the flags concerns it. Errors: `--no-healthcheck` beside another flag, a bad number.
fn healthcheck(parsed: &Parsed) -> Result<Option<Healthcheck>, String> {
    let given = |key: &str| parsed.last(key).is_some();
    let others = ["health-cmd", "health-interval", "health-timeout", "health-retries", "health-start-period"];
    if parsed.has("no-healthcheck") {
        return match others.iter().any(|key| given(key)) {
            true => Err("--no-healthcheck conflicts with --health-* options".into()),
            false => Ok(Some(Healthcheck { test: vec!["NONE".into()], ..Healthcheck::default() })),
        };
    }
    if !others.iter().any(|key| given(key)) {
        return Ok(None);
    }
    let duration = |key: &str| match parsed.last(key) {
        None => Ok(0),
        Some(text) => crate::time::duration(text).ok_or(format!("invalid value {text:?} for --{key}")),
    };
    Ok(Some(Healthcheck {
        test: parsed.last("health-cmd").map(|line| vec!["CMD-SHELL".into(), line.to_owned()]).unwrap_or_default(),
        interval: duration("health-interval")?,
        timeout: duration("health-timeout")?,
        start_period: duration("health-start-period")?,
        retries: parsed.number("health-retries")?.unwrap_or(0),
        ..Healthcheck::default()
    }))
}

fn host_config(parsed: &Parsed) -> Result<HostConfig, String> {
    // Not the engine's word: no path of the kernel's file systems is hidden or protected.
    let bare = parsed.all("security-opt").iter().any(|option| option == OPEN_PATHS);
    Ok(HostConfig {
        mounts: parsed.all("mount").iter().map(|entry| crate::mounts::mount(entry)).collect::<Result<_, _>>()?,
        init: parsed.last("init").map(|value| value == "true"),
        masked_paths: bare.then(Vec::new),
        readonly_paths: bare.then(Vec::new),
        volumes_from: parsed.some("volumes-from"),
        volume_driver: text(parsed, "volume-driver"),
        storage_opt: pairs(parsed, "storage-opt")?,
        userns_mode: text(parsed, "userns"),
        binds: parsed.some("volume"),
        log_config: LogConfig { kind: text(parsed, "log-driver"), config: pairs(parsed, "log-opt")? },
        network_mode: parsed.last("network").unwrap_or("default").to_owned(),
        port_bindings: ports::publish(&parsed.all("publish"))?,
        publish_all_ports: parsed.has("publish-all"),
        restart_policy: restart_policy(parsed.last("restart").unwrap_or_default())?,
        cap_add: parsed.some("cap-add"),
        cap_drop: parsed.some("cap-drop"),
        dns: parsed.some("dns"),
        dns_options: parsed.some("dns-option"),
        dns_search: parsed.some("dns-search"),
        extra_hosts: parsed.some("add-host"),
        group_add: parsed.some("group-add"),
        ipc_mode: text(parsed, "ipc"),
        oom_score_adj: parsed.number("oom-score-adj")?.unwrap_or(0),
        pid_mode: text(parsed, "pid"),
        privileged: parsed.has("privileged"),
        readonly_rootfs: parsed.has("read-only"),
        security_opt: security_options(parsed)?,
        tmpfs: parsed.all("tmpfs").iter().map(|entry| tmpfs(entry)).collect(),
        uts_mode: text(parsed, "uts"),
        shm_size: amount(parsed, "shm-size")?,
        sysctls: pairs(parsed, "sysctl")?,
        resources: resources(parsed)?,
        ..HostConfig::default()
    })
}

pub fn resources(parsed: &Parsed) -> Result<Resources, String> {
    let (period, quota) = (parsed.number("cpu-period")?.unwrap_or(0), parsed.number("cpu-quota")?.unwrap_or(0));
    let cpus = parsed.number::<f64>("cpus")?;
    if cpus.is_some() && (period != 0 || quota != 0) {
        return Err("conflicting options: --cpus and --cpu-period or --cpu-quota".into());
    }
    Ok(Resources {
        cpu_shares: parsed.number("cpu-shares")?.unwrap_or(0),
        memory: amount(parsed, "memory")?.unwrap_or(0),
        cgroup_parent: text(parsed, "cgroup-parent"),
        blkio_weight: parsed.number("blkio-weight")?.unwrap_or(0),
        cpu_period: period,
        cpu_quota: quota,
        nano_cpus: cpus.map_or(0, |cpus| (cpus * 1e9) as i64),
        kernel_memory: amount(parsed, "kernel-memory")?,
        blkio_weight_device: weights(parsed)?,
        blkio_device_read_bps: rates(parsed, "device-read-bps", bytes)?,
        blkio_device_write_bps: rates(parsed, "device-write-bps", bytes)?,
        blkio_device_read_iops: rates(parsed, "device-read-iops", |text| text.parse().ok())?,
        blkio_device_write_iops: rates(parsed, "device-write-iops", |text| text.parse().ok())?,
        device_cgroup_rules: parsed.all("device-cgroup-rule"),
        cpuset_cpus: text(parsed, "cpuset-cpus"),
        cpuset_mems: text(parsed, "cpuset-mems"),
        devices: parsed.some("device").and_then(|all| {
            let devices: Vec<_> = all.iter().filter(|entry| !is_of_cdi(entry)).map(|entry| device(entry)).collect();
            (!devices.is_empty()).then_some(devices)
        }),
        device_requests: requests(&parsed.some("device").unwrap_or_default()),
        memory_reservation: amount(parsed, "memory-reservation")?.unwrap_or(0),
        memory_swap: amount(parsed, "memory-swap")?.unwrap_or(0),
        memory_swappiness: parsed.number("memory-swappiness")?,
        oom_kill_disable: parsed.has("oom-kill-disable").then_some(true),
        pids_limit: parsed.number("pids-limit")?.unwrap_or(0),
        ulimits: parsed.some("ulimit").map(|all| all.iter().map(|entry| ulimit(entry)).collect()).transpose()?,
        ..Resources::default()
    })
}

/// `DEVICE:RATE` of a flag.
fn rates(parsed: &Parsed, key: &str, read: fn(&str) -> Option<i64>) -> Result<Option<Vec<ThrottleDevice>>, String> {
    let one = |entry: &String| {
        let rate = entry.rsplit_once(':').and_then(|(path, rate)| Some((path, u64::try_from(read(rate)?).ok()?)));
        let (path, rate) = rate.ok_or(format!("invalid value {entry:?} for --{key}: DEVICE:RATE"))?;
        Ok(ThrottleDevice { path: path.to_owned(), rate })
    };
    parsed.some(key).map(|all| all.iter().map(one).collect()).transpose()
}

fn weights(parsed: &Parsed) -> Result<Option<Vec<WeightDevice>>, String> {
    let one = |entry: &String| {
        let weight = entry.rsplit_once(':').and_then(|(path, weight)| Some((path, weight.parse().ok()?)));
        let (path, weight) = weight.ok_or(format!("invalid value {entry:?} for --blkio-weight-device: DEVICE:N"))?;
        Ok(WeightDevice { path: path.to_owned(), weight })
    };
    parsed.some("blkio-weight-device").map(|all| all.iter().map(one).collect()).transpose()
}

/// A size such as `64m`.
fn amount(parsed: &Parsed, key: &str) -> Result<Option<i64>, String> {
    parsed.last(key).map(|text| bytes(text).ok_or(format!("invalid size {text:?} for --{key}"))).transpose()
}

pub fn restart_policy(text: &str) -> Result<RestartPolicy, String> {
    let (name, count) = text.split_once(':').unwrap_or((text, "0"));
    let count =
        count.parse().map_err(|_| format!("invalid value {text:?} for --restart: the count is not a number"))?;
    Ok(RestartPolicy { name: name.to_owned(), maximum_retry_count: count })
}

/// The word of `--security-opt` that is about paths.
const OPEN_PATHS: &str = "systempaths=unconfined";

/// A seccomp profile is named by its file; the engine takes its text.
fn security_options(parsed: &Parsed) -> Result<Option<Vec<String>>, String> {
    let text = |option: String| -> Result<String, String> {
        match option.strip_prefix("seccomp=") {
            Some(path) if path != "unconfined" && !path.starts_with('{') => {
                let profile = std::fs::read_to_string(path).map_err(|e| format!("--security-opt {option}: {e}"))?;
                Ok(format!("seccomp={profile}"))
            }
            _ => Ok(option),
        }
    };
    let options = parsed.all("security-opt").into_iter().filter(|option| option != OPEN_PATHS);
    let options: Vec<String> = options.map(text).collect::<Result<_, _>>()?;
    Ok((!options.is_empty()).then_some(options))
}

fn tmpfs(entry: &str) -> (String, String) {
    let (path, options) = entry.split_once(':').unwrap_or((entry, ""));
    (path.to_owned(), options.to_owned())
}

/// `HOST[:CONTAINER[:rwm]]`; also `HOST:rwm`.
/// Whether a device has the form of CDI, which no path of the host has.
fn is_of_cdi(entry: &str) -> bool {
    !entry.starts_with('/') && entry.split_once('=').is_some_and(|(kind, _)| kind.contains('/'))
}

fn requests(all: &[String]) -> Vec<DeviceRequest> {
    let device_ids: Vec<String> = all.iter().filter(|entry| is_of_cdi(entry)).cloned().collect();
    match device_ids.is_empty() {
        true => Vec::new(),
        false => vec![DeviceRequest { driver: "cdi".into(), device_ids, ..DeviceRequest::default() }],
    }
}

fn device(entry: &str) -> DeviceMapping {
    let is_rights = |word: &str| !word.is_empty() && word.chars().all(|c| "rwm".contains(c));
    let words: Vec<&str> = entry.split(':').collect();
    let (inside, rights) = match words[1..] {
        [] => (words[0], "rwm"),
        [rights] if is_rights(rights) => (words[0], rights),
        [inside] => (inside, "rwm"),
        [inside, rights, ..] => (inside, rights),
    };
    DeviceMapping {
        path_on_host: words[0].to_owned(),
        path_in_container: inside.to_owned(),
        cgroup_permissions: rights.to_owned(),
    }
}

fn ulimit(entry: &str) -> Result<Ulimit, String> {
    let bad = || format!("invalid value {entry:?} for --ulimit: NAME=SOFT[:HARD]");
    let (name, limits) = entry.split_once('=').ok_or_else(bad)?;
    let (soft, hard) = limits.split_once(':').unwrap_or((limits, limits));
    let number = |text: &str| text.parse::<i64>().map_err(|_| bad());
    Ok(Ulimit { name: name.to_owned(), soft: number(soft)?, hard: number(hard)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::parse;

    fn of(line: &[&str]) -> Result<CreateBody, String> {
        let words = line.iter().map(|w| w.to_string()).collect();
        body_of_line(&parse(&ENTRIES[0].command, words)?).map_err(|e| e.to_string())
    }

    #[test]
    fn flags_become_a_body() {
        let body = of(&[
            "-it",
            "-m",
            "64m",
            "--cpus",
            "1.5",
            "--restart=on-failure:3",
            "--ulimit",
            "nofile=10:20",
            "--device",
            "/dev/fuse:r",
            "--tmpfs",
            "/t:size=1m",
            "-v",
            "/a:/b:ro",
            "-e",
            "A=1",
            "-l",
            "k",
            "--network",
            "none",
            "box",
            "ls",
            "-l",
        ])
        .expect("parses");
        let (config, host) = (body.config, body.host_config);
        assert_eq!(config.cmd, Some(vec!["ls".into(), "-l".into()]));
        assert!(config.tty && config.open_stdin && config.stdin_once && config.attach_stdin && config.attach_stderr);
        assert_eq!(config.env, Some(vec!["A=1".into()]));
        assert_eq!(config.labels["k"], "");
        assert_eq!(
            (host.resources.memory, host.resources.cpu_quota, host.resources.nano_cpus),
            (64 << 20, 0, 1_500_000_000)
        );
        assert_eq!(host.restart_policy.maximum_retry_count, 3);
        assert_eq!(host.resources.ulimits.as_deref().map(|u| (u[0].soft, u[0].hard)), Some((10, 20)));
        let device = &host.resources.devices.as_deref().expect("a device")[0];
        assert_eq!((device.path_in_container.as_str(), device.cgroup_permissions.as_str()), ("/dev/fuse", "r"));
        assert_eq!(host.tmpfs["/t"], "size=1m");
        assert_eq!(host.network_mode, "none");
    }

    #[test]
    fn further_flags_become_a_body() {
        let body = of(&[
            "--init",
            "--mount",
            "type=tmpfs,target=/t",
            "--health-cmd",
            "true",
            "--health-interval=1m30s",
            "--health-retries",
            "2",
            "--device-cgroup-rule",
            "c 1:3 r",
            "--device-read-bps",
            "/dev/sda:1mb",
            "--device-write-iops",
            "/dev/sda:50",
            "--blkio-weight-device",
            "/dev/sda:300",
            "--security-opt",
            "systempaths=unconfined",
            "--volumes-from",
            "other:ro",
            "--storage-opt",
            "size=1G",
            "--userns",
            "host",
            "box",
        ])
        .expect("parses");
        let (health, host) = (body.config.healthcheck.expect("a check"), body.host_config);
        assert_eq!(
            (health.test.join(" "), health.interval, health.retries),
            ("CMD-SHELL true".into(), 90_000_000_000, 2)
        );
        assert_eq!((host.init, host.mounts.len(), host.userns_mode.as_str()), (Some(true), 1, "host"));
        assert_eq!((host.masked_paths, host.readonly_paths, host.security_opt), (Some(vec![]), Some(vec![]), None));
        let resources = host.resources;
        assert_eq!(resources.device_cgroup_rules, ["c 1:3 r"]);
        assert_eq!(resources.blkio_device_read_bps.expect("a rate")[0].rate, 1 << 20);
        assert_eq!(resources.blkio_device_write_iops.expect("a rate")[0].rate, 50);
        assert_eq!(resources.blkio_weight_device.expect("a weight")[0].weight, 300);
        assert_eq!((host.storage_opt["size"].as_str(), host.volumes_from), ("1G", Some(vec!["other:ro".into()])));
        let none = of(&["--no-healthcheck", "box"]).expect("parses").config.healthcheck.expect("a check");
        assert_eq!(none.test, ["NONE"]);
    }

    #[test]
    fn detached_ones_attach_nothing() {
        let config = of(&["-d", "-i", "box"]).expect("parses").config;
        assert!(!config.attach_stdin && !config.attach_stdout && config.open_stdin && !config.stdin_once);
        let config = of(&["-a", "stderr", "box"]).expect("parses").config;
        assert!(!config.attach_stdout && config.attach_stderr);
    }

    #[test]
    fn mistakes_name_their_flag() {
        for (line, text) in [
            (&["--rm"][..], "an image is needed"),
            (&["-m", "lots", "x"], "invalid size \"lots\" for --memory"),
            (&["--ulimit", "nofile", "x"], "for --ulimit"),
            (&["--restart", "on-failure:x", "x"], "for --restart"),
            (&["-a", "sideways", "x"], "for --attach"),
            (&["--cpus", "1", "--cpu-quota", "5000", "x"], "conflicting options"),
            (&["--log-opt", "novalue", "x"], "for --log-opt"),
            (&["--no-healthcheck", "--health-cmd", "x", "x"], "--no-healthcheck conflicts"),
            (&["--health-timeout", "soon", "x"], "for --health-timeout"),
            (&["--device-read-bps", "/dev/sda", "x"], "for --device-read-bps"),
            (&["--mount", "type=bind", "x"], "for --mount"),
        ] {
            let error = of(line).expect_err("a mistake");
            assert!(error.contains(text), "{error}");
        }
    }
}
