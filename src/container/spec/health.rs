//! The health check in its decided form.

use super::Spec;
use crate::model::Healthcheck;
use std::time::Duration;

const DEFAULT_INTERVAL: Duration = Duration::from_secs(30);
const DEFAULT_START_INTERVAL: Duration = Duration::from_secs(5);
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
const DEFAULT_RETRIES: u32 = 3;
const DEFAULT_SHELL: [&str; 2] = ["/bin/sh", "-c"];

/// The command of a health check, and how its results are judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HealthCheck {
    pub argv: Vec<String>,
    /// The time from the start, or from the end of the previous check.
    pub interval: Duration,
    /// The time after which a check is killed and counts as failed.
    pub timeout: Duration,
    /// Failures within this time after the start do not count, until a first success.
    pub start_period: Duration,
    /// The interval within the start period, until a check succeeds.
    pub start_interval: Duration,
    /// The number of consecutive failures that mean unhealthy.
    pub retries: u32,
}

/// The container's health check; `None`: it has none, disables it, or uses an unknown form.
pub(crate) fn health_check(spec: &Spec) -> Option<HealthCheck> {
    let check = spec.config.healthcheck.as_ref()?;
    let (form, words) = check.test.split_first()?;
    let argv: Vec<String> = match form.as_str() {
        "CMD" => words.to_vec(),
        "CMD-SHELL" => {
            let default = || DEFAULT_SHELL.map(String::from).to_vec();
            let shell = spec.config.shell.clone().filter(|shell| !shell.is_empty()).unwrap_or_else(default);
            shell.into_iter().chain(words.iter().cloned()).collect()
        }
        _ => return None,
    };
    let time = |ns: i64, default| match u64::try_from(ns) {
        Ok(0) | Err(_) => default,
        Ok(ns) => Duration::from_nanos(ns),
    };
    let interval = time(check.interval, DEFAULT_INTERVAL);
    (!argv.is_empty()).then(|| HealthCheck {
        argv,
        interval,
        timeout: time(check.timeout, DEFAULT_TIMEOUT),
        start_period: time(check.start_period, Duration::ZERO),
        start_interval: time(check.start_interval, DEFAULT_START_INTERVAL.min(interval)),
        retries: u32::try_from(check.retries).ok().filter(|&retries| retries > 0).unwrap_or(DEFAULT_RETRIES),
    })
}

/// Warns of a check that looks wanted, but will not run.
pub(super) fn warning(check: Option<&Healthcheck>) -> Option<String> {
    let check = check?;
    match check.test.first().map(String::as_str) {
        None | Some("NONE") => None,
        Some("CMD" | "CMD-SHELL") if check.test.len() > 1 => None,
        Some(form @ ("CMD" | "CMD-SHELL")) => {
            Some(format!("Healthcheck: {form} without a command: the container's health is not checked."))
        }
        Some(form) => Some(format!("Unknown healthcheck type '{form}' (expected 'CMD'): health is not checked.")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(config: serde_json::Value) -> Option<HealthCheck> {
        health_check(&Spec { config: serde_json::from_value(config).unwrap(), ..Spec::default() })
    }

    #[test]
    fn all_forms_of_a_test() {
        let argv = |test: &[&str]| check(serde_json::json!({ "Healthcheck": { "Test": test } })).map(|c| c.argv);
        assert_eq!(argv(&["CMD", "a", "b c"]), Some(vec!["a".into(), "b c".into()]));
        assert_eq!(argv(&["CMD-SHELL", "a b"]), Some(vec!["/bin/sh".into(), "-c".into(), "a b".into()]));
        for none in [&[][..], &["NONE"], &["CMD"], &["WHAT", "x"]] {
            assert_eq!(argv(none), None, "{none:?}");
        }
        assert_eq!(check(serde_json::json!({})), None);
        let own =
            check(serde_json::json!({ "Shell": ["/bin/ash", "-ec"], "Healthcheck": { "Test": ["CMD-SHELL", "x"] } }));
        assert_eq!(own.unwrap().argv, ["/bin/ash", "-ec", "x"]);
    }

    #[test]
    fn omitted_fields_of_a_health_check_have_defaults() {
        let test = serde_json::json!({ "Healthcheck": { "Test": ["CMD", "x"] } });
        let got = check(test).unwrap();
        assert_eq!(
            (got.interval.as_secs(), got.timeout.as_secs(), got.start_period.as_secs(), got.retries),
            (30, 30, 0, 3)
        );
        let said = serde_json::json!({ "Healthcheck":
            { "Test": ["CMD", "x"], "Interval": 1_000_000, "Timeout": 2_000_000, "StartPeriod": 3_000_000, "Retries": 4 } });
        let got = check(said).unwrap();
        assert_eq!(
            (got.interval.as_millis(), got.timeout.as_millis(), got.start_period.as_millis(), got.retries),
            (1, 2, 3, 4)
        );
    }
}
