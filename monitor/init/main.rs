//! The init of containers that ask for one: it starts the command as its only own child, passes signals on to it, reaps
//! whatever is left to it, and ends with the command's exit code. `init -- COMMAND [ARG...]`.
//!
//! The program has no memory or descriptor of the engine: it is a program of the container like any other.

#![no_std]
#![no_main]
#![deny(unsafe_op_in_unsafe_fn)]

#[macro_use]
#[allow(dead_code)]
#[path = "../program/sys.rs"]
mod sys;
#[path = "../program/memory.rs"]
mod memory;
#[path = "../src/walls.rs"]
#[allow(dead_code)]
mod walls;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    sys::exit(70)
}

/// The entry point calls this.
mod boot {
    /// `stack` is what the kernel laid out for a new program: the count of arguments, the arguments, the environment.
    pub extern "C" fn main(stack: *const usize) -> ! {
        // SAFETY: the kernel's layout: a count, so many pointers and a null, then the environment's and a null.
        unsafe {
            let count = *stack;
            super::run(stack.add(1), count, stack.add(count + 2))
        }
    }
}

use sys::{Result, call, nr};

/// Signals that are never passed on: faults of this process itself, and those of terminals, which it ignores.
const OWN: [u32; 9] = [4, 5, 6, 7, 8, 11, 31, SIGTTIN, SIGTTOU];
const SIGTTIN: u32 = 21;
const SIGTTOU: u32 = 22;

/// # Safety
/// `argv` points at `argc` C strings and a null, `envp` at C strings and a null.
unsafe fn run(argv: *const usize, argc: usize, envp: *const usize) -> ! {
    // SAFETY: within the arguments.
    let skipped = if argc > 1 && text(unsafe { *argv.add(1) }) == b"--" { 2 } else { 1 };
    if argc <= skipped {
        complain(&[b"init: no command\n"]);
        sys::exit(1);
    }
    let waited = OWN.iter().fold(!0u64, |set, signal| set & !(1 << (signal - 1)));
    let mut before = 0u64;
    // SAFETY: both sets live over the call.
    let _ = unsafe { call(nr::RT_SIGPROCMASK, &[2, (&raw const waited) as usize, (&raw mut before) as usize, 8]) };
    sys::set_signal(SIGTTIN, 1);
    sys::set_signal(SIGTTOU, 1);
    match fork() {
        // SAFETY: the command is within the arguments.
        Ok(0) => unsafe { command(argv.add(skipped), envp, before) },
        Ok(child) => serve(child, waited),
        Err(_) => {
            complain(&[b"init: cannot make a process\n"]);
            sys::exit(1)
        }
    }
}

fn fork() -> Result<i32> {
    // Not clone3: a container's filter need not know it.
    // SAFETY: no memory is shared, so the arguments are flags and nulls alone.
    unsafe { call(nr::CLONE, &[sys::SIGCHLD as usize, 0, 0, 0, 0]) }.map(|pid| pid as i32)
}

/// Waits for signals and for the ends of children until the command's.
fn serve(child: i32, waited: u64) -> ! {
    loop {
        // SAFETY: the set lives over the call; nothing is asked about the signal.
        let signal = unsafe { call(nr::RT_SIGTIMEDWAIT, &[(&raw const waited) as usize, 0, 0, 8]) };
        match signal {
            Ok(signal) if signal as u32 != sys::SIGCHLD => {
                // SAFETY: numbers alone.
                let _ = unsafe { call(nr::KILL, &[child as usize, signal]) };
            }
            _ => {}
        }
        let mut ended = None;
        while let Some((pid, status)) = sys::reap() {
            if pid == child {
                let signal = status & 0x7f;
                ended = Some(if signal == 0 { status >> 8 & 0xff } else { 128 + signal });
            }
        }
        if let Some(code) = ended {
            sys::exit(code)
        }
    }
}

/// The command's process: leader of its group, in the terminal's foreground where there is one.
///
/// # Safety
/// `argv` and `envp` as execve(2) takes them, `argv` with at least one word.
unsafe fn command(argv: *const usize, envp: *const usize, mask: u64) -> ! {
    const TIOCSPGRP: usize = 0x5410;
    // SAFETY: numbers, and a mask that lives over the call.
    unsafe {
        let _ = call(nr::SETPGID, &[0, 0]);
        let group = call(nr::GETPID, &[]).unwrap_or(0) as i32;
        let _ = sys::ioctl(0, TIOCSPGRP, (&raw const group) as usize);
        sys::set_signal(SIGTTIN, 0);
        sys::set_signal(SIGTTOU, 0);
        let _ = call(nr::RT_SIGPROCMASK, &[2, (&raw const mask) as usize, 0, 8]);
    }
    // SAFETY: there is a word.
    let program = text(unsafe { *argv });
    // SAFETY: the environment is the kernel's own layout.
    let error = unsafe { execute(program, argv, envp) };
    let reason: &[u8] = match error {
        sys::ENOENT => b": no such file or directory\n",
        sys::EACCES => b": permission denied\n",
        _ => b" failed\n",
    };
    complain(&[b"init: exec ", program, reason]);
    sys::exit(match error {
        sys::ENOENT => 127,
        sys::EACCES => 126,
        _ => 1,
    })
}

/// Looks the program up in `PATH` where it has no slash. Answers the error number.
///
/// # Safety
/// As [`command`].
unsafe fn execute(program: &[u8], argv: *const usize, envp: *const usize) -> i32 {
    let mut path: &[u8] = b"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    let mut at = envp;
    // SAFETY: the environment ends with a null.
    unsafe {
        while *at != 0 {
            path = text(*at).strip_prefix(b"PATH=").unwrap_or(path);
            at = at.add(1);
        }
    }
    let try_one = |name: *const u8| {
        // SAFETY: a C string, and the kernel's own arrays.
        unsafe { call(nr::EXECVE, &[name as usize, argv as usize, envp as usize]) }.err().unwrap_or(0)
    };
    if program.contains(&b'/') {
        return try_one(program.as_ptr());
    }
    let mut found = sys::ENOENT;
    let mut candidate = [0u8; 4096];
    for dir in path.split(|&byte| byte == b':') {
        let length = dir.len() + 1 + program.len();
        if program.is_empty() || length + 1 > candidate.len() {
            continue;
        }
        candidate[..dir.len()].copy_from_slice(dir);
        candidate[dir.len()] = b'/';
        candidate[dir.len() + 1..length].copy_from_slice(program);
        candidate[length] = 0;
        match try_one(if dir.is_empty() { candidate[1..].as_ptr() } else { candidate.as_ptr() }) {
            sys::ENOENT | sys::ENOTDIR => {}
            sys::EACCES => found = sys::EACCES,
            error => return error,
        }
    }
    found
}

fn complain(parts: &[&[u8]]) {
    for part in parts {
        let _ = sys::write_all(2, part);
    }
}

/// A C string of the kernel's layout.
fn text(at: usize) -> &'static [u8] {
    let start = at as *const u8;
    let mut length = 0;
    // SAFETY: the string ends with a NUL, and lives as long as the program. Volatile, because a plain loop would become
    // a call of strlen(3).
    unsafe {
        while start.add(length).read_volatile() != 0 {
            length += 1;
        }
        core::slice::from_raw_parts(start, length)
    }
}
