//! Numbers and times as text, in fixed buffers: for the monitor, and times for the library. JSON strings are made in
//! `lines`.

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

/// A time in nanoseconds since 1970 as RFC 3339, with nine digits of the second and `Z`: 30 bytes.
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

/// A day counted from 1970-01-01 as year, month and day of the Gregorian calendar.
pub fn civil(days: i64) -> (i64, i64, i64) {
    // Years begin in March here, so that the leap day is the last.
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

/// The day, counted from 1970-01-01, of a date of the Gregorian calendar: the inverse of [`civil`].
pub fn days_to(year: i64, month: i64, day: i64) -> i64 {
    // Years begin in March here, so that the leap day is the last: 400 such years have 146097 days.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + (month * 153 + 2) / 5 + day - 1 - 719_468
}

/// A buffer being filled; what does not fit is dropped, and `full` says so.
pub struct Writer<'a> {
    buffer: &'a mut [u8],
    length: usize,
    /// Something did not fit.
    pub full: bool,
}

impl<'a> Writer<'a> {
    /// Fills `buffer` from its beginning.
    pub fn new(buffer: &'a mut [u8]) -> Writer<'a> {
        Writer { buffer, length: 0, full: false }
    }
    /// Appends a text.
    #[inline(never)]
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
    /// Appends a decimal number.
    pub fn number(&mut self, value: i64) -> &mut Writer<'a> {
        let mut digits = [0u8; 20];
        let text = decimal(&mut digits, value);
        self.bytes(text)
    }
    /// The texts that fitted.
    pub fn done(self) -> &'a [u8] {
        &self.buffer[..self.length]
    }
    /// All of it; none if something did not fit.
    pub fn filled(self) -> Option<&'a mut [u8]> {
        if self.full { None } else { self.buffer.get_mut(..self.length) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &[u8]) -> &str {
        std::str::from_utf8(bytes).expect("text")
    }

    #[test]
    fn numbers_are_what_the_standard_library_prints() {
        for value in [0, 7, -1, 10, 99, 100, -1_234_567_890, i64::MAX, i64::MIN] {
            assert_eq!(text(decimal(&mut [0; 20], value)), value.to_string());
        }
    }

    #[test]
    fn times_are_of_the_gregorian_calendar() {
        for (seconds, date) in [
            (0, "1970-01-01T00:00:00"),
            (-1, "1969-12-31T23:59:59"),
            (951_782_400, "2000-02-29T00:00:00"),
            (951_868_800, "2000-03-01T00:00:00"),
            (1_709_164_800, "2024-02-29T00:00:00"),
            (1_735_689_599, "2024-12-31T23:59:59"),
            (4_107_542_400, "2100-03-01T00:00:00"),
            (9_223_372_036, "2262-04-11T23:47:16"),
        ] {
            let mut place = [0; 30];
            rfc3339(&mut place, seconds * 1_000_000_000 + 5);
            assert_eq!(text(&place), format!("{date}.000000005Z"));
        }
    }

    #[test]
    fn a_full_writer_says_so_and_keeps_the_words_before() {
        let mut place = [0; 8];
        let mut writer = Writer::new(&mut place);
        writer.bytes(b"one").number(-23).bytes(b"more");
        assert!(writer.full);
        assert_eq!(text(writer.done()), "one-23");
        let mut writer = Writer::new(&mut place);
        writer.bytes(b"12345678");
        assert_eq!(writer.filled().map(|text| text.to_vec()), Some(b"12345678".to_vec()));
        let mut writer = Writer::new(&mut place);
        writer.bytes(b"123456789");
        assert_eq!(writer.filled(), None);
    }
}
