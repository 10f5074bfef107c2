//! Images of the root.

use crate::answer::{Answer, Outs};
use crate::archive::{Sink, streamed};
use crate::arg::{self, Out};
use crate::call::call;
use crate::failure::{Failure, Outcome};
use crate::query::Query;
use crate::registry::with_credentials;
use crate::root::{Access, with_root};
use crate::source::Input;
use crate::types::*;
use crate::using::Using;
use crate::work::{Work, work};
use engine::Context;
use engine::model::{BuildImage, BuildSecret, BuildSsh, ImportImage, ListImages, RemoveImage, Ulimit};
use libc::{c_char, c_void};
use serde_json::Value;
use std::os::fd::AsFd;

/// Lists images, newest first.
///
/// query_json: NULL, or an object with any of "all", "filter", "filters", "shared-size" (as in GET /images/json) and
/// "containers", which counts the containers of each image. *out_json: its document; free it with coracle_free.
///
/// Schemas: query_json image-list-query, out_json image-list.
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
    let out = Out::null(out_json);
    with_root(c, Access::Read, err, |root| {
        out.check("out_json")?;
        let known = ["all", "digests", "filter", "filters", "shared-size", "containers"];
        let query = Query::new(query_json, "query_json", &known, root.lenient())?;
        let query = ListImages {
            all: query.flag("all", false)?,
            filter: query.text("filter")?,
            filters: query.filters()?,
            shared_size: query.flag("shared-size", false)?,
            containers: query.flag("containers", false)?,
        };
        out.give_json(&root.engine().image_list(&query)?)?;
        Ok(CORACLE_OK)
    })
}

/// Makes an image from a tar of a root file system, plain or compressed.
///
/// query_json: NULL, or an object with any of "repo", "tag", "message", "changes" (a list of build instructions), "url".
/// tar, user: the function that gives the archive; NULL if the engine is to fetch it from "url". *out_id: the image's id; free
/// it with coracle_free. Progress records go to op.
///
/// Schemas: query_json image-import-query.
///
/// Errors: EINVALID (archive, reference, changes), EINTERNAL (the server of "url"), ECALLBACK, ECANCELLED, ETIMEOUT, EIO
/// (disk full).
///
/// Threads: any; the callbacks come on the calling thread. Blocks: until the archive is in, or op ends the call. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_image_import(
    c: *mut coracle,
    query_json: *const c_char,
    tar: coracle_read_fn,
    user: *mut c_void,
    op: *mut coracle_op,
    out_id: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    call(c, Access::Change, op, Outs::none().id(out_id), err, &mut |root| {
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
        let input = match tar.is_none() && !url.is_empty() {
            true => None,
            false => Some(Input::new(tar, user, "tar")?),
        };
        let engine = root.engine().clone();
        let import = move |using: &Using| {
            let mut report = |record| using.progress(&record);
            let Some(input) = input else {
                return Answer::id(&using.done(engine.image_import_url(&url, &how, &mut report, using.op()))?);
            };
            let mut source = input.source(using)?;
            let result = engine.image_import(&mut source, &how, &mut report, using.op());
            Answer::id(&source.done(result)?)
        };
        work(import).map(Work::long)
    })
}

/// Builds an image of a build file, as docker's classic builder does.
///
/// query_json: NULL, or an object with the parameters of POST /build by their names: "t" and "cachefrom" are lists of names,
/// "buildargs" and "labels" objects, "ulimits" a list of objects, "extrahosts" and "securityopt" lists of texts; "auths" maps
/// registries to credentials; "file" is the build file itself, in place of one in the context. tar, user: the function that
/// gives the context, a tar, plain or compressed; NULL if "remote" or "file" says enough. *out_id: the image's id; free it with
/// coracle_free. Progress records go to op: "stream" holds the builder's output.
///
/// Nothing is visible before the end, and then the image is on disk. The steps of a failed build stay for the next build.
///
/// Schemas: query_json build.
///
/// Errors: EINVALID (a mistake in the build file, with its line; query_json), ENOT_FOUND (a source, an image), EINTERNAL
/// (a command that failed: its exit code is the member "exitCode" of the error's detail), ECALLBACK, ECANCELLED, ETIMEOUT.
///
/// Threads: any; the callbacks come on the calling thread. Blocks: until the build is over, or op ends the call. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_image_build(
    c: *mut coracle,
    query_json: *const c_char,
    tar: coracle_read_fn,
    user: *mut c_void,
    op: *mut coracle_op,
    out_id: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    call(c, Access::Change, op, Outs::none().id(out_id), err, &mut |root| {
        let build = asked_build(query_json, root.lenient())?;
        let input = match tar.is_none() {
            true => None,
            false => Some(Input::new(tar, user, "tar")?),
        };
        let engine = root.engine().clone();
        let build = move |using: &Using| {
            let mut report = |record| using.progress(&record);
            let Some(input) = input else {
                return Answer::id(&using.done(engine.image_build(&build, Context::None, &mut report, using.op()))?);
            };
            let mut source = input.source(using)?;
            let result = engine.image_build(&build, Context::Tar(&mut source), &mut report, using.op());
            Answer::id(&source.done(result)?)
        };
        work(build).map(Work::long)
    })
}

