//! The pages that say where things are: the files, functions and rows that they name exist.

use crate::{ROWS, pages, project, sources};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The first directories of paths in pages.
const TOPS: &[&str] = &[
    "src/",
    "http/",
    "cli/",
    "ffi/",
    "monitor/",
    "ship/",
    "tests/",
    "tools/",
    "bench/",
    "fuzz/",
    "bindings/",
    "packaging/",
    "examples/",
    "docs/",
    "include/",
];

/// Pages about earlier states of the source.
const HISTORY: &[&str] = &["./CHANGELOG.md", "docs/campaigns.md"];

/// A path, or a path with a function as in `src/op.rs: new`.
fn names_of(page: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
    let words = page.split('`').skip(1).step_by(2).filter(|word| TOPS.iter().any(|top| word.starts_with(top)));
    words.filter(|word| !word.contains(['*', '{', '<', '\n'])).map(|word| {
        let path = word.split([' ', ':']).next().unwrap_or_default();
        (path.trim_end_matches('/'), word.split_once(".rs: ").map(|(_, function)| function))
    })
}

#[test]
fn pages_name_files_and_functions_that_exist() {
    let mut wrong = Vec::new();
    let mut seen = 0;
    for (page, text) in pages().iter().filter(|(page, _)| !HISTORY.contains(&page.as_str())) {
        for (path, function) in names_of(text) {
            seen += 1;
            let beside = project().join(page).with_file_name(path);
            let file = if beside.exists() { beside } else { project().join(path) };
            let code = || std::fs::read_to_string(&file).unwrap_or_default();
            let is_there = |function: &str| {
                let code = code();
                let rest = code.split(&format!("fn {function}")).nth(1);
                rest.is_some_and(|rest| rest.starts_with(['(', '<']))
            };
            if !file.exists() {
                wrong.push(format!("{page}: no {path}"));
            } else if let Some(function) = function.filter(|function| !is_there(function)) {
                wrong.push(format!("{page}: no function {function} in {path}"));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    assert!(seen > 300, "only {seen} paths were found");
}

/// The files that the table "Where things are" names without their directory.
#[test]
fn the_map_of_the_source_names_files_that_exist() {
    let map = std::fs::read_to_string(project().join("ARCHITECTURE.md")).expect("read the map");
    let table = section(&map, "## Where things are");
    let rooms = ["src", "http/src", "cli/src", "ffi/src", "monitor", "tests/suite"];
    let files: BTreeSet<String> = rooms
        .iter()
        .flat_map(|room| sources(room))
        .filter_map(|source| Some(source.path.file_name()?.to_string_lossy().into_owned()))
        .collect();
    let named = table.split('`').skip(1).step_by(2).filter(|word| word.ends_with(".rs") && !word.contains(['/', '*']));
    let gone: Vec<&str> = named.filter(|name| !files.contains(*name)).collect();
    assert!(gone.is_empty(), "ARCHITECTURE.md names files that are not there: {gone:?}");
}

/// The folders whose files the map of the tests names.
const TESTS: &[&str] = &["tests/suite", "tests/attacks", "tests/support", "http/tests", "ship/tests"];

#[test]
fn the_map_of_the_tests_names_every_file_and_no_other() {
    let map = std::fs::read_to_string(project().join("tests/README.md")).expect("read the map");
    let words = map.split('`').skip(1).step_by(2).flat_map(|word| word.split([' ', ':']));
    let named: BTreeSet<String> = words
        .filter(|word| word.ends_with(".rs") && !word.contains('*'))
        .map(|word| word.rsplit('/').next().unwrap_or_default().to_owned())
        .collect();
    let name = |path: PathBuf| path.file_name().expect("a name").display().to_string();
    let all: BTreeSet<String> =
        TESTS.iter().flat_map(|dir| crate::files_below(&project().join(dir), ".rs")).map(name).collect();
    let missing: Vec<_> = all.difference(&named).filter(|name| *name != "main.rs").collect();
    assert!(missing.is_empty(), "tests/README.md does not say where these belong: {missing:?}");
    let at_top = |name: &str| project().join("tests").join(name).exists();
    let gone: Vec<_> = named.difference(&all).filter(|name| !at_top(name)).collect();
    assert!(gone.is_empty(), "tests/README.md names files that are not there: {gone:?}");
}

/// Types of statics that change.
const CHANGING: &[&str] = &["Atomic", "Mutex<", "RwLock<", "OnceLock<", "LazyLock<", "Once ", "RefCell<", "Cell<"];

#[test]
fn the_map_of_the_source_names_all_state_of_the_process() {
    let map = std::fs::read_to_string(project().join("ARCHITECTURE.md")).expect("read the map");
    let named = section(&map, "## What the library never does to its host");
    let mut seen = 0;
    let mut missing = BTreeSet::new();
    for source in ["src", "ship/src", "http/src", "ffi/src"].iter().flat_map(|dir| sources(dir)) {
        for (_, line) in source.shipped_lines() {
            let Some((head, rest)) = line.split_once("static ") else { continue };
            let declares = head.trim().is_empty() || head.trim().starts_with("pub");
            if declares && CHANGING.iter().any(|kind| rest.contains(kind)) {
                seen += 1;
                let path = source.path.display().to_string();
                missing.extend((!named.contains(&format!("`{path}`"))).then_some(path));
            }
        }
    }
    assert!(missing.is_empty(), "ARCHITECTURE.md does not name the process's state in {missing:?}");
    assert!(seen > 10, "only {seen} statics were found");
}

/// The crates of the project, each with its own list of dependencies.
const MANIFESTS: &[&str] = &[".", "monitor", "ship", "ffi", "ffi/header", "http", "cli", "fuzz"];

#[test]
fn the_map_of_the_source_has_the_reason_of_each_dependency() {
    let map = std::fs::read_to_string(project().join("ARCHITECTURE.md")).expect("read the map");
    let table = section(&map, "## Dependencies, and why these");
    let crates = table.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let words = crates.flat_map(|cell| cell.split(|c: char| !c.is_alphanumeric() && !"_-".contains(c)));
    let reasons: BTreeSet<&str> = words.collect();
    let (mut missing, mut seen) = (BTreeSet::new(), 0);
    for manifest in MANIFESTS {
        let text = std::fs::read_to_string(project().join(manifest).join("Cargo.toml")).expect("read a manifest");
        let mut listed = false;
        for line in text.lines() {
            listed = if line.starts_with('[') { line.ends_with("dependencies]") } else { listed };
            let name = line.split([' ', '.', '=']).next().unwrap_or_default();
            let is_other = !line.contains("path = ") && !name.starts_with("coracle") && !name.starts_with('#');
            if listed && is_other && !name.is_empty() && !line.starts_with('[') {
                seen += 1;
                missing.extend((!reasons.contains(name)).then(|| name.to_owned()));
            }
        }
    }
    assert!(missing.is_empty(), "ARCHITECTURE.md does not say why these are there: {missing:?}");
    assert!(seen > 30, "only {seen} dependencies were found");
}

/// The row of each module in ARCHITECTURE.md is the one that the tests enforce.
#[test]
fn the_page_and_the_test_agree_on_rows() {
    let map = std::fs::read_to_string(project().join("ARCHITECTURE.md")).expect("read the map");
    let mut rows = BTreeSet::new();
    for line in section(&map, "## The house").lines() {
        let mut cells = line.trim_matches('|').split(" | ");
        let Some(Ok(row)) = cells.next().map(|cell| cell.trim().parse::<u8>()) else { continue };
        let modules = cells.next().unwrap_or_default().split('`').skip(1).step_by(2);
        rows.extend(modules.filter(|name| is_module(name)).map(|name| (name.to_owned(), row)));
    }
    let held: BTreeSet<(String, u8)> = ROWS.iter().map(|(name, row)| ((*name).to_owned(), *row)).collect();
    let (missing, false_ones) = (held.difference(&rows), rows.difference(&held));
    let (missing, false_ones): (Vec<_>, Vec<_>) = (missing.collect(), false_ones.collect());
    assert!(missing.is_empty() && false_ones.is_empty(), "not on the page: {missing:?}; only there: {false_ones:?}");
}

fn is_module(name: &str) -> bool {
    let src = project().join("src");
    [format!("{name}.rs"), format!("{name}/mod.rs")].iter().any(|file| src.join(Path::new(file)).exists())
}

/// The text between a heading and the next one.
fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let (_, rest) = page.split_once(heading).unwrap_or_else(|| panic!("no {heading}"));
    rest.split("\n## ").next().unwrap_or_default()
}
