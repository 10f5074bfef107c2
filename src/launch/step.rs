//! A step of a launch, as the error of a failed launch needs it: its description, and the operation behind it.

use super::plan::Plan;
use coracle_monitor::ops::{self, Op, Text};
use coracle_monitor::wire::*;

/// A step of a launch.
#[derive(Debug)]
pub(crate) struct Step {
    pub description: String,
    pub operation: Operation,
}

/// The operation of a step, if its failure has an error of its own.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Opens the container's own `/dev/null`, or its terminal.
    Streams,
    /// Sets the AppArmor profile of this name.
    Profile(String),
    /// Sets the SELinux label.
    Label(String),
    /// Changes to the working directory.
    Directory(String),
    /// Executes the program.
    Exec,
    Other,
}

impl Step {
    /// A step without an operation in a plan.
    pub(crate) fn described(description: impl Into<String>) -> Step {
        Step { description: description.into(), operation: Operation::Other }
    }
}

impl Plan {
    /// The step with this number: an operation of the plan, or a step of the monitor's own (`STEP_*`).
    pub(crate) fn step(&self, number: u32) -> Step {
        match own_step(number) {
            Some(description) => Step::described(description),
            None => Step { description: self.description(number), operation: self.operation(number) },
        }
    }

    fn description(&self, number: u32) -> String {
        self.steps.get(number as usize).cloned().unwrap_or_else(|| format!("step {number}"))
    }

    fn operation(&self, number: u32) -> Operation {
        let Ok(plan) = ops::Plan::check(&self.bytes) else { return Operation::Other };
        match plan.ops().find(|(index, _)| *index == number) {
            Some((_, op)) => Operation::of(op),
            None => Operation::Other,
        }
    }
}

impl Operation {
    fn of(op: Op<'_>) -> Operation {
        match op {
            Op::Stdio(_) => Operation::Streams,
            Op::Profile(ops::Profile { word, .. }) => Operation::Profile(profile_of(word)),
            Op::ChangeProfile(ops::ChangeProfile { word }) => Operation::Profile(profile_of(word)),
            Op::Label(ops::Label { label }) => Operation::Label(text(label)),
            Op::Chdir(ops::Chdir { path }) => Operation::Directory(path_of(path)),
            Op::Workdir(ops::Workdir { path }) => Operation::Directory(path_of(path)),
            Op::Exec(_) => Operation::Exec,
            _ => Operation::Other,
        }
    }
}

/// The profile's name in a word of the kernel's interface: `exec NAME`, `changeprofile NAME`.
fn profile_of(word: &[u8]) -> String {
    let word = text(word);
    word.split_once(' ').map_or(word.clone(), |(_, name)| name.to_owned())
}

fn path_of(path: Text<'_>) -> String {
    text(path.bytes())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The description of a step that is not in the plan.
fn own_step(number: u32) -> Option<String> {
    Some(match number {
        STEP_CLONE => "make the container's namespaces".into(),
        STEP_MONITOR => "set up the container's monitor".into(),
        STEP_LOST => "start the process: it ended before it could report".into(),
        STEP_LATE => format!("start the process: a step of it took more than {STEP_LIMIT_S} seconds"),
        STEP_HELD => format!(
            "start the process: it was stopped in the container, and did not come to its program for {APPEARANCE_LIMIT_S} seconds"
        ),
        STEP_CGROUP_JOIN => "join the container's cgroups".into(),
        STEP_WORKER => {
            "take the rights (seccomp, capabilities, the root) from the process that reads the container's output"
                .into()
        }
        STEP_PLAN => "read the plan".into(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use coracle_monitor::encode::{Closed, PlanWriter};

    #[test]
    fn a_step_has_the_operation_of_the_plan() {
        let mut plan = PlanWriter::new();
        let path = Closed::of("/srv");
        plan.push(ops::Profile { required: true, word: b"exec my profile" }, "apply the profile");
        plan.push(ops::ChangeProfile { word: b"changeprofile other" }, "apply the other profile");
        plan.push(ops::Keyring {}, "make a session keyring");
        plan.push(ops::Workdir { path: path.text() }, "change to /srv");
        let (bytes, steps) = plan.finish(Header { flags: 0, rows: 0, cols: 0, ..super::super::plan::empty_header() });
        let plan = Plan { bytes, steps };
        let step = |number: u32| plan.step(number).operation;
        assert_eq!(step(0), Operation::Profile("my profile".into()));
        assert_eq!(step(1), Operation::Profile("other".into()));
        assert_eq!(step(2), Operation::Other);
        assert_eq!(step(3), Operation::Directory("/srv".into()));
        assert_eq!(plan.step(3).description, "change to /srv");
        assert_eq!((plan.step(4).description.as_str(), step(4)), ("step 4", Operation::Other));
        assert_eq!(plan.step(STEP_CLONE).description, "make the container's namespaces");
    }
}
