//! Containers.

use crate::arg::{self, Out};
use crate::entry::Failure;
use crate::handle;
use crate::op::Using;
use crate::query::Query;
use crate::root::{Access, with_root};
use crate::session::{SessionObject, io};
use crate::stream::Stream;
use crate::types::*;
use coracle_http::Document;
use engine::model::{AttachStreams, ListContainers, LogQuery, RemoveContainer, StatsQuery, WaitCondition};
use engine::{AttachOptions, Changed, LogFormat};
use libc::c_char;
use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};
use std::cell::RefCell;
use std::os::fd::IntoRawFd;

/// Lists containers, newest first.
///
/// query_json: NULL, or an object with any of "all", "limit", "size", "since", "before", "filters" (as in
/// GET /containers/json). *out_json: its document; free it with coracle_free.
///
/// Errors: EINVALID (a filter), ENOT_FOUND (since, before).
///
/// Threads: any. Blocks: disk. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_container_list(
    c: *mut coracle,
    query_json: *const c_char,
    out_json: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    with_root(c, Access::Read, err, |root| {
        let out = Out::null(out_json, "out_json")?;
        let query = Query::new(
            query_json,
            "query_json",
            &["all", "before", "filters", "limit", "since", "size"],
            root.lenient(),
        )?;
        let query = ListContainers {
            all: query.flag("all", false)?,
            limit: query.number("limit")?.unwrap_or(0),
            size: query.flag("size", false)?,
            since: query.text("since")?,
            before: query.text("before")?,
            filters: query.filters()?,
        };
        let list = Listed { engine: root.engine(), query: &query, failed: RefCell::new(None) };
        let given = out.give_json(&list);
        match list.failed.into_inner() {
            Some(error) => return Err(error.into()),
            None => given?,
        }
        Ok(CORACLE_OK)
    })
}

/// Creates a container from an image that is here.
///
/// name: NULL: one is made up. body_json: the body of POST /containers/create. *out_json: {"Id":..., "Warnings":[...]};
/// free it with coracle_free.
///
/// Errors: EINVALID (a field, named), ENOT_FOUND (image), ECONFLICT (name), EUNSUPPORTED (a field that is not built).
///
/// Threads: any. Blocks: disk. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_container_create(
    c: *mut coracle,
    name: *const c_char,
    body_json: *const c_char,
    op: *mut coracle_op,
    out_json: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    with_root(c, Access::Change, err, |root| {
        let out = Out::null(out_json, "out_json")?;
        let name = arg::optional_text(name, "name")?;
        let (body, unknown) = arg::document(body_json, "body_json", Document::Create, root.lenient())?;
        let using = Using::new(op)?;
        if let Some(op) = using.op() {
            using.done(op.check())?;
        }
        let mut created = using.done(root.engine().container_create(name, &body))?;
        created.warnings.extend(unknown);
        out.give_json(&created)?;
        Ok(CORACLE_OK)
    })
}

/// Everything about one container.
///
/// id: name, id, or the beginning of an id that only one has; so in every function. with_size: other than 0: with
/// "SizeRw" and "SizeRootFs". *out_json: the document of GET /containers/{id}/json; free it with coracle_free.
///
/// Errors: ENOT_FOUND.
///
/// Threads: any. Blocks: disk. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_container_inspect(
    c: *mut coracle,
    id: *const c_char,
    with_size: i32,
    out_json: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    with_root(c, Access::Read, err, |root| {
        let out = Out::null(out_json, "out_json")?;
        out.give_json(&root.engine().container_inspect(arg::text(id, "id")?, with_size != 0)?)?;
        Ok(CORACLE_OK)
    })
}

/// Starts a container.
///
/// io: NULL starts it detached (then out may be NULL, and *out is NULL); else it is attached before its process runs, so
/// that not a byte is missed. *out: the session; end it with coracle_session_free.
/// Returns CORACLE_UNCHANGED where it ran already; *out is NULL then.
///
/// The container outlives the calling program. While it is started, signals are blocked on the calling thread for about
/// a millisecond; no child of the caller's is left (when the caller is PID 1 or a subreaper, one is).
///
/// Errors: ENOT_FOUND (container; its command), EINVALID (its command cannot run), ECONFLICT (paused, being removed).
///
/// Threads: any. Blocks: until its process runs. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_container_start(
    c: *mut coracle,
    id: *const c_char,
    io: *const coracle_io,
    op: *mut coracle_op,
    out: *mut *mut coracle_session,
    err: *mut *mut coracle_error,
) -> coracle_status {
    with_root(c, Access::Change, err, |root| {
        let out = Out::optional(out, std::ptr::null_mut());
        let id = arg::text(id, "id")?;
        let io = self::io(io)?;
        if io.is_some() && out.is_null() {
            return Err(Failure::invalid("out is NULL: with io there is a session to give out"));
        }
        let using = Using::new(op)?;
        let started = using.done(root.engine().container_start(id, io, using.op()))?;
        if let Some(session) = started.session {
            out.set(handle::give(SessionObject::new(session)));
        }
        Ok(status(started.changed))
    })
}

