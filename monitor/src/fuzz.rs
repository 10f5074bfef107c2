//! Doors for fuzzers: each takes any bytes, and must neither panic nor hang nor break what it asserts. See `fuzz/`.

#[cfg(test)]
#[path = "../../tests/support/mutate.rs"]
mod mutate;

use crate::question::{self, Likeness, Question};
use crate::wire::*;

/// Takes any bytes.
pub type Target = fn(&[u8]);

/// All of them, by name.
pub const TARGETS: &[(&str, Target)] = &[("plan", plan), ("messages", messages), ("resolver", resolver)];

/// Runs one by name; of an unknown name nothing comes.
pub fn run(name: &str, data: &[u8]) {
    if let Some((_, target)) = TARGETS.iter().find(|(one, _)| *one == name) {
        target(data);
    }
}

/// A plan is taken or not as a whole; of one that is taken every operation lies in it and can be read to its end and
/// beyond.
fn plan(data: &[u8]) {
    let Some((header, ops)) = Ops::of(data) else { return };
    assert_eq!((header.magic, header.version), (PLAN_MAGIC, VERSION));
    let mut count = 0;
    for op in ops {
        let inside = |bytes: &[u8]| bytes.is_empty() || data.as_ptr_range().contains(&bytes.as_ptr());
        let (mut numbers, mut texts) = (op.payload, op.payload);
        for _ in 0..8 {
            let _ = (numbers.u32(), numbers.u64());
            let text = texts.cstr();
            assert_eq!(text.last(), Some(&0));
            assert!(text == b"\0" || inside(text));
            assert!(inside(texts.bytes()));
        }
        count += 1;
    }
    assert!(count <= data.len());
}

/// Everything of fixed size that passes between library and monitor.
fn messages(data: &[u8]) {
    if let Some(request) = Request::from_bytes(data) {
        assert_eq!(Request::from_bytes(&request.to_bytes()).map(|one| one.to_bytes()), Some(request.to_bytes()));
    }
    let _ = data.first_chunk().and_then(Answer::from_bytes);
    if let Some(state) = data.first_chunk().and_then(State::from_bytes) {
        assert_eq!(State::from_bytes(&state.to_bytes()), Some(State { ..state }));
    }
    let _ = data.first_chunk().and_then(ExecState::from_bytes);
    let _ = data.first_chunk().map(|bytes| HealthResult::from_bytes(*bytes));
}

/// A question, after two bytes that are its length; the rest is an answer, and a file of names.
fn resolver(data: &[u8]) {
    let Some((&[a, b], rest)) = data.split_first_chunk() else { return };
    let length = usize::from(u16::from_be_bytes([a, b])).min(rest.len()).min(1232);
    let (query, answer) = rest.split_at(length);
    let _ = question::likeness(query, answer);
    if let Some((network, entries)) = question::names(answer) {
        assert!(question::entries(entries).map(|entry| entry.name.len()).sum::<usize>() <= entries.len());
        let mut name = [0; 256];
        if let Some(entry) = question::entries(entries).next() {
            let _ = (entry.slot, entry.id, entry.v4, entry.v6, entry.first);
            assert!(question::encode_name(&mut name, entry.name, network).is_none_or(|length| length <= 256));
        }
    }
    let Some(question) = Question::read(query) else { return };
    assert!(question.end <= query.len() && question.opcode < 16);
    let _ = (question::reversed(question.name()), question::reversed6(question.name()), question.kind);
    // In another spelling it is the same question, and what answers it answers nothing else.
    let mut asked = query.to_vec();
    let spelling: question::Spelling = core::array::from_fn(|at| answer.get(at).copied().unwrap_or(0x55));
    question::spell(&mut asked, &spelling);
    assert_eq!(Question::read(&asked).map(|asked| asked.end), Some(question.end));
    assert!(asked.eq_ignore_ascii_case(query));
    let mut out = [0; 512];
    let mut answer = question::Answer::new(&mut out, &asked, &question, 0);
    (0..20).for_each(|number| answer.record(1, &[number; 16]));
    let length = answer.finish();
    assert_eq!(question::likeness(&asked, &out[..length]), Likeness::Same);
    if asked[12..question.end] != query[12..question.end] {
        assert_eq!(question::likeness(query, &out[..length]), Likeness::OtherSpelling);
    }
}

#[cfg(test)]
mod tests {
    use super::mutate;

    #[test]
    fn every_target_takes_anything() {
        for (name, target) in super::TARGETS {
            mutate::each(name, 3000, target);
        }
    }
}
