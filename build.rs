//! Passes the build's facts to the library, for `version`. Needs no git: a packager sets `CORACLE_COMMIT` and
//! `SOURCE_DATE_EPOCH` if they matter.

use std::process::Command;
use std::time::SystemTime;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    for name in ["CORACLE_COMMIT", "SOURCE_DATE_EPOCH"] {
        println!("cargo::rerun-if-env-changed={name}");
    }
    println!("cargo::rustc-env=CORACLE_COMPILER={}", compiler());
    println!("cargo::rustc-env=CORACLE_COMMIT={}", commit());
    println!("cargo::rustc-env=CORACLE_BUILT={}", built());
}

/// The origin of the sources: the commit that the packager names, else the release.
fn commit() -> String {
    let said = std::env::var("CORACLE_COMMIT").unwrap_or_default();
    if said.is_empty() { format!("v{}", env!("CARGO_PKG_VERSION")) } else { said }
}

/// Name and version, such as `rustc 1.95.0`.
fn compiler() -> String {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let said = Command::new(rustc).arg("--version").output().map(|out| out.stdout).unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    let words: Vec<&str> = said.split_whitespace().take(2).collect();
    if words.is_empty() { "rustc".into() } else { words.join(" ") }
}

/// Seconds since 1970.
fn built() -> String {
    let now = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    std::env::var("SOURCE_DATE_EPOCH").unwrap_or_else(|_| now().to_string())
}
