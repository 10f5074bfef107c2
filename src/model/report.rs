//! The needs of the library, and the host that meets them or not; launches in words.

use serde::{Deserialize, Serialize};

/// How far a host meets a need.
///
/// ```no_run
/// use coracle::model::NeedState;
///
/// let report = coracle::host_report(&coracle::Options::new("/var/lib/coracle"));
/// let missing = report.needs.iter().filter(|need| need.state == NeedState::Missing);
/// println!("{} needs are missing", missing.count());
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NeedState {
    /// Nothing is lost.
    #[default]
    Met,
    /// An engine works, with a loss.
    Reduced,
    /// No engine can be opened, or no container started.
    Missing,
}

/// One need of the library.
///
/// ```no_run
/// let report = coracle::host_report(&coracle::Options::new("/var/lib/coracle"));
/// for need in &report.needs {
///     println!("{}: {} {}", need.name, need.found, need.cure);
/// }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Need {
    /// `kernel`, `capabilities`, `cgroups`, `root`, `run directory`, `network` or `registries`.
    pub area: String,
    /// The call, the capability, the controller, the directory.
    pub name: String,
    /// How far it is met.
    pub state: NeedState,
    /// The host's own state, in words.
    pub found: String,
    /// The functions that do not work for it; empty if the need is met.
    pub loss: String,
    /// The command or the change that mends it; empty if the need is met.
    pub cure: String,
}

/// The answer of [`crate::host_report`].
///
/// ```no_run
/// let report = coracle::host_report(&coracle::Options::new("/var/lib/coracle"));
/// println!("Linux {}: {}", report.kernel, if report.ready { "ready" } else { "not ready" });
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct HostReport {
    /// The library's version.
    pub version: String,
    /// The kernel's release.
    pub kernel: String,
    /// Nothing is [`NeedState::Missing`].
    pub ready: bool,
    /// Every need, by area.
    pub needs: Vec<Need>,
}

/// One step of a launch plan.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// for step in engine.container_explain("clock")?.steps {
///     println!("{} {} {}", step.number, step.text, step.failed);
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct PlanStep {
    /// From 0, in the order of the launch.
    pub number: u32,
    /// The work of the step.
    pub text: String,
    /// The step at which the last start failed: the kernel's answer.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub failed: String,
}

/// A container's launch in words: see [`crate::Engine::container_explain`].
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// let plan = engine.container_explain("clock")?;
/// if !plan.error.is_empty() {
///     println!("{}: {} {}", plan.error, plan.failed_step, plan.errno_name);
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct LaunchPlan {
    /// The container's id.
    pub id: String,
    /// With a leading slash, as in inspect.
    pub name: String,
    /// In the order in which the container's first process and its monitor do them.
    pub steps: Vec<PlanStep>,
    /// Why the last start failed, as `State.Error`; empty: it did not fail.
    pub error: String,
    /// The step that failed, in words, also if it comes before or after those of the plan; empty: none failed.
    pub failed_step: String,
    /// The kernel's error number of that step; 0: the failure has none.
    pub errno: i32,
    /// The name of that number, such as `ENOENT`.
    pub errno_name: String,
}
