//! A container's launch in words: the steps of its plan, and what the kernel said to the one that failed last.

use super::{Finder, Planner, Snapshot};
use crate::error::Result;
use crate::launch::monitor::Failure;
use crate::launch::plan::{Plan, READ};
use crate::model::{LaunchPlan, PlanStep};

use std::sync::Arc;

/// Explains launches.
pub(crate) struct Explainer {
    pub(super) finder: Arc<Finder>,
    pub(super) planner: Arc<Planner>,
}

impl Explainer {
    /// The launch of a container, as it would be now.
    pub(crate) fn explain(&self, reference: &str) -> Result<LaunchPlan> {
        let found = self.finder.find(reference)?;
        let plan = self.planner.present_plan(&found)?;
        let failure = found.now.state.failure;
        let failed = failure != Failure::default();
        let answer = if failed { errno_text(failure.errno) } else { String::new() };
        let step = |(number, text): (usize, &String)| PlanStep {
            number: number as u32,
            text: text.clone(),
            failed: if failed && number as u32 == failure.step { answer.clone() } else { String::new() },
        };
        Ok(LaunchPlan {
            id: found.row.id.clone(),
            name: format!("/{}", found.row.name),
            error: self.planner.error_text(&found),
            failed_step: if failed { plan.step(failure.step).description } else { String::new() },
            errno: failure.errno,
            errno_name: if failure.errno == 0 { String::new() } else { errno_name(failure.errno) },
            // The monitor reads the others, and no process comes to them.
            steps: plan.steps.iter().enumerate().filter(|(_, text)| *text != READ).map(step).collect(),
        })
    }
}

impl Planner {
    /// The plan of a container with its present networks.
    pub(super) fn present_plan(&self, found: &Snapshot) -> Result<Plan> {
        let networks = self.networks.interfaces.load(&found.row.id)?;
        self.plan_again(found, &networks)
    }
}

fn errno_name(errno: i32) -> String {
    format!("{:?}", nix::errno::Errno::from_raw(errno))
}

/// The kernel's answer, such as `no such file or directory (ENOENT)`; `failed` without a number.
fn errno_text(errno: i32) -> String {
    match errno {
        0 => "failed".into(),
        _ => {
            let reason = std::io::Error::from_raw_os_error(errno).to_string();
            let reason = reason.split(" (os error").next().unwrap_or_default().to_lowercase();
            format!("{reason} ({})", errno_name(errno))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_number_is_told_by_words_and_name() {
        assert_eq!(errno_text(libc::ENOENT), "no such file or directory (ENOENT)");
        assert_eq!(errno_text(0), "failed");
    }
}
