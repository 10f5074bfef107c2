//! A request for a build.

use super::base64::from_base64;
use super::{RegistryAuth, StringMap, Ulimit};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A build's parameters, with their names in the query of `POST /build`.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::Context;
/// use coracle::model::BuildImage;
///
/// let build = BuildImage {
///     file: Some("FROM busybox\nRUN echo hello > /greeting\n".into()),
///     t: vec!["greeting".into()],
///     ..Default::default()
/// };
/// let id = engine.image_build(&build, Context::None, &mut |_progress| Ok(()), None)?;
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BuildImage {
    /// Path of the build file in the context; empty: `Dockerfile`, `dockerfile` or `Buildfile`, the first that exists.
    pub dockerfile: String,
    /// The build file itself, instead of one in the context.
    pub file: Option<String>,
    /// Names for the image (`repository[:tag]`).
    pub t: Vec<String>,
    /// Another source of the context: the URL of a build file or of a tar, or a git repository (`ADDRESS[#[REF][:DIRECTORY]]`,
    /// with an address `https://HOST/PATH.git`, `http://HOST/PATH.git`, `git://HOST/PATH` or `github.com/USER/NAME`).
    pub remote: String,
    /// Report only the id (on success), at the end.
    pub q: bool,
    /// Do not reuse steps of earlier builds.
    pub nocache: bool,
    /// Ask the registry for a newer base image.
    pub pull: bool,
    /// Remove the containers of steps that succeeded. Default true.
    pub rm: bool,
    /// Remove them all.
    pub forcerm: bool,
    /// Bytes of memory for each RUN; 0: no limit, as in the other limits.
    pub memory: i64,
    /// Bytes of memory and swap together; -1: without limit.
    pub memswap: i64,
    /// CPU shares.
    pub cpushares: i64,
    /// CPU period in microseconds.
    pub cpuperiod: i64,
    /// CPU quota in microseconds a period.
    pub cpuquota: i64,
    /// CPUs (`0-3`, `0,1`).
    pub cpusetcpus: String,
    /// Memory nodes.
    pub cpusetmems: String,
    /// The control group above the containers'.
    pub cgroupparent: String,
    /// Bytes of `/dev/shm`.
    pub shmsize: i64,
    /// Resource limits.
    pub ulimits: Vec<Ulimit>,
    /// Values for ARG; `null`: none, but allowed.
    pub buildargs: BTreeMap<String, Option<String>>,
    /// Labels of the image.
    pub labels: StringMap,
    /// Network of RUN: `default`, `none`, `host`, `container:...` or a network's name.
    pub networkmode: String,
    /// `name:address` for `/etc/hosts` of RUN.
    pub extrahosts: Vec<String>,
    /// Security options of RUN.
    pub securityopt: Vec<String>,
    /// The stage to stop at, by name or number.
    pub target: String,
    /// Images whose steps the cache may use; with this list it uses only these images and their parents.
    pub cachefrom: Vec<String>,
    /// Make one layer of those that the last stage puts on its base image. The images of the steps stay, for later builds.
    pub squash: bool,
    /// Empty: all stages up to the wanted one, in the order of the file. `parallel`: the stages that the wanted one needs, side
    /// by side, with numbered steps as output.
    pub stages: String,
    /// The platform: only that of this machine.
    pub platform: String,
    /// Credentials by registry, as in the header `X-Registry-Config`.
    pub auths: BTreeMap<String, RegistryAuth>,
    /// Secrets that steps mount by `RUN --mount=type=secret`. The HTTP API has no way to give one.
    pub secrets: Vec<BuildSecret>,
    /// Agents that steps reach by `RUN --mount=type=ssh`.
    pub ssh: Vec<BuildSsh>,
}

/// A secret of a build: `RUN --mount=type=secret,id=...` mounts it. One of `value`, `src` and `env` says what it is. It
/// comes into no layer, history, cache or log.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::Context;
/// use coracle::model::{BuildImage, BuildSecret};
///
/// let token = BuildSecret { id: "token".into(), env: "TOKEN".into(), ..Default::default() };
/// let file = "FROM busybox\nRUN --mount=type=secret,id=token wc -c /run/secrets/token\n";
/// let build = BuildImage { file: Some(file.into()), secrets: vec![token], ..Default::default() };
/// engine.image_build(&build, Context::None, &mut |_progress| Ok(()), None)?;
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BuildSecret {
    /// The name that the build file uses.
    pub id: String,
    /// A file of this machine that has the value.
    pub src: String,
    /// A variable of this program that has the value.
    pub env: String,
    /// The value itself.
    pub value: Option<String>,
}

/// Without the value.
impl std::fmt::Debug for BuildSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let BuildSecret { id, src, env, .. } = self;
        f.debug_struct("BuildSecret").field("id", id).field("src", src).field("env", env).finish_non_exhaustive()
    }
}

/// An agent of a build: `RUN --mount=type=ssh,id=...` has a socket that leads to it.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::Context;
/// use coracle::model::{BuildImage, BuildSsh};
///
/// let agent = BuildSsh { id: "default".into(), socket: "/run/user/1000/ssh-agent".into() };
/// let file = "FROM alpine\nRUN --mount=type=ssh ssh-add -l\n";
/// let build = BuildImage { file: Some(file.into()), ssh: vec![agent], ..Default::default() };
/// engine.image_build(&build, Context::None, &mut |_progress| Ok(()), None)?;
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BuildSsh {
    /// The name that the build file uses; `default` where the file names none.
    pub id: String,
    /// The path of the agent's socket on this machine.
    pub socket: String,
}

impl Default for BuildImage {
    fn default() -> BuildImage {
        BuildImage {
            dockerfile: String::new(),
            file: None,
            t: Vec::new(),
            remote: String::new(),
            q: false,
            nocache: false,
            pull: false,
            rm: true,
            forcerm: false,
            memory: 0,
            memswap: 0,
            cpushares: 0,
            cpuperiod: 0,
            cpuquota: 0,
            cpusetcpus: String::new(),
            cpusetmems: String::new(),
            cgroupparent: String::new(),
            shmsize: 0,
            ulimits: Vec::new(),
            buildargs: BTreeMap::new(),
            labels: StringMap::new(),
            networkmode: String::new(),
            extrahosts: Vec::new(),
            securityopt: Vec::new(),
            target: String::new(),
            cachefrom: Vec::new(),
            squash: false,
            stages: String::new(),
            platform: String::new(),
            auths: BTreeMap::new(),
            secrets: Vec::new(),
            ssh: Vec::new(),
        }
    }
}

impl BuildImage {
    /// Reads the header `X-Registry-Config`: base64 of a map from registry to credentials. As in docker, an unreadable
    /// header means none.
    pub fn auths_from_header(text: &str) -> BTreeMap<String, RegistryAuth> {
        from_base64(text).and_then(|bytes| crate::document::read(&bytes).ok()).unwrap_or_default()
    }
}
