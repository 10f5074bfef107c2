//! The answer of a call, and the places where the caller wants its parts.

use crate::arg::Out;
use crate::attached::SessionObject;
use crate::failure::{Failure, Outcome};
use crate::handle;
use crate::reader::Stream;
use crate::text::Text;
use crate::types::*;
use crate::using::Using;
use engine::{Changed, Session};
use libc::c_char;
use serde::Serialize;
use std::os::fd::RawFd;
use std::time::Instant;

/// The work of a thread. Boxed: one form for all calls keeps the library small.
pub(crate) type Run = Box<dyn FnOnce(&Using) -> Outcome<Answer> + Send>;

/// A wait that needs no thread: the taking of the answer goes on with it when its descriptor is readable or its time has come.
pub(crate) trait Wait: Send {
    fn fd(&self) -> RawFd;
    /// When to go on even if nothing is readable.
    fn deadline(&self) -> Option<Instant> {
        None
    }
    /// Looks, without waiting; `None`: it is not over.
    fn step(&mut self) -> Outcome<Option<Answer>>;
    /// Called when the operation ends before the wait is over.
    fn give_up(&mut self) {}
}

/// The answer of a call that may last: a status, and the parts that the call has.
#[derive(Default)]
pub(crate) struct Answer {
    pub(crate) status: coracle_status,
    id: Option<Text>,
    json: Option<Text>,
    code: Option<i32>,
    session: Option<SessionObject>,
    stream: Option<Stream>,
    /// In place of the answer: it is waited for. Only for operations that do not block.
    pub(crate) wait: Option<Box<dyn Wait>>,
    /// In place of the answer of a wait: the rest of the call, for a thread.
    pub(crate) then: Option<Run>,
}

impl Answer {
    /// Success, and nothing else.
    pub(crate) fn done() -> Answer {
        Answer::default()
    }

    /// Whether something was changed.
    pub(crate) fn changed(changed: Changed) -> Answer {
        let status = match changed {
            Changed::Yes => CORACLE_OK,
            Changed::No => CORACLE_UNCHANGED,
        };
        Answer { status, ..Answer::default() }
    }

    pub(crate) fn document(document: &impl Serialize) -> Outcome<Answer> {
        Answer::default().and_document(document)
    }

    pub(crate) fn and_document(mut self, document: &impl Serialize) -> Outcome<Answer> {
        self.json = Some(Text::json(document)?);
        Ok(self)
    }

    pub(crate) fn id(id: &str) -> Outcome<Answer> {
        Ok(Answer { id: Some(Text::new(id)?), ..Answer::default() })
    }

    /// An exit code, or an HTTP status.
    pub(crate) fn code(code: i32) -> Answer {
        Answer { code: Some(code), ..Answer::default() }
    }

    pub(crate) fn stream(stream: Stream) -> Answer {
        Answer { stream: Some(stream), ..Answer::default() }
    }

    pub(crate) fn and_stream(self, stream: Stream) -> Answer {
        Answer { stream: Some(stream), ..self }
    }

    pub(crate) fn and_session(self, session: Option<Session>) -> Answer {
        Answer { session: session.map(SessionObject::new), ..self }
    }

    /// The answer comes from this wait.
    pub(crate) fn later(wait: impl Wait + 'static) -> Answer {
        Answer { wait: Some(Box::new(wait)), ..Answer::default() }
    }

    /// The answer comes from this work.
    pub(crate) fn then(run: Run) -> Answer {
        Answer { then: Some(run), ..Answer::default() }
    }

    /// The answer as the caller of coracle_op_result gets it.
    pub(crate) fn into_result(self, size: usize) -> coracle_result {
        let text = |text: Option<Text>| text.map_or(std::ptr::null_mut(), Text::into_raw);
        coracle_result {
            size,
            code: self.code.unwrap_or(-1),
            id: text(self.id),
            json: text(self.json),
            session: self.session.map_or(std::ptr::null_mut(), handle::give),
            stream: self.stream.map_or(std::ptr::null_mut(), handle::give),
        }
    }
}

/// The places for the parts of an answer. Each is written at once, so that it is defined whatever happens.
pub(crate) struct Outs {
    id: Out<*mut c_char>,
    json: Out<*mut c_char>,
    code: Out<i32>,
    session: Out<*mut coracle_session>,
    stream: Out<*mut coracle_stream>,
    /// The name of one that must be there and is NULL.
    missing: Option<&'static str>,
}

impl Outs {
    pub(crate) fn none() -> Outs {
        use std::ptr::null_mut;
        Outs {
            id: Out::null(null_mut()),
            json: Out::null(null_mut()),
            code: Out::new(null_mut(), -1),
            session: Out::null(null_mut()),
            stream: Out::null(null_mut()),
            missing: None,
        }
    }

    pub(crate) fn id(mut self, place: *mut *mut c_char) -> Outs {
        self.id = Out::null(place);
        self.must(place.is_null(), "out_id")
    }

    pub(crate) fn json(self, place: *mut *mut c_char) -> Outs {
        self.optional_json(place).must(place.is_null(), "out_json")
    }

    pub(crate) fn optional_json(mut self, place: *mut *mut c_char) -> Outs {
        self.json = Out::null(place);
        self
    }

    pub(crate) fn code(self, place: *mut i32) -> Outs {
        self.optional_code(place, -1).must(place.is_null(), "out_code")
    }

    pub(crate) fn optional_code(mut self, place: *mut i32, empty: i32) -> Outs {
        self.code = Out::new(place, empty);
        self
    }

    /// `must`: whether the call is going to give one.
    pub(crate) fn session(mut self, place: *mut *mut coracle_session, must: bool) -> Outs {
        self.session = Out::null(place);
        self.must(must && place.is_null(), "out")
    }

    pub(crate) fn stream(mut self, place: *mut *mut coracle_stream) -> Outs {
        self.stream = Out::null(place);
        self.must(place.is_null(), "out")
    }

    fn must(mut self, missing: bool, name: &'static str) -> Outs {
        if missing {
            self.missing.get_or_insert(name);
        }
        self
    }

    /// Refuses a call whose answer has no place.
    pub(crate) fn check(&self) -> Outcome<()> {
        self.missing.map_or(Ok(()), |name| Err(Failure::invalid(format!("{name} is NULL"))))
    }

    /// Gives the caller the answer. A part without a place goes.
    pub(crate) fn give(&self, answer: Answer) -> coracle_status {
        if let Some(id) = answer.id {
            self.id.give(id);
        }
        if let Some(json) = answer.json {
            self.json.give(json);
        }
        if let Some(code) = answer.code {
            self.code.set(code);
        }
        if let (Some(session), false) = (answer.session, self.session.is_null()) {
            self.session.set(handle::give(session));
        }
        if let (Some(stream), false) = (answer.stream, self.stream.is_null()) {
            self.stream.set(handle::give(stream));
        }
        answer.status
    }
}
