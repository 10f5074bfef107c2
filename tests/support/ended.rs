//! Programs that a test starts and that end with it.

use std::process::{Child, Command};

/// A program that ends with the value, also when the test fails.
pub struct Ended(pub Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Loops that keep so many processors busy.
pub fn busy(count: usize) -> Vec<Ended> {
    let busy = || Command::new("sh").args(["-c", "while :; do :; done"]).spawn().expect("a busy loop");
    (0..count).map(|_| Ended(busy())).collect()
}