/// Stops a container: its stop signal and, where it still runs after a while, SIGKILL.
///
/// grace_ms: how long that is; below 0 waits for ever. Returns CORACLE_UNCHANGED where it did not run.
///
/// Errors: ENOT_FOUND, ECANCELLED, ETIMEOUT, ECALLBACK (op; the signal was sent).
///
/// Threads: any. Blocks: until it ended, or op ends it. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_container_stop(
    c: *mut coracle,
    id: *const c_char,
    grace_ms: i64,
    op: *mut coracle_op,
    err: *mut *mut coracle_error,
) -> coracle_status {
    with_root(c, Access::Change, err, |root| {
        let id = arg::text(id, "id")?;
        let using = Using::new(op)?;
        using.done(root.engine().container_stop(id, Some(grace_ms), using.op())).map(status)
    })
}

/// Stops a container if it runs (as coracle_container_stop), and starts it.
///
/// Errors: as coracle_container_stop and coracle_container_start.
///
/// Threads: any. Blocks: until it runs again, or op ends it. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_container_restart(
    c: *mut coracle,
    id: *const c_char,
    grace_ms: i64,
    op: *mut coracle_op,
    err: *mut *mut coracle_error,
) -> coracle_status {
    with_root(c, Access::Change, err, |root| {
        let id = arg::text(id, "id")?;
        let using = Using::new(op)?;
        using.done(root.engine().container_restart(id, Some(grace_ms), using.op()))?;
        Ok(CORACLE_OK)
    })
}

/// Sends a signal to a container's first process.
///
/// signal: a name with or without SIG, or a number as text; NULL: SIGKILL, whose effect is waited for.
///
/// Errors: ENOT_FOUND, ECONFLICT (it does not run), EINVALID (signal).
///
/// Threads: any. Blocks: for SIGKILL until it ended, else no. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_container_kill(
    c: *mut coracle,
    id: *const c_char,
    signal: *const c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    with_root(c, Access::Change, err, |root| {
        let signal = arg::optional_text(signal, "signal")?;
        root.engine().container_kill(arg::text(id, "id")?, signal, None)?;
        Ok(CORACLE_OK)
    })
}

/// Freezes a container's processes.
///
/// Errors: ENOT_FOUND, ECONFLICT (it does not run, or is paused).
///
/// Threads: any. Blocks: until they are frozen. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_container_pause(
    c: *mut coracle,
    id: *const c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    with_root(c, Access::Change, err, |root| {
        root.engine().container_pause(arg::text(id, "id")?)?;
        Ok(CORACLE_OK)
    })
}

/// Thaws a container's processes.
///
/// Errors: ENOT_FOUND, ECONFLICT (it is not paused).
///
/// Threads: any. Blocks: until they are thawed. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_container_unpause(
    c: *mut coracle,
    id: *const c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    with_root(c, Access::Change, err, |root| {
        root.engine().container_unpause(arg::text(id, "id")?)?;
        Ok(CORACLE_OK)
    })
}

/// Waits until a container does not run.
///
/// *exit_code: that of its last run: 0 to 255; 128 + n where signal n ended it.
///
/// Errors: ENOT_FOUND, ECANCELLED, ETIMEOUT, ECALLBACK (op).
///
/// Threads: any. Blocks: until it does not run, or op ends it. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_container_wait(
    c: *mut coracle,
    id: *const c_char,
    op: *mut coracle_op,
    exit_code: *mut i32,
    err: *mut *mut coracle_error,
) -> coracle_status {
    with_root(c, Access::Read, err, |root| {
        let out = Out::new(exit_code, -1, "exit_code")?;
        let id = arg::text(id, "id")?;
        let using = Using::new(op)?;
        out.set(using.done(root.engine().container_wait(id, using.op()))?);
        Ok(CORACLE_OK)
    })
}

