//! Selects and orders the containers of a list.

use super::text::{Health, StateView, state_text};
use crate::error::{Error, ErrorKind, Result};
use crate::model::{ListContainers, MountPoint, PortList, PortSummary, StringMap};
use crate::order::Order as _;
use regex_lite::Regex;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;

/// The facts of a container that a list selects by.
#[derive(Clone, Debug, Default)]
pub(crate) struct ContainerView {
    /// The index in the full list.
    pub place: usize,
    pub id: String,
    /// Without a slash.
    pub name: String,
    /// `/parent/alias` for each link to it.
    pub links: Vec<String>,
    pub created_ns: i64,
    pub state: StateView,
    pub image_id: String,
    pub labels: StringMap,
    pub mounts: Vec<MountPoint>,
    /// Name and id of each of its networks.
    pub networks: Vec<(String, String)>,
    pub ports: PortList,
}

/// The ids of an image that a client named and of all images made from it; none if no such image exists.
pub(crate) type Descendants<'a> = &'a dyn Fn(&str) -> Result<BTreeSet<String>>;

const FILTERS: [&str; 15] = [
    "ancestor",
    "before",
    "exited",
    "expose",
    "health",
    "id",
    "is-task",
    "isolation",
    "label",
    "name",
    "network",
    "publish",
    "since",
    "status",
    "volume",
];
const STATES: [&str; 7] = ["created", "dead", "exited", "paused", "removing", "restarting", "running"];

/// Selects among `all` containers, newest first. Errors: an unknown filter, an impossible value.
pub(crate) fn select<'a>(
    all: &'a [ContainerView],
    query: &ListContainers,
    descendants: Descendants<'_>,
) -> Result<Vec<&'a ContainerView>> {
    let filter = Filter::new(all, query, descendants)?;
    let mut chosen: Vec<&ContainerView> = all.iter().collect();
    chosen.order_by(|a, b| (b.created_ns, &b.id).cmp(&(a.created_ns, &a.id)));
    if let Some(before) = &filter.before {
        chosen = chosen.into_iter().skip_while(|view| view.id != *before).skip(1).collect();
    }
    if let Some(since) = &filter.since {
        chosen = chosen.into_iter().take_while(|view| view.id != *since).collect();
    }
    chosen.retain(|view| filter.takes(view));
    if let Some(limit) = usize::try_from(query.limit).ok().filter(|limit| *limit > 0) {
        chosen.truncate(limit);
    }
    Ok(chosen)
}

/// A parsed query. Values of one key are alternatives, except labels, which must all be there.
struct Filter<'a> {
    stopped_too: bool,
    /// Ids of the containers that bound the list.
    before: Option<String>,
    since: Option<String>,
    exited: Option<Vec<i32>>,
    images: Option<BTreeSet<String>>,
    names: Option<Patterns<'a>>,
    ids: Option<Patterns<'a>>,
    /// Ports of the host, and ports of the container; one match in either is enough.
    ports: Option<(Vec<PortRange>, Vec<PortRange>)>,
    query: &'a ListContainers,
}

/// Ports from one to another, and their protocol.
struct PortRange {
    ports: RangeInclusive<u16>,
    kind: String,
}

impl PortRange {
    /// `80`, `80/udp` or `8000-8080/tcp`.
    fn parse(key: &str, value: &str) -> Result<PortRange> {
        let wrong = |text: String| Error::new(ErrorKind::Internal, text).in_area("container");
        if value.contains(':') {
            return Err(wrong(format!("filter for '{key}' should not contain ':': {value}")));
        }
        let bad = |reason: String| wrong(format!("error while looking up for {key} {value}: {reason}"));
        let (ports, kind) = value.split_once('/').unwrap_or((value, "tcp"));
        if ports.is_empty() {
            return Err(bad("Empty string specified for ports.".into()));
        }
        let number = |text: &str| {
            let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            let reason = if digits { "value out of range" } else { "invalid syntax" };
            let error = || bad(format!("strconv.ParseUint: parsing {text:?}: {reason}"));
            text.parse::<u16>().ok().filter(|_| digits).ok_or_else(error)
        };
        let (first, last) = ports.split_once('-').unwrap_or((ports, ports));
        let range = number(first)?..=number(last)?;
        if range.is_empty() {
            return Err(bad(format!("Invalid range specified for the Port: {ports}")));
        }
        Ok(PortRange { ports: range, kind: if kind.is_empty() { "tcp".into() } else { kind.into() } })
    }

