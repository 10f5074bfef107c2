//! `docs/fields.md`: which test looks at each field and operation of containers, and what is taken without an effect. It is made from marks above the tests
//! (`// field: HostConfig.Memory`, `// operation: POST /containers/{name}/start`, `// parameter: POST /commit: repo`,
//! `// filter: status`); a field of the model, a route, a parameter of one or a filter without a mark fails here.
//! `CORACLE_WRITE_FIELDS=1 cargo test --test fields` writes the page.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The structs of the model whose fields the page lists: the file, the struct, the name before its fields.
const STRUCTS: [(&str, &str, &str); 21] = [
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
    ("src/model/container.rs", "ImageOptions", "HostConfig.Mounts.ImageOptions"),
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

/// Fields of a struct that serves requests and answers: those that a request may say.
const SAID: [(&str, &[&str]); 1] = [(
    "NetworkingConfig.EndpointsConfig",
    &["IPAMConfig", "Links", "Aliases", "MacAddress", "DriverOpts", "GwPriority"],
)];

/// Fields that are accepted without effect, and the clients that send them. Everything else that a version of the API
/// knows has an effect, or is refused by its name: `http/tests/server/known.rs` asks.
const TAKEN: [(&str, &str); 27] = [
    (
        "Config.ArgsEscaped",
        "clients that create a container with the configuration of another or of an image (watchtower): a note of Windows images",
    ),
    ("HostConfig.ContainerIDFile", "the docker command with `--cidfile`, which writes the file itself"),
    (
        "HostConfig.Mounts.Consistency",
        "docker-compose with files made for Docker Desktop (`cached`, `delegated`): of file systems that a machine shares",
    ),
    (
        "HostConfig.KernelMemory",
        "clients at API 1.42 and later: engines ignore the limit there; it is set at earlier versions",
    ),
    ("Update.KernelMemory", "clients at API 1.42 and later, as above"),
    (
        "HostConfig.KernelMemoryTCP",
        "clients at API 1.52 and later: engines ignore the limit there; it is refused by its name at earlier versions",
    ),
    ("Update.KernelMemoryTCP", "clients at API 1.52 and later, as above"),
    ("ExecConfig.Container", "the docker command to 1.9: the name that the path has"),
    (
        "NetworkingConfig.EndpointsConfig.DNSNames",
        "clients that send back the answer of an inspect (watchtower, Portainer)",
    ),
    (
        "NetworkingConfig.EndpointsConfig.EndpointID",
        "clients that send back the answer of an inspect (watchtower, Portainer)",
    ),
    (
        "NetworkingConfig.EndpointsConfig.Gateway",
        "clients that send back the answer of an inspect (watchtower, Portainer)",
    ),
    (
        "NetworkingConfig.EndpointsConfig.GlobalIPv6Address",
        "clients that send back the answer of an inspect (watchtower, Portainer)",
    ),
    (
        "NetworkingConfig.EndpointsConfig.GlobalIPv6PrefixLen",
        "clients that send back the answer of an inspect (watchtower, Portainer)",
    ),
    (
        "NetworkingConfig.EndpointsConfig.IPAddress",
        "clients that send back the answer of an inspect (watchtower, Portainer)",
    ),
    (
        "NetworkingConfig.EndpointsConfig.IPPrefixLen",
        "clients that send back the answer of an inspect (watchtower, Portainer)",
    ),
    (
        "NetworkingConfig.EndpointsConfig.IPv6Gateway",
        "clients that send back the answer of an inspect (watchtower, Portainer)",
    ),
    (
        "NetworkingConfig.EndpointsConfig.NetworkID",
        "clients that send back the answer of an inspect (watchtower, Portainer)",
    ),
    ("CreateNetwork.Attachable", "`docker network create --attachable`, docker-compose: of networks of a swarm; shown"),
    (
        "POST /containers/{name}/start: detachKeys",
        "`docker start --detach-keys`: it attaches by another request, which has them, too; malformed keys are refused",
    ),
    (
        "GET /images/json: identity",
        "clients at API 1.54 and later: the signed origin of an image, which is not known here",
    ),
    ("GET /images/json: digests", "`docker images --digests`: the digests are always there"),
    (
        "GET /images/json: manifests",
        "`docker images` of 28 and later: an image has one platform here, so there is nothing to add",
    ),
    ("GET /images/{name}/json: manifests", "`docker image inspect` of 28 and later, as above"),
    ("POST /images/{name}/tag: force", "the docker command to 1.9: a name is moved without it, too"),
    (
        "POST /build: buildid",
        "the docker command with BuildKit, to end a build by its id: here the end of the connection ends it",
    ),
    (
        "POST /build/prune: all",
        "`docker builder prune -a`: a prune removes all caches that no step uses, without it, too",
    ),
    ("GET /networks/{name}: verbose", "`docker network inspect -v`: of networks of a swarm"),
];

/// Kinds of marks, in the order of the page.
const KINDS: [(&str, &str); 4] = [
    ("field", "Fields"),
    ("operation", "Operations"),
    ("parameter", "Parameters of operations"),
    ("filter", "Filters of the list"),
];

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
    text += "\n## Taken without effect\n\nA field that a published version of the API knows (`tests/known.json`, up to 1.55) has an effect, or is refused by its name \
             unless it is the\nzero of its type, at every version and door. These alone are taken as they are, for these clients:\n\n\
             | field or parameter | sent by |\n|---|---|\n";
    for (name, who) in TAKEN {
        text += &format!("| `{name}` | {who} |\n");
    }
    text
}

