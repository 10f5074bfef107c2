//! The standard streams of the new process, and its terminal.

use super::covers::is_null;
use super::mounts::DEVPTS_MAGIC;
use super::tree::{FIXED, Tree};
use super::{Launch, TIOCSCTTY, set_session};
use crate::fault::{Outcome, Step, errno, os};
use crate::report::Report;
use crate::reports::hand_over;
use crate::sys::{self, *};
#[cfg(feature = "attacks")]
use crate::walls::Wall;
use crate::wire::*;

/// The place that a terminal is mounted on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Console {
    /// The container's own `/dev/console`, which is made.
    Own,
    /// That of a `/dev` from elsewhere, if it is there.
    Foreign,
    None,
}

pub struct Stdio<'a> {
    launch: &'a Launch<'a>,
    console: Console,
}

impl<'a> Stdio<'a> {
    pub fn new(launch: &'a Launch<'a>) -> Stdio<'a> {
        Stdio { launch, console: Console::Own }
    }

    /// The container's `/dev` is from elsewhere, and has these parts: `FOREIGN_*`.
    pub fn set_foreign(&mut self, parts: u32) {
        self.console = match parts {
            _ if parts & FOREIGN_NOT_CONSOLE != 0 => Console::Own,
            _ if parts & FOREIGN_CONSOLE != 0 => Console::Foreign,
            _ => Console::None,
        };
    }

    /// Gives the streams to a user of the container's user namespace. Inside of it nobody may give away a file of
    /// somebody outside.
    pub fn give(&self, uid: u32, gid: u32) -> Step {
        for (number, given) in self.launch.stdio.into_iter().enumerate() {
            if given >= 0 && self.launch.direct[number] {
                continue;
            }
            if given >= 0 {
                os(sys::fchownat(given, b"\0", uid, gid, AT_EMPTY_PATH))?;
            } else if self.launch.tty && self.launch.init < 0 {
                let _ = sys::fchownat(number as i32, b"\0", uid, u32::MAX, AT_EMPTY_PATH);
            }
        }
        Ok(())
    }

    /// Gives the streams to the user that the process becomes. `/dev/null` stays root's, and a caller's own streams
    /// stay the caller's.
    pub fn give_to_process(&self, uid: u32) {
        for (number, given) in self.launch.stdio.into_iter().enumerate() {
            if self.launch.tty || given >= 0 && !self.launch.direct[number] {
                let _ = sys::fchownat(number as i32, b"\0", uid, u32::MAX, AT_EMPTY_PATH);
            }
        }
    }

    /// Puts the streams, a terminal or `/dev/null` at the numbers 0 to 2. `devpts` makes the terminal.
    pub fn fill(&self, tree: &Tree, devpts: i32, label: &[u8]) -> Step {
        if !self.launch.enters {
            os(set_session())?;
        }
        let mut streams = self.launch.stdio;
        if self.launch.tty {
            streams = [self.terminal(tree, devpts)?; 3];
        }
        for (number, fd) in streams.into_iter().enumerate() {
            // A caller's own may be the host's null.
            let own = fd >= 0 && !(self.launch.direct[number] && is_null(fd).is_ok());
            let fd = if own { fd } else { own_null(tree)? };
            if own && !self.launch.tty && !self.launch.direct[number] && label.len() > 1 {
                // The monitor's pipe has the monitor's label and level, and the container may not write to such a file.
                // If the policy refuses the new label, the container's rights decide.
                let _ = sys::set_attribute(fd, c"security.selinux", label);
            }
            // Out of the way of the three numbers that are being filled.
            let fd = if fd < 3 && fd != number as i32 { os(sys::dup_from(fd, 3))? } else { fd };
            os(sys::dup_to(fd, number as i32))?;
        }
        #[cfg(feature = "attacks")]
        if !Wall::OwnTerminal.stands() && !self.launch.tty {
            let _ = sys::ioctl(0, TIOCSCTTY, 1);
        }
        Ok(())
    }

    /// A terminal of the container's own `/dev/pts`; its master goes to the monitor.
    fn terminal(&self, tree: &Tree, devpts: i32) -> Outcome<i32> {
        const TIOCSPTLCK: usize = 0x4004_5431;
        const TIOCGPTPEER: usize = 0x5441;
        let launch = self.launch;
        if devpts < 0 {
            // Somebody bound another file system to /dev/pts, which makes no terminals.
            return Err(errno(ENODEV));
        }
        if os(sys::fs_magic(devpts))? != DEVPTS_MAGIC {
            return Err(errno(EINVAL));
        }
        let master = os(sys::openat2(devpts, b"ptmx\0", O_RDWR | O_NOCTTY, 0, FIXED))?;
        let unlocked = 0i32;
        os(sys::ioctl(master, TIOCSPTLCK, (&raw const unlocked) as usize))?;
        let slave = os(sys::ioctl(master, TIOCGPTPEER, (O_RDWR | O_NOCTTY | O_CLOEXEC) as usize))? as i32;
        if launch.rows | launch.cols != 0 {
            os(sys::set_window(master, launch.rows, launch.cols))?;
        }
        os(hand_over(launch.report, Report::Terminal, Some(master)))?;
        sys::close(master);
        if !launch.enters {
            os(sys::ioctl(slave, TIOCSCTTY, 0))?;
        }
        if launch.init < 0 && self.console != Console::None {
            self.mount_console(tree, slave)?;
        }
        Ok(slave)
    }

    fn mount_console(&self, tree: &Tree, terminal: i32) -> Step {
        let console = match self.console {
            Console::Own => tree.file(b"/dev/console\0")?,
            _ => match sys::openat2(tree.root, b"dev/console\0", O_PATH, 0, FIXED) {
                Err(ENOENT) => return Ok(()),
                other => os(other)?,
            },
        };
        let mount = os(sys::open_tree(terminal, b"\0", AT_EMPTY_PATH | 1))?;
        os(sys::move_mount(mount, console))?;
        sys::close(mount);
        sys::close(console);
        Ok(())
    }
}

/// The container's own `/dev/null`: a holder of the host's could change its mode for everybody. A process of the
/// container may have put something else in its place, such as a link to a descriptor of the monitor: no link is
/// followed, and the file that was opened is checked.
fn own_null(tree: &Tree) -> Outcome<i32> {
    let null = os(sys::openat2(tree.root, b"dev/null\0", O_RDWR | O_NOCTTY, 0, FIXED))?;
    is_null(null)?;
    Ok(null)
}