    fn has(&self, port: u16, kind: &str) -> bool {
        self.ports.contains(&port) && self.kind == kind
    }
}

impl<'a> Filter<'a> {
    fn new(all: &[ContainerView], query: &'a ListContainers, descendants: Descendants<'_>) -> Result<Filter<'a>> {
        if let Some(key) = query.filters.keys().find(|key| !FILTERS.contains(&key.as_str())) {
            return Err(Error::invalid(format!("Invalid filter '{key}'")));
        }
        let values = |key: &str| query.filters.get(key).filter(|values| !values.is_empty());
        if let Some(bad) = values("status").into_iter().flatten().find(|state| !STATES.contains(&state.as_str())) {
            return Err(Error::invalid(format!("Invalid filter 'status={bad}'")));
        }
        if let Some(bad) = values("health").into_iter().flatten().find(|text| health(text).is_none()) {
            return Err(Error::invalid(format!("Unrecognised filter value for health: {bad}")));
        }
        if let Some(given) = query.filters.get("is-task")
            && given.iter().any(|value| !["true", "false"].contains(&value.as_str()))
        {
            return Err(Error::invalid(format!("Invalid filter 'is-task=[{}]'", given.join(" "))));
        }
        let ranges = |key: &str| -> Result<Vec<PortRange>> {
            values(key).into_iter().flatten().map(|value| PortRange::parse(key, value)).collect()
        };
        let ports = (ranges("publish")?, ranges("expose")?);
        let bound = |given: &str, key: &str| -> Result<Option<String>> {
            let mut found = None;
            for name in Some(given)
                .filter(|name| !name.is_empty())
                .into_iter()
                .chain(values(key).into_iter().flatten().map(String::as_str))
            {
                found = Some(find(all, name)?);
            }
            Ok(found)
        };
        let images = |references: &Vec<String>| -> Result<BTreeSet<String>> {
            let mut images = BTreeSet::new();
            for reference in references {
                images.extend(descendants(reference)?);
            }
            Ok(images)
        };
        Ok(Filter {
            stopped_too: query.all
                || query.limit > 0
                || !query.before.is_empty()
                || !query.since.is_empty()
                || values("status").is_some(),
            before: bound(&query.before, "before")?,
            since: bound(&query.since, "since")?,
            exited: values("exited").map(|codes| codes.iter().map(|code| exit_code(code)).collect()).transpose()?,
            images: values("ancestor").map(images).transpose()?,
            names: values("name").map(|values| Patterns::new(values)),
            ids: values("id").map(|values| Patterns::new(values)),
            ports: Some(ports).filter(|(host, own)| !host.is_empty() || !own.is_empty()),
            query,
        })
    }

    fn takes(&self, view: &ContainerView) -> bool {
        let any = |key: &str, test: &dyn Fn(&str) -> bool| match self.query.filters.get(key) {
            Some(values) if !values.is_empty() => values.iter().any(|value| test(value)),
            _ => true,
        };
        let ended = !view.state.running && view.state.started_ns != 0;
        (self.stopped_too || view.state.running)
            && self.names.as_ref().is_none_or(|names| {
                names.find(&format!("/{}", view.name))
                    || names.find(&view.name)
                    || view.links.iter().any(|link| names.find(link))
            })
            && self.ids.as_ref().is_none_or(|ids| ids.find(&view.id))
            && self.query.filters.get("label").is_none_or(|labels| labels.iter().all(|label| labelled(view, label)))
            && self.exited.as_ref().is_none_or(|codes| ended && codes.contains(&view.state.exit_code))
            && any("status", &|state| state == state_text(&view.state))
            && any("health", &|text| health(text) == Some(view.state.health))
            && any("volume", &|volume| view.mounts.iter().any(|mount| mounted(mount, volume)))
            && self.images.as_ref().is_none_or(|images| images.contains(&view.image_id))
            && self
                .query
                .filters
                .get("is-task")
                .is_none_or(|values| values.iter().all(|value| (value == "true") == is_task(view)))
            && self.ports.as_ref().is_none_or(|(host, own)| {
                let published = |port: &PortSummary, range: &PortRange| {
                    port.public_port.is_some_and(|public| range.has(public, &port.kind))
                };
                view.ports.iter().any(|port| {
                    host.iter().any(|range| published(&port, range))
                        || own.iter().any(|range| range.has(port.private_port, &port.kind))
                })
            })
            && any("network", &|network| {
                let is_meant =
                    |(name, id): &(String, String)| network == name || !network.is_empty() && id.starts_with(network);
                view.networks.iter().any(is_meant)
            })
    }
}

