//! The health check: a process like an exec'd one, started now and then; its exit code says how the container is.
//!
//! One runs at a time, in an exec slot of its own. Its result goes into the file `health` of the run directory, what
//! follows from it into the state record, changes into the journal.

use crate::boot::{MAX_EXECS, Monitor};
use crate::events::Value;
use crate::life;
use crate::ops::{self, Bad, Plan};
use crate::sys::{self, *};
use crate::wire::*;

/// The exec slot of the check.
pub const CHECK: usize = MAX_EXECS;

/// Valid when all zero: no check.
pub struct Health {
    plan: Option<Plan<'static>>,
    command: Option<&'static [u8]>,
    interval: i64,
    timeout: i64,
    start_period: i64,
    retries: u32,
    /// When the next check is due (monotonic ns); 0: none.
    next: i64,
    /// When the one that runs has taken too long; 0: none runs, or it was killed already.
    deadline: i64,
    /// Its result is of no interest any more.
    abandoned: bool,
    pub id: [u8; 64],
    pub result: HealthResult,
    output: [u8; HEALTH_OUTPUT],
    /// Results ever, once the file was looked at.
    count: u64,
    file: i32,
}

impl Health {
    /// Where the plan of the check is none, the answer is why.
    pub fn configure(&mut self, op: ops::Health<'static>) -> core::result::Result<(), Bad> {
        let time = |nanos| i64::try_from(nanos).unwrap_or(i64::MAX).min(i64::MAX / 4);
        (self.interval, self.timeout, self.start_period) = (time(op.interval), time(op.timeout), time(op.start_period));
        self.retries = op.retries;
        self.command = Some(op.command);
        self.plan = Some(Plan::check(own_copy(op.plan))?);
        self.file = -1;
        Ok(())
    }

    /// When the next thing is to be done; 0: nothing is.
    pub fn due(&self) -> i64 {
        if self.deadline > 0 { self.deadline } else { self.next }
    }

    /// The worker's: a check begins.
    pub fn forget_output(&mut self) {
        self.result.output = 0;
    }

    /// The worker's: how much the check wrote, and what is kept of it.
    pub fn taken(&self) -> (u32, &[u8]) {
        (self.result.output, &self.output[..(self.result.output as usize).min(HEALTH_OUTPUT)])
    }

    /// Takes output of the check; what is too much is counted only.
    pub fn take_output(&mut self, data: &[u8]) {
        let from = (self.result.output as usize).min(HEALTH_OUTPUT);
        let take = data.len().min(HEALTH_OUTPUT - from);
        self.output[from..from + take].copy_from_slice(&data[..take]);
        self.result.output = self.result.output.saturating_add(data.len() as u32);
    }
}

impl Monitor {
    /// The container started: the first check is due after one interval.
    pub fn begin_health(&mut self) {
        if self.health.plan.is_none() {
            return;
        }
        (self.record.state.health, self.record.state.failing_streak) = (HEALTH_STARTING, 0);
        self.record.write(false);
        self.resume_health();
    }

    /// Checks go on.
    pub fn resume_health(&mut self) {
        if self.health.plan.is_some() {
            self.health.next = sys::monotonic() + self.health.interval;
        }
    }

    /// No checks for now: the container is frozen or ended. It counts as unhealthy meanwhile, as dockerd has it.
    pub fn end_health(&mut self) {
        if self.health.plan.is_none() {
            return;
        }
        (self.health.next, self.health.deadline) = (0, 0);
        self.record.state.health = HEALTH_UNHEALTHY;
        if self.exec_is_there(CHECK) {
            self.health.abandoned = true;
            self.kill_exec(CHECK);
        }
    }

