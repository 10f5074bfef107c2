//! Parsed specs: each text is parsed once, as long as it does not change.

use super::spec::Spec;
use crate::error::{Error, Result};
use parking_lot::Mutex;
use serde_json::{Map, Value};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The most parsed specs that are kept (some 6 KB each): a host program must not grow with its containers.
pub(super) const MOST: usize = 512;

/// The total weight of the specs that are kept.
const MOST_BYTES: usize = 4 << 20;

/// Parsed specs by container.
#[derive(Default)]
pub(super) struct SpecCache(Mutex<All>);

#[derive(Default)]
struct All {
    kept: HashMap<String, ParsedSpec>,
    weight: usize,
}

struct ParsedSpec {
    text: Box<str>,
    spec: Arc<Spec>,
    weight: usize,
}

/// The bytes of a text. Its parsed spec takes about as much again; ports, whose texts are short, take more.
fn weight(text: &str, spec: &Spec) -> usize {
    text.len() + 4 * spec.config.exposed_ports.len() + 20 * spec.host_config.port_bindings.len()
}

impl All {
    /// A spec beyond these limits is parsed at each use.
    fn keep(&mut self, id: &str, text: &str, spec: &Arc<Spec>) {
        self.forget(id);
        let weight = weight(text, spec);
        if self.kept.len() < MOST && self.weight + weight <= MOST_BYTES {
            self.weight += weight;
            self.kept.insert(id.to_owned(), ParsedSpec { text: text.into(), spec: Arc::clone(spec), weight });
        }
    }

    fn forget(&mut self, id: &str) {
        if let Some(kept) = self.kept.remove(id) {
            self.weight -= kept.weight;
        }
    }
}

impl SpecCache {
    /// The spec of a container from its stored text. Errors: the text is not a spec.
    pub(super) fn of(&self, id: &str, text: &str) -> Result<Arc<Spec>> {
        #[cfg(feature = "attacks")]
        if let Some(kept) = self.0.lock().kept.values().next().filter(|_| !crate::walls::Wall::SpecsOfTheirOwn.stands())
        {
            return Ok(Arc::clone(&kept.spec));
        }
        if let Some(kept) = self.0.lock().kept.get(id).filter(|kept| *kept.text == *text) {
            return Ok(Arc::clone(&kept.spec));
        }
        let spec: Spec = serde_json::from_str(text)
            .map_err(|error| damaged(format!("the stored spec of container {id}: {error}")))?;
        let spec = Arc::new(spec);
        self.0.lock().keep(id, text, &spec);
        Ok(spec)
    }

    /// Forgets a removed container. Containers that other programs removed are forgotten by [`SpecCache::keep_only`].
    pub(super) fn forget(&self, id: &str) {
        self.0.lock().forget(id);
    }

    /// Forgets all of them.
    pub(super) fn forget_all(&self) {
        *self.0.lock() = All::default();
    }

    /// Forgets all but these containers, from time to time.
    pub(super) fn keep_only<'a>(&self, present: impl ExactSizeIterator<Item = &'a str>) {
        const SLACK: usize = 64;
        let mut all = self.0.lock();
        if all.kept.len() > present.len() + SLACK {
            let present: HashSet<&str> = present.collect();
            all.kept.retain(|id, _| present.contains(id.as_str()));
            all.weight = all.kept.values().map(|kept| kept.weight).sum();
        }
    }
}

/// The readable parts of a damaged document: the members that parse by themselves, if the document is JSON at all.
pub(super) fn salvage(text: &str) -> Spec {
    let Ok(mut members) = serde_json::from_str::<Map<String, Value>>(text) else { return Spec::default() };
    members.retain(|name, value| {
        let alone = Map::from_iter([(name.clone(), value.clone())]);
        serde_json::from_value::<Spec>(Value::Object(alone)).is_ok()
    });
    serde_json::from_value(Value::Object(members)).unwrap_or_default()
}

/// The kind shows that the error concerns a single container.
fn damaged(text: String) -> Error {
    if crate::walls::Wall::StoredDocuments.stands() { Error::corrupt(text) } else { Error::internal(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_parsed_once_until_it_changes() {
        let specs = SpecCache::default();
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
    fn a_damaged_document_keeps_its_readable_parts() {
        let found = salvage(r#"{"path":"sh","args":"none","config":5,"cgroup_parent":"/own"}"#);
        assert_eq!((found.path.as_str(), found.args.len(), found.cgroup_parent.as_str()), ("sh", 0, "/own"));
        assert_eq!(salvage("{\"half"), Spec::default());
    }

    #[test]
    fn no_more_are_kept_than_the_bound() {
        let specs = SpecCache::default();
        for number in 0..MOST + 9 {
            specs.of(&number.to_string(), "{}").unwrap();
        }
        assert_eq!(specs.0.lock().kept.len(), MOST);
        specs.keep_only(["1"].into_iter());
        assert_eq!(specs.0.lock().kept.len(), 1);
    }

    #[test]
    fn large_ones_are_kept_within_a_bound_on_their_bytes() {
        let specs = SpecCache::default();
        let text = format!("{{\"path\":\"{}\"}}", "x".repeat(MOST_BYTES / 3));
        for number in 0..9 {
            specs.of(&number.to_string(), &text).unwrap();
        }
        assert_eq!(specs.0.lock().kept.len(), 2);
        let first = specs.of("0", &text).unwrap();
        assert!(Arc::ptr_eq(&first, &specs.of("0", &text).unwrap()));
        specs.forget("0");
        specs.of("8", &text).unwrap();
        let all = specs.0.lock();
        assert!(all.kept.contains_key("8") && all.weight == 2 * text.len());
    }

    #[test]
    fn ports_count_though_their_texts_are_short() {
        let specs = SpecCache::default();
        let mut spec = Spec::default();
        let ports = (1..=65535).map(|port| (format!("{port}/tcp"), None)).collect();
        spec.host_config = spec.host_config.changed(|host| host.port_bindings = ports).unwrap();
        let text = serde_json::to_string(&spec).unwrap();
        assert!(text.len() < 10_000);
        for number in 0..5 {
            assert_eq!(*specs.of(&number.to_string(), &text).unwrap(), spec);
        }
        assert_eq!(specs.0.lock().kept.len(), MOST_BYTES / (20 * 65535));
    }
}