/// Every parameter that a version of the API knows is read by its route, refused by its name, or listed.
#[test]
fn no_parameter_is_taken_silently() {
    let known: serde_json::Value = serde_json::from_str(&read("tests/known.json")).expect("a document");
    let (routes, refused) = (read("http/src/routes.rs"), read("http/src/parameters.rs"));
    let mut wrong = Vec::new();
    let mut operations: BTreeMap<String, BTreeSet<String>> =
        serde_json::from_value(known["parameters"].clone()).expect("parameters");
    for (operation, name) in described_parameters() {
        operations.entry(operation).or_default().insert(name);
    }
    for (operation, names) in &operations {
        let (method, path) = operation.split_once(' ').expect("a method and a path");
        let head = format!("route(\"{method}\", \"{path}\", ");
        let handler = routes.split(&head).nth(1).and_then(|rest| rest.split(')').next()).expect("a route");
        let reads = parameters(handler);
        let module = handler.split("::").next().expect("a module");
        // A node outside of a swarm reads nothing of the request.
        if module == "swarm" {
            continue;
        }
        // Modules of few parameters, which hand them on: it is enough that they know the name.
        let hands_on = ["build", "images", "prune", "registry", "networks", "volumes", "system"].contains(&module);
        let module = if hands_on {
            read(&format!("http/src/api/{module}.rs")) + &read("http/src/api/registry.rs")
        } else {
            String::new()
        };
        let row = format!("(\"{method}\", \"{path}\", ");
        let row = refused.split(&row).nth(1).and_then(|rest| rest.split(")]").next()).unwrap_or_default();
        for name in names {
            let listed = TAKEN.iter().any(|(taken, _)| *taken == format!("{operation}: {name}"));
            let is_filters = name == "filters" && module.contains("query.filters()");
            if !reads.contains(name)
                && !is_filters
                && !module.contains(&format!("\"{name}\""))
                && !row.contains(&format!("(\"{name}\", "))
                && !listed
            {
                wrong.push(format!("{operation}: {name}"));
            }
        }
    }
    assert!(wrong.is_empty(), "nothing reads, refuses or lists:\n{}", wrong.join("\n"));
}

/// The parameters of the published descriptions.
fn described_parameters() -> Vec<(String, String)> {
    let (text, mut operation) = (read("tests/oracle/described/requests"), String::new());
    let mut parameters = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        match line.strip_prefix(" ?") {
            Some(rest) => {
                let (name, _) = rest.split_once(' ').expect("a name and its types");
                parameters.push((operation.clone(), name.to_owned()));
            }
            None if line.starts_with(' ') => {}
            None => operation = line.to_owned(),
        }
    }
    parameters
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
    for (parent, names) in SAID {
        wanted.extend(names.iter().map(|name| ("field".to_owned(), format!("{parent}.{name}"))));
    }
    let schema = read("http/src/schema.rs");
    let update = schema.split("static UPDATE: ").nth(1).and_then(|rest| rest.split("};").next()).expect("its table");
    let update = update.lines().filter(|line| !line.contains("Refused"));
    for field in update.filter_map(|line| line.trim().strip_prefix("(\"")) {
        let name = field.split('"').next().expect("a name");
        wanted.insert(("field".to_owned(), format!("Update.{name}")));
    }
    for line in read("http/src/routes.rs").lines().map(str::trim).filter(|line| line.starts_with("route(\"")) {
        let words: Vec<&str> = line.split('"').collect();
        if words[3].starts_with("/containers") || words[3].starts_with("/exec") || words[3] == "/commit" {
            let operation = format!("{} {}", words[1], words[3]);
            let handler = words[4].trim_matches([',', ' ', ')']);
            for name in parameters(handler) {
                wanted.insert(("parameter".to_owned(), format!("{operation}: {name}")));
            }
            wanted.insert(("operation".to_owned(), operation));
        }
    }
    let list = read("src/container/list.rs");
    let filters = list.split("const FILTERS").nth(1).and_then(|rest| rest.split("];").next()).expect("the filters");
    for filter in filters.split('"').skip(1).step_by(2) {
        wanted.insert(("filter".to_owned(), filter.to_owned()));
    }
    wanted
}

/// The parameters that a handler (`containers::list`) reads from the path of its request, by itself and by the functions
/// that it calls.
fn parameters(handler: &str) -> BTreeSet<String> {
    const READ: [&str; 8] = ["flag", "text", "get", "number", "time", "all", "words", "size"];
    let (module, name) = handler.split_once("::").expect("a module and a function");
    let file = read(&format!("http/src/api/{module}.rs"));
    let helpers = if module == "containers" { String::new() } else { read("http/src/api/containers.rs") };
    let mut names = BTreeSet::new();
    let (mut open, mut seen) = (vec![name.to_owned()], BTreeSet::new());
    while let Some(function) = open.pop() {
        if !seen.insert(function.clone()) {
            continue;
        }
        let head = format!("fn {function}(");
        let Some(body) = [&file, &helpers].into_iter().find_map(|text| text.split(&head).nth(1)) else { continue };
        let body = body.split("\n}\n").next().unwrap_or_default();
        if body.contains("query.filters()") {
            names.insert("filters".to_owned());
        }
        for word in READ {
            let call = format!("{word}(\"");
            let calls = body.split(&call).skip(1).filter_map(|rest| rest.split('"').next());
            names.extend(
                calls
                    .filter(|name| name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-')))
                    .map(str::to_owned),
            );
        }
        open.extend(
            ["stop_as_asked", "terminal_size", "attached"]
                .into_iter()
                .filter(|f| body.contains(&format!("{f}(")))
                .map(str::to_owned),
        );
    }
    names
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
            if let Some((kind, name)) = mark {
                match name.rsplit_once(": ") {
                    // Several parameters of one operation.
                    Some((operation, names)) => {
                        open.extend(names.split(' ').map(|name| (kind.clone(), format!("{operation}: {name}"))));
                    }
                    None => open.push((kind, name)),
                }
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
