//! The delivery of a container's log to the receiver of its log driver: the plan that a shipper follows, its state, and the
//! log that outlives its container.

use super::spec::{self, LogDriver, TagFacts};
use super::{Places, Snapshot, dirs};
use crate::error::{Error, Result};
use crate::model::{LogDelivery, LogOwed};
use crate::notes::{LogLevel, note};
use crate::options::Outbox;
use crate::parts::Part;
use crate::plugin::{FIFOS_INSIDE, Plugins};
use crate::time::rfc3339_nano;
use coracle_ship::outbox::Status;
use coracle_ship::{Bounds, Facts, LogPlugin, Plan, Proxies, outbox};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// The directory, in the run directory, of the FIFOs to log plugins.
pub(super) const FIFOS: &str = "logging";

/// Before a start: writes the plan, if the container's driver delivers. A shipper that lives sees it.
pub(super) fn begin(places: &Places, plugins: &Plugins, proxies: &Proxies, found: &Snapshot) -> Result<()> {
    if !is_delivered(found) {
        return Ok(());
    }
    Part::Ship.need()?;
    let config = &found.spec.host_config.log_config;
    // As in dockerd, a file of the options that is missing fails the start. Each connection reads the file again.
    let refused = |why: String| Error::internal(format!("failed to initialize logging driver: {why}")).in_area("log");
    let mut plan = plan(found)?;
    match spec::is_built_in(&config.kind) {
        true => coracle_ship::check_files(&config.kind, &config.config, proxies)
            .map_err(|error| refused(error.to_string()))?,
        // The shipper calls the plugin: a start does not wait for it.
        false => plan.plugin = Some(log_plugin(places, plugins, found).map_err(|error| refused(error.to_string()))?),
    }
    let failed = |e: std::io::Error| Error::io("write the plan of the log's delivery", &e).in_area("log");
    outbox::write_plan(places.root(), &plan).map_err(failed)
}

pub(super) fn is_delivered(found: &Snapshot) -> bool {
    matches!(found.spec.host_config.log(), LogDriver::Delivered { .. })
}

/// The file of a delivery's cursor, from the directory of the container (`containers/<id>` of the root).
pub(super) fn cursor_from_container(id: &str) -> String {
    outbox::Entry::new(Path::new("../.."), id).cursor_path().to_string_lossy().into_owned()
}

fn plan(found: &Snapshot) -> Result<Plan> {
    let (row, spec) = (&found.row, &found.spec);
    let config = &spec.host_config.log_config;
    let host = spec::host_name();
    let facts = TagFacts { id: &row.id, name: &row.name, host: &host, spec };
    Ok(Plan {
        plugin: None,
        driver: config.kind.clone(),
        options: coracle_ship::drivers::settled(&config.kind, &config.config),
        log: dirs::log_name(found),
        slot: Some(row.slot),
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

/// Where a plugin is, and the facts of the container in docker's form.
fn log_plugin(places: &Places, plugins: &Plugins, found: &Snapshot) -> Result<LogPlugin> {
    let (row, spec) = (&found.row, &found.spec);
    let config = &spec.host_config.log_config;
    let ours = places.run().join(FIFOS).display().to_string();
    let (fifo_dir, seen_dir) = match plugins.fifos(&config.kind)? {
        None => (ours.clone(), ours),
        Some(dir) => (dir.display().to_string(), FIFOS_INSIDE.to_owned()),
    };
    let info = json!({
        "Config": config.config,
        "ContainerID": row.id,
        "ContainerName": format!("/{}", row.name),
        "ContainerEntrypoint": spec.path,
        "ContainerArgs": spec.args,
        "ContainerImageID": spec.image_id,
        "ContainerImageName": spec.image_name,
        "ContainerCreated": rfc3339_nano(row.created_ns),
        "ContainerEnv": spec.config.env,
        "ContainerLabels": spec.config.labels,
        "LogPath": "",
        "DaemonName": "docker",
    });
    let address = plugins.plain_address(&config.kind)?;
    Ok(LogPlugin { address, fifo_dir, seen_dir, info: info.to_string() })
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
        delivered: if status.is_acknowledged { cursor.delivered } else { 0 },
        sent: if status.is_acknowledged { 0 } else { cursor.delivered },
        left_out: status.left_out,
        lost: cursor.lost,
        last_delivered: if cursor.delivered_ns == 0 { String::new() } else { rfc3339_nano(cursor.delivered_ns) },
        last_error: status.error,
    }))
}

/// The sums of all deliveries of a root, as `info` shows them.
pub(crate) fn sums(root: &Path) -> Result<Value> {
    let failed = |e: std::io::Error| Error::io("read the states of the logs' deliveries", &e).in_area("log");
    let mut drivers: BTreeMap<String, [u64; 7]> = BTreeMap::new();
    for Status { driver, owed, cursor, is_acknowledged, left_out, .. } in outbox::statuses(root).map_err(failed)? {
        let (delivered, sent) = if is_acknowledged { (cursor.delivered, 0) } else { (0, cursor.delivered) };
        let one = [1, delivered, sent, left_out, cursor.lost, owed.lines, owed.bytes];
        let sum = drivers.entry(driver).or_default();
        sum.iter_mut().zip(one).for_each(|(sum, one)| *sum += one);
    }
    let shown = drivers.into_iter().map(|(driver, [logs, delivered, sent, left_out, lost, lines, bytes])| {
        let owed = json!({ "Lines": lines, "Bytes": bytes });
        let sum = json!({ "Logs": logs, "Delivered": delivered, "Sent": sent, "LeftOut": left_out, "Lost": lost, "Owed": owed });
        (driver, sum)
    });
    let most = Bounds::read(root);
    Ok(json!({
        "Drivers": shown.collect::<serde_json::Map<_, _>>(),
        "Dropped": coracle_ship::shipper::dropped(root),
        "Outbox": { "MaxBytes": most.bytes, "MaxSeconds": most.age.as_secs() },
    }))
}

/// At the open of a root: bounds that its options name hold from now on.
pub(super) fn bound(root: &Path, bounds: Option<Outbox>) -> Result<()> {
    let Some(Outbox { bytes, age }) = bounds else { return Ok(()) };
    Part::Ship.need().map_err(|error| error.context("outbox"))?;
    let failed = |e: std::io::Error| Error::io("write the bounds of the outbox", &e).in_area("log");
    Bounds { bytes, age }.write(root).map_err(failed)
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
