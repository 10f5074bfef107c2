//! The engine handle: open, reference, close.

use crate::arg::{self, Out};
use crate::entry::{Area, catch, enter, enter_in};
use crate::failure::{Failure, Outcome};
use crate::handle::{self, Object};
use crate::types::*;
use coracle_http::Router;
use engine::model::{Mirror, Proxies, StringMap};
use engine::{Durability, Engine, ErrorKind, Options, Outbox, ShipLogs, UsernsRemap};
use libc::c_char;
use serde::Deserialize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// The object behind a `coracle *`.
#[derive(Clone)]
pub(crate) struct Root(Arc<Shared>);

struct Shared {
    engine: Engine,
    /// Members of documents that are not known are passed over.
    lenient: bool,
    /// Made when the first request comes.
    router: OnceLock<Router>,
    /// A call ended in a defect: what it left half done in memory is unknown, so nothing is changed from here any more.
    poisoned: AtomicBool,
}

impl Object for Root {
    type Opaque = coracle;
    const KIND: u64 = 1;
    const NAME: &'static str = "engine";
}

impl Root {
    pub(crate) fn engine(&self) -> &Engine {
        &self.0.engine
    }

    /// Whether members of documents that are not known are passed over.
    pub(crate) fn lenient(&self) -> bool {
        self.0.lenient
    }

    /// Remembers a defect of the library: nothing is changed from this handle any more.
    pub(crate) fn note_defect(&self, failure: &Failure) {
        if failure.code == CORACLE_EPANIC {
            self.0.poisoned.store(true, Ordering::SeqCst);
        }
    }

    /// Errors: this build has no HTTP API.
    pub(crate) fn router(&self) -> Outcome<&Router> {
        if !cfg!(feature = "http") {
            let message = "this build of the library has no HTTP API (feature \"http\")";
            return Err(Failure::new(ErrorKind::Unsupported, message));
        }
        Ok(self.0.router.get_or_init(|| Router::new(self.0.engine.clone())))
    }
}

/// How a call uses the root.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Change,
}

/// Runs an entry point of an engine handle.
#[track_caller]
pub(crate) fn with_root(
    c: *const coracle,
    access: Access,
    err: *mut *mut coracle_error,
    body: impl FnOnce(&Root) -> Outcome<coracle_status>,
) -> coracle_status {
    let mut body = Some(body);
    with_root_once(Area::of_caller(), c, access, err, &mut |root| match body.take() {
        Some(body) => body(root),
        None => Err(Failure::new(ErrorKind::Internal, "a call was made twice")),
    })
}

/// One form for all keeps the library small.
fn with_root_once(
    area: Area,
    c: *const coracle,
    access: Access,
    err: *mut *mut coracle_error,
    body: &mut dyn FnMut(&Root) -> Outcome<coracle_status>,
) -> coracle_status {
    enter_in(area, err, || {
        let root = handle::get::<Root>(c, "engine")?;
        if access == Access::Change && root.0.poisoned.load(Ordering::SeqCst) {
            let message = "an earlier call ended in a defect of the library: close this engine and open the root again";
            return Err(Failure::new(ErrorKind::Panic, message));
        }
        let result = catch(|| body(&root));
        if let Err(failure) = &result {
            root.note_defect(failure);
        }
        result
    })
}

/// Opens the engine root `root`, a directory, and makes it if it is not there (unless CORACLE_OPEN_EXISTING is given).
///
/// root: path, any bytes. opt: NULL is the defaults. *out: the engine; end it with coracle_close.
/// Any number of programs may have one root open at the same time.
///
/// Schemas: opt.config_json open-config.
///
/// Errors: EINVALID (an option), EFORBIDDEN (a capability is missing, named), EUNSUPPORTED (a kernel call is missing,
/// named; a store of a newer library), ENOT_FOUND (CORACLE_OPEN_EXISTING, and there is none), EIO (the root cannot be
/// made or written), ECONFLICT (another copy of the library in this process has the root open).
///
/// Threads: any. Blocks: disk; after a reboot until the root is put in order. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_open(
    root: *const c_char,
    opt: *const coracle_open_options,
    out: *mut *mut coracle,
    err: *mut *mut coracle_error,
) -> coracle_status {
    let out = Out::null(out);
    enter(err, || {
        out.check("out")?;
        let (options, lenient) = (options(root, opt)?, lenient(opt)?);
        let engine = Engine::open_with(options)?;
        out.set(handle::give(Root(Arc::new(Shared {
            engine,
            lenient,
            router: OnceLock::new(),
            poisoned: AtomicBool::new(false),
        }))));
        Ok(CORACLE_OK)
    })
}

/// Makes another handle of the same engine, for code that needs the engine after the first handle is closed. Each handle
/// ends with its own coracle_close.
///
/// Returns NULL for NULL, for a handle that is not open, and in the child of a fork.
///
/// Threads: any. Blocks: no. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_ref(c: *mut coracle) -> *mut coracle {
    let again = catch(|| handle::get::<Root>(c, "engine").map(|root| handle::give(Root::clone(&root))));
    again.unwrap_or(std::ptr::null_mut())
}

