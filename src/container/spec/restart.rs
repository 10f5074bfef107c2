//! When a container is started again by its monitor.

use crate::error::{Error, Result};
use crate::model;

/// The restart policy in its decided form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RestartPolicy {
    #[default]
    No,
    Always,
    /// After an exit code other than 0, at most this many times (`None`: without bound).
    OnFailure {
        max: Option<u32>,
    },
    /// Always, but not after a boot if a user stopped the container.
    UnlessStopped,
}

/// Reads a request's policy. Errors: unknown name, a count that does not fit.
pub(crate) fn restart_policy(policy: &model::RestartPolicy) -> Result<RestartPolicy> {
    let count = policy.maximum_retry_count;
    let decided = match policy.name.as_str() {
        "" => return Ok(RestartPolicy::No),
        "on-failure" if count < 0 => return Err(Error::invalid("maximum retry count cannot be negative")),
        "on-failure" => {
            let max = u32::try_from(count).unwrap_or(u32::MAX);
            return Ok(RestartPolicy::OnFailure { max: (max > 0).then_some(max) });
        }
        "no" => RestartPolicy::No,
        "always" => RestartPolicy::Always,
        "unless-stopped" => RestartPolicy::UnlessStopped,
        name => return Err(Error::invalid(format!("invalid restart policy '{name}'"))),
    };
    match count {
        0 => Ok(decided),
        _ => Err(Error::invalid(format!("maximum retry count cannot be used with restart policy '{}'", policy.name))),
    }
}
