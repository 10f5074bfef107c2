//! Makes `include/coracle.h` and `ffi/coracle.map` of the crate's source, or says whether they are current:
//!
//!     cargo run -p coracle-ffi --example header            # writes both
//!     cargo run -p coracle-ffi --example header -- --check # exits 1 where one is not current
//!
//! Either way each function's comment must say what the house wants said: threads, blocking, since when.

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let check = std::env::args().nth(1).as_deref() == Some("--check");
    let ffi = Path::new(env!("CARGO_MANIFEST_DIR"));
    let header = header(ffi)?;
    let functions = functions(&header);
    let silent = undocumented(&header, &functions);
    for line in &silent {
        eprintln!("{line}");
    }
    let mut stale = false;
    for (path, text) in [(ffi.join("../include/coracle.h"), &header), (ffi.join("coracle.map"), &map(&functions))] {
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

fn header(ffi: &Path) -> Result<String, Box<dyn Error>> {
    let config = cbindgen::Config::from_file(ffi.join("cbindgen.toml"))?;
    let mut builder = cbindgen::Builder::new().with_config(config);
    // The order of the header is the order of this list.
    for file in [
        "types",
        "library",
        "error",
        "root",
        "http",
        "server",
        "op",
        "container",
        "exec",
        "session",
        "stream",
        "event",
        "archive",
        "image",
        "registry",
        "network",
        "volume",
    ] {
        let path = ffi.join(format!("src/{file}.rs"));
        if path.exists() {
            builder = builder.with_src(path);
        }
    }
    let mut bytes = Vec::new();
    builder.generate()?.write(&mut bytes);
    Ok(tidy(&String::from_utf8(bytes)?))
}

/// One-line comments on one line, numbers below 0 in parentheses, at most one empty line.
fn tidy(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let mut tidied: Vec<String> = Vec::new();
    let mut i = 0;
    while let Some(&line) = lines.get(i) {
        let indent = &line[..line.len() - line.trim_start().len()];
        let one = lines.get(i + 1).and_then(|l| l.trim_start().strip_prefix("* "));
        let closed = lines.get(i + 2).is_some_and(|l| l.trim() == "*/");
        i += 1;
        if line.trim() == "/**"
            && closed
            && let Some(one) = one
        {
            tidied.push(format!("{indent}/** {one} */"));
            i += 2;
        } else if let Some((define, number)) = line.split_once(" -7").filter(|_| line.starts_with("#define")) {
            tidied.push(format!("{define} (-7{number})"));
        } else if !line.is_empty() || tidied.last().is_some_and(|last| !last.is_empty()) {
            tidied.push(line.to_string());
        }
    }
    tidied.join("\n") + "\n"
}

/// Names of the functions, in the header's order.
fn functions(header: &str) -> Vec<String> {
    let mut names = Vec::new();
    for line in header.lines().filter(|line| !line.starts_with([' ', '/', '#', '}']) && !line.starts_with("typedef")) {
        let Some((before, _)) = line.split_once('(') else { continue };
        let name = before.rsplit([' ', '*']).next().unwrap_or_default();
        if name.starts_with("coracle_") {
            names.push(name.to_string());
        }
    }
    names
}

/// A line for each function whose comment lacks something.
fn undocumented(header: &str, functions: &[String]) -> Vec<String> {
    let mut lines = Vec::new();
    for name in functions {
        let before = header.split(&format!("{name}(")).find(|part| part.trim_end().ends_with(last_word(part)));
        let comment = before.and_then(|part| part.rfind("/*").map(|at| &part[at..])).unwrap_or_default();
        for wanted in ["Threads: ", "Blocks: ", "Since: "] {
            if !comment.contains(wanted) {
                lines.push(format!("{name}: its comment has no \"{wanted}\""));
            }
        }
    }
    lines
}

fn last_word(text: &str) -> &str {
    text.trim_end().rsplit(char::is_whitespace).next().unwrap_or_default()
}

/// The linker's version script: these functions, in the version node of the first release, and nothing else.
fn map(functions: &[String]) -> String {
    let mut sorted = functions.to_vec();
    sorted.sort();
    let list: String = sorted.iter().map(|name| format!("    {name};\n")).collect();
    format!("CORACLE_1.0 {{\n  global:\n{list}  local:\n    *;\n}};\n")
}
