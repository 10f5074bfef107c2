//! Plugins of other makers: found by their sockets and files in a few directories, called by HTTP.

mod authorization;
mod call;
mod http;
#[cfg(feature = "registry")]
mod tls;

pub use authorization::Authorization;
pub(crate) use http::connect_own;

use crate::error::{Error, ErrorKind, Result};
use crate::model::json_words;
use crate::parts::Part;
use crate::walls::Wall;
use http::Address;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long the library retries a plugin that does not listen yet.
const PATIENCE: Duration = Duration::from_secs(4);
/// See [`Plugins::hurried`].
const HURRY: Duration = Duration::from_secs(1);

/// The kind of plugins that take logs.
pub(crate) const LOG_DRIVER: &str = "LogDriver";

/// The plugins that the engine runs itself.
pub(crate) trait Managed: Send + Sync {
    /// The enabled plugin of that name, with or without the tag `latest`. Errors: the store cannot be read, or the plugin is disabled.
    fn enabled(&self, name: &str) -> Result<Option<ManagedPlugin>>;
}

/// A plugin that the engine runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ManagedPlugin {
    /// With its tag.
    pub name: String,
    pub socket: PathBuf,
    /// The kinds in small letters, such as `volumedriver`.
    pub kinds: Vec<String>,
    pub places: ManagedPlaces,
}

/// The directories that the engine and such a plugin share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ManagedPlaces {
    /// The directory in the plugin whose mounts the host sees; empty: none.
    pub propagated: PathBuf,
    /// That directory on the host.
    pub on_host: PathBuf,
    /// The directory of FIFOs on the host.
    pub fifos: PathBuf,
}

/// A place on the host that a plugin named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HostPlace {
    /// A directory that is trusted.
    pub dir: PathBuf,
    /// The path below the directory, which the plugin writes in: links that lead out of the directory must not be followed. Empty: the
    /// directory itself.
    pub below: String,
}

impl ManagedPlaces {
    /// The place on the host for a path that the plugin named. Errors: the host does not see it.
    pub(crate) fn host_place(&self, path: &str) -> Result<HostPlace> {
        let (empty, path) = (self.propagated.as_os_str().is_empty(), Path::new(path));
        let plain = |rest: &Path| rest.components().all(|part| matches!(part, std::path::Component::Normal(_)));
        match path.strip_prefix(&self.propagated) {
            Ok(rest) if !empty && plain(rest) => {
                let dir = self.on_host.clone();
                Ok(HostPlace { dir, below: rest.to_string_lossy().trim_end_matches('/').to_owned() })
            }
            _ => Err(Error::internal(format!(
                "the plugin's path {} is not below its propagated mount {}, and the host does not see it",
                path.display(),
                self.propagated.display()
            ))),
        }
    }
}

/// The directory of managed plugins, in the root and in the run directory.
pub(crate) const MANAGED: &str = "plugins";
/// The directory of FIFOs as managed plugins see it.
pub(crate) const FIFOS_INSIDE: &str = "/run/docker/logging";

/// The plugins that there are: those of the directories, and those that the engine runs.
#[derive(Clone)]
pub(crate) struct Plugins {
    dirs: Vec<PathBuf>,
    managed: Option<Arc<dyn Managed>>,
    /// The time limit of an answer.
    limit: Duration,
}

/// A plugin that was found.
#[derive(Debug, Clone)]
pub(crate) struct Plugin {
    pub name: String,
    address: Address,
    limit: Duration,
    /// Set for a plugin that the engine runs.
    pub places: Option<ManagedPlaces>,
}

/// The file `NAME.json`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Described {
    addr: String,
    #[serde(rename = "TLSConfig")]
    tls: Option<call::Tls>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", default)]
#[derive(Default)]
struct Activated {
    implements: Option<Vec<String>>,
}

impl Plugins {
    pub(crate) fn new(dirs: &[PathBuf]) -> Plugins {
        Plugins { dirs: dirs.to_vec(), managed: None, limit: http::LIMIT }
    }

    /// As [`Plugins::new`], with plugins that the engine runs. They come first.
    pub(crate) fn with_managed(dirs: &[PathBuf], managed: Arc<dyn Managed>) -> Plugins {
        Plugins { managed: Some(managed), ..Plugins::new(dirs) }
    }

    fn managed(&self, name: &str) -> Result<Option<ManagedPlugin>> {
        self.managed.as_ref().map_or(Ok(None), |managed| managed.enabled(name))
    }

