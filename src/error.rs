//! The one error type of the library.
//!
//! An [`Error`] has a [`ErrorKind`] that maps one to one to an HTTP status and to a code of the C ABI, a one-line
//! message of at most 4 KiB (also the text of the HTTP body), the area that failed and, if a system call failed, its
//! errno.

use std::fmt;

/// The class of a failure: the coarse terms by which a program decides.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::ErrorKind;
///
/// match engine.container_inspect("clock", false) {
///     Ok(detail) => println!("{}", detail.state.status),
///     Err(error) if error.kind() == ErrorKind::NotFound => println!("no such container"),
///     Err(error) => return Err(error),
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
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

/// A circumstance by which the library itself decides what follows. Messages are for people, and are never compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// A registry wants a user and a password, and the request has none.
    #[cfg_attr(not(feature = "registry"), expect(dead_code, reason = "only registries and git servers cause it"))]
    NoCredentials,
    /// A registry does not know the repository.
    #[cfg_attr(not(feature = "registry"), expect(dead_code, reason = "only registries and git servers cause it"))]
    NameUnknown,
    /// A registry knows the repository, but not the manifest.
    #[cfg_attr(not(feature = "registry"), expect(dead_code, reason = "only registries and git servers cause it"))]
    ManifestUnknown,
    /// A git server does not have the commit.
    #[cfg_attr(not(feature = "registry"), expect(dead_code, reason = "only registries and git servers cause it"))]
    CommitUnknown,
    /// The next stage of a pipeline ended, and has the error that says why.
    HungUp,
    /// An entry of an archive, which the message names already.
    NamedEntry,
    /// The values of a build's instructions take too much memory.
    ValuesTooLarge,
    /// A step of a build has more mounts than its container takes.
    TooManyMounts,
}

/// The longest message, in bytes. Messages repeat words of requests and images, which may be of any length.
const LONGEST: usize = 4096;
/// Bytes that stay at the end of a long message, which has the reason.
const REASON: usize = 512;

/// A message of at most [`LONGEST`] bytes: a longer one loses its middle.
fn bounded(message: String) -> String {
    const GAP: &str = " [...] ";
    if message.len() <= LONGEST {
        return message;
    }
    let begin = message.floor_char_boundary(LONGEST - REASON - GAP.len());
    let end = message.ceil_char_boundary(message.len() - REASON);
    [&message[..begin], GAP, &message[end..]].concat()
}

/// An error of the engine: see the module's text.
///
/// ```
/// use coracle::{Error, ErrorKind};
///
/// let error = Error::os("open /var/lib/coracle", 13);
/// assert_eq!(error.kind(), ErrorKind::Io);
/// assert_eq!(error.raw_os_error(), Some(13));
/// assert_eq!(error.to_string(), "open /var/lib/coracle: permission denied");
/// ```
#[derive(Clone)]
pub struct Error(Box<Parts>);

/// Behind one pointer: results with an error are passed, checked and dropped in thousands of places, and the pointer keeps each small.
#[derive(Clone)]
struct Parts {
    kind: ErrorKind,
    area: &'static str,
    message: String,
    errno: Option<i32>,
    exit_code: Option<i32>,
    cause: Option<Cause>,
    facts: Option<Box<Facts>>,
}

/// Facts about a failure, for programs: each only where it exists.
///
/// ```
/// use coracle::Error;
///
/// let facts = Error::invalid("the minimum is 4 MiB").in_field("HostConfig.Memory").facts();
/// assert_eq!((facts.field.as_str(), facts.limit), ("HostConfig.Memory", None));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// The path of the member of a document that is wrong, such as `HostConfig.Memory`; else empty.
    pub field: String,
    /// The bound that a value is beyond.
    pub limit: Option<i64>,
    /// The id or the name of the object that is in the way; else empty.
    pub id: String,
}

