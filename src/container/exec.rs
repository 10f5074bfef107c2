//! Exec instances: created, started, inspected. Their files last until the next boot; the monitor writes state and exit
//! code.

use super::exec_records::{ExecRecord, head};
use super::names::new_id;
use super::state::{Refusal, Verb, decide};
use super::stop::gone_is_not_running;
use super::{ExecRecords, Finder, Monitors, Planner, Register, failure, not_running};
use crate::error::{Error, ErrorKind, Result};
use crate::kernel::process;
use crate::launch::monitor::{Control, Failure, STEP_LOST, Streams};
use crate::launch::plan::{self};
use crate::model::{DetachKeys, ExecConfig, ExecDetail, ExecProcess};
use crate::op::Op;
use coracle_monitor::call::Call;
use parking_lot::Mutex;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The least time for which an ended instance can be inspected.
const KEPT: Duration = Duration::from_secs(300);
/// Up to this many instances stay as long as their containers.
const FEW: usize = 200;
/// The least time between two searches of one engine for ended instances.
const SWEEP: Duration = Duration::from_secs(30);

/// A started process: the connection on which the monitor reports its end.
pub(crate) struct RunningExec {
    pub control: Control,
}

/// Processes that are added to running containers (execs).
pub(crate) struct Execs {
    /// The time of the last search for instances that ended long ago.
    pub(super) swept: Mutex<Option<Instant>>,
    pub(super) register: Arc<Register>,
    pub(super) monitors: Arc<Monitors>,
    pub(super) exec_records: Arc<ExecRecords>,
    pub(super) finder: Arc<Finder>,
    pub(super) planner: Arc<Planner>,
}

impl Execs {
    /// Creates an exec instance; returns its id.
    pub(crate) fn exec_create(&self, reference: &str, config: &ExecConfig) -> Result<String> {
        let found = self.finder.find(reference)?;
        if config.cmd.as_ref().is_none_or(Vec::is_empty) {
            return Err(Error::invalid("No exec command specified"));
        }
        detach_keys(&config.detach_keys)?;
        let dir = &config.working_dir;
        if !dir.is_empty() && !dir.starts_with('/') {
            let text = format!("the working directory '{dir}' is invalid, it needs to be an absolute path");
            return Err(Error::invalid(text));
        }
        decide(Verb::Exec, &found)?;
        self.sweep_execs();
        let id = new_exec_id(&found.row.id)?;
        let record = ExecRecord { container: found.row.id.clone(), config: config.clone() };
        let text = serde_json::to_vec(&record).map_err(|e| Error::internal(format!("write an exec instance: {e}")))?;
        let path = self.exec_records.exec_path(&id);
        std::fs::write(&path, text).map_err(|e| Error::io(format_args!("write {}", path.display()), &e))?;
        // A removal deletes the row first, then the exec instances that it sees.
        self.register.if_there(&found, Ok(())).inspect_err(|_| drop(std::fs::remove_file(&path)))?;
        self.register.event(&found, &format!("exec_create: {}", event_command(config)), &[("execID", &id)])?;
        Ok(id)
    }

    /// Starts an exec instance with these streams.
    pub(crate) fn exec_start(
        &self,
        id: &str,
        streams: Streams,
        size: (u16, u16),
        op: Option<&Op>,
    ) -> Result<RunningExec> {
        let ExecRecord { container, config } = self.exec_records.record(id)?;
        let found = self.finder.find(&container)?;
        decide(Verb::Exec, &found)?;
        let state_file = self.exec_records.claim_exec(id)?;
        let plan = plan::compile_exec(&self.planner.exec_plan(&found, &config, size)?);
        let memfd = process::sealed_memfd("plan", &plan.bytes, process::Sealed::Data)?;
        let control = self.monitors.control(&found)?;
        self.register.event(&found, &format!("exec_start: {}", event_command(&config)), &[("execID", id)])?;
        let mask = streams.mask;
        let answer = control
            .send_streams(Call::Exec { streams: mask }, id, &[memfd.as_fd(), state_file.as_fd()], streams)
            .and_then(|()| control.reply(op))
            .map_err(|error| gone_is_not_running(error, &found.row.id))?;
        if answer.errno == 0 {
            return Ok(RunningExec { control });
        }
        // A process cannot enter a PID namespace whose first process died: the kernel then reports ENOMEM.
        let lost = answer.failure.step == STEP_LOST
            || [answer.errno, answer.failure.errno].iter().any(|errno| [libc::ESRCH, libc::ENOMEM].contains(errno));
        if lost && self.monitors.has_ended(&found)? {
            return Err(not_running(&found.row.id));
        }
        if answer.failure == Failure::default() {
            return Err(match answer.errno {
                libc::ESRCH => not_running(&found.row.id),
                libc::EAGAIN => Refusal::ExecOfPaused.error(&found.row.id, &found.row.name),
                libc::EBUSY => {
                    Error::new(ErrorKind::Unavailable, "too many processes are being exec'd in this container")
                }
                errno => Error::os("start a process in the container", errno),
            });
        }
        let program = config.cmd.as_ref().and_then(|cmd| cmd.first()).map_or("", String::as_str);
        let user = if config.user.is_empty() { &found.spec.config.user } else { &config.user };
        let step = plan.step(answer.failure.step);
        Err(failure::explain(answer.failure, &step, program, user, &[]).error)
    }

