//! The control socket: one request a message, one answer (an exec gives two).

use crate::boot::{MAX_CLIENTS, Monitor};
use crate::call::{Call, Freeze, Until};
use crate::life::{CLIENT, token};
use crate::ops::Volume;
use crate::sys::{self, *};
use crate::wire::*;

/// Nanoseconds until a client that could not be accepted is tried again.
const ACCEPT_PAUSE: i64 = 2_000_000;

/// A connected client; fd 0 is a free slot.
#[derive(Clone, Copy)]
pub struct Client {
    fd: i32,
    waits: Waits,
}

/// The event that a client waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waits {
    No,
    /// The process's end, whatever follows.
    Stop,
    /// The end after which no restart follows.
    End,
    /// For nothing: the restart waits for it.
    HoldsOff,
    /// For nothing: the container is frozen as long as it is there.
    Freezes,
}

impl Monitor {
    pub fn accept_client(&mut self) {
        loop {
            let fd = match sys::accept(self.listener) {
                Ok(fd) => fd,
                Err(EAGAIN) => return,
                // No descriptor is left for it: it stays in the queue, and nobody spins for it.
                Err(_) => return sys::sleep(ACCEPT_PAUSE),
            };
            let slot = (0..MAX_CLIENTS).find(|&slot| self.clients[slot].fd == 0);
            let added = slot.is_some_and(|slot| {
                self.clients[slot] = Client { fd, waits: Waits::No };
                sys::epoll_ctl(self.epoll, ADD, fd, EPOLLIN, token(CLIENT, slot as u32)).is_ok()
            });
            if !added {
                // Full: the client sees the connection end, and tries again.
                sys::close(fd);
            }
        }
    }

    /// Never within its caller: the frame of the loop that waits would hold the buffer from then on.
    #[inline(never)]
    pub fn client_ready(&mut self, slot: usize) {
        let fd = self.clients[slot].fd;
        if fd == 0 {
            return;
        }
        let mut fds = [-1; MAX_FDS];
        let mut bytes = [0u8; REQUEST_LEN + MAX_TEXT];
        let (got, count) = match sys::recv_fds(fd, &mut bytes, &mut fds, false) {
            Err(EAGAIN) => return,
            Ok((got, count)) if got > 0 => (got, count),
            _ => return self.drop_client(slot),
        };
        match Request::from_bytes(&bytes[..got]) {
            Some(request) => self.serve(slot, request, &bytes[REQUEST_LEN..got], &fds[..count]),
            None => {
                fds[..count].iter().copied().for_each(sys::close);
                self.drop_client(slot);
            }
        }
    }

    fn drop_client(&mut self, slot: usize) {
        if self.clients[slot].fd == 0 {
            return;
        }
        sys::close(self.clients[slot].fd);
        let waits = self.clients[slot].waits;
        self.clients[slot] = Client { fd: 0, waits: Waits::No };
        self.forget_exec_client(slot);
        if waits == Waits::Freezes && self.record.state.status() == Status::Paused && self.pause(false).is_ok() {
            self.record.event(b"unpause", b"", &[]);
        }
    }

    fn serve(&mut self, slot: usize, request: Request, text: &[u8], fds: &[i32]) {
        let Some(call) = Call::of(&request) else {
            return self.answer(slot, ENOSYS, self.record.state.exit_code, Failure::default());
        };
        let result = match call {
            Call::Hello => Ok(()),
            Call::Signal { signal, by_hand } => self.signal(signal, by_hand),
            Call::Attach { streams } => self.attach(streams & SESSION_STREAMS, fds),
            Call::Resize { rows, cols, process } => self.resize(rows, cols, process),
            Call::Exec { streams } => match self.exec(slot, streams, text, fds) {
                // Its answers come later.
                Ok(()) => return,
                Err(failure) => {
                    let told = if failure.detail == 0 { Failure::default() } else { failure };
                    return self.answer(slot, failure.errno, self.record.state.exit_code, told);
                }
            },
            Call::Wait(Until::Stopped) if self.record.state.status() == Status::Restarting => Ok(()),
            Call::Wait(until) => {
                self.clients[slot].waits = match until {
                    Until::Stopped => Waits::Stop,
                    Until::Over => Waits::End,
                };
                return;
            }
            Call::Pause(how) => self.pause(true).inspect(|()| {
                if how == Freeze::Held {
                    self.clients[slot].waits = Waits::Freezes;
                }
            }),
            Call::Unpause => self.pause(false),
            Call::NoRestart => {
                self.restarts.end();
                self.answer(slot, 0, self.record.state.exit_code, Failure::default());
                return self.give_up_restart();
            }
            Call::Policy { name, bound } => {
                self.restarts.policy = crate::restart::Policy { name, most: bound };
                Ok(())
            }
            Call::Limits => self.groups.take_limits(fds).inspect(|()| self.oom.set_file(self.groups.oom_file())),
            Call::Network => {
                let changed = self.change_network(fds);
                fds.iter().copied().for_each(sys::close);
                let failure = changed.err().unwrap_or_default();
                let errno = if failure == Failure::default() { 0 } else { failure.errno.max(1) };
                return self.answer(slot, errno, 0, failure);
            }
            Call::Volume { .. } => return self.answer_volume(slot, text),
            Call::HoldOff => self.hold_off(slot),
            Call::EndInput => self.end_input(),
            Call::Attributes => {
                self.record.set_attributes(text);
                Ok(())
            }
            // Of a boot message.
            Call::Go | Call::NewNetwork => Err(ENOSYS),
        };
        self.answer(slot, result.err().unwrap_or(0), self.record.state.exit_code, Failure::default());
    }

