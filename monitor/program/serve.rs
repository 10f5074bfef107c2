//! Requests of clients: each goes to the part that it concerns.

use crate::call::{Call, Freeze, Until};
use crate::clients::Waits;
use crate::control::LONGEST;
use crate::execs::{self, Home};
use crate::failure::errno;
use crate::fd::{Fd, close_all};
use crate::monitor::Monitor;
use crate::ops::{Volume, VolumePart};
use crate::restart::Policy;
use crate::session::Session;
use crate::streams;
use crate::sys::{self, *};
use crate::wire::*;

impl Monitor {
    /// Never inlined: otherwise the stack frame of the waiting loop would hold the buffer all the time.
    #[inline(never)]
    pub fn client_ready(&mut self, slot: usize) {
        let mut fds = [-1; MAX_FDS];
        let mut bytes = [0u8; LONGEST];
        let Some((got, count)) = self.control.receive(slot, &mut bytes, &mut fds) else { return };
        let Some(request) = Request::from_bytes(&bytes[..got]) else { return };
        self.control.flags = self.record.state.flags;
        let (text, fds) = (&bytes[REQUEST_LEN..got], &fds[..count]);
        match Call::of(&request) {
            None => self.answer(slot, Err(ENOSYS)),
            Some(Call::Exec { streams }) => self.exec(slot, streams, text, fds),
            Some(Call::Wait(until)) => self.wait(slot, until),
            Some(Call::Network) => self.change_network(slot, fds),
            Some(Call::Volume { .. }) => self.answer_volume(slot, text),
            Some(Call::NoRestart) => {
                self.restarts.end();
                self.answer(slot, Ok(()));
                self.give_up_restart();
            }
            Some(call) => {
                let result = self.serve(slot, call, text, fds);
                self.answer(slot, result);
            }
        }
    }

    /// Calls that are answered with an error number alone.
    fn serve(&mut self, slot: usize, call: Call, text: &[u8], fds: &[i32]) -> Result<()> {
        match call {
            Call::Hello => Ok(()),
            Call::Signal { signal, by_hand } => self.signal(signal, by_hand),
            Call::Attach { streams } => {
                streams::attach(&mut self.link, &mut self.supplies.direct, streams & SESSION_STREAMS, fds)
            }
            Call::Resize { rows, cols, process } => self.resize(rows, cols, process),
            Call::Pause(how) => {
                self.pause(true)?;
                if how == Freeze::Held {
                    self.control.set_waits(slot, Waits::Freezes);
                }
                Ok(())
            }
            Call::Unpause => self.pause(false),
            Call::Policy { name, bound } => {
                self.restarts.policy = Policy { name, most: bound };
                Ok(())
            }
            Call::Limits => {
                self.groups.take_limits(fds)?;
                self.oom.set_file(self.groups.oom_file());
                Ok(())
            }
            Call::HoldOff => self.hold_off(slot),
            Call::EndInput => streams::end_input(&mut self.link),
            Call::Attributes => {
                self.record.set_attributes(text);
                Ok(())
            }
            // A call of a boot message, or one that is served above.
            _ => Err(ENOSYS),
        }
    }

    fn answer(&mut self, slot: usize, result: Result<()>) {
        self.control.flags = self.record.state.flags;
        self.control.answer(slot, result.err().unwrap_or(0), self.record.state.exit_code);
    }

    fn wait(&mut self, slot: usize, until: Until) {
        match until {
            Until::Stopped if self.record.state.status() == Status::Restarting => self.answer(slot, Ok(())),
            Until::Stopped => self.control.set_waits(slot, Waits::Stop),
            Until::Over => self.control.set_waits(slot, Waits::End),
        }
    }

