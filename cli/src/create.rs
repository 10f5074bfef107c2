//! `create` and `run`: a container from the flags of the command line.

use crate::args::{Command, Flag, Parsed};
use crate::format::bytes;
use crate::ports;
use crate::session::{Ended, Foreground, Signals};
use crate::{Entry, Failure, Globals, Outcome, emit, terminal};
use coracle::model::*;
use coracle::{Engine, ErrorKind, Io};

pub const ENTRIES: &[Entry] = &[
    Entry {
        command: Command {
            name: "run",
            usage: "[FLAGS] IMAGE [COMMAND] [ARG...]",
            about: "Run a command in a new container",
            flags: FLAGS,
            stops_at_first: true,
        },
        run,
    },
    Entry {
        command: Command {
            name: "create",
            usage: "[FLAGS] IMAGE [COMMAND] [ARG...]",
            about: "Make a container without starting it",
            flags: FLAGS,
            stops_at_first: true,
        },
        run: create,
    },
];

const FLAGS: &[Flag] = &[
    Flag::switch(&["rm"], "remove the container when it ends (run, not detached)"),
    Flag::switch(&["interactive", "i"], "keep standard input open"),
    Flag::switch(&["tty", "t"], "give it a terminal"),
    Flag::switch(&["detach", "d"], "do not wait: print its id (run)"),
    Flag::value(&["attach", "a"], "STREAM", "attach to stdin, stdout or stderr only (run)"),
    Flag::value(&["detach-keys"], "KEYS", "what leaves it running (default ctrl-p,ctrl-q)"),
    Flag::switch(&["no-sig-proxy"], "do not pass signals on to it (run)"),
    Flag::value(&["name"], "NAME", "its name"),
    Flag::value(&["hostname", "h"], "NAME", "host name inside"),
    Flag::value(&["domainname"], "NAME", "domain name inside"),
    Flag::value(&["user", "u"], "USER[:GROUP]", "who the process is, by name or number"),
    Flag::value(&["group-add"], "GROUP", "a further group"),
    Flag::value(&["env", "e"], "NAME[=VALUE]", "an environment variable; without a value: ours"),
    Flag::value(&["env-file"], "FILE", "environment variables from a file, one a line"),
    Flag::value(&["workdir", "w"], "DIR", "working directory"),
    Flag::value(&["entrypoint"], "PROGRAM", "instead of the image's entry point"),
    Flag::value(&["label", "l"], "NAME[=VALUE]", "a label"),
    Flag::value(&["label-file"], "FILE", "labels from a file, one a line"),
    Flag::value(&["stop-signal"], "SIGNAL", "what stop sends first"),
    Flag::value(&["restart"], "POLICY", "no, always, unless-stopped, on-failure[:N]"),
    Flag::value(&["volume", "v"], "HOST:CONTAINER[:OPTIONS]", "show a directory or file of the host inside"),
    Flag::value(&["tmpfs"], "DIR[:OPTIONS]", "an empty file system in memory"),
    Flag::value(&["device"], "HOST[:CONTAINER[:rwm]]", "give it a device of the host"),
    Flag::value(&["shm-size"], "SIZE", "size of /dev/shm (default 64m)"),
    Flag::switch(&["read-only"], "its root file system is read-only"),
    Flag::switch(&["privileged"], "all rights of the host"),
    Flag::value(&["cap-add"], "CAPABILITY", "add a capability"),
    Flag::value(&["cap-drop"], "CAPABILITY", "drop a capability"),
    Flag::value(&["security-opt"], "OPTION", "no-new-privileges, seccomp=unconfined, seccomp=FILE"),
    Flag::value(&["sysctl"], "NAME=VALUE", "a kernel setting of its namespaces"),
    Flag::value(&["ulimit"], "NAME=SOFT[:HARD]", "a resource limit"),
    Flag::value(&["network", "net"], "MODE", "bridge (the default), a network, none, host, container:NAME"),
    Flag::value(&["ip"], "ADDRESS", "its IPv4 address on that network"),
    Flag::value(&["ip6"], "ADDRESS", "its IPv6 address on that network"),
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
    Flag::value(&["ipc"], "MODE", "IPC namespace: host, container:NAME"),
    Flag::value(&["uts"], "MODE", "host name namespace: host"),
    Flag::value(&["memory", "m"], "SIZE", "memory limit"),
    Flag::value(&["memory-swap"], "SIZE", "memory and swap limit; -1: no swap limit"),
    Flag::value(&["memory-reservation"], "SIZE", "soft memory limit"),
    Flag::value(&["memory-swappiness"], "N", "0 to 100"),
    Flag::switch(&["oom-kill-disable"], "wait instead of being killed when memory is out"),
    Flag::value(&["oom-score-adj"], "N", "-1000 to 1000"),
    Flag::value(&["cpus"], "N", "processors' worth of time, with fractions"),
    Flag::value(&["cpu-shares", "c"], "N", "relative weight"),
    Flag::value(&["cpu-period"], "MICROSECONDS", "period of the quota"),
    Flag::value(&["cpu-quota"], "MICROSECONDS", "time in each period"),
    Flag::value(&["cpuset-cpus"], "LIST", "processors it may run on"),
    Flag::value(&["cpuset-mems"], "LIST", "memory nodes it may use"),
    Flag::value(&["blkio-weight"], "N", "relative block I/O weight, 10 to 1000"),
    Flag::value(&["pids-limit"], "N", "how many processes"),
    Flag::value(&["cgroup-parent"], "PATH", "control group to put it under"),
    Flag::value(&["log-driver"], "NAME", "json-file, local, none"),
    Flag::value(&["log-opt"], "NAME=VALUE", "an option of the log driver"),
    Flag::value(&["cidfile"], "FILE", "write its id to a new file"),
];

