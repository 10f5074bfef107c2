//! Images: those that are here.

use crate::arg::{self, Out};
use crate::entry::{Failure, Outcome};
use crate::handle;
use crate::op::Using;
use crate::query::Query;
use crate::root::{Access, with_root};
use crate::stream::{Ending, Stream};
use crate::types::*;
use engine::Context;
use engine::model::{BuildImage, ImportImage, ListImages, RemoveImage, VerifyImages};
use libc::{c_char, c_void};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

/// Lists images, newest first.
///
/// query_json: NULL, or an object with any of "all", "filter", "filters" (as in GET /images/json). *out_json: its
/// document; free it with coracle_free.
///
/// Errors: EINVALID (a filter).
///
/// Threads: any. Blocks: disk. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_image_list(
    c: *mut coracle,
    query_json: *const c_char,
    out_json: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    with_root(c, Access::Read, err, |root| {
        let out = Out::null(out_json, "out_json")?;
        let query = Query::new(query_json, "query_json", &["all", "digests", "filter", "filters"], root.lenient())?;
        let query =
            ListImages { all: query.flag("all", false)?, filter: query.text("filter")?, filters: query.filters()? };
        out.give_json(&root.engine().image_list(&query)?)?;
        Ok(CORACLE_OK)
    })
}

/// Makes an image of a root file system tar, plain or compressed.
///
/// query_json: NULL, or an object with any of "repo", "tag", "message", "changes" (a list of build instructions), "url".
/// rootfs_tar, user: gives the archive; NULL where it is to be fetched from "url". *out_id: the image's id; free it with
/// coracle_free. Progress records go to op.
///
/// Errors: EINVALID (archive, reference, changes), EINTERNAL (the server of "url"), ECALLBACK, ECANCELLED, ETIMEOUT, EIO
/// (disk full).
///
/// Threads: any; the callbacks come on the calling thread. Blocks: until the archive is in, or op ends it. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_image_import(
    c: *mut coracle,
    query_json: *const c_char,
    rootfs_tar: coracle_read_fn,
    user: *mut c_void,
    op: *mut coracle_op,
    out_id: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    with_root(c, Access::Change, err, |root| {
        let out = Out::null(out_id, "out_id")?;
        let query =
            Query::new(query_json, "query_json", &["changes", "message", "repo", "tag", "url"], root.lenient())?;
        let how = ImportImage {
            repo: query.text("repo")?,
            tag: query.text("tag")?,
            message: query.text("message")?,
            source: "-".into(),
            changes: query.texts("changes")?,
        };
        let url = query.text("url")?;
        let using = Using::new(op)?;
        let mut report = |record| using.progress(&record);
        let id = if rootfs_tar.is_none() && !url.is_empty() {
            using.done(root.engine().image_import_url(&url, &how, &mut report, using.op()))?
        } else {
            let mut source = Source::new(rootfs_tar, user, "rootfs_tar", &using)?;
            let result = root.engine().image_import(&mut source, &how, &mut report, using.op());
            source.done(result)?
        };
        out.give_text(&id)?;
        Ok(CORACLE_OK)
    })
}

/// Builds an image of a build file, as docker's classic builder does.
///
/// query_json: NULL, or an object with the parameters of POST /build by their names: "t" and "cachefrom" are lists of names,
/// "buildargs" and "labels" objects, "ulimits" a list of objects, "extrahosts" and "securityopt" lists of texts; "auths" maps
/// registries to credentials; "file" is the build file itself, in place of one in the context. ctx_tar, user: gives the
/// context, a tar, plain or compressed; NULL where "remote" or "file" says enough. *out_id: the image's id; free it with
/// coracle_free. Progress records go to op: "stream" holds what the builder says.
///
/// Nothing is visible before the end, and then it is on disk. The steps that a failed build had done stay for the next build.
///
/// Errors: EINVALID (a mistake in the build file, with its line; query_json), ENOT_FOUND (a source, an image), EINTERNAL
/// (a command that failed: its exit code is the member "exitCode" of the error's detail), ECALLBACK, ECANCELLED, ETIMEOUT.
///
/// Threads: any; the callbacks come on the calling thread. Blocks: until the build is over, or op ends it. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_image_build(
    c: *mut coracle,
    query_json: *const c_char,
    ctx_tar: coracle_read_fn,
    user: *mut c_void,
    op: *mut coracle_op,
    out_id: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    with_root(c, Access::Change, err, |root| {
        let out = Out::null(out_id, "out_id")?;
        let build = asked_build(query_json, root.lenient())?;
        let using = Using::new(op)?;
        let mut report = |record| using.progress(&record);
        let id = if ctx_tar.is_none() {
            using.done(root.engine().image_build(&build, Context::None, &mut report, using.op()))?
        } else {
            let mut source = Source::new(ctx_tar, user, "ctx_tar", &using)?;
            let result = root.engine().image_build(&build, Context::Tar(&mut source), &mut report, using.op());
            source.done(result)?
        };
        out.give_text(&id)?;
        Ok(CORACLE_OK)
    })
}

