//! Containers.

use crate::answer::{Answer, Outs, Run, Wait};
use crate::arg::{self, Out};
use crate::call::call;
use crate::failure::Outcome;
use crate::query::Query;
use crate::reader::Stream;
use crate::root::{Access, with_root};
use crate::session::io;
use crate::types::*;
use crate::using::Using;
use crate::work::{Work, wait, work};
use coracle_http::Document;
use engine::model::{
    AttachStreams, ContainerWaited, CreateBody, ListContainers, LogQuery, RemoveContainer, StatsQuery, StopContainer,
    UpdateContainer, WaitCondition,
};
use engine::{AttachOptions, BegunStop, ContainerRestart, ContainerStop, ContainerWait, Engine, ErrorKind, LogFormat};
use libc::c_char;
use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};
use std::cell::RefCell;
use std::os::fd::{AsRawFd, IntoRawFd, RawFd};
use std::time::Instant;

/// Lists containers, newest first.
///
/// query_json: NULL, or an object with any of "all", "limit", "size", "since", "before", "filters" (as in
/// GET /containers/json). *out_json: its document; free it with coracle_free.
///
/// Schemas: query_json container-list-query, out_json container-list.
///
/// Errors: EINVALID (a filter), EINTERNAL (since or before names no container).
///
/// Threads: any. Blocks: disk. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_container_list(
    c: *mut coracle,
    query_json: *const c_char,
    out_json: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    let out = Out::null(out_json);
    with_root(c, Access::Read, err, |root| {
        out.check("out_json")?;
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

/// Creates a container from an image of the root.
///
/// name: NULL: the engine makes one up. body_json: the body of POST /containers/create. *out_id: the container's id; free it
/// with coracle_free. *out_json (may be NULL): {"Id":..., "Warnings":[...]}; free it with coracle_free.
///
/// Schemas: body_json container-create, out_json container-created.
///
/// Errors: EINVALID (a field, named), ENOT_FOUND (image), ECONFLICT (name; nobody holds its lease), EUNSUPPORTED (a
/// field that is not supported), ECANCELLED, ETIMEOUT (op).
///
/// Threads: any. Blocks: disk. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_container_create(
    c: *mut coracle,
    name: *const c_char,
    body_json: *const c_char,
    op: *mut coracle_op,
    out_id: *mut *mut c_char,
    out_json: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    let outs = Outs::none().id(out_id).optional_json(out_json);
    call(c, Access::Change, op, outs, err, &mut |root| {
        let name = arg::optional_text(name, "name")?.map(str::to_owned);
        let (body, unknown): (CreateBody, _) = arg::document(body_json, "body_json", Document::Create, root.lenient())?;
        let engine = root.engine().clone();
        work(move |using| {
            let mut created = using.done(engine.container_create(name.as_deref(), &body))?;
            created.warnings.extend(unknown);
            Answer::id(&created.id)?.and_document(&created)
        })
    })
}

/// Describes one container in full.
///
/// id: name, id, or the beginning of an id that no other container has. Every function takes such an id. with_size: other than 0: the
/// document has "SizeRw" and "SizeRootFs". *out_json: the document of GET /containers/{id}/json; free it with coracle_free.
///
/// Schemas: out_json container.
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
    let out = Out::null(out_json);
    with_root(c, Access::Read, err, |root| {
        out.check("out_json")?;
        out.give_json(&root.engine().container_inspect(arg::text(id, "id")?, with_size != 0)?)?;
        Ok(CORACLE_OK)
    })
}

/// Starts a container.
///
/// io: NULL starts it detached (then out may be NULL, and *out is NULL); else it is attached before its process runs, so
/// that no byte is missed. *out: the session; end it with coracle_session_free.
/// Returns CORACLE_UNCHANGED if the container runs already; *out is NULL then.
///
/// The container outlives the calling program. While it is started, signals are blocked on the calling thread for about
/// a millisecond; no child of the caller's is left (if the caller is PID 1 or a subreaper, one is).
///
/// Errors: ENOT_FOUND (container), EINVALID (its command is not there, or cannot run), ECONFLICT (paused, being
/// removed), ECANCELLED, ETIMEOUT (op).
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
    let outs = Outs::none().session(out, !io.is_null());
    call(c, Access::Change, op, outs, err, &mut |root| {
        let (id, io) = (arg::owned(id, "id")?, self::io(io)?);
        let engine = root.engine().clone();
        work(move |using| {
            let started = using.done(engine.container_start(&id, io, using.op()))?;
            Ok(Answer::changed(started.changed).and_session(started.session))
        })
    })
}

