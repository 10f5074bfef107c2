//! The signal that stops a container.

use crate::error::{Error, Result};
use crate::kernel::signal::{parse_signal, signal_exists};
use crate::model::ContainerConfig;

/// The signal that asks a container to stop; SIGTERM if its configuration names none (or an unknown one).
pub(crate) fn stop_signal(config: &ContainerConfig) -> i32 {
    parse_stop_signal(&config.stop_signal).unwrap_or(libc::SIGTERM)
}

pub(super) fn parse_stop_signal(text: &str) -> Result<i32> {
    match parse_signal(text)? {
        number if signal_exists(number) => Ok(number),
        _ => Err(Error::invalid(format!("Invalid signal: {text}"))),
    }
}
