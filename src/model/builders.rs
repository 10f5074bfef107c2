//! Requests made step by step, for the members that most programs set. All members stay public.

use super::*;

/// Appends to a list that may be absent.
fn push(list: &mut Option<Vec<String>>, text: String) {
    list.get_or_insert_default().push(text);
}

fn words(all: impl IntoIterator<Item = impl Into<String>>) -> Option<Vec<String>> {
    Some(all.into_iter().map(Into::into).collect())
}

/// A request is made from an image, and then by one method for each further setting.
///
/// ```
/// use coracle::model::CreateBody;
///
/// let request = CreateBody::of("nginx")
///     .env("TZ", "UTC")
///     .bind("/srv/site:/site:ro")
///     .publish("80/tcp", "127.0.0.1", "8080")
///     .memory(64 << 20)
///     .restart("on-failure");
/// assert_eq!(request.host_config.resources.memory, 67_108_864);
/// ```
impl CreateBody {
    /// A container of an image, with the image's own settings.
    pub fn of(image: impl Into<String>) -> CreateBody {
        CreateBody { config: ContainerConfig { image: image.into(), ..Default::default() }, ..Default::default() }
    }

    /// The program and its arguments.
    pub fn cmd(mut self, all: impl IntoIterator<Item = impl Into<String>>) -> CreateBody {
        self.config.cmd = words(all);
        self
    }

    /// The words before the program and its arguments; an empty list: none, also if the image has an entrypoint.
    pub fn entrypoint(mut self, all: impl IntoIterator<Item = impl Into<String>>) -> CreateBody {
        self.config.entrypoint = words(all);
        self
    }

    /// One further variable of the environment.
    pub fn env(mut self, name: &str, value: &str) -> CreateBody {
        push(&mut self.config.env, format!("{name}={value}"));
        self
    }

    /// The directory in which the program starts.
    pub fn working_dir(mut self, path: impl Into<String>) -> CreateBody {
        self.config.working_dir = path.into();
        self
    }

    /// The user, and maybe the group: `name`, `1000`, `1000:1000`.
    pub fn user(mut self, user: impl Into<String>) -> CreateBody {
        self.config.user = user.into();
        self
    }

    /// One further label.
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> CreateBody {
        self.config.labels.insert(name.into(), value.into());
        self
    }

    /// A terminal.
    pub fn tty(mut self) -> CreateBody {
        self.config.tty = true;
        self
    }

    /// Standard input stays open, so that programs can write to it.
    pub fn stdin(mut self) -> CreateBody {
        self.config.open_stdin = true;
        self
    }

    /// One further bind: `/host/path:/container/path[:ro]`, or a volume's name in the host path's place.
    pub fn bind(mut self, bind: impl Into<String>) -> CreateBody {
        push(&mut self.host_config.binds, bind.into());
        self
    }

    /// Publishes a port of the container, such as `80/tcp`, at an address (empty: all) and a port (empty: a free one) of the host.
    pub fn publish(mut self, port: &str, address: &str, host_port: &str) -> CreateBody {
        self.config.exposed_ports.insert(port);
        let given = self.host_config.port_bindings.iter().map(|(name, bindings)| {
            let rows = bindings.into_iter().flat_map(Bindings::iter);
            (name.to_string(), rows.map(|(ip, port)| (ip.to_string(), port.to_string())).collect::<Vec<_>>())
        });
        let mut rows: Vec<(String, Option<(String, String)>)> =
            given.flat_map(|(name, rows)| rows.into_iter().map(move |row| (name.clone(), Some(row)))).collect();
        rows.push((port.into(), Some((address.into(), host_port.into()))));
        self.host_config.port_bindings = PortMap::of_rows(rows);
        self
    }

    /// The most memory, in bytes.
    pub fn memory(mut self, bytes: i64) -> CreateBody {
        self.host_config.resources.memory = bytes;
        self
    }

    /// The most processors, in billionths of one.
    pub fn nano_cpus(mut self, nano_cpus: i64) -> CreateBody {
        self.host_config.resources.nano_cpus = nano_cpus;
        self
    }

