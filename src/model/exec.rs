//! Exec instances: a second process in a running container.
// The fields are the specification's own names; their meaning, units and limits stand there.
#![allow(missing_docs)]

use serde::{Deserialize, Serialize};

/// Body of exec create.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ExecConfig {
    pub user: String,
    pub privileged: bool,
    pub tty: bool,
    pub attach_stdin: bool,
    pub attach_stdout: bool,
    pub attach_stderr: bool,
    pub detach: bool,
    pub detach_keys: String,
    pub env: Option<Vec<String>>,
    pub cmd: Option<Vec<String>>,
}

/// `ProcessConfig` of exec inspect.
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
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct ExecDetail {
    #[serde(rename = "ID")]
    pub id: String,
    pub running: bool,
    /// Absent until the process ended.
    pub exit_code: Option<i32>,
    pub process_config: ExecProcess,
    pub open_stdin: bool,
    pub open_stderr: bool,
    pub open_stdout: bool,
    pub can_remove: bool,
    #[serde(rename = "ContainerID")]
    pub container_id: String,
    /// Base64 of the key bytes; empty is the default sequence.
    pub detach_keys: String,
    pub pid: i32,
}
