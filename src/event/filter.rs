//! Selects the events that a listener requested.

use crate::model::{Event, Filters};

/// Whether `event` passes every filter. Unknown keys are ignored.
pub(super) fn matches(filters: &Filters, event: &Event) -> bool {
    filters.iter().all(|(key, values)| values.is_empty() || passes(key, values, event))
}

fn passes(key: &str, values: &[String], event: &Event) -> bool {
    let attribute = |key: &str| event.actor.attributes.get(key).map(String::as_str);
    let name = attribute("name").unwrap_or_default();
    match key {
        "type" => values.contains(&event.kind),
        "event" => action(values, &event.action),
        // The event's type is not compared: a container filter also passes other events with that name.
        "container" | "volume" | "network" | "daemon" | "plugin" => {
            values.iter().any(|value| event.actor.id.starts_with(value.as_str()) || name.starts_with(value.as_str()))
        }
        "image" => {
            let image = if event.kind == "image" { name } else { attribute("image").unwrap_or_default() };
            values.iter().any(|value| {
                [event.actor.id.as_str(), image].iter().any(|have| value == have || value == without_tag(have))
            })
        }
        "label" => values.iter().all(|value| match value.split_once('=') {
            Some((key, value)) => attribute(key) == Some(value),
            None => attribute(value).is_some(),
        }),
        // All events are of this host: none is of a swarm.
        "scope" => values.iter().any(|value| value == "local"),
        _ => true,
    }
}

/// Exact, unless one of the values is the first word of actions with a colon: then all values are prefixes.
fn action(values: &[String], action: &str) -> bool {
    if values.iter().any(|value| matches!(value.as_str(), "exec_create" | "exec_start" | "health_status")) {
        return values.iter().any(|value| action.starts_with(value.as_str()));
    }
    values.iter().any(|value| value == action)
}

/// An image's short name without tag and digest.
fn without_tag(image: &str) -> &str {
    if image.starts_with("sha256:") {
        return image;
    }
    let name = image.split('@').next().unwrap_or_default();
    let last = name.rfind('/').map_or(0, |slash| slash + 1);
    let name = name[last..].find(':').map_or(name, |colon| &name[..last + colon]);
    let hub = ["docker.io/", "index.docker.io/"].iter().find_map(|host| name.strip_prefix(host));
    hub.map_or(name, |rest| rest.strip_prefix("library/").unwrap_or(rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::StringMap;

    fn passes(event: &Event, filters: &[(&str, &str)]) -> bool {
        let mut all = Filters::new();
        for (key, value) in filters {
            all.entry(key.to_string()).or_default().push(value.to_string());
        }
        matches(&all, event)
    }

    #[test]
    fn objects_match_by_prefix_of_id_or_name_whatever_their_type() {
        let network = Event::network("connect", "abc123", "eenet", "bridge", Some("c9"));
        assert!(passes(&network, &[("container", "ee")]));
        assert!(passes(&network, &[("network", "abc"), ("daemon", "eenet")]));
        assert!(passes(&network, &[("scope", "local")]) && !passes(&network, &[("scope", "swarm")]));
        assert!(passes(&network, &[("network", "zzz"), ("network", "een")]));
        assert!(!passes(&network, &[("container", "c9")]));
        assert!(!passes(&network, &[("volume", "net")]));
    }

    #[test]
    fn images_match_exactly_and_without_their_tag() {
        let labels = StringMap::new();
        let container = Event::container("start", "c1", "busybox:latest", "web", &labels, &[]);
        assert!(passes(&container, &[("image", "busybox")]));
        assert!(passes(&container, &[("image", "busybox:latest")]));
        assert!(!passes(&container, &[("image", "busy")]));
        assert!(!passes(
            &Event::container("start", "c1", "busybox", "web", &labels, &[]),
            &[("image", "busybox:latest")]
        ));
        let tagged = Event::image("tag", "sha256:1234", "localhost:5000/a/b:v1", &labels);
        assert!(passes(&tagged, &[("image", "localhost:5000/a/b")]));
        assert!(passes(&tagged, &[("image", "sha256:1234")]));
        assert!(!passes(&tagged, &[("image", "sha256")]));
        assert_eq!(without_tag("docker.io/library/debian:12@sha256:00"), "debian");
    }

    #[test]
    fn actions_are_exact_but_for_those_with_a_tail() {
        let event = |action| Event::container(action, "c1", "i", "n", &StringMap::new(), &[]);
        assert!(passes(&event("start"), &[("event", "start")]));
        assert!(!passes(&event("start"), &[("event", "sta")]));
        assert!(passes(&event("exec_start: ls -l"), &[("event", "exec_start")]));
        assert!(!passes(&event("exec_start: ls -l"), &[("event", "exec_start:")]));
        assert!(passes(&event("start"), &[("event", "exec_create"), ("event", "sta")]));
        assert!(passes(&event("health_status: healthy"), &[("event", "health_status")]));
    }

    #[test]
    fn labels_must_all_match_and_unknown_keys_mean_nothing() {
        let labels = StringMap::from([("a".into(), "1".into()), ("b".into(), "".into())]);
        let event = Event::container("start", "c1", "i", "n", &labels, &[]);
        assert!(passes(&event, &[("label", "a=1"), ("label", "b"), ("label", "b=")]));
        assert!(!passes(&event, &[("label", "a=1"), ("label", "c")]));
        assert!(passes(&event, &[("type", "container"), ("colour", "red")]));
        assert!(!passes(&event, &[("type", "image")]));
    }
}
