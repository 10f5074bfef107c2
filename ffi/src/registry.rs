//! Registries: pulling, pushing, searching, logging in.

use crate::answer::{Answer, Outs};
use crate::arg;
use crate::call::call;
use crate::failure::{Failure, Outcome};
use crate::query::Query;
use crate::root::{Access, Root};
use crate::types::*;
use crate::using::Using;
use crate::work::{Work, work};
use engine::model::{ImagePlatform, PullImage, PushImage, RegistryAuth, SearchImages};
use libc::c_char;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;

/// Pulls an image from its registry.
///
/// ref: repository[:tag] or repository@digest; the tag is "latest" where none is given. auth_json: NULL, or the
/// credentials, an object with "username" and "password", or "identitytoken", or "registrytoken". *out_id: the image's
/// id; free it with coracle_free. Progress records go to op. Nothing is visible before all of it is on disk.
///
/// Schemas: auth_json credentials.
///
/// Errors: ENOT_FOUND (no such image, or no access), EUNAUTHORIZED (credentials are needed), EINVALID (ref, auth_json;
/// content whose digest is wrong), ECALLBACK, ECANCELLED, ETIMEOUT (op), EIO (disk full).
///
/// Threads: any; the callbacks come on the calling thread. Blocks: until the image is here, or op ends the call. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_image_pull(
    c: *mut coracle,
    r#ref: *const c_char,
    auth_json: *const c_char,
    op: *mut coracle_op,
    out_id: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    call(c, Access::Change, op, Outs::none().id(out_id), err, &mut |root| pull(root, r#ref, None, auth_json))
}

/// Pulls the image of a platform from its registry, where the name is that of a list of images.
///
/// platform: "os[/architecture[/variant]]" or an architecture, such as "linux/arm64", "arm/v7", or the JSON document of a platform; NULL: this
/// machine's. If the list has no image of exactly this variant, the best earlier one is taken. An image of another platform is
/// stored like any other; its containers run only if the kernel can (binfmt_misc). The rest is as for coracle_image_pull.
///
/// Schemas: auth_json credentials.
///
/// Errors: as coracle_image_pull; EINVALID (platform), ENOT_FOUND (the list has no image of this platform).
///
/// Threads: any; the callbacks come on the calling thread. Blocks: until the image is here, or op ends the call. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_image_pull_platform(
    c: *mut coracle,
    r#ref: *const c_char,
    platform: *const c_char,
    auth_json: *const c_char,
    op: *mut coracle_op,
    out_id: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    call(c, Access::Change, op, Outs::none().id(out_id), err, &mut |root| {
        let platform = arg::optional_text(platform, "platform")?.map(str::parse::<ImagePlatform>).transpose();
        let platform = platform.map_err(|error| Failure::from(error).about("platform", ""))?;
        pull(root, r#ref, platform, auth_json)
    })
}

/// Pushes an image to the registry that its name says.
///
/// ref: repository[:tag]; the tag is "latest" where none is given. auth_json: as for coracle_image_pull. *out_json: an
/// object with "Tag", "Digest" and "Size" of the manifest; free it with coracle_free. Progress records go to op.
///
/// Schemas: auth_json credentials, out_json image-pushed.
///
/// Errors: ENOT_FOUND (no such image here), EUNAUTHORIZED (credentials are needed), EFORBIDDEN (no access), EINVALID
/// (ref, auth_json), ECALLBACK, ECANCELLED, ETIMEOUT (op).
///
/// Threads: any; the callbacks come on the calling thread. Blocks: until the image is there, or op ends the call. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_image_push(
    c: *mut coracle,
    r#ref: *const c_char,
    auth_json: *const c_char,
    op: *mut coracle_op,
    out_json: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    call(c, Access::Change, op, Outs::none().json(out_json), err, &mut |root| {
        let request = PushImage::of(arg::text(r#ref, "ref")?).auth(auth(auth_json, root.lenient())?);
        let engine = root.engine().clone();
        let push = move |using: &Using| {
            let result = engine.image_push(&request, &mut |record| using.progress(&record), using.op());
            Answer::document(&using.done(result)?)
        };
        work(push).map(Work::long)
    })
}

/// Asks a registry for an image's manifest, without a pull.
///
/// ref, auth_json: as for coracle_image_pull. *out_json: the document of GET /distribution/{name}/json: "Descriptor" (media
/// type, digest and size of the manifest, or of the list of manifests) and "Platforms"; free it with coracle_free.
///
/// Schemas: auth_json credentials, out_json distribution.
///
/// Errors: ENOT_FOUND (no such image, or no access), EUNAUTHORIZED (credentials are needed), EINVALID (ref, auth_json),
/// ECANCELLED, ETIMEOUT (op).
///
/// Threads: any. Blocks: until the registry answers, or op ends the call. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_registry_inspect(
    c: *mut coracle,
    r#ref: *const c_char,
    auth_json: *const c_char,
    op: *mut coracle_op,
    out_json: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    call(c, Access::Read, op, Outs::none().json(out_json), err, &mut |root| {
        let (engine, name, auth) = (root.engine().clone(), arg::owned(r#ref, "ref")?, auth(auth_json, root.lenient())?);
        let ask = move |using: &Using| {
            Answer::document(&using.done(engine.distribution_inspect(&name, &auth, using.op()))?)
        };
        work(ask).map(Work::long)
    })
}

/// Searches a registry for images: by its search if it has one, else among the names in its catalog.
///
/// query_json: an object with "term" (what to look for; host[:port]/words asks that registry) and maybe "limit" (1 to
/// 100), "filters" ("is-official", "is-automated", "stars"). auth_json: as for coracle_image_pull. *out_json: the document
/// of GET /images/search; free it with coracle_free.
///
/// Schemas: query_json image-search-query, auth_json credentials, out_json image-search.
///
/// Errors: EINVALID (query_json, auth_json), EUNAUTHORIZED (credentials are needed), ECANCELLED, ETIMEOUT (op).
///
/// Threads: any. Blocks: until the registry answers, or op ends the call. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_image_search(
    c: *mut coracle,
    query_json: *const c_char,
    auth_json: *const c_char,
    op: *mut coracle_op,
    out_json: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    call(c, Access::Read, op, Outs::none().json(out_json), err, &mut |root| {
        let query = Query::new(query_json, "query_json", &["filters", "limit", "term"], root.lenient())?;
        let request = SearchImages {
            term: query.text("term")?,
            limit: query.number("limit")?,
            filters: query.filters()?,
            auth: auth(auth_json, root.lenient())?,
        };
        let engine = root.engine().clone();
        let search = move |using: &Using| Answer::document(&using.done(engine.image_search(&request, using.op()))?);
        work(search).map(Work::long)
    })
}

/// Checks credentials against a registry.
///
/// auth_json: the credentials; "serveraddress" names the registry. *out_json: the document of POST /auth; free it
/// with coracle_free.
///
/// Schemas: auth_json credentials, out_json auth-status.
///
/// Errors: EUNAUTHORIZED (the registry refuses the credentials), EINVALID (auth_json), ECANCELLED, ETIMEOUT (op).
///
/// Threads: any. Blocks: until the registry answers, or op ends the call. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_registry_auth(
    c: *mut coracle,
    auth_json: *const c_char,
    op: *mut coracle_op,
    out_json: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    call(c, Access::Read, op, Outs::none().json(out_json), err, &mut |root| {
        arg::text(auth_json, "auth_json")?;
        let (engine, auth) = (root.engine().clone(), auth(auth_json, root.lenient())?);
        let check = move |using: &Using| Answer::document(&using.done(engine.registry_auth(&auth, using.op()))?);
        work(check).map(Work::long)
    })
}

/// The work of a pull.
fn pull(root: &Root, r#ref: *const c_char, platform: Option<ImagePlatform>, auth_json: *const c_char) -> Outcome<Work> {
    let auth = auth(auth_json, root.lenient())?;
    let request = PullImage { platform, ..PullImage::of(arg::text(r#ref, "ref")?).auth(auth) };
    let engine = root.engine().clone();
    let pull = move |using: &Using| {
        let result = engine.image_pull(&request, &mut |record| using.progress(&record), using.op());
        Answer::id(&using.done(result)?)
    };
    work(pull).map(Work::long)
}

pub(crate) fn auth(auth_json: *const c_char, lenient: bool) -> Outcome<RegistryAuth> {
    let Some(text) = arg::optional_text(auth_json, "auth_json")? else { return Ok(RegistryAuth::default()) };
    // Not the parser's words: they may show what it read.
    let wrong = |_| Failure::invalid("auth_json is not a document of credentials");
    let members: serde_json::Map<String, Value> = serde_json::from_str(text).map_err(wrong)?;
    if !lenient {
        arg::known_members(&members, &RegistryAuth::default(), "auth_json", "")?;
    }
    serde_json::from_str(text).map_err(wrong)
}

/// A document with credentials for registries in it ("auths").
pub(crate) fn with_credentials<T: DeserializeOwned + Default + Serialize>(
    pointer: *const c_char,
    name: &str,
    lenient: bool,
    auths: impl Fn(&T) -> &BTreeMap<String, RegistryAuth>,
) -> Outcome<T> {
    let auths_begin = format!("{name}: auths ");
    let document: T = arg::object_or_default(pointer, name, lenient).map_err(|failure| {
        // Not the parser's words about credentials: they may show what it read.
        match failure.message.starts_with(&auths_begin) {
            true => Failure::invalid(format!("{name}: auths is not an object of credentials")).about(name, "auths"),
            false => failure,
        }
    })?;
    let text = arg::optional_text(pointer, name)?.unwrap_or("{}");
    let members: serde_json::Map<String, Value> = serde_json::from_str(text).unwrap_or_default();
    for registry in auths(&document).keys().filter(|_| !lenient) {
        if let Some(Value::Object(one)) = members.get("auths").and_then(|auths| auths.get(registry)) {
            arg::known_members(one, &RegistryAuth::default(), name, &format!("auths.{registry}."))?;
        }
    }
    Ok(document)
}