/// Ends an engine handle. Containers run on; sessions, streams and events that came from it stay valid. NULL is fine.
///
/// In the child of a fork it only forgets the handle.
///
/// Threads: any; calls that use the handle run to their end. Blocks: no. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_close(c: *mut coracle) {
    crate::entry::enter_void(|| handle::free::<Root>(c));
}

/// `config_json` of the open options; the names are those of the field's engine configuration file.
#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Config {
    /// How much a power cut may undo: `full`, `normal` or `off`.
    durability: Option<String>,
    /// The log driver of containers that name none.
    log_driver: Option<String>,
    /// The deliverer of the logs of drivers with a receiver: `none`, `thread` or `program`.
    ship_logs: Option<String>,
    /// How many bytes of the logs of removed containers are kept whose lines are not delivered, such as `256m`.
    outbox_max_size: Option<String>,
    /// For how long they are kept, such as `168h`.
    outbox_max_age: Option<String>,
    /// Options of that log driver.
    log_opts: Option<StringMap>,
    /// The control group above those of containers that name none.
    cgroup_parent: Option<String>,
    /// The engine's labels, `NAME=value`, which `info` shows.
    labels: Option<Vec<String>>,
    /// Whether the open starts containers whose restart policy asks for a start after a boot.
    restart_containers: Option<bool>,
    /// The proxy for addresses without TLS; absent: that of the environment.
    http_proxy: Option<String>,
    /// The proxy for addresses with TLS; absent: that of the environment.
    https_proxy: Option<String>,
    /// Hosts and domains that need no proxy, with commas between; absent: those of the environment.
    no_proxy: Option<String>,
    /// The host's address of published ports that name none.
    ip: Option<String>,
    /// Whether monitors relay connections to published ports at 127.0.0.1.
    relay_loopback: Option<bool>,
    /// Whether dockerd's chain `DOCKER-USER` gets no rules for these networks.
    leave_docker_user: Option<bool>,
    /// The authorization plugins that each request of the HTTP interface needs the consent of, in the order in which they are asked.
    authorization_plugins: Option<Vec<String>>,
    /// Directories with the sockets and descriptions of plugins.
    plugin_dirs: Option<Vec<String>>,
    /// Directories with specifications of CDI devices.
    cdi_spec_dirs: Option<Vec<String>>,
    /// Registries that may be reached without TLS, by host, `host:port` or range of addresses.
    insecure_registries: Option<Vec<String>>,
    /// Mirrors, `[registry=]address`.
    registry_mirrors: Option<Vec<String>>,
    /// The ids of the user namespace of containers, `FIRST:COUNT`, `UID:GID:COUNT`, or names of /etc/subuid and /etc/subgid; absent: none.
    userns_remap: Option<String>,
    /// The AppArmor profile of containers that name none.
    apparmor: Option<String>,
    /// Whether containers have SELinux labels.
    selinux_enabled: Option<bool>,
    /// Whether load, pull and push take less memory, under 16 MB in place of under 64 MB.
    small_memory: Option<bool>,
    /// Whether windows of up to 128 MiB of compressed streams are taken.
    large_windows: Option<bool>,
    /// The file of the program `coracle-swarm`, which is started when the root begins or joins a swarm; absent: none.
    swarm_program: Option<String>,
}

fn lenient(opt: *const coracle_open_options) -> Outcome<bool> {
    if opt.is_null() {
        return Ok(false);
    }
    // SAFETY: coracle_open_options is a sized struct of integers and pointers.
    Ok(unsafe { arg::sized(opt, "opt") }?.flags & CORACLE_OPEN_LENIENT != 0)
}