    /// Does what is due: begins a check, or ends one that takes too long.
    pub fn health_due(&mut self, now: i64) {
        if self.health.deadline > 0 && now >= self.health.deadline {
            self.health.deadline = 0;
            if self.exec_is_there(CHECK) {
                self.health.result.failure.detail = DETAIL_TIMEOUT;
                self.kill_exec(CHECK);
            }
        }
        if self.health.next > 0 && now >= self.health.next {
            // One that was given up may still be on its way out.
            let wait = if self.exec_is_there(CHECK) { self.health.interval.min(1_000_000_000) } else { 0 };
            self.health.next = if wait > 0 { now + wait } else { 0 };
            if wait == 0 {
                self.begin_check(now);
            }
        }
    }

    fn begin_check(&mut self, now: i64) {
        let (Some(plan), Some(command)) = (self.health.plan, self.health.command) else { return };
        if life::is_exiting(self.init) {
            return;
        }
        self.health.id = new_id();
        self.health.abandoned = false;
        self.health.result = HealthResult { start_ns: sys::now(), ..HealthResult::default() };
        self.health.deadline = now + self.health.timeout;
        let id = self.health.id;
        self.record.event(b"exec_create: ", command, &[(b"execID", Value::Text(&id))]);
        self.record.event(b"exec_start: ", command, &[(b"execID", Value::Text(&id))]);
        if let Err(errno) = self.exec_check(plan) {
            self.check_ended(None, Failure { step: STEP_MONITOR, errno, ..Failure::default() });
        }
    }

    /// A check ended with a code, or could not be run.
    pub fn check_ended(&mut self, code: Option<i32>, failure: Failure) {
        self.health.deadline = 0;
        // Its container's end takes it along: that is no result.
        let with_container = self.init == 0 || code != Some(0) && life::is_exiting(self.init);
        if self.health.abandoned || with_container {
            return;
        }
        let mut result = self.health.result;
        // A check that was killed for its time may not have begun yet: the time is the reason all the same.
        if failure != Failure::default() && result.failure.detail != DETAIL_TIMEOUT {
            result.failure = failure;
        }
        let ran = result.failure == Failure::default();
        result.exit_code = code.filter(|_| ran).unwrap_or(-1);
        result.end_ns = sys::now();
        self.health.result = result;
        self.keep_result();
        self.judge(&result);
        self.health.next = sys::monotonic() + self.health.interval;
    }

    fn judge(&mut self, result: &HealthResult) {
        let before = self.record.state.health;
        if result.exit_code == 0 {
            (self.record.state.health, self.record.state.failing_streak) = (HEALTH_HEALTHY, 0);
        } else if before != HEALTH_STARTING
            || result.start_ns - self.record.state.started_ns >= self.health.start_period
        {
            self.record.state.failing_streak += 1;
            if self.record.state.failing_streak >= self.health.retries {
                self.record.state.health = HEALTH_UNHEALTHY;
            }
        }
        self.record.write(false);
        match self.record.state.health {
            now if now == before => {}
            HEALTH_HEALTHY => self.record.event(b"health_status: ", b"healthy", &[]),
            _ => self.record.event(b"health_status: ", b"unhealthy", &[]),
        }
    }

    /// Into the ring: the result first, then the count that makes it one of the last.
    fn keep_result(&mut self) {
        let health = &mut self.health;
        if health.file < 0 {
            let flags = O_RDWR | O_CREAT | O_NOFOLLOW;
            let Ok(file) = sys::openat(self.run_dir, b"health\0", flags, 0o600) else { return };
            health.file = file;
            let mut count = [0u8; HEALTH_HEAD];
            let _ = sys::pread(file, &mut count, 0);
            health.count = u64::from_le_bytes(count);
        }
        let at = HEALTH_HEAD as u64 + health.count % HEALTH_SLOTS * HEALTH_SLOT_LEN as u64;
        let (file, mut result) = (health.file, health.result);
        if self.keep_check_output(file, at + HEALTH_RESULT_LEN as u64).is_err() {
            result.output = 0;
        }
        let health = &mut self.health;
        let _ = sys::pwrite(file, &result.to_bytes(), at);
        health.count += 1;
        let _ = sys::pwrite(health.file, &health.count.to_le_bytes(), 0);
    }
}

/// In memory of its own: the process of a check sees nothing of the plan that it stands in.
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
