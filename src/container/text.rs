//! Texts for people and clients: times, durations, states, commands, sizes.

const SECOND_NS: i64 = 1_000_000_000;
const DAY: i64 = 86_400;
/// The spelling of a time that never was.
const NEVER: &str = "0001-01-01T00:00:00Z";

/// A time (nanoseconds since 1970) as RFC 3339 in UTC; trailing zeros of the fraction are left out. 0 is "never".
pub(crate) fn format_time(ns: i64) -> String {
    if ns == 0 {
        return NEVER.into();
    }
    crate::time::rfc3339_nano(ns)
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
    /// From seconds since 1970.
    pub(crate) fn of(seconds: i64) -> Civil {
        let (days, in_day) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
        let (year, month, day) = crate::time::date_of(days);
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

/// A duration for people; negative ones (the clock was set back) count as 0.
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

/// The result of a health check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Health {
    /// There is no check.
    #[default]
    None,
    Starting,
    Healthy,
    Unhealthy,
}

/// The facts that the texts about a container's state depend on. Times in nanoseconds since 1970; 0 is never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StateView {
    /// The container runs, is paused, or waits for its restart.
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

/// A size such as `10k`, `1.5m`, `2gb` with units of 1000; `None`: it is malformed, or too large.
pub(crate) fn parse_decimal_size(text: &str) -> Option<u64> {
    parse_size(text, 1000)
}

/// As [`parse_decimal_size`], with units of 1024.
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
    let number = |digits: &str| digits.parse::<u64>().ok().filter(|_| digits.bytes().all(|byte| byte.is_ascii_digit()));
    let whole = number(whole)?.checked_mul(factor)?;
    let digits = &part[..part.len().min(9)];
    let part = number(digits)?;
    let scaled = u128::from(part) * u128::from(factor) / 10_u128.pow(digits.len() as u32);
    whole.checked_add(u64::try_from(scaled).ok()?)
}

#[cfg(test)]
mod tests;
