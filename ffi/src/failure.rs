//! Failures on their way to C.

use crate::types::*;
use engine::{Error, ErrorKind};
use std::any::Any;
use std::ops::{Deref, DerefMut};

/// A result at the boundary.
pub(crate) type Outcome<T> = Result<T, Failure>;

/// An error on its way to C, behind one pointer as [`Error`] is.
#[derive(Debug, Clone)]
pub(crate) struct Failure(Box<Parts>);

#[derive(Debug, Clone)]
pub(crate) struct Parts {
    pub(crate) code: coracle_status,
    pub(crate) http_status: i32,
    pub(crate) errno: i32,
    pub(crate) area: &'static str,
    pub(crate) message: String,
    /// A JSON object.
    pub(crate) detail: String,
}

impl Deref for Failure {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl DerefMut for Failure {
    fn deref_mut(&mut self) -> &mut Parts {
        &mut self.0
    }
}

impl Failure {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Failure {
        Failure::from(Error::new(kind, message))
    }
    /// An argument is wrong. The message begins with the argument's name, which programs find in the detail.
    pub(crate) fn invalid(message: impl Into<String>) -> Failure {
        let failure = Failure::new(ErrorKind::Invalid, message);
        let argument = failure.message.split([' ', ':']).next().unwrap_or_default().to_owned();
        failure.about(&argument, "")
    }
    /// Names the argument, and the field of its document, for programs.
    pub(crate) fn about(self, argument: &str, field: &str) -> Failure {
        let failure = self.with("argument", argument);
        if field.is_empty() { failure } else { failure.with("field", field) }
    }
    /// A fact for programs: a member of the detail.
    fn with(mut self, name: &str, value: impl Into<serde_json::Value>) -> Failure {
        let mut detail: serde_json::Map<_, _> = serde_json::from_str(&self.detail).unwrap_or_default();
        detail.insert(name.into(), value.into());
        self.detail = serde_json::Value::Object(detail).to_string();
        self
    }
    pub(crate) fn misuse(message: impl Into<String>) -> Failure {
        Failure::new(ErrorKind::Misuse, message)
    }
    pub(crate) fn forked(what: &str) -> Failure {
        let message = format!("this process is a fork of the one that made the {what}: exec before it opens that root");
        Failure::new(ErrorKind::Forked, message)
    }
    /// A callback of the caller answered `number`.
    pub(crate) fn callback(what: &str, number: i64) -> Failure {
        Failure::new(ErrorKind::Callback, format!("the {what} callback answered {number}")).with("callback", number)
    }
    /// A defect of the library, and where it is.
    pub(crate) fn panic(payload: &(dyn Any + Send), place: Option<String>) -> Failure {
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("panic");
        Failure::new(ErrorKind::Panic, format!("a defect of the library: {text}")).with("place", place)
    }
}

impl From<Error> for Failure {
    #[cold]
    #[inline(never)]
    fn from(error: Error) -> Failure {
        let mut failure = Failure(Box::new(Parts {
            code: code(error.kind()),
            http_status: error.http_status().into(),
            errno: error.raw_os_error().unwrap_or(0),
            area: error.area(),
            message: error.message().to_string(),
            detail: "{}".into(),
        }));
        let facts = error.facts();
        for (name, text) in [("field", facts.field), ("id", facts.id)] {
            if !text.is_empty() {
                failure = failure.with(name, text);
            }
        }
        for (name, number) in [("limit", facts.limit), ("exitCode", error.exit_code().map(i64::from))] {
            if let Some(number) = number {
                failure = failure.with(name, number);
            }
        }
        failure
    }
}

fn code(kind: ErrorKind) -> coracle_status {
    match kind {
        ErrorKind::Invalid => CORACLE_EINVALID,
        ErrorKind::Unauthorized => CORACLE_EUNAUTHORIZED,
        ErrorKind::Forbidden => CORACLE_EFORBIDDEN,
        ErrorKind::NotFound => CORACLE_ENOT_FOUND,
        ErrorKind::NotAcceptable => CORACLE_ENOT_ACCEPTABLE,
        ErrorKind::Conflict => CORACLE_ECONFLICT,
        ErrorKind::Unsupported => CORACLE_EUNSUPPORTED,
        ErrorKind::Unavailable => CORACLE_EUNAVAILABLE,
        ErrorKind::Io => CORACLE_EIO,
        ErrorKind::NoMemory => CORACLE_ENOMEM,
        ErrorKind::Timeout => CORACLE_ETIMEOUT,
        ErrorKind::Cancelled => CORACLE_ECANCELLED,
        ErrorKind::Callback => CORACLE_ECALLBACK,
        ErrorKind::Forked => CORACLE_EFORKED,
        ErrorKind::Panic => CORACLE_EPANIC,
        ErrorKind::Misuse => CORACLE_EMISUSE,
        ErrorKind::Corrupt => CORACLE_ECORRUPT,
        _ => CORACLE_EINTERNAL,
    }
}
