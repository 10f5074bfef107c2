//! Numbered steps, as `docker buildx build --progress=plain` shows them:
//!
//! ```text
//! #3 [one 2/3] RUN make
//! #3 0.412 cc -o a a.c
//! #3 DONE 1.3s
//! ```
//!
//! Stages that are built side by side share the numbers, so the number says to which step a line belongs.

use super::short;
use crate::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// The longest line of a process that is kept until it is whole.
const MAX_LINE: usize = 64 << 10;

/// The numbers that were given out.
#[derive(Clone, Default)]
pub(super) struct Numbers(Arc<AtomicUsize>);

impl Numbers {
    fn next(&self) -> usize {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// The steps of one stage.
pub(super) struct Numbered {
    numbers: Numbers,
    stage: String,
    /// The steps of the stage that get a number, and the number of them so far.
    total: usize,
    done: usize,
    step: Option<Running>,
}

/// A step at work.
struct Running {
    number: usize,
    begun: Instant,
    cached: bool,
    /// A line that is not whole.
    line: String,
}

impl Numbered {
    /// `stage`: the name of the stage; empty: it needs none.
    pub(super) fn new(numbers: &Numbers, stage: String, total: usize) -> Numbered {
        Numbered { numbers: numbers.clone(), stage, total, done: 0, step: None }
    }

    pub(super) fn begin(&mut self, code: &str) -> String {
        self.done += 1;
        let number = self.numbers.next();
        self.step = Some(Running { number, begun: Instant::now(), cached: false, line: String::new() });
        let blank = if self.stage.is_empty() { "" } else { " " };
        format!("#{number} [{}{blank}{}/{}] {}\n", self.stage, self.done, self.total, code.replace('\n', " "))
    }

    pub(super) fn is_cached(&mut self) {
        if let Some(step) = &mut self.step {
            step.cached = true;
        }
    }

    /// Text of the step: the lines that are whole, with the step's number and age.
    pub(super) fn log(&mut self, text: &str) -> String {
        let Some(step) = &mut self.step else { return text.to_owned() };
        let mut out = String::new();
        for piece in text.split_inclusive('\n') {
            step.line.push_str(piece);
            if piece.ends_with('\n') || step.line.len() > MAX_LINE {
                out.push_str(&step.take_line());
            }
        }
        out
    }

    pub(super) fn end(&mut self) -> String {
        let Some(mut step) = self.step.take() else { return String::new() };
        let rest = step.take_line();
        let end = if step.cached { "CACHED".into() } else { format!("DONE {:.1}s", step.age()) };
        format!("{rest}#{} {end}\n\n", step.number)
    }

    pub(super) fn failed(&mut self, error: &Error) -> String {
        let Some(mut step) = self.step.take() else { return String::new() };
        format!("{}#{} ERROR: {}\n\n", step.take_line(), step.number, error.message())
    }

    pub(super) fn built(&mut self, id: &str, names: &[String]) -> String {
        let number = self.numbers.next();
        let mut text = format!("#{number} writing image {}\n", short(id));
        names.iter().for_each(|name| text.push_str(&format!("#{number} naming to {name}\n")));
        text + &format!("#{number} DONE\n")
    }
}

impl Running {
    fn age(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    fn take_line(&mut self) -> String {
        match std::mem::take(&mut self.line).trim_end_matches(['\n', '\r']) {
            "" => String::new(),
            line => format!("#{} {:.3} {line}\n", self.number, self.age()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_share_their_numbers() {
        let numbers = Numbers::default();
        let mut one = Numbered::new(&numbers, "one".into(), 3);
        let mut last = Numbered::new(&numbers, String::new(), 2);
        assert_eq!(one.begin("FROM x"), "#1 [one 1/3] FROM x\n");
        assert_eq!(last.begin("FROM y"), "#2 [1/2] FROM y\n");
        one.is_cached();
        assert_eq!(one.end(), "#1 CACHED\n\n");
        assert_eq!(last.log("par"), "");
        let text = last.log("t\n\nrest");
        assert!(text.starts_with("#2 0.") && text.ends_with(" part\n"), "{text}");
        let text = last.end();
        assert!(text.contains(" rest\n#2 DONE 0."), "{text}");
        assert_eq!(one.end(), "");
    }
}