/// Builds an image from a directory of this machine, without a tar of the directory.
///
/// dirfd: the directory, open. Files that its ".dockerignore" names are left out, and all files belong to root in the image.
///
/// Schemas: query_json build.
///
/// Errors: as coracle_image_build; EINVALID (dirfd is not an open directory).
///
/// Threads: any; the callbacks come on the calling thread. Blocks: until the build is over, or op ends the call. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_image_build_dir(
    c: *mut coracle,
    query_json: *const c_char,
    dirfd: i32,
    op: *mut coracle_op,
    out_id: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    call(c, Access::Change, op, Outs::none().id(out_id), err, &mut |root| {
        let build = asked_build(query_json, root.lenient())?;
        let wrong = || Failure::invalid("dirfd is not an open directory");
        let dir = arg::duplicate(dirfd, "dirfd")?.ok_or_else(wrong)?;
        let engine = root.engine().clone();
        let build = move |using: &Using| {
            let mut report = |record| using.progress(&record);
            let context = Context::Descriptor(dir.as_fd());
            Answer::id(&using.done(engine.image_build(&build, context, &mut report, using.op()))?)
        };
        work(build).map(Work::long)
    })
}

/// Loads every image of an archive: docker save's, both layouts, or an OCI layout; plain or compressed.
///
/// tar, user: the function that gives the archive. *out_json: a list of the names (or ids) that were loaded; free it with
/// coracle_free. Progress records go to op. Nothing is visible of an image before all of it is on disk.
///
/// Schemas: out_json string-list.
///
/// Errors: EINVALID (archive; a digest does not fit), ECALLBACK, ECANCELLED, ETIMEOUT, EIO (disk full).
///
/// Threads: any; the callbacks come on the calling thread. Blocks: until the archive is in, or op ends the call. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_image_load(
    c: *mut coracle,
    tar: coracle_read_fn,
    user: *mut c_void,
    op: *mut coracle_op,
    out_json: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    call(c, Access::Change, op, Outs::none().json(out_json), err, &mut |root| {
        let (engine, input) = (root.engine().clone(), Input::new(tar, user, "tar")?);
        let load = move |using: &Using| {
            let mut source = input.source(using)?;
            let result = engine.image_load(&mut source, &mut |record| using.progress(&record), using.op());
            Answer::document(&source.done(result)?)
        };
        work(load).map(Work::long)
    })
}

/// Writes images as an archive: docker save's, or an OCI layout.
///
/// refs_json: a list of names, one name as a JSON string, or an object with "names" and "layout" (docker, oci). *out: the
/// archive's bytes; read them to their end, where an error shows that the archive is not whole; end it with
/// coracle_stream_free, which also breaks it off.
///
/// Schemas: refs_json image-save.
///
/// Errors: EINVALID (refs_json), ENOT_FOUND (an image), ECANCELLED, ETIMEOUT (op).
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
    call(c, Access::Read, op, Outs::none().stream(out), err, &mut |root| {
        let (names, oci) = names(refs_json)?;
        let engine = root.engine().clone();
        work(move |using| {
            for name in &names {
                using.done(engine.image_inspect(name))?;
            }
            let write = move |sink: &mut Sink| match oci {
                true => engine.image_save_oci(&names, sink, None),
                false => engine.image_save(&names, sink, None),
            };
            Ok(Answer::stream(streamed("save", write)?))
        })
    })
}

/// Removes images that nothing uses.
///
/// filters_json: NULL, or an object of lists: "dangling" (default ["true"]: images without a name; ["false"]: all that no
/// container was made from), "until" (Unix seconds or RFC 3339), "label", "label!". *out_json: an object with
/// "ImagesDeleted" (as coracle_image_remove gives it, or null) and "SpaceReclaimed" in bytes; free it with coracle_free.
///
/// Schemas: filters_json filters, out_json image-prune.
///
/// Errors: EINVALID (a filter), ECANCELLED, ETIMEOUT (op). After an error no image was removed.
///
/// Threads: any. Blocks: until all images were looked at, or op ends the call. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_image_prune(
    c: *mut coracle,
    filters_json: *const c_char,
    op: *mut coracle_op,
    out_json: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    call(c, Access::Change, op, Outs::none().json(out_json), err, &mut |root| {
        let filters = Query::filters_of(filters_json, "filters_json")?;
        let engine = root.engine().clone();
        work(move |using| Answer::document(&using.done(engine.images_prune(&filters, using.op()))?))
    })
}

