//! Makes the events of each kind: status, id, from, and attributes.

use crate::model::{Actor, Event, StringMap};

impl Event {
    /// A container's event: its labels, its image's name at the creation, its name without the slash, and the
    /// attributes of the action (`exitCode`, `signal`). The engine's attributes win over labels of the same name.
    pub(crate) fn container(
        action: &str,
        id: &str,
        image: &str,
        name: &str,
        labels: &StringMap,
        extras: &[(&str, &str)],
    ) -> Event {
        let mut event = Event::now("container", action, id, with(labels, extras));
        if !image.is_empty() {
            event.actor.attributes.insert("image".into(), image.into());
        }
        event.actor.attributes.insert("name".into(), name.trim_start_matches('/').into());
        Event { status: action.into(), id: id.into(), from: image.into(), ..event }
    }

    /// An image's event. `id` and `name` are dockerd's for the action: often both are the image's id.
    pub(crate) fn image(action: &str, id: &str, name: &str, labels: &StringMap) -> Event {
        let event = Event::now("image", action, id, with(labels, &[("name", name)]));
        Event { status: action.into(), id: id.into(), ..event }
    }

    /// A volume's event; `extras` for mount and unmount.
    pub(crate) fn volume(action: &str, name: &str, driver: &str, extras: &[(&str, &str)]) -> Event {
        let mut attributes = with(&StringMap::new(), extras);
        attributes.insert("driver".into(), driver.into());
        Event::now("volume", action, name, attributes)
    }

    /// A network's event; `container` for connect and disconnect.
    pub(crate) fn network(action: &str, id: &str, name: &str, driver: &str, container: Option<&str>) -> Event {
        let mut attributes = with(&StringMap::new(), &[("name", name), ("type", driver)]);
        if let Some(container) = container {
            attributes.insert("container".into(), container.into());
        }
        Event::now("network", action, id, attributes)
    }

    /// A plugin's event.
    pub(crate) fn plugin(action: &str, id: &str, name: &str) -> Event {
        Event::now("plugin", action, id, with(&StringMap::new(), &[("name", name)]))
    }

    /// The engine's own event after a reload of its settings.
    pub(crate) fn daemon(action: &str, id: &str, host: &str, settings: &StringMap) -> Event {
        Event::now("daemon", action, id, with(settings, &[("name", host)]))
    }

    /// The event of a prune: which kind of objects it removed, and the bytes that are free again.
    pub(crate) fn prune(kind: &str, reclaimed: u64) -> Event {
        let event = Event::now(kind, "prune", "", StringMap::from([("reclaimed".into(), reclaimed.to_string())]));
        let has_status = matches!(kind, "container" | "image");
        Event { status: if has_status { "prune".into() } else { String::new() }, ..event }
    }

    fn now(kind: &str, action: &str, id: &str, attributes: StringMap) -> Event {
        let time_nano = crate::time::now_ns();
        Event {
            kind: kind.into(),
            action: action.into(),
            actor: Actor { id: id.into(), attributes },
            time: time_nano.div_euclid(1_000_000_000),
            time_nano,
            ..Event::default()
        }
    }
}

fn with(labels: &StringMap, extras: &[(&str, &str)]) -> StringMap {
    let mut all = labels.clone();
    all.extend(extras.iter().map(|(key, value)| (key.to_string(), value.to_string())));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_containers_and_images_have_a_status() {
        let labels = StringMap::from([("exitCode".into(), "label".into()), ("a".into(), "b".into())]);
        let event = Event::container("die", "c1", "busybox", "/web", &labels, &[("exitCode", "3")]);
        assert_eq!((event.status.as_str(), event.id.as_str(), event.from.as_str()), ("die", "c1", "busybox"));
        let attributes: Vec<_> = event.actor.attributes.iter().map(|(k, v)| format!("{k}={v}")).collect();
        assert_eq!(attributes, ["a=b", "exitCode=3", "image=busybox", "name=web"]);
        assert_eq!(event.time, event.time_nano / 1_000_000_000);

        let json = serde_json::to_value(Event::network("connect", "n1", "bridge", "bridge", Some("c1"))).unwrap();
        assert!(json.get("status").is_none() && json.get("id").is_none() && json.get("from").is_none());
        assert_eq!(json["Actor"]["Attributes"]["container"], "c1");

        let image = Event::image("tag", "sha256:1", "a:b", &StringMap::new());
        assert_eq!((image.status.as_str(), image.from.as_str()), ("tag", ""));
    }
}