/// Builds an image from a directory of this machine, without a tar of the directory.
///
/// ctx_dirfd: the directory, open; what its ".dockerignore" names is left out, and all of it is root's in the image.
///
/// Errors: as coracle_image_build; EINVALID (ctx_dirfd is not an open directory).
///
/// Threads: any; the callbacks come on the calling thread. Blocks: until the build is over, or op ends it. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_image_build_dir(
    c: *mut coracle,
    query_json: *const c_char,
    ctx_dirfd: i32,
    op: *mut coracle_op,
    out_id: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    with_root(c, Access::Change, err, |root| {
        let out = Out::null(out_id, "out_id")?;
        let build = asked_build(query_json, root.lenient())?;
        let wrong = || Failure::invalid("ctx_dirfd is not an open directory");
        let dir = arg::duplicate(ctx_dirfd, "ctx_dirfd")?.ok_or_else(wrong)?;
        let using = Using::new(op)?;
        let mut report = |record| using.progress(&record);
        let context = Context::Descriptor(dir.as_fd());
        let id = using.done(root.engine().image_build(&build, context, &mut report, using.op()))?;
        out.give_text(&id)?;
        Ok(CORACLE_OK)
    })
}

/// Loads every image of an archive: docker save's, both layouts, or an OCI layout; plain or compressed.
///
/// tar, user: gives the archive. *out_json: a list of the names (or ids) that were loaded; free it with coracle_free.
/// Progress records go to op. Nothing is visible of an image before all of it is on disk.
///
/// Errors: EINVALID (archive; a digest does not fit), ECALLBACK, ECANCELLED, ETIMEOUT, EIO (disk full).
///
/// Threads: any; the callbacks come on the calling thread. Blocks: until the archive is in, or op ends it. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_image_load(
    c: *mut coracle,
    tar: coracle_read_fn,
    user: *mut c_void,
    op: *mut coracle_op,
    out_json: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    with_root(c, Access::Change, err, |root| {
        let out = Out::null(out_json, "out_json")?;
        let using = Using::new(op)?;
        let mut source = Source::new(tar, user, "tar", &using)?;
        let result = root.engine().image_load(&mut source, &mut |record| using.progress(&record), using.op());
        out.give_json(&source.done(result)?)?;
        Ok(CORACLE_OK)
    })
}

/// Writes images as an archive: docker save's, or an OCI layout.
///
/// refs_json: a list of names, one name as a JSON string, or an object with "names" and "layout" (docker, oci). *out: the
/// archive's bytes; read them to their end, where an error shows that the archive is not whole; end it with
/// coracle_stream_free, which also breaks it off.
///
/// Errors: EINVALID (refs_json), ENOT_FOUND (an image).
///
/// Threads: any. Blocks: disk; the stream's calls. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_image_save(
    c: *mut coracle,
    refs_json: *const c_char,
    op: *mut coracle_op,
    out: *mut *mut coracle_stream,
    err: *mut *mut coracle_error,
) -> coracle_status {
    with_root(c, Access::Read, err, |root| {
        let out = Out::null(out, "out")?;
        let (names, oci) = names(refs_json)?;
        let using = Using::new(op)?;
        for name in &names {
            using.done(root.engine().image_inspect(name))?;
        }
        let (ours, theirs) = UnixStream::pair().map_err(|error| engine::Error::io("socket pair", &error))?;
        let (ending, engine) = (Ending::own(), root.engine().clone());
        let stream = Stream::bytes(theirs.into(), ending.clone());
        crate::thread::spawn("save", move || {
            let mut sink = Sink(ours);
            let result = crate::entry::catch(|| match oci {
                true => Ok(engine.image_save_oci(&names, &mut sink, None)?),
                false => Ok(engine.image_save(&names, &mut sink, None)?),
            });
            if let Err(failure) = result {
                ending.fail(failure);
            }
        })?;
        out.set(handle::give(stream));
        Ok(CORACLE_OK)
    })
}