/// Removes the caches of builds (RUN --mount=type=cache) that no step uses.
///
/// filters_json: NULL, or an object of lists: "id", "type" ("exec.cachemount"), "until" or "unused-for" (Unix seconds, RFC 3339
/// or a duration before now: caches that were used later stay). "max-used-space", "min-free-space" and "reserved-space" are bounds
/// in bytes: the caches that were used last stay, no more than the first, so few that the file system has the
/// second free, and the third in any case. *out_json: an object with "CachesDeleted" (ids) and "SpaceReclaimed" in bytes; free it
/// with coracle_free.
///
/// Schemas: filters_json filters, out_json build-prune.
///
/// Errors: EINVALID (a filter), ECANCELLED, ETIMEOUT (op). Caches that were removed before an error stay removed.
///
/// Threads: any. Blocks: until all caches were looked at, or op ends the call. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_build_prune(
    c: *mut coracle,
    filters_json: *const c_char,
    op: *mut coracle_op,
    out_json: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    call(c, Access::Change, op, Outs::none().json(out_json), err, &mut |root| {
        let filters = Query::filters_of(filters_json, "filters_json")?;
        let engine = root.engine().clone();
        work(move |using| Answer::document(&using.done(engine.build_prune(&filters, using.op()))?))
    })
}

/// Describes one image in full.
///
/// ref: name, id, digest, or the beginning of an id that no other image has. Every function takes such a ref. *out_json: the document of
/// GET /images/{name}/json; free it with coracle_free.
///
/// Schemas: out_json image.
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
    let out = Out::null(out_json);
    with_root(c, Access::Read, err, |root| {
        out.check("out_json")?;
        out.give_json(&root.engine().image_inspect(arg::text(r#ref, "ref")?)?)?;
        Ok(CORACLE_OK)
    })
}

/// Lists the steps by which an image was made, newest first.
///
/// *out_json: the document of GET /images/{name}/history; free it with coracle_free.
///
/// Schemas: out_json image-history.
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
    let out = Out::null(out_json);
    with_root(c, Access::Read, err, |root| {
        out.check("out_json")?;
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

/// Removes a name of an image and, if nothing else holds the image, deletes it.
///
/// flags: CORACLE_IMAGE_REMOVE_FORCE, CORACLE_IMAGE_REMOVE_NO_PRUNE, or 0. *out_json: the document of
/// DELETE /images/{name}; free it with coracle_free.
///
/// Schemas: out_json image-removed.
///
/// Errors: ENOT_FOUND, ECONFLICT (a container uses it), EINVALID (flags), ECANCELLED, ETIMEOUT (op).
///
/// Threads: any. Blocks: disk. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_image_remove(
    c: *mut coracle,
    r#ref: *const c_char,
    flags: u64,
    op: *mut coracle_op,
    out_json: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    call(c, Access::Change, op, Outs::none().json(out_json), err, &mut |root| {
        let name = arg::owned(r#ref, "ref")?;
        let flags = arg::flags(flags, CORACLE_IMAGE_REMOVE_FORCE | CORACLE_IMAGE_REMOVE_NO_PRUNE, "flags")?;
        let how = RemoveImage {
            force: flags & CORACLE_IMAGE_REMOVE_FORCE != 0,
            no_prune: flags & CORACLE_IMAGE_REMOVE_NO_PRUNE != 0,
        };
        let engine = root.engine().clone();
        work(move |using| Answer::document(&using.done(engine.image_remove(&name, how))?))
    })
}

/// The parameters of a build.
fn asked_build(query_json: *const c_char, lenient: bool) -> Outcome<BuildImage> {
    let build = with_credentials(query_json, "query_json", lenient, |build: &BuildImage| &build.auths)?;
    let members: serde_json::Map<String, Value> = arg::json_or_default(query_json, "query_json")?;
    for (n, one) in (0..).zip(members.get("ulimits").and_then(Value::as_array).into_iter().flatten()) {
        if let (Some(one), false) = (one.as_object(), lenient) {
            arg::known_members(one, &Ulimit::default(), "query_json", &format!("ulimits[{n}]."))?;
        }
    }
    for (n, one) in (0..).zip(members.get("secrets").and_then(Value::as_array).into_iter().flatten()) {
        if let (Some(one), false) = (one.as_object(), lenient) {
            arg::known_members(one, &BuildSecret::default(), "query_json", &format!("secrets[{n}]."))?;
        }
    }
    for (n, one) in (0..).zip(members.get("ssh").and_then(Value::as_array).into_iter().flatten()) {
        if let (Some(one), false) = (one.as_object(), lenient) {
            arg::known_members(one, &BuildSsh::default(), "query_json", &format!("ssh[{n}]."))?;
        }
    }
    Ok(build)
}

/// The names, and whether they are to be saved as an OCI layout.
fn names(refs_json: *const c_char) -> Outcome<(Vec<String>, bool)> {
    #[derive(serde::Deserialize)]
    #[serde(untagged, deny_unknown_fields)]
    enum Names {
        One(String),
        Many(Vec<String>),
        With {
            /// The images, by name or id.
            names: Vec<String>,
            /// `docker` or `oci`; absent: `docker`.
            layout: Option<String>,
        },
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
