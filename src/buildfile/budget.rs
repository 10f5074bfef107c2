//! Bounds of the values that the variables of one instruction become, and of the work that they are.

use crate::error::{Cause, Error, Result};
use crate::walls::Wall;
use std::cell::Cell;

/// Bytes that the values of variables may take in one instruction, and the variables of an environment together. A
/// value can be made of earlier values, so without a bound a few lines become more than any memory holds.
pub(super) const MAX_VALUES: usize = 1 << 20;

/// Comparisons of the parts of patterns with characters, characters of the values that are looked up, and variables that a name
/// is compared with, in one instruction: all of them come from the build file.
const MAX_WORK: usize = 50_000_000;

/// Bytes of an environment that take as long to search as one of its variables.
const BYTES_AT_ONCE: usize = 64;

/// The bytes that the values of one instruction may still take, and the work that its substitutions may still be.
#[derive(Debug, Clone)]
pub(crate) struct Budget {
    bytes: Cell<usize>,
    work: Cell<usize>,
    /// The work that a look-up of one name is.
    look_up: Cell<usize>,
}

impl Budget {
    /// Of one instruction.
    pub(crate) fn new() -> Budget {
        Budget { bytes: Cell::new(MAX_VALUES), work: Cell::new(MAX_WORK), look_up: Cell::new(1) }
    }

    /// Says in which environment names are looked up: a name that is not there is compared with all of it.
    pub(crate) fn looks_in(&self, env: &[String]) {
        let bytes: usize = env.iter().map(String::len).sum();
        self.look_up.set(1 + env.len() + bytes / BYTES_AT_ONCE);
    }

    /// Takes the work of a look-up, or refuses it.
    pub(super) fn look_up(&self) -> Result<()> {
        self.work(self.look_up.get())
    }

    /// Takes the bytes of a value, or refuses it.
    pub(super) fn take(&self, value: String) -> Result<String> {
        self.fits(value.len())?;
        self.bytes.set(self.bytes.get().saturating_sub(value.len()));
        Ok(value)
    }

    /// Refuses a value that is as long as this, or becomes longer. Then nothing is left.
    pub(super) fn fits(&self, length: usize) -> Result<()> {
        if length <= self.bytes.get() || !Wall::BuildWords.stands() {
            return Ok(());
        }
        self.bytes.set(0);
        Err(too_large("its variables become"))
    }

    /// Does so much work, or refuses to.
    pub(super) fn work(&self, amount: usize) -> Result<()> {
        let left = self.work.get().checked_sub(amount);
        self.work.set(left.unwrap_or(0));
        match left {
            Some(_) => Ok(()),
            None => {
                let text = "the patterns in its substitutions, their values, and the variables among which names are looked \
                            up, are too long or too many";
                Err(Error::invalid(text).caused_by(Cause::ValuesTooLarge))
            }
        }
    }
}

/// The error of values that take too much; the message begins with `what`.
fn too_large(what: &str) -> Error {
    Error::invalid(format!("{what} more than {MAX_VALUES} bytes")).caused_by(Cause::ValuesTooLarge)
}

/// Refuses variables (or their like: `what` says) that take too much together.
pub(crate) fn check_all<'v>(what: &str, values: impl Iterator<Item = &'v str>) -> Result<()> {
    match values.map(str::len).sum::<usize>() > MAX_VALUES && Wall::BuildWords.stands() {
        true => Err(too_large(&format!("{what} takes"))),
        false => Ok(()),
    }
}
