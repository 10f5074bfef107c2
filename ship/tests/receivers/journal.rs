//! journald: systemd's own, alone in a mount namespace with its own `/run`, in which a copy of this program delivers.

use crate::world::*;
use std::process::Command;

pub const JOURNALD: &str = "/lib/systemd/systemd-journald";
pub const CONF: &str =
    "[Journal]\nStorage=volatile\nAudit=no\nReadKMsg=no\nForwardToSyslog=no\nRateLimitIntervalSec=0\n";
/// Makes the places of a journald in a mount namespace, with the configuration `$CONF`.
pub const PLACES: &str = "mount -t tmpfs run /run
    mkdir -p /run/systemd/journal /run/systemd/journald.conf.d /run/log/journal
    printf '%b' \"$CONF\" >/run/systemd/journald.conf.d/test.conf
    echo 0123456789abcdef0123456789abcdef >/run/machine-id
    mount --bind /run/machine-id /etc/machine-id";
/// Set for the copy.
const INSIDE: &str = "CORACLE_JOURNAL_INSIDE";

#[test]
fn entries_of_every_length_are_read_back_with_their_fields() {
    if std::env::var_os(INSIDE).is_some() {
        return deliver();
    }
    let test = "journal::entries_of_every_length_are_read_back_with_their_fields";
    let script = format!("set -e\n{PLACES}\nexec \"$@\"");
    let mut inside = Command::new("unshare");
    inside.args(["--mount", "--propagation", "private", "sh", "-c", &script, "sh"]);
    inside.arg(std::env::current_exe().expect("this program")).args(["--exact", test, "--nocapture"]);
    let ended = inside.env(INSIDE, "1").env("CONF", CONF).output().expect("unshare");
    assert!(
        ended.status.success(),
        "{}",
        String::from_utf8_lossy(&ended.stdout) + &*String::from_utf8_lossy(&ended.stderr)
    );
}

fn deliver() {
    let mut world = World::new();
    let _running = Program::start(&mut Command::new(JOURNALD));
    wait_for("journald", || std::path::Path::new("/run/systemd/journal/socket").exists());
    let mut log = world.container("a", "journald", &[]);
    world.ship();
    log.write(500);
    // Beyond a datagram's length.
    log.write_with(1, &" xxxxxxxxx".repeat(40_000));
    assert_eq!(log.await_delivery(), (501, 0));
    arrived(&log, entries);
    let all = entries();
    let (first, last) = (all.lines().next().expect("an entry"), all.lines().last().expect("an entry"));
    let first: serde_json::Value = serde_json::from_str(first).expect("JSON");
    let last: serde_json::Value = serde_json::from_str(last).expect("JSON");
    for (field, value) in [
        ("MESSAGE", "000a n=1"),
        ("PRIORITY", "3"),
        ("CONTAINER_ID_FULL", &*log.id),
        ("CONTAINER_NAME", "a"),
        ("CONTAINER_LOG_ORDINAL", "1"),
        ("SYSLOG_IDENTIFIER", "tag"),
        ("SYSLOG_TIMESTAMP", &*format!("{}.500000000Z", line_time())),
    ] {
        assert_eq!(first[field], value, "{field}");
    }
    assert!(last["MESSAGE"].as_str().is_some_and(|text| text.len() > 400_000), "{:.200}", last["MESSAGE"]);
    // The parts of a line are one entry again.
    let mut joined = world.container("b", "journald", &[("max-line-size", "1m")]);
    let text = "y".repeat(300_000);
    joined.push_in_parts(&text, 16 << 10);
    assert_eq!(joined.await_delivery(), (19, 0));
    wait_for("the line", || entries().contains(&format!("\"MESSAGE\":\"{text}\"")));
}

/// The entries, as lines of JSON.
pub fn entries() -> String {
    let query = ["-D", "/run/log/journal", "-o", "json", "--all", "CONTAINER_TAG=tag"];
    let read = Command::new("journalctl").args(query).output().expect("journalctl");
    String::from_utf8_lossy(&read.stdout).into_owned()
}