    /// Starts a further process, whose answers come later.
    fn exec(&mut self, client: usize, streams: u32, id: &[u8], fds: &[i32]) {
        let refused = match self.record.state.status() {
            _ if !self.process.runs() => ESRCH,
            Status::Paused => EAGAIN,
            _ => 0,
        };
        if refused != 0 {
            close_all(fds);
            return self.answer(client, Err(refused));
        }
        let request = execs::Request { client, session: Session::new(streams), id };
        let home = Home::new(&self.process, &self.groups, self.header.flags);
        if let Err(failure) = self.execs.start(request, &home, fds, &mut self.link) {
            // Of a failure without a detail, the client gets only the error number.
            let code = self.record.state.exit_code;
            let failure =
                if failure.detail == 0 { Failure { errno: failure.errno, ..Failure::default() } } else { failure };
            let shown = if failure.detail == 0 { Failure::default() } else { failure };
            let answer = Answer { errno: failure.errno, value: code, failure: shown, ..Answer::default() };
            self.control.answer_with(client, answer, None);
        }
    }

    fn change_network(&mut self, slot: usize, fds: &[i32]) {
        let first = (self.process.pid, self.process.pidfd.raw());
        let changed = match self.process.runs() {
            true => self.network.change(fds, first, &self.record, &mut self.link),
            false => Err(errno(ESRCH)),
        };
        close_all(fds);
        match changed {
            Ok(()) => self.control.answer(slot, 0, 0),
            Err(failure) => self.control.answer_failure(slot, failure, 0),
        }
    }

    /// Answers with the mount namespace of the volume of this name.
    fn answer_volume(&mut self, slot: usize, name: &[u8]) {
        let plan = self.link.plan();
        let whole = plan.each::<Volume>().find(|(_, volume)| volume.name == name).map(|(_, volume)| volume.index);
        let part = || plan.each::<VolumePart>().find(|(_, part)| part.name == name).map(|(_, part)| part.index);
        let index = whole.or_else(part);
        let fd = index.and_then(|index| self.supplies.volumes.get(index as usize));
        let found = fd.filter(|fd| fd.is_open()).map(Fd::raw);
        let errno = if found.is_some() { 0 } else { ENOENT };
        self.control.answer_with(slot, Answer { errno, ..Answer::default() }, found);
    }

    fn hold_off(&mut self, slot: usize) -> Result<()> {
        if self.record.state.status() != Status::Restarting || self.restarts.due() == 0 {
            return Err(ESRCH);
        }
        self.control.set_waits(slot, Waits::HoldsOff);
        self.process.root.close();
        Ok(())
    }

    pub fn signal(&mut self, signal: u32, by_hand: bool) -> Result<()> {
        if !self.process.runs() {
            if by_hand && self.record.state.status() == Status::Restarting {
                // The process ended after the caller looked: the caller wants no restart.
                self.restarts.end();
                self.give_up_restart();
                return Ok(());
            }
            return Err(ESRCH);
        }
        self.process.signal(signal)?;
        if by_hand {
            self.restarts.end();
        }
        // A frozen process cannot die, so it is thawed. From now on nobody may freeze it.
        match self.process.is_killed() && signal == SIGKILL && self.record.state.status() == Status::Paused {
            true => self.groups.freeze(false),
            false => Ok(()),
        }
    }

    pub fn pause(&mut self, pause: bool) -> Result<()> {
        if !self.process.runs() || pause && self.process.is_killed() {
            return Err(ESRCH);
        }
        if pause && self.execs.is_launching() {
            return Err(EAGAIN);
        }
        self.groups.freeze(pause)?;
        self.control.let_thaw();
        self.record.state.status = if pause { Status::Paused } else { Status::Running } as u32;
        if pause {
            self.end_health();
        } else {
            self.health.resume(&self.record);
        }
        self.record.write(false);
        Ok(())
    }

    fn resize(&mut self, rows: u16, cols: u16, process: Option<i32>) -> Result<()> {
        let master = match process {
            Some(pid) => self.execs.master(pid).ok_or(ESRCH)?,
            None => {
                // A restart's terminal begins with this size.
                (self.header.rows, self.header.cols) = (rows, cols);
                self.process.master.raw()
            }
        };
        if master >= 0 { sys::set_window(master, rows, cols) } else { Ok(()) }
    }
}
