use super::*;

const YEAR_NS: i64 = 365 * DAY * SECOND_NS;

#[test]
fn times_as_rfc_3339() {
    let rows = [
        (0, "0001-01-01T00:00:00Z"),
        (1, "1970-01-01T00:00:00.000000001Z"),
        (SECOND_NS, "1970-01-01T00:00:01Z"),
        (-SECOND_NS, "1969-12-31T23:59:59Z"),
        (1_709_164_800 * SECOND_NS, "2024-02-29T00:00:00Z"),
        (951_782_399 * SECOND_NS + 500_000_000, "2000-02-28T23:59:59.5Z"),
        (4_107_542_400 * SECOND_NS, "2100-03-01T00:00:00Z"),
        (1_763_726_955_123_456_789, "2025-11-21T12:09:15.123456789Z"),
        (i64::MAX, "2262-04-11T23:47:16.854775807Z"),
        (i64::MIN, "1677-09-21T00:12:43.145224192Z"),
    ];
    for (ns, text) in rows {
        assert_eq!(format_time(ns), text);
    }
}

#[test]
fn durations_for_people() {
    let hour = 3600 * SECOND_NS;
    let rows = [
        (-5, "Less than a second"),
        (SECOND_NS - 1, "Less than a second"),
        (SECOND_NS, "1 second"),
        (59 * SECOND_NS, "59 seconds"),
        (60 * SECOND_NS, "About a minute"),
        (119 * SECOND_NS, "About a minute"),
        (120 * SECOND_NS, "2 minutes"),
        (hour - 1, "59 minutes"),
        (hour, "About an hour"),
        (2 * hour, "2 hours"),
        (48 * hour - 1, "47 hours"),
        (48 * hour, "2 days"),
        (14 * 24 * hour - 1, "13 days"),
        (14 * 24 * hour, "2 weeks"),
        (90 * 24 * hour - 1, "12 weeks"),
        (90 * 24 * hour, "3 months"),
        (2 * YEAR_NS - 1, "24 months"),
        (2 * YEAR_NS, "2 years"),
        (i64::MAX, "292 years"),
    ];
    for (ns, text) in rows {
        assert_eq!(human_duration(ns), text);
    }
}

#[test]
fn states_in_a_word_and_for_people() {
    let now = 1000 * SECOND_NS;
    let up = StateView { running: true, started_ns: now - 5 * SECOND_NS, ..StateView::default() };
    let down = StateView { exit_code: 3, started_ns: 1, finished_ns: now - 2 * SECOND_NS, ..StateView::default() };
    let rows = [
        (StateView::default(), "created", "Created"),
        (StateView { exit_code: 127, ..StateView::default() }, "created", "Created"),
        (up, "running", "Up 5 seconds"),
        (StateView { health: Health::Starting, ..up }, "running", "Up 5 seconds (health: starting)"),
        (StateView { health: Health::Healthy, ..up }, "running", "Up 5 seconds (healthy)"),
        (StateView { health: Health::Unhealthy, ..up }, "running", "Up 5 seconds (unhealthy)"),
        (StateView { paused: true, ..up }, "paused", "Up 5 seconds (Paused)"),
        (StateView { running: true, restarting: true, ..down }, "restarting", "Restarting (3) 2 seconds ago"),
        (StateView { removing: true, ..up }, "running", "Up 5 seconds"),
        (down, "exited", "Exited (3) 2 seconds ago"),
        (StateView { removing: true, dead: true, ..down }, "removing", "Removal In Progress"),
        (StateView { dead: true, ..down }, "dead", "Dead"),
        (StateView { finished_ns: 0, ..down }, "exited", ""),
    ];
    for (state, word, text) in rows {
        assert_eq!((state_text(&state), status_text(&state, now).as_str()), (word, text), "{state:?}");
    }
}

#[test]
fn commands_quote_arguments_with_spaces() {
    assert_eq!(command_text("sh", &[]), "sh");
    assert_eq!(command_text("a b", &["-c".into(), "echo hi".into(), String::new()]), "a b -c 'echo hi' ");
}

#[test]
fn sizes() {
    let rows = [
        ("0", Some(0)),
        ("42", Some(42)),
        ("10k", Some(10_000)),
        ("1.5K", Some(1500)),
        ("1 mb", Some(1_000_000)),
        ("2GiB", Some(2_000_000_000)),
        ("3t", Some(3_000_000_000_000)),
        ("1p", Some(1_000_000_000_000_000)),
        ("7b", Some(7)),
        ("0.0000000019g", Some(1)),
        ("", None),
        ("k", None),
        ("-1", None),
        ("1e3", None),
        ("10kx", None),
        ("1  k", None),
        ("1.", None),
        ("1.2.3", None),
        ("99999999999p", None),
        ("99999999999999999999", None),
    ];
    for (text, size) in rows {
        assert_eq!(parse_decimal_size(text), size, "{text}");
    }
}
