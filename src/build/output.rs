//! The output of a build: in the classic builder's words and pieces, or in numbered steps.

use super::numbered::{Numbered, Numbers};
use super::short;
use crate::error::{Error, Result};
use crate::model::Progress;
use serde_json::json;
use std::collections::VecDeque;

/// Most messages of a quiet build that are kept for the case that it fails.
const MAX_LAST: usize = 100_000;
/// Most bytes of them.
const MAX_LAST_BYTES: usize = 8 << 20;

/// Takes the messages of a build.
pub(super) type Sink<'a> = Box<dyn FnMut(Progress) -> Result<()> + 'a>;

pub(super) struct Output<'a> {
    sink: Sink<'a>,
    /// Of a quiet build: what it would have said.
    last: Option<LastMessages>,
    /// Absent: the classic builder's form.
    numbered: Option<Numbered>,
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
    pub(super) fn new(sink: Sink<'a>, quiet: bool) -> Output<'a> {
        Output { sink, last: quiet.then(LastMessages::default), numbered: None }
    }

    /// One of numbered steps.
    pub(super) fn numbered(sink: Sink<'a>, numbered: Numbered) -> Output<'a> {
        Output { sink, last: None, numbered: Some(numbered) }
    }

    /// From here on the output is of numbered steps.
    pub(super) fn number(&mut self, numbers: &Numbers) {
        self.numbered = Some(Numbered::new(numbers, String::new(), 0));
    }

    pub(super) fn message(&mut self, message: Progress) -> Result<()> {
        match &mut self.last {
            None => (self.sink)(message),
            Some(last) => {
                last.push(message);
                Ok(())
            }
        }
    }

    /// Text as it is; in numbered steps a part of the present one.
    pub(super) fn line(&mut self, text: impl Into<String>) -> Result<()> {
        let text = text.into();
        let text = match &mut self.numbered {
            None => text,
            Some(numbered) => numbered.log(&text),
        };
        self.text(text)
    }

    fn text(&mut self, stream: String) -> Result<()> {
        if stream.is_empty() && self.numbered.is_some() {
            return Ok(());
        }
        self.message(Progress { stream, ..Progress::default() })
    }

    /// Writes text in red, as the classic builder shows a process's stderr.
    pub(super) fn error(&mut self, text: &str) -> Result<()> {
        match self.numbered {
            None => self.text(format!("\u{1b}[91m{text}\u{1b}[0m")),
            Some(_) => self.line(text),
        }
    }

    /// A step begins. `counts`: it does more than change the configuration.
    pub(super) fn step(&mut self, number: usize, total: usize, code: &str, counts: bool) -> Result<()> {
        if let Some(numbered) = &mut self.numbered {
            let begun = if counts { numbered.begin(code) } else { String::new() };
            return self.text(begun);
        }
        self.text(format!("Step {number}/{total} : {code}"))?;
        self.text("\n".into())
    }

    /// The present step is here already.
    pub(super) fn cached(&mut self) -> Result<()> {
        match &mut self.numbered {
            None => self.text(" ---> Using cache\n".into()),
            Some(numbered) => {
                numbered.is_cached();
                Ok(())
            }
        }
    }

    pub(super) fn running_in(&mut self, container: &str) -> Result<()> {
        self.classic(|| format!(" ---> Running in {container}\n"))
    }

    pub(super) fn removed(&mut self, container: &str) -> Result<()> {
        self.classic(|| format!("Removing intermediate container {container}\n"))
    }

    /// Text that numbered steps do not have.
    fn classic(&mut self, text: impl FnOnce() -> String) -> Result<()> {
        match self.numbered {
            None => self.text(text()),
            Some(_) => Ok(()),
        }
    }

    /// The image that a step ended with.
    pub(super) fn image(&mut self, id: Option<&str>) -> Result<()> {
        let text = match &mut self.numbered {
            None => format!(" ---> {}\n", id.map(short).unwrap_or_default()),
            Some(numbered) => numbered.end(),
        };
        self.text(text)
    }

    /// The present step failed.
    pub(super) fn failed(&mut self, error: &Error) -> Result<()> {
        let text = self.numbered.as_mut().map(|numbered| numbered.failed(error)).unwrap_or_default();
        if text.is_empty() { Ok(()) } else { self.text(text) }
    }

    /// A stage's image, for programs.
    pub(super) fn aux(&mut self, id: &str) -> Result<()> {
        self.message(Progress { aux: Some(json!({ "ID": id })), ..Progress::default() })
    }

    /// The image that a build's images were squashed to, for programs.
    pub(super) fn squashed(&mut self, id: &str) -> Result<()> {
        let aux = Some(json!({ "ID": id }));
        self.message(Progress { id: "moby.image.id".into(), aux, ..Progress::default() })
    }

    /// Names arguments that were given for nothing.
    pub(super) fn warn_of_unused(&mut self, args: &[String]) -> Result<()> {
        match args {
            [] => Ok(()),
            args => self.line(format!("[Warning] One or more build-args [{}] were not consumed\n", args.join(" "))),
        }
    }

    /// The image of a build that succeeded, and its names.
    pub(super) fn built(&mut self, id: &str, names: &[String]) -> Result<()> {
        if let Some(numbered) = &mut self.numbered {
            let text = numbered.built(id, names);
            return self.text(text);
        }
        self.text(format!("Successfully built {}\n", short(id)))?;
        names.iter().try_for_each(|name| self.text(format!("Successfully tagged {name}\n")))
    }

    /// The end of a build that succeeded.
    pub(super) fn end(&mut self, id: &str) -> Result<()> {
        match self.last.take() {
            None => Ok(()),
            Some(_) => (self.sink)(Progress { stream: format!("{id}\n"), ..Progress::default() }),
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