fn create(globals: &Globals, parsed: &Parsed) -> Outcome {
    let body = body(parsed)?;
    let engine = globals.engine()?;
    let id = make(&engine, parsed, &body)?;
    emit(&format!("{id}\n"))?;
    Ok(0)
}

fn run(globals: &Globals, parsed: &Parsed) -> Outcome {
    let keys = DetachKeys::parse(parsed.last("detach-keys").unwrap_or_default())?;
    let body = body(parsed)?;
    let detached = parsed.has("detach");
    if detached && parsed.some("attach").is_some() {
        return Err(Failure::Usage("conflicting options: --attach and --detach".into()));
    }
    let remove = parsed.has("rm");
    if detached && remove {
        // Nobody would be there to remove it.
        return Err(Failure::Usage("conflicting options: --rm and --detach".into()));
    }
    if remove && !matches!(body.host_config.restart_policy.name.as_str(), "" | "no") {
        return Err(Failure::Usage("conflicting options: --rm and --restart".into()));
    }
    let proxy = !parsed.has("no-sig-proxy");
    let signals = if detached { None } else { Some(Signals::block(proxy)?) };
    let engine = globals.engine()?;
    let id = make(&engine, parsed, &body)?;
    let attached = body.config.attach_stdin || body.config.attach_stdout || body.config.attach_stderr;
    let (rows, cols) = if body.config.tty { terminal::size() } else { (0, 0) };
    let io = (!detached && attached).then(|| Io { rows, cols, ..Io::default() });
    let started = match engine.container_start(&id, io, None) {
        Ok(started) => started,
        Err(error) => return Err(start_failed(&engine, &id, remove, error)),
    };
    let Some((session, signals)) = started.session.zip(signals) else {
        emit(&format!("{id}\n"))?;
        return Ok(0);
    };
    let foreground = Foreground {
        engine: &engine,
        signals_to: proxy.then_some(id.as_str()),
        stdin: body.config.attach_stdin,
        detach_keys: keys,
    };
    let ended = foreground.carry(session, &signals);
    if remove && !matches!(ended, Ok(Ended::Detached)) {
        remove_it(&engine, &id);
    }
    ended.map(Ended::code)
}

fn make(engine: &Engine, parsed: &Parsed, body: &CreateBody) -> Result<String, Failure> {
    let created = engine.container_create(parsed.last("name"), body)?;
    for warning in &created.warnings {
        eprintln!("WARNING: {warning}");
    }
    if let Some(path) = parsed.last("cidfile") {
        write_new(path, &created.id)?;
    }
    Ok(created.id)
}

fn write_new(path: &str, text: &str) -> Result<(), Failure> {
    use std::io::Write;
    let file = std::fs::File::create_new(path).and_then(|mut file| file.write_all(text.as_bytes()));
    file.map_err(|e| Failure::Here(format!("{path}: {e}")))
}

/// A start that failed: the container's own 126 or 127, else 125; with `--rm` the container goes.
fn start_failed(engine: &Engine, id: &str, remove: bool, error: coracle::Error) -> Failure {
    eprintln!("coracle: {error}");
    let code = engine.container_inspect(id, false).map_or(0, |detail| detail.state.exit_code);
    if remove {
        remove_it(engine, id);
    }
    Failure::Exit(match code {
        126 | 127 => code as u8,
        _ => crate::ENGINE_FAILED,
    })
}

/// What `--rm` does in the end: the engine has no such option in this API version.
fn remove_it(engine: &Engine, id: &str) {
    let how = RemoveContainer { force: true, volumes: true, ..RemoveContainer::default() };
    match engine.container_remove(id, how, None) {
        Err(error) if error.kind() != ErrorKind::NotFound => eprintln!("coracle: {error}"),
        _ => {}
    }
}