/// The library's result.
///
/// ```
/// fn host_name(body: &coracle::model::CreateBody) -> coracle::Result<String> {
///     Ok(body.config.hostname.clone())
/// }
/// assert_eq!(host_name(&Default::default())?, "");
/// # Ok::<(), coracle::Error>(())
/// ```
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error of `kind` with a one-line message.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error::of(kind, message.into(), None)
    }
    #[cold]
    #[inline(never)]
    fn of(kind: ErrorKind, message: String, errno: Option<i32>) -> Error {
        let message = bounded(message);
        Error(Box::new(Parts { kind, area: "", message, errno, exit_code: None, cause: None, facts: None }))
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
    /// A mistake in a request that dockerd answers with status 500, not 400: the status is part of the contract.
    pub(crate) fn internal_as_dockerd(area: &'static str, message: impl Into<String>) -> Error {
        Error::internal(message).in_area(area)
    }
    /// [`ErrorKind::Unsupported`].
    pub fn unsupported(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Unsupported, message)
    }
    /// [`ErrorKind::Corrupt`].
    pub fn corrupt(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Corrupt, message)
    }
    /// [`ErrorKind::Io`]: `what` names the operation (such as `open /x/y`), `errno` is the kernel's answer.
    pub fn os(what: impl fmt::Display, errno: i32) -> Error {
        Error::of_kernel(&what, errno)
    }
    #[cold]
    #[inline(never)]
    fn of_kernel(what: &dyn fmt::Display, errno: i32) -> Error {
        let reason = std::io::Error::from_raw_os_error(errno);
        let text = reason.to_string();
        let text = text.split(" (os error").next().unwrap_or_default().to_lowercase();
        Error::of(ErrorKind::Io, format!("{what}: {text}"), Some(errno))
    }
    /// [`ErrorKind::Io`] from the standard library's error; `what` names the attempt.
    pub fn io(what: impl fmt::Display, error: &std::io::Error) -> Error {
        Error::of_io(&what, error)
    }
    #[cold]
    #[inline(never)]
    fn of_io(what: &dyn fmt::Display, error: &std::io::Error) -> Error {
        match error.raw_os_error() {
            Some(errno) => Error::of_kernel(what, errno),
            None => Error::of(ErrorKind::Io, format!("{what}: {error}"), None),
        }
    }
    /// Returns this error with another kind, for a caller that knows the meaning of the failure.
    pub fn with_kind(mut self, kind: ErrorKind) -> Error {
        self.0.kind = kind;
        self
    }
    /// Returns this error with the area (`image`, `store`, `launch`, ...) that the error came from.
    pub fn in_area(mut self, area: &'static str) -> Error {
        self.0.area = area;
        self
    }
    /// Returns this error with the exit code of the process that failed.
    pub(crate) fn with_exit_code(mut self, code: i32) -> Error {
        self.0.exit_code = Some(code);
        self
    }
    /// Returns this error with the circumstance that [`Error::cause`] answers.
    pub(crate) fn caused_by(mut self, cause: Cause) -> Error {
        self.0.cause = Some(cause);
        self
    }
    /// The circumstance by which the library itself decides, if there is one.
    pub(crate) fn cause(&self) -> Option<Cause> {
        self.0.cause
    }
    /// Returns this error with the path of the member of a document that is wrong.
    pub fn in_field(mut self, path: impl Into<String>) -> Error {
        self.0.facts.get_or_insert_default().field = path.into();
        self
    }
    /// Returns this error with `prefix.` before the path of its member, if it has one.
    pub(crate) fn below(mut self, prefix: &str) -> Error {
        if let Some(facts) = self.0.facts.as_mut().filter(|facts| !facts.field.is_empty()) {
            facts.field = format!("{prefix}.{}", facts.field);
        }
        self
    }
    /// Returns this error with the bound that a value is beyond.
    pub(crate) fn with_limit(mut self, limit: i64) -> Error {
        self.0.facts.get_or_insert_default().limit = Some(limit);
        self
    }
    /// Returns this error with the id or the name of the object that is in the way.
    pub(crate) fn with_other(mut self, id: impl Into<String>) -> Error {
        self.0.facts.get_or_insert_default().id = id.into();
        self
    }
    /// Returns this error with `context: ` before its message.
    pub fn context(self, context: impl fmt::Display) -> Error {
        self.after(&context)
    }
    #[cold]
    #[inline(never)]
    fn after(mut self, context: &dyn fmt::Display) -> Error {
        self.0.message = bounded(format!("{context}: {}", self.0.message));
        self
    }
    /// Returns this error with the kernel's own words after its message.
    pub(crate) fn explained(mut self, words: &str) -> Error {
        self.0.message = bounded(format!("{} ({words})", self.0.message));
        self
    }
    /// The class of the failure.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }
    /// One line for a person; the HTTP body's `message`.
    pub fn message(&self) -> &str {
        &self.0.message
    }
    /// The part of the engine that failed; may be empty.
    pub fn area(&self) -> &'static str {
        self.0.area
    }
    /// The kernel's error number, if a system call failed.
    pub fn raw_os_error(&self) -> Option<i32> {
        self.0.errno
    }
    /// Whether a system call failed with this error number.
    pub(crate) fn is(&self, errno: i32) -> bool {
        self.0.errno == Some(errno)
    }
    /// The exit code of the failed process: a RUN step of a build.
    pub fn exit_code(&self) -> Option<i32> {
        self.0.exit_code
    }
    /// Facts about the failure, for programs.
    pub fn facts(&self) -> Facts {
        self.0.facts.as_deref().cloned().unwrap_or_default()
    }
    /// The HTTP status that this error has on the wire.
    pub fn http_status(&self) -> u16 {
        self.0.kind.http_status()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Parts { kind, area, message, errno, exit_code, cause, facts } = &*self.0;
        let mut shown = f.debug_struct("Error");
        shown.field("kind", kind).field("area", area).field("message", message).field("errno", errno);
        shown.field("exit_code", exit_code).field("cause", cause).field("facts", facts).finish()
    }
}

impl std::error::Error for Error {}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Error {
        Error::io("input or output", &error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_message_keeps_its_beginning_and_its_reason() {
        let error = Error::os(format_args!("open /{}", "\u{e9}".repeat(5000)), libc::ENAMETOOLONG);
        assert!(error.message().len() <= LONGEST && error.message().len() > LONGEST - 8, "{}", error.message().len());
        assert!(error.message().starts_with("open /\u{e9}") && error.message().ends_with("file name too long"));
        let again = error.context("x".repeat(LONGEST));
        assert!(again.message().len() <= LONGEST && again.message().ends_with("file name too long"));
        assert_eq!(Error::invalid("short").explained("why").message(), "short (why)");
    }
}
