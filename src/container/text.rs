//! Texts that people and clients read: times, durations, states, commands, sizes.

const SECOND_NS: i64 = 1_000_000_000;
const DAY: i64 = 86_400;
/// How a time that never was is written.
const NEVER: &str = "0001-01-01T00:00:00Z";

/// A time (nanoseconds since 1970) as RFC 3339 in UTC; trailing zeros of the fraction are left out. 0 is "never".
pub(crate) fn format_time(ns: i64) -> String {
    if ns == 0 {
        return NEVER.into();
    }
    let fixed = format_time_fixed(ns);
    let text = fixed.trim_end_matches('Z').trim_end_matches('0').trim_end_matches('.');
    format!("{text}Z")
}

/// The same with all nine digits of the fraction, as log lines have it; 0 is the year 1970.
pub(crate) fn format_time_fixed(ns: i64) -> String {
    let (seconds, fraction) = (ns.div_euclid(SECOND_NS), ns.rem_euclid(SECOND_NS));
    let Civil { year, month, day, hour, minute, second, .. } = Civil::of(seconds);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{fraction:09}Z")
}

/// A moment as date and time of day, in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Civil {
    pub year: i64,
    /// 1 to 12.
    pub month: i64,
    pub day: i64,
    pub hour: i64,
    pub minute: i64,
    pub second: i64,
    /// 0 is Sunday.
    pub weekday: i64,
}

impl Civil {
    /// Of seconds since 1970.
    pub(crate) fn of(seconds: i64) -> Civil {
        let (days, in_day) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
        let (year, month, day) = civil(days);
        let (hour, minute, second) = (in_day / 3600, in_day / 60 % 60, in_day % 60);
        // 1970-01-01 was a Thursday.
        Civil { year, month, day, hour, minute, second, weekday: (days + 4).rem_euclid(7) }
    }

    /// Three letters.
    pub(crate) fn month_name(&self) -> &'static str {
        const NAMES: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
        NAMES[(self.month - 1) as usize]
    }

    /// Three letters.
    pub(crate) fn weekday_name(&self) -> &'static str {
        ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"][self.weekday as usize]
    }
}

/// Reads RFC 3339, with or without a fraction, in any zone; the time that never was is 0. `None`: it is none, or lies
/// outside what 64 bits of nanoseconds hold.
pub(crate) fn parse_time(text: &str) -> Option<i64> {
    if text == NEVER {
        return Some(0);
    }
    let bytes = text.as_bytes();
    let marks = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    if bytes.len() < 20 || !text.is_ascii() || marks.iter().any(|&(at, mark)| bytes[at].to_ascii_uppercase() != mark) {
        return None;
    }
    let field = |from: usize, to: usize| number(&text[from..to]);
    let (year, month, day) = (field(0, 4)?, field(5, 7)?, field(8, 10)?);
    let (hour, minute, second) = (field(11, 13)?, field(14, 16)?, field(17, 19)?);
    if !(1..=12).contains(&month) || !(1..=month_days(year, month)).contains(&day) {
        return None;
    }
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let (fraction, zone) = fraction(&text[19..])?;
    let local = days(year, month, day) * DAY + hour * 3600 + minute * 60 + second;
    (local - offset(zone)?).checked_mul(SECOND_NS)?.checked_add(fraction)
}

fn number(digits: &str) -> Option<i64> {
    let good = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    good.then(|| digits.parse().ok()).flatten()
}

/// The fraction at the head of a text in nanoseconds (digits beyond the ninth do not count), and what follows it.
fn fraction(text: &str) -> Option<(i64, &str)> {
    let Some(rest) = text.strip_prefix('.') else { return Some((0, text)) };
    let length = rest.bytes().take_while(u8::is_ascii_digit).count();
    let digits = &rest[..length.min(9)];
    Some((number(digits)? * 10_i64.pow(9 - digits.len() as u32), &rest[length..]))
}

fn offset(zone: &str) -> Option<i64> {
    if matches!(zone, "Z" | "z") {
        return Some(0);
    }
    let sign = match zone.bytes().next()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let (hours, minutes) = zone[1..].split_once(':')?;
    let good = hours.len() == 2 && minutes.len() == 2;
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    (good && hours < 24 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
}

fn leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn month_days(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if leap(year) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Days from 1970-01-01 to a date of the Gregorian calendar. Years are counted from March, so that the leap day is
/// the last of its year.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, in_era) = (year.div_euclid(400), year.rem_euclid(400));
    let in_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + in_era * 365 + in_era / 4 - in_era / 100 + in_year - 719_468
}

/// The date of a day counted from 1970-01-01: the reverse of [`days`].
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let (era, in_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (in_era - in_era / 1460 + in_era / 36_524 - in_era / 146_096) / 365;
    let in_year = in_era - (365 * year + year / 4 - year / 100);
    let shifted_month = (5 * in_year + 2) / 153;
    let day = in_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (era * 400 + year + i64::from(month <= 2), month, day)
}

/// A duration for people; negative ones (a clock was set back) read as nothing.
pub(crate) fn human_duration(ns: i64) -> String {
    let seconds = ns.max(0) / SECOND_NS;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / DAY);
    match () {
        () if seconds < 1 => "Less than a second".into(),
        () if seconds == 1 => "1 second".into(),
        () if minutes < 1 => format!("{seconds} seconds"),
        () if minutes == 1 => "About a minute".into(),
        () if hours < 1 => format!("{minutes} minutes"),
        () if hours == 1 => "About an hour".into(),
        () if hours < 48 => format!("{hours} hours"),
        () if days < 14 => format!("{days} days"),
        () if days < 90 => format!("{} weeks", days / 7),
        () if days < 2 * 365 => format!("{} months", days / 30),
        () => format!("{} years", days / 365),
    }
}