/// Waits for what a condition names.
///
/// condition: "not-running" (also NULL: as coracle_container_wait), "next-exit" (the next end, also if the container does
/// not run yet; or its removal), "removed". *out_json: {"StatusCode":..., "Error":{"Message":...}}: the exit code of the
/// last end, 0 if the container never ran; "Error" only if the container was created with AutoRemove and its removal
/// failed. Free it with coracle_free.
///
/// Errors: ENOT_FOUND (also after the end of a container with AutoRemove), EINVALID (condition), ECANCELLED, ETIMEOUT,
/// ECALLBACK (op).
///
/// Threads: any. Blocks: until that happens, or op ends it. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_container_wait_for(
    c: *mut coracle,
    id: *const c_char,
    condition: *const c_char,
    op: *mut coracle_op,
    out_json: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    with_root(c, Access::Read, err, |root| {
        let out = Out::null(out_json, "out_json")?;
        let id = arg::text(id, "id")?;
        let condition = WaitCondition::parse(arg::optional_text(condition, "condition")?.unwrap_or_default())?;
        let using = Using::new(op)?;
        out.give_json(&using.done(root.engine().container_wait_for(id, condition, using.op()))?)?;
        Ok(CORACLE_OK)
    })
}

/// A pidfd of a running container's first process, for the caller's own event loop: readable when it ended.
///
/// *out_fd: the caller's to close (close-on-exec); -1 on failure. It is no child of the caller's: ask
/// coracle_container_wait for the exit code.
///
/// Errors: ENOT_FOUND, ECONFLICT (it does not run).
///
/// Threads: any. Blocks: no. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_container_pidfd(
    c: *mut coracle,
    id: *const c_char,
    out_fd: *mut i32,
    err: *mut *mut coracle_error,
) -> coracle_status {
    with_root(c, Access::Read, err, |root| {
        let out = Out::new(out_fd, -1, "out_fd")?;
        out.set(root.engine().container_pidfd(arg::text(id, "id")?)?.into_raw_fd());
        Ok(CORACLE_OK)
    })
}

/// Removes a container.
///
/// flags: CORACLE_REMOVE_FORCE, CORACLE_REMOVE_VOLUMES, CORACLE_REMOVE_LINK, or 0.
///
/// Errors: ENOT_FOUND, ECONFLICT (it runs, and no force; it is being removed), EINVALID (flags).
///
/// Threads: any. Blocks: disk; with force until it ended. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_container_remove(
    c: *mut coracle,
    id: *const c_char,
    flags: u64,
    op: *mut coracle_op,
    err: *mut *mut coracle_error,
) -> coracle_status {
    with_root(c, Access::Change, err, |root| {
        let id = arg::text(id, "id")?;
        let known = CORACLE_REMOVE_FORCE | CORACLE_REMOVE_VOLUMES | CORACLE_REMOVE_LINK;
        let flags = arg::flags(flags, known, "flags")?;
        let how = RemoveContainer {
            force: flags & CORACLE_REMOVE_FORCE != 0,
            volumes: flags & CORACLE_REMOVE_VOLUMES != 0,
            link: flags & CORACLE_REMOVE_LINK != 0,
        };
        let using = Using::new(op)?;
        using.done(root.engine().container_remove(id, how, using.op()))?;
        Ok(CORACLE_OK)
    })
}

/// Removes the containers that do not run, but not their volumes.
///
/// filters_json: NULL, or an object of lists as the "filters" of coracle_container_list: only those that match are
/// removed. *out_json: an object with "ContainersDeleted" (a list of ids) and "SpaceReclaimed" in bytes; free it with
/// coracle_free.
///
/// Errors: EINVALID (a filter), ECANCELLED, ETIMEOUT, ECALLBACK (op). Objects that were removed before an error stay removed.
///
/// Threads: any. Blocks: disk. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_containers_prune(
    c: *mut coracle,
    filters_json: *const c_char,
    op: *mut coracle_op,
    out_json: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    with_root(c, Access::Change, err, |root| {
        let out = Out::null(out_json, "out_json")?;
        let filters = Query::filters_of(filters_json, "filters_json")?;
        let using = Using::new(op)?;
        out.give_json(&using.done(root.engine().containers_prune(&filters, using.op()))?)?;
        Ok(CORACLE_OK)
    })
}

