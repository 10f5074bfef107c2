//! The output of a build, in the classic builder's words and pieces.

use super::{OnProgress, short};
use crate::error::Result;
use crate::model::Progress;
use serde_json::json;
use std::collections::VecDeque;

/// Most messages of a quiet build that are kept for the case that it fails.
const MAX_LAST: usize = 100_000;
/// Most bytes of them.
const MAX_LAST_BYTES: usize = 8 << 20;

pub(super) struct Output<'a> {
    on_progress: OnProgress<'a>,
    /// Of a quiet build: what it would have said.
    last: Option<LastMessages>,
}

/// The last messages, the oldest first.
#[derive(Default)]
struct LastMessages {
    messages: VecDeque<Progress>,
    bytes: usize,
}

impl LastMessages {
    fn push(&mut self, message: Progress) {
        self.bytes += size(&message);
        self.messages.push_back(message);
        while self.messages.len() > MAX_LAST || self.bytes > MAX_LAST_BYTES {
            let Some(oldest) = self.messages.pop_front() else { break };
            self.bytes -= size(&oldest);
        }
    }
}

fn size(message: &Progress) -> usize {
    message.stream.len() + message.status.len() + message.id.len()
}

impl<'a> Output<'a> {
    pub(super) fn new(on_progress: OnProgress<'a>, quiet: bool) -> Output<'a> {
        Output { on_progress, last: quiet.then(LastMessages::default) }
    }

    pub(super) fn message(&mut self, message: Progress) -> Result<()> {
        match &mut self.last {
            None => (self.on_progress)(message),
            Some(last) => {
                last.push(message);
                Ok(())
            }
        }
    }

    pub(super) fn line(&mut self, text: impl Into<String>) -> Result<()> {
        self.message(Progress { stream: text.into(), ..Progress::default() })
    }

    /// Writes text in red, as the classic builder shows a process's stderr.
    pub(super) fn error(&mut self, text: &str) -> Result<()> {
        self.line(format!("\u{1b}[91m{text}\u{1b}[0m"))
    }

    pub(super) fn step(&mut self, number: usize, total: usize, code: &str) -> Result<()> {
        self.line(format!("Step {number}/{total} : {code}"))?;
        self.line("\n")
    }

    /// The image that a step ended with.
    pub(super) fn image(&mut self, id: Option<&str>) -> Result<()> {
        self.line(format!(" ---> {}\n", id.map(short).unwrap_or_default()))
    }

    /// A stage's image, for programs.
    pub(super) fn aux(&mut self, id: &str) -> Result<()> {
        self.message(Progress { aux: Some(json!({ "ID": id })), ..Progress::default() })
    }

    /// The end of a build that succeeded.
    pub(super) fn end(&mut self, id: &str) -> Result<()> {
        match self.last.take() {
            None => Ok(()),
            Some(_) => self.line(format!("{id}\n")),
        }
    }

    /// The end of one that failed.
    pub(super) fn give_up(&mut self) -> Result<()> {
        for message in self.last.take().unwrap_or_default().messages {
            self.message(message)?;
        }
        Ok(())
    }
}
