//! The output of the health check: its beginning is kept, all of it is counted.

use crate::wire::HEALTH_OUTPUT;

/// Valid when all zero: nothing was written.
pub struct CheckOutput {
    bytes: [u8; HEALTH_OUTPUT],
    /// Bytes that were written.
    written: u32,
}

impl CheckOutput {
    /// A check begins.
    pub fn clear(&mut self) {
        self.written = 0;
    }

    /// Takes output.
    pub fn take(&mut self, data: &[u8]) {
        let from = (self.written as usize).min(HEALTH_OUTPUT);
        let take = data.len().min(HEALTH_OUTPUT - from);
        self.bytes[from..from + take].copy_from_slice(&data[..take]);
        self.written = self.written.saturating_add(data.len() as u32);
    }

    /// How much the check wrote.
    pub fn written(&self) -> u32 {
        self.written
    }

    /// The part that is kept.
    pub fn kept(&self) -> &[u8] {
        &self.bytes[..(self.written as usize).min(HEALTH_OUTPUT)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_the_output_is_kept_and_all_of_it_counted() {
        let mut output = CheckOutput { bytes: [0; HEALTH_OUTPUT], written: 0 };
        output.take(b"one ");
        output.take(b"two");
        assert_eq!((output.written(), output.kept()), (7, &b"one two"[..]));
        output.take(&[b'x'; HEALTH_OUTPUT]);
        assert_eq!(output.written() as usize, HEALTH_OUTPUT + 7);
        assert_eq!((output.kept().len(), &output.kept()[..8]), (HEALTH_OUTPUT, &b"one twox"[..]));
        output.take(b"more");
        assert_eq!((output.written() as usize, output.kept().len()), (HEALTH_OUTPUT + 11, HEALTH_OUTPUT));
        output.clear();
        assert_eq!((output.written(), output.kept()), (0, &b""[..]));
    }
}
