//! Exec instances: a second process in a running container.
// The fields are the specification's own names; their meaning, units and limits stand there.
#![allow(missing_docs)]

use super::null_default;
use serde::{Deserialize, Serialize};

/// Body of exec create.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::Io;
/// use coracle::model::ExecConfig;
///
/// let config = ExecConfig {
///     cmd: Some(vec!["date".into(), "+%s".into()]),
///     attach_stdout: true,
///     ..Default::default()
/// };
/// let id = engine.exec_create("clock", &config)?;
/// if let Some(session) = engine.exec_start(&id, Some(Io::default()), None)? {
///     println!("exit code {}", session.wait(None)?);
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ExecConfig {
    /// User and group, `user[:group]`, by name or number; empty: the container's.
    #[serde(deserialize_with = "null_default")]
    pub user: String,
    /// Whether the process has all capabilities.
    #[serde(deserialize_with = "null_default")]
    pub privileged: bool,
    /// Whether the process has a terminal.
    #[serde(deserialize_with = "null_default")]
    pub tty: bool,
    /// Whether standard input is attached; else it is empty.
    #[serde(deserialize_with = "null_default")]
    pub attach_stdin: bool,
    /// Whether standard output is attached.
    #[serde(deserialize_with = "null_default")]
    pub attach_stdout: bool,
    /// Whether standard error is attached.
    #[serde(deserialize_with = "null_default")]
    pub attach_stderr: bool,
    /// Taken and kept; the start decides.
    #[serde(deserialize_with = "null_default")]
    pub detach: bool,
    /// The keys that detach a terminal's client, such as `ctrl-p,ctrl-q`; empty: the default.
    #[serde(deserialize_with = "null_default")]
    pub detach_keys: String,
    /// Environment variables over the container's, `NAME=value`.
    pub env: Option<Vec<String>>,
    /// Absolute, and existing; empty: the container's own.
    #[serde(deserialize_with = "null_default")]
    pub working_dir: String,
    /// Rows and columns of its terminal at the start, unless the start names others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub console_size: Option<[u32; 2]>,
    /// The program with its arguments.
    pub cmd: Option<Vec<String>>,
}

/// `ProcessConfig` of exec inspect.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::model::ExecConfig;
///
/// let config = ExecConfig { cmd: Some(vec!["date".into()]), attach_stdout: true, ..Default::default() };
/// let id = engine.exec_create("clock", &config)?;
/// engine.exec_start(&id, None, None)?;
/// let process = engine.exec_inspect(&id)?.process_config;
/// println!("{} {}", process.entrypoint, process.arguments.join(" "));
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ExecProcess {
    /// Whether the process has a terminal.
    pub tty: bool,
    /// The program.
    pub entrypoint: String,
    /// The program's arguments.
    pub arguments: Vec<String>,
    /// Whether the process has all capabilities.
    pub privileged: bool,
    /// User and group as the request named them.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub user: String,
}

/// Answer of exec inspect.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::model::ExecConfig;
///
/// let config = ExecConfig { cmd: Some(vec!["date".into()]), attach_stdout: true, ..Default::default() };
/// let id = engine.exec_create("clock", &config)?;
/// engine.exec_start(&id, None, None)?;
/// let exec = engine.exec_inspect(&id)?;
/// println!("runs: {}, exit code: {:?}", exec.running, exec.exit_code);
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct ExecDetail {
    /// The exec's id.
    #[serde(rename = "ID")]
    pub id: String,
    /// Whether the process runs.
    pub running: bool,
    /// Absent until the process has ended.
    pub exit_code: Option<i32>,
    /// The process.
    pub process_config: ExecProcess,
    /// Whether standard input is attached.
    pub open_stdin: bool,
    /// Whether standard error is attached.
    pub open_stderr: bool,
    /// Whether standard output is attached.
    pub open_stdout: bool,
    /// Always false; kept for old clients.
    pub can_remove: bool,
    /// The container's id.
    #[serde(rename = "ContainerID")]
    pub container_id: String,
    /// Base64 of the key bytes; empty: the default sequence.
    pub detach_keys: String,
    /// The process on the host; 0: it did not start, or it ended.
    pub pid: i32,
}
