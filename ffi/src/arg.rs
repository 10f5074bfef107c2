//! Arguments: from C's pointers to Rust values and back, each failure naming the argument.
//!
//! These functions follow pointers that the header's contract vouches for (NULL, or valid for the call); only entry
//! points may call them, with the pointers that they were given.

use crate::failure::{Failure, Outcome};
use crate::text::Text;
use coracle_http::Document;
use engine::ErrorKind;
use engine::model::json_words;
use libc::{c_char, c_void};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::ffi::{CStr, OsStr};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// NUL-terminated UTF-8 that must be there.
pub(crate) fn text<'a>(pointer: *const c_char, name: &str) -> Outcome<&'a str> {
    optional_text(pointer, name)?.ok_or_else(|| Failure::invalid(format!("{name} is NULL")))
}

/// NUL-terminated UTF-8, or NULL.
pub(crate) fn optional_text<'a>(pointer: *const c_char, name: &str) -> Outcome<Option<&'a str>> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: by the header a string argument is NULL or NUL-terminated and stays over the call.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map(Some).map_err(|_| Failure::invalid(format!("{name} is not UTF-8")))
}

/// Text that must be there, for work that may outlive the call.
pub(crate) fn owned(pointer: *const c_char, name: &str) -> Outcome<String> {
    text(pointer, name).map(str::to_owned)
}

/// A path: NUL-terminated bytes, or NULL.
pub(crate) fn optional_path<'a>(pointer: *const c_char) -> Option<&'a Path> {
    if pointer.is_null() {
        return None;
    }
    // SAFETY: as in `optional_text`.
    let bytes = unsafe { CStr::from_ptr(pointer) }.to_bytes();
    Some(Path::new(OsStr::from_bytes(bytes)))
}

/// A JSON document that must be there.
pub(crate) fn json<T: DeserializeOwned>(pointer: *const c_char, name: &str) -> Outcome<T> {
    parse(text(pointer, name)?, name)
}

/// A JSON document of the API, of which every member must be known. The second answer: those that are not, a line each,
/// where `lenient` passes over them.
pub(crate) fn document<T: DeserializeOwned>(
    pointer: *const c_char,
    name: &str,
    kind: Document,
    lenient: bool,
) -> Outcome<(T, Vec<String>)> {
    let text = text(pointer, name)?;
    let value = parse(text, name).map_err(|failure| match coracle_http::misfit(text.as_bytes(), kind) {
        Some((path, words)) => misfit(name, &path, &words),
        None => failure,
    })?;
    let unknown = coracle_http::unknown(text.as_bytes(), kind);
    let unknown = unknown.map_err(|error| match error.facts().field {
        field if field.is_empty() => Failure::from(error),
        field => Failure::from(error).about(name, &field),
    })?;
    match unknown.first() {
        Some(line) if !lenient => Err(unknown_member(name, line)),
        _ => Ok((value, unknown)),
    }
}

/// Reads a document as [`document`] does; NULL is the default.
pub(crate) fn document_or_default<T: DeserializeOwned + Default>(
    pointer: *const c_char,
    name: &str,
    kind: Document,
    lenient: bool,
) -> Outcome<T> {
    match pointer.is_null() {
        true => Ok(T::default()),
        false => document(pointer, name, kind, lenient).map(|(value, _)| value),
    }
}

/// A JSON object of a type whose default has every member that is known; NULL is the default.
pub(crate) fn object_or_default<T: DeserializeOwned + Default + Serialize>(
    pointer: *const c_char,
    name: &str,
    lenient: bool,
) -> Outcome<T> {
    let Some(text) = optional_text(pointer, name)? else { return Ok(T::default()) };
    let members: Map<String, Value> = parse(text, name)?;
    if !lenient {
        known_members(&members, &T::default(), name, "")?;
    }
    parse(text, name)
}

/// Refuses a member that the default of a type does not have. `path`: where the object stands in the document.
pub(crate) fn known_members(
    members: &Map<String, Value>,
    default: &impl Serialize,
    name: &str,
    path: &str,
) -> Outcome<()> {
    let default = serde_json::to_value(default).unwrap_or_default();
    let known: Vec<&str> = default.as_object().into_iter().flat_map(|d| d.keys().map(String::as_str)).collect();
    match members.keys().find(|member| !known.contains(&member.as_str())) {
        Some(member) => Err(unknown_member(name, &format!("{path}{}", coracle_http::stranger(member, &known)))),
        None => Ok(()),
    }
}

/// A JSON document; NULL is the default.
pub(crate) fn json_or_default<T: DeserializeOwned + Default>(pointer: *const c_char, name: &str) -> Outcome<T> {
    optional_text(pointer, name)?.map_or_else(|| Ok(T::default()), |text| parse(text, name))
}

