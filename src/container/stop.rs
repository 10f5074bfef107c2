//! Ending and restarting containers: by their monitors, or by the end of the monitor itself.

use super::spec::{self, parse_signal, signal_exists};
use super::state::{Verb, Way, decide};
use super::{Finder, Monitors, Register, Snapshot, Starter, not_running};
use crate::error::{Error, ErrorKind, Result};
use crate::kernel::process;
use crate::launch::monitor::{Answer, Control};
use crate::model::StopContainer;
use crate::network::Networks;
use crate::op::Changed;
use crate::op::{Op, Ready, wait_fd};
use crate::store::slot_locks::HeldEnd;
use coracle_monitor::call::Call;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long after SIGTERM a stop waits when the caller names no time, in ms.
const GRACE_MS: i64 = 10_000;
/// How long a call waits for the end of a killed process: one that hangs in the kernel must not block the caller for
/// ever.
const KILL_LIMIT: Duration = Duration::from_secs(30);
/// How long a container may take to end after its restart was cancelled.
const DYING: Duration = Duration::from_millis(500);
/// How long the record may take to show the end of a container whose processes are dead, on a busy machine.
pub(crate) const RECORDED: Duration = Duration::from_secs(10);

/// How a container is stopped: a signal, and how long it has until SIGKILL; `None`: for ever.
#[derive(Clone, Copy)]
struct Stop {
    signal: i32,
    grace: Option<Duration>,
}

/// The time that a stop leaves: milliseconds of the request, else seconds of the container.
fn grace(asked_ms: Option<i64>, timeout: Option<i64>) -> Option<Duration> {
    let ms = asked_ms.or(timeout.map(|seconds| seconds.saturating_mul(1000))).unwrap_or(GRACE_MS);
    u64::try_from(ms).ok().map(Duration::from_millis)
}

/// Ends and restarts containers.
pub(crate) struct Stopper {
    pub(super) register: Arc<Register>,
    pub(super) monitors: Arc<Monitors>,
    pub(super) finder: Arc<Finder>,
    pub(super) starter: Arc<Starter>,
    pub(super) networks: Arc<Networks>,
}

/// A stop that was begun.
pub(crate) enum StopStep {
    Over(Changed),
    Pending(Box<PendingStop>),
}

/// A stop, or a SIGKILL, whose signal was sent.
pub(crate) struct PendingStop {
    found: Snapshot,
    /// Whether it is a stop, which has an event of its own at its end.
    is_stop: bool,
    control: Control,
    /// Where the end is reported.
    waiter: Control,
    /// When SIGKILL is sent, or after it the end is given up.
    due: Option<Instant>,
    killed: bool,
    /// The end of a container with AutoRemove is held until the stop is reported.
    held: Option<HeldEnd>,
}

impl PendingStop {
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.waiter.fd()
    }

    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }
}

impl Stopper {
    /// Stops a container by its stop signal; by SIGKILL after the time that `how` gives.
    pub(crate) fn stop(&self, reference: &str, how: &StopContainer, op: Option<&Op>) -> Result<Changed> {
        let (found, end) = self.to_end(reference, how, op)?;
        if decide(Verb::Stop, &found)? == Way::Nothing {
            return Ok(Changed::No);
        }
        self.finder.holding_the_end(&found, || {
            self.stop_live(&found, end, op)?;
            self.stopped(&found)
        })
    }

    /// Finds a container, after the call that holds its lock has finished.
    fn find_after_others(&self, reference: &str, op: Option<&Op>) -> Result<Snapshot> {
        self.finder.lock(reference, op).map(|(_, found)| found)
    }