/// Stops a container: its stop signal and, if it still runs after grace_ms, SIGKILL.
///
/// grace_ms: milliseconds; below 0: SIGKILL is never sent. Returns CORACLE_UNCHANGED if the container does not run.
///
/// Errors: ENOT_FOUND, ECANCELLED, ETIMEOUT, ECALLBACK (op; the signal was sent).
///
/// Threads: any. Blocks: until the container has ended, or op ends the call. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_container_stop(
    c: *mut coracle,
    id: *const c_char,
    grace_ms: i64,
    op: *mut coracle_op,
    err: *mut *mut coracle_error,
) -> coracle_status {
    call(c, Access::Change, op, Outs::none(), err, &mut |root| {
        let (engine, id) = (root.engine().clone(), arg::owned(id, "id")?);
        begin_stop(engine, id, StopContainer { grace_ms: Some(grace_ms), ..StopContainer::default() })
    })
}

/// Stops a container with a signal and a time of its own.
///
/// how_json: NULL, or an object with any of "signal" (a name with or without SIG, or a number as text; without it the
/// container's own stop signal) and "grace_ms" (milliseconds until SIGKILL; negative: never; without it the container's own
/// time, "StopTimeout" of its configuration, or 10 seconds).
///
/// Returns CORACLE_UNCHANGED if the container does not run.
///
/// Schemas: how_json container-stop.
///
/// Errors: ENOT_FOUND, EINVALID (how_json), ECANCELLED, ETIMEOUT, ECALLBACK (op; the signal was sent).
///
/// Threads: any. Blocks: until the container has ended, or op ends the call. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_container_stop_with(
    c: *mut coracle,
    id: *const c_char,
    how_json: *const c_char,
    op: *mut coracle_op,
    err: *mut *mut coracle_error,
) -> coracle_status {
    call(c, Access::Change, op, Outs::none(), err, &mut |root| {
        let (engine, id, how) = (root.engine().clone(), arg::owned(id, "id")?, how_to_stop(how_json, root.lenient())?);
        begin_stop(engine, id, how)
    })
}

/// Stops a container: for an operation that does not block without a thread that waits for the end.
fn begin_stop(engine: Engine, id: String, how: StopContainer) -> Outcome<Work> {
    work(move |using| {
        if using.is_nonblocking() {
            return Ok(match engine.container_stop_begin_with(&id, &how, using.op())? {
                BegunStop::Over(changed) => Answer::changed(changed),
                BegunStop::Pending(stop) => Answer::later(StopOfContainer(stop)),
            });
        }
        using.done(engine.container_stop_with(&id, &how, using.op())).map(Answer::changed)
    })
}

fn how_to_stop(how_json: *const c_char, lenient: bool) -> Outcome<StopContainer> {
    let query = Query::new(how_json, "how_json", &["signal", "grace_ms"], lenient)?;
    Ok(StopContainer { signal: query.text("signal")?, grace_ms: query.number("grace_ms")? })
}

/// Stops a container if it runs (as coracle_container_stop), and starts it.
///
/// Errors: ENOT_FOUND, EINVALID (its command is not there, or cannot run), ECANCELLED, ETIMEOUT, ECALLBACK (op; the
/// signal was sent).
///
/// Threads: any. Blocks: until the container runs again, or op ends the call. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_container_restart(
    c: *mut coracle,
    id: *const c_char,
    grace_ms: i64,
    op: *mut coracle_op,
    err: *mut *mut coracle_error,
) -> coracle_status {
    call(c, Access::Change, op, Outs::none(), err, &mut |root| {
        let (engine, id) = (root.engine().clone(), arg::owned(id, "id")?);
        begin_restart(engine, id, StopContainer { grace_ms: Some(grace_ms), ..StopContainer::default() })
    })
}

/// Stops a container if it runs (as coracle_container_stop_with), and starts it.
///
/// how_json: as for coracle_container_stop_with.
///
/// Schemas: how_json container-stop.
///
/// Errors: ENOT_FOUND, EINVALID (how_json; its command is not there, or cannot run), ECANCELLED, ETIMEOUT, ECALLBACK
/// (op; the signal was sent).
///
/// Threads: any. Blocks: until the container runs again, or op ends the call. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_container_restart_with(
    c: *mut coracle,
    id: *const c_char,
    how_json: *const c_char,
    op: *mut coracle_op,
    err: *mut *mut coracle_error,
) -> coracle_status {
    call(c, Access::Change, op, Outs::none(), err, &mut |root| {
        let (engine, id, how) = (root.engine().clone(), arg::owned(id, "id")?, how_to_stop(how_json, root.lenient())?);
        begin_restart(engine, id, how)
    })
}

