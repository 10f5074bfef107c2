//! The command `coracle`.
fn main() {}