/// Renames a container.
///
/// Errors: ENOT_FOUND, ECONFLICT (the name is another's), EINVALID (name).
///
/// Threads: any. Blocks: disk. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_container_rename(
    c: *mut coracle,
    id: *const c_char,
    name: *const c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    with_root(c, Access::Change, err, |root| {
        root.engine().container_rename(arg::text(id, "id")?, arg::text(name, "name")?)?;
        Ok(CORACLE_OK)
    })
}

/// The processes of a running container, as ps shows them.
///
/// ps_args: the arguments of ps; NULL: "-ef". *out_json: the document of GET /containers/{id}/top; free it with
/// coracle_free.
///
/// Errors: ENOT_FOUND, ECONFLICT (it does not run), EINVALID (ps_args).
///
/// Threads: any. Blocks: no. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_container_top(
    c: *mut coracle,
    id: *const c_char,
    ps_args: *const c_char,
    out_json: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    with_root(c, Access::Read, err, |root| {
        let out = Out::null(out_json, "out_json")?;
        let ps_args = arg::optional_text(ps_args, "ps_args")?.unwrap_or("-ef");
        out.give_json(&root.engine().container_top(arg::text(id, "id")?, ps_args)?)?;
        Ok(CORACLE_OK)
    })
}

/// Changes a container's limits, at once where it runs, and its restart policy.
///
/// body_json: the body of POST /containers/{id}/update: any of "BlkioWeight", "CpuShares", "CpuPeriod", "CpuQuota",
/// "CpusetCpus", "CpusetMems", "Memory", "MemorySwap", "MemoryReservation", "KernelMemory", "PidsLimit" (0 and "" leave
/// a value as it is), "RestartPolicy". *out_json: {"Warnings":[...]}; free it with coracle_free.
///
/// Errors: ENOT_FOUND, EINVALID (a value, named), ECONFLICT (memory above the swap limit), EINTERNAL (the kernel refuses
/// it, as for less memory than is in use; nothing is changed then).
///
/// Threads: any. Blocks: disk; while the kernel takes memory back. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_container_update(
    c: *mut coracle,
    id: *const c_char,
    body_json: *const c_char,
    out_json: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    with_root(c, Access::Change, err, |root| {
        let out = Out::null(out_json, "out_json")?;
        let (body, unknown) = arg::document(body_json, "body_json", Document::Update, root.lenient())?;
        let mut updated = root.engine().container_update(arg::text(id, "id")?, &body)?;
        updated.warnings.extend(unknown);
        out.give_json(&updated)?;
        Ok(CORACLE_OK)
    })
}

/// Samples what a container uses: CPU, memory, block devices, network, processes.
///
/// query_json: NULL, or an object with any of "stream" (default true: a sample at once and then one a second until the
/// container is removed; false: one, after a second in which "precpu_stats" is taken), "one-shot" (with "stream" false:
/// one at once). *out: records for coracle_stream_next, each the document of GET /containers/{id}/stats; its descriptor
/// is readable when the next is due; end it with coracle_stream_free.
///
/// Errors: ENOT_FOUND, EINVALID (query).
///
/// Threads: any. Blocks: no; the stream's calls until a sample is due. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_container_stats(
    c: *mut coracle,
    id: *const c_char,
    query_json: *const c_char,
    out: *mut *mut coracle_stream,
    err: *mut *mut coracle_error,
) -> coracle_status {
    with_root(c, Access::Read, err, |root| {
        let out = Out::null(out, "out")?;
        let id = arg::text(id, "id")?;
        let query = Query::new(query_json, "query_json", &["one-shot", "stream"], root.lenient())?;
        let query = StatsQuery { stream: query.flag("stream", true)?, one_shot: query.flag("one-shot", false)? };
        out.set(handle::give(Stream::stats(root.engine().container_stats(id, query)?)));
        Ok(CORACLE_OK)
    })
}

