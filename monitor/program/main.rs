//! The monitor: one small static process per running container.
//!
//! It holds the container's standard streams, writes its log, serves attach and exec on a control socket, reaps, records
//! the end, applies the restart policy. It is started by the library from a sealed memfd with one descriptor (3), the boot
//! socket, and needs the library no more after that. It parses no JSON, and opens no path that a container can influence
//! outside a confined walk.
//!
//! It is two processes (ARCHITECTURE.md, "The two halves of a monitor"): the launcher, and the `worker`, which begins as a copy
//! of it without rights (`confine`) and is led by `orders`.
//!
//! Files: `boot` (from the first instruction to the loop), `control` (requests), `life` (start, end, restart; `restart`: whether and when),
//! `streams` (output and input), `exec` (further processes), `health` (checks), `jsonlog`, `logfile`, `rotate` and `gzip` (the log; `deflate`,
//! and the library `lines`),
//! `record` (state and events), `cgroup`, `net`, `dns` (its messages: `question`), `relay` (`passage`), `rights` (the launcher's capabilities), `keep` (a network that outlives a restart),
//! `child` (the plan, between clone and exec), `permits` (asks a seccomp filter), `others_proc` (a procfs of others' PID
//! namespace), `overlay`, `user` (passwd and group; `users`), `answers` (of the kernel), `userns`, `text`, `sys` (the kernel).

#![no_std]
#![no_main]
#![deny(unsafe_op_in_unsafe_fn)]

extern crate lines;

#[macro_use]
mod sys;
#[path = "../src/answers.rs"]
mod answers;
mod boot;
#[allow(dead_code)]
#[path = "../src/call.rs"]
mod call;
mod cgroup;
mod child;
mod confine;
mod control;
#[path = "../src/deflate.rs"]
mod deflate;
mod dns;
mod entry;
#[path = "../src/events.rs"]
mod events;
mod exec;
#[path = "../src/exits.rs"]
mod exits;
mod fd;
#[allow(dead_code)]
#[path = "../src/filter.rs"]
mod filter;
mod gzip;
mod health;
mod in_force;
#[path = "../src/jsonlog.rs"]
mod jsonlog;
mod keep;
mod life;
mod logfile;
mod memory;
mod net;
mod oom;
#[path = "../src/oom_count.rs"]
mod oom_count;
#[allow(dead_code)]
#[path = "../src/ops.rs"]
mod ops;
mod orders;
mod others_proc;
mod overlay;
#[path = "../src/passage.rs"]
mod passage;
mod permits;
#[path = "../src/question.rs"]
mod question;
mod record;
mod relay;
#[path = "../src/restart.rs"]
mod restart;
mod rights;
mod rotate;
mod streams;
#[path = "../src/text.rs"]
mod text;
#[path = "../src/timers.rs"]
mod timers;
mod user;
mod userns;
#[path = "../src/users.rs"]
mod users;
#[allow(dead_code)]
#[path = "../src/walls.rs"]
mod walls;
#[allow(dead_code)]
#[path = "../src/wire.rs"]
mod wire;
mod worker;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    // A defect. Ending takes the container along, and the library reports it; going on could harm the host.
    sys::exit(70)
}