    /// The name under which a plugin is kept: one that the engine runs has a tag.
    pub(crate) fn full_name(&self, name: &str) -> String {
        self.managed(name).ok().flatten().map_or_else(|| name.to_owned(), |found| found.name)
    }

    /// The directory of FIFOs of a log plugin that the engine runs: on the host.
    pub(crate) fn fifos(&self, name: &str) -> Result<Option<PathBuf>> {
        Ok(self.managed(name)?.map(|found| found.places.fifos))
    }

    /// Plugins for a caller in a hurry: one that does not answer soon is skipped.
    pub(crate) fn hurried(&self) -> Plugins {
        Plugins { limit: HURRY, ..self.clone() }
    }

    /// Whether there is a plugin of that name. It may be of any kind, and it may not answer.
    pub(crate) fn is_there(&self, name: &str) -> bool {
        self.address(name).is_ok()
    }

    /// The address of a plugin in the form of its files, for a program that calls the plugin itself. Errors: there is none, or it
    /// needs TLS.
    pub(crate) fn plain_address(&self, name: &str) -> Result<String> {
        match self.address(name)? {
            Address::Unix(path) | Address::Own(path) => Ok(format!("unix://{}", path.display())),
            Address::Tcp(host) => Ok(format!("tcp://{host}")),
            Address::Tls(..) => {
                Err(Error::unsupported(format!("plugin {name:?}: a log plugin is called without TLS, by unix or tcp")))
            }
        }
    }

    fn address(&self, name: &str) -> Result<Address> {
        Part::Plugins.need()?;
        if let Some(found) = self.managed(name)? {
            return Ok(Address::Own(found.socket));
        }
        let missing = || Error::not_found(format!("plugin {name:?} not found"));
        if !is_name(name) && Wall::PluginNames.stands() {
            return Err(missing());
        }
        for dir in &self.dirs {
            if let Some(found) = locate(dir, name)? {
                return Ok(found);
            }
        }
        Err(missing())
    }

    /// Finds a plugin and asks for its kind. Errors: no plugin has that name, or it is of another kind.
    pub(crate) fn find(&self, name: &str, kind: &str) -> Result<Plugin> {
        Part::Plugins.need()?;
        if let Some(ManagedPlugin { name, socket, kinds, places }) = self.managed(name)? {
            // The plugin's configuration says its kinds.
            return match kinds.contains(&kind.to_ascii_lowercase()) {
                true => Ok(Plugin { name, address: Address::Own(socket), limit: self.limit, places: Some(places) }),
                false => Err(Error::not_found(format!("plugin {name:?} does not implement {kind:?}"))),
            };
        }
        let plugin = Plugin { name: name.to_owned(), address: self.address(name)?, limit: self.limit, places: None };
        let does: Activated = plugin.call("Plugin.Activate", &Value::Null)?;
        match does.implements.unwrap_or_default().iter().any(|what| what == kind) {
            true => Ok(plugin),
            false => Err(Error::not_found(format!("plugin {name:?} does not implement {kind:?}"))),
        }
    }
}

impl std::fmt::Debug for Plugins {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plugins").field("dirs", &self.dirs).finish_non_exhaustive()
    }
}

impl Plugin {
    /// One call. Errors: no plugin listens, or the plugin's own.
    pub(crate) fn call<T: DeserializeOwned>(&self, method: &str, body: &Value) -> Result<T> {
        Part::Plugins.need()?;
        let refused = |text: String| Error::new(ErrorKind::Internal, format!("{method}: {text}")).in_area("plugin");
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let until = Instant::now() + PATIENCE.min(self.limit);
        let mut pause = Duration::from_millis(20);
        let answer = loop {
            match http::post(&self.address, method, &body, self.limit) {
                Err(call::Failed::Talk(error) | call::Failed::Connect(error)) if http::is_timeout(&error) => {
                    let text = format!("{method}: plugin {} does not answer within {:?}", self.name, self.limit);
                    return Err(Error::new(ErrorKind::Timeout, text).in_area("plugin"));
                }
                Err(call::Failed::Connect(_)) if Instant::now() < until => {
                    std::thread::sleep(pause);
                    pause *= 2;
                }
                Err(failed) => return Err(refused(format!("plugin {}: {failed}", self.name))),
                Ok(answer) => break answer,
            }
        };
        let value: Option<Value> = crate::document::read(&answer.body).ok();
        let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        let own = value.as_ref().and_then(|value| [&value["Err"], &value["Error"]].into_iter().find_map(text));
        match (answer.status, own, value) {
            (200, None, Some(value)) => serde_json::from_value(value)
                .map_err(|e| refused(format!("the answer of plugin {}: {}", self.name, json_words(&e)))),
            (_, Some(text), _) => Err(refused(text)),
            (404, None, _) => Err(Error::not_found(format!("{method}: plugin {} does not know it", self.name))),
            (200, None, None) => Err(refused(format!("plugin {} answered no JSON", self.name))),
            (_, None, _) => Err(refused(String::from_utf8_lossy(&answer.body).trim().to_owned())),
        }
    }
}

