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
        let error = self.planner.error_text(&found);
        let failed_at = failed.then(|| failed_step(&plan, failure.step, &error));
        let step = |(number, text): (usize, &String)| PlanStep {
            number: number as u32,
            text: text.clone(),
            failed: if failed_at == Some(number as u32) { answer.clone() } else { String::new() },
        };
        Ok(LaunchPlan {
            id: found.row.id.clone(),
            name: format!("/{}", found.row.name),
            error,
            failed_step: failed_at.map_or_else(String::new, |at| plan.step(at).description),
            errno: failure.errno,
            errno_name: if failure.errno == 0 { String::new() } else { errno_name(failure.errno) },
            // The monitor reads the others, and no process comes to them.
            steps: plan.steps.iter().enumerate().filter(|(_, text)| *text != READ).map(step).collect(),
        })
    }
}

/// The step of the present plan that failed. The start's plan may have had other numbers: the first start of a host makes
/// control groups that are there later. So the error's text says which step it was; the number does where the text names
/// none.
fn failed_step(plan: &Plan, number: u32, error: &str) -> u32 {
    let names_it = |text: &String| error.strip_prefix(text.as_str()).is_some_and(|rest| rest.starts_with(':'));
    match plan.steps.iter().position(names_it) {
        Some(at) => at as u32,
        None => number,
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
    fn the_error_says_which_step_failed() {
        let steps = ["bind /a to /b", "bind /a to /bc", "become user"].map(str::to_owned).to_vec();
        let plan = Plan { steps, ..Plan::default() };
        assert_eq!(failed_step(&plan, 9, "bind /a to /bc: not a directory"), 1);
        assert_eq!(failed_step(&plan, 2, "exec: \"x\": not found"), 2);
    }

    #[test]
    fn an_error_number_is_told_by_words_and_name() {
        assert_eq!(errno_text(libc::ENOENT), "no such file or directory (ENOENT)");
        assert_eq!(errno_text(0), "failed");
    }
}
