//! Numbers, times and JSON strings as text, into fixed buffers.

/// A decimal number; the buffer must hold 20 bytes, or what the value needs.
pub fn decimal(buffer: &mut [u8], value: i64) -> &[u8] {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    let mut rest = value.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        at -= 1;
        digits[at] = b'-';
    }
    let text = &digits[at..];
    buffer[..text.len()].copy_from_slice(text);
    &buffer[..text.len()]
}

/// RFC 3339 with nine digits and `Z`: 30 bytes.
pub fn rfc3339(buffer: &mut [u8; 30], ns: i64) {
    let seconds = ns.div_euclid(1_000_000_000);
    let nanos = ns.rem_euclid(1_000_000_000);
    let (year, month, day) = civil(seconds.div_euclid(86400));
    let second = seconds.rem_euclid(86400);
    buffer.copy_from_slice(b"0000-00-00T00:00:00.000000000Z");
    digits(&mut buffer[0..4], year);
    digits(&mut buffer[5..7], month);
    digits(&mut buffer[8..10], day);
    digits(&mut buffer[11..13], second / 3600);
    digits(&mut buffer[14..16], second / 60 % 60);
    digits(&mut buffer[17..19], second % 60);
    digits(&mut buffer[20..29], nanos);
}

fn digits(field: &mut [u8], mut value: i64) {
    for byte in field.iter_mut().rev() {
        *byte = b'0' + (value % 10) as u8;
        value /= 10;
    }
}

/// Days since 1970 as a date of the Gregorian calendar; years begin in March here, so the leap day is the last.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

/// A buffer being filled; what does not fit is dropped, and `full` says so.
pub struct Writer<'a> {
    buffer: &'a mut [u8],
    length: usize,
    pub full: bool,
}

impl<'a> Writer<'a> {
    pub fn new(buffer: &'a mut [u8]) -> Writer<'a> {
        Writer { buffer, length: 0, full: false }
    }
    #[inline]
    pub fn bytes(&mut self, text: &[u8]) -> &mut Writer<'a> {
        match self.buffer.get_mut(self.length..self.length + text.len()) {
            Some(room) => {
                room.copy_from_slice(text);
                self.length += text.len();
            }
            None => self.full = true,
        }
        self
    }
    pub fn number(&mut self, value: i64) -> &mut Writer<'a> {
        let mut digits = [0u8; 20];
        let text = decimal(&mut digits, value);
        self.bytes(text)
    }
    pub fn written(&self) -> usize {
        self.length
    }
    pub fn done(self) -> &'a [u8] {
        &self.buffer[..self.length]
    }
    /// All of it; nothing where something did not fit.
    pub fn filled(self) -> Option<&'a mut [u8]> {
        if self.full { None } else { self.buffer.get_mut(..self.length) }
    }
}

/// Appends `text` as the inside of a JSON string, escaped as Go's encoder does (`<`, `>`, `&` too); bytes that are not
/// UTF-8 become U+FFFD, one each. Answers how many bytes it made; the buffer must hold six times the text.
pub fn escape(out: &mut [u8], text: &[u8]) -> usize {
    let mut at = 0;
    let mut from = 0;
    while from < text.len() {
        let plain = plain_pieces(&mut out[at..], &text[from..]);
        (at, from) = (at + plain, from + plain);
        let Some(&byte) = text.get(from) else { break };
        if is_plain(byte) {
            out[at] = byte;
            at += 1;
            from += 1;
            continue;
        }
        if byte < 0x80 {
            at += escape_ascii(&mut out[at..], byte);
            from += 1;
            continue;
        }
        let length = sequence(&text[from..]);
        if length == 0 {
            out[at..at + 6].copy_from_slice(b"\\ufffd");
            at += 6;
            from += 1;
        } else if text[from..].starts_with(b"\xe2\x80\xa8") || text[from..].starts_with(b"\xe2\x80\xa9") {
            // The two line separators that JavaScript does not take in a string.
            out[at..at + 5].copy_from_slice(b"\\u202");
            out[at + 5] = b'8' + (text[from + 2] - 0xa8);
            at += 6;
            from += 3;
        } else {
            out[at..at + length].copy_from_slice(&text[from..from + length]);
            at += length;
            from += length;
        }
    }
    at
}

#[inline(always)]
fn is_plain(byte: u8) -> bool {
    (0x20..0x80).contains(&byte) & (byte != b'"') & (byte != b'\\') & (byte != b'<') & (byte != b'>') & (byte != b'&')
}

/// Copies what needs no escape, in pieces that the compiler makes vectors of; answers how many bytes.
#[inline(always)]
fn plain_pieces(out: &mut [u8], text: &[u8]) -> usize {
    const PIECE: usize = 16;
    let mut done = 0;
    for (to, from) in out.chunks_exact_mut(PIECE).zip(text.chunks_exact(PIECE)) {
        if !from.iter().fold(true, |all, &byte| all & is_plain(byte)) {
            break;
        }
        to.copy_from_slice(from);
        done += PIECE;
    }
    done
}

#[inline(always)]
fn escape_ascii(out: &mut [u8], byte: u8) -> usize {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let short = match byte {
        b'"' | b'\\' => byte,
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        _ => {
            out[..4].copy_from_slice(b"\\u00");
            out[4] = HEX[usize::from(byte >> 4)];
            out[5] = HEX[usize::from(byte & 15)];
            return 6;
        }
    };
    out[..2].copy_from_slice(&[b'\\', short]);
    2
}

/// Length of the UTF-8 sequence at the beginning; 0 when there is none.
fn sequence(text: &[u8]) -> usize {
    let window = &text[..text.len().min(4)];
    match core::str::from_utf8(window) {
        Ok(valid) => valid.chars().next().map_or(0, char::len_utf8),
        Err(error) if error.valid_up_to() > 0 => {
            let valid = core::str::from_utf8(&window[..error.valid_up_to()]).unwrap_or("");
            valid.chars().next().map_or(0, char::len_utf8)
        }
        Err(_) => 0,
    }
}