/// The create body that the flags describe.
fn body(parsed: &Parsed) -> Result<CreateBody, Failure> {
    let Some((image, command)) = parsed.rest.split_first() else {
        return Err(Failure::Usage("an image is needed".into()));
    };
    let config = config(parsed, image, command)?;
    let host_config = host_config(parsed).map_err(usage)?;
    let endpoint = crate::networks::endpoint(parsed, "network-alias");
    let endpoints_config = endpoint.map(|end| (host_config.network_mode.clone(), Some(end))).into_iter().collect();
    Ok(CreateBody { config, host_config, networking_config: NetworkingConfig { endpoints_config } })
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

fn host_config(parsed: &Parsed) -> Result<HostConfig, String> {
    Ok(HostConfig {
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
    let (mut period, mut quota) = (parsed.number("cpu-period")?.unwrap_or(0), parsed.number("cpu-quota")?.unwrap_or(0));
    if let Some(cpus) = parsed.number::<f64>("cpus")? {
        if period != 0 || quota != 0 {
            return Err("conflicting options: --cpus and --cpu-period or --cpu-quota".into());
        }
        (period, quota) = (100_000, (cpus * 100_000.0) as i64);
    }
    Ok(Resources {
        cpu_shares: parsed.number("cpu-shares")?.unwrap_or(0),
        memory: amount(parsed, "memory")?.unwrap_or(0),
        cgroup_parent: text(parsed, "cgroup-parent"),
        blkio_weight: parsed.number("blkio-weight")?.unwrap_or(0),
        cpu_period: period,
        cpu_quota: quota,
        cpuset_cpus: text(parsed, "cpuset-cpus"),
        cpuset_mems: text(parsed, "cpuset-mems"),
        devices: parsed.some("device").map(|all| all.iter().map(|entry| device(entry)).collect()),
        memory_reservation: amount(parsed, "memory-reservation")?.unwrap_or(0),
        memory_swap: amount(parsed, "memory-swap")?.unwrap_or(0),
        memory_swappiness: parsed.number("memory-swappiness")?,
        oom_kill_disable: parsed.has("oom-kill-disable").then_some(true),
        pids_limit: parsed.number("pids-limit")?.unwrap_or(0),
        ulimits: parsed.some("ulimit").map(|all| all.iter().map(|entry| ulimit(entry)).collect()).transpose()?,
        ..Resources::default()
    })
}

/// A size such as `64m`.
fn amount(parsed: &Parsed, key: &str) -> Result<Option<i64>, String> {
    parsed.last(key).map(|text| bytes(text).ok_or(format!("invalid size {text:?} for --{key}"))).transpose()
}

pub fn restart_policy(text: &str) -> Result<RestartPolicy, String> {
    let (name, count) = text.split_once(':').unwrap_or((text, "0"));
    let count = count.parse().map_err(|_| format!("invalid value {text:?} for --restart: the count is no number"))?;
    Ok(RestartPolicy { name: name.to_owned(), maximum_retry_count: count })
}

/// A seccomp profile is named by its file; the engine takes its text.
fn security_options(parsed: &Parsed) -> Result<Option<Vec<String>>, String> {
    let text = |option: String| match option.strip_prefix("seccomp=") {
        Some(path) if path != "unconfined" && !path.starts_with('{') => {
            let profile = std::fs::read_to_string(path).map_err(|e| format!("--security-opt {option}: {e}"))?;
            Ok(format!("seccomp={profile}"))
        }
        _ => Ok(option),
    };
    parsed.some("security-opt").map(|all| all.into_iter().map(text).collect()).transpose()
}

fn tmpfs(entry: &str) -> (String, String) {
    let (path, options) = entry.split_once(':').unwrap_or((entry, ""));
    (path.to_owned(), options.to_owned())
}

/// `HOST[:CONTAINER[:rwm]]`; also `HOST:rwm`.
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
        body(&parse(&ENTRIES[0].command, words)?).map_err(|e| e.to_string())
    }

    #[test]
    fn flags_become_a_body() {
        let body = of(&[
            "-it",
            "--rm",
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
            (host.resources.memory, host.resources.cpu_quota, host.resources.cpu_period),
            (64 << 20, 150_000, 100_000)
        );
        assert_eq!(host.restart_policy.maximum_retry_count, 3);
        assert_eq!(host.resources.ulimits.as_deref().map(|u| (u[0].soft, u[0].hard)), Some((10, 20)));
        let device = &host.resources.devices.as_deref().expect("a device")[0];
        assert_eq!((device.path_in_container.as_str(), device.cgroup_permissions.as_str()), ("/dev/fuse", "r"));
        assert_eq!(host.tmpfs["/t"], "size=1m");
        assert_eq!(host.network_mode, "none");
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
        ] {
            let error = of(line).expect_err("a mistake");
            assert!(error.contains(text), "{error}");
        }
    }
}
