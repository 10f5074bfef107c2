//! Files of a room that name each other in a circle can only be understood, and changed, together. The file that declares
//! a module (`mod.rs`, or `name.rs` beside `name/`) has the words that its files share, so it counts in no circle.

use crate::{Source, sources};
use std::collections::{BTreeMap, BTreeSet};

/// Circles that cannot be cut, each with the reason.
const KEPT: &[(&[&str], &str)] = &[
    (
        &["src/event/hub.rs", "src/event/journal.rs"],
        "a journal knows the hub of its streams, which watches the journal",
    ),
    (
        &["cli/src/commands.rs", "cli/src/completion.rs", "cli/src/manual.rs"],
        "the table of commands has the two commands that print it",
    ),
];

const CRATES: &[&str] = &["src", "ship/src", "http/src", "ffi/src", "cli/src", "monitor/src", "monitor/program"];

#[test]
fn files_of_a_room_name_each_other_in_no_circle() {
    let mut kept: BTreeSet<&[&str]> = KEPT.iter().map(|(files, _)| *files).collect();
    let mut wrong = Vec::new();
    let mut seen = 0;
    for dir in CRATES {
        let (circles, names) = circles_of(dir);
        seen += names;
        for paths in circles {
            if kept.iter().any(|files| *files == paths) {
                kept.retain(|files| *files != paths);
            } else {
                wrong.push(format!("a circle: {}", paths.join(", ")));
            }
        }
    }
    wrong.extend(kept.iter().map(|files| format!("{} is not a circle, and has an excuse", files.join(", "))));
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    assert!(seen > 500, "only {seen} names of files were found");
}

/// The circles of all crates, those with a reason too.
pub(crate) fn all_circles() -> Vec<Vec<String>> {
    CRATES.iter().filter(|dir| crate::project().join(dir).is_dir()).flat_map(|dir| circles_of(dir).0).collect()
}

/// The circles of a crate, each as its sorted paths, and the number of names of files in the crate.
fn circles_of(dir: &str) -> (Vec<Vec<String>>, usize) {
    let files = sources(dir);
    let names = Modules::of(dir, &files).names(&files);
    let paths = |circle: BTreeSet<usize>| {
        let mut paths: Vec<String> = circle.iter().map(|file| files[*file].path.display().to_string()).collect();
        paths.sort();
        paths
    };
    let found = circles(&names).into_iter().map(paths).collect();
    (found, names.values().map(BTreeSet::len).sum())
}

/// The files of a crate by the path of their module.
struct Modules {
    by_path: BTreeMap<Vec<String>, usize>,
    paths: Vec<Vec<String>>,
}

impl Modules {
    fn of(dir: &str, files: &[Source]) -> Modules {
        let module = |source: &Source| -> Vec<String> {
            let path = source.path.strip_prefix(dir).expect("a file of the crate").with_extension("");
            let mut parts: Vec<String> = path.iter().map(|part| part.to_string_lossy().into_owned()).collect();
            parts.pop_if(|last| ["mod", "lib", "main"].contains(&last.as_str()));
            parts
        };
        let paths: Vec<Vec<String>> = files.iter().map(module).collect();
        Modules { by_path: paths.iter().cloned().zip(0..).collect(), paths }
    }

    /// The files that each file names, but for those that declare modules.
    fn names(&self, files: &[Source]) -> BTreeMap<usize, BTreeSet<usize>> {
        let given: Vec<Vec<Vec<String>>> = files.iter().map(|source| paths_of(&code(source), "pub")).collect();
        let declares = |file: usize| {
            self.by_path.keys().any(|path| path.len() > self.paths[file].len() && path.starts_with(&self.paths[file]))
        };
        let mut names = BTreeMap::new();
        for (file, source) in files.iter().enumerate().filter(|(file, _)| !declares(*file)) {
            let used = paths_of(&code(source), "");
            let targets = used.iter().filter_map(|path| self.file_of(self.absolute(file, path)?, &given, 4));
            names.insert(file, targets.filter(|target| *target != file && !declares(*target)).collect());
        }
        names
    }

