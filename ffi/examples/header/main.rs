//! Makes `include/coracle.h` and `ffi/coracle.map` of the crate's source, or says whether they are current:
//!
//!     cargo run -p coracle-ffi --example header            # writes both
//!     cargo run -p coracle-ffi --example header -- --check # exits 1 where one is not current
//!
//! Either way `sections.rs` must give each item a section, and each function's comment must say three things: which
//! threads may call the function, whether the function blocks, and since when the function exists.

mod items;
mod sections;

use items::{Header, Item};
use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let check = std::env::args().nth(1).as_deref() == Some("--check");
    let ffi = Path::new(env!("CARGO_MANIFEST_DIR"));
    let header = Header::of(&generated(ffi)?)?;
    let text = sections::arrange(&header)?;
    let functions: Vec<&Item> = header.items.iter().filter(|item| item.is_function()).collect();
    let silent = undocumented(&functions);
    for line in &silent {
        eprintln!("{line}");
    }
    let mut stale = false;
    for (path, text) in [(ffi.join("../include/coracle.h"), &text), (ffi.join("coracle.map"), &map(&functions))] {
        if std::fs::read_to_string(&path).ok().as_ref() == Some(text) {
            continue;
        }
        if check {
            eprintln!("{} is not current: run `make header`", path.display());
            stale = true;
        } else {
            std::fs::create_dir_all(path.parent().ok_or("no directory")?)?;
            std::fs::write(&path, text)?;
        }
    }
    println!("{} functions", functions.len());
    Ok(if stale || !silent.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The header as cbindgen makes it: every public item of the modules of `src/lib.rs`, in an order of cbindgen's own.
fn generated(ffi: &Path) -> Result<String, Box<dyn Error>> {
    let config = cbindgen::Config::from_file(ffi.join("cbindgen.toml"))?;
    let mut bytes = Vec::new();
    cbindgen::Builder::new().with_config(config).with_src(ffi.join("src/lib.rs")).generate()?.write(&mut bytes);
    let mut text = String::from_utf8(bytes)?;
    for (mark, value) in [
        ("@MAJOR@", env!("CARGO_PKG_VERSION_MAJOR")),
        ("@MINOR@", env!("CARGO_PKG_VERSION_MINOR")),
        ("@PATCH@", env!("CARGO_PKG_VERSION_PATCH")),
        ("@VERSION@", env!("CARGO_PKG_VERSION")),
    ] {
        text = text.replace(mark, value);
    }
    Ok(text)
}

/// A line for each function whose comment lacks something.
fn undocumented(functions: &[&Item]) -> Vec<String> {
    let mut lines = Vec::new();
    for function in functions {
        for wanted in ["Threads: ", "Blocks: ", "Since: "] {
            if !function.comment().contains(wanted) {
                lines.push(format!("{}: its comment has no \"{wanted}\"", function.name));
            }
        }
    }
    lines
}

/// The linker's version script: these functions, in the version node of the first release, and nothing else.
fn map(functions: &[&Item]) -> String {
    let mut names: Vec<&str> = functions.iter().map(|function| function.name.as_str()).collect();
    names.sort_unstable();
    let list: String = names.iter().map(|name| format!("    {name};\n")).collect();
    format!("CORACLE_1.0 {{\n  global:\n{list}  local:\n    *;\n}};\n")
}
