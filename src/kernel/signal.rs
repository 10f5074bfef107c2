//! Signals by name and number.

use crate::error::{Error, Result};

/// The first and last real-time signal for programs; the C library keeps the two below for itself.
const RTMIN: i32 = 34;
const RTMAX: i32 = 64;
/// The names of real-time signals count up to this distance from the first and from the last, as in `kill -l` and
/// dockerd.
const UP: i32 = 15;
const DOWN: i32 = 14;

/// A signal by number or by name: in any case, with or without `SIG`, also `RTMIN+n` and `RTMAX-n`.
///
/// Returns any positive number: [`signal_exists`] says whether Linux has it. Errors: anything else.
pub(crate) fn parse_signal(text: &str) -> Result<i32> {
    let invalid = || Error::invalid(format!("Invalid signal: {text}"));
    if let Ok(number) = text.parse::<i32>() {
        return if number > 0 { Ok(number) } else { Err(invalid()) };
    }
    let upper = text.to_ascii_uppercase();
    named(upper.strip_prefix("SIG").unwrap_or(&upper)).ok_or_else(invalid)
}

/// Whether Linux has a signal with that number for programs.
pub(crate) fn signal_exists(number: i32) -> bool {
    (1..=RTMAX).contains(&number) && !(32..RTMIN).contains(&number)
}

fn named(name: &str) -> Option<i32> {
    let number = match name {
        "HUP" => libc::SIGHUP,
        "INT" => libc::SIGINT,
        "QUIT" => libc::SIGQUIT,
        "ILL" => libc::SIGILL,
        "TRAP" => libc::SIGTRAP,
        "ABRT" | "IOT" => libc::SIGABRT,
        "BUS" => libc::SIGBUS,
        "FPE" => libc::SIGFPE,
        "KILL" => libc::SIGKILL,
        "USR1" => libc::SIGUSR1,
        "SEGV" => libc::SIGSEGV,
        "USR2" => libc::SIGUSR2,
        "PIPE" => libc::SIGPIPE,
        "ALRM" => libc::SIGALRM,
        "TERM" => libc::SIGTERM,
        "STKFLT" => libc::SIGSTKFLT,
        "CHLD" | "CLD" => libc::SIGCHLD,
        "CONT" => libc::SIGCONT,
        "STOP" => libc::SIGSTOP,
        "TSTP" => libc::SIGTSTP,
        "TTIN" => libc::SIGTTIN,
        "TTOU" => libc::SIGTTOU,
        "URG" => libc::SIGURG,
        "XCPU" => libc::SIGXCPU,
        "XFSZ" => libc::SIGXFSZ,
        "VTALRM" => libc::SIGVTALRM,
        "PROF" => libc::SIGPROF,
        "WINCH" => libc::SIGWINCH,
        "IO" | "POLL" => libc::SIGIO,
        "PWR" => libc::SIGPWR,
        "SYS" => libc::SIGSYS,
        "RTMIN" => RTMIN,
        "RTMAX" => RTMAX,
        _ => return real_time(name),
    };
    Some(number)
}

fn real_time(name: &str) -> Option<i32> {
    // A number from 1 on in its plain spelling: no sign, no leading zero.
    let far = |text: &str, most: i32| {
        let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
        text.parse().ok().filter(|number| plain && (1..=most).contains(number))
    };
    match (name.strip_prefix("RTMIN+"), name.strip_prefix("RTMAX-")) {
        (Some(up), _) => Some(RTMIN + far(up, UP)?),
        (_, Some(down)) => Some(RTMAX - far(down, DOWN)?),
        _ => None,
    }
}