/// Values that are compared as a whole and as regular expressions; an invalid expression is only compared.
struct Patterns<'a> {
    values: &'a [String],
    expressions: Vec<Regex>,
}

impl<'a> Patterns<'a> {
    fn new(values: &'a [String]) -> Patterns<'a> {
        Patterns { values, expressions: values.iter().filter_map(|value| Regex::new(value).ok()).collect() }
    }

    fn find(&self, text: &str) -> bool {
        self.values.iter().any(|value| value == text)
            || self.expressions.iter().any(|expression| expression.is_match(text))
    }
}

/// Whether the container runs a task of a swarm: the swarm's program gave it a label.
fn is_task(view: &ContainerView) -> bool {
    view.labels.contains_key("com.docker.swarm.task")
}

fn labelled(view: &ContainerView, label: &str) -> bool {
    match label.split_once('=') {
        Some((key, value)) => view.labels.get(key).is_some_and(|has| has == value),
        None => view.labels.contains_key(label),
    }
}

/// Compares a volume by its name if it has one, else a mount by its source; or either by its target.
fn mounted(mount: &MountPoint, volume: &str) -> bool {
    let name = if mount.name.is_empty() { &mount.source } else { &mount.name };
    mount.destination == volume || name == volume
}

fn health(text: &str) -> Option<Health> {
    Some(match text {
        "none" => Health::None,
        "starting" => Health::Starting,
        "healthy" => Health::Healthy,
        "unhealthy" => Health::Unhealthy,
        _ => return None,
    })
}

fn exit_code(text: &str) -> Result<i32> {
    text.parse().map_err(|_| {
        Error::new(ErrorKind::Internal, format!("strconv.Atoi: parsing {text:?}: invalid syntax")).in_area("container")
    })
}

/// The id of the container with this id, name or unambiguous beginning of an id.
fn find(all: &[ContainerView], name: &str) -> Result<String> {
    let bare = name.strip_prefix('/').unwrap_or(name);
    let exact = all.iter().find(|view| view.id == name).or_else(|| all.iter().find(|view| view.name == bare));
    let mut heads = all.iter().filter(|view| !name.is_empty() && view.id.starts_with(name));
    match (exact, heads.next(), heads.next()) {
        (Some(view), ..) | (None, Some(view), None) => Ok(view.id.clone()),
        _ => Err(Error::new(ErrorKind::Internal, format!("no such container {name}")).in_area("container")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn views() -> Vec<ContainerView> {
        let running = StateView { running: true, started_ns: 5, ..StateView::default() };
        let ended = StateView { started_ns: 5, finished_ns: 6, exit_code: 3, ..StateView::default() };
        let mount = |name: &str, source: &str, destination: &str| MountPoint {
            name: name.into(),
            source: source.into(),
            destination: destination.into(),
            ..MountPoint::default()
        };
        let port = |private_port, public_port, kind: &str| PortSummary {
            private_port,
            public_port,
            kind: kind.into(),
            ..PortSummary::default()
        };
        let base = |id: &str, name: &str, created_ns, state| ContainerView {
            id: id.repeat(64 / id.len()),
            name: name.into(),
            created_ns,
            state,
            image_id: "sha256:i".into(),
            ..ContainerView::default()
        };
        vec![
            ContainerView {
                labels: [("k".to_owned(), "v".to_owned()), ("l".to_owned(), String::new())].into(),
                mounts: vec![mount("", "/src", "/b")],
                networks: vec![("none".into(), "n".repeat(64))],
                ports: [port(80, Some(8080), "tcp"), port(53, None, "udp")].into_iter().collect(),
                ..base("a", "one", 10, running)
            },
            ContainerView { mounts: vec![mount("vol", "/x", "/v")], ..base("ab", "two", 30, ended) },
            ContainerView {
                labels: [("k".to_owned(), "w".to_owned())].into(),
                image_id: "sha256:j".into(),
                ..base("c", "three", 20, StateView::default())
            },
            base("d", "four", 40, StateView { health: Health::Healthy, ..running }),
            base("e", "five", 50, StateView { paused: true, ..running }),
        ]
    }

    fn try_list(query: Value) -> Result<Vec<String>> {
        let views = views();
        let descendants = |reference: &str| {
            Ok(match reference {
                "base" => ["sha256:i".to_owned(), "sha256:j".to_owned()].into(),
                "child" => ["sha256:j".to_owned()].into(),
                _ => BTreeSet::new(),
            })
        };
        let query = serde_json::from_value(query).unwrap();
        let chosen = select(&views, &query, &descendants)?;
        Ok(chosen.iter().map(|view| view.name.clone()).collect())
    }

    #[test]
    fn lists() {
        let filtered = |key: &str, values: Value| json!({"all": true, "filters": {key: values}});
        let rows = [
            (json!({}), vec!["five", "four", "one"]),
            (json!({"all": true}), vec!["five", "four", "two", "three", "one"]),
            (json!({"limit": 3}), vec!["five", "four", "two"]),
            (json!({"limit": 9}), vec!["five", "four", "two", "three", "one"]),
            (json!({"limit": -1}), vec!["five", "four", "one"]),
            (json!({"filters": {"status": ["exited", "paused"]}}), vec!["five", "two"]),
            (json!({"filters": {"status": ["running"]}}), vec!["four", "one"]),
            (json!({"filters": {"status": ["created"]}, "limit": 5}), vec!["three"]),
            (json!({"filters": {"exited": ["3"]}}), vec![]),
            (filtered("exited", json!(["3", "4"])), vec!["two"]),
            (filtered("exited", json!(["0"])), vec![]),
            (filtered("name", json!(["o"])), vec!["four", "two", "one"]),
            (filtered("name", json!(["^t"])), vec!["two", "three"]),
            (filtered("name", json!(["^/t.o$", "five"])), vec!["five", "two"]),
            (filtered("name", json!(["("])), vec![]),
            (filtered("id", json!(["^a"])), vec!["two", "one"]),
            (filtered("id", json!(["d"])), vec!["four"]),
            (filtered("label", json!(["k"])), vec!["three", "one"]),
            (filtered("label", json!(["k", "l"])), vec!["one"]),
            (filtered("label", json!(["k=w"])), vec!["three"]),
            (filtered("label", json!(["l="])), vec!["one"]),
            (filtered("ancestor", json!(["base"])), vec!["five", "four", "two", "three", "one"]),
            (filtered("ancestor", json!(["child", "nx"])), vec!["three"]),
            (filtered("ancestor", json!(["nx"])), vec![]),
            (filtered("volume", json!(["vol"])), vec!["two"]),
            (filtered("volume", json!(["/v", "/src"])), vec!["two", "one"]),
            (filtered("volume", json!(["/x"])), vec![]),
            (filtered("network", json!(["none"])), vec!["one"]),
            (filtered("network", json!(["n".repeat(64)])), vec!["one"]),
            (filtered("network", json!(["nnn"])), vec!["one"]),
            (filtered("network", json!(["on"])), vec![]),
            (filtered("isolation", json!(["zz"])), vec!["five", "four", "two", "three", "one"]),
            (filtered("health", json!(["healthy"])), vec!["four"]),
            (filtered("publish", json!(["8080"])), vec!["one"]),
            (filtered("publish", json!(["8000-8100/tcp"])), vec!["one"]),
            (filtered("publish", json!(["80"])), vec![]),
            (filtered("publish", json!(["8080/udp"])), vec![]),
            (filtered("expose", json!(["80/"])), vec!["one"]),
            (filtered("expose", json!(["53"])), vec![]),
            (filtered("expose", json!(["1", "53/udp"])), vec!["one"]),
            (json!({"filters": {"publish": ["80"], "expose": ["80"]}}), vec!["one"]),
            (filtered("is-task", json!(["true"])), vec![]),
            (filtered("is-task", json!(["false"])), vec!["five", "four", "two", "three", "one"]),
            (filtered("name", json!([])), vec!["five", "four", "two", "three", "one"]),
            (json!({"filters": {"before": ["two"]}}), vec!["one"]),
            (filtered("before", json!(["/two"])), vec!["three", "one"]),
            (filtered("since", json!(["three"])), vec!["five", "four", "two"]),
            (filtered("since", json!(["abab"])), vec!["five", "four"]),
            (json!({"before": "five", "since": "c"}), vec!["four", "two"]),
            (json!({"all": true, "filters": {"before": ["four"], "label": ["k"]}, "limit": 1}), vec!["three"]),
        ];
        for (query, names) in rows {
            assert_eq!(try_list(query.clone()).unwrap(), names, "{query}");
        }
    }

    #[test]
    fn mistakes() {
        let rows = [
            ("zz", "1", 400, "Invalid filter 'zz'"),
            ("publish", "1:2", 500, "filter for 'publish' should not contain ':': 1:2"),
            ("publish", "", 500, "error while looking up for publish : Empty string specified for ports."),
            (
                "publish",
                "9-8",
                500,
                "error while looking up for publish 9-8: Invalid range specified for the Port: 9-8",
            ),
            (
                "expose",
                "80-x",
                500,
                "error while looking up for expose 80-x: strconv.ParseUint: parsing \"x\": invalid syntax",
            ),
            (
                "publish",
                "70000",
                500,
                "error while looking up for publish 70000: strconv.ParseUint: parsing \"70000\": value out of range",
            ),
            ("is-task", "x", 400, "Invalid filter 'is-task=[x]'"),
            ("status", "run", 400, "Invalid filter 'status=run'"),
            ("health", "zz", 400, "Unrecognised filter value for health: zz"),
            ("exited", "a", 500, "strconv.Atoi: parsing \"a\": invalid syntax"),
            ("before", "nx", 500, "no such container nx"),
            ("since", "", 500, "no such container "),
            ("since", "a", 500, "no such container a"),
        ];
        for (key, value, status, text) in rows {
            let error = try_list(json!({"filters": {key: [value]}})).expect_err(text);
            assert_eq!((error.http_status(), error.message()), (status, text));
        }
    }

    #[test]
    fn containers_of_one_moment_have_an_order() {
        let view = |id: &str| ContainerView { id: id.into(), created_ns: 1, ..ContainerView::default() };
        let none = |_: &str| Ok(BTreeSet::new());
        let query = ListContainers { all: true, ..ListContainers::default() };
        for views in [[view("a"), view("b")], [view("b"), view("a")]] {
            let ids: Vec<&str> = select(&views, &query, &none).unwrap().iter().map(|view| view.id.as_str()).collect();
            assert_eq!(ids, ["b", "a"]);
        }
    }
}
