//! Events of the engine.
// The fields are the specification's own names; their meaning, units and limits stand there.
#![allow(missing_docs)]

use super::{Filters, StringMap};
use serde::{Deserialize, Serialize};

/// One event as clients see it.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// let mut events = engine.events(&Default::default())?;
/// while let Some((_, event)) = events.next(None, None)? {
///     println!("{} {} {}", event.kind, event.action, event.actor.id);
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Container and image events only.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub status: String,
    /// Container and image events only.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub id: String,
    /// Container events only: the image's name.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub from: String,
    /// `container`, `image`, `volume`, `network`, `plugin`, `daemon`.
    #[serde(rename = "Type")]
    pub kind: String,
    /// The deed, such as `start`.
    #[serde(rename = "Action")]
    pub action: String,
    /// The object of the deed.
    #[serde(rename = "Actor")]
    pub actor: Actor,
    /// Unix seconds.
    pub time: i64,
    /// Unix nanoseconds.
    #[serde(rename = "timeNano")]
    pub time_nano: i64,
}

impl Event {
    /// The exit code of the process whose end the event reports (`die`, `exec_die`).
    pub(crate) fn exit_code(&self) -> Option<i32> {
        self.actor.attributes.get("exitCode")?.parse().ok()
    }
}

/// The object of an event.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// let mut events = engine.events(&Default::default())?;
/// if let Some((_, event)) = events.next(None, None)? {
///     println!("{:?}", event.actor.attributes.get("name"));
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Actor {
    /// The object's id, or its name where its kind has no ids.
    #[serde(rename = "ID")]
    pub id: String,
    /// Facts about the object: its name, its labels, its exit code.
    #[serde(rename = "Attributes")]
    pub attributes: StringMap,
}

/// The events that a listener wants; times are nanoseconds since 1970.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::model::EventQuery;
///
/// // Everything that follows an event which was seen before, by the sequence number of that event.
/// let events = engine.events(&EventQuery { after: Some(4711), ..Default::default() })?;
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EventQuery {
    /// Replay from this time; absent: only new events.
    pub since_ns: Option<i64>,
    /// End at this time; absent: never.
    pub until_ns: Option<i64>,
    /// Resume right after this sequence number (of [`crate::EventStream`]); wins over `since_ns`.
    pub after: Option<u64>,
    /// Only events that fit: `container`, `event`, `image`, `label`, `network`, `type`, `volume` and others.
    pub filters: Filters,
}
