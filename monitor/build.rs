//! Compiles the monitor program, and the init of containers that ask for one: static, `no_std`, no C library.
//!
//! Direct calls of the compiler, because the flags (no start files, abort on panic, static) are the programs' alone
//! and a nested cargo would need a lock file and a target directory of its own.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The linker leaves out sections that the program does not need: unwind tables (nobody unwinds it), the compilers'
/// names.
const LEFT_OUT: &str = "SECTIONS { /DISCARD/ : { *(.eh_frame) *(.eh_frame.*) *(.comment) } } INSERT AFTER .text;\n";

fn main() {
    for source in ["program", "init", "lines", "src"] {
        println!("cargo:rerun-if-changed={source}");
    }
    if std::env::var_os("CARGO_FEATURE_PROGRAMS").is_none() {
        return;
    }
    let build = Build { out: PathBuf::from(var("OUT_DIR")), target: var("TARGET") };
    std::fs::write(build.out.join("left-out.ld"), LEFT_OUT).unwrap_or_else(|error| panic!("left-out.ld: {error}"));
    build.library("lines/lib.rs", "lines", "2", &[]);
    build.library("program/main.rs", "program", "s", &["lines"]);
    build.program("program/start.rs", "coracle-monitor", &["program"]);
    build.program("init/main.rs", "coracle-init", &[]);
}

fn var(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"))
}

struct Build {
    out: PathBuf,
    target: String,
}

impl Build {
    /// A part that is compiled for speed (`2`) or size (`s`), whatever the program is compiled for: each of its
    /// functions is marked so, and stays so when all parts become one.
    fn library(&self, source: &str, name: &str, level: &str, uses: &[&str]) {
        let mut rustc = self.rustc(source, name, "rlib", level, uses);
        rustc.arg("-o").arg(self.of_library(name));
        run(&mut rustc, name);
    }

    fn program(&self, source: &str, name: &str, uses: &[&str]) {
        let mut rustc = self.rustc(source, &name.replace('-', "_"), "bin", "2", uses);
        rustc.args(["-C", "lto=fat", "-C", "strip=symbols"]);
        for arg in [
            "-nostartfiles",
            "-nostdlib",
            "-static",
            "-Wl,--no-eh-frame-hdr,--build-id=none,-z,noexecstack,-z,norelro,--gc-sections",
        ] {
            rustc.args(["-C", &format!("link-arg={arg}")]);
        }
        rustc.args(["-C", &format!("link-arg=-Wl,-z,max-page-size={}", self.largest_page())]);
        // The linker that cargo was told to use for the target: this machine's links programs of this machine only.
        if let Some(linker) = std::env::var_os("RUSTC_LINKER") {
            rustc.arg("-C").arg(joined("linker=", Path::new(&linker)));
        }
        rustc.arg("-C").arg(joined("link-arg=-Wl,-T,", &self.out.join("left-out.ld")));
        rustc.arg("-o").arg(self.out.join(name));
        run(&mut rustc, name);
    }

    fn rustc(&self, source: &str, name: &str, kind: &str, level: &str, uses: &[&str]) -> Command {
        let mut rustc = Command::new(var("RUSTC"));
        rustc.args([source, "--crate-name", name, "--crate-type", kind, "--edition", "2024", "--target", &self.target]);
        rustc.args(["-C", &format!("opt-level={level}"), "-C", "panic=abort", "-C", "codegen-units=1"]);
        rustc.args(["-C", "relocation-model=static", "-C", "overflow-checks=off"]);
        // A fifteenth of the usual bound: what is hot says so itself, and a quarter of the program's size goes.
        rustc.args(["-C", "llvm-args=-inline-threshold=15"]);
        if self.target.starts_with("aarch64") {
            // Atomic operations in place, not by functions that ask the C library which kind the processor has.
            rustc.args(["-C", "target-feature=-outline-atomics"]);
        }
        if std::env::var_os("CARGO_FEATURE_ATTACKS").is_some() {
            rustc.args(["--cfg", "feature=\"attacks\""]);
        }
        rustc.arg("-L").arg(&self.out);
        for used in uses {
            rustc.arg("--extern").arg(joined(&format!("{used}="), &self.of_library(used)));
        }
        rustc
    }

    /// The largest page that a kernel of the architecture may have: no page holds both code and data.
    fn largest_page(&self) -> u32 {
        if self.target.starts_with("aarch64") { 65536 } else { 4096 }
    }

    fn of_library(&self, name: &str) -> PathBuf {
        self.out.join(format!("lib{name}.rlib"))
    }
}

/// Paths need not be UTF-8.
fn joined(before: &str, path: &Path) -> OsString {
    let mut word = OsString::from(before);
    word.push(path);
    word
}

fn run(rustc: &mut Command, name: &str) {
    let status = rustc.status().unwrap_or_else(|error| panic!("cannot run the compiler: {error}"));
    assert!(status.success(), "{name} does not compile");
}
