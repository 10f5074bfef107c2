//! Shortens events that are too large for the journal: labels of images and containers become attributes of their
//! events, and have no limit of their own.

use crate::model::{Event, StringMap};

/// The greatest size of an event's attributes together, as JSON.
const MAX_ATTRIBUTES: usize = 512 << 10;
/// The greatest size of any other text of an event, such as the name of its object.
const MAX_TEXT: usize = 4096;
/// The attribute with the number of attributes that were dropped.
const LEFT_OUT: &str = "attributesLeftOut";

/// The event without its largest attributes.
pub(super) fn cut(event: &Event) -> Event {
    let mut cut = Event { actor: crate::model::Actor::default(), ..event.clone() };
    for text in [&mut cut.status, &mut cut.id, &mut cut.from, &mut cut.action] {
        let end = text.floor_char_boundary(MAX_TEXT);
        text.truncate(end);
    }
    cut.actor.id = event.actor.id[..event.actor.id.floor_char_boundary(MAX_TEXT)].to_owned();
    cut.actor.attributes = cut_attributes(&event.actor.attributes, MAX_ATTRIBUTES);
    cut
}

/// The attributes without the largest ones, so that the rest takes at most `most` bytes as JSON.
pub(crate) fn cut_attributes(all: &StringMap, most: usize) -> StringMap {
    let mut sizes: Vec<(usize, &String, &String)> =
        all.iter().map(|(key, value)| (shown(key) + shown(value) + 2, key, value)).collect();
    if sizes.iter().map(|(size, ..)| size).sum::<usize>() <= most {
        return all.clone();
    }
    sizes.sort_unstable();
    // The attribute with the number takes some bytes, too.
    let mut left = most.saturating_sub(64);
    let fitting = |(size, ..): &&(usize, &String, &String)| match left.checked_sub(*size) {
        Some(rest) => {
            left = rest;
            true
        }
        None => false,
    };
    let mut kept: StringMap =
        sizes.iter().take_while(fitting).map(|(_, key, value)| ((*key).clone(), (*value).clone())).collect();
    let missing = all.len() - kept.len();
    kept.insert(LEFT_OUT.into(), missing.to_string());
    kept
}

/// The greatest size of a text as JSON.
fn shown(text: &str) -> usize {
    let byte = |byte: u8| match byte {
        b'"' | b'\\' => 2,
        0..0x20 => 6,
        _ => 1,
    };
    2 + text.bytes().map(byte).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_attributes_go() {
        let few = StringMap::from([("a".into(), "b".into())]);
        assert_eq!(cut_attributes(&few, 100), few);
        let mut many: StringMap = (0..5000).map(|i| (format!("k{i}"), "v".repeat(1000))).collect();
        many.insert("name".into(), "web".into());
        many.insert("odd".into(), "\u{1}".repeat(MAX_ATTRIBUTES));
        let event = Event {
            status: "x".repeat(MAX_TEXT * 2),
            actor: crate::model::Actor { id: "\u{1}".repeat(1 << 20), attributes: many },
            ..Event::default()
        };
        let cut = cut(&event);
        assert_eq!(cut.actor.attributes["name"], "web");
        let left_out: usize = cut.actor.attributes[LEFT_OUT].parse().unwrap();
        assert_eq!(left_out + cut.actor.attributes.len() - 1, 5002);
        assert!(cut.actor.attributes.len() > 100);
        for most in [1000, 5000] {
            let text = serde_json::to_string(&cut_attributes(&cut.actor.attributes, most)).unwrap();
            assert!(text.len() <= most, "{}", text.len());
        }
        assert!(serde_json::to_vec(&cut).unwrap().len() < super::super::record::MAX_PAYLOAD);
    }
}
