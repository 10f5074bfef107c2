//! The one error type of the library.
//!
//! An [`Error`] has a [`ErrorKind`] that maps one to one to an HTTP status and to a code of the C ABI, a one-line
//! message (the text that the HTTP body carries too), the area that failed and, where the kernel said no, its errno.

use std::fmt;

/// What went wrong, in the coarse terms that a program decides on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A parameter or document is wrong. HTTP 400.
    Invalid,
    /// Credentials are missing or refused. HTTP 401.
    Unauthorized,
    /// The operation is not permitted on this object. HTTP 403.
    Forbidden,
    /// No such container, image, exec instance, volume, network or file. HTTP 404.
    NotFound,
    /// The engine is not in a state to answer (not part of a swarm). HTTP 406.
    NotAcceptable,
    /// The object's state or another object is in the way. HTTP 409.
    Conflict,
    /// The engine failed. HTTP 500.
    Internal,
    /// Not built, or not supported by this kernel. HTTP 501.
    Unsupported,
    /// Something needed is not there now. HTTP 503.
    Unavailable,
    /// The operating system refused a read or write; `errno` says why. HTTP 500.
    Io,
    /// Memory ran out. HTTP 500.
    NoMemory,
    /// The operation's deadline passed. HTTP 500.
    Timeout,
    /// The operation was cancelled. HTTP 500.
    Cancelled,
    /// A callback refused to go on. HTTP 500.
    Callback,
    /// The calling process is a fork of the one that opened the engine. HTTP 500.
    Forked,
    /// A defect of the library, caught at its boundary. HTTP 500.
    Panic,
    /// A handle was used against its contract. HTTP 500.
    Misuse,
    /// Stored data is damaged. HTTP 500.
    Corrupt,
}

impl ErrorKind {
    /// The HTTP status that this kind has on the wire.
    pub fn http_status(self) -> u16 {
        match self {
            ErrorKind::Invalid => 400,
            ErrorKind::Unauthorized => 401,
            ErrorKind::Forbidden => 403,
            ErrorKind::NotFound => 404,
            ErrorKind::NotAcceptable => 406,
            ErrorKind::Conflict => 409,
            ErrorKind::Unsupported => 501,
            ErrorKind::Unavailable => 503,
            _ => 500,
        }
    }
}

/// An error of the engine: see the module's text.
#[derive(Debug, Clone)]
pub struct Error {
    kind: ErrorKind,
    area: &'static str,
    message: String,
    errno: Option<i32>,
    exit_code: Option<i32>,
}

/// The library's result.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error of `kind` with a one-line message.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error { kind, area: "", message: message.into(), errno: None, exit_code: None }
    }
    /// [`ErrorKind::Invalid`].
    pub fn invalid(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Invalid, message)
    }
    /// [`ErrorKind::NotFound`].
    pub fn not_found(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::NotFound, message)
    }
    /// [`ErrorKind::Conflict`].
    pub fn conflict(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Conflict, message)
    }
    /// [`ErrorKind::Internal`].
    pub fn internal(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Internal, message)
    }
    /// [`ErrorKind::Unsupported`].
    pub fn unsupported(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Unsupported, message)
    }
    /// [`ErrorKind::Corrupt`].
    pub fn corrupt(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Corrupt, message)
    }
    /// [`ErrorKind::Io`]: `what` was tried (a phrase such as `open /x/y`), `errno` is the kernel's answer.
    pub fn os(what: impl fmt::Display, errno: i32) -> Error {
        let reason = std::io::Error::from_raw_os_error(errno);
        let text = reason.to_string();
        let text = text.split(" (os error").next().unwrap_or_default().to_lowercase();
        Error { kind: ErrorKind::Io, area: "", message: format!("{what}: {text}"), errno: Some(errno), exit_code: None }
    }
    /// [`ErrorKind::Io`] from the standard library's error; `what` was tried.
    pub fn io(what: impl fmt::Display, error: &std::io::Error) -> Error {
        match error.raw_os_error() {
            Some(errno) => Error::os(what, errno),
            None => Error::new(ErrorKind::Io, format!("{what}: {error}")),
        }
    }
    /// The same error with another kind, for a caller that knows what the failure means.
    pub fn with_kind(mut self, kind: ErrorKind) -> Error {
        self.kind = kind;
        self
    }
    /// The same error with the area (`image`, `store`, `launch`, ...) that it came from.
    pub fn in_area(mut self, area: &'static str) -> Error {
        self.area = area;
        self
    }
    /// The same error with the exit code of the process that failed.
    pub(crate) fn with_exit_code(mut self, code: i32) -> Error {
        self.exit_code = Some(code);
        self
    }
    /// The same error with `context: ` before its message.
    pub fn context(mut self, context: impl fmt::Display) -> Error {
        self.message = format!("{context}: {}", self.message);
        self
    }
    /// The same error with the kernel's own words behind its message.
    pub(crate) fn explained(mut self, words: &str) -> Error {
        self.message = format!("{} ({words})", self.message);
        self
    }
    /// What went wrong, coarsely.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
    /// One line for a person; the HTTP body's `message`.
    pub fn message(&self) -> &str {
        &self.message
    }
    /// The part of the engine that failed; may be empty.
    pub fn area(&self) -> &'static str {
        self.area
    }
    /// The kernel's error number, where the kernel said no.
    pub fn raw_os_error(&self) -> Option<i32> {
        self.errno
    }
    /// The exit code of the process whose failure this is: a RUN step of a build.
    pub fn exit_code(&self) -> Option<i32> {
        self.exit_code
    }
    /// The HTTP status that this error has on the wire.
    pub fn http_status(&self) -> u16 {
        self.kind.http_status()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Error {
        Error::io("input or output", &error)
    }
}
