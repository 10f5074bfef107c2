//! Numbers about an engine and its root.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write;

/// How often one kind of work was done.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// for operation in engine.metrics()?.operations {
///     println!("{}: {} done, {} failed, {} s", operation.operation, operation.done, operation.failed, operation.seconds);
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct OperationMetrics {
    /// The kind of work, such as `start` or `pull`.
    pub operation: String,
    /// How often it was done.
    pub done: u64,
    /// How often it failed.
    pub failed: u64,
    /// The time of all, in seconds.
    pub seconds: f64,
}

/// The answer of [`crate::Engine::metrics`].
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// print!("{}", engine.metrics()?.to_prometheus());
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Metrics {
    /// The library's version.
    pub version: String,
    /// How many containers there are in each state: `created`, `starting`, `running`, `paused`, `restarting`, `exited`.
    pub containers: BTreeMap<String, u64>,
    /// How often restart policies started the containers that are there.
    pub restarts: u64,
    /// Lines of output that the logs of these containers lost.
    pub log_lost: u64,
    /// Images that a list shows.
    pub images: u64,
    /// Bytes of the files of all layers.
    pub layer_bytes: u64,
    /// The work of this engine since it was opened; another program's engine on the same root counts its own.
    pub operations: Vec<OperationMetrics>,
    /// Followers of events through this engine.
    pub event_listeners: u64,
}

impl Metrics {
    /// The text that Prometheus reads (format 0.0.4).
    #[must_use]
    pub fn to_prometheus(&self) -> String {
        let mut text = String::new();
        head(&mut text, "coracle_info", "gauge", "The library's version.");
        let _ = writeln!(text, "coracle_info{{version=\"{}\"}} 1", self.version);
        head(&mut text, "coracle_containers", "gauge", "Containers by state.");
        for (state, count) in &self.containers {
            let _ = writeln!(text, "coracle_containers{{state=\"{state}\"}} {count}");
        }
        for (name, kind, about, value) in [
            (
                "coracle_container_restarts",
                "gauge",
                "Starts by restart policies of containers that are there.",
                self.restarts,
            ),
            ("coracle_container_log_lost_lines", "gauge", "Lines that logs of containers lost.", self.log_lost),
            ("coracle_images", "gauge", "Images.", self.images),
            ("coracle_layer_bytes", "gauge", "Bytes of the files of all layers.", self.layer_bytes),
            ("coracle_event_listeners", "gauge", "Followers of events through this engine.", self.event_listeners),
        ] {
            head(&mut text, name, kind, about);
            let _ = writeln!(text, "{name} {value}");
        }
        self.operations_to(&mut text);
        text
    }

    fn operations_to(&self, text: &mut String) {
        head(text, "coracle_operations_total", "counter", "Requests that changed something, by result.");
        for one in &self.operations {
            for (result, count) in [("ok", one.done), ("error", one.failed)] {
                let name = &one.operation;
                let _ = writeln!(text, "coracle_operations_total{{operation=\"{name}\",result=\"{result}\"}} {count}");
            }
        }
        head(text, "coracle_operation_seconds_total", "counter", "The time of these requests.");
        for one in &self.operations {
            let (name, seconds) = (&one.operation, one.seconds);
            let _ = writeln!(text, "coracle_operation_seconds_total{{operation=\"{name}\"}} {seconds}");
        }
    }
}

fn head(text: &mut String, name: &str, kind: &str, about: &str) {
    let _ = write!(text, "# HELP {name} {about}\n# TYPE {name} {kind}\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_has_a_head_for_each_name_and_a_line_for_each_value() {
        let operations = vec![OperationMetrics { operation: "start".into(), done: 2, failed: 1, seconds: 0.5 }];
        let containers = BTreeMap::from([("running".to_owned(), 3)]);
        let text = Metrics { containers, operations, layer_bytes: 7, ..Metrics::default() }.to_prometheus();
        for line in [
            "# TYPE coracle_containers gauge\ncoracle_containers{state=\"running\"} 3\n",
            "coracle_layer_bytes 7\n",
            "coracle_operations_total{operation=\"start\",result=\"error\"} 1\n",
            "coracle_operation_seconds_total{operation=\"start\"} 0.5\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
        let names = text.lines().filter(|line| line.starts_with("# TYPE")).count();
        assert_eq!(names, text.lines().filter(|line| line.starts_with("# HELP")).count());
    }
}
