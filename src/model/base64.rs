//! Base64 for credentials and keys.

/// Base64 of `bytes`: standard alphabet, padded.
pub fn to_base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let all = group.iter().fold(0u32, |all, &b| all << 8 | u32::from(b)) << (8 * (3 - group.len()));
        for i in 0..4 {
            let digit = ALPHABET[(all >> (18 - 6 * i) & 63) as usize];
            text.push(if i <= group.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

/// Reads base64, either alphabet, padded or not; `None`: the text is malformed.
pub(crate) fn from_base64(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim().trim_end_matches('=').as_bytes();
    let (mut bytes, mut all, mut bits) = (Vec::with_capacity(digits.len() * 3 / 4), 0u32, 0);
    for &digit in digits {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        (all, bits) = ((all << 6 | u32::from(value)) & 0xffff, bits + 6);
        if bits >= 8 {
            bits -= 8;
            bytes.push((all >> bits) as u8);
        }
    }
    (!digits.is_empty() && bits < 6).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_there_and_back() {
        for (bytes, text) in [(&b"f"[..], "Zg=="), (b"fo", "Zm8="), (b"foo", "Zm9v"), (b"\xff\xfe\xfd\xfc", "//79/A==")]
        {
            assert_eq!(to_base64(bytes), text);
            assert_eq!(from_base64(text).as_deref(), Some(bytes));
            let url = text.replace('/', "_").replace('+', "-");
            assert_eq!(from_base64(url.trim_end_matches('=')).as_deref(), Some(bytes));
        }
        assert_eq!(to_base64(b""), "");
        for bad in ["", "a", "a b", "Zg=x"] {
            assert_eq!(from_base64(bad), None, "{bad}");
        }
    }
}
