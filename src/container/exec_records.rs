//! The files of exec instances: one for each in `run/x`, and beside it the state file that the monitor writes.

use super::Places;
use crate::error::{Error, Result};
use crate::model::ExecConfig;
use coracle_monitor::wire::{EXEC_STATE_LEN, ExecState};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::Arc;

/// An exec instance as stored in its file.
#[derive(Serialize, Deserialize)]
pub(super) struct ExecRecord {
    pub container: String,
    pub config: ExecConfig,
}

/// The files of exec instances in `run/x`.
pub(crate) struct ExecRecords {
    pub(super) places: Arc<Places>,
}

impl ExecRecords {
    pub(super) fn exec_path(&self, id: &str) -> PathBuf {
        self.places.claim.run.join("x").join(id)
    }

    pub(super) fn exec_state_path(&self, id: &str) -> PathBuf {
        self.places.claim.run.join("x").join(format!("{id}.state"))
    }

    pub(super) fn record(&self, id: &str) -> Result<ExecRecord> {
        let known = id.len() == 64 && id.bytes().all(|b| b.is_ascii_hexdigit());
        let text = known.then(|| std::fs::read(self.exec_path(id)).ok()).flatten();
        let text = text.ok_or_else(|| Error::not_found(format!("No such exec instance: {id}")))?;
        crate::document::read(&text).map_err(|e| Error::corrupt(format!("exec instance {id}: {e}")))
    }

    /// The configuration of an exec instance.
    pub(crate) fn exec_config(&self, id: &str) -> Result<ExecConfig> {
        self.record(id).map(|record| record.config)
    }

    /// Claims the single start of an exec instance: the start that creates the state file has it.
    pub(super) fn claim_exec(&self, id: &str) -> Result<File> {
        let path = self.exec_state_path(id);
        match OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path) {
            // The container may have been removed after the instance was read.
            Ok(file) => self.record(id).map(|_| file).inspect_err(|_| drop(std::fs::remove_file(&path))),
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {
                let running = self.exec_state(id).is_some_and(|state| state.phase == 1);
                let what = if running { "is already running" } else { "has already run" };
                Err(Error::conflict(format!("Error: Exec command {id} {what}")))
            }
            Err(e) => Err(Error::io(format_args!("make {}", path.display()), &e)),
        }
    }

    pub(super) fn exec_state(&self, id: &str) -> Option<ExecState> {
        let file = File::open(self.exec_state_path(id)).ok()?;
        let mut bytes = [0; EXEC_STATE_LEN];
        (file.read_at(&mut bytes, 0).ok()? == EXEC_STATE_LEN).then(|| ExecState::from_bytes(&bytes)).flatten()
    }

    /// The exec instances whose ids end with the beginning of this container's id.
    pub(super) fn execs_of(&self, container: &str) -> Result<impl Iterator<Item = String>> {
        let head = head(container);
        Ok(self.exec_ids()?.into_iter().filter(move |id| id.ends_with(head)))
    }

    pub(super) fn exec_ids(&self) -> Result<Vec<String>> {
        let dir = self.places.claim.run.join("x");
        let entries = std::fs::read_dir(&dir).map_err(|e| Error::io(format_args!("list {}", dir.display()), &e))?;
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        Ok(names.filter(|name| name.len() == 64).collect())
    }

    /// Removes the exec instances of a removed container.
    pub(super) fn forget_execs(&self, container: &str) -> Result<()> {
        for id in self.execs_of(container)? {
            if self.record(&id).is_ok_and(|record| record.container == container) {
                self.forget_exec(&id);
            }
        }
        Ok(())
    }

    pub(super) fn forget_exec(&self, id: &str) {
        // In this order: without its state file the instance could be started once more.
        let _ = std::fs::remove_file(self.exec_path(id));
        let _ = std::fs::remove_file(self.exec_state_path(id));
    }
}

/// The part of an exec instance's id that comes from its container: the first 16 digits.
pub(super) fn head(container: &str) -> &str {
    container.get(..16).unwrap_or_default()
}
