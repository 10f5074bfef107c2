//! `docs/attacks.md`: each attack with the test that would notice it and the switch that makes the test red.
//! `CORACLE_WRITE_ATTACKS=1 cargo test --test attacks page` writes the page.

use crate::support::project;
use coracle::walls::Wall;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Folders of tests that may bear marks, and the name before a test's own.
const ROOMS: &[&str] = &["tests/attacks", "tests/suite", "http/tests/server"];

struct Row {
    number: String,
    ids: String,
    attack: String,
    /// Why the attack does not apply; empty: it does.
    not_built: String,
}

/// A test that would notice an attack.
struct Mark {
    /// For example `tests/attacks/entry.rs: a_newcomer_is_not_traced`.
    test: String,
    /// The switch that makes the test red; none: nobody has seen the test fail.
    wall: Option<String>,
}

#[test]
fn every_mark_names_an_attack_and_a_wall() {
    let (rows, marks) = (rows(), marks());
    let mut wrong = Vec::new();
    for (number, found) in &marks {
        if !rows.iter().any(|row| row.number == *number) {
            wrong.push(format!("{}: no attack has the number {number}", found[0].test));
        }
        for mark in found {
            if let Some(wall) = mark.wall.as_ref().filter(|wall| !Wall::ALL.iter().any(|(_, name)| name == wall)) {
                wrong.push(format!("{}: no wall is called {wall}", mark.test));
            }
        }
    }
    for (_, name) in Wall::ALL {
        if !marks.values().flatten().any(|mark| mark.wall.as_deref() == Some(name)) {
            wrong.push(format!("the wall {name} has no test"));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn the_page_is_current() {
    let (path, page) = (project().join("docs/attacks.md"), page(&rows(), &marks()));
    if std::env::var_os("CORACLE_WRITE_ATTACKS").is_some() {
        std::fs::write(&path, page).expect("write docs/attacks.md");
        return;
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(there == page, "docs/attacks.md is old: CORACLE_WRITE_ATTACKS=1 cargo test --test attacks page");
}

fn rows() -> Vec<Row> {
    let text = std::fs::read_to_string(project().join("tests/attacks/rows.tsv")).expect("tests/attacks/rows.tsv");
    let row = |line: &str| {
        let mut cells = line.split('\t').map(str::to_owned);
        let mut next = || cells.next().unwrap_or_else(|| panic!("four cells: {line}"));
        Row { number: next(), ids: next(), attack: next(), not_built: next() }
    };
    text.lines().filter(|line| !line.starts_with('#')).map(row).collect()
}

/// Attacks by their numbers, with the tests that bear their marks.
fn marks() -> BTreeMap<String, Vec<Mark>> {
    let mut all: BTreeMap<String, Vec<Mark>> = BTreeMap::new();
    for room in ROOMS {
        let mut files: Vec<_> = std::fs::read_dir(project().join(room))
            .unwrap_or_else(|e| panic!("{room}: {e}"))
            .filter_map(|entry| entry.ok().map(|entry| entry.path()))
            .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
            .collect();
        files.sort();
        for file in files {
            let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
            let name = format!("{room}/{}", file.file_name().unwrap_or_default().to_string_lossy());
            for (number, mark) in marks_of(&name, &text) {
                all.entry(number).or_default().push(mark);
            }
        }
    }
    all
}

fn marks_of(file: &str, text: &str) -> Vec<(String, Mark)> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(said) = line.strip_prefix("// attack: ") else { continue };
        let function = lines[at..].iter().find_map(|line| line.strip_prefix("fn ")?.split('(').next());
        let test = format!("{file}: {}", function.unwrap_or_else(|| panic!("{file}: no test follows {line}")));
        let (numbers, wall) = said.split_once(" wall ").map_or((said, None), |(numbers, wall)| (numbers, Some(wall)));
        for number in numbers.split(',') {
            let mark = Mark { test: test.clone(), wall: wall.map(|wall| wall.trim().to_owned()) };
            found.push((number.trim().to_owned(), mark));
        }
    }
    found
}

fn page(rows: &[Row], marks: &BTreeMap<String, Vec<Mark>>) -> String {
    let applying: Vec<&Row> = rows.iter().filter(|row| row.not_built.is_empty()).collect();
    let of = |row: &Row| marks.get(&row.number).map(Vec::as_slice).unwrap_or_default();
    let biting = applying.iter().filter(|row| of(row).iter().any(|mark| mark.wall.is_some())).count();
    let mut page = String::from(HEAD);
    let _ = writeln!(
        page,
        "\n**{biting} of the {} attacks that apply have a test that was seen to fail.**\n",
        applying.len()
    );
    page.push_str("| | published as | attack | noticed by | switch |\n|---|---|---|---|---|\n");
    for row in rows {
        let (mut tests, mut walls) = (Vec::new(), Vec::new());
        for mark in of(row) {
            tests.push(format!("`{}`", mark.test));
            walls.extend(mark.wall.as_ref().map(|wall| format!("`{wall}`")));
        }
        walls.dedup();
        let noticed = if row.not_built.is_empty() { tests.join(", ") } else { row.not_built.clone() };
        let Row { number, ids, attack, .. } = row;
        let _ = writeln!(page, "| {number} | {ids} | {attack} | {noticed} | {} |", walls.join(", "));
    }
    page
}

const HEAD: &str = "# Attacks, and the tests that notice them

The tests make this page from `tests/attacks/rows.tsv` and from the marks above the tests. A row is an attack that was
published against a container engine, or one of our own reviews (R1 to R22). The switch takes the defence away in a test
build (`--features attacks`, `CORACLE_WALLS_OFF=NAME`); `make attacks` turns each switch in turn and wants the marked tests
red and the other tests of the same file green.
";
