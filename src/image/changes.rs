//! Build instructions as `changes`: what import and commit lay over a configuration.

use crate::buildfile::{Budget, Expander, of_env, parse_changes};
use crate::error::Result;
use crate::model::ContainerConfig;

/// Applies `changes` (each may hold several lines) to `config`.
///
/// Errors name the instruction: it is not one that may stand here, or its arguments are wrong.
pub(crate) fn apply(config: &mut ContainerConfig, changes: &[String]) -> Result<()> {
    let text = changes.join("\n");
    if text.trim().is_empty() {
        return Ok(());
    }
    let (instructions, escape) = parse_changes(&text)?;
    let mut cmd_set = false;
    for instruction in instructions {
        let env = config.env.clone().unwrap_or_default();
        let budget = Budget::new();
        budget.looks_in(&env);
        let expander = Expander { escape, look_up: &|name| of_env(&env, name), budget: &budget };
        instruction.apply(config, &mut cmd_set, &expander)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(changes: &[&str]) -> ContainerConfig {
        let mut config = ContainerConfig::default();
        apply(&mut config, &changes.iter().map(|c| (*c).to_string()).collect::<Vec<_>>()).unwrap();
        config
    }

    fn refused(change: &str) -> String {
        apply(&mut ContainerConfig::default(), &[change.into()]).unwrap_err().message().to_owned()
    }

    #[test]
    fn each_instruction_sets_its_field() {
        let config = applied(&[
            "ENV A=1 B=\"two words\"\nENV C the $A rest",
            "env A=3",
            "EXPOSE 80 100-101/udp",
            "LABEL a.b=c \"d e\"='f $A'",
            "USER app:app",
            "VOLUME [\"/x\", \"/y\"]",
            "VOLUME /z",
            "WORKDIR /srv",
            "WORKDIR data/../${B:-x}/w",
            "STOPSIGNAL SIGINT",
            "ONBUILD RUN true",
            "HEALTHCHECK --interval=1m30s --retries=3 CMD curl \\\n localhost",
            "ENTRYPOINT [\"/e\", \"-x\"]",
            "CMD echo \"$A\"",
        ]);
        assert_eq!(config.env.unwrap(), ["A=3", "B=two words", "C=the 1 rest"]);
        let ports: Vec<_> = config.exposed_ports.iter().collect();
        assert_eq!(ports, ["100/udp", "101/udp", "80/tcp"]);
        assert_eq!(config.labels["d e"], "f $A");
        assert_eq!(config.user, "app:app");
        assert_eq!(config.volumes.unwrap().keys().cloned().collect::<Vec<_>>(), ["/x", "/y", "/z"]);
        assert_eq!(config.working_dir, "/srv/two words/w");
        assert_eq!(config.stop_signal, "SIGINT");
        assert_eq!(config.on_build.unwrap(), ["RUN true"]);
        let check = config.healthcheck.unwrap();
        assert_eq!((check.interval, check.retries), (90_000_000_000, 3));
        assert_eq!(check.test, ["CMD-SHELL", "curl  localhost"]);
        assert_eq!(config.entrypoint.unwrap(), ["/e", "-x"]);
        assert_eq!(config.cmd.unwrap(), ["/bin/sh", "-c", "echo \"$A\""]);
    }

    #[test]
    fn an_entry_point_takes_an_older_command_away() {
        let mut config = ContainerConfig { cmd: Some(vec!["old".into()]), ..ContainerConfig::default() };
        apply(&mut config, &["SHELL [\"/bin/bash\"]\nENTRYPOINT run".into()]).unwrap();
        assert_eq!((config.cmd, config.entrypoint), (None, Some(vec!["/bin/bash".into(), "run".into()])));
    }

    #[test]
    fn errors_name_the_wrong_change() {
        assert_eq!(refused("foo bar"), "foo is not a valid change command");
        assert_eq!(refused("RUN x"), "run is not a valid change command");
        assert_eq!(refused("EXPOSE 70000"), "Invalid containerPort: 70000");
        assert_eq!(refused("EXPOSE 1/icmp"), "Invalid proto: icmp");
        assert_eq!(refused("ONBUILD FROM x"), "FROM isn't allowed as an ONBUILD trigger");
        for change in [
            "ENV A",
            "ENV A=1 B",
            "SHELL x",
            "HEALTHCHECK WHAT",
            "HEALTHCHECK --interval=1 CMD x",
            "LABEL a='x",
            "ENV A=${B",
            "EXPOSE 9-1",
        ] {
            assert!(!refused(change).is_empty(), "{change}");
        }
    }
}
