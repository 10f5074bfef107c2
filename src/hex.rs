//! Ids: 64 lower-case hex digits, of containers, images and networks; users may give the beginning of one.

use crate::error::{Error, Result};

/// Bytes as lower-case hex digits.
pub(crate) fn encode(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Random bytes.
pub(crate) fn random_bytes<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|e| Error::internal(format!("random bytes: {e}")))?;
    Ok(bytes)
}

/// A new id.
pub(crate) fn random_id() -> Result<String> {
    random_bytes::<32>().map(|bytes| encode(&bytes))
}

/// Whether `text` may be the beginning of an id.
pub(crate) fn is_hex(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// Whether `text` is a whole id.
pub(crate) fn is_hex_id(text: &str) -> bool {
    text.len() == 64 && is_hex(text)
}
