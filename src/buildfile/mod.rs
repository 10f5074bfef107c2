//! The language of build files, as text: lines ([`lines`]), instructions ([`instruction`]) and what they do to a
//! configuration ([`apply`]), variables ([`expand`]) and their bounds ([`budget`]), and the patterns of ignore files
//! ([`ignore`]). Pure: nothing here looks at a file or an image.
//!
//! Texts of errors are those of docker 20.10, which clients and people know.

mod apply;
mod budget;
mod expand;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod go_format;
mod ignore;
mod instruction;
mod lines;
mod pattern;
mod run_mount;

pub(crate) use apply::{of_env, shell};
pub(crate) use budget::{Budget, check_all};
pub(crate) use expand::Expander;
pub(crate) use go_format::{quoted, shown_list};
pub(crate) use ignore::{Matched, Patterns, glob};
pub(crate) use instruction::{
    Copy, Instruction, PIPES, Run, RunNetwork, Stage, Step, parse_changes, parse_one, parse_stages,
};
pub(crate) use lines::{Heredoc, Source};
pub(crate) use run_mount::{RunMount, RunMountKind, Sharing};
