//! `docs/fields.md`: which test looks at each field and operation of containers. It is made from marks above the tests
//! (`// field: HostConfig.Memory`, `// operation: POST /containers/{name}/start`, `// filter: status`); a field of the
//! model, a route or a filter without a mark fails here. `CORACLE_WRITE_FIELDS=1 cargo test --test fields` writes the page.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The structs of the model whose fields the page lists: the file, the struct, the name before its fields.
const STRUCTS: [(&str, &str, &str); 20] = [
    ("src/model/container.rs", "ContainerConfig", "Config"),
    ("src/model/container.rs", "Healthcheck", "Config.Healthcheck"),
    ("src/model/container.rs", "HostConfig", "HostConfig"),
    ("src/model/container.rs", "Resources", "HostConfig"),
    ("src/model/container.rs", "RestartPolicy", "HostConfig.RestartPolicy"),
    ("src/model/container.rs", "LogConfig", "HostConfig.LogConfig"),
    ("src/model/container.rs", "PortBinding", "HostConfig.PortBindings"),
    ("src/model/container.rs", "DeviceMapping", "HostConfig.Devices"),
    ("src/model/container.rs", "Ulimit", "HostConfig.Ulimits"),
    ("src/model/container.rs", "MountRequest", "HostConfig.Mounts"),
    ("src/model/container.rs", "BindOptions", "HostConfig.Mounts.BindOptions"),
    ("src/model/container.rs", "VolumeOptions", "HostConfig.Mounts.VolumeOptions"),
    ("src/model/container.rs", "TmpfsOptions", "HostConfig.Mounts.TmpfsOptions"),
    ("src/model/container.rs", "NetworkingConfig", "NetworkingConfig"),
    ("src/model/container.rs", "EndpointIpamConfig", "NetworkingConfig.EndpointsConfig.IPAMConfig"),
    ("src/model/container.rs", "ContainerState", "State"),
    ("src/model/container.rs", "RemoveContainer", "Remove"),
    ("src/model/container.rs", "LogQuery", "Logs"),
    ("src/model/container.rs", "ListContainers", "List"),
    ("src/model/exec.rs", "ExecConfig", "ExecConfig"),
];

/// A field that is a struct whose own fields have rows, or that the struct only carries.
const PARTS: [&str; 6] = [
    "HostConfig.Resources",
    "Config.Healthcheck",
    "HostConfig.RestartPolicy",
    "HostConfig.LogConfig",
    "List.filters",
    "State.Health",
];

/// Kinds of marks, in the order of the page.
const KINDS: [(&str, &str); 3] = [("field", "Fields"), ("operation", "Operations"), ("filter", "Filters of the list")];

