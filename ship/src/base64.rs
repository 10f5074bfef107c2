//! Base 64 (RFC 4648), in the form for URLs and in the plain one.

const SHARED: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// The form for URLs, without padding.
pub(crate) fn base64url(bytes: &[u8]) -> String {
    digits(bytes, *b"-_")
}

/// The plain form, with padding.
#[cfg_attr(not(feature = "tls"), allow(dead_code))]
pub(crate) fn base64(bytes: &[u8]) -> String {
    let mut text = digits(bytes, *b"+/");
    while !text.len().is_multiple_of(4) {
        text.push('=');
    }
    text
}

/// The digits of these bytes; `last`: those for 62 and 63.
fn digits(bytes: &[u8], last: [u8; 2]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let all = three.iter().fold(0_usize, |all, byte| all << 8 | usize::from(*byte)) << (8 * (3 - three.len()));
        for digit in 0..=three.len() {
            let value = all >> (18 - 6 * digit) & 63;
            let digit = SHARED.get(value).copied().unwrap_or(last[value & 1]);
            out.push(char::from(digit));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64url_has_the_values_of_rfc_4648() {
        for (plain, wanted) in [("", ""), ("f", "Zg"), ("fo", "Zm8"), ("foo", "Zm9v"), ("foob", "Zm9vYg")] {
            assert_eq!(base64url(plain.as_bytes()), wanted);
        }
        assert_eq!(base64url(&[0xfb, 0xff, 0xfe]), "-__-");
    }

    #[test]
    fn the_plain_form_is_padded_and_has_two_other_digits() {
        for (plain, wanted) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")] {
            assert_eq!(base64(plain.as_bytes()), wanted);
        }
        assert_eq!(base64(&[0xfb, 0xff, 0xfe]), "+//+");
    }
}