fn parse<T: DeserializeOwned>(text: &str, name: &str) -> Outcome<T> {
    serde_json::from_str(text).map_err(|error| {
        let words = json_words(&error);
        match (wrong_member::<T>(text), words.strip_prefix("a value ")) {
            (Some(path), Some(rest)) => misfit(name, &path, rest),
            (Some(path), None) => Failure::invalid(format!("{name}: {words}")).about(name, &path),
            (None, _) => Failure::invalid(format!("{name}: {words}")),
        }
    })
}

/// The first member of an object that does not fit by itself. The parser knows a place in the text alone.
fn wrong_member<T: DeserializeOwned>(text: &str) -> Option<String> {
    let members: Map<String, Value> = serde_json::from_str(text).ok()?;
    let fits = |name: &String, value: &Value| {
        let alone = Map::from_iter([(name.clone(), value.clone())]);
        serde_json::from_value::<T>(Value::Object(alone)).is_ok()
    };
    members.into_iter().find(|(name, value)| !fits(name, value)).map(|(name, _)| name)
}

/// The failure of a document in which a value is of another kind than its member; `words` say which.
fn misfit(name: &str, path: &str, words: &str) -> Failure {
    let value = if path.is_empty() { "the document" } else { path };
    Failure::invalid(format!("{name}: {value} {words}")).about(name, path)
}

/// The failure of a document with a member that is not known; `line` begins with the member's path.
pub(crate) fn unknown_member(name: &str, line: &str) -> Failure {
    let field = line.split(' ').next().unwrap_or_default();
    Failure::invalid(format!("{name}: {line}")).about(name, field)
}

/// Bytes that the caller lends; NULL only with a length of 0.
pub(crate) fn bytes<'a>(pointer: *const c_void, len: usize, name: &str) -> Outcome<&'a [u8]> {
    if len == 0 {
        return Ok(&[]);
    }
    check_buffer(pointer, len, name)?;
    // SAFETY: by the header `len` bytes are readable at the pointer over the call.
    Ok(unsafe { std::slice::from_raw_parts(pointer.cast(), len) })
}

/// A buffer that the caller lends for writing; NULL only with a length of 0.
pub(crate) fn buffer<'a>(pointer: *mut c_void, len: usize, name: &str) -> Outcome<&'a mut [u8]> {
    if len == 0 {
        return Ok(&mut []);
    }
    check_buffer(pointer, len, name)?;
    // SAFETY: by the header `len` bytes are writable at the pointer over the call, and nobody else uses them.
    Ok(unsafe { std::slice::from_raw_parts_mut(pointer.cast(), len) })
}

fn check_buffer(pointer: *const c_void, len: usize, name: &str) -> Outcome<()> {
    if pointer.is_null() {
        return Err(Failure::invalid(format!("{name} is NULL")));
    }
    if len > isize::MAX as usize {
        return Err(Failure::invalid(format!("{name}: the length is too big")));
    }
    Ok(())
}

/// A sized struct: a shorter one than ours is filled up with zeros, a longer one must have zeros where we know nothing.
///
/// # Safety
/// `T` is a C struct of integers and pointers whose first member is its `size`, for which all zeros is a value.
pub(crate) unsafe fn sized<T: Copy>(pointer: *const T, name: &str) -> Outcome<T> {
    if pointer.is_null() {
        return Err(Failure::invalid(format!("{name} is NULL")));
    }
    // SAFETY: the first member of every sized struct is its size, by the header.
    let size = unsafe { pointer.cast::<usize>().read_unaligned() };
    let ours = size_of::<T>();
    if size < size_of::<usize>() || size > 4096 {
        return Err(Failure::invalid(format!("{name}.size is {size}: it must be sizeof the struct, {ours} here")));
    }
    // SAFETY: the caller's struct has `size` bytes, by the header.
    let given = unsafe { std::slice::from_raw_parts(pointer.cast::<u8>(), size) };
    if given.iter().skip(ours).any(|&byte| byte != 0) {
        let message = format!("{name} has members that this version of the library does not know");
        return Err(Failure::new(ErrorKind::Unsupported, message));
    }
    // SAFETY: all zeros is a value of T (see above), and at most its size is copied over them.
    unsafe {
        let mut value: T = std::mem::zeroed();
        let place = (&raw mut value).cast::<u8>();
        std::ptr::copy_nonoverlapping(given.as_ptr(), place, size.min(ours));
        Ok(value)
    }
}