pub(crate) fn options(root: *const c_char, opt: *const coracle_open_options) -> Outcome<Options> {
    let root = arg::optional_path(root).ok_or_else(|| Failure::invalid("root is NULL"))?;
    if root.as_os_str().is_empty() {
        return Err(Failure::invalid("root is empty"));
    }
    let mut options = Options::new(root);
    if opt.is_null() {
        return Ok(options);
    }
    // SAFETY: coracle_open_options is a sized struct of integers and pointers.
    let given = unsafe { arg::sized(opt, "opt") }?;
    arg::flags(given.flags, CORACLE_OPEN_EXISTING | CORACLE_OPEN_LENIENT | CORACLE_OPEN_EPHEMERAL, "opt.flags")?;
    options.ephemeral = given.flags & CORACLE_OPEN_EPHEMERAL != 0;
    options.create = given.flags & CORACLE_OPEN_EXISTING == 0;
    options.run_dir = arg::optional_path(given.run_dir).map(Into::into);
    let config: Config = arg::json_or_default(given.config_json, "opt.config_json")?;
    options.durability = match config.durability.as_deref() {
        None | Some("full") => Durability::Full,
        Some("normal") => Durability::Normal,
        Some("off") => Durability::Off,
        Some(_) => return Err(Failure::invalid("opt.config_json: durability is not one of full, normal, off")),
    };
    options.ship_logs = match config.ship_logs.as_deref() {
        None => options.ship_logs,
        Some(word) => ShipLogs::parse(word)
            .ok_or_else(|| Failure::invalid("opt.config_json: ship-logs is not one of none, thread, program"))?,
    };
    options.outbox = Outbox::parse(config.outbox_max_size.as_deref(), config.outbox_max_age.as_deref())?;
    options.log_driver = config.log_driver.unwrap_or(options.log_driver);
    options.log_options = config.log_opts.unwrap_or(options.log_options);
    options.cgroup_parent = config.cgroup_parent.unwrap_or(options.cgroup_parent);
    options.labels = config.labels.unwrap_or(options.labels);
    options.registry.insecure = config.insecure_registries.unwrap_or_default();
    let proxies = (config.http_proxy, config.https_proxy, config.no_proxy);
    options.registry.proxies = Proxies { http: proxies.0, https: proxies.1, exempt: proxies.2 };
    let mirrors = config.registry_mirrors.unwrap_or_default();
    options.registry.mirrors = mirrors.iter().map(|text| Mirror::parse(text)).collect::<Result<_, _>>()?;
    options.publish_ip = match config.ip.as_deref() {
        None | Some("") => None,
        Some(text) => Some(text.parse().map_err(|_| Failure::invalid("opt.config_json: ip is not an address"))?),
    };
    options.relay_loopback = config.relay_loopback.unwrap_or(false);
    options.leave_docker_user = config.leave_docker_user.unwrap_or(false);
    options.userns_remap = config.userns_remap.as_deref().map(UsernsRemap::parse).transpose()?;
    options.apparmor = config.apparmor;
    options.selinux = config.selinux_enabled.unwrap_or(false);
    options.authorization_plugins = config.authorization_plugins.unwrap_or_default();
    if let Some(dirs) = config.plugin_dirs {
        options.plugin_dirs = dirs.into_iter().map(Into::into).collect();
    }
    if let Some(dirs) = config.cdi_spec_dirs {
        options.cdi_dirs = dirs.into_iter().map(Into::into).collect();
    }
    options.small_memory = config.small_memory.unwrap_or(false);
    options.large_windows = config.large_windows.unwrap_or(false);
    options.swarm_program = config.swarm_program.map(Into::into);
    options.restart_containers = config.restart_containers.unwrap_or(options.restart_containers);
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(config: &std::ffi::CStr) -> Outcome<Options> {
        let (size, flags) = (size_of::<coracle_open_options>(), 0);
        let opt = coracle_open_options { size, flags, run_dir: std::ptr::null(), config_json: config.as_ptr() };
        options(c"/r".as_ptr(), &opt)
    }

    #[test]
    fn an_existing_root_may_be_asked_for() {
        let opened = |flags| {
            let (size, null) = (size_of::<coracle_open_options>(), std::ptr::null());
            options(c"/r".as_ptr(), &coracle_open_options { size, flags, run_dir: null, config_json: null })
        };
        assert!(opened(0).unwrap().create && !opened(CORACLE_OPEN_EXISTING).unwrap().create);
        assert!(opened(1 << 20).unwrap_err().message.contains("opt.flags"));
    }

    #[test]
    fn configuration_is_read_and_its_errors_name_the_key() {
        let o = read(c"{\"durability\":\"off\",\"cgroup-parent\":\"/x\",\"log-opts\":{\"max-size\":\"1m\"}}").unwrap();
        assert_eq!((o.durability, o.cgroup_parent.as_str()), (Durability::Off, "/x"));
        assert_eq!(o.log_options["max-size"], "1m");
        assert!(read(c"{\"ip\":\"127.0.0.1\"}").unwrap().publish_ip.unwrap().is_loopback());
        assert!(read(c"{\"relay-loopback\":true}").unwrap().relay_loopback);
        assert_eq!(read(c"{\"apparmor\":\"unconfined\"}").unwrap().apparmor.as_deref(), Some("unconfined"));
        assert!(read(c"{\"leave-docker-user\":true}").unwrap().leave_docker_user);
        assert!(read(c"{\"selinux-enabled\":true}").unwrap().selinux && !read(c"{}").unwrap().selinux);
        let proxies = read(c"{\"https-proxy\":\"http://p\",\"no-proxy\":\"\"}").unwrap().registry.proxies;
        assert_eq!(
            (proxies.https.as_deref(), proxies.http, proxies.exempt.as_deref()),
            (Some("http://p"), None, Some(""))
        );
        let outbox = read(c"{\"outbox-max-size\":\"1m\",\"outbox-max-age\":\"1h\"}").unwrap().outbox.unwrap();
        assert_eq!((outbox.bytes, outbox.age.as_secs()), (1 << 20, 3600));
        assert!(
            read(c"{\"outbox-max-age\":\"1d\"}").unwrap_err().message.contains("outbox-max-age: \"1d\" is not a time")
        );
        assert!(read(c"{\"ip\":\"here\"}").unwrap_err().message.contains("ip is not an address"));
        assert!(read(c"{\"durability\":\"some\"}").unwrap_err().message.contains("durability"));
        assert!(read(c"{\"data-root\":\"/\"}").unwrap_err().message.contains("data-root"));
    }
}
