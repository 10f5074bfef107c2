//! The program that delivers the logs of a root: see `coracle_ship::program`.

use std::process::ExitCode;

fn main() -> ExitCode {
    coracle_ship::program::main()
}