/// Flags of which only `known` may be set.
pub(crate) fn flags(given: u64, known: u64, name: &str) -> Outcome<u64> {
    match given & !known {
        0 => Ok(given),
        odd => Err(Failure::invalid(format!("{name} has bits that this version does not know: {odd:#x}"))),
    }
}

/// A duplicate of the caller's descriptor; `None` for one below 0.
pub(crate) fn duplicate(fd: i32, name: &str) -> Outcome<Option<OwnedFd>> {
    if fd < 0 {
        return Ok(None);
    }
    // SAFETY: no pointers; an fd that is not open answers EBADF.
    match unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3) } {
        // SAFETY: the kernel just made it for us.
        new @ 0.. => Ok(Some(unsafe { OwnedFd::from_raw_fd(new) })),
        _ => {
            let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
            let error = engine::Error::os(format_args!("{name}: descriptor {fd}"), errno);
            Err(error.with_kind(ErrorKind::Invalid).into())
        }
    }
}

/// Numbers, `count` of them; NULL for none.
pub(crate) fn numbers<'a>(pointer: *const i32, count: usize, name: &str) -> Outcome<&'a [i32]> {
    match (pointer.is_null(), count) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Failure::invalid(format!("{name} is NULL"))),
        (_, MOST_NUMBERS..) => Err(Failure::invalid(format!("{name}: more than {MOST_NUMBERS}"))),
        // SAFETY: by the header there are so many of them, and they stay over the call.
        _ => Ok(unsafe { std::slice::from_raw_parts(pointer, count) }),
    }
}

/// More numbers than any caller means: a count that was a mistake reads no memory that is not there.
const MOST_NUMBERS: usize = 1 << 20;

/// A place for a part of an answer; written to `empty` at once, so that it is defined whatever happens.
pub(crate) struct Out<T>(*mut T);

impl<T> Out<T> {
    pub(crate) fn new(pointer: *mut T, empty: T) -> Out<T> {
        let out = Out(pointer);
        out.set(empty);
        out
    }

    pub(crate) fn is_null(&self) -> bool {
        self.0.is_null()
    }

    /// Refuses a call that has no place for its answer.
    pub(crate) fn check(&self, name: &str) -> Outcome<()> {
        match self.is_null() {
            true => Err(Failure::invalid(format!("{name} is NULL"))),
            false => Ok(()),
        }
    }

    pub(crate) fn set(&self, value: T) {
        if !self.0.is_null() {
            // SAFETY: by the header an out argument is NULL or a place for its type over the call.
            unsafe { self.0.write(value) };
        }
    }
}

impl<T> Out<*mut T> {
    /// A place for a handle or a text, set to NULL.
    pub(crate) fn null(pointer: *mut *mut T) -> Out<*mut T> {
        Out::new(pointer, std::ptr::null_mut())
    }
}

impl Out<*mut c_char> {
    /// Hands a text to the caller. Without a place for it the text is dropped.
    pub(crate) fn give(&self, text: Text) {
        if !self.is_null() {
            self.set(text.into_raw());
        }
    }

    /// Hands a JSON document to the caller.
    pub(crate) fn give_json(&self, document: &impl Serialize) -> Outcome<()> {
        self.give(Text::json(document)?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::*;

    #[repr(C)]
    struct Longer {
        io: coracle_io,
        more: u64,
    }

    fn io(size: usize) -> coracle_io {
        coracle_io { size, flags: 0, fd_in: -1, fd_out: 5, fd_err: -1, rows: 24, cols: 80 }
    }

    fn read(pointer: *const coracle_io) -> Outcome<coracle_io> {
        // SAFETY: coracle_io is a sized struct, and the tests' structs are as long as they say.
        unsafe { sized(pointer, "io") }
    }

    #[test]
    fn a_sized_struct_follows_openat2() {
        let whole = size_of::<coracle_io>();
        assert_eq!(read(&io(whole)).unwrap().cols, 80);
        let short = read(&io(std::mem::offset_of!(coracle_io, rows))).unwrap();
        assert_eq!((short.fd_out, short.rows, short.cols), (5, 0, 0));
        let longer = Longer { io: io(size_of::<Longer>()), more: 0 };
        assert_eq!(read(&longer.io).unwrap().fd_out, 5);
        let used = Longer { more: 1, ..longer };
        assert_eq!(read((&raw const used).cast()).err().map(|f| f.code), Some(CORACLE_EUNSUPPORTED));
        for size in [0, 3, 1 << 40] {
            assert_eq!(read(&io(size)).err().map(|f| f.code), Some(CORACLE_EINVALID));
        }
        assert_eq!(read(std::ptr::null()).err().map(|f| f.code), Some(CORACLE_EINVALID));
    }
}
