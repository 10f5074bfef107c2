//! Volumes.

use crate::answer::{Call, document, empty};
use crate::message::Response;
use crate::schema;
use coracle::model::{CreateVolume, ListVolumes};
use coracle::{Error, Result};

pub(crate) fn list(call: Call) -> Result<Response> {
    document(200, call.engine().volume_list(&ListVolumes { filters: call.query.filters()? })?)
}

pub(crate) fn create(mut call: Call) -> Result<Response> {
    call.check_json()?;
    let text = call.document()?;
    if text.iter().all(u8::is_ascii_whitespace) {
        return Err(Error::invalid("got EOF while reading request body"));
    }
    let body: CreateVolume = schema::typed(schema::read(&text, &schema::CREATE_VOLUME)?)?;
    document(201, call.engine().volume_create(&body)?)
}

pub(crate) fn inspect(call: Call) -> Result<Response> {
    document(200, call.engine().volume_inspect(&call.name)?)
}

pub(crate) fn remove(call: Call) -> Result<Response> {
    let force = call.query.flag("force");
    let removed = match force {
        true => call.engine().volume_remove_by_force(&call.name),
        false => call.engine().volume_remove(&call.name),
    };
    match removed {
        // A removal by force succeeds also if there is no such volume.
        Err(error) if force && error.kind() == coracle::ErrorKind::NotFound => empty(204),
        other => other.and_then(|()| empty(204)),
    }
}
