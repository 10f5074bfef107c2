//! Kills of the OOM killer: noticed when they happen, not only at the container's end.

use crate::fd::Fd;
use crate::oom_count::Count;
use crate::subjects::{OOM, token};
use crate::sys::{self, *};

/// Watches for the OOM killer in the container's memory group.
pub struct Oom {
    /// The file that has the number of kills, with its NUL.
    file: &'static [u8],
    /// Reports more kills: the eventfd of control groups v1, or the open `memory.events` of v2. None if nothing reports
    /// them.
    notices: Fd,
    v2: bool,
    count: Count,
}

impl Oom {
    pub fn new() -> Oom {
        Oom { file: b"\0", notices: Fd::NONE, v2: false, count: Count::from(0) }
    }

    /// Counts from now on. The groups are there, and nothing runs in them yet.
    pub fn begin(&mut self, file: &'static [u8]) {
        self.notices.close();
        (self.file, self.v2) = (file, file.ends_with(b"memory.events\0"));
        self.count = Count::from(self.kills());
    }

    /// Reads the number of kills from another file from now on.
    pub fn set_file(&mut self, file: &'static [u8]) {
        self.file = file;
    }

    /// Subscribes to notices. Without them the kills are found at the container's end.
    pub fn watch(&mut self, epoll: i32) {
        let events = if self.v2 { EPOLLPRI } else { EPOLLIN };
        let fd = if self.v2 { sys::openat(AT_FDCWD, self.file, O_RDONLY, 0) } else { self.v1_notices() };
        let Ok(fd) = fd else { return };
        self.notices.set(fd);
        if sys::epoll_ctl(epoll, ADD, fd, events, token(OOM, 0)).is_err() {
            self.notices.close();
        }
    }

    /// An eventfd that the memory group signals.
    fn v1_notices(&self) -> Result<i32> {
        let name = self.file.iter().rposition(|&b| b == b'/').ok_or(EINVAL)? + 1;
        let mut path = [0u8; 4096];
        let control = b"cgroup.event_control\0";
        let room = path.get_mut(..name + control.len()).ok_or(E2BIG)?;
        room[..name].copy_from_slice(&self.file[..name]);
        room[name..].copy_from_slice(control);
        let file = Fd::new(sys::openat(AT_FDCWD, self.file, O_RDONLY, 0)?);
        let mut notices = Fd::new(sys::eventfd()?);
        let mut text = [0u8; 64];
        let mut writer = crate::text::Writer::new(&mut text);
        writer.number(i64::from(notices.raw())).bytes(b" ").number(i64::from(file.raw()));
        sys::write_file(&path, writer.done())?;
        Ok(notices.take())
    }

    /// Answers whether an event is to announce a kill.
    #[must_use]
    pub fn check(&mut self) -> bool {
        let mut count = [0u8; 8];
        let noticed = !self.v2 && self.notices.is_open() && sys::read(self.notices.raw(), &mut count).is_ok();
        let kills = self.kills();
        self.count.announces(noticed, kills)
    }

    /// Stops listening: the group goes.
    pub fn end(&mut self) {
        self.notices.close();
    }

    /// How many processes of this container the OOM killer has killed.
    fn kills(&self) -> u64 {
        let mut buffer = [0u8; 512];
        let length = match self.notices.raw() {
            // A read of the watched descriptor acknowledges the change.
            fd if fd >= 0 && self.v2 => sys::pread(fd, &mut buffer, 0),
            _ => sys::read_file(self.file, &mut buffer),
        };
        crate::answers::oom_kills(&buffer[..length.unwrap_or(0)])
    }
}
