//! Reading JSON documents, by one parser: each type that is read by two parsers is in the library twice.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde::de::Error as _;

/// Reads a document, which must be UTF-8 as a whole, also in members that are passed over.
pub(crate) fn read<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> serde_json::Result<T> {
    serde_json::from_str(std::str::from_utf8(bytes).map_err(serde_json::Error::custom)?)
}

/// Reads a document of a server that may write anything into members for people: as in Go's programs, bytes that are not UTF-8 become
/// U+FFFD.
#[cfg_attr(not(feature = "registry"), allow(dead_code))]
pub(crate) fn read_of_server<T: DeserializeOwned>(bytes: &[u8]) -> serde_json::Result<T> {
    serde_json::from_str(&String::from_utf8_lossy(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn odd_bytes_spoil_no_answer_of_a_server() {
        let odd = b"{\"token\":\"x\",\"note\":\"\xff\"}";
        assert!(read::<Value>(odd).is_err());
        assert_eq!(read_of_server::<Value>(odd).unwrap(), json!({ "token": "x", "note": "\u{fffd}" }));
    }
}