    /// The network: `none`, `bridge`, `host`, a network's name, `container:NAME`.
    pub fn network(mut self, mode: impl Into<String>) -> CreateBody {
        self.host_config.network_mode = mode.into();
        self
    }

    /// The restart policy: `no`, `always`, `on-failure`, `unless-stopped`.
    pub fn restart(mut self, policy: impl Into<String>) -> CreateBody {
        self.host_config.restart_policy.name = policy.into();
        self
    }

    /// The container is removed at its end.
    pub fn auto_remove(mut self) -> CreateBody {
        self.host_config.auto_remove = true;
        self
    }
}

/// ```
/// use coracle::model::ExecConfig;
///
/// let config = ExecConfig::of(["ls", "-l"]).user("1000").env("TZ", "UTC");
/// assert!(config.attach_stdout && config.attach_stderr && !config.attach_stdin);
/// ```
impl ExecConfig {
    /// A program whose output is read.
    pub fn of(all: impl IntoIterator<Item = impl Into<String>>) -> ExecConfig {
        ExecConfig { cmd: words(all), attach_stdout: true, attach_stderr: true, ..Default::default() }
    }

    /// One further variable of the environment.
    pub fn env(mut self, name: &str, value: &str) -> ExecConfig {
        push(&mut self.env, format!("{name}={value}"));
        self
    }

    /// The user, and maybe the group.
    pub fn user(mut self, user: impl Into<String>) -> ExecConfig {
        self.user = user.into();
        self
    }

    /// The directory in which the program starts.
    pub fn working_dir(mut self, path: impl Into<String>) -> ExecConfig {
        self.working_dir = path.into();
        self
    }

    /// A terminal.
    pub fn tty(mut self) -> ExecConfig {
        self.tty = true;
        self
    }

    /// The program reads from the session, too.
    pub fn stdin(mut self) -> ExecConfig {
        self.attach_stdin = true;
        self
    }
}

/// ```
/// use coracle::model::LogQuery;
///
/// let query = LogQuery::default().followed().last(10);
/// assert_eq!((query.follow, query.tail), (true, Some(10)));
/// ```
impl LogQuery {
    /// The stream goes on with new lines until the container ends.
    pub fn followed(mut self) -> LogQuery {
        self.follow = true;
        self
    }

    /// Only so many of the last lines.
    pub fn last(mut self, lines: u64) -> LogQuery {
        self.tail = Some(lines);
        self
    }
}

/// ```
/// use coracle::model::ListContainers;
///
/// let query = ListContainers::default().stopped_too().filter("label", "site=north");
/// assert!(query.all && query.filters["label"] == ["site=north"]);
/// ```
impl ListContainers {
    /// Containers that do not run, too.
    pub fn stopped_too(mut self) -> ListContainers {
        self.all = true;
        self
    }

    /// One further filter.
    pub fn filter(mut self, name: impl Into<String>, value: impl Into<String>) -> ListContainers {
        self.filters.entry(name.into()).or_default().push(value.into());
        self
    }
}

/// ```
/// use coracle::model::PullImage;
///
/// let pull = PullImage::of("busybox:1.36").platform("linux/arm64".parse()?);
/// assert_eq!(pull.name, "busybox:1.36");
/// # Ok::<(), coracle::Error>(())
/// ```
impl PullImage {
    /// An image, by its name.
    pub fn of(name: impl Into<String>) -> PullImage {
        PullImage { name: name.into(), ..PullImage::default() }
    }

    /// Credentials for its registry.
    pub fn auth(mut self, auth: RegistryAuth) -> PullImage {
        self.auth = auth;
        self
    }

    /// The platform whose image is meant.
    pub fn platform(mut self, platform: ImagePlatform) -> PullImage {
        self.platform = Some(platform);
        self
    }
}

/// ```
/// use coracle::model::PushImage;
///
/// assert_eq!(PushImage::of("registry.example/site:1").name, "registry.example/site:1");
/// ```
impl PushImage {
    /// An image, by its name.
    pub fn of(name: impl Into<String>) -> PushImage {
        PushImage { name: name.into(), ..PushImage::default() }
    }

    /// Credentials for its registry.
    pub fn auth(mut self, auth: RegistryAuth) -> PushImage {
        self.auth = auth;
        self
    }
}