/// Reads a container's log.
///
/// query_json: NULL, or an object with any of "stdout", "stderr" (both where neither is given), "since" (seconds since
/// 1970, with a fraction if wanted), "tail" (a number, or "all"), "follow", "timestamps" and "details" (the time and the
/// attributes stand before each line, as in GET /containers/{id}/logs). *out: records for coracle_stream_next, which have
/// channel and time apart, too; end it with coracle_stream_free.
///
/// Errors: ENOT_FOUND, EINVALID (query), EUNSUPPORTED (its log driver cannot be read).
///
/// Threads: any. Blocks: disk; the stream's calls where it follows. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_container_logs(
    c: *mut coracle,
    id: *const c_char,
    query_json: *const c_char,
    op: *mut coracle_op,
    out: *mut *mut coracle_stream,
    err: *mut *mut coracle_error,
) -> coracle_status {
    with_root(c, Access::Read, err, |root| {
        let out = Out::null(out, "out")?;
        let id = arg::text(id, "id")?;
        let asked = Query::new(
            query_json,
            "query_json",
            &["details", "follow", "since", "stderr", "stdout", "tail", "timestamps"],
            root.lenient(),
        )?;
        let both = !asked.has("stdout") && !asked.has("stderr");
        let tail = match asked.text("tail").as_deref() {
            Ok("all") => None,
            _ => asked.number("tail")?,
        };
        let query = LogQuery {
            follow: asked.flag("follow", false)?,
            stdout: asked.flag("stdout", both)?,
            stderr: asked.flag("stderr", both)?,
            since_ns: asked.time_ns("since")?.unwrap_or(0),
            // As in the field: a negative number means all.
            tail: tail.and_then(|n| u64::try_from(n).ok()),
        };
        let form = LogFormat { timestamps: asked.flag("timestamps", false)?, details: asked.flag("details", false)? };
        let using = Using::new(op)?;
        let log = using.done(root.engine().container_logs(id, &query, using.op()))?;
        out.set(handle::give(Stream::log(log, form)));
        Ok(CORACLE_OK)
    })
}

/// Attaches to a container's standard streams.
///
/// io: NULL is CORACLE_IO_INIT: the library makes the streams. query_json: NULL, or an object with any of "stdin",
/// "stdout", "stderr" (all where none is given), "wait" (true: answer before the container runs; the session has its
/// output from the first byte on once it starts). *out: end it with coracle_session_free.
///
/// Errors: ENOT_FOUND, ECONFLICT (it does not run, and no "wait"; it is paused), EINVALID.
///
/// Threads: any. Blocks: no. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_container_attach(
    c: *mut coracle,
    id: *const c_char,
    io: *const coracle_io,
    query_json: *const c_char,
    op: *mut coracle_op,
    out: *mut *mut coracle_session,
    err: *mut *mut coracle_error,
) -> coracle_status {
    with_root(c, Access::Change, err, |root| {
        let out = Out::null(out, "out")?;
        let id = arg::text(id, "id")?;
        let io = self::io(io)?.unwrap_or_default();
        let query = Query::new(query_json, "query_json", &["stderr", "stdin", "stdout", "wait"], root.lenient())?;
        let all = !["stdin", "stdout", "stderr"].iter().any(|name| query.has(name));
        let streams = AttachStreams {
            stdin: query.flag("stdin", all)?,
            stdout: query.flag("stdout", all)?,
            stderr: query.flag("stderr", all)?,
        };
        let how = AttachOptions { streams, wait_for_start: query.flag("wait", false)? };
        let using = Using::new(op)?;
        let session = using.done(root.engine().container_attach(id, io, how, using.op()))?;
        out.set(handle::give(SessionObject::new(session)));
        Ok(CORACLE_OK)
    })
}

fn status(changed: Changed) -> coracle_status {
    match changed {
        Changed::Yes => CORACLE_OK,
        Changed::No => CORACLE_UNCHANGED,
    }
}

/// A list that is written while it is made: all of it at once would be memory that the C library takes and gives back with
/// each call, which takes longer than the rest.
struct Listed<'a> {
    engine: &'a engine::Engine,
    query: &'a ListContainers,
    failed: RefCell<Option<engine::Error>>,
}

impl Serialize for Listed<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        let mut unwritten = None;
        let made = self.engine.container_list_each(self.query, |container| {
            list.serialize_element(&container).map_err(|error| {
                unwritten = Some(error);
                engine::Error::invalid("the list cannot be written")
            })
        });
        match (unwritten, made) {
            (Some(error), _) => Err(error),
            (None, Err(error)) => {
                *self.failed.borrow_mut() = Some(error);
                Err(serde::ser::Error::custom("the list cannot be made"))
            }
            (None, Ok(())) => list.end(),
        }
    }
}
