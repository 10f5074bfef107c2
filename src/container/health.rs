//! Health checks: the command for the monitor, and the results.

use super::text::{Health as Status, format_time};
use super::{Snapshot, Views, failure, spec};

use crate::launch::plan;
use crate::model::{Health, HealthResult, HealthSummary};
use coracle_monitor::wire::{self, *};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// How often the results are read again because the monitor wrote meanwhile.
const TRIES: usize = 100;

impl Views {
    /// `State.Health` of inspect.
    pub(super) fn health(&self, found: &Snapshot) -> Option<Health> {
        let check = spec::health_check(&found.spec)?;
        let state = &found.now.state;
        if status(found) == Status::None {
            return None;
        }
        let log = self.results(found).into_iter().map(|(result, output)| HealthResult {
            start: format_time(result.start_ns),
            end: format_time(result.end_ns),
            exit_code: result.exit_code,
            output: self.output_text(found, &check, &result, &output),
        });
        Some(Health { status: word(status(found)).into(), failing_streak: state.failing_streak, log: log.collect() })
    }

    fn output_text(
        &self,
        found: &Snapshot,
        check: &spec::HealthCheck,
        result: &wire::HealthResult,
        output: &[u8],
    ) -> String {
        if result.failure.detail == DETAIL_TIMEOUT {
            return format!("Health check exceeded timeout ({})", duration_text(check.timeout));
        }
        if result.failure != Failure::default() {
            let plan = self.planner.check_plan(found, check).map(|exec| plan::compile_exec(&exec)).unwrap_or_default();
            let step = plan.step(result.failure.step);
            let program = check.argv.first().map_or("", String::as_str);
            let failed = failure::explain(result.failure, &step, program, &found.spec.config.user, &[]);
            return failed.error.message().to_owned();
        }
        let more = if result.output as usize > output.len() { "..." } else { "" };
        format!("{}{more}", String::from_utf8_lossy(output))
    }

    /// The last results with their output, oldest first.
    fn results(&self, found: &Snapshot) -> Vec<(wire::HealthResult, Vec<u8>)> {
        let Ok(file) = File::open(self.places.run_dir(&found.row.id).join(HEALTH_FILE)) else { return Vec::new() };
        for _ in 0..TRIES {
            let before = count(&file);
            let from = before.saturating_sub(HEALTH_KEPT);
            let results = (from..before).filter_map(|number| result(&file, number)).collect();
            if count(&file) == before {
                return results;
            }
        }
        Vec::new()
    }
}

fn count(file: &File) -> u64 {
    let mut bytes = [0; HEALTH_HEAD];
    file.read_exact_at(&mut bytes, 0).map_or(0, |()| u64::from_le_bytes(bytes))
}

fn result(file: &File, number: u64) -> Option<(wire::HealthResult, Vec<u8>)> {
    let at = HEALTH_HEAD as u64 + number % HEALTH_SLOTS * HEALTH_SLOT_LEN as u64;
    let mut bytes = [0; HEALTH_RESULT_LEN];
    file.read_exact_at(&mut bytes, at).ok()?;
    let result = wire::HealthResult::from_bytes(bytes);
    let mut output = vec![0; (result.output as usize).min(HEALTH_OUTPUT)];
    file.read_exact_at(&mut output, at + HEALTH_RESULT_LEN as u64).ok()?;
    Some((result, output))
}

/// A container's current health. A container with a check that does not run is unhealthy, as in dockerd. The health is
/// unknown if the monitor is older than health checks.
pub(super) fn status(found: &Snapshot) -> Status {
    if found.now.state.started_ns == 0 || spec::health_check(&found.spec).is_none() {
        return Status::None;
    }
    match found.now.state.health {
        HEALTH_STARTING if found.now.is_live() => Status::Starting,
        HEALTH_HEALTHY if found.now.is_live() => Status::Healthy,
        HEALTH_NONE if found.now.is_live() => Status::None,
        _ => Status::Unhealthy,
    }
}

fn word(status: Status) -> &'static str {
    match status {
        Status::None => "none",
        Status::Starting => "starting",
        Status::Healthy => "healthy",
        Status::Unhealthy => "unhealthy",
    }
}

/// `Health` of a list item.
pub(super) fn summary(found: &Snapshot) -> HealthSummary {
    let status = status(found);
    let streak = if status == Status::None { 0 } else { found.now.state.failing_streak };
    HealthSummary { status: word(status).into(), failing_streak: streak }
}

/// A duration as Go spells it, in milliseconds: `1m30s`, `1.5s`, `20ms`.
fn duration_text(time: Duration) -> String {
    let millis = time.as_millis();
    if millis < 1000 {
        return format!("{millis}ms");
    }
    let (hours, minutes, rest) = (millis / 3_600_000, millis / 60_000 % 60, millis % 60_000);
    let seconds = format!("{}.{:03}", rest / 1000, rest % 1000);
    let seconds = seconds.trim_end_matches('0').trim_end_matches('.');
    match (hours, minutes) {
        (0, 0) => format!("{seconds}s"),
        (0, _) => format!("{minutes}m{seconds}s"),
        _ => format!("{hours}h{minutes}m{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_go_writes_them() {
        for (millis, text) in
            [(1, "1ms"), (1000, "1s"), (1500, "1.5s"), (30_000, "30s"), (90_000, "1m30s"), (3_600_000, "1h0m0s")]
        {
            assert_eq!(duration_text(Duration::from_millis(millis)), text);
        }
    }
}
