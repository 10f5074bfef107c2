//! Promises about the source that a compiler does not hold: which module may name which, where `unsafe` stands, which
//! words never occur.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

#[path = "tidy/circles.rs"]
mod circles;
#[path = "tidy/examples.rs"]
mod examples;
#[path = "tidy/figures.rs"]
mod figures;
#[path = "tidy/maps.rs"]
mod maps;
#[path = "tidy/names.rs"]
mod names;
#[path = "tidy/prose.rs"]
mod prose;

/// A module of the library and its row: it may name rows above its own (smaller numbers), not its peers. Row 0 names
/// each other: they are words.
const ROWS: &[(&str, u8)] = &[
    ("model", 0),
    ("error", 0),
    ("time", 0),
    ("notes", 0),
    ("kernel", 1),
    ("tls", 1),
    // Cancelling waits on descriptors.
    ("op", 1),
    ("store", 2),
    ("plugin", 2),
    ("registry", 2),
    ("hex", 0),
    ("document", 0),
    ("order", 0),
    ("parts", 0),
    ("group", 0),
    ("git", 3),
    ("event", 3),
    ("options", 3),
    ("image", 4),
    ("log", 4),
    ("launch", 4),
    ("volume", 4),
    ("network", 4),
    ("swarm", 4),
    ("buildfile", 3),
    ("container", 5),
    ("build", 6),
    ("managed", 6),
    ("engine", 7),
    // A door to the launch alone, for a test.
    ("bundle", 8),
    // Doors to all of them, for tests.
    ("fuzz", 8),
];

/// The names that a module uses against its row, each with the reason; to become shorter, not longer.
const EXCUSED: &[(&str, &str, &str)] = &[
    ("op", "kernel", "Op is the library's own word for waiting, and waits through the kernel"),
    ("kernel", "op", "a wait in the kernel ends with its Op"),
];

/// Where the page of promises looks for its tests: `module::name` is a function of the file `module.rs` there.
const TEST_ROOMS: &[&str] = &["tests/suite", "tests/attacks", "http/tests/server"];

