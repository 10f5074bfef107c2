//! The object behind a `coracle_error *`.

use crate::failure::Failure;
use crate::handle::Object;
use crate::text::c_text;
use crate::types::*;
use std::ffi::CString;

/// A failure with its texts in C's form.
pub(crate) struct ErrorObject {
    pub(crate) failure: Failure,
    pub(crate) area: CString,
    pub(crate) message: CString,
    pub(crate) detail: CString,
}

impl Object for ErrorObject {
    type Opaque = coracle_error;
    const KIND: u64 = 2;
    const NAME: &'static str = "error";
    const SURVIVES_FORK: bool = true;
}

impl ErrorObject {
    pub(crate) fn new(failure: Failure) -> ErrorObject {
        let (area, message, detail) = (c_text(failure.area), c_text(&failure.message), c_text(&failure.detail));
        ErrorObject { failure, area, message, detail }
    }
}
