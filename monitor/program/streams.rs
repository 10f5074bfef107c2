//! The launcher's orders about standard streams. The worker carries them out (`outputs`, `inputs`).

use crate::fd::{self, Fd, close_all};
use crate::link::Link;
use crate::message::*;
use crate::owners::CONTAINER;
use crate::sys::{self, *};
use crate::wire::*;

/// Adds a client's streams to the container's; streams of a caller's own go to `direct`, for the next process. Closes
/// the descriptors that nobody wants.
pub fn attach(link: &mut Link, direct: &mut [Fd; 3], mask: u32, fds: &[i32]) -> Result<()> {
    let (mut wanted, mut mine, mut count) = (0, [-1; 3], 0);
    let mut fds = fds.iter().copied();
    for (stream, direct) in direct.iter_mut().enumerate() {
        let bit = SESSION_STDIN << stream;
        if mask & bit == 0 {
            continue;
        }
        let fd = fds.next().unwrap_or(-1);
        if mask & bit << SESSION_DIRECT != 0 {
            direct.set(fd);
        } else {
            wanted |= bit;
            mine[count] = own_description(fd, if stream == 0 { O_RDONLY } else { O_WRONLY });
            count += 1;
        }
    }
    fds.for_each(sys::close);
    let attach = Message { code: ATTACH, a: wanted, ..Message::default() };
    let result = match wanted {
        0 => Ok(()),
        // Before the start, the order waits for the worker.
        _ if link.awaits_worker() => link.order(attach, &mine[..count]),
        _ => link.command(Message { b: 1, ..attach }, &mine[..count]).map(drop),
    };
    close_all(&mine[..count]);
    result
}

/// Output of a further process. Takes the descriptors, also when it fails.
pub fn add_output(link: &mut Link, owner: u32, source: i32, sink: Option<i32>) -> Result<()> {
    let fds = [source, sink.map_or(-1, |fd| own_description(fd, O_WRONLY))];
    let count = if fds[1] >= 0 { 2 } else { 1 };
    let result = link.command(Message { code: OUTPUT, a: owner, ..Message::default() }, &fds[..count]).map(drop);
    close_all(&fds[..count]);
    result
}

/// A client's input for a further process. Takes the descriptor.
pub fn add_input(link: &mut Link, fd: i32, owner: u32, once: bool) -> Result<()> {
    let fd = own_description(fd, O_RDONLY);
    link.hand(Message { code: INPUT, a: owner, b: u64::from(once), ..Message::default() }, &[fd])
}

/// A process's end of its input. Takes the descriptor.
pub fn add_target(link: &mut Link, owner: u32, fd: i32) -> Result<()> {
    link.hand(Message { code: TARGET, a: owner, ..Message::default() }, &[fd])
}

/// A stream of the container's own; a copy stays here.
pub fn take_source(link: &mut Link, index: usize, source: i32) {
    link.worker.sources[index].set(source);
    if link.life.runs() {
        let log = link.worker.flags & FLAG_LOG != 0;
        let order = Message { code: OUTPUT, a: CONTAINER, b: index as u64 + 1, c: u64::from(log) };
        let _ = link.order(order, &[source]);
    }
}

/// The end of the container's input; a copy stays here.
pub fn take_stdin(link: &mut Link, fd: i32) {
    link.worker.stdin.set(fd);
    if link.life.runs() {
        let _ = link.order(Message { code: TARGET, a: CONTAINER, ..Message::default() }, &[fd]);
    }
}

/// From now on the end of a present client's input ends the container's input. The input of a terminal has no end.
pub fn end_input(link: &mut Link) -> Result<()> {
    if !link.life.runs() || link.worker.flags & FLAG_TTY != 0 {
        return Ok(());
    }
    link.command(Message { code: END_INPUT, a: CONTAINER, ..Message::default() }, &[]).map(drop)
}

pub fn enable_inputs(link: &mut Link) {
    let _ = link.order(Message { code: ENABLE, a: CONTAINER, ..Message::default() }, &[]);
}

/// The process is gone: drops its input.
pub fn drop_inputs(link: &mut Link, owner: u32) {
    if link.life.runs() {
        let _ = link.order(Message { code: DROP, a: owner, ..Message::default() }, &[]);
    }
}

/// The health check ended: answers how much it wrote.
pub fn end_check_output(link: &mut Link) -> u32 {
    link.command(Message { code: CHECKED, ..Message::default() }, &[]).map_or(0, |b| b.min(u64::from(u32::MAX)) as u32)
}

/// Writes the output of the last check into a file, at this position.
pub fn keep_check_output(link: &mut Link, file: i32, at: u64) -> Result<()> {
    link.command(Message { code: KEEP_CHECK, b: at, ..Message::default() }, &[file]).map(drop)
}

/// A descriptor that never blocks this process. The caller may share its flags, which must stay, so a pipe or a
/// terminal is opened again.
fn own_description(fd: i32, flags: u32) -> i32 {
    let socket = sys::fstat(fd).is_ok_and(|stat| stat.mode & S_IFMT == S_IFSOCK);
    if socket || sys::get_flags(fd).is_ok_and(|flags| flags & O_NONBLOCK != 0) {
        return fd;
    }
    match fd::reopen(fd, flags | O_NONBLOCK | O_NOCTTY) {
        Ok(own) => {
            sys::close(fd);
            own
        }
        Err(_) => fd,
    }
}
