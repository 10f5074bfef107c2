//! Files in and out of containers.

use crate::answer::{Answer, Outs};
use crate::arg;
use crate::call::call;
use crate::failure::Outcome;
use crate::query::Query;
use crate::reader::{Ending, Stream};
use crate::root::Access;
use crate::source::Input;
use crate::types::*;
use crate::using::Using;
use crate::work::{Work, work};
use coracle_http::Document;
use engine::model::{CommitContainer, ContainerConfig, PutArchive};
use libc::{c_char, c_void};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

/// Describes the file at a path of a container.
///
/// path: absolute in the container; a link at its end is not followed unless it ends in "/" or "/.". *out_json: an object
/// with "name", "size", "mode", "mtime", "linkTarget", as X-Docker-Container-Path-Stat has it; free it with coracle_free.
///
/// Schemas: out_json path-stat.
///
/// Errors: ENOT_FOUND (container, file), EINVALID (path; no directory there), ECANCELLED, ETIMEOUT (op).
///
/// Threads: any. Blocks: disk, or op. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_container_stat_path(
    c: *mut coracle,
    id: *const c_char,
    path: *const c_char,
    op: *mut coracle_op,
    out_json: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    call(c, Access::Read, op, Outs::none().json(out_json), err, &mut |root| {
        let engine = root.engine().clone();
        let (id, path) = (arg::owned(id, "id")?, arg::owned(path, "path")?);
        work(move |using| Answer::document(&using.done(engine.container_archive_stat(&id, &path, using.op()))?))
    })
}

/// Copies files out of a container, as a tar.
///
/// path: as of coracle_container_stat_path; of a directory that ends in "/." only its content. *out: the tar's bytes; read
/// them to their end, where an error shows that the tar is not whole; end it with coracle_stream_free. *out_json (may be
/// NULL): the description of the file at path; free it with coracle_free.
///
/// Schemas: out_json path-stat.
///
/// Errors: ENOT_FOUND (container, file), EINVALID (path; no directory there), ECANCELLED, ETIMEOUT (op).
///
/// Threads: any. Blocks: disk, or op; the stream's calls. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_container_get_archive(
    c: *mut coracle,
    id: *const c_char,
    path: *const c_char,
    op: *mut coracle_op,
    out: *mut *mut coracle_stream,
    out_json: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    let outs = Outs::none().stream(out).optional_json(out_json);
    call(c, Access::Read, op, outs, err, &mut |root| {
        let engine = root.engine().clone();
        let (id, path) = (arg::owned(id, "id")?, arg::owned(path, "path")?);
        work(move |using| {
            let archive = using.done(engine.container_archive_get(&id, &path, using.op()))?;
            let answer = Answer::document(archive.stat())?;
            Ok(answer.and_stream(streamed("archive", move |sink| archive.write_to(sink, None))?))
        })
    })
}

/// Puts files into a container: extracts a tar, plain or compressed, into a directory of it.
///
/// query_json: NULL, or an object with any of "noOverwriteDirNonDir" and "copyUIDGID" (the files get the container's
/// user). tar, user: the function that gives the archive.
///
/// Schemas: query_json container-put-archive-query.
///
/// Errors: ENOT_FOUND (container, directory), EINVALID (archive; a directory and something else in one place),
/// EFORBIDDEN (read-only there), ECALLBACK, ECANCELLED, ETIMEOUT, EIO (disk full).
///
/// Threads: any; the callbacks come on the calling thread. Blocks: until the archive is in, or op ends the call. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_container_put_archive(
    c: *mut coracle,
    id: *const c_char,
    path: *const c_char,
    query_json: *const c_char,
    tar: coracle_read_fn,
    user: *mut c_void,
    op: *mut coracle_op,
    err: *mut *mut coracle_error,
) -> coracle_status {
    call(c, Access::Change, op, Outs::none(), err, &mut |root| {
        let query = Query::new(query_json, "query_json", &["noOverwriteDirNonDir", "copyUIDGID"], root.lenient())?;
        let how = PutArchive {
            no_overwrite_dir_non_dir: query.flag("noOverwriteDirNonDir", false)?,
            copy_uid_gid: query.flag("copyUIDGID", false)?,
        };
        let (id, path) = (arg::owned(id, "id")?, arg::owned(path, "path")?);
        let (engine, input) = (root.engine().clone(), Input::new(tar, user, "tar")?);
        let put = move |using: &Using| {
            let mut source = input.source(using)?;
            let result = engine.container_archive_put(&id, &path, &mut source, how, using.op());
            source.done(result).map(|()| Answer::done())
        };
        work(put).map(Work::long)
    })
}

