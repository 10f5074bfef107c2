//! The calls of a monitor: each as a value, and its place in a [`Request`].
//!
//! A program sends calls over the boot socket while the monitor starts, and over the control socket afterwards. Numbers
//! and places of arguments never change: a library meets monitors of earlier versions. A monitor answers ENOSYS to a
//! call that it does not know.

use crate::wire::{MESSAGE_MAGIC, Request, VERSION};

/// Which end of the container a client waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// The one that no restart follows.
    Over,
    /// This one, whatever follows.
    Stopped,
}

/// How long a container stays frozen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freeze {
    /// Until somebody thaws it.
    On,
    /// Until somebody thaws it or the connection ends, as it does when the asking program is killed.
    Held,
}

/// A call of a monitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Says that the monitor is there. As the first boot message it brings the boot descriptors.
    Hello,
    /// Signals the first process.
    Signal {
        /// The signal's number.
        signal: u32,
        /// No restart follows if the signal ends the container.
        by_hand: bool,
    },
    /// Brings descriptors of streams.
    Attach {
        /// Mask of `SESSION_*`; the descriptors come in the order of its bits.
        streams: u32,
    },
    /// Sets the size of a terminal.
    Resize {
        /// Lines of the terminal.
        rows: u16,
        /// Characters of a line.
        cols: u16,
        /// The pid of an exec'd process; none means the container's own terminal.
        process: Option<i32>,
    },
    /// Starts a process. Descriptors: plan, exec state file, streams; text: the exec instance's id, for its events. Two
    /// answers: started, ended.
    Exec {
        /// Mask of `SESSION_*`.
        streams: u32,
    },
    /// Answered when the container's process has ended.
    Wait(Until),
    /// Freezes the container.
    Pause(Freeze),
    /// Thaws the container.
    Unpause,
    /// Ends all restarts; a pending one is given up.
    NoRestart,
    /// Sets the restart policy.
    Policy {
        /// `RESTART_*`.
        name: u32,
        /// The most restarts; 0 means no bound.
        bound: u32,
    },
    /// Brings [`crate::wire::STRING_ATTRIBUTES`] as text.
    Attributes,
    /// Ends the boot messages: the start begins. Before this call come [`Call::NewNetwork`] or not, [`Call::Hello`],
    /// and any number of [`Call::Attach`] and [`Call::Volume`], and at most one [`Call::Lease`].
    Go,
    /// Brings a plan of cgroup operations, a sealed memfd. The operations stand in place of the plan's from the next
    /// start on; the directories are the same.
    Limits,
    /// Brings steps that a process in the container's network namespace takes now, and the container's plan from now
    /// on; where ports are published that were not, also the descriptors of [`crate::ops::Hold`] and
    /// [`crate::ops::RelayQueue`].
    Network,
    /// As a boot message: brings a mount namespace that has only the file system of the volume with this index. The
    /// monitor holds the namespace until the container has ended for good. To a running monitor, with the volume's name
    /// as text: the answer brings that namespace.
    Volume {
        /// The volume's place in the plan.
        index: u32,
    },
    /// A container that waits for its restart lets go of its root file system, and waits on until the connection ends.
    HoldOff,
    /// Makes the end of input of the clients that are attached now the end of the container's input, also where that
    /// input is to outlive them.
    EndInput,
    /// Comes before [`Call::Hello`], if the plan will need a new network namespace. The kernel takes longer for that
    /// than for the rest of a start, so the monitor makes it while the library makes the plan.
    NewNetwork,
    /// Among the boot messages: brings the reading end of a FIFO. When no process has the FIFO open for writing any more, the
    /// monitor ends the container, and no restart follows.
    Lease,
}

