//! Figures of the source: how many functions are long, how many types are large, and the like. `tests/support/figures`
//! prints them, also those of another checkout.

use crate::{Function, circles, functions, methods_by_type, project, prose, sources};

const CRATES: &[&str] = &["src", "monitor", "ship/src", "http/src", "cli/src", "ffi/src"];

/// The two largest types of some rooms, with their methods.
fn largest(rooms: &[String]) -> String {
    let mut all: Vec<_> = rooms.iter().flat_map(|room| methods_by_type(room)).collect();
    all.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    all.iter().take(2).map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
}

/// The rooms of the library below the engine, each with types of its own, and the other crates but the monitor's.
fn rooms() -> Vec<String> {
    let modules = std::fs::read_dir(project().join("src")).expect("list the library").flatten();
    let modules = modules.filter(|entry| entry.path().is_dir() && entry.file_name() != "engine");
    let modules = modules.map(|entry| format!("src/{}", entry.file_name().display()));
    modules.chain(["ship/src", "http/src", "cli/src", "ffi/src"].map(str::to_owned)).collect()
}

/// The functions with more than the limit.
fn above(limit: usize, measure: fn(&Function) -> usize) -> usize {
    let all = CRATES.iter().flat_map(|dir| sources(dir)).flat_map(|source| functions(&source));
    all.filter(|function| measure(function) > limit).count()
}

fn tests_of_the_monitor() -> usize {
    let mut folders = vec![project().join("monitor")];
    let mut count = 0;
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder).expect("list a folder of the monitor").flatten().map(|entry| entry.path())
        {
            match path.is_dir() {
                true => folders.push(path),
                false => count += std::fs::read_to_string(path).unwrap_or_default().matches("#[test]\n").count(),
            }
        }
    }
    count
}

#[test]
#[ignore = "prints figures: tests/support/figures"]
fn figures() {
    let parameters = |function: &Function| if function.name.starts_with("coracle_") { 0 } else { function.parameters };
    let mut circles: Vec<usize> = circles::all_circles().iter().map(Vec::len).collect();
    circles.sort_by_key(|size| std::cmp::Reverse(*size));
    let (stumbles, passages) = prose::all_stumbles();
    let of = |shape: &str| stumbles.iter().filter(|stumble| stumble.contains(shape)).count();
    let container = sources("src/container");
    let wire = container.iter().map(|source| source.text.matches("coracle_monitor::wire").count());
    let wire: Vec<usize> = wire.filter(|count| *count > 0).collect();
    let lines = [
        ("functions of more than 60 lines", above(60, |function| function.lines).to_string()),
        ("functions of more than 6 parameters, without those of the C ABI", above(6, parameters).to_string()),
        ("files of each circle", format!("{circles:?}")),
        ("methods of the engine, one for each operation", largest(&["src/engine".to_owned()])),
        ("methods of the largest types of the other rooms", largest(&rooms())),
        ("methods of the largest types of the monitor", largest(&["monitor".to_owned()])),
        (
            "mentions of the wire format in src/container",
            format!("{} in {} files", wire.iter().sum::<usize>(), wire.len()),
        ),
        ("sentences of forbidden shapes", format!("{} of {passages} passages", stumbles.len())),
        ("sentences that begin with What or Who", of("begins with What").to_string()),
        ("sentences that begin with \"The same\"", of("begins with \"The same\"").to_string()),
        ("tests of functions of the monitor", tests_of_the_monitor().to_string()),
    ];
    lines.iter().for_each(|(name, value)| println!("figure: {name}: {value}"));
}
