//! Events.

use crate::arg::Out;
use crate::entry::{enter, enter_number};
use crate::failure::Failure;
use crate::handle::{self, Object};
use crate::query::Query;
use crate::reader::only_one;
use crate::root::{Access, with_root};
use crate::text::c_text;
use crate::types::*;
use engine::model::EventQuery;
use engine::{ErrorKind, EventStream, Op};
use libc::c_char;
use std::ffi::CString;
use std::os::fd::AsRawFd;
use std::sync::Mutex;
use std::time::Duration;

/// The object behind a `coracle_events *`.
pub(crate) struct Events {
    fd: i32,
    /// Ends a waiting `next` when the handle is freed.
    op: Op,
    follower: Mutex<Follower>,
}

struct Follower {
    stream: EventStream,
    /// The document that was given out last.
    document: CString,
}

impl Object for Events {
    type Opaque = coracle_events;
    const KIND: u64 = 6;
    const NAME: &'static str = "events";
}

/// Follows the events of the root: of everything that any program does on it.
///
/// query_json: NULL, or an object with any of "since", "until" (seconds since 1970, with a fraction if wanted; since
/// replays, until ends), "after" (go on right after the event with that "sequence"; wins over since), "filters" (as in
/// GET /events). *out: end it with coracle_events_free.
///
/// No event after this call is missed silently, however late they are asked for: see coracle_events_next.
///
/// Schemas: query_json events-query.
///
/// Errors: EINVALID (a filter, a time).
///
/// Threads: any. Blocks: disk. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_events_open(
    c: *mut coracle,
    query_json: *const c_char,
    out: *mut *mut coracle_events,
    err: *mut *mut coracle_error,
) -> coracle_status {
    let out = Out::null(out);
    with_root(c, Access::Read, err, |root| {
        out.check("out")?;
        let query = Query::new(query_json, "query_json", &["after", "filters", "since", "until"], root.lenient())?;
        let after = query.number("after")?.map(u64::try_from).transpose();
        let query = EventQuery {
            since_ns: query.time_ns("since")?,
            until_ns: query.time_ns("until")?,
            after: after.map_err(|_| Failure::invalid("query_json: after must not be negative"))?,
            filters: query.filters()?,
        };
        let op = Op::new()?;
        let stream = root.engine().events(&query)?;
        let fd = stream.fd().as_raw_fd();
        let follower = Mutex::new(Follower { stream, document: CString::default() });
        out.set(handle::give(Events { fd, op, follower }));
        Ok(CORACLE_OK)
    })
}

/// Gets a descriptor that is readable while an event may be waiting; for poll, epoll and select (level-triggered).
///
/// Borrowed: valid until coracle_events_free; not to be read or closed. Returns a code below 0 on failure.
///
/// Threads: any. Blocks: no. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_events_fd(e: *mut coracle_events) -> i32 {
    enter_number(|| Ok(handle::get::<Events>(e, "events")?.fd))
}

/// Gets the next event.
///
/// timeout_ms: how long to wait; 0 looks only, below 0 waits for ever. *out_json: the document of GET /events with
/// "sequence" (a number that rises, for "after") added; borrowed, valid until the next call on these events.
/// Returns CORACLE_OK, CORACLE_AGAIN when the time passed, CORACLE_DONE when `until` is reached.
///
/// Schemas: out_json event.
///
/// Errors: EUNAVAILABLE (events that were not read yet, or that follow "after", are no longer kept: once for each loss;
/// the next call goes on with the oldest event kept), EMISUSE (another thread waits here), ECANCELLED (freed
/// meanwhile).
///
/// Threads: one at a time. Blocks: up to timeout_ms. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_events_next(
    e: *mut coracle_events,
    timeout_ms: i64,
    out_json: *mut *const c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    let out = Out::new(out_json, std::ptr::null());
    enter(err, || {
        out.check("out_json")?;
        let events = handle::get::<Events>(e, "events")?;
        let mut follower = only_one(&events.follower, "the events")?;
        let timeout = u64::try_from(timeout_ms).ok().map(Duration::from_millis);
        let Some((sequence, event)) = follower.stream.next(timeout, Some(&events.op))? else {
            return Ok(if follower.stream.ended() { CORACLE_DONE } else { CORACLE_AGAIN });
        };
        let mut document = serde_json::to_value(&event)
            .map_err(|error| Failure::new(ErrorKind::Internal, format!("writing JSON: {error}")))?;
        document["sequence"] = sequence.into();
        follower.document = c_text(&document.to_string());
        out.set(follower.document.as_ptr());
        Ok(CORACLE_OK)
    })
}

/// Ends following. A coracle_events_next that waits in another thread returns. NULL is fine.
///
/// Threads: any, and last. Blocks: no. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_events_free(e: *mut coracle_events) {
    crate::entry::enter_void(|| {
        if let Ok(events) = handle::get::<Events>(e, "events") {
            events.op.cancel();
        }
        handle::free::<Events>(e);
    });
}