/// Removes images that nothing uses.
///
/// filters_json: NULL, or an object of lists: "dangling" (default ["true"]: images without a name; ["false"]: all that no
/// container was made from), "until" (Unix seconds or RFC 3339), "label", "label!". *out_json: an object with
/// "ImagesDeleted" (as coracle_image_remove gives it, or null) and "SpaceReclaimed" in bytes; free it with coracle_free.
///
/// Errors: EINVALID (a filter).
///
/// Threads: any. Blocks: disk. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_images_prune(
    c: *mut coracle,
    filters_json: *const c_char,
    out_json: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    with_root(c, Access::Change, err, |root| {
        let out = Out::null(out_json, "out_json")?;
        let filters = Query::filters_of(filters_json, "filters_json")?;
        out.give_json(&root.engine().images_prune(&filters)?)?;
        Ok(CORACLE_OK)
    })
}

/// Looks at every layer and configuration of the store, and repairs what can be where that is asked for.
///
/// query_json: NULL, or an object with any of "repair" (default false) and "auths" (an object of registry to
/// credentials as for coracle_image_pull). *out_json: an object with "Layers" and "Images" (how many) and "Damage": a list
/// of objects with "Part" (layer, image, database), "Id", "Images", "Reason", "Repaired", "Unrepaired"; free it with
/// coracle_free. A call that finds damage succeeds, too. Progress records go to op.
///
/// Errors: EINVALID (query_json), ECALLBACK, ECANCELLED, ETIMEOUT, EIO (disk full).
///
/// Threads: any; the callbacks come on the calling thread. Blocks: until all was read, or op ends it. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_verify(
    c: *mut coracle,
    query_json: *const c_char,
    op: *mut coracle_op,
    out_json: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    with_root(c, Access::Change, err, |root| {
        let out = Out::null(out_json, "out_json")?;
        let text = arg::optional_text(query_json, "query_json")?;
        // Not the parser's words: they may show what it read.
        let request = text.map_or_else(
            || Ok(VerifyImages::default()),
            |text| serde_json::from_str(text).map_err(|_| Failure::invalid("query_json is not such an object")),
        )?;
        let using = Using::new(op)?;
        let result = root.engine().verify(&request, &mut |record| using.progress(&record), using.op());
        out.give_json(&using.done(result)?)?;
        Ok(CORACLE_OK)
    })
}