/// Writes a container's whole file system as a tar, without binds and volumes.
///
/// *out: the tar's bytes; read them to their end, where an error shows that the tar is not whole; end it with
/// coracle_stream_free.
///
/// Errors: ENOT_FOUND, ECANCELLED, ETIMEOUT (op).
///
/// Threads: any. Blocks: disk; the stream's calls. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_container_export(
    c: *mut coracle,
    id: *const c_char,
    op: *mut coracle_op,
    out: *mut *mut coracle_stream,
    err: *mut *mut coracle_error,
) -> coracle_status {
    call(c, Access::Read, op, Outs::none().stream(out), err, &mut |root| {
        let (engine, id) = (root.engine().clone(), arg::owned(id, "id")?);
        work(move |using| {
            let id = using.done(engine.container_inspect(&id, false))?.id;
            Ok(Answer::stream(streamed("export", move |sink| engine.container_export(&id, sink, None))?))
        })
    })
}

/// Lists the files that a container changed, compared with its image.
///
/// *out_json: a list of {"Path", "Kind"}, Kind 0 modified, 1 added, 2 deleted; free it with coracle_free.
///
/// Schemas: out_json container-changes.
///
/// Errors: ENOT_FOUND, ECANCELLED, ETIMEOUT (op).
///
/// Threads: any. Blocks: disk. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_container_changes(
    c: *mut coracle,
    id: *const c_char,
    op: *mut coracle_op,
    out_json: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    call(c, Access::Read, op, Outs::none().json(out_json), err, &mut |root| {
        let (engine, id) = (root.engine().clone(), arg::owned(id, "id")?);
        work(move |using| Answer::document(&using.done(engine.container_changes(&id))?))
    })
}

/// Makes an image of a container, without its volumes.
///
/// query_json: NULL, or an object with any of "repo", "tag", "comment", "author", "pause" (true unless said), "changes" (a
/// list of build instructions). config_json: NULL, or a configuration laid over the container's. *out_id: the image's id;
/// free it with coracle_free.
///
/// Schemas: query_json container-commit-query, config_json container-config.
///
/// Errors: ENOT_FOUND, EINVALID (name, changes), ECANCELLED, ETIMEOUT (op), EIO (disk full).
///
/// Threads: any. Blocks: until the image is on disk, or op ends the call. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_container_commit(
    c: *mut coracle,
    id: *const c_char,
    query_json: *const c_char,
    config_json: *const c_char,
    op: *mut coracle_op,
    out_id: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    call(c, Access::Change, op, Outs::none().id(out_id), err, &mut |root| {
        let query = Query::new(
            query_json,
            "query_json",
            &["author", "changes", "comment", "pause", "repo", "tag"],
            root.lenient(),
        )?;
        let how = CommitContainer {
            repo: query.text("repo")?,
            tag: query.text("tag")?,
            comment: query.text("comment")?,
            author: query.text("author")?,
            pause: query.flag("pause", true)?,
            changes: query.texts("changes")?,
            config: arg::document_or_default::<Option<ContainerConfig>>(
                config_json,
                "config_json",
                Document::Config,
                root.lenient(),
            )?,
        };
        let (engine, id) = (root.engine().clone(), arg::owned(id, "id")?);
        let commit = move |using: &Using| Answer::id(&using.done(engine.container_commit(&id, &how, using.op()))?);
        work(commit).map(Work::long)
    })
}

/// A socket that raises no SIGPIPE, whatever the host does with that signal.
pub(crate) struct Sink(UnixStream);

impl Write for Sink {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        // SAFETY: the data is readable for its length over the call.
        let sent = unsafe { libc::send(self.0.as_raw_fd(), data.as_ptr().cast(), data.len(), libc::MSG_NOSIGNAL) };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A stream of the bytes that `write` writes, on a thread of its own.
pub(crate) fn streamed(
    name: &'static str,
    write: impl FnOnce(&mut Sink) -> engine::Result<()> + Send + 'static,
) -> Outcome<Stream> {
    let (ours, theirs) = UnixStream::pair().map_err(|error| engine::Error::io("socket pair", &error))?;
    let ending = Ending::own();
    let stream = Stream::bytes(theirs.into(), ending.clone());
    crate::thread::spawn(name, move || {
        let mut sink = Sink(ours);
        if let Err(failure) = crate::entry::catch(|| Ok(write(&mut sink)?)) {
            ending.fail(failure);
        }
    })?;
    Ok(stream)
}