impl Call {
    /// The number of the call, and its arguments.
    fn parts(self) -> (u32, [u32; 3]) {
        match self {
            Call::Hello => (1, [0; 3]),
            Call::Signal { signal, by_hand } => (2, [signal, u32::from(by_hand), 0]),
            Call::Attach { streams } => (3, [streams, 0, 0]),
            Call::Resize { rows, cols, process } => {
                (4, [u32::from(rows), u32::from(cols), process.unwrap_or(0) as u32])
            }
            Call::Exec { streams } => (5, [streams, 0, 0]),
            Call::Wait(Until::Over) => (6, [0; 3]),
            Call::Wait(Until::Stopped) => (6, [1, 0, 0]),
            Call::Pause(Freeze::On) => (7, [0; 3]),
            Call::Pause(Freeze::Held) => (7, [1, 0, 0]),
            Call::Unpause => (8, [0; 3]),
            Call::NoRestart => (9, [0; 3]),
            Call::Policy { name, bound } => (10, [name, bound, 0]),
            Call::Attributes => (11, [0; 3]),
            Call::Go => (12, [0; 3]),
            Call::Limits => (13, [0; 3]),
            Call::Network => (20, [0; 3]),
            Call::Volume { index } => (21, [index, 0, 0]),
            Call::HoldOff => (22, [0; 3]),
            Call::EndInput => (23, [0; 3]),
            Call::NewNetwork => (24, [0; 3]),
            Call::Lease => (25, [0; 3]),
        }
    }

    /// The message of the call.
    pub fn request(self) -> Request {
        let (what, [a, b, c]) = self.parts();
        Request { magic: MESSAGE_MAGIC, version: VERSION, what, a, b, c, boot: [0; 16], d: 0 }
    }

    /// The call of a message; `None` where its number is not known.
    pub fn of(request: &Request) -> Option<Call> {
        let Request { what, a, b, c, .. } = *request;
        Some(match what {
            1 => Call::Hello,
            2 => Call::Signal { signal: a, by_hand: b != 0 },
            3 => Call::Attach { streams: a },
            4 => Call::Resize { rows: a as u16, cols: b as u16, process: (c != 0).then_some(c as i32) },
            5 => Call::Exec { streams: a },
            6 => Call::Wait(if a == 1 { Until::Stopped } else { Until::Over }),
            7 => Call::Pause(if a == 1 { Freeze::Held } else { Freeze::On }),
            8 => Call::Unpause,
            9 => Call::NoRestart,
            10 => Call::Policy { name: a, bound: b },
            11 => Call::Attributes,
            12 => Call::Go,
            13 => Call::Limits,
            20 => Call::Network,
            21 => Call::Volume { index: a },
            22 => Call::HoldOff,
            23 => Call::EndInput,
            24 => Call::NewNetwork,
            25 => Call::Lease,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_is_read_as_it_was_written() {
        let calls = [
            Call::Hello,
            Call::Signal { signal: 15, by_hand: true },
            Call::Signal { signal: 9, by_hand: false },
            Call::Attach { streams: 7 },
            Call::Resize { rows: 24, cols: 65_535, process: None },
            Call::Resize { rows: 1, cols: 2, process: Some(4_194_304) },
            Call::Exec { streams: 0x70 },
            Call::Wait(Until::Over),
            Call::Wait(Until::Stopped),
            Call::Pause(Freeze::On),
            Call::Pause(Freeze::Held),
            Call::Unpause,
            Call::NoRestart,
            Call::Policy { name: 3, bound: u32::MAX },
            Call::Attributes,
            Call::Go,
            Call::Limits,
            Call::Network,
            Call::Volume { index: 15 },
            Call::HoldOff,
            Call::EndInput,
            Call::NewNetwork,
            Call::Lease,
        ];
        for call in calls {
            let bytes = call.request().to_bytes();
            assert_eq!(Request::from_bytes(&bytes).as_ref().and_then(Call::of), Some(call));
        }
        // Every number that is known is that of a call above; others are not calls.
        let known = (0..100).filter(|&what| Call::of(&Request { what, ..Call::Hello.request() }).is_some());
        assert_eq!(known.collect::<Vec<_>>(), (1..=13).chain(20..=25).collect::<Vec<_>>());
    }
}
