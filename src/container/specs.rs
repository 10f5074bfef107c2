//! Specs that were read before: the text of one is parsed once, as long as it stays the same.

use super::spec::Spec;
use crate::error::{Error, Result};
use parking_lot::Mutex;
use serde_json::{Map, Value};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Specs that are kept at most (some 6 KB each): a host program is not to grow with its containers.
pub(super) const MOST: usize = 512;

/// Parsed specs by container.
#[derive(Default)]
pub(super) struct Specs(Mutex<HashMap<String, Kept>>);

struct Kept {
    text: Box<str>,
    spec: Arc<Spec>,
}

impl Specs {
    /// The spec of a container from its stored text. Errors: the text is none.
    pub(super) fn of(&self, id: &str, text: &str) -> Result<Arc<Spec>> {
        #[cfg(feature = "attacks")]
        if let Some(kept) = self.0.lock().values().next().filter(|_| !crate::walls::Wall::SpecsOfTheirOwn.stands()) {
            return Ok(Arc::clone(&kept.spec));
        }
        if let Some(kept) = self.0.lock().get(id).filter(|kept| *kept.text == *text) {
            return Ok(Arc::clone(&kept.spec));
        }
        let spec: Spec = serde_json::from_str(text)
            .map_err(|error| damaged(format!("the stored spec of container {id}: {error}")))?;
        let spec = Arc::new(spec);
        let mut all = self.0.lock();
        // A spec beyond the bound is read anew each time, as every spec was once.
        if all.len() < MOST || all.contains_key(id) {
            all.insert(id.to_owned(), Kept { text: text.into(), spec: Arc::clone(&spec) });
        }
        Ok(spec)
    }

    /// A container is gone. Those that other programs removed go by [`Specs::keep_only`].
    pub(super) fn forget(&self, id: &str) {
        self.0.lock().remove(id);
    }

    /// Forgets all but these containers, now and then.
    pub(super) fn keep_only<'a>(&self, present: impl ExactSizeIterator<Item = &'a str>) {
        const SLACK: usize = 64;
        let mut all = self.0.lock();
        if all.len() > present.len() + SLACK {
            let present: HashSet<&str> = present.collect();
            all.retain(|id, _| present.contains(id.as_str()));
        }
    }
}

/// The parts of a damaged document that can be found: the members that can be read by themselves, if it is JSON at all.
pub(super) fn salvage(text: &str) -> Spec {
    let Ok(mut members) = serde_json::from_str::<Map<String, Value>>(text) else { return Spec::default() };
    members.retain(|name, value| {
        let alone = Map::from_iter([(name.clone(), value.clone())]);
        serde_json::from_value::<Spec>(Value::Object(alone)).is_ok()
    });
    serde_json::from_value(Value::Object(members)).unwrap_or_default()
}

/// By its kind the error is known as one container's.
fn damaged(text: String) -> Error {
    if crate::walls::Wall::StoredDocuments.stands() { Error::corrupt(text) } else { Error::internal(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_parsed_once_until_it_changes() {
        let specs = Specs::default();
        let text = |path: &str| serde_json::to_string(&Spec { path: path.into(), ..Spec::default() }).unwrap();
        let first = specs.of("a", &text("one")).unwrap();
        assert!(Arc::ptr_eq(&first, &specs.of("a", &text("one")).unwrap()));
        let changed = specs.of("a", &text("two")).unwrap();
        assert_eq!((first.path.as_str(), changed.path.as_str()), ("one", "two"));
        assert!(specs.of("a", "{").is_err());
        specs.forget("a");
        assert!(!Arc::ptr_eq(&changed, &specs.of("a", &text("two")).unwrap()));
    }

    #[test]
    fn of_a_damaged_document_stays_what_can_be_read() {
        let found = salvage(r#"{"path":"sh","args":"none","config":5,"cgroup_parent":"/own"}"#);
        assert_eq!((found.path.as_str(), found.args.len(), found.cgroup_parent.as_str()), ("sh", 0, "/own"));
        assert_eq!(salvage("{\"half"), Spec::default());
    }

    #[test]
    fn no_more_are_kept_than_the_bound() {
        let specs = Specs::default();
        for number in 0..MOST + 9 {
            specs.of(&number.to_string(), "{}").unwrap();
        }
        assert_eq!(specs.0.lock().len(), MOST);
        specs.keep_only(["1"].into_iter());
        assert_eq!(specs.0.lock().len(), 1);
    }
}
