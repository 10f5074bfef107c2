//! Times of records and of protocols.

use crate::sys::{Local, local};
use coracle_monitor::text::rfc3339;

const SECOND: i64 = 1_000_000_000;
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Nanoseconds since 1970.
pub(crate) fn now_ns() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |now| i64::try_from(now.as_nanos()).unwrap_or(i64::MAX))
}

/// `2006-01-02T15:04:05.000000000Z`.
pub(crate) fn utc(time_ns: i64) -> String {
    let mut text = [0; 30];
    rfc3339(&mut text, time_ns);
    String::from_utf8_lossy(&text).into_owned()
}

/// The times of one second in the host's zone, in the two forms of syslog. Records of one second share them.
pub(crate) struct Stamps {
    second: i64,
    /// `Jan _2 15:04:05`
    pub(crate) old: String,
    /// `2006-01-02T15:04:05`
    pub(crate) new: String,
    /// `Z` or `+02:00`
    pub(crate) zone: String,
}

impl Stamps {
    pub(crate) fn new() -> Stamps {
        Stamps { second: i64::MIN, old: String::new(), new: String::new(), zone: String::new() }
    }

    /// Turns to the second of a record; returns its microseconds.
    pub(crate) fn turn_to(&mut self, time_ns: i64) -> i64 {
        let second = time_ns.div_euclid(SECOND);
        if second != self.second {
            self.second = second;
            let Local { month, day, hour, minute, second, year, offset } = local(second);
            let name = MONTHS[usize::try_from(month - 1).unwrap_or(0).min(11)];
            self.old = format!("{name} {day:2} {hour:02}:{minute:02}:{second:02}");
            self.new = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}");
            let (sign, minutes) = (if offset < 0 { '-' } else { '+' }, offset.abs() / 60);
            self.zone = if offset == 0 { "Z".into() } else { format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60) };
        }
        time_ns.rem_euclid(SECOND) / 1000
    }
}
