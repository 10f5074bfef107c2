//! Times on the wire.

use std::time::{SystemTime, UNIX_EPOCH};

const DAY: i64 = 86_400;

/// The present as an HTTP date: `Sat, 21 Nov 2026 12:11:15 GMT`.
pub(crate) fn http_now() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs() as i64);
    http_date(seconds)
}

fn http_date(seconds: i64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (year, month, day) = coracle::date_of(seconds.div_euclid(DAY));
    let clock = seconds.rem_euclid(DAY);
    format!(
        "{}, {day:02} {} {year:04} {:02}:{:02}:{:02} GMT",
        DAYS[seconds.div_euclid(DAY).rem_euclid(7) as usize],
        MONTHS[month as usize - 1],
        clock / 3600,
        clock / 60 % 60,
        clock % 60
    )
}

/// The present in nanoseconds since 1970.
pub(crate) fn now_ns() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| i64::try_from(d.as_nanos()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        assert_eq!(http_date(0), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(http_date(1_795_263_075), "Sat, 21 Nov 2026 12:11:15 GMT");
        assert_eq!(http_date(951_782_400), "Tue, 29 Feb 2000 00:00:00 GMT");
    }
}