/// Sends a signal to a container's first process.
///
/// signal: a name with or without SIG, or a number as text; NULL: SIGKILL. The call waits for the effect of SIGKILL.
///
/// Errors: ENOT_FOUND, ECONFLICT (the container does not run), EINVALID (signal), ECANCELLED, ETIMEOUT, ECALLBACK (op).
///
/// Threads: any. Blocks: for SIGKILL until the container has ended, or op ends the call; else no. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_container_kill(
    c: *mut coracle,
    id: *const c_char,
    signal: *const c_char,
    op: *mut coracle_op,
    err: *mut *mut coracle_error,
) -> coracle_status {
    call(c, Access::Change, op, Outs::none(), err, &mut |root| {
        let signal = arg::optional_text(signal, "signal")?.map(str::to_owned);
        let (engine, id) = (root.engine().clone(), arg::owned(id, "id")?);
        work(move |using| {
            if using.is_nonblocking() {
                return Ok(match engine.container_kill_begin(&id, signal.as_deref(), using.op())? {
                    BegunStop::Over(_) => Answer::done(),
                    BegunStop::Pending(stop) => Answer::later(StopOfContainer(stop)),
                });
            }
            using.done(engine.container_kill(&id, signal.as_deref(), using.op())).map(|()| Answer::done())
        })
    })
}

/// Freezes a container's processes.
///
/// Errors: ENOT_FOUND, ECONFLICT (the container does not run, or is paused), ECANCELLED, ETIMEOUT (op).
///
/// Threads: any. Blocks: until they are frozen. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_container_pause(
    c: *mut coracle,
    id: *const c_char,
    op: *mut coracle_op,
    err: *mut *mut coracle_error,
) -> coracle_status {
    call(c, Access::Change, op, Outs::none(), err, &mut |root| {
        let (engine, id) = (root.engine().clone(), arg::owned(id, "id")?);
        work(move |using| using.done(engine.container_pause(&id)).map(|()| Answer::done()))
    })
}

/// Thaws a container's processes.
///
/// Errors: ENOT_FOUND, EINTERNAL (the container is not paused), ECANCELLED, ETIMEOUT (op).
///
/// Threads: any. Blocks: until they are thawed. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_container_unpause(
    c: *mut coracle,
    id: *const c_char,
    op: *mut coracle_op,
    err: *mut *mut coracle_error,
) -> coracle_status {
    call(c, Access::Change, op, Outs::none(), err, &mut |root| {
        let (engine, id) = (root.engine().clone(), arg::owned(id, "id")?);
        work(move |using| using.done(engine.container_unpause(&id)).map(|()| Answer::done()))
    })
}

/// Waits for the end of a container.
///
/// condition: "not-running" (also NULL: the container does not run), "next-exit" (the next end, also if the container does
/// not run yet; or its removal), "removed". *out_code: the exit code of the last run: 0 to 255; 128 + n if signal n ended
/// it; 0 if it never ran. *out_json (may be NULL): {"StatusCode":..., "Error":{"Message":...}}; "Error" only if the container
/// was created with AutoRemove and its removal failed. Free it with coracle_free.
///
/// A wait that is begun (CORACLE_OP_NONBLOCK) misses no end after this call returned: begin a wait for "next-exit", start
/// the container, then poll.
///
/// Schemas: out_json container-wait.
///
/// Errors: ENOT_FOUND (also after the end of a container with AutoRemove), EINVALID (condition), ECANCELLED, ETIMEOUT,
/// ECALLBACK (op).
///
/// Threads: any. Blocks: until that happens, or op ends the call. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_container_wait(
    c: *mut coracle,
    id: *const c_char,
    condition: *const c_char,
    op: *mut coracle_op,
    out_code: *mut i32,
    out_json: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    let outs = Outs::none().code(out_code).optional_json(out_json);
    call(c, Access::Read, op, outs, err, &mut |root| {
        let id = arg::text(id, "id")?;
        let condition = WaitCondition::parse(arg::optional_text(condition, "condition")?.unwrap_or_default())?;
        wait(EndOfContainer(root.engine().container_wait_begin(id, condition)?))
    })
}

