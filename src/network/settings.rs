//! Settings of the host that forwarding needs: each changed only where it differs, with a record of what it was, so that
//! whoever ends using the networks leaves the host as it was found.

use super::Networks;
use crate::error::{Error, Result};
use crate::model::HostSetting;
use std::path::Path;

/// The files of `/proc/sys/net`.
const BASE: &str = "/proc/sys/net";

pub(super) fn get(key: &str) -> String {
    std::fs::read_to_string(format!("{BASE}/{key}")).unwrap_or_default().trim().to_owned()
}

/// Sets what differs; answers what it was before, where it did.
pub(super) fn set(key: &str, value: &str) -> Result<Option<String>> {
    let before = get(key);
    if before == value {
        return Ok(None);
    }
    let path = format!("{BASE}/{key}");
    std::fs::write(&path, value)
        .map_err(|e| Error::io(format_args!("write {value} to {path}"), &e).in_area("network"))?;
    Ok(Some(before))
}

impl Networks {
    /// What this root's programs changed of the host since it was booted, with the values from before. Interfaces' own
    /// settings are not among them: they go with the interface.
    pub(crate) fn changed_settings(&self) -> Vec<HostSetting> {
        let text = std::fs::read(self.settings_path()).unwrap_or_default();
        let all: Vec<HostSetting> = serde_json::from_slice(&text).unwrap_or_default();
        let now = |setting: HostSetting| HostSetting { now: get(&setting.name), ..setting };
        all.into_iter().map(now).collect()
    }

    /// Changes a setting of the whole host. Under [`Networks::lock`].
    pub(super) fn change_setting(&self, key: &str, value: &str) -> Result<()> {
        let before = get(key);
        if before != value {
            let mut all = self.changed_settings();
            // The oldest value counts: it is the host's own.
            if all.iter().all(|setting| setting.name != key) {
                all.push(HostSetting { name: key.into(), before, set: value.into(), now: String::new() });
            }
            // Before it is done: what is recorded and was not done is not given back either.
            self.write_settings(&all)?;
            set(key, value)?;
        }
        Ok(())
    }

    /// Gives the host back what was changed, but for what somebody changed since. Under [`Networks::lock`].
    pub(super) fn restore_settings(&self) -> Result<()> {
        let changed = self.changed_settings();
        if changed.is_empty() {
            return Ok(());
        }
        for setting in changed.iter().rev().filter(|setting| setting.now == setting.set) {
            set(&setting.name, &setting.before)?;
        }
        match std::fs::remove_file(self.settings_path()) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(Error::io("remove the record of settings", &e)),
            _ => Ok(()),
        }
    }

    fn write_settings(&self, all: &[HostSetting]) -> Result<()> {
        let path = self.settings_path();
        let staged = path.with_extension("new");
        let text = serde_json::to_vec(all).map_err(|e| Error::internal(format!("write the settings: {e}")))?;
        let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        made.and_then(|()| std::fs::write(&staged, text))
            .and_then(|()| std::fs::rename(&staged, &path))
            .map_err(|e| Error::io(format_args!("write {}", path.display()), &e))
    }

    fn settings_path(&self) -> std::path::PathBuf {
        self.run.join("net/settings")
    }
}

/// A host that forwards does not listen to routers any more, unless it is told to: those interfaces that do, go on.
pub(super) fn forward_v6(networks: &Networks) -> Result<()> {
    if get("ipv6/conf/all/forwarding") == "1" {
        return Ok(());
    }
    for entry in std::fs::read_dir(Path::new(BASE).join("ipv6/conf")).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let key = format!("ipv6/conf/{name}/accept_ra");
        if name != "all" && get(&key) == "1" {
            networks.change_setting(&key, "2")?;
        }
    }
    networks.change_setting("ipv6/conf/all/forwarding", "1")
}
