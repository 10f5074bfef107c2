//! The settings of a plugin: `NAME[.FIELD][=VALUE]`, as dockerd reads them.

use super::config::Config;
use crate::error::{Error, Result};
use crate::model::PluginSettings;

/// One change.
struct Setting<'a> {
    name: &'a str,
    field: &'a str,
    value: &'a str,
}

impl Setting<'_> {
    fn parse(text: &str) -> Result<Setting<'_>> {
        let (key, value) = text.split_once('=').unwrap_or((text, ""));
        let (name, field) = key.rsplit_once('.').unwrap_or((key, ""));
        match name.is_empty() {
            true => Err(Error::internal("invalid format, must be <name>[.<field>][=<value>]")),
            false => Ok(Setting { name, field, value }),
        }
    }

    /// Checks that the configuration lets a field be set; without a field it is the first one that the kind has.
    fn allowed(&self, settable: Option<&Vec<String>>, field: &str) -> Result<()> {
        let asked = if self.field.is_empty() { field } else { self.field };
        match asked == field && settable.is_some_and(|fields| fields.iter().any(|one| one == field)) {
            true => Ok(()),
            false => {
                let dot = if self.field.is_empty() { "" } else { "." };
                Err(Error::internal(format!("\"{}{dot}{}\" is not settable", self.name, self.field)))
            }
        }
    }
}

/// Changes settings. Errors: one of them is not in the configuration, or cannot be set; then nothing is changed.
pub(super) fn set(config: &Config, settings: &PluginSettings, changes: &[String]) -> Result<PluginSettings> {
    let mut new = settings.clone();
    for change in changes {
        set_one(config, &mut new, &Setting::parse(change)?)?;
    }
    Ok(new)
}

fn set_one(config: &Config, settings: &mut PluginSettings, one: &Setting<'_>) -> Result<()> {
    if let Some(variable) = config.env.iter().find(|variable| variable.name == one.name) {
        one.allowed(variable.settable.as_ref(), "value")?;
        let text = format!("{}={}", one.name, one.value);
        let prefix = format!("{}=", one.name);
        match settings.env.iter_mut().find(|old| old.starts_with(&prefix)) {
            Some(old) => *old = text,
            None => settings.env.push(text),
        }
        return Ok(());
    }
    if let Some(mount) = settings.mounts.iter_mut().find(|mount| mount.name == one.name) {
        one.allowed(mount.settable.as_ref(), "source")?;
        mount.source = Some(one.value.to_owned());
        return Ok(());
    }
    if let Some(device) = settings.devices.iter_mut().find(|device| device.name == one.name) {
        one.allowed(device.settable.as_ref(), "path")?;
        device.path = Some(one.value.to_owned());
        return Ok(());
    }
    if config.args.name == one.name {
        one.allowed(config.args.settable.as_ref(), "value")?;
        settings.args = one.value.split(' ').map(str::to_owned).collect();
        return Ok(());
    }
    Err(Error::internal(format!("setting {:?} not found in the plugin configuration", one.name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_change_what_the_configuration_allows() {
        let config = Config::read(
            br#"{"entrypoint":["/a"],"interface":{"socket":"a.sock"},"env":[{"name":"DEBUG","value":"0","settable":["value"]},
            {"name":"FIXED","value":"1"}],"args":{"name":"args","settable":["value"]},"mounts":[{"name":"state",
            "settable":["source"]}],"linux":{"devices":[{"name":"fuse","settable":["path"]}]}}"#,
        )
        .unwrap();
        let all = ["DEBUG=1", "state.source=/var", "fuse.path=/dev/zero", "args=-y -z"].map(str::to_owned);
        let new = set(&config, &config.settings(), &all).unwrap();
        assert_eq!((new.env, new.args), (vec!["DEBUG=1".into(), "FIXED=1".into()], vec!["-y".into(), "-z".into()]));
        assert_eq!(
            (new.mounts[0].source.as_deref(), new.devices[0].path.as_deref()),
            (Some("/var"), Some("/dev/zero"))
        );
        for (change, words) in [
            ("FIXED=2", "\"FIXED\" is not settable"),
            ("NOPE=1", "setting \"NOPE\" not found in the plugin configuration"),
            ("state.destination=/x", "\"state.destination\" is not settable"),
            ("a.b.c=1", "setting \"a.b\" not found in the plugin configuration"),
            ("=1", "invalid format, must be <name>[.<field>][=<value>]"),
        ] {
            let error = set(&config, &config.settings(), &[change.to_owned()]).unwrap_err();
            assert_eq!(error.message(), words);
        }
        assert_eq!(set(&config, &config.settings(), &["DEBUG".to_owned()]).unwrap().env[0], "DEBUG=");
    }
}