/// Gets a pidfd of a running container's first process, for the caller's own event loop: readable when the process ended.
///
/// *out_fd: the caller's to close (close-on-exec); -1 on failure. The process is not a child of the caller: ask
/// coracle_container_wait for the exit code. With CORACLE_OP_NONBLOCK coracle_container_wait gives a descriptor and the code.
///
/// Errors: ENOT_FOUND, ECONFLICT (the container does not run).
///
/// Threads: any. Blocks: no. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_container_pidfd(
    c: *mut coracle,
    id: *const c_char,
    out_fd: *mut i32,
    err: *mut *mut coracle_error,
) -> coracle_status {
    let out = Out::new(out_fd, -1);
    with_root(c, Access::Read, err, |root| {
        out.check("out_fd")?;
        out.set(root.engine().container_pidfd(arg::text(id, "id")?)?.into_raw_fd());
        Ok(CORACLE_OK)
    })
}

/// Removes a container.
///
/// flags: CORACLE_REMOVE_FORCE, CORACLE_REMOVE_VOLUMES, CORACLE_REMOVE_LINK, or 0.
///
/// Errors: ENOT_FOUND, ECONFLICT (the container runs, and no force; the container is being removed), EINVALID (flags),
/// ECANCELLED, ETIMEOUT (op).
///
/// Threads: any. Blocks: disk; with force until the container has ended, or op ends the call. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_container_remove(
    c: *mut coracle,
    id: *const c_char,
    flags: u64,
    op: *mut coracle_op,
    err: *mut *mut coracle_error,
) -> coracle_status {
    call(c, Access::Change, op, Outs::none(), err, &mut |root| {
        let id = arg::owned(id, "id")?;
        let known = CORACLE_REMOVE_FORCE | CORACLE_REMOVE_VOLUMES | CORACLE_REMOVE_LINK;
        let flags = arg::flags(flags, known, "flags")?;
        let how = RemoveContainer {
            force: flags & CORACLE_REMOVE_FORCE != 0,
            volumes: flags & CORACLE_REMOVE_VOLUMES != 0,
            link: flags & CORACLE_REMOVE_LINK != 0,
        };
        let engine = root.engine().clone();
        work(move |using| {
            // A container that does not run, or has lost its monitor, is the removal's own affair.
            if using.is_nonblocking()
                && how.force
                && !how.link
                && let Ok(BegunStop::Pending(stop)) = engine.container_kill_begin(&id, None, using.op())
            {
                let remove = move |using: &Using| remove_killed(&engine, &id, how, using);
                return Ok(Answer::later(StopFirst { stop: StopOfContainer(stop), rest: Some(Box::new(remove)) }));
            }
            using.done(engine.container_remove(&id, how, using.op())).map(|()| Answer::done())
        })
    })
}

