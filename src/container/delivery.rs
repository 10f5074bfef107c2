//! The delivery of a container's log to the receiver of its log driver: the plan that a shipper follows, its state, and the
//! log that outlives its container.

use super::spec::{self, LogDriver, TagFacts};
use super::{Places, Snapshot, dirs};
use crate::error::{Error, Result};
use crate::model::{LogDelivery, LogOwed};
use crate::notes::{LogLevel, note};
use crate::time::rfc3339_nano;
use coracle_ship::{Facts, Plan, outbox};

/// Before a start: writes the plan, if the container's driver delivers. A shipper that lives sees it.
pub(super) fn begin(places: &Places, found: &Snapshot) -> Result<()> {
    if !is_delivered(found) {
        return Ok(());
    }
    let config = &found.spec.host_config.log_config;
    // As in dockerd, a file of the options that is missing fails the start. Each connection reads the file again.
    coracle_ship::check_files(&config.kind, &config.config)
        .map_err(|error| Error::internal(format!("failed to initialize logging driver: {error}")).in_area("log"))?;
    let failed = |e: std::io::Error| Error::io("write the plan of the log's delivery", &e).in_area("log");
    outbox::write_plan(places.root(), &plan(found)?).map_err(failed)
}

fn is_delivered(found: &Snapshot) -> bool {
    matches!(found.spec.host_config.log(), LogDriver::Delivered { .. })
}

fn plan(found: &Snapshot) -> Result<Plan> {
    let (row, spec) = (&found.row, &found.spec);
    let config = &spec.host_config.log_config;
    let host = spec::host_name();
    let facts = TagFacts { id: &row.id, name: &row.name, host: &host, spec };
    Ok(Plan {
        driver: config.kind.clone(),
        options: config.config.clone(),
        log: dirs::log_name(found),
        facts: Facts {
            id: row.id.clone(),
            name: row.name.clone(),
            image_id: spec.image_id.clone(),
            image_name: spec.image_name.clone(),
            command: std::iter::once(&spec.path).chain(&spec.args).cloned().collect::<Vec<_>>().join(" "),
            created: rfc3339_nano(row.created_ns),
            tag: spec::log_tag(&facts)?,
            extras: spec::log_extras(&facts)?,
            host,
        },
    })
}

/// The delivery as inspect shows it.
pub(super) fn shown(places: &Places, found: &Snapshot) -> Result<Option<LogDelivery>> {
    if !is_delivered(found) {
        return Ok(None);
    }
    let failed = |e: std::io::Error| Error::io("read the state of the log's delivery", &e).in_area("log");
    let Some(status) = outbox::status(places.root(), &found.row.id).map_err(failed)? else { return Ok(None) };
    let cursor = status.cursor;
    Ok(Some(LogDelivery {
        driver: status.driver,
        owed: LogOwed { lines: status.owed.lines, bytes: status.owed.bytes },
        delivered: cursor.delivered,
        lost: cursor.lost,
        last_delivered: if cursor.delivered_ns == 0 { String::new() } else { rfc3339_nano(cursor.delivered_ns) },
        last_error: cursor.error(),
    }))
}

/// Before the directory of a removed container is removed: a log that is still owed moves to the outbox. A log that cannot
/// be moved is lost with the container; the removal goes on.
pub(super) fn hand_over(places: &Places, id: &str) {
    if let Err(error) = outbox::hand_over(places.root(), id) {
        note(LogLevel::Error, "log", Some(id), || {
            format!("undelivered lines of a removed container are lost: {error}")
        });
    }
}