    /// Finds a container that is to stop, and how it ends. Errors: there is no such signal.
    fn to_end(&self, reference: &str, how: &StopContainer, op: Option<&Op>) -> Result<(Snapshot, Stop)> {
        let signal = (!how.signal.is_empty()).then(|| parse_signal(&how.signal)).transpose()?;
        if let Some(unknown) = signal.filter(|signal| !signal_exists(*signal)) {
            return Err(Error::invalid(format!("Invalid signal: {unknown}")));
        }
        let found = self.find_after_others(reference, op)?;
        let config = &found.spec.config;
        let stop = Stop {
            signal: signal.unwrap_or_else(|| spec::stop_signal(config)),
            grace: grace(how.grace_ms, config.stop_timeout),
        };
        Ok((found, stop))
    }

    /// Begins a stop: its signal is sent when this returns, and [`Stopper::go_on`] does the rest.
    pub(crate) fn begin(&self, reference: &str, how: &StopContainer, op: Option<&Op>) -> Result<StopStep> {
        let (found, end) = self.to_end(reference, how, op)?;
        if decide(Verb::Stop, &found)? == Way::Nothing {
            return Ok(StopStep::Over(Changed::No));
        }
        let held = match found.spec.host_config.auto_remove {
            true => Some(self.register.states.locks.hold_end(found.row.slot)?),
            false => None,
        };
        let Some((control, waiter)) = self.ending(&found, op)? else {
            return self.finished(&found, held).map(StopStep::Over);
        };
        self.send(&found, &control, end.signal, true)?;
        let due = end.grace.and_then(|grace| Instant::now().checked_add(grace));
        let stop = PendingStop { found, is_stop: true, control, waiter, due, killed: false, held };
        Ok(StopStep::Pending(Box::new(stop)))
    }

    /// Says that a container with AutoRemove is not to go when it ends, until the answer is dropped; `None`: it does not go.
    pub(crate) fn hold_end(&self, reference: &str) -> Result<Option<HeldEnd>> {
        let found = self.finder.find(reference)?;
        let goes = found.spec.host_config.auto_remove;
        goes.then(|| self.register.states.locks.hold_end(found.row.slot)).transpose()
    }

    /// Looks whether a stop is over; sends SIGKILL when its time has come. `None`: it is not over.
    pub(crate) fn go_on(&self, stop: &mut PendingStop) -> Result<Option<Changed>> {
        if self.ended(&stop.found, stop.waiter.answer_until(Some(Instant::now()), None))? {
            let held = stop.held.take();
            return match stop.is_stop {
                true => self.finished(&stop.found, held).map(Some),
                false => Ok(Some(Changed::Yes)),
            };
        }
        if stop.due.is_none_or(|due| Instant::now() < due) {
            return Ok(None);
        }
        if stop.killed {
            return Err(self.not_killed(&stop.found));
        }
        self.send(&stop.found, &stop.control, libc::SIGKILL, true)?;
        (stop.killed, stop.due) = (true, Some(Instant::now() + KILL_LIMIT));
        Ok(None)
    }

    /// Does the rest once a container has ended.
    fn stopped(&self, found: &Snapshot) -> Result<Changed> {
        // Best effort: the next start or removal repeats it.
        let _ = self.networks.remote.release_idle(found.row.slot, &found.row.id);
        self.register.event(found, "stop", &[])?;
        Ok(Changed::Yes)
    }

    /// As [`Finder::holding_the_end`] ends: a container with AutoRemove is removed after its event "stop".
    fn finished(&self, found: &Snapshot, held: Option<HeldEnd>) -> Result<Changed> {
        let done = self.stopped(found);
        drop(held);
        if found.spec.host_config.auto_remove {
            // The next look removes the container otherwise.
            let _ = self.finder.reap_ended_soon(&found.row.id);
        }
        done
    }

    fn stop_live(&self, found: &Snapshot, stop: Stop, op: Option<&Op>) -> Result<()> {
        let Some((control, waiter)) = self.ending(found, op)? else { return Ok(()) };
        self.send(found, &control, stop.signal, true)?;
        let deadline = stop.grace.map(|grace| Instant::now() + grace);
        if self.ended(found, waiter.answer_until(deadline, op))? {
            return Ok(());
        }
        self.send(found, &control, libc::SIGKILL, true)?;
        self.killed(found, &waiter, op)
    }