/// Removes the containers that do not run, but not their volumes.
///
/// filters_json: NULL, or an object of lists as the "filters" of coracle_container_list: only those that match are
/// removed. *out_json: an object with "ContainersDeleted" (a list of ids) and "SpaceReclaimed" in bytes; free it with
/// coracle_free.
///
/// Schemas: filters_json filters, out_json container-prune.
///
/// Errors: EINVALID (a filter), ECANCELLED, ETIMEOUT (op). Objects that were removed before an error stay removed.
///
/// Threads: any. Blocks: until all containers were looked at, or op ends the call. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_container_prune(
    c: *mut coracle,
    filters_json: *const c_char,
    op: *mut coracle_op,
    out_json: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    call(c, Access::Change, op, Outs::none().json(out_json), err, &mut |root| {
        let filters = Query::filters_of(filters_json, "filters_json")?;
        let engine = root.engine().clone();
        work(move |using| Answer::document(&using.done(engine.containers_prune(&filters, using.op()))?))
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

/// Lists the processes of a running container, as ps shows them.
///
/// ps_args: the arguments of ps; NULL: "-ef". *out_json: the document of GET /containers/{id}/top; free it with
/// coracle_free.
///
/// Schemas: out_json container-top.
///
/// Errors: ENOT_FOUND, ECONFLICT (the container does not run), EINTERNAL (ps_args).
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
    let out = Out::null(out_json);
    with_root(c, Access::Read, err, |root| {
        out.check("out_json")?;
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
/// Schemas: body_json container-update, out_json container-updated.
///
/// Errors: ENOT_FOUND, EINVALID (a value, named), ECONFLICT (memory above the swap limit), EINTERNAL (the kernel
/// refuses a value, such as less memory than is in use; nothing is changed then), ECANCELLED, ETIMEOUT (op).
///
/// Threads: any. Blocks: disk; while the kernel takes memory back. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_container_update(
    c: *mut coracle,
    id: *const c_char,
    body_json: *const c_char,
    op: *mut coracle_op,
    out_json: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    call(c, Access::Change, op, Outs::none().json(out_json), err, &mut |root| {
        let (body, unknown): (UpdateContainer, _) =
            arg::document(body_json, "body_json", Document::Update, root.lenient())?;
        let (engine, id) = (root.engine().clone(), arg::owned(id, "id")?);
        work(move |using| {
            let mut updated = using.done(engine.container_update(&id, &body))?;
            updated.warnings.extend(unknown);
            Answer::document(&updated)
        })
    })
}

/// Samples the resources that a container uses: CPU, memory, block devices, network, processes.
///
/// query_json: NULL, or an object with any of "stream" (default true: a sample at once and then one a second until the
/// container is removed; false: one, after a second in which "precpu_stats" is taken), "one-shot" (with "stream" false:
/// one at once). *out: records for coracle_stream_next, each the document of GET /containers/{id}/stats; its descriptor
/// is readable when the next is due; end it with coracle_stream_free.
///
/// Schemas: query_json container-stats-query, record container-stats.
///
/// Errors: ENOT_FOUND, EINVALID (query_json), ECANCELLED, ETIMEOUT (op).
///
/// Threads: any. Blocks: disk; the stream's calls until a sample is due. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_container_stats(
    c: *mut coracle,
    id: *const c_char,
    query_json: *const c_char,
    op: *mut coracle_op,
    out: *mut *mut coracle_stream,
    err: *mut *mut coracle_error,
) -> coracle_status {
    call(c, Access::Read, op, Outs::none().stream(out), err, &mut |root| {
        let (engine, id) = (root.engine().clone(), arg::owned(id, "id")?);
        let query = Query::new(query_json, "query_json", &["one-shot", "stream"], root.lenient())?;
        let query = StatsQuery { stream: query.flag("stream", true)?, one_shot: query.flag("one-shot", false)? };
        work(move |using| {
            let stats = using.done(engine.container_stats(&id, query))?;
            Ok(Answer::stream(Stream::stats(stats)))
        })
    })
}

/// Reads a container's log.
///
/// query_json: NULL, or an object with any of "stdout", "stderr" (both where neither is given), "since" (seconds since
/// 1970, with a fraction if wanted), "tail" (a number, or "all"), "follow", "timestamps" and "details" (the time and the
/// attributes stand before each line, as in GET /containers/{id}/logs). *out: records for coracle_stream_next, which have
/// channel and time apart, too; end the stream with coracle_stream_free.
///
/// Schemas: query_json container-logs-query.
///
/// Errors: ENOT_FOUND, EINVALID (query_json), EUNSUPPORTED (its log driver cannot be read), ECANCELLED, ETIMEOUT (op).
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
    call(c, Access::Read, op, Outs::none().stream(out), err, &mut |root| {
        let (engine, id) = (root.engine().clone(), arg::owned(id, "id")?);
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
        work(move |using| {
            let log = using.done(engine.container_logs(&id, &query, using.op()))?;
            Ok(Answer::stream(Stream::log(log, form)))
        })
    })
}

/// Attaches to a container's standard streams.
///
/// io: NULL is CORACLE_IO_INIT: the library makes the streams. query_json: NULL, or an object with any of "stdin",
/// "stdout", "stderr" (all if none is given), "wait" (true: the call returns before the container runs; the session has the
/// container's output from the first byte on). *out: the session; end it with coracle_session_free.
///
/// Schemas: query_json container-attach-query.
///
/// Errors: ENOT_FOUND, ECONFLICT (the container does not run, and no "wait"; the container is paused), EINVALID (query_json),
/// ECANCELLED, ETIMEOUT (op).
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
    call(c, Access::Change, op, Outs::none().session(out, true), err, &mut |root| {
        let (engine, id) = (root.engine().clone(), arg::owned(id, "id")?);
        let io = self::io(io)?.unwrap_or_default();
        let query = Query::new(query_json, "query_json", &["stderr", "stdin", "stdout", "wait"], root.lenient())?;
        let all = !["stdin", "stdout", "stderr"].iter().any(|name| query.has(name));
        let streams = AttachStreams {
            stdin: query.flag("stdin", all)?,
            stdout: query.flag("stdout", all)?,
            stderr: query.flag("stderr", all)?,
        };
        let how = AttachOptions { streams, wait_for_start: query.flag("wait", false)? };
        work(move |using| {
            let session = using.done(engine.container_attach(&id, io, how, using.op()))?;
            Ok(Answer::done().and_session(Some(session)))
        })
    })
}

