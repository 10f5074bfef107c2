//! Registries: pulling, pushing, searching, logging in.

use crate::arg::{self, Out};
use crate::entry::{Failure, Outcome};
use crate::op::Using;
use crate::query::Query;
use crate::root::{Access, with_root};
use crate::types::*;
use engine::model::{PullImage, PushImage, RegistryAuth, SearchImages};
use libc::c_char;
use serde_json::{Value, json};

/// Fetches an image from its registry.
///
/// ref: repository[:tag] or repository@digest; the tag is "latest" where none is given. auth_json: NULL, or the
/// credentials, an object with "username" and "password", or "identitytoken", or "registrytoken". *out_id: the image's
/// id; free it with coracle_free. Progress records go to op. Nothing is visible before all of it is on disk.
///
/// Errors: ENOT_FOUND (no such image, or no access), EUNAUTHORIZED (credentials are needed), EINVALID (ref; content whose
/// digest is wrong), EUNSUPPORTED (a library built without TLS), ECALLBACK, ECANCELLED, ETIMEOUT, EIO (disk full).
///
/// Threads: any; the callbacks come on the calling thread. Blocks: until the image is here, or op ends it. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_image_pull(
    c: *mut coracle,
    r#ref: *const c_char,
    auth_json: *const c_char,
    op: *mut coracle_op,
    out_id: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    with_root(c, Access::Change, err, |root| {
        let out = Out::null(out_id, "out_id")?;
        let (name, tag) = named(arg::text(r#ref, "ref")?);
        let request = PullImage { name, tag, auth: auth(auth_json)? };
        let using = Using::new(op)?;
        let result = root.engine().image_pull(&request, &mut |record| using.progress(&record), using.op());
        let names = using.done(result)?;
        let name = names.first().map_or(request.name.as_str(), String::as_str);
        out.give_text(&root.engine().image_inspect(name)?.id)?;
        Ok(CORACLE_OK)
    })
}

/// Sends an image to the registry that its name says.
///
/// ref: repository[:tag]; the tag is "latest" where none is given. auth_json: as for coracle_image_pull. *out_json: an
/// object with "Tag", "Digest" and "Size" of the manifest; free it with coracle_free. Progress records go to op.
///
/// Errors: ENOT_FOUND (no such image here), EUNAUTHORIZED, EFORBIDDEN (no access), EINVALID (ref), EUNSUPPORTED (a library
/// built without TLS), ECALLBACK, ECANCELLED, ETIMEOUT.
///
/// Threads: any; the callbacks come on the calling thread. Blocks: until the image is there, or op ends it. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_image_push(
    c: *mut coracle,
    r#ref: *const c_char,
    auth_json: *const c_char,
    op: *mut coracle_op,
    out_json: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    with_root(c, Access::Change, err, |root| {
        let out = Out::null(out_json, "out_json")?;
        let (name, tag) = named(arg::text(r#ref, "ref")?);
        let request = PushImage { name, tag, auth: auth(auth_json)? };
        let using = Using::new(op)?;
        let mut made: Value = json!({});
        let mut progress = |record: engine::model::Progress| {
            if let Some(aux) = &record.aux {
                made.clone_from(aux);
            }
            using.progress(&record)
        };
        let result = root.engine().image_push(&request, &mut progress, using.op());
        using.done(result)?;
        out.give_json(&made)?;
        Ok(CORACLE_OK)
    })
}

/// Asks a registry for images: by its search where it has one, else the names in its catalog.
///
/// query_json: an object with "term" (what to look for; host[:port]/words asks that registry) and maybe "limit" (1 to
/// 100), "filters" ("is-official", "is-automated", "stars"). auth_json: as for coracle_image_pull. *out_json: the document
/// of GET /images/search; free it with coracle_free.
///
/// Errors: EINVALID (query_json), EUNAUTHORIZED, EUNSUPPORTED (a library built without TLS), ECANCELLED, ETIMEOUT.
///
/// Threads: any. Blocks: until the registry answers, or op ends it. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_image_search(
    c: *mut coracle,
    query_json: *const c_char,
    auth_json: *const c_char,
    op: *mut coracle_op,
    out_json: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    with_root(c, Access::Read, err, |root| {
        let out = Out::null(out_json, "out_json")?;
        let query = Query::new(query_json, "query_json", &["filters", "limit", "term"], root.lenient())?;
        let request = SearchImages {
            term: query.text("term")?,
            limit: query.number("limit")?,
            filters: query.filters()?,
            auth: auth(auth_json)?,
        };
        let using = Using::new(op)?;
        let result = root.engine().image_search(&request, using.op());
        out.give_json(&using.done(result)?)?;
        Ok(CORACLE_OK)
    })
}

/// Checks credentials against a registry.
///
/// auth_json: the credentials, with "serveraddress" saying the registry. *out_json: the document of POST /auth; free it
/// with coracle_free.
///
/// Errors: EUNAUTHORIZED, EINVALID (auth_json), EUNSUPPORTED (a library built without TLS), ECANCELLED, ETIMEOUT.
///
/// Threads: any. Blocks: until the registry answers, or op ends it. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_auth(
    c: *mut coracle,
    auth_json: *const c_char,
    op: *mut coracle_op,
    out_json: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    with_root(c, Access::Read, err, |root| {
        let out = Out::null(out_json, "out_json")?;
        arg::text(auth_json, "auth_json")?;
        let auth = auth(auth_json)?;
        let using = Using::new(op)?;
        let result = root.engine().registry_auth(&auth, using.op());
        out.give_json(&using.done(result)?)?;
        Ok(CORACLE_OK)
    })
}

/// The name, and the tag that goes with it where it has neither tag nor digest.
fn named(name: &str) -> (String, String) {
    let last = name.rsplit('/').next().unwrap_or_default();
    (name.to_owned(), if last.contains([':', '@']) { String::new() } else { "latest".into() })
}

fn auth(auth_json: *const c_char) -> Outcome<RegistryAuth> {
    let text = arg::optional_text(auth_json, "auth_json")?;
    // Not the parser's words: they may show what it read.
    text.map_or_else(
        || Ok(RegistryAuth::default()),
        |text| serde_json::from_str(text).map_err(|_| Failure::invalid("auth_json is not a document of credentials")),
    )
}
