//! Makes `include/coracle.h`, `include/coracle.ffi.h`, `ffi/coracle.map`, the raw layers of bindings and more of the source of `coracle-ffi`,
//! or says whether they are current:
//!
//!     cargo run -p coracle-header                 # writes the header and the map
//!     cargo run -p coracle-header -- --check      # exits 1 if one is not current, or if CHANGELOG.md does not mention a change
//!     cargo run -p coracle-header -- --man DIR    # writes a manual page of section 3 for each function
//!     cargo run -p coracle-header -- --baseline   # writes tests/abi/baseline: the surface of a release
//!     cargo run -p coracle-header -- --layouts    # prints a program in C that compiles if the structs have their layouts
//!     cargo run -p coracle-header -- --surface    # prints the surface as JSON, for tests and bindings
//!
//! In each case `sections.rs` must give each item a section, and each function's comment must say: which threads may call the
//! function, whether the function blocks, since when the function exists, its errors, and the schema of each document.

mod dotnet;
mod errors;
#[path = "../../src/features.rs"]
mod features;
mod go;
mod items;
mod java;
mod manual;
mod node;
mod plain;
mod reference;
mod schema;
mod sections;
mod surface;

use items::{Header, Item};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let ffi = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("no directory")?;
    let header = Header::of(&generated(ffi)?)?;
    let text = sections::arrange(&header)?;
    let functions: Vec<&Item> = header.items.iter().filter(|item| item.is_function()).collect();
    let top = ffi.parent().ok_or("no directory")?;
    let mut files = vec![(top.join("include/coracle.h"), text), (ffi.join("coracle.map"), map(&functions))];
    let schemas = schema::all(top)?;
    files.extend(schemas.into_iter().map(|(name, text)| (top.join(SCHEMAS).join(name), text)));
    let pages = reference::pages(&header);
    files.extend(pages.into_iter().map(|(name, text)| (top.join(REFERENCE).join(name), text)));
    files.push((top.join("include/coracle.ffi.h"), plain::plain(&header.items)));
    files.push((top.join("bindings/go/raw.go"), go::raw(&functions, &header.items)));
    files.push((top.join("bindings/node/src/raw.h"), node::raw(&functions, &header.items)));
    let java = java::raw(&functions, &header.items);
    files.extend(java.into_iter().map(|(name, text)| (top.join("bindings/java/src").join(name), text)));
    let dotnet = dotnet::raw(&functions, &header.items);
    files.extend(dotnet.into_iter().map(|(name, text)| (top.join("bindings/dotnet/src").join(name), text)));
    let baseline = top.join("tests/abi/baseline");
    let mut wrong = undocumented(&functions);
    wrong.extend(errors::unlisted(&functions, &header.items));
    wrong.extend(schema::missing(&header.items));
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] => write(&files)?,
        ["--layouts"] => {
            print!("{}", surface::layouts(&header.items));
            return Ok(ExitCode::SUCCESS);
        }
        ["--surface"] => return print_surface(&functions, &header.items),
        ["--check"] => {
            for made in [SCHEMAS, REFERENCE] {
                wrong.extend(strangers(&top.join(made), &files)?);
            }
            let stale = files.iter().filter(|(path, text)| std::fs::read_to_string(path).ok().as_ref() != Some(text));
            wrong.extend(stale.map(|(path, _)| format!("{} is not current: run `make header`", path.display())));
            if let Ok(before) = std::fs::read_to_string(&baseline) {
                let changes = std::fs::read_to_string(top.join("CHANGELOG.md"))?;
                wrong.extend(surface::unmentioned(&surface::surface(&header.items), &before, &changes));
            }
        }
        ["--man", directory] => manual::write(&functions, Path::new(directory))?,
        ["--baseline"] => {
            std::fs::create_dir_all(baseline.parent().ok_or("no directory")?)?;
            std::fs::write(&baseline, surface::text(&surface::surface(&header.items)))?;
        }
        _ => wrong.push("usage: coracle-header [--check | --man DIR | --baseline | --layouts | --surface]".into()),
    }
    for line in &wrong {
        eprintln!("{line}");
    }
    println!("{} functions", functions.len());
    Ok(if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Where the schemas are.
const SCHEMAS: &str = "include/schema";
/// Where the reference is.
const REFERENCE: &str = "docs/reference";

fn write(files: &[(PathBuf, String)]) -> std::io::Result<()> {
    for (path, text) in files {
        std::fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
        std::fs::write(path, text)?;
    }
    Ok(())
}

/// A line for each file of the directory that the source does not make.
fn strangers(directory: &Path, files: &[(PathBuf, String)]) -> std::io::Result<Vec<String>> {
    let mut lines = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if !files.iter().any(|(known, _)| *known == path) {
            lines.push(format!("{} is made of nothing: remove it", path.display()));
        }
    }
    Ok(lines)
}

/// Prints each function with its arguments, its errors and the schemas of its documents, and each number.
fn print_surface(functions: &[&Item], items: &[Item]) -> Result<ExitCode, Box<dyn Error>> {
    let one = |function: &&Item| {
        serde_json::json!({
            "name": function.name,
            "answer": function.answer(),
            "arguments": function.arguments(),
            "errors": errors::listed(function, items),
            "schemas": schema::named_by(function),
        })
    };
    let number = |item: &Item| {
        let (_, value) = item.declaration().strip_prefix("#define ")?.split_once(' ')?;
        let value: i64 = value.trim().trim_matches(['(', ')']).parse().ok()?;
        Some((item.name.clone(), value.into()))
    };
    let numbers: serde_json::Map<_, _> = items.iter().filter_map(number).collect();
    let functions: Vec<_> = functions.iter().map(one).collect();
    println!("{}", serde_json::json!({ "functions": functions, "numbers": numbers }));
    Ok(ExitCode::SUCCESS)
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
    Ok(text.replace("@FEATURES@", &feature_names()))
}

/// The names of features as lines of a comment.
fn feature_names() -> String {
    let quoted: Vec<String> = features::FEATURES.iter().map(|name| format!("\"{name}\"")).collect();
    let lines: Vec<String> = quoted.chunks(NAMES_IN_A_LINE).map(|names| names.join(", ")).collect();
    lines.join(",\n * ")
}

/// So that a line of the header's comments keeps its width.
const NAMES_IN_A_LINE: usize = 8;

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
    format!("{} {{\n  global:\n{list}  local:\n    *;\n}};\n", surface::NODE)
}
