//! A host configuration, and the values that a start needs in their decided form.

use super::log::{LogDriver, log_driver};
use super::modes::Modes;
use super::ports::HoldsPorts;
use super::restart::{RestartPolicy, restart_policy};
use crate::error::Result;
use crate::model::{HostConfig, LogConfig, PortMap};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::ops::Deref;

/// A host configuration with its decided values. Only the configuration is stored; a document from which a value does not
/// follow is damaged.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct DecidedHost {
    config: HostConfig,
    modes: Modes,
    log: LogDriver,
    restart: RestartPolicy,
}

impl DecidedHost {
    /// Errors: a text is not a mode, no restart policy, no log driver or none of its options.
    pub(crate) fn of(config: HostConfig) -> Result<DecidedHost> {
        Ok(DecidedHost {
            modes: Modes::of(&config)?,
            log: decided_log(&config.log_config)?,
            restart: restart_policy(&config.restart_policy)?,
            config,
        })
    }

    pub(crate) fn modes(&self) -> &Modes {
        &self.modes
    }

    pub(crate) fn log(&self) -> &LogDriver {
        &self.log
    }

    pub(crate) fn restart(&self) -> RestartPolicy {
        self.restart
    }

    /// Applies a change to this configuration. Errors: as of [`DecidedHost::of`].
    pub(crate) fn changed(mut self, change: impl FnOnce(&mut HostConfig)) -> Result<DecidedHost> {
        change(&mut self.config);
        DecidedHost::of(self.config)
    }
}

/// The driver of a configuration. A configuration that names none has `json-file` without options: a create writes the
/// engine's driver into it, so this is the rest of a damaged document.
fn decided_log(config: &LogConfig) -> Result<LogDriver> {
    match config.kind.is_empty() {
        true => Ok(LogDriver::default()),
        false => log_driver(config),
    }
}

impl Deref for DecidedHost {
    type Target = HostConfig;

    fn deref(&self) -> &HostConfig {
        &self.config
    }
}

impl Serialize for DecidedHost {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        self.config.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for DecidedHost {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<DecidedHost, D::Error> {
        DecidedHost::of(HostConfig::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

impl HoldsPorts for DecidedHost {
    type Ports = PortMap;

    fn ports(&self) -> &PortMap {
        &self.config.port_bindings
    }

    fn ports_mut(&mut self) -> &mut PortMap {
        &mut self.config.port_bindings
    }
}

#[cfg(test)]
mod tests {
    use super::super::{IpcMode, NetworkMode, UtsMode};
    use super::*;

    #[test]
    fn the_stored_document_keeps_the_texts() {
        let read = |text: &str| serde_json::from_str::<DecidedHost>(text);
        let host = read(r#"{"NetworkMode":"default","PidMode":"container:a","UTSMode":"host"}"#).unwrap();
        assert_eq!((&host.modes().network, host.modes().uts), (&NetworkMode::Default, UtsMode::Host));
        let config = HostConfig {
            network_mode: "default".into(),
            pid_mode: "container:a".into(),
            uts_mode: "host".into(),
            ..HostConfig::default()
        };
        assert_eq!(serde_json::to_string(&host).unwrap(), serde_json::to_string(&config).unwrap());
        let error = read(r#"{"PidMode":"zz"}"#).unwrap_err();
        assert!(error.to_string().starts_with("invalid PID mode: zz"), "{error}");
        for (bad, why) in [
            (r#"{"RestartPolicy":{"Name":"zz"}}"#, "invalid restart policy 'zz'"),
            (r#"{"LogConfig":{"Type":"../zz"}}"#, "logger: no log driver named '../zz' is registered"),
        ] {
            let error = read(bad).unwrap_err();
            assert!(error.to_string().starts_with(why), "{error}");
        }
    }

    #[test]
    fn log_and_restart_policy_are_decided_with_the_document() {
        let host = DecidedHost::default();
        assert_eq!((host.log(), host.restart()), (&LogDriver::default(), RestartPolicy::No));
        let changed = host.changed(|host| {
            host.restart_policy = crate::model::RestartPolicy { name: "on-failure".into(), maximum_retry_count: 2 };
            host.log_config.kind = "none".into();
        });
        let changed = changed.unwrap();
        assert_eq!((changed.log(), changed.restart()), (&LogDriver::None, RestartPolicy::OnFailure { max: Some(2) }));
    }

    #[test]
    fn text_and_mode_change_together() {
        let host = DecidedHost::default();
        let joined = host.clone().changed(|host| host.ipc_mode = "container:a".into()).unwrap();
        assert_eq!((joined.ipc_mode.as_str(), &joined.modes().ipc), ("container:a", &IpcMode::Container("a".into())));
        assert!(host.changed(|host| host.ipc_mode = "zz".into()).is_err());
    }
}
