//! The attackers' programs: C sources of `tests/attacks/programs`, compiled when a test first asks for one.

use crate::support::project;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;

/// The static program of `tests/attacks/programs/NAME.c`, for this machine's processor.
pub fn program(name: &str) -> PathBuf {
    compiled(name, &["-static", "-mno-red-zone"])
}

/// Like [`program`], for i386, without any library.
pub fn program_of_i386(name: &str) -> PathBuf {
    compiled(name, &["-m32", "-static", "-nostdlib", "-fno-pie", "-no-pie", "-fno-stack-protector"])
}

fn compiled(name: &str, more: &[&str]) -> PathBuf {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _held = ONE_AT_A_TIME.lock();
    let source = project().join(format!("tests/attacks/programs/{name}.c"));
    let made = project().join(format!("target/test-programs/{name}"));
    let time = |path: &PathBuf| std::fs::metadata(path).and_then(|facts| facts.modified()).ok();
    if time(&made) < time(&source) {
        std::fs::create_dir_all(made.with_file_name("")).expect("make target/test-programs");
        // Made beside and renamed: another test program may be doing the same.
        let part = made.with_extension(std::process::id().to_string());
        let status = Command::new("gcc").args(["-O1", "-Wall", "-o"]).arg(&part).args(more).arg(&source).status();
        assert!(status.expect("run gcc").success(), "{name}.c does not compile");
        std::fs::rename(&part, &made).expect("rename the program");
    }
    made
}