/// Whether a text may be the name of a plugin, also of one that the engine runs.
pub(crate) fn is_name_of_any(name: &str) -> bool {
    !name.is_empty() && name.len() <= 256 && name.split('/').all(is_name)
}

/// Whether the name stays inside of a directory.
fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 128
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b':'))
        && !name.starts_with('.')
}

fn locate(dir: &Path, name: &str) -> Result<Option<Address>> {
    for below in [dir.to_path_buf(), dir.join(name)] {
        let socket = below.join(format!("{name}.sock"));
        let is_socket = |m: std::fs::Metadata| std::os::unix::fs::FileTypeExt::is_socket(&m.file_type());
        if std::fs::metadata(&socket).is_ok_and(is_socket) {
            return Ok(Some(Address::Unix(socket)));
        }
        let bad = |path: &Path, why: &str| Error::new(ErrorKind::Internal, format!("{}: {why}", path.display()));
        let spec = below.join(format!("{name}.spec"));
        if let Ok(text) = std::fs::read_to_string(&spec) {
            return Address::parse(text.trim()).map(Some).map_err(|why| bad(&spec, &why));
        }
        let described = below.join(format!("{name}.json"));
        if let Ok(text) = std::fs::read_to_string(&described) {
            let plugin: Described = serde_json::from_str(&text).map_err(|e| bad(&described, &json_words(&e)))?;
            let address = Address::parse(&plugin.addr).map_err(|why| bad(&described, &why))?;
            return Ok(Some(match (address, plugin.tls) {
                (Address::Tls(host, _), Some(tls)) => Address::Tls(host, tls),
                (address, _) => address,
            }));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    /// Answers each connection with the next text.
    fn server(answers: Vec<&'static str>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for answer in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let _ = stream.read(&mut [0; 4096]);
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        format!("tcp://{address}")
    }

    #[test]
    fn found_by_files_and_asked() {
        let dir = std::env::temp_dir().join(format!("coracle-plugins-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("two")).unwrap();
        let address = server(vec![
            "HTTP/1.1 200 OK\r\nContent-Length: 33\r\n\r\n{\"Implements\": [\"NetworkDriver\"]}",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n{\"A\"\r\n3;x\r\n:1}\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\n\r\n{\"Err\":\"no room\"}",
            "HTTP/1.1 500 Bad\r\nContent-Length: 4\r\n\r\noops",
            "HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.0 200 OK\r\n\r\n{\"Implements\":null}",
        ]);
        std::fs::write(dir.join("one.spec"), format!("{address}\n")).unwrap();
        std::fs::write(dir.join("two/two.json"), format!("{{\"Name\":\"two\",\"Addr\":\"{address}\"}}")).unwrap();
        let plugins = Plugins::new(&[PathBuf::from("/nowhere"), dir.clone()]);
        let plugin = plugins.find("one", "NetworkDriver").unwrap();
        let value: Value = plugin.call("X.Y", &serde_json::json!({})).unwrap();
        assert_eq!(value["A"], 1);
        let error = |method: &str| plugin.call::<Value>(method, &serde_json::json!({})).unwrap_err();
        assert_eq!(error("X.Y").message(), "X.Y: no room");
        assert_eq!(error("X.Y").message(), "X.Y: oops");
        assert_eq!(error("X.Y").kind(), ErrorKind::NotFound);
        let other = plugins.find("two", "NetworkDriver").unwrap_err();
        assert_eq!(other.message(), "plugin \"two\" does not implement \"NetworkDriver\"");
        for name in ["three", "../one", ".", "", "a/b"] {
            assert_eq!(plugins.find(name, "x").unwrap_err().message(), format!("plugin {name:?} not found"));
        }
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
