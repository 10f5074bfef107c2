//! Want of memory: told when it happens, not only at the container's end.

use crate::boot::Monitor;
use crate::life::{OOM, token};
use crate::sys::{self, *};

/// The known work of the OOM killer in the container.
#[derive(Clone, Copy)]
pub struct Watch {
    /// Tells of more: v1's eventfd, v2's open `memory.events`; below 0: nothing does.
    fd: i32,
    v2: bool,
    /// Kills that are told.
    seen: u64,
    /// One is told that the count does not show yet: v1 tells before it kills.
    ahead: bool,
}

impl Monitor {
    /// Counts from now on: the groups are made, nothing runs in them.
    pub fn begin_oom(&mut self) {
        self.oom =
            Watch { fd: -1, v2: self.oom_file.ends_with(b"memory.events\0"), seen: self.oom_kills(), ahead: false };
    }

    /// Asks to be told. Where the kernel does not, the end of the container tells.
    pub fn watch_oom(&mut self) {
        let events = if self.oom.v2 { EPOLLPRI } else { EPOLLIN };
        let fd = if self.oom.v2 { sys::openat(AT_FDCWD, self.oom_file, O_RDONLY, 0) } else { self.v1_notice() };
        let Ok(fd) = fd else { return };
        self.oom.fd = fd;
        if sys::epoll_ctl(self.epoll, ADD, fd, events, token(OOM, 0)).is_err() {
            self.end_oom();
        }
        self.check_oom();
    }

    /// An eventfd that the memory group signals.
    fn v1_notice(&self) -> Result<i32> {
        let name = self.oom_file.iter().rposition(|&b| b == b'/').ok_or(EINVAL)? + 1;
        let mut path = [0u8; 4096];
        let control = b"cgroup.event_control\0";
        let room = path.get_mut(..name + control.len()).ok_or(E2BIG)?;
        room[..name].copy_from_slice(&self.oom_file[..name]);
        room[name..].copy_from_slice(control);
        let file = sys::openat(AT_FDCWD, self.oom_file, O_RDONLY, 0)?;
        let notice = sys::eventfd();
        let asked = notice.and_then(|notice| {
            let mut text = [0u8; 64];
            let mut writer = crate::text::Writer::new(&mut text);
            writer.number(i64::from(notice)).bytes(b" ").number(i64::from(file));
            crate::cgroup::write_file(&path, writer.done()).map(|()| notice).inspect_err(|_| sys::close(notice))
        });
        sys::close(file);
        asked
    }

    /// Tells what has not been told.
    pub fn check_oom(&mut self) {
        let mut count = [0u8; 8];
        let noticed = !self.oom.v2 && self.oom.fd >= 0 && sys::read(self.oom.fd, &mut count).is_ok();
        let kills = self.oom_kills();
        let more = kills > self.oom.seen;
        self.oom.seen = kills.max(self.oom.seen);
        if noticed || more && !self.oom.ahead {
            self.state.flags |= crate::wire::STATE_OOM;
            self.write_state(false);
            self.event(b"oom", b"", &[]);
        }
        self.oom.ahead = !more && (noticed || self.oom.ahead);
    }

    /// Tells the last, and stops listening: the group goes.
    pub fn end_oom(&mut self) {
        self.check_oom();
        if self.oom.fd >= 0 {
            sys::close(self.oom.fd);
            self.oom.fd = -1;
        }
    }

    /// How many processes the OOM killer has taken of this container.
    fn oom_kills(&self) -> u64 {
        let mut buffer = [0u8; 512];
        let length = match self.oom.fd {
            // Read where it is listened, which is what takes note of a change.
            fd if fd >= 0 && self.oom.v2 => sys::pread(fd, &mut buffer, 0),
            _ => sys::read_file(self.oom_file, &mut buffer),
        };
        crate::answers::oom_kills(&buffer[..length.unwrap_or(0)])
    }
}
