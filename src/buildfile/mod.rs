//! The language of build files, as text: lines ([`lines`]), instructions ([`instruction`]) and what they do to a
//! configuration ([`apply`]), variables ([`expand`]), and the patterns of ignore files ([`ignore`]). Pure: nothing here
//! looks at a file or an image.
//!
//! Texts of errors are those of docker 20.10, which clients and people know.

mod apply;
mod expand;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod go_format;
mod ignore;
mod instruction;
mod lines;

pub(crate) use apply::{of_env, shell};
pub(crate) use expand::{Budget, Expander, check_all};
pub(crate) use go_format::{quoted, shown_list};
pub(crate) use ignore::{Patterns, glob};
pub(crate) use instruction::{Copy, Instruction, Run, RunNetwork, Stage, Step, parse_changes, parse_one, parse_stages};
pub(crate) use lines::{Heredoc, Source};
