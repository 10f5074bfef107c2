//! Pulling, pushing, searching, logging in.

use crate::answer::{Call, document, gone, streamed};
use crate::message::Response;
use crate::platform;
use crate::stream;
use coracle::model::{Progress, PullImage, PushImage, RegistryAuth, SearchImages};
use coracle::{Error, ErrorKind, Result};

pub(crate) fn pull(call: Call, name: &str) -> Result<Response> {
    let auth = header(&call).unwrap_or_default();
    let platform = platform::named(call.query.text("platform"))?;
    let request = PullImage { name: name.to_owned(), tag: call.query.text("tag").to_owned(), auth, platform };
    let (engine, client) = (call.engine().clone(), call.request.client.clone());
    Ok(streamed(&call, Some("application/json"), move |sink| {
        let op = client.op()?;
        // The very first message is kept until something follows: a name that leads nowhere is an ordinary error.
        let mut first = None;
        let mut report = |message: Progress| {
            let bytes = stream::progress(&message);
            if first.is_none() {
                first = Some(bytes);
                return Ok(());
            }
            if !sink.started() {
                sink.write_all(first.as_deref().unwrap_or_default()).map_err(gone)?;
            }
            sink.write_all(&bytes).map_err(gone)
        };
        match engine.image_pull_tags(&request, &mut report, op.as_ref()) {
            Ok(_) => Ok(()),
            Err(error) if sink.started() && error.kind() != ErrorKind::Cancelled => {
                sink.write_all(&stream::failure(&error)).map_err(gone)
            }
            Err(error) => Err(error),
        }
    }))
}

pub(crate) fn push(mut call: Call) -> Result<Response> {
    let reference = match call.query.text("tag") {
        "" => call.name.clone(),
        tag => format!("{}:{tag}", call.name),
    };
    platform::check_repositories(&call, &[reference])?;
    let auth = match header(&call) {
        Some(auth) => auth,
        // The oldest clients send the credentials in the body.
        None => serde_json::from_slice(&call.document()?)
            .map_err(|_| Error::invalid("Bad parameters and missing X-Registry-Auth: EOF"))?,
    };
    let request = PushImage { name: call.name.clone(), tag: call.query.text("tag").to_owned(), auth };
    let (engine, client) = (call.engine().clone(), call.request.client.clone());
    Ok(streamed(&call, Some("application/json"), move |sink| {
        let op = client.op()?;
        let mut report = |message: Progress| sink.write_all(&stream::progress(&message)).map_err(gone);
        match engine.image_push_tags(&request, &mut report, op.as_ref()) {
            Ok(()) => Ok(()),
            // As in docker: what goes wrong, also at once, stands in the stream.
            Err(error) if error.kind() != ErrorKind::Cancelled => {
                sink.write_all(&stream::failure(&error)).map_err(gone)
            }
            Err(error) => Err(error),
        }
    }))
}

pub(crate) fn search(call: Call) -> Result<Response> {
    let limit = match call.query.text("limit") {
        "" => None,
        text => Some(text.parse().map_err(|_| Error::invalid(format!("limit: {text:?} is not a number")))?),
    };
    let term = call.query.text("term").to_owned();
    let request = SearchImages { term, limit, filters: call.query.filters()?, auth: header(&call).unwrap_or_default() };
    let op = call.request.client.op()?;
    document(200, call.engine().image_search(&request, op.as_ref())?)
}

pub(crate) fn distribution(call: Call) -> Result<Response> {
    let op = call.request.client.op()?;
    let auth = header(&call).unwrap_or_default();
    document(200, call.engine().distribution_inspect(&call.name, &auth, op.as_ref())?)
}

/// Whatever its content is called: clients of all ages send it without a type, too.
pub(crate) fn login(mut call: Call) -> Result<Response> {
    let bytes = call.document()?;
    if bytes.is_empty() {
        return Err(Error::internal("EOF"));
    }
    // Not the parser's words: they may show what it read.
    let auth: RegistryAuth =
        serde_json::from_slice(&bytes).map_err(|_| Error::invalid("the credentials are not a well-formed document"))?;
    let op = call.request.client.op()?;
    document(200, call.engine().registry_auth(&auth, op.as_ref())?)
}

pub(super) fn header(call: &Call) -> Option<RegistryAuth> {
    call.request.headers.get("x-registry-auth").map(RegistryAuth::from_header)
}
