//! Writing plans: the library's side of [`crate::ops`].

use crate::ops::{END, Field, List, Operation, Out, Text};
use crate::wire::{HEADER_LEN, Header};
use std::marker::PhantomData;

/// A plan being written. Each operation gets the sentence that reports its failure.
#[derive(Default)]
pub struct PlanWriter {
    body: Vec<u8>,
    steps: Vec<String>,
}

impl PlanWriter {
    /// An empty plan.
    pub fn new() -> PlanWriter {
        PlanWriter::default()
    }

    /// The next operation; `sentence` says what it does (`mount proc on /proc`).
    pub fn push<'a, T: Operation<'a>>(&mut self, op: T, sentence: impl Into<String>) {
        self.steps.push(sentence.into());
        self.frame(T::CODE, |body| op.write(body));
    }

    fn frame(&mut self, code: u16, payload: impl FnOnce(&mut Vec<u8>)) {
        self.body.extend_from_slice(&code.to_le_bytes());
        self.body.extend_from_slice(&[0; 6]);
        let start = self.body.len();
        payload(&mut self.body);
        let length = (self.body.len() - start) as u32;
        self.body[start - 4..start].copy_from_slice(&length.to_le_bytes());
    }

    /// The finished plan and the sentences of its steps.
    pub fn finish(mut self, mut header: Header) -> (Vec<u8>, Vec<String>) {
        self.frame(END, |_| {});
        header.length = (HEADER_LEN + self.body.len()) as u32;
        let mut plan = Vec::with_capacity(header.length as usize);
        plan.extend_from_slice(&header.to_bytes());
        plan.extend_from_slice(&self.body);
        (plan, self.steps)
    }
}

impl Out for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// A text with its closing NUL. It may hold any bytes, but those after a NUL are not seen where it is used as a C
/// string.
pub struct Closed(Vec<u8>);

impl Closed {
    /// Closes a text.
    pub fn of(text: impl AsRef<[u8]>) -> Closed {
        Closed([text.as_ref(), b"\0"].concat())
    }

    /// The text as a field.
    pub fn text(&self) -> Text<'_> {
        Text::of(&self.0).unwrap_or(Text::EMPTY)
    }
}

/// Items of one kind, written one behind the other.
pub struct Items<T> {
    count: u32,
    bytes: Vec<u8>,
    kind: PhantomData<T>,
}

impl<'a, T: Field<'a>> Items<T> {
    /// These items, in their order.
    pub fn of(items: impl IntoIterator<Item = T>) -> Items<T> {
        Items::written(items, |item, bytes| item.write(bytes))
    }
}

impl<T> Items<T> {
    fn written<I>(items: impl IntoIterator<Item = I>, write: impl Fn(I, &mut Vec<u8>)) -> Items<T> {
        let mut written = Items { count: 0, bytes: Vec::new(), kind: PhantomData };
        for item in items {
            write(item, &mut written.bytes);
            written.count += 1;
        }
        written
    }

    /// The items as a field.
    pub fn list(&self) -> List<'_, T> {
        List::of(self.count, &self.bytes)
    }
}

impl Items<Text<'static>> {
    /// Texts, closed.
    pub fn texts(texts: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Self {
        Items::written(texts, |text, bytes| Closed::of(text).text().write(bytes))
    }
}

impl Items<(Text<'static>, Text<'static>)> {
    /// Pairs of texts, closed.
    pub fn pairs(pairs: impl IntoIterator<Item = (impl AsRef<[u8]>, impl AsRef<[u8]>)>) -> Self {
        Items::written(pairs, |(a, b), bytes| (Closed::of(a).text(), Closed::of(b).text()).write(bytes))
    }
}