#[test]
fn every_field_and_operation_has_a_test() {
    let wanted = wanted();
    let marks = marks();
    let mut wrong = Vec::new();
    for (kind, name) in &wanted {
        if !marks.contains_key(&(kind.clone(), name.clone())) {
            wrong.push(format!("no test is marked `// {kind}: {name}`"));
        }
    }
    for (kind, name) in marks.keys() {
        if !wanted.contains(&(kind.clone(), name.clone())) {
            wrong.push(format!("a test is marked `// {kind}: {name}`, which is nothing of the model or the routes"));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    let (path, page) = (project().join("docs/fields.md"), page(&marks));
    if std::env::var_os("CORACLE_WRITE_FIELDS").is_some() {
        std::fs::write(&path, page).expect("write docs/fields.md");
        return;
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        there == page,
        "docs/fields.md is not as the tests have it: CORACLE_WRITE_FIELDS=1 cargo test --test fields"
    );
}

type Marks = BTreeMap<(String, String), BTreeSet<String>>;

fn page(marks: &Marks) -> String {
    let mut text = String::from(
        "# Fields and operations of containers, and the tests that look at them\n\n\
         Made from marks in the tests by `CORACLE_WRITE_FIELDS=1 cargo test --test fields`; do not edit. A test of the suite\n\
         runs a container and looks inside it or at the kernel.\n",
    );
    for (kind, title) in KINDS {
        text += &format!("\n## {title}\n\n| {} | tests |\n|---|---|\n", kind);
        for ((_, name), tests) in marks.iter().filter(|((of, _), _)| of == kind) {
            let tests: Vec<String> = tests.iter().map(|test| format!("`{test}`")).collect();
            text += &format!("| `{name}` | {} |\n", tests.join(", "));
        }
    }
    text
}

/// Everything that must have a mark.
fn wanted() -> BTreeSet<(String, String)> {
    let mut wanted = BTreeSet::new();
    for (file, name, prefix) in STRUCTS {
        for field in fields(file, name) {
            let field = format!("{prefix}.{field}");
            if !PARTS.contains(&field.as_str()) {
                wanted.insert(("field".to_owned(), field));
            }
        }
    }
    for line in read("http/src/routes.rs").lines().map(str::trim).filter(|line| line.starts_with("route(\"")) {
        let words: Vec<&str> = line.split('"').collect();
        if words[3].starts_with("/containers") || words[3].starts_with("/exec") || words[3] == "/commit" {
            wanted.insert(("operation".to_owned(), format!("{} {}", words[1], words[3])));
        }
    }
    let list = read("src/container/list.rs");
    let filters = list.split("const FILTERS").nth(1).and_then(|rest| rest.split("];").next()).expect("the filters");
    for filter in filters.split('"').skip(1).step_by(2) {
        wanted.insert(("filter".to_owned(), filter.to_owned()));
    }
    wanted
}

/// The names that the fields of a struct have in JSON.
fn fields(file: &str, name: &str) -> Vec<String> {
    let text = read(file);
    let start = text.find(&format!("pub struct {name} {{")).unwrap_or_else(|| panic!("no struct {name} in {file}"));
    let pascal = text[..start].rsplit("#[derive").next().expect("a head").contains("PascalCase");
    let body = &text[start..start + text[start..].find("\n}").expect("an end")];
    let (mut names, mut attribute) = (Vec::new(), String::new());
    for line in body.lines().map(str::trim) {
        if line.starts_with("#[serde") {
            attribute = line.to_owned();
        } else if let Some(field) =
            line.strip_prefix("pub ").and_then(|rest| rest.split_once(':')).filter(|_| line.ends_with(','))
        {
            if !attribute.contains("flatten") {
                let renamed = attribute.split("rename = \"").nth(1).and_then(|rest| rest.split('"').next());
                names.push(renamed.map_or_else(|| spelled(field.0, pascal), str::to_owned));
            }
            attribute.clear();
        }
    }
    names
}

fn spelled(field: &str, pascal: bool) -> String {
    if !pascal {
        return field.to_owned();
    }
    let upper = |word: &str| word[..1].to_uppercase() + &word[1..];
    field.split('_').filter(|word| !word.is_empty()).map(upper).collect()
}

/// The marks of all tests: what they say → the tests.
fn marks() -> Marks {
    let mut marks = Marks::new();
    for path in sources() {
        let module = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let mut open: Vec<(String, String)> = Vec::new();
        for line in std::fs::read_to_string(&path).expect("a source").lines().map(str::trim) {
            let mark = KINDS
                .iter()
                .find_map(|(kind, _)| Some((kind.to_string(), line.strip_prefix(&format!("// {kind}: "))?.to_owned())));
            if let Some(mark) = mark {
                open.push(mark);
            } else if let Some(rest) = line.strip_prefix("fn ") {
                let test = rest.split('(').next().unwrap_or_default();
                for mark in open.drain(..) {
                    marks.entry(mark).or_default().insert(format!("{module}::{test}"));
                }
            }
        }
        assert!(open.is_empty(), "{}: a mark without a test", path.display());
    }
    marks
}

/// Where tests stand: the suite, and those beside the router and the specification of containers.
fn sources() -> Vec<PathBuf> {
    let mut all = Vec::new();
    for dir in ["tests/suite", "http/tests", "http/tests/server", "src/container/spec"] {
        let entries = std::fs::read_dir(project().join(dir)).expect("a directory");
        let files = entries.flatten().map(|entry| entry.path());
        all.extend(files.filter(|path| path.extension().is_some_and(|end| end == "rs")));
    }
    all.sort();
    all
}

fn read(file: &str) -> String {
    std::fs::read_to_string(project().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

fn project() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