    /// Ends a live container at once, for a removal by force.
    pub(super) fn kill_live(&self, found: &Snapshot, op: Option<&Op>) -> Result<()> {
        match self.ending(found, op) {
            Ok(Some((control, waiter))) => {
                self.send(found, &control, libc::SIGKILL, true)?;
                self.killed(found, &waiter, op)
            }
            Ok(None) => Ok(()),
            Err(error) if self.monitors.is_out_of_reach(found) => {
                self.kill_monitor(found, op).map_err(|e| error.context(e))
            }
            Err(error) => Err(error),
        }
    }

    /// Ends a container whose monitor does not answer, by killing the monitor.
    fn kill_monitor(&self, found: &Snapshot, op: Option<&Op>) -> Result<()> {
        let monitor = process::monitor(found.now.state.monitor_pid).ok_or_else(|| not_running(&found.row.id))?;
        process::pidfd_signal(monitor.as_fd(), libc::SIGKILL)?;
        match wait_fd(monitor.as_fd(), Ready::Read, Some(KILL_LIMIT), op)? {
            true => Ok(()),
            false => Err(self.not_killed(found)),
        }
    }

    /// Two connections to the monitor of a container: one for requests, one on which the end will be reported; `None`
    /// if it has ended.
    fn ending(&self, found: &Snapshot, op: Option<&Op>) -> Result<Option<(Control, Control)>> {
        let none = || self.is_over(found).map(|()| None);
        let Some(control) = self.monitors.live_control(found)? else { return none() };
        let Some(waiter) = self.monitors.waiter(found)? else { return none() };
        if decide(Verb::Stop, found)? == Way::EndRestart {
            // No process runs: cancelling the restart ends the monitor, unless the restart has just happened.
            let _ = control.ask(Call::NoRestart, op);
            if self.ended(found, waiter.answer_until(Some(Instant::now() + DYING), op))? {
                return Ok(None);
            }
        }
        Ok(Some((control, waiter)))
    }

    /// Writes the event of a signal and sends it. A frozen container is thawed, because it could not receive the
    /// signal.
    fn send(&self, found: &Snapshot, control: &Control, signal: i32, by_hand: bool) -> Result<()> {
        self.register.event(found, "kill", &[("signal", &signal.to_string())])?;
        let sent = control.ask(Call::Signal { signal: signal as u32, by_hand }, None);
        match sent {
            // The container ended by itself meanwhile, as requested.
            Err(error) if error.is(libc::ESRCH) || error.kind() == ErrorKind::Unavailable => Ok(()),
            Err(error) => Err(error),
            Ok(_) if decide(Verb::Kill, found)? == Way::Thaw => {
                if signal != libc::SIGKILL {
                    // Written first: the processes may end as soon as they are thawed.
                    self.register.event(found, "unpause", &[])?;
                }
                let _ = control.ask(Call::Unpause, None);
                Ok(())
            }
            Ok(_) => Ok(()),
        }
    }

    fn killed(&self, found: &Snapshot, waiter: &Control, op: Option<&Op>) -> Result<()> {
        if self.ended(found, waiter.answer_until(Some(Instant::now() + KILL_LIMIT), op))? {
            return Ok(());
        }
        Err(self.not_killed(found))
    }

    /// Whether the answer to a waiting client means the end: the monitor reported it, or closed the connection because it ended.
    fn ended(&self, found: &Snapshot, answer: Result<Option<Answer>>) -> Result<bool> {
        match answer {
            Ok(answer) => Ok(answer.is_some()),
            Err(error) if is_gone(&error) => self.is_over(found).map(|()| true),
            Err(error) => Err(error),
        }
    }

    /// Errors: the container runs on, although its monitor closed a connection. A monitor has places for so many clients.
    fn is_over(&self, found: &Snapshot) -> Result<()> {
        match self.monitors.has_ended(found)? {
            true => Ok(()),
            false => {
                let text =
                    format!("the monitor of container {} takes no further client: it was not stopped", found.row.id);
                Err(Error::new(ErrorKind::Unavailable, text))
            }
        }
    }

