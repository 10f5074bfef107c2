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
    #[serde(deserialize_with = "null_default")]
    pub user: String,
    #[serde(deserialize_with = "null_default")]
    pub privileged: bool,
    #[serde(deserialize_with = "null_default")]
    pub tty: bool,
    #[serde(deserialize_with = "null_default")]
    pub attach_stdin: bool,
    #[serde(deserialize_with = "null_default")]
    pub attach_stdout: bool,
    #[serde(deserialize_with = "null_default")]
    pub attach_stderr: bool,
    #[serde(deserialize_with = "null_default")]
    pub detach: bool,
    #[serde(deserialize_with = "null_default")]
    pub detach_keys: String,
    pub env: Option<Vec<String>>,
    /// Absolute, and existing; empty: the container's own.
    #[serde(deserialize_with = "null_default")]
    pub working_dir: String,
    /// Rows and columns of its terminal at the start, unless the start names others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub console_size: Option<[u32; 2]>,
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
    pub tty: bool,
    pub entrypoint: String,
    pub arguments: Vec<String>,
    pub privileged: bool,
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
    #[serde(rename = "ID")]
    pub id: String,
    pub running: bool,
    /// Absent until the process has ended.
    pub exit_code: Option<i32>,
    pub process_config: ExecProcess,
    pub open_stdin: bool,
    pub open_stderr: bool,
    pub open_stdout: bool,
    pub can_remove: bool,
    #[serde(rename = "ContainerID")]
    pub container_id: String,
    /// Base64 of the key bytes; empty: the default sequence.
    pub detach_keys: String,
    pub pid: i32,
}
