//! Compiles the monitor program, and the init of containers that ask for one: static, `no_std`, no C library.
//!
//! One direct call of the compiler, because the flags (no start files, abort on panic, static) are the programs' alone
//! and a nested cargo would need a lock file and a target directory of its own.

use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=program");
    println!("cargo:rerun-if-changed=init");
    println!("cargo:rerun-if-changed=src/wire.rs");
    for source in ["answers", "deflate", "passage", "question", "users"] {
        println!("cargo:rerun-if-changed=src/{source}.rs");
    }
    println!("cargo:rerun-if-changed=src/filter.rs");
    println!("cargo:rerun-if-changed=src/walls.rs");
    compile("program/main.rs", "coracle_monitor_program", "coracle-monitor");
    compile("init/main.rs", "coracle_init_program", "coracle-init");
}

fn compile(source: &str, name: &str, program: &str) {
    let var = |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"));
    let output = PathBuf::from(var("OUT_DIR")).join(program);
    let mut rustc = Command::new(var("RUSTC"));
    rustc.args([source, "--crate-name", name, "--crate-type", "bin", "--edition", "2024"]);
    rustc.args(["--target", &var("TARGET")]);
    rustc.args(["-C", "opt-level=2", "-C", "panic=abort", "-C", "lto=fat", "-C", "codegen-units=1"]);
    rustc.args(["-C", "relocation-model=static", "-C", "strip=symbols", "-C", "overflow-checks=off"]);
    // A third of the usual bound: what is hot says so itself, and a tenth of the program's size goes.
    rustc.args(["-C", "llvm-args=-inline-threshold=75"]);
    for arg in [
        "-nostartfiles",
        "-nostdlib",
        "-static",
        // Nobody unwinds it.
        "-Wl,--no-eh-frame-hdr,--build-id=none,-z,noexecstack,-z,norelro,--gc-sections,-z,max-page-size=4096",
    ] {
        rustc.args(["-C", &format!("link-arg={arg}")]);
    }
    if std::env::var_os("CARGO_FEATURE_ATTACKS").is_some() {
        rustc.args(["--cfg", "feature=\"attacks\""]);
    }
    rustc.arg("-o").arg(&output);
    let status = rustc.status().unwrap_or_else(|error| panic!("cannot run the compiler: {error}"));
    assert!(status.success(), "{program} does not compile");
}
