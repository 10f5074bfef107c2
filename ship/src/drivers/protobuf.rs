//! Messages of Protocol Buffers: the parts of the encoding that OTLP needs.

/// The kinds of a field's value.
const VARINT: u64 = 0;
const FIXED_64: u64 = 1;
const BYTES: u64 = 2;
const FIXED_32: u64 = 5;

/// Appends a whole number: seven bits in each byte, the lowest first.
fn push_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        // The lowest seven bits, and the sign that more follow.
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a field with a whole number.
pub(super) fn push_number(out: &mut Vec<u8>, field: u64, value: u64) {
    push_varint(out, field << 3 | VARINT);
    push_varint(out, value);
}

/// Appends a field with a number of eight bytes.
pub(super) fn push_fixed(out: &mut Vec<u8>, field: u64, value: u64) {
    push_varint(out, field << 3 | FIXED_64);
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends a field with bytes: a text, or a message of its own.
pub(super) fn push_bytes(out: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    push_varint(out, field << 3 | BYTES);
    push_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// The value of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    /// A number of four or eight bytes.
    Fixed,
}

/// The fields of a message; `None`: the bytes are not one.
pub(super) fn fields(mut bytes: &[u8]) -> Option<Vec<(u64, Value<'_>)>> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes)?;
        let value = match key & 7 {
            VARINT => Value::Number(varint(&mut bytes)?),
            FIXED_64 => fixed(&mut bytes, 8)?,
            FIXED_32 => fixed(&mut bytes, 4)?,
            BYTES => {
                let length = usize::try_from(varint(&mut bytes)?).ok()?;
                let (value, rest) = bytes.split_at_checked(length)?;
                bytes = rest;
                Value::Bytes(value)
            }
            _ => return None,
        };
        all.push((key >> 3, value));
    }
    Some(all)
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&first, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first < 0x80 {
            return Some(value);
        }
    }
    None
}

fn fixed<'a>(bytes: &mut &[u8], length: usize) -> Option<Value<'a>> {
    *bytes = bytes.get(length..)?;
    Some(Value::Fixed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_read_as_it_was_written() {
        let mut out = Vec::new();
        push_number(&mut out, 1, u64::MAX);
        push_fixed(&mut out, 2, 7);
        push_bytes(&mut out, 16, b"text");
        push_number(&mut out, 3, 300);
        assert!(out.ends_with(&[0x18, 0xac, 0x02]));
        let wanted =
            [(1, Value::Number(u64::MAX)), (2, Value::Fixed), (16, Value::Bytes(b"text")), (3, Value::Number(300))];
        assert_eq!(fields(&out).unwrap(), wanted);
        for end in [1, 5, 12, out.len() - 1] {
            assert_eq!(fields(&out[..end]), None, "{end}");
        }
        assert_eq!(fields(&[0x80; 12]), None);
        assert_eq!(fields(b"<html>"), None);
    }
}
