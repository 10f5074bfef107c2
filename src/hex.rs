//! Ids: 64 lower-case hex digits, of containers, images and networks; people give their beginnings.

/// Whether `text` may be the beginning of an id.
pub(crate) fn is_hex(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// Whether `text` is a whole id.
pub(crate) fn is_hex_id(text: &str) -> bool {
    text.len() == 64 && is_hex(text)
}