#[test]
fn every_promise_has_a_test_that_exists() {
    let page = std::fs::read_to_string(project().join("docs/promises.md")).expect("docs/promises.md");
    let mut wrong = Vec::new();
    for line in page.lines().filter(|line| line.starts_with("| ")) {
        let Some(tests) = line.split('|').nth(2).filter(|cell| !["", "---", "held by"].contains(&cell.trim())) else {
            continue;
        };
        let named: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
        if named.is_empty() {
            wrong.push(format!("no test: {line}"));
        }
        wrong.extend(named.into_iter().filter(|name| !is_a_test(name)).map(|name| format!("no such test: {name}")));
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

fn is_a_test(name: &str) -> bool {
    let Some((module, function)) = name.split_once("::") else { return project().join(name).exists() };
    let text = |room: &&str| std::fs::read_to_string(project().join(room).join(format!("{module}.rs"))).ok();
    TEST_ROOMS.iter().filter_map(text).any(|text| text.contains(&format!("#[test]\nfn {function}()")))
}

/// Folders and files where `unsafe` may stand: the doors to the kernel, the C ABI, the monitor.
const UNSAFE_ROOMS: &[&str] = &["src/kernel", "ffi", "monitor", "ship/src/sys.rs", "ship/src/spool_tests.rs"];

/// A program of fuzz/ whose name no door has would run for hours and try nothing.
#[test]
fn every_fuzz_program_has_its_door_and_every_door_its_program() {
    let read = |path: &str| std::fs::read_to_string(project().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
    let (programs, doors) =
        (read("fuzz/Cargo.toml"), ["src", "http/src", "monitor/src"].map(|dir| read(&format!("{dir}/fuzz.rs"))));
    let named = |text: &str, before: &str| -> Vec<String> {
        let names = text.lines().filter_map(|line| line.trim().strip_prefix(before)?.split('"').next());
        names.map(str::to_owned).collect()
    };
    let programs = named(&programs, "name = \"").split_off(1);
    assert!(programs.len() > 20, "{programs:?}");
    for name in &programs {
        assert!(doors.iter().any(|door| door.contains(&format!("(\"{name}\","))), "no door for {name}");
        assert!(project().join("fuzz/corpus").join(name).is_dir(), "no corpus of {name}");
    }
    for name in doors.iter().flat_map(|door| named(door, "(\"")) {
        assert!(programs.contains(&name), "no program for {name}");
    }
}

#[test]
fn modules_name_only_the_rows_above() {
    let mut wrong = Vec::new();
    let mut excuses: BTreeSet<(&str, &str)> = EXCUSED.iter().map(|(from, to, _)| (*from, *to)).collect();
    let excused = excuses.clone();
    for source in sources("src") {
        let Some((module, row)) = ROWS.iter().find(|(name, _)| is_of(&source.path, name)) else { continue };
        for (number, line) in source.lines() {
            for (other, above) in ROWS.iter().filter(|(other, _)| other != module && names(line, other)) {
                let peers_in_words = *row == 0 && *above == 0;
                if above < row || peers_in_words {
                    continue;
                }
                excuses.remove(&(*module, *other));
                if !excused.contains(&(*module, *other)) {
                    wrong.push(format!(
                        "{}:{number}: {module} (row {row}) names {other} (row {above})",
                        source.path.display()
                    ));
                }
            }
        }
    }
    wrong.extend(excuses.iter().map(|(from, to)| format!("{from} does not name {to}, and needs no excuse")));
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn every_module_has_a_row() {
    let text = std::fs::read_to_string(project().join("src/lib.rs")).expect("src/lib.rs");
    for line in text.lines() {
        let declared = line.strip_prefix("pub mod ").or(line.strip_prefix("mod ")).and_then(|l| l.strip_suffix(';'));
        if let Some(module) = declared {
            assert!(ROWS.iter().any(|(name, _)| *name == module), "{module} has no row in tests/tidy.rs");
        }
    }
}

#[test]
fn unsafe_stands_in_its_rooms_with_a_reason() {
    let mut wrong = Vec::new();
    let mut reasons = 0;
    for source in ["src", "http", "cli", "ffi", "monitor", "ship/src"].iter().flat_map(|dir| sources(dir)) {
        let in_a_room = UNSAFE_ROOMS.iter().any(|room| source.path.starts_with(room));
        let lines: Vec<&str> = source.text.lines().collect();
        for (number, line) in source.shipped_lines() {
            let code = line.split("//").next().unwrap_or_default();
            let has = |words: &[&str]| words.iter().any(|word| code.contains(word));
            if !in_a_room && has(&["unsafe {", "unsafe fn", "unsafe impl", "allow(unsafe_code)"]) {
                wrong.push(format!("{}:{number}: unsafe outside its rooms", source.path.display()));
            }
            if has(&["unsafe {", "unsafe impl"]) {
                let before = &lines[number.saturating_sub(6)..number];
                match before.iter().any(|line| line.contains("SAFETY")) {
                    true => reasons += 1,
                    false => wrong.push(format!("{}:{number}: unsafe without a SAFETY reason", source.path.display())),
                }
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    assert!(reasons > 200, "only {reasons} reasons were found");
}

/// Every page of ours, with its text.
fn pages() -> Vec<(String, String)> {
    let mut pages = vec![];
    for dir in [
        ".",
        "docs",
        "docs/guide/src",
        "tests",
        "tests/vm",
        "bench",
        "bindings/python",
        "bindings/go",
        "bindings/cpp",
        "bindings/node",
        "bindings/ruby",
        "bindings/lua",
        "bindings/php",
        "bindings/java",
        "bindings/dotnet",
        "bindings/scenarios",
        "packaging",
    ] {
        let files = std::fs::read_dir(project().join(dir)).expect("list a directory of pages").flatten();
        let names = files.map(|file| format!("{dir}/{}", file.file_name().display()));
        pages.extend(names.filter(|name| name.ends_with(".md")));
    }
    let text = |page: &String| std::fs::read_to_string(project().join(page)).expect("read a page");
    pages.into_iter().map(|page| (page.clone(), text(&page))).collect()
}

#[test]
fn links_of_pages_lead_to_files() {
    let mut wrong = Vec::new();
    for (page, text) in pages() {
        // Not in programs, where the brackets are those of a language.
        let prose: String = text.split("\n```").step_by(2).collect();
        let links = prose.split("](").skip(1).filter_map(|rest| rest.split([')', '#', ' ']).next());
        let dir = project().join(&page).parent().expect("a directory").to_owned();
        let gone = links.filter(|link| !link.is_empty() && !link.contains("://") && !dir.join(link).exists());
        wrong.extend(gone.map(|link| format!("{page}: no {link}")));
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// The anchors of a page's headings, as its readers make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let anchor = |heading: &str| -> String {
        let kept = heading.to_lowercase();
        let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(anchor).collect()
}

#[test]
fn links_into_pages_lead_to_their_headings() {
    let mut wrong = Vec::new();
    let mut seen = 0;
    for (page, text) in pages() {
        let links = text.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
        for (target, anchor) in links.filter(|link| !link.contains("://")).filter_map(|link| link.split_once('#')) {
            seen += 1;
            let other = project().join(&page).with_file_name(target);
            let has = match target {
                "" => anchors(&text).contains(anchor),
                _ => std::fs::read_to_string(other).is_ok_and(|text| anchors(&text).contains(anchor)),
            };
            if !has {
                wrong.push(format!("{page}: no heading for {target}#{anchor}"));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    assert!(seen > 0, "no link into a page was found");
}

#[test]
fn the_guide_s_contents_name_every_page() {
    let dir = project().join("docs/guide/src");
    let contents = std::fs::read_to_string(dir.join("SUMMARY.md")).expect("read the contents");
    for page in std::fs::read_dir(dir).expect("list the guide").flatten() {
        let name = page.file_name().display().to_string();
        assert!(name == "SUMMARY.md" || contents.contains(&format!("]({name})")), "SUMMARY.md does not name {name}");
    }
}

/// The words by which a place of the source waits.
const WAITS: [&str; 12] = [
    "thread::sleep(",
    "fd::poll(",
    "turn::wait_for(",
    "wait_many(",
    ".wait(&mut ",
    "wait_for(&mut ",
    "wait_timeout_while(",
    "recv_timeout(",
    ".recv()",
    "wait_fd(",
    "busy_timeout(",
    "lock_byte(&",
];

#[test]
fn the_page_of_waits_names_every_place_that_waits() {
    let page = std::fs::read_to_string(project().join("docs/waits.md")).expect("read the page");
    let named: BTreeSet<&str> = page
        .split('`')
        .filter(|word| word.ends_with(".rs") && word.contains('/') && !word.starts_with("tests"))
        .collect();
    let waits = |text: &str| {
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        WAITS.iter().any(|word| code.contains(word))
    };
    let all = ["src", "ship/src", "http/src", "ffi/src"].iter().flat_map(|dir| sources(dir));
    let waiting: Vec<String> =
        all.filter(|source| waits(&source.text)).map(|source| source.path.display().to_string()).collect();
    let missing: Vec<&String> = waiting.iter().filter(|path| !named.contains(path.as_str())).collect();
    assert!(missing.is_empty(), "docs/waits.md does not say for what these wait, and how long: {missing:?}");
    let gone: Vec<&&str> =
        named.iter().filter(|path| path.starts_with("src") && !project().join(path).exists()).collect();
    assert!(gone.is_empty(), "docs/waits.md names files that are not there: {gone:?}");
}

#[test]
fn the_library_leaves_its_host_alone() {
    // Words that must not occur in the library (tests aside), and the reasons.
    let never = [
        ("println!", "writes to the host's streams"),
        ("eprintln!", "writes to the host's streams"),
        ("dbg!", "writes to the host's streams"),
        ("process::exit", "ends the host"),
        ("process::abort", "ends the host"),
        ("Command::new", "there are no helper programs"),
        ("set_current_dir", "changes the host's directory"),
        ("env::set_var", "changes the host's environment"),
        ("set_hook", "changes the host's panic hook"),
        ("signal::sigaction", "changes the host's signal handlers"),
        ("waitpid(-1", "reaps the host's children"),
        ("todo!", "is not written yet"),
        ("unimplemented!", "is not written yet"),
    ];
    let mut wrong = Vec::new();
    for source in ["src", "ship/src", "http/src"].iter().flat_map(|dir| sources(dir)) {
        for (number, line) in source.shipped_lines() {
            let code = line.split("//").next().unwrap_or_default();
            for (word, why) in never.iter().filter(|(word, _)| code.contains(word)) {
                wrong.push(format!("{}:{number}: {word} {why}", source.path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// Functions that have more lines than [`LINES`], each with the reason; to become shorter, not longer.
const LONG: &[(&str, &str, &str)] = &[
    ("src/container/mod.rs", "open", "a line for each group of methods"),
    ("src/container/planner.rs", "container", "a line for each field of the plan"),
];
const LINES: usize = 60;

/// Functions that have more parameters than [`PARAMETERS`], each with the reason; to become shorter, too.
const WIDE: &[(&str, &str, &str)] = &[];
const PARAMETERS: usize = 6;

/// Crates whose functions are short.
const SHORT: &[&str] = &["src", "monitor", "ship/src", "http/src", "cli/src", "ffi/src"];

#[test]
fn functions_are_short() {
    let lines = |function: &Function| function.lines;
    let seen = check_functions(SHORT, "lines", LINES, LONG, lines);
    assert!(seen > 3000, "only {seen} functions were found");
}

/// A function of the C ABI has a parameter for each value, as C programs expect.
#[test]
fn functions_take_few_parameters() {
    let rooms = [SHORT, &["tests/suite", "tests/attacks", "tests/support"]].concat();
    let few = |function: &Function| if function.name.starts_with("coracle_") { 0 } else { function.parameters };
    let seen = check_functions(&rooms, "parameters", PARAMETERS, WIDE, few);
    assert!(seen > 5000, "only {seen} functions were found");
}

/// Compares a measure of each function with its bound; returns how many functions there are.
fn check_functions(
    rooms: &[&str],
    what: &str,
    bound: usize,
    excused: &[(&'static str, &'static str, &'static str)],
    measure: fn(&Function) -> usize,
) -> usize {
    let mut excuses: BTreeSet<(&str, &str, &str)> = excused.iter().copied().collect();
    let mut wrong = Vec::new();
    let mut seen = 0;
    for source in rooms.iter().flat_map(|room| sources(room)) {
        for function in functions(&source) {
            seen += 1;
            let is = measure(&function);
            let is_it =
                |(file, name, _): &&(&str, &str, &str)| source.path == Path::new(file) && *name == function.name;
            match (is > bound, excused.iter().find(is_it)) {
                (true, Some(excuse)) => drop(excuses.remove(excuse)),
                (true, None) => wrong.push(format!("{}: {} has {is} {what}", source.path.display(), function.name)),
                (false, _) => {}
            }
        }
    }
    wrong.extend(excuses.iter().map(|(path, name, _)| format!("{path}: {name} needs no excuse")));
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    seen
}

/// A function as it stands in a file that rustfmt has formatted.
struct Function {
    name: String,
    /// Between its first line and its last one.
    lines: usize,
    /// With `self`.
    parameters: usize,
}

fn functions(source: &Source) -> Vec<Function> {
    let lines: Vec<&str> = source.lines().map(|(_, line)| line).collect();
    let of = |at: usize| {
        let line = lines[at];
        let indent = &line[..line.len() - line.trim_start().len()];
        let words = ["pub", "const", "unsafe", "extern", "\"C\""];
        let mut rest = line.trim_start();
        // `pub(in crate::engine)` is one word.
        if let Some((_, behind)) = rest.strip_prefix("pub(").and_then(|scope| scope.split_once(") ")) {
            rest = behind;
        }
        while let Some(word) = words.iter().find(|word| rest.split(' ').next() == Some(word)) {
            rest = &rest[word.len() + 1..];
        }
        let name = rest.strip_prefix("fn ")?.split(['(', '<']).next()?.to_owned();
        let end = format!("{indent}}}");
        let last = (at..lines.len()).find(|line| lines[*line] == end || lines[at].ends_with(['}', ';']))?;
        // A list that does not fit its line has a parameter a line.
        let parameters = match line.ends_with('(') {
            true => lines[at + 1..].iter().take_while(|line| !line.starts_with(&format!("{indent})"))).count(),
            false => commas(line),
        };
        Some(Function { name, lines: (last - at).saturating_sub(1), parameters })
    };
    (0..lines.len()).filter_map(of).collect()
}

/// The parameters of a function whose list is in one line.
fn commas(line: &str) -> usize {
    let list = line.split_once("fn ").and_then(|(_, rest)| rest.split_once('(')).map_or("", |(_, list)| list);
    let (mut depth, mut count, mut last) = (0, 0, ' ');
    for c in list.chars() {
        match c {
            ')' if depth == 0 => break,
            '(' | '[' | '<' | '{' => depth += 1,
            '>' if last == '-' => {}
            ')' | ']' | '>' | '}' => depth -= 1,
            ',' if depth == 0 => count += 1,
            _ => {}
        }
        last = c;
    }
    if list.starts_with(')') { 0 } else { count + 1 }
}

/// Code that learns from the message of an error what happened breaks when the message is mended.
#[test]
fn no_code_reads_the_message_of_an_error() {
    let reads =
        ["contains(", "starts_with(", "ends_with(", "strip_prefix(", "find("].map(|how| format!(".message().{how}"));
    let compares = |line: &str| line.contains(".message() ==") || line.contains(".message() !=");
    let mut wrong = Vec::new();
    for source in ["src", "http/src", "ffi/src", "cli/src"].iter().flat_map(|dir| sources(dir)) {
        for (number, line) in source.lines() {
            if compares(line) || reads.iter().any(|read| line.contains(read)) {
                wrong.push(format!("{}:{number}: {}", source.path.display(), line.trim()));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// The words by which code would read a mode of a host configuration from its text.
const MODE_TEXTS: [&str; 5] = ["\"container:\"", "_mode == \"", "_mode != \"", "_mode.as_str()", "_mode.is_empty()"];

/// Where the text of a mode is passed on or completed, and not read.
const MODE_TEXTS_KEPT: [&str; 2] = ["src/container/spec.rs", "src/container/spec/networks.rs"];

#[test]
fn one_file_reads_modes_from_their_texts() {
    let reads = |line: &str| MODE_TEXTS.iter().any(|text| line.contains(text));
    let kept = MODE_TEXTS_KEPT.into_iter().chain(["src/container/spec/modes.rs"]).map(Path::new);
    let mut kept: BTreeSet<&Path> = kept.collect();
    let mut wrong = Vec::new();
    let all = sources("src");
    for source in all.iter().filter(|source| source.shipped_lines().iter().any(|(_, line)| reads(line))) {
        if !kept.remove(source.path.as_path()) {
            wrong.push(format!(
                "{} reads a mode from its text; src/container/spec/modes.rs does",
                source.path.display()
            ));
        }
    }
    wrong.extend(kept.iter().map(|path| format!("{} is excused, and reads no mode", path.display())));
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// The files of the library that name the bytes of monitors, each with the reason; to become fewer. Where a folder stands, all
/// of its files may.
const WIRE: &[(&str, &str)] = &[
    ("src/bundle", "makes plans from bundles of OCI"),
    ("src/container/planner.rs", "makes the plan"),
    ("src/container/failure.rs", "explains the details of a failed step"),
    ("src/container/attach.rs", "hands streams to a start in the packets of monitors"),
    ("src/container/shipping.rs", "leaves the words of a program to monitors"),
    ("src/container/exec_records.rs", "reads the state of an exec that its monitor writes"),
    ("src/container/health.rs", "reads the results of health checks that a monitor writes"),
    ("src/event/journal.rs", "knows where the journal of events begins, to which monitors append"),
    ("src/event/record.rs", "knows how a record of the journal begins"),
    ("src/kernel/port.rs", "marks the sockets of ports that a monitor relays"),
    ("src/launch", "starts monitors and talks to them"),
    ("src/log/files.rs", "reads the mark that a monitor leaves in a log"),
    ("src/network/endpoint", "marks the numbers in messages that the monitor fills in"),
    ("src/network/names.rs", "writes the files from which monitors answer names"),
    ("src/network/ports.rs", "marks the ports that a monitor relays"),
    ("src/store/states.rs", "has the state records that monitors write"),
];

/// The other files of the library use the types of `launch` and `store`.
#[test]
fn few_files_of_the_library_know_the_bytes_of_monitors() {
    let mut needless: BTreeSet<&str> = WIRE.iter().map(|(path, _)| *path).collect();
    let mut wrong = Vec::new();
    for source in sources("src") {
        if source.lines().any(|(_, line)| line.contains("coracle_monitor::wire")) {
            match WIRE.iter().find(|(path, _)| source.path.starts_with(path)) {
                Some((path, _)) => drop(needless.remove(path)),
                None => wrong.push(format!("{} names the wire format", source.path.display())),
            }
        }
    }
    wrong.extend(needless.iter().map(|path| format!("{path} is excused, and does not name the wire format")));
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// So many methods a type of a divided room has at most: a type with more is to be divided.
const METHODS: usize = 20;

/// The divided rooms: the type that only makes each room's groups of methods, and how many methods it has; to become fewer.
const DIVIDED: &[(&str, &str, usize)] = &[
    ("src/container", "Containers", 4),
    ("src/image", "Images", 1),
    ("src/network", "Networks", 1),
    ("src/volume", "Volumes", 1),
];

/// The rooms whose types have few methods, too, and none makes the others.
const SMALL: &[&str] = &[
    "cli/src",
    "ffi/src",
    "http/src",
    "ship/src",
    "src/build",
    "src/buildfile",
    "src/event",
    "src/git",
    "src/kernel",
    "src/launch",
    "src/log",
    "src/model",
    "src/plugin",
    "src/registry",
    "src/store",
];

/// The types of those rooms that have more methods; to become fewer.
const LARGE: &[(&str, &str, usize)] = &[("ffi/src", "Begun", 21)];

/// A method with a whole room at hand could touch all that the room has.
#[test]
fn no_type_of_a_divided_room_does_everything() {
    for room in DIVIDED.iter().map(|(room, ..)| room).chain(SMALL) {
        let counts = methods_by_type(room);
        let many: Vec<_> = counts.iter().filter(|(_, count)| **count > METHODS).collect();
        let known: BTreeMap<_, _> =
            LARGE.iter().filter(|(of, ..)| of == room).map(|(_, name, count)| (*name, *count)).collect();
        let same =
            many.len() == known.len() && many.iter().all(|(name, count)| known.get(name.as_str()) == Some(*count));
        assert!(same, "types of {room} with more than {METHODS} methods: {many:?}; LARGE has {known:?}");
    }
    for (room, maker, methods) in DIVIDED {
        let count = methods_by_type(room).get(*maker).copied().unwrap_or_default();
        assert_eq!(count, *methods, "the methods of {maker} only become fewer: change DIVIDED");
    }
}

/// How many methods each type of a room has.
fn methods_by_type(room: &str) -> BTreeMap<String, usize> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for source in sources(room) {
        let mut kind = None;
        for (_, line) in source.lines() {
            if line.starts_with("impl") {
                let name = line.trim_end_matches('{').trim_end().rsplit(' ').next().unwrap_or_default();
                kind = Some(name.split('<').next().unwrap_or_default().to_owned());
            } else if line == "}" {
                kind = None;
            }
            if let (true, Some(kind)) = (is_method(line), &kind) {
                *counts.entry(kind.clone()).or_default() += 1;
            }
        }
    }
    counts
}

/// So many methods a type of the monitor has at most.
const MONITOR_METHODS: usize = 21;
/// The types of the monitor that have more; to become fewer.
const MONITOR_TYPES: &[(&str, usize)] = &[("Monitor", 48)];
/// The fields of `Monitor`: a part of the monitor each; to become fewer.
const MONITOR_FIELDS: usize = 16;

/// `Monitor` owns the parts and passes on what they bring: the work is theirs, and they do not know it.
#[test]
fn no_type_of_the_monitor_does_everything() {
    let many: BTreeMap<String, usize> =
        methods_by_type("monitor").into_iter().filter(|(_, count)| *count > MONITOR_METHODS).collect();
    let known: BTreeMap<String, usize> =
        MONITOR_TYPES.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
    assert_eq!(many, known, "the methods of a type of the monitor only become fewer: change MONITOR_TYPES");
    let all = sources("monitor");
    let routers = ["boot.rs", "launching.rs", "life.rs", "monitor.rs", "serve.rs"];
    for source in all.iter().filter(|source| source.path.starts_with("monitor/program")) {
        let is_router = routers.iter().any(|name| source.path.ends_with(name));
        let knows = source.lines().find(|(_, line)| line.contains("monitor::") || line.contains("&mut Monitor"));
        assert!(is_router || knows.is_none(), "{}: a part knows Monitor: {knows:?}", source.path.display());
    }
    let of_monitor = all.iter().find(|source| source.path.ends_with("monitor/program/monitor.rs"));
    let fields = of_monitor
        .expect("monitor.rs is there")
        .lines()
        .map(|(_, line)| line)
        .skip_while(|line| *line != "pub struct Monitor {");
    let fields = fields.take_while(|line| *line != "}").filter(|line| line.starts_with("    pub ")).count();
    assert_eq!(fields, MONITOR_FIELDS, "the fields of Monitor only become fewer: change MONITOR_FIELDS");
}

fn is_method(line: &str) -> bool {
    let Some(member) = line.strip_prefix("    ").filter(|member| !member.starts_with(' ')) else { return false };
    let rest = member.strip_prefix("pub").map_or(member, |rest| match rest.strip_prefix('(') {
        Some(scope) => scope.split_once(')').map_or("", |(_, rest)| rest),
        None => rest,
    });
    let rest = rest.trim_start();
    let rest = rest.strip_prefix("const ").unwrap_or(rest);
    rest.strip_prefix("unsafe ").unwrap_or(rest).starts_with("fn ")
}

/// A source file without its tests.
struct Source {
    path: PathBuf,
    text: String,
}

impl Source {
    /// The lines with their numbers, up to the tests at the end.
    fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let code = self.text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        code.lines().enumerate().map(|(at, line)| (at + 1, line))
    }

    /// The lines without those of the test build, whose defences can be switched off: that breaks them on purpose.
    fn shipped_lines(&self) -> Vec<(usize, &str)> {
        let mut shipped = Vec::new();
        let mut lines = self.lines();
        while let Some((number, line)) = lines.next() {
            let Some(indent) = line.strip_suffix("#[cfg(feature = \"attacks\")]") else {
                shipped.push((number, line));
                continue;
            };
            let is_one = |line: &str| line.ends_with([';', ',']);
            if lines.next().is_some_and(|(_, line)| !is_one(line)) {
                lines.find(|(_, line)| line.strip_prefix(indent) == Some("}"));
            }
        }
        shipped
    }
}

/// Public types without an example of their own, each with the reason; to become shorter, not longer.
const WITHOUT_EXAMPLE: &[(&str, &str)] = &[];

/// A type is public where `src/lib.rs` gives it out, or where a method of the engine takes it as a request. The other types
/// of `model` are answers and parts of documents: the module's own example shows how they are read.
#[test]
fn public_types_have_an_example() {
    let library = std::fs::read_to_string(project().join("src/lib.rs")).expect("src/lib.rs");
    let mut wanted: BTreeSet<String> = BTreeSet::new();
    for given in library.split("pub use ").skip(1).filter_map(|rest| rest.split(';').next()) {
        wanted.extend(words(given).map(str::to_owned));
    }
    for method in sources("src/engine").iter().flat_map(|source| source.text.split("    pub fn ").skip(1)) {
        let arguments = method.split(" {\n").next().and_then(|head| head.split(" -> ").next()).unwrap_or_default();
        wanted.extend(words(arguments).map(str::to_owned));
    }
    let all: Vec<Source> = sources("src").into_iter().filter(|source| !source.path.ends_with("fuzz.rs")).collect();
    let mut excuses: BTreeSet<&str> = WITHOUT_EXAMPLE.iter().map(|(name, _)| *name).collect();
    let (mut shown, mut silent) = (0, Vec::new());
    for name in &wanted {
        let Some(comment) = all.iter().find_map(|source| comment_of(&source.text, name)) else { continue };
        match (comment.contains("/// ```"), excuses.remove(name.as_str())) {
            (true, false) => shown += 1,
            (false, true) => {}
            (true, true) => silent.push(format!("{name} has an example, and an excuse that it does not need")),
            (false, false) => silent.push(format!("{name} has no example")),
        }
    }
    silent.extend(excuses.iter().map(|name| format!("{name} is excused, and is not a public type")));
    assert!(silent.is_empty(), "\n{}", silent.join("\n"));
    assert!(shown > 50, "only {shown} types were found");
    let model = std::fs::read_to_string(project().join("src/model/mod.rs")).expect("src/model/mod.rs");
    assert!(model.contains("\n//! ```"), "the module `model` has no example");
}

/// The words of a text that may name a type.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| word.starts_with(char::is_uppercase))
}

/// The lines of comments and attributes above the definition of a public type.
fn comment_of(text: &str, name: &str) -> Option<String> {
    let lines: Vec<&str> = text.lines().collect();
    let is_it = |line: &&str| {
        let defined = ["pub struct ", "pub enum ", "pub trait "].iter().find_map(|kind| line.strip_prefix(kind));
        defined.and_then(|rest| rest.strip_prefix(name)).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
    };
    let at = lines.iter().position(is_it)?;
    let above = lines[..at].iter().rev().take_while(|line| line.starts_with("///") || line.starts_with("#["));
    Some(above.copied().collect::<Vec<_>>().join("\n"))
}

fn project() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The files below a folder whose name ends so; not those of builds and of packages of others.
fn files_below(dir: &Path, end: &str) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![dir.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("read a folder of the project").flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            match path.is_dir() {
                true if ["target", "node_modules"].iter().any(|built| name == *built) => {}
                true => folders.push(path),
                false if name.to_string_lossy().ends_with(end) => found.push(path),
                false => {}
            }
        }
    }
    found.sort();
    found
}

/// The Rust files below a folder that are not tests.
fn sources(dir: &str) -> Vec<Source> {
    let mut found = Vec::new();
    let mut folders = vec![project().join(dir)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("read a folder of the project").flatten() {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            if path.is_dir() && !["tests", "target", "examples"].contains(&name.as_str()) {
                folders.push(path);
            } else if name.ends_with(".rs") && !name.contains("tests") {
                let text = std::fs::read_to_string(&path).expect("read a file of the project");
                let path = path.strip_prefix(project()).expect("below the project").to_path_buf();
                found.push(Source { path, text });
            }
        }
    }
    assert!(!found.is_empty(), "no sources in {dir}");
    found
}

/// Whether a file is of a module: `src/name.rs` or below `src/name/`.
fn is_of(path: &Path, module: &str) -> bool {
    path.starts_with(format!("src/{module}")) || path == Path::new(&format!("src/{module}.rs"))
}

/// Whether a line names a module of this crate.
fn names(line: &str, module: &str) -> bool {
    let code = line.trim_start();
    if code.starts_with("//") {
        return false;
    }
    let path = format!("crate::{module}");
    code.match_indices(&path)
        .any(|(at, _)| !code[at + path.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '_'))
}

/// Two operations of one code would be taken for each other by a monitor.
#[test]
fn operations_of_the_plan_have_codes_of_their_own() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("monitor/src/ops.rs");
    let text = std::fs::read_to_string(path).expect("the operations");
    let mut seen = std::collections::BTreeMap::new();
    for line in text.lines() {
        let Some((code, rest)) = line.strip_prefix("    ").and_then(|line| line.split_once(' ')) else { continue };
        let number = match code.strip_prefix("0x") {
            Some(digits) => u16::from_str_radix(digits, 16),
            None => code.parse(),
        };
        let (Ok(number), Some(name)) = (number, rest.split(['<', ' ']).next()) else { continue };
        if let Some(other) = seen.insert(number, name.to_owned()) {
            panic!("{name} and {other} are both {code}");
        }
    }
    assert!(seen.len() > 50, "only {} operations seen", seen.len());
}