    /// A path of a file from the root of the crate on; `None`: it begins with another crate.
    fn absolute(&self, file: usize, path: &[String]) -> Option<Vec<String>> {
        let up = path.iter().take_while(|part| *part == "super").count();
        let here = &self.paths[file];
        Some(match path.first()?.as_str() {
            "crate" => path[1..].to_vec(),
            "self" => [here, &path[1..]].concat(),
            "super" => [&here[..here.len().checked_sub(up)?], &path[up..]].concat(),
            child => {
                let below = [here.as_slice(), &[child.to_owned()]].concat();
                self.by_path.contains_key(&below).then(|| [here.as_slice(), path].concat())?
            }
        })
    }

    /// The file that a path leads to, also where a module gives on the names of others.
    fn file_of(&self, path: Vec<String>, given: &[Vec<Vec<String>>], steps: usize) -> Option<usize> {
        let length = (1..=path.len()).rev().find(|length| self.by_path.contains_key(&path[..*length]))?;
        let file = self.by_path[&path[..length]];
        let Some(name) = path.get(length).filter(|_| steps > 0) else { return Some(file) };
        match given[file].iter().find(|given| given.last() == Some(name) && given.len() > 1) {
            Some(on) => self.file_of(self.absolute(file, on)?, given, steps - 1).or(Some(file)),
            None => Some(file),
        }
    }
}

/// The code of a file without comments.
fn code(source: &Source) -> String {
    source.lines().map(|(_, line)| line.split("//").next().unwrap_or_default().to_owned() + "\n").collect()
}

/// The paths in the `use` lines of a text that begin with `kind`, or all paths of the text if that is empty.
fn paths_of(text: &str, kind: &str) -> Vec<Vec<String>> {
    let mut paths = Vec::new();
    for statement in text.split_inclusive(';') {
        let Some(at) = statement.rfind("use ").filter(|_| statement.ends_with(';')) else { continue };
        let before = statement[..at].lines().last().unwrap_or_default().trim();
        if before.starts_with(kind) && (before.is_empty() || before.starts_with("pub")) {
            expand(&[], statement[at + 4..].trim_end_matches(';'), &mut paths);
        }
    }
    for head in ["crate::", "super::", "self::"].iter().filter(|_| kind.is_empty()) {
        for (at, _) in text.match_indices(head) {
            let end =
                text[at..].find(|c: char| !c.is_alphanumeric() && c != '_' && c != ':').unwrap_or(text.len() - at);
            expand(&[], text[at..at + end].trim_end_matches(':'), &mut paths);
        }
    }
    paths
}

/// Adds the paths of a tree such as `a::{b, c::{d, e}}`.
fn expand(before: &[String], tree: &str, paths: &mut Vec<Vec<String>>) {
    let (head, group) = tree.split_once('{').map_or((tree, None), |(head, rest)| (head, rest.rsplit_once('}')));
    let parts = head.split("::").map(|part| part.split(" as ").next().unwrap_or_default().trim().to_owned());
    let path: Vec<String> = before.iter().cloned().chain(parts.filter(|part| !part.is_empty())).collect();
    let Some((group, _)) = group else { return paths.push(path) };
    let (mut depth, mut from) = (0, 0);
    for (at, c) in group.char_indices().chain([(group.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                let item = group[from..at].trim();
                if !item.is_empty() {
                    expand(&path, item, paths);
                }
                from = at + 1;
            }
            _ => {}
        }
    }
}

/// The sets of files that reach each other, of two files and more.
fn circles(names: &BTreeMap<usize, BTreeSet<usize>>) -> Vec<BTreeSet<usize>> {
    let reached = |from: usize| {
        let mut seen = BTreeSet::new();
        let mut left = vec![from];
        while let Some(file) = left.pop() {
            left.extend(names.get(&file).into_iter().flatten().filter(|next| seen.insert(**next)));
        }
        seen
    };
    let all: BTreeMap<usize, BTreeSet<usize>> = names.keys().map(|file| (*file, reached(*file))).collect();
    let circle = |file: &usize| -> BTreeSet<usize> {
        all[file].iter().copied().filter(|other| all.get(other).is_some_and(|back| back.contains(file))).collect()
    };
    let found: BTreeSet<BTreeSet<usize>> = names.keys().map(circle).filter(|circle| circle.len() > 1).collect();
    found.into_iter().collect()
}
