//! The monitor: one small static process per running container.
//!
//! The monitor holds the container's standard streams, writes its log, serves attach and exec on a control socket,
//! reaps, records the end, and applies the restart policy. The library starts the monitor from a sealed memfd with one
//! descriptor (3), the boot socket. After that the monitor does not need the library any more. It parses no JSON, and
//! opens no path that a container can influence outside a confined walk.
//!
//! The monitor is two processes (ARCHITECTURE.md, "The two halves of a monitor"): the launcher, and the `worker`, which
//! begins as a copy of the launcher without rights (`confine`) and gets its orders over the `link`.
//!
//! Each part is a type of its own that knows other parts only as arguments of a call. `Monitor` (`monitor`) owns the
//! launcher's parts, and its methods pass on their results: `life` (the loop; end, restart), `launching` (the start of
//! the first process), `serve` (requests). The files in brackets are in `monitor/src`: they make no system call, and are
//! tested on the host.
//!
//! - container: `process` (the first one), `cgroup`, `oom` (`oom_count`), `network`, `userns`, `record` (state and
//!   events: `events`), `health` (`checkup`, `check_output`), (`restart`, `timers`, `exits`);
//! - clients: `control` (`clients`, `call`), `execs` (further processes: `progress`, `session`), `streams` and `sockets`
//!   (orders about them; `owners`);
//! - worker: `link` (`message`, `worker_life`, `successors`, `lost`) with `ways` (the sockets between the halves) and
//!   `inside` (sockets in the container's network), `launcher` (the worker's requests), `outputs` and `inputs`,
//!   `logfile`, `rotate` and `gzip` (the log: `jsonlog`, `deflate`, and the library `lines`), `buffered` and `writer` (a
//!   log that holds nobody up: `ring`), `dns` and `names`
//!   (`question`, `framed`, `servers`, `addresses`), `relay` (`passage`), (`open_set`);
//! - children: `child` (the plan, between clone and exec; `paths`, `devices`, `search`, `fault`), `reports` (`report`),
//!   (`permits`: whether a seccomp filter allows a call; `remount`: attributes of mounts on older kernels), `foreign_proc` (a procfs of a foreign PID namespace),
//!   `overlay`, `net`, `user` (passwd and group: `users`, `group_list`), `privileges` (what a process gives up),
//!   `rights` (the launcher's capabilities), `private` (memory that others may not see);
//! - below all of them: `fd` (descriptors that close), `failure`, `by_kind` (operations by kind), `in_force` (a plan
//!   until the next), `sys` (the kernel; `answers`, `text`), (`subjects` of epoll's events).

#![no_std]
#![no_main]
#![deny(unsafe_op_in_unsafe_fn)]

extern crate lines;

#[macro_use]
mod sys;
#[path = "../src/addresses.rs"]
mod addresses;
#[path = "../src/answers.rs"]
mod answers;
mod boot;
mod buffered;
mod by_kind;
#[allow(dead_code)]
#[path = "../src/call.rs"]
mod call;
mod cgroup;
#[path = "../src/check_output.rs"]
mod check_output;
#[path = "../src/checkup.rs"]
mod checkup;
mod child;
#[path = "../src/clients.rs"]
mod clients;
mod confine;
mod control;
#[path = "../src/deflate.rs"]
mod deflate;
#[path = "../src/devices.rs"]
mod devices;
mod dns;
mod entry;
#[path = "../src/events.rs"]
mod events;
mod execs;
#[path = "../src/exits.rs"]
mod exits;
mod failure;
#[path = "../src/fault.rs"]
mod fault;
mod fd;
#[allow(dead_code)]
#[path = "../src/filter.rs"]
mod filter;
mod foreign_proc;
#[path = "../src/framed.rs"]
mod framed;
#[path = "../src/group_list.rs"]
mod group_list;
mod gzip;
mod health;
mod in_force;
mod inputs;
mod inside;
#[path = "../src/jsonlog.rs"]
mod jsonlog;
mod launcher;
mod launching;
mod life;
mod link;
mod logfile;
#[path = "../src/lost.rs"]
mod lost;
mod memory;
#[path = "../src/message.rs"]
mod message;
mod monitor;
mod names;
mod net;
mod network;
mod oom;
#[path = "../src/oom_count.rs"]
mod oom_count;
#[path = "../src/open_set.rs"]
mod open_set;
#[allow(dead_code)]
#[path = "../src/ops.rs"]
mod ops;
mod outputs;
mod overlay;
#[path = "../src/owners.rs"]
mod owners;
#[path = "../src/passage.rs"]
mod passage;
#[path = "../src/paths.rs"]
mod paths;
#[path = "../src/permits.rs"]
mod permits;
mod private;
mod privileges;
mod process;
#[path = "../src/progress.rs"]
mod progress;
#[path = "../src/question.rs"]
mod question;
mod record;
mod relay;
#[path = "../src/remount.rs"]
mod remount;
#[path = "../src/report.rs"]
mod report;
mod reports;
#[path = "../src/restart.rs"]
mod restart;
mod rights;
#[path = "../src/ring.rs"]
mod ring;
mod rotate;
#[path = "../src/search.rs"]
mod search;
mod serve;
#[path = "../src/servers.rs"]
mod servers;
#[path = "../src/session.rs"]
mod session;
mod shared;
mod shipping;
mod sockets;
mod stale_socket;
mod streams;
#[path = "../src/subjects.rs"]
mod subjects;
#[path = "../src/successors.rs"]
mod successors;
#[allow(dead_code)]
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
mod ways;
#[allow(dead_code)]
#[path = "../src/wire.rs"]
mod wire;
mod worker;
#[path = "../src/worker_life.rs"]
mod worker_life;
mod writer;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    // A defect. Ending takes the container along, and the library reports it; going on could harm the host.
    sys::exit(70)
}
