//! The health check: a process like an exec'd one, started now and then; its exit code is the container's health.
//!
//! One check runs at a time, in a place of its own among the further processes. Its result goes into the file `health`
//! of the run directory, the health into the state record, and a change of the health into the journal.

use crate::checkup::{Checks, Condition};
use crate::events::Value;
use crate::execs::CheckEnd;
use crate::fd::Fd;
use crate::link::Link;
use crate::ops::{self, Bad, Plan};
use crate::record::Record;
use crate::streams;
use crate::sys::{self, *};
use crate::wire::*;

pub struct Health {
    plan: Option<Plan<'static>>,
    command: &'static [u8],
    pub checks: Checks,
    start_period: i64,
    retries: u32,
    /// Nobody wants its result any more.
    abandoned: bool,
    id: [u8; 64],
    result: HealthResult,
    /// How many results there ever were, once the file was read.
    count: u64,
    file: Fd,
}

impl Health {
    /// # Safety
    /// `place` is valid for writing and zero, and nothing refers to it.
    pub unsafe fn init(place: *mut Health) {
        // SAFETY: within the structure; zeroes are values of all other fields.
        unsafe {
            (&raw mut (*place).plan).write(None);
            (&raw mut (*place).command).write(b"");
        }
    }

    /// Reads the command of the check, and its times. An error says why the plan of the check is invalid.
    pub fn configure(&mut self, op: ops::Health<'static>) -> core::result::Result<(), Bad> {
        let time = |nanos| i64::try_from(nanos).unwrap_or(i64::MAX).min(i64::MAX / 4);
        (self.checks.interval, self.checks.timeout) = (time(op.interval), time(op.timeout));
        (self.start_period, self.checks.start_interval) = (time(op.start_period), time(op.start_interval));
        (self.retries, self.command) = (op.retries, op.command);
        self.plan = Some(Plan::check(own_copy(op.plan))?);
        Ok(())
    }

    /// The container started: the first check is due after one interval.
    pub fn started(&mut self, record: &mut Record) {
        if self.plan.is_none() {
            return;
        }
        (record.state.health, record.state.failing_streak) = (HEALTH_STARTING, 0);
        record.write(false);
        self.resume(record);
    }

    /// Checks go on.
    pub fn resume(&mut self, record: &Record) {
        if self.plan.is_some() {
            let starts = self.starts(record);
            self.checks.resume(sys::monotonic(), starts);
        }
    }

    /// Whether no check has succeeded yet within the start period.
    fn starts(&self, record: &Record) -> bool {
        record.state.health == HEALTH_STARTING && sys::now() - record.state.started_ns < self.start_period
    }

    /// Stops the checks: the container is frozen or ended. Meanwhile it counts as unhealthy, as with dockerd. `runs`: a
    /// check runs now. Answers whether that check is to be killed.
    pub fn stop(&mut self, record: &mut Record, runs: bool) -> bool {
        if self.plan.is_none() {
            return false;
        }
        self.checks.stop();
        record.state.health = HEALTH_UNHEALTHY;
        self.abandoned |= runs;
        runs
    }

    /// The check that runs took too long, and will be killed.
    pub fn is_overdue(&mut self) {
        self.result.failure.detail = DETAIL_TIMEOUT;
    }

    /// A check begins: its plan and its id. None if there is nothing to check.
    pub fn begin(&mut self, now: i64, record: &Record) -> Option<(Plan<'static>, [u8; 64])> {
        let plan = self.plan?;
        self.id = new_id();
        self.abandoned = false;
        self.result = HealthResult { start_ns: sys::now(), ..HealthResult::default() };
        self.checks.begun(now);
        for action in [&b"exec_create: "[..], b"exec_start: "] {
            record.event(action, self.command, &[(b"execID", Value::Text(&self.id))]);
        }
        Some((plan, self.id))
    }

    /// A check ended. `with_container`: the end of the container took it along, which does not count.
    pub fn ended(&mut self, end: CheckEnd, with_container: bool, record: &mut Record, link: &mut Link) {
        self.checks.ended();
        if self.abandoned || with_container {
            return;
        }
        let mut result = HealthResult { output: end.written, ..self.result };
        // A check that took too long may not have begun when it was killed. Even then, the time is the reason.
        if let Err(failure) = end.result
            && result.failure.detail != DETAIL_TIMEOUT
        {
            result.failure = failure;
        }
        let ran = result.failure == Failure::default();
        result.exit_code = end.result.ok().filter(|_| ran).unwrap_or(-1);
        result.end_ns = sys::now();
        self.keep(result, record.run_dir(), link);
        self.judge(&result, record);
        let starts = self.starts(record);
        self.checks.resume(sys::monotonic(), starts);
    }

    fn judge(&self, result: &HealthResult, record: &mut Record) {
        let before = Condition { health: record.state.health, streak: record.state.failing_streak };
        let counts = result.start_ns - record.state.started_ns >= self.start_period;
        let after = before.after(result.exit_code == 0, counts, self.retries);
        (record.state.health, record.state.failing_streak) = (after.health, after.streak);
        record.write(false);
        match after.health {
            now if now == before.health => {}
            HEALTH_HEALTHY => record.event(b"health_status: ", b"healthy", &[]),
            _ => record.event(b"health_status: ", b"unhealthy", &[]),
        }
    }

    /// Writes a result into the ring, and then the count, which makes it one of the last results.
    fn keep(&mut self, mut result: HealthResult, run_dir: i32, link: &mut Link) {
        if !self.file.is_open() {
            let flags = O_RDWR | O_CREAT | O_NOFOLLOW;
            let Ok(file) = sys::openat(run_dir, b"health\0", flags, 0o600) else { return };
            self.file.set(file);
            let mut count = [0u8; HEALTH_HEAD];
            let _ = sys::pread(file, &mut count, 0);
            self.count = u64::from_le_bytes(count);
        }
        let file = self.file.raw();
        let at = HEALTH_HEAD as u64 + self.count % HEALTH_SLOTS * HEALTH_SLOT_LEN as u64;
        if streams::keep_check_output(link, file, at + HEALTH_RESULT_LEN as u64).is_err() {
            result.output = 0;
        }
        let _ = sys::pwrite(file, &result.to_bytes(), at);
        self.count += 1;
        let _ = sys::pwrite(file, &self.count.to_le_bytes(), 0);
    }
}

/// A copy in memory of its own, so that the process of a check sees nothing of the container's plan.
fn own_copy(plan: &'static [u8]) -> &'static [u8] {
    match sys::map_memory(plan.len().max(1)) {
        Ok(memory) => {
            memory[..plan.len()].copy_from_slice(plan);
            &memory[..plan.len()]
        }
        Err(_) => plan,
    }
}

/// 64 hexadecimal digits.
fn new_id() -> [u8; 64] {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let mut random = [0u8; 32];
    sys::random(&mut random);
    let mut id = [0u8; 64];
    for (pair, byte) in id.chunks_exact_mut(2).zip(random) {
        pair.copy_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
    }
    id
}
