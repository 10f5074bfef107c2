//! This process's terminal: raw mode that is always taken back, and its size.

use rustix::termios::{LocalModes, OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr};
use std::os::fd::AsFd;

/// Raw mode of standard input; dropping it restores the earlier mode.
pub struct Raw {
    before: Termios,
}

impl Raw {
    /// Switches to raw mode if standard input is a terminal.
    pub fn enter() -> Option<Raw> {
        let stdin = std::io::stdin();
        let before = tcgetattr(stdin.as_fd()).ok()?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(stdin.as_fd(), OptionalActions::Now, &raw).ok()?;
        Some(Raw { before })
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        let _ = tcsetattr(std::io::stdin().as_fd(), OptionalActions::Now, &self.before);
    }
}

/// No echo on standard input, while this lives.
pub struct Quiet {
    before: Termios,
}

impl Quiet {
    /// Switches the echo off if standard input is a terminal.
    pub fn enter() -> Option<Quiet> {
        let stdin = std::io::stdin();
        let before = tcgetattr(stdin.as_fd()).ok()?;
        let mut quiet = before.clone();
        quiet.local_modes.remove(LocalModes::ECHO);
        tcsetattr(stdin.as_fd(), OptionalActions::Flush, &quiet).ok()?;
        Some(Quiet { before })
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        let _ = tcsetattr(std::io::stdin().as_fd(), OptionalActions::Now, &self.before);
    }
}

/// Whether standard input is a terminal.
pub fn stdin_is_one() -> bool {
    isatty(std::io::stdin())
}

/// Whether standard output is a terminal.
pub fn stdout_is_one() -> bool {
    isatty(std::io::stdout())
}

/// Whether standard error is a terminal.
pub fn stderr_is_one() -> bool {
    isatty(std::io::stderr())
}

/// Whether standard output may have colours: it is a terminal that knows some, and the user does not forbid them
/// (`NO_COLOR`).
pub fn has_colours() -> bool {
    stdout_is_one() && takes_sequences() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Whether a terminal of this user takes control sequences, such as those that move the cursor.
pub fn takes_sequences() -> bool {
    std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Rows and columns of the terminal; zeros without a terminal.
pub fn size() -> (u16, u16) {
    match tcgetwinsize(std::io::stdout()).or_else(|_| tcgetwinsize(std::io::stdin())) {
        Ok(size) => (size.ws_row, size.ws_col),
        Err(_) => (0, 0),
    }
}