/// Everything about one image.
///
/// ref: name, id, digest, or the beginning of an id that only one has; so in every function. *out_json: the document of
/// GET /images/{name}/json; free it with coracle_free.
///
/// Errors: ENOT_FOUND.
///
/// Threads: any. Blocks: disk. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_image_inspect(
    c: *mut coracle,
    r#ref: *const c_char,
    out_json: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    with_root(c, Access::Read, err, |root| {
        let out = Out::null(out_json, "out_json")?;
        out.give_json(&root.engine().image_inspect(arg::text(r#ref, "ref")?)?)?;
        Ok(CORACLE_OK)
    })
}

/// The steps that an image was made of, newest first.
///
/// *out_json: the document of GET /images/{name}/history; free it with coracle_free.
///
/// Errors: ENOT_FOUND.
///
/// Threads: any. Blocks: disk. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_image_history(
    c: *mut coracle,
    r#ref: *const c_char,
    out_json: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    with_root(c, Access::Read, err, |root| {
        let out = Out::null(out_json, "out_json")?;
        out.give_json(&root.engine().image_history(arg::text(r#ref, "ref")?)?)?;
        Ok(CORACLE_OK)
    })
}

/// Gives an image another name.
///
/// new_ref: repository[:tag]; the tag is "latest" where none is given.
///
/// Errors: ENOT_FOUND, EINVALID (new_ref).
///
/// Threads: any. Blocks: disk. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_image_tag(
    c: *mut coracle,
    r#ref: *const c_char,
    new_ref: *const c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    with_root(c, Access::Change, err, |root| {
        root.engine().image_tag(arg::text(r#ref, "ref")?, arg::text(new_ref, "new_ref")?)?;
        Ok(CORACLE_OK)
    })
}

/// Takes a name from an image and, where nothing else holds it, deletes it.
///
/// flags: CORACLE_IMAGE_REMOVE_FORCE, CORACLE_IMAGE_REMOVE_NO_PRUNE, or 0. *out_json: the document of
/// DELETE /images/{name}; free it with coracle_free.
///
/// Errors: ENOT_FOUND, ECONFLICT (a container uses it), EINVALID (flags).
///
/// Threads: any. Blocks: disk. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_image_remove(
    c: *mut coracle,
    r#ref: *const c_char,
    flags: u64,
    out_json: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    with_root(c, Access::Change, err, |root| {
        let out = Out::null(out_json, "out_json")?;
        let name = arg::text(r#ref, "ref")?;
        let flags = arg::flags(flags, CORACLE_IMAGE_REMOVE_FORCE | CORACLE_IMAGE_REMOVE_NO_PRUNE, "flags")?;
        let how = RemoveImage {
            force: flags & CORACLE_IMAGE_REMOVE_FORCE != 0,
            no_prune: flags & CORACLE_IMAGE_REMOVE_NO_PRUNE != 0,
        };
        out.give_json(&root.engine().image_remove(name, how)?)?;
        Ok(CORACLE_OK)
    })
}

/// The parameters of a build. An object: a list would pass for one, field by field.
fn asked_build(query_json: *const c_char, lenient: bool) -> Outcome<BuildImage> {
    let fields = serde_json::to_value(BuildImage::default()).unwrap_or_default();
    let known: Vec<&str> =
        fields.as_object().into_iter().flat_map(|fields| fields.keys().map(String::as_str)).collect();
    Query::new(query_json, "query_json", &known, lenient)?;
    arg::json_or_default(query_json, "query_json")
}

/// The caller's read function. Its operation is asked before each call: a slow source ends as soon as it gave something.
pub(crate) struct Source<'a> {
    call: unsafe extern "C" fn(*mut c_void, *mut c_void, usize) -> i64,
    user: *mut c_void,
    argument: &'static str,
    using: &'a Using,
    ended: Option<Ended>,
}

/// Why nothing more is read.
enum Ended {
    Refused(i64),
    Operation(engine::Error),
}

impl<'a> Source<'a> {
    pub(crate) fn new(
        function: coracle_read_fn,
        user: *mut c_void,
        argument: &'static str,
        using: &'a Using,
    ) -> Outcome<Source<'a>> {
        let call = function.ok_or_else(|| Failure::invalid(format!("{argument} is NULL")))?;
        Ok(Source { call, user, argument, using, ended: None })
    }

    /// The outcome, with what ended the reading in place of what the engine made of it.
    pub(crate) fn done<T>(self, result: engine::Result<T>) -> Outcome<T> {
        match (result, self.ended) {
            (Err(_), Some(Ended::Refused(number))) => Err(Failure::callback(self.argument, number)),
            (Err(_), Some(Ended::Operation(error))) => self.using.done(Err(error)),
            (result, _) => self.using.done(result),
        }
    }

    fn fill(&self, buffer: &mut [u8]) -> Result<usize, Ended> {
        self.using.op().map_or(Ok(()), |op| op.check()).map_err(Ended::Operation)?;
        // SAFETY: the header's contract for read functions; the buffer is writable for its length over the call.
        let count = unsafe { (self.call)(self.user, buffer.as_mut_ptr().cast(), buffer.len()) };
        usize::try_from(count).ok().filter(|&count| count <= buffer.len()).ok_or(Ended::Refused(count))
    }
}

impl Read for Source<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let told = || io::Error::other("the source was ended");
        if self.ended.is_some() {
            return Err(told());
        }
        self.fill(buffer).map_err(|ended| {
            self.ended = Some(ended);
            told()
        })
    }
}

/// A socket that raises no SIGPIPE, whatever the host does with that signal.
pub(crate) struct Sink(pub(crate) UnixStream);

impl Write for Sink {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        use std::os::fd::AsRawFd;
        // SAFETY: the data is readable for its length over the call.
        let sent = unsafe { libc::send(self.0.as_raw_fd(), data.as_ptr().cast(), data.len(), libc::MSG_NOSIGNAL) };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The names, and whether they are to be saved as an OCI layout.
fn names(refs_json: *const c_char) -> Outcome<(Vec<String>, bool)> {
    #[derive(serde::Deserialize)]
    #[serde(untagged)]
    enum Names {
        One(String),
        Many(Vec<String>),
        With { names: Vec<String>, layout: Option<String> },
    }
    let (names, layout) = match arg::json(refs_json, "refs_json")? {
        Names::One(name) => (vec![name], None),
        Names::Many(names) => (names, None),
        Names::With { names, layout } => (names, layout),
    };
    let oci = match layout.as_deref() {
        None | Some("docker") => false,
        Some("oci") => true,
        Some(_) => return Err(Failure::invalid("refs_json: layout is neither docker nor oci")),
    };
    match names.is_empty() {
        true => Err(Failure::invalid("refs_json names no image")),
        false => Ok((names, oci)),
    }
}