    pub fn answer(&mut self, slot: usize, errno: i32, value: i32, failure: Failure) {
        self.answer_with(slot, errno, value, failure, None);
    }

    /// With the mount namespace of a volume of this name.
    fn answer_volume(&mut self, slot: usize, name: &[u8]) {
        let volume = self.plan.plan().each::<Volume>().find(|(_, volume)| volume.name == name);
        let fd = volume.and_then(|(_, volume)| self.volumes.get(volume.index as usize).copied());
        let found = fd.filter(|fd| *fd >= 0);
        let errno = if found.is_some() { 0 } else { ENOENT };
        self.answer_with(slot, errno, 0, Failure::default(), found);
    }

    fn hold_off(&mut self, slot: usize) -> Result<()> {
        if self.record.state.status() != Status::Restarting || self.restarts.due() == 0 {
            return Err(ESRCH);
        }
        self.clients[slot].waits = Waits::HoldsOff;
        crate::life::replace(&mut self.root, -1);
        Ok(())
    }

    /// Whether somebody works on the files of the container that waits for its restart.
    pub fn is_held_off(&self) -> bool {
        self.clients.iter().any(|client| client.fd > 0 && client.waits == Waits::HoldsOff)
    }

    fn answer_with(&mut self, slot: usize, errno: i32, value: i32, failure: Failure, pass: Option<i32>) {
        let flags = self.record.state.flags;
        let answer = Answer { magic: MESSAGE_MAGIC, version: VERSION, errno, value, flags, reserved: 0, failure };
        let fd = self.clients[slot].fd;
        // A client that asks and does not take its answers is let go: it is not waited for, and no answer is left out.
        if fd > 0 && sys::send_fd(fd, &answer.to_bytes(), pass).is_err() {
            self.drop_client(slot);
        }
    }

    /// Everybody who waits for the end, or for this one (`last`), learns the exit code.
    pub fn answer_waiters(&mut self, last: bool) {
        for slot in 0..MAX_CLIENTS {
            let waits = self.clients[slot].waits;
            if waits == Waits::Stop || last && waits == Waits::End {
                self.clients[slot].waits = Waits::No;
                self.answer(slot, 0, self.record.state.exit_code, Failure::default());
            }
        }
    }

    fn signal(&mut self, signal: u32, by_hand: bool) -> Result<()> {
        if self.init == 0 {
            if by_hand && self.record.state.status() == Status::Restarting {
                // It ended between the look of who asks and now: what is to end is the waiting.
                self.restarts.end();
                self.give_up_restart();
                return Ok(());
            }
            return Err(ESRCH);
        }
        sys::pidfd_signal(self.init_pidfd, signal)?;
        if by_hand {
            self.restarts.end();
        };
        if signal == sys::SIGKILL {
            // Frozen, it could not die, and nobody may freeze it now.
            self.killed = true;
            if self.record.state.status() == Status::Paused {
                self.groups.freeze(false)?;
            }
        }
        Ok(())
    }

    fn pause(&mut self, pause: bool) -> Result<()> {
        if self.init == 0 || pause && self.killed {
            return Err(ESRCH);
        }
        if pause && self.exec_is_launching() {
            return Err(EAGAIN);
        }
        self.groups.freeze(pause)?;
        for client in self.clients.iter_mut().filter(|client| client.waits == Waits::Freezes) {
            client.waits = Waits::No;
        }
        self.record.state.status = if pause { Status::Paused } else { Status::Running } as u32;
        if pause {
            self.end_health()
        } else {
            self.resume_health()
        }
        self.record.write(false);
        Ok(())
    }

    fn resize(&mut self, rows: u16, cols: u16, process: Option<i32>) -> Result<()> {
        let master = match process {
            Some(pid) => self.exec_master(pid).ok_or(ESRCH)?,
            None => {
                // A restart's terminal begins with this size.
                (self.header.rows, self.header.cols) = (rows, cols);
                self.master
            }
        };
        if master >= 0 { sys::set_window(master, rows, cols) } else { Ok(()) }
    }
}