    /// Everything about an exec instance.
    pub(crate) fn exec_inspect(&self, id: &str) -> Result<ExecDetail> {
        let ExecRecord { container, config } = self.exec_records.record(id)?;
        let state = self.exec_records.exec_state(id);
        let live = self.finder.find(&container).ok().filter(|found| found.now.is_live());
        let monitor = live.as_ref().map(|found| found.now.state.monitor_pid);
        let running = state.is_some_and(|state| state.phase == 1 && Some(state.monitor_pid) == monitor);
        let exit_code = state.filter(|_| !running).map(|state| if state.phase == 2 { state.exit_code } else { 137 });
        let cmd = config.cmd.clone().unwrap_or_default();
        Ok(ExecDetail {
            id: id.into(),
            running,
            exit_code,
            process_config: ExecProcess {
                tty: config.tty,
                entrypoint: cmd.first().cloned().unwrap_or_default(),
                arguments: cmd.iter().skip(1).cloned().collect(),
                privileged: config.privileged,
                user: config.user.clone(),
            },
            open_stdin: config.attach_stdin,
            open_stderr: config.attach_stderr,
            open_stdout: config.attach_stdout,
            // dockerd sets it minutes after the end, before it removes the instance.
            can_remove: false,
            container_id: container,
            detach_keys: detach_keys(&config.detach_keys)?,
            pid: if running { state.map_or(0, |state| state.pid) } else { 0 },
        })
    }

    /// Records that a user typed the detach keys.
    pub(crate) fn exec_detached(&self, id: &str) -> Result<()> {
        let found = self.finder.find(&self.exec_records.record(id)?.container)?;
        self.register.event(&found, "exec_detach", &[("execID", id)])
    }

    /// Sets the terminal size of an exec's process.
    pub(crate) fn exec_resize(&self, id: &str, rows: u16, cols: u16) -> Result<()> {
        let record = self.exec_records.record(id)?;
        let found = self.finder.find(&record.container)?;
        let pid = self.exec_inspect(id)?.pid;
        if pid == 0 {
            return Err(Error::not_found(format!("No such exec instance: {id}")));
        }
        let size = Call::Resize { rows, cols, process: Some(pid) };
        self.monitors.control(&found)?.ask(size, None).map(|_| ())
    }

    /// The exec instances of a container that run or have not been started.
    pub(super) fn running_execs(&self, container: &str) -> Result<Vec<String>> {
        let active = |id: &String| {
            // For most of them, which have ended, only this file is read.
            self.exec_records.exec_state(id).is_none_or(|state| state.phase != 2)
                && self
                    .exec_inspect(id)
                    .is_ok_and(|detail| detail.container_id == container && detail.exit_code.is_none())
        };
        Ok(self.exec_records.execs_of(container)?.filter(active).collect())
    }

    /// Removes instances that ended minutes ago if there are many. Otherwise a container that lives for years, with an
    /// exec every second, would fill the run directory.
    fn sweep_execs(&self) {
        let now = Instant::now();
        let mut swept = self.swept.lock();
        if swept.is_some_and(|last| now.duration_since(last) < SWEEP) {
            return;
        }
        *swept = Some(now);
        drop(swept);
        let ids = self.exec_records.exec_ids().unwrap_or_default();
        if ids.len() > FEW {
            ids.iter().filter(|id| self.ended_long_ago(id)).for_each(|id| self.exec_records.forget_exec(id));
        }
    }

    /// The state file was last changed at the end of the instance.
    fn ended_long_ago(&self, id: &str) -> bool {
        let changed = std::fs::metadata(self.exec_records.exec_state_path(id)).and_then(|data| data.modified());
        changed.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > KEPT))
            && self.exec_inspect(id).is_ok_and(|detail| !detail.running)
    }
}

/// A new id for an exec instance. It ends with the first 16 digits of the container id, so a search for one container's
/// execs opens no other files.
fn new_exec_id(container: &str) -> Result<String> {
    let head = head(container);
    new_id().map(|id| format!("{}{head}", &id[..id.len() - head.len()]))
}

fn event_command(config: &ExecConfig) -> String {
    shown_argv(config.cmd.as_deref().unwrap_or_default())
}

/// A command as events show it: the program, a space, the arguments; like dockerd with the space even without
/// arguments.
pub(super) fn shown_argv(argv: &[String]) -> String {
    let (program, arguments) = argv.split_first().map_or(("", [].as_slice()), |(first, rest)| (first.as_str(), rest));
    format!("{program} {}", arguments.join(" "))
}

/// The detach keys as inspect shows them; empty if none were given.
fn detach_keys(text: &str) -> Result<String> {
    if text.is_empty() { Ok(String::new()) } else { DetachKeys::parse(text).map(|keys| keys.encoded()) }
}