/// Describes a container's launch in words, one line a step, with the kernel's answer to the step at which the last start
/// failed.
///
/// *out_json: an object with "Id", "Name", "Steps" (a list of {"Number", "Text"}, and "Failed" where it failed), "Error" (why
/// the last start failed, or ""), "FailedStep", "Errno" (0: none) and "ErrnoName"; free it with coracle_free.
///
/// Schemas: out_json launch-plan.
///
/// Errors: ENOT_FOUND, ECONFLICT (a container whose namespaces it shares does not run).
///
/// Threads: any. Blocks: disk. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_container_explain(
    c: *mut coracle,
    id: *const c_char,
    out_json: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    let out = Out::null(out_json);
    with_root(c, Access::Read, err, |root| {
        out.check("out_json")?;
        out.give_json(&root.engine().container_explain(arg::text(id, "id")?)?)?;
        Ok(CORACLE_OK)
    })
}

/// The end of a container, for a program that polls for it.
struct EndOfContainer(ContainerWait);

impl Wait for EndOfContainer {
    fn fd(&self) -> RawFd {
        self.0.fd().as_raw_fd()
    }

    fn step(&mut self) -> Outcome<Option<Answer>> {
        self.0.try_wait()?.as_ref().map(waited).transpose()
    }
}

/// A stop, for a program that polls for its end.
struct StopOfContainer(ContainerStop);

impl Wait for StopOfContainer {
    fn fd(&self) -> RawFd {
        self.0.fd().as_raw_fd()
    }

    fn deadline(&self) -> Option<Instant> {
        self.0.due()
    }

    fn step(&mut self) -> Outcome<Option<Answer>> {
        Ok(self.0.try_stop()?.map(Answer::changed))
    }
}

/// The end of a container, and the rest of a call that ends it first.
struct StopFirst {
    stop: StopOfContainer,
    rest: Option<Run>,
}

impl Wait for StopFirst {
    fn fd(&self) -> RawFd {
        self.stop.fd()
    }

    fn deadline(&self) -> Option<Instant> {
        self.stop.deadline()
    }

    fn step(&mut self) -> Outcome<Option<Answer>> {
        Ok(self.stop.step()?.map(|stopped| self.rest.take().map_or(stopped, Answer::then)))
    }
}

/// The end that a restart begins with; the start behind it is the rest of the call.
struct EndBeforeStart {
    fd: RawFd,
    restart: Option<ContainerRestart>,
}

impl Wait for EndBeforeStart {
    fn fd(&self) -> RawFd {
        self.fd
    }

    fn deadline(&self) -> Option<Instant> {
        self.restart.as_ref().and_then(ContainerRestart::due)
    }

    fn step(&mut self) -> Outcome<Option<Answer>> {
        let Some(mut restart) = self.restart.take() else { return Ok(None) };
        if restart.try_end()? {
            return Ok(Some(Answer::then(Box::new(move |using| finish_restart(restart, using)))));
        }
        self.restart = Some(restart);
        Ok(None)
    }
}

/// The work of a restart, which takes no thread while the container ends.
fn begin_restart(engine: Engine, id: String, how: StopContainer) -> Outcome<Work> {
    work(move |using| {
        if !using.is_nonblocking() {
            let restarted = engine.container_restart_with(&id, &how, using.op());
            return using.done(restarted).map(|()| Answer::done());
        }
        let restart = engine.container_restart_begin(&id, &how, using.op())?;
        match restart.fd().map(|fd| fd.as_raw_fd()) {
            Some(fd) => Ok(Answer::later(EndBeforeStart { fd, restart: Some(restart) })),
            None => finish_restart(restart, using),
        }
    })
}

fn finish_restart(restart: ContainerRestart, using: &Using) -> Outcome<Answer> {
    using.done(restart.finish(using.op())).map(|()| Answer::done())
}

/// Removes a container that was killed first.
fn remove_killed(engine: &Engine, id: &str, how: RemoveContainer, using: &Using) -> Outcome<Answer> {
    match engine.container_remove(id, how, using.op()) {
        // One with AutoRemove was removed when it had ended.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Answer::done()),
        result => using.done(result).map(|()| Answer::done()),
    }
}

fn waited(waited: &ContainerWaited) -> Outcome<Answer> {
    Answer::code(waited.status_code).and_document(waited)
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
