//! Checks the options before anything is opened.

use crate::container::spec;
use crate::error::{Error, Result};
use crate::managed;
use crate::model::{HostConfig, LogConfig};
use crate::options::Options;
use crate::plugin::Plugins;

impl Options {
    /// Checks the defaults of containers. Opens nothing, except that it reads the list of managed plugins for a log driver of another name. An open accepts wrong ones, and then refuses each create.
    ///
    /// Errors: the first setting that is wrong, with its name: `log_driver`, `log_options`, `cgroup_parent`, `labels`.
    pub fn check(&self) -> Result<()> {
        let log = LogConfig { kind: self.log_driver.clone(), config: self.log_options.clone() };
        spec::log_driver(&log).map_err(|error| error.context("log_driver, log_options"))?;
        let known = spec::is_built_in(&log.kind)
            || Plugins::new(&self.plugin_dirs).is_there(&log.kind)
            || managed::is_enabled_in(&self.root, &log.kind)?;
        if !known {
            return Err(spec::unknown_log_driver(&log.kind).context("log_driver, log_options"));
        }
        let mut host = HostConfig::default();
        host.resources.cgroup_parent = self.cgroup_parent.clone();
        spec::cgroup_parent(&host, "/").map_err(|error| error.context("cgroup_parent"))?;
        match self.labels.iter().find(|label| !label.contains('=') || label.starts_with('=')) {
            Some(label) => Err(Error::invalid(format!("labels: {label:?} is not of the form NAME=VALUE"))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_wrong_option() {
        let wrong = |change: fn(&mut Options)| {
            let mut options = Options::new("/nowhere");
            options.check().unwrap();
            change(&mut options);
            options.check().unwrap_err().message().to_owned()
        };
        let quill = wrong(|options| options.log_driver = "quill".into());
        assert_eq!(quill, "log_driver, log_options: logger: no log driver named 'quill' is registered");
        let wide = wrong(|options| drop(options.log_options.insert("max-size".into(), "wide".into())));
        assert!(wide.starts_with("log_driver, log_options: ") && wide.contains("wide"), "{wide}");
        let parent = wrong(|options| options.cgroup_parent = "a\0b".into());
        assert!(parent.starts_with("cgroup_parent: "), "{parent}");
        for label in ["plain", "=value"] {
            let mut options = Options::new("/nowhere");
            options.labels = vec!["good=1".into(), label.into()];
            let error = options.check().unwrap_err();
            assert_eq!(error.message(), format!("labels: {label:?} is not of the form NAME=VALUE"));
        }
    }
}
