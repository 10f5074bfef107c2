//! Input: from clients to a process.

use crate::fd::Fd;
use crate::launcher::Launcher;
use crate::message::{CLOSED, Message};
use crate::outputs::{CHUNK, Kind, kind_of, let_go};
use crate::owners::{CONTAINER, OWNERS};
use crate::subjects::{INPUT, TARGET, token};
use crate::sys::{self, *};

const MAX_INPUTS: usize = 80;

/// Zero at the beginning.
pub struct Inputs {
    epoll: i32,
    launcher: Launcher,
    inputs: [Input; MAX_INPUTS],
    /// The process's end of the input of each owner.
    targets: [Fd; OWNERS],
    /// The container runs: its input is read.
    enabled: bool,
}

struct Input {
    source: Fd,
    socket: bool,
    owner: u32,
    /// The end of this input is the end of the process's input.
    once: bool,
    ended: bool,
    polled: bool,
    buffer: Option<&'static mut [u8]>,
    from: usize,
    to: usize,
}

impl Inputs {
    /// Called when a worker begins.
    pub fn begin(&mut self, epoll: i32, launcher: Launcher) {
        (self.epoll, self.launcher) = (epoll, launcher);
    }

    pub fn open(&mut self, fd: i32, owner: u32, once: bool) -> Result<()> {
        let source = Fd::new(fd);
        let socket = kind_of(fd) == Kind::Socket;
        let free = self.inputs.iter().position(|input| !input.source.is_open() && input.buffer.is_none());
        let slot = free.ok_or(EBUSY)?;
        let buffer = sys::map_memory(CHUNK)?;
        self.inputs[slot] =
            Input { source, socket, owner, once, ended: false, polled: false, buffer: Some(buffer), from: 0, to: 0 };
        if self.target(owner) >= 0 && (owner != CONTAINER || self.enabled) {
            self.enable_slot(slot);
        }
        Ok(())
    }

    /// Begins to read what clients send, once there is a process to send it to.
    pub fn enable(&mut self, owner: u32) {
        self.enabled |= owner == CONTAINER;
        for slot in 0..MAX_INPUTS {
            let input = &self.inputs[slot];
            if input.source.is_open() && input.owner == owner {
                self.enable_slot(slot);
            }
        }
    }

    /// Clients' input is read no more: the container ended.
    pub fn disable(&mut self) {
        self.enabled = false;
    }

    fn enable_slot(&mut self, slot: usize) {
        let input = &mut self.inputs[slot];
        input.polled = sys::epoll_ctl(self.epoll, ADD, input.source.raw(), EPOLLIN, token(INPUT, slot as u32)).is_ok();
        if !input.polled {
            self.ready(slot);
        }
    }

    fn target(&self, owner: u32) -> i32 {
        self.targets.get(owner as usize).map_or(-1, Fd::raw)
    }

    /// Where input of a process goes.
    pub fn set_target(&mut self, owner: u32, fd: i32) {
        self.close_target(owner);
        match self.targets.get_mut(owner as usize) {
            Some(target) => target.set(fd),
            None => sys::close(fd),
        }
    }

    /// A client sent input, or ended it.
    pub fn ready(&mut self, slot: usize) {
        loop {
            if !self.write(slot) {
                return;
            }
            let input = &mut self.inputs[slot];
            if !input.source.is_open() {
                return;
            }
            let Some(buffer) = input.buffer.as_mut() else { return };
            let read = if input.socket { sys::receive } else { sys::read };
            match read(input.source.raw(), buffer) {
                Ok(length) if length > 0 => (input.from, input.to) = (0, length),
                Err(EAGAIN | EINTR) => return,
                _ => {
                    input.ended = true;
                    return self.finish(slot);
                }
            }
            if self.inputs[slot].polled {
                self.write(slot);
                return;
            }
        }
    }

    /// Writes what was read to the process. Answers false if the process does not take it now.
    fn write(&mut self, slot: usize) -> bool {
        let owner = self.inputs[slot].owner;
        let target = self.target(owner);
        let epoll = self.epoll;
        let input = &mut self.inputs[slot];
        while input.from < input.to {
            let Some(buffer) = input.buffer.as_ref() else { return false };
            match sys::write(target, &buffer[input.from..input.to]) {
                Ok(length) => input.from += length,
                Err(EINTR) => {}
                Err(EAGAIN) => {
                    if input.polled {
                        let _ = sys::epoll_ctl(epoll, REMOVE, input.source.raw(), 0, 0);
                    }
                    let _ = sys::epoll_ctl(epoll, ADD, target, EPOLLOUT, token(TARGET, owner));
                    return false;
                }
                // The process closed its input: further input is dropped.
                Err(_) => (input.from, input.to) = (0, 0),
            }
        }
        true
    }

    /// The process takes input again.
    pub fn target_ready(&mut self, owner: u32) {
        let target = self.target(owner);
        let _ = sys::epoll_ctl(self.epoll, REMOVE, target, 0, 0);
        for slot in 0..MAX_INPUTS {
            let input = &self.inputs[slot];
            if input.buffer.is_none() || input.owner != owner || !self.write(slot) {
                continue;
            }
            let input = &self.inputs[slot];
            if input.ended {
                self.finish(slot);
            } else if input.polled {
                let _ = sys::epoll_ctl(self.epoll, ADD, input.source.raw(), EPOLLIN, token(INPUT, slot as u32));
            } else {
                self.ready(slot);
            }
        }
    }

    /// The client's input has ended. If the client wanted that, the process's input ends once all is written.
    fn finish(&mut self, slot: usize) {
        let epoll = self.epoll;
        let input = &mut self.inputs[slot];
        let_go(epoll, &mut input.source);
        if input.from < input.to {
            return;
        }
        let (owner, once) = (input.owner, input.once);
        if let Some(buffer) = input.buffer.take() {
            sys::unmap(buffer);
        }
        if once {
            self.end_target(owner);
        }
    }

    /// The end of each input that is open now ends the process's input.
    pub fn end_with(&mut self, owner: u32) {
        let open = self.inputs.iter_mut().filter(|input| input.owner == owner && input.buffer.is_some());
        open.for_each(|input| input.once = true);
    }

    /// Ends the process's input. The launcher keeps a copy of the container's, and is notified.
    fn end_target(&mut self, owner: u32) {
        self.close_target(owner);
        if owner == CONTAINER {
            self.launcher.notify(Message { code: CLOSED, ..Message::default() });
        }
    }

    fn close_target(&mut self, owner: u32) {
        let epoll = self.epoll;
        if let Some(target) = self.targets.get_mut(owner as usize) {
            let_go(epoll, target);
        }
    }

    /// The process is gone: nobody takes input any more.
    pub fn lose(&mut self, owner: u32) {
        let epoll = self.epoll;
        for input in &mut self.inputs {
            if input.owner == owner && input.buffer.is_some() {
                let_go(epoll, &mut input.source);
                if let Some(buffer) = input.buffer.take() {
                    sys::unmap(buffer);
                }
            }
        }
        self.close_target(owner);
    }
}
