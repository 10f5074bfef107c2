//! Doors for fuzzers: each takes any bytes, and must neither panic nor hang nor break what it asserts. See `fuzz/`.

#[cfg(test)]
#[path = "../../tests/support/mutate.rs"]
mod mutate;

use crate::wire::*;

/// Takes any bytes.
pub type Target = fn(&[u8]);

/// All of them, by name.
pub const TARGETS: &[(&str, Target)] = &[("plan", plan), ("messages", messages)];

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