/// What a health check has found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Health {
    /// There is no check.
    #[default]
    None,
    Starting,
    Healthy,
    Unhealthy,
}

/// A container's state as far as its texts depend on it. Times in nanoseconds since 1970, 0 is never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StateView {
    /// It runs, is paused, or waits for its restart.
    pub running: bool,
    pub paused: bool,
    pub restarting: bool,
    pub removing: bool,
    pub dead: bool,
    pub exit_code: i32,
    pub started_ns: i64,
    pub finished_ns: i64,
    pub health: Health,
}

/// The state in one word: `State` of the list, `State.Status` of inspect.
pub(crate) fn state_text(state: &StateView) -> &'static str {
    match state {
        StateView { running: true, paused: true, .. } => "paused",
        StateView { running: true, restarting: true, .. } => "restarting",
        StateView { running: true, .. } => "running",
        StateView { removing: true, .. } => "removing",
        StateView { dead: true, .. } => "dead",
        StateView { started_ns: 0, .. } => "created",
        _ => "exited",
    }
}

/// The state for people: `Status` of the list.
pub(crate) fn status_text(state: &StateView, now_ns: i64) -> String {
    let since = |then: i64| human_duration(now_ns.saturating_sub(then));
    if state.running {
        return match (state.paused, state.restarting) {
            (true, _) => format!("Up {} (Paused)", since(state.started_ns)),
            (_, true) => format!("Restarting ({}) {} ago", state.exit_code, since(state.finished_ns)),
            _ => format!("Up {}{}", since(state.started_ns), health_text(state.health)),
        };
    }
    match state {
        StateView { removing: true, .. } => "Removal In Progress".into(),
        StateView { dead: true, .. } => "Dead".into(),
        StateView { started_ns: 0, .. } => "Created".into(),
        StateView { finished_ns: 0, .. } => String::new(),
        _ => format!("Exited ({}) {} ago", state.exit_code, since(state.finished_ns)),
    }
}

fn health_text(health: Health) -> &'static str {
    match health {
        Health::None => "",
        Health::Starting => " (health: starting)",
        Health::Healthy => " (healthy)",
        Health::Unhealthy => " (unhealthy)",
    }
}

/// `Command` of the list: the program and its arguments, those with a space in single quotes.
pub(crate) fn command_text(path: &str, args: &[String]) -> String {
    let mut text = path.to_owned();
    for arg in args {
        text += &if arg.contains(' ') { format!(" '{arg}'") } else { format!(" {arg}") };
    }
    text
}

/// A size such as `10k`, `1.5m`, `2gb` with units of 1000; `None`: it is none, or too large.
pub(crate) fn parse_decimal_size(text: &str) -> Option<u64> {
    parse_size(text, 1000)
}

/// The same with units of 1024.
pub(crate) fn parse_binary_size(text: &str) -> Option<u64> {
    parse_size(text, 1024)
}

fn parse_size(text: &str, unit: u64) -> Option<u64> {
    let end = text.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
    let (number, suffix) = text.split_at(end);
    let suffix = suffix.strip_prefix(' ').unwrap_or(suffix).to_ascii_lowercase();
    let power = match suffix.chars().next() {
        Some(letter) => "kmgtp".find(letter).map(|at| at as u32 + 1),
        None => None,
    };
    let rest = if power.is_some() { &suffix[1..] } else { &suffix };
    if !matches!(rest, "" | "b" | "ib" | "i") {
        return None;
    }
    let factor = unit.checked_pow(power.unwrap_or(0))?;
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    let whole = u64::try_from(self::number(whole)?).ok()?.checked_mul(factor)?;
    let digits = &part[..part.len().min(9)];
    let part = u64::try_from(self::number(part.get(..digits.len())?)?).ok()?;
    let scaled = u128::from(part) * u128::from(factor) / 10_u128.pow(digits.len() as u32);
    whole.checked_add(u64::try_from(scaled).ok()?)
}

#[cfg(test)]
mod tests;
