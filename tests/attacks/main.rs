//! The gauntlet: attacks that were published against container engines, and those of our own reviews, tried on this one.
//!
//! `rows.tsv` lists the attacks. A mark above a test, here or in another suite, says which attacks the test would notice
//! and which switch makes it red: `// attack: 4, R1 wall masked-paths`. `docs/attacks.md` is made of both ([`page`]).
//! A test asserts that the attack's precondition was reached (the server answered, the newcomer was seen, the packet was
//! sent) and that the attack failed. `make attacks` (`tests/attacks/run`) switches each wall off in turn and wants the
//! marked tests red and their neighbours green. Beside the root of each test lies a canary that nobody may touch ([`canary`]).

#[path = "../support/mod.rs"]
#[allow(dead_code)]
mod support;

mod alone;
mod apparmor;
mod archives;
mod builds;
mod canary;
mod configurations;
mod copies;
mod doors;
mod entry;
mod hostile;
#[allow(dead_code)]
mod images;
#[cfg(target_arch = "x86_64")]
mod kernel;
mod monitor;
mod network;
mod newcomers;
mod page;
mod programs;
mod races;
mod registries;
mod repositories;
mod runtime;
mod selinux;
mod trees;
mod users;

use canary::{behind, beside};
