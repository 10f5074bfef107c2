//! Names of tests: a name says who does what, as a sentence with a subject, a verb and an object.

use crate::project;

/// Words that a name of a test does not begin with: none of them is a subject.
const HEADS: &[&str] = &["what", "who", "whoever", "whom", "it", "its", "they", "those", "that", "there", "of"];

/// Words that a name of a test does not have between others.
const PHRASES: &[&str] = &["_is_no_", "_are_no_", "_of_who_", "_by_who_"];

/// Where tests of Rust stand.
const ROOMS: &[&str] = &["src", "ship", "http", "cli", "ffi", "monitor", "tests"];

/// The names of the functions below `#[test]` in a file, each with its line.
fn names(text: &str) -> Vec<(usize, &str)> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let below = |at: &usize| lines[*at..].iter().find_map(|line| line.strip_prefix("fn ")?.split('(').next());
    let marks = (0..lines.len()).filter(|at| lines[*at] == "#[test]");
    marks.filter_map(|at| Some((at + 2, below(&at)?))).collect()
}

fn is_headless(name: &str) -> bool {
    let head = name.split('_').next().unwrap_or_default();
    HEADS.contains(&head) || PHRASES.iter().any(|phrase| name.contains(phrase))
}

#[test]
fn names_of_tests_have_a_subject() {
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for path in ROOMS.iter().flat_map(|room| crate::files_below(&project().join(room), ".rs")) {
        let text = std::fs::read_to_string(&path).expect("read a file of the project");
        let all = names(&text);
        seen += all.len();
        let headless = all.into_iter().filter(|(_, name)| is_headless(name));
        wrong.extend(headless.map(|(line, name)| format!("{}:{line}: {name}", path.display())));
    }
    assert!(wrong.is_empty(), "these names do not say who does what:\n{}", wrong.join("\n"));
    assert!(seen > 1200, "only {seen} tests were found");
}

#[test]
fn headless_names_are_seen() {
    let text = "#[test]\n#[ignore]\nfn what_stays() {\n}\n\nfn it_helps() {}\n\n    #[test]\n    fn a_name_is_read() {";
    assert_eq!(names(text), [(2, "what_stays"), (9, "a_name_is_read")]);
    for name in ["what_stays", "it_works", "a_log_that_is_no_file_is_refused"] {
        assert!(is_headless(name), "{name}");
    }
    for name in ["item_has_parts", "whatever", "an_engine_reads_what_others_write"] {
        assert!(!is_headless(name), "{name}");
    }
}
