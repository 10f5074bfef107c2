//! Feature `embed`: compiles the shipper program and compresses it, for `src/embedded.rs`.
//!
//! A nested cargo does it, in a target directory of its own beside the caller's: the program wants other options of the
//! compiler than the library, and one build of it serves all profiles.

use lzma_rust2::{FilterType, XzOptions, XzWriter};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Options of the build: small, and of one piece.
const PROFILE: [(&str, &str); 6] = [
    ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "s"),
    ("CARGO_PROFILE_RELEASE_LTO", "fat"),
    ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1"),
    ("CARGO_PROFILE_RELEASE_PANIC", "abort"),
    ("CARGO_PROFILE_RELEASE_STRIP", "symbols"),
    ("CARGO_PROFILE_RELEASE_DEBUG", "false"),
];
/// The variables of a build script by which the nested cargo would build something else.
const NOT_PASSED: [&str; 6] = [
    "CARGO_ENCODED_RUSTFLAGS",
    "RUSTC_WORKSPACE_WRAPPER",
    "RUSTFLAGS",
    "CARGO_TARGET_DIR",
    "CARGO_BUILD_TARGET",
    "TARGET",
];

fn main() {
    // A crate by itself lacks some of them: a missing file would make each build build again.
    for source in ["src", "program", "Cargo.toml", "build.rs", "../monitor/src", "../Cargo.toml", "../Cargo.lock"] {
        if Path::new(source).exists() {
            println!("cargo::rerun-if-changed={source}");
        }
    }
    if std::env::var_os("CARGO_FEATURE_EMBED").is_none() {
        return;
    }
    let out = PathBuf::from(var("OUT_DIR"));
    let program = build(&target_dir(&out));
    let packed = packed(&program).unwrap_or_else(|error| panic!("compress the shipper: {error}"));
    std::fs::write(out.join("shipper.xz"), packed).unwrap_or_else(|error| panic!("shipper.xz: {error}"));
}

/// A sixth smaller than by zlib. The filter writes the targets of calls in a form that repeats.
fn packed(program: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut options = XzOptions::with_preset(9);
    match var("CARGO_CFG_TARGET_ARCH").as_str() {
        "x86_64" => options.prepend_pre_filter(FilterType::BcjX86, 0),
        "aarch64" => options.prepend_pre_filter(FilterType::BcjArm64, 0),
        _ => {}
    }
    let mut packer = XzWriter::new(Vec::new(), options)?;
    packer.write_all(program)?;
    packer.finish()
}

fn var(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"))
}

fn has_tls() -> bool {
    std::env::var_os("CARGO_FEATURE_TLS").is_some()
}

/// `<target>/shipper`: the output directory is `<target>/<profile>/build/<package>/out`.
fn target_dir(out: &Path) -> PathBuf {
    let kind = if has_tls() { "shipper" } else { "shipper-without-tls" };
    out.ancestors().nth(4).unwrap_or(out).join(kind)
}

/// Builds the program and reads it. First without the network: a workspace has all sources that the outer build has.
fn build(target: &Path) -> Vec<u8> {
    if !cargo(target, &["--offline", "--locked", "--quiet"]) {
        assert!(
            std::env::var_os("CARGO_NET_OFFLINE").is_none() && cargo(target, &[]),
            "the shipper program does not compile; the feature `shipper` can be left out"
        );
    }
    let program = target.join(var("TARGET")).join("release/coracle-shipper");
    std::fs::read(&program).unwrap_or_else(|error| panic!("{}: {error}", program.display()))
}

fn cargo(target: &Path, more: &[&str]) -> bool {
    let mut cargo = Command::new(var("CARGO"));
    cargo.args(["build", "--release", "--bin", "coracle-shipper", "--no-default-features", "--features"]);
    cargo.arg(if has_tls() { "program,tls" } else { "program" });
    cargo.args(["--target", &var("TARGET"), "--target-dir"]).arg(target).args(more);
    for name in NOT_PASSED {
        cargo.env_remove(name);
    }
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("CARGO_FEATURE_")) {
        cargo.env_remove(name);
    }
    cargo.envs(PROFILE);
    // A build directory that the caller's cargo uses is locked by it.
    cargo.env("CARGO_BUILD_BUILD_DIR", target);
    if let Some(linker) = std::env::var_os("RUSTC_LINKER") {
        let kind = var("TARGET").to_uppercase().replace(['-', '.'], "_");
        cargo.env(format!("CARGO_TARGET_{kind}_LINKER"), linker);
    }
    cargo.status().unwrap_or_else(|error| panic!("cannot run cargo: {error}")).success()
}