    fn not_killed(&self, found: &Snapshot) -> Error {
        let id = &found.row.id;
        Error::internal(format!("Cannot stop container {id}: it did not end within {KILL_LIMIT:?} of SIGKILL"))
    }

    /// Sends a signal; for SIGKILL waits for the end.
    pub(crate) fn kill(&self, reference: &str, signal: Option<&str>, op: Option<&Op>) -> Result<()> {
        match self.begin_kill(reference, signal, op)? {
            StopStep::Over(_) => Ok(()),
            StopStep::Pending(stop) => self.killed(&stop.found, &stop.waiter, op),
        }
    }

    /// Sends a signal; after SIGKILL the end is pending.
    pub(crate) fn begin_kill(&self, reference: &str, signal: Option<&str>, op: Option<&Op>) -> Result<StopStep> {
        const SENT: StopStep = StopStep::Over(Changed::Yes);
        let signal = match signal.filter(|text| !text.is_empty()) {
            Some(text) => parse_signal(text)?,
            None => libc::SIGKILL,
        };
        let prefix = |error: Error| error.context(format!("Cannot kill container: {reference}"));
        let found = self.find_after_others(reference, op).map_err(prefix)?;
        if !signal_exists(signal) {
            let text = format!("The linux daemon does not support signal {signal}");
            return Err(prefix(Error::internal(text)));
        }
        let way = decide(Verb::Kill, &found).map_err(prefix)?;
        let Some(control) = self.monitors.live_control(&found)? else { return Err(prefix(not_running(&found.row.id))) };
        if way == Way::EndRestart {
            let _ = control.ask(Call::NoRestart, op);
            return Ok(SENT);
        }
        let by_hand = signal == libc::SIGKILL || signal == spec::stop_signal(&found.spec.config);
        if signal != libc::SIGKILL {
            return self.send(&found, &control, signal, by_hand).map(|()| SENT);
        }
        let Some(waiter) = self.monitors.waiter(&found)? else { return self.is_over(&found).map(|()| SENT) };
        self.send(&found, &control, signal, by_hand)?;
        let due = Some(Instant::now() + KILL_LIMIT);
        let kill = PendingStop { found, is_stop: false, control, waiter, due, killed: true, held: None };
        Ok(StopStep::Pending(Box::new(kill)))
    }

    /// Stops a container if it runs, then starts it.
    pub(crate) fn restart(&self, reference: &str, how: &StopContainer, op: Option<&Op>) -> Result<Snapshot> {
        let (found, end) = self.to_end(reference, how, op)?;
        self.finder.holding_the_end(&found, || {
            if decide(Verb::Restart, &found)? == Way::EndFirst {
                self.stop_live(&found, end, op)?;
                self.register.event(&found, "stop", &[])?;
            }
            self.starter.start(&found.row.id, None, (0, 0), op)?;
            self.register.event(&found, "restart", &[])
        })?;
        Ok(found)
    }
}

pub(super) fn is_gone(error: &Error) -> bool {
    error.kind() == ErrorKind::Unavailable
}

pub(super) fn gone_is_not_running(error: Error, id: &str) -> Error {
    if is_gone(&error) || error.is(libc::ESRCH) { not_running(id) } else { error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_s_time_comes_first() {
        let ms = |asked, timeout| grace(asked, timeout).map(|time| time.as_millis());
        assert_eq!(ms(None, None), Some(10_000));
        assert_eq!(ms(None, Some(3)), Some(3000));
        assert_eq!(ms(None, Some(0)), Some(0));
        assert_eq!(ms(Some(5), Some(3)), Some(5));
        assert_eq!(ms(None, Some(-1)), None);
        assert_eq!(ms(Some(-1), Some(3)), None);
        assert_eq!(ms(None, Some(i64::MAX)), Some(i64::MAX as u128));
    }
}
