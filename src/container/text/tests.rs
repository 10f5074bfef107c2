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
        if ns != i64::MIN {
            assert_eq!(parse_time(text), Some(ns), "{text}");
        }
    }
    assert_eq!(format_time_fixed(1_763_726_955_100_000_000), "2025-11-21T12:09:15.100000000Z");
    assert_eq!(format_time_fixed(0), "1970-01-01T00:00:00.000000000Z");
}

#[test]
fn every_day_of_400_years_goes_there_and_back() {
    let mut expected = (1800, 1, 1);
    for day in days(1800, 1, 1)..days(2200, 1, 1) {
        assert_eq!(civil(day), expected);
        assert_eq!(days(expected.0, expected.1, expected.2), day);
        let (year, month, of_month) = expected;
        expected = match (month, of_month) {
            (12, 31) => (year + 1, 1, 1),
            _ if of_month == month_days(year, month) => (year, month + 1, 1),
            _ => (year, month, of_month + 1),
        };
    }
}

#[test]
fn times_in_other_zones_and_texts_that_are_none() {
    let noon = parse_time("2025-11-21T12:00:00Z");
    assert!(noon.is_some());
    for same in ["2025-11-21T13:30:00+01:30", "2025-11-21T04:00:00.000-08:00", "2025-11-21t12:00:00.0000000009z"] {
        assert_eq!(parse_time(same), noon, "{same}");
    }
    let bad = [
        "",
        "2025-11-21",
        "2025-11-21T12:00:00",
        "2025-13-21T12:00:00Z",
        "2025-02-29T12:00:00Z",
        "2025-11-21T24:00:00Z",
        "2025-11-21T12:60:00Z",
        "2025-11-21T12:00:00.Z",
        "2025-11-21T12:00:00+1:00",
        "2025-11-21T12:00:00+01:00x",
        "2025-11-21 12:00:00Z",
        "+025-11-21T12:00:00Z",
        "2025-11-21T12:00:00\u{e9}",
        "9999-11-21T12:00:00Z",
    ];
    for text in bad {
        assert_eq!(parse_time(text), None, "{text}");
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
        ("0", Some(0), Some(0)),
        ("42", Some(42), Some(42)),
        ("10k", Some(10_000), Some(10_240)),
        ("1.5K", Some(1500), Some(1536)),
        ("1 mb", Some(1_000_000), Some(1 << 20)),
        ("2GiB", Some(2_000_000_000), Some(2 << 30)),
        ("3t", Some(3_000_000_000_000), Some(3 << 40)),
        ("1p", Some(1_000_000_000_000_000), Some(1 << 50)),
        ("7b", Some(7), Some(7)),
        ("0.0000000019g", Some(1), Some(1)),
        ("", None, None),
        ("k", None, None),
        ("-1", None, None),
        ("1e3", None, None),
        ("10kx", None, None),
        ("1  k", None, None),
        ("1.", None, None),
        ("1.2.3", None, None),
        ("99999999999p", None, None),
        ("99999999999999999999", None, None),
    ];
    for (text, decimal, binary) in rows {
        assert_eq!((parse_decimal_size(text), parse_binary_size(text)), (decimal, binary), "{text}");
    }
}
